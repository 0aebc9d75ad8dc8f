//! Interval arithmetic: months, days and nanoseconds are kept apart, except where PostgreSQL converts them.

use std::sync::Arc;

use arrow_array::types::Date32Type;
use arrow_array::{ArrayRef, Decimal128Array, TimestampNanosecondArray};
use arrow_schema::DataType as Arrow;
use model::{Error, Result, SqlState};
use pg::time::{date_of_days, days_in_month, days_of_date, parse_interval, parse_timestamptz};

use super::{Call, DAY, Interval, SECOND, Zones, out_of_range, span_array};
use crate::zone::Zone;

/// Days of 24 hours and a remainder of the same sign.
pub(super) fn of_nanoseconds(ns: i64) -> Interval {
    Interval { months: 0, days: (ns / DAY) as i32, nanoseconds: ns % DAY }
}

fn interval_out_of_range() -> Error {
    Error::new(SqlState::DATETIME_OVERFLOW, "interval out of range")
}

/// Parses interval texts.
pub(super) fn read(call: &Call<'_>) -> Result<ArrayRef> {
    let texts = call.texts(0)?;
    span_array(texts.iter().map(|text| {
        let Some(text) = text else { return Ok(None) };
        let read = parse_interval(text)?;
        let nanoseconds = read.micros.checked_mul(1_000).ok_or_else(interval_out_of_range)?;
        Ok(Some(Interval { months: read.months, days: read.days, nanoseconds }))
    }))
}

/// `time ± interval`. With a zone, months and days follow its calendar: a day may have 23 hours.
pub(super) fn add(call: &Call<'_>, sign: i32) -> Result<ArrayRef> {
    let zoned = matches!(call.args[0].data_type(), Arrow::Timestamp(_, Some(_)));
    let utc = Zone::utc();
    let zone = if zoned { call.zone } else { &utc };
    let spans = call.spans(1)?;
    let times = call.times(0)?;
    let moved = times.iter().zip(spans).map(|(time, span)| {
        let (Some(time), Some(span)) = (time, span) else { return Ok(None) };
        moved(zone, time, span, sign).map(Some).ok_or_else(out_of_range)
    });
    let moved = moved.collect::<Result<TimestampNanosecondArray>>()?;
    match call.args[0].data_type() {
        Arrow::Timestamp(_, Some(_)) => Ok(Arc::new(moved.with_timezone(call.zone_name))),
        Arrow::Date32 => Ok(Arc::new(moved.unary::<_, Date32Type>(|ns| ns.div_euclid(DAY) as i32))),
        _ => Ok(Arc::new(moved)),
    }
}

fn moved(zone: &Zone, time: i64, span: Interval, sign: i32) -> Option<i64> {
    let mut time = time;
    if span.months != 0 {
        let local = zone.local_of(time)?;
        time = zone.moment_of_local(months_later(local, span.months.checked_mul(sign)?)?)?;
    }
    if span.days != 0 {
        let local = zone.local_of(time)?;
        time = zone.moment_of_local(local.checked_add(i64::from(span.days.checked_mul(sign)?).checked_mul(DAY)?)?)?;
    }
    time.checked_add(span.nanoseconds.checked_mul(i64::from(sign))?)
}

/// Same day of a later month, or the last day of that month.
fn months_later(local: i64, months: i32) -> Option<i64> {
    let (year, month, day) = date_of_days(local.div_euclid(DAY));
    let total = year * 12 + i64::from(month) - 1 + i64::from(months);
    let (year, month) = (total.div_euclid(12), total.rem_euclid(12) as u32 + 1);
    let days = days_of_date(year, month, day.min(days_in_month(year, month)));
    days.checked_mul(DAY)?.checked_add(local.rem_euclid(DAY))
}

/// `age(a, b)`: difference in calendar years, months and days.
pub(super) fn age(call: &Call<'_>) -> Result<ArrayRef> {
    let zoned = matches!(call.args[0].data_type(), Arrow::Timestamp(_, Some(_)));
    let local = |time: i64| if zoned { call.zone.local_of(time) } else { Some(time) };
    let (left, right) = (call.times(0)?, call.times(1)?);
    span_array(left.iter().zip(right.iter()).map(|(a, b)| {
        let (Some(a), Some(b)) = (a, b) else { return Ok(None) };
        let (Some(a), Some(b)) = (local(a), local(b)) else { return Err(out_of_range()) };
        let span = if a >= b { calendar_span(a, b) } else { negated(calendar_span(b, a)) };
        Ok(Some(span))
    }))
}

fn negated(span: Interval) -> Interval {
    Interval { months: -span.months, days: -span.days, nanoseconds: -span.nanoseconds }
}

/// Interval from `low` to `high`, both local times.
fn calendar_span(high: i64, low: i64) -> Interval {
    let (high_year, high_month, high_day) = date_of_days(high.div_euclid(DAY));
    let (low_year, low_month, low_day) = date_of_days(low.div_euclid(DAY));
    let mut months = (high_year - low_year) * 12 + i64::from(high_month) - i64::from(low_month);
    let mut days = i64::from(high_day) - i64::from(low_day);
    let mut nanoseconds = high.rem_euclid(DAY) - low.rem_euclid(DAY);
    if nanoseconds < 0 {
        nanoseconds += DAY;
        days -= 1;
    }
    if days < 0 {
        days += i64::from(days_in_month(low_year, low_month));
        months -= 1;
    }
    Interval { months: months as i32, days: days as i32, nanoseconds }
}

/// Applies a function to each interval.
pub(super) fn each(call: &Call<'_>, change: fn(Interval) -> Interval) -> Result<ArrayRef> {
    let spans = call.spans(0)?;
    span_array(spans.into_iter().map(|span| Ok(span.map(change))))
}

/// Converts 24 hours to a day.
pub(super) fn justify_hours(span: Interval) -> Interval {
    let mut days = i64::from(span.days) + span.nanoseconds / DAY;
    let mut nanoseconds = span.nanoseconds % DAY;
    if days > 0 && nanoseconds < 0 {
        (days, nanoseconds) = (days - 1, nanoseconds + DAY);
    } else if days < 0 && nanoseconds > 0 {
        (days, nanoseconds) = (days + 1, nanoseconds - DAY);
    }
    Interval { days: days.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32, nanoseconds, ..span }
}

/// Converts 30 days to a month.
pub(super) fn justify_days(span: Interval) -> Interval {
    let (mut months, mut days) = (span.months.saturating_add(span.days / 30), span.days % 30);
    if months > 0 && days < 0 {
        (months, days) = (months - 1, days + 30);
    } else if months < 0 && days > 0 {
        (months, days) = (months + 1, days - 30);
    }
    Interval { months, days, ..span }
}

/// Converts hours to days and days to months, and gives all parts the same sign.
pub(super) fn justify(span: Interval) -> Interval {
    let days = i64::from(span.days) + span.nanoseconds / DAY;
    let mut nanoseconds = span.nanoseconds % DAY;
    let mut months = i64::from(span.months) + days / 30;
    let mut days = days % 30;
    if months > 0 && (days < 0 || (days == 0 && nanoseconds < 0)) {
        (months, days) = (months - 1, days + 30);
    } else if months < 0 && (days > 0 || (days == 0 && nanoseconds > 0)) {
        (months, days) = (months + 1, days - 30);
    }
    if days > 0 && nanoseconds < 0 {
        (days, nanoseconds) = (days - 1, nanoseconds + DAY);
    } else if days < 0 && nanoseconds > 0 {
        (days, nanoseconds) = (days + 1, nanoseconds - DAY);
    }
    let narrow = |value: i64| value.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
    Interval { months: narrow(months), days: narrow(days), nanoseconds }
}

/// `interval × number`. Fractions of months are carried to days, and fractions of days to the time part.
pub(super) fn scale(call: &Call<'_>, part: fn(f64, f64) -> f64) -> Result<ArrayRef> {
    let (spans, numbers) = (call.spans(0)?, call.numbers(1)?);
    span_array(spans.into_iter().zip(numbers.iter()).map(|(span, number)| {
        let (Some(span), Some(number)) = (span, number) else { return Ok(None) };
        scaled(span, |value| part(value, number)).map(Some).ok_or_else(interval_out_of_range)
    }))
}

pub(super) fn divide(call: &Call<'_>) -> Result<ArrayRef> {
    if call.numbers(1)?.iter().any(|number| number == Some(0.0)) {
        return Err(Error::new(SqlState::DIVISION_BY_ZERO, "division by zero"));
    }
    scale(call, |part, by| part / by)
}

fn scaled(span: Interval, by: impl Fn(f64) -> f64) -> Option<Interval> {
    // Rounds to six digits, so that a third of a month is ten days.
    let tidy = |value: f64| (value * 1e6).round_ties_even() / 1e6;
    let narrow = |value: f64| (value.abs() < 2_147_483_648.0).then_some(value as i32);
    let months = by(f64::from(span.months));
    let days = by(f64::from(span.days));
    let (whole_months, whole_days) = (narrow(months)?, narrow(days)?);
    let month_days = tidy((months - f64::from(whole_months)) * 30.0);
    let rest_days = narrow(month_days)?;
    let mut seconds = tidy((days - f64::from(whole_days) + month_days - f64::from(rest_days)) * 86_400.0);
    let mut days = whole_days.checked_add(rest_days)?;
    if seconds.abs() >= 86_400.0 {
        days = days.checked_add((seconds / 86_400.0) as i32)?;
        seconds %= 86_400.0;
    }
    let micros = (by(span.nanoseconds as f64 / 1e3) + seconds * 1e6).round_ties_even();
    let nanoseconds = (micros.abs() < 9.2e15).then(|| micros as i64 * 1_000)?;
    Some(Interval { months: whole_months, days, nanoseconds })
}

/// Sort key of intervals: nanoseconds, with days of 24 hours and months of 30 days.
pub(super) fn length(call: &Call<'_>) -> Result<ArrayRef> {
    let of = |span: Interval| {
        (i128::from(span.months) * 30 + i128::from(span.days)) * i128::from(DAY) + i128::from(span.nanoseconds)
    };
    let lengths: Decimal128Array = call.spans(0)?.into_iter().map(|span| span.map(of)).collect();
    Ok(Arc::new(lengths.with_precision_and_scale(38, 0).map_err(Error::bug)?))
}

/// Arguments: years, months, weeks, days, hours, minutes, seconds; missing ones are 0.
pub(super) fn make_interval(call: &Call<'_>) -> Result<ArrayRef> {
    let parts: Vec<_> = (0..call.args.len()).map(|at| call.numbers(at)).collect::<Result<_>>()?;
    span_array((0..call.rows).map(|row| {
        let part = |at: usize| {
            use arrow_array::Array;
            parts.get(at).map_or(0.0, |part| if part.is_null(row) { 0.0 } else { part.value(row) })
        };
        let narrow = |value: f64| (value.abs() < 2_147_483_648.0).then_some(value as i32);
        let micros = (part(4) * 3.6e9 + part(5) * 6e7 + part(6) * 1e6).round_ties_even();
        let made = || {
            Some(Interval {
                months: narrow(part(0) * 12.0 + part(1))?,
                days: narrow(part(2) * 7.0 + part(3))?,
                nanoseconds: (micros.abs() < 9.2e15).then(|| micros as i64 * 1_000)?,
            })
        };
        made().map(Some).ok_or_else(interval_out_of_range)
    }))
}

/// Arguments: year, month, day, hour, minute, second, and with `zoned` optionally a time zone.
pub(super) fn make_timestamp(call: &Call<'_>, zoned: bool) -> Result<ArrayRef> {
    use arrow_array::Array;
    let parts: Vec<_> = (0..6).map(|at| call.numbers(at)).collect::<Result<_>>()?;
    let names = if call.args.len() > 6 { Some(call.texts(6)?) } else { None };
    let mut zones = Zones::default();
    let make = |row: usize| {
        if parts.iter().any(|part| part.is_null(row)) || names.as_ref().is_some_and(|names| names.is_null(row)) {
            return Ok(None);
        }
        let values: Vec<f64> = parts.iter().map(|part| part.value(row)).collect();
        let local = local_time(&values)?;
        let time = match &names {
            _ if !zoned => Some(local),
            None => call.zone.moment_of_local(local),
            Some(names) => match signed_offset(names.value(row))? {
                Some(offset) => local.checked_sub(offset),
                None => zones.get(names.value(row))?.moment_of_local(local),
            },
        };
        time.map(Some).ok_or_else(out_of_range)
    };
    let times = (0..call.rows).map(make).collect::<Result<TimestampNanosecondArray>>()?;
    Ok(Arc::new(if zoned { times.with_timezone(call.zone_name) } else { times }))
}

/// Nanoseconds east of UTC for a signed offset, with the sign of ISO 8601. Elsewhere `+2` as a zone name has POSIX's
/// sign, west of UTC.
fn signed_offset(name: &str) -> Result<Option<i64>> {
    if !name.starts_with(['+', '-']) {
        return Ok(None);
    }
    let epoch = format!("1970-01-01 00:00:00{name}");
    parse_timestamptz(&epoch, &|_, _| None).map(|moment| Some(-moment))
}

fn local_time(parts: &[f64]) -> Result<i64> {
    let [year, month, day, hour, minute, second] = parts else { return Err(Error::bug("a time of other parts")) };
    let refuse = || {
        Error::new(
            SqlState::DATETIME_OVERFLOW,
            format!("date/time field value out of range: {year}-{month}-{day} {hour}:{minute}:{second}"),
        )
    };
    let whole = |value: f64, low: f64, high: f64| (low..=high).contains(&value).then_some(value as i64);
    let fields = || {
        let (year, month) = (whole(*year, 1.0, 9_999.0)?, whole(*month, 1.0, 12.0)? as u32);
        let day = whole(*day, 1.0, f64::from(days_in_month(year, month)))? as u32;
        let minutes = whole(*hour, 0.0, 24.0)? * 60 + whole(*minute, 0.0, 59.0)?;
        let micros = (0.0..=60.0).contains(second).then(|| (second * 1e6).round_ties_even() as i64)?;
        let of_day = minutes * 60 * SECOND + micros * 1_000;
        if of_day > DAY {
            return None;
        }
        days_of_date(year, month, day).checked_mul(DAY)?.checked_add(of_day)
    };
    fields().ok_or_else(refuse)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(span: Interval) -> String {
        let mut out = Vec::new();
        let micros = span.nanoseconds / 1_000;
        let span = pg::time::Interval { months: span.months, days: span.days, micros };
        pg::time::interval_text(&mut out, span);
        String::from_utf8(out).unwrap()
    }

    fn interval(text: &str) -> Interval {
        let read = parse_interval(text).unwrap();
        Interval { months: read.months, days: read.days, nanoseconds: read.micros * 1_000 }
    }

    #[test]
    fn parts_left_over_cascade() {
        for (text, by, expected) in [
            ("1 day", 0.5, "12:00:00"),
            ("1 month", 0.5, "15 days"),
            ("1 year 1 mon", 0.5, "6 mons 15 days"),
            ("1 mon 1 day", 1.0 / 3.0, "10 days 08:00:00"),
            ("1 hour", 2.0, "02:00:00"),
            ("2 days", -1.5, "-3 days"),
        ] {
            assert_eq!(shown(scaled(interval(text), |part| part * by).unwrap()), expected, "{text} × {by}");
        }
    }

    #[test]
    fn justified_parts_have_one_sign() {
        assert_eq!(shown(justify(interval("1 mon -1 hour"))), "29 days 23:00:00");
        assert_eq!(shown(justify(interval("-1 mon 1 hour"))), "-29 days -23:00:00");
        assert_eq!(shown(justify_hours(interval("36 hours"))), "1 day 12:00:00");
        assert_eq!(shown(justify_days(interval("40 days"))), "1 mon 10 days");
    }

    #[test]
    fn days_and_months_follow_the_zone() {
        let berlin = Zone::new("Europe/Berlin").unwrap();
        for (from, span, to) in [
            ("2026-03-28 12:00", "1 day", "2026-03-29 12:00"),
            ("2026-03-28 12:00", "24 hours", "2026-03-29 13:00"),
            ("2026-02-28 02:30", "1 month 1 day", "2026-03-29 03:30"),
            ("2026-01-31 12:00", "1 month", "2026-02-28 12:00"),
            ("2026-10-24 12:00", "1 day", "2026-10-25 12:00"),
        ] {
            let at = |text: &str| berlin.parse_timestamptz(text).unwrap();
            assert_eq!(moved(&berlin, at(from), interval(span), 1), Some(at(to)), "{from} + {span}");
        }
    }
}
