//! Queries within a statement: what they give, and when they are run.
//!
//! A query that names columns of the one around it is *given* their values each time; one that does not stands alone, and is run
//! once for the whole statement, when it is first asked.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use model::{Datum, Error, Result, SqlState, Type};
use rows::key::{self, KeyColumn};
use rustc_hash::FxHashSet;

use crate::exec::World;
use crate::expr::{Comparison, compare};
use crate::select::Select;

/// A query in an expression.
pub(crate) struct Subquery {
    pub(crate) kind: Wanted,
    pub(crate) select: Select,
}

/// What is wanted of a subquery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Value,
    Existence,
    Set,
    /// Of rows of several columns.
    Rows,
}

/// What a subquery gave.
#[derive(Debug, Default)]
pub(crate) struct Answer<'a> {
    /// Its only value; of the right side of IN all, in order, each once.
    pub(crate) values: Vec<Datum<'a>>,
    /// Was NULL among them? It is not in `values` then.
    has_null: bool,
    /// Rows of several columns without NULL, as keys.
    keys: FxHashSet<Vec<u8>>,
    /// All of them.
    rows: Vec<Vec<Datum<'a>>>,
}

impl<'a> Answer<'a> {
    /// Adds a value; [`Answer::sort`] ends it.
    pub(crate) fn push(&mut self, value: Datum<'a>) {
        match value {
            Datum::Null => self.has_null = true,
            value => self.values.push(value),
        }
    }

    /// Has the values in order, each once.
    pub(crate) fn sort(&mut self) {
        self.values.sort_by(|a, b| a.compare(b).unwrap_or(Ordering::Equal));
        self.values.dedup_by(|a, b| a.compare(b) == Some(Ordering::Equal));
    }
}

impl Answer<'_> {
    /// What `IN` says of a value.
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

impl Answer<'_> {
    /// What `ANY` or `ALL` says of a comparison with each.
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

impl Answer<'_> {
    /// What `IN` says of a row; `types` are those of its columns.
    pub(crate) fn has_row(&self, what: &[Datum<'_>], types: &[Type]) -> Result<Option<bool>> {
        let is_whole = !what.iter().any(Datum::is_null);
        if is_whole && self.keys.contains(&key_of(what, types)?) {
            return Ok(Some(true));
        }
        if is_whole && self.keys.len() == self.rows.len() {
            return Ok(Some(false));
        }
        // It is unknown of a row that differs in no column but may.
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
    /// Runs it with what the query around it gives.
    pub(crate) fn run<'a>(&'a self, world: &'a World<'a>, given: Vec<Datum<'a>>) -> Result<Answer<'a>> {
        let mut answer = Answer::default();
        let types: Vec<Type> = match self.kind {
            Wanted::Rows => self.select.columns.iter().map(|column| column.ty).collect(),
            _ => Vec::new(),
        };
        let (mut rows, stands_alone) = (0, given.is_empty());
        self.select.run(world, given, &mut |row| {
            rows += 1;
            // Of one that is run for each row around it, only the last answer is there.
            if stands_alone {
                world.keep(row.len() * size_of::<Datum<'_>>());
            }
            match self.kind {
                Wanted::Existence => return Ok(ControlFlow::Break(())),
                Wanted::Rows if row.iter().any(Datum::is_null) => answer.rows.push(row.to_vec()),
                // Each once: nothing but NULL is left to be found among them.
                Wanted::Rows => {
                    if answer.keys.insert(key_of(row, &types)?) {
                        answer.rows.push(row.to_vec());
                    }
                }
                Wanted::Value if rows > 1 => {
                    let text = "more than one row returned by a subquery used as an expression";
                    return Err(Error::new(SqlState::CARDINALITY_VIOLATION, text));
                }
                Wanted::Value => answer.values.extend(row.first().cloned()),
                Wanted::Set => answer.push(row.first().cloned().unwrap_or_default()),
            }
            Ok(ControlFlow::Continue(()))
        })?;
        match self.kind {
            Wanted::Existence => answer.values.push(Datum::Bool(rows > 0)),
            Wanted::Value | Wanted::Rows => {}
            Wanted::Set => answer.sort(),
        }
        Ok(answer)
    }
}
