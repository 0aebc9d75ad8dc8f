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

/// Below this the file headers would cost more than the records.
const FILE_BYTES_MIN: u64 = 4096;

/// How a log behaves.
#[derive(Clone, Debug)]
pub struct WalOptions {
    /// The largest a file becomes; the next record starts another. Files are preallocated whole.
    pub file_bytes: u64,
    /// The first file, and the one begun when no record is needed any more; each is twice as large as the one before.
    pub file_bytes_min: u64,
    /// Appended but not yet written bytes above which [`Wal::append`] answers [`Appended::Busy`].
    pub pending_bytes_max: usize,
    /// One flush writes at most this (or one record, if that is larger), so that a bulk load does not hold small
    /// commits behind it.
    pub flush_bytes_max: usize,
    /// Reserved space kept back for [`Space::Reserve`].
    pub reserve_bytes: u64,
}

impl Default for WalOptions {
    /// Files of up to 64 MiB: small enough to delete often, large enough that folder syncs are rare.
    fn default() -> WalOptions {
        WalOptions::with_file_bytes(64 << 20)
    }
}

impl WalOptions {
    /// The default, but for the size of files: the first takes a sixteenth of it, or what any record fits.
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
///
/// Two locks: `state` is short, taken by everyone and never held over I/O; `flusher` is held by the one who writes.
/// Order: `flusher`, then `state`.
pub struct Wal {
    shared: Arc<Shared>,
    flusher: Mutex<Flusher>,
    notify: Mutex<Option<Arc<dyn Fn() + Send + Sync>>>,
}

/// What a [`Reader`] needs as well.
struct Shared {
    env: Arc<dyn Env>,
    dir: PathBuf,
    /// `dir`, open: it is synced while there may be no file handle to spare.
    folder: Arc<dyn Folder>,
    options: WalOptions,
    state: Mutex<State>,
}

/// What appenders, waiters and the flusher share.
struct State {
    /// Highest LSN handed out.
    last: Lsn,
    /// Highest LSN of what may be more than a durable mark.
    last_record: Lsn,
    /// Highest LSN known to be on disk.
    durable: Lsn,
    /// Appended and not yet taken by the flusher, oldest first.
    queue: VecDeque<Run>,
    /// Bytes of `queue` and of the run that is being written.
    pending_bytes: usize,
    /// Where the next record will go: room left in the file that the queue ends in, and prepared files after it.
    room: Room,
    /// Why the next file could not be prepared, until it can.
    no_space: Option<Error>,
    /// Room that a refused append asked for; the flusher prepares files until it is there.
    wanted_bytes: u64,
    waiters: BTreeMap<Lsn, Event>,
    /// What [`Appended::Busy`] handed out.
    busy: Option<Event>,
    failure: Option<Error>,
    /// Oldest first; the last one is being written.
    files: Vec<LogFile>,
    /// An emptied buffer for the next run, so that a warm log does not allocate.
    spare_buffer: Vec<u8>,
}

/// Records that one flush writes with one call, into one file.
struct Run {
    /// Encoded but not sealed; room for the file header first when `opens_file`.
    bytes: Vec<u8>,
    first: Lsn,
    last: Lsn,
    /// Is one of them more than a durable mark?
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

/// Reserved space, as the end of the queue sees it.
#[derive(Clone, Debug, Default)]
struct Room {
    /// In the file that the queue ends in.
    remaining: u64,
    /// What each prepared file after it holds, oldest first.
    prepared: VecDeque<u64>,
}

impl Room {
    /// Takes room for one record of `bytes`, and says whether it starts a file; `None` when there is none.
    fn place(&mut self, bytes: u64) -> Option<bool> {
        if bytes <= self.remaining {
            self.remaining -= bytes;
            return Some(false);
        }
        self.remaining = self.prepared.front()?.checked_sub(bytes)?;
        self.prepared.pop_front();
        Some(true)
    }

    /// Room after placing these records; `None` when there is too little.
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

/// Bytes of records that a file of so many bytes holds.
fn capacity(file_bytes: u64) -> u64 {
    file_bytes - FILE_HEADER_BYTES as u64
}

impl WalOptions {
    /// Largest payload: with very small files (tests have them) a record must still fit one.
    fn payload_bytes_max(&self) -> usize {
        let fits = capacity(self.file_bytes_min) - RECORD_HEADER_BYTES as u64;
        usize::try_from(fits).unwrap_or(usize::MAX).min(RECORD_PAYLOAD_BYTES_MAX)
    }

    /// The size of the file after one of `bytes`.
    fn bytes_after(&self, bytes: u64) -> u64 {
        bytes.saturating_mul(2).clamp(self.file_bytes_min, self.file_bytes)
    }

    fn check(&self) -> Result<()> {
        let WalOptions { file_bytes, file_bytes_min, .. } = self;
        if (FILE_BYTES_MIN..=*file_bytes).contains(file_bytes_min) {
            return Ok(());
        }
        let message = format!(
            "log files of {file_bytes_min} to {file_bytes} bytes, at least {FILE_BYTES_MIN} expected, and not falling"
        );
        Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message))
    }
}

impl Wal {
    /// Opens the log in `dir` (made if missing), hands every intact record with LSN >= `from` to `each` in order, drops
    /// a torn tail, and stands ready to append. `identity` is the database's number, covered by every checksum.
    ///
    /// LSNs rise but need not be consecutive for `each`: the log's own durable marks take LSNs too.
    ///
    /// # Errors
    /// XX001 when an acknowledged record is damaged, naming file, offset, LSN and what is intact, or when records from
    /// `from` on are missing; 58030 for I/O; whatever `each` returns.
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

    /// Queues records, in order and without another's between them; each record is the concatenation of its parts.
    /// One copy, no I/O, never waits. A record is durable once [`Wal::durable`] reaches its LSN.
    ///
    /// - each record: 1 ..= [`RECORD_PAYLOAD_BYTES_MAX`] bytes. LSNs within one call are consecutive.
    ///
    /// # Errors
    /// Nothing was queued:
    /// - 54000: a record is empty or too large.
    /// - 53100: the disk is full and what is reserved is kept for `Space::Reserve` (or used up). Goes away by itself.
    /// - 58030: the log has failed.
    pub fn append(&self, records: &[&[&[u8]]], space: Space) -> Result<Appended> {
        for (nth, parts) in records.iter().enumerate() {
            self.check_payload(nth, payload_bytes(parts))?;
        }
        let mut state = self.shared.state.lock();
        let was_empty = state.queue.is_empty();
        let appended = state.append(records, space, &self.shared.options)?;
        drop(state);
        // The flusher looks at the queue again after each step, so only the first record of a queue has to wake it;
        // and it is the one that makes room.
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
        let message = format!("log record {nth} of this append has {bytes} bytes, 1 to {bytes_max} expected");
        Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message))
    }

    /// Highest LSN handed out.
    #[must_use]
    pub fn last(&self) -> Lsn {
        self.shared.state.lock().last
    }

    /// Highest LSN known to be on disk.
    #[must_use]
    pub fn durable(&self) -> Lsn {
        self.shared.state.lock().durable
    }

    /// Set when `lsn` is durable or the log has failed: look at [`Wal::failure`] after.
    #[must_use]
    pub fn when_durable(&self, lsn: Lsn) -> Event {
        let mut state = self.shared.state.lock();
        if lsn <= state.durable || state.failure.is_some() {
            return Event::ready();
        }
        state.waiters.entry(lsn).or_default().clone()
    }

    /// Why the log has failed, if it has.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        self.shared.state.lock().failure.clone()
    }

    /// Why ordinary writes are refused for want of space, if they are (or soon will be: some room may be left).
    #[must_use]
    pub fn out_of_space(&self) -> Option<Error> {
        self.shared.state.lock().no_space.clone()
    }

    /// Calls `notify` from inside [`Wal::append`] when the flusher has something to do.
    pub fn on_work(&self, notify: impl Fn() + Send + Sync + 'static) {
        *self.notify.lock() = Some(Arc::new(notify));
    }

    fn notify(&self) {
        let notify = self.notify.lock().clone();
        if let Some(notify) = notify {
            notify();
        }
    }

    /// The flusher: writes a bounded part of what is pending, syncs once, sets the events. Calls `advanced` with the
    /// new durable LSN before [`Wal::durable`] shows it and before any event is set. For one worker.
    pub fn flush_step(&self, advanced: &dyn Fn(Lsn)) -> Step {
        self.flusher.lock().step(&self.shared, advanced)
    }

    /// Clean shutdown: writes all that is pending and a durable mark. Later appends still work.
    ///
    /// # Errors
    /// 58030 when the log has failed, now or before.
    pub fn close(&self, advanced: &dyn Fn(Lsn)) -> Result<()> {
        self.flusher.lock().finish(&self.shared, advanced);
        self.failure().map_or(Ok(()), Err)
    }

    /// The first LSN that is needed where what is below `lsn` is not: beyond durable marks, if they are all that came since.
    #[must_use]
    pub fn beyond_marks(&self, lsn: Lsn) -> Lsn {
        let state = self.shared.state.lock();
        // A mark that a crash may take back gives its number to another record.
        if state.last_record < lsn { lsn.max(state.durable.next()) } else { lsn }
    }

    /// Removes files all of whose records are below `lsn`, but never the one that is written. If that is all there are,
    /// and the file is no small one, another is begun, and it goes as soon as that has its name.
    ///
    /// # Errors
    /// 58030 when a file cannot be removed; the log is still good.
    pub fn remove_below(&self, lsn: Lsn) -> Result<()> {
        let removed = self.shared.remove_below(lsn)?;
        let mut flusher = self.flusher.lock();
        if removed {
            flusher.retry_space_now();
        }
        let begun = flusher.begin_anew(&self.shared, lsn);
        drop(flusher);
        if removed || begun {
            self.notify();
        }
        Ok(())
    }

    /// Bytes of log files on disk, prepared ones included.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        let state = self.shared.state.lock();
        let prepared = state.room.prepared.iter().map(|capacity| capacity + FILE_HEADER_BYTES as u64);
        state.files.iter().map(|file| file.bytes).chain(prepared).sum()
    }

    /// The lowest LSN that [`Wal::read`] can start from.
    #[must_use]
    pub fn oldest(&self) -> Lsn {
        let state = self.shared.state.lock();
        state.files.first().map_or(state.last.next(), |file| file.first_lsn)
    }

    /// Durable records from `from` on, for consumers and `inspect`.
    ///
    /// # Errors
    /// 55000 when records from `from` on have been removed.
    pub fn read(&self, from: Lsn) -> Result<Reader> {
        Reader::new(self.shared.clone(), from)
    }
}

impl Shared {
    /// Removes files all of whose records are below `lsn`; were there any?
    fn remove_below(&self, lsn: Lsn) -> Result<bool> {
        let removable = self.state.lock().files_below(lsn);
        if removable.is_empty() {
            return Ok(false);
        }
        // Oldest first, and out of the list first: a reader that comes now is told that they are gone.
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
        if !self.has_room(records, space, options) {
            return self.refuse(records, options);
        }
        for parts in records {
            self.push(parts, options);
        }
        Ok(Appended::At(self.last))
    }

    /// Every queued record has its place in reserved space, so that a full disk is met before queueing and not after.
    fn has_room(&self, records: &[&[&[u8]]], space: Space, options: &WalOptions) -> bool {
        match (self.room.after(records.iter().map(|parts| record_bytes(parts))), space) {
            (None, _) => false,
            (Some(_), Space::Reserve) => true,
            (Some(left), Space::Ordinary) => left >= options.reserve_bytes,
        }
    }

    fn refuse(&mut self, records: &[&[&[u8]]], options: &WalOptions) -> Result<Appended> {
        if let Some(error) = &self.no_space {
            return Err(error.clone());
        }
        let asked: u64 = records.iter().map(|parts| record_bytes(parts)).sum();
        // A record that does not fit a file's end leaves that end unused, at worst its own length in every file.
        let unused_ends =
            (asked / capacity(options.file_bytes_min) + 2) * (RECORD_HEADER_BYTES + options.payload_bytes_max()) as u64;
        self.wanted_bytes = self.wanted_bytes.max(asked + unused_ends + options.reserve_bytes);
        Ok(self.busy())
    }

    fn busy(&mut self) -> Appended {
        Appended::Busy(self.busy.get_or_insert_default().clone())
    }

    /// Queues one record for which there is room. No parts: a durable mark.
    fn push(&mut self, parts: &[&[u8]], options: &WalOptions) {
        let bytes = record_bytes(parts);
        let opens_file = self.room.place(bytes).expect("BUG: a record without room was queued");
        let lsn = self.last.next();
        let fits = |run: &Run| run.bytes.len() + bytes as usize <= options.flush_bytes_max;
        if opens_file || !self.queue.back().is_some_and(fits) {
            self.start_run(lsn, opens_file);
        }
        if let Some(run) = self.queue.back_mut() {
            format::push_record(&mut run.bytes, lsn, parts);
            run.last = lsn;
            run.has_data |= !parts.is_empty();
        }
        self.last = lsn;
        if !parts.is_empty() {
            self.last_record = lsn;
        }
        self.pending_bytes += bytes as usize;
    }

    fn start_run(&mut self, first: Lsn, opens_file: bool) {
        let mut bytes = std::mem::take(&mut self.spare_buffer);
        bytes.clear();
        if opens_file {
            bytes.resize(FILE_HEADER_BYTES, 0);
        }
        self.queue.push_back(Run { bytes, first, last: first, has_data: false, opens_file });
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
