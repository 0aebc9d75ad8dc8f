//! `numeric`: text, comparisons, arithmetic, casts, rounding and scale. Values and their arithmetic are in
//! [`model::Numeric`].

use std::cmp::Ordering;
use std::fmt::Write;

use catalog::TypeId;
use model::numeric::Precision;
use model::{Datum, Error, Numeric, Result, SqlState};

use super::call::{binary, compared, comparisons, functions, invalid_input, unary};
use crate::context::Context;
use crate::registry::{Function, TypeSupport};

pub(super) const TYPES: &[(TypeId, TypeSupport)] = &[(TypeId::NUMERIC, TypeSupport { input, output, compare: None })];

fn input<'a>(text: &str, _: TypeId, _: i32, _: &Context<'a>) -> Result<Datum<'a>> {
    let value = text.parse::<Numeric>().map_err(|error| {
        // The message of the model has only the beginning of a long text.
        if error.state() == SqlState::INVALID_TEXT_REPRESENTATION { invalid_input("numeric", text) } else { error }
    })?;
    Ok(Datum::Numeric(value))
}

fn output(datum: &Datum<'_>, _: TypeId, _: &Context<'_>, text: &mut String) -> Result<()> {
    let Datum::Numeric(value) = datum else { return Err(Error::bug("output of another type as numeric")) };
    // Writing to a String cannot fail.
    let _ = write!(text, "{value}");
    Ok(())
}

fn order(left: &Numeric, right: &Numeric) -> Ordering {
    left.cmp(right)
}

pub(super) const COMPARISONS: &[(&str, Function)] = comparisons! { "numeric_", "numeric_cmp": order; };

pub(super) const FUNCTIONS: &[(&str, Function)] = functions! {
    "numeric_add" => binary(Numeric::add),
    "numeric_sub" => binary(Numeric::sub),
    "numeric_mul" => binary(Numeric::mul),
    "numeric_div" => binary(Numeric::div),
    "numeric_mod" => binary(Numeric::rem),
    "mod(numeric,numeric)" => binary(Numeric::rem),
    "numeric_div_trunc" => binary(div_trunc),
    "div" => binary(div_trunc),
    "numeric_uminus" => unary(Numeric::neg),
    "numeric_uplus" => unary(Numeric::clone),
    "numeric_abs" => unary(Numeric::abs),
    "abs(numeric)" => unary(Numeric::abs),
    "numeric_inc" => unary(|value: &Numeric| value.add(&Numeric::from(1))),
    "numeric_larger" => binary(larger),
    "numeric_smaller" => binary(smaller),
    "sign(numeric)" => unary(Numeric::sign),
    "ceil(numeric)" => unary(Numeric::ceil),
    "ceiling(numeric)" => unary(Numeric::ceil),
    "floor(numeric)" => unary(Numeric::floor),
    "round(numeric)" => unary(|value: &Numeric| value.round(0)),
    "round(numeric,int4)" => binary(|value: &Numeric, scale: i32| value.round(scale)),
    "trunc(numeric)" => unary(|value: &Numeric| value.trunc(0)),
    "trunc(numeric,int4)" => binary(|value: &Numeric, scale: i32| value.trunc(scale)),
    "scale" => unary(|value: &Numeric| value.is_finite().then(|| value.scale() as i32)),
    "min_scale" => unary(|value: &Numeric| value.is_finite().then(|| value.trim_scale().scale() as i32)),
    "trim_scale" => unary(Numeric::trim_scale),
    "gcd(numeric,numeric)" => binary(gcd),
    "lcm(numeric,numeric)" => binary(lcm),
    "numeric(numeric,int4)" => binary(with_typmod),
    "numeric(int2)" => unary(|value: i16| Numeric::from(value)),
    "numeric(int4)" => unary(|value: i32| Numeric::from(value)),
    "numeric(int8)" => unary(|value: i64| Numeric::from(value)),
    "int2(numeric)" => unary(Numeric::to_i16),
    "int4(numeric)" => unary(Numeric::to_i32),
    "int8(numeric)" => unary(Numeric::to_i64),
};

/// The larger of two numbers. Of equal ones the second one is the result, which matters for the scale.
fn larger(left: &Numeric, right: &Numeric) -> Numeric {
    if left > right { left.clone() } else { right.clone() }
}

/// The smaller of two numbers, by the same rule.
fn smaller(left: &Numeric, right: &Numeric) -> Numeric {
    if left < right { left.clone() } else { right.clone() }
}

/// The quotient without digits after the point.
fn div_trunc(left: &Numeric, right: &Numeric) -> Result<Numeric> {
    if !left.is_finite() || !right.is_finite() || right.signum() == 0 {
        return left.div(right);
    }
    // The division is exact: the dividend is a multiple of the divisor.
    left.sub(&left.rem(right)?)?.div(right)?.round(0)
}

fn gcd(left: &Numeric, right: &Numeric) -> Result<Numeric> {
    if !left.is_finite() || !right.is_finite() {
        return Ok(Numeric::NAN);
    }
    let scale = left.scale().max(right.scale());
    let (mut left, mut right) = (left.abs(), right.abs());
    while right.signum() != 0 {
        let rest = left.rem(&right)?;
        left = std::mem::replace(&mut right, rest);
    }
    left.round(scale as i32)
}

fn lcm(left: &Numeric, right: &Numeric) -> Result<Numeric> {
    if !left.is_finite() || !right.is_finite() {
        return Ok(Numeric::NAN);
    }
    let scale = left.scale().max(right.scale()) as i32;
    if left.signum() == 0 || right.signum() == 0 {
        return Numeric::ZERO.round(scale);
    }
    div_trunc(left, &gcd(left, right)?)?.mul(right)?.abs().round(scale)
}

/// Rounds to a declared `numeric(p, s)` and checks the size.
fn with_typmod(value: &Numeric, typmod: i32) -> Result<Numeric> {
    match precision(typmod)? {
        Some(precision) => value.with_precision(precision),
        None => Ok(value.clone()),
    }
}

/// The precision of a type modifier: digits in the upper 16 bits, a signed scale in the lower 11, plus 4.
fn precision(typmod: i32) -> Result<Option<Precision>> {
    const HEADER: i32 = 4;
    if typmod < HEADER {
        return Ok(None);
    }
    let modifier = typmod - HEADER;
    let scale = ((modifier & 0x7ff) ^ 1_024) - 1_024;
    Precision::new(i64::from(modifier >> 16 & 0xffff), scale.into()).map(Some)
}

/// The error of functions whose result would have too many digits.
pub(super) fn overflow() -> Error {
    Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "value overflows numeric format")
}
