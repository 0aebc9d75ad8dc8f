//! Rows of series: in the order in which they are stored, sorted, or from the newest backwards.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions, UInt32Array};
use columns::{Piece, Scanned};
use datafusion::arrow::compute::{SortColumn, concat_batches, lexsort_to_indices, partition, take_record_batch};
use engine::{ScanRequest, SeriesFilter, TableView};
use model::{Error, Result, TimeRange};
use rustc_hash::FxHashSet;

use super::shape::{Body, Newest, Order, Rows, Shape, Sort};
use super::{Budget, Physical, project, relabelled};
use crate::errors::OrError;
use crate::keep::{Keep, Kept};

/// What is read of a table.
pub(super) struct Reading<'a> {
    pub(super) shape: &'a Shape,
    pub(super) view: &'a TableView,
    pub(super) request: ScanRequest,
    /// Rows must pass it.
    pub(super) keep: Option<Keep>,
}

impl Reading<'_> {
    /// The rows of a part of what is wanted, those that pass.
    pub(super) fn scan(&self, request: ScanRequest) -> Result<Kept<'_>> {
        Kept::new(self.view, request, self.keep.as_ref())
    }

    /// The same, read; `None` when that costs more than the budget has.
    fn read(&self, request: ScanRequest, budget: &mut Budget, enough: u64) -> Result<Option<Vec<Part>>> {
        let mut passing = self.scan(request)?;
        // Whole blocks are read for any of their rows. Where all is read it is known before, and nothing is read in vain.
        let all = enough == u64::MAX;
        if all && !budget.take(passing.scan().rows_max()?) {
            return Ok(None);
        }
        let (mut kept, mut rows, mut seen) = (Vec::new(), 0, 0);
        while rows < enough
            && let Some(Scanned { series, batch, .. }) = passing.next()?
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
            // Only who looks for the newest row of each needs it.
            let series = if matches!(self.shape.body, Body::Newest(_)) { series } else { Vec::new() };
            kept.push(Part { series, batch });
        }
        budget.stats += passing.scan().stats();
        Ok(Some(kept))
    }
}

/// Rows that passed, with their series.
struct Part {
    series: Vec<u32>,
    batch: RecordBatch,
}

/// How many rows of the result are left out, and come.
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

/// The rows of a query; `None` when that costs more than the budget has.
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
            let kept = reading.read(reading.request.clone(), budget, u64::MAX)?;
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
    let Some(kept) = reading.read(request, budget, window.end())? else { return Ok(None) };
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

/// From the newest moments backwards, in steps that double, until there are rows enough.
fn newest_first(
    reading: &Reading<'_>,
    rows: &Rows,
    window: Window,
    budget: &mut Budget,
) -> Result<Option<Vec<RecordBatch>>> {
    let mut backwards = Backwards::new(reading.view.pieces(&reading.request)?, window.end());
    let (mut found, mut kept) = (0, Vec::new());
    while found < window.end()
        && let Some(times) = backwards.next(&reading.request.times)
    {
        let Some(part) = reading.read(ScanRequest { times, ..reading.request.clone() }, budget, u64::MAX)? else {
            return Ok(None);
        };
        found += part.iter().map(|kept| kept.batch.num_rows() as u64).sum::<u64>();
        kept.extend(part);
    }
    sorted(reading, kept, &rows.sort, &rows.outputs, window).map(Some)
}

/// The newest row of each series that has one, and of these the newest of those that are alike in what is asked for.
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
    let mut step = 1;
    while !wanted.is_empty() {
        // Of those that have no row yet, as the others need not be read again.
        let mut backwards = Backwards::new(reading.view.pieces(&request)?, step);
        let Some(times) = backwards.next(&request.times) else { break };
        let Some(part) = reading.read(ScanRequest { times, ..request.clone() }, budget, u64::MAX)? else {
            return Ok(None);
        };
        for Part { series, batch } in part.into_iter().rev() {
            // Rows of a series are in order of time, so that its last is the newest.
            let mut last: Vec<u32> = Vec::new();
            for row in (0..series.len()).rev() {
                if have.insert(series[row]) {
                    last.push(row as u32);
                }
            }
            let batch = take_record_batch(&batch, &UInt32Array::from(last)).map_err(Error::bug)?;
            kept.push(Part { series: Vec::new(), batch });
        }
        wanted.retain(|series| !have.contains(series));
        request.series = SeriesFilter::Only(wanted.as_slice().into());
        request.times.last = times.start.saturating_sub(1);
        if times.start == i64::MIN {
            break;
        }
        step = step.saturating_mul(4);
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

/// Parts of time, newest first, each of which should have twice the rows of the one before.
struct Backwards {
    /// Newest last.
    pieces: Vec<Piece>,
    rows: u64,
    /// The next part ends here.
    last: Option<i64>,
}

impl Backwards {
    fn new(mut pieces: Vec<Piece>, rows: u64) -> Backwards {
        pieces.sort_unstable_by_key(|piece| piece.times.last);
        Backwards { pieces, rows, last: Some(i64::MAX) }
    }

    fn next(&mut self, within: &TimeRange) -> Option<TimeRange> {
        let last = self.last?.min(within.last);
        let (mut start, mut rows) = (i64::MAX, 0);
        while rows < self.rows
            && let Some(piece) = self.pieces.pop()
        {
            start = start.min(piece.times.start);
            // What lies after the part was seen already.
            rows += if piece.times.start <= last { piece.rows } else { 0 };
        }
        if start == i64::MAX {
            return None;
        }
        if self.pieces.is_empty() {
            start = start.min(within.start);
        }
        let start = start.max(within.start);
        self.last = start.checked_sub(1).filter(|_| start > within.start);
        self.rows = self.rows.saturating_mul(2);
        Some(TimeRange { start, last })
    }
}

/// Rows in the order of `sort`, those of the window.
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

/// The first `most` rows in the order of `sort`; `None` if there are none at all.
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

/// The numbers of the first `most` rows in order.
pub(super) fn order(batch: &RecordBatch, sort: &[Sort], most: Option<u64>) -> Result<UInt32Array> {
    let rows = batch.num_rows();
    let most = most.map_or(rows, |most| usize::try_from(most).unwrap_or(usize::MAX).min(rows));
    let columns = sort.iter().map(|by| {
        let values = by.by.evaluate(batch).and_then(|values| values.into_array(rows)).or_error()?;
        Ok(SortColumn { values, options: Some(by.options) })
    });
    let columns = columns.collect::<Result<Vec<SortColumn>>>()?;
    if columns.is_empty() {
        return Ok(UInt32Array::from_iter_values(0..most as u32));
    }
    lexsort_to_indices(&columns, Some(most)).map_err(Error::bug)
}

/// A batch without columns keeps its number of rows.
pub(super) fn batch_of(
    schema: &arrow_schema::SchemaRef,
    arrays: Vec<arrow_array::ArrayRef>,
    rows: usize,
) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options).map_err(Error::bug)
}
