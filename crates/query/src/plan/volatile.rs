//! Volatile functions in queries: a query that calls one must not run more often than its statement says.

use binder::tree::{AggregateCall, Cte, CteBody, Rel, SortKey, Subplan};
use catalog::{Volatility, builtin};
use rustc_hash::FxHashSet;
use scalar::{Expr, ExprKind};

/// Whether a relation calls a volatile function, itself or in its subqueries and queries of WITH.
pub(crate) fn is_volatile(rel: &Rel, subqueries: &[Subplan], ctes: &[Cte]) -> bool {
    let mut search = Search { subqueries, ctes, found: false, searched: FxHashSet::default() };
    search.rel(rel);
    search.found
}

struct Search<'a> {
    subqueries: &'a [Subplan],
    ctes: &'a [Cte],
    found: bool,
    /// Queries of WITH that were searched: a recursive one reads itself.
    searched: FxHashSet<usize>,
}

impl Search<'_> {
    fn function(&mut self, function: u32) {
        let row = builtin().function_row(function);
        self.found |= row.is_none_or(|row| row.volatility == Volatility::Volatile);
    }

    fn expr(&mut self, expr: &Expr) {
        let known = self.subqueries;
        let (mut functions, mut subqueries) = (Vec::new(), Vec::new());
        expr.visit(&mut |part| match &part.kind {
            ExprKind::Call(call, _)
            | ExprKind::Distinct(call, _)
            | ExprKind::NullIf(call, _)
            | ExprKind::Quantified { call, .. }
            | ExprKind::InList { call, .. } => functions.push(call.function),
            ExprKind::RowCompare { calls, .. } => functions.extend(calls.iter().map(|call| call.function)),
            ExprKind::Subquery(subquery) => subqueries.extend(known.get(subquery.query as usize)),
            _ => {}
        });
        functions.into_iter().for_each(|function| self.function(function));
        subqueries.into_iter().for_each(|subplan| self.rel(&subplan.rel));
    }

    fn exprs<'e>(&mut self, exprs: impl IntoIterator<Item = &'e Expr>) {
        exprs.into_iter().for_each(|expr| self.expr(expr));
    }

    fn keys(&mut self, keys: &[SortKey]) {
        self.exprs(keys.iter().map(|key| &key.expr));
    }

    fn rel(&mut self, rel: &Rel) {
        match rel {
            Rel::Single | Rel::WorkTable { .. } => {}
            Rel::Scan { as_of, .. } => self.exprs(as_of.as_deref()),
            Rel::Values { rows, .. } => self.exprs(rows.iter().flatten()),
            Rel::Functions { functions, .. } => {
                for function in functions {
                    self.function(function.call.function);
                    self.exprs(&function.arguments);
                }
            }
            Rel::Cte { cte, .. } => self.cte(*cte),
            Rel::Lock { input, .. } | Rel::Distinct { input, .. } => self.rel(input),
            Rel::Project { input, columns } => {
                self.rel(input);
                self.exprs(columns.iter().map(|(_, expr)| expr));
            }
            Rel::ProjectSet { input, sets } => {
                self.rel(input);
                for (_, call, arguments) in sets {
                    self.function(call.function);
                    self.exprs(arguments);
                }
            }
            Rel::Filter { input, condition } => {
                self.rel(input);
                self.expr(condition);
            }
            Rel::Join { left, right, on, .. } => {
                self.rel(left);
                self.rel(right);
                self.exprs(on);
            }
            Rel::AsOfJoin { left, right, on, matching, .. } => {
                self.rel(left);
                self.rel(right);
                self.exprs(on.iter().chain([matching]));
            }
            Rel::Aggregate { input, keys, aggregates, .. } => {
                self.rel(input);
                self.exprs(keys.iter().map(|(_, expr)| expr));
                aggregates.iter().for_each(|(_, call)| self.aggregate(call));
            }
            Rel::Window { input, calls } => {
                self.rel(input);
                for (_, call) in calls {
                    self.function(call.call.function);
                    self.exprs(call.arguments.iter().chain(&call.filter).chain(&call.partition_by));
                    self.keys(&call.order_by);
                }
            }
            Rel::Sort { input, keys } => {
                self.rel(input);
                self.keys(keys);
            }
            Rel::Limit { input, limit, offset, .. } => {
                self.rel(input);
                self.exprs(limit.iter().chain(offset));
            }
            Rel::SetOperation { left, right, .. } => {
                self.rel(&left.rel);
                self.rel(&right.rel);
            }
        }
    }

    fn aggregate(&mut self, call: &AggregateCall) {
        self.function(call.call.function);
        self.exprs(call.arguments.iter().chain(&call.filter));
        self.keys(&call.order_by);
    }

    fn cte(&mut self, number: usize) {
        if !self.searched.insert(number) {
            return;
        }
        let ctes = self.ctes;
        match ctes.get(number).map(|cte| &cte.body) {
            Some(CteBody::Plain(rel)) => self.rel(rel),
            Some(CteBody::Recursive { base, step, .. }) => {
                self.rel(&base.rel);
                self.rel(&step.rel);
            }
            Some(CteBody::Change(_)) => self.found = true,
            None => {}
        }
    }
}
