//! kill -9 under load: acknowledged rows survive, and commits are atomic, at any moment.
//!
//! Each writer writes rows numbered 0, 1, 2 … and records in a ledger which were acknowledged. After each kill the
//! server is restarted and checked against the ledger. `MILLRACE_CRASH_ROUNDS` sets the number of rounds.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio_postgres::NoTls;

use crate::http;
use crate::server::{Server, folder};

const ROUNDS: u64 = 6;
const LINE_WRITERS: usize = 2;
const SQL_WRITERS: usize = 2;
/// Rows of one line-protocol request: one commit.
const LINES: u64 = 50;

/// For each writer: all rows below this number were acknowledged.
#[derive(Default)]
struct Ledger {
    lines: [AtomicU64; LINE_WRITERS],
    sql: [AtomicU64; SQL_WRITERS],
    rolled_back: AtomicU64,
}

#[test]
fn acknowledged_writes_survive_kill_9() {
    let rounds = std::env::var("MILLRACE_CRASH_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    let (_folder, data) = folder();
    let ledger = Ledger::default();
    prepare(&data);
    for round in 0..rounds {
        let server = Server::start(&data);
        verify(&server, &ledger, round);
        load_and_kill(server, &ledger, round);
    }
    let server = Server::start(&data);
    verify(&server, &ledger, rounds);
    server.stop();
    let sum = |writers: &[AtomicU64]| writers.iter().map(|count| count.load(Ordering::Relaxed)).sum::<u64>();
    let (lines, sql) = (sum(&ledger.lines), sum(&ledger.sql));
    assert!(
        lines > rounds && sql > rounds,
        "{lines} lines and {sql} rows in {rounds} rounds: too little to prove anything"
    );
    println!("{rounds} kills; {lines} lines and {sql} transactions were acknowledged, none lost");
}

fn prepare(data: &Path) {
    let server = Server::start(data);
    for table in ["a", "b"] {
        server.sql(&format!(
            "CREATE TABLE {table} (time timestamptz NOT NULL, w int, n bigint) WITH (store = 'columns', key = 'w')"
        ));
    }
    server.stop();
}

/// Writes until the kill, whose time differs from round to round.
fn load_and_kill(server: Server, ledger: &Ledger, round: u64) {
    let stop = AtomicBool::new(false);
    let (http, url) = (server.http.clone(), server.url());
    let (http, url, stop, rolled_back) = (&http, &url, &stop, &ledger.rolled_back);
    thread::scope(|scope| {
        for (writer, acknowledged) in ledger.lines.iter().enumerate() {
            scope.spawn(move || write_lines(http, writer, acknowledged, stop));
        }
        for (writer, acknowledged) in ledger.sql.iter().enumerate() {
            scope.spawn(move || write_sql(url, writer, acknowledged, rolled_back, stop));
        }
        // Long enough for work, short enough to hit startup, first commits and flush.
        thread::sleep(Duration::from_millis(200 + round * 397 % 1_500));
        server.kill();
        stop.store(true, Ordering::Relaxed);
    });
}

fn write_lines(http: &str, writer: usize, acknowledged: &AtomicU64, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let from = acknowledged.load(Ordering::Relaxed);
        let lines: String = (from..from + LINES).map(|n| format!("lines,w={writer} n={n}i {}\n", n + 1)).collect();
        match http::write(http, &lines) {
            Ok((204, _)) => acknowledged.store(from + LINES, Ordering::Relaxed),
            // Killed during the request: its rows exist all or not at all, and will be written again.
            Err(_) => return,
            Ok((status, body)) => panic!("write answered {status}: {body}"),
        }
    }
}

/// Transactions over two tables; every third is rolled back and must leave no rows.
fn write_sql(url: &str, writer: usize, acknowledged: &AtomicU64, rolled_back: &AtomicU64, stop: &AtomicBool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let Ok((mut client, connection)) = tokio_postgres::connect(url, NoTls).await else { return };
        tokio::spawn(connection);
        while !stop.load(Ordering::Relaxed) {
            let n = acknowledged.load(Ordering::Relaxed);
            if n % 3 == 2 && rolled_back.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
                match transaction(&mut client, writer, -1, false).await {
                    Ok(()) => continue,
                    Err(error) if error.is_closed() || is_io(&error) => return,
                    Err(error) => panic!("transaction: {error:?}"),
                }
            }
            match transaction(&mut client, writer, n.cast_signed(), true).await {
                Ok(()) => acknowledged.store(n + 1, Ordering::Relaxed),
                // Killed during the transaction.
                Err(error) if error.is_closed() || is_io(&error) => return,
                Err(error) => panic!("transaction: {error:?}"),
            }
        }
    });
}

fn is_io(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<std::io::Error>())
}

async fn transaction(
    client: &mut tokio_postgres::Client,
    writer: usize,
    n: i64,
    commit: bool,
) -> Result<(), tokio_postgres::Error> {
    let transaction = client.transaction().await?;
    for table in ["a", "b"] {
        let sql = format!("INSERT INTO {table} (time, w, n) VALUES (to_timestamp($1), $2, $3)");
        transaction.execute(&sql, &[&(n as f64 + 1.0), &(writer as i32), &n]).await?;
    }
    if commit { transaction.commit().await } else { transaction.rollback().await }
}

/// All acknowledged rows exist; of unacknowledged ones, only whole commits.
fn verify(server: &Server, ledger: &Ledger, round: u64) {
    for (writer, acknowledged) in ledger.lines.iter().enumerate() {
        let promised = acknowledged.load(Ordering::Relaxed);
        if promised == 0 {
            continue;
        }
        let [count, max] = numbers(server, &format!("SELECT count(n), max(n) FROM lines WHERE w = '{writer}'"));
        assert_eq!(count, max + 1, "round {round}, line writer {writer}: rows are missing in the middle");
        assert!(
            count == promised || count == promised + LINES,
            "round {round}, line writer {writer}: {promised} rows were acknowledged, {count} are there"
        );
    }
    for (writer, acknowledged) in ledger.sql.iter().enumerate() {
        let promised = acknowledged.load(Ordering::Relaxed);
        let [a, lowest] = numbers(server, &format!("SELECT count(n), coalesce(min(n), 0) FROM a WHERE w = {writer}"));
        let [b, b_max] =
            numbers(server, &format!("SELECT count(n), coalesce(max(n), -1) + 1 FROM b WHERE w = {writer}"));
        assert_eq!(a, b, "round {round}, SQL writer {writer}: half a transaction is visible");
        assert_eq!(b, b_max, "round {round}, SQL writer {writer}: rows are missing in the middle");
        assert_eq!(lowest, 0, "round {round}, SQL writer {writer}: a rolled-back row is visible");
        assert!(
            a == promised || a == promised + 1,
            "round {round}, SQL writer {writer}: {promised} rows were acknowledged, {a} are there"
        );
        // Unacknowledged rows that were read count as acknowledged from now on.
        acknowledged.store(a, Ordering::Relaxed);
    }
}

fn numbers(server: &Server, sql: &str) -> [u64; 2] {
    let csv = server.sql(sql);
    let row: Vec<i64> = csv.lines().nth(1).unwrap_or_default().split(',').filter_map(|n| n.parse().ok()).collect();
    match row[..] {
        [a, b] => [a.cast_unsigned(), b.cast_unsigned()],
        _ => panic!("{sql}: {csv}"),
    }
}

#[test]
fn a_kill_in_the_middle_of_a_bulk_load_leaves_whole_commits() {
    let (_folder, data) = folder();
    prepare(&data);
    let server = Server::start(&data);
    let (url, done) = (server.url(), Arc::new(AtomicU64::new(0)));
    let copied = Arc::clone(&done);
    let loader = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
            tokio::spawn(connection);
            for load in 0_u64.. {
                let sink = client.copy_in::<_, bytes::Bytes>("COPY a (time, w, n) FROM STDIN").await;
                let Ok(sink) = sink else { return };
                futures::pin_mut!(sink);
                for second in 0..200_u64 {
                    let n = load * 200 + second;
                    let row = format!(
                        "{}\t{load}\t{n}\n",
                        format_args!("2026-01-01 00:{:02}:{:02}Z", second / 60, second % 60)
                    );
                    if futures::SinkExt::send(&mut sink, bytes::Bytes::from(row)).await.is_err() {
                        return;
                    }
                }
                if sink.finish().await.is_err() {
                    return;
                }
                copied.store(load + 1, Ordering::Relaxed);
            }
        });
    });
    let started = Instant::now();
    while done.load(Ordering::Relaxed) < 3 && started.elapsed() < Duration::from_secs(30) {
        thread::sleep(Duration::from_millis(5));
    }
    server.kill();
    loader.join().unwrap();
    let server = Server::start(&data);
    let loads = done.load(Ordering::Relaxed);
    assert!(loads >= 3, "only {loads} loads in 30 s");
    let halves = server.sql("SELECT w FROM a GROUP BY w HAVING count(*) <> 200");
    assert_eq!(halves, "w\n", "a COPY came through in part");
    let [there, _] = numbers(&server, "SELECT count(DISTINCT w), 0 FROM a");
    assert!(there == loads || there == loads + 1, "{loads} loads were acknowledged, {there} are there");
    server.stop();
}
