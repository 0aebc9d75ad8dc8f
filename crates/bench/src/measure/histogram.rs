//! Latency histograms as text: the HDR interchange format (V2, deflated) in base64.
//!
//! Other tools read the same text: it is the payload of a line of an HdrHistogram log.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

/// Encodes a histogram; returns an empty text for one without values.
pub(crate) fn to_text(histogram: &Histogram<u64>) -> String {
    if histogram.is_empty() {
        return String::new();
    }
    let mut bytes = Vec::new();
    match V2DeflateSerializer::new().serialize(histogram, &mut bytes) {
        Ok(_) => STANDARD.encode(bytes),
        // Fails for counts of 2^63 and more, or when memory is short. The report is then rendered
        // without this curve.
        Err(_) => String::new(),
    }
}

/// Decodes a histogram; `None` if the text is empty or damaged.
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
    fn a_histogram_without_values_is_an_empty_text() {
        assert_eq!(to_text(&Histogram::new(3).unwrap()), "");
        assert_eq!(from_text(""), None);
    }

    #[test]
    fn damaged_text_decodes_to_none() {
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        histogram.record(5).unwrap();
        let text = to_text(&histogram);
        // A prefix of up to half the text lacks part of the header or of the counts.
        for length in 0..text.len() / 2 {
            assert!(from_text(&text[..length]).is_none(), "{length}");
        }
        assert_eq!(from_text("not base64!"), None);
    }
}
