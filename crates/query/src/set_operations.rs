//! `EXCEPT ALL` and `INTERSECT ALL` that count.
//!
//! DataFusion plans both as joins of whole rows, which keep every row of the left side or none: of three equal rows less one it leaves
//! none, where SQL leaves two. Here the equal rows of each side are numbered first, and the numbers are part of what is joined:
//! the first of the left side meets the first of the right one, and so on.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{Expr, ExprFunctionExt, Join, LogicalPlan, LogicalPlanBuilder};

/// Qualifies the right side, whose columns may be called as those of the left one.
const RIGHT: &str = "\u{1}right";

/// Numbers the rows of what `EXCEPT ALL` and `INTERSECT ALL` join. To be called on the plan as it comes from SQL.
pub(crate) fn rewrite_plan(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Join(join) if counts(&join) => Ok(Transformed::yes(numbered(join)?)),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(rewritten.data)
}

/// Before optimization only set operations join whole rows with NULLs that are equal. Those without ALL join distinct rows, which need
/// no numbers.
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
