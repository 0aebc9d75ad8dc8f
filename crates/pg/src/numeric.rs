//! `numeric`: PostgreSQL's binary form. The values themselves, their text and their arithmetic are [`model::Numeric`]'s.
//!
//! Binary form, big-endian: digit count (i16), weight (i16, the power of 10,000 of the first digit), sign (0, 0x4000 negative,
//! 0xC000 NaN, 0xD000 and 0xF000 the infinities), display scale (u16), then digits to base 10,000 without zeros at either end.

use model::numeric::{SCALE_MAX, decimal_text};
use model::{Error, Result, SqlState};

pub use model::Numeric;

use crate::types::oid;
use crate::value::invalid;

const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xC000;
const PLUS_INFINITY: u16 = 0xD000;
const MINUS_INFINITY: u16 = 0xF000;
/// Largest scale of a 128-bit decimal of arrow's.
const DECIMAL128_SCALE_MAX: u32 = 38;

/// `value / 10^scale` in decimal, always with `scale` digits after the point; a negative scale appends zeros.
pub fn numeric_text(out: &mut Vec<u8>, value: i128, scale: i8) {
    decimal_text(out, value, i32::from(scale));
}

/// The binary form of `value / 10^scale`.
pub fn numeric_binary(out: &mut Vec<u8>, value: i128, scale: i8) {
    Numeric::new(value, 0).with_digits(|negative, digits, _| digits_binary(out, negative, digits, i32::from(scale)));
}

/// The binary form of any numeric.
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

/// Value and scale of a finite number as a 128-bit decimal has them; digits after the 38th behind the point are rounded away.
///
/// # Errors
/// 22003 when there are too many digits before that.
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

/// The binary form of plain decimal text (`-12.30`), as wider decimals give it.
///
/// # Errors
/// 22P02 when it is not plain decimal.
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

/// `digits` (decimal, no leading zero) over 10^scale, cut into base-10,000 digits aligned at the point.
fn digits_binary(out: &mut Vec<u8>, negative: bool, digits: &[u8], scale: i32) {
    // Power of ten of the last digit, rounded down to a multiple of four: zeros fill the gap.
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

/// Reads the binary form.
///
/// # Errors
/// 22P03 for malformed bytes, 22003 for a number too large.
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

/// Sums base-10,000 digits at `scale`; digits below the scale are cut off, as the sender promised there are none.
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

/// The same for numbers of more than 38 digits.
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
