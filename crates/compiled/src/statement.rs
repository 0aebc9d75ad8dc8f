//! A statement: compiled once, run often.

use std::ops::ControlFlow;

use bumpalo::Bump;
use crossbeam_epoch::Guard;
use env::Event;
use model::{Datum, Error, Result, SqlState, Type};
use rows::Txn;
use sqlparser::ast;

use crate::bind::{Bind, Binder, Refusal};
use crate::cast::Zone;
use crate::dml::{self, Change, Insert};
use crate::exec::Given;
use crate::scope::Tables;
use crate::select::{self, Emit, Output, Select};

/// A statement, ready to run for as long as the tables it was compiled for are the ones.
pub struct Compiled {
    params: Vec<Type>,
    work: Work,
}

enum Work {
    Select(Select),
    Insert(Insert),
    Change(Change),
}

/// What of a session statements can see.
#[derive(Clone, Copy)]
pub struct Session<'s> {
    /// Asked now and then, at least once in a thousand rows looked at: an error ends the statement.
    pub check: &'s dyn Fn() -> Result<()>,
    /// When the transaction began: microseconds since 1970 UTC.
    pub now: i64,
    /// Its time zone.
    pub zone: &'s dyn Zone,
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
    pub fn params(&self) -> &[Type] {
        &self.params
    }

    /// Does it neither change nor lock rows?
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        matches!(&self.work, Work::Select(select) if !select.locks())
    }

    /// Does it look at every row of a table, as far as can be told before it runs? Then a tier made for that may be better.
    #[must_use]
    pub fn reads_whole_tables(&self) -> bool {
        match &self.work {
            Work::Select(select) => select.reads_whole_tables(),
            Work::Insert(insert) => insert.reads_whole_tables(),
            Work::Change(change) => change.reads_whole_tables(),
        }
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
pub fn compile(sql: &ast::Statement, tables: &dyn Tables, declared: &[Option<Type>]) -> Result<Option<Compiled>> {
    let mut binder = Binder { params: declared.to_vec(), ..Binder::default() };
    let work = match work(&mut binder, sql, tables) {
        Ok(work) => work,
        Err(Refusal::Other) => return Ok(None),
        Err(Refusal::Error(error)) => return Err(error),
    };
    let params = binder.params.iter().enumerate().map(|(at, ty)| {
        ty.ok_or_else(|| {
            let text = format!("could not determine data type of parameter ${}", at + 1);
            Error::new(SqlState::INDETERMINATE_DATATYPE, text)
        })
    });
    Ok(Some(Compiled { params: params.collect::<Result<_>>()?, work }))
}

fn work(binder: &mut Binder, sql: &ast::Statement, tables: &dyn Tables) -> Bind<Work> {
    match sql {
        ast::Statement::Query(query) => select::bind(binder, query, tables).map(Work::Select),
        ast::Statement::Insert(insert) => dml::insert(binder, insert, tables).map(Work::Insert),
        ast::Statement::Update(update) => dml::update(binder, update, tables).map(Work::Change),
        ast::Statement::Delete(delete) => dml::delete(binder, delete, tables).map(Work::Change),
        _ => Err(Refusal::Other),
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
/// - `params`: NULL, or of the types of [`Compiled::params`].
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
    if params.len() < compiled.params.len() {
        let text = format!("{} parameters given, {} expected", params.len(), compiled.params.len());
        return Err(Error::new(SqlState::PROTOCOL_VIOLATION, text));
    }
    let arena = Bump::new();
    let given = Given { params, arena: &arena, now: session.now, zone: session.zone, guard, check: session.check };
    let emit: Emit<'_, '_> = &mut |row| sink(row).map(ControlFlow::Continue);
    let ended = match &compiled.work {
        Work::Select(select) => select.run(txn, given, emit)?,
        Work::Insert(insert) => insert.run(txn, given, emit)?,
        Work::Change(change) => change.run(txn, given, emit)?,
    };
    Ok(match ended {
        Ok(rows) => Ran::Done { rows },
        Err(event) => Ran::Wait(event),
    })
}
