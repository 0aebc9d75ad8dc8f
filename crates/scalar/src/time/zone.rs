//! Time zones: their names, and offsets at a moment or at a local time.
//!
//! Offsets are seconds east of UTC. `timetz` and PostgreSQL's own texts of POSIX zones count west.

use std::borrow::Cow;

use jiff::Timestamp;
use jiff::tz::{AmbiguousOffset, TimeZone};
use model::{Error, Result, SqlState};

use super::abbreviations::{Abbreviation, abbreviation};
use super::calendar::SECOND;

/// The calendar and the weekdays repeat after 400 years, and so do the rules of zones.
const CYCLE_SECONDS: i64 = 146_097 * 86_400;
/// 9599-01-01: `jiff` knows zones up to the year 9999.
const CYCLED_FROM: i64 = 240_752_736_000;
/// Rule of daylight-saving time for POSIX zones without one: that of the United States.
const POSIX_RULE: &str = ",M3.2.0,M11.1.0";

/// A zone of a statement.
#[derive(Clone, Debug)]
pub(super) enum Zone {
    /// A constant offset.
    Fixed(i32),
    /// A zone of the database or of POSIX.
    Named(TimeZone),
    /// An abbreviation whose offset depends on the date.
    Dynamic(&'static str, TimeZone),
}

impl Zone {
    /// The zone of a name: an abbreviation, a name of the database, or a POSIX text such as `EST5EDT`.
    ///
    /// # Errors
    /// 22023 for an unknown zone.
    pub(super) fn of_name(name: &str) -> Result<Zone> {
        let found = Zone::of_abbreviation(name).or_else(|| named(name));
        found.ok_or_else(|| unknown(name))
    }

    fn of_abbreviation(name: &str) -> Option<Zone> {
        match abbreviation(name)? {
            Abbreviation::Fixed(offset, _) => Some(Zone::Fixed(offset)),
            Abbreviation::Dynamic(zone) => Zone::dynamic(name, zone),
        }
    }

    /// An abbreviation that a zone uses.
    pub(super) fn dynamic(name: &str, zone: &str) -> Option<Zone> {
        let known = super::abbreviations::dynamic_name(name)?;
        TimeZone::get(zone).ok().map(|zone| Zone::Dynamic(known, zone))
    }

    /// Offset at a UTC time in microseconds since 1970.
    pub(super) fn offset_at(&self, micros: i64) -> i32 {
        match self {
            Zone::Fixed(offset) => *offset,
            Zone::Named(zone) => offset_at(zone, micros),
            Zone::Dynamic(name, zone) => abbreviated_offset(zone, name, micros),
        }
    }

    /// Offset at a local time in microseconds since 1970.
    pub(super) fn offset_at_local(&self, local: i128) -> i32 {
        match self {
            Zone::Fixed(offset) => *offset,
            Zone::Named(zone) => offset_at_local(zone, local),
            Zone::Dynamic(name, zone) => {
                let utc = local - i128::from(offset_at_local(zone, local)) * i128::from(SECOND);
                abbreviated_offset(zone, name, utc.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
            }
        }
    }

    /// The offset, if it is the same at every time.
    pub(super) fn fixed_offset(&self) -> Option<i32> {
        let Zone::Named(zone) = self else {
            return if let Zone::Fixed(offset) = self { Some(*offset) } else { None };
        };
        let now = zone.to_offset(Timestamp::UNIX_EPOCH);
        let is_fixed = zone.preceding(Timestamp::MAX).all(|transition| transition.offset() == now);
        is_fixed.then(|| now.seconds())
    }
}

pub(super) fn unknown(name: &str) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("time zone \"{name}\" not recognized"))
}

/// A zone of the database or of POSIX.
pub(super) fn named(name: &str) -> Option<Zone> {
    let bare = match name.get(..6) {
        Some(folder) if folder.eq_ignore_ascii_case("posix/") => &name[6..],
        _ => name,
    };
    if ["utc", "gmt"].iter().any(|utc| bare.eq_ignore_ascii_case(utc)) {
        return Some(Zone::Named(TimeZone::UTC));
    }
    TimeZone::get(bare).ok().map(Zone::Named).or_else(|| posix(&name.to_ascii_uppercase()))
}

/// A zone such as `EST5EDT`: a name and an offset, maybe the name of daylight-saving time, its offset and its rule.
fn posix(text: &str) -> Option<Zone> {
    let (_, rest) = posix_name(text)?;
    let (west, rest) = posix_offset(rest)?;
    if rest.is_empty() {
        return Some(Zone::Fixed(-west));
    }
    let (_, rest) = posix_name(rest).filter(|(name, _)| !name.is_empty())?;
    let rule = if rest.contains(',') { "" } else { POSIX_RULE };
    let sign = if west < 0 { '-' } else { '+' };
    let west = west.abs();
    let offset = format!("{sign}{}:{:02}:{:02}", west / 3_600, west / 60 % 60, west % 60);
    // Only the offsets count here, and the library refuses some names that PostgreSQL takes.
    TimeZone::posix(&format!("STD{offset}DST{rest}{rule}")).ok().map(Zone::Named)
}

/// A name in a POSIX text, in brackets or up to a digit, sign or comma, and the rest.
fn posix_name(text: &str) -> Option<(&str, &str)> {
    if let Some(quoted) = text.strip_prefix('<') {
        return quoted.split_once('>');
    }
    let end = text.find(|c: char| c.is_ascii_digit() || matches!(c, ',' | '-' | '+'));
    Some(text.split_at(end.unwrap_or(text.len())))
}

/// Seconds of an offset `[+-]hh[:mm[:ss]]`, and the rest.
fn posix_offset(text: &str) -> Option<(i32, &str)> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let mut seconds = 0;
    for (unit, limit) in [(3_600, 168), (60, 60), (1, 61)] {
        if unit != 3_600 {
            let Some(after) = rest.strip_prefix(':') else { break };
            rest = after;
        }
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: i32 = rest[..end].parse().ok().filter(|number| *number < limit)?;
        (seconds, rest) = (seconds + number * unit, &rest[end..]);
    }
    Some((if negative { -seconds } else { seconds }, rest))
}

/// A moment within the range of `jiff` at which a zone has the offset that it has at `seconds` since 1970.
#[must_use]
pub fn zone_moment(seconds: i64) -> Timestamp {
    let seconds = if seconds < CYCLED_FROM {
        seconds
    } else {
        CYCLED_FROM - CYCLE_SECONDS + (seconds - CYCLED_FROM) % CYCLE_SECONDS
    };
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MIN)
}

/// Offset of a zone at a UTC time in microseconds since 1970.
pub(super) fn offset_at(zone: &TimeZone, micros: i64) -> i32 {
    zone.to_offset(zone_moment(micros.div_euclid(SECOND))).seconds()
}

/// Abbreviation of a zone at a UTC time in microseconds since 1970, such as CEST.
pub(super) fn abbreviation_at(zone: &TimeZone, micros: i64) -> Cow<'static, str> {
    zone.to_offset_info(zone_moment(micros.div_euclid(SECOND))).abbreviation().to_owned().into()
}

/// Offset of a zone at a local time in microseconds since 1970. A time that does not exist has the offset before the
/// gap, a time that exists twice the later one, as in PostgreSQL.
pub(super) fn offset_at_local(zone: &TimeZone, local: i128) -> i32 {
    let seconds = local.div_euclid(SECOND.into()).clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    let local = TimeZone::UTC.to_datetime(zone_moment(seconds));
    match zone.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.seconds(),
        AmbiguousOffset::Gap { before, .. } => before.seconds(),
        AmbiguousOffset::Fold { after, .. } => after.seconds(),
    }
}

/// Local time of a UTC time in a zone, both in microseconds since 1970; it may be out of range by the offset.
pub(super) fn local_of(zone: &TimeZone, micros: i64) -> i128 {
    i128::from(micros) + i128::from(offset_at(zone, micros)) * i128::from(SECOND)
}

/// UTC time of a local time in a zone, both in microseconds since 1970; it may be out of range by the offset.
pub(super) fn utc_of(zone: &TimeZone, local: i128) -> i128 {
    local - i128::from(offset_at_local(zone, local)) * i128::from(SECOND)
}

/// The offset of the last time before a moment at which a zone used an abbreviation, else of the first time after it,
/// else of the zone at the moment.
fn abbreviated_offset(zone: &TimeZone, name: &str, micros: i64) -> i32 {
    let at = zone_moment(micros.div_euclid(SECOND));
    let after = at.saturating_add(jiff::SignedDuration::from_secs(1)).unwrap_or(at);
    let uses = |transition: &jiff::tz::TimeZoneTransition<'_>| transition.abbreviation() == name;
    let found = zone.preceding(after).find(uses).or_else(|| zone.following(at).find(uses));
    found.map_or_else(|| zone.to_offset(at).seconds(), |transition| transition.offset().seconds())
}

#[cfg(test)]
mod tests {
    use super::super::calendar::DAY;
    use super::*;

    #[test]
    fn local_times_have_the_offsets_of_postgresql_across_daylight_saving() {
        let berlin = named("europe/berlin").expect("a zone");
        let hours = |local: &str| {
            let local: jiff::civil::DateTime = local.parse().expect("a time");
            let micros = local.to_zoned(TimeZone::UTC).expect("a time").timestamp().as_microsecond();
            berlin.offset_at_local(micros.into()) / 3_600
        };
        assert_eq!(hours("2024-01-15T12:00"), 1);
        assert_eq!(hours("2024-07-15T12:00"), 2);
        // The gap of 2024-03-31 and the repeated hour of 2024-10-27.
        assert_eq!(hours("2024-03-31T02:30"), 1);
        assert_eq!(hours("2024-10-27T02:30"), 1);
    }

    #[test]
    fn rules_hold_after_the_year_9999() {
        let york = named("America/New_York").expect("a zone");
        // 200001-07-01 and 200001-01-01.
        for (days, offset) in [(72_329_873, -4), (72_329_692, -5)] {
            assert_eq!(york.offset_at(days * DAY) / 3_600, offset);
        }
    }

    #[test]
    fn posix_names_count_hours_west() {
        for (name, seconds) in [
            ("GMT-8", 28_800),
            ("UTC+5:30", -19_800),
            ("AB3", -10_800),
            ("<+08>-08", 28_800),
            ("PST99", -356_400),
            ("P0Y", 3_600),
        ] {
            assert_eq!(named(name).map(|zone| zone.offset_at(1_719_792_000_000_000)), Some(seconds), "{name}");
        }
        let eastern = named("est5edt").expect("a zone");
        assert_eq!(eastern.offset_at(1_719_792_000_000_000), -14_400);
        for name in ["foo", "", "FEB-03-01", "UTC+169", "<+08", "+"] {
            assert!(named(name).is_none(), "{name}");
        }
    }
}
