//! Latency histograms: construction and quantiles.
//!
//! Values are 1 ns to 1 h with three significant digits (HdrHistogram): the error of a percentile
//! is at most 0.1 %.

use hdrhistogram::Histogram;

use crate::result::Latency;

/// Greatest recorded value, 1 h; longer latencies count as this.
const NANOS_MAX: u64 = 3_600_000_000_000;

/// An empty histogram with three significant digits.
pub(crate) fn empty() -> Histogram<u64> {
    with_digits(3)
}

/// An empty histogram with two significant digits, which takes a tenth of the memory.
pub(super) fn coarse() -> Histogram<u64> {
    with_digits(2)
}

fn with_digits(digits: u8) -> Histogram<u64> {
    // The bounds are valid constants.
    #[allow(clippy::unwrap_used)]
    Histogram::new_with_bounds(1, NANOS_MAX, digits).unwrap()
}

/// Quantiles in milliseconds. `slowest_thread` is 0: a histogram does not have it.
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
