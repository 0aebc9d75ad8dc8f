//! A circuit: one TCP connection to a server, shared by all channels of it.
//!
//! A circuit is a task that owns its channels. It ends when the connection does, or when it has had no channel for a while;
//! it then gives its channels back, after their `Disconnected` events are in the queue. So events of a channel stay in order across
//! circuits, and a consumer that stops reading also stops reconnections.
//!
//! A channel is created, then its monitor is initialised, which tells its type, then started. The channel is open, for the consumer,
//! from the second step on. An update has only changed fields, so the circuit keeps the whole structure of each channel. When it
//! could not read an update, it no longer knows the structure: it drops and counts updates, and begins the monitor anew at the next.
//!
//! Back-pressure: while the queue is full the circuit keeps reading but acknowledges no updates, so that servers stop sending; it
//! keeps up to 1 MiB, and drops and counts further samples. Acknowledgements follow when half of the queue is free.

use std::collections::VecDeque;
use std::net::SocketAddrV4;
use std::pin::pin;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::data::{self, Data};
use super::normative::{self, Layout};
use super::protocol::{
    Frame, Header, Joined, Request, Response, Segments, command, control, first_frame, monitor, monitor_options,
    request_of,
};
use super::types::{Fields, KNOWN_NUMBER, Type, TypeCache};
use super::wire::{BitSet, Malformed, Order as ByteOrder, Reader, Status};
use super::{Options, Settings};
use crate::client::connection::{
    CHECK_PERIOD, LINGER, OUT_BYTES_MAX, ReadBuffer, STABLE_AFTER, Silence, Step, connect,
};
use crate::client::event::{
    Access, Annotations, ChannelId, DropReason, Event, EventMask, Outbox, Queue, Reason, Update,
};
use crate::client::{Clock, Statistics};
use crate::sample::{Array, Nanos, Scalar, Value};

/// Buffer and number of types that the client announces; servers of today do not use them.
const ANNOUNCED_BUFFER_BYTES: u32 = 64 << 10;
const ANNOUNCED_TYPES: u16 = 0x7FFF;
/// Layouts that are remembered, to be shared by channels of one type.
const LAYOUTS_MAX: usize = 64;

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
    Ended { circuit: SocketAddrV4, stable: bool, channels: Vec<u32> },
    /// A name server found a name.
    Found { channel: u32, address: SocketAddrV4 },
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
    name: Arc<str>,
    options: Options,
    state: State,
    /// Layout of the last `Connected`; `None` before.
    connected: Option<Arc<Layout>>,
    /// Hash of the metadata as last reported; `None` before.
    metadata: Option<u64>,
    annotations: Option<Box<Annotations>>,
    /// Whether the server lost updates since the last sample.
    overrun: bool,
    /// Whether the server may have lost updates since the last sample, because they were not acknowledged.
    withheld: bool,
}

enum State {
    Creating {
        since: Instant,
    },
    /// The type is awaited.
    Initializing {
        server_channel: u32,
        request: u32,
        since: Instant,
    },
    Open(Monitor),
}

impl State {
    /// Number that the server gave the channel.
    fn server_channel(&self) -> Option<u32> {
        match self {
            State::Creating { .. } => None,
            State::Initializing { server_channel, .. } | State::Open(Monitor { server_channel, .. }) => {
                Some(*server_channel)
            }
        }
    }
}

struct Monitor {
    server_channel: u32,
    request: u32,
    layout: Arc<Layout>,
    /// The whole structure.
    data: Box<[Data]>,
    /// Whether an update has arrived.
    has_data: bool,
    /// The reason why an update was not read, so that `data` are not those of the server.
    stale: Option<DropReason>,
    /// Updates that were not acknowledged.
    unacknowledged: u32,
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
    address: SocketAddrV4,
    shared: Shared,
    orders: mpsc::UnboundedReceiver<Order>,
    channels: FxHashMap<u32, Channel>,
    /// Channels by the numbers of their monitors.
    requests: FxHashMap<u32, u32>,
    next_request: u32,
    /// Monitors of removed channels whose last updates may announce types: by channel, until the server confirms the removal.
    removed: FxHashMap<u32, (u32, Arc<Layout>)>,
    types: TypeCache,
    layouts: Vec<Arc<Layout>>,
    segments: Segments,
    outbox: Outbox,
    /// Byte order that the server asked for.
    order: ByteOrder,
    /// Bytes for the server.
    out: Vec<u8>,
    /// Whether the server has accepted the client.
    accepted: bool,
    /// Channels with updates that were not acknowledged.
    unacknowledged: Vec<u32>,
    /// Whether acknowledgements are withheld.
    withholding: bool,
    silence: Silence,
    /// Time at which the first channel was opened.
    opened: Option<Instant>,
    /// Time of the last check.
    checked: Instant,
    idle_since: Option<Instant>,
    /// Channels that the server was asked to create or initialise, in order; those that are open by now too.
    creating: VecDeque<(Instant, u32)>,
    /// Channels that the server has ended, and whether they were open.
    returned: Vec<(u32, bool)>,
    /// Samples since the last update of the statistics.
    samples: u64,
}

/// Appends the answer to a server that asks who the client is.
pub(super) fn accept(methods: &[String], settings: &Settings, order: ByteOrder, out: &mut Vec<u8>) {
    let method = if methods.iter().any(|method| method == "ca") { "ca" } else { "anonymous" };
    Request::Validation {
        buffer_bytes: ANNOUNCED_BUFFER_BYTES,
        types_max: ANNOUNCED_TYPES,
        method,
        user: &settings.client_name,
        host: &settings.host_name,
    }
    .encode(order, out);
}

impl Circuit {
    pub(super) fn new(address: SocketAddrV4, orders: mpsc::UnboundedReceiver<Order>, shared: Shared) -> Circuit {
        Circuit {
            address,
            orders,
            channels: FxHashMap::default(),
            requests: FxHashMap::default(),
            next_request: 0,
            removed: FxHashMap::default(),
            types: TypeCache::default(),
            layouts: Vec::new(),
            segments: Segments::default(),
            outbox: Outbox::new(shared.queue.clone()),
            order: ByteOrder::Little,
            out: Vec::new(),
            accepted: false,
            unacknowledged: Vec::new(),
            withholding: false,
            silence: Silence::new(shared.settings.connection_timeout),
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
        let end = match connect(self.address, self.shared.settings.connection_timeout).await {
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
            let _ = self.shared.reports.send(Report::Ended { circuit: self.address, stable, channels }).await;
        }
    }

    async fn serve(&mut self, mut stream: TcpStream) -> End {
        let (mut reader, mut writer) = stream.split();
        let mut input = ReadBuffer::new();
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
        let limit = self.shared.settings.message_bytes_max;
        loop {
            match first_frame(input.bytes(), limit).map_err(|_| End::Lost(Reason::Protocol))? {
                Frame::Message { header, bytes, .. } if header.is_control() => {
                    self.control(&header);
                    input.consume(bytes as u64);
                }
                Frame::Message { header, payload, bytes } => {
                    self.segment(&header, payload, true, received)?;
                    input.consume(bytes as u64);
                }
                Frame::Incomplete { bytes } => {
                    input.make_room(bytes);
                    break;
                }
                Frame::TooLarge { header, start, bytes } => {
                    self.segment(&header, start, false, received)?;
                    input.consume(bytes);
                }
            }
        }
        self.shared.statistics.samples.add(std::mem::take(&mut self.samples));
        self.outbox.flush();
        if self.outbox.is_blocked() && !self.withholding {
            self.withholding = true;
            self.shared.statistics.flow_controls.add(1);
        }
        if !self.withholding {
            self.acknowledge();
        }
        Ok(())
    }

    fn control(&mut self, header: &Header) {
        match header.command {
            control::SET_BYTE_ORDER => self.order = header.order(),
            control::ECHO_REQUEST => {
                Header::encode_control(control::ECHO_RESPONSE, header.payload_bytes, false, self.order, &mut self.out);
            }
            _ => {}
        }
    }

    /// Handles the payload of a frame, which may be a segment of a message.
    fn segment(&mut self, header: &Header, payload: &[u8], whole: bool, received: Nanos) -> Result<(), End> {
        let mut segments = std::mem::take(&mut self.segments);
        let limit = self.shared.settings.message_bytes_max;
        let result = match segments.join(header, payload, whole, limit) {
            Ok(Joined::More) => Ok(()),
            Ok(Joined::Message(payload)) => self.message(header, payload, received),
            Ok(Joined::TooLarge(start)) => self.too_large(header, start),
            Err(_) => Err(End::Lost(Reason::Protocol)),
        };
        segments.release();
        self.segments = segments;
        result
    }

    fn message(&mut self, header: &Header, payload: &[u8], received: Nanos) -> Result<(), End> {
        let response = match Response::decode(header, payload) {
            Ok(Some(response)) => response,
            Ok(None) | Err(_) => {
                self.shared.statistics.malformed_messages.add(1);
                return if self.accepted { Ok(()) } else { Err(End::Lost(Reason::Protocol)) };
            }
        };
        match response {
            Response::Monitor { request, subcommand, body } => {
                return self.monitor(request, subcommand, body, received);
            }
            Response::ChannelCreated { channel, server_channel, status } => {
                self.created(channel, server_channel, &status, received);
            }
            Response::ChannelDestroyed { server_channel, channel } => {
                self.removed.remove(&channel);
                // The answer to a request of this client may arrive after the channel was created anew.
                if self.channels.get(&channel).and_then(|channel| channel.state.server_channel())
                    == Some(server_channel)
                {
                    self.give_back(channel, received);
                }
            }
            Response::Validation { methods, .. } => {
                accept(&methods, &self.shared.settings, self.order, &mut self.out);
            }
            Response::Validated { status } => {
                if !status.is_success() {
                    let channels: Vec<u32> = self.channels.keys().copied().collect();
                    channels.iter().for_each(|&id| self.refused(id, command::CONNECTION_VALIDATED, &status, received));
                    return Err(End::Lost(Reason::CircuitClosed));
                }
                if !std::mem::replace(&mut self.accepted, true) {
                    self.create_all();
                }
            }
            Response::Echo | Response::Found { .. } | Response::Beacon { .. } | Response::Message { .. } => {}
        }
        Ok(())
    }

    /// A message above the limit: an update is dropped and counted, another cannot be a message of this protocol.
    fn too_large(&mut self, header: &Header, start: &[u8]) -> Result<(), End> {
        let request = request_of(start, header.order()).filter(|_| header.command == command::MONITOR);
        match request {
            Some((request, subcommand)) if subcommand & monitor::INIT == 0 => {
                self.unreadable(request, DropReason::TooLarge);
                Ok(())
            }
            _ => Err(End::Lost(Reason::Protocol)),
        }
    }

    /// Asks the server to create all channels; they were added before it had accepted the client.
    fn create_all(&mut self) {
        let now = Instant::now();
        for (since, id) in &mut self.creating {
            if let Some(channel) = self.channels.get_mut(id) {
                *since = now;
                channel.state = State::Creating { since: now };
                Request::CreateChannel { channel: *id, name: &channel.name }.encode(self.order, &mut self.out);
            }
        }
    }

    /// The server created a channel, or refused it: asks for its type.
    fn created(&mut self, id: u32, server_channel: u32, status: &Status, received: Nanos) {
        let Some(channel) = self.channels.get_mut(&id) else {
            if status.is_success() {
                Request::DestroyChannel { server_channel, channel: id }.encode(self.order, &mut self.out);
            }
            return;
        };
        let State::Creating { .. } = channel.state else {
            self.shared.statistics.malformed_messages.add(1);
            return;
        };
        if !status.is_success() {
            self.refused(id, command::CREATE_CHANNEL, status, received);
            return self.give_back(id, received);
        }
        self.initialize(id, server_channel);
    }

    /// Begins a monitor.
    fn initialize(&mut self, id: u32, server_channel: u32) {
        let Some(channel) = self.channels.get_mut(&id) else { return };
        let request = self.next_request;
        self.next_request = self.next_request.wrapping_add(1);
        let since = Instant::now();
        channel.state = State::Initializing { server_channel, request, since };
        self.creating.push_back((since, id));
        self.requests.insert(request, id);
        let Options { mask, queue, .. } = channel.options;
        let options = [("pipeline", "true"), ("queueSize", &queue.to_string()), ("DBE", &mask_text(mask))];
        let options = monitor_options(&options, self.order);
        Request::MonitorInit { server_channel, request, options: &options, queue }.encode(self.order, &mut self.out);
    }

    fn monitor(&mut self, request: u32, subcommand: u8, mut body: Reader<'_>, received: Nanos) -> Result<(), End> {
        if subcommand & monitor::INIT != 0 {
            let answer = body.status().and_then(|status| {
                let ty = if status.is_success() { Type::decode(&mut body, &mut self.types)? } else { None };
                Ok((status, ty))
            });
            return match answer {
                Ok((status, ty)) => {
                    self.initialized(request, &status, ty, received);
                    Ok(())
                }
                // The types may be those of other channels too.
                Err(_) => Err(End::Lost(Reason::Protocol)),
            };
        }
        let finished = subcommand & monitor::FINISH != 0;
        let status = if finished { body.status().unwrap_or_default() } else { Status::default() };
        if !finished || body.left() > 0 {
            self.update(request, &mut body, received)?;
        }
        if let Some(&id) = self.requests.get(&request).filter(|_| finished) {
            if !status.is_success() {
                self.refused(id, command::MONITOR, &status, received);
            }
            self.destroy(id);
            self.give_back(id, received);
        }
        Ok(())
    }

    /// The server told the type of a channel, or refused its monitor: reports it, and starts the monitor.
    fn initialized(&mut self, request: u32, status: &Status, ty: Option<Type>, received: Nanos) {
        let Some(&id) = self.requests.get(&request) else { return };
        let layout = match ty {
            Some(Type::Structure(fields)) => self.layout(&fields),
            _ => {
                let none = Status { kind: 2, message: "the server told no structure as the type of the PV".to_owned() };
                self.refused(id, command::MONITOR, if status.is_success() { &none } else { status }, received);
                self.destroy(id);
                return self.give_back(id, received);
            }
        };
        let Some(channel) = self.channels.get_mut(&id) else { return };
        let State::Initializing { server_channel, .. } = channel.state else {
            self.shared.statistics.malformed_messages.add(1);
            return;
        };
        let (data, stale) = (Data::defaults(layout.fields()), None);
        let (native, count) = (layout.native(), layout.count());
        let was_connected = channel.connected.replace(Arc::clone(&layout));
        channel.state =
            State::Open(Monitor { server_channel, request, layout, data, has_data: false, stale, unacknowledged: 0 });
        if was_connected.is_none() {
            self.opened.get_or_insert_with(Instant::now);
            self.shared.statistics.connected_channels.add(1);
        }
        if was_connected.is_none_or(|before| before.native() != native || before.count() != count) {
            let access = Access { read: true, write: false };
            let event = Event::Connected { host: self.address, native, count, access };
            self.outbox.push(Update { channel: ChannelId(id), received, event }, 0);
        }
        Request::MonitorStart { server_channel, request }.encode(self.order, &mut self.out);
    }

    /// The layout of a type; channels of one type share it.
    fn layout(&mut self, fields: &Arc<Fields>) -> Arc<Layout> {
        let same = |layout: &&Arc<Layout>| Arc::ptr_eq(layout.fields(), fields) || layout.fields() == fields;
        if let Some(layout) = self.layouts.iter().find(same) {
            return Arc::clone(layout);
        }
        let layout = Arc::new(Layout::of(Arc::clone(fields)));
        if self.layouts.len() < LAYOUTS_MAX {
            self.layouts.push(Arc::clone(&layout));
        }
        layout
    }

    /// Applies an update to the structure of its channel, and reports the sample.
    fn update(&mut self, request: u32, body: &mut Reader<'_>, received: Nanos) -> Result<(), End> {
        let bytes = body.left();
        let Some(&id) = self.requests.get(&request) else { return self.update_of_removed(request, body) };
        let Some(channel) = self.channels.get_mut(&id) else { return Ok(()) };
        let State::Open(monitor) = &mut channel.state else { return Ok(()) };
        monitor.unacknowledged += 1;
        if monitor.unacknowledged == 1 {
            self.unacknowledged.push(id);
        }
        let layout = Arc::clone(&monitor.layout);
        let read = read_update(body, &layout, &mut monitor.data, &mut self.types);
        let (changed, overrun) = match read {
            Ok(read) => read,
            Err(error) if error.expected == KNOWN_NUMBER => return Err(End::Lost(Reason::Protocol)),
            Err(_) => {
                self.unreadable(request, DropReason::Malformed);
                return Ok(());
            }
        };
        if let Some(reason) = monitor.stale {
            let server_channel = monitor.server_channel;
            self.drop_sample(id, reason);
            self.requests.remove(&request);
            Request::DestroyRequest { server_channel, request }.encode(self.order, &mut self.out);
            self.initialize(id, server_channel);
            return Ok(());
        }
        let first = !std::mem::replace(&mut monitor.has_data, true);
        channel.overrun |= overrun;
        let push = |outbox: &mut Outbox, event, bytes| {
            outbox.push(Update { channel: ChannelId(id), received, event }, bytes);
        };
        if channel.options.metadata && layout.has_metadata(&changed) {
            let metadata = layout.metadata(&monitor.data);
            let hash = normative::hash(&metadata);
            if channel.metadata.replace(hash) != Some(hash) {
                push(&mut self.outbox, Event::Metadata(Box::new(metadata)), bytes);
            }
        }
        if !first && !layout.has_sample(&changed) {
            return Ok(());
        }
        if self.outbox.is_full() {
            self.drop_sample(id, DropReason::ConsumerSlow);
            return Ok(());
        }
        if std::mem::take(&mut channel.withheld) {
            push(&mut self.outbox, Event::Withheld, 0);
        }
        self.outbox.report_dropped(id, received);
        let State::Open(monitor) = &channel.state else { return Ok(()) };
        if std::mem::take(&mut channel.overrun) {
            push(&mut self.outbox, Event::Overrun, 0);
        }
        let annotations = layout.annotations(&monitor.data);
        if channel.annotations.as_deref().map_or(annotations != Annotations::default(), |last| *last != annotations) {
            channel.annotations = Some(Box::new(annotations.clone()));
            push(&mut self.outbox, Event::Annotations(Box::new(annotations)), 0);
        }
        self.samples += 1;
        let sample = layout.sample(&monitor.data, received);
        // An update of the alarm alone is small, and its sample has the whole value.
        let bytes = bytes_of(&sample.value);
        push(&mut self.outbox, Event::Sample(sample), bytes);
        Ok(())
    }

    /// Reads an update that nobody wants any more, for the types that it may announce.
    fn update_of_removed(&mut self, request: u32, body: &mut Reader<'_>) -> Result<(), End> {
        let Some((_, layout)) = self.removed.values().find(|(known, _)| *known == request) else { return Ok(()) };
        let mut data = Data::defaults(layout.fields());
        let read = read_update(body, layout, &mut data, &mut self.types);
        read.map(|_| ()).map_err(|_| End::Lost(Reason::Protocol))
    }

    /// An update of a channel was not read.
    fn unreadable(&mut self, request: u32, reason: DropReason) {
        let Some(&id) = self.requests.get(&request) else { return };
        let Some(channel) = self.channels.get_mut(&id) else { return };
        if let State::Open(monitor) = &mut channel.state {
            monitor.stale = Some(reason);
            self.drop_sample(id, reason);
        }
    }

    fn refused(&mut self, id: u32, command: u8, status: &Status, received: Nanos) {
        let text = status.message.clone();
        let bytes = text.len();
        let event = Event::Refused { command: command.into(), status: status.kind.into(), text };
        self.outbox.push(Update { channel: ChannelId(id), received, event }, bytes);
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
                if self.accepted {
                    Request::CreateChannel { channel, name: &name }.encode(self.order, &mut self.out);
                }
                self.channels.insert(
                    channel,
                    Channel {
                        name,
                        options,
                        state: State::Creating { since },
                        connected: None,
                        metadata: None,
                        annotations: None,
                        overrun: false,
                        withheld: false,
                    },
                );
            }
            Order::Remove { channel } => {
                self.destroy(channel);
                self.forget(channel);
                self.outbox.forget_dropped(channel);
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

    /// Asks the server to close a channel.
    fn destroy(&mut self, id: u32) {
        let Some(channel) = self.channels.get(&id) else { return };
        let Some(server_channel) = channel.state.server_channel() else { return };
        if let State::Open(monitor) = &channel.state
            && monitor.layout.fields().is_dynamic()
        {
            self.removed.insert(id, (monitor.request, Arc::clone(&monitor.layout)));
        }
        Request::DestroyChannel { server_channel, channel: id }.encode(self.order, &mut self.out);
    }

    fn forget(&mut self, id: u32) -> Option<Channel> {
        let channel = self.channels.remove(&id)?;
        match &channel.state {
            State::Creating { .. } => {}
            State::Initializing { request, .. } | State::Open(Monitor { request, .. }) => {
                self.requests.remove(request);
            }
        }
        if channel.connected.is_some() {
            self.shared.statistics.connected_channels.subtract(1);
        }
        Some(channel)
    }

    /// Removes a channel and reports that it is disconnected, if it was open.
    fn close(&mut self, id: u32, reason: Reason, received: Nanos) {
        let Some(channel) = self.forget(id) else { return };
        self.outbox.report_dropped(id, received);
        if channel.connected.is_some() {
            self.outbox.push(Update { channel: ChannelId(id), received, event: Event::Disconnected(reason) }, 0);
        }
    }

    /// The server has ended a channel. It is returned when its events are in the queue, to keep their order.
    fn give_back(&mut self, id: u32, received: Nanos) {
        let Some(channel) = self.channels.get(&id) else { return };
        // A server that ends a channel before its first update refuses it.
        let was_open = matches!(&channel.state, State::Open(monitor) if monitor.has_data);
        self.returned.push((id, was_open));
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
            self.acknowledge();
            self.withholding = false;
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

    /// Acknowledges the updates that arrived since the last time. Servers of pvAccessCPP may have a queue of 2, whatever was asked for,
    /// and keep an update there until it is acknowledged; so no acknowledgement waits for further updates.
    fn acknowledge(&mut self) {
        for id in self.unacknowledged.drain(..) {
            let Some(channel) = self.channels.get_mut(&id) else { continue };
            let State::Open(monitor) = &mut channel.state else { continue };
            let Monitor { server_channel, request, unacknowledged, .. } = monitor;
            let updates = std::mem::take(unacknowledged);
            if updates > 0 {
                Request::MonitorAck { server_channel: *server_channel, request: *request, updates }
                    .encode(self.order, &mut self.out);
            }
            // The server had to wait only if it has sent all that it may send.
            channel.withheld |= self.withholding && updates >= channel.options.queue;
        }
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
            Step::Echo => Request::Echo.encode(self.order, &mut self.out),
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
            let waits = |channel: &Channel| match channel.state {
                State::Creating { since: s } | State::Initializing { since: s, .. } => s == since,
                State::Open(_) => false,
            };
            if self.channels.get(&id).is_some_and(waits) {
                self.destroy(id);
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

/// Reads an update; returns the fields that changed, and whether the server lost values of some.
fn read_update(
    body: &mut Reader<'_>,
    layout: &Layout,
    data: &mut [Data],
    types: &mut TypeCache,
) -> Result<(BitSet, bool), Malformed> {
    let changed = body.bit_set()?;
    data::update(body, layout.fields(), data, &changed, layout.wanted(), types)?;
    Ok((changed, !body.bit_set()?.is_empty()))
}

/// Memory of a value, beside its fixed part.
fn bytes_of(value: &Value) -> usize {
    match value {
        Value::Scalar(Scalar::Text(text)) => text.len(),
        Value::Scalar(_) => 0,
        Value::Structure(bytes) => bytes.len(),
        Value::Array(array) => match array {
            Array::Int8(values) => values.len(),
            Array::Int16(values) => size_of_val(&**values),
            Array::Int32(values) => size_of_val(&**values),
            Array::Int64(values) => size_of_val(&**values),
            Array::Float32(values) => size_of_val(&**values),
            Array::Float64(values) => size_of_val(&**values),
            Array::Enum(values) => size_of_val(&**values),
            Array::Text(values) => values.iter().map(|text| size_of::<String>() + text.len()).sum(),
        },
    }
}

/// Conditions of updates, as IOCs read them.
fn mask_text(mask: EventMask) -> String {
    let names = [(EventMask::VALUE, "VALUE"), (EventMask::LOG, "ARCHIVE"), (EventMask::ALARM, "ALARM")];
    let names = names.iter().filter(|(bit, _)| mask.0 & bit.0 != 0).map(|&(_, name)| name);
    names.collect::<Vec<_>>().join("|")
}
