//! COPY FROM STDIN: `ingest` decodes the bytes as they arrive, and the rows are written into the session's transaction.

use std::sync::Arc;

use async_trait::async_trait;
use model::{ColumnId, ColumnRole, Error, Result, TableRef};
use parser::ast::Name;
use relational::files::Kind;
use relational::types::Value;

use super::file::Spool;
use crate::execute::rows::Loading;
use crate::execute::table_rules;
use crate::result::{CopyIn, CopyTarget};
use crate::session::Session;
use crate::session::activity::CopyProgress;
use crate::session::clocks::Clocks;
use crate::statement::copy::{Options, decoder_options};
use crate::tables::{Named, column_at, find_table};

/// Rows for a `columns` table.
struct Batches {
    decoder: ingest::copy::Decoder,
    table: TableRef,
    /// Positions of the fields that get their defaults.
    absent: Vec<usize>,
    batches: Vec<engine::Batch>,
}

/// Starts a COPY into a `columns` table. The session must already be in a transaction.
pub(crate) fn start(session: &mut Session, table: TableRef, columns: &[usize], options: &Options) -> Result<CopyIn> {
    let ids: Vec<ColumnId> = columns.iter().map(|at| table.columns[*at].id).collect();
    let place = |name: &str| column_at(&table, name).map(|at| columns.iter().position(|column| *column == at));
    let options = decoder_options(options, columns.len(), place)?;
    let time = default_time(session, &table, columns)?;
    let settings =
        ingest::copy::Settings { zones: session.settings.zone().lookup(), inputs: Arc::new(Clocks::of(session)), time };
    let absent = table_rules::absent_fields(&table, columns);
    let decoder = ingest::copy::Decoder::new(Arc::clone(&table), &ids, options, settings)?;
    Ok(CopyIn::new(session, Batches { decoder, table, absent, batches: Vec::new() }))
}

/// The time that all rows get if the stream does not have it: its default, computed once.
///
/// # Errors
/// 0A000 for a default that calls a sequence, which has a number for each row.
fn default_time(session: &mut Session, table: &TableRef, columns: &[usize]) -> Result<Option<i64>> {
    let Some(at) = table.columns.iter().position(|column| column.role == ColumnRole::Time) else { return Ok(None) };
    let Some(default) = table.default(&table.columns[at]).filter(|_| !columns.contains(&at)) else { return Ok(None) };
    if default.contains("nextval") {
        return Err(Error::unsupported("COPY without the time, whose default calls a sequence, is not supported")
            .with_hint("give the times, or use INSERT"));
    }
    Ok(match table_rules::default_values(session, table, at, 1)?.pop() {
        Some(Value::Timestamptz(time) | Value::Int64(time)) => Some(time),
        _ => None,
    })
}

/// Starts a COPY of a whole file into a table of either store.
pub(crate) async fn start_file(session: &mut Session, name: &Name, columns: &[String], kind: Kind) -> Result<CopyIn> {
    // Checked now, so that errors appear before the client sends the file.
    let context = session.context();
    if (Named { snapshot: &context.reads.snapshot, settings: &context.settings }).find(name).is_none() {
        let table = find_table(&context, name)?;
        columns.iter().try_for_each(|column| column_at(&table, column).map(|_| ()))?;
    }
    session.writer()?;
    let spool = Spool::new(session, name, columns, kind).await?;
    Ok(CopyIn::new(session, spool))
}

/// Starts a COPY into a `rows` table; `None` if the table is not a `rows` table.
pub(crate) async fn start_rows(
    session: &mut Session,
    name: &Name,
    columns: &[String],
    options: &Options,
) -> Result<Option<CopyIn>> {
    let loading = Loading::start(session, name, columns, options).await?;
    Ok(loading.map(|loading| CopyIn::new(session, loading)))
}

#[async_trait]
impl CopyTarget for Batches {
    fn binary(&self) -> bool {
        self.decoder.binary()
    }

    fn columns(&self) -> usize {
        self.decoder.columns()
    }

    fn rows(&self) -> u64 {
        self.decoder.rows()
    }

    fn decode(&mut self, session: &mut Session, piece: &[u8]) -> Result<bool> {
        self.decoder.push(piece, &mut self.batches)?;
        self.put(session)?;
        Ok(false)
    }

    async fn write(&mut self, session: &mut Session) -> Result<()> {
        self.put(session)
    }

    async fn finish(&mut self, session: &mut Session, _progress: &CopyProgress) -> Result<u64> {
        self.decoder.finish(&mut self.batches)?;
        self.put(session)?;
        Ok(self.decoder.rows())
    }
}

impl Batches {
    fn put(&mut self, session: &mut Session) -> Result<()> {
        for batch in self.batches.drain(..) {
            let batch = table_rules::complete(session, &self.table, batch, &self.absent)?;
            table_rules::write(session, &self.table, batch)?;
        }
        Ok(())
    }
}
