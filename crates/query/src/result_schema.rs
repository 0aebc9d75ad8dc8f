//! The Arrow schema of a result before the statement runs, and the conversion of result batches to that schema.
//!
//! Flight sends the schema first, and every batch must match it exactly. A plan has column types, but its operators may
//! produce another array of the same values, such as a view or a dictionary.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType as Arrow, Field, Schema, SchemaRef};
use model::{Error, Result, Type};
use relational::arrow::cast;
use relational::arrow::rows::arrow_of;
use relational::types::{OutputColumn, arrow_of_oid};

use crate::execute::rows::carried;
use crate::plan::rows::Verb;
use crate::plan::{Plan, Prepared};
use crate::session::Session;
use crate::statement::Command;

impl Prepared {
    /// The result columns as an Arrow schema; `None` for statements without a result. A `timestamptz` has the session's
    /// time zone. A `numeric` without a declared scale is text if its number of digits is unbounded.
    #[must_use]
    pub fn arrow_schema(&self, session: &Session) -> Option<SchemaRef> {
        let columns = self.columns()?;
        let zone = session.time_zone();
        let types: Vec<Arrow> = match &self.0.plan {
            Plan::Query(plan) => plan.fields.iter().map(plain).collect(),
            Plan::Rows(plan) => plan.types().iter().map(|ty| arrow_of(carried(ty.ty), &zone)).collect(),
            Plan::Modify(plan) => plan.fields.iter().map(plain).collect(),
            Plan::Execute(inner) => return inner.arrow_schema(session),
            _ => columns.iter().map(|column| type_of(column, &zone)).collect(),
        };
        let fields = columns.iter().zip(types).map(|(column, ty)| Field::new(&column.name, ty, true));
        Some(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
    }

    /// The Arrow types of `$1 ..`; text for a parameter without a known type.
    #[must_use]
    pub fn arrow_parameters(&self, session: &Session) -> SchemaRef {
        let zone = session.time_zone();
        let field = |(at, oid): (usize, &u32)| {
            Field::new(format!("${}", at + 1), arrow_of_oid(*oid, &zone).unwrap_or(Arrow::Utf8), true)
        };
        Arc::new(Schema::new(self.parameters().iter().enumerate().map(field).collect::<Vec<_>>()))
    }

    /// Whether the statement returns rows and writes nothing. Such a statement may run lazily, and more than once.
    #[must_use]
    pub fn only_reads(&self) -> bool {
        match &self.0.plan {
            Plan::Query(plan) => !plan.calls_routines,
            Plan::Rows(plan) => plan.verb == Verb::Select && !plan.changes_in_with(),
            Plan::Execute(inner) => inner.only_reads(),
            Plan::Insert(_) | Plan::Declare(_) | Plan::Feed(_) | Plan::Modify(_) | Plan::Advisory(_) | Plan::Row(_) => {
                false
            }
            Plan::Other => {
                let is_change = matches!(self.0.statement.0.command, Command::Cursor(_) | Command::Definition(_));
                self.columns().is_some() && !is_change
            }
        }
    }
}

/// The Arrow type of a column of a statement that neither DataFusion nor the row executor runs.
fn type_of(column: &OutputColumn, zone: &str) -> Arrow {
    match Type::from_oid(column.oid, column.typmod).filter(|ty| !ty.is_other()) {
        Some(ty) => arrow_of(carried(ty), zone),
        None => arrow_of_oid(column.oid, zone).unwrap_or(Arrow::Utf8),
    }
}

/// The type without dictionaries, run ends and views, at every level of nesting.
fn plain(ty: &Arrow) -> Arrow {
    match ty {
        Arrow::Dictionary(_, values) => plain(values),
        Arrow::RunEndEncoded(_, values) => plain(values.data_type()),
        Arrow::Utf8View | Arrow::LargeUtf8 => Arrow::Utf8,
        Arrow::BinaryView | Arrow::LargeBinary => Arrow::Binary,
        Arrow::List(item) | Arrow::LargeList(item) => {
            Arrow::List(Arc::new(Field::new("item", plain(item.data_type()), true)))
        }
        other => other.clone(),
    }
}

/// Converts a batch of a result to the announced schema.
///
/// # Errors
/// 22003, 22008 for a value that the announced type cannot hold; XX000 for a batch with another number of columns.
pub fn conform(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    if batch.num_columns() != schema.fields().len() {
        let text = format!("{} columns where {} were announced", batch.num_columns(), schema.fields().len());
        return Err(Error::bug(text));
    }
    let arrays = batch.columns().iter().zip(schema.fields());
    let arrays = arrays.map(|(array, field)| {
        if array.data_type() == field.data_type() { Ok(Arc::clone(array)) } else { cast(array, field.data_type()) }
    });
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), arrays.collect::<Result<_>>()?, &options).map_err(Error::bug)
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int32Type;
    use arrow_array::{Array, ArrayRef, DictionaryArray};

    use super::*;

    #[test]
    fn dictionaries_and_views_become_what_was_announced() {
        let values: DictionaryArray<Int32Type> = ["a", "b", "a"].into_iter().collect();
        let field = Field::new("internal", values.data_type().clone(), false);
        let batch =
            RecordBatch::try_new(Arc::new(Schema::new(vec![field.clone()])), vec![Arc::new(values) as ArrayRef]);
        let schema = Arc::new(Schema::new(vec![Field::new("shown", plain(field.data_type()), true)]));
        let conformed = conform(&batch.unwrap(), &schema).unwrap();
        assert_eq!(conformed.schema(), schema);
        assert_eq!(conformed.column(0).as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["a", "b", "a"]);
    }

    #[test]
    fn a_batch_of_other_columns_is_our_mistake() {
        let schema = Arc::new(Schema::new(vec![Field::new("a", Arrow::Int32, true)]));
        let batch = RecordBatch::new_empty(Arc::new(Schema::empty()));
        assert_eq!(conform(&batch, &schema).unwrap_err().state().0, "XX000");
    }
}
