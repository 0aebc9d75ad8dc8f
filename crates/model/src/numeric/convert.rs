//! Conversion of integers and floats to and from numerics, declared precisions, and the stored
//! format.

use super::*;

/// Limit for the digits of a declared `numeric(p, s)`.
const PRECISION_DIGITS_MAX: u16 = 1_000;
/// Limit for the absolute value of a declared scale.
const PRECISION_SCALE_MAX: i16 = 1_000;
/// Powers of ten that are exact in a double.
static EXACT_F64: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];
/// Powers of ten that are exact in a float.
static EXACT_F32: [f32; 11] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10];

/// The declared precision of a column: `numeric(digits, scale)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Precision {
    /// Decimal digits, 1 to 1,000.
    pub digits: u16,
    /// Number of digits after the point, -1,000 to 1,000; a negative scale is a number of trailing
    /// zeros before the point.
    pub scale: i16,
}

impl Precision {
    /// `numeric(digits, scale)`.
    ///
    /// # Errors
    /// 22023 for digits or scale out of range.
    pub fn new(digits: i64, scale: i64) -> Result<Precision> {
        let bad = |what: &str, seen: i64, least: i64| {
            let text = format!("NUMERIC {what} {seen} must be between {least} and 1000");
            Error::new(SqlState::INVALID_PARAMETER_VALUE, text)
        };
        let digits = u16::try_from(digits)
            .ok()
            .filter(|digits| (1..=PRECISION_DIGITS_MAX).contains(digits))
            .ok_or_else(|| bad("precision", digits, 1))?;
        let scale = i16::try_from(scale)
            .ok()
            .filter(|scale| (-PRECISION_SCALE_MAX..=PRECISION_SCALE_MAX).contains(scale))
            .ok_or_else(|| bad("scale", scale, i64::from(-PRECISION_SCALE_MAX)))?;
        Ok(Precision { digits, scale })
    }

    fn overflow(self, detail: &str) -> Error {
        let detail = format!("A field with precision {}, scale {} {detail}.", self.digits, self.scale);
        Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "numeric field overflow").with_detail(detail)
    }
}

macro_rules! from_integers {
    ($($ty:ty)*) => {
        $(impl From<$ty> for Numeric {
            fn from(value: $ty) -> Numeric {
                Numeric(Repr::Small { value: i128::from(value), scale: 0 })
            }
        })*
    };
}

from_integers! { i16 i32 i64 u32 u64 }

impl From<f64> for Numeric {
    /// Rounds to 15 significant digits, as PostgreSQL does.
    fn from(value: f64) -> Numeric {
        if value.is_finite() { from_scientific(&format!("{value:.14e}")) } else { special(value) }
    }
}

impl From<f32> for Numeric {
    /// Rounds to 6 significant digits, as PostgreSQL does.
    fn from(value: f32) -> Numeric {
        if value.is_finite() { from_scientific(&format!("{value:.5e}")) } else { special(f64::from(value)) }
    }
}

fn special(value: f64) -> Numeric {
    if value.is_nan() {
        Numeric::NAN
    } else if value > 0.0 {
        Numeric::PLUS_INFINITY
    } else {
        Numeric::MINUS_INFINITY
    }
}

/// Parses `d.ddde±x` without its trailing zeros.
fn from_scientific(text: &str) -> Numeric {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let digits = mantissa.trim_end_matches('0').trim_end_matches('.');
    match format!("{digits}e{exponent}").parse() {
        Ok(numeric) => numeric,
        Err(error) => panic!("BUG: float {text} as numeric: {error}"),
    }
}

impl Numeric {
    /// Converts to `smallint`; halves are rounded away from zero.
    ///
    /// # Errors
    /// 22003 out of range, 0A000 for NaN and the infinities.
    pub fn to_i16(&self) -> Result<i16> {
        self.to_integer("smallint")
    }

    /// Converts to `integer`; halves are rounded away from zero.
    ///
    /// # Errors
    /// 22003 out of range, 0A000 for NaN and the infinities.
    pub fn to_i32(&self) -> Result<i32> {
        self.to_integer("integer")
    }

    /// Converts to `bigint`; halves are rounded away from zero.
    ///
    /// # Errors
    /// 22003 out of range, 0A000 for NaN and the infinities.
    pub fn to_i64(&self) -> Result<i64> {
        self.to_integer("bigint")
    }

    fn to_integer<T: TryFrom<i128>>(&self, ty: &str) -> Result<T> {
        if !self.is_finite() {
            let what = if self.is_nan() { "NaN" } else { "infinity" };
            return Err(Error::unsupported(format!("cannot convert {what} to {ty}")));
        }
        let whole = self.rescale(0, Rounding::Half)?.as_decimal();
        whole
            .and_then(|(value, _)| T::try_from(value).ok())
            .ok_or_else(|| Error::new(SqlState::NUMERIC_OUT_OF_RANGE, format!("{ty} out of range")))
    }

    /// Converts to the nearest `double precision`.
    ///
    /// # Errors
    /// 22003 for a number that would become infinite or zero.
    pub fn to_f64(&self) -> Result<f64> {
        if let Repr::Small { value, scale } = self.0
            && value.unsigned_abs() <= 1 << 53
            && let Some(unit) = EXACT_F64.get(scale as usize)
        {
            // Both operands are exact, so this rounds once.
            return Ok(value as f64 / unit);
        }
        self.to_float("double precision", [f64::NAN, f64::INFINITY, f64::NEG_INFINITY], |value: &f64| {
            value.is_infinite() || *value == 0.0
        })
    }

    /// Converts to the nearest `real`.
    ///
    /// # Errors
    /// 22003 for a number that would become infinite or zero.
    pub fn to_f32(&self) -> Result<f32> {
        if let Repr::Small { value, scale } = self.0
            && value.unsigned_abs() <= 1 << 24
            && let Some(unit) = EXACT_F32.get(scale as usize)
        {
            return Ok(value as f32 / unit);
        }
        self.to_float("real", [f32::NAN, f32::INFINITY, f32::NEG_INFINITY], |value: &f32| {
            value.is_infinite() || *value == 0.0
        })
    }

    fn to_float<F: FromStr>(&self, ty: &str, [nan, plus, minus]: [F; 3], lost: impl Fn(&F) -> bool) -> Result<F> {
        match self.0 {
            Repr::NaN => return Ok(nan),
            Repr::PlusInfinity => return Ok(plus),
            Repr::MinusInfinity => return Ok(minus),
            Repr::Small { .. } | Repr::Wide(_) => {}
        }
        let text = self.to_string();
        let value = text.parse().ok().filter(|value| self.signum() == 0 || !lost(value));
        value.ok_or_else(|| {
            Error::new(SqlState::NUMERIC_OUT_OF_RANGE, format!("\"{text}\" is out of range for type {ty}"))
        })
    }

    /// Converts to `numeric(digits, scale)`: rounds, then checks the size.
    ///
    /// # Errors
    /// 22003 `numeric field overflow`.
    pub fn with_precision(&self, precision: Precision) -> Result<Numeric> {
        if self.is_nan() {
            return Ok(Numeric::NAN);
        }
        if !self.is_finite() {
            return Err(precision.overflow("cannot hold an infinite value"));
        }
        let rounded = self.rescale(i32::from(precision.scale), Rounding::Half)?;
        let digits = match &rounded.0 {
            Repr::Small { value, .. } => digits_of(value.unsigned_abs()),
            Repr::Wide(wide) => wide.magnitude.digits(),
            _ => 0,
        };
        // The position of the first digit, and its maximum.
        let first = digits as i32 - rounded.scale() as i32;
        let first_max = i32::from(precision.digits) - i32::from(precision.scale);
        if digits == 0 || first <= first_max {
            return Ok(rounded);
        }
        let bound = if first_max == 0 { "1".to_owned() } else { format!("10^{first_max}") };
        Err(precision.overflow(&format!("must round to an absolute value less than {bound}")))
    }
}

/// First byte of a stored numeric. A small one continues with the scale (u16) and 1 to 16 bytes of
/// the value, a wide one with the scale and its limbs to base 10^9 (u32 each, least significant
/// first); all little-endian. The others have no further bytes.
mod kind {
    pub(super) const SMALL: u8 = 0;
    pub(super) const WIDE_POSITIVE: u8 = 1;
    pub(super) const WIDE_NEGATIVE: u8 = 2;
    pub(super) const NAN: u8 = 3;
    pub(super) const PLUS_INFINITY: u8 = 4;
    pub(super) const MINUS_INFINITY: u8 = 5;
}

/// Length of the two's complement of `value` without redundant sign bytes.
fn value_bytes(value: i128) -> usize {
    let bits = i128::BITS - (value ^ (value >> 127)).leading_zeros() + 1;
    bits.div_ceil(8) as usize
}

impl Numeric {
    /// The number of bytes that [`Numeric::write_bytes`] appends.
    #[must_use]
    pub fn bytes_len(&self) -> usize {
        match &self.0 {
            Repr::Small { value, .. } => 3 + value_bytes(*value),
            Repr::Wide(wide) => 3 + 4 * wide.magnitude.limbs().len(),
            _ => 1,
        }
    }

    /// Appends the stored format.
    pub fn write_bytes(&self, out: &mut Vec<u8>) {
        match &self.0 {
            Repr::Small { value, scale } => {
                out.push(kind::SMALL);
                out.extend_from_slice(&(*scale as u16).to_le_bytes());
                out.extend_from_slice(&value.to_le_bytes()[..value_bytes(*value)]);
            }
            Repr::Wide(wide) => {
                out.push(if wide.negative { kind::WIDE_NEGATIVE } else { kind::WIDE_POSITIVE });
                out.extend_from_slice(&(wide.scale as u16).to_le_bytes());
                out.extend(wide.magnitude.limbs().iter().flat_map(|limb| limb.to_le_bytes()));
            }
            Repr::NaN => out.push(kind::NAN),
            Repr::PlusInfinity => out.push(kind::PLUS_INFINITY),
            Repr::MinusInfinity => out.push(kind::MINUS_INFINITY),
        }
    }

    /// Decodes the stored format; `None` for invalid bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Numeric> {
        let (first, rest) = bytes.split_first()?;
        match (*first, rest) {
            (kind::NAN, []) => Some(Numeric::NAN),
            (kind::PLUS_INFINITY, []) => Some(Numeric::PLUS_INFINITY),
            (kind::MINUS_INFINITY, []) => Some(Numeric::MINUS_INFINITY),
            (kind::SMALL | kind::WIDE_POSITIVE | kind::WIDE_NEGATIVE, [low, high, digits @ ..]) => {
                let scale = u32::from(u16::from_le_bytes([*low, *high]));
                if scale > SCALE_MAX {
                    return None;
                }
                match *first {
                    kind::SMALL => small_of(digits, scale),
                    first => wide_of(first == kind::WIDE_NEGATIVE, digits, scale),
                }
            }
            _ => None,
        }
    }
}

fn small_of(digits: &[u8], scale: u32) -> Option<Numeric> {
    let sign = if digits.last()? & 0x80 == 0 { 0 } else { 0xff };
    let mut value = [sign; 16];
    value.get_mut(..digits.len())?.copy_from_slice(digits);
    Some(Numeric::new(i128::from_le_bytes(value), scale))
}

fn wide_of(negative: bool, digits: &[u8], scale: u32) -> Option<Numeric> {
    let (limbs, rest) = digits.as_chunks::<4>();
    if !rest.is_empty() {
        return None;
    }
    let magnitude = Natural::from_limbs(limbs.iter().map(|limb| u32::from_le_bytes(*limb)).collect())?;
    Wide { negative, scale, magnitude }.finish().ok()
}
