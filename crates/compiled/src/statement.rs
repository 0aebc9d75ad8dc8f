//! Statements: compilation and execution.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::Arc;

use bumpalo::Bump;
use crossbeam_epoch::Guard;
use env::Event;
use model::{Datum, Error, Result, SqlState};
use rows::{RowTable, Txn, View};
use sqlparser::ast::{self, Visit};

use crate::array::{Array, ParamType};
use crate::bind::{Bind, Binder, Refusal, fold_ident};
use crate::cast::Zone;
use crate::derived_tables::Derived;
use crate::dml::{self, Change, Insert};
use crate::exec::{ExecContext, ReadSource, ResumePoint, Slice, SubPlans};
use crate::lower::Parts;
use crate::scope::{self, Tables};
use crate::select::{self, Output, Select};
use crate::sequences::{self, Numbers};
use crate::sort_limit::Emit;
use crate::subquery::{ResultKind, Subquery};

/// A compiled statement. Valid as long as its tables keep the versions it was compiled for.
pub struct Compiled {
    params: Vec<ParamType>,
    work: Work,
    /// Subqueries in expressions, by number.
    subqueries: Vec<Subquery>,
    /// Derived tables, by number.
    derived: Vec<Derived>,
    /// Number of hash tables in the plan.
    hashed: usize,
    /// Array parameters used in expressions, by number.
    arrays: Vec<Array>,
    /// Whether it changes a sequence.
    counts: bool,
    /// Whether any expression has type time, timestamp, timestamptz or interval.
    moments: bool,
    /// Whether a constant was read by the session's settings.
    has_session_constants: bool,
    /// Whether it has expressions that crate `scalar` computes.
    computes: bool,
}

/// The plan of a statement, by kind.
pub(crate) enum Work {
    Select(Select),
    Insert(Insert),
    Change(Change),
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
        let Parts { params, subqueries, derived, hashed, arrays, counts, moments, has_session_constants, computes } =
            parts;
        Compiled { params, work, subqueries, derived, hashed, arrays, counts, moments, has_session_constants, computes }
    }

    /// Whether a constant in it was read by the session's settings, such as a time by the time zone, or `today` by the
    /// clock. The plan is then that of one prepared statement, and not of the next statement with the same text.
    #[must_use]
    pub fn has_session_constants(&self) -> bool {
        self.has_session_constants
    }

    /// Whether a run asks for the session's facts ([`Zone::facts`]).
    #[must_use]
    pub fn needs_facts(&self) -> bool {
        self.computes
    }

    /// Types of the parameters, `$1` first.
    #[must_use]
    pub fn params(&self) -> &[ParamType] {
        &self.params
    }

    /// Whether it changes no rows, locks none and changes no sequence.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        matches!(&self.work, Work::Select(_)) && !self.queries().any(Select::locks) && !self.counts
    }

    /// Whether it computes with times or intervals. Precision is microseconds here; DataFusion computes with
    /// nanoseconds and may give another result.
    #[must_use]
    pub fn has_moments(&self) -> bool {
        self.moments
    }

    /// Whether the plan contains a full table scan. If so, DataFusion may be faster.
    #[must_use]
    pub fn reads_whole_tables(&self) -> bool {
        let within = |one: &Subquery| one.kind != ResultKind::Existence && one.select.reads_whole_tables();
        self.subqueries.iter().any(within)
            || self.derived.iter().any(|one| one.rows.reads_whole_tables())
            || match &self.work {
                Work::Select(select) => select.reads_whole_tables(),
                Work::Insert(insert) => insert.reads_whole_tables(),
                Work::Change(change) => change.reads_whole_tables(),
            }
    }

    /// Whether rows are streamed without any state between them, so that [`Reading`] can stop after any row.
    #[must_use]
    pub fn goes_by_parts(&self) -> bool {
        let Work::Select(select) = &self.work else { return false };
        let alone = self.subqueries.is_empty() && self.derived.is_empty() && self.hashed == 0;
        self.is_read_only() && alone && select.goes_by_parts()
    }

    fn parts(&self) -> SubPlans<'_> {
        let Compiled { subqueries, derived, hashed, arrays, .. } = self;
        SubPlans { subqueries, derived, hashed: *hashed, arrays }
    }

    /// Whether it is an INSERT of one VALUES row with parameters. Given the parameters of several rows, [`run`]
    /// inserts one row for each, as one statement.
    #[must_use]
    pub fn takes_rows(&self) -> bool {
        matches!(&self.work, Work::Insert(insert) if insert.takes_rows()) && !self.params.is_empty()
    }

    fn check_params(&self, params: &[Datum<'_>]) -> Result<()> {
        let fits = match params.len().checked_rem(self.params.len()) {
            Some(0) if self.takes_rows() => !params.is_empty(),
            _ => params.len() == self.params.len(),
        };
        if !fits {
            let text = format!("{} parameters given, {} expected", params.len(), self.params.len());
            return Err(Error::new(SqlState::PROTOCOL_VIOLATION, text));
        }
        Ok(())
    }

    /// Tables whose rows it changes or locks, except those only read by foreign key checks. Before a run, the
    /// caller must enter them ([`Txn::enter`]) and compile again if one has a new version.
    pub fn entered(&self) -> impl Iterator<Item = &Arc<RowTable>> {
        let (insert, change) = match &self.work {
            Work::Select(_) => (None, None),
            Work::Insert(insert) => (Some(insert), None),
            Work::Change(change) => (None, Some(change)),
        };
        let written = insert.into_iter().flat_map(Insert::written);
        self.queries().flat_map(Select::locked).chain(written).chain(change.into_iter().flat_map(Change::written))
    }

    /// Tables that its queries read, with repetitions.
    pub fn tables_read(&self) -> impl Iterator<Item = &Arc<RowTable>> {
        self.queries().flat_map(|query| &query.tables)
    }

    /// All SELECTs it consists of.
    pub(crate) fn queries(&self) -> impl Iterator<Item = &Select> {
        let own = match &self.work {
            Work::Select(select) => Some(select),
            Work::Insert(insert) => insert.query(),
            Work::Change(_) => None,
        };
        let mut derived = Vec::new();
        self.derived.iter().for_each(|one| one.rows.selects(&mut derived));
        own.into_iter().chain(self.subqueries.iter().map(|one| &one.select)).chain(derived)
    }

    /// The access paths in join order, as text, for EXPLAIN and tests.
    #[must_use]
    pub fn plan(&self) -> String {
        let steps = match &self.work {
            Work::Select(select) => select.steps(),
            Work::Insert(_) => &[],
            Work::Change(change) => change.steps(),
        };
        steps.iter().map(|step| step.access.to_string()).collect::<Vec<_>>().join(", ")
    }

    /// Output columns; empty if it returns no rows.
    #[must_use]
    pub fn columns(&self) -> &[Output] {
        match &self.work {
            Work::Select(select) => &select.columns,
            Work::Insert(insert) => &insert.columns,
            Work::Change(change) => &change.columns,
        }
    }
}

/// Compiles a statement; `None` if it must run elsewhere.
///
/// - `declared`: parameter types declared by the client; the others are inferred.
///
/// # Errors
/// PostgreSQL's, with its SQLSTATEs: 42703, 42883, 42804, 42P18, 22P02 and others.
pub fn compile(sql: &ast::Statement, tables: &dyn Tables, declared: &[Option<ParamType>]) -> Result<Option<Compiled>> {
    let mut binder = Binder { params: declared.to_vec(), ..Binder::default() };
    let work = match work(&mut binder, sql, tables) {
        Ok(work) => work,
        Err(Refusal::Unsupported) => return Ok(None),
        Err(Refusal::Error(error)) => return Err(error),
    };
    let params = std::mem::take(&mut binder.params);
    let params = params.into_iter().enumerate().map(|(at, ty)| {
        ty.ok_or_else(|| {
            let text = format!("could not determine data type of parameter ${}", at + 1);
            Error::new(SqlState::INDETERMINATE_DATATYPE, text)
        })
    });
    let params = params.collect::<Result<_>>()?;
    let Binder { subqueries, derived, hashed, arrays, counts, moments, .. } = binder;
    let (has_session_constants, computes) = (false, false);
    Ok(Some(Compiled {
        params,
        work,
        subqueries,
        derived,
        hashed,
        arrays,
        counts,
        moments,
        has_session_constants,
        computes,
    }))
}

fn work(binder: &mut Binder, sql: &ast::Statement, tables: &dyn Tables) -> Bind<Work> {
    binder.writes |= writes(sql);
    match sql {
        ast::Statement::Query(query) => match &*query.body {
            ast::SetExpr::Insert(changes) | ast::SetExpr::Update(changes) | ast::SetExpr::Delete(changes) => {
                if let Some(with) = &query.with {
                    scope::with(binder, with, tables)?;
                }
                if select::is_plain_query(query) { work(binder, changes, tables) } else { Err(Refusal::Unsupported) }
            }
            _ => select::bind(binder, query, tables).map(Work::Select),
        },
        ast::Statement::Insert(insert) => dml::insert(binder, insert, tables).map(Work::Insert),
        ast::Statement::Update(update) => dml::update(binder, update, tables).map(Work::Change),
        ast::Statement::Delete(delete) => dml::delete(binder, delete, tables).map(Work::Change),
        _ => Err(Refusal::Unsupported),
    }
}

/// Whether it is an INSERT, UPDATE or DELETE, possibly with WITH before it.
fn writes(sql: &ast::Statement) -> bool {
    match sql {
        ast::Statement::Insert(_) | ast::Statement::Update(_) | ast::Statement::Delete(_) => true,
        ast::Statement::Query(query) => {
            matches!(&*query.body, ast::SetExpr::Insert(_) | ast::SetExpr::Update(_) | ast::SetExpr::Delete(_))
        }
        _ => false,
    }
}

/// Whether a statement calls a sequence function. Such a statement is for [`compile`], whatever tables it names.
#[must_use]
pub fn counts(sql: &ast::Statement) -> bool {
    let asks = |expr: &ast::Expr| {
        let ast::Expr::Function(call) = expr else { return false };
        let name = call.name.0.last().and_then(|part| part.as_ident());
        name.is_some_and(|name| sequences::is_of_sequence(&fold_ident(name)))
    };
    let found =
        ast::visit_expressions(sql, |expr| if asks(expr) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) });
    found.is_break()
}

/// Whether a query names no tables except its own common table expressions; then [`compile`] needs no catalog.
#[must_use]
pub fn names_no_table(sql: &ast::Statement) -> bool {
    let ast::Statement::Query(query) = sql else { return false };
    let mut named = Named::default();
    let _: ControlFlow<()> = query.visit(&mut named);
    named.relations.iter().all(|name| named.common.contains(name))
}

/// Unqualified table names and common table expressions of a query; a qualified name is `None`.
#[derive(Default)]
struct Named {
    relations: Vec<Option<String>>,
    common: Vec<Option<String>>,
}

impl ast::Visitor for Named {
    type Break = ();

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        self.common.extend(tables.map(|one| Some(fold_ident(&one.alias.name))));
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, name: &ast::ObjectName) -> ControlFlow<()> {
        self.relations.push(match name.0.as_slice() {
            [ast::ObjectNamePart::Identifier(name)] => Some(fold_ident(name)),
            _ => None,
        });
        ControlFlow::Continue(())
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
    compiled.check_params(params)?;
    let arena = Bump::new();
    let ctx = ExecContext::new(params, &arena, guard, session, compiled.parts(), ReadSource::of(txn));
    let ctx = ctx.with_rows_of(compiled.params.len());
    let emit: Emit<'_, '_> = &mut |row| sink(row).map(ControlFlow::Continue);
    let ran = match &compiled.work {
        Work::Select(select) => select.run(&ctx, Vec::new(), emit),
        Work::Insert(insert) => insert.run(&ctx, emit),
        Work::Change(change) => change.run(&ctx, emit),
    };
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
        compiled.check_params(params)?;
        let (Work::Select(select), true) = (&compiled.work, compiled.is_read_only()) else {
            return Err(Error::bug("a statement that is not read only"));
        };
        let arena = Bump::new();
        let source = ReadSource::View(view.clone(), RefCell::default());
        let mut ctx = ExecContext::new(params, &arena, guard, session, compiled.parts(), source);
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
