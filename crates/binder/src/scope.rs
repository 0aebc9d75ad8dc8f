//! Scopes: the names that a query can use.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::sync::Arc;

use model::{Error, Result, SqlState};
use parser::ast::{Ident, Locking, Pos};
use rustc_hash::FxHashSet;
use scalar::{Call, Expr};

use crate::binder::error;
use crate::tree::{AggregateCall, RowLock, Table, WindowCall};

/// Names of one query level. Levels are nested: a subquery also sees the names around it.
pub(crate) struct Scope<'p> {
    pub(crate) parent: Option<&'p Scope<'p>>,
    /// Tables of FROM.
    pub(crate) tables: RefCell<Vec<Source>>,
    /// Queries of WITH, by name.
    pub(crate) ctes: RefCell<Vec<CteName>>,
    /// The clause that is being bound.
    pub(crate) clause: Cell<Clause>,
    /// While FROM is bound: whether its earlier items can be referred to.
    pub(crate) lateral: Cell<Lateral>,
    /// Columns that FROM makes.
    pub(crate) own: RefCell<FxHashSet<u32>>,
    /// Aggregates, window functions and set-returning functions of this level, with the columns that they become.
    pub(crate) aggregates: RefCell<Vec<(u32, AggregateCall)>>,
    pub(crate) windows: RefCell<Vec<(u32, WindowCall)>>,
    pub(crate) sets: RefCell<Vec<(u32, Call, Vec<Expr>)>>,
    /// Places of the set-returning functions.
    pub(crate) set_places: RefCell<Vec<Pos>>,
    /// GROUPING(…) with its arguments.
    pub(crate) grouping: RefCell<Vec<(u32, Vec<Expr>, Pos)>>,
    /// Definitions of the WINDOW clause.
    pub(crate) window_names: RefCell<Vec<(Ident, parser::ast::WindowSpec)>>,
    /// FOR UPDATE and its like: of this query, and of those around it that lock what it reads.
    pub(crate) locking: Vec<Locking>,
    /// Tables of FROM that they lock.
    pub(crate) locks: RefCell<Vec<RowLock>>,
    /// Names of FROM that they were found to mean.
    pub(crate) locked_names: RefCell<Vec<Ident>>,
}

/// Whether the items of FROM that are bound already can be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lateral {
    /// FROM is complete.
    Done,
    /// A subquery without LATERAL is being bound.
    Hidden,
    /// A subquery with LATERAL, or a function.
    Visible,
}

/// The clauses that differ in what they allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clause {
    SelectList,
    Where,
    Having,
    OrderBy,
    GroupBy,
    DistinctOn,
    JoinOn,
    From,
    Limit,
    Offset,
    Values,
    /// The only row of the VALUES of an INSERT.
    ValuesSingle,
    UpdateSource,
    Returning,
    MergeWhen,
    IndexExpression,
    IndexPredicate,
    /// The condition of a CHECK constraint.
    Check,
    /// The default of a column.
    Default,
    /// USING of ALTER COLUMN … TYPE.
    Using,
    /// The expression of a generated column.
    Generated,
    /// An expression of a partition key.
    PartitionKey,
    /// A value of the bound of a partition.
    PartitionBound,
    Filter,
    WindowPartition,
    WindowOrder,
    WindowFrame,
    AggregateArgument,
    WindowArgument,
}

impl Clause {
    /// Name in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Clause::SelectList => "SELECT",
            Clause::Where => "WHERE",
            Clause::Having => "HAVING",
            Clause::OrderBy => "ORDER BY",
            Clause::GroupBy => "GROUP BY",
            Clause::DistinctOn => "DISTINCT ON",
            Clause::JoinOn => "JOIN conditions",
            Clause::From => "functions in FROM",
            Clause::Limit => "LIMIT",
            Clause::Offset => "OFFSET",
            Clause::Values | Clause::ValuesSingle => "VALUES",
            Clause::UpdateSource => "UPDATE",
            Clause::Returning => "RETURNING",
            Clause::MergeWhen => "MERGE WHEN conditions",
            Clause::IndexExpression => "index expressions",
            Clause::IndexPredicate => "index predicates",
            Clause::Check => "check constraints",
            Clause::Default => "DEFAULT expressions",
            Clause::Using => "transform expressions",
            Clause::Generated => "column generation expressions",
            Clause::PartitionKey => "partition key expressions",
            Clause::PartitionBound => "partition bound",
            Clause::Filter => "FILTER",
            Clause::WindowPartition => "window PARTITION BY",
            Clause::WindowOrder => "window ORDER BY",
            Clause::WindowFrame => "window frame",
            Clause::AggregateArgument | Clause::WindowArgument => "arguments",
        }
    }

    /// Name of one expression in messages, if the clause belongs to a definition: it has no subqueries.
    pub(crate) fn definition(self) -> Option<&'static str> {
        match self {
            Clause::IndexExpression => Some("index expression"),
            Clause::IndexPredicate => Some("index predicate"),
            Clause::Check => Some("check constraint"),
            Clause::Default => Some("DEFAULT expression"),
            Clause::Using => Some("transform expression"),
            Clause::Generated => Some("column generation expression"),
            Clause::PartitionKey => Some("partition key expression"),
            Clause::PartitionBound => Some("partition bound"),
            _ => None,
        }
    }
}

/// A query of WITH as names are looked up.
#[derive(Clone)]
pub(crate) struct CteName {
    pub(crate) name: Ident,
    pub(crate) columns: Vec<Ident>,
    pub(crate) cte: usize,
    /// While the step of a recursive query is bound.
    pub(crate) is_recursing: bool,
    /// Whether it is a change without RETURNING, which nothing can refer to.
    pub(crate) has_no_rows: bool,
    /// Number of its last columns that `*` leaves out in the query itself.
    pub(crate) hidden: usize,
}

/// Kinds of items of FROM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceKind {
    Table,
    /// The table that the statement changes: items of FROM cannot refer to it.
    Target,
    Subquery,
    Function,
    Cte,
    /// The reference of a recursive query to itself.
    Recursion,
    Join,
}

/// An item of FROM.
#[derive(Clone)]
pub(crate) struct Source {
    /// Name by which columns are qualified; empty for a join without alias.
    pub(crate) name: Ident,
    pub(crate) kind: SourceKind,
    /// The table, if it is one.
    pub(crate) table: Option<Arc<Table>>,
    /// Whether it has an alias; without one, its columns can be qualified with the schema too.
    pub(crate) has_alias: bool,
    pub(crate) columns: Vec<SourceColumn>,
    /// Whether `name.column` finds it.
    pub(crate) by_table: bool,
    /// Whether `column` finds it, and `*` includes it.
    pub(crate) by_column: bool,
    /// Whether the value of a single column stands for the row: a function of a scalar type.
    pub(crate) is_scalar: bool,
    /// Whether only lateral items can refer to it: FROM is not complete.
    pub(crate) lateral_only: bool,
    /// Number of the column `tableoid`, of a table with children.
    pub(crate) tableoid: Option<u32>,
    /// The first column of a row with system columns, which are known by it.
    pub(crate) row: Option<u32>,
    /// Whether an outer join gives rows of NULLs for it.
    pub(crate) is_nullable: bool,
}

pub(crate) fn ambiguous(name: &Ident, at: Pos) -> Error {
    error(SqlState::AMBIGUOUS_COLUMN, format!("column reference \"{name}\" is ambiguous"), at)
}

/// A column of an item of FROM.
#[derive(Clone)]
pub(crate) struct SourceColumn {
    pub(crate) name: Ident,
    /// A column, or what USING merges.
    pub(crate) expr: Expr,
    /// Whether `*` leaves it out: SEARCH or CYCLE added it to the query that is being bound.
    pub(crate) is_added: bool,
}

/// The meaning of a name.
pub(crate) enum Found {
    Column(SourceColumn),
    /// The system column of this name of an item of FROM.
    System(Source),
    Row(Source),
}

/// Maximum number of edits between names that are similar.
const SIMILAR_MAX: usize = 3;

/// Columns with names similar to one that there is not.
struct Near {
    /// Distance of those found; a bar for others if there are too many of them.
    distance: usize,
    /// At most two.
    found: Vec<String>,
}

impl Near {
    /// A column of a table; `penalty` is the distance of the table's name from the one that was written.
    fn offer(&mut self, table: &str, column: &str, written: &str, penalty: usize) {
        let distance = edits(written, column);
        if penalty > self.distance || distance > written.len() / 2 {
            return;
        }
        let distance = distance + penalty;
        let shown = format!("{table}.{column}");
        match distance.cmp(&self.distance) {
            Ordering::Less => {
                self.distance = distance;
                self.found = vec![shown];
            }
            // Three that are equally near help nobody.
            Ordering::Equal if self.found.len() == 2 => {
                self.found.clear();
                self.distance = distance.saturating_sub(1);
            }
            Ordering::Equal if distance <= SIMILAR_MAX => self.found.push(shown),
            _ => {}
        }
    }
}

/// Levenshtein distance of two names.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (at, one) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, other) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(one != *other);
            diagonal = row[column + 1];
            row[column + 1] = substituted.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

impl<'p> Scope<'p> {
    pub(crate) fn new(parent: Option<&'p Scope<'p>>) -> Scope<'p> {
        Scope {
            parent,
            tables: RefCell::default(),
            ctes: RefCell::default(),
            clause: Cell::new(Clause::SelectList),
            lateral: Cell::new(Lateral::Done),
            own: RefCell::default(),
            aggregates: RefCell::default(),
            windows: RefCell::default(),
            sets: RefCell::default(),
            set_places: RefCell::default(),
            grouping: RefCell::default(),
            window_names: RefCell::default(),
            locking: Vec::new(),
            locks: RefCell::default(),
            locked_names: RefCell::default(),
        }
    }

    /// This scope and those around it, innermost first.
    pub(crate) fn levels<'s>(&'s self) -> impl Iterator<Item = &'s Scope<'p>>
    where
        'p: 's,
    {
        let mut next: Option<&'s Scope<'p>> = Some(self);
        std::iter::from_fn(move || {
            let scope = next?;
            next = scope.parent;
            Some(scope)
        })
    }

    fn can_see(&self, source: &Source) -> bool {
        match self.lateral.get() {
            Lateral::Done | Lateral::Visible => true,
            Lateral::Hidden => !source.lateral_only,
        }
    }

    /// The query of WITH of a name.
    pub(crate) fn cte(&self, name: &str) -> Option<CteName> {
        self.levels().find_map(|scope| scope.ctes.borrow().iter().rev().find(|cte| cte.name == name).cloned())
    }

    /// Refuses a lateral reference to the table that the statement changes.
    fn check_lateral(&self, source: &Source, at: Pos) -> Result<()> {
        if source.kind != SourceKind::Target || !source.lateral_only {
            return Ok(());
        }
        let name = &source.name;
        let text = format!("invalid reference to FROM-clause entry for table \"{name}\"");
        let hint =
            format!("There is an entry for table \"{name}\", but it cannot be referenced from this part of the query.");
        Err(error(SqlState::INVALID_COLUMN_REFERENCE, text, at).with_hint(hint))
    }

    /// Refuses names of columns in a default and in the bound of a partition.
    ///
    /// # Errors
    /// 0A000.
    pub(crate) fn check_columns(&self, at: Pos) -> Result<()> {
        let what = match self.clause.get() {
            Clause::Default => "DEFAULT expression",
            Clause::PartitionBound => "partition bound expression",
            _ => return Ok(()),
        };
        Err(error(SqlState::FEATURE_NOT_SUPPORTED, format!("cannot use column reference in {what}"), at))
    }

    /// Finds the meaning of an unqualified name.
    ///
    /// # Errors
    /// 42703, 42702; 0A000 where there are no columns.
    pub(crate) fn name(&self, name: &Ident, at: Pos) -> Result<Found> {
        self.check_columns(at)?;
        for scope in self.levels() {
            let tables = scope.tables.borrow();
            let visible = tables.iter().filter(|source| source.by_column && scope.can_see(source));
            let named = |column: &&SourceColumn| column.name == *name;
            let mut matches =
                visible.flat_map(|source| source.columns.iter().filter(named).map(move |column| (source, column)));
            if let Some((source, first)) = matches.next() {
                let is_of = |other: &Source| {
                    other.has_system_column(name) && !other.table.as_ref().is_some_and(|table| table.is_of_system())
                };
                let mut others = tables.iter().filter(|other| other.by_column && scope.can_see(other));
                if matches.next().is_some() || others.any(|other| !std::ptr::eq(other, source) && is_of(other)) {
                    return Err(ambiguous(name, at));
                }
                scope.check_lateral(source, at)?;
                return Ok(Found::Column(first.clone()));
            }
            let visible = tables.iter().filter(|source| source.by_column && scope.can_see(source));
            let mut matches = visible.filter(|source| source.has_system_column(name));
            if let Some(source) = matches.next() {
                if matches.next().is_some() {
                    return Err(ambiguous(name, at));
                }
                return Ok(Found::System(source.clone()));
            }
        }
        if let Ok(Some(source)) = self.source(None, name, at) {
            return Ok(Found::Row(source));
        }
        Err(self.no_column(None, name, at))
    }

    /// Error for a column that there is not, of the table `of` if it was written. The hint names one or two with similar names,
    /// or the table that has it and cannot be used.
    pub(crate) fn no_column(&self, of: Option<&str>, name: &str, at: Pos) -> Error {
        let text = match of {
            Some(table) => format!("column {table}.{name} does not exist"),
            None => format!("column \"{name}\" does not exist"),
        };
        let missing = error(SqlState::UNDEFINED_COLUMN, text, at);
        let mut near = Near { distance: SIMILAR_MAX + 1, found: Vec::new() };
        for scope in self.levels() {
            for source in scope.tables.borrow().iter().filter(|source| source.kind != SourceKind::Join) {
                let penalty = of.map_or(0, |table| edits(table, &source.name));
                if source.columns.iter().any(|column| column.name == *name) {
                    let table = &source.name;
                    return missing.with_hint(format!(
                        "There is a column named \"{name}\" in table \"{table}\", but it cannot be referenced from this part of the query."
                    ));
                }
                source.columns.iter().for_each(|column| near.offer(&source.name, &column.name, name, penalty));
            }
        }
        match near.found.as_slice() {
            [] => missing,
            [one] => missing.with_hint(format!("Perhaps you meant to reference the column \"{one}\".")),
            [one, other, ..] => missing
                .with_hint(format!("Perhaps you meant to reference the column \"{one}\" or the column \"{other}\".")),
        }
    }

    /// The item of FROM of a name; `None` if there is none.
    ///
    /// # Errors
    /// 42P09 if there are several at the innermost level that has one; 0A000 in a default.
    pub(crate) fn source(&self, schema: Option<&str>, name: &str, at: Pos) -> Result<Option<Source>> {
        self.check_columns(at)?;
        for scope in self.levels() {
            let tables = scope.tables.borrow();
            let fits = |source: &&Source| {
                let in_schema = match schema {
                    None => true,
                    Some(schema) => {
                        !source.has_alias && source.table.as_ref().is_some_and(|table| &*table.schema == schema)
                    }
                };
                source.by_table && in_schema && source.name == name && scope.can_see(source)
            };
            let mut matches = tables.iter().filter(fits);
            if let Some(first) = matches.next() {
                if matches.next().is_some() {
                    let text = format!("table reference \"{name}\" is ambiguous");
                    return Err(error(SqlState("42P09"), text, at));
                }
                scope.check_lateral(first, at)?;
                return Ok(Some(first.clone()));
            }
        }
        Ok(None)
    }

    /// Error for a table that is not in FROM, or not where it can be used.
    pub(crate) fn no_source(&self, name: &str, at: Pos) -> Error {
        let is_hidden = self.levels().any(|scope| scope.tables.borrow().iter().any(|source| source.name == name));
        // A table that has an alias is known by that alone.
        let aliased = self.levels().find_map(|scope| {
            let tables = scope.tables.borrow();
            let found = tables.iter().find(|source| source.table.as_ref().is_some_and(|table| &*table.name == name));
            found.map(|source| source.name.clone())
        });
        let invalid = || {
            error(SqlState::UNDEFINED_TABLE, format!("invalid reference to FROM-clause entry for table \"{name}\""), at)
        };
        match (is_hidden, aliased) {
            (true, _) => invalid().with_hint(format!(
                "There is an entry for table \"{name}\", but it cannot be referenced from this part of the query."
            )),
            (false, Some(alias)) => {
                invalid().with_hint(format!("Perhaps you meant to reference the table alias \"{alias}\"."))
            }
            (false, None) => {
                error(SqlState::UNDEFINED_TABLE, format!("missing FROM-clause entry for table \"{name}\""), at)
            }
        }
    }

    /// The innermost level that makes one of these columns.
    pub(crate) fn owner<'s>(&'s self, columns: &FxHashSet<u32>) -> Option<&'s Scope<'p>>
    where
        'p: 's,
    {
        self.levels().find(|scope| {
            let own = scope.own.borrow();
            let aggregates = scope.aggregates.borrow();
            columns.iter().any(|column| own.contains(column) || aggregates.iter().any(|(other, _)| other == column))
        })
    }

    pub(crate) fn has_aggregates(&self) -> bool {
        !self.aggregates.borrow().is_empty() || !self.grouping.borrow().is_empty()
    }
}
