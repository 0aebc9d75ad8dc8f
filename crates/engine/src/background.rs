//! Work behind the scenes, as step functions: flushing the log, flushing memtables, compaction, the governor that wakes slowed writers.
//!
//! Order that makes a crash harmless: files are written and synced, then the manifest names them, then the new root uses them, then what
//! they replace is removed. After a failed manifest write nothing is removed, because the old or the new one may be on disk.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use columns::{Compacted, Compaction, Flushed, Segment, TableState};
use env::{Event, Step};
use model::{Error, Lsn, Result, TableId};

use crate::engine::{CommitState, Inner, closing};
use crate::manifest::Manifest;
use crate::root::Root;

/// After a failed flush or compaction (a full disk, usually) the next try waits this long.
const RETRY_NS: u64 = 1_000_000_000;

/// What the memtable flusher is doing.
#[derive(Default)]
pub(crate) struct Flusher {
    phase: Phase,
    /// Those who asked before the flush in hand began: it answers them, whatever is committed meanwhile.
    waiters: Vec<Waiter>,
    retry_at: u64,
}

/// What the compactor remembers between steps.
#[derive(Default)]
pub(crate) struct Compactor {
    retry_at: u64,
    /// The table whose compaction failed last: the search goes on behind it, so that one damaged segment does not keep
    /// the other tables from being compacted.
    failed: Option<TableId>,
}

/// Files of a flush or compaction whose manifest could not be written. The manifest on disk may name them, so they stay
/// until a later one is there, which does not.
#[derive(Default)]
pub(crate) struct Doubtful {
    segments: Vec<Arc<Segment>>,
    series_files: Vec<u64>,
}

#[derive(Default)]
enum Phase {
    #[default]
    Idle,
    /// Waits until `root` is durable: a segment must not hold what a crash could take back.
    AwaitDurable { job: Job, event: Event },
    /// Writes one table a step.
    Write { job: Job, todo: VecDeque<TableId>, done: BTreeMap<TableId, Flushed> },
}

struct Job {
    root: Arc<Root>,
    replay_from: Lsn,
}

impl Inner {
    /// The log's flusher.
    pub(crate) fn log_step(&self) -> Step {
        let step = self.wal.flush_step(&|lsn| self.roots.advance(lsn));
        if self.log_starves() {
            self.wake_flusher();
        }
        step
    }

    /// Does the log find no room while a flush would free files of its own? Segments hold the same rows in a fraction of the bytes.
    /// A flush frees every file but the one being written, so one is worth it when about half of that is full again.
    fn log_starves(&self) -> bool {
        self.log_bytes_since_flush() >= self.options.log_file_bytes / 2 && self.wal.out_of_space().is_some()
    }

    /// Writes memtables to segments when they are large, the log is long, or somebody asked.
    pub(crate) fn flush_step(self: &Arc<Self>) -> Step {
        let mut flusher = self.flusher.lock();
        let now = self.env.monotonic_ns();
        if flusher.retry_at > now {
            return Step::Until(flusher.retry_at);
        }
        match self.flush_phase(&mut flusher) {
            Ok(step) => step,
            Err(error) => {
                tracing::warn!(%error, "flush failed; memtables are kept and it will be tried again");
                self.abandon_flush(&mut flusher);
                answer(std::mem::take(&mut flusher.waiters), Some(&error));
                flusher.retry_at = now + RETRY_NS;
                Step::Until(flusher.retry_at)
            }
        }
    }

    fn flush_phase(self: &Arc<Self>, flusher: &mut Flusher) -> Result<Step> {
        match std::mem::take(&mut flusher.phase) {
            Phase::Idle => Ok(self.begin_flush(flusher)),
            Phase::AwaitDurable { job, event } => {
                if self.wal.durable() >= job.root.lsn {
                    let todo = job.root.tables.keys().copied().collect();
                    flusher.phase = Phase::Write { job, todo, done: BTreeMap::new() };
                    return Ok(Step::Again);
                }
                if let Some(error) = self.wal.failure() {
                    return Err(error);
                }
                flusher.phase = Phase::AwaitDurable { job, event };
                Ok(Step::Idle)
            }
            Phase::Write { job, mut todo, mut done } => {
                while let Some(id) = todo.pop_front() {
                    let written = self.flush_table(&job, id);
                    match written {
                        Ok(None) => continue,
                        Ok(Some(flushed)) => {
                            done.insert(id, flushed);
                            flusher.phase = Phase::Write { job, todo, done };
                            return Ok(Step::Again);
                        }
                        Err(error) => {
                            flusher.phase = Phase::Write { job, todo, done };
                            return Err(error.context(format!("flush of table number {id}")));
                        }
                    }
                }
                self.finish_flush(&job, done)?;
                answer(std::mem::take(&mut flusher.waiters), None);
                Ok(Step::Again)
            }
        }
    }

    fn begin_flush(self: &Arc<Self>, flusher: &mut Flusher) -> Step {
        let flushed_lsn = self.manifest.lock().flushed_lsn;
        let lock = self.commit.lock();
        let root = self.roots.newest();
        if root.lsn == flushed_lsn {
            drop(lock);
            self.answer_flush_waiters(None);
            return Step::Idle;
        }
        if let Some(error) = self.wal.failure() {
            drop(lock);
            self.answer_flush_waiters(Some(&error));
            return Step::Idle;
        }
        if !self.flush_wanted(&lock.dropped) {
            return Step::Idle;
        }
        flusher.waiters = std::mem::take(&mut *self.flush_waiters.lock());
        self.barrier.store(root.lsn.0, Ordering::SeqCst);
        let first_open = self.open_txns.lock().values().min().copied();
        drop(lock);
        let next = root.lsn.next();
        let replay_from = first_open.map_or(next, |first| first.min(next));
        let event = self.wal.when_durable(root.lsn);
        let waker = Arc::downgrade(self);
        event.on_set(move || {
            if let Some(inner) = waker.upgrade() {
                inner.wake_flusher();
            }
        });
        flusher.phase = Phase::AwaitDurable { job: Job { root, replay_from }, event };
        Step::Again
    }

    fn flush_wanted(&self, dropped: &[(Lsn, Arc<TableState>)]) -> bool {
        self.memtable_bytes.load(Ordering::Relaxed) >= self.options.memtable_flush_bytes()
            || self.log_bytes_since_flush() >= self.options.log_flush_bytes
            || self.log_starves()
            || !dropped.is_empty()
            || !self.flush_waiters.lock().is_empty()
    }

    fn flush_table(&self, job: &Job, id: TableId) -> Result<Option<Flushed>> {
        let Some(state) = job.root.tables.get(&id) else { return Ok(None) };
        if state.entries.is_empty() && state.series_count == state.series_persisted() {
            return Ok(None);
        }
        let flushed = state.flush(&self.env, &self.data_dir(), job.root.lsn, &mut || self.next_file())?;
        if let Some(segment) = &flushed.segment {
            self.counters.flush_bytes.fetch_add(segment.meta().bytes, Ordering::Relaxed);
        }
        Ok(Some(flushed))
    }

    fn finish_flush(&self, job: &Job, done: BTreeMap<TableId, Flushed>) -> Result<()> {
        let mut manifest = self.manifest.lock();
        let next = self.manifest_after_flush(&manifest, job, &done)?;
        self.write_manifest(&mut manifest, next, || job.new_files(&done))?;

        let mut lock = self.commit.lock();
        let mut root = (*self.roots.newest()).clone();
        for (id, flushed) in &done {
            let Some(state) = root.tables.get(id) else { continue };
            let state = state.with_flushed(flushed);
            root = root.with_state(*id, state);
        }
        self.memtable_bytes.store(root.memory_bytes(), Ordering::Relaxed);
        self.roots.replace_newest(root);
        self.barrier.store(0, Ordering::SeqCst);
        let (gone, kept) = std::mem::take(&mut lock.dropped).into_iter().partition(|(lsn, _)| *lsn <= job.root.lsn);
        lock.dropped = kept;
        drop(lock);
        drop(manifest);

        discard_tables(gone);
        self.remove_series_files(done.values().flat_map(|flushed| &flushed.obsolete));
        self.counters.flushes.fetch_add(1, Ordering::Relaxed);
        self.flushed_log_bytes.store(self.counters.log_bytes.load(Ordering::Relaxed), Ordering::Relaxed);
        if let Err(error) = self.wal.remove_below(job.replay_from) {
            tracing::warn!(%error, "old log files stay until the next flush");
        }
        self.release_memory_waiters();
        self.wake_compactor();
        Ok(())
    }

    fn manifest_after_flush(&self, old: &Manifest, job: &Job, done: &BTreeMap<TableId, Flushed>) -> Result<Manifest> {
        let newest = self.roots.newest();
        let mut files = BTreeMap::new();
        for table in job.root.catalog.tables() {
            let id = table.id;
            let old = old.files.get(&id).cloned().unwrap_or_default();
            let flushed = match done.get(&id) {
                None => old,
                Some(flushed) => match newest.tables.get(&id) {
                    // The newest state knows what compaction did meanwhile.
                    Some(state) => state.with_flushed(flushed).files(),
                    // Dropped since, but the DROP may not be durable yet: the table is kept, with the segments that the last manifest
                    // names, because those of the flushed root may have been compacted away before the DROP.
                    None => {
                        let mut files = job.root.state(id)?.with_flushed(flushed).files();
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
            flushed_lsn: job.root.lsn,
            replay_from: job.replay_from,
            next_file: self.file_count(),
            next_table: self.next_table.load(Ordering::Relaxed),
            wall_ns: job.root.wall_ns,
            catalog: Arc::clone(&job.root.catalog),
            files,
        })
    }

    /// Replaces the manifest, and then removes what earlier attempts left behind.
    fn write_manifest(&self, manifest: &mut Manifest, next: Manifest, new: impl FnOnce() -> Doubtful) -> Result<()> {
        let written = next.write(&*self.env, &self.dir);
        let mut doubtful = self.doubtful.lock();
        if let Err(error) = written {
            let new = new();
            doubtful.segments.extend(new.segments);
            doubtful.series_files.extend(new.series_files);
            return Err(error);
        }
        *manifest = next;
        let unnamed = std::mem::take(&mut *doubtful);
        drop(doubtful);
        self.remove_unnamed(unnamed);
        Ok(())
    }

    fn remove_unnamed(&self, unnamed: Doubtful) {
        unnamed.segments.iter().for_each(|segment| segment.remove_when_unused());
        self.remove_series_files(&unnamed.series_files);
    }

    fn remove_series_files<'a>(&self, files: impl IntoIterator<Item = &'a u64>) {
        for file in files {
            let path = columns::series_path(&self.data_dir(), *file);
            if let Err(error) = self.env.remove(&path) {
                tracing::warn!(path = %path.display(), %error, "an unused series file stays until the next start");
            }
        }
    }

    fn abandon_flush(&self, flusher: &mut Flusher) {
        if let Phase::Write { job, done, .. } = std::mem::take(&mut flusher.phase) {
            // Written but never named by a manifest. (A failed manifest write does not come here with its files.)
            self.remove_unnamed(job.new_files(&done));
        }
        self.barrier.store(0, Ordering::SeqCst);
    }

    /// Merges segments, one compaction a step: what is due, or all that can be while somebody waits for that.
    pub(crate) fn compact_step(&self) -> Step {
        let mut compactor = self.compactor.lock();
        let now = self.env.monotonic_ns();
        if compactor.retry_at > now {
            return Step::Until(compactor.retry_at);
        }
        let asked = self.settle_waiters.lock().len();
        match self.compact_once(&mut compactor, asked > 0) {
            Ok(true) => Step::Again,
            Ok(false) => {
                // Told to stop, it leaves the rest undone.
                let stopped = self.closing.load(Ordering::SeqCst).then(closing);
                self.answer_settle_waiters(asked, stopped.as_ref());
                Step::Idle
            }
            Err(error) => {
                tracing::warn!(%error, "compaction failed; its inputs are kept and it will be tried again");
                self.answer_settle_waiters(asked, Some(&error));
                compactor.retry_at = now + RETRY_NS;
                Step::Until(compactor.retry_at)
            }
        }
    }

    /// Whoever asked during the step is left to the next one, which the asking has called for.
    fn answer_settle_waiters(&self, asked: usize, error: Option<&Error>) {
        let mut waiters = self.settle_waiters.lock();
        // Fewer when closing has let them go.
        let asked = asked.min(waiters.len());
        let answered = waiters.drain(..asked).collect();
        drop(waiters);
        answer(answered, error);
    }

    fn compact_once(&self, compactor: &mut Compactor, settling: bool) -> Result<bool> {
        let root = self.roots.newest();
        let behind = compactor.failed.take();
        let later = root.tables.iter().filter(|(id, _)| Some(**id) > behind);
        let earlier = root.tables.iter().filter(|(id, _)| Some(**id) <= behind);
        let mut picked = later.chain(earlier).filter_map(|(_, state)| {
            let compaction = pick(state, settling).transpose()?;
            Some((Arc::clone(&state.table), compaction))
        });
        let Some((table, compaction)) = picked.next() else { return Ok(false) };
        drop(picked);
        // It would keep memory and files for as long as the compaction takes.
        drop(root);
        compaction.and_then(|compaction| self.compact(table.id, &compaction)).map_err(|error| {
            compactor.failed = Some(table.id);
            error.context(format!("compaction of table {}", table.name))
        })
    }

    /// False when told to stop.
    fn compact(&self, id: TableId, compaction: &Compaction) -> Result<bool> {
        let dir = self.data_dir();
        let keep_going = || !self.closing.load(Ordering::Relaxed);
        let Some(done) = compaction.run(&self.env, &dir, &mut || self.next_file(), &keep_going)? else {
            return Ok(false);
        };
        let mut manifest = self.manifest.lock();
        let newest = self.roots.newest();
        let (Some(state), true) = (newest.tables.get(&id), manifest.files.contains_key(&id)) else {
            // Dropped meanwhile.
            done.outputs.iter().for_each(|segment| segment.remove_when_unused());
            return Ok(true);
        };
        let files = state.with_compacted(&done).files();
        let mut next = manifest.clone();
        next.files.insert(id, files);
        next.next_file = self.file_count();
        let outputs = || Doubtful { segments: done.outputs.clone(), series_files: Vec::new() };
        self.write_manifest(&mut manifest, next, outputs)?;

        let mut lock = self.commit.lock();
        let root = self.roots.newest();
        match root.tables.get(&id) {
            Some(state) => self.roots.replace_newest(root.with_state(id, state.with_compacted(&done))),
            None => lock.compacted_after_drop(id, &done),
        }
        done.inputs.iter().for_each(|segment| segment.remove_when_unused());
        drop(lock);
        let written: u64 = done.outputs.iter().map(|segment| segment.meta().bytes).sum();
        self.counters.compactions.fetch_add(1, Ordering::Relaxed);
        self.counters.compaction_bytes.fetch_add(written, Ordering::Relaxed);
        Ok(true)
    }

    /// Merges small memtable entries of tables just written to. On the writer's thread, so that it is paid by who causes it; if another
    /// writer is at it, it is left to that one.
    pub(crate) fn consolidate(&self, tables: &[TableId]) {
        let Some(_one_at_a_time) = self.consolidating.try_lock() else { return };
        for id in tables {
            let barrier = self.barrier.load(Ordering::SeqCst);
            let root = self.roots.newest();
            let Some(done) = root.tables.get(id).and_then(|state| state.consolidate(Lsn(barrier))) else { continue };
            drop(root);
            let lock = self.commit.lock();
            if self.barrier.load(Ordering::SeqCst) == barrier {
                let root = self.roots.newest();
                if let Some(state) = root.tables.get(id).and_then(|state| state.with_consolidated(&done)) {
                    self.roots.replace_newest(root.with_state(*id, state));
                }
            }
            drop(lock);
        }
    }

    /// Wakes writers whose delay is over.
    pub(crate) fn governor_step(&self) -> Step {
        let now = self.env.monotonic_ns();
        let mut delayed = self.delayed.lock();
        let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut *delayed).into_iter().partition(|(at, _)| *at <= now);
        *delayed = later;
        let next = delayed.iter().map(|(at, _)| *at).min();
        drop(delayed);
        for (_, event) in due {
            event.set();
        }
        next.map_or(Step::Idle, Step::Until)
    }

    /// Called with `None` only when nothing is left to flush.
    pub(crate) fn answer_flush_waiters(&self, error: Option<&Error>) {
        answer(std::mem::take(&mut *self.flush_waiters.lock()), error);
    }

    /// Lets those go whose flush the flusher has in hand, once it has stopped.
    pub(crate) fn release_flush(&self) {
        let waiters = std::mem::take(&mut self.flusher.lock().waiters);
        answer(waiters, Some(&closing()));
    }

    /// Lets everyone else go who waits for work behind the scenes.
    pub(crate) fn release_waiters(&self) {
        self.answer_flush_waiters(Some(&closing()));
        answer(std::mem::take(&mut *self.settle_waiters.lock()), Some(&closing()));
        self.release_memory_waiters();
    }
}

impl CommitState {
    /// The table was dropped while its segments were merged: what goes with the drop is now the merged ones.
    fn compacted_after_drop(&mut self, id: TableId, done: &Compacted) {
        for (_, state) in self.dropped.iter_mut().filter(|(_, state)| state.table.id == id) {
            *state = Arc::new(state.with_compacted(done));
        }
    }
}

impl Job {
    /// Files that this flush has written.
    fn new_files(&self, done: &BTreeMap<TableId, Flushed>) -> Doubtful {
        let mut new = Doubtful::default();
        for (id, flushed) in done {
            new.segments.extend(flushed.segment.clone());
            let old = self.root.tables.get(id).map(|state| &*state.series_files).unwrap_or_default();
            let made = flushed.series_files.iter().filter(|file| !old.contains(file));
            new.series_files.extend(made.map(|file| file.file));
        }
        new
    }
}

fn pick(state: &TableState, settling: bool) -> Result<Option<Compaction>> {
    if settling { state.pick_settling() } else { Ok(state.pick_compaction()) }
}

fn answer(waiters: Vec<Waiter>, error: Option<&Error>) {
    for waiter in waiters {
        *waiter.error.lock() = error.cloned();
        waiter.event.set();
    }
}

/// Somebody who asked for a flush or for compactions.
pub(crate) struct Waiter {
    pub(crate) event: Event,
    pub(crate) error: Arc<parking_lot::Mutex<Option<Error>>>,
}

fn discard_tables(gone: Vec<(Lsn, Arc<TableState>)>) {
    for (_, state) in gone {
        state.segments.iter().for_each(|segment| segment.remove_when_unused());
    }
}
