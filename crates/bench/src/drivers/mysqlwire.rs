//! Client of MySQL's protocol, as far as it is used here: log-in with a password, text queries,
//! `LOAD DATA LOCAL`, prepared statements. Existing client crates have about a hundred
//! dependencies; this one needs only SHA-1 and SHA-256.
//!
//! Source: MySQL Internals Manual, "Connection Phase", "Text Protocol" and "Prepared Statements";
//! MariaDB's protocol is the same in these parts.
//!
//! Packet: length u24, sequence number u8, payload. Rows of executions are stored as PostgreSQL's
//! DataRow messages, so that both protocols have the same reader ([`Rows`]). Not here: TLS, packets
//! of 16 MiB and more.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::ops::Range;
use std::time::Duration;

use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::pgwire::Rows;
use crate::error::{Class, Error, Result};

const CLIENT_LONG_PASSWORD: u32 = 1;
const CLIENT_PROTOCOL_41: u32 = 1 << 9;
/// Enables LOAD DATA LOCAL. The requested file is never opened: rows come from memory.
const CLIENT_LOCAL_FILES: u32 = 1 << 7;
const CLIENT_TRANSACTIONS: u32 = 1 << 13;
const CLIENT_SECURE_CONNECTION: u32 = 1 << 15;
/// Text queries and prepared statements may have several results (procedures).
const CLIENT_MULTI_RESULTS: u32 = 1 << 17;
const CLIENT_PS_MULTI_RESULTS: u32 = 1 << 18;
const CLIENT_PLUGIN_AUTH: u32 = 1 << 19;
/// ID of the collation utf8mb4_general_ci.
const UTF8MB4: u8 = 45;
/// Longest payload in one packet.
const PACKET_BYTES_MAX: usize = (1 << 24) - 2;
const COM_QUERY: u8 = 3;
const COM_STMT_PREPARE: u8 = 0x16;
const COM_STMT_EXECUTE: u8 = 0x17;
/// Status flag: another result follows.
const MORE_RESULTS: u16 = 8;
/// Initial size of the answer buffer.
const INPUT_BYTES: usize = 16 << 10;
/// Size of the packets of `LOAD DATA LOCAL`.
const LOAD_BYTES: usize = 1 << 20;

/// A cell of an answer; `None` is NULL.
pub(crate) type Cell = Option<String>;

/// A connection. After an error that the server reported, [`Client::sqlstate`] is not `00000` and
/// the connection stays usable; after any other error it must be dropped.
pub(crate) struct Client {
    stream: TcpStream,
    sequence: u8,
    sqlstate: [u8; 5],
    /// Received bytes, valid up to `filled` and parsed up to `consumed`.
    input: Vec<u8>,
    filled: usize,
    consumed: usize,
    /// Commands that are added but not sent.
    out: Vec<u8>,
    pending: Vec<Encoding>,
    /// Rows of the last answers, as DataRow messages.
    rows: Vec<u8>,
    results: Vec<Outcome>,
}

/// Row format of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Text,
    Binary,
}

/// Result of one statement.
struct Outcome {
    /// Range of its messages in `rows`.
    rows: Range<usize>,
    count: u64,
    affected: u64,
}

impl Client {
    /// Connects and logs in. `timeout` applies to each read and write.
    pub(crate) fn connect(host: &str, port: u16, user: &str, password: &str, timeout: Duration) -> Result<Client> {
        let failed = |error: &std::io::Error| Error::socket(&format!("{host}:{port}"), error);
        let mut addresses = (host, port).to_socket_addrs().map_err(|error| failed(&error))?;
        let address = addresses.next().ok_or_else(|| Error::setup(format!("{host}: no such host")))?;
        let stream = TcpStream::connect_timeout(&address, timeout).map_err(|error| failed(&error))?;
        let prepared = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(timeout)))
            .and_then(|()| stream.set_write_timeout(Some(timeout)));
        prepared.map_err(|error| failed(&error))?;
        let mut client = Client {
            stream,
            sequence: 0,
            sqlstate: *b"00000",
            input: Vec::new(),
            filled: 0,
            consumed: 0,
            out: Vec::new(),
            pending: Vec::new(),
            rows: Vec::new(),
            results: Vec::new(),
        };
        client.log_in(user, password)?;
        Ok(client)
    }

    fn log_in(&mut self, user: &str, password: &str) -> Result {
        let packet = self.receive()?;
        let Greeting { mut nonce, mut plugin } = Greeting::parse(&packet)?;
        let answer = proof(&plugin, password, &nonce)?;
        let flags = CLIENT_LONG_PASSWORD
            | CLIENT_PROTOCOL_41
            | CLIENT_LOCAL_FILES
            | CLIENT_TRANSACTIONS
            | CLIENT_SECURE_CONNECTION
            | CLIENT_MULTI_RESULTS
            | CLIENT_PS_MULTI_RESULTS
            | CLIENT_PLUGIN_AUTH;
        let mut response = flags.to_le_bytes().to_vec();
        response.extend((PACKET_BYTES_MAX as u32).to_le_bytes());
        response.push(UTF8MB4);
        response.extend([0; 23]);
        response.extend(user.bytes().filter(|byte| *byte != 0).chain([0]));
        // A hash of at most 32 bytes.
        response.push(answer.len() as u8);
        response.extend(answer);
        response.extend(plugin.bytes().chain([0]));
        self.send(&response)?;
        loop {
            let packet = self.receive()?;
            let mut fields = Fields(&packet);
            match fields.u8()? {
                0x00 => return Ok(()),
                0xff => return Err(server_error(&packet)),
                0xfe => {
                    plugin = fields.text_until_nul()?;
                    nonce = fields.0.strip_suffix(&[0]).unwrap_or(fields.0).to_vec();
                    let answer = proof(&plugin, password, &nonce)?;
                    self.send(&answer)?;
                }
                // caching_sha2_password: 3 means that the server knows the hash, 4 that it requires
                // the password.
                0x01 if fields.u8()? == 3 => {}
                0x01 => {
                    return Err(Error::unsupported(format!(
                        "the server requires the password of user {user:?} over TLS, which is not supported: log in once \
                         with another client, so that the server caches the hash, or set mysql_native_password for the user"
                    )));
                }
                other => {
                    return Err(Error::protocol(format!(
                        "log-in: a packet starts with {other:#04x}: expected 00, 01, fe or ff"
                    )));
                }
            }
        }
    }

    /// SQLSTATE of the last error that the server reported; `00000` if the last command succeeded.
    pub(crate) fn sqlstate(&self) -> &[u8; 5] {
        &self.sqlstate
    }

    /// Runs one statement and returns its rows; none if it has no result set.
    pub(crate) fn query(&mut self, sql: &str) -> Result<Vec<Vec<Cell>>> {
        let head = self.command(COM_QUERY, sql.as_bytes())?;
        match head.first() {
            Some(0x00) => return Ok(Vec::new()),
            Some(0xff) => return Err(self.record_error(&head)),
            _ => {}
        }
        let columns = Fields(&head).length()?;
        // Skips the column descriptions and the end marker.
        for _ in 0..=columns {
            self.next()?;
        }
        let mut rows = Vec::new();
        loop {
            let packet = self.receive()?;
            match packet.first() {
                Some(0xfe) if packet.len() < 9 => return Ok(rows),
                Some(0xff) => return Err(self.record_error(&packet)),
                _ => rows.push(row(&packet, columns)?),
            }
        }
    }

    /// Runs a `LOAD DATA LOCAL INFILE` with `data` as the file, and returns the number of written
    /// rows.
    pub(crate) fn load(&mut self, sql: &str, data: &[u8]) -> Result<u64> {
        let head = self.command(COM_QUERY, sql.as_bytes())?;
        match head.first() {
            Some(0xfb) => {}
            Some(0xff) => return Err(self.record_error(&head)),
            _ => return Err(Error::protocol("LOAD DATA LOCAL: the server does not request the file")),
        }
        for piece in data.chunks(LOAD_BYTES).chain([&[][..]]) {
            self.send(piece)?;
        }
        let packet = self.receive()?;
        match packet.first() {
            Some(0x00) => Fields(&packet[1..]).length(),
            Some(0xff) => Err(self.record_error(&packet)),
            _ => Err(Error::protocol("LOAD DATA LOCAL: the answer is neither OK nor an error")),
        }
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Prepared statements

    /// Prepares a statement; `?` is a parameter. Returns its ID.
    pub(crate) fn prepare(&mut self, sql: &str) -> Result<u32> {
        let head = self.command(COM_STMT_PREPARE, sql.as_bytes())?;
        if head.first() == Some(&0xff) {
            return Err(self.record_error(&head));
        }
        let mut fields = Fields(&head);
        fields.u8()?;
        let number = fields.number(4)? as u32;
        let (columns, parameters) = (fields.number(2)?, fields.number(2)?);
        for count in [parameters, columns] {
            // Skips the descriptions and the end marker.
            for _ in 0..if count > 0 { count + 1 } else { 0 } {
                self.next()?;
            }
        }
        Ok(number)
    }

    /// Starts a request: commands are added, and sent together by [`Client::finish`].
    pub(crate) fn begin(&mut self) {
        self.out.clear();
        self.pending.clear();
        self.rows.clear();
        self.results.clear();
    }

    /// Adds a text query.
    pub(crate) fn add_text(&mut self, sql: &str) {
        push_packet(&mut self.out, |out| {
            out.push(COM_QUERY);
            out.extend_from_slice(sql.as_bytes());
        });
        self.pending.push(Encoding::Text);
    }

    /// Adds an execution of a prepared statement; `write` appends its parameters.
    pub(crate) fn add(&mut self, statement: u32, write: impl FnOnce(&mut Parameters)) {
        let mut parameters = Parameters { types: Vec::with_capacity(64), values: Vec::with_capacity(256) };
        write(&mut parameters);
        push_packet(&mut self.out, |out| {
            out.push(COM_STMT_EXECUTE);
            out.extend_from_slice(&statement.to_le_bytes());
            // No cursor; one iteration.
            out.extend_from_slice(&[0, 1, 0, 0, 0]);
            let count = parameters.types.len() / 2;
            if count > 0 {
                // No NULLs; the types follow.
                out.extend(std::iter::repeat_n(0, count.div_ceil(8)));
                out.push(1);
                out.extend_from_slice(&parameters.types);
                out.extend_from_slice(&parameters.values);
            }
        });
        self.pending.push(Encoding::Binary);
    }

    /// Sends the added commands in one write and reads all answers. Unlike PostgreSQL, the server
    /// runs the commands after a failed one; the first error is returned when all are answered.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.sqlstate = *b"00000";
        self.discard_consumed();
        self.stream.write_all(&self.out).map_err(|error| Error::socket("sending", &error))?;
        let mut first = Ok(());
        let pending = std::mem::take(&mut self.pending);
        for encoding in &pending {
            self.sequence = 1;
            let reported = self.answer(*encoding)?;
            first = first.and(reported.map_or(Ok(()), Err));
        }
        self.pending = pending;
        first
    }

    /// Rows of result `n`. Results are numbered over all commands of the request; a command may
    /// have several.
    pub(crate) fn rows(&self, n: usize) -> Rows<'_> {
        Rows::of(self.results.get(n).map_or(&[][..], |result| &self.rows[result.rows.clone()]))
    }

    /// Number of rows in result `n`.
    pub(crate) fn row_count(&self, n: usize) -> u64 {
        self.results.get(n).map_or(0, |result| result.count)
    }

    /// Number of rows that result `n` reports as changed.
    pub(crate) fn affected(&self, n: usize) -> u64 {
        self.results.get(n).map_or(0, |result| result.affected)
    }

    /// Reads the answer of one command. `Some` is an error that the server reported.
    fn answer(&mut self, encoding: Encoding) -> Result<Option<Error>> {
        loop {
            let head = self.next()?;
            let rows_start = self.rows.len();
            let (count, affected, status) = match self.input[head.clone()].first().copied() {
                None => return Err(Error::protocol("an empty packet")),
                Some(0xff) => {
                    let packet = self.input[head].to_vec();
                    return Ok(Some(self.record_error(&packet)));
                }
                Some(0xfb) => return Err(Error::protocol("the server requests a file without LOAD DATA LOCAL")),
                Some(0x00) => {
                    let mut fields = Fields(&self.input[head.start + 1..head.end]);
                    let affected = fields.length()?;
                    fields.length()?;
                    (0, affected, fields.number(2)? as u16)
                }
                Some(_) => match self.result_rows(head, encoding)? {
                    Ok((count, status)) => (count, 0, status),
                    Err(reported) => return Ok(Some(reported)),
                },
            };
            self.results.push(Outcome { rows: rows_start..self.rows.len(), count, affected });
            if status & MORE_RESULTS == 0 {
                return Ok(None);
            }
        }
    }

    /// Reads column descriptions and rows. Returns the number of rows and the final status.
    fn result_rows(
        &mut self,
        head: Range<usize>,
        encoding: Encoding,
    ) -> Result<std::result::Result<(u64, u16), Error>> {
        let columns = Fields(&self.input[head]).length()?;
        let mut types = Vec::new();
        for _ in 0..columns {
            let description = self.next()?;
            types.push(column_type(&self.input[description])?);
        }
        self.next()?;
        let mut count = 0;
        loop {
            let packet = self.next()?;
            let bytes = &self.input[packet];
            match bytes.first() {
                Some(0xfe) if bytes.len() < 9 => {
                    let status = Fields(&bytes[1..]).bytes(4)?;
                    return Ok(Ok((count, u16::from_le_bytes([status[2], status[3]]))));
                }
                Some(0xff) => {
                    let packet = bytes.to_vec();
                    return Ok(Err(self.record_error(&packet)));
                }
                _ => push_row(bytes, &types, encoding, &mut self.rows)?,
            }
            count += 1;
        }
    }

    /// Converts an error packet, and records its SQLSTATE.
    fn record_error(&mut self, packet: &[u8]) -> Error {
        let state = packet.get(4..9).filter(|_| packet.get(3) == Some(&b'#'));
        self.sqlstate = state.and_then(|state| state.try_into().ok()).unwrap_or(*b"HY000");
        server_error(packet)
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Packets

    /// Sends a command and receives the first packet of its answer.
    fn command(&mut self, command: u8, text: &[u8]) -> Result<Vec<u8>> {
        self.sequence = 0;
        self.sqlstate = *b"00000";
        self.discard_consumed();
        let mut packet = Vec::with_capacity(text.len() + 1);
        packet.push(command);
        packet.extend(text);
        self.send(&packet)?;
        self.receive()
    }

    fn send(&mut self, payload: &[u8]) -> Result {
        if payload.len() > PACKET_BYTES_MAX {
            return Err(Error::new(
                Class::Refused,
                format!("statement of {} bytes: at most {PACKET_BYTES_MAX}", payload.len()),
            ));
        }
        let length = (payload.len() as u32).to_le_bytes();
        let mut packet = Vec::with_capacity(payload.len() + 4);
        packet.extend([length[0], length[1], length[2], self.sequence]);
        packet.extend(payload);
        self.sequence = self.sequence.wrapping_add(1);
        self.stream.write_all(&packet).map_err(|error| Error::socket("sending", &error))
    }

    fn receive(&mut self) -> Result<Vec<u8>> {
        let packet = self.next()?;
        Ok(self.input[packet].to_vec())
    }

    /// Removes parsed bytes from the input.
    fn discard_consumed(&mut self) {
        self.input.copy_within(self.consumed..self.filled, 0);
        self.filled -= self.consumed;
        self.consumed = 0;
    }

    /// Reads the next packet; returns the range of its payload in the input.
    fn next(&mut self) -> Result<Range<usize>> {
        let begin = self.consumed;
        self.fill(begin + 4)?;
        let head: [u8; 4] = self.input[begin..begin + 4].try_into().unwrap_or_default();
        let length = u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize;
        if head[3] != self.sequence {
            return Err(Error::protocol(format!("packet number {}: expected {}", head[3], self.sequence)));
        }
        if length > PACKET_BYTES_MAX {
            return Err(Error::protocol(format!("packet of {length} bytes: expected at most {PACKET_BYTES_MAX}")));
        }
        self.sequence = self.sequence.wrapping_add(1);
        self.fill(begin + 4 + length)?;
        self.consumed = begin + 4 + length;
        Ok(begin + 4..self.consumed)
    }

    /// Reads until the input has `end` bytes. The buffer doubles as bytes arrive, whatever length
    /// was announced.
    fn fill(&mut self, end: usize) -> Result<()> {
        while self.filled < end {
            if self.filled == self.input.len() {
                self.input.resize((self.input.len() * 2).max(INPUT_BYTES), 0);
            }
            match self.stream.read(&mut self.input[self.filled..]) {
                Ok(0) => return Err(Error::new(Class::Connection, "receiving: the server closed the connection")),
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::socket("receiving", &error)),
            }
        }
        Ok(())
    }
}

/// Appends the first packet of a command.
fn push_packet(out: &mut Vec<u8>, payload: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    payload(out);
    let length = ((out.len() - at - 4) as u32).to_le_bytes();
    out[at..at + 3].copy_from_slice(&length[..3]);
}

/// Parameters of an execution.
pub(crate) struct Parameters {
    types: Vec<u8>,
    values: Vec<u8>,
}

impl Parameters {
    /// Any integer.
    pub(crate) fn int8(&mut self, value: i64) {
        self.types.extend_from_slice(&[kind::LONGLONG, 0]);
        self.values.extend_from_slice(&value.to_le_bytes());
    }

    /// `varchar` and similar types.
    pub(crate) fn text(&mut self, value: &str) {
        self.types.extend_from_slice(&[kind::VAR_STRING, 0]);
        self.string(value.as_bytes());
    }

    /// `decimal`, from its digits.
    pub(crate) fn decimal(&mut self, digits: &str) {
        self.types.extend_from_slice(&[kind::NEWDECIMAL, 0]);
        self.string(digits.as_bytes());
    }

    fn string(&mut self, bytes: &[u8]) {
        match bytes.len() {
            short @ 0..=0xfa => self.values.push(short as u8),
            long => {
                self.values.push(0xfd);
                self.values.extend_from_slice(&(long as u32).to_le_bytes()[..3]);
            }
        }
        self.values.extend_from_slice(bytes);
    }
}

/// Type codes of columns.
mod kind {
    pub(super) const TINY: u8 = 1;
    pub(super) const SHORT: u8 = 2;
    pub(super) const LONG: u8 = 3;
    pub(super) const FLOAT: u8 = 4;
    pub(super) const DOUBLE: u8 = 5;
    pub(super) const TIMESTAMP: u8 = 7;
    pub(super) const LONGLONG: u8 = 8;
    pub(super) const INT24: u8 = 9;
    pub(super) const DATE: u8 = 10;
    pub(super) const TIME: u8 = 11;
    pub(super) const DATETIME: u8 = 12;
    pub(super) const YEAR: u8 = 13;
    pub(super) const NEWDECIMAL: u8 = 0xf6;
    pub(super) const VAR_STRING: u8 = 0xfd;
}

/// Type in a column description: after six strings, a length, collation and width.
fn column_type(packet: &[u8]) -> Result<u8> {
    let mut fields = Fields(packet);
    for _ in 0..6 {
        fields.string()?;
    }
    fields.bytes(1 + 2 + 4)?;
    fields.u8()
}

/// Appends a row as a DataRow message. Binary integers become big-endian; other values are
/// unchanged.
fn push_row(packet: &[u8], types: &[u8], encoding: Encoding, out: &mut Vec<u8>) -> Result<()> {
    let at = out.len();
    out.extend_from_slice(b"D\0\0\0\0");
    out.extend_from_slice(&(types.len() as u16).to_be_bytes());
    let mut fields = Fields(packet);
    let nulls = match encoding {
        Encoding::Text => &[][..],
        Encoding::Binary => {
            fields.u8()?;
            fields.bytes((types.len() + 9) / 8)?
        }
    };
    for (n, kind) in types.iter().enumerate() {
        // The first two bits of the null bitmap are unused.
        let null = match encoding {
            Encoding::Text => fields.0.first() == Some(&0xfb),
            Encoding::Binary => nulls[(n + 2) / 8] >> ((n + 2) % 8) & 1 == 1,
        };
        if null {
            fields.0 = if encoding == Encoding::Text { &fields.0[1..] } else { fields.0 };
            out.extend_from_slice(&(-1_i32).to_be_bytes());
            continue;
        }
        let value = match encoding {
            Encoding::Text => fields.string()?,
            Encoding::Binary => fields.binary(*kind)?,
        };
        out.extend_from_slice(&(value.len() as u32).to_be_bytes());
        let integer =
            matches!(*kind, kind::TINY | kind::SHORT | kind::LONG | kind::LONGLONG | kind::INT24 | kind::YEAR);
        if integer && encoding == Encoding::Binary {
            out.extend(value.iter().rev());
        } else {
            out.extend_from_slice(value);
        }
    }
    let length = (out.len() - at - 1) as u32;
    out[at + 1..at + 5].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// The server's first packet.
struct Greeting {
    nonce: Vec<u8>,
    plugin: String,
}

impl Greeting {
    fn parse(packet: &[u8]) -> Result<Greeting> {
        let mut fields = Fields(packet);
        match fields.u8()? {
            10 => {}
            0xff => return Err(server_error(packet)),
            version => return Err(Error::protocol(format!("greeting of protocol {version}: expected 10"))),
        }
        fields.text_until_nul()?;
        fields.bytes(4)?;
        let mut nonce = fields.bytes(8)?.to_vec();
        // Skips a zero, half of the capabilities, collation, status, the other half.
        fields.bytes(1 + 2 + 1 + 2 + 2)?;
        let nonce_length = usize::from(fields.u8()?);
        fields.bytes(10)?;
        let more = fields.bytes(nonce_length.saturating_sub(8).max(13))?;
        nonce.extend(more.strip_suffix(&[0]).unwrap_or(more));
        let plugin = fields.text_until_nul().unwrap_or_else(|_| "mysql_native_password".to_owned());
        Ok(Greeting { nonce, plugin })
    }
}

/// Proof of the password for the log-in; empty for an empty password.
fn proof(plugin: &str, password: &str, nonce: &[u8]) -> Result<Vec<u8>> {
    if password.is_empty() {
        return Ok(Vec::new());
    }
    let xor = |a: &[u8], b: &[u8]| a.iter().zip(b).map(|(x, y)| x ^ y).collect::<Vec<u8>>();
    match plugin {
        "mysql_native_password" => {
            let once = Sha1::digest(password);
            let twice = Sha1::digest(once);
            Ok(xor(&once, &Sha1::digest([nonce, &twice].concat())))
        }
        "caching_sha2_password" => {
            let once = Sha256::digest(password);
            let twice = Sha256::digest(once);
            Ok(xor(&once, &Sha256::digest([&twice, nonce].concat())))
        }
        other => Err(Error::unsupported(format!(
            "the server requires log-in by {other:?}: expected mysql_native_password or caching_sha2_password"
        ))),
    }
}

/// Parses `ff`, code u16, `#`, SQLSTATE (5), message.
fn server_error(packet: &[u8]) -> Error {
    let code = packet.get(1..3).map_or(0, |code| u16::from_le_bytes([code[0], code[1]]));
    let rest = packet.get(3..).unwrap_or_default();
    let message = if rest.first() == Some(&b'#') { rest.get(6..).unwrap_or_default() } else { rest };
    let class = match code {
        // In these cases nothing was applied: full table space or disk, too many connections,
        // server shutdown.
        1021 | 1114 => Class::DiskFull,
        1040 | 1203 => Class::Overloaded,
        1053 => Class::Connection,
        _ => Class::Refused,
    };
    Error::new(class, format!("error {code}: {}", String::from_utf8_lossy(message)))
}

fn row(packet: &[u8], columns: u64) -> Result<Vec<Cell>> {
    let mut fields = Fields(packet);
    let mut cells = Vec::new();
    for _ in 0..columns {
        if fields.0.first() == Some(&0xfb) {
            fields.u8()?;
            cells.push(None);
        } else {
            cells.push(Some(String::from_utf8_lossy(fields.string()?).into_owned()));
        }
    }
    Ok(cells)
}

/// The unread rest of a packet.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or_else(|| {
            Error::protocol(format!("packet ends early: {} bytes left, expected {count}", self.0.len()))
        })?;
        self.0 = rest;
        Ok(bytes)
    }

    fn u8(&mut self) -> Result<u8> {
        Ok(self.bytes(1)?[0])
    }

    /// A little-endian integer of `size` bytes, at most 8.
    fn number(&mut self, size: usize) -> Result<u64> {
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(self.bytes(size)?);
        Ok(u64::from_le_bytes(bytes))
    }

    /// A length-prefixed string.
    fn string(&mut self) -> Result<&'a [u8]> {
        let length = usize::try_from(self.length()?).unwrap_or(usize::MAX);
        self.bytes(length)
    }

    /// A value in binary format.
    fn binary(&mut self, kind: u8) -> Result<&'a [u8]> {
        match kind {
            kind::TINY => self.bytes(1),
            kind::SHORT | kind::YEAR => self.bytes(2),
            kind::LONG | kind::INT24 | kind::FLOAT => self.bytes(4),
            kind::LONGLONG | kind::DOUBLE => self.bytes(8),
            kind::DATE | kind::TIME | kind::DATETIME | kind::TIMESTAMP => {
                let length = usize::from(self.u8()?);
                self.bytes(length)
            }
            _ => self.string(),
        }
    }

    fn text_until_nul(&mut self) -> Result<String> {
        let end = self.0.iter().position(|byte| *byte == 0);
        let end = end.ok_or_else(|| Error::protocol("string without its terminating zero".to_owned()))?;
        let text = String::from_utf8_lossy(self.bytes(end)?).into_owned();
        self.bytes(1)?;
        Ok(text)
    }

    /// A length-encoded integer of 1, 3, 4 or 9 bytes.
    fn length(&mut self) -> Result<u64> {
        let size = match self.u8()? {
            small @ 0..=0xfa => return Ok(u64::from(small)),
            0xfc => 2,
            0xfd => 3,
            0xfe => 8,
            other => return Err(Error::protocol(format!("a length starts with {other:#04x}"))),
        };
        self.number(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Expected values computed with Python's hashlib from the manual's formulas.
    #[test]
    fn proofs_are_those_of_the_manual() {
        let nonce: Vec<u8> = (1..=20).collect();
        let native = proof("mysql_native_password", "secret", &nonce).unwrap();
        assert_eq!(hex(&native), "b32bb3a583e1340c0a1108d58b1be49781ad8c2f");
        let caching = proof("caching_sha2_password", "secret", &nonce).unwrap();
        assert_eq!(hex(&caching), "746ebe205d56a0707acb3e796e834e0dd7b1d61743b26bd5202c7a623230c7c9");
        assert!(proof("mysql_native_password", "", &nonce).unwrap().is_empty());
        assert_eq!(proof("dialog", "secret", &nonce).unwrap_err().class, Class::Unsupported);
    }

    #[test]
    fn binary_rows_become_data_rows() {
        // Columns: INT 7, NULL, VARCHAR "ab"; the null of the second is bit 3 of the first byte.
        let packet = [0x00, 0b0000_1000, 7, 0, 0, 0, 2, b'a', b'b'];
        let mut out = Vec::new();
        push_row(&packet, &[kind::LONG, kind::LONG, kind::VAR_STRING], Encoding::Binary, &mut out).unwrap();
        let mut row = Rows::of(&out).next().unwrap();
        assert_eq!(row.column().unwrap(), Some(&[0, 0, 0, 7][..]));
        assert_eq!(row.column().unwrap(), None);
        assert_eq!(row.column().unwrap(), Some(&b"ab"[..]));
        assert!(row.is_empty());
    }

    proptest::proptest! {
        #[test]
        fn packets_of_any_bytes_are_read_or_refused_but_never_panic(packet: Vec<u8>, columns in 0_u64..300) {
            let _ = Greeting::parse(&packet);
            let _ = row(&packet, columns);
            let _ = server_error(&packet);
            let _ = column_type(&packet);
            for kind in 0..=255 {
                let _ = push_row(&packet, &[kind, kind, 8], Encoding::Binary, &mut Vec::new());
            }
            let _ = push_row(&packet, &[8, 8], Encoding::Text, &mut Vec::new());
        }
    }
}
