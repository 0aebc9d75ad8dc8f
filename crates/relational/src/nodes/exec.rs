//! The physical operator of all nodes.

use std::fmt;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use async_trait::async_trait;
use datafusion::common::Result as DfResult;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, OrderingRequirements, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use futures::{StreamExt, TryStreamExt};

use super::{Operator, apply, distinct, repeat, sets, window};

/// Maximum number of rows of a batch.
const BATCH_ROWS: usize = 8_192;

/// A running operator.
#[async_trait]
pub(crate) trait Run: Send {
    /// The next batch, without rows or with some; `None` at the end.
    async fn next(&mut self) -> DfResult<Option<RecordBatch>>;
}

/// The physical operator.
#[derive(Debug)]
pub(crate) struct NodeExec {
    pub(crate) operator: Arc<Operator>,
    pub(crate) expressions: Vec<Arc<dyn PhysicalExpr>>,
    pub(crate) inputs: Vec<Arc<dyn ExecutionPlan>>,
    pub(crate) keeps: bool,
    pub(crate) schema: SchemaRef,
    /// Orders of the inputs, which must not be lost.
    orderings: Vec<Option<LexOrdering>>,
    properties: Arc<PlanProperties>,
}

impl NodeExec {
    pub(crate) fn new(
        operator: Arc<Operator>,
        expressions: Vec<Arc<dyn PhysicalExpr>>,
        inputs: Vec<Arc<dyn ExecutionPlan>>,
        keeps: bool,
        schema: SchemaRef,
        orderings: Vec<Option<LexOrdering>>,
    ) -> NodeExec {
        // Kept columns have the places that they have in the input, so the expressions of its order are valid above.
        let required = orderings.iter().take(1).flatten().cloned();
        let found = inputs.first().and_then(|input| input.output_ordering().cloned());
        let kept: Vec<LexOrdering> = if keeps { required.chain(found).collect() } else { Vec::new() };
        let equivalence = EquivalenceProperties::new_with_orderings(Arc::clone(&schema), kept);
        let properties = Arc::new(PlanProperties::new(
            equivalence,
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        NodeExec { operator, expressions, inputs, keeps, schema, orderings, properties }
    }

    fn start(&self, context: Arc<TaskContext>) -> DfResult<Box<dyn Run>> {
        let missing = || crate::errors::external(model::Error::bug("an operator without input"));
        let input = self.inputs.first().ok_or_else(missing)?.execute(0, Arc::clone(&context))?;
        let source = Source {
            input,
            expressions: self.expressions.clone(),
            keeps: self.keeps,
            schema: Arc::clone(&self.schema),
            memory: MemoryConsumer::new(self.operator.name()).register(context.memory_pool()),
            batch_rows: BATCH_ROWS.min(context.session_config().batch_size()),
        };
        Ok(match &*self.operator {
            Operator::Sets(_) => Box::new(sets::start(Arc::clone(&self.operator), source)),
            Operator::Window(_) => Box::new(window::Running::new(Arc::clone(&self.operator), source)),
            Operator::Distinct => Box::new(distinct::Distinct::new(source)),
            Operator::Ties => Box::new(distinct::Ties::new(source)),
            Operator::Repeat => Box::new(repeat::Repeat::new(source)),
            Operator::Apply(_) => {
                let query = Arc::clone(self.inputs.get(1).ok_or_else(missing)?);
                let all = self.inputs.get(2).cloned();
                Box::new(apply::Running::new(Arc::clone(&self.operator), source, query, all, context))
            }
            Operator::Ordered => Box::new(Ordered(source)),
            Operator::Aggregate(_) | Operator::Leading(_) => {
                return Err(crate::errors::external(model::Error::bug("an operator of another kind")));
            }
        })
    }
}

/// Passes its input on.
struct Ordered(Source);

#[async_trait]
impl Run for Ordered {
    async fn next(&mut self) -> DfResult<Option<RecordBatch>> {
        self.0.batch().await
    }
}

/// Input and output of a running operator.
pub(crate) struct Source {
    pub(crate) input: SendableRecordBatchStream,
    expressions: Vec<Arc<dyn PhysicalExpr>>,
    pub(crate) keeps: bool,
    pub(crate) schema: SchemaRef,
    pub(crate) memory: MemoryReservation,
    /// Most rows of a batch.
    pub(crate) batch_rows: usize,
}

impl Source {
    /// The next batch of the input.
    pub(crate) async fn batch(&mut self) -> DfResult<Option<RecordBatch>> {
        self.input.next().await.transpose()
    }

    /// The values of the operator's expressions.
    pub(crate) fn values(&self, batch: &RecordBatch) -> DfResult<Vec<ArrayRef>> {
        self.expressions.iter().map(|expr| expr.evaluate(batch)?.into_array(batch.num_rows())).collect()
    }

    /// A batch of the output.
    pub(crate) fn output(&self, columns: Vec<ArrayRef>, rows: usize) -> DfResult<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

/// Visits expressions until one ends it.
pub(super) fn visited(
    expressions: &[Arc<dyn PhysicalExpr>],
    visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
) -> DfResult<TreeNodeRecursion> {
    let mut recursion = TreeNodeRecursion::Continue;
    for expression in expressions {
        recursion = visit(expression)?;
        if recursion == TreeNodeRecursion::Stop {
            break;
        }
    }
    Ok(recursion)
}

/// Lets other tasks run, so that an operator that computes for long can be cancelled.
pub(crate) async fn pause() {
    let mut is_paused = false;
    futures::future::poll_fn(|context| {
        if std::mem::replace(&mut is_paused, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

impl DisplayAs for NodeExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}Exec", self.operator.name())?;
        for (at, expr) in self.expressions.iter().enumerate() {
            write!(f, "{}{expr}", if at == 0 { ": " } else { ", " })?;
        }
        Ok(())
    }
}

impl ExecutionPlan for NodeExec {
    fn name(&self) -> &str {
        self.operator.name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition; self.inputs.len()]
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.orderings.iter().map(|ordering| ordering.clone().map(OrderingRequirements::from)).collect()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        // DataFusion moves a sort of the result below an operator that keeps the order, whatever order that one requires.
        let requires_order = self.orderings.first().is_some_and(Option::is_some);
        (0..self.inputs.len()).map(|input| input == 0 && self.keeps && !requires_order).collect()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; self.inputs.len()]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().collect()
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        visited(&self.expressions, visit)
    }

    fn with_new_children(self: Arc<Self>, inputs: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(NodeExec::new(
            Arc::clone(&self.operator),
            self.expressions.clone(),
            inputs,
            self.keeps,
            Arc::clone(&self.schema),
            self.orderings.clone(),
        )))
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let running = self.start(context)?;
        let output = futures::stream::try_unfold(running, async |mut running| {
            loop {
                match running.next().await? {
                    Some(batch) if batch.num_rows() == 0 => pause().await,
                    Some(batch) => return Ok(Some((batch, running))),
                    None => return Ok(None),
                }
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), output.into_stream().boxed())))
    }
}
