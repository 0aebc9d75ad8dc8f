//! Latencies of an operation as text: an HDR histogram in its interchange form (V2, deflated), base64.
//!
//! Other tools read the same text: it is what a line of an HdrHistogram log holds.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

/// The text of a histogram; empty for one without values.
pub(crate) fn to_text(histogram: &Histogram<u64>) -> String {
    if histogram.is_empty() {
        return String::new();
    }
    let mut bytes = Vec::new();
    match V2DeflateSerializer::new().serialize(histogram, &mut bytes) {
        Ok(_) => STANDARD.encode(bytes),
        // Counts that are not below 2^63, or a buffer that cannot be had: a report without a curve is still one.
        Err(_) => String::new(),
    }
}

/// The histogram of a text; `None` for an empty or a damaged one.
pub(crate) fn from_text(text: &str) -> Option<Histogram<u64>> {
    let bytes = STANDARD.decode(text.trim()).ok()?;
    Deserializer::new().deserialize(&mut bytes.as_slice()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_survives_its_text() {
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        (1..10_000u64).for_each(|value| histogram.record(value * 997).unwrap());
        assert_eq!(from_text(&to_text(&histogram)), Some(histogram));
    }

    #[test]
    fn no_values_are_no_text() {
        assert_eq!(to_text(&Histogram::new(3).unwrap()), "");
        assert_eq!(from_text(""), None);
    }

    #[test]
    fn damaged_texts_are_no_histogram() {
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        histogram.record(5).unwrap();
        let text = to_text(&histogram);
        // Up to half of it there is no complete header or not all of the counts.
        for length in 0..text.len() / 2 {
            assert!(from_text(&text[..length]).is_none(), "{length}");
        }
        assert_eq!(from_text("not base64!"), None);
    }
}
