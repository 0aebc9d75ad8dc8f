//! Segment files: rows sorted by (series, time), in blocks, with a directory that is read lazily by column.
//!
//! Always true:
//! - A file under a segment's name is complete and synced, and never changes; unfinished ones are named `.tmp`.
//! - Every byte that is interpreted is covered by a checksum that was verified first.
//! - A reader pays for the columns it names: two reads for footer and block index, one for each column's directory,
//!   once; then one read for each group of neighbouring chunks.
//!
//! Not here: which rows go into which block, merging and folding of versions (`state`, `scan`). Bytes:
//! docs/format/segment.md.

use arrow_array::ArrayRef;
use model::{ColumnId, Lsn, TimeRange};

use crate::rows::Ops;

mod check;
mod commit_times;
mod format;
mod reader;
mod rows_chunk;
mod stats;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use reader::Directory;
pub use reader::{Blocks, Columns, Segment};
pub use writer::SegmentWriter;

/// Most rows of one block.
pub const BLOCK_ROWS_MAX: usize = 8_192;
/// Values a block of a wide table should hold: bounds what a reader of all columns holds in memory at once (32 MiB of
/// floats).
const BLOCK_VALUES: usize = 4 << 20;
/// Fewer rows would let the directory grow beyond a few per cent of the file.
pub(crate) const BLOCK_ROWS_MIN: usize = 1_024;

const _: () = assert!(BLOCK_ROWS_MIN <= BLOCK_ROWS_MAX);

/// Rows of each block when `rows` rows of `fields` fields are written: blocks of about the same size, smaller for wide
/// tables. Rows of very large values need smaller blocks still: a block's chunks together must stay below 4 GiB.
#[must_use]
pub fn block_rows(rows: usize, fields: usize) -> usize {
    let most = (BLOCK_VALUES / fields.max(1)).clamp(BLOCK_ROWS_MIN, BLOCK_ROWS_MAX);
    rows.div_ceil(rows.div_ceil(most).max(1)).max(1)
}

/// What the manifest keeps of a segment: enough to prune it without opening it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentMeta {
    /// Its file is `segment-<file as 16 hex digits>.seg`; numbers are never used again.
    pub file: u64,
    /// Lowest and highest commit that it reflects: those that wrote a row of it, and deletes that were applied to it.
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

/// The name of the file with this number.
#[must_use]
pub fn file_name(file: u64) -> String {
    format!("segment-{file:016x}.seg")
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
    /// Smallest and largest value that is not NULL; `None` when all are NULL (or NaN). Text and bytes are cut to 32
    /// bytes, the largest rounded up; floats ignore NaN and `has_nan` says so.
    pub range: Option<(StatValue, StatValue)>,
    /// Sum of the non-NULL values: integers exact in i128, floats in row order; `None` for other types and when all are
    /// NULL.
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
    /// Bool (0, 1), signed integers, timestamps.
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

/// Rows of one block's worth as the writer takes them and the reader gives them: sorted by (series, time), versions
/// oldest first.
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

/// One chunk, for `inspect`.
#[derive(Clone, Debug, PartialEq)]
pub struct ChunkDescription {
    /// Names of the encodings, outermost first, as in `decimal 2: delta (coded above 0 bit)`.
    pub encoding: String,
    /// Place in the file.
    pub at: u64,
    /// Size in the file.
    pub bytes: u32,
    /// Its statistics; `None` for the rows chunk (series, times, operations).
    pub stats: Option<ColumnStats>,
}
