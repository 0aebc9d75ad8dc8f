//! Destination of a stream's fields, and the context of errors.

use model::{Error, Result};

/// Bytes of an invalid line or value shown in a message.
const EXCERPT_BYTES_MAX: usize = 100;

/// Receives rows field by field.
pub(super) trait Sink {
    /// Table name, for messages.
    fn table_name(&self) -> &str;
    /// Number of fields per row.
    fn width(&self) -> usize;
    /// Column name of a field, for messages.
    fn column_name(&self, field: usize) -> &str;
    /// Number of completed rows.
    fn count(&self) -> u64;
    /// Current line, from 1; 0 if the format has no lines.
    fn line(&self) -> u64;
    /// Sets the current line, the last one of a quoted multi-line record.
    fn set_line(&mut self, line: u64);
    /// Starts a row; `line` is its text, empty in binary format.
    fn begin_row(&mut self, _line: &[u8]) {}
    /// Adds a value in text format.
    fn put_text(&mut self, field: usize, text: &[u8]) -> Result<()>;
    /// Adds a value in binary format.
    fn put_binary(&mut self, field: usize, bytes: &[u8]) -> Result<()>;
    /// Completes the row. Fields without a value are NULL.
    fn end_row(&mut self) -> Result<()>;

    /// Adds the line to an error's context.
    #[cold]
    fn at_line(&self, error: Error) -> Error {
        error.with_place(place(self.table_name(), self.line_or_tuple()))
    }

    /// Adds line and column to an error's context.
    #[cold]
    fn at_field(&self, error: Error, field: usize, text: Option<&[u8]>) -> Error {
        let place = place(self.table_name(), self.line_or_tuple());
        error.with_place(in_column(&place, self.column_name(field), text))
    }

    /// Adds line number and text to an error's context, like PostgreSQL.
    #[cold]
    fn in_line(&self, error: Error, line: &[u8]) -> Error {
        error.with_place(in_text(&place(self.table_name(), self.line()), line))
    }

    /// Line number for messages; the tuple's number in binary format.
    fn line_or_tuple(&self) -> u64 {
        if self.line() > 0 { self.line() } else { self.count() + 1 }
    }
}

/// `COPY t, line 3`
pub(super) fn place(table: &str, line: u64) -> String {
    format!("COPY {table}, line {line}")
}

/// Appends `, column a: "x"`.
pub(super) fn in_column(place: &str, column: &str, text: Option<&[u8]>) -> String {
    match text {
        Some(text) => in_text(&format!("{place}, column {column}"), text),
        None => format!("{place}, column {column}"),
    }
}

/// Appends `: "x"`.
pub(super) fn in_text(place: &str, text: &[u8]) -> String {
    format!("{place}: \"{}\"", excerpt(text))
}

/// The first [`EXCERPT_BYTES_MAX`] bytes of a line or value, for messages.
pub(super) fn excerpt(text: &[u8]) -> String {
    if text.len() <= EXCERPT_BYTES_MAX {
        return String::from_utf8_lossy(text).into_owned();
    }
    let mut end = EXCERPT_BYTES_MAX;
    // UTF-8: cut at a character boundary.
    while end > 0 && text[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    format!("{}...", String::from_utf8_lossy(&text[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_cut_between_characters() {
        assert_eq!(excerpt(&[b'x'; 100]), "x".repeat(100));
        assert_eq!(excerpt(&[b'x'; 101]), "x".repeat(100) + "...");
        let text = "x".repeat(99) + "é";
        assert_eq!(excerpt(text.as_bytes()), "x".repeat(99) + "...");
    }
}
