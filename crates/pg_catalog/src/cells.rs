//! Catalog relations as data: columns declared as text, rows as named cells. Cells have few types; the type of the
//! column or function decides the SQL value.

use std::sync::Arc;

use catalog::{TypeId, builtin};
use model::{Array, Datum, Result};
use pg::types::Type;
use scalar::Context;

use crate::facts::StatementFacts;
use crate::oids::Oid;

/// A cell of a row, or the result of a function.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Null,
    Bool(bool),
    /// Any integer type, including oid; a `timestamptz` in nanoseconds since 1970.
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

impl Cell {
    /// The SQL value of type `ty`. Cells of types without a variant hold the value's text.
    ///
    /// # Errors
    /// Those of the type's input function.
    pub(crate) fn datum<'a>(&self, ty: TypeId, ctx: &Context<'a>) -> Result<Datum<'a>> {
        match self {
            Cell::Null => Ok(Datum::Null),
            Cell::Bool(value) => Ok(Datum::Bool(*value)),
            Cell::Int(value) if ty == TypeId::TIMESTAMPTZ => Ok(Datum::Timestamptz(value.div_euclid(1_000))),
            Cell::Int(value) => integer(*value, ty).map_or_else(|| scalar::input(&value.to_string(), ty, -1, ctx), Ok),
            Cell::Float(value) => scalar::input(&value.to_string(), ty, -1, ctx),
            Cell::Text(text) if is_text(ty) => Ok(ctx.text(text)),
            Cell::Text(text) => scalar::input(text, ty, -1, ctx),
            Cell::Ints(values) => scalar::input(&list(values, ty), ty, -1, ctx),
            Cell::Texts(values) => {
                let element = builtin().element_of(ty).unwrap_or(TypeId::TEXT);
                let items = values.iter().map(|text| ctx.text(text)).collect();
                Ok(Datum::Array(Arc::new(Array::of(element.0, items))))
            }
        }
    }
}

/// The value of a common type; `None` for other types and outside of the type's range.
fn integer(value: i64, ty: TypeId) -> Option<Datum<'static>> {
    match ty {
        TypeId::INT2 => value.try_into().ok().map(Datum::Int2),
        TypeId::INT4 => value.try_into().ok().map(Datum::Int4),
        TypeId::INT8 => Some(Datum::Int8(value)),
        TypeId::OID => value.try_into().ok().map(Datum::Oid),
        _ => None,
    }
}

/// Whether a value of the type is the text itself.
fn is_text(ty: TypeId) -> bool {
    matches!(ty, TypeId::TEXT | TypeId::NAME | TypeId::VARCHAR | TypeId::CHAR | TypeId::PG_NODE_TREE)
}

/// Numbers in the text form of a vector (`1 2`) or an array (`{1,2}`).
fn list(values: &[i64], ty: TypeId) -> String {
    let numbers: Vec<String> = values.iter().map(ToString::to_string).collect();
    match ty {
        TypeId::INT2VECTOR | TypeId::OIDVECTOR => numbers.join(" "),
        _ => format!("{{{}}}", numbers.join(",")),
    }
}

/// A row: the cells that differ from their type's default, in the same order in all rows of a relation.
pub(crate) type Row = Vec<(&'static str, Cell)>;

/// `row! { oid: 5, relname: "t" }`
macro_rules! row {
    ($($name:ident : $value:expr),* $(,)?) => {
        vec![$((stringify!($name), $crate::cells::Cell::from($value))),*]
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

impl Column {
    pub(crate) fn type_id(&self) -> TypeId {
        TypeId(self.ty.oid)
    }
}

/// A relation of `pg_catalog` or `information_schema`.
#[derive(Debug)]
pub struct Relation {
    pub(crate) oid: Oid,
    pub(crate) schema: &'static str,
    pub(crate) name: &'static str,
    pub(crate) view: bool,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: fn(&StatementFacts) -> Vec<Row>,
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
        Relation { oid, schema, name, view: (12_000..).contains(&oid), columns, rows: rows.unwrap_or(|_| Vec::new()) }
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
