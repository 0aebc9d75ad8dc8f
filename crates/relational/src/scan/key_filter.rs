//! Selects series by the conditions of a WHERE clause on key columns.
//!
//! A complete key is looked up. Values of some key columns are looked up in the [inverted
//! index](columns::SeriesIndex::having) of series. All other conditions are evaluated on the keys of the remaining
//! series, or of all series if there was no look-up.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{Field, Schema, SchemaRef};
use columns::OneOf;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use engine::TableView;
use model::{Column, DataType, Error, KeyValue, Result, TableRef, key};

use crate::errors::OrError;
use crate::scan::columns_table::{Predicate, predicate, relabel};

/// Keys evaluated per batch.
const KEYS_PER_STEP: usize = 8_192;

/// The series whose keys satisfy all `filters`, in ascending order.
pub(crate) fn series_of(table: &TableRef, schema: &SchemaRef, view: &TableView, filters: &[Expr]) -> Result<Vec<u32>> {
    let mut conditions = Vec::new();
    let mut rest = Vec::new();
    filters.iter().for_each(|filter| sort(table, filter, &mut conditions, &mut rest));
    if conditions.is_empty() {
        return among(table, schema, view, 0..view.series_count(), &rest);
    }
    let found = series_by_keys(table, view, &conditions)?;
    if rest.is_empty() { Ok(found) } else { among(table, schema, view, found.into_iter(), &rest) }
}

/// The series whose key columns have one of the values of each condition, in ascending order.
pub(crate) fn series_by_keys(table: &TableRef, view: &TableView, conditions: &[OneOf]) -> Result<Vec<u32>> {
    let Some(keys) = keys_of(table, conditions) else { return view.series_having(conditions) };
    let mut found: Vec<u32> = keys.iter().filter_map(|key| view.lookup(key)).collect();
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// A predicate on key columns, over the rows of a scan.
pub(crate) struct Passing<'a> {
    pub(crate) table: &'a TableRef,
    pub(crate) view: &'a TableView,
    /// Schema of the scan's rows.
    pub(crate) schema: &'a SchemaRef,
    /// Positions in it of the key columns that the predicate reads.
    pub(crate) positions: &'a [usize],
    pub(crate) predicate: &'a Predicate,
}

impl Passing<'_> {
    /// The members of `series` (ascending) whose keys pass.
    ///
    /// # Errors
    /// Errors of the predicate.
    pub(crate) fn among(&self, mut series: impl ExactSizeIterator<Item = u32>) -> Result<Vec<u32>> {
        let fields = self.schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let mut found = Vec::new();
        while series.len() > 0 {
            let step: Vec<u32> = series.by_ref().take(KEYS_PER_STEP).collect();
            let keys = self.view.key_columns_of(step.iter().copied())?;
            // The predicate reads no other columns.
            let mut arrays: Vec<ArrayRef> =
                schema.fields().iter().map(|field| new_null_array(field.data_type(), step.len())).collect();
            for at in self.positions {
                let field = schema.field(*at);
                let place = self.table.key_columns().position(|key| key.name == *field.name());
                let place = place.ok_or_else(|| Error::bug("a key column that is none"))?;
                arrays[*at] = relabel(Arc::clone(&keys[place]), field.data_type());
            }
            let batch = RecordBatch::try_new(Arc::clone(&schema), arrays).map_err(Error::bug)?;
            found.extend(passing(self.predicate, &batch, &step)?);
        }
        Ok(found)
    }
}

/// The series whose rows of a batch pass.
fn passing(predicate: &Predicate, batch: &RecordBatch, series: &[u32]) -> Result<Vec<u32>> {
    let chosen = predicate.evaluate(batch).and_then(|value| value.into_array(batch.num_rows())).or_error()?;
    let chosen = chosen.as_boolean().iter();
    Ok(series.iter().zip(chosen).filter(|(_, chosen)| *chosen == Some(true)).map(|(series, _)| *series).collect())
}

/// Splits a filter into equality conditions on key columns and other conditions.
fn sort(table: &TableRef, filter: &Expr, conditions: &mut Vec<OneOf>, rest: &mut Vec<Expr>) {
    if let Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) = filter {
        sort(table, left, conditions, rest);
        sort(table, right, conditions, rest);
        return;
    }
    match one_of(table, filter) {
        Some(condition) => conditions.push(condition),
        None => rest.push(filter.clone()),
    }
}

/// `column = constant`, `column IN (constants)`.
fn one_of(table: &TableRef, filter: &Expr) -> Option<OneOf> {
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            let (column, value) = match (left.as_ref(), right.as_ref()) {
                (column @ Expr::Column(_), Expr::Literal(value, _)) | (Expr::Literal(value, _), column) => {
                    (column, value)
                }
                _ => return None,
            };
            let (column, key) = key_column(table, column)?;
            Some(OneOf { column, values: vec![key_value(key.ty, value)?] })
        }
        Expr::InList(InList { expr, list, negated: false }) => {
            let (column, key) = key_column(table, expr)?;
            let value = |item: &Expr| match item {
                Expr::Literal(value, _) => key_value(key.ty, value),
                _ => None,
            };
            Some(OneOf { column, values: list.iter().map(value).collect::<Option<_>>()? })
        }
        _ => None,
    }
}

/// The key column that an expression refers to, with its position.
fn key_column<'a>(table: &'a TableRef, expr: &Expr) -> Option<(usize, &'a Column)> {
    let Expr::Column(column) = expr else { return None };
    table.key_columns().enumerate().find(|(_, key)| key.name == column.name)
}

/// Canonical bytes of complete keys: one value for each key column, or any number of values of a single key column.
fn keys_of(table: &TableRef, conditions: &[OneOf]) -> Option<Vec<Vec<u8>>> {
    let columns = table.key_columns().count();
    match conditions {
        [only] if columns == 1 => {
            Some(only.values.iter().map(|value| key::encode(std::slice::from_ref(value))).collect())
        }
        _ if conditions.len() == columns => {
            let mut values: Vec<Option<KeyValue>> = vec![None; columns];
            for OneOf { column, values: named } in conditions {
                let [value] = named.as_slice() else { return None };
                // Two conditions on one column may contradict each other.
                if values[*column].replace(value.clone()).is_some() {
                    return None;
                }
            }
            Some(vec![key::encode(&values.into_iter().collect::<Option<Vec<_>>>()?)])
        }
        _ => None,
    }
}

/// The members of `series` (ascending) whose keys pass all filters.
fn among(
    table: &TableRef,
    schema: &SchemaRef,
    view: &TableView,
    series: impl ExactSizeIterator<Item = u32> + Clone,
    filters: &[Expr],
) -> Result<Vec<u32>> {
    let fields: Vec<Field> = table
        .key_columns()
        .map(|column| schema.field_with_name(&column.name).cloned())
        .collect::<std::result::Result<_, _>>()
        .map_err(Error::bug)?;
    let keys = Arc::new(Schema::new(fields));
    match matching(&keys, view, series.clone(), filters) {
        // The failing key may belong to a series without rows in the result. The filter is also applied to rows above
        // the scan, so conditions that may fail are skipped here.
        Err(_) if filters.iter().any(may_fail) => {
            let sure: Vec<Expr> = filters.iter().filter(|filter| !may_fail(filter)).cloned().collect();
            if sure.is_empty() { Ok(series.collect()) } else { matching(&keys, view, series, &sure) }
        }
        found => found,
    }
}

fn matching(
    keys: &SchemaRef,
    view: &TableView,
    mut series: impl ExactSizeIterator<Item = u32>,
    filters: &[Expr],
) -> Result<Vec<u32>> {
    let predicate = predicate(keys, filters)?;
    let mut found = Vec::new();
    while series.len() > 0 {
        let step: Vec<u32> = series.by_ref().take(KEYS_PER_STEP).collect();
        let arrays = view.key_columns_of(step.iter().copied())?;
        let arrays = keys.fields().iter().zip(arrays).map(|(field, array)| relabel(array, field.data_type())).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(step.len()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(keys), arrays, &options).map_err(Error::bug)?;
        found.extend(passing(&predicate, &batch, &step)?);
    }
    Ok(found)
}

/// Whether an expression may fail for some values, as a cast may.
pub(crate) fn may_fail(filter: &Expr) -> bool {
    use datafusion::common::tree_node::TreeNode;
    let fails = |expr: &Expr| {
        Ok(match expr {
            Expr::BinaryExpr(binary) => !(binary.op.supports_propagation() || binary.op.is_logic_operator()),
            Expr::Column(_)
            | Expr::Literal(..)
            | Expr::Alias(_)
            | Expr::Not(_)
            | Expr::IsNull(_)
            | Expr::IsNotNull(_) => false,
            Expr::InList(_) | Expr::Between(_) | Expr::Like(_) => false,
            _ => true,
        })
    };
    filter.exists(fails).unwrap_or(true)
}

pub(crate) fn key_value(ty: DataType, value: &ScalarValue) -> Option<KeyValue> {
    Some(match (ty, value) {
        (DataType::Bool, ScalarValue::Boolean(Some(value))) => KeyValue::Bool(*value),
        (DataType::Int16, ScalarValue::Int16(Some(value))) => KeyValue::Int(i64::from(*value)),
        (DataType::Int32, ScalarValue::Int32(Some(value))) => KeyValue::Int(i64::from(*value)),
        (DataType::Int64, ScalarValue::Int64(Some(value))) => KeyValue::Int(*value),
        (DataType::UInt64, ScalarValue::UInt64(Some(value))) => KeyValue::UInt(*value),
        (DataType::Text, ScalarValue::Utf8(Some(value))) => KeyValue::Text(value.clone()),
        (DataType::Bytes, ScalarValue::Binary(Some(value))) => KeyValue::Bytes(value.clone()),
        (DataType::Timestamp, ScalarValue::TimestampNanosecond(Some(value), _)) => KeyValue::Timestamp(*value),
        _ => return None,
    })
}
