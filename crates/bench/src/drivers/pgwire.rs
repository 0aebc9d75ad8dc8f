//! A synchronous connection of PostgreSQL's protocol, version 3.0.
//!
//! Not a general client library, because its work is in the timed part of every operation: a
//! request is one `write` from a reused buffer, and the answer is read into another one and stays
//! there undecoded. Rows are counted while the answer is scanned for its end, and decoded only on
//! demand. No allocation once warm.
//!
//! Always true:
//! - A request is never repeated automatically. A broken connection is replaced by the *next*
//!   request, which parses its statements again.
//! - After an error that the server reports, the connection stays usable; after any other error it
//!   is dropped.
//! - Received data is bounded by [`ANSWER_BYTES_MAX`]; malformed data is a `Protocol` error.
//! - A request ends by its time-out (at worst after twice the time-out), and the server is then
//!   asked to cancel it.
//!
//! Not here: TLS, COPY TO, notifications, SQL ([`super::sql`]). Source: PostgreSQL's manual,
//! chapter "Frontend/Backend Protocol". The crate `postgres-protocol` computes password messages.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};

use super::digits::push_u64;
use super::socket::connect;
use crate::error::{Class, Error, Result};

/// Longest answer.
const ANSWER_BYTES_MAX: usize = 1 << 30;
/// Initial size of the answer buffer; a quarter of it is the minimum free space for a read.
const INPUT_BYTES: usize = 64 << 10;
/// Most prepared statements of a connection; the oldest is closed for a new one.
const STATEMENTS_MAX: usize = 1_000;
/// Longest CopyData message: servers buffer complete messages.
const COPY_BYTES_MAX: usize = 1 << 20;
/// Time-out of connecting, logging in and cancelling.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// PostgreSQL's type OIDs (`pg_type.oid`).
pub(crate) mod oid {
    pub(crate) const BOOL: u32 = 16;
    pub(crate) const BYTEA: u32 = 17;
    pub(crate) const INT8: u32 = 20;
    pub(crate) const INT2: u32 = 21;
    pub(crate) const INT4: u32 = 23;
    pub(crate) const TEXT: u32 = 25;
    pub(crate) const FLOAT4: u32 = 700;
    pub(crate) const FLOAT8: u32 = 701;
    pub(crate) const BPCHAR: u32 = 1042;
    pub(crate) const VARCHAR: u32 = 1043;
    pub(crate) const DATE: u32 = 1082;
    pub(crate) const TIMESTAMP: u32 = 1114;
    pub(crate) const TIMESTAMPTZ: u32 = 1184;
    pub(crate) const NUMERIC: u32 = 1700;
    pub(crate) const INT4_ARRAY: u32 = 1007;
    pub(crate) const TEXT_ARRAY: u32 = 1009;
}

/// Address and login of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Login {
    pub(crate) address: String,
    pub(crate) network_of: Option<u32>,
    pub(crate) user: String,
    pub(crate) password: Option<String>,
    pub(crate) database: String,
    /// Additional parameters of the startup message.
    pub(crate) parameters: Vec<(String, String)>,
}

/// A connection to one server. Connects on first use, and again after it broke.
pub(crate) struct Pg {
    login: Login,
    link: Option<Link>,
    /// Messages of the request under construction.
    out: Vec<u8>,
    /// The undecoded answer, possibly followed by asynchronous messages.
    input: Vec<u8>,
    filled: usize,
    /// End of the parsed messages in `input`.
    consumed: usize,
    outcomes: Vec<Outcome>,
    statements: HashMap<u64, Prepared>,
    by_text: HashMap<Arc<str>, u64>,
    next_statement: u64,
    /// Statements that the request binds, in order; and those of them that it parses.
    bound: Vec<u64>,
    parsed: Vec<u64>,
    sqlstate: [u8; 5],
    settings: Vec<(String, String)>,
}

struct Link {
    stream: TcpStream,
    /// Current time-out of the socket, to avoid setting it again.
    timeout: Duration,
    deadline: Instant,
    /// Process ID and secret key for a cancel request.
    key: Option<[u8; 8]>,
}

/// A prepared statement of a connection: see [`Pg::prepare`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Statement(u64);

struct Prepared {
    text: Arc<str>,
    parameters: Box<[u32]>,
    /// Name on the server, with the terminating zero.
    name: Box<[u8]>,
    /// Whether the server has parsed it. Until then, each request that binds it parses it first.
    known: bool,
    /// Types of its result columns.
    columns: Arc<[u32]>,
}

/// Format of result values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    #[cfg(test)]
    Text,
    Binary,
}

/// Result of one statement of a request.
#[derive(Clone, Debug)]
struct Outcome {
    statement: Option<u64>,
    /// Range of its messages in the input.
    messages: Range<usize>,
    rows: u64,
    affected: u64,
}

/// SQLSTATE of success.
const NO_ERROR: [u8; 5] = *b"00000";

/// End of a request's answer, and whether it has COPY data.
#[derive(Clone, Copy)]
struct Expected {
    /// Number of ReadyForQuery messages.
    ready: usize,
    /// Whether the request includes data for COPY.
    copies: bool,
}

impl Pg {
    /// Creates a connection without opening it.
    pub(crate) fn new(login: Login) -> Pg {
        Pg {
            login,
            link: None,
            out: Vec::new(),
            input: Vec::new(),
            filled: 0,
            consumed: 0,
            outcomes: Vec::new(),
            statements: HashMap::new(),
            by_text: HashMap::new(),
            next_statement: 0,
            bound: Vec::new(),
            parsed: Vec::new(),
            sqlstate: NO_ERROR,
            settings: Vec::new(),
        }
    }

    /// Connects now, so that a wrong address is found before the measurement.
    pub(crate) fn open(&mut self) -> Result<()> {
        if self.link.is_none() {
            let address = self.login.address.clone();
            self.log_in().map_err(|error| error.during(&address))?;
        }
        Ok(())
    }

    /// Whether it is connected, as far as known without I/O.
    pub(crate) fn is_open(&self) -> bool {
        self.link.is_some()
    }

    /// A setting that the server reported at log-in or later, such as `server_version`.
    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        self.settings.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// SQLSTATE of the last request: `00000` if it succeeded, or failed without one.
    pub(crate) fn sqlstate(&self) -> &[u8; 5] {
        &self.sqlstate
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Simple queries and COPY

    /// Runs one or several statements as one simple query.
    pub(crate) fn simple(&mut self, sql: &str, timeout: Duration) -> Result<()> {
        self.begin()?;
        push_query(sql, &mut self.out);
        let out = std::mem::take(&mut self.out);
        let outcome = self.exchange(&out, Expected { ready: 1, copies: false }, timeout);
        self.out = out;
        outcome
    }

    /// Sends messages of [`push_query`] and [`push_copy`] in one write, and reads `queries`
    /// answers.
    pub(crate) fn send(&mut self, messages: &[u8], queries: usize, timeout: Duration) -> Result<()> {
        self.begin()?;
        self.exchange(messages, Expected { ready: queries, copies: true }, timeout)
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Prepared statements

    /// Registers a statement with parameters of these types (0: inferred by the server). The server
    /// parses it once, with the first request that binds it. The same text is the same statement.
    pub(crate) fn prepare(&mut self, text: &str, parameters: &[u32]) -> Statement {
        if let Some(number) = self.by_text.get(text) {
            return Statement(*number);
        }
        let number = self.next_statement;
        self.next_statement += 1;
        let mut name = vec![b's'];
        push_u64(number, &mut name);
        name.push(0);
        let text: Arc<str> = Arc::from(text);
        let prepared = Prepared {
            text: Arc::clone(&text),
            parameters: parameters.into(),
            name: name.into(),
            known: false,
            columns: Arc::from([]),
        };
        self.statements.insert(number, prepared);
        self.by_text.insert(text, number);
        Statement(number)
    }

    /// Starts a request of bound statements: see [`Pg::bind`] and [`Pg::finish`].
    pub(crate) fn begin(&mut self) -> Result<()> {
        self.open()?;
        self.out.clear();
        self.bound.clear();
        self.parsed.clear();
        self.outcomes.clear();
        self.sqlstate = NO_ERROR;
        // Asynchronous messages since the last answer stay, before the next one.
        self.input.copy_within(self.consumed..self.filled, 0);
        self.filled -= self.consumed;
        self.consumed = 0;
        Ok(())
    }

    /// Adds an execution to the request. `write` appends all parameters in order, in binary format.
    pub(crate) fn bind(&mut self, statement: Statement, format: Format, write: impl FnOnce(&mut Parameters)) {
        let Statement(number) = statement;
        self.parse_if_new(number);
        let name = self.statements.get(&number).map_or(&b"\0"[..], |prepared| &prepared.name);
        let out = &mut self.out;
        message(out, b'B', |out| {
            out.push(0);
            out.extend_from_slice(name);
            out.extend_from_slice(&[0, 1, 0, 1]);
            let count_at = out.len();
            out.extend_from_slice(&[0, 0]);
            let mut parameters = Parameters { out, count: 0 };
            write(&mut parameters);
            let count = parameters.count;
            out[count_at..count_at + 2].copy_from_slice(&count.to_be_bytes());
            out.extend_from_slice(&[0, 1, 0, u8::from(format == Format::Binary)]);
        });
        // Execute: the unnamed portal, all rows.
        out.extend_from_slice(b"E\0\0\0\x09\0\0\0\0\0");
        self.bound.push(number);
    }

    /// Sends the executions since [`Pg::begin`] in one write and reads all answers. They are one
    /// transaction, unless they contain transaction commands; after a failed one the others are
    /// skipped.
    pub(crate) fn finish(&mut self, timeout: Duration) -> Result<()> {
        self.out.extend_from_slice(b"S\0\0\0\x04");
        let out = std::mem::take(&mut self.out);
        let outcome = self.exchange(&out, Expected { ready: 1, copies: false }, timeout);
        self.out = out;
        outcome
    }

    fn parse_if_new(&mut self, number: u64) {
        let Some(prepared) = self.statements.get(&number) else { return };
        if prepared.known || self.parsed.contains(&number) {
            return;
        }
        let out = &mut self.out;
        message(out, b'P', |out| {
            out.extend_from_slice(&prepared.name);
            out.extend_from_slice(prepared.text.as_bytes());
            out.push(0);
            out.extend_from_slice(&(prepared.parameters.len() as u16).to_be_bytes());
            prepared.parameters.iter().for_each(|kind| out.extend_from_slice(&kind.to_be_bytes()));
        });
        message(out, b'D', |out| {
            out.push(b'S');
            out.extend_from_slice(&prepared.name);
        });
        self.parsed.push(number);
        self.close_oldest(number);
    }

    /// Closes the oldest idle statement if there are too many; statement `number` is kept.
    fn close_oldest(&mut self, number: u64) {
        if self.statements.len() <= STATEMENTS_MAX {
            return;
        }
        let idle = |other: &&u64| !self.bound.contains(other) && **other != number;
        let Some(oldest) = self.statements.keys().filter(idle).min().copied() else { return };
        if let Some(prepared) = self.statements.remove(&oldest) {
            self.by_text.remove(&prepared.text);
            message(&mut self.out, b'C', |out| {
                out.push(b'S');
                out.extend_from_slice(&prepared.name);
            });
        }
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Answers

    /// Number of results in the last answer; less than the number of statements if one failed.
    #[cfg(test)]
    pub(crate) fn results(&self) -> usize {
        self.outcomes.len()
    }

    /// Number of rows in result `n`.
    pub(crate) fn row_count(&self, n: usize) -> u64 {
        self.outcomes.get(n).map_or(0, |outcome| outcome.rows)
    }

    /// Number of rows that statement `n` reports as written or found.
    pub(crate) fn affected(&self, n: usize) -> u64 {
        self.outcomes.get(n).map_or(0, |outcome| outcome.affected)
    }

    /// The undecoded rows of result `n`.
    pub(crate) fn rows(&self, n: usize) -> Rows<'_> {
        let messages = self.outcomes.get(n).map_or(0..0, |outcome| outcome.messages.clone());
        Rows { messages: self.input.get(messages).unwrap_or_default() }
    }

    /// Types of the columns in result `n`.
    pub(crate) fn columns(&self, n: usize) -> Result<Arc<[u32]>> {
        let outcome = self.outcomes.get(n).ok_or_else(|| Error::protocol(format!("the answer has no result {n}")))?;
        if let Some(prepared) = outcome.statement.and_then(|number| self.statements.get(&number)) {
            return Ok(Arc::clone(&prepared.columns));
        }
        let mut messages = Messages { bytes: self.input.get(outcome.messages.clone()).unwrap_or_default() };
        let described = messages.find(|(tag, _)| *tag == b'T');
        described.map_or(Ok(Arc::from([])), |(_, body)| column_types(body))
    }

    fn exchange(&mut self, messages: &[u8], expected: Expected, timeout: Duration) -> Result<()> {
        // Moved out of `self` during the exchange: an early return then drops the connection, whose
        // state is unknown.
        let mut link = self.link.take().ok_or_else(|| Error::setup("BUG: not connected"))?;
        let sent = link.start(timeout).and_then(|()| link.send(messages));
        let outcome = match sent {
            Ok(()) => self.receive(&mut link, expected),
            // A server that closes the connection may have sent an error first.
            Err(error) if error.class == Class::Connection => match self.receive(&mut link, expected) {
                Err(server_error) if self.sqlstate != NO_ERROR => Err(server_error),
                _ => Err(error),
            },
            Err(error) => Err(error),
        };
        let server_error = outcome.inspect_err(|error| {
            if error.class == Class::Timeout {
                link.cancel(&self.login);
            }
            self.statements.values_mut().for_each(|prepared| prepared.known = false);
        });
        let error = match server_error {
            Ok(server_error) => {
                self.link = Some(link);
                server_error
            }
            Err(error) => Some(error),
        };
        error.map_or(Ok(()), |error| Err(error.during(&self.login.address)))
    }

    /// Reads up to the last ReadyForQuery. Returns the first error that the server reported; the
    /// connection stays usable.
    fn receive(&mut self, link: &mut Link, expected: Expected) -> Result<Option<Error>> {
        let mut server_error: Option<Error> = None;
        let (mut ready, mut rows, mut described) = (0, 0, 0);
        let mut result_start = 0;
        while ready < expected.ready {
            let (tag, body) = match self.next(link) {
                Ok(message) => message,
                // The server sent an error and closed the connection.
                Err(error) => return Err(server_error.filter(|_| error.class == Class::Connection).unwrap_or(error)),
            };
            match tag {
                b'D' => rows += 1,
                b'2' | b'3' | b't' | b'd' | b'c' | b'N' | b'A' => {}
                b'1' => {
                    let number = self.parsed.get(described);
                    if let Some(prepared) = number.and_then(|number| self.statements.get_mut(number)) {
                        prepared.known = true;
                    }
                    described += 1;
                }
                b'T' | b'n' if described > 0 && self.bound.len() > self.outcomes.len() => {
                    let columns = if tag == b'T' { column_types(&self.input[body])? } else { Arc::from([]) };
                    let number = self.parsed.get(described - 1);
                    if let Some(prepared) = number.and_then(|number| self.statements.get_mut(number)) {
                        prepared.columns = columns;
                    }
                }
                b'T' | b'n' => {}
                b'C' | b'I' | b's' => {
                    let affected = if tag == b'C' { affected(&self.input[body]) } else { 0 };
                    let statement = self.bound.get(self.outcomes.len()).copied();
                    self.outcomes.push(Outcome { statement, messages: result_start..self.consumed, rows, affected });
                    (result_start, rows) = (self.consumed, 0);
                }
                b'S' => self.record_setting(body),
                b'G' if expected.copies => {}
                // Without data for this COPY, the client must answer CopyFail, or the server would
                // wait forever.
                b'G' => link.send(b"f\0\0\0\x0cno data\0")?,
                b'E' => {
                    let error = self.error_response(body);
                    server_error.get_or_insert(error);
                }
                b'Z' => ready += 1,
                _ => {
                    return Err(Error::protocol(format!("unexpected message of type {:?}", char::from(tag))));
                }
            }
        }
        Ok(server_error)
    }

    /// Reads the next message: its type, and the range of its body in the input.
    #[inline]
    fn next(&mut self, link: &mut Link) -> Result<(u8, Range<usize>)> {
        let begin = self.consumed;
        if self.filled < begin + 5 {
            self.fill(link, begin + 5)?;
        }
        let head: [u8; 5] = self.input[begin..begin + 5].try_into().unwrap_or_default();
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if length < 4 {
            return Err(Error::protocol(format!("a message has length {length}, expected at least 4")));
        }
        let end = begin + 1 + length;
        if self.filled < end {
            self.fill(link, end)?;
        }
        self.consumed = end;
        Ok((head[0], begin + 5..end))
    }

    /// Reads until the input has `end` bytes.
    fn fill(&mut self, link: &mut Link, end: usize) -> Result<()> {
        if end > ANSWER_BYTES_MAX {
            return Err(Error::protocol(format!(
                "an answer has {end} bytes or more, expected at most {ANSWER_BYTES_MAX}"
            )));
        }
        while self.filled < end {
            if self.input.len() < self.filled + INPUT_BYTES / 4 {
                // Doubled each time, whatever length was announced.
                self.input.resize((self.input.len() * 2).max(INPUT_BYTES), 0);
            }
            self.filled += link.read(&mut self.input[self.filled..])?;
        }
        Ok(())
    }

    /// Records a ParameterStatus message.
    fn record_setting(&mut self, body: Range<usize>) {
        let mut texts =
            self.input[body].split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into_owned());
        if let (Some(name), Some(value)) = (texts.next(), texts.next()) {
            self.settings.retain(|(known, _)| *known != name);
            self.settings.push((name, value));
        }
    }

    /// Converts an ErrorResponse, and records its SQLSTATE.
    fn error_response(&mut self, body: Range<usize>) -> Error {
        let (mut severity, mut sqlstate, mut text) = (String::new(), String::new(), String::new());
        for field in self.input[body].split(|byte| *byte == 0) {
            let Some((tag, value)) = field.split_first() else { continue };
            let value = String::from_utf8_lossy(value);
            match tag {
                b'S' => severity = value.into_owned(),
                b'C' => sqlstate = value.into_owned(),
                b'M' => text.insert_str(0, &value),
                b'D' | b'H' => {
                    text.push_str("; ");
                    text.push_str(&value);
                }
                _ => {}
            }
        }
        if self.sqlstate == NO_ERROR {
            self.sqlstate = sqlstate.as_bytes().try_into().unwrap_or(*b"XX000");
        }
        Error::new(class_of(&sqlstate), format!("{severity}: {text} (SQLSTATE {sqlstate})"))
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Logging in

    fn log_in(&mut self) -> Result<()> {
        (self.filled, self.consumed, self.sqlstate) = (0, 0, NO_ERROR);
        let stream = connect(&self.login.address, self.login.network_of, CONNECT_TIMEOUT)?;
        let mut link = Link { stream, timeout: Duration::ZERO, deadline: Instant::now(), key: None };
        link.start(CONNECT_TIMEOUT)?;
        self.settings.clear();
        link.send(&self.startup())?;
        let mut scram = None;
        loop {
            let (tag, body) = self.next(&mut link)?;
            match tag {
                b'R' => self.authenticate(&mut link, &mut scram, body)?,
                b'S' => self.record_setting(body),
                b'K' => link.key = self.input[body].try_into().ok(),
                b'N' => {}
                b'E' => return Err(self.error_response(body)),
                b'Z' => break,
                _ => {
                    return Err(Error::protocol(format!("log-in: unexpected message of type {:?}", char::from(tag))));
                }
            }
        }
        self.link = Some(link);
        Ok(())
    }

    fn startup(&self) -> Vec<u8> {
        let mut out = vec![0; 4];
        out.extend_from_slice(&[0, 3, 0, 0]);
        let login = &self.login;
        let fixed = [("user", login.user.as_str()), ("database", &login.database), ("client_encoding", "UTF8")];
        let additional = login.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in fixed.into_iter().chain(additional) {
            for text in [name, value] {
                out.extend_from_slice(text.as_bytes());
                out.push(0);
            }
        }
        out.push(0);
        let length = out.len() as u32;
        out[..4].copy_from_slice(&length.to_be_bytes());
        out
    }

    /// Answers one authentication message of the server.
    fn authenticate(&mut self, link: &mut Link, scram: &mut Option<ScramSha256>, body: Range<usize>) -> Result<()> {
        let body = &self.input[body];
        let (kind, rest) =
            body.split_at_checked(4).ok_or_else(|| Error::protocol("a truncated authentication message"))?;
        let refused = |error: std::io::Error| Error::new(Class::Refused, format!("SCRAM: {error}"));
        let password = || {
            let password = self.login.password.as_deref();
            password
                .ok_or_else(|| Error::setup("the server requires a password: expected NAME://USER:PASSWORD@HOST:PORT"))
        };
        match (kind, scram.as_mut()) {
            ([0, 0, 0, 0], _) => Ok(()),
            ([0, 0, 0, 3], _) => link.send(&password_message(password()?.as_bytes(), true)),
            ([0, 0, 0, 5], _) => {
                let salt = rest.try_into().map_err(|_| Error::protocol("an md5 salt does not have 4 bytes"))?;
                let hash = md5_hash(self.login.user.as_bytes(), password()?.as_bytes(), salt);
                link.send(&password_message(hash.as_bytes(), true))
            }
            ([0, 0, 0, 10], _) => {
                if !rest.split(|byte| *byte == 0).any(|name| name == SCRAM_SHA_256.as_bytes()) {
                    return Err(Error::setup("the server does not offer SCRAM-SHA-256"));
                }
                let exchange = ScramSha256::new(password()?.as_bytes(), ChannelBinding::unsupported());
                let mut first = SCRAM_SHA_256.as_bytes().to_vec();
                first.push(0);
                first.extend_from_slice(&(exchange.message().len() as u32).to_be_bytes());
                first.extend_from_slice(exchange.message());
                *scram = Some(exchange);
                link.send(&password_message(&first, false))
            }
            ([0, 0, 0, 11], Some(exchange)) => {
                exchange.update(rest).map_err(refused)?;
                link.send(&password_message(exchange.message(), false))
            }
            ([0, 0, 0, 12], Some(exchange)) => exchange.finish(rest).map_err(refused),
            _ => Err(Error::setup(format!("the server requires an unsupported authentication method: {kind:?}"))),
        }
    }
}

impl Link {
    fn start(&mut self, timeout: Duration) -> Result<()> {
        if self.timeout != timeout {
            let set = self.stream.set_read_timeout(Some(timeout));
            set.and_then(|()| self.stream.set_write_timeout(Some(timeout))).map_err(|error| failed(&error))?;
            self.timeout = timeout;
        }
        self.deadline = Instant::now() + timeout;
        Ok(())
    }

    fn send(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(0) => return Err(Error::new(Class::Connection, "the connection accepts no more bytes")),
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(&error)),
            }
            self.check_deadline()?;
        }
        Ok(())
    }

    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        loop {
            match self.stream.read(into) {
                Ok(0) => return Err(Error::new(Class::Connection, "the server closed the connection")),
                Ok(count) => {
                    self.check_deadline()?;
                    return Ok(count);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(&error)),
            }
        }
    }

    fn check_deadline(&self) -> Result<()> {
        if Instant::now() > self.deadline {
            return Err(Error::new(Class::Timeout, format!("no complete answer within {:?}", self.timeout)));
        }
        Ok(())
    }

    /// Sends a cancel request over a separate connection. Ignores its outcome.
    fn cancel(&self, login: &Login) {
        let Some(key) = self.key else { return };
        if let Ok(mut stream) = connect(&login.address, login.network_of, CONNECT_TIMEOUT) {
            let mut request = vec![0, 0, 0, 16, 0x04, 0xd2, 0x16, 0x2e];
            request.extend_from_slice(&key);
            // The connection with the cancelled statement is dropped in any case.
            let _ = stream.write_all(&request);
        }
    }
}

fn failed(error: &std::io::Error) -> Error {
    Error::socket("connection", error)
}

fn password_message(body: &[u8], closed: bool) -> Vec<u8> {
    let mut out = Vec::new();
    message(&mut out, b'p', |out| {
        out.extend_from_slice(body);
        if closed {
            out.push(0);
        }
    });
    out
}

/// Error class of a SQLSTATE. Source: PostgreSQL's manual, appendix "PostgreSQL Error Codes".
pub(super) fn class_of(sqlstate: &str) -> Class {
    match sqlstate {
        "53100" => Class::DiskFull,
        "57P03" => Class::Overloaded,
        "57014" => Class::Timeout,
        // The outcome of the commit is unknown.
        "40003" => Class::Server,
        _ => match sqlstate.get(..2).unwrap_or_default() {
            "53" => Class::Overloaded,
            "08" | "57" => Class::Connection,
            "58" | "XX" | "F0" => Class::Server,
            "0A" | "0L" | "0P" | "20" | "21" | "22" | "23" | "25" | "26" | "28" | "2B" | "2D" | "34" | "3D" | "3F"
            | "40" | "42" | "44" | "54" | "55" | "P0" => Class::Refused,
            _ => Class::Server,
        },
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Building messages

/// Appends a message; `body` appends its content.
#[inline]
fn message(out: &mut Vec<u8>, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    let length = (out.len() - at) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

/// Appends a simple query, for [`Pg::send`].
pub(crate) fn push_query(sql: &str, out: &mut Vec<u8>) {
    message(out, b'Q', |out| {
        out.extend_from_slice(sql.as_bytes());
        out.push(0);
    });
}

/// Appends `COPY … FROM STDIN` with its data, for [`Pg::send`]. The data is sent without waiting
/// for CopyInResponse: a server that refuses the statement ignores it (manual, "COPY Operations").
pub(crate) fn push_copy(sql: &str, data: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    push_query(sql, out);
    let at = out.len();
    message(out, b'd', data);
    if out.len() - at > COPY_BYTES_MAX {
        let data = out.split_off(at);
        data[5..].chunks(COPY_BYTES_MAX).for_each(|piece| message(out, b'd', |out| out.extend_from_slice(piece)));
    }
    out.extend_from_slice(b"c\0\0\0\x04");
}

/// Parameters of a Bind message, in binary format.
pub(crate) struct Parameters<'a> {
    out: &'a mut Vec<u8>,
    count: u16,
}

impl Parameters<'_> {
    fn value(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
        self.out.extend_from_slice(bytes);
        self.count += 1;
    }

    /// `integer`.
    pub(crate) fn int4(&mut self, value: i32) {
        self.value(&value.to_be_bytes());
    }

    /// `integer[]`.
    pub(crate) fn int4s(&mut self, values: &[i32]) {
        push_array(oid::INT4, values.len(), self.out, |out| {
            for value in values {
                out.extend_from_slice(&4_u32.to_be_bytes());
                out.extend_from_slice(&value.to_be_bytes());
            }
        });
        self.count += 1;
    }

    /// `numeric` with two decimals, from hundredths.
    pub(crate) fn hundredths(&mut self, value: i64) {
        let mut groups = [0_i16; 6];
        let mut count = 0;
        let mut whole = value.unsigned_abs() / 100;
        while whole > 0 {
            groups[count] = (whole % 10_000) as i16;
            whole /= 10_000;
            count += 1;
        }
        let weight = count as i16 - 1;
        groups[..count].reverse();
        let fraction = (value.unsigned_abs() % 100) as i16 * 100;
        if fraction > 0 {
            groups[count] = fraction;
            count += 1;
        }
        // Number of digits, weight of the first, sign, display scale; then the base-10,000 digits.
        let sign: i16 = if value < 0 { 0x4000 } else { 0 };
        self.out.extend_from_slice(&(8 + 2 * count as u32).to_be_bytes());
        for word in [count as i16, weight, sign, 2].iter().chain(&groups[..count]) {
            self.out.extend_from_slice(&word.to_be_bytes());
        }
        self.count += 1;
    }

    /// `bigint`, or a time as microseconds since 2000-01-01.
    pub(crate) fn int8(&mut self, value: i64) {
        self.value(&value.to_be_bytes());
    }

    /// `double precision`.
    pub(crate) fn float8(&mut self, value: f64) {
        self.value(&value.to_be_bytes());
    }

    /// `text` and similar types.
    pub(crate) fn text(&mut self, value: &str) {
        self.value(value.as_bytes());
    }

    /// Appends `count` encoded values, each with its length in front.
    pub(crate) fn encoded(&mut self, values: &[u8], count: u16) {
        self.out.extend_from_slice(values);
        self.count += count;
    }

    /// `text[]`.
    pub(crate) fn texts<'a>(&mut self, values: impl ExactSizeIterator<Item = &'a str>) {
        push_array(oid::TEXT, values.len(), self.out, |out| {
            for value in values {
                out.extend_from_slice(&(value.len() as u32).to_be_bytes());
                out.extend_from_slice(value.as_bytes());
            }
        });
        self.count += 1;
    }
}

/// Appends a one-dimensional array as the value of a parameter. `values` appends its `count`
/// elements of type `element`, each with its length in front.
pub(crate) fn push_array(element: u32, count: usize, out: &mut Vec<u8>, values: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    for word in [u32::from(count > 0), 0, element] {
        out.extend_from_slice(&word.to_be_bytes());
    }
    if count > 0 {
        out.extend_from_slice(&(count as u32).to_be_bytes());
        out.extend_from_slice(&1u32.to_be_bytes());
    }
    values(out);
    let length = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

// ---------------------------------------------------------------------------------------------------------------------
// Reading answers

/// Iterator over complete messages.
struct Messages<'a> {
    bytes: &'a [u8],
}

impl<'a> Iterator for Messages<'a> {
    type Item = (u8, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (head, rest) = self.bytes.split_at_checked(5)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let (body, rest) = rest.split_at_checked(length.checked_sub(4)?)?;
        self.bytes = rest;
        Some((head[0], body))
    }
}

/// Iterator over the rows of a result.
pub(crate) struct Rows<'a> {
    messages: &'a [u8],
}

impl<'a> Rows<'a> {
    /// Iterates over the rows in `messages`.
    pub(crate) fn of(messages: &'a [u8]) -> Rows<'a> {
        Rows { messages }
    }

    /// The remaining messages, for a later [`Rows::of`].
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.messages
    }
}

impl<'a> Iterator for Rows<'a> {
    type Item = Row<'a>;

    #[inline]
    fn next(&mut self) -> Option<Row<'a>> {
        let mut messages = Messages { bytes: self.messages };
        let row = messages.find(|(tag, _)| *tag == b'D');
        self.messages = messages.bytes;
        // A row without the leading column count has no columns.
        row.map(|(_, body)| Row { bytes: body.get(2..).unwrap_or_default() })
    }
}

/// The remaining columns of a row.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    bytes: &'a [u8],
}

impl<'a> Row<'a> {
    /// The next column; `None` if it is null.
    #[inline]
    pub(crate) fn column(&mut self) -> Result<Option<&'a [u8]>> {
        let missing = || Error::protocol("a row ends before its columns do");
        let (length, rest) = self.bytes.split_at_checked(4).ok_or_else(missing)?;
        let length = i32::from_be_bytes([length[0], length[1], length[2], length[3]]);
        if length < 0 {
            self.bytes = rest;
            return Ok(None);
        }
        let (value, rest) = rest.split_at_checked(length as usize).ok_or_else(missing)?;
        self.bytes = rest;
        Ok(Some(value))
    }

    /// Whether all columns have been read.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// Parses the column types of a RowDescription.
fn column_types(body: &[u8]) -> Result<Arc<[u32]>> {
    let truncated = || Error::protocol("a truncated description of columns");
    let (count, mut rest) = body.split_at_checked(2).ok_or_else(truncated)?;
    let count = usize::from(u16::from_be_bytes([count[0], count[1]]));
    let mut types = Vec::with_capacity(count);
    for _ in 0..count {
        let name = rest.iter().position(|byte| *byte == 0).ok_or_else(truncated)?;
        let (fixed, after) = rest[name + 1..].split_at_checked(18).ok_or_else(truncated)?;
        types.push(u32::from_be_bytes([fixed[6], fixed[7], fixed[8], fixed[9]]));
        rest = after;
    }
    Ok(Arc::from(types))
}

/// The row count at the end of a command tag, such as `COPY 100`.
fn affected(tag: &[u8]) -> u64 {
    let tag = tag.strip_suffix(b"\0").unwrap_or(tag);
    let digits = tag.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
    let digit = |n: u64, byte: &u8| n.saturating_mul(10).saturating_add(u64::from(byte.wrapping_sub(b'0')));
    if digits.iter().all(u8::is_ascii_digit) { digits.iter().fold(0, digit) } else { 0 }
}

#[cfg(test)]
mod tests;
