//! Sums and differences of dates, times and timestamps.

use model::{Datum, Error, Interval, Result, SqlState, TimeTz};

use crate::context::Context;
use crate::registry::Function;

use super::arguments::{date, int4, interval, time, timestamp, timestamptz, timetz};
use super::calendar::{
    DAY, Fields, add_months, checked_timestamp, date_in_range, date_of_days, date_out_of_range, date_to_timestamp,
    date_too_large, days_in_month, interval_out_of_range, is_finite, is_finite_date, timestamp_out_of_range,
    timestamp_to_date,
};
use super::intervals::justify_hours;
use super::zone;

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("date_pli", |a, _, _| date_plus_days(date(a, 0)?, int4(a, 1)?.into())),
    ("date_mii", |a, _, _| date_plus_days(date(a, 0)?, -i64::from(int4(a, 1)?))),
    ("integer_pl_date", |a, _, _| date_plus_days(date(a, 1)?, int4(a, 0)?.into())),
    ("date_mi", |a, _, _| date_difference(date(a, 0)?, date(a, 1)?)),
    ("date_pl_interval", |a, _, _| moved(date_to_timestamp(date(a, 0)?)?, Span::of(interval(a, 1)?))),
    ("date_mi_interval", |a, _, _| moved(date_to_timestamp(date(a, 0)?)?, Span::of(interval(a, 1)?).negated())),
    ("interval_pl_date", |a, _, _| moved(date_to_timestamp(date(a, 1)?)?, Span::of(interval(a, 0)?))),
    ("datetime_pl", |a, _, _| date_with_time(date(a, 0)?, time(a, 1)?)),
    ("timestamp(date,time)", |a, _, _| date_with_time(date(a, 0)?, time(a, 1)?)),
    ("timedate_pl", |a, _, _| date_with_time(date(a, 1)?, time(a, 0)?)),
    ("datetimetz_pl", |a, _, _| date_with_timetz(date(a, 0)?, timetz(a, 1)?)),
    ("timestamptz(date,timetz)", |a, _, _| date_with_timetz(date(a, 0)?, timetz(a, 1)?)),
    ("timetzdate_pl", |a, _, _| date_with_timetz(date(a, 1)?, timetz(a, 0)?)),
    ("timestamp_pl_interval", |a, _, _| moved(timestamp(a, 0)?, Span::of(interval(a, 1)?))),
    ("timestamp_mi_interval", |a, _, _| moved(timestamp(a, 0)?, Span::of(interval(a, 1)?).negated())),
    ("interval_pl_timestamp", |a, _, _| moved(timestamp(a, 1)?, Span::of(interval(a, 0)?))),
    ("timestamptz_pl_interval", |a, _, ctx| moved_zoned(timestamptz(a, 0)?, Span::of(interval(a, 1)?), ctx)),
    ("timestamptz_mi_interval", |a, _, ctx| moved_zoned(timestamptz(a, 0)?, Span::of(interval(a, 1)?).negated(), ctx)),
    ("interval_pl_timestamptz", |a, _, ctx| moved_zoned(timestamptz(a, 1)?, Span::of(interval(a, 0)?), ctx)),
    ("timestamp_mi", |a, _, _| difference(timestamp(a, 0)?, timestamp(a, 1)?)),
    ("timestamptz_mi", |a, _, _| difference(timestamptz(a, 0)?, timestamptz(a, 1)?)),
    ("time_pl_interval", |a, _, _| Ok(Datum::Time(turned(time(a, 0)?, interval(a, 1)?, 1)))),
    ("time_mi_interval", |a, _, _| Ok(Datum::Time(turned(time(a, 0)?, interval(a, 1)?, -1)))),
    ("interval_pl_time", |a, _, _| Ok(Datum::Time(turned(time(a, 1)?, interval(a, 0)?, 1)))),
    ("timetz_pl_interval", |a, _, _| Ok(turned_zoned(timetz(a, 0)?, interval(a, 1)?, 1))),
    ("timetz_mi_interval", |a, _, _| Ok(turned_zoned(timetz(a, 0)?, interval(a, 1)?, -1))),
    ("interval_pl_timetz", |a, _, _| Ok(turned_zoned(timetz(a, 1)?, interval(a, 0)?, 1))),
    ("time_mi_time", |a, _, _| Ok(Datum::Interval(Interval { months: 0, days: 0, micros: time(a, 0)? - time(a, 1)? }))),
    ("age(timestamp,timestamp)", |a, _, _| age(timestamp(a, 0)?.into(), timestamp(a, 1)?.into())),
    ("age(timestamp)", |a, _, ctx| age(today(ctx), timestamp(a, 0)?.into())),
    ("age(timestamptz,timestamptz)", |a, _, ctx| age_zoned(timestamptz(a, 0)?, timestamptz(a, 1)?, ctx)),
    ("age(timestamptz)", |a, _, ctx| {
        let midnight = zone::utc_of(&ctx.session.zone, today(ctx));
        age_zoned(checked_timestamp(midnight)?, timestamptz(a, 0)?, ctx)
    }),
    ("isfinite(date)", |a, _, _| Ok(Datum::Bool(is_finite_date(date(a, 0)?)))),
    ("isfinite(timestamp)", |a, _, _| Ok(Datum::Bool(is_finite(timestamp(a, 0)?)))),
    ("isfinite(timestamptz)", |a, _, _| Ok(Datum::Bool(is_finite(timestamptz(a, 0)?)))),
    ("isfinite(interval)", |a, _, _| interval(a, 0).map(|_| Datum::Bool(true))),
];

/// Midnight of the transaction's date, local.
fn today(ctx: &Context<'_>) -> i128 {
    let now = zone::local_of(&ctx.session.zone, ctx.session.transaction_micros);
    now - now.rem_euclid(DAY.into())
}

/// A date and a number of days; an infinite date stays as it is.
///
/// # Errors
/// 22008 beyond the range of dates.
pub fn date_plus_days<'a>(days: i32, more: i64) -> Result<Datum<'a>> {
    if !is_finite_date(days) {
        return Ok(Datum::Date(days));
    }
    date_in_range(i64::from(days) + more).map(Datum::Date).ok_or_else(date_out_of_range)
}

/// Days from one date to another.
///
/// # Errors
/// 22008 for infinite dates.
pub fn date_difference<'a>(left: i32, right: i32) -> Result<Datum<'a>> {
    if !is_finite_date(left) || !is_finite_date(right) {
        return Err(Error::new(SqlState::DATETIME_OVERFLOW, "cannot subtract infinite dates"));
    }
    let days = i64::from(left) - i64::from(right);
    i32::try_from(days).map(Datum::Int4).map_err(|_| date_out_of_range())
}

fn date_with_time<'a>(days: i32, micros: i64) -> Result<Datum<'a>> {
    let midnight = date_to_timestamp(days)?;
    let moment =
        if is_finite(midnight) { checked_timestamp(i128::from(midnight) + i128::from(micros))? } else { midnight };
    Ok(Datum::Timestamp(moment))
}

fn date_with_timetz<'a>(days: i32, time: TimeTz) -> Result<Datum<'a>> {
    let moment = match days {
        i32::MIN => i64::MIN,
        i32::MAX => i64::MAX,
        _ => {
            let utc = i128::from(days) * i128::from(DAY) + i128::from(time.utc_micros());
            super::calendar::timestamp_in_range(utc).ok_or_else(date_too_large)?
        }
    };
    Ok(Datum::Timestamptz(moment))
}

/// The fields of an interval in wider types, so that they can be negated.
#[derive(Clone, Copy)]
pub(super) struct Span {
    months: i64,
    days: i64,
    micros: i128,
}

impl Span {
    pub(super) fn of(value: Interval) -> Span {
        Span { months: value.months.into(), days: value.days.into(), micros: value.micros.into() }
    }

    pub(super) fn negated(self) -> Span {
        Span { months: -self.months, days: -self.days, micros: -self.micros }
    }
}

/// Adds months and then days to a local time.
fn moved_by_days(local: i128, span: Span) -> Result<i128> {
    let out_of_range = || timestamp_out_of_range();
    let local = i64::try_from(local).map_err(|_| out_of_range())?;
    let mut fields = Fields::of_micros(local);
    if span.months != 0 {
        fields = add_months(fields, span.months);
        if !super::calendar::is_julian(fields.year, fields.month) {
            return Err(out_of_range());
        }
    }
    Ok(fields.micros() + i128::from(span.days) * i128::from(DAY))
}

/// Adds an interval to a timestamp without zone; an infinite one is kept.
pub(super) fn timestamp_plus(micros: i64, span: Span) -> Result<i64> {
    if !is_finite(micros) {
        return Ok(micros);
    }
    let mut moment = micros;
    if span.months != 0 || span.days != 0 {
        moment = checked_timestamp(moved_by_days(micros.into(), span)?)?;
    }
    checked_timestamp(i128::from(moment) + span.micros)
}

/// Adds an interval to a timestamp with zone: months and days to the local time, the rest to the moment.
pub(super) fn timestamptz_plus(micros: i64, span: Span, ctx: &Context<'_>) -> Result<i64> {
    if !is_finite(micros) {
        return Ok(micros);
    }
    let mut moment = micros;
    let zone = &ctx.session.zone;
    // Months and days are two steps, since the local time may not exist on the day between.
    for step in [Span { days: 0, ..span }, Span { months: 0, ..span }] {
        if step.months != 0 || step.days != 0 {
            let local = moved_by_days(zone::local_of(zone, moment), step)?;
            moment = checked_timestamp(zone::utc_of(zone, local))?;
        }
    }
    checked_timestamp(i128::from(moment) + span.micros)
}

fn moved<'a>(micros: i64, span: Span) -> Result<Datum<'a>> {
    timestamp_plus(micros, span).map(Datum::Timestamp)
}

fn moved_zoned<'a>(micros: i64, span: Span, ctx: &Context<'a>) -> Result<Datum<'a>> {
    timestamptz_plus(micros, span, ctx).map(Datum::Timestamptz)
}

fn difference<'a>(left: i64, right: i64) -> Result<Datum<'a>> {
    if !is_finite(left) || !is_finite(right) {
        return Err(Error::new(SqlState::DATETIME_OVERFLOW, "cannot subtract infinite timestamps"));
    }
    let micros = left.checked_sub(right).ok_or_else(interval_out_of_range)?;
    justify_hours(Interval { months: 0, days: 0, micros }).map(Datum::Interval)
}

/// A time of day moved by the time of an interval, around the clock.
pub(super) fn turned(micros: i64, by: Interval, sign: i64) -> i64 {
    (micros + sign * (by.micros % DAY)).rem_euclid(DAY)
}

fn turned_zoned<'a>(time: TimeTz, by: Interval, sign: i64) -> Datum<'a> {
    Datum::TimeTz(TimeTz { micros: turned(time.micros, by, sign), ..time })
}

fn age_zoned<'a>(left: i64, right: i64, ctx: &Context<'a>) -> Result<Datum<'a>> {
    if !is_finite(left) || !is_finite(right) {
        return Err(timestamp_out_of_range());
    }
    age(zone::local_of(&ctx.session.zone, left), zone::local_of(&ctx.session.zone, right))
}

/// The difference of two local times in years, months, days and time.
///
/// Infinite times have none. PostgreSQL 15 refuses minus infinity only, and takes infinity for a time in the year 294277.
fn age<'a>(left: i128, right: i128) -> Result<Datum<'a>> {
    let fields = |local: i128| {
        let local = i64::try_from(local).ok().filter(|local| is_finite(*local));
        local.map(Fields::of_micros).ok_or_else(timestamp_out_of_range)
    };
    let is_negative = left < right;
    let (early, late) = (fields(left.min(right))?, fields(left.max(right))?);
    let mut micros = late.of_day - early.of_day;
    let mut days = i64::from(late.day) - i64::from(early.day);
    let months = (late.year - early.year) * 12 + i64::from(late.month) - i64::from(early.month);
    let mut carried = 0;
    if micros < 0 {
        micros += DAY;
        days -= 1;
    }
    while days < 0 {
        // Days are borrowed from the month of the earlier time.
        days += i64::from(days_in_month(early.year, early.month));
        carried += 1;
    }
    let sign = if is_negative { -1 } else { 1 };
    let months = i32::try_from(sign * (months - carried)).map_err(|_| interval_out_of_range())?;
    Ok(Datum::Interval(Interval { months, days: (sign * days) as i32, micros: sign * micros }))
}

/// The date of a timestamp with zone.
pub(super) fn local_date(micros: i64, ctx: &Context<'_>) -> i32 {
    if !is_finite(micros) {
        return timestamp_to_date(micros);
    }
    zone::local_of(&ctx.session.zone, micros).div_euclid(DAY.into()) as i32
}

/// The local time of a timestamp with zone, as microseconds since midnight.
pub(super) fn local_time(micros: i64, ctx: &Context<'_>) -> i64 {
    zone::local_of(&ctx.session.zone, micros).rem_euclid(DAY.into()) as i64
}

/// Fields of a local time that may be out of the range of timestamps by the offset of its zone.
pub(super) fn local_fields(local: i128) -> Fields {
    let (year, month, day) = date_of_days(local.div_euclid(DAY.into()) as i64);
    Fields { year, month, day, of_day: local.rem_euclid(DAY.into()) as i64 }
}
