//! Statements and layouts, also against a private server.

use super::*;
use crate::drivers::conformance::{ABLE, check, check_wide};
use crate::peers::{self, Options, Product, Server};

fn postgres() -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().expect("directory");
    let options = Options { memory_mib: Some(64), ..Options::default() };
    let server = peers::start(Product::Postgres, dir.path(), options).expect("PostgreSQL");
    (dir, server)
}

fn target(server: &Server, name: &str, options: &str) -> Target {
    Target::parse(&format!("{name}://{}?{options}", server.address("pg").expect("port"))).expect("target")
}

#[test]
fn every_query_is_right_on_a_private_server() {
    let (_dir, server) = postgres();
    check(&target(&server, "postgres", ""), &ABLE);
    check(&target(&server, "postgres", "write=insert&durability=async"), &ABLE);
}

#[test]
fn tables_of_three_thousand_fields_are_split_into_parts() {
    let (_dir, server) = postgres();
    check_wide(&target(&server, "postgres", ""), 3_000);
    check_wide(&target(&server, "postgres", "write=insert"), 3_000);
}

/// Imitation of the TimescaleDB functions that the driver uses: it shows that the statements are
/// valid and in order, not how the product executes them.
const IMITATION: &str = "
    CREATE TABLE hypertables (name text PRIMARY KEY, dimension text);
    CREATE FUNCTION by_range(name, interval) RETURNS text LANGUAGE sql AS 'SELECT $1 || '' by '' || $2';
    CREATE FUNCTION create_hypertable(relation regclass, dimension text, create_default_indexes boolean,
        if_not_exists boolean) RETURNS text LANGUAGE sql
        AS 'INSERT INTO public.hypertables VALUES ($1::text, $2) ON CONFLICT DO NOTHING RETURNING name';
    CREATE FUNCTION time_bucket(interval, timestamptz, timestamptz) RETURNS timestamptz LANGUAGE sql IMMUTABLE
        AS 'SELECT date_bin($1, $2, $3)';
    CREATE TYPE pick AS (at timestamptz, value text);
    CREATE FUNCTION earlier(pick, anyelement, timestamptz) RETURNS pick LANGUAGE sql
        AS 'SELECT CASE WHEN ($1).at <= $3 THEN $1 ELSE ($3, $2::text)::public.pick END';
    CREATE FUNCTION later(pick, anyelement, timestamptz) RETURNS pick LANGUAGE sql
        AS 'SELECT CASE WHEN ($1).at >= $3 THEN $1 ELSE ($3, $2::text)::public.pick END';
    CREATE FUNCTION picked(pick, anyelement, timestamptz) RETURNS anyelement LANGUAGE plpgsql
        AS 'BEGIN RETURN $1.value; END';
    CREATE AGGREGATE first(anyelement, timestamptz) (sfunc = earlier, stype = pick, finalfunc = picked, finalfunc_extra);
    CREATE AGGREGATE last(anyelement, timestamptz) (sfunc = later, stype = pick, finalfunc = picked, finalfunc_extra);";

#[test]
fn timescaledb_statements_run_with_imitated_functions() {
    let (_dir, server) = postgres();
    let without = Postgres::open(opening(target(&server, "timescaledb", "")), true).expect("opens");
    let error = without.connect(0).expect("connects").create(0..1).expect_err("no extension");
    assert!(error.message.contains("no TimescaleDB"), "{error}");
    let login = Login {
        address: server.address("pg").expect("port"),
        network_of: None,
        user: "postgres".to_owned(),
        password: None,
        database: "postgres".to_owned(),
        parameters: Vec::new(),
    };
    let mut pg = Pg::new(login);
    pg.simple(IMITATION, Duration::from_secs(20)).expect("imitation");
    check(&target(&server, "timescaledb", "compress=off"), &ABLE);
    pg.simple("SELECT name, dimension FROM hypertables ORDER BY 1", Duration::from_secs(20)).expect("asked");
    let mut row = pg.rows(0).next().expect("a hypertable");
    assert_eq!(row.column().expect("whole"), Some(&b"g_0"[..]));
    assert_eq!(row.column().expect("whole"), Some(&b"time by 7 days"[..]));
}

fn opening(target: Target) -> Opening {
    let schema = Schema {
        database: "bench".to_owned(),
        unit: Unit::Millis,
        tables: vec![crate::schema::Table {
            name: "g_0".to_owned(),
            group: "g_0".to_owned(),
            tags: vec!["device".to_owned()],
            fields: vec![crate::schema::Field { name: "s_0".to_owned(), kind: Kind::Bool }],
        }],
        devices: vec![crate::schema::Device { table: 0, tags: vec!["d_0".to_owned()] }],
    };
    Opening { target, schema: Arc::new(schema), config: Arc::new(crate::config::Config::default()) }
}

#[test]
fn definitions_are_exactly_these() {
    let driver = Postgres::open(opening(Target::parse("timescaledb://h").expect("target")), true).expect("opens");
    let mut sql = String::new();
    driver.shared.define(0, 0, &mut sql);
    assert_eq!(
        sql,
        " CREATE TABLE IF NOT EXISTS g_0 (time timestamptz NOT NULL, device text COLLATE \"C\" NOT NULL, s_0 boolean, \
         PRIMARY KEY (device, time)); SELECT create_hypertable('g_0', by_range('time', INTERVAL '7 days'), \
         create_default_indexes => false, if_not_exists => true); ALTER TABLE g_0 SET (timescaledb.compress, \
         timescaledb.compress_segmentby = 'device', timescaledb.compress_orderby = 'time DESC');"
    );
}

#[test]
fn table_too_wide_for_a_page_is_split_by_row_bytes() {
    let mut opening = opening(Target::parse("postgres://h").expect("target"));
    let schema = Arc::make_mut(&mut opening.schema);
    let fields = |count: usize, kind: Kind| vec![crate::schema::Field { name: "f".to_owned(), kind }; count];
    for (kind, count, parts) in [
        (Kind::Double { decimals: 2 }, 800, 1),
        (Kind::Double { decimals: 2 }, 801, 2),
        (Kind::Double { decimals: 2 }, 3_000, 4),
        (Kind::Text { length: 100 }, 800, 2),
        (Kind::Bool, 800, 1),
    ] {
        schema.tables[0].fields = fields(count, kind);
        let layout = Layout::split(schema, FIELDS_MAX, ROW_BYTES_MAX, stored_bytes);
        assert_eq!(layout.parts(0), parts, "{count} of {kind:?}");
        let held: usize = (0..parts).map(|part| layout.fields(schema, 0, part).len()).sum();
        assert_eq!(held, count);
    }
}
