//! `--memory` is a limit: resident memory stays below 1.2 times the budget plus 256 MiB under any load; requests
//! that do not fit fail with 53200, 53400 or 54000, and other clients are served in the meantime.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use tokio_postgres::{Client, NoTls};

use crate::server::{Server, folder};

/// Kibibytes: 1.2 times 256 MiB, and 256 MiB.
const RESIDENT_KIB_MAX: u64 = (256 * 12 / 10 + 256) << 10;
/// Maximum duration of `SELECT 1` during the load, on a busy machine.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// Maximum time that a statement may continue after its timeout, on a busy machine.
const STOP_MAX: Duration = Duration::from_secs(5);

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

async fn connect(server: &Server) -> Client {
    let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    tokio::spawn(async move {
        // Ends when the client is dropped.
        let _ = connection.await;
    });
    client
}

/// Peak resident memory of a process in KiB.
fn peak_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// A server with 256 MiB, and a client that runs `SELECT 1` continuously.
struct Watched {
    server: Arc<Server>,
    over: Arc<AtomicBool>,
    /// Longest response time in microseconds.
    worst: Arc<AtomicU64>,
    asking: tokio::task::JoinHandle<()>,
    _folder: tempfile::TempDir,
}

impl Watched {
    async fn start() -> Watched {
        let (folder, data) = folder();
        let server = Arc::new(Server::start_with(&data, |command| {
            command.args(["--memory", "256MiB"]);
        }));
        let (over, worst) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let client = connect(&server).await;
        let (is_over, slowest) = (Arc::clone(&over), Arc::clone(&worst));
        let asking = tokio::spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                let started = Instant::now();
                client.simple_query("SELECT 1").await.unwrap();
                slowest.fetch_max(started.elapsed().as_micros() as u64, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        Watched { server, over, worst, asking, _folder: folder }
    }

    async fn end(self, what: &str) {
        self.over.store(true, Ordering::Relaxed);
        self.asking.await.unwrap();
        let (peak, worst) = (peak_kib(self.server.pid()), self.worst.load(Ordering::Relaxed));
        println!("{what}: peak {} MiB, slowest SELECT 1 {} ms", peak >> 10, worst / 1_000);
        assert!(peak <= RESIDENT_KIB_MAX, "{what}: {} MiB were resident, the limit is 563", peak >> 10);
        assert!(worst <= ANSWER_MAX.as_micros() as u64, "{what}: SELECT 1 took {worst} µs");
    }
}

/// Runs a statement; it may fail only because of its size.
async fn run(client: &Client, sql: &str) {
    if let Err(error) = client.batch_execute(sql).await {
        let code = error.code().map(|code| code.code().to_owned()).unwrap_or_default();
        let refused = ["53200", "53400", "54000"].contains(&code.as_str());
        assert!(refused, "{sql}: {error:?}");
    }
}

/// A client that sends a query and does not read the result.
fn stuck(server: &Server, sql: &str) -> TcpStream {
    let mut socket = TcpStream::connect(&server.pg).unwrap();
    let parameters = b"user\0millrace\0database\0millrace\0\0";
    let mut message = (parameters.len() as u32 + 8).to_be_bytes().to_vec();
    message.extend_from_slice(&196_608u32.to_be_bytes());
    message.extend_from_slice(parameters);
    socket.write_all(&message).unwrap();
    let mut head = [0; 5];
    while head[0] != b'Z' {
        socket.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize - 4;
        socket.read_exact(&mut vec![0; length]).unwrap();
    }
    let mut query = vec![b'Q'];
    query.extend_from_slice(&(sql.len() as u32 + 5).to_be_bytes());
    query.extend_from_slice(sql.as_bytes());
    query.push(0);
    socket.write_all(&query).unwrap();
    socket
}

const ROWS: &str = "CREATE TABLE t (id int PRIMARY KEY, v text); \
    INSERT INTO t SELECT g, 'text of row ' || g FROM generate_series(1, 100000) g;";

/// A value of so many MiB, another for each `at`.
fn large_value(at: i32, mib: u32) -> Vec<u8> {
    let mut value: Vec<u8> = (0..mib << 20).map(|byte: u32| (byte.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    value[..4].copy_from_slice(&(at * 7_919 % 1_009).to_be_bytes());
    value
}

const LARGE_IN_ROWS: &str = "CREATE TABLE t (id int PRIMARY KEY, k int, v bytea)";
const LARGE_IN_COLUMNS: &str = "CREATE TABLE t (id bigint, k int, v bytea) \
    WITH (store = 'columns', time = 'id', key = 'k', partition = '1000')";

/// Creates the table and stores values in it, three to a group.
async fn store_large_values(client: &Client, table: &str, rows: i32, mib: u32) {
    client.batch_execute(table).await.unwrap();
    for at in 0..rows {
        let insert = format!("INSERT INTO t VALUES ({at}, {}, $1)", at % 3);
        client.execute(&insert, &[&large_value(at, mib)]).await.unwrap();
    }
}

/// The bug: neither chunks of COPY nor the messages to send were reserved.
#[test]
fn unread_large_values_are_bounded() {
    for (table, (rows, mib), sql) in [
        (LARGE_IN_ROWS, (16, 2), "COPY t TO STDOUT"),
        (LARGE_IN_ROWS, (16, 2), "COPY (SELECT v FROM t WHERE length(v) > 5) TO STDOUT"),
        (LARGE_IN_COLUMNS, (12, 2), "COPY t TO STDOUT"),
        // 60 messages with a value of 2 MiB would fit.
        (LARGE_IN_ROWS, (8, 8), "SELECT v FROM t WHERE id = 3"),
    ] {
        runtime().block_on(async {
            let watched = Watched::start().await;
            let client = connect(&watched.server).await;
            store_large_values(&client, table, rows, mib).await;
            client.batch_execute("CHECKPOINT").await.unwrap();
            let server = Arc::clone(&watched.server);
            let opened = tokio::task::spawn_blocking(move || (0..60).map(|_| stuck(&server, sql)).collect::<Vec<_>>());
            let opened = opened.await.unwrap();
            tokio::time::sleep(Duration::from_secs(3)).await;
            drop(opened);
            watched.end(&format!("60 stuck clients, {sql}, {table}")).await;
        });
    }
}

/// The bug: operators gathered 8,192 rows for a batch, whatever their size, without reserving memory.
#[test]
fn statements_over_large_values_stay_within_the_budget() {
    const STATEMENTS: [&str; 13] = [
        "SELECT * FROM t",
        "SELECT v FROM t WHERE length(v) > 5",
        "SELECT v FROM t ORDER BY v",
        "SELECT DISTINCT ON (k) k, v FROM t ORDER BY k, v",
        "SELECT v, count(*) FROM t GROUP BY v",
        "SELECT k, max(encode(v, 'hex')) FROM t GROUP BY k",
        "SELECT row_number() OVER (PARTITION BY k ORDER BY v), v FROM t",
        "SELECT first_value(v) OVER (ORDER BY v) FROM t",
        "SELECT a.v FROM t a JOIN t b ON a.v = b.v",
        "SELECT g, v FROM generate_series(1, 20000) g JOIN t ON t.k = g % 3 LIMIT 100",
        "SELECT count(*), max(length(v)) FROM t CROSS JOIN generate_series(1, 300) g WHERE length(v) > g",
        "SELECT g, v FROM t, LATERAL (SELECT g FROM generate_series(1, t.k + 100) g) l LIMIT 100",
        "COPY (SELECT v FROM t WHERE length(v) > 5) TO STDOUT",
    ];
    for (table, rows) in [(LARGE_IN_ROWS, 12), (LARGE_IN_COLUMNS, 16)] {
        runtime().block_on(async {
            let watched = Watched::start().await;
            let client = connect(&watched.server).await;
            store_large_values(&client, table, rows, 2).await;
            for sql in STATEMENTS {
                if let Err(error) = read(&client, sql).await {
                    let code = error.code().map(|code| code.code().to_owned()).unwrap_or_default();
                    assert!(["53200", "54000"].contains(&code.as_str()), "{sql}: {error:?}");
                }
                let peak = peak_kib(watched.server.pid());
                assert!(peak <= RESIDENT_KIB_MAX, "{sql}: {} MiB were resident", peak >> 10);
            }
            let sum = client.query_one("SELECT count(*), sum(length(v)) FROM t", &[]).await.unwrap();
            assert_eq!((sum.get::<_, i64>(0), sum.get::<_, i64>(1)), (rows.into(), i64::from(rows) << 21));
            watched.end(table).await;
        });
    }
}

/// Reads the result of a statement row by row.
async fn read(client: &Client, sql: &str) -> Result<(), tokio_postgres::Error> {
    if sql.starts_with("COPY") {
        let mut data = std::pin::pin!(client.copy_out(sql).await?);
        while data.try_next().await?.is_some() {}
    } else {
        let mut rows = std::pin::pin!(client.query_raw(sql, std::iter::empty::<i32>()).await?);
        while rows.try_next().await?.is_some() {}
    }
    Ok(())
}

#[test]
fn insert_select_does_not_buffer_its_rows() {
    for (what, sql) in [
        (
            "CREATE TABLE AS",
            "CREATE TABLE big AS SELECT g AS id, repeat('x', 400) AS v FROM generate_series(1, 20000000) g",
        ),
        (
            "INSERT ... SELECT ... RETURNING",
            "CREATE TABLE r (id int, v text); INSERT INTO r SELECT g, repeat('x', 400) FROM generate_series(1, 20000000) g RETURNING id",
        ),
        (
            "INSERT ... SELECT into a columns table",
            "CREATE TABLE c (time timestamptz NOT NULL, k int, v text) WITH (store = 'columns', key = 'k'); \
             INSERT INTO c SELECT timestamptz '2026-01-01' + g * interval '1 s', 1, repeat('x', 400) FROM generate_series(1, 20000000) g",
        ),
    ] {
        runtime().block_on(async {
            let watched = Watched::start().await;
            run(&connect(&watched.server).await, sql).await;
            watched.end(what).await;
        });
    }
}

#[test]
fn unread_results_are_bounded() {
    for (what, clients, sql) in [
        ("40 stuck clients, wide rows", 40, "SELECT g, repeat('x', 8000) FROM generate_series(1, 10000000) g"),
        ("200 stuck clients", 200, "SELECT g, g::text || ' is a number' FROM generate_series(1, 10000000) g"),
        ("100 stuck clients of a rows table", 100, "SELECT * FROM t"),
        ("100 stuck clients of a sorted rows table", 100, "SELECT * FROM t ORDER BY v"),
    ] {
        runtime().block_on(async {
            let watched = Watched::start().await;
            let other = connect(&watched.server).await;
            other.batch_execute(ROWS).await.unwrap();
            let server = Arc::clone(&watched.server);
            let opened =
                tokio::task::spawn_blocking(move || (0..clients).map(|_| stuck(&server, sql)).collect::<Vec<_>>());
            let opened = opened.await.unwrap();
            tokio::time::sleep(Duration::from_secs(3)).await;
            run(&other, "SELECT count(*) FROM t WHERE v LIKE '%y'").await;
            drop(opened);
            watched.end(what).await;
        });
    }
}

#[test]
fn suspended_portals_hold_no_thread_and_little_memory() {
    runtime().block_on(async {
        let watched = Watched::start().await;
        let other = connect(&watched.server).await;
        other.batch_execute(ROWS).await.unwrap();
        let mut clients = Vec::new();
        for _ in 0..20 {
            clients.push(connect(&watched.server).await);
        }
        let mut open = Vec::new();
        let mut refused = 0;
        for client in &mut clients {
            let transaction = client.transaction().await.unwrap();
            for _ in 0..30 {
                let portal = transaction.bind("SELECT * FROM t", &[]).await.unwrap();
                match transaction.query_portal(&portal, 10).await {
                    Ok(rows) => {
                        assert_eq!(rows.len(), 10);
                        open.push(portal);
                    }
                    Err(error) => {
                        assert_eq!(error.code().map(|code| code.code()), Some("53200"), "{error:?}");
                        refused += 1;
                        break;
                    }
                }
            }
            std::mem::forget(transaction);
        }
        println!("{} portals, {refused} refused", open.len());
        assert!(open.len() > 100);
        let counted = tokio::time::timeout(
            Duration::from_secs(30),
            other.query_one("SELECT count(*) FROM t WHERE v LIKE '%9'", &[]),
        );
        match counted.await.expect("a long query is answered while portals are open") {
            Ok(row) => assert_eq!(row.get::<_, i64>(0), 10_000),
            Err(error) => assert_eq!(error.code().map(|code| code.code()), Some("53200"), "{error:?}"),
        }
        watched.end("suspended portals").await;
    });
}

#[test]
fn functions_that_grow_text_are_bounded_and_stopped() {
    runtime().block_on(async {
        for sql in [
            "SELECT length(replace(repeat('a', 100000), 'a', repeat('b', 40000)))",
            "SELECT length(replace(v, '1', repeat('b', 1000000))) FROM t",
            "SELECT length(replace(repeat(v, 10000), 't', repeat('b', 40000))), row_number() OVER () FROM t",
            "SELECT length(regexp_replace(repeat('a', 400000), 'a', repeat('b', 3000), 'g'))",
            "SELECT length(regexp_replace(repeat(v, 20000), 't', repeat('b', 3000), 'g')), row_number() OVER () FROM t",
            "SELECT length(concat(repeat('a', 60000000), repeat('b', 60000000), repeat('c', 60000000)))",
            "SELECT length(string_agg(repeat(v, 1000), ',')) FROM t",
            "SELECT length(string_agg(repeat(g::text, 10000), ',')) FROM generate_series(1, 1000000) g",
            "SELECT max(repeat('x', 10000000) || g) FROM generate_series(1, 20) g",
            "SELECT count(*) FROM (SELECT repeat('x', 10000000) AS v, g FROM generate_series(1, 10000) g) x WHERE v > g::text",
            "SELECT length(array_to_string(array_agg(g), repeat('x', 100000))) FROM generate_series(1, 100000) g",
            "WITH RECURSIVE d AS (SELECT 'x'::text AS v UNION ALL SELECT v || v FROM d WHERE length(v) < 100000000) \
             SELECT max(length(v)) FROM d",
        ] {
            let watched = Watched::start().await;
            let client = connect(&watched.server).await;
            client.batch_execute(ROWS).await.unwrap();
            client.batch_execute("SET statement_timeout = '10s'").await.unwrap();
            let started = Instant::now();
            if let Err(error) = client.batch_execute(sql).await {
                let code = error.code().map(|code| code.code().to_owned()).unwrap_or_default();
                let stopped = ["53200", "54000", "57014", "42883", "0A000"].contains(&code.as_str());
                println!("{code} after {:?}: {sql}", started.elapsed());
                assert!(stopped, "{sql}: {error:?}");
            } else {
                println!("done after {:?}: {sql}", started.elapsed());
            }
            let elapsed = started.elapsed();
            assert!(elapsed < Duration::from_secs(10) + STOP_MAX, "{sql}: {elapsed:?} with a time-out of 10 s");
            watched.end(sql).await;
        }
    });
}

#[test]
fn large_requests_and_transactions_share_the_budget() {
    runtime().block_on(async {
        let watched = Watched::start().await;
        let setup = connect(&watched.server).await;
        let table = "CREATE TABLE c (time timestamptz NOT NULL, k int, v text) WITH (store = 'columns', key = 'k')";
        setup.batch_execute(table).await.unwrap();
        let mut clients = Vec::new();
        for number in 0..8 {
            let client = connect(&watched.server).await;
            client.batch_execute("BEGIN").await.unwrap();
            let sql = format!(
                "INSERT INTO c SELECT timestamptz '2026-01-01' + g * interval '1 s', {number}, repeat('x', 1000) \
                 FROM generate_series(1, 40000) g"
            );
            run(&client, &sql).await;
            clients.push(client);
        }
        watched.end("8 open transactions").await;
    });
    runtime().block_on(async {
        let watched = Watched::start().await;
        let client = connect(&watched.server).await;
        client.batch_execute("CREATE TABLE v (id int, t text)").await.unwrap();
        let rows: Vec<String> = (0..50_000).map(|at| format!("({at},'r{at}')")).collect();
        run(&client, &format!("INSERT INTO v VALUES {}", rows.join(","))).await;
        watched.end("an INSERT of 50,000 rows in one text").await;
        let watched = Watched::start().await;
        let client = connect(&watched.server).await;
        client.batch_execute("CREATE TABLE v (id int, t text)").await.unwrap();
        // A row with an expression takes the slow path, which parses the whole text.
        run(&client, &format!("INSERT INTO v VALUES (1 + 1, ''), {}", rows.join(","))).await;
        watched.end("an INSERT of 50,000 rows of expressions in one text").await;
    });
}
