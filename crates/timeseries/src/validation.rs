//! Validation: rules that find implausible values, and values to put in their place.

use crate::flag::Flag;
use crate::points::Points;

/// A rule over the points of one series on its raster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// An interval has no value.
    Gap,
    /// A value is less than `min` or greater than `max`; NaN is too.
    Range {
        /// Least value.
        min: f64,
        /// Greatest value.
        max: f64,
    },
    /// A value differs by more than `max` from the good value before it. Values that stay at the new level are good again from the
    /// second one on: a level may change.
    Jump {
        /// Greatest difference.
        max: f64,
    },
    /// A value is the same as in at least so many intervals before it: a meter that hangs. Zeros are not found.
    Constant {
        /// Number of intervals, at least 1.
        intervals: usize,
    },
}

impl Rule {
    /// Places of the points that break the rule, ascending.
    ///
    /// # Cost
    /// Some nanoseconds a point.
    #[must_use]
    pub fn broken(self, points: &Points) -> Vec<usize> {
        match self {
            Rule::Gap => {
                let is_gap = |at: &usize| !points.present[*at] && points.flags[*at] != Flag::NoValue;
                (0..points.len()).filter(is_gap).collect()
            }
            Rule::Range { min, max } => {
                let is_outside = |(_, value): &(usize, f64)| !(min..=max).contains(value);
                present(points).filter(is_outside).map(|(at, _)| at).collect()
            }
            Rule::Jump { max } => jumps(points, max),
            Rule::Constant { intervals } => constants(points, intervals.max(1)),
        }
    }
}

/// Places and values of the points that have a value.
fn present(points: &Points) -> impl Iterator<Item = (usize, f64)> + '_ {
    (0..points.len()).filter(|at| points.present[*at]).map(|at| (at, points.values[at]))
}

fn jumps(points: &Points, max: f64) -> Vec<usize> {
    let mut found = Vec::new();
    // The last good value, and the value before if it was found.
    let (mut good, mut suspect): (Option<f64>, Option<f64>) = (None, None);
    for (at, value) in present(points) {
        let is_near = |other: Option<f64>| other.is_some_and(|other| (value - other).abs() <= max);
        if good.is_none() || is_near(good) || is_near(suspect) {
            (good, suspect) = (Some(value), None);
        } else {
            suspect = Some(value);
            found.push(at);
        }
    }
    found
}

fn constants(points: &Points, intervals: usize) -> Vec<usize> {
    let mut found = Vec::new();
    let mut run = 0;
    for at in 1..points.len() {
        let is_same = points.present[at] && points.present[at - 1] && points.values[at] == points.values[at - 1];
        run = if is_same && points.values[at] != 0.0 { run + 1 } else { 0 };
        if run >= intervals {
            found.push(at);
        }
    }
    found
}

/// Values between the nearest values on both sides of each run of places, on a straight line by the number of intervals; flagged
/// *Interpolated*. Runs longer than `max` and runs at an end stay as they are.
///
/// - `places`: ascending; their own values are not used.
///
/// Returns places with values.
#[must_use]
pub fn interpolated(points: &Points, places: &[usize], max: usize) -> Vec<(usize, f64)> {
    let mut is_open = vec![false; points.len()];
    places.iter().for_each(|at| is_open[*at] = true);
    let is_good = |at: usize| points.present[at] && !is_open[at] && points.values[at].is_finite();
    let mut values = Vec::new();
    let mut at = 0;
    while at < places.len() {
        let before = (0..places[at]).rev().find(|place| is_good(*place));
        let after = (places[at] + 1..points.len()).find(|place| is_good(*place));
        let end = after.map_or(places.len(), |after| places.partition_point(|place| *place < after));
        if let (Some(before), Some(after)) = (before, after)
            && after - before - 1 <= max
        {
            let (from, to) = (points.values[before], points.values[after]);
            values.extend(places[at..end].iter().map(|place| {
                let share = (place - before) as f64 / (after - before) as f64;
                (*place, from * (1.0 - share) + to * share)
            }));
        }
        at = end;
    }
    values
}

/// Whether a validation may replace a point: not one that a person replaced or that was invoiced.
#[must_use]
pub fn is_replaceable(flag: Flag) -> bool {
    !matches!(flag, Flag::Accounted | Flag::ManuallyReplaced)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(values: &[Option<f64>]) -> Points {
        let flag = |value: &Option<f64>| if value.is_some() { Flag::Valid } else { Flag::Missing };
        values.iter().map(|value| (*value, flag(value))).collect()
    }

    fn series(values: &[f64]) -> Points {
        points(&values.iter().map(|value| Some(*value)).collect::<Vec<_>>())
    }

    #[test]
    fn rules_find_what_breaks_them_and_nothing_else() {
        let nan = f64::NAN;
        for (rule, values, expected) in [
            (Rule::Range { min: 0.0, max: 10.0 }, series(&[0.0, 10.0, 10.1, -0.1, nan, 5.0]), vec![2, 3, 4]),
            (Rule::Range { min: f64::NEG_INFINITY, max: 10.0 }, series(&[-1e300, 11.0]), vec![1]),
            // A spike is found, and not the way back; a new level is found once.
            (Rule::Jump { max: 2.0 }, series(&[1.0, 2.0, 9.0, 2.5, 3.0]), vec![2]),
            (Rule::Jump { max: 2.0 }, series(&[1.0, 9.0, 9.5, 10.0, 2.0, 10.5]), vec![1, 4]),
            (Rule::Jump { max: 2.0 }, points(&[Some(1.0), None, Some(9.0), Some(1.5)]), vec![2]),
            (Rule::Jump { max: 2.0 }, series(&[1.0, nan, 2.0]), vec![1]),
            (Rule::Constant { intervals: 2 }, series(&[5.0, 5.0, 5.0, 5.0, 1.0, 0.0, 0.0, 0.0]), vec![2, 3]),
            (Rule::Constant { intervals: 1 }, points(&[Some(5.0), None, Some(5.0)]), vec![]),
            (Rule::Gap, points(&[None, Some(1.0), None]), vec![0, 2]),
            (Rule::Gap, points(&[]), vec![]),
        ] {
            assert_eq!(rule.broken(&values), expected, "{rule:?} {values:?}");
        }
    }

    #[test]
    fn an_interval_without_an_expected_value_is_no_gap() {
        let mut values = points(&[None, None]);
        values.set(0, None, Flag::NoValue);
        assert_eq!(Rule::Gap.broken(&values), [1]);
    }

    #[test]
    fn runs_are_interpolated_between_good_values_only() {
        let values = points(&[None, Some(1.0), None, Some(99.0), Some(4.0), None, None, None, Some(8.0), None]);
        // The value 99 was found by a rule.
        let places = [0, 2, 3, 5, 6, 7, 9];
        assert_eq!(interpolated(&values, &places, 3), [(2, 2.0), (3, 3.0), (5, 5.0), (6, 6.0), (7, 7.0)]);
        assert_eq!(interpolated(&values, &places, 2), [(2, 2.0), (3, 3.0)]);
        assert_eq!(interpolated(&values, &[], 9), []);
        assert_eq!(interpolated(&points(&[None, None]), &[0, 1], 9), []);
    }
}
