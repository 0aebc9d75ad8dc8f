//! Cancellation of joins whose result was dropped.
//!
//! Dropping a result stops operators that yield regularly. Scans do; a join may run for hours between two yields.
//! Therefore joins are made to yield every few batches, and the condition of a join, evaluated for every input batch,
//! fails once the result is dropped.

use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use arrow_array::RecordBatch;
use arrow_schema::{FieldRef, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder};
use futures::Stream;
use model::{Error, SqlState};

use crate::errors::external;

/// The cancellation flag of one execution, set when its result is dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Makes the joins of a plan check for cancellation.
    pub(crate) fn watch(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| self.watch_node(node)).map(|watched| watched.data)
    }

    fn watch_node(&self, node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
        let sliced = crate::run::sliced_projection::sliced(&node)?;
        if sliced.is_none() && !node.name().contains("Join") && node.name() != "UnnestExec" {
            return Ok(Transformed::no(node));
        }
        let node = sliced.unwrap_or(node);
        let any: &dyn Any = node.as_ref();
        let node = if let Some(join) = any.downcast_ref::<NestedLoopJoinExec>() {
            let filter = join.filter().map(|filter| self.watch_filter(filter));
            Arc::new(NestedLoopJoinExecBuilder::from(join).with_filter(filter).build()?)
        } else if let Some(join) = any.downcast_ref::<HashJoinExec>() {
            let filter = join.filter().map(|filter| self.watch_filter(filter));
            Arc::new(join.builder().with_filter(filter).build()?)
        } else {
            node
        };
        Ok(Transformed::yes(Arc::new(CooperativeExec::new(node))))
    }

    fn watch_filter(&self, filter: &JoinFilter) -> JoinFilter {
        let inner = Arc::clone(filter.expression());
        let watched = Arc::new(Watched { inner, interrupt: self.clone() });
        JoinFilter::new(watched, filter.column_indices().to_vec(), Arc::clone(filter.schema()))
    }

    /// Ties the flag to a result stream: dropping the stream cancels the query.
    pub(crate) fn held_by<S>(self, stream: S) -> Held<S> {
        Held { stream: Box::pin(stream), interrupt: self }
    }
}

/// A result stream that cancels its query when it is dropped.
pub(crate) struct Held<S> {
    stream: Pin<Box<S>>,
    interrupt: Interrupt,
}

impl<S: Stream> Stream for Held<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        self.stream.as_mut().poll_next(context)
    }
}

impl<S> Drop for Held<S> {
    fn drop(&mut self) {
        self.interrupt.0.store(true, Ordering::Relaxed);
    }
}

/// A join condition that fails after cancellation.
#[derive(Debug)]
struct Watched {
    inner: Arc<dyn PhysicalExpr>,
    interrupt: Interrupt,
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl PartialEq for Watched {
    fn eq(&self, other: &Watched) -> bool {
        self.inner.eq(&other.inner)
    }
}

impl Eq for Watched {}

impl Hash for Watched {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl PhysicalExpr for Watched {
    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.inner.return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        if self.interrupt.0.load(Ordering::Relaxed) {
            // Nobody receives this error.
            return Err(external(Error::new(SqlState::QUERY_CANCELED, "canceling statement: its result was dropped")));
        }
        self.inner.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let inner = children.into_iter().next().ok_or_else(|| external(Error::bug("a condition without its child")))?;
        Ok(Arc::new(Watched { inner, interrupt: self.interrupt.clone() }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(f)
    }
}
