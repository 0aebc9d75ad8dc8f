//! Functions of applications in FROM, as tables: a column for each argument, whose value a condition must give.

use std::fmt;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use catalog::TypeId;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::DFSchema;
use datafusion::error::Result as DfResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use futures::StreamExt;
use futures::stream::BoxStream;
use model::{Error, Result, SqlState};

use crate::arrow::arrow_type;
use crate::errors::external;
use crate::scan::columns_table::has_subquery;

/// A function whose rows a statement reads.
pub trait FunctionRows: fmt::Debug + Send + Sync {
    /// Name, for errors.
    fn name(&self) -> String;

    /// Names and types of the columns of its rows.
    fn columns(&self) -> Vec<(&'static str, TypeId)>;

    /// Names of the arguments, which are texts.
    fn arguments(&self) -> &'static [&'static str];

    /// The rows for arguments, each in its place; `None` for one that is not given.
    fn rows(&self, arguments: Vec<Option<String>>) -> BoxStream<'static, Result<RecordBatch>>;
}

/// Types in which the value of an argument may be given. A comparison of other types is not one that a scan can take.
///
/// A date or timestamp becomes a text without an offset: only the function knows its zone.
const TYPES: [(TypeId, &str); 7] = [
    (TypeId::TEXT, "text"),
    (TypeId::TIMESTAMPTZ, "timestamptz"),
    (TypeId::TIMESTAMP, "timestamp"),
    (TypeId::DATE, "date"),
    (TypeId::INT8, "int8"),
    (TypeId::FLOAT8, "float8"),
    (TypeId::BOOL, "bool"),
];

/// Names and types of the columns of an argument: other columns do not have such names.
pub fn argument_columns(name: &str) -> impl Iterator<Item = (String, TypeId)> {
    TYPES.map(|(ty, type_name)| (format!("({name} {type_name})"), ty)).into_iter()
}

/// A function for DataFusion.
#[derive(Debug)]
pub(crate) struct FunctionTable {
    function: Arc<dyn FunctionRows>,
    /// Columns of the rows, then those of the arguments.
    schema: SchemaRef,
    /// Number of the columns of the rows.
    columns: usize,
}

impl FunctionTable {
    pub(crate) fn new(function: Arc<dyn FunctionRows>, zone: &Arc<str>) -> FunctionTable {
        let of_rows = function.columns();
        let field = |(name, ty): (String, TypeId)| Field::new(name, arrow_type(ty, zone), true);
        let arguments = function.arguments().iter().flat_map(|name| argument_columns(name));
        let fields = of_rows.iter().map(|(name, ty)| ((*name).to_owned(), *ty)).chain(arguments).map(field);
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        FunctionTable { function, schema, columns: of_rows.len() }
    }

    /// Place and value of an argument that a condition gives: a value that depends on no row.
    fn argument<'a>(&self, filter: &'a Expr) -> Option<(usize, &'a Expr)> {
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = filter else { return None };
        let (column, value) = match (&**left, &**right) {
            (Expr::Column(column), value) | (value, Expr::Column(column)) => (column, value),
            _ => return None,
        };
        if !value.column_refs().is_empty() || value.is_volatile() || has_subquery(value) {
            return None;
        }
        let arguments = &self.schema.fields()[self.columns..];
        let place = arguments.iter().position(|field| *field.name() == column.name)?;
        Some((place / TYPES.len(), value))
    }
}

/// The text of an expression without columns; `None` for NULL.
fn text_of(state: &dyn Session, value: &Expr) -> DfResult<Option<String>> {
    let physical = state.create_physical_expr(value.clone(), &DFSchema::empty())?;
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)?;
    let value = physical.evaluate(&row)?.into_array(1)?;
    let text = arrow_cast::cast(&value, &DataType::Utf8)?;
    Ok(text.is_valid(0).then(|| text.as_string::<i32>().value(0).to_owned()))
}

#[async_trait]
impl TableProvider for FunctionTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> DfResult<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| match self.argument(filter) {
            Some(_) => TableProviderFilterPushDown::Exact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(support).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let mut arguments = vec![None; self.function.arguments().len()];
        let mut has_null = false;
        for (place, value) in filters.iter().filter_map(|filter| self.argument(filter)) {
            arguments[place] = text_of(state, value)?;
            has_null |= arguments[place].is_none();
        }
        let columns = self.columns;
        let projection = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        // A condition that could not be given to the function reads the column of its argument.
        let is_open = |at: &&usize| **at >= columns && arguments[(**at - columns) / TYPES.len()].is_none();
        if let Some(open) = projection.iter().find(is_open).filter(|_| !has_null) {
            let (function, name) = (self.function.name(), self.function.arguments()[(*open - columns) / TYPES.len()]);
            let text =
                format!("argument \"{name}\" of {function} depends on rows: it must be a constant or a parameter");
            return Err(external(Error::new(SqlState::FEATURE_NOT_SUPPORTED, text)));
        }
        let schema: SchemaRef = Arc::new(self.schema.project(&projection)?);
        if has_null {
            // Nothing is equal to NULL.
            return Ok(Arc::new(EmptyExec::new(schema)));
        }
        let rows =
            Call { function: Arc::clone(&self.function), schema: Arc::clone(&schema), projection, columns, arguments };
        let plan = StreamingTableExec::try_new(schema, vec![Arc::new(rows)], None, Vec::new(), false, limit)?;
        Ok(Arc::new(plan))
    }
}

/// A function with its arguments.
#[derive(Debug)]
struct Call {
    function: Arc<dyn FunctionRows>,
    schema: SchemaRef,
    projection: Vec<usize>,
    /// Number of columns before the arguments.
    columns: usize,
    arguments: Vec<Option<String>>,
}

impl PartitionStream for Call {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let rows = self.function.rows(self.arguments.clone());
        let (schema, projection, columns) = (Arc::clone(&self.schema), self.projection.clone(), self.columns);
        let arguments = self.arguments.clone();
        let batches = rows.map(move |batch| {
            let made = batch.and_then(|batch| projected(&batch, &schema, &projection, (columns, &arguments)));
            made.map_err(external)
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches))
    }
}

fn projected(
    batch: &RecordBatch,
    schema: &SchemaRef,
    projection: &[usize],
    (columns, arguments): (usize, &[Option<String>]),
) -> Result<RecordBatch> {
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(projection.len());
    for (at, field) in projection.iter().zip(schema.fields()) {
        arrays.push(match at.checked_sub(columns) {
            None => arrow_cast::cast(batch.column(*at), field.data_type()).map_err(Error::bug)?,
            // Only a condition that was taken reads it, and that is true for all rows.
            Some(argument) => {
                let text = StringArray::from(vec![arguments[argument / TYPES.len()].as_deref(); batch.num_rows()]);
                arrow_cast::cast(&text, field.data_type()).map_err(Error::bug)?
            }
        });
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options).map_err(Error::bug)
}
