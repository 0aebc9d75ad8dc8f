//! Pruning: selects the blocks that a scan must read, and splits a scan for parallel execution.

use std::ops::Range;
use std::sync::Arc;

use model::{Result, TimeRange};

use crate::deletes::{DeleteCollector, DeleteFilter, Deletes};
use crate::filter::Filter;
use crate::history::Versions;
use crate::rows::Rows;
use crate::scan::{ColumnRange, ScanRequest, ScanStats, SeriesFilter, TableView};
use crate::segment::{BlockMeta, Blocks, Segment};
use crate::segments::ByTime;
use crate::state::Entry;

/// The blocks of a segment that a scan must read.
pub(crate) struct WantedBlocks {
    pub(crate) segment: Arc<Segment>,
    pub(crate) metas: Blocks,
    /// Block numbers, ascending.
    pub(crate) blocks: Vec<u32>,
    /// Selects rows within these blocks.
    pub(crate) filter: Filter,
}

/// The blocks to read of each segment, oldest first.
pub(crate) fn blocks(view: &TableView, request: &ScanRequest, stats: &mut ScanStats) -> Result<Vec<WantedBlocks>> {
    let mut wanted = Vec::new();
    let segments = &view.state().segments;
    let near = segments.overlapping(&request.times);
    stats.segments += segments.len() as u64;
    stats.segments_pruned += (segments.len() - near.len()) as u64;
    let recent = recent_deletes(view);
    for segment in near.into_iter().map(|at| &segments[at]) {
        let Some(filter) = filter_of(view, request, &recent, segment) else {
            stats.segments_pruned += 1;
            continue;
        };
        let metas = segment.blocks()?;
        let blocks = blocks_of(&metas, &filter);
        stats.blocks += metas.len() as u64;
        stats.blocks_pruned += (metas.len() - blocks.len()) as u64;
        if !blocks.is_empty() {
            wanted.push(WantedBlocks { segment: segment.clone(), metas, blocks, filter });
        }
    }
    if !request.ranges.is_empty() {
        skip_by_statistics(view, request, &mut wanted, stats)?;
    }
    wanted.retain(|wanted| !wanted.blocks.is_empty());
    Ok(wanted)
}

/// The row filter for a segment; `None` if its manifest entry proves that no row can match. Reads
/// no file.
pub(crate) fn filter_of(
    view: &TableView,
    request: &ScanRequest,
    recent: &DeleteFilter,
    segment: &Segment,
) -> Option<Filter> {
    let meta = segment.meta();
    // Cheap tests first: most segments of a large table are outside the time range.
    if !request.times.overlaps(&meta.times) || !request.series.any_in(meta.series.0, meta.series.1) {
        return None;
    }
    let times = request.times.intersect(&meta.times);
    let (deletes, versions) = (delete_filter(view, recent, segment, &times), Versions::At(view.time()));
    let filter = Filter { times: request.times, series: request.series.clone(), deletes, versions };
    (!filter.rejects_all(meta.series, &meta.times)).then_some(filter)
}

/// Blocks that may contain selected rows, ascending.
pub(crate) fn blocks_of(metas: &[BlockMeta], filter: &Filter) -> Vec<u32> {
    let passes = |block: &u32| {
        let meta = &metas[*block as usize];
        !filter.rejects_all((meta.first.0, meta.last.0), &meta.times)
    };
    match &filter.series {
        SeriesFilter::Only(list) if list.len() <= FEW_SERIES => blocks_of_series(metas, list).filter(passes).collect(),
        _ => (0..metas.len() as u32).filter(passes).collect(),
    }
}

/// Up to this many series, their blocks are found by binary search.
const FEW_SERIES: usize = 16;

/// Blocks that may hold one of these series, ascending. (Blocks and `series` are both sorted by
/// series.)
fn blocks_of_series<'a>(metas: &'a [BlockMeta], series: &'a [u32]) -> impl Iterator<Item = u32> + 'a {
    let mut next = 0;
    series.iter().flat_map(move |series| {
        let first = next.max(metas.partition_point(|meta| meta.last.0 < *series));
        next = first + metas[first..].partition_point(|meta| meta.first.0 <= *series);
        first as u32..next as u32
    })
}

/// Deletes of the memtable and of the transaction's own writes: newer than every segment.
pub(crate) fn recent_deletes(view: &TableView) -> DeleteFilter {
    let mut newer = DeleteCollector::new(view.time(), view.state().keeps_history());
    for entry in view.entries().rev() {
        if let Entry::Delete(deletes) = entry {
            newer.push(deletes);
        }
    }
    newer.filter().clone()
}

/// Deletes that are newer than a segment and may hide rows of it within these times.
pub(crate) fn delete_filter(
    view: &TableView,
    recent: &DeleteFilter,
    segment: &Segment,
    times: &TimeRange,
) -> DeleteFilter {
    let meta = segment.meta();
    let mut filter = recent.restricted_to(meta.series, times);
    let applies = |deletes: &&Arc<Deletes>| {
        deletes.lsns().1 > meta.lsns.1 && deletes.touches_until(meta.series, times, view.time())
    };
    filter.deletes.extend(view.state().tombstones.iter().filter(applies).cloned());
    filter
}

/// Removes blocks in which no row can satisfy all bounds.
///
/// A bound on a column removes a block only if *every* version of *every* row of the block, in all
/// sources, is outside the bound. Otherwise a newer version elsewhere may be inside the bound, and
/// need the other columns of its row from this block. Therefore every block with an overlapping key
/// range must be outside the same bound. Memtable entries have no statistics, so an overlapping
/// entry always prevents it.
fn skip_by_statistics(
    view: &TableView,
    request: &ScanRequest,
    wanted: &mut [WantedBlocks],
    stats: &mut ScanStats,
) -> Result<()> {
    let mut skipped: Vec<Vec<u32>> = vec![Vec::new(); wanted.len()];
    let by_time = by_time(wanted);
    for range in &request.ranges {
        let outside = wanted.iter().map(|wanted| outside(wanted, range)).collect::<Result<Vec<_>>>()?;
        for (at, WantedBlocks { metas, blocks, .. }) in wanted.iter().enumerate() {
            for block in blocks.iter().filter(|block| outside[at][**block as usize]) {
                let meta = &metas[*block as usize];
                let is_outside = |at: usize, block: u32| outside[at][block as usize];
                if !view.state().table.keyed
                    || all_others_outside(view, (wanted, &by_time), &is_outside, (at, *block), meta)
                {
                    skipped[at].push(*block);
                }
            }
        }
    }
    for (WantedBlocks { blocks, .. }, skipped) in wanted.iter_mut().zip(&mut skipped) {
        skipped.sort_unstable();
        let before = blocks.len();
        blocks.retain(|block| skipped.binary_search(block).is_err());
        stats.blocks_pruned += (before - blocks.len()) as u64;
    }
    Ok(())
}

/// For each block, whether no value of the column can be within the bound.
fn outside(wanted: &WantedBlocks, range: &ColumnRange) -> Result<Vec<bool>> {
    Ok(match wanted.segment.column_stats(range.column)? {
        Some(stats) => stats.iter().map(|stats| !stats.may_match(range)).collect(),
        // A missing column is all NULL, which is within no bound.
        None => vec![true; wanted.metas.len()],
    })
}

/// Index by time of the selected segments.
pub(crate) fn by_time(wanted: &[WantedBlocks]) -> ByTime {
    ByTime::of(wanted.iter().map(|wanted| wanted.segment.meta().times))
}

/// Whether no other source can hold a version of a row of this block.
pub(crate) fn has_no_other_version(
    view: &TableView,
    wanted: (&[WantedBlocks], &ByTime),
    own: (usize, u32),
    meta: &BlockMeta,
) -> bool {
    all_others_outside(view, wanted, &|_, _| false, own, meta)
}

/// Whether every other source that may hold a version of a row of this block has the column outside
/// the bound.
fn all_others_outside(
    view: &TableView,
    (wanted, by_time): (&[WantedBlocks], &ByTime),
    is_outside: &dyn Fn(usize, u32) -> bool,
    own: (usize, u32),
    meta: &BlockMeta,
) -> bool {
    for entry in view.entries() {
        if let Entry::Rows { rows, .. } = entry
            && rows_within(rows, meta)
        {
            return false;
        }
    }
    for at in by_time.near(&meta.times) {
        let WantedBlocks { metas, blocks, .. } = &wanted[at];
        // Blocks are sorted by key, so those that overlap the key range are consecutive.
        let first = blocks.partition_point(|block| metas[*block as usize].last < meta.first);
        for block in blocks[first..].iter().take_while(|block| metas[**block as usize].first <= meta.last) {
            let same = (at, *block) == own;
            if !same && metas[*block as usize].times.overlaps(&meta.times) && !is_outside(at, *block) {
                return false;
            }
        }
    }
    true
}

/// Whether a memtable entry may have a row within the block's key range and time range.
fn rows_within(rows: &Rows, meta: &BlockMeta) -> bool {
    if rows.is_empty() || !rows.order().times.overlaps(&meta.times) {
        return false;
    }
    let from = rows.position(0, meta.first);
    from < rows.len() && rows.key_at(from) <= meta.last
}

/// Splits a scan into parts with about equally many rows.
pub(crate) fn split(view: &TableView, request: &ScanRequest, parts: usize) -> Result<Vec<ScanRequest>> {
    let samples = samples(view, request)?;
    let cuts = cuts(samples.iter().map(|sample| (i64::from(sample.series), sample.rows)).collect(), parts);
    if !cuts.is_empty() && cuts.len() * 2 >= parts {
        return Ok(ranges(0, i64::from(u32::MAX), &cuts).map(|range| by_series(request, range)).collect());
    }
    let cuts = cuts_of_times(samples, parts);
    let all = request.times;
    let cuts: Vec<i64> = cuts.into_iter().filter(|cut| all.start < *cut && *cut <= all.last).collect();
    let mut split: Vec<ScanRequest> = Vec::new();
    let mut start = all.start;
    for cut in cuts {
        split.push(ScanRequest { times: TimeRange { start, last: cut - 1 }, ..request.clone() });
        start = cut;
    }
    split.push(ScanRequest { times: TimeRange { start, last: all.last }, ..request.clone() });
    Ok(split)
}

/// A row that represents `rows` rows.
struct Sample {
    series: u32,
    time: i64,
    rows: u64,
}

fn samples(view: &TableView, request: &ScanRequest) -> Result<Vec<Sample>> {
    let mut samples = Vec::new();
    for WantedBlocks { metas, blocks, .. } in blocks(view, request, &mut ScanStats::default())? {
        samples.extend(blocks.iter().map(|block| {
            let meta = &metas[*block as usize];
            Sample { series: meta.first.0, time: meta.times.start, rows: u64::from(meta.rows) }
        }));
    }
    for entry in view.entries() {
        let Entry::Rows { rows, .. } = entry else { continue };
        let step = rows.len().div_ceil(64).max(1);
        let wanted = |at: &usize| {
            let (series, time) = rows.key_at(*at);
            request.series.any_in(series, series) && request.times.contains(time)
        };
        samples.extend((0..rows.len()).step_by(step).filter(wanted).map(|at| {
            let (series, time) = rows.key_at(at);
            Sample { series, time, rows: step as u64 }
        }));
    }
    Ok(samples)
}

fn cuts_of_times(samples: Vec<Sample>, parts: usize) -> Vec<i64> {
    cuts(samples.iter().map(|sample| (sample.time, sample.rows)).collect(), parts)
}

/// Chooses at most `parts - 1` ascending cut values that balance the weights. The lowest value is
/// never a cut.
fn cuts(mut weighted: Vec<(i64, u64)>, parts: usize) -> Vec<i64> {
    weighted.sort_unstable();
    let total: u64 = weighted.iter().map(|(_, weight)| *weight).sum();
    let each = (total / parts.max(1) as u64).max(1);
    let mut cuts: Vec<i64> = Vec::new();
    let mut sum = 0;
    for (value, weight) in &weighted {
        let due = sum >= each * (cuts.len() as u64 + 1) && cuts.len() + 1 < parts;
        if due && *value > cuts.last().copied().unwrap_or(weighted[0].0) {
            cuts.push(*value);
        }
        sum += weight;
    }
    cuts
}

fn ranges(first: i64, end: i64, cuts: &[i64]) -> impl Iterator<Item = Range<u32>> {
    let starts = std::iter::once(first).chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain(std::iter::once(end));
    starts.zip(ends).map(|(start, end)| start as u32..end as u32)
}

fn by_series(request: &ScanRequest, range: Range<u32>) -> ScanRequest {
    ScanRequest { series: request.series.within(range), ..request.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_few_series_are_those_that_overlap_them() {
        let meta = |first: u32, last: u32| BlockMeta {
            rows: 1,
            first: (first, 0),
            last: (last, 0),
            times: TimeRange { start: 0, last: 0 },
        };
        let metas = [meta(0, 0), meta(0, 2), meta(2, 2), meta(2, 5), meta(8, 9), meta(9, 9)];
        for series in
            [vec![], vec![0], vec![1], vec![2], vec![0, 2], vec![1, 5], vec![6, 7], vec![0, 1, 2, 5, 9], vec![10]]
        {
            let reaches = |block: &u32| {
                let meta = &metas[*block as usize];
                series.iter().any(|series| (meta.first.0..=meta.last.0).contains(series))
            };
            let expected: Vec<u32> = (0..metas.len() as u32).filter(reaches).collect();
            assert_eq!(blocks_of_series(&metas, &series).filter(reaches).collect::<Vec<_>>(), expected, "{series:?}");
        }
    }

    #[test]
    fn cuts_balance_weights_and_never_cut_one_value() {
        assert_eq!(cuts((0..100).map(|value| (value, 1)).collect(), 4), [25, 50, 75]);
        assert_eq!(cuts(vec![(5, 100); 9], 4), [] as [i64; 0]);
        assert_eq!(cuts(vec![(1, 1), (2, 97), (3, 1), (4, 1)], 4), [3, 4]);
        assert_eq!(cuts(Vec::new(), 4), [] as [i64; 0]);
        assert_eq!(cuts(vec![(1, 1), (2, 1)], 1), [] as [i64; 0]);
    }
}
