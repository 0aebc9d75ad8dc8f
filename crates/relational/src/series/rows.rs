//! Rows of series: in storage order, sorted, or backwards from the newest.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_schema::DataType as Arrow;
use columns::rows::time_array;
use columns::{Piece, Scanned, WholeBlock};
use datafusion::arrow::compute::{SortColumn, concat_batches, lexsort_to_indices, partition, take_record_batch};
use datafusion::scalar::ScalarValue;
use engine::{ScanRequest, SeriesFilter, TableView};
use model::{ColumnId, ColumnRole, Error, Result, TimeRange};
use rustc_hash::{FxHashMap, FxHashSet};

use super::shape::{Body, Newest, Order, Rows, Shape, Sort};
use super::{Budget, Physical, groups, project, relabelled};
use crate::errors::OrError;
use crate::scan::columns_table::relabel;
use crate::scan::predicate::{Keep, Kept};

/// A scan of a table.
pub(super) struct Reading<'a> {
    pub(super) shape: &'a Shape,
    pub(super) view: &'a TableView,
    pub(super) request: ScanRequest,
    /// Predicate on rows that the scan request cannot express.
    pub(super) keep: Option<Keep>,
}

impl Reading<'_> {
    /// Scans `request`, a part of `self.request`, and applies the predicate.
    pub(super) fn scan(&self, request: ScanRequest) -> Result<Kept<'_>> {
        Kept::new(self.view, request, self.keep.as_ref())
    }

    /// Reads a part into memory; `None` if the budget is exceeded.
    fn read(&self, request: ScanRequest, budget: &mut Budget, much: Much) -> Result<Option<Vec<Part>>> {
        self.read_all(self.scan(request)?, budget, much)
    }

    fn read_all(&self, mut passing: Kept<'_>, budget: &mut Budget, much: Much) -> Result<Option<Vec<Part>>> {
        let enough = if let Much::Rows(rows) = much { rows } else { u64::MAX };
        // Blocks are read whole even for few rows. A full read knows its number of rows in advance and fails before
        // it reads anything.
        let all = enough == u64::MAX && !matches!(much, Much::Slice);
        if all && !budget.take(passing.scan().rows_max()) {
            return Ok(None);
        }
        let (mut kept, mut rows, mut seen) = (Vec::new(), 0, 0);
        while rows < enough
            && let Some(Scanned { series, times, batch }) = passing.next()?
        {
            let seen_before = std::mem::replace(&mut seen, passing.scan().stats().rows);
            if !all && !budget.take(seen - seen_before) {
                return Ok(None);
            }
            if batch.num_rows() == 0 {
                continue;
            }
            let batch = relabelled(&batch, &self.shape.scanned)?;
            if !budget.keep(&batch) {
                return Ok(None);
            }
            rows += batch.num_rows() as u64;
            let of_each = matches!(self.shape.body, Body::Newest(_));
            let (series, times) = if of_each { (series, times) } else { (Vec::new(), Vec::new()) };
            kept.push(Part { series, times, batch });
        }
        budget.stats += passing.scan().stats();
        Ok(Some(kept))
    }
}

/// Amount of a scan that is read.
enum Much {
    All,
    /// Until there are this many rows.
    Rows(u64),
    /// All rows of a short time range, which selects few rows of each block.
    Slice,
}

/// Rows that passed the predicate, with their series and times.
struct Part {
    /// `series` and `times` are filled only for newest-row queries.
    series: Vec<u32>,
    times: Vec<i64>,
    batch: RecordBatch,
}

/// OFFSET and LIMIT.
#[derive(Clone, Copy)]
pub(super) struct Window {
    pub(super) skip: u64,
    pub(super) fetch: u64,
}

impl Window {
    fn end(self) -> u64 {
        self.skip.saturating_add(self.fetch)
    }
}

/// Runs a query of rows; `None` if the budget is exceeded.
pub(super) fn rows(
    reading: &Reading<'_>,
    rows: &Rows,
    window: Window,
    budget: &mut Budget,
) -> Result<Option<Vec<RecordBatch>>> {
    if window.fetch == 0 {
        return Ok(Some(Vec::new()));
    }
    let in_order = match &reading.request.series {
        SeriesFilter::Only(list) => list.len() <= 1,
        _ => !reading.shape.table.keyed || reading.view.series_count() <= 1,
    };
    match rows.order {
        Order::Any => in_stored_order(reading, rows, window, budget),
        Order::Ascending if in_order => in_stored_order(reading, rows, window, budget),
        Order::Descending if window.end() < u64::MAX => newest_first(reading, rows, window, budget),
        _ => {
            let kept = reading.read(reading.request.clone(), budget, Much::All)?;
            kept.map(|kept| sorted(reading, kept, &rows.sort, &rows.outputs, window)).transpose()
        }
    }
}

fn in_stored_order(
    reading: &Reading<'_>,
    rows: &Rows,
    window: Window,
    budget: &mut Budget,
) -> Result<Option<Vec<RecordBatch>>> {
    let mut request = reading.request.clone();
    if reading.keep.is_none() && window.end() < u64::MAX {
        request.limit = Some(window.end());
    }
    let Some(kept) = reading.read(request, budget, Much::Rows(window.end()))? else { return Ok(None) };
    let (mut at, mut batches) = (0, Vec::with_capacity(kept.len()));
    for Part { batch, .. } in kept {
        let rows_here = batch.num_rows() as u64;
        let from = window.skip.saturating_sub(at).min(rows_here);
        let to = window.end().saturating_sub(at).min(rows_here);
        at += rows_here;
        if from < to {
            let part = batch.slice(from as usize, (to - from) as usize);
            batches.push(project(&rows.outputs, &part, &reading.shape.result)?);
        }
    }
    Ok(Some(batches))
}

/// Reads backwards from the newest rows, in time ranges that double in length, until there are enough.
fn newest_first(
    reading: &Reading<'_>,
    rows: &Rows,
    window: Window,
    budget: &mut Budget,
) -> Result<Option<Vec<RecordBatch>>> {
    let pieces = reading.view.pieces(&reading.request)?;
    let (mut found, mut kept) = (0, Vec::new());
    let Some(mut backwards) = Backwards::new(pieces, window.end()) else { return Ok(Some(Vec::new())) };
    while found < window.end()
        && let Some(times) = backwards.next()
    {
        let request = ScanRequest { times, ..reading.request.clone() };
        let Some(part) = reading.read(request, budget, Much::Slice)? else { return Ok(None) };
        found += part.iter().map(|kept| kept.batch.num_rows() as u64).sum::<u64>();
        kept.extend(part);
    }
    sorted(reading, kept, &rows.sort, &rows.outputs, window).map(Some)
}

/// Newest row of each series; where several series share the values of the DISTINCT ON columns, the newest of those
/// rows.
pub(super) fn newest(
    reading: &Reading<'_>,
    newest: &Newest,
    window: Window,
    budget: &mut Budget,
) -> Result<Option<Vec<RecordBatch>>> {
    let mut request = reading.request.clone();
    let mut have: FxHashSet<u32> = FxHashSet::default();
    let mut kept = Vec::new();
    let mut wanted: Vec<u32> = match &request.series {
        SeriesFilter::Only(list) => list.to_vec(),
        SeriesFilter::Range(range) => range.clone().collect(),
        SeriesFilter::All => (0..reading.view.series_count()).collect(),
    };
    let mut told = Told::new(reading);
    // Rows expected per series in the next time range; series whose row is already found are not read again.
    let mut per_series = 2;
    while !wanted.is_empty() {
        let rows = per_series * wanted.len() as u64;
        let Some(mut backwards) = Backwards::new(reading.view.pieces(&request)?, rows) else { break };
        let Some(times) = backwards.next() else { break };
        let slice = ScanRequest { times, ..request.clone() };
        let scan = match &mut told {
            Some(told) => Kept::all(reading.view.scan_newest(slice, &mut |block| told.take(block))?),
            None => reading.scan(slice)?,
        };
        let Some(part) = reading.read_all(scan, budget, Much::Slice)? else { return Ok(None) };
        for Part { series, times, batch } in part.into_iter().rev() {
            // Rows of a series are ordered by time: the last is the newest unless block statistics had a newer one.
            let mut last: Vec<u32> = Vec::new();
            for row in (0..series.len()).rev() {
                if have.insert(series[row]) && told.as_mut().is_none_or(|told| told.is_older(series[row], times[row])) {
                    last.push(row as u32);
                }
            }
            let batch = take_record_batch(&batch, &UInt32Array::from(last)).map_err(Error::bug)?;
            kept.push(Part { series: Vec::new(), times: Vec::new(), batch });
        }
        if let Some(told) = &mut told {
            have.extend(told.rows.keys());
            kept.extend(told.rows()?);
        }
        wanted.retain(|series| !have.contains(series));
        request.series = SeriesFilter::Only(wanted.as_slice().into());
        request.times.last = times.start.saturating_sub(1);
        if times.start == i64::MIN {
            break;
        }
        per_series *= 4;
    }
    if newest.on == newest.sort.len() {
        return sorted(reading, kept, &newest.sort, &newest.outputs, window).map(Some);
    }
    let Some(batch) = ordered(reading, kept, &newest.sort, u64::MAX)? else { return Ok(Some(Vec::new())) };
    let alike =
        newest.sort[..newest.on].iter().map(|by| by.by.evaluate(&batch).and_then(|of| of.into_array(batch.num_rows())));
    let alike = partition(&alike.collect::<std::result::Result<Vec<_>, _>>().or_error()?).map_err(Error::bug)?;
    let first = alike.ranges().into_iter().map(|range| range.start as u32);
    let batch = take_record_batch(&batch, &UInt32Array::from_iter_values(first)).map_err(Error::bug)?;
    let from = usize::try_from(window.skip).unwrap_or(usize::MAX).min(batch.num_rows());
    let rows = usize::try_from(window.fetch).unwrap_or(usize::MAX).min(batch.num_rows() - from);
    Ok(Some(vec![project(&newest.outputs, &batch.slice(from, rows), &reading.shape.result)?]))
}

/// Newest rows of series, answered from block statistics.
struct Told<'a> {
    reading: &'a Reading<'a>,
    /// Fields among the columns read, with their types.
    fields: Vec<(ColumnId, Arrow)>,
    /// By series: time and field values of its newest row.
    rows: FxHashMap<u32, (i64, Vec<ScalarValue>)>,
}

impl<'a> Told<'a> {
    /// Returns `None` if statistics cannot supply the columns.
    fn new(reading: &'a Reading<'a>) -> Option<Told<'a>> {
        if reading.keep.is_some() {
            return None;
        }
        let mut fields = Vec::new();
        for (id, field) in reading.shape.columns.iter().zip(reading.shape.scanned.fields()) {
            let column = reading.shape.table.column_by_id(*id)?;
            if column.role == ColumnRole::Field {
                groups::is_fixed(column.ty).then_some(())?;
                fields.push((*id, field.data_type().clone()));
            }
        }
        Some(Told { reading, fields, rows: FxHashMap::default() })
    }

    /// Takes the last row of a block; false if statistics do not have it.
    fn take(&mut self, block: &WholeBlock<'_>) -> Result<bool> {
        let meta = block.meta();
        let (series, time) = (meta.last.0, meta.times.last);
        if meta.first.0 != series {
            return Ok(false);
        }
        if self.rows.get(&series).is_some_and(|(known, _)| *known > time) {
            return Ok(true);
        }
        let mut values = Vec::with_capacity(self.fields.len());
        for (id, ty) in &self.fields {
            let value = match block.stats(*id)? {
                None => ScalarValue::try_from(ty).ok(),
                Some(stats) if stats.has_nan => None,
                Some(stats) => stats.last.and_then(|last| groups::scalar(&last, std::slice::from_ref(ty))),
            };
            let Some(value) = value else { return Ok(false) };
            values.push(value);
        }
        self.rows.insert(series, (time, values));
        Ok(true)
    }

    /// Whether the row from statistics is older than this one, or missing; an older one is removed.
    fn is_older(&mut self, series: u32, time: i64) -> bool {
        let is_older = self.rows.get(&series).is_none_or(|(told, _)| *told < time);
        if is_older {
            self.rows.remove(&series);
        }
        is_older
    }

    /// Removes and returns the rows taken so far.
    fn rows(&mut self) -> Result<Option<Part>> {
        if self.rows.is_empty() {
            return Ok(None);
        }
        let (series, rows): (Vec<u32>, Vec<(i64, Vec<ScalarValue>)>) =
            std::mem::take(&mut self.rows).into_iter().unzip();
        let shape = self.reading.shape;
        let keys = self.reading.view.key_columns_of(series.iter().copied())?;
        let mut fields: Vec<Vec<ScalarValue>> = vec![Vec::with_capacity(rows.len()); self.fields.len()];
        let times = rows.iter().map(|(time, _)| *time).collect();
        let times = time_array(shape.table.time_column().ty, times);
        for (_, values) in rows {
            fields.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
        }
        let mut fields = fields.into_iter();
        let arrays = shape.columns.iter().zip(shape.scanned.fields()).map(|(id, field)| {
            let column = shape.table.column_by_id(*id).ok_or_else(|| Error::bug("a column that is not there"))?;
            Ok(match column.role {
                ColumnRole::Time => relabel(Arc::clone(&times), field.data_type()),
                ColumnRole::Key => {
                    let at = shape.table.key_columns().position(|key| key.id == *id);
                    relabel(Arc::clone(&keys[at.ok_or_else(|| Error::bug("a key that is none"))?]), field.data_type())
                }
                ColumnRole::Field => {
                    let values = fields.next().ok_or_else(|| Error::bug("a field that was not told"))?;
                    ScalarValue::iter_to_array(values).or_error()?
                }
            })
        });
        let batch = batch_of(&shape.scanned, arrays.collect::<Result<_>>()?, series.len())?;
        Ok(Some(Part { series: Vec::new(), times: Vec::new(), batch }))
    }
}

/// Time ranges from newest to oldest. The first is long enough to hold the wanted rows if the rows of each piece are evenly spaced, and each
/// further one has about twice the rows of the one before. (Ranges of twice the length would be long where stamps are far from all others.)
pub(super) struct Backwards {
    /// By their end, newest first.
    pieces: Vec<Piece>,
    /// Start of the oldest piece.
    first: i64,
    /// End of the newest piece.
    newest: i64,
    /// End of the next range.
    last: Option<i64>,
    /// Rows that the first range is to have.
    rows: f64,
    /// Rows that the ranges up to the next are to have together.
    wanted: f64,
    /// Minimum length of the next range.
    length: i64,
}

impl Backwards {
    /// Returns `None` if there are no rows. `rows`: number of rows wanted.
    pub(super) fn new(mut pieces: Vec<Piece>, rows: u64) -> Option<Backwards> {
        pieces.sort_unstable_by_key(|piece| std::cmp::Reverse(piece.times.last));
        let first = pieces.iter().map(|piece| piece.times.start).min()?;
        let newest = pieces.first()?.times.last;
        let rows = rows.max(1) as f64;
        Some(Backwards { pieces, first, newest, last: Some(newest), rows, wanted: rows, length: 1 })
    }

    /// Sets a minimum length of the first range.
    pub(super) fn of_length(mut self, length: i64) -> Backwards {
        self.length = self.length.max(length);
        self
    }

    pub(super) fn next(&mut self) -> Option<TimeRange> {
        let last = self.last?;
        // Skips times without rows.
        let last = last.min(self.pieces.iter().find(|piece| piece.times.start <= last)?.times.last);
        let start = self.start_of_wanted(last).min(last.saturating_sub(self.length)).max(self.first);
        self.last = start.checked_sub(1).filter(|_| start > self.first);
        self.wanted = self.wanted * 2.0 + self.rows;
        self.length = 1;
        Some(TimeRange { start, last })
    }

    /// Latest start, up to `last`, from which on the pieces have the wanted rows.
    fn start_of_wanted(&self, last: i64) -> i64 {
        let (mut enough, mut too_few) = (self.first, last);
        for _ in 0..BISECTIONS {
            let middle = enough.midpoint(too_few);
            if middle == enough {
                break;
            }
            if self.has_wanted_from(middle) { enough = middle } else { too_few = middle }
        }
        enough
    }

    fn has_wanted_from(&self, start: i64) -> bool {
        let mut sum = 0.0;
        self.pieces.iter().take_while(|piece| piece.times.last >= start).any(|Piece { times, rows }| {
            let length = |from: i64| times.last.saturating_sub(from) as f64 + 1.0;
            sum += *rows as f64 * length(start.max(times.start)) / length(times.start);
            sum >= self.wanted
        })
    }

    /// Newest time of any row.
    pub(super) fn newest(&self) -> i64 {
        self.newest
    }
}

/// Steps of a bisection. The start of a range is exact to the span of all rows, divided by 2 to this power: 0.4 s of fifty years.
const BISECTIONS: usize = 32;

/// Sorts rows and applies the window.
fn sorted(
    reading: &Reading<'_>,
    kept: Vec<Part>,
    sort: &[Sort],
    outputs: &[Physical],
    window: Window,
) -> Result<Vec<RecordBatch>> {
    let Some(rows) = ordered(reading, kept, sort, window.end())? else { return Ok(Vec::new()) };
    let from = usize::try_from(window.skip).unwrap_or(usize::MAX).min(rows.num_rows());
    let rows = rows.slice(from, rows.num_rows() - from);
    Ok(vec![project(outputs, &rows, &reading.shape.result)?])
}

/// First `most` rows in sort order; `None` if there are no rows.
fn ordered(reading: &Reading<'_>, kept: Vec<Part>, sort: &[Sort], most: u64) -> Result<Option<RecordBatch>> {
    let batches: Vec<RecordBatch> =
        kept.into_iter().map(|kept| kept.batch).filter(|batch| batch.num_rows() > 0).collect();
    if batches.is_empty() {
        return Ok(None);
    }
    let all = concat_batches(&reading.shape.scanned, &batches).map_err(Error::bug)?;
    let indices = order(&all, sort, Some(most))?;
    take_record_batch(&all, &indices).map(Some).map_err(Error::bug)
}

/// Indices of the first `most` rows in sort order.
pub(super) fn order(batch: &RecordBatch, sort: &[Sort], most: Option<u64>) -> Result<UInt32Array> {
    let rows = batch.num_rows();
    let most = most.map_or(rows, |most| usize::try_from(most).unwrap_or(usize::MAX).min(rows));
    let columns = sort.iter().map(|by| {
        let values = by.by.evaluate(batch).and_then(|values| values.into_array(rows)).or_error()?;
        // Zeros of both signs compare equal, so that the next sort key decides.
        Ok(SortColumn { values: crate::evaluation::keys::canonical_floats(&values), options: Some(by.options) })
    });
    let columns = columns.collect::<Result<Vec<SortColumn>>>()?;
    if columns.is_empty() {
        return Ok(UInt32Array::from_iter_values(0..most as u32));
    }
    lexsort_to_indices(&columns, Some(most)).map_err(Error::bug)
}

/// Creates a batch that keeps its row count even without columns.
pub(super) fn batch_of(
    schema: &arrow_schema::SchemaRef,
    arrays: Vec<arrow_array::ArrayRef>,
    rows: usize,
) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options).map_err(Error::bug)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_old_or_new_row_does_not_lengthen_the_ranges() {
        let piece = |start, last, rows| Piece { times: TimeRange { start, last }, rows };
        let even = || vec![piece(1_000_000, 1_000_999, 1_000), piece(1_001_000, 1_001_999, 1_000)];
        let (old, new) = (piece(-1_000_000_000, -1_000_000_000, 1), piece(2_000_000_000, 2_000_000_000, 1));
        // The starts of the first two ranges.
        for (more, rows, first, second) in [
            (None, 100, 1_001_900, 1_001_700),
            (None, 1_500, 1_000_500, 1_000_000),
            (None, 5_000, 1_000_000, 0),
            (Some(old), 100, 1_001_900, 1_001_700),
            (Some(piece(-1_000_000_000, 1_001_999, 1_000)), 100, 1_001_900, 1_001_700),
            (Some(old), 5_000, -1_000_000_000, 0),
            (Some(new), 101, 1_001_900, 1_001_698),
        ] {
            let mut pieces = even();
            pieces.extend(more);
            let newest = pieces.iter().map(|piece| piece.times.last).max().unwrap();
            let mut backwards = Backwards::new(pieces, rows).unwrap();
            assert_eq!(backwards.newest(), newest);
            let mut end = newest;
            for start in [first, second] {
                let Some(range) = backwards.next() else {
                    assert_eq!(start, 0, "{rows} rows with {more:?} end at {end}");
                    break;
                };
                assert!(
                    range.last <= end && (start - 2..=start + 2).contains(&range.start),
                    "{rows}, {more:?}: {range:?}"
                );
                end = range.start - 1;
            }
        }
        assert!(Backwards::new(Vec::new(), 1).is_none());
    }

    #[test]
    fn ranges_cover_all_rows_once() {
        let at = |time| Piece { times: TimeRange { start: time, last: time }, rows: 1_000_000 };
        for times in [vec![5], vec![i64::MIN, i64::MAX], vec![i64::MIN, 0, 1, 2, i64::MAX], vec![7, 7, 8]] {
            let mut backwards = Backwards::new(times.iter().copied().map(at).collect(), 10).unwrap();
            let mut ranges: Vec<TimeRange> = Vec::new();
            while let Some(range) = backwards.next() {
                ranges.push(range);
            }
            for time in &times {
                let found = ranges.iter().filter(|range| range.contains(*time)).count();
                assert_eq!(found, 1, "{time} of {times:?} in {ranges:?}");
            }
            assert!(ranges.len() < 100, "{} ranges for {times:?}", ranges.len());
        }
    }
}
