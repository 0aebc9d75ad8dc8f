//! `oid` and the types whose values are object or transaction numbers.

use std::cmp::Ordering;
use std::fmt::Write;

use catalog::TypeId;
use model::{Datum, Error, Result, SqlState};

use super::call::{binary, compared, comparisons, functions, invalid_input, out_of_range, trimmed, unary};
use super::integer::order;
use crate::context::Context;
use crate::registry::{Function, TypeSupport};

const XID: TypeId = TypeId(28);
const CID: TypeId = TypeId(29);

pub(super) const TYPES: &[(TypeId, TypeSupport)] = &[
    (TypeId::OID, TypeSupport { input: oid_input, output, compare: None }),
    (XID, TypeSupport { input: transaction_input, output, compare: None }),
    (CID, TypeSupport { input: transaction_input, output, compare: None }),
];

fn output(datum: &Datum<'_>, _: TypeId, _: &Context<'_>, text: &mut String) -> Result<()> {
    let Datum::Oid(value) = datum else { return Err(Error::bug("output of another type as oid")) };
    // Writing to a String cannot fail.
    let _ = write!(text, "{value}");
    Ok(())
}

/// Reads an unsigned number; a negative one of 32 bits is taken modulo 2^32.
fn oid_input<'a>(text: &str, _: TypeId, _: i32, _: &Context<'a>) -> Result<Datum<'a>> {
    let number = trimmed(text);
    let digits = number.strip_prefix(['+', '-']).unwrap_or(number);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid_input("oid", text));
    }
    let range = i64::from(i32::MIN)..=i64::from(u32::MAX);
    match number.parse::<i64>() {
        Ok(value) if range.contains(&value) => Ok(Datum::Oid(value as u32)),
        _ => {
            let message = format!("value \"{text}\" is out of range for type oid");
            Err(Error::new(SqlState::NUMERIC_OUT_OF_RANGE, message))
        }
    }
}

/// Reads the number that the text begins with, which may be octal or hexadecimal; there is no error.
fn transaction_input<'a>(text: &str, _: TypeId, _: i32, _: &Context<'a>) -> Result<Datum<'a>> {
    let number = trimmed(text);
    let (negative, number) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let hexadecimal = number.strip_prefix("0x").or_else(|| number.strip_prefix("0X"));
    let (radix, digits) = match hexadecimal {
        Some(digits) => (16, digits),
        None if number.starts_with('0') => (8, number),
        None => (10, number),
    };
    let digits = digits.chars().map_while(|digit| digit.to_digit(radix));
    let value = digits.fold(0_u64, |sum, digit| sum.saturating_mul(radix.into()).saturating_add(digit.into()));
    Ok(Datum::Oid(if negative && value != u64::MAX { value.wrapping_neg() as u32 } else { value as u32 }))
}

pub(super) const COMPARISONS: &[(&str, Function)] = comparisons! { "oid", "btoidcmp": order::<u32, u32>; };

pub(super) const FUNCTIONS: &[(&str, Function)] = functions! {
    "oidlarger" => binary(<u32 as Ord>::max),
    "oidsmaller" => binary(<u32 as Ord>::min),
    "oid(int8)" => unary(|value: i64| u32::try_from(value).map_err(|_| out_of_range("OID"))),
    "int8(oid)" => unary(|value: u32| i64::from(value)),
    "xideq" => binary(|left: u32, right: u32| left == right),
    "xidneq" => binary(|left: u32, right: u32| left != right),
    "xideqint4" => binary(|left: u32, right: i32| left == right as u32),
    "xidneqint4" => binary(|left: u32, right: i32| left != right as u32),
    "cideq" => binary(|left: u32, right: u32| left == right),
};
