//! Binary format of `numeric`. Values, text format and arithmetic: [`model::Numeric`].
//!
//! Layout, big-endian: digit count (i16), weight (i16, exponent of the first digit to base 10,000),
//! sign (0 positive, 0x4000 negative, 0xC000 NaN, 0xD000 and 0xF000 the infinities), display scale
//! (u16), then base-10,000 digits without leading or trailing zeros.

use model::numeric::{SCALE_MAX, decimal_text};
use model::{Error, Result, SqlState};

pub use model::Numeric;

use crate::types::oid;
use crate::value::invalid;

const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xC000;
const PLUS_INFINITY: u16 = 0xD000;
const MINUS_INFINITY: u16 = 0xF000;
/// Largest scale of Arrow's Decimal128.
const DECIMAL128_SCALE_MAX: u32 = 38;

/// Appends `value / 10^scale` in text format with `scale` decimal places; a negative scale appends
/// zeros.
pub fn numeric_text(out: &mut Vec<u8>, value: i128, scale: i8) {
    decimal_text(out, value, i32::from(scale));
}

/// Appends `value / 10^scale` in binary format.
pub fn numeric_binary(out: &mut Vec<u8>, value: i128, scale: i8) {
    Numeric::new(value, 0).with_digits(|negative, digits, _| digits_binary(out, negative, digits, i32::from(scale)));
}

/// Appends a numeric in binary format.
pub fn write_binary(out: &mut Vec<u8>, value: &Numeric) {
    let finite = value.with_digits(|negative, digits, scale| digits_binary(out, negative, digits, scale as i32));
    if finite.is_none() {
        match value.signum() {
            0 => header(out, 0, 0, NAN, 0),
            1.. => header(out, 0, 0, PLUS_INFINITY, 32),
            _ => header(out, 0, 0, MINUS_INFINITY, 32),
        }
    }
}

/// Converts to Decimal128: value and scale; `None` for NaN and the infinities. Rounds after the
/// 38th decimal place.
///
/// # Errors
/// 22003 if more than 38 significant digits are left.
pub fn decimal128(value: &Numeric) -> Result<Option<(i128, u8)>> {
    if !value.is_finite() {
        return Ok(None);
    }
    let rounded = value.round(value.scale().min(DECIMAL128_SCALE_MAX) as i32)?;
    let decimal = rounded.as_decimal().or_else(|| rounded.trim_scale().as_decimal());
    decimal
        .map(|(value, scale)| Some((value, scale as u8)))
        .ok_or_else(|| Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "numeric value has more than 38 significant digits"))
}

/// Appends plain decimal text (`-12.30`), as formatted from wider decimals, in binary format.
///
/// # Errors
/// 22P02 if the text is not plain decimal.
pub fn decimal_text_binary(out: &mut Vec<u8>, text: &str) -> Result<()> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let joined: Vec<u8> = whole.bytes().chain(fraction.bytes()).skip_while(|byte| *byte == b'0').collect();
    if !joined.iter().all(u8::is_ascii_digit) || digits.is_empty() {
        return Err(invalid(oid::NUMERIC, text));
    }
    digits_binary(out, text.starts_with('-'), &joined, fraction.len() as i32);
    Ok(())
}

/// Appends `digits / 10^scale` in binary format. `digits`: decimal, no leading zero; they are
/// grouped by four around the decimal point.
fn digits_binary(out: &mut Vec<u8>, negative: bool, digits: &[u8], scale: i32) {
    // Exponent of the last digit, rounded down to a multiple of four; zeros fill the gap.
    let lowest = (-scale).div_euclid(4) * 4;
    let padding = (-scale - lowest) as usize;
    let length = digits.len() + padding;
    let groups = length.div_ceil(4);
    let first = (groups * 4 - length) as i32;
    let group = |at: usize| {
        (0..4).fold(0i16, |sum, i| {
            let at = (at * 4 + i) as i32 - first;
            let digit = usize::try_from(at).ok().and_then(|at| digits.get(at)).map_or(0, |digit| digit - b'0');
            sum * 10 + i16::from(digit)
        })
    };
    let last = (0..groups).rev().find(|at| group(*at) != 0).map_or(0, |at| at + 1);
    let weight = if last == 0 { 0 } else { groups as i32 - 1 + lowest / 4 };
    let sign = if negative && last > 0 { NEGATIVE } else { 0 };
    header(out, last as i16, weight as i16, sign, scale.max(0) as u16);
    for at in 0..last {
        out.extend_from_slice(&group(at).to_be_bytes());
    }
}

fn header(out: &mut Vec<u8>, digits: i16, weight: i16, sign: u16, scale: u16) {
    out.extend_from_slice(&digits.to_be_bytes());
    out.extend_from_slice(&weight.to_be_bytes());
    out.extend_from_slice(&sign.to_be_bytes());
    out.extend_from_slice(&scale.to_be_bytes());
}

fn malformed(what: impl std::fmt::Display) -> Error {
    Error::new(SqlState::INVALID_BINARY_REPRESENTATION, format!("invalid binary numeric: {what}"))
}

/// Parses the binary format.
///
/// # Errors
/// 22P03 for malformed bytes, 22003 for a number out of range.
pub fn parse_binary(bytes: &[u8]) -> Result<Numeric> {
    let words = bytes.as_chunks::<2>();
    let [count, weight, sign, scale, digits @ ..] = words.0 else {
        return Err(malformed(format_args!("{} bytes, expected at least 8", bytes.len())));
    };
    if !words.1.is_empty() || digits.len() != usize::from(u16::from_be_bytes(*count)) {
        return Err(malformed(format_args!("{} bytes for {} digits", bytes.len(), u16::from_be_bytes(*count))));
    }
    let negative = match u16::from_be_bytes(*sign) {
        0 => false,
        NEGATIVE => true,
        NAN => return Ok(Numeric::NAN),
        PLUS_INFINITY => return Ok(Numeric::PLUS_INFINITY),
        MINUS_INFINITY => return Ok(Numeric::MINUS_INFINITY),
        other => return Err(malformed(format_args!("sign {other:#06x}"))),
    };
    let weight = i32::from(i16::from_be_bytes(*weight));
    let scale = u32::from(u16::from_be_bytes(*scale));
    if scale > SCALE_MAX {
        return Err(malformed(format_args!("scale {scale}, expected at most {SCALE_MAX}")));
    }
    if let Some(bad) = digits.iter().map(|digit| u16::from_be_bytes(*digit)).find(|digit| *digit > 9_999) {
        return Err(malformed(format_args!("digit {bad}, expected at most 9999")));
    }
    match small_of_groups(digits, weight, scale) {
        Some(value) => Ok(Numeric::new(if negative { -value } else { value }, scale)),
        None => wide_of_groups(negative, digits, weight, scale),
    }
}

/// Value of base-10,000 digits at `scale`, for up to 38 decimal digits. Digits below the scale are
/// dropped; the sender guarantees that they are zero.
fn small_of_groups(digits: &[[u8; 2]], weight: i32, scale: u32) -> Option<i128> {
    digits.iter().enumerate().try_fold(0i128, |sum, (at, digit)| {
        let digit = i128::from(u16::from_be_bytes(*digit));
        let power = (weight - at as i32) * 4 + scale as i32;
        let part = match u32::try_from(power) {
            _ if digit == 0 => 0,
            Ok(power) => digit.checked_mul(10i128.checked_pow(power)?)?,
            Err(_) => 10i128.checked_pow(power.unsigned_abs()).map_or(0, |divisor| digit / divisor),
        };
        sum.checked_add(part)
    })
}

/// Value of base-10,000 digits with more than 38 decimal digits.
fn wide_of_groups(negative: bool, digits: &[[u8; 2]], weight: i32, scale: u32) -> Result<Numeric> {
    let mut decimal = Vec::with_capacity(4 * digits.len());
    for digit in digits {
        let digit = u16::from_be_bytes(*digit);
        decimal.extend([1_000, 100, 10, 1].map(|power| b'0' + (digit / power % 10) as u8));
    }
    let last = (i64::from(weight) + 1 - digits.len() as i64) * 4;
    Numeric::from_digits(negative, &decimal, last, scale)
}

#[cfg(test)]
#[path = "numeric_tests.rs"]
mod tests;
