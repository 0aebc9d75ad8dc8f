//! Reading: segments and memtable entries merged by (series, time), versions folded, deletes applied.

use std::sync::Arc;

use arrow_array::RecordBatch;
use model::{ColumnId, Result, TimeRange};

use crate::rows::Batch;
use crate::segment::StatValue;
use crate::state::{TableState, Tombstone};

/// Which series to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeriesFilter {
    /// All that exist at the state.
    All,
    /// These, sorted.
    Only(Arc<[u32]>),
}

/// A bound on a field that lets whole blocks be skipped; rows of blocks that are read are not filtered by it.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnRange {
    /// The field.
    pub column: ColumnId,
    /// Value must be >= this.
    pub min: Option<StatValue>,
    /// Value must be <= this.
    pub max: Option<StatValue>,
}

/// What to read.
#[derive(Clone, Debug)]
pub struct ScanRequest {
    /// Key, time and field columns, in the order they shall come out; may be empty (rows are still counted).
    pub columns: Vec<ColumnId>,
    /// Moments.
    pub times: TimeRange,
    /// Series.
    pub series: SeriesFilter,
    /// For skipping blocks only. Applied only where no other version of a row can hide in a skipped or kept block.
    pub ranges: Vec<ColumnRange>,
    /// Rows of an output batch, 1 ..= 8192.
    pub batch_rows: usize,
    /// Stop after this many rows.
    pub limit: Option<u64>,
}

/// What a scan did, for EXPLAIN ANALYZE and metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanStats {
    /// Segments of the table.
    pub segments: u64,
    /// Of these, skipped whole.
    pub segments_pruned: u64,
    /// Blocks of the segments not skipped.
    pub blocks: u64,
    /// Of these, skipped by series, time or statistics.
    pub blocks_pruned: u64,
    /// Bytes read from files.
    pub bytes_read: u64,
    /// Rows given out.
    pub rows: u64,
    /// Versions folded away or hidden by deletes.
    pub versions_dropped: u64,
}

/// Uncommitted writes of the reading transaction itself, newest of all, in order.
#[derive(Clone, Default)]
pub struct OwnWrites {
    /// Rows and deletes in statement order. A delete's `lsn` is ignored; its series are numbers of [`OwnWrites::series`].
    pub entries: Vec<OwnEntry>,
}

/// One own write.
#[derive(Clone)]
pub enum OwnEntry {
    /// Rows with keys.
    Rows(Arc<Batch>),
    /// A delete.
    Delete(Arc<Tombstone>),
}

/// A table as one reader sees it: a state, and its own uncommitted writes on top.
#[derive(Clone)]
pub struct TableView {
    // state + overlay; series that exist only in own writes get numbers from state.series_count on
    _state: Arc<TableState>,
}

impl TableView {
    /// What a reader without writes of its own sees.
    pub fn new(_state: Arc<TableState>) -> TableView {
        unimplemented!()
    }

    /// What a transaction with own writes sees.
    pub fn with_own_writes(_state: Arc<TableState>, _own: &OwnWrites) -> TableView {
        unimplemented!()
    }

    /// The state below.
    pub fn state(&self) -> &Arc<TableState> {
        unimplemented!()
    }

    /// How many series there are, own new ones included.
    pub fn series_count(&self) -> u32 {
        unimplemented!()
    }

    /// The series with this key (canonical bytes), if it exists here.
    pub fn lookup(&self, _key: &[u8]) -> Option<u32> {
        unimplemented!()
    }

    /// Key columns (in key order) of series `from .. to`, for evaluating predicates over keys.
    pub fn key_columns(&self, _from: u32, _to: u32) -> Result<Vec<arrow_array::ArrayRef>> {
        unimplemented!()
    }

    /// Starts a scan. Rows come out ordered by (series number, time); unkeyed tables by time.
    pub fn scan(&self, _request: ScanRequest) -> Result<Scan> {
        unimplemented!()
    }
}

/// A running scan: batches of the schema [`crate::scan::arrow_schema`] gives for the request. Memory: one block per source in use.
pub struct Scan {}

impl Scan {
    /// So far.
    pub fn stats(&self) -> ScanStats {
        unimplemented!()
    }
}

impl Iterator for Scan {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        unimplemented!()
    }
}

/// The arrow schema of `columns` of a table, in that order: names as in the table, `Utf8` for text, `Timestamp(ns, "UTC")` for time.
pub fn arrow_schema(_table: &model::Table, _columns: &[ColumnId]) -> arrow_schema::SchemaRef {
    unimplemented!()
}
