//! Planning and execution of SELECT, VALUES and WITH; a plan is reused by later executions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::RecordBatch;
use arrow_schema::DataType as Arrow;
use datafusion::common::ParamValues;
use datafusion::execution::context::SessionState;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::stream::{RecordBatchReceiverStream, RecordBatchStreamAdapter};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, execute_stream};
use datafusion::scalar::ScalarValue;
use engine::Catalog;
use futures::StreamExt;
use model::{Error, Result};

use crate::binding::{self, Bound, Planned};
use crate::cancellation::Interrupt;
use crate::context::StatementContext;
use crate::database::Database;
use crate::errors::{OrError, convert, locate};
use crate::memory::counted;
use crate::rows::Executed;
use crate::series::{self, Shape};
use crate::session::{Batches, Outcome, Plan, Prepared, Session};
use crate::settings::Settings;
use crate::statement::{Command, Parsed, Statement};
use crate::types::{OutputColumn, Value};

/// A planned query, with the catalog and settings it was planned with.
pub(crate) struct QueryPlan {
    /// Absent if the plan is valid for one execution only (queries of catalog tables): it would keep a
    /// snapshot, and memory with it. Also absent for series statements that DataFusion did not plan.
    plan: Option<LogicalPlan>,
    pub(crate) columns: Vec<OutputColumn>,
    /// OIDs of the parameters.
    pub(crate) parameters: Vec<u32>,
    /// Arrow types of the columns.
    pub(crate) fields: Vec<Arrow>,
    /// The plan is valid while catalog and settings are these; `None`: it is never reused.
    valid: Option<(Arc<Catalog>, Arc<Settings>)>,
    /// The plan of a series statement; `None` for other queries.
    pub(crate) series: Option<Arc<Shape>>,
    /// Why the row executor does not run it, for EXPLAIN; `None` if it reads no `rows` table.
    pub(crate) refusal: Option<String>,
}

/// Plans a query for DataFusion and the series executor.
pub(crate) fn plan(session: &mut Session, statement: &Statement, declared: &[u32]) -> Result<QueryPlan> {
    let context = context(session, &statement.0);
    let bound = binding::bind(&context, &statement.0, declared)?;
    Ok(plan_bound(session, &context, &statement.0, bound)?.kept())
}

/// Plans a bound query for DataFusion and the series executor. The plan is for one execution, if it is not [kept](QueryPlan::kept).
pub(crate) fn plan_bound(
    session: &mut Session,
    context: &Arc<StatementContext>,
    parsed: &Parsed,
    bound: Bound,
) -> Result<QueryPlan> {
    let state = session.state(context);
    let planned = plan_in(&state, context, parsed, bound);
    session.keep(state);
    planned
}

/// Snapshot of a query: the newest commit if the query names a `rows` table.
pub(crate) fn context(session: &mut Session, statement: &Parsed) -> Arc<StatementContext> {
    let reads_rows = match &statement.command {
        Command::Query(query) => crate::rows::names_any(session, query),
        _ => false,
    };
    if reads_rows { session.context_of_newest() } else { session.context() }
}

fn plan_in(state: &SessionState, context: &Arc<StatementContext>, parsed: &Parsed, bound: Bound) -> Result<QueryPlan> {
    let Planned { plan, columns, parameters, is_reusable } = bound.lower(state, context, parsed)?;
    let fields = plan.schema().fields().iter().map(|field| field.data_type().clone()).collect();
    let valid = is_reusable.then(|| (Arc::clone(context.snapshot.catalog()), Arc::clone(&context.settings)));
    let is_series = is_reusable && context.rows_view.is_none() && context.settings.enables_series();
    let series = if is_series { Shape::of(state, &plan).map(Arc::new) } else { None };
    Ok(QueryPlan { plan: Some(plan), columns, parameters, fields, valid, series, refusal: None })
}

impl QueryPlan {
    /// The plan as it is kept for later executions: without what is valid for one of them.
    pub(crate) fn kept(self) -> QueryPlan {
        QueryPlan { plan: self.plan.filter(|_| self.valid.is_some()), ..self }
    }

    /// Whether planning again would give the same plan.
    pub(crate) fn holds(&self, context: &StatementContext) -> bool {
        self.valid.as_ref().is_some_and(|(catalog, settings)| {
            Arc::ptr_eq(catalog, context.snapshot.catalog()) && Arc::ptr_eq(settings, &context.settings)
        })
    }

    fn bound(&self, values: &[Value], context: &Arc<StatementContext>) -> Result<LogicalPlan> {
        let plan = self.plan.clone().ok_or_else(|| Error::bug("a plan that was not kept"))?;
        if values.is_empty() {
            return Ok(plan);
        }
        plan.with_param_values(ParamValues::from(self.scalars(values, context)?)).or_error()
    }

    fn scalars(&self, values: &[Value], context: &Arc<StatementContext>) -> Result<Vec<ScalarValue>> {
        binding::parameters(values, &self.parameters, context)
    }
}

/// A query ready to run.
pub(crate) struct Ready {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    pub(crate) task: Arc<TaskContext>,
    pub(crate) columns: Vec<OutputColumn>,
    interrupt: Interrupt,
    database: Database,
}

impl Ready {
    /// Starts the query for a client: batches are small and counted against the memory of results.
    fn result(self, parsed: Arc<Parsed>) -> Result<Batches> {
        let memory = self.database.engine().memory().clone();
        self.produced(parsed, |batches| counted(batches, &memory))
    }

    /// Starts the query on the query thread pool.
    pub(crate) fn stream(self, parsed: Arc<Parsed>) -> Result<Batches> {
        self.produced(parsed, |batches| batches)
    }

    fn produced(self, parsed: Arc<Parsed>, and: impl FnOnce(Batches) -> Batches) -> Result<Batches> {
        let producer = self.database.producer();
        let stream = {
            let _inside = producer.enter();
            in_order(self.plan, self.task).or_error_in(&parsed)?
        };
        Ok(producer.run(and(Box::pin(self.interrupt.held_by(located(stream, &parsed))))))
    }
}

/// Batches that a partition produces before they are read.
const AHEAD_BATCHES: usize = 2;

/// Runs a plan: the rows of its first partition, then those of the next. All partitions start at once.
fn in_order(
    plan: Arc<dyn ExecutionPlan>,
    task: Arc<TaskContext>,
) -> datafusion::error::Result<SendableRecordBatchStream> {
    let partitions = plan.output_partitioning().partition_count();
    if partitions <= 1 {
        return execute_stream(plan, task);
    }
    let schema = plan.schema();
    let start = |partition| {
        let mut builder = RecordBatchReceiverStream::builder(plan.schema(), AHEAD_BATCHES);
        let (batches, mut input) = (builder.tx(), plan.execute(partition, Arc::clone(&task))?);
        builder.spawn(async move {
            while let Some(batch) = input.next().await {
                let is_last = batch.is_err();
                if batches.send(batch).await.is_err() || is_last {
                    break;
                }
            }
            Ok(())
        });
        Ok(builder.build())
    };
    let streams: Vec<_> = (0..partitions).map(start).collect::<datafusion::error::Result<_>>()?;
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::iter(streams).flatten())))
}

/// Converts errors of a stream and adds their position in the statement.
pub(crate) fn located(batches: SendableRecordBatchStream, parsed: &Arc<Parsed>) -> Batches {
    let parsed = Arc::clone(parsed);
    Box::pin(batches.map(move |batch| batch.map_err(|error| locate(convert(&error), &parsed))))
}

/// Optimizes a prepared query and makes its physical plan, with the session's newest snapshot.
pub(crate) async fn ready(
    session: &mut Session,
    prepared: &Prepared,
    plan: &QueryPlan,
    values: &[Value],
) -> Result<Ready> {
    let context = context(session, &prepared.0.statement.0);
    if context.rows_view.is_some() {
        crate::rows::until_durable(session, context.snapshot.lsn()).await?;
    }
    let parsed = &prepared.0.statement.0;
    let fresh;
    let plan = if plan.plan.is_some() && plan.holds(&context) {
        plan
    } else {
        // A statement without a logical plan has all its parameter types already.
        let declared = if plan.plan.is_none() { &plan.parameters } else { &prepared.0.declared };
        fresh = plan_bound(session, &context, parsed, binding::bind(&context, parsed, declared)?)?;
        let same = fresh.columns.iter().map(|column| column.oid).eq(plan.columns.iter().map(|column| column.oid));
        if !same {
            return Err(Error::unsupported("cached plan must not change result type"));
        }
        &fresh
    };
    ready_of(session, &context, parsed, plan, values).await
}

/// Optimizes a query's plan of this snapshot and makes its physical plan.
pub(crate) async fn ready_of(
    session: &mut Session,
    context: &Arc<StatementContext>,
    parsed: &Arc<Parsed>,
    plan: &QueryPlan,
    values: &[Value],
) -> Result<Ready> {
    let mut state = session.state(context);
    keep_order(&mut state);
    let result = ready_in(&session.database, &state, context, parsed, plan, values).await;
    session.keep(state);
    result
}

/// Keeps the batches of one partition together: PostgreSQL's rows stay in the order of the table or of a subquery's ORDER
/// BY, and clients rely on it.
fn keep_order(state: &mut SessionState) {
    if state.config().options().optimizer.enable_round_robin_repartition {
        state.config_mut().options_mut().optimizer.enable_round_robin_repartition = false;
    }
}

async fn ready_in(
    database: &Database,
    state: &SessionState,
    context: &Arc<StatementContext>,
    parsed: &Arc<Parsed>,
    plan: &QueryPlan,
    values: &[Value],
) -> Result<Ready> {
    let bound = plan.bound(values, context).map_err(|error| locate(error, parsed))?;
    let physical = physical(state, &bound).await.map_err(|error| locate(error, parsed))?;
    let interrupt = Interrupt::default();
    let physical = interrupt.watch(physical).or_error_in(parsed)?;
    Ok(Ready {
        plan: physical,
        task: task(state),
        columns: plan.columns.clone(),
        interrupt,
        database: database.clone(),
    })
}

/// Optimizes a logical plan and makes its physical plan.
pub(crate) async fn physical(state: &SessionState, plan: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
    let optimized = state.optimize(plan).or_error()?;
    state.query_planner().create_physical_plan(&optimized, state).await.or_error()
}

/// Context of running operators: memory, spill files and settings. Functions are in the plan already.
pub(crate) fn task(state: &SessionState) -> Arc<TaskContext> {
    let none = (Default::default(), Default::default(), Default::default(), Default::default());
    let id = state.session_id().to_owned();
    let config = state.config().clone();
    let runtime = Arc::clone(state.runtime_env());
    Arc::new(TaskContext::new(None, id, config, none.0, none.1, none.2, none.3, runtime))
}

/// Maximum number of rows of a result that is returned at once, without a stream.
const FEW_ROWS: usize = 2_000;
/// Maximum size of such a result in bytes of memory; a column of a block may be shared by several results.
const FEW_BYTES: usize = 4 << 20;

/// Runs a query synchronously if it is a series statement and not a long one. `few`: the caller accepts a
/// short result without a stream.
pub(crate) fn at_once(
    session: &mut Session,
    prepared: &Prepared,
    values: &[Value],
    few: bool,
) -> Result<Option<Executed>> {
    let Some(series::Ran { batches, .. }) = run_series(session, prepared, values)? else { return Ok(None) };
    let is_few = few
        && batches.iter().map(RecordBatch::num_rows).sum::<usize>() <= FEW_ROWS
        && batches.iter().map(RecordBatch::get_array_memory_size).sum::<usize>() <= FEW_BYTES;
    let executed = Executed::Few { batches };
    Ok(Some(if is_few { executed } else { executed.streamed(prepared) }))
}

/// A series statement with a valid plan and the values of its parameters.
struct BoundSeries<'a> {
    shape: &'a Arc<Shape>,
    context: Arc<StatementContext>,
    values: Vec<ScalarValue>,
}

fn bound_series<'a>(
    session: &mut Session,
    prepared: &'a Prepared,
    values: &[Value],
) -> Result<Option<BoundSeries<'a>>> {
    let Plan::Query(plan) = &prepared.0.plan else { return Ok(None) };
    let Some(shape) = &plan.series else { return Ok(None) };
    let context = session.context();
    if context.rows_view.is_some() || !plan.holds(&context) {
        return Ok(None);
    }
    let values = plan.scalars(values, &context);
    let values = values.map_err(|error| locate(error, &prepared.0.statement.0))?;
    Ok(Some(BoundSeries { shape, context, values }))
}

/// Runs a series statement with a valid plan. Returns `None` for other statements and for long ones.
pub(crate) fn run_series(session: &mut Session, prepared: &Prepared, values: &[Value]) -> Result<Option<series::Ran>> {
    let Some(BoundSeries { shape, context, values }) = bound_series(session, prepared, values)? else {
        return Ok(None);
    };
    let state = session.state(&context);
    let ran = shape.run(&state, &context, &values);
    session.keep(state);
    ran.map_err(|error| locate(error, &prepared.0.statement.0))
}

/// Sets its flag when it is dropped, to cancel the computation of a result that nobody awaits.
#[derive(Default)]
struct Over(Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Result of a series statement that is too long to run synchronously.
pub(crate) enum Long {
    Ran(series::Ran),
    Streamed(series::Streamed),
}

/// Runs a series statement that is too long to run synchronously on separate threads. Returns `None` if it is
/// neither an aggregation that can be split nor a stream of rows in any order.
pub(crate) async fn run_long(session: &mut Session, prepared: &Prepared, values: &[Value]) -> Result<Option<Long>> {
    let Some(BoundSeries { shape, context, values }) = bound_series(session, prepared, values)? else {
        return Ok(None);
    };
    if !shape.is_splittable() && !shape.is_streamable() {
        return Ok(None);
    }
    let located = |error| locate(error, &prepared.0.statement.0);
    let state = session.state(&context);
    let selected = shape.select(&state, &context, &values);
    let threads = state.config().target_partitions();
    session.keep(state);
    let Some(selected) = selected.map_err(located)? else { return Ok(None) };
    if shape.is_streamable() {
        let parts = move || Shape::parts(&selected, threads).map(|parts| (selected, parts));
        let (selected, parts) = tokio::task::spawn_blocking(parts).await.map_err(Error::bug)??;
        return shape.stream(selected, parts).map(Long::Streamed).map(Some);
    }
    let over = Over::default();
    let (shape, is_over) = (Arc::clone(shape), Arc::clone(&over.0));
    let run = move || shape.run_long(selected, threads, &is_over);
    let ran = tokio::task::spawn_blocking(run).await.map_err(Error::bug)?.map_err(located)?;
    Ok(ran.map(Long::Ran))
}

/// Runs a prepared query.
pub(crate) async fn execute(session: &mut Session, prepared: &Prepared, values: &[Value]) -> Result<Outcome> {
    let Plan::Query(plan) = &prepared.0.plan else {
        return Err(Error::bug("a query without a plan"));
    };
    if let Some(long) = run_long(session, prepared, values).await? {
        let batches: Batches = match long {
            Long::Ran(ran) => Box::pin(futures::stream::iter(ran.batches.into_iter().map(Ok))),
            Long::Streamed(streamed) => {
                counted(located(streamed.batches, &prepared.0.statement.0), session.database.engine().memory())
            }
        };
        return Ok(Outcome::Rows { columns: plan.columns.clone(), batches, tag: "SELECT".into() });
    }
    let ready = ready(session, prepared, plan, values).await?;
    let columns = ready.columns.clone();
    let batches = ready.result(Arc::clone(&prepared.0.statement.0))?;
    Ok(Outcome::Rows { columns, batches, tag: "SELECT".into() })
}
