//! Nobody waits for others' long statements: while some compute for seconds, short statements, new sessions, writes, health and
//! cancellation answer.
//!
//! The bound is not a measure of speed: where a statement computes on a thread that serves sockets, the answer comes when the
//! statement times out, [`STATEMENT_TIMEOUT`] later.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};

use crate::http::{request, write};
use crate::server::{Server, folder};

/// Statement timeout of the long statements.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum response time of other sessions, on a busy machine.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// Sessions with a long statement: more than there are serving threads.
const LONG_SESSIONS: usize = 6;
/// Rounds of short requests while the long statements run.
const ROUNDS: usize = 4;

/// The long statements with their names; `$N` is the session's number.
const LONG: &[(&str, &str)] = &[
    ("update", "UPDATE t SET v = v + (SELECT count(*) FROM u x WHERE x.v < t.v) * 0 WHERE id % 6 = $N"),
    ("delete", "DELETE FROM t WHERE id % 6 = $N AND (SELECT count(*) FROM u x WHERE x.v < t.v) < 0"),
    (
        "select for update",
        "SELECT id FROM t WHERE id % 6 = $N AND (SELECT count(*) FROM u x WHERE x.v < t.v) < 0 FOR UPDATE",
    ),
    ("insert", "INSERT INTO w SELECT g + $N * 100000000, 0 FROM generate_series(1, 50000000) g"),
    ("compiled select", "SELECT count(*) FROM t a, t b WHERE a.v * b.v = -1 - $N"),
    ("planned select", "SELECT count(*), row_number() OVER () FROM t a, t b WHERE a.v * b.v = -1 - $N"),
    ("planned aggregate", "SELECT max(repeat(g::text, 3)) FROM generate_series($N, 100000000000) g"),
    ("columns update", "UPDATE m SET v = v + (SELECT count(*) FROM u x WHERE x.v < m.v) * 0 WHERE v % 6 = $N"),
    ("columns delete", "DELETE FROM m WHERE v % 6 = $N AND (SELECT count(*) FROM u x WHERE x.v < m.v) < 0"),
    ("series select", "SELECT count(*) FROM m a, m b, m c WHERE a.v * b.v * c.v = -1 - $N"),
];

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(async move {
        // Ends when the client is dropped or the session terminated.
        let _ = connection.await;
    });
    client
}

/// A server with tables of 40,000 rows.
async fn serve(dir: &Path) -> Arc<Server> {
    let server = Server::start(dir);
    let client = connect(&server.url()).await;
    let setup = "
        CREATE TABLE t (id int PRIMARY KEY, v bigint);
        CREATE TABLE u (id int PRIMARY KEY, v bigint);
        CREATE TABLE w (id bigint PRIMARY KEY, v bigint);
        CREATE TABLE m (time timestamptz NOT NULL, k text, v bigint) WITH (store = 'columns', key = 'k');
        INSERT INTO t SELECT g, g FROM generate_series(1, 40000) g;
        INSERT INTO u SELECT g, g FROM generate_series(1, 40000) g;
        INSERT INTO m SELECT timestamptz '2026-01-01' + g * interval '1 s', 'a', g FROM generate_series(1, 20000) g;";
    client.batch_execute(setup).await.unwrap();
    Arc::new(server)
}

/// One round of short requests; each has its own limit.
async fn others_are_answered(server: &Arc<Server>, open: &Client, while_running: &str) {
    let started = Instant::now();
    let answered = |what: &str, since: Instant| {
        let elapsed = since.elapsed();
        assert!(elapsed < ANSWER_MAX, "{what} was answered after {elapsed:?} while others ran: {while_running}");
    };
    open.simple_query("SELECT 1").await.unwrap();
    answered("SELECT 1", started);
    let started = Instant::now();
    connect(&server.url()).await.simple_query("SELECT 1").await.unwrap();
    answered("a new session", started);
    for (name, method, health, path, body, status) in [
        ("/ready", "GET", true, "/ready", "", 200),
        ("/metrics", "GET", true, "/metrics", "", 200),
        ("a write", "POST", false, "/write", "other,k=a v=1", 204),
        ("/sql", "GET", false, "/sql?q=SELECT%201", "", 200),
    ] {
        let started = Instant::now();
        let server = Arc::clone(server);
        let asked = tokio::task::spawn_blocking(move || {
            let address = if health { &server.health } else { &server.http };
            if path == "/write" { write(address, body) } else { request(address, method, path, body.as_bytes()) }
        });
        assert_eq!(asked.await.unwrap().unwrap().0, status, "{name} while others ran: {while_running}");
        answered(name, started);
    }
}

#[test]
fn others_are_answered_while_long_statements_run_and_these_can_be_cancelled() {
    runtime().block_on(async {
        let (_folder, data) = folder();
        let server = serve(&data).await;
        let open = connect(&server.url()).await;
        for (name, statement) in LONG {
            let mut cancels = Vec::new();
            let mut running = JoinSet::new();
            for number in 0..LONG_SESSIONS {
                let client = connect(&server.url()).await;
                cancels.push(client.cancel_token());
                let statement = statement.replace("$N", &number.to_string());
                let timeout = STATEMENT_TIMEOUT.as_millis();
                client.batch_execute(&format!("SET statement_timeout = {timeout}")).await.unwrap();
                running.spawn(async move { client.batch_execute(&statement).await });
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
            for _ in 0..ROUNDS {
                others_are_answered(&server, &open, name).await;
            }
            let started = Instant::now();
            for cancel in cancels {
                cancel.cancel_query(NoTls).await.unwrap();
            }
            let mut canceled = 0;
            while let Some(ended) = running.join_next().await {
                let code = ended.unwrap().err().and_then(|error| error.code().cloned());
                canceled += usize::from(code.is_some_and(|code| code.code() == "57014"));
            }
            let elapsed = started.elapsed();
            assert!(elapsed < ANSWER_MAX, "{name}: statements ended {elapsed:?} after they were cancelled");
            assert!(canceled > 0, "{name}: no statement ran long enough to be cancelled");
        }
    });
}

#[test]
fn others_are_answered_while_long_texts_are_read_and_large_transactions_end() {
    runtime().block_on(async {
        let (_folder, data) = folder();
        let server = serve(&data).await;
        let open = connect(&server.url()).await;
        let mut running = JoinSet::new();
        for session in 0..LONG_SESSIONS as u64 {
            let client = connect(&server.url()).await;
            running.spawn(async move {
                for round in 0..4 {
                    let first = (session * 10 + round) * 100_000;
                    let rows: Vec<String> = (first..first + 30_000).map(|id| format!("({id},{id})")).collect();
                    client.batch_execute(&format!("BEGIN; INSERT INTO w VALUES {}", rows.join(","))).await.unwrap();
                    client.batch_execute(if round % 2 == 0 { "COMMIT" } else { "ROLLBACK" }).await.unwrap();
                }
            });
        }
        while !running.is_empty() {
            others_are_answered(&server, &open, "inserts of 30,000 rows").await;
            while running.try_join_next().map(Result::unwrap).is_some() {}
        }
        let count = open.query_one("SELECT count(*) FROM w", &[]).await.unwrap().get::<_, i64>(0);
        assert_eq!(count, LONG_SESSIONS as i64 * 2 * 30_000);
    });
}

#[test]
fn sessions_are_cancelled_and_terminated_by_others() {
    runtime().block_on(async {
        let (_folder, data) = folder();
        let server = serve(&data).await;
        let admin = connect(&server.url()).await;
        for (signal, statement, code) in [
            ("pg_cancel_backend", LONG[0].1, "57014"),
            ("pg_cancel_backend", LONG[5].1, "57014"),
            ("pg_cancel_backend", "SELECT pg_sleep(60)", "57014"),
            ("pg_terminate_backend", LONG[0].1, "57P01"),
            ("pg_terminate_backend", "SELECT pg_sleep(60)", "57P01"),
        ] {
            let client = connect(&server.url()).await;
            let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
            let statement = statement.replace("$N", "0");
            let running = tokio::spawn(async move {
                let ended = client.batch_execute(&statement).await.err();
                (ended.and_then(|error| error.code().map(|code| code.code().to_owned())), client)
            });
            tokio::time::sleep(Duration::from_millis(300)).await;
            let signalled: bool = admin.query_one(&format!("SELECT {signal}({pid})"), &[]).await.unwrap().get(0);
            assert!(signalled);
            let (ended, client) = running.await.unwrap();
            assert_eq!(ended.as_deref(), Some(code), "{signal}");
            let goes_on = client.batch_execute("SELECT 1").await.is_ok();
            assert_eq!(goes_on, signal == "pg_cancel_backend");
        }
        // Terminating an idle session works; an unknown process number is no error.
        let idle = connect(&server.url()).await;
        let pid: i32 = idle.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
        let row =
            admin.query_one(&format!("SELECT pg_terminate_backend({pid}), pg_cancel_backend(-5)"), &[]).await.unwrap();
        assert_eq!((row.get::<_, bool>(0), row.get::<_, bool>(1)), (true, false));
        let started = Instant::now();
        while idle.batch_execute("SELECT 1").await.is_ok() {
            assert!(started.elapsed() < ANSWER_MAX);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

/// Changes of a `columns` table end soon after a cancellation at any moment: while the rows are found, sorted, checked and written.
/// Nothing of them is left.
#[test]
fn changes_of_many_rows_of_a_columns_table_can_be_cancelled_at_any_moment() {
    const ROWS: i64 = 500_000;
    runtime().block_on(async {
        let (_folder, data) = folder();
        let server = Server::start(&data);
        let client = connect(&server.url()).await;
        let setup = format!(
            "CREATE TABLE m (time timestamptz NOT NULL, k text, v bigint) WITH (store = 'columns', key = 'k');
             CREATE TABLE e (time timestamptz NOT NULL, k text, v bigint) WITH (store = 'columns');
             INSERT INTO m SELECT timestamptz '2026-01-01' + g * interval '1 s', 'k' || g % 100, g FROM generate_series(1, {ROWS}) g;
             INSERT INTO e SELECT * FROM m;"
        );
        client.batch_execute(&setup).await.unwrap();
        let sums = "SELECT (SELECT sum(v) FROM m WHERE k LIKE 'k%'), (SELECT sum(v) FROM e WHERE k LIKE 'k%')";
        let before: Vec<Option<String>> = sums_of(&client, sums).await;
        let mut unfinished = 0;
        for statement in [
            "UPDATE m SET k = 'moved' || v % 7",
            "UPDATE m SET v = v + 1",
            "DELETE FROM m WHERE v % 3 = 1 RETURNING *",
            "UPDATE e SET v = v + 1 WHERE v % 2 = 0",
        ] {
            let mut delay = 20;
            loop {
                client.batch_execute("BEGIN").await.unwrap();
                let cancel = client.cancel_token();
                let canceller = tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(delay)).await;
                    let at = Instant::now();
                    cancel.cancel_query(NoTls).await.unwrap();
                    at
                });
                let result = client.batch_execute(statement).await;
                let answered = Instant::now();
                let cancelled = canceller.await.unwrap();
                // A cancellation that came too late is over by then.
                tokio::time::sleep(Duration::from_millis(50)).await;
                if let Err(error) = &result {
                    assert_eq!(error.code().map(|code| code.code()), Some("57014"), "{statement}: {error:?}");
                    let elapsed = answered.saturating_duration_since(cancelled);
                    assert!(elapsed < ANSWER_MAX, "{statement} was cancelled after {elapsed:?}");
                    unfinished += 1;
                }
                client.batch_execute("ROLLBACK").await.unwrap();
                if result.is_ok() {
                    break;
                }
                delay = delay * 3 / 2;
            }
        }
        assert!(unfinished > 4, "{unfinished} statements were cancelled");
        assert_eq!(sums_of(&client, sums).await, before);
    });
}

async fn sums_of(client: &Client, query: &str) -> Vec<Option<String>> {
    let rows = client.simple_query(query).await.unwrap();
    let row = rows.iter().find_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let row = row.unwrap();
    (0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect()
}

#[test]
fn failed_and_slow_statements_are_in_the_log() {
    runtime().block_on(async {
        let (_folder, data) = folder();
        let server = Server::start(&data);
        let client = connect(&server.url()).await;
        client.batch_execute("SELECT no_such_column").await.unwrap_err();
        client.batch_execute("SET log_min_duration_statement = 50").await.unwrap();
        client.batch_execute("SELECT pg_sleep(0.2)").await.unwrap();
        client.batch_execute("SET log_min_duration_statement = -1").await.unwrap();
        client.batch_execute("SELECT pg_sleep(0.21)").await.unwrap();
        let failed = server.logged("statement failed").unwrap();
        assert_eq!(failed["state"], "42703", "{failed}");
        assert_eq!(failed["statement"], "SELECT no_such_column", "{failed}");
        let slow = server.logged("slow statement").unwrap();
        assert_eq!(slow["statement"], "SELECT pg_sleep(0.2)", "{slow}");
        assert!(slow["elapsed_ms"].as_u64().is_some_and(|ms| ms >= 200), "{slow}");
        assert!(!server.log_text().contains("0.21"));
    });
}
