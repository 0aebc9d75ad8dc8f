//! QuestDB: exact statements and requests, and sessions with a private server.

use super::*;
use crate::drivers::conformance::{ABLE, Abilities, EVERY_KIND, check, check_wide};
use crate::peers::{self, Options, Product, Server};

fn questdb(columns: u64) -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().expect("directory");
    let options = Options { memory_mib: Some(1024), columns, ..Options::default() };
    let server = peers::start(Product::QuestDb, dir.path(), options).expect("QuestDB");
    (dir, server)
}

fn target(server: &Server, options: &str) -> Target {
    let address = |name: &str| server.address(name).expect("port");
    let text = format!("questdb://{}?http={}&ilp={}&{options}", address("pg"), address("http"), address("ilp"));
    Target::parse(&text).expect("target")
}

/// All types except BOOLEAN, which has no null.
fn without_booleans() -> Vec<Kind> {
    EVERY_KIND.iter().copied().filter(|kind| *kind != Kind::Bool).collect()
}

#[test]
fn every_query_is_right_after_line_protocol() {
    let (_dir, server) = questdb(0);
    check(&target(&server, ""), &Abilities { single_fields: false, ..ABLE });
    let kinds = without_booleans();
    check(&target(&server, "index=on&partition=month"), &Abilities { kinds: &kinds, unit: Unit::Micros, ..ABLE });
}

#[test]
fn every_query_is_right_after_tcp() {
    let (_dir, server) = questdb(0);
    check(&target(&server, "write=tcp"), &Abilities { single_fields: false, ..ABLE });
}

#[test]
fn tables_of_three_thousand_fields_work() {
    let (_dir, server) = questdb(3_000);
    check_wide(&target(&server, ""), 3_000);
    let error = QuestDb::open(opening(target(&server, "commit=sync"), Unit::Millis)).expect("opens");
    let error = error.connect(0).expect("connects").create(0..1).expect_err("it is nosync");
    assert!(error.message.contains("\"nosync\", the target says commit=sync"), "{error}");
}

fn opening(target: Target, unit: Unit) -> Opening {
    let kinds = [Kind::Double { decimals: 2 }, Kind::Float { decimals: 2 }, Kind::Text { length: 2 }, Kind::Int32];
    let field = |(index, kind): (usize, Kind)| Field { name: format!("s_{index}"), kind };
    let schema = Schema {
        database: "test".to_owned(),
        unit,
        tables: vec![crate::schema::Table {
            name: "g_0".to_owned(),
            group: "g_0".to_owned(),
            tags: vec!["device".to_owned(), "tag_0".to_owned()],
            fields: kinds.into_iter().enumerate().map(field).collect(),
        }],
        devices: ["d_0", "d_1"]
            .map(|name| crate::schema::Device { table: 0, tags: vec![name.to_owned(), "x".to_owned()] })
            .to_vec(),
    };
    Opening { target, schema: Arc::new(schema), config: Arc::new(crate::config::Config::default()) }
}

fn shared(options: &str, change: impl FnOnce(&mut crate::config::Config)) -> Arc<Shared> {
    let target = Target::parse(&format!("questdb://h?{options}")).expect("target");
    let mut opening = opening(target, Unit::Millis);
    change(Arc::make_mut(&mut opening.config));
    QuestDb::open(opening).expect("opens").shared
}

#[test]
fn definitions_are_exactly_these() {
    assert_eq!(
        shared("", |_| {}).definition(0),
        "CREATE TABLE IF NOT EXISTS test_g_0 (device SYMBOL CAPACITY 128 CACHE, tag_0 SYMBOL CAPACITY 128 CACHE, \
         time TIMESTAMP, s_0 DOUBLE, s_1 FLOAT, s_2 VARCHAR, s_3 INT) TIMESTAMP(time) PARTITION BY MONTH WAL"
    );
    let again = shared("index=on", |config| {
        config.is_out_of_order = true;
        config.point_step = 1;
    });
    let definition = again.definition(0);
    assert!(definition.contains("(device SYMBOL CAPACITY 128 CACHE INDEX, "), "{definition}");
    assert!(definition.ends_with(" PARTITION BY HOUR WAL DEDUP UPSERT KEYS(time, device)"), "{definition}");
    assert!(shared("partition=week", |_| {}).definition(0).ends_with("PARTITION BY WEEK WAL"));
}

#[test]
fn unsupported_data_is_refused_with_the_reason() {
    let target = || Target::parse("questdb://h").expect("target");
    let mut sparse = opening(target(), Unit::Millis);
    Arc::make_mut(&mut sparse.config).is_sensor_ts_alignment = false;
    QuestDb::open(sparse.clone()).map(|_| ()).expect("possible");
    let mut both = sparse.clone();
    Arc::make_mut(&mut both.config).is_out_of_order = true;
    let mut booleans = sparse;
    Arc::make_mut(&mut booleans.schema).tables[0].fields[0].kind = Kind::Bool;
    for (opening, reason) in
        [(opening(target(), Unit::Nanos), "microseconds"), (both, "whole rows"), (booleans, "BOOLEAN has no null")]
    {
        let error = QuestDb::open(opening).map(|_| ()).expect_err(reason);
        assert!(error.class == Class::Unsupported && error.message.contains(reason), "{error}");
    }
}

/// 2022-10-30T00:00:00+08:00, in milliseconds.
const START: i64 = 1_667_059_200_000;

#[test]
fn statements_are_exactly_these() {
    let rows = Query {
        kind: 1,
        table: 0,
        devices: Some(vec![0, 1]),
        fields: vec![1, 0],
        window: Some(START..START + 250_000),
        filters: Vec::new(),
        shape: Shape::Rows,
        order: crate::query::Order::Any,
        limit: None,
        set: None,
    };
    let filters = vec![crate::query::Filter { field: 1, above: -5.0 }, crate::query::Filter { field: 0, above: -5.5 }];
    let filtered = Query { filters, order: crate::query::Order::Descending, ..rows.clone() };
    let exact = Query { window: Some(START..START + 1), devices: Some(vec![0]), limit: Some(3), ..rows.clone() };
    let latest = Query { shape: Shape::Latest, window: None, ..rows.clone() };
    let sums = Shape::Aggregate { aggregate: Aggregate::Sum, by_device: true };
    let sums = Query { shape: sums, devices: None, ..rows.clone() };
    let buckets =
        |by_device| Shape::Buckets { aggregate: Aggregate::Last, width: 20_000, origin: START + 7, by_device };
    let buckets = Query { shape: buckets(true), ..rows.clone() };
    let whole = "time >= '2022-10-29T16:00:00.000000Z' AND time < '2022-10-29T16:04:10.000000Z'";
    let aligned = shared("", |_| {});
    for (query, literal, prepared) in [
        (
            &rows,
            format!("SELECT device, time, s_1, s_0 FROM test_g_0 WHERE device IN ('d_0', 'd_1') AND {whole}"),
            "SELECT device, time, s_1, s_0 FROM test_g_0 WHERE device IN ($1, $2) AND time >= $3 AND time < $4",
        ),
        (
            &filtered,
            format!(
                "SELECT device, time, s_1, s_0 FROM test_g_0 WHERE device IN ('d_0', 'd_1') AND {whole} AND \
                 s_1 > -5.0::double AND s_0 > -5.5 ORDER BY time DESC"
            ),
            "SELECT device, time, s_1, s_0 FROM test_g_0 WHERE device IN ($1, $2) AND time >= $3 AND time < $4 AND \
             s_1 > $5 AND s_0 > $6 ORDER BY time DESC",
        ),
        (
            &exact,
            "SELECT device, time, s_1, s_0 FROM test_g_0 WHERE device = 'd_0' AND time = \
             '2022-10-29T16:00:00.000000Z' LIMIT 3"
                .to_owned(),
            "SELECT device, time, s_1, s_0 FROM test_g_0 WHERE device = $1 AND time = $2 LIMIT 3",
        ),
        (
            &latest,
            "SELECT device, time, s_1, s_0 FROM test_g_0 WHERE device IN ('d_0', 'd_1') LATEST ON time PARTITION BY \
             device"
                .to_owned(),
            "SELECT device, time, s_1, s_0 FROM test_g_0 WHERE device IN ($1, $2) LATEST ON time PARTITION BY device",
        ),
        (
            &sums,
            format!("SELECT device, sum(s_1::double), sum(s_0) FROM test_g_0 WHERE {whole}"),
            "SELECT device, sum(s_1::double), sum(s_0) FROM test_g_0 WHERE time >= $1 AND time < $2",
        ),
        (
            &buckets,
            format!(
                "SELECT device, timestamp_floor('20s', time, '1969-12-31T23:59:40.007000Z') AS bucket, last(s_1), \
                 last(s_0) FROM test_g_0 WHERE device IN ('d_0', 'd_1') AND {whole}"
            ),
            "SELECT device, timestamp_floor('20s', time, '1969-12-31T23:59:40.007000Z') AS bucket, last(s_1), \
             last(s_0) FROM test_g_0 WHERE device IN ($1, $2) AND time >= $3 AND time < $4",
        ),
    ] {
        assert_eq!(aligned.text(query, true).expect("can be asked").sql, literal);
        assert_eq!(aligned.text(query, false).expect("can be asked").sql, prepared);
    }
    let sparse = shared("", |config| config.is_sensor_ts_alignment = false);
    assert_eq!(
        sparse.text(&filtered, false).expect("can be asked").sql,
        "SELECT device, time, s_1, s_0 FROM ((SELECT device, time, last_not_null(s_0) AS s_0, last_not_null(s_1) AS s_1 \
         FROM test_g_0 WHERE device IN ($1, $2) AND time >= $3 AND time < $4 ORDER BY time) TIMESTAMP(time)) WHERE \
         s_1 > $5 AND s_0 > $6 ORDER BY time DESC"
    );
    let text = sparse.text(&buckets, false).expect("can be asked").sql;
    assert!(text.contains("AS bucket, last_not_null(s_1), last_not_null(s_0) FROM test_g_0 WHERE"), "{text}");
}
