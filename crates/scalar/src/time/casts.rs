//! Conversions between the types, and rounding to the precision of a type.

use model::{Datum, Error, Interval, Result, SqlState, TimeTz};

use crate::context::Context;
use crate::registry::Function;

use super::arguments::{date, float8, int4, interval, time, timestamp, timestamptz, timetz};
use super::arithmetic::{local_date, local_time};
use super::calendar::{
    DAY, JULIAN_1970, checked_timestamp, date_to_timestamp, date_too_large, is_finite, timestamp_in_range,
    timestamp_out_of_range, timestamp_to_date,
};
use super::read_interval::{limited, rounded};
use super::types::rounded_timestamp;
use super::zone;

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("timestamp(date)", |a, _, _| date_to_timestamp(date(a, 0)?).map(Datum::Timestamp)),
    ("timestamp(timestamptz)", |a, _, ctx| without_zone(timestamptz(a, 0)?, ctx)),
    ("timestamp(timestamp,int4)", |a, _, _| with_precision(timestamp(a, 0)?, int4(a, 1)?).map(Datum::Timestamp)),
    ("timestamptz(date)", |a, _, ctx| date_with_zone(date(a, 0)?, ctx)),
    ("timestamptz(timestamp)", |a, _, ctx| with_zone(timestamp(a, 0)?, ctx)),
    ("timestamptz(date,time)", |a, _, ctx| match date(a, 0)? {
        days @ (i32::MIN | i32::MAX) => with_zone(date_to_timestamp(days)?, ctx),
        days => with_zone(checked_timestamp(i128::from(date_to_timestamp(days)?) + i128::from(time(a, 1)?))?, ctx),
    }),
    ("timestamptz(timestamptz,int4)", |a, _, _| {
        with_precision(timestamptz(a, 0)?, int4(a, 1)?).map(Datum::Timestamptz)
    }),
    ("date(timestamp)", |a, _, _| Ok(Datum::Date(timestamp_to_date(timestamp(a, 0)?)))),
    ("date(timestamptz)", |a, _, ctx| Ok(Datum::Date(local_date(timestamptz(a, 0)?, ctx)))),
    ("time(timestamp)", |a, _, _| {
        let micros = timestamp(a, 0)?;
        Ok(if is_finite(micros) { Datum::Time(micros.rem_euclid(DAY)) } else { Datum::Null })
    }),
    ("time(timestamptz)", |a, _, ctx| {
        let micros = timestamptz(a, 0)?;
        Ok(if is_finite(micros) { Datum::Time(local_time(micros, ctx)) } else { Datum::Null })
    }),
    ("time(timetz)", |a, _, _| Ok(Datum::Time(timetz(a, 0)?.micros))),
    ("time(interval)", |a, _, _| Ok(Datum::Time(interval(a, 0)?.micros.rem_euclid(DAY)))),
    ("time(time,int4)", |a, _, _| Ok(Datum::Time(rounded_time(time(a, 0)?, int4(a, 1)?)))),
    ("timetz(time)", |a, _, ctx| Ok(time_with_zone(time(a, 0)?, ctx))),
    ("timetz(timestamptz)", |a, _, ctx| {
        let micros = timestamptz(a, 0)?;
        if !is_finite(micros) {
            return Ok(Datum::Null);
        }
        let west = -zone::offset_at(&ctx.session.zone, micros);
        Ok(Datum::TimeTz(TimeTz { micros: local_time(micros, ctx), west }))
    }),
    ("timetz(timetz,int4)", |a, _, _| {
        let value = timetz(a, 0)?;
        Ok(Datum::TimeTz(TimeTz { micros: rounded_time(value.micros, int4(a, 1)?), ..value }))
    }),
    ("interval(time)", |a, _, _| Ok(Datum::Interval(Interval { months: 0, days: 0, micros: time(a, 0)? }))),
    ("interval(interval,int4)", |a, _, _| limited(interval(a, 0)?, int4(a, 1)?).map(Datum::Interval)),
    ("to_timestamp(float8)", |a, _, _| timestamp_of_seconds(float8(a, 0)?)),
];

/// A local time of the session's zone for a moment.
fn without_zone<'a>(micros: i64, ctx: &Context<'a>) -> Result<Datum<'a>> {
    if !is_finite(micros) {
        return Ok(Datum::Timestamp(micros));
    }
    checked_timestamp(zone::local_of(&ctx.session.zone, micros)).map(Datum::Timestamp)
}

/// The moment of a local time of the session's zone.
fn with_zone<'a>(local: i64, ctx: &Context<'a>) -> Result<Datum<'a>> {
    if !is_finite(local) {
        return Ok(Datum::Timestamptz(local));
    }
    checked_timestamp(zone::utc_of(&ctx.session.zone, local.into())).map(Datum::Timestamptz)
}

fn date_with_zone<'a>(days: i32, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let midnight = date_to_timestamp(days)?;
    if !is_finite(midnight) {
        return Ok(Datum::Timestamptz(midnight));
    }
    let utc = zone::utc_of(&ctx.session.zone, midnight.into());
    timestamp_in_range(utc).map(Datum::Timestamptz).ok_or_else(date_too_large)
}

/// A time of today in the session's zone.
fn time_with_zone<'a>(micros: i64, ctx: &Context<'a>) -> Datum<'a> {
    let zone = &ctx.session.zone;
    let now = zone::local_of(zone, ctx.session.transaction_micros);
    let local = now - now.rem_euclid(DAY.into()) + i128::from(micros);
    Datum::TimeTz(TimeTz { micros, west: -zone::offset_at_local(zone, local) })
}

fn with_precision(micros: i64, precision: i32) -> Result<i64> {
    match precision {
        _ if !is_finite(micros) => Ok(micros),
        -1 => Ok(micros),
        0..=6 => rounded_timestamp(micros, precision).ok_or_else(timestamp_out_of_range),
        _ => Err(Error::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("timestamp({precision}) precision must be between 0 and 6"),
        )),
    }
}

fn rounded_time(micros: i64, precision: i32) -> i64 {
    if (0..=6).contains(&precision) { rounded(micros, precision).unwrap_or(micros) } else { micros }
}

fn timestamp_of_seconds<'a>(seconds: f64) -> Result<Datum<'a>> {
    if seconds.is_nan() {
        return Err(Error::new(SqlState::DATETIME_OVERFLOW, "timestamp cannot be NaN"));
    }
    if seconds.is_infinite() {
        return Ok(Datum::Timestamptz(if seconds > 0.0 { i64::MAX } else { i64::MIN }));
    }
    // PostgreSQL rounds the seconds since 2000, which decides the last digit.
    const EPOCH_SECONDS: f64 = 946_684_800.0;
    let micros = ((seconds - EPOCH_SECONDS) * 1e6).round_ties_even();
    let in_range = seconds >= -(JULIAN_1970 as f64) * 86_400.0 && micros.abs() < 1e19;
    let moment = in_range.then(|| timestamp_in_range(micros as i128 + EPOCH_SECONDS as i128 * 1_000_000)).flatten();
    let out_of_range = || {
        let text = format!("timestamp out of range: \"{}\"", super::make::general(seconds));
        Error::new(SqlState::DATETIME_OVERFLOW, text)
    };
    moment.map(Datum::Timestamptz).ok_or_else(out_of_range)
}
