//! The columns of a few rows in the encoding of the log: the form of a small commit until it is
//! merged with others.
//!
//! An arrow array takes three allocations and about 200 bytes. A row of thousands of columns would
//! pay that for each value, only to be merged soon afterwards. A small batch is one buffer in the
//! layout of [`Rows::encode`](crate::Rows::encode): the log copies it unchanged, and a merge reads
//! the values in place.
//!
//! Always true: the bytes are columns as in docs/format/rows.md, ascending by id. They were
//! verified when they were read, or were written by [`SmallBatchBuilder`].

use arrow_array::ArrayRef;
use model::{ColumnId, DataType, Error, Result};

use crate::bytes::Reader;
use crate::codec::{COLUMN_HEADER_BYTES, NULLS_NONE, NULLS_SOME, decode_column, encode_column, skip_column};

/// Most rows of a small batch: so few are merged soon.
pub const SMALL_BATCH_ROWS_MAX: usize = 16;
/// Most bytes of a small batch.
pub const SMALL_BATCH_BYTES_MAX: usize = 256 << 10;

/// Encoded columns of a few rows.
#[derive(Debug)]
pub struct SmallBatch {
    rows: usize,
    /// Start of each column in `bytes`, then the end of the last one.
    starts: Vec<u32>,
    bytes: Vec<u8>,
    /// Total length of text and bytes values.
    text_bytes: usize,
}

impl SmallBatch {
    /// Reads and verifies `count` columns.
    pub(crate) fn read(reader: &mut Reader<'_>, rows: usize, count: usize) -> Result<SmallBatch> {
        let all = reader.rest();
        let mut packed = SmallBatch { rows, starts: vec![0], bytes: Vec::new(), text_bytes: 0 };
        let mut last = None;
        for _ in 0..count {
            let (id, text_bytes) = skip_column(reader, rows)?;
            if last.is_some_and(|last| last >= id) {
                return Err(reader.wrong(format!("column {id} is not in ascending order")));
            }
            last = Some(id);
            packed.text_bytes += text_bytes;
            packed.starts.push((all.len() - reader.left()) as u32);
        }
        packed.bytes = all[..all.len() - reader.left()].to_vec();
        Ok(packed)
    }

    /// Encodes `columns`, which are sorted by id.
    pub(crate) fn of(rows: usize, columns: &[(ColumnId, ArrayRef)], bytes: usize) -> SmallBatch {
        let mut builder = SmallBatchBuilder::new(rows, columns.len(), bytes);
        for (id, values) in columns {
            encode_column(*id, values, &mut builder.0.bytes);
            builder.0.text_bytes += crate::rows::text_bytes(values);
            builder.end();
        }
        builder.finish()
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub(crate) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    pub(crate) fn text_bytes(&self) -> usize {
        self.text_bytes
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<SmallBatch>() + self.starts.capacity() * 4 + self.bytes.capacity()
    }

    /// The encoded columns.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn id(&self, at: usize) -> ColumnId {
        let start = self.starts[at] as usize;
        let bytes = self.bytes[start..start + 4].try_into().unwrap_or_default();
        ColumnId(u32::from_le_bytes(bytes))
    }

    /// Id and type of each column.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (ColumnId, Option<DataType>)> {
        (0..self.len()).map(|at| (self.id(at), DataType::from_code(self.bytes[self.starts[at] as usize + 4])))
    }

    pub(crate) fn position(&self, id: ColumnId) -> Option<usize> {
        let first = self.first_id()?;
        // Fast path: usually all fields of the table are present, and their ids are consecutive.
        let near = id.0.wrapping_sub(first.0) as usize;
        if near < self.len() && self.id(near) == id {
            return Some(near);
        }
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.id(middle) < id { low = middle + 1 } else { high = middle }
        }
        (low < self.len() && self.id(low) == id).then_some(low)
    }

    fn first_id(&self) -> Option<ColumnId> {
        (self.len() > 0).then(|| self.id(0))
    }

    /// The column at position `at`, decoded.
    pub(crate) fn array(&self, at: usize) -> ArrayRef {
        let bytes = &self.bytes[self.starts[at] as usize..self.starts[at + 1] as usize];
        let column = decode_column(&mut Reader::new("rows in memory", bytes), self.rows);
        column.expect("checked when they were read, or made here").1
    }

    /// Encoded values of a column of the numeric type `ty`; `None` if its type differs or it has a
    /// NULL.
    pub(crate) fn values(&self, at: usize, ty: DataType) -> Option<&[u8]> {
        let column = &self.bytes[self.starts[at] as usize..self.starts[at + 1] as usize];
        let is_plain = column[COLUMN_HEADER_BYTES - 2] == ty as u8 && column[COLUMN_HEADER_BYTES - 1] == NULLS_NONE;
        is_plain.then(|| &column[COLUMN_HEADER_BYTES..])
    }

    /// Whether the column at position `at` has no NULL.
    pub(crate) fn is_full(&self, at: usize) -> bool {
        self.bytes[self.starts[at] as usize + COLUMN_HEADER_BYTES - 1] == NULLS_NONE
    }
}

/// Builds a small batch, column by column, ascending by id.
pub struct SmallBatchBuilder(SmallBatch);

impl SmallBatchBuilder {
    /// A builder for `rows` rows; `columns` and `bytes` are estimates for the allocation.
    ///
    /// # Panics
    /// If `rows` exceeds [`SMALL_BATCH_ROWS_MAX`].
    #[must_use]
    pub fn new(rows: usize, columns: usize, bytes: usize) -> SmallBatchBuilder {
        assert!(rows <= SMALL_BATCH_ROWS_MAX, "BUG: {rows} rows to be packed, the limit is {SMALL_BATCH_ROWS_MAX}");
        let mut starts = Vec::with_capacity(columns + 1);
        starts.push(0);
        SmallBatchBuilder(SmallBatch { rows, starts, bytes: Vec::with_capacity(bytes), text_bytes: 0 })
    }

    /// Adds a column of fixed-width values.
    ///
    /// - `valid`: bit `i` is set if row `i` has a value.
    /// - `values`: one for each bit set, in the low bits of a word (floats as their bits, booleans
    ///   as 0 or 1).
    pub fn fixed(&mut self, id: ColumnId, ty: DataType, valid: u16, values: impl Iterator<Item = u64>) {
        if !self.begin(id, ty, valid) {
            return;
        }
        let bytes = &mut self.0.bytes;
        match ty {
            DataType::Bool => bytes.extend(values.map(|value| u8::from(value != 0))),
            DataType::Int16 => values.for_each(|value| bytes.extend_from_slice(&(value as u16).to_le_bytes())),
            DataType::Int32 | DataType::Float32 => {
                values.for_each(|value| bytes.extend_from_slice(&(value as u32).to_le_bytes()));
            }
            _ => values.for_each(|value| bytes.extend_from_slice(&value.to_le_bytes())),
        }
        self.end();
    }

    /// Adds a column of text or bytes; `valid` as in [`SmallBatchBuilder::fixed`].
    ///
    /// # Errors
    /// XX000 if a text is not UTF-8: a bug of the caller.
    pub fn varying<'a>(
        &mut self,
        id: ColumnId,
        ty: DataType,
        valid: u16,
        values: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Result<()> {
        if ty == DataType::Text
            && let Some(error) = values.clone().find_map(|value| std::str::from_utf8(value).err())
        {
            return Err(Error::bug(format!("column {id}: {error}")));
        }
        if !self.begin(id, ty, valid) {
            return Ok(());
        }
        let bytes = &mut self.0.bytes;
        values.clone().for_each(|value| bytes.extend_from_slice(&(value.len() as u32).to_le_bytes()));
        let before = bytes.len();
        values.for_each(|value| bytes.extend_from_slice(value));
        self.0.text_bytes += bytes.len() - before;
        self.end();
        Ok(())
    }

    /// Writes the column's header and null bitmap. Returns false, and writes nothing, if all rows
    /// are NULL.
    fn begin(&mut self, id: ColumnId, ty: DataType, valid: u16) -> bool {
        let rows = self.0.rows;
        let all = if rows >= 16 { u16::MAX } else { (1 << rows) - 1 };
        if valid & all == 0 {
            // A missing column reads as NULL.
            return false;
        }
        let bytes = &mut self.0.bytes;
        bytes.extend_from_slice(&id.0.to_le_bytes());
        bytes.push(ty as u8);
        bytes.push(if valid & all == all { NULLS_NONE } else { NULLS_SOME });
        if valid & all != all {
            bytes.extend_from_slice(&(valid & all).to_le_bytes()[..rows.div_ceil(8)]);
        }
        true
    }

    fn end(&mut self) {
        self.0.starts.push(self.0.bytes.len() as u32);
    }

    /// The finished batch.
    #[must_use]
    pub fn finish(self) -> SmallBatch {
        let packed = &self.0;
        let (end, bytes) = (packed.starts.last().copied(), packed.bytes.len());
        assert!(end == Some(bytes as u32), "BUG: columns of a small batch end at {end:?} of {bytes} bytes");
        debug_assert!((1..packed.len()).all(|at| packed.id(at - 1) < packed.id(at)), "BUG: columns are not in order");
        self.0
    }
}
