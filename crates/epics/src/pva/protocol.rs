//! Messages of PV Access: headers, segments, and the messages that a subscription needs.
//!
//! | at | size | field     | meaning                                                                                          |
//! |---:|-----:|-----------|--------------------------------------------------------------------------------------------------|
//! |  0 |    1 | magic     | 0xCA                                                                                             |
//! |  1 |    1 | version   | [`VERSION`]                                                                                      |
//! |  2 |    1 | flags     | 0x01 control message; 0x10 first, 0x20 last, 0x30 middle segment; 0x40 from a server; 0x80 big-endian |
//! |  3 |    1 | command   | [`command`], or [`control`]                                                                      |
//! |  4 |    4 | payload   | bytes after the header; of a control message its argument                                        |
//!
//! Source: "pvAccess Protocol Specification", and the bytes that pvxs 1.5 sends.
//!
//! Always true: a length is compared with a limit before anything is kept, and with the bytes that are there before it is allocated.

use std::net::Ipv4Addr;
use std::sync::Arc;

use super::types::{NO_TYPE, Type, TypeCache};
use super::wire::{Malformed, Order, Reader, Status, Writer};

/// Version of the protocol that this client speaks.
pub const VERSION: u8 = 2;
/// Bytes of a header.
pub const HEADER_BYTES: usize = 8;
/// Largest name of a PV, in bytes. The specification allows more; a search for it must fit a datagram.
pub const NAME_BYTES_MAX: usize = 500;
/// Bytes of a message that are needed to know which request it answers.
const REQUEST_BYTES: usize = 5;
/// Memory for segments that is kept for the next message.
const KEPT_BYTES_MAX: usize = 64 << 10;
/// Place of the flags in a search datagram.
const SEARCH_FLAGS_AT: usize = HEADER_BYTES + 4;
/// Flag of a search that was sent to one server; it repeats the search for the other servers of its machine.
const UNICAST: u8 = 0x80;
const TCP: &str = "tcp";

const MAGIC: u8 = 0xCA;
const CONTROL: u8 = 0x01;
const SEGMENT: u8 = 0x30;
const FIRST_SEGMENT: u8 = 0x10;
const LAST_SEGMENT: u8 = 0x20;
const FROM_SERVER: u8 = 0x40;
const BIG_ENDIAN: u8 = 0x80;

/// Numbers of commands.
pub mod command {
    #![allow(missing_docs, reason = "names of the specification")]
    pub const BEACON: u8 = 0x00;
    pub const CONNECTION_VALIDATION: u8 = 0x01;
    pub const ECHO: u8 = 0x02;
    pub const SEARCH: u8 = 0x03;
    pub const SEARCH_RESPONSE: u8 = 0x04;
    pub const CREATE_CHANNEL: u8 = 0x07;
    pub const DESTROY_CHANNEL: u8 = 0x08;
    pub const CONNECTION_VALIDATED: u8 = 0x09;
    pub const MONITOR: u8 = 0x0D;
    pub const DESTROY_REQUEST: u8 = 0x0F;
    pub const MESSAGE: u8 = 0x12;
}

/// Numbers of control messages.
pub mod control {
    #![allow(missing_docs, reason = "names of the specification")]
    pub const SET_BYTE_ORDER: u8 = 2;
    pub const ECHO_REQUEST: u8 = 3;
    pub const ECHO_RESPONSE: u8 = 4;
}

/// Bits of the subcommand of a monitor.
pub mod monitor {
    #![allow(missing_docs, reason = "names of the specification")]
    pub const INIT: u8 = 0x08;
    pub const START: u8 = 0x44;
    pub const FINISH: u8 = 0x10;
    /// With `INIT`: the server sends at most as many updates as were acknowledged. Alone: an acknowledgement.
    pub const PIPELINE: u8 = 0x80;
}

/// Header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Flags.
    pub flags: u8,
    /// Number of the command.
    pub command: u8,
    /// Bytes after the header, or the argument of a control message.
    pub payload_bytes: u32,
}

impl Header {
    /// The header at the start of `bytes`; `None` when more bytes are needed.
    ///
    /// # Errors
    /// The bytes are not of PV Access.
    pub fn decode(bytes: &[u8]) -> Result<Option<Header>, Malformed> {
        if bytes.first().is_some_and(|&magic| magic != MAGIC) {
            return Err(Malformed { expected: "0xCA, the first byte of a message", left: bytes.len() });
        }
        let Some(&[_, _, flags, command, ref payload_bytes @ ..]) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let mut header = Header { flags, command, payload_bytes: u32::from_le_bytes(*payload_bytes) };
        if header.order() == Order::Big {
            header.payload_bytes = u32::from_be_bytes(*payload_bytes);
        }
        Ok(Some(header))
    }

    /// Byte order of the message.
    #[must_use]
    pub fn order(&self) -> Order {
        if self.flags & BIG_ENDIAN != 0 { Order::Big } else { Order::Little }
    }

    /// Whether it is a control message, which has no payload.
    #[must_use]
    pub fn is_control(&self) -> bool {
        self.flags & CONTROL != 0
    }

    /// Appends a control message.
    pub fn encode_control(command: u8, argument: u32, from_server: bool, order: Order, out: &mut Vec<u8>) {
        out.extend_from_slice(&[MAGIC, VERSION, CONTROL | flags(from_server, order), command]);
        Writer::new(out, order).u32(argument);
    }
}

fn flags(from_server: bool, order: Order) -> u8 {
    let order = if order == Order::Big { BIG_ENDIAN } else { 0 };
    if from_server { order | FROM_SERVER } else { order }
}

/// The first message of a stream of bytes; of a control message, only the header is of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// The message is not complete.
    Incomplete {
        /// Bytes from the start of the message that are needed to go on; at most the limit and a header.
        bytes: usize,
    },
    /// A whole message or segment.
    Message {
        /// Header.
        header: Header,
        /// Payload.
        payload: &'a [u8],
        /// Bytes of header and payload.
        bytes: usize,
    },
    /// The payload is larger than the limit.
    TooLarge {
        /// Header.
        header: Header,
        /// Start of the payload: 5 bytes.
        start: &'a [u8],
        /// Bytes of header and payload.
        bytes: u64,
    },
}

/// Finds the first message of `bytes`.
///
/// - `payload_bytes_max`: limit of a payload.
///
/// # Errors
/// The bytes are not of PV Access.
pub fn first_frame(bytes: &[u8], payload_bytes_max: usize) -> Result<Frame<'_>, Malformed> {
    let Some(header) = Header::decode(bytes)? else { return Ok(Frame::Incomplete { bytes: HEADER_BYTES }) };
    let payload_bytes = if header.is_control() { 0 } else { header.payload_bytes as usize };
    let too_large = payload_bytes > payload_bytes_max.max(REQUEST_BYTES);
    let end = HEADER_BYTES + if too_large { REQUEST_BYTES } else { payload_bytes };
    Ok(match bytes.get(HEADER_BYTES..end) {
        None => Frame::Incomplete { bytes: end },
        Some(start) if too_large => Frame::TooLarge { header, start, bytes: (HEADER_BYTES + payload_bytes) as u64 },
        Some(payload) => Frame::Message { header, payload, bytes: end },
    })
}

/// Messages of a datagram, up to the first that is not complete or not of PV Access.
pub fn frames(mut bytes: &[u8]) -> impl Iterator<Item = (Header, &[u8])> {
    std::iter::from_fn(move || match first_frame(bytes, bytes.len()) {
        Ok(Frame::Message { header, payload, bytes: end }) => {
            bytes = &bytes[end..];
            Some((header, payload))
        }
        _ => None,
    })
}

/// Joins the segments of messages. Control messages may come between them; other messages may not.
#[derive(Debug, Default)]
pub struct Segments {
    payload: Vec<u8>,
    state: Joining,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Joining {
    #[default]
    Nothing,
    Command(u8),
    /// The message is too large; only the start of its payload is kept.
    Skipped(u8),
}

/// Message that a segment completes.
#[derive(Debug, PartialEq, Eq)]
pub enum Joined<'a> {
    /// Nothing yet.
    More,
    /// A message.
    Message(&'a [u8]),
    /// A message above the limit, of which this is the start.
    TooLarge(&'a [u8]),
}

impl Segments {
    /// Frees the memory of a large message that was handled.
    pub(super) fn release(&mut self) {
        if self.state == Joining::Nothing && self.payload.capacity() > KEPT_BYTES_MAX {
            self.payload = Vec::new();
        }
    }

    /// Takes the payload of a frame.
    ///
    /// - `whole`: `false` if `payload` is only the start of a payload above the limit.
    /// - `payload_bytes_max`: limit of all segments of a message.
    ///
    /// # Errors
    /// The segment does not continue the message before it.
    pub fn join<'a>(
        &'a mut self,
        header: &Header,
        payload: &'a [u8],
        whole: bool,
        payload_bytes_max: usize,
    ) -> Result<Joined<'a>, Malformed> {
        let unexpected = || Malformed { expected: "the next segment of a message", left: payload.len() };
        match (header.flags & SEGMENT, &self.state) {
            (0, Joining::Nothing) => {
                return Ok(if whole { Joined::Message(payload) } else { Joined::TooLarge(payload) });
            }
            (FIRST_SEGMENT, Joining::Nothing) => {
                self.payload.clear();
                self.state = Joining::Command(header.command);
            }
            (SEGMENT | LAST_SEGMENT, Joining::Command(command) | Joining::Skipped(command))
                if *command == header.command => {}
            _ => return Err(unexpected()),
        }
        let wanted = if matches!(self.state, Joining::Skipped(_)) { REQUEST_BYTES } else { payload_bytes_max };
        let fits = whole && self.payload.len() + payload.len() <= wanted.max(REQUEST_BYTES);
        if fits {
            self.payload.extend_from_slice(payload);
        } else {
            let missing = REQUEST_BYTES.saturating_sub(self.payload.len());
            self.payload.extend_from_slice(&payload[..missing.min(payload.len())]);
            self.payload.truncate(REQUEST_BYTES);
            self.payload.shrink_to(KEPT_BYTES_MAX);
            self.state = Joining::Skipped(header.command);
        }
        if header.flags & SEGMENT != LAST_SEGMENT {
            return Ok(Joined::More);
        }
        Ok(match std::mem::take(&mut self.state) {
            Joining::Skipped(_) => Joined::TooLarge(&self.payload),
            _ => Joined::Message(&self.payload),
        })
    }
}

/// The number of the request and the subcommand at the start of a payload.
#[must_use]
pub fn request_of(start: &[u8], order: Order) -> Option<(u32, u8)> {
    let mut reader = Reader::new(start, order);
    Some((reader.u32().ok()?, reader.u8().ok()?))
}

/// A message from a client.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "fields are those of the specification; the module's commentary names the rest")]
pub enum Request<'a> {
    /// Search for the servers of names. `port`: where the sender receives answers.
    Search { sequence: u32, unicast: bool, port: u16, names: Vec<(u32, Arc<str>)> },
    /// Answer to [`Response::Validation`]. `method`: `ca`, with the names of user and host, or `anonymous`.
    Validation { buffer_bytes: u32, types_max: u16, method: &'a str, user: &'a str, host: &'a str },
    /// Question for a sign of life.
    Echo,
    /// Opens a channel; `channel` is the number that the client gives it.
    CreateChannel { channel: u32, name: &'a str },
    /// Closes a channel.
    DestroyChannel { server_channel: u32, channel: u32 },
    /// Subscribes. `options`: type and value of a structure, in the byte order of the message; `queue`: updates that the server
    /// may send without an acknowledgement.
    MonitorInit { server_channel: u32, request: u32, options: &'a [u8], queue: u32 },
    /// Send updates.
    MonitorStart { server_channel: u32, request: u32 },
    /// Number of updates that may be sent in addition.
    MonitorAck { server_channel: u32, request: u32, updates: u32 },
    /// Ends a subscription.
    DestroyRequest { server_channel: u32, request: u32 },
}

impl<'a> Request<'a> {
    /// Appends the message to `out`.
    pub fn encode(&self, order: Order, out: &mut Vec<u8>) {
        match self {
            Request::Search { sequence, unicast, port, names } => message(command::SEARCH, false, order, out, |w| {
                w.u32(*sequence);
                w.bytes(&[if *unicast { UNICAST } else { 0 }, 0, 0, 0]);
                encode_address(None, w);
                w.u16(*port);
                w.size(1);
                w.text(TCP);
                w.u16(names.len() as u16);
                for (channel, name) in names {
                    w.u32(*channel);
                    w.text(name);
                }
            }),
            Request::Validation { buffer_bytes, types_max, method, user, host } => {
                message(command::CONNECTION_VALIDATION, false, order, out, |w| {
                    w.u32(*buffer_bytes);
                    w.u16(*types_max);
                    w.u16(0);
                    w.text(method);
                    encode_identity(method, user, host, w);
                });
            }
            Request::Echo => message(command::ECHO, false, order, out, |_| {}),
            Request::CreateChannel { channel, name } => message(command::CREATE_CHANNEL, false, order, out, |w| {
                w.u16(1);
                w.u32(*channel);
                w.text(name);
            }),
            Request::DestroyChannel { server_channel, channel } => {
                message(command::DESTROY_CHANNEL, false, order, out, |w| {
                    w.u32(*server_channel);
                    w.u32(*channel);
                });
            }
            Request::MonitorInit { server_channel, request, options, queue } => {
                let subcommand = monitor::INIT | monitor::PIPELINE;
                monitor_message(*server_channel, *request, subcommand, order, out, |w| {
                    w.bytes(options);
                    w.u32(*queue);
                });
            }
            Request::MonitorStart { server_channel, request } => {
                monitor_message(*server_channel, *request, monitor::START, order, out, |_| {});
            }
            Request::MonitorAck { server_channel, request, updates } => {
                monitor_message(*server_channel, *request, monitor::PIPELINE, order, out, |w| w.u32(*updates));
            }
            Request::DestroyRequest { server_channel, request } => {
                message(command::DESTROY_REQUEST, false, order, out, |w| {
                    w.u32(*server_channel);
                    w.u32(*request);
                });
            }
        }
    }

    /// The request of a header and payload; `None` for a command that a client of subscriptions does not send.
    ///
    /// # Errors
    /// The payload does not have the form of the command.
    pub fn decode(header: &Header, payload: &'a [u8]) -> Result<Option<Request<'a>>, Malformed> {
        let mut r = Reader::new(payload, header.order());
        Ok(Some(match header.command {
            _ if header.is_control() => return Ok(None),
            command::SEARCH => {
                let sequence = r.u32()?;
                let unicast = r.u32()?.to_be_bytes();
                let unicast = if header.order() == Order::Big { unicast[0] } else { unicast[3] } & UNICAST != 0;
                r.take(16)?;
                let port = r.u16()?;
                for _ in 0..r.count(1, 1)? {
                    r.text()?;
                }
                let count = r.u16()?;
                let names = (0..count).map(|_| Ok((r.u32()?, r.text()?.into()))).collect::<Result<_, _>>()?;
                Request::Search { sequence, unicast, port, names }
            }
            command::CONNECTION_VALIDATION => {
                let (buffer_bytes, types_max) = (r.u32()?, r.u16()?);
                r.u16()?;
                let method = borrowed_text(&mut r)?;
                let (mut user, mut host) = ("", "");
                if Type::decode(&mut r, &mut TypeCache::default())?.is_some() {
                    (user, host) = (borrowed_text(&mut r)?, borrowed_text(&mut r)?);
                }
                Request::Validation { buffer_bytes, types_max, method, user, host }
            }
            command::ECHO => Request::Echo,
            command::CREATE_CHANNEL => {
                r.u16()?;
                Request::CreateChannel { channel: r.u32()?, name: borrowed_text(&mut r)? }
            }
            command::DESTROY_CHANNEL => Request::DestroyChannel { server_channel: r.u32()?, channel: r.u32()? },
            command::DESTROY_REQUEST => Request::DestroyRequest { server_channel: r.u32()?, request: r.u32()? },
            command::MONITOR => {
                let (server_channel, request) = (r.u32()?, r.u32()?);
                match r.u8()? {
                    subcommand if subcommand & monitor::INIT != 0 => {
                        let bytes = r.left().saturating_sub(4);
                        let options = r.take(bytes)?;
                        Request::MonitorInit { server_channel, request, options, queue: r.u32()? }
                    }
                    monitor::START => Request::MonitorStart { server_channel, request },
                    monitor::PIPELINE => Request::MonitorAck { server_channel, request, updates: r.u32()? },
                    _ => return Ok(None),
                }
            }
            _ => return Ok(None),
        }))
    }
}

/// Marks a search datagram as sent to one server.
pub(super) fn mark_unicast(datagram: &mut [u8]) {
    if let Some(flags) = datagram.get_mut(SEARCH_FLAGS_AT) {
        *flags |= UNICAST;
    }
}

/// A message from a server.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "fields are those of the specification; the module's commentary names the rest")]
pub enum Response<'a> {
    /// Sign of life. `changes`: number of changes of what is served.
    Beacon { guid: [u8; 12], changes: u16, address: Option<Ipv4Addr>, port: u16 },
    /// First message of a connection: tell who you are, by one of these methods.
    Validation { buffer_bytes: u32, types_max: u16, methods: Vec<String> },
    /// The client is accepted, or not.
    Validated { status: Status },
    /// Answer to an echo.
    Echo,
    /// Answer: the channels are served, or not. Without an address, it is that of the sender.
    Found { guid: [u8; 12], sequence: u32, address: Option<Ipv4Addr>, port: u16, found: bool, channels: Vec<u32> },
    /// A channel is open, or refused.
    ChannelCreated { channel: u32, server_channel: u32, status: Status },
    /// A channel is closed.
    ChannelDestroyed { server_channel: u32, channel: u32 },
    /// Answer to `MonitorInit`, an update, or the end. `body`: by subcommand.
    Monitor { request: u32, subcommand: u8, body: Reader<'a> },
    /// A text for the user. `kind`: 0 information, 1 warning, 2 error, 3 fatal error.
    Message { request: u32, kind: u8, text: String },
}

impl<'a> Response<'a> {
    /// The response of a header and payload; `None` for a command that has no meaning for a subscription.
    ///
    /// # Errors
    /// The payload does not have the form of the command.
    pub fn decode(header: &Header, payload: &'a [u8]) -> Result<Option<Response<'a>>, Malformed> {
        let mut r = Reader::new(payload, header.order());
        Ok(Some(match header.command {
            _ if header.is_control() => return Ok(None),
            command::BEACON => {
                let guid = guid(&mut r)?;
                r.u16()?;
                Response::Beacon { guid, changes: r.u16()?, address: address(&mut r)?, port: r.u16()? }
            }
            command::CONNECTION_VALIDATION => {
                let (buffer_bytes, types_max) = (r.u32()?, r.u16()?);
                let count = r.count(1, size_of::<String>())?;
                let methods = (0..count).map(|_| r.text()).collect::<Result<_, _>>()?;
                Response::Validation { buffer_bytes, types_max, methods }
            }
            command::CONNECTION_VALIDATED => Response::Validated { status: r.status()? },
            command::ECHO => Response::Echo,
            command::SEARCH_RESPONSE => {
                let guid = guid(&mut r)?;
                let (sequence, address, port) = (r.u32()?, address(&mut r)?, r.u16()?);
                r.text()?;
                let found = r.u8()? != 0;
                let count = r.u16()?;
                let channels = (0..count).map(|_| r.u32()).collect::<Result<_, _>>()?;
                Response::Found { guid, sequence, address, port, found, channels }
            }
            command::CREATE_CHANNEL => {
                let (channel, server_channel) = (r.u32()?, r.u32()?);
                Response::ChannelCreated { channel, server_channel, status: r.status()? }
            }
            command::DESTROY_CHANNEL => Response::ChannelDestroyed { server_channel: r.u32()?, channel: r.u32()? },
            command::MONITOR => {
                let (request, subcommand) = (r.u32()?, r.u8()?);
                Response::Monitor { request, subcommand, body: r }
            }
            command::MESSAGE => Response::Message { request: r.u32()?, kind: r.u8()?, text: r.text()? },
            _ => return Ok(None),
        }))
    }

    /// Appends the message to `out`.
    pub fn encode(&self, order: Order, out: &mut Vec<u8>) {
        match self {
            Response::Beacon { guid, changes, address, port } => message(command::BEACON, true, order, out, |w| {
                w.bytes(guid);
                w.u16(0);
                w.u16(*changes);
                encode_address(*address, w);
                w.u16(*port);
                w.text(TCP);
                w.u8(NO_TYPE);
            }),
            Response::Validation { buffer_bytes, types_max, methods } => {
                message(command::CONNECTION_VALIDATION, true, order, out, |w| {
                    w.u32(*buffer_bytes);
                    w.u16(*types_max);
                    w.size(methods.len());
                    methods.iter().for_each(|method| w.text(method));
                });
            }
            Response::Validated { status } => {
                message(command::CONNECTION_VALIDATED, true, order, out, |w| w.status(status));
            }
            Response::Echo => message(command::ECHO, true, order, out, |_| {}),
            Response::Found { guid, sequence, address, port, found, channels } => {
                message(command::SEARCH_RESPONSE, true, order, out, |w| {
                    w.bytes(guid);
                    w.u32(*sequence);
                    encode_address(*address, w);
                    w.u16(*port);
                    w.text(TCP);
                    w.u8((*found).into());
                    w.u16(channels.len() as u16);
                    channels.iter().for_each(|&channel| w.u32(channel));
                });
            }
            Response::ChannelCreated { channel, server_channel, status } => {
                message(command::CREATE_CHANNEL, true, order, out, |w| {
                    w.u32(*channel);
                    w.u32(*server_channel);
                    w.status(status);
                });
            }
            Response::ChannelDestroyed { server_channel, channel } => {
                message(command::DESTROY_CHANNEL, true, order, out, |w| {
                    w.u32(*server_channel);
                    w.u32(*channel);
                });
            }
            Response::Monitor { request, subcommand, body } => message(command::MONITOR, true, order, out, |w| {
                w.u32(*request);
                w.u8(*subcommand);
                let mut body = body.clone();
                w.bytes(body.take(body.left()).unwrap_or_default());
            }),
            Response::Message { request, kind, text } => message(command::MESSAGE, true, order, out, |w| {
                w.u32(*request);
                w.u8(*kind);
                w.text(text);
            }),
        }
    }
}

/// Type and value of the structure that is sent with a monitor: all fields, and options as texts, which every server reads.
pub(super) fn monitor_options(options: &[(&str, &str)], order: Order) -> Vec<u8> {
    let mut out = Vec::new();
    let mut w = Writer::new(&mut out, order);
    let structure = |w: &mut Writer<'_>, names: &[&str], fields: &dyn Fn(&mut Writer<'_>, &str)| {
        w.u8(0x80);
        w.text("");
        w.size(names.len());
        for name in names {
            w.text(name);
            fields(w, name);
        }
    };
    let names: Vec<&str> = options.iter().map(|&(name, _)| name).collect();
    structure(&mut w, &["field", "record"], &|w, name| match name {
        "field" => structure(w, &[], &|_, _| {}),
        _ => structure(w, &["_options"], &|w, _| structure(w, &names, &|w, _| w.u8(0x60))),
    });
    options.iter().for_each(|(_, value)| w.text(value));
    out
}

fn message(command: u8, from_server: bool, order: Order, out: &mut Vec<u8>, body: impl FnOnce(&mut Writer<'_>)) {
    let start = out.len();
    out.extend_from_slice(&[MAGIC, VERSION, flags(from_server, order), command, 0, 0, 0, 0]);
    body(&mut Writer::new(out, order));
    let bytes = (out.len() - start - HEADER_BYTES) as u32;
    let bytes = if order == Order::Big { bytes.to_be_bytes() } else { bytes.to_le_bytes() };
    out[start + 4..start + HEADER_BYTES].copy_from_slice(&bytes);
}

fn monitor_message(
    server_channel: u32,
    request: u32,
    subcommand: u8,
    order: Order,
    out: &mut Vec<u8>,
    body: impl FnOnce(&mut Writer<'_>),
) {
    message(command::MONITOR, false, order, out, |w| {
        w.u32(server_channel);
        w.u32(request);
        w.u8(subcommand);
        body(w);
    });
}

fn encode_identity(method: &str, user: &str, host: &str, w: &mut Writer<'_>) {
    if method != "ca" {
        return w.u8(NO_TYPE);
    }
    w.u8(0x80);
    w.text("");
    w.size(2);
    for name in ["user", "host"] {
        w.text(name);
        w.u8(0x60);
    }
    w.text(user);
    w.text(host);
}

fn guid(r: &mut Reader<'_>) -> Result<[u8; 12], Malformed> {
    let bytes = r.take(12)?;
    Ok(std::array::from_fn(|at| bytes[at]))
}

/// An address of IPv4 in the form of IPv6; `None` for the unspecified address.
fn address(r: &mut Reader<'_>) -> Result<Option<Ipv4Addr>, Malformed> {
    let bytes = r.take(16)?;
    let bytes: [u8; 16] = std::array::from_fn(|at| bytes[at]);
    let address = std::net::Ipv6Addr::from(bytes);
    if address.is_unspecified() {
        return Ok(None);
    }
    let address = address.to_ipv4_mapped().ok_or_else(|| r.malformed("an address of IPv4 before these bytes"))?;
    Ok((!address.is_unspecified()).then_some(address))
}

fn encode_address(address: Option<Ipv4Addr>, w: &mut Writer<'_>) {
    w.bytes(&address.unwrap_or(Ipv4Addr::UNSPECIFIED).to_ipv6_mapped().octets());
}

fn borrowed_text<'a>(r: &mut Reader<'a>) -> Result<&'a str, Malformed> {
    let bytes = r.count(1, 0)?;
    let bytes = r.take(bytes)?;
    std::str::from_utf8(bytes).map_err(|_| r.malformed("a text in UTF-8 before these bytes"))
}
