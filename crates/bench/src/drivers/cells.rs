//! Values of answers: what products print becomes cells of the type that the question calls for, or an error.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::query::{Aggregate, Cell, Query, Shape};
use crate::schema::{Kind, Schema};

/// What a column of an answer must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// A field's value.
    Value(Kind),
    /// How many there are; none is 0.
    Count,
    /// A sum or mean.
    Number,
}

impl Wanted {
    /// For each field asked for.
    pub(crate) fn of(schema: &Schema, query: &Query) -> Vec<Wanted> {
        let aggregate = match query.shape {
            Shape::Aggregate { aggregate, .. } | Shape::Buckets { aggregate, .. } => Some(aggregate),
            Shape::Rows | Shape::Latest => None,
        };
        let fields = &schema.tables[query.table as usize].fields;
        let wanted = |field: &u32| match aggregate {
            Some(Aggregate::Count) => Wanted::Count,
            Some(Aggregate::Sum | Aggregate::Avg) => Wanted::Number,
            _ => Wanted::Value(fields[*field as usize].kind),
        };
        query.fields.iter().map(wanted).collect()
    }

    /// From a scalar of JSON as it stands in the text. (Not from a parsed number: the parser's floats may be off by one
    /// in the last place, and answers are compared exactly.)
    pub(crate) fn json(self, scalar: &str) -> Result<Cell> {
        match scalar.as_bytes().first() {
            Some(b'n') => Ok(self.nothing()),
            Some(b't' | b'f') => self.boolean(scalar == "true", scalar),
            Some(b'"') => {
                let text: String = serde_json::from_str(scalar).map_err(|_| self.unlike(scalar))?;
                self.text(&text)
            }
            _ => self.number(scalar),
        }
    }

    /// From a value printed without quotes, as CSV has it; empty is nothing.
    pub(crate) fn plain(self, text: &str) -> Result<Cell> {
        match (self, text) {
            (_, "") => Ok(self.nothing()),
            (Wanted::Value(Kind::Bool), "true" | "false") => self.boolean(text == "true", text),
            (Wanted::Value(Kind::Text { .. } | Kind::String { .. } | Kind::Blob { .. }), _) => self.text(text),
            _ => self.number(text),
        }
    }

    /// From a decimal number.
    pub(crate) fn number(self, text: &str) -> Result<Cell> {
        let float = || text.parse::<f64>().ok().filter(|value| value.is_finite()).ok_or_else(|| self.unlike(text));
        match self {
            Wanted::Number | Wanted::Value(Kind::Double { .. }) => Ok(Cell::Float(float()?)),
            // Many products keep doubles alone: what was written as a 32-bit float is one again when it is read.
            Wanted::Value(Kind::Float { .. }) => Ok(Cell::Float(f64::from(float()? as f32))),
            Wanted::Value(Kind::Bool) => match float()? {
                0.0 => Ok(Cell::Bool(false)),
                1.0 => Ok(Cell::Bool(true)),
                _ => Err(self.unlike(text)),
            },
            Wanted::Count | Wanted::Value(Kind::Int32 | Kind::Int64 | Kind::Timestamp | Kind::Date) => {
                let whole = |value: f64| value.fract() == 0.0 && value.abs() < 9.0e18;
                let value = text.parse::<i64>().ok();
                let value = value.or_else(|| float().ok().filter(|value| whole(*value)).map(|value| value as i64));
                value.map(Cell::Int).ok_or_else(|| self.unlike(text))
            }
            Wanted::Value(Kind::Text { .. } | Kind::String { .. } | Kind::Blob { .. }) => Err(self.unlike(text)),
        }
    }

    /// From a text.
    pub(crate) fn text(self, text: &str) -> Result<Cell> {
        match self {
            Wanted::Value(kind) if kind.text_length().is_some() => Ok(Cell::Text(text.as_bytes().to_vec())),
            // Some products put their numbers in quotes.
            _ => self.number(text),
        }
    }

    fn boolean(self, value: bool, text: &str) -> Result<Cell> {
        if self == Wanted::Value(Kind::Bool) { Ok(Cell::Bool(value)) } else { Err(self.unlike(text)) }
    }

    /// What a missing value stands for.
    pub(crate) fn nothing(self) -> Cell {
        if self == Wanted::Count { Cell::Int(0) } else { Cell::Null }
    }

    fn unlike(self, text: &str) -> Error {
        Error::protocol(format!("an answer has {text:?} where {self:?} was expected"))
    }
}

/// A time that an answer has as a whole number.
pub(crate) fn time(scalar: &str) -> Result<i64> {
    scalar.parse().map_err(|_| Error::protocol(format!("an answer has {scalar:?} where a time was expected")))
}

/// Devices by table and name.
pub(crate) struct Devices(Vec<HashMap<String, u32>>);

impl Devices {
    /// Cost: about 50 bytes a device.
    pub(crate) fn new(schema: &Schema) -> Devices {
        let mut tables = vec![HashMap::new(); schema.tables.len()];
        for (number, device) in schema.devices.iter().enumerate() {
            tables[device.table as usize].insert(device.tags[0].clone(), number as u32);
        }
        Devices(tables)
    }

    /// The device that an answer about `table` names.
    pub(crate) fn find(&self, table: u32, name: &str) -> Result<u32> {
        let found = self.0[table as usize].get(name).copied();
        found.ok_or_else(|| Error::protocol(format!("an answer names the device {name:?}, which nobody wrote")))
    }
}

/// The values of a line of CSV, RFC 4180.
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
    fn scalars_become_what_was_asked_for_or_errors() {
        let int = Wanted::Value(Kind::Int64);
        let double = Wanted::Value(Kind::Double { decimals: 2 });
        let float = Wanted::Value(Kind::Float { decimals: 2 });
        let boolean = Wanted::Value(Kind::Bool);
        let text = Wanted::Value(Kind::Text { length: 2 });
        let right = [
            (int, "7", Cell::Int(7)),
            (int, "-7.0", Cell::Int(-7)),
            (int, "9007199254740993", Cell::Int(9_007_199_254_740_993)),
            (int, "1.5e3", Cell::Int(1500)),
            (int, "\"7\"", Cell::Int(7)),
            (Wanted::Count, "null", Cell::Int(0)),
            (double, "7", Cell::Float(7.0)),
            (double, "null", Cell::Null),
            (double, "0.1", Cell::Float(0.1)),
            (float, "12.34", Cell::Float(f64::from(12.34f32))),
            (Wanted::Number, "12.34", Cell::Float(12.34)),
            (boolean, "true", Cell::Bool(true)),
            (boolean, "0", Cell::Bool(false)),
            (text, "\"aB\"", Cell::Text(b"aB".to_vec())),
        ];
        for (wanted, scalar, cell) in right {
            assert_eq!(wanted.json(scalar).expect(scalar), cell);
        }
        for (wanted, scalar) in
            [(int, "7.5"), (int, "true"), (boolean, "2"), (text, "7"), (double, "\"x\""), (double, "[1]"), (int, "")]
        {
            assert!(wanted.json(scalar).is_err(), "{wanted:?} {scalar}");
        }
    }

    #[test]
    fn lines_of_csv_are_split_outside_quotes() {
        assert_eq!(csv_fields(r#"a,"b,""c""",,1.5"#), ["a", "b,\"c\"", "", "1.5"]);
        assert_eq!(csv_fields(""), [""]);
    }
}
