//! Series statements and DataFusion return the same results: random statements on random data in each storage, run by
//! both.

use query::Value;

use crate::client::{Client, Fixture, Storage};
use crate::script::Connection;

/// xorshift64*
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n
    }

    fn one_of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len() as u64) as usize]
    }

    /// A non-empty random subset of a list, in the list's order.
    fn some_of<'a>(&mut self, list: &[&'a str]) -> Vec<&'a str> {
        let chosen: Vec<&str> = list.iter().copied().filter(|_| self.below(3) == 0).collect();
        if chosen.is_empty() { vec![self.one_of(list)] } else { chosen }
    }

    fn time(&mut self) -> String {
        // Around a clock change in Berlin.
        let minutes = self.below(6 * 24 * 60);
        format!("2024-03-{:02} {:02}:{:02}+00", 28 + minutes / 1440 % 4, minutes / 60 % 24, minutes % 60)
    }
}

const TABLE: &str = "CREATE TABLE m (time timestamptz NOT NULL, dev text, site int, v float8, f float4, n int, b bigint, \
                     s smallint, ok bool, x text, at timestamptz) WITH (store = 'columns', key = 'dev, site')";
const ONE_KEY: &str = "CREATE TABLE o (time timestamptz NOT NULL, dev text, v float8, n int) \
                       WITH (store = 'columns', key = 'dev')";
/// One series with numbers only: block statistics cover everything.
const ONE_SERIES: &str = "CREATE TABLE c (time timestamptz NOT NULL, dev text, v float8, n int) \
                          WITH (store = 'columns', key = 'dev')";
const EVENTS: &str = "CREATE TABLE e (time timestamptz NOT NULL, dev text, v float8, n int) WITH (store = 'columns')";

/// `devs`: the series' keys.
fn insert(random: &mut Random, table: &str, devs: &[&str]) -> String {
    let rows: Vec<String> = (0..1 + random.below(60))
        .map(|_| {
            let time = random.time();
            let dev = if table == "c" { "'a'" } else { random.one_of(devs) };
            let v = match random.below(12) {
                0 => "NULL".to_owned(),
                1 | 2 if table == "c" => "12.5".to_owned(),
                1 => "'NaN'".to_owned(),
                2 => random.one_of(&["'Infinity'", "'-Infinity'", "0", "'-0'"]).to_owned(),
                _ => format!("{}", random.below(4000) as f64 / 8.0 - 100.0),
            };
            let n = if random.below(4) == 0 { "NULL".to_owned() } else { random.below(100).to_string() };
            if table != "m" {
                return format!("('{time}', {dev}, {v}, {n})");
            }
            let (site, b, s) = (random.below(3), random.below(1 << 40), random.below(9));
            let (ok, x) = (random.one_of(&["true", "false", "NULL"]), random.one_of(&["'p'", "'q'", "NULL"]));
            let f = random.below(50) as f64 / 2.0;
            format!("('{time}', {dev}, {site}, {v}, {f}, {n}, {b}, {s}, {ok}, {x}, '{}')", random.time())
        })
        .collect();
    format!("INSERT INTO {table} VALUES {}", rows.join(", "))
}

fn condition(random: &mut Random, table: &str) -> String {
    let time = random.time();
    let number = random.below(400) as f64 / 2.0;
    let kinds = match table {
        "m" => 19,
        "c" => 6,
        _ => 13,
    };
    match random.below(kinds) {
        0 | 1 => format!("dev = '{}'", random.one_of(&["a", "b", "c", "zz", ""])),
        2 => "dev IN ('a', 'c', 'zz')".to_owned(),
        3 => "dev = ANY (ARRAY['b', 'd'])".to_owned(),
        4 => format!("time >= '{time}'"),
        5 => format!("time < '{time}'"),
        6 => format!("time BETWEEN '{time}' AND '{}'", random.time()),
        7 => format!("v {} {number}", random.one_of(&[">", ">=", "<", "<=", "=", "<>"])),
        8 => format!("n {} {}", random.one_of(&[">", "<", "="]), random.below(100)),
        9 => random.one_of(&["v IS NOT NULL", "n IS NULL", "(v IS NOT NULL OR n IS NOT NULL)"]).to_owned(),
        10 => format!("(v > {number} OR n < 20)"),
        11 => random.one_of(&["dev IS NULL", "dev <> 'a'", "dev LIKE 'a%'", "NOT (dev = 'b')", "dev > 'b'"]).to_owned(),
        12 => "time > now() - interval '100 years'".to_owned(),
        13 => format!("site = {}", random.below(4)),
        14 => random.one_of(&["ok", "NOT ok", "ok IS NULL"]).to_owned(),
        17 => random
            .one_of(&[
                "x = 'p'",
                "x <> 'q'",
                "x IS NULL",
                "x IN ('q', 'zz')",
                "x LIKE 'p%'",
                "upper(x) = 'P'",
                "x > 'p'",
            ])
            .to_owned(),
        15 => format!("at < '{time}'"),
        16 => format!("f * 2 > {number}"),
        _ => "site IN (0, 2) AND dev = 'a'".to_owned(),
    }
}

fn conditions(random: &mut Random, table: &str) -> String {
    let all: Vec<String> = (0..random.below(4)).map(|_| condition(random, table)).collect();
    if all.is_empty() { String::new() } else { format!(" WHERE {}", all.join(" AND ")) }
}

/// A random statement, and whether its ORDER BY determines the order completely.
fn statement(random: &mut Random, table: &str) -> (String, bool) {
    let keys: &[&str] = if table == "m" { &["dev", "site"] } else { &["dev"] };
    let fields: &[&str] = if table == "m" { &["v", "f", "n", "b", "s", "ok", "x", "at"] } else { &["v", "n"] };
    let from = format!("FROM {table}{}", conditions(random, table));
    match random.below(12) {
        0 | 1 => {
            let columns = random.some_of(fields).join(", ");
            (format!("SELECT dev, time, {columns} {from}"), false)
        }
        2 => {
            let order = if random.below(2) == 0 { "time" } else { "time DESC" };
            let limit = if random.below(2) == 0 { format!(" LIMIT {}", random.below(20)) } else { String::new() };
            let offset = if random.below(3) == 0 { format!(" OFFSET {}", random.below(10)) } else { String::new() };
            // Rows with equal times come in any order.
            (format!("SELECT time AS t {from} ORDER BY {order}{limit}{offset}"), true)
        }
        3 => {
            let columns = random.some_of(fields).join(", ");
            let by =
                if table == "e" { "time, v, n, dev".to_owned() } else { format!("v DESC, {}, time", keys.join(", ")) };
            let columns = if table == "e" { "time, v, n, dev" } else { &columns };
            (format!("SELECT {columns}, epoch_ns(time) + 1 {from} ORDER BY {by} LIMIT {}", random.below(50)), true)
        }
        4 if table != "e" => {
            // If several series have the newest row for a subset of the keys, any of them may be returned.
            let (keys, columns) = match random.below(3) {
                0 => (random.one_of(keys).to_owned(), String::new()),
                _ => (keys.join(", "), format!(", {}", random.some_of(fields).join(", "))),
            };
            let limit = random.one_of(&["", "", " LIMIT 2", " LIMIT 1 OFFSET 1"]);
            (
                format!("SELECT DISTINCT ON ({keys}) {keys}, time{columns} {from} ORDER BY {keys}, time DESC{limit}"),
                true,
            )
        }
        5 => {
            let bucket = random.one_of(&[
                "time_bucket('20 minutes', time)",
                "time_bucket('1 day', time, 'Europe/Berlin')",
                "date_trunc('hour', time)",
                "time",
            ]);
            let by = random.one_of(&["", ", dev", keys[keys.len() - 1]]);
            let by = if by.is_empty() || by.starts_with(',') { by.to_owned() } else { format!(", {by}") };
            let aggregates = random.some_of(&["count(*)", "max(n)", "sum(v)", "avg(n)", "min(time)"]).join(", ");
            let offset = if random.below(3) == 0 { format!(" OFFSET {}", random.below(10)) } else { String::new() };
            let limit = random.below(20);
            (
                format!(
                    "SELECT {aggregates}, {bucket} AS at{by} {from} GROUP BY {bucket}{by} ORDER BY at DESC{by} \
                     LIMIT {limit}{offset}"
                ),
                true,
            )
        }
        6 => {
            let columns = random.some_of(fields).join(", ");
            let union = random.one_of(&["UNION", "UNION ALL"]);
            let parts: Vec<String> = (0..2 + random.below(2))
                .map(|_| format!("SELECT time, {columns} FROM {table}{}", conditions(random, table)))
                .collect();
            (parts.join(&format!(" {union} ")), false)
        }
        _ => {
            let mut aggregates =
                vec!["count(*)", "count(v)", "sum(n)", "min(n)", "max(n)", "avg(n)", "min(time)", "max(time)"];
            aggregates.extend(["sum(v)", "avg(v)", "min(v)", "max(v)", "max(v) - min(v)", "count(n) + 1"]);
            if table != "e" {
                aggregates.extend(["first(v, time)", "last(n, time)", "last(v, time) FILTER (WHERE v IS NOT NULL)"]);
            }
            if table == "m" {
                aggregates.extend(["sum(f)", "sum(b)", "avg(b)", "min(s)", "max(at)", "min(x)", "first(x, time)"]);
                aggregates.extend(["last(ok, time)", "bool_or(ok)", "stddev(f)", "max(f)", "count(DISTINCT n)"]);
            }
            let chosen = random.some_of(&aggregates);
            // Several series may have different first values at one time.
            let needs_keys = chosen.iter().any(|call| call.starts_with("first") || call.starts_with("last"));
            let mut by: Vec<&str> = Vec::new();
            if needs_keys || random.below(2) == 0 {
                by.extend(keys);
            } else if random.below(3) == 0 {
                by.push(keys[keys.len() - 1]);
            }
            if random.below(2) == 0 {
                by.push(random.one_of(&[
                    "time_bucket('1 hour', time)",
                    "time_bucket('1 day', time, 'Europe/Berlin')",
                    "time_bucket('7 hours', time, TIMESTAMPTZ '2024-01-01 00:00:00+00')",
                    "date_trunc('day', time)",
                    "time",
                ]));
            }
            if random.below(3) == 0 {
                let fields: &[&str] = if table == "m" { &["x", "ok", "n", "s", "x, s", "s, ok, x"] } else { &["n"] };
                by.push(random.one_of(fields));
            }
            let list = chosen.join(", ");
            if by.is_empty() {
                return (format!("SELECT {list} {from}"), true);
            }
            let by = by.join(", ");
            let having = if random.below(5) == 0 { " HAVING count(*) > 2" } else { "" };
            let limit = if random.below(5) == 0 { " LIMIT 3" } else { "" };
            (format!("SELECT {by}, {list} {from} GROUP BY {by}{having} ORDER BY {by}{limit}"), true)
        }
    }
}

/// Whether two cells are equal; floats may differ by the order of summation.
fn is_same(a: &str, b: &str) -> bool {
    a == b
        || match (a.parse::<f64>(), b.parse::<f64>()) {
            (Ok(a), Ok(b)) => (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-3),
            _ => false,
        }
}

fn are_same(a: &[String], b: &[String]) -> bool {
    let row = |(a, b): (&String, &String)| {
        a.split('|').count() == b.split('|').count() && a.split('|').zip(b.split('|')).all(|(a, b)| is_same(a, b))
    };
    a.len() == b.len() && a.iter().zip(b).all(row)
}

#[derive(Default)]
struct Seen {
    statements: u64,
    series: u64,
    by_statistics: u64,
}

async fn compare(client: &mut Client, random: &mut Random, table: &str, seen: &mut Seen) {
    let (sql, in_order) = statement(random, table);
    client.run("SET enable_series = on").await.unwrap();
    let explained = client.table(&format!("EXPLAIN ANALYZE {sql}")).await.unwrap_or_default();
    let mut fast = client.table(&sql).await;
    let described = client.described(&sql, &[]).await.ok();
    client.run("SET enable_series = off").await.unwrap();
    let mut slow = client.table(&sql).await;
    assert_eq!(described, client.described(&sql, &[]).await.ok(), "{sql}");
    seen.statements += 1;
    if explained.first().is_some_and(|line| line.starts_with("Series statement")) {
        seen.series += 1;
        let known = explained.iter().any(|line| line.contains("by statistics=") && !line.contains("by statistics=0,"));
        seen.by_statistics += u64::from(known);
    }
    if !in_order {
        for rows in [&mut fast, &mut slow].into_iter().flatten() {
            rows.sort();
        }
    }
    match (&fast, &slow) {
        (Ok(fast), Ok(slow)) => assert!(are_same(fast, slow), "{sql}\n{explained:#?}\n{fast:#?}\n{slow:#?}"),
        (fast, slow) => assert_eq!(fast, slow, "{sql}"),
    }
}

async fn histories(seed: u64, seen: &mut Seen) {
    let mut random = Random(seed);
    // Blocks of a single series have more useful statistics.
    let all: &[&str] = if seed.is_multiple_of(3) { &["'a'"] } else { &["'a'", "'b'", "'c'", "'d'", "''", "NULL"] };
    let fixture = Fixture::new();
    let mut client = Client::new(&fixture, Storage::Memory);
    for table in [TABLE, ONE_KEY, ONE_SERIES, EVENTS] {
        client.run(table).await.unwrap();
    }
    if random.below(2) == 0 {
        client.run("SET timezone = 'America/New_York'").await.unwrap();
    }
    for _ in 0..60 {
        let table = random.one_of(&["m", "m", "o", "e", "c"]);
        match random.below(12) {
            0..4 => drop(client.run(&insert(&mut random, table, all)).await.unwrap()),
            4 => {
                let time = random.time();
                let dev = if table == "e" { String::new() } else { " AND dev = 'a'".to_owned() };
                client.run(&format!("DELETE FROM {table} WHERE time >= '{time}' AND time < '{time}'::timestamptz + interval '5 hours'{dev}")).await.unwrap();
            }
            5 => client.place(if random.below(2) == 0 { Storage::Flushed } else { Storage::Settled }),
            _ => {
                for _ in 0..4 {
                    compare(&mut client, &mut random, table, seen).await;
                }
            }
        }
    }
    // In a transaction with uncommitted changes of its own.
    client.run("BEGIN").await.unwrap();
    for table in ["m", "o", "e"] {
        client.run(&insert(&mut random, table, all)).await.unwrap();
        for _ in 0..6 {
            compare(&mut client, &mut random, table, seen).await;
        }
    }
    client.run("ROLLBACK").await.unwrap();
    for table in ["m", "o", "e", "c"] {
        client.place(Storage::Settled);
        for _ in 0..if table == "c" { 40 } else { 10 } {
            compare(&mut client, &mut random, table, seen).await;
        }
    }
}

#[test]
fn parameters_have_the_same_types_and_values_both_ways() {
    let moment = |text: &str| Value::Timestamptz(pg::time::parse_timestamp(text).unwrap());
    let text = |text: &str| Value::Text(text.to_owned());
    let list = |items: &[&str]| Value::Array(items.iter().map(|item| text(item)).collect());
    let ints = |items: &[i32]| Value::Array(items.iter().map(|item| Value::Int32(*item)).collect());
    let statements: &[(&str, &[u32], Vec<Value>)] = &[
        ("SELECT time, v FROM o WHERE dev = $1 AND time >= $2", &[], vec![text("a"), moment("2024-03-29")]),
        ("SELECT time, v FROM o WHERE dev = $1 AND v > $2 ORDER BY time", &[], vec![text("b"), Value::Float64(3.0)]),
        ("SELECT time, v FROM o WHERE dev = $1 AND v > $2 ORDER BY time", &[25, 23], vec![text("b"), Value::Int32(3)]),
        (
            "SELECT time, n FROM o WHERE n BETWEEN $1 AND $2 ORDER BY time, n, v",
            &[],
            vec![Value::Int32(3), Value::Int32(60)],
        ),
        ("SELECT time, n FROM o WHERE n = $1 ORDER BY time, n, v", &[20], vec![Value::Int64(3)]),
        ("SELECT count(*) FROM o WHERE dev = ANY($1)", &[1009], vec![list(&["a", "c", "q"])]),
        ("SELECT count(*) FROM o WHERE dev = ANY($1)", &[], vec![list(&["a", "c", "q"])]),
        ("SELECT count(*) FROM o WHERE dev = ANY($1)", &[], vec![Value::Null]),
        ("SELECT time, n FROM o WHERE n = ANY($1) ORDER BY time, n, v", &[], vec![ints(&[3, 60])]),
        // psycopg sends small integers as smallint.
        ("SELECT count(*) FROM o WHERE n = ANY($1)", &[1005], vec![Value::Array(vec![Value::Int16(3), Value::Null])]),
        ("SELECT count(*) FROM o WHERE v = ANY($1)", &[1005], vec![Value::Array(vec![Value::Int16(3)])]),
        ("SELECT count(*) FROM o WHERE v = ANY($1)", &[], vec![Value::Array(vec![Value::Float64(3.0), Value::Null])]),
        ("SELECT count(*), max(v) FROM o WHERE dev IN ($1, $2)", &[], vec![text("a"), text("d")]),
        ("SELECT time FROM o WHERE dev = $1 ORDER BY time DESC LIMIT $2", &[], vec![text("a"), Value::Int64(3)]),
        ("SELECT time FROM o WHERE dev = $1 ORDER BY time OFFSET $2", &[], vec![text("a"), Value::Int64(2)]),
        ("SELECT dev, count(*) FROM o WHERE time < $1 GROUP BY 1 ORDER BY 1", &[], vec![moment("2024-03-30")]),
        ("SELECT count(*) FROM o WHERE dev = $1 AND time >= $2", &[], vec![Value::Null, Value::Null]),
        ("SELECT count(*) FROM o WHERE $1 < v", &[], vec![Value::Float64(f64::NAN)]),
        ("SELECT count(*) FROM m WHERE site = $1 AND dev = $2", &[], vec![Value::Int32(1), text("a")]),
        ("SELECT count(*) FROM m WHERE f > $1 AND ok = $2", &[], vec![Value::Float32(2.5), Value::Bool(true)]),
        ("SELECT max(v) FROM o WHERE time > $1::timestamptz - interval '1 day'", &[], vec![moment("2024-03-30")]),
    ];
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let fixture = Fixture::new();
        let mut client = Client::new(&fixture, Storage::Memory);
        let mut random = Random(5);
        for table in [TABLE, ONE_KEY] {
            client.run(table).await.unwrap();
        }
        for table in ["m", "m", "o", "o"] {
            client.run(&insert(&mut random, table, &["'a'", "'b'", "'d'"])).await.unwrap();
        }
        for (sql, types, values) in statements {
            let mut answers = Vec::new();
            for enabled in ["on", "off"] {
                client.run(&format!("SET enable_series = {enabled}")).await.unwrap();
                let described = client.described(sql, types).await.unwrap();
                answers.push((described, client.bound_cells(sql, types, values).await.unwrap()));
            }
            let [series, planned] = &answers[..] else { panic!("two ways") };
            assert_eq!(series, planned, "{sql}");
        }
    });
}

/// `SERIES_SEED=n` runs one seed, `SERIES_SEEDS=n` the first n seeds.
#[test]
fn series_statements_answer_as_the_planner_does() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seeds = match number("SERIES_SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..number("SERIES_SEEDS").unwrap_or(12) + 1,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut seen = Seen::default();
    for seed in seeds {
        let history = std::panic::AssertUnwindSafe(|| runtime.block_on(histories(seed, &mut seen)));
        if let Err(panic) = std::panic::catch_unwind(history) {
            eprintln!("SERIES_SEED={seed} replays this history");
            std::panic::resume_unwind(panic);
        }
    }
    assert!(seen.series * 10 > seen.statements * 6, "{} of {} were series statements", seen.series, seen.statements);
    assert!(seen.by_statistics > 15, "{} of {} used statistics", seen.by_statistics, seen.series);
}

#[test]
fn usual_statements_are_series_statements() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let fixture = Fixture::new();
    let mut client = Client::new(&fixture, Storage::Memory);
    let statements = [
        "SELECT time, v FROM m WHERE dev = 'a' AND site = 3",
        "SELECT time, v FROM m WHERE dev IN ('a', 'b') AND v > 3 ORDER BY time DESC LIMIT 5",
        "SELECT DISTINCT ON (dev, site) dev, site, time, v FROM m ORDER BY dev, site, time DESC",
        "SELECT DISTINCT ON (dev) dev, time, v FROM m ORDER BY dev, time DESC",
        "SELECT dev, time_bucket('1 hour', time), max(v) FROM m GROUP BY 1, 2",
        "SELECT time_bucket('1 minute', time) AS t, max(v) FROM m GROUP BY t ORDER BY t DESC LIMIT 5",
        "SELECT x, avg(v), min(v), max(v) FROM m GROUP BY x",
        "SELECT s, max(v) - min(v) FROM m WHERE ok AND x = 'p' GROUP BY s",
        "SELECT time, v FROM m WHERE dev = 'a' UNION (SELECT time, v FROM o WHERE v > 3 LIMIT 3)",
        "SELECT time, v FROM m UNION ALL SELECT time, v FROM o UNION ALL SELECT time, v FROM c",
        "SELECT time, v FROM m UNION SELECT time, n FROM o",
    ];
    let others = [
        // UNION ALL keeps rows of `c` that equal rows of the inner UNION.
        "SELECT time, v FROM c UNION ALL (SELECT time, v FROM m UNION SELECT time, v FROM o)",
        "SELECT time, v FROM m EXCEPT SELECT time, v FROM o",
        "SELECT DISTINCT ON (v) v, time FROM m ORDER BY v, time DESC",
        "SELECT m.time FROM m JOIN o ON m.time = o.time",
    ];
    runtime.block_on(async {
        for table in [TABLE, ONE_KEY, ONE_SERIES] {
            client.run(table).await.unwrap();
        }
        for (sql, is_series) in statements.map(|sql| (sql, true)).into_iter().chain(others.map(|sql| (sql, false))) {
            let plan = client.table(&format!("EXPLAIN {sql}")).await.unwrap();
            assert_eq!(plan[0].starts_with("Series statement"), is_series, "{sql}: {plan:#?}");
        }
    });
}

#[test]
fn series_are_looked_up_by_an_array_that_is_known() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let fixture = Fixture::new();
    let mut client = Client::new(&fixture, Storage::Memory);
    let keys = Value::Array(["a", "b", "x"].map(|key| Value::Text(key.to_owned())).to_vec());
    runtime.block_on(async {
        client.run(ONE_KEY).await.unwrap();
        client.run("INSERT INTO o SELECT now(), k, 1, 2 FROM unnest(ARRAY['a', 'b', 'c', 'd', 'e']) k").await.unwrap();
        for (sql, expected) in [
            (
                "EXPLAIN ANALYZE SELECT DISTINCT ON (dev) dev, v FROM o WHERE dev = ANY($1) ORDER BY dev, time DESC",
                "rows read=2",
            ),
            // By DataFusion, which must not compare each row with each item.
            (
                "EXPLAIN ANALYZE SELECT o.dev FROM o JOIN o p ON o.v = p.v WHERE o.dev = ANY($1) AND p.dev = ANY($1)",
                "series=2 of 5",
            ),
        ] {
            let plan = client.bound_cells(sql, &[], std::slice::from_ref(&keys)).await.unwrap();
            let plan = plan.into_iter().flatten().flatten().collect::<Vec<_>>().join("\n");
            assert!(plan.contains(expected), "{sql}: {plan}");
            assert!(plan.starts_with("Series statement") || !plan.contains("evaluate"), "{sql}: {plan}");
        }
        for array in ["'{a,b,x}'", "ARRAY['a', 'b', 'x']", "ARRAY['a', NULL, 'b']"] {
            let plan =
                client.table(&format!("EXPLAIN ANALYZE SELECT v FROM o WHERE dev = ANY ({array})")).await.unwrap();
            let plan = plan.join("\n");
            assert!(plan.contains("rows read=2") && !plan.contains("evaluate"), "{array}: {plan}");
        }
    });
}

#[test]
fn what_looks_at_many_values_runs_on_threads_and_answers_as_the_planner_does() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let fixture = Fixture::new();
    let mut client = Client::new(&fixture, Storage::Memory);
    // Exceeds the budget of a synchronous run: 160,000 rows of 31 columns.
    let names: Vec<String> = (0..30).map(|at| format!("f{at}")).collect();
    let values: Vec<String> = (0..30).map(|at| format!("(g * {at}) % 1001")).collect();
    let sums: Vec<String> = names.iter().map(|name| format!("sum({name})")).collect();
    let (sums, values) = (sums.join(", "), values.join(", "));
    let (columns, names) = (names.join(" float8, "), names.join(", "));
    runtime.block_on(async {
        client.run(&format!("CREATE TABLE w (time timestamptz NOT NULL, dev text, site int, {columns} float8, i int, b bigint, r real, t text, u text) WITH (store = 'columns', key = 'dev, site')")).await.unwrap();
        let few = "g % 977 - 400, g::bigint * 1000003 % 99991, (g % 50 - 9)::real, 'x' || (g % 7)::text, CASE WHEN g % 5 > 0 THEN 'y' || (g % 3)::text END";
        let rows = format!("SELECT to_timestamp(g / 10), 'd' || (g % 10)::text, g % 3, {values}, {few} FROM generate_series(0, 159999) AS s(g)");
        client.run(&format!("INSERT INTO w (time, dev, site, {names}, i, b, r, t, u) {rows}")).await.unwrap();
        client.place(Storage::Settled);
        client.run("INSERT INTO w (time, dev, site, f1, f2) VALUES (to_timestamp(7), 'd3', 1, -9, NULL), (to_timestamp(9), 'new', NULL, 5, 6)").await.unwrap();
        client.run("DELETE FROM w WHERE time >= to_timestamp(9000) AND time < to_timestamp(9100)").await.unwrap();
        let mut on_threads = 0;
        for (select, rest) in [
            ("count(*), min(time), max(time)", "WHERE f29 >= 0"),
            ("dev, first(f3, time), last(f4, time)", "WHERE f29 IS NOT NULL GROUP BY dev ORDER BY dev"),
            ("site, dev, avg(f1), max(f2), count(f2)", "WHERE f29 > 0 OR f1 < 0 GROUP BY site, dev ORDER BY dev, site"),
            ("time_bucket('1 hour', time) AS h, min(f1), count(f2)", "WHERE f28 < 2000 OR f1 > 0 GROUP BY h ORDER BY h"),
            ("dev, time_bucket('1 hour', time) AS h, bool_or(f1 > 3), stddev(f2)", "WHERE f28 < 2000 GROUP BY dev, h ORDER BY dev, h"),
            ("dev, count(*)", "WHERE dev = 'd4' AND f28 < 2000 GROUP BY dev"),
            ("count(*)", "WHERE f29 < 0 OR f1 < -100"),
            ("site, sum(i), avg(i), min(i), max(i), sum(b), avg(b), max(b)", "WHERE f29 < 2000 GROUP BY site ORDER BY site"),
            ("time_bucket('1 hour', time) AS h, dev, min(r), max(r), count(i)", "WHERE i > -399 GROUP BY h, dev ORDER BY h, dev"),
            // Depends on neither series nor times.
            ("t, avg(r), min(r), max(r), sum(r), count(*), avg(i), sum(b), stddev(r)", "GROUP BY t ORDER BY t"),
            ("u, t, avg(r), min(i), max(b), sum(i), count(r)", "WHERE i > -399 AND t <> 'x3' GROUP BY u, t ORDER BY u, t"),
            ("u, bool_and(r > 3), max(r) FILTER (WHERE i > 0)", "WHERE t = 'x4' AND 900 > b OR t = 'x1' GROUP BY u ORDER BY u"),
            ("count(u), max(r)", "WHERE i % 100 = 7 AND u IS NULL AND f29 < 2000"),
            ("i, count(*), max(r)", "WHERE r >= 12 AND b <> 7 AND t < 'x5' GROUP BY i ORDER BY i"),
            ("count(*), avg(r), min(t)", "WHERE r < 0 AND time < to_timestamp(12000)"),
            // Few combinations of values and buckets, then too many for dense grouping.
            ("t, time_bucket('1 hour', time) AS h, avg(r), max(r), sum(i), count(*)", "GROUP BY t, h ORDER BY t, h"),
            ("u, time_bucket('1 minute', time) AS m, max(r)", "GROUP BY u, m ORDER BY u, m"),
        ] {
            let sql = format!("SELECT {select}, {sums} FROM w {rest}");
            on_threads += usize::from(both_ways(&mut client, &sql, false).await);
        }
        // One of the statements reads few series and runs on one thread.
        assert_eq!(on_threads, 16);
        // Unordered rows are streamed.
        for sql in [
            format!("SELECT dev, time, {names} FROM w WHERE f7 > 997"),
            format!("SELECT site, f1 + f2, {names} FROM w WHERE f29 > 0 AND dev = 'd3' AND f1 > 990 OR f1 = -9"),
            format!("SELECT dev, time, {names} FROM w WHERE f7 + f8 < -1"),
        ] {
            assert!(both_ways(&mut client, &sql, true).await, "{sql}");
        }
        // Newest rows that are far back in time: one thread reads them. The planner would sort the whole table.
        for rest in ["WHERE f1 > 998 AND f2 > 990", "WHERE f29 = 0 AND f7 < 0", "WHERE f1 = 5"] {
            let newest = format!("SELECT DISTINCT ON (dev, site) dev, site, time, {names} FROM w {rest} ORDER BY dev, site, time DESC");
            both_ways(&mut client, &newest, false).await;
        }
        let failing = format!("SELECT {names}, 1 / (f1 - f1)::int FROM w");
        assert!(client.table(&failing).await.unwrap_err().contains("division by zero"));
    });
}

/// Runs a statement with and without the series executor and compares; returns whether it used two threads.
async fn both_ways(client: &mut Client, sql: &str, in_any_order: bool) -> bool {
    client.run("SET enable_series = on").await.unwrap();
    let explained = client.table(&format!("EXPLAIN ANALYZE {sql}")).await.unwrap();
    let mut fast = client.table(sql).await.unwrap();
    client.run("SET enable_series = off").await.unwrap();
    let mut slow = client.table(sql).await.unwrap();
    client.run("SET enable_series = on").await.unwrap();
    if in_any_order {
        fast.sort();
        slow.sort();
    }
    assert!(are_same(&fast, &slow), "{sql}\n{fast:#?}\n{slow:#?}");
    assert!(explained[0].starts_with("Series statement"), "{sql}\n{explained:#?}");
    assert_eq!(explained.last().unwrap(), &format!("Rows: {}", fast.len()));
    explained.iter().any(|line| line.ends_with("threads=2"))
}
