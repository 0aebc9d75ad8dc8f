//! The coordinator: admits members, releases them together at points, gathers their results.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::line::{self, Reader, Writer};
use super::{
    ALIVE_EVERY, FromCoordinator, FromMember, HELLO_BYTES_MAX, HELLO_WAIT, Identity, LINE_BYTES_MAX, PROTOCOL,
    SILENCE_MAX,
};
use crate::error::{Error, Result};
use crate::result::RunResult;

/// Capacity of the queue of events for the coordinator's thread.
const EVENTS: usize = 256;
/// Most connections that have not been welcomed yet.
const PENDING_MAX: usize = 64;
/// Longest time between two checks of the stop flag.
const TICK: Duration = Duration::from_millis(50);
/// Round trips measured per member and point.
const PINGS: u32 = 5;
/// Longest wait for a pong; later ones are ignored.
const PING_MAX: Duration = Duration::from_secs(2);
/// Lead time of a `go` message, in addition to four round trips.
const AHEAD: Duration = Duration::from_millis(20);

/// A coordinator that is bound to its address.
pub(crate) struct Coordinator {
    listener: TcpListener,
    members: u64,
    token: String,
    identity: Identity,
    /// Longest time for all members to join.
    patience: Duration,
}

/// Results of a distributed run.
#[derive(Debug)]
pub(crate) struct ClusterResults {
    /// In the order of the members' indices, without the missing ones.
    pub(crate) results: Vec<RunResult>,
    /// For each member without a result: which one, and the reason.
    pub(crate) missing: Vec<String>,
    /// Notes for the report: the skew at points, refused members.
    pub(crate) notes: Vec<String>,
}

/// An event of one connection.
struct Event {
    connection: u64,
    at: Instant,
    kind: EventKind,
}

enum EventKind {
    Hello { writer: Arc<Writer>, peer: String, protocol: u32, token: String, identity: Box<Identity> },
    Message(FromMember),
    Lost(Error),
}

struct Seat {
    connection: u64,
    peer: String,
    writer: Arc<Writer>,
    state: State,
    /// Shortest round trip measured at the latest point.
    round_trip: Duration,
}

#[derive(Debug, PartialEq)]
enum State {
    Running,
    Waiting(String),
    /// Still running, but takes part in no later point.
    Left,
    Done(Box<Outcome>),
}

#[derive(Debug)]
enum Outcome {
    Result(Box<RunResult>),
    Missing(String),
}

impl PartialEq for Outcome {
    fn eq(&self, other: &Outcome) -> bool {
        matches!((self, other), (Outcome::Missing(a), Outcome::Missing(b)) if a == b)
    }
}

impl Coordinator {
    /// Listens on `address` for `members` members with the same identity and token.
    ///
    /// # Errors
    /// `members` is 0, or the address cannot be bound.
    pub(crate) fn bind(address: &str, members: u64, token: &str, identity: Identity) -> Result<Coordinator> {
        if members == 0 {
            return Err(Error::setup("--members 0: expected at least one member"));
        }
        let listener = TcpListener::bind(address).map_err(|error| Error::socket(address, &error))?;
        let patience = Duration::from_secs(300);
        Ok(Coordinator { listener, members, token: token.to_owned(), identity, patience })
    }

    /// Replaces the default of 300 s for all members to join.
    #[cfg(test)]
    pub(super) fn patience(mut self, patience: Duration) -> Coordinator {
        self.patience = patience;
        self
    }

    /// The address that the coordinator listens on.
    pub(crate) fn address(&self) -> Result<SocketAddr> {
        self.listener.local_addr().map_err(|error| Error::socket("coordinator", &error))
    }

    /// Runs until every member has sent its result or is lost. `stop` ends the run early; `show`
    /// receives progress messages.
    ///
    /// # Errors
    /// Not all members joined in time, or no member sent a result.
    pub(crate) fn run(self, stop: &AtomicBool, show: &mut dyn FnMut(&str)) -> Result<ClusterResults> {
        let (sender, events) = sync_channel(EVENTS);
        let closing = Arc::new(AtomicBool::new(false));
        let listener = self.listener.try_clone().map_err(|error| Error::socket("coordinator", &error))?;
        let flag = Arc::clone(&closing);
        let acceptor = std::thread::spawn(move || accept(&listener, &sender, &flag));
        let mut run = Run {
            coordinator: &self,
            events,
            seats: Vec::new(),
            notes: Vec::new(),
            skew: Duration::ZERO,
            round_trip: Duration::ZERO,
            points: 0,
            alive_sent: Instant::now(),
            stopped: false,
        };
        let outcome = run.join(stop, show).and_then(|()| run.run_until_done(stop, show));
        closing.store(true, Ordering::Relaxed);
        // Members that still wait see the closed connection.
        run.seats.iter().for_each(|seat| seat.writer.close());
        let results = outcome.map(|()| run.take_results());
        drop(run);
        // The run is over: a panic of the acceptor thread no longer matters.
        let _ = acceptor.join();
        results?
    }
}

struct Run<'a> {
    coordinator: &'a Coordinator,
    events: Receiver<Event>,
    seats: Vec<Seat>,
    notes: Vec<String>,
    /// Greatest skew between members at a point, and the longest round trip at any point (the error
    /// of that skew).
    skew: Duration,
    round_trip: Duration,
    points: u32,
    alive_sent: Instant,
    stopped: bool,
}

impl Run<'_> {
    /// Admits members until all seats are taken.
    fn join(&mut self, stop: &AtomicBool, show: &mut dyn FnMut(&str)) -> Result {
        let began = Instant::now();
        while (self.seats.len() as u64) < self.coordinator.members {
            if stop.load(Ordering::Relaxed) {
                return Err(Error::setup("stopped before all members had joined"));
            }
            if began.elapsed() > self.coordinator.patience {
                let (have, want) = (self.seats.len(), self.coordinator.members);
                let seconds = self.coordinator.patience.as_secs();
                return Err(Error::setup(format!("{have} of {want} members joined within {seconds} s")));
            }
            if let Some(event) = self.next_event(TICK) {
                self.handle(event, show);
            }
            self.send_alive();
        }
        Ok(())
    }

    fn handle(&mut self, event: Event, show: &mut dyn FnMut(&str)) {
        let EventKind::Hello { writer, peer, protocol, token, identity } = event.kind else {
            return self.handle_message(event, show);
        };
        let coordinator = self.coordinator;
        let full = self.seats.len() as u64 == coordinator.members;
        let refusal = if protocol != PROTOCOL {
            Some(format!("protocol {protocol}, the coordinator speaks {PROTOCOL}"))
        } else if !same_token(&token, &coordinator.token) {
            Some("the token differs".to_owned())
        } else if full {
            Some(format!("all {} members have joined", coordinator.members))
        } else {
            coordinator.identity.difference(&identity)
        };
        if let Some(why) = refusal {
            show(&format!("refused {peer}: {why}"));
            self.notes.push(format!("refused {peer}: {why}"));
            // If the refusal is not delivered, the member sees the closed connection.
            let _ = writer.send(&FromCoordinator::Refused { why });
            writer.close();
            return;
        }
        let (index, members) = (self.seats.len() as u64, coordinator.members);
        if writer.send(&FromCoordinator::Welcome { index, members }).is_err() {
            return;
        }
        show(&format!("member {index} of {members}: {peer}"));
        let connection = event.connection;
        self.seats.push(Seat { connection, peer, writer, state: State::Running, round_trip: Duration::ZERO });
    }

    /// Handles events until every member is done.
    fn run_until_done(&mut self, stop: &AtomicBool, show: &mut dyn FnMut(&str)) -> Result {
        while self.seats.iter().any(|seat| !seat.is_done()) {
            if stop.load(Ordering::Relaxed) && !self.stopped {
                self.stopped = true;
                self.broadcast(&FromCoordinator::Stop { why: "interrupted at the coordinator".to_owned() });
            }
            if let Some(event) = self.next_event(TICK) {
                self.handle(event, show);
            }
            self.send_alive();
            self.release_if_all_wait(show);
        }
        Ok(())
    }

    fn next_event(&self, wait: Duration) -> Option<Event> {
        self.events.recv_timeout(wait).ok()
    }

    fn handle_message(&mut self, event: Event, show: &mut dyn FnMut(&str)) {
        let Some(index) = self.seats.iter().position(|seat| seat.connection == event.connection) else { return };
        let seat = &mut self.seats[index];
        if seat.is_done() {
            return;
        }
        let missing = |why: String| State::Done(Box::new(Outcome::Missing(why)));
        match event.kind {
            EventKind::Message(FromMember::At { point }) => seat.state = State::Waiting(point),
            EventKind::Message(FromMember::Leave) => seat.state = State::Left,
            EventKind::Message(FromMember::Result { result }) => {
                // If the acknowledgement is not delivered, the member reports it to its user.
                let _ = seat.writer.send(&FromCoordinator::Thanks);
                seat.state = State::Done(Box::new(Outcome::Result(result)));
                show(&format!("member {index}: done"));
            }
            EventKind::Message(FromMember::Failed { message }) => {
                let _ = seat.writer.send(&FromCoordinator::Thanks);
                show(&format!("member {index} failed: {message}"));
                seat.state = missing(format!("member {index} ({}) failed: {message}", seat.peer));
            }
            EventKind::Message(FromMember::Alive | FromMember::Pong { .. } | FromMember::Started { .. }) => {}
            EventKind::Message(FromMember::Hello { .. }) => {
                seat.state = missing(format!("member {index} ({}) said hello twice", seat.peer));
                seat.writer.close();
            }
            EventKind::Lost(error) => {
                show(&format!("member {index} is lost: {error}"));
                seat.state = missing(format!("member {index} ({}) was lost: {error}", seat.peer));
            }
            EventKind::Hello { .. } => {}
        }
    }

    /// Releases the members when all participating ones wait at the same point.
    fn release_if_all_wait(&mut self, show: &mut dyn FnMut(&str)) {
        if self.seats.iter().any(|seat| seat.state == State::Running) {
            return;
        }
        let waiting = |seat: &Seat| match &seat.state {
            State::Waiting(point) => Some(point.clone()),
            _ => None,
        };
        let mut points: Vec<String> = self.seats.iter().filter_map(waiting).collect();
        points.sort();
        points.dedup();
        match points.as_slice() {
            [] => {}
            [point] => self.release(&point.clone(), show),
            _ => {
                let why = format!("members wait at different points: {}", points.join(", "));
                show(&why);
                self.notes.push(why.clone());
                for index in 0..self.seats.len() {
                    if matches!(self.seats[index].state, State::Waiting(_)) {
                        let peer = &self.seats[index].peer;
                        let missing = Outcome::Missing(format!("member {index} ({peer}): {why}"));
                        self.seats[index].state = State::Done(Box::new(missing));
                        self.seats[index].writer.close();
                    }
                }
            }
        }
    }

    fn release(&mut self, point: &str, show: &mut dyn FnMut(&str)) {
        self.measure_round_trips(show);
        let longest = self.waiting().map(|seat| seat.round_trip).max().unwrap_or_default();
        let start = Instant::now() + AHEAD + 4 * longest;
        for seat in self.waiting() {
            let until = start.saturating_duration_since(Instant::now());
            // The message takes about half a round trip.
            let in_us = until.saturating_sub(seat.round_trip / 2).as_micros() as u64;
            // A failed send is reported by the thread that receives from this connection.
            let _ = seat.writer.send(&FromCoordinator::Go { point: point.to_owned(), in_us });
        }
        for seat in &mut self.seats {
            if matches!(seat.state, State::Waiting(_)) {
                seat.state = State::Running;
            }
        }
        self.observe_start(point, longest, show);
    }

    fn waiting(&self) -> impl Iterator<Item = &Seat> {
        self.seats.iter().filter(|seat| matches!(seat.state, State::Waiting(_)))
    }

    /// Measures the round trip to each waiting member: the shortest of [`PINGS`].
    fn measure_round_trips(&mut self, show: &mut dyn FnMut(&str)) {
        self.seats.iter_mut().for_each(|seat| seat.round_trip = PING_MAX);
        for number in 0..PINGS {
            let mut sent = BTreeMap::new();
            for seat in self.waiting() {
                if seat.writer.send(&FromCoordinator::Ping { number }).is_ok() {
                    sent.insert(seat.connection, Instant::now());
                }
            }
            let deadline = Instant::now() + PING_MAX;
            while !sent.is_empty() && Instant::now() < deadline {
                let Some(event) = self.next_event(TICK) else { continue };
                match (&event.kind, sent.get(&event.connection)) {
                    (EventKind::Message(FromMember::Pong { number: seen }), Some(began)) if *seen == number => {
                        let took = event.at.saturating_duration_since(*began);
                        sent.remove(&event.connection);
                        let seat = self.seats.iter_mut().find(|seat| seat.connection == event.connection);
                        if let Some(seat) = seat {
                            seat.round_trip = seat.round_trip.min(took);
                        }
                    }
                    (EventKind::Lost(_), _) => {
                        sent.remove(&event.connection);
                        self.handle(event, show);
                    }
                    _ => self.handle(event, show),
                }
            }
        }
    }

    /// Computes the skew with which the members passed the point, from the arrival of their
    /// `started` messages.
    fn observe_start(&mut self, point: &str, longest: Duration, show: &mut dyn FnMut(&str)) {
        let mut expected: Vec<u64> =
            self.seats.iter().filter(|seat| seat.state == State::Running).map(|seat| seat.connection).collect();
        let mut starts: Vec<Instant> = Vec::new();
        let deadline = Instant::now() + AHEAD + 4 * longest + PING_MAX;
        while !expected.is_empty() && Instant::now() < deadline {
            let Some(event) = self.next_event(TICK) else { continue };
            let seat = self.seats.iter().find(|seat| seat.connection == event.connection);
            match (&event.kind, seat) {
                (EventKind::Message(FromMember::Started { point: passed }), Some(seat)) if passed == point => {
                    starts.extend(event.at.checked_sub(seat.round_trip / 2));
                    expected.retain(|connection| *connection != event.connection);
                }
                (EventKind::Lost(_), _) => {
                    expected.retain(|connection| *connection != event.connection);
                    self.handle(event, show);
                }
                _ => self.handle(event, show),
            }
        }
        if let (Some(first), Some(last)) = (starts.iter().min(), starts.iter().max()) {
            self.skew = self.skew.max(*last - *first);
            self.round_trip = self.round_trip.max(longest);
            self.points += 1;
        }
    }

    fn send_alive(&mut self) {
        if self.alive_sent.elapsed() >= ALIVE_EVERY {
            self.alive_sent = Instant::now();
            self.broadcast(&FromCoordinator::Alive);
        }
    }

    fn broadcast(&self, message: &FromCoordinator) {
        for seat in self.seats.iter().filter(|seat| !seat.is_done()) {
            // A failed send is reported by the thread that receives from this connection.
            let _ = seat.writer.send(message);
        }
    }

    fn take_results(&mut self) -> Result<ClusterResults> {
        let (mut results, mut missing) = (Vec::new(), Vec::new());
        for seat in self.seats.drain(..) {
            match seat.state {
                State::Done(outcome) => match *outcome {
                    Outcome::Result(result) => results.push(*result),
                    Outcome::Missing(why) => missing.push(why),
                },
                state => missing.push(format!("{} ended as {state:?}", seat.peer)),
            }
        }
        if results.is_empty() {
            return Err(Error::setup(format!("no member sent a result: {}", missing.join("; "))));
        }
        let mut notes = std::mem::take(&mut self.notes);
        if self.points > 0 {
            notes.push(format!(
                "{} members passed {} points together, at most {:.3} ms apart as seen over round trips of up to {:.3} ms",
                results.len() + missing.len(),
                self.points,
                self.skew.as_secs_f64() * 1e3,
                self.round_trip.as_secs_f64() * 1e3
            ));
        }
        Ok(ClusterResults { results, missing, notes })
    }
}

impl Seat {
    fn is_done(&self) -> bool {
        matches!(self.state, State::Done(_))
    }
}

/// Compares without an early exit: the time does not depend on the position of the first wrong
/// byte.
fn same_token(seen: &str, expected: &str) -> bool {
    let difference = seen.bytes().zip(expected.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
    seen.len() == expected.len() && difference == 0
}

/// Accepts connections until `closing` is set, and starts a thread for each.
fn accept(listener: &TcpListener, events: &SyncSender<Event>, closing: &AtomicBool) {
    let pending = Arc::new(Mutex::new(0usize));
    let mut connection = 0;
    if listener.set_nonblocking(true).is_err() {
        return;
    }
    while !closing.load(Ordering::Relaxed) {
        let Ok((stream, peer)) = listener.accept() else {
            std::thread::sleep(TICK);
            continue;
        };
        connection += 1;
        let counted = {
            let mut pending = pending.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let room = *pending < PENDING_MAX;
            *pending += usize::from(room);
            room
        };
        if !counted || stream.set_nonblocking(false).is_err() {
            continue;
        }
        let (events, pending) = (events.clone(), Arc::clone(&pending));
        std::thread::spawn(move || {
            let welcomed = greet(stream, peer, connection, &events);
            *pending.lock().unwrap_or_else(std::sync::PoisonError::into_inner) -= 1;
            if let Some(mut reader) = welcomed {
                listen(&mut reader, connection, &events);
            }
        });
    }
}

/// Receives the `hello` and queues it with the sending half of the connection.
fn greet(stream: TcpStream, peer: SocketAddr, connection: u64, events: &SyncSender<Event>) -> Option<Reader> {
    let peer = peer.to_string();
    let (writer, mut reader) = line::split(stream, &peer).ok()?;
    let message = reader.next(HELLO_BYTES_MAX, HELLO_WAIT);
    let Ok(FromMember::Hello { protocol, token, identity }) = message else {
        writer.close();
        return None;
    };
    let kind = EventKind::Hello { writer: Arc::new(writer), peer, protocol, token, identity: Box::new(identity) };
    events.send(Event { connection, at: Instant::now(), kind }).ok()?;
    Some(reader)
}

/// Queues the member's messages until the connection is lost.
fn listen(reader: &mut Reader, connection: u64, events: &SyncSender<Event>) {
    loop {
        let message = reader.next(LINE_BYTES_MAX, SILENCE_MAX);
        let at = Instant::now();
        let lost = message.is_err();
        let kind = message.map_or_else(EventKind::Lost, EventKind::Message);
        if events.send(Event { connection, at, kind }).is_err() || lost {
            return;
        }
    }
}
