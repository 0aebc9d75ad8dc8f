//! What PostgreSQL's clients ask of the catalog: the relations of `pg_catalog` and `information_schema`, the functions that go
//! with them, and a rewrite of the statements clients send into what DataFusion can plan.
//!
//! - `relations`, `information_schema`: relations as data, made from the catalog of the statement's snapshot; `row_tables` has what
//!   they say of `rows` tables, `statistics` views of what happens.
//! - `classes`: what has a number in `pg_class`. `formulas`: defaults and conditions as PostgreSQL shows them.
//! - `functions`: session and catalog functions, bound to a statement's [`StatementFacts`].
//! - `rewrite`: on the syntax tree, before planning.
//! - `oids`, `names`: numbers and texts of objects.
//!
//! Always true: numbers are stable (see `oids`), and an answer depends only on the facts of its statement.

mod cells;
mod classes;
mod formulas;
mod functions;
mod information_schema;
mod lookups;
mod names;
mod oids;
mod relations;
mod rewrite;
mod row_tables;
mod statistics;

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::logical_expr::ScalarUDF;
use model::TableId;

use crate::functions::StatementFacts;

pub use rewrite::rewrite;

/// The version clients are told, which decides what they send: PostgreSQL's whose catalog this is, and our own.
pub const SERVER_VERSION: &str = concat!("15.0 (Millrace ", env!("CARGO_PKG_VERSION"), ")");
/// The same as a number.
pub const SERVER_VERSION_NUMBER: &str = "150000";

/// What `version()` says.
pub(crate) fn version_text() -> String {
    format!("PostgreSQL {SERVER_VERSION}")
}

/// The number that clients know a table by.
pub(crate) fn table_oid(table: TableId) -> u32 {
    oids::of_table(table, oids::Part::Table)
}

/// The relation `name` of `schema` (`pg_catalog` or `information_schema`), as the statement sees it.
#[must_use]
pub fn relation(
    schema: &str,
    name: &str,
    facts: impl FnOnce() -> Arc<StatementFacts>,
) -> Option<Arc<dyn TableProvider>> {
    let relation = relations::find(schema, name)?;
    Some(Arc::new(cells::CatalogTable::new(relation, facts())))
}

/// The function in FROM called `name`, if there is one of ours: it takes no arguments.
#[must_use]
pub fn table_function(name: &str, facts: impl FnOnce() -> Arc<StatementFacts>) -> Option<Arc<dyn TableProvider>> {
    // Hidden relations, found by no other name.
    relation("()", name, facts)
}

/// The function called `name` (lower case, without schema), bound to the statement.
#[must_use]
pub fn scalar_function(name: &str, facts: impl FnOnce() -> Arc<StatementFacts>) -> Option<Arc<ScalarUDF>> {
    functions::function(name, facts)
}

#[cfg(test)]
mod tests;
