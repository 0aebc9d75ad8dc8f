//! Index lookups return the same rows as full scans for all combinations of types, and read no rows that the key
//! excludes.

use super::Db;
use crate::exec::tests::FETCHED;

/// A column's types, values to store, and values of each type to compare with.
type Family = (&'static [&'static str], &'static [&'static str], &'static [(&'static str, &'static [&'static str])]);

const INTEGERS: Family = (
    &["int2", "int4", "int8"],
    &["0", "1", "-1", "5", "32767", "-32768"],
    &[
        ("int2", &["-32768", "5", "32767"]),
        ("int4", &["-2147483648", "-32769", "-32768", "0", "5", "32768", "2147483647"]),
        ("int8", &["-9223372036854775808", "-2147483649", "-32769", "1", "2147483648", "9223372036854775807"]),
        ("numeric", &["-1e30", "-0.5", "0.5", "1", "5.0", "32767.5", "1e30", "NaN", "-Infinity", "Infinity"]),
        ("float8", &["-1e30", "-0.5", "0.5", "1", "5", "9007199254740993", "1e30", "NaN", "-Infinity", "Infinity"]),
    ],
);

const WIDE: Family = (
    &["int8"],
    &["9223372036854775807", "-9223372036854775808", "9007199254740993", "9007199254740992", "0"],
    &[
        ("float8", &["9007199254740992", "9223372036854775807", "-9223372036854775808", "1e19", "0"]),
        ("numeric", &["9007199254740992.5", "9223372036854775807", "9223372036854775808", "-9223372036854775809"]),
        ("int2", &["0", "7"]),
    ],
);

const FLOATS: Family = (
    &["float4", "float8"],
    &["0", "-0", "0.1", "1.5", "-1.5", "16777216", "1e30", "NaN", "Infinity", "-Infinity"],
    &[
        ("float4", &["0.1", "1.5", "NaN", "-Infinity"]),
        ("float8", &["0.1", "1.5", "-0", "16777217", "1e300", "-1e300", "1e-300", "NaN", "Infinity"]),
        ("numeric", &["0.1", "1.5", "16777217"]),
        ("int4", &["0", "16777217"]),
    ],
);

const NUMERICS: Family = (
    &["numeric", "numeric(6,1)"],
    &["0", "1.0", "-1.5", "12345.6", "NaN"],
    &[("numeric", &["1", "-1.50", "NaN"]), ("int4", &["0", "1"]), ("int8", &["1"]), ("float8", &["-1.5", "1", "NaN"])],
);

const TEXTS: Family = (
    &["text", "varchar(5)", "char(5)"],
    &["''", "'a'", "'ab'", "'ab '", "E'ab\\x01'", "'abc'", "'b'"],
    &[
        ("text", &["''", "'ab'", "'ab '", "'ab  '", "'abc'"]),
        ("varchar", &["'ab'", "'ab '"]),
        ("char(4)", &["'ab'", "'ab '"]),
        ("char(2)", &["'ab'"]),
    ],
);

const MOMENTS: Family = (
    &["date", "timestamp", "timestamptz"],
    &["'2024-03-30'", "'2024-03-31'", "'2024-04-01'", "'-infinity'", "'infinity'"],
    &[
        ("date", &["'2024-03-31'", "'infinity'", "'-infinity'"]),
        ("timestamp", &["'2024-03-31'", "'2024-03-30 23:59:59'", "'2024-03-31 00:00:01'", "'infinity'"]),
        (
            "timestamptz",
            &["'2024-03-31'", "'2024-03-30 23:00:00'", "'2024-03-31 01:00:00'", "'-infinity'", "'infinity'"],
        ),
    ],
);

#[test]
fn an_index_finds_what_a_scan_finds_for_all_types() {
    let mut count = 0;
    for (columns, stored, compared) in [INTEGERS, WIDE, FLOATS, NUMERICS, TEXTS, MOMENTS] {
        for column in columns {
            let db = Db::new();
            for (name, key) in [("i", "INDEX"), ("n", "")] {
                db.ddl(&format!("CREATE TABLE {name} (id int, w int, k {column})"));
                if !key.is_empty() {
                    db.ddl(&format!("CREATE INDEX ON {name} (w, k)"));
                }
            }
            let bare = column.split('(').next().unwrap();
            let cast = |value: &str, ty: &str| match value.starts_with(['\'', 'E']) {
                true => format!("{value}::{ty}"),
                false => format!("'{value}'::{ty}"),
            };
            for name in ["i", "n"] {
                for (id, value) in stored.iter().enumerate() {
                    let value = cast(value, if bare == "char" { "text" } else { bare });
                    db.sql(&format!("INSERT INTO {name} VALUES ({id}, 1, {value}::{column}), ({id} + 50, 2, NULL)"));
                }
                db.sql(&format!("INSERT INTO {name} VALUES (99, 1, NULL)"));
            }
            let mut check = |condition: &str| {
                let found = |table| {
                    let sql = format!("SELECT id FROM {table} WHERE w = 1 AND {condition} ORDER BY id");
                    db.try_sql(&sql, &[]).map(|(rows, _)| rows.join(" ")).map_err(|error| error.state())
                };
                assert_eq!(found("i"), found("n"), "{column}: {condition}");
                count += 1;
            };
            for (ty, values) in compared {
                let values: Vec<String> = values.iter().map(|value| cast(value, ty)).collect();
                for (at, value) in values.iter().enumerate() {
                    for op in ["=", "<", "<=", ">", ">="] {
                        check(&format!("k {op} {value}"));
                        check(&format!("{value} {op} k"));
                    }
                    let other = &values[(at + 1) % values.len()];
                    check(&format!("k BETWEEN {value} AND {other}"));
                    check(&format!("k > {other} AND k <= {value}"));
                    check(&format!("k IN ({value}, {other})"));
                    check(&format!("(k = {value} OR k > {other})"));
                    check(&format!("k = {value} AND k >= {other}"));
                }
            }
            // Range bounds of two other types.
            for ((one, first), (two, second)) in compared.iter().zip(compared.iter().skip(1)) {
                let (low, high) = (cast(first[0], one), cast(second[second.len() - 1], two));
                check(&format!("k BETWEEN {low} AND {high}"));
                check(&format!("k >= {high} AND k < {low}"));
            }
        }
    }
    assert!(count > 1_500, "{count}");
}

#[test]
fn bounds_of_another_type_are_a_range_of_the_index() {
    let db = Db::new();
    db.create("t", &["id int not null", "f real", "d date", "n int"], &["primary id", "index f", "index d, id"]);
    for (condition, plan) in [
        ("id BETWEEN 5000::bigint AND 5099::bigint", "range 0"),
        ("id <= 5::bigint", "range 0"),
        ("5::bigint < id", "range 0"),
        ("id >= 4.5", "range 0"),
        ("id >= 2.5::float8 AND id < 7", "range 0"),
        ("id = 5::bigint", "points 1"),
        ("id IN (5::bigint, 6)", "points 2"),
        ("id IN (SELECT n::bigint FROM t)", "points of a subquery"),
        ("f > 1.5", "range 0"),
        ("f = 0.1::float8", "range 1"),
        ("d >= '2024-01-01'::timestamp AND d < '2024-02-01'::timestamptz", "range 0"),
        ("d = '2024-01-01'::timestamp AND id > 5::bigint", "range 1"),
        ("d = '2024-01-01'::timestamptz", "range 0"),
        ("n = 5", "all"),
    ] {
        for sql in ["SELECT 1 FROM t WHERE", "DELETE FROM t WHERE", "UPDATE t SET n = 1 WHERE"] {
            assert_eq!(db.plan(&format!("{sql} {condition}")).unwrap().plan(), plan, "{sql} {condition}");
        }
    }
    let sql = "SELECT id FROM t WHERE id > 5::bigint ORDER BY id DESC LIMIT 3";
    assert_eq!(db.plan(sql).unwrap().plan(), "range 0 backwards");
}

#[test]
fn later_columns_of_an_index_are_tested_before_rows_are_read() {
    let db = Db::new();
    db.create("t", &["id int", "a int", "b numeric", "c text", "d int"], &["index a, b, c, d"]);
    let values = (0..1_000).map(|id| format!("({id}, {}, {}, 'c{}', {})", id % 2, id % 100, id % 10, id % 7));
    db.sql(&format!("INSERT INTO t VALUES {}", values.collect::<Vec<_>>().join(", ")));
    db.sql("INSERT INTO t VALUES (2000, 1, NULL, NULL, NULL), (2001, 1, 5, NULL, 3), (2002, 1, 5, 'x', NULL)");
    for (condition, plan) in [
        ("a = 1 AND b >= 10 AND b < 60 AND d = 3", "range 1 with 1 tested in the index"),
        ("a = 1 AND b > 10 AND c IN ('c1', 'c3') AND d BETWEEN 2 AND 4", "range 1 with 2 tested in the index"),
        ("a IN (0, 1) AND c = 'c5'", "2 ranges 1 with 1 tested in the index"),
        ("a = ANY ('{0,1}') AND d > 4::bigint", "2 ranges 1 with 1 tested in the index"),
        ("a = 1 AND c > 'c5' AND c <= 'c7'", "range 1 with 1 tested in the index"),
        ("(a = 0 OR a > 0 AND a < 2) AND c = 'c4' AND d = 1", "2 ranges 0 with 2 tested in the index"),
        ("a = 1 AND d = NULL", "range 1 with 1 tested in the index"),
    ] {
        let sql = format!("SELECT id FROM t WHERE {condition} ORDER BY id");
        assert_eq!(db.plan(&sql).unwrap().plan(), plan, "{sql}");
        FETCHED.set(0);
        let found = db.sql(&sql);
        // Each query runs twice here, the second time in slices.
        assert!(FETCHED.get() as usize <= 2 * found.len(), "{} rows read for {sql}", FETCHED.get());
        // Without the index.
        let scanned =
            sql.replace("FROM t", "FROM (SELECT id, a + 0 AS a, b + 0 AS b, c || '' AS c, d + 0 AS d FROM t) t");
        assert_eq!(found, db.sql(&scanned), "{sql}");
    }
}

#[test]
fn a_join_on_an_expression_uses_a_hash_table() {
    let db = Db::new();
    db.create("s", &["k int not null", "name text"], &["primary k"]);
    db.create("t", &["x int", "y int"], &[]);
    db.sql(&format!(
        "INSERT INTO s VALUES {}",
        (0..50).map(|k| format!("({k}, 'n{k}')")).collect::<Vec<_>>().join(",")
    ));
    let rows = (0..400).map(|id| format!("({id}, {})", id % 13)).collect::<Vec<_>>().join(",");
    db.sql(&format!("INSERT INTO t VALUES {rows}, (NULL, 3)"));
    for (sql, plan, rows) in [
        ("SELECT count(*) FROM s, t WHERE mod(x * y, 50) = k", "all, hashed 1", "400"),
        ("SELECT count(*) FROM t, s WHERE mod(x * y, 50) = k", "all, points 1", "400"),
        ("SELECT count(*) FROM s JOIN t ON x + y = k + 100 AND y = 3", "all, hashed 2", "4"),
        ("SELECT count(*) FROM s LEFT JOIN t ON x * 2 = k", "all, hashed 1", "50"),
        // A condition on one table guards an expression over both.
        ("SELECT count(*) FROM s, t WHERE y <> 0 AND 12 / y = k", "all, hashed 1", "370"),
        ("SELECT count(*) FROM s WHERE EXISTS (SELECT 1 FROM t WHERE x / 10 = s.k)", "all", "40"),
    ] {
        assert_eq!(db.plan(sql).unwrap().plan(), plan, "{sql}");
        assert_eq!(db.sql(sql), [rows], "{sql}");
    }
}

/// Queries 7 and 21 of CH-benCHmark, which once scanned whole tables in a nested loop.
#[test]
fn queries_of_ch_benchmark_scan_each_table_once() {
    let db = Db::new();
    db.create(
        "supplier",
        &["su_suppkey int not null", "su_name char(25)", "su_nationkey int"],
        &["primary su_suppkey"],
    );
    db.create("nation", &["n_nationkey int not null", "n_name char(25)"], &["primary n_nationkey"]);
    db.create("stock", &["s_w_id int not null", "s_i_id int not null"], &["primary s_w_id, s_i_id"]);
    let line = [
        "ol_w_id int not null",
        "ol_d_id int not null",
        "ol_o_id int not null",
        "ol_number int not null",
        "ol_supply_w_id int",
        "ol_i_id int",
        "ol_delivery_d timestamp",
        "ol_amount numeric(6,2)",
    ];
    db.create("order_line", &line, &["primary ol_w_id, ol_d_id, ol_o_id, ol_number"]);
    let orders =
        ["o_w_id int not null", "o_d_id int not null", "o_id int not null", "o_c_id int", "o_entry_d timestamp"];
    db.create("orders", &orders, &["primary o_w_id, o_d_id, o_id"]);
    let customer = ["c_w_id int not null", "c_d_id int not null", "c_id int not null", "c_state char(2)"];
    db.create("customer", &customer, &["primary c_w_id, c_d_id, c_id"]);
    let seventh = "SELECT su_nationkey AS supp_nation, substr(c_state, 1, 1) AS cust_nation, sum(ol_amount) AS revenue
        FROM supplier, stock, order_line, orders, customer, nation n1, nation n2
        WHERE ol_supply_w_id = s_w_id AND ol_i_id = s_i_id AND mod((s_w_id * s_i_id), 10000) = su_suppkey
        AND ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id AND c_id = o_c_id AND c_w_id = o_w_id AND c_d_id = o_d_id
        AND su_nationkey = n1.n_nationkey AND ascii(substr(c_state, 1, 1)) = n2.n_nationkey
        AND ((n1.n_name = 'Germany' AND n2.n_name = 'Cambodia') OR (n1.n_name = 'Cambodia' AND n2.n_name = 'Germany'))
        AND ol_delivery_d BETWEEN '2007-01-02 00:00:00' AND '2030-01-02 00:00:00'
        GROUP BY su_nationkey, substr(c_state, 1, 1) ORDER BY su_nationkey, cust_nation";
    let plan = "all, points 1, hashed 1, hashed 2, points 1, points 1, points 1";
    assert_eq!(db.plan(seventh).unwrap().plan(), plan);
    let last = "SELECT su_name, count(*) AS numwait FROM supplier, order_line l1, orders, stock, nation
        WHERE ol_o_id = o_id AND ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_w_id = s_w_id AND ol_i_id = s_i_id
        AND mod((s_w_id * s_i_id), 10000) = su_suppkey AND l1.ol_delivery_d > o_entry_d
        AND NOT EXISTS (SELECT * FROM order_line l2 WHERE l2.ol_o_id = l1.ol_o_id AND l2.ol_w_id = l1.ol_w_id
            AND l2.ol_d_id = l1.ol_d_id AND l2.ol_delivery_d > l1.ol_delivery_d)
        AND su_nationkey = n_nationkey AND n_name = 'Germany'
        GROUP BY su_name ORDER BY numwait DESC, su_name";
    assert_eq!(db.plan(last).unwrap().plan(), "all, points 1, hashed 1, hashed 2, points 1");
    // An OR over two tables implies conditions on each of them.
    db.sql("INSERT INTO supplier VALUES (0, 's', 1), (1, 's', 2), (2, 's', 3)");
    db.sql("INSERT INTO nation VALUES (1, 'Germany'), (2, 'France'), (65, 'Cambodia')");
    db.sql("INSERT INTO stock VALUES (1, 0), (1, 1), (1, 2)");
    db.sql("INSERT INTO order_line VALUES (1, 1, 1, 1, 1, 0, '2024-01-01', 5), (1, 1, 1, 2, 1, 1, '2024-01-01', 7)");
    db.sql("INSERT INTO orders VALUES (1, 1, 1, 1, '2023-01-01')");
    db.sql("INSERT INTO customer VALUES (1, 1, 1, 'AB')");
    assert_eq!(db.sql(seventh), ["1|A|5.00"]);
    assert_eq!(db.sql(last), ["s                        |1"]);
}
