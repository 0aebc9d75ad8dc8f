//! Results as a table, CSV, JSON or a JSON object a line.

use std::io::{self, Write};

use serde_json::Value;
use tokio_postgres::types::Type;

use crate::table::{Align, draw};

/// How results look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// Lined-up columns, for reading.
    Table,
    /// RFC 4180 with a header; NULL is empty, the empty text is "".
    Csv,
    /// One array of objects.
    Json,
    /// One object a line.
    Ndjson,
}

/// A column of a result.
pub(super) struct Head {
    pub(super) name: String,
    /// `None` when the server was not asked.
    pub(super) ty: Option<Type>,
}

/// Writes one result, row by row; a table is drawn at the end, when its widths are known.
pub(super) struct Writer {
    format: Format,
    head: Vec<Head>,
    kept: Vec<Vec<Option<String>>>,
    rows: u64,
}

impl Writer {
    /// Begins a result.
    pub(super) fn new(format: Format, head: Vec<Head>, out: &mut impl Write) -> io::Result<Writer> {
        match format {
            Format::Csv => csv_line(out, head.iter().map(|column| Some(column.name.as_str())))?,
            Format::Json => out.write_all(b"[")?,
            Format::Table | Format::Ndjson => {}
        }
        Ok(Writer { format, head, kept: Vec::new(), rows: 0 })
    }

    /// Adds a row, values as the server's text.
    pub(super) fn row<'a>(
        &mut self,
        values: impl Iterator<Item = Option<&'a str>>,
        out: &mut impl Write,
    ) -> io::Result<()> {
        match self.format {
            Format::Table => self.kept.push(values.map(|value| value.map(str::to_owned)).collect()),
            Format::Csv => csv_line(out, values)?,
            Format::Json => {
                out.write_all(if self.rows == 0 { b"\n  " } else { b",\n  " })?;
                self.object(values, out)?;
            }
            Format::Ndjson => {
                self.object(values, out)?;
                out.write_all(b"\n")?;
            }
        }
        self.rows += 1;
        Ok(())
    }

    /// Ends the result.
    pub(super) fn finish(self, out: &mut impl Write) -> io::Result<()> {
        match self.format {
            Format::Table => {
                let head: Vec<_> =
                    self.head.iter().map(|column| (column.name.clone(), align(column.ty.as_ref()))).collect();
                let plural = if self.rows == 1 { "" } else { "s" };
                writeln!(out, "{}({} row{plural})\n", draw(&head, &self.kept, ""), self.rows)
            }
            Format::Json => out.write_all(if self.rows == 0 { b"]\n" } else { b"\n]\n" }),
            Format::Csv | Format::Ndjson => Ok(()),
        }
    }

    fn object<'a>(&self, values: impl Iterator<Item = Option<&'a str>>, out: &mut impl Write) -> io::Result<()> {
        out.write_all(b"{")?;
        for (at, (column, value)) in self.head.iter().zip(values).enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(out, "{comma}{}:", Value::from(column.name.as_str()))?;
            out.write_all(json(column.ty.as_ref(), value).as_bytes())?;
        }
        out.write_all(b"}")
    }
}

fn is_number(ty: &Type) -> bool {
    [Type::INT2, Type::INT4, Type::INT8, Type::FLOAT4, Type::FLOAT8, Type::NUMERIC, Type::OID].contains(ty)
}

fn align(ty: Option<&Type>) -> Align {
    if ty.is_some_and(is_number) { Align::Right } else { Align::Left }
}

/// A value as JSON. Numbers keep all their digits; NaN and infinities, which JSON lacks, become text.
fn json(ty: Option<&Type>, value: Option<&str>) -> String {
    let Some(text) = value else { return "null".to_owned() };
    match ty {
        Some(&Type::BOOL) => (if text == "t" { "true" } else { "false" }).to_owned(),
        Some(ty)
            if is_number(ty) && text.starts_with(|c: char| c.is_ascii_digit() || c == '-') && text != "-Infinity" =>
        {
            text.to_owned()
        }
        Some(&Type::JSON | &Type::JSONB) => text.to_owned(),
        _ => Value::from(text).to_string(),
    }
}

fn csv_line<'a>(out: &mut impl Write, values: impl Iterator<Item = Option<&'a str>>) -> io::Result<()> {
    for (at, value) in values.enumerate() {
        if at > 0 {
            out.write_all(b",")?;
        }
        match value {
            None => {}
            Some(text) if text.is_empty() || text.contains([',', '"', '\n', '\r']) || text == "\\." => {
                write!(out, "\"{}\"", text.replace('"', "\"\""))?;
            }
            Some(text) => out.write_all(text.as_bytes())?,
        }
    }
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(format: Format, rows: &[[Option<&str>; 3]]) -> String {
        let head = [("n", Type::INT8), ("v", Type::FLOAT8), ("s", Type::TEXT)];
        let head = head.into_iter().map(|(name, ty)| Head { name: name.to_owned(), ty: Some(ty) }).collect();
        let mut out = Vec::new();
        let mut writer = Writer::new(format, head, &mut out).unwrap();
        for row in rows {
            writer.row(row.iter().copied(), &mut out).unwrap();
        }
        writer.finish(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    const ROWS: &[[Option<&str>; 3]] =
        &[[Some("1"), Some("-Infinity"), Some("a \"b\", c")], [None, Some("2.50"), Some("")]];

    #[test]
    fn csv_tells_null_from_the_empty_text() {
        assert_eq!(written(Format::Csv, ROWS), "n,v,s\n1,-Infinity,\"a \"\"b\"\", c\"\n,2.50,\"\"\n");
    }

    #[test]
    fn json_keeps_digits_and_is_json() {
        let text = written(Format::Json, ROWS);
        assert!(text.contains("\"v\":2.50,"), "{text}");
        let parsed: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(parsed[0]["v"], Value::from("-Infinity"));
        assert_eq!(parsed[1]["n"], Value::Null);
        assert_eq!(serde_json::from_str::<Value>(&written(Format::Json, &[])).unwrap(), Value::Array(vec![]));
        assert_eq!(written(Format::Ndjson, ROWS).lines().count(), 2);
    }

    #[test]
    fn a_table_ends_with_the_number_of_rows() {
        assert!(written(Format::Table, &ROWS[..1]).ends_with("(1 row)\n\n"));
        assert!(written(Format::Table, ROWS).contains("2.50"));
    }
}
