//! Derived tables: subqueries in FROM, common table expressions, VALUES, UNION, INTERSECT and EXCEPT.
//!
//! Their rows are encoded like rows of stored tables, so that expressions read both alike. An uncorrelated query
//! runs once for each run of the statement, on first use.

use std::ops::ControlFlow;
use std::sync::Arc;

use model::{Datum, Error, Result, RowColumn, RowSchema, SqlState, TableId, TableName};
use rows::key::{self, KeyColumn};
use rows::row::RowLayout;
use rows::{Records, RowTable};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::exec::{ExecContext, Flow, Run};
use crate::expr::Expr;
use crate::select::Select;
use crate::sort_limit::Emit;

/// A derived table.
pub(crate) struct Derived {
    pub(crate) rows: Rows,
    pub(crate) layout: Arc<RowLayout>,
}

/// The source of its rows.
pub(crate) enum Rows {
    Select(Box<Select>),
    Values(Vec<Vec<Expr>>),
    Set(Box<Set>),
    /// `generate_series` of `integer` or `bigint`.
    Series {
        /// First and last number, and the step.
        arguments: Vec<Expr>,
        is_int8: bool,
    },
    /// The rows that a change in WITH returns: it runs before all queries.
    Changed,
    /// Rows that another executor has made before the statement runs.
    External,
}

/// UNION, INTERSECT or EXCEPT, with or without ALL.
pub(crate) struct Set {
    pub(crate) kind: Kind,
    pub(crate) all: bool,
    pub(crate) sides: [Rows; 2],
    /// Key columns for duplicate elimination.
    pub(crate) columns: Vec<KeyColumn>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Union,
    Intersect,
    Except,
}

impl Derived {
    /// Runs the query; returns its rows, encoded, in the arena.
    pub(crate) fn make<'a>(&'a self, ctx: &'a ExecContext<'a>, given: Vec<Datum<'a>>) -> Result<&'a [&'a [u8]]> {
        let (mut made, mut bytes) = (Vec::new(), Vec::new());
        self.rows.run(ctx, &given, &mut |row| {
            ctx.look()?;
            bytes.clear();
            self.layout.encode(row, &mut bytes)?;
            made.push(&*ctx.arena.alloc_slice_copy(&bytes));
            // The list grows by doubling, and is copied to the arena.
            ctx.keep(3 * size_of::<&[u8]>());
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(ctx.arena.alloc_slice_copy(&made))
    }
}

impl Rows {
    fn run<'a>(&'a self, ctx: &'a ExecContext<'a>, given: &[Datum<'a>], emit: Emit<'_, 'a>) -> Result<()> {
        match self {
            Rows::Select(select) => select.run(ctx, given.to_vec(), emit).map(drop),
            Rows::Values(rows) => {
                let run = Run::new(&[], ctx, given.to_vec());
                for row in rows {
                    let row = row.iter().map(|one| one.eval(&run.frame)).collect::<Result<Vec<_>>>()?;
                    if emit(&row)?.is_break() {
                        break;
                    }
                }
                Ok(())
            }
            Rows::Set(set) => set.run(ctx, given, emit),
            Rows::Series { arguments, is_int8 } => {
                let run = Run::new(&[], ctx, given.to_vec());
                let values = arguments.iter().map(|one| one.eval(&run.frame)).collect::<Result<Vec<_>>>()?;
                series(&values, *is_int8, emit)
            }
            Rows::Changed => Err(Error::bug("a change in WITH that did not run")),
            Rows::External => Err(Error::bug("a query of another executor that did not run")),
        }
    }

    /// Whether it is a UNION, INTERSECT or EXCEPT.
    pub(crate) fn is_set(&self) -> bool {
        matches!(self, Rows::Set(_))
    }

    /// Appends the SELECTs it consists of.
    pub(crate) fn selects<'s>(&'s self, out: &mut Vec<&'s Select>) {
        match self {
            Rows::Select(select) => out.push(select),
            Rows::Values(_) | Rows::Series { .. } | Rows::Changed | Rows::External => {}
            Rows::Set(set) => set.sides.iter().for_each(|side| side.selects(out)),
        }
    }
}

impl Set {
    fn run<'a>(&'a self, ctx: &'a ExecContext<'a>, given: &[Datum<'a>], emit: Emit<'_, 'a>) -> Result<()> {
        let [left, right] = &self.sides;
        if self.kind == Kind::Union {
            let mut seen = FxHashSet::default();
            let mut each = |row: &[Datum<'a>]| -> Result<Flow> {
                if self.all {
                    return emit(row);
                }
                let key = self.key(row)?;
                ctx.keep(key.len() + size_of::<Vec<u8>>());
                if seen.insert(key) { emit(row) } else { Ok(ControlFlow::Continue(())) }
            };
            left.run(ctx, given, &mut each)?;
            return right.run(ctx, given, &mut each);
        }
        // For each row: its count on the right side, less the matches on the left.
        let mut counts: FxHashMap<Vec<u8>, u64> = FxHashMap::default();
        right.run(ctx, given, &mut |row| {
            let key = self.key(row)?;
            ctx.keep(key.len() + size_of::<(Vec<u8>, u64)>());
            *counts.entry(key).or_default() += 1;
            Ok(ControlFlow::Continue(()))
        })?;
        let mut seen = FxHashSet::default();
        left.run(ctx, given, &mut |row| {
            let key = self.key(row)?;
            let count = counts.get_mut(&key).filter(|count| **count > 0);
            let found = count.is_some();
            if let Some(count) = count
                && self.all
            {
                *count -= 1;
            }
            let wanted = found == (self.kind == Kind::Intersect) && (self.all || seen.insert(key));
            if wanted { emit(row) } else { Ok(ControlFlow::Continue(())) }
        })
    }

    fn key(&self, row: &[Datum<'_>]) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for (value, column) in row.iter().zip(&self.columns) {
            key::push(&mut bytes, column, value)?;
        }
        Ok(bytes)
    }
}

/// The rows of `generate_series` with these arguments; none if one is NULL.
fn series<'a>(arguments: &[Datum<'a>], is_int8: bool, emit: Emit<'_, 'a>) -> Result<()> {
    let mut numbers = Vec::with_capacity(arguments.len());
    for argument in arguments {
        match argument {
            Datum::Null => return Ok(()),
            Datum::Int4(value) => numbers.push(i64::from(*value)),
            Datum::Int8(value) => numbers.push(*value),
            other => return Err(Error::bug(format!("a series of {}", other.type_name()))),
        }
    }
    let [first, last, ref step @ ..] = numbers[..] else { return Err(Error::bug("a series without an end")) };
    let step = step.first().copied().unwrap_or(1);
    if step == 0 {
        return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, "step size cannot equal zero"));
    }
    let mut next = Some(first);
    while let Some(number) = next.filter(|number| if step > 0 { *number <= last } else { *number >= last }) {
        let value = if is_int8 { Datum::Int8(number) } else { Datum::Int4(i32::try_from(number).map_err(Error::bug)?) };
        if emit(&[value])?.is_break() {
            break;
        }
        next = number.checked_add(step);
    }
    Ok(())
}

/// The description of a derived table's rows, as of a stored table without rows.
pub(crate) fn table_of(columns: Vec<RowColumn>) -> Result<Arc<RowTable>> {
    let schema = RowSchema {
        lineage: model::Lineage::default(),
        id: TableId(0),
        name: TableName { schema: String::new(), table: String::new() },
        version: 0,
        columns,
        primary: None,
        secondary: Vec::new(),
        checks: Vec::new(),
        foreign_keys: Vec::new(),
        triggers: Vec::new(),
        replica_identity: model::ReplicaIdentity::default(),
    };
    Ok(Arc::new(RowTable {
        layout: Arc::new(RowLayout::of(&schema)?),
        records: Arc::new(Records::new()),
        primary: None,
        secondary: Vec::new(),
        schema: Arc::new(schema),
        derived: rows::Derived::default(),
    }))
}
