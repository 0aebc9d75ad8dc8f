//! Lowers bound queries to DataFusion's logical plans: no name is resolved and no type is chosen again.

mod aggregates;
mod decimals;
mod expressions;
mod fold;
mod functions;
mod joins;
mod keyed;
mod leading;
mod lowering;
mod recursion;
mod relations;
mod reuse;
mod set_operations;
mod subqueries;
mod windows;

use std::sync::Arc;

use binder::tree::{Query, Table};
use catalog::TypeId;
use datafusion::logical_expr::LogicalPlan;
use model::Result;

use crate::scan::TableSource;

pub use reuse::is_reusable;

/// Tables and facts of the session that a query is lowered for.
pub trait Environment: Send + Sync {
    /// The rows of a table, `as_of` at an earlier moment, in microseconds since 1970 UTC. Its fields have the names of
    /// the table's columns; those for which `is_used` is false may be missing.
    ///
    /// # Errors
    /// Those of the table.
    fn table(&self, table: &Table, as_of: Option<i64>, is_used: &dyn Fn(&str) -> bool) -> Result<TableSource>;

    /// Whether result columns of a type with an Arrow type of its own are texts nevertheless.
    fn is_text(&self, ty: TypeId) -> bool;

    /// Whether texts that stand for values without an Arrow type are in ISO styles, because the server reads them again.
    fn has_plain_texts(&self) -> bool {
        false
    }

    /// Whether result columns keep the encoded values of types without an Arrow type, and the numbers of labels, for code that stores
    /// them.
    fn keeps_values(&self) -> bool {
        false
    }

    /// Facts of the session and the transaction.
    fn session(&self) -> Arc<scalar::Session>;
}

/// Lowers a query. The plan's columns are those of `query.output`, in order, with unique names and the types in their
/// fields' metadata.
///
/// # Errors
/// 0A000 for what cannot be lowered yet; errors of constant LIMITs.
pub(crate) fn lower(query: &Query, env: &dyn Environment) -> Result<LogicalPlan> {
    let query = fold::folded(query, &env.session());
    lowering::Lowering::new(&query, env).query()
}
