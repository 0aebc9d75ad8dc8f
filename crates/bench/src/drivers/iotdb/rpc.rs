//! IoTDB's native RPC: a session on one connection, its calls, and query answers.
//!
//! Synchronous: a call is one write and usually one read. Write requests are encoded elsewhere
//! (`tablet`) and sent from the caller's buffer. Each call has a time-out and waits for its own
//! reply.
//!
//! Always true:
//! - after an I/O error, a time-out or a malformed reply the session is *broken*, because the next
//!   reply is unknown: every later call fails, and the caller opens a new session;
//! - a status other than success is an error with the server's code and text.
//!
//! Source: the interface definition `client.thrift` of Apache IoTDB 2.0 (`IClientRPCService`).

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::tablet::{begin_frame, close_frame, end_frame};
use super::thrift::{Kind, Malformed, Outcome, Protocol, Reader, Writer};
use super::tsblock::Block;
use super::types::DataType;
use crate::drivers::socket::connect;
use crate::error::{Class, Error, Result};

/// `IOTDB_SERVICE_PROTOCOL_V3`, used by all versions since 1.0.
const PROTOCOL_V3: i32 = 2;
/// Success, and success with the advice to write to a different node next time.
const SUCCESS: i32 = 200;
const REDIRECTION_RECOMMEND: i32 = 400;
/// Several statements, each with its own status.
const MULTIPLE_ERROR: i32 = 302;
/// The series or path exists already.
const SERIES_EXISTS: [i32; 2] = [503, 506];
/// Largest reply: the server's own limit of a frame.
const REPLY_BYTES_MAX: usize = 512 << 20;
/// Initial size of the reply buffer; it grows as bytes arrive.
const REPLY_BYTES_AT_FIRST: usize = 64 << 10;
/// Most failed parts of a batch in an error message.
const PARTS_SHOWN: usize = 3;

/// IoTDB's two data models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Series at paths `root.db.device.sensor`.
    Tree,
    /// Tables with tag and field columns.
    Table,
}

/// Options of a session.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Address `host:port`.
    pub(crate) address: String,
    /// See [`connect`].
    pub(crate) network_of: Option<u32>,
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) dialect: Dialect,
    pub(crate) protocol: Protocol,
    pub(crate) connect_timeout: Duration,
    /// Most rows in one reply.
    pub(crate) fetch_rows: i32,
}

/// Result of parsing received bytes.
type Wire<T> = std::result::Result<T, Malformed>;

/// A status: code, text, and the statuses of a batch's parts.
#[derive(Debug, Clone, Default, PartialEq)]
struct Status {
    code: i32,
    message: String,
    parts: Vec<(i32, String)>,
}

impl Status {
    fn is_success(&self) -> bool {
        let good = |code| code == SUCCESS || code == REDIRECTION_RECOMMEND;
        good(self.code) || self.code == MULTIPLE_ERROR && self.parts.iter().all(|part| good(part.0))
    }

    /// Fields: 1 code, 2 message, 3 parts.
    fn read(reader: &mut Reader<'_>) -> Wire<Status> {
        let mut status = Status::default();
        reader.fields(|reader, id, kind| status.field(reader, id, kind))?;
        Ok(status)
    }

    fn field(&mut self, reader: &mut Reader<'_>, id: i16, kind: Kind) -> Wire<bool> {
        match (id, kind) {
            (1, Kind::I32) => self.code = reader.i32()?,
            (2, Kind::Bytes) => self.message = reader.text()?,
            (3, Kind::List) => self.parts = reader.each(Kind::Struct, Status::read_part)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// A part's status, which has no parts itself.
    fn read_part(reader: &mut Reader<'_>) -> Wire<(i32, String)> {
        let (mut code, mut message) = (0, String::new());
        reader.fields(|reader, id, kind| {
            match (id, kind) {
                (1, Kind::I32) => code = reader.i32()?,
                (2, Kind::Bytes) => message = reader.text()?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok((code, message))
    }

    /// Treats the `allowed` codes as success, in the parts too.
    fn allow(mut self, allowed: &[i32]) -> Status {
        let codes = std::iter::once(&mut self.code).chain(self.parts.iter_mut().map(|part| &mut part.0));
        codes.filter(|code| allowed.contains(code)).for_each(|code| *code = SUCCESS);
        self
    }

    fn check(self, doing: &str) -> Result {
        if self.is_success() {
            return Ok(());
        }
        let failed: Vec<&(i32, String)> =
            self.parts.iter().filter(|part| part.0 != SUCCESS && part.0 != REDIRECTION_RECOMMEND).collect();
        let mut message = self.message;
        if !failed.is_empty() {
            message = format!("{} of {} parts failed", failed.len(), self.parts.len());
            for (code, text) in failed.iter().take(PARTS_SHOWN) {
                message.push_str(&format!("; {code}: {text}"));
            }
        }
        // The code of the failed part says more than MULTIPLE_ERROR.
        let code = failed.first().map_or(self.code, |part| part.0);
        let class = match classify(code, &message) {
            // The other parts have been written, so it is not `Refused`.
            _ if !failed.is_empty() && failed.len() < self.parts.len() => Class::Server,
            class => class,
        };
        Err(Error::new(class, format!("{doing}: IoTDB status {code}: {message}")))
    }
}

/// Error class of a status code. Source: `TSStatusCode` of IoTDB 2.0.1.
fn classify(code: i32, message: &str) -> Class {
    match code {
        // 600 is "read-only", for example because the disk is full.
        611 => Class::DiskFull,
        600 if message.to_ascii_lowercase().contains("disk") => Class::DiskFull,
        // Overload: not ready, write rejected, memory, concurrent queries, quotas.
        602 | 606 | 709 | 717 | 719 | 1701..=1708 => Class::Overloaded,
        712 | 720 => Class::Timeout,
        // 507: some columns of a write failed, the others are written.
        507 => Class::Server,
        205 | 300 | 303 | 500..=600 | 607 | 612..=616 | 700..=707 | 750..=752 | 800..=819 => Class::Refused,
        _ => Class::Server,
    }
}

/// A session with its connection.
#[derive(Debug)]
pub(crate) struct Session {
    stream: TcpStream,
    protocol: Protocol,
    fetch_rows: i32,
    id: i64,
    statement: i64,
    /// Buffer for small requests.
    request: Vec<u8>,
    reply: Vec<u8>,
    /// Current read time-out of the socket, to avoid a system call per request.
    socket_limit: Option<Duration>,
    broken: Option<String>,
}

impl Session {
    /// Connects and opens a session; the connect time-out applies to both.
    pub(crate) fn open(options: &Options) -> Result<Session> {
        let mut session = Session {
            stream: connect(&options.address, options.network_of, options.connect_timeout)?,
            protocol: options.protocol,
            fetch_rows: options.fetch_rows,
            id: 0,
            statement: 0,
            request: Vec::new(),
            reply: vec![0; REPLY_BYTES_AT_FIRST],
            socket_limit: None,
            broken: None,
        };
        let limit = options.connect_timeout;
        session.id = session.open_session(options, limit)?;
        session.statement = session.request_statement_id(limit)?;
        Ok(session)
    }

    /// Session ID in requests.
    pub(crate) fn id(&self) -> i64 {
        self.id
    }

    /// Reason why the session is broken, if it is.
    pub(crate) fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// Ends the session on the server; the connection is closed in any case.
    pub(crate) fn close(mut self, limit: Duration) -> Result {
        let id = self.id;
        self.status_call("closeSession", limit, &[], |writer| writer.i64_field(1, id))
    }

    /// Runs a statement without result rows. Codes in `allowed` are not errors.
    pub(crate) fn execute(&mut self, statement: &str, limit: Duration, allowed: &[i32]) -> Result {
        let (id, statement_id) = (self.id, self.statement);
        let mut status = Status::default();
        self.call(
            "executeUpdateStatement",
            statement,
            limit,
            request(|writer| {
                writer.i64_field(1, id);
                writer.bytes_field(2, statement.as_bytes());
                writer.i64_field(3, statement_id);
                writer.i64_field(5, millis(limit));
            }),
            |reader, id, kind| match (id, kind) {
                (1, Kind::Struct) => {
                    status = Status::read(reader)?;
                    Ok(true)
                }
                _ => Ok(false),
            },
        )?;
        status.allow(allowed).check(statement)
    }

    /// Runs a query and reads the complete answer; its blocks stay undecoded.
    pub(crate) fn query(&mut self, statement: &str, limit: Duration) -> Result<Answer> {
        let (id, statement_id, fetch_rows) = (self.id, self.statement, self.fetch_rows);
        let mut reply = QueryReply::default();
        self.call(
            "executeQueryStatementV2",
            statement,
            limit,
            request(|writer| {
                writer.i64_field(1, id);
                writer.bytes_field(2, statement.as_bytes());
                writer.i64_field(3, statement_id);
                writer.i32_field(4, fetch_rows);
                writer.i64_field(5, millis(limit));
            }),
            |reader, id, kind| reply.field(reader, id, kind),
        )?;
        std::mem::take(&mut reply.status).check(statement)?;
        let mut more = reply.more;
        let mut answer = reply.into_answer().map_err(|what| self.malformed(statement, what))?;
        while more {
            more = self.fetch(statement, &mut answer, limit)?;
        }
        Ok(answer)
    }

    /// Fetches more blocks; returns whether there are still more.
    fn fetch(&mut self, statement: &str, answer: &mut Answer, limit: Duration) -> Result<bool> {
        let (id, statement_id, fetch_rows, query) = (self.id, self.statement, self.fetch_rows, answer.query);
        let mut reply = QueryReply::default();
        self.call(
            "fetchResultsV2",
            statement,
            limit,
            request(|writer| {
                writer.i64_field(1, id);
                writer.bytes_field(2, statement.as_bytes());
                writer.i32_field(3, fetch_rows);
                writer.i64_field(4, query);
                writer.bool_field(5, true);
                writer.i64_field(6, millis(limit));
                writer.i64_field(7, statement_id);
            }),
            |reader, id, kind| match (id, kind) {
                (1, Kind::Struct) => reply.field(reader, 1, kind),
                // Blocks and flag as in the first reply, with different field numbers.
                (6, Kind::List) => reply.field(reader, 13, kind),
                (7, Kind::Bool) => reply.field(reader, 14, kind),
                _ => Ok(false),
            },
        )?;
        reply.status.check(statement)?;
        answer.fetches += 1;
        let more = reply.more && !reply.blocks.is_empty();
        answer.blocks.append(&mut reply.blocks);
        Ok(more)
    }

    /// Creates the aligned series of a device. Existing ones are not an error.
    pub(crate) fn create_aligned_timeseries(&mut self, device: &str, series: &[Series<'_>], limit: Duration) -> Result {
        let id = self.id;
        self.status_call("createAlignedTimeseries", limit, &SERIES_EXISTS, |writer| {
            writer.i64_field(1, id);
            writer.bytes_field(2, device.as_bytes());
            series_fields(writer, series);
        })
    }

    /// Creates series that are not aligned; names are complete paths. Existing ones are not an
    /// error.
    pub(crate) fn create_multi_timeseries(&mut self, series: &[Series<'_>], limit: Duration) -> Result {
        let id = self.id;
        self.status_call("createMultiTimeseries", limit, &SERIES_EXISTS, |writer| {
            writer.i64_field(1, id);
            // Field numbers are one lower than in the other request, which has a device.
            writer.list_field(2, Kind::Bytes, series.len());
            series.iter().for_each(|series| writer.bytes(series.name.as_bytes()));
            series_numbers(writer, 3, series);
        })
    }

    /// Sends the frames of write requests one by one, each after the reply to the previous.
    pub(crate) fn send(&mut self, method: &str, frames: &[u8], limit: Duration) -> Result {
        let mut rest = frames;
        while let Some((length, _)) = rest.split_first_chunk::<4>() {
            let (frame, after) = rest.split_at(4 + u32::from_be_bytes(*length) as usize);
            let mut status = Status::default();
            self.exchange(method, method, frame, limit, |reader, id, kind| status.field(reader, id, kind))?;
            status.check(method)?;
            rest = after;
        }
        Ok(())
    }

    fn open_session(&mut self, options: &Options, limit: Duration) -> Result<i64> {
        let dialect = if options.dialect == Dialect::Tree { "tree" } else { "table" };
        let configuration = [("version", "V_1_0"), ("sql_dialect", dialect)];
        let (mut status, mut version, mut session) = (Status::default(), None, None);
        let doing = format!("opening a session at {}", options.address);
        self.call(
            "openSession",
            &doing,
            limit,
            request(|writer| {
                writer.i32_field(1, PROTOCOL_V3);
                // The zone is required but unused: times in statements are integers.
                writer.bytes_field(2, b"UTC");
                writer.bytes_field(3, options.user.as_bytes());
                writer.bytes_field(4, options.password.as_bytes());
                writer.map_field(5, &configuration);
            }),
            |reader, id, kind| {
                match (id, kind) {
                    (1, Kind::Struct) => status = Status::read(reader)?,
                    (2, Kind::I32) => version = Some(reader.i32()?),
                    (3, Kind::I64) => session = Some(reader.i64()?),
                    _ => return Ok(false),
                }
                Ok(true)
            },
        )?;
        status.check(&doing)?;
        match (version, session) {
            (Some(PROTOCOL_V3), Some(session)) => Ok(session),
            (Some(PROTOCOL_V3), None) => Err(self.malformed(&doing, "no session ID".to_string())),
            (version, _) => Err(self.malformed(&doing, format!("protocol {version:?}, expected {PROTOCOL_V3}"))),
        }
    }

    /// Version of the server and its time unit: `ms`, `us` or `ns`.
    pub(crate) fn properties(&mut self, limit: Duration) -> Result<(String, String)> {
        let mut frame = Vec::new();
        let start = begin_frame(&mut frame);
        Writer::call(&mut frame, self.protocol, "getProperties").stop();
        close_frame(&mut frame, start);
        let (mut version, mut unit) = (String::new(), String::new());
        self.exchange("getProperties", "requesting version and precision", &frame, limit, |reader, id, kind| {
            match (id, kind) {
                (1, Kind::Bytes) => version = reader.text()?,
                (3, Kind::Bytes) => unit = reader.text()?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok((version, unit))
    }

    fn request_statement_id(&mut self, limit: Duration) -> Result<i64> {
        let (id, protocol) = (self.id, self.protocol);
        let mut frame = std::mem::take(&mut self.request);
        frame.clear();
        let start = begin_frame(&mut frame);
        let mut writer = Writer::call(&mut frame, protocol, "requestStatementId");
        writer.i64_field(1, id);
        writer.stop();
        close_frame(&mut frame, start);
        let doing = "requesting a statement ID";
        let mut statement = None;
        let outcome =
            self.exchange_raw("requestStatementId", doing, &frame, limit, |reader, id, kind| match (id, kind) {
                (0, Kind::I64) => {
                    statement = Some(reader.i64()?);
                    Ok(true)
                }
                _ => Ok(false),
            });
        self.request = frame;
        outcome?;
        statement.ok_or_else(|| self.malformed(doing, "no statement ID".to_string()))
    }

    /// Runs a call whose result is only a status.
    fn status_call(
        &mut self,
        method: &str,
        limit: Duration,
        allowed: &[i32],
        fill: impl FnOnce(&mut Writer<'_>),
    ) -> Result {
        let mut status = Status::default();
        self.call(method, method, limit, request(fill), |reader, id, kind| status.field(reader, id, kind))?;
        status.allow(allowed).check(method)
    }

    /// Builds and sends a request; `each` reads the fields of its result.
    fn call(
        &mut self,
        method: &str,
        doing: &str,
        limit: Duration,
        fill: impl FnOnce(&mut Vec<u8>, Protocol, &str),
        each: impl FnMut(&mut Reader<'_>, i16, Kind) -> Wire<bool>,
    ) -> Result {
        let mut frame = std::mem::take(&mut self.request);
        frame.clear();
        fill(&mut frame, self.protocol, method);
        let outcome = self.exchange(method, doing, &frame, limit, each);
        self.request = frame;
        outcome
    }

    /// Like `exchange_raw`, for a result struct in field 0 of the reply.
    fn exchange(
        &mut self,
        method: &str,
        doing: &str,
        frame: &[u8],
        limit: Duration,
        mut each: impl FnMut(&mut Reader<'_>, i16, Kind) -> Wire<bool>,
    ) -> Result {
        let mut found = false;
        self.exchange_raw(method, doing, frame, limit, |reader, id, kind| match (id, kind) {
            (0, Kind::Struct) => {
                found = true;
                reader.fields(&mut each)?;
                Ok(true)
            }
            _ => Ok(false),
        })?;
        if found { Ok(()) } else { Err(self.malformed(doing, "a reply without a result".to_string())) }
    }

    fn exchange_raw(
        &mut self,
        method: &str,
        doing: &str,
        frame: &[u8],
        limit: Duration,
        each: impl FnMut(&mut Reader<'_>, i16, Kind) -> Wire<bool>,
    ) -> Result {
        if let Some(why) = &self.broken {
            return Err(Error::new(Class::Connection, format!("{doing}: the session is broken: {why}")));
        }
        let length = self.round_trip(frame, limit).map_err(|error| self.lost(doing, limit, &error))?;
        let read = Reader::reply(&self.reply[..length], self.protocol, method).and_then(|(mut reader, outcome)| {
            if matches!(outcome, Outcome::Result) {
                reader.fields(each)?;
            }
            Ok(outcome)
        });
        match read {
            Ok(Outcome::Result) => Ok(()),
            Ok(Outcome::Exception(text)) => {
                Err(Error::new(Class::Server, format!("{doing}: exception of IoTDB: {text}")))
            }
            Err(malformed) => Err(self.malformed(doing, malformed.to_string())),
        }
    }

    /// Sends a frame and reads the reply's frame into `reply`, without its length field; returns
    /// its length.
    fn round_trip(&mut self, frame: &[u8], limit: Duration) -> std::io::Result<usize> {
        let deadline = Instant::now() + limit;
        if self.socket_limit != Some(limit) {
            let limit = limit.max(Duration::from_millis(1));
            self.stream.set_read_timeout(Some(limit))?;
            self.stream.set_write_timeout(Some(limit))?;
            self.socket_limit = Some(limit);
        }
        self.stream.write_all(frame)?;
        let mut got = 0;
        let mut want = 4;
        while got < want {
            if got == self.reply.len() {
                let grown = (2 * got).min(want);
                self.reply.resize(grown, 0);
            }
            let room = self.reply.len();
            let read = match self.stream.read(&mut self.reply[got..room]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                outcome => outcome?,
            };
            if read == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let had_length = got >= 4;
            got += read;
            if !had_length && got >= 4 {
                want = 4 + frame_length(&self.reply)?;
            }
            if got < want && Instant::now() >= deadline {
                return Err(ErrorKind::TimedOut.into());
            }
        }
        if got > want {
            return Err(std::io::Error::new(ErrorKind::InvalidData, "more bytes than the reply announced"));
        }
        self.reply.copy_within(4..want, 0);
        Ok(want - 4)
    }

    fn lost(&mut self, doing: &str, limit: Duration, error: &std::io::Error) -> Error {
        self.broken = Some(error.to_string());
        match error.kind() {
            ErrorKind::InvalidData => Error::protocol(format!("{doing}: {error}")),
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                Error::new(Class::Timeout, format!("{doing}: no reply within {} ms", limit.as_millis()))
            }
            ErrorKind::UnexpectedEof => {
                Error::new(Class::Connection, format!("{doing}: the server closed the connection"))
            }
            _ => Error::socket(doing, error),
        }
    }

    fn malformed(&mut self, doing: &str, what: String) -> Error {
        let error = Error::protocol(format!("{doing}: IoTDB's reply does not follow its protocol: {what}"));
        self.broken = Some(what);
        error
    }
}

/// Definition of a series.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Series<'a> {
    pub(crate) name: &'a str,
    pub(crate) kind: DataType,
    pub(crate) encoding: i32,
    pub(crate) compressor: i32,
}

fn series_fields(writer: &mut Writer<'_>, series: &[Series<'_>]) {
    writer.list_field(3, Kind::Bytes, series.len());
    series.iter().for_each(|series| writer.bytes(series.name.as_bytes()));
    series_numbers(writer, 4, series);
}

fn series_numbers(writer: &mut Writer<'_>, first: i16, series: &[Series<'_>]) {
    let numbers: [fn(&Series<'_>) -> i32; 3] =
        [|series| series.kind as i32, |series| series.encoding, |series| series.compressor];
    for (id, number) in (first..).zip(numbers) {
        writer.list_field(id, Kind::I32, series.len());
        series.iter().for_each(|series| writer.i32(number(series)));
    }
}

/// Answer of a query.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) columns: Vec<AnswerColumn>,
    /// Whether the blocks have times.
    pub(crate) has_times: bool,
    /// Undecoded blocks; see [`Answer::decoded`].
    blocks: Vec<Vec<u8>>,
    query: i64,
    /// Number of additional replies.
    pub(crate) fetches: u32,
}

impl Answer {
    /// Decodes the blocks one by one.
    pub(crate) fn decoded(&self) -> impl Iterator<Item = Result<Block>> {
        self.blocks.iter().map(|bytes| {
            let malformed = |what: String| Error::protocol(format!("a block of IoTDB's answer: {what}"));
            let block = Block::decode(bytes).map_err(|error| malformed(error.to_string()))?;
            match self.columns.iter().find(|column| !column.is_in(&block)) {
                Some(column) => Err(malformed(format!("no column {:?} of {}", column.name, column.kind.name()))),
                None => Ok(block),
            }
        })
    }
}

/// A column of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AnswerColumn {
    pub(crate) name: String,
    pub(crate) kind: DataType,
    /// Index of the column in each block; several may share one.
    pub(crate) source: usize,
}

impl AnswerColumn {
    fn is_in(&self, block: &Block) -> bool {
        block.columns.get(self.source).is_some_and(|column| column.kind.physical() == self.kind.physical())
    }
}

/// Reply to a query; field numbers of `TSExecuteStatementResp`.
#[derive(Default)]
pub(super) struct QueryReply {
    status: Status,
    query: i64,
    names: Vec<String>,
    ignore_times: bool,
    kinds: Vec<String>,
    by_name: HashMap<String, i32>,
    by_index: Option<Vec<i32>>,
    blocks: Vec<Vec<u8>>,
    more: bool,
}

impl QueryReply {
    pub(super) fn field(&mut self, reader: &mut Reader<'_>, id: i16, kind: Kind) -> Wire<bool> {
        match (id, kind) {
            (1, Kind::Struct) => self.status = Status::read(reader)?,
            (2, Kind::I64) => self.query = reader.i64()?,
            (3, Kind::List) => self.names = reader.each(Kind::Bytes, Reader::text)?,
            (5, Kind::Bool) => self.ignore_times = reader.bool()?,
            (6, Kind::List) => self.kinds = reader.each(Kind::Bytes, Reader::text)?,
            (9, Kind::Map) => self.by_name = name_map(reader)?,
            (13, Kind::List) => self.blocks = reader.each(Kind::Bytes, |reader| Ok(reader.bytes()?.to_vec()))?,
            (14, Kind::Bool) => self.more = reader.bool()?,
            (17, Kind::List) => self.by_index = Some(reader.each(Kind::I32, Reader::i32)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn into_answer(self) -> std::result::Result<Answer, String> {
        if self.names.len() != self.kinds.len() {
            return Err(format!("{} column names and {} column types", self.names.len(), self.kinds.len()));
        }
        let mut columns = Vec::with_capacity(self.names.len());
        for (index, (name, kind)) in self.names.iter().zip(&self.kinds).enumerate() {
            let kind = DataType::of_name(kind).ok_or_else(|| format!("column {name:?} has unknown type {kind:?}"))?;
            columns.push(AnswerColumn { name: name.clone(), kind, source: self.source(index, name)? });
        }
        Ok(Answer { columns, has_times: !self.ignore_times, blocks: self.blocks, query: self.query, fetches: 0 })
    }

    /// Index of a column in the blocks: newer servers map it by index, older ones by name; without
    /// a map the order is the same.
    fn source(&self, index: usize, name: &str) -> std::result::Result<usize, String> {
        let source = match &self.by_index {
            Some(sources) => sources.get(index).copied(),
            None if self.by_name.is_empty() => i32::try_from(index).ok(),
            None => self.by_name.get(name).copied(),
        };
        source
            .and_then(|source| usize::try_from(source).ok())
            .ok_or_else(|| format!("no block column for column {name:?}"))
    }
}

/// Reads a `map<string, i32>`.
fn name_map(reader: &mut Reader<'_>) -> Wire<HashMap<String, i32>> {
    let (key, value, count) = reader.map()?;
    if count > 0 && (key, value) != (Kind::Bytes, Kind::I32) {
        return Err(reader.cursor.error("a map of other types"));
    }
    (0..count).map(|_| Ok((reader.text()?, reader.i32()?))).collect()
}

/// Writes the frame of a request struct.
fn request(fill: impl FnOnce(&mut Writer<'_>)) -> impl FnOnce(&mut Vec<u8>, Protocol, &str) {
    move |out, protocol, method| {
        let start = begin_frame(out);
        let mut writer = Writer::request(out, protocol, method);
        fill(&mut writer);
        end_frame(out, start);
    }
}

fn frame_length(reply: &[u8]) -> std::io::Result<usize> {
    let mut length = [0; 4];
    length.copy_from_slice(&reply[..4]);
    let length = u32::from_be_bytes(length) as usize;
    if length > REPLY_BYTES_MAX {
        // The first bytes of other or TLS servers look like a huge length.
        let text = format!("a reply of {length} bytes, expected at most {REPLY_BYTES_MAX}: is this IoTDB's RPC port?");
        return Err(std::io::Error::new(ErrorKind::InvalidData, text));
    }
    Ok(length)
}

/// Time limit in milliseconds, with which the server itself stops a query when the client would
/// time out.
fn millis(limit: Duration) -> i64 {
    i64::try_from(limit.as_millis()).unwrap_or(i64::MAX).max(1)
}
