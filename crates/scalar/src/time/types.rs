//! Input and output of the types.

use catalog::TypeId;
use model::{Datum, Error, Result, SqlState, TimeTz};

use crate::context::Context;
use crate::registry::TypeSupport;

use super::calendar::{DAY, SECOND, date_in_range, is_julian, timestamp_in_range};
use super::read::{self, Moment};
use super::{read_interval, write};

pub(super) const TYPES: &[(TypeId, TypeSupport)] = &[
    (TypeId::DATE, TypeSupport { input: date_input, output, compare: None }),
    (TypeId::TIME, TypeSupport { input: time_input, output, compare: None }),
    (TypeId::TIMETZ, TypeSupport { input: timetz_input, output, compare: None }),
    (TypeId::TIMESTAMP, TypeSupport { input: timestamp_input, output, compare: None }),
    (TypeId::TIMESTAMPTZ, TypeSupport { input: timestamptz_input, output, compare: None }),
    (TypeId::INTERVAL, TypeSupport { input: interval_input, output, compare: None }),
];

fn output(datum: &Datum<'_>, _: TypeId, ctx: &Context<'_>, text: &mut String) -> Result<()> {
    match datum {
        Datum::Date(days) => write::date(text, *days, ctx.session),
        Datum::Time(micros) => write::time(text, *micros),
        Datum::TimeTz(value) => write::timetz(text, *value),
        Datum::Timestamp(micros) => write::timestamp(text, *micros, ctx.session),
        Datum::Timestamptz(micros) => write::timestamptz(text, *micros, ctx.session),
        Datum::Interval(value) => write::interval(text, *value, ctx.session),
        _ => return Err(Error::bug("text of a value that is no date or time")),
    }
    Ok(())
}

fn date_input<'a>(text: &str, _: TypeId, _: i32, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let out_of_range = || Error::new(SqlState::DATETIME_OVERFLOW, format!("date out of range: \"{text}\""));
    let moment = read::moment(text, read::BYTES_MAX, ctx.session).map_err(|error| error.of(text, "date"))?;
    let days = match moment {
        Moment::At(fields, _) if is_julian(fields.year, fields.month) => {
            date_in_range(fields.days()).ok_or_else(out_of_range)?
        }
        Moment::At(..) => return Err(out_of_range()),
        Moment::Epoch => 0,
        Moment::Infinity => i32::MAX,
        Moment::MinusInfinity => i32::MIN,
    };
    Ok(Datum::Date(days))
}

fn time_input<'a>(text: &str, _: TypeId, _: i32, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let (micros, _) = read::time(text, ctx.session).map_err(|error| error.of(text, "time"))?;
    Ok(Datum::Time(micros))
}

fn timetz_input<'a>(text: &str, _: TypeId, _: i32, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let (micros, east) = read::time(text, ctx.session).map_err(|error| error.of(text, "time with time zone"))?;
    Ok(Datum::TimeTz(TimeTz { micros, west: -east }))
}

fn timestamp_input<'a>(text: &str, _: TypeId, _: i32, ctx: &Context<'a>) -> Result<Datum<'a>> {
    timestamp_of(text, "timestamp", false, ctx).map(Datum::Timestamp)
}

fn timestamptz_input<'a>(text: &str, _: TypeId, _: i32, ctx: &Context<'a>) -> Result<Datum<'a>> {
    timestamp_of(text, "timestamp with time zone", true, ctx).map(Datum::Timestamptz)
}

fn timestamp_of(text: &str, type_name: &str, zoned: bool, ctx: &Context<'_>) -> Result<i64> {
    let out_of_range = || Error::new(SqlState::DATETIME_OVERFLOW, format!("timestamp out of range: \"{text}\""));
    let moment = read::moment(text, read::TIMESTAMP_BYTES_MAX, ctx.session);
    Ok(match moment.map_err(|error| error.of(text, type_name))? {
        Moment::At(fields, offset) => {
            if !is_julian(fields.year, fields.month) {
                return Err(out_of_range());
            }
            let east = if zoned { i128::from(offset) * i128::from(SECOND) } else { 0 };
            timestamp_in_range(fields.micros() - east).ok_or_else(out_of_range)?
        }
        Moment::Epoch => 0,
        Moment::Infinity => i64::MAX,
        Moment::MinusInfinity => i64::MIN,
    })
}

fn interval_input<'a>(text: &str, _: TypeId, typmod: i32, ctx: &Context<'a>) -> Result<Datum<'a>> {
    read_interval::interval(text, typmod, ctx.session).map(Datum::Interval)
}

/// Rounds microseconds since 1970 or midnight to a precision, halves away from the epoch of PostgreSQL.
pub(super) fn rounded_timestamp(micros: i64, precision: i32) -> Option<i64> {
    // PostgreSQL rounds from 2000; whole seconds apart, the result is the same from 1970 but for the sign of the half.
    const EPOCH: i64 = 10_957 * DAY;
    let since = i128::from(micros) - i128::from(EPOCH);
    let unit = 10_i128.pow((6 - precision.clamp(0, 6)).unsigned_abs());
    let half = if since < 0 { -(unit / 2) } else { unit / 2 };
    timestamp_in_range((since + half) / unit * unit + i128::from(EPOCH))
}
