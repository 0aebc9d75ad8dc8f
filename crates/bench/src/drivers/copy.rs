//! Rows in PostgreSQL's binary `COPY` format: the fewest bytes and the least parsing of its
//! protocol.
//!
//! Source: PostgreSQL's manual, chapter "COPY", section "Binary Format".

use std::ops::Range;

use crate::schema::{Batch, Kind, Part, Schema, text_of};

/// Start of a stream: signature, no flags, no extension.
pub(crate) const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// End of a stream.
pub(crate) const TRAILER: [u8; 2] = (-1i16).to_be_bytes();
/// Microseconds from 1970-01-01 to PostgreSQL's epoch, 2000-01-01.
pub(crate) const EPOCH_MICROS: i64 = 946_684_800_000_000;
/// Days from 1970-01-01 to 2000-01-01.
pub(crate) const EPOCH_DAYS: i64 = 10_957;

/// Appends the rows of `batch`, without header and trailer: time, tags in order, then the batch's
/// fields that are in `fields` (indices in the table).
pub(crate) fn rows(schema: &Schema, batch: &Batch, fields: Range<u32>, out: &mut Vec<u8>) {
    let table = &schema.tables[batch.table as usize];
    let first = fields.start.max(batch.fields.start);
    let last = fields.end.min(batch.fields.end);
    let columns: Vec<(usize, Kind)> =
        (first..last).map(|field| ((field - batch.fields.start) as usize, table.fields[field as usize].kind)).collect();
    let count = (1 + table.tags.len() + columns.len()) as u16;
    let mut tags = Vec::new();
    for part in &batch.parts {
        tags.clear();
        for tag in &schema.devices[part.device as usize].tags {
            tags.extend_from_slice(&(tag.len() as u32).to_be_bytes());
            tags.extend_from_slice(tag.as_bytes());
        }
        for row in 0..part.times.len() {
            out.extend_from_slice(&count.to_be_bytes());
            push8(micros(schema, part.times[row]), out);
            out.extend_from_slice(&tags);
            for (column, kind) in &columns {
                value(schema, *kind, part, *column, row, out);
            }
        }
    }
}

/// Converts a time of the run to PostgreSQL's: microseconds since 2000-01-01.
pub(crate) fn micros(schema: &Schema, time: i64) -> i64 {
    let nanos = schema.unit.nanos();
    let micros = if nanos >= 1_000 { time * (nanos / 1_000) } else { time.div_euclid(1_000) };
    micros - EPOCH_MICROS
}

/// Appends length and bytes of one value.
#[inline]
pub(crate) fn value(schema: &Schema, kind: Kind, part: &Part, column: usize, row: usize, out: &mut Vec<u8>) {
    let units = part.unit(column, row);
    match kind {
        Kind::Double { .. } => push8(kind.number(units).to_bits() as i64, out),
        Kind::Float { .. } => push4((kind.number(units) as f32).to_bits(), out),
        Kind::Int64 => push8(units, out),
        Kind::Int32 => push4(units as u32, out),
        Kind::Bool => out.extend_from_slice(&[0, 0, 0, 1, units as u8]),
        Kind::Timestamp => push8(micros(schema, units), out),
        Kind::Date => push4((units - EPOCH_DAYS) as u32, out),
        Kind::Text { length } | Kind::String { length } | Kind::Blob { length } => {
            out.extend_from_slice(&u32::from(length).to_be_bytes());
            text_of(units, length, out);
        }
    }
}

/// Appends length and value in one copy of constant size.
#[inline]
fn push8(value: i64, out: &mut Vec<u8>) {
    let mut bytes = [0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes[4..].copy_from_slice(&value.to_be_bytes());
    out.extend_from_slice(&bytes);
}

#[inline]
fn push4(value: u32, out: &mut Vec<u8>) {
    let mut bytes = [0, 0, 0, 4, 0, 0, 0, 0];
    bytes[4..].copy_from_slice(&value.to_be_bytes());
    out.extend_from_slice(&bytes);
}
