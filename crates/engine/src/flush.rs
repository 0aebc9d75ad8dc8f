//! Flushing memtables and changed parts of `rows` tables (together a checkpoint), as a job.
//!
//! Always true:
//! - A flush writes only commits that are durable: a segment or checkpoint file never holds what a
//!   crash could undo.
//! - While a flush runs, memtable entries of the commits that it writes are not merged with later
//!   ones: [`Flush::barrier`].
//! - A flush answers the callers that asked before it started, whatever is committed meanwhile.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use columns::Flushed;
use env::{Event, Step};
use model::{Error, Lsn, Result, SqlState, TableId};
use parking_lot::Mutex;

use crate::db_version::DbVersion;
use crate::dropped_files::{discard_tables, is_obsolete};
use crate::engine::Inner;
use crate::jobs::{Job, Metric, Pending, Priority, Waiter, Waiters, answer};
use crate::manifest::{Manifest, Stored};
use crate::manifest_store::{OrphanFiles, remove_files, remove_series_files};
use crate::rowfile::{RowFiles, RowPart, RowPartWriter};

/// Bytes of rows that one step of a checkpoint writes, so that closing and the log need not wait
/// long.
const ROWS_STEP_BYTES: u64 = 4 << 20;

/// The flush job.
pub(crate) struct Flush {
    state: Mutex<FlushState>,
    waiters: Waiters,
    /// Memtable entries of commits up to here are being flushed and must not be merged; 0 = none.
    barrier: AtomicU64,
    /// Payload bytes of the log at the last flush.
    flushed_log_bytes: AtomicU64,
    /// Bytes of log that recovery read; 0 once a flush has made them obsolete.
    replayed_log_bytes: AtomicU64,
    /// Error of the last attempt, until another one starts.
    failure: Mutex<Option<Error>>,
    /// One writer at a time merges memtable entries.
    consolidating: Mutex<()>,
    pub(crate) flushes: Metric,
    pub(crate) flush_bytes: Metric,
    checkpoint_bytes: Metric,
}

/// State of the flush job between steps.
#[derive(Default)]
struct FlushState {
    phase: Phase,
    /// Callers that asked before the current flush started.
    waiters: Vec<Waiter>,
}

#[derive(Default)]
enum Phase {
    #[default]
    Idle,
    /// Waits until the version to flush is durable: a segment must not hold commits that a crash
    /// could undo.
    AwaitDurable { job: FlushJob, event: Event },
    /// Writes one table a step, or some blocks of a part of a `rows` table.
    Write { job: FlushJob, todo: VecDeque<FlushItem>, done: FlushOutput },
    /// Waits until the log is durable up to the newest row written: files must not hold rows that a
    /// crash could undo.
    AwaitRows { job: FlushJob, done: FlushOutput, event: Event },
}

struct FlushJob {
    /// The database version to flush. It is not registered as a reader, so it keeps no old row
    /// versions.
    db: Arc<DbVersion>,
    replay_from: Lsn,
}

enum FlushItem {
    Table(TableId),
    Part(TableId, u64),
}

/// Files written so far by a flush.
#[derive(Default)]
struct FlushOutput {
    tables: BTreeMap<TableId, Flushed>,
    parts: BTreeMap<TableId, BTreeMap<u64, RowPart>>,
    writing: Option<RowPartWriter>,
    /// The newest commit with a row in the written files.
    rows_lsn: Lsn,
}

impl Job for Flush {
    fn name(&self) -> &'static str {
        "flush"
    }

    /// Writes memtables to segments when they are large, when the log is long, or when a caller
    /// asked.
    fn step(&self, inner: &Arc<Inner>, _: Priority) -> Result<Step> {
        let mut state = self.state.lock();
        let stepped = self.advance(inner, &mut state);
        if let Err(error) = &stepped {
            *self.failure.lock() = Some(error.clone());
            self.abandon_phase(inner, &mut state);
            answer(std::mem::take(&mut state.waiters), Some(error));
        }
        stepped
    }

    fn metrics(&self) -> Vec<&Metric> {
        vec![&self.flushes, &self.flush_bytes, &self.checkpoint_bytes]
    }

    /// Keeps the files of an unfinished flush: the next start removes them.
    fn abandon(&self, _: &Inner) {
        self.state.lock().phase = Phase::Idle;
    }

    fn release(&self, inner: &Inner, error: &Error) {
        let current = std::mem::take(&mut self.state.lock().waiters);
        answer(current, Some(error));
        self.waiters.answer_all(Some(error));
        inner.jobs.gc.wake_writers();
    }
}

impl Flush {
    pub(crate) fn new(replayed_log_bytes: u64) -> Flush {
        Flush {
            state: Mutex::default(),
            waiters: Waiters::default(),
            barrier: AtomicU64::new(0),
            flushed_log_bytes: AtomicU64::new(0),
            replayed_log_bytes: AtomicU64::new(replayed_log_bytes),
            failure: Mutex::default(),
            consolidating: Mutex::new(()),
            flushes: Metric::total("flushes", "Memtable flushes."),
            flush_bytes: Metric::total("flush_bytes", "Bytes of segments written by flushes."),
            checkpoint_bytes: Metric::total("checkpoint_bytes", "Bytes of checkpoint files written."),
        }
    }

    /// Requests a flush of all memtables.
    pub(crate) fn request(inner: &Inner) -> Pending {
        let pending = inner.jobs.flush.waiters.add();
        inner.jobs.flush.wake();
        inner.jobs.flush.release_if_stopped(inner);
        pending
    }

    fn advance(&self, inner: &Arc<Inner>, state: &mut FlushState) -> Result<Step> {
        match std::mem::take(&mut state.phase) {
            Phase::Idle => Ok(self.start(inner, state)),
            Phase::AwaitDurable { job, event } => {
                if inner.wal.durable() >= job.db.lsn {
                    let todo = todo(inner, &job);
                    state.phase = Phase::Write { job, todo, done: FlushOutput::default() };
                    return Ok(Step::Again);
                }
                if let Some(error) = inner.failure() {
                    return Err(error);
                }
                state.phase = Phase::AwaitDurable { job, event };
                Ok(Step::Idle)
            }
            Phase::Write { job, mut todo, mut done } => {
                let written = self.write_next(inner, &job, &mut todo, &mut done);
                if !matches!(written, Ok(false)) {
                    state.phase = Phase::Write { job, todo, done };
                    return written.map(|_| Step::Again);
                }
                let event = inner.on_durable(done.rows_lsn, |jobs| jobs.flush.wake());
                state.phase = Phase::AwaitRows { job, done, event };
                Ok(Step::Again)
            }
            Phase::AwaitRows { job, done, event } => {
                if inner.wal.durable() < done.rows_lsn {
                    let failure = inner.failure();
                    state.phase = Phase::AwaitRows { job, done, event };
                    return failure.map_or(Ok(Step::Idle), Err);
                }
                self.finish(inner, &job, done)?;
                answer(std::mem::take(&mut state.waiters), None);
                Ok(Step::Again)
            }
        }
    }

    /// Runs one step; false when nothing is left.
    fn write_next(
        &self,
        inner: &Inner,
        job: &FlushJob,
        todo: &mut VecDeque<FlushItem>,
        done: &mut FlushOutput,
    ) -> Result<bool> {
        while let Some(next) = todo.front() {
            match *next {
                FlushItem::Table(id) => {
                    let flushed = self.flush_table(inner, job, id);
                    let flushed = flushed.map_err(|error| error.context(format!("flush of table number {id}")))?;
                    todo.pop_front();
                    if let Some(flushed) = flushed {
                        done.tables.insert(id, flushed);
                        return Ok(true);
                    }
                }
                FlushItem::Part(id, part) => {
                    let written = self.write_part(inner, job, id, part, done);
                    if written.map_err(|error| error.context(format!("checkpoint of table number {id}")))? {
                        todo.pop_front();
                    }
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Writes some blocks of a part; true when the part is complete.
    fn write_part(
        &self,
        inner: &Inner,
        job: &FlushJob,
        id: TableId,
        part: u64,
        done: &mut FlushOutput,
    ) -> Result<bool> {
        let records = &job.db.row_table(id)?.records;
        // All commits of the flushed version are there and durable. Later ones may be there too;
        // the next checkpoint writes them again.
        let writer = done
            .writing
            .get_or_insert_with(|| RowPartWriter::new(&inner.data_dir(), id, part, inner.next_file(), job.db.lsn));
        let written = writer.step(&*inner.env, records, ROWS_STEP_BYTES)?;
        done.rows_lsn = done.rows_lsn.max(writer.rows_lsn());
        let Some(written) = written else { return Ok(false) };
        done.writing = None;
        assert!(written.lsn == job.db.lsn, "BUG: a part of LSN {} in a flush up to {}", written.lsn, job.db.lsn);
        let is_twice = done.parts.entry(id).or_default().insert(part, written).is_some();
        assert!(!is_twice, "BUG: part {part} of table number {id} is written twice in one flush");
        self.checkpoint_bytes.add(written.bytes);
        Ok(true)
    }

    fn start(&self, inner: &Arc<Inner>, state: &mut FlushState) -> Step {
        assert!(state.waiters.is_empty(), "BUG: a flush starts before the callers of the last one are answered");
        assert!(self.barrier.load(Ordering::SeqCst) == 0, "BUG: a flush starts during another");
        let flushed_lsn = inner.manifests.lock().flushed_lsn;
        let lock = inner.commit.lock();
        let newest = inner.versions.newest();
        assert!(newest.lsn >= flushed_lsn, "BUG: flushed up to {flushed_lsn}, the newest version is {}", newest.lsn);
        if newest.lsn == flushed_lsn {
            drop(lock);
            self.waiters.answer_all(None);
            return Step::Idle;
        }
        if let Some(error) = inner.failure() {
            drop(lock);
            self.waiters.answer_all(Some(&error));
            return Step::Idle;
        }
        if !self.is_wanted(inner) {
            return Step::Idle;
        }
        // A copy, so that the flush is not registered as a reader; see `FlushJob`.
        let db = Arc::new(newest.lasting());
        drop(newest);
        state.waiters = self.waiters.take();
        // This attempt may succeed, and may take long.
        *self.failure.lock() = None;
        self.barrier.store(db.lsn.0, Ordering::SeqCst);
        let first_open = inner.open_txns.lock().values().min().copied();
        drop(lock);
        let next = db.lsn.next();
        let replay_from = first_open.map_or(next, |first| first.min(next));
        let event = inner.on_durable(db.lsn, |jobs| jobs.flush.wake());
        state.phase = Phase::AwaitDurable { job: FlushJob { db, replay_from }, event };
        Step::Again
    }

    fn is_wanted(&self, inner: &Inner) -> bool {
        self.is_due(inner) || self.log_is_out_of_space(inner) || self.waiters.len() > 0
    }

    fn is_due(&self, inner: &Inner) -> bool {
        inner.memtable_bytes.load(Ordering::Relaxed) >= inner.options.memtable_flush_bytes()
            || self.log_bytes(inner) >= inner.options.log_flush_bytes
    }

    pub(crate) fn wake_if_due(inner: &Inner) {
        if inner.jobs.flush.is_due(inner) {
            inner.jobs.flush.wake();
        }
    }

    /// Bytes of log that a recovery would read.
    fn log_bytes(&self, inner: &Inner) -> u64 {
        let appended = inner.counters.log_bytes.load(Ordering::Relaxed);
        appended.saturating_sub(self.flushed_log_bytes.load(Ordering::Relaxed))
            + self.replayed_log_bytes.load(Ordering::Relaxed)
    }

    /// Whether the log is out of space while a flush would free log files. Segments hold the same
    /// rows in a fraction of the bytes. A flush frees every log file but the current one, so one is
    /// worthwhile when half a file was written since the last.
    pub(crate) fn log_is_out_of_space(&self, inner: &Inner) -> bool {
        self.log_bytes(inner) >= inner.options.log_file_bytes / 2 && inner.wal.out_of_space().is_some()
    }

    /// The refusal of a write when memtables are full and the disk has no space to flush them to.
    pub(crate) fn full_disk_refusal(&self) -> Option<Error> {
        let failure = self.failure.lock().clone().filter(|error| error.state() == SqlState::DISK_FULL)?;
        Some(
            Error::new(SqlState::DISK_FULL, format!("memtables are full and cannot be flushed: {}", failure.message()))
                .with_detail("Nothing of this write was stored; reads, DELETE and DROP still work")
                .with_hint("free space on the disk, or drop or truncate tables; writes are then accepted again"),
        )
    }

    fn flush_table(&self, inner: &Inner, job: &FlushJob, id: TableId) -> Result<Option<Flushed>> {
        let Some(state) = job.db.tables.get(&id) else { return Ok(None) };
        if state.entries.is_empty() && state.series_count == state.series_persisted() {
            return Ok(None);
        }
        let flushed = state.flush(&inner.env, &inner.data_dir(), job.db.lsn, &mut || inner.next_file())?;
        for segment in &flushed.segments {
            let lsns = segment.meta().lsns;
            assert!(lsns.1 <= job.db.lsn, "BUG: a segment with commit {} in a flush up to {}", lsns.1, job.db.lsn);
            self.flush_bytes.add(segment.meta().bytes);
        }
        Ok(Some(flushed))
    }

    fn finish(&self, inner: &Inner, job: &FlushJob, done: FlushOutput) -> Result<()> {
        assert!(done.writing.is_none(), "BUG: a flush ends with an incomplete part of a table");
        if done.parts.values().flat_map(BTreeMap::values).any(|part| part.file != 0) {
            let data = inner.data_dir();
            let synced = inner.env.sync_dir(&data);
            synced.map_err(|error| {
                remove_files(inner, job.new_files(&done));
                Error::io(format!("sync folder {}", data.display()), &error)
            })?;
        }
        let mut manifest = inner.manifests.lock();
        let replay_from = inner.wal.beyond_marks(job.replay_from);
        let next = Manifest { replay_from, ..manifest_after_flush(inner, &manifest, job, &done)? };
        inner.manifests.replace(inner, &mut manifest, next, || job.new_files(&done))?;
        let done = done.tables;

        let mut lock = inner.commit.lock();
        let mut db = (*inner.versions.newest()).clone();
        assert!(db.lsn >= job.db.lsn, "BUG: commit {} is gone after its flush", job.db.lsn);
        for (id, flushed) in &done {
            let Some(state) = db.tables.get(id) else { continue };
            let state = state.with_flushed(flushed);
            db = db.with_state(*id, state);
        }
        inner.memtable_bytes.store(db.memory_bytes(), Ordering::Relaxed);
        // Files of a table that was dropped or truncated while it was flushed.
        if manifest.row_files.iter().any(|(id, files)| is_obsolete(files, db.row_tables.get(id)))
            || manifest.files.iter().any(|(id, files)| !db.tables.contains_key(id) && !files.segments.is_empty())
        {
            lock.row_files_obsolete_since.get_or_insert(db.lsn);
        }
        inner.versions.replace_newest(db);
        let barrier = self.barrier.swap(0, Ordering::SeqCst);
        assert!(barrier == job.db.lsn.0, "BUG: a flush up to {} ends with barrier {barrier}", job.db.lsn);
        let (obsolete, kept) = std::mem::take(&mut lock.dropped).into_iter().partition(|(lsn, _)| *lsn <= job.db.lsn);
        lock.dropped = kept;
        let frees_files = lock.frees_files();
        drop(lock);
        drop(manifest);

        discard_tables(inner, obsolete, &[]);
        remove_series_files(inner, done.values().flat_map(|flushed| &flushed.obsolete));
        self.flushes.add(1);
        self.flushed_log_bytes.store(inner.counters.log_bytes.load(Ordering::Relaxed), Ordering::Relaxed);
        self.replayed_log_bytes.store(0, Ordering::Relaxed);
        if let Err(error) = inner.wal.remove_below(replay_from) {
            tracing::warn!(%error, "old log files could not be removed; the next flush will retry");
        }
        inner.jobs.gc.wake_writers();
        if frees_files {
            inner.jobs.dropped_files.wake();
        }
        // A table that was flushed for the first time may have partitions to drop.
        inner.jobs.retention.wake();
        inner.jobs.compaction.wake_worker(Priority::Normal);
        Ok(())
    }

    fn abandon_phase(&self, inner: &Inner, state: &mut FlushState) {
        if let Phase::Write { job, done, .. } | Phase::AwaitRows { job, done, .. } = std::mem::take(&mut state.phase) {
            // Files that were written but never named by a manifest. (Files of a failed manifest
            // write are not in `phase`.)
            remove_files(inner, job.new_files(&done));
        }
        self.barrier.store(0, Ordering::SeqCst);
    }

    /// Merges small memtable entries of tables that were just written to. Runs on the writer's
    /// thread, so that the writer pays for it; skipped while another writer does it. `tables`: with the number of rows
    /// that its commit wrote.
    pub(crate) fn consolidate(&self, inner: &Inner, tables: &[(TableId, usize)]) {
        let Some(_one_at_a_time) = self.consolidating.try_lock() else { return };
        for (id, rows) in tables {
            let barrier = self.barrier.load(Ordering::SeqCst);
            let db = inner.versions.newest();
            let Some(done) = db.tables.get(id).and_then(|state| state.consolidate(Lsn(barrier), *rows)) else {
                continue;
            };
            drop(db);
            let lock = inner.commit.lock();
            if self.barrier.load(Ordering::SeqCst) == barrier {
                let db = inner.versions.newest();
                if let Some(state) = db.tables.get(id).and_then(|state| state.with_consolidated(&done)) {
                    inner.versions.replace_newest(db.with_state(*id, state));
                }
            }
            drop(lock);
        }
    }
}

/// Lists the work of a flush: every `columns` table, and every part of a `rows` table that changed
/// since its file was written.
fn todo(inner: &Inner, job: &FlushJob) -> VecDeque<FlushItem> {
    let mut todo: VecDeque<FlushItem> = job.db.tables.keys().map(|id| FlushItem::Table(*id)).collect();
    let manifest = inner.manifests.lock();
    for (id, table) in &job.db.row_tables {
        let old = files_of(&manifest, *id, table.records.since()).unwrap_or_default();
        let written: BTreeMap<u64, Lsn> = old.iter().map(|part| (part.part, part.lsn)).collect();
        let is_due = |part: &u64| table.records.part_changed(*part) > written.get(part).copied().unwrap_or(Lsn::ZERO);
        let parts = (0..table.records.parts()).filter(is_due);
        todo.extend(parts.map(|part| FlushItem::Part(*id, part)));
    }
    todo
}

fn manifest_after_flush(inner: &Inner, old: &Manifest, job: &FlushJob, done: &FlushOutput) -> Result<Manifest> {
    let newest = inner.versions.newest();
    let mut files = BTreeMap::new();
    for table in job.db.catalog.tables() {
        let id = table.id;
        let old = old.files.get(&id).cloned().unwrap_or_default();
        let flushed = match done.tables.get(&id) {
            None => old,
            Some(flushed) => match newest.tables.get(&id) {
                // The newest state includes compactions that finished meanwhile.
                Some(state) => state.with_flushed(flushed).files(),
                // Dropped meanwhile, but the DROP may not be durable: the table keeps the segments
                // that the last manifest names, because compaction may have replaced those of the
                // flushed version before the DROP.
                None => {
                    let mut files = job.db.state(id)?.with_flushed(flushed).files();
                    files.kept_from = old.kept_from;
                    files.segments = old.segments;
                    files.segments.extend(flushed.segments.iter().map(|segment| segment.meta().clone()));
                    files
                }
            },
        };
        files.insert(id, flushed);
    }
    Ok(Manifest {
        identity: old.identity,
        flushed_lsn: job.db.lsn,
        replay_from: job.replay_from,
        next_file: inner.file_count(),
        next_table: inner.next_table.load(Ordering::Relaxed),
        wall_ns: job.db.wall_ns,
        catalog: Arc::clone(&job.db.catalog),
        files,
        row_files: row_files(old, job, done),
        // Values reserved since the flushed commit are skipped if a crash undoes the commits that
        // reserved them.
        sequences: job.db.counters.iter().map(|(id, counter)| (*id, counter.logged())).collect(),
        retention_ns: inner.jobs.retention.trusted_ns().max(job.db.retention_ns),
        stored: Stored::default(),
    })
}

impl FlushJob {
    /// Files that this flush has written.
    fn new_files(&self, done: &FlushOutput) -> OrphanFiles {
        let mut new = OrphanFiles::default();
        new.row_files.extend(done.writing.iter().map(RowPartWriter::file));
        let parts = done.parts.values().flat_map(BTreeMap::values);
        new.row_files.extend(parts.map(|part| part.file).filter(|file| *file != 0));
        for (id, flushed) in &done.tables {
            new.segments.extend(flushed.segments.iter().cloned());
            let old = self.db.tables.get(id).map(|state| &*state.series_files).unwrap_or_default();
            let made = flushed.series_files.iter().filter(|file| !old.contains(file));
            new.series_files.extend(made.map(|file| file.file));
        }
        new
    }
}

/// The files of a `rows` table for records created at version `since`.
fn files_of(manifest: &Manifest, id: TableId, since: u32) -> Option<&[RowPart]> {
    manifest.row_files.get(&id).filter(|files| files.since == since).map(|files| files.parts.as_slice())
}

/// Files of each `rows` table after a flush: the new ones, and the old ones of unchanged parts.
fn row_files(old: &Manifest, job: &FlushJob, done: &FlushOutput) -> BTreeMap<TableId, RowFiles> {
    let files = |(id, table): (&TableId, &Arc<rows::RowTable>)| {
        let since = table.records.since();
        let old = files_of(old, *id, since).unwrap_or_default();
        let mut parts: BTreeMap<u64, RowPart> = old.iter().map(|part| (part.part, *part)).collect();
        parts.extend(done.parts.get(id).into_iter().flatten());
        let parts = parts.into_values().collect();
        (*id, RowFiles { since, parts })
    };
    job.db.row_tables.iter().map(files).collect()
}
