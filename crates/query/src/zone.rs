//! Time zones: parsing of zone names, and conversion of timestamps between a zone and UTC.
//!
//! | who names a zone                                | function          | `+02`, `UTC-2`                      |
//! |-------------------------------------------------|-------------------|-------------------------------------|
//! | SET TimeZone, start-up parameters               | [`Zone::setting`] | a number is east, POSIX text is not |
//! | AT TIME ZONE, `timezone()`, names in timestamps | [`Zone::read`]    | POSIX: `UTC-2` is east of Greenwich |
//! | settings, plans, Arrow types                    | [`Zone::new`]     | `+02:00` is east; no POSIX text     |

use jiff::tz::{Offset, TimeZone};
use model::{Error, Result, SqlState};

/// A time zone by its name in settings: IANA, `UTC` or an offset such as `+02:00`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(TimeZone);

/// Seconds east of UTC of a named zone, or of the session's (`None`), at a local time in seconds since 1970.
pub type Offsets = dyn Fn(Option<&str>, i64) -> Option<i32> + Send + Sync;

impl Zone {
    /// The zone UTC.
    #[must_use]
    pub fn utc() -> Zone {
        Zone(TimeZone::UTC)
    }

    /// Parses the name of a zone in settings and Arrow types: IANA, or an offset such as `+02:00`, east of
    /// Greenwich.
    ///
    /// # Errors
    /// 22023 for an unknown zone.
    pub fn new(name: &str) -> Result<Zone> {
        let zone = if is_utc_name(name) { Some(TimeZone::UTC) } else { east(name).or_else(|| by_iana_name(name)) };
        zone.map(Zone).ok_or_else(|| unknown(name))
    }

    /// Parses the name of a zone in a statement, with PostgreSQL's rules: an abbreviation, an IANA name, or
    /// POSIX text such as `GMT-8`, which is east of Greenwich.
    ///
    /// # Errors
    /// 22023 for an unknown zone.
    pub fn read(name: &str) -> Result<Zone> {
        let name = name.trim();
        let known = scalar::zone_abbreviations().iter().find(|(known, ..)| known.eq_ignore_ascii_case(name));
        let known = known.and_then(|(_, offset, _)| fixed(*offset));
        known.or_else(|| by_iana_name(name)).or_else(|| posix(name)).map(Zone).ok_or_else(|| unknown(name))
    }

    /// Parses a value of the setting `TimeZone`. Returns the value that SHOW prints, and the name for
    /// [`Zone::new`]. A number is hours east of Greenwich. Returns `None` for an unknown zone, and for one
    /// without an Arrow name (POSIX text with daylight saving).
    #[must_use]
    pub fn setting(value: &str) -> Option<(String, String)> {
        if is_utc_name(value) {
            return Some((value.to_ascii_uppercase(), "UTC".to_owned()));
        }
        if let Ok(hours) = value.parse::<f64>() {
            return Zone::setting_of_offset((hours * 3_600.0) as i32);
        }
        if let Some(zone) = by_iana_name(value) {
            let name = zone.iana_name().unwrap_or(value).to_owned();
            let shown = if has_prefix(value, POSIX_FOLDER) { format!("{POSIX_FOLDER}{name}") } else { name.clone() };
            return Some((shown, name));
        }
        let (west, rule) = posix_offset(value)?;
        offset_name(-west).filter(|_| rule.is_empty()).map(|name| (value.to_owned(), name))
    }

    /// Like [`Zone::setting`], for an offset in seconds east of Greenwich; SHOW prints `<+02>-02`, as in
    /// PostgreSQL.
    #[must_use]
    pub fn setting_of_offset(seconds: i32) -> Option<(String, String)> {
        let name = offset_name(seconds)?;
        let short = name.strip_suffix(":00").unwrap_or(&name);
        let opposite = if seconds < 0 { '+' } else { '-' };
        Some((format!("<{short}>{opposite}{}", &short[1..]), name))
    }

    /// The zone as a `jiff` time zone.
    #[must_use]
    pub fn time_zone(&self) -> &TimeZone {
        &self.0
    }

    /// Offset lookup for `ingest`: of a named zone or (`None`) of this one, at a local time in seconds since
    /// 1970.
    #[must_use]
    pub fn lookup(&self) -> Box<Offsets> {
        let own = self.0.clone();
        Box::new(move |name, local| match name {
            Some(name) => Zone::read(name).ok().map(|zone| zone.offset_at_local(local)),
            None => Some(offset_of_local(&own, local)),
        })
    }

    /// Seconds east of UTC at a UTC time in nanoseconds since 1970.
    #[must_use]
    pub fn offset_at(&self, ns: i64) -> i32 {
        self.offset_at_second(ns.div_euclid(1_000_000_000))
    }

    /// Seconds east of UTC at a UTC time in seconds since 1970.
    pub(crate) fn offset_at_second(&self, seconds: i64) -> i32 {
        self.0.to_offset(scalar::zone_moment(seconds)).seconds()
    }

    /// Seconds east of UTC at a local time in seconds since 1970.
    #[must_use]
    pub fn offset_at_local(&self, local_seconds: i64) -> i32 {
        offset_of_local(&self.0, local_seconds)
    }

    /// Parses a `timestamptz`; a text without a zone is local time in this zone.
    ///
    /// # Errors
    /// 22007, 22008, 22023.
    pub fn parse_timestamptz(&self, text: &str) -> Result<i64> {
        pg::time::parse_timestamptz(text, &|name, local| self.offset_of(name, local))
    }

    /// Like [`Zone::parse_timestamptz`], but returns microseconds since 1970, rounded.
    ///
    /// # Errors
    /// 22007, 22008, 22023.
    pub(crate) fn parse_timestamptz_micros(&self, text: &str) -> Result<i64> {
        pg::time::parse_timestamptz_micros(text, &|name, local| self.offset_of(name, local))
    }

    fn offset_of(&self, name: Option<&str>, local: i64) -> Option<i32> {
        match name {
            Some(name) => Zone::read(name).ok().map(|zone| zone.offset_at_local(local)),
            None => Some(self.offset_at_local(local)),
        }
    }

    /// UTC time of a local time in this zone, both in nanoseconds since 1970.
    #[must_use]
    pub fn moment_of_local(&self, local_ns: i64) -> Option<i64> {
        let offset = offset_of_local(&self.0, local_ns.div_euclid(1_000_000_000));
        local_ns.checked_sub(i64::from(offset) * 1_000_000_000)
    }
}

/// Directory in which many systems keep zones without leap seconds; all zones here are without them.
const POSIX_FOLDER: &str = "posix/";

fn unknown(name: &str) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("time zone \"{name}\" not recognized"))
}

fn is_utc_name(name: &str) -> bool {
    name.eq_ignore_ascii_case("utc") || name.eq_ignore_ascii_case("gmt")
}

fn has_prefix(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

fn by_iana_name(name: &str) -> Option<TimeZone> {
    let bare = if has_prefix(name, POSIX_FOLDER) { &name[POSIX_FOLDER.len()..] } else { name };
    if is_utc_name(bare) { Some(TimeZone::UTC) } else { TimeZone::get(bare).ok() }
}

fn fixed(seconds: i32) -> Option<TimeZone> {
    Offset::from_seconds(seconds).ok().map(TimeZone::fixed)
}

/// Parses `+02`, `-03:30`: east of Greenwich.
fn east(name: &str) -> Option<TimeZone> {
    let (seconds, rest) = offset(name).filter(|_| name.starts_with(['+', '-']))?;
    fixed(seconds).filter(|_| rest.is_empty())
}

/// Formats an offset as `+02:00`; `None` for an offset with seconds, which Arrow cannot represent.
fn offset_name(seconds: i32) -> Option<String> {
    let (sign, minutes) = (if seconds < 0 { '-' } else { '+' }, seconds.abs() / 60);
    let is_named = seconds % 60 == 0 && minutes < 24 * 60;
    is_named.then(|| format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60))
}

/// Parses POSIX text: an abbreviation (letters, or anything in angle brackets, or nothing), then hours *west*
/// of Greenwich, then, with daylight saving, a second abbreviation and its rule, which defaults to that of
/// the United States.
fn posix(text: &str) -> Option<TimeZone> {
    let (west, rest) = posix_offset(text)?;
    if rest.is_empty() {
        // The library keeps the abbreviation, and requires at least three letters.
        return TimeZone::posix(text).ok().or_else(|| fixed(-west));
    }
    let rule = if rest.contains(',') { "" } else { ",M3.2.0,M11.1.0" };
    TimeZone::posix(&format!("{text}{rule}")).ok()
}

/// Seconds west of Greenwich of POSIX text, and the rest, which describes daylight saving.
fn posix_offset(text: &str) -> Option<(i32, &str)> {
    let after_name = match text.strip_prefix('<') {
        Some(rest) => &rest[rest.find('>')? + 1..],
        None => text.trim_start_matches(|c: char| c.is_ascii_alphabetic()),
    };
    offset(after_name)
}

/// Parses `[+-]hh[:mm[:ss]]` to seconds; returns the text after it too.
fn offset(text: &str) -> Option<(i32, &str)> {
    let (sign, mut rest) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let mut seconds = 0;
    for (unit, limit) in [(3_600, 26), (60, 60), (1, 60)] {
        if unit != 3_600 {
            let Some(after) = rest.strip_prefix(':') else { break };
            rest = after;
        }
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: i32 = rest[..end].parse().ok().filter(|number| *number < limit)?;
        (seconds, rest) = (seconds + number * unit, &rest[end..]);
    }
    Some((sign * seconds, rest))
}

/// Offset at a local time. In a gap this is the offset before it, as in PostgreSQL.
fn offset_of_local(zone: &TimeZone, local_seconds: i64) -> i32 {
    let local = TimeZone::UTC.to_datetime(scalar::zone_moment(local_seconds));
    match zone.to_ambiguous_timestamp(local).offset() {
        jiff::tz::AmbiguousOffset::Unambiguous { offset } => offset.seconds(),
        jiff::tz::AmbiguousOffset::Gap { before, .. } => before.seconds(),
        // PostgreSQL reads the repeated hour as standard time, its second occurrence.
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
        // 200001-07-01 and 200001-01-01.
        for (days, offset) in [(72_329_873_i64, 7_200), (72_329_692, 3_600)] {
            assert_eq!(zone.offset_at_second(days * 86_400), offset);
            assert_eq!(zone.offset_at_local(days * 86_400), offset);
        }
    }

    /// JVMs send their zone at start-up: `-Duser.timezone=GMT+8` as `GMT-08:00`, which was refused. The
    /// values are PostgreSQL 15's.
    #[test]
    fn names_of_zones_are_read_as_postgresql_reads_them() {
        let hours = |hours: f64| Some((hours * 3_600.0) as i32);
        for (text, shown, set, read) in [
            ("GMT-08:00", "GMT-08:00", hours(8.0), hours(8.0)),
            ("GMT-8", "GMT-8", hours(8.0), hours(8.0)),
            ("UTC+8", "UTC+8", hours(-8.0), hours(-8.0)),
            ("UTC-5:30", "UTC-5:30", hours(5.5), hours(5.5)),
            ("<+08>-08", "<+08>-08", hours(8.0), hours(8.0)),
            ("posix/UTC", "posix/UTC", hours(0.0), hours(0.0)),
            ("AB3", "AB3", hours(-3.0), hours(-3.0)),
            ("+02:00", "+02:00", hours(-2.0), hours(-2.0)),
            ("-8", "<-08>+08", hours(-8.0), hours(8.0)),
            ("+8", "<+08>-08", hours(8.0), hours(-8.0)),
            ("2.5", "<+02:30>-02:30", hours(2.5), None),
            ("gmt", "GMT", hours(0.0), hours(0.0)),
            ("europe/berlin", "Europe/Berlin", hours(1.0), hours(1.0)),
            ("PST", "", None, hours(-8.0)),
            ("CEST", "", None, hours(2.0)),
            ("foo", "", None, None),
            ("", "", None, None),
            ("200", "", None, None),
            ("UTC+169", "", None, None),
            ("<+08", "", None, None),
            ("+", "", None, None),
            ("é-1", "", None, None),
        ] {
            let at = |zone: Zone| zone.offset_at(0);
            let setting = Zone::setting(text);
            assert_eq!(setting.as_ref().map_or("", |(shown, _)| shown), shown, "{text}");
            assert_eq!(setting.map(|(_, name)| at(Zone::new(&name).unwrap())), set, "SET TimeZone = '{text}'");
            assert_eq!(Zone::read(text).ok().map(at), read, "AT TIME ZONE '{text}'");
        }
        let summer = 1_719_792_000_000_000_000;
        assert_eq!(Zone::read("CET-1CEST,M3.5.0,M10.5.0/3").unwrap().offset_at(summer), 7_200);
        assert_eq!(Zone::read("ABC3DEF").unwrap().offset_at(summer), -7_200);
    }
}
