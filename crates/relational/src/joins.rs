//! Lowers joins.

use binder::tree::{JoinKind, Rel};
use datafusion::common::JoinType;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use model::{Error, Result};
use scalar::{Expr, ExprKind};

use crate::errors::internal;
use crate::lowering::Lowering;

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
        let (left, right) = (self.rel(left)?, self.rel(right)?);
        let has_subquery = |on: &Expr| {
            let mut found = false;
            on.visit(&mut |part| found |= matches!(part.kind, ExprKind::Subquery(_)));
            found
        };
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
            return plan.and_then(LogicalPlanBuilder::build).map_err(internal);
        };
        if has_subquery(condition) {
            if kind != JoinKind::Inner {
                return Err(Error::unsupported("a subquery in the condition of an outer join is not supported here"));
            }
            let plan = LogicalPlanBuilder::from(left).cross_join(right).and_then(LogicalPlanBuilder::build);
            return self.filter(plan.map_err(internal)?, condition);
        }
        let schema = left.schema().join(right.schema()).map_err(internal)?;
        let conditions = self.conditions(condition, &schema)?;
        let plan = LogicalPlanBuilder::from(left).join_on(right, ty, conditions);
        plan.and_then(LogicalPlanBuilder::build).map_err(internal)
    }

    /// A join of each row of the left input with the nearest row of the right one.
    pub(crate) fn as_of_join(
        &self,
        left_outer: bool,
        left: &Rel,
        right: &Rel,
        on: Option<&Expr>,
        matching: &Expr,
    ) -> Result<LogicalPlan> {
        let (left, right) = (self.rel(left)?, self.rel(right)?);
        let schema = left.schema().join(right.schema()).map_err(internal)?;
        let mut conditions = match on {
            Some(on) => self.conditions(on, &schema)?,
            None => Vec::new(),
        };
        let nearest = self.native(matching, &schema)?.and_then(|(comparison, _)| self.env.nearest(comparison));
        conditions.push(nearest.ok_or_else(|| Error::unsupported("ASOF JOIN by values of these types"))?);
        let ty = if left_outer { JoinType::Left } else { JoinType::Inner };
        let plan = LogicalPlanBuilder::from(left).join_on(right, ty, conditions);
        plan.and_then(LogicalPlanBuilder::build).map_err(internal)
    }
}
