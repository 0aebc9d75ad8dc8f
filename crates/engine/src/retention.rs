//! Retention: drops whole partitions older than the table's retention, and limits how far the clock
//! is trusted for that.
//!
//! A partition is dropped when its end is older than the table's retention. Then the retention
//! horizon [`TableState::kept_from`] moves to that end: first in the manifest, then in the new
//! database version. From then on no row before the horizon is returned, whether it is in a
//! memtable, in a segment with newer rows, or written later. Segments entirely before the horizon
//! are removed once no reader uses them; other segments lose such rows at their next merge.
//!
//! [`TableState::kept_from`]: columns::TableState::kept_from

use std::sync::atomic::Ordering;

use columns::{Segment, TableState};
use model::{Result, TableId};

use crate::background::Doubtful;
use crate::engine::Inner;
use crate::root::Root;

/// Interval of retention checks, in nanoseconds.
pub(crate) const LOOK_NS: u64 = 5_000_000_000;
/// The trusted time advances at most this many times as fast as real time.
const CATCH_UP: u64 = 24;
/// A warning is logged when the wall clock is ahead of the trusted time by more than this, in
/// nanoseconds.
const AHEAD_NS: i64 = 3_600_000_000_000;

/// The trusted time of retention. Dropped rows cannot be restored, and a wall clock may jump by
/// years when a battery or a time server is broken. So the trusted time advances towards the wall
/// clock at most 24 times as fast as real time: a clock that jumps ahead by a year costs one day of
/// rows an hour, with a warning in the log, instead of everything at once. A machine that was off
/// for a month has caught up after 32 hours.
///
/// Always true: the trusted time advances at most to the wall clock, and at most 24 times as fast
/// as the time that passed. Setting a table's retention vouches for the clock.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    /// Monotonic time of the last check, in nanoseconds.
    looked_ns: u64,
    /// Whether the present lead of the clock has been logged.
    is_told: bool,
}

impl Clock {
    pub(crate) fn new(monotonic_ns: u64) -> Clock {
        Clock { looked_ns: monotonic_ns, is_told: false }
    }

    /// Advances the time trusted at the last check, `believed`. Returns the new one, and whether to
    /// warn that the clock is far ahead of it.
    fn follow(&mut self, believed: i64, wall: i64, monotonic_ns: u64) -> (i64, bool) {
        let passed = monotonic_ns.saturating_sub(self.looked_ns).saturating_mul(CATCH_UP);
        self.looked_ns = monotonic_ns;
        let followed = believed.saturating_add_unsigned(passed).min(wall).max(believed);
        let is_ahead = wall.saturating_sub(followed) > AHEAD_NS;
        let was_told = std::mem::replace(&mut self.is_told, is_ahead);
        (followed, is_ahead && !was_told)
    }
}

impl Inner {
    /// Drops all due partitions of all tables. Returns whether any was dropped, and when to check
    /// again if any table has a retention.
    pub(crate) fn retain(&self, clock: &mut Clock) -> Result<(bool, Option<u64>)> {
        let root = self.roots.newest();
        let has_retention = |state: &TableState| state.table.options.retention_ns.is_some();
        if !root.tables.values().any(|state| has_retention(state)) {
            return Ok((false, None));
        }
        let now = self.retention_now(clock, &root);
        let is_due = root.tables.values().any(|state| state.due_retention(now).is_some());
        // The version must not be held while files are written.
        drop(root);
        let dropped = is_due && self.drop_until(now)?;
        Ok((dropped, Some(self.env.monotonic_ns() + LOOK_NS)))
    }

    fn retention_now(&self, clock: &mut Clock, root: &Root) -> i64 {
        let wall = self.env.now_ns();
        let believed = self.retention_ns.load(Ordering::SeqCst).max(root.retention_ns);
        let (followed, tell) = clock.follow(believed, wall, self.env.monotonic_ns());
        self.retention_ns.store(followed, Ordering::SeqCst);
        if tell {
            tracing::warn!(
                ahead_seconds = (wall - followed) / 1_000_000_000,
                "the clock is far ahead of the time that retention trusts; old rows are dropped at most a day per \
                 hour until it has caught up. If the clock is right, ALTER TABLE … SET (retention = …) confirms it"
            );
        }
        followed.min(wall)
    }

    /// Order: manifest, database version, files.
    fn drop_until(&self, now: i64) -> Result<bool> {
        let mut manifest = self.manifest.lock();
        let root = self.roots.newest();
        let mut next = manifest.clone();
        let mut due: Vec<(TableId, i64)> = Vec::new();
        for (id, state) in &root.tables {
            // A table not yet flushed is in no manifest and waits for its first flush.
            if let (Some(kept_from), Some(files)) = (state.due_retention(now), next.files.get_mut(id)) {
                *files = state.with_retention(kept_from).files();
                due.push((*id, kept_from));
            }
        }
        drop(root);
        if due.is_empty() {
            return Ok(false);
        }
        next.retention_ns = next.retention_ns.max(self.retention_ns.load(Ordering::SeqCst));
        self.write_manifest(&mut manifest, next, Doubtful::default)?;

        let lock = self.commit.lock();
        let mut root = (*self.roots.newest()).clone();
        let mut gone = Vec::new();
        for (id, kept_from) in due {
            // A table dropped meanwhile is removed by that commit.
            if let Some(state) = root.tables.get(&id).cloned() {
                gone.extend(state.segments_before(kept_from));
                root = root.with_state(id, state.with_retention(kept_from));
            }
        }
        self.roots.replace_newest(root);
        drop(lock);
        drop(manifest);
        gone.iter().for_each(|segment| segment.remove_when_unused());
        let bytes: u64 = gone.iter().map(|segment| segment.meta().bytes).sum();
        self.counters.retention_segments.fetch_add(gone.len() as u64, Ordering::Relaxed);
        self.counters.retention_bytes.fetch_add(bytes, Ordering::Relaxed);
        tell_dropped(&gone);
        Ok(true)
    }
}

fn tell_dropped(gone: &[std::sync::Arc<Segment>]) {
    let rows: u64 = gone.iter().map(|segment| segment.meta().rows).sum();
    if rows > 0 {
        tracing::info!(segments = gone.len(), rows, "retention dropped old partitions");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000_000;
    const DAY: i64 = 24 * HOUR;

    /// Checks a series of (hours passed, wall clock, expected trusted time).
    fn check(start: i64, looks: &[(i64, i64, i64)]) {
        let (mut clock, mut believed, mut monotonic) = (Clock::new(7), start, 7);
        for (at, (passed, wall, expected)) in looks.iter().enumerate() {
            monotonic += (passed * HOUR).cast_unsigned();
            (believed, _) = clock.follow(believed, *wall, monotonic);
            assert_eq!(believed, *expected, "look {at}");
        }
    }

    #[test]
    fn the_clock_of_retention_never_leaps() {
        // An ordinary day.
        check(DAY, &[(1, DAY + HOUR, DAY + HOUR), (0, DAY + HOUR, DAY + HOUR), (9, DAY + 10 * HOUR, DAY + 10 * HOUR)]);
        // One year ahead, set right after two hours: two days were trusted, and the trusted time
        // waits for the clock.
        let year = 365 * DAY;
        check(
            DAY,
            &[
                (0, year, DAY),
                (1, year + HOUR, 2 * DAY),
                (1, year + 2 * HOUR, 3 * DAY),
                (0, DAY + 2 * HOUR, 3 * DAY),
                (47, 3 * DAY + HOUR, 3 * DAY + HOUR),
            ],
        );
        // Off for a month.
        check(DAY, &[(15, 31 * DAY, 16 * DAY), (15, 32 * DAY, 31 * DAY), (2, 32 * DAY, 32 * DAY)]);
    }

    #[test]
    fn a_clock_far_ahead_is_told_of_once() {
        let mut clock = Clock::new(0);
        assert!(!clock.follow(0, AHEAD_NS, 0).1);
        assert!(clock.follow(0, AHEAD_NS + 1, 0).1);
        assert!(!clock.follow(0, 2 * AHEAD_NS, 0).1);
        assert!(!clock.follow(0, 0, 0).1);
        assert!(clock.follow(0, 2 * AHEAD_NS, 0).1, "a second time");
    }
}
