//! A subquery for each row: correlated subqueries, and lateral joins.
//!
//! The subquery reads the row's columns by [`OuterRow`], which is set before each run. Results of scalar subqueries are
//! kept by these columns, so equal rows cost one run; an uncorrelated subquery runs once.
//!
//! A subquery that depends on outer rows by equalities only has a second plan, which gives the results for many keys at once
//! (`keyed`).

use std::sync::Arc;
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::{Array as _, ArrayRef, RecordBatch, UInt32Array};
use async_trait::async_trait;
use bumpalo::Bump;
use catalog::TypeId;
use datafusion::arrow::compute::{concat_batches, take};
use datafusion::common::{DataFusionError, Result as DfResult, ScalarValue};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use futures::StreamExt;
use model::{Array, Datum, Error, Result, SqlState};
use rustc_hash::{FxHashMap, FxHashSet};
use scalar::{Call, Comparison, Context, Session, Value};

use super::Operator;
use super::exec::{Run, Source, pause};
use super::keyed::{BatchKeys, Found as ByKey, Keyed, push_key};
use crate::arrow::{Builder, datum, encode};
use crate::errors::external;
use crate::evaluation::keys::{AskedKeys, OuterRow};

/// Rows of lateral joins that are collected for a batch.
const ROWS_WANTED: usize = 4_096;
/// Maximum number of results that are kept.
const RESULTS_MAX: usize = 65_536;

/// A subquery.
#[derive(Debug)]
pub(crate) struct Apply {
    pub(crate) row: Arc<OuterRow>,
    /// Types of the outer row's columns: the first ones of the operator's expressions.
    pub(crate) outer: Vec<TypeId>,
    pub(crate) kind: Kind,
    /// Whether the last of the operator's expressions is a condition: without it the result is NULL, and the subquery does
    /// not run.
    pub(crate) is_guarded: bool,
    /// The keys by which the third input has the results for many outer rows. They are the last of the operator's expressions and of
    /// the third input's columns, with a type there and a type here.
    pub(crate) keys: Vec<[TypeId; 2]>,
    /// The key by which the third input leaves out rows that are not asked for.
    pub(crate) asked: Option<(usize, Arc<AskedKeys>)>,
    /// Type of the result.
    pub(crate) ty: TypeId,
    /// Types of the subquery's columns.
    pub(crate) columns: Vec<TypeId>,
    pub(crate) session: Arc<Session>,
    pub(crate) zone: Arc<str>,
}

/// The value that the rows of the subquery become.
#[derive(Debug)]
pub(crate) enum Kind {
    /// The value of the only row.
    Scalar,
    /// Whether there is one.
    Exists,
    /// An array of elements of a type.
    Array(u32),
    /// A comparison with them; the left operands follow the outer row's columns in the operator's expressions.
    Quantified(Quantified),
    /// Columns next to those of the outer row; NULLs for a row without, if so wished.
    Rows { outer: bool },
}

/// `left = ANY (subquery)` and its like.
#[derive(Debug)]
pub(crate) struct Quantified {
    pub(crate) all: bool,
    /// Types of the left operands.
    pub(crate) left: Vec<TypeId>,
    pub(crate) calls: Vec<Call>,
    pub(crate) any_column: bool,
    pub(crate) order: Option<Comparison>,
    /// Whether the calls are equalities of keys (or their opposite), so that rows are found by their keys.
    pub(crate) is_keyed: bool,
}

/// Result of one run of the subquery.
#[derive(Debug)]
pub(super) enum Answer {
    Value(Value),
    Rows(Box<Found>),
}

/// Rows that operands are compared with.
#[derive(Debug)]
pub(super) struct Found {
    rows: Vec<Vec<Value>>,
    /// Keys of rows without NULL, if the comparison is by keys.
    keys: FxHashSet<Box<[u8]>>,
    has_null: bool,
}

/// The running operator.
pub(super) struct Running {
    operator: Arc<Operator>,
    source: Source,
    query: Arc<dyn ExecutionPlan>,
    keyed: Option<Keyed>,
    /// The result of an outer row whose key no row of the subquery has, once it was asked for.
    missing: Option<Arc<Answer>>,
    context: Arc<TaskContext>,
    answers: FxHashMap<Box<[u8]>, Arc<Answer>>,
    lateral: Option<Lateral>,
    is_first: bool,
}

/// A lateral join between batches.
struct Lateral {
    batch: RecordBatch,
    values: Vec<ArrayRef>,
    row: usize,
    rows: Option<SendableRecordBatchStream>,
    /// Rows of the subquery that are left of a batch.
    left: Option<RecordBatch>,
    found: bool,
}

impl Running {
    pub(super) fn new(
        operator: Arc<Operator>,
        source: Source,
        query: Arc<dyn ExecutionPlan>,
        all: Option<Arc<dyn ExecutionPlan>>,
        context: Arc<TaskContext>,
    ) -> Running {
        let keyed = all.map(|plan| Keyed::new(plan, Arc::clone(&context), source.memory.new_empty()));
        Running {
            operator,
            source,
            query,
            keyed,
            missing: None,
            context,
            answers: FxHashMap::default(),
            lateral: None,
            is_first: true,
        }
    }

    fn execute(&mut self, apply: &Apply, values: &[ArrayRef], row: usize) -> DfResult<SendableRecordBatchStream> {
        let outer = values.iter().take(apply.outer.len());
        apply.row.set(outer.map(|column| ScalarValue::try_from_array(column, row)).collect::<DfResult<_>>()?);
        if !std::mem::take(&mut self.is_first) {
            self.query = reset_plan_states(Arc::clone(&self.query))?;
        }
        self.query.execute(0, Arc::clone(&self.context))
    }

    async fn answer(
        &mut self,
        apply: &Apply,
        values: &[ArrayRef],
        keys: Option<&BatchKeys>,
        row: usize,
    ) -> DfResult<Arc<Answer>> {
        if let (Some(keyed), Some(keys)) = (&mut self.keyed, keys) {
            let mut found = keyed.get(keys, row);
            if found.is_none() {
                keyed.run_if_it_pays(apply, keys).await?;
                found = keyed.get(keys, row);
            }
            match found {
                Some(ByKey::One(answer)) => return Ok(answer),
                Some(ByKey::Several) => return Err(several_rows()),
                Some(ByKey::Nothing) => return self.missing(apply, values, row).await,
                None => {}
            }
        }
        let mut key = Vec::new();
        for (column, ty) in values.iter().zip(&apply.outer) {
            encode(&datum(column.as_ref(), row, *ty).map_err(external)?, &mut key);
        }
        if let Some(answer) = self.answers.get(key.as_slice()) {
            return Ok(Arc::clone(answer));
        }
        let started = Instant::now();
        let rows = self.execute(apply, values, row)?;
        let answer = Arc::new(collect(apply, rows, self.source.memory.new_empty()).await?);
        if let Some(keyed) = &mut self.keyed {
            keyed.ran(started.elapsed());
        }
        if self.answers.len() < RESULTS_MAX {
            self.source.memory.try_grow(key.len() + size_of::<Answer>() + answer.bytes())?;
            self.answers.insert(key.into(), Arc::clone(&answer));
        }
        pause().await;
        Ok(answer)
    }

    /// The result of a row whose key no row of the subquery has.
    async fn missing(&mut self, apply: &Apply, values: &[ArrayRef], row: usize) -> DfResult<Arc<Answer>> {
        if let Some(answer) = &self.missing {
            return Ok(Arc::clone(answer));
        }
        let rows = self.execute(apply, values, row)?;
        let answer = Arc::new(collect(apply, rows, self.source.memory.new_empty()).await?);
        self.missing = Some(Arc::clone(&answer));
        Ok(answer)
    }

    async fn values(&mut self, apply: &Apply) -> DfResult<Option<RecordBatch>> {
        let Some(batch) = self.source.batch().await? else { return Ok(None) };
        let values = self.source.values(&batch)?;
        let mut builder = Builder::new(apply.ty, &apply.zone, batch.num_rows());
        let mut arena = Bump::new();
        let guard = values.len().checked_sub(apply.keys.len() + 1).filter(|_| apply.is_guarded);
        let guard = guard.and_then(|at| values[at].as_boolean_opt());
        let keyed = self.keyed.as_ref().filter(|keyed| keyed.is_of_use());
        let keys = keyed.map(|_| BatchKeys::of(apply, &values)).transpose().map_err(external)?;
        for row in 0..batch.num_rows() {
            if guard.is_some_and(|guard| guard.is_null(row) || !guard.value(row)) {
                builder.push(&Datum::Null).map_err(external)?;
                continue;
            }
            let answer = self.answer(apply, &values, keys.as_ref(), row).await?;
            match &*answer {
                Answer::Value(value) => builder.push(&value.datum()).map_err(external)?,
                Answer::Rows(found) => {
                    arena.reset();
                    let Kind::Quantified(quantified) = &apply.kind else { continue };
                    let ctx = Context { arena: &arena, session: &apply.session };
                    let left = values.iter().skip(apply.outer.len()).zip(&quantified.left);
                    let left = left.map(|(column, ty)| datum(column.as_ref(), row, *ty));
                    let left: Vec<Datum<'_>> = left.collect::<Result<_>>().map_err(external)?;
                    let result = quantified.test(&left, found, &ctx).map_err(external)?;
                    builder.push(&result.map_or(Datum::Null, Datum::Bool)).map_err(external)?;
                }
            }
        }
        let columns = batch.columns().iter().cloned().chain([builder.finish()]).collect();
        self.source.output(columns, batch.num_rows()).map(Some)
    }

    async fn rows(&mut self, apply: &Apply, outer: bool) -> DfResult<Option<RecordBatch>> {
        let mut collected: Vec<RecordBatch> = Vec::new();
        let mut count = 0;
        let wanted = ROWS_WANTED.min(self.source.batch_rows);
        while count < wanted {
            let Some(mut lateral) = self.lateral.take() else {
                let Some(batch) = self.source.batch().await? else { break };
                let values = self.source.values(&batch)?;
                self.lateral = Some(Lateral { batch, values, row: 0, rows: None, left: None, found: false });
                continue;
            };
            if lateral.rows.is_none() {
                if lateral.row >= lateral.batch.num_rows() {
                    continue;
                }
                lateral.rows = Some(self.execute(apply, &lateral.values, lateral.row)?);
            }
            let next = match (lateral.left.take(), &mut lateral.rows) {
                (Some(left), _) => Some(left),
                (None, Some(rows)) => rows.next().await.transpose()?,
                (None, None) => None,
            };
            match next {
                Some(right) if right.num_rows() > 0 => {
                    lateral.found = true;
                    // The outer row, which may be long, is repeated for each row.
                    let taken = right.num_rows().min(wanted - count);
                    lateral.left = (taken < right.num_rows()).then(|| right.slice(taken, right.num_rows() - taken));
                    let right = right.slice(0, taken);
                    count += taken;
                    collected.push(self.beside(&lateral, right.columns().to_vec(), right.num_rows())?);
                }
                Some(_) => {}
                None => {
                    if outer && !lateral.found {
                        let kept = lateral.batch.num_columns();
                        let nulls = self.source.schema.fields().iter().skip(kept);
                        let nulls = nulls.map(|field| arrow_array::new_null_array(field.data_type(), 1)).collect();
                        collected.push(self.beside(&lateral, nulls, 1)?);
                        count += 1;
                    }
                    lateral.rows = None;
                    lateral.found = false;
                    lateral.row += 1;
                    pause().await;
                }
            }
            self.lateral = Some(lateral);
        }
        match collected.as_slice() {
            [] => Ok(None),
            batches => Ok(Some(concat_batches(&self.source.schema, batches)?)),
        }
    }

    /// The columns of the outer row next to those of `count` rows.
    fn beside(&self, lateral: &Lateral, columns: Vec<ArrayRef>, count: usize) -> DfResult<RecordBatch> {
        let rows = UInt32Array::from(vec![lateral.row as u32; count]);
        let kept = lateral.batch.columns().iter().map(|column| take(column, &rows, None));
        let kept = kept.collect::<Result<Vec<_>, _>>()?;
        self.source.output(kept.into_iter().chain(columns).collect(), count)
    }
}

#[async_trait]
impl Run for Running {
    async fn next(&mut self) -> DfResult<Option<RecordBatch>> {
        let operator = Arc::clone(&self.operator);
        let Operator::Apply(apply) = &*operator else { return Ok(None) };
        match apply.kind {
            Kind::Rows { outer } => self.rows(apply, outer).await,
            _ => self.values(apply).await,
        }
    }
}

/// Reads the rows of one run.
async fn collect(apply: &Apply, mut rows: SendableRecordBatchStream, memory: MemoryReservation) -> DfResult<Answer> {
    let mut found = Found { rows: Vec::new(), keys: FxHashSet::default(), has_null: false };
    let mut value = Value::NULL;
    let mut count = 0_usize;
    while let Some(batch) = rows.next().await.transpose()? {
        count += batch.num_rows();
        match &apply.kind {
            Kind::Exists if count > 0 => return Ok(Answer::Value(boolean(Some(true)))),
            Kind::Exists => {}
            Kind::Scalar if count > 1 => return Err(several_rows()),
            Kind::Scalar => {
                if batch.num_rows() > 0 {
                    value = apply.values(&batch, 0).map_err(external)?.pop().unwrap_or(Value::NULL);
                }
            }
            _ => {
                memory.try_grow(batch.get_array_memory_size())?;
                for row in 0..batch.num_rows() {
                    found.push(apply, apply.values(&batch, row).map_err(external)?).map_err(external)?;
                }
            }
        }
    }
    Ok(match &apply.kind {
        Kind::Exists => Answer::Value(boolean(Some(false))),
        Kind::Array(element) => {
            let items = found.rows.iter().filter_map(|row| row.first()).map(Value::datum).collect();
            Answer::Value(Value::of(&Datum::Array(Arc::new(Array::of(*element, items)))))
        }
        Kind::Quantified(_) => Answer::Rows(Box::new(found)),
        _ => Answer::Value(value),
    })
}

fn several_rows() -> DataFusionError {
    let text = "more than one row returned by a subquery used as an expression";
    external(Error::new(SqlState::CARDINALITY_VIOLATION, text))
}

fn boolean(value: Option<bool>) -> Value {
    Value::Plain(value.map_or(Datum::Null, Datum::Bool))
}

impl Apply {
    /// Whether one row is expected.
    pub(super) fn is_scalar(&self) -> bool {
        matches!(self.kind, Kind::Scalar)
    }

    /// The result for the key of a row of the third input.
    pub(super) fn answer(&self, batch: &RecordBatch, row: usize) -> Result<Answer> {
        Ok(Answer::Value(match self.kind {
            Kind::Exists => boolean(Some(true)),
            _ => self.values(batch, row)?.pop().unwrap_or(Value::NULL),
        }))
    }

    fn values(&self, batch: &RecordBatch, row: usize) -> Result<Vec<Value>> {
        let columns = batch.columns().iter().zip(&self.columns);
        columns.map(|(column, ty)| datum(column.as_ref(), row, *ty).map(|value| Value::of(&value))).collect()
    }
}

impl Answer {
    pub(super) fn bytes(&self) -> usize {
        match self {
            Answer::Value(value) => value.heap_size(),
            Answer::Rows(found) => {
                let values = found.rows.iter().flatten().map(|value| size_of::<Value>() + value.heap_size());
                values.sum::<usize>() + found.keys.iter().map(|key| key.len() + 32).sum::<usize>()
            }
        }
    }
}

impl Found {
    fn push(&mut self, apply: &Apply, row: Vec<Value>) -> Result<()> {
        let Kind::Quantified(quantified) = &apply.kind else {
            self.rows.push(row);
            return Ok(());
        };
        if !quantified.is_keyed {
            self.rows.push(row);
            return Ok(());
        }
        if row.iter().any(Value::is_null) {
            self.has_null = true;
            return Ok(());
        }
        let mut bytes = Vec::new();
        for (value, ty) in row.iter().zip(&apply.columns) {
            push_key(&value.datum(), *ty, &mut bytes)?;
        }
        self.keys.insert(bytes.into());
        Ok(())
    }
}

impl Quantified {
    fn test<'a>(&'a self, left: &[Datum<'a>], found: &'a Found, ctx: &Context<'a>) -> Result<Option<bool>> {
        if self.is_keyed {
            return self.test_key(left, found);
        }
        let mut unknown = false;
        for row in &found.rows {
            let right: Vec<Datum<'a>> = row.iter().map(Value::datum).collect();
            match self.compare(left, &right, ctx)? {
                Some(value) if value != self.all => return Ok(Some(value)),
                Some(_) => {}
                None => unknown = true,
            }
        }
        Ok((!unknown).then_some(self.all))
    }

    /// One column: `=` of ANY, or `<>` of ALL.
    fn test_key(&self, left: &[Datum<'_>], found: &Found) -> Result<Option<bool>> {
        if found.keys.is_empty() && !found.has_null {
            return Ok(Some(self.all));
        }
        if left.iter().any(Datum::is_null) {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        for (value, ty) in left.iter().zip(&self.left) {
            push_key(value, *ty, &mut bytes)?;
        }
        if found.keys.contains(bytes.as_slice()) {
            return Ok(Some(!self.all));
        }
        Ok((!found.has_null).then_some(self.all))
    }

    fn compare<'a>(&'a self, left: &[Datum<'a>], right: &[Datum<'a>], ctx: &Context<'a>) -> Result<Option<bool>> {
        let pairs = left.iter().zip(right).zip(&self.calls);
        if let Some(order) = self.order {
            return compare_rows(order, pairs, ctx);
        }
        let mut unknown = false;
        for ((left, right), call) in pairs {
            match scalar::eval::apply(call, &[left.clone(), right.clone()], ctx)? {
                Datum::Bool(value) if value == self.any_column => return Ok(Some(value)),
                Datum::Bool(_) => {}
                _ => unknown = true,
            }
        }
        Ok((!unknown).then_some(!self.any_column))
    }
}

/// Compares rows by their first columns that differ.
fn compare_rows<'r, 'a: 'r>(
    comparison: Comparison,
    pairs: impl Iterator<Item = ((&'r Datum<'a>, &'r Datum<'a>), &'r Call)>,
    ctx: &Context<'a>,
) -> Result<Option<bool>> {
    for ((left, right), call) in pairs {
        if left.is_null() || right.is_null() {
            return Ok(None);
        }
        if matches!(scalar::eval::apply(call, &[left.clone(), right.clone()], ctx)?, Datum::Bool(true)) {
            return Ok(Some(true));
        }
        let ty = call.arguments.first().copied().unwrap_or_default();
        if scalar::compare(ty, left, right)? != std::cmp::Ordering::Equal {
            return Ok(Some(false));
        }
    }
    Ok(Some(matches!(comparison, Comparison::LessEqual | Comparison::GreaterEqual)))
}
