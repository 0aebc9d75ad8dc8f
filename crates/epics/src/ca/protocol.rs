//! Messages of Channel Access: headers, requests, responses.
//!
//! Header, big-endian. A payload of 0xFFFF or more bytes, or more than 0xFFFF elements, takes the 24-byte form.
//!
//! | at | size | field       | meaning                                              |
//! |---:|-----:|-------------|------------------------------------------------------|
//! |  0 |    2 | `command`   | [`command`]                                          |
//! |  2 |    2 | payload     | bytes, a multiple of 8; 0xFFFF in the 24-byte form   |
//! |  4 |    2 | `data_type` | DBR type, or by command                              |
//! |  6 |    2 | `count`     | elements, or by command; 0 in the 24-byte form       |
//! |  8 |    4 | `p1`        | by command                                           |
//! | 12 |    4 | `p2`        | by command                                           |
//! | 16 |    4 | payload     | bytes; only in the 24-byte form                      |
//! | 20 |    4 | `count`     | only in the 24-byte form                             |
//!
//! Strings end with a zero byte and are padded with zeros to a multiple of 8. Source: "Channel Access Protocol Specification",
//! revision 1.6, and EPICS 7.0.
//!
//! Always true: decoding allocates nothing, so a wrong length costs nothing.

use std::fmt;
use std::net::Ipv4Addr;

pub use crate::client::{Access, EventMask};

/// Minor version of the protocol that this client speaks: 4.13, the first in which a count of 0 means the actual length.
pub const MINOR_VERSION: u16 = 13;
/// Bytes of a header in its short form.
pub const HEADER_BYTES: usize = 16;
/// Bytes of a header in its long form.
pub const LONG_HEADER_BYTES: usize = 24;
/// Status of success in events and replies.
pub const ECA_NORMAL: u32 = 1;
/// Largest name of a PV, in bytes. Records of EPICS allow 60; gateways and long field names need a little more.
pub const NAME_BYTES_MAX: usize = 500;

/// Numbers of commands.
pub mod command {
    #![allow(missing_docs, reason = "names of the specification")]
    pub const VERSION: u16 = 0;
    pub const EVENT_ADD: u16 = 1;
    pub const EVENT_CANCEL: u16 = 2;
    pub const SEARCH: u16 = 6;
    pub const EVENTS_OFF: u16 = 8;
    pub const EVENTS_ON: u16 = 9;
    pub const ERROR: u16 = 11;
    pub const CLEAR_CHANNEL: u16 = 12;
    pub const RSRV_IS_UP: u16 = 13;
    pub const NOT_FOUND: u16 = 14;
    pub const READ_NOTIFY: u16 = 15;
    pub const REPEATER_CONFIRM: u16 = 17;
    pub const CREATE_CHAN: u16 = 18;
    pub const CLIENT_NAME: u16 = 20;
    pub const HOST_NAME: u16 = 21;
    pub const ACCESS_RIGHTS: u16 = 22;
    pub const ECHO: u16 = 23;
    pub const REPEATER_REGISTER: u16 = 24;
    pub const CREATE_CH_FAIL: u16 = 26;
    pub const SERVER_DISCONN: u16 = 27;
}

impl Access {
    fn of(bits: u32) -> Access {
        Access { read: bits & 1 != 0, write: bits & 2 != 0 }
    }

    fn bits(self) -> u32 {
        u32::from(self.read) | u32::from(self.write) << 1
    }
}

/// A message that does not have the form of its command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Command of the message.
    pub command: u16,
    /// Payload of the message, in bytes.
    pub payload_bytes: usize,
    /// The form that was expected.
    pub expected: &'static str,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Malformed { command, payload_bytes, expected } = self;
        write!(f, "Channel Access command {command} with a payload of {payload_bytes} bytes: expected {expected}")
    }
}

impl std::error::Error for Malformed {}

/// Header of a message, in either form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Number of the command.
    pub command: u16,
    /// Bytes after the header.
    pub payload_bytes: u32,
    /// DBR type, or by command.
    pub data_type: u16,
    /// Elements, or by command.
    pub count: u32,
    /// First parameter, by command.
    pub p1: u32,
    /// Second parameter, by command.
    pub p2: u32,
}

impl Header {
    /// The header at the start of `bytes` and its own length; `None` when more bytes are needed.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<(Header, usize)> {
        let mut header = Header {
            command: u16_at(bytes, 0)?,
            payload_bytes: u16_at(bytes, 2)?.into(),
            data_type: u16_at(bytes, 4)?,
            count: u16_at(bytes, 6)?.into(),
            p1: u32_at(bytes, 8)?,
            p2: u32_at(bytes, 12)?,
        };
        if header.payload_bytes != 0xFFFF || header.count != 0 {
            return Some((header, HEADER_BYTES));
        }
        header.payload_bytes = u32_at(bytes, 16)?;
        header.count = u32_at(bytes, 20)?;
        Some((header, LONG_HEADER_BYTES))
    }

    /// Appends the header to `out`, in the short form where it fits.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let short = match (u16::try_from(self.payload_bytes), u16::try_from(self.count)) {
            (Ok(payload), Ok(count)) if payload != 0xFFFF => Some((payload, count)),
            _ => None,
        };
        let (payload, count) = short.unwrap_or((0xFFFF, 0));
        for field in [self.command, payload, self.data_type, count] {
            out.extend_from_slice(&field.to_be_bytes());
        }
        out.extend_from_slice(&self.p1.to_be_bytes());
        out.extend_from_slice(&self.p2.to_be_bytes());
        if short.is_none() {
            out.extend_from_slice(&self.payload_bytes.to_be_bytes());
            out.extend_from_slice(&self.count.to_be_bytes());
        }
    }
}

/// The first message of a stream of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// The message is not complete.
    Incomplete {
        /// Bytes from the start of the message that are needed to go on; at most the limit and a header.
        bytes: usize,
    },
    /// A whole message.
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
        /// Bytes of header and payload.
        bytes: u64,
    },
}

/// Finds the first message of `bytes`.
///
/// - `payload_bytes_max`: limit of a payload; a larger one is reported as soon as its header is there.
#[must_use]
pub fn first_frame(bytes: &[u8], payload_bytes_max: usize) -> Frame<'_> {
    let Some((header, header_bytes)) = Header::decode(bytes) else {
        let bytes = if bytes.len() < HEADER_BYTES { HEADER_BYTES } else { LONG_HEADER_BYTES };
        return Frame::Incomplete { bytes };
    };
    let payload_bytes = header.payload_bytes as usize;
    if payload_bytes > payload_bytes_max {
        return Frame::TooLarge { header, bytes: header_bytes as u64 + u64::from(header.payload_bytes) };
    }
    let end = header_bytes + payload_bytes;
    match bytes.get(header_bytes..end) {
        Some(payload) => Frame::Message { header, payload, bytes: end },
        None => Frame::Incomplete { bytes: end },
    }
}

/// Messages of a datagram, up to the first that is not complete.
pub fn frames(mut bytes: &[u8]) -> impl Iterator<Item = (Header, &[u8])> {
    std::iter::from_fn(move || match first_frame(bytes, bytes.len()) {
        Frame::Message { header, payload, bytes: end } => {
            bytes = &bytes[end..];
            Some((header, payload))
        }
        _ => None,
    })
}

/// A message from a client.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "fields are those of the specification; the module's commentary names the rest")]
pub enum Request<'a> {
    /// First message of a circuit or datagram. `priority`: 0 ..= 99.
    Version { priority: u16, minor: u16 },
    /// Search for the server of `name`. `must_reply`: also a server that does not, answers.
    Search { name: &'a [u8], channel: u32, minor: u16, must_reply: bool },
    /// Name of the user.
    ClientName { name: &'a [u8] },
    /// Name of the client's machine.
    HostName { name: &'a [u8] },
    /// Opens a channel; `channel` is the number that the client gives it.
    CreateChannel { name: &'a [u8], channel: u32, minor: u16 },
    /// Subscribes; `count` 0 asks for the actual length of each update.
    EventAdd { data_type: u16, count: u32, server_channel: u32, subscription: u32, mask: EventMask },
    /// Ends a subscription.
    EventCancel { data_type: u16, count: u32, server_channel: u32, subscription: u32 },
    /// Reads once.
    ReadNotify { data_type: u16, count: u32, server_channel: u32, read: u32 },
    /// Closes a channel.
    ClearChannel { server_channel: u32, channel: u32 },
    /// Withhold updates; the newest of each channel is sent after `EventsOn`.
    EventsOff,
    /// Send updates again.
    EventsOn,
    /// Question for a sign of life.
    Echo,
    /// Forward beacons to the sender.
    RepeaterRegister { address: Ipv4Addr },
}

impl<'a> Request<'a> {
    /// Appends the message to `out`. Names are cut to [`NAME_BYTES_MAX`] bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut header = Header::default();
        let mut name: Option<&[u8]> = None;
        match self {
            Request::Version { priority, minor } => {
                header = Header { command: command::VERSION, data_type: *priority, count: (*minor).into(), ..header };
            }
            Request::Search { name: n, channel, minor, must_reply } => {
                name = Some(n);
                let data_type = if *must_reply { 10 } else { 5 };
                header = Header {
                    command: command::SEARCH,
                    data_type,
                    count: (*minor).into(),
                    p1: *channel,
                    p2: *channel,
                    ..header
                };
            }
            Request::ClientName { name: n } => {
                name = Some(n);
                header.command = command::CLIENT_NAME;
            }
            Request::HostName { name: n } => {
                name = Some(n);
                header.command = command::HOST_NAME;
            }
            Request::CreateChannel { name: n, channel, minor } => {
                name = Some(n);
                header = Header { command: command::CREATE_CHAN, p1: *channel, p2: (*minor).into(), ..header };
            }
            Request::EventAdd { data_type, count, server_channel, subscription, mask } => {
                Header {
                    command: command::EVENT_ADD,
                    payload_bytes: 16,
                    data_type: *data_type,
                    count: *count,
                    p1: *server_channel,
                    p2: *subscription,
                }
                .encode(out);
                out.extend_from_slice(&[0; 12]);
                out.extend_from_slice(&mask.0.to_be_bytes());
                out.extend_from_slice(&[0; 2]);
                return;
            }
            Request::EventCancel { data_type, count, server_channel, subscription } => {
                header = Header {
                    command: command::EVENT_CANCEL,
                    payload_bytes: 0,
                    data_type: *data_type,
                    count: *count,
                    p1: *server_channel,
                    p2: *subscription,
                };
            }
            Request::ReadNotify { data_type, count, server_channel, read } => {
                header = Header {
                    command: command::READ_NOTIFY,
                    payload_bytes: 0,
                    data_type: *data_type,
                    count: *count,
                    p1: *server_channel,
                    p2: *read,
                };
            }
            Request::ClearChannel { server_channel, channel } => {
                header = Header { command: command::CLEAR_CHANNEL, p1: *server_channel, p2: *channel, ..header };
            }
            Request::EventsOff => header.command = command::EVENTS_OFF,
            Request::EventsOn => header.command = command::EVENTS_ON,
            Request::Echo => header.command = command::ECHO,
            Request::RepeaterRegister { address } => {
                header = Header { command: command::REPEATER_REGISTER, p2: u32::from(*address), ..header };
            }
        }
        encode_named(header, name, out);
    }

    /// The request of a header and payload; `None` for a command that only servers send or that is not known.
    ///
    /// # Errors
    /// The payload does not have the form of the command.
    pub fn decode(header: &Header, payload: &'a [u8]) -> Result<Option<Request<'a>>, Malformed> {
        let Header { data_type, count, p1, p2, .. } = *header;
        let name = || until_zero(payload);
        Ok(Some(match header.command {
            command::VERSION => Request::Version { priority: data_type, minor: low16(count) },
            command::SEARCH => {
                Request::Search { name: name(), channel: p1, minor: low16(count), must_reply: data_type == 10 }
            }
            command::CLIENT_NAME => Request::ClientName { name: name() },
            command::HOST_NAME => Request::HostName { name: name() },
            command::CREATE_CHAN => Request::CreateChannel { name: name(), channel: p1, minor: low16(p2) },
            command::EVENT_ADD => {
                let mask = u16_at(payload, 12).ok_or_else(|| malformed(header, payload, "16 bytes of a mask"))?;
                let mask = EventMask(mask);
                Request::EventAdd { data_type, count, server_channel: p1, subscription: p2, mask }
            }
            command::EVENT_CANCEL => Request::EventCancel { data_type, count, server_channel: p1, subscription: p2 },
            command::READ_NOTIFY => Request::ReadNotify { data_type, count, server_channel: p1, read: p2 },
            command::CLEAR_CHANNEL => Request::ClearChannel { server_channel: p1, channel: p2 },
            command::EVENTS_OFF => Request::EventsOff,
            command::EVENTS_ON => Request::EventsOn,
            command::ECHO => Request::Echo,
            command::REPEATER_REGISTER => Request::RepeaterRegister { address: Ipv4Addr::from(p2) },
            _ => return Ok(None),
        }))
    }
}

/// A message from a server, name server or repeater.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "fields are those of the specification; the module's commentary names the rest")]
pub enum Response<'a> {
    /// Version of the server.
    Version { minor: u16 },
    /// `channel` is served at TCP `port` of `address`; without an address, of the sender.
    Found { channel: u32, port: u16, address: Option<Ipv4Addr>, minor: u16 },
    /// `channel` is not served here.
    NotFound { channel: u32 },
    /// The channel is open.
    ChannelCreated { channel: u32, server_channel: u32, data_type: u16, count: u32 },
    /// The channel cannot be opened.
    ChannelRefused { channel: u32 },
    /// Rights to a channel.
    AccessRights { channel: u32, access: Access },
    /// An update; its last has no payload and confirms `EventCancel`.
    Event { subscription: u32, data_type: u16, count: u32, status: u32, payload: &'a [u8] },
    /// Reply to `ReadNotify`.
    Read { read: u32, data_type: u16, count: u32, status: u32, payload: &'a [u8] },
    /// The channel is closed.
    ChannelCleared { server_channel: u32, channel: u32 },
    /// The server ended the channel.
    ServerDisconnected { channel: u32 },
    /// Reply to `Echo`.
    Echo,
    /// A request failed.
    Error { channel: u32, status: u32, request: Header, text: &'a [u8] },
    /// A beacon: a server is up. Numbers of beacons rise by one.
    Beacon { minor: u16, port: u16, number: u32, address: Option<Ipv4Addr> },
    /// The repeater will forward beacons.
    RepeaterConfirm { address: Ipv4Addr },
}

impl<'a> Response<'a> {
    /// The response of a header and payload; `None` for a command that only clients send or that is not known.
    ///
    /// # Errors
    /// The payload does not have the form of the command.
    pub fn decode(header: &Header, payload: &'a [u8]) -> Result<Option<Response<'a>>, Malformed> {
        let Header { data_type, count, p1, p2, .. } = *header;
        Ok(Some(match header.command {
            command::EVENT_ADD => Response::Event { subscription: p2, data_type, count, status: p1, payload },
            command::READ_NOTIFY => Response::Read { read: p2, data_type, count, status: p1, payload },
            command::VERSION => Response::Version { minor: low16(count) },
            command::SEARCH => {
                let address = (p1 != u32::MAX && p1 != 0).then(|| Ipv4Addr::from(p1));
                Response::Found { channel: p2, port: data_type, address, minor: u16_at(payload, 0).unwrap_or(0) }
            }
            command::NOT_FOUND => Response::NotFound { channel: p2 },
            command::CREATE_CHAN => Response::ChannelCreated { channel: p1, server_channel: p2, data_type, count },
            command::CREATE_CH_FAIL => Response::ChannelRefused { channel: p1 },
            command::ACCESS_RIGHTS => Response::AccessRights { channel: p1, access: Access::of(p2) },
            command::CLEAR_CHANNEL => Response::ChannelCleared { server_channel: p1, channel: p2 },
            command::SERVER_DISCONN => Response::ServerDisconnected { channel: p1 },
            command::ECHO => Response::Echo,
            command::ERROR => {
                let request = Header::decode(payload).ok_or_else(|| malformed(header, payload, "a header"))?;
                let text = until_zero(payload.get(request.1..).unwrap_or_default());
                Response::Error { channel: p1, status: p2, request: request.0, text }
            }
            command::RSRV_IS_UP => {
                let address = (p2 != 0).then(|| Ipv4Addr::from(p2));
                Response::Beacon { minor: data_type, port: low16(count), number: p1, address }
            }
            command::REPEATER_CONFIRM => Response::RepeaterConfirm { address: Ipv4Addr::from(p2) },
            _ => return Ok(None),
        }))
    }

    /// Appends the message to `out`. Payloads are padded to a multiple of 8.
    ///
    /// # Panics
    /// A payload of 4 GiB or more: the protocol cannot say its length.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let header = |command, data_type, count, p1, p2| Header { command, data_type, count, p1, p2, payload_bytes: 0 };
        match *self {
            Response::Version { minor } => header(command::VERSION, 0, minor.into(), 0, 0).encode(out),
            Response::Found { channel, port, address, minor } => {
                let address = address.map_or(u32::MAX, u32::from);
                encode_padded(header(command::SEARCH, port, 0, address, channel), &minor.to_be_bytes(), out);
            }
            Response::NotFound { channel } => header(command::NOT_FOUND, 0, 0, channel, channel).encode(out),
            Response::ChannelCreated { channel, server_channel, data_type, count } => {
                header(command::CREATE_CHAN, data_type, count, channel, server_channel).encode(out);
            }
            Response::ChannelRefused { channel } => header(command::CREATE_CH_FAIL, 0, 0, channel, 0).encode(out),
            Response::AccessRights { channel, access } => {
                header(command::ACCESS_RIGHTS, 0, 0, channel, access.bits()).encode(out);
            }
            Response::Event { subscription, data_type, count, status, payload } => {
                encode_padded(header(command::EVENT_ADD, data_type, count, status, subscription), payload, out);
            }
            Response::Read { read, data_type, count, status, payload } => {
                encode_padded(header(command::READ_NOTIFY, data_type, count, status, read), payload, out);
            }
            Response::ChannelCleared { server_channel, channel } => {
                header(command::CLEAR_CHANNEL, 0, 0, server_channel, channel).encode(out);
            }
            Response::ServerDisconnected { channel } => header(command::SERVER_DISCONN, 0, 0, channel, 0).encode(out),
            Response::Echo => header(command::ECHO, 0, 0, 0, 0).encode(out),
            Response::Error { channel, status, ref request, text } => {
                let mut payload = Vec::new();
                request.encode(&mut payload);
                payload.extend_from_slice(text);
                payload.push(0);
                encode_padded(header(command::ERROR, 0, 0, channel, status), &payload, out);
            }
            Response::Beacon { minor, port, number, address } => {
                let address = address.map_or(0, u32::from);
                header(command::RSRV_IS_UP, minor, port.into(), number, address).encode(out);
            }
            Response::RepeaterConfirm { address } => {
                header(command::REPEATER_CONFIRM, 0, 0, 0, address.into()).encode(out);
            }
        }
    }
}

/// Name of a status in replies and errors, as in `caerr.h`; `ECA_?` for one that it does not have.
#[must_use]
pub fn status_name(status: u32) -> &'static str {
    match status >> 3 {
        0 => "ECA_NORMAL",
        6 => "ECA_ALLOCMEM",
        9 => "ECA_TOLARGE",
        10 => "ECA_TIMEOUT",
        14 => "ECA_BADTYPE",
        17 => "ECA_INTERNAL",
        19 => "ECA_GETFAIL",
        20 => "ECA_PUTFAIL",
        21 => "ECA_ADDFAIL",
        22 => "ECA_BADCOUNT",
        24 => "ECA_DISCONN",
        41 => "ECA_BADMASK",
        46 => "ECA_NORDACCESS",
        47 => "ECA_NOWTACCESS",
        50 => "ECA_NOCONVERT",
        51 => "ECA_BADCHID",
        54 => "ECA_UNAVAILINSERV",
        55 => "ECA_CHANDESTROY",
        _ => "ECA_?",
    }
}

fn encode_named(header: Header, name: Option<&[u8]>, out: &mut Vec<u8>) {
    let Some(name) = name else { return header.encode(out) };
    let name = &name[..name.len().min(NAME_BYTES_MAX)];
    let start = out.len();
    let payload_bytes = (name.len() + 1).next_multiple_of(8);
    Header { payload_bytes: payload_bytes as u32, ..header }.encode(out);
    let end = start + HEADER_BYTES + payload_bytes;
    out.extend_from_slice(name);
    out.resize(end, 0);
}

fn encode_padded(header: Header, payload: &[u8], out: &mut Vec<u8>) {
    let padded = payload.len().next_multiple_of(8);
    let payload_bytes = u32::try_from(padded).expect("payload below 4 GiB");
    Header { payload_bytes, ..header }.encode(out);
    out.extend_from_slice(payload);
    out.resize(out.len() + padded - payload.len(), 0);
}

fn malformed(header: &Header, payload: &[u8], expected: &'static str) -> Malformed {
    Malformed { command: header.command, payload_bytes: payload.len(), expected }
}

fn low16(number: u32) -> u16 {
    (number & 0xFFFF) as u16
}

/// Bytes before the first zero.
pub(super) fn until_zero(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len())]
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}
