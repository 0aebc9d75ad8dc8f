//! PostgreSQL's system catalog for clients: the relations of `pg_catalog` and `information_schema`, and their functions.
//!
//! - `relations`, `information_schema`: relations as data, built from the catalog of the statement's snapshot.
//!   `row_tables` has their rows about `rows` tables, `statistics` the statistics views.
//! - `classes`: entries of `pg_class`.
//! - `functions`: session and catalog functions, bound to a statement's `StatementFacts`.
//! - `system_table`, `objects`: relations and functions for bound queries.
//! - `oids`, `names`: OIDs and names of objects.
//!
//! Always true: OIDs are stable (see `oids`), and a result depends only on the facts of its statement.

mod cells;
mod classes;
mod functions;
mod information_schema;
mod names;
pub(crate) mod objects;
pub(crate) mod oids;
mod relations;
mod row_tables;
mod statistics;
pub(crate) mod system_table;

use model::TableId;

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

/// The relation `name` of `schema`; `None` if there is none.
pub(crate) fn system_relation(schema: &str, name: &str) -> Option<&'static cells::Relation> {
    relations::find(schema, name)
}

#[cfg(test)]
mod tests;
