//! The end of a session is the end of its temporary objects.

use model::Lsn;

use crate::client::{Client, Fixture, Storage};
use crate::script::Connection;

fn temporary_objects(fixture: &Fixture) -> usize {
    let snapshot = fixture.database.engine().snapshot(Lsn(u64::MAX));
    let catalog = snapshot.catalog();
    catalog.row_tables().filter(|table| table.name.is_temporary()).count()
        + catalog.sequences().filter(|sequence| sequence.name.is_temporary()).count()
        + catalog.views().filter(|view| view.name.is_temporary()).count()
        + catalog.schemas().filter(|schema| schema.starts_with("pg_temp_")).count()
}

#[test]
fn temporary_objects_are_dropped_when_their_session_ends() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for last in [
        "SELECT 1",
        "SET default_transaction_read_only = on",
        "SET default_transaction_isolation = serializable",
        "BEGIN; INSERT INTO child SELECT id FROM parent; CREATE TEMP TABLE late (a int)",
        "BEGIN; SELECT 1 / 0",
    ] {
        let fixture = Fixture::new();
        runtime.block_on(async {
            let mut client = Client::new(&fixture, Storage::Memory);
            for text in [
                "CREATE TEMP TABLE parent (id serial PRIMARY KEY, next int REFERENCES parent)",
                "CREATE TEMP TABLE child (id int REFERENCES parent)",
                "ALTER TABLE parent ADD FOREIGN KEY (next) REFERENCES parent",
                "CREATE VIEW below AS SELECT id FROM parent",
                "CREATE VIEW above AS SELECT id FROM below",
                "CREATE TEMP SEQUENCE numbers",
                "INSERT INTO parent DEFAULT VALUES",
            ] {
                client.run(text).await.unwrap();
            }
            // The last one may fail.
            for text in last.split("; ") {
                let _ = client.run(text).await;
            }
            assert!(temporary_objects(&fixture) > 0);
            drop(client);
            let mut rest = 0;
            for _ in 0..1_000 {
                rest = temporary_objects(&fixture);
                if rest == 0 {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            assert_eq!(rest, 0, "after {last}");
        });
    }
}

#[test]
fn refreshes_of_one_materialized_view_wait_for_each_other() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let fixture = Fixture::new();
    runtime.block_on(async {
        let mut first = Client::new(&fixture, Storage::Memory);
        let mut second = Client::new(&fixture, Storage::Memory);
        for text in [
            "CREATE TABLE t (a int)",
            "INSERT INTO t VALUES (1), (2)",
            "CREATE MATERIALIZED VIEW m AS SELECT sum(a) AS total FROM t",
            "BEGIN",
            "REFRESH MATERIALIZED VIEW m",
        ] {
            first.run(text).await.unwrap();
        }
        let waiting = tokio::spawn(async move { second.run("REFRESH MATERIALIZED VIEW m").await.map(drop) });
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        first.run("COMMIT").await.unwrap();
        waiting.await.unwrap().unwrap();
    });
}
