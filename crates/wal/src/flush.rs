//! The flusher: writes and syncs queued batches and wakes their waiters, prepares files ahead,
//! writes durable marks.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use env::{Event, File, Open, Step};
use model::{Error, Lsn, SqlState};

use crate::format::{self, FILE_HEADER_BYTES, FileHeader, RECORD_HEADER_BYTES};
use crate::{LogFile, ReservedSpace, Shared, Space, State, WriteBatch, capacity};

/// Delay between the last flush and a durable mark, in nanoseconds.
const MARK_AFTER_NS: u64 = 10_000_000;
/// The smallest unit that disks write, or lose, at once.
const SECTOR_BYTES: u64 = 512;
/// Interval between attempts to reserve space on a full disk, in nanoseconds.
const SPACE_RETRY_NS: u64 = 100_000_000;
/// Reserved for fail-over, which is not implemented yet.
const TERM: u64 = 1;

/// State that only the flusher uses.
pub(crate) struct Flusher {
    pub(crate) identity: u64,
    /// The file being written and the offset in it; `None` before the first.
    pub(crate) current: Option<Current>,
    /// Number of the newest file.
    pub(crate) number: u64,
    /// Files reserved and not yet used, oldest first.
    pub(crate) prepared: VecDeque<Prepared>,
    /// Number of names of prepared files used so far.
    pub(crate) prepared_names: u64,
    /// Highest durable LSN that a record on disk states.
    pub(crate) recorded: Lsn,
    /// LSN of the last durable record that is not a mark. A mark is due while it is above
    /// `recorded`.
    pub(crate) data: Lsn,
    pub(crate) flushed_at_ns: u64,
    pub(crate) retry_space_at_ns: u64,
    /// Files with records below this LSN only are removed once the file started after them has its
    /// name.
    pub(crate) obsolete_below: Option<Lsn>,
}

/// A file with reserved space and no contents.
pub(crate) struct Prepared {
    file: Arc<dyn File>,
    bytes: u64,
}

pub(crate) struct Current {
    pub(crate) file: Arc<dyn File>,
    pub(crate) seed: u32,
    pub(crate) at: u64,
    /// Size of the file.
    pub(crate) bytes: u64,
}

impl Flusher {
    pub(crate) fn step(&mut self, shared: &Shared, advanced: &dyn Fn(Lsn)) -> Step {
        if shared.state.lock().failure.is_some() {
            return Step::Idle;
        }
        self.flush_one(shared, advanced);
        self.prepare_files(shared);
        let now = shared.env.monotonic_ns();
        if self.mark_is_due() && now >= self.flushed_at_ns + MARK_AFTER_NS {
            self.queue_mark(shared);
        }
        self.next_step(&shared.state.lock())
    }

    fn next_step(&self, state: &State) -> Step {
        if state.failure.is_some() {
            return Step::Idle;
        }
        if !state.queue.is_empty() {
            return Step::Again;
        }
        let mark = self.mark_is_due().then_some(self.flushed_at_ns + MARK_AFTER_NS);
        let retry = state.no_space.is_some().then_some(self.retry_space_at_ns);
        mark.into_iter().chain(retry).min().map_or(Step::Idle, Step::Until)
    }

    /// Writes all queued batches, then a mark.
    pub(crate) fn finish(&mut self, shared: &Shared, advanced: &dyn Fn(Lsn)) {
        while self.flush_one(shared, advanced) {}
        if self.mark_is_due() {
            self.queue_mark(shared);
            self.flush_one(shared, advanced);
        }
        // Appenders that wait for space must check again: no space is made after this.
        let busy = shared.state.lock().busy.take();
        busy.iter().for_each(Event::set);
    }

    fn mark_is_due(&self) -> bool {
        self.data > self.recorded
    }

    /// Queues a mark if nothing else is queued; any record that follows would serve as a mark.
    /// Marks are repeated until one lies in another sector than the records before, so that a lost
    /// sector cannot take both.
    fn queue_mark(&mut self, shared: &Shared) {
        let mut state = shared.state.lock();
        if state.failure.is_none()
            && state.queue.is_empty()
            && state.space_after(&[&[]], Space::Reserve, &shared.options).is_some()
        {
            let wanted = self.current.as_ref().map_or(1, |current| marks_needed_at(current.at));
            let fitting = state.reserved_space.remaining / RECORD_HEADER_BYTES as u64;
            (0..wanted.min(fitting).max(1)).for_each(|_| state.push(&[], &shared.options));
        }
        // Without space the mark is delayed; the next attempt to reserve space tries again.
        self.flushed_at_ns = shared.env.monotonic_ns();
    }

    /// Writes and syncs the oldest batch. Returns whether there was one and it was written.
    fn flush_one(&mut self, shared: &Shared, advanced: &dyn Fn(Lsn)) -> bool {
        let (mut batch, durable) = {
            let mut state = shared.state.lock();
            let Some(batch) = state.queue.pop_front() else {
                return false;
            };
            (batch, state.durable)
        };
        assert!(
            durable.next() == batch.first,
            "BUG: record {} is written after the durable record {durable}",
            batch.first
        );
        assert!(self.recorded <= durable, "BUG: the log states that {} is durable, not only {durable}", self.recorded);
        let record_bytes = batch.record_bytes();
        if let Err(error) = self.write(shared, &mut batch, durable) {
            fail(shared, &batch, &error);
            return false;
        }
        self.recorded = durable;
        if batch.has_data {
            self.data = batch.last;
        }
        self.flushed_at_ns = shared.env.monotonic_ns();
        advanced(batch.last);
        let events = shared.state.lock().flushed(batch, record_bytes, shared.options.pending_bytes_max);
        events.iter().for_each(Event::set);
        if let Some(lsn) = self.obsolete_below.take() {
            // Files that cannot be removed are left until the caller removes again.
            let _ = shared.remove_below(lsn);
        }
        true
    }

    fn write(&mut self, shared: &Shared, batch: &mut WriteBatch, durable: Lsn) -> io::Result<()> {
        if batch.opens_file {
            return self.write_first(shared, batch, durable);
        }
        let Some(current) = &mut self.current else {
            panic!("BUG: log record {} has no file", batch.first);
        };
        let end = current.at + batch.bytes.len() as u64;
        assert!(end <= current.bytes, "BUG: record {} ends at {end} of {} bytes", batch.last, current.bytes);
        format::seal(&mut batch.bytes, current.seed, durable);
        debug_assert_eq!(format::lsns(&batch.bytes, current.seed, batch.first), Ok(batch.last), "BUG: bad batch");
        current.file.write_at(&batch.bytes, current.at)?;
        current.file.sync()?;
        current.at += batch.bytes.len() as u64;
        Ok(())
    }

    /// Writes a batch into a prepared file. The file gets its name only when header and records are
    /// on disk, and the records are durable only when the name is on disk. So a file with its final
    /// name has good contents.
    fn write_first(&mut self, shared: &Shared, batch: &mut WriteBatch, durable: Lsn) -> io::Result<()> {
        let Some(prepared) = self.prepared.pop_front() else {
            panic!("BUG: log record {} was queued for a file that is not prepared", batch.first);
        };
        let number = self.number + 1;
        let Prepared { file, bytes } = prepared;
        let written = batch.bytes.len() as u64;
        assert!(written <= bytes, "BUG: {written} bytes from record {} on in a file of {bytes}", batch.first);
        let header =
            FileHeader { identity: self.identity, number, first_lsn: batch.first, term: TERM, reserved: bytes };
        batch.bytes[..FILE_HEADER_BYTES].copy_from_slice(&header.encode());
        format::seal(&mut batch.bytes[FILE_HEADER_BYTES..], header.seed(), durable);
        let records = &batch.bytes[FILE_HEADER_BYTES..];
        debug_assert_eq!(format::lsns(records, header.seed(), batch.first), Ok(batch.last), "BUG: bad batch");
        file.write_at(&batch.bytes, 0)?;
        file.sync()?;
        let path = shared.dir.join(file_name(batch.first));
        shared.env.rename(file.path(), &path)?;
        // Uses the open handle: a process without a file handle left must not fail the log.
        shared.folder.sync()?;
        self.number = number;
        self.current = Some(Current { file, seed: header.seed(), at: written, bytes });
        let mut state = shared.state.lock();
        if let Some(last) = state.files.last() {
            let expected = (last.number + 1, last.first_lsn);
            let follows = number == expected.0 && batch.first > expected.1;
            assert!(follows, "BUG: file {number} from {} on, expected {expected:?} and later", batch.first);
        }
        state.files.push(LogFile { path, number, first_lsn: batch.first, bytes });
        Ok(())
    }

    /// Reserves files ahead, so that a rollover does not wait and a full disk is detected early:
    /// half the size of the newest file, twice the reserve, or the bytes of a refused append,
    /// whichever is largest. A failure here does not fail the log.
    pub(crate) fn prepare_files(&mut self, shared: &Shared) {
        let options = &shared.options;
        self.check_prepared(&shared.state.lock());
        loop {
            let newest = self.newest_bytes(shared);
            let wants_file = {
                let state = shared.state.lock();
                let half = newest.unwrap_or(options.file_bytes_min) / 2;
                let target = half.max(2 * options.reserve_bytes).max(state.requested_bytes);
                state.failure.is_none() && state.reserved_space.bytes() < target
            };
            if !wants_file {
                shared.state.lock().has_space().iter().for_each(Event::set);
                return;
            }
            let waits = shared.state.lock().no_space.is_some();
            if waits && shared.env.monotonic_ns() < self.retry_space_at_ns {
                return;
            }
            let bytes = newest.map_or(options.file_bytes_min, |newest| options.bytes_after(newest));
            match self.prepare_file(shared, bytes) {
                Ok(prepared) => {
                    shared.state.lock().reserved_space.prepared.push_back(capacity(prepared.bytes));
                    self.prepared.push_back(prepared);
                }
                Err(error) => {
                    self.retry_space_at_ns = shared.env.monotonic_ns() + SPACE_RETRY_NS;
                    shared.state.lock().has_no_space(error).iter().for_each(Event::set);
                    return;
                }
            }
        }
    }

    /// Each prepared file has its place in reserved space, or a batch in the queue that opens it.
    fn check_prepared(&self, state: &State) {
        let queued = state.queue.iter().filter(|batch| batch.opens_file).count();
        let (files, places) = (self.prepared.len(), state.reserved_space.prepared.len());
        let agree = state.failure.is_some() || files == places + queued;
        assert!(agree, "BUG: {files} prepared files for {places} places and {queued} batches that open a file");
    }

    /// Size of the newest file, prepared or written.
    fn newest_bytes(&self, shared: &Shared) -> Option<u64> {
        let prepared = self.prepared.back().map(|prepared| prepared.bytes);
        prepared.or_else(|| shared.state.lock().files.last().map(|file| file.bytes))
    }

    fn prepare_file(&mut self, shared: &Shared, bytes: u64) -> Result<Prepared, Error> {
        self.prepared_names += 1;
        let path = shared.dir.join(prepared_name(self.prepared_names));
        let made = shared.env.open(&path, Open::CreateNew).and_then(|file| {
            file.allocate(bytes)?;
            Ok(file)
        });
        made.map(|file| Prepared { file, bytes }).map_err(|error| {
            // Frees the space that a failed reservation may hold; if that fails too, the next open
            // does it.
            let _ = shared.env.remove(&path);
            no_space_error(&path, bytes, &error)
        })
    }

    /// Starts a small file if no record from the log is needed and there is only one large file, to
    /// free its space. Reserved space is released only after as much is prepared as is always kept
    /// ready. Returns whether a file was started.
    pub(crate) fn start_small_file(&mut self, shared: &Shared, lsn: Lsn) -> bool {
        let options = &shared.options;
        let is_replaceable = |state: &State| {
            let is_large = state.files.last().is_some_and(|file| file.bytes > options.file_bytes_min);
            is_large
                && state.last < lsn
                && state.queue.is_empty()
                && state.failure.is_none()
                && state.no_space.is_none()
        };
        if !is_replaceable(&shared.state.lock()) {
            return false;
        }
        let mut small = VecDeque::new();
        let (mut bytes, mut reserved_space) = (options.file_bytes_min, 0);
        while reserved_space < options.file_bytes_min.max(2 * options.reserve_bytes) {
            match self.prepare_file(shared, bytes) {
                Ok(prepared) => small.push_back(prepared),
                Err(_) => {
                    discard(shared, small);
                    return false;
                }
            }
            reserved_space += capacity(bytes);
            bytes = options.bytes_after(bytes);
        }
        let mut state = shared.state.lock();
        // Another thread may have appended meanwhile.
        if !is_replaceable(&state) {
            drop(state);
            discard(shared, small);
            return false;
        }
        state.reserved_space =
            ReservedSpace { remaining: 0, prepared: small.iter().map(|prepared| capacity(prepared.bytes)).collect() };
        // A mark is a record too; the first record gives the file its name.
        state.push(&[], options);
        drop(state);
        discard(shared, std::mem::replace(&mut self.prepared, small));
        self.obsolete_below = Some(lsn);
        true
    }

    pub(crate) fn retry_space_now(&mut self) {
        self.retry_space_at_ns = 0;
    }
}

/// Number of marks from offset `at` on that reach a sector without earlier bytes.
fn marks_needed_at(at: u64) -> u64 {
    (at.next_multiple_of(SECTOR_BYTES) - at).div_ceil(RECORD_HEADER_BYTES as u64) + 1
}

/// Removes unused prepared files; the next open removes those that remain.
fn discard(shared: &Shared, files: VecDeque<Prepared>) {
    for prepared in files {
        let _ = shared.env.remove(prepared.file.path());
    }
}

impl WriteBatch {
    fn record_bytes(&self) -> usize {
        self.bytes.len() - if self.opens_file { FILE_HEADER_BYTES } else { 0 }
    }
}

impl State {
    /// Records a batch as durable; returns the events to set after the lock is released.
    fn flushed(&mut self, batch: WriteBatch, record_bytes: usize, pending_bytes_max: usize) -> Vec<Event> {
        assert!(self.durable.next() == batch.first, "BUG: flushed {} after durable {}", batch.first, self.durable);
        assert!(batch.last <= self.last, "BUG: flushed up to {}, appended up to {}", batch.last, self.last);
        let pending_bytes = self.pending_bytes.checked_sub(record_bytes);
        self.durable = batch.last;
        self.pending_bytes = pending_bytes.expect("BUG: more bytes were flushed than are pending");
        if self.queue.is_empty() && self.failure.is_none() {
            let (durable, last) = (self.durable, self.last);
            assert!(durable == last, "BUG: nothing is queued after {durable}, but records up to {last} were appended");
            assert!(self.pending_bytes == 0, "BUG: nothing is queued, but {} bytes are pending", self.pending_bytes);
        }
        let later = self.waiters.split_off(&batch.last.next());
        let mut events: Vec<Event> = std::mem::replace(&mut self.waiters, later).into_values().collect();
        debug_assert!(self.waiters.keys().all(|lsn| *lsn > batch.last), "BUG: a waiter for a durable LSN");
        if self.pending_bytes <= pending_bytes_max && self.requested_bytes == 0 {
            events.extend(self.busy.take());
        }
        self.spare_buffer = batch.bytes;
        events
    }

    fn has_space(&mut self) -> Option<Event> {
        self.no_space = None;
        if std::mem::take(&mut self.requested_bytes) == 0 {
            return None;
        }
        self.busy.take()
    }

    fn has_no_space(&mut self, error: Error) -> Option<Event> {
        self.no_space = Some(error);
        self.requested_bytes = 0;
        self.busy.take()
    }
}

/// Marks the log as failed: after a failed write or sync the page cache may show data that the disk
/// does not have (Rebello et al., USENIX ATC 2020), so no later write could be guaranteed.
fn fail(shared: &Shared, batch: &WriteBatch, error: &io::Error) {
    let mut state = shared.state.lock();
    let message =
        format!("the log in {} cannot write records {} to {}: {error}", shared.dir.display(), batch.first, batch.last);
    let detail = format!(
        "Records up to {} are safe; the outcome of later ones is unknown, and nothing more is written until restart",
        state.durable
    );
    let failure = Error::new(SqlState::IO_ERROR, message).with_detail(detail).with_hint("check the disk, then restart");
    let events = state.fail(failure);
    drop(state);
    events.iter().for_each(Event::set);
}

fn no_space_error(path: &std::path::Path, bytes: u64, error: &io::Error) -> Error {
    let what = format!("reserve {bytes} bytes for the next log file {}", path.display());
    if env::is_out_of_handles(error) {
        return Error::new(SqlState::INSUFFICIENT_RESOURCES, format!("{what}: {error}"))
            .with_detail("Nothing of this write was stored")
            .with_hint(
                "close connections, or raise the limit of open files (ulimit -n); writes are then accepted again",
            );
    }
    Error::io(what, error)
        .with_detail("Nothing of this write was stored; reads, DELETE and DROP still work")
        .with_hint("free space on the disk; writes are then accepted again")
}

pub(crate) fn file_name(first: Lsn) -> String {
    format!("{:016x}.log", first.0)
}

/// Name of a prepared log file, which has no records yet.
fn prepared_name(number: u64) -> String {
    format!("prepared-{number}.tmp")
}

pub(crate) fn is_prepared(name: &str) -> bool {
    let number = name.strip_prefix("prepared-").and_then(|name| name.strip_suffix(".tmp"));
    number.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}
