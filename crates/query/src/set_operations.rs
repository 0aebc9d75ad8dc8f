//! `EXCEPT ALL` and `INTERSECT ALL` with SQL's row counts.
//!
//! DataFusion plans both as semi and anti joins over all columns, which keep every row of the left side or
//! none: three equal rows minus one give none, where SQL gives two. This rewrite numbers the equal rows of
//! each side and adds the number to the join keys: the first of the left side matches the first of the right
//! side, and so on.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{Expr, ExprFunctionExt, Join, LogicalPlan, LogicalPlanBuilder};

/// Qualifies the right side, whose column names may equal those of the left side.
const RIGHT: &str = "\u{1}right";

/// Numbers the input rows of `EXCEPT ALL` and `INTERSECT ALL`. Call it on the plan before analysis.
pub(crate) fn rewrite_plan(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Join(join) if counts(&join) => Ok(Transformed::yes(numbered(join)?)),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(rewritten.data)
}

/// Before optimization, only set operations join on all columns with NULLs that are equal. Those without ALL
/// join distinct rows, which need no numbers.
fn counts(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
        && join.on.len() == join.left.schema().fields().len()
        && !matches!(join.left.as_ref(), LogicalPlan::Distinct(_))
}

fn numbered(join: Join) -> Result<LogicalPlan> {
    let shown: Vec<Expr> = join.left.schema().columns().into_iter().map(Expr::Column).collect();
    let left = with_numbers(join.left)?.build()?;
    let right = with_numbers(join.right)?.alias(RIGHT)?.build()?;
    let columns = |plan: &LogicalPlan| plan.schema().columns().into_iter().map(Expr::Column);
    let on = columns(&left).zip(columns(&right)).collect();
    let joined = Join::try_new(
        Arc::new(left),
        Arc::new(right),
        on,
        None,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        false,
    )?;
    LogicalPlanBuilder::from(LogicalPlan::Join(joined)).project(shown)?.build()
}

fn with_numbers(side: Arc<LogicalPlan>) -> Result<LogicalPlanBuilder> {
    let columns = side.schema().columns().into_iter().map(Expr::Column).collect();
    let number = row_number().partition_by(columns).build()?;
    LogicalPlanBuilder::from(side).window([number])
}
