//! The director: one task that knows all channels, searches for them, and opens the circuits that serve them.
//!
//! Always true: the director never waits for a circuit or for the consumer, so neither can stop the searches. A channel is
//! either in the schedule of searches or given to one circuit.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::beacon::{Beacon, Beacons};
use super::circuit::{Circuit, CircuitId, Order, Report, Shared};
use super::protocol::{MINOR_VERSION, Request, Response, frames};
use super::{Options, name_server, repeater};
use crate::client::backoff::Backoffs;
use crate::client::search::{DatagramBytes, Schedule, Search};

/// Datagrams that are received before other work gets its turn.
const RECEIVE_BURST: usize = 256;
/// Searches that may wait for a name server.
const NAME_SERVER_QUEUE: usize = 64;
/// Time between registrations with the repeater, before and after it has confirmed one.
const REGISTER_PERIOD: Duration = Duration::from_secs(1);
const REGISTERED_PERIOD: Duration = Duration::from_secs(30);
/// A datagram begins with a version; a search has a header of 16 bytes and a name that ends with a zero.
const DATAGRAM_BYTES: DatagramBytes = DatagramBytes { fixed: 16, name: |bytes| 16 + (bytes + 1).next_multiple_of(8) };

/// A command of the client to the director.
pub(super) enum Command {
    Subscribe { channel: u32, name: Arc<str>, options: Options },
    Unsubscribe { channel: u32 },
}

struct Channel {
    name: Arc<str>,
    options: Options,
    /// The circuit that has it; `None` while it is searched for.
    circuit: Option<CircuitId>,
    /// Times in a row that a server was found and did not open it.
    refusals: u32,
    /// Whether it was reported that another server has the name, too.
    is_also_elsewhere: bool,
}

pub(super) struct Director {
    shared: Shared,
    socket: UdpSocket,
    channels: FxHashMap<u32, Channel>,
    schedule: Schedule,
    circuits: FxHashMap<CircuitId, mpsc::UnboundedSender<Order>>,
    /// Whether a channel of this priority was subscribed to.
    priorities: Vec<u8>,
    backoffs: Backoffs,
    beacons: Beacons,
    name_servers: Vec<mpsc::Sender<Arc<[u8]>>>,
    /// All tasks of the client but this; dropping it ends them.
    tasks: JoinSet<()>,
    register_at: Option<Instant>,
    /// Whether the last registration was confirmed.
    registered: bool,
    names: Vec<Search>,
    datagram: Vec<u8>,
}

impl Director {
    pub(super) fn new(shared: Shared, socket: UdpSocket) -> Director {
        let now = Instant::now();
        let settings = Arc::clone(&shared.settings);
        let mut tasks = JoinSet::new();
        let mut name_servers = Vec::new();
        for &address in &settings.name_servers {
            let (sender, searches) = mpsc::channel(NAME_SERVER_QUEUE);
            tasks.spawn(name_server::run(address, searches, shared.clone()));
            name_servers.push(sender);
        }
        Director {
            socket,
            channels: FxHashMap::default(),
            schedule: Schedule::new(
                DATAGRAM_BYTES,
                settings.max_search_period,
                settings.search_datagrams_per_second,
                now,
            ),
            circuits: FxHashMap::default(),
            priorities: Vec::new(),
            backoffs: Backoffs::default(),
            beacons: Beacons::new(settings.beacon_period, now),
            name_servers,
            tasks,
            register_at: settings.repeater.map(|_| now),
            registered: false,
            names: Vec::new(),
            datagram: Vec::new(),
            shared,
        }
    }

    /// Runs until `commands` is closed or the consumer is gone.
    pub(super) async fn run(mut self, mut commands: mpsc::Receiver<Command>, mut reports: mpsc::Receiver<Report>) {
        let queue = self.shared.queue.clone();
        let mut closed = pin!(queue.closed());
        let mut wake = pin!(sleep_until(Instant::now()));
        let mut received = vec![0; 64 << 10];
        loop {
            let due = [self.schedule.next_due(), self.register_at].into_iter().flatten().min();
            if let Some(due) = due.filter(|&due| due != wake.deadline()) {
                wake.as_mut().reset(due);
            }
            tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => self.obey(command),
                    None => return,
                },
                Some(report) = reports.recv() => self.reported(report),
                result = self.socket.recv_from(&mut received) => self.receive(result, &mut received),
                () = &mut wake, if due.is_some() => {
                    self.search().await;
                    self.register().await;
                }
                () = &mut closed => return,
            }
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Subscribe { channel, name, options } => {
                if !self.priorities.contains(&options.priority) {
                    self.priorities.push(options.priority);
                }
                self.schedule.add(channel, Arc::clone(&name), Instant::now());
                self.channels
                    .insert(channel, Channel { name, options, circuit: None, refusals: 0, is_also_elsewhere: false });
            }
            Command::Unsubscribe { channel: id } => {
                let Some(channel) = self.channels.remove(&id) else { return };
                self.schedule.remove(id);
                if let Some(orders) = channel.circuit.and_then(|circuit| self.circuits.get(&circuit)) {
                    let _ = orders.send(Order::Remove { channel: id });
                }
            }
        }
        self.shared.statistics.channels.set(self.channels.len() as u64);
    }

    fn reported(&mut self, report: Report) {
        match report {
            Report::Found { channel, address, minor } => self.found(channel, address, minor),
            Report::NameServerUp => self.schedule.boost(Instant::now()),
            Report::Returned { channel: id, was_open } => {
                let Some(channel) = self.channels.get_mut(&id) else { return };
                channel.refusals = if was_open { 0 } else { channel.refusals + 1 };
                self.search_again(id);
            }
            Report::Ended { circuit, stable, channels } => {
                self.circuits.remove(&circuit);
                self.backoffs.note(circuit.address, stable, Instant::now());
                channels.into_iter().for_each(|id| self.search_again(id));
                self.forget_ended_tasks();
            }
        }
    }

    fn forget_ended_tasks(&mut self) {
        while self.tasks.try_join_next().is_some() {}
    }

    fn search_again(&mut self, id: u32) {
        let Some(channel) = self.channels.get_mut(&id) else { return };
        (channel.circuit, channel.is_also_elsewhere) = (None, false);
        self.schedule.add_lost(id, Arc::clone(&channel.name), channel.refusals, Instant::now());
    }

    /// Handles a datagram and those that follow it.
    fn receive(&mut self, first: io::Result<(usize, SocketAddr)>, buffer: &mut [u8]) {
        let mut next = first;
        for _ in 0..RECEIVE_BURST {
            // Errors of a datagram socket concern one datagram, for example a port that nobody listens to.
            if let Ok((bytes, SocketAddr::V4(sender))) = next {
                self.datagram(&buffer[..bytes], sender);
            }
            next = match self.socket.try_recv_from(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                result => result,
            };
        }
    }

    fn datagram(&mut self, bytes: &[u8], sender: SocketAddrV4) {
        for (header, payload) in frames(bytes) {
            match Response::decode(&header, payload) {
                Ok(Some(Response::Found { channel, port, address, minor })) => {
                    self.found(channel, SocketAddrV4::new(address.unwrap_or(*sender.ip()), port), minor);
                }
                Ok(Some(Response::Beacon { port, number, address, .. })) => {
                    self.beacon(SocketAddrV4::new(address.unwrap_or(*sender.ip()), port), number);
                }
                Ok(Some(Response::RepeaterConfirm { .. })) => self.registered = true,
                _ => {}
            }
        }
    }

    /// Gives a channel to the circuit of the server that has it.
    fn found(&mut self, id: u32, address: SocketAddrV4, minor: u16) {
        let Some(channel) = self.channels.get_mut(&id) else { return };
        if let Some(circuit) = channel.circuit {
            if circuit.address != address {
                self.shared.statistics.duplicate_names.add(1);
                // It is reported once, so that a server that answers for ever does not fill the queue.
                if !std::mem::replace(&mut channel.is_also_elsewhere, true)
                    && let Some(orders) = self.circuits.get(&circuit)
                {
                    let _ = orders.send(Order::AlsoAt { channel: id, address });
                }
            }
            return;
        }
        if self.backoffs.forbids(address, Instant::now()) {
            return;
        }
        let circuit = CircuitId { address, priority: channel.options.priority };
        let order = Order::Add { channel: id, name: Arc::clone(&channel.name), options: channel.options };
        let orders = self.circuits.entry(circuit).or_insert_with(|| {
            // A channel is added and removed at most once between two reports of the circuit: this bounds the queue.
            let (sender, orders) = mpsc::unbounded_channel();
            self.tasks.spawn(Circuit::new(circuit, minor, orders, self.shared.clone()).run());
            sender
        });
        // A circuit that is ending takes no more; the name is found again later.
        if orders.send(order).is_ok() {
            channel.circuit = Some(circuit);
            self.schedule.remove(id);
        }
    }

    fn beacon(&mut self, address: SocketAddrV4, number: u32) {
        let now = Instant::now();
        self.shared.statistics.beacons.add(1);
        if self.beacons.note(address, number, now) == Beacon::Regular {
            return;
        }
        self.shared.statistics.beacon_anomalies.add(1);
        self.backoffs.forget(address);
        self.schedule.boost(now);
        for &priority in &self.priorities {
            if let Some(orders) = self.circuits.get(&CircuitId { address, priority }) {
                let _ = orders.send(Order::Probe);
            }
        }
    }

    /// Sends the datagrams that are due.
    async fn search(&mut self) {
        let copies = self.shared.settings.addresses.len() + self.name_servers.len();
        loop {
            self.schedule.datagram(copies.max(1), Instant::now(), &mut self.names);
            if self.names.is_empty() {
                break;
            }
            self.datagram.clear();
            Request::Version { priority: 0, minor: MINOR_VERSION }.encode(&mut self.datagram);
            for (channel, name) in &self.names {
                let name = name.as_bytes();
                Request::Search { name, channel: *channel, minor: MINOR_VERSION, must_reply: false }
                    .encode(&mut self.datagram);
            }
            for &address in &self.shared.settings.addresses {
                // A datagram that cannot be sent is lost, as in a network: its names are searched for again.
                let _ = self.socket.send_to(&self.datagram, SocketAddr::V4(address)).await;
            }
            for name_server in &self.name_servers {
                let _ = name_server.try_send(self.datagram.as_slice().into());
            }
            self.shared.statistics.search_datagrams.add(copies as u64);
            self.shared.statistics.searches.add(self.names.len() as u64);
        }
        self.shared.statistics.searching_channels.set(self.schedule.len() as u64);
    }

    /// Registers with the repeater, and runs one when there seems to be none.
    async fn register(&mut self) {
        let now = Instant::now();
        let (Some(at), Some(repeater)) = (self.register_at, self.shared.settings.repeater) else { return };
        if at > now {
            return;
        }
        self.forget_ended_tasks();
        if !self.registered {
            self.tasks.spawn(async move { drop(repeater::run(repeater).await) });
            tokio::task::yield_now().await;
        }
        let period = if self.registered { REGISTERED_PERIOD } else { REGISTER_PERIOD };
        self.register_at = Some(now + period);
        self.registered = false;
        let ip = if repeater.ip().is_unspecified() { Ipv4Addr::LOCALHOST } else { *repeater.ip() };
        let mut request = Vec::new();
        Request::RepeaterRegister { address: ip }.encode(&mut request);
        let _ = self.socket.send_to(&request, SocketAddrV4::new(ip, repeater.port())).await;
    }
}
