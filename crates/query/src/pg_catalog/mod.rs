//! PostgreSQL's system catalog for clients: the relations of `pg_catalog` and `information_schema`, their functions,
//! and a rewrite of clients' statements into SQL that DataFusion can plan.
//!
//! - `relations`, `information_schema`: relations as data, built from the catalog of the statement's snapshot.
//!   `row_tables` has their rows about `rows` tables, `statistics` the statistics views.
//! - `classes`: entries of `pg_class`. `formulas`: deparses defaults and conditions in PostgreSQL's format.
//! - `functions`: session and catalog functions, bound to a statement's [`StatementFacts`].
//! - `system_table`, `objects`: relations and functions for bound queries.
//! - `rewrite`: rewrites the AST before planning. `lookups`: its rewrites of lookups and `unnest`.
//! - `oids`, `names`: OIDs and names of objects.
//!
//! Always true: OIDs are stable (see `oids`), and a result depends only on the facts of its statement.

mod cells;
mod classes;
mod formulas;
mod functions;
mod information_schema;
mod lookups;
mod names;
pub(crate) mod objects;
pub(crate) mod oids;
mod relations;
mod rewrite;
mod row_tables;
mod statistics;
pub(crate) mod system_table;

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::logical_expr::ScalarUDF;
use model::TableId;

use crate::functions::StatementFacts;

pub use rewrite::rewrite;

/// Version reported to clients, on which their queries depend: the PostgreSQL version whose catalog is emulated, and
/// Millrace's.
pub const SERVER_VERSION: &str = concat!("15.0 (Millrace ", env!("CARGO_PKG_VERSION"), ")");
/// PostgreSQL version as a number, as in `server_version_num`.
pub const SERVER_VERSION_NUMBER: &str = "150000";

/// Result of `version()`.
pub(crate) fn version_text() -> String {
    format!("PostgreSQL {SERVER_VERSION}")
}

/// OID of a table.
pub(crate) fn table_oid(table: TableId) -> u32 {
    oids::of_table(table, oids::Part::Table)
}

/// The relation `name` of `schema` for bound queries; `None` if there is none.
pub(crate) fn system_relation(schema: &str, name: &str) -> Option<&'static cells::Relation> {
    relations::find(schema, name).filter(|relation| relation.schema != "()")
}

/// Relation `name` of `schema` (`pg_catalog` or `information_schema`), bound to the statement; `None` if there is
/// none.
#[must_use]
pub fn relation(
    schema: &str,
    name: &str,
    facts: impl FnOnce() -> Arc<StatementFacts>,
) -> Option<Arc<dyn TableProvider>> {
    let relation = relations::find(schema, name)?;
    Some(Arc::new(cells::CatalogTable::new(relation, facts())))
}

/// Table function `name`, which takes no arguments, bound to the statement; `None` if there is none.
#[must_use]
pub fn table_function(name: &str, facts: impl FnOnce() -> Arc<StatementFacts>) -> Option<Arc<dyn TableProvider>> {
    // Hidden relations are only reachable by this schema name.
    relation("()", name, facts)
}

/// Scalar function `name` (lower case, without schema), bound to the statement; `None` if there is none.
#[must_use]
pub fn scalar_function(name: &str, facts: impl FnOnce() -> Arc<StatementFacts>) -> Option<Arc<ScalarUDF>> {
    functions::function(name, facts)
}

#[cfg(test)]
mod tests;
