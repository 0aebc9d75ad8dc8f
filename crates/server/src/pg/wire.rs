//! A connection's socket, with input and output buffers.
//!
//! Always true: `output` has whole messages; its first `sent` bytes are sent. A write can therefore
//! be abandoned at any await, and another message appended.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ::pg::frontend;
use bytes::{BufMut, BytesMut};
use engine::{MemoryBudget, Reservation, Work};
use model::{Error, Result, SqlState};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::rows::FLUSH_BYTES;

/// Minimum space for each read.
const READ_BYTES: usize = 16 << 10;
/// Output at which the responses of a batch are flushed before its end.
const BATCH_BYTES: usize = 8 << 10;
/// Buffer size to keep; a larger buffer is shrunk when it is empty.
const KEEP_BYTES: usize = 256 << 10;

/// Output up to this size is not reserved.
const LONG_BYTES: usize = 1 << 20;

/// Bytes of an incomplete message that a connection may buffer without a reservation.
const FREE_BYTES: usize = 64 << 10;

/// Memory budget of incomplete messages, over all connections.
pub(super) struct Budget {
    used: AtomicUsize,
    max: usize,
    /// The server's memory budget, which includes these messages.
    memory: MemoryBudget,
}

impl Budget {
    pub(super) fn new(max: usize, memory: MemoryBudget) -> Budget {
        Budget { used: AtomicUsize::new(0), max, memory }
    }
}

/// One connection's reservation.
struct Share {
    budget: Arc<Budget>,
    held: usize,
}

impl Share {
    /// Adjusts the reservation to `bytes` of input.
    fn hold(&mut self, bytes: usize) -> Result<(), Lost> {
        let wanted = bytes.saturating_sub(FREE_BYTES);
        if wanted <= self.held {
            self.budget.used.fetch_sub(self.held - wanted, Ordering::Relaxed);
            self.budget.memory.release(Work::Requests, (self.held - wanted) as u64);
        } else {
            let more = wanted - self.held;
            if self.budget.used.fetch_add(more, Ordering::Relaxed) + more > self.budget.max {
                self.budget.used.fetch_sub(more, Ordering::Relaxed);
                let max = self.budget.max;
                let error = Error::new(
                    SqlState::OUT_OF_MEMORY,
                    format!("incomplete messages exceed their memory limit of {max} bytes"),
                );
                return Err(Lost::Fatal(
                    error.with_hint("try again later, with smaller messages or fewer connections"),
                ));
            }
            if let Err(error) = self.budget.memory.reserve(Work::Requests, more as u64) {
                self.budget.used.fetch_sub(more, Ordering::Relaxed);
                return Err(Lost::Fatal(error));
            }
        }
        self.held = wanted;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.held, Ordering::Relaxed);
        self.budget.memory.release(Work::Requests, self.held as u64);
    }
}

/// Reason why a connection ends.
#[derive(Debug)]
pub(super) enum Lost {
    /// The client has disconnected, or the network failed.
    Gone,
    /// The client gets this error, then the connection ends.
    Fatal(Error),
}

impl From<io::Error> for Lost {
    fn from(_: io::Error) -> Lost {
        Lost::Gone
    }
}

/// A connection's socket and buffers.
pub(super) struct Wire {
    /// Reads tell the runtime when the socket is drained, without another system call.
    reader: OwnedReadHalf,
    writer: Arc<OwnedWriteHalf>,
    input: BytesMut,
    /// Messages to send. Append whole messages only.
    pub(super) output: Vec<u8>,
    /// More messages of a batch will follow, so `output` need not be flushed yet.
    pub(super) in_batch: bool,
    sent: usize,
    /// Memory of a long `output`.
    held: Reservation,
    share: Share,
}

impl Wire {
    pub(super) fn new(stream: TcpStream, budget: Arc<Budget>) -> Wire {
        let held = budget.memory.reservation(Work::Results);
        let share = Share { budget, held: 0 };
        let (reader, writer) = stream.into_split();
        Wire {
            reader,
            writer: Arc::new(writer),
            input: BytesMut::new(),
            output: Vec::new(),
            in_batch: false,
            sent: 0,
            held,
            share,
        }
    }

    /// The socket, to detect a disconnect while a statement runs.
    pub(super) fn socket(&self) -> Arc<OwnedWriteHalf> {
        Arc::clone(&self.writer)
    }

    /// Returns the next startup packet; `None` if the client disconnects before it.
    pub(super) async fn startup(&mut self) -> Result<Option<BytesMut>, Lost> {
        loop {
            if let Some(length) = frontend::startup_len(&self.input).map_err(Lost::Fatal)? {
                return Ok(Some(self.input.split_to(length)));
            }
            if !self.read().await? {
                return if self.input.is_empty() { Ok(None) } else { Err(Lost::Gone) };
            }
        }
    }

    /// Refuses an encryption request.
    ///
    /// Bytes received with the request are refused: they were meant for the encrypted stream, or
    /// were injected by an attacker.
    pub(super) async fn refuse_encryption(&mut self) -> Result<(), Lost> {
        if !self.input.is_empty() {
            let message = "received unencrypted data after a request for encryption";
            return Err(Lost::Fatal(Error::new(SqlState::PROTOCOL_VIOLATION, message)));
        }
        self.output.push(b'N');
        self.flush().await
    }

    /// Returns the next message, if it has been received completely.
    pub(super) fn message_read(&mut self) -> Result<Option<BytesMut>, Lost> {
        let length = frontend::frame_len(&self.input).map_err(Lost::Fatal)?;
        Ok(length.map(|length| self.input.split_to(length)))
    }

    /// Returns the next message. Flushes the output before it waits, except [in a
    /// batch](Wire::in_batch). Cancellation-safe.
    pub(super) async fn message(&mut self) -> Result<BytesMut, Lost> {
        loop {
            if let Some(message) = self.message_read()? {
                return Ok(message);
            }
            if !self.may_hold() {
                self.flush().await?;
            }
            if !self.read().await? {
                return Err(Lost::Gone);
            }
        }
    }

    /// Whether responses may be held back until the next messages are processed.
    pub(super) fn may_hold(&self) -> bool {
        self.in_batch && self.output.len() < BATCH_BYTES
    }

    /// Tag of the next message, if it has been received completely.
    pub(super) fn next_tag(&self) -> Option<u8> {
        matches!(frontend::frame_len(&self.input), Ok(Some(_))).then(|| self.input[0])
    }

    /// Reads at least one byte; false at the end of the stream.
    async fn read(&mut self) -> Result<bool, Lost> {
        // Reserve space for a large message early, but no more than is likely to arrive soon.
        let missing = frontend::frame_len_hint(&self.input).saturating_sub(self.input.len());
        let room = missing.clamp(READ_BYTES, 1 << 20);
        self.share.hold(self.input.len() + room)?;
        self.input.reserve(room);
        let room = self.input.chunk_mut().len().min(1 << 20);
        let count = self.reader.read_buf(&mut (&mut self.input).limit(room)).await?;
        Ok(count > 0)
    }

    /// Sends all output. Cancellation-safe.
    pub(super) async fn flush(&mut self) -> Result<(), Lost> {
        while !self.try_flush()? {
            self.writer.writable().await?;
        }
        Ok(())
    }

    /// Sends output without waiting; true if all is sent.
    pub(super) fn try_flush(&mut self) -> Result<bool, Lost> {
        while self.sent < self.output.len() {
            match self.writer.try_write(&self.output[self.sent..]) {
                Ok(0) => return Err(Lost::Gone),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        self.output.clear();
        self.sent = 0;
        if self.output.capacity() > KEEP_BYTES {
            self.output.shrink_to(FLUSH_BYTES);
        }
        self.held.shrink_to(0);
        Ok(true)
    }

    /// Reserves the memory of the output until it is sent, if it is long. To be called when rows were appended.
    ///
    /// # Errors
    /// 53200 if it does not fit; the output is then cut to its first `before` bytes.
    pub(super) fn hold_output(&mut self, before: usize) -> Result<()> {
        let bytes = self.long_output_bytes();
        self.held.resize(bytes).inspect_err(|_| {
            self.output.truncate(before);
            self.output.shrink_to(FLUSH_BYTES);
            let bytes = self.long_output_bytes();
            self.held.shrink_to(bytes);
        })
    }

    /// Like [`Wire::hold_output`], even beyond the limit.
    pub(super) fn count_output(&mut self) {
        let bytes = self.long_output_bytes();
        self.held.count(bytes);
    }

    /// Memory of the output; 0 if it is short.
    fn long_output_bytes(&mut self) -> u64 {
        if self.output.capacity() > LONG_BYTES.max(self.output.len() / 4 * 5) {
            // A buffer that grew row by row has up to twice the memory of its rows.
            self.output.shrink_to_fit();
        }
        if self.output.capacity() > LONG_BYTES { self.output.capacity() as u64 } else { 0 }
    }

    /// Appends messages, without a copy if they are the only ones.
    pub(super) fn append(&mut self, messages: &mut Vec<u8>) {
        if self.output.is_empty() {
            std::mem::swap(&mut self.output, messages);
        } else {
            self.output.append(messages);
        }
    }

    /// Flushes if there is enough output for a large write.
    pub(super) async fn flush_if_full(&mut self) -> Result<(), Lost> {
        if self.output.len() >= FLUSH_BYTES { self.flush().await } else { Ok(()) }
    }

    /// Closes the connection gracefully, so that the client can read the last message: closing a
    /// socket with unread input makes the system discard sent data.
    pub(super) async fn close(&mut self) {
        if self.flush().await.is_err() {
            return;
        }
        let _ = socket2::SockRef::from(self.reader.as_ref()).shutdown(std::net::Shutdown::Write);
        let drain = async {
            let mut seen = 0;
            while seen < 1 << 20 {
                self.input.clear();
                match self.read().await {
                    Ok(true) => seen += self.input.len(),
                    _ => break,
                }
            }
        };
        let _ = tokio::time::timeout(std::time::Duration::from_millis(500), drain).await;
    }
}
