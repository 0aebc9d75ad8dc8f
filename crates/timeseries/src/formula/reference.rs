//! References to series, and their text.

use std::fmt;
use std::str::FromStr;

use crate::aggregation::Aggregation;
use crate::raster::Step;

/// A series that a formula refers to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    /// Name or number of the series.
    pub series: String,
    /// Extension of the range that is read.
    pub offset: Offset,
    /// Unit of the values, if it is not that of the series.
    pub unit: Option<String>,
    /// Rule that replaces that of the series.
    pub aggregation: Option<Aggregation>,
    /// Intervals by which the values are later: those of `Shift`.
    pub shift: i64,
    /// Character of the formula at which the reference first stands, from 1.
    pub position: usize,
}

/// Extension of the range that is read for a reference, in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Offset {
    /// Number of intervals or steps.
    pub count: i64,
    /// Length of what is counted; `None` is an interval of the series.
    pub step: Option<Step>,
}

/// Short names; `m` is a month and `min` a minute.
const SHORT: [(&str, Step); 9] = [
    ("ms", Step::Millisecond),
    ("s", Step::Second),
    ("min", Step::Minute),
    ("h", Step::Hour),
    ("d", Step::Day),
    ("w", Step::Week),
    ("m", Step::Month),
    ("q", Step::Quarter),
    ("y", Step::Year),
];

impl FromStr for Offset {
    /// The expected forms.
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Offset, &'static str> {
        const EXPECTED: &str =
            "a whole number of intervals, or one with ms, s, min, h, d, w, m, q, y or a name such as hour";
        let text = text.trim();
        let unit = text.find(char::is_alphabetic).unwrap_or(text.len());
        let count = text[..unit].trim_end().parse().map_err(|_| EXPECTED)?;
        let name = &text[unit..];
        let short = SHORT.iter().find(|(short, _)| short.eq_ignore_ascii_case(name));
        let step = match short {
            Some((_, step)) => Some(*step),
            None if name.is_empty() => None,
            None => Some(name.parse().map_err(|_| EXPECTED)?),
        };
        Ok(Offset { count, step })
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.count)?;
        match SHORT.iter().find(|(_, step)| Some(*step) == self.step) {
            Some((short, _)) => write!(out, " {short}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Reference {
    /// The canonical text, without empty parts at its end.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offset = if self.offset == Offset::default() { String::new() } else { self.offset.to_string() };
        let unit = self.unit.as_deref().map(quoted).unwrap_or_default();
        let aggregation = self.aggregation.map_or("", Aggregation::name);
        let parts = [&quoted(&self.series), offset.as_str(), unit.as_str(), aggregation];
        let used = parts.iter().rposition(|part| !part.is_empty()).map_or(0, |last| last + 1);
        let text = parts[..used].join(", ");
        if self.shift == 0 { write!(out, "[{text}]") } else { write!(out, "Shift([{text}], {})", self.shift) }
    }
}

/// A name as it stands in a reference: quoted if it would be read as something else.
pub(super) fn quoted(name: &str) -> String {
    let is_plain = !name.contains([',', ']', '"']) && name.trim() == name && !name.is_empty();
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}
