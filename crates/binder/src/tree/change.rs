//! Bound changes of tables.
//!
//! A change has a source of rows, and expressions over numbered columns. Numbers tell versions of the changed row apart: its
//! columns before the change, those after it, and those of `excluded` are different columns. Values of a table's row are in the
//! order of the table's columns.
//!
//! Every value has its column's type and, if the column has one, its type modifier: the casts of assignments are in the tree.
//! NOT NULL, CHECK, foreign keys and unique indexes are not: they are the executor's.

use std::sync::Arc;

use catalog::TypeId;
use scalar::{Expr, Subscript};

use super::{Column, Cte, Output, Rel, Subplan, SystemColumns, Table};

/// A bound INSERT, UPDATE, DELETE or MERGE.
#[derive(Clone, Debug)]
pub struct ChangeStatement {
    /// The change. Of a table with children, it is that of the first table whose rows are changed.
    pub change: Change,
    /// The same change of the other tables whose rows are changed.
    pub inherited: Vec<Change>,
    /// Number of `tableoid` of the changed table, if it has children: a constant of each variant.
    pub tableoid: Option<u32>,
    /// The partitioned table that an UPDATE names: its rows may move between the partitions of this table.
    pub routed: Option<Arc<Table>>,
    /// Columns of RETURNING, in order; none without it.
    pub output: Vec<Output>,
    /// All columns by number.
    pub columns: Vec<Column>,
    /// Subqueries in expressions, by number.
    pub subqueries: Vec<Subplan>,
    /// Queries of WITH, by number.
    pub ctes: Vec<Cte>,
    /// Types of the parameters `$1 …`.
    pub parameters: Vec<TypeId>,
}

/// A change of a table.
#[derive(Clone, Debug)]
pub enum Change {
    /// INSERT
    Insert(Box<Insert>),
    /// UPDATE
    Update(Update),
    /// DELETE
    Delete(Delete),
    /// MERGE
    Merge(Merge),
}

/// An INSERT. For each row of `source`: `parts`, then `generated`, then the row is inserted or `conflict` happens, then
/// `returning`.
#[derive(Clone, Debug)]
pub struct Insert {
    /// The table.
    pub table: Arc<Table>,
    /// The rows. Defaults are in it, also where DEFAULT was written.
    pub source: Rel,
    /// A column of `source` for each column of the table. Those of generated columns are NULL.
    pub row: Vec<u32>,
    /// Assignments to elements of the row's arrays, as in `INSERT INTO t (a[1], a[2])`, one after the other. Their values are
    /// columns of `source`; the array before is NULL.
    pub parts: Vec<Assignment>,
    /// Values of generated columns, over `new`.
    pub generated: Vec<Generated>,
    /// ON CONFLICT
    pub conflict: Option<Conflict>,
    /// Conditions for the row afterwards, over `new`.
    pub checks: Vec<RowCheck>,
    /// Number of each column of the row as it is in the table afterwards: inserted, or changed by DO UPDATE.
    pub new: Vec<u32>,
    /// System columns of that row.
    pub system: SystemColumns,
    /// RETURNING: number and value of each column, over `new`. A row for which nothing was done gives none.
    pub returning: Vec<(u32, Expr)>,
    /// The column `tableoid` of a partitioned table, if RETURNING or DO UPDATE reads it.
    pub tableoid: Option<InsertedTable>,
}

/// The table that takes a row, which only the row itself tells.
#[derive(Clone, Debug)]
pub struct InsertedTable {
    /// Number of the column `tableoid`.
    pub column: u32,
    /// The partitions that have rows.
    pub partitions: Vec<Arc<Table>>,
}

/// A condition that a row must meet after it was changed through a view: WITH CHECK OPTION.
#[derive(Clone, Debug)]
pub struct RowCheck {
    /// Name of the view.
    pub view: Box<str>,
    /// The condition, over the columns of the row after the change.
    pub condition: Expr,
}

/// ON CONFLICT.
#[derive(Clone, Debug)]
pub struct Conflict {
    /// Unique indexes in which an equal key is a conflict, as positions in [`Table::unique`]; `None` is all of them.
    pub arbiters: Option<Vec<usize>>,
    /// DO UPDATE; `None` is DO NOTHING.
    pub update: Option<ConflictUpdate>,
}

/// DO UPDATE. The existing row is locked; if `filter` is not true, nothing more is done with it. Then it gets
/// `assignments`, and `generated`.
#[derive(Clone, Debug)]
pub struct ConflictUpdate {
    /// Number of each column of the existing row.
    pub old: Vec<u32>,
    /// System columns of the existing row.
    pub system: SystemColumns,
    /// Number of each column of `excluded`: the row that could not be inserted, with `parts` and generated columns.
    pub excluded: Vec<u32>,
    /// WHERE, over `old` and `excluded`.
    pub filter: Option<Expr>,
    /// Subqueries that give values for several columns.
    pub row_queries: Vec<RowQuery>,
    /// SET, over `old`, `excluded` and the columns of `row_queries`.
    pub assignments: Vec<Assignment>,
    /// Values of generated columns, over [`Insert::new`].
    pub generated: Vec<Generated>,
}

/// An UPDATE. For each row of `input`: `row_queries`, `assignments`, `generated`, then `returning`. A row of the table that
/// `input` has several times is changed once, by the first of them.
#[derive(Clone, Debug)]
pub struct Update {
    /// The table.
    pub table: Arc<Table>,
    /// Number of each column of the row before the change.
    pub old: Vec<u32>,
    /// Rows to change: the scan of the table whose columns are `old`, joined with FROM, with the condition of WHERE.
    pub input: Rel,
    /// `WHERE CURRENT OF cursor`: only the row at which this cursor stands.
    pub current_of: Option<Box<str>>,
    /// Subqueries that give values for several columns.
    pub row_queries: Vec<RowQuery>,
    /// SET, over the columns of `input` and of `row_queries`. All values are computed from the row before the change.
    pub assignments: Vec<Assignment>,
    /// Values of generated columns, over `new`.
    pub generated: Vec<Generated>,
    /// Conditions for the row after the change, over `new`.
    pub checks: Vec<RowCheck>,
    /// Number of each column of the row after the change.
    pub new: Vec<u32>,
    /// System columns of that row.
    pub system: SystemColumns,
    /// RETURNING: number and value of each column, over `new` and the columns of `input` that FROM made.
    pub returning: Vec<(u32, Expr)>,
}

/// A DELETE. A row of the table that `input` has several times is deleted, and returned, once: with the first of them.
#[derive(Clone, Debug)]
pub struct Delete {
    /// The table.
    pub table: Arc<Table>,
    /// Number of each column of the row.
    pub old: Vec<u32>,
    /// Rows to delete: the scan of the table whose columns are `old`, joined with USING, with the condition of WHERE.
    pub input: Rel,
    /// `WHERE CURRENT OF cursor`: only the row at which this cursor stands.
    pub current_of: Option<Box<str>>,
    /// RETURNING: number and value of each column, over the columns of `input`.
    pub returning: Vec<(u32, Expr)>,
}

/// A MERGE. For each row of `input`, the first branch that fits acts: one for rows with or without a partner in the table,
/// whose condition is true. A second change of the same row of the table is error 21000.
#[derive(Clone, Debug)]
pub struct Merge {
    /// The table.
    pub table: Arc<Table>,
    /// Number of each column of the table's row.
    pub old: Vec<u32>,
    /// The data source, joined with the scan of the table whose columns are `old`: an outer join that keeps the rows of the
    /// source if a branch is for rows without partner, else an inner join.
    pub input: Rel,
    /// WHEN, in order.
    pub branches: Vec<MergeBranch>,
}

/// A branch of MERGE.
#[derive(Clone, Debug)]
pub struct MergeBranch {
    /// Whether it is for rows with a partner in the table.
    pub matched: bool,
    /// Condition, over the columns of `input`; of rows without partner over those of the source alone.
    pub condition: Option<Expr>,
    /// The action.
    pub action: MergeAction,
}

/// The action of a branch of MERGE.
#[derive(Clone, Debug)]
pub enum MergeAction {
    /// DO NOTHING
    Nothing,
    /// DELETE
    Delete,
    /// UPDATE
    Update {
        /// Subqueries that give values for several columns.
        row_queries: Vec<RowQuery>,
        /// SET, over the columns of `input` and of `row_queries`.
        assignments: Vec<Assignment>,
        /// Number of each column of the row after the change.
        new: Vec<u32>,
        /// Values of generated columns, over `new`.
        generated: Vec<Generated>,
    },
    /// INSERT
    Insert {
        /// A value for each column of the table, over the columns of the source.
        values: Vec<Expr>,
        /// Assignments to elements of the row's arrays.
        parts: Vec<Assignment>,
        /// Number of each column of the new row.
        new: Vec<u32>,
        /// Values of generated columns, over `new`.
        generated: Vec<Generated>,
    },
}

/// An assignment to a column. A column has one, or several to its elements, which are applied one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// Number of the column in the table, from 0.
    pub column: usize,
    /// Element or slice of the array, or path in the jsonb, that gets the value; empty for the whole column.
    pub subscripts: Vec<Subscript>,
    /// Value, of the type of the column, or of what `subscripts` select.
    pub value: Expr,
}

/// The value of a generated column.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    /// Number of the column in the table, from 0.
    pub column: usize,
    /// Value; it reads no generated column.
    pub value: Expr,
}

/// `SET (a, b) = (SELECT …)`: the subquery is evaluated once for each row. No row of it is NULL in all columns, more than one
/// is error 21000.
#[derive(Clone, Debug)]
pub struct RowQuery {
    /// Number of the subquery.
    pub query: u32,
    /// New numbers for the columns of its result.
    pub columns: Vec<u32>,
}
