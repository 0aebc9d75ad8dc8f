//! The writing side: takes runs off the queue, writes, syncs, tells; prepares files ahead; writes durable marks.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use env::{Event, File, Open, Step};
use model::{Error, Lsn, SqlState};

use crate::format::{self, FILE_HEADER_BYTES, FileHeader, RECORD_HEADER_BYTES};
use crate::{LogFile, Room, Run, Shared, Space, State, capacity};

/// A durable mark follows this long after the last flush.
const MARK_AFTER_NS: u64 = 10_000_000;
/// The least that disks write, and lose, at a time.
const SECTOR_BYTES: u64 = 512;
/// How often a full disk is tried again.
const SPACE_RETRY_NS: u64 = 100_000_000;
/// For fail-over, which is not there yet.
const TERM: u64 = 1;

/// What only the writer needs.
pub(crate) struct Flusher {
    pub(crate) identity: u64,
    /// The file that is written, and where in it; `None` before the first.
    pub(crate) current: Option<Current>,
    /// Number of the newest file.
    pub(crate) number: u64,
    /// Reserved and not yet used, oldest first.
    pub(crate) prepared: VecDeque<Prepared>,
    /// Names of prepared files made so far.
    pub(crate) prepared_names: u64,
    /// Highest durable LSN that a record on disk names.
    pub(crate) recorded: Lsn,
    /// Highest durable LSN of a record that is not a mark. A mark is due while it is above `recorded`.
    pub(crate) data: Lsn,
    pub(crate) flushed_at_ns: u64,
    pub(crate) retry_space_at_ns: u64,
    /// Files with records below this only are removed once the file begun after them has its name.
    pub(crate) needless_below: Option<Lsn>,
}

/// A file that has its space and nothing in it.
pub(crate) struct Prepared {
    file: Arc<dyn File>,
    bytes: u64,
}

pub(crate) struct Current {
    pub(crate) file: Arc<dyn File>,
    pub(crate) seed: u32,
    pub(crate) at: u64,
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

    /// Writes everything that is queued, then a mark.
    pub(crate) fn finish(&mut self, shared: &Shared, advanced: &dyn Fn(Lsn)) {
        while self.flush_one(shared, advanced) {}
        if self.mark_is_due() {
            self.queue_mark(shared);
            self.flush_one(shared, advanced);
        }
        // Who waits for room is told to look again: nobody makes any after this.
        let busy = shared.state.lock().busy.take();
        busy.iter().for_each(Event::set);
    }

    fn mark_is_due(&self) -> bool {
        self.data > self.recorded
    }

    /// Queues a mark if nothing else is queued: any record that follows says what a mark would. Marks are repeated until one
    /// is in another sector than the records before, so that a lost sector does not take both.
    fn queue_mark(&mut self, shared: &Shared) {
        let mut state = shared.state.lock();
        if state.failure.is_none() && state.queue.is_empty() && state.has_room(&[&[]], Space::Reserve, &shared.options)
        {
            let wanted = self.current.as_ref().map_or(1, |current| marks_at(current.at));
            let fitting = state.room.remaining / RECORD_HEADER_BYTES as u64;
            (0..wanted.min(fitting).max(1)).for_each(|_| state.push(&[], &shared.options));
        }
        // Without room there is no mark until there is; then the next retry for space asks again.
        self.flushed_at_ns = shared.env.monotonic_ns();
    }

    /// Writes and syncs the oldest run. Answers whether there was one and it went well.
    fn flush_one(&mut self, shared: &Shared, advanced: &dyn Fn(Lsn)) -> bool {
        let (mut run, durable) = {
            let mut state = shared.state.lock();
            let Some(run) = state.queue.pop_front() else {
                return false;
            };
            (run, state.durable)
        };
        let record_bytes = run.record_bytes();
        if let Err(error) = self.write(shared, &mut run, durable) {
            fail(shared, &run, &error);
            return false;
        }
        self.recorded = durable;
        if run.has_data {
            self.data = run.last;
        }
        self.flushed_at_ns = shared.env.monotonic_ns();
        advanced(run.last);
        let events = shared.state.lock().flushed(run, record_bytes, shared.options.pending_bytes_max);
        events.iter().for_each(Event::set);
        if let Some(lsn) = self.needless_below.take() {
            // Files that cannot be removed stay until the caller removes again.
            let _ = shared.remove_below(lsn);
        }
        true
    }

    fn write(&mut self, shared: &Shared, run: &mut Run, durable: Lsn) -> io::Result<()> {
        if run.opens_file {
            return self.write_first(shared, run, durable);
        }
        let Some(current) = &mut self.current else {
            panic!("BUG: log record {} has no file", run.first);
        };
        format::seal(&mut run.bytes, current.seed, durable);
        current.file.write_at(&run.bytes, current.at)?;
        current.file.sync()?;
        current.at += run.bytes.len() as u64;
        Ok(())
    }

    /// Writes a run into a prepared file. Only when header and records are on disk does the file get its name, and
    /// only when the name is on disk are the records durable. So whoever finds the name finds good contents.
    fn write_first(&mut self, shared: &Shared, run: &mut Run, durable: Lsn) -> io::Result<()> {
        let Some(prepared) = self.prepared.pop_front() else {
            panic!("BUG: log record {} was queued for a file that is not prepared", run.first);
        };
        let number = self.number + 1;
        let Prepared { file, bytes } = prepared;
        let header = FileHeader { identity: self.identity, number, first_lsn: run.first, term: TERM, reserved: bytes };
        run.bytes[..FILE_HEADER_BYTES].copy_from_slice(&header.encode());
        format::seal(&mut run.bytes[FILE_HEADER_BYTES..], header.seed(), durable);
        file.write_at(&run.bytes, 0)?;
        file.sync()?;
        let path = shared.dir.join(file_name(run.first));
        shared.env.rename(file.path(), &path)?;
        // By the open handle: a process without a file handle to spare is no reason for the log to fail.
        shared.folder.sync()?;
        self.number = number;
        self.current = Some(Current { file, seed: header.seed(), at: run.bytes.len() as u64 });
        shared.state.lock().files.push(LogFile { path, number, first_lsn: run.first, bytes });
        Ok(())
    }

    /// Reserves files ahead, so that a rollover does not wait for it and a full disk is met early: half the size of the
    /// newest, twice the reserve, and whatever a refused append asked for. A failure here is no failure of the log.
    pub(crate) fn prepare_files(&mut self, shared: &Shared) {
        let options = &shared.options;
        loop {
            let newest = self.newest_bytes(shared);
            let wants_file = {
                let state = shared.state.lock();
                let half = newest.unwrap_or(options.file_bytes_min) / 2;
                let target = half.max(2 * options.reserve_bytes).max(state.wanted_bytes);
                state.failure.is_none() && state.room.bytes() < target
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
                    shared.state.lock().room.prepared.push_back(capacity(prepared.bytes));
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

    /// The size of the file that will be written last.
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
            // Gives back what a failed reservation may hold; if even that fails, the next open removes it.
            let _ = shared.env.remove(&path);
            no_space_error(&path, bytes, &error)
        })
    }

    /// Begins a small file where no record below `lsn` is needed and there are no others, so that the space of a large
    /// one is free. What is reserved is given back only for as much as is kept ready anyway. Was one begun?
    pub(crate) fn begin_anew(&mut self, shared: &Shared, lsn: Lsn) -> bool {
        let options = &shared.options;
        let is_needless = |state: &State| {
            let is_large = state.files.last().is_some_and(|file| file.bytes > options.file_bytes_min);
            is_large
                && state.last < lsn
                && state.queue.is_empty()
                && state.failure.is_none()
                && state.no_space.is_none()
        };
        if !is_needless(&shared.state.lock()) {
            return false;
        }
        let mut small = VecDeque::new();
        let (mut bytes, mut room) = (options.file_bytes_min, 0);
        while room < options.file_bytes_min.max(2 * options.reserve_bytes) {
            match self.prepare_file(shared, bytes) {
                Ok(prepared) => small.push_back(prepared),
                Err(_) => {
                    discard(shared, small);
                    return false;
                }
            }
            room += capacity(bytes);
            bytes = options.bytes_after(bytes);
        }
        let mut state = shared.state.lock();
        // Somebody may have appended meanwhile.
        if !is_needless(&state) {
            drop(state);
            discard(shared, small);
            return false;
        }
        state.room = Room { remaining: 0, prepared: small.iter().map(|prepared| capacity(prepared.bytes)).collect() };
        // A mark is a record too, and the first one is what a file gets its name with.
        state.push(&[], options);
        drop(state);
        discard(shared, std::mem::replace(&mut self.prepared, small));
        self.needless_below = Some(lsn);
        true
    }

    pub(crate) fn retry_space_now(&mut self) {
        self.retry_space_at_ns = 0;
    }
}

/// How many marks from byte `at` on reach a sector that holds no part of what is before.
fn marks_at(at: u64) -> u64 {
    (at.next_multiple_of(SECTOR_BYTES) - at).div_ceil(RECORD_HEADER_BYTES as u64) + 1
}

/// Removes files that nothing was written to; what cannot be removed is at the next open.
fn discard(shared: &Shared, files: VecDeque<Prepared>) {
    for prepared in files {
        let _ = shared.env.remove(prepared.file.path());
    }
}

impl Run {
    fn record_bytes(&self) -> usize {
        self.bytes.len() - if self.opens_file { FILE_HEADER_BYTES } else { 0 }
    }
}

impl State {
    /// Books a run as durable; gives the events to set once the lock is released.
    fn flushed(&mut self, run: Run, record_bytes: usize, pending_bytes_max: usize) -> Vec<Event> {
        assert!(self.durable.next() == run.first, "BUG: flushed {} after durable {}", run.first, self.durable);
        self.durable = run.last;
        self.pending_bytes -= record_bytes;
        let later = self.waiters.split_off(&run.last.next());
        let mut events: Vec<Event> = std::mem::replace(&mut self.waiters, later).into_values().collect();
        if self.pending_bytes <= pending_bytes_max && self.wanted_bytes == 0 {
            events.extend(self.busy.take());
        }
        self.spare_buffer = run.bytes;
        events
    }

    fn has_space(&mut self) -> Option<Event> {
        self.no_space = None;
        if std::mem::take(&mut self.wanted_bytes) == 0 {
            return None;
        }
        self.busy.take()
    }

    fn has_no_space(&mut self, error: Error) -> Option<Event> {
        self.no_space = Some(error);
        self.wanted_bytes = 0;
        self.busy.take()
    }
}

/// The log is failed from here on: after a failed write or sync the page cache may show what the disk does not have
/// (Rebello et al., USENIX ATC 2020), so nothing later could be promised.
fn fail(shared: &Shared, run: &Run, error: &io::Error) {
    let mut state = shared.state.lock();
    let message =
        format!("the log in {} cannot write records {} to {}: {error}", shared.dir.display(), run.first, run.last);
    let detail = format!(
        "Records up to {} are safe; the outcome of later ones is unknown, and nothing more is written until restart",
        state.durable
    );
    state.failure =
        Some(Error::new(SqlState::IO_ERROR, message).with_detail(detail).with_hint("look at the disk, then restart"));
    state.queue.clear();
    let waiters = std::mem::take(&mut state.waiters).into_values();
    let events: Vec<Event> = waiters.chain(state.busy.take()).collect();
    drop(state);
    events.iter().for_each(Event::set);
}

fn no_space_error(path: &std::path::Path, bytes: u64, error: &io::Error) -> Error {
    let what = format!("reserve {bytes} bytes for the next log file {}", path.display());
    if env::is_out_of_handles(error) {
        return Error::new(SqlState::INSUFFICIENT_RESOURCES, format!("{what}: {error}"))
            .with_detail("Nothing of this write was stored")
            .with_hint("close connections, or raise the limit of open files (ulimit -n); writing resumes by itself");
    }
    Error::io(what, error)
        .with_detail("Nothing of this write was stored; reads, DELETE and DROP go on")
        .with_hint("free space on the disk; writing resumes by itself")
}

pub(crate) fn file_name(first: Lsn) -> String {
    format!("{:016x}.log", first.0)
}

/// The name of a log file that is reserved and has no records yet.
fn prepared_name(number: u64) -> String {
    format!("prepared-{number}.tmp")
}

pub(crate) fn is_prepared(name: &str) -> bool {
    let number = name.strip_prefix("prepared-").and_then(|name| name.strip_suffix(".tmp"));
    number.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}
