//! Comparisons, also between dates and timestamps.

use std::cmp::Ordering;

use jiff::tz::TimeZone;
use model::{Datum, Error, Result};

use crate::context::Context;
use crate::registry::Function;

use super::calendar::DAY;
use super::zone;

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("date_eq", |a, _, _| holds(order(a), Ordering::is_eq)),
    ("date_ne", |a, _, _| holds(order(a), Ordering::is_ne)),
    ("date_lt", |a, _, _| holds(order(a), Ordering::is_lt)),
    ("date_le", |a, _, _| holds(order(a), Ordering::is_le)),
    ("date_gt", |a, _, _| holds(order(a), Ordering::is_gt)),
    ("date_ge", |a, _, _| holds(order(a), Ordering::is_ge)),
    ("date_cmp", |a, _, _| number(order(a))),
    ("date_larger", |a, _, _| larger(a)),
    ("date_smaller", |a, _, _| smaller(a)),
    ("time_eq", |a, _, _| holds(order(a), Ordering::is_eq)),
    ("time_ne", |a, _, _| holds(order(a), Ordering::is_ne)),
    ("time_lt", |a, _, _| holds(order(a), Ordering::is_lt)),
    ("time_le", |a, _, _| holds(order(a), Ordering::is_le)),
    ("time_gt", |a, _, _| holds(order(a), Ordering::is_gt)),
    ("time_ge", |a, _, _| holds(order(a), Ordering::is_ge)),
    ("time_cmp", |a, _, _| number(order(a))),
    ("time_larger", |a, _, _| larger(a)),
    ("time_smaller", |a, _, _| smaller(a)),
    ("timetz_eq", |a, _, _| holds(order(a), Ordering::is_eq)),
    ("timetz_ne", |a, _, _| holds(order(a), Ordering::is_ne)),
    ("timetz_lt", |a, _, _| holds(order(a), Ordering::is_lt)),
    ("timetz_le", |a, _, _| holds(order(a), Ordering::is_le)),
    ("timetz_gt", |a, _, _| holds(order(a), Ordering::is_gt)),
    ("timetz_ge", |a, _, _| holds(order(a), Ordering::is_ge)),
    ("timetz_cmp", |a, _, _| number(order(a))),
    ("timetz_larger", |a, _, _| larger(a)),
    ("timetz_smaller", |a, _, _| smaller(a)),
    ("timestamp_eq", |a, _, _| holds(order(a), Ordering::is_eq)),
    ("timestamp_ne", |a, _, _| holds(order(a), Ordering::is_ne)),
    ("timestamp_lt", |a, _, _| holds(order(a), Ordering::is_lt)),
    ("timestamp_le", |a, _, _| holds(order(a), Ordering::is_le)),
    ("timestamp_gt", |a, _, _| holds(order(a), Ordering::is_gt)),
    ("timestamp_ge", |a, _, _| holds(order(a), Ordering::is_ge)),
    ("timestamp_cmp", |a, _, _| number(order(a))),
    ("timestamp_larger", |a, _, _| larger(a)),
    ("timestamp_smaller", |a, _, _| smaller(a)),
    ("timestamptz_eq", |a, _, _| holds(order(a), Ordering::is_eq)),
    ("timestamptz_ne", |a, _, _| holds(order(a), Ordering::is_ne)),
    ("timestamptz_lt", |a, _, _| holds(order(a), Ordering::is_lt)),
    ("timestamptz_le", |a, _, _| holds(order(a), Ordering::is_le)),
    ("timestamptz_gt", |a, _, _| holds(order(a), Ordering::is_gt)),
    ("timestamptz_ge", |a, _, _| holds(order(a), Ordering::is_ge)),
    ("timestamptz_cmp", |a, _, _| number(order(a))),
    ("timestamptz_larger", |a, _, _| larger(a)),
    ("timestamptz_smaller", |a, _, _| smaller(a)),
    ("interval_eq", |a, _, _| holds(order(a), Ordering::is_eq)),
    ("interval_ne", |a, _, _| holds(order(a), Ordering::is_ne)),
    ("interval_lt", |a, _, _| holds(order(a), Ordering::is_lt)),
    ("interval_le", |a, _, _| holds(order(a), Ordering::is_le)),
    ("interval_gt", |a, _, _| holds(order(a), Ordering::is_gt)),
    ("interval_ge", |a, _, _| holds(order(a), Ordering::is_ge)),
    ("interval_cmp", |a, _, _| number(order(a))),
    ("interval_larger", |a, _, _| larger(a)),
    ("interval_smaller", |a, _, _| smaller(a)),
    ("date_eq_timestamp", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_eq)),
    ("date_ne_timestamp", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_ne)),
    ("date_lt_timestamp", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_lt)),
    ("date_le_timestamp", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_le)),
    ("date_gt_timestamp", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_gt)),
    ("date_ge_timestamp", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_ge)),
    ("date_cmp_timestamp", |a, _, ctx| number(mixed_order(a, ctx))),
    ("timestamp_eq_date", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_eq)),
    ("timestamp_ne_date", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_ne)),
    ("timestamp_lt_date", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_lt)),
    ("timestamp_le_date", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_le)),
    ("timestamp_gt_date", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_gt)),
    ("timestamp_ge_date", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_ge)),
    ("timestamp_cmp_date", |a, _, ctx| number(mixed_order(a, ctx))),
    ("date_eq_timestamptz", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_eq)),
    ("date_ne_timestamptz", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_ne)),
    ("date_lt_timestamptz", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_lt)),
    ("date_le_timestamptz", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_le)),
    ("date_gt_timestamptz", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_gt)),
    ("date_ge_timestamptz", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_ge)),
    ("date_cmp_timestamptz", |a, _, ctx| number(mixed_order(a, ctx))),
    ("timestamptz_eq_date", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_eq)),
    ("timestamptz_ne_date", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_ne)),
    ("timestamptz_lt_date", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_lt)),
    ("timestamptz_le_date", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_le)),
    ("timestamptz_gt_date", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_gt)),
    ("timestamptz_ge_date", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_ge)),
    ("timestamptz_cmp_date", |a, _, ctx| number(mixed_order(a, ctx))),
    ("timestamp_eq_timestamptz", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_eq)),
    ("timestamp_ne_timestamptz", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_ne)),
    ("timestamp_lt_timestamptz", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_lt)),
    ("timestamp_le_timestamptz", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_le)),
    ("timestamp_gt_timestamptz", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_gt)),
    ("timestamp_ge_timestamptz", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_ge)),
    ("timestamp_cmp_timestamptz", |a, _, ctx| number(mixed_order(a, ctx))),
    ("timestamptz_eq_timestamp", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_eq)),
    ("timestamptz_ne_timestamp", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_ne)),
    ("timestamptz_lt_timestamp", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_lt)),
    ("timestamptz_le_timestamp", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_le)),
    ("timestamptz_gt_timestamp", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_gt)),
    ("timestamptz_ge_timestamp", |a, _, ctx| holds(mixed_order(a, ctx), Ordering::is_ge)),
    ("timestamptz_cmp_timestamp", |a, _, ctx| number(mixed_order(a, ctx))),
];

/// The order of two values of one type.
fn order(arguments: &[Datum<'_>]) -> Result<Ordering> {
    let [left, right] = arguments else { return Err(Error::bug("comparison of other than two values")) };
    left.compare(right).ok_or_else(|| Error::bug("comparison of different types"))
}

/// The order of a date or timestamp and one of another type. Dates and timestamps without zone are local times of the
/// session's zone if the other one has a zone.
fn mixed_order(arguments: &[Datum<'_>], ctx: &Context<'_>) -> Result<Ordering> {
    let [left, right] = arguments else { return Err(Error::bug("comparison of other than two values")) };
    let is_zoned = [left, right].iter().any(|value| matches!(value, Datum::Timestamptz(_)));
    let zone = is_zoned.then_some(&ctx.session.zone);
    Ok(moment(left, zone)?.cmp(&moment(right, zone)?))
}

/// Microseconds since 1970. A date may be far beyond the range of timestamps.
fn moment(value: &Datum<'_>, zone: Option<&TimeZone>) -> Result<i128> {
    let local = match value {
        Datum::Date(i32::MIN) | Datum::Timestamp(i64::MIN) | Datum::Timestamptz(i64::MIN) => return Ok(i128::MIN),
        Datum::Date(i32::MAX) | Datum::Timestamp(i64::MAX) | Datum::Timestamptz(i64::MAX) => return Ok(i128::MAX),
        Datum::Timestamptz(micros) => return Ok((*micros).into()),
        Datum::Date(days) => i128::from(*days) * i128::from(DAY),
        Datum::Timestamp(micros) => (*micros).into(),
        _ => return Err(Error::bug("comparison of a value that is no date or timestamp")),
    };
    Ok(zone.map_or(local, |zone| zone::utc_of(zone, local)))
}

fn holds<'a>(order: Result<Ordering>, test: impl Fn(Ordering) -> bool) -> Result<Datum<'a>> {
    order.map(|order| Datum::Bool(test(order)))
}

fn number<'a>(order: Result<Ordering>) -> Result<Datum<'a>> {
    order.map(|order| Datum::Int4(order as i32))
}

fn larger<'a>(arguments: &[Datum<'a>]) -> Result<Datum<'a>> {
    let at = usize::from(order(arguments)?.is_le());
    Ok(arguments[at].clone())
}

fn smaller<'a>(arguments: &[Datum<'a>]) -> Result<Datum<'a>> {
    let at = usize::from(order(arguments)?.is_ge());
    Ok(arguments[at].clone())
}
