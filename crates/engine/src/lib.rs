//! The storage engine: one directory, one catalog, one commit point, recovery, flush and
//! compaction, and the Rust API.
//!
//! Words: a *database version* is the whole database at one LSN; a [`Snapshot`] is a database
//! version plus the reader's own uncommitted writes; a [`Txn`] collects changes (those to `rows`
//! tables are made in place, invisible to others); [`Committing`] takes them through the log.
//!
//! Always true:
//! - Every change goes through `commit`, under one lock: database versions have the order of their
//!   commit records.
//! - Everything that can fail is checked before the first byte of the commit record is appended;
//!   nothing can fail after it.
//! - A database version is visible to other readers at `sync` only once its LSN is durable.
//!   Statements on `rows` tables read the newest version, so the caller waits for durability before
//!   it answers.
//! - No file of a directory is changed before the directory is known to be a Millrace database
//!   (`directory`).
//! - The manifest names only complete, synced files; data that it does not name is in the log or
//!   was never acknowledged.
//!
//! These are asserted where breaking them would do damage (`db_version`, `manifest_store`, `commit`,
//! `flush`); `jobs` and `commit` say what a broken one stops.
//!
//! Not here: SQL (`query`), network protocols (`ingest`, `server`). Bytes:
//! docs/format/{record,manifest,row-files}.md.

mod amplification;
mod catalog;
mod catalog_object;
mod codec;
mod commit;
mod compaction;
mod covering_deletes;
mod db_version;
mod directory;
mod dropped_files;
mod engine;
mod flush;
mod gc;
pub mod inspect;
mod jobs;
mod log_writer;
mod manifest;
mod manifest_store;
mod memory;
mod rate_limiter;
mod recent_times;
mod record;
mod retention;
mod routine;
mod rowfile;
mod sequence;
mod stats;
mod txn;

pub use amplification::WriteAmplification;
pub use catalog::{Catalog, ColumnSpec, TableSpec};
pub use catalog_object::CommentKey;
pub use columns::rows::{Ops, SMALL_BATCH_BYTES_MAX, SMALL_BATCH_ROWS_MAX, SmallBatch, SmallBatchBuilder};
pub use columns::{
    Batch, ColumnRange, KeyList, Op, OwnRowDeletes, OwnWrites, Rows, Scan, ScanRequest, ScanStats, Segment,
    SeriesFilter, TableView,
};
pub use commit::{Committing, Progress};
pub use engine::{Engine, Options, Recovery};
pub use env::Event;
pub use jobs::{JobState, JobStats, MetricKind, MetricValue, Pending};
pub use manifest::Manifest;
pub use memory::{MemoryBudget, Reservation, Work};
pub use rowfile::{RowFiles, RowPart, row_file_path};
pub use sequence::{NextValue, SequenceAccess, SequenceState, SessionSequences};
pub use stats::Stats;
pub use txn::{Altered, Durability, Isolation, Room, RowData, Savepoint, Snapshot, Txn};
