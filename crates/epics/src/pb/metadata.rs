//! Metadata as fields of a header, by the names of record fields.

use crate::sample::{Limits, Metadata};

/// Names and values of fields: `EGU`, `PREC`, limits that are numbers, and `ENUM_0` … for labels.
#[must_use]
pub fn fields_of(metadata: &Metadata) -> Vec<(String, String)> {
    let Metadata { units, precision, limits, labels } = metadata;
    let mut fields = Vec::new();
    let mut add = |name: &str, value: String| fields.push((name.to_owned(), value));
    if let Some(units) = units {
        add("EGU", units.clone());
    }
    if let Some(precision) = precision {
        add("PREC", precision.to_string());
    }
    if let Some(Limits { display, alarm, warning, control }) = limits {
        let named = [("LOPR", display.0), ("HOPR", display.1), ("LOLO", alarm.0), ("HIHI", alarm.1)];
        let more = [("LOW", warning.0), ("HIGH", warning.1), ("DRVL", control.0), ("DRVH", control.1)];
        for (name, value) in named.into_iter().chain(more).filter(|(_, value)| !value.is_nan()) {
            add(name, value.to_string());
        }
    }
    for (number, label) in labels.iter().enumerate() {
        add(&format!("ENUM_{number}"), label.clone());
    }
    fields
}
