//! Messages as lines of JSON, bounded, over a socket.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// Longest wait for a peer to take what is written to it.
const WRITE_MAX: Duration = Duration::from_secs(60);

/// The writing half, usable from several threads.
pub(super) struct Writer {
    stream: Mutex<TcpStream>,
    /// For messages.
    peer: String,
}

/// The reading half.
pub(super) struct Reader {
    stream: BufReader<TcpStream>,
    peer: String,
}

/// Both halves of a connection.
pub(super) fn split(stream: TcpStream, peer: &str) -> Result<(Writer, Reader)> {
    let setup = |error: std::io::Error| Error::socket(peer, &error);
    // Round trips are measured over it.
    stream.set_nodelay(true).map_err(setup)?;
    stream.set_write_timeout(Some(WRITE_MAX)).map_err(setup)?;
    let reading = stream.try_clone().map_err(setup)?;
    let writer = Writer { stream: Mutex::new(stream), peer: peer.to_owned() };
    Ok((writer, Reader { stream: BufReader::new(reading), peer: peer.to_owned() }))
}

impl Writer {
    pub(super) fn send(&self, message: &impl Serialize) -> Result {
        let mut line = serde_json::to_vec(message)
            .map_err(|error| Error::protocol(format!("{}: a message cannot be written: {error}", self.peer)))?;
        line.push(b'\n');
        let mut stream = self.stream.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        stream.write_all(&line).map_err(|error| Error::socket(&self.peer, &error))
    }

    /// Ends the connection; the reader at the other end of this socket wakes up, too.
    pub(super) fn close(&self) {
        let stream = self.stream.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // It may be closed already: there is nothing to be done about that.
        let _ = stream.shutdown(Shutdown::Both);
    }
}

impl Reader {
    /// The next message.
    ///
    /// # Errors
    /// `Timeout`: nothing came for `silence`. `Connection`: it ended. `Protocol`: longer than `bytes_max`, or not one.
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
