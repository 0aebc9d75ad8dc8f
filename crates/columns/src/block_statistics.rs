//! Answers from statistics without reading rows: blocks fully described by their statistics, and
//! how rows are distributed over time.

use std::cmp::Reverse;
use std::sync::Arc;

use arrow_array::Array;
use model::{ColumnId, ColumnRole, DataType, Result, TimeRange};

use crate::history::DELETED_AT;
use crate::prune::{self, WantedBlocks};
use crate::rows::Rows;
use crate::scan::{ScanRequest, ScanStats, SeriesFilter, TableView};
use crate::segment::{BlockMeta, ColumnStats, LONG_BYTES_MIN, LONGEST, Segment, SegmentMeta};
use crate::sorted_run::{spans, value_lengths};
use crate::state::Entry;

/// A block that can be answered from its statistics: the scan selects all of its rows, no other
/// source may hold a version of one of them, and none is deleted. ([`TableView::scan_newest`] also
/// passes blocks of which only the last row is selected.)
pub struct WholeBlock<'a> {
    segment: &'a Arc<Segment>,
    block: u32,
    meta: &'a BlockMeta,
}

impl WholeBlock<'_> {
    /// Number of rows, series and time range.
    #[must_use]
    pub fn meta(&self) -> &BlockMeta {
        self.meta
    }

    /// The segment, and the block's index in it.
    pub(crate) fn location(&self) -> (&Arc<Segment>, u32) {
        (self.segment, self.block)
    }

    /// Statistics of a field; `None` when it is NULL in every row. The first call for a column of a
    /// segment reads them.
    ///
    /// # Errors
    /// See [`Segment::blocks`].
    pub fn stats(&self, column: ColumnId) -> Result<Option<ColumnStats>> {
        let stats = self.segment.column_stats(column)?;
        let stats = stats.map(|stats| stats[self.block as usize].clone());
        Ok(stats.filter(|stats| stats.nulls < self.meta.rows))
    }
}

/// An estimate of the rows of one source within a time range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// From the first to the last timestamp.
    pub times: TimeRange,
    /// Estimated number of versions.
    pub rows: u64,
}

/// The newest segments are split by block; an older segment is one piece. A table may have
/// thousands of segments, and a newest-rows query must not read every block index.
const BLOCKWISE_SEGMENTS_MAX: usize = if cfg!(test) { 2 } else { 16 };

impl TableView {
    /// The distribution of the selected rows over time, estimated without reading rows. There is a
    /// piece for each run of rows in memory, for each block of the newest segments and for each
    /// older segment, cut to the request's time range.
    ///
    /// - `request`: with `ranges`, the pieces are blocks of all segments, pruned by their
    ///   statistics.
    ///
    /// # Errors
    /// Errors of reading block indexes.
    pub fn pieces(&self, request: &ScanRequest) -> Result<Vec<Piece>> {
        let request = &self.clamped_to_retention(request.clone());
        let mut pieces = Vec::new();
        let mut push = |times: &TimeRange, rows: u64| {
            let times = times.intersect(&request.times);
            if rows > 0 && !times.is_empty() {
                pieces.push(Piece { times, rows });
            }
        };
        let mut push_blocks = |metas: &[BlockMeta], blocks: Vec<u32>| {
            blocks.into_iter().for_each(|block| {
                let meta = &metas[block as usize];
                push(&meta.times, meta.rows.into());
            });
        };
        if request.ranges.is_empty() {
            let recent = prune::recent_deletes(self);
            let wanted = |segment| prune::filter_of(self, request, &recent, segment).map(|filter| (segment, filter));
            let segments = &self.state().segments;
            let near = segments.overlapping(&request.times);
            let mut newest: Vec<_> = near.into_iter().map(|at| &*segments[at]).filter_map(wanted).collect();
            newest.sort_by_key(|(segment, _)| Reverse(segment.meta().times.last));
            let older = newest.split_off(newest.len().min(BLOCKWISE_SEGMENTS_MAX));
            for (segment, filter) in newest {
                let metas = segment.blocks()?;
                push_blocks(&metas, prune::blocks_of(&metas, &filter));
            }
            for (segment, _) in older {
                push(&segment.meta().times, estimated_rows(segment.meta(), &request.series));
            }
        } else {
            for WantedBlocks { metas, blocks, .. } in prune::blocks(self, request, &mut ScanStats::default())? {
                push_blocks(&metas, blocks);
            }
        }
        for entry in self.entries() {
            let Entry::Rows { rows, .. } = entry else { continue };
            if rows.is_empty() || !rows.order().times.overlaps(&request.times) {
                continue;
            }
            spans(rows, &request.series, &request.times).into_iter().for_each(|span| {
                let (first, last) = (rows.key_at(span.start), rows.key_at(span.end - 1));
                // With several series, the last row is not the one with the latest timestamp.
                let alone = TimeRange { start: first.1, last: last.1 };
                push(if first.0 == last.0 { &alone } else { &rows.order().times }, span.len() as u64);
            });
        }
        Ok(pieces)
    }
}

impl TableView {
    /// Upper bound of the bytes of one text or bytes value that the request reads; 0 if all are shorter than 64 KiB.
    /// Segments of programs that did not store lengths count as such.
    ///
    /// # Errors
    /// Errors of reading block indexes and statistics.
    pub fn longest_value(&self, request: &ScanRequest) -> Result<usize> {
        let request = &self.clamped_to_retention(request.clone());
        let table = &self.state().table;
        let is_long = |id: &ColumnId| {
            let column = table.column_by_id(*id).filter(|column| column.role == ColumnRole::Field);
            column.is_some_and(|column| matches!(column.ty, DataType::Text | DataType::Bytes))
        };
        let columns: Vec<ColumnId> = request.columns.iter().copied().filter(is_long).collect();
        if columns.is_empty() {
            return Ok(0);
        }
        let mut longest = 0;
        for WantedBlocks { segment, blocks, .. } in prune::blocks(self, request, &mut ScanStats::default())? {
            if segment.features()?.is_disjoint(LONGEST) {
                continue;
            }
            for column in &columns {
                let Some(stats) = segment.column_stats(*column)? else { continue };
                let lengths = blocks.iter().map(|block| stats[*block as usize].longest as usize);
                longest = longest.max(lengths.max().unwrap_or(0));
            }
        }
        for entry in self.entries() {
            let Entry::Rows { rows, .. } = entry else { continue };
            if rows.memory_bytes() >= LONG_BYTES_MIN && rows.order().times.overlaps(&request.times) {
                longest = longest.max(longest_of(rows, &columns));
            }
        }
        Ok(if longest < LONG_BYTES_MIN { 0 } else { longest })
    }
}

/// Upper bound of the bytes of one value in these columns.
fn longest_of(rows: &Rows, columns: &[ColumnId]) -> usize {
    if let Some(small) = rows.as_small_batch() {
        return small.text_bytes();
    }
    let mut longest = 0;
    for (_, values) in rows.arrays().iter().filter(|(id, _)| columns.contains(id)) {
        value_lengths(values, |length| longest = (0..values.len()).map(length).max().unwrap_or(0).max(longest));
    }
    longest
}

/// Estimated rows of the selected series in a segment, assuming equally many per series; at least
/// 1.
fn estimated_rows(meta: &SegmentMeta, series: &SeriesFilter) -> u64 {
    let span = u64::from(meta.series.1 - meta.series.0) + 1;
    let wanted = u128::from(series.count_in(meta.series.0, meta.series.1));
    let rows = u128::from(meta.rows) * wanted / u128::from(span);
    u64::try_from(rows).unwrap_or(u64::MAX).max(1)
}

/// The caller's decision on blocks that can be answered from statistics.
pub(crate) struct BlockConsumer<'a> {
    pub(crate) take: &'a mut dyn FnMut(&WholeBlock<'_>) -> Result<bool>,
    /// The caller uses only the last row of a block.
    pub(crate) newest: bool,
}

/// Removes from `wanted` the blocks that `consumer` accepts. Only blocks described by
/// [`WholeBlock`] are passed to it.
pub(crate) fn offer(
    view: &TableView,
    request: &ScanRequest,
    wanted: &mut Vec<WantedBlocks>,
    consumer: BlockConsumer<'_>,
) -> Result<()> {
    let mut taken: Vec<Vec<u32>> = vec![Vec::new(); wanted.len()];
    let by_time = prune::by_time(wanted);
    for (at, WantedBlocks { segment, metas, blocks, filter }) in wanted.iter().enumerate() {
        let keyed = view.state().table.keyed;
        // The statistics include deleted rows of a table with history.
        let has_deleted_rows = segment.columns()?.iter().any(|(id, _)| *id == DELETED_AT);
        if has_deleted_rows || !view.is_of_now() || keyed && !segment.settled()? {
            continue;
        }
        for block in blocks {
            let meta = &metas[*block as usize];
            let series = (meta.first.0, meta.last.0);
            let times = &meta.times;
            let is_wanted =
                if consumer.newest { request.times.contains(times.last) } else { request.times.covers(times) };
            let whole = is_wanted
                && request.series.all_in(series.0, series.1)
                && !filter.deletes.may_hide(series, &meta.times)
                && (!keyed || prune::has_no_other_version(view, (wanted, &by_time), (at, *block), meta));
            if whole && (consumer.take)(&WholeBlock { segment, block: *block, meta })? {
                taken[at].push(*block);
            }
        }
    }
    for (WantedBlocks { blocks, .. }, taken) in wanted.iter_mut().zip(&taken) {
        blocks.retain(|block| taken.binary_search(block).is_err());
    }
    wanted.retain(|wanted| !wanted.blocks.is_empty());
    Ok(())
}

/// Rows in these blocks, all versions counted.
pub(crate) fn rows_of(metas: &[BlockMeta], blocks: &[u32]) -> u64 {
    blocks.iter().map(|block| u64::from(metas[*block as usize].rows)).sum()
}
