//! Latency histograms: how they are made, summed up and put into text.
//!
//! Nanoseconds from 1 to an hour at three digits (HdrHistogram), so that no percentile is off by more than 0.1 %.

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

use crate::error::{Error, Result};
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

/// The histogram as text: HdrHistogram's V2 form, deflated, base64.
pub(crate) fn to_text(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    match V2DeflateSerializer::new().serialize(histogram, &mut bytes) {
        Ok(_) => base64(&bytes),
        // Writing to memory does not fail; an empty text reads as an empty histogram.
        Err(_) => String::new(),
    }
}

/// Reads what [`to_text`] wrote.
///
/// # Errors
/// It is something else.
pub(crate) fn from_text(text: &str) -> Result<Histogram<u64>> {
    if text.is_empty() {
        return Ok(empty());
    }
    let bytes = unbase64(text).ok_or_else(|| Error::setup("a histogram is not base64".to_owned()))?;
    Deserializer::new()
        .deserialize(&mut bytes.as_slice())
        .map_err(|error| Error::setup(format!("a histogram cannot be read: {error:?}")))
}

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for at in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * at)) as usize & 63];
            text.push(if at <= chunk.len() { letter as char } else { '=' });
        }
    }
    text
}

fn unbase64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut word, mut bits) = (0u32, 0);
    for letter in text.trim_end_matches('=').bytes() {
        let value = LETTERS.iter().position(|other| *other == letter)? as u32;
        word = word << 6 | value;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((word >> bits) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_survives_its_text() {
        let mut histogram = empty();
        for nanos in [1, 999, 1_000_000, 77_777_777, NANOS_MAX] {
            histogram.saturating_record(nanos);
        }
        let back = from_text(&to_text(&histogram)).expect("our own text");
        assert_eq!(
            (back.len(), back.max(), back.value_at_quantile(0.5)),
            (5, histogram.max(), histogram.value_at_quantile(0.5))
        );
        assert!(from_text("no!").is_err() && from_text("AAAA").is_err());
    }

    #[test]
    fn bytes_survive_base64() {
        for length in 0..20u8 {
            let bytes: Vec<u8> = (0..length).map(|byte| byte.wrapping_mul(37)).collect();
            assert_eq!(unbase64(&base64(&bytes)), Some(bytes));
        }
        assert_eq!(base64(b"Man"), "TWFu");
        assert_eq!(base64(b"Ma"), "TWE=");
    }
}
