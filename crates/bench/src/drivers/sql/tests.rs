//! The exact statement of each query shape.

use proptest::prelude::*;

use super::answers::numeric;
use super::*;
use crate::query::Cell;
use crate::query::{SetOperation, SetOperator};
use crate::schema::Device;

fn schema(unit: Unit) -> Arc<Schema> {
    let kinds = [Kind::Double { decimals: 2 }, Kind::Float { decimals: 2 }, Kind::Int32, Kind::Text { length: 2 }];
    let field = |(index, kind): (usize, Kind)| Field { name: format!("s_{index}"), kind };
    let table = |name: &str| Table {
        name: name.to_owned(),
        group: name.to_owned(),
        tags: vec!["device".to_owned()],
        fields: kinds.into_iter().enumerate().map(field).collect(),
    };
    let device = |(table, name): (u32, &str)| Device { table, tags: vec![name.to_owned()] };
    Arc::new(Schema {
        database: "test".to_owned(),
        unit,
        tables: vec![table("g_0"), table("G 1")],
        devices: [(0, "d_0"), (0, "d_1"), (0, "it's"), (1, "d_0")].into_iter().map(device).collect(),
    })
}

const PLAIN: Dialect = Dialect {
    bucket: "date_bin",
    first_and_last: false,
    latest_by_index: true,
    narrow_sums: true,
    fields_max: 3,
    nanoseconds: Some("epoch_ns"),
};
const RICH: Dialect = Dialect { bucket: "time_bucket", first_and_last: true, latest_by_index: false, ..PLAIN };

/// 2022-10-30T00:00:00+08:00, in milliseconds.
const START: i64 = 1_667_059_200_000;

fn rows() -> Query {
    Query {
        kind: 1,
        table: 0,
        devices: Some(vec![0, 1]),
        fields: vec![1, 0],
        window: Some(START..START + 250_000),
        filters: Vec::new(),
        shape: Shape::Rows,
        order: Order::Any,
        limit: None,
        set: None,
    }
}

fn filtered() -> Query {
    let filters = vec![Filter { field: 1, above: -5.0 }, Filter { field: 0, above: -5.5 }];
    Query { filters, ..rows() }
}

fn aggregate(aggregate: Aggregate, by_device: bool) -> Query {
    Query { shape: Shape::Aggregate { aggregate, by_device }, ..rows() }
}

fn buckets(by_device: bool) -> Query {
    Query {
        shape: Shape::Buckets { aggregate: Aggregate::Count, width: 20_000, origin: START + 5, by_device },
        ..rows()
    }
}

fn latest(devices: Option<Vec<u32>>) -> Query {
    Query { shape: Shape::Latest, devices, window: None, ..rows() }
}

/// Checks a query's statement with literals and with parameters.
fn check(dialect: Dialect, layout: fn(&Schema) -> Layout, query: &Query, literal: &str, prepared: &str) {
    let schema = schema(Unit::Millis);
    let sql = Sql::new(&schema, layout(&schema), dialect, false);
    assert_eq!(sql.statement(query).expect("can be asked"), literal);
    assert_eq!(sql.text(query, false).expect("can be asked").sql, prepared);
}

fn two_parts(schema: &Schema) -> Layout {
    Layout::split(schema, 1, 1_000, |_| 8)
}

const WINDOW: &str = "time >= '2022-10-29 16:00:00+00' AND time < '2022-10-29 16:04:10+00'";

#[test]
fn rows_are_selected_by_device_time_and_bounds() {
    let check = |query: &Query, literal: &str, prepared: &str| check(PLAIN, Layout::unsplit, query, literal, prepared);
    check(
        &rows(),
        &format!("SELECT device, time, s_1, s_0 FROM g_0 WHERE device IN ('d_0', 'd_1') AND {WINDOW}"),
        "SELECT device, time, s_1, s_0 FROM g_0 WHERE device = ANY($1) AND time >= $2 AND time < $3",
    );
    let exact = Query { devices: Some(vec![2]), window: Some(START + 1..START + 2), limit: Some(7), ..rows() };
    check(
        &exact,
        "SELECT device, time, s_1, s_0 FROM g_0 WHERE device = 'it''s' AND time = '2022-10-29 16:00:00.001+00' LIMIT 7",
        "SELECT device, time, s_1, s_0 FROM g_0 WHERE device = $1 AND time = $2 LIMIT 7",
    );
    check(
        &Query { order: Order::Descending, ..filtered() },
        &format!(
            "SELECT device, time, s_1, s_0 FROM g_0 WHERE device IN ('d_0', 'd_1') AND {WINDOW} AND s_1 > -5.0 AND \
             s_0 > -5.5 ORDER BY time DESC"
        ),
        "SELECT device, time, s_1, s_0 FROM g_0 WHERE device = ANY($1) AND time >= $2 AND time < $3 AND s_1 > $4 AND \
         s_0 > $5 ORDER BY time DESC",
    );
    let all = Query { table: 1, devices: None, window: Some(i64::MIN..i64::MAX), order: Order::Ascending, ..rows() };
    let text = "SELECT device, time, s_1, s_0 FROM \"G 1\" ORDER BY time";
    check(&all, text, text);
}

#[test]
fn set_operations_are_over_times_and_fields() {
    let set = Some(SetOperation { operator: SetOperator::Except, all: true, others: vec![vec![1]] });
    let child = |device: &str| format!("(SELECT time, s_1, s_0 FROM g_0 WHERE device = '{device}' AND {WINDOW})");
    check(
        PLAIN,
        Layout::unsplit,
        &Query { devices: Some(vec![0]), set, ..rows() },
        &format!("{} EXCEPT ALL {}", child("d_0"), child("d_1")),
        "(SELECT time, s_1, s_0 FROM g_0 WHERE device = $1 AND time >= $2 AND time < $3) EXCEPT ALL \
         (SELECT time, s_1, s_0 FROM g_0 WHERE device = $4 AND time >= $5 AND time < $6)",
    );
}

#[test]
fn aggregates_use_each_products_dialect() {
    let where_ = "WHERE device = ANY($1) AND time >= $2 AND time < $3";
    for (dialect, query, columns) in [
        (PLAIN, aggregate(Aggregate::Count, false), "count(s_1), count(s_0)"),
        (PLAIN, aggregate(Aggregate::Sum, false), "sum(s_1::float8), sum(s_0)"),
        (
            PLAIN,
            aggregate(Aggregate::First, false),
            "(array_agg(s_1 ORDER BY time))[1], (array_agg(s_0 ORDER BY time))[1]",
        ),
        (RICH, aggregate(Aggregate::First, false), "first(s_1, time), first(s_0, time)"),
        (RICH, aggregate(Aggregate::Last, true), "device, last(s_1, time), last(s_0, time)"),
    ] {
        let group = if columns.starts_with("device") { " GROUP BY 1" } else { "" };
        let expected = format!("SELECT {columns} FROM g_0 {where_}{group}");
        let schema = schema(Unit::Millis);
        let sql = Sql::new(&schema, Layout::unsplit(&schema), dialect, false);
        assert_eq!(sql.text(&query, false).expect("can be asked").sql, expected);
    }
    let schema = schema(Unit::Millis);
    let sparse = Sql::new(&schema, Layout::unsplit(&schema), PLAIN, true);
    let text = sparse.statement(&aggregate(Aggregate::Last, false)).expect("can be asked");
    assert!(
        text.starts_with("SELECT (array_agg(s_1 ORDER BY time DESC) FILTER (WHERE s_1 IS NOT NULL))[1], "),
        "{text}"
    );
}

#[test]
fn buckets_use_each_products_dialect() {
    let origin = "TIMESTAMPTZ '2022-10-29 16:00:00.005+00'";
    let from = "FROM g_0 WHERE device = ANY($1) AND time >= $2 AND time < $3";
    for (dialect, by_device, function, keys) in [(PLAIN, true, "date_bin", "1, 2"), (RICH, false, "time_bucket", "1")] {
        let schema = schema(Unit::Millis);
        let sql = Sql::new(&schema, Layout::unsplit(&schema), dialect, false);
        let device = if by_device { "device, " } else { "" };
        let order = if by_device { "2" } else { "1" };
        let query = Query { order: Order::Descending, ..buckets(by_device) };
        let expected = format!(
            "SELECT {device}{function}('20 seconds', time, {origin}), count(s_1), count(s_0) {from} GROUP BY {keys} \
             ORDER BY {order} DESC"
        );
        assert_eq!(sql.text(&query, false).expect("can be asked").sql, expected);
    }
}

#[test]
fn the_newest_row_is_looked_up_in_the_index_or_picked_by_distinct_on() {
    check(
        PLAIN,
        Layout::unsplit,
        &latest(Some(vec![0])),
        "SELECT device, time, s_1, s_0 FROM g_0 WHERE device = 'd_0' ORDER BY time DESC LIMIT 1",
        "SELECT device, time, s_1, s_0 FROM g_0 WHERE device = $1 ORDER BY time DESC LIMIT 1",
    );
    let newest = |list: &str| {
        format!(
            "SELECT newest_of.device, newest.time, s_1, s_0 FROM unnest({list}) AS newest_of (device) CROSS JOIN \
             LATERAL (SELECT time, s_1, s_0 FROM g_0 WHERE device = newest_of.device ORDER BY time DESC LIMIT 1) AS \
             newest"
        )
    };
    check(PLAIN, Layout::unsplit, &latest(None), &newest("ARRAY['d_0', 'd_1', 'it''s']"), &newest("$1"));
    let text = "SELECT DISTINCT ON (device) device, time, s_1, s_0 FROM g_0 ORDER BY device, time DESC";
    check(RICH, Layout::unsplit, &latest(None), text, text);
}

#[test]
fn newest_row_of_sparse_rows_has_a_selected_value() {
    let schema = schema(Unit::Millis);
    let sql = Sql::new(&schema, Layout::unsplit(&schema), RICH, true);
    assert_eq!(
        sql.statement(&latest(None)).expect("can be asked"),
        "SELECT DISTINCT ON (device) device, time, s_1, s_0 FROM g_0 WHERE (s_1 IS NOT NULL OR s_0 IS NOT NULL) \
         ORDER BY device, time DESC"
    );
    let one = Query { fields: vec![0], ..latest(Some(vec![0])) };
    let text = sql.statement(&one).expect("can be asked");
    assert_eq!(
        text,
        "SELECT device, time, s_0 FROM g_0 WHERE device = 'd_0' AND s_0 IS NOT NULL ORDER BY time DESC LIMIT 1"
    );
}

#[test]
fn fields_of_several_parts_are_joined_and_grouped_ones_only_after_grouping() {
    let part = |field: u32, filter: &str| {
        format!(
            "(SELECT device, time, s_{field} FROM g_0_p{field} WHERE device = ANY($1) AND time >= $2 AND time < $3{filter}) AS p{field}"
        )
    };
    let schema = schema(Unit::Millis);
    let sql = Sql::new(&schema, two_parts(&schema), PLAIN, false);
    let sparse = Sql::new(&schema, two_parts(&schema), PLAIN, true);
    let text = |sql: &Sql, query: &Query| sql.text(query, false).expect("can be asked").sql;
    let joined = |join: &str| format!("{} {join} {} USING (device, time)", part(0, ""), part(1, ""));
    assert_eq!(text(&sql, &rows()), format!("SELECT device, time, s_1, s_0 FROM {}", joined("JOIN")));
    assert_eq!(text(&sparse, &rows()), format!("SELECT device, time, s_1, s_0 FROM {}", joined("FULL JOIN")));
    let condition = "WHERE s_1 > $4 AND s_0 > $5";
    assert_eq!(text(&sql, &filtered()), format!("SELECT device, time, s_1, s_0 FROM {} {condition}", joined("JOIN")));
    let one = Query { fields: vec![1], ..rows() };
    let where_ = "WHERE device = ANY($1) AND time >= $2 AND time < $3";
    assert_eq!(text(&sql, &one), format!("SELECT device, time, s_1 FROM g_0_p1 {where_}"));
    let grouped = |field: u32| {
        format!(
            "(SELECT device AS device, count(s_{field}) AS s_{field} FROM g_0_p{field} {where_} GROUP BY 1) AS p{field}"
        )
    };
    let expected = format!("SELECT device, s_1, s_0 FROM {} FULL JOIN {} USING (device)", grouped(0), grouped(1));
    assert_eq!(text(&sql, &aggregate(Aggregate::Count, true)), expected);
    let text = text(&sql, &aggregate(Aggregate::Count, false));
    assert!(text.contains(" CROSS JOIN (SELECT count(s_1) AS s_1 FROM g_0_p1"), "{text}");
}

#[test]
fn times_have_as_many_digits_as_the_unit() {
    let schema = schema(Unit::Nanos);
    let sql = Sql::new(&schema, Layout::unsplit(&schema), PLAIN, false);
    let window = Some(1_667_059_200_000_000_001..1_667_059_200_000_000_002);
    let query = Query { devices: Some(vec![0]), window, ..rows() };
    let expected = "SELECT device, epoch_ns(time), s_1, s_0 FROM g_0 WHERE device = $1 AND time = \
                    '2022-10-29 16:00:00.000000001+00'";
    assert_eq!(sql.text(&query, false).expect("can be asked").sql, expected);
    let shape = Shape::Buckets { aggregate: Aggregate::Count, width: 999, origin: 0, by_device: false };
    let error = sql.statement(&Query { shape, ..rows() }).expect_err("intervals have microseconds");
    assert_eq!(error.class, crate::error::Class::Unsupported);
    let query = Query { fields: vec![0, 1, 2, 3], ..rows() };
    assert_eq!(sql.statement(&query).expect_err("three at most").class, crate::error::Class::Unsupported);
}

#[test]
fn numerics_in_binary_form_are_whole_numbers_or_floats() {
    let bytes = |words: &[i16]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    for (words, cell) in [
        (&[0, 0, 0, 0][..], Cell::Int(0)),
        (&[1, 0, 0, 0, 7], Cell::Int(7)),
        (&[1, 1, 0, 0, 3], Cell::Int(30_000)),
        (&[2, 1, 0x4000, 0, 12, 345], Cell::Int(-120_345)),
        (&[1, -1, 0, 1, 5000], Cell::Float(0.5)),
        (&[2, 0, 0x4000, 2, 3, 1500], Cell::Float(-3.15)),
        (&[5, 4, 0, 0, 922, 3372, 368, 5477, 5807], Cell::Int(i64::MAX)),
        (&[1, 5, 0, 0, 1], Cell::Float(1e20)),
    ] {
        assert_eq!(numeric(&bytes(words)).expect("valid"), cell, "{words:?}");
    }
    for words in [&[1, 0, 0][..], &[2, 0, 0, 0, 1], &[0, 0, 0xc000u16 as i16, 0]] {
        assert!(numeric(&bytes(words)).is_err(), "{words:?}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_decoders_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..24),
        column in prop_oneof![
            Just(oid::BOOL), Just(oid::BYTEA), Just(oid::INT8), Just(oid::INT2), Just(oid::INT4), Just(oid::TEXT),
            Just(oid::FLOAT4), Just(oid::FLOAT8), Just(oid::DATE), Just(oid::TIMESTAMPTZ), Just(oid::NUMERIC), any::<u32>(),
        ],
    ) {
        let schema = schema(Unit::Nanos);
        let answers = Answers::new(&schema, 0);
        let _ = answers.cell(&rows(), Kind::Date, column, Some(&bytes));
        let _ = answers.time(column, Some(&bytes));
        let _ = numeric(&bytes);
    }
}
