//! Points.

use model::{Point, Result};

use super::float::{add, div, eq, hypot, mul, sub};

pub(super) fn same(a: Point, b: Point) -> bool {
    if [a.x, a.y, b.x, b.y].iter().any(|one| one.is_nan()) {
        return super::float::same(a.x, b.x) && super::float::same(a.y, b.y);
    }
    eq(a.x, b.x) && eq(a.y, b.y)
}

pub(super) fn sum(a: Point, b: Point) -> Result<Point> {
    Ok(Point { x: add(a.x, b.x)?, y: add(a.y, b.y)? })
}

pub(super) fn difference(a: Point, b: Point) -> Result<Point> {
    Ok(Point { x: sub(a.x, b.x)?, y: sub(a.y, b.y)? })
}

/// The product as of complex numbers: a rotation and a scaling.
pub(super) fn product(a: Point, b: Point) -> Result<Point> {
    let x = sub(mul(a.x, b.x)?, mul(a.y, b.y)?)?;
    let y = add(mul(a.x, b.y)?, mul(a.y, b.x)?)?;
    Ok(Point { x, y })
}

/// The quotient as of complex numbers.
pub(super) fn quotient(a: Point, b: Point) -> Result<Point> {
    let square = add(mul(b.x, b.x)?, mul(b.y, b.y)?)?;
    let x = div(add(mul(a.x, b.x)?, mul(a.y, b.y)?)?, square)?;
    let y = div(sub(mul(b.x, a.y)?, mul(b.y, a.x)?)?, square)?;
    Ok(Point { x, y })
}

pub(super) fn distance(a: Point, b: Point) -> Result<f64> {
    hypot(sub(a.x, b.x)?, sub(a.y, b.y)?)
}

/// The slope of the line through two points; infinite if it is vertical.
pub(super) fn slope(a: Point, b: Point) -> Result<f64> {
    if eq(a.x, b.x) {
        return Ok(f64::INFINITY);
    }
    if eq(a.y, b.y) { Ok(0.0) } else { div(sub(a.y, b.y)?, sub(a.x, b.x)?) }
}

/// The slope of lines that are perpendicular to the line through two points.
pub(super) fn inverse_slope(a: Point, b: Point) -> Result<f64> {
    if eq(a.x, b.x) {
        return Ok(0.0);
    }
    if eq(a.y, b.y) { Ok(f64::INFINITY) } else { div(sub(a.x, b.x)?, sub(b.y, a.y)?) }
}

pub(super) fn middle(a: Point, b: Point) -> Result<Point> {
    Ok(Point { x: div(add(a.x, b.x)?, 2.0)?, y: div(add(a.y, b.y)?, 2.0)? })
}
