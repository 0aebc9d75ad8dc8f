//! The functions of .NET's `System.Math` that take and return doubles, with .NET's results for NaN, infinities and zeros.

use std::f64::consts::LN_2;

/// A function by its number of arguments. A checked one gives nothing where .NET throws an exception.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    One(fn(f64) -> f64),
    OneChecked(fn(f64) -> Option<f64>),
    Two(fn(f64, f64) -> f64),
    TwoChecked(fn(f64, f64) -> Option<f64>),
    Three(fn(f64, f64, f64) -> f64),
    ThreeChecked(fn(f64, f64, f64) -> Option<f64>),
}

impl Call {
    fn count(self) -> usize {
        match self {
            Call::One(_) | Call::OneChecked(_) => 1,
            Call::Two(_) | Call::TwoChecked(_) => 2,
            Call::Three(_) | Call::ThreeChecked(_) => 3,
        }
    }
}

#[derive(Debug)]
pub(super) struct Function {
    /// In the spelling of .NET.
    pub(super) name: &'static str,
    pub(super) call: Call,
    /// Whether the last argument is a rounding mode.
    pub(super) has_mode: bool,
}

const fn one(name: &'static str, call: fn(f64) -> f64) -> Function {
    Function { name, call: Call::One(call), has_mode: false }
}

const fn two(name: &'static str, call: fn(f64, f64) -> f64) -> Function {
    Function { name, call: Call::Two(call), has_mode: false }
}

const fn other(name: &'static str, call: Call, has_mode: bool) -> Function {
    Function { name, call, has_mode }
}

static FUNCTIONS: [Function; 47] = [
    one("Abs", f64::abs),
    one("Acos", f64::acos),
    one("Acosh", acosh),
    one("Asin", f64::asin),
    one("Asinh", asinh),
    one("Atan", f64::atan),
    two("Atan2", f64::atan2),
    one("Atanh", atanh),
    one("BitDecrement", f64::next_down),
    one("BitIncrement", f64::next_up),
    one("Cbrt", f64::cbrt),
    one("Ceiling", f64::ceil),
    other("Clamp", Call::ThreeChecked(clamp), false),
    two("CopySign", f64::copysign),
    one("Cos", f64::cos),
    one("Cosh", f64::cosh),
    one("Exp", f64::exp),
    one("Floor", f64::floor),
    other("FusedMultiplyAdd", Call::Three(f64::mul_add), false),
    two("IEEERemainder", ieee_remainder),
    one("ILogB", ilogb),
    one("Log", f64::ln),
    two("Log", log),
    one("Log10", f64::log10),
    one("Log2", f64::log2),
    two("Max", max),
    two("MaxMagnitude", max_magnitude),
    two("Min", min),
    two("MinMagnitude", min_magnitude),
    two("Pow", f64::powf),
    one("ReciprocalEstimate", f64::recip),
    one("ReciprocalSqrtEstimate", |x| 1.0 / x.sqrt()),
    one("Round", f64::round_ties_even),
    other("Round", Call::TwoChecked(|x, digits| round(x, digits, 0.0)), false),
    other("Round", Call::TwoChecked(|x, mode| round(x, 0.0, mode)), true),
    other("Round", Call::ThreeChecked(round), true),
    other("ScaleB", Call::TwoChecked(scaleb), false),
    other("Sign", Call::OneChecked(sign), false),
    one("Sin", f64::sin),
    one("Sinh", f64::sinh),
    one("Sqrt", f64::sqrt),
    one("Tan", f64::tan),
    one("Tanh", f64::tanh),
    one("Truncate", f64::trunc),
    // VB.NET's own names, which formulas have from before.
    one("Int", f64::floor),
    one("Fix", f64::trunc),
    one("Sqr", f64::sqrt),
];

/// The function with a name in any case and a number of arguments, without the mode.
///
/// # Errors
/// Numbers of arguments that functions of the name have; none for an unknown name.
pub(super) fn find(name: &str, count: usize, has_mode: bool) -> Result<&'static Function, Vec<usize>> {
    let named = || FUNCTIONS.iter().filter(|function| function.name.eq_ignore_ascii_case(name));
    let own_count = |function: &Function| function.call.count() - usize::from(function.has_mode);
    let found = named().find(|function| own_count(function) == count && function.has_mode == has_mode);
    found.ok_or_else(|| {
        let mut counts: Vec<usize> = named().map(own_count).collect();
        counts.dedup();
        counts
    })
}

/// Members of .NET's `MidpointRounding` by their numbers.
pub(super) const ROUNDING_MODES: [&str; 5] =
    ["ToEven", "AwayFromZero", "ToZero", "ToNegativeInfinity", "ToPositiveInfinity"];

/// Number in .NET of a rounding mode, from its name in any case.
pub(super) fn rounding_mode(name: &str) -> Option<u8> {
    let at = ROUNDING_MODES.iter().position(|mode| mode.eq_ignore_ascii_case(name));
    at.and_then(|at| u8::try_from(at).ok())
}

/// 2^28. Above it `x² + 1` is `x²` in a double, and both `acosh` and `asinh` are the logarithm of `2 x`.
const INVERSE_HYPERBOLIC_MAX: f64 = 268_435_456.0;

/// The standard library's is infinite for the greatest numbers, and loses half of the digits next to 1.
fn acosh(x: f64) -> f64 {
    if x < 1.0 {
        return f64::NAN;
    }
    if x > INVERSE_HYPERBOLIC_MAX {
        return x.ln() + LN_2;
    }
    let above = x - 1.0;
    (above + (above * (above + 2.0)).sqrt()).ln_1p()
}

/// The standard library's is infinite for the greatest numbers.
fn asinh(x: f64) -> f64 {
    let size = x.abs();
    let result = if size > INVERSE_HYPERBOLIC_MAX {
        size.ln() + LN_2
    } else {
        let square = size * size;
        (size + square / (1.0 + (square + 1.0).sqrt())).ln_1p()
    };
    result.copysign(x)
}

/// By the size of the number, because the logarithm is exact next to 0 and not next to -1.
fn atanh(x: f64) -> f64 {
    let size = x.abs();
    (0.5 * (2.0 * size / (1.0 - size)).ln_1p()).copysign(x)
}

fn clamp(value: f64, least: f64, greatest: f64) -> Option<f64> {
    // NaN as a limit is no limit, and NaN stays.
    if least > greatest {
        return None;
    }
    Some(if value < least {
        least
    } else if value > greatest {
        greatest
    } else {
        value
    })
}

/// The remainder of the division whose quotient is rounded to the nearest whole number, halves to even.
fn ieee_remainder(x: f64, y: f64) -> f64 {
    let rest = x % y;
    if rest.is_nan() {
        return f64::NAN;
    }
    if rest == 0.0 {
        return 0.0_f64.copysign(x);
    }
    let other = rest - y.abs().copysign(x);
    // An even quotient leaves the same rest when the divisor is twice as large.
    let is_even = (x.abs() % (2.0 * y.abs())) < y.abs();
    if other.abs() < rest.abs() || (other.abs() == rest.abs() && !is_even) { other } else { rest }
}

/// The binary exponent as a whole number.
fn ilogb(x: f64) -> f64 {
    if x == 0.0 {
        return f64::from(i32::MIN);
    }
    if !x.is_finite() {
        return f64::from(i32::MAX);
    }
    let exponent = |x: f64| ((x.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    // Subnormal numbers become normal by 2^54.
    f64::from(if x.is_subnormal() { exponent(x * 18_014_398_509_481_984.0) - 54 } else { exponent(x) })
}

fn log(x: f64, base: f64) -> f64 {
    if x.is_nan() || base.is_nan() || base == 1.0 || (x != 1.0 && (base == 0.0 || base == f64::INFINITY)) {
        return f64::NAN;
    }
    x.ln() / base.ln()
}

fn max(x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() {
        return f64::NAN;
    }
    // +0 is greater than -0.
    if x > y || (x == y && x.is_sign_positive()) { x } else { y }
}

fn min(x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() {
        return f64::NAN;
    }
    if x < y || (x == y && x.is_sign_negative()) { x } else { y }
}

fn max_magnitude(x: f64, y: f64) -> f64 {
    if x.is_nan() || x.abs() > y.abs() {
        return x;
    }
    if x.abs() == y.abs() && x.is_sign_positive() { x } else { y }
}

fn min_magnitude(x: f64, y: f64) -> f64 {
    if x.is_nan() || x.abs() < y.abs() {
        return x;
    }
    if x.abs() == y.abs() && x.is_sign_negative() { x } else { y }
}

/// - `digits`: 0 to 15 behind the point.
/// - `mode`: see [`rounding_mode`].
fn round(x: f64, digits: f64, mode: f64) -> Option<f64> {
    if digits.fract() != 0.0 || !(0.0..=15.0).contains(&digits) {
        return None;
    }
    // A greater number has no digits behind the point.
    if x.is_nan() || x.abs() >= 1e16 {
        return Some(x);
    }
    let power = 10_f64.powi(digits as i32);
    let scaled = x * power;
    let rounded = match mode as u8 {
        0 => scaled.round_ties_even(),
        1 => scaled.round(),
        2 => scaled.trunc(),
        3 => scaled.floor(),
        _ => scaled.ceil(),
    };
    Some(rounded / power)
}

/// `x · 2^n`
fn scaleb(x: f64, n: f64) -> Option<f64> {
    if n.fract() != 0.0 || !(f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&n) {
        return None;
    }
    let mut n = (n as i32).clamp(-2200, 2200);
    let mut scaled = x;
    while n > 1023 {
        scaled *= f64::from_bits(0x7fe << 52);
        n -= 1023;
    }
    // Steps that keep 53 bits above the subnormal numbers, so that only the last one rounds.
    while n < -1022 {
        scaled *= f64::from_bits(54 << 52);
        n += 969;
    }
    Some(scaled * f64::from_bits(u64::from((n + 1023).unsigned_abs()) << 52))
}

fn sign(x: f64) -> Option<f64> {
    if x.is_nan() {
        None
    } else if x == 0.0 {
        Some(0.0)
    } else {
        Some(1.0_f64.copysign(x))
    }
}

/// VB.NET's `\`: both operands become 64-bit integers, halves to even, and the quotient is truncated. Nothing for an operand that
/// does not fit, for a division by 0, and for a quotient that does not fit.
pub(super) fn divide_whole(x: f64, y: f64) -> Option<f64> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    let whole = |number: f64| (-LIMIT..LIMIT).contains(&number).then(|| number.round_ties_even() as i64);
    // Integers, because the quotient of doubles above 2^53 may round up to the next integer.
    whole(x)?.checked_div(whole(y)?).map(|quotient| quotient as f64)
}
