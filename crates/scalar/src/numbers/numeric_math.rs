//! Roots, logarithms, exponential function and powers of `numeric`, with PostgreSQL's scales of results: at least 16
//! significant digits, no fewer places than an argument has, at most 1,000 places.

use model::{Error, Numeric, Result, SqlState};
use num_bigint::{BigInt, BigUint, Sign};

use super::call::{binary, division_by_zero, functions, unary};
use super::fixed_point;
use super::numeric::overflow;
use crate::registry::Function;

const SIGNIFICANT_DIGITS_MIN: i64 = 16;
const SCALE_MAX: i64 = 1_000;
/// Limit for the logarithm of the result of `exp`; beyond it there is overflow or underflow.
const EXPONENT_MAX: f64 = 6_000.0;
/// The same limit for `power` with a fraction as exponent, where the logarithm is an estimate.
const POWER_EXPONENT_MAX: f64 = 6_020.0;
/// Limit for digits before the point.
const WHOLE_DIGITS_MAX: f64 = 131_072.0;
/// The logarithm of e with as many digits as PostgreSQL estimates weights with, because their scales depend on it.
#[expect(clippy::approx_constant, reason = "the last digits of the exact constant would change scales")]
const LOG10_E: f64 = 0.434_294_481_903_252;
/// Largest argument of `factorial` whose result is within the range of numeric.
const FACTORIAL_ARGUMENT_MAX: i64 = 32_177;
/// Digits that are computed beyond those of a result, so that rounding sees the exact side.
const GUARD_DIGITS: i64 = 12;

pub(super) const FUNCTIONS: &[(&str, Function)] = functions! {
    "numeric_sqrt" => unary(sqrt),
    "sqrt(numeric)" => unary(sqrt),
    "numeric_exp" => unary(exp),
    "exp(numeric)" => unary(exp),
    "numeric_ln" => unary(ln),
    "ln(numeric)" => unary(ln),
    "numeric_log" => binary(log),
    "log(numeric,numeric)" => binary(log),
    "log(numeric)" => unary(|value: &Numeric| log(&Numeric::from(10), value)),
    "log10(numeric)" => unary(|value: &Numeric| log(&Numeric::from(10), value)),
    "numeric_power" => binary(power),
    "pow(numeric,numeric)" => binary(power),
    "power(numeric,numeric)" => binary(power),
    "factorial" => unary(factorial),
};

/// A finite numeric as an integer over a power of ten.
struct Decimal {
    negative: bool,
    magnitude: BigUint,
    scale: u32,
}

impl Decimal {
    fn of(value: &Numeric) -> Result<Decimal> {
        let decimal = value.with_digits(|negative, digits, scale| {
            let magnitude = BigUint::parse_bytes(digits, 10).unwrap_or_default();
            Decimal { negative, magnitude, scale }
        });
        decimal.ok_or_else(|| Error::bug("digits of a numeric that is not finite"))
    }

    fn denominator(&self) -> BigUint {
        power_of_ten(self.scale.into())
    }
}

fn power_of_ten(power: u64) -> BigUint {
    BigUint::from(10_u32).pow(power as u32)
}

/// `magnitude / 10^scale`
fn numeric(negative: bool, magnitude: &BigUint, scale: i64) -> Result<Numeric> {
    let digits = magnitude.to_str_radix(10);
    Numeric::from_digits(negative, digits.as_bytes(), -scale, scale as u32)
}

/// The quotient, rounded to the nearest integer, halves up.
fn rounded_quotient(dividend: &BigUint, divisor: &BigUint) -> BigUint {
    ((dividend << 1_u32) + divisor) / (divisor << 1_u32)
}

/// The scale of a result: enough for 16 significant digits if the first one has the weight 10^`weight`, and the scale
/// of each argument at least.
fn result_scale(weight: i64, arguments: &[&Numeric]) -> i64 {
    let scales = arguments.iter().map(|argument| i64::from(argument.scale()));
    scales.fold(SIGNIFICANT_DIGITS_MIN - weight, i64::max).clamp(0, SCALE_MAX)
}

fn bits_of_digits(digits: i64) -> u64 {
    // log2(10) = 3.3219…
    digits.max(0).unsigned_abs() * 3_322 / 1_000 + 1
}

fn error(state: SqlState, message: &str) -> Error {
    Error::new(state, message)
}

fn check_logarithm(value: &Numeric) -> Result<()> {
    let refused = |message| Err(error(SqlState::INVALID_LOG_ARGUMENT, message));
    match value.signum() {
        0 => refused("cannot take logarithm of zero"),
        1.. => Ok(()),
        _ => refused("cannot take logarithm of a negative number"),
    }
}

/// Leading digits and exponent of a positive number: it is about `digits * 10^exponent`.
fn leading_digits(value: &Numeric) -> (f64, i64) {
    const COUNT: usize = 17;
    let leading = value.with_digits(|_, digits, scale| {
        let kept = &digits[..digits.len().min(COUNT)];
        let leading = kept.iter().fold(0.0, |sum, digit| sum * 10.0 + f64::from(digit - b'0'));
        (leading, (digits.len() - kept.len()) as i64 - i64::from(scale))
    });
    leading.unwrap_or_default()
}

/// The number as a float, infinite if it is too large.
fn estimate(value: &Numeric) -> f64 {
    let (digits, exponent) = leading_digits(&value.abs());
    let magnitude = digits * 10_f64.powi(exponent.clamp(-400, 400) as i32);
    if value.signum() < 0 { -magnitude } else { magnitude }
}

fn sqrt(value: &Numeric) -> Result<Numeric> {
    if value.is_nan() {
        return Ok(Numeric::NAN);
    }
    if value.signum() < 0 {
        let message = "cannot take square root of a negative number";
        return Err(error(SqlState::INVALID_POWER_ARGUMENT, message));
    }
    if !value.is_finite() {
        return Ok(Numeric::PLUS_INFINITY);
    }
    // PostgreSQL estimates the weight of the root from the count of its groups of four digits.
    let digits = value.with_digits(|_, digits, scale| digits.len() as i64 - i64::from(scale)).unwrap_or(0);
    let groups = if value.signum() == 0 { 1 } else { (digits - 1).div_euclid(4) + 1 };
    let weight = groups * 4 / 2 - 1;
    sqrt_with_scale(value, result_scale(weight, &[value]) as u32)
}

/// The square root of a number that is not negative, rounded to `scale` places.
pub(super) fn sqrt_with_scale(value: &Numeric, scale: u32) -> Result<Numeric> {
    let decimal = Decimal::of(value)?;
    // Twice the root, truncated, decides how the root is rounded.
    let square = decimal.magnitude << 2_u32;
    let (up, down) = (2 * u64::from(scale), u64::from(decimal.scale));
    let square = if up >= down { square * power_of_ten(up - down) } else { square / power_of_ten(down - up) };
    let root = (square.sqrt() + 1_u32) >> 1_u32;
    numeric(false, &root, scale.into())
}

fn exp(value: &Numeric) -> Result<Numeric> {
    if !value.is_finite() {
        return Ok(if value.signum() < 0 { Numeric::ZERO } else { value.clone() });
    }
    let exponent = estimate(value);
    let weight = (exponent * LOG10_E).clamp(-EXPONENT_MAX, EXPONENT_MAX) as i64;
    let scale = result_scale(weight, &[value]);
    if exponent.abs() >= EXPONENT_MAX {
        return if exponent > 0.0 { Err(overflow()) } else { Numeric::ZERO.round(scale as i32) };
    }
    let decimal = Decimal::of(value)?;
    let bits = bits_of_digits(scale + weight.max(0) + GUARD_DIGITS);
    let fixed = BigInt::from((&decimal.magnitude << bits) / decimal.denominator());
    exp_of_fixed(&(if decimal.negative { -fixed } else { fixed }), bits, false, scale)
}

/// e^`exponent` with a sign, rounded to `scale` places; the exponent has `bits` binary places.
fn exp_of_fixed(exponent: &BigInt, bits: u64, negative: bool, scale: i64) -> Result<Numeric> {
    let (mantissa, power) = fixed_point::exp(exponent, bits);
    let dividend = mantissa * power_of_ten(scale.unsigned_abs());
    // The result is dividend / 2^(bits - power).
    let shift = bits as i64 - power;
    let magnitude = if shift <= 0 {
        dividend << shift.unsigned_abs()
    } else {
        ((dividend >> (shift.unsigned_abs() - 1)) + 1_u32) >> 1_u32
    };
    numeric(negative, &magnitude, scale)
}

/// The weight of the first digit of the logarithm of a positive number, about.
fn ln_weight(value: &Numeric) -> Result<i64> {
    let near_one = *value >= Numeric::new(9, 1) && *value <= Numeric::new(11, 1);
    if near_one {
        // ln(1 + x) is about x.
        let difference = value.sub(&Numeric::from(1))?;
        let weight = difference.with_digits(|_, digits, scale| match digits.len() as i64 {
            0 => 0,
            count => count - 1 - i64::from(scale),
        });
        return Ok(weight.unwrap_or(0));
    }
    let (digits, exponent) = leading_digits(value);
    let logarithm = digits.ln() + exponent as f64 * std::f64::consts::LN_10;
    Ok(logarithm.abs().log10() as i64)
}

/// ln of a positive number, with `bits` binary places.
fn ln_fixed(value: &Numeric, bits: u64) -> Result<BigInt> {
    let decimal = Decimal::of(value)?;
    Ok(fixed_point::ln(&decimal.magnitude, &decimal.denominator(), bits))
}

/// A fixed-point number of `bits` binary places, rounded to `scale` decimal ones.
fn numeric_of_fixed(value: &BigInt, bits: u64, scale: i64) -> Result<Numeric> {
    let scaled = value.magnitude() * power_of_ten(scale.unsigned_abs());
    let rounded = ((scaled >> (bits - 1)) + 1_u32) >> 1_u32;
    numeric(value.sign() == Sign::Minus, &rounded, scale)
}

fn ln(value: &Numeric) -> Result<Numeric> {
    if value.is_nan() {
        return Ok(Numeric::NAN);
    }
    check_logarithm(value)?;
    if !value.is_finite() {
        return Ok(Numeric::PLUS_INFINITY);
    }
    let scale = result_scale(ln_weight(value)?, &[value]);
    let bits = bits_of_digits(scale + GUARD_DIGITS);
    numeric_of_fixed(&ln_fixed(value, bits)?, bits, scale)
}

fn log(base: &Numeric, value: &Numeric) -> Result<Numeric> {
    if base.is_nan() || value.is_nan() {
        return Ok(Numeric::NAN);
    }
    // A negative argument is reported before one that is zero if one of them is infinite.
    let negative_first = !base.is_finite() || !value.is_finite();
    if negative_first && value.signum() < 0 {
        check_logarithm(value)?;
    }
    check_logarithm(base)?;
    check_logarithm(value)?;
    match (base.is_finite(), value.is_finite()) {
        (true, true) => {}
        (true, false) => return Ok(Numeric::PLUS_INFINITY),
        (false, true) => return Ok(Numeric::ZERO),
        (false, false) => return Ok(Numeric::NAN),
    }
    let (base_weight, value_weight) = (ln_weight(base)?, ln_weight(value)?);
    let weight = value_weight - base_weight;
    let scale = result_scale(weight, &[base, value]);
    let digits = scale + weight.max(0) + base_weight.abs() + value_weight.abs() + 2 * GUARD_DIGITS;
    let bits = bits_of_digits(digits);
    let (base, value) = (ln_fixed(base, bits)?, ln_fixed(value, bits)?);
    if base == BigInt::ZERO {
        return Err(division_by_zero());
    }
    let dividend = value.magnitude() * power_of_ten(scale.unsigned_abs());
    let negative = value.sign() != base.sign();
    numeric(negative, &rounded_quotient(&dividend, base.magnitude()), scale)
}

fn is_integer(value: &Numeric) -> bool {
    value.trim_scale().scale() == 0
}

fn is_odd(value: &Numeric) -> bool {
    let last = value.trim_scale().with_digits(|_, digits, _| digits.last().is_some_and(|digit| digit % 2 == 1));
    last.unwrap_or(false)
}

fn power(base: &Numeric, exponent: &Numeric) -> Result<Numeric> {
    let one = Numeric::from(1);
    // POSIX says the same: x^0 and 1^y are 1 for all x and y.
    if base.is_nan() {
        return Ok(if exponent.is_finite() && exponent.signum() == 0 { one } else { Numeric::NAN });
    }
    if exponent.is_nan() {
        return Ok(if *base == one { one } else { Numeric::NAN });
    }
    if base.signum() == 0 && exponent.signum() < 0 {
        let message = "zero raised to a negative power is undefined";
        return Err(error(SqlState::INVALID_POWER_ARGUMENT, message));
    }
    if base.signum() < 0 && !is_integer(exponent) {
        let message = "a negative number raised to a non-integer power yields a complex result";
        return Err(error(SqlState::INVALID_POWER_ARGUMENT, message));
    }
    if !base.is_finite() || !exponent.is_finite() {
        return Ok(power_of_infinities(base, exponent));
    }
    if is_integer(exponent)
        && let Ok(exponent) = exponent.to_i32()
    {
        return integer_power(base, exponent);
    }
    if base.signum() == 0 {
        return Numeric::ZERO.round(SIGNIFICANT_DIGITS_MIN as i32);
    }
    real_power(&base.abs(), exponent, base.signum() < 0 && is_odd(exponent))
}

/// The rules of POSIX if an operand is infinite; the sign of zero is lost.
fn power_of_infinities(base: &Numeric, exponent: &Numeric) -> Numeric {
    let one = Numeric::from(1);
    if *base == one || exponent.signum() == 0 {
        return one;
    }
    if base.signum() == 0 {
        return Numeric::ZERO;
    }
    if !exponent.is_finite() {
        if base.abs() == one {
            return one;
        }
        let grows = (base.abs() > one) == (exponent.signum() > 0);
        return if grows { Numeric::PLUS_INFINITY } else { Numeric::ZERO };
    }
    if exponent.signum() < 0 {
        Numeric::ZERO
    } else if base.signum() < 0 && is_odd(exponent) {
        Numeric::MINUS_INFINITY
    } else {
        Numeric::PLUS_INFINITY
    }
}

/// A power by e^(exponent * ln base), for a positive base.
fn real_power(base: &Numeric, exponent: &Numeric, negative: bool) -> Result<Numeric> {
    if *base == Numeric::from(1) {
        let one = Numeric::from(if negative { -1 } else { 1 });
        return one.round(result_scale(0, &[base, exponent]) as i32);
    }
    let ln_weight = ln_weight(base)?;
    let bits = bits_of_digits(SIGNIFICANT_DIGITS_MIN - ln_weight);
    let logarithm = numeric_of_fixed(&ln_fixed(base, bits)?, bits, (8 - ln_weight).max(0))?;
    let logarithm = estimate(&logarithm) * estimate(exponent);
    if logarithm.abs() > POWER_EXPONENT_MAX {
        return if logarithm > 0.0 { Err(overflow()) } else { Numeric::ZERO.round(SCALE_MAX as i32) };
    }
    let weight = (logarithm * LOG10_E) as i64;
    let scale = result_scale(weight, &[base, exponent]);
    let digits = (scale + weight).max(0) + 2 * GUARD_DIGITS;
    let bits = bits_of_digits(digits);
    // The error of the logarithm is multiplied by the exponent.
    let exponent = Decimal::of(exponent)?;
    let bits_of_ln = bits + exponent.magnitude.bits();
    let product = ln_fixed(base, bits_of_ln)? * BigInt::from(exponent.magnitude.clone());
    let product = (product / BigInt::from(exponent.denominator())) >> (bits_of_ln - bits);
    exp_of_fixed(&(if exponent.negative { -product } else { product }), bits, negative, scale)
}

/// A number `magnitude * 10^exponent` of which only the leading digits are kept.
struct Leading {
    magnitude: BigUint,
    exponent: i64,
}

impl Leading {
    fn product(&self, other: &Leading, digits_max: i64) -> Leading {
        let product = &self.magnitude * &other.magnitude;
        // A digit has at least 3.32 bits, so that this is the count or slightly less.
        let digits = product.bits() as i64 * 301 / 1_000;
        let dropped = (digits - digits_max).max(0);
        let magnitude = if dropped > 0 { product / power_of_ten(dropped.unsigned_abs()) } else { product };
        Leading { magnitude, exponent: self.exponent + other.exponent + dropped }
    }
}

/// A power by repeated multiplication.
fn integer_power(base: &Numeric, exponent: i32) -> Result<Numeric> {
    let scale = result_scale(0, &[base]);
    if exponent == 0 {
        return Numeric::from(1).round(scale as i32);
    }
    if base.signum() == 0 {
        return Numeric::ZERO.round(scale as i32);
    }
    let (digits, power) = leading_digits(&base.abs());
    let weight = f64::from(exponent) * (digits.log10() + power as f64);
    if weight > WHOLE_DIGITS_MAX + 1.0 {
        return Err(overflow());
    }
    if weight + 1.0 < -(scale as f64) {
        return Numeric::ZERO.round(scale as i32);
    }
    let digits_max = (weight as i64 + scale).max(0) + 2 * GUARD_DIGITS;
    let decimal = Decimal::of(base)?;
    let mut square = Leading { magnitude: decimal.magnitude, exponent: -i64::from(decimal.scale) };
    let mut product = Leading { magnitude: BigUint::from(1_u32), exponent: 0 };
    let mut rest = exponent.unsigned_abs();
    while rest > 0 {
        if rest % 2 == 1 {
            product = product.product(&square, digits_max);
        }
        rest /= 2;
        if rest > 0 {
            square = square.product(&square, digits_max);
        }
    }
    let one = BigUint::from(1_u32);
    let (dividend, divisor, shift) = if exponent > 0 {
        (product.magnitude, one, scale + product.exponent)
    } else {
        (one, product.magnitude, scale - product.exponent)
    };
    let magnitude = if shift >= 0 {
        rounded_quotient(&(dividend * power_of_ten(shift.unsigned_abs())), &divisor)
    } else {
        rounded_quotient(&dividend, &(divisor * power_of_ten(shift.unsigned_abs())))
    };
    numeric(decimal.negative && exponent % 2 != 0, &magnitude, scale)
}

fn factorial(argument: i64) -> Result<Numeric> {
    if argument < 0 {
        let message = "factorial of a negative number is undefined";
        return Err(error(SqlState::NUMERIC_OUT_OF_RANGE, message));
    }
    if argument > FACTORIAL_ARGUMENT_MAX {
        return Err(overflow());
    }
    numeric(false, &product(2, argument.unsigned_abs()), 0)
}

/// The product of the integers from `first` to `last`, in halves, because products of numbers of equal length are fast.
fn product(first: u64, last: u64) -> BigUint {
    const FACTORS_MAX: u64 = 8;
    if last < first + FACTORS_MAX {
        return (first..=last).map(BigUint::from).product();
    }
    let middle = u64::midpoint(first, last);
    product(first, middle) * product(middle + 1, last)
}
