//! Conversion between rasters: vectors of HAKOM TSM, laws, and a slow reference.

use proptest::prelude::*;

use super::*;

fn points(all: &[(Option<f64>, Flag)]) -> Points {
    all.iter().copied().collect()
}

fn bounds(from: i64, width: i64, count: i64) -> Vec<i64> {
    (0..=count).map(|at| from + at * width).collect()
}

#[test]
fn an_hour_of_quarters_has_their_sum_and_their_greatest_flag() {
    use Flag::{Accounted, Missing, Valid};
    let quarters = points(&[(Some(0.0), Missing), (Some(10.0), Valid), (Some(20.0), Valid), (Some(30.0), Accounted)]);
    let hour = |quarters: &Points, rule| convert(&bounds(0, 15, 4), quarters, &[0, 60], rule).get(0);
    assert_eq!(hour(&quarters, Aggregation::Sum), (Some(60.0), Missing));
    let absent = points(&[(None, Missing), (Some(10.0), Valid), (Some(20.0), Valid), (Some(30.0), Accounted)]);
    for (rule, expected) in [
        (Aggregation::Sum, Some(60.0)),
        (Aggregation::Average, Some(20.0)),
        (Aggregation::Minimum, Some(10.0)),
        (Aggregation::Maximum, Some(30.0)),
        (Aggregation::First, Some(10.0)),
        (Aggregation::Last, Some(30.0)),
        (Aggregation::Count, Some(3.0)),
    ] {
        assert_eq!(hour(&absent, rule), (expected, Missing), "{rule:?}");
    }
    let no_value = points(&[(Some(7.0), Flag::NoValue), (Some(10.0), Valid), (Some(20.0), Valid), (Some(30.0), Valid)]);
    assert_eq!(hour(&no_value, Aggregation::Average), (Some(20.0), Valid), "NoValue is not in the divisor");
    assert_eq!(hour(&Points::missing(4), Aggregation::Sum), (None, Missing));
}

#[test]
fn sums_and_means_of_many_values_are_not_off_by_rounding() {
    for (value, sum) in [0.1, 0.3, 1e15 + 0.5, 1.0 / 3.0].map(|value| (value, value * 96.0)) {
        let day: Points = (0..96).map(|_| (Some(value), Flag::Valid)).collect();
        let on = |rule| convert(&bounds(0, 15, 96), &day, &[0, 96 * 15], rule).values[0];
        assert!((on(Aggregation::Sum) / sum - 1.0).abs() <= f64::EPSILON, "sum of {value}");
        assert!((on(Aggregation::Average) / value - 1.0).abs() <= f64::EPSILON, "mean of {value}");
    }
}

#[test]
fn intervals_that_the_source_does_not_cover_are_missing() {
    let hours = points(&[(Some(1.0), Flag::Valid), (Some(2.0), Flag::Valid)]);
    let source = bounds(60, 60, 2);
    let days = convert(&source, &hours, &[0, 120, 240, 360], Aggregation::Sum);
    assert_eq!(days.get(0), (Some(1.0), Flag::Missing), "half of it is before the source");
    assert_eq!(days.get(1), (Some(2.0), Flag::Missing), "half of it is after the source");
    assert_eq!(days.get(2), (None, Flag::Missing));
    assert_eq!(convert(&source, &hours, &[60, 120, 180], Aggregation::Average), hours);
    assert_eq!(convert(&[], &Points::default(), &[0, 60], Aggregation::Sum), Points::missing(1));
    assert_eq!(convert(&source, &hours, &[], Aggregation::Sum), Points::default());
}

#[test]
fn steps_hold_until_the_next_and_the_last_for_ever() {
    let steps = points(&[(Some(10.0), Flag::Valid), (Some(40.0), Flag::Estimated)]);
    let times = [30, 90];
    let average = convert_steps(&times, &steps, &[0, 60, 120, 180], Aggregation::Average);
    assert_eq!(average.get(0), (Some(10.0), Flag::Missing), "nothing is known of the first half");
    assert_eq!(average.get(1), (Some(25.0), Flag::Estimated));
    assert_eq!(average.get(2), (Some(40.0), Flag::Estimated));
    let sum = convert_steps(&times, &steps, &[0, 60, 120, 180], Aggregation::Sum);
    assert_eq!(sum.get(1), (Some(40.0), Flag::Estimated));
    assert_eq!(sum.get(2), (None, Flag::Missing));
    let far = convert_steps(&[i64::MIN], &points(&[(Some(1.0), Flag::Valid)]), &[0, 60], Aggregation::Average);
    assert_eq!(far.get(0), (Some(1.0), Flag::Valid));
}

#[test]
fn nan_and_infinities_are_values() {
    let source = bounds(0, 15, 2);
    for rule in [Aggregation::Sum, Aggregation::Average, Aggregation::Minimum, Aggregation::Maximum] {
        for all in [[Some(f64::NAN), Some(1.0)], [Some(1.0), Some(f64::NAN)]] {
            let all = points(&all.map(|value| (value, Flag::Valid)));
            assert!(convert(&source, &all, &[0, 30], rule).values[0].is_nan(), "{rule:?}");
        }
    }
    let infinite = points(&[(Some(f64::INFINITY), Flag::Valid), (Some(1.0), Flag::Valid)]);
    assert_eq!(convert(&source, &infinite, &[0, 30], Aggregation::Sum).values, [f64::INFINITY]);
}

/// Result of one target interval, computed minute by minute: every bound of the tests is a whole minute.
fn slow(source: &[i64], points: &Points, from: i64, to: i64, rule: Aggregation) -> (Option<f64>, Flag) {
    let (mut sum, mut count, mut flag, mut is_missing) = (0.0, 0, Flag::NoValue, false);
    for minute in from..to {
        let at = (0..points.len()).find(|at| source[*at] <= minute && minute < source[at + 1]);
        let Some(at) = at else {
            is_missing = true;
            continue;
        };
        flag = flag.max(points.flags[at]);
        if points.present[at] && points.flags[at] != Flag::NoValue {
            let share = if rule == Aggregation::Sum { (source[at + 1] - source[at]) as f64 } else { 1.0 };
            sum += points.values[at] / share;
            count += 1;
        }
    }
    let value = if rule == Aggregation::Sum { sum } else { sum / f64::from(count) };
    ((count > 0).then_some(value), if is_missing { Flag::Missing } else { flag })
}

fn any_bounds() -> impl Strategy<Value = Vec<i64>> {
    (-40_i64..40, prop::collection::vec(1_i64..40, 1..12)).prop_map(|(from, widths)| {
        let mut bounds = vec![from];
        bounds.extend(widths.iter().scan(from, |at, width| {
            *at += width;
            Some(*at)
        }));
        bounds
    })
}

fn any_points(len: usize) -> impl Strategy<Value = Points> {
    prop::collection::vec((prop::option::of(-100.0..100.0), 0_usize..9), len)
        .prop_map(|all| all.into_iter().map(|(value, flag)| (value, Flag::ALL[flag])).collect())
}

proptest! {
    #[test]
    fn any_rasters_are_converted_as_minute_by_minute(
        (source, points) in any_bounds().prop_flat_map(|bounds| (Just(bounds.clone()), any_points(bounds.len() - 1))),
        target in any_bounds(),
        is_sum: bool,
    ) {
        let rule = if is_sum { Aggregation::Sum } else { Aggregation::Average };
        let converted = convert(&source, &points, &target, rule);
        for (at, interval) in target.windows(2).enumerate() {
            let (expected, flag) = slow(&source, &points, interval[0], interval[1], rule);
            let (value, own_flag) = converted.get(at);
            prop_assert_eq!(flag, own_flag);
            prop_assert_eq!(value.is_some(), expected.is_some());
            prop_assert!((value.unwrap_or(0.0) - expected.unwrap_or(0.0)).abs() < 1e-9, "{:?} {:?}", value, expected);
        }
    }

    #[test]
    fn a_sum_is_kept_through_any_raster_that_covers_it(
        (source, points) in any_bounds().prop_flat_map(|bounds| (Just(bounds.clone()), any_points(bounds.len() - 1))),
        widths in prop::collection::vec(1_i64..40, 1..12),
    ) {
        let last = source[source.len() - 1];
        let mut middle = vec![source[0]];
        for width in widths.iter().cycle() {
            let next = middle[middle.len() - 1] + width;
            middle.push(next.min(last));
            if next >= last {
                break;
            }
        }
        let total = |bounds: &[i64], points: &Points| {
            convert(bounds, points, &[source[0], last], Aggregation::Sum).get(0)
        };
        let converted = convert(&source, &points, &middle, Aggregation::Sum);
        // NoValue has no value to keep.
        prop_assume!(!converted.flags.contains(&Flag::NoValue));
        let (direct, flag) = total(&source, &points);
        let (by_middle, middle_flag) = total(&middle, &converted);
        prop_assert_eq!(flag, middle_flag);
        prop_assert!((direct.unwrap_or(0.0) - by_middle.unwrap_or(0.0)).abs() < 1e-9);
    }
}

#[test]
fn only_parts_of_time_count_and_nothing_is_missing_elsewhere() {
    let some = |value: f64| Some(value);
    // Ten intervals of length 10 with the values 0 to 9; 40 .. 50 is absent. The parts are 5 .. 15, 20 .. 40 and 60 .. 70.
    let parts = vec![(5, 15), (20, 40), (60, 70)];
    let run = |target: &[i64], rule: Aggregation, without: &[i64]| {
        let mut converter = Converter::within(target, rule, parts.clone());
        for at in (0..10_i64).filter(|at| !without.contains(at)) {
            let value = if at == 4 { None } else { some(at as f64) };
            converter.push(at * 10, at * 10 + 10, value, if at == 4 { Flag::Missing } else { Flag::Valid });
        }
        converter.finish().iter().collect::<Vec<_>>()
    };
    use Aggregation::{Average, Count, Sum};
    for (target, rule, expected) in [
        // The halves of 0 and 1, 2 and 3, and 6.
        (&[0, 100][..], Sum, vec![(some(0.5 + 2.0 + 3.0 + 6.0), Flag::Valid)]),
        (
            &[0, 100],
            Average,
            vec![(some((0.0 * 5.0 + 1.0 * 5.0 + 2.0 * 10.0 + 3.0 * 10.0 + 6.0 * 10.0) / 40.0), Flag::Valid)],
        ),
        (
            &[0, 20, 40, 60, 80],
            Sum,
            vec![(some(0.5), Flag::Valid), (some(5.0), Flag::Valid), (None, Flag::NoValue), (some(6.0), Flag::Valid)],
        ),
        (&[40, 60, 80], Count, vec![(some(0.0), Flag::NoValue), (some(1.0), Flag::Valid)]),
    ] {
        assert_eq!(run(target, rule, &[]), expected, "{target:?} {rule:?}");
        // An absent value outside of the parts is not missing.
        assert_eq!(run(target, rule, &[4, 5, 7, 8, 9]), expected, "{target:?} {rule:?} without others");
    }
    assert_eq!(run(&[0, 100], Sum, &[3]), [(some(8.5), Flag::Missing)]);
    assert_eq!(run(&[0, 100], Sum, &[6]), [(some(5.5), Flag::Missing)]);
    assert_eq!(run(&[0, 100], Sum, &[0]), [(some(11.5), Flag::Missing)]);
}
