//! The compactor as step functions: first retention, then one compaction after the other, each in
//! steps of at most 4 MiB.
//!
//! Two workers share it. The one of normal priority applies retention, picks compactions and
//! installs their results, for which it takes locks that commits need. The one of low priority
//! merges, unless a caller waits or there is a backlog; then the normal worker merges. The rate
//! limit applies only while no caller waits, and is raised as the backlog grows (`pace`). A worker
//! that finds it is the other's turn wakes the other. There are two because a thread cannot raise
//! its priority again once lowered.
//!
//! Crash safety is explained in `background.rs`: no file is named before it is complete and synced.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use columns::{Compacted, Compacting, Compaction, TableState};
use env::Step;
use model::{Error, Result, TableId, TableRef};

use crate::background::{Doubtful, RETRY_NS, answer};
use crate::engine::{CommitState, Counters, Inner, closing};
use crate::pace::{self, BACKLOG, Pace};
use crate::retention::{Clock, LOOK_NS};

/// One of the two compaction workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
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
    look_at: Option<u64>,
    work: Option<Work>,
    pace: Pace,
    /// Counts of flushes, compactions and segments dropped by retention at which the backlog was
    /// computed, and the backlog.
    backlog: (Option<[u64; 3]>, usize),
    /// The table whose compaction failed last. The next search starts after it, so that one damaged
    /// segment does not block the other tables.
    failed: Option<TableId>,
}

/// The running compaction.
struct Work {
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
            look_at: None,
            work: None,
            pace: Pace::default(),
            backlog: (None, 0),
            failed: None,
        }
    }
}

impl Compactor {
    /// Returns the worker that should run at `now`.
    fn turn(&self, is_urgent: bool, now: u64) -> Turn {
        let is_merging = self.work.as_ref().is_some_and(|work| !work.is_merged);
        if is_merging && !is_urgent && !self.looks_at_retention(now) { Turn::Low } else { Turn::Normal }
    }

    fn looks_at_retention(&self, now: u64) -> bool {
        self.work.is_none() || self.look_at.is_some_and(|at| at <= now)
    }

    fn failed(&mut self, table: &TableRef, error: Error) -> Error {
        self.failed = Some(table.id);
        error.context(format!("compaction of table {}", table.name))
    }
}

impl Inner {
    /// Applies retention, else continues or starts a compaction: one that is due, or while a caller
    /// waits any that is possible.
    pub(crate) fn compact_step(&self, own: Turn) -> Step {
        let mut compactor = self.compactor.lock();
        let now = self.env.monotonic_ns();
        if compactor.retry_at > now {
            return Step::Until(compactor.retry_at);
        }
        let asked = self.settle_waiters.lock().len();
        let backlog = self.backlog(&mut compactor);
        let turn = compactor.turn(asked > 0 || backlog > BACKLOG, now);
        if turn != own {
            drop(compactor);
            self.wake_compactor_of(turn);
            return Step::Idle;
        }
        let limit = if asked > 0 { None } else { pace::limit(self.options.compaction_rate, backlog) };
        match self.compact_some(&mut compactor, asked > 0, limit) {
            Ok(Some(step)) => step,
            Ok(None) => {
                // Compactions that closing leaves undone are an error for the callers.
                let stopped = self.closing.load(Ordering::SeqCst).then(closing);
                self.answer_settle_waiters(asked, stopped.as_ref());
                compactor.look_at.map_or(Step::Idle, Step::Until)
            }
            Err(error) => {
                tracing::warn!(%error, "compaction failed; its inputs are kept and it will be tried again");
                self.answer_settle_waiters(asked, Some(&error));
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
            let root = self.roots.newest();
            let most = root.tables.values().map(|state| state.compaction_backlog()).max().unwrap_or(0);
            compactor.backlog = (Some(as_of), most);
            self.counters.compaction_backlog.store(most as u64, Ordering::Relaxed);
        }
        compactor.backlog.1
    }

    /// Answers the first `asked` callers. Later ones asked during the step and are left to the next
    /// step, which they requested.
    fn answer_settle_waiters(&self, asked: usize, error: Option<&Error>) {
        let mut waiters = self.settle_waiters.lock();
        // Fewer if closing has already answered them.
        let asked = asked.min(waiters.len());
        let answered = waiters.drain(..asked).collect();
        drop(waiters);
        answer(answered, error);
    }

    /// Runs one step and returns when to continue; `None` when nothing is left to do or the engine
    /// is closing.
    fn compact_some(&self, compactor: &mut Compactor, settling: bool, limit: Option<u64>) -> Result<Option<Step>> {
        let now = self.env.monotonic_ns();
        if self.drop_hidden()? {
            return Ok(Some(Step::Again));
        }
        if compactor.looks_at_retention(now) {
            let (dropped, look) = self.retain(&mut compactor.retention).map_err(|error| error.context("retention"))?;
            compactor.look_at = look.or(compactor.work.is_some().then_some(now + LOOK_NS));
            if dropped {
                return Ok(Some(Step::Again));
            }
        }
        if self.closing.load(Ordering::SeqCst) {
            return Ok(None);
        }
        self.forget_lost_work(compactor);
        let Some(work) = &compactor.work else {
            self.end_wait(compactor, now);
            return Ok(self.begin_compaction(compactor, settling)?.then_some(Step::Again));
        };
        if limit.is_some()
            && !work.is_merged
            && let Some(at) = compactor.pace.wait(now)
        {
            return Ok(Some(Step::Until(compactor.look_at.map_or(at, |look| look.min(at)))));
        }
        self.end_wait(compactor, now);
        self.go_on(compactor, limit)?;
        Ok(Some(Step::Again))
    }

    fn end_wait(&self, compactor: &mut Compactor, now: u64) {
        self.counters.compaction_wait_ns.fetch_add(compactor.pace.go_on(now), Ordering::Relaxed);
    }

    /// Cancels a compaction whose table was dropped or whose inputs retention removed.
    fn forget_lost_work(&self, compactor: &mut Compactor) {
        let root = self.roots.newest();
        let is_lost = |work: &mut Work| {
            let state = root.tables.get(&work.table.id);
            !state.is_some_and(|state| work.compacting.compaction().is_of(state))
        };
        drop(compactor.work.take_if(is_lost));
    }

    /// Picks and starts a compaction; false when there is none.
    fn begin_compaction(&self, compactor: &mut Compactor, settling: bool) -> Result<bool> {
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
        // It would keep memory and files for as long as the compaction runs.
        drop(root);
        let started = compaction.and_then(|compaction| compaction.start(&self.env, &self.data_dir()));
        let compacting = started.map_err(|error| compactor.failed(&table, error))?;
        compactor.work = Some(Work { table, compacting, is_merged: false });
        compactor.look_at.get_or_insert(self.env.monotonic_ns() + LOOK_NS);
        Ok(true)
    }

    /// Runs one step of the running compaction, or installs its result.
    fn go_on(&self, compactor: &mut Compactor, limit: Option<u64>) -> Result<()> {
        let Some(mut work) = compactor.work.take() else { return Ok(()) };
        if work.is_merged {
            let installed = self.install_compacted(work.table.id, &work.compacting.finish());
            return installed.map_err(|error| compactor.failed(&work.table, error));
        }
        let before = work.compacting.moved();
        let stepped = work.compacting.step(pace::step_bytes(limit), &mut || self.next_file());
        let after = work.compacting.moved();
        self.counters.compaction_read_bytes.fetch_add(after.read - before.read, Ordering::Relaxed);
        if let Some(rate) = limit {
            compactor.pace.spend(after.total() - before.total(), rate, self.env.monotonic_ns());
        }
        work.is_merged = !stepped.map_err(|error| compactor.failed(&work.table, error))?;
        compactor.work = Some(work);
        Ok(())
    }

    /// Order: manifest, database version, replaced files.
    fn install_compacted(&self, id: TableId, done: &Compacted) -> Result<()> {
        let mut manifest = self.manifest.lock();
        let newest = self.roots.newest();
        let (Some(state), true) = (newest.tables.get(&id), manifest.files.contains_key(&id)) else {
            // The table was dropped meanwhile.
            done.outputs.iter().for_each(|segment| segment.remove_when_unused());
            return Ok(());
        };
        let files = state.with_compacted(done).files();
        let mut next = manifest.clone();
        next.files.insert(id, files);
        next.next_file = self.file_count();
        self.write_manifest(&mut manifest, next, || Doubtful::segments(&done.outputs))?;

        let mut lock = self.commit.lock();
        let root = self.roots.newest();
        match root.tables.get(&id) {
            Some(state) => self.roots.replace_newest(root.with_state(id, state.with_compacted(done))),
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
        self.compactor.lock().work = None;
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
