//! The same statements against Millrace and PostgreSQL: same text of every value, same SQLSTATE of every error.
//!
//! The statements are lines of `data/differential.sql`; see its head.

use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::postgres::Postgres;
use crate::server::{Server, folder};

const STATEMENTS: &str = include_str!("data/differential.sql");
/// What stands for the store's clause in the file: PostgreSQL has none.
const STORE: &str = "/*columns*/";
/// Starts a statement that is answered otherwise, and says why.
const DIFFERS: &str = "/*differs: ";

#[test]
fn answers_and_errors_are_those_of_postgresql() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let postgres = Postgres::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let differences = runtime.block_on(compare(&server.url(), &postgres.url()));
    assert!(differences.is_empty(), "{} differ:\n\n{}", differences.len(), differences.join("\n"));
    server.stop();
}

async fn compare(ours: &str, theirs: &str) -> Vec<String> {
    let (ours, theirs) = (connect(ours).await, connect(theirs).await);
    let mut differences = Vec::new();
    let mut count = 0;
    for line in STATEMENTS.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("--")) {
        let (mine, other) = match line.split_once(STORE) {
            // `WITH (…)` for us; PostgreSQL takes the primary key that says the same.
            Some((create, with)) => (format!("{create}) {with}"), format!("{create}{})", primary_key(with))),
            None => (line.to_owned(), line.to_owned()),
        };
        let (seen, expected) = (answer(&ours, &mine).await, answer(&theirs, &other).await);
        count += 1;
        if line.starts_with(DIFFERS) {
            if seen == expected {
                differences.push(format!("{line}\n  is answered as by PostgreSQL now; it needs no excuse\n"));
            }
        } else if seen != expected {
            differences.push(format!("{line}\n  millrace:   {seen}\n  postgresql: {expected}\n"));
        }
    }
    assert!(count > 100, "only {count} statements");
    differences
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// `WITH (store = 'columns', key = 'a, b')` as PostgreSQL says it.
fn primary_key(with: &str) -> String {
    let key = with.split("key = '").nth(1).and_then(|rest| rest.split('\'').next());
    key.map_or_else(String::new, |key| format!(", UNIQUE NULLS NOT DISTINCT ({key}, time)"))
}

/// All rows as text, or the SQLSTATE.
async fn answer(client: &Client, sql: &str) -> String {
    let messages = match client.simple_query(sql).await {
        Ok(messages) => messages,
        Err(error) => return format!("error {}", error.code().map_or("none", |code| code.code())),
    };
    let mut lines = Vec::new();
    for message in messages {
        match message {
            SimpleQueryMessage::RowDescription(columns) => {
                lines.push(columns.iter().map(|column| column.name().to_owned()).collect::<Vec<_>>().join("|"));
            }
            SimpleQueryMessage::Row(row) => {
                lines.push((0..row.len()).map(|at| row.get(at).unwrap_or("NULL")).collect::<Vec<_>>().join("|"));
            }
            SimpleQueryMessage::CommandComplete(rows) => lines.push(format!("({rows})")),
            _ => {}
        }
    }
    lines.join(" / ")
}
