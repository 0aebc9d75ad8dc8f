//! An archived event: a sample with the facts that an archiver stores with it.

use crate::sample::{Array, Nanos, Sample, Scalar, Value};

/// Field of the first event after a reconnection: seconds since 1970 at which the connection was lost, in decimal.
pub const CONNECTION_LOST: &str = "cnxlostepsecs";
/// Field of the first event after a reconnection: seconds since 1970 at which the connection was regained, in decimal.
pub const CONNECTION_REGAINED: &str = "cnxregainedepsecs";

/// A sample and the named texts that were archived with it: connection losses, alarm limits and other record fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The sample.
    pub sample: Sample,
    /// Names and values, in the order of the source. Empty for most events.
    pub fields: Vec<(String, String)>,
    /// Whether a field changed at this event; otherwise the fields are a daily copy. Absent in most events.
    pub actual_change: Option<bool>,
    /// Number of equal samples that this event stands for. Absent in most events; the Appliance never reads it.
    pub repeat_count: Option<u32>,
    /// `userTag` of a PV Access time stamp; kept for structures only.
    pub user_tag: Option<u32>,
}

impl From<Sample> for Event {
    fn from(sample: Sample) -> Event {
        Event { sample, fields: Vec::new(), actual_change: None, repeat_count: None, user_tag: None }
    }
}

impl Event {
    /// Nanoseconds since 1970 UTC.
    #[must_use]
    pub fn time(&self) -> Nanos {
        self.sample.time
    }

    /// The value of a field.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The value as a number: of a waveform its first element, NaN if it has none; an enumeration's index.
    /// `None` for texts and structures.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match &self.sample.value {
            Value::Scalar(scalar) => match scalar {
                Scalar::Int8(value) => Some(f64::from(*value)),
                Scalar::Int16(value) => Some(f64::from(*value)),
                Scalar::Int32(value) => Some(f64::from(*value)),
                Scalar::Int64(value) => Some(*value as f64),
                Scalar::Float32(value) => Some(f64::from(*value)),
                Scalar::Float64(value) => Some(*value),
                Scalar::Enum(value) => Some(f64::from(*value)),
                Scalar::Text(_) => None,
            },
            Value::Array(array) => match array {
                Array::Int8(values) => Some(values.first().map_or(f64::NAN, |value| f64::from(*value))),
                Array::Int16(values) => Some(values.first().map_or(f64::NAN, |value| f64::from(*value))),
                Array::Int32(values) => Some(values.first().map_or(f64::NAN, |value| f64::from(*value))),
                Array::Int64(values) => Some(values.first().map_or(f64::NAN, |value| *value as f64)),
                Array::Float32(values) => Some(values.first().map_or(f64::NAN, |value| f64::from(*value))),
                Array::Float64(values) => Some(values.first().copied().unwrap_or(f64::NAN)),
                Array::Enum(values) => Some(values.first().map_or(f64::NAN, |value| f64::from(*value))),
                Array::Text(_) => None,
            },
            Value::Structure(_) => None,
        }
    }
}
