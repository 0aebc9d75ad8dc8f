//! A query that is ready to run, and its operators.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use datafusion::execution::TaskContext;
use datafusion::execution::context::SessionState;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use futures::StreamExt;
use model::Result;

use super::cancellation::Interrupt;
use super::in_order;
use crate::errors::{OrError, convert};
use crate::results::Batches;
use crate::scan::join_keys;

/// A query that is ready to run.
pub struct Execution {
    plan: Arc<dyn ExecutionPlan>,
    task: Arc<TaskContext>,
    interrupt: Interrupt,
}

impl Execution {
    pub(super) fn new(plan: Arc<dyn ExecutionPlan>, state: &SessionState) -> Result<Execution> {
        let interrupt = Interrupt::default();
        let plan = interrupt.watch(plan).and_then(join_keys::tell_scans).or_error()?;
        Ok(Execution { plan, task: task(state), interrupt })
    }

    /// The operators.
    #[must_use]
    pub fn plan(&self) -> PhysicalPlan {
        PhysicalPlan(Arc::clone(&self.plan))
    }

    /// Schema of the rows.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        self.plan.schema()
    }

    /// Starts the operators. Call it within a Tokio runtime, whose threads run them. Dropping the rows cancels the query.
    ///
    /// # Errors
    /// Errors of operators that begin to run.
    pub fn start(self) -> Result<Batches> {
        let rows = self.interrupt.held_by(in_order::rows(&self.plan, self.task).or_error()?);
        Ok(Box::pin(rows.map(|batch| batch.map_err(|error| convert(&error)))))
    }
}

/// The operators of a query, for EXPLAIN.
pub struct PhysicalPlan(Arc<dyn ExecutionPlan>);

impl PhysicalPlan {
    /// The operators as text; after the query has run, with what was counted.
    #[must_use]
    pub fn describe(&self, with_metrics: bool) -> Vec<String> {
        let plan = self.0.as_ref();
        let text = match with_metrics {
            true => DisplayableExecutionPlan::with_metrics(plan).indent(false).to_string(),
            false => DisplayableExecutionPlan::new(plan).indent(false).to_string(),
        };
        text.lines().map(str::to_owned).collect()
    }
}

/// Context of running operators: memory, spill files and settings. Functions are in the plan already.
fn task(state: &SessionState) -> Arc<TaskContext> {
    let none = (Default::default(), Default::default(), Default::default(), Default::default());
    let id = state.session_id().to_owned();
    let config = state.config().clone();
    let runtime = Arc::clone(state.runtime_env());
    Arc::new(TaskContext::new(None, id, config, none.0, none.1, none.2, none.3, runtime))
}
