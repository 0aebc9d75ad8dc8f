//! `in_range`: whether a value lies on the inner side of a bound of a window's RANGE frame.

use model::{Datum, Error, Numeric, Result, SqlState};

use super::aggregates::{float, integer};
use super::call::argument;
use crate::registry::Function;

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("in_range(int2,int2,int2,bool,bool)", |arguments, _, _| integers(arguments)),
    ("in_range(int2,int2,int4,bool,bool)", |arguments, _, _| integers(arguments)),
    ("in_range(int2,int2,int8,bool,bool)", |arguments, _, _| integers(arguments)),
    ("in_range(int4,int4,int2,bool,bool)", |arguments, _, _| integers(arguments)),
    ("in_range(int4,int4,int4,bool,bool)", |arguments, _, _| integers(arguments)),
    ("in_range(int4,int4,int8,bool,bool)", |arguments, _, _| integers(arguments)),
    ("in_range(int8,int8,int8,bool,bool)", |arguments, _, _| integers(arguments)),
    ("in_range(float4,float4,float8,bool,bool)", |arguments, _, _| floats(arguments)),
    ("in_range(float8,float8,float8,bool,bool)", |arguments, _, _| floats(arguments)),
    ("in_range(numeric,numeric,numeric,bool,bool)", |arguments, _, _| numerics(arguments)),
];

/// The last two arguments: whether the offset is subtracted from the base, and whether the value must be at most the
/// bound rather than at least.
fn direction(arguments: &[Datum<'_>]) -> Result<(bool, bool)> {
    Ok((argument(arguments, 3)?, argument(arguments, 4)?))
}

fn invalid_offset() -> Error {
    Error::new(SqlState("22013"), "invalid preceding or following size in window function")
}

fn mismatch() -> Error {
    Error::bug("in_range of another type")
}

fn integers(arguments: &[Datum<'_>]) -> Result<Datum<'static>> {
    let (subtract, less) = direction(arguments)?;
    let number = |at: usize| arguments.get(at).map_or(Ok(None), integer)?.map(i128::from).ok_or_else(mismatch);
    let (value, base, offset) = (number(0)?, number(1)?, number(2)?);
    if offset < 0 {
        return Err(invalid_offset());
    }
    let bound = if subtract { base - offset } else { base + offset };
    Ok(Datum::Bool(if less { value <= bound } else { value >= bound }))
}

fn floats(arguments: &[Datum<'_>]) -> Result<Datum<'static>> {
    let (subtract, less) = direction(arguments)?;
    let number = |at: usize| arguments.get(at).map_or(Ok(None), float)?.ok_or_else(mismatch);
    let (value, base, offset) = (number(0)?, number(1)?, number(2)?);
    if offset.is_nan() || offset < 0.0 {
        return Err(invalid_offset());
    }
    // NaN is behind all numbers, and all offsets from it lead to it.
    if value.is_nan() || base.is_nan() {
        return Ok(Datum::Bool(match (value.is_nan(), base.is_nan()) {
            (true, true) => true,
            (true, false) => !less,
            _ => less,
        }));
    }
    // An infinite step back from infinity leads nowhere; PostgreSQL lets such a frame have all values.
    let back = if subtract { f64::INFINITY } else { f64::NEG_INFINITY };
    if offset.is_infinite() && base == back {
        return Ok(Datum::Bool(true));
    }
    let bound = if subtract { base - offset } else { base + offset };
    Ok(Datum::Bool(if less { value <= bound } else { value >= bound }))
}

fn numerics(arguments: &[Datum<'_>]) -> Result<Datum<'static>> {
    let (subtract, less) = direction(arguments)?;
    let [value, base, offset]: [&Numeric; 3] =
        [argument(arguments, 0)?, argument(arguments, 1)?, argument(arguments, 2)?];
    if offset.is_nan() || offset.signum() < 0 {
        return Err(invalid_offset());
    }
    if value.is_nan() || base.is_nan() {
        return Ok(Datum::Bool(match (value.is_nan(), base.is_nan()) {
            (true, true) => true,
            (true, false) => !less,
            _ => less,
        }));
    }
    let back = if subtract { Numeric::PLUS_INFINITY } else { Numeric::MINUS_INFINITY };
    if !offset.is_finite() && *base == back {
        return Ok(Datum::Bool(true));
    }
    let bound = if subtract { base.sub(offset)? } else { base.add(offset)? };
    Ok(Datum::Bool(if less { *value <= bound } else { *value >= bound }))
}
