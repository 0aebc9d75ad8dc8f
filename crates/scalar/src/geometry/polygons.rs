//! Lists of points: whether they contain points and segments, and how far they are.

use std::f64::consts::PI;

use model::{Error, Point, Result, SqlState};

use super::boxes;
use super::float::{add, div, eq, is_zero, mul, sub};
use super::lines::{Segment, segment_closest, segment_closest_to_segment, segment_has, segments_meet};
use super::points;
use crate::context::Context;

/// The sides of a polygon or closed path, the one from the last point to the first point first.
pub(super) fn sides(list: &[Point]) -> impl Iterator<Item = Segment> + '_ {
    let previous = list.last().into_iter().chain(list);
    previous.zip(list).map(|(a, b)| [*a, *b])
}

/// The segments of a path.
pub(super) fn segments(list: &[Point], closed: bool) -> impl Iterator<Item = Segment> + '_ {
    sides(list).skip(usize::from(!closed))
}

/// Whether a point is within the sides or on one of them: whether they wind around it.
pub(super) fn has(list: &[Point], point: Point) -> Result<bool> {
    let mut winding = 0;
    for [a, b] in sides(list) {
        if on_side([a, b], point)? {
            return Ok(true);
        }
        let side = sub(mul(b.x - a.x, point.y - a.y)?, mul(point.x - a.x, b.y - a.y)?)?;
        if a.y <= point.y && b.y > point.y && side > 0.0 {
            winding += 1;
        } else if a.y > point.y && b.y <= point.y && side < 0.0 {
            winding -= 1;
        }
    }
    Ok(winding != 0)
}

/// Whether a point is on a side, up to the small difference that coordinates may have.
fn on_side(side: Segment, point: Point) -> Result<bool> {
    let [high, low] = boxes::of_corners(side[0], side[1]);
    let near = super::float::le(low.x, point.x)
        && super::float::le(point.x, high.x)
        && super::float::le(low.y, point.y)
        && super::float::le(point.y, high.y);
    Ok(near && segment_has(side, point)?)
}

/// Whether a segment is within a polygon: it is cut where it meets a side, and the middle of each piece must be inside.
fn has_segment(list: &[Point], segment: Segment) -> Result<bool> {
    let [a, b] = segment;
    if !has(list, a)? || !has(list, b)? {
        return Ok(false);
    }
    let mut cuts = vec![a, b];
    for side in sides(list) {
        cuts.extend(segments_meet(segment, side)?);
        for end in side {
            if segment_has(segment, end)? {
                cuts.push(end);
            }
        }
    }
    let along = |point: &Point| (point.x - a.x) * (b.x - a.x) + (point.y - a.y) * (b.y - a.y);
    cuts.sort_by(|one, other| along(one).total_cmp(&along(other)));
    for pair in cuts.windows(2) {
        if !has(list, points::middle(pair[0], pair[1])?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a polygon contains another one.
pub(super) fn contains(list: &[Point], other: &[Point]) -> Result<bool> {
    if !boxes::contains(boxes::bounds(list), boxes::bounds(other)) {
        return Ok(false);
    }
    for side in sides(other) {
        if !has_segment(list, side)? {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(super) fn overlap(left: &[Point], right: &[Point]) -> Result<bool> {
    if !boxes::overlap(boxes::bounds(left), boxes::bounds(right)) {
        return Ok(false);
    }
    for side in sides(left) {
        for other in sides(right) {
            if segments_meet(side, other)?.is_some() {
                return Ok(true);
            }
        }
    }
    let first = |list: &[Point]| list.first().copied().unwrap_or_default();
    Ok(has(right, first(left))? || has(left, first(right))?)
}

/// Whether two polygons have the same points in the same order, from any start and in either direction.
pub(super) fn same(left: &[Point], right: &[Point]) -> bool {
    let count = left.len();
    let equal_from = |start: usize, step: usize| {
        left.iter().enumerate().all(|(at, point)| points::same(*point, right[(start + at * step) % count]))
    };
    // One step back is a step forward by all but one.
    count == right.len() && (0..count).any(|start| equal_from(start, 1) || equal_from(start, count - 1))
}

/// The least distance of some segments from a point.
pub(super) fn distance_to_point(segments: impl Iterator<Item = Segment>, point: Point) -> Result<f64> {
    let mut best: Option<f64> = None;
    for segment in segments {
        let (_, distance) = segment_closest(segment, point)?;
        best = Some(best.map_or(distance, |best| best.min(distance)));
    }
    Ok(best.unwrap_or(0.0))
}

/// The least distance between two lists of segments; `None` without any.
pub(super) fn distance<I: Iterator<Item = Segment>>(
    left: impl Iterator<Item = Segment>,
    right: impl Fn() -> I,
) -> Result<Option<f64>> {
    let mut best: Option<f64> = None;
    for one in left {
        for other in right() {
            let (_, distance) = segment_closest_to_segment(one, other)?;
            best = Some(best.map_or(distance, |best| best.min(distance)));
        }
    }
    Ok(best)
}

pub(super) fn distance_of_polygons(left: &[Point], right: &[Point]) -> Result<f64> {
    if overlap(left, right)? {
        return Ok(0.0);
    }
    Ok(distance(sides(left), || sides(right))?.unwrap_or(0.0))
}

/// Whether a point is on an open path.
pub(super) fn path_has(list: &[Point], point: Point) -> Result<bool> {
    for [a, b] in segments(list, false) {
        let way = add(points::distance(point, a)?, points::distance(point, b)?)?;
        if eq(way, points::distance(a, b)?) {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn area(list: &[Point]) -> Result<f64> {
    let mut area = 0.0;
    let next = list.iter().skip(1).chain(list.first());
    for (a, b) in list.iter().zip(next) {
        area = add(area, mul(a.x, b.y)?)?;
        area = sub(area, mul(a.y, b.x)?)?;
    }
    div(area.abs(), 2.0)
}

/// The circle around the middle of the points with their mean distance as radius.
pub(super) fn circle(list: &[Point]) -> Result<(Point, f64)> {
    let count = list.len() as f64;
    let mut center = Point::default();
    for point in list {
        center = points::sum(center, *point)?;
    }
    let center = Point { x: div(center.x, count)?, y: div(center.y, count)? };
    let mut radius = 0.0;
    for point in list {
        radius = add(radius, points::distance(*point, center)?)?;
    }
    Ok((center, div(radius, count)?))
}

/// Points on a circle, at equal distances.
pub(super) fn of_circle(count: i32, center: Point, radius: f64, ctx: &Context<'_>) -> Result<Box<[Point]>> {
    let invalid = |text: &str| Error::new(SqlState::INVALID_PARAMETER_VALUE, text);
    if is_zero(radius) {
        return Err(Error::unsupported("cannot convert circle with radius zero to polygon"));
    }
    if count < 2 {
        return Err(invalid("must request at least 2 points"));
    }
    ctx.check_size((count as usize).saturating_mul(size_of::<Point>()))?;
    let step = div(2.0 * PI, f64::from(count))?;
    let point = |at: i32| {
        let angle = mul(step, f64::from(at))?;
        let x = sub(center.x, mul(radius, angle.cos())?)?;
        Ok(Point { x, y: add(center.y, mul(radius, angle.sin())?)? })
    };
    (0..count).map(point).collect()
}
