//! Rules by which several values become one.

use std::str::FromStr;

use model::{Error, Result, SqlState};

/// Rule by which the values of an interval become one value, and one value those of shorter intervals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Aggregation {
    /// A quantity, such as energy: values add up; a part of an interval has its share by length.
    Sum,
    /// A level, such as power: the mean by length; each part of an interval has its value.
    #[default]
    Average,
    /// The least value.
    Minimum,
    /// The greatest value.
    Maximum,
    /// The earliest value.
    First,
    /// The latest value.
    Last,
    /// Number of values.
    Count,
}

const NAMES: [(Aggregation, &str, &str); 7] = [
    (Aggregation::Sum, "SUM", "Sum"),
    (Aggregation::Average, "AVG", "Average"),
    (Aggregation::Minimum, "MIN", "Minimum"),
    (Aggregation::Maximum, "MAX", "Maximum"),
    (Aggregation::First, "FIRST", "First"),
    (Aggregation::Last, "LAST", "Last"),
    (Aggregation::Count, "COUNT", "Count"),
];

impl Aggregation {
    /// Short name, such as `AVG`.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES[self as usize].1
    }
}

impl FromStr for Aggregation {
    type Err = Error;

    /// Short or long name; case does not matter.
    fn from_str(text: &str) -> Result<Aggregation> {
        let is_named = |(_, short, long): &&(_, &str, &str)| {
            text.trim().eq_ignore_ascii_case(short) || text.trim().eq_ignore_ascii_case(long)
        };
        NAMES.iter().find(is_named).map(|(rule, ..)| *rule).ok_or_else(|| {
            let names: Vec<&str> = NAMES.iter().map(|(_, short, _)| *short).collect();
            let message = format!("aggregation \"{text}\" is not known: expected {}", names.join(", "));
            Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
        })
    }
}
