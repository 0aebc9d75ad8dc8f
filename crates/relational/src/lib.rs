//! Lowers bound queries to relational plans of DataFusion.
//!
//! - [`lower`] makes a `LogicalPlan` of a [`binder::tree::Query`], directly: no name is resolved and no type is chosen
//!   again. DataFusion executes joins, sorts and aggregation; values are PostgreSQL's, computed by crate `scalar` unless
//!   DataFusion's own functions agree (`natives`).
//! - [`arrow`] has PostgreSQL's values in Arrow arrays, for parameters and results.
//! - [`Planner`] makes the operators that DataFusion lacks; it belongs into the session's query planner.
//!
//! A plan belongs to one execution: it has the session's facts (`now()`), and the rows of outer queries pass through
//! cells of the plan. A statement that runs again is lowered again.
//!
//! Invariants: what cannot be lowered is refused with 0A000, never computed otherwise. No input causes a panic.

pub mod arrow;

mod accumulate;
mod aggregates;
mod errors;
mod evaluate;
mod expressions;
mod fold;
mod functions;
mod joins;
mod kernels;
mod keys;
mod lowering;
mod moments;
mod natives;
mod nodes;
mod points;
mod recursion;
mod relations;
mod reuse;
mod set_operations;
mod subqueries;
mod windows;

use std::sync::Arc;

use binder::tree::{Query, Table};
use catalog::TypeId;
use datafusion::logical_expr::{AggregateUDF, Expr as DfExpr, LogicalPlan, ScalarUDF, TableSource};
use datafusion::scalar::ScalarValue;
use model::{Datum, Result};

pub use evaluate::may_grow;
pub use keys::{canonical_floats, without_float_key};
pub use nodes::{Planner, distinct_input, subquery_input};
pub use reuse::is_reusable;

/// Metadata key of an output column's type, a number in `pg_type`.
pub const OID_KEY: &str = "pg:oid";
/// Metadata key of an output column's type modifier.
pub const TYPMOD_KEY: &str = "pg:typmod";

/// Tables, functions and facts of the session that a query is lowered for.
pub trait Environment: Send + Sync {
    /// The rows of a table, `as_of` at an earlier moment, in microseconds since 1970 UTC. Its fields have the names of
    /// the table's columns; those for which `is_used` is false may be missing.
    ///
    /// # Errors
    /// Those of the table.
    fn table(&self, table: &Table, as_of: Option<i64>, is_used: &dyn Fn(&str) -> bool) -> Result<Arc<dyn TableSource>>;

    /// Puts a node for missing time buckets above groups, if one of the keys asks for them. The plan's first columns are
    /// the keys; `input` has the rows that are grouped.
    ///
    /// # Errors
    /// 22023 if the range of the buckets is unknown.
    fn gap_filled(&self, groups: LogicalPlan, keys: &[DfExpr], input: &LogicalPlan) -> Result<LogicalPlan>;

    /// Puts nodes into a plan for functions that only the caller has; the plan is not analyzed yet.
    ///
    /// # Errors
    /// Those of the functions.
    fn with_own_nodes(&self, plan: LogicalPlan) -> Result<LogicalPlan>;

    /// The condition by which [`Environment::with_own_nodes`] recognises a join with the nearest row.
    fn nearest(&self, comparison: DfExpr) -> Option<DfExpr>;

    /// Whether result columns of a type with an Arrow type of its own are texts nevertheless.
    fn is_text(&self, ty: TypeId) -> bool;

    /// Facts of the session and the transaction.
    fn session(&self) -> Arc<scalar::Session>;

    /// A native function, such as `date_trunc`.
    fn function(&self, name: &str) -> Option<Arc<ScalarUDF>>;

    /// A native aggregate.
    fn aggregate(&self, name: &str) -> Option<Arc<AggregateUDF>>;
}

/// Lowers a query. The plan's columns are those of `query.output`, in order, with unique names and the types in their
/// fields' metadata.
///
/// # Errors
/// 0A000 for what cannot be lowered yet; errors of constant LIMITs.
pub fn lower(query: &Query, env: &dyn Environment) -> Result<LogicalPlan> {
    let query = fold::folded(query, &env.session());
    lowering::Lowering::new(&query, env).query()
}

/// The value of a parameter of a type, for the placeholders of a plan. `zone`: the session's, as in its name.
///
/// # Errors
/// 0A000 for a time beyond the range of plans.
pub fn parameter(value: &Datum<'_>, ty: TypeId, zone: &Arc<str>) -> Result<ScalarValue> {
    evaluate::constant(value, ty, zone)
}

#[cfg(test)]
mod tests;
