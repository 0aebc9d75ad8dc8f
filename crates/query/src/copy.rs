//! COPY. `ingest` reads text, CSV and binary, which this module writes; `files` reads and writes Parquet and Arrow.

use std::sync::Arc;

use arrow_array::RecordBatch;
use futures::StreamExt;
use model::{Error, Result, SqlState, TableRef};
use parser::ast::{self as tree, Copy, CopySource, DefinitionItem, Name, OptionValue, Query};
use pg::Form;
use relational::results::{Batches, CHUNK_BYTES, Chunk, Chunks};
use rustc_hash::FxHashMap;

use crate::activity::{CopyProgress, Copying};
use crate::copy_file;
use crate::copy_in;
use crate::encode::Encoder;
use crate::errors::locate;
use crate::insert::{column_at, find_table};
use crate::option_values::{flag, required, text};
use crate::rows::Verb;
use crate::session::{Outcome, Plan, Session};
use crate::statement::{Command, Purpose, Statement};
use relational::files::{Compression, Kind, Writing};

pub use crate::copy_in::CopyIn;

/// Signature, flags and header extension of a binary COPY.
const BINARY_HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// A parsed COPY.
#[derive(Clone, Debug)]
pub(crate) struct CopyStatement {
    source: Source,
    from: bool,
    place: Place,
    pub(crate) options: Options,
}

#[derive(Clone, Debug)]
enum Source {
    Table(Name, Vec<String>),
    Query(Box<Query>),
}

/// The source of COPY FROM or the destination of COPY TO.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Client,
    /// A path on the server.
    File(String),
}

/// The data formats: PostgreSQL's three, and the file formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    #[default]
    Text,
    Csv,
    Binary,
    Parquet,
    Arrow,
    /// Arrow IPC stream, which can be read incrementally.
    ArrowStream,
}

impl Format {
    fn named(name: &str) -> Option<Format> {
        Some(match name.to_ascii_lowercase().as_str() {
            "text" => Format::Text,
            "csv" => Format::Csv,
            "binary" => Format::Binary,
            "parquet" => Format::Parquet,
            "arrow" | "feather" => Format::Arrow,
            "arrow_stream" | "arrows" => Format::ArrowStream,
            _ => return None,
        })
    }

    /// The format of a file when FORMAT is not stated, from the extension of its name.
    fn of_path(path: &str) -> Format {
        match path.rsplit_once('.').map(|(_, end)| end) {
            Some("parquet") => Format::Parquet,
            Some("arrow" | "feather") => Format::Arrow,
            Some("arrows") => Format::ArrowStream,
            _ => Format::Text,
        }
    }

    /// The kind of file; `None` for PostgreSQL's row formats.
    pub(crate) fn kind(self) -> Option<Kind> {
        match self {
            Format::Text | Format::Csv | Format::Binary => None,
            Format::Parquet => Some(Kind::Parquet),
            Format::Arrow | Format::ArrowStream => Some(Kind::Arrow),
        }
    }
}

/// The framing of COPY data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyForm {
    /// Lines.
    Text,
    /// PostgreSQL's binary rows.
    Binary,
    /// A whole file, in chunks with arbitrary boundaries.
    File,
}

impl CopyForm {
    pub(crate) fn of(format: Format) -> CopyForm {
        match format {
            Format::Text | Format::Csv => CopyForm::Text,
            Format::Binary => CopyForm::Binary,
            Format::Parquet | Format::Arrow | Format::ArrowStream => CopyForm::File,
        }
    }
}

/// The header line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Header {
    #[default]
    None,
    /// The column names.
    Names,
    /// Column names, which must match the target columns.
    Match,
}

/// The options in WITH (…); `None` means the format's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) format: Format,
    pub(crate) header: Header,
    pub(crate) delimiter: Option<u8>,
    pub(crate) null: Option<String>,
    pub(crate) quote: Option<u8>,
    pub(crate) escape: Option<u8>,
    pub(crate) force_quote: Forced,
    pub(crate) force_not_null: Forced,
    pub(crate) force_null: Forced,
    pub(crate) compression: Option<Compression>,
    /// Rows per Parquet row group.
    pub(crate) row_group_size: Option<usize>,
    /// Whether FORMAT was stated.
    stated: bool,
}

/// The columns that an option such as FORCE_QUOTE names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Forced {
    #[default]
    None,
    All,
    Columns(Vec<String>),
}

impl Options {
    pub(crate) fn delimiter(&self) -> u8 {
        self.delimiter.unwrap_or(if self.format == Format::Csv { b',' } else { b'\t' })
    }

    pub(crate) fn null(&self) -> &str {
        self.null.as_deref().unwrap_or(if self.format == Format::Csv { "" } else { "\\N" })
    }

    pub(crate) fn quote(&self) -> u8 {
        self.quote.unwrap_or(b'"')
    }

    pub(crate) fn escape(&self) -> u8 {
        self.escape.unwrap_or(self.quote())
    }

    /// Refuses combinations of options that PostgreSQL refuses.
    fn check(&self, from: bool) -> Result<()> {
        let bad = |state: SqlState, text: &str| Err(Error::new(state, text.to_owned()));
        let csv_only = [
            ("QUOTE", self.quote.is_some()),
            ("ESCAPE", self.escape.is_some()),
            ("FORCE_QUOTE", self.force_quote != Forced::None),
            ("FORCE_NOT_NULL", self.force_not_null != Forced::None),
            ("FORCE_NULL", self.force_null != Forced::None),
        ];
        if self.format.kind().is_some() {
            return self.check_file(from);
        }
        if self.compression.is_some() || self.row_group_size.is_some() {
            let text = "COPY COMPRESSION and ROW_GROUP_SIZE are options of the formats parquet and arrow";
            return bad(SqlState::FEATURE_NOT_SUPPORTED, text);
        }
        if self.format == Format::Binary {
            if self.delimiter.is_some() {
                return bad(SqlState::SYNTAX_ERROR, "cannot specify DELIMITER in BINARY mode");
            }
            if self.null.is_some() {
                return bad(SqlState::SYNTAX_ERROR, "cannot specify NULL in BINARY mode");
            }
            if self.header != Header::None {
                return bad(SqlState::FEATURE_NOT_SUPPORTED, "cannot specify HEADER in BINARY mode");
            }
        }
        if let Some((name, _)) = csv_only.iter().find(|(_, given)| *given && self.format != Format::Csv) {
            return bad(SqlState::FEATURE_NOT_SUPPORTED, &format!("COPY {name} requires CSV mode"));
        }
        if matches!(self.delimiter(), b'\n' | b'\r') {
            return bad(SqlState::INVALID_PARAMETER_VALUE, "COPY delimiter cannot be newline or carriage return");
        }
        if self.null().contains(['\n', '\r']) {
            return bad(
                SqlState::INVALID_PARAMETER_VALUE,
                "COPY null representation cannot use newline or carriage return",
            );
        }
        let delimiter = self.delimiter();
        if self.format == Format::Text
            && (delimiter.is_ascii_lowercase() || delimiter.is_ascii_digit() || b"\\.".contains(&delimiter))
        {
            return bad(
                SqlState::INVALID_PARAMETER_VALUE,
                &format!("COPY delimiter cannot be \"{}\"", char::from(delimiter)),
            );
        }
        if self.format == Format::Csv && delimiter == self.quote() {
            return bad(SqlState::INVALID_PARAMETER_VALUE, "COPY delimiter and quote must be different");
        }
        if self.format != Format::Binary && self.null().as_bytes().contains(&delimiter) {
            return bad(
                SqlState::INVALID_PARAMETER_VALUE,
                "COPY delimiter character must not appear in the NULL specification",
            );
        }
        if from && self.force_quote != Forced::None {
            return bad(SqlState::FEATURE_NOT_SUPPORTED, "COPY FORCE_QUOTE cannot be used with COPY FROM");
        }
        if !from && self.header == Header::Match {
            return bad(SqlState::INVALID_PARAMETER_VALUE, "cannot use \"match\" with HEADER in COPY TO");
        }
        Ok(())
    }
}

impl Options {
    /// Refuses options that do not apply to Parquet and Arrow files.
    fn check_file(&self, from: bool) -> Result<()> {
        let bare = Options {
            format: self.format,
            stated: self.stated,
            compression: self.compression,
            row_group_size: self.row_group_size,
            ..Options::default()
        };
        let bad = |text: &str| Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, text.to_owned()));
        if *self != bare {
            return bad("COPY of parquet and arrow takes the options COMPRESSION and ROW_GROUP_SIZE only");
        }
        if from && (self.compression.is_some() || self.row_group_size.is_some()) {
            return bad("COPY COMPRESSION and ROW_GROUP_SIZE cannot be used with COPY FROM: the file says them");
        }
        let is_parquet = self.format == Format::Parquet;
        if !is_parquet && self.row_group_size.is_some() {
            return bad("COPY ROW_GROUP_SIZE requires the format parquet");
        }
        match self.compression {
            None | Some(Compression::None | Compression::Lz4) => Ok(()),
            Some(_) if is_parquet => Ok(()),
            Some(_) => bad("files of arrow are compressed by lz4, or not at all"),
        }
    }

    /// The settings of the file writer.
    pub(crate) fn writing(&self) -> Writing {
        match self.format {
            Format::Arrow | Format::ArrowStream => Writing::Arrow {
                compression: self.compression.unwrap_or(Compression::None),
                stream: self.format == Format::ArrowStream,
            },
            _ => Writing::Parquet {
                compression: self.compression.unwrap_or(Compression::Zstd),
                row_group_rows: self.row_group_size,
            },
        }
    }
}

impl CopyStatement {
    pub(crate) fn is_from(&self) -> bool {
        self.from
    }
}

impl CopyStatement {
    /// A COPY as the executor takes it.
    ///
    /// # Errors
    /// 0A000 for programs, and for WHERE; those of the options.
    pub(crate) fn of(copy: Copy) -> Result<CopyStatement> {
        let Copy { source, from, program, file, options: written, filter } = copy;
        if program {
            return Err(Error::unsupported("COPY reads from STDIN or a file, and writes to STDOUT or a file")
                .with_hint("programs run at the client: psql -c \"COPY … TO STDOUT\" | program"));
        }
        if filter.is_some() {
            return Err(Error::unsupported("COPY FROM … WHERE is not supported")
                .with_hint("COPY into another table, and INSERT from it"));
        }
        let source = match source {
            CopySource::Table(name, columns) => Source::Table(name, columns.iter().map(ToString::to_string).collect()),
            CopySource::Query(tree::Statement::Query(query)) => Source::Query(query),
            CopySource::Query(_) => return Err(Error::unsupported("COPY (…) TO takes a query")),
        };
        let mut options = Options::default();
        written.iter().try_for_each(|option| options.set(option))?;
        let place = file.map_or(Place::Client, |path| Place::File(path.to_string()));
        if let (Place::File(path), false) = (&place, options.stated) {
            options.format = Format::of_path(path);
        }
        options.check(from)?;
        Ok(CopyStatement { source, from, place, options })
    }
}

impl Options {
    fn set(&mut self, option: &DefinitionItem) -> Result<()> {
        match option.name.as_str() {
            "format" => {
                let format = required(option)?;
                let Some(named) = Format::named(&format) else {
                    let text = format!("COPY format \"{format}\" not recognized");
                    return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text));
                };
                (self.format, self.stated) = (named, true);
            }
            "compression" => {
                let name = required(option)?;
                self.compression = Some(Compression::named(&name).ok_or_else(|| {
                    let text = format!("COPY compression \"{name}\" not recognized");
                    Error::new(SqlState::INVALID_PARAMETER_VALUE, text)
                        .with_hint("it is one of zstd, snappy, lz4, gzip and none")
                })?);
            }
            "row_group_size" => self.row_group_size = Some(rows(option)?),
            "header" => {
                let is_match = option.value.as_ref().is_some_and(|value| text(value).eq_ignore_ascii_case("match"));
                self.header = match is_match {
                    true => Header::Match,
                    false if flag(option)? => Header::Names,
                    false => Header::None,
                };
            }
            "delimiter" => self.delimiter = Some(character(option)?),
            "null" => self.null = Some(required(option)?),
            "quote" => self.quote = Some(character(option)?),
            "escape" => self.escape = Some(character(option)?),
            "encoding" => encoding(option)?,
            "freeze" => _ = flag(option)?,
            "force_quote" => self.force_quote = forced(option)?,
            "force_not_null" => self.force_not_null = forced(option)?,
            "force_null" => self.force_null = forced(option)?,
            "on_error" if required(option)?.eq_ignore_ascii_case("stop") => {}
            name => return Err(Error::new(SqlState::SYNTAX_ERROR, format!("option \"{name}\" not recognized"))),
        }
        Ok(())
    }
}

/// A positive number of rows.
fn rows(option: &DefinitionItem) -> Result<usize> {
    let value = required(option)?;
    value.parse().ok().filter(|rows| *rows > 0).ok_or_else(|| {
        let text = format!("COPY row_group_size must be a number of rows, and not \"{value}\"");
        Error::new(SqlState::INVALID_PARAMETER_VALUE, text)
    })
}

fn character(option: &DefinitionItem) -> Result<u8> {
    match required(option)?.as_bytes() {
        [byte] => Ok(*byte),
        _ => {
            let text = format!("COPY {} must be a single one-byte character", option.name);
            Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, text))
        }
    }
}

fn encoding(option: &DefinitionItem) -> Result<()> {
    let name = required(option)?;
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    if plain.eq_ignore_ascii_case("utf8") || plain.eq_ignore_ascii_case("unicode") {
        return Ok(());
    }
    Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("encoding \"{name}\" is not supported"))
        .with_hint("only UTF8 is"))
}

/// The columns of FORCE_QUOTE and its like.
fn forced(option: &DefinitionItem) -> Result<Forced> {
    match &option.value {
        Some(OptionValue::Star) => Ok(Forced::All),
        Some(OptionValue::List(names)) => Ok(Forced::Columns(names.iter().map(text).collect())),
        _ => {
            let text = format!("argument to option \"{}\" must be a list of column names", option.name);
            Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text))
        }
    }
}

/// Starts a COPY. A COPY with a file of the server runs to its end.
pub(crate) async fn execute(session: &mut Session, statement: &Statement, copy: &CopyStatement) -> Result<Outcome> {
    let located = |error| locate(error, &statement.0);
    let Place::File(path) = &copy.place else {
        if copy.from {
            return Ok(Outcome::CopyIn(Box::new(start_in(session, statement, copy).await?)));
        }
        let progress = Arc::new(CopyProgress::writing());
        let copying = session.entered.copying(Arc::clone(&progress));
        return Ok(counted(out(session, statement, copy).await?, progress, copying));
    };
    if !copy.from {
        let target = copy_file::create(session, path)?;
        let progress = Arc::new(CopyProgress::writing().in_file());
        let _copying = session.entered.copying(Arc::clone(&progress));
        let outcome = out(session, statement, copy).await?;
        return copy_file::store(target, outcome, &progress).await;
    }
    let found = copy_file::find(session, path)?;
    match (copy.options.format.kind(), &copy.source) {
        (Some(kind), Source::Table(name, columns)) => {
            copy_file::load(session, found, kind, name, columns).await.map_err(located)
        }
        _ => {
            let started = start_in(session, statement, copy).await?;
            copy_file::feed(session, found, started).await
        }
    }
}

/// Counts the chunks of a COPY TO in its progress, which other sessions can see.
fn counted(outcome: Outcome, progress: Arc<CopyProgress>, copying: Copying) -> Outcome {
    let Outcome::CopyOut { form, columns, chunks } = outcome else { return outcome };
    let chunks = chunks.inspect(move |chunk| {
        let _ = &copying;
        if let Ok(chunk) = chunk {
            progress.add(chunk.bytes.len() as u64, chunk.rows);
        }
    });
    Outcome::CopyOut { form, columns, chunks: Box::pin(chunks) }
}

/// Starts a COPY FROM STDIN.
async fn start_in(session: &mut Session, statement: &Statement, copy: &CopyStatement) -> Result<CopyIn> {
    let located = |error| locate(error, &statement.0);
    let Source::Table(name, columns) = &copy.source else {
        return Err(Error::bug("COPY FROM a query"));
    };
    if let Some(kind) = copy.options.format.kind() {
        return copy_in::start_file(session, name, columns, kind).await.map_err(located);
    }
    let started = copy_in::start_rows(session, name, columns, &copy.options).await;
    if let Some(started) = started.map_err(located)? {
        return Ok(started);
    }
    let context = session.context();
    let table = find_table(&context, name).map_err(located)?;
    let columns = positions(&table, columns).map_err(located)?;
    session.writer()?;
    copy_in::start(session, table, &columns, &copy.options)
}

/// Positions of the named columns in the table; all columns if no name is given.
fn positions(table: &TableRef, names: &[String]) -> Result<Vec<usize>> {
    if names.is_empty() {
        return Ok((0..table.columns.len()).collect());
    }
    let by_name: FxHashMap<&str, usize> =
        table.columns.iter().enumerate().map(|(at, column)| (column.name.as_str(), at)).collect();
    let mut found = Vec::with_capacity(names.len());
    let mut is_found = vec![false; table.columns.len()];
    for name in names {
        let at = by_name.get(name.as_str()).map_or_else(|| column_at(table, name), |at| Ok(*at))?;
        if std::mem::replace(&mut is_found[at], true) {
            return Err(Error::new(SqlState::DUPLICATE_COLUMN, format!("column \"{name}\" specified more than once")));
        }
        found.push(at);
    }
    Ok(found)
}

async fn out(session: &mut Session, statement: &Statement, copy: &CopyStatement) -> Result<Outcome> {
    let is_file = copy.options.format.kind().is_some();
    let inner = match &copy.source {
        Source::Query(query) => statement.within(Command::Query(query.clone()), Purpose::Shown),
        Source::Table(name, columns) if is_file => {
            select(session, name, columns).map_err(|error| locate(error, &statement.0))?
        }
        Source::Table(name, columns) => {
            let unloaded = crate::rows::unload(session, name, columns, &copy.options).await;
            if let Some(outcome) = unloaded.map_err(|error| locate(error, &statement.0))? {
                return Ok(outcome);
            }
            select(session, name, columns).map_err(|error| locate(error, &statement.0))?
        }
    };
    if is_file {
        return copy_file::encoded(session, inner, copy.options.writing()).await;
    }
    let prepared = Box::pin(session.prepare(&inner, &[])).await?;
    let plan = match &prepared.0.plan {
        Plan::Query(plan) => plan,
        Plan::Rows(plan) if plan.verb == Verb::Select => {
            let alone = session.block.is_none();
            session.begin_implicit();
            let outcome = crate::rows::unload_query(session, &prepared, plan, &copy.options).await?;
            if alone {
                session.end_implicit().await?;
            }
            return Ok(outcome);
        }
        _ => return Err(Error::unsupported("COPY TO needs a query that only reads")),
    };
    let ready = crate::query::ready(session, &prepared, plan, &[]).await?;
    let columns = ready.columns.clone();
    let encoder = Encoder::new(&columns, &session.settings.time_zone())?;
    let names = columns.iter().map(|column| column.name.clone()).collect();
    let writer = Writer::new(names, copy.options.clone());
    let batches = ready.stream(Arc::clone(&inner.0))?;
    let chunks = chunks(encoder, writer, batches);
    Ok(Outcome::CopyOut { form: CopyForm::of(copy.options.format), columns: columns.len(), chunks })
}

/// Builds `SELECT columns FROM table`.
fn select(session: &mut Session, name: &Name, columns: &[String]) -> Result<Statement> {
    let context = session.context();
    if let Ok(table) = find_table(&context, name) {
        positions(&table, columns)?;
    }
    let quote = |name: &String| format!("\"{}\"", name.replace('"', "\"\""));
    let list =
        if columns.is_empty() { "*".to_owned() } else { columns.iter().map(quote).collect::<Vec<_>>().join(", ") };
    let parsed = crate::statement::parse(&format!("SELECT {list} FROM {name}"))?.into_iter().next();
    parsed.map(Statement::without_place).ok_or_else(|| Error::bug("COPY of a table without a query"))
}

fn chunks(encoder: Encoder, writer: Writer, batches: Batches) -> Chunks {
    let (head, tail) = (writer.head(), writer.tail());
    let rows = batches.flat_map(move |batch| {
        let encoded = match batch.and_then(|batch| writer.batch(&encoder, &batch)) {
            Ok(chunks) => chunks.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        };
        futures::stream::iter(encoded)
    });
    whole(head, Box::pin(rows), tail)
}

/// Adds the format's header and trailer to the rows.
///
/// As in PostgreSQL, the header is in the message of the first row, or in the trailer's message if there is no row:
/// clients expect both in the first message (psycopg's `rows()`, rust-postgres' `BinaryCopyOutStream`, ADBC).
pub(crate) fn whole(head: Vec<u8>, rows: Chunks, tail: Vec<u8>) -> Chunks {
    let end = Chunk { bytes: tail, rows: 0 };
    let mut head = head;
    let chunks = rows.chain(futures::stream::iter([Ok(end)])).map(move |chunk| {
        let mut chunk = chunk?;
        if !head.is_empty() {
            head.extend_from_slice(&chunk.bytes);
            chunk.bytes = std::mem::take(&mut head);
        }
        Ok(chunk)
    });
    Box::pin(chunks.filter(|chunk| futures::future::ready(!chunk.as_ref().is_ok_and(|chunk| chunk.bytes.is_empty()))))
}

/// Encodes rows for COPY TO.
pub(crate) struct Writer {
    names: Vec<String>,
    options: Options,
    force: Vec<bool>,
}

impl Writer {
    /// A writer for columns with these names.
    pub(crate) fn new(names: Vec<String>, options: Options) -> Writer {
        let forced = |name: &String| match &options.force_quote {
            Forced::None => false,
            Forced::All => true,
            Forced::Columns(names) => names.contains(name),
        };
        let force = names.iter().map(forced).collect();
        Writer { names, force, options }
    }

    /// The data before the rows: the binary signature or the header line.
    pub(crate) fn head(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.options.format == Format::Binary {
            out.extend_from_slice(BINARY_HEADER);
        } else if self.options.header != Header::None {
            for (at, name) in self.names.iter().enumerate() {
                if at > 0 {
                    out.push(self.options.delimiter());
                }
                self.put(name.as_bytes(), false, &mut out);
            }
            out.push(b'\n');
        }
        out
    }

    /// The data after the rows: the trailer of the binary format.
    pub(crate) fn tail(&self) -> Vec<u8> {
        if self.options.format == Format::Binary { (-1_i16).to_be_bytes().to_vec() } else { Vec::new() }
    }

    /// Appends a row. `cell` appends the value of a column in the given form; it returns false and appends nothing for
    /// NULL.
    pub(crate) fn row(
        &self,
        out: &mut Vec<u8>,
        mut cell: impl FnMut(usize, Form, &mut Vec<u8>) -> Result<bool>,
    ) -> Result<()> {
        if self.options.format == Format::Binary {
            self.binary_row(out, &mut cell)
        } else {
            self.text_row(out, &mut cell)
        }
    }

    fn batch(&self, encoder: &Encoder, batch: &RecordBatch) -> Result<Vec<Chunk>> {
        let rows = encoder.batch(batch)?;
        let mut chunks = Vec::new();
        let mut chunk = Chunk { bytes: Vec::with_capacity(CHUNK_BYTES), rows: 0 };
        for row in 0..batch.num_rows() {
            self.row(&mut chunk.bytes, |column, form, out| match form {
                Form::Text => rows.text(row, column, out),
                Form::Binary => rows.binary(row, column, out),
            })?;
            chunk.rows += 1;
            if chunk.bytes.len() >= CHUNK_BYTES {
                chunks.push(std::mem::replace(&mut chunk, Chunk { bytes: Vec::with_capacity(CHUNK_BYTES), rows: 0 }));
            }
        }
        if chunk.rows > 0 {
            chunks.push(chunk);
        }
        Ok(chunks)
    }

    fn binary_row(
        &self,
        out: &mut Vec<u8>,
        cell: &mut impl FnMut(usize, Form, &mut Vec<u8>) -> Result<bool>,
    ) -> Result<()> {
        out.extend_from_slice(&i16::try_from(self.names.len()).unwrap_or(i16::MAX).to_be_bytes());
        for column in 0..self.names.len() {
            let start = out.len();
            out.extend_from_slice(&(-1_i32).to_be_bytes());
            if cell(column, Form::Binary, out)? {
                let bytes = i32::try_from(out.len() - start - 4).map_err(Error::bug)?;
                out[start..start + 4].copy_from_slice(&bytes.to_be_bytes());
            }
        }
        Ok(())
    }

    fn text_row(
        &self,
        out: &mut Vec<u8>,
        cell: &mut impl FnMut(usize, Form, &mut Vec<u8>) -> Result<bool>,
    ) -> Result<()> {
        let mut text = Vec::new();
        for column in 0..self.names.len() {
            if column > 0 {
                out.push(self.options.delimiter());
            }
            text.clear();
            if cell(column, Form::Text, &mut text)? {
                self.put(&text, self.force[column], out);
            } else {
                out.extend_from_slice(self.options.null().as_bytes());
            }
        }
        out.push(b'\n');
        Ok(())
    }

    fn put(&self, cell: &[u8], force: bool, out: &mut Vec<u8>) {
        match self.options.format {
            Format::Csv => put_csv(cell, force, self.names.len() == 1, &self.options, out),
            _ => put_text(cell, self.options.delimiter(), out),
        }
    }
}

/// Escapes a value with backslashes, as in the text format.
fn put_text(cell: &[u8], delimiter: u8, out: &mut Vec<u8>) {
    for byte in cell {
        let letter = match byte {
            b'\\' => b'\\',
            8 => b'b',
            12 => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            11 => b'v',
            byte if *byte == delimiter => delimiter,
            byte => {
                out.push(*byte);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', letter]);
    }
}

fn put_csv(cell: &[u8], force: bool, only: bool, options: &Options, out: &mut Vec<u8>) {
    let (quote, escape) = (options.quote(), options.escape());
    let special = |byte: &u8| *byte == options.delimiter() || *byte == quote || matches!(byte, b'\n' | b'\r');
    // Older readers take an unquoted line `\.` as the end of the data.
    let quoted = force || cell == options.null().as_bytes() || cell.iter().any(special) || (only && cell == b"\\.");
    if !quoted {
        out.extend_from_slice(cell);
        return;
    }
    out.push(quote);
    for byte in cell {
        if *byte == quote || *byte == escape {
            out.push(escape);
        }
        out.push(*byte);
    }
    out.push(quote);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::{Command, parse as parse_text};

    fn options(sql: &str) -> Result<Options> {
        parse_text(sql).map(|parsed| match &parsed[0].0.command {
            Command::Copy(copy) => copy.options.clone(),
            _ => panic!("not a COPY"),
        })
    }

    #[test]
    fn old_and_new_spellings_mean_the_same() {
        let new = options("COPY t (a, \"B\") FROM STDIN WITH (FORMAT csv, HEADER, DELIMITER ';', NULL 'x')").unwrap();
        let old = options("copy public.t from stdin with csv header delimiter as ';' null 'x'").unwrap();
        assert_eq!(new, old);
        assert_eq!((new.delimiter(), new.null(), new.quote(), new.escape()), (b';', "x", b'"', b'"'));
        let tab = options("COPY t TO STDOUT (DELIMITER E'\\t', HEADER off)").unwrap();
        assert_eq!((tab.delimiter(), tab.header), (b'\t', Header::None));
        assert!(options("COPY (SELECT 1, (2)) TO STDOUT (FORMAT binary)").is_ok());
    }

    #[test]
    fn the_end_of_a_path_is_its_format_unless_that_is_stated() {
        for (sql, format) in [
            ("COPY t TO 'a/b.parquet'", Format::Parquet),
            ("COPY t FROM 'b.arrow'", Format::Arrow),
            ("COPY t FROM 'b.arrows'", Format::ArrowStream),
            ("COPY t FROM 'b.csv'", Format::Text),
            ("COPY t FROM 'b.parquet' (FORMAT csv)", Format::Csv),
            ("COPY t TO 'b' WITH (FORMAT parquet)", Format::Parquet),
            ("COPY t TO 'b.parquet' CSV", Format::Csv),
        ] {
            assert_eq!(options(sql).unwrap().format, format, "{sql}");
        }
    }

    #[test]
    fn impossible_options_are_refused() {
        for (sql, state) in [
            ("COPY t TO PROGRAM 'x'", "0A000"),
            ("COPY t FROM STDIN WHERE a > 1", "0A000"),
            ("COPY t FROM STDIN (FORMAT parquet, HEADER)", "0A000"),
            ("COPY t FROM 'x.parquet' (HEADER)", "0A000"),
            ("COPY t FROM 'x.parquet' (COMPRESSION zstd)", "0A000"),
            ("COPY t TO STDOUT (COMPRESSION zstd)", "0A000"),
            ("COPY t TO STDOUT (FORMAT arrow, COMPRESSION gzip)", "0A000"),
            ("COPY t TO STDOUT (FORMAT arrow, ROW_GROUP_SIZE 5)", "0A000"),
            ("COPY t TO STDOUT (FORMAT parquet, ROW_GROUP_SIZE 0)", "22023"),
            ("COPY t TO STDOUT (FORMAT parquet, COMPRESSION brotli)", "22023"),
            ("COPY t FROM STDIN (FORMAT xml)", "22023"),
            ("COPY t FROM STDIN (FORMAT binary, DELIMITER ',')", "42601"),
            ("COPY t FROM STDIN (QUOTE 'x')", "0A000"),
            ("COPY t FROM STDIN (DELIMITER 'ab')", "0A000"),
            ("COPY t FROM STDIN (FORMAT csv, DELIMITER '\"')", "22023"),
            ("COPY t FROM STDIN (NONSENSE 1)", "42601"),
            ("COPY t FROM STDIN (ENCODING 'latin1')", "22023"),
            ("COPY t STDIN", "42601"),
            ("COPY (SELECT 1) FROM STDIN", "42601"),
            ("COPY t FROM STDIN (FORMAT csv", "42601"),
        ] {
            assert_eq!(options(sql).unwrap_err().state().0, state, "{sql}");
        }
    }

    #[test]
    fn csv_cells_are_quoted_when_they_must_be() {
        let options = Options { format: Format::Csv, ..Options::default() };
        for (cell, expected) in [("a", "a"), ("", "\"\""), ("a,b", "\"a,b\""), ("say \"hi\"", "\"say \"\"hi\"\"\"")] {
            let mut out = Vec::new();
            put_csv(cell.as_bytes(), false, false, &options, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
        let mut out = Vec::new();
        put_text(b"a\tb\\c\n", b'\t', &mut out);
        assert_eq!(out, b"a\\tb\\\\c\\n");
    }
}
