//! The database: one directory, one catalog, one commit point, recovery, flush and compaction; the Rust API.
//!
//! Words: a root is the whole database at one LSN; a [`Snapshot`] is a root and the reader's own uncommitted writes; a
//! [`Txn`] collects changes (those of `rows` tables it makes in place, seen by nobody else); [`Committing`] carries them through
//! the log.
//!
//! Always true:
//! - Every change goes through `commit`, under one lock: the order of commit records is the order of roots.
//! - Everything that can fail is checked before the first byte of the commit record is appended; after it nothing can.
//! - A root is visible to others at `sync` only when its LSN is durable; statements on `rows` tables see the newest one, and who
//!   answers them waits.
//! - A directory is touched only when it is known to be ours (`directory`).
//! - The manifest names only complete, synced files; what is not in it is either in the log or was never acknowledged.
//!
//! Not here: SQL (`query`), bytes from the network (`ingest`, `server`). Bytes: docs/format/{record,manifest,row-files}.md.

mod amplification;
mod background;
mod catalog;
mod codec;
mod commit;
mod compaction;
mod directory;
mod engine;
mod hidden;
pub mod inspect;
mod manifest;
mod memory;
mod pace;
mod record;
mod retention;
mod root;
mod rowfile;
mod sequence;
mod txn;

pub use amplification::WriteAmplification;
pub use catalog::{Catalog, ColumnSpec, TableSpec};
pub use columns::rows::{Ops, SMALL_BATCH_BYTES_MAX, SMALL_BATCH_ROWS_MAX, SmallBatch, SmallBatchBuilder};
pub use columns::{
    Batch, ColumnRange, KeyList, Op, OwnWrites, Rows, Scan, ScanRequest, ScanStats, Segment, SeriesFilter, TableView,
};
pub use commit::{Committing, Progress};
pub use engine::{Engine, Options, Pending, Recovery, Stats};
pub use env::Event;
pub use manifest::Manifest;
pub use memory::{MemoryBudget, Reservation, Work};
pub use rowfile::{RowFiles, RowPart, row_file_path};
pub use sequence::{Had, NextValue, Numbers, SequenceState};
pub use txn::{Altered, Durability, Isolation, RowData, Savepoint, Snapshot, Txn};
