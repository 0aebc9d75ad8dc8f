//! Statistics of a bin's values.

use super::{KEPT_MAX, LOESS_EVENTS_MAX, ProcessError, Refusal};
use crate::calendar::SECOND;
use crate::sample::{Array, Nanos, Scalar, Value};

/// Statistics, one value per bin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Statistic {
    Mean,
    Deviation,
    Jitter,
    Variance,
    PopulationVariance,
    Median,
    Kurtosis,
    Skewness,
    Min,
    Max,
    Count,
    Linear,
    Loess,
    ErrorBar,
    Stats,
    StatsAndLast,
}

/// Values of one bin, as far as a statistic needs them.
pub(super) struct Collector {
    statistic: Statistic,
    state: State,
    /// Last value that is a number, of this bin or before; NaN if there was none.
    last: f64,
}

enum State {
    Moments(Moments),
    Shape(Shape),
    Values(Vec<f64>),
    Neighbours(Neighbours),
    Points { middle: Nanos, points: Vec<(Nanos, f64)> },
}

impl Collector {
    pub(super) fn new(statistic: Statistic) -> Collector {
        let state = match statistic {
            Statistic::Kurtosis | Statistic::Skewness => State::Shape(Shape::default()),
            Statistic::Median => State::Values(Vec::new()),
            Statistic::Linear => State::Neighbours(Neighbours::default()),
            Statistic::Loess => State::Points { middle: 0, points: Vec::new() },
            _ => State::Moments(Moments::default()),
        };
        Collector { statistic, state, last: f64::NAN }
    }

    /// Starts a bin whose middle, in whole seconds, is at `middle`.
    pub(super) fn start(&mut self, middle: Nanos) {
        match &mut self.state {
            State::Moments(moments) => *moments = Moments::default(),
            State::Shape(shape) => *shape = Shape::default(),
            State::Values(values) => values.clear(),
            State::Neighbours(neighbours) => *neighbours = Neighbours { middle, ..Neighbours::default() },
            State::Points { middle: of_bin, points } => {
                *of_bin = middle;
                points.clear();
            }
        }
    }

    /// Adds a value of the bin. Times increase.
    #[inline]
    pub(super) fn add(&mut self, time: Nanos, value: f64) -> Result<(), Refusal> {
        match &mut self.state {
            State::Neighbours(neighbours) => neighbours.add(time, value),
            State::Points { points, .. } if points.len() == LOESS_EVENTS_MAX => {
                return Err(ProcessError::TooMany { kept_max: LOESS_EVENTS_MAX });
            }
            State::Points { points, .. } => points.push((time, value)),
            _ if value.is_nan() => {}
            State::Moments(moments) => {
                moments.add(value);
                self.last = value;
            }
            State::Shape(shape) => shape.add(value),
            State::Values(values) if values.len() == KEPT_MAX => {
                return Err(ProcessError::TooMany { kept_max: KEPT_MAX });
            }
            State::Values(values) => values.push(value),
        }
        Ok(())
    }

    /// Adds values of the bin that were collected elsewhere; false if the statistic needs each of them.
    pub(super) fn merge(&mut self, moments: &Moments, last: f64) -> bool {
        let State::Moments(own) = &mut self.state else { return false };
        own.merge(moments);
        if moments.count > 0 {
            self.last = last;
        }
        true
    }

    /// The statistic of the bin.
    pub(super) fn value(&mut self) -> Value {
        let number = match (&mut self.state, self.statistic) {
            (State::Moments(moments), Statistic::Stats) => return array(moments.stats().to_vec()),
            (State::Moments(moments), Statistic::StatsAndLast) => {
                let mut values = moments.stats().to_vec();
                values.push(self.last);
                return array(values);
            }
            (State::Moments(moments), statistic) => moments.of(statistic),
            (State::Shape(shape), Statistic::Skewness) => shape.skewness(),
            (State::Shape(shape), _) => shape.kurtosis(),
            (State::Values(values), _) => median(values),
            (State::Neighbours(neighbours), _) => neighbours.at_middle(),
            (State::Points { middle, points }, _) => loess_at(*middle, points),
        };
        Value::Scalar(Scalar::Float64(number))
    }

    /// Statistics of a bin without events whose value is that of the last event.
    pub(super) fn of_last(&self) -> Value {
        array(vec![self.last, 0.0, self.last, self.last, 0.0, self.last])
    }

    /// Standard deviation, where it is an additional field of the bin.
    pub(super) fn error_bar(&self) -> Option<f64> {
        match &self.state {
            State::Moments(moments) if self.statistic == Statistic::ErrorBar => Some(moments.deviation()),
            _ => None,
        }
    }
}

fn array(values: Vec<f64>) -> Value {
    Value::Array(Array::Float64(values))
}

/// Count, mean, sum of squared deviations, and extremes of values, in one pass.
///
/// Source: Welford, Technometrics 4 (1962); the order of operations is that of Apache Commons Math, with which the
/// Appliance computes, so that the results are the same bit by bit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// Number of values that are not NaN.
    pub count: u64,
    /// Mean; 0 of none.
    pub mean: f64,
    /// Sum of their squared deviations from the mean.
    pub squares: f64,
    /// The lowest; NaN of none.
    pub min: f64,
    /// The highest; NaN of none.
    pub max: f64,
}

impl Default for Moments {
    fn default() -> Moments {
        Moments { count: 0, mean: 0.0, squares: 0.0, min: f64::NAN, max: f64::NAN }
    }
}

impl Moments {
    /// - `value`: not NaN.
    #[inline]
    pub(super) fn add(&mut self, value: f64) {
        self.count += 1;
        let count = self.count as f64;
        let deviation = value - self.mean;
        let share = deviation / count;
        self.mean += share;
        self.squares += (count - 1.0) * deviation * share;
        // `min` and `max` of Rust ignore the NaN that stands for none.
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds values that were collected elsewhere. The mean and the deviations agree with those of one pass to rounding.
    ///
    /// Source: Chan, Golub and LeVeque, Stanford report STAN-CS-79-773.
    pub(super) fn merge(&mut self, other: &Moments) {
        if other.count == 0 {
            return;
        }
        let (own, others) = (self.count as f64, other.count as f64);
        let (count, deviation) = (own + others, other.mean - self.mean);
        self.mean = if self.count == 0 { other.mean } else { self.mean + deviation * others / count };
        self.squares +=
            other.squares + if self.count == 0 { 0.0 } else { deviation * deviation * own * others / count };
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    fn of(&self, statistic: Statistic) -> f64 {
        match statistic {
            Statistic::Deviation => self.deviation(),
            Statistic::Jitter => self.deviation() / self.mean(),
            Statistic::Variance => self.variance(),
            Statistic::PopulationVariance => self.squares_per(self.count as f64),
            Statistic::Min => self.min,
            Statistic::Max => self.max,
            Statistic::Count => self.count as f64,
            _ => self.mean(),
        }
    }

    pub(super) fn mean(&self) -> f64 {
        if self.count == 0 { f64::NAN } else { self.mean }
    }

    fn variance(&self) -> f64 {
        self.squares_per(self.count as f64 - 1.0)
    }

    pub(super) fn deviation(&self) -> f64 {
        self.variance().sqrt()
    }

    fn squares_per(&self, count: f64) -> f64 {
        match self.count {
            0 => f64::NAN,
            1 => 0.0,
            _ => self.squares / count,
        }
    }

    fn stats(&self) -> [f64; 5] {
        [self.mean(), self.deviation(), self.min, self.max, self.count as f64]
    }
}

/// Sums of powers of deviations, in one pass.
///
/// Source: Pébay, Sandia report SAND2008-6212. The Appliance takes two passes over a bin's values; results agree to
/// rounding, which is smaller here.
#[derive(Default)]
struct Shape {
    /// First value. The others count from it, which is exact for values that are close together.
    origin: f64,
    count: f64,
    /// Mean of the differences from `origin`.
    mean: f64,
    squares: f64,
    cubes: f64,
    fourths: f64,
}

impl Shape {
    fn add(&mut self, value: f64) {
        let before = self.count;
        if before == 0.0 {
            self.origin = value;
        }
        self.count += 1.0;
        let n = self.count;
        let deviation = value - self.origin - self.mean;
        let share = deviation / n;
        let term = deviation * share * before;
        self.mean += share;
        self.fourths += term * share * share * (n * n - 3.0 * n + 3.0) + 6.0 * share * share * self.squares
            - 4.0 * share * self.cubes;
        self.cubes += term * share * (n - 2.0) - 3.0 * share * self.squares;
        self.squares += term;
    }

    fn skewness(&self) -> f64 {
        let n = self.count;
        if n < 3.0 {
            return f64::NAN;
        }
        let variance = self.squares / (n - 1.0);
        n / ((n - 1.0) * (n - 2.0)) * self.cubes / (variance * variance.sqrt())
    }

    fn kurtosis(&self) -> f64 {
        let n = self.count;
        if n < 4.0 {
            return f64::NAN;
        }
        let variance = self.squares / (n - 1.0);
        let standard = self.fourths / (variance * variance);
        n * (n + 1.0) / ((n - 1.0) * (n - 2.0) * (n - 3.0)) * standard
            - 3.0 * (n - 1.0) * (n - 1.0) / ((n - 2.0) * (n - 3.0))
    }
}

/// The middle value, or the mean of the two middle ones; NaN of none.
fn median(values: &mut [f64]) -> f64 {
    let Some(last) = values.len().checked_sub(1) else { return f64::NAN };
    let (below, upper, _) = values.select_nth_unstable_by(values.len() / 2, f64::total_cmp);
    if last % 2 == 0 {
        return *upper;
    }
    let lower = below.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    lower + 0.5 * (*upper - lower)
}

/// Points of a bin next to its middle.
#[derive(Default)]
struct Neighbours {
    middle: Nanos,
    first: Option<(Nanos, f64)>,
    /// Last point at or before the middle, and the first one after it.
    below: Option<(Nanos, f64)>,
    above: Option<(Nanos, f64)>,
}

impl Neighbours {
    fn add(&mut self, time: Nanos, value: f64) {
        let point = Some((time, value));
        self.first = self.first.or(point);
        if time <= self.middle {
            self.below = point;
        } else {
            self.above = self.above.or(point);
        }
    }

    fn at_middle(&self) -> f64 {
        let first = self.first.map_or(f64::NAN, |point| point.1);
        match (self.below, self.above) {
            (Some((x0, y0)), Some((x1, y1))) => y0 + (y1 - y0) / (x1 - x0) as f64 * (self.middle - x0) as f64,
            (Some((x, y)), None) if x == self.middle => y,
            _ => first,
        }
    }
}

/// Share of points that a local regression looks at.
const BANDWIDTH: f64 = 0.3;
/// Regressions with weights from the residuals of the one before.
const ROBUSTNESS_ITERATIONS: usize = 2;
/// Deviations below this are taken for 0.
const ACCURACY: f64 = 1e-12;

/// The value at `middle` on a natural spline through the smoothed points; the first value if `middle` is outside of them,
/// there are fewer than 7, or one is not finite.
fn loess_at(middle: Nanos, points: &[(Nanos, f64)]) -> f64 {
    let Some(&(start, first)) = points.first() else { return f64::NAN };
    let end = points[points.len() - 1].0;
    let neighbours = (BANDWIDTH * points.len() as f64) as usize;
    if neighbours < 2 || middle < start || middle > end || points.iter().any(|point| !point.1.is_finite()) {
        return first;
    }
    let x: Vec<f64> = points.iter().map(|point| (point.0 - middle) as f64 / SECOND as f64).collect();
    let y: Vec<f64> = points.iter().map(|point| point.1).collect();
    natural_spline_at_zero(&x, &smooth(&x, &y, neighbours))
}

/// Local linear regression with tricube weights. Source: Cleveland, J. Am. Stat. Assoc. 74 (1979).
fn smooth(x: &[f64], y: &[f64], neighbours: usize) -> Vec<f64> {
    let mut robustness = vec![1.0; x.len()];
    let mut smoothed = vec![0.0; x.len()];
    for iteration in 0..=ROBUSTNESS_ITERATIONS {
        let mut left = 0;
        for at in 0..x.len() {
            // The window moves on while the point behind it is nearer than its first.
            if at > 0 && left + neighbours < x.len() && x[left + neighbours] - x[at] < x[at] - x[left] {
                left += 1;
            }
            let window = left..left + neighbours;
            let fit = regression_at(x[at], &x[window.clone()], &y[window.clone()], &robustness[window]);
            // Neighbours without weight say nothing: as in Cleveland's own program, the value is kept.
            smoothed[at] = if fit.is_nan() { y[at] } else { fit };
        }
        if iteration == ROBUSTNESS_ITERATIONS || !reweigh(y, &smoothed, &mut robustness) {
            break;
        }
    }
    smoothed
}

/// The value at `at` of the line that fits the window best.
fn regression_at(at: f64, x: &[f64], y: &[f64], robustness: &[f64]) -> f64 {
    let reach = (at - x[0]).max(x[x.len() - 1] - at);
    let (mut weights, mut sum_x, mut sum_xx, mut sum_y, mut sum_xy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for ((x, y), robustness) in x.iter().zip(y).zip(robustness) {
        // Distances count from the point itself, so that sums of squares keep their digits.
        let x = x - at;
        let weight = tricube(x.abs() / reach) * robustness;
        weights += weight;
        sum_x += x * weight;
        sum_xx += x * x * weight;
        sum_y += y * weight;
        sum_xy += x * y * weight;
    }
    let (mean_x, mean_y) = (sum_x / weights, sum_y / weights);
    let spread = sum_xx / weights - mean_x * mean_x;
    let slope = if spread.abs().sqrt() < ACCURACY { 0.0 } else { (sum_xy / weights - mean_x * mean_y) / spread };
    mean_y - slope * mean_x
}

fn tricube(distance: f64) -> f64 {
    let distance = distance.abs();
    if distance >= 1.0 { 0.0 } else { (1.0 - distance.powi(3)).powi(3) }
}

/// Weighs points by their residuals; false if the fit is exact.
fn reweigh(y: &[f64], smoothed: &[f64], robustness: &mut [f64]) -> bool {
    let residuals: Vec<f64> = y.iter().zip(smoothed).map(|(y, smoothed)| (y - smoothed).abs()).collect();
    let mut sorted = residuals.clone();
    let (_, median, _) = sorted.select_nth_unstable_by(y.len() / 2, f64::total_cmp);
    if *median < ACCURACY {
        return false;
    }
    for (weight, residual) in robustness.iter_mut().zip(&residuals) {
        let share = residual / (6.0 * *median);
        *weight = if share >= 1.0 { 0.0 } else { (1.0 - share * share).powi(2) };
    }
    true
}

/// The value at 0 of the cubic spline through the points whose second derivative is 0 at both ends.
///
/// - `x`: increasing, from at most 0 to at least 0, of 3 points or more.
fn natural_spline_at_zero(x: &[f64], y: &[f64]) -> f64 {
    let last = x.len() - 1;
    // Second derivatives, from the tridiagonal system of continuous first derivatives: elimination, then substitution.
    let (mut ratio, mut second) = (vec![0.0; last], vec![0.0; last + 1]);
    for at in 1..last {
        let (before, behind) = (x[at] - x[at - 1], x[at + 1] - x[at]);
        let change = (y[at + 1] - y[at]) / behind - (y[at] - y[at - 1]) / before;
        let pivot = 2.0 * (before + behind) - before * ratio[at - 1];
        ratio[at] = behind / pivot;
        second[at] = (6.0 * change - before * second[at - 1]) / pivot;
    }
    for at in (1..last).rev() {
        second[at] -= ratio[at] * second[at + 1];
    }
    let left = x.partition_point(|x| *x <= 0.0).clamp(1, last) - 1;
    let (h, a, b) = (x[left + 1] - x[left], x[left + 1], -x[left]);
    (second[left] * a.powi(3) + second[left + 1] * b.powi(3)) / (6.0 * h)
        + (y[left] / h - second[left] * h / 6.0) * a
        + (y[left + 1] / h - second[left + 1] * h / 6.0) * b
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(count: usize, y: impl Fn(f64) -> f64) -> Vec<(Nanos, f64)> {
        (0..count).map(|n| (n as i64 * SECOND, y(n as f64))).collect()
    }

    #[test]
    fn spline_goes_through_its_points_and_is_smooth() {
        let x: Vec<f64> = [-3.0, -1.5, -0.2, 0.9, 2.0, 4.5].to_vec();
        let y = [1.0, 4.0, -2.0, 0.5, 3.0, 2.0];
        let at = |position: f64| natural_spline_at_zero(&x.iter().map(|x| x - position).collect::<Vec<_>>(), &y);
        for (x, y) in x.iter().zip(y) {
            assert!((at(*x) - y).abs() < 1e-12);
        }
        let e = 1e-4;
        for x in &x[1..5] {
            let slopes = [(at(*x) - at(x - e)) / e, (at(x + e) - at(*x)) / e];
            assert!((slopes[0] - slopes[1]).abs() < 1e-2, "{slopes:?}");
            let curve = |x: f64| (at(x + e) - 2.0 * at(x) + at(x - e)) / e / e;
            assert!((curve(x - 2.0 * e) - curve(x + 2.0 * e)).abs() < 1e-1);
        }
        assert!(((at(-3.0 + 2.0 * e) - 2.0 * at(-3.0 + e) + at(-3.0)) / e / e).abs() < 1e-2, "natural at the ends");
    }

    #[test]
    fn local_regression_keeps_lines_and_ignores_an_outlier() {
        let line = |x: f64| 3.0 - 0.25 * x;
        for count in [7, 8, 20, 301] {
            let middle = count as i64 / 2 * SECOND;
            let expected = line((count / 2) as f64);
            assert!((loess_at(middle, &points(count, line)) - expected).abs() < 1e-9);
        }
        let mut with_outlier = points(60, |x| line(x) + 0.3 * (x * 7.0).sin());
        let without = loess_at(30 * SECOND, &with_outlier);
        with_outlier[30].1 += 5.0;
        assert!((loess_at(30 * SECOND, &with_outlier) - without).abs() < 0.05);
        // All neighbours of a huge one lose their weight.
        with_outlier[30].1 = 1e9;
        assert!(loess_at(33 * SECOND, &with_outlier).is_finite());
    }

    #[test]
    fn local_regression_of_few_or_outside_is_the_first_value() {
        for (middle, points) in [
            (3, points(6, |x| x + 5.0)),
            (-1, points(20, |x| x + 5.0)),
            (20, points(20, |x| x + 5.0)),
            (10, points(20, |x| if x == 3.0 { f64::NAN } else { x + 5.0 })),
        ] {
            assert_eq!(loess_at(middle * SECOND, &points), 5.0);
        }
        assert!(loess_at(0, &[]).is_nan());
    }
}
