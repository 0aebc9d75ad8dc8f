//! Line protocol `measurement,tag=value field=value time`, as InfluxDB, QuestDB, VictoriaMetrics
//! and Millrace accept it.

use std::sync::Arc;

use super::digits::{push_decimal, push_i64};
use crate::schema::{Batch, Kind, Part, Schema, Unit, text_of};

/// Variants of line protocol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    /// Suffix of integers: `i`, or empty for products without integers.
    pub(crate) integer_suffix: &'static str,
    /// Factor of times; 1 if the product knows the run's time unit.
    pub(crate) time_factor: i64,
    /// Whether floats are binary: `=`, 16 and 8 little-endian bytes (QuestDB's line protocol,
    /// version 2).
    pub(crate) binary_floats: bool,
    /// Whether text fields are sent; products with only numbers omit them.
    pub(crate) texts: bool,
}

/// All types as they are, times in the run's unit.
pub(crate) const ALL_TYPED: Style = Style { integer_suffix: "i", time_factor: 1, binary_floats: false, texts: true };

/// Encoder of batches of one schema. Repeated parts are prepared once; names are escaped only here.
pub(crate) struct Encoder {
    style: Style,
    /// `measurement,tag=value… `, by device.
    heads: Vec<Box<[u8]>>,
    /// `name=`, by table and field.
    keys: Vec<Vec<(Box<[u8]>, Kind)>>,
    schema: Arc<Schema>,
}

impl Encoder {
    /// Prepares the encoder for all devices of `schema`. Cost: about 50 bytes per device.
    pub(crate) fn new(schema: &Arc<Schema>, style: Style) -> Encoder {
        let heads = schema.devices.iter().enumerate().map(|(device, _)| head(schema, device)).collect();
        let keys = schema.tables.iter().map(|table| {
            let key = |field: &crate::schema::Field| {
                let mut key = Vec::new();
                escape(&field.name, b",= ", &mut key);
                key.push(b'=');
                (key.into_boxed_slice(), field.kind)
            };
            table.fields.iter().map(key).collect()
        });
        Encoder { style, heads, keys: keys.collect(), schema: Arc::clone(schema) }
    }

    /// Appends one line per row.
    pub(crate) fn encode(&self, batch: &Batch, out: &mut Vec<u8>) {
        let keys = &self.keys[batch.table as usize][batch.fields.start as usize..batch.fields.end as usize];
        for part in &batch.parts {
            for row in 0..part.times.len() {
                self.line(keys, part, row, out);
            }
        }
    }

    fn line(&self, keys: &[(Box<[u8]>, Kind)], part: &Part, row: usize, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(&self.heads[part.device as usize]);
        let fields = out.len();
        for (column, (key, kind)) in keys.iter().enumerate() {
            if !self.style.texts && kind.text_length().is_some() {
                continue;
            }
            out.extend_from_slice(key);
            self.value(*kind, part.unit(column, row), out);
            out.push(b',');
        }
        if out.len() == fields {
            // A line needs at least one field.
            out.truncate(begin);
            return;
        }
        out.pop();
        out.push(b' ');
        push_i64(part.times[row] * self.style.time_factor, out);
        out.push(b'\n');
    }

    #[inline]
    fn value(&self, kind: Kind, units: i64, out: &mut Vec<u8>) {
        match kind {
            Kind::Double { .. } | Kind::Float { .. } if self.style.binary_floats => {
                let mut bytes = [b'=', 16, 0, 0, 0, 0, 0, 0, 0, 0];
                bytes[2..].copy_from_slice(&kind.number(units).to_le_bytes());
                out.extend_from_slice(&bytes);
            }
            Kind::Double { decimals } | Kind::Float { decimals } => push_decimal(units, decimals, out),
            Kind::Bool => out.push(if units == 0 { b'f' } else { b't' }),
            Kind::Int32 | Kind::Int64 | Kind::Timestamp | Kind::Date => {
                push_i64(units, out);
                out.extend_from_slice(self.style.integer_suffix.as_bytes());
            }
            // Generated texts are letters and digits: nothing to escape.
            Kind::Text { length } | Kind::String { length } | Kind::Blob { length } => {
                out.push(b'"');
                text_of(units, length, out);
                out.push(b'"');
            }
        }
    }

    /// Name of the run's time unit in InfluxDB's `precision` parameter.
    pub(crate) fn precision(&self) -> &'static str {
        match self.schema.unit {
            Unit::Millis => "ms",
            Unit::Micros => "us",
            Unit::Nanos => "ns",
        }
    }
}

fn head(schema: &Schema, device: usize) -> Box<[u8]> {
    let table = schema.table_of(device as u32);
    let mut head = Vec::new();
    escape(&table.name, b", ", &mut head);
    // InfluxDB's documentation asks for tags sorted by key; otherwise it would sort them itself.
    let mut tags: Vec<(&String, &String)> = table.tags.iter().zip(&schema.devices[device].tags).collect();
    tags.sort();
    for (tag, value) in tags {
        head.push(b',');
        escape(tag, b",= ", &mut head);
        head.push(b'=');
        escape(value, b",= ", &mut head);
    }
    head.push(b' ');
    head.into_boxed_slice()
}

fn escape(text: &str, special: &[u8], out: &mut Vec<u8>) {
    for byte in text.bytes() {
        if special.contains(&byte) {
            out.push(b'\\');
        }
        out.push(byte);
    }
}
