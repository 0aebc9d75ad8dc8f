//! The time-series and event store: memtable, segments, merge on read, flush and compaction.
//!
//! Terms: a *row* is all fields of one series at one time. A *version* is one write of a row. The
//! *memtable* holds the newest versions; a *segment* (RocksDB: SST file) is an immutable file of
//! rows sorted by (series, time); a *block* is up to [`segment::BLOCK_ROWS_MAX`] consecutive rows
//! of it. *Folding* reduces the versions of a row to the row that a reader sees.
//!
//! The store is a value: a [`TableState`] (RocksDB: SuperVersion) is immutable, and every change
//! creates a new one that shares all unchanged parts. A reader that holds a state has a snapshot;
//! `engine` decides which state is visible to whom.
//!
//! Always true:
//! - Memtable entries and segments are in commit order: a later one holds newer versions. Therefore
//!   no LSN is stored per row. (Tables with history store when each version was written and
//!   deleted, for time travel.)
//! - A segment holds only durable commits and never changes after its rename.
//! - The result of a scan does not depend on which flushes, memtable compactions or compactions
//!   have run.
//!
//! Not here: the log, the catalog, the manifest, the order of commits (`engine`). Bytes:
//! docs/format/{segment,series,rows}.md.

mod batch;
#[cfg(test)]
mod batch_tests;
mod block_statistics;
mod bytes;
mod cache;
mod codec;
#[cfg(test)]
mod codec_tests;
mod column_scan;
mod compact;
mod deletes;
#[cfg(test)]
mod deletes_tests;
pub mod encoding;
#[cfg(test)]
mod fault_tests;
mod files;
mod filter;
mod flush;
mod history;
mod keys;
mod memtable_compaction;
mod merge;
mod merge_plan;
#[cfg(test)]
mod model_test;
mod partitions;
mod pieces;
mod postings;
mod prune;
pub mod rows;
pub mod scan;
pub mod segment;
mod segments;
pub mod series;
mod series_file;
mod small_batch;
mod sorted_run;
pub mod state;
#[cfg(test)]
mod tests;

pub use block_statistics::{Piece, WholeBlock};
pub use cache::SegmentCache;
pub use compact::{Compacted, Compacting, Compaction, Moved};
pub use deletes::Deletes;
pub use files::{SeriesFile, TableFiles, segment_path, series_path};
pub use flush::Flushed;
pub use history::{DELETED_AT, WRITTEN_AT};
pub use memtable_compaction::Consolidated;
pub use merge_plan::uncoded;
pub use pieces::Pieces;
pub use rows::{Batch, KeyList, Op, Ops, Rows};
pub use scan::{
    ColumnRange, OwnDelete, OwnEntry, OwnRowDeletes, OwnWrites, Scan, ScanRequest, ScanStats, Scanned, SeriesFilter,
    TableView, arrow_schema,
};
pub use segment::{Segment, SegmentMeta};
pub use segments::Segments;
pub use series::{OneOf, SeriesIndex};
pub use series_file::{read_series_file, write_series_file};
pub use state::{Entries, Entry, TableState, Tombstone};
