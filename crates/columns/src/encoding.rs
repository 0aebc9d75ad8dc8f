//! One column of one block, to bytes and back: the smallest of a few plain encodings, chosen from the data.

use arrow_array::{Array, ArrayRef};
use model::{DataType, Result};

/// Encodes `values` (1 ..= 8192 of them, of the array type of `ty`) and appends the bytes to `out`. Lossless, NaN bit patterns and
/// the contents of valid slots included; what lies under a NULL is not kept.
pub fn encode(_ty: DataType, _values: &dyn Array, _out: &mut Vec<u8>) {
    unimplemented!()
}

/// Reads what [`encode`] wrote. `rows` is known from the block; bytes are checked, never trusted.
pub fn decode(_ty: DataType, _rows: usize, _bytes: &[u8]) -> Result<ArrayRef> {
    unimplemented!()
}
