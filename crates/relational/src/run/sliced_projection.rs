//! Evaluates expressions whose values may be much larger than their inputs on few rows at a time.
//!
//! The size of the results is known only after evaluation, and a batch may have 8,192 rows. A projection
//! therefore starts with one row and then takes as many as give about [`SLICE_BYTES`]; other operators that
//! evaluate such expressions get short input batches. The values are the same; only batches are shorter.
//! Cancellation takes effect between two slices.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Literal};
use datafusion::physical_expr::projection::Projector;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use datafusion::scalar::ScalarValue;
use futures::StreamExt;
use model::SqlState;

use crate::results::batch_bytes;

/// Target size of a projection's output slice in bytes.
const SLICE_BYTES: usize = 1 << 20;
/// Maximum growth of the number of rows from one slice to the next.
const GROWTH: usize = 16;
/// Rows per input batch of other operators.
const INPUT_ROWS: usize = 256;
/// Maximum bytes that the copies of a constant take in such a batch.
const INPUT_BYTES: usize = 16 << 20;
/// Larger constants count as large, because they are repeated for each row.
const CONSTANT_BYTES: usize = 2 << 10;

/// Wraps the node with slicing, if its expressions may produce large values.
pub(crate) fn sliced(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let mut growth = Growth::default();
    node.apply_expressions(&mut |expr| {
        growth.note(expr)?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !growth.functions && growth.constant_bytes <= CONSTANT_BYTES {
        return Ok(None);
    }
    let any: &dyn Any = node.as_ref();
    if let Some(projection) = any.downcast_ref::<ProjectionExec>() {
        return Ok(Some(Arc::new(SlicedExec::projection(projection))));
    }
    let rows = (INPUT_BYTES / growth.constant_bytes.max(1)).clamp(1, INPUT_ROWS);
    let children: Vec<Arc<dyn ExecutionPlan>> = node
        .children()
        .into_iter()
        .map(|child| Arc::new(SlicedExec::input(Arc::clone(child), rows)) as Arc<dyn ExecutionPlan>)
        .collect();
    if children.is_empty() {
        return Ok(None);
    }
    #[expect(deprecated, reason = "what replaces it asks which properties are kept, and here all are made anew")]
    Arc::clone(node).with_new_children(children).map(Some)
}

/// Growth of values that a node's expressions may cause.
#[derive(Default)]
struct Growth {
    /// Contains functions whose results may be much larger than their arguments.
    functions: bool,
    /// Size of the largest constant.
    constant_bytes: usize,
}

impl Growth {
    fn note(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Result<()> {
        expr.apply(|one| {
            let any: &dyn Any = one.as_ref();
            if let Some(literal) = any.downcast_ref::<Literal>() {
                self.constant_bytes = self.constant_bytes.max(constant_bytes(literal.value()));
            } else if let Some(function) = any.downcast_ref::<ScalarFunctionExpr>() {
                self.functions = self.functions || crate::evaluation::evaluate::may_grow(function.fun());
            } else if let Some(binary) = any.downcast_ref::<BinaryExpr>() {
                self.functions = self.functions || *binary.op() == Operator::StringConcat;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(())
    }
}

/// Whether the error says that the values of a batch are too large, so that fewer rows may fit.
fn is_too_large(error: &datafusion::error::DataFusionError) -> bool {
    let datafusion::error::DataFusionError::External(error) = error.find_root() else { return false };
    let state = error.downcast_ref::<model::Error>().map(model::Error::state);
    matches!(state, Some(SqlState::PROGRAM_LIMIT_EXCEEDED | SqlState::OUT_OF_MEMORY))
}

fn constant_bytes(value: &ScalarValue) -> usize {
    match value {
        ScalarValue::Utf8(Some(text)) | ScalarValue::LargeUtf8(Some(text)) | ScalarValue::Utf8View(Some(text)) => {
            text.len()
        }
        ScalarValue::Binary(Some(bytes)) | ScalarValue::LargeBinary(Some(bytes)) => bytes.len(),
        ScalarValue::List(list) => list.get_array_memory_size(),
        _ => 0,
    }
}

/// A projection that is evaluated on few rows at a time, or an input that is passed on in short batches.
struct SlicedExec {
    input: Arc<dyn ExecutionPlan>,
    projection: Option<Arc<ProjectionExec>>,
    /// Rows of the first slice.
    rows: usize,
    properties: Arc<PlanProperties>,
}

impl SlicedExec {
    fn projection(projection: &ProjectionExec) -> SlicedExec {
        let input = Arc::clone(projection.input());
        let projection = Arc::new(projection.clone());
        let properties = Arc::clone(projection.properties());
        SlicedExec { input, projection: Some(projection), rows: 1, properties }
    }

    fn input(input: Arc<dyn ExecutionPlan>, rows: usize) -> SlicedExec {
        let properties = Arc::clone(input.properties());
        SlicedExec { input, projection: None, rows, properties }
    }
}

impl fmt::Debug for SlicedExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for SlicedExec {
    fn fmt_as(&self, form: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.projection {
            Some(projection) => projection.fmt_as(form, f),
            None => write!(f, "SlicedExec"),
        }
    }
}

impl ExecutionPlan for SlicedExec {
    fn name(&self) -> &'static str {
        if self.projection.is_some() { "ProjectionExec" } else { "SlicedExec" }
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        match &self.projection {
            Some(projection) => projection.apply_expressions(visit),
            None => Ok(TreeNodeRecursion::Continue),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(input) = children.into_iter().next() else { return Ok(self) };
        let Some(projection) = &self.projection else { return Ok(Arc::new(SlicedExec::input(input, self.rows))) };
        #[expect(deprecated, reason = "as above")]
        let projection = Arc::clone(projection).with_new_children(vec![input])?;
        let any: &dyn Any = projection.as_ref();
        match any.downcast_ref::<ProjectionExec>() {
            Some(projection) => Ok(Arc::new(SlicedExec::projection(projection))),
            None => Ok(projection),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let schema = self.schema();
        let projector = match &self.projection {
            Some(projection) => {
                let of = projection.projection_expr();
                Some(of.make_projector_with_schema_metadata(&self.input.schema(), &schema)?)
            }
            None => None,
        };
        let slicing = Slicing { input, projector, batch: None, rows: self.rows };
        let slices = futures::stream::try_unfold(slicing, async |mut slicing| {
            Ok(slicing.next().await?.map(|slice| (slice, slicing)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, slices)))
    }
}

struct Slicing {
    input: SendableRecordBatchStream,
    projector: Option<Projector>,
    /// Rows that have not been passed on.
    batch: Option<RecordBatch>,
    /// Number of rows of the next slice.
    rows: usize,
}

impl Slicing {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let batch = match self.batch.take() {
            Some(batch) => batch,
            None => match self.input.next().await.transpose()? {
                Some(batch) => batch,
                None => return Ok(None),
            },
        };
        loop {
            let rows = self.rows.min(batch.num_rows());
            let slice = batch.slice(0, rows);
            let made = match &self.projector {
                None => Ok(slice),
                Some(projector) => projector.project_batch(&slice),
            };
            match made {
                Err(error) if rows > 1 && is_too_large(&error) => self.rows = (rows / GROWTH).max(1),
                Err(error) => return Err(error),
                Ok(made) => {
                    self.batch = (rows < batch.num_rows()).then(|| batch.slice(rows, batch.num_rows() - rows));
                    if self.projector.is_some() && rows > 0 {
                        let fitting = SLICE_BYTES.saturating_mul(rows) / batch_bytes(&made).max(1);
                        self.rows = fitting.clamp(1, rows.saturating_mul(GROWTH).max(self.rows));
                    }
                    return Ok(Some(made));
                }
            }
        }
    }
}
