//! Transition and final functions of aggregates as functions of their own, over arrays and numbers as states.

use std::sync::Arc;

use catalog::TypeId;
use model::{Array, Datum, Error, Numeric, Result, SqlState};

use super::aggregates::{float, integer};
use super::call::{Returned, argument, out_of_range};
use super::float::{Float, overflow};
use super::regression::Pairs;
use super::variance::{FloatMoments, Spread};
use crate::registry::Function;

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("float4_accum", |arguments, _, _| float_accum(arguments)),
    ("float8_accum", |arguments, _, _| float_accum(arguments)),
    ("float8_combine", |arguments, _, _| {
        let (mut moments, other) = (moments(arguments, 0)?, moments(arguments, 1)?);
        moments.combine(&other)?;
        Ok(float_array(&moments.state()))
    }),
    ("float8_avg", |arguments, _, _| moments(arguments, 0)?.average().returned()),
    ("float8_var_pop", |arguments, _, _| spread(arguments, Spread { sample: false, root: false })),
    ("float8_var_samp", |arguments, _, _| spread(arguments, Spread { sample: true, root: false })),
    ("float8_stddev_pop", |arguments, _, _| spread(arguments, Spread { sample: false, root: true })),
    ("float8_stddev_samp", |arguments, _, _| spread(arguments, Spread { sample: true, root: true })),
    ("float8_regr_accum", |arguments, _, _| {
        let mut pairs = pairs(arguments, 0)?;
        pairs.add(argument(arguments, 2)?, argument(arguments, 1)?)?;
        Ok(float_array(&pairs.state()))
    }),
    ("float8_regr_combine", |arguments, _, _| {
        let (mut all, other) = (pairs(arguments, 0)?, pairs(arguments, 1)?);
        all.combine(&other)?;
        Ok(float_array(&all.state()))
    }),
    ("float8_regr_sxx", |arguments, _, _| pairs(arguments, 0)?.sum_xx().returned()),
    ("float8_regr_syy", |arguments, _, _| pairs(arguments, 0)?.sum_yy().returned()),
    ("float8_regr_sxy", |arguments, _, _| pairs(arguments, 0)?.sum_xy().returned()),
    ("float8_regr_avgx", |arguments, _, _| pairs(arguments, 0)?.average_x().returned()),
    ("float8_regr_avgy", |arguments, _, _| pairs(arguments, 0)?.average_y().returned()),
    ("float8_regr_r2", |arguments, _, _| pairs(arguments, 0)?.determination().returned()),
    ("float8_regr_slope", |arguments, _, _| pairs(arguments, 0)?.slope().returned()),
    ("float8_regr_intercept", |arguments, _, _| pairs(arguments, 0)?.intercept().returned()),
    ("float8_covar_pop", |arguments, _, _| pairs(arguments, 0)?.covariance().returned()),
    ("float8_covar_samp", |arguments, _, _| pairs(arguments, 0)?.covariance_of_sample().returned()),
    ("float8_corr", |arguments, _, _| pairs(arguments, 0)?.correlation().returned()),
    ("int2_sum", |arguments, _, _| integer_sum(arguments)),
    ("int4_sum", |arguments, _, _| integer_sum(arguments)),
    ("int8_sum", |arguments, _, _| numeric_sum(arguments)),
    ("int2_avg_accum", |arguments, _, _| integer_accum(arguments, 1)),
    ("int4_avg_accum", |arguments, _, _| integer_accum(arguments, 1)),
    ("int2_avg_accum_inv", |arguments, _, _| integer_accum(arguments, -1)),
    ("int4_avg_accum_inv", |arguments, _, _| integer_accum(arguments, -1)),
    ("int8_avg", |arguments, _, _| match count_and_sum(arguments, 0)? {
        [0, _] => Ok(Datum::Null),
        [count, sum] => Numeric::from(sum).div(&Numeric::from(count)).returned(),
    }),
    ("int2int4_sum", |arguments, _, _| match count_and_sum(arguments, 0)? {
        [0, _] => Ok(Datum::Null),
        [_, sum] => sum.returned(),
    }),
    ("int8inc_any", |arguments, _, _| incremented(arguments, 1)),
    ("int8dec_any", |arguments, _, _| incremented(arguments, -1)),
    ("int8inc_float8_float8", |arguments, _, _| incremented(arguments, 1)),
];

/// PostgreSQL's error for an array that is no state.
fn malformed(message: &str) -> Error {
    Error::new(SqlState::INTERNAL_ERROR, message)
}

/// The floats of a state of `N` of them.
fn floats<const N: usize>(arguments: &[Datum<'_>], at: usize) -> Result<[f64; N]> {
    let wrong = || malformed(&format!("expected {N}-element float8 array"));
    let Some(Datum::Array(array)) = arguments.get(at) else { return Err(wrong()) };
    let mut state = [0.0; N];
    if array.items.len() != N || array.dimensions.len() != 1 {
        return Err(wrong());
    }
    for (to, item) in state.iter_mut().zip(&array.items) {
        *to = float(item)?.ok_or_else(wrong)?;
    }
    Ok(state)
}

fn float_array(state: &[f64]) -> Datum<'static> {
    let items = state.iter().map(|value| Datum::Float8(*value)).collect();
    Datum::Array(Arc::new(Array::of(TypeId::FLOAT8.0, items)))
}

fn moments(arguments: &[Datum<'_>], at: usize) -> Result<FloatMoments> {
    floats(arguments, at).map(FloatMoments::of_state)
}

fn pairs(arguments: &[Datum<'_>], at: usize) -> Result<Pairs> {
    floats(arguments, at).map(Pairs::of_state)
}

fn float_accum(arguments: &[Datum<'_>]) -> Result<Datum<'static>> {
    let mut moments = moments(arguments, 0)?;
    if let Some(value) = arguments.get(1).map_or(Ok(None), float)? {
        moments.add(value)?;
    }
    Ok(float_array(&moments.state()))
}

fn spread(arguments: &[Datum<'_>], spread: Spread) -> Result<Datum<'static>> {
    moments(arguments, 0)?.spread(spread).returned()
}

impl FloatMoments {
    /// The moments of a state of PostgreSQL.
    #[must_use]
    pub fn of_state([count, sum, squares]: [f64; 3]) -> FloatMoments {
        FloatMoments { count, sum, squares }
    }

    /// The state as PostgreSQL has it: count, sum, sum of squared differences.
    #[must_use]
    pub fn state(&self) -> [f64; 3] {
        [self.count, self.sum, self.squares]
    }

    /// Adds the values of another group, as `float8_combine` does.
    ///
    /// # Errors
    /// 22003 for finite values whose sum or squares are not.
    pub fn combine(&mut self, other: &FloatMoments) -> Result<()> {
        if other.count == 0.0 {
            return Ok(());
        }
        if self.count == 0.0 {
            *self = FloatMoments::of_state(other.state());
            return Ok(());
        }
        let count = self.count + other.count;
        let difference = self.sum / self.count - other.sum / other.count;
        let between = self.count * other.count * difference * difference / count;
        let squares = finite_sum(self.squares, other.squares, between)?;
        *self = FloatMoments { count, sum: self.sum.add(other.sum)?, squares };
        Ok(())
    }
}

/// The sum of two sums of squares and of the part between the groups.
fn finite_sum(left: f64, right: f64, between: f64) -> Result<f64> {
    let sum = left + right + between;
    if sum.is_infinite() && !left.is_infinite() && !right.is_infinite() { Err(overflow()) } else { Ok(sum) }
}

impl Pairs {
    /// The sums of a state of PostgreSQL.
    #[must_use]
    pub fn of_state([count, sum_x, xx, sum_y, yy, xy]: [f64; 6]) -> Pairs {
        Pairs { count, sum_x, sum_y, xx, yy, xy }
    }

    /// The state as PostgreSQL has it: count, sum and sum of squared differences of x, of y, and sum of products.
    #[must_use]
    pub fn state(&self) -> [f64; 6] {
        [self.count, self.sum_x, self.xx, self.sum_y, self.yy, self.xy]
    }

    /// Adds the pairs of another group, as `float8_regr_combine` does.
    ///
    /// # Errors
    /// 22003 for finite values whose sums are not.
    pub fn combine(&mut self, other: &Pairs) -> Result<()> {
        if other.count == 0.0 {
            return Ok(());
        }
        if self.count == 0.0 {
            *self = Pairs::of_state(other.state());
            return Ok(());
        }
        let count = self.count + other.count;
        let dx = self.sum_x / self.count - other.sum_x / other.count;
        let dy = self.sum_y / self.count - other.sum_y / other.count;
        let product = self.count * other.count;
        *self = Pairs {
            count,
            sum_x: self.sum_x.add(other.sum_x)?,
            sum_y: self.sum_y.add(other.sum_y)?,
            xx: finite_sum(self.xx, other.xx, product * dx * dx / count)?,
            yy: finite_sum(self.yy, other.yy, product * dy * dy / count)?,
            xy: finite_sum(self.xy, other.xy, product * dx * dy / count)?,
        };
        Ok(())
    }
}

/// `int2_sum`, `int4_sum`: the sum so far, which may be NULL, and a number that may be NULL. An overflow, which
/// PostgreSQL does not notice, is an error.
fn integer_sum(arguments: &[Datum<'_>]) -> Result<Datum<'static>> {
    let number = |at: usize| arguments.get(at).map_or(Ok(None), integer);
    match (number(0)?, number(1)?) {
        (Some(sum), Some(value)) => sum.checked_add(value).ok_or_else(|| out_of_range("bigint")).returned(),
        (sum, value) => sum.or(value).returned(),
    }
}

/// `int8_sum`, whose sum is a numeric.
fn numeric_sum(arguments: &[Datum<'_>]) -> Result<Datum<'static>> {
    let value = arguments.get(1).map_or(Ok(None), integer)?.map(Numeric::from);
    match (arguments.first(), value) {
        (Some(Datum::Numeric(sum)), Some(value)) => sum.add(&value).returned(),
        (Some(Datum::Numeric(sum)), None) => sum.clone().returned(),
        (_, value) => value.returned(),
    }
}

/// Count and sum of integers, an array of two bigints.
fn count_and_sum(arguments: &[Datum<'_>], at: usize) -> Result<[i64; 2]> {
    match arguments.get(at) {
        Some(Datum::Array(array)) => match &*array.items {
            [Datum::Int8(count), Datum::Int8(sum)] => Ok([*count, *sum]),
            _ => Err(malformed("expected 2-element int8 array")),
        },
        _ => Err(malformed("expected 2-element int8 array")),
    }
}

fn count_and_sum_array(count: Option<i64>, sum: Option<i64>) -> Result<Datum<'static>> {
    let items = [count, sum].map(|number| number.map(Datum::Int8).ok_or_else(|| out_of_range("bigint")));
    let items = items.into_iter().collect::<Result<Vec<_>>>()?;
    Ok(Datum::Array(Arc::new(Array::of(TypeId::INT8.0, items))))
}

/// Adds or, with the sign -1, removes a number.
fn integer_accum(arguments: &[Datum<'_>], sign: i64) -> Result<Datum<'static>> {
    let [count, sum] = count_and_sum(arguments, 0)?;
    let value = arguments.get(1).map_or(Ok(None), integer)?.unwrap_or(0);
    count_and_sum_array(count.checked_add(sign), sum.checked_add(sign * value))
}

fn incremented(arguments: &[Datum<'_>], step: i64) -> Result<Datum<'static>> {
    let count: i64 = argument(arguments, 0)?;
    count.checked_add(step).ok_or_else(|| out_of_range("bigint")).returned()
}
