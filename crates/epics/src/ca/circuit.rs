//! A circuit: one TCP connection to a server, shared by all channels of one priority.
//!
//! A circuit is a task that owns its channels. It ends when the connection does, or when it has had no channel for a while;
//! it then gives its channels back, after their `Disconnected` events are in the queue. So events of a channel stay in order across
//! circuits, and a consumer that stops reading also stops reconnections.
//!
//! Back-pressure: while the queue is full the circuit keeps reading, asks the server to withhold updates (`EVENTS_OFF`), keeps up to
//! 1 MiB, and drops and counts further samples. `EVENTS_ON` follows when half of the queue is free.

use std::collections::VecDeque;
use std::net::SocketAddrV4;
use std::pin::pin;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::dbr::{NativeType, Shape, decode_control, decode_time, encode_control};
use super::protocol::{
    Access, ECA_NORMAL, EventMask, Frame, Header, MINOR_VERSION, Request, Response, command, first_frame,
};
use super::{Clock, Options, Settings, Statistics};
use crate::client::connection::{
    CHECK_PERIOD, LINGER, OUT_BYTES_MAX, ReadBuffer, STABLE_AFTER, Silence, Step, connect,
};
use crate::client::event::{ChannelId, DropReason, Event, Outbox, Queue, Reason, Update};
use crate::sample::Nanos;

/// First server version that takes a count of 0 as the actual length.
const MINOR_OF_ACTUAL_COUNT: u16 = 13;

/// Key of a circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct CircuitId {
    pub(super) address: SocketAddrV4,
    pub(super) priority: u8,
}

/// An order of the director to a circuit.
pub(super) enum Order {
    Add {
        channel: u32,
        name: Arc<str>,
        options: Options,
    },
    Remove {
        channel: u32,
    },
    /// Report that another server has a channel's name, too.
    AlsoAt {
        channel: u32,
        address: SocketAddrV4,
    },
    /// Check that the server answers.
    Probe,
}

/// A report to the director.
pub(super) enum Report {
    /// A server ended a channel, or did not open it.
    Returned { channel: u32, was_open: bool },
    /// The circuit has ended; all its channels are returned. `stable`: it has served channels for a while.
    Ended { circuit: CircuitId, stable: bool, channels: Vec<u32> },
    /// A name server found a name.
    Found { channel: u32, address: SocketAddrV4, minor: u16 },
    /// A name server can be reached (again).
    NameServerUp,
}

/// Things that all circuits share.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) settings: Arc<Settings>,
    pub(super) clock: Clock,
    pub(super) queue: Queue,
    pub(super) reports: mpsc::Sender<Report>,
    pub(super) statistics: Arc<Statistics>,
}

struct Channel {
    options: Options,
    access: Access,
    state: State,
    /// Metadata as last reported, encoded; empty before.
    metadata: Box<[u8]>,
    /// Number of the circuit's last flow control at the last sample.
    withheld: u32,
}

#[derive(Clone, Copy)]
enum State {
    Creating { since: Instant },
    Open { server_channel: u32, native: NativeType, count: u32 },
}

/// The end of a circuit.
enum End {
    /// For this reason.
    Lost(Reason),
    /// No channel is left.
    Idle,
    /// The client has ended.
    Client,
}

pub(super) struct Circuit {
    id: CircuitId,
    minor: u16,
    shared: Shared,
    orders: mpsc::UnboundedReceiver<Order>,
    channels: FxHashMap<u32, Channel>,
    outbox: Outbox,
    /// Bytes for the server.
    out: Vec<u8>,
    /// Whether the server was asked to withhold updates.
    withholding: bool,
    /// Times that it was asked to.
    withheld: u32,
    silence: Silence,
    /// Whether the server has sent a message of Channel Access.
    answered: bool,
    /// Time at which the first channel was opened.
    opened: Option<Instant>,
    /// Time of the last check.
    checked: Instant,
    idle_since: Option<Instant>,
    /// Channels that the server was asked to open, in order; those that are open by now too.
    creating: VecDeque<(Instant, u32)>,
    /// Channels that the server has ended, and whether they were open.
    returned: Vec<(u32, bool)>,
    /// Samples since the last update of the statistics.
    samples: u64,
}

impl Circuit {
    /// - `minor`: version of the server, as far as known.
    pub(super) fn new(id: CircuitId, minor: u16, orders: mpsc::UnboundedReceiver<Order>, shared: Shared) -> Circuit {
        Circuit {
            id,
            minor,
            orders,
            channels: FxHashMap::default(),
            outbox: Outbox::new(shared.queue.clone()),
            out: Vec::new(),
            withholding: false,
            withheld: 0,
            silence: Silence::new(shared.settings.connection_timeout),
            answered: false,
            opened: None,
            checked: Instant::now(),
            idle_since: None,
            creating: VecDeque::new(),
            returned: Vec::new(),
            samples: 0,
            shared,
        }
    }

    /// Runs the circuit to its end.
    pub(super) async fn run(mut self) {
        let end = match connect(self.id.address, self.shared.settings.connection_timeout).await {
            Ok(stream) => {
                self.shared.statistics.circuits.add(1);
                let end = self.serve(stream).await;
                self.shared.statistics.circuits.subtract(1);
                end
            }
            Err(_) => End::Lost(Reason::CircuitClosed),
        };
        let reason = match end {
            End::Client => return,
            End::Idle => Reason::CircuitClosed,
            End::Lost(reason) => reason,
        };
        self.orders.close();
        while let Some(order) = self.orders.recv().await {
            self.obey(order);
        }
        let now = (self.shared.clock)();
        let mut channels: Vec<u32> = self.channels.keys().copied().collect();
        for &channel in &channels {
            self.close(channel, reason, now);
        }
        channels.extend(self.returned.iter().map(|&(channel, _)| channel));
        if self.outbox.drain().await.is_ok() {
            let stable = self.opened.is_some_and(|opened| opened.elapsed() >= STABLE_AFTER);
            let _ = self.shared.reports.send(Report::Ended { circuit: self.id, stable, channels }).await;
        }
    }

    async fn serve(&mut self, mut stream: TcpStream) -> End {
        let (mut reader, mut writer) = stream.split();
        let mut input = ReadBuffer::new();
        greet(&self.shared.settings, self.id.priority, &mut self.out);
        self.silence.heard(Instant::now());
        let mut check = pin!(sleep_until(Instant::now()));
        loop {
            let due = self.check_due();
            if due < check.deadline() {
                check.as_mut().reset(due);
            }
            tokio::select! {
                read = reader.read(input.space()), if !self.outbox.is_overfull() => match read {
                    Ok(0) | Err(_) => return End::Lost(Reason::CircuitClosed),
                    Ok(bytes) => {
                        if let Err(end) = self.received(&mut input, bytes) {
                            return end;
                        }
                    }
                },
                written = writer.write(&self.out), if !self.out.is_empty() => match written {
                    Ok(0) | Err(_) => return End::Lost(Reason::CircuitClosed),
                    Ok(bytes) => drop(self.out.drain(..bytes)),
                },
                order = self.orders.recv() => match order {
                    Some(order) => self.obey(order),
                    None => return End::Client,
                },
                granted = self.outbox.granted() => match granted {
                    Ok(()) => self.outbox.report_all_dropped((self.shared.clock)()),
                    Err(_) => return End::Client,
                },
                () = &mut check => {
                    if let Err(end) = self.check(Instant::now()).await {
                        return end;
                    }
                    check.as_mut().reset(self.check_due());
                },
            }
        }
    }

    /// Handles `bytes` that were read into `input`.
    fn received(&mut self, input: &mut ReadBuffer, bytes: usize) -> Result<(), End> {
        let received = (self.shared.clock)();
        self.silence.heard(Instant::now());
        input.filled(bytes);
        let limit = self.shared.settings.max_array_bytes;
        loop {
            match first_frame(input.bytes(), limit) {
                Frame::Message { header, payload, bytes } => {
                    self.message(&header, payload, received)?;
                    input.consume(bytes as u64);
                }
                Frame::Incomplete { bytes } => {
                    input.make_room(bytes);
                    break;
                }
                Frame::TooLarge { header, bytes } => {
                    self.too_large(&header)?;
                    input.consume(bytes);
                }
            }
        }
        self.shared.statistics.samples.add(std::mem::take(&mut self.samples));
        self.outbox.flush();
        if self.outbox.is_blocked() && !self.withholding {
            self.withholding = true;
            self.shared.statistics.flow_controls.add(1);
            Request::EventsOff.encode(&mut self.out);
        }
        Ok(())
    }

    fn message(&mut self, header: &Header, payload: &[u8], received: Nanos) -> Result<(), End> {
        let response = match Response::decode(header, payload) {
            Ok(Some(response)) => response,
            Ok(None) | Err(_) => {
                self.shared.statistics.malformed_messages.add(1);
                return if self.answered { Ok(()) } else { Err(End::Lost(Reason::Protocol)) };
            }
        };
        self.answered = true;
        match response {
            Response::Event { subscription, data_type, count, status, payload } => {
                self.event(subscription, data_type, count, status, payload, received);
            }
            Response::Read { read, data_type, status, payload, .. } => {
                self.metadata(read, command::READ_NOTIFY, data_type, status, payload, received);
            }
            Response::Version { minor } => self.minor = minor,
            Response::ChannelCreated { channel, server_channel, data_type, count } => {
                self.open(channel, server_channel, data_type, count, received);
            }
            Response::AccessRights { channel, access } => self.access(channel, access, received),
            Response::ChannelRefused { channel } | Response::ServerDisconnected { channel } => {
                self.give_back(channel, received);
            }
            Response::Error { channel, status, request, text } => {
                let text = String::from_utf8_lossy(text).into_owned();
                self.refused(channel, request.command, status, text, received);
            }
            Response::ChannelCleared { .. }
            | Response::Echo
            | Response::Found { .. }
            | Response::NotFound { .. }
            | Response::Beacon { .. }
            | Response::RepeaterConfirm { .. } => {}
        }
        Ok(())
    }

    /// A message above the limit: an update is skipped and counted, another cannot be a message of this protocol.
    fn too_large(&mut self, header: &Header) -> Result<(), End> {
        match header.command {
            command::EVENT_ADD if self.answered => self.drop_sample(header.p2 >> 1, DropReason::TooLarge),
            command::READ_NOTIFY if self.answered => {}
            _ => return Err(End::Lost(Reason::Protocol)),
        }
        Ok(())
    }

    /// The server opened a channel: reports it, asks for its metadata, and subscribes.
    fn open(&mut self, id: u32, server_channel: u32, data_type: u16, count: u32, received: Nanos) {
        let Some(channel) = self.channels.get_mut(&id) else {
            return Request::ClearChannel { server_channel, channel: id }.encode(&mut self.out);
        };
        let (State::Creating { .. }, Some(native)) = (channel.state, NativeType::of(data_type)) else {
            self.shared.statistics.malformed_messages.add(1);
            return;
        };
        channel.state = State::Open { server_channel, native, count };
        self.opened.get_or_insert_with(Instant::now);
        self.shared.statistics.connected_channels.add(1);
        let event = Event::Connected { host: self.id.address, native: native.into(), count, access: channel.access };
        self.outbox.push(Update { channel: ChannelId(id), received, event }, 0);
        let control = native.control_type();
        if channel.options.metadata && native != NativeType::String {
            Request::ReadNotify { data_type: control, count: 1, server_channel, read: id << 1 }.encode(&mut self.out);
        }
        let actual = if self.minor < MINOR_OF_ACTUAL_COUNT { count } else { 0 };
        subscription(native.time_type(), actual, server_channel, id << 1, channel.options.mask).encode(&mut self.out);
        if channel.options.metadata && native != NativeType::String {
            subscription(control, 1, server_channel, id << 1 | 1, EventMask::PROPERTY).encode(&mut self.out);
        }
    }

    fn access(&mut self, id: u32, access: Access, received: Nanos) {
        let Some(channel) = self.channels.get_mut(&id) else { return };
        let changed = std::mem::replace(&mut channel.access, access) != access;
        if changed && matches!(channel.state, State::Open { .. }) {
            self.outbox.push(Update { channel: ChannelId(id), received, event: Event::AccessChanged(access) }, 0);
        }
    }

    fn event(&mut self, subscription: u32, data_type: u16, count: u32, status: u32, payload: &[u8], received: Nanos) {
        if subscription & 1 == 1 {
            return self.metadata(subscription, command::EVENT_ADD, data_type, status, payload, received);
        }
        let id = subscription >> 1;
        let Some(channel) = self.channels.get_mut(&id) else { return };
        let State::Open { native, count: native_count, .. } = channel.state else { return };
        if status != ECA_NORMAL {
            return self.refused(id, command::EVENT_ADD, status, String::new(), received);
        }
        if self.outbox.is_full() {
            return self.drop_sample(id, DropReason::ConsumerSlow);
        }
        let shape = if native_count == 1 { Shape::Scalar } else { Shape::Array };
        let sample = decode_time(data_type, count, shape, payload).ok().filter(|_| data_type == native.time_type());
        let Some(sample) = sample else {
            // Without a payload the server confirms the end of a subscription.
            if !payload.is_empty() {
                self.drop_sample(id, DropReason::Malformed);
            }
            return;
        };
        if channel.withheld != self.withheld {
            channel.withheld = self.withheld;
            self.outbox.push(Update { channel: ChannelId(id), received, event: Event::Withheld }, 0);
        }
        self.outbox.report_dropped(id, received);
        self.samples += 1;
        self.outbox.push(Update { channel: ChannelId(id), received, event: Event::Sample(sample) }, payload.len());
    }

    /// Reports metadata, if they are other than the last.
    fn metadata(&mut self, id: u32, request: u16, data_type: u16, status: u32, payload: &[u8], received: Nanos) {
        let id = id >> 1;
        if status != ECA_NORMAL {
            return self.refused(id, request, status, String::new(), received);
        }
        let Some(channel) = self.channels.get_mut(&id) else { return };
        let State::Open { native, .. } = channel.state else { return };
        let Ok(metadata) = decode_control(data_type, payload) else {
            if !payload.is_empty() {
                self.shared.statistics.malformed_messages.add(1);
            }
            return;
        };
        // Encoded anew, because servers leave random bytes in the padding, and NaN is not equal to itself.
        let mut bytes = Vec::new();
        encode_control(native, &metadata, &mut bytes);
        if *channel.metadata != *bytes {
            channel.metadata = bytes.into();
            let event = Event::Metadata(Box::new(metadata));
            self.outbox.push(Update { channel: ChannelId(id), received, event }, payload.len());
        }
    }

    fn refused(&mut self, id: u32, command: u16, status: u32, text: String, received: Nanos) {
        if self.channels.contains_key(&id) {
            let bytes = text.len();
            let event = Event::Refused { command, status, text };
            self.outbox.push(Update { channel: ChannelId(id), received, event }, bytes);
        }
    }

    fn drop_sample(&mut self, id: u32, reason: DropReason) {
        if self.channels.contains_key(&id) {
            self.outbox.drop_sample(id, reason);
            self.shared.statistics.dropped_samples.add(1);
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Add { channel, name, options } => {
                let since = Instant::now();
                self.idle_since = None;
                self.creating.push_back((since, channel));
                Request::CreateChannel { name: name.as_bytes(), channel, minor: MINOR_VERSION }.encode(&mut self.out);
                self.channels.insert(
                    channel,
                    Channel {
                        options,
                        access: Access::default(),
                        state: State::Creating { since },
                        metadata: Box::default(),
                        withheld: self.withheld,
                    },
                );
            }
            Order::Remove { channel: id } => {
                let Some(channel) = self.channels.remove(&id) else { return };
                self.outbox.forget_dropped(id);
                if let State::Open { server_channel, .. } = channel.state {
                    self.shared.statistics.connected_channels.subtract(1);
                    Request::ClearChannel { server_channel, channel: id }.encode(&mut self.out);
                }
            }
            Order::AlsoAt { channel, address } => {
                if self.channels.contains_key(&channel) {
                    let (channel, received) = (ChannelId(channel), (self.shared.clock)());
                    self.outbox.push(Update { channel, received, event: Event::AlsoAt(address) }, 0);
                    self.outbox.flush();
                }
            }
            Order::Probe => self.silence.probe(),
        }
    }

    /// Removes a channel and reports that it is disconnected, if it was open.
    fn close(&mut self, id: u32, reason: Reason, received: Nanos) {
        let Some(channel) = self.channels.remove(&id) else { return };
        self.outbox.report_dropped(id, received);
        if matches!(channel.state, State::Open { .. }) {
            self.shared.statistics.connected_channels.subtract(1);
            self.outbox.push(Update { channel: ChannelId(id), received, event: Event::Disconnected(reason) }, 0);
        }
    }

    /// The server has ended a channel. It is returned when its events are in the queue, to keep their order.
    fn give_back(&mut self, id: u32, received: Nanos) {
        let Some(channel) = self.channels.get(&id) else { return };
        self.returned.push((id, matches!(channel.state, State::Open { .. })));
        self.close(id, Reason::ChannelEnded, received);
    }

    /// Time at which [`Circuit::check`] has something to do.
    fn check_due(&self) -> Instant {
        let soon =
            self.withholding || self.outbox.has_dropped() || !self.returned.is_empty() || self.outbox.is_overfull();
        let soon = soon.then(|| self.checked + CHECK_PERIOD);
        let idle = self.channels.is_empty().then(|| self.idle_since.map_or(self.checked, |since| since + LINGER));
        let creating = self.creating.front().map(|&(since, _)| since + self.shared.settings.connection_timeout);
        [soon, idle, creating].into_iter().flatten().fold(self.silence.due(), Instant::min)
    }

    async fn check(&mut self, now: Instant) -> Result<(), End> {
        self.checked = now;
        self.check_silence(now)?;
        self.check_creating(now);
        if self.withholding && self.outbox.is_relaxed() {
            self.withholding = false;
            self.withheld += 1;
            Request::EventsOn.encode(&mut self.out);
        }
        if self.outbox.has_dropped() {
            self.outbox.report_all_dropped((self.shared.clock)());
        }
        self.outbox.flush();
        if !self.outbox.is_blocked() {
            for (channel, was_open) in std::mem::take(&mut self.returned) {
                let report = Report::Returned { channel, was_open };
                self.shared.reports.send(report).await.map_err(|_| End::Client)?;
            }
        }
        self.check_idle(now)
    }

    fn check_silence(&mut self, now: Instant) -> Result<(), End> {
        if self.out.len() > OUT_BYTES_MAX {
            return Err(End::Lost(Reason::Unresponsive));
        }
        if self.outbox.is_overfull() {
            // Nothing is read, so nothing is heard.
            self.silence.heard(now);
        }
        match self.silence.step(now) {
            Step::Wait => {}
            Step::Echo => Request::Echo.encode(&mut self.out),
            Step::GiveUp => return Err(End::Lost(Reason::Unresponsive)),
        }
        Ok(())
    }

    /// Gives channels back that the server has not opened within the timeout.
    fn check_creating(&mut self, now: Instant) {
        while let Some(&(since, id)) = self.creating.front() {
            if since + self.shared.settings.connection_timeout > now {
                return;
            }
            self.creating.pop_front();
            let waits = |channel: &Channel| matches!(channel.state, State::Creating { since: s } if s == since);
            if self.channels.get(&id).is_some_and(waits) {
                self.give_back(id, (self.shared.clock)());
            }
        }
    }

    fn check_idle(&mut self, now: Instant) -> Result<(), End> {
        if !self.channels.is_empty() {
            self.idle_since = None;
            return Ok(());
        }
        let since = *self.idle_since.get_or_insert(now);
        if now - since >= LINGER { Err(End::Idle) } else { Ok(()) }
    }
}

/// Appends the first messages of a circuit.
pub(super) fn greet(settings: &Settings, priority: u8, out: &mut Vec<u8>) {
    Request::Version { priority: priority.into(), minor: MINOR_VERSION }.encode(out);
    Request::ClientName { name: settings.client_name.as_bytes() }.encode(out);
    Request::HostName { name: settings.host_name.as_bytes() }.encode(out);
}

fn subscription(
    data_type: u16,
    count: u32,
    server_channel: u32,
    subscription: u32,
    mask: EventMask,
) -> Request<'static> {
    Request::EventAdd { data_type, count, server_channel, subscription, mask }
}
