//! SQL over `rows` tables without DataFusion: a statement that crate `binder` bound becomes typed expressions and a fixed
//! access path, and then runs in microseconds.
//!
//! - [`lower`], [`lower_change`], [`prepare`], [`prepare_change`], [`run`]: the entry points; [`Load`]: rows from outside
//!   (COPY, INSERT … SELECT); [`check_postponed`], [`check_all_keys`]: deferred constraints at COMMIT.
//! - `lower`: from bound trees to plans.
//! - `plan`, `predicate`, `from`, `key_cast`, `exec`: access paths, join order, nested loops.
//! - `expr`, `cast`, `types`, `array`, `sequences`, `aggregate`: evaluation.
//! - `statement`, `select`, `sort_limit`, `subquery`, `derived_tables`, `dml`, `constraints`, `foreign_keys`, `deferrable_keys`: statements.
//! - `partition_bounds`, `partitions`: bounds of partitions, the partition of a row.
//! - `ddl`: definition statements.
//! - `stored_expressions`: binds CHECK conditions and defaults, which tables store as SQL.
//!
//! Always true: nothing here waits or does I/O. A statement that must wait for a lock returns the event to wait
//! for, and its caller runs it again. Nothing here takes a savepoint: the caller undoes a statement that fails or
//! waits.

mod aggregate;
mod array;
mod cast;
mod constraints;
mod ddl;
mod deferrable_keys;
pub mod deparse;
mod derived_tables;
mod dml;
mod estimates;
mod exec;
mod expr;
mod foreign_keys;
mod from;
mod inverted;
mod key_cast;
mod lower;
mod partition_bounds;
mod partitions;
mod plan;
mod predicate;
mod row_rules;
mod select;
mod sequences;
mod sort_limit;
mod statement;
mod stored_expressions;
mod subquery;
#[cfg(test)]
mod tests;
mod triggers;
mod types;

pub use array::{ParamType, array_of, array_of_binary, array_of_text};
pub use cast::{Zone, assigned, input, parse, parse_binary};
pub use ddl::{
    Catalog, Change, Condition, Definition, Notice, Object, PartitionCheck, Rewrite, TEMPORARY, Work,
    check_is_updatable, define, find_type, is_system_type, is_temporary, new_relation, no_type, row_type, set_option,
};
pub use deferrable_keys::{check_all_keys, check_keys};
pub use dml::{Incoming, Load, Loaded, Refused};
pub use foreign_keys::check_postponed;
pub use lower::{Lowered, NotLowered, lower, lower_change, lower_load, prepare, prepare_change};
pub use partition_bounds::{bound_text, key_text as partition_key_text, ordered_children, unpruned};
pub use row_rules::{RowRules, ValueOf};
pub use select::Output;
pub use sequences::{Numbers, is_of_sequence};
pub use statement::{Compiled, Ran, Reading, Session, Tables, run, run_with};
pub use triggers::{StatementTrigger, statement_triggers};
