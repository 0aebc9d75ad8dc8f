//! UTC offsets of a session's time zone.

use jiff::Timestamp;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};

/// A time zone with a cache of the last offset and its validity.
///
/// Rows of a result are mostly in the same half year, so nearly every lookup is two comparisons.
#[derive(Clone, Debug)]
pub(super) struct Zone {
    zone: TimeZone,
    /// The offset is valid from `since` up to, not including, `until`; seconds since 1970.
    since: i64,
    until: i64,
    offset: i32,
}

impl Zone {
    /// UTC.
    pub(super) fn utc() -> Zone {
        Zone::new(TimeZone::UTC)
    }

    /// Returns a session's zone by name.
    pub(super) fn named(name: &str) -> Option<Zone> {
        query::Zone::new(name).ok().map(|zone| Zone::new(zone.time_zone().clone()))
    }

    fn new(zone: TimeZone) -> Zone {
        // Empty validity: the first lookup fills the cache.
        Zone { zone, since: 0, until: 0, offset: 0 }
    }

    /// UTC offset, in seconds east, at a time in seconds since 1970.
    pub(super) fn offset_at(&mut self, seconds: i64) -> i32 {
        if seconds < self.since || seconds >= self.until {
            self.look_up(seconds);
        }
        self.offset
    }

    fn look_up(&mut self, seconds: i64) {
        let timestamp = clamped(seconds);
        self.offset = self.zone.to_offset(timestamp).seconds();
        self.until = self.zone.following(timestamp).next().map_or(i64::MAX, |change| change.timestamp().as_second());
        let after = clamped(seconds.saturating_add(1));
        self.since = self.zone.preceding(after).next().map_or(i64::MIN, |change| change.timestamp().as_second());
    }

    /// UTC offset, in seconds east, at a local time in seconds since 1970.
    ///
    /// As in PostgreSQL, a skipped local time uses the offset before the change, a repeated one the
    /// offset after it.
    pub(super) fn offset_at_local(&self, local_seconds: i64) -> i32 {
        let local = Offset::UTC.to_datetime(clamped(local_seconds));
        match self.zone.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset.seconds(),
            AmbiguousOffset::Gap { before, .. } => before.seconds(),
            AmbiguousOffset::Fold { after, .. } => after.seconds(),
        }
    }
}

/// Clamps to the range of the zone database.
fn clamped(seconds: i64) -> Timestamp {
    let seconds = seconds.clamp(Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
    Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_follows_daylight_saving_in_any_order_of_lookups() {
        let mut berlin = Zone::named("Europe/Berlin").unwrap();
        // Changes at 2024-03-31 01:00 UTC and 2024-10-27 01:00 UTC.
        for (seconds, offset) in [
            (1_711_846_799, 3_600),
            (1_711_846_800, 7_200),
            (1_729_990_799, 7_200),
            (1_729_990_800, 3_600),
            (1_711_846_799, 3_600),
            (i64::MIN, 3_208),
            (1_720_000_000, 7_200),
        ] {
            assert_eq!(berlin.offset_at(seconds), offset, "{seconds}");
        }
    }

    #[test]
    fn skipped_and_repeated_local_times_are_read_as_postgresql_reads_them() {
        let berlin = Zone::named("Europe/Berlin").unwrap();
        assert_eq!(berlin.offset_at_local(1_711_852_200), 3_600, "2024-03-31 02:30 does not exist");
        assert_eq!(berlin.offset_at_local(1_729_996_200), 3_600, "2024-10-27 02:30 comes twice");
        assert_eq!(berlin.offset_at_local(1_720_000_000), 7_200);
    }

    #[test]
    fn fixed_offsets_are_zones_and_invalid_names_are_not() {
        assert_eq!(Zone::named("-03:30").unwrap().offset_at(0), -12_600);
        assert_eq!(Zone::utc().offset_at(i64::MAX), 0);
        for bad in ["", "+", "+26", "+1:99", "Nowhere/Land", "+-1"] {
            assert!(Zone::named(bad).is_none(), "{bad}");
        }
    }
}
