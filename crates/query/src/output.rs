//! Results that no query produces, such as the rows of SHOW.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_schema::{DataType as Arrow, Field, Schema};
use model::{Error, Result};

use crate::session::Outcome;
use relational::types::OutputColumn;

/// A result of text columns.
pub(crate) fn text_rows(
    columns: Vec<OutputColumn>,
    rows: Vec<Vec<Option<String>>>,
    tag: &'static str,
) -> Result<Outcome> {
    let fields: Vec<Field> = columns.iter().map(|column| Field::new(&column.name, Arrow::Utf8, true)).collect();
    let column = |at: usize| -> ArrayRef {
        Arc::new(rows.iter().map(|row| row.get(at).cloned().flatten()).collect::<StringArray>())
    };
    let arrays = (0..columns.len()).map(column).collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(Error::bug)?;
    Ok(Outcome::Rows { columns, batches: Box::pin(futures::stream::iter([Ok(batch)])), tag: tag.into() })
}
