//! A synchronous keep-alive connection of HTTP/1.1.
//!
//! Not a general HTTP client, because its work is in the timed part of every write: a request is
//! one `writev` of the head and the caller's buffer, without copying the body, and the answer is
//! read into a reused buffer.
//!
//! Always true:
//! - A request is never repeated automatically: after a broken connection its effect is unknown,
//!   which the caller's ledger must record. An idle connection that the server has closed is
//!   noticed *before* a request, and replaced.
//! - Received data is bounded by [`HEAD_BYTES_MAX`] and [`BODY_BYTES_MAX`]; malformed data is a
//!   `Protocol` error, after which the connection is dropped.
//! - A request ends by its time-out even if the server sends a byte now and then (at worst after
//!   twice the time-out).
//!
//! Not here: TLS, compression (on one machine it would cost more than the loopback), redirects,
//! cookies. Source: RFC 9112.

use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use super::Target;
use super::digits::push_u64;
use super::socket::connect;
use crate::error::{Class, Error, Result};

/// Longest line and longest head.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Longest body of an answer.
const BODY_BYTES_MAX: usize = 1 << 30;
/// The body's buffer grows by at most this much before its bytes have arrived, whatever length was
/// announced.
const BODY_STEP_BYTES: usize = 1 << 20;
/// Longest excerpt of a server's message in an error, in characters.
const EXCERPT_CHARS_MAX: usize = 400;
/// Header line of requests that accept every media type, the default.
const ACCEPT_ALL: &[u8] = b"Accept: */*\r\n";
/// Time-out of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection to one server. Connects on first use, and again after it broke.
pub(crate) struct Http {
    address: String,
    network_of: Option<u32>,
    /// Header lines of every request, starting with `Host`.
    headers: Vec<u8>,
    link: Option<Link>,
    head: Vec<u8>,
    body: Vec<u8>,
}

impl Http {
    /// Creates a connection to `address` (`host:port`) without opening it. `network_of`: see
    /// [`connect`].
    pub(crate) fn new(address: String, network_of: Option<u32>) -> Http {
        let headers = format!("Host: {address}\r\nUser-Agent: millrace-bench\r\nAccept: */*\r\n").into_bytes();
        Http { address, network_of, headers, link: None, head: Vec::new(), body: Vec::new() }
    }

    /// Creates a connection of client `client` to `target`, with the target's login if it has one.
    pub(crate) fn to(target: &Target, client: usize, port: u16) -> Result<Http> {
        let mut http = Http::new(target.address(client, port)?, target.network_of);
        if let Some(user) = &target.user {
            http.basic_authorization(user, target.password.as_deref().unwrap_or(""))?;
        }
        Ok(http)
    }

    /// Adds a header to all requests.
    pub(crate) fn header(&mut self, name: &str, value: &str) -> Result<()> {
        if value.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return Err(Error::setup(format!("HTTP header {name}: its value has control characters")));
        }
        self.headers.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        Ok(())
    }

    /// Adds `Authorization: Basic …` to all requests.
    pub(crate) fn basic_authorization(&mut self, user: &str, password: &str) -> Result<()> {
        self.header("Authorization", &format!("Basic {}", base64(format!("{user}:{password}").as_bytes())))
    }

    /// Connects now, so that a wrong address is found before the measurement.
    pub(crate) fn open(&mut self) -> Result<()> {
        if self.link.is_none() {
            self.link = Some(Link::new(connect(&self.address, self.network_of, CONNECT_TIMEOUT)?));
        }
        Ok(())
    }

    /// Sends a GET of `target` (encoded path and query). Fails unless the status is 2xx;
    /// [`Http::body`] has the answer.
    pub(crate) fn get(&mut self, target: &str, timeout: Duration) -> Result<()> {
        let status = self.exchange("GET", target, "", &[], timeout)?;
        self.accepted("GET", target, status)
    }

    /// Sends a POST of `body`. Fails unless the status is 2xx; [`Http::body`] has the answer.
    pub(crate) fn post(&mut self, target: &str, content_type: &str, body: &[u8], timeout: Duration) -> Result<()> {
        let status = self.exchange("POST", target, content_type, body, timeout)?;
        self.accepted("POST", target, status)
    }

    /// Sends a DELETE of `target`. Fails unless the status is 2xx or 404.
    pub(crate) fn delete(&mut self, target: &str, timeout: Duration) -> Result<()> {
        match self.exchange("DELETE", target, "", &[], timeout)? {
            404 => Ok(()),
            status => self.accepted("DELETE", target, status),
        }
    }

    /// Sets the media type that requests accept, instead of all.
    pub(crate) fn accept(&mut self, media_type: &str) -> Result<()> {
        if let Some(at) = memchr::memmem::find(&self.headers, ACCEPT_ALL) {
            self.headers.drain(at..at + ACCEPT_ALL.len());
        }
        self.header("Accept", media_type)
    }

    /// Exchanges the buffer of the last answer's body for another one, which the next answer
    /// replaces.
    pub(crate) fn swap_body(&mut self, other: &mut Vec<u8>) {
        std::mem::swap(&mut self.body, other);
    }

    /// Body of the last answer.
    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    /// Body of the last answer as text; invalid UTF-8 is replaced.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Sends a request, reads the complete answer, and returns its status.
    ///
    /// - `target`: path and query without spaces and control characters (see [`push_encoded`]).
    ///
    /// # Cost
    /// 3 system calls for a small answer (idle check, write, read); no allocation once warm.
    pub(crate) fn exchange(
        &mut self,
        method: &str,
        target: &str,
        content_type: &str,
        body: &[u8],
        timeout: Duration,
    ) -> Result<u16> {
        assert!(!target.bytes().any(|byte| byte <= b' '), "BUG: request target not encoded: {target:?}");
        if self.link.as_ref().is_some_and(|link| !link.is_idle()) {
            self.link = None;
        }
        self.open()?;
        self.write_head(method, target, content_type, body.len());
        self.body.clear();
        // Moved out of `self` during the exchange: an early return then drops the connection, whose
        // state is unknown.
        let mut link = self.link.take().ok_or_else(|| Error::setup("BUG: not connected"))?;
        let outcome = link.start(timeout).and_then(|()| link.exchange(method, &self.head, body, &mut self.body));
        let (status, keep) =
            outcome.map_err(|error| error.during(format_args!("{} {method} {target}", self.address)))?;
        self.link = keep.then_some(link);
        Ok(status)
    }

    fn write_head(&mut self, method: &str, target: &str, content_type: &str, length: usize) {
        let head = &mut self.head;
        head.clear();
        for piece in [method, " ", target, " HTTP/1.1\r\n"] {
            head.extend_from_slice(piece.as_bytes());
        }
        head.extend_from_slice(&self.headers);
        if !content_type.is_empty() {
            head.extend_from_slice(b"Content-Type: ");
            head.extend_from_slice(content_type.as_bytes());
            head.extend_from_slice(b"\r\n");
        }
        if method != "GET" {
            head.extend_from_slice(b"Content-Length: ");
            push_u64(length as u64, head);
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"\r\n");
    }

    fn accepted(&self, method: &str, target: &str, status: u16) -> Result<()> {
        if (200..300).contains(&status) {
            return Ok(());
        }
        let message = excerpt(&self.body);
        let path = target.split('?').next().unwrap_or(target);
        Err(Error::new(
            class_of(status, &message),
            format!("{} {method} {path}: HTTP {status}: {message}", self.address),
        ))
    }
}

/// Error class of a status that is not 2xx.
pub(crate) fn class_of(status: u16, message: &str) -> Class {
    if status == 507 || reports_disk_full(message) {
        return Class::DiskFull;
    }
    match status {
        429 | 503 => Class::Overloaded,
        500..=599 => Class::Server,
        400..=499 => Class::Refused,
        _ => Class::Protocol,
    }
}

/// Whether a product's error message reports a full disk.
pub(crate) fn reports_disk_full(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    ["no space left", "disk full", "disk is full", "not enough free disk space"]
        .iter()
        .any(|words| message.contains(words))
}

/// The start of a server's message, as one printable line for errors.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * EXCERPT_CHARS_MAX)]);
    let text = text.trim().chars().take(EXCERPT_CHARS_MAX);
    text.map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// Appends `text` percent-encoded for a query string or a form.
pub(crate) fn push_encoded(text: &str, out: &mut String) {
    use std::fmt::Write;
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

/// Encodes pairs as `key=value&…`.
pub(crate) fn form(pairs: &[(&str, &str)]) -> String {
    let mut out = String::new();
    for (key, value) in pairs {
        if !out.is_empty() {
            out.push('&');
        }
        out.push_str(key);
        out.push('=');
        push_encoded(value, &mut out);
    }
    out
}

/// Content type of a [`form`].
pub(crate) const FORM: &str = "application/x-www-form-urlencoded";

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for at in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * at) & 63) as usize];
            out.push(if at <= three.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

/// A connected socket with its input buffer.
struct Link {
    stream: TcpStream,
    input: Box<[u8]>,
    start: usize,
    end: usize,
    /// Current time-out of the socket, to avoid setting it again.
    timeout: Duration,
    deadline: Instant,
}

/// End of an answer's body.
enum BodyEnd {
    Length(u64),
    Chunks,
    Close,
}

impl Link {
    fn new(stream: TcpStream) -> Link {
        let input = vec![0; HEAD_BYTES_MAX].into_boxed_slice();
        Link { stream, input, start: 0, end: 0, timeout: Duration::ZERO, deadline: Instant::now() }
    }

    /// Whether the connection is open and has no unread input. Unexpected bytes, or the end of the
    /// stream, mean that the server has given it up.
    fn is_idle(&self) -> bool {
        let mut byte = 0u8;
        let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
        // SAFETY: the buffer is one byte of this frame, and the descriptor is open.
        let got = unsafe { libc::recv(self.stream.as_raw_fd(), (&raw mut byte).cast(), 1, flags) };
        got < 0 && std::io::Error::last_os_error().kind() == ErrorKind::WouldBlock
    }

    fn start(&mut self, timeout: Duration) -> Result<()> {
        if self.timeout != timeout {
            let set = self.stream.set_read_timeout(Some(timeout));
            set.and_then(|()| self.stream.set_write_timeout(Some(timeout))).map_err(|error| failed(&error))?;
            self.timeout = timeout;
        }
        self.deadline = Instant::now() + timeout;
        Ok(())
    }

    /// Returns the status, and whether the connection can be used again.
    fn exchange(&mut self, method: &str, head: &[u8], body: &[u8], answer: &mut Vec<u8>) -> Result<(u16, bool)> {
        match self.send(head, body) {
            Ok(()) => self.receive(method, answer),
            // A server that refuses a request may answer and close before it has read the body: its
            // answer has the reason.
            Err(error) if error.class == Class::Connection => match self.receive(method, answer) {
                Ok((status, _)) if status >= 300 => Ok((status, false)),
                _ => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    fn send(&mut self, head: &[u8], body: &[u8]) -> Result<()> {
        let mut sent = 0;
        while sent < head.len() + body.len() {
            let head_left = &head[sent.min(head.len())..];
            let body_left = &body[sent.saturating_sub(head.len())..];
            match self.stream.write_vectored(&[IoSlice::new(head_left), IoSlice::new(body_left)]) {
                Ok(0) => return Err(Error::new(Class::Connection, "the connection accepts no more bytes")),
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(&error)),
            }
            self.check_deadline()?;
        }
        Ok(())
    }

    fn receive(&mut self, method: &str, answer: &mut Vec<u8>) -> Result<(u16, bool)> {
        loop {
            let (status, keep, body_end) = self.answer_head()?;
            if (100..200).contains(&status) && status != 101 {
                // An interim answer; the final one follows.
                continue;
            }
            match body_end {
                _ if method == "HEAD" || status == 204 || status == 304 => {}
                BodyEnd::Length(length) => self.read_exact(length, answer)?,
                BodyEnd::Chunks => self.read_chunks(answer)?,
                BodyEnd::Close => self.read_to_end(answer)?,
            }
            // Surplus bytes mean that both sides disagree about the end of the answer: the
            // connection is dropped.
            return Ok((status, keep && self.start == self.end));
        }
    }

    fn answer_head(&mut self) -> Result<(u16, bool, BodyEnd)> {
        let first = self.line()?;
        let (status, persistent) = status_line(first)
            .ok_or_else(|| Error::protocol(format!("expected a status line of HTTP/1, got {:?}", excerpt(first))))?;
        let mut keep = persistent;
        let mut body_end = BodyEnd::Close;
        let mut bytes = 0;
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            bytes += line.len();
            if bytes > HEAD_BYTES_MAX {
                return Err(Error::protocol(format!("an answer's head is longer than {HEAD_BYTES_MAX} bytes")));
            }
            header_line(line, &mut keep, &mut body_end)?;
        }
        keep &= !matches!(body_end, BodyEnd::Close) || status == 204 || status == 304;
        Ok((status, keep, body_end))
    }

    /// The next line without its end.
    fn line(&mut self) -> Result<&[u8]> {
        let mut searched = 0;
        loop {
            let unread = &self.input[self.start..self.end];
            if let Some(at) = unread[searched..].iter().position(|byte| *byte == b'\n') {
                let from = self.start;
                self.start += searched + at + 1;
                let line = &self.input[from..self.start - 1];
                return Ok(line.strip_suffix(b"\r").unwrap_or(line));
            }
            searched = unread.len();
            if searched == self.input.len() {
                return Err(Error::protocol(format!("a line is longer than {HEAD_BYTES_MAX} bytes")));
            }
            self.fill_or_fail()?;
        }
    }

    fn read_exact(&mut self, length: u64, answer: &mut Vec<u8>) -> Result<()> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > BODY_BYTES_MAX - answer.len() {
            return Err(Error::protocol(format!("an answer is longer than {BODY_BYTES_MAX} bytes")));
        }
        let mut left = length;
        let buffered = left.min(self.end - self.start);
        answer.extend_from_slice(&self.input[self.start..self.start + buffered]);
        self.start += buffered;
        left -= buffered;
        while left > 0 {
            let from = answer.len();
            answer.resize(from + left.min(BODY_STEP_BYTES), 0);
            let got = self.read_into(&mut answer[from..]);
            answer.truncate(from + *got.as_ref().unwrap_or(&0));
            left -= got?;
        }
        Ok(())
    }

    fn read_chunks(&mut self, answer: &mut Vec<u8>) -> Result<()> {
        loop {
            let line = self.line()?;
            let digits = line.split(|byte| *byte == b';').next().unwrap_or(line).trim_ascii();
            let size = std::str::from_utf8(digits).ok().and_then(|digits| u64::from_str_radix(digits, 16).ok());
            let size =
                size.ok_or_else(|| Error::protocol(format!("expected a chunk's length, got {:?}", excerpt(line))))?;
            if size == 0 {
                // Skips trailers up to the empty line.
                while !self.line()?.is_empty() {}
                return Ok(());
            }
            self.read_exact(size, answer)?;
            let end = self.line()?;
            if !end.is_empty() {
                return Err(Error::protocol(format!("expected the end of a chunk, got {:?}", excerpt(end))));
            }
        }
    }

    fn read_to_end(&mut self, answer: &mut Vec<u8>) -> Result<()> {
        loop {
            self.read_exact((self.end - self.start) as u64, answer)?;
            if self.fill()? == 0 {
                return Ok(());
            }
        }
    }

    fn fill_or_fail(&mut self) -> Result<()> {
        match self.fill()? {
            0 => Err(closed()),
            _ => Ok(()),
        }
    }

    /// Reads more into `input`; returns 0 at the end of the stream.
    fn fill(&mut self) -> Result<usize> {
        self.input.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        loop {
            match self.stream.read(&mut self.input[self.end..]) {
                Ok(count) => {
                    self.end += count;
                    self.check_deadline()?;
                    return Ok(count);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(&error)),
            }
        }
    }

    /// Reads at least one byte into `out`.
    fn read_into(&mut self, out: &mut [u8]) -> Result<usize> {
        loop {
            match self.stream.read(out) {
                Ok(0) => return Err(closed()),
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
        if Instant::now() < self.deadline {
            return Ok(());
        }
        Err(Error::new(Class::Timeout, format!("no complete answer within {} ms", self.timeout.as_millis())))
    }
}

fn failed(error: &std::io::Error) -> Error {
    match Error::socket("", error).class {
        Class::Timeout => Error::new(Class::Timeout, "no answer in time"),
        class => Error::new(class, error.to_string()),
    }
}

fn closed() -> Error {
    Error::new(Class::Connection, "the server closed the connection before its answer was complete")
}

/// Parses status, and whether connections persist by default (HTTP/1.1).
fn status_line(line: &[u8]) -> Option<(u16, bool)> {
    let line = std::str::from_utf8(line.get(..12)?).ok()?;
    let (version, status) = line.split_once(' ')?;
    let persistent = match version {
        "HTTP/1.1" => true,
        "HTTP/1.0" => false,
        _ => return None,
    };
    let status = status.parse::<u16>().ok().filter(|status| (100..600).contains(status))?;
    Some((status, persistent))
}

fn header_line(line: &[u8], keep: &mut bool, body_end: &mut BodyEnd) -> Result<()> {
    let malformed = || Error::protocol(format!("expected a header, got {:?}", excerpt(line)));
    let colon = line.iter().position(|byte| *byte == b':').ok_or_else(malformed)?;
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    if name.eq_ignore_ascii_case(b"content-length") {
        let length =
            std::str::from_utf8(value).ok().and_then(|digits| digits.parse::<u64>().ok()).ok_or_else(malformed)?;
        // Chunked encoding overrides a length, RFC 9112 §6.3.
        if !matches!(body_end, BodyEnd::Chunks) {
            *body_end = BodyEnd::Length(length);
        }
    } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
        if !value.eq_ignore_ascii_case(b"chunked") {
            return Err(Error::protocol(format!("transfer coding {:?}: expected chunked", excerpt(value))));
        }
        *body_end = BodyEnd::Chunks;
    } else if name.eq_ignore_ascii_case(b"connection") {
        for token in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            if token.eq_ignore_ascii_case(b"close") {
                *keep = false;
            } else if token.eq_ignore_ascii_case(b"keep-alive") {
                *keep = true;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
