//! Queries: SELECT, VALUES, TABLE and what combines them.

use super::{Delete, Expr, FunctionCall, Ident, Insert, Merge, Name, Pos, SortBy, Text, TypeName, Update, WindowSpec};

/// A query. A clause behind parentheses belongs to what is in them, as in PostgreSQL: `(SELECT 1 LIMIT 1) ORDER BY 1` is one query.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    pub with: Option<Box<With>>,
    pub body: QueryBody,
    pub order_by: Vec<SortBy>,
    pub limit: Option<Limit>,
    pub offset: Option<Expr>,
    pub locking: Vec<Locking>,
    pub at: Pos,
}

#[derive(Clone, Debug, PartialEq)]
pub enum QueryBody {
    Select(Box<Select>),
    Values(Vec<Vec<Expr>>),
    SetOperation(Box<SetOperation>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Limit {
    /// LIMIT ALL
    All,
    Count(Expr),
    /// `FETCH FIRST n ROWS WITH TIES`
    WithTies(Expr),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Select {
    pub distinct: Option<DistinctClause>,
    /// Select list, maybe empty.
    pub targets: Vec<Target>,
    pub into: Option<Box<Into>>,
    pub from: Vec<TableExpr>,
    pub filter: Option<Expr>,
    pub group_by: Vec<GroupItem>,
    /// `GROUP BY DISTINCT`
    pub group_distinct: bool,
    pub having: Option<Expr>,
    pub windows: Vec<(Ident, WindowSpec)>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum DistinctClause {
    All,
    On(Vec<Expr>),
}

/// An item of the select list or of RETURNING.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    pub expr: Expr,
    pub alias: Option<Ident>,
}

/// `SELECT … INTO table`
#[derive(Clone, Debug, PartialEq)]
pub struct Into {
    pub table: Name,
    pub persistence: Persistence,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Persistence {
    #[default]
    Permanent,
    Temporary,
    Unlogged,
}

#[derive(Clone, Debug, PartialEq)]
pub enum GroupItem {
    Expr(Expr),
    /// `()`
    Empty,
    Rollup(Vec<Expr>),
    Cube(Vec<Expr>),
    Sets(Vec<GroupItem>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct SetOperation {
    pub op: SetOperator,
    pub all: bool,
    pub left: Query,
    pub right: Query,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOperator {
    Union,
    Intersect,
    Except,
}

#[derive(Clone, Debug, PartialEq)]
pub struct With {
    pub recursive: bool,
    pub ctes: Vec<Cte>,
    pub at: Pos,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Cte {
    pub name: Ident,
    pub columns: Vec<Ident>,
    /// `None` if neither MATERIALIZED nor NOT MATERIALIZED was written.
    pub materialized: Option<bool>,
    pub body: CteBody,
    pub search: Option<Box<SearchClause>>,
    pub cycle: Option<Box<CycleClause>>,
    pub at: Pos,
}

#[derive(Clone, Debug, PartialEq)]
pub enum CteBody {
    Query(Box<Query>),
    Insert(Box<Insert>),
    Update(Box<Update>),
    Delete(Box<Delete>),
    /// Analysis refuses it.
    Merge(Box<Merge>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct SearchClause {
    pub breadth_first: bool,
    pub columns: Vec<Ident>,
    pub sequence: Ident,
    pub at: Pos,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CycleClause {
    pub columns: Vec<Ident>,
    pub mark: Ident,
    /// `TO value DEFAULT default`; true and false if not written.
    pub values: Option<(Expr, Expr)>,
    pub path: Ident,
    pub at: Pos,
}

/// `FOR UPDATE [OF …] [NOWAIT | SKIP LOCKED]`
#[derive(Clone, Debug, PartialEq)]
pub struct Locking {
    pub strength: LockStrength,
    /// Tables of the query; empty for all.
    pub of: Vec<Name>,
    pub wait: LockWait,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockStrength {
    KeyShare,
    Share,
    NoKeyUpdate,
    Update,
}

impl LockStrength {
    /// The clause in SQL.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            LockStrength::KeyShare => "FOR KEY SHARE",
            LockStrength::Share => "FOR SHARE",
            LockStrength::NoKeyUpdate => "FOR NO KEY UPDATE",
            LockStrength::Update => "FOR UPDATE",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockWait {
    Wait,
    SkipLocked,
    NoWait,
}

/// An item of FROM.
#[derive(Clone, Debug, PartialEq)]
pub enum TableExpr {
    Relation(Box<Relation>),
    Subquery(Box<DerivedTable>),
    Function(Box<TableFunction>),
    XmlTable(Box<XmlTable>),
    Join(Box<Join>),
    /// Millrace: PIVOT and UNPIVOT.
    Pivot(Box<Pivot>),
}

/// `source PIVOT (…)` or `source UNPIVOT (…)`
#[derive(Clone, Debug, PartialEq)]
pub struct Pivot {
    pub source: TableExpr,
    pub kind: PivotKind,
    pub alias: Option<Alias>,
    pub at: Pos,
}

#[derive(Clone, Debug, PartialEq)]
pub enum PivotKind {
    /// `aggregate, … FOR column IN (value, …)`: values become columns.
    Columns { aggregates: Vec<Target>, by: Expr, values: Vec<Target> },
    /// `value FOR name IN (column, …)`: columns become rows.
    Rows {
        /// Whether NULLs become rows too.
        nulls: bool,
        value: Ident,
        name: Ident,
        /// Columns, and what stands for their names.
        columns: Vec<(Expr, Text)>,
    },
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Alias {
    pub name: Ident,
    pub columns: Vec<Ident>,
}

/// A table, view or CTE.
#[derive(Clone, Debug, PartialEq)]
pub struct Relation {
    pub name: Name,
    /// ONLY: without the tables that inherit from it.
    pub only: bool,
    pub alias: Option<Alias>,
    pub sample: Option<Box<TableSample>>,
    /// Millrace: `FOR SYSTEM_TIME AS OF moment`.
    pub as_of: Option<Box<Expr>>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TableSample {
    pub method: Name,
    pub args: Vec<Expr>,
    pub repeatable: Option<Expr>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DerivedTable {
    pub lateral: bool,
    pub query: Box<Query>,
    pub alias: Option<Alias>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TableFunction {
    pub lateral: bool,
    /// Written with ROWS FROM.
    pub rows_from: bool,
    /// One, unless written with ROWS FROM. A word like CURRENT_DATE is a function too.
    pub functions: Vec<RowsFrom>,
    pub ordinality: bool,
    pub alias: Option<Alias>,
    /// Definitions of columns behind the alias or AS.
    pub columns: Vec<TableFunctionColumn>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RowsFrom {
    pub function: Expr,
    pub columns: Vec<TableFunctionColumn>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TableFunctionColumn {
    pub name: Ident,
    pub ty: TypeName,
    pub collation: Option<Name>,
    pub at: Pos,
}

#[derive(Clone, Debug, PartialEq)]
pub struct XmlTable {
    pub lateral: bool,
    pub namespaces: Vec<(Expr, Option<Ident>)>,
    pub row: Expr,
    pub document: Expr,
    pub columns: Vec<XmlTableColumn>,
    pub alias: Option<Alias>,
    pub at: Pos,
}

#[derive(Clone, Debug, PartialEq)]
pub struct XmlTableColumn {
    pub name: Ident,
    /// `None` is FOR ORDINALITY.
    pub ty: Option<TypeName>,
    pub path: Option<Expr>,
    pub default: Option<Expr>,
    pub not_null: bool,
    pub at: Pos,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Join {
    pub kind: JoinKind,
    pub natural: bool,
    pub left: TableExpr,
    pub right: TableExpr,
    pub constraint: JoinConstraint,
    /// Alias of the join in parentheses.
    pub alias: Option<Alias>,
    /// Millrace: `ASOF JOIN`.
    pub as_of: Option<Box<AsOfJoin>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    /// CROSS JOIN is one without constraint.
    Inner,
    Left,
    Right,
    Full,
}

#[derive(Clone, Debug, PartialEq)]
pub enum JoinConstraint {
    None,
    On(Expr),
    /// Columns, and the name behind AS.
    Using(Vec<Ident>, Option<Ident>),
}

/// The row of the right table that is nearest on one side, instead of all.
#[derive(Clone, Debug, PartialEq)]
pub struct AsOfJoin {
    /// `MATCH_CONDITION (…)`. Without it the comparison is one of the ON condition's, or the last column of USING.
    pub matching: Option<Expr>,
    pub rows: AsOfRows,
}

/// The rows of an ASOF JOIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsOfRows {
    /// Pairs, by the kind of the join.
    Pairs,
    /// SEMI: rows of the left table with a match.
    Matched,
    /// ANTI: rows of the left table without one.
    Unmatched,
}

/// The function call of a table function, when it is one.
impl TableFunction {
    #[must_use]
    pub fn call(&self) -> Option<&FunctionCall> {
        match &self.functions.first()?.function.kind {
            super::ExprKind::Function(call) => Some(call),
            _ => None,
        }
    }
}

impl Query {
    /// Takes the INTO of the first SELECT.
    pub fn take_into(&mut self) -> Option<Box<Into>> {
        match &mut self.body {
            QueryBody::Select(select) => select.into.take(),
            QueryBody::SetOperation(operation) => operation.left.take_into(),
            QueryBody::Values(_) => None,
        }
    }

    /// A query without clauses around its body.
    #[must_use]
    pub fn of(body: QueryBody, at: Pos) -> Query {
        Query { with: None, body, order_by: Vec::new(), limit: None, offset: None, locking: Vec::new(), at }
    }
}
