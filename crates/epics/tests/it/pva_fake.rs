//! A small PV Access server on 127.0.0.1, in this process: it serves any number of PVs, and misbehaves on demand.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use epics::pva::data::{Data, Elements, encode_update};
use epics::pva::protocol::{Frame, HEADER_BYTES, Header, Request, Response, control, first_frame, frames, monitor};
use epics::pva::types::{Extent, Fields, ScalarType, Type};
use epics::pva::wire::{BitSet, Order, Reader, Status, Writer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// Seconds and nanoseconds of all samples.
pub(crate) const STAMP: (i64, i32) = (1_700_000_000, 123_456_789);

pub(crate) fn fields(id: &str, members: Vec<(&str, Type)>) -> Arc<Fields> {
    Fields::new(id, members.into_iter().map(|(name, ty)| (name.into(), ty)).collect()).unwrap()
}

fn scalars(id: &str, members: &[(&str, ScalarType)]) -> Type {
    Type::Structure(fields(id, members.iter().map(|&(name, scalar)| (name, Type::Scalar(scalar))).collect()))
}

/// `alarm` and `timeStamp`, with their values.
fn common(members: &mut Vec<(&str, Type)>, data: &mut Vec<Data>) {
    use ScalarType::{Int32, Int64, Text};
    members.push(("alarm", scalars("alarm_t", &[("severity", Int32), ("status", Int32), ("message", Text)])));
    data.push(Data::Structure([Data::Int32(0), Data::Int32(0), Data::Text("".into())].into()));
    let stamp = [("secondsPastEpoch", Int64), ("nanoseconds", Int32), ("userTag", Int32)];
    members.push(("timeStamp", scalars("time_t", &stamp)));
    data.push(Data::Structure([Data::Int64(STAMP.0), Data::Int32(STAMP.1), Data::Int32(0)].into()));
}

#[derive(Clone)]
pub(crate) struct Pv {
    pub(crate) fields: Arc<Fields>,
    pub(crate) data: Vec<Data>,
}

impl Pv {
    /// An `NTScalar` or `NTScalarArray`, without metadata.
    pub(crate) fn new(ty: Type, value: Data) -> Pv {
        let (mut members, mut data) = (vec![("value", ty)], vec![value]);
        common(&mut members, &mut data);
        Pv { fields: fields("epics:nt/NTScalar:1.0", members), data }
    }

    /// An `NTEnum`.
    pub(crate) fn choice(index: i32, labels: &[&str]) -> Pv {
        let value = vec![
            ("index", Type::Scalar(ScalarType::Int32)),
            ("choices", Type::Array(ScalarType::Text, Extent::Variable)),
        ];
        let labels = Elements::Text(labels.iter().map(|&label| label.to_owned()).collect());
        let value_data = Data::Structure([Data::Int32(index), Data::Array(Box::new(labels))].into());
        let (mut members, mut data) = (vec![("value", Type::Structure(fields("enum_t", value)))], vec![value_data]);
        common(&mut members, &mut data);
        Pv { fields: fields("epics:nt/NTEnum:1.0", members), data }
    }

    pub(crate) fn counter(n: i32) -> Pv {
        Pv::new(Type::Scalar(ScalarType::Int32), Data::Int32(n))
    }

    /// A number with `display`, `control` and `valueAlarm`.
    pub(crate) fn analog(value: f64, units: &str) -> Pv {
        use ScalarType::{Float64, Int32, Text};
        let mut pv = Pv::new(Type::Scalar(Float64), Data::Float64(value));
        let mut members: Vec<(&str, Type)> =
            pv.fields.members().iter().map(|(name, ty)| (&**name, ty.clone())).collect();
        let display = [
            ("limitLow", Float64),
            ("limitHigh", Float64),
            ("description", Text),
            ("units", Text),
            ("precision", Int32),
        ];
        members.push(("display", scalars("", &display)));
        members.push(("control", scalars("control_t", &[("limitLow", Float64), ("limitHigh", Float64)])));
        let alarm =
            ["lowAlarmLimit", "lowWarningLimit", "highWarningLimit", "highAlarmLimit"].map(|name| (name, Float64));
        members.push(("valueAlarm", scalars("valueAlarm_t", &alarm)));
        pv.fields = fields("epics:nt/NTScalar:1.0", members);
        let number = Data::Float64;
        let text = |text: &str| Data::Text(text.into());
        pv.data.push(Data::Structure([number(0.0), number(9.0), text("beam"), text(units), Data::Int32(2)].into()));
        pv.data.push(Data::Structure([number(3.0), number(6.0)].into()));
        pv.data.push(Data::Structure([f64::NAN, 2.0, 7.0, 8.0].map(number).into()));
        pv
    }
}

/// Switches of misbehaviour, and counts of what clients did.
#[derive(Default)]
pub(crate) struct Behaviour {
    /// Reads and answers nothing, by TCP and UDP, but keeps its connections.
    pub(crate) stalled: AtomicBool,
    /// Refuses to create channels.
    pub(crate) refuses: AtomicBool,
    /// Refuses clients.
    pub(crate) refuses_clients: AtomicBool,
    /// Refuses monitors.
    pub(crate) refuses_monitors: AtomicBool,
    /// Sends all updates, whatever was acknowledged.
    pub(crate) ignores_acknowledgements: AtomicBool,
    /// Sends so many updates without an acknowledgement, even if the client asks for more; 0: as many as it asks for.
    pub(crate) window_max: AtomicUsize,
    /// Big-endian messages, instead of little-endian.
    pub(crate) big_endian: AtomicBool,
    /// Cuts payloads into segments of so many bytes; 0: no segments.
    pub(crate) segment_bytes: AtomicUsize,
    /// Writes so many bytes at a time; 0: no limit.
    pub(crate) chunk_bytes: AtomicUsize,
    pub(crate) search_datagrams: AtomicUsize,
    pub(crate) largest_datagram: AtomicUsize,
    pub(crate) searches: AtomicUsize,
    pub(crate) connections: AtomicUsize,
    pub(crate) monitors: AtomicUsize,
    pub(crate) acknowledged: AtomicUsize,
    pub(crate) destroyed: AtomicUsize,
    pub(crate) echoes: AtomicUsize,
    /// Names of users and hosts.
    pub(crate) identities: Mutex<Vec<String>>,
}

impl Behaviour {
    fn order(&self) -> Order {
        if self.big_endian.load(Relaxed) { Order::Big } else { Order::Little }
    }
}

struct Shared {
    pvs: Mutex<HashMap<String, Pv>>,
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
    next_channel: u32,
    /// Names and the client's numbers, by the server's number.
    channels: HashMap<u32, (String, u32)>,
    monitors: HashMap<u32, Monitor>,
    /// Types that were announced, by index.
    types: Vec<Type>,
}

struct Monitor {
    name: String,
    channel: u32,
    started: bool,
    /// Updates that may be sent.
    window: usize,
    changed: BitSet,
    overrun: BitSet,
}

pub(crate) struct FakePva {
    shared: Arc<Shared>,
    /// Address at which searches are received.
    pub(crate) address: SocketAddrV4,
    /// Address at which circuits are accepted; also searches by TCP.
    pub(crate) tcp_address: SocketAddrV4,
    tasks: JoinSet<()>,
}

impl FakePva {
    pub(crate) async fn start<N: Into<String>>(pvs: impl IntoIterator<Item = (N, Pv)>) -> FakePva {
        FakePva::start_at(0, pvs).await
    }

    /// Starts a server that receives searches at a port; 0: any.
    pub(crate) async fn start_at<N: Into<String>>(port: u16, pvs: impl IntoIterator<Item = (N, Pv)>) -> FakePva {
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let (SocketAddr::V4(address), SocketAddr::V4(tcp_address)) =
            (udp.local_addr().unwrap(), tcp.local_addr().unwrap())
        else {
            panic!("not IPv4")
        };
        let shared = Arc::new(Shared {
            pvs: Mutex::new(pvs.into_iter().map(|(name, pv)| (name.into(), pv)).collect()),
            circuits: Mutex::default(),
            behaviour: Behaviour::default(),
            tcp_port: tcp_address.port(),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(answer_searches(udp, Arc::clone(&shared)));
        tasks.spawn(accept(tcp, Arc::clone(&shared)));
        FakePva { shared, address, tcp_address, tasks }
    }

    /// Stops the server; its ports are free on return.
    pub(crate) async fn stop(mut self) {
        self.tasks.shutdown().await;
    }

    pub(crate) fn behaviour(&self) -> &Behaviour {
        &self.shared.behaviour
    }

    /// Changes fields of a PV, and sends them to the subscribers.
    pub(crate) fn post(&self, name: &str, changed: &[usize], change: impl FnOnce(&mut Vec<Data>)) {
        let mut pvs = self.shared.pvs.lock().unwrap();
        let pv = pvs.get_mut(name).expect("a PV that is served");
        change(&mut pv.data);
        for circuit in self.circuits() {
            let state = &mut *circuit.state.lock().unwrap();
            for (&request, monitor) in state.monitors.iter_mut().filter(|(_, monitor)| monitor.name == name) {
                for &bit in changed {
                    if monitor.changed.get(bit) {
                        monitor.overrun.set(bit);
                    }
                    monitor.changed.set(bit);
                }
                send_update(&self.shared.behaviour, request, monitor, pv, &mut state.out);
            }
            circuit.wake.notify_one();
        }
    }

    /// Sets a counter; its value is field 1.
    pub(crate) fn count(&self, name: &str, n: i32) {
        self.post(name, &[1], |data| data[0] = Data::Int32(n));
    }

    /// Replaces a PV, without telling anyone.
    pub(crate) fn replace(&self, name: &str, pv: Pv) {
        self.shared.pvs.lock().unwrap().insert(name.into(), pv);
    }

    /// Ends the channels of a PV.
    pub(crate) fn end_channels(&self, name: &str) {
        for circuit in self.circuits() {
            let state = &mut *circuit.state.lock().unwrap();
            for (&server_channel, (_, channel)) in state.channels.iter().filter(|(_, (n, _))| n == name) {
                Response::ChannelDestroyed { server_channel, channel: *channel }
                    .encode(self.shared.behaviour.order(), &mut state.out);
            }
            circuit.wake.notify_one();
        }
    }

    /// Sends bytes to the subscribers of a PV, made from the number of the monitor.
    pub(crate) fn send_raw(&self, name: &str, mut message: impl FnMut(u32) -> Vec<u8>) {
        for circuit in self.circuits() {
            let state = &mut *circuit.state.lock().unwrap();
            let requests = state.monitors.iter().filter(|(_, monitor)| monitor.name == name);
            requests.for_each(|(&request, _)| state.out.extend(message(request)));
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

    /// Sends a beacon.
    pub(crate) async fn beacon(&self, guid: u8, to: SocketAddrV4) {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        socket.set_broadcast(true).unwrap();
        let mut beacon = Vec::new();
        Response::Beacon { guid: [guid; 12], changes: 0, address: None, port: self.shared.tcp_port }
            .encode(Order::Big, &mut beacon);
        socket.send_to(&beacon, to).await.unwrap();
    }

    fn circuits(&self) -> Vec<Arc<Circuit>> {
        self.shared.circuits.lock().unwrap().iter().filter_map(Weak::upgrade).collect()
    }
}

/// Sends the changed fields of a monitor, if it may.
fn send_update(behaviour: &Behaviour, request: u32, monitor: &mut Monitor, pv: &Pv, out: &mut Vec<u8>) {
    let ignores = behaviour.ignores_acknowledgements.load(Relaxed);
    if !monitor.started || monitor.changed.is_empty() || (monitor.window == 0 && !ignores) {
        return;
    }
    monitor.window = monitor.window.saturating_sub(1);
    let (changed, overrun) = (std::mem::take(&mut monitor.changed), std::mem::take(&mut monitor.overrun));
    respond_monitor(behaviour, request, 0, out, |w| {
        w.bit_set(&changed);
        encode_update(&pv.fields, &pv.data, &changed, w);
        w.bit_set(&overrun);
    });
}

fn respond_monitor(
    behaviour: &Behaviour,
    request: u32,
    subcommand: u8,
    out: &mut Vec<u8>,
    body: impl FnOnce(&mut Writer<'_>),
) {
    let order = behaviour.order();
    let mut bytes = Vec::new();
    body(&mut Writer::new(&mut bytes, order));
    let mut message = Vec::new();
    Response::Monitor { request, subcommand, body: Reader::new(&bytes, order) }.encode(order, &mut message);
    match behaviour.segment_bytes.load(Relaxed) {
        0 => out.extend(message),
        segment_bytes => cut(&message, segment_bytes, order, out),
    }
}

/// Cuts a message into segments, with a control message between them.
fn cut(message: &[u8], segment_bytes: usize, order: Order, out: &mut Vec<u8>) {
    let (header, payload) = message.split_at(HEADER_BYTES);
    let count = payload.len().div_ceil(segment_bytes);
    for (at, segment) in payload.chunks(segment_bytes).enumerate() {
        let flag = match at {
            _ if count == 1 => 0,
            0 => 0x10,
            at if at + 1 == count => 0x20,
            _ => 0x30,
        };
        out.extend_from_slice(&[header[0], header[1], header[2] | flag, header[3]]);
        Writer::new(out, order).u32(segment.len() as u32);
        out.extend_from_slice(segment);
        Header::encode_control(control::ECHO_REQUEST, 7, true, order, out);
    }
}

async fn answer_searches(socket: UdpSocket, shared: Arc<Shared>) {
    let mut datagram = vec![0; 64 << 10];
    loop {
        let Ok((bytes, client)) = socket.recv_from(&mut datagram).await else { continue };
        if shared.behaviour.stalled.load(Relaxed) {
            continue;
        }
        shared.behaviour.search_datagrams.fetch_add(1, Relaxed);
        shared.behaviour.largest_datagram.fetch_max(bytes, Relaxed);
        let mut answer = Vec::new();
        for (header, payload) in frames(&datagram[..bytes]) {
            if let Ok(Some(request @ Request::Search { port, .. })) = Request::decode(&header, payload) {
                assert_eq!(port, client.port(), "the client announces the port of its socket");
                answer_search(&shared, &request, &mut answer);
            }
        }
        if !answer.is_empty() {
            let _ = socket.send_to(&answer, client).await;
        }
    }
}

fn answer_search(shared: &Shared, request: &Request<'_>, out: &mut Vec<u8>) {
    let Request::Search { sequence, names, .. } = request else { return };
    shared.behaviour.searches.fetch_add(names.len(), Relaxed);
    let pvs = shared.pvs.lock().unwrap();
    let channels: Vec<u32> = names.iter().filter(|(_, name)| pvs.contains_key(&**name)).map(|&(id, _)| id).collect();
    if !channels.is_empty() {
        Response::Found {
            guid: [1; 12],
            sequence: *sequence,
            address: None,
            port: shared.tcp_port,
            found: true,
            channels,
        }
        .encode(shared.behaviour.order(), out);
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut circuits = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        shared.behaviour.connections.fetch_add(1, Relaxed);
        let circuit = Arc::new(Circuit::default());
        let mut all = shared.circuits.lock().unwrap();
        all.retain(|circuit| circuit.strong_count() > 0);
        all.push(Arc::downgrade(&circuit));
        circuits.spawn(serve(stream, circuit, Arc::clone(&shared)));
    }
}

async fn serve(mut stream: TcpStream, circuit: Arc<Circuit>, shared: Arc<Shared>) {
    let (mut reader, mut writer) = stream.split();
    {
        let (out, order) = (&mut circuit.state.lock().unwrap().out, shared.behaviour.order());
        Header::encode_control(control::SET_BYTE_ORDER, 0, true, order, out);
        let methods = vec!["anonymous".to_owned(), "ca".to_owned()];
        Response::Validation { buffer_bytes: 1 << 16, types_max: 100, methods }.encode(order, out);
    }
    let read = async {
        let mut input = Vec::new();
        loop {
            stall(&shared).await;
            if !matches!(reader.read_buf(&mut input).await, Ok(1..)) {
                return;
            }
            let mut used = 0;
            while let Ok(Frame::Message { header, payload, bytes }) = first_frame(&input[used..], 1 << 20) {
                assert!(
                    header.is_control() || header.order() == shared.behaviour.order(),
                    "the order that was asked for"
                );
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
            let chunk = match shared.behaviour.chunk_bytes.load(Relaxed) {
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
    while shared.behaviour.stalled.load(Relaxed) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn answer(shared: &Shared, state: &mut State, request: &Request<'_>) {
    let behaviour = &shared.behaviour;
    let order = behaviour.order();
    let count = |counter: &AtomicUsize, n: usize| counter.fetch_add(n, Relaxed);
    let error = || Status { kind: 2, message: "not today".to_owned() };
    match *request {
        Request::Search { .. } => answer_search(shared, request, &mut state.out),
        Request::Validation { method, user, host, .. } => {
            behaviour.identities.lock().unwrap().push(format!("{method} {user} {host}"));
            let status = if behaviour.refuses_clients.load(Relaxed) { error() } else { Status::default() };
            Response::Validated { status }.encode(order, &mut state.out);
        }
        Request::CreateChannel { channel, name } => {
            if behaviour.refuses.load(Relaxed) || !shared.pvs.lock().unwrap().contains_key(name) {
                return Response::ChannelCreated { channel, server_channel: 0, status: error() }
                    .encode(order, &mut state.out);
            }
            state.next_channel += 1;
            let server_channel = state.next_channel;
            state.channels.insert(server_channel, (name.to_owned(), channel));
            Response::ChannelCreated { channel, server_channel, status: Status::default() }
                .encode(order, &mut state.out);
        }
        Request::MonitorInit { server_channel, request, queue, .. } => {
            count(&behaviour.monitors, 1);
            let Some((name, _)) = state.channels.get(&server_channel) else { return };
            if behaviour.refuses_monitors.load(Relaxed) {
                return respond_monitor(behaviour, request, monitor::INIT, &mut state.out, |w| w.status(&error()));
            }
            let ty = Type::Structure(Arc::clone(&shared.pvs.lock().unwrap()[name].fields));
            let known = state.types.iter().position(|known| *known == ty);
            respond_monitor(behaviour, request, monitor::INIT, &mut state.out, |w| {
                w.status(&Status::default());
                w.u8(if known.is_some() { 0xFE } else { 0xFD });
                w.u16(known.unwrap_or(state.types.len()) as u16);
                if known.is_none() {
                    ty.encode(w);
                }
            });
            if known.is_none() {
                state.types.push(ty);
            }
            let (changed, overrun) = (BitSet::from_iter([0]), BitSet::default());
            let window = match behaviour.window_max.load(Relaxed) {
                0 => queue as usize,
                max => max.min(queue as usize),
            };
            let name = name.clone();
            state
                .monitors
                .insert(request, Monitor { name, channel: server_channel, started: false, window, changed, overrun });
        }
        Request::MonitorStart { request, .. } => {
            let Some(monitor) = state.monitors.get_mut(&request) else { return };
            monitor.started = true;
            send_update(behaviour, request, monitor, &shared.pvs.lock().unwrap()[&monitor.name], &mut state.out);
        }
        Request::MonitorAck { request, updates, .. } => {
            count(&behaviour.acknowledged, updates as usize);
            let Some(monitor) = state.monitors.get_mut(&request) else { return };
            monitor.window += updates as usize;
            send_update(behaviour, request, monitor, &shared.pvs.lock().unwrap()[&monitor.name], &mut state.out);
        }
        Request::DestroyRequest { request, .. } => drop(state.monitors.remove(&request)),
        Request::DestroyChannel { server_channel, channel } => {
            count(&behaviour.destroyed, 1);
            state.channels.remove(&server_channel);
            state.monitors.retain(|_, monitor| monitor.channel != server_channel);
            Response::ChannelDestroyed { server_channel, channel }.encode(order, &mut state.out);
        }
        Request::Echo => {
            count(&behaviour.echoes, 1);
            Response::Echo.encode(order, &mut state.out);
        }
    }
}
