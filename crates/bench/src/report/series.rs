//! Aggregates seconds and samples of a result into buckets for charts, so that a chart of an hour
//! or a week has no more points than a screen can show.
//!
//! Always true: a second without operations between a kind's first one and the end of its phase
//! counts as rate 0, so stalls are visible.

use std::collections::BTreeMap;

use super::charts::{Line, Point, Shade};
use crate::measure::histogram;
use crate::result::{OperationResult, PhaseResult, ResourceSample, RunResult, Second};

/// Maximum number of points of a line.
const POINTS_MAX: u32 = 180;
/// Seconds that a phase must cover of a second for its rate to be used.
const COVERED_MIN_S: f64 = 0.2;
/// Number of points of a distribution.
const CURVE_POINTS: u32 = 96;

/// Seconds from the run's start to its end.
pub(super) fn length_s(run: &RunResult) -> f64 {
    let seconds = run.seconds.iter().map(|second| f64::from(second.at_s) + 1.0);
    let phases = run.phases.iter().map(|phase| phase.began_s + phase.elapsed_s);
    let samples = run.resources.last().map(|sample| sample.at_s);
    seconds.chain(phases).chain(samples).filter(|at_s| at_s.is_finite()).fold(1.0, f64::max)
}

/// Bucket width in seconds for a run of `length_s` seconds.
pub(super) fn bucket_s(length_s: f64) -> u32 {
    const WIDTHS: [u32; 14] = [1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600];
    let needed = (length_s / f64::from(POINTS_MAX)).ceil() as u32;
    WIDTHS.into_iter().find(|width| *width >= needed).unwrap_or_else(|| needed.div_ceil(3600) * 3600)
}

/// The phases as shaded intervals.
pub(super) fn shades(run: &RunResult) -> Vec<Shade> {
    let shade = |phase: &PhaseResult| Shade {
        from: phase.began_s,
        to: phase.began_s + phase.elapsed_s,
        label: phase.name.clone(),
    };
    run.phases.iter().map(shade).collect()
}

/// Names of the kinds of operations.
pub(super) fn kinds(run: &RunResult) -> Vec<&str> {
    run.phases.first().map_or_else(Vec::new, |phase| phase.operations.iter().map(|kind| kind.name.as_str()).collect())
}

/// Returns whether any operation of a kind was attempted.
pub(super) fn ran(run: &RunResult, kind: usize) -> bool {
    run.phases.iter().filter_map(|phase| phase.operations.get(kind)).any(|kind| kind.ok + kind.failed > 0)
}

/// Counts operations that were sent and failed. Unsupported operations are not sent and do not
/// count.
pub(super) fn failed(run: &RunResult) -> u64 {
    run.phases.iter().flat_map(|phase| &phase.operations).map(|operation| operation.failed).sum()
}

/// Results of a kind by phase.
pub(super) fn of_kind(run: &RunResult, kind: usize) -> impl Iterator<Item = (&PhaseResult, &OperationResult)> {
    run.phases.iter().filter_map(move |phase| Some((phase, phase.operations.get(kind)?)))
}

/// Result of a kind of operation in one phase, or of a kind that never ran.
pub(super) struct KindResult<'a> {
    pub(super) kind: usize,
    /// Name of the kind, with the phase if it ran in several.
    pub(super) name: String,
    pub(super) operation: &'a OperationResult,
    /// Seconds of the phase; 0 if the kind never ran.
    pub(super) elapsed_s: f64,
    /// CPU seconds of the server, if only this kind ran in the phase.
    pub(super) server_cpu_s: Option<f64>,
}

impl KindResult<'_> {
    pub(super) fn ran(&self) -> bool {
        self.operation.ok + self.operation.failed > 0
    }
}

/// Results of all kinds, ordered by kind and then by phase.
pub(super) fn results(run: &RunResult) -> Vec<KindResult<'_>> {
    let ran = |operation: &OperationResult| operation.ok + operation.failed > 0;
    let mut results = Vec::new();
    for (kind, name) in kinds(run).into_iter().enumerate() {
        let phases: Vec<_> = of_kind(run, kind).filter(|(_, operation)| ran(operation)).collect();
        if phases.is_empty() {
            let (name, nothing) = (name.to_owned(), of_kind(run, kind).next());
            let nothing =
                nothing.map(|(_, operation)| KindResult { kind, name, operation, elapsed_s: 0.0, server_cpu_s: None });
            results.extend(nothing);
        }
        for (phase, operation) in &phases {
            let name = match phases.len() {
                1 => name.to_owned(),
                _ if phase.name.starts_with(name) => phase.name.clone(),
                _ => format!("{name} ({})", phase.name),
            };
            let alone = phase.operations.iter().filter(|operation| ran(operation)).count() == 1;
            let server_cpu_s = phase.server_cpu_s.filter(|_| alone);
            results.push(KindResult { kind, name, operation, elapsed_s: phase.elapsed_s, server_cpu_s });
        }
    }
    results
}

/// The counter of a second from which a rate is computed.
#[derive(Clone, Copy)]
pub(super) enum Counted {
    Points,
    Operations,
}

/// Rate of a kind per second over time.
pub(super) fn rate(run: &RunResult, kind: usize, counted: Counted, name: &str, color: usize) -> Line {
    let width_s = bucket_s(length_s(run));
    let mut points = Vec::new();
    for phase in 0..run.phases.len() {
        let seconds = complete_seconds(run, phase, kind, counted);
        if seconds.is_empty() {
            continue;
        }
        if !points.is_empty() {
            points.push(Point::new(seconds[0].0, f64::NAN));
        }
        points.extend(gathered(&seconds, width_s));
    }
    Line { name: name.to_owned(), color, thin: false, points }
}

/// Lists (second, rate) of a kind in a phase, from its first operation to the phase's end, stalls
/// included.
fn complete_seconds(run: &RunResult, phase: usize, kind: usize, counted: Counted) -> Vec<(f64, f64)> {
    let of_it = |second: &&Second| second.phase as usize == phase && second.kind as usize == kind;
    let count = |second: &Second| match counted {
        Counted::Points => second.points as f64,
        Counted::Operations => second.ok as f64,
    };
    let counts: BTreeMap<u32, f64> =
        run.seconds.iter().filter(of_it).map(|second| (second.at_s, count(second))).collect();
    let (Some(first), Some(last)) = (counts.keys().next(), counts.keys().last()) else { return Vec::new() };
    let began_s = run.phases[phase].began_s;
    let mut ended_s = began_s + run.phases[phase].elapsed_s;
    if f64::from(*last) >= ended_s {
        // The phase's span excludes its warm-up, so operations may come after it.
        ended_s = f64::from(*last) + 1.0;
    }
    let mut rates = Vec::new();
    for at in *first..ended_s.ceil() as u32 {
        let at_s = f64::from(at);
        let covered_s = (at_s + 1.0).min(ended_s) - at_s.max(began_s);
        if covered_s > COVERED_MIN_S {
            rates.push((at_s, counts.get(&at).copied().unwrap_or(0.0) / covered_s));
        }
    }
    rates
}

/// Averages seconds in buckets, with each bucket's minimum and maximum.
fn gathered(seconds: &[(f64, f64)], width_s: u32) -> Vec<Point> {
    let width_s = f64::from(width_s);
    let same_bucket = |a: &(f64, f64), b: &(f64, f64)| (a.0 / width_s).floor() == (b.0 / width_s).floor();
    let point = |bucket: &[(f64, f64)]| Point {
        x: middle(bucket[0].0, width_s),
        y: bucket.iter().map(|second| second.1).sum::<f64>() / bucket.len() as f64,
        low: bucket.iter().map(|second| second.1).fold(f64::MAX, f64::min),
        high: bucket.iter().map(|second| second.1).fold(f64::MIN, f64::max),
    };
    seconds.chunk_by(same_bucket).map(point).collect()
}

fn middle(at_s: f64, width_s: f64) -> f64 {
    (at_s / width_s).floor() * width_s + width_s / 2.0
}

/// Latencies of a kind over time: median, 99th percentile and maximum. A bucket has the mean of its
/// seconds' medians and percentiles, weighted by operations, and the largest maximum.
pub(super) fn latencies(run: &RunResult, kind: usize) -> Vec<Line> {
    let width_s = f64::from(bucket_s(length_s(run)));
    let seconds: Vec<&Second> =
        run.seconds.iter().filter(|second| second.kind as usize == kind && second.ok > 0).collect();
    let mut buckets: Vec<(f64, u32, Vec<&Second>)> = Vec::new();
    for second in seconds {
        let x = middle(f64::from(second.at_s), width_s);
        match buckets.last_mut() {
            Some(bucket) if bucket.0 == x && bucket.1 == second.phase => bucket.2.push(second),
            _ => buckets.push((x, second.phase, vec![second])),
        }
    }
    let weighted = |bucket: &[&Second], value: fn(&Second) -> f64| {
        let operations: u64 = bucket.iter().map(|second| second.ok).sum();
        bucket.iter().map(|second| value(second) * second.ok as f64).sum::<f64>() / operations as f64
    };
    let line = |name: &str, color, thin, value: &dyn Fn(&[&Second]) -> f64| {
        let mut points: Vec<Point> = Vec::new();
        for bucket in &buckets {
            // Leave a gap for a pause longer than a bucket, such as between phases.
            if points.last().is_some_and(|last| bucket.0 - last.x > width_s * 2.5) {
                points.push(Point::new(bucket.0, f64::NAN));
            }
            points.push(Point::new(bucket.0, value(&bucket.2)));
        }
        Line { name: name.to_owned(), color, thin, points }
    };
    vec![
        line("p50", 0, false, &|bucket| weighted(bucket, |second| second.p50_ms)),
        line("p99", 1, false, &|bucket| weighted(bucket, |second| second.p99_ms)),
        line("max", 3, true, &|bucket| bucket.iter().map(|second| second.max_ms).fold(0.0, f64::max)),
    ]
}

/// Distribution of a kind's latencies over all phases: x is milliseconds, y the share of operations
/// that took at most x.
pub(super) fn distribution(run: &RunResult, kind: usize, name: &str, color: usize) -> Option<Line> {
    let operations = run.phases.iter().filter_map(|phase| phase.operations.get(kind));
    let mut histograms = operations.filter_map(|operation| histogram::from_text(&operation.histogram));
    let mut all = histograms.next()?;
    all.auto(true);
    for other in histograms {
        all.add(other).ok()?;
    }
    // One operation of `len` is the finest resolution.
    let nines = (all.len() as f64).log10().clamp(0.5, 6.0);
    let share = |step: u32| 1.0 - 10f64.powf(-nines * f64::from(step) / f64::from(CURVE_POINTS));
    let point = |share: f64| Point::new(all.value_at_quantile(share) as f64 / 1e6, share);
    let mut points: Vec<Point> = (0..=CURVE_POINTS).map(share).map(point).collect();
    // Quantiles below 1 may miss the maximum.
    if let Some(last) = points.last_mut() {
        last.x = all.max() as f64 / 1e6;
    }
    points.dedup_by(|later, earlier| later.x == earlier.x && later.y - earlier.y < 0.002);
    Some(Line { name: name.to_owned(), color, thin: false, points })
}

/// Rate per second of a counter in the samples.
pub(super) fn counter(
    run: &RunResult,
    name: &str,
    color: usize,
    value: impl Fn(&ResourceSample) -> Option<f64>,
) -> Line {
    let mut points = Vec::new();
    let mut before: Option<(f64, f64)> = None;
    for sample in last_of_buckets(run) {
        let Some(now) = value(sample) else {
            points.push(Point::new(sample.at_s, f64::NAN));
            before = None;
            continue;
        };
        if let Some((at_s, earlier)) = before {
            points.push(Point::new(f64::midpoint(at_s, sample.at_s), (now - earlier).max(0.0) / (sample.at_s - at_s)));
        }
        before = Some((sample.at_s, now));
    }
    Line { name: name.to_owned(), color, thin: false, points }
}

/// Gauge of the samples over time.
pub(super) fn level(run: &RunResult, name: &str, color: usize, value: impl Fn(&ResourceSample) -> Option<f64>) -> Line {
    let point = |sample: &ResourceSample| Point::new(sample.at_s, value(sample).unwrap_or(f64::NAN));
    Line { name: name.to_owned(), color, thin: false, points: last_of_buckets(run).into_iter().map(point).collect() }
}

/// The last sample of each bucket, and the very first one. Counters lose nothing by this.
fn last_of_buckets(run: &RunResult) -> Vec<&ResourceSample> {
    let width_s = f64::from(bucket_s(length_s(run)));
    let same = |a: &ResourceSample, b: &ResourceSample| (a.at_s / width_s).floor() == (b.at_s / width_s).floor();
    let mut kept: Vec<&ResourceSample> = run.resources.first().into_iter().collect();
    for bucket in run.resources.chunk_by(same) {
        let Some(last) = bucket.last() else { continue };
        // For two samples close together, one tick of the processor clock would look like a peak.
        if last.at_s - kept.last().map_or(f64::MIN, |before| before.at_s) >= width_s * 0.5 {
            kept.push(last);
        }
    }
    kept
}

/// Largest finite value of a line; 0 if there is none.
pub(super) fn greatest(line: &Line) -> f64 {
    line.points.iter().map(|point| point.y).filter(|y| y.is_finite()).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    fn run(seconds: &[(u32, u64)], began_s: f64, elapsed_s: f64) -> RunResult {
        let operation = OperationResult { ok: 1, ..OperationResult::default() };
        let phase = PhaseResult { began_s, elapsed_s, operations: vec![operation], ..PhaseResult::default() };
        let second = |(at_s, points): &(u32, u64)| Second { at_s: *at_s, points: *points, ok: 1, ..Second::default() };
        RunResult { phases: vec![phase], seconds: seconds.iter().map(second).collect(), ..RunResult::default() }
    }

    fn rates(run: &RunResult) -> Vec<(f64, f64)> {
        let line = rate(run, 0, Counted::Points, "x", 0);
        line.points.iter().map(|point| (point.x, (point.y * 1e6).round() / 1e6)).collect()
    }

    #[test]
    fn a_stall_is_a_rate_of_zero() {
        let run = run(&[(0, 100), (1, 100), (4, 100)], 0.0, 6.0);
        assert_eq!(rates(&run), [(0.5, 100.0), (1.5, 100.0), (2.5, 0.0), (3.5, 0.0), (4.5, 100.0), (5.5, 0.0)]);
    }

    #[test]
    fn seconds_that_a_phase_covers_in_part_are_not_a_drop() {
        let run = run(&[(2, 50), (3, 100), (4, 25)], 2.5, 1.75);
        assert_eq!(rates(&run), [(2.5, 100.0), (3.5, 100.0), (4.5, 100.0)]);
    }

    #[test]
    fn a_barely_covered_second_is_left_out() {
        let run = run(&[(0, 10), (1, 10), (2, 1)], 0.95, 1.1);
        assert_eq!(rates(&run), [(1.5, 10.0)]);
    }

    #[test]
    fn buckets_of_long_runs_keep_their_extremes() {
        let seconds: Vec<(u32, u64)> = (0..3600).map(|at_s| (at_s, if at_s == 1801 { 0 } else { 100 })).collect();
        let run = run(&seconds, 0.0, 3600.0);
        let line = rate(&run, 0, Counted::Points, "x", 0);
        assert!(line.points.len() <= POINTS_MAX as usize, "{}", line.points.len());
        let stalled: Vec<&Point> = line.points.iter().filter(|point| point.low == 0.0).collect();
        // One second of twenty stalled.
        assert_eq!((stalled.len(), stalled[0].high, stalled[0].y), (1, 100.0, 1_900.0 / 20.0));
    }

    #[test]
    fn buckets_are_round_and_few() {
        assert_eq!([60.0, 180.0, 181.0, 3600.0, 86_400.0, 1e7].map(bucket_s), [1, 1, 2, 20, 600, 57_600]);
    }

    #[test]
    fn a_bucket_weighs_percentiles_by_operations() {
        let mut run = run(&[], 0.0, 3600.0);
        run.seconds = vec![
            Second { at_s: 0, ok: 30, p50_ms: 1.0, p99_ms: 2.0, max_ms: 9.0, ..Second::default() },
            Second { at_s: 1, ok: 10, p50_ms: 5.0, p99_ms: 6.0, max_ms: 7.0, ..Second::default() },
        ];
        let values: Vec<f64> = latencies(&run, 0).iter().map(|line| line.points[0].y).collect();
        assert_eq!(values, [2.0, 3.0, 9.0]);
    }

    #[test]
    fn counters_become_rates_over_what_was_sampled() {
        let mut run = run(&[], 0.0, 4.0);
        let sample = |at_s, cpu| ResourceSample { at_s, server_cpu_s: cpu, ..ResourceSample::default() };
        run.resources = vec![
            sample(0.0, Some(0.0)),
            sample(1.5, Some(1.5)),
            sample(2.5, None),
            sample(3.25, Some(2.0)),
            sample(4.25, Some(4.0)),
        ];
        let points: Vec<(f64, f64)> =
            counter(&run, "", 0, |sample| sample.server_cpu_s).points.iter().map(|point| (point.x, point.y)).collect();
        assert_eq!(points.len(), 3);
        assert_eq!((points[0], points[2]), ((0.75, 1.0), (3.75, 2.0)));
        assert!(points[1].1.is_nan());
    }

    #[test]
    fn a_distribution_rises_from_the_minimum_to_the_maximum() {
        let run = fixture::run("millrace", 1.0);
        let line = distribution(&run, 0, "x", 0).unwrap();
        assert!(line.points.windows(2).all(|pair| pair[0].x <= pair[1].x && pair[0].y <= pair[1].y));
        let latency = &run.phases[0].operations[0].latency_ms;
        let (first, last) = (line.points[0].x, line.points[line.points.len() - 1].x);
        assert!((first / latency.min - 1.0).abs() < 0.01 && (last / latency.max - 1.0).abs() < 0.01, "{first} {last}");
        let median = line.points.iter().find(|point| point.y >= 0.5).unwrap().x;
        assert!((median / latency.median - 1.0).abs() < 0.02, "{median}");
        assert!(distribution(&RunResult::default(), 0, "x", 0).is_none());
    }
}
