//! DuckDB in a separate process on this machine.
//!
//! Targets: `duckdb` (a private process) or `duckdb://host:port[/schema]` (a running one).
//!
//! Sources: DuckDB's documents: "Data Ingestion with Python" (Arrow), "Aggregate Functions", "Set Operations",
//! "Persistence: CHECKPOINT".

use super::inprocess::{Dialect, InProcess};
use super::{About, Entry, Proof};
use crate::schema::Kind;

pub(crate) const ENTRY: Entry = Entry {
    name: "duckdb",
    summary: "DuckDB in a separate process: writes Arrow tables, queries SQL",
    proof: Proof::Product("DuckDB 2.0.0"),
    open: |opening| Ok(Box::new(InProcess::open(opening, &DUCKDB)?)),
};

static DUCKDB: Dialect = Dialect {
    about: || About {
        product: "DuckDB",
        write_path: "INSERT from an Arrow table that is made of the request's bytes, one request a batch".to_owned(),
        why: "its documentation recommends INSERT … SELECT from Arrow, Pandas or files over single INSERTs; of these, Arrow \
              copies least. Its Appender has APIs for C, Java and others only",
        durability: "after fsync of the write-ahead log, each request a transaction".to_owned(),
        durable: true,
        visible_at_once: true,
        replaces: false,
    },
    kind: |kind| match kind {
        Kind::Bool => "BOOLEAN",
        Kind::Int32 => "INTEGER",
        Kind::Int64 | Kind::Timestamp => "BIGINT",
        Kind::Float { .. } => "FLOAT",
        Kind::Double { .. } => "DOUBLE",
        Kind::Date => "DATE",
        Kind::Text { .. } | Kind::String { .. } | Kind::Blob { .. } => "VARCHAR",
    },
    time_and_tags: ("BIGINT", "VARCHAR"),
    table: |_, _| String::new(),
    database_keyword: "SCHEMA",
    drop: " CASCADE",
    // DuckDB's % has the sign of the dividend.
    modulo: |value, width| format!("(({value} % {width} + {width}) % {width})"),
    first_and_last: ("arg_min", "arg_max"),
    days: |column| format!("({column} - DATE '1970-01-01')"),
    distinct: "",
    settle: |_| "CHECKPOINT".to_owned(),
};

#[cfg(test)]
mod tests {
    use super::super::conformance::{self, ABLE, Abilities};
    use super::super::testing::Private;
    use crate::peers::Product;
    use crate::schema::Unit;

    #[test]
    fn duckdb_answers_every_query_as_brute_force_does() {
        let server = Private::start(Product::DuckDb);
        let target = server.target("duckdb", "http");
        for unit in [Unit::Millis, Unit::Nanos] {
            conformance::check(&target, &Abilities { unit, single_fields: false, ..ABLE });
        }
        conformance::check_wide(&target, 1000);
    }
}
