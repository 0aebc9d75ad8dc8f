//! The database: one directory, one catalog, one commit point, recovery, flush and compaction; the Rust API.
//!
//! Words: a [`Root`] is the whole database at one LSN; a [`Snapshot`] is a root and the reader's own uncommitted writes; a
//! [`Txn`] collects changes; [`Committing`] carries them through the log.
//!
//! Always true:
//! - Every change goes through `commit`, under one lock: the order of commit records is the order of roots.
//! - Everything that can fail is checked before the first byte of the commit record is appended; after it nothing can.
//! - A root is visible to others at `sync` only when its LSN is durable.
//! - The manifest names only complete, synced files; what is not in it is either in the log or was never acknowledged.
//!
//! Not here: SQL (`query`), bytes from the network (`ingest`, `server`). Bytes: docs/format/{record,manifest}.md.

mod catalog;

pub use catalog::{Catalog, ColumnSpec, TableSpec};
pub use columns::rows::Ops;
pub use columns::{Batch, KeyList, Op, OwnWrites, Rows, Scan, ScanRequest, ScanStats, SeriesFilter, TableView};

mod skeleton;
pub use skeleton::*;
