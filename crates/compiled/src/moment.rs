//! Moments and intervals added up, as PostgreSQL does it: months first, to the last day of a month at most, then days, then the rest.

use model::{Datum, Error, Interval, Result, SqlState};

use crate::cast::Zone;

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

/// A timestamp, with or without zone, and an interval after it. Days are those of the zone, however long.
pub(crate) fn shifted(moment: &Datum<'_>, by: Interval, zone: &dyn Zone) -> Result<Datum<'static>> {
    match moment {
        // The infinities stay where they are.
        Datum::Timestamp(end @ (i64::MIN | i64::MAX)) => Ok(Datum::Timestamp(*end)),
        Datum::Timestamptz(end @ (i64::MIN | i64::MAX)) => Ok(Datum::Timestamptz(*end)),
        Datum::Timestamp(micros) => Ok(Datum::Timestamp(later(days_later(*micros, by)?, by.micros)?)),
        Datum::Timestamptz(micros) => {
            let moved = by.months != 0 || by.days != 0;
            let day = if moved { zone.moment(days_later(zone.local(*micros), by)?) } else { *micros };
            Ok(Datum::Timestamptz(later(day, by.micros)?))
        }
        other => Err(Error::bug(format!("an interval after {}", other.type_name()))),
    }
}

/// The part of the interval that is counted in a calendar.
fn days_later(micros: i64, by: Interval) -> Result<i64> {
    let (mut days, time) = (micros.div_euclid(DAY), micros.rem_euclid(DAY));
    if by.months != 0 {
        let (year, month, day) = pg::time::date_of_days(days);
        let months = year * 12 + i64::from(month) - 1 + i64::from(by.months);
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) as u32 + 1);
        days = pg::time::days_of_date(year, month, day.min(pg::time::days_in_month(year, month)));
    }
    let micros = (days + i64::from(by.days)).checked_mul(DAY).and_then(|micros| micros.checked_add(time));
    micros.ok_or_else(out_of_range)
}

fn later(micros: i64, by: i64) -> Result<i64> {
    micros.checked_add(by).ok_or_else(out_of_range)
}

fn out_of_range() -> Error {
    Error::new(SqlState::DATETIME_OVERFLOW, "timestamp out of range")
}

/// From one timestamp to another: days of 24 hours, and the rest.
pub(crate) fn between(from: i64, to: i64) -> Result<Interval> {
    let micros = to.checked_sub(from).ok_or_else(interval_out_of_range)?;
    Ok(Interval { months: 0, days: (micros / DAY) as i32, micros: micros % DAY })
}

/// Each part by itself.
pub(crate) fn sum(left: Interval, right: Interval) -> Result<Interval> {
    let parts = (|| {
        Some(Interval {
            months: left.months.checked_add(right.months)?,
            days: left.days.checked_add(right.days)?,
            micros: left.micros.checked_add(right.micros)?,
        })
    })();
    parts.ok_or_else(interval_out_of_range)
}

/// The other way round.
pub(crate) fn negated(of: Interval) -> Result<Interval> {
    let parts = (|| {
        Some(Interval {
            months: of.months.checked_neg()?,
            days: of.days.checked_neg()?,
            micros: of.micros.checked_neg()?,
        })
    })();
    parts.ok_or_else(interval_out_of_range)
}

fn interval_out_of_range() -> Error {
    Error::new(SqlState::DATETIME_OVERFLOW, "interval out of range")
}
