//! Segment files: rows sorted by (series, time), in blocks, with one directory per column that is
//! read on demand.
//!
//! Always true:
//! - A file under a segment's name is complete, synced and never changes; unfinished files are
//!   named `.tmp`.
//! - The checksum of every byte is verified before the byte is interpreted.
//! - A reader pays only for the columns it names: once, two reads for footer and block index and
//!   one for each column's directory; then one read for each group of adjacent chunks.
//!
//! Not here: the assignment of rows to blocks, merging and folding of versions (`state`, `scan`).
//! Bytes: docs/format/segment.md.

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
#[cfg(test)]
mod versions_tests;
mod writer;

pub(crate) use reader::Directory;
pub use reader::{Blocks, Columns, Segment};
pub(crate) use stats::{LONG_BYTES_MIN, LONGEST};
pub use writer::SegmentWriter;

/// Most rows of one block.
pub const BLOCK_ROWS_MAX: usize = 8_192;
/// Target number of values in a block of a wide table: limits the memory of a reader of all columns
/// (32 MiB of floats).
const BLOCK_VALUES: usize = 4 << 20;
/// Minimum rows of a block: with fewer, the directory would exceed a few per cent of the file.
pub(crate) const BLOCK_ROWS_MIN: usize = 1_024;

const _: () = assert!(BLOCK_ROWS_MIN <= BLOCK_ROWS_MAX);

/// Rows per block for `rows` rows of `fields` fields: blocks of about equal size, smaller for wide
/// tables. Rows of very large values need smaller blocks still: the chunks of a block must stay
/// below 4 GiB in total.
#[must_use]
pub fn block_rows(rows: usize, fields: usize) -> usize {
    let most = (BLOCK_VALUES / fields.max(1)).clamp(BLOCK_ROWS_MIN, BLOCK_ROWS_MAX);
    rows.div_ceil(rows.div_ceil(most).max(1)).max(1)
}

/// A segment's entry in the manifest: enough to prune the segment without opening it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentMeta {
    /// File number, never reused. The file is `segment-<file as 16 hex digits>.seg`.
    pub file: u64,
    /// Lowest and highest LSN contained: commits that wrote a row, and deletes that were applied.
    pub lsns: (Lsn, Lsn),
    /// From the first to the last timestamp.
    pub times: TimeRange,
    /// Lowest and highest series number.
    pub series: (u32, u32),
    /// Number of rows, all versions counted.
    pub rows: u64,
    /// File size.
    pub bytes: u64,
}

/// The file name of a segment.
#[must_use]
pub fn file_name(file: u64) -> String {
    format!("segment-{file:016x}.seg")
}

/// A block's entry in the block index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockMeta {
    /// Number of rows, 1 ..= BLOCK_ROWS_MAX.
    pub rows: u32,
    /// (series, time) of the first row.
    pub first: (u32, i64),
    /// (series, time) of the last row.
    pub last: (u32, i64),
    /// From the earliest to the latest timestamp of all its series.
    pub times: TimeRange,
}

/// Statistics of one column of one block.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnStats {
    /// Number of NULLs (for rows of the line protocol: of absent values).
    pub nulls: u32,
    /// Minimum and maximum of the values that are not NULL or NaN; `None` if there are none. Text
    /// and bytes are truncated to 32 bytes, the maximum rounded up.
    pub range: Option<(StatValue, StatValue)>,
    /// Sum of the values that are not NULL: integers exactly in i128, floats in row order. `None`
    /// for other types and if all are NULL.
    pub sum: Option<StatSum>,
    /// Value of the first row; `None` if it is NULL, and for text and bytes.
    pub first: Option<StatValue>,
    /// Value of the last row; see `first`.
    pub last: Option<StatValue>,
    /// Whether a value is NaN; of text and bytes: whether the maximum is no upper bound, because the largest value
    /// begins with many 0xff and is too long to be stored.
    pub has_nan: bool,
    /// Bytes of the longest text or bytes value, or 0 if all are shorter than 64 KiB.
    pub longest: u32,
    /// Size of the chunk.
    pub bytes: u32,
}

/// A value in statistics.
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

/// A sum in statistics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StatSum {
    /// Exact sum of integers.
    Int(i128),
    /// Sum of floats in row order.
    Float(f64),
}

/// The rows of one block, for writer and reader: sorted by (series, time), versions oldest first.
#[derive(Clone, Debug)]
pub struct BlockRows {
    /// Series number of each row.
    pub series: Vec<u32>,
    /// Time of each row.
    pub times: Vec<i64>,
    /// Operation of each row.
    pub ops: Ops,
    /// Field columns, sorted by id; one that is missing is all NULL.
    pub columns: Vec<(ColumnId, ArrayRef)>,
}

/// Description of one chunk, for `millrace inspect`.
#[derive(Clone, Debug, PartialEq)]
pub struct ChunkDescription {
    /// Names of the encodings, outermost first, as in `decimal 2: delta (coded above 0 bit)`.
    pub encoding: String,
    /// Offset in the file.
    pub at: u64,
    /// Size in the file.
    pub bytes: u32,
    /// Statistics of the chunk; `None` for the rows chunk (series, times, operations).
    pub stats: Option<ColumnStats>,
}
