//! Dates and times as JSON has them: ISO 8601 with `T`, and offsets with minutes.

use std::fmt::Write;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use pg::time::date_of_days;

const DAY_MICROS: i64 = 86_400_000_000;
const SECOND_MICROS: i64 = 1_000_000;

pub(super) fn date_text(days: i32) -> String {
    let mut text = String::new();
    match days {
        i32::MIN => text.push_str("-infinity"),
        i32::MAX => text.push_str("infinity"),
        days => {
            let is_bc = write_date(&mut text, days.into());
            text.push_str(if is_bc { " BC" } else { "" });
        }
    }
    text
}

/// Appends year, month and day; returns whether the year is before Christ.
fn write_date(out: &mut String, days: i64) -> bool {
    let (year, month, day) = date_of_days(days);
    // The year before 1 is 1 BC.
    let shown = if year > 0 { year } else { 1 - year };
    let _ = write!(out, "{shown:04}-{month:02}-{day:02}");
    year <= 0
}

/// Microseconds since midnight.
pub(super) fn time_text(micros: i64) -> String {
    let mut text = String::new();
    write_time(&mut text, micros);
    text
}

fn write_time(out: &mut String, micros: i64) {
    let seconds = micros / SECOND_MICROS;
    let _ = write!(out, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    let fraction = micros % SECOND_MICROS;
    if fraction != 0 {
        let digits = format!("{fraction:06}");
        let _ = write!(out, ".{}", digits.trim_end_matches('0'));
    }
}

pub(super) fn timetz_text(micros: i64, west: i32) -> String {
    let mut text = String::new();
    write_time(&mut text, micros);
    write_offset(&mut text, -west);
    text
}

pub(super) fn timestamp_text(micros: i64) -> String {
    moment_text(micros, None)
}

pub(super) fn timestamptz_text(micros: i64, zone: &TimeZone) -> String {
    moment_text(micros, Some(offset_at(micros, zone)))
}

/// A moment in UTC as local time with its offset, in seconds east.
pub(super) fn timestamptz_text_at(micros: i64, offset: i32) -> String {
    moment_text(micros, Some(offset))
}

fn moment_text(micros: i64, offset: Option<i32>) -> String {
    if micros == i64::MAX || micros == i64::MIN {
        return if micros > 0 { "infinity" } else { "-infinity" }.to_owned();
    }
    let mut text = String::new();
    let local = micros.saturating_add(i64::from(offset.unwrap_or(0)) * SECOND_MICROS);
    let is_bc = write_date(&mut text, local.div_euclid(DAY_MICROS));
    text.push('T');
    write_time(&mut text, local.rem_euclid(DAY_MICROS));
    if let Some(offset) = offset {
        write_offset(&mut text, offset);
    }
    text.push_str(if is_bc { " BC" } else { "" });
    text
}

fn write_offset(out: &mut String, east: i32) {
    let seconds = east.unsigned_abs();
    let sign = if east < 0 { '-' } else { '+' };
    let _ = write!(out, "{sign}{:02}:{:02}", seconds / 3600, seconds / 60 % 60);
    if !seconds.is_multiple_of(60) {
        let _ = write!(out, ":{:02}", seconds % 60);
    }
}

/// The offset of a zone from UTC at a moment, in seconds east. Years beyond 9999 have that of the year 9999.
pub(super) fn offset_at(micros: i64, zone: &TimeZone) -> i32 {
    let bound = |micros: i64| Timestamp::from_microsecond(micros).ok();
    let moment = bound(micros).unwrap_or(if micros < 0 { Timestamp::MIN } else { Timestamp::MAX });
    zone.to_offset(moment).seconds()
}
