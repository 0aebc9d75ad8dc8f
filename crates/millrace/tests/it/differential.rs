//! Differential tests of Millrace and PostgreSQL: same text of every value, same SQLSTATE of every error.
//!
//! The statements are lines of `data/differential.sql` and, for `rows` tables, `data/rows.sql`. For the latter,
//! error texts are compared too, and queries run a second time by the extended protocol, where types and binary
//! values must be equal; the text after `/*with*/` are values for `$1 | $2 …`.

use std::error::Error;

use bytes::BytesMut;
use tokio_postgres::types::{Format, FromSql, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::postgres::Postgres;
use crate::server::{Server, folder};

const STATEMENTS: &str = include_str!("data/differential.sql");
const ROWS_STATEMENTS: &str = include_str!("data/rows.sql");
/// Marks the store's clause; removed for PostgreSQL.
const STORE: &str = "/*columns*/";
/// Marks a statement with a different answer, followed by the reason.
const DIFFERS: &str = "/*differs: ";
/// Marks a statement whose error text may differ, followed by the reason.
const SAYS: &str = "/*says: ";
/// Precedes parameter values.
const WITH: &str = "/*with*/";

#[test]
fn answers_and_errors_are_those_of_postgresql() {
    check(STATEMENTS, async |client: &Client, sql: &str| {
        let answer = answer(client, sql).await;
        // Only error codes are compared: columns tables report more detail.
        answer
            .split_once(": ")
            .filter(|_| answer.starts_with("error "))
            .map_or(answer.clone(), |(code, _)| code.to_owned())
    });
}

#[test]
fn rows_tables_answer_as_postgresql_does() {
    check(ROWS_STATEMENTS, async |client: &Client, sql: &str| match sql.split_once(WITH) {
        Some((sql, values)) => extended(client, sql.trim(), &values_of(values)).await,
        None if sql.starts_with("SELECT") && !sql.contains("nextval") => {
            format!("{}\n              {}", answer(client, sql).await, extended(client, sql, &[]).await)
        }
        None => answer(client, sql).await,
    });
}

fn values_of(list: &str) -> Vec<Option<&str>> {
    list.split('|').map(str::trim).map(|value| (value != "NULL").then_some(value)).collect()
}

fn check(statements: &str, ask: impl AsyncFn(&Client, &str) -> String) {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let postgres = Postgres::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let differences = runtime.block_on(compare(statements, &server.url(), &postgres.url(), ask));
    assert!(differences.is_empty(), "{} differ:\n\n{}", differences.len(), differences.join("\n"));
    server.stop();
}

async fn compare(
    statements: &str,
    ours: &str,
    theirs: &str,
    ask: impl AsyncFn(&Client, &str) -> String,
) -> Vec<String> {
    let (ours, theirs) = (connect(ours).await, connect(theirs).await);
    let mut differences = Vec::new();
    let mut count = 0;
    for line in statements.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("--")) {
        let [mine, other] = for_both(line);
        let (mut seen, mut expected) = (ask(&ours, statement(&mine)).await, ask(&theirs, statement(&other)).await);
        count += 1;
        if line.starts_with(SAYS) {
            assert!(seen.starts_with("error ") && seen != expected, "{line}\n  needs no excuse: {seen}");
            (seen, expected) = (code_of(&seen), code_of(&expected));
        }
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

/// The statement for Millrace and for PostgreSQL.
pub(crate) fn for_both(line: &str) -> [String; 2] {
    match line.split_once(STORE) {
        // Our `WITH (…)` corresponds to a primary key in PostgreSQL.
        Some((create, with)) => [format!("{create}) {with}"), format!("{create}{})", primary_key(with))],
        None => [line.to_owned(), line.to_owned()],
    }
}

/// The statement without its markers.
fn statement(line: &str) -> &str {
    let excused = line.starts_with(DIFFERS) || line.starts_with(SAYS);
    line.split_once("*/").filter(|_| excused).map_or(line, |(_, sql)| sql.trim())
}

/// `error CODE` of `error CODE: text`
fn code_of(answer: &str) -> String {
    answer.split(':').next().unwrap_or_default().to_owned()
}

pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The primary key in PostgreSQL for `WITH (store = 'columns', key = 'a, b')`.
fn primary_key(with: &str) -> String {
    let key = with.split("key = '").nth(1).and_then(|rest| rest.split('\'').next());
    key.map_or_else(String::new, |key| format!(", UNIQUE NULLS NOT DISTINCT ({key}, time)"))
}

/// All rows as text, or the error.
pub(crate) async fn answer(client: &Client, sql: &str) -> String {
    let messages = match client.simple_query(sql).await {
        Ok(messages) => messages,
        Err(error) => return refused(&error),
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

fn refused(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(
        || format!("error none: {error}"),
        |error| format!("error {}: {}", error.code().code(), error.message()),
    )
}

/// By the extended protocol: parameter and column types, and all values in binary; or the error.
pub(crate) async fn extended(client: &Client, sql: &str, values: &[Option<&str>]) -> String {
    match extended_or_error(client, sql, values).await {
        Ok(answer) => answer,
        Err(error) => refused(&error),
    }
}

async fn extended_or_error(
    client: &Client,
    sql: &str,
    values: &[Option<&str>],
) -> Result<String, tokio_postgres::Error> {
    let prepared = client.prepare(sql).await?;
    let parameters: Vec<&str> = prepared.params().iter().map(Type::name).collect();
    if parameters.len() != values.len() {
        return Ok(format!("takes {parameters:?}"));
    }
    let columns: Vec<String> =
        prepared.columns().iter().map(|column| format!("{} {}", column.name(), column.type_())).collect();
    let values: Vec<Text<'_>> = values.iter().map(|value| Text(*value)).collect();
    let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as _).collect();
    let mut lines = vec![format!("({}) -> ({})", parameters.join(", "), columns.join(", "))];
    if columns.is_empty() {
        lines.push(client.execute(&prepared, &values).await?.to_string());
    } else {
        for row in client.query(&prepared, &values).await? {
            lines.push((0..row.len()).map(|at| row.get::<_, Bytes>(at).0).collect::<Vec<_>>().join("|"));
        }
    }
    Ok(lines.join(" / "))
}

/// A value sent as text for any parameter type.
#[derive(Debug)]
struct Text<'a>(Option<&'a str>);

impl ToSql for Text<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let Some(text) = self.0 else { return Ok(IsNull::Yes) };
        out.extend_from_slice(text.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}

/// A value received as bytes for any type.
struct Bytes(String);

impl<'a> FromSql<'a> for Bytes {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Bytes, Box<dyn Error + Sync + Send>> {
        Ok(Bytes(raw.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    fn from_sql_null(_: &Type) -> Result<Bytes, Box<dyn Error + Sync + Send>> {
        Ok(Bytes("NULL".to_owned()))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}
