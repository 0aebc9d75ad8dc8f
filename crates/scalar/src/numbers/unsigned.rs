//! `xid8` and `pg_lsn`: numbers of 64 bits without sign. No datum has such a number, so that they are numerics here,
//! which have the same order.

use std::cmp::Ordering;
use std::fmt::Write;

use catalog::TypeId;
use model::{Datum, Error, Numeric, Result, SqlState};

use super::call::{binary, compared, comparisons, functions, invalid_input, trimmed, unary};
use super::hash::hash_bigint;
use crate::context::Context;
use crate::registry::{Function, TypeSupport};

const PG_LSN: TypeId = TypeId(3220);
const XID8: TypeId = TypeId(5069);

pub(super) const TYPES: &[(TypeId, TypeSupport)] = &[
    (PG_LSN, TypeSupport { input: lsn_input, output: lsn_output, compare: None }),
    (XID8, TypeSupport { input: xid8_input, output: xid8_output, compare: None }),
];

/// Reads two hexadecimal numbers of up to eight digits: `16/B374D848`.
fn lsn_input<'a>(text: &str, _: TypeId, _: i32, _: &Context<'a>) -> Result<Datum<'a>> {
    let half = |digits: &str| {
        let is_number = matches!(digits.len(), 1..=8) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_number.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
    };
    let halves = text.split_once('/').and_then(|(high, low)| Some((half(high)?, half(low)?)));
    let (high, low) = halves.ok_or_else(|| invalid_input("pg_lsn", text))?;
    Ok(Datum::Numeric(Numeric::from(high << 32 | low)))
}

fn lsn_output(datum: &Datum<'_>, _: TypeId, _: &Context<'_>, text: &mut String) -> Result<()> {
    let value = unsigned(datum)?;
    // Writing to a String cannot fail.
    let _ = write!(text, "{:X}/{:X}", value >> 32, value & u64::from(u32::MAX));
    Ok(())
}

fn xid8_input<'a>(text: &str, _: TypeId, _: i32, _: &Context<'a>) -> Result<Datum<'a>> {
    Ok(Datum::Numeric(Numeric::from(number_at_start(text))))
}

fn xid8_output(datum: &Datum<'_>, _: TypeId, _: &Context<'_>, text: &mut String) -> Result<()> {
    // Writing to a String cannot fail.
    let _ = write!(text, "{}", unsigned(datum)?);
    Ok(())
}

/// The number that a text begins with, by the rules of C's `strtoull`: it may be octal or hexadecimal, a negative one
/// is taken modulo 2^64, one that is too large is the largest. A text without number is 0.
pub(super) fn number_at_start(text: &str) -> u64 {
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
    let mut digits = digits.chars().map_while(|digit| digit.to_digit(radix));
    let value = digits.try_fold(0_u64, |sum, digit| sum.checked_mul(radix.into())?.checked_add(digit.into()));
    match value {
        Some(value) if negative => value.wrapping_neg(),
        Some(value) => value,
        None => u64::MAX,
    }
}

fn unsigned(datum: &Datum<'_>) -> Result<u64> {
    let Datum::Numeric(value) = datum else { return Err(Error::bug("a number of 64 bits is of another type")) };
    unsigned_of(value)
}

fn unsigned_of(value: &Numeric) -> Result<u64> {
    let number = value.as_decimal().and_then(|(number, _)| u64::try_from(number).ok());
    number.ok_or_else(|| Error::bug("a number beyond 64 bits"))
}

fn order(left: &Numeric, right: &Numeric) -> Ordering {
    left.cmp(right)
}

pub(super) const COMPARISONS: &[(&str, Function)] = comparisons! {
    "pg_lsn_", "pg_lsn_cmp": order;
    "xid8", "xid8cmp": order;
};

fn larger(left: &Numeric, right: &Numeric) -> Numeric {
    left.max(right).clone()
}

fn smaller(left: &Numeric, right: &Numeric) -> Numeric {
    left.min(right).clone()
}

pub(super) const FUNCTIONS: &[(&str, Function)] = functions! {
    "pg_lsn_larger" => binary(larger),
    "pg_lsn_smaller" => binary(smaller),
    "pg_lsn_mi" => binary(Numeric::sub),
    "pg_wal_lsn_diff" => binary(Numeric::sub),
    "pg_lsn_pli" => binary(|lsn: &Numeric, bytes: &Numeric| moved(lsn, bytes, "add NaN to")),
    "numeric_pl_pg_lsn" => binary(|bytes: &Numeric, lsn: &Numeric| moved(lsn, bytes, "add NaN to")),
    "pg_lsn_mii" => binary(|lsn: &Numeric, bytes: &Numeric| moved(lsn, &bytes.neg(), "subtract NaN from")),
    "pg_lsn(numeric)" => unary(lsn_of_numeric),
    "pg_lsn_hash" => unary(|lsn: &Numeric| unsigned_of(lsn).map(|lsn| hash_bigint(lsn as i64, 0) as i32)),
    "pg_lsn_hash_extended" => binary(|lsn: &Numeric, seed: i64| {
        unsigned_of(lsn).map(|lsn| hash_bigint(lsn as i64, seed as u64) as i64)
    }),
    "xid8_larger" => binary(larger),
    "xid8_smaller" => binary(smaller),
    "xid(xid8)" => unary(|value: &Numeric| unsigned_of(value).map(|value| value as u32)),
};

fn moved(lsn: &Numeric, bytes: &Numeric, operation: &str) -> Result<Numeric> {
    if bytes.is_nan() {
        return Err(Error::unsupported(format!("cannot {operation} pg_lsn")));
    }
    lsn_of_numeric(&lsn.add(bytes)?)
}

fn lsn_of_numeric(value: &Numeric) -> Result<Numeric> {
    if !value.is_finite() {
        let kind = if value.is_nan() { "NaN" } else { "infinity" };
        return Err(Error::unsupported(format!("cannot convert {kind} to pg_lsn")));
    }
    let rounded = value.round(0)?;
    let is_valid = rounded.signum() >= 0 && rounded <= Numeric::from(u64::MAX);
    let error = || Error::new(SqlState::INVALID_PARAMETER_VALUE, "pg_lsn out of range");
    is_valid.then_some(rounded).ok_or_else(error)
}
