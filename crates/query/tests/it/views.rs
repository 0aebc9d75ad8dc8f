//! Views cost what the query behind them costs, and are read while others replace them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::client::{Client, Fixture, Storage};
use crate::script::Connection;

fn with_client<T>(test: impl AsyncFnOnce(&Fixture, Client) -> T) -> T {
    let fixture = Fixture::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut client = Client::new(&fixture, Storage::Memory);
        for sql in [
            "CREATE TABLE r (id int PRIMARY KEY, name text UNIQUE, n int)",
            "INSERT INTO r SELECT i, 'pv' || i, i % 7 FROM generate_series(1, 200) AS g (i)",
            "CREATE TABLE m (time timestamptz NOT NULL, pv text, v float8, n int) WITH (store = 'columns', key = 'pv')",
            "INSERT INTO m (time, pv, v, n) SELECT '2024-01-01 00:00:00+00'::timestamptz + (i / 200) * interval '1 second',
             'pv' || (i % 200 + 1), i, i % 3 FROM generate_series(0, 39999) AS g (i)",
            "CREATE VIEW rv AS SELECT id AS channel_id, name AS channel, n * 2 AS twice FROM r WHERE n >= 0",
            "CREATE VIEW rv2 AS SELECT channel_id AS k, channel, twice + 1 AS more FROM rv",
            "CREATE VIEW mv AS SELECT time AS smpl_time, pv AS channel, v AS float_val FROM m",
            "CREATE VIEW mv2 AS SELECT * FROM mv",
            "CREATE VIEW sample AS SELECT p.id AS channel_id, s.time AS smpl_time, s.v AS float_val
             FROM m s JOIN r p ON p.name = s.pv",
            "CHECKPOINT",
        ] {
            client.run(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
        test(&fixture, client).await
    })
}

async fn explained(client: &mut Client, sql: &str) -> String {
    client.table(&format!("EXPLAIN {sql}")).await.unwrap().join("\n")
}

/// Statements over a view have the access path of the same statement over the table.
#[test]
fn views_have_the_access_paths_of_their_tables() {
    with_client(async |_, mut client| {
        for (over_view, over_table) in [
            ("SELECT twice FROM rv WHERE channel_id = 5", "SELECT n * 2 FROM r WHERE n >= 0 AND id = 5"),
            ("SELECT more FROM rv2 WHERE k = 5", "SELECT n * 2 + 1 FROM r WHERE n >= 0 AND id = 5"),
            (
                "SELECT a.channel FROM rv a JOIN rv b ON b.channel_id = a.twice WHERE a.channel_id = 5",
                "SELECT a.name FROM r a JOIN r b ON b.id = a.n * 2 WHERE a.n >= 0 AND b.n >= 0 AND a.id = 5",
            ),
        ] {
            let (view, table) = (explained(&mut client, over_view).await, explained(&mut client, over_table).await);
            assert!(view.starts_with("Compiled Select") && view.contains("points"), "{over_view}\n{view}");
            assert_eq!(view, table, "{over_view}");
        }
        for (over_view, over_table) in [
            (
                "SELECT smpl_time, float_val FROM mv WHERE channel = 'pv3' AND smpl_time > '2024-01-01 00:01:00+00' ORDER BY smpl_time",
                "SELECT time, v FROM m WHERE pv = 'pv3' AND time > '2024-01-01 00:01:00+00' ORDER BY time",
            ),
            (
                "SELECT max(float_val), count(*) FROM mv2 WHERE channel = 'pv3'",
                "SELECT max(v), count(*) FROM m WHERE pv = 'pv3'",
            ),
            (
                "SELECT float_val FROM mv2 WHERE channel = 'pv3' ORDER BY smpl_time DESC LIMIT 1",
                "SELECT v FROM m WHERE pv = 'pv3' ORDER BY time DESC LIMIT 1",
            ),
        ] {
            let (view, table) = (explained(&mut client, over_view).await, explained(&mut client, over_table).await);
            assert!(table.starts_with("Series"), "{over_table}\n{table}");
            assert_eq!(view, table, "{over_view}");
        }
    });
}

/// A number behind a name in EXPLAIN ANALYZE.
fn counted(plan: &str, name: &str) -> u64 {
    let at = plan.find(&format!("{name}=")).unwrap_or_else(|| panic!("{name} in\n{plan}"));
    let digits: String = plan[at + name.len() + 1..].chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    digits.parse::<f64>().unwrap() as u64
}

/// The bug: a join of a `columns` table with one row of a `rows` table read all series of the `columns` table.
#[test]
fn a_join_reads_only_the_series_of_its_keys() {
    with_client(async |_, mut client| {
        let times = "smpl_time BETWEEN '2024-01-01 00:00:00+00' AND '2024-01-01 00:10:00+00'";
        let sql =
            format!("SELECT smpl_time, float_val FROM sample WHERE channel_id = 5 AND {times} ORDER BY smpl_time");
        let rows = client.table(&sql).await.unwrap();
        assert_eq!(rows.len(), 200);
        assert_eq!(
            (rows[0].as_str(), rows[199].as_str()),
            ("2024-01-01 00:00:00+00|4", "2024-01-01 00:03:19+00|39804")
        );
        let plan = client.table(&format!("EXPLAIN ANALYZE {sql}")).await.unwrap().join("\n");
        let scan = plan.lines().find(|line| line.contains("ColumnsScan")).unwrap_or_else(|| panic!("{plan}"));
        assert!(scan.contains("series of the join"), "{plan}");
        assert_eq!(counted(scan, "output_rows"), 200, "{plan}");
        for (sql, expected) in [
            ("SELECT count(*) FROM sample WHERE channel_id IN (3, 4, 500)", vec!["400"]),
            ("SELECT count(*) FROM sample WHERE channel_id = 500", vec!["0"]),
            ("SELECT count(*), sum(float_val) FROM sample", vec!["40000|799980000"]),
            ("SELECT count(*) FROM r LEFT JOIN m ON m.pv = r.name AND m.v < 300 WHERE r.id IN (1, 2)", vec!["4"]),
            ("SELECT count(*) FROM m LEFT JOIN r ON m.pv = r.name AND r.id = 1", vec!["40000"]),
            ("SELECT count(*) FROM m WHERE pv IN (SELECT name FROM r WHERE id < 3)", vec!["400"]),
            ("SELECT count(*) FROM m WHERE pv NOT IN (SELECT name FROM r WHERE id < 3)", vec!["39600"]),
            ("SELECT count(*) FROM m a JOIN m b ON a.pv = b.pv AND a.time = b.time WHERE a.v < 200", vec!["200"]),
            ("SELECT count(*) FROM m JOIN r ON m.pv IS NOT DISTINCT FROM r.name WHERE r.id = 9", vec!["200"]),
            (
                "SELECT r.id, (SELECT count(*) FROM m JOIN r s ON s.name = m.pv WHERE s.id = r.id) FROM r WHERE id < 3 ORDER BY 1",
                vec!["1|200", "2|200"],
            ),
            (
                "WITH RECURSIVE w AS (SELECT 1 AS id UNION ALL SELECT w.id + 1 FROM w WHERE w.id < 3)
                 SELECT w.id, count(*) FROM w JOIN sample s ON s.channel_id = w.id GROUP BY w.id ORDER BY 1",
                vec!["1|200", "2|200", "3|200"],
            ),
        ] {
            assert_eq!(client.table(sql).await.unwrap(), expected, "{sql}");
        }
    });
}

/// Every read of a view that is replaced all the time sees one of its definitions.
#[test]
fn a_view_is_read_while_another_session_replaces_it() {
    with_client(async |fixture, mut client| {
        client.run("CREATE VIEW w AS SELECT 1 AS a, id FROM r").await.unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let mut reader = Client::new(fixture, Storage::Memory);
        let reading = tokio::spawn(async move {
            let (mut seen, mut reads) = ([false; 2], 0);
            while !over.load(Ordering::Relaxed) || reads == 0 {
                let rows = reader.table("SELECT a FROM w WHERE id = 7").await.unwrap();
                match rows.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                    ["1"] => seen[0] = true,
                    ["2"] => seen[1] = true,
                    other => panic!("{other:?}"),
                }
                reads += 1;
            }
            (seen, reads)
        });
        for round in 0..400 {
            let sql = format!("CREATE OR REPLACE VIEW w AS SELECT {} AS a, id FROM r", round % 2 + 1);
            client.run(&sql).await.unwrap();
            tokio::task::yield_now().await;
        }
        is_over.store(true, Ordering::Relaxed);
        let (seen, reads) = reading.await.unwrap();
        assert!(seen.iter().any(|seen| *seen) && reads > 0, "{reads} reads");
    });
}

/// Views that multiply each other do not make a statement without bound.
#[test]
fn the_views_of_a_statement_are_limited() {
    with_client(async |_, mut client| {
        client.run("CREATE VIEW w0 AS SELECT 1 AS a").await.unwrap();
        for level in 1..=9 {
            let below = level - 1;
            let sql = format!("CREATE VIEW w{level} AS SELECT x.a FROM w{below} x JOIN w{below} y ON x.a = y.a");
            match client.run(&sql).await {
                Ok(_) => assert!(level < 10, "w9 reads 1,023 views"),
                Err(error) => {
                    assert!(level >= 9 && error.starts_with("54001: statement reads more than 1000 views"), "{error}")
                }
            }
        }
        assert_eq!(client.table("SELECT a FROM w5").await, Ok(vec!["1".to_owned()]));
    });
}
