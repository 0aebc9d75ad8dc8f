//! Calls of functions and procedures, in the transaction of the session that calls them.
//!
//! A call runs as a future of the session's task. Its statements are planned and run like those of the client, with the
//! variables as parameters. An executor that computes an expression on its own threads sends a call to the session and
//! waits for the value ([`RoutineCalls`]); the session serves it while it waits for the rows of the statement.

mod batch;
pub(crate) mod call;
mod check;
pub(crate) mod conditions;
pub(crate) mod define;
pub(crate) mod dependents;
mod interpret;
pub(crate) mod trigger;
mod values;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use catalog::TypeId;
use futures::StreamExt;
use futures::future::BoxFuture;
use model::limits::ROUTINE_DEPTH_MAX;
use model::{
    Error, Result, RoutineLanguage, RoutineParameter, RoutineRef, RoutineSpec, RoutineVolatility, SqlState, user_types,
};
use parser::ast::Discard;
use parser::plpgsql::Fragment;
use pg_catalog::oids::table_of;
use relational::results::Batches;
use scalar::{Call, Value};

use self::interpret::Run;
use self::values::{converted, facts_of, has_names, record_of};
use crate::plan::{Plan, Prepared};
use crate::result::{Arguments, Executed, Messages, Outcome};
use crate::routines::{
    Body, Code, RoutineCalls, Shape, TRIGGER, Variables, Visible, VisibleKind, called_shape, row_shape, value_type,
};
use crate::session::Session;
use crate::session::known_calls::KnownCalls;
use crate::settings::Settings;
use crate::statement::maintenance::Maintenance;
use crate::statement::{Command, Statement, parse_within_routine};
use crate::threads::{WAITING_THREADS_MAX, computing};

/// Queries within each other whose executor waits for functions: each keeps a thread.
const SERVED_MAX: usize = 50;
/// Stack that must be left when a call within a call goes on, and by how much it grows where less is left.
const STACK_LEFT_BYTES: usize = 512 << 10;
const STACK_GROWTH_BYTES: usize = 4 << 20;

/// The result of a call.
pub(crate) enum Returned {
    /// The value of a function, or the row of a procedure's OUT parameters.
    Value(Value),
    /// The rows of a function that returns a set.
    Rows(Vec<Value>),
}

/// A future that grows the stack of its thread when it goes on or is dropped: calls and statements within each other are
/// polled and dropped within each other.
struct Deep<'a, T>(Option<BoxFuture<'a, T>>);

impl<'a, T> Deep<'a, T> {
    fn new(work: impl Future<Output = T> + Send + 'a) -> Deep<'a, T> {
        Deep(Some(Box::pin(work)))
    }
}

impl<T> Future for Deep<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Some(work) = &mut self.0 else { return Poll::Pending };
        stacker::maybe_grow(STACK_LEFT_BYTES, STACK_GROWTH_BYTES, || work.as_mut().poll(context))
    }
}

impl<T> Drop for Deep<'_, T> {
    fn drop(&mut self) {
        let work = self.0.take();
        stacker::maybe_grow(STACK_LEFT_BYTES, STACK_GROWTH_BYTES, || drop(work));
    }
}

/// Iterations and calls after which a routine lets other tasks of its thread go on.
const STEPS_PER_BREATH: u32 = 256;

/// Counts an iteration or a call. Now and then it yields, so that a future whose client has gone is dropped.
async fn breathe(session: &mut Session) {
    session.routine_steps = session.routine_steps.wrapping_add(1);
    if session.routine_steps.is_multiple_of(STEPS_PER_BREATH) {
        tokio::task::yield_now().await;
    }
}

/// The routine with an OID in the newest catalog.
pub(crate) fn routine_of(session: &mut Session, oid: u32) -> Result<RoutineRef> {
    let found = table_of(oid).and_then(|(id, _)| session.newest().catalog().routine_by_id(id.0).cloned());
    found.ok_or_else(|| Error::new(SqlState::UNDEFINED_FUNCTION, format!("function with OID {oid} does not exist")))
}

/// Calls a function.
///
/// # Errors
/// Those of the function, with the statement as context; 54001 for calls that nest too deeply.
pub(crate) async fn call(session: &mut Session, call: &Call, arguments: Vec<Value>) -> Result<Returned> {
    let routine = routine_of(session, call.function)?;
    call_routine(session, &routine, &call.arguments, call.result, arguments, true).await
}

/// Makes the calls that a statement of the row executor needs the values of.
///
/// # Errors
/// Those of the functions; 53200 if there is not enough memory for the values; 55000 if the statement makes other calls in
/// each run.
pub(crate) async fn call_wanted(session: &mut Session, known: &KnownCalls) -> Result<()> {
    computing(Box::pin(make_calls(session, known))).await
}

async fn make_calls(session: &mut Session, known: &KnownCalls) -> Result<()> {
    for mut wanted in known.take_wanted()? {
        let arguments = std::mem::take(&mut wanted.arguments);
        if wanted.call.result == TRIGGER {
            let value = trigger::fire(session, arguments).await?;
            known.put(wanted, value)?;
            continue;
        }
        let Returned::Value(value) = call(session, &wanted.call, arguments).await? else {
            return Err(Error::unsupported("a function that returns a set is not supported in this place"));
        };
        known.put(wanted, value)?;
    }
    Ok(())
}

/// Calls a routine with values for its input parameters.
///
/// - `result`: type of the result in this call.
/// - `is_atomic`: whether it may not end the transaction.
pub(crate) fn call_routine<'a>(
    session: &'a mut Session,
    routine: &'a RoutineRef,
    types: &'a [TypeId],
    result: TypeId,
    mut arguments: Vec<Value>,
    is_atomic: bool,
) -> BoxFuture<'a, Result<Returned>> {
    Box::pin(async move {
        if routine.is_strict && arguments.iter().any(Value::is_null) {
            return Ok(if routine.returns_set { Returned::Rows(Vec::new()) } else { Returned::Value(Value::NULL) });
        }
        if routine.result == TRIGGER.0 {
            return Err(Error::unsupported("trigger functions can only be called as triggers"));
        }
        check_depth(session)?;
        session.stop.check()?;
        breathe(session).await;
        let body = session.bodies.of(routine, types)?;
        let shape = {
            let snapshot = session.newest();
            called_shape(routine, types, snapshot.catalog())?
        };
        for ((parameter, ty), value) in routine.inputs().zip(types).zip(&mut arguments) {
            if user_types::is_constrained(parameter.ty) {
                let given = std::mem::replace(value, Value::NULL);
                *value = converted(session, given, *ty, TypeId(parameter.ty), -1)?;
            }
        }
        let before = Arc::clone(&session.settings);
        set_all(session, routine)?;
        session.routine_depth += 1;
        let work: BoxFuture<'_, Result<Returned>> = match &body.code {
            Code::Sql(fragments) => Box::pin(run_sql(&mut *session, &body, fragments, types, result, shape, arguments)),
            Code::PlPgSql(_) => {
                // The settings of the routine end with it, and are none of the next transaction.
                let is_atomic = is_atomic || !routine.settings.is_empty();
                let mut run = Run::new(&body, types, result, shape, is_atomic);
                let session = &mut *session;
                Box::pin(async move { run.routine(session, arguments).await })
            }
        };
        let returned = Deep(Some(work)).await;
        session.routine_depth = session.routine_depth.saturating_sub(1);
        restore(session, routine, &before)?;
        match returned? {
            Returned::Value(value) => of_domain(session, routine, value).map(Returned::Value),
            Returned::Rows(rows) if user_types::is_constrained(routine.result) => {
                let rows = rows.into_iter().map(|value| of_domain(session, routine, value));
                rows.collect::<Result<_>>().map(Returned::Rows)
            }
            rows @ Returned::Rows(_) => Ok(rows),
        }
    })
}

/// Refuses a call that nests too deeply.
fn check_depth(session: &Session) -> Result<()> {
    if session.routine_depth < ROUTINE_DEPTH_MAX {
        return Ok(());
    }
    Err(Error::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
        .with_hint(format!("Functions may call each other up to {ROUTINE_DEPTH_MAX} levels deep.")))
}

/// Applies the settings of a routine.
fn set_all(session: &mut Session, routine: &RoutineSpec) -> Result<()> {
    let before = Arc::clone(&session.settings);
    for (name, value) in &routine.settings {
        if let Err(error) = crate::session::assign::assign(session, name, value, true) {
            session.settings = before;
            return Err(error);
        }
    }
    Ok(())
}

/// Gives the settings of a routine the values that they had before.
fn restore(session: &mut Session, routine: &RoutineSpec, before: &Settings) -> Result<()> {
    if routine.settings.is_empty() {
        return Ok(());
    }
    let mut settings = (*session.settings).clone();
    for (name, _) in &routine.settings {
        settings.set(name, &before.get(name).unwrap_or_default())?;
    }
    session.settings = Arc::new(settings);
    Ok(())
}

/// A value that a routine returns, with the constraints of its type if that is a domain.
fn of_domain(session: &mut Session, routine: &RoutineSpec, value: Value) -> Result<Value> {
    if !user_types::is_constrained(routine.result) {
        return Ok(value);
    }
    converted(session, value, value_type(routine.result), TypeId(routine.result), -1)
}

/// Runs a body in SQL: the result is that of the last statement.
async fn run_sql(
    session: &mut Session,
    body: &Arc<Body>,
    fragments: &[Fragment],
    types: &[TypeId],
    result: TypeId,
    shape: Option<Shape>,
    arguments: Vec<Value>,
) -> Result<Returned> {
    let routine = body.routine.as_ref().ok_or_else(|| Error::bug("a body in SQL without a function"))?;
    let returns_set = routine.returns_set;
    let visible = visible_in_sql(routine, types, session.newest().catalog());
    let declared: Vec<u32> = types.iter().map(|ty| ty.0).collect();
    let mut last = None;
    let count = fragments.len();
    for (number, fragment) in fragments.iter().enumerate() {
        let snapshot = session.newest();
        let kept: Option<Arc<SqlPlan>> = body.plan(fragment);
        let holds = |plan: &Arc<SqlPlan>| {
            Arc::ptr_eq(&plan.catalog, snapshot.catalog()) && Arc::ptr_eq(&plan.settings, &session.settings)
        };
        let plan = match kept.filter(holds) {
            Some(plan) => plan,
            None => {
                let context = |error| sql_context(error, routine, number + 1);
                let slots = (0..declared.len()).collect();
                let variables =
                    Arc::new(Variables::new(binder::NameConflict::Column, visible.clone(), slots, &fragment.text));
                let statement = parse_within_routine(&fragment.text, Some(Arc::clone(&variables))).map_err(context)?;
                refuse_transaction(&statement, "SQL").map_err(context)?;
                refuse_change(&statement, routine).map_err(context)?;
                let prepared = session.plan_statement(&statement, &declared);
                let prepared = prepared.map_err(Error::without_position).map_err(context)?;
                let (catalog, settings) = (Arc::clone(snapshot.catalog()), Arc::clone(&session.settings));
                let plan = Arc::new(SqlPlan { prepared, variables, catalog, settings });
                body.keep(fragment, Arc::clone(&plan));
                plan
            }
        };
        let given = arguments.iter().take(declared.len()).enumerate();
        let needed =
            |(at, value): (usize, &Value)| if plan.variables.needs_argument(at) { value.clone() } else { Value::NULL };
        let mut values: Vec<Value> = given.map(needed).collect();
        let named = plan.variables.used();
        values.extend(named.iter().map(|used| match (arguments.get(used.slot), used.field) {
            (Some(value), None) => value.clone(),
            (Some(Value::Record(_, _, values)), Some(at)) => values.get(at).cloned().unwrap_or(Value::NULL),
            _ => Value::NULL,
        }));
        let is_last = number + 1 == count;
        let rows_max = if is_last && !returns_set { 1 } else { usize::MAX };
        let ran = run_statement(session, &plan.prepared, &values, rows_max).await;
        let ran = ran.map_err(|error| sql_context(error.without_position(), routine, number + 1))?;
        if is_last {
            last = Some(ran);
        }
    }
    let is_void = routine.result == TypeId::VOID.0 && shape.is_none();
    let ran = match last {
        Some(ran) if !is_void => ran,
        _ => return Ok(if returns_set { Returned::Rows(Vec::new()) } else { Returned::Value(Value::NULL) }),
    };
    let mut rows = Vec::with_capacity(ran.rows.len());
    let is_record = shape.is_some() || result == TypeId::RECORD;
    for row in ran.rows {
        rows.push(if is_record {
            record_of(session, &ran.columns, row, shape.as_ref())?
        } else {
            let from = ran.columns.first().map_or(TypeId::TEXT, |column| column.1);
            let value = row.into_iter().next().unwrap_or(Value::NULL);
            converted(session, value, from, result, -1)?
        });
        if !returns_set {
            break;
        }
    }
    Ok(if returns_set { Returned::Rows(rows) } else { Returned::Value(rows.into_iter().next().unwrap_or(Value::NULL)) })
}

/// The parameters that the statements of a function in SQL may name.
fn visible_in_sql(routine: &RoutineSpec, types: &[TypeId], catalog: &engine::Catalog) -> Vec<Visible> {
    let named = routine.inputs().zip(types).enumerate().filter(|(_, (parameter, _))| !parameter.name.is_empty());
    let one = |(slot, (parameter, ty)): (usize, (&RoutineParameter, &TypeId))| Visible {
        label: Some(routine.name.table.as_str().into()),
        name: parameter.name.as_str().into(),
        slot,
        kind: match row_shape(parameter.ty, catalog) {
            Some(shape) => VisibleKind::Row(Some(shape)),
            None => VisibleKind::Value(*ty, -1),
        },
    };
    named.map(one).collect()
}

/// A planned statement of a body in SQL.
struct SqlPlan {
    prepared: Prepared,
    variables: Arc<Variables>,
    /// Kept while catalog and settings are these.
    catalog: Arc<engine::Catalog>,
    settings: Arc<Settings>,
}

/// Adds the context of a statement of a function in SQL to its error.
fn sql_context(error: Error, routine: &RoutineRef, number: usize) -> Error {
    with_context(error, &format!("SQL function \"{}\" statement {number}", routine.name.table))
}

/// Adds a line to the context of an error, which has the innermost one first.
pub(crate) fn with_context(error: Error, line: &str) -> Error {
    let place = match error.place() {
        Some(place) => format!("{place}\n{line}"),
        None => line.to_owned(),
    };
    error.with_place(place)
}

/// Refuses a statement that controls the transaction.
fn refuse_transaction(statement: &Statement, language: &str) -> Result<()> {
    match (&statement.0.command, language) {
        (Command::Transaction(_), "SQL") => {
            let word = statement.sql().split_whitespace().next().unwrap_or_default().to_uppercase();
            Err(Error::unsupported(format!("{word} is not allowed in an SQL function")))
        }
        (Command::Transaction(_), _) => Err(Error::unsupported("unsupported transaction command in PL/pgSQL")),
        (Command::Discard(Discard::All), _) => Err(not_in_function("DISCARD ALL")),
        (Command::Maintenance(Maintenance::Vacuum { .. }), _) => Err(not_in_function("VACUUM")),
        (Command::Copy(copy), _) if copy.is_from() => Err(Error::unsupported("cannot COPY to/from client in PL/pgSQL")),
        _ => Ok(()),
    }
}

fn not_in_function(word: &str) -> Error {
    Error::new(SqlState::ACTIVE_SQL_TRANSACTION, format!("{word} cannot be executed from a function"))
}

/// Name, type and type modifier of a result column.
pub(crate) type ResultColumn = (Box<str>, TypeId, i32);

/// Refuses a change in a function that is not volatile.
fn refuse_change(statement: &Statement, routine: &RoutineSpec) -> Result<()> {
    let word = || statement.sql().split_whitespace().next().unwrap_or_default().to_uppercase();
    let is_change = matches!(
        statement.0.command,
        Command::Change(_) | Command::Definition(_) | Command::CreateTableAs(_) | Command::Discard(_)
    );
    if routine.volatility == RoutineVolatility::Volatile || routine.is_procedure || !is_change {
        return Ok(());
    }
    Err(Error::unsupported(format!("{} is not allowed in a non-volatile function", word())))
}

/// The result of a statement within a routine.
#[derive(Default)]
pub(crate) struct Ran {
    pub(crate) columns: Arc<[ResultColumn]>,
    pub(crate) rows: Vec<Vec<Value>>,
    /// Number of rows returned or changed.
    pub(crate) count: u64,
    /// Whether it returns or changes rows.
    pub(crate) counts: bool,
    /// Whether it may change rows.
    pub(crate) is_change: bool,
    /// Memory of the rows.
    pub(crate) held: Option<relational::Reserved>,
}

/// Runs a statement in the session's transaction and collects its rows; those of a query may end after `rows_max`.
pub(crate) async fn run_statement(
    session: &mut Session,
    prepared: &Prepared,
    values: &[Value],
    rows_max: usize,
) -> Result<Ran> {
    let columns = prepared.columns().unwrap_or_default();
    let facts = facts_of(session, || {
        columns.iter().any(|one| has_names(one.oid)) || prepared.parameters().iter().any(|ty| has_names(*ty))
    });
    let arguments =
        values.iter().zip(prepared.parameters()).map(|(value, ty)| values::sent(value, TypeId(*ty), &facts));
    let arguments: Vec<relational::types::Value> = arguments.collect::<Result<_>>()?;
    let columns: Arc<[ResultColumn]> =
        columns.iter().map(|column| (column.name.as_str().into(), TypeId(column.oid), column.typmod)).collect();
    let mut rows = values::Rows::new(session, &columns, facts);
    let (mut out, forms) = (Vec::new(), vec![pg::Form::Text; columns.len()]);
    let bound;
    let (given, is_compiled) = match &prepared.0.plan {
        Plan::Rows(plan) if plan.has_external_queries() => (Arguments::Values(&arguments), true),
        Plan::Rows(plan) => {
            bound = plan.constants(session, &arguments)?;
            (Arguments::Bound(&bound), true)
        }
        _ => (Arguments::Values(&arguments), false),
    };
    let mut messages = is_compiled.then(|| Messages { out: &mut out, forms: &forms });
    let executed = match session.begin_run(prepared, given, messages.as_mut(), false)? {
        Ok(executed) => executed,
        Err(stage) => Box::pin(session.finish_run(prepared, given, messages, false, stage)).await?,
    };
    let is_change = matches!(prepared.0.statement.0.command, Command::Change(_));
    let rows_max = if is_change { usize::MAX } else { rows_max };
    let (mut count, mut counts) = (0, true);
    match executed {
        Executed::Sent { rows: number, .. } => {
            rows.messages(&out)?;
            count = number;
        }
        Executed::Few { batches } => {
            let zone = session.time_zone();
            for batch in &batches {
                rows.batch(prepared, batch, &zone)?;
            }
            count = rows.len() as u64;
        }
        Executed::Stream { mut chunks, .. } => {
            while rows.len() < rows_max
                && let Some(chunk) = chunks.next().await
            {
                let chunk = chunk?;
                rows.messages(&chunk.bytes)?;
                count += chunk.rows;
            }
        }
        Executed::Outcome(Outcome::Rows { mut batches, tag, .. }) => {
            let zone = session.time_zone();
            while rows.len() < rows_max
                && let Some(batch) = batches.next().await
            {
                rows.batch(prepared, &batch?, &zone)?;
            }
            count = changed_rows(&tag).unwrap_or(rows.len() as u64);
        }
        Executed::Outcome(Outcome::Command { tag }) => match changed_rows(&tag) {
            Some(number) => count = number,
            None => counts = false,
        },
        Executed::Outcome(Outcome::CopyIn(_) | Outcome::CopyOut { .. }) => {
            return Err(Error::unsupported("cannot COPY to/from client in PL/pgSQL"));
        }
        Executed::Outcome(Outcome::Empty) => counts = false,
    }
    session.assign_pending();
    let (mut rows, held) = rows.finish();
    if rows.len() > rows_max {
        rows.truncate(rows_max);
        count = rows_max as u64;
    }
    Ok(Ran { columns, rows, count, counts, is_change, held })
}

/// The number of rows of a command tag.
fn changed_rows(tag: &str) -> Option<u64> {
    let (words, number) = tag.rsplit_once(' ')?;
    let is_change = ["INSERT 0", "UPDATE", "DELETE", "MERGE", "SELECT", "FETCH", "MOVE"].contains(&words);
    number.parse().ok().filter(|_| is_change)
}

/// Queries of all sessions whose executor waits for functions.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// One of them.
struct Waiting;

impl Waiting {
    fn begin() -> Result<Waiting> {
        let waiting = Waiting;
        if WAITING.fetch_add(1, Ordering::Relaxed) >= WAITING_THREADS_MAX {
            let text = format!("more than {WAITING_THREADS_MAX} queries wait for functions that they call");
            return Err(Error::new(SqlState::INSUFFICIENT_RESOURCES, text));
        }
        Ok(waiting)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Collects the batches of a query whose executor calls functions of users, and serves these calls meanwhile.
pub(crate) async fn served(
    session: &mut Session,
    calls: &Arc<RoutineCalls>,
    mut requests: tokio::sync::mpsc::UnboundedReceiver<crate::routines::Request>,
    mut batches: Batches,
) -> Result<Batches> {
    enum Next {
        Batch(Option<Result<arrow_array::RecordBatch>>),
        Request(crate::routines::Request),
    }
    if session.served >= SERVED_MAX {
        return Err(Error::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
            .with_hint(format!("Queries that call functions of users may be up to {SERVED_MAX} levels deep.")));
    }
    if !session.database.producer().is_running() {
        return Err(Error::unsupported("a query that calls functions needs threads, which the system refused"));
    }
    let _waiting = Waiting::begin()?;
    session.served += 1;
    let mut collected = Vec::new();
    let mut bytes = 0;
    let held = session.database.runtime().reserved("result of functions");
    let outcome = loop {
        let next = tokio::select! {
            biased;
            Some(request) = requests.recv() => Next::Request(request),
            batch = batches.next() => Next::Batch(batch),
        };
        match next {
            Next::Batch(None) => break Ok(()),
            Next::Batch(Some(Err(error))) => break Err(error),
            Next::Batch(Some(Ok(batch))) => {
                bytes += batch.get_array_memory_size();
                if let Err(error) = held.resize(bytes) {
                    break Err(error);
                }
                collected.push(Ok(batch));
            }
            Next::Request(request) => {
                let returned = Box::pin(call(session, &request.call, request.arguments)).await;
                let failed = returned.as_ref().err().cloned();
                let values = returned.map(|returned| match returned {
                    Returned::Value(value) => vec![value],
                    Returned::Rows(rows) => rows,
                });
                let _ = request.reply.send(values);
                if let Some(error) = failed {
                    break Err(error);
                }
            }
        }
    };
    calls.close();
    session.served = session.served.saturating_sub(1);
    outcome?;
    let stream = futures::stream::iter(collected).inspect(move |_| {
        let _ = &held;
    });
    Ok(Box::pin(stream))
}

/// The language of a name.
///
/// # Errors
/// 42704 for an unknown language; 0A000 for one that is not supported.
pub(crate) fn language(name: &str) -> Result<RoutineLanguage> {
    match name.to_ascii_lowercase().as_str() {
        "sql" => Ok(RoutineLanguage::Sql),
        "plpgsql" => Ok(RoutineLanguage::PlPgSql),
        "c" | "internal" => Err(Error::unsupported(format!("functions in language {name} are not supported"))
            .with_hint("Write the function in SQL or PL/pgSQL.")),
        _ => Err(Error::new(SqlState::UNDEFINED_OBJECT, format!("language \"{name}\" does not exist"))
            .with_hint("Write the function in SQL or PL/pgSQL.")),
    }
}

/// Name and types of the parameters, as contexts of errors have them.
pub(crate) fn signature(session: &Session, routine: &RoutineRef) -> String {
    let types: Vec<String> =
        routine.inputs().map(|parameter| catalog::builtin().type_name(value_type(parameter.ty))).collect();
    let name = parser::print::quoted_name(&routine.name.table);
    let is_visible = session.settings.function_path().contains(&routine.name.schema);
    let schema =
        if is_visible { String::new() } else { format!("{}.", parser::print::quoted_name(&routine.name.schema)) };
    format!("{schema}{name}({})", types.join(","))
}
