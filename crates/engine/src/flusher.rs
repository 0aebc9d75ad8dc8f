//! Flushing the log, and flushing memtables and changed parts of `rows` tables (together a
//! checkpoint), as step functions of two workers. Compaction is in `compaction.rs`.
//!
//! Order that makes a crash harmless: files are written and synced, then the manifest names them,
//! then the new database version uses them, then the files they replace are removed. After a failed
//! manifest write nothing is removed, because the old or the new manifest may be on disk.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use columns::{Flushed, Segment, SegmentMeta, TableState};
use env::{Event, Step};
use model::{Error, Lsn, Result, TableId};

use crate::db_version::DbVersion;
use crate::engine::{CommitState, Inner, closing};
use crate::manifest::{Manifest, Stored};
use crate::rowfile::{RowFiles, RowPart, RowPartWriter, row_file_path};

/// Delay before the next attempt after a failed flush or compaction (usually a full disk), in
/// nanoseconds.
pub(crate) const RETRY_NS: u64 = 1_000_000_000;
/// Bytes of rows that one step of a checkpoint writes, so that closing and the log need not wait
/// long.
const ROWS_STEP_BYTES: u64 = 4 << 20;

/// State of the memtable flusher.
#[derive(Default)]
pub(crate) struct Flusher {
    phase: Phase,
    /// Callers that asked before the current flush started. It answers them, whatever is committed
    /// meanwhile.
    waiters: Vec<Waiter>,
    retry_at: u64,
    /// Monotonic time at which removing files of dropped tables is tried again.
    free_at: u64,
}

/// Files of a flush or compaction whose manifest could not be written. The manifest on disk may
/// name them, so they are kept until a later manifest, which does not name them, is on disk.
#[derive(Default)]
pub(crate) struct OrphanFiles {
    segments: Vec<Arc<Segment>>,
    series_files: Vec<u64>,
    row_files: Vec<u64>,
}

impl OrphanFiles {
    /// Orphans that are segments only.
    pub(crate) fn segments(segments: &[Arc<Segment>]) -> OrphanFiles {
        OrphanFiles { segments: segments.to_vec(), ..OrphanFiles::default() }
    }
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

impl Inner {
    /// Step of the log worker.
    pub(crate) fn log_step(&self) -> Step {
        let step = self.wal.flush_step(&|lsn| self.versions.advance(lsn));
        if self.log_is_out_of_space() {
            self.wake_flusher();
        }
        step
    }

    /// Whether the log is out of space while a flush would free log files. Segments hold the same
    /// rows in a fraction of the bytes. A flush frees every log file but the current one, so one is
    /// worthwhile when half a file was written since the last.
    fn log_is_out_of_space(&self) -> bool {
        self.log_bytes_since_flush() >= self.options.log_file_bytes / 2 && self.wal.out_of_space().is_some()
    }

    /// Step of the flush worker: writes memtables to segments when they are large, when the log is
    /// long, or when a caller asked.
    pub(crate) fn flush_step(self: &Arc<Self>) -> Step {
        let mut flusher = self.flusher.lock();
        let now = self.env.monotonic_ns();
        let free_again = self.free_files(&mut flusher, now);
        if flusher.retry_at > now {
            return Step::Until(free_again.map_or(flusher.retry_at, |at| at.min(flusher.retry_at)));
        }
        match self.flush_phase(&mut flusher) {
            Ok(Step::Idle) => free_again.map_or(Step::Idle, Step::Until),
            Ok(step) => step,
            Err(error) => {
                tracing::warn!(%error, "flush failed; memtables are kept and it will be tried again");
                *self.flush_failure.lock() = Some(error.clone());
                self.abandon_flush(&mut flusher);
                answer(std::mem::take(&mut flusher.waiters), Some(&error));
                flusher.retry_at = now + RETRY_NS;
                Step::Until(flusher.retry_at)
            }
        }
    }

    fn flush_phase(self: &Arc<Self>, flusher: &mut Flusher) -> Result<Step> {
        match std::mem::take(&mut flusher.phase) {
            Phase::Idle => Ok(self.start_flush_job(flusher)),
            Phase::AwaitDurable { job, event } => {
                if self.wal.durable() >= job.db.lsn {
                    let todo = self.todo(&job);
                    flusher.phase = Phase::Write { job, todo, done: FlushOutput::default() };
                    return Ok(Step::Again);
                }
                if let Some(error) = self.wal.failure() {
                    return Err(error);
                }
                flusher.phase = Phase::AwaitDurable { job, event };
                Ok(Step::Idle)
            }
            Phase::Write { job, mut todo, mut done } => {
                let written = self.flush_step_of(&job, &mut todo, &mut done);
                if !matches!(written, Ok(false)) {
                    flusher.phase = Phase::Write { job, todo, done };
                    return written.map(|_| Step::Again);
                }
                let event = self.wake_flusher_when_durable(done.rows_lsn);
                flusher.phase = Phase::AwaitRows { job, done, event };
                Ok(Step::Again)
            }
            Phase::AwaitRows { job, done, event } => {
                if self.wal.durable() < done.rows_lsn {
                    let failure = self.wal.failure();
                    flusher.phase = Phase::AwaitRows { job, done, event };
                    return failure.map_or(Ok(Step::Idle), Err);
                }
                self.finish_flush(&job, done)?;
                answer(std::mem::take(&mut flusher.waiters), None);
                Ok(Step::Again)
            }
        }
    }

    /// Removes files of dropped tables if there are any. Returns when to try again if that failed.
    fn free_files(&self, flusher: &mut Flusher, now: u64) -> Option<u64> {
        if !self.commit.lock().frees_files() {
            return None;
        }
        if flusher.free_at > now {
            return Some(flusher.free_at);
        }
        match self.free_dropped() {
            Ok(true) => {
                // A flush that failed for lack of space may succeed now.
                flusher.retry_at = 0;
                None
            }
            Ok(false) => None,
            Err(error) => {
                tracing::warn!(%error, "files of dropped tables could not be removed; this will be retried");
                flusher.free_at = now + RETRY_NS;
                Some(flusher.free_at)
            }
        }
    }

    /// Removes the files of tables whose DROP or TRUNCATE is durable: by a manifest edit of its
    /// own, so that it frees space on a disk too full to flush the other tables. The tables stay in
    /// the manifest, without files, until the next flush, because log replay starts before the
    /// record of their drop. Returns whether there was anything to remove.
    fn free_dropped(&self) -> Result<bool> {
        let mut manifest = self.manifest.lock();
        // All tables of the manifest exist in some older database version.
        let durable = self.versions.visible(Lsn::ZERO);
        if !self.commit.lock().frees_files_by(durable.lsn) {
            return Ok(false);
        }
        let mut next = manifest.clone();
        let mut removed = Vec::new();
        for (id, files) in &mut next.files {
            if !durable.tables.contains_key(id) {
                removed.append(&mut files.segments);
            }
        }
        let mut has_rows = false;
        for (id, files) in &mut next.row_files {
            if is_obsolete(files, durable.row_tables.get(id)) {
                has_rows = true;
                files.parts.clear();
            }
        }
        let is_any = has_rows || !removed.is_empty();
        if is_any {
            // Segments that the last flush wrote for a table dropped meanwhile are in no database
            // version.
            self.write_manifest(&mut manifest, next, OrphanFiles::default)?;
        }
        let mut lock = self.commit.lock();
        let (obsolete, kept) = std::mem::take(&mut lock.dropped).into_iter().partition(|(lsn, _)| *lsn <= durable.lsn);
        lock.dropped = kept;
        lock.row_files_obsolete_since.take_if(|lsn| *lsn <= durable.lsn);
        drop(lock);
        drop(manifest);
        self.discard_tables(obsolete, &removed);
        Ok(is_any)
    }

    /// Removes the segments of dropped tables, and those of `removed` that belong to no database
    /// version.
    fn discard_tables(&self, obsolete: Vec<(Lsn, Arc<TableState>)>, removed: &[SegmentMeta]) {
        let mut known = BTreeSet::new();
        for segment in obsolete.iter().flat_map(|(_, state)| state.segments.iter()) {
            known.insert(segment.meta().file);
            segment.remove_when_unused();
        }
        for meta in removed.iter().filter(|meta| !known.contains(&meta.file)) {
            let path = columns::segment_path(&self.data_dir(), meta.file);
            if let Err(error) = self.env.remove(&path) {
                tracing::warn!(path = %path.display(), %error, "an unused segment could not be removed; the next start will retry");
            }
        }
    }

    pub(crate) fn wake_flusher_when_durable(self: &Arc<Self>, lsn: Lsn) -> Event {
        let event = self.wal.when_durable(lsn);
        let waker = Arc::downgrade(self);
        event.on_set(move || {
            if let Some(inner) = waker.upgrade() {
                inner.wake_flusher();
            }
        });
        event
    }

    /// Lists the work of a flush: every `columns` table, and every part of a `rows` table that
    /// changed since its file was written.
    fn todo(&self, job: &FlushJob) -> VecDeque<FlushItem> {
        let mut todo: VecDeque<FlushItem> = job.db.tables.keys().map(|id| FlushItem::Table(*id)).collect();
        let manifest = self.manifest.lock();
        for (id, table) in &job.db.row_tables {
            let old = files_of(&manifest, *id, table.records.since()).unwrap_or_default();
            let written: BTreeMap<u64, Lsn> = old.iter().map(|part| (part.part, part.lsn)).collect();
            let is_due =
                |part: &u64| table.records.part_changed(*part) > written.get(part).copied().unwrap_or(Lsn::ZERO);
            let parts = (0..table.records.parts()).filter(is_due);
            todo.extend(parts.map(|part| FlushItem::Part(*id, part)));
        }
        todo
    }

    /// Runs one step; false when nothing is left.
    fn flush_step_of(&self, job: &FlushJob, todo: &mut VecDeque<FlushItem>, done: &mut FlushOutput) -> Result<bool> {
        while let Some(next) = todo.front() {
            match *next {
                FlushItem::Table(id) => {
                    let flushed = self.flush_table(job, id);
                    let flushed = flushed.map_err(|error| error.context(format!("flush of table number {id}")))?;
                    todo.pop_front();
                    if let Some(flushed) = flushed {
                        done.tables.insert(id, flushed);
                        return Ok(true);
                    }
                }
                FlushItem::Part(id, part) => {
                    let written = self.write_part(job, id, part, done);
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
    fn write_part(&self, job: &FlushJob, id: TableId, part: u64, done: &mut FlushOutput) -> Result<bool> {
        let records = &job.db.row_table(id)?.records;
        // All commits of the flushed version are there and durable. Later ones may be there too;
        // the next checkpoint writes them again.
        let writer = done
            .writing
            .get_or_insert_with(|| RowPartWriter::new(&self.data_dir(), id, part, self.next_file(), job.db.lsn));
        let written = writer.step(&*self.env, records, ROWS_STEP_BYTES)?;
        done.rows_lsn = done.rows_lsn.max(writer.rows_lsn());
        let Some(written) = written else { return Ok(false) };
        done.writing = None;
        done.parts.entry(id).or_default().insert(part, written);
        self.counters.checkpoint_bytes.fetch_add(written.bytes, Ordering::Relaxed);
        Ok(true)
    }

    fn start_flush_job(self: &Arc<Self>, flusher: &mut Flusher) -> Step {
        let flushed_lsn = self.manifest.lock().flushed_lsn;
        let lock = self.commit.lock();
        // A copy, so that the flush is not registered as a reader; see `FlushJob`.
        let db = Arc::new((*self.versions.newest()).clone());
        if db.lsn == flushed_lsn {
            drop(lock);
            self.answer_flush_waiters(None);
            return Step::Idle;
        }
        if let Some(error) = self.wal.failure() {
            drop(lock);
            self.answer_flush_waiters(Some(&error));
            return Step::Idle;
        }
        if !self.flush_wanted() {
            return Step::Idle;
        }
        flusher.waiters = std::mem::take(&mut *self.flush_waiters.lock());
        // This attempt may succeed, and may take long.
        *self.flush_failure.lock() = None;
        self.barrier.store(db.lsn.0, Ordering::SeqCst);
        let first_open = self.open_txns.lock().values().min().copied();
        drop(lock);
        let next = db.lsn.next();
        let replay_from = first_open.map_or(next, |first| first.min(next));
        let event = self.wake_flusher_when_durable(db.lsn);
        flusher.phase = Phase::AwaitDurable { job: FlushJob { db, replay_from }, event };
        Step::Again
    }

    fn flush_wanted(&self) -> bool {
        self.memtable_bytes.load(Ordering::Relaxed) >= self.options.memtable_flush_bytes()
            || self.log_bytes_since_flush() >= self.options.log_flush_bytes
            || self.log_is_out_of_space()
            || !self.flush_waiters.lock().is_empty()
    }

    fn flush_table(&self, job: &FlushJob, id: TableId) -> Result<Option<Flushed>> {
        let Some(state) = job.db.tables.get(&id) else { return Ok(None) };
        if state.entries.is_empty() && state.series_count == state.series_persisted() {
            return Ok(None);
        }
        let flushed = state.flush(&self.env, &self.data_dir(), job.db.lsn, &mut || self.next_file())?;
        if let Some(segment) = &flushed.segment {
            self.counters.flush_bytes.fetch_add(segment.meta().bytes, Ordering::Relaxed);
        }
        Ok(Some(flushed))
    }

    fn finish_flush(&self, job: &FlushJob, done: FlushOutput) -> Result<()> {
        if done.parts.values().flat_map(BTreeMap::values).any(|part| part.file != 0) {
            let data = self.data_dir();
            let synced = self.env.sync_dir(&data);
            synced.map_err(|error| {
                self.remove_orphans(job.new_files(&done));
                Error::io(format!("sync folder {}", data.display()), &error)
            })?;
        }
        let mut manifest = self.manifest.lock();
        let replay_from = self.wal.beyond_marks(job.replay_from);
        let next = Manifest { replay_from, ..self.manifest_after_flush(&manifest, job, &done)? };
        self.write_manifest(&mut manifest, next, || job.new_files(&done))?;
        let done = done.tables;

        let mut lock = self.commit.lock();
        let mut db = (*self.versions.newest()).clone();
        for (id, flushed) in &done {
            let Some(state) = db.tables.get(id) else { continue };
            let state = state.with_flushed(flushed);
            db = db.with_state(*id, state);
        }
        self.memtable_bytes.store(db.memory_bytes(), Ordering::Relaxed);
        // Files of a table that was dropped or truncated while it was flushed.
        if manifest.row_files.iter().any(|(id, files)| is_obsolete(files, db.row_tables.get(id)))
            || manifest.files.iter().any(|(id, files)| !db.tables.contains_key(id) && !files.segments.is_empty())
        {
            lock.row_files_obsolete_since.get_or_insert(db.lsn);
        }
        self.versions.replace_newest(db);
        self.barrier.store(0, Ordering::SeqCst);
        let (obsolete, kept) = std::mem::take(&mut lock.dropped).into_iter().partition(|(lsn, _)| *lsn <= job.db.lsn);
        lock.dropped = kept;
        drop(lock);
        drop(manifest);

        self.discard_tables(obsolete, &[]);
        self.remove_series_files(done.values().flat_map(|flushed| &flushed.obsolete));
        self.counters.flushes.fetch_add(1, Ordering::Relaxed);
        self.flushed_log_bytes.store(self.counters.log_bytes.load(Ordering::Relaxed), Ordering::Relaxed);
        self.replayed_log_bytes.store(0, Ordering::Relaxed);
        if let Err(error) = self.wal.remove_below(replay_from) {
            tracing::warn!(%error, "old log files could not be removed; the next flush will retry");
        }
        self.release_memory_waiters();
        self.wake_compactor();
        Ok(())
    }

    fn manifest_after_flush(&self, old: &Manifest, job: &FlushJob, done: &FlushOutput) -> Result<Manifest> {
        let newest = self.versions.newest();
        let mut files = BTreeMap::new();
        for table in job.db.catalog.tables() {
            let id = table.id;
            let old = old.files.get(&id).cloned().unwrap_or_default();
            let flushed = match done.tables.get(&id) {
                None => old,
                Some(flushed) => match newest.tables.get(&id) {
                    // The newest state includes compactions that finished meanwhile.
                    Some(state) => state.with_flushed(flushed).files(),
                    // Dropped meanwhile, but the DROP may not be durable: the table keeps the
                    // segments that the last manifest names, because compaction may have replaced
                    // those of the flushed version before the DROP.
                    None => {
                        let mut files = job.db.state(id)?.with_flushed(flushed).files();
                        files.kept_from = old.kept_from;
                        files.segments = old.segments;
                        files.segments.extend(flushed.segment.iter().map(|segment| segment.meta().clone()));
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
            next_file: self.file_count(),
            next_table: self.next_table.load(Ordering::Relaxed),
            wall_ns: job.db.wall_ns,
            catalog: Arc::clone(&job.db.catalog),
            files,
            row_files: row_files(old, job, done),
            // Values reserved since the flushed commit are skipped if a crash undoes the commits
            // that reserved them.
            sequences: job.db.counters.iter().map(|(id, counter)| (*id, counter.logged())).collect(),
            retention_ns: self.retention_ns.load(Ordering::SeqCst).max(job.db.retention_ns),
            stored: Stored::default(),
        })
    }

    /// Makes `next` the manifest, then removes files that earlier failed attempts left.
    pub(crate) fn write_manifest(
        &self,
        manifest: &mut Manifest,
        mut next: Manifest,
        new: impl FnOnce() -> OrphanFiles,
    ) -> Result<()> {
        self.check_manifest(manifest, &next);
        let written = manifest.replace_by(&mut next, &*self.env, &self.dir);
        let mut orphans = self.orphans.lock();
        if let Err(error) = written {
            let new = new();
            orphans.segments.extend(new.segments);
            orphans.series_files.extend(new.series_files);
            orphans.row_files.extend(new.row_files);
            return Err(error);
        }
        let old = std::mem::replace(manifest, next);
        let mut removable = std::mem::take(&mut *orphans);
        drop(orphans);
        let named: BTreeSet<u64> = manifest.row_files.values().flat_map(RowFiles::files).collect();
        removable
            .row_files
            .extend(old.row_files.values().flat_map(RowFiles::files).filter(|file| !named.contains(file)));
        // Series files of existing tables are removed by the flush that replaced them.
        let dropped = old.files.iter().filter(|(id, _)| !manifest.files.contains_key(id));
        removable.series_files.extend(dropped.flat_map(|(_, files)| files.series_files.iter().map(|file| file.file)));
        self.remove_orphans(removable);
        Ok(())
    }

    /// Asserts the invariants between a manifest and its successor. Files and log are removed
    /// according to it, so a wrong one must not be written.
    fn check_manifest(&self, old: &Manifest, next: &Manifest) {
        let durable = self.wal.durable();
        let (flushed, replay_from) = (next.flushed_lsn, next.replay_from);
        assert!(flushed >= old.flushed_lsn, "BUG: flushed up to {flushed} after {}", old.flushed_lsn);
        assert!(replay_from >= old.replay_from, "BUG: the log from {replay_from} after {}", old.replay_from);
        assert!(flushed <= durable, "BUG: flushed up to {flushed}, the log is durable up to {durable}");
        // Beyond the flushed commits the log may hold durable marks, which replay does not need.
        let end =
            if next.flushed_lsn == old.flushed_lsn { old.replay_from.max(flushed.next()) } else { durable.next() };
        assert!(replay_from <= end, "BUG: the log is wanted from {replay_from}, there may be commits from {end} on");
        assert!(next.next_file >= old.next_file, "BUG: files are numbered from {} again", next.next_file);
    }

    fn remove_orphans(&self, orphans: OrphanFiles) {
        orphans.segments.iter().for_each(|segment| segment.remove_when_unused());
        self.remove_series_files(&orphans.series_files);
        for file in orphans.row_files {
            let path = row_file_path(&self.data_dir(), file);
            match self.env.remove(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    tracing::warn!(path = %path.display(), %error, "an unused checkpoint file could not be removed; the next start will retry");
                }
                _ => {}
            }
        }
    }

    fn remove_series_files<'a>(&self, files: impl IntoIterator<Item = &'a u64>) {
        for file in files {
            let path = columns::series_path(&self.data_dir(), *file);
            if let Err(error) = self.env.remove(&path) {
                tracing::warn!(path = %path.display(), %error, "an unused series file could not be removed; the next start will retry");
            }
        }
    }

    fn abandon_flush(&self, flusher: &mut Flusher) {
        if let Phase::Write { job, done, .. } | Phase::AwaitRows { job, done, .. } = std::mem::take(&mut flusher.phase)
        {
            // Files that were written but never named by a manifest. (Files of a failed manifest
            // write are not in `phase`.)
            self.remove_orphans(job.new_files(&done));
        }
        self.barrier.store(0, Ordering::SeqCst);
    }

    /// Merges small memtable entries of tables that were just written to. Runs on the writer's
    /// thread, so that the writer pays for it; skipped while another writer does it.
    pub(crate) fn consolidate(&self, tables: &[TableId]) {
        let Some(_one_at_a_time) = self.consolidating.try_lock() else { return };
        for id in tables {
            let barrier = self.barrier.load(Ordering::SeqCst);
            let db = self.versions.newest();
            let Some(done) = db.tables.get(id).and_then(|state| state.consolidate(Lsn(barrier))) else { continue };
            drop(db);
            let lock = self.commit.lock();
            if self.barrier.load(Ordering::SeqCst) == barrier {
                let db = self.versions.newest();
                if let Some(state) = db.tables.get(id).and_then(|state| state.with_consolidated(&done)) {
                    self.versions.replace_newest(db.with_state(*id, state));
                }
            }
            drop(lock);
        }
    }

    /// `error` may be `None` only when nothing is left to flush.
    pub(crate) fn answer_flush_waiters(&self, error: Option<&Error>) {
        answer(std::mem::take(&mut *self.flush_waiters.lock()), error);
    }

    /// Answers the callers of the current flush, once the flusher has stopped.
    pub(crate) fn release_flush(&self) {
        let waiters = std::mem::take(&mut self.flusher.lock().waiters);
        answer(waiters, Some(&closing()));
    }

    /// Answers all other callers that wait for background work.
    pub(crate) fn release_waiters(&self) {
        self.answer_flush_waiters(Some(&closing()));
        answer(std::mem::take(&mut *self.settle_waiters.lock()), Some(&closing()));
        self.release_memory_waiters();
    }
}

impl FlushJob {
    /// Files that this flush has written.
    fn new_files(&self, done: &FlushOutput) -> OrphanFiles {
        let mut new = OrphanFiles::default();
        new.row_files.extend(done.writing.iter().map(RowPartWriter::file));
        let parts = done.parts.values().flat_map(BTreeMap::values);
        new.row_files.extend(parts.map(|part| part.file).filter(|file| *file != 0));
        for (id, flushed) in &done.tables {
            new.segments.extend(flushed.segment.clone());
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

pub(crate) fn answer(waiters: Vec<Waiter>, error: Option<&Error>) {
    for waiter in waiters {
        *waiter.error.lock() = error.cloned();
        waiter.event.set();
    }
}

/// A caller that waits for a flush or for compactions.
pub(crate) struct Waiter {
    pub(crate) event: Event,
    pub(crate) error: Arc<parking_lot::Mutex<Option<Error>>>,
}

/// Whether the files hold rows that the table no longer has, because it was dropped or truncated.
fn is_obsolete(files: &RowFiles, table: Option<&Arc<rows::RowTable>>) -> bool {
    !files.parts.is_empty() && table.is_none_or(|table| table.records.since() != files.since)
}

impl CommitState {
    /// Whether there may be files of dropped or truncated tables.
    pub(crate) fn frees_files(&self) -> bool {
        !self.dropped.is_empty() || self.row_files_obsolete_since.is_some()
    }

    /// Whether there may be files of tables dropped or truncated by a commit up to `lsn`.
    fn frees_files_by(&self, lsn: Lsn) -> bool {
        self.dropped.iter().any(|(dropped, _)| *dropped <= lsn)
            || self.row_files_obsolete_since.is_some_and(|obsolete| obsolete <= lsn)
    }
}
