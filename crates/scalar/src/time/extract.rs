//! `extract` and `date_part`.

use catalog::{TypeId, builtin};
use model::numeric::Numeric;
use model::{Datum, Error, Interval, Result, SqlState};

use crate::context::Context;
use crate::registry::Function;

use super::arguments::{date, interval, text, time, timestamp, timestamptz, timetz};
use super::arithmetic::local_fields;
use super::calendar::{
    DAY, Fields, HOUR, JULIAN_1970, MINUTE, MONTH_DAYS, SECOND, date_to_timestamp, day_of_year, is_finite,
    is_finite_date, iso_week, weekday,
};
use super::words::{self, Unit};
use super::zone;

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("extract(text,date)", |a, _, _| date_part(text(a, 0)?, date(a, 1)?).and_then(as_numeric)),
    ("extract(text,time)", |a, _, _| time_part(text(a, 0)?, time(a, 1)?, None, TypeId::TIME).and_then(as_numeric)),
    ("extract(text,timetz)", |a, _, _| {
        let value = timetz(a, 1)?;
        time_part(text(a, 0)?, value.micros, Some(value.west), TypeId::TIMETZ).and_then(as_numeric)
    }),
    ("extract(text,timestamp)", |a, _, _| timestamp_part(text(a, 0)?, timestamp(a, 1)?).and_then(as_numeric)),
    ("extract(text,timestamptz)", |a, _, ctx| {
        timestamptz_part(text(a, 0)?, timestamptz(a, 1)?, ctx).and_then(as_numeric)
    }),
    ("extract(text,interval)", |a, _, _| interval_part(text(a, 0)?, interval(a, 1)?).and_then(as_numeric)),
    // A date is read as a timestamp here, and has hours.
    ("date_part(text,date)", |a, _, _| timestamp_part(text(a, 0)?, date_to_timestamp(date(a, 1)?)?).map(as_float)),
    ("date_part(text,time)", |a, _, _| time_part(text(a, 0)?, time(a, 1)?, None, TypeId::TIME).map(as_float)),
    ("date_part(text,timetz)", |a, _, _| {
        let value = timetz(a, 1)?;
        time_part(text(a, 0)?, value.micros, Some(value.west), TypeId::TIMETZ).map(as_float)
    }),
    ("date_part(text,timestamp)", |a, _, _| timestamp_part(text(a, 0)?, timestamp(a, 1)?).map(as_float)),
    ("date_part(text,timestamptz)", |a, _, ctx| timestamptz_part(text(a, 0)?, timestamptz(a, 1)?, ctx).map(as_float)),
    ("date_part(text,interval)", |a, _, _| interval_part(text(a, 0)?, interval(a, 1)?).map(as_float)),
];

/// A part of a value: exact, with the number of decimal places that `extract` shows.
enum Part {
    /// NULL, for a field that turns around the clock of an infinite time.
    None,
    /// Whether it is plus infinity.
    Infinite(bool),
    /// An integer.
    Whole(i64),
    /// A number of microseconds or nanoseconds: the value times 10 to the power of the places.
    Decimal(i128, u32),
    /// Days and microseconds of a day.
    Julian(i64, i64),
    /// Seconds of an interval: exactly in microseconds, and as PostgreSQL sums them up as floats.
    Seconds(i128, f64),
}

fn as_numeric<'a>(part: Part) -> Result<Datum<'a>> {
    Ok(Datum::Numeric(match part {
        Part::None => return Ok(Datum::Null),
        Part::Infinite(true) => Numeric::PLUS_INFINITY,
        Part::Infinite(false) => Numeric::MINUS_INFINITY,
        Part::Whole(value) => Numeric::new(value.into(), 0),
        Part::Decimal(value, places) => Numeric::new(value, places),
        Part::Seconds(micros, _) => Numeric::new(micros, 6),
        Part::Julian(days, micros) => {
            let fraction = Numeric::new(micros.into(), 0).div(&Numeric::new(DAY.into(), 0))?;
            Numeric::new(days.into(), 0).add(&fraction)?
        }
    }))
}

fn as_float<'a>(part: Part) -> Datum<'a> {
    Datum::Float8(match part {
        Part::None => return Datum::Null,
        Part::Infinite(true) => f64::INFINITY,
        Part::Infinite(false) => f64::NEG_INFINITY,
        Part::Whole(value) => value as f64,
        Part::Decimal(value, places) => value as f64 / 10_f64.powi(places as i32),
        Part::Seconds(_, seconds) => seconds,
        Part::Julian(days, micros) => days as f64 + micros as f64 / DAY as f64,
    })
}

/// The unit of a name; 22023 for none.
fn unit_of(name: &str, ty: TypeId) -> Result<Unit> {
    match words::field(name) {
        None => Err(not_recognized(name, ty)),
        // Dates and timestamps know these words, and have no such field.
        Some(Unit::Moment) if matches!(ty, TypeId::DATE | TypeId::TIMESTAMP | TypeId::TIMESTAMPTZ) => {
            Err(not_supported(name, ty))
        }
        Some(Unit::Moment) => Err(not_recognized(name, ty)),
        Some(unit) => Ok(unit),
    }
}

/// The error for a name that is no unit.
pub(super) fn not_recognized(name: &str, ty: TypeId) -> Error {
    let text = format!("unit \"{}\" not recognized for type {}", name.to_lowercase(), builtin().type_name(ty));
    Error::new(SqlState::INVALID_PARAMETER_VALUE, text)
}

/// The error for a unit that values of a type do not have.
pub(super) fn not_supported(name: &str, ty: TypeId) -> Error {
    Error::unsupported(format!("unit \"{}\" not supported for type {}", name.to_lowercase(), builtin().type_name(ty)))
}

/// A field that an infinite time has as infinity, or does not have.
fn infinite_part(unit: Unit, is_positive: bool) -> Part {
    match unit {
        Unit::Year | Unit::Decade | Unit::Century | Unit::Millennium | Unit::Julian | Unit::IsoYear | Unit::Epoch => {
            Part::Infinite(is_positive)
        }
        _ => Part::None,
    }
}

/// A field of the date, if the unit is one.
fn calendar_part(unit: Unit, fields: &Fields) -> Option<Part> {
    let days = fields.days();
    // There is no year 0: 1 BC is -1.
    let of_era = |year: i64| if year > 0 { year } else { year - 1 };
    let year = fields.year;
    Some(Part::Whole(match unit {
        Unit::Day => fields.day.into(),
        Unit::Month => fields.month.into(),
        Unit::Quarter => i64::from(fields.month - 1) / 3 + 1,
        Unit::Week => iso_week(days).1,
        Unit::Year => of_era(year),
        Unit::Decade => year.div_euclid(10),
        Unit::Century => of_group(year, 100),
        Unit::Millennium => of_group(year, 1_000),
        Unit::IsoYear => of_era(iso_week(days).0),
        Unit::DayOfWeek => weekday(days),
        Unit::IsoDayOfWeek => (weekday(days) + 6) % 7 + 1,
        Unit::DayOfYear => day_of_year(days),
        _ => return None,
    }))
}

/// The century or millennium of a year: the first one is 1, the one before it -1.
fn of_group(year: i64, years: i64) -> i64 {
    if year > 0 { (year + years - 1) / years } else { -((years - year) / years) }
}

/// A field of the time of day, if the unit is one.
fn clock_part(unit: Unit, micros: i64) -> Option<Part> {
    let of_minute = i128::from(micros % MINUTE);
    Some(match unit {
        Unit::Microsecond => Part::Whole(micros % MINUTE),
        Unit::Millisecond => Part::Decimal(of_minute, 3),
        // The float is a sum, whose last digit may differ from the quotient's.
        Unit::Second => Part::Seconds(of_minute, (micros % MINUTE / SECOND) as f64 + (micros % SECOND) as f64 / 1e6),
        Unit::Minute => Part::Whole(micros / MINUTE % 60),
        Unit::Hour => Part::Whole(micros / HOUR),
        _ => return None,
    })
}

/// A field of the zone, if the unit is one.
fn zone_part(unit: Unit, east: i32) -> Option<Part> {
    Some(Part::Whole(match unit {
        Unit::Zone => east.into(),
        Unit::ZoneHour => (east / 3_600).into(),
        Unit::ZoneMinute => (east / 60 % 60).into(),
        _ => return None,
    }))
}

fn date_part(name: &str, days: i32) -> Result<Part> {
    let ty = TypeId::DATE;
    let unit = unit_of(name, ty)?;
    let moment = i64::from(days);
    let midnight = local_fields(i128::from(days) * i128::from(DAY));
    let part = match unit {
        Unit::Epoch => Some(Part::Whole(moment * (DAY / SECOND))),
        Unit::Julian => Some(Part::Whole(moment + JULIAN_1970)),
        _ => calendar_part(unit, &midnight),
    };
    let part = part.ok_or_else(|| not_supported(name, ty))?;
    Ok(if is_finite_date(days) { part } else { infinite_part(unit, days > 0) })
}

fn time_part(name: &str, micros: i64, west: Option<i32>, ty: TypeId) -> Result<Part> {
    let unit = unit_of(name, ty)?;
    let utc = i128::from(micros) + i128::from(west.unwrap_or(0)) * i128::from(SECOND);
    let part = match unit {
        Unit::Epoch => Some(Part::Decimal(utc, 6)),
        _ => clock_part(unit, micros).or_else(|| west.and_then(|west| zone_part(unit, west.wrapping_neg()))),
    };
    part.ok_or_else(|| not_supported(name, ty))
}

fn timestamp_part(name: &str, micros: i64) -> Result<Part> {
    moment_part(name, micros, micros.into(), None, TypeId::TIMESTAMP)
}

fn timestamptz_part(name: &str, micros: i64, ctx: &Context<'_>) -> Result<Part> {
    let zone = &ctx.session.zone;
    let east = zone::offset_at(zone, micros);
    moment_part(name, micros, zone::local_of(zone, micros), Some(east), TypeId::TIMESTAMPTZ)
}

fn moment_part(name: &str, micros: i64, local: i128, east: Option<i32>, ty: TypeId) -> Result<Part> {
    let unit = unit_of(name, ty)?;
    if !is_finite(micros) {
        return Ok(infinite_part(unit, micros > 0));
    }
    let fields = local_fields(local);
    let part = match unit {
        Unit::Epoch => Some(Part::Decimal(micros.into(), 6)),
        Unit::Julian => Some(Part::Julian(fields.days() + JULIAN_1970, fields.of_day)),
        _ => calendar_part(unit, &fields)
            .or_else(|| clock_part(unit, fields.of_day))
            .or_else(|| east.and_then(|east| zone_part(unit, east))),
    };
    part.ok_or_else(|| not_supported(name, ty))
}

fn interval_part(name: &str, value: Interval) -> Result<Part> {
    let ty = TypeId::INTERVAL;
    let unit = unit_of(name, ty)?;
    let (years, months) = (i64::from(value.months / 12), i64::from(value.months % 12));
    let part = match unit {
        Unit::Day => Some(Part::Whole(value.days.into())),
        Unit::Month => Some(Part::Whole(months)),
        Unit::Quarter => Some(Part::Whole(months / 3 + 1)),
        Unit::Year => Some(Part::Whole(years)),
        Unit::Decade => Some(Part::Whole(years / 10)),
        Unit::Century => Some(Part::Whole(years / 100)),
        Unit::Millennium => Some(Part::Whole(years / 1_000)),
        Unit::Epoch => {
            // A year has 365.25 days here.
            let quarter_days = years * 1_461 + (months * i64::from(MONTH_DAYS) + i64::from(value.days)) * 4;
            let micros = i128::from(quarter_days) * i128::from(DAY / 4) + i128::from(value.micros);
            let seconds = value.micros as f64 / 1e6
                + 365.25 * 86_400.0 * years as f64
                + f64::from(MONTH_DAYS) * 86_400.0 * months as f64
                + 86_400.0 * f64::from(value.days);
            Some(Part::Seconds(micros, seconds))
        }
        _ => clock_part(unit, value.micros),
    };
    part.ok_or_else(|| not_supported(name, ty))
}
