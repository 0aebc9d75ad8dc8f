//! Arithmetic and rounding. The rules for the scale of a result are those of PostgreSQL 15:
//!
//! - sum, difference, remainder: the larger scale of the two;
//! - product: the sum of the scales, at most [`SCALE_MAX`];
//! - quotient: at least 16 significant digits and no fewer digits after the point than either
//!   operand, at most 1,000;
//! - rounding is to the nearest, halves away from zero.

use super::*;

/// Minimum number of significant digits of a quotient.
const QUOTIENT_DIGITS_MIN: i32 = 16;
/// Largest scale of a quotient.
const QUOTIENT_SCALE_MAX: i32 = 1_000;
/// Digits in one group of PostgreSQL's representation, on which the scale of a quotient depends.
const GROUP_DIGITS: i32 = 4;
/// Limit for the absolute value of the scale of `round` and `trunc`.
const ROUND_SCALES: std::ops::RangeInclusive<i32> = -131_072..=16_383;

fn division_by_zero() -> Error {
    Error::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

/// Integer division with rounding. `unit` is neither 0 nor `i128::MIN`.
fn divide(value: i128, unit: i128, rounding: Rounding) -> i128 {
    let (whole, rest) = (value / unit, value % unit);
    let (rest, size) = (rest.unsigned_abs(), unit.unsigned_abs());
    // Doubling the remainder might overflow.
    if rounding == Rounding::Half && rest >= size - rest { whole + value.signum() * unit.signum() } else { whole }
}

/// Rescales an integer from scale `from` to scale `to`, which may be negative, with rounding.
/// `None` when the result does not fit.
fn rescale_small(value: i128, from: u32, to: i32, rounding: Rounding) -> Option<i128> {
    let power = to - from as i32;
    if power >= 0 {
        return scaled_up(value, power.unsigned_abs());
    }
    Some(match POWERS.get(power.unsigned_abs() as usize) {
        Some(unit) => divide(value, *unit as i128, rounding),
        // An i128 is less than half of 10^39.
        None => 0,
    })
}

impl Numeric {
    /// Returns `self + other`.
    ///
    /// # Errors
    /// 22003 for a sum too large.
    pub fn add(&self, other: &Numeric) -> Result<Numeric> {
        if let (Repr::Small { value: a, scale: a_scale }, Repr::Small { value: b, scale: b_scale }) =
            (&self.0, &other.0)
            && let Some(sum) = add_small((*a, *a_scale), (*b, *b_scale))
        {
            return Ok(sum);
        }
        match (self.to_wide(), other.to_wide()) {
            (Some(a), Some(b)) => a.add(&b).finish(),
            (None, Some(_)) => Ok(self.clone()),
            (Some(_), None) => Ok(other.clone()),
            // NaN, or opposite infinities.
            (None, None) => Ok(if self == other { self.clone() } else { Numeric::NAN }),
        }
    }

    /// Returns `self - other`.
    ///
    /// # Errors
    /// 22003 for a difference too large.
    pub fn sub(&self, other: &Numeric) -> Result<Numeric> {
        self.add(&other.neg())
    }

    /// Returns `self * other`.
    ///
    /// # Errors
    /// 22003 for a product too large.
    pub fn mul(&self, other: &Numeric) -> Result<Numeric> {
        if let (Repr::Small { value: a, scale: a_scale }, Repr::Small { value: b, scale: b_scale }) =
            (&self.0, &other.0)
            && let Some(value) = a.checked_mul(*b)
            && a_scale + b_scale <= SCALE_MAX
        {
            return Ok(Numeric::new(value, a_scale + b_scale));
        }
        match (self.to_wide(), other.to_wide()) {
            (Some(a), Some(b)) => a.mul(&b).finish(),
            _ if self.is_nan() || other.is_nan() => Ok(Numeric::NAN),
            _ => Ok(infinity(self.signum() * other.signum())),
        }
    }

    /// Returns `self / other`.
    ///
    /// # Errors
    /// 22012 when `other` is 0, 22003 for a quotient too large.
    pub fn div(&self, other: &Numeric) -> Result<Numeric> {
        if self.is_nan() || other.is_nan() {
            return Ok(Numeric::NAN);
        }
        if other.signum() == 0 {
            return Err(division_by_zero());
        }
        if !other.is_finite() {
            return Ok(if self.is_finite() { Numeric::ZERO } else { Numeric::NAN });
        }
        if !self.is_finite() {
            return Ok(infinity(self.signum() * other.signum()));
        }
        let scale = quotient_scale(self, other);
        if let (Repr::Small { value: a, scale: a_scale }, Repr::Small { value: b, scale: b_scale }) =
            (&self.0, &other.0)
            && let Some(dividend) = scaled_to_divide(*a, *a_scale, *b_scale, scale)
        {
            return Ok(Numeric::new(divide(dividend, *b, Rounding::Half), scale));
        }
        match (self.to_wide(), other.to_wide()) {
            (Some(a), Some(b)) => a.div(&b, scale).finish(),
            _ => Err(Error::bug("numeric division of what is no number")),
        }
    }

    /// Returns the remainder of the truncated division `self / other`; it has the sign of `self`.
    ///
    /// # Errors
    /// 22012 when `other` is 0.
    pub fn rem(&self, other: &Numeric) -> Result<Numeric> {
        if self.is_nan() || other.is_nan() {
            return Ok(Numeric::NAN);
        }
        if other.signum() == 0 {
            return Err(division_by_zero());
        }
        if let Some(rest) = rem_small(self, other) {
            return Ok(rest);
        }
        match (self.to_wide(), other.to_wide()) {
            (None, _) => Ok(Numeric::NAN),
            (_, None) => Ok(self.clone()),
            (Some(a), Some(b)) => a.rem(&b).finish(),
        }
    }

    /// Returns `-self`.
    #[must_use]
    pub fn neg(&self) -> Numeric {
        Numeric(match &self.0 {
            Repr::Small { value, scale } => Repr::Small { value: -value, scale: *scale },
            Repr::Wide(wide) => Repr::Wide(Box::new(Wide { negative: !wide.negative, ..(**wide).clone() })),
            Repr::NaN => Repr::NaN,
            Repr::PlusInfinity => Repr::MinusInfinity,
            Repr::MinusInfinity => Repr::PlusInfinity,
        })
    }

    /// Returns the absolute value.
    #[must_use]
    pub fn abs(&self) -> Numeric {
        if self.signum() < 0 { self.neg() } else { self.clone() }
    }

    /// Returns -1, 0 or 1; NaN for NaN.
    #[must_use]
    pub fn sign(&self) -> Numeric {
        if self.is_nan() { Numeric::NAN } else { Numeric::from(self.signum()) }
    }

    /// Rounds to `scale` digits after the point, or to that many zeros before it if negative;
    /// halves are rounded away from zero.
    ///
    /// # Errors
    /// 22003 when the rounded number is too large.
    pub fn round(&self, scale: i32) -> Result<Numeric> {
        self.rescale(scale.clamp(*ROUND_SCALES.start(), *ROUND_SCALES.end()), Rounding::Half)
    }

    /// Like [`Numeric::round`], but truncates.
    ///
    /// # Errors
    /// 22003 when the zeros of a larger scale are too many.
    pub fn trunc(&self, scale: i32) -> Result<Numeric> {
        self.rescale(scale.clamp(*ROUND_SCALES.start(), *ROUND_SCALES.end()), Rounding::Cut)
    }

    /// The smallest integer not less than the number.
    ///
    /// # Errors
    /// 22003 when it is too large.
    pub fn ceil(&self) -> Result<Numeric> {
        let whole = self.trunc(0)?;
        if whole < *self { whole.add(&Numeric::from(1)) } else { Ok(whole) }
    }

    /// The largest integer not greater than the number.
    ///
    /// # Errors
    /// 22003 when it is too large.
    pub fn floor(&self) -> Result<Numeric> {
        let whole = self.trunc(0)?;
        if whole > *self { whole.sub(&Numeric::from(1)) } else { Ok(whole) }
    }

    /// Changes the scale, which may be negative: then the number has no digits after the point and
    /// ends in zeros.
    pub(super) fn rescale(&self, scale: i32, rounding: Rounding) -> Result<Numeric> {
        if let Repr::Small { value, scale: own } = self.0
            && let Some(value) = rescale_small(value, own, scale, rounding)
            && let Some(value) = scaled_up(value, scale.min(0).unsigned_abs())
        {
            return Ok(Numeric::new(value, scale.max(0).unsigned_abs()));
        }
        self.to_wide().map_or_else(|| Ok(self.clone()), |wide| wide.rescale(scale, rounding).finish())
    }

    /// The weight of the first group of four digits, as a power of 10,000, and that group; (0, 0)
    /// for 0.
    fn leading_group(&self) -> (i32, u32) {
        let (digits, scale) = match &self.0 {
            Repr::Small { value, scale } => (digits_of(value.unsigned_abs()), *scale as i32),
            Repr::Wide(wide) => (wide.magnitude.digits(), wide.scale as i32),
            _ => (0, 0),
        };
        if digits == 0 {
            return (0, 0);
        }
        let weight = (digits as i32 - 1 - scale).div_euclid(GROUP_DIGITS);
        let power = weight * GROUP_DIGITS + scale;
        let group = match &self.0 {
            Repr::Small { value, .. } if power >= 0 => value.unsigned_abs() / POWERS[power as usize],
            Repr::Small { value, .. } => value.unsigned_abs() * POWERS[power.unsigned_abs() as usize],
            Repr::Wide(wide) => wide.magnitude.shift_down(power.max(0) as usize).to_u128().unwrap_or(0),
            _ => 0,
        };
        (weight, group as u32)
    }
}

fn infinity(sign: i32) -> Numeric {
    match sign {
        0 => Numeric::NAN,
        1.. => Numeric::PLUS_INFINITY,
        _ => Numeric::MINUS_INFINITY,
    }
}

fn add_small((a, a_scale): (i128, u32), (b, b_scale): (i128, u32)) -> Option<Numeric> {
    let scale = a_scale.max(b_scale);
    if scale > SCALE_MAX {
        return None;
    }
    let sum = scaled_up(a, scale - a_scale)?.checked_add(scaled_up(b, scale - b_scale)?)?;
    Some(Numeric::new(sum, scale))
}

/// A finite number without limits of size: the sum or product of numerics may be longer than a numeric can be, and the
/// quotient of such numbers a numeric again.
#[derive(Clone, Debug)]
pub struct ExactNumeric(Numeric);

impl From<i64> for ExactNumeric {
    fn from(value: i64) -> ExactNumeric {
        ExactNumeric(Numeric::from(value))
    }
}

impl ExactNumeric {
    /// Zero with scale 0.
    pub const ZERO: ExactNumeric = ExactNumeric(Numeric::ZERO);

    /// A number; `None` for NaN and the infinities.
    #[must_use]
    pub fn of(value: &Numeric) -> Option<ExactNumeric> {
        value.is_finite().then(|| ExactNumeric(value.clone()))
    }

    /// Returns `self + other`.
    #[must_use]
    pub fn add(&self, other: &ExactNumeric) -> ExactNumeric {
        if let (Repr::Small { value: a, scale: a_scale }, Repr::Small { value: b, scale: b_scale }) =
            (&self.0.0, &other.0.0)
            && let Some(sum) = add_small((*a, *a_scale), (*b, *b_scale))
        {
            return ExactNumeric(sum);
        }
        self.computed(other, Wide::add)
    }

    /// Returns `self - other`.
    #[must_use]
    pub fn sub(&self, other: &ExactNumeric) -> ExactNumeric {
        self.add(&ExactNumeric(other.0.neg()))
    }

    /// Returns `self * other`.
    #[must_use]
    pub fn mul(&self, other: &ExactNumeric) -> ExactNumeric {
        match (&self.0.0, &other.0.0) {
            (Repr::Small { value: a, scale: a_scale }, Repr::Small { value: b, scale: b_scale })
                if a_scale + b_scale <= SCALE_MAX
                    && let Some(value) = a.checked_mul(*b) =>
            {
                ExactNumeric(Numeric::new(value, a_scale + b_scale))
            }
            _ => self.computed(other, Wide::product),
        }
    }

    /// Returns `self / other`, with the scale of a quotient of numerics.
    ///
    /// # Errors
    /// As [`Numeric::div`].
    pub fn div(&self, other: &ExactNumeric) -> Result<Numeric> {
        self.0.div(&other.0)
    }

    /// -1, 0 or 1.
    #[must_use]
    pub fn signum(&self) -> i32 {
        self.0.signum()
    }

    /// The number as a numeric.
    ///
    /// # Errors
    /// 22003 if it is too large.
    pub fn finish(self) -> Result<Numeric> {
        match self.0.0 {
            Repr::Wide(wide) => wide.finish(),
            _ if self.0.scale() > SCALE_MAX => Err(overflow()),
            _ => Ok(self.0),
        }
    }

    fn computed(&self, other: &ExactNumeric, by: fn(&Wide, &Wide) -> Wide) -> ExactNumeric {
        match (self.0.to_wide(), other.0.to_wide()) {
            (Some(a), Some(b)) => ExactNumeric(by(&a, &b).fitted()),
            // Neither is one of these.
            _ => ExactNumeric(Numeric::NAN),
        }
    }
}

/// Multiplies the dividend by the power of ten that gives the quotient the scale `scale`.
fn scaled_to_divide(dividend: i128, its_scale: u32, divisor_scale: u32, scale: u32) -> Option<i128> {
    scaled_up(dividend, (scale + divisor_scale).checked_sub(its_scale)?).filter(|value| *value != i128::MIN)
}

fn rem_small(a: &Numeric, b: &Numeric) -> Option<Numeric> {
    let scale = a.scale().max(b.scale());
    let (value, divisor) = (a.as_decimal()?, b.as_decimal()?);
    let value = scaled_up(value.0, scale - value.1)?;
    Some(Numeric::new(value % scaled_up(divisor.0, scale - divisor.1)?, scale))
}

/// PostgreSQL's `select_div_scale`.
fn quotient_scale(a: &Numeric, b: &Numeric) -> u32 {
    let ((a_weight, a_group), (b_weight, b_group)) = (a.leading_group(), b.leading_group());
    // If the groups are equal, the quotient may be less than 1.
    let weight = a_weight - b_weight - i32::from(a_group <= b_group);
    let scale = QUOTIENT_DIGITS_MIN - weight * GROUP_DIGITS;
    scale.max(a.scale() as i32).max(b.scale() as i32).clamp(0, QUOTIENT_SCALE_MAX) as u32
}

impl Wide {
    pub(super) fn add(&self, other: &Wide) -> Wide {
        let (ours, theirs, scale) = self.aligned(other);
        let (negative, magnitude) = match (self.negative == other.negative, ours >= theirs) {
            (true, _) => (self.negative, ours.add(&theirs)),
            (false, true) => (self.negative, ours.sub(&theirs)),
            (false, false) => (other.negative, theirs.sub(&ours)),
        };
        Wide { negative, scale, magnitude }
    }

    /// The exact product.
    fn product(&self, other: &Wide) -> Wide {
        Wide {
            negative: self.negative != other.negative,
            scale: self.scale + other.scale,
            magnitude: self.magnitude.mul(&other.magnitude),
        }
    }

    pub(super) fn mul(&self, other: &Wide) -> Wide {
        let product = self.product(other);
        if product.scale > SCALE_MAX { product.rescale(SCALE_MAX as i32, Rounding::Half) } else { product }
    }

    pub(super) fn div(&self, other: &Wide, scale: u32) -> Wide {
        let power = i64::from(scale) + i64::from(other.scale) - i64::from(self.scale);
        let dividend = self.magnitude.shift_up(power.max(0) as usize);
        let divisor = other.magnitude.shift_up(power.min(0).unsigned_abs() as usize);
        let (quotient, rest) = dividend.div_rem(&divisor);
        let up = rest.add(&rest) >= divisor;
        let magnitude = if up { quotient.add(&Natural::from(1)) } else { quotient };
        Wide { negative: self.negative != other.negative, scale, magnitude }
    }

    pub(super) fn rem(&self, other: &Wide) -> Wide {
        let (ours, theirs, scale) = self.aligned(other);
        Wide { negative: self.negative, scale, magnitude: ours.div_rem(&theirs).1 }
    }

    pub(super) fn rescale(&self, scale: i32, rounding: Rounding) -> Wide {
        let power = scale - self.scale as i32;
        let magnitude = if power >= 0 {
            self.magnitude.shift_up(power.unsigned_abs() as usize)
        } else {
            let dropped = power.unsigned_abs() as usize;
            let kept = self.magnitude.shift_down(dropped);
            let up = rounding == Rounding::Half && self.magnitude.digit(dropped - 1) >= 5;
            if up { kept.add(&Natural::from(1)) } else { kept }
        };
        let magnitude = magnitude.shift_up(scale.min(0).unsigned_abs() as usize);
        Wide { negative: self.negative, scale: scale.max(0).unsigned_abs(), magnitude }
    }
}
