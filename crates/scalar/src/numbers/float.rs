//! `real` and `double precision`: text, comparisons, arithmetic, casts and rounding.

use std::cmp::Ordering;
use std::str::FromStr;

use catalog::TypeId;
use model::{Datum, Error, Numeric, Result, SqlState};
use pg::value::{float4_text, float8_text};

use super::call::{
    binary, compared, comparisons, division_by_zero, functions, invalid_input, out_of_range, trimmed, unary,
};
use crate::context::Context;
use crate::registry::{Function, TypeSupport};

/// Digits that a decimal of the type always keeps; `extra_float_digits` is added to them.
const FLOAT4_DIGITS: i32 = 6;
const FLOAT8_DIGITS: i32 = 15;

pub(super) const TYPES: &[(TypeId, TypeSupport)] = &[
    (TypeId::FLOAT4, TypeSupport { input: float4_input, output, compare: None }),
    (TypeId::FLOAT8, TypeSupport { input: float8_input, output, compare: None }),
];

fn float4_input<'a>(text: &str, _: TypeId, _: i32, _: &Context<'a>) -> Result<Datum<'a>> {
    parse(text, "real", |value: f32| (value.is_infinite(), value == 0.0)).map(Datum::Float4)
}

fn float8_input<'a>(text: &str, _: TypeId, _: i32, _: &Context<'a>) -> Result<Datum<'a>> {
    parse(text, "double precision", |value: f64| (value.is_infinite(), value == 0.0)).map(Datum::Float8)
}

/// Reads a decimal number, `NaN` or an infinity; `limits` tells whether a value is infinite and whether it is 0.
fn parse<T: FromStr + Copy>(text: &str, ty: &str, limits: impl Fn(T) -> (bool, bool)) -> Result<T> {
    let number = trimmed(text);
    let check = |number: &str, value: T| match limits(value) {
        (false, false) => Ok(()),
        (infinite, _) => check_range(number, ty, infinite),
    };
    if let Ok(value) = number.parse() {
        return check(number, value).map(|()| value);
    }
    // A number that is out of range is reported before what follows it.
    let number = number_at_start(number);
    if let Ok(value) = number.parse() {
        check(number, value)?;
    }
    Err(invalid_input(ty, text))
}

/// The longest beginning that is a decimal number.
fn number_at_start(text: &str) -> &str {
    let digits = |from: usize| text[from..].bytes().take_while(u8::is_ascii_digit).count();
    let sign = usize::from(text.starts_with(['+', '-']));
    let mut end = sign + digits(sign);
    if text[end..].starts_with('.') {
        end += 1 + digits(end + 1);
    }
    if text[end..].starts_with(['e', 'E']) {
        let power = end + 1 + usize::from(text[end + 1..].starts_with(['+', '-']));
        if digits(power) > 0 {
            end = power + digits(power);
        }
    }
    &text[..end]
}

/// Refuses a decimal that has become infinite or else zero.
fn check_range(number: &str, ty: &str, infinite: bool) -> Result<()> {
    let mantissa = number.split(['e', 'E']).next().unwrap_or_default();
    let is_lost = if infinite {
        number.bytes().any(|byte| byte.is_ascii_digit())
    } else {
        mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'))
    };
    if is_lost {
        let message = format!("\"{number}\" is out of range for type {ty}");
        return Err(Error::new(SqlState::NUMERIC_OUT_OF_RANGE, message));
    }
    Ok(())
}

fn output(datum: &Datum<'_>, _: TypeId, ctx: &Context<'_>, text: &mut String) -> Result<()> {
    let extra = ctx.session.extra_float_digits;
    match datum {
        Datum::Float4(value) if extra > 0 => append(text, |out| float4_text(out, *value)),
        Datum::Float8(value) if extra > 0 => append(text, |out| float8_text(out, *value)),
        Datum::Float4(value) => append_rounded(text, f64::from(*value), FLOAT4_DIGITS + extra),
        Datum::Float8(value) => append_rounded(text, *value, FLOAT8_DIGITS + extra),
        _ => return Err(Error::bug("output of another type as float")),
    }
    Ok(())
}

/// Appends ASCII that `write` produces. The usual empty text lends its buffer, so that nothing is allocated.
fn append(text: &mut String, write: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = if text.is_empty() { std::mem::take(text).into_bytes() } else { Vec::with_capacity(24) };
    write(&mut bytes);
    let written = String::from_utf8(bytes).unwrap_or_default();
    if text.is_empty() {
        *text = written;
    } else {
        text.push_str(&written);
    }
}

/// Appends a float rounded to some significant digits, as `%g` of C prints it: without trailing zeros, with an exponent
/// below 10^-4 and from 10^`digits`.
pub(super) fn append_rounded(text: &mut String, value: f64, digits: i32) {
    if !value.is_finite() || value == 0.0 {
        return append(text, |out| float8_text(out, value));
    }
    let digits = digits.max(1);
    let scientific = format!("{value:.*e}", digits as usize - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..digits).contains(&exponent) {
        let fixed = format!("{value:.*}", (digits - 1 - exponent) as usize);
        text.push_str(without_trailing_zeros(&fixed));
    } else {
        text.push_str(without_trailing_zeros(mantissa));
        text.push_str(if exponent < 0 { "e-" } else { "e+" });
        text.push_str(&format!("{:02}", exponent.unsigned_abs()));
    }
}

fn without_trailing_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

/// PostgreSQL's order: NaN equals itself and is greater than every number.
pub(crate) fn order<A: Into<f64>, B: Into<f64>>(left: A, right: B) -> Ordering {
    let (left, right) = (left.into(), right.into());
    left.partial_cmp(&right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
}

pub(super) const COMPARISONS: &[(&str, Function)] = comparisons! {
    "float4", "btfloat4cmp": order::<f32, f32>;
    "float8", "btfloat8cmp": order::<f64, f64>;
    "float48", "btfloat48cmp": order::<f32, f64>;
    "float84", "btfloat84cmp": order::<f64, f32>;
};

pub(super) fn overflow() -> Error {
    Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "value out of range: overflow")
}

pub(super) fn underflow() -> Error {
    Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "value out of range: underflow")
}

/// A float type; its operations fail when a finite result does not fit, or when a product or quotient vanishes.
pub(crate) trait Float: Copy + Into<f64> {
    fn add(self, other: Self) -> Result<Self>;
    fn sub(self, other: Self) -> Result<Self>;
    fn mul(self, other: Self) -> Result<Self>;
    fn div(self, other: Self) -> Result<Self>;
}

macro_rules! float {
    ($($ty:ty)*) => { $(
        impl Float for $ty {
            fn add(self, other: $ty) -> Result<$ty> {
                let sum = self + other;
                if sum.is_infinite() && self.is_finite() && other.is_finite() { Err(overflow()) } else { Ok(sum) }
            }

            fn sub(self, other: $ty) -> Result<$ty> {
                self.add(-other)
            }

            fn mul(self, other: $ty) -> Result<$ty> {
                let product = self * other;
                if product.is_infinite() && self.is_finite() && other.is_finite() {
                    Err(overflow())
                } else if product == 0.0 && self != 0.0 && other != 0.0 {
                    Err(underflow())
                } else {
                    Ok(product)
                }
            }

            fn div(self, other: $ty) -> Result<$ty> {
                if other == 0.0 && !self.is_nan() {
                    return Err(division_by_zero());
                }
                let quotient = self / other;
                if quotient.is_infinite() && self.is_finite() {
                    Err(overflow())
                } else if quotient == 0.0 && self != 0.0 && other.is_finite() {
                    Err(underflow())
                } else {
                    Ok(quotient)
                }
            }
        }
    )* };
}

float! { f32 f64 }

/// The four operations of two float types, computed in the larger one.
macro_rules! arithmetic {
    ($($prefix:literal: $left:ty, $right:ty => $result:ty;)*) => {
        &[$(
            (concat!($prefix, "pl"), |arguments, _, _| binary(arguments, |left: $left, right: $right| {
                <$result>::from(left).add(right.into())
            })),
            (concat!($prefix, "mi"), |arguments, _, _| binary(arguments, |left: $left, right: $right| {
                <$result>::from(left).sub(right.into())
            })),
            (concat!($prefix, "mul"), |arguments, _, _| binary(arguments, |left: $left, right: $right| {
                <$result>::from(left).mul(right.into())
            })),
            (concat!($prefix, "div"), |arguments, _, _| binary(arguments, |left: $left, right: $right| {
                <$result>::from(left).div(right.into())
            })),
        )*]
    };
}

pub(super) const ARITHMETIC: &[(&str, Function)] = arithmetic! {
    "float4": f32, f32 => f32;
    "float8": f64, f64 => f64;
    "float48": f32, f64 => f64;
    "float84": f64, f32 => f64;
};

/// The larger of two values; the second one of two equal ones.
fn larger<T: Into<f64> + Copy>(left: T, right: T) -> T {
    if order(left, right).is_gt() { left } else { right }
}

fn smaller<T: Into<f64> + Copy>(left: T, right: T) -> T {
    if order(left, right).is_lt() { left } else { right }
}

pub(super) const FUNCTIONS: &[(&str, Function)] = functions! {
    "float4up" => unary(|value: f32| value),
    "float4um" => unary(|value: f32| -value),
    "float4abs" => unary(f32::abs),
    "abs(float4)" => unary(f32::abs),
    "float4larger" => binary(larger::<f32>),
    "float4smaller" => binary(smaller::<f32>),
    "float8up" => unary(|value: f64| value),
    "float8um" => unary(|value: f64| -value),
    "float8abs" => unary(f64::abs),
    "abs(float8)" => unary(f64::abs),
    "float8larger" => binary(larger::<f64>),
    "float8smaller" => binary(smaller::<f64>),
    "dround" => unary(f64::round_ties_even),
    "round(float8)" => unary(f64::round_ties_even),
    "dtrunc" => unary(f64::trunc),
    "trunc(float8)" => unary(f64::trunc),
    "ceil(float8)" => unary(f64::ceil),
    "ceiling(float8)" => unary(f64::ceil),
    "floor(float8)" => unary(f64::floor),
    "sign(float8)" => unary(sign),
    "float8(float4)" => unary(|value: f32| f64::from(value)),
    "float4(float8)" => unary(float4_of_float8),
    "int2(float4)" => unary(|value: f32| integer(value.into(), "smallint").map(|value| value as i16)),
    "int2(float8)" => unary(|value: f64| integer(value, "smallint").map(|value| value as i16)),
    "int4(float4)" => unary(|value: f32| integer(value.into(), "integer").map(|value| value as i32)),
    "int4(float8)" => unary(|value: f64| integer(value, "integer").map(|value| value as i32)),
    "int8(float4)" => unary(|value: f32| integer(value.into(), "bigint").map(|value| value as i64)),
    "int8(float8)" => unary(|value: f64| integer(value, "bigint").map(|value| value as i64)),
    "float4(numeric)" => unary(Numeric::to_f32),
    "float8(numeric)" => unary(Numeric::to_f64),
    "numeric(float4)" => unary(|value: f32| Numeric::from(value)),
    "numeric(float8)" => unary(|value: f64| Numeric::from(value)),
};

fn sign(value: f64) -> f64 {
    if value > 0.0 {
        1.0
    } else if value < 0.0 {
        -1.0
    } else if value.is_nan() {
        value
    } else {
        0.0
    }
}

fn float4_of_float8(value: f64) -> Result<f32> {
    let narrow = value as f32;
    if narrow.is_infinite() && value.is_finite() {
        Err(overflow())
    } else if narrow == 0.0 && value != 0.0 {
        Err(underflow())
    } else {
        Ok(narrow)
    }
}

/// The nearest integer, halves to the even one, if it is in the range of the type.
fn integer(value: f64, ty: &str) -> Result<f64> {
    let bound = match ty {
        "smallint" => -f64::from(i16::MIN),
        "integer" => -f64::from(i32::MIN),
        _ => -(i64::MIN as f64),
    };
    let whole = value.round_ties_even();
    if (-bound..bound).contains(&whole) { Ok(whole) } else { Err(out_of_range(ty)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Session;

    #[test]
    fn floats_have_the_digits_that_extra_float_digits_leaves() {
        let values = [0.1, 1e15, 123_456_789.123_456_79, 1e-5, 0.0001, 1e100, f64::NAN, -2.5, 1e14, 100_000.0, 0.0];
        let values = values.map(Datum::Float8).into_iter().chain([1_234_567.0, 0.1, 999_999.5].map(Datum::Float4));
        let values: Vec<Datum<'_>> = values.collect();
        let arena = bumpalo::Bump::new();
        for (extra_float_digits, expected) in [
            (
                0,
                "0.1 1e+15 123456789.123457 1e-05 0.0001 1e+100 NaN -2.5 100000000000000 100000 0 1.23457e+06 0.1 1e+06",
            ),
            (-3, "0.1 1e+15 123456789.123 1e-05 0.0001 1e+100 NaN -2.5 1e+14 100000 0 1.23e+06 0.1 1e+06"),
            (-15, "0.1 1e+15 1e+08 1e-05 0.0001 1e+100 NaN -2 1e+14 1e+05 0 1e+06 0.1 1e+06"),
        ] {
            let session = Session { extra_float_digits, ..Session::default() };
            let ctx = Context { arena: &arena, session: &session };
            let texts = values.iter().map(|value| {
                let mut text = String::new();
                output(value, TypeId::FLOAT8, &ctx, &mut text).unwrap();
                text
            });
            assert_eq!(texts.collect::<Vec<_>>().join(" "), expected);
        }
    }
}
