//! Parts of every connection: how it is opened, its read buffer, and the watch for silence.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use tokio::net::{TcpStream, UdpSocket};
use tokio::time::{Instant, timeout};

/// Size of a new read buffer. It doubles when a read fills it, up to [`READ_BYTES_MAX`], and further only for larger messages.
const READ_BYTES_MIN: usize = 4 << 10;
const READ_BYTES_MAX: usize = 64 << 10;

/// Time after which flow control, dropped samples and returned channels are looked at again.
pub(crate) const CHECK_PERIOD: Duration = Duration::from_millis(250);
/// A circuit without channels is kept for so long.
pub(crate) const LINGER: Duration = Duration::from_secs(5);
/// A circuit that ends sooner after its first channel was opened counts as failed, so that a server that keeps closing its circuits
/// is reconnected to ever more seldom.
pub(crate) const STABLE_AFTER: Duration = Duration::from_secs(10);
/// Limit of bytes that wait for the server: it has stopped reading. Requests for 10^5 channels are a quarter of it.
pub(crate) const OUT_BYTES_MAX: usize = 64 << 20;

/// Buffer of a socket for searches, so that answers to a burst of searches are not lost.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// A socket for searches. It is bound to the loopback address when it needs no other.
pub(crate) fn bind(addresses: &[SocketAddrV4]) -> io::Result<UdpSocket> {
    let local = addresses.iter().all(|address| address.ip().is_loopback());
    let ip = if local { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
    let socket = std::net::UdpSocket::bind(SocketAddrV4::new(ip, 0))?;
    socket.set_nonblocking(true)?;
    socket.set_broadcast(true)?;
    let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(RECEIVE_BUFFER_BYTES);
    UdpSocket::from_std(socket)
}

/// Opens a TCP connection.
pub(crate) async fn connect(address: SocketAddrV4, within: Duration) -> io::Result<TcpStream> {
    let stream = timeout(within, TcpStream::connect(address)).await??;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// The silence of a server, and its consequences.
///
/// An echo is sent after half the timeout, at most 15 s, and the circuit is lost after the whole timeout. After a sign of a restart
/// an echo is sent at once, and the circuit is lost after 5 s.
pub(crate) struct Silence {
    timeout: Duration,
    heard: Instant,
    echo_sent: Option<Instant>,
    /// A probe was asked for since the server was heard.
    probing: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Wait,
    Echo,
    GiveUp,
}

const ECHO_AFTER_MAX: Duration = Duration::from_secs(15);
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

impl Silence {
    pub(crate) fn new(timeout: Duration) -> Silence {
        Silence { timeout, heard: Instant::now(), echo_sent: None, probing: false }
    }

    pub(crate) fn heard(&mut self, now: Instant) {
        self.heard = now;
        self.echo_sent = None;
        self.probing = false;
    }

    pub(crate) fn probe(&mut self) {
        self.probing = true;
    }

    pub(crate) fn step(&mut self, now: Instant) -> Step {
        if now < self.due() {
            return Step::Wait;
        }
        if self.echo_sent.is_some() {
            return Step::GiveUp;
        }
        self.echo_sent = Some(now);
        Step::Echo
    }

    pub(crate) fn due(&self) -> Instant {
        let lost = self.heard + self.timeout;
        match self.echo_sent {
            Some(sent) if self.probing => lost.min(sent + PROBE_TIMEOUT),
            Some(_) => lost,
            None if self.probing => self.heard,
            None => self.heard + (self.timeout / 2).min(ECHO_AFTER_MAX),
        }
    }
}

/// Bytes that were read and not yet handled.
pub(crate) struct ReadBuffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes still to come that belong to a message that was skipped.
    skip: u64,
}

impl ReadBuffer {
    pub(crate) fn new() -> ReadBuffer {
        ReadBuffer { bytes: vec![0; READ_BYTES_MIN], start: 0, end: 0, skip: 0 }
    }

    /// Room for the next read; never empty.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        &mut self.bytes[self.end..]
    }

    pub(crate) fn filled(&mut self, bytes: usize) {
        self.end += bytes;
        let skip = std::mem::take(&mut self.skip);
        self.consume(skip);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Removes the first `bytes` bytes, those too that are still to come.
    pub(crate) fn consume(&mut self, bytes: u64) {
        let here = bytes.min((self.end - self.start) as u64);
        self.start += here as usize;
        self.skip += bytes - here;
    }

    /// Makes room for a message of `message_bytes`. Grows at most to twice the bytes that have arrived, or [`READ_BYTES_MAX`].
    pub(crate) fn make_room(&mut self, message_bytes: usize) {
        let was_full = self.end == self.bytes.len();
        self.bytes.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let capacity = self.bytes.len();
        if self.end == 0 && capacity > READ_BYTES_MAX {
            self.bytes = vec![0; READ_BYTES_MAX];
        } else if message_bytes > capacity {
            self.bytes.resize(message_bytes.min((2 * capacity).max(READ_BYTES_MAX)), 0);
        } else if was_full && capacity < READ_BYTES_MAX {
            self.bytes.resize(2 * capacity, 0);
        }
    }
}
