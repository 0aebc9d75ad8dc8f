//! `lttb`: the points of a series that a chart needs, chosen by largest triangles.
//!
//! Source: Sveinn Steinarsson, "Downsampling Time Series for Visual Representation", University of Iceland, 2013, §4.2
//! (Largest-Triangle-Three-Buckets).

use std::ops::Range;
use std::sync::Arc;

use catalog::TypeId;
use model::{Array, Datum, Error, Result, SqlState};

use super::points::{Point, Points};
use super::{changed, mismatch, time_datum, time_of};
use crate::context::Context;
use crate::expr::Call;
use crate::json;
use crate::numbers::float::order;
use crate::registry::Accumulator;

/// `lttb(time, value, points)`: a `jsonb` array of objects with members `time` and `value`.
pub(super) fn lttb(call: &Call) -> Box<dyn Accumulator> {
    sampled(call, Form::Json)
}

/// `lttb_times(time, value, points)`: the times as an array.
pub(super) fn times(call: &Call) -> Box<dyn Accumulator> {
    sampled(call, Form::Times)
}

/// `lttb_values(time, value, points)`: the values as an array.
pub(super) fn values(call: &Call) -> Box<dyn Accumulator> {
    sampled(call, Form::Values)
}

#[derive(Clone, Copy)]
enum Form {
    Json,
    Times,
    Values,
}

struct Sampled {
    form: Form,
    /// Type of the times.
    time: TypeId,
    points: Points<f64>,
    /// Number of points to choose; 0 before the first row.
    count: usize,
}

fn sampled(call: &Call, form: Form) -> Box<dyn Accumulator> {
    let time = call.arguments.first().copied().unwrap_or(TypeId::TIMESTAMPTZ);
    Box::new(Sampled { form, time, points: Points::default(), count: 0 })
}

impl Accumulator for Sampled {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], _: &Context<'a>) -> Result<()> {
        let [time, Datum::Float8(value), Datum::Int4(count)] = arguments else { return Err(mismatch()) };
        let count = usize::try_from(*count).ok().filter(|count| *count >= 2).ok_or_else(|| {
            let text = format!("the number of points must be at least 2, not {count}");
            Error::new(SqlState::INVALID_PARAMETER_VALUE, text)
        })?;
        if self.count != 0 && self.count != count {
            return Err(changed("the number of points"));
        }
        self.count = count;
        let time = time_of(time)?;
        // A chart has no place for NaN and infinity.
        if value.is_finite() {
            self.points.push(Point { time, value: *value }, |a, b| order(*a, *b));
        }
        Ok(())
    }

    fn result<'a>(&self, ctx: &Context<'a>) -> Result<Datum<'a>> {
        let points = self.points.in_order(|a, b| order(*a, *b));
        if points.is_empty() {
            return Ok(Datum::Null);
        }
        let chosen = chosen(&points, self.count);
        ctx.check_size(chosen.len().saturating_mul(size_of::<Datum<'_>>()))?;
        let time = |point: &Point<f64>| time_datum(self.time, point.time);
        let value = |point: &Point<f64>| Datum::Float8(point.value);
        let array = |element: TypeId, items| Datum::Array(Arc::new(Array::of(element.0, items)));
        Ok(match self.form {
            Form::Times => array(self.time, chosen.iter().map(time).collect()),
            Form::Values => array(TypeId::FLOAT8, chosen.iter().map(value).collect()),
            Form::Json => {
                let types = [self.time, TypeId::FLOAT8];
                json::objects(["time", "value"], types, chosen.iter().map(|one| [time(one), value(one)]), ctx)?
            }
        })
    }

    fn heap_size(&self) -> usize {
        self.points.heap_size()
    }
}

/// At most `count` of the points, which are in order. The first and the last one are always chosen. The others are divided
/// into buckets of equal numbers of points; of each the point is chosen that spans the largest triangle with the one chosen
/// before and the mean of the next bucket.
pub(super) fn chosen(points: &[Point<f64>], count: usize) -> Vec<Point<f64>> {
    let [first, .., last] = points else { return points.to_vec() };
    if points.len() <= count {
        return points.to_vec();
    }
    let buckets = count.saturating_sub(2);
    let mut chosen = Vec::with_capacity(count);
    chosen.push(*first);
    let mut before = *first;
    for at in 0..buckets {
        let next = Total::of(&points[bucket(points.len(), buckets, at + 1)], before);
        let range = bucket(points.len(), buckets, at);
        before = farthest(&points[range], before, next);
        chosen.push(before);
    }
    chosen.push(*last);
    chosen
}

/// The points of a bucket; the last point is a bucket of its own behind the others.
fn bucket(points: usize, buckets: usize, at: usize) -> Range<usize> {
    let inner = points - 2;
    if at >= buckets {
        return points - 1..points;
    }
    // Neither product overflows: an array of so many points would not fit in memory.
    let edge = |at: usize| 1 + (at as u128 * inner as u128 / buckets as u128) as usize;
    edge(at)..edge(at + 1)
}

/// The distance of a time from another one.
fn distance(from: i64, to: i64) -> f64 {
    (i128::from(to) - i128::from(from)) as f64
}

/// Sums of a bucket's distances from a point: the mean times the number of points, which needs no rounded division.
struct Total {
    time: f64,
    value: f64,
}

impl Total {
    fn of(points: &[Point<f64>], origin: Point<f64>) -> Total {
        points.iter().fold(Total { time: 0.0, value: 0.0 }, |sum, point| Total {
            time: sum.time + distance(origin.time, point.time),
            value: sum.value + (point.value - origin.value),
        })
    }
}

/// The point that spans the largest triangle with the one before and the mean of the next ones; the earliest of several.
fn farthest(points: &[Point<f64>], before: Point<f64>, next: Total) -> Point<f64> {
    let mut best = (-1.0, points[0]);
    for point in points {
        let (width, height) = (distance(before.time, point.time), point.value - before.value);
        // A multiple of the area, which has the same order.
        let area = (next.time * height - width * next.value).abs();
        if area > best.0 {
            best = (area, *point);
        }
    }
    best.1
}
