//! Metadata as fields of a header, by the names of record fields.

use std::collections::BTreeMap;

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

/// Fields of a PV that are kept: a stream must not take all memory.
const FIELDS_MAX: usize = 4_096;

/// Fields of a PV as they are known so far: headers and events tell those that changed.
#[derive(Clone, Debug, Default)]
pub struct KnownFields {
    fields: BTreeMap<String, String>,
    changed: bool,
}

impl KnownFields {
    /// Takes up fields; those that are no metadata are ignored.
    pub fn learn(&mut self, fields: &[(String, String)]) {
        const NAMES: [&str; 10] = ["EGU", "PREC", "LOPR", "HOPR", "LOLO", "HIHI", "LOW", "HIGH", "DRVL", "DRVH"];
        for (name, value) in fields {
            let is_known = NAMES.contains(&name.as_str()) || name.starts_with("ENUM_");
            let has_room = self.fields.len() < FIELDS_MAX || self.fields.contains_key(name);
            if is_known && has_room && self.fields.get(name) != Some(value) {
                self.fields.insert(name.clone(), value.clone());
                self.changed = true;
            }
        }
    }

    /// Whether a field has changed since the last call.
    pub fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// The metadata that the fields tell.
    #[must_use]
    pub fn metadata(&self) -> Metadata {
        let number = |name: &str| self.fields.get(name)?.parse::<f64>().ok();
        let pair = |low: &str, high: &str| (number(low).unwrap_or(f64::NAN), number(high).unwrap_or(f64::NAN));
        let limits = Limits {
            display: pair("LOPR", "HOPR"),
            alarm: pair("LOLO", "HIHI"),
            warning: pair("LOW", "HIGH"),
            control: pair("DRVL", "DRVH"),
        };
        let all = [limits.display, limits.alarm, limits.warning, limits.control];
        let labels = (0..).map_while(|at| self.fields.get(&format!("ENUM_{at}")).cloned());
        Metadata {
            units: self.fields.get("EGU").cloned(),
            precision: number("PREC").map(|digits| digits as i16),
            limits: all.iter().any(|(low, high)| !(low.is_nan() && high.is_nan())).then_some(limits),
            labels: labels.collect(),
        }
    }
}
