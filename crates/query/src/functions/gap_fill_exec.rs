//! The operator that adds the missing buckets. Input sorted by keys and bucket in one partition; output likewise.

use std::fmt;
use std::sync::Arc;

use arrow_array::builder::TimestampNanosecondBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::{SchemaRef, SortOptions};
use datafusion::arrow::compute::{concat_batches, take};
use datafusion::arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
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

use super::bucket::Buckets;
use super::external;

/// Rows of one output batch, at most.
const BATCH_ROWS_MAX: usize = 8_192;

/// What to fill.
#[derive(Clone, Debug)]
pub(super) struct Fill {
    pub(super) buckets: Buckets,
    /// First moment to fill.
    pub(super) start: i64,
    /// The moment filling ends before.
    pub(super) finish: i64,
    /// The bucket's column.
    pub(super) time: usize,
    /// The other group columns.
    pub(super) keys: Vec<usize>,
    /// Columns that keep the value of the row before.
    pub(super) carried: Vec<usize>,
}

/// The operator.
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

/// Keys, then the bucket.
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
        vec![true]
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
        let input = self.input.execute(partition, context)?;
        let filler = Filler::new(Arc::clone(&self.fill), Arc::clone(&self.schema))?;
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
                    None => filler.ended = true,
                }
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), output.into_stream().boxed())))
    }
}

/// Where a row of the output comes from.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// A row of `work`.
    Row(u32),
    /// A bucket between; group and carried values are those of this row.
    Gap(u32, i64),
}

/// The state between batches. `work` begins with the last row of the batch before, if there was one (`carries`), so that
/// a group may go on over the border.
struct Filler {
    fill: Arc<Fill>,
    schema: SchemaRef,
    converter: Option<RowConverter>,
    work: RecordBatch,
    rows: Option<Rows>,
    /// Next row of `work` to look at.
    at: usize,
    /// The bucket expected next in the present group; `None` before the first group and past the last bucket.
    expected: Option<i64>,
    /// The row of `work` whose group was begun last, so that a full batch does not begin it twice.
    begun: Option<usize>,
    /// No input will come.
    ended: bool,
    /// All is put out.
    finished: bool,
}

impl Filler {
    fn new(fill: Arc<Fill>, schema: SchemaRef) -> Result<Filler> {
        let fields: Vec<SortField> =
            fill.keys.iter().map(|at| SortField::new(schema.field(*at).data_type().clone())).collect();
        let converter = if fields.is_empty() { None } else { Some(RowConverter::new(fields)?) };
        let work = RecordBatch::new_empty(Arc::clone(&schema));
        Ok(Filler {
            fill,
            schema,
            converter,
            work,
            rows: None,
            at: 0,
            expected: None,
            begun: None,
            ended: false,
            finished: false,
        })
    }

    fn input(&mut self, batch: &RecordBatch) -> Result<()> {
        // The input's columns may be declared NOT NULL; the output's are not.
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), batch.columns().to_vec())?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let kept = self.work.num_rows().min(1);
        let last = self.work.slice(self.work.num_rows() - kept, kept);
        self.work = concat_batches(&self.schema, [&last, &batch])?;
        self.at = kept;
        self.begun = None;
        self.rows = match &self.converter {
            None => None,
            Some(converter) => {
                let keys: Vec<ArrayRef> = self.fill.keys.iter().map(|at| Arc::clone(self.work.column(*at))).collect();
                Some(converter.convert_columns(&keys)?)
            }
        };
        Ok(())
    }

    /// The next rows, if what is known suffices for any.
    fn output(&mut self) -> Result<Option<RecordBatch>> {
        let mut sources = Vec::new();
        while sources.len() < BATCH_ROWS_MAX && self.at < self.work.num_rows() {
            if self.begun != Some(self.at) && (self.at == 0 || !self.same_group(self.at - 1, self.at)) {
                if self.at > 0 && !self.gaps(self.at - 1, self.fill.finish, &mut sources)? {
                    break;
                }
                self.expected = Some(self.fill.buckets.start(self.fill.start).map_err(external)?);
                self.begun = Some(self.at);
            }
            if let Some(time) = self.time(self.at) {
                if !self.gaps(self.at, time, &mut sources)? {
                    break;
                }
                self.pass(time);
            }
            sources.push(Source::Row(index(self.at)?));
            self.at += 1;
        }
        if self.ended && self.at == self.work.num_rows() && sources.len() < BATCH_ROWS_MAX {
            self.finished = self.at == 0 || self.gaps(self.at - 1, self.fill.finish, &mut sources)?;
        }
        if sources.is_empty() { Ok(None) } else { self.build(&sources).map(Some) }
    }

    /// Gaps before `end`, with the group and values of `row`; false when the batch is full before all are there.
    fn gaps(&mut self, row: usize, end: i64, sources: &mut Vec<Source>) -> Result<bool> {
        while let Some(bucket) = self.expected.filter(|bucket| *bucket < end.min(self.fill.finish)) {
            if sources.len() >= BATCH_ROWS_MAX {
                return Ok(false);
            }
            sources.push(Source::Gap(index(row)?, bucket));
            self.expected = self.fill.buckets.next(bucket).ok();
        }
        Ok(true)
    }

    /// A row for the bucket `time` is there.
    fn pass(&mut self, time: i64) {
        if self.expected.is_some_and(|expected| expected <= time) {
            self.expected = self.fill.buckets.next(time).ok();
        }
    }

    fn time(&self, row: usize) -> Option<i64> {
        let times = self.work.column(self.fill.time).as_primitive_opt::<TimestampNanosecondType>()?;
        times.is_valid(row).then(|| times.value(row))
    }

    fn same_group(&self, a: usize, b: usize) -> bool {
        self.rows.as_ref().is_none_or(|rows| rows.row(a) == rows.row(b))
    }

    fn build(&self, sources: &[Source]) -> Result<RecordBatch> {
        let every: UInt32Array = sources.iter().map(|source| Some(source.row())).collect();
        let present: UInt32Array = sources.iter().map(|source| source.present()).collect();
        let carried: UInt32Array = sources.iter().map(|source| self.carried(*source)).collect();
        let mut columns = Vec::with_capacity(self.work.num_columns());
        for (at, column) in self.work.columns().iter().enumerate() {
            columns.push(if at == self.fill.time {
                self.times(sources)
            } else if self.fill.keys.contains(&at) {
                take(column, &every, None)?
            } else if self.fill.carried.contains(&at) {
                take(column, &carried, None)?
            } else {
                take(column, &present, None)?
            });
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }

    /// The row whose carried values a source shows: a gap shows those of the row before it in its group.
    fn carried(&self, source: Source) -> Option<u32> {
        match source {
            Source::Row(row) => Some(row),
            Source::Gap(row, bucket) => {
                let shown = usize::try_from(row).ok()?;
                if self.time(shown).is_some_and(|time| time < bucket) {
                    return Some(row);
                }
                // A gap before `row`: the row before, if it is of the same group.
                let before = shown.checked_sub(1)?;
                (self.same_group(before, shown) && self.time(before).is_some()).then(|| row - 1)
            }
        }
    }

    fn times(&self, sources: &[Source]) -> ArrayRef {
        let column = self.work.column(self.fill.time);
        let mut times =
            TimestampNanosecondBuilder::with_capacity(sources.len()).with_data_type(column.data_type().clone());
        for source in sources {
            times.append_option(match source {
                Source::Row(row) => self.time(*row as usize),
                Source::Gap(_, bucket) => Some(*bucket),
            });
        }
        Arc::new(times.finish())
    }
}

impl Source {
    fn row(self) -> u32 {
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

fn index(row: usize) -> Result<u32> {
    u32::try_from(row).map_err(|_| external(model::Error::bug("a batch of 2^32 rows")))
}
