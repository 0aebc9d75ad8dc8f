//! Rows of a COPY stream with raw field values, for callers that decode them on their own.

use model::Result;
use pg::Form;

use super::sink::{self, Sink};

/// Length of a NULL field.
const NULL: u32 = u32::MAX;
/// Bytes of each line kept for messages: one more than is shown, to detect truncation.
const LINE_EXCERPT_BYTES: usize = 101;

/// Rows with raw field values.
pub struct Tuples {
    table: String,
    columns: Vec<String>,
    form: Form,
    line: u64,
    count: u64,
    bytes: Vec<u8>,
    /// Offset and length in `bytes` of each field of each row.
    fields: Vec<(u32, u32)>,
    /// Per row: its line number, and offset and length in `bytes` of the line's start.
    lines: Vec<(u64, u32, u32)>,
}

impl Tuples {
    pub(super) fn new(table: String, columns: Vec<String>, form: Form) -> Tuples {
        let (bytes, fields, lines) = (Vec::new(), Vec::new(), Vec::new());
        Tuples { table, columns, form, line: 0, count: 0, bytes, fields, lines }
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Format of the values.
    #[must_use]
    pub fn form(&self) -> Form {
        self.form
    }

    /// Bytes held.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes.len() + 8 * self.fields.len() + 16 * self.lines.len()
    }

    /// Value of a field; `None`: NULL or absent.
    #[must_use]
    pub fn field(&self, row: usize, field: usize) -> Option<&[u8]> {
        let (begin, len) = *self.fields.get(row * self.columns.len() + field)?;
        if len == NULL { None } else { self.bytes.get(begin as usize..(begin + len) as usize) }
    }

    /// Error context of a row: `COPY t, line 3`.
    #[must_use]
    pub fn place(&self, row: usize) -> String {
        sink::place(&self.table, self.lines.get(row).map_or(0, |(line, ..)| *line))
    }

    /// Error context of a row with the line's text, in text format.
    #[must_use]
    pub fn place_shown(&self, row: usize) -> String {
        let place = self.place(row);
        match self.lines.get(row) {
            Some((_, begin, len)) if self.form == Form::Text => {
                sink::in_text(&place, &self.bytes[*begin as usize..(*begin + *len) as usize])
            }
            _ => place,
        }
    }

    /// Error context of a field: also column and value.
    #[must_use]
    pub fn place_of_field(&self, row: usize, field: usize) -> String {
        let text = self.field(row, field).filter(|_| self.form == Form::Text);
        sink::in_column(&self.place(row), self.column_name(field), text)
    }

    /// Removes the rows but keeps [`TupleDecoder::count`](super::TupleDecoder::count).
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.fields.clear();
        self.lines.clear();
    }

    fn push_line(&mut self, line: &[u8]) {
        let begin = self.bytes.len() as u32;
        let kept = &line[..line.len().min(LINE_EXCERPT_BYTES)];
        self.bytes.extend_from_slice(kept);
        self.lines.push((self.line_or_tuple(), begin, kept.len() as u32));
    }

    fn put(&mut self, field: usize, bytes: &[u8]) {
        self.fields.resize((self.lines.len() - 1) * self.columns.len() + field, (0, NULL));
        self.fields.push((self.bytes.len() as u32, bytes.len() as u32));
        self.bytes.extend_from_slice(bytes);
    }
}

impl Sink for Tuples {
    fn table_name(&self) -> &str {
        &self.table
    }

    fn width(&self) -> usize {
        self.columns.len()
    }

    fn column_name(&self, field: usize) -> &str {
        self.columns.get(field).map_or("", String::as_str)
    }

    fn count(&self) -> u64 {
        self.count
    }

    fn line(&self) -> u64 {
        self.line
    }

    fn set_line(&mut self, line: u64) {
        self.line = line;
    }

    fn begin_row(&mut self, line: &[u8]) {
        self.push_line(line);
    }

    fn put_text(&mut self, field: usize, text: &[u8]) -> Result<()> {
        self.put(field, text);
        Ok(())
    }

    fn put_binary(&mut self, field: usize, bytes: &[u8]) -> Result<()> {
        self.put(field, bytes);
        Ok(())
    }

    fn end_row(&mut self) -> Result<()> {
        self.fields.resize(self.lines.len() * self.columns.len(), (0, NULL));
        self.count += 1;
        Ok(())
    }
}
