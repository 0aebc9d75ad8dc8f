//! Lowers joins.

use binder::tree::{JoinKind, Rel};
use datafusion::common::JoinType;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use model::{Error, Result};
use scalar::{Expr, ExprKind};

use crate::errors::OrError;
use crate::functions;
use crate::lower::lowering::Lowering;
use crate::lower::subqueries::replace;

impl Lowering<'_> {
    /// A join of two inputs.
    pub(crate) fn join(
        &self,
        kind: JoinKind,
        left: &Rel,
        right: &Rel,
        on: Option<&Expr>,
        lateral: bool,
    ) -> Result<LogicalPlan> {
        if lateral {
            let outer = match kind {
                JoinKind::Inner => false,
                JoinKind::Left => true,
                JoinKind::Right | JoinKind::Full => return Err(Error::bug("a lateral join that keeps its right side")),
            };
            if let Rel::Functions { functions, ordinality } = right
                && (on.is_none() || !outer)
            {
                let input = self.rel(left)?;
                let plan = self.functions_over(input, functions, *ordinality, outer)?;
                return match on {
                    Some(condition) => self.filter(plan, condition),
                    None => Ok(plan),
                };
            }
            return self.lateral(left, right, on, outer);
        }
        if let Some(condition) = on.filter(|on| has_subquery(on)) {
            return self.join_by_subqueries(kind, left, right, condition);
        }
        let (left, right) = (self.rel(left)?, self.rel(right)?);
        let ty = match kind {
            JoinKind::Inner => JoinType::Inner,
            JoinKind::Left => JoinType::Left,
            JoinKind::Right => JoinType::Right,
            JoinKind::Full => JoinType::Full,
        };
        let Some(condition) = on else {
            let builder = LogicalPlanBuilder::from(left);
            let plan = match kind {
                JoinKind::Inner => builder.cross_join(right),
                _ => builder.join_on(right, ty, [datafusion::logical_expr::lit(true)]),
            };
            return plan.and_then(LogicalPlanBuilder::build).or_error();
        };
        self.joined(ty, left, right, condition)
    }

    fn joined(&self, ty: JoinType, left: LogicalPlan, right: LogicalPlan, condition: &Expr) -> Result<LogicalPlan> {
        let schema = left.schema().join(right.schema()).or_error()?;
        let conditions = self.conditions(condition, &schema)?;
        let plan = LogicalPlanBuilder::from(left).join_on(right, ty, conditions);
        plan.and_then(LogicalPlanBuilder::build).or_error()
    }

    /// A join whose condition has subqueries. Those of an outer join become columns of the side whose rows they refer to;
    /// where one refers to both sides, the other side is computed for each row of the side that is kept.
    fn join_by_subqueries(&self, kind: JoinKind, left: &Rel, right: &Rel, condition: &Expr) -> Result<LogicalPlan> {
        if kind == JoinKind::Inner {
            let (left, right) = (self.rel(left)?, self.rel(right)?);
            let plan = LogicalPlanBuilder::from(left).cross_join(right).and_then(LogicalPlanBuilder::build);
            return self.filter(plan.or_error()?, condition);
        }
        let (mut left_columns, mut right_columns) = (Vec::new(), Vec::new());
        left.outputs(&mut left_columns);
        right.outputs(&mut right_columns);
        let mut refers_to_both = false;
        condition.visit(&mut |part| {
            if matches!(part.kind, ExprKind::Subquery(_)) {
                let used = self.outer_uses(part);
                let refers_to = |columns: &[u32]| columns.iter().any(|column| used.contains(column));
                refers_to_both |= refers_to(&left_columns) && refers_to(&right_columns);
            }
        });
        let ty = match (kind, refers_to_both) {
            (JoinKind::Left, true) => return self.lateral(left, right, Some(condition), true),
            (JoinKind::Right, true) => return self.lateral(right, left, Some(condition), true),
            (_, true) => {
                let text =
                    "a subquery that refers to both sides of a full join, in its condition, is not supported here";
                return Err(Error::unsupported(text));
            }
            (JoinKind::Left, _) => JoinType::Left,
            (JoinKind::Right, _) => JoinType::Right,
            (JoinKind::Inner | JoinKind::Full, _) => JoinType::Full,
        };
        let (mut left, mut right, mut condition) = (self.rel(left)?, self.rel(right)?, condition.clone());
        while let Some((subquery, ty, used)) = self.innermost_with_uses(&condition) {
            let is_of_right = right_columns.iter().any(|column| used.contains(column));
            let side = if is_of_right { &mut right } else { &mut left };
            let (larger, column) = self.apply(side.clone(), &subquery, ty)?;
            *side = larger;
            replace(&mut condition, &subquery, column);
        }
        self.joined(ty, left, right, &condition)
    }

    /// A join of each row of the left input with the nearest row of the right one.
    pub(crate) fn as_of_join(
        &self,
        kind: JoinKind,
        left: &Rel,
        right: &Rel,
        on: Option<&Expr>,
        matching: &Expr,
    ) -> Result<LogicalPlan> {
        let (left, right) = (self.rel(left)?, self.rel(right)?);
        let schema = left.schema().join(right.schema()).or_error()?;
        let mut conditions = match on {
            Some(on) => self.conditions(on, &schema)?,
            None => Vec::new(),
        };
        let nearest = self.native(matching, &schema)?.and_then(|(comparison, _)| functions::nearest(comparison));
        conditions.push(nearest.ok_or_else(|| Error::unsupported("ASOF JOIN by values of these types"))?);
        let ty = match kind {
            JoinKind::Inner => JoinType::Inner,
            JoinKind::Left => JoinType::Left,
            JoinKind::Right => JoinType::Right,
            JoinKind::Full => JoinType::Full,
        };
        let plan = LogicalPlanBuilder::from(left).join_on(right, ty, conditions);
        plan.and_then(LogicalPlanBuilder::build).or_error()
    }
}

fn has_subquery(on: &Expr) -> bool {
    let mut found = false;
    on.visit(&mut |part| found |= matches!(part.kind, ExprKind::Subquery(_)));
    found
}
