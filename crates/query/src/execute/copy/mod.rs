//! COPY. `ingest` reads text, CSV and binary, which this module writes; `files` reads and writes Parquet and Arrow.

mod file;
mod input;

use std::sync::Arc;

use arrow_array::RecordBatch;
use engine::{Reservation, Work};
use futures::StreamExt;
use model::{Error, Result, SqlState, TableRef};
use parser::ast::Name;
use pg::Form;
use relational::results::{Batches, CHUNK_BYTES, Chunk, Chunks};
use relational::types::OutputColumn;
use rustc_hash::FxHashMap;

use super::{query, routine, rows};
use crate::encode::Encoder;
use crate::errors::locate;
use crate::plan::Plan;
use crate::plan::rows::Verb;
use crate::result::{CopyIn, Outcome};
use crate::session::Session;
use crate::session::activity::{CopyProgress, Copying};
use crate::statement::copy::{CopyForm, CopyStatement, Forced, Format, Header, Options, Place, Source};
use crate::statement::{Command, Purpose, Statement};
use crate::tables::{column_at, find_table, find_view};

/// Shorter chunks of a COPY TO are not charged to the memory budget.
const LONG_CHUNK_BYTES: usize = 1 << 20;
/// Signature, flags and header extension of a binary COPY.
const BINARY_HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// Starts a COPY. A COPY with a file of the server runs to its end.
pub(crate) async fn execute(session: &mut Session, statement: &Statement, copy: &CopyStatement) -> Result<Outcome> {
    let located = |error| locate(error, &statement.0);
    let Place::File(path) = &copy.place else {
        if copy.from {
            return Ok(Outcome::CopyIn(Box::new(start_in(session, statement, copy).await?)));
        }
        let progress = Arc::new(CopyProgress::writing());
        let copying = session.entered.copying(Arc::clone(&progress));
        let held = session.database.engine().memory().reservation(Work::Results);
        return Ok(counted(out(session, statement, copy).await?, progress, copying, held));
    };
    if !copy.from {
        let target = file::create(session, path)?;
        let progress = Arc::new(CopyProgress::writing().in_file());
        let _copying = session.entered.copying(Arc::clone(&progress));
        let outcome = out(session, statement, copy).await?;
        return file::store(target, outcome, &progress).await;
    }
    let found = file::find(session, path)?;
    match (copy.options.format.kind(), &copy.source) {
        (Some(kind), Source::Table(name, columns)) => {
            file::load(session, found, kind, name, columns).await.map_err(located)
        }
        _ => {
            let started = start_in(session, statement, copy).await?;
            file::feed(session, found, started).await
        }
    }
}

/// Counts the chunks of a COPY TO in its progress, which other sessions can see. A chunk with long rows is charged to the
/// budget until the client has taken it; the stream fails with 53200 if there is no room for it.
fn counted(outcome: Outcome, progress: Arc<CopyProgress>, copying: Copying, mut held: Reservation) -> Outcome {
    let Outcome::CopyOut { form, columns, chunks } = outcome else { return outcome };
    let chunks = chunks.map(move |chunk| {
        let _ = &copying;
        // The client asks for more, so it has taken the chunk before.
        held.shrink_to(0);
        let chunk = chunk?;
        if chunk.bytes.capacity() > LONG_CHUNK_BYTES {
            held.resize(chunk.bytes.capacity() as u64)?;
        }
        progress.add(chunk.bytes.len() as u64, chunk.rows);
        Ok(chunk)
    });
    Outcome::CopyOut { form, columns, chunks: Box::pin(chunks) }
}

/// Starts a COPY FROM STDIN.
async fn start_in(session: &mut Session, statement: &Statement, copy: &CopyStatement) -> Result<CopyIn> {
    let located = |error| locate(error, &statement.0);
    let Source::Table(name, columns) = &copy.source else {
        return Err(Error::bug("COPY FROM a query"));
    };
    if find_view(&session.context(), name).is_some() {
        let text = format!("cannot copy to view \"{}\"", name.name);
        return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, text).with_hint("Copy to the table that the view reads."));
    }
    if let Some(kind) = copy.options.format.kind() {
        return input::start_file(session, name, columns, kind).await.map_err(located);
    }
    let started = input::start_rows(session, name, columns, &copy.options).await;
    if let Some(started) = started.map_err(located)? {
        return Ok(started);
    }
    let context = session.context();
    let table = find_table(&context, name).map_err(located)?;
    let columns = positions(&table, columns).map_err(located)?;
    session.writer()?;
    input::start(session, table, &columns, &copy.options)
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
    if let Source::Table(name, _) = &copy.source
        && find_view(&session.context(), name).is_some()
    {
        let text = format!("cannot copy from view \"{}\"", name.name);
        let hint = "Try the COPY (SELECT ...) TO variant.";
        return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, text).with_hint(hint));
    }
    if let Source::Table(name, _) = &copy.source
        && is_materialized(session, name)
    {
        let text = format!("cannot copy from materialized view \"{}\"", name.name);
        let hint = "Try the COPY (SELECT ...) TO variant.";
        return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, text).with_hint(hint));
    }
    let inner = match &copy.source {
        Source::Query(query) => {
            let purpose = if copy.options.format == Format::Binary { Purpose::Rows } else { Purpose::Shown };
            statement.within(Command::Query(query.clone()), purpose)
        }
        Source::Table(name, columns) if is_file => {
            select(session, name, columns).map_err(|error| locate(error, &statement.0))?
        }
        Source::Table(name, columns) => {
            let unloaded = rows::unload(session, name, columns, &copy.options).await;
            if let Some(outcome) = unloaded.map_err(|error| locate(error, &statement.0))? {
                return Ok(outcome);
            }
            let query = select(session, name, columns).map_err(|error| locate(error, &statement.0))?;
            in_format(query, copy.options.format)
        }
    };
    if is_file {
        return file::encoded(session, inner, copy.options.writing()).await;
    }
    let prepared = Box::pin(session.prepare(&inner, &[])).await?;
    let plan = match &prepared.0.plan {
        Plan::Query(plan) => plan,
        Plan::Rows(plan) if plan.verb == Verb::Select => {
            let alone = session.block.is_none();
            session.begin_implicit();
            let outcome = rows::unload_query(session, &prepared, plan, &copy.options).await?;
            if alone {
                session.end_implicit().await?;
            }
            return Ok(outcome);
        }
        Plan::Row(plan) => {
            let alone = session.block.is_none();
            session.begin_implicit();
            let outcome = Box::pin(routine::call::execute_rows(session, &prepared, plan, &[])).await?;
            let Outcome::Rows { columns, batches, .. } = outcome else {
                return Err(Error::bug("a query without a row"));
            };
            if alone {
                session.end_implicit().await?;
            }
            return copied_out(session, copy, columns, batches);
        }
        _ => return Err(Error::unsupported("COPY TO needs a query that only reads")),
    };
    let calls_routines = plan.calls_routines;
    let alone = calls_routines && session.block.is_none();
    if calls_routines {
        session.begin_implicit();
    }
    let ready = query::ready(session, &prepared, plan, &[]).await?;
    let columns = ready.columns.clone();
    let batches = ready.result(session, Arc::clone(&inner.0)).await?;
    if alone {
        session.end_implicit().await?;
    }
    copied_out(session, copy, columns, batches)
}

fn copied_out(
    session: &mut Session,
    copy: &CopyStatement,
    columns: Vec<OutputColumn>,
    batches: Batches,
) -> Result<Outcome> {
    let encoder = Encoder::new(&columns, &session.settings.time_zone())?;
    let names = columns.iter().map(|column| column.name.clone()).collect();
    let writer = Writer::new(names, copy.options.clone());
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

/// The query with values that have a binary format, or with texts in the styles of the session.
fn in_format(query: Statement, format: Format) -> Statement {
    match &query.0.command {
        Command::Query(tree) if format == Format::Binary => query.within(Command::Query(tree.clone()), Purpose::Rows),
        _ => query,
    }
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
/// The header is, as PostgreSQL's, in the message of the first row, or in the trailer's message if there is no row:
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

/// Whether a name is that of a materialized view.
fn is_materialized(session: &mut Session, name: &parser::ast::Name) -> bool {
    let found = crate::tables::table(session, name);
    found.is_some_and(|table| session.newest().catalog().materialized_view(table.id()).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_cells_are_quoted_when_they_must_be() {
        let mut options = Options::default();
        options.format = Format::Csv;
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
