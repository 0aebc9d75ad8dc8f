//! Rows that the session computes as record batches.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray};
use arrow_schema::{DataType as Arrow, Field, Schema};
use catalog::TypeId;
use model::{Datum, Error, Result, Type};
use relational::arrow::rows::Builder;
use relational::types::OutputColumn;
use scalar::Value;

use crate::encode::has_styles;
use crate::execute::rows::carried;
use crate::settings::Settings;

/// A batch of rows of values of these types. Values without an Arrow type of their own are texts.
///
/// # Errors
/// Those of the output functions.
pub(super) fn batch_of(
    rows: &[Vec<Value>],
    columns: &[OutputColumn],
    settings: &Settings,
    facts: &scalar::Session,
) -> Result<RecordBatch> {
    let (mut fields, mut arrays) = (Vec::with_capacity(columns.len()), Vec::<ArrayRef>::with_capacity(columns.len()));
    for (at, column) in columns.iter().enumerate() {
        let values: Vec<&Value> = rows.iter().map(|row| row.get(at).unwrap_or(&Value::NULL)).collect();
        let array = match native(&values, column, settings) {
            Some(array) => array,
            None => Arc::new(texts(&values, TypeId(column.oid), facts)?),
        };
        fields.push(Field::new(&column.name, Arrow::clone(array.data_type()), true));
        arrays.push(array);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options).map_err(Error::bug)
}

/// The values as an array of their own type; `None` if there is none, or a value is out of its range.
fn native(values: &[&Value], column: &OutputColumn, settings: &Settings) -> Option<ArrayRef> {
    let ty = Type::from_oid(column.oid, column.typmod)?;
    let has_style = has_styles(column.oid) && !settings.has_plain_styles();
    if has_style || matches!(ty, Type::Other(_)) {
        return None;
    }
    let mut builder = Builder::new(carried(ty), &settings.time_zone(), values.len());
    for value in values {
        builder.push(&value.datum()).ok()?;
    }
    Some(builder.finish())
}

fn texts(values: &[&Value], ty: TypeId, facts: &scalar::Session) -> Result<StringArray> {
    let mut texts: Vec<Option<String>> = Vec::with_capacity(values.len());
    let mut arena = bumpalo::Bump::new();
    for value in values {
        texts.push(match value {
            Value::Plain(Datum::Null) => None,
            Value::Text(text) => Some(text.to_string()),
            value => {
                let mut text = String::new();
                let ctx = scalar::Context { arena: &arena, session: facts };
                scalar::output(&value.datum(), ty, &ctx, &mut text)?;
                Some(text)
            }
        });
        arena.reset();
    }
    Ok(StringArray::from(texts))
}
