//! Garbage collection of `rows` tables, and waking delayed writers, as step functions of one
//! worker.
//!
//! Commits collect most of the garbage themselves, for the oldest snapshot only. The worker
//! collects the rest.

use std::sync::atomic::Ordering;

use env::Step;

use crate::engine::Inner;

/// Old row versions that one GC step collects at most.
const VERSIONS_PER_STEP: usize = 1_024;
/// Interval at which GC checks whether snapshots have advanced, in nanoseconds …
const INTERVAL_NS: u64 = 500_000_000;
/// … and the interval while each check finds garbage.
const BUSY_INTERVAL_NS: u64 = 20_000_000;
/// GC tries to free unlinked memory when it exceeds this many bytes.
const DEFERRED_BYTES: u64 = 4 << 20;

impl Inner {
    /// Step of the GC worker: wakes writers whose delay is over and collects row versions that no
    /// snapshot sees, including versions between two snapshots, so that a long-lived snapshot keeps
    /// one version of each row and not all later ones.
    pub(crate) fn gc_step(&self) -> Step {
        let delayed = self.wake_delayed();
        let freed_more = self.store.reclaim();
        let deferred = self.store.deferred_bytes() > DEFERRED_BYTES;
        if self.store.garbage() == 0 && !deferred {
            self.collecting.store(false, Ordering::Relaxed);
            return delayed;
        }
        let (readers, oldest) = self.versions.readers();
        let age = oldest.map_or(0, |wall_ns| self.env.now_ns().saturating_sub(wall_ns).max(0));
        self.store.note_oldest_snapshot(age as u64 / 1_000_000_000);
        let visited = self.collect_rows(&readers, VERSIONS_PER_STEP);
        if visited > 0 {
            self.recount_rows();
        }
        if freed_more || visited == VERSIONS_PER_STEP {
            return Step::Again;
        }
        let wait = if visited > 0 || deferred { BUSY_INTERVAL_NS } else { INTERVAL_NS };
        let next_check = self.env.monotonic_ns() + wait;
        match delayed {
            Step::Until(at) => Step::Until(at.min(next_check)),
            _ => Step::Until(next_check),
        }
    }

    fn wake_delayed(&self) -> Step {
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
}
