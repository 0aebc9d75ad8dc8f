//! Queries answered from statistics: used where they are exact, with the same results as reading rows.

use crate::client::{Client, Fixture, Storage};

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(work)
}

async fn rows(client: &mut Client, sql: &str) -> Vec<String> {
    client.table(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// Disables the series executor, so that DataFusion executes all statements.
async fn planned(client: &mut Client) {
    rows(client, "SET enable_series = off").await;
}

/// Deterministic pseudo-random numbers.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn of(&mut self, choices: &[&str]) -> String {
        choices[self.below(choices.len() as u64) as usize].to_owned()
    }

    fn row(&mut self) -> String {
        let v = self.of(&["NULL", "-5", "7", "2147483647"]);
        let f = self.of(&["NULL", "'NaN'", "-0.5", "1e300", "'-0'", "0"]);
        let t = self.of(&["NULL", "''", "'a'", "repeat('long ', 10)", "'z'"]);
        let (u, b) = (self.of(&["NULL", "18446744073709551615", "3"]), self.of(&["NULL", "true", "false"]));
        format!("(to_timestamp({}), 'k{}', {v}, {f}, {t}, {u}, {b})", self.below(300), self.below(4))
    }
}

const ASKED: &[&str] = &[
    "count(*), count(v), min(v), max(v), min(time), max(time), count(t), max(u)",
    "min(f), max(f)",
    "min(t), max(t), bool_and(b), bool_or(b)",
];

#[test]
fn answers_are_those_of_the_rows() {
    let fixture = Fixture::new();
    let engine = fixture.database.engine().clone();
    block_on(async {
        let mut client = Client::new(&fixture, Storage::Memory);
        let mut draws = Draws(42);
        planned(&mut client).await;
        for key in [", key = 'k'", ""] {
            let is_unkeyed = key.is_empty();
            rows(&mut client, "DROP TABLE IF EXISTS s").await;
            let columns = "time timestamptz NOT NULL, k text, v int, f float8, t text, u numeric(20), b boolean";
            rows(&mut client, &format!("CREATE TABLE s ({columns}) WITH (store = 'columns'{key})")).await;
            for _ in 0..25 {
                match draws.below(6) {
                    0 => engine.settle().unwrap(),
                    1 => {
                        let (key, from) = (draws.below(4), draws.below(300));
                        let delete = "DELETE FROM s WHERE time >= to_timestamp";
                        let one = if key == 0 || is_unkeyed { String::new() } else { format!(" AND k = 'k{key}'") };
                        rows(&mut client, &format!("{delete}({from}) AND time < to_timestamp({}){one}", from + 20))
                            .await;
                    }
                    _ => {
                        let list: Vec<String> = (0..1 + draws.below(20)).map(|_| draws.row()).collect();
                        rows(&mut client, &format!("INSERT INTO s VALUES {}", list.join(", "))).await;
                    }
                }
                if draws.below(3) > 0 {
                    engine.flush().unwrap();
                }
                let (key, from) = (draws.below(4), draws.below(150));
                for condition in [
                    "true".to_owned(),
                    format!("k = 'k{key}'"),
                    format!("time >= to_timestamp({from}) AND time < to_timestamp({})", from + 150),
                    "v > 0".to_owned(),
                ] {
                    for asked in ASKED {
                        let answer = rows(&mut client, &format!("SELECT {asked} FROM s WHERE {condition}")).await;
                        // LIMIT forces reading rows.
                        let all = format!("(SELECT * FROM s WHERE {condition} LIMIT 1000000) AS q");
                        assert_eq!(
                            answer,
                            rows(&mut client, &format!("SELECT {asked} FROM {all}")).await,
                            "{condition}"
                        );
                    }
                }
            }
        }
    });
}

#[test]
fn rows_are_read_where_statistics_are_not_those_of_the_rows() {
    let fixture = Fixture::new();
    let engine = fixture.database.engine().clone();
    block_on(async {
        let mut client = Client::new(&fixture, Storage::Memory);
        planned(&mut client).await;
        rows(
            &mut client,
            "CREATE TABLE s (time timestamptz NOT NULL, k text, v int) WITH (store = 'columns', key = 'k')",
        )
        .await;
        let insert = "INSERT INTO s SELECT to_timestamp(n), 'k' || n % 3, n FROM generate_series(1, 300) AS s(n)";
        let counted = "SELECT count(*), min(v), max(v), max(time) FROM s";
        let reads = async |client: &mut Client, sql: &str| {
            rows(client, &format!("EXPLAIN {sql}")).await.join("\n").contains("ColumnsScan")
        };
        rows(&mut client, insert).await;
        assert!(reads(&mut client, counted).await, "rows in memory have no statistics");
        engine.flush().unwrap();
        engine.settle().unwrap();
        assert!(!reads(&mut client, counted).await, "{:?}", rows(&mut client, &format!("EXPLAIN {counted}")).await);
        assert_eq!(rows(&mut client, counted).await, ["300|1|300|1970-01-01 00:05:00+00"]);
        assert!(!reads(&mut client, "SELECT count(*) FROM s WHERE time > '2000-01-01'").await, "nothing is there");
        for sql in [
            "SELECT sum(v) FROM s",
            "SELECT count(DISTINCT v) FROM s",
            "SELECT count(*) FROM s WHERE v > 5",
            "SELECT count(*) FROM s WHERE time > to_timestamp(100)",
            "SELECT k, count(*) FROM s GROUP BY k",
            "SELECT max(v + 1) FROM s",
            "SELECT count(*) FILTER (WHERE v = 1) FROM s",
            "SELECT max(v) FROM s WHERE k LIKE '%1'",
        ] {
            assert!(reads(&mut client, sql).await, "{sql}");
        }
        // A transaction sees its own uncommitted rows.
        rows(&mut client, "BEGIN").await;
        rows(&mut client, "INSERT INTO s VALUES ('2000-01-01', 'new', 1000)").await;
        assert_eq!(rows(&mut client, "SELECT count(*), max(v) FROM s").await, ["301|1000"]);
        rows(&mut client, "DELETE FROM s WHERE k = 'k0'").await;
        assert_eq!(rows(&mut client, "SELECT count(*), max(v) FROM s").await, ["201|1000"]);
        rows(&mut client, "ROLLBACK").await;
        assert_eq!(rows(&mut client, counted).await, ["300|1|300|1970-01-01 00:05:00+00"]);
        rows(&mut client, "DELETE FROM s WHERE k = 'k0' AND time < to_timestamp(10)").await;
        assert!(reads(&mut client, counted).await);
        assert_eq!(rows(&mut client, counted).await, ["297|1|300|1970-01-01 00:05:00+00"]);
    });
}
