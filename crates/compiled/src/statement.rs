//! Statements: their catalog, their plans, and execution.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::Arc;

use binder::tree::Query;
use bumpalo::Bump;
use crossbeam_epoch::Guard;
use env::Event;
use model::{Datum, Error, Result, SequenceRef, SqlState, TableId, Type};
use rows::row::RowLayout;
use rows::{RowTable, Txn, View};

use crate::array::ParamType;
use crate::cast::{self, Zone};
use crate::dml::merge::Merge;
use crate::dml::{Change, Incoming, Insert, Late};
use crate::estimates;
use crate::exec::{ExecContext, ReadSource, ResumePoint, Slice, SubPlans};
use crate::lower::{Asks, Parts};
use crate::plan::{Access, Step};
use crate::select::{Output, Select};
use crate::sequences::Numbers;
use crate::sort_limit::Emit;
use crate::triggers::StatementTrigger;

/// Catalog lookups for statements.
pub trait Tables {
    /// A `rows` table by case-folded name; without a schema it is looked up in the search path. `None` if it does
    /// not exist or is not a `rows` table.
    fn table(&self, schema: Option<&str>, name: &str) -> Option<Arc<RowTable>>;

    /// A sequence by name, with the same rules.
    fn sequence(&self, schema: Option<&str>, name: &str) -> Option<SequenceRef>;

    /// A sequence by its number in `pg_class`, as values of type regclass have it.
    fn sequence_of_oid(&self, _: u32) -> Option<SequenceRef> {
        None
    }

    /// A table by id, for foreign keys.
    fn by_id(&self, id: TableId) -> Option<Arc<RowTable>>;

    /// Tables with a foreign key that references this one.
    fn referring(&self, id: TableId) -> Vec<Arc<RowTable>>;
}

/// A compiled statement. Valid as long as its tables keep the versions it was compiled for.
pub struct Compiled {
    work: Work,
    parts: Parts,
    /// Tables that joins begin with a scan of, and the number of their rows from which on other orders would be tried.
    scanned: Vec<(Arc<RowTable>, u64)>,
}

/// A scanned table has outgrown a plan when it has this many times as many rows.
const GROWTH: u64 = 8;

/// A change in WITH.
pub(crate) struct WithChange {
    pub(crate) work: Work,
    /// Number of the derived table with the rows that it returns.
    pub(crate) rows: usize,
}

/// A query of a change that another executor runs before it.
pub(crate) struct External {
    pub(crate) query: Query,
    /// Number of the derived table with its rows.
    pub(crate) of: usize,
    /// For each column of that table its position in the query's rows; `None` for one that nothing reads.
    pub(crate) fields: Vec<Option<usize>>,
    /// Types of the table's columns.
    pub(crate) types: Vec<Type>,
}

impl External {
    /// Gives the rows to the statement that runs.
    fn give<'a>(&self, rows: &dyn Incoming, layout: &RowLayout, ctx: &'a ExecContext<'a>) -> Result<()> {
        let (mut made, mut bytes) = (Vec::with_capacity(rows.rows()), Vec::new());
        let mut values = Vec::with_capacity(self.fields.len());
        for row in 0..rows.rows() {
            ctx.look()?;
            values.clear();
            for (field, ty) in self.fields.iter().zip(&self.types) {
                let value = field.and_then(|at| Some((at, rows.field(row, at)?)));
                values.push(match value {
                    None => Datum::Null,
                    Some((at, bytes)) => cast::input(*ty, rows.form(at), bytes, ctx.session.zone, ctx.arena)?,
                });
            }
            bytes.clear();
            layout.encode(&values, &mut bytes)?;
            made.push(&*ctx.arena.alloc_slice_copy(&bytes));
            ctx.keep(2 * size_of::<&[u8]>());
        }
        ctx.give_rows(self.of, &made);
        Ok(())
    }
}

/// The plan of a statement, by kind.
pub(crate) enum Work {
    Select(Select),
    Insert(Insert),
    Change(Change),
    /// The same change of several tables.
    Changes(Vec<Change>),
    Merge(Merge),
}

impl Work {
    /// Returns the number of rows returned or changed.
    fn run<'a>(&'a self, ctx: &'a ExecContext<'a>, emit: Emit<'_, 'a>) -> Result<u64> {
        match self {
            Work::Select(select) => select.run(ctx, Vec::new(), emit),
            Work::Insert(insert) => insert.run(ctx, emit),
            Work::Change(change) => change.run(ctx, emit),
            Work::Changes(changes) => Change::run_all(changes, ctx, emit),
            Work::Merge(merge) => merge.run(ctx),
        }
    }

    /// The steps that find the rows to change, with their tables.
    fn changed_steps(&self) -> Vec<(&[Step], &[Arc<RowTable>])> {
        match self {
            Work::Select(_) | Work::Insert(_) => Vec::new(),
            Work::Change(change) => vec![change.steps()],
            Work::Merge(merge) => vec![merge.steps()],
            Work::Changes(changes) => changes.iter().map(Change::steps).collect(),
        }
    }

    fn statement_triggers(&self) -> Vec<StatementTrigger> {
        match self {
            Work::Select(_) => Vec::new(),
            Work::Insert(insert) => insert.statement_triggers(),
            Work::Change(change) => change.statement_triggers(),
            // The table that the statement names is the first one.
            Work::Changes(changes) => changes.first().map_or_else(Vec::new, Change::statement_triggers),
            Work::Merge(merge) => merge.statement_triggers(),
        }
    }
}

/// Session state that expressions can read.
#[derive(Clone, Copy)]
pub struct Session<'s> {
    /// Cancellation check, called about once for each thousand rows read, with the bytes the statement has
    /// allocated. An error ends the statement.
    pub check: &'s dyn Fn(usize) -> Result<()>,
    /// Start of the transaction, in microseconds since 1970 UTC.
    pub now: i64,
    /// Time zone of the session.
    pub zone: &'s dyn Zone,
    /// Sequences and random numbers; `None` where only immutable expressions are allowed.
    pub numbers: Option<&'s dyn Numbers>,
}

impl<'s> Session<'s> {
    /// Facts for expressions of crate `scalar`.
    pub(crate) fn facts(&self) -> Result<&'s scalar::Session> {
        self.zone.facts().ok_or_else(|| Error::bug("a session without facts for expressions"))
    }
}

/// Outcome of a run.
#[derive(Debug)]
pub enum Ran {
    /// The statement is complete.
    Done {
        /// Number of rows returned or changed, as in the command tag.
        rows: u64,
    },
    /// The statement must wait for this event. Undo it ([`Txn::undo_to`] the savepoint taken before it), wait, and
    /// run it again with the same snapshot; rows already passed to the sink are void.
    Wait(Event),
}

impl Compiled {
    pub(crate) fn of(work: Work, parts: Parts) -> Compiled {
        let mut compiled = Compiled { work, parts, scanned: Vec::new() };
        let begun = compiled.queries().map(|query| (query.steps(), query.tables.as_slice()));
        let begun = begun.chain(compiled.works().flat_map(Work::changed_steps));
        let scanned = begun.filter_map(|(steps, tables)| {
            let first = steps.first().filter(|first| steps.len() > 1 && matches!(first.access, Access::All))?;
            let table = tables.get(first.slot)?;
            Some((Arc::clone(table), (table.records.bound() * GROWTH).max(estimates::SCANNED_ROWS_MAX as u64)))
        });
        compiled.scanned = scanned.collect();
        compiled
    }

    /// Whether a table has grown so much that another plan may be better.
    #[must_use]
    pub fn is_outgrown(&self) -> bool {
        self.scanned.iter().any(|(table, rows)| table.records.bound() > *rows)
    }

    /// Whether a constant in it was read by the session's settings, such as a time by the time zone, or `today` by the
    /// clock. The plan is then that of one prepared statement, and not of the next statement with the same text.
    #[must_use]
    pub fn has_session_constants(&self) -> bool {
        self.parts.has_session_constants
    }

    /// Whether it names types of users without a table, so that it is valid only as long as these are the same.
    #[must_use]
    pub fn names_types(&self) -> bool {
        self.parts.names_types
    }

    /// Whether a run asks for the session's facts ([`Zone::facts`]).
    #[must_use]
    pub fn needs_facts(&self) -> bool {
        self.parts.asks > Asks::Nothing
    }

    /// Whether a run may need values of users' functions: its [`Zone::facts`] must have those that are known.
    #[must_use]
    pub fn calls_routines(&self) -> bool {
        self.parts.asks == Asks::Calls
    }

    /// Triggers that run once for the statement, or for a change in WITH, in the order in which they run.
    #[must_use]
    pub fn statement_triggers(&self) -> Vec<StatementTrigger> {
        self.works().flat_map(Work::statement_triggers).collect()
    }

    /// Types of the parameters, `$1` first.
    #[must_use]
    pub fn params(&self) -> &[ParamType] {
        &self.parts.params
    }

    /// Whether it changes no rows, locks none and changes no sequence.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        let reads = matches!(&self.work, Work::Select(_)) && self.parts.changes.is_empty();
        reads && !self.queries().any(Select::locks) && !self.parts.counts
    }

    /// The queries that another executor runs before each run, for [`run_with`]. They read the snapshot of the statement.
    pub fn external_queries(&self) -> impl Iterator<Item = &Query> {
        self.parts.external.iter().map(|external| &external.query)
    }

    /// Whether it has changes in WITH.
    #[must_use]
    pub fn changes_in_with(&self) -> bool {
        !self.parts.changes.is_empty()
    }

    /// Whether rows are streamed without any state between them, so that [`Reading`] can stop after any row.
    #[must_use]
    pub fn goes_by_parts(&self) -> bool {
        let Work::Select(select) = &self.work else { return false };
        let alone = self.parts.subqueries.is_empty() && self.parts.derived.is_empty() && self.parts.hashed == 0;
        self.is_read_only() && alone && select.goes_by_parts()
    }

    fn sub_plans(&self) -> SubPlans<'_> {
        let Parts { subqueries, derived, hashed, arrays, .. } = &self.parts;
        SubPlans { subqueries, derived, hashed: *hashed, arrays }
    }

    /// Whether it is an INSERT of one VALUES row with parameters. Given the parameters of several rows, [`run`]
    /// inserts one row for each, as one statement.
    #[must_use]
    pub fn takes_rows(&self) -> bool {
        let takes = matches!(&self.work, Work::Insert(insert) if insert.takes_rows());
        takes && !self.parts.params.is_empty() && self.parts.changes.is_empty()
    }

    /// The error of a constant expression, with which each run fails.
    ///
    /// # Errors
    /// That error.
    pub fn check_constants(&self) -> Result<()> {
        self.parts.failure.clone().map_or(Ok(()), Err)
    }

    /// Checks what a run does not begin with: other parameters, and constants that cannot be computed.
    fn check(&self, params: &[Datum<'_>]) -> Result<()> {
        let fits = match params.len().checked_rem(self.parts.params.len()) {
            Some(0) if self.takes_rows() => !params.is_empty(),
            _ => params.len() == self.parts.params.len(),
        };
        if !fits {
            let text = format!("{} parameters given, {} expected", params.len(), self.parts.params.len());
            return Err(Error::new(SqlState::PROTOCOL_VIOLATION, text));
        }
        self.check_constants()
    }

    /// Tables whose rows it changes or locks, except those only read by foreign key checks. Before a run, the
    /// caller must enter them ([`Txn::enter`]) and compile again if one has a new version.
    pub fn entered(&self) -> impl Iterator<Item = &Arc<RowTable>> {
        let written = self.works().flat_map(|work| {
            let (mut insert, mut change, mut merge) = (None, &[][..], None);
            match work {
                Work::Select(_) => {}
                Work::Insert(one) => insert = Some(one),
                Work::Change(one) => change = std::slice::from_ref(one),
                Work::Changes(all) => change = all.as_slice(),
                Work::Merge(one) => merge = Some(one),
            }
            let written =
                insert.into_iter().flat_map(Insert::written).chain(merge.into_iter().flat_map(Merge::written));
            let changed = change.iter().flat_map(Change::written);
            // All variants move rows between the same partitions.
            written.chain(changed).chain(change.first().into_iter().flat_map(Change::routed))
        });
        self.queries().flat_map(Select::locked).chain(written)
    }

    /// Tables that its queries read, with repetitions.
    pub fn tables_read(&self) -> impl Iterator<Item = &Arc<RowTable>> {
        self.queries().flat_map(|query| &query.tables)
    }

    /// The statement's own work, and the changes in WITH.
    fn works(&self) -> impl Iterator<Item = &Work> {
        self.parts.changes.iter().map(|change| &change.work).chain(std::iter::once(&self.work))
    }

    /// Number of records of the tables that unions read as a whole, as far as it is known now: their rows are kept in memory.
    #[must_use]
    pub fn rows_united(&self) -> u64 {
        let mut selects = Vec::new();
        self.parts.derived.iter().filter(|one| one.rows.is_set()).for_each(|one| one.rows.selects(&mut selects));
        let scanned = selects.iter().flat_map(|select| {
            let whole = select.steps().iter().filter(|step| step.access.is_whole());
            whole.filter_map(|step| select.tables.get(step.slot))
        });
        scanned.map(|table| table.records.bound()).sum()
    }

    /// All SELECTs it consists of.
    pub(crate) fn queries(&self) -> impl Iterator<Item = &Select> {
        let own = self.works().filter_map(|work| match work {
            Work::Select(select) => Some(select),
            Work::Insert(insert) => insert.query(),
            Work::Change(_) | Work::Changes(_) | Work::Merge(_) => None,
        });
        let mut derived = Vec::new();
        self.parts.derived.iter().for_each(|one| one.rows.selects(&mut derived));
        own.chain(self.parts.subqueries.iter().map(|one| &one.select)).chain(derived)
    }

    /// The access paths in join order, as text.
    #[must_use]
    pub fn plan(&self) -> String {
        self.steps().iter().map(|(step, _)| step.access.to_string()).collect::<Vec<_>>().join(", ")
    }

    /// A line for each access path, in join order, with its table and index, for EXPLAIN.
    #[must_use]
    pub fn describe(&self) -> Vec<String> {
        let line = |(step, table): &(&Step, &Arc<RowTable>)| {
            if matches!(step.access, Access::Derived { .. }) {
                return step.access.to_string();
            }
            let mut line = format!("{}: {}", step.access, table.schema.name.table);
            if let Some(index) = step.access.index().and_then(|index| index.of(table)) {
                line.push_str(&format!(" by {}", index.def().name));
            }
            line
        };
        self.steps().iter().map(line).collect()
    }

    /// The steps of its own work, with their tables.
    fn steps(&self) -> Vec<(&Step, &Arc<RowTable>)> {
        let parts = match &self.work {
            Work::Select(select) => vec![(select.steps(), select.tables.as_slice())],
            work => work.changed_steps(),
        };
        parts.into_iter().flat_map(|(steps, tables)| steps.iter().map(move |step| (step, &tables[step.slot]))).collect()
    }

    /// Runs the changes in WITH and the statement's own work. None of its queries sees any of its changes.
    fn hiding<'a>(&'a self, ctx: &'a ExecContext<'a>, emit: Emit<'_, 'a>) -> Result<u64> {
        ctx.txn(|txn| {
            if !txn.hides_changes() {
                txn.hide_changes();
            }
            Ok(())
        })?;
        let ran = self.in_order(ctx, emit);
        ctx.txn(|txn| {
            txn.show_changes();
            Ok(())
        })?;
        let rows = ran?;
        ctx.deferred().into_iter().try_for_each(Late::check)?;
        Ok(rows)
    }

    fn in_order<'a>(&'a self, ctx: &'a ExecContext<'a>, emit: Emit<'_, 'a>) -> Result<u64> {
        for WithChange { work, rows } in &self.parts.changes {
            let (layout, mut made, mut bytes) = (&self.parts.derived[*rows].layout, Vec::new(), Vec::new());
            work.run(ctx, &mut |row| {
                ctx.look()?;
                bytes.clear();
                layout.encode(row, &mut bytes)?;
                made.push(&*ctx.arena.alloc_slice_copy(&bytes));
                Ok(ControlFlow::Continue(()))
            })?;
            ctx.give_rows(*rows, &made);
        }
        self.work.run(ctx, emit)
    }

    /// Output columns; empty if it returns no rows.
    #[must_use]
    pub fn columns(&self) -> &[Output] {
        match &self.work {
            Work::Select(select) => &select.columns,
            Work::Insert(insert) => &insert.columns,
            Work::Change(change) => &change.columns,
            Work::Changes(changes) => changes.first().map_or(&[], |change| &change.columns),
            Work::Merge(_) => &[],
        }
    }
}

/// Runs a statement once. The caller
///
/// - sets the transaction's snapshot and takes a savepoint before;
/// - on [`Ran::Wait`]: returns to the savepoint with [`Txn::undo_to`], drops `guard`, discards the rows that `sink`
///   received, waits for the event, and runs the statement again with the same snapshot. Locks are kept, so each
///   run makes progress;
/// - on an error: returns to the savepoint; the transaction has failed.
///
/// Arguments:
/// - `txn`: if it hides changes ([`Txn::hide_calls`]), it shows them afterwards.
/// - `params`: NULL, or of the types of [`Compiled::params`]; of several rows if [`Compiled::takes_rows`].
/// - `guard`: epoch guard under which rows are borrowed.
/// - `sink`: receives each result row, with the types of [`Compiled::columns`]; char(n) without padding. Its errors
///   end the run.
///
/// # Errors
/// PostgreSQL's. The statement's changes are still to be undone.
pub fn run(
    compiled: &Compiled,
    txn: &mut Txn,
    params: &[Datum<'_>],
    session: Session<'_>,
    guard: &Guard,
    sink: &mut dyn FnMut(&[Datum<'_>]) -> Result<()>,
) -> Result<Ran> {
    run_with(compiled, txn, (params, &[]), session, guard, sink)
}

/// Like [`run`], with the rows of the [queries that another executor ran](Compiled::external_queries).
///
/// # Errors
/// As [`run`].
pub fn run_with(
    compiled: &Compiled,
    txn: &mut Txn,
    (params, external): (&[Datum<'_>], &[&dyn Incoming]),
    session: Session<'_>,
    guard: &Guard,
    sink: &mut dyn FnMut(&[Datum<'_>]) -> Result<()>,
) -> Result<Ran> {
    compiled.check(params)?;
    if compiled.parts.external.len() != external.len() {
        return Err(Error::bug("a statement without the rows of its queries"));
    }
    let arena = Bump::new();
    let hides = compiled.parts.hides || txn.hides_changes();
    let before = txn.changes_len();
    let ctx = ExecContext::new(params, &arena, guard, session, compiled.sub_plans(), ReadSource::of(txn));
    let ctx = if compiled.takes_rows() { ctx.with_rows_of(compiled.parts.params.len()) } else { ctx };
    let ctx = if hides { ctx.with_late_checks() } else { ctx };
    for (query, rows) in compiled.parts.external.iter().zip(external) {
        query.give(*rows, &compiled.parts.derived[query.of].layout, &ctx)?;
    }
    let emit: Emit<'_, '_> = &mut |row| sink(row).map(ControlFlow::Continue);
    let ran = if hides { compiled.hiding(&ctx, emit) } else { compiled.work.run(&ctx, emit) };
    // Actions of foreign keys have changed their rows by now.
    let ran = ran.and_then(|rows| ctx.check_keys(before).map(|()| rows));
    match (ran, ctx.waits()) {
        (Ok(rows), _) => Ok(Ran::Done { rows }),
        (Err(_), Some(event)) => Ok(Ran::Wait(event)),
        (Err(error), None) => Err(error),
    }
}

/// A read-only query that runs outside its transaction, on another thread and, where possible, in slices.
#[derive(Debug, Default)]
pub struct Reading(ResumePoint);

impl Reading {
    /// Whether the query is complete.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.0 == ResumePoint::End
    }

    /// Runs the next slice: some milliseconds, or the whole query if it cannot be sliced.
    ///
    /// - `compiled`: the same on each call, and [read only](Compiled::is_read_only).
    /// - `view`: the same on each call. Its owner must keep its snapshot alive and add the
    ///   [tables](Compiled::tables_read) to the read set before the first call.
    /// - `guard`: held for this call only, so that garbage can be freed between slices.
    /// - `sink`: like that of [`run`]; `Break` asks for the slice to end soon, if the query can be sliced.
    ///
    /// # Errors
    /// PostgreSQL's; XX000 for a statement that is not read only.
    pub fn part(
        &mut self,
        compiled: &Compiled,
        view: &View,
        params: &[Datum<'_>],
        session: Session<'_>,
        guard: &Guard,
        sink: &mut dyn FnMut(&[Datum<'_>]) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        compiled.check(params)?;
        let (Work::Select(select), true) = (&compiled.work, compiled.is_read_only()) else {
            return Err(Error::bug("a statement that is not read only"));
        };
        let arena = Bump::new();
        let source = ReadSource::View(view.clone(), RefCell::default());
        let mut ctx = ExecContext::new(params, &arena, guard, session, compiled.sub_plans(), source);
        let place = std::mem::replace(&mut self.0, ResumePoint::End);
        if compiled.goes_by_parts() {
            ctx = ctx.with_slice(Slice::at(place));
        }
        let emit: Emit<'_, '_> = &mut |row| {
            if let (ControlFlow::Break(()), Some(part)) = (sink(row)?, ctx.part()) {
                part.stop_soon();
            }
            Ok(ControlFlow::Continue(()))
        };
        select.run(&ctx, Vec::new(), emit)?;
        if let Some(part) = ctx.part() {
            self.0 = part.stopped();
        }
        Ok(())
    }
}
