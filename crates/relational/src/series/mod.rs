//! Executor of series statements: short, frequently repeated queries over one `columns` table (rows of given series
//! and times, the newest rows, aggregates by series and time bucket) that bypass DataFusion's physical planner.
//!
//! A statement is planned once, and its plan is matched against the supported patterns (`shape`). Each run binds
//! the parameters, scans the store, and filters, groups and sorts with DataFusion's own expressions and accumulators,
//! synchronously on the calling thread. A run has a budget. When a statement exceeds it, aggregates and unordered
//! rows continue on threads of their own (`long`, `stream`); other statements fall back to DataFusion, whose
//! operators use all threads and account for memory.
//!
//! Always true: a statement has the same result in this executor and in DataFusion (`SET enable_series = off` sends
//! all statements to DataFusion).

mod few;
mod fields;
mod groups;
mod long;
mod partial;
mod rows;
mod runs;
mod shape;
mod stream;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use columns::ScanStats;
use datafusion::arrow::compute::{filter_record_batch, prep_null_mask_filter, take_record_batch};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::execution::context::SessionState;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{EmitTo, Expr};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion::physical_plan::aggregates::group_values::new_group_values;
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use datafusion::scalar::ScalarValue;
use engine::{ScanRequest, TableView};
use model::{Error, Result};

use self::groups::Grouper;
use self::rows::{Backwards, Reading, Window, batch_of};
pub use self::shape::Shape;
use self::shape::{Body, Count, Groups, Step};
pub use self::stream::Streamed;
use crate::errors::OrError;
use crate::memory::Reserved;
use crate::scan::ReadContext;
use crate::scan::columns_table::{BATCH_ROWS, Selection, relabel};
use crate::scan::predicate::{Keep, Kept};

type Physical = Arc<dyn PhysicalExpr>;

/// Values (rows times columns) that a statement may read before it falls back to DataFusion: a few milliseconds of
/// work.
const BUDGET_VALUES: u64 = 4 << 20;
/// Upper bound of the budget when block statistics cover most of the rows.
const BUDGET_VALUES_MAX: u64 = 16 << 20;
/// Bytes of buffered rows; a statement with larger values falls back to DataFusion, which accounts for its memory.
const BUDGET_BYTES: usize = 64 << 20;
/// Bytes of buffered rows that need no reservation.
const FREE_BYTES: usize = 1 << 20;

/// Remaining budget of one run.
struct Budget {
    values: u64,
    columns: u64,
    /// Bytes of rows that the run may still buffer.
    bytes: usize,
    /// Memory of the buffered rows, if they are many.
    memory: Reserved,
    /// Scan statistics so far.
    stats: ScanStats,
    /// Set when nobody waits for the result any more.
    is_over: Option<Arc<AtomicBool>>,
}

impl Budget {
    /// A budget of `values`, for a statement that reads `columns` columns.
    fn new(values: u64, columns: u64, pool: &Arc<dyn MemoryPool>) -> Budget {
        let (memory, stats) = (Reserved::new("Series", pool), ScanStats::default());
        Budget { values, columns, bytes: BUDGET_BYTES, memory, stats, is_over: None }
    }

    /// Deducts `rows`; false if the budget is exceeded, or nobody waits.
    fn take(&mut self, rows: u64) -> bool {
        if self.is_over.as_ref().is_some_and(|is_over| is_over.load(Ordering::Relaxed)) {
            return false;
        }
        let values = rows.saturating_mul(self.columns);
        let enough = values <= self.values;
        self.values = self.values.saturating_sub(values);
        enough
    }

    /// Deducts the bytes of a buffered batch; false if the budget is exceeded.
    fn keep(&mut self, batch: &RecordBatch) -> bool {
        let bytes = batch.get_array_memory_size();
        let enough = bytes <= self.bytes;
        self.bytes = self.bytes.saturating_sub(bytes);
        let used = BUDGET_BYTES - self.bytes;
        enough && (used <= FREE_BYTES || self.memory.resize(used).is_ok())
    }
}

/// Result of a statement.
pub struct Ran {
    /// The rows.
    pub batches: Vec<RecordBatch>,
    /// Rows answered from block statistics instead of being read.
    pub by_statistics: u64,
    /// Scan statistics.
    pub stats: ScanStats,
    /// Threads used.
    pub threads: usize,
}

/// Table snapshot, scan request and window of one run.
pub struct Selected {
    view: TableView,
    request: ScanRequest,
    /// Predicate on rows that the scan request cannot express.
    keep: Option<Keep>,
    window: Window,
    pool: Arc<dyn MemoryPool>,
}

impl Shape {
    /// Matches a query's plan; `None` if it is not a series statement.
    pub(crate) fn of(state: &SessionState, plan: &datafusion::logical_expr::LogicalPlan) -> Option<Shape> {
        shape::of(state, plan)
    }

    /// Runs the statement with these parameter values; `None` if it must fall back to DataFusion.
    ///
    /// # Errors
    /// Errors of reading and of evaluating expressions.
    pub(crate) fn run(
        &self,
        state: &SessionState,
        context: &ReadContext,
        values: &[ScalarValue],
    ) -> Result<Option<Ran>> {
        let Some(mut ran) = self.run_alone(state, context, values)? else { return Ok(None) };
        let Some(union) = &self.union else { return Ok(Some(ran)) };
        for other in &union.others {
            let Some(more) = other.run_alone(state, context, values)? else { return Ok(None) };
            ran.batches.extend(more.batches);
            ran.by_statistics += more.by_statistics;
            ran.stats += more.stats;
        }
        let named = |batch: RecordBatch| batch_of(&union.result, batch.columns().to_vec(), batch.num_rows());
        ran.batches = ran.batches.into_iter().map(named).collect::<Result<_>>()?;
        if union.is_distinct {
            ran.batches = vec![distinct(&ran.batches, &union.result)?];
        }
        Ok(Some(ran))
    }

    fn run_alone(&self, state: &SessionState, context: &ReadContext, values: &[ScalarValue]) -> Result<Option<Ran>> {
        let Some(selected) = self.select(state, context, values)? else { return Ok(None) };
        let Selected { view, request, keep, window, .. } = selected;
        let columns = self.columns_read() as u64 + 1;
        let mut budget = Budget::new(BUDGET_VALUES, columns, &state.runtime_env().memory_pool);
        let reading = Reading { shape: self, view: &view, request, keep };
        let batches = match &self.body {
            Body::Rows(shape) => rows::rows(&reading, shape, window, &mut budget)?,
            Body::Newest(newest) => rows::newest(&reading, newest, window, &mut budget)?,
            Body::Groups(groups) => return self.grouped(&reading, groups, &mut budget),
        };
        Ok(batches.map(|batches| Ran { batches, by_statistics: 0, stats: budget.stats, threads: 1 }))
    }

    /// Maximum number of columns read, including those of predicates.
    fn columns_read(&self) -> usize {
        self.columns.len() + self.tested.iter().filter(|id| !self.columns.contains(id)).count()
    }

    /// Binds the parameter values to a scan of the table; `None` if the statement must fall back to DataFusion.
    ///
    /// # Errors
    /// Errors of key look-ups.
    pub(crate) fn select(
        &self,
        state: &SessionState,
        context: &ReadContext,
        values: &[ScalarValue],
    ) -> Result<Option<Selected>> {
        let view = context.snapshot.table_by_id(self.table.id)?;
        let Some(conditions) = self.bound(state, values) else { return Ok(None) };
        let (Some(skip), Some(fetch)) =
            (number(self.skip, values), self.fetch.map_or(Some(u64::MAX), |fetch| number(fetch, values)))
        else {
            return Ok(None);
        };
        let selection = Selection::of(&self.table, &self.schema, &view, &conditions)?;
        let keep = match selection.rest.into_iter().reduce(Expr::and) {
            Some(rest) => {
                let make = |rest: &Expr, schema| physical(state, rest, &schema).ok();
                // Predicates on keys are evaluated on the row's series; the key columns themselves are not read.
                let Some(keep) = Keep::new(&rest, &self.tested, &self.tested_schema, make) else { return Ok(None) };
                Some(keep)
            }
            None => None,
        };
        let request = ScanRequest {
            columns: self.columns.clone(),
            times: selection.times,
            series: selection.series,
            ranges: selection.ranges,
            batch_rows: BATCH_ROWS,
            limit: None,
            coded: true,
            columns_only: matches!(&self.body, Body::Groups(groups) if groups.is_of_fields()),
        };
        let pool = Arc::clone(&state.runtime_env().memory_pool);
        Ok(Some(Selected { view, request, keep, window: Window { skip, fetch }, pool }))
    }

    fn grouped(&self, reading: &Reading<'_>, groups: &Groups, budget: &mut Budget) -> Result<Option<Ran>> {
        if let Some(enough) = groups.newest {
            let mut grouper = Grouper::new(groups, reading.view, self.time_type()?)?;
            let took_all = self.take_newest(reading, enough, &mut grouper, budget)?;
            return if took_all { self.ran(groups, grouper, (0, 1), budget.stats).map(Some) } else { Ok(None) };
        }
        let (mut grouper, mut rows, by_statistics) = self.begin(groups, reading, reading.request.clone())?;
        // Statistics may already cover most of a long aggregate.
        budget.values = budget.values.max((by_statistics / 2 * budget.columns).min(BUDGET_VALUES_MAX));
        // The number of rows is known in advance, so an oversized statement fails before it reads anything.
        if !budget.take(rows.scan().rows_max()) {
            return Ok(None);
        }
        while let Some(kept) = rows.next()? {
            if grouper.bytes() > GROUPS_BYTES_MAX {
                return Ok(None);
            }
            grouper.take_rows(kept, &self.scanned)?;
        }
        self.ran(groups, grouper, (by_statistics, 1), rows.scan().stats()).map(Some)
    }

    /// Returns the groups answered from block statistics, a scan of the remaining rows, and the number of rows that
    /// statistics saved.
    fn begin<'a>(
        &'a self,
        groups: &'a Groups,
        reading: &'a Reading<'_>,
        request: ScanRequest,
    ) -> Result<(Grouper<'a>, Kept<'a>, u64)> {
        let mut grouper = Grouper::new(groups, reading.view, self.time_type()?)?;
        let mut by_statistics = 0;
        let rows = if groups.by_statistics && reading.keep.is_none() {
            Kept::all(reading.view.scan_without(request, &mut |block| {
                let taken = grouper.take_block(block)?;
                by_statistics += if taken { u64::from(block.meta().rows) } else { 0 };
                Ok(taken)
            })?)
        } else {
            reading.scan(request)?
        };
        grouper.merge_blocks()?;
        Ok((grouper, rows, by_statistics))
    }

    /// Arrow type of the time column in DataFusion's schema.
    fn time_type(&self) -> Result<DataType> {
        let time = self.schema.field_with_name(&self.table.time_column().name).map_err(Error::bug)?;
        Ok(time.data_type().clone())
    }

    /// Reads backwards from the newest rows, in time ranges that double in length, until `enough` groups are
    /// complete. False if the budget is exceeded.
    fn take_newest(
        &self,
        reading: &Reading<'_>,
        enough: u64,
        grouper: &mut Grouper<'_>,
        budget: &mut Budget,
    ) -> Result<bool> {
        let Some(backwards) = Backwards::new(reading.view.pieces(&reading.request)?, enough) else { return Ok(true) };
        let start = grouper.bucket_of(backwards.newest())?;
        let width = start.saturating_sub(grouper.bucket_of(start.saturating_sub(1))?);
        let mut backwards = backwards.of_length(width.saturating_mul(i64::try_from(enough).unwrap_or(i64::MAX)));
        while let Some(times) = backwards.next() {
            let mut rows = reading.scan(ScanRequest { times, ..reading.request.clone() })?;
            let mut seen = 0;
            while let Some(kept) = rows.next()? {
                let seen_before = std::mem::replace(&mut seen, rows.scan().stats().rows);
                if !budget.take(seen - seen_before) || grouper.bytes() > GROUPS_BYTES_MAX {
                    return Ok(false);
                }
                grouper.take_rows(kept, &self.scanned)?;
            }
            budget.stats += rows.scan().stats();
            // The oldest bucket of this range may have older rows, so it is not complete.
            if grouper.after(grouper.bucket_of(times.start)?) >= enough {
                break;
            }
        }
        Ok(true)
    }

    fn ran(
        &self,
        groups: &Groups,
        grouper: Grouper<'_>,
        (by_statistics, threads): (u64, usize),
        stats: ScanStats,
    ) -> Result<Ran> {
        let mut batch = grouper.finish()?;
        for step in &groups.steps {
            batch = step.run(batch)?;
        }
        let batch = relabelled(&batch, &self.result)?;
        Ok(Ran { batches: vec![batch], by_statistics, stats, threads })
    }

    /// WHERE conditions with parameters replaced by values; `None` if a value cannot be substituted.
    fn bound(&self, state: &SessionState, values: &[ScalarValue]) -> Option<Vec<Expr>> {
        let one = |condition: &shape::Condition| {
            if !condition.is_open {
                return Some(condition.expr.clone());
            }
            let expr = with_values(condition.expr.clone(), values)?;
            let is_plain = !expr.exists(|expr| Ok(matches!(expr, Expr::ScalarFunction(_) | Expr::Cast(_)))).ok()?;
            if is_plain {
                return Some(expr);
            }
            let schema = DFSchema::try_from(Arc::clone(&self.schema)).ok()?;
            shape::simplified(state, expr, &Arc::new(schema))
        };
        self.conditions.iter().map(one).collect()
    }

    /// Arrow types of the result's columns.
    fn fields(&self) -> Vec<DataType> {
        self.result.fields().iter().map(|field| field.data_type().clone()).collect()
    }

    /// Whether two statements differ only in the constants of their conditions.
    pub fn is_like(&self, other: &Shape) -> bool {
        self.describe().first() == other.describe().first()
            && self.conditions.len() == other.conditions.len()
            && (&self.columns, &self.tested) == (&other.columns, &other.tested)
            && (self.skip, self.fetch) == (other.skip, other.fetch)
            && self.others().len() == other.others().len()
            && self.others().iter().zip(other.others()).all(|(own, other)| own.is_like(other))
    }

    fn others(&self) -> &[Shape] {
        self.union.as_ref().map_or(&[], |union| &union.others)
    }

    /// Whether every occurrence of parameter `at` is compared with a float column.
    pub fn is_beside_float(&self, at: usize) -> bool {
        let (places, beside) = self.places(at);
        places > 0 && places == beside
    }

    /// Number of occurrences of parameter `at`, and number of those that are compared with a float column.
    fn places(&self, at: usize) -> (usize, usize) {
        let is_it = |expr: &Expr| match expr {
            Expr::Placeholder(placeholder) => shape::parameter(&placeholder.id) == Some(at),
            _ => false,
        };
        let is_float = |expr: &Expr| {
            let columns = expr.column_refs();
            let ty = |name: &str| self.schema.field_with_name(name).map(|field| field.data_type().clone());
            !columns.is_empty() && columns.iter().all(|column| ty(&column.name).is_ok_and(|ty| ty.is_floating()))
        };
        let (mut places, mut beside) = (0, 0);
        for condition in &self.conditions {
            let _ = condition.expr.apply(|expr| {
                places += usize::from(is_it(expr));
                if let Expr::BinaryExpr(both) = expr {
                    beside += usize::from(is_it(&both.left) && is_float(&both.right));
                    beside += usize::from(is_it(&both.right) && is_float(&both.left));
                }
                Ok(TreeNodeRecursion::Continue)
            });
        }
        for (in_other, beside_there) in self.others().iter().map(|other| other.places(at)) {
            places += in_other;
            beside += beside_there;
        }
        (places, beside)
    }

    /// Lines for EXPLAIN.
    pub fn describe(&self) -> Vec<String> {
        let what = match &self.body {
            Body::Rows(rows) => format!("rows, order={:?}", rows.order).to_lowercase(),
            Body::Newest(_) => "the newest row of each series".to_owned(),
            Body::Groups(groups) => {
                let by = if groups.by_statistics { ", statistics where blocks are whole" } else { "" };
                format!("aggregates={}, keys={}{by}", groups.aggregates.len(), groups.by.len())
            }
        };
        let mut lines = vec![format!("Series statement: table={}, {what}", self.table.name)];
        lines.extend(self.conditions.iter().map(|condition| format!("  where {}", condition.expr)));
        if let Some(union) = &self.union {
            lines.push(if union.is_distinct { "union with" } else { "union all with" }.to_owned());
            lines.extend(union.others.iter().flat_map(Shape::describe));
        }
        lines
    }
}

/// Bytes of group state; a statement that needs more falls back to DataFusion, which accounts for its memory.
const GROUPS_BYTES_MAX: usize = 64 << 20;

impl Step {
    fn run(&self, batch: RecordBatch) -> Result<RecordBatch> {
        match self {
            Step::Keep(keep) => filter_record_batch(&batch, &mask(keep, &batch)?).map_err(Error::bug),
            Step::Project(exprs, schema) => project(exprs, &batch, schema),
            Step::Sort(sort) => take_record_batch(&batch, &rows::order(&batch, sort, None)?).map_err(Error::bug),
            Step::Limit(skip, fetch) => {
                let rows = batch.num_rows();
                let from = usize::try_from(*skip).unwrap_or(usize::MAX).min(rows);
                let most = fetch.map_or(rows, |fetch| usize::try_from(fetch).unwrap_or(usize::MAX));
                Ok(batch.slice(from, most.min(rows - from)))
            }
        }
    }
}

fn number(count: Count, values: &[ScalarValue]) -> Option<u64> {
    match count {
        Count::Of(count) => Some(count),
        Count::Parameter(at) => match values.get(at)? {
            ScalarValue::Int64(Some(count)) => u64::try_from(*count).ok(),
            _ => None,
        },
    }
}

/// Replaces parameters by values and folds casts of literals; `None` if a parameter has no value.
fn with_values(expr: Expr, values: &[ScalarValue]) -> Option<Expr> {
    let mut known = true;
    let rewrite = |expr: Expr| {
        Ok(match expr {
            Expr::Placeholder(placeholder) => match shape::parameter(&placeholder.id).and_then(|at| values.get(at)) {
                Some(value) => Transformed::yes(Expr::Literal(value.clone(), None)),
                None => {
                    known = false;
                    Transformed::no(Expr::Placeholder(placeholder))
                }
            },
            Expr::Cast(cast) => match cast.expr.as_ref() {
                Expr::Literal(value, _) => match value.cast_to(cast.field.data_type()) {
                    Ok(value) => Transformed::yes(Expr::Literal(value, None)),
                    Err(_) => Transformed::no(Expr::Cast(cast)),
                },
                _ => Transformed::no(Expr::Cast(cast)),
            },
            other => Transformed::no(other),
        })
    };
    let expr = expr.transform_up(rewrite).ok()?.data;
    known.then_some(expr)
}

fn physical(state: &SessionState, expr: &Expr, schema: &DFSchema) -> datafusion::error::Result<Physical> {
    create_physical_expr(expr, schema, state.execution_props(), &PhysicalPlanningContext::default())
}

/// Rows that pass the filter; NULL does not pass.
fn mask(keep: &Physical, batch: &RecordBatch) -> Result<BooleanArray> {
    let mask = keep.evaluate(batch).and_then(|mask| mask.into_array(batch.num_rows())).or_error()?;
    let mask = mask.as_boolean();
    Ok(if arrow_array::Array::null_count(mask) > 0 { prep_null_mask_filter(mask) } else { mask.clone() })
}

/// Casts a batch to the types of `schema`, so that timestamps have the session's time zone.
fn relabelled(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let arrays = batch.columns().iter().zip(schema.fields());
    let arrays = arrays.map(|(array, field)| relabel(Arc::clone(array), field.data_type())).collect();
    batch_of(schema, arrays, batch.num_rows())
}

/// Removes duplicate rows, with the equality of DataFusion's GROUP BY.
fn distinct(batches: &[RecordBatch], schema: &SchemaRef) -> Result<RecordBatch> {
    let mut values = new_group_values(Arc::clone(schema), &GroupOrdering::None).or_error()?;
    let mut groups = Vec::new();
    for batch in batches {
        let columns: Vec<ArrayRef> = batch.columns().iter().map(crate::evaluation::keys::canonical_floats).collect();
        values.intern(&columns, &mut groups).or_error()?;
    }
    let rows = values.len();
    batch_of(schema, values.emit(EmitTo::All).or_error()?, rows)
}

fn project(exprs: &[Physical], batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let rows = batch.num_rows();
    let array = |expr: &Physical| expr.evaluate(batch).and_then(|value| value.into_array(rows)).or_error();
    let arrays = exprs.iter().map(array).collect::<Result<Vec<ArrayRef>>>()?;
    let arrays = arrays.into_iter().zip(schema.fields()).map(|(array, field)| relabel(array, field.data_type()));
    batch_of(schema, arrays.collect(), rows)
}
