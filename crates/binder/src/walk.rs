//! Walks over bound trees.

use catalog::{Volatility, builtin};
use rustc_hash::FxHashSet;
use scalar::{Expr, ExprKind};

use crate::system::SystemUses;
use crate::tree::{Bound, Cte, CteBody, Query, Rel, Subplan};

/// Generates a walk over the expressions of operators, shared or mutable.
macro_rules! expressions {
    ($(#[$doc:meta])* $name:ident, $iter:ident $(, $mut:tt)?) => {
        $(#[$doc])*
        pub(crate) fn $name(rel: &$($mut)? Rel, each: &mut dyn FnMut(&$($mut)? Expr)) {
            match rel {
                Rel::Single | Rel::Cte { .. } | Rel::WorkTable { .. } => {}
                Rel::Scan { as_of, .. } => as_of.$iter().for_each(|expr| each(expr)),
                Rel::Values { rows, .. } => rows.$iter().flatten().for_each(each),
                Rel::Functions { functions, .. } => {
                    functions.$iter().for_each(|function| function.arguments.$iter().for_each(&mut *each));
                }
                Rel::Project { input, columns } => {
                    columns.$iter().for_each(|(_, expr)| each(expr));
                    $name(input, each);
                }
                Rel::ProjectSet { input, sets } => {
                    sets.$iter().for_each(|(_, _, arguments)| arguments.$iter().for_each(&mut *each));
                    $name(input, each);
                }
                Rel::Filter { input, condition } => {
                    each(condition);
                    $name(input, each);
                }
                Rel::Join { left, right, on, .. } => {
                    on.$iter().for_each(&mut *each);
                    $name(left, each);
                    $name(right, each);
                }
                Rel::AsOfJoin { left, right, on, matching, .. } => {
                    on.$iter().for_each(&mut *each);
                    each(matching);
                    $name(left, each);
                    $name(right, each);
                }
                Rel::Aggregate { input, keys, aggregates, .. } => {
                    keys.$iter().for_each(|(_, expr)| each(expr));
                    for (_, call) in aggregates {
                        call.arguments.$iter().for_each(&mut *each);
                        call.order_by.$iter().for_each(|key| each(&$($mut)? key.expr));
                        call.filter.$iter().for_each(&mut *each);
                    }
                    $name(input, each);
                }
                Rel::Window { input, calls } => {
                    for (_, call) in calls {
                        call.arguments.$iter().for_each(&mut *each);
                        call.filter.$iter().for_each(&mut *each);
                        call.partition_by.$iter().for_each(&mut *each);
                        call.order_by.$iter().for_each(|key| each(&$($mut)? key.expr));
                        for bound in [&$($mut)? call.frame.start, &$($mut)? call.frame.end] {
                            if let Bound::Preceding(offset) | Bound::Following(offset) = bound {
                                each(offset);
                            }
                        }
                    }
                    $name(input, each);
                }
                Rel::Distinct { input, .. } | Rel::Lock { input, .. } => $name(input, each),
                Rel::Sort { input, keys } => {
                    keys.$iter().for_each(|key| each(&$($mut)? key.expr));
                    $name(input, each);
                }
                Rel::Limit { input, limit, offset, ties } => {
                    limit.$iter().for_each(&mut *each);
                    offset.$iter().for_each(&mut *each);
                    ties.$iter().flatten().for_each(|key| each(&$($mut)? key.expr));
                    $name(input, each);
                }
                Rel::SetOperation { left, right, .. } => {
                    $name(&$($mut)? left.rel, each);
                    $name(&$($mut)? right.rel, each);
                }
            }
        }
    };
}

expressions!(
    /// Calls `each` with every expression of an operator and of those below it.
    for_each_expr, iter_mut, mut
);
expressions!(
    /// Calls `each` with every expression of an operator and of those below it.
    expressions, iter
);

/// The operators of a query: the outermost one, and those of its subqueries and queries of WITH. Changes in WITH have
/// operators of their own.
fn roots(query: &Query) -> Vec<&Rel> {
    let mut roots = vec![&query.root];
    roots.extend(query.subqueries.iter().map(|subquery| &subquery.rel));
    for cte in &query.ctes {
        match &cte.body {
            CteBody::Plain(rel) => roots.push(rel),
            CteBody::Recursive { base, step, .. } => roots.extend([&base.rel, &step.rel]),
            CteBody::Change(_) => {}
        }
    }
    roots
}

/// Changes every outermost expression of a query.
pub fn change(query: &mut Query, each: &mut dyn FnMut(&mut Expr)) {
    for_each_expr(&mut query.root, each);
    query.subqueries.iter_mut().for_each(|subquery| for_each_expr(&mut subquery.rel, each));
    for cte in &mut query.ctes {
        match &mut cte.body {
            CteBody::Plain(rel) => for_each_expr(rel, each),
            CteBody::Recursive { base, step, .. } => {
                for_each_expr(&mut base.rel, each);
                for_each_expr(&mut step.rel, each);
            }
            CteBody::Change(_) => {}
        }
    }
}

/// Calls `each` with every expression of a query and with those within it.
pub fn visit(query: &Query, each: &mut dyn FnMut(&Expr)) {
    for root in roots(query) {
        expressions(root, &mut |expr| expr.visit(each));
    }
}

/// Calls `each` with every operator of a query.
pub fn visit_operators(query: &Query, each: &mut dyn FnMut(&Rel)) {
    for root in roots(query) {
        operators(root, each);
    }
}

/// Generates a walk over operators, shared or mutable.
macro_rules! operators {
    ($(#[$doc:meta])* $name:ident $(, $mut:tt)?) => {
        $(#[$doc])*
        pub(crate) fn $name(rel: &$($mut)? Rel, each: &mut dyn FnMut(&$($mut)? Rel)) {
            each(rel);
            match rel {
                Rel::Single
                | Rel::Scan { .. }
                | Rel::Values { .. }
                | Rel::Functions { .. }
                | Rel::Cte { .. }
                | Rel::WorkTable { .. } => {}
                Rel::Project { input, .. }
                | Rel::ProjectSet { input, .. }
                | Rel::Filter { input, .. }
                | Rel::Aggregate { input, .. }
                | Rel::Window { input, .. }
                | Rel::Distinct { input, .. }
                | Rel::Sort { input, .. }
                | Rel::Lock { input, .. }
                | Rel::Limit { input, .. } => $name(input, each),
                Rel::Join { left, right, .. } | Rel::AsOfJoin { left, right, .. } => {
                    $name(left, each);
                    $name(right, each);
                }
                Rel::SetOperation { left, right, .. } => {
                    $name(&$($mut)? left.rel, each);
                    $name(&$($mut)? right.rel, each);
                }
            }
        }
    };
}

operators!(
    /// Calls `each` with an operator and with those below it.
    operators
);
operators!(
    /// Calls `each` with an operator and with those below it.
    operators_mut, mut
);

/// Numbers of the columns that a query reads or returns.
pub fn used_columns(query: &Query) -> FxHashSet<u32> {
    let mut used: FxHashSet<u32> = query.output.iter().map(|one| one.column).collect();
    used.extend(query.subqueries.iter().flat_map(|subquery| &subquery.columns));
    for cte in &query.ctes {
        used.extend(&cte.columns);
        if let CteBody::Recursive { base, step, .. } = &cte.body {
            used.extend(base.columns.iter().chain(&step.columns));
        }
    }
    visit_operators(query, &mut |rel| match rel {
        Rel::Distinct { columns, .. } => used.extend(columns),
        Rel::SetOperation { left, right, .. } => used.extend(left.columns.iter().chain(&right.columns)),
        _ => {}
    });
    visit(query, &mut |expr| {
        if let ExprKind::Column(column) = expr.kind {
            used.insert(column);
        }
    });
    used
}

/// Whether an operator can run without the query around it: it reads no row of that, no change in WITH, and no query of WITH
/// that would give other rows when it runs again.
pub fn stands_alone(rel: &Rel, subqueries: &[Subplan], ctes: &[Cte]) -> bool {
    let (mut read, mut made) = (FxHashSet::default(), FxHashSet::default());
    let (mut is_alone, mut entered) = (true, FxHashSet::default());
    let mut pending = vec![(rel, false)];
    while let Some((rel, is_of_with)) = pending.pop() {
        let mut visit = |part: &Expr| match &part.kind {
            ExprKind::Column(column) => _ = read.insert(*column),
            ExprKind::Subquery(subquery) => {
                pending.extend(subqueries.get(subquery.query as usize).map(|plan| (&plan.rel, is_of_with)));
            }
            ExprKind::Call(call, _) if is_of_with => {
                let function = builtin().function_row(call.function);
                is_alone &= function.is_some_and(|row| row.volatility != Volatility::Volatile);
            }
            _ => {}
        };
        expressions(rel, &mut |expr| expr.visit(&mut visit));
        let mut referred = Vec::new();
        all_made(rel, &mut made, &mut |cte| referred.push(cte));
        for cte in referred {
            let Some(of) = ctes.get(cte).filter(|_| entered.insert(cte)) else { continue };
            match &of.body {
                CteBody::Plain(rel) => pending.push((rel, true)),
                CteBody::Recursive { base, step, .. } => pending.extend([(&base.rel, true), (&step.rel, true)]),
                CteBody::Change(_) => is_alone = false,
            }
        }
        // The step of a recursive query reads the step before.
        operators(rel, &mut |rel| {
            if let Rel::WorkTable { cte, .. } = rel {
                is_alone &= entered.contains(cte);
            }
        });
    }
    is_alone && read.is_subset(&made)
}

/// Columns that the subqueries and the queries of WITH read from outside, by number.
#[derive(Default)]
pub(crate) struct OuterColumns {
    pub(crate) subqueries: Vec<FxHashSet<u32>>,
    pub(crate) ctes: Vec<FxHashSet<u32>>,
    /// System columns, which scans make.
    pub(crate) system: SystemUses,
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
        self.system.place(rel);
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
    operators(rel, &mut |rel| {
        rel.outputs(&mut outputs);
        if let Rel::Cte { cte, .. } = rel {
            each_cte(*cte);
        }
        into.extend(outputs.drain(..));
    });
}
