//! Messages from clients.
//!
//! A connection starts with one or more *startup packets* (length first, no tag). Every later
//! message is a tag byte, a length that includes itself, and a body. For each kind there is a
//! `…_len` function, which reads only the header and returns the length once the whole message has
//! arrived, and a parser that borrows from the whole message.
//!
//! Always true: after an error of a `…_len` function the position of the next message is unknown,
//! so the connection must end. An error of a parser concerns one message with a known end, so the
//! session can continue.

use model::limits::{ROW_BYTES_MAX, STATEMENT_BYTES_MAX};
use model::{Error, Result, SqlState};

use crate::types::{Form, Oid};

/// Largest startup packet; PostgreSQL's limit.
pub const STARTUP_BYTES_MAX: usize = 10_000;
/// Largest message, including its header: the values of a largest row as text, in which each byte of bytea has two digits.
pub const MESSAGE_BYTES_MAX: usize = 2 * ROW_BYTES_MAX + (1 << 20);

const CANCEL_REQUEST: u32 = 80_877_102;
const SSL_REQUEST: u32 = 80_877_103;
const GSSENC_REQUEST: u32 = 80_877_104;
/// Smallest startup packet: length and request code.
const STARTUP_BYTES_MIN: usize = 8;
/// Tag and length.
const HEADER_BYTES: usize = 5;

const _: () = assert!(STATEMENT_BYTES_MAX * 2 < MESSAGE_BYTES_MAX);

fn violation(message: impl Into<String>) -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, message)
}

/// The first packet of a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Startup<'a> {
    /// A session: protocol version and parameters.
    Session(Session<'a>),
    /// SSLRequest; answered with one byte.
    Ssl,
    /// GSSENCRequest; answered with one byte.
    GssEnc,
    /// CancelRequest for the statement of another connection.
    Cancel {
        /// Process id from that connection's BackendKeyData.
        process: u32,
        /// Secret key from that connection's BackendKeyData.
        secret: &'a [u8],
    },
}

/// StartupMessage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session<'a> {
    /// Minor protocol version requested. The server speaks 3.0 and negotiates higher ones down.
    pub minor: u16,
    parameters: &'a [u8],
}

impl<'a> Session<'a> {
    /// Parameter names and values, in the order sent.
    pub fn parameters(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let mut reader = Reader::new("StartupMessage", self.parameters);
        std::iter::from_fn(move || {
            let name = reader.text("name").ok().filter(|name| !name.is_empty())?;
            Some((name, reader.text("value").ok()?))
        })
    }
}

/// Length of the startup packet at the start of `buffer`; `None` if it is incomplete.
///
/// # Errors
/// 08P01 for an impossible length; the message names the protocol that the bytes resemble.
pub fn startup_len(buffer: &[u8]) -> Result<Option<usize>> {
    let Some(length) = be_u32(buffer, 0) else { return Ok(None) };
    let length = length as usize;
    if !(STARTUP_BYTES_MIN..=STARTUP_BYTES_MAX).contains(&length) {
        return Err(violation(format!(
            "startup packet of {length} bytes, expected {STARTUP_BYTES_MIN} to {STARTUP_BYTES_MAX}{}",
            protocol_hint(buffer)
        )));
    }
    Ok((buffer.len() >= length).then_some(length))
}

/// Hint for the error message: the protocol that the bytes resemble.
fn protocol_hint(buffer: &[u8]) -> &'static str {
    const HTTP: [&[u8]; 7] = [b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE", b"PRI "];
    match buffer {
        [0x16, 3, ..] => ": this looks like TLS, which needs an SSLRequest first and is not offered",
        [b'S', b'S', b'H', b'-', ..] => ": this looks like SSH",
        _ if HTTP.iter().any(|method| buffer.starts_with(method)) => ": this looks like HTTP, not PostgreSQL",
        _ => "",
    }
}

/// Parses a whole startup packet.
///
/// # Errors
/// 08P01 for a malformed packet, 0A000 for an unsupported major version.
pub fn parse_startup(packet: &[u8]) -> Result<Startup<'_>> {
    let mut reader = Reader::new("startup packet", packet);
    reader.u32("length")?;
    match reader.u32("code")? {
        SSL_REQUEST => Ok(Startup::Ssl),
        GSSENC_REQUEST => Ok(Startup::GssEnc),
        CANCEL_REQUEST => {
            let process = reader.u32("process")?;
            if reader.rest.is_empty() || reader.rest.len() > 256 {
                return Err(violation(format!("CancelRequest with a secret of {} bytes", reader.rest.len())));
            }
            Ok(Startup::Cancel { process, secret: reader.rest })
        }
        version if version >> 16 == 3 => parse_session(version as u16, reader.rest).map(Startup::Session),
        version => Err(Error::unsupported(format!(
            "protocol version {}.{}, this server speaks 3.0",
            version >> 16,
            version & 0xffff
        ))),
    }
}

/// Validates all parameters, so that iterating over them cannot fail.
fn parse_session(minor: u16, parameters: &[u8]) -> Result<Session<'_>> {
    let mut reader = Reader::new("StartupMessage", parameters);
    loop {
        let name = reader.text("parameter name")?;
        if name.is_empty() {
            break;
        }
        reader.text(name)?;
    }
    reader.end()?;
    Ok(Session { minor, parameters })
}

/// A message of an established session.
#[derive(Debug, PartialEq)]
pub enum Frontend<'a> {
    /// Simple query: one or more statements.
    Query(&'a str),
    /// Prepare a statement.
    Parse(Parse<'a>),
    /// Bind values to a prepared statement.
    Bind(Bind<'a>),
    /// Describe a statement or portal.
    Describe(Target<'a>),
    /// Execute a portal.
    Execute {
        /// Name of the portal.
        portal: &'a str,
        /// Row limit; 0: no limit.
        rows_max: u32,
    },
    /// Close a statement or portal.
    Close(Target<'a>),
    /// End of an extended-protocol batch.
    Sync,
    /// Send buffered output now.
    Flush,
    /// End of the session.
    Terminate,
    /// COPY data from the client.
    CopyData(&'a [u8]),
    /// COPY data is complete.
    CopyDone,
    /// The client aborts its COPY, with a reason.
    CopyFail(&'a str),
    /// Password or SASL response, depending on the authentication method.
    Password(&'a [u8]),
    /// FunctionCall, which is obsolete; answered with 0A000.
    FunctionCall,
}

/// A statement to prepare.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parse<'a> {
    /// Statement name; empty: the unnamed statement.
    pub name: &'a str,
    /// Statement text.
    pub sql: &'a str,
    types: &'a [u8],
}

impl<'a> Parse<'a> {
    /// Declared parameter types; 0: to be inferred.
    pub fn types(&self) -> impl ExactSizeIterator<Item = Oid> + use<'a> {
        self.types.as_chunks::<4>().0.iter().map(|bytes| u32::from_be_bytes(*bytes))
    }
}

/// Name of a statement or portal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// A prepared statement; empty: the unnamed one.
    Statement(&'a str),
    /// A portal; empty: the unnamed one.
    Portal(&'a str),
}

/// Values for a prepared statement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bind<'a> {
    /// Portal to create; empty: the unnamed one.
    pub portal: &'a str,
    /// Statement to bind.
    pub statement: &'a str,
    /// Formats of the parameters.
    pub parameter_forms: Forms<'a>,
    /// Formats requested for the result columns.
    pub result_forms: Forms<'a>,
    parameter_count: usize,
    parameters: &'a [u8],
}

impl<'a> Bind<'a> {
    /// Number of parameters.
    #[must_use]
    pub fn parameter_count(&self) -> usize {
        self.parameter_count
    }

    /// The parameters with their formats; `None` is NULL.
    pub fn parameters(&self) -> impl Iterator<Item = (Form, Option<&'a [u8]>)> + use<'a> {
        let mut reader = Reader::new("Bind", self.parameters);
        let forms = self.parameter_forms;
        (0..self.parameter_count).map_while(move |at| Some((forms.get(at), reader.value("parameter").ok()?)))
    }
}

/// Format codes: none (all text), one (for all values), or one per value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forms<'a>(&'a [u8]);

impl Forms<'_> {
    /// Number of codes sent.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len() / 2
    }

    /// Format of value `at`, counted from 0.
    #[must_use]
    pub fn get(&self, at: usize) -> Form {
        let at = if self.count() == 1 { 0 } else { at };
        match self.0.get(at * 2 + 1) {
            Some(1) => Form::Binary,
            _ => Form::Text,
        }
    }

    /// Whether the number of codes is valid for `columns` values.
    #[must_use]
    pub fn fit(&self, columns: usize) -> bool {
        self.count() <= 1 || self.count() == columns
    }
}

/// Length of the message at the start of `buffer`; `None` if it is incomplete.
///
/// # Errors
/// 08P01 for an unknown tag or an impossible length, reported as early as possible.
pub fn frame_len(buffer: &[u8]) -> Result<Option<usize>> {
    let Some(&tag) = buffer.first() else { return Ok(None) };
    let name = message_name(tag).ok_or_else(|| violation(format!("unknown message type {tag:#04x}")))?;
    let Some(length) = be_u32(buffer, 1) else { return Ok(None) };
    let frame = (length as usize).saturating_add(1);
    if !(HEADER_BYTES..=MESSAGE_BYTES_MAX).contains(&frame) {
        return Err(violation(format!("{name} message with length {length}, expected 4 to {}", MESSAGE_BYTES_MAX - 1)));
    }
    Ok((buffer.len() >= frame).then_some(frame))
}

/// Expected length of the message at the start of `buffer`, to reserve space; at least the
/// header's.
#[must_use]
pub fn frame_len_hint(buffer: &[u8]) -> usize {
    be_u32(buffer, 1).map_or(HEADER_BYTES, |length| (length as usize).saturating_add(1)).min(MESSAGE_BYTES_MAX)
}

fn message_name(tag: u8) -> Option<&'static str> {
    Some(match tag {
        b'Q' => "Query",
        b'P' => "Parse",
        b'B' => "Bind",
        b'D' => "Describe",
        b'E' => "Execute",
        b'C' => "Close",
        b'S' => "Sync",
        b'H' => "Flush",
        b'X' => "Terminate",
        b'd' => "CopyData",
        b'c' => "CopyDone",
        b'f' => "CopyFail",
        b'p' => "Password",
        b'F' => "FunctionCall",
        _ => return None,
    })
}

/// Whether a message with this tag is skipped after an error in the extended protocol, until Sync.
#[must_use]
pub fn is_extended(tag: u8) -> bool {
    matches!(tag, b'P' | b'B' | b'D' | b'E' | b'C' | b'H')
}

/// Parses a whole message, as delimited by [`frame_len`].
///
/// # Errors
/// 08P01 for a malformed body, 22021 for text that is not UTF-8, 54000 for a statement above the
/// size limit.
pub fn parse(frame: &[u8]) -> Result<Frontend<'_>> {
    let (Some(&tag), Some(body)) = (frame.first(), frame.get(HEADER_BYTES..)) else {
        return Err(violation("message shorter than its header"));
    };
    let name = message_name(tag).ok_or_else(|| violation(format!("unknown message type {tag:#04x}")))?;
    let mut reader = Reader::new(name, body);
    let message = parse_body(tag, &mut reader)?;
    reader.end()?;
    Ok(message)
}

fn parse_body<'a>(tag: u8, reader: &mut Reader<'a>) -> Result<Frontend<'a>> {
    Ok(match tag {
        b'Q' => Frontend::Query(reader.sql()?),
        b'P' => Frontend::Parse(parse_parse(reader)?),
        b'B' => Frontend::Bind(parse_bind(reader)?),
        b'D' => Frontend::Describe(reader.target()?),
        b'C' => Frontend::Close(reader.target()?),
        b'E' => Frontend::Execute { portal: reader.text("portal")?, rows_max: reader.rows_max()? },
        b'S' => Frontend::Sync,
        b'H' => Frontend::Flush,
        b'X' => Frontend::Terminate,
        b'd' => Frontend::CopyData(reader.take_rest()),
        b'c' => Frontend::CopyDone,
        b'f' => Frontend::CopyFail(reader.text("reason")?),
        b'p' => Frontend::Password(reader.take_rest()),
        _ => {
            reader.take_rest();
            Frontend::FunctionCall
        }
    })
}

fn parse_parse<'a>(reader: &mut Reader<'a>) -> Result<Parse<'a>> {
    let name = reader.text("statement name")?;
    let sql = reader.sql()?;
    let count = reader.count("parameter types")?;
    Ok(Parse { name, sql, types: reader.bytes("parameter types", count * 4)? })
}

fn parse_bind<'a>(reader: &mut Reader<'a>) -> Result<Bind<'a>> {
    let portal = reader.text("portal")?;
    let statement = reader.text("statement name")?;
    let parameter_forms = reader.forms("parameter formats")?;
    let parameter_count = reader.count("parameters")?;
    if !parameter_forms.fit(parameter_count) {
        return Err(violation(format!(
            "bind message has {} parameter formats but {parameter_count} parameters",
            parameter_forms.count()
        )));
    }
    let start = reader.rest;
    for _ in 0..parameter_count {
        reader.value("parameter")?;
    }
    let parameters = &start[..start.len() - reader.rest.len()];
    let result_forms = reader.forms("result formats")?;
    Ok(Bind { portal, statement, parameter_forms, result_forms, parameter_count, parameters })
}

fn be_u32(buffer: &[u8], at: usize) -> Option<u32> {
    let bytes = buffer.get(at..at + 4)?;
    Some(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

/// Reader of a message's fields; its errors name the message and the field.
struct Reader<'a> {
    message: &'static str,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn new(message: &'static str, rest: &'a [u8]) -> Reader<'a> {
        Reader { message, rest }
    }

    fn short(&self, field: &str) -> Error {
        violation(format!("{} message ends inside its {field}", self.message))
    }

    fn bytes(&mut self, field: &str, count: usize) -> Result<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or_else(|| self.short(field))?;
        self.rest = rest;
        Ok(bytes)
    }

    fn take_rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    fn u32(&mut self, field: &str) -> Result<u32> {
        be_u32(self.bytes(field, 4)?, 0).ok_or_else(|| self.short(field))
    }

    /// Reads a 16-bit count; unsigned, as drivers send more than 32,767 parameters.
    fn count(&mut self, field: &str) -> Result<usize> {
        let bytes = self.bytes(field, 2)?;
        Ok(usize::from(u16::from_be_bytes([bytes[0], bytes[1]])))
    }

    /// Reads a C string.
    fn text(&mut self, field: &str) -> Result<&'a str> {
        let end = self.rest.iter().position(|byte| *byte == 0).ok_or_else(|| self.short(field))?;
        let (text, rest) = self.rest.split_at(end);
        self.rest = &rest[1..];
        utf8(text)
    }

    fn sql(&mut self) -> Result<&'a str> {
        let sql = self.text("statement")?;
        if sql.len() > STATEMENT_BYTES_MAX {
            return Err(Error::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!("statement of {} bytes, the limit is {STATEMENT_BYTES_MAX}", sql.len()),
            )
            .with_hint("use COPY, or several statements, for large data"));
        }
        Ok(sql)
    }

    /// Reads a value with its length; length -1 is NULL.
    fn value(&mut self, field: &str) -> Result<Option<&'a [u8]>> {
        match self.u32(field)? as i32 {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length)
                    .map_err(|_| violation(format!("{} message has a {field} of length {length}", self.message)))?;
                self.bytes(field, length).map(Some)
            }
        }
    }

    fn forms(&mut self, field: &str) -> Result<Forms<'a>> {
        let count = self.count(field)?;
        let codes = self.bytes(field, count * 2)?;
        match codes.as_chunks::<2>().0.iter().map(|code| u16::from_be_bytes(*code)).find(|code| *code > 1) {
            None => Ok(Forms(codes)),
            Some(code) => Err(Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("{} message has format code {code}, expected 0 (text) or 1 (binary)", self.message),
            )),
        }
    }

    fn target(&mut self) -> Result<Target<'a>> {
        match self.bytes("kind", 1)? {
            b"S" => self.text("statement name").map(Target::Statement),
            b"P" => self.text("portal").map(Target::Portal),
            other => Err(violation(format!(
                "{} message for kind {:#04x}, expected 'S' (statement) or 'P' (portal)",
                self.message, other[0]
            ))),
        }
    }

    /// Reads a row limit; zero and negative numbers mean no limit.
    fn rows_max(&mut self) -> Result<u32> {
        Ok(u32::try_from(self.u32("row limit")? as i32).unwrap_or(0))
    }

    fn end(&self) -> Result<()> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(violation(format!("{} message has {} bytes after its end", self.message, self.rest.len())))
    }
}

/// Checks that text from a client is UTF-8; 22021 names the first invalid byte and its offset.
pub(crate) fn utf8(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        Error::new(
            SqlState::CHARACTER_NOT_IN_REPERTOIRE,
            format!("invalid byte sequence for encoding \"UTF8\": {:#04x} at byte {at}", bytes[at]),
        )
    })
}

#[cfg(test)]
#[path = "frontend_tests.rs"]
mod tests;
