//! The director: one task that knows all channels, searches for them, and opens the circuits that serve them.
//!
//! Always true: the director never waits for a circuit or for the consumer, so neither can stop the searches. A channel is
//! either in the schedule of searches or given to one circuit.

use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::beacon::{Beacon, Beacons};
use super::circuit::{Circuit, Order as CircuitOrder, Report, Shared};
use super::name_server::{self, Names};
use super::protocol::{Request, Response, frames, mark_unicast};
use super::wire::Order;
use super::{Options, protocol};
use crate::client::backoff::Backoffs;
use crate::client::search::{DatagramBytes, Schedule, Search};

/// Datagrams that are received before other work gets its turn.
const RECEIVE_BURST: usize = 256;
/// Searches that may wait for a name server.
const NAME_SERVER_QUEUE: usize = 64;
/// Beacons that may wait for the director; more are lost, as in a network.
const BEACON_QUEUE: usize = 256;
/// Wait after a failed read of a beacon, so that a network that is down causes no load.
const BEACON_RETRY: Duration = Duration::from_secs(1);
/// A search has a header and 30 bytes; a name has its number and its size before it.
const DATAGRAM_BYTES: DatagramBytes =
    DatagramBytes { fixed: protocol::HEADER_BYTES + 33, name: |bytes| 4 + bytes + if bytes < 254 { 1 } else { 5 } };

/// A command of the client to the director.
pub(super) enum Command {
    Subscribe { channel: u32, name: Arc<str>, options: Options },
    Unsubscribe { channel: u32 },
}

struct Channel {
    name: Arc<str>,
    options: Options,
    /// The server whose circuit has it; `None` while it is searched for.
    circuit: Option<SocketAddrV4>,
    /// Times in a row that a server was found and did not open it.
    refusals: u32,
    /// Whether it was reported that another server has the name, too.
    is_also_elsewhere: bool,
}

pub(super) struct Director {
    shared: Shared,
    socket: UdpSocket,
    port: u16,
    sequence: u32,
    channels: FxHashMap<u32, Channel>,
    schedule: Schedule,
    circuits: FxHashMap<SocketAddrV4, mpsc::UnboundedSender<CircuitOrder>>,
    backoffs: Backoffs,
    beacons: Beacons,
    /// Datagrams of the sockets for beacons.
    beacon_datagrams: mpsc::Receiver<(Vec<u8>, SocketAddrV4)>,
    name_servers: Vec<mpsc::Sender<Names>>,
    /// All tasks of the client but this; dropping it ends them.
    tasks: JoinSet<()>,
    names: Vec<Search>,
    datagram: Vec<u8>,
}

/// A socket for beacons, shared with the other clients and servers of this machine.
fn bind_beacons(address: SocketAddrV4) -> io::Result<UdpSocket> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    UdpSocket::from_std(socket.into())
}

async fn receive_beacons(socket: UdpSocket, datagrams: mpsc::Sender<(Vec<u8>, SocketAddrV4)>) {
    let mut buffer = vec![0; 2 << 10];
    while !datagrams.is_closed() {
        match socket.recv_from(&mut buffer).await {
            // Searches of other clients arrive here too.
            Ok((bytes, SocketAddr::V4(sender))) if buffer.get(3) == Some(&protocol::command::BEACON) => {
                let _ = datagrams.try_send((buffer[..bytes].to_vec(), sender));
            }
            Ok(_) => {}
            Err(_) => sleep(BEACON_RETRY).await,
        }
    }
}

impl Director {
    pub(super) fn new(shared: Shared, socket: UdpSocket) -> Director {
        let settings = Arc::clone(&shared.settings);
        let mut tasks = JoinSet::new();
        let mut name_servers = Vec::new();
        for &address in &settings.name_servers {
            let (sender, searches) = mpsc::channel(NAME_SERVER_QUEUE);
            tasks.spawn(name_server::run(address, searches, shared.clone()));
            name_servers.push(sender);
        }
        let (sender, beacon_datagrams) = mpsc::channel(BEACON_QUEUE);
        for socket in settings.beacons.iter().filter_map(|&address| bind_beacons(address).ok()) {
            tasks.spawn(receive_beacons(socket, sender.clone()));
        }
        Director {
            port: socket.local_addr().map_or(0, |address| address.port()),
            socket,
            sequence: 0,
            channels: FxHashMap::default(),
            schedule: Schedule::new(
                DATAGRAM_BYTES,
                settings.max_search_period,
                settings.search_datagrams_per_second,
                Instant::now(),
            ),
            circuits: FxHashMap::default(),
            backoffs: Backoffs::default(),
            beacons: Beacons::default(),
            beacon_datagrams,
            name_servers,
            tasks,
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
            let due = self.schedule.next_due();
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
                Some((datagram, sender)) = self.beacon_datagrams.recv() => self.datagram(&datagram, sender),
                () = &mut wake, if due.is_some() => self.search().await,
                () = &mut closed => return,
            }
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Subscribe { channel, name, options } => {
                self.schedule.add(channel, Arc::clone(&name), Instant::now());
                self.channels
                    .insert(channel, Channel { name, options, circuit: None, refusals: 0, is_also_elsewhere: false });
            }
            Command::Unsubscribe { channel: id } => {
                let Some(channel) = self.channels.remove(&id) else { return };
                self.schedule.remove(id);
                if let Some(orders) = channel.circuit.and_then(|circuit| self.circuits.get(&circuit)) {
                    let _ = orders.send(CircuitOrder::Remove { channel: id });
                }
            }
        }
        self.shared.statistics.channels.set(self.channels.len() as u64);
    }

    fn reported(&mut self, report: Report) {
        match report {
            Report::Found { channel, address } => self.found(channel, address),
            Report::NameServerUp => self.schedule.boost(Instant::now()),
            Report::Returned { channel: id, was_open } => {
                let Some(channel) = self.channels.get_mut(&id) else { return };
                channel.refusals = if was_open { 0 } else { channel.refusals + 1 };
                self.search_again(id);
            }
            Report::Ended { circuit, stable, channels } => {
                self.circuits.remove(&circuit);
                self.backoffs.note(circuit, stable, Instant::now());
                channels.into_iter().for_each(|id| self.search_again(id));
                while self.tasks.try_join_next().is_some() {}
            }
        }
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
                Ok(Some(Response::Found { found: true, port, address, channels, .. })) => {
                    let address = SocketAddrV4::new(address.unwrap_or(*sender.ip()), port);
                    channels.into_iter().for_each(|channel| self.found(channel, address));
                }
                Ok(Some(Response::Beacon { guid, changes, address, port })) => {
                    self.beacon(SocketAddrV4::new(address.unwrap_or(*sender.ip()), port), guid, changes);
                }
                _ => {}
            }
        }
    }

    /// Gives a channel to the circuit of the server that has it.
    fn found(&mut self, id: u32, address: SocketAddrV4) {
        let Some(channel) = self.channels.get_mut(&id) else { return };
        if let Some(circuit) = channel.circuit {
            if circuit != address {
                self.shared.statistics.duplicate_names.add(1);
                // It is reported once, so that a server that answers for ever does not fill the queue.
                if !std::mem::replace(&mut channel.is_also_elsewhere, true)
                    && let Some(orders) = self.circuits.get(&circuit)
                {
                    let _ = orders.send(CircuitOrder::AlsoAt { channel: id, address });
                }
            }
            return;
        }
        if self.backoffs.forbids(address, Instant::now()) {
            return;
        }
        let order = CircuitOrder::Add { channel: id, name: Arc::clone(&channel.name), options: channel.options };
        let orders = self.circuits.entry(address).or_insert_with(|| {
            // A channel is added and removed at most once between two reports of the circuit: this bounds the queue.
            let (sender, orders) = mpsc::unbounded_channel();
            self.tasks.spawn(Circuit::new(address, orders, self.shared.clone()).run());
            sender
        });
        // A circuit that is ending takes no more; the name is found again later.
        if orders.send(order).is_ok() {
            channel.circuit = Some(address);
            self.schedule.remove(id);
        }
    }

    fn beacon(&mut self, address: SocketAddrV4, guid: [u8; 12], changes: u16) {
        let now = Instant::now();
        self.shared.statistics.beacons.add(1);
        let meaning = self.beacons.note(address, guid, changes, now);
        if meaning == Beacon::Regular {
            return;
        }
        self.shared.statistics.beacon_anomalies.add(1);
        self.schedule.boost(now);
        if meaning == Beacon::Started {
            self.backoffs.forget(address);
            if let Some(orders) = self.circuits.get(&address) {
                let _ = orders.send(CircuitOrder::Probe);
            }
        }
    }

    /// Sends the datagrams that are due.
    async fn search(&mut self) {
        let settings = Arc::clone(&self.shared.settings);
        let copies = settings.addresses.len() + settings.broadcasts.len() + self.name_servers.len();
        loop {
            self.schedule.datagram(copies.max(1), Instant::now(), &mut self.names);
            if self.names.is_empty() {
                break;
            }
            self.sequence = self.sequence.wrapping_add(1);
            self.datagram.clear();
            Request::Search { sequence: self.sequence, unicast: false, port: self.port, names: self.names.clone() }
                .encode(Order::Big, &mut self.datagram);
            // A datagram that cannot be sent is lost, as in a network: its names are searched for again.
            for &address in &settings.broadcasts {
                let _ = self.socket.send_to(&self.datagram, SocketAddr::V4(address)).await;
            }
            mark_unicast(&mut self.datagram);
            for &address in &settings.addresses {
                let _ = self.socket.send_to(&self.datagram, SocketAddr::V4(address)).await;
            }
            for name_server in &self.name_servers {
                let _ = name_server.try_send(self.names.as_slice().into());
            }
            self.shared.statistics.search_datagrams.add(copies as u64);
            self.shared.statistics.searches.add(self.names.len() as u64);
        }
        self.shared.statistics.searching_channels.set(self.schedule.len() as u64);
    }
}
