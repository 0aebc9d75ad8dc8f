//! Subqueries in expressions.
//!
//! A correlated subquery runs again for each evaluation, with the outer values it references. An uncorrelated one
//! runs once for each run of the statement, on first use.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use model::{Datum, Error, Result, SqlState, Type};
use rows::key::{self, KeyColumn};
use rustc_hash::FxHashSet;

use crate::exec::ExecContext;
use crate::expr::{Comparison, compare};
use crate::select::Select;
use crate::sort_limit::bytes_of;

/// A subquery in an expression.
pub(crate) struct Subquery {
    pub(crate) kind: ResultKind,
    pub(crate) select: Select,
}

/// The kind of result a subquery produces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResultKind {
    Value,
    Existence,
    Set,
    /// Rows of several columns, for `(a, b) IN (…)`.
    Rows,
}

/// The result of a subquery.
#[derive(Debug, Default)]
pub(crate) struct SubqueryResult<'a> {
    /// The single value; for IN all values, sorted and distinct.
    pub(crate) values: Vec<Datum<'a>>,
    /// Whether NULL was among the values; NULLs are not in `values`.
    has_null: bool,
    /// Rows of several columns without NULLs, encoded as keys.
    keys: FxHashSet<Vec<u8>>,
    /// Rows of several columns.
    rows: Vec<Vec<Datum<'a>>>,
}

impl<'a> SubqueryResult<'a> {
    /// Adds a value. Call [`SubqueryResult::sort`] after the last one.
    pub(crate) fn push(&mut self, value: Datum<'a>) {
        match value {
            Datum::Null => self.has_null = true,
            value => self.values.push(value),
        }
    }

    /// Sorts the values and removes duplicates.
    pub(crate) fn sort(&mut self) {
        self.values.sort_by(|a, b| a.compare(b).unwrap_or(Ordering::Equal));
        self.values.dedup_by(|a, b| a.compare(b) == Some(Ordering::Equal));
    }
}

impl SubqueryResult<'_> {
    /// `what IN (values)`; `None` is NULL.
    pub(crate) fn among(&self, what: &Datum<'_>) -> Option<bool> {
        if self.values.is_empty() && !self.has_null {
            return Some(false);
        }
        if what.is_null() {
            return None;
        }
        let found = self.values.binary_search_by(|one| one.compare(what).unwrap_or(Ordering::Less)).is_ok();
        if found || !self.has_null { Some(found) } else { None }
    }
}

impl SubqueryResult<'_> {
    /// `what < ANY (values)` or, with `all`, `what < ALL (values)`; `None` is NULL.
    pub(crate) fn compared(&self, what: &Datum<'_>, comparison: Comparison, all: bool) -> Result<Option<bool>> {
        let mut unknown = self.has_null;
        for value in &self.values {
            match compare(what, value)?.map(|order| comparison.holds(order)) {
                Some(held) if held != all => return Ok(Some(held)),
                Some(_) => {}
                None => unknown = true,
            }
        }
        Ok(if unknown { None } else { Some(all) })
    }
}

impl SubqueryResult<'_> {
    /// `row IN (rows)`; `None` is NULL. `types`: column types.
    pub(crate) fn has_row(&self, what: &[Datum<'_>], types: &[Type]) -> Result<Option<bool>> {
        let is_whole = !what.iter().any(Datum::is_null);
        if is_whole && self.keys.contains(&key_of(what, types)?) {
            return Ok(Some(true));
        }
        if is_whole && self.keys.len() == self.rows.len() {
            return Ok(Some(false));
        }
        // NULL if a row differs in no column that is known on both sides.
        let may_be = |row: &Vec<Datum<'_>>| {
            let mut both = row.iter().zip(what);
            both.all(|(one, other)| one.is_null() || other.is_null() || one.compare(other).is_some_and(Ordering::is_eq))
        };
        Ok(if self.rows.iter().any(may_be) { None } else { Some(false) })
    }
}

fn key_of(row: &[Datum<'_>], types: &[Type]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for (value, ty) in row.iter().zip(types) {
        key::push(&mut bytes, &KeyColumn::new(*ty), value)?;
    }
    Ok(bytes)
}

impl Subquery {
    /// Runs it with the outer values `given`.
    pub(crate) fn run<'a>(&'a self, ctx: &'a ExecContext<'a>, given: Vec<Datum<'a>>) -> Result<SubqueryResult<'a>> {
        let mut answer = SubqueryResult::default();
        let types: Vec<Type> = match self.kind {
            ResultKind::Rows => self.select.columns.iter().map(|column| column.ty).collect(),
            _ => Vec::new(),
        };
        let (mut rows, stands_alone) = (0, given.is_empty());
        self.select.run(ctx, given, &mut |row| {
            rows += 1;
            // A correlated result is dropped before the next one is computed, so its memory is not counted.
            if stands_alone {
                ctx.keep(bytes_of(row));
                ctx.room(0)?;
            }
            match self.kind {
                ResultKind::Existence => return Ok(ControlFlow::Break(())),
                ResultKind::Rows if row.iter().any(Datum::is_null) => answer.rows.push(row.to_vec()),
                // Duplicates are dropped; only rows with NULLs need a comparison column by column.
                ResultKind::Rows => {
                    if answer.keys.insert(key_of(row, &types)?) {
                        answer.rows.push(row.to_vec());
                    }
                }
                ResultKind::Value if rows > 1 => {
                    let text = "more than one row returned by a subquery used as an expression";
                    return Err(Error::new(SqlState::CARDINALITY_VIOLATION, text));
                }
                ResultKind::Value => answer.values.extend(row.first().cloned()),
                ResultKind::Set => answer.push(row.first().cloned().unwrap_or_default()),
            }
            Ok(ControlFlow::Continue(()))
        })?;
        match self.kind {
            ResultKind::Existence => answer.values.push(Datum::Bool(rows > 0)),
            ResultKind::Value | ResultKind::Rows => {}
            ResultKind::Set => answer.sort(),
        }
        Ok(answer)
    }
}
