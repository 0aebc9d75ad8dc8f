//! Arithmetic of intervals.

use model::{Datum, Error, Interval, Result, SqlState};

use crate::registry::Function;

use super::arguments::{float8, interval};
use super::calendar::{DAY, MONTH_DAYS, SECOND, interval_out_of_range};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("interval_um", |a, _, _| minus(Interval::default(), interval(a, 0)?).map(Datum::Interval)),
    ("interval_pl", |a, _, _| plus(interval(a, 0)?, interval(a, 1)?).map(Datum::Interval)),
    ("interval_mi", |a, _, _| minus(interval(a, 0)?, interval(a, 1)?).map(Datum::Interval)),
    ("interval_mul", |a, _, _| times(interval(a, 0)?, float8(a, 1)?).map(Datum::Interval)),
    ("mul_d_interval", |a, _, _| times(interval(a, 1)?, float8(a, 0)?).map(Datum::Interval)),
    ("interval_div", |a, _, _| divided(interval(a, 0)?, float8(a, 1)?).map(Datum::Interval)),
    ("justify_hours", |a, _, _| justify_hours(interval(a, 0)?).map(Datum::Interval)),
    ("justify_days", |a, _, _| justify_days(interval(a, 0)?).map(Datum::Interval)),
    ("justify_interval", |a, _, _| justify_interval(interval(a, 0)?).map(Datum::Interval)),
];

fn checked(months: Option<i32>, days: Option<i32>, micros: Option<i64>) -> Result<Interval> {
    let (Some(months), Some(days), Some(micros)) = (months, days, micros) else { return Err(interval_out_of_range()) };
    Ok(Interval { months, days, micros })
}

pub(super) fn plus(left: Interval, right: Interval) -> Result<Interval> {
    checked(
        left.months.checked_add(right.months),
        left.days.checked_add(right.days),
        left.micros.checked_add(right.micros),
    )
}

pub(super) fn minus(left: Interval, right: Interval) -> Result<Interval> {
    checked(
        left.months.checked_sub(right.months),
        left.days.checked_sub(right.days),
        left.micros.checked_sub(right.micros),
    )
}

pub(super) fn times(value: Interval, factor: f64) -> Result<Interval> {
    scaled(value, |number| number * factor)
}

pub(super) fn divided(value: Interval, divisor: f64) -> Result<Interval> {
    if divisor == 0.0 {
        return Err(Error::new(SqlState::DIVISION_BY_ZERO, "division by zero"));
    }
    scaled(value, |number| number / divisor)
}

/// Each field times or divided by a number. Fractions of months and days become days and time.
fn scaled(value: Interval, scale: impl Fn(f64) -> f64) -> Result<Interval> {
    const DAY_SECONDS: f64 = 86_400.0;
    let to_micros = |number: f64| (number * 1e6).round_ties_even() / 1e6;
    let whole = |number: f64| {
        let fits = (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number);
        fits.then_some(number as i32).ok_or_else(interval_out_of_range)
    };
    let (months, days) = (scale(value.months.into()), scale(value.days.into()));
    let (whole_months, whole_days) = (whole(months)?, whole(days)?);
    // Rounding to microseconds hides the inexactness of binary fractions: a third of 3 months is a month.
    let month_days = to_micros((months - f64::from(whole_months)) * f64::from(MONTH_DAYS));
    let mut seconds = to_micros((days - f64::from(whole_days) + month_days - month_days.trunc()) * DAY_SECONDS);
    let mut carried = 0;
    if seconds.abs() >= DAY_SECONDS {
        carried = (seconds / DAY_SECONDS) as i32;
        seconds -= f64::from(carried) * DAY_SECONDS;
    }
    let all_days = whole_days.checked_add(carried).and_then(|days| days.checked_add(month_days as i32));
    let micros = (scale(value.micros as f64) + seconds * SECOND as f64).round_ties_even();
    // 2^63 is the first number beyond i64.
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    let fits = (-LIMIT..LIMIT).contains(&micros);
    checked(Some(whole_months), all_days, fits.then_some(micros as i64))
}

/// Whole days of the time become days, with equal signs.
pub(super) fn justify_hours(value: Interval) -> Result<Interval> {
    let days = value.days.checked_add((value.micros / DAY) as i32);
    let (mut days, mut micros) = (days.ok_or_else(interval_out_of_range)?, value.micros % DAY);
    if days > 0 && micros < 0 {
        (days, micros) = (days - 1, micros + DAY);
    } else if days < 0 && micros > 0 {
        (days, micros) = (days + 1, micros - DAY);
    }
    Ok(Interval { days, micros, ..value })
}

/// Every 30 days become a month, with equal signs.
fn justify_days(value: Interval) -> Result<Interval> {
    let months = value.months.checked_add(value.days / MONTH_DAYS);
    let (mut months, mut days) = (months.ok_or_else(interval_out_of_range)?, value.days % MONTH_DAYS);
    if months > 0 && days < 0 {
        (months, days) = (months - 1, days + MONTH_DAYS);
    } else if months < 0 && days > 0 {
        (months, days) = (months + 1, days - MONTH_DAYS);
    }
    Ok(Interval { months, days, ..value })
}

/// Time becomes days, and days months; all fields get one sign.
fn justify_interval(value: Interval) -> Result<Interval> {
    let all_days = i64::from(value.days) + value.micros / DAY;
    let all_months = i64::from(value.months) + all_days / i64::from(MONTH_DAYS);
    let mut months = i32::try_from(all_months).map_err(|_| interval_out_of_range())?;
    let (mut days, mut micros) = ((all_days % i64::from(MONTH_DAYS)) as i32, value.micros % DAY);
    if months > 0 && (days < 0 || (days == 0 && micros < 0)) {
        (months, days) = (months - 1, days + MONTH_DAYS);
    } else if months < 0 && (days > 0 || (days == 0 && micros > 0)) {
        (months, days) = (months + 1, days - MONTH_DAYS);
    }
    if days > 0 && micros < 0 {
        (days, micros) = (days - 1, micros + DAY);
    } else if days < 0 && micros > 0 {
        (days, micros) = (days + 1, micros - DAY);
    }
    Ok(Interval { months, days, micros })
}
