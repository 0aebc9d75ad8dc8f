//! PostgreSQL's system catalog for clients: the relations of `pg_catalog` and `information_schema`, and their functions.
//!
//! The caller looks up a relation with [`system_relation`], binds a query with its [`described`] table, and reads its
//! rows through a [`SystemTable`]. Functions and names of objects, such as `regclass`, reach expressions through
//! [`StatementObjects`]. Both answer from the [`facts`] of the statement, which the caller provides.
//!
//! - `relations`, `information_schema`: relations as data, built from the catalog of the statement's snapshot.
//!   `row_tables` has their rows about `rows` tables, `views` those about views, `statistics` the statistics views.
//! - `classes`: entries of `pg_class`.
//! - `cells`: columns and cells of relations, and cells as SQL values.
//! - `functions`: session and catalog functions.
//! - `table`, `objects`: relations and functions for bound queries.
//! - `oids`, `names`: OIDs and names of objects.
//!
//! Always true: OIDs are stable (see [`oids`]), and a result depends only on the facts of its statement. The crate knows
//! no executor and no Arrow type.

mod cells;
mod classes;
pub mod comments;
pub mod extensions;
pub mod facts;
mod functions;
mod information_schema;
mod names;
mod objects;
pub mod oids;
mod orders;
mod relations;
mod routines;
mod row_tables;
mod statistics;
mod table;
mod triggers;
mod user_types;
mod views;

use model::TableId;

pub use cells::Relation;
pub use objects::StatementObjects;
pub use table::{SystemRows, SystemTable, described};

/// Version reported to clients, on which their queries depend: the PostgreSQL version whose catalog is emulated, and
/// Millrace's.
pub const SERVER_VERSION: &str = concat!("15.0 (Millrace ", env!("CARGO_PKG_VERSION"), ")");
/// PostgreSQL version as a number, as in `server_version_num`.
pub const SERVER_VERSION_NUMBER: &str = "150000";

/// OID of a table.
#[must_use]
pub fn table_oid(table: TableId) -> u32 {
    oids::of_table(table, oids::Part::Table)
}

pub use relations::SEQUENCE_STATES;

/// The relation `name` of `schema`; `None` if there is none.
#[must_use]
pub fn system_relation(schema: &str, name: &str) -> Option<&'static Relation> {
    relations::find(schema, name)
}

#[cfg(test)]
mod tests;
