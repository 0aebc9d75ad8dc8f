//! The catalog of `rows` tables equals PostgreSQL 15's: the same definitions, queries and answers.

use std::process::Command;

use super::printed;
use crate::postgres::Postgres;
use crate::server::{Server, folder};

const DEFINITIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/data/catalog.sql");

/// Catalog queries of people and programs. Their results contain no OIDs and no sizes, which differ between
/// servers.
const QUESTIONS: [&str; 34] = [
    "\\d",
    "\\dt",
    "\\di",
    "\\ds",
    "\\d owner",
    "\\d+ owner",
    "\\d item",
    "\\d+ item",
    "\\d shop.stock",
    "\\d+ shop.stock",
    "\\d nothing",
    "\\d counter",
    "\\d owner_id_seq",
    "\\d item_id_seq",
    "\\d item_pkey",
    "\\d+ item_at_idx",
    "\\dt shop.*",
    "SELECT tablename, hasindexes FROM pg_tables WHERE schemaname IN ('public', 'shop') ORDER BY 1",
    "SELECT * FROM pg_indexes WHERE schemaname IN ('public', 'shop') ORDER BY indexname",
    "SELECT schemaname, sequencename, data_type::regtype, start_value, min_value, max_value, increment_by, cycle, cache_size, \
     last_value FROM pg_sequences ORDER BY 2",
    "SELECT relname, relkind, relnatts, relchecks, relhasindex, reltype <> 0 AS typed FROM pg_class \
     WHERE relname ~ 'owner|item|stock|counter|nothing' ORDER BY 1",
    "SELECT c.relname, a.attname, a.attnum, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.atthasdef, a.attidentity, \
     a.attisdropped, a.attstorage, a.attlen, a.attbyval, a.attalign FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid \
     WHERE c.relname IN ('owner', 'item', 'stock', 'item_at_idx', 'counter') AND a.attnum > 0 AND NOT a.attisdropped ORDER BY 1, 3",
    "SELECT adrelid::regclass::text, adnum, pg_get_expr(adbin, adrelid), pg_get_expr(adbin, adrelid, true) FROM pg_attrdef ORDER BY 1, 2",
    "SELECT conname, contype, conrelid::regclass::text, confrelid <> 0 AS refers, confupdtype, confdeltype, confmatchtype, conkey, \
     confkey, pg_get_constraintdef(oid), pg_get_constraintdef(oid, true) FROM pg_constraint \
     WHERE connamespace::regnamespace::text IN ('public', 'shop') ORDER BY 1",
    "SELECT c.relname, i.indnatts, i.indisunique, i.indisprimary, i.indisvalid, i.indkey::text, i.indoption::text, \
     pg_get_indexdef(i.indexrelid), pg_get_indexdef(i.indexrelid, 1, true) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
     WHERE c.relname ~ 'owner|item|stock' ORDER BY 1",
    "SELECT pg_get_serial_sequence('owner', 'id'), pg_get_serial_sequence('item', 'id'), pg_get_serial_sequence('owner', 'name'), \
     pg_get_serial_sequence('shop.stock', 'Shelf no')",
    "SELECT to_regclass('owner')::text, to_regclass('shop.stock')::text, to_regclass('item_pkey')::text, to_regclass('nowhere')::text, \
     'counter'::regclass::text",
    "SELECT table_schema, table_name, table_type, is_insertable_into FROM information_schema.tables \
     WHERE table_schema IN ('public', 'shop') ORDER BY 1, 2",
    "SELECT table_name, column_name, ordinal_position, column_default, is_nullable, data_type, character_maximum_length, \
     numeric_precision, numeric_precision_radix, numeric_scale, datetime_precision, udt_name, is_identity, identity_generation, \
     identity_start, identity_increment, identity_maximum, identity_minimum, is_updatable FROM information_schema.columns \
     WHERE table_schema IN ('public', 'shop') ORDER BY 1, 3",
    "SELECT constraint_name, table_schema, table_name, constraint_type, is_deferrable, enforced FROM information_schema.table_constraints \
     WHERE table_schema IN ('public', 'shop') AND constraint_name !~ 'not_null' ORDER BY 1",
    "SELECT constraint_name, table_name, column_name, ordinal_position, position_in_unique_constraint \
     FROM information_schema.key_column_usage WHERE table_schema IN ('public', 'shop') ORDER BY 1, 4",
    "SELECT constraint_name, table_name, column_name FROM information_schema.constraint_column_usage \
     WHERE constraint_schema IN ('public', 'shop') ORDER BY 1, 3",
    "SELECT constraint_name, unique_constraint_name, match_option, update_rule, delete_rule \
     FROM information_schema.referential_constraints ORDER BY 1",
    "SELECT constraint_name, check_clause FROM information_schema.check_constraints \
     WHERE constraint_schema IN ('public', 'shop') AND constraint_name !~ 'not_null' ORDER BY 1",
];

fn psql(url: &str, arguments: &[&str]) -> String {
    let mut command = Command::new("psql");
    command.args(["-X", "-v", "ON_ERROR_STOP=1", url]).args(arguments);
    command.env("PGCONNECT_TIMEOUT", "10").env_remove("PGOPTIONS").env("PAGER", "cat");
    let output = command.output().unwrap_or_else(|error| panic!("psql: {error}; fetch it: cargo xtask tools"));
    printed(&output)
}

#[test]
fn rows_tables_are_described_as_postgresql_15_describes_them() {
    let postgres = Postgres::start();
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let urls = [postgres.url(), server.url()];
    for url in &urls {
        let made = psql(url, &["-q", "-f", DEFINITIONS]);
        assert_eq!(made, "", "{url}");
    }
    let mut failures = Vec::new();
    for question in QUESTIONS {
        let [expected, seen] = [&urls[0], &urls[1]].map(|url| psql(url, &["-c", question]));
        if seen != expected {
            failures.push(format!("{question}\nPostgreSQL:\n{expected}\nhere:\n{seen}"));
        }
    }
    server.stop();
    assert!(failures.is_empty(), "{} answers differ:\n\n{}", failures.len(), failures.join("\n\n"));
}
