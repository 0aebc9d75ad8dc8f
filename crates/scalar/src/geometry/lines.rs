//! Lines and segments: where they meet, and how far they are from points and from each other.

use model::{Point, Result};

use super::float::{add, div, eq, hypot, is_zero, mul, same, sub, unsigned_zero};
use super::points;

/// The points with ax + by + c = 0.
pub(super) type Line = [f64; 3];
/// The points between two ends.
pub(super) type Segment = [Point; 2];

/// A point, and its distance from something.
pub(super) type Closest = (Point, f64);

/// The line with a slope through a point.
pub(super) fn line_at(point: Point, slope: f64) -> Result<Line> {
    if slope == 0.0 {
        return Ok([0.0, -1.0, point.y]);
    }
    if slope.is_infinite() {
        return Ok([-1.0, 0.0, point.x]);
    }
    Ok([slope, -1.0, unsigned_zero(sub(point.y, mul(slope, point.x)?)?)])
}

pub(super) fn line_through(a: Point, b: Point) -> Result<Line> {
    line_at(a, points::slope(a, b)?)
}

pub(super) fn line_slope([a, b, _]: Line) -> Result<f64> {
    if is_zero(a) {
        return Ok(0.0);
    }
    if is_zero(b) { Ok(f64::INFINITY) } else { div(a, -b) }
}

fn line_inverse_slope([a, b, _]: Line) -> Result<f64> {
    if is_zero(a) {
        return Ok(f64::INFINITY);
    }
    if is_zero(b) { Ok(0.0) } else { div(b, a) }
}

/// Whether two lines have the same points, whatever the scale of their numbers.
pub(super) fn lines_equal(left: Line, right: Line) -> Result<bool> {
    if left.iter().chain(&right).any(|one| one.is_nan()) {
        return Ok(left.iter().zip(&right).all(|(left, right)| same(*left, *right)));
    }
    let pair = left.iter().zip(&right).find(|(_, right)| !is_zero(**right));
    let ratio = pair.map_or(Ok(1.0), |(left, right)| div(*left, *right))?;
    for (left, right) in left.iter().zip(&right) {
        if !eq(*left, mul(ratio, *right)?) {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(super) fn perpendicular(left: Line, right: Line) -> Result<bool> {
    let ([a, b, _], [other_a, other_b, _]) = (left, right);
    if is_zero(a) {
        return Ok(is_zero(other_b));
    }
    if is_zero(other_a) {
        return Ok(is_zero(b));
    }
    if is_zero(b) {
        return Ok(is_zero(other_a));
    }
    if is_zero(other_b) {
        return Ok(is_zero(a));
    }
    Ok(eq(div(mul(a, other_a)?, mul(b, other_b)?)?, -1.0))
}

/// The point where two lines meet; `None` if they are parallel.
pub(super) fn meeting(left: Line, right: Line) -> Result<Option<Point>> {
    let (left, right) = if is_zero(left[1]) { (right, left) } else { (left, right) };
    let ([a, b, c], [other_a, other_b, other_c]) = (left, right);
    if is_zero(b) || eq(other_a, mul(a, div(other_b, b)?)?) {
        return Ok(None);
    }
    let x = div(sub(mul(b, other_c)?, mul(other_b, c)?)?, sub(mul(a, other_b)?, mul(other_a, b)?)?)?;
    let y = div(-add(mul(a, x)?, c)?, b)?;
    Ok(Some(Point { x: unsigned_zero(x), y: unsigned_zero(y) }))
}

pub(super) fn line_distance(left: Line, right: Line) -> Result<f64> {
    if meeting(left, right)?.is_some() {
        return Ok(0.0);
    }
    let usable = |at: usize| [left[at], right[at]].iter().all(|one| !is_zero(*one) && !one.is_nan());
    let ratio = match (usable(0), usable(1)) {
        (true, _) => div(left[0], right[0])?,
        (_, true) => div(left[1], right[1])?,
        _ => 1.0,
    };
    div(sub(left[2], mul(ratio, right[2])?)?.abs(), hypot(left[0], left[1])?)
}

pub(super) fn line_has([a, b, c]: Line, point: Point) -> Result<bool> {
    Ok(is_zero(add(add(mul(a, point.x)?, mul(b, point.y)?)?, c)?))
}

/// The point of a line that is next to a point. The distance is NaN if there is none.
pub(super) fn line_closest(line: Line, to: Point) -> Result<Closest> {
    match meeting(line_at(to, line_inverse_slope(line)?)?, line)? {
        Some(point) => Ok((point, points::distance(point, to)?)),
        None => Ok((to, f64::NAN)),
    }
}

pub(super) fn slope([a, b]: Segment) -> Result<f64> {
    points::slope(a, b)
}

pub(super) fn length([a, b]: Segment) -> Result<f64> {
    points::distance(a, b)
}

pub(super) fn segment_has(segment: Segment, point: Point) -> Result<bool> {
    let [a, b] = segment;
    Ok(eq(add(points::distance(point, a)?, points::distance(point, b)?)?, length(segment)?))
}

/// The point where a segment meets a line.
pub(super) fn segment_meets_line(segment: Segment, line: Line) -> Result<Option<Point>> {
    let [a, b] = segment;
    let Some(point) = meeting(line_through(a, b)?, line)? else { return Ok(None) };
    if !segment_has(segment, point)? {
        return Ok(None);
    }
    // An end is given as it is, without the rounding of the computation.
    let end = segment.into_iter().find(|end| points::same(*end, point));
    Ok(Some(end.unwrap_or(point)))
}

/// The point where two segments meet.
pub(super) fn segments_meet(left: Segment, right: Segment) -> Result<Option<Point>> {
    let Some(point) = segment_meets_line(left, line_through(right[0], right[1])?)? else { return Ok(None) };
    Ok(segment_has(right, point)?.then_some(point))
}

/// The point of a segment that is next to a line.
pub(super) fn segment_closest_to_line(segment: Segment, line: Line) -> Result<Closest> {
    if let Some(point) = segment_meets_line(segment, line)? {
        return Ok((point, 0.0));
    }
    let [a, b] = segment;
    let (to_a, to_b) = (line_closest(line, a)?.1, line_closest(line, b)?.1);
    Ok(if to_a < to_b { (a, to_a) } else { (b, to_b) })
}

/// The point of a segment that is next to a point.
pub(super) fn segment_closest(segment: Segment, to: Point) -> Result<Closest> {
    let across = line_at(to, points::inverse_slope(segment[0], segment[1])?)?;
    let (point, _) = segment_closest_to_line(segment, across)?;
    Ok((point, points::distance(point, to)?))
}

/// The closer one of two; NaN is farther than every distance.
pub(super) fn closer(best: Closest, other: Closest) -> Closest {
    if other.1 < best.1 || (best.1.is_nan() && !other.1.is_nan()) { other } else { best }
}

/// The point of the first segment that is next to the second one.
pub(super) fn segment_closest_to_segment(on: Segment, to: Segment) -> Result<Closest> {
    if let Some(point) = segments_meet(on, to)? {
        return Ok((point, 0.0));
    }
    let mut best = closer(segment_closest(on, to[0])?, segment_closest(on, to[1])?);
    for end in on {
        best = closer(best, (end, segment_closest(to, end)?.1));
    }
    Ok(best)
}
