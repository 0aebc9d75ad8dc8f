//! Rows that come from outside, value by value: COPY, and INSERT of what another tier read. They go in as those of an INSERT
//! of ours do; those of COPY in parts, because a statement that brings millions of rows is not to hold them all.

use std::cell::Cell;
use std::sync::Arc;

use bumpalo::Bump;
use crossbeam_epoch::Guard;
use env::Event;
use model::{Datum, Error, Result, Type};
use pg::Form;
use rows::{RecordId, RowTable, Txn};
use sqlparser::ast;

use super::{
    Conflict, Done, Given, Insert, Returning, Rows, check_count, check_late, complete, conflict, overriding, target,
    target_columns,
};
use crate::bind::{Bind, Binder, Refusal, Source, Typed, folded};
use crate::cast;
use crate::constraints::{TARGET, assigned};
use crate::derived_tables::Derived;
use crate::exec::{Parts, Reads, Run, World};
use crate::expr::Expr;
use crate::foreign_keys::{Changed, Does, Foreign};
use crate::scope::{self, Scope, Tables};
use crate::select::Output;
use crate::sort_limit::Emit;
use crate::statement::Session;
use crate::subquery::Subquery;

/// An INSERT of rows that come from outside.
pub struct Load {
    insert: Insert,
    /// Of the values of a row.
    types: Vec<Type>,
    subqueries: Vec<Subquery>,
    derived: Vec<Derived>,
    /// How many tables are hashed.
    hashed: usize,
}

/// Rows as they came.
pub trait Incoming {
    /// How many.
    fn rows(&self) -> usize;
    /// How the values of a position are written.
    fn form(&self, field: usize) -> Form;
    /// A value, by row and position; `None` for NULL.
    fn field(&self, row: usize, field: usize) -> Option<&[u8]>;
}

/// What became of rows.
#[derive(Debug)]
pub enum Loaded {
    /// They are in.
    All {
        /// So many were inserted or changed.
        rows: u64,
        /// Those that refer to rows which are not there, so far: they may come. For [`Load::finish`].
        dangling: Vec<(RecordId, Box<[u8]>)>,
    },
    /// Undo them, wait, and load them again, as after [`crate::Ran::Wait`].
    Wait(Event),
}

/// Why rows are not in.
#[derive(Debug)]
pub struct Refused {
    /// What is wrong.
    pub error: Error,
    /// With which row.
    pub row: usize,
    /// With which of its values, if it is one.
    pub field: Option<usize>,
}

/// The row and value of the moment.
#[derive(Default)]
struct At {
    row: Cell<usize>,
    field: Cell<Option<usize>>,
}

impl Load {
    /// For values of these columns of a table, by position; the others get their defaults.
    ///
    /// # Errors
    /// 0A000 for a default, CHECK or foreign key that compiled statements do not do.
    pub fn new(table: &Arc<RowTable>, columns: &[usize], tables: &dyn Tables) -> Result<Load> {
        bind_columns(table, columns, tables).map_err(|refusal| refused(refusal, "COPY into a table"))
    }

    /// For the rows of an INSERT's source, which has columns of these types; `None`: literals, which have the type of what they are put
    /// into.
    ///
    /// # Errors
    /// As those of [`crate::compile`]; 0A000 for what compiled statements do not do.
    pub fn of(insert: &ast::Insert, source: &[Option<Type>], tables: &dyn Tables) -> Result<Load> {
        bind_insert(insert, source, tables).map_err(|refusal| refused(refusal, "INSERT into a table"))
    }

    /// The table they go to.
    #[must_use]
    pub fn table(&self) -> &Arc<RowTable> {
        &self.insert.target.writer.table
    }

    /// Columns of the rows it gives back; none if it gives none.
    #[must_use]
    pub fn columns(&self) -> &[Output] {
        &self.insert.columns
    }

    /// Types of the values of a row.
    #[must_use]
    pub fn types(&self) -> &[Type] {
        &self.types
    }

    /// Puts rows in. Whoever calls does around it what is done around [`crate::run`]; `sink` takes what RETURNING gives.
    ///
    /// # Errors
    /// As those of INSERT.
    pub fn run(
        &self,
        txn: &mut Txn,
        incoming: &dyn Incoming,
        session: Session<'_>,
        guard: &Guard,
        sink: &mut dyn FnMut(&[Datum<'_>]) -> Result<()>,
    ) -> std::result::Result<Loaded, Refused> {
        let arena = Bump::new();
        let world = World::new(&[], &arena, guard, session, self.parts(), Reads::of(txn));
        let at = At::default();
        let emit: Emit<'_, '_> = &mut |row| sink(row).map(std::ops::ControlFlow::Continue);
        let loaded = self.rows(&world, incoming, &at, emit);
        match (loaded, world.waits()) {
            (Ok((rows, dangling)), _) => Ok(Loaded::All { rows, dangling }),
            (Err(_), Some(event)) => Ok(Loaded::Wait(event)),
            (Err(error), None) => Err(Refused { error, row: at.row.get(), field: at.field.get() }),
        }
    }

    fn parts(&self) -> Parts<'_> {
        Parts { subqueries: &self.subqueries, derived: &self.derived, hashed: self.hashed, arrays: &[] }
    }

    fn rows<'a>(
        &'a self,
        world: &'a World<'a>,
        incoming: &'a dyn Incoming,
        at: &At,
        emit: Emit<'_, 'a>,
    ) -> Result<(u64, Vec<(RecordId, Box<[u8]>)>)> {
        let Rows::Given(values) = &self.insert.rows else { return Err(Error::bug("a load of rows that are there")) };
        let mut run = Run::new(&self.insert.tables, world, Vec::new());
        let (mut count, mut done) = (0, Done::default());
        for row in 0..incoming.rows() {
            world.look()?;
            at.row.set(row);
            run.frame.made.clear();
            for (field, ty) in self.types.iter().enumerate() {
                at.field.set(Some(field));
                let value = match incoming.field(row, field) {
                    None => Datum::Null,
                    Some(bytes) => read(*ty, incoming.form(field), bytes, world)?,
                };
                run.frame.made.push(value);
            }
            at.field.set(None);
            let values = values.iter().map(|value| value.eval(&run.frame)).collect::<Result<Vec<_>>>()?;
            if self.insert.row(&values, &mut run, &mut done)? {
                count += 1;
                self.insert.target.give_back(&run.frame, emit)?;
            }
        }
        let (new, changed): (Vec<_>, Vec<_>) = done.changed.into_iter().partition(|change| change.old.is_none());
        self.insert.target.foreign.follow(changed, &mut run)?;
        let dangling = self.insert.target.foreign.dangling(new, &mut run)?;
        let kept = dangling.into_iter().map(|change| (change.record, change.new.unwrap_or_default().into()));
        Ok((count, kept.collect()))
    }

    /// Looks again at rows that referred to none, now that all are in.
    ///
    /// # Errors
    /// 23503 for one that still does.
    pub fn finish(
        &self,
        txn: &mut Txn,
        dangling: &[(RecordId, Box<[u8]>)],
        session: Session<'_>,
        guard: &Guard,
    ) -> Result<std::result::Result<(), Event>> {
        let arena = Bump::new();
        let world = World::new(&[], &arena, guard, session, self.parts(), Reads::of(txn));
        let mut run = Run::new(&self.insert.tables, &world, Vec::new());
        let new = |(record, row): &'_ (RecordId, Box<[u8]>)| {
            let row: &[u8] = world.arena.alloc_slice_copy(row);
            Changed { record: *record, old: None, new: Some(row) }
        };
        let looked = self.insert.target.foreign.follow(dangling.iter().map(new).collect(), &mut run);
        match (looked, world.waits()) {
            (Ok(()), _) => Ok(Ok(())),
            (Err(_), Some(event)) => Ok(Err(event)),
            (Err(error), None) => Err(error),
        }
    }
}

fn refused(refusal: Refusal, what: &str) -> Error {
    match refusal {
        Refusal::Error(error) => error,
        Refusal::Other => Error::unsupported(format!("{what} with such a default or constraint is not supported")),
    }
}

fn bind_columns(table: &Arc<RowTable>, columns: &[usize], tables: &dyn Tables) -> Bind<Load> {
    let (mut binder, mut scope) = (Binder::default(), Scope::new(tables));
    let given = (0..columns.len()).map(Expr::Made).collect();
    let rows = Rows::Given(complete(&mut binder, table, columns, given, &mut scope)?);
    let name = table.schema.name.table.clone();
    binder.sources = vec![Source::stored(name, TARGET, Arc::clone(table))];
    let mut foreign = Foreign::default();
    foreign.add(&mut binder, table, Does::Insert, &mut scope)?;
    let (target, columns_back) =
        target(&mut binder, Arc::clone(table), Returning { items: None, star: None }, foreign, &mut scope)?;
    let tables = vec![Arc::clone(table), Arc::clone(table)];
    let made_first = false;
    let insert = Insert { target, tables, rows, made_first, conflict: Conflict::Error, columns: columns_back };
    let types = columns.iter().map(|at| table.schema.columns[*at].ty).collect();
    let Binder { subqueries, derived, hashed, .. } = binder;
    Ok(Load { insert, types, subqueries, derived, hashed })
}

fn bind_insert(insert: &ast::Insert, source: &[Option<Type>], tables: &dyn Tables) -> Bind<Load> {
    let ast::TableObject::TableName(name) = &insert.table else { return Err(Refusal::Other) };
    let table = scope::named(name, tables)?;
    let (mut binder, mut scope) = (Binder::default(), Scope::new(tables));
    let columns = target_columns(&table, &insert.columns)?;
    check_count(source.len(), columns.len(), !insert.columns.is_empty())?;
    let given = Given { table: &table, columns: &columns, overriding: overriding(insert) };
    let (mut types, mut taken, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for (at, (ty, column)) in source.iter().zip(&columns).enumerate() {
        let own = table.schema.columns[*column].ty;
        types.push(ty.unwrap_or(own));
        if given.is_ignored(*column) {
            continue;
        }
        given.check(*column)?;
        taken.push(*column);
        values.push(assigned(&mut binder, Typed::new(Expr::Made(at), ty.unwrap_or(own)), &table, *column)?);
    }
    let rows = Rows::Given(complete(&mut binder, &table, &taken, values, &mut scope)?);
    let called = insert.table_alias.as_ref().map(|alias| folded(&alias.alias));
    let name = called.unwrap_or_else(|| table.schema.name.table.clone());
    binder.sources = vec![Source::stored(name, TARGET, Arc::clone(&table))];
    let conflict = conflict(&mut binder, insert, &table, &mut scope)?;
    let mut foreign = Foreign::default();
    foreign.add(&mut binder, &table, Does::Insert, &mut scope)?;
    if let Conflict::Update { set, .. } = &conflict {
        foreign.add(&mut binder, &table, Does::Update(set), &mut scope)?;
    }
    let tables = vec![Arc::clone(&table), Arc::clone(&table)];
    let returning = Returning { items: insert.returning.as_deref(), star: None };
    let (target, columns) = target(&mut binder, table, returning, foreign, &mut scope)?;
    if !binder.params.is_empty() {
        // They would have to come with the rows.
        return Err(Refusal::Other);
    }
    check_late(&binder.subqueries, &binder.derived, &target)?;
    let insert = Insert { target, tables, rows, made_first: false, conflict, columns };
    let Binder { subqueries, derived, hashed, .. } = binder;
    Ok(Load { insert, types, subqueries, derived, hashed })
}

/// A value of its type.
fn read<'a>(ty: Type, form: Form, bytes: &'a [u8], world: &'a World<'a>) -> Result<Datum<'a>> {
    if form == Form::Binary {
        return rows::assign(ty, pg::row_value::read_binary(ty, bytes)?);
    }
    let text = pg::row_value::read_text(bytes)?;
    match ty {
        Type::Text | Type::Varchar(_) | Type::Char(_) => rows::assign(ty, Datum::Text(text)),
        ty => rows::assign(ty, cast::parse(text, ty, world.session.zone, world.arena)?),
    }
}
