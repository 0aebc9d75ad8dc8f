//! The write-ahead log: an ordered, durable sequence of records that the log itself cannot read.
//!
//! Words: a *record* is one opaque payload; an *LSN* is its number; a record is *durable* once a sync covered it.
//!
//! Always true:
//! - LSNs are consecutive: no gap, no repeat, across files and restarts.
//! - `durable() <= last()`; only records above `durable()` can vanish in a crash.
//! - After the first failed write or sync in reserved space the log is *failed* and stays so until reopened.
//!
//! Not here: what records mean (`engine`), when old files may go (`engine`). Bytes: docs/format/wal.md.

// SKELETON of the public surface; the bodies are being written.
use std::path::Path;
use std::sync::Arc;

use env::{Env, Event, Step};
use model::{Lsn, Result};

/// How a log behaves.
#[derive(Clone, Debug)]
pub struct WalOptions {
    /// A new file starts here. Files are preallocated whole.
    pub file_bytes: u64,
    /// Appended but not yet written bytes above which [`Wal::append`] answers [`Appended::Busy`].
    pub pending_bytes_max: usize,
    /// One flush writes at most this, so that a bulk load does not hold small commits behind it.
    pub flush_bytes_max: usize,
    /// Reserved space kept back for [`Space::Reserve`].
    pub reserve_bytes: u64,
}

/// Which space a record may use when the disk is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Ordinary writes: refused with 53100 once only the reserve is left.
    Ordinary,
    /// DELETE, DROP, retention, durable marks: may use the kept-back reserve.
    Reserve,
}

/// What [`Wal::append`] did.
#[derive(Debug)]
pub enum Appended {
    /// The records are queued; this is the LSN of the last one.
    At(Lsn),
    /// Too much is pending; nothing was queued. Try again after the event.
    Busy(Event),
}

/// What opening found.
#[derive(Clone, Debug, Default)]
pub struct Opened {
    /// Records handed to the caller.
    pub records: u64,
    /// Their payload bytes.
    pub bytes: u64,
    /// Bytes of a torn tail that were dropped.
    pub torn_bytes: u64,
    /// Files read.
    pub files: u64,
}

/// An open log.
pub struct Wal {}

impl Wal {
    /// Opens the log in `dir` (made if missing), hands every intact record with LSN >= `from` to `each` in order, drops a
    /// torn tail, and stands ready to append. `identity` is the database's number, covered by every checksum.
    ///
    /// # Errors
    /// XX001 when an acknowledged record is damaged, naming file, offset, LSN and what is intact, or when records from `from`
    /// on are missing; 58030 for I/O; whatever `each` returns.
    pub fn open(
        _env: Arc<dyn Env>,
        _dir: &Path,
        _identity: u64,
        _options: WalOptions,
        _from: Lsn,
        _each: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>,
    ) -> Result<(Wal, Opened)> {
        unimplemented!()
    }

    /// Queues records, in order and without another's between them; each record is the concatenation of its parts.
    /// One copy, no I/O, never waits.
    pub fn append(&self, _records: &[&[&[u8]]], _space: Space) -> Result<Appended> {
        unimplemented!()
    }

    /// Highest LSN handed out.
    pub fn last(&self) -> Lsn {
        unimplemented!()
    }

    /// Highest LSN known to be on disk.
    pub fn durable(&self) -> Lsn {
        unimplemented!()
    }

    /// Set when `lsn` is durable or the log has failed: look at [`Wal::failure`] after.
    pub fn when_durable(&self, _lsn: Lsn) -> Event {
        unimplemented!()
    }

    /// Why the log has failed, if it has.
    pub fn failure(&self) -> Option<model::Error> {
        unimplemented!()
    }

    /// Calls `notify` from inside [`Wal::append`] when the flusher has something to do.
    pub fn on_work(&self, _notify: impl Fn() + Send + Sync + 'static) {
        unimplemented!()
    }

    /// The flusher: writes a bounded part of what is pending, syncs once, sets the events. Calls `advanced` with the new
    /// durable LSN before any event is set. For one worker.
    pub fn flush_step(&self, _advanced: &dyn Fn(Lsn)) -> Step {
        unimplemented!()
    }

    /// Removes files all of whose records are below `lsn`.
    pub fn remove_below(&self, _lsn: Lsn) -> Result<()> {
        unimplemented!()
    }

    /// Bytes of log files on disk.
    pub fn disk_bytes(&self) -> u64 {
        unimplemented!()
    }

    /// Durable records from `from` on, for consumers and `inspect`.
    pub fn read(&self, _from: Lsn) -> Result<Reader> {
        unimplemented!()
    }
}

/// Walks durable records by LSN.
pub struct Reader {}

impl Reader {
    /// The next durable record, or `None` when there is no further one yet.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<(Lsn, &[u8])>> {
        unimplemented!()
    }
}
