//! Queries that clients send for their commands and metadata calls (`tests/data/clients`), with the expected rows.

use std::path::PathBuf;

use crate::client::{Client, Fixture, Storage};
use crate::script::Connection;

/// `public.t` keyed by a nullable column (OID 16392), `public.ev` without key (16400), `plant.pump` with a primary
/// key (16408).
const TABLES: [&str; 4] = [
    "CREATE TABLE t (dev text, time timestamptz NOT NULL, v float8, n int) WITH (store = 'columns', key = 'dev')",
    "CREATE TABLE ev (time timestamptz NOT NULL, msg text) WITH (store = 'columns')",
    "CREATE SCHEMA plant",
    "CREATE TABLE plant.pump (id bigint NOT NULL, time timestamptz NOT NULL, count numeric(20)) \
     WITH (store = 'columns', key = 'id')",
];

/// A file of queries, each with the rows expected: `=== title`, query, `---`, rows.
struct Queries {
    head: String,
    queries: Vec<(String, String, Vec<String>)>,
}

fn read(path: &PathBuf) -> Queries {
    let text = std::fs::read_to_string(path).unwrap();
    let mut parts = text.split("=== ");
    let head = parts.next().unwrap().to_owned();
    let queries = parts.map(|part| {
        let (title, rest) = part.split_once('\n').unwrap();
        let (query, rows) = rest.split_once("\n---\n").unwrap_or_else(|| panic!("{title}: no ---"));
        (title.to_owned(), query.to_owned(), rows.lines().map(str::to_owned).collect())
    });
    Queries { queries: queries.collect(), head }
}

/// Runs a file. With `MILLRACE_BLESS=1` it is overwritten with the actual rows; review the diff before committing it.
async fn check(file: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/clients").join(file);
    let bless = std::env::var_os("MILLRACE_BLESS").is_some();
    let fixture = Fixture::new();
    let mut client = Client::new(&fixture, Storage::Memory);
    for sql in TABLES {
        client.run(sql).await.unwrap();
    }
    let Queries { head, queries } = read(&path);
    let (mut blessed, mut failures) = (head, Vec::new());
    for (title, query, expected) in queries {
        let result = client.table(&query).await;
        let rows = result.clone().unwrap_or_else(|_| expected.clone());
        blessed.push_str(&format!("=== {title}\n{query}\n---\n"));
        rows.iter().for_each(|row| blessed.push_str(&format!("{row}\n")));
        match result {
            Err(error) => failures.push(format!("{title}: {error}\n{query}")),
            Ok(rows) if !same(&query, &rows, &expected) && !bless => {
                failures.push(format!("{title}: {rows:#?}, expected {expected:#?}"))
            }
            Ok(_) => {}
        }
    }
    if bless {
        std::fs::write(&path, blessed).unwrap();
    }
    assert!(failures.is_empty(), "{} queries of {file} failed:\n{}", failures.len(), failures.join("\n\n"));
}

/// Whether the rows are the expected ones; in any order unless the query has ORDER BY.
fn same(query: &str, rows: &[String], expected: &[String]) -> bool {
    if query.to_uppercase().contains("ORDER BY") {
        return rows == expected;
    }
    let sorted = |rows: &[String]| {
        let mut rows = rows.to_vec();
        rows.sort();
        rows
    };
    sorted(rows) == sorted(expected)
}

#[tokio::test]
async fn psql_queries_are_answered() {
    check("psql.sql").await;
}

#[tokio::test]
async fn pgjdbc_queries_are_answered() {
    check("pgjdbc.sql").await;
}

#[tokio::test]
async fn psycopg_queries_are_answered() {
    check("psycopg.sql").await;
}

#[tokio::test]
async fn sqlalchemy_queries_are_answered() {
    check("sqlalchemy.sql").await;
}

#[tokio::test]
async fn queries_of_further_clients_are_answered() {
    check("others.sql").await;
}
