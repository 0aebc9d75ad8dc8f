//! The compactor as step functions: first retention, then one compaction after the other, each in
//! steps of at most 4 MiB.
//!
//! Two workers share it. The one of normal priority applies retention, picks compactions and
//! installs their results, for which it takes locks that commits need. The one of low priority
//! merges, unless a caller waits or there is a backlog; then the normal worker merges. The rate
//! limit applies only while no caller waits, and is raised as the backlog grows (`rate_limiter`). A
//! worker that finds it is the other's turn wakes the other. There are two because a thread cannot
//! raise its priority again once lowered.
//!
//! Crash safety is explained in `flusher.rs`: no file is named before it is complete and synced.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use columns::{Compacted, Compacting, Compaction, TableState};
use env::Step;
use model::{Error, Result, TableId, TableRef};

use crate::engine::{CommitState, Counters, Inner, closing};
use crate::flusher::{OrphanFiles, RETRY_NS, answer};
use crate::rate_limiter::{self, BACKLOG, RateLimiter};
use crate::retention::{CHECK_INTERVAL_NS, Clock};

/// One of the two compaction workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    /// The worker of low priority.
    Low,
    /// The worker of normal priority.
    Normal,
}

/// State of the compactor between steps.
pub(crate) struct Compactor {
    retry_at: u64,
    retention: Clock,
    /// Monotonic time of the next retention check; `None` if no table has a retention and no
    /// compaction runs.
    next_retention_check: Option<u64>,
    active: Option<ActiveCompaction>,
    limiter: RateLimiter,
    /// Counts of flushes, compactions and segments dropped by retention at which the backlog was
    /// computed, and the backlog.
    backlog: (Option<[u64; 3]>, usize),
    /// The table whose compaction failed last. The next search starts after it, so that one damaged
    /// segment does not block the other tables.
    failed: Option<TableId>,
}

/// The running compaction.
struct ActiveCompaction {
    table: TableRef,
    compacting: Compacting,
    /// Whether merging is complete and the result can be installed.
    is_merged: bool,
}

impl Compactor {
    pub(crate) fn new(retention: Clock) -> Compactor {
        Compactor {
            retry_at: 0,
            retention,
            next_retention_check: None,
            active: None,
            limiter: RateLimiter::default(),
            backlog: (None, 0),
            failed: None,
        }
    }
}

impl Compactor {
    /// Returns the worker that should run at `now`.
    fn due_worker(&self, is_urgent: bool, now: u64) -> Priority {
        let is_merging = self.active.as_ref().is_some_and(|active| !active.is_merged);
        if is_merging && !is_urgent && !self.checks_retention(now) { Priority::Low } else { Priority::Normal }
    }

    fn checks_retention(&self, now: u64) -> bool {
        self.active.is_none() || self.next_retention_check.is_some_and(|at| at <= now)
    }

    fn failed(&mut self, table: &TableRef, error: Error) -> Error {
        self.failed = Some(table.id);
        error.context(format!("compaction of table {}", table.name))
    }
}

impl Inner {
    /// Applies retention, else continues or starts a compaction: one that is due, or while a caller
    /// waits any that is possible.
    pub(crate) fn compact_step(&self, own: Priority) -> Step {
        let mut compactor = self.compactor.lock();
        let now = self.env.monotonic_ns();
        if compactor.retry_at > now {
            return Step::Until(compactor.retry_at);
        }
        let callers = self.settle_waiters.lock().len();
        let backlog = self.backlog(&mut compactor);
        let due_worker = compactor.due_worker(callers > 0 || backlog > BACKLOG, now);
        if due_worker != own {
            drop(compactor);
            self.wake_compaction_worker(due_worker);
            return Step::Idle;
        }
        let limit = if callers > 0 { None } else { rate_limiter::limit(self.options.compaction_rate, backlog) };
        match self.compact_some(&mut compactor, callers > 0, limit) {
            Ok(Some(step)) => step,
            Ok(None) => {
                // Compactions that closing leaves undone are an error for the callers.
                let closing_error = self.closing.load(Ordering::SeqCst).then(closing);
                self.answer_settle_waiters(callers, closing_error.as_ref());
                compactor.next_retention_check.map_or(Step::Idle, Step::Until)
            }
            Err(error) => {
                tracing::warn!(%error, "compaction failed; its inputs are kept and it will be tried again");
                self.answer_settle_waiters(callers, Some(&error));
                compactor.retry_at = now + RETRY_NS;
                Step::Until(compactor.retry_at)
            }
        }
    }

    /// Returns the largest compaction backlog of any table; computed again when segments were added
    /// or removed.
    fn backlog(&self, compactor: &mut Compactor) -> usize {
        let Counters { flushes, compactions, retention_segments, .. } = &self.counters;
        let as_of = [flushes, compactions, retention_segments].map(|counter| counter.load(Ordering::Relaxed));
        if compactor.backlog.0 != Some(as_of) {
            let db = self.versions.newest();
            let most = db.tables.values().map(|state| state.compaction_backlog()).max().unwrap_or(0);
            compactor.backlog = (Some(as_of), most);
            self.counters.compaction_backlog.store(most as u64, Ordering::Relaxed);
        }
        compactor.backlog.1
    }

    /// Answers the first `callers` callers. Later ones asked during the step and are left to the
    /// next step, which they requested.
    fn answer_settle_waiters(&self, callers: usize, error: Option<&Error>) {
        let mut waiters = self.settle_waiters.lock();
        // Fewer if closing has already answered them.
        let callers = callers.min(waiters.len());
        let answered = waiters.drain(..callers).collect();
        drop(waiters);
        answer(answered, error);
    }

    /// Runs one step and returns when to continue; `None` when nothing is left to do or the engine
    /// is closing.
    fn compact_some(&self, compactor: &mut Compactor, settling: bool, limit: Option<u64>) -> Result<Option<Step>> {
        let now = self.env.monotonic_ns();
        if self.drop_covered_segments()? {
            return Ok(Some(Step::Again));
        }
        if compactor.checks_retention(now) {
            let (dropped, next_check) =
                self.retain(&mut compactor.retention).map_err(|error| error.context("retention"))?;
            compactor.next_retention_check =
                next_check.or(compactor.active.is_some().then_some(now + CHECK_INTERVAL_NS));
            if dropped {
                return Ok(Some(Step::Again));
            }
        }
        if self.closing.load(Ordering::SeqCst) {
            return Ok(None);
        }
        self.cancel_obsolete(compactor);
        let Some(active) = &compactor.active else {
            self.end_wait(compactor, now);
            return Ok(self.start_compaction(compactor, settling)?.then_some(Step::Again));
        };
        if limit.is_some()
            && !active.is_merged
            && let Some(at) = compactor.limiter.wait(now)
        {
            return Ok(Some(Step::Until(compactor.next_retention_check.map_or(at, |next_check| next_check.min(at)))));
        }
        self.end_wait(compactor, now);
        self.advance(compactor, limit)?;
        Ok(Some(Step::Again))
    }

    fn end_wait(&self, compactor: &mut Compactor, now: u64) {
        self.counters.compaction_wait_ns.fetch_add(compactor.limiter.end_wait(now), Ordering::Relaxed);
    }

    /// Cancels a compaction whose table was dropped or whose inputs retention removed.
    fn cancel_obsolete(&self, compactor: &mut Compactor) {
        let db = self.versions.newest();
        let is_obsolete = |active: &mut ActiveCompaction| {
            let state = db.tables.get(&active.table.id);
            !state.is_some_and(|state| active.compacting.compaction().is_of(state))
        };
        drop(compactor.active.take_if(is_obsolete));
    }

    /// Picks and starts a compaction; false when there is none.
    fn start_compaction(&self, compactor: &mut Compactor, settling: bool) -> Result<bool> {
        let db = self.versions.newest();
        let behind = compactor.failed.take();
        let later = db.tables.iter().filter(|(id, _)| Some(**id) > behind);
        let earlier = db.tables.iter().filter(|(id, _)| Some(**id) <= behind);
        let mut picked = later.chain(earlier).filter_map(|(_, state)| {
            let compaction = pick(state, settling).transpose()?;
            Some((Arc::clone(&state.table), compaction))
        });
        let Some((table, compaction)) = picked.next() else { return Ok(false) };
        drop(picked);
        // It would keep memory and files for as long as the compaction runs.
        drop(db);
        let started = compaction.and_then(|compaction| compaction.start(&self.env, &self.data_dir()));
        let compacting = started.map_err(|error| compactor.failed(&table, error))?;
        compactor.active = Some(ActiveCompaction { table, compacting, is_merged: false });
        compactor.next_retention_check.get_or_insert(self.env.monotonic_ns() + CHECK_INTERVAL_NS);
        Ok(true)
    }

    /// Runs one step of the running compaction, or installs its result.
    fn advance(&self, compactor: &mut Compactor, limit: Option<u64>) -> Result<()> {
        let Some(mut active) = compactor.active.take() else { return Ok(()) };
        if active.is_merged {
            let installed = self.install_compacted(active.table.id, &active.compacting.finish());
            return installed.map_err(|error| compactor.failed(&active.table, error));
        }
        let before = active.compacting.moved();
        let stepped = active.compacting.step(rate_limiter::step_bytes(limit), &mut || self.next_file());
        let after = active.compacting.moved();
        self.counters.compaction_read_bytes.fetch_add(after.read - before.read, Ordering::Relaxed);
        if let Some(rate) = limit {
            compactor.limiter.spend(after.total() - before.total(), rate, self.env.monotonic_ns());
        }
        active.is_merged = !stepped.map_err(|error| compactor.failed(&active.table, error))?;
        compactor.active = Some(active);
        Ok(())
    }

    /// Order: manifest, database version, replaced files.
    fn install_compacted(&self, id: TableId, done: &Compacted) -> Result<()> {
        let mut manifest = self.manifest.lock();
        let newest = self.versions.newest();
        let (Some(state), true) = (newest.tables.get(&id), manifest.files.contains_key(&id)) else {
            // The table was dropped meanwhile.
            done.outputs.iter().for_each(|segment| segment.remove_when_unused());
            return Ok(());
        };
        let files = state.with_compacted(done).files();
        let mut next = manifest.clone();
        next.files.insert(id, files);
        next.next_file = self.file_count();
        self.write_manifest(&mut manifest, next, || OrphanFiles::segments(&done.outputs))?;

        let mut lock = self.commit.lock();
        let db = self.versions.newest();
        match db.tables.get(&id) {
            Some(state) => self.versions.replace_newest(db.with_state(id, state.with_compacted(done))),
            None => lock.compacted_after_drop(id, done),
        }
        done.inputs.iter().for_each(|segment| segment.remove_when_unused());
        drop(lock);
        let written: u64 = done.outputs.iter().map(|segment| segment.meta().bytes).sum();
        self.counters.compactions.fetch_add(1, Ordering::Relaxed);
        self.counters.compaction_bytes.fetch_add(written, Ordering::Relaxed);
        Ok(())
    }

    /// Removes the output of a running compaction; both workers have stopped.
    pub(crate) fn abandon_compaction(&self) {
        self.compactor.lock().active = None;
    }
}

impl CommitState {
    /// The table was dropped while its segments were merged: the drop now removes the merged
    /// segments.
    pub(crate) fn compacted_after_drop(&mut self, id: TableId, done: &Compacted) {
        for (_, state) in self.dropped.iter_mut().filter(|(_, state)| state.table.id == id) {
            *state = Arc::new(state.with_compacted(done));
        }
    }
}

fn pick(state: &TableState, settling: bool) -> Result<Option<Compaction>> {
    if settling { state.pick_settling() } else { Ok(state.pick_compaction()) }
}
