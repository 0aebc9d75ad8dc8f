//! Catalog relations as data: columns declared as text, rows as named cells.

use pg::types::Type;

use super::oids::Oid;
use crate::functions::StatementFacts;

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
