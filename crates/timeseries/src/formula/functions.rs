//! The functions of .NET's `System.Math` that take and return doubles, with .NET's results for NaN, infinities and zeros.

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
    /// In lower case.
    name: &'static str,
    pub(super) call: Call,
    /// Whether the last argument is a rounding mode.
    has_mode: bool,
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
    one("abs", f64::abs),
    one("acos", f64::acos),
    one("acosh", f64::acosh),
    one("asin", f64::asin),
    one("asinh", f64::asinh),
    one("atan", f64::atan),
    two("atan2", f64::atan2),
    one("atanh", f64::atanh),
    one("bitdecrement", f64::next_down),
    one("bitincrement", f64::next_up),
    one("cbrt", f64::cbrt),
    one("ceiling", f64::ceil),
    other("clamp", Call::ThreeChecked(clamp), false),
    two("copysign", f64::copysign),
    one("cos", f64::cos),
    one("cosh", f64::cosh),
    one("exp", f64::exp),
    one("floor", f64::floor),
    other("fusedmultiplyadd", Call::Three(f64::mul_add), false),
    two("ieeeremainder", ieee_remainder),
    one("ilogb", ilogb),
    one("log", f64::ln),
    two("log", log),
    one("log10", f64::log10),
    one("log2", f64::log2),
    two("max", max),
    two("maxmagnitude", max_magnitude),
    two("min", min),
    two("minmagnitude", min_magnitude),
    two("pow", f64::powf),
    one("reciprocalestimate", f64::recip),
    one("reciprocalsqrtestimate", |x| 1.0 / x.sqrt()),
    one("round", f64::round_ties_even),
    other("round", Call::TwoChecked(|x, digits| round(x, digits, 0.0)), false),
    other("round", Call::TwoChecked(|x, mode| round(x, 0.0, mode)), true),
    other("round", Call::ThreeChecked(round), true),
    other("scaleb", Call::TwoChecked(scaleb), false),
    other("sign", Call::OneChecked(sign), false),
    one("sin", f64::sin),
    one("sinh", f64::sinh),
    one("sqrt", f64::sqrt),
    one("tan", f64::tan),
    one("tanh", f64::tanh),
    one("truncate", f64::trunc),
    // VB.NET's own names, which formulas have from before.
    one("int", f64::floor),
    one("fix", f64::trunc),
    one("sqr", f64::sqrt),
];

/// The function with a name in lower case and a number of arguments, without the mode.
///
/// # Errors
/// Numbers of arguments that functions of the name have; none for an unknown name.
pub(super) fn find(name: &str, count: usize, has_mode: bool) -> Result<&'static Function, Vec<usize>> {
    let named = || FUNCTIONS.iter().filter(|function| function.name == name);
    let own_count = |function: &Function| function.call.count() - usize::from(function.has_mode);
    let found = named().find(|function| own_count(function) == count && function.has_mode == has_mode);
    found.ok_or_else(|| {
        let mut counts: Vec<usize> = named().map(own_count).collect();
        counts.dedup();
        counts
    })
}

/// Number in .NET of a rounding mode, from its name in lower case.
pub(super) fn rounding_mode(name: &str) -> Option<u8> {
    let modes = ["toeven", "awayfromzero", "tozero", "tonegativeinfinity", "topositiveinfinity"];
    modes.iter().position(|mode| *mode == name).and_then(|at| u8::try_from(at).ok())
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
    if n.fract() != 0.0 || n.abs() > f64::from(i32::MAX) {
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

/// VB.NET's `\`: both operands become whole numbers, halves to even, and the quotient is truncated.
pub(super) fn divide_whole(x: f64, y: f64) -> Option<f64> {
    let (x, y) = (x.round_ties_even(), y.round_ties_even());
    let is_whole = |number: f64| number.abs() < 9.3e18;
    (is_whole(x) && is_whole(y) && y != 0.0).then(|| (x / y).trunc())
}
