//! Running a compiled statement: values in, the statement again for as long as it must wait, rows out.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema, SchemaRef};
use compiled::Ran;
use crossbeam_epoch::Guard;
use engine::{Durability, Event, SequenceState};
use model::{Datum, Error, Lsn, Numeric, Result, SqlState, Type};
use pg::Form;
use pg::backend::data_row;

use super::arrow::{Builder, arrow_of};
use ::rows::{Access, Entered};

use super::zone::Clocks;
use super::{Bound, RowsPlan, Verb};
use crate::database::when_set;
use crate::errors::locate;
use crate::provider::BATCH_ROWS;
use crate::session::{Outcome, Prepared, Session};
use crate::statement::Command;
use crate::types::{OutputColumn, Value};

/// Where the rows of a compiled statement go as they come: DataRow messages.
pub struct Messages<'a> {
    /// Rows are appended here. What a failed statement left is to be taken off.
    pub out: &'a mut Vec<u8>,
    /// Text or binary, for each column.
    pub forms: &'a [Form],
}

/// Values for a statement's parameters.
#[derive(Clone, Copy)]
pub enum Arguments<'a> {
    /// For any statement.
    Values(&'a [Value]),
    /// For one that is compiled; see [`Session::bind`].
    Bound(&'a Bound),
}

impl<'a> Arguments<'a> {
    pub(crate) fn len(self) -> usize {
        match self {
            Arguments::Values(values) => values.len(),
            Arguments::Bound(bound) => bound.len(),
        }
    }

    /// For statements that are not compiled.
    pub(crate) fn values(self) -> Result<&'a [Value]> {
        match self {
            Arguments::Values(values) => Ok(values),
            Arguments::Bound(_) => Err(Error::unsupported("cached plan must not change result type")),
        }
    }

    fn datums(self, types: &[Type]) -> Result<Vec<Datum<'a>>> {
        match self {
            Arguments::Values(values) => values.iter().zip(types).map(|(value, ty)| datum(value, *ty)).collect(),
            Arguments::Bound(bound) => bound.iter().zip(types).map(|(datum, ty)| ::rows::assign(*ty, datum?)).collect(),
        }
    }
}

/// What executing a statement gave.
#[expect(clippy::large_enum_variant, reason = "there is one for a statement")]
pub enum Executed {
    /// As [`Session::execute`] gives it.
    Outcome(Outcome),
    /// All rows are in the messages.
    Sent {
        /// The command tag.
        tag: String,
        /// How many.
        rows: u64,
    },
}

/// Runs a compiled statement inside the session's transaction. Rows go to `messages` if there are any, and else into batches.
pub(crate) async fn execute(
    session: &mut Session,
    prepared: &Prepared,
    plan: &RowsPlan,
    arguments: Arguments<'_>,
    messages: Option<Messages<'_>>,
) -> Result<Executed> {
    if !plan.compiled.is_read_only() {
        session.writer().map_err(|error| match error.state() {
            SqlState::READ_ONLY_SQL_TRANSACTION => {
                let what = format!("{:?}", plan.verb).to_uppercase();
                Error::new(error.state(), format!("cannot execute {what} in a read-only transaction"))
            }
            _ => error,
        })?;
    }
    let fresh = entered(session, prepared, plan).await?;
    let plan = fresh.as_ref().unwrap_or(plan);
    let mut rows = match messages {
        Some(messages) => Rows::Messages { start: messages.out.len(), messages },
        None => Rows::batches(plan.columns.as_deref(), &plan.types, &session.settings.time_zone()),
    };
    let parsed = &prepared.0.statement.0;
    let count = run(session, plan, arguments, &mut rows).await.map_err(|error| locate(error, parsed))?;
    executed(rows, plan.columns.clone(), plan.verb, count)
}

/// What a statement gave that put out rows of these columns.
pub(super) fn executed(rows: Rows<'_>, columns: Option<Vec<OutputColumn>>, verb: Verb, count: u64) -> Result<Executed> {
    Ok(match (rows, columns) {
        (Rows::Messages { .. }, Some(_)) => Executed::Sent { tag: verb.tag(count), rows: count },
        (Rows::Batches { mut batches, mut builders, schema, pending, .. }, Some(columns)) => {
            flush(&mut batches, &mut builders, &schema, pending)?;
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

/// Enters the tables that a statement changes or locks, so that none is altered under it; the plan made anew, if the one given holds
/// no longer.
async fn entered(session: &mut Session, prepared: &Prepared, given: &RowsPlan) -> Result<Option<RowsPlan>> {
    let patience = session.settings.lock_timeout();
    let mut fresh: Option<RowsPlan> = None;
    'anew: loop {
        let snapshot = session.newest();
        let plan = fresh.as_ref().unwrap_or(given);
        if !plan.holds(&snapshot, &session.settings) {
            fresh = Some(planned_anew(session, prepared, given)?);
        }
        let plan = fresh.as_ref().unwrap_or(given);
        for table in plan.compiled.entered() {
            match session.rows_txn()?.enter(table, Access::Shared)? {
                Entered::In => {}
                Entered::Wait(event) => {
                    wait(&event, patience).await?;
                    continue 'anew;
                }
                // A transaction that stays with the snapshot it has is told by the change itself, as an error.
                Entered::Changed if plan.holds(&session.newest(), &session.settings) => {}
                Entered::Changed => continue 'anew,
            }
        }
        return Ok(fresh);
    }
}

/// The catalog or the settings changed since the statement was planned.
fn planned_anew(session: &mut Session, prepared: &Prepared, old: &RowsPlan) -> Result<RowsPlan> {
    let statement = &prepared.0.statement;
    let Command::Sql(sql) = &statement.0.command else { return Err(Error::bug("a compiled statement that is no SQL")) };
    // What was dropped a moment ago may still be there for those who plan at the last durable commit.
    let snapshot = session.newest();
    if let Some(gone) = old.compiled.entered().find(|table| snapshot.row_table(&table.schema.name).is_err()) {
        let text = format!("relation \"{}\" does not exist", gone.schema.name.table);
        return Err(locate(Error::new(SqlState::UNDEFINED_TABLE, text), &statement.0));
    }
    let fresh = super::plan(session, statement, sql, &prepared.0.declared)?;
    if fresh.is_none() {
        // Its table is gone, or is another one now; most likely that is the error.
        session.plan_statement(statement, &prepared.0.declared)?;
    }
    fresh
        .filter(|fresh| fresh.types == old.types && fresh.parameters == old.parameters)
        .ok_or_else(|| Error::unsupported("cached plan must not change result type"))
}

async fn run(session: &mut Session, plan: &RowsPlan, arguments: Arguments<'_>, rows: &mut Rows<'_>) -> Result<u64> {
    let clocks = Clocks(session.settings.zone().clone());
    let patience = session.settings.lock_timeout();
    let count = loop {
        match attempt(session, plan, arguments, &clocks, rows)? {
            Ran::Done { rows } => break rows,
            Ran::Wait(event) => {
                rows.clear();
                wait(&event, patience).await?;
            }
        }
    };
    let seen = session.end_rows_statement();
    // What is shown must not be taken back by a crash.
    if plan.columns.is_some() {
        until_durable(session, seen).await?;
    }
    Ok(count)
}

/// Runs the statement once. If it has to wait, or fails, nothing of it stays.
fn attempt(
    session: &mut Session,
    plan: &RowsPlan,
    arguments: Arguments<'_>,
    clocks: &Clocks,
    rows: &mut Rows<'_>,
) -> Result<Ran> {
    let params = arguments.datums(plan.compiled.params())?;
    let mut offset = |seconds| clocks.offset_at(seconds);
    let mut take = |row: &[Datum<'_>]| rows.take(row, &plan.types, &mut offset);
    let is_done = |ran: &Result<Ran>| matches!(ran, Ok(Ran::Done { .. }));
    within(session, clocks, is_done, |txn, given, guard| {
        compiled::run(&plan.compiled, txn, &params, given, guard, &mut take)
    })?
}

/// Runs something in the session's transaction. Unless it is done then, nothing of it stays.
pub(super) fn within<T>(
    session: &mut Session,
    clocks: &Clocks,
    is_done: impl FnOnce(&T) -> bool,
    run: impl FnOnce(&mut ::rows::Txn, compiled::Session<'_>, &Guard) -> T,
) -> Result<T> {
    let now = session.now_ns().div_euclid(1_000);
    session.rows_txn()?;
    let Session { database, block, had, .. } = session;
    let txn = block.as_mut().and_then(|block| block.txn.as_mut());
    let (txn, numbers) =
        txn.ok_or_else(|| Error::bug("a statement on rows outside a transaction"))?.rows_and_numbers(had);
    let numbers = Numbers { of_sequences: numbers, env: database.engine().env() };
    let guard = crossbeam_epoch::pin();
    let savepoint = txn.savepoint();
    let given = compiled::Session { check: &|| Ok(()), now, zone: clocks, numbers: Some(&numbers) };
    let ran = run(txn, given, &guard);
    txn.note_commit_seen(numbers.of_sequences.seen());
    if !is_done(&ran) {
        txn.undo_to(savepoint, &guard)?;
    }
    Ok(ran)
}

/// What statements take from the session that is other each time.
struct Numbers<'a> {
    of_sequences: engine::Numbers<'a>,
    env: &'a Arc<dyn env::Env>,
}

impl compiled::Numbers for Numbers<'_> {
    fn next(&self, sequence: u32) -> Result<std::result::Result<i64, Event>> {
        self.of_sequences.next(sequence)
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
        self.env.random()
    }
}

/// Waits for a lock, as long as `lock_timeout` allows.
pub(super) async fn wait(event: &Event, patience: Option<Duration>) -> Result<()> {
    let Some(patience) = patience else {
        when_set(event).await;
        return Ok(());
    };
    tokio::time::timeout(patience, when_set(event))
        .await
        .map_err(|_| Error::new(SqlState::LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout"))
}

/// Waits until a commit is on disk, if the session's commits are to be.
pub(crate) async fn until_durable(session: &Session, lsn: Lsn) -> Result<()> {
    if session.settings.durability() != Durability::Sync {
        return Ok(());
    }
    while let Some(event) = session.database.engine().when_durable(lsn)? {
        when_set(&event).await;
    }
    Ok(())
}

/// Bytes of a result that is made as a whole before any of it is sent.
const RESULT_BYTES_MAX: usize = 256 << 20;

fn too_large() -> Error {
    Error::new(SqlState::OUT_OF_MEMORY, format!("the result is larger than {} MiB", RESULT_BYTES_MAX >> 20))
        .with_hint("ask for less of it, or use COPY table TO STDOUT")
}

/// Rows on their way out.
pub(super) enum Rows<'a> {
    Messages { start: usize, messages: Messages<'a> },
    Batches { batches: Vec<RecordBatch>, builders: Vec<Builder>, schema: SchemaRef, pending: usize },
}

impl<'a> Rows<'a> {
    pub(super) fn batches(columns: Option<&[OutputColumn]>, types: &[Type], zone: &str) -> Rows<'a> {
        let builders = types.iter().map(|ty| Builder::new(carried(*ty), zone, 0)).collect();
        let columns = columns.unwrap_or_default().iter().zip(types);
        let fields: Vec<Field> =
            columns.map(|(column, ty)| Field::new(&column.name, arrow_of(carried(*ty), zone), true)).collect();
        Rows::Batches { batches: Vec::new(), builders, schema: Arc::new(Schema::new(fields)), pending: 0 }
    }

    pub(super) fn take(&mut self, row: &[Datum<'_>], types: &[Type], offset: &mut dyn FnMut(i64) -> i32) -> Result<()> {
        match self {
            Rows::Messages { messages, start } => {
                if messages.out.len() - *start > RESULT_BYTES_MAX {
                    return Err(too_large());
                }
                let mut out = data_row(messages.out, row.len());
                for ((datum, ty), form) in row.iter().zip(types).zip(messages.forms) {
                    match datum {
                        Datum::Null => out.null(),
                        datum => out.value(|out| pg::row_value::write(out, datum, *ty, *form, offset)),
                    }
                }
                out.finish();
            }
            Rows::Batches { batches, builders, schema, pending } => {
                for (builder, datum) in builders.iter_mut().zip(row) {
                    builder.push(datum)?;
                }
                *pending += 1;
                if *pending == BATCH_ROWS {
                    let held: usize = batches.iter().map(RecordBatch::get_array_memory_size).sum();
                    if held > RESULT_BYTES_MAX {
                        return Err(too_large());
                    }
                    flush(batches, builders, schema, *pending)?;
                    *pending = 0;
                }
            }
        }
        Ok(())
    }

    /// The statement is run again.
    pub(super) fn clear(&mut self) {
        match self {
            Rows::Messages { start, messages } => messages.out.truncate(*start),
            Rows::Batches { batches, builders, pending, .. } => {
                batches.clear();
                builders.iter_mut().for_each(|builder| drop(builder.finish()));
                *pending = 0;
            }
        }
    }
}

/// The type whose arrow type carries a column: numbers without a scale of their own come as text, which keeps each one's.
fn carried(ty: Type) -> Type {
    if ty == Type::Numeric(None) { Type::Text } else { ty }
}

fn flush(batches: &mut Vec<RecordBatch>, builders: &mut [Builder], schema: &SchemaRef, pending: usize) -> Result<()> {
    if pending == 0 {
        return Ok(());
    }
    let arrays: Vec<ArrayRef> = builders.iter_mut().map(Builder::finish).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(pending));
    batches.push(RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options).map_err(Error::bug)?);
    Ok(())
}

/// A parameter as the statement takes it.
///
/// # Errors
/// 22003 and its like where the value does not fit the type; 42804 for one of another type.
pub(super) fn datum<'a>(value: &'a Value, ty: Type) -> Result<Datum<'a>> {
    let datum = match value {
        Value::Null => Datum::Null,
        Value::Bool(value) => Datum::Bool(*value),
        Value::Int16(value) => Datum::Int2(*value),
        Value::Int32(value) => Datum::Int4(*value),
        Value::Int64(value) => Datum::Int8(*value),
        Value::Float32(value) => Datum::Float4(*value),
        Value::Float64(value) => Datum::Float8(*value),
        Value::Numeric(value, scale) => Datum::Numeric(Numeric::new(*value, u32::from(*scale))),
        Value::Text(text) => Datum::Text(text),
        Value::Bytes(bytes) => Datum::Bytes(bytes),
        Value::Timestamptz(ns) => Datum::Timestamptz(micros(*ns)),
        Value::Timestamp(ns) => Datum::Timestamp(micros(*ns)),
        Value::Date(days) => Datum::Date(*days),
        Value::Time(ns) => Datum::Time(micros(*ns)),
        Value::Interval(months, days, ns) => {
            Datum::Interval(model::Interval { months: *months, days: *days, micros: micros(*ns) })
        }
        Value::Uuid(uuid) => Datum::Uuid(*uuid),
        Value::Array(_) => return Err(Error::unsupported("arrays are not supported with rows tables")),
    };
    ::rows::assign(ty, datum)
}

fn micros(ns: i64) -> i64 {
    ns.div_euclid(1_000)
}

impl Session {
    /// Ends a statement on `rows` tables; gives the newest commit of which it saw something.
    pub(super) fn end_rows_statement(&mut self) -> Lsn {
        let Some(txn) = self.block.as_mut().and_then(|block| block.txn.as_mut()) else { return Lsn::ZERO };
        let seen = txn.rows().newest_seen();
        txn.end_statement();
        seen
    }

    pub(super) fn rows_txn(&mut self) -> Result<&mut ::rows::Txn> {
        self.txn().map(engine::Txn::rows).ok_or_else(|| Error::bug("a statement on rows outside a transaction"))
    }
}
