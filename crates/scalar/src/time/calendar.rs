//! The calendar: broken-down local times, and the ranges of the types.

use model::{Error, Result, SqlState};
pub(super) use pg::time::{date_of_days, days_in_month, days_of_date};

pub(super) const SECOND: i64 = 1_000_000;
pub(super) const MINUTE: i64 = 60 * SECOND;
pub(super) const HOUR: i64 = 60 * MINUTE;
pub(super) const DAY: i64 = 24 * HOUR;
/// Days of a month where only a month's length in days is asked for.
pub(super) const MONTH_DAYS: i32 = 30;

/// Julian day of 1970-01-01.
pub(super) const JULIAN_1970: i64 = 2_440_588;
/// First day of every type, 4714-11-24 BC: day 0 of the Julian calendar.
const DAYS_MIN: i64 = -JULIAN_1970;
/// First day after the range of `date`, 5874898-01-01.
const DAYS_END: i64 = 2_147_483_494 - JULIAN_1970;
/// First moment of timestamps.
const MICROS_MIN: i64 = DAYS_MIN * DAY;

/// A local time by its fields. The year is astronomical: 0 is 1 BC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) year: i64,
    /// From 1.
    pub(super) month: u32,
    /// From 1.
    pub(super) day: u32,
    /// Microseconds since midnight.
    pub(super) of_day: i64,
}

impl Fields {
    /// Fields of microseconds since 1970.
    pub(super) fn of_micros(micros: i64) -> Fields {
        let (year, month, day) = date_of_days(micros.div_euclid(DAY));
        Fields { year, month, day, of_day: micros.rem_euclid(DAY) }
    }

    /// Days since 1970. The fields must be those of an existing day.
    pub(super) fn days(&self) -> i64 {
        days_of_date(self.year, self.month, self.day)
    }

    /// Microseconds since 1970, which may be out of range.
    pub(super) fn micros(&self) -> i128 {
        i128::from(self.days()) * i128::from(DAY) + i128::from(self.of_day)
    }
}

/// Whether a timestamp is neither infinity nor minus infinity.
pub(super) fn is_finite(micros: i64) -> bool {
    !matches!(micros, i64::MIN | i64::MAX)
}

/// Whether a date is neither infinity nor minus infinity.
pub(super) fn is_finite_date(days: i32) -> bool {
    !matches!(days, i32::MIN | i32::MAX)
}

pub(super) fn timestamp_out_of_range() -> Error {
    Error::new(SqlState::DATETIME_OVERFLOW, "timestamp out of range")
}

pub(super) fn date_out_of_range() -> Error {
    Error::new(SqlState::DATETIME_OVERFLOW, "date out of range")
}

pub(super) fn interval_out_of_range() -> Error {
    Error::new(SqlState::DATETIME_OVERFLOW, "interval out of range")
}

/// A finite timestamp, `None` if out of range.
///
/// Microseconds since 1970 end in January 294247; PostgreSQL counts from 2000 and reaches the end of 294276.
pub(super) fn timestamp_in_range(micros: i128) -> Option<i64> {
    i64::try_from(micros).ok().filter(|micros| *micros >= MICROS_MIN && *micros < i64::MAX)
}

/// A finite timestamp.
pub(super) fn checked_timestamp(micros: i128) -> Result<i64> {
    timestamp_in_range(micros).ok_or_else(timestamp_out_of_range)
}

/// A finite date, `None` if out of range.
pub(super) fn date_in_range(days: i64) -> Option<i32> {
    (DAYS_MIN..DAYS_END).contains(&days).then_some(days as i32)
}

/// Whether a year and month are in the range of Julian days, from November 4714 BC to May 5874898.
pub(super) fn is_julian(year: i64, month: u32) -> bool {
    (year > -4713 || (year == -4713 && month >= 11)) && (year < 5_874_898 || (year == 5_874_898 && month < 6))
}

/// Midnight of a date; the infinities are kept.
pub(super) fn date_to_timestamp(days: i32) -> Result<i64> {
    match days {
        i32::MIN => Ok(i64::MIN),
        i32::MAX => Ok(i64::MAX),
        _ => timestamp_in_range(i128::from(days) * i128::from(DAY)).ok_or_else(date_too_large),
    }
}

pub(super) fn date_too_large() -> Error {
    Error::new(SqlState::DATETIME_OVERFLOW, "date out of range for timestamp")
}

/// The date of a timestamp; the infinities are kept.
pub(super) fn timestamp_to_date(micros: i64) -> i32 {
    match micros {
        i64::MIN => i32::MIN,
        i64::MAX => i32::MAX,
        // 2^63 microseconds are 2^27 days.
        _ => micros.div_euclid(DAY) as i32,
    }
}

/// Day of the week of a day since 1970: Sunday is 0.
pub(super) fn weekday(days: i64) -> i64 {
    (days + 4).rem_euclid(7)
}

/// Day of the year, from 1.
pub(super) fn day_of_year(days: i64) -> i64 {
    days - days_of_date(date_of_days(days).0, 1, 1) + 1
}

/// Year and week of ISO 8601.
pub(super) fn iso_week(days: i64) -> (i64, i64) {
    // A week is in the year of its Thursday.
    let thursday = days - (weekday(days) + 6) % 7 + 3;
    let year = date_of_days(thursday).0;
    (year, (thursday - days_of_date(year, 1, 1)) / 7 + 1)
}

/// Monday of a week of ISO 8601, in days since 1970.
pub(super) fn monday_of_iso_week(year: i64, week: i64) -> i64 {
    // 4 January is in week 1.
    let fourth = days_of_date(year, 1, 4);
    fourth - (weekday(fourth) + 6) % 7 + (week - 1) * 7
}

/// Adds months to year and month; the day is reduced to the last one of the month.
pub(super) fn add_months(fields: Fields, months: i64) -> Fields {
    let all = fields.year * 12 + i64::from(fields.month) - 1 + months;
    let (year, month) = (all.div_euclid(12), all.rem_euclid(12) as u32 + 1);
    Fields { year, month, day: fields.day.min(days_in_month(year, month)), ..fields }
}
