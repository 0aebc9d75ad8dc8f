//! A condition on rows as the store is given it: it sees the columns that the condition names, and reads the others only of blocks
//! with rows that pass.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use columns::{Scan, ScanRequest, Scanned};
use datafusion::common::DFSchema;
use datafusion::logical_expr::Expr;
use engine::TableView;
use model::{ColumnId, Error, Result};

use crate::errors::OrError;
use crate::provider::{Predicate, relabel};

/// A condition.
pub(crate) struct Keep {
    /// The columns that it names, and what they look like.
    early: Vec<ColumnId>,
    schema: SchemaRef,
    passes: Predicate,
}

impl Keep {
    /// `None` if the condition names a column that is not read, or cannot be made.
    ///
    /// - `columns`, `schema`: what is read.
    /// - `make`: a predicate over a schema.
    pub(crate) fn new(
        condition: &Expr,
        columns: &[ColumnId],
        schema: &SchemaRef,
        make: impl FnOnce(&Expr, DFSchema) -> Option<Predicate>,
    ) -> Option<Keep> {
        let names = condition.column_refs();
        let positions: Option<Vec<usize>> = names.iter().map(|column| schema.index_of(&column.name).ok()).collect();
        let mut positions = positions?;
        positions.sort_unstable();
        positions.dedup();
        let schema = Arc::new(schema.project(&positions).ok()?);
        let passes = make(condition, DFSchema::try_from(Arc::clone(&schema)).ok()?)?;
        Some(Keep { early: positions.into_iter().map(|at| columns[at]).collect(), schema, passes })
    }

    /// Which rows of the columns that are read early pass.
    fn mask(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let rows = batch.num_rows();
        let arrays = batch.columns().iter().zip(self.schema.fields());
        let arrays = arrays.map(|(array, field)| relabel(Arc::clone(array), field.data_type())).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch =
            RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options).map_err(Error::bug)?;
        let mask = self.passes.evaluate(&batch).and_then(|mask| mask.into_array(rows)).or_error()?;
        Ok(mask.as_boolean().clone())
    }
}

/// A scan of the rows that pass.
pub(crate) struct Kept<'a> {
    scan: Scan,
    keep: Option<&'a Keep>,
}

impl<'a> Kept<'a> {
    /// - `request`: without `limit`, if rows are to pass a condition.
    ///
    /// # Errors
    /// As [`TableView::scan`].
    pub(crate) fn new(view: &TableView, request: ScanRequest, keep: Option<&'a Keep>) -> Result<Kept<'a>> {
        let scan = match keep {
            Some(keep) => view.scan_late(request, &keep.early)?,
            None => view.scan(request)?,
        };
        Ok(Kept { scan, keep })
    }

    /// All rows of a scan that was begun otherwise.
    pub(crate) fn all(scan: Scan) -> Kept<'a> {
        Kept { scan, keep: None }
    }

    /// The next rows, perhaps none though more may come; `None` at the end.
    ///
    /// # Errors
    /// Those of reading and of the condition; the scan has ended then.
    pub(crate) fn next(&mut self) -> Result<Option<Scanned>> {
        match self.keep {
            Some(keep) => self.scan.next_kept(&mut |batch| keep.mask(batch)),
            None => self.scan.next_rows(),
        }
    }

    pub(crate) fn scan(&self) -> &Scan {
        &self.scan
    }
}
