//! The compactor, as step functions: retention first, then one compaction after the other, each in steps of some MiB.
//!
//! Two workers share it. One has the priority of everybody else: it drops what retention says, chooses what to merge and puts
//! it in place, for which it takes locks that commits need. The other has a low priority and merges, unless somebody waits for
//! that or there is a backlog: then the first one does. A limit on what is read and written in a second holds only as long as
//! nobody waits, and is loosened as a backlog grows (`pace`). Whichever finds that it is the other's turn wakes that one.
//! They are two because a thread that has given its priority away cannot take it back.
//!
//! What makes a crash harmless is said in `background.rs`: nothing is named before it is complete and synced.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use columns::{Compacted, Compacting, Compaction, TableState};
use env::Step;
use model::{Error, Result, TableId, TableRef};

use crate::background::{Doubtful, RETRY_NS, answer};
use crate::engine::{CommitState, Counters, Inner, closing};
use crate::pace::{self, BACKLOG, Pace};
use crate::retention::{Clock, LOOK_NS};

/// Which of the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// That of low priority.
    Low,
    /// The other.
    Normal,
}

/// What the compactor remembers between steps.
pub(crate) struct Compactor {
    retry_at: u64,
    retention: Clock,
    /// When retention is to look again: if any table has one, or may get one while segments are merged.
    look_at: Option<u64>,
    work: Option<Work>,
    pace: Pace,
    /// As of so many flushes, compactions and segments that retention dropped.
    backlog: (Option<[u64; 3]>, usize),
    /// The table whose compaction failed last: the search goes on behind it, so that one damaged segment does not keep
    /// the other tables from being compacted.
    failed: Option<TableId>,
}

/// The compaction in hand.
struct Work {
    table: TableRef,
    compacting: Compacting,
    /// Is all written that is to be put in place?
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
    /// Who is to go on at `now`?
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
    /// Drops what retention says; else goes on with what is to be merged: what is due, or all that can be while somebody
    /// waits for that.
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
                // Told to stop, it leaves the rest undone.
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

    /// Of the table that has most; counted anew when segments have come or gone.
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

    /// Whoever asked during the step is left to the next one, which the asking has called for.
    fn answer_settle_waiters(&self, asked: usize, error: Option<&Error>) {
        let mut waiters = self.settle_waiters.lock();
        // Fewer when closing has let them go.
        let asked = asked.min(waiters.len());
        let answered = waiters.drain(..asked).collect();
        drop(waiters);
        answer(answered, error);
    }

    /// Does something and says when to go on; `None` when nothing is left to do, or nothing more is to be done.
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

    /// Lets go of a compaction that would be for nothing: its table was dropped, or retention took some of its inputs.
    fn forget_lost_work(&self, compactor: &mut Compactor) {
        let root = self.roots.newest();
        let is_lost = |work: &mut Work| {
            let state = root.tables.get(&work.table.id);
            !state.is_some_and(|state| work.compacting.compaction().is_of(state))
        };
        drop(compactor.work.take_if(is_lost));
    }

    /// False when there is nothing to be merged.
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
        // It would keep memory and files for as long as the compaction takes.
        drop(root);
        let started = compaction.and_then(|compaction| compaction.start(&self.env, &self.data_dir()));
        let compacting = started.map_err(|error| compactor.failed(&table, error))?;
        compactor.work = Some(Work { table, compacting, is_merged: false });
        compactor.look_at.get_or_insert(self.env.monotonic_ns() + LOOK_NS);
        Ok(true)
    }

    /// A step of the compaction in hand, or its end.
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

    /// The manifest first, then the root, then the files that are replaced.
    fn install_compacted(&self, id: TableId, done: &Compacted) -> Result<()> {
        let mut manifest = self.manifest.lock();
        let newest = self.roots.newest();
        let (Some(state), true) = (newest.tables.get(&id), manifest.files.contains_key(&id)) else {
            // Dropped meanwhile.
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

    /// Removes what a compaction in hand has written; both workers have stopped.
    pub(crate) fn abandon_compaction(&self) {
        self.compactor.lock().work = None;
    }
}

impl CommitState {
    /// The table was dropped while its segments were merged: what goes with the drop is now the merged ones.
    pub(crate) fn compacted_after_drop(&mut self, id: TableId, done: &Compacted) {
        for (_, state) in self.dropped.iter_mut().filter(|(_, state)| state.table.id == id) {
            *state = Arc::new(state.with_compacted(done));
        }
    }
}

fn pick(state: &TableState, settling: bool) -> Result<Option<Compaction>> {
    if settling { state.pick_settling() } else { Ok(state.pick_compaction()) }
}
