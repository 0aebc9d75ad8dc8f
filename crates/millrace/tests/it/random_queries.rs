//! Random queries over tables of both stores on Millrace and PostgreSQL: all joins, subqueries, set operations,
//! windows, grouping, and conditions of UPDATE and DELETE, over columns with equal names, with NULLs, NaN and zeros
//! of both signs.
//!
//! The queries are the same each time, unless `MILLRACE_RANDOM_SEED` sets another seed (`now`: a new one); with
//! `MILLRACE_RANDOM_SECONDS` it runs longer, with further seeds. `cargo xtask fuzz-sql` sets both.

mod generate;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tokio_postgres::Client;

use self::generate::{Generator, Question};
use crate::differential::{answer, connect, for_both};
use crate::postgres::Postgres;
use crate::random_rows::sorted;
use crate::server::{Server, folder};

const SEED: u64 = 1;
/// Queries before the tables are filled again.
const QUERIES_PER_SEED: u64 = 400;
/// Seeds of the short run, which takes a few seconds.
const SEEDS: u64 = 3;
/// Differences after which the run stops.
const DIFFERENCES_MAX: usize = 20;

#[test]
fn random_queries_over_both_stores_are_answered_as_by_postgresql() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let is_new = std::env::var("MILLRACE_RANDOM_SEED").is_ok_and(|seed| seed == "now");
    let seed = if is_new { crate::random_rows::now() } else { number("MILLRACE_RANDOM_SEED").unwrap_or(SEED) };
    let patience = number("MILLRACE_RANDOM_SECONDS").map(Duration::from_secs);
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let postgres = Postgres::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let differences = runtime.block_on(compare(seed, patience, &server.url(), &postgres.url()));
    assert!(differences.is_empty(), "{} differ:\n\n{}", differences.len(), differences.join("\n"));
    server.stop();
}

/// The queries with different answers.
async fn compare(first: u64, patience: Option<Duration>, ours: &str, theirs: &str) -> Vec<String> {
    let (ours, theirs) = (connect(ours).await, connect(theirs).await);
    for sql in generate::TABLES {
        let [mine, other] = for_both(sql);
        ours.batch_execute(&mine).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        theirs.batch_execute(&other).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    let started = Instant::now();
    let goes_on = |seed: u64| patience.map_or(seed < first + SEEDS, |patience| started.elapsed() < patience);
    let mut differences = Vec::new();
    let (mut asked, mut seed) = (0, first);
    // Unsupported statements by error text.
    let mut refused: BTreeMap<String, u64> = BTreeMap::new();
    while goes_on(seed) {
        println!("MILLRACE_RANDOM_SEED={seed}");
        let mut generator = Generator::new(seed);
        for client in [&ours, &theirs] {
            client.batch_execute("DELETE FROM ra; DELETE FROM rb; DELETE FROM ca; DELETE FROM cb").await.unwrap();
        }
        for sql in generator.rows() {
            for client in [&ours, &theirs] {
                client.batch_execute(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
            }
        }
        for _ in 0..QUERIES_PER_SEED {
            let question = generator.next();
            let (seen, expected) = (ask(&ours, &question).await, ask(&theirs, &question).await);
            asked += 1;
            if is_refused(&seen) {
                *refused.entry(seen).or_default() += 1;
            } else if !same(&question, &seen, &expected) {
                let sql = &question.sql;
                differences.push(format!(
                    "MILLRACE_RANDOM_SEED={seed}\n{sql}\n  millrace:   {seen}\n  postgresql: {expected}\n"
                ));
                println!("{}", differences[differences.len() - 1]);
                if differences.len() == DIFFERENCES_MAX {
                    return differences;
                }
            }
        }
        seed += 1;
    }
    let not_done: u64 = refused.values().sum();
    println!("{asked} queries, {not_done} of them refused:");
    refused.iter().for_each(|(error, count)| println!("{count:>6} {error}"));
    assert!(not_done * 4 < asked, "{not_done} of {asked} queries were refused: {refused:?}");
    differences
}

/// Whether an error reports an unsupported feature. The second text comes from DataFusion's plans for NOT IN.
fn is_refused(answer: &str) -> bool {
    answer.starts_with("error 0A000") || answer.contains("null_aware anti join")
}

async fn ask(client: &Client, question: &Question) -> String {
    if !question.changes {
        return answer(client, &question.sql).await;
    }
    client.batch_execute("BEGIN").await.unwrap();
    let mut answers = vec![answer(client, &question.sql).await];
    if !answers[0].starts_with("error ") {
        for name in ["ra", "rb", "ca", "cb"] {
            answers.push(answer(client, &format!("SELECT id, x, y FROM {name} ORDER BY id")).await);
        }
    }
    client.batch_execute("ROLLBACK").await.unwrap();
    answers.join(" | ")
}

fn same(question: &Question, seen: &str, expected: &str) -> bool {
    let code = |answer: &str| answer.strip_prefix("error ").and_then(|rest| rest.split(':').next().map(str::to_owned));
    match (code(seen), code(expected)) {
        (Some(seen), Some(expected)) => seen == expected,
        (None, None) if question.ordered || question.changes => seen == expected,
        (None, None) => sorted(seen) == sorted(expected),
        _ => false,
    }
}
