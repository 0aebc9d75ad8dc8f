//! Statements of the kinds that servers see: constants, point queries, changes, analytics, loads.

use std::fmt::Write;

/// Names and texts.
pub(crate) fn all() -> Vec<(&'static str, String)> {
    let mut statements: Vec<(&str, String)> = STATEMENTS.iter().map(|(name, sql)| (*name, (*sql).to_owned())).collect();
    let mut load = "INSERT INTO readings (time, device, a, b, c) VALUES ".to_owned();
    for row in 0..1_000 {
        let comma = if row == 0 { "" } else { ", " };
        let written = write!(
            load,
            "{comma}('2026-01-01 00:{:02}:{:02}', 'dev-{row}', {row}, {row}.25, -{row})",
            row / 60,
            row % 60
        );
        written.expect("a text takes what is written");
    }
    statements.push(("INSERT of 1,000 rows x 5", load));
    statements
}

const STATEMENTS: &[(&str, &str)] = &[
    ("SELECT 1", "SELECT 1"),
    ("point select", "SELECT id, name, balance FROM accounts WHERE id = $1"),
    (
        "TPC-C update, 6 columns",
        "UPDATE stock SET s_quantity = s_quantity - $1, s_ytd = s_ytd + $2, s_order_cnt = s_order_cnt + 1, \
         s_remote_cnt = s_remote_cnt + $3, s_data = $4, s_dist_01 = $5 WHERE s_i_id = $6 AND s_w_id = $7 RETURNING s_quantity",
    ),
    (
        "INSERT 15 columns, ON CONFLICT 12",
        "INSERT INTO customer (c_id, c_d_id, c_w_id, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, \
         c_phone, c_since, c_credit, c_balance) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) \
         ON CONFLICT (c_w_id, c_d_id, c_id) DO UPDATE SET c_first = excluded.c_first, c_middle = excluded.c_middle, \
         c_last = excluded.c_last, c_street_1 = excluded.c_street_1, c_street_2 = excluded.c_street_2, c_city = excluded.c_city, \
         c_state = excluded.c_state, c_zip = excluded.c_zip, c_phone = excluded.c_phone, c_since = excluded.c_since, \
         c_credit = excluded.c_credit, c_balance = excluded.c_balance",
    ),
    (
        "TSBS double-groupby",
        "WITH cpu_avg AS (SELECT time_bucket('1 hour', time) AS hour, hostname, avg(usage_user) AS mean_usage_user, \
         avg(usage_system) AS mean_usage_system, avg(usage_idle) AS mean_usage_idle, avg(usage_nice) AS mean_usage_nice, \
         avg(usage_iowait) AS mean_usage_iowait FROM cpu WHERE time >= '2016-01-01 00:00:00+00' AND time < '2016-01-02 00:00:00+00' \
         GROUP BY hour, hostname) SELECT hour, hostname, mean_usage_user, mean_usage_system, mean_usage_idle, mean_usage_nice, \
         mean_usage_iowait FROM cpu_avg ORDER BY hour, hostname",
    ),
    (
        "TPC-H Q1",
        "select l_returnflag, l_linestatus, sum(l_quantity) as sum_qty, sum(l_extendedprice) as sum_base_price, \
         sum(l_extendedprice * (1 - l_discount)) as sum_disc_price, sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) as sum_charge, \
         avg(l_quantity) as avg_qty, avg(l_extendedprice) as avg_price, avg(l_discount) as avg_disc, count(*) as count_order \
         from lineitem where l_shipdate <= date '1998-12-01' - interval '90' day \
         group by l_returnflag, l_linestatus order by l_returnflag, l_linestatus",
    ),
    (
        "TPC-H Q5",
        "select n_name, sum(l_extendedprice * (1 - l_discount)) as revenue from customer, orders, lineitem, supplier, nation, region \
         where c_custkey = o_custkey and l_orderkey = o_orderkey and l_suppkey = s_suppkey and c_nationkey = s_nationkey \
         and s_nationkey = n_nationkey and n_regionkey = r_regionkey and r_name = 'ASIA' and o_orderdate >= date '1994-01-01' \
         and o_orderdate < date '1994-01-01' + interval '1' year group by n_name order by revenue desc",
    ),
    (
        "TPC-H Q21",
        "select s_name, count(*) as numwait from supplier, lineitem l1, orders, nation where s_suppkey = l1.l_suppkey \
         and o_orderkey = l1.l_orderkey and o_orderstatus = 'F' and l1.l_receiptdate > l1.l_commitdate and exists (select * \
         from lineitem l2 where l2.l_orderkey = l1.l_orderkey and l2.l_suppkey <> l1.l_suppkey) and not exists (select * \
         from lineitem l3 where l3.l_orderkey = l1.l_orderkey and l3.l_suppkey <> l1.l_suppkey and l3.l_receiptdate > l3.l_commitdate) \
         and s_nationkey = n_nationkey and n_name = 'SAUDI ARABIA' group by s_name order by numwait desc, s_name limit 100",
    ),
];
