//! Each row a number of times, for INTERSECT ALL and EXCEPT ALL.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch, UInt32Array};
use async_trait::async_trait;
use datafusion::arrow::compute::{cast, take};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result as DfResult;

use super::exec::{Run, Source};

/// Repeats rows.
pub(crate) struct Repeat {
    source: Source,
    /// The batch in work, its counts, the row, and how often the row was given.
    current: Option<(RecordBatch, Vec<i64>, usize, i64)>,
}

impl Repeat {
    pub(super) fn new(source: Source) -> Repeat {
        Repeat { source, current: None }
    }
}

#[async_trait]
impl Run for Repeat {
    async fn next(&mut self) -> DfResult<Option<RecordBatch>> {
        if self.current.is_none() {
            let Some(batch) = self.source.batch().await? else { return Ok(None) };
            let counts = self.source.values(&batch)?;
            let counts = match counts.last() {
                Some(counts) => {
                    let counts = cast(counts, &DataType::Int64)?;
                    let counts = counts.as_primitive::<Int64Type>();
                    (0..counts.len()).map(|row| if counts.is_null(row) { 0 } else { counts.value(row) }).collect()
                }
                None => Vec::new(),
            };
            self.current = Some((batch, counts, 0, 0));
        }
        let Some((batch, counts, row, given)) = &mut self.current else { return Ok(None) };
        let mut rows = Vec::with_capacity(self.source.batch_rows);
        while rows.len() < self.source.batch_rows && *row < counts.len() {
            if *given < counts[*row] {
                rows.push(*row as u32);
                *given += 1;
            } else {
                *row += 1;
                *given = 0;
            }
        }
        let rows = UInt32Array::from(rows);
        let columns = batch.columns().iter().map(|column| take(column, &rows, None)).collect::<Result<_, _>>()?;
        let output = self.source.output(columns, rows.len())?;
        if *row >= counts.len() {
            self.current = None;
        }
        Ok(Some(output))
    }
}
