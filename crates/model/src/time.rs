//! Time: int64 nanoseconds since 1970-01-01T00:00:00Z, leap seconds ignored (POSIX).

use std::fmt;

use crate::{Error, Result, SqlState};

/// A point in time: nanoseconds since 1970 UTC, 1677-09-21 to 2262-04-11.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The earliest representable time.
    pub const MIN: Timestamp = Timestamp(i64::MIN);
    /// The latest representable time.
    pub const MAX: Timestamp = Timestamp(i64::MAX);

    /// Converts `value` units of `unit_ns` nanoseconds since 1970.
    ///
    /// # Errors
    /// 22008 when the time is out of range.
    pub fn from_units(value: i64, unit_ns: i64) -> Result<Timestamp> {
        value.checked_mul(unit_ns).map(Timestamp).ok_or_else(|| {
            Error::new(
                SqlState::DATETIME_OVERFLOW,
                format!("time {value} x {unit_ns} ns lies outside 1677-09-21 .. 2262-04-11"),
            )
        })
    }
}

impl fmt::Display for Timestamp {
    /// Nanoseconds as an integer; formatting as a date is left to the protocol layer.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A range of times, stored with an inclusive end so that it can cover every int64. Users write
/// half-open intervals, which [`TimeRange::half_open`] converts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimeRange {
    /// First time in the range.
    pub start: i64,
    /// Last time in the range (inclusive).
    pub last: i64,
}

impl TimeRange {
    /// All times.
    pub const ALL: TimeRange = TimeRange { start: i64::MIN, last: i64::MAX };
    /// No times.
    pub const EMPTY: TimeRange = TimeRange { start: i64::MAX, last: i64::MIN };

    /// The range `[start, end)`; empty if `end <= start`.
    #[must_use]
    pub fn half_open(start: i64, end: i64) -> TimeRange {
        match end.checked_sub(1) {
            Some(last) if last >= start => TimeRange { start, last },
            _ => TimeRange::EMPTY,
        }
    }

    /// Whether the range contains no time.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start > self.last
    }

    /// Whether the range contains `time`.
    #[must_use]
    pub fn contains(&self, time: i64) -> bool {
        self.start <= time && time <= self.last
    }

    /// Whether the two ranges have a time in common.
    #[must_use]
    pub fn overlaps(&self, other: &TimeRange) -> bool {
        !self.is_empty() && !other.is_empty() && self.start <= other.last && other.start <= self.last
    }

    /// Whether the range contains all times of `other`.
    #[must_use]
    pub fn covers(&self, other: &TimeRange) -> bool {
        other.is_empty() || (self.start <= other.start && other.last <= self.last)
    }

    /// The times in both ranges.
    #[must_use]
    pub fn intersect(&self, other: &TimeRange) -> TimeRange {
        TimeRange { start: self.start.max(other.start), last: self.last.min(other.last) }
    }

    /// The smallest range that covers both.
    #[must_use]
    pub fn union(&self, other: &TimeRange) -> TimeRange {
        if self.is_empty() {
            return *other;
        }
        if other.is_empty() {
            return *self;
        }
        TimeRange { start: self.start.min(other.start), last: self.last.max(other.last) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_open_excludes_its_end_at_every_edge() {
        assert!(TimeRange::half_open(0, 10).contains(9));
        assert!(!TimeRange::half_open(0, 10).contains(10));
        assert!(TimeRange::half_open(5, 5).is_empty());
        assert!(TimeRange::half_open(5, i64::MIN).is_empty());
        assert!(!TimeRange::half_open(0, i64::MAX).contains(i64::MAX));
        assert!(TimeRange::ALL.contains(i64::MAX) && TimeRange::ALL.contains(i64::MIN));
    }

    #[test]
    fn units_that_overflow_are_refused_with_22008() {
        assert_eq!(Timestamp::from_units(1, 1_000_000_000).unwrap(), Timestamp(1_000_000_000));
        assert_eq!(Timestamp::from_units(i64::MAX, 1_000).unwrap_err().state(), SqlState::DATETIME_OVERFLOW);
    }
}
