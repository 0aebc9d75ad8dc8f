//! The bound query: relational operators over numbered columns.
//!
//! Every column that an operator makes has a number that no other column of the query has, so an expression means the same
//! wherever it stands. An operator's output is the columns of its inputs, unless its comment says otherwise. A column that
//! no input has is an outer reference: the operator is inside of a subquery or a lateral join.

use std::sync::Arc;

use catalog::TypeId;
use model::{Identity, Materialized};
use scalar::{Call, Expr};

mod change;

pub use change::*;

/// A bound statement.
#[derive(Clone, Debug)]
pub enum Statement {
    /// A query. Its WITH may have changes in it.
    Query(Box<Query>),
    /// INSERT, UPDATE, DELETE or MERGE.
    Change(Box<ChangeStatement>),
}

/// A bound query.
#[derive(Clone, Debug)]
pub struct Query {
    /// The outermost operator.
    pub root: Rel,
    /// Columns of the result, in order; the root may have others.
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

/// A bound expression outside of a query.
#[derive(Clone, Debug)]
pub struct Expression {
    /// The expression.
    pub expr: Expr,
    /// Number of each column of the table whose row it reads, in the table's order; empty without a table.
    pub row: Vec<u32>,
    /// All columns by number.
    pub columns: Vec<Column>,
}

/// A column that an operator makes.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Name, for messages and EXPLAIN.
    pub name: Box<str>,
    /// Type.
    pub ty: TypeId,
    /// Type modifier; -1 for none.
    pub typmod: i32,
}

/// A column of the result.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// Name.
    pub name: Box<str>,
    /// Number.
    pub column: u32,
    /// Type.
    pub ty: TypeId,
    /// Type modifier; -1 for none.
    pub typmod: i32,
    /// OID of the table and number of the column that the values come from, if they are a table's column as it is.
    pub origin: Option<(u32, i16)>,
}

/// A query within a query.
#[derive(Clone, Debug)]
pub struct Subplan {
    /// The outermost operator.
    pub rel: Rel,
    /// Columns of its result, in order.
    pub columns: Vec<u32>,
}

/// A query of WITH.
#[derive(Clone, Debug)]
pub struct Cte {
    /// Name.
    pub name: Box<str>,
    /// Numbers of the columns.
    pub columns: Vec<u32>,
    /// The rows.
    pub body: CteBody,
    /// MATERIALIZED or NOT MATERIALIZED, if written.
    pub materialized: Option<bool>,
    /// Number of references to it.
    pub references: usize,
}

/// The rows of a query of WITH.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "a statement has one for each query of WITH, which are few")]
pub enum CteBody {
    /// A query without reference to itself; the columns are those of its result.
    Plain(Rel),
    /// The rows of `base`, and those of `step` over the rows that the last step gave ([`Rel::WorkTable`]), until there are no new ones.
    Recursive {
        /// UNION ALL: rows may repeat.
        all: bool,
        /// The part without reference to itself.
        base: Subplan,
        /// The part with one.
        step: Subplan,
    },
    /// A change; the columns are those of its RETURNING, none without. It runs once and to its end, whether and however far
    /// its rows are read. All changes of a statement and its main part see the tables as they were before the statement: a
    /// change is seen by others through its RETURNING alone.
    Change(Box<Change>),
}

/// A table of the catalog.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Number in `pg_class`.
    pub oid: u32,
    /// Schema.
    pub schema: Box<str>,
    /// Name.
    pub name: Box<str>,
    /// Columns.
    pub columns: Vec<TableColumn>,
    /// Numbers of the columns of the primary key, from 0; empty without one, and for a deferrable one, whose keys may repeat.
    pub primary_key: Vec<usize>,
    /// Unique indexes, also that of the primary key.
    pub unique: Vec<UniqueIndex>,
    /// Whether its times have nanoseconds, which constants beside them keep; others have microseconds.
    pub has_nanoseconds: bool,
    /// Whether it is a view.
    pub is_view: bool,
    /// Whether its rows are those of a materialized view, which statements do not change.
    pub materialized: Option<Materialized>,
    /// Whether tables inherit from it, or it has partitions.
    pub has_children: bool,
    /// Whether it is partitioned, and so has no rows of its own.
    pub is_partitioned: bool,
    /// Whether it is a `rows` table, whose rows have system columns.
    pub has_records: bool,
}

impl Table {
    /// Whether it is a table of the system or of a function, which is always found by its name.
    #[must_use]
    pub fn is_of_system(&self) -> bool {
        matches!(&*self.schema, "pg_catalog" | "information_schema" | "()" | "(application)")
    }
}

/// A unique index of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UniqueIndex {
    /// Name; that of the constraint too, if there is one.
    pub name: Box<str>,
    /// Keys, in order.
    pub keys: Vec<IndexKey>,
    /// Condition of a partial index, as SQL over the table's columns.
    pub predicate: Option<Box<str>>,
    /// Whether it belongs to a PRIMARY KEY or UNIQUE constraint.
    pub is_constraint: bool,
    /// Whether the constraint is deferrable, so that keys may repeat within a transaction.
    pub is_deferrable: bool,
}

/// A key of an index.
#[derive(Clone, Debug, PartialEq)]
pub enum IndexKey {
    /// Number of a column, from 0.
    Column(usize),
    /// An expression, as SQL over the table's columns.
    Expr(Box<str>),
}

/// A column of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableColumn {
    /// Name.
    pub name: Box<str>,
    /// Type.
    pub ty: TypeId,
    /// Type modifier; -1 for none.
    pub typmod: i32,
    /// NOT NULL
    pub not_null: bool,
    /// Value in rows that give none, as SQL; of an identity column the call that takes the next value of its sequence.
    pub default: Option<Box<str>>,
    /// Kind of identity column, if it is one.
    pub identity: Option<Identity>,
    /// `GENERATED ALWAYS AS (…) STORED`: the expression, as SQL over the table's columns.
    pub generated: Option<Box<str>>,
}

/// System columns of a row, with their numbers.
pub type SystemColumns = Vec<(SystemColumn, u32)>;

/// A column that the rows of `rows` tables have beside those of their definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemColumn {
    /// `ctid`: the place of the row version ([`scalar::tid_of`]).
    Ctid,
    /// `xmin`: number of the transaction that made the row version.
    Xmin,
    /// `xmax`: number of the transaction that replaces the row version, or 0. It is known of the row that ON CONFLICT DO UPDATE
    /// has changed, by which statements tell such a row from one that was inserted.
    Xmax,
}

impl SystemColumn {
    /// All of them.
    pub const ALL: [SystemColumn; 3] = [SystemColumn::Ctid, SystemColumn::Xmin, SystemColumn::Xmax];

    /// The column of a name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<SystemColumn> {
        SystemColumn::ALL.into_iter().find(|column| column.name() == name)
    }

    /// Name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            SystemColumn::Ctid => "ctid",
            SystemColumn::Xmin => "xmin",
            SystemColumn::Xmax => "xmax",
        }
    }

    /// Type.
    #[must_use]
    pub fn ty(self) -> TypeId {
        match self {
            SystemColumn::Ctid => TypeId::TID,
            SystemColumn::Xmin | SystemColumn::Xmax => TypeId::XID,
        }
    }
}

/// A relational operator.
#[derive(Clone, Debug)]
pub enum Rel {
    /// One row without columns.
    Single,
    /// The rows of a table.
    Scan {
        /// The table.
        table: Arc<Table>,
        /// Number of each column of the table, in its order.
        columns: Vec<u32>,
        /// System columns that the query reads, which are columns of the output too.
        system: SystemColumns,
        /// `FOR SYSTEM_TIME AS OF`: a timestamptz.
        as_of: Option<Box<Expr>>,
    },
    /// Rows of expressions.
    Values {
        /// The rows.
        rows: Vec<Vec<Expr>>,
        /// Number of each column.
        columns: Vec<u32>,
    },
    /// The rows of functions in FROM, side by side; those that end early are continued with NULL.
    Functions {
        /// The functions.
        functions: Vec<TableFunction>,
        /// WITH ORDINALITY: a bigint from 1.
        ordinality: Option<u32>,
    },
    /// A reference to a query of WITH.
    Cte {
        /// Number of the query.
        cte: usize,
        /// New numbers for its columns.
        columns: Vec<u32>,
    },
    /// Within the step of a recursive query: the rows of the last step.
    WorkTable {
        /// The query's number.
        cte: usize,
        /// New numbers for its columns.
        columns: Vec<u32>,
    },
    /// Computed columns. Its output is these alone.
    Project {
        /// Input.
        input: Box<Rel>,
        /// Number and value of each column. A value that is a column may keep its number.
        columns: Vec<(u32, Expr)>,
    },
    /// A row for each row of the functions of sets, side by side; with the columns of the input.
    ProjectSet {
        /// Input.
        input: Box<Rel>,
        /// Calls of set-returning functions.
        sets: Vec<(u32, Call, Vec<Expr>)>,
    },
    /// The rows for which a condition is true.
    Filter {
        /// Input.
        input: Box<Rel>,
        /// Condition.
        condition: Expr,
    },
    /// A join.
    Join {
        /// Kind.
        kind: JoinKind,
        /// Left input.
        left: Box<Rel>,
        /// Right input.
        right: Box<Rel>,
        /// Condition; `None` is true.
        on: Option<Expr>,
        /// Whether the right input refers to columns of the left one.
        lateral: bool,
    },
    /// The row of the right input that is nearest, of those that fulfil the condition.
    AsOfJoin {
        /// Which rows without a match are kept.
        kind: JoinKind,
        /// Left input.
        left: Box<Rel>,
        /// Right input.
        right: Box<Rel>,
        /// Condition without `matching`.
        on: Option<Expr>,
        /// The comparison of the times.
        matching: Expr,
    },
    /// Groups. Its output is the keys, the aggregates and `grouping`.
    Aggregate {
        /// Input.
        input: Box<Rel>,
        /// Grouping expressions.
        keys: Vec<(u32, Expr)>,
        /// Grouping sets, as positions of keys; `None` is one set of all. In rows of a set the other keys are NULL.
        sets: Option<Vec<Vec<usize>>>,
        /// Aggregates.
        aggregates: Vec<(u32, AggregateCall)>,
        /// GROUPING(…) by positions of keys: an integer with a bit for each that the row's set has not, the first one highest.
        grouping: Vec<(u32, Vec<usize>)>,
    },
    /// Window functions; with the columns of the input.
    Window {
        /// Input.
        input: Box<Rel>,
        /// The functions.
        calls: Vec<(u32, WindowCall)>,
    },
    /// The first one of rows that agree in some columns (for DISTINCT ON the first one of the input's order).
    Distinct {
        /// Input.
        input: Box<Rel>,
        /// The columns.
        columns: Vec<u32>,
    },
    /// Sorts.
    Sort {
        /// Input.
        input: Box<Rel>,
        /// Sort keys.
        keys: Vec<SortKey>,
    },
    /// LIMIT and OFFSET.
    Limit {
        /// Input.
        input: Box<Rel>,
        /// Number of rows, a bigint without columns; `None` and NULL are all.
        limit: Option<Expr>,
        /// Rows left out before, a bigint without columns.
        offset: Option<Expr>,
        /// WITH TIES: also rows that are equal to the last one by these keys.
        ties: Option<Vec<SortKey>>,
    },
    /// `FOR UPDATE` and its like: locks the rows of tables from which the rows of its input are made, and leaves out a row if
    /// one of them is deleted by then, or changed so that it is no more found. It stands below LIMIT and above ORDER BY, as in
    /// PostgreSQL: rows that LIMIT leaves out are not locked.
    Lock {
        /// Input.
        input: Box<Rel>,
        /// The tables whose rows are locked. Their scans are below, maybe within joins; those of subqueries in FROM have an
        /// operator of their own there.
        locks: Vec<RowLock>,
    },
    /// UNION, INTERSECT, EXCEPT. Its output is `columns`.
    SetOperation {
        /// Operation.
        op: parser::ast::SetOperator,
        /// ALL
        all: bool,
        /// Left input, and its columns.
        left: Box<Subplan>,
        /// Right input, and its columns of the same types.
        right: Box<Subplan>,
        /// Number of each column.
        columns: Vec<u32>,
    },
}

/// The rows of a table that a query locks.
#[derive(Clone, Debug)]
pub struct RowLock {
    /// The table.
    pub table: Arc<Table>,
    /// Columns of the scan, which tell it from others of the same table.
    pub columns: Vec<u32>,
    /// Strength of the lock: the strongest one of the clauses that name the table.
    pub strength: parser::ast::LockStrength,
    /// Behaviour if another transaction has the lock: NOWAIT if a clause says it, else SKIP LOCKED if one does.
    pub wait: parser::ast::LockWait,
}

/// A function in FROM.
#[derive(Clone, Debug)]
pub struct TableFunction {
    /// A call, of a set-returning function or not.
    pub call: Call,
    /// Arguments.
    pub arguments: Vec<Expr>,
    /// Whether it gives rows; else it is one row of its value.
    pub is_set: bool,
    /// Whether the columns are the fields of a row rather than the value.
    pub is_record: bool,
    /// Number of each column. A function that returns `record`, without OUT parameters, has those of its column definition
    /// list: their names and types are what it is asked for.
    pub columns: Vec<u32>,
}

/// Kinds of joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    /// Pairs that fulfil the condition.
    Inner,
    /// Pairs, and rows of the left input without partner.
    Left,
    /// Pairs, and rows of the right input without partner.
    Right,
    /// Pairs, and rows without partner of both inputs.
    Full,
}

/// A call of an aggregate.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregateCall {
    /// The aggregate.
    pub call: Call,
    /// Arguments; for ordered-set aggregates the direct ones, which have one value in each group; for hypothetical-set
    /// aggregates one for each key of `order_by`, of its type.
    pub arguments: Vec<Expr>,
    /// DISTINCT
    pub distinct: bool,
    /// ORDER BY within the call, or that of WITHIN GROUP.
    pub order_by: Vec<SortKey>,
    /// Whether `order_by` is that of WITHIN GROUP.
    pub within_group: bool,
    /// FILTER
    pub filter: Option<Expr>,
}

/// A call of a window function, or of an aggregate over a window.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowCall {
    /// The function.
    pub call: Call,
    /// Arguments.
    pub arguments: Vec<Expr>,
    /// FILTER, of aggregates.
    pub filter: Option<Expr>,
    /// PARTITION BY
    pub partition_by: Vec<Expr>,
    /// ORDER BY
    pub order_by: Vec<SortKey>,
    /// Frame.
    pub frame: Frame,
}

/// A window's frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// Unit.
    pub unit: parser::ast::FrameUnit,
    /// First row.
    pub start: Bound,
    /// Last row.
    pub end: Bound,
    /// Rows left out.
    pub exclude: parser::ast::FrameExclude,
}

/// A bound of a frame. Offsets are without columns: of ROWS and GROUPS a bigint, of RANGE of the type that is added to the sort key.
#[derive(Clone, Debug, PartialEq)]
pub enum Bound {
    /// Start of the partition.
    UnboundedPreceding,
    /// Rows before.
    Preceding(Expr),
    /// The current row, or its peers.
    CurrentRow,
    /// Rows behind.
    Following(Expr),
    /// End of the partition.
    UnboundedFollowing,
}

/// A sort key.
#[derive(Clone, Debug, PartialEq)]
pub struct SortKey {
    /// Value.
    pub expr: Expr,
    /// DESC
    pub descending: bool,
    /// NULLS FIRST
    pub nulls_first: bool,
}

impl Rel {
    /// Appends the numbers of the output's columns.
    pub fn outputs(&self, into: &mut Vec<u32>) {
        match self {
            Rel::Single => {}
            Rel::Scan { columns, system, .. } => {
                into.extend(columns.iter().chain(system.iter().map(|(_, number)| number)))
            }
            Rel::Values { columns, .. }
            | Rel::Cte { columns, .. }
            | Rel::WorkTable { columns, .. }
            | Rel::SetOperation { columns, .. } => into.extend(columns),
            Rel::Functions { functions, ordinality } => {
                into.extend(functions.iter().flat_map(|function| &function.columns).chain(ordinality));
            }
            Rel::Project { columns, .. } => into.extend(columns.iter().map(|(column, _)| column)),
            Rel::ProjectSet { input, sets } => {
                input.outputs(into);
                into.extend(sets.iter().map(|(column, ..)| column));
            }
            Rel::Join { left, right, .. } | Rel::AsOfJoin { left, right, .. } => {
                left.outputs(into);
                right.outputs(into);
            }
            Rel::Aggregate { keys, aggregates, grouping, .. } => {
                into.extend(keys.iter().map(|(column, _)| column));
                into.extend(aggregates.iter().map(|(column, _)| column));
                into.extend(grouping.iter().map(|(column, _)| column));
            }
            Rel::Window { input, calls } => {
                input.outputs(into);
                into.extend(calls.iter().map(|(column, _)| column));
            }
            Rel::Filter { input, .. }
            | Rel::Distinct { input, .. }
            | Rel::Sort { input, .. }
            | Rel::Lock { input, .. }
            | Rel::Limit { input, .. } => {
                input.outputs(into);
            }
        }
    }
}
