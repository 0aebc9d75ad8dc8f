//! COPY … FROM STDIN: decodes a stream in text, CSV or binary format, in pieces of any size, to
//! batches of a `columns` table ([`Decoder`]) or to rows of raw field values ([`TupleDecoder`]).
//!
//! The formats are PostgreSQL 15's, byte for byte (manual, "COPY", File Formats), with one
//! restriction: `\.` ends text and CSV only on a line of its own.
//!
//! Always true:
//! - The result does not depend on how the stream is split into pieces.
//! - An incomplete line or tuple is buffered; one longer than [`LINE_BYTES_MAX`] is refused.
//! - A decoder must not be used after an error, and the transaction with the rows returned before
//!   must not commit.

mod binary;
mod lines;
mod rows;
mod sink;
#[cfg(test)]
mod tests;
mod tuples;

use std::sync::Arc;

use engine::Batch;
use model::{ColumnId, Error, Result, SqlState, TableRef, limits};

use self::binary::Binary;
use self::lines::Lines;
use self::rows::RowSet;
pub use self::rows::oid_of;
use self::sink::Sink;
pub use self::tuples::Tuples;
use crate::Inputs;

/// Largest line of text or CSV and largest binary tuple: a row of the largest size with each byte
/// written as two, like hexadecimal `bytea` or doubled quotes.
pub const LINE_BYTES_MAX: usize = 2 * limits::ROW_BYTES_MAX;
/// Buffers that a long line has made larger than this are made smaller after it.
const BUFFER_BYTES_KEPT: usize = 1 << 20;

/// Returns a zone's UTC offset, in seconds east, at a local time in seconds since 1970. Zone `None`
/// is the session's.
pub type Zones = Box<dyn Fn(Option<&str>, i64) -> Option<i32> + Send + Sync>;

/// What decides the meaning of texts.
pub struct Settings {
    /// Time zones.
    pub zones: Zones,
    /// Values of declared types.
    pub inputs: Arc<dyn Inputs>,
    /// Time of all rows if the stream does not have it, in the unit of the column.
    pub time: Option<i64>,
}

/// Format of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Tab-separated fields with backslash escapes.
    Text,
    /// Comma-separated fields with quotes.
    Csv,
    /// PostgreSQL's binary format, signature `PGCOPY`.
    Binary,
}

/// Treatment of the first line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Header {
    /// Data.
    #[default]
    None,
    /// Column names, skipped.
    Skip,
    /// Column names, which must match the column list.
    Match,
}

/// Options of COPY: `WITH (…)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Format of the stream.
    pub format: Format,
    /// Field separator. Text and CSV.
    pub delimiter: u8,
    /// Representation of NULL. Text and CSV.
    pub null: String,
    /// Treatment of the first line. Text and CSV.
    pub header: Header,
    /// Quote character. CSV.
    pub quote: u8,
    /// Escape character before a quote inside a quoted field. CSV.
    pub escape: u8,
    /// Columns, by position in the column list, in which the NULL representation counts even if
    /// quoted. CSV.
    pub force_null: Vec<usize>,
    /// Columns, by position in the column list, in which the NULL representation is a string. CSV.
    pub force_not_null: Vec<usize>,
}

impl Options {
    /// PostgreSQL's defaults for text format.
    #[must_use]
    pub fn text() -> Options {
        Options {
            format: Format::Text,
            delimiter: b'\t',
            null: "\\N".into(),
            header: Header::None,
            quote: b'"',
            escape: b'"',
            force_null: Vec::new(),
            force_not_null: Vec::new(),
        }
    }

    /// PostgreSQL's defaults for CSV format.
    #[must_use]
    pub fn csv() -> Options {
        Options { format: Format::Csv, delimiter: b',', null: String::new(), ..Options::text() }
    }

    /// Options for binary format.
    #[must_use]
    pub fn binary() -> Options {
        Options { format: Format::Binary, ..Options::text() }
    }

    /// Refuses ambiguous combinations, with PostgreSQL's messages.
    ///
    /// # Errors
    /// 22023.
    pub fn check(&self) -> Result<()> {
        match self.format {
            Format::Binary => Ok(()),
            Format::Text => self.check_common().and_then(|()| self.check_text()),
            Format::Csv => self.check_common().and_then(|()| self.check_csv()),
        }
    }

    fn check_common(&self) -> Result<()> {
        if matches!(self.delimiter, b'\n' | b'\r') {
            return Err(invalid("COPY delimiter cannot be newline or carriage return"));
        }
        if self.null.contains(['\n', '\r']) {
            return Err(invalid("COPY null representation cannot use newline or carriage return"));
        }
        if self.null.as_bytes().contains(&self.delimiter) {
            return Err(invalid("COPY delimiter must not appear in the NULL specification"));
        }
        Ok(())
    }

    fn check_text(&self) -> Result<()> {
        if b"\\.abcdefghijklmnopqrstuvwxyz0123456789".contains(&self.delimiter) {
            return Err(invalid(format!("COPY delimiter cannot be \"{}\"", self.delimiter as char)));
        }
        Ok(())
    }

    fn check_csv(&self) -> Result<()> {
        if self.delimiter == self.quote {
            return Err(invalid("COPY delimiter and quote must be different"));
        }
        if self.null.as_bytes().contains(&self.quote) {
            return Err(invalid("CSV quote character must not appear in the NULL specification"));
        }
        Ok(())
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// Error 22P04 for malformed data.
fn malformed(message: impl Into<String>) -> Error {
    Error::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}

/// Decoder of a COPY into a `columns` table: pieces in, batches out.
pub struct Decoder(Reader<RowSet>);

/// Decoder of a COPY: pieces in, rows of raw field values out.
pub struct TupleDecoder(Reader<Tuples>);

/// State of a stream that is decoded into rows.
struct Reader<S> {
    rows: S,
    stream: Stream,
    /// An incomplete line or tuple.
    carry: Vec<u8>,
}

enum Stream {
    Lines(Lines),
    Binary(Binary),
}

impl Decoder {
    /// A decoder for rows of `table` whose fields are in the order of `columns`.
    ///
    /// # Errors
    /// 22023 as in [`Options::check`]; 42703 for an unknown column; 42701 for a duplicate one.
    pub fn new(table: TableRef, columns: &[ColumnId], options: Options, settings: Settings) -> Result<Decoder> {
        let stream = Stream::new(options, columns.len())?;
        Ok(Decoder(Reader { rows: RowSet::new(table, columns, settings)?, stream, carry: Vec::new() }))
    }

    /// Whether the format is binary.
    #[must_use]
    pub fn binary(&self) -> bool {
        self.0.stream.is_binary()
    }

    /// Number of fields per row.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.0.rows.width()
    }

    /// Number of rows so far.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.0.rows.count()
    }

    /// Bytes held, without batches already returned.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.0.carry.capacity() + self.0.rows.memory_bytes() + self.0.stream.memory_bytes()
    }

    /// Decodes a piece; appends full batches to `out`.
    ///
    /// # Errors
    /// 22P04: malformed stream. 22P02, 22P03, 22003, 22007, 22008, 22021: invalid value. 23502;
    /// 54000. The error's context has line and column.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<Batch>) -> Result<()> {
        self.0.push(bytes)?;
        self.0.rows.take(out);
        Ok(())
    }

    /// Ends the stream; appends the remaining rows.
    ///
    /// # Errors
    /// See [`Decoder::push`]; 22P04 if the stream is truncated.
    pub fn finish(&mut self, out: &mut Vec<Batch>) -> Result<()> {
        self.0.finish()?;
        self.0.rows.finish()?;
        self.0.rows.take(out);
        Ok(())
    }
}

impl TupleDecoder {
    /// A decoder for rows of these columns; `table` is used in messages only.
    ///
    /// # Errors
    /// 22023 as in [`Options::check`].
    pub fn new(table: String, columns: Vec<String>, options: Options) -> Result<TupleDecoder> {
        let form = if options.format == Format::Binary { pg::Form::Binary } else { pg::Form::Text };
        let stream = Stream::new(options, columns.len())?;
        Ok(TupleDecoder(Reader { rows: Tuples::new(table, columns, form), stream, carry: Vec::new() }))
    }

    /// Number of fields per row.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.0.rows.width()
    }

    /// Number of rows so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.rows.count()
    }

    /// Splits a piece into rows, appended to [`TupleDecoder::rows`].
    ///
    /// # Errors
    /// 22P04: malformed stream. 54000. The error's context has the line.
    pub fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.push(bytes)
    }

    /// Ends the stream. The last line may lack its newline.
    ///
    /// # Errors
    /// See [`TupleDecoder::push`]; 22P04 if the stream is truncated.
    pub fn finish(&mut self) -> Result<()> {
        self.0.finish()
    }

    /// Rows decoded since the last [`Tuples::clear`]; the caller clears them after use.
    pub fn rows(&mut self) -> &mut Tuples {
        &mut self.0.rows
    }
}

impl<S: Sink> Reader<S> {
    fn push(&mut self, bytes: &[u8]) -> Result<()> {
        if self.carry.is_empty() {
            let used = self.stream.consume(bytes, &mut self.rows)?;
            self.carry.extend_from_slice(&bytes[used..]);
        } else {
            self.carry.extend_from_slice(bytes);
            let used = self.stream.consume(&self.carry, &mut self.rows)?;
            self.carry.drain(..used);
            if used > BUFFER_BYTES_KEPT {
                self.carry.shrink_to(BUFFER_BYTES_KEPT);
            }
        }
        if self.carry.len() > LINE_BYTES_MAX {
            return Err(self.too_long());
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        let rest = std::mem::take(&mut self.carry);
        self.stream.finish(&rest, &mut self.rows)
    }

    fn too_long(&self) -> Error {
        Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, format!("a row exceeds {LINE_BYTES_MAX} bytes of COPY data"))
            .with_place(sink::place(self.rows.table_name(), self.rows.count() + 1))
    }
}

impl Stream {
    fn new(options: Options, columns: usize) -> Result<Stream> {
        options.check()?;
        Ok(match options.format {
            Format::Binary => Stream::Binary(Binary::new()),
            _ => Stream::Lines(Lines::new(options, columns)),
        })
    }

    fn is_binary(&self) -> bool {
        matches!(self, Stream::Binary(_))
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Stream::Lines(lines) => lines.memory_bytes(),
            Stream::Binary(_) => 0,
        }
    }

    /// Decodes all complete lines or tuples and returns the bytes consumed. The caller passes the
    /// rest again, with more data appended.
    fn consume(&mut self, bytes: &[u8], rows: &mut impl Sink) -> Result<usize> {
        match self {
            Stream::Lines(lines) => lines.consume(bytes, rows),
            Stream::Binary(binary) => binary.consume(bytes, rows),
        }
    }

    fn finish(&mut self, rest: &[u8], rows: &mut impl Sink) -> Result<()> {
        match self {
            Stream::Lines(lines) => lines.finish(rest, rows),
            Stream::Binary(binary) => binary.finish(rest),
        }
    }
}
