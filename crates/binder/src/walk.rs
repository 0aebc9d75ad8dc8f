//! Walks over bound trees.

use rustc_hash::FxHashSet;
use scalar::{Expr, ExprKind};

use crate::tree::{Bound, Rel, SortKey};

/// Calls `each` with every expression of an operator and of those below it, also in the bodies of nested subqueries.
pub(crate) fn for_each_expr(rel: &mut Rel, each: &mut dyn FnMut(&mut Expr)) {
    let keys = |keys: &mut Vec<SortKey>, each: &mut dyn FnMut(&mut Expr)| {
        keys.iter_mut().for_each(|key| each(&mut key.expr));
    };
    match rel {
        Rel::Single | Rel::Cte { .. } | Rel::WorkTable { .. } => {}
        Rel::Scan { as_of, .. } => as_of.iter_mut().for_each(|expr| each(expr)),
        Rel::Values { rows, .. } => rows.iter_mut().flatten().for_each(each),
        Rel::Functions { functions, .. } => {
            functions.iter_mut().flat_map(|function| &mut function.arguments).for_each(each);
        }
        Rel::Project { input, columns } => {
            columns.iter_mut().for_each(|(_, expr)| each(expr));
            for_each_expr(input, each);
        }
        Rel::ProjectSet { input, sets } => {
            sets.iter_mut().flat_map(|(_, _, arguments)| arguments).for_each(&mut *each);
            for_each_expr(input, each);
        }
        Rel::Filter { input, condition } => {
            each(condition);
            for_each_expr(input, each);
        }
        Rel::Join { left, right, on, .. } => {
            on.iter_mut().for_each(&mut *each);
            for_each_expr(left, each);
            for_each_expr(right, each);
        }
        Rel::AsOfJoin { left, right, on, matching, .. } => {
            on.iter_mut().for_each(&mut *each);
            each(matching);
            for_each_expr(left, each);
            for_each_expr(right, each);
        }
        Rel::Aggregate { input, keys: by, aggregates, .. } => {
            by.iter_mut().for_each(|(_, expr)| each(expr));
            for (_, call) in aggregates {
                call.arguments.iter_mut().for_each(&mut *each);
                keys(&mut call.order_by, each);
                call.filter.iter_mut().for_each(&mut *each);
            }
            for_each_expr(input, each);
        }
        Rel::Window { input, calls } => {
            for (_, call) in calls {
                call.arguments.iter_mut().chain(&mut call.filter).chain(&mut call.partition_by).for_each(&mut *each);
                keys(&mut call.order_by, each);
                for bound in [&mut call.frame.start, &mut call.frame.end] {
                    if let Bound::Preceding(offset) | Bound::Following(offset) = bound {
                        each(offset);
                    }
                }
            }
            for_each_expr(input, each);
        }
        Rel::Distinct { input, .. } | Rel::Lock { input, .. } => for_each_expr(input, each),
        Rel::Sort { input, keys: by } => {
            keys(by, each);
            for_each_expr(input, each);
        }
        Rel::Limit { input, limit, offset, ties } => {
            limit.iter_mut().chain(offset).for_each(&mut *each);
            ties.iter_mut().for_each(|ties| keys(ties, each));
            for_each_expr(input, each);
        }
        Rel::SetOperation { left, right, .. } => {
            for_each_expr(&mut left.rel, each);
            for_each_expr(&mut right.rel, each);
        }
    }
}

/// Columns that the subqueries and the queries of WITH read from outside, by number.
#[derive(Default)]
pub(crate) struct OuterColumns {
    pub(crate) subqueries: Vec<FxHashSet<u32>>,
    pub(crate) ctes: Vec<FxHashSet<u32>>,
}

impl OuterColumns {
    /// Columns that an expression reads, also those that its subqueries read from outside.
    pub(crate) fn of_expr(&self, expr: &Expr, into: &mut FxHashSet<u32>) {
        expr.visit(&mut |part| match &part.kind {
            ExprKind::Column(column) => {
                into.insert(*column);
            }
            ExprKind::Subquery(subquery) => {
                into.extend(self.subqueries.get(subquery.query as usize).into_iter().flatten())
            }
            _ => {}
        });
    }

    /// Columns that an operator reads from outside.
    pub(crate) fn of_rel(&self, rel: &mut Rel) -> FxHashSet<u32> {
        let mut read = FxHashSet::default();
        for_each_expr(rel, &mut |expr| self.of_expr(expr, &mut read));
        let mut made = FxHashSet::default();
        all_made(rel, &mut made, &mut |cte| read.extend(self.ctes.get(cte).into_iter().flatten()));
        read.retain(|column| !made.contains(column));
        read
    }
}

/// Columns that an operator or one below it makes; `each_cte` gets the queries of WITH that they refer to.
fn all_made(rel: &Rel, into: &mut FxHashSet<u32>, each_cte: &mut dyn FnMut(usize)) {
    let mut outputs = Vec::new();
    rel.outputs(&mut outputs);
    into.extend(outputs);
    match rel {
        Rel::Cte { cte, .. } => each_cte(*cte),
        Rel::Single | Rel::Scan { .. } | Rel::Values { .. } | Rel::Functions { .. } | Rel::WorkTable { .. } => {}
        Rel::Project { input, .. }
        | Rel::ProjectSet { input, .. }
        | Rel::Filter { input, .. }
        | Rel::Aggregate { input, .. }
        | Rel::Window { input, .. }
        | Rel::Distinct { input, .. }
        | Rel::Sort { input, .. }
        | Rel::Lock { input, .. }
        | Rel::Limit { input, .. } => all_made(input, into, each_cte),
        Rel::Join { left, right, .. } | Rel::AsOfJoin { left, right, .. } => {
            all_made(left, into, each_cte);
            all_made(right, into, each_cte);
        }
        Rel::SetOperation { left, right, .. } => {
            all_made(&left.rel, into, each_cte);
            all_made(&right.rel, into, each_cte);
        }
    }
}
