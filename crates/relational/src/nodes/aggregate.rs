//! Groups in one phase, for aggregates whose states cannot be merged: every row of a group reaches one accumulator.

use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::Result as DfResult;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_expr::aggregate::{LoweredAggregate, LoweredAggregateBuilder};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_planner::PhysicalPlanner;

use super::exec::NodeExec;
use super::{Groups, Operator};

/// The operator of some keys and aggregates.
pub(super) fn plan(
    planner: &dyn PhysicalPlanner,
    (expressions, groups): (&[Expr], Groups),
    logical: &LogicalPlan,
    input: &Arc<dyn ExecutionPlan>,
    session: &dyn Session,
    planning: &PhysicalPlanningContext,
) -> DfResult<Arc<dyn ExecutionPlan>> {
    let (keys, aggregates) = expressions.split_at(groups.keys.min(expressions.len()));
    let schema = input.schema();
    let group = keys.iter().map(|key| {
        let (expr, name) = match key {
            Expr::Alias(alias) => (alias.expr.as_ref(), alias.name.clone()),
            Expr::Column(column) => (key, column.name.clone()),
            key => (key, key.schema_name().to_string()),
        };
        Ok((planner.create_physical_expr(expr, logical.schema(), session, planning)?, name))
    });
    let group = PhysicalGroupBy::new_single(group.collect::<DfResult<_>>()?);
    let (mut calls, mut filters) = (Vec::new(), Vec::new());
    for expr in aggregates {
        let lowered =
            LoweredAggregateBuilder::new(expr, logical.schema(), &schema, session.execution_props(), planning)
                .build()?;
        let LoweredAggregate { aggregate, filter, .. } = lowered;
        calls.push(aggregate);
        filters.push(filter);
    }
    // Partitions of groups would be read in any order.
    let is_split = !keys.is_empty() && !groups.in_order && session.config().target_partitions() > 1;
    let mode = if is_split { AggregateMode::SinglePartitioned } else { AggregateMode::Single };
    let input = if groups.in_order { ordered(Arc::clone(input)) } else { Arc::clone(input) };
    Ok(Arc::new(AggregateExec::try_new(mode, group, calls, filters, input, schema)?))
}

/// One partition in the order of the input.
fn ordered(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let (schema, ordering) = (input.schema(), input.properties().output_ordering().cloned());
    Arc::new(NodeExec::new(Arc::new(Operator::Ordered), Vec::new(), vec![input], true, schema, vec![ordering]))
}
