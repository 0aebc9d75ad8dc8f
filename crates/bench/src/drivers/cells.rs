//! Cells of answers: converts printed values to the type that the query implies, or fails.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::query::{Aggregate, Cell, Query, Shape};
use crate::schema::{Kind, Schema};

/// Expected content of an answer's column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CellKind {
    /// A field's value.
    Value(Kind),
    /// A count; a missing value is 0.
    Count,
    /// A sum or mean.
    Number,
}

impl CellKind {
    /// Expected content for each selected field of a query.
    pub(crate) fn of(schema: &Schema, query: &Query) -> Vec<CellKind> {
        let aggregate = match query.shape {
            Shape::Aggregate { aggregate, .. } | Shape::Buckets { aggregate, .. } => Some(aggregate),
            Shape::Rows | Shape::Latest => None,
        };
        let fields = &schema.tables[query.table as usize].fields;
        let expected = |field: &u32| match aggregate {
            Some(Aggregate::Count) => CellKind::Count,
            Some(Aggregate::Sum | Aggregate::Avg) => CellKind::Number,
            _ => CellKind::Value(fields[*field as usize].kind),
        };
        query.fields.iter().map(expected).collect()
    }

    /// Converts a JSON scalar from its text. (Not from a parsed number: parsed floats may be off in
    /// the last digit, and answers are compared exactly.)
    pub(crate) fn json(self, scalar: &str) -> Result<Cell> {
        match scalar.as_bytes().first() {
            Some(b'n') => Ok(self.missing()),
            Some(b't' | b'f') => self.boolean(scalar == "true", scalar),
            Some(b'"') => {
                let text: String = serde_json::from_str(scalar).map_err(|_| self.mismatch(scalar))?;
                self.text(&text)
            }
            _ => self.number(scalar),
        }
    }

    /// Converts an unquoted value, as in CSV; an empty text is null.
    pub(crate) fn plain(self, text: &str) -> Result<Cell> {
        match (self, text) {
            (_, "") => Ok(self.missing()),
            (CellKind::Value(Kind::Bool), "true" | "false") => self.boolean(text == "true", text),
            (CellKind::Value(Kind::Text { .. } | Kind::String { .. } | Kind::Blob { .. }), _) => self.text(text),
            _ => self.number(text),
        }
    }

    /// Converts a decimal number.
    pub(crate) fn number(self, text: &str) -> Result<Cell> {
        let float = || text.parse::<f64>().ok().filter(|value| value.is_finite()).ok_or_else(|| self.mismatch(text));
        match self {
            CellKind::Number | CellKind::Value(Kind::Double { .. }) => Ok(Cell::Float(float()?)),
            // Many products only have doubles: a 32-bit float is rounded to one again.
            CellKind::Value(Kind::Float { .. }) => Ok(Cell::Float(f64::from(float()? as f32))),
            CellKind::Value(Kind::Bool) => match float()? {
                0.0 => Ok(Cell::Bool(false)),
                1.0 => Ok(Cell::Bool(true)),
                _ => Err(self.mismatch(text)),
            },
            CellKind::Count | CellKind::Value(Kind::Int32 | Kind::Int64 | Kind::Timestamp | Kind::Date) => {
                let whole = |value: f64| value.fract() == 0.0 && value.abs() < 9.0e18;
                let value = text.parse::<i64>().ok();
                let value = value.or_else(|| float().ok().filter(|value| whole(*value)).map(|value| value as i64));
                value.map(Cell::Int).ok_or_else(|| self.mismatch(text))
            }
            CellKind::Value(Kind::Text { .. } | Kind::String { .. } | Kind::Blob { .. }) => Err(self.mismatch(text)),
        }
    }

    /// Converts a text.
    pub(crate) fn text(self, text: &str) -> Result<Cell> {
        match self {
            CellKind::Value(kind) if kind.text_length().is_some() => Ok(Cell::Text(text.as_bytes().to_vec())),
            // Some products quote numbers.
            _ => self.number(text),
        }
    }

    fn boolean(self, value: bool, text: &str) -> Result<Cell> {
        if self == CellKind::Value(Kind::Bool) { Ok(Cell::Bool(value)) } else { Err(self.mismatch(text)) }
    }

    /// The cell of a missing value: 0 for counts, otherwise null.
    pub(crate) fn missing(self) -> Cell {
        if self == CellKind::Count { Cell::Int(0) } else { Cell::Null }
    }

    fn mismatch(self, text: &str) -> Error {
        Error::protocol(format!("an answer has {text:?}, expected {self:?}"))
    }
}

/// Parses a time from an integer.
pub(crate) fn time(scalar: &str) -> Result<i64> {
    scalar.parse().map_err(|_| Error::protocol(format!("an answer has {scalar:?}, expected a time")))
}

/// Index of devices by table and name.
pub(crate) struct Devices(Vec<HashMap<String, u32>>);

impl Devices {
    /// Cost: about 50 bytes per device.
    pub(crate) fn new(schema: &Schema) -> Devices {
        let mut tables = vec![HashMap::new(); schema.tables.len()];
        for (number, device) in schema.devices.iter().enumerate() {
            tables[device.table as usize].insert(device.tags[0].clone(), number as u32);
        }
        Devices(tables)
    }

    /// Finds a device of `table` by name.
    pub(crate) fn find(&self, table: u32, name: &str) -> Result<u32> {
        let found = self.0[table as usize].get(name).copied();
        found.ok_or_else(|| Error::protocol(format!("an answer has the device {name:?}, which was not written")))
    }
}

/// Splits a line of CSV (RFC 4180).
pub(crate) fn csv_fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                if let Some(field) = fields.last_mut() {
                    field.push('"')
                }
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            _ => {
                if let Some(field) = fields.last_mut() {
                    field.push(letter)
                }
            }
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_are_converted_to_the_expected_type_or_refused() {
        let int = CellKind::Value(Kind::Int64);
        let double = CellKind::Value(Kind::Double { decimals: 2 });
        let float = CellKind::Value(Kind::Float { decimals: 2 });
        let boolean = CellKind::Value(Kind::Bool);
        let text = CellKind::Value(Kind::Text { length: 2 });
        let right = [
            (int, "7", Cell::Int(7)),
            (int, "-7.0", Cell::Int(-7)),
            (int, "9007199254740993", Cell::Int(9_007_199_254_740_993)),
            (int, "1.5e3", Cell::Int(1500)),
            (int, "\"7\"", Cell::Int(7)),
            (CellKind::Count, "null", Cell::Int(0)),
            (double, "7", Cell::Float(7.0)),
            (double, "null", Cell::Null),
            (double, "0.1", Cell::Float(0.1)),
            (float, "12.34", Cell::Float(f64::from(12.34f32))),
            (CellKind::Number, "12.34", Cell::Float(12.34)),
            (boolean, "true", Cell::Bool(true)),
            (boolean, "0", Cell::Bool(false)),
            (text, "\"aB\"", Cell::Text(b"aB".to_vec())),
        ];
        for (expected, scalar, cell) in right {
            assert_eq!(expected.json(scalar).expect(scalar), cell);
        }
        for (expected, scalar) in
            [(int, "7.5"), (int, "true"), (boolean, "2"), (text, "7"), (double, "\"x\""), (double, "[1]"), (int, "")]
        {
            assert!(expected.json(scalar).is_err(), "{expected:?} {scalar}");
        }
    }

    #[test]
    fn lines_of_csv_are_split_outside_quotes() {
        assert_eq!(csv_fields(r#"a,"b,""c""",,1.5"#), ["a", "b,\"c\"", "", "1.5"]);
        assert_eq!(csv_fields(""), [""]);
    }
}
