//! Random statements on `rows` tables, run on Millrace and PostgreSQL in parallel: answers must be equal.
//!
//! The statements are the same each time, unless `MILLRACE_RANDOM_SEED` sets another seed (`now`: a new one);
//! `MILLRACE_RANDOM_STATEMENTS` sets their number.

pub(crate) mod generate;

use tokio_postgres::Client;

use self::generate::{Generator, Question};
use crate::differential::{answer, connect, extended};
use crate::postgres::Postgres;
use crate::server::{Server, folder};

const SEED: u64 = 11;
/// Takes a few seconds.
const STATEMENTS: u64 = 5_000;
/// Differences after which the run stops.
const DIFFERENCES_MAX: usize = 10;
/// Number of statements printed before a difference.
const BEFORE: usize = 12;

#[test]
fn random_statements_on_rows_tables_are_answered_as_by_postgresql() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let is_new = std::env::var("MILLRACE_RANDOM_SEED").is_ok_and(|seed| seed == "now");
    // The default seed is fixed: a difference found by chance must not block an unrelated change.
    let seed = if is_new { now() } else { number("MILLRACE_RANDOM_SEED").unwrap_or(SEED) };
    let statements = number("MILLRACE_RANDOM_STATEMENTS").unwrap_or(STATEMENTS);
    println!("MILLRACE_RANDOM_SEED={seed}");
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let postgres = Postgres::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let differences = runtime.block_on(compare(seed, statements, &server.url(), &postgres.url()));
    assert!(
        differences.is_empty(),
        "MILLRACE_RANDOM_SEED={seed}: {} differ:\n\n{}",
        differences.len(),
        differences.join("\n")
    );
    server.stop();
}

pub(crate) fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

async fn compare(seed: u64, statements: u64, ours: &str, theirs: &str) -> Vec<String> {
    let (ours, theirs) = (connect(ours).await, connect(theirs).await);
    let mut generator = Generator::new(seed);
    let mut differences = Vec::new();
    let mut asked: Vec<String> = Vec::new();
    let mut refused = 0;
    for sql in generate::TABLES {
        ours.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        theirs.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    for number in 0..statements {
        let question = generator.next();
        let (seen, expected) = (ask(&ours, &question).await, ask(&theirs, &question).await);
        generator.note(&question, &expected);
        refused += u64::from(expected.starts_with("error "));
        if !same(&question, &seen, &expected) {
            let before = asked[asked.len().saturating_sub(BEFORE)..].join(";\n");
            differences.push(format!(
                "{before};\n-- number {number}:\n{}\n  millrace:   {seen}\n  postgresql: {expected}\n",
                question.sql
            ));
            // After a change with different results all further answers differ.
            if question.changes || differences.len() == DIFFERENCES_MAX {
                return differences;
            }
        }
        asked.push(question.sql);
    }
    // Refused statements test little; values and keys are drawn so that most succeed.
    assert!(refused * 2 < statements, "{refused} of {statements} statements were refused");
    differences
}

async fn ask(client: &Client, question: &Question) -> String {
    if question.extended {
        let values: Vec<Option<&str>> = question.values.iter().map(|value| value.as_deref()).collect();
        extended(client, &question.sql, &values).await
    } else {
        answer(client, &question.sql).await
    }
}

fn same(question: &Question, seen: &str, expected: &str) -> bool {
    if seen == expected {
        return true;
    }
    match (code(seen), code(expected)) {
        // If several rows are invalid, either may be reported first.
        (Some(seen), Some(expected)) => seen == expected || question.any_error,
        (None, None) => !question.ordered && sorted(seen) == sorted(expected),
        _ => false,
    }
}

fn code(answer: &str) -> Option<&str> {
    answer.strip_prefix("error ").and_then(|rest| rest.split(':').next())
}

pub(crate) fn sorted(answer: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = answer.split(" / ").collect();
    lines.sort_unstable();
    lines
}
