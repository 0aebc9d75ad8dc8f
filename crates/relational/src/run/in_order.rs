//! Partitions one after the other: rows of UNION ALL and of a table stay in their order where an operator reads all partitions
//! as one.
//!
//! DataFusion reads the partitions of `CoalescePartitionsExec` in the order in which they are ready. PostgreSQL's users rely
//! on the order of the text (`UNION ALL`, `VALUES`) and of the table, which `array_agg`, windows and LIMIT show. So the rule
//! [`InOrder`] replaces this operator, except where nothing shows the order and waiting would cost: below aggregates, which have
//! an operator between if they depend on it (`nodes::aggregate`), below joins, and above partitions by hash.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::stream::{RecordBatchReceiverStream, RecordBatchStreamAdapter};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties, execute_stream,
};
use futures::StreamExt;

/// Batches that a partition produces before they are read.
const AHEAD_BATCHES: usize = 2;

/// The rows of the first partition of a plan, then those of the next. All partitions start at once, and each one waits when it
/// is [`AHEAD_BATCHES`] ahead.
pub(super) fn rows(plan: &Arc<dyn ExecutionPlan>, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
    let partitions = plan.output_partitioning().partition_count();
    if partitions <= 1 {
        return execute_stream(Arc::clone(plan), task);
    }
    let start = |partition| {
        let mut builder = RecordBatchReceiverStream::builder(plan.schema(), AHEAD_BATCHES);
        let (batches, mut input) = (builder.tx(), plan.execute(partition, Arc::clone(&task))?);
        builder.spawn(async move {
            while let Some(batch) = input.next().await {
                let is_last = batch.is_err();
                if batches.send(batch).await.is_err() || is_last {
                    break;
                }
            }
            Ok(())
        });
        Ok(builder.build())
    };
    let streams: Vec<_> = (0..partitions).map(start).collect::<Result<_>>()?;
    Ok(Box::pin(RecordBatchStreamAdapter::new(plan.schema(), futures::stream::iter(streams).flatten())))
}

/// The physical optimizer rule that keeps the order of partitions. It runs after DataFusion's, which look for their own
/// operator.
#[derive(Debug)]
pub(super) struct InOrder;

impl PhysicalOptimizerRule for InOrder {
    fn name(&self) -> &str {
        "in_order"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan.transform_up(|node| {
            if hides_order(&node) {
                return Ok(Transformed::no(node));
            }
            node.map_children(replaced)
        })?;
        Ok(replaced(plan.data)?.data)
    }
}

/// Whether no row of an operator tells the order of its inputs.
fn hides_order(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.downcast_ref::<AggregateExec>().is_some() || node.name().contains("Join")
}

/// Reads the partitions in order, if the operator reads them in any order and they have one.
fn replaced(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(coalesce) = node.downcast_ref::<CoalescePartitionsExec>() else { return Ok(Transformed::no(node)) };
    let input = coalesce.input();
    if matches!(input.output_partitioning(), Partitioning::Hash(..)) {
        return Ok(Transformed::no(node));
    }
    let in_order: Arc<dyn ExecutionPlan> =
        Arc::new(InOrderExec { input: Arc::clone(input), properties: Arc::clone(coalesce.properties()) });
    Ok(Transformed::yes(match coalesce.fetch() {
        Some(fetch) => Arc::new(GlobalLimitExec::new(in_order, 0, Some(fetch))),
        None => in_order,
    }))
}

/// All partitions of the input as one, in their order.
#[derive(Debug)]
struct InOrderExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl DisplayAs for InOrderExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PartitionsInOrderExec")
    }
}

impl ExecutionPlan for InOrderExec {
    fn name(&self) -> &str {
        "PartitionsInOrderExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        // Facts about the rows stay: no rule that runs later changes more than conditions.
        let properties = Arc::clone(&self.properties);
        Ok(Arc::new(InOrderExec { input: children.swap_remove(0), properties }))
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        rows(&self.input, context)
    }
}
