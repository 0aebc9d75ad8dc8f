//! `variance`, `stddev` and their kinds, of floats and of exact numbers.

use model::{Datum, Error, ExactNumeric, Numeric, Result};

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
#[derive(Clone, Copy, Debug, Default)]
pub struct FloatMoments {
    pub(super) count: f64,
    pub(super) sum: f64,
    pub(super) squares: f64,
}

impl FloatMoments {
    /// Adds a value.
    ///
    /// # Errors
    /// 22003 for finite values whose sum or squares are not.
    pub fn add(&mut self, value: f64) -> Result<()> {
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

/// The statistic of floats that an aggregate returns, by its name in `pg_proc`; NULL is `None`.
#[must_use]
pub fn moment_statistic(name: &str) -> Option<fn(&FloatMoments) -> Option<f64>> {
    Some(match name {
        "var_pop" => |moments| moments.spread(Spread { sample: false, root: false }),
        "var_samp" | "variance" => |moments| moments.spread(Spread { sample: true, root: false }),
        "stddev_pop" => |moments| moments.spread(Spread { sample: false, root: true }),
        "stddev_samp" | "stddev" => |moments| moments.spread(Spread { sample: true, root: true }),
        _ => return None,
    })
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
    sum: ExactNumeric,
    /// `None` if only the sum is wanted.
    squares: Option<ExactNumeric>,
    nan: bool,
    plus_infinity: bool,
    minus_infinity: bool,
}

impl NumericMoments {
    pub(super) fn of_sum() -> NumericMoments {
        NumericMoments {
            count: 0,
            sum: ExactNumeric::ZERO,
            squares: None,
            nan: false,
            plus_infinity: false,
            minus_infinity: false,
        }
    }

    fn of_squares() -> NumericMoments {
        NumericMoments { squares: Some(ExactNumeric::ZERO), ..NumericMoments::of_sum() }
    }

    pub(super) fn update(&mut self, argument: &Datum<'_>) -> Result<()> {
        match argument {
            Datum::Null => {}
            Datum::Numeric(value) => self.add(value),
            Datum::Int2(value) => self.add(&Numeric::from(*value)),
            Datum::Int4(value) => self.add(&Numeric::from(*value)),
            Datum::Int8(value) => self.add(&Numeric::from(*value)),
            _ => return Err(Error::bug("the argument of an aggregate is of another type")),
        }
        Ok(())
    }

    fn add(&mut self, value: &Numeric) {
        self.count += 1;
        if let Some(value) = ExactNumeric::of(value) {
            self.sum = self.sum.add(&value);
            if let Some(squares) = &mut self.squares {
                *squares = squares.add(&value.mul(&value));
            }
        } else if value.is_nan() {
            self.nan = true;
        } else if value.signum() > 0 {
            self.plus_infinity = true;
        } else {
            self.minus_infinity = true;
        }
    }

    /// The sum if it is none of finite numbers.
    fn special(&self) -> Option<Numeric> {
        match (self.nan, self.plus_infinity, self.minus_infinity) {
            (false, false, false) => None,
            (true, _, _) | (_, true, true) => Some(Numeric::NAN),
            (_, true, false) => Some(Numeric::PLUS_INFINITY),
            (_, false, true) => Some(Numeric::MINUS_INFINITY),
        }
    }

    /// The sum; `None` without values.
    ///
    /// # Errors
    /// 22003 if it is too large.
    pub(super) fn sum(&self) -> Result<Option<Numeric>> {
        match self.special() {
            None if self.count == 0 => Ok(None),
            None => self.sum.clone().finish().map(Some),
            special => Ok(special),
        }
    }

    /// The average; `None` without values.
    ///
    /// # Errors
    /// As [`NumericMoments::sum`].
    pub(super) fn average(&self) -> Result<Option<Numeric>> {
        self.sum()?.map(|sum| sum.div(&Numeric::from(self.count))).transpose()
    }

    fn spread(&self, spread: Spread) -> Result<Option<Numeric>> {
        let divisor = if spread.sample { self.count - 1 } else { self.count };
        if divisor <= 0 {
            return Ok(None);
        }
        if self.special().is_some() {
            return Ok(Some(Numeric::NAN));
        }
        let (count, divisor) = (ExactNumeric::from(self.count), ExactNumeric::from(divisor));
        let squares = self.squares.as_ref().ok_or_else(|| Error::bug("no sum of squares"))?;
        let dividend = squares.mul(&count).sub(&self.sum.mul(&self.sum));
        if dividend.signum() <= 0 {
            return Ok(Some(Numeric::ZERO));
        }
        let variance = dividend.div(&count.mul(&divisor))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Numeric {
        text.parse().unwrap()
    }

    fn of(values: &[Numeric]) -> NumericMoments {
        let mut moments = NumericMoments::of_squares();
        values.iter().for_each(|value| moments.add(value));
        moments
    }

    /// The spreads as text, multiplied by `factor`: variance, var_pop, stddev, stddev_pop.
    fn spreads(moments: &NumericMoments, factor: &str) -> [String; 4] {
        let kinds = [(true, false), (false, false), (true, true), (false, true)];
        kinds.map(|(sample, root)| {
            let value = moments.spread(Spread { sample, root }).unwrap().unwrap();
            value.mul(&number(factor)).unwrap().trim_scale().to_string()
        })
    }

    /// The answers are PostgreSQL's.
    #[test]
    fn sums_of_squares_are_exact_beyond_the_limits_of_numerics() {
        let least = number("1e-16383");
        let below = number("4e-500").sub(&least).unwrap();
        let tiny = of(&[Numeric::ZERO, number("3e-500"), number("-3e-500"), below.clone(), below.neg()]);
        // The variance is just under 12.5e-1000.
        assert_eq!(spreads(&tiny, "1e1000")[..2], ["12", "10"]);
        assert_eq!(tiny.sum().unwrap().unwrap().signum(), 0);
        let high = number("9e131071");
        let large: Vec<Numeric> = (1..=5_i64).map(|x| high.add(&Numeric::from(x)).unwrap()).collect();
        let large = of(&large);
        assert_eq!(spreads(&large, "1"), ["2.5", "2", "1.5811388300841897", "1.414213562373095"]);
        let overflow = model::SqlState::NUMERIC_OUT_OF_RANGE;
        assert_eq!(large.sum().unwrap_err().state(), overflow);
        assert_eq!(large.average().unwrap_err().state(), overflow);
        assert_eq!(
            of(&[high.clone(), high.neg()]).spread(Spread { sample: true, root: false }).unwrap_err().state(),
            overflow
        );
        let least = of(&[least.clone(), least.add(&least).unwrap()]);
        assert_eq!(spreads(&least, "1"), ["0"; 4]);
    }
}
