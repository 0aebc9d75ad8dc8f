//! Framing: one JSON message per line, of bounded length, over a TCP connection.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// Longest time that a write to the peer may block.
const WRITE_MAX: Duration = Duration::from_secs(60);

/// Sending half of a connection; usable from several threads.
pub(super) struct Writer {
    stream: Mutex<TcpStream>,
    /// Name of the peer in error messages.
    peer: String,
}

/// Receiving half of a connection.
pub(super) struct Reader {
    stream: BufReader<TcpStream>,
    peer: String,
}

/// Splits a connection into its two halves. `peer` names the other end in error messages.
pub(super) fn split(stream: TcpStream, peer: &str) -> Result<(Writer, Reader)> {
    let setup = |error: std::io::Error| Error::socket(peer, &error);
    // Round trips are measured on this connection: Nagle's algorithm would delay them.
    stream.set_nodelay(true).map_err(setup)?;
    stream.set_write_timeout(Some(WRITE_MAX)).map_err(setup)?;
    let reading = stream.try_clone().map_err(setup)?;
    let writer = Writer { stream: Mutex::new(stream), peer: peer.to_owned() };
    Ok((writer, Reader { stream: BufReader::new(reading), peer: peer.to_owned() }))
}

impl Writer {
    pub(super) fn send(&self, message: &impl Serialize) -> Result {
        let mut line = serde_json::to_vec(message)
            .map_err(|error| Error::protocol(format!("{}: cannot encode a message: {error}", self.peer)))?;
        line.push(b'\n');
        let mut stream = self.stream.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        stream.write_all(&line).map_err(|error| Error::socket(&self.peer, &error))
    }

    /// Closes both directions, which also ends a blocked read of the receiving half.
    pub(super) fn close(&self) {
        let stream = self.stream.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // The connection may be closed already.
        let _ = stream.shutdown(Shutdown::Both);
    }
}

impl Reader {
    /// Receives the next message.
    ///
    /// # Errors
    /// - `Timeout`: no message within `silence`.
    /// - `Connection`: the peer closed the connection.
    /// - `Protocol`: the message is longer than `bytes_max` or is not of type `T`.
    pub(super) fn next<T: DeserializeOwned>(&mut self, bytes_max: usize, silence: Duration) -> Result<T> {
        self.stream.get_ref().set_read_timeout(Some(silence)).map_err(|error| Error::socket(&self.peer, &error))?;
        let mut line = Vec::new();
        loop {
            let available = match self.stream.fill_buf() {
                Ok([]) => return Err(Error::socket(&self.peer, &ErrorKind::UnexpectedEof.into())),
                Ok(available) => available,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(Error::socket(&self.peer, &error)),
            };
            let end = available.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(available.len(), |end| end + 1);
            line.extend_from_slice(&available[..end.unwrap_or(taken)]);
            self.stream.consume(taken);
            if line.len() > bytes_max {
                return Err(Error::protocol(format!("{}: a message of more than {bytes_max} bytes", self.peer)));
            }
            if end.is_some() {
                return serde_json::from_slice(&line).map_err(|error| {
                    let start = String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
                    Error::protocol(format!("{}: expected a message, seen {start:?}: {error}", self.peer))
                });
            }
        }
    }
}
