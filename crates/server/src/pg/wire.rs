//! The socket with its two buffers.
//!
//! Always true: `output` holds whole messages, of which the first `sent` bytes are gone; so a write can be abandoned at any
//! await and another message appended.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ::pg::frontend;
use bytes::{BufMut, BytesMut};
use engine::{MemoryBudget, Work};
use model::{Error, Result, SqlState};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::rows::FLUSH_BYTES;

/// Room made for each read.
const READ_BYTES: usize = 16 << 10;
/// Answers of a batch are sent before its end when there are so many bytes of them.
const BATCH_BYTES: usize = 8 << 10;
/// Buffers that grew beyond this are given back when they are empty.
const KEEP_BYTES: usize = 256 << 10;

/// What a connection may hold of an unfinished message without asking.
const FREE_BYTES: usize = 64 << 10;

/// Memory of the messages that have not arrived whole, over all connections.
pub(super) struct Budget {
    used: AtomicUsize,
    max: usize,
    /// Of everything; what messages take is a part of it.
    memory: MemoryBudget,
}

impl Budget {
    pub(super) fn new(max: usize, memory: MemoryBudget) -> Budget {
        Budget { used: AtomicUsize::new(0), max, memory }
    }
}

/// One connection's part of it.
struct Share {
    budget: Arc<Budget>,
    held: usize,
}

impl Share {
    /// Holds as much as `bytes` need, from now on.
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
                    format!("messages that have not arrived whole take all of their {max} bytes of memory"),
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

/// Why a connection cannot go on.
#[derive(Debug)]
pub(super) enum Lost {
    /// The client is gone, or the network.
    Gone,
    /// The client must be told, then the connection ends.
    Fatal(Error),
}

impl From<io::Error> for Lost {
    fn from(_: io::Error) -> Lost {
        Lost::Gone
    }
}

/// A connection's socket and buffers.
pub(super) struct Wire {
    /// Reading through it tells the runtime when there is nothing more for now, without asking the system again.
    reader: OwnedReadHalf,
    writer: Arc<OwnedWriteHalf>,
    input: BytesMut,
    /// Messages to send. Append whole messages only.
    pub(super) output: Vec<u8>,
    /// More messages of a batch are to come, so that what is in `output` may wait for their answers.
    pub(super) in_batch: bool,
    sent: usize,
    share: Share,
}

impl Wire {
    pub(super) fn new(stream: TcpStream, budget: Arc<Budget>) -> Wire {
        let share = Share { budget, held: 0 };
        let (reader, writer) = stream.into_split();
        Wire {
            reader,
            writer: Arc::new(writer),
            input: BytesMut::new(),
            output: Vec::new(),
            in_batch: false,
            sent: 0,
            share,
        }
    }

    /// The socket, to watch while a statement runs.
    pub(super) fn socket(&self) -> Arc<OwnedWriteHalf> {
        Arc::clone(&self.writer)
    }

    /// The next startup packet; `None` when the client left before sending one.
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

    /// Answers a request for encryption with its single byte.
    ///
    /// Bytes that came with the request would have been meant for the encrypted stream, or were put there by someone between.
    pub(super) async fn refuse_encryption(&mut self) -> Result<(), Lost> {
        if !self.input.is_empty() {
            let message = "received unencrypted data after a request for encryption";
            return Err(Lost::Fatal(Error::new(SqlState::PROTOCOL_VIOLATION, message)));
        }
        self.output.push(b'N');
        self.flush().await
    }

    /// The next message, if all of it has been read already.
    pub(super) fn message_read(&mut self) -> Result<Option<BytesMut>, Lost> {
        let length = frontend::frame_len(&self.input).map_err(Lost::Fatal)?;
        Ok(length.map(|length| self.input.split_to(length)))
    }

    /// The next message; before waiting for it, everything buffered is sent, except [in a batch](Wire::in_batch). Can be abandoned at any
    /// await.
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

    /// May answers wait for those of the next messages?
    pub(super) fn may_hold(&self) -> bool {
        self.in_batch && self.output.len() < BATCH_BYTES
    }

    /// The tag of the next message, if all of it has been read already.
    pub(super) fn next_tag(&self) -> Option<u8> {
        matches!(frontend::frame_len(&self.input), Ok(Some(_))).then(|| self.input[0])
    }

    /// Reads what there is, at least one byte; false at the end of the stream.
    async fn read(&mut self) -> Result<bool, Lost> {
        // A message announced as large gets its room at once, but no more than has a chance to arrive soon.
        let missing = frontend::frame_len_hint(&self.input).saturating_sub(self.input.len());
        let room = missing.clamp(READ_BYTES, 1 << 20);
        self.share.hold(self.input.len() + room)?;
        self.input.reserve(room);
        let room = self.input.chunk_mut().len().min(1 << 20);
        let count = self.reader.read_buf(&mut (&mut self.input).limit(room)).await?;
        Ok(count > 0)
    }

    /// Sends everything buffered. Can be abandoned at any await.
    pub(super) async fn flush(&mut self) -> Result<(), Lost> {
        while !self.try_flush()? {
            self.writer.writable().await?;
        }
        Ok(())
    }

    /// Sends what is buffered, as far as it goes without waiting; true if that is all.
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
        Ok(true)
    }

    /// Sends if there is enough for a large write.
    pub(super) async fn flush_if_full(&mut self) -> Result<(), Lost> {
        if self.output.len() >= FLUSH_BYTES { self.flush().await } else { Ok(()) }
    }

    /// Ends the connection so that the client can still read the last message: closing a socket with unread input would make
    /// the system discard what we sent.
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
