//! Results: streams of record batches, and of encoded rows.

use std::pin::Pin;

use arrow_array::{Array, ArrayRef, RecordBatch};
use futures::Stream;
use model::Result;

/// Stream of record batches.
pub type Batches = Pin<Box<dyn Stream<Item = Result<RecordBatch>> + Send>>;

/// Approximate size of a chunk of encoded rows, in bytes.
pub const CHUNK_BYTES: usize = 64 << 10;

/// Encoded rows of a result: COPY data, or DataRow messages.
pub struct Chunk {
    /// Whole encoded rows.
    pub bytes: Vec<u8>,
    /// Number of rows in `bytes`.
    pub rows: u64,
}

/// A stream of encoded rows.
pub type Chunks = Pin<Box<dyn Stream<Item = Result<Chunk>> + Send>>;

/// Bytes of the values of a batch: only of its own rows if it shares buffers with other batches.
#[must_use]
pub fn batch_bytes(batch: &RecordBatch) -> usize {
    let bytes = |array: &ArrayRef| {
        let bytes = array.to_data().get_slice_memory_size();
        bytes.unwrap_or_else(|_| array.get_array_memory_size())
    };
    batch.columns().iter().map(bytes).sum()
}
