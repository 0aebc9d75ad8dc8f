//! Latency histograms: how they are made and summed up.
//!
//! Nanoseconds from 1 to an hour at three digits (HdrHistogram), so that no percentile is off by more than 0.1 %.

use hdrhistogram::Histogram;

use crate::result::Latency;

/// Longest latency that is told apart; longer ones count as this.
const NANOS_MAX: u64 = 3_600_000_000_000;

/// An empty histogram.
pub(crate) fn empty() -> Histogram<u64> {
    of_digits(3)
}

/// An empty histogram for one second: two digits, a tenth of the memory.
pub(super) fn coarse() -> Histogram<u64> {
    of_digits(2)
}

fn of_digits(digits: u8) -> Histogram<u64> {
    // The bounds are constants that the library accepts.
    #[allow(clippy::unwrap_used)]
    Histogram::new_with_bounds(1, NANOS_MAX, digits).unwrap()
}

/// Quantiles in milliseconds. `slowest_thread` is left 0: a histogram does not know it.
pub(crate) fn latency(histogram: &Histogram<u64>) -> Latency {
    if histogram.is_empty() {
        return Latency::default();
    }
    let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e6;
    Latency {
        avg: histogram.mean() / 1e6,
        min: histogram.min() as f64 / 1e6,
        p10: at(0.10),
        p25: at(0.25),
        median: at(0.50),
        p75: at(0.75),
        p90: at(0.90),
        p95: at(0.95),
        p99: at(0.99),
        p999: at(0.999),
        max: histogram.max() as f64 / 1e6,
        slowest_thread: 0.0,
    }
}
