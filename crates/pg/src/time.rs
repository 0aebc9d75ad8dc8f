//! Dates, times, timestamps and intervals: text format with ISO DateStyle, and conversion to
//! PostgreSQL's epoch.
//!
//! Millrace stores timestamps as nanoseconds since 1970; PostgreSQL uses microseconds since 2000
//! ("pg micros"), where the extremes of int64 are the infinities. On output nanoseconds are rounded
//! down, which preserves order.

use model::{Error, Result, SqlState};

pub use crate::time_parse::{
    ZoneLookup, parse_date, parse_interval, parse_time, parse_timestamp, parse_timestamp_micros, parse_timestamptz,
    parse_timestamptz_micros,
};
use crate::value::{int_text, padded_text};
pub use model::Interval;

/// 2000-01-01 in days since 1970-01-01.
pub const EPOCH_DAYS: i32 = 10_957;
/// 2000-01-01 in microseconds since 1970-01-01.
pub const EPOCH_MICROS: i64 = EPOCH_DAYS as i64 * DAY_MICROS;
/// Microseconds per day.
pub const DAY_MICROS: i64 = 86_400_000_000;
const DAY_SECONDS: i64 = 86_400;

/// Converts days since 1970-01-01 to (year, month, day). The year is astronomical: 0 is 1 BC.
#[must_use]
pub fn date_of_days(days: i64) -> (i64, u32, u32) {
    // Count days from 1 March of year 0, so that a leap day is the last day of its year. An era is
    // 400 years.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * shifted_month + 2) / 5 + 1) as u32;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 } as u32;
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Converts an existing calendar day to days since 1970-01-01.
#[must_use]
pub fn days_of_date(year: i64, month: u32, day: u32) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted_month = i64::from(if month > 2 { month - 3 } else { month + 9 });
    let day_of_year = (153 * shifted_month + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Number of days in a month.
#[must_use]
pub fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Converts nanoseconds since 1970 to pg micros, rounding down.
#[must_use]
pub fn micros_of_ns(ns: i64) -> i64 {
    ns.div_euclid(1_000) - EPOCH_MICROS
}

/// Converts pg micros to nanoseconds since 1970.
///
/// # Errors
/// 22008 outside 1677-09-21 .. 2262-04-11, and for the infinities.
pub fn ns_of_micros(micros: i64) -> Result<i64> {
    micros.checked_add(EPOCH_MICROS).and_then(|micros| micros.checked_mul(1_000)).ok_or_else(|| {
        let mut text = Vec::new();
        timestamp_text(&mut text, micros);
        out_of_range(&String::from_utf8_lossy(&text))
    })
}

/// Error 22008 for a timestamp outside the range of nanoseconds since 1970.
pub(crate) fn out_of_range(text: &str) -> Error {
    Error::new(
        SqlState::DATETIME_OVERFLOW,
        format!("timestamp out of range: \"{}\" lies outside 1677-09-21 .. 2262-04-11", crate::value::excerpt(text)),
    )
}

/// Appends year, month and day; true if the year is BC.
fn date_part(out: &mut Vec<u8>, days: i64) -> bool {
    let (year, month, day) = date_of_days(days);
    let bc = year <= 0;
    padded_text(out, if bc { 1 - year } else { year } as u64, 4);
    out.push(b'-');
    padded_text(out, u64::from(month), 2);
    out.push(b'-');
    padded_text(out, u64::from(day), 2);
    bc
}

/// Appends `HH:MM:SS` and any fraction, without trailing zeros.
fn time_part(out: &mut Vec<u8>, micros: u64) {
    let seconds = micros / 1_000_000;
    padded_text(out, seconds / 3_600, 2);
    out.push(b':');
    padded_text(out, seconds / 60 % 60, 2);
    out.push(b':');
    padded_text(out, seconds % 60, 2);
    let mut fraction = micros % 1_000_000;
    if fraction == 0 {
        return;
    }
    let mut width = 6;
    while fraction.is_multiple_of(10) {
        fraction /= 10;
        width -= 1;
    }
    out.push(b'.');
    padded_text(out, fraction, width);
}

fn infinity(out: &mut Vec<u8>, positive: bool) {
    out.extend_from_slice(if positive { b"infinity" } else { b"-infinity" });
}

/// Appends a date, given in days since 2000; the extremes of i32 are the infinities.
pub fn date_text(out: &mut Vec<u8>, pg_days: i32) {
    if matches!(pg_days, i32::MIN | i32::MAX) {
        return infinity(out, pg_days > 0);
    }
    if date_part(out, i64::from(pg_days) + i64::from(EPOCH_DAYS)) {
        out.extend_from_slice(b" BC");
    }
}

/// Appends a time of day, given in microseconds since midnight.
pub fn time_text(out: &mut Vec<u8>, micros: i64) {
    time_part(out, micros.clamp(0, DAY_MICROS) as u64);
}

/// Appends a timestamp without time zone, given in pg micros.
pub fn timestamp_text(out: &mut Vec<u8>, micros: i64) {
    moment_text(out, micros, None);
}

/// Appends a timestamp with time zone, given in pg micros, in local time at `offset` seconds east
/// of UTC.
pub fn timestamptz_text(out: &mut Vec<u8>, micros: i64, offset: i32) {
    moment_text(out, micros, Some(offset));
}

fn moment_text(out: &mut Vec<u8>, micros: i64, offset: Option<i32>) {
    if matches!(micros, i64::MIN | i64::MAX) {
        return infinity(out, micros > 0);
    }
    let seconds = micros.div_euclid(1_000_000) + i64::from(offset.unwrap_or(0));
    let bc = date_part(out, seconds.div_euclid(DAY_SECONDS) + i64::from(EPOCH_DAYS));
    out.push(b' ');
    time_part(out, seconds.rem_euclid(DAY_SECONDS) as u64 * 1_000_000 + micros.rem_euclid(1_000_000) as u64);
    if let Some(offset) = offset {
        offset_text(out, offset);
    }
    if bc {
        out.extend_from_slice(b" BC");
    }
}

/// `+02`, `-03:30`, `+00:19:32`.
fn offset_text(out: &mut Vec<u8>, offset: i32) {
    let seconds = u64::from(offset.unsigned_abs());
    out.push(if offset < 0 { b'-' } else { b'+' });
    padded_text(out, seconds / 3_600, 2);
    if seconds % 3_600 != 0 {
        out.push(b':');
        padded_text(out, seconds / 60 % 60, 2);
    }
    if seconds % 60 != 0 {
        out.push(b':');
        padded_text(out, seconds % 60, 2);
    }
}

/// Parses an interval in binary format: microseconds, days, months.
///
/// # Errors
/// 22P03 unless there are exactly 16 bytes.
pub fn parse_interval_binary(bytes: &[u8]) -> Result<Interval> {
    let bytes: &[u8; 16] = bytes.try_into().map_err(|_| {
        Error::new(
            SqlState::INVALID_BINARY_REPRESENTATION,
            format!("invalid binary interval: {} bytes, expected 16", bytes.len()),
        )
    })?;
    let value = u128::from_be_bytes(*bytes);
    Ok(Interval { micros: (value >> 64) as i64, days: (value >> 32) as i32, months: value as i32 })
}

/// Encodes an interval in binary format.
#[must_use]
pub fn interval_binary(interval: Interval) -> [u8; 16] {
    let Interval { months, days, micros } = interval;
    let value = u128::from(micros as u64) << 64 | u128::from(days as u32) << 32 | u128::from(months as u32);
    value.to_be_bytes()
}

/// Appends an interval in IntervalStyle `postgres`: `1 year 2 mons -3 days +04:05:06.7`.
pub fn interval_text(out: &mut Vec<u8>, interval: Interval) {
    let Interval { months, days, micros } = interval;
    let start = out.len();
    // A positive field after a negative one gets a sign; it would be read as negative otherwise.
    let mut after_negative = false;
    for (value, unit) in [(months / 12, "year"), (months % 12, "mon"), (days, "day")] {
        if value != 0 {
            unit_text(out, start, value, unit, after_negative);
            after_negative = value < 0;
        }
    }
    if micros == 0 && out.len() > start {
        return;
    }
    if out.len() > start {
        out.push(b' ');
    }
    if micros < 0 {
        out.push(b'-');
    } else if after_negative {
        out.push(b'+');
    }
    time_part(out, micros.unsigned_abs());
}

fn unit_text(out: &mut Vec<u8>, start: usize, value: i32, unit: &str, after_negative: bool) {
    if out.len() > start {
        out.push(b' ');
    }
    if after_negative && value > 0 {
        out.push(b'+');
    }
    int_text(out, i64::from(value));
    out.push(b' ');
    out.extend_from_slice(unit.as_bytes());
    if value != 1 {
        out.push(b's');
    }
}

#[cfg(test)]
#[path = "time_tests.rs"]
mod tests;
