//! kill -9 during money transfers: accounts and transfers are in `rows` tables, and each transfer adds a point to a
//! `columns` table in the same transaction. Acknowledged transfers exist exactly once and completely, and the total
//! is constant.
//!
//! `MILLRACE_CRASH_ROUNDS` sets the number of rounds.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

use crate::server::{Server, folder};

const ROUNDS: u64 = 5;
const CLIENTS: usize = 4;
/// Few, so that clients wait for each other and sometimes deadlock.
const ACCOUNTS: u64 = 8;
const BALANCE: i64 = 1_000;

/// Outcome of a transfer.
enum Moved {
    Acknowledged,
    RolledBack,
    /// The server was killed; the transfer may have been committed.
    Unknown,
}

/// For each client: all transfers below this number were acknowledged.
type Ledger = [AtomicU64; CLIENTS];

#[test]
fn transfers_survive_kill_9_whole_and_once() {
    let rounds = std::env::var("MILLRACE_CRASH_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    let (_folder, data) = folder();
    let ledger = Ledger::default();
    let deadlocks = AtomicU64::new(0);
    prepare(&data);
    for round in 0..rounds {
        let server = Server::start(&data);
        verify(&server, &ledger, round);
        move_and_kill(server, &ledger, &deadlocks, round);
    }
    let server = Server::start(&data);
    verify(&server, &ledger, rounds);
    server.stop();
    // Files written by a clean shutdown are read by the next start.
    let server = Server::start(&data);
    verify(&server, &ledger, rounds);
    server.stop();
    let moves: u64 = ledger.iter().map(|count| count.load(Ordering::Relaxed)).sum();
    assert!(moves > 20 * rounds, "{moves} moves in {rounds} rounds: too few to prove anything");
    println!("{rounds} kills, {moves} moves, {} deadlocks", deadlocks.load(Ordering::Relaxed));
}

fn prepare(data: &Path) {
    let server = Server::start(data);
    server.sql("CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL)");
    server.sql(
        "CREATE TABLE move (client int, n bigint, source int REFERENCES account, target int REFERENCES account, \
         amount bigint NOT NULL, PRIMARY KEY (client, n))",
    );
    server.sql(
        "CREATE TABLE point (time timestamptz NOT NULL, client int, n bigint, amount bigint) \
         WITH (store = 'columns', key = 'client')",
    );
    let accounts: Vec<String> = (0..ACCOUNTS).map(|id| format!("({id}, {BALANCE})")).collect();
    server.sql(&format!("INSERT INTO account VALUES {}", accounts.join(", ")));
    server.stop();
}

/// Transfers money until the kill, whose time differs from round to round.
fn move_and_kill(server: Server, ledger: &Ledger, deadlocks: &AtomicU64, round: u64) {
    let stop = AtomicBool::new(false);
    let url = server.url();
    let (url, stop) = (&url, &stop);
    thread::scope(|scope| {
        for (client, acknowledged) in ledger.iter().enumerate() {
            scope.spawn(move || run_client(url, client, acknowledged, deadlocks, stop, round));
        }
        thread::sleep(Duration::from_millis(400 + round * 397 % 1_100));
        server.kill();
        stop.store(true, Ordering::Relaxed);
    });
}

fn run_client(
    url: &str,
    client: usize,
    acknowledged: &AtomicU64,
    deadlocks: &AtomicU64,
    stop: &AtomicBool,
    round: u64,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let Ok((mut connected, connection)) = tokio_postgres::connect(url, NoTls).await else { return };
        tokio::spawn(connection);
        let mut random = round * 1_000_003 + client as u64;
        while !stop.load(Ordering::Relaxed) {
            let n = acknowledged.load(Ordering::Relaxed);
            match transfer(&mut connected, client, n, &mut random, deadlocks).await {
                Moved::Acknowledged => acknowledged.store(n + 1, Ordering::Relaxed),
                Moved::RolledBack => {}
                Moved::Unknown => return,
            }
        }
    });
}

/// One transfer between two accounts; every fifth is rolled back and must leave no trace.
async fn transfer(client: &mut Client, number: usize, n: u64, random: &mut u64, deadlocks: &AtomicU64) -> Moved {
    let mut below = |end: u64| {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*random >> 33) % end
    };
    let source = below(ACCOUNTS);
    let target = (source + 1 + below(ACCOUNTS - 1)) % ACCOUNTS;
    let (amount, commit) = (1 + below(20), below(5) > 0);
    match run_transfer(client, number as i32, [n, source, target, amount].map(u64::cast_signed), commit).await {
        Ok(()) if commit => Moved::Acknowledged,
        Ok(()) => Moved::RolledBack,
        Err(error) if error.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED) => {
            deadlocks.fetch_add(1, Ordering::Relaxed);
            Moved::RolledBack
        }
        // Killed during the transaction.
        Err(error) if error.as_db_error().is_none() => Moved::Unknown,
        Err(error) => panic!("transfer: {error:?}"),
    }
}

async fn run_transfer(
    client: &mut Client,
    number: i32,
    [n, source, target, amount]: [i64; 4],
    commit: bool,
) -> Result<(), tokio_postgres::Error> {
    let transaction = client.transaction().await?;
    let (from, to) = (source as i32, target as i32);
    let add = "UPDATE account SET balance = balance + $1 WHERE id = $2";
    assert_eq!(transaction.execute(add, &[&-amount, &from]).await?, 1, "account {from}");
    assert_eq!(transaction.execute(add, &[&amount, &to]).await?, 1, "account {to}");
    let insert = "INSERT INTO move VALUES ($1, $2, $3, $4, $5)";
    transaction.execute(insert, &[&number, &n, &from, &to, &amount]).await?;
    let point = "INSERT INTO point (time, client, n, amount) VALUES (to_timestamp($1), $2, $3, $4)";
    transaction.execute(point, &[&(n as f64), &number, &n, &amount]).await?;
    if commit { transaction.commit().await } else { transaction.rollback().await }
}

/// All acknowledged transfers exist; of unacknowledged ones, only complete transfers.
fn verify(server: &Server, ledger: &Ledger, round: u64) {
    let money = ACCOUNTS.cast_signed() * BALANCE;
    assert_eq!(numbers(server, "SELECT sum(balance), count(*) FROM account"), [money, ACCOUNTS.cast_signed()]);
    for (client, acknowledged) in ledger.iter().enumerate() {
        let promised = acknowledged.load(Ordering::Relaxed).cast_signed();
        let of = |what: &str, table: &str| {
            numbers(server, &format!("SELECT {what}, coalesce(sum(amount), 0) FROM {table} WHERE client = {client}"))
        };
        let [moves, moved] = of("count(*)", "move");
        let whole = [moves, moved];
        assert_eq!(whole, of("count(*)", "point"), "round {round}, client {client}: half a transfer is visible");
        assert_eq!(whole, of("coalesce(max(n) + 1, 0)", "move"), "round {round}, client {client}: a move is missing");
        assert!(
            moves == promised || moves == promised + 1,
            "round {round}, client {client}: {promised} moves were acknowledged, {moves} are there"
        );
        // Unacknowledged transfers that were read count as acknowledged from now on.
        acknowledged.store(moves.cast_unsigned(), Ordering::Relaxed);
    }
    for account in 0..ACCOUNTS {
        let total = |end: &str| {
            let sql = format!("SELECT coalesce(sum(amount), 0), count(*) FROM move WHERE {end} = {account}");
            numbers(server, &sql)[0]
        };
        let [balance, _] = numbers(server, &format!("SELECT balance, 0 FROM account WHERE id = {account}"));
        let expected = BALANCE + total("target") - total("source");
        assert_eq!(balance, expected, "round {round}: the balance of account {account} is not what its moves make");
    }
}

fn numbers(server: &Server, sql: &str) -> [i64; 2] {
    let csv = server.sql(sql);
    let row: Vec<i64> = csv.lines().nth(1).unwrap_or_default().split(',').filter_map(|n| n.parse().ok()).collect();
    row.try_into().unwrap_or_else(|_| panic!("{sql}: {csv}"))
}
