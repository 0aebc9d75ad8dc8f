//! Execution of SELECT, VALUES and WITH.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::RecordBatch;
use futures::StreamExt;
use model::{Error, Result};
use relational::results::Batches;
use relational::series::{self, Shape};
use relational::types::{OutputColumn, Value};
use relational::{Execution, Executor, Parameters, counted};

use super::routine;
use super::rows::until_durable;
use crate::binding;
use crate::errors::locate;
use crate::plan::query::{QueryPlan, context, plan_bound};
use crate::plan::{Plan, Prepared};
use crate::result::{Executed, Outcome};
use crate::routines::RoutineCalls;
use crate::session::Session;
use crate::session::context::StatementContext;
use crate::session::database::Database;
use crate::statement::Parsed;

/// A query ready to run.
pub(crate) struct Ready {
    pub(crate) execution: Execution,
    pub(crate) columns: Vec<OutputColumn>,
    database: Database,
    /// The functions of users that it calls.
    calls: Option<Arc<RoutineCalls>>,
}

impl Ready {
    /// Starts the query for a client: batches are small and counted against the memory of results.
    pub(crate) async fn result(self, session: &mut Session, parsed: Arc<Parsed>) -> Result<Batches> {
        let memory = self.database.engine().memory().clone();
        self.served(session, parsed, |batches| counted(batches, &memory)).await
    }

    /// Starts the query on the query thread pool.
    pub(crate) async fn stream(self, session: &mut Session, parsed: Arc<Parsed>) -> Result<Batches> {
        self.served(session, parsed, |batches| batches).await
    }

    /// Starts the query. One that calls functions of users runs to its end, because the session makes the calls.
    async fn served(
        self,
        session: &mut Session,
        parsed: Arc<Parsed>,
        and: impl FnOnce(Batches) -> Batches,
    ) -> Result<Batches> {
        let Some(calls) = self.calls.clone() else { return self.produced(parsed, and) };
        let requests = calls.accept();
        let batches = self.produced(parsed, and)?;
        Box::pin(routine::served(session, &calls, requests, batches)).await
    }

    fn produced(self, parsed: Arc<Parsed>, and: impl FnOnce(Batches) -> Batches) -> Result<Batches> {
        let producer = self.database.producer();
        let batches = {
            let _inside = producer.enter();
            self.execution.start().map_err(|error| locate(error, &parsed))?
        };
        Ok(producer.run(and(located(batches, &parsed))))
    }
}

/// Adds to the errors of a stream their position in the statement.
pub(crate) fn located(batches: Batches, parsed: &Arc<Parsed>) -> Batches {
    let parsed = Arc::clone(parsed);
    Box::pin(batches.map(move |batch| batch.map_err(|error| locate(error, &parsed))))
}

/// Optimizes a prepared query and makes its physical plan, with the session's newest snapshot.
pub(crate) async fn ready(
    session: &mut Session,
    prepared: &Prepared,
    plan: &QueryPlan,
    values: &[Value],
) -> Result<Ready> {
    let context = context(session, &prepared.0.statement.0);
    if context.reads.rows_view.is_some() {
        until_durable(session, context.reads.snapshot.lsn()).await?;
    }
    let parsed = &prepared.0.statement.0;
    let fresh;
    let plan = if plan.plan.is_some() && !plan.calls_routines && plan.holds(&context) {
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
    let executor = session.executor(context);
    let result = ready_in(&session.database, &executor, context, parsed, plan, values).await;
    session.keep(executor);
    let calls = plan.calls_routines.then(|| Arc::clone(&context.routines));
    result.map(|ready| Ready { calls, ..ready })
}

async fn ready_in(
    database: &Database,
    executor: &Executor,
    context: &Arc<StatementContext>,
    parsed: &Arc<Parsed>,
    query: &QueryPlan,
    values: &[Value],
) -> Result<Ready> {
    let located = |error| locate(error, parsed);
    let plan = query.plan.as_ref().ok_or_else(|| Error::bug("a plan that was not kept"))?;
    let values = query.values(values, context).map_err(located)?;
    let execution = match query.calls_routines {
        true => executor.prepare_in_order(plan, values).await,
        false => executor.prepare(plan, values).await,
    };
    let execution = execution.map_err(located)?;
    Ok(Ready { execution, columns: query.columns.clone(), database: database.clone(), calls: None })
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
    if is_few {
        return Ok(Some(Executed::Few { batches }));
    }
    let columns = prepared.columns().unwrap_or_default().to_vec();
    let batches = passed_on(batches, session);
    Ok(Some(Executed::Outcome(Outcome::Rows { columns, batches, tag: "SELECT".into() })))
}

/// The batches of a result in small pieces, counted against the memory of results.
fn passed_on(batches: Vec<RecordBatch>, session: &Session) -> Batches {
    let batches = Box::pin(futures::stream::iter(batches.into_iter().map(Ok)));
    counted(batches, session.database.engine().memory())
}

/// A series statement with a valid plan and the values of its parameters.
struct BoundSeries<'a> {
    shape: &'a Arc<Shape>,
    context: Arc<StatementContext>,
    values: Parameters,
}

fn bound_series<'a>(
    session: &mut Session,
    prepared: &'a Prepared,
    values: &[Value],
) -> Result<Option<BoundSeries<'a>>> {
    let Plan::Query(plan) = &prepared.0.plan else { return Ok(None) };
    let Some(shape) = &plan.series else { return Ok(None) };
    let context = session.context();
    if context.reads.rows_view.is_some() || !plan.holds(&context) {
        return Ok(None);
    }
    let values = plan.values(values, &context);
    let values = values.map_err(|error| locate(error, &prepared.0.statement.0))?;
    Ok(Some(BoundSeries { shape, context, values }))
}

/// Runs a series statement with a valid plan. Returns `None` for other statements and for long ones.
pub(crate) fn run_series(session: &mut Session, prepared: &Prepared, values: &[Value]) -> Result<Option<series::Ran>> {
    let Some(BoundSeries { shape, context, values }) = bound_series(session, prepared, values)? else {
        return Ok(None);
    };
    let executor = session.executor(&context);
    let ran = executor.run_series(shape, &context.reads, &values);
    session.keep(executor);
    ran.map_err(|error| locate(error, &prepared.0.statement.0))
}

/// Sets its flag when it is dropped, to cancel the computation of a result that nobody awaits.
#[derive(Default)]
pub(super) struct Over(pub(super) Arc<AtomicBool>);

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
/// neither an aggregation, nor newest rows of series, nor a stream of rows in any order.
pub(crate) async fn run_long(session: &mut Session, prepared: &Prepared, values: &[Value]) -> Result<Option<Long>> {
    let Some(BoundSeries { shape, context, values }) = bound_series(session, prepared, values)? else {
        return Ok(None);
    };
    if !shape.runs_long() && !shape.is_streamable() {
        return Ok(None);
    }
    let located = |error| locate(error, &prepared.0.statement.0);
    let executor = session.executor(&context);
    let selected = executor.select_series(shape, &context.reads, &values);
    let threads = executor.threads();
    session.keep(executor);
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
            Long::Ran(ran) => passed_on(ran.batches, session),
            Long::Streamed(streamed) => {
                counted(located(streamed.batches, &prepared.0.statement.0), session.database.engine().memory())
            }
        };
        return Ok(Outcome::Rows { columns: plan.columns.clone(), batches, tag: "SELECT".into() });
    }
    let ready = ready(session, prepared, plan, values).await?;
    let columns = ready.columns.clone();
    let batches = ready.result(session, Arc::clone(&prepared.0.statement.0)).await?;
    Ok(Outcome::Rows { columns, batches, tag: "SELECT".into() })
}
