//! COPY … FROM STDIN: a stream in text, CSV or binary, cut anywhere, into batches of one `columns` table ([`Decoder`]) or into
//! rows whose values are still to be read ([`TupleDecoder`]).
//!
//! The formats are PostgreSQL 15's, byte for byte (its manual, "COPY", File Formats), with one narrowing: `\.` ends text and CSV only
//! alone on its line.
//!
//! Always true:
//! - What comes out does not depend on where the stream was cut.
//! - An unfinished line or tuple is kept until it is whole; one that grows beyond [`LINE_BYTES_MAX`] is refused.
//! - After an error the decoder is not to be used further; rows handed out before it belong to a transaction that must not commit.

mod binary;
mod lines;
mod rows;
mod sink;
#[cfg(test)]
mod tests;
mod tuples;

use engine::Batch;
use model::{ColumnId, Error, Result, SqlState, TableRef, limits};

use self::binary::Binary;
use self::lines::Lines;
use self::rows::RowSet;
pub use self::rows::oid_of;
use self::sink::Sink;
pub use self::tuples::Tuples;

/// Largest line of text or CSV, and largest binary tuple: a row of the largest size, each byte escaped in four.
pub const LINE_BYTES_MAX: usize = 4 * limits::ROW_BYTES_MAX;

/// Gives the offset from UTC, in seconds east, of a zone (`None`: the session's) at a local time in seconds since 1970.
pub type Zones = Box<dyn Fn(Option<&str>, i64) -> Option<i32> + Send + Sync>;

/// How the stream is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Fields between tabs, backslash escapes.
    Text,
    /// Fields between commas, quotes.
    Csv,
    /// `PGCOPY`.
    Binary,
}

/// Whether the first line holds names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Header {
    /// It is data.
    #[default]
    None,
    /// It is skipped.
    Skip,
    /// It must name the columns.
    Match,
}

/// What `WITH (…)` said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How the stream is written.
    pub format: Format,
    /// Between fields. Text and CSV.
    pub delimiter: u8,
    /// What stands for NULL. Text and CSV.
    pub null: String,
    /// Whether the first line holds names. Text and CSV.
    pub header: Header,
    /// Around fields. CSV.
    pub quote: u8,
    /// Before a quote inside a field. CSV.
    pub escape: u8,
    /// Columns (places in the column list) whose quoted values may be NULL too. CSV.
    pub force_null: Vec<usize>,
    /// Columns (places in the column list) that are never NULL. CSV.
    pub force_not_null: Vec<usize>,
}

impl Options {
    /// PostgreSQL's defaults for text.
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

    /// PostgreSQL's defaults for CSV.
    #[must_use]
    pub fn csv() -> Options {
        Options { format: Format::Csv, delimiter: b',', null: String::new(), ..Options::text() }
    }

    /// Binary.
    #[must_use]
    pub fn binary() -> Options {
        Options { format: Format::Binary, ..Options::text() }
    }

    /// Refuses combinations that cannot be read back, in PostgreSQL's words.
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

/// Malformed data (22P04).
fn malformed(message: impl Into<String>) -> Error {
    Error::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}

/// A running COPY into a `columns` table: fed with pieces, gives batches.
pub struct Decoder(Reader<RowSet>);

/// A running COPY: fed with pieces, gives rows whose values are still to be read.
pub struct TupleDecoder(Reader<Tuples>);

/// A stream on its way into rows.
struct Reader<S> {
    rows: S,
    stream: Stream,
    /// Bytes of an unfinished line or tuple.
    carry: Vec<u8>,
}

enum Stream {
    Lines(Lines),
    Binary(Binary),
}

impl Decoder {
    /// For rows of `table`, whose fields come in the order of `columns`.
    ///
    /// # Errors
    /// 22023 as [`Options::check`]; 42703 for a column that `table` has not; 42701 for one twice.
    pub fn new(table: TableRef, columns: &[ColumnId], options: Options, zones: Zones) -> Result<Decoder> {
        let stream = Stream::new(options, columns.len())?;
        Ok(Decoder(Reader { rows: RowSet::new(table, columns, zones)?, stream, carry: Vec::new() }))
    }

    /// Is the format binary?
    #[must_use]
    pub fn binary(&self) -> bool {
        self.0.stream.is_binary()
    }

    /// Fields of a row.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.0.rows.width()
    }

    /// Rows so far.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.0.rows.count()
    }

    /// Bytes held, batches handed out not counted.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.0.carry.capacity() + self.0.rows.memory_bytes()
    }

    /// Decodes a piece; batches that are full are appended to `out`.
    ///
    /// # Errors
    /// 22P04 malformed; 22P02, 22P03, 22003, 22007, 22008, 22021 bad values; 23502; 54000. The place says line and column.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<Batch>) -> Result<()> {
        self.0.push(bytes)?;
        self.0.rows.take(out);
        Ok(())
    }

    /// The end of the stream: the remaining rows.
    ///
    /// # Errors
    /// As [`Decoder::push`]; 22P04 when the stream ends in the middle of something.
    pub fn finish(&mut self, out: &mut Vec<Batch>) -> Result<()> {
        self.0.finish()?;
        self.0.rows.finish()?;
        self.0.rows.take(out);
        Ok(())
    }
}

impl TupleDecoder {
    /// For rows of these columns; `table` is for messages.
    ///
    /// # Errors
    /// 22023 as [`Options::check`].
    pub fn new(table: String, columns: Vec<String>, options: Options) -> Result<TupleDecoder> {
        let form = if options.format == Format::Binary { pg::Form::Binary } else { pg::Form::Text };
        let stream = Stream::new(options, columns.len())?;
        Ok(TupleDecoder(Reader { rows: Tuples::new(table, columns, form), stream, carry: Vec::new() }))
    }

    /// Fields of a row.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.0.rows.width()
    }

    /// Rows so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.rows.count()
    }

    /// Cuts a piece into rows, which are added to [`TupleDecoder::rows`].
    ///
    /// # Errors
    /// 22P04 malformed; 54000. The place says the line.
    pub fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.push(bytes)
    }

    /// The end of the stream: the last row may lack its newline.
    ///
    /// # Errors
    /// As [`TupleDecoder::push`]; 22P04 when the stream ends in the middle of something.
    pub fn finish(&mut self) -> Result<()> {
        self.0.finish()
    }

    /// The rows that were not taken yet: who has taken them clears them.
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
        Error::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("a row takes more than {LINE_BYTES_MAX} bytes as COPY data"),
        )
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

    /// Decodes all that is whole; how many bytes that were. The rest comes again, with more behind it.
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
