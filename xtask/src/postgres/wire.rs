//! A client of PostgreSQL's protocol, as small as a comparison of answers needs: simple queries, COPY, cancel.
//!
//! Always true
//! - An answer is complete: everything from the query to `ReadyForQuery`, so that two servers can be compared message by
//!   message.
//! - Texts are compared, so all results are asked in text form.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::Result;

/// Time after which a statement is cancelled.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time after which a server that ignores a cancel counts as hung.
const HUNG: Duration = Duration::from_secs(60);

/// One result set, command or error of a simple query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Rows {
        columns: Vec<Column>,
        rows: Vec<Vec<Option<String>>>,
        tag: String,
    },
    Done {
        tag: String,
    },
    /// Lines of COPY … TO STDOUT.
    Copied {
        lines: Vec<String>,
        tag: String,
    },
    Failed {
        code: String,
        message: String,
    },
}

/// Fields of a row as text; `None` is NULL.
pub(super) type Row = Vec<Option<String>>;

/// A column of a result, as RowDescription names it.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) oid: u32,
}

/// First OID that PostgreSQL assigns to a type of a user; each database assigns its own.
const USER_OID_MIN: u32 = 16_384;

impl PartialEq for Column {
    fn eq(&self, other: &Column) -> bool {
        let is_of_user = |column: &Column| column.oid >= USER_OID_MIN;
        self.name == other.name && (self.oid == other.oid || is_of_user(self) && is_of_user(other))
    }
}

impl Eq for Column {}

/// Everything that a server sent for one query.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    pub(super) parts: Vec<Part>,
    /// Whether the statement ran out of [`PATIENCE`] and was cancelled.
    pub(super) cancelled: bool,
}

impl Answer {
    /// SQLSTATE and message of the error, if the query failed.
    pub(super) fn error(&self) -> Option<(&str, &str)> {
        self.parts.iter().find_map(|part| match part {
            Part::Failed { code, message } => Some((code.as_str(), message.as_str())),
            _ => None,
        })
    }
}

/// A connection.
pub(crate) struct Client {
    stream: TcpStream,
    address: String,
    key: (u32, u32),
    /// Transaction status of the last `ReadyForQuery`: `I`dle, in a `T`ransaction, or `E` after an error in one.
    pub(super) status: u8,
    input: Vec<u8>,
    pending: Option<Answer>,
    rows: Option<(Vec<Column>, Vec<Row>)>,
    lines: Option<Vec<String>>,
}

/// Bytes that follow a COPY … FROM STDIN in a script.
pub(super) type CopyData<'a> = dyn FnMut() -> Option<String> + 'a;

impl Client {
    /// Connects as `user` to `database` with the settings that PostgreSQL's own tests use, but for `DateStyle`.
    pub(super) fn connect(address: &str, user: &str, database: &str) -> Result<Client> {
        let stream = TcpStream::connect(address).map_err(|error| format!("{address}: {error}"))?;
        stream.set_nodelay(true).map_err(|error| format!("{address}: {error}"))?;
        let mut client = Client {
            stream,
            address: address.to_owned(),
            key: (0, 0),
            status: b'I',
            input: Vec::new(),
            pending: Some(Answer::default()),
            rows: None,
            lines: None,
        };
        let mut body = 196_608u32.to_be_bytes().to_vec();
        let settings = [("user", user), ("database", database), ("TimeZone", "PST8PDT"), ("DateStyle", "ISO, MDY")];
        for (name, value) in settings {
            body.extend_from_slice(name.as_bytes());
            body.push(0);
            body.extend_from_slice(value.as_bytes());
            body.push(0);
        }
        body.push(0);
        let mut message = u32::try_from(body.len() + 4).unwrap_or(0).to_be_bytes().to_vec();
        message.extend_from_slice(&body);
        client.write(&message)?;
        let answer = client.wait(&mut || None)?;
        match answer.error() {
            Some((code, message)) => Err(format!("{address}: {code} {message}")),
            None => Ok(client),
        }
    }

    /// Runs a text of one or more statements; `copy` gives the data of COPY … FROM STDIN, or `None` to give up.
    pub(super) fn query(&mut self, text: &str, copy: &mut CopyData<'_>) -> Result<Answer> {
        self.send(text)?;
        self.wait(copy)
    }

    /// Runs a text that has no COPY … FROM STDIN.
    pub(super) fn run(&mut self, text: &str) -> Result<Answer> {
        self.query(text, &mut || None)
    }

    /// The lines of a COPY … TO STDOUT.
    pub(crate) fn copied(&mut self, text: &str) -> Result<String> {
        let answer = self.run(text)?;
        match answer.parts.as_slice() {
            [Part::Copied { lines, .. }] => Ok(lines.concat()),
            _ => Err(format!("{}: {text}: {:?}", self.address, answer.error())),
        }
    }

    /// Sends a query without waiting for its answer; [`Client::poll`] receives it.
    pub(super) fn send(&mut self, text: &str) -> Result {
        self.pending = Some(Answer::default());
        (self.rows, self.lines) = (None, None);
        let mut body = text.as_bytes().to_vec();
        body.push(0);
        self.message(b'Q', &body)
    }

    /// Waits up to `patience` for the answer of what was sent; `None` when it is not complete by then.
    pub(super) fn poll(&mut self, patience: Duration, copy: &mut CopyData<'_>) -> Result<Option<Answer>> {
        let until = Instant::now() + patience;
        loop {
            while let Some((kind, body)) = self.buffered() {
                if self.take(kind, &body, copy)? {
                    return Ok(self.pending.take());
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.fill(left)?;
        }
    }

    /// Asks the server to stop what this connection runs.
    pub(super) fn cancel(&self) -> Result {
        let mut stream = TcpStream::connect(&self.address).map_err(|error| format!("{}: {error}", self.address))?;
        let words = [16, 80_877_102, self.key.0, self.key.1];
        let message: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        stream.write_all(&message).map_err(|error| format!("{}: {error}", self.address))
    }

    fn wait(&mut self, copy: &mut CopyData<'_>) -> Result<Answer> {
        if let Some(answer) = self.poll(PATIENCE, copy)? {
            return Ok(answer);
        }
        self.cancel()?;
        match self.poll(HUNG, copy)? {
            Some(answer) => Ok(Answer { cancelled: true, ..answer }),
            None => Err(format!("{}: no answer {} s after a cancel", self.address, HUNG.as_secs())),
        }
    }

    /// Takes one message into the pending answer; whether it ended the answer.
    fn take(&mut self, kind: u8, body: &[u8], copy: &mut CopyData<'_>) -> Result<bool> {
        match kind {
            b'T' => self.rows = Some((columns(body), Vec::new())),
            b'D' => {
                if let Some((_, rows)) = &mut self.rows {
                    rows.push(fields(body));
                }
            }
            b'H' => self.lines = Some(Vec::new()),
            b'd' => {
                if let Some(lines) = &mut self.lines {
                    lines.push(String::from_utf8_lossy(body).into_owned());
                }
            }
            b'C' => {
                let part = self.command(text(body));
                self.part(part);
            }
            b'I' => self.part(Part::Done { tag: String::new() }),
            b'E' => {
                (self.rows, self.lines) = (None, None);
                self.part(failure(body));
            }
            b'G' => self.copy_in(copy)?,
            b'K' => self.key = (number(body, 0), number(body, 4)),
            b'R' if number(body, 0) != 0 => return Err(format!("{}: asks for a password", self.address)),
            b'Z' => {
                self.status = body.first().copied().unwrap_or(b'I');
                return Ok(true);
            }
            // Notices, parameters and notifications are not compared.
            _ => {}
        }
        Ok(false)
    }

    fn command(&mut self, tag: String) -> Part {
        match (self.rows.take(), self.lines.take()) {
            (Some((columns, rows)), _) => Part::Rows { columns, rows, tag },
            (None, Some(lines)) => Part::Copied { lines, tag },
            (None, None) => Part::Done { tag },
        }
    }

    fn part(&mut self, part: Part) {
        if let Some(answer) = &mut self.pending {
            answer.parts.push(part);
        }
    }

    fn copy_in(&mut self, copy: &mut CopyData<'_>) -> Result {
        match copy() {
            Some(data) => {
                self.message(b'd', data.as_bytes())?;
                self.message(b'c', &[])
            }
            None => self.message(b'f', b"no data\0"),
        }
    }

    fn message(&mut self, kind: u8, body: &[u8]) -> Result {
        let mut message = vec![kind];
        message.extend_from_slice(&u32::try_from(body.len() + 4).unwrap_or(0).to_be_bytes());
        message.extend_from_slice(body);
        self.write(&message)
    }

    fn write(&mut self, bytes: &[u8]) -> Result {
        self.stream.write_all(bytes).map_err(|error| format!("{}: {error}", self.address))
    }

    /// Takes a whole message out of the input.
    fn buffered(&mut self) -> Option<(u8, Vec<u8>)> {
        let length = number(self.input.get(1..5)?, 0) as usize;
        let body = self.input.get(5..=length)?.to_vec();
        let kind = self.input[0];
        self.input.drain(..=length);
        Some((kind, body))
    }

    fn fill(&mut self, patience: Duration) -> Result {
        let patience = patience.max(Duration::from_millis(1));
        self.stream.set_read_timeout(Some(patience)).map_err(|error| format!("{}: {error}", self.address))?;
        let mut bytes = [0; 65_536];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err(format!("{}: the server closed the connection", self.address)),
            Ok(n) => {
                self.input.extend_from_slice(&bytes[..n]);
                Ok(())
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(()),
            Err(error) => Err(format!("{}: {error}", self.address)),
        }
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes)
}

fn short(bytes: &[u8], at: usize) -> usize {
    bytes.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).map_or(0, |bytes| u16::from_be_bytes(bytes).into())
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn columns(body: &[u8]) -> Vec<Column> {
    let mut at = 2;
    (0..short(body, 0))
        .map(|_| {
            let name = text(body.get(at..).unwrap_or_default());
            // The name's end, then table (4), attribute (2), type (4), length (2), modifier (4), format (2).
            at += name.len() + 1;
            let oid = number(body, at + 6);
            at += 18;
            Column { name, oid }
        })
        .collect()
}

fn fields(body: &[u8]) -> Row {
    let mut at = 2;
    (0..short(body, 0))
        .map(|_| {
            let length = number(body, at);
            at += 4;
            if length == u32::MAX {
                return None;
            }
            let field = body.get(at..at + length as usize).unwrap_or_default();
            at += length as usize;
            Some(String::from_utf8_lossy(field).into_owned())
        })
        .collect()
}

fn failure(body: &[u8]) -> Part {
    let (mut code, mut message) = (String::new(), String::new());
    for field in body.split(|&byte| byte == 0) {
        match field.split_first() {
            Some((b'C', value)) => code = String::from_utf8_lossy(value).into_owned(),
            Some((b'M', value)) => message = String::from_utf8_lossy(value).into_owned(),
            _ => {}
        }
    }
    Part::Failed { code, message }
}
