//! One table at one moment: an immutable value that every change replaces.

use std::path::Path;
use std::sync::Arc;

use env::Env;
use model::{Lsn, Result, TableRef, TimeRange};

use crate::rows::Rows;
use crate::segment::{Segment, SegmentMeta};
use crate::series::SeriesIndex;

/// Hides rows of older commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// Rows of commits below this one are hidden.
    pub lsn: Lsn,
    /// Which series, sorted; `None` = all.
    pub series: Option<Arc<[u32]>>,
    /// Which moments.
    pub times: TimeRange,
}

/// One entry of the memtable, in commit order.
#[derive(Clone)]
pub enum Entry {
    /// Rows of commits `lsns.0 ..= lsns.1` (several once consolidated).
    Rows {
        /// Lowest and highest commit in it.
        lsns: (Lsn, Lsn),
        /// The rows.
        rows: Arc<Rows>,
    },
    /// A DELETE, hiding rows of all earlier entries and segments.
    Delete(Arc<Tombstone>),
}

/// One table at one moment. Cloning is cheap.
#[derive(Clone)]
pub struct TableState {
    /// Its definition at this moment.
    pub table: TableRef,
    /// Series below this number exist at this moment.
    pub series_count: u32,
    /// Keys and numbers; shared with other states.
    pub series: Arc<SeriesIndex>,
    /// The memtable, oldest first.
    pub entries: Arc<[Entry]>,
    /// Oldest first.
    pub segments: Arc<[Arc<Segment>]>,
    /// Deletes that still have rows to hide in segments, oldest first.
    pub tombstones: Arc<[Arc<Tombstone>]>,
}

/// What the manifest keeps of a table's files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableFiles {
    /// Series whose keys are in `series_files`.
    pub series_count: u32,
    /// Numbers of the files holding series keys, in order of series number.
    pub series_files: Vec<u64>,
    /// Oldest first.
    pub segments: Vec<SegmentMeta>,
    /// Oldest first.
    pub tombstones: Vec<Tombstone>,
}

impl TableState {
    /// An empty table.
    pub fn empty(_table: TableRef) -> TableState {
        unimplemented!()
    }

    /// A table as the manifest describes it: reads the series files, opens no segment.
    pub fn load(_env: &Arc<dyn Env>, _dir: &Path, _table: TableRef, _files: &TableFiles) -> Result<TableState> {
        unimplemented!()
    }

    /// With rows of commit `lsn` appended. `rows.series` are real numbers by now.
    #[must_use]
    pub fn with_rows(&self, _lsn: Lsn, _rows: Arc<Rows>, _series_count: u32) -> TableState {
        unimplemented!()
    }

    /// With a delete appended.
    #[must_use]
    pub fn with_delete(&self, _tombstone: Tombstone) -> TableState {
        unimplemented!()
    }

    /// With a changed definition.
    #[must_use]
    pub fn with_table(&self, _table: TableRef) -> TableState {
        unimplemented!()
    }

    /// Bytes of the memtable.
    pub fn memory_bytes(&self) -> usize {
        unimplemented!()
    }

    /// Merges small neighbouring row entries into one sorted entry, where that is due (a few of one size class together), never
    /// touching entries with a commit at or below `barrier` (a flush is writing them). `None` when nothing is due.
    /// The work is done here; [`TableState::with_consolidated`] installs it into a newer state.
    pub fn consolidate(&self, _barrier: Lsn) -> Option<Consolidated> {
        unimplemented!()
    }

    /// Replaces the entries that `done` was made of, if they are still there.
    #[must_use]
    pub fn with_consolidated(&self, _done: &Consolidated) -> Option<TableState> {
        unimplemented!()
    }

    /// Writes all entries with commits <= `upto` as one segment (`None` when they hold no row), versions folded where the fold needs
    /// no older version, deletes among them applied. Also writes keys of series >= `series_from` to file `series_file`.
    pub fn flush(
        &self,
        _env: &Arc<dyn Env>,
        _dir: &Path,
        _upto: Lsn,
        _segment_file: u64,
    ) -> Result<Option<Arc<Segment>>> {
        unimplemented!()
    }

    /// Without the entries <= `upto`, with the segment they became, and with their deletes kept as tombstones if they may hide
    /// rows of older segments.
    #[must_use]
    pub fn with_flushed(&self, _upto: Lsn, _segment: Option<Arc<Segment>>) -> TableState {
        unimplemented!()
    }

    /// The next compaction worth doing, if any.
    pub fn pick_compaction(&self) -> Option<Compaction> {
        unimplemented!()
    }

    /// With a finished compaction's outputs in place of its inputs, and tombstones dropped that hide nothing any more.
    #[must_use]
    pub fn with_compacted(&self, _done: &Compacted) -> TableState {
        unimplemented!()
    }
}

/// A finished merge of memtable entries.
pub struct Consolidated {}

/// A chosen compaction.
pub struct Compaction {}

impl Compaction {
    /// Merges, folds versions, applies tombstones, splits by partition; `next_file` gives file numbers. Runs for seconds: `keep_going`
    /// is asked between blocks, and a refusal removes what was written.
    pub fn run(
        &self,
        _env: &Arc<dyn Env>,
        _dir: &Path,
        _next_file: &mut dyn FnMut() -> u64,
        _keep_going: &dyn Fn() -> bool,
    ) -> Result<Option<Compacted>> {
        unimplemented!()
    }
}

/// A finished compaction.
pub struct Compacted {
    /// File numbers of the inputs.
    pub inputs: Vec<u64>,
    /// The new segments.
    pub outputs: Vec<Arc<Segment>>,
}

/// Writes keys `from .. to` of an index as series file `file`. Format: docs/format/series.md.
pub fn write_series_file(
    _env: &Arc<dyn Env>,
    _dir: &Path,
    _file: u64,
    _series: &SeriesIndex,
    _from: u32,
    _to: u32,
) -> Result<()> {
    unimplemented!()
}

