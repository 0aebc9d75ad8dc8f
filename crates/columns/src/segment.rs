//! Segment files: rows sorted by (series, time), in blocks, with a directory that is read lazily by column.

use std::path::Path;
use std::sync::Arc;

use arrow_array::ArrayRef;
use env::Env;
use model::{ColumnId, DataType, Lsn, Result, TimeRange};

use crate::rows::Ops;

/// Most rows of one block.
pub const BLOCK_ROWS_MAX: usize = 8_192;

/// What the manifest keeps of a segment: enough to prune it without opening it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentMeta {
    /// Its file is `segment-<file as 16 hex digits>.seg`; numbers are never used again.
    pub file: u64,
    /// Lowest and highest commit that wrote a row of it.
    pub lsns: (Lsn, Lsn),
    /// From its first to its last moment.
    pub times: TimeRange,
    /// Lowest and highest series number.
    pub series: (u32, u32),
    /// Rows, all versions counted.
    pub rows: u64,
    /// File length.
    pub bytes: u64,
}

/// What is known of one block without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockMeta {
    /// Rows, 1 ..= BLOCK_ROWS_MAX.
    pub rows: u32,
    /// (series, time) of the first row.
    pub first: (u32, i64),
    /// (series, time) of the last row.
    pub last: (u32, i64),
    /// From the earliest to the latest moment of any series in it.
    pub times: TimeRange,
}

/// Statistics of one column of one block.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnStats {
    /// NULLs (for line protocol's rows: absent values).
    pub nulls: u32,
    /// Smallest and largest value that is not NULL; `None` when all are NULL. Text and bytes are cut to 32 bytes, the
    /// largest rounded up; floats ignore NaN and `has_nan` says so.
    pub range: Option<(StatValue, StatValue)>,
    /// Sum of the non-NULL values: integers exact in i128, floats in row order; `None` for other types.
    pub sum: Option<StatSum>,
    /// First and last row's value, when not NULL (integers, floats, bool, time).
    pub first: Option<StatValue>,
    /// See `first`.
    pub last: Option<StatValue>,
    /// Is a NaN among the values?
    pub has_nan: bool,
    /// Encoded bytes.
    pub bytes: u32,
}

/// A value within statistics.
#[derive(Clone, Debug, PartialEq)]
pub enum StatValue {
    /// Bool (0, 1), integers, timestamps; unsigned as their bits.
    Int(i64),
    /// `numeric(20)`
    UInt(u64),
    /// Both float types.
    Float(f64),
    /// Text and bytes.
    Bytes(Vec<u8>),
}

/// A sum within statistics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StatSum {
    /// Exact.
    Int(i128),
    /// In row order.
    Float(f64),
}

/// Rows of one block's worth as the writer takes them and the reader gives them: sorted by (series, time), versions oldest first.
#[derive(Clone, Debug)]
pub struct BlockRows {
    /// Series number of each row.
    pub series: Vec<u32>,
    /// Time of each row.
    pub times: Vec<i64>,
    /// What each row does to older versions.
    pub ops: Ops,
    /// Field columns, sorted by id; one that is missing is all NULL.
    pub columns: Vec<(ColumnId, ArrayRef)>,
}

/// Writes one segment: blocks in order, then the directory. The file appears under its name only when [`SegmentWriter::finish`]
/// has synced it; a writer dropped before leaves only a `.tmp` file, removed at open.
///
/// Memory: one column of one block at a time beyond the caller's rows, plus the directory.
pub struct SegmentWriter {}

impl SegmentWriter {
    /// Starts the file for `columns` (fields, by id).
    pub fn create(_env: Arc<dyn Env>, _dir: &Path, _file: u64, _columns: &[(ColumnId, DataType)]) -> Result<SegmentWriter> {
        unimplemented!()
    }

    /// Appends a block (1 ..= BLOCK_ROWS_MAX rows, not before the previous block in (series, time)).
    pub fn write(&mut self, _rows: &BlockRows) -> Result<()> {
        unimplemented!()
    }

    /// Writes directory and footer, syncs, renames, syncs the folder.
    pub fn finish(self, _lsns: (Lsn, Lsn)) -> Result<SegmentMeta> {
        unimplemented!()
    }
}

/// An open segment. Opening reads nothing; footer and block index are read (and checked) at first use, a column's directory at
/// the first use of that column, and both are kept.
pub struct Segment {}

impl Segment {
    /// Stands for the file that `meta` names.
    pub fn open(_env: Arc<dyn Env>, _dir: &Path, _meta: SegmentMeta) -> Segment {
        unimplemented!()
    }

    /// What the manifest knows.
    pub fn meta(&self) -> &SegmentMeta {
        unimplemented!()
    }

    /// The blocks, in order.
    pub fn blocks(&self) -> Result<&[BlockMeta]> {
        unimplemented!()
    }

    /// Columns stored, by id.
    pub fn columns(&self) -> Result<&[(ColumnId, DataType)]> {
        unimplemented!()
    }

    /// Does every row stand for itself: one version per (series, time) and no op but Replace? (After a full compaction.)
    pub fn settled(&self) -> Result<bool> {
        unimplemented!()
    }

    /// Statistics of a column, one per block; `None` when the segment does not have the column (all NULL).
    pub fn column_stats(&self, _column: ColumnId) -> Result<Option<Arc<[ColumnStats]>>> {
        unimplemented!()
    }

    /// Series, times and ops of a block, and those of `columns` that the segment has. Adds the bytes read to `bytes_read`.
    pub fn read(&self, _block: usize, _columns: &[ColumnId], _bytes_read: &mut u64) -> Result<BlockRows> {
        unimplemented!()
    }

    /// Bytes of footer, block index, column directories and statistics.
    pub fn directory_bytes(&self) -> Result<u64> {
        unimplemented!()
    }

    /// Reads everything and verifies every checksum; the text of each finding names offset and what is wrong.
    pub fn check(&self) -> Result<Vec<String>> {
        unimplemented!()
    }

    /// From now on the file is removed when the last holder lets go (compaction, DROP).
    pub fn remove_when_unused(&self) {
        unimplemented!()
    }
}
