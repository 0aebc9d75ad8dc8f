//! Rows on their way in: columnar, of one table, with what each does to an older version of itself.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::ArrayRef;
use model::{ColumnId, Result};

/// What a row does to an older version of the same (series, time).
///
/// Unkeyed tables use [`Op::Replace`] only, and keep every row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Takes its place whole; columns not present are NULL. (`INSERT`, `COPY`)
    Replace,
    /// Overlays its non-NULL fields; NULL means absent. (line protocol)
    Merge,
    /// Counts only where no row is. (`ON CONFLICT DO NOTHING`)
    Keep,
    /// Where a row is, overlays exactly these columns, NULL included; else stands whole. (`ON CONFLICT DO UPDATE SET c = excluded.c`)
    Update(Arc<[ColumnId]>),
}

/// Rows of one table. Immutable once built; shared by memtable, snapshots and flush.
///
/// `series.len() == times.len() ==` the length of every column. `columns` are fields only, sorted by id; a column that is not
/// there is NULL (absent for [`Op::Merge`]). Array types are those of [`crate::rows::arrow_type`].
#[derive(Clone, Debug)]
pub struct Rows {
    /// Series number of each row; in a [`Batch`] an index into its key list instead. 0 in unkeyed tables.
    pub series: Vec<u32>,
    /// Nanoseconds since 1970 UTC.
    pub times: Vec<i64>,
    /// What each row does: one for all, or an index into the list for each row.
    pub ops: Ops,
    /// Field columns.
    pub columns: Vec<(ColumnId, ArrayRef)>,
    // private: OnceLock'd sort permutation and the like
}

/// The operations of some rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ops {
    /// The same for every row.
    All(Op),
    /// `of[i]` indexes `list`.
    Each {
        /// The distinct operations.
        list: Vec<Op>,
        /// One index per row.
        of: Vec<u8>,
    },
}

/// Distinct series keys (canonical bytes, see [`model::key`]), in one buffer.
#[derive(Clone, Debug, Default)]
pub struct KeyList {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

/// Rows as a writer hands them in: `rows.series` indexes `keys`, because ids are assigned only at commit.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Distinct keys. One empty key for tables without key columns and for unkeyed ones.
    pub keys: KeyList,
    /// The rows, in the order they were given: of equal (series, time) the later wins.
    pub rows: Rows,
}

impl Rows {
    /// Appends rows `range` to `out` for a log record. Format: docs/format/rows.md.
    pub fn encode(&self, _range: Range<usize>, _out: &mut Vec<u8>) {
        unimplemented!()
    }

    /// Reads what [`Rows::encode`] wrote; bytes are checked, never trusted.
    pub fn decode(_bytes: &[u8]) -> Result<Rows> {
        unimplemented!()
    }

    /// Upper bound of the encoded size of each row on average, to cut a batch into records.
    pub fn encoded_bytes(&self, _range: Range<usize>) -> usize {
        unimplemented!()
    }

    /// Memory held, for the budget.
    pub fn memory_bytes(&self) -> usize {
        unimplemented!()
    }
}

/// The arrow type that stores `ty`: `Utf8` for text, `Binary` for bytes, `Timestamp(ns, "UTC")` for time.
pub fn arrow_type(ty: model::DataType) -> arrow_schema::DataType {
    use arrow_schema::DataType as Arrow;
    match ty {
        model::DataType::Bool => Arrow::Boolean,
        model::DataType::Int16 => Arrow::Int16,
        model::DataType::Int32 => Arrow::Int32,
        model::DataType::Int64 => Arrow::Int64,
        model::DataType::UInt64 => Arrow::UInt64,
        model::DataType::Float32 => Arrow::Float32,
        model::DataType::Float64 => Arrow::Float64,
        model::DataType::Text => Arrow::Utf8,
        model::DataType::Bytes => Arrow::Binary,
        model::DataType::Timestamp => Arrow::Timestamp(arrow_schema::TimeUnit::Nanosecond, Some("UTC".into())),
    }
}
