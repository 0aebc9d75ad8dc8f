//! Tables whose rows are computed, such as system tables.

use std::fmt;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use catalog::TypeId;
use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::MemTable;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use model::{Datum, Error, Result};

use crate::arrow::{Builder, arrow_type};
use crate::errors::external;

/// A table whose rows are computed for each scan.
pub trait ComputedTable: fmt::Debug + Send + Sync {
    /// Names and types of the columns.
    fn columns(&self) -> Vec<(&str, TypeId)>;

    /// Computes the rows, hands each value of these columns to `push` with its place in `columns`, and returns the number of
    /// rows. The values of a column come in the order of the rows.
    ///
    /// # Errors
    /// Those of `push`, and of computing a value.
    fn rows(&self, columns: &[usize], push: &mut Push<'_>) -> Result<usize>;
}

/// Takes the next value of a column.
pub type Push<'a> = dyn FnMut(usize, &Datum<'_>) -> Result<()> + 'a;

/// A computed table for DataFusion.
#[derive(Debug)]
pub(crate) struct ComputedProvider {
    table: Arc<dyn ComputedTable>,
    types: Vec<TypeId>,
    schema: SchemaRef,
    zone: Arc<str>,
}

impl ComputedProvider {
    pub(crate) fn new(table: Arc<dyn ComputedTable>, zone: &Arc<str>) -> ComputedProvider {
        let columns = table.columns();
        let types = columns.iter().map(|(_, ty)| *ty).collect();
        let field = |(name, ty): (&str, TypeId)| Field::new(name, arrow_type(ty, zone), true);
        let schema = Arc::new(Schema::new(columns.into_iter().map(field).collect::<Vec<_>>()));
        ComputedProvider { table, types, schema, zone: Arc::clone(zone) }
    }

    fn batch(&self, columns: &[usize]) -> Result<RecordBatch> {
        let builder = |at: &usize| Builder::new(self.types[*at], &self.zone, 0);
        let mut builders: Vec<Builder> = columns.iter().map(builder).collect();
        let rows = self.table.rows(columns, &mut |column, value| builders[column].push(value))?;
        let arrays = builders.iter_mut().map(Builder::finish).collect();
        let schema = Arc::new(self.schema.project(columns).map_err(Error::bug)?);
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(schema, arrays, &options).map_err(Error::bug)
    }
}

#[async_trait]
impl TableProvider for ComputedProvider {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let all: Vec<usize> = (0..self.types.len()).collect();
        let batch = self.batch(projection.unwrap_or(&all)).map_err(external)?;
        MemTable::try_new(batch.schema(), vec![vec![batch]])?.scan(state, None, filters, limit).await
    }
}
