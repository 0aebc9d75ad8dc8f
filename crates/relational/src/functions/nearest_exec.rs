//! Physical operator of `ASOF JOIN`: a merge of both sides, sorted by keys and time.
//!
//! It remembers one row of the right side: the last one that is not after the current left row. It buffers one batch of
//! the left side, and up to [`SEEN_MAX`] batches of the right side that have matches in it. If rows of the right side are
//! kept without a match, they come when their batch is passed.

use std::fmt;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow_schema::{SchemaRef, SortOptions};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::{filter_record_batch, interleave, not, nullif, prep_null_mask_filter, take};
use datafusion::arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinType, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, LexRequirement, OrderingRequirements, PhysicalSortRequirement,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PhysicalExpr, PlanProperties,
};
use futures::stream::Fuse;
use futures::{StreamExt, TryStreamExt};

use super::nearest::{keeps_left, keeps_right};
use crate::errors::external;

/// Batches of the right side with matches for one batch of the left side, above which the matches are returned.
const SEEN_MAX: usize = 16;

/// Join condition.
#[derive(Clone, Debug)]
pub(super) struct Matching {
    /// Pairs of expressions for the keys and, last, the times.
    pub(super) by: Vec<(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)>,
    /// Condition on the columns of a row and of its nearest one, without which they are no match.
    pub(super) also: Option<Arc<dyn PhysicalExpr>>,
    /// Sort order of times in which the wanted row comes last.
    pub(super) order: SortOptions,
    /// Whether rows with equal times do not match.
    pub(super) strict: bool,
    /// Condition on a row of the right side without which it is nearest to none.
    pub(super) candidates: Option<Arc<dyn PhysicalExpr>>,
    /// Which rows without a match are kept.
    pub(super) kind: JoinType,
}

impl Matching {
    fn options(&self) -> impl Iterator<Item = SortOptions> {
        let keys = std::iter::repeat_n(SortOptions { descending: false, nulls_first: true }, self.by.len() - 1);
        keys.chain([self.order])
    }

    fn ordering(
        &self,
        side: impl Fn(&(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)) -> Arc<dyn PhysicalExpr>,
    ) -> Option<OrderingRequirements> {
        let by = self.by.iter().map(side).zip(self.options());
        let required = by.map(|(expr, options)| PhysicalSortRequirement::new(expr, Some(options)));
        LexRequirement::new(required).map(OrderingRequirements::new)
    }
}

/// The physical operator.
#[derive(Debug)]
pub(super) struct NearestExec {
    left: Arc<dyn ExecutionPlan>,
    right: Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
    matching: Arc<Matching>,
    properties: Arc<PlanProperties>,
}

impl NearestExec {
    pub(super) fn new(
        left: Arc<dyn ExecutionPlan>,
        right: Arc<dyn ExecutionPlan>,
        schema: SchemaRef,
        matching: Matching,
    ) -> NearestExec {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        NearestExec { left, right, schema, matching: Arc::new(matching), properties }
    }
}

impl DisplayAs for NearestExec {
    fn fmt_as(&self, _form: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AsOfJoinExec: {}", self.matching.kind)?;
        self.matching.by.iter().try_for_each(|(left, right)| write!(f, ", {left} with {right}"))
    }
}

impl ExecutionPlan for NearestExec {
    fn name(&self) -> &str {
        "AsOfJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition, Distribution::SinglePartition]
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![
            self.matching.ordering(|(left, _)| Arc::clone(left)),
            self.matching.ordering(|(_, right)| Arc::clone(right)),
        ]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false, false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![true, true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.left, &self.right]
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for (left, right) in &self.matching.by {
            visit(left)?;
            visit(right)?;
        }
        self.matching.also.iter().chain(&self.matching.candidates).try_for_each(|one| visit(one).map(|_| ()))?;
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let children = <[Arc<dyn ExecutionPlan>; 2]>::try_from(children);
        let [left, right] = children.map_err(|_| external(model::Error::bug("an ASOF JOIN without its two sides")))?;
        let matching = Matching::clone(&self.matching);
        Ok(Arc::new(NearestExec::new(left, right, Arc::clone(&self.schema), matching)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let left = self.left.execute(partition, Arc::clone(&context))?;
        let right = self.right.execute(partition, context)?;
        let walk = Walk::new(Arc::clone(&self.matching), Arc::clone(&self.schema), &self.left, right)?;
        let output = futures::stream::try_unfold((walk, left.fuse()), async |(mut walk, mut left)| {
            loop {
                let batch = if let Some(batch) = walk.unmatched.pop() {
                    batch
                } else if let Some(current) = walk.left.take() {
                    walk.join(current).await?
                } else if let Some(batch) = left.next().await.transpose()? {
                    walk.left = Some(Left::new(walk.keyed(&batch, true)?, batch));
                    continue;
                } else if walk.end().await? {
                    continue;
                } else {
                    return Ok(None);
                };
                if batch.num_rows() > 0 {
                    return Ok(Some((batch, (walk, left))));
                }
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), output.into_stream().boxed())))
    }
}

/// The rows of a condition that are true; NULL is not.
fn fulfilled(condition: &ArrayRef) -> BooleanArray {
    let mask = condition.as_boolean();
    if mask.null_count() > 0 { prep_null_mask_filter(mask) } else { mask.clone() }
}

/// Keys and times of a batch, encoded as comparable bytes.
struct Keyed {
    keys: Option<Rows>,
    times: Rows,
    /// Rows without NULL in keys and time; others match nothing.
    valid: Option<NullBuffer>,
}

impl Keyed {
    fn is_valid(&self, row: usize) -> bool {
        self.valid.as_ref().is_none_or(|valid| valid.is_valid(row))
    }

    fn key(&self, row: usize) -> &[u8] {
        self.keys.as_ref().map_or(&[], |keys| keys.row(row).data())
    }
}

/// Current batch of the left side.
struct Left {
    batch: RecordBatch,
    keyed: Keyed,
    /// Next row to join.
    at: usize,
    /// Rows to return, and the place of each one's match.
    rows: Vec<u32>,
    places: Vec<Option<(usize, usize)>>,
}

impl Left {
    fn new(keyed: Keyed, batch: RecordBatch) -> Left {
        Left { batch, keyed, at: 0, rows: Vec::new(), places: Vec::new() }
    }

    /// Position of the last batch of the right side that has a match.
    fn last_batch(&self) -> Option<usize> {
        self.places.iter().rev().find_map(|place| place.map(|place| place.0))
    }
}

/// Current batch of the right side.
struct Right {
    /// Position in `Walk::seen`.
    batch: usize,
    keyed: Keyed,
    rows: usize,
    /// Next row to process.
    at: usize,
}

/// Last row of the right side that was passed.
struct Passed {
    key: Vec<u8>,
    /// Position of the batch in `Walk::seen`, and the row.
    place: (usize, usize),
}

/// A batch of the right side.
struct Seen {
    batch: RecordBatch,
    /// Whether each row has been a match; empty if that does not matter.
    is_matched: Vec<bool>,
}

/// State of the merge.
struct Walk {
    matching: Arc<Matching>,
    schema: SchemaRef,
    /// Converter of the keys; `None` for a join without equalities.
    keys: Option<RowConverter>,
    times: RowConverter,
    input: Fuse<SendableRecordBatchStream>,
    left: Option<Left>,
    /// Batches of the right side with matches of the current left batch, and the one with the last row that was passed.
    seen: Vec<Seen>,
    /// Rows of the right side without a match, to be returned.
    unmatched: Vec<RecordBatch>,
    right: Option<Right>,
    passed: Option<Passed>,
}

impl Walk {
    fn new(
        matching: Arc<Matching>,
        schema: SchemaRef,
        left: &Arc<dyn ExecutionPlan>,
        input: SendableRecordBatchStream,
    ) -> Result<Walk> {
        let types = matching.by.iter().map(|(of_left, _)| of_left.data_type(&left.schema()));
        let types = types.collect::<Result<Vec<_>>>()?.into_iter().zip(matching.options());
        let mut fields: Vec<_> = types.map(|(ty, options)| SortField::new_with_options(ty, options)).collect();
        let time = fields.pop().ok_or_else(|| external(model::Error::bug("an ASOF JOIN without times")))?;
        let keys = if fields.is_empty() { None } else { Some(RowConverter::new(fields)?) };
        let times = RowConverter::new(vec![time])?;
        Ok(Walk {
            matching,
            schema,
            keys,
            times,
            input: input.fuse(),
            left: None,
            seen: Vec::new(),
            unmatched: Vec::new(),
            right: None,
            passed: None,
        })
    }

    fn keyed(&self, batch: &RecordBatch, is_left: bool) -> Result<Keyed> {
        let value = |(left, right): &(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)| -> Result<ArrayRef> {
            let expr = if is_left { left } else { right };
            expr.evaluate(batch)?.into_array(batch.num_rows())
        };
        let mut columns = self.matching.by.iter().map(value).collect::<Result<Vec<_>>>()?;
        let nulls = columns.iter().map(|column| column.logical_nulls());
        let mut valid = nulls.fold(None, |all, one| NullBuffer::union(all.as_ref(), one.as_ref()));
        if let Some(candidates) = self.matching.candidates.as_ref().filter(|_| !is_left) {
            let mask = candidates.evaluate(batch)?.into_array(batch.num_rows())?;
            let mask = NullBuffer::new(fulfilled(&mask).values().clone());
            valid = NullBuffer::union(valid.as_ref(), Some(&mask));
        }
        let time: Vec<ArrayRef> = columns.pop().into_iter().collect();
        let keys = self.keys.as_ref().map(|keys| keys.convert_columns(&columns)).transpose()?;
        Ok(Keyed { keys, times: self.times.convert_columns(&time)?, valid })
    }

    /// Joins rows of a batch of the left side until there is something to return: rows of the right side without a match, or
    /// the matches of many batches or all. What is left of the batch becomes the current one again.
    async fn join(&mut self, mut left: Left) -> Result<RecordBatch> {
        while left.at < left.batch.num_rows() && self.seen.len() <= SEEN_MAX {
            let mut place = None;
            if left.keyed.is_valid(left.at) {
                if !self.pass(&left).await? {
                    self.left = Some(left);
                    return Ok(RecordBatch::new_empty(Arc::clone(&self.schema)));
                }
                let passed = self.passed.as_ref().filter(|passed| passed.key == left.keyed.key(left.at));
                place = passed.map(|passed| passed.place);
            }
            if place.is_some() || keeps_left(self.matching.kind) {
                left.rows.push(left.at as u32);
                left.places.push(place);
            }
            left.at += 1;
        }
        let (rows, places) = (std::mem::take(&mut left.rows), std::mem::take(&mut left.places));
        let joined = self.joined(&left.batch, rows, &places)?;
        let joined = self.checked(joined, left.batch.num_columns(), &places)?;
        self.forget()?;
        if left.at < left.batch.num_rows() {
            self.left = Some(left);
        }
        Ok(joined)
    }

    /// Takes the matches away that do not fulfil the further condition, and notes the others.
    ///
    /// - `width`: number of columns of the left side.
    /// - `places`: of the matches.
    fn checked(&mut self, joined: RecordBatch, width: usize, places: &[Option<(usize, usize)>]) -> Result<RecordBatch> {
        let Some(also) = self.matching.also.as_ref().filter(|_| joined.num_rows() > 0) else {
            self.note(places.iter().flatten());
            return Ok(joined);
        };
        let fulfilled = fulfilled(&also.evaluate(&joined)?.into_array(joined.num_rows())?);
        self.note(
            places.iter().enumerate().filter(|(at, _)| fulfilled.value(*at)).filter_map(|(_, place)| place.as_ref()),
        );
        if !keeps_left(self.matching.kind) {
            return Ok(filter_record_batch(&joined, &fulfilled)?);
        }
        let failed = not(&fulfilled)?;
        let columns = joined.columns().iter().enumerate().map(|(at, column)| match at < width {
            true => Ok(Arc::clone(column)),
            false => nullif(column, &failed),
        });
        let columns = columns.collect::<std::result::Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(joined.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }

    /// Notes rows of the right side that are matches, if others are kept too.
    fn note<'p>(&mut self, places: impl Iterator<Item = &'p (usize, usize)>) {
        if keeps_right(self.matching.kind) {
            places.for_each(|(batch, row)| self.seen[*batch].is_matched[*row] = true);
        }
    }

    /// Drops batches of the right side that no further row can match.
    fn forget(&mut self) -> Result<()> {
        let passed = self.passed.as_ref().map(|passed| passed.place.0);
        let current = self.right.as_ref().map(|right| right.batch);
        let mut places = Vec::with_capacity(self.seen.len());
        let mut kept = Vec::new();
        for (at, seen) in std::mem::take(&mut self.seen).into_iter().enumerate() {
            places.push(kept.len());
            match [passed, current].contains(&Some(at)) {
                true => kept.push(seen),
                false => self.drop_batch(&seen)?,
            }
        }
        self.seen = kept;
        self.passed.iter_mut().for_each(|passed| passed.place.0 = places[passed.place.0]);
        self.right.iter_mut().for_each(|right| right.batch = places[right.batch]);
        Ok(())
    }

    /// Returns the rows of a batch that are kept without a match.
    fn drop_batch(&mut self, seen: &Seen) -> Result<()> {
        let rows: Vec<u32> =
            (0..).zip(&seen.is_matched).filter(|(_, is_matched)| !**is_matched).map(|one| one.0).collect();
        if rows.is_empty() {
            return Ok(());
        }
        let width = self.schema.fields().len() - seen.batch.num_columns();
        let nothing = self.schema.fields().iter().take(width);
        let mut columns: Vec<ArrayRef> = nothing.map(|field| new_null_array(field.data_type(), rows.len())).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let rows = UInt32Array::from(rows);
        for column in seen.batch.columns() {
            columns.push(take(column, &rows, None)?);
        }
        self.unmatched.push(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?);
        Ok(())
    }

    /// Without further rows of the left side, returns the rows of the right one that are kept, a batch at a time; false at their
    /// end.
    async fn end(&mut self) -> Result<bool> {
        if !keeps_right(self.matching.kind) {
            return Ok(false);
        }
        (self.passed, self.right) = (None, None);
        self.forget()?;
        let Some(batch) = self.input.next().await.transpose()? else { return Ok(!self.unmatched.is_empty()) };
        let is_matched = vec![false; batch.num_rows()];
        self.drop_batch(&Seen { batch, is_matched })?;
        Ok(true)
    }

    /// Passes all rows of the right side that are not after the current row of the left side; false if it was interrupted
    /// because there are rows without a match to return.
    async fn pass(&mut self, left: &Left) -> Result<bool> {
        let (key, time) = (left.keyed.key(left.at), left.keyed.times.row(left.at));
        loop {
            let Some(right) = self.right.as_mut().filter(|right| right.at < right.rows) else {
                if !self.advance(left.last_batch()).await? {
                    return Ok(true);
                }
                if !self.unmatched.is_empty() {
                    return Ok(false);
                }
                continue;
            };
            let at = right.at;
            if right.keyed.is_valid(at) {
                let order = right.keyed.key(at).cmp(key).then_with(|| right.keyed.times.row(at).cmp(&time));
                if order.is_gt() || self.matching.strict && order.is_eq() {
                    return Ok(true);
                }
                let passed = self.passed.get_or_insert_with(|| Passed { key: Vec::new(), place: (0, 0) });
                passed.key.clear();
                passed.key.extend_from_slice(right.keyed.key(at));
                passed.place = (right.batch, at);
            }
            right.at += 1;
        }
    }

    /// Reads the next batch of the right side; false at its end. Batches after `used`, which have no match, are dropped unless
    /// their last row may become one.
    async fn advance(&mut self, used: Option<usize>) -> Result<bool> {
        let Some(batch) = self.input.next().await.transpose()? else { return Ok(false) };
        let from = used.map_or(0, |used| used + 1).min(self.seen.len());
        let passed = self.passed.as_ref().map(|passed| passed.place.0);
        for (at, seen) in (from..).zip(self.seen.split_off(from)) {
            if passed != Some(at) {
                self.drop_batch(&seen)?;
                continue;
            }
            self.passed.iter_mut().for_each(|passed| passed.place.0 = self.seen.len());
            self.seen.push(seen);
        }
        let (keyed, rows) = (self.keyed(&batch, false)?, batch.num_rows());
        let is_matched = if keeps_right(self.matching.kind) { vec![false; rows] } else { Vec::new() };
        self.seen.push(Seen { batch, is_matched });
        self.right = Some(Right { batch: self.seen.len() - 1, keyed, rows, at: 0 });
        Ok(true)
    }

    /// Output rows for a batch of the left side and its matches.
    fn joined(&self, left: &RecordBatch, rows: Vec<u32>, places: &[Option<(usize, usize)>]) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let mut columns: Vec<ArrayRef> = if rows.len() == left.num_rows() {
            left.columns().to_vec()
        } else {
            let rows = UInt32Array::from(rows);
            left.columns().iter().map(|column| take(column, &rows, None)).collect::<std::result::Result<_, _>>()?
        };
        // Source 0 is a row of NULLs.
        let places: Vec<(usize, usize)> =
            places.iter().map(|place| place.map_or((0, 0), |(batch, row)| (batch + 1, row))).collect();
        let fields = self.schema.fields().iter().skip(left.num_columns());
        for (at, field) in fields.enumerate() {
            let nothing = new_null_array(field.data_type(), 1);
            let seen = self.seen.iter().map(|seen| seen.batch.column(at).as_ref());
            let sources: Vec<&dyn Array> = std::iter::once(nothing.as_ref()).chain(seen).collect();
            columns.push(interleave(&sources, &places)?);
        }
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}
