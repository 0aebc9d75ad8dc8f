//! Operators on events that are chosen to be difficult, compared with their definitions.

use std::collections::BTreeMap;
use std::convert::Infallible;

use super::*;
use crate::calendar::start_of_year;
use crate::event::{CONNECTION_LOST, CONNECTION_REGAINED};
use crate::sample::{Array, Sample, Scalar, Severity, Value};

/// 2024-01-01, a bin's edge for every N that divides a day.
fn zero() -> Nanos {
    start_of_year(2024)
}

fn span(from: f64, to: f64) -> Span {
    Span { from: at(from), to: at(to) }
}

fn at(seconds: f64) -> Nanos {
    zero() + (seconds * 1e9).round() as i64
}

fn event(seconds: f64, value: f64) -> Event {
    let value = Value::Scalar(Scalar::Float64(value));
    Sample { time: at(seconds), value, severity: Severity::None, status: 0 }.into()
}

fn text(seconds: f64, value: &str) -> Event {
    let value = Value::Scalar(Scalar::Text(value.into()));
    Sample { time: at(seconds), value, severity: Severity::None, status: 0 }.into()
}

fn run(operator: &str, events: &[Event], span: Span) -> Vec<Event> {
    try_run(operator, events, span).expect("the operator takes these events")
}

fn try_run(operator: &str, events: &[Event], span: Span) -> Result<Vec<Event>, ProcessError<Infallible>> {
    Operator::parse(operator).unwrap().run(events.iter().cloned().map(Ok), span).collect()
}

/// Seconds since [`zero`], and the value, of a scalar or each element.
fn plain(events: &[Event]) -> Vec<(f64, Vec<f64>)> {
    events
        .iter()
        .map(|event| {
            let values = match &event.sample.value {
                Value::Array(Array::Float64(values)) => values.clone(),
                _ => vec![event.number().expect("a number")],
            };
            ((event.time() - zero()) as f64 / 1e9, values)
        })
        .collect()
}

fn scalars(events: &[Event]) -> Vec<(f64, f64)> {
    plain(events).into_iter().map(|(time, values)| (time, values[0])).collect()
}

/// Checks an operator over `(seconds, value)` against what it replies.
fn check(operator: &str, events: &[(f64, f64)], from_to: (f64, f64), expected: &[(f64, f64)]) {
    let events: Vec<Event> = events.iter().map(|(time, value)| event(*time, *value)).collect();
    let seen = scalars(&run(operator, &events, span(from_to.0, from_to.1)));
    assert_eq!(format!("{seen:?}"), format!("{expected:?}"), "{operator} in {from_to:?}");
}

#[test]
fn statistics_are_at_the_middle_of_bins_that_are_aligned_to_the_epoch() {
    let events = [(1.0, 1.0), (9.5, 3.0), (10.0, 5.0), (29.0, 7.0)];
    check("mean_10", &events, (0.0, 29.0), &[(5.0, 2.0), (15.0, 5.0), (25.0, 7.0)]);
    check("max_10", &events, (0.0, 29.0), &[(5.0, 3.0), (15.0, 5.0), (25.0, 7.0)]);
    check("count_10", &events, (0.0, 29.0), &[(5.0, 2.0), (15.0, 1.0), (25.0, 1.0)]);
    check("variance_10", &events, (0.0, 29.0), &[(5.0, 2.0), (15.0, 0.0), (25.0, 0.0)]);
    check("popvariance_10", &events, (0.0, 29.0), &[(5.0, 1.0), (15.0, 0.0), (25.0, 0.0)]);
    check("median_20", &events, (0.0, 29.0), &[(10.0, 3.0), (30.0, 7.0)]);
}

#[test]
fn odd_bins_have_a_half_second_in_statistics_and_not_in_fills() {
    // 2024-01-01 is a multiple of 3 s.
    let events = [(0.5, 1.0), (4.0, 3.0)];
    check("mean_3", &events, (0.0, 5.0), &[(1.5, 1.0), (4.5, 3.0)]);
    check("firstFill_3", &events, (0.0, 5.0), &[(1.0, 1.0), (4.0, 3.0)]);
    check("mean_1", &events, (0.0, 1.0), &[(0.5, 1.0), (1.5, 1.0)]);
}

#[test]
fn empty_bins_repeat_the_one_before_up_to_the_bin_of_the_end() {
    let events = [(1.0, 1.0), (31.0, 3.0)];
    let range = (0.0, 50.0);
    check("mean_10", &events, range, &[(5.0, 1.0), (15.0, 1.0), (25.0, 1.0), (35.0, 3.0), (45.0, 3.0), (55.0, 3.0)]);
    check("count_10", &events, range, &[(5.0, 1.0), (15.0, 0.0), (25.0, 0.0), (35.0, 1.0), (45.0, 0.0), (55.0, 0.0)]);
    check(
        "lastFill_10",
        &events,
        range,
        &[(5.0, 1.0), (15.0, 1.0), (25.0, 1.0), (35.0, 3.0), (45.0, 3.0), (55.0, 3.0)],
    );
    check("meanSample_10", &events, range, &[(5.0, 1.0), (35.0, 3.0)]);
    check("countSample_10", &events, range, &[(5.0, 1.0), (35.0, 1.0)]);
    check("lastSample_10", &events, range, &[(1.0, 1.0), (31.0, 3.0)]);
    check("firstSample_10", &events, range, &[(1.0, 1.0), (31.0, 3.0)]);
}

#[test]
fn event_before_the_range_is_a_bin_of_its_own_before_the_first() {
    let events = [(-100.0, 7.0), (12.0, 1.0)];
    // The middle of the first bin is after `from`, so that both are seen.
    check("mean_10", &events, (4.0, 19.0), &[(-5.0, 7.0), (5.0, 7.0), (15.0, 1.0)]);
    // It is not: of the bins at or before `from`, the last is seen.
    check("mean_10", &events, (6.0, 19.0), &[(5.0, 7.0), (15.0, 1.0)]);
    check("meanSample_10", &events, (6.0, 19.0), &[(-5.0, 7.0), (15.0, 1.0)]);
    check("mean_10", &[(-100.0, 7.0), (4.0, 1.0)], (4.0, 9.0), &[(5.0, 1.0)]);
    check("firstFill_10", &events, (4.0, 19.0), &[(-5.0, 7.0), (5.0, 7.0), (15.0, 1.0)]);
    check("lastSample_10", &events, (4.0, 19.0), &[(-100.0, 7.0), (12.0, 1.0)]);
    check("firstSample_10", &events, (4.0, 19.0), &[(-100.0, 7.0), (12.0, 1.0)]);
    // Before `from` but in its bin: the statistics take it for the bin before, the others for the bin itself.
    check("mean_10", &[(1.0, 7.0), (5.0, 1.0)], (4.0, 9.0), &[(-5.0, 7.0), (5.0, 1.0)]);
    check("firstSample_10", &[(1.0, 7.0), (5.0, 1.0)], (4.0, 9.0), &[(1.0, 7.0)]);
    check("lastSample_10", &[(1.0, 7.0), (5.0, 1.0)], (4.0, 9.0), &[(5.0, 1.0)]);
}

#[test]
fn range_without_events_repeats_the_event_before_it() {
    let before = [(-100.0, 7.0)];
    check("mean_10", &before, (4.0, 19.0), &[(-5.0, 7.0), (5.0, 7.0), (15.0, 7.0)]);
    check("firstSample_10", &before, (4.0, 19.0), &[(-100.0, 7.0)]);
    check("firstFill_10", &before, (4.0, 19.0), &[(-5.0, 7.0), (5.0, 7.0), (15.0, 7.0)]);
    check("caplotbinning_10", &before, (4.0, 19.0), &[(-100.0, 7.0)]);
    check("optimized_10", &before, (4.0, 19.0), &[(-100.0, 7.0)]);
    check("optimLastSample_10", &before, (4.0, 19.0), &[(-100.0, 7.0)]);
    check("ncount", &before, (4.0, 19.0), &[(4.0, 0.0)]);
    for operator in ["nth_2", "mean", "optimized", "firstFill", "lastSample", "caplotbinning", "flyers", "deadBand"] {
        check(operator, &[], (4.0, 19.0), &[]);
    }
    check("ncount", &[], (4.0, 19.0), &[(4.0, 0.0)]);
}

#[test]
fn nan_is_skipped_and_a_bin_of_nothing_else_is_nan() {
    let nan = f64::NAN;
    let events = [(1.0, nan), (2.0, 4.0), (11.0, nan), (21.0, 8.0)];
    check("mean_10", &events, (0.0, 29.0), &[(5.0, 4.0), (15.0, nan), (25.0, 8.0)]);
    check("min_10", &events, (0.0, 29.0), &[(5.0, 4.0), (15.0, nan), (25.0, 8.0)]);
    check("std_10", &events, (0.0, 29.0), &[(5.0, 0.0), (15.0, nan), (25.0, 0.0)]);
    check("median_10", &events, (0.0, 29.0), &[(5.0, 4.0), (15.0, nan), (25.0, 8.0)]);
    check("count_10", &events, (0.0, 29.0), &[(5.0, 1.0), (15.0, 0.0), (25.0, 1.0)]);
    check("skewness_10", &events, (0.0, 29.0), &[(5.0, nan), (15.0, nan), (25.0, nan)]);
    check("linear_10", &events, (0.0, 29.0), &[(5.0, nan), (15.0, nan), (25.0, 8.0)]);
    check("ncount", &events, (0.0, 29.0), &[(0.0, 4.0)]);
}

#[test]
fn linear_is_the_line_at_the_middle_or_the_first_value() {
    for (events, expected) in [
        (&[(4.0, 10.0), (6.0, 20.0)][..], 15.0),
        (&[(1.0, 0.0), (3.0, 100.0), (5.0, 10.0), (8.0, 20.0)], 10.0),
        (&[(1.0, 3.0), (5.0, 9.0)], 9.0),
        (&[(5.0, 3.0), (6.0, 9.0)], 3.0),
        (&[(6.0, 3.0), (7.0, 9.0)], 3.0),
        (&[(1.0, 3.0), (4.0, 9.0)], 3.0),
        (&[(2.0, 3.0)], 3.0),
    ] {
        check("linear_10", events, (0.0, 9.0), &[(5.0, expected)]);
    }
}

#[test]
fn severity_of_a_bin_is_its_highest_and_connection_changes_are_marked() {
    let mut events: Vec<Event> = [1.0, 2.0, 11.0, 31.0].map(|time| event(time, time)).into();
    events[0].sample.severity = Severity::Major;
    events[0].sample.status = 3;
    events[2].fields = vec![(CONNECTION_REGAINED.into(), "1".into())];
    let mut before = event(-5.0, 0.0);
    before.sample.severity = Severity::Invalid;
    events.insert(0, before);
    let seen: Vec<_> = run("mean_10", &events, span(0.0, 39.0))
        .into_iter()
        .map(|event| (event.sample.severity as u8, event.sample.status, event.fields, event.actual_change))
        .collect();
    let change = vec![("connectionChange".to_owned(), "true".to_owned())];
    assert_eq!(
        seen,
        [
            (0, 0, vec![], None),
            (2, 0, vec![], None),
            (0, 0, change.clone(), None),
            (0, 0, change, None),
            (0, 0, vec![], None)
        ]
    );
}

#[test]
fn error_bar_has_the_deviation_as_a_field() {
    let events = [event(1.0, 1.0), event(2.0, 3.0)];
    let seen = run("errorbar_10", &events, span(0.0, 9.0));
    assert_eq!(scalars(&seen), [(5.0, 2.0)]);
    assert_eq!(seen[0].fields, [("stdz".to_owned(), "1.4142135623730951".to_owned())]);
}

#[test]
fn fields_are_kept_by_choosers_of_events_and_dropped_by_those_that_make_new_ones() {
    let mut source = event(1.0, 1.0);
    source.fields = vec![("HIHI".into(), "3".into())];
    source.sample.status = 5;
    for (operator, kept) in [
        ("firstSample", true),
        ("deadBand", true),
        ("ignoreflyers", true),
        ("optimized", true),
        ("lastSample", false),
        ("firstFill", false),
        ("lastFill", false),
        ("nth", false),
    ] {
        let seen = run(operator, std::slice::from_ref(&source), span(0.0, 9.0));
        assert_eq!((seen.len(), seen[0].fields.len(), seen[0].sample.status), (1, usize::from(kept), 5), "{operator}");
    }
}

#[test]
fn flyers_are_beyond_the_deviations_of_their_bin() {
    let events = [(1.0, 1.0), (2.0, 1.0), (3.0, 1.0), (4.0, 9.0), (5.0, f64::NAN), (11.0, 50.0)];
    // Mean 3, standard deviation 4.
    check("flyers_10_1", &events, (0.0, 19.0), &[(4.0, 9.0)]);
    check("ignoreflyers_10_1", &events, (0.0, 19.0), &[(1.0, 1.0), (2.0, 1.0), (3.0, 1.0), (11.0, 50.0)]);
    check("ignoreflyers_10_1.5", &events, (0.0, 19.0), &[(1.0, 1.0), (2.0, 1.0), (3.0, 1.0), (4.0, 9.0), (11.0, 50.0)]);
    check("flyers_10", &events, (0.0, 19.0), &[]);
}

#[test]
fn dead_band_keeps_what_differs_from_the_last_kept() {
    let nan = f64::NAN;
    let mut events: Vec<Event> = [0.0, 0.9, 1.0, 1.1, 0.2, nan, 0.2, 0.3, 0.3, 0.3]
        .iter()
        .zip(0..)
        .map(|(v, t)| event(f64::from(t), *v))
        .collect();
    events[7].sample.severity = Severity::Minor;
    events[8].fields = vec![(CONNECTION_LOST.into(), "1".into())];
    events[8].sample.severity = Severity::Minor;
    let seen = scalars(&run("deadBand", &events, span(0.0, 20.0)));
    let times: Vec<f64> = seen.iter().map(|event| event.0).collect();
    assert_eq!(times, [0.0, 3.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
    check("deadBand_0", &[(0.0, 1.0), (1.0, 1.0), (2.0, 2.0)], (0.0, 9.0), &[(0.0, 1.0), (2.0, 2.0)]);
}

/// A signal that was archived without a dead band, and its copy with one of 2 in the IOC: `sig1-wo-adel.pb` and
/// `sig2-w-adel.pb` of the Appliance's tests, in the folder `EPICS_PB_GOLDEN`. Nothing is tested without them.
#[test]
fn dead_band_of_a_signal_is_the_one_of_an_ioc() {
    let Some(folder) = std::env::var_os("EPICS_PB_GOLDEN") else { return };
    let read = |name: &str| -> Option<Vec<Event>> {
        let file = std::fs::File::open(std::path::Path::new(&folder).join(name)).ok()?;
        let records = crate::pb::Reader::new(file).map(Result::unwrap);
        Some(
            records
                .filter_map(|record| if let crate::pb::Record::Event(event) = record { Some(event) } else { None })
                .collect(),
        )
    };
    let (Some(all), Some(with_band)) = (read("sig1-wo-adel.pb"), read("sig2-w-adel.pb")) else { return };
    let range = Span { from: all[0].time(), to: all[all.len() - 1].time() };
    let values = |events: &[Event]| format!("{:?}", events.iter().filter_map(Event::number).collect::<Vec<_>>());
    assert_eq!(values(&run("deadBand_2.0", &all, range)), values(&with_band));
}

#[test]
fn every_kth_event_of_the_range_is_taken_of_any_type() {
    let events: Vec<(f64, f64)> = (-1..10).map(|n| (f64::from(n), f64::from(n))).collect();
    check("nth_3", &events, (0.0, 8.0), &[(0.0, 0.0), (3.0, 3.0), (6.0, 6.0)]);
    check("ncount", &events, (0.0, 8.0), &[(0.0, 9.0)]);
    let texts = [text(-1.0, "x"), text(1.0, "a"), text(2.0, "b"), text(11.0, "c")];
    let taken = |operator| -> Vec<Value> {
        run(operator, &texts, span(0.0, 19.0)).into_iter().map(|event| event.sample.value).collect()
    };
    let value = |text: &str| Value::Scalar(Scalar::Text(text.into()));
    assert_eq!(taken("nth_2"), [value("a"), value("c")]);
    assert_eq!(taken("lastFill_10"), [value("x"), value("b"), value("c")]);
    assert_eq!(taken("firstSample_10"), [value("x"), value("a"), value("c")]);
    assert_eq!(taken("ncount"), [Value::Scalar(Scalar::Int32(3))]);
}

#[test]
fn operators_that_compute_refuse_texts_and_take_the_first_element_of_waveforms() {
    for operator in ["mean", "optimized", "flyers", "deadBand", "caplotbinning", "loess", "count"] {
        let refused = try_run(operator, &[text(1.0, "a")], span(0.0, 9.0));
        assert_eq!(refused, Err(ProcessError::NotNumeric { time: at(1.0) }), "{operator}");
    }
    let waveform = |seconds, values| -> Event {
        let value = Value::Array(Array::Int16(values));
        Sample { time: at(seconds), value, severity: Severity::None, status: 0 }.into()
    };
    let events = [waveform(1.0, vec![4, 100]), waveform(2.0, vec![]), waveform(3.0, vec![6])];
    assert_eq!(scalars(&run("mean_10", &events, span(0.0, 9.0))), [(5.0, 5.0)]);
}

#[test]
fn few_events_stay_as_they_are_when_optimized_and_more_become_statistics() {
    let events: Vec<Event> = (-1..20).map(|n| event(f64::from(n), f64::from(n % 2))).collect();
    let range = span(0.0, 20.0);
    // An event at exactly `from` makes the one before it unnecessary: 20 events.
    assert_eq!(run("optimized_20", &events, range), events[1..]);
    let binned = plain(&run("optimized_19", &events, range));
    assert_eq!(binned.len(), 21, "bins of one second, the last repeated");
    assert_eq!(binned[3], (3.5, vec![1.0, 0.0, 1.0, 1.0, 1.0]));
    let binned = plain(&run("optimized_2", &events, range));
    let std = (2.5_f64 / 9.0).sqrt();
    assert_eq!(binned.len(), 3);
    assert_eq!(binned[0].1[..1], [0.5]);
    assert!((binned[0].1[1] - std).abs() < 1e-15);
    assert_eq!(binned[0].1[2..], [0.0, 1.0, 10.0]);
    assert_eq!(binned[2], (25.0, binned[1].1.clone()));
    assert_eq!(plain(&run("optimizedSample_2", &events, range)).len(), 2);
}

#[test]
fn few_events_of_a_short_range_are_those_in_it_and_the_one_before() {
    let events: Vec<(f64, f64)> = (0..5).map(|n| (f64::from(n) * 7.0, f64::from(n))).collect();
    for (from, to, expected) in [
        (-0.003, -0.002, &[][..]),
        (-0.003, 0.0, &[0]),
        (0.0, 6.999, &[0]),
        (13.999, 13.999, &[1]),
        (13.999, 14.02, &[1, 2]),
        (14.0, 14.02, &[2]),
        (15.0, 16.0, &[2]),
        (27.5, 90.0, &[3, 4]),
        (28.0, 90.0, &[4]),
        (60.0, 90.0, &[4]),
    ] {
        let expected: Vec<_> = expected.iter().map(|n| events[*n]).collect();
        check("optimized_8", &events, (from, to), &expected);
    }
}

#[test]
fn last_sample_of_optimized_fills_empty_bins() {
    let mut events: Vec<Event> =
        [(-5.0, 9.0), (1.0, 1.0), (2.0, 4.0), (35.0, 2.0), (36.0, 2.0)].map(|(t, v)| event(t, v)).into();
    events[2].sample.severity = Severity::Major;
    events[4].sample.severity = Severity::Minor;
    let seen = run("optimLastSample_4", &events, span(0.0, 60.0));
    let fill = |value: f64| vec![value, 0.0, value, value, 0.0, value];
    assert_eq!(
        plain(&seen),
        [
            (-7.5, vec![9.0, 0.0, 9.0, 9.0, 1.0, 9.0]),
            (7.5, vec![2.5, 4.5_f64.sqrt(), 1.0, 4.0, 2.0, 4.0]),
            (22.5, fill(4.0)),
            (37.5, vec![2.0, 0.0, 2.0, 2.0, 2.0, 2.0]),
            (52.5, fill(2.0)),
            (67.5, fill(2.0)),
        ]
    );
    // An empty bin has the severity of the sample before it.
    let severities: Vec<u8> = seen.iter().map(|event| event.sample.severity as u8).collect();
    assert_eq!(severities, [0, 2, 2, 1, 1, 1]);
}

#[test]
fn plot_bins_have_one_two_or_four_points() {
    let one = [(1.7, 5.0)];
    check("caplotbinning_100", &one, (0.0, 99.0), &[(1.0, 5.0)]);
    check("caplotbinning_100", &[(1.7, 5.0), (2.5, 6.0)], (0.0, 99.0), &[(1.0, 5.0), (2.0, 6.0)]);
    check("caplotbinning_100", &[(1.2, 5.0), (1.5, 6.0)], (0.0, 99.0), &[(1.0, 5.0), (1.5, 6.0)]);
    let many = [(1.0, 5.0), (2.0, 1.0), (3.0, f64::NAN), (4.0, 9.0), (5.0, 6.0)];
    check("caplotbinning_100", &many, (0.0, 99.0), &[(0.0, 5.0), (25.0, 1.0), (50.0, 9.0), (75.0, 6.0)]);
    check("caplotbinning_10", &many, (0.0, 9.0), &[(0.0, 5.0), (2.0, 1.0), (5.0, 9.0), (7.0, 6.0)]);
    let short = [(1.1, 5.0), (1.2, 1.0), (1.3, 9.0)];
    check("caplotbinning_1", &short, (0.5, 1.9), &[(1.0, 5.0), (1.25, 1.0), (1.5, 9.0), (1.75, 9.0)]);
}

#[test]
fn year_change_is_nothing_special() {
    let before = Event::from(Sample { time: zero() - 1, ..event(0.0, 1.0).sample });
    let seen = run("mean_900", &[before, event(0.0, 3.0)], Span { from: zero() - 900 * SECOND, to: zero() });
    assert_eq!(scalars(&seen), [(-450.0, 1.0), (450.0, 3.0)]);
}

#[test]
fn events_out_of_order_or_range_are_dropped_by_every_operator() {
    let good: Vec<Event> = [-3.0, 1.0, 2.0, 14.0].map(|time| event(time, time)).into();
    let mut bad = good.clone();
    bad.insert(2, event(0.5, 100.0));
    bad.insert(3, event(1.0, 100.0));
    bad.push(event(19.5, 100.0));
    bad.push(event(3.0, 100.0));
    for operator in ALL {
        assert_eq!(
            format!("{:?}", run(operator, &bad, span(0.0, 19.0))),
            format!("{:?}", run(operator, &good, span(0.0, 19.0))),
            "{operator}"
        );
    }
}

/// Every operator, and its variants.
const ALL: [&str; 42] = [
    "firstSample_7",
    "mean_7",
    "meanSample_7",
    "jitter_7",
    "std_7",
    "stdSample_7",
    "ignoreflyers_7_1",
    "flyers_7_1",
    "linear_7",
    "linearSample_7",
    "loess_7",
    "loess_60",
    "median_7",
    "medianSample_7",
    "variance_7",
    "popvariance_7",
    "kurtosis_7",
    "kurtosis_60",
    "skewness_7",
    "skewness_60",
    "firstFill_7",
    "lastFill_7",
    "lastSample_7",
    "max_7",
    "maxSample_7",
    "min_7",
    "count_7",
    "countSample_7",
    "ncount",
    "nth_3",
    "nth_1",
    "stats_7",
    "statsSample_7",
    "optimLastSample_5",
    "optimLastSample_1000",
    "optimized_5",
    "optimizedSample_5",
    "optimized_1000",
    "caplotbinning_7",
    "caplotbinning_1",
    "deadBand_0.5",
    "errorbar_7",
];

#[test]
fn output_is_in_order_without_duplicates_for_any_input() {
    let mut random = Random(7);
    for round in 0..400 {
        let (events, range) = random.adversarial();
        for operator in ALL {
            let seen = run(operator, &events, range);
            for pair in seen.windows(2) {
                assert!(pair[0].time() < pair[1].time(), "round {round}: {operator}: {pair:?}");
            }
            if operator != "ncount" {
                let before = seen.iter().filter(|event| event.time() <= range.from).count();
                assert!(before <= 1, "round {round}: {operator} has {before} events before the range");
            }
        }
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Events around bins' edges and the range's ends, with gaps, repeats, disorder and odd values.
    fn adversarial(&mut self) -> (Vec<Event>, Span) {
        let from = zero() - 40 * SECOND + self.below(100) as i64 * SECOND / 2;
        let span = Span { from, to: from + self.below(120) as i64 * SECOND / 2 };
        let mut time = from - self.below(30) as i64 * SECOND;
        let mut events = Vec::new();
        for _ in 0..self.below(60) {
            let step = [0, 1, SECOND / 2, SECOND - 1, SECOND, 7 * SECOND, 31 * SECOND][self.below(7) as usize];
            time += step - if self.below(10) == 0 { 3 * SECOND } else { 0 };
            let value = match self.below(12) {
                0 => f64::NAN,
                1 if self.below(8) == 0 => f64::INFINITY,
                _ => self.below(2000) as f64 / 7.0 - 100.0,
            };
            let mut event = Event::from(Sample { time, ..event(0.0, value).sample });
            event.sample.severity = Severity::of(self.below(4) as i64).unwrap();
            if self.below(6) == 0 {
                event.fields = vec![(CONNECTION_REGAINED.into(), "1".into()), (CONNECTION_LOST.into(), "0".into())];
            }
            events.push(event);
        }
        if self.below(2) == 0 {
            events.push(Event::from(Sample { time: span.to, ..event(0.0, 1.0).sample }));
        }
        (events, span)
    }
}

/// Statistics of a bin by their definitions, over all of its values.
fn by_definition(statistic: &str, values: &[f64]) -> f64 {
    let values: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let power = |k: i32| values.iter().map(|value| (value - mean).powi(k)).sum::<f64>();
    let variance = if n == 1.0 { 0.0 } else { power(2) / (n - 1.0) };
    match statistic {
        "count" => n,
        _ if n == 0.0 => f64::NAN,
        "mean" | "errorbar" => mean,
        "min" => values.iter().copied().fold(f64::INFINITY, f64::min),
        "max" => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        "variance" => variance,
        "std" => variance.sqrt(),
        "jitter" => variance.sqrt() / mean,
        "popvariance" => variance * (n - 1.0) / n,
        "median" => {
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0
        }
        "skewness" if n >= 3.0 => n / ((n - 1.0) * (n - 2.0)) * power(3) / variance.sqrt().powi(3),
        "kurtosis" if n >= 4.0 => {
            n * (n + 1.0) / ((n - 1.0) * (n - 2.0) * (n - 3.0)) * power(4) / variance.powi(2)
                - 3.0 * (n - 1.0).powi(2) / ((n - 2.0) * (n - 3.0))
        }
        _ => f64::NAN,
    }
}

/// Reply of a statistic, from lists of a bin's events.
fn expected_bins(statistic: &str, seconds: i64, fill: bool, events: &[Event], span: Span) -> Vec<(Nanos, f64, u8)> {
    let bin_of = |time: Nanos| time.div_euclid(SECOND * seconds);
    let mut kept: Vec<&Event> = Vec::new();
    for event in events {
        if event.time() <= span.to && kept.last().is_none_or(|last| last.time() < event.time()) {
            kept.push(event);
        }
    }
    let mut bins: BTreeMap<i64, (Vec<f64>, u8)> = BTreeMap::new();
    let before = kept.iter().rfind(|event| event.time() < span.from);
    if let (Some(before), false) = (before, kept.iter().any(|event| event.time() == span.from)) {
        bins.insert(bin_of(span.from) - 1, (vec![before.number().unwrap()], 0));
    }
    for event in kept.iter().filter(|event| event.time() >= span.from) {
        let bin = bins.entry(bin_of(event.time())).or_default();
        bin.0.push(event.number().unwrap());
        bin.1 = bin.1.max(event.sample.severity as u8);
    }
    let (mut found, mut all) = (None, Vec::new());
    for bin in bin_of(span.from) - 1..=bin_of(span.to) {
        let time = bin * seconds * SECOND + seconds * SECOND / 2;
        match bins.get(&bin) {
            Some((values, severity)) => found = Some((by_definition(statistic, values), *severity)),
            None if !fill => found = None,
            None if statistic == "count" => found = found.map(|_| (0.0, 0)),
            None => {}
        }
        if let Some((value, severity)) = found {
            all.push((time, value, severity));
        }
    }
    let before = all.iter().filter(|event| event.0 <= span.from).count();
    all.drain(..before.saturating_sub(1));
    all
}

#[test]
fn statistics_agree_with_their_definitions() {
    let statistics = [
        "mean",
        "errorbar",
        "min",
        "max",
        "count",
        "variance",
        "std",
        "jitter",
        "popvariance",
        "median",
        "skewness",
        "kurtosis",
    ];
    let mut random = Random(42);
    for round in 0..600 {
        let (events, span) = random.adversarial();
        let seconds = [1, 2, 7, 10, 60][round % 5];
        for statistic in statistics {
            for sample in ["", "Sample"] {
                let operator = format!("{statistic}{sample}_{seconds}");
                let expected = expected_bins(statistic, seconds, sample.is_empty(), &events, span);
                let seen: Vec<_> = run(&operator, &events, span)
                    .iter()
                    .map(|event| (event.time(), event.number().unwrap(), event.sample.severity as u8))
                    .collect();
                assert_eq!(seen.len(), expected.len(), "round {round}: {operator}");
                for (seen, expected) in seen.iter().zip(&expected) {
                    assert_eq!((seen.0, seen.2), (expected.0, expected.2), "round {round}: {operator}");
                    let (seen, expected) = (seen.1, expected.1);
                    // An infinite value leaves a mean of infinity or none, depending on the order of operations.
                    let close = (seen - expected).abs() <= 1e-9 * expected.abs().max(1.0);
                    let both = !seen.is_finite() && !expected.is_finite();
                    assert!(close || both, "round {round}: {operator}: {seen} is not {expected}");
                }
            }
        }
    }
}

#[test]
fn stats_are_the_five_statistics() {
    let mut random = Random(1);
    for _ in 0..100 {
        let (events, span) = random.adversarial();
        let stats = plain(&run("stats_7", &events, span));
        for (at, name) in ["mean", "std", "min", "max"].iter().enumerate() {
            let one: Vec<f64> = run(&format!("{name}_7"), &events, span).iter().map(|e| e.number().unwrap()).collect();
            let same: Vec<f64> = stats.iter().map(|event| event.1[at]).collect();
            assert_eq!(format!("{one:?}"), format!("{same:?}"));
        }
    }
}

#[test]
fn optimized_is_either_the_events_or_their_statistics() {
    let mut random = Random(3);
    for _ in 0..300 {
        let (events, span) = random.adversarial();
        let every = run("optimized_100000", &events, span);
        let seconds = (span.to.div_euclid(SECOND) - span.from.div_euclid(SECOND)) / 10;
        let stats = run(&format!("stats_{}", seconds.max(1)), &events, span);
        // With 10 points, the event before the range counts, unless one is at `from`.
        let expected = if every.len() <= 10 { every } else { stats };
        assert_eq!(format!("{:?}", run("optimized_10", &events, span)), format!("{expected:?}"));
    }
}

#[test]
fn fill_of_a_long_range_is_made_as_it_is_taken() {
    let operator = Operator::parse("mean_1").unwrap();
    let events = [Ok::<_, Infallible>(event(0.0, 1.0))];
    let century = Span { from: zero(), to: zero() + 100 * 365 * 86_400 * SECOND };
    let mut processed = operator.run(events, century);
    assert_eq!(processed.by_ref().take(1_000_000).filter(Result::is_ok).count(), 1_000_000);
    assert!(processed.out.queue.len() <= 2);
}

#[test]
fn extreme_times_and_intervals_do_not_overflow() {
    for operator in ALL.iter().map(|name| name.split('_').next().unwrap()) {
        for parameter in ["", "_1", "_2147483647"] {
            if operator == "ncount" && !parameter.is_empty() {
                continue;
            }
            let extremes = [Nanos::MIN, -1, 0, 1, Nanos::MAX];
            let events = extremes.map(|time| Event::from(Sample { time, ..event(0.0, 1.0).sample }));
            for span in [(Nanos::MIN, Nanos::MAX), (0, 0), (Nanos::MAX, Nanos::MAX), (Nanos::MIN, Nanos::MIN)] {
                let span = Span { from: span.0, to: span.1 };
                let operator = Operator::parse(&format!("{operator}{parameter}")).unwrap();
                let seen = operator.run(events.iter().cloned().map(Ok::<_, Infallible>), span).take(100).count();
                assert!(seen <= 100);
            }
        }
    }
}

#[test]
fn error_of_the_source_ends_the_processing() {
    let operator = Operator::parse("mean_10").unwrap();
    let mut processed = operator.run([Ok(event(1.0, 1.0)), Err("disk"), Ok(event(2.0, 2.0))], span(0.0, 50.0));
    assert_eq!(processed.next(), Some(Err(ProcessError::Source("disk"))));
    assert_eq!(processed.next(), None);
}

#[test]
fn requests_name_an_operator_and_a_pv_with_any_characters() {
    let operator = |name: &str| Some(Operator::parse(name).unwrap());
    for (text, pv, expected) in [
        ("PV", "PV", None),
        ("SYS:A(1).VAL", "SYS:A(1).VAL", None),
        ("SYS:A(1)", "SYS:A(1)", None),
        ("A(1).VAL", "A(1).VAL", None),
        ("(x)", "(x)", None),
        ("mean_60(SYS:A(1).VAL)", "SYS:A(1).VAL", operator("mean_60")),
        ("mean(SYS:A(1)(2))", "SYS:A(1)(2)", operator("mean_900")),
        ("mean(PV,60)", "PV", operator("mean_60")),
        ("mean(A,B)", "A,B", operator("mean")),
        ("ignoreflyers(A:B, 60, 2.5)", "A:B", operator("ignoreflyers_60_2.5")),
        ("ignoreflyers_60(A:B,2.5)", "A:B", operator("ignoreflyers_60_2.5")),
        ("deadBand_0.5({A}B-C.HIHI)", "{A}B-C.HIHI", operator("deadBand_0.5")),
        ("stdev_60(PV)", "PV", operator("std_60")),
        ("lastSample(PV)", "PV", operator("lastSample_900")),
        ("optimized(PV)", "PV", operator("optimized_1000")),
        ("statsSample_60(PV)", "PV", operator("statsSample_60")),
    ] {
        let request = Request::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!((request.pv.as_str(), request.operator), (pv, expected), "{text}");
    }
    assert_ne!(operator("meanSample_60"), operator("mean_60"));
    assert_eq!(operator("medianSample").unwrap().name(), "median");
}

#[test]
fn errors_of_requests_name_what_is_known() {
    for (text, message) in [
        ("meen_60(PV)", "unknown operator \"meen\": expected one of firstSample, mean, jitter, std,"),
        ("mean_0(PV)", "operator mean: parameter \"0\": expected seconds of a bin from 1 on"),
        ("mean_-5(PV)", "operator mean: parameter \"-5\": expected seconds of a bin from 1 on"),
        ("mean_(PV)", "operator mean: parameter \"\": expected seconds of a bin from 1 on"),
        ("mean_60_2(PV)", "operator mean: parameter \"2\": expected no further parameter"),
        ("nth_x(PV)", "operator nth: parameter \"x\": expected a number of events from 1 on"),
        ("optimized_0(PV)", "operator optimized: parameter \"0\": expected a number of points from 1 on"),
        ("flyers_60_NaN(PV)", "operator flyers: parameter \"NaN\": expected a number of standard deviations, as 2.5"),
        ("deadBand_-1(PV)", "operator deadBand: parameter \"-1\": expected a difference of values, as 0.5"),
        ("mean_60(A(1)", "unbalanced parentheses in \"mean_60(A(1)\": expected operator_N(PV)"),
        ("mean_60(A)(B", "unbalanced parentheses in \"mean_60(A)(B\": expected operator_N(PV)"),
        ("mean_60()", "no PV in \"mean_60()\": expected operator_N(PV)"),
    ] {
        let error = Request::parse(text).expect_err(text).to_string();
        assert!(error.starts_with(message), "{text}: {error}");
    }
}

/// Events of whole units between the ends of a span as parts, the others as they are.
fn in_parts(events: &[Event], unit: i64, span: Span) -> Vec<Input> {
    let unit = unit * 1_000_000_000;
    let whole = span.from.div_euclid(unit) * unit + unit..span.to.div_euclid(unit) * unit;
    let mut inputs: Vec<Input> = Vec::new();
    let mut units: BTreeMap<i64, Vec<&Event>> = BTreeMap::new();
    for event in events.iter().filter(|event| whole.contains(&event.time())) {
        units.entry(event.time().div_euclid(unit)).or_default().push(event);
    }
    inputs.extend(events.iter().filter(|event| event.time() < whole.start).cloned().map(Input::from));
    for events in units.into_values() {
        let values: Vec<f64> =
            events.iter().map(|event| event.number().unwrap()).filter(|value| !value.is_nan()).collect();
        let count = values.len() as f64;
        let mean = if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / count };
        inputs.push(Input::Part(Part {
            first: events[0].time(),
            last: events[events.len() - 1].time(),
            moments: Moments {
                count: values.len() as u64,
                mean,
                squares: values.iter().map(|value| (value - mean).powi(2)).sum(),
                min: values.iter().copied().fold(f64::NAN, f64::min),
                max: values.iter().copied().fold(f64::NAN, f64::max),
            },
            last_value: values.last().copied().unwrap_or(f64::NAN),
            severity: events.iter().map(|event| event.sample.severity).max().unwrap(),
            last_severity: events[events.len() - 1].sample.severity,
            connection_changed: events.iter().any(|event| event.field(CONNECTION_REGAINED).is_some()),
        }));
    }
    inputs.extend(events.iter().filter(|event| event.time() >= whole.end).cloned().map(Input::from));
    inputs
}

#[test]
fn statistics_of_parts_are_those_of_their_events() {
    let mut random = 1u64;
    let mut next = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as f64 / f64::from(1u32 << 31)
    };
    let mut events = vec![event(-50.0, 4.0)];
    let mut time = 3.0;
    while time < 40_000.0 {
        let mut one = event(time, if next() < 0.02 { f64::NAN } else { 1e6 + 10.0 * next() });
        one.sample.severity = Severity::of((next() * 1.2) as i64 * 2).unwrap();
        if next() < 0.01 {
            one.fields.push((CONNECTION_REGAINED.into(), "1".into()));
        }
        events.push(one);
        // Some bins are empty.
        time += if next() < 0.01 { 2_500.0 } else { 30.0 * next() };
    }
    let kinds = ["mean", "std", "jitter", "variance", "popvariance", "min", "max", "count", "errorbar", "stats"];
    for (from, to) in [(0.0, 39_999.0), (17.0, 30_001.5), (600.0, 1_800.0), (100.0, 700.0)] {
        let span = span(from, to);
        let within: Vec<Event> = events.iter().filter(|event| event.time() <= span.to).cloned().collect();
        // The last at or before the span, and those in it.
        let begin = within.partition_point(|event| event.time() <= span.from).saturating_sub(1);
        let within = &within[begin..];
        for operator in kinds.iter().flat_map(|kind| [format!("{kind}_600"), format!("{kind}Sample_1800")]) {
            let binned = Operator::parse(&operator).unwrap().binned(600, span).unwrap();
            let parts = in_parts(within, 600, span);
            let seen: Result<Vec<Event>, ProcessError<Infallible>> =
                binned.run(parts.into_iter().map(Ok), span).collect();
            let (seen, expected) = (seen.unwrap(), run(&operator, within, span));
            assert_eq!(seen.len(), expected.len(), "{operator} in {from} {to}");
            for (seen, expected) in seen.iter().zip(&expected) {
                assert_eq!((seen.time(), seen.sample.severity), (expected.time(), expected.sample.severity));
                assert_eq!(seen.field("connectionChange"), expected.field("connectionChange"), "{operator}");
                let (seen, expected) =
                    (&plain(std::slice::from_ref(seen))[0].1, &plain(std::slice::from_ref(expected))[0].1);
                for (seen, expected) in seen.iter().zip(expected) {
                    let close = (seen - expected).abs() <= 1e-6 * expected.abs().max(1e-3);
                    assert!(
                        close || seen.is_nan() && expected.is_nan(),
                        "{operator} in {from} {to}: {seen} {expected}"
                    );
                }
            }
        }
    }
}

#[test]
fn only_statistics_of_whole_units_take_parts() {
    let span = span(0.0, 86_400.0 * 365.0);
    let binned = |operator: &str| Operator::parse(operator).unwrap().binned(600, span).map(|binned| binned.seconds());
    for (operator, expected) in [
        ("mean_600", Some(600)),
        ("mean_900", None),
        ("max_86400", Some(86_400)),
        ("median_600", None),
        ("nth_10", None),
        ("optimized_2000", Some(15_600)),
        ("optimizedSample_100000", Some(600)),
        ("optimized_10000000", None),
        ("optimLastSample_1000", None),
    ] {
        assert_eq!(binned(operator), expected, "{operator}");
    }
}
