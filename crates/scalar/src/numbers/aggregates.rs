//! Aggregates of counts and sums: `count`, `sum`, `avg`, and those of booleans and bits.

use model::{Datum, Error, Numeric, Result};

use super::call::out_of_range;
use super::float::Float;
use super::variance::{FloatMoments, NumericMoments};
use crate::context::Context;
use crate::registry::{Accumulator, Aggregate};

pub(super) const AGGREGATES: &[(&str, Aggregate)] = &[
    ("count()", |_| Box::new(Count { of_arguments: false, rows: 0 })),
    ("count(any)", |_| Box::new(Count { of_arguments: true, rows: 0 })),
    ("regr_count", |_| Box::new(Count { of_arguments: true, rows: 0 })),
    ("sum(int2)", |_| Box::new(SmallSum::default())),
    ("sum(int4)", |_| Box::new(SmallSum::default())),
    ("sum(int8)", |_| Box::new(WideSum { average: false, ..WideSum::default() })),
    ("avg(int2)", |_| Box::new(WideSum { average: true, ..WideSum::default() })),
    ("avg(int4)", |_| Box::new(WideSum { average: true, ..WideSum::default() })),
    ("avg(int8)", |_| Box::new(WideSum { average: true, ..WideSum::default() })),
    ("sum(float4)", |_| Box::new(Float4Sum(None))),
    ("sum(float8)", |_| Box::new(Float8Sum(None))),
    ("avg(float4)", |_| Box::new(FloatAverage::default())),
    ("avg(float8)", |_| Box::new(FloatAverage::default())),
    ("sum(numeric)", |_| Box::new(NumericSum { average: false, state: NumericMoments::of_sum() })),
    ("avg(numeric)", |_| Box::new(NumericSum { average: true, state: NumericMoments::of_sum() })),
    ("bool_and", |_| Box::new(Booleans { or: false, value: None })),
    ("every", |_| Box::new(Booleans { or: false, value: None })),
    ("bool_or", |_| Box::new(Booleans { or: true, value: None })),
    ("bit_and(int2)", |_| Box::new(Bits::new(|left, right| left & right))),
    ("bit_and(int4)", |_| Box::new(Bits::new(|left, right| left & right))),
    ("bit_and(int8)", |_| Box::new(Bits::new(|left, right| left & right))),
    ("bit_or(int2)", |_| Box::new(Bits::new(|left, right| left | right))),
    ("bit_or(int4)", |_| Box::new(Bits::new(|left, right| left | right))),
    ("bit_or(int8)", |_| Box::new(Bits::new(|left, right| left | right))),
    ("bit_xor(int2)", |_| Box::new(Bits::new(|left, right| left ^ right))),
    ("bit_xor(int4)", |_| Box::new(Bits::new(|left, right| left ^ right))),
    ("bit_xor(int8)", |_| Box::new(Bits::new(|left, right| left ^ right))),
];

fn mismatch() -> Error {
    Error::bug("the argument of an aggregate is of another type")
}

/// An integer of any type; `None` for NULL.
pub(super) fn integer(argument: &Datum<'_>) -> Result<Option<i64>> {
    match argument {
        Datum::Null => Ok(None),
        Datum::Int2(value) => Ok(Some(i64::from(*value))),
        Datum::Int4(value) => Ok(Some(i64::from(*value))),
        Datum::Int8(value) => Ok(Some(*value)),
        _ => Err(mismatch()),
    }
}

/// A float of any type; `None` for NULL.
pub(super) fn float(argument: &Datum<'_>) -> Result<Option<f64>> {
    match argument {
        Datum::Null => Ok(None),
        Datum::Float4(value) => Ok(Some(f64::from(*value))),
        Datum::Float8(value) => Ok(Some(*value)),
        _ => Err(mismatch()),
    }
}

pub(super) fn first<'d, 'a>(arguments: &'d [Datum<'a>]) -> Result<&'d Datum<'a>> {
    arguments.first().ok_or_else(mismatch)
}

struct Count {
    /// Whether rows with a NULL argument are left out.
    of_arguments: bool,
    rows: i64,
}

impl Accumulator for Count {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], _: &Context<'a>) -> Result<()> {
        if !self.of_arguments || !arguments.iter().any(Datum::is_null) {
            self.rows += 1;
        }
        Ok(())
    }

    fn result<'a>(&self, _: &Context<'a>) -> Result<Datum<'a>> {
        Ok(Datum::Int8(self.rows))
    }
}

/// `sum` of `smallint` and `integer`.
#[derive(Default)]
struct SmallSum(Option<i64>);

impl Accumulator for SmallSum {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], _: &Context<'a>) -> Result<()> {
        if let Some(value) = integer(first(arguments)?)? {
            let sum = self.0.unwrap_or(0).checked_add(value);
            self.0 = Some(sum.ok_or_else(|| out_of_range("bigint"))?);
        }
        Ok(())
    }

    fn result<'a>(&self, _: &Context<'a>) -> Result<Datum<'a>> {
        Ok(self.0.map_or(Datum::Null, Datum::Int8))
    }
}

/// `sum` of `bigint`, and averages of integers.
#[derive(Default)]
struct WideSum {
    average: bool,
    rows: i64,
    /// Cannot overflow for fewer than 2^64 rows.
    sum: i128,
}

impl Accumulator for WideSum {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], _: &Context<'a>) -> Result<()> {
        if let Some(value) = integer(first(arguments)?)? {
            self.rows += 1;
            self.sum += i128::from(value);
        }
        Ok(())
    }

    fn result<'a>(&self, _: &Context<'a>) -> Result<Datum<'a>> {
        let sum = Numeric::new(self.sum, 0);
        match (self.rows, self.average) {
            (0, _) => Ok(Datum::Null),
            (_, false) => Ok(Datum::Numeric(sum)),
            (rows, true) => sum.div(&Numeric::from(rows)).map(Datum::Numeric),
        }
    }
}

/// `sum` of `real`, which is computed in that type.
struct Float4Sum(Option<f32>);

impl Accumulator for Float4Sum {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], _: &Context<'a>) -> Result<()> {
        if let Datum::Float4(value) = first(arguments)? {
            self.0 = Some(self.0.map_or(Ok(*value), |sum| sum.add(*value))?);
        }
        Ok(())
    }

    fn result<'a>(&self, _: &Context<'a>) -> Result<Datum<'a>> {
        Ok(self.0.map_or(Datum::Null, Datum::Float4))
    }
}

/// `sum` of `double precision`
struct Float8Sum(Option<f64>);

impl Accumulator for Float8Sum {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], _: &Context<'a>) -> Result<()> {
        if let Some(value) = float(first(arguments)?)? {
            self.0 = Some(self.0.map_or(Ok(value), |sum| sum.add(value))?);
        }
        Ok(())
    }

    fn result<'a>(&self, _: &Context<'a>) -> Result<Datum<'a>> {
        Ok(self.0.map_or(Datum::Null, Datum::Float8))
    }
}

/// Averages of floats.
#[derive(Default)]
struct FloatAverage(FloatMoments);

impl Accumulator for FloatAverage {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], _: &Context<'a>) -> Result<()> {
        float(first(arguments)?)?.map_or(Ok(()), |value| self.0.add(value))
    }

    fn result<'a>(&self, _: &Context<'a>) -> Result<Datum<'a>> {
        Ok(self.0.average().map_or(Datum::Null, Datum::Float8))
    }
}

struct NumericSum {
    average: bool,
    state: NumericMoments,
}

impl Accumulator for NumericSum {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], _: &Context<'a>) -> Result<()> {
        self.state.update(first(arguments)?)
    }

    fn result<'a>(&self, _: &Context<'a>) -> Result<Datum<'a>> {
        let result = if self.average { self.state.average()? } else { self.state.sum()? };
        Ok(result.map_or(Datum::Null, Datum::Numeric))
    }
}

struct Booleans {
    or: bool,
    value: Option<bool>,
}

impl Accumulator for Booleans {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], _: &Context<'a>) -> Result<()> {
        if let Datum::Bool(value) = first(arguments)? {
            let before = self.value.unwrap_or(*value);
            self.value = Some(if self.or { before || *value } else { before && *value });
        }
        Ok(())
    }

    fn result<'a>(&self, _: &Context<'a>) -> Result<Datum<'a>> {
        Ok(self.value.map_or(Datum::Null, Datum::Bool))
    }
}

/// `bit_and`, `bit_or`, `bit_xor` of integers.
struct Bits {
    combine: fn(i64, i64) -> i64,
    value: Datum<'static>,
}

impl Bits {
    fn new(combine: fn(i64, i64) -> i64) -> Bits {
        Bits { combine, value: Datum::Null }
    }
}

impl Accumulator for Bits {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], _: &Context<'a>) -> Result<()> {
        let argument = first(arguments)?;
        let Some(value) = integer(argument)? else { return Ok(()) };
        let combined = integer(&self.value)?.map_or(value, |before| (self.combine)(before, value));
        // The combination of two numbers of a type is a number of that type.
        self.value = match argument {
            Datum::Int2(_) => Datum::Int2(combined as i16),
            Datum::Int4(_) => Datum::Int4(combined as i32),
            _ => Datum::Int8(combined),
        };
        Ok(())
    }

    fn result<'a>(&self, _: &Context<'a>) -> Result<Datum<'a>> {
        Ok(self.value.clone())
    }
}
