//! Compaction as a job: merges one set of segments after the other, each in steps of at most
//! 4 MiB.
//!
//! Two workers share the job. The one of normal priority picks compactions and installs their
//! results, for which it takes locks that commits need. The one of low priority merges, unless a
//! caller waits or there is a backlog; then the normal worker merges. The rate limit applies only
//! while no caller waits, and is raised as the backlog grows (`rate_limiter`). A worker that finds
//! it is the other's turn wakes the other. There are two because a thread cannot raise its priority
//! again once lowered.
//!
//! Always true:
//! - A compaction is installed only if the table still has all of its inputs: retention, covering
//!   deletes and DROP may remove them while it runs.
//! - Its output has no commit and no delete that is not flushed, and no more rows than its inputs.
//!
//! Crash safety is explained in `manifest_store.rs`: no file is named before it is complete and
//! synced.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use columns::{Compacted, Compacting, Compaction as Plan, TableState};
use env::Step;
use model::{Error, Lsn, Result, TableId, TableRef};
use parking_lot::Mutex;

use crate::covering_deletes::CoveringDeletes;
use crate::engine::{CommitState, Inner, closing};
use crate::jobs::{Job, Metric, MetricKind, Pending, Priority, Waiters};
use crate::manifest_store::OrphanFiles;
use crate::rate_limiter::{self, BACKLOG, RateLimiter};

/// The compaction job.
pub(crate) struct Compaction {
    state: Mutex<CompactionState>,
    /// Callers that wait until all segments are settled.
    waiters: Waiters,
    /// Deletes whose covered segments are still to be removed.
    pub(crate) covering_deletes: CoveringDeletes,
    pub(crate) compactions: Metric,
    bytes: Metric,
    read_bytes: Metric,
    wait_ns: Metric,
    backlog: Metric,
}

impl Default for Compaction {
    fn default() -> Compaction {
        Compaction {
            state: Mutex::default(),
            waiters: Waiters::default(),
            covering_deletes: CoveringDeletes::default(),
            compactions: Metric::total("compactions", "Compactions."),
            bytes: Metric::total("compaction_bytes", "Bytes of segments written by compactions."),
            read_bytes: Metric::total("compaction_read_bytes", "Bytes of segments read by compactions."),
            wait_ns: Metric::new(
                MetricKind::TotalNs,
                "compaction_wait",
                "Time compactions were delayed by the rate limit.",
            ),
            backlog: Metric::new(
                MetricKind::Gauge,
                "compaction_backlog",
                "Largest number of segments to be merged in a partition, as of the last flush or compaction.",
            ),
        }
    }
}

/// State of the compaction job between steps.
#[derive(Default)]
struct CompactionState {
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

impl CompactionState {
    /// Returns the worker that should run.
    fn due_worker(&self, is_urgent: bool) -> Priority {
        let is_merging = self.active.as_ref().is_some_and(|active| !active.is_merged);
        if is_merging && !is_urgent { Priority::Low } else { Priority::Normal }
    }

    fn failed(&mut self, table: &TableRef, error: Error) -> Error {
        self.failed = Some(table.id);
        error.context(format!("compaction of table {}", table.name))
    }
}

impl Job for Compaction {
    fn name(&self) -> &'static str {
        "compaction"
    }

    fn workers(&self) -> &'static [Priority] {
        &[Priority::Normal, Priority::Low]
    }

    /// Continues or starts a compaction: one that is due, or while a caller waits any that is
    /// possible.
    fn step(&self, inner: &Arc<Inner>, worker: Priority) -> Result<Step> {
        let mut state = self.state.lock();
        let callers = self.waiters.len();
        let backlog = self.backlog(inner, &mut state);
        let due_worker = state.due_worker(callers > 0 || backlog > BACKLOG);
        if due_worker != worker {
            drop(state);
            inner.jobs.compaction.wake_worker(due_worker);
            return Ok(Step::Idle);
        }
        let limit = if callers > 0 { None } else { rate_limiter::limit(inner.options.compaction_rate, backlog) };
        // Only the callers of now are answered. Later ones asked during the step and are left to
        // the next step, which they requested.
        match self.compact_some(inner, &mut state, callers > 0, limit) {
            Ok(Some(step)) => Ok(step),
            Ok(None) => {
                // Compactions that closing leaves undone are an error for the callers.
                let closing_error = inner.closing.load(Ordering::SeqCst).then(closing);
                self.waiters.answer_first(callers, closing_error.as_ref());
                Ok(Step::Idle)
            }
            Err(error) => {
                self.waiters.answer_first(callers, Some(&error));
                Err(error)
            }
        }
    }

    /// A dropped table cancels its compaction.
    fn follows_catalog(&self) -> bool {
        true
    }

    fn metrics(&self) -> Vec<&Metric> {
        vec![&self.compactions, &self.bytes, &self.read_bytes, &self.wait_ns, &self.backlog]
    }

    /// Removes the output of a running compaction.
    fn abandon(&self, _: &Inner) {
        self.state.lock().active = None;
    }

    fn release(&self, _: &Inner, error: &Error) {
        self.waiters.answer_all(Some(error));
    }
}

impl Compaction {
    /// Requests that all segments be settled.
    pub(crate) fn request(inner: &Inner) -> Pending {
        let pending = inner.jobs.compaction.waiters.add();
        // If the low-priority worker should run, the normal one wakes it.
        inner.jobs.compaction.wake_worker(Priority::Normal);
        inner.jobs.compaction.release_if_stopped(inner);
        pending
    }

    /// Returns the largest compaction backlog of any table; computed again when segments were added
    /// or removed.
    fn backlog(&self, inner: &Inner, state: &mut CompactionState) -> usize {
        let as_of = [&inner.jobs.flush.flushes, &self.compactions, &inner.jobs.retention.segments].map(Metric::get);
        if state.backlog.0 != Some(as_of) {
            let db = inner.versions.newest();
            let most = db.tables.values().map(|state| state.compaction_backlog()).max().unwrap_or(0);
            state.backlog = (Some(as_of), most);
            self.backlog.set(most as u64);
        }
        state.backlog.1
    }

    /// Runs one step and returns when to continue; `None` when nothing is left to do or the engine
    /// is closing.
    fn compact_some(
        &self,
        inner: &Inner,
        state: &mut CompactionState,
        settling: bool,
        limit: Option<u64>,
    ) -> Result<Option<Step>> {
        let now = inner.env.monotonic_ns();
        if self.covering_deletes.drop_segments(inner)? {
            return Ok(Some(Step::Again));
        }
        if inner.closing.load(Ordering::SeqCst) {
            return Ok(None);
        }
        cancel_obsolete(inner, state);
        let Some(active) = &state.active else {
            self.end_wait(state, now);
            return Ok(start_compaction(inner, state, settling)?.then_some(Step::Again));
        };
        if limit.is_some()
            && !active.is_merged
            && let Some(at) = state.limiter.wait(now)
        {
            return Ok(Some(Step::Until(at)));
        }
        self.end_wait(state, now);
        self.advance(inner, state, limit)?;
        Ok(Some(Step::Again))
    }

    fn end_wait(&self, state: &mut CompactionState, now: u64) {
        self.wait_ns.add(state.limiter.end_wait(now));
    }

    /// Runs one step of the running compaction, or installs its result.
    fn advance(&self, inner: &Inner, state: &mut CompactionState, limit: Option<u64>) -> Result<()> {
        let Some(mut active) = state.active.take() else { return Ok(()) };
        if active.is_merged {
            let table = Arc::clone(&active.table);
            return self.install(inner, active).map_err(|error| state.failed(&table, error));
        }
        let before = active.compacting.moved();
        let stepped = active.compacting.step(rate_limiter::step_bytes(limit), &mut || inner.next_file());
        let after = active.compacting.moved();
        assert!(after.read >= before.read, "BUG: a compaction has read {} bytes after {}", after.read, before.read);
        self.read_bytes.add(after.read - before.read);
        if let Some(rate) = limit {
            state.limiter.spend(after.total() - before.total(), rate, inner.env.monotonic_ns());
        }
        active.is_merged = !stepped.map_err(|error| state.failed(&active.table, error))?;
        state.active = Some(active);
        Ok(())
    }

    /// Order: manifest, database version, replaced files. Dropping a compaction removes its output.
    fn install(&self, inner: &Inner, active: ActiveCompaction) -> Result<()> {
        let id = active.table.id;
        let mut manifest = inner.manifests.lock();
        let newest = inner.versions.newest();
        let has_inputs = |state: &&Arc<TableState>| active.compacting.compaction().is_of(state);
        let (Some(state), true) = (newest.tables.get(&id).filter(has_inputs), manifest.files.contains_key(&id)) else {
            // The table was dropped, or retention has removed inputs.
            return Ok(());
        };
        let done = active.compacting.finish();
        check_result(state, &done, manifest.flushed_lsn);
        let mut next = manifest.clone();
        next.files.insert(id, compacted(state, &done).files());
        next.next_file = inner.file_count();
        inner.manifests.replace(inner, &mut manifest, next, || OrphanFiles::segments(&done.outputs))?;

        let mut lock = inner.commit.lock();
        let db = inner.versions.newest();
        match db.tables.get(&id) {
            Some(state) => inner.versions.replace_newest(db.with_state(id, compacted(state, &done))),
            None => lock.compacted_after_drop(id, &done),
        }
        done.inputs.iter().for_each(|segment| segment.remove_when_unused());
        drop(lock);
        self.compactions.add(1);
        self.bytes.add(done.outputs.iter().map(|segment| segment.meta().bytes).sum());
        Ok(())
    }
}

/// Replaces the inputs of a compaction by its outputs. The caller removes the inputs afterwards, so
/// the state must not keep any.
pub(crate) fn compacted(state: &TableState, done: &Compacted) -> TableState {
    let next = state.with_compacted(done);
    let (before, after) = (state.segments.len() + done.outputs.len(), next.segments.len() + done.inputs.len());
    assert!(before == after, "BUG: segments of table {} changed without the manifest's lock", state.table.name);
    next
}

/// Asserts that the output of a compaction may replace its inputs, which are removed then.
fn check_result(state: &TableState, done: &Compacted, flushed: Lsn) {
    let name = &state.table.name;
    let rows = |segments: &[Arc<columns::Segment>]| -> u64 { segments.iter().map(|segment| segment.meta().rows).sum() };
    // Deletes that were applied count as commits of the output.
    let newest = done.outputs.iter().map(|segment| segment.meta().lsns.1).max().unwrap_or(Lsn::ZERO);
    assert!(newest <= flushed, "BUG: compaction of table {name} has commit {newest}, up to {flushed} is flushed");
    let first = |segments: &[Arc<columns::Segment>]| segments.iter().map(|segment| segment.meta().lsns.0).min();
    let (output, input) = (first(&done.outputs), first(&done.inputs));
    assert!(output.is_none() || output >= input, "BUG: compaction of table {name} starts at {output:?}, not {input:?}");
    let (before, after) = (rows(&done.inputs), rows(&done.outputs));
    assert!(after <= before, "BUG: compaction of table {name} made {after} rows of {before}");
}

/// Cancels a compaction whose table was dropped or whose inputs retention removed.
fn cancel_obsolete(inner: &Inner, state: &mut CompactionState) {
    let db = inner.versions.newest();
    let is_obsolete = |active: &mut ActiveCompaction| {
        let table = db.tables.get(&active.table.id);
        !table.is_some_and(|table| active.compacting.compaction().is_of(table))
    };
    drop(state.active.take_if(is_obsolete));
}

/// Picks and starts a compaction; false when there is none.
fn start_compaction(inner: &Inner, state: &mut CompactionState, settling: bool) -> Result<bool> {
    assert!(state.active.is_none(), "BUG: a compaction starts while another runs");
    let db = inner.versions.newest();
    let behind = state.failed.take();
    let later = db.tables.iter().filter(|(id, _)| Some(**id) > behind);
    let earlier = db.tables.iter().filter(|(id, _)| Some(**id) <= behind);
    let mut picked = later.chain(earlier).filter_map(|(_, state)| {
        let plan = pick(state, settling).transpose()?;
        Some((Arc::clone(&state.table), plan))
    });
    let Some((table, plan)) = picked.next() else { return Ok(false) };
    drop(picked);
    // It would keep memory and files for as long as the compaction runs.
    drop(db);
    let started = plan.and_then(|plan| plan.start(&inner.env, &inner.data_dir()));
    let compacting = started.map_err(|error| state.failed(&table, error))?;
    state.active = Some(ActiveCompaction { table, compacting, is_merged: false });
    Ok(true)
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

fn pick(state: &TableState, settling: bool) -> Result<Option<Plan>> {
    if settling { state.pick_settling() } else { Ok(state.pick_compaction()) }
}
