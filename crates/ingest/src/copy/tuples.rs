//! Rows of a stream, as they stood there: for whoever reads values in ways of his own.

use model::Result;
use pg::Form;

use super::sink::{self, Sink};

/// Stands for NULL in the place of a length.
const NULL: u32 = u32::MAX;
/// Bytes of each line that are kept for messages: one more than these show.
const LINE_BYTES_KEPT: usize = 101;

/// Rows whose values are not read yet.
pub struct Tuples {
    table: String,
    columns: Vec<String>,
    form: Form,
    line: u64,
    count: u64,
    bytes: Vec<u8>,
    /// Begin and length in `bytes` of each field of each row.
    fields: Vec<(u32, u32)>,
    /// Of each row: its line, and begin and length in `bytes` of what the line looks like.
    lines: Vec<(u64, u32, u32)>,
}

impl Tuples {
    pub(super) fn new(table: String, columns: Vec<String>, form: Form) -> Tuples {
        let (bytes, fields, lines) = (Vec::new(), Vec::new(), Vec::new());
        Tuples { table, columns, form, line: 0, count: 0, bytes, fields, lines }
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Is there none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// How values are written.
    #[must_use]
    pub fn form(&self) -> Form {
        self.form
    }

    /// Bytes held.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes.len() + 8 * self.fields.len() + 16 * self.lines.len()
    }

    /// A value; `None` for NULL.
    #[must_use]
    pub fn field(&self, row: usize, field: usize) -> Option<&[u8]> {
        let (begin, len) = *self.fields.get(row * self.columns.len() + field)?;
        if len == NULL { None } else { self.bytes.get(begin as usize..(begin + len) as usize) }
    }

    /// Where a row stands: `COPY t, line 3`.
    #[must_use]
    pub fn place(&self, row: usize) -> String {
        sink::place(&self.table, self.lines.get(row).map_or(0, |(line, ..)| *line))
    }

    /// The same with what the line looks like, where there are lines.
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

    /// The same with column and value.
    #[must_use]
    pub fn place_of_field(&self, row: usize, field: usize) -> String {
        let text = self.field(row, field).filter(|_| self.form == Form::Text);
        sink::in_column(&self.place(row), self.column_name(field), text)
    }

    /// Forgets the rows, but not how many there were.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.fields.clear();
        self.lines.clear();
    }

    fn begun(&mut self, line: &[u8]) {
        let begin = self.bytes.len() as u32;
        let kept = &line[..line.len().min(LINE_BYTES_KEPT)];
        self.bytes.extend_from_slice(kept);
        self.lines.push((self.line_shown(), begin, kept.len() as u32));
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
        self.begun(line);
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
