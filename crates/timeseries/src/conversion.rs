//! Conversion of points between rasters.
//!
//! Both rasters are sequences of bounds: interval `i` lasts from bound `i` to bound `i + 1`. They need not nest: months become
//! weeks, and 10 minutes a quarter hour. An interval of the target has, by the rule:
//!
//! | rule | value |
//! |---|---|
//! | SUM | sum of the values, each by its share of the source interval that lies in the target |
//! | AVG | mean of the values, weighted by the lengths of the shares |
//! | MIN, MAX, FIRST, LAST | that of the values |
//! | COUNT | number of the values |
//!
//! Absent values, and those flagged *NoValue*, have no part in a result; a result without values is absent. Its flag is the
//! greatest of its shares, and *Missing* where no source interval is. NaN and infinities are values.
//!
//! A conversion may be limited to parts of time, such as peak hours: then other times have no part in a result, and nothing is
//! missing there. A result without any such time is absent and *NoValue*.

use crate::aggregation::Aggregation;
use crate::flag::Flag;
use crate::points::Points;

/// Converts points of consecutive intervals. Cost: one pass over source and target, some nanoseconds an interval.
///
/// - `source`: bounds of the points, one more than these, ascending.
/// - `target`: bounds of the result, ascending.
///
/// # Panics
/// If the bounds do not fit the points.
#[must_use]
pub fn convert(source: &[i64], points: &Points, target: &[i64], rule: Aggregation) -> Points {
    let bounds = if points.is_empty() { 0 } else { points.len() + 1 };
    assert_eq!(source.len(), bounds, "bounds of the points");
    let mut converter = Converter::new(target, rule);
    for (at, interval) in source.windows(2).enumerate() {
        let (value, flag) = points.get(at);
        converter.push(interval[0], interval[1], value, flag);
    }
    converter.finish()
}

/// Converts points that hold from their time until the next one, the last for ever.
///
/// - `times`: times of the points, ascending. The caller includes the last point before the first target interval.
///
/// # Panics
/// If there are not as many times as points.
#[must_use]
pub fn convert_steps(times: &[i64], points: &Points, target: &[i64], rule: Aggregation) -> Points {
    assert_eq!(times.len(), points.len(), "times of the points");
    let mut converter = Converter::new(target, rule);
    for (at, time) in times.iter().enumerate() {
        let (value, flag) = points.get(at);
        converter.push_step(*time, times.get(at + 1).copied(), value, flag);
    }
    converter.finish()
}

/// A conversion that receives its points one by one.
pub struct Converter<'a> {
    target: &'a [i64],
    rule: Aggregation,
    converted: Points,
    cell: Cell,
    /// Parts of time that count, ascending; all if `None`.
    parts: Option<Vec<(i64, i64)>>,
}

impl<'a> Converter<'a> {
    /// - `target`: bounds of the result, ascending.
    #[must_use]
    pub fn new(target: &'a [i64], rule: Aggregation) -> Converter<'a> {
        let converted = Points::with_capacity(target.len().saturating_sub(1));
        let cell = Cell::new(target.first().copied().unwrap_or(0));
        Converter { target, rule, converted, cell, parts: None }
    }

    /// A conversion in which only parts of time count.
    ///
    /// - `parts`: starts and ends, ascending and apart from each other.
    #[must_use]
    pub fn within(target: &'a [i64], rule: Aggregation, parts: Vec<(i64, i64)>) -> Converter<'a> {
        let mut converter = Converter { parts: Some(parts), ..Converter::new(target, rule) };
        converter.begin();
        converter
    }

    /// Adds the point of the interval `start .. end`, which is after all earlier ones. Times between two intervals are
    /// *Missing*.
    pub fn push(&mut self, start: i64, end: i64, value: Option<f64>, flag: Flag) {
        while let Some((from, to)) = self.interval() {
            if start < to && end > from {
                let (first, last) = (start.max(from), end.min(to));
                let whole = length(start, end);
                if self.parts.is_none() {
                    self.cell.cover(first, last);
                    self.cell.add(self.rule, value, flag, length(first, last), whole);
                } else {
                    self.add_parts(first, last, (value, flag), whole);
                }
            }
            if end < to {
                return;
            }
            self.complete(to);
        }
    }

    /// Adds a point that holds from `time` until the next one, or for ever. SUM and COUNT are those of the points in an
    /// interval, because the share of a quantity in an endless interval is nothing.
    pub fn push_step(&mut self, time: i64, next: Option<i64>, value: Option<f64>, flag: Flag) {
        if !matches!(self.rule, Aggregation::Sum | Aggregation::Count) {
            return self.push(time, next.unwrap_or(i64::MAX), value, flag);
        }
        while let Some((from, to)) = self.interval() {
            self.cell.cover(from, to);
            if time < to {
                if time >= from && self.counts(time) {
                    self.cell.add(self.rule, value, flag, 1.0, 1.0);
                }
                return;
            }
            self.complete(to);
        }
    }

    /// The points of all target intervals.
    #[must_use]
    pub fn finish(mut self) -> Points {
        while let Some((_, to)) = self.interval() {
            self.complete(to);
        }
        self.converted
    }

    /// Adds the parts of `first .. last` that count.
    fn add_parts(&mut self, first: i64, last: i64, (value, flag): (Option<f64>, Flag), whole: f64) {
        let parts = self.parts.take().unwrap_or_default();
        let at = parts.partition_point(|(_, end)| *end <= first);
        for (start, end) in parts[at..].iter().take_while(|(start, _)| *start < last) {
            let (start, end) = ((*start).max(first), (*end).min(last));
            self.cell.cover(start, end);
            self.cell.add(self.rule, value, flag, length(start, end), whole);
            // Up to the next part nothing is expected.
            let next = parts.partition_point(|(_, part)| *part <= end);
            self.cell.covered = parts.get(next).map_or(i64::MAX, |(next, _)| (*next).max(end));
        }
        self.parts = Some(parts);
    }

    /// Whether a time counts.
    fn counts(&self, time: i64) -> bool {
        self.parts.as_ref().is_none_or(|parts| {
            let at = parts.partition_point(|(_, end)| *end <= time);
            parts.get(at).is_some_and(|(start, _)| *start <= time)
        })
    }

    /// Begins an interval: up to the first part of time that counts, nothing is expected.
    fn begin(&mut self) {
        let (Some(parts), Some((from, to))) = (&self.parts, self.interval()) else { return };
        let at = parts.partition_point(|(_, end)| *end <= from);
        self.cell.covered = parts.get(at).map_or(i64::MAX, |(start, _)| (*start).max(from));
        // Nothing at all is expected of an interval without such a part.
        self.cell.has_points = self.cell.covered >= to;
    }

    /// The first target interval that is not complete.
    fn interval(&self) -> Option<(i64, i64)> {
        let at = self.converted.len();
        Some((*self.target.get(at)?, *self.target.get(at + 1)?))
    }

    fn complete(&mut self, to: i64) {
        let (value, flag) = self.cell.finish(self.rule, to);
        self.converted.push(value, flag);
        self.cell = Cell::new(to);
        self.begin();
    }
}

/// Length in nanoseconds. A duration of 100 years has an error of less than a microsecond.
fn length(from: i64, to: i64) -> f64 {
    // The last step lasts for ever, so that the difference may not be an i64; it is always a u64.
    to.wrapping_sub(from).cast_unsigned() as f64
}

/// Shares of one target interval.
struct Cell {
    flag: Flag,
    has_points: bool,
    /// Whether shares cover the interval up to `covered`.
    is_covered: bool,
    covered: i64,
    count: u32,
    /// Sum of values by share for SUM, by length for AVG.
    sum: ExactSum,
    weight: f64,
    /// Plain sum, and the length of every share as long as all have the same: then the mean needs no weights.
    plain: ExactSum,
    share: f64,
    is_even: bool,
    minimum: f64,
    maximum: f64,
    first: f64,
    last: f64,
}

impl Cell {
    /// - `from`: start of the interval.
    fn new(from: i64) -> Cell {
        Cell {
            flag: Flag::NoValue,
            has_points: false,
            is_covered: true,
            covered: from,
            count: 0,
            sum: ExactSum::default(),
            weight: 0.0,
            plain: ExactSum::default(),
            share: 0.0,
            is_even: true,
            minimum: f64::INFINITY,
            maximum: f64::NEG_INFINITY,
            first: 0.0,
            last: 0.0,
        }
    }

    /// Notes a share of the interval.
    fn cover(&mut self, from: i64, to: i64) {
        self.is_covered &= from <= self.covered;
        self.covered = to;
    }

    /// - `share`: length of the point's part in the target interval, of `whole`.
    fn add(&mut self, rule: Aggregation, value: Option<f64>, flag: Flag, share: f64, whole: f64) {
        self.has_points = true;
        self.flag = self.flag.max(flag);
        let Some(value) = value.filter(|_| flag != Flag::NoValue) else { return };
        if self.count == 0 {
            (self.first, self.share) = (value, share);
        }
        self.count += 1;
        match rule {
            Aggregation::Sum => self.sum.add(if share == whole { value } else { value * (share / whole) }),
            Aggregation::Average => {
                self.is_even &= share == self.share;
                self.plain.add(value);
                self.sum.add(value * share);
                self.weight += share;
            }
            Aggregation::Minimum => {
                self.minimum = if value.is_nan() || value < self.minimum { value } else { self.minimum };
            }
            Aggregation::Maximum => {
                self.maximum = if value.is_nan() || value > self.maximum { value } else { self.maximum };
            }
            Aggregation::First | Aggregation::Last | Aggregation::Count => {}
        }
        self.last = value;
    }

    /// - `to`: end of the interval.
    fn finish(&self, rule: Aggregation, to: i64) -> (Option<f64>, Flag) {
        let is_whole = self.has_points && self.is_covered && self.covered >= to;
        let flag = if is_whole { self.flag } else { Flag::Missing };
        if rule == Aggregation::Count {
            return (Some(f64::from(self.count)), flag);
        }
        if self.count == 0 {
            return (None, flag);
        }
        let value = match rule {
            Aggregation::Sum => self.sum.get(),
            Aggregation::Average if self.is_even => self.plain.get() / f64::from(self.count),
            Aggregation::Average => self.sum.get() / self.weight,
            Aggregation::Minimum => self.minimum,
            Aggregation::Maximum => self.maximum,
            Aggregation::First => self.first,
            Aggregation::Last | Aggregation::Count => self.last,
        };
        (Some(value), flag)
    }
}

/// A sum that keeps what addition rounds off: its error is that of one rounding (Neumaier 1974).
#[derive(Clone, Copy, Default)]
struct ExactSum {
    sum: f64,
    rounded_off: f64,
}

impl ExactSum {
    fn add(&mut self, value: f64) {
        let sum = self.sum + value;
        let (greater, lesser) = if self.sum.abs() >= value.abs() { (self.sum, value) } else { (value, self.sum) };
        self.rounded_off += (greater - sum) + lesser;
        self.sum = sum;
    }

    fn get(self) -> f64 {
        // A sum that is infinite or NaN has no rest.
        if self.sum.is_finite() { self.sum + self.rounded_off } else { self.sum }
    }
}

#[cfg(test)]
#[path = "conversion_tests.rs"]
mod tests;
