//! Values beside an indexed column of another type: `integer BETWEEN $1::bigint AND …`, `date = timestamp`.
//!
//! The binder casts the column to the type in which both meet, so the index is of other values than those compared. A value is
//! *fitted* to the column: for `=` the one value of the column that is equal to it, for a range the part of the index that has
//! all values that may hold. That part may have a few more: whoever reads it still asks the condition of each row.

use model::{Datum, Numeric, Type};

use crate::cast::Zone;

/// How a column stands in a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    /// As it is.
    Itself,
    /// Cast to a type in which different values stay different.
    Exact,
    /// Cast to a type whose order is that of the column; several values may become one, or the session's zone has a say.
    Near,
}

/// How a column of one type stands in a comparison that casts it to another; `None` where an index is of no use.
pub(crate) fn behind(column: Type, to: Type) -> Option<Behind> {
    match (column, to) {
        (Type::Int2, Type::Int4 | Type::Int8)
        | (Type::Int4, Type::Int8)
        | (Type::Int2 | Type::Int4 | Type::Int8, Type::Numeric(None))
        | (Type::Int2 | Type::Int4 | Type::Float4, Type::Float8)
        | (Type::Date, Type::Timestamp) => Some(Behind::Exact),
        (Type::Int8, Type::Float8) | (Type::Date | Type::Timestamp, Type::Timestamptz) => Some(Behind::Near),
        _ => None,
    }
}

const DAY: i64 = 86_400_000_000;

/// The value of type `to` that is equal to this one, for types of which one is [`Behind::Exact`] the other; NULL, to which no key is
/// equal, if there is none.
pub(crate) fn equal(value: &Datum<'_>, to: Type) -> Datum<'static> {
    let whole = match value {
        Datum::Int2(value) => Some(i128::from(*value)),
        Datum::Int4(value) => Some(i128::from(*value)),
        Datum::Int8(value) => Some(i128::from(*value)),
        Datum::Numeric(value) => value.unscaled(0),
        Datum::Float8(value) if to == Type::Float4 => {
            let near = *value as f32;
            let same = f64::from(near) == *value || near.is_nan();
            return if same { Datum::Float4(near) } else { Datum::Null };
        }
        // Beyond 2^53 these types have no values.
        Datum::Float8(value) => (value.fract() == 0.0 && value.abs() < 1e15).then_some(*value as i128),
        Datum::Timestamp(micros) => {
            return match days(*micros) {
                (day, true) => Datum::Date(day),
                _ => Datum::Null,
            };
        }
        _ => None,
    };
    let Some(whole) = whole else { return Datum::Null };
    match to {
        Type::Int2 => i16::try_from(whole).map_or(Datum::Null, Datum::Int2),
        Type::Int4 => i32::try_from(whole).map_or(Datum::Null, Datum::Int4),
        Type::Int8 => i64::try_from(whole).map_or(Datum::Null, Datum::Int8),
        _ => Datum::Null,
    }
}

/// The day of a timestamp, and whether it is the day's midnight; the infinities are days too.
fn days(micros: i64) -> (i32, bool) {
    match micros {
        i64::MIN => (i32::MIN, true),
        i64::MAX => (i32::MAX, true),
        // The days of all timestamps are dates.
        micros => (micros.div_euclid(DAY) as i32, micros.rem_euclid(DAY) == 0),
    }
}

/// One end of a range of a column.
#[derive(Debug, PartialEq)]
pub(crate) enum End<'a> {
    /// Nothing is in the range.
    Nothing,
    /// The column is not bounded there.
    Open,
    /// By this value of the column's type, which belongs to the range if so said.
    At(Datum<'a>, bool),
}

/// The end of a range of a column of type `to`, given the value that the cast column is compared with, which is not NULL.
///
/// - `high`: is it the upper end?
/// - `inclusive`: does the value belong to the range?
pub(crate) fn end(value: &Datum<'_>, to: Type, (high, inclusive): (bool, bool), zone: &dyn Zone) -> End<'static> {
    match value {
        Datum::Int2(value) => whole(i128::from(*value), to, high, inclusive),
        Datum::Int4(value) => whole(i128::from(*value), to, high, inclusive),
        Datum::Int8(value) => whole(i128::from(*value), to, high, inclusive),
        Datum::Numeric(value) => match rounded(value, high) {
            Some(value) => whole(value, to, high, true),
            // NaN is above all numbers.
            None => beyond(value.signum() >= 0, high),
        },
        // The nearest: nothing of the column lies between it and the value.
        Datum::Float8(value) if to == Type::Float4 => End::At(Datum::Float4(*value as f32), true),
        Datum::Float8(value) if value.is_nan() => beyond(true, high),
        Datum::Float8(value) => {
            // So far apart are the doubles up to 2^63, and so much is a bigint changed by the cast.
            let slack = if value.abs() >= 9e15 { 2_048 } else { 0 };
            // Where it is beyond i128 it is also beyond the column's type: the cast to i128 saturates.
            let value = if high { value.ceil() as i128 } else { value.floor() as i128 };
            whole(if high { value.saturating_add(slack) } else { value.saturating_sub(slack) }, to, high, true)
        }
        Datum::Timestamp(micros) => End::At(Datum::Date(days(*micros).0), true),
        Datum::Timestamptz(i64::MIN) => End::At(least(to), true),
        Datum::Timestamptz(i64::MAX) => End::At(greatest(to), true),
        Datum::Timestamptz(micros) => {
            let local = zone.local(*micros);
            let back: i64 = if high { 1 } else { -1 };
            match to {
                // A zone may leave out a day.
                Type::Date => End::At(Datum::Date(days(local).0.saturating_add(back as i32)), true),
                _ => End::At(Datum::Timestamp(local.saturating_add(back * slack_of(*micros, zone))), true),
            }
        }
        _ => End::Open,
    }
}

fn least(to: Type) -> Datum<'static> {
    if to == Type::Date { Datum::Date(i32::MIN) } else { Datum::Timestamp(i64::MIN) }
}

fn greatest(to: Type) -> Datum<'static> {
    if to == Type::Date { Datum::Date(i32::MAX) } else { Datum::Timestamp(i64::MAX) }
}

/// By how much the order of local times and that of moments may differ around a moment: not at all, unless clocks change then.
fn slack_of(micros: i64, zone: &dyn Zone) -> i64 {
    // No zone was ever changed by more than a day.
    const AROUND: i64 = 25 * 3_600_000_000;
    let offset = |at: i64| zone.local(at).saturating_sub(at);
    let here = offset(micros);
    let same = [-AROUND, AROUND].iter().all(|by| offset(micros.saturating_add(*by)) == here);
    if same { 0 } else { AROUND }
}

/// The integer not above a number, or not below it for an upper end; `None` for NaN, the infinities, and what no integer type holds.
fn rounded(value: &Numeric, up: bool) -> Option<i128> {
    let whole = if up { value.ceil() } else { value.floor() };
    whole.ok()?.unscaled(0)
}

/// An end beyond all values of the column.
fn beyond(above: bool, high: bool) -> End<'static> {
    if above == high { End::Open } else { End::Nothing }
}

fn whole(value: i128, to: Type, high: bool, inclusive: bool) -> End<'static> {
    let (min, max) = match to {
        Type::Int2 => (i128::from(i16::MIN), i128::from(i16::MAX)),
        Type::Int4 => (i128::from(i32::MIN), i128::from(i32::MAX)),
        _ => (i128::from(i64::MIN), i128::from(i64::MAX)),
    };
    if value < min || value > max {
        return beyond(value > max, high);
    }
    let value = match to {
        Type::Int2 => Datum::Int2(value as i16),
        Type::Int4 => Datum::Int4(value as i32),
        _ => Datum::Int8(value as i64),
    };
    End::At(value, inclusive)
}
