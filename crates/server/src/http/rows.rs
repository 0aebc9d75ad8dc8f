//! Results as JSON, CSV or NDJSON.
//!
//! | value                         | JSON                                                                                  |
//! |-------------------------------|---------------------------------------------------------------------------------------|
//! | NULL                          | `null`                                                                                |
//! | boolean                       | `true`, `false`                                                                       |
//! | integers, numeric             | a number with all digits, even beyond 2^53                                            |
//! | real, double precision        | a number that parses to the same value; `"NaN"`, `"Infinity"`, `"-Infinity"`          |
//! | timestamptz, timestamp        | `"2026-11-21T08:00:00.123456789Z"`: UTC with nanoseconds; timestamp without `Z`       |
//! | everything else               | a string, as psql prints it                                                           |
//!
//! CSV has the same values (RFC 4180, with a header line); NULL is an empty field, the empty string
//! is `""`.

use ::pg::types::{Type, oid};
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, TimeUnit};
use model::{Error, Result};
use query::OutputColumn;

use crate::pg::TextCells;

/// Room of the scratch cell that is kept for the next row.
const CELL_BYTES_KEPT: usize = 64 << 10;

/// Format of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Format {
    /// One object with columns and rows.
    #[default]
    Json,
    /// A header line, then one line per row.
    Csv,
    /// One object per row.
    NdJson,
}

impl Format {
    pub(super) fn from_name(name: &str) -> Option<Format> {
        match name {
            "json" => Some(Format::Json),
            "csv" => Some(Format::Csv),
            "ndjson" | "jsonl" => Some(Format::NdJson),
            _ => None,
        }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Format::Json => "application/json",
            Format::Csv => "text/csv; charset=utf-8",
            Format::NdJson => "application/x-ndjson",
        }
    }
}

/// Writer of a result, batch by batch.
pub(super) struct Writer {
    format: Format,
    columns: Vec<OutputColumn>,
    /// Rows written.
    pub(super) rows: u64,
    /// Scratch: text of one cell.
    cell: Vec<u8>,
}

impl Writer {
    pub(super) fn new(format: Format, columns: Vec<OutputColumn>) -> Writer {
        Writer { format, columns, rows: 0, cell: Vec::new() }
    }

    pub(super) fn format(&self) -> Format {
        self.format
    }

    /// Appends the part before the rows.
    pub(super) fn head(&self, out: &mut Vec<u8>) {
        match self.format {
            Format::Json => {
                out.extend_from_slice(b"{\"columns\":[");
                separated(&self.columns, out, |column, out| {
                    out.extend_from_slice(b"{\"name\":");
                    push_string(column.name.as_bytes(), out);
                    out.extend_from_slice(b",\"type\":");
                    push_string(Type::sql_name(column.oid).as_bytes(), out);
                    out.push(b'}');
                });
                out.extend_from_slice(b"],\"rows\":[");
            }
            Format::Csv => {
                separated(&self.columns, out, |column, out| push_csv(column.name.as_bytes(), out));
                out.extend_from_slice(b"\r\n");
            }
            Format::NdJson => {}
        }
    }

    /// Appends the rows of a batch.
    pub(super) fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let Writer { format, columns, rows, cell } = self;
        let mut cells = TextCells::new(batch, columns)?;
        for row in 0..batch.num_rows() {
            begin_row(*format, *rows, out);
            for (at, column) in columns.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                if *format == Format::NdJson {
                    push_string(column.name.as_bytes(), out);
                    out.push(b':');
                }
                cell.clear();
                let is_timestamp = push_timestamp(batch.column(at), row, cell)?;
                let there = is_timestamp || cells.write(row, at, cell);
                push_cell(*format, column.oid, there.then_some(cell), out);
            }
            end_row(*format, out);
            cell.clear();
            cell.shrink_to(CELL_BYTES_KEPT);
            *rows += 1;
        }
        Ok(())
    }

    /// Appends the part after the rows.
    pub(super) fn tail(&self, elapsed_ms: f64, out: &mut Vec<u8>) {
        if self.format == Format::Json {
            let tail = format!("],\"row_count\":{},\"elapsed_ms\":{elapsed_ms:.3}}}\n", self.rows);
            out.extend_from_slice(tail.as_bytes());
        }
    }

    /// Appends the error that ended the rows early; false if the format cannot express it.
    pub(super) fn broken(&self, error: &serde_json::Value, out: &mut Vec<u8>) -> bool {
        let text = match self.format {
            Format::Json => format!("],\"row_count\":{},\"error\":{error}}}\n", self.rows),
            Format::NdJson => format!("{{\"error\":{error}}}\n"),
            Format::Csv => return false,
        };
        out.extend_from_slice(text.as_bytes());
        true
    }
}

fn begin_row(format: Format, rows: u64, out: &mut Vec<u8>) {
    match format {
        Format::Json if rows > 0 => out.extend_from_slice(b",\n["),
        Format::Json => out.extend_from_slice(b"\n["),
        Format::NdJson => out.push(b'{'),
        Format::Csv => {}
    }
}

fn end_row(format: Format, out: &mut Vec<u8>) {
    out.extend_from_slice(match format {
        Format::Json => b"]",
        Format::NdJson => b"}\n",
        Format::Csv => b"\r\n",
    });
}

fn separated<T>(items: &[T], out: &mut Vec<u8>, write: impl Fn(&T, &mut Vec<u8>)) {
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(item, out);
    }
}

/// Appends a timestamp in ISO 8601 with nanoseconds; false for other types and NULL.
fn push_timestamp(array: &dyn Array, row: usize, out: &mut Vec<u8>) -> Result<bool> {
    let DataType::Timestamp(TimeUnit::Nanosecond, zone) = array.data_type() else { return Ok(false) };
    if array.is_null(row) {
        return Ok(false);
    }
    let ns = array.as_primitive::<TimestampNanosecondType>().value(row);
    let text = jiff::Timestamp::from_nanosecond(ns.into()).map_err(Error::bug)?.to_string();
    let text = if zone.is_some() { text.as_str() } else { text.trim_end_matches('Z') };
    out.extend_from_slice(text.as_bytes());
    Ok(true)
}

fn push_cell(format: Format, oid: u32, cell: Option<&mut Vec<u8>>, out: &mut Vec<u8>) {
    match (format, cell) {
        (Format::Csv, None) => {}
        (Format::Csv, Some(cell)) => push_csv(cell, out),
        (_, None) => out.extend_from_slice(b"null"),
        (_, Some(cell)) => push_json(oid, cell, out),
    }
}

fn push_json(oid: u32, cell: &[u8], out: &mut Vec<u8>) {
    match oid {
        oid::BOOL => out.extend_from_slice(if cell == b"t" { b"true" } else { b"false" }),
        oid::INT2 | oid::INT4 | oid::INT8 | oid::OID | oid::NUMERIC | oid::FLOAT4 | oid::FLOAT8 if is_number(cell) => {
            out.extend_from_slice(cell);
        }
        _ => push_string(cell, out),
    }
}

/// Whether the text is a JSON number: NaN and the infinities are not.
fn is_number(cell: &[u8]) -> bool {
    matches!(cell, [b'-', b'0'..=b'9', ..] | [b'0'..=b'9', ..])
}

fn push_string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..=31 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            byte => out.push(*byte),
        }
    }
    out.push(b'"');
}

/// Quotes a field if necessary, and if empty: an unquoted empty field is NULL.
fn push_csv(text: &[u8], out: &mut Vec<u8>) {
    let plain = !text.is_empty() && !text.iter().any(|byte| matches!(byte, b'"' | b',' | b'\n' | b'\r'));
    if plain {
        out.extend_from_slice(text);
        return;
    }
    out.push(b'"');
    for byte in text {
        if *byte == b'"' {
            out.push(b'"');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{
        ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, TimestampNanosecondArray, UInt64Array,
    };

    use super::*;

    fn column(name: &str, oid: u32) -> OutputColumn {
        OutputColumn { name: name.into(), oid, typmod: -1, origin: None }
    }

    fn write(format: Format) -> String {
        let arrays: [(&str, u32, ArrayRef); 6] = [
            ("b", oid::BOOL, Arc::new(BooleanArray::from(vec![Some(true), None]))),
            ("i", oid::INT8, Arc::new(Int64Array::from(vec![Some(i64::MIN), None]))),
            ("u", oid::NUMERIC, Arc::new(UInt64Array::from(vec![Some(u64::MAX), None]))),
            ("f", oid::FLOAT8, Arc::new(Float64Array::from(vec![0.1, f64::NAN]))),
            ("s,\"", oid::TEXT, Arc::new(StringArray::from(vec![Some("a\"b\\\n\u{1}ü,"), Some("")]))),
            (
                "t",
                oid::TIMESTAMPTZ,
                Arc::new(TimestampNanosecondArray::from(vec![Some(1), None]).with_timezone("Europe/Vienna")),
            ),
        ];
        let columns = arrays.iter().map(|(name, oid, _)| column(name, *oid)).collect();
        let batch = RecordBatch::try_from_iter(arrays.map(|(name, _, array)| (name, array))).unwrap();
        let mut writer = Writer::new(format, columns);
        let mut out = Vec::new();
        writer.head(&mut out);
        writer.batch(&batch, &mut out).unwrap();
        writer.tail(1.5, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn json_keeps_every_digit_and_quotes_what_is_not_a_number() {
        let text = write(Format::Json);
        assert!(text.contains(r#"{"name":"i","type":"bigint"}"#), "{text}");
        assert!(text.contains(r#"[true,-9223372036854775808,18446744073709551615,0.1,"a\"b\\\n\u0001ü,","1970-01-01T00:00:00.000000001Z"]"#), "{text}");
        assert!(text.contains(r#"[null,null,null,"NaN","",null]"#), "{text}");
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&json["row_count"], &json["elapsed_ms"]), (&2.into(), &1.5.into()));
    }

    #[test]
    fn ndjson_is_one_object_per_row() {
        let text = write(Format::NdJson);
        let rows: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((rows.len(), rows[0]["u"].as_u64(), &rows[1]["f"]), (2, Some(u64::MAX), &"NaN".into()));
    }

    #[test]
    fn csv_distinguishes_null_from_the_empty_string() {
        assert_eq!(
            write(Format::Csv),
            "b,i,u,f,\"s,\"\"\",t\r\nt,-9223372036854775808,18446744073709551615,0.1,\"a\"\"b\\\n\u{1}ü,\",1970-01-01T00:00:00.000000001Z\r\n,,,NaN,\"\",\r\n"
        );
    }
}
