//! A session driven by sqllogictest scripts.

use std::sync::Arc;

use engine::Engine;
use futures::StreamExt;
use query::encode::Encoder;
use query::{Database, Options, Outcome, OutputColumn, Session, Statement, TxnStatus, Value};

use crate::script::{Connection, Output, kind, shown_cell};

/// Location of rows when they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    Memory,
    Flushed,
    Settled,
}

/// A database in its own temporary directory.
pub(crate) struct Fixture {
    pub(crate) database: Database,
    _dir: tempfile::TempDir,
}

impl Fixture {
    pub(crate) fn new() -> Fixture {
        Fixture::with_memory(64 << 20)
    }

    pub(crate) fn with_memory(memory_bytes: u64) -> Fixture {
        Fixture::with(memory_bytes, None)
    }

    /// Database whose statements may use files in a directory.
    pub(crate) fn with_files(files: Option<std::path::PathBuf>) -> Fixture {
        Fixture::with(64 << 20, files)
    }

    fn with(memory_bytes: u64, files: Option<std::path::PathBuf>) -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let env = Arc::new(env::RealEnv::new());
        let (engine, _) = Engine::open(env, dir.path(), engine::Options::default()).unwrap();
        let database = Database::new(engine, Options { memory_bytes, threads: 2, files }).unwrap();
        Fixture { database, _dir: dir }
    }
}

/// One connection.
pub(crate) struct Client {
    session: Session,
    storage: Storage,
}

impl Connection for Client {
    /// Runs `sql`, then moves the rows to the storage under test.
    async fn run(&mut self, sql: &str) -> Result<Output, String> {
        let output = self.run_all(sql).await.map_err(|error| shown(&error));
        self.place_rows();
        output
    }
}

impl Client {
    pub(crate) fn new(fixture: &Fixture, storage: Storage) -> Client {
        Client { session: fixture.database.session("millrace"), storage }
    }

    /// Runs one statement and returns its rows: cells in PostgreSQL's text format, joined by `|`, NULL as `~`.
    pub(crate) async fn table(&mut self, sql: &str) -> Result<Vec<String>, String> {
        let rows = self.cells(sql).await.map_err(|error| shown(&error))?;
        let cell = |cell: Option<String>| cell.unwrap_or_else(|| "~".to_owned()).replace('\n', "\\n");
        Ok(rows.into_iter().map(|row| row.into_iter().map(cell).collect::<Vec<_>>().join("|")).collect())
    }

    /// Result columns and parameter types.
    pub(crate) async fn described(
        &mut self,
        sql: &str,
        types: &[u32],
    ) -> Result<(Vec<OutputColumn>, Vec<u32>), model::Error> {
        let prepared = self.session.prepare(&query::parse(sql)?[0], types).await?;
        Ok((prepared.columns().unwrap_or_default().to_vec(), prepared.parameters().to_vec()))
    }

    async fn cells(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, model::Error> {
        self.bound_cells(sql, &[], &[]).await
    }

    /// Rows of a statement with parameters, in text format.
    pub(crate) async fn bound_cells(
        &mut self,
        sql: &str,
        types: &[u32],
        values: &[Value],
    ) -> Result<Vec<Vec<Option<String>>>, model::Error> {
        let statement = &query::parse(sql)?[0];
        let prepared = self.session.prepare(statement, types).await?;
        let Outcome::Rows { columns, mut batches, .. } = self.session.execute(&prepared, values).await? else {
            return Ok(Vec::new());
        };
        let encoder = Encoder::new(&columns, &self.session.setting("timezone").unwrap())?;
        let mut rows = Vec::new();
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            let cells = encoder.batch(&batch)?;
            for row in 0..batch.num_rows() {
                rows.push((0..columns.len()).map(|column| text(&cells, row, column)).collect::<Result<_, _>>()?);
            }
        }
        Ok(rows)
    }

    async fn run_all(&mut self, sql: &str) -> Result<Output, model::Error> {
        if sql.to_ascii_lowercase().starts_with("copy") && sql.contains('\n') {
            return self.copy_in(sql).await;
        }
        let statements = query::parse(sql)?;
        let mut output = Output::Done(0);
        for statement in &statements {
            if statements.len() > 1 {
                self.session.begin_implicit();
            }
            output = match self.run_one(statement).await {
                Ok(output) => output,
                Err(error) => {
                    self.session.fail();
                    return Err(error);
                }
            };
        }
        self.session.end_implicit().await?;
        Ok(output)
    }

    async fn run_one(&mut self, statement: &Statement) -> Result<Output, model::Error> {
        let prepared = self.session.prepare(statement, &[]).await?;
        match self.session.execute(&prepared, &[]).await? {
            Outcome::Rows { columns, mut batches, .. } => {
                let mut rows = Vec::new();
                let encoder = Encoder::new(&columns, &self.session.setting("timezone").unwrap())?;
                while let Some(batch) = batches.next().await {
                    let batch = batch?;
                    let cells = encoder.batch(&batch)?;
                    for row in 0..batch.num_rows() {
                        let cell = |column| cell(&cells, row, column);
                        rows.push((0..columns.len()).map(cell).collect::<Result<Vec<_>, _>>()?.join(" "));
                    }
                }
                Ok(Output::Rows(columns.iter().map(|column| kind(column.oid)).collect(), rows))
            }
            Outcome::CopyOut { mut chunks, .. } => {
                let mut bytes = Vec::new();
                while let Some(chunk) = chunks.next().await {
                    bytes.extend(chunk?.bytes);
                }
                let text = String::from_utf8(bytes).unwrap();
                let rows = text.lines().map(|line| line.replace('\t', "<TAB>")).collect();
                Ok(Output::Rows("T".to_owned(), rows))
            }
            Outcome::Command { tag } => {
                let count = tag.rsplit(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0);
                Ok(Output::Done(count))
            }
            Outcome::CopyIn(_) | Outcome::Empty => Ok(Output::Done(0)),
        }
    }

    async fn copy_in(&mut self, sql: &str) -> Result<Output, model::Error> {
        let (statement, data) = sql.split_once('\n').unwrap();
        let parsed = query::parse(statement)?;
        let prepared = self.session.prepare(&parsed[0], &[]).await?;
        let Outcome::CopyIn(mut copy) = self.session.execute(&prepared, &[]).await? else {
            panic!("{statement} wants no data");
        };
        // Small chunks, because a client may split the data anywhere.
        let data = format!("{}\n", data.replace("<TAB>", "\t"));
        for piece in data.as_bytes().chunks(7) {
            copy.data(&mut self.session, piece).await?;
        }
        let tag = copy.done(&mut self.session).await?;
        Ok(Output::Done(tag.trim_start_matches("COPY ").parse().unwrap()))
    }

    /// Moves all rows to another storage.
    pub(crate) fn place(&mut self, storage: Storage) {
        let before = std::mem::replace(&mut self.storage, storage);
        self.place_rows();
        self.storage = before;
    }

    fn place_rows(&self) {
        if self.session.status() != TxnStatus::Idle {
            return;
        }
        let engine = self.session.database().engine();
        match self.storage {
            Storage::Memory => {}
            Storage::Flushed => engine.flush().unwrap(),
            Storage::Settled => {
                engine.flush().unwrap();
                engine.settle().unwrap();
            }
        }
    }
}

fn text(cells: &query::encode::Rows<'_>, row: usize, column: usize) -> Result<Option<String>, model::Error> {
    let mut out = Vec::new();
    Ok(cells.text(row, column, &mut out)?.then(|| String::from_utf8(out).unwrap()))
}

fn cell(cells: &query::encode::Rows<'_>, row: usize, column: usize) -> Result<String, model::Error> {
    Ok(shown_cell(text(cells, row, column)?.as_deref()))
}

/// Error in the format that scripts match: `42P01: relation "x" does not exist [15] (hint) <place>`.
fn shown(error: &model::Error) -> String {
    let position = error.position().map_or_else(String::new, |position| format!(" [{position}]"));
    let hint = error.hint().map_or_else(String::new, |hint| format!(" ({hint})"));
    let place = error.place().map_or_else(String::new, |place| format!(" <{place}>"));
    format!("{}: {}{position}{hint}{place}", error.state(), error.message())
}
