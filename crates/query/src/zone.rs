//! The session's time zone, for reading and writing timestamps.

use jiff::tz::{Offset, TimeZone};
use model::{Error, Result, SqlState};

/// A time zone by the name the settings keep: IANA, `UTC` or an offset such as `+02:00`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(TimeZone);

/// Seconds east of UTC of a named zone, or of the session's (`None`), at a local time in seconds since 1970.
pub type Offsets = dyn Fn(Option<&str>, i64) -> Option<i32> + Send + Sync;

impl Zone {
    /// UTC.
    #[must_use]
    pub fn utc() -> Zone {
        Zone(TimeZone::UTC)
    }

    /// The zone called `name`.
    ///
    /// # Errors
    /// 22023 when there is none.
    pub fn new(name: &str) -> Result<Zone> {
        find(name).map(Zone).ok_or_else(|| {
            Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("time zone \"{name}\" not recognized"))
        })
    }

    /// For `ingest`, which asks for offsets: of a named zone or (`None`) of this one, at a local time in seconds since 1970.
    #[must_use]
    pub fn lookup(&self) -> Box<Offsets> {
        let own = self.0.clone();
        Box::new(move |name, local| match name {
            Some(name) => find(name).map(|zone| offset_of_local(&zone, local)),
            None => Some(offset_of_local(&own, local)),
        })
    }

    pub(crate) fn is_utc(&self) -> bool {
        self.0 == TimeZone::UTC
    }

    /// What a clock on the wall shows at a moment, as nanoseconds since 1970 without zone.
    pub(crate) fn local_of(&self, ns: i64) -> Option<i64> {
        ns.checked_add(i64::from(self.offset_at(ns)) * 1_000_000_000)
    }

    /// The zone's short name at a moment, such as CEST.
    pub(crate) fn abbreviation_at(&self, ns: i64) -> String {
        match jiff::Timestamp::from_second(ns.div_euclid(1_000_000_000)) {
            Ok(moment) => self.0.to_offset_info(moment).abbreviation().to_owned(),
            Err(_) => String::new(),
        }
    }

    /// Seconds east of UTC at a moment (nanoseconds since 1970 UTC).
    #[must_use]
    pub fn offset_at(&self, ns: i64) -> i32 {
        self.offset_at_second(ns.div_euclid(1_000_000_000))
    }

    /// Seconds east of UTC at a moment in seconds since 1970 UTC.
    pub(crate) fn offset_at_second(&self, seconds: i64) -> i32 {
        jiff::Timestamp::from_second(seconds).map_or(0, |moment| self.0.to_offset(moment).seconds())
    }

    /// Seconds east of UTC at a local time in seconds since 1970.
    pub(crate) fn offset_at_local(&self, local_seconds: i64) -> i32 {
        offset_of_local(&self.0, local_seconds)
    }

    /// Reads a `timestamptz`; a text without zone is in this one.
    ///
    /// # Errors
    /// 22007, 22008, 22023.
    pub fn parse_timestamptz(&self, text: &str) -> Result<i64> {
        pg::time::parse_timestamptz(text, &|name, local| self.offset_of(name, local))
    }

    /// As [`Zone::parse_timestamptz`], but to microseconds since 1970, rounded.
    ///
    /// # Errors
    /// 22007, 22008, 22023.
    pub(crate) fn parse_timestamptz_micros(&self, text: &str) -> Result<i64> {
        pg::time::parse_timestamptz_micros(text, &|name, local| self.offset_of(name, local))
    }

    fn offset_of(&self, name: Option<&str>, local: i64) -> Option<i32> {
        match name {
            Some(name) => find(name).map(|zone| offset_of_local(&zone, local)),
            None => Some(offset_of_local(&self.0, local)),
        }
    }

    /// A moment of a clock on the wall in this zone (nanoseconds since 1970 without zone), as nanoseconds since 1970 UTC.
    #[must_use]
    pub fn moment_of_local(&self, local_ns: i64) -> Option<i64> {
        let offset = offset_of_local(&self.0, local_ns.div_euclid(1_000_000_000));
        local_ns.checked_sub(i64::from(offset) * 1_000_000_000)
    }
}

fn find(name: &str) -> Option<TimeZone> {
    if name.eq_ignore_ascii_case("utc") || name.eq_ignore_ascii_case("z") || name.eq_ignore_ascii_case("gmt") {
        return Some(TimeZone::UTC);
    }
    if let Some((sign, rest)) = name.split_at_checked(1).filter(|(sign, _)| *sign == "+" || *sign == "-") {
        let (hours, minutes) = rest.split_once(':').unwrap_or((rest, "0"));
        let seconds = hours.parse::<i32>().ok()? * 3_600 + minutes.parse::<i32>().ok()? * 60;
        let seconds = if sign == "-" { -seconds } else { seconds };
        return Offset::from_seconds(seconds).ok().map(TimeZone::fixed);
    }
    TimeZone::get(name).ok()
}

/// The offset that holds at a local time. In a gap or fold the earlier offset, as PostgreSQL does.
fn offset_of_local(zone: &TimeZone, local_seconds: i64) -> i32 {
    let Ok(as_utc) = jiff::Timestamp::from_second(local_seconds) else {
        return 0;
    };
    let local = TimeZone::UTC.to_datetime(as_utc);
    match zone.to_ambiguous_timestamp(local).offset() {
        jiff::tz::AmbiguousOffset::Unambiguous { offset } => offset.seconds(),
        jiff::tz::AmbiguousOffset::Gap { before, .. } => before.seconds(),
        // PostgreSQL reads the hour that occurs twice as standard time, its second occurrence.
        jiff::tz::AmbiguousOffset::Fold { after, .. } => after.seconds(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_times_are_read_in_the_zone_across_dst() {
        let berlin = Zone::new("Europe/Berlin").unwrap();
        for (text, utc) in [
            ("2024-01-15 12:00", "2024-01-15T11:00:00Z"),
            ("2024-07-15 12:00", "2024-07-15T10:00:00Z"),
            // The gap of 2024-03-31 and the fold of 2024-10-27.
            ("2024-03-31 02:30", "2024-03-31T01:30:00Z"),
            ("2024-10-27 02:30", "2024-10-27T01:30:00Z"),
            ("2024-07-15 12:00+00", "2024-07-15T12:00:00Z"),
            ("2024-07-15 12:00 America/New_York", "2024-07-15T16:00:00Z"),
        ] {
            let expected: jiff::Timestamp = utc.parse().unwrap();
            assert_eq!(i128::from(berlin.parse_timestamptz(text).unwrap()), expected.as_nanosecond(), "{text}");
        }
    }

    #[test]
    fn offsets_follow_the_moment() {
        let zone = Zone::new("Europe/Berlin").unwrap();
        assert_eq!(zone.offset_at(1_705_316_400_000_000_000), 3_600);
        assert_eq!(zone.offset_at(1_721_037_600_000_000_000), 7_200);
        assert_eq!(Zone::new("-03:30").unwrap().offset_at(0), -12_600);
    }
}
