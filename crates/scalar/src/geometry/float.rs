//! Arithmetic of coordinates: overflow is an error, and comparisons allow a small difference as PostgreSQL's do.

use model::{Error, Result, SqlState};

/// Coordinates that differ by no more are equal.
const EPSILON: f64 = 1e-6;

pub(super) fn is_zero(a: f64) -> bool {
    a.abs() <= EPSILON
}

pub(super) fn eq(a: f64, b: f64) -> bool {
    a == b || (a - b).abs() <= EPSILON
}

/// Inequality, which is not the opposite of [`eq`]: both are false for NaN.
pub(super) fn ne(a: f64, b: f64) -> bool {
    a != b && (a - b).abs() > EPSILON
}

pub(super) fn lt(a: f64, b: f64) -> bool {
    b - a > EPSILON
}

pub(super) fn le(a: f64, b: f64) -> bool {
    a - b <= EPSILON
}

pub(super) fn gt(a: f64, b: f64) -> bool {
    lt(b, a)
}

pub(super) fn ge(a: f64, b: f64) -> bool {
    le(b, a)
}

/// Equality by which NaN is equal to NaN.
pub(super) fn same(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan())
}

fn overflow() -> Error {
    Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "value out of range: overflow")
}

fn underflow() -> Error {
    Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "value out of range: underflow")
}

/// A result that may be infinite only if an operand is.
fn finite(result: f64, a: f64, b: f64) -> Result<f64> {
    if result.is_infinite() && !a.is_infinite() && !b.is_infinite() { Err(overflow()) } else { Ok(result) }
}

pub(super) fn add(a: f64, b: f64) -> Result<f64> {
    finite(a + b, a, b)
}

pub(super) fn sub(a: f64, b: f64) -> Result<f64> {
    finite(a - b, a, b)
}

pub(super) fn mul(a: f64, b: f64) -> Result<f64> {
    let product = finite(a * b, a, b)?;
    if product == 0.0 && a != 0.0 && b != 0.0 { Err(underflow()) } else { Ok(product) }
}

pub(super) fn div(a: f64, b: f64) -> Result<f64> {
    if b == 0.0 && !a.is_nan() {
        return Err(Error::new(SqlState::DIVISION_BY_ZERO, "division by zero"));
    }
    let quotient = a / b;
    if quotient.is_infinite() && !a.is_infinite() {
        return Err(overflow());
    }
    if quotient == 0.0 && a != 0.0 && !b.is_infinite() { Err(underflow()) } else { Ok(quotient) }
}

/// The length of the hypotenuse. The standard library's rounds otherwise than PostgreSQL's.
pub(super) fn hypot(a: f64, b: f64) -> Result<f64> {
    if a.is_infinite() || b.is_infinite() {
        return Ok(f64::INFINITY);
    }
    if a.is_nan() || b.is_nan() {
        return Ok(f64::NAN);
    }
    let (long, short) = if a.abs() < b.abs() { (b.abs(), a.abs()) } else { (a.abs(), b.abs()) };
    if short == 0.0 {
        return Ok(long);
    }
    let ratio = short / long;
    let length = long * (1.0 + ratio * ratio).sqrt();
    if length.is_infinite() {
        return Err(overflow());
    }
    if length == 0.0 { Err(underflow()) } else { Ok(length) }
}

/// Zero without sign.
pub(super) fn unsigned_zero(a: f64) -> f64 {
    if a == 0.0 { 0.0 } else { a }
}
