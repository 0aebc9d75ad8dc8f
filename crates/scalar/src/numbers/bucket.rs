//! `width_bucket`: the number of the bucket of a histogram that a value belongs to.

use std::cmp::Ordering;

use model::{Datum, Error, Numeric, Result, SqlState};

use super::call::{argument, out_of_range};
use super::float;
use crate::context::Context;
use crate::expr::Call;
use crate::registry::{self, Function};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("width_bucket(float8,float8,float8,int4)", |arguments, _, _| {
        let [operand, low, high] = [argument(arguments, 0)?, argument(arguments, 1)?, argument(arguments, 2)?];
        float_bucket(operand, low, high, argument(arguments, 3)?).map(Datum::Int4)
    }),
    ("width_bucket(numeric,numeric,numeric,int4)", |arguments, _, _| {
        let [operand, low, high] = [argument(arguments, 0)?, argument(arguments, 1)?, argument(arguments, 2)?];
        numeric_bucket(operand, low, high, argument(arguments, 3)?).map(Datum::Int4)
    }),
    ("width_bucket(anycompatible,anycompatiblearray)", bucket_of_thresholds),
];

fn invalid(message: &str) -> Error {
    Error::new(SqlState("2201G"), message)
}

fn check_count(count: i32) -> Result<()> {
    if count > 0 { Ok(()) } else { Err(invalid("count must be greater than zero")) }
}

fn above(count: i32) -> Result<i32> {
    count.checked_add(1).ok_or_else(|| out_of_range("integer"))
}

fn equal_bounds() -> Error {
    invalid("lower bound cannot equal upper bound")
}

pub(super) fn float_bucket(operand: f64, low: f64, high: f64, count: i32) -> Result<i32> {
    check_count(count)?;
    if operand.is_nan() || low.is_nan() || high.is_nan() {
        return Err(invalid("operand, lower bound, and upper bound cannot be NaN"));
    }
    if low.is_infinite() || high.is_infinite() {
        return Err(invalid("lower and upper bounds must be finite"));
    }
    // The bounds of falling buckets are mirrored.
    let (operand, low, high) = match float::order(low, high) {
        Ordering::Less => (operand, low, high),
        Ordering::Equal => return Err(equal_bounds()),
        Ordering::Greater => (-operand, -low, -high),
    };
    if operand < low {
        return Ok(0);
    }
    if operand >= high {
        return above(count);
    }
    let (distance, width) = (f64::from(count) * (operand - low), high - low);
    let bucket = if distance.is_finite() && width.is_finite() {
        distance / width
    } else {
        // PostgreSQL 15 overflows here.
        f64::from(count) * ((operand / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0))
    };
    // The quotient may round up to the count.
    Ok((bucket as i32).min(count - 1) + 1)
}

fn numeric_bucket(operand: &Numeric, low: &Numeric, high: &Numeric, count: i32) -> Result<i32> {
    check_count(count)?;
    if operand.is_nan() || low.is_nan() || high.is_nan() {
        return Err(invalid("operand, lower bound, and upper bound cannot be NaN"));
    }
    if !low.is_finite() || !high.is_finite() {
        return Err(invalid("lower and upper bounds must be finite"));
    }
    let falling = match low.cmp(high) {
        Ordering::Less => false,
        Ordering::Equal => return Err(equal_bounds()),
        Ordering::Greater => true,
    };
    let (before, behind) = if falling { (operand > low, operand <= high) } else { (operand < low, operand >= high) };
    if before {
        return Ok(0);
    }
    if behind {
        return above(count);
    }
    let distance = operand.sub(low)?.mul(&Numeric::from(count))?;
    let bucket = distance.div(&high.sub(low)?)?.floor()?.to_i32()?;
    // The quotient may round up to the count, which PostgreSQL 15 takes for a value behind the last bucket.
    Ok(bucket.min(count - 1) + 1)
}

/// The number of thresholds, which are sorted, that are not above the operand.
fn bucket_of_thresholds<'a>(arguments: &[Datum<'a>], call: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let [operand, Datum::Array(thresholds)] = arguments else { return Err(Error::bug("width_bucket of another type")) };
    if thresholds.dimensions.len() > 1 {
        return Err(Error::new(SqlState("2202E"), "thresholds must be one-dimensional array"));
    }
    if thresholds.items.iter().any(Datum::is_null) {
        return Err(Error::new(SqlState("22004"), "thresholds array must not contain NULLs"));
    }
    let ty = call.arguments.first().copied().unwrap_or_default();
    let (mut low, mut high) = (0, thresholds.items.len());
    while low < high {
        let middle = usize::midpoint(low, high);
        if registry::compare(ty, operand, &thresholds.items[middle])?.is_lt() {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(Datum::Int4(low as i32))
}
