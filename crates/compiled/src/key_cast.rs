//! Comparisons of an indexed column with a value of another type: `int_column BETWEEN $1::bigint AND …`,
//! `date_column = timestamp`.
//!
//! The binder casts the column to the common type, but the index holds values of the column's type. This module
//! converts the value instead: for `=` to the one equal value of the column's type; for a range to bounds that
//! contain all matches. The bounds may include a few more rows, so the condition is also evaluated for each row.

use model::{Datum, Numeric, Type};

use crate::cast::Zone;

/// The cast that a comparison applies to an indexed column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnCast {
    /// No cast.
    Identity,
    /// To a type in which distinct values stay distinct.
    Exact,
    /// To a type that preserves order, but may map several values to one, or depends on the session's time zone.
    Monotonic,
}

/// Classifies a cast; `None` if an index cannot be used.
pub(crate) fn column_cast(column: Type, to: Type) -> Option<ColumnCast> {
    match (column, to) {
        (Type::Int2, Type::Int4 | Type::Int8)
        | (Type::Int4, Type::Int8)
        | (Type::Int2 | Type::Int4 | Type::Int8, Type::Numeric(None))
        | (Type::Int2 | Type::Int4 | Type::Float4, Type::Float8)
        | (Type::Date, Type::Timestamp) => Some(ColumnCast::Exact),
        (Type::Int8, Type::Float8) | (Type::Date | Type::Timestamp, Type::Timestamptz) => Some(ColumnCast::Monotonic),
        _ => None,
    }
}

const DAY: i64 = 86_400_000_000;

/// The value of type `to` equal to `value`, for [`ColumnCast::Exact`]; NULL, which no key equals, if there is none.
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
        // Only smallint and integer are cast exactly to double precision: larger values equal none of the column's.
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

/// Day of a timestamp, and whether it is midnight; infinities map to infinite dates.
fn days(micros: i64) -> (i32, bool) {
    match micros {
        i64::MIN => (i32::MIN, true),
        i64::MAX => (i32::MAX, true),
        // Every timestamp's day is in the range of date.
        micros => (micros.div_euclid(DAY) as i32, micros.rem_euclid(DAY) == 0),
    }
}

/// A bound of a range, in the column's type.
#[derive(Debug, PartialEq)]
pub(crate) enum End<'a> {
    /// The range is empty.
    Nothing,
    /// No bound.
    Open,
    /// Bound and whether it is inclusive.
    At(Datum<'a>, bool),
}

/// Converts a range bound to the column's type `to`. Precondition: `value` is not NULL.
///
/// - `high`: upper bound.
/// - `inclusive`: whether the bound belongs to the range.
pub(crate) fn end(value: &Datum<'_>, to: Type, (high, inclusive): (bool, bool), zone: &dyn Zone) -> End<'static> {
    match value {
        Datum::Int2(value) => whole(i128::from(*value), to, high, inclusive),
        Datum::Int4(value) => whole(i128::from(*value), to, high, inclusive),
        Datum::Int8(value) => whole(i128::from(*value), to, high, inclusive),
        Datum::Numeric(value) => match rounded(value, high) {
            Some(value) => whole(value, to, high, true),
            // NaN sorts above all numbers.
            None => beyond(value.signum() >= 0, high),
        },
        // The nearest value: no value of the column lies between.
        Datum::Float8(value) if to == Type::Float4 => End::At(Datum::Float4(*value as f32), true),
        Datum::Float8(value) if value.is_nan() => beyond(true, high),
        Datum::Float8(value) => {
            // Spacing of doubles up to 2^63: the cast of a bigint changes it by at most this.
            let slack = if value.abs() >= 9e15 { 2_048 } else { 0 };
            // The cast to i128 saturates, and saturated values are out of the column's range anyway.
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
                // A time zone may skip a day.
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

/// By how much the order of local times may deviate from that of instants: 0 unless clocks change near `micros`.
fn slack_of(micros: i64, zone: &dyn Zone) -> i64 {
    // No zone has changed its offset by more than a day.
    const AROUND: i64 = 25 * 3_600_000_000;
    let offset = |at: i64| zone.local(at).saturating_sub(at);
    let here = offset(micros);
    let same = [-AROUND, AROUND].iter().all(|by| offset(micros.saturating_add(*by)) == here);
    if same { 0 } else { AROUND }
}

/// Rounds down, or up for an upper bound. `None` for NaN, infinities and numbers beyond i128.
fn rounded(value: &Numeric, up: bool) -> Option<i128> {
    let whole = if up { value.ceil() } else { value.floor() };
    whole.ok()?.unscaled(0)
}

/// A bound outside the column's range: no bound, or an empty range.
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
