//! Points that an aggregate collects and reads in the order of their times.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::numbers::float::order;

/// A value at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point<V> {
    pub(super) time: i64,
    pub(super) value: V,
}

/// The points of a group. Points that arrive in order are one for each time already.
pub(super) struct Points<V> {
    points: Vec<Point<V>>,
    is_sorted: bool,
}

impl<V: Copy> Default for Points<V> {
    fn default() -> Points<V> {
        Points { points: Vec::new(), is_sorted: true }
    }
}

impl<V: Copy> Points<V> {
    /// Adds a point. Of those at one time the greatest by `order` is kept.
    pub(super) fn push(&mut self, point: Point<V>, order: impl Fn(&V, &V) -> Ordering) {
        if let Some(last) = self.points.last_mut().filter(|_| self.is_sorted) {
            match point.time.cmp(&last.time) {
                Ordering::Greater => {}
                Ordering::Less => self.is_sorted = false,
                Ordering::Equal => {
                    if order(&point.value, &last.value).is_gt() {
                        last.value = point.value;
                    }
                    return;
                }
            }
        }
        self.points.push(point);
    }

    /// One point for each time, the earliest one first.
    pub(super) fn in_order(&self, order: impl Fn(&V, &V) -> Ordering) -> Cow<'_, [Point<V>]> {
        if self.is_sorted {
            return Cow::Borrowed(&self.points);
        }
        let mut sorted = self.points.clone();
        // The greatest value of a time comes first, which is the one that is kept.
        sorted.sort_unstable_by(|a, b| a.time.cmp(&b.time).then_with(|| order(&b.value, &a.value)));
        sorted.dedup_by_key(|point| point.time);
        Cow::Owned(sorted)
    }

    /// Memory in bytes, with that of the copy that [`Points::in_order`] sorts.
    pub(super) fn heap_size(&self) -> usize {
        let copy = if self.is_sorted { 0 } else { self.points.len() };
        (self.points.capacity() + copy) * size_of::<Point<V>>()
    }
}

/// A sum over pairs of neighbouring points.
pub(super) trait Steps: Clone {
    /// Adds the pair of a point and the next one.
    fn step(&mut self, from: Point<f64>, to: Point<f64>);
}

/// Points with the sum over their pairs. While they arrive in order, as in a window, a result costs no second look at them.
pub(super) struct Walk<S> {
    points: Points<f64>,
    /// The sum over no pairs.
    start: S,
    /// The sum over the pairs before the last point, whose value may still be replaced.
    sum: S,
}

/// The whole walk: the sum, the first and the last point.
pub(super) struct Walked<S> {
    pub(super) sum: S,
    pub(super) first: Point<f64>,
    pub(super) last: Point<f64>,
}

impl<S: Steps> Walk<S> {
    pub(super) fn new(start: S) -> Walk<S> {
        Walk { points: Points::default(), sum: start.clone(), start }
    }

    /// The sum over no pairs, which may be changed before the first point.
    pub(super) fn start(&self) -> &S {
        &self.start
    }

    pub(super) fn is_empty(&self) -> bool {
        self.points.points.is_empty()
    }

    pub(super) fn push(&mut self, point: Point<f64>) {
        let is_sorted = self.points.is_sorted;
        if is_sorted
            && let [.., before, last] = self.points.points.as_slice()
            && point.time > last.time
        {
            self.sum.step(*before, *last);
        }
        self.points.push(point, |a, b| order(*a, *b));
    }

    /// The walk over all points; `None` if there are none.
    pub(super) fn walked(&self) -> Option<Walked<S>> {
        let points = self.points.in_order(|a, b| order(*a, *b));
        let (first, last) = (*points.first()?, *points.last()?);
        let (mut sum, rest) = match &points {
            Cow::Borrowed(points) => (self.sum.clone(), &points[points.len().saturating_sub(2)..]),
            Cow::Owned(points) => (self.start.clone(), points.as_slice()),
        };
        for pair in rest.windows(2) {
            sum.step(pair[0], pair[1]);
        }
        Some(Walked { sum, first, last })
    }

    pub(super) fn heap_size(&self) -> usize {
        self.points.heap_size()
    }
}
