//! Bulk inserts of rows produced outside this crate: COPY, and INSERT … SELECT whose SELECT ran elsewhere. Rows
//! pass through the same steps as in an INSERT. COPY loads them in batches, because a statement may bring millions
//! of rows.

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
    Conflict, Done, Insert, InsertColumns, ReturningClause, Rows, check_count, check_late, complete, conflict,
    overriding, target, target_columns,
};
use crate::bind::{Bind, Binder, Refusal, Source, Typed, fold_ident};
use crate::cast;
use crate::constraints::{TARGET, assigned};
use crate::derived_tables::Derived;
use crate::exec::{ExecContext, ReadSource, Run, SubPlans};
use crate::expr::Expr;
use crate::foreign_keys::{ChangeKind, Changed, ForeignKeys};
use crate::lower::Parts;
use crate::scope::{self, Scope, Tables};
use crate::select::Output;
use crate::sort_limit::Emit;
use crate::statement::Session;
use crate::subquery::Subquery;

/// A bound INSERT of rows from outside.
pub struct Load {
    insert: Insert,
    /// Input types, by position in the row.
    types: Vec<Type>,
    subqueries: Vec<Subquery>,
    derived: Vec<Derived>,
    /// Number of hash tables in the plan.
    hashed: usize,
}

/// A batch of input rows.
pub trait Incoming {
    /// Number of rows.
    fn rows(&self) -> usize;
    /// Wire format of all values at this position.
    fn form(&self, field: usize) -> Form;
    /// The value at a row and position; `None` for NULL.
    fn field(&self, row: usize, field: usize) -> Option<&[u8]>;
}

/// Result of loading a batch.
#[derive(Debug)]
pub enum Loaded {
    /// The batch is loaded.
    All {
        /// Number of rows inserted or updated.
        rows: u64,
        /// New rows whose referenced row does not exist yet; later batches may insert it. For [`Load::finish`].
        dangling: Vec<(RecordId, Box<[u8]>)>,
    },
    /// Undo the batch, wait for the event, and load it again, as after [`crate::Ran::Wait`].
    Wait(Event),
}

/// The error that ended a batch, and its position.
#[derive(Debug)]
pub struct Refused {
    /// The error.
    pub error: Error,
    /// Row in the batch, from 0.
    pub row: usize,
    /// Position in the row if the error concerns one value.
    pub field: Option<usize>,
}

/// Current position, for [`Refused`].
#[derive(Default)]
struct At {
    row: Cell<usize>,
    field: Cell<Option<usize>>,
}

impl Load {
    /// Binds a COPY into these columns, given by position; other columns get their defaults.
    ///
    /// # Errors
    /// 0A000 for a default, CHECK or foreign key that this crate does not support.
    pub fn new(table: &Arc<RowTable>, columns: &[usize], tables: &dyn Tables) -> Result<Load> {
        bind_columns(table, columns, tables).map_err(|refusal| refused(refusal, "COPY into a table"))
    }

    /// Binds an INSERT. `source` has the column types of its SELECT; `None` is a literal of unknown type, which
    /// takes the type of the target column.
    ///
    /// # Errors
    /// As [`crate::compile`]; 0A000 for what this crate does not support.
    pub fn of(insert: &ast::Insert, source: &[Option<Type>], tables: &dyn Tables) -> Result<Load> {
        bind_insert(insert, source, tables).map_err(|refusal| refused(refusal, "INSERT into a table"))
    }

    /// A lowered INSERT of rows of these types.
    pub(crate) fn lowered(insert: Insert, types: Vec<Type>, parts: Parts) -> Load {
        let Parts { subqueries, derived, hashed, .. } = parts;
        Load { insert, types, subqueries, derived, hashed }
    }

    /// The target table.
    #[must_use]
    pub fn table(&self) -> &Arc<RowTable> {
        &self.insert.target.writer.table
    }

    /// Columns of RETURNING; empty without it.
    #[must_use]
    pub fn columns(&self) -> &[Output] {
        &self.insert.columns
    }

    /// Input types, by position in the row.
    #[must_use]
    pub fn types(&self) -> &[Type] {
        &self.types
    }

    /// Loads one batch. The caller takes savepoints and waits as for [`crate::run`]; `sink` takes the rows of
    /// RETURNING.
    ///
    /// # Errors
    /// As INSERT, with the position of the row.
    pub fn run(
        &self,
        txn: &mut Txn,
        incoming: &dyn Incoming,
        session: Session<'_>,
        guard: &Guard,
        sink: &mut dyn FnMut(&[Datum<'_>]) -> Result<()>,
    ) -> std::result::Result<Loaded, Refused> {
        let arena = Bump::new();
        let ctx = ExecContext::new(&[], &arena, guard, session, self.parts(), ReadSource::of(txn));
        let at = At::default();
        let emit: Emit<'_, '_> = &mut |row| sink(row).map(std::ops::ControlFlow::Continue);
        let loaded = self.rows(&ctx, incoming, &at, emit);
        match (loaded, ctx.waits()) {
            (Ok(loaded), _) => Ok(loaded),
            (Err(_), Some(event)) => Ok(Loaded::Wait(event)),
            (Err(error), None) => Err(Refused { error, row: at.row.get(), field: at.field.get() }),
        }
    }

    fn parts(&self) -> SubPlans<'_> {
        SubPlans { subqueries: &self.subqueries, derived: &self.derived, hashed: self.hashed, arrays: &[] }
    }

    fn rows<'a>(
        &'a self,
        ctx: &'a ExecContext<'a>,
        incoming: &'a dyn Incoming,
        at: &At,
        emit: Emit<'_, 'a>,
    ) -> Result<Loaded> {
        let Rows::External(values) = &self.insert.rows else { return Err(Error::bug("a load without external rows")) };
        let mut run = Run::new(&self.insert.tables, ctx, Vec::new());
        let (mut count, mut done) = (0, Done::default());
        for row in 0..incoming.rows() {
            ctx.look()?;
            at.row.set(row);
            run.frame.computed.clear();
            for (field, ty) in self.types.iter().enumerate() {
                at.field.set(Some(field));
                let value = match incoming.field(row, field) {
                    None => Datum::Null,
                    Some(bytes) => read(*ty, incoming.form(field), bytes, ctx)?,
                };
                run.frame.computed.push(value);
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
        Ok(Loaded::All { rows: count, dangling: kept.collect() })
    }

    /// Checks the foreign keys of `dangling` rows again after the last batch. `Ok(Err(event))`: wait, then call
    /// again.
    ///
    /// # Errors
    /// 23503 for a row whose referenced row does not exist.
    pub fn finish(
        &self,
        txn: &mut Txn,
        dangling: &[(RecordId, Box<[u8]>)],
        session: Session<'_>,
        guard: &Guard,
    ) -> Result<std::result::Result<(), Event>> {
        let arena = Bump::new();
        let ctx = ExecContext::new(&[], &arena, guard, session, self.parts(), ReadSource::of(txn));
        let mut run = Run::new(&self.insert.tables, &ctx, Vec::new());
        let new = |(record, row): &'_ (RecordId, Box<[u8]>)| {
            let row: &[u8] = ctx.arena.alloc_slice_copy(row);
            Changed { record: *record, old: None, new: Some(row) }
        };
        let looked = self.insert.target.foreign.follow(dangling.iter().map(new).collect(), &mut run);
        match (looked, ctx.waits()) {
            (Ok(()), _) => Ok(Ok(())),
            (Err(_), Some(event)) => Ok(Err(event)),
            (Err(error), None) => Err(error),
        }
    }
}

fn refused(refusal: Refusal, what: &str) -> Error {
    match refusal {
        Refusal::Error(error) => error,
        Refusal::Unsupported => Error::unsupported(format!("{what} with this default or constraint is not supported")),
    }
}

fn bind_columns(table: &Arc<RowTable>, columns: &[usize], tables: &dyn Tables) -> Bind<Load> {
    let (mut binder, mut scope) = (Binder::default(), Scope::new(tables));
    let given = (0..columns.len()).map(Expr::Computed).collect();
    let rows = Rows::External(complete(&mut binder, table, columns, given, &mut scope)?);
    let name = table.schema.name.table.clone();
    binder.sources = vec![Source::stored(name, TARGET, Arc::clone(table))];
    let mut foreign = ForeignKeys::default();
    foreign.add(&mut binder, table, ChangeKind::Insert, &mut scope)?;
    let (target, columns_back) =
        target(&mut binder, Arc::clone(table), ReturningClause { items: None, star: None }, foreign, &mut scope)?;
    let tables = vec![Arc::clone(table), Arc::clone(table)];
    let made_first = false;
    let insert = Insert { target, tables, rows, made_first, conflict: Conflict::Error, columns: columns_back };
    let types = columns.iter().map(|at| table.schema.columns[*at].ty).collect();
    let Binder { subqueries, derived, hashed, .. } = binder;
    Ok(Load { insert, types, subqueries, derived, hashed })
}

fn bind_insert(insert: &ast::Insert, source: &[Option<Type>], tables: &dyn Tables) -> Bind<Load> {
    let ast::TableObject::TableName(name) = &insert.table else { return Err(Refusal::Unsupported) };
    let table = scope::named(name, tables)?;
    let (mut binder, mut scope) = (Binder::default(), Scope::new(tables));
    let columns = target_columns(&table, &insert.columns)?;
    check_count(source.len(), columns.len(), !insert.columns.is_empty())?;
    let given = InsertColumns { table: &table, columns: &columns, overriding: overriding(insert) };
    let (mut types, mut taken, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for (at, (ty, column)) in source.iter().zip(&columns).enumerate() {
        let own = table.schema.columns[*column].ty;
        types.push(ty.unwrap_or(own));
        if given.is_ignored(*column) {
            continue;
        }
        given.check(*column)?;
        taken.push(*column);
        values.push(assigned(&mut binder, Typed::new(Expr::Computed(at), ty.unwrap_or(own)), &table, *column)?);
    }
    let rows = Rows::External(complete(&mut binder, &table, &taken, values, &mut scope)?);
    let called = insert.table_alias.as_ref().map(|alias| fold_ident(&alias.alias));
    let name = called.unwrap_or_else(|| table.schema.name.table.clone());
    binder.sources = vec![Source::stored(name, TARGET, Arc::clone(&table))];
    let conflict = conflict(&mut binder, insert, &table, &mut scope)?;
    let mut foreign = ForeignKeys::default();
    foreign.add(&mut binder, &table, ChangeKind::Insert, &mut scope)?;
    if let Conflict::Update { set, .. } = &conflict {
        foreign.add(&mut binder, &table, ChangeKind::Update(set), &mut scope)?;
    }
    let tables = vec![Arc::clone(&table), Arc::clone(&table)];
    let returning = ReturningClause { items: insert.returning.as_deref(), star: None };
    let (target, columns) = target(&mut binder, table, returning, foreign, &mut scope)?;
    if !binder.params.is_empty() {
        // Parameters are not passed with the rows.
        return Err(Refusal::Unsupported);
    }
    check_late(&binder.subqueries, &binder.derived, &target)?;
    let insert = Insert { target, tables, rows, made_first: false, conflict, columns };
    let Binder { subqueries, derived, hashed, .. } = binder;
    Ok(Load { insert, types, subqueries, derived, hashed })
}

/// Decodes a value and converts it to the column type.
fn read<'a>(ty: Type, form: Form, bytes: &'a [u8], ctx: &'a ExecContext<'a>) -> Result<Datum<'a>> {
    if form == Form::Binary {
        return rows::coerce(ty, pg::row_value::read_binary(ty, bytes)?);
    }
    let text = pg::row_value::read_text(bytes)?;
    match ty {
        Type::Text | Type::Varchar(_) | Type::Char(_) => rows::coerce(ty, Datum::Text(text)),
        ty => rows::coerce(ty, cast::parse(text, ty, ctx.session.zone, ctx.arena)?),
    }
}
