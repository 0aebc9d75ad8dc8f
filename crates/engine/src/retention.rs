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

use crate::db_version::DbVersion;
use crate::engine::Inner;
use crate::flusher::OrphanFiles;

/// Interval of retention checks, in nanoseconds.
pub(crate) const CHECK_INTERVAL_NS: u64 = 5_000_000_000;
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
    checked_ns: u64,
    /// Whether the present lead of the clock has been logged.
    is_warned: bool,
}

impl Clock {
    pub(crate) fn new(monotonic_ns: u64) -> Clock {
        Clock { checked_ns: monotonic_ns, is_warned: false }
    }

    /// Advances the time trusted at the last check, `trusted`. Returns the new one, and whether to
    /// warn that the clock is far ahead of it.
    fn advance(&mut self, trusted: i64, wall: i64, monotonic_ns: u64) -> (i64, bool) {
        let passed = monotonic_ns.saturating_sub(self.checked_ns).saturating_mul(CATCH_UP);
        self.checked_ns = monotonic_ns;
        let advanced = trusted.saturating_add_unsigned(passed).min(wall).max(trusted);
        let is_ahead = wall.saturating_sub(advanced) > AHEAD_NS;
        let was_warned = std::mem::replace(&mut self.is_warned, is_ahead);
        (advanced, is_ahead && !was_warned)
    }
}

impl Inner {
    /// Drops all due partitions of all tables. Returns whether any was dropped, and when to check
    /// again if any table has a retention.
    pub(crate) fn retain(&self, clock: &mut Clock) -> Result<(bool, Option<u64>)> {
        let db = self.versions.newest();
        let has_retention = |state: &TableState| state.table.options.retention_ns.is_some();
        if !db.tables.values().any(|state| has_retention(state)) {
            return Ok((false, None));
        }
        let now = self.retention_now(clock, &db);
        let is_due = db.tables.values().any(|state| state.due_retention(now).is_some());
        // The version must not be held while files are written.
        drop(db);
        let dropped = is_due && self.drop_until(now)?;
        Ok((dropped, Some(self.env.monotonic_ns() + CHECK_INTERVAL_NS)))
    }

    fn retention_now(&self, clock: &mut Clock, db: &DbVersion) -> i64 {
        let wall = self.env.now_ns();
        let trusted = self.retention_ns.load(Ordering::SeqCst).max(db.retention_ns);
        let (advanced, warn) = clock.advance(trusted, wall, self.env.monotonic_ns());
        self.retention_ns.store(advanced, Ordering::SeqCst);
        if warn {
            tracing::warn!(
                ahead_seconds = (wall - advanced) / 1_000_000_000,
                "the clock is far ahead of the time that retention trusts; old rows are dropped at most a day per \
                 hour until it has caught up. If the clock is right, ALTER TABLE … SET (retention = …) confirms it"
            );
        }
        advanced.min(wall)
    }

    /// Order: manifest, database version, files.
    fn drop_until(&self, now: i64) -> Result<bool> {
        let mut manifest = self.manifest.lock();
        let db = self.versions.newest();
        let mut next = manifest.clone();
        let mut due: Vec<(TableId, i64)> = Vec::new();
        for (id, state) in &db.tables {
            // A table not yet flushed is in no manifest and waits for its first flush.
            if let (Some(kept_from), Some(files)) = (state.due_retention(now), next.files.get_mut(id)) {
                *files = state.with_retention(kept_from).files();
                due.push((*id, kept_from));
            }
        }
        drop(db);
        if due.is_empty() {
            return Ok(false);
        }
        next.retention_ns = next.retention_ns.max(self.retention_ns.load(Ordering::SeqCst));
        self.write_manifest(&mut manifest, next, OrphanFiles::default)?;

        let lock = self.commit.lock();
        let mut db = (*self.versions.newest()).clone();
        let mut dropped_segments = Vec::new();
        for (id, kept_from) in due {
            // A table dropped meanwhile is removed by that commit.
            if let Some(state) = db.tables.get(&id).cloned() {
                dropped_segments.extend(state.segments_before(kept_from));
                db = db.with_state(id, state.with_retention(kept_from));
            }
        }
        self.versions.replace_newest(db);
        drop(lock);
        drop(manifest);
        dropped_segments.iter().for_each(|segment| segment.remove_when_unused());
        let bytes: u64 = dropped_segments.iter().map(|segment| segment.meta().bytes).sum();
        self.counters.retention_segments.fetch_add(dropped_segments.len() as u64, Ordering::Relaxed);
        self.counters.retention_bytes.fetch_add(bytes, Ordering::Relaxed);
        log_dropped(&dropped_segments);
        Ok(true)
    }
}

fn log_dropped(dropped_segments: &[std::sync::Arc<Segment>]) {
    let rows: u64 = dropped_segments.iter().map(|segment| segment.meta().rows).sum();
    if rows > 0 {
        tracing::info!(segments = dropped_segments.len(), rows, "retention dropped old partitions");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000_000;
    const DAY: i64 = 24 * HOUR;

    /// Checks a series of (hours passed, wall clock, expected trusted time).
    fn check(start: i64, looks: &[(i64, i64, i64)]) {
        let (mut clock, mut trusted, mut monotonic) = (Clock::new(7), start, 7);
        for (at, (passed, wall, expected)) in looks.iter().enumerate() {
            monotonic += (passed * HOUR).cast_unsigned();
            (trusted, _) = clock.advance(trusted, *wall, monotonic);
            assert_eq!(trusted, *expected, "look {at}");
        }
    }

    #[test]
    fn the_trusted_time_of_retention_never_jumps() {
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
    fn a_clock_far_ahead_is_logged_once() {
        let mut clock = Clock::new(0);
        assert!(!clock.advance(0, AHEAD_NS, 0).1);
        assert!(clock.advance(0, AHEAD_NS + 1, 0).1);
        assert!(!clock.advance(0, 2 * AHEAD_NS, 0).1);
        assert!(!clock.advance(0, 0, 0).1);
        assert!(clock.advance(0, 2 * AHEAD_NS, 0).1, "a second time");
    }
}
