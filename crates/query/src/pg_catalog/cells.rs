//! Catalog relations as data: columns declared as text, rows as named cells, converted to Arrow when scanned.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow_array::builder::{
    BooleanBuilder, Float32Builder, Float64Builder, Int16Builder, Int32Builder, Int64Builder, ListBuilder,
    StringBuilder, TimestampNanosecondBuilder, UInt32Builder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::MemTable;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use pg::types::Type;

use super::oids::Oid;
use crate::functions::StatementFacts;

/// Field metadata with the type's OID, which is reported to clients whatever the Arrow type.
const OID_KEY: &str = "pg:oid";

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Null,
    Bool(bool),
    /// Any integer type, including oid.
    Int(i64),
    Float(f64),
    Text(String),
    Ints(Vec<i64>),
    Texts(Vec<String>),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl From<bool> for Cell {
    fn from(value: bool) -> Cell {
        Cell::Bool(value)
    }
}

impl From<i64> for Cell {
    fn from(value: i64) -> Cell {
        Cell::Int(value)
    }
}

impl From<i32> for Cell {
    fn from(value: i32) -> Cell {
        Cell::Int(value.into())
    }
}

impl From<Oid> for Cell {
    fn from(value: Oid) -> Cell {
        Cell::Int(value.into())
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Cell {
        value.map_or(Cell::Null, Into::into)
    }
}

/// A row: the cells that differ from their type's default, in the same order in all rows of a relation.
pub(crate) type Row = Vec<(&'static str, Cell)>;

/// `row! { oid: 5, relname: "t" }`
macro_rules! row {
    ($($name:ident : $value:expr),* $(,)?) => {
        vec![$((stringify!($name), $crate::pg_catalog::cells::Cell::from($value))),*]
    };
}
pub(crate) use row;

/// A column of a catalog relation.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    /// Type in `pg_type`.
    pub(crate) ty: &'static Type,
}

/// A catalog relation.
#[derive(Debug)]
pub(crate) struct Relation {
    pub(crate) oid: Oid,
    pub(crate) schema: &'static str,
    pub(crate) name: &'static str,
    pub(crate) view: bool,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: fn(&StatementFacts) -> Vec<Row>,
    /// Whether it can never have rows.
    pub(crate) empty: bool,
    arrow: SchemaRef,
}

impl Relation {
    /// - `oid`: 12,000 and above is a view.
    /// - `columns`: `name type` separated by commas, types as `pg_type` names them, `[]` for arrays.
    pub(crate) fn new(
        (oid, schema, name): (Oid, &'static str, &'static str),
        columns: &'static str,
        rows: Option<fn(&StatementFacts) -> Vec<Row>>,
    ) -> Relation {
        let columns: Vec<Column> = columns.split(',').filter_map(column).collect();
        let fields: Vec<Field> = columns.iter().map(|column| field(column.name, column.ty)).collect();
        Relation {
            oid,
            schema,
            name,
            view: (12_000..).contains(&oid),
            columns,
            rows: rows.unwrap_or(|_| Vec::new()),
            empty: rows.is_none(),
            arrow: Arc::new(Schema::new(fields)),
        }
    }

    fn batch(&self, facts: &StatementFacts) -> Result<RecordBatch> {
        let rows = (self.rows)(facts);
        let columns = self.columns.iter().zip(self.arrow.fields());
        let arrays = columns.map(|(column, field)| array(column, field.data_type(), &rows)).collect();
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(&self.arrow),
            arrays,
            &arrow_array::RecordBatchOptions::new().with_row_count(Some(rows.len())),
        )?)
    }
}

fn column(text: &'static str) -> Option<Column> {
    let (name, ty) = text.trim().split_once(' ')?;
    let ty = match ty.strip_suffix("[]") {
        Some(element) => Type::by_oid(Type::by_name(element)?.array)?,
        None => Type::by_name(ty)?,
    };
    Some(Column { name, ty })
}

/// Arrow field for a column of type `ty`.
pub(crate) fn field(name: &str, ty: &Type) -> Field {
    let metadata = HashMap::from([(OID_KEY.to_owned(), ty.oid.to_string())]);
    Field::new(name, arrow_type(ty), true).with_metadata(metadata)
}

fn arrow_type(ty: &Type) -> DataType {
    if let Some(element) = Type::by_oid(ty.element) {
        return DataType::List(Arc::new(Field::new_list_field(arrow_type(element), true)));
    }
    match ty.name {
        "bool" => DataType::Boolean,
        "int2" => DataType::Int16,
        "int4" => DataType::Int32,
        "int8" => DataType::Int64,
        "oid" | "regproc" | "regclass" | "regtype" | "xid" => DataType::UInt32,
        "float4" => DataType::Float32,
        "float8" => DataType::Float64,
        "timestamptz" => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
        _ => DataType::Utf8,
    }
}

/// Cells of one column over all rows. Cells have the same order in all rows, so the position found in one row is
/// tried first in the next.
struct Cells<'a> {
    rows: std::slice::Iter<'a, Row>,
    name: &'static str,
    hint: usize,
}

impl<'a> Iterator for Cells<'a> {
    type Item = Option<&'a Cell>;

    fn next(&mut self) -> Option<Option<&'a Cell>> {
        let row = self.rows.next()?;
        if row.get(self.hint).is_none_or(|(name, _)| *name != self.name) {
            match row.iter().position(|(name, _)| *name == self.name) {
                Some(at) => self.hint = at,
                None => return Some(None),
            }
        }
        Some(row.get(self.hint).map(|(_, cell)| cell))
    }
}

/// Builds a column. An omitted cell is false, 0, the empty name or vector, and NULL for texts, arrays and times.
fn array(column: &Column, ty: &DataType, rows: &[Row]) -> ArrayRef {
    let cells = Cells { rows: rows.iter(), name: column.name, hint: 0 };
    macro_rules! integers {
        ($builder:ty, $native:ty) => {{
            let mut builder = <$builder>::with_capacity(rows.len());
            cells.for_each(|cell| {
                builder.append_option(integer(cell).and_then(|value| <$native>::try_from(value).ok()))
            });
            Arc::new(builder.finish())
        }};
    }
    match ty {
        DataType::Boolean => {
            let mut builder = BooleanBuilder::with_capacity(rows.len());
            cells.for_each(|cell| builder.append_option(boolean(cell)));
            Arc::new(builder.finish())
        }
        DataType::Int16 => integers!(Int16Builder, i16),
        DataType::Int32 => integers!(Int32Builder, i32),
        DataType::Int64 => integers!(Int64Builder, i64),
        DataType::UInt32 => integers!(UInt32Builder, u32),
        DataType::Float32 => {
            let mut builder = Float32Builder::with_capacity(rows.len());
            cells.for_each(|cell| builder.append_option(float(cell).map(|value| value as f32)));
            Arc::new(builder.finish())
        }
        DataType::Float64 => {
            let mut builder = Float64Builder::with_capacity(rows.len());
            cells.for_each(|cell| builder.append_option(float(cell)));
            Arc::new(builder.finish())
        }
        DataType::Timestamp(..) => {
            let mut builder = TimestampNanosecondBuilder::with_capacity(rows.len()).with_timezone("UTC");
            cells.for_each(|cell| builder.append_option(cell.and_then(|cell| integer(Some(cell)))));
            Arc::new(builder.finish())
        }
        DataType::List(item) => lists(column, item.data_type(), cells),
        _ => {
            let empty = matches!(column.ty.name, "name" | "char");
            let mut builder = StringBuilder::new();
            cells.for_each(|cell| match cell {
                Some(Cell::Text(text)) => builder.append_value(text),
                None if empty => builder.append_value(""),
                _ => builder.append_null(),
            });
            Arc::new(builder.finish())
        }
    }
}

fn boolean(cell: Option<&Cell>) -> Option<bool> {
    match cell {
        None => Some(false),
        Some(Cell::Bool(value)) => Some(*value),
        Some(_) => None,
    }
}

fn integer(cell: Option<&Cell>) -> Option<i64> {
    match cell {
        None => Some(0),
        Some(Cell::Int(value)) => Some(*value),
        Some(_) => None,
    }
}

fn float(cell: Option<&Cell>) -> Option<f64> {
    match cell {
        None => Some(0.0),
        Some(Cell::Float(value)) => Some(*value),
        Some(_) => None,
    }
}

fn lists(column: &Column, item: &DataType, cells: Cells<'_>) -> ArrayRef {
    let vector = column.ty.name.ends_with("vector");
    macro_rules! integer_lists {
        ($builder:ty, $native:ty) => {{
            let mut builder = ListBuilder::new(<$builder>::new());
            cells.for_each(|cell| match cell {
                Some(Cell::Ints(values)) => {
                    builder.append_value(values.iter().map(|value| <$native>::try_from(*value).ok()));
                }
                None if vector => builder.append(true),
                _ => builder.append_null(),
            });
            Arc::new(builder.finish())
        }};
    }
    match item {
        DataType::Int16 => integer_lists!(Int16Builder, i16),
        DataType::Int32 => integer_lists!(Int32Builder, i32),
        DataType::UInt32 => integer_lists!(UInt32Builder, u32),
        DataType::Float32 => {
            let mut builder = ListBuilder::new(Float32Builder::new());
            cells.for_each(|_| builder.append_null());
            Arc::new(builder.finish())
        }
        _ => {
            let mut builder = ListBuilder::new(StringBuilder::new());
            cells.for_each(|cell| match cell {
                Some(Cell::Texts(values)) => builder.append_value(values.iter().map(Some)),
                _ => builder.append_null(),
            });
            Arc::new(builder.finish())
        }
    }
}

/// A relation in one statement. Rows are built when it is scanned, so planning alone costs nothing.
pub(crate) struct CatalogTable {
    relation: &'static Relation,
    facts: Arc<StatementFacts>,
}

impl CatalogTable {
    pub(crate) fn new(relation: &'static Relation, facts: Arc<StatementFacts>) -> CatalogTable {
        CatalogTable { relation, facts }
    }
}

impl fmt::Debug for CatalogTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CatalogTable({}.{})", self.relation.schema, self.relation.name)
    }
}

#[async_trait]
impl TableProvider for CatalogTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.relation.arrow)
    }

    fn table_type(&self) -> TableType {
        if self.relation.view { TableType::View } else { TableType::Base }
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let batch = self.relation.batch(&self.facts)?;
        MemTable::try_new(self.schema(), vec![vec![batch]])?.scan(state, projection, filters, limit).await
    }
}
