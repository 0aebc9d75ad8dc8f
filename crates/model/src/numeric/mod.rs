//! `numeric`: exact decimals with the rules of PostgreSQL 15, which `arithmetic` lists.
//!
//! Words: the *scale* of a number is its number of digits after the decimal point; a number is an
//! integer over 10^scale.
//!
//! Always true:
//! - Numbers of up to 38 digits (which fit an i128) need no allocation; the digits of larger ones
//!   are a `Natural`.
//! - A number that fits an i128 is stored as one, so a number of a given scale has one
//!   representation.
//! - Equality, order and hash depend on the value: 1.0 equals 1.00. NaN equals itself and is
//!   greater than everything else.
//! - At most 131,072 digits before the point and 16,383 after it; beyond that, 22003.
//!
//! Why no crate for big numbers: this crate has no dependencies, and PostgreSQL's rules only need
//! decimal digits. Not here: PostgreSQL's binary format (`pg`), square roots and logarithms.

mod arithmetic;
mod convert;
mod natural;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::num::IntErrorKind;
use std::str::FromStr;

use crate::{Error, Result, SqlState};

pub use arithmetic::ExactNumeric;
pub use convert::Precision;

use natural::{Natural, POWERS, digits_of};

/// Largest scale.
pub const SCALE_MAX: u32 = 16_383;
/// Limit for digits before the point.
const WHOLE_DIGITS_MAX: usize = 131_072;
/// Number of decimal digits that always fit an i128.
const SMALL_DIGITS_MAX: usize = 38;
/// Length of the longest u128 in decimal.
const U128_DIGITS: usize = 39;

/// An exact decimal, NaN or an infinity.
#[derive(Clone)]
pub struct Numeric(Repr);

#[derive(Clone)]
enum Repr {
    /// `value / 10^scale`; never `i128::MIN`, so that negating is safe.
    Small {
        value: i128,
        scale: u32,
    },
    /// A number that does not fit `Small`.
    Wide(Box<Wide>),
    NaN,
    PlusInfinity,
    MinusInfinity,
}

/// A number of any size: `magnitude / 10^scale`. Intermediate results may be small, or a negative
/// zero.
#[derive(Clone)]
struct Wide {
    negative: bool,
    scale: u32,
    magnitude: Natural,
}

/// Rounding of digits beyond the wanted scale.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rounding {
    /// To the nearest, a half away from zero.
    Half,
    /// Towards zero.
    Cut,
}

fn overflow() -> Error {
    Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "value overflows numeric format")
}

/// `value * 10^power`, if it fits.
fn scaled_up(value: i128, power: u32) -> Option<i128> {
    if power == 0 || value == 0 {
        return Some(value);
    }
    value.checked_mul(*POWERS.get(power as usize)? as i128)
}

impl Numeric {
    /// NaN: equal to itself and greater than every other value.
    pub const NAN: Numeric = Numeric(Repr::NaN);
    /// Larger than every number.
    pub const PLUS_INFINITY: Numeric = Numeric(Repr::PlusInfinity);
    /// Smaller than every number.
    pub const MINUS_INFINITY: Numeric = Numeric(Repr::MinusInfinity);
    /// Zero with scale 0.
    pub const ZERO: Numeric = Numeric(Repr::Small { value: 0, scale: 0 });

    /// Creates `value / 10^scale`; `scale` is at most [`SCALE_MAX`].
    #[must_use]
    pub fn new(value: i128, scale: u32) -> Numeric {
        assert!(scale <= SCALE_MAX, "BUG: numeric of scale {scale}");
        match value {
            i128::MIN => Numeric(Repr::Wide(Box::new(Wide::new(value, scale)))),
            _ => Numeric(Repr::Small { value, scale }),
        }
    }

    /// Creates a number from decimal `digits` (ASCII, the last one has the weight 10^`exponent`)
    /// with scale `scale`; digits beyond the scale are truncated.
    ///
    /// # Errors
    /// 22003 for a number too large or a scale above [`SCALE_MAX`].
    pub fn from_digits(negative: bool, digits: &[u8], exponent: i64, scale: u32) -> Result<Numeric> {
        let magnitude = Natural::from_decimal(digits);
        let too_large = magnitude.digits() as i64 + exponent > WHOLE_DIGITS_MAX as i64;
        if scale > SCALE_MAX || (too_large && !magnitude.is_zero()) {
            return Err(overflow());
        }
        let shift = exponent + i64::from(scale);
        let magnitude = if shift >= 0 {
            magnitude.shift_up(shift as usize)
        } else {
            magnitude.shift_down(shift.unsigned_abs() as usize)
        };
        Wide { negative, scale, magnitude }.finish()
    }

    /// Value and scale, if the number fits an i128 (38 digits, or slightly more): `value /
    /// 10^scale`.
    #[must_use]
    pub fn as_decimal(&self) -> Option<(i128, u32)> {
        match self.0 {
            Repr::Small { value, scale } => Some((value, scale)),
            _ => None,
        }
    }

    /// The number times 10^`scale`, if that is an integer that fits an i128. `scale` may be
    /// negative.
    #[must_use]
    pub fn unscaled(&self, scale: i32) -> Option<i128> {
        let (value, own) = self.as_decimal()?;
        let power = scale - own as i32;
        if power >= 0 {
            return scaled_up(value, power.unsigned_abs());
        }
        if value == 0 {
            return Some(0);
        }
        let unit = *POWERS.get(power.unsigned_abs() as usize)? as i128;
        (value % unit == 0).then(|| value / unit)
    }

    /// The number of digits after the point; 0 for NaN and the infinities.
    #[must_use]
    pub fn scale(&self) -> u32 {
        match &self.0 {
            Repr::Small { scale, .. } => *scale,
            Repr::Wide(wide) => wide.scale,
            _ => 0,
        }
    }

    /// Whether it is NaN.
    #[must_use]
    pub fn is_nan(&self) -> bool {
        matches!(self.0, Repr::NaN)
    }

    /// Whether it is a number, neither NaN nor an infinity.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        matches!(self.0, Repr::Small { .. } | Repr::Wide(_))
    }

    /// -1, 0 or 1; 0 for NaN.
    #[must_use]
    pub fn signum(&self) -> i32 {
        match &self.0 {
            Repr::Small { value, .. } => value.signum() as i32,
            Repr::Wide(wide) => wide.signum(),
            Repr::NaN => 0,
            Repr::PlusInfinity => 1,
            Repr::MinusInfinity => -1,
        }
    }

    /// Calls `read` with sign, decimal digits (ASCII, no leading zeros, none for 0) and scale of a
    /// finite number.
    pub fn with_digits<R>(&self, read: impl FnOnce(bool, &[u8], u32) -> R) -> Option<R> {
        match &self.0 {
            Repr::Small { value, scale } => {
                let mut buffer = [0; U128_DIGITS];
                Some(read(*value < 0, write_digits(&mut buffer, value.unsigned_abs()), *scale))
            }
            Repr::Wide(wide) => {
                let mut digits = Vec::with_capacity(wide.magnitude.limbs().len() * 9);
                wide.magnitude.push_decimal(&mut digits);
                Some(read(wide.negative, &digits, wide.scale))
            }
            _ => None,
        }
    }

    /// Appends the text form.
    pub fn write_text(&self, out: &mut Vec<u8>) {
        let word: &[u8] = match &self.0 {
            Repr::Small { value, scale } => return decimal_text(out, *value, *scale as i32),
            Repr::Wide(_) => b"",
            Repr::NaN => b"NaN",
            Repr::PlusInfinity => b"Infinity",
            Repr::MinusInfinity => b"-Infinity",
        };
        out.extend_from_slice(word);
        self.with_digits(|negative, digits, scale| digits_text(out, negative, digits, scale as i32));
    }

    /// Removes trailing zeros after the decimal point; the value is unchanged.
    #[must_use]
    pub fn trim_scale(&self) -> Numeric {
        match &self.0 {
            Repr::Small { value: 0, .. } => Numeric::ZERO,
            Repr::Small { value, scale } => {
                let (mut value, mut scale) = (*value, *scale);
                while scale > 0 && value % 10 == 0 {
                    value /= 10;
                    scale -= 1;
                }
                Numeric(Repr::Small { value, scale })
            }
            Repr::Wide(wide) => {
                let zeros = wide.magnitude.trailing_zeros().min(wide.scale as usize) as u32;
                let magnitude = wide.magnitude.shift_down(zeros as usize);
                Wide { magnitude, scale: wide.scale - zeros, ..**wide }.fitted()
            }
            _ => self.clone(),
        }
    }

    /// Converts to the wide representation; `None` for NaN and the infinities.
    fn to_wide(&self) -> Option<Wide> {
        match &self.0 {
            Repr::Small { value, scale } => Some(Wide::new(*value, *scale)),
            Repr::Wide(wide) => Some((**wide).clone()),
            _ => None,
        }
    }

    /// Order of the variants: infinities around the numbers, NaN last.
    fn rank(&self) -> u8 {
        match self.0 {
            Repr::MinusInfinity => 0,
            Repr::Small { .. } | Repr::Wide(_) => 1,
            Repr::PlusInfinity => 2,
            Repr::NaN => 3,
        }
    }
}

impl Wide {
    fn new(value: i128, scale: u32) -> Wide {
        Wide { negative: value < 0, scale, magnitude: Natural::from(value.unsigned_abs()) }
    }

    fn signum(&self) -> i32 {
        match (self.magnitude.is_zero(), self.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        }
    }

    /// Converts to a numeric and checks the limits.
    fn finish(self) -> Result<Numeric> {
        let whole_max = WHOLE_DIGITS_MAX + self.scale as usize;
        if self.scale > SCALE_MAX || self.magnitude.digits() > whole_max { Err(overflow()) } else { Ok(self.fitted()) }
    }

    /// Converts to a numeric that is within the limits.
    fn fitted(self) -> Numeric {
        let small = self.magnitude.to_u128().and_then(|magnitude| i128::try_from(magnitude).ok());
        Numeric(match small {
            Some(magnitude) => {
                Repr::Small { value: if self.negative { -magnitude } else { magnitude }, scale: self.scale }
            }
            None => Repr::Wide(Box::new(self)),
        })
    }

    /// Both magnitudes at the larger scale, and that scale.
    fn aligned(&self, other: &Wide) -> (Natural, Natural, u32) {
        let scale = self.scale.max(other.scale);
        let at = |wide: &Wide| wide.magnitude.shift_up((scale - wide.scale) as usize);
        (at(self), at(other), scale)
    }

    fn compare(&self, other: &Wide) -> Ordering {
        let by_sign = self.signum().cmp(&other.signum());
        if by_sign != Ordering::Equal || self.magnitude.is_zero() {
            return by_sign;
        }
        // The position of the first digit usually decides without aligning.
        let first = |wide: &Wide| wide.magnitude.digits() as i64 - i64::from(wide.scale);
        let by_magnitude = first(self).cmp(&first(other)).then_with(|| {
            let (ours, theirs, _) = self.aligned(other);
            ours.cmp(&theirs)
        });
        if self.negative { by_magnitude.reverse() } else { by_magnitude }
    }
}

/// Writes the decimal digits of `value` at the end of the buffer; no digit for 0.
fn write_digits(buffer: &mut [u8; U128_DIGITS], mut value: u128) -> &[u8] {
    // Nineteen digits at a time, because division of a u128 is slow.
    const PIECE: u128 = 10u128.pow(19);
    let mut at = buffer.len();
    while value > u128::from(u64::MAX) {
        let mut piece = (value % PIECE) as u64;
        value /= PIECE;
        for _ in 0..19 {
            at -= 1;
            buffer[at] = b'0' + (piece % 10) as u8;
            piece /= 10;
        }
    }
    let mut rest = value as u64;
    while rest > 0 {
        at -= 1;
        buffer[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    &buffer[at..]
}

/// Appends `value / 10^scale` in decimal, always with `scale` digits after the point; a negative
/// scale appends zeros.
pub fn decimal_text(out: &mut Vec<u8>, value: i128, scale: i32) {
    let mut buffer = [0; U128_DIGITS];
    digits_text(out, value < 0, write_digits(&mut buffer, value.unsigned_abs()), scale);
}

/// `digits` are ASCII without leading zeros, none for 0.
fn digits_text(out: &mut Vec<u8>, negative: bool, digits: &[u8], scale: i32) {
    if negative && !digits.is_empty() {
        out.push(b'-');
    }
    let after = scale.max(0) as usize;
    let (whole, fraction) = digits.split_at(digits.len().saturating_sub(after));
    out.extend_from_slice(if whole.is_empty() { b"0" } else { whole });
    if !digits.is_empty() {
        out.extend(std::iter::repeat_n(b'0', scale.min(0).unsigned_abs() as usize));
    }
    if after > 0 {
        out.push(b'.');
        out.extend(std::iter::repeat_n(b'0', after - fraction.len()));
        out.extend_from_slice(fraction);
    }
}

impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::with_capacity(U128_DIGITS + 2);
        self.write_text(&mut text);
        f.write_str(&String::from_utf8_lossy(&text))
    }
}

impl fmt::Debug for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Numeric {
    type Err = Error;

    /// Parses digits, point and exponent; `NaN`, `Infinity`, `inf`; surrounding blanks are ignored.
    ///
    /// # Errors
    /// 22P02 for malformed text, 22003 for a number too large or with too many digits.
    fn from_str(text: &str) -> Result<Numeric> {
        let number = text.trim_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
        let (negative, unsigned) = match number.as_bytes() {
            [b'-', ..] => (true, &number[1..]),
            [b'+', ..] => (false, &number[1..]),
            _ => (false, number),
        };
        if unsigned.starts_with(|first: char| first.is_ascii_alphabetic()) {
            let infinite = unsigned.eq_ignore_ascii_case("infinity") || unsigned.eq_ignore_ascii_case("inf");
            return match (infinite, negative) {
                (true, false) => Ok(Numeric::PLUS_INFINITY),
                (true, true) => Ok(Numeric::MINUS_INFINITY),
                (false, _) if number.eq_ignore_ascii_case("nan") => Ok(Numeric::NAN),
                (false, _) => Err(invalid(text)),
            };
        }
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, parse_exponent(text, exponent)?),
            None => (unsigned, 0),
        };
        parse_decimal(text, negative, mantissa, i64::from(exponent))
    }
}

fn invalid(text: &str) -> Error {
    let excerpt = text.char_indices().nth(64).map_or(text, |(end, _)| &text[..end]);
    Error::new(SqlState::INVALID_TEXT_REPRESENTATION, format!("invalid input syntax for type numeric: \"{excerpt}\""))
}

fn parse_exponent(text: &str, exponent: &str) -> Result<i32> {
    exponent.parse().map_err(|error: std::num::ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => overflow(),
        _ => invalid(text),
    })
}

/// Parses digits with at most one point, times 10^`exponent`.
fn parse_decimal(text: &str, negative: bool, mantissa: &str, exponent: i64) -> Result<Numeric> {
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = || whole.bytes().chain(fraction.bytes());
    if digits().next().is_none() || !digits().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid(text));
    }
    let exponent = exponent - fraction.len() as i64;
    let scale = u32::try_from(exponent.min(0).unsigned_abs()).unwrap_or(u32::MAX);
    if exponent > 0 || scale > SCALE_MAX || whole.len() + fraction.len() > SMALL_DIGITS_MAX {
        return Numeric::from_digits(negative, &digits().collect::<Vec<u8>>(), exponent, scale);
    }
    let value = digits().fold(0, |sum, digit| sum * 10 + i128::from(digit - b'0'));
    Ok(Numeric(Repr::Small { value: if negative { -value } else { value }, scale }))
}

impl Ord for Numeric {
    fn cmp(&self, other: &Numeric) -> Ordering {
        if let (Repr::Small { value, scale }, Repr::Small { value: theirs, scale: their_scale }) = (&self.0, &other.0) {
            return compare_small((*value, *scale), (*theirs, *their_scale));
        }
        self.rank().cmp(&other.rank()).then_with(|| match (self.to_wide(), other.to_wide()) {
            (Some(ours), Some(theirs)) => ours.compare(&theirs),
            _ => Ordering::Equal,
        })
    }
}

fn compare_small((a, a_scale): (i128, u32), (b, b_scale): (i128, u32)) -> Ordering {
    let scale = a_scale.max(b_scale);
    match (scaled_up(a, scale - a_scale), scaled_up(b, scale - b_scale)) {
        (Some(a), Some(b)) => a.cmp(&b),
        // Only one is scaled, and a value that does not fit is farther from zero than one that
        // does.
        (None, _) => a.cmp(&0),
        (_, None) => 0.cmp(&b),
    }
}

impl PartialOrd for Numeric {
    fn partial_cmp(&self, other: &Numeric) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Numeric {
    fn eq(&self, other: &Numeric) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Numeric {}

impl Hash for Numeric {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self.trim_scale().0 {
            Repr::Small { value, scale } => (value, scale).hash(state),
            Repr::Wide(wide) => (wide.negative, wide.scale, &wide.magnitude).hash(state),
            Repr::NaN => 3.hash(state),
            Repr::PlusInfinity => 2.hash(state),
            Repr::MinusInfinity => 1.hash(state),
        }
    }
}

#[cfg(test)]
mod tests;
