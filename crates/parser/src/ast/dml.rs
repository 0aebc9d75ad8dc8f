//! INSERT, UPDATE, DELETE and MERGE.

use super::{Expr, Ident, Name, Pos, Query, Step, TableExpr, Target, With};

/// The table that a statement changes.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetTable {
    pub name: Name,
    pub only: bool,
    pub alias: Option<Ident>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Insert {
    pub with: Option<Box<With>>,
    pub table: TargetTable,
    /// Empty for all.
    pub columns: Vec<TargetColumn>,
    pub overriding: Option<Overriding>,
    /// `None` is DEFAULT VALUES.
    pub source: Option<Box<Query>>,
    pub on_conflict: Option<Box<OnConflict>>,
    pub returning: Vec<Target>,
}

/// A column, or a part of one, that is assigned to.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetColumn {
    pub name: Ident,
    pub steps: Vec<Step>,
    pub at: Pos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overriding {
    User,
    System,
}

#[derive(Clone, Debug, PartialEq)]
pub struct OnConflict {
    pub target: Option<ConflictTarget>,
    pub action: ConflictAction,
    pub at: Pos,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ConflictTarget {
    Index { elements: Vec<IndexElement>, filter: Option<Expr>, at: Pos },
    Constraint(Ident),
}

#[derive(Clone, Debug, PartialEq)]
pub enum ConflictAction {
    Nothing,
    Update { set: Vec<SetClause>, filter: Option<Expr> },
}

/// A column or expression of an index.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexElement {
    pub key: IndexKey,
    pub collation: Option<Name>,
    pub operator_class: Option<Name>,
    pub operator_class_options: Vec<super::RelOption>,
    pub direction: super::SortDirection,
    pub nulls: super::NullsOrder,
}

#[derive(Clone, Debug, PartialEq)]
pub enum IndexKey {
    Column(Ident),
    Expr(Expr),
}

#[derive(Clone, Debug, PartialEq)]
pub enum SetClause {
    One(TargetColumn, Expr),
    /// `(a, b) = …`: a row, a subquery, or anything that analysis refuses.
    Many(Vec<TargetColumn>, Expr),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    pub with: Option<Box<With>>,
    pub table: TargetTable,
    pub set: Vec<SetClause>,
    pub from: Vec<TableExpr>,
    pub filter: Option<Expr>,
    pub returning: Vec<Target>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    pub with: Option<Box<With>>,
    pub table: TargetTable,
    pub using: Vec<TableExpr>,
    pub filter: Option<Expr>,
    pub returning: Vec<Target>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Merge {
    pub with: Option<Box<With>>,
    pub table: TargetTable,
    pub source: TableExpr,
    pub on: Expr,
    pub branches: Vec<MergeBranch>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct MergeBranch {
    pub matched: bool,
    pub condition: Option<Expr>,
    pub action: MergeAction,
}

#[derive(Clone, Debug, PartialEq)]
pub enum MergeAction {
    Nothing,
    Delete,
    Update(Vec<SetClause>),
    /// Without values: DEFAULT VALUES.
    Insert {
        columns: Vec<TargetColumn>,
        overriding: Option<Overriding>,
        values: Option<Vec<Expr>>,
    },
}
