//! The first rows of a batch, row by row. Most commits of devices have no more, and columns of their own would take an
//! allocation for each value of a row.

use engine::{SMALL_BATCH_BYTES_MAX, SmallBatch, SmallBatchBuilder};
use model::{ColumnId, DataType, Result};

use crate::build::Column;

/// Bytes that a packed value takes beside itself, at most.
const BYTES_BESIDE: usize = 8;

/// As many rows as are worth packing. Values are kept as the lowest bits of a word, text and bytes as begin and length.
pub(crate) struct FewRows {
    fields: Vec<Field>,
    /// Of one row after the other, as many as there are fields.
    words: Vec<u64>,
    text: Vec<u8>,
}

struct Field {
    id: ColumnId,
    ty: DataType,
    /// A bit for each row that has a value.
    valid: u16,
}

impl FewRows {
    /// For rows of these fields, whose places are their positions here.
    pub(crate) fn new(fields: impl Iterator<Item = (ColumnId, DataType)>) -> FewRows {
        let fields = fields.map(|(id, ty)| Field { id, ty, valid: 0 }).collect();
        FewRows { fields, words: Vec::new(), text: Vec::new() }
    }

    /// Puts a value, the lowest bits of a word, floats by their bits.
    #[inline]
    pub(crate) fn put(&mut self, field: usize, row: usize, word: u64) {
        let at = row * self.fields.len();
        if self.words.len() <= at {
            self.words.resize(at + self.fields.len(), 0);
        }
        self.words[at + field] = word;
        self.fields[field].valid |= 1 << row;
    }

    /// Puts text (UTF-8) or bytes.
    pub(crate) fn put_bytes(&mut self, field: usize, row: usize, bytes: &[u8]) {
        let word = (self.text.len() as u64) << 32 | bytes.len() as u64;
        self.text.extend_from_slice(bytes);
        self.put(field, row, word);
    }

    /// Has the row a value there?
    pub(crate) fn has(&self, field: usize, row: usize) -> bool {
        self.fields[field].valid & 1 << row != 0
    }

    /// Bytes of the values so far.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.words.len() * 8 + self.text.len()
    }

    /// Are the values too large to be packed?
    pub(crate) fn is_large(&self) -> bool {
        self.packed_bytes() > SMALL_BATCH_BYTES_MAX
    }

    fn packed_bytes(&self) -> usize {
        self.words.len() * (8 + BYTES_BESIDE) + self.text.len()
    }

    /// The rows so far, of which there are `rows`; none are left here.
    ///
    /// # Errors
    /// XX000 if text is not UTF-8: the caller checks input before it puts it.
    pub(crate) fn pack(&mut self, rows: usize) -> Result<SmallBatch> {
        let mut packed = SmallBatchBuilder::new(rows, self.fields.len(), self.packed_bytes());
        let mut order: Vec<usize> = (0..self.fields.len()).collect();
        // Mostly they are in order, which costs one look.
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

    /// The rows so far as columns, by place; none are left here.
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
