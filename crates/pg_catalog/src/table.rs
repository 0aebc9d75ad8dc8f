//! Catalog relations for bound queries: their description for the binder, and their rows as SQL values.

use std::sync::Arc;

use binder::tree::{Table, TableColumn};
use bumpalo::Bump;
use catalog::TypeId;
use model::{Datum, Result};
use scalar::{Context, Session};

use crate::cells::{Cell, Column, Relation, Row};
use crate::facts::StatementFacts;

/// The binder's description of a relation. The binder knows `tableoid`, a system column, of every table.
#[must_use]
pub fn described(relation: &Relation) -> Table {
    let column = |column: &Column| TableColumn {
        name: column.name.into(),
        ty: column.type_id(),
        typmod: -1,
        ..TableColumn::default()
    };
    Table {
        oid: relation.oid,
        schema: relation.schema.into(),
        name: relation.name.into(),
        columns: relation.columns.iter().filter(|column| column.name != "tableoid").map(column).collect(),
        ..Table::default()
    }
}

/// A relation in one statement. Its rows are computed when it is scanned.
#[derive(Debug)]
pub struct SystemTable {
    relation: &'static Relation,
    facts: Arc<StatementFacts>,
    session: Arc<Session>,
}

impl SystemTable {
    /// - `session`: its `objects` resolve names in columns of types like `regclass`.
    #[must_use]
    pub fn new(relation: &'static Relation, facts: Arc<StatementFacts>, session: Arc<Session>) -> SystemTable {
        SystemTable { relation, facts, session }
    }

    /// Name and type of each column, also of `tableoid`. All columns may be NULL.
    pub fn columns(&self) -> impl Iterator<Item = (&'static str, TypeId)> + use<> {
        self.relation.columns.iter().map(|column| (column.name, column.type_id()))
    }

    /// Computes the rows.
    #[must_use]
    pub fn rows(&self) -> SystemRows<'_> {
        let rows = (self.relation.rows)(&self.facts);
        SystemRows { relation: self.relation, session: &self.session, rows, arena: Bump::new() }
    }
}

/// The rows of a relation in one statement. They are read column by column.
#[derive(Debug)]
pub struct SystemRows<'a> {
    relation: &'static Relation,
    session: &'a Session,
    rows: Vec<Row>,
    /// Texts of the column that is being read.
    arena: Bump,
}

impl SystemRows<'_> {
    /// Number of rows.
    #[must_use]
    pub fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// Calls `each` with the values of a column, in the order of the rows.
    ///
    /// - `column`: position in [`SystemTable::columns`].
    ///
    /// # Errors
    /// Those of `each`; XX000 if a cell is no value of the column's type.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn for_each_value(&mut self, column: usize, mut each: impl FnMut(&Datum<'_>) -> Result<()>) -> Result<()> {
        let column = &self.relation.columns[column];
        self.arena.reset();
        let ctx = Context { arena: &self.arena, session: self.session };
        let is_standard = self.relation.schema == "information_schema";
        self.rows.iter().try_for_each(|row| each(&value(row, column, is_standard, &ctx)?))
    }
}

/// The value of a column in a row. What a row of `information_schema` omits is NULL.
fn value<'a>(row: &Row, column: &Column, is_standard: bool, ctx: &Context<'a>) -> Result<Datum<'a>> {
    match row.iter().find(|(own, _)| *own == column.name) {
        Some((_, cell)) => cell.datum(column.type_id(), ctx),
        None if is_standard => Ok(Datum::Null),
        None => default(column.type_id()).datum(column.type_id(), ctx),
    }
}

/// The cell that a row omits: false, 0, the empty name or vector, and NULL for texts, arrays and times.
fn default(ty: TypeId) -> Cell {
    match ty {
        TypeId::BOOL => Cell::Bool(false),
        TypeId::INT2 | TypeId::INT4 | TypeId::INT8 | TypeId::FLOAT4 | TypeId::FLOAT8 => Cell::Int(0),
        TypeId::OID | TypeId::REGPROC | TypeId::REGCLASS | TypeId::REGTYPE | XID => Cell::Int(0),
        TypeId::NAME | TypeId::CHAR | TypeId::INT2VECTOR | TypeId::OIDVECTOR => Cell::Text(String::new()),
        _ => Cell::Null,
    }
}

/// `xid`
const XID: TypeId = TypeId(28);
