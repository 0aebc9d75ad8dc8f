//! Values made of fields: `make_date`, `make_time`, `make_timestamp`, `make_timestamptz` and `make_interval`.

use model::{Datum, Error, Interval, Result, SqlState};

use crate::registry::Function;

use super::arguments::{float8, int4, text};
use super::calendar::{
    DAY, Fields, HOUR, MINUTE, SECOND, date_in_range, days_in_month, days_of_date, interval_out_of_range, is_julian,
    timestamp_in_range, timestamp_out_of_range,
};
use super::read::{ReadError, micros_of_day, offset};
use super::zone::{self, Zone};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("make_date", |a, _, _| make_date(int4(a, 0)?, int4(a, 1)?, int4(a, 2)?)),
    ("make_time", |a, _, _| time_of(int4(a, 0)?, int4(a, 1)?, float8(a, 2)?).map(Datum::Time)),
    ("make_timestamp", |a, _, _| local_of(a).map(Datum::Timestamp)),
    ("make_timestamptz(int4,int4,int4,int4,int4,float8)", |a, _, ctx| {
        let utc = zone::utc_of(&ctx.session.zone, local_of(a)?.into());
        timestamp_in_range(utc).map(Datum::Timestamptz).ok_or_else(timestamp_out_of_range)
    }),
    ("make_timestamptz(int4,int4,int4,int4,int4,float8,text)", |a, _, _| {
        let local = i128::from(local_of(a)?);
        let east = zone_of(text(a, 6)?)?.offset_at_local(local);
        let utc = local - i128::from(east) * i128::from(SECOND);
        timestamp_in_range(utc).map(Datum::Timestamptz).ok_or_else(timestamp_out_of_range)
    }),
    ("make_interval", |a, _, _| make_interval(a)),
];

fn out_of_range(text: String) -> Error {
    Error::new(SqlState::DATETIME_OVERFLOW, text)
}

/// Checked fields of a date, at midnight. A negative year is BC.
fn date_of(year: i32, month: i32, day: i32) -> Result<Fields> {
    let astronomical = i64::from(year) + i64::from(year < 0);
    let is_date = year != 0 && year != i32::MIN && (1..=12).contains(&month) && day >= 1;
    if !is_date || i64::from(day) > days_in_month(astronomical, month as u32).into() {
        return Err(out_of_range(format!("date field value out of range: {year}-{month:02}-{day:02}")));
    }
    Ok(Fields { year: astronomical, month: month as u32, day: day as u32, of_day: 0 })
}

fn make_date<'a>(year: i32, month: i32, day: i32) -> Result<Datum<'a>> {
    let fields = date_of(year, month, day)?;
    let is_julian = is_julian(fields.year, fields.month);
    let days = is_julian.then(|| date_in_range(days_of_date(fields.year, fields.month, fields.day))).flatten();
    // PostgreSQL's message has the astronomical year.
    let year = fields.year;
    days.map(Datum::Date).ok_or_else(|| out_of_range(format!("date out of range: {year}-{month:02}-{day:02}")))
}

fn time_of(hour: i32, minute: i32, seconds: f64) -> Result<i64> {
    let micros = (seconds * 1e6).round_ties_even();
    let valid = (0.0..=60e6).contains(&micros);
    let of_day = micros_of_day(hour.into(), minute.into(), 0, 0).filter(|_| valid).map(|start| start + micros as i64);
    of_day
        .filter(|of_day| *of_day <= DAY)
        .ok_or_else(|| out_of_range(format!("time field value out of range: {hour}:{minute:02}:{}", general(seconds))))
}

/// A number with six digits as C's `%02g` writes it: with an exponent if it is very large or small.
pub(super) fn general(number: f64) -> String {
    if !number.is_finite() {
        let sign = if number < 0.0 { "-" } else { "" };
        return if number.is_nan() { "NaN".to_owned() } else { format!("{sign}Infinity") };
    }
    let scientific = format!("{number:.5e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let trimmed = |text: &str| {
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text.to_owned() }
    };
    if !(-4..6).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs());
    }
    let digits = trimmed(&format!("{number:.places$}", places = (5 - exponent).unsigned_abs() as usize));
    format!("{digits:0>2}")
}

/// The local time of year, month, day, hour, minute and seconds.
fn local_of(arguments: &[Datum<'_>]) -> Result<i64> {
    let number = |at| int4(arguments, at);
    let (year, month, day) = (number(0)?, number(1)?, number(2)?);
    let (hour, minute, seconds) = (number(3)?, number(4)?, float8(arguments, 5)?);
    let date = date_of(year, month, day)?;
    if !is_julian(date.year, date.month) {
        return Err(out_of_range(format!("date out of range: {year}-{month:02}-{day:02}")));
    }
    let fields = Fields { of_day: time_of(hour, minute, seconds)?, ..date };
    timestamp_in_range(fields.micros()).ok_or_else(|| {
        let seconds = general(seconds);
        out_of_range(format!("timestamp out of range: {year}-{month:02}-{day:02} {hour}:{minute:02}:{seconds}"))
    })
}

/// A zone by its name or by an offset with a sign.
fn zone_of(name: &str) -> Result<Zone> {
    let invalid = |text: String| Error::new(SqlState::INVALID_PARAMETER_VALUE, text);
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(invalid(format!("invalid input syntax for type numeric time zone: \"{name}\""))
            .with_hint("Numeric time zones must have \"-\" or \"+\" as first character."));
    }
    match offset(name) {
        Ok(east) => Ok(Zone::Fixed(east)),
        Err(ReadError::Displacement) => Err(invalid(format!("numeric time zone \"{name}\" out of range"))),
        Err(_) => Zone::of_name(name),
    }
}

fn make_interval<'a>(arguments: &[Datum<'a>]) -> Result<Datum<'a>> {
    let number = |at| int4(arguments, at);
    let sum = |large: i32, unit: i32, small: i32| large.checked_mul(unit)?.checked_add(small);
    let (months, days) = (sum(number(0)?, 12, number(1)?), sum(number(2)?, 7, number(3)?));
    let (hours, minutes) = (i128::from(number(4)?), i128::from(number(5)?));
    let seconds = (float8(arguments, 6)? * 1e6).round_ties_even();
    // 2^63 is the first number beyond i64.
    let seconds = (seconds.abs() < 9_223_372_036_854_775_808.0).then_some(seconds as i128);
    let micros = seconds.map(|seconds| hours * i128::from(HOUR) + minutes * i128::from(MINUTE) + seconds);
    let micros = micros.and_then(|micros| i64::try_from(micros).ok());
    let (Some(months), Some(days), Some(micros)) = (months, days, micros) else {
        return Err(interval_out_of_range());
    };
    Ok(Datum::Interval(Interval { months, days, micros }))
}
