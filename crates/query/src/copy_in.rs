//! COPY FROM STDIN: `ingest` decodes the bytes as they arrive, and the rows are written into the session's transaction.

use std::sync::Arc;

use model::{ColumnId, Error, Result, SqlState, TableId, TableRef};
use parser::ast::Name;

use crate::activity::{CopyProgress, Copying};
use crate::copy::{Forced, Format, Header, Options};
use crate::copy_file::Spool;
use crate::insert::{column_at, find_table};
use crate::rows::{Loading, Named};
use crate::session::Session;
use relational::files::Kind;

/// A running COPY FROM STDIN. Dropping it abandons the rows.
pub struct CopyIn {
    to: To,
    progress: Arc<CopyProgress>,
    _copying: Copying,
}

/// The destination of the rows.
enum To {
    Columns(Box<Batches>),
    Rows(Box<Loading>),
    /// A table of either store, loaded once the file is complete.
    File(Box<Spool>),
}

struct Batches {
    decoder: ingest::copy::Decoder,
    table: TableId,
    batches: Vec<engine::Batch>,
}

/// Starts a COPY into a `columns` table. The session must already be in a transaction.
pub(crate) fn start(session: &Session, table: TableRef, columns: &[usize], options: &Options) -> Result<CopyIn> {
    let ids: Vec<ColumnId> = columns.iter().map(|at| table.columns[*at].id).collect();
    let place = |name: &str| column_at(&table, name).map(|at| columns.iter().position(|column| *column == at));
    let options = decoder_options(options, columns.len(), place)?;
    let zone = session.settings.zone().lookup();
    let id = table.id;
    let decoder = ingest::copy::Decoder::new(table, &ids, options, zone)?;
    Ok(CopyIn::new(session, To::Columns(Box::new(Batches { decoder, table: id, batches: Vec::new() }))))
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
    Ok(CopyIn::new(session, To::File(Box::new(spool))))
}

/// Starts a COPY into a `rows` table; `None` if the table is not a `rows` table.
pub(crate) async fn start_rows(
    session: &mut Session,
    name: &Name,
    columns: &[String],
    options: &Options,
) -> Result<Option<CopyIn>> {
    let loading = Loading::start(session, name, columns, options).await?;
    Ok(loading.map(|loading| CopyIn::new(session, To::Rows(Box::new(loading)))))
}

/// Converts the options for `ingest`. `place`: position of a table column in the column list, if it is listed.
pub(crate) fn decoder_options(
    options: &Options,
    width: usize,
    place: impl Fn(&str) -> Result<Option<usize>>,
) -> Result<ingest::copy::Options> {
    let forced = |forced: &Forced| -> Result<Vec<usize>> {
        let place = |name: &String| {
            place(name)?.ok_or_else(|| {
                let text = format!("column \"{name}\" not referenced by COPY");
                Error::new(SqlState::INVALID_COLUMN_REFERENCE, text)
            })
        };
        match forced {
            Forced::None => Ok(Vec::new()),
            Forced::All => Ok((0..width).collect()),
            Forced::Columns(names) => names.iter().map(place).collect(),
        }
    };
    let mut found = match options.format {
        Format::Text => ingest::copy::Options::text(),
        Format::Csv => ingest::copy::Options::csv(),
        Format::Binary => return Ok(ingest::copy::Options::binary()),
        Format::Parquet | Format::Arrow | Format::ArrowStream => return Err(Error::bug("a file that is read as rows")),
    };
    found.delimiter = options.delimiter();
    found.null = options.null().to_owned();
    found.header = match options.header {
        Header::None => ingest::copy::Header::None,
        Header::Names => ingest::copy::Header::Skip,
        Header::Match => ingest::copy::Header::Match,
    };
    found.quote = options.quote();
    found.escape = options.escape();
    found.force_null = forced(&options.force_null)?;
    found.force_not_null = forced(&options.force_not_null)?;
    found.check()?;
    Ok(found)
}

impl CopyIn {
    fn new(session: &Session, to: To) -> CopyIn {
        let progress = Arc::new(CopyProgress::taking());
        let copying = session.entered.copying(Arc::clone(&progress));
        CopyIn { to, progress, _copying: copying }
    }

    /// The progress, which other sessions can see.
    pub(crate) fn progress(&self) -> &CopyProgress {
        &self.progress
    }

    /// Whether the data is binary.
    #[must_use]
    pub fn binary(&self) -> bool {
        match &self.to {
            To::Columns(batches) => batches.decoder.binary(),
            To::Rows(loading) => loading.binary(),
            To::File(_) => true,
        }
    }

    /// Number of columns; 0 for a file, which has its own schema.
    #[must_use]
    pub fn columns(&self) -> usize {
        match &self.to {
            To::Columns(batches) => batches.decoder.columns(),
            To::Rows(loading) => loading.columns(),
            To::File(_) => 0,
        }
    }

    /// Decodes a chunk of the stream; chunks may end anywhere. An error fails the transaction.
    ///
    /// # Errors
    /// 22P02, 22P04 and others naming line and column; those of INSERT; 53200 if the rows exceed the transaction's
    /// memory.
    pub async fn data(&mut self, session: &mut Session, bytes: &[u8]) -> Result<()> {
        let result = match &mut self.to {
            To::Columns(batches) => batches.data(session, bytes),
            To::Rows(loading) => loading.data(session, bytes).await,
            To::File(spool) => spool.data(bytes).await,
        };
        self.progress.taken(bytes.len() as u64, self.rows());
        if result.is_err() {
            session.fail();
        }
        result
    }

    /// Rows decoded so far; 0 for a file.
    fn rows(&self) -> u64 {
        match &self.to {
            To::Columns(batches) => batches.decoder.rows(),
            To::Rows(loading) => loading.count(),
            To::File(_) => 0,
        }
    }

    /// Ends the COPY; commits unless in a transaction block. Returns the tag "COPY n".
    ///
    /// # Errors
    /// Those of [`CopyIn::data`] and of COMMIT.
    pub async fn done(mut self, session: &mut Session) -> Result<String> {
        let result = match &mut self.to {
            To::Columns(batches) => batches.finish(session),
            To::Rows(loading) => loading.finish(session).await,
            To::File(spool) => Box::pin(spool.finish(session, &self.progress)).await,
        };
        match result {
            Ok(rows) => {
                session.end_single().await?;
                Ok(format!("COPY {rows}"))
            }
            Err(error) => {
                session.fail();
                Err(error)
            }
        }
    }
}

impl Batches {
    fn data(&mut self, session: &mut Session, bytes: &[u8]) -> Result<()> {
        self.decoder.push(bytes, &mut self.batches)?;
        self.write(session)
    }

    /// Writes the remaining rows; returns the number of all rows.
    fn finish(&mut self, session: &mut Session) -> Result<u64> {
        self.decoder.finish(&mut self.batches)?;
        self.write(session)?;
        Ok(self.decoder.rows())
    }

    fn write(&mut self, session: &mut Session) -> Result<()> {
        for batch in self.batches.drain(..) {
            session.writer()?.write(self.table, batch)?;
        }
        Ok(())
    }
}
