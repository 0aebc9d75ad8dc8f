//! Statements of TPC-C implementations, pgbench and sysbench: all are compiled and use keys.

use model::{Datum, Type};
use rows::Isolation;

use super::{Db, Outcome};
use crate::ParamType;

const TPCC: &str = "
CREATE TABLE warehouse (w_id integer, w_name varchar(10), w_street_1 varchar(20), w_street_2 varchar(20),
  w_city varchar(20), w_state char(2), w_zip char(9), w_tax decimal(4,4), w_ytd decimal(12,2), PRIMARY KEY (w_id));
CREATE TABLE district (d_w_id integer, d_id integer, d_name varchar(10), d_street_1 varchar(20), d_street_2 varchar(20),
  d_city varchar(20), d_state char(2), d_zip char(9), d_tax decimal(4,4), d_ytd decimal(12,2), d_next_o_id integer,
  PRIMARY KEY (d_w_id, d_id), FOREIGN KEY (d_w_id) REFERENCES warehouse (w_id));
CREATE TABLE customer (c_w_id integer, c_d_id integer, c_id integer, c_first varchar(16), c_middle char(2),
  c_last varchar(16), c_street_1 varchar(20), c_street_2 varchar(20), c_city varchar(20), c_state char(2), c_zip char(9),
  c_phone char(16), c_since timestamp, c_credit char(2), c_credit_lim decimal(12,2), c_discount decimal(4,4),
  c_balance decimal(12,2), c_ytd_payment decimal(12,2), c_payment_cnt integer, c_delivery_cnt integer,
  c_data varchar(500), PRIMARY KEY (c_w_id, c_d_id, c_id),
  FOREIGN KEY (c_w_id, c_d_id) REFERENCES district (d_w_id, d_id));
CREATE INDEX customer_by_name ON customer (c_w_id, c_d_id, c_last, c_first);
CREATE TABLE history (h_c_id integer, h_c_d_id integer, h_c_w_id integer, h_d_id integer, h_w_id integer,
  h_date timestamp, h_amount decimal(6,2), h_data varchar(24),
  FOREIGN KEY (h_c_w_id, h_c_d_id, h_c_id) REFERENCES customer (c_w_id, c_d_id, c_id));
CREATE TABLE orders (o_w_id integer, o_d_id integer, o_id integer, o_c_id integer, o_entry_d timestamp,
  o_carrier_id integer, o_ol_cnt integer, o_all_local integer, PRIMARY KEY (o_w_id, o_d_id, o_id));
CREATE INDEX orders_by_customer ON orders (o_w_id, o_d_id, o_c_id, o_id);
CREATE TABLE new_order (no_w_id integer, no_d_id integer, no_o_id integer, PRIMARY KEY (no_w_id, no_d_id, no_o_id));
CREATE TABLE item (i_id integer, i_im_id integer, i_name varchar(24), i_price decimal(5,2), i_data varchar(50),
  PRIMARY KEY (i_id));
CREATE TABLE stock (s_w_id integer, s_i_id integer, s_quantity integer, s_dist_01 char(24), s_ytd integer,
  s_order_cnt integer, s_remote_cnt integer, s_data varchar(50), PRIMARY KEY (s_w_id, s_i_id));
CREATE TABLE order_line (ol_w_id integer, ol_d_id integer, ol_o_id integer, ol_number integer, ol_i_id integer,
  ol_supply_w_id integer, ol_delivery_d timestamp, ol_quantity integer, ol_amount decimal(6,2), ol_dist_info char(24),
  PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number));
";

fn tpcc() -> Db {
    let db = Db::new();
    db.ddl(TPCC);
    db.sql("INSERT INTO warehouse (w_id, w_name, w_tax, w_ytd) VALUES (1, 'one', 0.1, 300000)");
    db.sql(
        "INSERT INTO district (d_w_id, d_id, d_name, d_tax, d_ytd, d_next_o_id) VALUES (1, 1, 'first', 0.05, 30000, 4)",
    );
    for (id, first, last) in [(1, "Ann", "BAR"), (2, "Bob", "BAR"), (3, "Cy", "BAR"), (4, "Di", "OUGHT")] {
        db.sql(&format!(
            "INSERT INTO customer (c_w_id, c_d_id, c_id, c_first, c_last, c_credit, c_discount, c_balance, c_ytd_payment,
             c_payment_cnt, c_delivery_cnt, c_data) VALUES (1, 1, {id}, '{first}', '{last}', 'GC', 0.02, -10, 10, 1, 0, 'd')"
        ));
        db.sql(&format!("INSERT INTO item VALUES ({id}, 1, 'item {id}', {id}.50, 'data')"));
        db.sql(&format!("INSERT INTO stock VALUES (1, {id}, {}, 'dist', 0, 0, 0, 'data')", id * 10));
    }
    for order in 1..4 {
        db.sql(&format!("INSERT INTO orders VALUES (1, 1, {order}, 1, '2026-01-0{order}', NULL, 2, 1)"));
        db.sql(&format!("INSERT INTO order_line VALUES (1, 1, {order}, 1, 1, 1, NULL, 5, 1.5, 'dist'), (1, 1, {order}, 2, {}, 1, NULL, 5, 2.25, 'dist')", order + 1));
    }
    db.sql("INSERT INTO new_order VALUES (1, 1, 2), (1, 1, 3)");
    db
}

/// Compiles each statement and compares its access paths.
fn check_plans(db: &Db, cases: &[(&str, &str)]) {
    for (sql, plan) in cases {
        let compiled = db.plan(sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        assert_eq!(compiled.plan(), *plan, "{sql}");
    }
}

#[test]
fn our_own_tpcc_finds_rows_by_keys() {
    check_plans(
        &tpcc(),
        &[
            ("SELECT d_tax, d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2 FOR UPDATE", "points 1"),
            (
                "SELECT c_discount, c_last, c_credit, w_tax FROM customer JOIN warehouse ON w_id = c_w_id
                 WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
                "points 1, points 1",
            ),
            ("UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2", "points 1"),
            (
                "INSERT INTO orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
                 VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP, $5, $6)",
                "",
            ),
            (
                "UPDATE stock SET s_quantity = $1, s_ytd = s_ytd + $2, s_order_cnt = s_order_cnt + 1,
                 s_remote_cnt = s_remote_cnt + $3 WHERE s_w_id = $4 AND s_i_id = $5",
                "points 1",
            ),
            (
                "INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity,
                 ol_amount, ol_dist_info) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
                "",
            ),
            ("SELECT c_id FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_first", "range 3"),
            (
                "SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3
                 AND o_id = (SELECT max(o_id) FROM orders WHERE o_w_id = $4 AND o_d_id = $5 AND o_c_id = $6)",
                "points 1",
            ),
            ("SELECT max(o_id) FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3", "range 3 backwards"),
            (
                "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line
                 WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3 ORDER BY ol_number",
                "range 3",
            ),
            (
                "SELECT no_o_id FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 ORDER BY no_o_id LIMIT 1 FOR UPDATE",
                "range 2",
            ),
            ("DELETE FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = $3", "points 1"),
            (
                "UPDATE order_line SET ol_delivery_d = CURRENT_TIMESTAMP WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3",
                "range 3",
            ),
            ("SELECT sum(ol_amount) FROM order_line WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3", "range 3"),
            (
                "SELECT count(DISTINCT s_i_id) FROM district JOIN order_line ON ol_w_id = d_w_id AND ol_d_id = d_id
                 AND ol_o_id >= d_next_o_id - 20 AND ol_o_id < d_next_o_id JOIN stock ON s_w_id = ol_w_id
                 AND s_i_id = ol_i_id WHERE d_w_id = $1 AND d_id = $2 AND s_quantity < $3",
                "points 1, range 2, points 1",
            ),
        ],
    );
}

/// Query shapes that only other TPC-C implementations use.
#[test]
fn other_kits_of_tpcc_find_rows_by_keys() {
    check_plans(
        &tpcc(),
        &[
            (
                "SELECT c_discount, c_last, c_credit, w_tax FROM customer, warehouse
                 WHERE w_id = $1 AND c_w_id = w_id AND c_d_id = $2 AND c_id = $3",
                "points 1, points 1",
            ),
            ("UPDATE district SET d_next_o_id = $1 + 1 WHERE d_id = $2 AND d_w_id = $3", "points 1"),
            ("SELECT i_price, i_name, i_data, i_id FROM item WHERE i_id IN ($1, $2, $3, $4, $5)", "points 5"),
            (
                "SELECT s_i_id, s_quantity FROM stock WHERE (s_w_id, s_i_id) IN (($1, $2), ($3, $4), ($5, $6)) FOR UPDATE",
                "points 3",
            ),
            ("INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES ($1, $2, $3), ($4, $5, $6)", ""),
            ("SELECT count(c_id) namecnt FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3", "range 3"),
            (
                "SELECT o_id, o_carrier_id FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3
                 ORDER BY o_id DESC LIMIT 1",
                "range 3 backwards",
            ),
            ("SELECT no_o_id FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 ORDER BY no_o_id ASC", "range 2"),
            ("DELETE FROM new_order WHERE (no_w_id, no_d_id, no_o_id) IN (($1, $2, $3), ($4, $5, $6))", "points 2"),
            ("UPDATE orders SET o_carrier_id = $1 WHERE (o_w_id, o_d_id, o_id) IN (($2, $3, $4), ($5, $6, $7))", "points 2"),
            (
                "UPDATE order_line SET ol_delivery_d = $1 WHERE (ol_w_id, ol_d_id, ol_o_id) IN (($2, $3, $4), ($5, $6, $7))",
                "2 ranges 3",
            ),
            (
                "SELECT ol_d_id, sum(ol_amount) FROM order_line WHERE (ol_w_id, ol_d_id, ol_o_id) IN (($1, $2, $3), ($4, $5, $6))
                 GROUP BY ol_d_id",
                "2 ranges 3",
            ),
            (
                "SELECT /*+ TIDB_INLJ(order_line, stock) */ COUNT(DISTINCT (s_i_id)) stock_count FROM order_line, stock
                 WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id < $3 AND ol_o_id >= $3 - 20 AND s_w_id = $4
                 AND s_i_id = ol_i_id AND s_quantity < $5",
                "range 2, points 1",
            ),
        ],
    );
}

#[test]
fn pgbench_and_sysbench_find_rows_by_keys() {
    let db = Db::new();
    db.ddl(
        "CREATE TABLE pgbench_accounts (aid integer PRIMARY KEY, bid integer, abalance integer, filler char(84));
         CREATE TABLE pgbench_branches (bid integer PRIMARY KEY, bbalance integer, filler char(88));
         CREATE TABLE pgbench_tellers (tid integer PRIMARY KEY, bid integer, tbalance integer, filler char(84));
         CREATE TABLE pgbench_history (tid integer, bid integer, aid integer, delta integer, mtime timestamp, filler char(22));
         CREATE TABLE sbtest1 (id integer PRIMARY KEY, k integer NOT NULL DEFAULT 0, c char(120) NOT NULL DEFAULT '',
           pad char(60) NOT NULL DEFAULT '');
         CREATE INDEX k_1 ON sbtest1 (k)",
    );
    check_plans(
        &db,
        &[
            ("UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2", "points 1"),
            ("SELECT abalance FROM pgbench_accounts WHERE aid = $1", "points 1"),
            ("UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2", "points 1"),
            ("UPDATE pgbench_branches SET bbalance = bbalance + -12 WHERE bid = 1", "points 1"),
            (
                "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP)",
                "",
            ),
            ("SELECT c FROM sbtest1 WHERE id = $1", "points 1"),
            ("SELECT c FROM sbtest1 WHERE id BETWEEN $1 AND $2", "range 0"),
            ("SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN $1 AND $2", "range 0"),
            ("SELECT c FROM sbtest1 WHERE id BETWEEN $1 AND $2 ORDER BY c", "range 0"),
            ("SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN $1 AND $2 ORDER BY c", "range 0"),
            ("UPDATE sbtest1 SET k = k + 1 WHERE id = $1", "points 1"),
            ("UPDATE sbtest1 SET c = $1 WHERE id = $2", "points 1"),
            ("DELETE FROM sbtest1 WHERE id = $1", "points 1"),
            ("INSERT INTO sbtest1 (id, k, c, pad) VALUES ($1, $2, $3, $4)", ""),
            ("SELECT id, k, c, pad FROM sbtest1 WHERE k IN ($1, $2, $3, $4)", "4 ranges 1"),
            ("SELECT id FROM sbtest1 WHERE k = 3 OR k = 5 OR k = 7", "3 ranges 1"),
        ],
    );
    db.sql("INSERT INTO sbtest1 (id, k, c) VALUES (1, 3, 'a'), (2, 3, 'b'), (3, 5, 'c'), (4, 9, 'd')");
    db.check(&[
        ("SELECT id FROM sbtest1 WHERE k IN (5, 3, 5, NULL, 7) ORDER BY id", "1\n2\n3"),
        ("SELECT id FROM sbtest1 WHERE (k = 3 AND id = 2) OR (k = 9 AND id = 4) ORDER BY id", "2\n4"),
        ("SELECT sum(k) FROM sbtest1 WHERE id BETWEEN 2 AND 4", "17"),
    ]);
}

#[test]
fn parameters_get_the_types_that_postgresql_infers() {
    let db = tpcc();
    for (sql, expected) in [
        ("UPDATE warehouse SET w_ytd = w_ytd + $1 WHERE w_id = $2", "numeric, integer"),
        ("SELECT c_id FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3", "integer, integer, text"),
        ("UPDATE district SET d_next_o_id = $1 + 1 WHERE d_id = $2 AND d_w_id = $3", "integer, integer, integer"),
        (
            "INSERT INTO history (h_c_id, h_date, h_amount, h_data) VALUES ($1, $2, $3, $4)",
            "integer, timestamp without time zone, numeric, character varying",
        ),
        ("SELECT i_id FROM item WHERE i_id IN ($1, $2) LIMIT $3 OFFSET $4", "integer, integer, bigint, bigint"),
        ("UPDATE customer SET c_data = $1, c_credit = $2 WHERE c_id = $3", "character varying, bpchar, integer"),
        ("SELECT $1::int + $2, coalesce($3, 1.5), $4 || 'x'", "integer, integer, numeric, text"),
    ] {
        let compiled = db.plan(sql).unwrap();
        let types: Vec<&str> = compiled.params().iter().map(sql_name).collect();
        assert_eq!(types.join(", "), expected, "{sql}");
    }
    // Declared parameter types are kept: JDBC sends doubles for numeric columns.
    let sql = "UPDATE warehouse SET w_ytd = w_ytd + $1 WHERE w_id = $2";
    let compiled = db.plan_with(sql, &[Some(ParamType::Plain(Type::Float8))]).unwrap();
    assert_eq!(compiled.params(), [Type::Float8, Type::Int4].map(ParamType::Plain));
}

fn sql_name(ty: &ParamType) -> &'static str {
    match ty {
        ParamType::Plain(ty) => ty.sql_name(),
        ParamType::Array(_) => panic!("an array"),
    }
}

/// Each TPC-C transaction once, statement by statement.
#[test]
fn tpcc_transactions_have_their_specified_effects() {
    let db = tpcc();
    let mut txn = db.begin(Isolation::ReadCommitted);
    let mut check = |sql: &str, params: &[Datum<'_>], expected: &str| {
        let found = match db.run(&mut txn, sql, params).unwrap_or_else(|error| panic!("{sql}: {error:?}")) {
            Outcome::Rows(rows, count) if rows.is_empty() => format!("{count} rows"),
            Outcome::Rows(rows, _) => rows.join("\n"),
            Outcome::Wait(_) => "waits".into(),
        };
        assert_eq!(found, expected, "{sql}");
    };
    let int = Datum::Int4;
    let money = |text: &str| Datum::Numeric(text.parse().unwrap());
    // New order.
    check(
        "SELECT d_tax, d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2 FOR UPDATE",
        &[int(1), int(1)],
        "0.0500|4",
    );
    check(
        "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2 RETURNING d_next_o_id - 1",
        &[int(1), int(1)],
        "4",
    );
    check(
        "INSERT INTO orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP, $5, $6) RETURNING o_entry_d",
        &[int(1), int(1), int(4), int(1), int(1), int(1)],
        "2026-11-21 13:00:00",
    );
    check("INSERT INTO new_order (no_w_id, no_d_id, no_o_id) VALUES ($1, $2, $3)", &[int(1), int(1), int(4)], "1 rows");
    check(
        "UPDATE stock SET s_quantity = CASE WHEN s_quantity - 5 >= 10 THEN s_quantity - 5 ELSE s_quantity - 5 + 91 END,
         s_ytd = s_ytd + 5, s_order_cnt = s_order_cnt + 1 WHERE s_w_id = 1 AND s_i_id IN (1, 2) RETURNING s_i_id, s_quantity, s_ytd",
        &[],
        "1|96|5\n2|15|5",
    );
    check(
        "INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount,
         ol_dist_info) SELECT 1, 1, d_next_o_id - 1, 1, i_id, 1, 5, 5 * i_price, s_dist_01 FROM district, item, stock
         WHERE d_w_id = 1 AND d_id = 1 AND i_id = 2 AND s_w_id = 1 AND s_i_id = 2 RETURNING ol_o_id, ol_amount",
        &[],
        "4|12.50",
    );
    check("SELECT 1 / count(*) FROM item WHERE i_id = 2", &[], "1");
    // Payment by last name: the customer in the middle.
    check("UPDATE warehouse SET w_ytd = w_ytd + $1 WHERE w_id = $2", &[money("12.34"), int(1)], "1 rows");
    check("SELECT w_ytd FROM warehouse WHERE w_id = 1", &[], "300012.34");
    let all = "FROM customer WHERE c_w_id = 1 AND c_d_id = 1 AND c_last = 'BAR'";
    let middle = format!("(SELECT c_id {all} ORDER BY c_first LIMIT 1 OFFSET (SELECT (count(*) - 1) / 2 {all}))");
    check(
        &format!(
            "UPDATE customer SET c_balance = c_balance - 12.34, c_ytd_payment = c_ytd_payment + 12.34,
             c_payment_cnt = c_payment_cnt + 1, c_data = CASE WHEN c_credit = 'BC' THEN
             substring(c_id || ' 1 1 12.34 ' || c_data, 1, 500) ELSE c_data END
             WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = {middle} RETURNING c_id, c_first, c_balance, c_data"
        ),
        &[],
        "2|Bob|-22.34|d",
    );
    check(
        "INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
         SELECT 2, 1, 1, 1, 1, CURRENT_TIMESTAMP, 12.34, w_name || '    ' || d_name FROM warehouse, district
         WHERE w_id = 1 AND d_w_id = 1 AND d_id = 1 RETURNING h_data",
        &[],
        "one    first",
    );
    // Order status.
    check(
        "SELECT o_id FROM orders WHERE o_w_id = 1 AND o_d_id = 1 AND o_c_id = 1 ORDER BY o_id DESC LIMIT 1",
        &[],
        "4",
    );
    // Delivery.
    check(
        "SELECT no_o_id FROM new_order WHERE no_w_id = 1 AND no_d_id = 1 ORDER BY no_o_id LIMIT 1 FOR UPDATE",
        &[],
        "2",
    );
    let oldest = "(SELECT min(no_o_id) FROM new_order WHERE no_w_id = 1 AND no_d_id = 1)";
    let lines = format!("ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id = {oldest}");
    check(
        &format!(
            "UPDATE orders SET o_carrier_id = 7 WHERE o_w_id = 1 AND o_d_id = 1 AND o_id = {oldest} RETURNING o_c_id"
        ),
        &[],
        "1",
    );
    check(&format!("UPDATE order_line SET ol_delivery_d = CURRENT_TIMESTAMP WHERE {lines}"), &[], "2 rows");
    check(
        &format!(
            "UPDATE customer SET c_balance = c_balance + (SELECT sum(ol_amount) FROM order_line WHERE {lines}),
             c_delivery_cnt = c_delivery_cnt + 1 WHERE c_w_id = 1 AND c_d_id = 1 AND c_id =
             (SELECT o_c_id FROM orders WHERE o_w_id = 1 AND o_d_id = 1 AND o_id = {oldest}) RETURNING c_balance"
        ),
        &[],
        "-6.25",
    );
    check(&format!("DELETE FROM new_order WHERE no_w_id = 1 AND no_d_id = 1 AND no_o_id = {oldest}"), &[], "1 rows");
    check("SELECT min(no_o_id) FROM new_order WHERE no_w_id = 1 AND no_d_id = 1", &[], "3");
    // Stock level.
    check(
        "SELECT count(DISTINCT s_i_id) FROM district JOIN order_line ON ol_w_id = d_w_id AND ol_d_id = d_id
         AND ol_o_id >= d_next_o_id - 20 AND ol_o_id < d_next_o_id JOIN stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id
         WHERE d_w_id = $1 AND d_id = $2 AND s_quantity < $3",
        &[int(1), int(1), int(35)],
        "2",
    );
    db.commit(txn);
}
