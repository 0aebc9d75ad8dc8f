//! Physical plan node that scans a `columns` table. The store's scan blocks, so it runs on a blocking thread
//! and sends batches through a bounded channel; when the reader is dropped, the next send fails and the scan
//! ends.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{SchemaRef, SortOptions};
use columns::state::Entry;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, Statistics};
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::{RecordBatchReceiverStreamBuilder, RecordBatchStreamAdapter};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, SendableRecordBatchStream,
};
use engine::{ScanRequest, ScanStats, SeriesFilter, TableView};
use futures::StreamExt;
use model::{Result, TableRef, TimeRange};

use crate::errors::external;
use crate::memory::{ReadAhead, in_turn};
use crate::scan::columns_table::relabel;
use crate::scan::join_keys::JoinKeys;
use crate::scan::predicate::{Keep, Kept};
use crate::scan::statistics::Summary;

/// Batches buffered between the store and the query.
const BATCHES_AHEAD: usize = 2;
/// Rows of a table are long from this average size on, in bytes.
const LONG_ROW_BYTES: u64 = 64 << 10;
/// Memory that is free when a scan of long rows begins: more than one of its blocks usually takes.
const LONG_BLOCK_BYTES: u64 = 16 << 20;
/// A scan of fewer rows is not split among threads.
const SPLIT_ROWS_MIN: u64 = 200_000;

/// Scan of a `columns` table.
pub(crate) struct ColumnsScan {
    table: TableRef,
    schema: SchemaRef,
    view: TableView,
    /// The request before splitting.
    request: ScanRequest,
    /// Predicate evaluated during the scan, if any.
    keep: Option<Arc<Keep>>,
    /// Requests of the partitions, one each.
    requests: Vec<ScanRequest>,
    /// The series that a join looks for, which are known when it runs.
    join_keys: Option<JoinKeys>,
    /// Rows of the table, counting all versions.
    rows_max: u64,
    /// The view contains only committed rows.
    is_committed: bool,
    /// Whether exact statistics are requested ([`ColumnsScan::ask`]).
    is_asked: AtomicBool,
    /// Exact statistics, computed once; `None` inside if there are none.
    known: OnceLock<Option<Arc<Statistics>>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ColumnsScan {
    pub(crate) fn new(
        table: TableRef,
        schema: SchemaRef,
        view: TableView,
        (request, keep): (ScanRequest, Option<Arc<Keep>>),
        partitions: usize,
        is_committed: bool,
    ) -> Result<ColumnsScan> {
        let rows_max = rows_max(&view);
        let ordered = series_number(&view, &request.series) <= 1 || !table.keyed;
        let requests = split(&view, &request, rows_max, partitions)?;
        let properties = PlanProperties::new(
            equivalences(&table, &schema, ordered),
            Partitioning::UnknownPartitioning(requests.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(ColumnsScan {
            table,
            schema,
            view,
            request,
            keep,
            requests,
            join_keys: None,
            rows_max,
            is_committed,
            is_asked: AtomicBool::new(false),
            known: OnceLock::new(),
            properties: Arc::new(properties),
            metrics,
        })
    }

    /// The scan of the series that a join looks for; `None` unless the join is by key columns. `columns` are their
    /// positions in the rows of the scan.
    pub(crate) fn with_join_keys(
        &self,
        filter: &Arc<DynamicFilterPhysicalExpr>,
        columns: &[usize],
    ) -> DfResult<Option<ColumnsScan>> {
        let is_key = |name: &str| self.table.key_columns().any(|key| key.name == name);
        let names = columns.iter().map(|at| (*at, self.schema.field(*at).name().clone()));
        let keys: Vec<(usize, String)> = names.filter(|(_, name)| is_key(name)).collect();
        // One filter for a scan is enough: joins above would have to wait for each other.
        if keys.len() != columns.len() || self.join_keys.is_some() {
            return Ok(None);
        }
        Ok(Some(self.copy(Some(JoinKeys::new(filter, keys)?))))
    }

    fn copy(&self, join_keys: Option<JoinKeys>) -> ColumnsScan {
        ColumnsScan {
            table: Arc::clone(&self.table),
            schema: Arc::clone(&self.schema),
            view: self.view.clone(),
            request: self.request.clone(),
            keep: self.keep.clone(),
            requests: self.requests.clone(),
            join_keys,
            rows_max: self.rows_max,
            is_committed: self.is_committed,
            is_asked: AtomicBool::new(self.is_asked.load(Ordering::Relaxed)),
            known: self.known.clone(),
            properties: Arc::clone(&self.properties),
            metrics: self.metrics.clone(),
        }
    }

    /// Requests exact statistics from now on, where they are available.
    pub(crate) fn ask(&self) {
        self.is_asked.store(true, Ordering::Relaxed);
    }

    /// Exact statistics, if available.
    fn known(&self) -> Option<Arc<Statistics>> {
        if self.keep.is_some() || !self.is_committed || !self.is_asked.load(Ordering::Relaxed) {
            return None;
        }
        let known = || -> Result<Option<Arc<Statistics>>> {
            let Some(summary) = Summary::of(&self.view, &self.request)? else { return Ok(None) };
            let columns = self.request.columns.iter().filter_map(|id| self.table.column_by_id(*id));
            let columns: Vec<_> =
                columns.zip(self.schema.fields()).map(|(column, field)| (column, field.data_type())).collect();
            summary.statistics(&columns).map(Arc::new).map(Some)
        };
        // A read error here is reported by the scan, which then follows.
        self.known.get_or_init(|| known().unwrap_or_default()).clone()
    }

    /// Number of segments of the table, and how many of them the request prunes.
    fn segments(&self) -> (usize, usize) {
        let segments = &self.view.state().segments;
        let touched = |meta: &columns::SegmentMeta| {
            self.request.times.overlaps(&meta.times) && reaches(&self.request.series, meta.series)
        };
        let pruned = segments.iter().filter(|segment| !touched(segment.meta())).count();
        (segments.len(), pruned)
    }
}

fn reaches(series: &SeriesFilter, (low, high): (u32, u32)) -> bool {
    match series {
        SeriesFilter::All => true,
        SeriesFilter::Range(range) => range.start <= high && low < range.end,
        SeriesFilter::Only(list) => {
            list.get(list.partition_point(|series| *series < low)).is_some_and(|at| *at <= high)
        }
    }
}

fn series_number(view: &TableView, series: &SeriesFilter) -> u32 {
    match series {
        SeriesFilter::All => view.series_count(),
        SeriesFilter::Range(range) => range.end.saturating_sub(range.start),
        SeriesFilter::Only(list) => u32::try_from(list.len()).unwrap_or(u32::MAX),
    }
}

/// Bytes that the first block of a scan takes at least if the table has long rows, by the sizes of its files; 0 for other tables.
pub(crate) fn first_block_bytes(view: &TableView, request: &ScanRequest) -> usize {
    let state = view.state();
    let has_long_values = request.columns.iter().any(|id| {
        let ty = state.table.column_by_id(*id).map(|column| column.ty);
        ty.is_some_and(|ty| columns::rows::arrow_type(ty).primitive_width().is_none())
    });
    if !has_long_values {
        return 0;
    }
    let touched = state.segments.iter().map(|segment| segment.meta());
    let touched = touched.filter(|meta| request.times.overlaps(&meta.times) && reaches(&request.series, meta.series));
    let bytes = |meta: &columns::SegmentMeta| match meta.bytes / meta.rows.max(1) {
        row if row >= LONG_ROW_BYTES => meta.bytes.min(LONG_BLOCK_BYTES),
        _ => 0,
    };
    touched.map(bytes).max().unwrap_or(0) as usize
}

fn rows_max(view: &TableView) -> u64 {
    let state = view.state();
    let segments: u64 = state.segments.iter().map(|segment| segment.meta().rows).sum();
    let entries: u64 = state
        .entries
        .iter()
        .map(|entry| match entry {
            Entry::Rows { rows, .. } => rows.times.len() as u64,
            Entry::Delete(_) => 0,
        })
        .sum();
    segments + entries
}

/// Splits a large scan into requests for several threads.
fn split(view: &TableView, request: &ScanRequest, rows: u64, partitions: usize) -> Result<Vec<ScanRequest>> {
    if rows < SPLIT_ROWS_MIN || request.limit.is_some() || partitions < 2 {
        return Ok(vec![request.clone()]);
    }
    let parts = view.split(request, partitions)?;
    Ok(if parts.is_empty() { vec![request.clone()] } else { parts })
}

/// Rows of a single series are sorted by time.
fn equivalences(table: &TableRef, schema: &SchemaRef, ordered: bool) -> EquivalenceProperties {
    let time = &table.time_column().name;
    match schema.index_of(time) {
        Ok(at) if ordered => {
            let options = SortOptions { descending: false, nulls_first: false };
            let sort = PhysicalSortExpr::new(Arc::new(Column::new(time, at)), options);
            EquivalenceProperties::new_with_orderings(Arc::clone(schema), [[sort]])
        }
        _ => EquivalenceProperties::new(Arc::clone(schema)),
    }
}

impl fmt::Debug for ColumnsScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ColumnsScan({})", self.table.name)
    }
}

impl DisplayAs for ColumnsScan {
    fn fmt_as(&self, _ty: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let request = &self.request;
        let series = series_number(&self.view, &request.series);
        write!(f, "ColumnsScan: table={}, columns=[", self.table.name)?;
        for (at, field) in self.schema.fields().iter().enumerate() {
            write!(f, "{}{}", if at == 0 { "" } else { ", " }, field.name())?;
        }
        write!(f, "], series={series} of {}", self.view.series_count())?;
        write_times(f, &request.times)?;
        for range in &request.ranges {
            let name = self.table.column_by_id(range.column).map_or("?", |column| column.name.as_str());
            write!(f, ", blocks by {name}")?;
        }
        if self.join_keys.is_some() {
            write!(f, ", series of the join")?;
        }
        if let Some(limit) = request.limit {
            write!(f, ", limit={limit}")?;
        }
        let (segments, pruned) = self.segments();
        write!(f, ", segments={segments} pruned={pruned}, partitions={}", self.requests.len())
    }
}

fn write_times(f: &mut fmt::Formatter<'_>, times: &TimeRange) -> fmt::Result {
    if *times == TimeRange::ALL {
        return Ok(());
    }
    if times.is_empty() {
        return write!(f, ", time=[]");
    }
    let moment =
        |at: i64| jiff::Timestamp::from_nanosecond(i128::from(at)).map_or_else(|_| at.to_string(), |at| at.to_string());
    match (times.start, times.last) {
        (i64::MIN, last) => write!(f, ", time=[.., {}]", moment(last)),
        (start, i64::MAX) => write!(f, ", time=[{}, ..]", moment(start)),
        (start, last) => write!(f, ", time=[{}, {}]", moment(start), moment(last)),
    }
}

impl ExecutionPlan for ColumnsScan {
    fn name(&self) -> &'static str {
        "ColumnsScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        // The join completes its filter only if it finds it here.
        match &self.join_keys {
            Some(keys) => f(keys.expr()),
            None => Ok(TreeNodeRecursion::Continue),
        }
    }

    fn reset_state(self: Arc<Self>) -> DfResult<Arc<dyn ExecutionPlan>> {
        // The join above forgets the filter, too.
        if self.join_keys.is_some() { Ok(Arc::new(self.copy(None))) } else { Ok(self) }
    }

    fn replace_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _children: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let request = self.requests[partition].clone();
        let (view, schema, keep) = (self.view.clone(), Arc::clone(&self.schema), self.keep.clone());
        let report = Report::new(&self.metrics, partition);
        let mut builder = RecordBatchReceiverStreamBuilder::new(Arc::clone(&self.schema), BATCHES_AHEAD);
        let out = builder.tx();
        let ahead = ReadAhead::new(context.memory_pool());
        let mut reading = ahead.reader();
        let table = Arc::clone(&self.table);
        let join_keys = self.join_keys.clone();
        let waiting = join_keys.clone();
        let run = move || {
            let request = match &join_keys {
                Some(keys) => keys.narrowed((&table, &schema), &view, request).map_err(external)?,
                None => request,
            };
            reading.expect(first_block_bytes(&view, &request))?;
            let mut rows = Kept::new(&view, request, keep.as_deref()).map_err(external)?;
            let mut sent = 0;
            while let Some(batch) = in_turn(reading.is_long(), || rows.next()).transpose() {
                let batch = batch.map_err(external).and_then(|rows| with_schema(rows.batch, &schema));
                let found = batch.as_ref().map_or(1, RecordBatch::num_rows);
                sent += found;
                let failed = batch.is_err();
                // A failed send too means that there is no reader any more.
                let is_over = if found == 0 { out.is_closed() } else { !reading.hand_on(&out, batch)? };
                if is_over || failed {
                    break;
                }
            }
            report.finish(&rows.scan().stats(), sent);
            Ok(())
        };
        match waiting {
            None => builder.spawn_blocking(run),
            Some(keys) => builder.spawn(async move {
                keys.wait().await;
                let done = SpawnedTask::spawn_blocking(run).join().await;
                done.map_err(|error| DataFusionError::External(Box::new(error)))?
            }),
        }
        let batches = builder.build().inspect(move |batch| ahead.taken(batch));
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn partition_statistics(&self, partition: Option<usize>) -> DfResult<Arc<Statistics>> {
        if let (None, Some(known)) = (partition, self.known()) {
            return Ok(known);
        }
        let rows = usize::try_from(self.rows_max).unwrap_or(usize::MAX);
        Ok(Arc::new(Statistics {
            num_rows: Precision::Inexact(rows),
            total_byte_size: Precision::Absent,
            column_statistics: vec![ColumnStatistics::new_unknown(); self.schema.fields().len()],
        }))
    }
}

fn with_schema(batch: RecordBatch, schema: &SchemaRef) -> DfResult<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(array, field)| relabel(Arc::clone(array), field.data_type())).collect();
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

/// Metrics of a scan partition, for EXPLAIN ANALYZE.
struct Report {
    baseline: BaselineMetrics,
    metrics: ExecutionPlanMetricsSet,
    partition: usize,
}

impl Report {
    fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Report {
        Report { baseline: BaselineMetrics::new(metrics, partition), metrics: metrics.clone(), partition }
    }

    fn finish(&self, stats: &ScanStats, rows: usize) {
        self.baseline.record_output(rows);
        for (name, value) in [
            ("segments", stats.segments),
            ("segments_pruned", stats.segments_pruned),
            ("blocks", stats.blocks),
            ("blocks_pruned", stats.blocks_pruned),
            ("bytes_read", stats.bytes_read),
            ("versions_dropped", stats.versions_dropped),
        ] {
            let value = usize::try_from(value).unwrap_or(usize::MAX);
            MetricBuilder::new(&self.metrics).counter(name, self.partition).add(value);
        }
        self.baseline.done();
    }
}
