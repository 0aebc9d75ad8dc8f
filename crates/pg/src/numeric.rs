//! `numeric`: text and binary forms of decimals kept as an i128 and a scale.
//!
//! Binary form, big-endian: digit count (i16), weight (i16, the power of 10,000 of the first digit), sign (0, 0x4000 negative,
//! 0xC000 NaN, 0xD000 and 0xF000 the infinities), display scale (u16), then digits to base 10,000 without zeros at either end.

use model::{Error, Result, SqlState};

use crate::types::oid;
use crate::value::{excerpt, invalid, trim};

const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xC000;
const PLUS_INFINITY: u16 = 0xD000;
const MINUS_INFINITY: u16 = 0xF000;
/// Decimal digits an i128 can always hold.
const DIGITS_MAX: usize = 38;
/// Bytes of the longest i128 in decimal, without sign.
const I128_DIGITS: usize = 39;
/// Largest scale taken from a client; larger ones are rounded away.
const SCALE_MAX: i32 = 38;

/// A numeric value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numeric {
    /// `value / 10^scale`.
    Finite {
        /// The digits.
        value: i128,
        /// How many of them stand after the point.
        scale: u8,
    },
    /// Not a number.
    NaN,
    /// Larger than every number.
    PlusInfinity,
    /// Smaller than every number.
    MinusInfinity,
}

/// Decimal digits of `value`, at the end of the buffer.
fn digits_of(buffer: &mut [u8; I128_DIGITS], mut value: u128) -> &[u8] {
    let mut at = buffer.len();
    while value > 0 {
        at -= 1;
        buffer[at] = b'0' + (value % 10) as u8;
        value /= 10;
    }
    &buffer[at..]
}

/// `value / 10^scale` in decimal, always with `scale` digits after the point; a negative scale appends zeros.
pub fn numeric_text(out: &mut Vec<u8>, value: i128, scale: i8) {
    if value < 0 {
        out.push(b'-');
    }
    let mut buffer = [0; I128_DIGITS];
    let digits = digits_of(&mut buffer, value.unsigned_abs());
    let after = scale.max(0) as usize;
    let (whole, fraction) = digits.split_at(digits.len().saturating_sub(after));
    out.extend_from_slice(if whole.is_empty() { b"0" } else { whole });
    if value != 0 {
        out.extend(std::iter::repeat_n(b'0', (-i32::from(scale)).max(0) as usize));
    }
    if after > 0 {
        out.push(b'.');
        out.extend(std::iter::repeat_n(b'0', after - fraction.len()));
        out.extend_from_slice(fraction);
    }
}

/// The binary form of `value / 10^scale`.
pub fn numeric_binary(out: &mut Vec<u8>, value: i128, scale: i8) {
    let mut buffer = [0; I128_DIGITS];
    let digits = digits_of(&mut buffer, value.unsigned_abs());
    digits_binary(out, value < 0, digits, i32::from(scale));
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

fn too_large(what: &str) -> Error {
    Error::new(
        SqlState::NUMERIC_OUT_OF_RANGE,
        format!("numeric value {what} has more than {DIGITS_MAX} significant digits"),
    )
}

impl Numeric {
    /// Reads the binary form.
    ///
    /// # Errors
    /// 22P03 for malformed bytes, 22003 for more than 38 digits.
    pub fn parse_binary(bytes: &[u8]) -> Result<Numeric> {
        let malformed = |what: String| {
            Error::new(SqlState::INVALID_BINARY_REPRESENTATION, format!("invalid binary numeric: {what}"))
        };
        let words = bytes.as_chunks::<2>();
        let [count, weight, sign, scale, digits @ ..] = words.0 else {
            return Err(malformed(format!("{} bytes, expected at least 8", bytes.len())));
        };
        if !words.1.is_empty() || digits.len() != usize::from(u16::from_be_bytes(*count)) {
            return Err(malformed(format!("{} bytes for {} digits", bytes.len(), u16::from_be_bytes(*count))));
        }
        let negative = match u16::from_be_bytes(*sign) {
            0 => false,
            NEGATIVE => true,
            NAN => return Ok(Numeric::NaN),
            PLUS_INFINITY => return Ok(Numeric::PlusInfinity),
            MINUS_INFINITY => return Ok(Numeric::MinusInfinity),
            other => return Err(malformed(format!("sign {other:#06x}"))),
        };
        let weight = i32::from(i16::from_be_bytes(*weight));
        let scale = i32::from(u16::from_be_bytes(*scale));
        if let Some(bad) = digits.iter().map(|digit| u16::from_be_bytes(*digit)).find(|digit| *digit > 9_999) {
            return Err(malformed(format!("digit {bad}, expected at most 9999")));
        }
        let value =
            Numeric::from_groups(digits, weight, scale.min(SCALE_MAX)).ok_or_else(|| too_large("of a parameter"))?;
        Ok(Numeric::Finite { value: if negative { -value } else { value }, scale: scale.min(SCALE_MAX) as u8 })
    }

    /// Sums base-10,000 digits at `scale`; digits below the scale are cut off, as the sender promised there are none.
    fn from_groups(digits: &[[u8; 2]], weight: i32, scale: i32) -> Option<i128> {
        digits.iter().enumerate().try_fold(0i128, |sum, (at, digit)| {
            let digit = i128::from(u16::from_be_bytes(*digit));
            let power = (weight - at as i32) * 4 + scale;
            let part = match u32::try_from(power) {
                _ if digit == 0 => 0,
                Ok(power) => digit.checked_mul(10i128.checked_pow(power)?)?,
                Err(_) => 10i128.checked_pow(power.unsigned_abs()).map_or(0, |divisor| digit / divisor),
            };
            sum.checked_add(part)
        })
    }

    /// Reads text: digits, point, exponent; `NaN`, `Infinity`.
    ///
    /// # Errors
    /// 22P02 for malformed text, 22003 for more than 38 digits.
    pub fn parse_text(text: &str) -> Result<Numeric> {
        let number = trim(text);
        let (negative, unsigned) = match number.as_bytes() {
            [b'-', ..] => (true, &number[1..]),
            [b'+', ..] => (false, &number[1..]),
            _ => (false, number),
        };
        if unsigned.eq_ignore_ascii_case("infinity") || unsigned.eq_ignore_ascii_case("inf") {
            return Ok(if negative { Numeric::MinusInfinity } else { Numeric::PlusInfinity });
        }
        if number.eq_ignore_ascii_case("nan") {
            return Ok(Numeric::NaN);
        }
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().map_err(|_| invalid(oid::NUMERIC, text))?),
            None => (unsigned, 0),
        };
        let (value, scale) = parse_decimal(text, mantissa, exponent)?;
        Ok(Numeric::Finite { value: if negative { -value } else { value }, scale })
    }

    /// Appends the text form.
    pub fn write_text(&self, out: &mut Vec<u8>) {
        match *self {
            Numeric::Finite { value, scale } => numeric_text(out, value, scale as i8),
            Numeric::NaN => out.extend_from_slice(b"NaN"),
            Numeric::PlusInfinity => out.extend_from_slice(b"Infinity"),
            Numeric::MinusInfinity => out.extend_from_slice(b"-Infinity"),
        }
    }

    /// Appends the binary form.
    pub fn write_binary(&self, out: &mut Vec<u8>) {
        match *self {
            Numeric::Finite { value, scale } => numeric_binary(out, value, scale as i8),
            Numeric::NaN => header(out, 0, 0, NAN, 0),
            Numeric::PlusInfinity => header(out, 0, 0, PLUS_INFINITY, 32),
            Numeric::MinusInfinity => header(out, 0, 0, MINUS_INFINITY, 32),
        }
    }
}

/// Digits with at most one point, times 10^exponent.
fn parse_decimal(text: &str, mantissa: &str, exponent: i32) -> Result<(i128, u8)> {
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = || whole.bytes().chain(fraction.bytes());
    if digits().next().is_none() || !digits().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid(oid::NUMERIC, text));
    }
    let large = || too_large(&format!("\"{}\"", excerpt(text)));
    let scale = i64::try_from(fraction.len()).unwrap_or(i64::MAX).saturating_sub(i64::from(exponent));
    let mut value = 0i128;
    for digit in digits() {
        value = value.checked_mul(10).and_then(|v| v.checked_add(i128::from(digit - b'0'))).ok_or_else(large)?;
    }
    if scale > i64::from(SCALE_MAX) && value != 0 {
        return Err(large());
    }
    if scale >= 0 || value == 0 {
        return Ok((value, scale.clamp(0, i64::from(SCALE_MAX)) as u8));
    }
    let power = u32::try_from(-scale).ok().and_then(|power| 10i128.checked_pow(power)).ok_or_else(large)?;
    Ok((value.checked_mul(power).ok_or_else(large)?, 0))
}

#[cfg(test)]
#[path = "numeric_tests.rs"]
mod tests;
