//! What clients send.
//!
//! A connection starts with one or more *startup packets* (length first, no tag); after that every message is a tag byte, a
//! length that counts itself, and a body. Both have a `…_len` that only looks at the length and says whether the whole
//! message has arrived, and a parser over the whole message that borrows from it.
//!
//! Always true: an error of a `…_len` function leaves the stream without a known next message, so the connection must end; an
//! error of a parser concerns one message whose end is known, so the session can go on.

use model::limits::STATEMENT_BYTES_MAX;
use model::{Error, Result, SqlState};

use crate::types::{Form, Oid};

/// Largest startup packet, as in PostgreSQL: more is no client of ours.
pub const STARTUP_BYTES_MAX: usize = 10_000;
/// Largest message with its header.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;

const CANCEL_REQUEST: u32 = 80_877_102;
const SSL_REQUEST: u32 = 80_877_103;
const GSSENC_REQUEST: u32 = 80_877_104;
/// Smallest startup packet: length and code.
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
    /// Asks for TLS; answered by one byte.
    Ssl,
    /// Asks for GSSAPI encryption; answered by one byte.
    GssEnc,
    /// Asks to cancel what another connection runs.
    Cancel {
        /// The process number given to that connection.
        process: u32,
        /// Its secret.
        secret: &'a [u8],
    },
}

/// The parameters of a session's startup packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session<'a> {
    /// Minor protocol version asked for; we speak 3.0 and say so when it is higher.
    pub minor: u16,
    parameters: &'a [u8],
}

impl<'a> Session<'a> {
    /// Names and values in the order sent.
    pub fn parameters(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let mut reader = Reader::new("StartupMessage", self.parameters);
        std::iter::from_fn(move || {
            let name = reader.text("name").ok().filter(|name| !name.is_empty())?;
            Some((name, reader.text("value").ok()?))
        })
    }
}

/// Length of the startup packet at the front of `buffer`, if all of it is there.
///
/// # Errors
/// 08P01 when the length cannot be one, naming the protocol that the bytes look like.
pub fn startup_len(buffer: &[u8]) -> Result<Option<usize>> {
    let Some(length) = be_u32(buffer, 0) else { return Ok(None) };
    let length = length as usize;
    if !(STARTUP_BYTES_MIN..=STARTUP_BYTES_MAX).contains(&length) {
        return Err(violation(format!(
            "startup packet of {length} bytes, expected {STARTUP_BYTES_MIN} to {STARTUP_BYTES_MAX}{}",
            guess(buffer)
        )));
    }
    Ok((buffer.len() >= length).then_some(length))
}

/// What bytes that are no startup packet look like, for whoever reads the error.
fn guess(buffer: &[u8]) -> &'static str {
    const HTTP: [&[u8]; 7] = [b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE", b"PRI "];
    match buffer {
        [0x16, 3, ..] => ": this looks like TLS, which needs an SSLRequest first and is not offered",
        [b'S', b'S', b'H', b'-', ..] => ": this looks like SSH",
        _ if HTTP.iter().any(|method| buffer.starts_with(method)) => ": this looks like HTTP, not PostgreSQL",
        _ => "",
    }
}

/// Reads a whole startup packet.
///
/// # Errors
/// 08P01 for a malformed packet, 0A000 for another major version.
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

/// Checks the whole parameter list, so that reading it later cannot fail.
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

/// One message of a session.
#[derive(Debug, PartialEq)]
pub enum Frontend<'a> {
    /// Simple query: one or more statements.
    Query(&'a str),
    /// Prepares a statement.
    Parse(Parse<'a>),
    /// Binds values to a prepared statement.
    Bind(Bind<'a>),
    /// Asks for the description of a statement or portal.
    Describe(Target<'a>),
    /// Runs a portal.
    Execute {
        /// The portal.
        portal: &'a str,
        /// Stop after this many rows; 0 = all.
        rows_max: u32,
    },
    /// Closes a statement or portal.
    Close(Target<'a>),
    /// End of an extended-protocol batch.
    Sync,
    /// Send what is buffered.
    Flush,
    /// The client leaves.
    Terminate,
    /// COPY data from the client.
    CopyData(&'a [u8]),
    /// COPY data is complete.
    CopyDone,
    /// The client gives up its COPY, with its reason.
    CopyFail(&'a str),
    /// A password or SASL answer: which, the authentication in progress knows.
    Password(&'a [u8]),
    /// The function-call interface, which is obsolete and answered with 0A000.
    FunctionCall,
}

/// A statement to prepare.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parse<'a> {
    /// Its name; empty for the unnamed statement.
    pub name: &'a str,
    /// Its text.
    pub sql: &'a str,
    types: &'a [u8],
}

impl<'a> Parse<'a> {
    /// The parameter types the client declares; 0 = to be inferred.
    pub fn types(&self) -> impl ExactSizeIterator<Item = Oid> + use<'a> {
        self.types.as_chunks::<4>().0.iter().map(|bytes| u32::from_be_bytes(*bytes))
    }
}

/// A statement or a portal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// A prepared statement; empty = the unnamed one.
    Statement(&'a str),
    /// A portal; empty = the unnamed one.
    Portal(&'a str),
}

/// Values for a prepared statement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bind<'a> {
    /// The portal to make; empty for the unnamed one.
    pub portal: &'a str,
    /// The statement to bind.
    pub statement: &'a str,
    /// Forms of the parameters.
    pub parameter_forms: Forms<'a>,
    /// Forms wanted for the columns.
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

    /// The parameters with their forms; `None` is NULL.
    pub fn parameters(&self) -> impl Iterator<Item = (Form, Option<&'a [u8]>)> + use<'a> {
        let mut reader = Reader::new("Bind", self.parameters);
        let forms = self.parameter_forms;
        (0..self.parameter_count).map_while(move |at| Some((forms.get(at), reader.value("parameter").ok()?)))
    }
}

/// Form codes: none (all text), one (for all), or one each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forms<'a>(&'a [u8]);

impl Forms<'_> {
    /// Number of codes sent.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len() / 2
    }

    /// The form of value number `at`, counted from 0.
    #[must_use]
    pub fn get(&self, at: usize) -> Form {
        let at = if self.count() == 1 { 0 } else { at };
        match self.0.get(at * 2 + 1) {
            Some(1) => Form::Binary,
            _ => Form::Text,
        }
    }

    /// Do the codes fit `columns` values?
    #[must_use]
    pub fn fit(&self, columns: usize) -> bool {
        self.count() <= 1 || self.count() == columns
    }
}

/// Length of the message at the front of `buffer`, if all of it is there.
///
/// # Errors
/// 08P01 for an unknown tag or an impossible length, as soon as they can be seen.
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

/// Bytes that the message at the front of `buffer` will have, once its header is there; a hint for reserving space.
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

/// Is this the tag of a message of the extended protocol, after an error in which everything up to Sync is skipped?
#[must_use]
pub fn is_extended(tag: u8) -> bool {
    matches!(tag, b'P' | b'B' | b'D' | b'E' | b'C' | b'H')
}

/// Reads a whole message, as [`frame_len`] delimited it.
///
/// # Errors
/// 08P01 for a malformed body, 22021 for text that is not UTF-8, 54000 for a statement beyond the limit.
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

/// Reads the fields of one message; every error names the message and the field.
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

    /// A 16-bit count. Drivers use the whole unsigned range for parameters.
    fn count(&mut self, field: &str) -> Result<usize> {
        let bytes = self.bytes(field, 2)?;
        Ok(usize::from(u16::from_be_bytes([bytes[0], bytes[1]])))
    }

    /// Text up to its zero byte.
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

    /// A length-prefixed value; length -1 is NULL.
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

    /// Zero and below mean "all rows".
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

/// Text from a client, or 22021 naming the first bad byte and where it is.
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
