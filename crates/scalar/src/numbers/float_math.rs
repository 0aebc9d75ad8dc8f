//! Powers, logarithms and trigonometry of `double precision`.

use std::f64::consts::PI;
use std::sync::LazyLock;

use model::{Error, Result, SqlState};

use super::call::{binary, functions, unary};
use super::float::{Float, overflow, underflow};
use crate::registry::Function;

const RADIANS_PER_DEGREE: f64 = PI / 180.0;

pub(super) const FUNCTIONS: &[(&str, Function)] = functions! {
    "dsqrt" => unary(sqrt),
    "sqrt(float8)" => unary(sqrt),
    // The cube root is correctly rounded, which those of some C libraries and thus of PostgreSQL are not.
    "dcbrt" => unary(f64::cbrt),
    "cbrt" => unary(f64::cbrt),
    "dpow" => binary(power),
    "pow(float8,float8)" => binary(power),
    "power(float8,float8)" => binary(power),
    "dexp" => unary(exp),
    "exp(float8)" => unary(exp),
    "dlog1" => unary(|value: f64| logarithm(value, f64::ln)),
    "ln(float8)" => unary(|value: f64| logarithm(value, f64::ln)),
    "dlog10" => unary(|value: f64| logarithm(value, f64::log10)),
    "log(float8)" => unary(|value: f64| logarithm(value, f64::log10)),
    "log10(float8)" => unary(|value: f64| logarithm(value, f64::log10)),
    "degrees" => unary(|value: f64| value.div(RADIANS_PER_DEGREE)),
    "radians" => unary(|value: f64| value.mul(RADIANS_PER_DEGREE)),
    "sin" => unary(|angle: f64| of_angle(angle, f64::sin)),
    "cos" => unary(|angle: f64| of_angle(angle, f64::cos)),
    "tan" => unary(|angle: f64| of_angle(angle, f64::tan)),
    "cot" => unary(|angle: f64| of_angle(angle, |angle| 1.0 / angle.tan())),
    "asin" => unary(|ratio: f64| of_ratio(ratio, f64::asin)),
    "acos" => unary(|ratio: f64| of_ratio(ratio, f64::acos)),
    "atan" => unary(f64::atan),
    "atan2" => binary(f64::atan2),
    "sind" => unary(|angle: f64| of_angle(angle, sind)),
    "cosd" => unary(|angle: f64| of_angle(angle, cosd)),
    "tand" => unary(|angle: f64| of_angle(angle, tand)),
    "cotd" => unary(|angle: f64| of_angle(angle, cotd)),
    "asind" => unary(|ratio: f64| of_ratio(ratio, asind)),
    "acosd" => unary(|ratio: f64| of_ratio(ratio, acosd)),
    "atand" => unary(|ratio: f64| ratio.atan() / EXACT.atan_1 * 45.0),
    "atan2d" => binary(|y: f64, x: f64| y.atan2(x) / EXACT.atan_1 * 45.0),
    "sinh" => unary(f64::sinh),
    "cosh" => unary(f64::cosh),
    "tanh" => unary(f64::tanh),
    "asinh" => unary(asinh),
    "acosh" => unary(|value: f64| if value < 1.0 { Err(input_out_of_range()) } else { Ok(acosh(value)) }),
    "atanh" => unary(|value: f64| of_ratio(value, atanh)),
};

/// `pi()`, which has no argument.
pub(super) const CONSTANTS: &[(&str, Function)] = &[("pi", |_, _, _| Ok(model::Datum::Float8(PI)))];

fn input_out_of_range() -> Error {
    Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "input is out of range")
}

fn of_angle(angle: f64, apply: impl FnOnce(f64) -> f64) -> Result<f64> {
    if angle.is_infinite() { Err(input_out_of_range()) } else { Ok(apply(angle)) }
}

/// A function of numbers from -1 to 1.
fn of_ratio(ratio: f64, apply: impl FnOnce(f64) -> f64) -> Result<f64> {
    if ratio.abs() > 1.0 { Err(input_out_of_range()) } else { Ok(apply(ratio)) }
}

fn sqrt(value: f64) -> Result<f64> {
    if value < 0.0 {
        let message = "cannot take square root of a negative number";
        return Err(Error::new(SqlState::INVALID_POWER_ARGUMENT, message));
    }
    Ok(value.sqrt())
}

fn exp(exponent: f64) -> Result<f64> {
    let result = exponent.exp();
    if exponent.is_finite() && result.is_infinite() {
        Err(overflow())
    } else if exponent.is_finite() && result == 0.0 {
        Err(underflow())
    } else {
        Ok(result)
    }
}

fn logarithm(value: f64, apply: impl FnOnce(f64) -> f64) -> Result<f64> {
    let refused = |message| Err(Error::new(SqlState::INVALID_LOG_ARGUMENT, message));
    if value == 0.0 {
        refused("cannot take logarithm of zero")
    } else if value < 0.0 {
        refused("cannot take logarithm of a negative number")
    } else {
        Ok(apply(value))
    }
}

fn power(base: f64, exponent: f64) -> Result<f64> {
    let refused = |message| Err(Error::new(SqlState::INVALID_POWER_ARGUMENT, message));
    if base == 0.0 && exponent < 0.0 {
        return refused("zero raised to a negative power is undefined");
    }
    if base < 0.0 && !exponent.is_nan() && exponent.floor() != exponent {
        return refused("a negative number raised to a non-integer power yields a complex result");
    }
    // The rules of POSIX for NaN and infinities are those of `powf`.
    let result = base.powf(exponent);
    if base.is_finite() && exponent.is_finite() {
        if result.is_infinite() {
            return Err(overflow());
        }
        if result == 0.0 && base != 0.0 {
            return Err(underflow());
        }
    }
    Ok(result)
}

/// Values by which functions of degrees are scaled, so that they are exact where the result is: `sind(30)` is 0.5.
struct Exact {
    sin_30: f64,
    one_minus_cos_60: f64,
    asin_half: f64,
    acos_half: f64,
    atan_1: f64,
}

static EXACT: LazyLock<Exact> = LazyLock::new(|| Exact {
    sin_30: (30.0 * RADIANS_PER_DEGREE).sin(),
    one_minus_cos_60: 1.0 - (60.0 * RADIANS_PER_DEGREE).cos(),
    asin_half: 0.5_f64.asin(),
    acos_half: 0.5_f64.acos(),
    atan_1: 1.0_f64.atan(),
});

/// The sine of 0 to 30 degrees.
fn sind_to_30(angle: f64) -> f64 {
    (angle * RADIANS_PER_DEGREE).sin() / EXACT.sin_30 / 2.0
}

/// The cosine of 0 to 60 degrees.
fn cosd_to_60(angle: f64) -> f64 {
    1.0 - (1.0 - (angle * RADIANS_PER_DEGREE).cos()) / EXACT.one_minus_cos_60 / 2.0
}

/// The sine of 0 to 90 degrees.
fn sind_to_90(angle: f64) -> f64 {
    if angle <= 30.0 { sind_to_30(angle) } else { cosd_to_60(90.0 - angle) }
}

/// The cosine of 0 to 90 degrees.
fn cosd_to_90(angle: f64) -> f64 {
    if angle <= 60.0 { cosd_to_60(angle) } else { sind_to_30(90.0 - angle) }
}

/// The angle of the first quadrant that an angle is reflected to, and in which halves of the circle it was: whether it
/// was below the x axis and whether it was left of the y axis.
fn first_quadrant(angle: f64) -> (f64, bool, bool) {
    let angle = angle % 360.0;
    let (angle, negative) = (signed(angle, angle < 0.0), angle < 0.0);
    let (angle, below) = if angle > 180.0 { (360.0 - angle, !negative) } else { (angle, negative) };
    if angle > 90.0 { (180.0 - angle, below, true) } else { (angle, below, false) }
}

fn signed(value: f64, negative: bool) -> f64 {
    if negative { -value } else { value }
}

fn sind(angle: f64) -> f64 {
    let (angle, below, _) = first_quadrant(angle);
    signed(sind_to_90(angle), below)
}

fn cosd(angle: f64) -> f64 {
    let (angle, _, left) = first_quadrant(angle);
    signed(cosd_to_90(angle), left)
}

fn tand(angle: f64) -> f64 {
    let (angle, below, left) = first_quadrant(angle);
    let scale = sind_to_90(45.0) / cosd_to_90(45.0);
    without_negative_zero(signed(sind_to_90(angle) / cosd_to_90(angle) / scale, below != left))
}

fn cotd(angle: f64) -> f64 {
    let (angle, below, left) = first_quadrant(angle);
    let scale = cosd_to_90(45.0) / sind_to_90(45.0);
    without_negative_zero(signed(cosd_to_90(angle) / sind_to_90(angle) / scale, below != left))
}

fn without_negative_zero(value: f64) -> f64 {
    if value == 0.0 { 0.0 } else { value }
}

/// The arc sine of 0 to 1 in degrees.
fn asind_of_positive(ratio: f64) -> f64 {
    if ratio <= 0.5 { ratio.asin() / EXACT.asin_half * 30.0 } else { 90.0 - ratio.acos() / EXACT.acos_half * 60.0 }
}

fn asind(ratio: f64) -> f64 {
    let negative = ratio < 0.0;
    signed(asind_of_positive(signed(ratio, negative)), negative)
}

fn acosd(ratio: f64) -> f64 {
    if ratio < 0.0 {
        90.0 + asind_of_positive(-ratio)
    } else if ratio <= 0.5 {
        90.0 - ratio.asin() / EXACT.asin_half * 30.0
    } else {
        ratio.acos() / EXACT.acos_half * 60.0
    }
}

/// Above this, adding or subtracting 1 changes nothing.
const LARGE: f64 = (1_u64 << 28) as f64;

/// Inverse hyperbolic sine. The standard library's formula loses digits that C's function has; these three do not.
fn asinh(value: f64) -> f64 {
    let size = value.abs();
    let result = if !size.is_finite() || size < 1.0 / LARGE {
        return value;
    } else if size > LARGE {
        size.ln() + std::f64::consts::LN_2
    } else if size > 2.0 {
        (2.0 * size + 1.0 / ((size * size + 1.0).sqrt() + size)).ln()
    } else {
        let square = size * size;
        (size + square / (1.0 + (1.0 + square).sqrt())).ln_1p()
    };
    result.copysign(value)
}

fn acosh(value: f64) -> f64 {
    if value > LARGE {
        value.ln() + std::f64::consts::LN_2
    } else if value > 2.0 {
        (2.0 * value - 1.0 / (value + (value * value - 1.0).sqrt())).ln()
    } else {
        let above_one = value - 1.0;
        (above_one + (2.0 * above_one + above_one * above_one).sqrt()).ln_1p()
    }
}

fn atanh(value: f64) -> f64 {
    let size = value.abs();
    let result = if size < 0.5 {
        let double = size + size;
        0.5 * (double + double * size / (1.0 - size)).ln_1p()
    } else {
        0.5 * ((size + size) / (1.0 - size)).ln_1p()
    };
    result.copysign(value)
}
