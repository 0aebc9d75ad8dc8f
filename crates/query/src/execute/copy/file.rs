//! COPY with files: files of the server, and whole files transferred by the client.
//!
//! Always true:
//! - COPY TO replaces the file atomically: until it succeeds, the previous file is kept.
//! - COPY FROM of Parquet and Arrow is an INSERT … SELECT from the file, matched by column name, in one transaction.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use futures::StreamExt;
use model::{Error, Result, SqlState, user_types};
use parser::ast::Name;
use relational::files::{FileRoot, Found, Kind, Output, SOURCE, Source, Writing, chunks};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::execute::{insert as into_columns, query, rows};
use crate::plan::{self, Plan, Prepared, PreparedStatement};
use crate::result::{CopyIn, CopyTarget, Executed, Outcome, PIECE_BYTES};
use crate::session::Session;
use crate::session::activity::CopyProgress;
use crate::statement::copy::CopyForm;
use crate::statement::{Statement, parse};
use crate::tables;

/// Bytes of a file per read.
const READ_BYTES: usize = 256 << 10;

/// The output file of a COPY TO.
pub(crate) struct Target {
    output: Output,
    file: std::fs::File,
}

/// Creates the output file on the server.
///
/// # Errors
/// 42501 if files are not allowed there; 58P01, 58030.
pub(crate) fn create(session: &mut Session, path: &str) -> Result<Target> {
    let (output, file) = root(session)?.create(path)?;
    Ok(Target { output, file })
}

/// Finds the input files of a COPY FROM on the server.
///
/// # Errors
/// 42501 if files are not allowed there; 58P01.
pub(crate) fn find(session: &mut Session, path: &str) -> Result<Vec<Found>> {
    root(session)?.inputs(path)
}

fn root(session: &mut Session) -> Result<Arc<FileRoot>> {
    session.context().files.root().cloned()
}

/// Writes the output of a COPY TO into a file.
///
/// # Errors
/// Those of the query; 53100 and 58030 for the file. On error the destination is unchanged.
pub(crate) async fn store(target: Target, outcome: Outcome, progress: &CopyProgress) -> Result<Outcome> {
    let Outcome::CopyOut { mut chunks, .. } = outcome else { return Err(Error::bug("a COPY that gives nothing")) };
    let Target { output, file } = target;
    let mut file = tokio::fs::File::from_std(file);
    let mut rows = 0;
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk?;
        file.write_all(&chunk.bytes).await.map_err(|error| output.failed(&error))?;
        rows += chunk.rows;
        progress.add(chunk.bytes.len() as u64, chunk.rows);
    }
    file.flush().await.map_err(|error| output.failed(&error))?;
    let file = file.into_std().await;
    blocking(move || output.finish(&file)).await?;
    Ok(Outcome::command(format!("COPY {rows}")))
}

/// Reads a file as the input of a COPY FROM.
///
/// # Errors
/// Those of the COPY; 58030 for the file.
pub(crate) async fn feed(session: &mut Session, found: Vec<Found>, mut copy: CopyIn) -> Result<Outcome> {
    let [found] = &found[..] else {
        return Err(Error::unsupported("COPY FROM reads several files in the formats parquet and arrow only"));
    };
    let failed = |error| Error::io(format_args!("could not read file \"{}\"", found.shown), &error);
    let mut file = tokio::fs::File::open(&found.path).await.map_err(failed)?;
    copy.progress().of_file(file.metadata().await.map_err(failed)?.len());
    let mut bytes = vec![0; READ_BYTES];
    loop {
        let count = file.read(&mut bytes).await.map_err(failed)?;
        if count == 0 {
            break;
        }
        copy.data(session, &bytes[..count]).await?;
        // Lets other sessions run between two chunks, and lets a cancellation take effect.
        tokio::task::yield_now().await;
    }
    copy.done(session).await.map(Outcome::command)
}

/// Encodes the result of a query as the chunks of a file.
///
/// # Errors
/// Those of planning; 42701, 0A000 for columns that the file format cannot have.
pub(crate) async fn encoded(session: &mut Session, query: Statement, writing: Writing) -> Result<Outcome> {
    // DataFusion runs it, because its results are Arrow arrays.
    let plan = plan::query::plan(session, &query, &[])?;
    let prepared = Prepared(Arc::new(PreparedStatement {
        statement: query.clone(),
        declared: Vec::new(),
        parameters: plan.parameters.clone(),
        columns: Some(plan.columns.clone()),
        plan: Plan::Query(plan),
    }));
    let Plan::Query(plan) = &prepared.0.plan else { return Err(Error::bug("a query without a plan")) };
    let ready = query::ready(session, &prepared, plan, &[]).await?;
    let (columns, schema) = (ready.columns.clone(), ready.execution.schema());
    let batches = ready.stream(session, Arc::clone(&query.0)).await?;
    let chunks = chunks(batches, &schema, &columns, writing)?;
    Ok(Outcome::CopyOut { form: CopyForm::File, columns: columns.len(), chunks })
}

/// Inserts the rows of files of the server into a table of either store.
///
/// # Errors
/// Those of the files and of INSERT.
pub(crate) async fn load(
    session: &mut Session,
    found: Vec<Found>,
    kind: Kind,
    name: &Name,
    columns: &[String],
) -> Result<Outcome> {
    let source = open(session, found, kind).await?;
    let progress = Arc::new(CopyProgress::reading(&source).in_file());
    let _copying = session.entered.copying(progress);
    let rows = insert(session, source, name, columns).await?;
    Ok(Outcome::command(format!("COPY {rows}")))
}

async fn open(session: &Session, found: Vec<Found>, kind: Kind) -> Result<Arc<Source>> {
    let zone = session.settings.time_zone();
    blocking(move || Source::open(found, kind, &zone)).await.map(Arc::new)
}

/// Inserts the rows of the source; returns their number.
async fn insert(session: &mut Session, source: Arc<Source>, name: &Name, columns: &[String]) -> Result<u64> {
    for column in columns {
        if source.schema.index_of(column).is_err() {
            let text = format!("column \"{column}\" is not in the file");
            return Err(Error::new(SqlState::UNDEFINED_COLUMN, text));
        }
    }
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let list: Vec<String> = match columns {
        [] => source.schema.fields().iter().map(|field| quoted(field.name())).collect(),
        columns => columns.iter().map(|name| quoted(name)).collect(),
    };
    let values = values(session, &source, name, &list);
    let sql = format!("INSERT INTO {name} ({}) SELECT {} FROM {SOURCE}()", list.join(", "), values.join(", "));
    let statement = parse(&sql)?.into_iter().next().ok_or_else(|| Error::bug("no statement"))?.without_place();
    session.input = Some(source);
    let inserted = Box::pin(run(session, &statement)).await;
    session.input = None;
    inserted.map_err(|error| match (error.state(), columns) {
        (SqlState::UNDEFINED_COLUMN, []) if error.hint().is_none() => {
            error.with_hint("name the columns to read: COPY t (a, b) FROM …")
        }
        _ => error,
    })
}

/// The columns of a file as values for a table: texts are read as the types of the table's columns, as in COPY of text. An INSERT
/// into a `columns` table casts them to stored types by itself.
fn values(session: &mut Session, source: &Source, name: &Name, columns: &[String]) -> Vec<String> {
    let of_rows = tables::table(session, name);
    let of_columns = tables::find_table(&session.context(), name).ok();
    let type_of = |name: &str| match &of_rows {
        Some(table) => table.schema.column(name).map(|at| table.schema.columns[at].ty),
        None => of_columns.as_ref().and_then(|table| table.declared(table.column(name)?)),
    };
    let one = |column: &String| {
        let plain = column[1..column.len() - 1].replace("\"\"", "\"");
        let is_text = source.schema.field_with_name(&plain).is_ok_and(|field| field.data_type().is_string());
        let ty = if is_text { type_of(&plain) } else { None };
        ty.map_or_else(|| column.clone(), |ty| format!("{column}::{}", user_types::type_sql(ty.oid(), ty)))
    };
    columns.iter().map(one).collect()
}

async fn run(session: &mut Session, insert: &Statement) -> Result<u64> {
    let prepared = session.plan_statement(insert, &[])?;
    let outcome = match &prepared.0.plan {
        Plan::Insert(plan) => into_columns::execute(session, &prepared, plan, &[]).await?,
        Plan::Feed(plan) => match rows::feed(session, &prepared, plan, &[]).await? {
            Executed::Outcome(outcome) => outcome,
            _ => return Err(Error::bug("an INSERT that gives rows")),
        },
        _ => return Err(Error::bug("an INSERT that is planned as something else")),
    };
    match outcome {
        Outcome::Command { tag } => tag.rsplit(' ').next().and_then(|rows| rows.parse().ok()),
        _ => None,
    }
    .ok_or_else(|| Error::bug("an INSERT without a count"))
}

/// Runs disk I/O on a blocking thread.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(Error::bug)?
}

/// A file sent by a client, spooled to disk until it is complete: its metadata is at its end.
pub(crate) struct Spool {
    name: Name,
    columns: Vec<String>,
    kind: Kind,
    file: tokio::fs::File,
    /// Bytes that are not in the file yet.
    buffer: Vec<u8>,
    path: Temporary,
}

/// A temporary file, deleted when dropped.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // A file that remains is deleted at the next start.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Spool {
    /// Creates the spool file in the directory of spilled data.
    ///
    /// # Errors
    /// 53100, 58030.
    pub(crate) async fn new(session: &Session, name: &Name, columns: &[String], kind: Kind) -> Result<Spool> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let folder = session.database.engine().spill_dir();
        let path = folder.join(format!("copy-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        tokio::fs::create_dir_all(&folder).await.map_err(|error| spool_failed(&error))?;
        let file = tokio::fs::File::create_new(&path).await.map_err(|error| spool_failed(&error))?;
        Ok(Spool {
            name: name.clone(),
            columns: columns.to_vec(),
            kind,
            file,
            buffer: Vec::new(),
            path: Temporary(path),
        })
    }
}

#[async_trait]
impl CopyTarget for Spool {
    fn binary(&self) -> bool {
        true
    }

    fn columns(&self) -> usize {
        0
    }

    fn rows(&self) -> u64 {
        0
    }

    fn decode(&mut self, _session: &mut Session, piece: &[u8]) -> Result<bool> {
        self.buffer.extend_from_slice(piece);
        Ok(self.buffer.len() >= PIECE_BYTES)
    }

    async fn write(&mut self, _session: &mut Session) -> Result<()> {
        self.file.write_all(&self.buffer).await.map_err(|error| spool_failed(&error))?;
        self.buffer.clear();
        Ok(())
    }

    /// Inserts the rows of the complete file into the table.
    async fn finish(&mut self, session: &mut Session, progress: &CopyProgress) -> Result<u64> {
        self.write(session).await?;
        self.file.flush().await.map_err(|error| spool_failed(&error))?;
        let found = Found { shown: "STDIN".to_owned(), path: self.path.0.clone() };
        let source = open(session, vec![found], self.kind).await?;
        progress.follow(&source);
        insert(session, source, &self.name, &self.columns).await
    }
}

fn spool_failed(error: &std::io::Error) -> Error {
    Error::io("the copy of what the client sends", error)
}
