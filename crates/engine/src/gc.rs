//! Garbage collection of `rows` tables, and waking delayed writers, as a job.
//!
//! Commits collect most of the garbage themselves, for the oldest snapshot only. The job collects
//! the rest.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use env::{Event, Step};
use model::{Error, Result};
use parking_lot::Mutex;
use rows::Readers;

use crate::engine::Inner;
use crate::jobs::{Job, Metric, Priority};

/// Old row versions that one step collects at most.
const VERSIONS_PER_STEP: usize = 1_024;
/// Old row versions that one commit collects at most; the job collects the rest.
const VERSIONS_PER_COMMIT: usize = 1_024;
/// Row changes between two collections by commits.
const COLLECT_EACH: u64 = 64;
/// Commits after which the bytes of `rows` tables are counted again.
const RECOUNT_COMMITS: u64 = 1_024;
/// The bytes are also counted again after the rows grew by this fraction of their limit.
const RECOUNT_SHARE: u64 = 64;
/// Interval at which the job checks whether snapshots have advanced, in nanoseconds …
const INTERVAL_NS: u64 = 500_000_000;
/// … and the interval while each check finds garbage.
const BUSY_INTERVAL_NS: u64 = 20_000_000;
/// The job tries to free unlinked memory when it exceeds this many bytes.
const DEFERRED_BYTES: u64 = 4 << 20;

/// The garbage collection job.
pub(crate) struct RowGc {
    /// Whether the job has been woken and has row garbage to collect.
    is_woken: AtomicBool,
    /// Commits that changed rows since start; decides when bytes are counted again.
    commits: AtomicU64,
    /// Changes of rows since start.
    changes: AtomicU64,
    /// Bytes of `rows` tables when they were last counted.
    counted_bytes: AtomicU64,
    /// Delayed writers: monotonic deadline in nanoseconds, and the event to set at it.
    delayed: Mutex<Vec<(u64, Event)>>,
    writers_delayed: Metric,
    versions: Metric,
}

impl Default for RowGc {
    fn default() -> RowGc {
        RowGc {
            is_woken: AtomicBool::new(false),
            commits: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            counted_bytes: AtomicU64::new(0),
            delayed: Mutex::default(),
            writers_delayed: Metric::total("writers_delayed", "Commits that had to wait for memory."),
            versions: Metric::total("gc_visited", "Old row versions and index entries visited by garbage collection."),
        }
    }
}

impl Job for RowGc {
    fn name(&self) -> &'static str {
        "gc"
    }

    /// Wakes writers whose delay is over and collects row versions that no snapshot sees, including
    /// versions between two snapshots, so that a long-lived snapshot keeps one version of each row
    /// and not all later ones.
    fn step(&self, inner: &Arc<Inner>, _: Priority) -> Result<Step> {
        let delayed = self.wake_due_writers(inner.env.monotonic_ns());
        let freed_more = inner.store.reclaim();
        let deferred = inner.store.deferred_bytes() > DEFERRED_BYTES;
        if inner.store.garbage() == 0 && !deferred {
            self.is_woken.store(false, Ordering::Relaxed);
            return Ok(delayed);
        }
        let (readers, oldest) = inner.versions.readers();
        let age = oldest.map_or(0, |wall_ns| inner.env.now_ns().saturating_sub(wall_ns).max(0));
        inner.store.note_oldest_snapshot(age as u64 / 1_000_000_000);
        let visited = self.collect(inner, &readers, VERSIONS_PER_STEP)?;
        if visited > 0 {
            self.recount(inner);
        }
        if freed_more || visited == VERSIONS_PER_STEP {
            return Ok(Step::Again);
        }
        let wait = if visited > 0 || deferred { BUSY_INTERVAL_NS } else { INTERVAL_NS };
        let next_check = inner.env.monotonic_ns() + wait;
        Ok(match delayed {
            Step::Until(at) => Step::Until(at.min(next_check)),
            _ => Step::Until(next_check),
        })
    }

    fn metrics(&self) -> Vec<&Metric> {
        vec![&self.writers_delayed, &self.versions]
    }

    fn release(&self, _: &Inner, _: &Error) {
        self.wake_writers();
    }
}

impl RowGc {
    /// Registers a delayed writer; the returned event is set about `ns` nanoseconds from now.
    pub(crate) fn delay_writer(inner: &Inner, ns: u64) -> Event {
        let (gc, event) = (&inner.jobs.gc, Event::new());
        gc.writers_delayed.add(1);
        gc.delayed.lock().push((inner.env.monotonic_ns() + ns, event.clone()));
        gc.wake();
        gc.release_if_stopped(inner);
        event
    }

    /// Wakes all delayed writers, which check memory again.
    pub(crate) fn wake_writers(&self) {
        for (_, event) in std::mem::take(&mut *self.delayed.lock()) {
            event.set();
        }
    }

    fn wake_due_writers(&self, now: u64) -> Step {
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

    /// Called after a commit that made `changes` changes in `rows` tables: collects about twice as
    /// much garbage as these changes made, and counts bytes again when due.
    pub(crate) fn after_commit(inner: &Inner, changes: usize) {
        let gc = &inner.jobs.gc;
        // In batches: a row that changes again and again is visited once for all of its changes.
        let before = gc.changes.fetch_add(changes as u64, Ordering::Relaxed);
        if before / COLLECT_EACH != (before + changes as u64) / COLLECT_EACH {
            // Only the oldest snapshot is considered here, which is cheap to find. Versions between
            // two snapshots are left to the job.
            let readers = Readers::since(inner.versions.horizon());
            let most = (2 * changes + 2 * COLLECT_EACH as usize).min(VERSIONS_PER_COMMIT);
            if let Err(error) = gc.collect(inner, &readers, most) {
                tracing::error!(%error, "old versions of rows tables could not be removed");
            }
        }
        // Index growth is not tracked between two counts.
        let grown = inner.store.memory_bytes().abs_diff(gc.counted_bytes.load(Ordering::Relaxed));
        let count = gc.commits.fetch_add(1, Ordering::Relaxed);
        if count.is_multiple_of(RECOUNT_COMMITS) || grown > inner.options.rows_bytes_max() / RECOUNT_SHARE {
            gc.recount(inner);
        }
        if inner.store.garbage() > 0 && !gc.is_woken.swap(true, Ordering::Relaxed) {
            gc.wake();
        }
    }

    /// Collects at most `most` versions and index entries of `rows` tables that none of the readers
    /// sees. Returns how many it visited.
    fn collect(&self, inner: &Inner, readers: &Readers, most: usize) -> Result<usize> {
        let visited = inner.store.collect(readers, most)?;
        assert!(visited <= most, "BUG: garbage collection visited {visited} versions, of at most {most}");
        self.versions.add(visited as u64);
        Ok(visited)
    }

    fn recount(&self, inner: &Inner) {
        let bytes = inner.versions.newest().rows_bytes() + inner.store.departed_bytes();
        self.counted_bytes.store(bytes, Ordering::Relaxed);
        inner.store.set_memory_bytes(bytes);
    }
}
