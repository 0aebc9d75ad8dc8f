//! Work on existing rows before a new table version takes effect.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use bumpalo::Bump;
use env::Event;
use model::{Datum, Error, Result, RowForeignKey, RowIndex, RowSchema, SqlState, Type};
use parser::ast;
use rows::RowTable;
use rows::row::RowLayout;

use super::expressions;
use crate::constraints::is_indexed;
use crate::exec::{ExecContext, ReadSource, SubPlans};
use crate::expr::Expr;
use crate::partitions::RowCondition;
use crate::sequences::Numbers;
use crate::statement::Session;
use crate::stored_expressions::parsed;

/// One piece of work on all rows of a table.
pub enum Work {
    /// Rewrite every row to have all columns of the next version. The indexes are rebuilt after it, by further
    /// `Build` items.
    Rewrite(Rewrite),
    /// Check the column at this position of the next version for NULLs; on failure [`Work::violated`].
    NotNull(usize),
    /// Build an index from all rows; 23505 for a duplicate key in a unique one.
    Build(RowIndex),
    /// Validate a CHECK constraint; on failure [`Work::violated`].
    Check(Condition),
    /// Validate a CHECK constraint of a column's domain; this error on failure.
    Domain(Condition, Error),
    /// Check the column at this position for NULLs, which its domain refuses; this error on failure.
    DomainNull(usize, Error),
    /// Validate a foreign key; 23503 on failure.
    ForeignKey(RowForeignKey),
    /// Check that rows are within the bounds of a partition, or in none of them; on failure [`Work::violated`].
    Partition(PartitionCheck),
}

impl Work {
    /// The error for a row that fails this check.
    #[must_use]
    pub fn violated(&self, table: &RowSchema) -> Error {
        let name = &table.name.table;
        match self {
            Work::Rewrite(_) => Error::bug("a rewrite cannot be violated"),
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
            Work::Partition(check) => Error::new(SqlState::CHECK_VIOLATION, check.text.clone()),
            Work::Domain(_, error) | Work::DomainNull(_, error) => error.clone(),
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
            Work::Domain(check, _) => write!(f, "domain check {}", check.name),
            Work::DomainNull(column, _) => write!(f, "domain not null {column}"),
            Work::ForeignKey(key) => write!(f, "foreign key {}", key.name),
            Work::Partition(_) => write!(f, "partition"),
        }
    }
}

/// The condition that rows are within the bounds of a partition, or outside of a new one.
pub struct PartitionCheck {
    pub(super) condition: RowCondition,
    /// Text of the error.
    pub(super) text: String,
}

impl PartitionCheck {
    /// Whether a row passes.
    ///
    /// # Errors
    /// Those of evaluation, class 22; XX001 for malformed row bytes.
    pub fn holds(&self, row: &[u8], session: Session<'_>) -> Result<bool> {
        let (arena, guard) = (Bump::new(), crossbeam_epoch::pin());
        let ctx = ExecContext::new(&[], &arena, &guard, session, SubPlans::default(), ReadSource::Nothing);
        let slot = [Cell::new(Some(row))];
        let frame = expressions::frame(&slot, &ctx);
        self.condition.holds(&frame)
    }
}

/// A CHECK condition bound to the next version of a table.
pub struct Condition {
    name: String,
    sql: String,
    condition: Expr,
}

impl Condition {
    /// Binds the condition `sql` of the constraint `name`.
    pub(super) fn new(name: &str, sql: &str, table: &Arc<RowTable>, session: Session<'_>) -> Result<Condition> {
        Condition::of(name, &parsed(sql)?, table, session)
    }

    /// Like [`Condition::new`], for a parsed condition.
    pub(super) fn of(
        name: &str,
        condition: &ast::Expr,
        table: &Arc<RowTable>,
        session: Session<'_>,
    ) -> Result<Condition> {
        let sql = condition.to_string();
        let condition = expressions::condition(condition, table, session)?;
        Ok(Condition { name: name.to_owned(), sql, condition })
    }

    /// The constraint's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The condition over the columns of the table, as SQL.
    #[must_use]
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// Whether a row passes; NULL passes.
    ///
    /// # Errors
    /// Those of evaluation, class 22; XX001 for malformed row bytes.
    pub fn holds(&self, row: &[u8], session: Session<'_>) -> Result<bool> {
        let (arena, guard) = (Bump::new(), crossbeam_epoch::pin());
        let ctx = ExecContext::new(&[], &arena, &guard, session, SubPlans::default(), ReadSource::Nothing);
        let slot = [Cell::new(Some(row))];
        let frame = expressions::frame(&slot, &ctx);
        Ok(self.condition.eval(&frame)? != Datum::Bool(false))
    }
}

/// A row rewrite: a value for each column of the next version.
pub struct Rewrite {
    pub(super) layout: RowLayout,
    /// Column types and sources; values are cast by assignment.
    pub(super) fields: Vec<(Type, Field)>,
    /// Generated columns, and then hidden ones, which may read these.
    pub(super) generated: [Vec<Generated>; 2],
}

/// A generated column in a rewrite.
pub(super) struct Generated {
    /// Position.
    pub(super) column: usize,
    /// Predicates, like those of [`crate::constraints::GeneratedColumn`]; they are computed before it.
    pub(super) predicates: Vec<usize>,
    /// Value over the new row.
    pub(super) value: Expr,
}

/// The source of a column's value in a rewrite.
#[derive(Clone)]
pub(super) enum Field {
    /// An expression over the old row.
    Expr(Expr),
    /// An expression without columns that takes numbers of sequences or random ones.
    Numbered(Expr),
    /// `nextval` of the sequence with this id.
    Next(u32),
    /// A generated column: computed when all others are known.
    Generated,
}

impl Rewrite {
    /// Computes the new version of a row and appends it.
    ///
    /// - `next`: gives the next value of a sequence by id; the same definition may create the sequence.
    /// - `random`: gives random numbers.
    ///
    /// # Errors
    /// Those of casts, class 22; 54000 for a row that is too large; XX001 for malformed row bytes.
    pub fn row(
        &self,
        old: &[u8],
        session: Session<'_>,
        next: &mut dyn FnMut(u32) -> Result<i64>,
        random: &dyn Fn() -> u64,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let (arena, guard) = (Bump::new(), crossbeam_epoch::pin());
        let numbers = NextNumbers { next: RefCell::new(next), random };
        let ctx = ExecContext::new(&[], &arena, &guard, session, SubPlans::default(), ReadSource::Nothing);
        let slot = [Cell::new(Some(old))];
        let frame = expressions::frame(&slot, &ctx);
        let numbered = Session { numbers: Some(&numbers), ..session };
        let numbered = ExecContext::new(&[], &arena, &guard, numbered, SubPlans::default(), ReadSource::Nothing);
        let numbered = expressions::frame(&[], &numbered);
        let mut values = Vec::with_capacity(self.fields.len());
        for (ty, field) in &self.fields {
            let value = match field {
                Field::Expr(expr) => expr.eval(&frame)?,
                Field::Numbered(expr) => expr.eval(&numbered)?,
                Field::Generated => Datum::Null,
                Field::Next(sequence) => Datum::Int8((numbers.next.borrow_mut())(*sequence)?),
            };
            values.push(rows::coerce(*ty, value)?);
        }
        for generated in self.generated.iter().filter(|generated| !generated.is_empty()) {
            let mut incomplete = Vec::new();
            self.layout.encode(&values, &mut incomplete)?;
            let slot = [Cell::new(Some(&*arena.alloc_slice_copy(&incomplete)))];
            let frame = &expressions::frame(arena.alloc(slot), &ctx);
            for Generated { column, predicates, value } in generated {
                values[*column] = match is_indexed(predicates, &values) {
                    true => rows::coerce(self.fields[*column].0, value.eval(frame)?)?,
                    false => Datum::Null,
                };
            }
        }
        self.layout.encode(&values, out)
    }
}

/// Sequences and random numbers of a rewrite, whose expressions do not ask for the present numbers of sequences.
struct NextNumbers<'n> {
    next: RefCell<&'n mut dyn FnMut(u32) -> Result<i64>>,
    random: &'n dyn Fn() -> u64,
}

impl Numbers for NextNumbers<'_> {
    fn next(&self, sequence: u32) -> Result<std::result::Result<i64, Event>> {
        (self.next.borrow_mut())(sequence).map(Ok)
    }

    fn current(&self, _: u32) -> Option<i64> {
        None
    }

    fn last(&self) -> Option<i64> {
        None
    }

    fn set(&self, _: u32, _: i64, _: bool) -> Result<std::result::Result<(), Event>> {
        Err(Error::bug("a rewrite sets a sequence"))
    }

    fn random(&self) -> u64 {
        (self.random)()
    }
}
