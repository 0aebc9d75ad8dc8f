//! A small Channel Access server on 127.0.0.1, in this process: it serves any number of PVs, and misbehaves on demand.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use epics::ca::dbr::{encode_control, encode_time};
use epics::ca::protocol::{ECA_NORMAL, Frame, Request, Response, first_frame, frames};
use epics::ca::{Access, EventMask, NativeType};
use epics::sample::{Metadata, Sample};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// `ECA_NORDACCESS`
pub(crate) const NO_READ_ACCESS: u32 = 46 << 3;

#[derive(Clone)]
pub(crate) struct Pv {
    pub(crate) sample: Sample,
    /// Elements that the channel announces.
    pub(crate) count: u32,
    pub(crate) metadata: Metadata,
    pub(crate) access: Access,
}

impl Pv {
    pub(crate) fn new(sample: Sample, count: u32) -> Pv {
        Pv { sample, count, metadata: Metadata::default(), access: Access { read: true, write: true } }
    }

    fn native(&self) -> NativeType {
        encode_time(&self.sample, &mut Vec::new()).expect("a value that Channel Access can carry").0
    }
}

/// Switches of misbehaviour, and counts of what clients did.
#[derive(Default)]
pub(crate) struct Behaviour {
    /// Reads and answers nothing, by TCP and UDP, but keeps its connections.
    pub(crate) stalled: AtomicBool,
    /// Refuses to create channels.
    pub(crate) refuses: AtomicBool,
    /// Goes on sending updates after `EVENTS_OFF`.
    pub(crate) ignores_events_off: AtomicBool,
    /// Writes so many bytes at a time; 0: no limit.
    pub(crate) chunk_bytes: AtomicUsize,
    pub(crate) search_datagrams: AtomicUsize,
    pub(crate) largest_datagram: AtomicUsize,
    pub(crate) searches: AtomicUsize,
    pub(crate) connections: AtomicUsize,
    pub(crate) events_off: AtomicUsize,
    pub(crate) events_on: AtomicUsize,
    pub(crate) cleared: AtomicUsize,
    pub(crate) echoes: AtomicUsize,
}

struct Shared {
    pvs: Mutex<HashMap<Vec<u8>, Pv>>,
    circuits: Mutex<Vec<Weak<Circuit>>>,
    behaviour: Behaviour,
    tcp_port: u16,
}

#[derive(Default)]
struct Circuit {
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Default)]
struct State {
    out: Vec<u8>,
    closed: bool,
    events_off: bool,
    /// Updates that are withheld: the newest of each subscription.
    withheld: HashMap<u32, Vec<u8>>,
    /// Names and the client's numbers, by the server's number.
    channels: HashMap<u32, (Vec<u8>, u32)>,
    subscriptions: HashMap<Vec<u8>, Vec<Subscription>>,
}

#[derive(Clone, Copy)]
struct Subscription {
    number: u32,
    data_type: u16,
    mask: EventMask,
}

pub(crate) struct FakeServer {
    shared: Arc<Shared>,
    /// Address at which searches are received.
    pub(crate) address: SocketAddrV4,
    /// Address at which circuits are accepted; also searches by TCP.
    pub(crate) tcp_address: SocketAddrV4,
    tasks: JoinSet<()>,
}

impl FakeServer {
    pub(crate) async fn start<N: Into<String>>(pvs: impl IntoIterator<Item = (N, Pv)>) -> FakeServer {
        FakeServer::start_at(0, pvs).await
    }

    /// Starts a server that receives searches at a port; 0: any.
    pub(crate) async fn start_at<N: Into<String>>(port: u16, pvs: impl IntoIterator<Item = (N, Pv)>) -> FakeServer {
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let (SocketAddr::V4(address), SocketAddr::V4(tcp_address)) =
            (udp.local_addr().unwrap(), tcp.local_addr().unwrap())
        else {
            panic!("not IPv4")
        };
        let shared = Arc::new(Shared {
            pvs: Mutex::new(pvs.into_iter().map(|(name, pv)| (name.into().into_bytes(), pv)).collect()),
            circuits: Mutex::default(),
            behaviour: Behaviour::default(),
            tcp_port: tcp_address.port(),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(answer_searches(udp, Arc::clone(&shared)));
        tasks.spawn(accept(tcp, Arc::clone(&shared)));
        FakeServer { shared, address, tcp_address, tasks }
    }

    /// Stops the server; its ports are free on return.
    pub(crate) async fn stop(mut self) {
        self.tasks.shutdown().await;
    }

    pub(crate) fn behaviour(&self) -> &Behaviour {
        &self.shared.behaviour
    }

    /// Sets a PV's value and sends it to the subscribers.
    pub(crate) fn post(&self, name: &str, sample: Sample) {
        let mut pvs = self.shared.pvs.lock().unwrap();
        let pv = pvs.get_mut(name.as_bytes()).expect("a PV that is served");
        pv.sample = sample;
        self.send_updates(name, pv, |mask| mask.0 & 7 != 0);
    }

    /// Sets a PV's metadata and sends them to the subscribers.
    pub(crate) fn post_metadata(&self, name: &str, metadata: Metadata) {
        let mut pvs = self.shared.pvs.lock().unwrap();
        let pv = pvs.get_mut(name.as_bytes()).expect("a PV that is served");
        pv.metadata = metadata;
        self.send_updates(name, pv, |mask| mask.0 & 8 != 0);
    }

    fn send_updates(&self, name: &str, pv: &Pv, wanted: impl Fn(EventMask) -> bool) {
        for circuit in self.circuits() {
            let state = &mut *circuit.state.lock().unwrap();
            let subscriptions = state.subscriptions.get(name.as_bytes()).cloned().unwrap_or_default();
            for subscription in subscriptions.iter().filter(|s| wanted(s.mask)) {
                if state.events_off {
                    let mut update = Vec::new();
                    send_update(pv, *subscription, &mut update);
                    state.withheld.insert(subscription.number, update);
                } else {
                    send_update(pv, *subscription, &mut state.out);
                }
            }
            circuit.wake.notify_one();
        }
    }

    /// Replaces a PV, without telling anyone.
    pub(crate) fn replace(&self, name: &str, pv: Pv) {
        self.shared.pvs.lock().unwrap().insert(name.into(), pv);
    }

    /// Changes the rights to a PV.
    pub(crate) fn set_access(&self, name: &str, access: Access) {
        self.shared.pvs.lock().unwrap().get_mut(name.as_bytes()).unwrap().access = access;
        self.for_each_channel(name, |channel| Response::AccessRights { channel, access });
    }

    /// Ends the channels of a PV.
    pub(crate) fn end_channels(&self, name: &str) {
        self.for_each_channel(name, |channel| Response::ServerDisconnected { channel });
    }

    fn for_each_channel(&self, name: &str, response: impl Fn(u32) -> Response<'static>) {
        for circuit in self.circuits() {
            let state = &mut *circuit.state.lock().unwrap();
            let channels = state.channels.values().filter(|(n, _)| n == name.as_bytes());
            channels.for_each(|(_, channel)| response(*channel).encode(&mut state.out));
            circuit.wake.notify_one();
        }
    }

    /// Sends an update of a PV with a header and payload that are chosen by hand.
    pub(crate) fn send_raw(&self, name: &str, message: impl Fn(u32) -> Vec<u8>) {
        for circuit in self.circuits() {
            let state = &mut *circuit.state.lock().unwrap();
            let subscriptions = state.subscriptions.get(name.as_bytes()).cloned().unwrap_or_default();
            let values = subscriptions.iter().filter(|s| s.mask.0 & 7 != 0);
            values.for_each(|s| state.out.extend(message(s.number)));
            circuit.wake.notify_one();
        }
    }

    /// Closes all circuits.
    pub(crate) fn close_circuits(&self) {
        for circuit in self.circuits() {
            circuit.state.lock().unwrap().closed = true;
            circuit.wake.notify_one();
        }
    }

    /// Bytes that no client has read yet.
    pub(crate) fn unsent_bytes(&self) -> usize {
        self.circuits().iter().map(|circuit| circuit.state.lock().unwrap().out.len()).sum()
    }

    /// Sends a beacon to a repeater.
    pub(crate) async fn beacon(&self, number: u32, repeater: SocketAddrV4) {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let mut beacon = Vec::new();
        Response::Beacon { minor: 13, port: self.shared.tcp_port, number, address: None }.encode(&mut beacon);
        socket.send_to(&beacon, repeater).await.unwrap();
    }

    fn circuits(&self) -> Vec<Arc<Circuit>> {
        self.shared.circuits.lock().unwrap().iter().filter_map(Weak::upgrade).collect()
    }
}

fn send_update(pv: &Pv, subscription: Subscription, out: &mut Vec<u8>) {
    let Subscription { number, data_type, .. } = subscription;
    if !pv.access.read {
        let response =
            Response::Event { subscription: number, data_type, count: 0, status: NO_READ_ACCESS, payload: &[] };
        return response.encode(out);
    }
    let mut payload = Vec::new();
    let count = encode(pv, data_type, &mut payload);
    Response::Event { subscription: number, data_type, count, status: ECA_NORMAL, payload: &payload }.encode(out);
}

fn encode(pv: &Pv, data_type: u16, payload: &mut Vec<u8>) -> u32 {
    if data_type >= 28 {
        encode_control(pv.native(), &pv.metadata, payload);
        1
    } else {
        encode_time(&pv.sample, payload).unwrap().1
    }
}

async fn answer_searches(socket: UdpSocket, shared: Arc<Shared>) {
    let mut datagram = vec![0; 64 << 10];
    loop {
        let Ok((bytes, client)) = socket.recv_from(&mut datagram).await else { continue };
        if shared.behaviour.stalled.load(Ordering::Relaxed) {
            continue;
        }
        shared.behaviour.search_datagrams.fetch_add(1, Ordering::Relaxed);
        shared.behaviour.largest_datagram.fetch_max(bytes, Ordering::Relaxed);
        let mut answer = Vec::new();
        for (header, payload) in frames(&datagram[..bytes]) {
            if let Ok(Some(request)) = Request::decode(&header, payload) {
                answer_search(&shared, &request, &mut answer);
            }
        }
        if !answer.is_empty() {
            let _ = socket.send_to(&answer, client).await;
        }
    }
}

fn answer_search(shared: &Shared, request: &Request<'_>, out: &mut Vec<u8>) {
    let Request::Search { name, channel, .. } = request else { return };
    shared.behaviour.searches.fetch_add(1, Ordering::Relaxed);
    if shared.pvs.lock().unwrap().contains_key(*name) {
        Response::Found { channel: *channel, port: shared.tcp_port, address: None, minor: 13 }.encode(out);
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut circuits = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        shared.behaviour.connections.fetch_add(1, Ordering::Relaxed);
        let circuit = Arc::new(Circuit::default());
        let mut all = shared.circuits.lock().unwrap();
        all.retain(|circuit| circuit.strong_count() > 0);
        all.push(Arc::downgrade(&circuit));
        circuits.spawn(serve(stream, circuit, Arc::clone(&shared)));
    }
}

async fn serve(mut stream: TcpStream, circuit: Arc<Circuit>, shared: Arc<Shared>) {
    let (mut reader, mut writer) = stream.split();
    Response::Version { minor: 13 }.encode(&mut circuit.state.lock().unwrap().out);
    let read = async {
        let mut input = Vec::new();
        loop {
            stall(&shared).await;
            if !matches!(reader.read_buf(&mut input).await, Ok(1..)) {
                return;
            }
            let mut used = 0;
            while let Frame::Message { header, payload, bytes } = first_frame(&input[used..], 1 << 20) {
                if let Ok(Some(request)) = Request::decode(&header, payload) {
                    answer(&shared, &mut circuit.state.lock().unwrap(), &request);
                }
                used += bytes;
            }
            input.drain(..used);
            circuit.wake.notify_one();
        }
    };
    let write = async {
        loop {
            let out = {
                let state = &mut *circuit.state.lock().unwrap();
                if state.closed {
                    return;
                }
                std::mem::take(&mut state.out)
            };
            stall(&shared).await;
            let chunk = match shared.behaviour.chunk_bytes.load(Ordering::Relaxed) {
                0 => usize::MAX,
                bytes => bytes,
            };
            for chunk in out.chunks(chunk) {
                if writer.write_all(chunk).await.is_err() {
                    return;
                }
                if chunk.len() < out.len() {
                    tokio::task::yield_now().await;
                }
            }
            if out.is_empty() {
                circuit.wake.notified().await;
            }
        }
    };
    tokio::select! {
        () = read => {}
        () = write => {}
    }
}

async fn stall(shared: &Shared) {
    while shared.behaviour.stalled.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn answer(shared: &Shared, state: &mut State, request: &Request<'_>) {
    let behaviour = &shared.behaviour;
    let count = |counter: &AtomicUsize| counter.fetch_add(1, Ordering::Relaxed);
    match *request {
        Request::Search { .. } => answer_search(shared, request, &mut state.out),
        Request::CreateChannel { name, channel, .. } => create(shared, state, name, channel),
        Request::EventAdd { data_type, server_channel, subscription, mask, .. } => {
            let Some((name, _)) = state.channels.get(&server_channel) else { return };
            let subscription = Subscription { number: subscription, data_type, mask };
            state.subscriptions.entry(name.clone()).or_default().push(subscription);
            send_update(&shared.pvs.lock().unwrap()[name], subscription, &mut state.out);
        }
        Request::ReadNotify { data_type, server_channel, read, .. } => {
            let Some((name, _)) = state.channels.get(&server_channel) else { return };
            let pv = &shared.pvs.lock().unwrap()[name];
            let mut payload = Vec::new();
            let count = encode(pv, data_type, &mut payload);
            if data_type == NativeType::Double.control_type() {
                // Padding of EPICS 7 has random bytes.
                payload[6..8].fill(0xAA);
            }
            let status = if pv.access.read { ECA_NORMAL } else { NO_READ_ACCESS };
            Response::Read { read, data_type, count, status, payload: &payload }.encode(&mut state.out);
        }
        Request::ClearChannel { server_channel, channel } => {
            count(&behaviour.cleared);
            if let Some((name, _)) = state.channels.remove(&server_channel) {
                state.subscriptions.remove(&name);
            }
            Response::ChannelCleared { server_channel, channel }.encode(&mut state.out);
        }
        Request::EventsOff => {
            count(&behaviour.events_off);
            state.events_off = !behaviour.ignores_events_off.load(Ordering::Relaxed);
        }
        Request::EventsOn => {
            count(&behaviour.events_on);
            state.events_off = false;
            let withheld = std::mem::take(&mut state.withheld);
            withheld.into_values().for_each(|update| state.out.extend(update));
        }
        Request::Echo => {
            count(&behaviour.echoes);
            Response::Echo.encode(&mut state.out);
        }
        _ => {}
    }
}

fn create(shared: &Shared, state: &mut State, name: &[u8], channel: u32) {
    let pvs = shared.pvs.lock().unwrap();
    let Some(pv) = pvs.get(name).filter(|_| !shared.behaviour.refuses.load(Ordering::Relaxed)) else {
        return Response::ChannelRefused { channel }.encode(&mut state.out);
    };
    let server_channel = state.channels.len() as u32 + 1_000;
    state.channels.insert(server_channel, (name.to_vec(), channel));
    Response::AccessRights { channel, access: pv.access }.encode(&mut state.out);
    let (data_type, count) = (pv.native() as u16, pv.count);
    Response::ChannelCreated { channel, server_channel, data_type, count }.encode(&mut state.out);
}
