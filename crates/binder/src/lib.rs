//! Binds parsed statements: from names and syntax to a tree of typed expressions and relational operators, by PostgreSQL's rules.
//!
//! - [`bind`] binds a query, [`bind_statement`] also changes, [`bind_expression`] an expression of a definition. [`Schema`] is what they ask the database: tables, and the session's facts.
//! - [`tree`] is the result, which executors lower to their own plans.
//!
//! The files follow a query's life: `query` and `from` bind its clauses, `scope` finds names, `expr`, `operator` and `call` bind
//! expressions, `coerce` adds casts, `group`, `window` and `sort` finish a SELECT. `insert`, `update` (also DELETE) and `merge` bind
//! changes; `assign` and `change` have what these share. `session_window` groups rows by gaps of time. `inheritance` replaces
//! tables with children by these. `definition` binds CHECK, DEFAULT and USING, `domain` casts to domains. `view` binds views.
//! `routine` binds calls of users' functions.
//!
//! Invariants: no I/O, no executor. All types, names of columns, errors and their places come from here. A bound tree is well
//! typed: operands have exactly the types that their operator takes, and every cast is in the tree.

mod aggregate;
mod assign;
mod binder;
mod call;
mod change;
mod coerce;
mod conflict;
mod definition;
mod domain;
mod expr;
mod from;
mod group;
mod inheritance;
mod insert;
mod json_rows;
mod locking;
mod merge;
mod name;
mod operator;
mod pivot;
mod query;
mod recursion;
mod routine;
mod row;
mod scope;
mod search;
mod session_window;
mod set_operation;
mod sort;
mod subquery;
mod system;
mod target;
pub mod tree;
mod types;
mod update;
mod view;
mod walk;
mod window;
mod with;

pub use binder::{ApplicationFunction, Schema, bind, bind_statement, data_type};
pub use definition::{DefinitionClause, bind_expression};
pub use domain::{VALUE, domain_condition, domain_levels, user_type};
pub use inheritance::{PartitionComparison, PartitionCondition, PartitionTest};
pub use routine::{NameConflict, Routine, Variable, assigned};
pub use view::{NewView, ViewBase, ViewCheck, ViewQuery, ViewTable, bind_view};
pub use walk::{change, stands_alone, used_columns, visit, visit_operators};
