//! `smallint`, `integer`, `bigint`.

use std::cmp::Ordering;
use std::fmt::Write;

use catalog::TypeId;
use model::{Datum, Error, Result, SqlState};

use super::call::{
    binary, compared, comparisons, division_by_zero, functions, invalid_input, out_of_range, trimmed, unary,
};
use crate::context::Context;
use crate::registry::{Function, TypeSupport};

pub(super) const TYPES: &[(TypeId, TypeSupport)] = &[
    (TypeId::INT2, TypeSupport { input: int2_input, output, compare: None }),
    (TypeId::INT4, TypeSupport { input: int4_input, output, compare: None }),
    (TypeId::INT8, TypeSupport { input: int8_input, output, compare: None }),
];

fn int2_input<'a>(text: &str, _: TypeId, _: i32, _: &Context<'a>) -> Result<Datum<'a>> {
    parse::<i16>(text).map(Datum::Int2)
}

fn int4_input<'a>(text: &str, _: TypeId, _: i32, _: &Context<'a>) -> Result<Datum<'a>> {
    parse::<i32>(text).map(Datum::Int4)
}

fn int8_input<'a>(text: &str, _: TypeId, _: i32, _: &Context<'a>) -> Result<Datum<'a>> {
    parse::<i64>(text).map(Datum::Int8)
}

fn output(datum: &Datum<'_>, _: TypeId, _: &Context<'_>, text: &mut String) -> Result<()> {
    // Writing to a String cannot fail.
    let _ = match datum {
        Datum::Int2(value) => write!(text, "{value}"),
        Datum::Int4(value) => write!(text, "{value}"),
        Datum::Int8(value) => write!(text, "{value}"),
        _ => return Err(Error::bug("output of another type as integer")),
    };
    Ok(())
}

/// Reads a decimal integer with optional sign; white space around it is ignored.
fn parse<T: Integer>(text: &str) -> Result<T> {
    let number = trimmed(text);
    let unsigned = number.strip_prefix(['+', '-']).unwrap_or(number);
    let digits = unsigned.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return Err(invalid_input(T::NAME, text));
    }
    // A number that is too large is reported before what follows it.
    let number = &number[..number.len() - (unsigned.len() - digits)];
    let value = number.parse::<i64>().ok().and_then(|value| T::try_from(value).ok());
    let value = value.ok_or_else(|| {
        let message = format!("value \"{text}\" is out of range for type {}", T::NAME);
        Error::new(SqlState::NUMERIC_OUT_OF_RANGE, message)
    })?;
    if digits == unsigned.len() { Ok(value) } else { Err(invalid_input(T::NAME, text)) }
}

/// An integer type; its operations fail when the result does not fit.
pub(crate) trait Integer: Copy + Into<i64> + TryFrom<i64> {
    /// SQL name.
    const NAME: &'static str;

    fn add(self, other: Self) -> Result<Self>;
    fn sub(self, other: Self) -> Result<Self>;
    fn mul(self, other: Self) -> Result<Self>;
    fn div(self, other: Self) -> Result<Self>;
    fn rem(self, other: Self) -> Result<Self>;
    fn neg(self) -> Result<Self>;

    fn abs(self) -> Result<Self> {
        if self.into() < 0 { self.neg() } else { Ok(self) }
    }
}

macro_rules! integer {
    ($($ty:ty = $name:literal,)*) => { $(
        impl Integer for $ty {
            const NAME: &'static str = $name;

            fn add(self, other: $ty) -> Result<$ty> {
                self.checked_add(other).ok_or_else(|| out_of_range($name))
            }

            fn sub(self, other: $ty) -> Result<$ty> {
                self.checked_sub(other).ok_or_else(|| out_of_range($name))
            }

            fn mul(self, other: $ty) -> Result<$ty> {
                self.checked_mul(other).ok_or_else(|| out_of_range($name))
            }

            fn div(self, other: $ty) -> Result<$ty> {
                if other == 0 {
                    return Err(division_by_zero());
                }
                self.checked_div(other).ok_or_else(|| out_of_range($name))
            }

            fn rem(self, other: $ty) -> Result<$ty> {
                // The remainder of the least number and -1 is 0, although the quotient does not fit.
                if other == 0 { Err(division_by_zero()) } else { Ok(self.wrapping_rem(other)) }
            }

            fn neg(self) -> Result<$ty> {
                self.checked_neg().ok_or_else(|| out_of_range($name))
            }
        }
    )* };
}

integer! { i16 = "smallint", i32 = "integer", i64 = "bigint", }

/// The four operations of two integer types, computed in the larger one.
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
    "int2": i16, i16 => i16;
    "int4": i32, i32 => i32;
    "int8": i64, i64 => i64;
    "int24": i16, i32 => i32;
    "int42": i32, i16 => i32;
    "int28": i16, i64 => i64;
    "int82": i64, i16 => i64;
    "int48": i32, i64 => i64;
    "int84": i64, i32 => i64;
};

/// Compares two integers of any types.
pub(super) fn order<A: Into<i64>, B: Into<i64>>(left: A, right: B) -> Ordering {
    left.into().cmp(&right.into())
}

pub(super) const COMPARISONS: &[(&str, Function)] = comparisons! {
    "int2": order::<i16, i16>;
    "int4", "btint4cmp": order::<i32, i32>;
    "int8", "btint8cmp": order::<i64, i64>;
    "int24", "btint24cmp": order::<i16, i32>;
    "int42", "btint42cmp": order::<i32, i16>;
    "int28", "btint28cmp": order::<i16, i64>;
    "int82", "btint82cmp": order::<i64, i16>;
    "int48", "btint48cmp": order::<i32, i64>;
    "int84", "btint84cmp": order::<i64, i32>;
};

/// Functions that exist for each of the three types: sign, remainder, bits, larger and smaller. A shift by more than
/// the bits of the type takes the count modulo the bits of the machine's register, as PostgreSQL does on common
/// processors.
macro_rules! of_each_type {
    ($($name:literal: $ty:ty, shifted as $register:ty;)*) => {
        &[$(
            (concat!($name, "up"), |arguments, _, _| unary(arguments, |value: $ty| value)),
            (concat!($name, "um"), |arguments, _, _| unary(arguments, <$ty as Integer>::neg)),
            (concat!($name, "abs"), |arguments, _, _| unary(arguments, <$ty as Integer>::abs)),
            (concat!("abs(", $name, ")"), |arguments, _, _| unary(arguments, <$ty as Integer>::abs)),
            (concat!($name, "mod"), |arguments, _, _| binary(arguments, <$ty as Integer>::rem)),
            (concat!("mod(", $name, ",", $name, ")"), |arguments, _, _| binary(arguments, <$ty as Integer>::rem)),
            (concat!($name, "and"), |arguments, _, _| binary(arguments, |left: $ty, right: $ty| left & right)),
            (concat!($name, "or"), |arguments, _, _| binary(arguments, |left: $ty, right: $ty| left | right)),
            (concat!($name, "xor"), |arguments, _, _| binary(arguments, |left: $ty, right: $ty| left ^ right)),
            (concat!($name, "not"), |arguments, _, _| unary(arguments, |value: $ty| !value)),
            (concat!($name, "shl"), |arguments, _, _| binary(arguments, |value: $ty, count: i32| {
                <$register>::from(value).wrapping_shl(count as u32) as $ty
            })),
            (concat!($name, "shr"), |arguments, _, _| binary(arguments, |value: $ty, count: i32| {
                <$register>::from(value).wrapping_shr(count as u32) as $ty
            })),
            (concat!($name, "larger"), |arguments, _, _| binary(arguments, <$ty as Ord>::max)),
            (concat!($name, "smaller"), |arguments, _, _| binary(arguments, <$ty as Ord>::min)),
        )*]
    };
}

pub(super) const OF_EACH_TYPE: &[(&str, Function)] = of_each_type! {
    "int2": i16, shifted as i32;
    "int4": i32, shifted as i32;
    "int8": i64, shifted as i64;
};

pub(super) const FUNCTIONS: &[(&str, Function)] = functions! {
    // The others return -1, 0 or 1; this one the difference.
    "btint2cmp" => binary(|left: i16, right: i16| i32::from(left) - i32::from(right)),
    "int4inc" => unary(|value: i32| value.add(1)),
    "int8inc" => unary(|value: i64| value.add(1)),
    "int8dec" => unary(|value: i64| value.sub(1)),
    "gcd(int4,int4)" => binary(gcd::<i32>),
    "gcd(int8,int8)" => binary(gcd::<i64>),
    "lcm(int4,int4)" => binary(lcm::<i32>),
    "lcm(int8,int8)" => binary(lcm::<i64>),
    "int2(int4)" => unary(narrowed::<i32, i16>),
    "int2(int8)" => unary(narrowed::<i64, i16>),
    "int4(int8)" => unary(narrowed::<i64, i32>),
    "int4(int2)" => unary(|value: i16| i32::from(value)),
    "int8(int2)" => unary(|value: i16| i64::from(value)),
    "int8(int4)" => unary(|value: i32| i64::from(value)),
    "int4(bool)" => unary(|value: bool| i32::from(value)),
    "bool(int4)" => unary(|value: i32| value != 0),
    "float8(int2)" => unary(|value: i16| f64::from(value)),
    "float8(int4)" => unary(|value: i32| f64::from(value)),
    "float8(int8)" => unary(|value: i64| value as f64),
    "float4(int2)" => unary(|value: i16| f32::from(value)),
    "float4(int4)" => unary(|value: i32| value as f32),
    "float4(int8)" => unary(|value: i64| value as f32),
};

pub(super) fn narrowed<A: Into<i64>, B: Integer>(value: A) -> Result<B> {
    B::try_from(value.into()).map_err(|_| out_of_range(B::NAME))
}

fn greatest_divisor(left: u64, right: u64) -> u64 {
    let (mut left, mut right) = (left, right);
    while right != 0 {
        (left, right) = (right, left % right);
    }
    left
}

fn magnitude<T: Integer>(value: T) -> u64 {
    value.into().unsigned_abs()
}

fn fitting<T: Integer>(value: Option<u64>) -> Result<T> {
    let value = value.and_then(|value| i64::try_from(value).ok());
    value.and_then(|value| T::try_from(value).ok()).ok_or_else(|| out_of_range(T::NAME))
}

fn gcd<T: Integer>(left: T, right: T) -> Result<T> {
    fitting(Some(greatest_divisor(magnitude(left), magnitude(right))))
}

fn lcm<T: Integer>(left: T, right: T) -> Result<T> {
    let (left, right) = (magnitude(left), magnitude(right));
    if left == 0 || right == 0 {
        return fitting(Some(0));
    }
    fitting((left / greatest_divisor(left, right)).checked_mul(right))
}

/// `to_hex`; negative numbers in two's complement.
pub(super) const TO_HEX: &[(&str, Function)] = &[
    ("to_hex(int4)", |arguments, _, ctx| to_hex(arguments, ctx)),
    ("to_hex(int8)", |arguments, _, ctx| to_hex(arguments, ctx)),
];

fn to_hex<'a>(arguments: &[Datum<'a>], ctx: &Context<'a>) -> Result<Datum<'a>> {
    let value = match arguments {
        [Datum::Int4(value)] => u64::from(*value as u32),
        [Datum::Int8(value)] => *value as u64,
        _ => return Err(Error::bug("to_hex of another type")),
    };
    Ok(Datum::Text(bumpalo::format!(in ctx.arena, "{:x}", value).into_bump_str()))
}
