//! Plans with nodes of our own: where they are put in, and how they are planned.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};

use super::{gap_fill, nearest};

/// Puts the nodes in. Call it on the plan as it comes from SQL, before analysis and optimization.
///
/// # Errors
/// 22023 when the bounds of a gap fill are missing; 42803 for `locf` and `interpolate` elsewhere than above one; 0A000 for grouping
/// sets; 42601 for an `ASOF JOIN` whose condition is none.
pub fn rewrite_plan(plan: LogicalPlan) -> Result<LogicalPlan> {
    nearest::rewrite_plan(gap_fill::rewrite_plan(plan)?)
}

/// Plans what DataFusion plans, and our own nodes.
#[derive(Debug)]
pub struct Planner;

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
        ]);
        planner.create_physical_plan(plan, session).await
    }
}
