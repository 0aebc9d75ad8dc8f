//! Exact statistics of a scan from block statistics, without reading rows; either complete or absent.
//!
//! The statistics of a block are exact if the scan returns each of its rows: the block is completely inside
//! the scanned times and series, no delete applies to it, and no other block or memtable has versions of its
//! rows. Rows in memory have no statistics, so a scan that includes any has none either.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_schema::DataType as Arrow;
use columns::Segment;
use columns::segment::{BlockMeta, ColumnStats, StatValue};
use columns::state::Entry;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use datafusion::config::ConfigOptions;
use datafusion::error::Result as DfResult;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use engine::{ScanRequest, SeriesFilter, TableView};
use model::{Column, ColumnRole, Result, TimeRange};

use crate::scan::columns_scan::ColumnsScan;

/// Requests exact statistics from scans below aggregates that may be answered from statistics alone. Other
/// plans would compute them for nothing.
#[derive(Debug)]
pub(crate) struct AskScans;

impl PhysicalOptimizerRule for AskScans {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> DfResult<Arc<dyn ExecutionPlan>> {
        ask(&plan, false);
        Ok(plan)
    }

    fn name(&self) -> &'static str {
        "ask_scans"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn ask(plan: &Arc<dyn ExecutionPlan>, is_asked: bool) {
    if let Some(scan) = plan.downcast_ref::<ColumnsScan>() {
        if is_asked {
            scan.ask();
        }
        return;
    }
    let asks = match plan.downcast_ref::<AggregateExec>() {
        Some(aggregate) => {
            let is_known = |name: &str| matches!(name, "count" | "min" | "max");
            aggregate.group_expr().is_empty() && aggregate.aggr_expr().iter().all(|expr| is_known(expr.fun().name()))
        }
        // Nodes that do not change the set of rows.
        None => is_asked && matches!(plan.name(), "ProjectionExec" | "CoalescePartitionsExec" | "RepartitionExec"),
    };
    plan.children().into_iter().for_each(|child| ask(child, asks));
}

/// Maximum number of block comparisons before the search for exact statistics is given up.
const COMPARISONS_MAX: usize = 1_000_000;
/// Longer text bounds are truncated.
const TEXT_EXACT_BYTES: usize = 31;

/// Blocks that the scan reads completely.
pub(crate) struct Summary {
    blocks: Vec<(Arc<Segment>, Vec<usize>)>,
    rows: u64,
    times: Option<TimeRange>,
}

impl Summary {
    /// Statistics of a request; `None` if its rows must be read.
    ///
    /// # Errors
    /// Errors of reading block indexes.
    ///
    /// # Cost
    /// Iterates over the rows in memory, and over the same block index as the scan.
    pub(crate) fn of(view: &TableView, request: &ScanRequest) -> Result<Option<Summary>> {
        if !request.ranges.is_empty() || request.limit.is_some() || reads_memory(view, request) {
            return Ok(None);
        }
        let mut summary = Summary { blocks: Vec::new(), rows: 0, times: None };
        let segments = &view.state().segments;
        for segment in segments.overlapping(&request.times).into_iter().map(|at| &segments[at]) {
            if !any_in(&request.series, segment.meta().series) {
                continue;
            }
            match whole_blocks(view, request, segment)? {
                Some(blocks) => summary.add(segment, blocks)?,
                None => return Ok(None),
            }
        }
        let is_keyed = view.state().table.keyed;
        Ok((!is_keyed || summary.is_without_versions()?).then_some(summary))
    }

    fn add(&mut self, segment: &Arc<Segment>, blocks: Vec<usize>) -> Result<()> {
        let metas = segment.blocks()?;
        for block in &blocks {
            let meta = &metas[*block];
            self.rows += u64::from(meta.rows);
            self.times = Some(self.times.map_or(meta.times, |times| times.union(&meta.times)));
        }
        if !blocks.is_empty() {
            self.blocks.push((Arc::clone(segment), blocks));
        }
        Ok(())
    }

    /// Whether each key has at most one row per time.
    fn is_without_versions(&self) -> Result<bool> {
        for (segment, _) in &self.blocks {
            if !segment.settled()? {
                return Ok(false);
            }
        }
        let mut by_time: Vec<&(Arc<Segment>, Vec<usize>)> = self.blocks.iter().collect();
        by_time.sort_by_key(|(segment, _)| segment.meta().times.start);
        let mut left = COMPARISONS_MAX;
        let mut from = 0;
        while from < by_time.len() {
            // Segments with disjoint time ranges have no rows with equal times.
            let mut last = by_time[from].0.meta().times.last;
            let mut to = from + 1;
            while to < by_time.len() && by_time[to].0.meta().times.start <= last {
                last = last.max(by_time[to].0.meta().times.last);
                to += 1;
            }
            if to - from > 1 && !are_apart(&by_time[from..to], &mut left)? {
                return Ok(false);
            }
            from = to;
        }
        Ok(true)
    }

    /// Row count and column statistics in DataFusion's format.
    ///
    /// - `columns`: output columns with their output types.
    ///
    /// # Errors
    /// Errors of reading statistics.
    pub(crate) fn statistics(&self, columns: &[(&Column, &Arrow)]) -> Result<Statistics> {
        let column_statistics = columns.iter().map(|(column, ty)| self.column(column, ty)).collect::<Result<_>>()?;
        let num_rows = Precision::Exact(usize::try_from(self.rows).unwrap_or(usize::MAX));
        Ok(Statistics { num_rows, total_byte_size: Precision::Absent, column_statistics })
    }

    fn column(&self, column: &Column, ty: &Arrow) -> Result<ColumnStatistics> {
        let mut statistics = ColumnStatistics::new_unknown();
        if !column.nullable || column.role == ColumnRole::Time {
            statistics.null_count = Precision::Exact(0);
        }
        match column.role {
            ColumnRole::Key => {}
            ColumnRole::Time => {
                if let Some(times) = self.times {
                    let moment = |at| Precision::Exact(scalar(StatValue::Int(at), ty));
                    (statistics.min_value, statistics.max_value) = (moment(times.start), moment(times.last));
                }
            }
            ColumnRole::Field => {
                let extent = self.extent(column)?;
                statistics.null_count = Precision::Exact(usize::try_from(extent.nulls).unwrap_or(usize::MAX));
                if let Some((min, max)) = extent.range {
                    let value = |value| Precision::Exact(scalar(value, ty));
                    (statistics.min_value, statistics.max_value) = (value(min), value(max));
                }
            }
        }
        Ok(statistics)
    }

    fn extent(&self, column: &Column) -> Result<Extent> {
        let mut extent = Extent { nulls: 0, range: None, is_sure: true };
        for (segment, blocks) in &self.blocks {
            let metas = segment.blocks()?;
            let stats = segment.column_stats(column.id)?;
            for block in blocks {
                match &stats {
                    Some(stats) => extent.add(&stats[*block], &metas[*block]),
                    None => extent.nulls += u64::from(metas[*block].rows),
                }
            }
        }
        Ok(Extent { range: extent.range.filter(|_| extent.is_sure), ..extent })
    }
}

/// Merged statistics of a field.
struct Extent {
    nulls: u64,
    range: Option<(StatValue, StatValue)>,
    /// Whether the bounds are existing values and the exact minimum and maximum.
    is_sure: bool,
}

impl Extent {
    fn add(&mut self, stats: &ColumnStats, meta: &BlockMeta) {
        self.nulls += u64::from(stats.nulls);
        let Some((min, max)) = &stats.range else {
            self.is_sure &= !stats.has_nan && stats.nulls == meta.rows;
            return;
        };
        self.is_sure &= !stats.has_nan && is_exact(min) && is_exact(max);
        let (least, greatest) = self.range.get_or_insert_with(|| (min.clone(), max.clone()));
        if min.compare(least).is_some_and(Ordering::is_lt) {
            *least = min.clone();
        }
        if max.compare(greatest).is_some_and(Ordering::is_gt) {
            *greatest = max.clone();
        }
    }
}

/// Whether the bound is exact. Distinct floats may compare equal (0 and -0), and texts may be truncated.
fn is_exact(value: &StatValue) -> bool {
    match value {
        StatValue::Int(_) | StatValue::UInt(_) => true,
        StatValue::Float(value) => *value != 0.0,
        StatValue::Bytes(bytes) => bytes.len() <= TEXT_EXACT_BYTES,
    }
}

/// Converts a bound to the output type of the column.
fn scalar(value: StatValue, ty: &Arrow) -> ScalarValue {
    match (ty, value) {
        (Arrow::Boolean, StatValue::Int(value)) => ScalarValue::Boolean(Some(value != 0)),
        (Arrow::Int16, StatValue::Int(value)) => ScalarValue::Int16(i16::try_from(value).ok()),
        (Arrow::Int32, StatValue::Int(value)) => ScalarValue::Int32(i32::try_from(value).ok()),
        (Arrow::Int64, StatValue::Int(value)) => ScalarValue::Int64(Some(value)),
        (Arrow::Timestamp(_, zone), StatValue::Int(value)) => {
            ScalarValue::TimestampNanosecond(Some(value), zone.clone())
        }
        (Arrow::UInt64, StatValue::UInt(value)) => ScalarValue::UInt64(Some(value)),
        (Arrow::Float32, StatValue::Float(value)) => ScalarValue::Float32(Some(value as f32)),
        (Arrow::Float64, StatValue::Float(value)) => ScalarValue::Float64(Some(value)),
        (Arrow::Utf8, StatValue::Bytes(bytes)) => ScalarValue::Utf8(String::from_utf8(bytes).ok()),
        (Arrow::Binary, StatValue::Bytes(bytes)) => ScalarValue::Binary(Some(bytes)),
        // NULL is not used as a bound, so no query is answered from it.
        _ => ScalarValue::Null,
    }
}

/// Whether the request includes a row in memory.
fn reads_memory(view: &TableView, request: &ScanRequest) -> bool {
    view.state().entries.iter().any(|entry| match entry {
        Entry::Rows { rows, .. } => {
            let mut rows = rows.times.iter().zip(&rows.series);
            rows.any(|(time, series)| request.times.contains(*time) && any_in(&request.series, (*series, *series)))
        }
        Entry::Delete(_) => false,
    })
}

/// Blocks of a segment that the request includes; `None` if it includes one only in part, or a delete applies
/// to one.
fn whole_blocks(view: &TableView, request: &ScanRequest, segment: &Segment) -> Result<Option<Vec<usize>>> {
    let deletes = view.deletes_over(segment);
    let mut blocks = Vec::new();
    for (at, block) in segment.blocks()?.iter().enumerate() {
        let series = (block.first.0, block.last.0);
        if !request.times.overlaps(&block.times) || !any_in(&request.series, series) {
            continue;
        }
        let is_whole = request.times.covers(&block.times) && all_in(&request.series, series);
        if !is_whole || deletes.iter().any(|deletes| deletes.touches(series, &block.times)) {
            return Ok(None);
        }
        blocks.push(at);
    }
    Ok(Some(blocks))
}

fn any_in(series: &SeriesFilter, (first, last): (u32, u32)) -> bool {
    match series {
        SeriesFilter::All => true,
        SeriesFilter::Range(range) => range.start <= last && first < range.end,
        SeriesFilter::Only(list) => {
            list.get(list.partition_point(|series| *series < first)).is_some_and(|series| *series <= last)
        }
    }
}

fn all_in(series: &SeriesFilter, (first, last): (u32, u32)) -> bool {
    match series {
        SeriesFilter::All => true,
        SeriesFilter::Range(range) => range.start <= first && last < range.end,
        SeriesFilter::Only(list) => {
            let from = list.partition_point(|series| *series < first);
            let to = list.partition_point(|series| *series <= last);
            to - from == (last - first) as usize + 1
        }
    }
}

/// Whether no two blocks of different segments overlap in both series and times.
fn are_apart(segments: &[&(Arc<Segment>, Vec<usize>)], left: &mut usize) -> Result<bool> {
    let metas = segments.iter().map(|(segment, _)| segment.blocks()).collect::<Result<Vec<_>>>()?;
    let mut all: Vec<(usize, &BlockMeta)> = Vec::new();
    for (at, (_, blocks)) in segments.iter().enumerate() {
        all.extend(blocks.iter().map(|block| (at, &metas[at][*block])));
    }
    all.sort_unstable_by_key(|(_, block)| block.first);
    let mut open: Vec<(usize, &BlockMeta)> = Vec::new();
    for (at, block) in all {
        open.retain(|(_, other)| other.last >= block.first);
        let Some(rest) = left.checked_sub(open.len()) else { return Ok(false) };
        *left = rest;
        if open.iter().any(|(other, meta)| *other != at && meta.times.overlaps(&block.times)) {
            return Ok(false);
        }
        open.push((at, block));
    }
    Ok(true)
}
