//! Lowers subqueries in expressions. EXISTS and IN in WHERE become semi-joins if their conditions can be moved into the
//! join; every other subquery becomes a column that [`Apply`] computes for each row.

use std::sync::Arc;

use binder::tree::{CteBody, JoinKind, Rel, Subplan};
use catalog::{TypeId, Volatility};
use datafusion::common::{DFSchema, JoinType};
use datafusion::logical_expr::{Expr as DfExpr, LogicalPlan, LogicalPlanBuilder};
use model::{Error, Result};
use rustc_hash::FxHashSet;
use scalar::{Expr, ExprKind, Subquery, SubqueryKind};

use crate::arrow::arrow_type;
use crate::errors::OrError;
use crate::evaluation::evaluate::stability;
use crate::evaluation::natives::is_equality_of_keys;
use crate::lower::expressions::{all_of, columns_of, split};
use crate::lower::keyed::Key;
use crate::lower::lowering::Lowering;
use crate::nodes::apply::{Apply, Kind, Quantified};
use crate::nodes::{Node, Operator};

impl Lowering<'_> {
    fn subplan(&self, subquery: &Subquery) -> Result<&Subplan> {
        let found = self.query.subqueries.get(subquery.query as usize);
        found.ok_or_else(|| Error::bug(format!("no subquery {}", subquery.query)))
    }

    /// Replaces the subqueries of expressions by columns that a larger plan computes.
    pub(crate) fn without_subqueries(
        &self,
        mut plan: LogicalPlan,
        mut exprs: Vec<Expr>,
    ) -> Result<(LogicalPlan, Vec<Expr>)> {
        while let Some((subquery, ty)) = exprs.iter().find_map(innermost) {
            let guard = guard_of(&exprs, &subquery);
            let (larger, column) = self.apply_if(plan, &subquery, ty, guard)?;
            plan = larger;
            exprs.iter_mut().for_each(|expr| replace(expr, &subquery, column));
        }
        Ok((plan, exprs))
    }

    /// A plan with one more column, the value of a subquery for each row; and the number of that column.
    pub(crate) fn apply(&self, input: LogicalPlan, subquery: &Subquery, ty: TypeId) -> Result<(LogicalPlan, u32)> {
        self.apply_if(input, subquery, ty, None)
    }

    /// Like [`Lowering::apply`]; the subquery does not run for rows in which the column `guard` is not true.
    fn apply_if(
        &self,
        input: LogicalPlan,
        subquery: &Subquery,
        ty: TypeId,
        guard: Option<u32>,
    ) -> Result<(LogicalPlan, u32)> {
        let subplan = self.subplan(subquery)?;
        let types: Vec<TypeId> = subplan.columns.iter().map(|column| self.type_of(*column)).collect::<Result<_>>()?;
        let lower = || {
            let plan = self.rel(&subplan.rel)?;
            let mut columns = Vec::with_capacity(subplan.columns.len());
            for (column, ty) in subplan.columns.iter().zip(&types) {
                let (expr, _) = self.column(*column, plan.schema())?;
                columns.push(expr.alias(Self::name(self.add(*ty))));
            }
            let rows = match &subquery.kind {
                SubqueryKind::Exists => {
                    return LogicalPlanBuilder::from(plan)
                        .limit(0, Some(1))
                        .and_then(LogicalPlanBuilder::build)
                        .or_error();
                }
                // A second row is an error, whatever follows.
                SubqueryKind::Scalar => Some(2),
                _ => None,
            };
            let mut plan = LogicalPlanBuilder::from(plan).project(columns).or_error()?;
            if rows.is_some() {
                plan = plan.limit(0, rows).or_error()?;
            }
            plan.build().or_error()
        };
        let (query, row, used) = self.within(input.schema(), lower)?;
        let mut exprs = self.outer_columns(&used, input.schema())?;
        let kind = match &subquery.kind {
            SubqueryKind::Scalar => Kind::Scalar,
            SubqueryKind::Exists => Kind::Exists,
            SubqueryKind::Array => {
                let element = catalog::builtin().element_of(ty);
                match element {
                    Some(element) if types.first() == Some(&element) => Kind::Array(element.0),
                    _ => return Err(Error::unsupported("an array of arrays from a subquery is not supported here")),
                }
            }
            SubqueryKind::Quantified { all, left, calls, any_column, order } => {
                for operand in left {
                    let mut is_open = false;
                    operand.visit(&mut |part| is_open |= matches!(part.kind, ExprKind::Placeholder));
                    if is_open {
                        return Err(Error::unsupported("a subquery over the operand of CASE is not supported here"));
                    }
                    exprs.push(self.expr(operand, input.schema())?.0);
                }
                for call in calls {
                    if !scalar::has_function(call.function, &self.session) {
                        return Err(Error::unsupported(
                            "a comparison with a subquery is not supported for these types",
                        ));
                    }
                }
                let is_opposite = |call: &scalar::Call| {
                    let operator = call.operator.and_then(|operator| catalog::builtin().operator_row(operator));
                    let negator = operator.and_then(|operator| operator.negator);
                    is_equality_of_keys(&scalar::Call { operator: negator, ..call.clone() })
                };
                let is_keyed = match calls.as_slice() {
                    [call] if *all => is_opposite(call),
                    [call] => is_equality_of_keys(call),
                    _ => false,
                };
                Kind::Quantified(Quantified {
                    all: *all,
                    left: left.iter().map(|operand| operand.ty).collect(),
                    calls: calls.clone(),
                    any_column: *any_column,
                    order: *order,
                    is_keyed: is_keyed && order.is_none(),
                })
            }
        };
        let column = self.add(ty);
        let arrow = arrow_type(ty, &self.zone);
        let field = Arc::new(arrow_schema::Field::new(Self::name(column), arrow.clone(), true));
        exprs.extend(self.outer_columns(guard.as_slice(), input.schema())?);
        let mut apply = Apply { is_guarded: guard.is_some(), ..self.apply_operator(row, &used, kind, ty, types)? };
        let keyed = if used.is_empty() { None } else { self.keyed_rows(subplan, &apply.kind) };
        let mut inputs = vec![input, query];
        if let Some((rows, keys)) = keyed {
            for (at, key) in keys.into_iter().enumerate() {
                exprs.push(self.expr(&key.outer, inputs[0].schema())?.0);
                apply.keys.push([key.outer.ty, key.own]);
                apply.asked = apply.asked.or_else(|| Some((at, key.asked?)));
            }
            inputs.push(rows);
        }
        let plan = Node::plan(Operator::Apply(apply), exprs, inputs, true, vec![(None, field)]);
        self.computed(column, arrow);
        Ok((plan.or_error()?, column))
    }

    fn apply_operator(
        &self,
        row: Arc<crate::evaluation::keys::OuterRow>,
        used: &[u32],
        kind: Kind,
        ty: TypeId,
        columns: Vec<TypeId>,
    ) -> Result<Apply> {
        let outer = used.iter().map(|column| self.type_of(*column)).collect::<Result<_>>()?;
        let (session, zone) = (Arc::clone(&self.session), Arc::clone(&self.zone));
        Ok(Apply { row, outer, kind, is_guarded: false, keys: Vec::new(), asked: None, ty, columns, session, zone })
    }

    /// The rows of a subquery for all outer rows, if they can be had and serve. Within these, subqueries run for single rows only:
    /// each level would double the work of those within it.
    fn keyed_rows(&self, subplan: &Subplan, kind: &Kind) -> Option<(LogicalPlan, Vec<Key>)> {
        let columns: &[u32] = match kind {
            Kind::Scalar => &subplan.columns,
            Kind::Exists => &[],
            _ => return None,
        };
        if self.is_keying.replace(true) {
            return None;
        }
        // A subquery that cannot be lowered in this way runs for single rows only.
        let keyed = self.keyed(subplan, columns).ok().flatten();
        self.is_keying.set(false);
        *self.asked.borrow_mut() = None;
        keyed
    }

    fn outer_columns(&self, used: &[u32], schema: &DFSchema) -> Result<Vec<DfExpr>> {
        used.iter().map(|column| Ok(self.column(*column, schema)?.0)).collect()
    }

    /// A join whose right side is computed for each row of the left one.
    pub(crate) fn lateral(&self, left: &Rel, right: &Rel, on: Option<&Expr>, outer: bool) -> Result<LogicalPlan> {
        let input = self.rel(left)?;
        let lower = || {
            let plan = self.rel(right)?;
            match on {
                Some(condition) => self.filter(plan, condition),
                None => Ok(plan),
            }
        };
        let (query, row, used) = self.within(input.schema(), lower)?;
        let made = query.schema().iter().map(|(relation, field)| {
            let field = field.as_ref().clone().with_nullable(true);
            (relation.cloned(), Arc::new(field))
        });
        let made = made.collect();
        let exprs = self.outer_columns(&used, input.schema())?;
        let apply = self.apply_operator(row, &used, Kind::Rows { outer }, TypeId::BOOL, Vec::new())?;
        Node::plan(Operator::Apply(apply), exprs, vec![input, query], true, made).or_error()
    }

    /// Moves EXISTS, NOT EXISTS and IN out of a condition into joins, and gives the rest of the condition.
    pub(crate) fn semi_joins(&self, mut input: LogicalPlan, condition: &Expr) -> Result<(LogicalPlan, Option<Expr>)> {
        let mut parts = Vec::new();
        split(condition, &mut parts);
        let mut rest = Vec::new();
        for part in parts {
            match self.semi_join(&input, part)? {
                Some(joined) => input = joined,
                None => rest.push(part.clone()),
            }
        }
        let rest = match rest.len() {
            0 => None,
            1 => rest.pop(),
            _ => Some(Expr::new(ExprKind::And(rest), TypeId::BOOL, condition.at)),
        };
        Ok((input, rest))
    }

    /// Moves `column IN (subquery)` below the joins of an input, to the table of the column, where it leaves fewer rows to join.
    /// Returns the input and the other conditions; `None` if nothing is moved.
    pub(crate) fn before_joins(&self, input: &Rel, condition: &Expr) -> Option<(Rel, Option<Expr>)> {
        let Rel::Join { kind: JoinKind::Inner, left, right, lateral: false, .. } = input else { return None };
        let mut parts = Vec::new();
        split(condition, &mut parts);
        let is_moved = |part: &&Expr| self.is_membership(part) && (has_columns(left, part) || has_columns(right, part));
        let (moved, rest): (Vec<&Expr>, Vec<&Expr>) = parts.into_iter().partition(is_moved);
        if moved.is_empty() {
            return None;
        }
        Some((moved.into_iter().fold(input.clone(), selected), all_of(&rest)))
    }

    /// Whether a condition is `column IN (subquery)`, or one of several columns, of a subquery without outer rows.
    fn is_membership(&self, part: &Expr) -> bool {
        let ExprKind::Subquery(subquery) = &part.kind else { return false };
        let SubqueryKind::Quantified { all: false, left, calls, any_column: false, order: None } = &subquery.kind
        else {
            return false;
        };
        let is_closed = || self.subplan(subquery).is_ok_and(|subplan| self.free(&subplan.rel).is_empty());
        let are_columns = left.iter().all(|operand| matches!(operand.kind, ExprKind::Column(_)));
        are_columns && calls.iter().all(is_equality_of_keys) && stability(part) != Volatility::Volatile && is_closed()
    }

    fn semi_join(&self, input: &LogicalPlan, part: &Expr) -> Result<Option<LogicalPlan>> {
        let (subquery, kind) = match &part.kind {
            ExprKind::Subquery(subquery) => (subquery, JoinType::LeftSemi),
            ExprKind::Not(of) => match &of.kind {
                ExprKind::Subquery(subquery) if subquery.kind == SubqueryKind::Exists => (subquery, JoinType::LeftAnti),
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        let subplan = self.subplan(subquery)?;
        let mut conditions = Vec::new();
        let mut rel = &subplan.rel;
        let (left, calls): (&[Expr], &[scalar::Call]) = match &subquery.kind {
            SubqueryKind::Exists => (&[], &[]),
            SubqueryKind::Quantified { all: false, left, calls, any_column: false, order: None } => (left, calls),
            _ => return Ok(None),
        };
        if left.iter().any(|operand| innermost(operand).is_some()) || !calls.iter().all(is_equality_of_keys) {
            return Ok(None);
        }
        let mut outputs: Vec<Expr> = Vec::new();
        for column in subplan.columns.iter().take(left.len()) {
            outputs.push(Expr::new(ExprKind::Column(*column), self.type_of(*column)?, part.at));
        }
        // Order and computed columns do not matter, except those that are compared.
        loop {
            match rel {
                Rel::Sort { input, .. } => rel = input,
                Rel::Project { input, columns } => {
                    if columns.iter().any(|(_, expr)| innermost(expr).is_some()) {
                        return Ok(None);
                    }
                    for output in &mut outputs {
                        replace_columns(output, columns);
                    }
                    rel = input;
                }
                _ => break,
            }
        }
        let Some(right) = self.pulled(rel, &mut conditions)? else { return Ok(None) };
        for ((left, call), output) in left.iter().zip(calls).zip(outputs) {
            let kind = ExprKind::Call(Box::new(call.clone()), vec![left.clone(), output]);
            conditions.push(Expr::new(kind, TypeId::BOOL, part.at));
        }
        if conditions.is_empty() {
            return Ok(None);
        }
        let schema = input.schema().join(right.schema()).or_error()?;
        let all = Expr::new(ExprKind::And(conditions), TypeId::BOOL, part.at);
        let on = self.conditions(&all, &schema)?;
        let plan = LogicalPlanBuilder::from(input.clone()).join_on(right, kind, on);
        plan.and_then(LogicalPlanBuilder::build).map(Some).or_error()
    }

    /// Lowers an operator without its conditions on outer rows, which are appended; `None` if they cannot be moved.
    fn pulled(&self, rel: &Rel, conditions: &mut Vec<Expr>) -> Result<Option<LogicalPlan>> {
        match rel {
            Rel::Filter { input, condition } => {
                let Some(plan) = self.pulled(input, conditions)? else { return Ok(None) };
                self.kept(rel, plan, condition, conditions)
            }
            Rel::Join { kind: JoinKind::Inner, left, right, on, lateral: false } => {
                let (Some(left), Some(right)) = (self.pulled(left, conditions)?, self.pulled(right, conditions)?)
                else {
                    return Ok(None);
                };
                let plan = LogicalPlanBuilder::from(left).cross_join(right).and_then(LogicalPlanBuilder::build);
                let plan = plan.or_error()?;
                match on {
                    Some(on) => self.kept(rel, plan, on, conditions),
                    None => Ok(Some(plan)),
                }
            }
            rel if self.free(rel).is_empty() => self.rel(rel).map(Some),
            _ => Ok(None),
        }
    }

    /// Filters by the conditions without outer rows, and moves the others.
    fn kept(
        &self,
        rel: &Rel,
        plan: LogicalPlan,
        condition: &Expr,
        moved: &mut Vec<Expr>,
    ) -> Result<Option<LogicalPlan>> {
        let mut outputs = Vec::new();
        rel.outputs(&mut outputs);
        let mut parts = Vec::new();
        split(condition, &mut parts);
        let mut kept = Vec::new();
        for part in parts {
            let mut uses = Uses::default();
            self.collect(part, &mut uses);
            let is_closed = uses.used.iter().all(|column| outputs.contains(column) || uses.defined.contains(column));
            if is_closed {
                kept.push(part.clone());
            } else if innermost(part).is_some() {
                return Ok(None);
            } else {
                moved.push(part.clone());
            }
        }
        if kept.is_empty() {
            return Ok(Some(plan));
        }
        self.filter(plan, &Expr::new(ExprKind::And(kept), TypeId::BOOL, condition.at)).map(Some)
    }

    /// Columns that an operator uses and does not make: those of outer rows.
    pub(crate) fn free(&self, rel: &Rel) -> FxHashSet<u32> {
        let mut uses = Uses::default();
        self.collect_rel(rel, &mut uses);
        uses.used.difference(&uses.defined).copied().collect()
    }

    /// Columns that an expression uses, of the rows around its subqueries too.
    pub(crate) fn outer_uses(&self, expr: &Expr) -> FxHashSet<u32> {
        let mut uses = Uses::default();
        self.collect(expr, &mut uses);
        uses.used.difference(&uses.defined).copied().collect()
    }

    /// A subquery in an expression that has none in its operands, its type, and the columns that it uses.
    pub(crate) fn innermost_with_uses(&self, expr: &Expr) -> Option<(Subquery, TypeId, FxHashSet<u32>)> {
        let (subquery, ty) = innermost(expr)?;
        let mut used = FxHashSet::default();
        expr.visit(&mut |part| {
            if matches!(&part.kind, ExprKind::Subquery(one) if **one == subquery) {
                used = self.outer_uses(part);
            }
        });
        Some((subquery, ty, used))
    }

    /// Whether a query of WITH calls a volatile function, itself or through others that it reads.
    pub(crate) fn is_volatile_cte(&self, number: usize) -> bool {
        if let Some(known) = self.volatile_ctes.borrow().get(&number) {
            return *known;
        }
        // A recursive query reads itself.
        self.volatile_ctes.borrow_mut().insert(number, false);
        let is_volatile = match self.query.ctes.get(number).map(|cte| &cte.body) {
            Some(CteBody::Plain(rel)) => self.is_volatile(rel),
            _ => false,
        };
        self.volatile_ctes.borrow_mut().insert(number, is_volatile);
        is_volatile
    }

    /// Whether an operator calls a volatile function, itself or through queries of WITH that it reads.
    pub(crate) fn is_volatile(&self, rel: &Rel) -> bool {
        let mut uses = Uses { ctes: Some(FxHashSet::default()), ..Uses::default() };
        self.collect_rel(rel, &mut uses);
        uses.is_volatile || uses.ctes.into_iter().flatten().any(|cte| self.is_volatile_cte(cte))
    }

    fn collect(&self, expr: &Expr, uses: &mut Uses) {
        uses.is_volatile |= stability(expr) == Volatility::Volatile;
        expr.visit(&mut |part| match &part.kind {
            ExprKind::Column(column) => {
                uses.used.insert(*column);
            }
            ExprKind::Subquery(subquery) => {
                if let Some(subplan) = self.query.subqueries.get(subquery.query as usize) {
                    self.collect_rel(&subplan.rel, uses);
                    uses.used.extend(&subplan.columns);
                }
            }
            _ => {}
        });
    }

    fn collect_rel(&self, rel: &Rel, uses: &mut Uses) {
        let mut outputs = Vec::new();
        rel.outputs(&mut outputs);
        // Columns that are only passed on are made below.
        let is_passed_on = |exprs: &[(u32, Expr)]| -> Vec<u32> {
            let is_same = |(number, expr): &&(u32, Expr)| matches!(expr.kind, ExprKind::Column(at) if at == *number);
            exprs.iter().filter(is_same).map(|(number, _)| *number).collect()
        };
        let mut passed = Vec::new();
        match rel {
            Rel::Single | Rel::WorkTable { .. } => {}
            Rel::Scan { as_of, .. } => as_of.iter().for_each(|expr| self.collect(expr, uses)),
            Rel::Values { rows, .. } => rows.iter().flatten().for_each(|expr| self.collect(expr, uses)),
            Rel::Functions { functions, .. } => {
                functions.iter().flat_map(|function| &function.arguments).for_each(|expr| self.collect(expr, uses));
            }
            Rel::Cte { cte, .. } if uses.ctes.is_some() => uses.ctes.iter_mut().for_each(|ctes| {
                ctes.insert(*cte);
            }),
            Rel::Cte { cte, .. } => match self.query.ctes.get(*cte).map(|cte| &cte.body) {
                Some(CteBody::Plain(rel)) => self.collect_rel(rel, uses),
                Some(CteBody::Recursive { base, step, .. }) => {
                    self.collect_rel(&base.rel, uses);
                    self.collect_rel(&step.rel, uses);
                }
                // Refused when it is lowered.
                Some(CteBody::Change(_)) | None => {}
            },
            Rel::Lock { input, .. } => self.collect_rel(input, uses),
            Rel::Project { input, columns } => {
                self.collect_rel(input, uses);
                passed = is_passed_on(columns);
                columns.iter().for_each(|(_, expr)| self.collect(expr, uses));
            }
            Rel::ProjectSet { input, sets } => {
                self.collect_rel(input, uses);
                sets.iter().flat_map(|(_, _, arguments)| arguments).for_each(|expr| self.collect(expr, uses));
            }
            Rel::Filter { input, condition } => {
                self.collect_rel(input, uses);
                self.collect(condition, uses);
            }
            Rel::Join { left, right, on, .. } => {
                self.collect_rel(left, uses);
                self.collect_rel(right, uses);
                on.iter().for_each(|expr| self.collect(expr, uses));
            }
            Rel::AsOfJoin { left, right, on, matching, .. } => {
                self.collect_rel(left, uses);
                self.collect_rel(right, uses);
                on.iter().chain([matching]).for_each(|expr| self.collect(expr, uses));
            }
            Rel::Aggregate { input, keys, aggregates, .. } => {
                self.collect_rel(input, uses);
                passed = is_passed_on(keys);
                keys.iter().for_each(|(_, expr)| self.collect(expr, uses));
                for (_, call) in aggregates {
                    let exprs = call.arguments.iter().chain(&call.filter);
                    exprs.chain(call.order_by.iter().map(|key| &key.expr)).for_each(|expr| self.collect(expr, uses));
                }
            }
            Rel::Window { input, calls } => {
                self.collect_rel(input, uses);
                for (_, call) in calls {
                    let exprs = call.arguments.iter().chain(&call.filter).chain(&call.partition_by);
                    exprs.chain(call.order_by.iter().map(|key| &key.expr)).for_each(|expr| self.collect(expr, uses));
                }
            }
            Rel::Distinct { input, columns } => {
                self.collect_rel(input, uses);
                uses.used.extend(columns);
            }
            Rel::Sort { input, keys } => {
                self.collect_rel(input, uses);
                keys.iter().for_each(|key| self.collect(&key.expr, uses));
            }
            Rel::Limit { input, limit, offset, .. } => {
                self.collect_rel(input, uses);
                limit.iter().chain(offset).for_each(|expr| self.collect(expr, uses));
            }
            Rel::SetOperation { left, right, .. } => {
                self.collect_rel(&left.rel, uses);
                self.collect_rel(&right.rel, uses);
                uses.used.extend(left.columns.iter().chain(&right.columns));
            }
        }
        uses.defined.extend(outputs.into_iter().filter(|column| !passed.contains(column)));
    }
}

/// Columns that are used, and columns that are made.
#[derive(Default)]
struct Uses {
    used: FxHashSet<u32>,
    defined: FxHashSet<u32>,
    is_volatile: bool,
    /// Queries of WITH that are read; `None` if the walk enters them.
    ctes: Option<FxHashSet<usize>>,
}

/// A subquery in an expression that has none in its operands, and its type.
fn innermost(expr: &Expr) -> Option<(Subquery, TypeId)> {
    let mut found = None;
    expr.visit(&mut |part| {
        if let ExprKind::Subquery(subquery) = &part.kind {
            // Operands are visited behind their operator.
            found = Some((Subquery::clone(subquery), part.ty));
        }
    });
    found
}

/// Whether an operator has the columns of a condition.
fn has_columns(rel: &Rel, condition: &Expr) -> bool {
    let mut outputs = Vec::new();
    rel.outputs(&mut outputs);
    columns_of(condition).iter().all(|column| outputs.contains(column))
}

/// The rows of an operator that fulfil a condition: of the smallest input of inner joins that has its columns.
pub(crate) fn selected(rel: Rel, condition: &Expr) -> Rel {
    match rel {
        Rel::Join { kind: JoinKind::Inner, left, right, on, lateral: false } if has_columns(&left, condition) => {
            let left = Box::new(selected(*left, condition));
            Rel::Join { kind: JoinKind::Inner, left, right, on, lateral: false }
        }
        Rel::Join { kind: JoinKind::Inner, left, right, on, lateral: false } if has_columns(&right, condition) => {
            let right = Box::new(selected(*right, condition));
            Rel::Join { kind: JoinKind::Inner, left, right, on, lateral: false }
        }
        rel => Rel::Filter { input: Box::new(rel), condition: condition.clone() },
    }
}

/// A column without which the values of a subquery are not used: all its uses are results of `CASE WHEN column THEN`.
fn guard_of(exprs: &[Expr], subquery: &Subquery) -> Option<u32> {
    let uses = |expr: &Expr| {
        let mut count = 0;
        expr.visit(&mut |part| {
            count += usize::from(matches!(&part.kind, ExprKind::Subquery(one) if **one == *subquery))
        });
        count
    };
    let mut guard = None;
    for expr in exprs.iter().filter(|expr| uses(expr) > 0) {
        let inner = if let ExprKind::ViaText(inner) = &expr.kind { &**inner } else { expr };
        let ExprKind::Case { operand: None, branches, .. } = &inner.kind else { return None };
        let (Expr { kind: ExprKind::Column(column), .. }, value) = branches.first()? else { return None };
        if uses(value) < uses(inner) || guard.is_some_and(|other| other != *column) {
            return None;
        }
        guard = Some(*column);
    }
    guard
}

/// Replaces a subquery by the column that has its value.
pub(crate) fn replace(expr: &mut Expr, subquery: &Subquery, column: u32) {
    expr.visit_mut(&mut |part| {
        if matches!(&part.kind, ExprKind::Subquery(one) if **one == *subquery) {
            part.kind = ExprKind::Column(column);
        }
    });
}

/// Replaces the columns of an expression by what a projection computes them of.
fn replace_columns(expr: &mut Expr, columns: &[(u32, Expr)]) {
    if let ExprKind::Column(number) = expr.kind {
        if let Some((_, value)) = columns.iter().find(|(column, _)| *column == number) {
            *expr = value.clone();
        }
        return;
    }
    expr.for_each_operand_mut(&mut |operand| replace_columns(operand, columns));
}
