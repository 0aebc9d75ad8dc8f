//! `extract`, `date_part`, `date_trunc`: fields of a date, time or interval.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Time64NanosecondType;
use arrow_array::{ArrayRef, Decimal128Array, Float64Array, TimestampNanosecondArray};
use arrow_schema::{DataType as Arrow, TimeUnit};
use datafusion::logical_expr::ColumnarValue;
use model::{Error, Result, SqlState};
use pg::time::date_of_days;

use super::{Call, DAY, Interval, SECOND, span_array};
use crate::functions::bucket::Buckets;
use crate::types::sql_name;
use crate::zone::Zone;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Microseconds,
    Milliseconds,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
    IsoYear,
    Dow,
    IsoDow,
    Doy,
    Julian,
    Epoch,
    Timezone,
    TimezoneHour,
    TimezoneMinute,
}

impl Part {
    /// Looks up a field by any of PostgreSQL's names.
    fn named(name: &str) -> Option<Part> {
        // The parser keeps the quotes of `extract('hour' FROM t)`.
        Some(match name.trim_matches('\'').to_ascii_lowercase().as_str() {
            "microsecond" | "microseconds" | "us" | "usec" | "usecs" | "usecond" | "useconds" => Part::Microseconds,
            "millisecond" | "milliseconds" | "ms" | "msec" | "msecs" | "msecond" | "mseconds" => Part::Milliseconds,
            "second" | "seconds" | "s" | "sec" | "secs" => Part::Second,
            "minute" | "minutes" | "m" | "min" | "mins" => Part::Minute,
            "hour" | "hours" | "h" | "hr" | "hrs" => Part::Hour,
            "day" | "days" | "d" => Part::Day,
            "week" | "weeks" | "w" => Part::Week,
            "month" | "months" | "mon" | "mons" => Part::Month,
            "quarter" | "qtr" => Part::Quarter,
            "year" | "years" | "y" | "yr" | "yrs" => Part::Year,
            "decade" | "decades" | "dec" | "decs" => Part::Decade,
            "century" | "centuries" | "c" | "cent" => Part::Century,
            "millennium" | "millennia" | "mil" | "mils" => Part::Millennium,
            "isoyear" => Part::IsoYear,
            "dow" => Part::Dow,
            "isodow" => Part::IsoDow,
            "doy" => Part::Doy,
            "julian" | "jd" | "j" => Part::Julian,
            "epoch" => Part::Epoch,
            "timezone" => Part::Timezone,
            "timezone_hour" | "timezone_h" => Part::TimezoneHour,
            "timezone_minute" | "timezone_m" => Part::TimezoneMinute,
            _ => return None,
        })
    }

    /// Field with this name, if values of the type have it; 0A000 or 22023 otherwise.
    fn of(name: &str, ty: &Arrow) -> Result<Part> {
        let refuse = |state, what| {
            let ty = sql_name(ty);
            Err(Error::new(state, format!("unit \"{}\" not {what} for type {ty}", name.to_lowercase())))
        };
        match Part::named(name) {
            None => refuse(SqlState::INVALID_PARAMETER_VALUE, "recognized"),
            Some(part) if !part.is_in(ty) => refuse(SqlState::FEATURE_NOT_SUPPORTED, "supported"),
            Some(part) => Ok(part),
        }
    }

    fn is_in(self, ty: &Arrow) -> bool {
        use Part::{
            Day, Dow, Doy, Epoch, Hour, IsoDow, IsoYear, Julian, Microseconds, Milliseconds, Minute, Second, Timezone,
            TimezoneHour, TimezoneMinute, Week,
        };
        let of_clock = matches!(self, Microseconds | Milliseconds | Second | Minute | Hour);
        let of_zone = matches!(self, Timezone | TimezoneHour | TimezoneMinute);
        match ty {
            Arrow::Timestamp(_, Some(_)) => true,
            Arrow::Timestamp(_, None) => !of_zone,
            Arrow::Date32 => !of_zone && !of_clock,
            Arrow::Time64(_) => of_clock || self == Epoch,
            _ => !of_zone && !matches!(self, Week | IsoYear | Dow | IsoDow | Doy | Julian) || self == Day,
        }
    }

    /// Number of decimal digits in the result of `extract`.
    fn scale(self, ty: &Arrow) -> i8 {
        match self {
            Part::Epoch | Part::Julian if *ty == Arrow::Date32 => 0,
            Part::Epoch | Part::Second => 6,
            Part::Milliseconds => 3,
            Part::Julian => 20,
            _ => 0,
        }
    }
}

/// Numeric type of a field; the scale is the number of digits that PostgreSQL shows.
pub(super) fn numeric_type(types: &[Arrow], part: Option<&str>, _: &str) -> Result<Arrow> {
    let name = part.ok_or_else(|| Error::unsupported("extract of a unit that is no constant"))?;
    let part = Part::of(name, &types[1])?;
    Ok(Arrow::Decimal128(if part == Part::Julian { 38 } else { 20 }, part.scale(&types[1])))
}

/// Value of a field: `whole` plus `fraction / per`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Amount {
    whole: i64,
    /// Numerator over `per`.
    fraction: i64,
    per: i64,
}

impl Amount {
    fn whole(whole: i64) -> Amount {
        Amount { whole, fraction: 0, per: 1 }
    }

    fn float(self) -> f64 {
        self.whole as f64 + self.fraction as f64 / self.per as f64
    }

    fn unscaled(self, scale: i8) -> i128 {
        let unit = 10_i128.pow(u32::from(scale.unsigned_abs()));
        i128::from(self.whole) * unit + i128::from(self.fraction) * unit / i128::from(self.per)
    }
}

pub(super) fn extract(call: &Call<'_>) -> Result<ArrayRef> {
    let Some(name) = call.constant(0)? else { return Err(Error::unsupported("extract of no unit")) };
    let ty = call.args[1].data_type();
    let scale = Part::of(name, &ty)?.scale(&ty);
    let precision = if scale > 6 { 38 } else { 20 };
    let values = amounts(call)?.into_iter().map(|amount| amount.map(|amount| amount.unscaled(scale)));
    let values: Decimal128Array = values.collect();
    Ok(Arc::new(values.with_precision_and_scale(precision, scale).map_err(Error::bug)?))
}

pub(super) fn date_part(call: &Call<'_>) -> Result<ArrayRef> {
    let values: Float64Array = amounts(call)?.into_iter().map(|amount| amount.map(Amount::float)).collect();
    Ok(Arc::new(values))
}

fn amounts(call: &Call<'_>) -> Result<Vec<Option<Amount>>> {
    let Some(name) = call.constant(0)? else { return Ok(vec![None; call.rows]) };
    let ty = call.args[1].data_type();
    let part = Part::of(name, &ty)?;
    Ok(match ty {
        Arrow::Interval(_) | Arrow::Duration(_) => {
            call.spans(1)?.into_iter().map(|span| span.map(|span| of_span(part, span))).collect()
        }
        Arrow::Time64(_) => {
            let times = call.array(1)?;
            times.as_primitive::<Time64NanosecondType>().iter().map(|time| time.map(|ns| of_clock(part, ns))).collect()
        }
        ty => {
            let mut clock = Clock::new(call.zone, matches!(ty, Arrow::Timestamp(_, Some(_))));
            call.times(1)?.iter().map(|time| time.map(|ns| of_time(part, ns, clock.offset(ns)))).collect()
        }
    })
}

/// UTC offset of a zone, cached for the quarter of an hour in which it cannot change.
pub(super) struct Clock<'a> {
    zone: Option<&'a Zone>,
    quarter: i64,
    offset: i32,
}

impl<'a> Clock<'a> {
    /// - `zoned`: false for local times, whose offset is 0.
    pub(super) fn new(zone: &'a Zone, zoned: bool) -> Clock<'a> {
        Clock { zone: Some(zone).filter(|zone| zoned && !zone.is_utc()), quarter: i64::MIN, offset: 0 }
    }

    /// Offset in seconds east of UTC.
    pub(super) fn offset(&mut self, ns: i64) -> i32 {
        let Some(zone) = self.zone else { return 0 };
        let quarter = ns.div_euclid(900 * SECOND);
        // Before 1970 zones changed at times that are not multiples of 15 minutes.
        if quarter != self.quarter || ns < 0 {
            (self.quarter, self.offset) = (quarter, zone.offset_at(ns));
        }
        self.offset
    }
}

fn of_time(part: Part, ns: i64, offset: i32) -> Amount {
    let local = i128::from(ns) + i128::from(offset) * i128::from(SECOND);
    let day = i128::from(DAY);
    let (days, of_day) = (local.div_euclid(day) as i64, local.rem_euclid(day) as i64);
    let (year, month, date) = date_of_days(days);
    let whole = match part {
        Part::Epoch => {
            let micros = ns.div_euclid(1_000);
            return Amount { whole: micros / 1_000_000, fraction: micros % 1_000_000, per: 1_000_000 };
        }
        Part::Julian => {
            return Amount { whole: julian(days), fraction: of_day / 1_000, per: DAY / 1_000 };
        }
        Part::Microseconds | Part::Milliseconds | Part::Second | Part::Minute | Part::Hour => {
            return of_clock(part, of_day);
        }
        Part::Day => i64::from(date),
        Part::Week => iso_week(days).1,
        Part::IsoYear => iso_week(days).0,
        Part::Month => i64::from(month),
        Part::Quarter => i64::from((month - 1) / 3 + 1),
        Part::Year => year,
        Part::Decade => year.div_euclid(10),
        Part::Century => (year + 99).div_euclid(100),
        Part::Millennium => (year + 999).div_euclid(1_000),
        Part::Dow => weekday(days) % 7,
        Part::IsoDow => weekday(days),
        Part::Doy => day_of_year(days),
        Part::Timezone => i64::from(offset),
        Part::TimezoneHour => i64::from(offset / 3_600),
        Part::TimezoneMinute => i64::from(offset / 60 % 60),
    };
    Amount::whole(whole)
}

/// ISO weekday: Monday is 1, Sunday 7.
pub(super) fn weekday(days: i64) -> i64 {
    (days + 3).rem_euclid(7) + 1
}

pub(super) fn day_of_year(days: i64) -> i64 {
    let (year, ..) = date_of_days(days);
    days - pg::time::days_of_date(year, 1, 1) + 1
}

pub(super) fn julian(days: i64) -> i64 {
    days + 2_440_588
}

/// ISO year and week, which are those of the week's Thursday.
pub(super) fn iso_week(days: i64) -> (i64, i64) {
    let thursday = days - weekday(days) + 4;
    (date_of_days(thursday).0, (day_of_year(thursday) - 1) / 7 + 1)
}

/// Fields of a time of day, or of the sub-day part of an interval, which may exceed a day.
fn of_clock(part: Part, ns: i64) -> Amount {
    let micros = ns.div_euclid(1_000);
    match part {
        Part::Hour => Amount::whole(micros / 3_600_000_000),
        Part::Minute => Amount::whole(micros / 60_000_000 % 60),
        Part::Milliseconds => Amount { whole: micros % 60_000_000 / 1_000, fraction: micros % 1_000, per: 1_000 },
        Part::Microseconds => Amount::whole(micros % 60_000_000),
        Part::Second => Amount { whole: micros % 60_000_000 / 1_000_000, fraction: micros % 1_000_000, per: 1_000_000 },
        _ => Amount { whole: micros / 1_000_000, fraction: micros % 1_000_000, per: 1_000_000 },
    }
}

fn of_span(part: Part, span: Interval) -> Amount {
    let (years, months) = (i64::from(span.months / 12), i64::from(span.months % 12));
    let whole = match part {
        // A year has 365.25 days, a month 30.
        Part::Epoch => {
            let days = i64::from(span.days) + months * 30;
            let rest = of_clock(part, span.nanoseconds);
            return Amount { whole: years * 31_557_600 + days * 86_400 + rest.whole, ..rest };
        }
        Part::Day => i64::from(span.days),
        Part::Month => months,
        Part::Quarter => months / 3 + 1,
        Part::Year => years,
        Part::Decade => years / 10,
        Part::Century => years / 100,
        Part::Millennium => years / 1_000,
        part => return of_clock(part, span.nanoseconds),
    };
    Amount::whole(whole)
}

/// Result type of `date_trunc`: timestamptz for a date, otherwise the argument's type.
pub(super) fn truncated_type(types: &[Arrow], part: Option<&str>, zone: &str) -> Result<Arrow> {
    if let Some(name) = part {
        known_unit(name, &types[1])?;
    }
    Ok(match &types[1] {
        Arrow::Date32 => super::moment(zone),
        Arrow::Duration(_) => super::SPAN,
        other => other.clone(),
    })
}

fn known_unit(name: &str, ty: &Arrow) -> Result<Part> {
    let part = Part::of(name, ty)?;
    if matches!(part, Part::IsoYear | Part::Dow | Part::IsoDow | Part::Doy | Part::Julian | Part::Epoch)
        || matches!(part, Part::Timezone | Part::TimezoneHour | Part::TimezoneMinute)
    {
        let message = format!("unit \"{}\" not supported for type {}", name.to_lowercase(), sql_name(ty));
        return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    Ok(part)
}

/// Whether DataFusion's own `date_trunc`, which is faster, gives the same result.
pub(super) fn is_plain_truncation(args: &[ColumnarValue]) -> bool {
    let [ColumnarValue::Scalar(unit), value] = args else { return false };
    let known = ["second", "minute", "hour", "day", "week", "month", "quarter", "year"];
    unit.try_as_str().flatten().is_some_and(|unit| known.contains(&unit))
        && matches!(value.data_type(), Arrow::Timestamp(TimeUnit::Nanosecond, _))
}

pub(super) fn truncate(call: &Call<'_>) -> Result<ArrayRef> {
    let ty = call.args[1].data_type();
    let Some(name) = call.constant(0)? else {
        return Ok(arrow_array::new_null_array(&truncated_type(&[Arrow::Utf8, ty], None, call.zone_name)?, call.rows));
    };
    let part = known_unit(name, &ty)?;
    if matches!(ty, Arrow::Interval(_) | Arrow::Duration(_)) {
        let spans = call.spans(1)?;
        return span_array(spans.into_iter().map(|span| Ok(span.map(|span| truncated_span(part, span)))));
    }
    let (width, origin) = crate::functions::time_bucket::truncation(canonical(part))?;
    let zoned = !matches!(ty, Arrow::Timestamp(_, None));
    let buckets = Buckets::new(width, zoned.then_some(call.zone_name), origin, Interval::default())?;
    let start = |time: Option<i64>| {
        let Some(time) = time else { return Ok(None) };
        let time = match ty {
            Arrow::Date32 => call.zone.moment_of_local(time).ok_or_else(super::out_of_range)?,
            _ => time,
        };
        buckets.start(time).map(Some)
    };
    let starts = call.times(1)?.iter().map(start).collect::<Result<TimestampNanosecondArray>>()?;
    Ok(Arc::new(if zoned { starts.with_timezone(call.zone_name) } else { starts }))
}

fn canonical(part: Part) -> &'static str {
    match part {
        Part::Microseconds => "microsecond",
        Part::Milliseconds => "millisecond",
        Part::Second => "second",
        Part::Minute => "minute",
        Part::Hour => "hour",
        Part::Day => "day",
        Part::Week => "week",
        Part::Month => "month",
        Part::Quarter => "quarter",
        Part::Year => "year",
        Part::Decade => "decade",
        Part::Century => "century",
        _ => "millennium",
    }
}

fn truncated_span(part: Part, span: Interval) -> Interval {
    let months = |unit: i32| Interval { months: span.months / unit * unit, ..Interval::default() };
    let below = |unit: i64| Interval { nanoseconds: span.nanoseconds / unit * unit, ..span };
    match part {
        Part::Microseconds => below(1_000),
        Part::Milliseconds => below(1_000_000),
        Part::Second => below(SECOND),
        Part::Minute => below(60 * SECOND),
        Part::Hour => below(3_600 * SECOND),
        Part::Day => Interval { nanoseconds: 0, ..span },
        Part::Month => months(1),
        Part::Quarter => months(3),
        Part::Year => months(12),
        Part::Decade => months(120),
        Part::Century => months(1_200),
        _ => months(12_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weeks_and_days_are_those_of_iso_8601() {
        for (year, month, day, week, weekday_, of_year) in [
            (2026, 3, 1, (2026, 9), 7, 60),
            (2027, 1, 1, (2026, 53), 5, 1),
            (2024, 12, 30, (2025, 1), 1, 365),
            (1950, 6, 15, (1950, 24), 4, 166),
        ] {
            let days = pg::time::days_of_date(year, month, day);
            assert_eq!(
                (iso_week(days), weekday(days), day_of_year(days)),
                (week, weekday_, of_year),
                "{year}-{month}-{day}"
            );
        }
    }

    #[test]
    fn amounts_before_1970_add_up() {
        let ns = -626_009_103_210_877_000;
        assert_eq!(of_time(Part::Epoch, ns, 0).unscaled(6), -626_009_103_210_877);
        assert_eq!(of_time(Part::Second, ns, 0).unscaled(6), 56_789_123);
        assert_eq!(of_time(Part::Hour, ns, 3_600).whole, 13);
    }
}
