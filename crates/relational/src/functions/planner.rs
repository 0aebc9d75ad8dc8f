//! Planning of Millrace's own plan nodes (gap fill, ASOF JOIN).

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};

use super::{gap_fill, nearest};

/// Puts a node for missing time buckets above groups, if one of their keys asks for them.
///
/// # Errors
/// 22023 when the bounds of the gap fill are missing.
pub(crate) fn gap_filled(groups: LogicalPlan, keys: &[Expr], input: &LogicalPlan) -> Result<LogicalPlan> {
    Ok(gap_fill::above_groups(groups, keys, input)?.data)
}

/// Completes gap fills, and inserts the nodes of `ASOF JOIN`, before analysis and optimization.
///
/// # Errors
/// 42803 for `locf` and `interpolate` that are not directly above a gap fill; 42601 for an `ASOF JOIN` with an invalid
/// condition.
pub(crate) fn with_nodes(plan: LogicalPlan) -> Result<LogicalPlan> {
    nearest::rewrite_plan(gap_fill::complete(plan)?)
}

/// Physical planner for DataFusion's nodes and Millrace's own.
#[derive(Debug)]
pub(crate) struct Planner;

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn datafusion::catalog::Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![
            Arc::new(gap_fill::Planner),
            Arc::new(nearest::Planner),
            Arc::new(crate::nodes::Planner),
        ]);
        planner.create_physical_plan(plan, session).await
    }
}
