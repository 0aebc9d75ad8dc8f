//! Setup calls of InfluxDB writers: the InfluxQL statements they send to `/query`, buckets and
//! organizations of version 2, `/ready`. And `/settings`, which QuestDB clients read.
//!
//! A database or bucket is a schema; `millrace` is `public`. Queries are not supported here: use
//! SQL.

use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use model::{Error, Lsn, Result, SqlState, limits};
use query::Outcome;
use serde_json::{Value, json};

use super::routes::Call;
use super::{Context, reply, write};

/// Database name of the schema `public`.
const PUBLIC: &str = "millrace";
/// Id of the only organization, which has any name.
const ORGANIZATION: &str = "0000000000000001";
/// Most statements in a request to `/query`.
const STATEMENTS_MAX: usize = 100;

/// `GET, POST /query`
pub(super) async fn query(mut call: Call) -> Response {
    let body = match call.text().await {
        Ok(body) => body,
        Err(refused) => return refused.reply(),
    };
    let context = &call.context;
    let mut pairs = write::pairs(call.uri()).unwrap_or_default();
    if let Ok(form) = format!("/query?{body}").parse::<Uri>() {
        pairs.extend(write::pairs(&form).unwrap_or_default());
    }
    let parameter = |name: &str| pairs.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone());
    let (text, database) = (parameter("q").unwrap_or_default(), parameter("db"));
    let statements: Vec<Vec<String>> = match words(&text) {
        Some(words) => words.split(|word| word == ";").filter(|words| !words.is_empty()).map(<[_]>::to_vec).collect(),
        None => Vec::new(),
    };
    if statements.is_empty() || statements.len() > STATEMENTS_MAX {
        return refused(&text);
    }
    let mut results = Vec::new();
    for (id, words) in statements.iter().enumerate() {
        let Some(statement) = InfluxStatement::of(words) else { return refused(&text) };
        let mut result = match statement.answer(context, database.as_deref()).await {
            Ok(result) => result,
            Err(error) => {
                context.counters.errors.add(error.state().0);
                json!({ "error": error.message() })
            }
        };
        result["statement_id"] = id.into();
        results.push(result);
    }
    reply::json(StatusCode::OK, &json!({ "results": results }))
}

fn refused(text: &str) -> Response {
    let message = if text.trim().is_empty() {
        "missing required parameter \"q\"".to_owned()
    } else {
        "InfluxQL is not spoken here, but for SHOW DATABASES, SHOW MEASUREMENTS, SHOW RETENTION POLICIES, CREATE and DROP \
         DATABASE, CREATE RETENTION POLICY; send SQL to /sql"
            .to_owned()
    };
    reply::json(StatusCode::BAD_REQUEST, &json!({ "error": message }))
}

/// A supported InfluxQL statement.
#[derive(Clone, Debug, PartialEq, Eq)]
enum InfluxStatement {
    Databases,
    Measurements(Option<String>),
    Policies(Option<String>),
    Create(String),
    Drop(String),
    CreatePolicy { forever: bool },
}

impl InfluxStatement {
    fn of(words: &[String]) -> Option<InfluxStatement> {
        let is = |at: usize, keyword: &str| words.get(at).is_some_and(|word| word.eq_ignore_ascii_case(keyword));
        let starts = |keywords: &[&str]| keywords.iter().enumerate().all(|(at, keyword)| is(at, keyword));
        let on = || (0..words.len()).find(|at| is(*at, "on")).and_then(|on| words.get(on + 1).cloned());
        Some(if starts(&["show", "databases"]) {
            InfluxStatement::Databases
        } else if starts(&["show", "measurements"]) && (words.len() == 2 || is(2, "on")) {
            InfluxStatement::Measurements(on())
        } else if starts(&["show", "retention", "policies"]) {
            InfluxStatement::Policies(on())
        } else if starts(&["create", "database"]) {
            // Old versions have `IF NOT EXISTS`. The options after WITH concern retention and are
            // ignored.
            let name = if starts(&["create", "database", "if", "not", "exists"]) { 5 } else { 2 };
            InfluxStatement::Create(words.get(name)?.clone())
        } else if starts(&["drop", "database"]) {
            let name = if starts(&["drop", "database", "if", "exists"]) { 4 } else { 2 };
            InfluxStatement::Drop(words.get(name)?.clone())
        } else if starts(&["create", "retention", "policy"]) {
            let duration = (0..words.len()).find(|at| is(*at, "duration")).and_then(|at| words.get(at + 1))?;
            InfluxStatement::CreatePolicy { forever: ["inf", "0s", "0"].contains(&duration.to_lowercase().as_str()) }
        } else {
            return None;
        })
    }

    async fn answer(self, context: &Context, database: Option<&str>) -> Result<Value> {
        let series = |name: &str, columns: &[&str], values: Vec<Vec<Value>>| json!({ "series": [{ "name": name, "columns": columns, "values": values }] });
        match self {
            InfluxStatement::Databases => {
                let names = databases(context).into_iter().map(|name| vec![name.into()]).collect();
                Ok(series("databases", &["name"], names))
            }
            InfluxStatement::Measurements(on) => {
                let schema = schema(on.as_deref().or(database).unwrap_or(PUBLIC))?;
                let names: Vec<Vec<Value>> =
                    tables(context, &schema).into_iter().map(|name| vec![name.into()]).collect();
                Ok(if names.is_empty() { json!({}) } else { series("measurements", &["name"], names) })
            }
            InfluxStatement::Policies(on) => {
                let name = on.as_deref().or(database).unwrap_or(PUBLIC);
                if !databases(context).iter().any(|known| known == name) {
                    return Err(Error::new(SqlState::INVALID_SCHEMA_NAME, format!("database not found: {name}")));
                }
                let columns = ["name", "duration", "shardGroupDuration", "replicaN", "default"];
                Ok(series(
                    "",
                    &columns,
                    vec![vec!["autogen".into(), "0s".into(), "24h0m0s".into(), 1.into(), true.into()]],
                ))
            }
            InfluxStatement::Create(name) => create(context, &name).await.map(|()| json!({})),
            InfluxStatement::Drop(name) => drop_schema(context, &name).await.map(|()| json!({})),
            InfluxStatement::CreatePolicy { forever: true } => Ok(json!({})),
            InfluxStatement::CreatePolicy { forever: false } => {
                let text = "the duration is ignored: retention is set per table, \
                            ALTER TABLE … SET (retention = '30 days')";
                Ok(json!({ "messages": [{ "level": "warning", "text": text }] }))
            }
        }
    }
}

/// Splits InfluxQL into words and `;`, with quoted names unquoted. `None` for an unterminated
/// quote.
fn words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        if let '"' | '\'' = first {
            let end = rest[1..].find(first)? + 1;
            words.push(rest[1..end].to_owned());
            rest = &rest[end + 1..];
        } else if first == ';' {
            words.push(";".to_owned());
            rest = &rest[1..];
        } else {
            let end = rest.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ';')).unwrap_or(rest.len());
            words.push(rest[..end].to_owned());
            rest = &rest[end..];
        }
        rest = rest.trim_start();
    }
    Some(words)
}

/// Schema name of a database.
fn schema(name: &str) -> Result<String> {
    write::schema(name).map(std::borrow::Cow::into_owned)
}

/// All databases: schemas under their InfluxDB names.
fn databases(context: &Context) -> Vec<String> {
    let snapshot = context.database.engine().snapshot(Lsn::ZERO);
    let mut names: Vec<String> = snapshot
        .catalog()
        .schemas()
        .filter(|schema| !schema.starts_with("pg_") && *schema != "information_schema")
        .map(|schema| if schema == "public" { PUBLIC } else { schema }.to_owned())
        .collect();
    names.sort_unstable();
    names
}

fn tables(context: &Context, schema: &str) -> Vec<String> {
    let snapshot = context.database.engine().snapshot(Lsn::ZERO);
    let catalog = snapshot.catalog();
    let all = catalog.tables().map(|table| &table.name).chain(catalog.row_tables().map(|table| &table.name));
    let mut names: Vec<String> = all.filter(|name| name.schema == schema).map(|name| name.table.clone()).collect();
    names.sort_unstable();
    names
}

async fn create(context: &Context, name: &str) -> Result<()> {
    match schema(name)?.as_str() {
        "public" => Ok(()),
        schema => run(context, &format!("CREATE SCHEMA IF NOT EXISTS {}", quoted(schema))).await,
    }
}

async fn drop_schema(context: &Context, name: &str) -> Result<()> {
    match schema(name)?.as_str() {
        "public" => Err(Error::unsupported(format!("database \"{name}\" cannot be dropped; drop its tables by SQL"))),
        schema => run(context, &format!("DROP SCHEMA IF EXISTS {} CASCADE", quoted(schema))).await,
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Runs DDL statements.
async fn run(context: &Context, sql: &str) -> Result<()> {
    let mut session = context.database.session("millrace");
    for statement in query::parse(sql)? {
        let prepared = session.prepare(&statement, &[]).await?;
        let Outcome::Command { .. } = session.execute(&prepared, &[]).await? else {
            return Err(Error::bug("a definition that gives rows"));
        };
    }
    Ok(())
}

fn failed(context: &Context, error: &Error) -> Response {
    context.counters.errors.add(error.state().0);
    let status = reply::status(error);
    reply::json(status, &json!({ "code": reply::code(status), "message": error.to_string() }))
}

/// A bucket in version 2's format. Its id is its name in hexadecimal digits.
fn bucket(name: &str) -> Value {
    json!({
        "id": hex(name),
        "orgID": ORGANIZATION,
        "type": "user",
        "name": name,
        "retentionRules": [],
        "labels": [],
    })
}

fn hex(name: &str) -> String {
    name.bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn named(id: &str) -> Option<String> {
    let digits = |at: usize| u8::from_str_radix(id.get(at..at + 2)?, 16).ok();
    let bytes = (0..id.len()).step_by(2).map(digits).collect::<Option<Vec<u8>>>()?;
    String::from_utf8(bytes).ok()
}

/// `GET /api/v2/buckets`: all, or the one selected by `name` or `id`.
pub(super) async fn buckets(call: Call) -> Response {
    let pairs = write::pairs(call.uri()).unwrap_or_default();
    let wanted = pairs.into_iter().find_map(|(name, value)| match name.as_str() {
        "name" => Some(value),
        "id" => Some(named(&value).unwrap_or_default()),
        _ => None,
    });
    let is_wanted = |name: &&String| wanted.as_ref().is_none_or(|wanted| wanted == *name);
    let found: Vec<Value> = databases(&call.context).iter().filter(is_wanted).map(|name| bucket(name)).collect();
    reply::json(StatusCode::OK, &json!({ "links": { "self": "/api/v2/buckets" }, "buckets": found }))
}

/// `POST /api/v2/buckets`
pub(super) async fn create_bucket(mut call: Call) -> Response {
    let body = match call.text().await {
        Ok(body) => body,
        Err(refused) => return refused.reply(),
    };
    let context = &call.context;
    let request: Value = serde_json::from_str(&body).unwrap_or_default();
    let Some(name) = request["name"].as_str().filter(|name| !name.is_empty()) else {
        let error = Error::new(SqlState::INVALID_PARAMETER_VALUE, "a bucket needs a name");
        return failed(context, &error);
    };
    match create(context, name).await {
        // The requested retention rules are not applied; the response shows none.
        Ok(()) => reply::json(StatusCode::CREATED, &bucket(name)),
        Err(error) => failed(context, &error),
    }
}

/// `DELETE /api/v2/buckets/ID`
pub(super) async fn delete_bucket(call: Call) -> Response {
    let context = &call.context;
    let found = call.parameter("id").and_then(named).filter(|name| databases(context).contains(name));
    let Some(name) = found else {
        let body = json!({ "code": "not found", "message": "bucket not found" });
        return reply::json(StatusCode::NOT_FOUND, &body);
    };
    match drop_schema(context, &name).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(error) => failed(context, &error),
    }
}

/// `GET /api/v2/orgs`: the only organization, under any requested name.
pub(super) async fn organizations(call: Call) -> Response {
    let pairs = write::pairs(call.uri()).unwrap_or_default();
    let name = pairs.into_iter().find(|(name, _)| name == "org").map_or_else(|| PUBLIC.to_owned(), |(_, value)| value);
    let body = json!({ "links": { "self": "/api/v2/orgs" }, "orgs": [{ "id": ORGANIZATION, "name": name }] });
    reply::json(StatusCode::OK, &body)
}

/// `GET /ready`, in InfluxDB 2's format.
pub(super) async fn ready(call: Call) -> Response {
    let context = &call.context;
    if let Some(error) = context.database.engine().failure() {
        let body = json!({ "code": "unavailable", "status": "fail", "message": error.to_string() });
        return reply::json(StatusCode::SERVICE_UNAVAILABLE, &body);
    }
    let started_ns = context.database.started_ns();
    let now_ns = context.database.engine().env().now_ns();
    let started = jiff::Timestamp::from_nanosecond(i128::from(started_ns)).unwrap_or_default();
    let up = now_ns.saturating_sub(started_ns).max(0) / 1_000_000_000;
    let body = json!({ "status": "ready", "started": started.to_string(), "up": format!("{up}s") });
    reply::json(StatusCode::OK, &body)
}

/// `GET /settings`: tells QuestDB clients the supported versions of their line protocol.
pub(super) async fn settings(_: Call) -> Response {
    let config = json!({
        "line.proto.support.versions": [1],
        "cairo.max.file.name.length": limits::NAME_BYTES_MAX,
    });
    reply::json(StatusCode::OK, &json!({ "config": config, "preferences.version": 0, "preferences": {} }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn influxql_statements_of_writers_are_parsed() {
        let statement = |text: &str| InfluxStatement::of(&words(text).unwrap());
        for (text, expected) in [
            ("SHOW DATABASES", Some(InfluxStatement::Databases)),
            ("show databases", Some(InfluxStatement::Databases)),
            ("SHOW MEASUREMENTS", Some(InfluxStatement::Measurements(None))),
            ("SHOW MEASUREMENTS ON \"a b\"", Some(InfluxStatement::Measurements(Some("a b".into())))),
            ("SHOW MEASUREMENTS WITH MEASUREMENT =~ /x/", None),
            ("SHOW RETENTION POLICIES ON db", Some(InfluxStatement::Policies(Some("db".into())))),
            ("CREATE DATABASE \"bench\" WITH REPLICATION 1", Some(InfluxStatement::Create("bench".into()))),
            ("DROP DATABASE \"bench\"", Some(InfluxStatement::Drop("bench".into()))),
            (
                "CREATE RETENTION POLICY \"p\" ON \"d\" DURATION INF REPLICATION 1",
                Some(InfluxStatement::CreatePolicy { forever: true }),
            ),
            (
                "CREATE RETENTION POLICY p ON d DURATION 30d REPLICATION 1",
                Some(InfluxStatement::CreatePolicy { forever: false }),
            ),
            ("SELECT * FROM cpu", None),
        ] {
            assert_eq!(statement(text), expected, "{text}");
        }
        assert_eq!(words("a \"b"), None);
        assert_eq!(words("a;'b c'").unwrap(), ["a", ";", "b c"]);
    }

    #[test]
    fn the_id_of_a_bucket_is_its_name() {
        assert_eq!(named(&hex("plant é")).as_deref(), Some("plant é"));
        for bad in ["0", "zz", "ff", "é0"] {
            assert_eq!(named(bad), None, "{bad}");
        }
    }
}
