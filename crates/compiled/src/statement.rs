//! A statement: compiled once, run often.

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
use crate::bind::{Bind, Binder, Refusal, folded};
use crate::cast::Zone;
use crate::derived_tables::Derived;
use crate::dml::{self, Change, Insert};
use crate::exec::{Part, Parts, Place, Reads, World};
use crate::scope::{self, Tables};
use crate::select::{self, Output, Select};
use crate::sequences::{self, Numbers};
use crate::sort_limit::Emit;
use crate::subquery::{Subquery, Wanted};

/// A statement, ready to run for as long as the tables it was compiled for are the ones.
pub struct Compiled {
    params: Vec<ParamType>,
    work: Work,
    /// The queries in its expressions, by number.
    subqueries: Vec<Subquery>,
    /// The tables that queries make, by number.
    derived: Vec<Derived>,
    /// How many tables are hashed.
    hashed: usize,
    /// The array parameters that expressions use.
    arrays: Vec<Array>,
    /// Does it take or set numbers of sequences?
    counts: bool,
    /// Is any expression a time of day, a moment or an interval?
    moments: bool,
}

enum Work {
    Select(Select),
    Insert(Insert),
    Change(Change),
}

/// What of a session statements can see.
#[derive(Clone, Copy)]
pub struct Session<'s> {
    /// Asked now and then, about once in a thousand rows looked at, with the bytes that the statement has for itself by then: an
    /// error ends the statement.
    pub check: &'s dyn Fn(usize) -> Result<()>,
    /// When the transaction began: microseconds since 1970 UTC.
    pub now: i64,
    /// Its time zone.
    pub zone: &'s dyn Zone,
    /// Numbers of sequences and random ones; nothing where only formulas are evaluated that are the same each time.
    pub numbers: Option<&'s dyn Numbers>,
}

/// How a run ended.
#[derive(Debug)]
pub enum Ran {
    /// With so many rows given, or changed.
    Done {
        /// As the command tag says.
        rows: u64,
    },
    /// Undo it ([`Txn::undo_to`] a savepoint taken before it), wait, and run it again with the same snapshot. Rows that the
    /// sink was given do not count.
    Wait(Event),
}

impl Compiled {
    /// Types of the parameters, `$1` first.
    #[must_use]
    pub fn params(&self) -> &[ParamType] {
        &self.params
    }

    /// Does it neither change nor lock rows, nor take numbers of sequences?
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        matches!(&self.work, Work::Select(_)) && !self.queries().any(Select::locks) && !self.counts
    }

    /// Has it to do with times of day, moments or intervals? Here these have microseconds; a tier with nanoseconds may answer something
    /// else.
    #[must_use]
    pub fn has_moments(&self) -> bool {
        self.moments
    }

    /// Does it look at every row of a table, as far as can be told before it runs? Then a tier made for that may be better.
    #[must_use]
    pub fn reads_whole_tables(&self) -> bool {
        let within = |one: &Subquery| one.kind != Wanted::Existence && one.select.reads_whole_tables();
        self.subqueries.iter().any(within)
            || self.derived.iter().any(|one| one.rows.reads_whole_tables())
            || match &self.work {
                Work::Select(select) => select.reads_whole_tables(),
                Work::Insert(insert) => insert.reads_whole_tables(),
                Work::Change(change) => change.reads_whole_tables(),
            }
    }

    /// Are its rows made one after the other, without any of them being kept? Then [`Reading`] can stop between two of them.
    #[must_use]
    pub fn goes_by_parts(&self) -> bool {
        let Work::Select(select) = &self.work else { return false };
        let alone = self.subqueries.is_empty() && self.derived.is_empty() && self.hashed == 0;
        self.is_read_only() && alone && select.goes_by_parts()
    }

    fn parts(&self) -> Parts<'_> {
        let Compiled { subqueries, derived, hashed, arrays, .. } = self;
        Parts { subqueries, derived, hashed: *hashed, arrays }
    }

    /// True for an INSERT of one row of VALUES: given the parameters of several rows, one after the other, [`run`] inserts one for each,
    /// as if all of them stood in its VALUES.
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

    /// Tables whose rows it changes or locks, not counting those that foreign keys only look at. Whoever runs it enters them first
    /// ([`Txn::enter`]), and compiles it anew if one has changed meanwhile.
    pub fn entered(&self) -> impl Iterator<Item = &Arc<RowTable>> {
        let (insert, change) = match &self.work {
            Work::Select(_) => (None, None),
            Work::Insert(insert) => (Some(insert), None),
            Work::Change(change) => (None, Some(change)),
        };
        let written = insert.into_iter().flat_map(Insert::written);
        self.queries().flat_map(Select::locked).chain(written).chain(change.into_iter().flat_map(Change::written))
    }

    /// Tables that its queries read, some more than once.
    pub fn tables_read(&self) -> impl Iterator<Item = &Arc<RowTable>> {
        self.queries().flat_map(|query| &query.tables)
    }

    /// The queries that it is, and has within.
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

    /// How the rows of each table are found, in the order in which tables are joined; for tests and EXPLAIN.
    #[must_use]
    pub fn plan(&self) -> String {
        let steps = match &self.work {
            Work::Select(select) => select.steps(),
            Work::Insert(_) => &[],
            Work::Change(change) => change.steps(),
        };
        steps.iter().map(|step| step.access.to_string()).collect::<Vec<_>>().join(", ")
    }

    /// Columns of the rows it gives; none if it gives none.
    #[must_use]
    pub fn columns(&self) -> &[Output] {
        match &self.work {
            Work::Select(select) => &select.columns,
            Work::Insert(insert) => &insert.columns,
            Work::Change(change) => &change.columns,
        }
    }
}

/// Compiles a statement; `None` if that is another tier's business.
///
/// - `declared`: types of parameters as far as the client said; those of the others are inferred.
///
/// # Errors
/// As PostgreSQL's, with its SQLSTATEs: 42703, 42883, 42804, 42P18, 22P02 and others.
pub fn compile(sql: &ast::Statement, tables: &dyn Tables, declared: &[Option<ParamType>]) -> Result<Option<Compiled>> {
    let mut binder = Binder { params: declared.to_vec(), ..Binder::default() };
    let work = match work(&mut binder, sql, tables) {
        Ok(work) => work,
        Err(Refusal::Other) => return Ok(None),
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
    Ok(Some(Compiled { params, work, subqueries, derived, hashed, arrays, counts, moments }))
}

fn work(binder: &mut Binder, sql: &ast::Statement, tables: &dyn Tables) -> Bind<Work> {
    binder.writes |= writes(sql);
    match sql {
        ast::Statement::Query(query) => match &*query.body {
            ast::SetExpr::Insert(changes) | ast::SetExpr::Update(changes) | ast::SetExpr::Delete(changes) => {
                if let Some(with) = &query.with {
                    scope::with(binder, with, tables)?;
                }
                if select::is_bare(query) { work(binder, changes, tables) } else { Err(Refusal::Other) }
            }
            _ => select::bind(binder, query, tables).map(Work::Select),
        },
        ast::Statement::Insert(insert) => dml::insert(binder, insert, tables).map(Work::Insert),
        ast::Statement::Update(update) => dml::update(binder, update, tables).map(Work::Change),
        ast::Statement::Delete(delete) => dml::delete(binder, delete, tables).map(Work::Change),
        _ => Err(Refusal::Other),
    }
}

/// Is it an INSERT, UPDATE or DELETE, with or without WITH before it?
fn writes(sql: &ast::Statement) -> bool {
    match sql {
        ast::Statement::Insert(_) | ast::Statement::Update(_) | ast::Statement::Delete(_) => true,
        ast::Statement::Query(query) => {
            matches!(&*query.body, ast::SetExpr::Insert(_) | ast::SetExpr::Update(_) | ast::SetExpr::Delete(_))
        }
        _ => false,
    }
}

/// Does a statement ask for numbers of sequences? Then it is for [`compile`], whatever tables it names.
#[must_use]
pub fn counts(sql: &ast::Statement) -> bool {
    let asks = |expr: &ast::Expr| {
        let ast::Expr::Function(call) = expr else { return false };
        let name = call.name.0.last().and_then(|part| part.as_ident());
        name.is_some_and(|name| sequences::is_of_sequence(&folded(name)))
    };
    let found =
        ast::visit_expressions(sql, |expr| if asks(expr) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) });
    found.is_break()
}

/// Is it a query that names no table but those of its own WITH? Then [`compile`] needs none.
#[must_use]
pub fn names_no_table(sql: &ast::Statement) -> bool {
    let ast::Statement::Query(query) = sql else { return false };
    let mut named = Named::default();
    let _: ControlFlow<()> = query.visit(&mut named);
    named.relations.iter().all(|name| named.common.contains(name))
}

/// What a query calls tables, and its common ones; a name of several parts is none of these.
#[derive(Default)]
struct Named {
    relations: Vec<Option<String>>,
    common: Vec<Option<String>>,
}

impl ast::Visitor for Named {
    type Break = ();

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        self.common.extend(tables.map(|one| Some(folded(&one.alias.name))));
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, name: &ast::ObjectName) -> ControlFlow<()> {
        self.relations.push(match name.0.as_slice() {
            [ast::ObjectNamePart::Identifier(name)] => Some(folded(name)),
            _ => None,
        });
        ControlFlow::Continue(())
    }
}

/// Runs a statement once. Around it, whoever runs it
///
/// - sets the transaction's snapshot and takes a savepoint before;
/// - on [`Ran::Wait`] goes back to the savepoint with [`Txn::undo_to`], drops `guard`, forgets the rows that `sink` took, waits for the
///   event, and runs it again with the same snapshot: locks that it has are kept, so that it gets further each time;
/// - on an error goes back to the savepoint too; then the transaction has failed.
///
/// Arguments:
/// - `params`: NULL, or of the types of [`Compiled::params`]; of several rows if the statement [takes such](Compiled::takes_rows).
/// - `guard`: kept for this call at least; rows are borrowed under it.
/// - `sink`: takes each row of the result, values in the order and of the types of [`Compiled::columns`], char(n) without the blanks at
///   its end; its errors end the run.
///
/// # Errors
/// As PostgreSQL's; then what the statement did is still to be undone.
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
    let world = World::new(params, &arena, guard, session, compiled.parts(), Reads::of(txn));
    let world = world.with_rows_of(compiled.params.len());
    let emit: Emit<'_, '_> = &mut |row| sink(row).map(ControlFlow::Continue);
    let ran = match &compiled.work {
        Work::Select(select) => select.run(&world, Vec::new(), emit),
        Work::Insert(insert) => insert.run(&world, emit),
        Work::Change(change) => change.run(&world, emit),
    };
    match (ran, world.waits()) {
        (Ok(rows), _) => Ok(Ran::Done { rows }),
        (Err(_), Some(event)) => Ok(Ran::Wait(event)),
        (Err(error), None) => Err(error),
    }
}

/// A query that only reads, run beside its transaction: on another thread, and by parts where that can be.
#[derive(Debug, Default)]
pub struct Reading(Place);

impl Reading {
    /// Is the query at its end?
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.0 == Place::End
    }

    /// Runs the next part of a query, some milliseconds of it if it can be cut; else all of it.
    ///
    /// - `compiled`: the same each time, and [read only](Compiled::is_read_only).
    /// - `view`: the same each time; whoever has it sees to it that what it shows is kept, and tells it of the
    ///   [tables](Compiled::tables_read) first.
    /// - `guard`: kept for this call alone, so that what others let go meanwhile can be freed between two parts.
    /// - `sink`: as [`run`]'s; it breaks when it has enough for now, which is heeded soon, if the query can be cut.
    ///
    /// # Errors
    /// As PostgreSQL's; XX000 for a statement that does more than reading.
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
            return Err(Error::bug("a statement that is read, but writes"));
        };
        let arena = Bump::new();
        let source = Reads::View(view.clone(), RefCell::default());
        let mut world = World::new(params, &arena, guard, session, compiled.parts(), source);
        let place = std::mem::replace(&mut self.0, Place::End);
        if compiled.goes_by_parts() {
            world = world.with_part(Part::at(place));
        }
        let emit: Emit<'_, '_> = &mut |row| {
            if let (ControlFlow::Break(()), Some(part)) = (sink(row)?, world.part()) {
                part.stop_soon();
            }
            Ok(ControlFlow::Continue(()))
        };
        select.run(&world, Vec::new(), emit)?;
        if let Some(part) = world.part() {
            self.0 = part.stopped();
        }
        Ok(())
    }
}
