//! Queries within a change that another executor runs before it, because they have operators that this one lacks.
//!
//! Lowering ends at the first such operator. The outermost query around it that can run alone is then left to the other
//! executor, and lowering begins anew, until it succeeds.

use std::sync::Arc;

use binder::stands_alone;
use binder::tree::{Change, ChangeStatement, CteBody, JoinKind, Output, Query, Rel};
use rows::RowTable;
use rustc_hash::FxHashSet;
use scalar::{Expr, ExprKind};

use super::relations::{is_volatile, outputs};
use super::{Asks, Lower, Lowering, Stop, Tree, refused};
use crate::derived_tables::{Derived, Rows};
use crate::from::{DerivedRef, From};
use crate::statement::{Compiled, External};

/// The queries that are left to another executor.
#[derive(Default)]
pub(super) struct Externals<'q> {
    /// Whether anything may be left to it.
    pub(super) is_possible: bool,
    /// Operators whose rows it makes.
    chosen: Vec<&'q Rel>,
    /// Those of them that were met, with their numbers among derived tables and the descriptions of their rows.
    met: Vec<(&'q Rel, usize, Arc<RowTable>)>,
    /// Operators around the current one whose rows it could make, outermost first.
    around: Vec<&'q Rel>,
    /// Columns that are read.
    pub(super) read: FxHashSet<u32>,
}

/// Lowers a statement, with as much left to another executor as it takes. `lower` is one attempt, and returns what it was given.
pub(super) fn lowered<'q>(mut lower: impl FnMut(Externals<'q>) -> (Lower<Compiled>, Externals<'q>)) -> Lower<Compiled> {
    let mut chosen = Vec::new();
    loop {
        let (lowered, tried) = lower(Externals { is_possible: true, chosen, ..Externals::default() });
        Externals { chosen, .. } = tried;
        match (&lowered, tried.around.first()) {
            (Err(Stop::Refused(_)), Some(outermost)) => chosen.push(outermost),
            _ => return lowered,
        }
    }
}

impl<'q> Lowering<'q> {
    /// Whether the rows of an operator are left to another executor.
    pub(super) fn is_external(&self, rel: &Rel) -> bool {
        self.externals.chosen.iter().any(|one| std::ptr::eq(*one, rel))
    }

    /// Lowers an operator that could be left to another executor.
    pub(super) fn or_external<T>(&mut self, rel: &'q Rel, lower: impl FnOnce(&mut Self) -> Lower<T>) -> Lower<T> {
        if !self.externals.is_possible {
            return lower(self);
        }
        let depth = self.externals.around.len();
        if stands_alone(rel, self.tree.subqueries, self.tree.ctes) {
            self.externals.around.push(rel);
        }
        let lowered = lower(self);
        // After a refusal they tell what could be left to the other executor.
        if !matches!(lowered, Err(Stop::Refused(_))) {
            self.externals.around.truncate(depth);
        }
        lowered
    }

    /// Adds the rows of an operator that another executor makes.
    pub(super) fn external(&mut self, rel: &'q Rel, into: &mut From) -> Lower<()> {
        let columns = outputs(rel);
        let met = self.externals.met.iter().find(|(one, ..)| std::ptr::eq(*one, rel));
        let (of, table) = match met {
            Some((_, of, table)) => (*of, Arc::clone(table)),
            None => {
                let table = self.derived_table(&columns)?;
                self.parts.derived.push(Derived { rows: Rows::External, layout: Arc::clone(&table.layout) });
                let of = self.parts.derived.len() - 1;
                self.externals.met.push((rel, of, Arc::clone(&table)));
                (of, table)
            }
        };
        self.add_derived(DerivedRef { of, given: Vec::new() }, table, &columns, into);
        Ok(())
    }

    /// Completes the queries of the other executor: they return only columns that are read.
    pub(super) fn complete_externals(&mut self) -> Lower<()> {
        let Tree { columns, subqueries, ctes, parameters, .. } = self.tree;
        for (rel, of, table) in std::mem::take(&mut self.externals.met) {
            let (mut output, mut fields) = (Vec::new(), Vec::new());
            for (number, column) in outputs(rel).into_iter().zip(&table.schema.columns) {
                let is_read = self.externals.read.contains(&number);
                fields.push(is_read.then_some(output.len()));
                if is_read {
                    let own = &columns[number as usize];
                    self.parts.asks |= if column.ty.is_other() { Asks::Facts } else { Asks::Nothing };
                    let (name, ty, typmod) = (own.name.clone(), own.ty, own.typmod);
                    output.push(Output { name, column: number, ty, typmod, origin: None });
                }
            }
            let (columns, subqueries, mut ctes) = (columns.to_vec(), subqueries.to_vec(), ctes.to_vec());
            let parameters = parameters.to_vec();
            // It reads no change in WITH.
            for cte in ctes.iter_mut().filter(|cte| matches!(cte.body, CteBody::Change(_))) {
                cte.body = CteBody::Plain(Rel::Single);
            }
            let query = Query { root: rel.clone(), output, columns, subqueries, ctes, parameters };
            if self.parts.external.len() >= EXTERNAL_MAX {
                return refused("so many queries with operators that rows tables do not have");
            }
            self.parts.external.push(External {
                query,
                of,
                fields,
                types: table.schema.columns.iter().map(|one| one.ty).collect(),
            });
        }
        Ok(())
    }
}

/// The change with its conditions on items of FROM that may be left to another executor at these items too, so that it reads
/// fewer rows.
pub(super) fn with_conditions_copied(bound: &ChangeStatement) -> ChangeStatement {
    let mut bound = bound.clone();
    for change in std::iter::once(&mut bound.change).chain(&mut bound.inherited) {
        match change {
            Change::Update(update) => copy_conditions(&mut update.input),
            Change::Delete(delete) => copy_conditions(&mut delete.input),
            Change::Insert(_) | Change::Merge(_) => {}
        }
    }
    bound.subqueries.iter_mut().for_each(|subquery| copy_conditions(&mut subquery.rel));
    bound
}

fn copy_conditions(rel: &mut Rel) {
    match rel {
        Rel::Filter { input, condition } => {
            let mut parts = if matches!(**input, Rel::Join { .. }) { vec![&*condition] } else { Vec::new() };
            while let Some(part) = parts.pop() {
                match &part.kind {
                    ExprKind::And(list) => parts.extend(list),
                    _ => copy_condition(part, input),
                }
            }
            copy_conditions(input);
        }
        Rel::Project { input, .. }
        | Rel::Aggregate { input, .. }
        | Rel::Distinct { input, .. }
        | Rel::Sort { input, .. }
        | Rel::Limit { input, .. } => copy_conditions(input),
        Rel::Join { left, right, .. } => [left, right].into_iter().for_each(|side| copy_conditions(side)),
        _ => {}
    }
}

/// Copies a condition on the columns of one joined item of FROM to that.
fn copy_condition(condition: &Expr, input: &mut Rel) {
    let (mut read, mut is_plain) = (Vec::new(), !is_volatile(condition));
    condition.visit(&mut |part| match part.kind {
        ExprKind::Column(column) => read.push(column),
        ExprKind::Subquery(_) => is_plain = false,
        _ => {}
    });
    let mut item = input;
    // An item below the outer side of a join keeps its other rows.
    while let Rel::Join { kind, left, right, .. } = item {
        item = match kind {
            JoinKind::Inner if has_columns(right, &read) => right,
            JoinKind::Inner | JoinKind::Left => left,
            JoinKind::Right => right,
            _ => return,
        };
    }
    let is_stored = matches!(item, Rel::Scan { table, .. } if table.has_records);
    if is_plain && !read.is_empty() && !is_stored && !matches!(item, Rel::Single) && has_columns(item, &read) {
        let input = Box::new(std::mem::replace(item, Rel::Single));
        *item = Rel::Filter { input, condition: condition.clone() };
    }
}

fn has_columns(rel: &Rel, columns: &[u32]) -> bool {
    let made = outputs(rel);
    columns.iter().all(|column| made.contains(column))
}

/// Maximum number of queries of a change that another executor runs.
const EXTERNAL_MAX: usize = 64;
