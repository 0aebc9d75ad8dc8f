//! What a table's rows go through before its next description counts.

use std::cell::Cell;
use std::sync::Arc;

use bumpalo::Bump;
use model::{Datum, Error, Result, RowForeignKey, RowIndex, RowSchema, SqlState, Type};
use rows::RowTable;
use rows::row::RowLayout;

use super::expressions;
use crate::exec::{Parts, Reads, World};
use crate::expr::Expr;
use crate::statement::Session;

/// One thing to be done with all rows of a table.
pub enum Work {
    /// Every row is written anew; it has all columns of the next description then. Indexes are built anew after it, as `Build` says.
    Rewrite(Rewrite),
    /// No row is NULL in the column at this position of the next description; if one is, [`Work::violated`].
    NotNull(usize),
    /// The index is built from all rows, the primary one too. If a key is there twice in a unique one: 23505.
    Build(RowIndex),
    /// Every row passes a CHECK; if one does not, [`Work::violated`].
    Check(Condition),
    /// Every row has the row it refers to; if one has not: 23503.
    ForeignKey(RowForeignKey),
}

impl Work {
    /// What to say when a row of a table does not have what this asks for.
    #[must_use]
    pub fn violated(&self, table: &RowSchema) -> Error {
        let name = &table.name.table;
        match self {
            Work::Rewrite(_) => Error::bug("a row was written anew, and then it was wrong"),
            Work::NotNull(column) => {
                let column = table.columns.get(*column).map_or("", |column| column.name.as_str());
                let text = format!("column \"{column}\" of relation \"{name}\" contains null values");
                Error::new(SqlState::NOT_NULL_VIOLATION, text).about_column(&table.name, column)
            }
            Work::Build(index) => {
                let text = format!("could not create unique index \"{}\"", index.name);
                Error::new(SqlState::UNIQUE_VIOLATION, text).about_constraint(&table.name, &index.name)
            }
            Work::Check(check) => {
                let text =
                    format!("check constraint \"{}\" of relation \"{name}\" is violated by some row", check.name);
                Error::new(SqlState::CHECK_VIOLATION, text).about_constraint(&table.name, &check.name)
            }
            Work::ForeignKey(key) => {
                let text =
                    format!("insert or update on table \"{name}\" violates foreign key constraint \"{}\"", key.name);
                Error::new(SqlState::FOREIGN_KEY_VIOLATION, text).about_constraint(&table.name, &key.name)
            }
        }
    }
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Work::Rewrite(_) => write!(f, "rewrite"),
            Work::NotNull(column) => write!(f, "not null {column}"),
            Work::Build(index) => write!(f, "build {}", index.name),
            Work::Check(check) => write!(f, "check {}", check.name),
            Work::ForeignKey(key) => write!(f, "foreign key {}", key.name),
        }
    }
}

/// A CHECK, ready to be asked about rows of a table's next description.
pub struct Condition {
    name: String,
    condition: Expr,
}

impl Condition {
    /// The check called `name`, whose SQL this is, on a table with this description.
    pub(super) fn new(name: &str, sql: &str, table: &Arc<RowTable>) -> Result<Condition> {
        Ok(Condition { name: name.to_owned(), condition: expressions::condition(&expressions::parsed(sql)?, table)? })
    }

    /// The constraint's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Does a row pass? What is NULL does.
    ///
    /// # Errors
    /// What evaluating gives: class 22; XX001 for bytes that are no row.
    pub fn holds(&self, row: &[u8], session: Session<'_>) -> Result<bool> {
        let (arena, guard) = (Bump::new(), crossbeam_epoch::pin());
        let world = World::new(&[], &arena, &guard, session, Parts::default(), Reads::Nothing);
        let slot = [Cell::new(Some(row))];
        let frame = expressions::frame(&slot, &world);
        Ok(self.condition.eval(&frame)? != Datum::Bool(false))
    }
}

/// How rows of a table are written anew: a value for each column of the next description.
pub struct Rewrite {
    pub(super) layout: RowLayout,
    /// One a column; what it gives is assigned to the type.
    pub(super) fields: Vec<(Type, Field)>,
}

/// Where a value of a row written anew comes from.
pub(super) enum Field {
    /// From the old row, or from no row.
    Expr(Expr),
    /// The next value of the sequence with this number.
    Next(u32),
}

impl Rewrite {
    /// Appends what a row becomes.
    ///
    /// - `next`: gives the next value of the sequence with this number; it may be one that the same definition makes.
    ///
    /// # Errors
    /// What casts give: class 22, 54000 for a row too large; XX001 for bytes that are no row.
    pub fn row(
        &self,
        old: &[u8],
        session: Session<'_>,
        next: &mut dyn FnMut(u32) -> Result<i64>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let (arena, guard) = (Bump::new(), crossbeam_epoch::pin());
        let world = World::new(&[], &arena, &guard, session, Parts::default(), Reads::Nothing);
        let slot = [Cell::new(Some(old))];
        let frame = expressions::frame(&slot, &world);
        let mut values = Vec::with_capacity(self.fields.len());
        for (ty, field) in &self.fields {
            let value = match field {
                Field::Expr(expr) => expr.eval(&frame)?,
                Field::Next(sequence) => Datum::Int8(next(*sequence)?),
            };
            values.push(rows::assign(*ty, value)?);
        }
        self.layout.encode(&values, out)
    }
}
