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

use super::{Conflict, Done, Insert, Rows, Target};
use crate::cast;
use crate::constraints::Writer;
use crate::derived_tables::Derived;
use crate::exec::{ExecContext, ReadSource, Run, SubPlans};
use crate::expr::Expr;
use crate::foreign_keys::{ChangeKind, Changed, ForeignKeys};
use crate::lower::{Asks, Lower, Parts};
use crate::partitions::Routes;
use crate::select::Output;
use crate::sort_limit::Emit;
use crate::statement::{Session, Tables};
use crate::stored_expressions::StoredExpressions;
use crate::subquery::Subquery;
use crate::triggers::StatementTrigger;

/// The plan of an INSERT of rows from outside.
pub struct Load {
    insert: Insert,
    /// Input types, by position in the row.
    types: Vec<Type>,
    subqueries: Vec<Subquery>,
    derived: Vec<Derived>,
    /// Number of hash tables in the plan.
    hashed: usize,
    /// What its expressions ask of the session.
    asks: Asks,
    /// The error of a constant expression, with which each batch fails.
    failure: Option<Error>,
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
    /// - `session`: facts of the session, by which constants of defaults and constraints are read.
    ///
    /// # Errors
    /// 0A000 for a default, CHECK or foreign key that this crate does not support.
    pub fn new(
        table: &Arc<RowTable>,
        columns: &[usize],
        tables: &dyn Tables,
        session: &scalar::Session,
    ) -> Result<Load> {
        let mut parts = Parts::default();
        let mut stored = StoredExpressions { tables, session, parts: &mut parts };
        match inserted(table, columns, &mut stored) {
            Ok(insert) => {
                let types = columns.iter().map(|at| table.schema.columns[*at].ty).collect();
                Ok(Load::lowered(insert, types, parts))
            }
            Err(stop) => Err(stop.into_error(|| {
                Error::unsupported("COPY into a table with this default or constraint is not supported")
            })),
        }
    }

    /// The load of rows of these types by an INSERT.
    pub(crate) fn lowered(insert: Insert, types: Vec<Type>, parts: Parts) -> Load {
        let Parts { subqueries, derived, hashed, mut asks, failure, .. } = parts;
        // Values of these types are read by the session's facts.
        asks |= if types.iter().any(|ty| ty.is_other()) { Asks::Facts } else { Asks::Nothing };
        Load { insert, types, subqueries, derived, hashed, asks, failure }
    }

    /// Tables that it writes to besides the target table: the partitions.
    pub fn partitions(&self) -> impl Iterator<Item = &Arc<RowTable>> {
        self.insert.routes.iter().flat_map(|routes| routes.written())
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

    /// Whether a run asks for the session's facts ([`crate::Zone::facts`]).
    #[must_use]
    pub fn needs_facts(&self) -> bool {
        self.asks > Asks::Nothing
    }

    /// Whether a run may need values of users' functions.
    #[must_use]
    pub fn calls_routines(&self) -> bool {
        self.asks == Asks::Calls
    }

    /// Triggers that run once for all rows, in the order in which they run.
    #[must_use]
    pub fn statement_triggers(&self) -> Vec<StatementTrigger> {
        self.insert.statement_triggers()
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
        if let Some(error) = self.failure.clone() {
            return Err(Refused { error, row: 0, field: None });
        }
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
                    Some(bytes) => cast::input(*ty, incoming.form(field), bytes, ctx.session.zone, ctx.arena)?,
                };
                run.frame.computed.push(value);
            }
            at.field.set(None);
            let values = self.insert.values(values, &run)?;
            if !ctx.misses() && self.insert.row(&values, &mut run, &mut done)? {
                count += 1;
                self.insert.target.give_back(&run.frame, emit)?;
            }
        }
        ctx.check_values()?;
        let (new, changed): (Vec<_>, Vec<_>) = done.changed.into_iter().partition(|change| change.old.is_none());
        self.insert.target.foreign.follow(changed, &mut run)?;
        if let Some(routes) = &self.insert.routes {
            routes.follow(done.routed, &mut run)?;
        }
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

/// The plan of a COPY into these columns.
fn inserted(table: &Arc<RowTable>, columns: &[usize], stored: &mut StoredExpressions<'_>) -> Lower<Insert> {
    let value = |at| match columns.iter().position(|column| *column == at) {
        Some(field) => Ok(Expr::Computed(field)),
        None => stored.default(table, at),
    };
    let rows = Rows::External((0..table.schema.columns.len()).map(value).collect::<Lower<_>>()?);
    let mut foreign = ForeignKeys::default();
    foreign.add(table, ChangeKind::Insert, stored)?;
    let target =
        Target { writer: Writer::new(Arc::clone(table), stored)?, checks: Vec::new(), returning: Vec::new(), foreign };
    let tables = vec![Arc::clone(table), Arc::clone(table)];
    let late = rows.volatile();
    let routes = Routes::of(table, ChangeKind::Insert, stored)?;
    let conflict = Conflict::Error;
    let (columns, tableoids) = (Vec::new(), Vec::new());
    Ok(Insert { target, tables, rows, late, made_first: false, conflict, columns, routes, tableoids })
}
