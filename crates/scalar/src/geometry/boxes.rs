//! Boxes: the upper right and the lower left corner.

use model::{Point, Result};

use super::float::{add, div, ge, gt, le, lt, mul, sub};
use super::lines::{
    Closest, Line, Segment, closer, segment_closest, segment_closest_to_segment, segment_meets_line, segments_meet,
};
use super::points;

/// Corners of a box.
pub(super) type Corners = [Point; 2];

/// The order of PostgreSQL's floats, where NaN is greatest.
fn max(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

fn min(a: f64, b: f64) -> f64 {
    if b.is_nan() || a < b { a } else { b }
}

/// The greater and the lesser one of two coordinates; of equal ones the second is taken as greater.
fn ordered(a: f64, b: f64) -> (f64, f64) {
    if a > b || (a.is_nan() && !b.is_nan()) { (a, b) } else { (b, a) }
}

pub(crate) fn of_corners(a: Point, b: Point) -> Corners {
    let ((right, left), (upper, lower)) = (ordered(a.x, b.x), ordered(a.y, b.y));
    [Point { x: right, y: upper }, Point { x: left, y: lower }]
}

/// The smallest box with all points.
pub(super) fn bounds(points: &[Point]) -> Corners {
    let first = points.first().copied().unwrap_or_default();
    points.iter().fold([first, first], |[high, low], point| [of_corners(high, *point)[0], of_corners(low, *point)[1]])
}

pub(super) fn hull(left: Corners, right: Corners) -> Corners {
    [of_corners(left[0], right[0])[0], of_corners(left[1], right[1])[1]]
}

pub(super) fn overlap([high, low]: Corners, [other_high, other_low]: Corners) -> bool {
    le(low.x, other_high.x) && le(other_low.x, high.x) && le(low.y, other_high.y) && le(other_low.y, high.y)
}

pub(super) fn contains([high, low]: Corners, [other_high, other_low]: Corners) -> bool {
    ge(high.x, other_high.x) && le(low.x, other_low.x) && ge(high.y, other_high.y) && le(low.y, other_low.y)
}

pub(super) fn has([high, low]: Corners, point: Point) -> bool {
    high.x >= point.x && low.x <= point.x && high.y >= point.y && low.y <= point.y
}

pub(super) fn intersection(left: Corners, right: Corners) -> Option<Corners> {
    let high = Point { x: min(left[0].x, right[0].x), y: min(left[0].y, right[0].y) };
    let low = Point { x: max(left[1].x, right[1].x), y: max(left[1].y, right[1].y) };
    overlap(left, right).then_some([high, low])
}

pub(super) fn area([high, low]: Corners) -> Result<f64> {
    mul(sub(high.x, low.x)?, sub(high.y, low.y)?)
}

pub(super) fn center([high, low]: Corners) -> Result<Point> {
    points::middle(high, low)
}

/// The four sides.
fn sides([high, low]: Corners) -> [Segment; 4] {
    let upper_left = Point { x: low.x, y: high.y };
    let lower_right = Point { x: high.x, y: low.y };
    [[low, upper_left], [high, upper_left], [low, lower_right], [high, lower_right]]
}

pub(super) fn closest(corners: Corners, to: Point) -> Result<Closest> {
    if has(corners, to) {
        return Ok((to, 0.0));
    }
    nearest(corners, |side| segment_closest(side, to))
}

pub(super) fn closest_to_segment(corners: Corners, to: Segment) -> Result<Closest> {
    if meets_segment(corners, to)? {
        let (point, _) = segment_closest(to, center(corners)?)?;
        return Ok((point, 0.0));
    }
    nearest(corners, |side| segment_closest_to_segment(side, to))
}

fn nearest(corners: Corners, mut of_side: impl FnMut(Segment) -> Result<Closest>) -> Result<Closest> {
    let [first, rest @ ..] = sides(corners);
    let mut best = of_side(first)?;
    for side in rest {
        best = closer(best, of_side(side)?);
    }
    Ok(best)
}

pub(super) fn meets_segment(corners: Corners, segment: Segment) -> Result<bool> {
    if !overlap(of_corners(segment[0], segment[1]), corners) {
        return Ok(false);
    }
    if segment.iter().any(|end| has(corners, *end)) {
        return Ok(true);
    }
    for side in sides(corners) {
        if segments_meet(side, segment)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn meets_line(corners: Corners, line: Line) -> Result<bool> {
    for side in sides(corners) {
        if segment_meets_line(side, line)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Corners, in the order of a polygon.
pub(super) fn polygon([high, low]: Corners) -> Box<[Point]> {
    Box::new([low, Point { x: low.x, y: high.y }, high, Point { x: high.x, y: low.y }])
}

/// The box within a circle.
pub(super) fn of_circle(center: Point, radius: f64) -> Result<Corners> {
    let delta = div(radius, 2_f64.sqrt())?;
    let high = Point { x: add(center.x, delta)?, y: add(center.y, delta)? };
    Ok([high, Point { x: sub(center.x, delta)?, y: sub(center.y, delta)? }])
}

/// The places of two boxes to each other.
pub(super) mod places {
    use super::{Corners, ge, gt, le, lt};

    pub(in super::super) fn left(a: Corners, b: Corners) -> bool {
        lt(a[0].x, b[1].x)
    }

    pub(in super::super) fn overleft(a: Corners, b: Corners) -> bool {
        le(a[0].x, b[0].x)
    }

    pub(in super::super) fn right(a: Corners, b: Corners) -> bool {
        gt(a[1].x, b[0].x)
    }

    pub(in super::super) fn overright(a: Corners, b: Corners) -> bool {
        ge(a[1].x, b[1].x)
    }

    pub(in super::super) fn below(a: Corners, b: Corners) -> bool {
        lt(a[0].y, b[1].y)
    }

    pub(in super::super) fn overbelow(a: Corners, b: Corners) -> bool {
        le(a[0].y, b[0].y)
    }

    pub(in super::super) fn above(a: Corners, b: Corners) -> bool {
        gt(a[1].y, b[0].y)
    }

    pub(in super::super) fn overabove(a: Corners, b: Corners) -> bool {
        ge(a[1].y, b[1].y)
    }
}
