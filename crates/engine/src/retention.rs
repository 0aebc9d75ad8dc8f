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

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use columns::Segment;
use env::Step;
use model::{Result, TableId};
use parking_lot::Mutex;

use crate::db_version::DbVersion;
use crate::engine::Inner;
use crate::jobs::{Job, Metric, Priority};
use crate::manifest_store::OrphanFiles;

/// Interval of retention checks, in nanoseconds.
const CHECK_INTERVAL_NS: u64 = 5_000_000_000;
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
struct Clock {
    /// Monotonic time of the last check, in nanoseconds.
    checked_ns: u64,
    /// Whether the present lead of the clock has been logged.
    is_warned: bool,
}

impl Clock {
    fn new(monotonic_ns: u64) -> Clock {
        Clock { checked_ns: monotonic_ns, is_warned: false }
    }

    /// Advances the time trusted at the last check, `trusted`. Returns the new one, and whether to
    /// warn that the clock is far ahead of it.
    fn advance(&mut self, trusted: i64, wall: i64, monotonic_ns: u64) -> (i64, bool) {
        let passed = monotonic_ns.saturating_sub(self.checked_ns).saturating_mul(CATCH_UP);
        self.checked_ns = monotonic_ns;
        let advanced = trusted.saturating_add_unsigned(passed).min(wall).max(trusted);
        // On another road than the expression above: what it guards cannot be restored.
        assert!(advanced <= wall || advanced == trusted, "BUG: {advanced} is trusted, the clock shows {wall}");
        assert!(advanced.abs_diff(trusted) <= passed, "BUG: {advanced} is trusted {passed} ns after {trusted}");
        let is_ahead = wall.saturating_sub(advanced) > AHEAD_NS;
        let was_warned = std::mem::replace(&mut self.is_warned, is_ahead);
        (advanced, is_ahead && !was_warned)
    }
}

/// The retention job.
pub(crate) struct Retention {
    clock: Mutex<Clock>,
    /// The time that retention uses as the present, at most the wall clock.
    trusted_ns: AtomicI64,
    pub(crate) segments: Metric,
    bytes: Metric,
    pub(crate) late_rows: Metric,
}

impl Job for Retention {
    fn name(&self) -> &'static str {
        "retention"
    }

    /// Drops all due partitions of all tables.
    fn step(&self, inner: &Arc<Inner>, _: Priority) -> Result<Step> {
        let db = inner.versions.newest();
        if !db.tables.values().any(|state| state.table.options.retention_ns.is_some()) {
            return Ok(Step::Idle);
        }
        let now = self.present(inner, &db);
        let is_due = db.tables.values().any(|state| state.due_retention(now).is_some());
        // The version must not be held while files are written.
        drop(db);
        if is_due && self.drop_until(inner, now)? {
            inner.jobs.compaction.wake_worker(Priority::Normal);
        }
        Ok(Step::Until(inner.env.monotonic_ns() + CHECK_INTERVAL_NS))
    }

    /// A new retention may make segments due.
    fn follows_catalog(&self) -> bool {
        true
    }

    fn metrics(&self) -> Vec<&Metric> {
        vec![&self.segments, &self.bytes, &self.late_rows]
    }
}

impl Retention {
    /// - `trusted_ns`: the time trusted when the database was closed.
    pub(crate) fn new(trusted_ns: i64, monotonic_ns: u64) -> Retention {
        Retention {
            clock: Mutex::new(Clock::new(monotonic_ns)),
            trusted_ns: AtomicI64::new(trusted_ns),
            segments: Metric::total("retention_segments", "Segments dropped by retention."),
            bytes: Metric::total("retention_bytes", "Bytes of segments dropped by retention."),
            late_rows: Metric::total("retention_late_rows", "Rows older than their table's retention."),
        }
    }

    pub(crate) fn trusted_ns(&self) -> i64 {
        self.trusted_ns.load(Ordering::SeqCst)
    }

    fn present(&self, inner: &Inner, db: &DbVersion) -> i64 {
        let wall = inner.env.now_ns();
        let trusted = self.trusted_ns().max(db.retention_ns);
        let (advanced, warn) = self.clock.lock().advance(trusted, wall, inner.env.monotonic_ns());
        assert!(advanced >= trusted, "BUG: the trusted time goes back from {trusted} to {advanced}");
        self.trusted_ns.store(advanced, Ordering::SeqCst);
        if warn {
            tracing::warn!(
                ahead_seconds = (wall - advanced) / 1_000_000_000,
                "the clock is far ahead of the time that retention trusts; old rows are dropped at most a day per \
                 hour until it has caught up. If the clock is right, ALTER TABLE … SET (retention = …) confirms it"
            );
        }
        advanced.min(wall)
    }

    /// Order: manifest, database version, files. A compaction of dropped segments is cancelled by
    /// its next step, or has no effect.
    fn drop_until(&self, inner: &Inner, now: i64) -> Result<bool> {
        let mut manifest = inner.manifests.lock();
        let db = inner.versions.newest();
        let mut next = manifest.clone();
        let mut due: Vec<(TableId, i64)> = Vec::new();
        for (id, state) in &db.tables {
            // A table not yet flushed is in no manifest and waits for its first flush.
            if let (Some(kept_from), Some(files)) = (state.due_retention(now), next.files.get_mut(id)) {
                assert!(kept_from >= state.kept_from, "BUG: the retention horizon goes back to {kept_from}");
                assert!(kept_from <= now.max(state.kept_from), "BUG: at {now} retention drops rows up to {kept_from}");
                *files = state.with_retention(kept_from).files();
                due.push((*id, kept_from));
            }
        }
        drop(db);
        if due.is_empty() {
            return Ok(false);
        }
        next.retention_ns = next.retention_ns.max(self.trusted_ns());
        inner.manifests.replace(inner, &mut manifest, next, OrphanFiles::default)?;

        let lock = inner.commit.lock();
        let mut db = (*inner.versions.newest()).clone();
        let mut dropped_segments = Vec::new();
        for (id, kept_from) in due {
            // A table dropped meanwhile is removed by that commit.
            if let Some(state) = db.tables.get(&id).cloned() {
                dropped_segments.extend(state.segments_before(kept_from));
                db = db.with_state(id, state.with_retention(kept_from));
            }
        }
        inner.versions.replace_newest(db);
        drop(lock);
        drop(manifest);
        dropped_segments.iter().for_each(|segment| segment.remove_when_unused());
        self.segments.add(dropped_segments.len() as u64);
        self.bytes.add(dropped_segments.iter().map(|segment| segment.meta().bytes).sum());
        log_dropped(&dropped_segments);
        Ok(true)
    }
}

fn log_dropped(dropped_segments: &[Arc<Segment>]) {
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
