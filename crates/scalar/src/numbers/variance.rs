//! `variance`, `stddev` and their kinds, of floats and of exact numbers.

use model::{Datum, Error, Numeric, Result};

use super::aggregates::{first, float};
use super::float::overflow;
use super::numeric_math::sqrt_with_scale;
use crate::context::Context;
use crate::registry::{Accumulator, Aggregate};

/// A statistic of the spread of values.
#[derive(Clone, Copy)]
pub(super) struct Spread {
    /// Estimate from a sample, which needs two values, rather than of the whole population.
    pub(super) sample: bool,
    /// Standard deviation rather than variance.
    pub(super) root: bool,
}

/// All six aggregates of each type.
macro_rules! spreads {
    ($($ty:literal: $accumulator:ident,)*) => {
        &[$(
            (concat!("var_pop(", $ty, ")"), |_| Box::new($accumulator::new(Spread { sample: false, root: false }))),
            (concat!("var_samp(", $ty, ")"), |_| Box::new($accumulator::new(Spread { sample: true, root: false }))),
            (concat!("variance(", $ty, ")"), |_| Box::new($accumulator::new(Spread { sample: true, root: false }))),
            (concat!("stddev_pop(", $ty, ")"), |_| Box::new($accumulator::new(Spread { sample: false, root: true }))),
            (concat!("stddev_samp(", $ty, ")"), |_| Box::new($accumulator::new(Spread { sample: true, root: true }))),
            (concat!("stddev(", $ty, ")"), |_| Box::new($accumulator::new(Spread { sample: true, root: true }))),
        )*]
    };
}

pub(super) const AGGREGATES: &[(&str, Aggregate)] = spreads! {
    "int2": NumericSpread,
    "int4": NumericSpread,
    "int8": NumericSpread,
    "numeric": NumericSpread,
    "float4": FloatSpread,
    "float8": FloatSpread,
};

/// Count, sum and sum of squared differences from the mean. Source: Youngs and Cramer, "Some results relevant to choice
/// of sum and sum-of-product algorithms", Technometrics 1971.
#[derive(Default)]
pub(super) struct FloatMoments {
    pub(super) count: f64,
    pub(super) sum: f64,
    pub(super) squares: f64,
}

impl FloatMoments {
    pub(super) fn add(&mut self, value: f64) -> Result<()> {
        let (count, sum_before) = (self.count, self.sum);
        self.count += 1.0;
        self.sum += value;
        if count == 0.0 {
            // An infinity has no distance from the mean.
            self.squares = if value.is_finite() { 0.0 } else { f64::NAN };
            return Ok(());
        }
        let difference = value * self.count - self.sum;
        self.squares += difference * difference / (self.count * count);
        if self.sum.is_infinite() || self.squares.is_infinite() {
            if !sum_before.is_infinite() && !value.is_infinite() {
                return Err(overflow());
            }
            self.squares = f64::NAN;
        }
        Ok(())
    }

    pub(super) fn average(&self) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum / self.count)
    }

    pub(super) fn spread(&self, spread: Spread) -> Option<f64> {
        let divisor = if spread.sample { self.count - 1.0 } else { self.count };
        let variance = (divisor > 0.0).then(|| self.squares / divisor)?;
        Some(if spread.root { variance.sqrt() } else { variance })
    }
}

struct FloatSpread {
    spread: Spread,
    moments: FloatMoments,
}

impl FloatSpread {
    fn new(spread: Spread) -> FloatSpread {
        FloatSpread { spread, moments: FloatMoments::default() }
    }
}

impl Accumulator for FloatSpread {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], _: &Context<'a>) -> Result<()> {
        float(first(arguments)?)?.map_or(Ok(()), |value| self.moments.add(value))
    }

    fn result<'a>(&self, _: &Context<'a>) -> Result<Datum<'a>> {
        Ok(self.moments.spread(self.spread).map_or(Datum::Null, Datum::Float8))
    }
}

/// Count and exact sums of numbers and of their squares. NaN and infinities are counted apart.
pub(super) struct NumericMoments {
    count: i64,
    sum: Numeric,
    /// `None` if only the sum is wanted.
    squares: Option<Numeric>,
    nan: bool,
    plus_infinity: bool,
    minus_infinity: bool,
}

impl NumericMoments {
    pub(super) fn of_sum() -> NumericMoments {
        NumericMoments {
            count: 0,
            sum: Numeric::ZERO,
            squares: None,
            nan: false,
            plus_infinity: false,
            minus_infinity: false,
        }
    }

    fn of_squares() -> NumericMoments {
        NumericMoments { squares: Some(Numeric::ZERO), ..NumericMoments::of_sum() }
    }

    pub(super) fn update(&mut self, argument: &Datum<'_>) -> Result<()> {
        match argument {
            Datum::Null => Ok(()),
            Datum::Numeric(value) => self.add(value),
            Datum::Int2(value) => self.add(&Numeric::from(*value)),
            Datum::Int4(value) => self.add(&Numeric::from(*value)),
            Datum::Int8(value) => self.add(&Numeric::from(*value)),
            _ => Err(Error::bug("the argument of an aggregate is of another type")),
        }
    }

    fn add(&mut self, value: &Numeric) -> Result<()> {
        self.count += 1;
        if value.is_finite() {
            self.sum = self.sum.add(value)?;
            if let Some(squares) = &mut self.squares {
                *squares = squares.add(&value.mul(value)?)?;
            }
        } else if value.is_nan() {
            self.nan = true;
        } else if value.signum() > 0 {
            self.plus_infinity = true;
        } else {
            self.minus_infinity = true;
        }
        Ok(())
    }

    /// The sum; `None` without values.
    pub(super) fn sum(&self) -> Option<Numeric> {
        (self.count > 0).then(|| match (self.nan, self.plus_infinity, self.minus_infinity) {
            (true, _, _) | (_, true, true) => Numeric::NAN,
            (_, true, false) => Numeric::PLUS_INFINITY,
            (_, false, true) => Numeric::MINUS_INFINITY,
            (false, false, false) => self.sum.clone(),
        })
    }

    pub(super) fn average(&self) -> Result<Option<Numeric>> {
        self.sum().map(|sum| sum.div(&Numeric::from(self.count))).transpose()
    }

    fn spread(&self, spread: Spread) -> Result<Option<Numeric>> {
        let divisor = if spread.sample { self.count - 1 } else { self.count };
        if divisor <= 0 {
            return Ok(None);
        }
        if self.nan || self.plus_infinity || self.minus_infinity {
            return Ok(Some(Numeric::NAN));
        }
        let count = Numeric::from(self.count);
        let squares = self.squares.as_ref().ok_or_else(|| Error::bug("no sum of squares"))?;
        let dividend = squares.mul(&count)?.sub(&self.sum.mul(&self.sum)?)?;
        if dividend.signum() <= 0 {
            return Ok(Some(Numeric::ZERO));
        }
        let variance = dividend.div(&count.mul(&Numeric::from(divisor))?)?;
        if spread.root { sqrt_with_scale(&variance, variance.scale()).map(Some) } else { Ok(Some(variance)) }
    }
}

struct NumericSpread {
    spread: Spread,
    moments: NumericMoments,
}

impl NumericSpread {
    fn new(spread: Spread) -> NumericSpread {
        NumericSpread { spread, moments: NumericMoments::of_squares() }
    }
}

impl Accumulator for NumericSpread {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], _: &Context<'a>) -> Result<()> {
        self.moments.update(first(arguments)?)
    }

    fn result<'a>(&self, _: &Context<'a>) -> Result<Datum<'a>> {
        Ok(self.moments.spread(self.spread)?.map_or(Datum::Null, Datum::Numeric))
    }
}
