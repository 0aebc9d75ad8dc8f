//! Row-wise builder for small batches. Most commits from devices have a few rows; column builders
//! would cost one allocation per value then.

use engine::{SMALL_BATCH_BYTES_MAX, SmallBatch, SmallBatchBuilder};
use model::{ColumnId, DataType, Result};

use crate::batch_builder::Column;

/// Upper bound of a packed value's overhead.
const VALUE_OVERHEAD_BYTES: usize = 8;

/// Up to [`engine::SMALL_BATCH_ROWS_MAX`] rows. A value is the low bits of a word; text and bytes are
/// offset and length.
pub(crate) struct RowBuffer {
    fields: Vec<Field>,
    /// Row-major: one word per field for each row.
    words: Vec<u64>,
    text: Vec<u8>,
}

struct Field {
    id: ColumnId,
    ty: DataType,
    /// Bit mask of the rows with a value.
    valid: u16,
}

impl RowBuffer {
    /// A builder for these fields; a field's position here is its number in the other methods.
    pub(crate) fn new(fields: impl Iterator<Item = (ColumnId, DataType)>) -> RowBuffer {
        let fields = fields.map(|(id, ty)| Field { id, ty, valid: 0 }).collect();
        RowBuffer { fields, words: Vec::new(), text: Vec::new() }
    }

    /// Writes a value: the low bits of `word`; floats as their IEEE bits.
    #[inline]
    pub(crate) fn put(&mut self, field: usize, row: usize, word: u64) {
        let at = row * self.fields.len();
        if self.words.len() <= at {
            self.words.resize(at + self.fields.len(), 0);
        }
        self.words[at + field] = word;
        self.fields[field].valid |= 1 << row;
    }

    /// Writes text (UTF-8) or bytes.
    pub(crate) fn put_bytes(&mut self, field: usize, row: usize, bytes: &[u8]) {
        let word = (self.text.len() as u64) << 32 | bytes.len() as u64;
        self.text.extend_from_slice(bytes);
        self.put(field, row, word);
    }

    /// Whether the row has a value in this field.
    pub(crate) fn has(&self, field: usize, row: usize) -> bool {
        self.fields[field].valid & 1 << row != 0
    }

    /// Bytes of the values so far.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.words.len() * 8 + self.text.len()
    }

    /// Whether the values exceed the limit for a packed batch.
    pub(crate) fn is_large(&self) -> bool {
        self.packed_bytes() > SMALL_BATCH_BYTES_MAX
    }

    fn packed_bytes(&self) -> usize {
        self.words.len() * (8 + VALUE_OVERHEAD_BYTES) + self.text.len()
    }

    /// Returns the `rows` rows as a packed batch and clears the builder.
    ///
    /// # Errors
    /// XX000 (a bug) if text is not UTF-8: callers validate their input.
    pub(crate) fn pack(&mut self, rows: usize) -> Result<SmallBatch> {
        let mut packed = SmallBatchBuilder::new(rows, self.fields.len(), self.packed_bytes());
        let mut order: Vec<usize> = (0..self.fields.len()).collect();
        // Usually sorted already, which costs one pass.
        order.sort_by_key(|field| self.fields[*field].id);
        for field in order {
            let Field { id, ty, valid } = self.fields[field];
            let words = (0..rows).filter(|row| valid & 1 << row != 0).map(|row| self.word(field, row));
            match ty {
                DataType::Text | DataType::Bytes => {
                    packed.varying(id, ty, valid, words.map(|word| self.bytes(word)))?;
                }
                _ => packed.fixed(id, ty, valid, words),
            }
        }
        self.clear();
        Ok(packed.finish())
    }

    /// Returns the rows as columns, in field order, and clears the builder.
    pub(crate) fn spill(&mut self, rows: usize) -> Vec<(ColumnId, Column)> {
        let mut columns: Vec<(ColumnId, Column)> =
            self.fields.iter().map(|field| (field.id, Column::new(field.ty))).collect();
        for (place, (_, column)) in columns.iter_mut().enumerate() {
            let field = &self.fields[place];
            for row in (0..rows).filter(|row| field.valid & 1 << row != 0) {
                let word = self.word(place, row);
                let done = match field.ty {
                    DataType::Bool => column.put_bool(row, word != 0),
                    DataType::Int16 => column.put_i16(row, word as i16),
                    DataType::Int32 => column.put_i32(row, word as i32),
                    DataType::Int64 => column.put_i64(row, word.cast_signed()),
                    DataType::UInt64 => column.put_u64(row, word),
                    DataType::Float32 => column.put_f32(row, f32::from_bits(word as u32)),
                    DataType::Float64 => column.put_f64(row, f64::from_bits(word)),
                    DataType::Timestamp => column.put_timestamp(row, word.cast_signed()),
                    DataType::Text | DataType::Bytes => column.put_bytes(row, self.bytes(word)),
                };
                debug_assert!(done, "BUG: a column is of another type than its field");
            }
        }
        self.clear();
        columns
    }

    #[inline]
    fn word(&self, field: usize, row: usize) -> u64 {
        self.words[row * self.fields.len() + field]
    }

    fn bytes(&self, word: u64) -> &[u8] {
        let (begin, length) = ((word >> 32) as usize, word as u32 as usize);
        &self.text[begin..begin + length]
    }

    fn clear(&mut self) {
        self.words.clear();
        self.text.clear();
        self.fields.iter_mut().for_each(|field| field.valid = 0);
    }
}
