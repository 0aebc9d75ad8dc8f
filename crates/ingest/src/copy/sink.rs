//! Where the fields of a stream go, and how an error says where in the stream it was met.

use model::{Error, Result};

/// Bytes of a bad line or value that a message shows.
const SHOWN_BYTES_MAX: usize = 100;

/// Takes rows field by field.
pub(super) trait Sink {
    /// The table's name, for messages.
    fn table_name(&self) -> &str;
    /// Fields of a row.
    fn width(&self) -> usize;
    /// A field's column, for messages.
    fn column_name(&self, field: usize) -> &str;
    /// Rows completed.
    fn count(&self) -> u64;
    /// Number of the line being read, from 1; 0 where there are no lines.
    fn line(&self) -> u64;
    /// A line begins, or goes on.
    fn set_line(&mut self, line: u64);
    /// Tells how the row to come looks in the stream.
    fn begin_row(&mut self, _line: &[u8]) {}
    /// Puts a value in its text form.
    fn put_text(&mut self, field: usize, text: &[u8]) -> Result<()>;
    /// Puts a value in its binary form.
    fn put_binary(&mut self, field: usize, bytes: &[u8]) -> Result<()>;
    /// Completes the row. What was not put is NULL.
    fn end_row(&mut self) -> Result<()>;

    /// Adds where in the stream an error was met.
    #[cold]
    fn at_line(&self, error: Error) -> Error {
        error.with_place(place(self.table_name(), self.line_shown()))
    }

    /// Adds where in the stream, and in which column, an error was met.
    #[cold]
    fn at_field(&self, error: Error, field: usize, text: Option<&[u8]>) -> Error {
        let place = place(self.table_name(), self.line_shown());
        error.with_place(in_column(&place, self.column_name(field), text))
    }

    /// Adds the line, as PostgreSQL's context does.
    #[cold]
    fn in_line(&self, error: Error, line: &[u8]) -> Error {
        error.with_place(in_text(&place(self.table_name(), self.line()), line))
    }

    /// Binary streams have no lines: tuples are counted.
    fn line_shown(&self) -> u64 {
        if self.line() > 0 { self.line() } else { self.count() + 1 }
    }
}

/// `COPY t, line 3`
pub(super) fn place(table: &str, line: u64) -> String {
    format!("COPY {table}, line {line}")
}

/// With `, column a: "x"` behind it.
pub(super) fn in_column(place: &str, column: &str, text: Option<&[u8]>) -> String {
    match text {
        Some(text) => in_text(&format!("{place}, column {column}"), text),
        None => format!("{place}, column {column}"),
    }
}

/// With `: "x"` behind it.
pub(super) fn in_text(place: &str, text: &[u8]) -> String {
    format!("{place}: \"{}\"", excerpt(text))
}

/// The beginning of a line or value, for a message.
pub(super) fn excerpt(text: &[u8]) -> String {
    if text.len() <= SHOWN_BYTES_MAX {
        return String::from_utf8_lossy(text).into_owned();
    }
    let mut end = SHOWN_BYTES_MAX;
    // Not in the middle of a character.
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
