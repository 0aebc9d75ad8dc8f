//! Physical operator that adds the missing buckets. Input and output are one partition sorted by keys and bucket.

use std::fmt;
use std::sync::Arc;

use arrow_array::builder::TimestampNanosecondBuilder;
use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::{SchemaRef, SortOptions};
use datafusion::arrow::compute::{concat_batches, take};
use datafusion::arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, LexRequirement, OrderingRequirements, PhysicalSortExpr,
    PhysicalSortRequirement,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PhysicalExpr, PlanProperties,
};
use futures::{StreamExt, TryStreamExt};
use timeseries::buckets::Buckets;

use super::gap_columns::{Filled, Filling, Work};
use crate::errors::external;

/// Maximum number of rows in an output batch.
const BATCH_ROWS_MAX: usize = 8_192;

/// Parameters of the operator.
#[derive(Clone, Debug)]
pub(super) struct Fill {
    pub(super) buckets: Buckets,
    /// Start of the range to fill, inclusive.
    pub(super) start: i64,
    /// End of the range to fill, exclusive.
    pub(super) finish: i64,
    /// Position of the bucket column.
    pub(super) time: usize,
    /// Positions of the other group columns.
    pub(super) keys: Vec<usize>,
    /// Columns that are filled in gaps.
    pub(super) filled: Vec<Filled>,
}

/// The physical operator.
#[derive(Debug)]
pub(super) struct GapFillExec {
    input: Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
    fill: Arc<Fill>,
    properties: Arc<PlanProperties>,
}

impl GapFillExec {
    pub(super) fn try_new(input: Arc<dyn ExecutionPlan>, schema: SchemaRef, fill: Fill) -> Result<GapFillExec> {
        let equivalence = EquivalenceProperties::new_with_orderings(Arc::clone(&schema), [order(&schema, &fill)]);
        let properties = Arc::new(PlanProperties::new(
            equivalence,
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        Ok(GapFillExec { input, schema, fill: Arc::new(fill), properties })
    }
}

/// Sort order: keys, then the bucket.
fn order(schema: &SchemaRef, fill: &Fill) -> Vec<PhysicalSortExpr> {
    let columns = fill.keys.iter().chain(std::iter::once(&fill.time));
    columns
        .map(|at| {
            let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(schema.field(*at).name(), *at));
            PhysicalSortExpr::new(column, SortOptions { descending: false, nulls_first: false })
        })
        .collect()
}

impl DisplayAs for GapFillExec {
    fn fmt_as(&self, _form: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GapFillExec: start={}, finish={}", self.fill.start, self.fill.finish)
    }
}

impl ExecutionPlan for GapFillExec {
    fn name(&self) -> &str {
        "GapFillExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition]
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        let required = order(&self.input.schema(), &self.fill).into_iter().map(PhysicalSortRequirement::from);
        vec![LexRequirement::new(required).map(OrderingRequirements::new)]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        // It has an order of its own: a sort of the result must not move below it.
        vec![false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop().ok_or_else(|| external(model::Error::bug("a gap fill without input")))?;
        Ok(Arc::new(GapFillExec::try_new(input, Arc::clone(&self.schema), Fill::clone(&self.fill))?))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let held = MemoryConsumer::new("GapFill").register(context.memory_pool());
        let batch_rows = BATCH_ROWS_MAX.min(context.session_config().batch_size());
        let filler = Filler::new(Arc::clone(&self.fill), Arc::clone(&self.schema), held, batch_rows)?;
        let input = self.input.execute(partition, context)?;
        let output = futures::stream::try_unfold((filler, input), async |(mut filler, mut input)| {
            loop {
                if let Some(batch) = filler.output()? {
                    return Ok(Some((batch, (filler, input))));
                }
                if filler.finished {
                    return Ok(None);
                }
                match input.next().await.transpose()? {
                    Some(batch) => filler.input(&batch)?,
                    None => filler.end()?,
                }
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), output.into_stream().boxed())))
    }
}

/// Origin of an output row.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    /// A row of `work`.
    Row(u32),
    /// A missing bucket; this row has its group.
    Gap(u32, i64),
}

/// State between batches. `work` starts with the last row output, if any, so that a group may span batches; its
/// filled columns hold the newest values.
///
/// Interpolation needs the next value: rows after the last value wait, and so do whole batches without values.
struct Filler {
    fill: Arc<Fill>,
    schema: SchemaRef,
    converter: Option<RowConverter>,
    work: RecordBatch,
    /// Group number of each row, starting at 0 in every `work`.
    groups: Vec<u32>,
    columns: Vec<Filling>,
    /// Batches after `work`, buffered until a value or another group arrives.
    waiting: Vec<RecordBatch>,
    /// Group of the newest row.
    newest: Option<OwnedRow>,
    /// Next row of `work` to process.
    at: usize,
    /// Number of rows of `work` that can be processed.
    ready: usize,
    /// Next expected bucket of the current group; `None` before the first group and after the last bucket.
    expected: Option<i64>,
    /// Row of `work` at which the current group was started, so that a full output batch does not start it twice.
    begun: Option<usize>,
    /// Whether the input has ended.
    ended: bool,
    /// Whether all output has been produced.
    finished: bool,
    /// Memory reservation for `work` and `waiting`.
    held: MemoryReservation,
    /// Most rows of an output batch.
    batch_rows: usize,
}

impl Filler {
    fn new(fill: Arc<Fill>, schema: SchemaRef, held: MemoryReservation, batch_rows: usize) -> Result<Filler> {
        let fields: Vec<SortField> =
            fill.keys.iter().map(|at| SortField::new(schema.field(*at).data_type().clone())).collect();
        let converter = if fields.is_empty() { None } else { Some(RowConverter::new(fields)?) };
        let work = RecordBatch::new_empty(Arc::clone(&schema));
        let columns = fill.filled.iter().map(|filled| Filling::new(*filled)).collect();
        Ok(Filler {
            fill,
            schema,
            converter,
            work,
            groups: Vec::new(),
            columns,
            waiting: Vec::new(),
            newest: None,
            at: 0,
            ready: 0,
            expected: None,
            begun: None,
            ended: false,
            finished: false,
            held,
            batch_rows,
        })
    }

    fn input(&mut self, batch: &RecordBatch) -> Result<()> {
        // Input columns may be declared NOT NULL; output columns are nullable.
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), batch.columns().to_vec())?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let mut all_known = true;
        for column in &mut self.columns {
            all_known &= column.sees(&batch);
        }
        let other_group = self.changes_group(&batch)?;
        self.held.try_grow(bytes(&batch))?;
        self.waiting.push(batch);
        if all_known || other_group { self.proceed() } else { Ok(()) }
    }

    fn end(&mut self) -> Result<()> {
        self.ended = true;
        self.proceed()
    }

    /// Whether the last row of `batch`, now the newest, belongs to another group than the previous newest row.
    fn changes_group(&mut self, batch: &RecordBatch) -> Result<bool> {
        let Some(converter) = &self.converter else { return Ok(false) };
        let last = batch.num_rows() - 1;
        let keys: Vec<ArrayRef> = self.fill.keys.iter().map(|at| batch.column(*at).slice(last, 1)).collect();
        let key = converter.convert_columns(&keys)?.row(0).owned();
        Ok(self.newest.replace(key.clone()).is_none_or(|before| before != key))
    }

    /// Builds new work from the unprocessed rows and the waiting batches.
    fn proceed(&mut self) -> Result<()> {
        let kept = self.at.min(1);
        let mut parts = Vec::with_capacity(self.waiting.len() + 2);
        if kept > 0 {
            let mut row = self.work.slice(self.at - 1, 1).columns().to_vec();
            for column in &mut self.columns {
                row[column.column()] = column.keep(&self.work);
            }
            parts.push(RecordBatch::try_new(Arc::clone(&self.schema), row)?);
        }
        parts.push(self.work.slice(self.at, self.work.num_rows() - self.at));
        parts.append(&mut self.waiting);
        let joining = self.held.new_empty();
        joining.try_grow(parts.iter().map(bytes).sum())?;
        self.work = concat_batches(&self.schema, &parts)?;
        drop(parts);
        self.at = kept;
        self.begun = None;
        self.groups = self.number_groups()?;
        let work = Work { batch: &self.work, time: self.fill.time, groups: &self.groups };
        let last_group = self.groups.last().copied().unwrap_or(0);
        let group_start = self.groups.partition_point(|group| *group < last_group);
        self.ready = self.work.num_rows();
        for column in &mut self.columns {
            self.ready = self.ready.min(column.begin(&work, kept > 0, group_start, self.ended)?);
        }
        self.ready = self.ready.max(kept);
        self.held.try_resize(bytes(&self.work))
    }

    fn number_groups(&self) -> Result<Vec<u32>> {
        let Some(converter) = &self.converter else { return Ok(vec![0; self.work.num_rows()]) };
        let keys: Vec<ArrayRef> = self.fill.keys.iter().map(|at| Arc::clone(self.work.column(*at))).collect();
        let rows = converter.convert_columns(&keys)?;
        let mut groups = Vec::with_capacity(rows.num_rows());
        let mut group = 0;
        for row in 0..rows.num_rows() {
            group += u32::from(row > 0 && rows.row(row - 1) != rows.row(row));
            groups.push(group);
        }
        Ok(groups)
    }

    /// Next output batch; `None` if more input is needed.
    fn output(&mut self) -> Result<Option<RecordBatch>> {
        let mut sources = Vec::new();
        while sources.len() < self.batch_rows && self.at < self.ready {
            if self.begun != Some(self.at) && (self.at == 0 || self.groups[self.at - 1] != self.groups[self.at]) {
                if self.at > 0 && !self.gaps(self.at - 1, self.fill.finish, &mut sources)? {
                    break;
                }
                self.expected = Some(self.fill.buckets.start(self.fill.start).map_err(external)?);
                self.begun = Some(self.at);
            }
            // A row without a time sorts after all gaps.
            let time = self.time(self.at);
            if !self.gaps(self.at, time.unwrap_or(i64::MAX), &mut sources)? {
                break;
            }
            if let Some(time) = time {
                self.pass(time);
            }
            sources.push(Source::Row(index(self.at)?));
            self.at += 1;
        }
        if self.ended && self.at == self.work.num_rows() && sources.len() < self.batch_rows {
            self.finished = self.at == 0 || self.gaps(self.at - 1, self.fill.finish, &mut sources)?;
        }
        if sources.is_empty() { Ok(None) } else { self.build(&sources).map(Some) }
    }

    /// Adds the gaps before `end`, in the group of `row`; false if the output batch is full first.
    fn gaps(&mut self, row: usize, end: i64, sources: &mut Vec<Source>) -> Result<bool> {
        while let Some(bucket) = self.expected.filter(|bucket| *bucket < end.min(self.fill.finish)) {
            if sources.len() >= self.batch_rows {
                return Ok(false);
            }
            sources.push(Source::Gap(index(row)?, bucket));
            self.expected = self.fill.buckets.next(bucket).ok();
        }
        Ok(true)
    }

    /// Advances the expected bucket past the row at `time`.
    fn pass(&mut self, time: i64) {
        if self.expected.is_some_and(|expected| expected <= time) {
            self.expected = self.fill.buckets.next(time).ok();
        }
    }

    fn time(&self, row: usize) -> Option<i64> {
        Work { batch: &self.work, time: self.fill.time, groups: &self.groups }.time(row)
    }

    fn build(&mut self, sources: &[Source]) -> Result<RecordBatch> {
        let every: UInt32Array = sources.iter().map(|source| Some(source.index())).collect();
        let present: UInt32Array = sources.iter().map(|source| source.present()).collect();
        let work = Work { batch: &self.work, time: self.fill.time, groups: &self.groups };
        let mut columns = Vec::with_capacity(self.work.num_columns());
        for (at, column) in self.work.columns().iter().enumerate() {
            columns.push(if at == self.fill.time {
                times(&work, sources)
            } else if self.fill.keys.contains(&at) {
                take(column, &every, None)?
            } else if let Some(filling) = self.columns.iter_mut().find(|filling| filling.column() == at) {
                filling.values(&work, sources)?
            } else {
                take(column, &present, None)?
            });
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}

/// Bytes of the rows; a batch may be a slice of larger arrays.
fn bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|column| column.to_data().get_slice_memory_size().unwrap_or(0)).sum()
}

fn times(work: &Work<'_>, sources: &[Source]) -> ArrayRef {
    let column = work.batch.column(work.time);
    let mut times = TimestampNanosecondBuilder::with_capacity(sources.len()).with_data_type(column.data_type().clone());
    for source in sources {
        times.append_option(match source {
            Source::Row(_) => work.time(source.row()),
            Source::Gap(_, bucket) => Some(*bucket),
        });
    }
    Arc::new(times.finish())
}

impl Source {
    pub(super) fn row(self) -> usize {
        self.index() as usize
    }

    fn index(self) -> u32 {
        match self {
            Source::Row(row) | Source::Gap(row, _) => row,
        }
    }

    fn present(self) -> Option<u32> {
        match self {
            Source::Row(row) => Some(row),
            Source::Gap(..) => None,
        }
    }
}

pub(super) fn index(row: usize) -> Result<u32> {
    u32::try_from(row).map_err(|_| external(model::Error::bug("a batch of 2^32 rows")))
}
