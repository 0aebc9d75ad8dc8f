//! Makes physical operators of the nodes.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result as DfResult;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};

use super::exec::NodeExec;
use super::leading::LeadingExec;
use super::{Node, Operator, aggregate};

/// Makes physical operators of this crate's nodes; part of the query planner.
#[derive(Debug)]
pub(crate) struct Planner;

#[async_trait]
impl ExtensionPlanner for Planner {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        planning: &PhysicalPlanningContext,
    ) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
        let Some(node) = node.as_any().downcast_ref::<Node>() else { return Ok(None) };
        let [logical, ..] = logical_inputs else { return Ok(None) };
        let [physical, ..] = physical_inputs else { return Ok(None) };
        if let Operator::Aggregate(groups) = &*node.operator {
            let expressions = (node.expressions.as_slice(), *groups);
            return aggregate::plan(planner, expressions, logical, physical, session, planning).map(Some);
        }
        let expressions = node.expressions.iter();
        let expressions =
            expressions.map(|expr| planner.create_physical_expr(expr, logical.schema(), session, planning));
        let expressions = expressions.collect::<DfResult<_>>()?;
        if let Operator::Leading(leading) = &*node.operator {
            return Ok(Some(Arc::new(LeadingExec::new(leading.clone(), expressions, Arc::clone(physical)))));
        }
        let orderings = physical_inputs.iter().map(|input| input.properties().output_ordering().cloned());
        Ok(Some(Arc::new(NodeExec::new(
            Arc::clone(&node.operator),
            expressions,
            physical_inputs.to_vec(),
            node.keeps,
            Arc::clone(node.schema.inner()),
            orderings.collect(),
        ))))
    }
}
