//! The write-ahead log: an ordered, durable sequence of opaque records.
//!
//! Words: a *record* is one opaque payload; its *LSN* is its sequence number; a record is *durable*
//! once a sync covered it.
//!
//! Always true:
//! - LSNs are consecutive: no gap, no repeat, across files and restarts.
//! - `durable() <= last()`; only records above `durable()` can be lost in a crash.
//! - After the first failed write or sync in reserved space the log is *failed* until reopened.
//! - A record is queued only if reserved space has a place for it; it is written to that place.
//! - `queue` has the records `durable + 1 ..= last`, apart from the batch that is being written.
//! - No waiter waits for a durable LSN.
//!
//! Assertions check these. One that fails makes the log *failed* too, with an error of kind `Bug`: nothing more is
//! appended or acknowledged, and what is durable can still be read.
//!
//! Not here: the meaning of records and the decision to remove old files (`engine`). Bytes:
//! docs/format/wal.md.

mod flush;
mod format;
mod inspect;
mod open;
mod reader;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::{Env, Event, Folder, Step};
use model::limits::RECORD_PAYLOAD_BYTES_MAX;
use model::{Error, Lsn, Result, SqlState};
use parking_lot::Mutex;

use flush::Flusher;
use format::{FILE_HEADER_BYTES, RECORD_HEADER_BYTES};

pub use format::FileHeader;
pub use inspect::{FileCheck, FileSummary, check_file_bytes, list_files};
pub use reader::Reader;

/// Below this size the file headers would cost more than the records.
const FILE_BYTES_MIN: u64 = 4096;

/// Settings of a log.
#[derive(Clone, Debug)]
pub struct WalOptions {
    /// Maximum size of a file, in bytes; the next record starts another file. Files are
    /// preallocated completely.
    pub file_bytes: u64,
    /// Size of the first file, and of the file started when no record is needed any more, in bytes;
    /// each next file is twice as large.
    pub file_bytes_min: u64,
    /// [`Wal::append`] answers [`Appended::Busy`] above this many bytes that are appended and not
    /// yet written.
    pub pending_bytes_max: usize,
    /// Upper limit of bytes that one flush writes (or one record, if that is larger), so that a
    /// bulk load does not delay small commits.
    pub flush_bytes_max: usize,
    /// Bytes of reserved space that only [`Space::Reserve`] may use.
    pub reserve_bytes: u64,
}

impl Default for WalOptions {
    /// Files of up to 64 MiB: small enough to delete often, large enough that directory syncs are
    /// rare.
    fn default() -> WalOptions {
        WalOptions::with_file_bytes(64 << 20)
    }
}

impl WalOptions {
    /// Default options with another file size. The first file has a sixteenth of it, but at least
    /// enough for any record.
    #[must_use]
    pub fn with_file_bytes(file_bytes: u64) -> WalOptions {
        let any_record = (FILE_HEADER_BYTES + RECORD_HEADER_BYTES + RECORD_PAYLOAD_BYTES_MAX) as u64;
        WalOptions {
            file_bytes,
            file_bytes_min: (file_bytes / 16).max(any_record).min(file_bytes),
            pending_bytes_max: 16 << 20,
            flush_bytes_max: 4 << 20,
            reserve_bytes: 4 << 20,
        }
    }
}

/// The reserved space that a record may use when the disk is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Ordinary writes: refused with 53100 once only the reserve remains.
    Ordinary,
    /// DELETE, DROP, retention, durable marks: may use the reserve.
    Reserve,
}

/// Outcome of [`Wal::append`].
#[derive(Debug)]
pub enum Appended {
    /// The records are queued; the LSN is that of the last one.
    At(Lsn),
    /// Too many bytes are pending; nothing was queued. Try again after the event.
    Busy(Event),
}

/// Result of opening a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Records passed to the caller.
    pub records: u64,
    /// Payload bytes of the records.
    pub bytes: u64,
    /// Bytes of a torn tail that were dropped.
    pub torn_bytes: u64,
    /// Number of files read.
    pub files: u64,
}

/// An open log.
///
/// Two locks: `state` is held briefly by all callers and never over I/O; `flusher` is held by the
/// writing thread. Lock order: `flusher`, then `state`.
pub struct Wal {
    shared: Arc<Shared>,
    flusher: Mutex<Flusher>,
    notify: Mutex<Option<Arc<dyn Fn() + Send + Sync>>>,
}

/// The part of the log that a [`Reader`] shares.
struct Shared {
    env: Arc<dyn Env>,
    dir: PathBuf,
    /// Open handle of `dir`, so that it can be synced even if the process has no file handle left.
    folder: Arc<dyn Folder>,
    options: WalOptions,
    state: Mutex<State>,
}

/// State shared by appenders, waiters and the flusher.
struct State {
    /// Highest LSN assigned.
    last: Lsn,
    /// Highest LSN of a record that may be more than a durable mark.
    last_record: Lsn,
    /// Highest LSN known to be on disk.
    durable: Lsn,
    /// Batches appended and not yet taken by the flusher, oldest first.
    queue: VecDeque<WriteBatch>,
    /// Bytes of `queue` and of the batch that is being written.
    pending_bytes: usize,
    /// Space for further records: the rest of the file in which the queue ends, and the prepared
    /// files after it.
    reserved_space: ReservedSpace,
    /// The error of the last attempt to prepare a file, until one succeeds.
    no_space: Option<Error>,
    /// Bytes that a refused append asked for; the flusher prepares files until they are available.
    requested_bytes: u64,
    waiters: BTreeMap<Lsn, Event>,
    /// The event of [`Appended::Busy`], shared by all refused appenders.
    busy: Option<Event>,
    failure: Option<Error>,
    /// Oldest first; the last file is being written.
    files: Vec<LogFile>,
    /// An empty buffer for the next batch, so that a warm log does not allocate.
    spare_buffer: Vec<u8>,
}

/// Records that one flush writes with one call into one file.
struct WriteBatch {
    /// Encoded records, not sealed; preceded by space for the file header if `opens_file`.
    bytes: Vec<u8>,
    first: Lsn,
    last: Lsn,
    /// Whether a record is more than a durable mark.
    has_data: bool,
    opens_file: bool,
}

/// One file of the log.
#[derive(Clone, Debug)]
struct LogFile {
    path: PathBuf,
    number: u64,
    first_lsn: Lsn,
    bytes: u64,
}

/// Reserved space after the end of the queue.
#[derive(Clone, Debug, Default)]
struct ReservedSpace {
    /// Bytes left in the file in which the queue ends.
    remaining: u64,
    /// Capacity of each prepared file after it, oldest first, in bytes.
    prepared: VecDeque<u64>,
}

impl ReservedSpace {
    /// Reserves space for one record of `bytes`; true if the record starts a file, `None` when
    /// there is no space.
    fn place(&mut self, bytes: u64) -> Option<bool> {
        if bytes <= self.remaining {
            self.remaining -= bytes;
            return Some(false);
        }
        self.remaining = self.prepared.front()?.checked_sub(bytes)?;
        self.prepared.pop_front();
        Some(true)
    }

    /// Returns the bytes left after these records; `None` when they do not fit.
    fn after(&self, records: impl Iterator<Item = u64>) -> Option<u64> {
        let (mut remaining, mut prepared) = (self.remaining, self.prepared.iter());
        for bytes in records {
            remaining = match remaining.checked_sub(bytes) {
                Some(remaining) => remaining,
                None => prepared.next()?.checked_sub(bytes)?,
            };
        }
        Some(remaining + prepared.sum::<u64>())
    }

    fn bytes(&self) -> u64 {
        self.remaining + self.prepared.iter().sum::<u64>()
    }
}

/// Bytes of records that fit into a file of this size.
fn capacity(file_bytes: u64) -> u64 {
    file_bytes - FILE_HEADER_BYTES as u64
}

impl WalOptions {
    /// Largest payload: a record must also fit into very small files, which tests use.
    fn payload_bytes_max(&self) -> usize {
        let fits = capacity(self.file_bytes_min) - RECORD_HEADER_BYTES as u64;
        usize::try_from(fits).unwrap_or(usize::MAX).min(RECORD_PAYLOAD_BYTES_MAX)
    }

    /// Returns the size of the file after one of `bytes`.
    fn bytes_after(&self, bytes: u64) -> u64 {
        bytes.saturating_mul(2).clamp(self.file_bytes_min, self.file_bytes)
    }

    fn check(&self) -> Result<()> {
        let WalOptions { file_bytes, file_bytes_min, .. } = self;
        if (FILE_BYTES_MIN..=*file_bytes).contains(file_bytes_min) {
            let record_bytes_max = (RECORD_HEADER_BYTES + self.payload_bytes_max()) as u64;
            let smallest = capacity(*file_bytes_min);
            assert!(record_bytes_max <= smallest, "BUG: records of {record_bytes_max} bytes in files of {smallest}");
            return Ok(());
        }
        let message = format!(
            "log files of {file_bytes_min} to {file_bytes} bytes; expected at least {FILE_BYTES_MIN}, and a maximum not below the minimum"
        );
        Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message))
    }
}

impl Wal {
    /// Opens the log in `dir` (created if missing), passes every intact record with LSN >= `from`
    /// to `each` in order, drops a torn tail, and is then ready to append. `identity` is the
    /// database's number, which every checksum covers.
    ///
    /// LSNs passed to `each` increase but need not be consecutive: durable marks have LSNs too.
    ///
    /// # Errors
    /// XX001 when an acknowledged record is damaged, naming file, offset, LSN and the intact
    /// records, or when records from `from` on are missing; 58030 for I/O; any error of `each`.
    pub fn open(
        env: Arc<dyn Env>,
        dir: &Path,
        identity: u64,
        options: WalOptions,
        from: Lsn,
        each: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>,
    ) -> Result<(Wal, Opened)> {
        options.check()?;
        open::open(env, dir, identity, options, from, each)
    }

    /// Queues records in order, with no other record between them; each record is the concatenation
    /// of its parts. One copy, no I/O, never waits. A record is durable once [`Wal::durable`]
    /// reaches its LSN.
    ///
    /// - each record: 1 ..= [`RECORD_PAYLOAD_BYTES_MAX`] bytes. LSNs within one call are
    ///   consecutive.
    ///
    /// # Errors
    /// Nothing was queued:
    /// - 54000: a record is empty or too large.
    /// - 53100: the disk is full and the remaining reserve is kept for `Space::Reserve` (or used
    ///   up). Ends when space is available.
    /// - 58030: the log has failed. XX000: it has failed by a bug.
    pub fn append(&self, records: &[&[&[u8]]], space: Space) -> Result<Appended> {
        for (nth, parts) in records.iter().enumerate() {
            self.check_payload(nth, payload_bytes(parts))?;
        }
        let (was_empty, appended) = self.shared.guarded(|| {
            let mut state = self.shared.state.lock();
            (state.queue.is_empty(), state.append(records, space, &self.shared.options))
        })?;
        let appended = appended?;
        // The flusher checks the queue again after each step, so only the first record of a queue
        // has to wake it. A refused append wakes it too, because the flusher makes space.
        if was_empty || matches!(appended, Appended::Busy(_)) {
            self.notify();
        }
        Ok(appended)
    }

    fn check_payload(&self, nth: usize, bytes: usize) -> Result<()> {
        let bytes_max = self.shared.options.payload_bytes_max();
        if (1..=bytes_max).contains(&bytes) {
            return Ok(());
        }
        let message = format!("log record {nth} of this append has {bytes} bytes, expected 1 to {bytes_max}");
        Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message))
    }

    /// Highest LSN assigned.
    #[must_use]
    pub fn last(&self) -> Lsn {
        self.shared.state.lock().last
    }

    /// Highest LSN known to be on disk.
    #[must_use]
    pub fn durable(&self) -> Lsn {
        self.shared.state.lock().durable
    }

    /// Returns an event that is set when `lsn` is durable or the log has failed: check
    /// [`Wal::failure`] then.
    #[must_use]
    pub fn when_durable(&self, lsn: Lsn) -> Event {
        let mut state = self.shared.state.lock();
        if lsn <= state.durable || state.failure.is_some() {
            return Event::ready();
        }
        state.waiters.entry(lsn).or_default().clone()
    }

    /// The error with which the log failed, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        self.shared.state.lock().failure.clone()
    }

    /// The error with which ordinary writes are refused for lack of disk space, if files cannot be
    /// prepared. Some space may be left.
    #[must_use]
    pub fn out_of_space(&self) -> Option<Error> {
        self.shared.state.lock().no_space.clone()
    }

    /// Sets the callback that [`Wal::append`] calls when the flusher has work.
    pub fn on_work(&self, notify: impl Fn() + Send + Sync + 'static) {
        *self.notify.lock() = Some(Arc::new(notify));
    }

    fn notify(&self) {
        let notify = self.notify.lock().clone();
        if let Some(notify) = notify {
            notify();
        }
    }

    /// Step of the flusher: writes a bounded part of the pending records, syncs once, sets the
    /// events. Calls `advanced` with the new durable LSN before [`Wal::durable`] returns it and
    /// before any event is set. Call it from one worker only.
    pub fn flush_step(&self, advanced: &dyn Fn(Lsn)) -> Step {
        self.shared.guarded(|| self.flusher.lock().step(&self.shared, advanced)).unwrap_or(Step::Idle)
    }

    /// Clean shutdown: writes all pending records and a durable mark. Later appends still work.
    ///
    /// # Errors
    /// 58030 when the log has failed, during this call or before; XX000 when a bug was the reason.
    pub fn close(&self, advanced: &dyn Fn(Lsn)) -> Result<()> {
        self.shared.guarded(|| self.flusher.lock().finish(&self.shared, advanced))?;
        self.failure().map_or(Ok(()), Err)
    }

    /// Returns the first LSN that is needed if records below `lsn` are not: skips durable marks if
    /// only those follow.
    #[must_use]
    pub fn beyond_marks(&self, lsn: Lsn) -> Lsn {
        let state = self.shared.state.lock();
        debug_assert!(state.last_record <= state.last, "BUG: record {} after {}", state.last_record, state.last);
        // If a crash loses a mark, its LSN is reused for a record; so only durable marks are
        // skipped.
        if state.last_record < lsn { lsn.max(state.durable.next()) } else { lsn }
    }

    /// Removes files that have only records below `lsn`, except the current file. If no record is
    /// needed at all and the current file is large, a small file is started, and the large one is
    /// removed once the small one has its name.
    /// # Errors
    /// 58030 when a file cannot be removed; the log can still be used.
    pub fn remove_below(&self, lsn: Lsn) -> Result<()> {
        self.shared.guarded(|| self.remove_files_below(lsn))?
    }

    fn remove_files_below(&self, lsn: Lsn) -> Result<()> {
        let removed = self.shared.remove_below(lsn)?;
        let mut flusher = self.flusher.lock();
        if removed {
            flusher.retry_space_now();
        }
        let started = flusher.start_small_file(&self.shared, lsn);
        drop(flusher);
        if removed || started {
            self.notify();
        }
        Ok(())
    }

    /// Bytes of log files on disk, including prepared ones.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        let state = self.shared.state.lock();
        let prepared = state.reserved_space.prepared.iter().map(|capacity| capacity + FILE_HEADER_BYTES as u64);
        state.files.iter().map(|file| file.bytes).chain(prepared).sum()
    }

    /// The lowest LSN that [`Wal::read`] can start from.
    #[must_use]
    pub fn oldest(&self) -> Lsn {
        let state = self.shared.state.lock();
        state.files.first().map_or(state.last.next(), |file| file.first_lsn)
    }

    /// Reads durable records from `from` on, for consumers and `inspect`.
    ///
    /// # Errors
    /// 55000 when records from `from` on have been removed.
    pub fn read(&self, from: Lsn) -> Result<Reader> {
        Reader::new(self.shared.clone(), from)
    }
}

impl Shared {
    /// Runs `work`. If an assertion in it fails, the log fails with an error of kind `Bug`, which is returned.
    fn guarded<T>(&self, work: impl FnOnce() -> T) -> Result<T> {
        // After a failed assertion only the failure, the durable LSN and the names of files are used.
        Error::contain(work).map_err(|error| self.poison(error))
    }

    fn poison(&self, bug: Error) -> Error {
        let mut state = self.state.lock();
        let detail = format!("Records up to {} are safe; nothing more is written until restart", state.durable);
        let error = bug.context(format_args!("the log in {}", self.dir.display())).with_detail(detail);
        let events = state.fail(error.clone());
        drop(state);
        events.iter().for_each(Event::set);
        error
    }

    /// Removes files that have only records below `lsn`; returns whether there were any.
    fn remove_below(&self, lsn: Lsn) -> Result<bool> {
        let (removable, files) = {
            let state = self.state.lock();
            (state.files_below(lsn), state.files.len())
        };
        if removable.is_empty() {
            return Ok(false);
        }
        assert!(removable.len() < files, "BUG: the current one of {files} log files would be removed below {lsn}");
        // Oldest first, and removed from the list first: a reader that starts now gets the error
        // for removed records.
        for file in &removable {
            self.state.lock().files.retain(|kept| kept.number != file.number);
            let removed = self.env.remove(&file.path);
            removed.map_err(|e| Error::io(format_args!("remove {}", file.path.display()), &e))?;
        }
        let dir = &self.dir;
        self.folder.sync().map_err(|e| Error::io(format_args!("sync folder {}", dir.display()), &e))?;
        Ok(true)
    }
}

impl State {
    fn append(&mut self, records: &[&[&[u8]]], space: Space, options: &WalOptions) -> Result<Appended> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        if self.pending_bytes > options.pending_bytes_max {
            return Ok(self.busy());
        }
        let Some(left) = self.space_after(records, space, options) else {
            return self.refuse(records, options);
        };
        let expected = Lsn(self.last.0 + records.len() as u64);
        for parts in records {
            self.push(parts, options);
        }
        let (last, bytes) = (self.last, self.reserved_space.bytes());
        assert!(last == expected, "BUG: the last of {} records is {last}, expected {expected}", records.len());
        assert!(bytes == left, "BUG: {bytes} bytes of reserved space after record {last}, expected {left}");
        Ok(Appended::At(self.last))
    }

    /// Bytes of reserved space after these records; `None` if they have no place. Every queued record has one, so a
    /// full disk is detected before queueing and not after.
    fn space_after(&self, records: &[&[&[u8]]], space: Space, options: &WalOptions) -> Option<u64> {
        let left = self.reserved_space.after(records.iter().map(|parts| record_bytes(parts)))?;
        (space == Space::Reserve || left >= options.reserve_bytes).then_some(left)
    }

    fn refuse(&mut self, records: &[&[&[u8]]], options: &WalOptions) -> Result<Appended> {
        if let Some(error) = &self.no_space {
            return Err(error.clone());
        }
        let asked: u64 = records.iter().map(|parts| record_bytes(parts)).sum();
        // A record that does not fit the rest of a file leaves that rest unused, at worst its own
        // size in every file.
        let unused_ends =
            (asked / capacity(options.file_bytes_min) + 2) * (RECORD_HEADER_BYTES + options.payload_bytes_max()) as u64;
        self.requested_bytes = self.requested_bytes.max(asked + unused_ends + options.reserve_bytes);
        Ok(self.busy())
    }

    fn busy(&mut self) -> Appended {
        Appended::Busy(self.busy.get_or_insert_default().clone())
    }

    /// Queues one record for which space is reserved. No parts: a durable mark.
    fn push(&mut self, parts: &[&[u8]], options: &WalOptions) {
        let bytes = record_bytes(parts);
        let opens_file = self.reserved_space.place(bytes).expect("BUG: a record without room was queued");
        let lsn = self.last.next();
        let fits = |batch: &WriteBatch| batch.bytes.len() + bytes as usize <= options.flush_bytes_max;
        if opens_file || !self.queue.back().is_some_and(fits) {
            self.start_batch(lsn, opens_file);
        }
        let batch = self.queue.back_mut().expect("BUG: a queue without the batch that was started");
        let expected = batch.bytes.len() + bytes as usize;
        format::push_record(&mut batch.bytes, lsn, parts);
        let seen = batch.bytes.len();
        assert!(seen == expected, "BUG: {seen} bytes of a batch with record {lsn}, reserved for {expected}");
        batch.last = lsn;
        batch.has_data |= !parts.is_empty();
        self.last = lsn;
        if !parts.is_empty() {
            self.last_record = lsn;
        }
        self.pending_bytes += bytes as usize;
    }

    fn start_batch(&mut self, first: Lsn, opens_file: bool) {
        if let Some(before) = self.queue.back() {
            assert!(
                before.last.next() == first,
                "BUG: a batch from record {first} on after one up to record {}",
                before.last
            );
        }
        let mut bytes = std::mem::take(&mut self.spare_buffer);
        bytes.clear();
        if opens_file {
            bytes.resize(FILE_HEADER_BYTES, 0);
        }
        self.queue.push_back(WriteBatch { bytes, first, last: first, has_data: false, opens_file });
    }

    /// Refuses all later calls with `error`; returns the events to set after the lock is released.
    fn fail(&mut self, error: Error) -> Vec<Event> {
        // The first failure is the reason of all later ones.
        self.failure.get_or_insert(error);
        self.queue.clear();
        let waiters = std::mem::take(&mut self.waiters).into_values();
        waiters.chain(self.busy.take()).collect()
    }

    fn files_below(&self, lsn: Lsn) -> Vec<LogFile> {
        let pairs = self.files.iter().zip(self.files.iter().skip(1));
        pairs.take_while(|(_, next)| next.first_lsn <= lsn).map(|(file, _)| file.clone()).collect()
    }
}

fn payload_bytes(parts: &[&[u8]]) -> usize {
    parts.iter().map(|part| part.len()).sum()
}

fn record_bytes(parts: &[&[u8]]) -> u64 {
    (RECORD_HEADER_BYTES + payload_bytes(parts)) as u64
}
