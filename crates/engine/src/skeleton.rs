//! The public surface; the bodies are being written.
#![allow(missing_docs, unused_variables)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::{Env, Event};
use model::{Lsn, Result, TableId, TableName, TableRef, TimeRange};

use crate::{Batch, Catalog, ColumnSpec, TableSpec, TableView};

/// How a database is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes for memtables, caches, queries and connection buffers together.
    pub memory_bytes: u64,
    /// Log file size, nanoseconds an `async` commit may stay unsynced, and such; `Options::default()` is right for users.
    pub log_file_bytes: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options { memory_bytes: 1 << 30, log_file_bytes: 64 << 20 }
    }
}

/// What opening found and did.
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    /// Was the directory empty?
    pub created: bool,
    /// Tables, segments and series of the manifest.
    pub tables: u64,
    pub segments: u64,
    pub series: u64,
    /// Log records and payload bytes read, commits applied again, bytes of a torn tail dropped.
    pub log_records: u64,
    pub log_bytes: u64,
    pub commits: u64,
    pub torn_bytes: u64,
    pub elapsed_ns: u64,
}

/// When a commit is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When it is on disk.
    #[default]
    Sync,
    /// At once; on disk within 100 ms (the flusher never waits longer).
    Async,
}

/// What later statements of a transaction see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Each statement a fresh snapshot.
    #[default]
    ReadCommitted,
    /// All statements the snapshot of the first.
    RepeatableRead,
}

/// An open database. Cloning shares it; it closes when the last clone is dropped or by [`Engine::close`].
#[derive(Clone)]
pub struct Engine {}

impl Engine {
    /// Opens (or makes) the database in `dir` and starts its workers.
    ///
    /// # Errors
    /// 55P03 when another process has it open; XX001 with what is wrong where; 58030.
    pub fn open(env: Arc<dyn Env>, dir: &Path, options: Options) -> Result<(Engine, Recovery)> {
        unimplemented!()
    }

    /// Starts a transaction. `seen` is the session's own last commit (Lsn::ZERO at first): the reader sees at least that.
    pub fn begin(&self, isolation: Isolation, seen: Lsn) -> Txn {
        unimplemented!()
    }

    /// What a single read-only statement sees.
    pub fn snapshot(&self, seen: Lsn) -> Snapshot {
        unimplemented!()
    }

    /// Blocks (by `Env::wait`) until the commit is through. For embedded use and tests; servers poll.
    pub fn finish(&self, committing: Committing) -> Result<Lsn> {
        unimplemented!()
    }

    /// Flushes all memtables now and waits. For clean shutdown, `demo`, tests.
    pub fn flush(&self) -> Result<()> {
        unimplemented!()
    }

    /// Runs compaction until nothing is due, and waits. For `demo` and benchmarks ("settled").
    pub fn settle(&self) -> Result<()> {
        unimplemented!()
    }

    /// Flushes the log, writes the durable mark, stops the workers.
    pub fn close(&self) -> Result<()> {
        unimplemented!()
    }

    /// Numbers for metrics and EXPLAIN.
    pub fn stats(&self) -> Stats {
        unimplemented!()
    }

    /// Why the log has failed, if it has: writes are refused, reads go on at the durable LSN, `/ready` says 503.
    pub fn failure(&self) -> Option<model::Error> {
        unimplemented!()
    }

    /// The folder for spill files, wiped at open.
    pub fn spill_dir(&self) -> PathBuf {
        unimplemented!()
    }

    pub fn env(&self) -> &Arc<dyn Env> {
        unimplemented!()
    }
}

/// Numbers of a running engine.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    pub last_lsn: u64,
    pub durable_lsn: u64,
    pub flushed_lsn: u64,
    pub commits: u64,
    pub rows_written: u64,
    pub memtable_bytes: u64,
    pub memory_bytes: u64,
    pub log_disk_bytes: u64,
    pub segment_bytes: u64,
    pub segments: u64,
    pub tables: u64,
    pub series: u64,
    pub flushes: u64,
    pub flush_bytes: u64,
    pub compactions: u64,
    pub compaction_bytes: u64,
    pub log_syncs: u64,
}

/// The database as one reader sees it.
#[derive(Clone)]
pub struct Snapshot {}

impl Snapshot {
    /// The moment.
    pub fn lsn(&self) -> Lsn {
        unimplemented!()
    }

    /// Schemas and tables, own uncommitted DDL included.
    pub fn catalog(&self) -> &Arc<Catalog> {
        unimplemented!()
    }

    /// A table's rows, own uncommitted writes included. 42P01 if it does not exist here.
    pub fn table(&self, name: &TableName) -> Result<TableView> {
        unimplemented!()
    }

    /// As [`Snapshot::table`], by number.
    pub fn table_by_id(&self, id: TableId) -> Result<TableView> {
        unimplemented!()
    }
}

/// Changes that become one commit. Dropping it is ROLLBACK: nothing was written anywhere.
pub struct Txn {}

impl Txn {
    /// What the next statement sees.
    pub fn snapshot(&mut self) -> Snapshot {
        unimplemented!()
    }

    /// Has nothing been changed yet?
    pub fn is_empty(&self) -> bool {
        unimplemented!()
    }

    pub fn create_schema(&mut self, name: &str) -> Result<()> {
        unimplemented!()
    }

    pub fn drop_schema(&mut self, name: &str) -> Result<()> {
        unimplemented!()
    }

    /// Makes a table; visible to this transaction at once. 42P07 if the name is taken (also checked at commit).
    pub fn create_table(&mut self, spec: &TableSpec) -> Result<TableRef> {
        unimplemented!()
    }

    pub fn drop_table(&mut self, name: &TableName) -> Result<()> {
        unimplemented!()
    }

    /// Adds columns (NULL in rows that exist). At commit, 40001 if the table changed since.
    pub fn add_columns(&mut self, name: &TableName, columns: &[ColumnSpec]) -> Result<TableRef> {
        unimplemented!()
    }

    /// Adds rows. The batch is checked whole before anything is kept.
    ///
    /// # Errors
    /// 22xxx/23502/54000 naming row and column; 53200 when the transaction outgrows its share of memory.
    pub fn write(&mut self, table: TableId, batch: Batch) -> Result<()> {
        unimplemented!()
    }

    /// Hides rows of `series` (sorted numbers as [`TableView::lookup`] gives them; `None` = all) in `times`.
    pub fn delete(&mut self, table: TableId, series: Option<Arc<[u32]>>, times: TimeRange) -> Result<()> {
        unimplemented!()
    }

    /// Bytes of uncommitted rows.
    pub fn memory_bytes(&self) -> usize {
        unimplemented!()
    }

    /// Starts the commit; nothing happens until it is polled.
    pub fn commit(self, durability: Durability) -> Committing {
        unimplemented!()
    }
}

/// A commit on its way. Dropped before its commit record is queued it is a rollback; after that it is out of the caller's hands.
pub struct Committing {}

/// How far a commit is.
#[derive(Debug)]
pub enum Progress {
    /// Poll again after the event.
    Wait(Event),
    /// Acknowledged at the level asked for. An empty transaction gives the LSN it read at.
    Done(Lsn),
}

impl Committing {
    /// Goes on as far as possible without waiting.
    ///
    /// # Errors
    /// 40001/42P07/42P01 when the catalog changed underneath: nothing was done. 53100/53200: refused before anything was appended, retry
    /// later. 58030: the log failed, the outcome is unknown.
    pub fn poll(&mut self) -> Result<Progress> {
        unimplemented!()
    }
}
