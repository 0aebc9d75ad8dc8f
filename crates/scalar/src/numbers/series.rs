//! `generate_series` of numbers. Rows are computed when they are asked for.

use std::iter::successors;

use model::{Datum, Error, Numeric, Result, SqlState};

use super::call::{Argument, Returned, argument};
use crate::registry::{Rows, SetFunction};

pub(super) const SETS: &[(&str, SetFunction)] = &[
    ("generate_series(int4,int4)", |arguments, _, _| integers(arguments, i32::checked_add, 1)),
    ("generate_series(int4,int4,int4)", |arguments, _, _| integers(arguments, i32::checked_add, 1)),
    ("generate_series(int8,int8)", |arguments, _, _| integers(arguments, i64::checked_add, 1)),
    ("generate_series(int8,int8,int8)", |arguments, _, _| integers(arguments, i64::checked_add, 1)),
    ("generate_series(numeric,numeric)", |arguments, _, _| numerics(arguments)),
    ("generate_series(numeric,numeric,numeric)", |arguments, _, _| numerics(arguments)),
];

fn invalid(message: impl Into<String>) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn zero_step() -> Error {
    invalid("step size cannot equal zero")
}

/// The start, the stop and the step; the step is `one` if it is not given. `None` if an argument is NULL.
fn bounds<'d, T: Argument<'d>>(arguments: &'d [Datum<'_>], one: T) -> Result<Option<[T; 3]>> {
    if arguments.iter().any(Datum::is_null) {
        return Ok(None);
    }
    let step = if arguments.len() > 2 { argument(arguments, 2)? } else { one };
    Ok(Some([argument(arguments, 0)?, argument(arguments, 1)?, step]))
}

/// A number beyond the type's range ends the series.
fn integers<'a, T>(arguments: &[Datum<'a>], add: fn(T, T) -> Option<T>, one: T) -> Result<Rows<'a>>
where
    T: for<'d> Argument<'d> + Returned + Copy + PartialOrd + Default + 'a,
{
    let Some([start, stop, step]) = bounds(arguments, one)? else { return Ok(Box::new(std::iter::empty())) };
    if step == T::default() {
        return Err(zero_step());
    }
    let rising = step > T::default();
    let within = move |value: &T| if rising { *value <= stop } else { *value >= stop };
    let values = successors(Some(start), move |value| add(*value, step)).take_while(within);
    Ok(Box::new(values.map(|value| -> Result<Datum<'a>> { value.returned() })))
}

fn numerics<'a>(arguments: &[Datum<'a>]) -> Result<Rows<'a>> {
    let one = Numeric::from(1);
    let Some(bounds) = bounds(arguments, &one)? else { return Ok(Box::new(std::iter::empty())) };
    for (bound, name) in bounds.iter().zip(["start value", "stop value", "step size"]) {
        if !bound.is_finite() {
            let kind = if bound.is_nan() { "NaN" } else { "infinity" };
            return Err(invalid(format!("{name} cannot be {kind}")));
        }
    }
    let [start, stop, step] = bounds.map(Numeric::clone);
    if step.signum() == 0 {
        return Err(zero_step());
    }
    let rising = step.signum() > 0;
    // An error of the addition is the last row.
    let values = successors(Some(Ok(start)), move |value| value.as_ref().ok().map(|value| value.add(&step)));
    let within = move |value: &Result<Numeric>| match value {
        Ok(value) if rising => *value <= stop,
        Ok(value) => *value >= stop,
        Err(_) => true,
    };
    Ok(Box::new(values.take_while(within).map(|value| value.map(Datum::Numeric))))
}
