//! Metrics, and Prometheus' text format.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

/// Bucket bounds of latency histograms, in microseconds: from a commit in memory over an fsync to a
/// stuck disk.
const BOUNDS_US: [u64; 14] =
    [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 5_000_000];

/// A counter.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A gauge: the number of live [`Held`] values.
#[derive(Debug, Default)]
pub(crate) struct Gauge(AtomicU64);

impl Gauge {
    pub(crate) fn hold(&self) -> Held<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Held(&self.0)
    }

    /// Increments the gauge until [`Gauge::down`], for owners that cannot hold a [`Held`].
    pub(crate) fn up(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// See [`Gauge::up`].
    pub(crate) fn down(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Increments a [`Gauge`] while it lives.
#[derive(Debug)]
pub(crate) struct Held<'a>(&'a AtomicU64);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A latency histogram.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    /// One bucket per bound, and one for longer times.
    buckets: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

impl Histogram {
    pub(crate) fn record(&self, elapsed: Duration) {
        let us = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        self.buckets[BOUNDS_US.partition_point(|bound| *bound < us)].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }
}

/// Counters with a label whose values are not known in advance. Each update takes a lock.
#[derive(Debug)]
pub(crate) struct Family<L>(Mutex<BTreeMap<L, u64>>);

impl<L> Default for Family<L> {
    fn default() -> Family<L> {
        Family(Mutex::default())
    }
}

impl<L: Ord + Clone> Family<L> {
    pub(crate) fn add(&self, label: L) {
        *self.0.lock().entry(label).or_insert(0) += 1;
    }

    pub(crate) fn list(&self) -> Vec<(L, u64)> {
        self.0.lock().iter().map(|(label, count)| (label.clone(), *count)).collect()
    }
}

/// Prometheus' text format, version 0.0.4.
#[derive(Default)]
pub(crate) struct Exposition {
    text: String,
}

impl Exposition {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    fn line(&mut self, line: impl Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{line}");
    }

    /// Adds a counter; `name` ends in `_total`.
    pub(crate) fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, "counter", help);
        self.line(format_args!("{name} {value}"));
    }

    /// Adds a gauge.
    pub(crate) fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, "gauge", help);
        self.line(format_args!("{name} {value}"));
    }

    /// Adds the samples of a labelled metric; labels are formatted like `state="42601"`, without
    /// characters that need escaping.
    pub(crate) fn family(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        values: impl IntoIterator<Item = (String, u64)>,
    ) {
        self.head(name, kind, help);
        for (labels, value) in values {
            self.line(format_args!("{name}{{{labels}}} {value}"));
        }
    }

    /// Adds latency histograms in seconds, one per label.
    pub(crate) fn histograms<'a>(
        &mut self,
        name: &str,
        help: &str,
        histograms: impl IntoIterator<Item = (&'a str, &'a Histogram)>,
    ) {
        self.head(name, "histogram", help);
        for (label, histogram) in histograms {
            self.histogram(name, label, histogram);
        }
    }

    fn histogram(&mut self, name: &str, label: &str, histogram: &Histogram) {
        let mut count = 0;
        for (at, bucket) in histogram.buckets.iter().enumerate() {
            count += bucket.load(Ordering::Relaxed);
            match BOUNDS_US.get(at) {
                Some(bound) => {
                    self.line(format_args!("{name}_bucket{{{label},le=\"{}\"}} {count}", *bound as f64 / 1e6));
                }
                None => self.line(format_args!("{name}_bucket{{{label},le=\"+Inf\"}} {count}")),
            }
        }
        let sum = histogram.sum_us.load(Ordering::Relaxed) as f64 / 1e6;
        self.line(format_args!("{name}_sum{{{label}}} {sum}"));
        self.line(format_args!("{name}_count{{{label}}} {count}"));
    }

    pub(crate) fn finish(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_counts_each_duration_in_every_bucket_at_or_above_it() {
        let histogram = Histogram::default();
        for us in [0, 100, 101, 4_000_000, 60_000_000] {
            histogram.record(Duration::from_micros(us));
        }
        let mut text = Exposition::default();
        text.histograms("x_seconds", "Help.", [("route=\"w\"", &histogram)]);
        let text = text.finish();
        for line in [
            "# TYPE x_seconds histogram",
            "x_seconds_bucket{route=\"w\",le=\"0.0001\"} 2",
            "x_seconds_bucket{route=\"w\",le=\"0.00025\"} 3",
            "x_seconds_bucket{route=\"w\",le=\"5\"} 4",
            "x_seconds_bucket{route=\"w\",le=\"+Inf\"} 5",
            "x_seconds_sum{route=\"w\"} 64.000201",
            "x_seconds_count{route=\"w\"} 5",
        ] {
            assert!(text.lines().any(|seen| seen == line), "{line} is missing in\n{text}");
        }
    }

    #[test]
    fn a_gauge_falls_when_its_holder_is_dropped() {
        let gauge = Gauge::default();
        let (one, two) = (gauge.hold(), gauge.hold());
        assert_eq!(gauge.get(), 2);
        drop(one);
        drop(two);
        assert_eq!(gauge.get(), 0);
    }
}
