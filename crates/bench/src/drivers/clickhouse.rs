//! ClickHouse as chdb, in a separate process on this machine.
//!
//! Targets: `clickhouse` (a private process) or `clickhouse://host:port[/database]` (a running one;
//! not a ClickHouse server).
//!
//! chdb runs one statement at a time per process: concurrent clients wait for each other.
//!
//! Sources: ClickHouse's documents: "Selecting an Insert Strategy", "MergeTree", "argMax", "UNION", "OPTIMIZE"; chdb's:
//! "Python table function".

use super::inprocess::{Dialect, InProcess};
use super::{About, Entry, Proof};
use crate::schema::Kind;

pub(crate) const ENTRY: Entry = Entry {
    name: "clickhouse",
    summary: "ClickHouse (chdb) in a separate process: writes Arrow tables, queries SQL",
    proof: Proof::Product("ClickHouse 26.9 (chdb 4.4.0)"),
    open: |opening| Ok(Box::new(InProcess::open(opening, &CLICKHOUSE)?)),
};

static CLICKHOUSE: Dialect = Dialect {
    about: || About {
        product: "ClickHouse (chdb)",
        write_path:
            "INSERT SELECT from an Arrow table that is made of the request's bytes, one request a batch, MergeTree"
                .to_owned(),
        why: "its documentation recommends columns in its native format and batches of at least 1,000 rows; within a \
              process, that is an Arrow table. Rows are in the order of the sorting key",
        durability: "in the operating system's cache (fsync_after_insert = 0, the default)".to_owned(),
        durable: false,
        visible_at_once: true,
        replaces: false,
    },
    kind: |kind| match kind {
        Kind::Bool => "Bool",
        Kind::Int32 => "Int32",
        Kind::Int64 | Kind::Timestamp => "Int64",
        Kind::Float { .. } => "Float32",
        Kind::Double { .. } => "Float64",
        Kind::Date => "Date32",
        Kind::Text { .. } | Kind::String { .. } | Kind::Blob { .. } => "String",
    },
    time_and_tags: ("Int64", "LowCardinality(String)"),
    table: |device, time| format!(" ENGINE = MergeTree ORDER BY ({device}, {time})"),
    database_keyword: "DATABASE",
    drop: " SYNC",
    modulo: |value, width| format!("positiveModulo({value}, {width})"),
    first_and_last: ("argMin", "argMax"),
    days: |column| format!("toInt32({column})"),
    distinct: "DISTINCT",
    settle: |table| format!("OPTIMIZE TABLE {table} FINAL"),
};

#[cfg(test)]
mod tests {
    use super::super::conformance::{self, ABLE, Abilities};
    use super::super::testing::Private;
    use crate::peers::Product;
    use crate::schema::Unit;

    #[test]
    fn clickhouse_answers_every_query_as_brute_force_does() {
        let server = Private::start(Product::ClickHouse);
        let target = server.target("clickhouse", "http");
        for unit in [Unit::Millis, Unit::Nanos] {
            conformance::check(&target, &Abilities { unit, single_fields: false, ..ABLE });
        }
        conformance::check_wide(&target, 1000);
    }
}
