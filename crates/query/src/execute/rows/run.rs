//! Execution of compiled statements: bind values, retry while the statement must wait, return rows.

use std::cell::{Cell, OnceCell};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ::rows::{Access, Entered};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema, SchemaRef};
use bumpalo::Bump;
use catalog::{CastContext, TypeId};
use compiled::{Incoming, Ran};
use crossbeam_epoch::Guard;
use engine::{Durability, Event, SequenceState};
use model::{Datum, Error, Lsn, Result, SqlState, TriggerTiming, Type};
use parser::ast::Expr;
use pg::Form;
use pg::backend::data_row;
use relational::arrow::rows::{Builder, arrow_of};
use relational::scan::BATCH_ROWS;
use relational::types::{OutputColumn, Value};
use relational::{RESULT_BYTES, Reserved};

use super::external::ExternalRows;
use super::reading;
use crate::errors::locate;
use crate::execute::routine::{self, trigger};
use crate::plan::rows::{ResultType, RowsPlan, Verb};
use crate::plan::{Plan, Prepared};
use crate::result::{Arguments, Executed, Messages, Outcome};
use crate::session::Session;
use crate::session::clocks::Clocks;
use crate::session::database::{Database, wait, when_set};
use crate::session::known_calls::KnownCalls;
use crate::threads::{compute, computing, is_computing};

/// Result of [`begin`].
pub(crate) enum Begun {
    Done(Executed),
    /// To be completed with [`finish`].
    Unfinished(Unfinished),
}

/// A compiled statement that must wait, and the reason.
pub(crate) struct Unfinished {
    /// The new plan, if the statement's plan was no longer valid.
    fresh: Option<Box<RowsPlan>>,
    /// Values of the functions of users that it calls, so far.
    known: Option<Arc<KnownCalls>>,
    /// Whether the triggers before the statement have run.
    is_begun: bool,
    external: Option<Arc<ExternalRows>>,
    stage: Stage,
}

/// State of a statement that runs several times.
#[derive(Default)]
struct State {
    fresh: Option<Box<RowsPlan>>,
    known: Option<Arc<KnownCalls>>,
    is_begun: bool,
    /// Rows of its queries that another executor ran in the statement's snapshot.
    external: Option<Arc<ExternalRows>>,
}

impl State {
    fn then(self, stage: Stage) -> Begun {
        let State { fresh, known, is_begun, external } = self;
        Begun::Unfinished(Unfinished { fresh, known, is_begun, external, stage })
    }
}

enum Stage {
    /// Waits for DDL on a table that the statement changes or locks.
    Enters(Event),
    /// Waits for another transaction; the statement was undone.
    Waits(Event),
    /// Has triggers that run before it begins.
    Before,
    /// Has queries that another executor runs.
    External,
    /// Needs values of functions of users; the statement was undone.
    Calls,
    /// Is complete, and has triggers that run after it.
    After(Executed, Lsn),
    /// The query turned out to be long and continues as a [`reading`]; it was undone.
    Long,
    /// The change turned out to be long and runs again where it delays no other session; it was undone.
    LongChange,
    /// The result depends on a commit that is not durable yet.
    Shows(Executed, Lsn),
}

/// Runs a compiled statement inside the session's transaction, as far as possible without waiting. Rows are
/// appended to `messages` if given, otherwise collected in batches.
pub(crate) fn begin(
    session: &mut Session,
    prepared: &Prepared,
    plan: &RowsPlan,
    arguments: Arguments<'_>,
    messages: Option<&mut Messages<'_>>,
) -> Result<Begun> {
    if !plan.compiled.is_read_only() {
        session.writer().map_err(|error| match error.state() {
            SqlState::READ_ONLY_SQL_TRANSACTION => {
                let what = format!("{:?}", plan.verb).to_uppercase();
                Error::new(error.state(), format!("cannot execute {what} in a read-only transaction"))
            }
            _ => error,
        })?;
    }
    enter_and_run(session, prepared, plan, State::default(), arguments, messages)
}

fn enter_and_run(
    session: &mut Session,
    prepared: &Prepared,
    plan: &RowsPlan,
    mut state: State,
    arguments: Arguments<'_>,
    messages: Option<&mut Messages<'_>>,
) -> Result<Begun> {
    match enter(session, prepared, plan, &mut state.fresh)? {
        Some(event) => Ok(state.then(Stage::Enters(event))),
        None => run(session, prepared, plan, state, arguments, messages),
    }
}

/// Continues a statement that [`begin`] started, with the same arguments.
pub(crate) async fn finish(
    session: &mut Session,
    prepared: &Prepared,
    plan: &RowsPlan,
    arguments: Arguments<'_>,
    mut messages: Option<Messages<'_>>,
    mut unfinished: Unfinished,
) -> Result<Executed> {
    let patience = session.settings.lock_timeout();
    loop {
        let Unfinished { fresh, known, is_begun, external, stage } = unfinished;
        let mut state = State { fresh, known, is_begun, external };
        let begun = match stage {
            Stage::Enters(event) => {
                wait(&event, patience).await?;
                enter_and_run(session, prepared, plan, state, arguments, messages.as_mut())?
            }
            Stage::Before => {
                let triggers = state.fresh.as_deref().unwrap_or(plan).triggers.clone();
                computing(Box::pin(trigger::fire_statement(session, &triggers, TriggerTiming::Before))).await?;
                state.is_begun = true;
                compute(|| enter_and_run(session, prepared, plan, state, arguments, messages.as_mut()))?
            }
            Stage::External => {
                let values = arguments.values()?;
                let plan_now = state.fresh.as_deref().unwrap_or(plan);
                let read = ExternalRows::read(session, &prepared.0.statement, plan_now, values);
                state.external = Some(Arc::new(computing(Box::pin(read)).await?));
                compute(|| run(session, prepared, plan, state, arguments, messages.as_mut()))?
            }
            Stage::Calls => {
                // The statement takes a new snapshot.
                state.external = None;
                if let Some(known) = &state.known {
                    let called = routine::call_wanted(session, known).await;
                    called.map_err(|error| locate(error, &prepared.0.statement.0))?;
                }
                compute(|| enter_and_run(session, prepared, plan, state, arguments, messages.as_mut()))?
            }
            Stage::After(executed, seen) => {
                let noted = state.known.as_ref().map(|known| known.take_noted()).unwrap_or_default();
                let triggers = state.fresh.as_deref().unwrap_or(plan).triggers.clone();
                computing(Box::pin(async {
                    trigger::fire_noted(session, noted).await?;
                    trigger::fire_statement(session, &triggers, TriggerTiming::After).await
                }))
                .await?;
                if plan.columns.is_some() {
                    until_durable(session, seen).await?;
                }
                return Ok(executed);
            }
            Stage::Waits(event) => {
                let waited = wait(&event, patience).await;
                waited.map_err(|error| locate(error, &prepared.0.statement.0))?;
                run(session, prepared, plan, state, arguments, messages.as_mut())?
            }
            Stage::Long => {
                let forms = messages.map(|messages| messages.forms.to_vec());
                session.end_rows_statement();
                return Box::pin(reading::start(session, prepared, state.fresh, arguments, forms)).await;
            }
            Stage::LongChange => compute(|| run(session, prepared, plan, state, arguments, messages.as_mut()))?,
            Stage::Shows(executed, seen) => {
                until_durable(session, seen).await?;
                return Ok(executed);
            }
        };
        match begun {
            Begun::Done(executed) => return Ok(executed),
            Begun::Unfinished(more) => unfinished = more,
        }
    }
}

/// Runs a compiled statement to completion.
pub(crate) async fn execute(
    session: &mut Session,
    prepared: &Prepared,
    plan: &RowsPlan,
    arguments: Arguments<'_>,
    mut messages: Option<Messages<'_>>,
) -> Result<Executed> {
    match begin(session, prepared, plan, arguments, messages.as_mut())? {
        Begun::Done(executed) => Ok(executed),
        Begun::Unfinished(unfinished) => finish(session, prepared, plan, arguments, messages, unfinished).await,
    }
}

/// Runs a statement whose tables are locked against DDL.
fn run(
    session: &mut Session,
    prepared: &Prepared,
    given: &RowsPlan,
    mut state: State,
    arguments: Arguments<'_>,
    messages: Option<&mut Messages<'_>>,
) -> Result<Begun> {
    let State { fresh, known, is_begun, external } = &mut state;
    let plan = fresh.as_deref().unwrap_or(given);
    if !*is_begun && plan.triggers.iter().any(|one| one.timing == TriggerTiming::Before) {
        return Ok(state.then(Stage::Before));
    }
    if external.is_none() && plan.has_external_queries() {
        return Ok(state.then(Stage::External));
    }
    let external = external.clone();
    let mut rows = match messages {
        Some(Messages { out, forms }) => Rows::Messages { start: out.len(), messages: Messages { out, forms } },
        None => Rows::batches(plan.columns.as_deref(), &plan.types, &session.settings.time_zone()),
    };
    let clocks = match plan.needs_facts() {
        true => {
            let context = match &external {
                Some(external) => Arc::clone(&external.context),
                None if plan.names_tables() => session.context_of_newest(),
                None => session.context(),
            };
            if plan.compiled.is_read_only() || !plan.compiled.calls_routines() {
                Clocks::with_facts(session, &context)
            } else {
                let known = known
                    .get_or_insert_with(|| Arc::new(KnownCalls::new(Arc::clone(&context.routines), &session.database)));
                known.start();
                Clocks::with_calls(session, &context, known)
            }
        }
        false => Clocks::of(session),
    };
    let effort = Effort::new(!plan.compiled.is_read_only() && is_computing());
    if effort.limited && plan.was_long.load(Ordering::Relaxed) && !plan.compiled.is_read_only() {
        return Ok(state.then(Stage::LongChange));
    }
    let lacks_values = || known.as_ref().is_some_and(|known| known.lacks_values());
    let external = external.as_ref().map(|external| external.rows()).unwrap_or_default();
    let attempted = attempt(session, plan, (arguments, &external), &clocks, (&mut rows, &lacks_values), &effort);
    plan.was_long.store(effort.is_long(), Ordering::Relaxed);
    let stage = match attempted {
        _ if lacks_values() && !effort.given_up.get() => {
            rows.clear();
            session.end_rows_statement();
            Stage::Calls
        }
        Ok(Ran::Done { rows: count }) => {
            let seen = session.end_rows_statement();
            let executed = executed(rows, plan.columns.as_deref(), plan.verb, count)?;
            let has_noted = known.as_ref().is_some_and(|known| known.has_noted());
            if has_noted || plan.triggers.iter().any(|one| one.timing == TriggerTiming::After) {
                return Ok(state.then(Stage::After(executed, seen)));
            }
            // Rows must be durable before they are returned: a crash must not revoke them.
            if plan.columns.is_none() || is_durable(session, seen)? {
                return Ok(Begun::Done(executed));
            }
            Stage::Shows(executed, seen)
        }
        Ok(Ran::Wait(event)) => {
            rows.clear();
            Stage::Waits(event)
        }
        Err(_) if effort.given_up.get() => {
            rows.clear();
            if plan.compiled.is_read_only() { Stage::Long } else { Stage::LongChange }
        }
        Err(error) => return Err(locate(error, &prepared.0.statement.0)),
    };
    Ok(state.then(stage))
}

/// Result of a statement with these output columns.
pub(crate) fn executed(rows: Rows<'_>, columns: Option<&[OutputColumn]>, verb: Verb, count: u64) -> Result<Executed> {
    Ok(match (rows, columns) {
        (Rows::Messages { .. }, _) => Executed::Sent { words: verb.words(), rows: count },
        (Rows::Batches { mut batches, mut maker, .. }, Some(columns)) => {
            let columns = columns.to_vec();
            batches.extend(maker.rest()?);
            let batches = Box::pin(futures::stream::iter(batches.into_iter().map(Ok)));
            let tag = match verb {
                Verb::Select => "SELECT".to_owned(),
                verb => verb.tag(count),
            };
            Executed::Outcome(Outcome::Rows { columns, batches, tag: tag.into() })
        }
        (_, None) => Executed::Outcome(Outcome::command(verb.tag(count))),
    })
}

/// Locks the tables that a statement changes or locks against DDL. Plans the statement again if its plan is
/// no longer valid. Returns an event if it must wait.
fn enter(
    session: &mut Session,
    prepared: &Prepared,
    given: &RowsPlan,
    fresh: &mut Option<Box<RowsPlan>>,
) -> Result<Option<Event>> {
    if !given.names_tables() {
        // The statement reads nothing: under REPEATABLE READ the transaction must not be bound to a commit
        // that a crash could revoke.
        let _: Option<engine::Snapshot> = session.txn().map(engine::Txn::snapshot);
        if !given.is_always_valid() && !given.holds(&session.context().reads.snapshot, &session.settings) {
            *fresh = Some(Box::new(planned_anew(session, prepared, given)?));
        }
        return Ok(None);
    }
    'anew: loop {
        let snapshot = session.newest();
        let plan = fresh.as_deref().unwrap_or(given);
        // Files are listed when a statement is bound.
        let lists_files = fresh.is_none() && !given.files().is_empty();
        if lists_files || !plan.holds(&snapshot, &session.settings) {
            *fresh = Some(Box::new(planned_anew(session, prepared, given)?));
        }
        let plan = fresh.as_deref().unwrap_or(given);
        for table in plan.compiled.entered() {
            match session.rows_txn()?.enter(table, Access::Shared)? {
                Entered::In => {}
                Entered::Wait(event) => return Ok(Some(event)),
                // In a transaction with a fixed snapshot, the change itself reports the conflict as an error.
                Entered::Changed if plan.holds(&session.newest(), &session.settings) => {}
                Entered::Changed => continue 'anew,
            }
        }
        return Ok(None);
    }
}

/// Plans a statement again because the catalog or the settings have changed.
pub(crate) fn planned_anew(session: &mut Session, prepared: &Prepared, old: &RowsPlan) -> Result<RowsPlan> {
    let statement = &prepared.0.statement;
    // A table that was just dropped may still exist in the last durable commit, where DataFusion plans.
    let snapshot = session.newest();
    if let Some(gone) = old.compiled.entered().find(|table| snapshot.row_table(&table.schema.name).is_err()) {
        let text = format!("relation \"{}\" does not exist", gone.schema.name.table);
        return Err(locate(Error::new(SqlState::UNDEFINED_TABLE, text), &statement.0));
    }
    // If the table was dropped, or belongs to the other store now, planning most likely reports that as the error.
    session.keeps_executor = true;
    let fresh = session.plan_statement(statement, &prepared.0.declared);
    session.keeps_executor = false;
    let fresh = fresh?;
    match Arc::into_inner(fresh.0).map(|fresh| fresh.plan) {
        Some(Plan::Rows(fresh)) if fresh.types == old.types && fresh.parameters == old.parameters => Ok(*fresh),
        _ => Err(Error::unsupported("cached plan must not change result type")),
    }
}

/// An argument of EXECUTE that is evaluated.
pub(crate) struct Argument<'a> {
    /// Number of the parameter, from 1.
    pub(crate) number: usize,
    pub(crate) expr: &'a Expr,
    /// OID of the parameter's type.
    pub(crate) ty: u32,
}

/// Evaluates expressions without tables, and returns the texts of their values as values of the parameters' types.
///
/// # Errors
/// 42804 for a type that cannot be assigned to that of the parameter; errors of binding and evaluation; 0A000 for what the
/// row executor does not support.
pub(crate) async fn evaluated(session: &mut Session, arguments: &[Argument<'_>]) -> Result<Vec<Value>> {
    let alone = session.block.is_none();
    session.begin_implicit();
    let plain = arguments.iter().map(|argument| format!("({})", argument.expr)).collect();
    let own = selected(session, plain)?;
    for (argument, column) in arguments.iter().zip(own.columns().unwrap_or_default()) {
        check_assigned(argument, column.oid)?;
    }
    let cast = |Argument { expr, ty, .. }: &Argument<'_>| match Type::from_oid(*ty, -1) {
        Some(Type::Char(_)) | None => format!("CAST(({expr}) AS text)"),
        Some(ty) => format!("CAST(CAST(({expr}) AS {ty}) AS text)"),
    };
    let prepared = selected(session, arguments.iter().map(cast).collect())?;
    let Plan::Rows(plan) = &prepared.0.plan else {
        return Err(Error::unsupported("EXECUTE takes constants and expressions over no table as arguments"));
    };
    let (mut out, forms) = (Vec::new(), vec![Form::Text; arguments.len()]);
    let messages = Messages { out: &mut out, forms: &forms };
    execute(session, &prepared, plan, Arguments::Values(&[]), Some(messages)).await?;
    if alone {
        session.end_implicit().await?;
    }
    texts_of(&out)
}

/// The plan of a query of these expressions.
fn selected(session: &mut Session, list: Vec<String>) -> Result<Prepared> {
    let parsed = crate::statement::parse(&format!("SELECT {}", list.join(", ")))?;
    let parsed = parsed.into_iter().next().ok_or_else(|| Error::bug("no query"))?.without_place();
    session.plan_statement(&parsed, &[])
}

/// Checks that a value of type `from` can be assigned to the parameter.
fn check_assigned(argument: &Argument<'_>, from: u32) -> Result<()> {
    let (catalog, from, to) = (catalog::builtin(), TypeId(from), TypeId(argument.ty));
    if from == to || from == TypeId::UNKNOWN || catalog.cast(from, to, CastContext::Assignment).is_some() {
        return Ok(());
    }
    let (from, to) = (catalog.type_name(from), catalog.type_name(to));
    let text = format!("parameter ${} of type {from} cannot be coerced to the expected type {to}", argument.number);
    Err(Error::new(SqlState::DATATYPE_MISMATCH, text).with_hint("You will need to rewrite or cast the expression."))
}

/// The values of a DataRow message.
fn texts_of(message: &[u8]) -> Result<Vec<Value>> {
    // A tag, the message's length, the number of values, and each value after its length.
    let mut rest = message.get(7..).ok_or_else(|| Error::bug("a query without a row"))?;
    let mut values = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = usize::try_from(i32::from_be_bytes(*length)).ok();
        let (value, after) = after.split_at(length.unwrap_or(0));
        values.push(match length {
            Some(_) => Value::Text(String::from_utf8_lossy(value).into_owned()),
            None => Value::Null,
        });
        rest = after;
    }
    Ok(values)
}

/// Amount of work of a statement, and its limit.
struct Effort {
    /// Whether the statement gives up when it turns out to be long.
    limited: bool,
    given_up: Cell<bool>,
    /// Visited rows, in thousands.
    questions: Cell<u32>,
}

impl Effort {
    fn new(unlimited: bool) -> Effort {
        Effort { limited: !unlimited, given_up: Cell::new(false), questions: Cell::new(0) }
    }

    fn is_long(&self) -> bool {
        self.questions.get() > LONG_QUESTIONS
    }

    /// Ends a statement that gives up with an error, which no client sees.
    fn give_up(&self) -> Result<()> {
        self.given_up.set(true);
        Err(Error::bug("a long statement that was not run again"))
    }

    /// Records that about a thousand more rows were visited.
    fn question(&self) -> Result<()> {
        self.questions.set(self.questions.get().saturating_add(1));
        if self.limited && self.is_long() { self.give_up() } else { Ok(()) }
    }
}

/// Makes one attempt. If it must wait or fails, it leaves no changes. It also fails if it is long and
/// `effort` is limited.
fn attempt(
    session: &mut Session,
    plan: &RowsPlan,
    (arguments, external): (Arguments<'_>, &[&dyn Incoming]),
    clocks: &Clocks,
    (rows, lacks_values): (&mut Rows<'_>, &dyn Fn() -> bool),
    effort: &Effort,
) -> Result<Ran> {
    let arena = Bump::new();
    let params = arguments.datums(plan.compiled.params(), &arena, clocks)?;
    let mut take = |row: &[Datum<'_>]| {
        rows.take(row, &plan.types, clocks)?;
        if effort.limited && rows.bytes() > LONG_BYTES { effort.give_up() } else { Ok(()) }
    };
    let is_done = |ran: &Result<Ran>| matches!(ran, Ok(Ran::Done { .. })) && !lacks_values();
    within(session, clocks, is_done, |txn, given, guard| {
        let stops = given.check;
        let check = |bytes| effort.question().and_then(|()| stops(bytes));
        let given = compiled::Session { check: &check, ..given };
        if let Some(known) = clocks.calls() {
            let seen = known.seen_writes(txn.writes());
            if seen < txn.writes() {
                txn.hide_calls(seen);
            }
        }
        compiled::run_with(&plan.compiled, txn, (&params, external), given, guard, &mut take)
    })?
}

/// Runs a closure in the session's transaction. Unless `is_done` returns true for its result, its changes are
/// undone.
pub(crate) fn within<T>(
    session: &mut Session,
    clocks: &Clocks,
    is_done: impl FnOnce(&T) -> bool,
    run: impl FnOnce(&mut ::rows::Txn, compiled::Session<'_>, &Guard) -> T,
) -> Result<T> {
    let now = session.now_ns().div_euclid(1_000);
    session.rows_txn()?;
    let Session { database, block, had, stop, outbox, .. } = session;
    let planned = outbox.lock().len();
    let txn = block.as_mut().and_then(|block| block.txn.as_mut());
    let (txn, numbers) =
        txn.ok_or_else(|| Error::bug("a statement on rows outside a transaction"))?.rows_and_sequences(had);
    let numbers = Numbers { of_sequences: numbers, env: database.engine().env(), known: clocks.calls() };
    let guard = crossbeam_epoch::pin();
    let savepoint = txn.savepoint();
    let memory = Memory::new(database);
    let check = |bytes| stop.check().and_then(|()| memory.hold(bytes));
    let given = compiled::Session { check: &check, now, zone: clocks, numbers: Some(&numbers) };
    let ran = run(txn, given, &guard);
    txn.note_commit_seen(numbers.of_sequences.seen());
    if !is_done(&ran) {
        txn.undo_to(savepoint, &guard)?;
        outbox.lock().truncate(planned);
    }
    Ok(ran)
}

/// Runs a closure with the sequences of a transaction. `had`: the memory of its session.
pub(crate) fn numbered<T>(
    txn: &mut engine::Txn,
    had: &mut engine::SessionSequences,
    env: &Arc<dyn env::Env>,
    run: impl FnOnce(&dyn compiled::Numbers) -> T,
) -> T {
    let (rows, of_sequences) = txn.rows_and_sequences(had);
    let numbers = Numbers { of_sequences, env, known: None };
    let done = run(&numbers);
    rows.note_commit_seen(numbers.of_sequences.seen());
    done
}

/// Memory of a statement, charged to the memory of all statements.
pub(crate) struct Memory<'a> {
    database: &'a Database,
    /// Reservation, made when the statement uses enough memory to be counted.
    held: OnceCell<Reserved>,
}

impl<'a> Memory<'a> {
    pub(crate) fn new(database: &'a Database) -> Memory<'a> {
        Memory { database, held: OnceCell::new() }
    }

    /// Sets the memory that the statement uses.
    ///
    /// # Errors
    /// 53200 if there is not enough memory.
    pub(crate) fn hold(&self, bytes: usize) -> Result<()> {
        if bytes < COUNTED_BYTES_MIN && self.held.get().is_none() {
            return Ok(());
        }
        self.held.get_or_init(|| self.database.runtime().reserved("rows")).resize(bytes)
    }
}

/// Memory of a statement is counted from this many bytes.
const COUNTED_BYTES_MIN: usize = 1 << 20;

/// Values that differ at each call: sequence numbers and random numbers.
struct Numbers<'a> {
    of_sequences: engine::SequenceAccess<'a>,
    env: &'a Arc<dyn env::Env>,
    /// The numbers of the runs before, if the statement may run several times.
    known: Option<&'a KnownCalls>,
}

impl compiled::Numbers for Numbers<'_> {
    fn next(&self, sequence: u32) -> Result<std::result::Result<i64, Event>> {
        let make = || self.of_sequences.next(sequence);
        self.known.map_or_else(make, |known| known.number(Some(sequence), make))
    }

    fn current(&self, sequence: u32) -> Option<i64> {
        self.of_sequences.current(sequence)
    }

    fn last(&self) -> Option<i64> {
        self.of_sequences.last()
    }

    fn set(&self, sequence: u32, last: i64, is_called: bool) -> Result<std::result::Result<(), Event>> {
        self.of_sequences.set(sequence, SequenceState { last, is_called })
    }

    fn random(&self) -> u64 {
        let Some(known) = self.known else { return self.env.random() };
        let made = known.number::<Event>(None, || Ok(Ok(self.env.random().cast_signed())));
        made.ok().and_then(std::result::Result::ok).map_or_else(|| self.env.random(), i64::cast_unsigned)
    }
}

/// Whether a commit is durable, if the session's commits must be.
fn is_durable(session: &Session, lsn: Lsn) -> Result<bool> {
    Ok(session.settings.durability() != Durability::Sync || session.database.engine().when_durable(lsn)?.is_none())
}

/// Waits until a commit is durable, if the session's commits must be.
pub(crate) async fn until_durable(session: &Session, lsn: Lsn) -> Result<()> {
    if session.settings.durability() != Durability::Sync {
        return Ok(());
    }
    while let Some(event) = session.database.engine().when_durable(lsn)? {
        when_set(&event).await;
    }
    Ok(())
}

/// Maximum bytes of the rows that a change returns, all of which are produced before any is sent.
const RESULT_BYTES_MAX: usize = 256 << 20;
/// Result size above which a query is moved to a separate thread (some milliseconds of work).
const LONG_BYTES: usize = 1 << 20;
/// Visited rows, in thousands, above which a query is moved to a separate thread.
const LONG_QUESTIONS: u32 = 16;

fn too_large() -> Error {
    Error::new(SqlState::OUT_OF_MEMORY, format!("the result is larger than {} MiB", RESULT_BYTES_MAX >> 20))
        .with_hint("change fewer rows at once, or do without RETURNING")
}

/// Output rows of a statement.
pub(crate) enum Rows<'a> {
    Messages { start: usize, messages: Messages<'a> },
    Batches { batches: Vec<RecordBatch>, bytes: usize, maker: BatchMaker },
}

impl Rows<'_> {
    pub(crate) fn batches(columns: Option<&[OutputColumn]>, types: &[ResultType], zone: &str) -> Rows<'static> {
        let maker = BatchMaker::new(columns.unwrap_or_default(), types, zone);
        Rows::Batches { batches: Vec::new(), bytes: 0, maker }
    }

    pub(crate) fn take(&mut self, row: &[Datum<'_>], types: &[ResultType], clocks: &Clocks) -> Result<()> {
        match self {
            Rows::Messages { messages, .. } => write_row(messages.out, row, types, messages.forms, clocks)?,
            Rows::Batches { batches, bytes, maker } => {
                if let Some(batch) = maker.row(row)? {
                    *bytes += batch.get_array_memory_size();
                    batches.push(batch);
                }
            }
        }
        if self.bytes() > RESULT_BYTES_MAX { Err(too_large()) } else { Ok(()) }
    }

    /// Bytes of the rows so far.
    fn bytes(&self) -> usize {
        match self {
            Rows::Messages { messages, start } => messages.out.len() - *start,
            Rows::Batches { bytes, .. } => *bytes,
        }
    }

    /// Removes the rows before the statement runs again.
    pub(crate) fn clear(&mut self) {
        match self {
            Rows::Messages { start, messages } => messages.out.truncate(*start),
            Rows::Batches { batches, bytes, maker } => {
                batches.clear();
                *bytes = 0;
                maker.clear();
            }
        }
    }
}

/// Appends a DataRow message.
pub(crate) fn write_row(
    out: &mut Vec<u8>,
    row: &[Datum<'_>],
    types: &[ResultType],
    forms: &[Form],
    clocks: &Clocks,
) -> Result<()> {
    let mut offset = |seconds| clocks.offset_at(seconds);
    let mut out = data_row(out, row.len());
    let mut written = Ok(());
    for ((datum, ty), form) in row.iter().zip(types).zip(forms) {
        match (datum, ty.of_text) {
            (Datum::Null, _) => out.null(),
            (Datum::Text(text), Some(oid)) if *form == Form::Binary => out.value(|out| {
                written = std::mem::replace(&mut written, Ok(())).and_then(|()| clocks.binary_of_text(text, oid, out));
            }),
            (datum, _) => out.value(|out| pg::row_value::write(out, datum, ty.ty, *form, &mut offset)),
        }
    }
    out.finish();
    written
}

/// Assembles rows into record batches.
pub(crate) struct BatchMaker {
    builders: Vec<Builder>,
    schema: SchemaRef,
    pending: usize,
    /// Approximate bytes of the pending values.
    bytes: usize,
}

impl BatchMaker {
    pub(crate) fn new(columns: &[OutputColumn], types: &[ResultType], zone: &str) -> BatchMaker {
        let builders = types.iter().map(|ty| Builder::new(carried(ty.ty), zone, 0)).collect();
        let columns = columns.iter().zip(types);
        let fields: Vec<Field> =
            columns.map(|(column, ty)| Field::new(&column.name, arrow_of(carried(ty.ty), zone), true)).collect();
        BatchMaker { builders, schema: Arc::new(Schema::new(fields)), pending: 0, bytes: 0 }
    }

    /// Adds a row; returns a batch when there are enough rows.
    pub(crate) fn row(&mut self, row: &[Datum<'_>]) -> Result<Option<RecordBatch>> {
        for (builder, datum) in self.builders.iter_mut().zip(row) {
            builder.push(datum)?;
            self.bytes += match datum {
                Datum::Text(text) => text.len(),
                Datum::Bytes(bytes) => bytes.len(),
                _ => size_of::<i64>(),
            };
        }
        self.pending += 1;
        if self.pending < BATCH_ROWS && self.bytes < RESULT_BYTES { Ok(None) } else { self.rest() }
    }

    /// Returns the remaining rows.
    pub(crate) fn rest(&mut self) -> Result<Option<RecordBatch>> {
        let rows = std::mem::take(&mut self.pending);
        self.bytes = 0;
        if rows == 0 {
            return Ok(None);
        }
        let arrays: Vec<ArrayRef> = self.builders.iter_mut().map(Builder::finish).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options).map(Some).map_err(Error::bug)
    }

    fn clear(&mut self) {
        self.builders.iter_mut().for_each(|builder| drop(builder.finish()));
        (self.pending, self.bytes) = (0, 0);
    }
}

/// Type whose Arrow type represents a column: a `numeric` without scale becomes text, which keeps the scale
/// of each value.
pub(crate) fn carried(ty: Type) -> Type {
    if ty == Type::Numeric(None) { Type::Text } else { ty }
}

impl Session {
    /// Ends a statement on `rows` tables; returns the newest commit that it has read from.
    pub(crate) fn end_rows_statement(&mut self) -> Lsn {
        let Some(txn) = self.block.as_mut().and_then(|block| block.txn.as_mut()) else { return Lsn::ZERO };
        let seen = txn.rows().newest_seen();
        txn.end_statement();
        seen
    }

    pub(crate) fn rows_txn(&mut self) -> Result<&mut ::rows::Txn> {
        self.txn().map(engine::Txn::rows).ok_or_else(|| Error::bug("a statement on rows outside a transaction"))
    }
}
