//! The rows of a correlated subquery for all outer rows at once, by the keys that the outer rows are compared with.
//!
//! `(SELECT sum(b.x) FROM b WHERE b.k = a.k)` becomes `SELECT sum(b.x), b.k FROM b GROUP BY b.k`, which
//! `nodes::keyed` runs when that pays.

use std::sync::Arc;

use binder::tree::{JoinKind, Rel, Subplan};
use catalog::TypeId;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use model::Result;
use rustc_hash::FxHashSet;
use scalar::{Expr, ExprKind, Place};

use crate::errors::OrError;
use crate::evaluation::keys::AskedKeys;
use crate::evaluation::natives::{Native, is_equality_of_keys, is_integer, native};
use crate::lower::expressions::{all_of, split};
use crate::lower::lowering::Lowering;
use crate::lower::subqueries::selected;

/// The columns that an operator makes.
type Columns = Vec<(u32, Expr)>;

/// An expression over outer rows, and the column of the subquery that equals it.
pub(crate) struct Key {
    pub(crate) outer: Expr,
    column: u32,
    /// Type of the column.
    pub(crate) own: TypeId,
    /// The test by which rows with other keys than those asked for are left out, if this is the key.
    pub(crate) asked: Option<Arc<AskedKeys>>,
}

impl Lowering<'_> {
    /// The values of a subquery, then its keys, and what the keys are of outer rows. `None` if the subquery depends on outer rows
    /// otherwise than by equalities, or calls a volatile function.
    pub(crate) fn keyed(&self, subplan: &Subplan, columns: &[u32]) -> Result<Option<(LogicalPlan, Vec<Key>)>> {
        let mut keys = Vec::new();
        *self.asked.borrow_mut() = None;
        if self.is_volatile(&subplan.rel) {
            return Ok(None);
        }
        let Some(rel) = self.keyed_rel(&subplan.rel, &mut keys) else { return Ok(None) };
        if keys.is_empty() || !self.free(&rel).is_empty() {
            return Ok(None);
        }
        let plan = match columns {
            // Only whether a key has rows is asked for.
            [] => {
                let keys = keys.iter().map(|key| (key.column, column(key.column, key.own))).collect();
                let (input, aggregates, grouping) = (Box::new(rel), Vec::new(), Vec::new());
                self.rel(&Rel::Aggregate { input, keys, sets: None, aggregates, grouping })?
            }
            _ => self.rel(&rel)?,
        };
        let mut exprs = Vec::with_capacity(columns.len() + keys.len());
        for column in columns.iter().copied().chain(keys.iter().map(|key| key.column)) {
            let (expr, _) = self.column(column, plan.schema())?;
            exprs.push(expr.alias(Self::name(self.add(self.type_of(column)?))));
        }
        let plan = LogicalPlanBuilder::from(plan).project(exprs).and_then(LogicalPlanBuilder::build).or_error()?;
        Ok(Some((plan, keys)))
    }

    /// The test of the key that an expression is, if it is the one that leaves out rows.
    pub(crate) fn asked_keys(&self, key: &Expr) -> Option<Arc<AskedKeys>> {
        let ExprKind::Column(column) = key.kind else { return None };
        self.asked.borrow().as_ref().filter(|(asked, _)| *asked == column).map(|(_, keys)| Arc::clone(keys))
    }

    /// The operator without its equalities with outer rows, and with their keys among its outputs.
    fn keyed_rel(&self, rel: &Rel, keys: &mut Vec<Key>) -> Option<Rel> {
        if self.free(rel).is_empty() {
            return Some(rel.clone());
        }
        match rel {
            Rel::Filter { input, condition } if !self.has_total(input) => {
                let input = self.keyed_rel(input, keys)?;
                self.keyed_filter(input, condition, keys)
            }
            Rel::Join { kind: JoinKind::Inner, left, right, on, lateral: false }
                if !self.has_total(left) && !self.has_total(right) =>
            {
                let (left, right) = (self.keyed_rel(left, keys)?, self.keyed_rel(right, keys)?);
                let (left, right) = (Box::new(left), Box::new(right));
                let join = Rel::Join { kind: JoinKind::Inner, left, right, on: None, lateral: false };
                match on {
                    Some(on) => self.keyed_filter(join, on, keys),
                    None => Some(join),
                }
            }
            Rel::Project { input, columns } => {
                let (input, added) = self.keyed_input(input, keys)?;
                Some(Rel::Project { input, columns: with_keys(columns, added) })
            }
            Rel::Aggregate { input, keys: groups, sets: None, aggregates, grouping } if grouping.is_empty() => {
                let (input, added) = self.keyed_input(input, keys)?;
                let (aggregates, grouping) = (aggregates.clone(), Vec::new());
                Some(Rel::Aggregate { input, keys: with_keys(groups, added), sets: None, aggregates, grouping })
            }
            _ => None,
        }
    }

    /// Whether an operator has a row of totals even for outer rows whose keys no row has. A condition on it may be true for such
    /// keys only, which the rows by key do not tell from keys whose totals fail the condition.
    fn has_total(&self, rel: &Rel) -> bool {
        match rel {
            _ if self.free(rel).is_empty() => false,
            Rel::Aggregate { keys, .. } if keys.is_empty() => true,
            Rel::Aggregate { input, .. } | Rel::Filter { input, .. } | Rel::Project { input, .. } => {
                self.has_total(input)
            }
            Rel::Join { left, right, .. } => self.has_total(left) || self.has_total(right),
            _ => false,
        }
    }

    /// The input of an operator, and its key columns, which the operator has to pass on.
    fn keyed_input(&self, input: &Rel, keys: &mut Vec<Key>) -> Option<(Box<Rel>, Columns)> {
        let from = keys.len();
        let input = Box::new(self.keyed_rel(input, keys)?);
        let added = keys.get(from..)?.iter().map(|key| (key.column, column(key.column, key.own)));
        Some((input, added.collect()))
    }

    /// Selects rows by the closed conditions. The others must be equalities, whose sides within the subquery become keys.
    fn keyed_filter(&self, input: Rel, condition: &Expr, keys: &mut Vec<Key>) -> Option<Rel> {
        let mut outputs = Vec::new();
        input.outputs(&mut outputs);
        let inner: FxHashSet<u32> = outputs.iter().copied().collect();
        let (mut parts, mut kept, mut made) = (Vec::new(), Vec::new(), Vec::new());
        let mut rel = input;
        split(condition, &mut parts);
        for part in parts {
            if self.outer_uses(part).is_subset(&inner) {
                kept.push(part);
                continue;
            }
            let ExprKind::Call(call, operands) = &part.kind else { return None };
            let [left, right] = operands.as_slice() else { return None };
            if !is_equality_of_keys(call) {
                return None;
            }
            let (left_uses, right_uses) = (self.outer_uses(left), self.outer_uses(right));
            let is_inner = |uses: &FxHashSet<u32>| !uses.is_empty() && uses.is_subset(&inner);
            let (outer, own) = match (is_inner(&left_uses), is_inner(&right_uses)) {
                (true, false) if right_uses.is_disjoint(&inner) => (right, left),
                (false, true) if left_uses.is_disjoint(&inner) => (left, right),
                _ => return None,
            };
            if has_subquery(own) || !is_computed_ahead(outer) {
                return None;
            }
            let mut asked = None;
            let number = match own.kind {
                ExprKind::Column(number) if keys.iter().all(|key| key.column != number) => {
                    if is_integer(own.ty) && self.asked.borrow().is_none() {
                        let test = Arc::new(AskedKeys::default());
                        *self.asked.borrow_mut() = Some((number, Arc::clone(&test)));
                        rel =
                            selected(rel, &Expr::new(ExprKind::IsNotNull(Box::new(own.clone())), TypeId::BOOL, own.at));
                        asked = Some(test);
                    }
                    number
                }
                _ => {
                    let number = self.add(own.ty);
                    made.push((number, own.clone()));
                    number
                }
            };
            keys.push(Key { outer: outer.clone(), column: number, own: own.ty, asked });
        }
        if let Some(condition) = all_of(&kept) {
            rel = Rel::Filter { input: Box::new(rel), condition };
        }
        if !made.is_empty() {
            let passed = outputs.iter().map(|number| Some((*number, column(*number, self.type_of(*number).ok()?))));
            let columns = passed.collect::<Option<Vec<_>>>()?.into_iter().chain(made).collect();
            rel = Rel::Project { input: Box::new(rel), columns };
        }
        Some(rel)
    }
}

/// The columns of an operator, and the keys that are not among them.
fn with_keys(columns: &[(u32, Expr)], keys: Columns) -> Columns {
    let is_new = |key: &(u32, Expr)| columns.iter().all(|(number, _)| *number != key.0);
    columns.iter().cloned().chain(keys.into_iter().filter(is_new)).collect()
}

/// Whether an expression may be computed for rows whose subquery does not run: it does not fail.
fn is_computed_ahead(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Column(_) => true,
        ExprKind::Relabel(of) => is_computed_ahead(of),
        ExprKind::Call(call, operands) => {
            matches!(native(call.function), Some(Native::Cast(_))) && operands.iter().all(is_computed_ahead)
        }
        _ => false,
    }
}

fn column(number: u32, ty: TypeId) -> Expr {
    Expr::new(ExprKind::Column(number), ty, Place::default())
}

fn has_subquery(expr: &Expr) -> bool {
    let mut found = false;
    expr.visit(&mut |part| found |= matches!(part.kind, ExprKind::Subquery(_)));
    found
}
