//! Column-only reads. A block qualifies if every row is selected and no row has another version
//! elsewhere: nothing is merged, and neither series numbers nor times are decoded.

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow_array::{ArrayRef, new_null_array};
use model::{Column, ColumnId, Result};

use crate::block_statistics::{self, BlockConsumer};
use crate::prune::WantedBlocks;
use crate::rows::arrow_type;
use crate::scan::{ScanRequest, TableView};
use crate::segment::Segment;

/// Blocks with fewer rows are merged into longer batches, which cost less per row.
const ROWS_MIN: usize = if cfg!(test) { 1 } else { 1_024 };

/// A block to read as columns only.
pub(crate) struct ColumnBlock {
    segment: Arc<Segment>,
    block: u32,
    pub(crate) rows: usize,
}

/// Moves the blocks that qualify, of at most `rows_max` rows, out of `wanted`. Returns them last
/// first.
pub(crate) fn take(
    view: &TableView,
    request: &ScanRequest,
    rows_max: usize,
    wanted: &mut Vec<WantedBlocks>,
) -> Result<Vec<ColumnBlock>> {
    let fits: RangeInclusive<usize> = ROWS_MIN..=rows_max;
    let mut blocks = Vec::new();
    let mut take = |block: &block_statistics::WholeBlock<'_>| {
        let rows = block.meta().rows as usize;
        if fits.contains(&rows) {
            let (segment, block) = block.location();
            blocks.push(ColumnBlock { segment: Arc::clone(segment), block, rows });
        }
        Ok(fits.contains(&rows))
    };
    block_statistics::offer(view, request, wanted, BlockConsumer { take: &mut take, newest: false })?;
    blocks.reverse();
    Ok(blocks)
}

impl ColumnBlock {
    /// Values of `fields`, in their order. `coded`: return dictionary-encoded text as a dictionary.
    pub(crate) fn read(&self, fields: &[Column], coded: bool, bytes_read: &mut u64) -> Result<Vec<ArrayRef>> {
        let mut ids: Vec<ColumnId> = fields.iter().map(|column| column.id).collect();
        ids.sort_unstable();
        ids.dedup();
        let read = self.segment.read_columns(self.block as usize, (&ids, coded), &None, bytes_read)?;
        let values = |column: &Column| match read.binary_search_by_key(&column.id, |(id, _)| *id) {
            Ok(at) => Arc::clone(&read[at].1),
            Err(_) => new_null_array(&arrow_type(column.ty), self.rows),
        };
        Ok(fields.iter().map(values).collect())
    }
}
