//! Line protocol over HTTP, with the parameters and responses of InfluxDB 1 and 2.
//!
//! The accepted lines of a request are one commit. Refused lines do not affect the others, unless
//! `atomic=true`. Responses: 204: all stored · 400: errors; the other lines are stored · 408 · 413
//! · 415 · 503 with `Retry-After`: nothing stored · 500: outcome unknown.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Query;
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use engine::{Committing, Durability, Isolation};
use ingest::line::{self, LineError, Unit};
use model::{Error, Lsn, Result, SqlState};
use query::Database;
use serde_json::{Value, json};

use super::routes::Call;
use super::{Context, body, reply};

/// Attempts when concurrent requests create the same tables. Each attempt sees the change that
/// failed the previous one.
const TRIES_MAX: u32 = 20;
/// Pause before the next attempt, multiplied by the attempt's number.
const TRY_PAUSE: Duration = Duration::from_millis(2);

/// API version of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// Parameters of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Parameters {
    schema: String,
    unit: Unit,
    durability: Durability,
    /// All or nothing.
    atomic: bool,
}

/// Result of a write.
#[derive(Debug, Default)]
struct Written {
    rows: u64,
    points: u64,
    refused: u64,
    errors: Vec<LineError>,
}

/// `POST /write`
pub(super) async fn v1(call: Call) -> Response {
    handle(call, Version::One).await
}

/// `POST /api/v2/write`
pub(super) async fn v2(call: Call) -> Response {
    handle(call, Version::Two).await
}

async fn handle(mut call: Call, version: Version) -> Response {
    let context = Arc::clone(&call.context);
    let parameters = match parameters(version, call.uri()) {
        Ok(parameters) => parameters,
        Err(error) => return failed(&context, version, &error),
    };
    let mut received = match call.receive().await {
        Ok(received) => received,
        Err(refused) => return refusal(version, &refused),
    };
    let _slot = match context.write_slots.take().await {
        Ok(slot) => slot,
        Err(error) => return failed(&context, version, &error),
    };
    let big = received.is_big();
    let lines = match received.contents().await {
        Ok(lines) => lines,
        Err(refused) => return refusal(version, &refused),
    };
    match store(&context, &parameters, lines, big).await {
        Ok(written) => answer(&context, version, &parameters, &written),
        Err(error) => failed(&context, version, &error),
    }
}

pub(super) fn pairs(uri: &Uri) -> Result<Vec<(String, String)>> {
    Query::try_from_uri(uri).map(|Query(pairs)| pairs).map_err(|error| {
        Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("the parameters cannot be read: {error}"))
    })
}

fn parameters(version: Version, uri: &Uri) -> Result<Parameters> {
    let mut parameters =
        Parameters { schema: "public".into(), unit: Unit::Nanosecond, durability: Durability::Sync, atomic: false };
    let names = pairs(uri)?;
    for (name, value) in &names {
        match (version, name.as_str()) {
            (Version::One, "db") | (Version::Two, "bucket") => parameters.schema = schema(value)?.into_owned(),
            (_, "precision") => parameters.unit = unit(version, value)?,
            (Version::One, "consistency") => {
                parameters.durability = if consistency_waits(value)? { Durability::Sync } else { Durability::Async };
            }
            (_, "no_sync") if flag(name, value)? => parameters.durability = Durability::Async,
            (_, "atomic") => parameters.atomic = flag(name, value)?,
            // Ignored: `rp`, `org`, `u`, `p` and parameters of future clients.
            _ => {}
        }
    }
    Ok(parameters)
}

/// Schema of a database or bucket. A bucket may be `database/retention-policy`, the mapping of
/// version 1 names to version 2.
pub(super) fn schema(name: &str) -> Result<Cow<'_, str>> {
    let name = name.split('/').next().unwrap_or("");
    if name.starts_with("pg_") || name == "information_schema" {
        return Err(Error::new(SqlState::RESERVED_NAME, format!("schema \"{name}\" is reserved for the system")));
    }
    Ok(match name {
        "" | "millrace" => "public".into(),
        name => name.into(),
    })
}

fn unit(version: Version, name: &str) -> Result<Unit> {
    let unit = Unit::from_name(name);
    let known = match version {
        Version::One => unit,
        Version::Two => unit.filter(|_| matches!(name, "ns" | "us" | "ms" | "s")),
    };
    known.ok_or_else(|| {
        let names = if version == Version::One { "ns, n, us, u, µ, ms, s, m, h" } else { "ns, us, ms, s" };
        Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("precision is \"{name}\", expected one of {names}"))
    })
}

fn consistency_waits(level: &str) -> Result<bool> {
    match level {
        "any" => Ok(false),
        "one" | "quorum" | "all" => Ok(true),
        other => {
            let message = format!("consistency is \"{other}\", expected one of any, one, quorum, all");
            Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
    }
}

fn flag(name: &str, value: &str) -> Result<bool> {
    match value {
        "true" | "1" | "" => Ok(true),
        "false" | "0" => Ok(false),
        other => {
            let message = format!("{name} is \"{other}\", expected true or false");
            Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
    }
}

/// Parses and commits; retries after a concurrent change of the tables.
async fn store(context: &Context, parameters: &Parameters, lines: Bytes, big: bool) -> Result<Written> {
    let request_bytes_max = context.options.request_bytes_max;
    for attempt in 1.. {
        let database = context.database.clone();
        let (parameters, lines) = (parameters.clone(), lines.clone());
        let prepared = run(big, move || prepare(&database, &parameters, &lines, request_bytes_max, attempt)).await?;
        let result = match prepared {
            Ok((written, None)) => return Ok(written),
            Ok((written, Some(committing))) => {
                let finish = Box::pin(context.database.finish(committing));
                let finished = if big { query::computing(finish).await } else { finish.await };
                finished.map(|_| written)
            }
            Err(error) => Err(error),
        };
        match result {
            Err(error) if attempt < TRIES_MAX && is_catalog_race(&error) => {
                tokio::time::sleep(TRY_PAUSE * attempt).await
            }
            result => return result,
        }
    }
    Err(Error::bug("tries are counted"))
}

/// Whether the catalog changed between parsing and commit, so that a retry may succeed.
fn is_catalog_race(error: &Error) -> bool {
    matches!(
        error.state(),
        SqlState::SERIALIZATION_FAILURE
            | SqlState::DUPLICATE_TABLE
            | SqlState::DUPLICATE_SCHEMA
            | SqlState::DUPLICATE_COLUMN
            | SqlState::UNDEFINED_TABLE
            | SqlState::INVALID_SCHEMA_NAME
    )
}

/// Runs `work` here or, if `big`, on a blocking thread.
async fn run<T: Send + 'static>(big: bool, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    if !big {
        return Ok(work());
    }
    tokio::task::spawn_blocking(work).await.map_err(|error| Error::bug(format!("reading lines: {error}")))
}

fn prepare(
    database: &Database,
    parameters: &Parameters,
    lines: &[u8],
    request_bytes_max: usize,
    attempt: u32,
) -> Result<(Written, Option<Committing>)> {
    let engine = database.engine();
    // A table that another request created may be in a commit that is not durable yet. This commit
    // follows it and is acknowledged after it.
    let seen = if attempt == 1 { Lsn::ZERO } else { Lsn(engine.stats().last_lsn) };
    let mut txn = engine.begin(Isolation::ReadCommitted, seen);
    let snapshot = txn.snapshot();
    let inputs = database.inputs();
    let request = line::Request {
        schema: &parameters.schema,
        body: lines,
        unit: parameters.unit,
        now_ns: engine.env().now_ns(),
        memory_bytes_max: request_bytes_max,
        inputs: &inputs,
    };
    let mut parsed = line::parse(snapshot.catalog(), &request)?;
    database.check_lines(&mut txn, &mut parsed, lines)?;
    let mut written = Written {
        rows: parsed.rows,
        points: parsed.points,
        refused: parsed.refused,
        errors: std::mem::take(&mut parsed.errors),
    };
    if parameters.atomic && written.refused > 0 {
        written.refused += written.rows;
        (written.rows, written.points) = (0, 0);
    }
    if written.rows == 0 {
        return Ok((written, None));
    }
    parsed.apply(&mut txn)?;
    Ok((written, Some(txn.commit(parameters.durability))))
}

fn answer(context: &Context, version: Version, parameters: &Parameters, written: &Written) -> Response {
    let counters = &context.counters;
    counters.rows.add(written.rows);
    counters.points.add(written.points);
    counters.lines_refused.add(written.refused);
    let mut response = match written.errors.first() {
        None => StatusCode::NO_CONTENT.into_response(),
        Some(first) => {
            counters.errors.add(first.error.state().0);
            reply::json(StatusCode::BAD_REQUEST, &partial(version, written, first))
        }
    };
    let level = match parameters.durability {
        Durability::Sync => "sync",
        Durability::Async => "async",
    };
    response.headers_mut().insert("x-millrace-durability", HeaderValue::from_static(level));
    response
}

/// Response about refused lines. Clients recognise "partial write" and "unable to parse", and do
/// not retry.
fn partial(version: Version, written: &Written, first: &LineError) -> Value {
    let what = if written.rows > 0 { "partial write" } else { "unable to parse" };
    let message = format!("{what}: {} dropped={}", first.error.message(), written.refused);
    let lines = written.errors.iter();
    let lines: Vec<Value> = lines
        .map(|line| json!({ "line": line.line, "message": line.error.message(), "sqlstate": line.error.state().0 }))
        .collect();
    match version {
        Version::One => json!({ "error": message, "lines": lines }),
        Version::Two => json!({ "code": "invalid", "message": message, "line": first.line, "lines": lines }),
    }
}

fn failed(context: &Context, version: Version, error: &Error) -> Response {
    context.counters.errors.add(error.state().0);
    let status = reply::status(error);
    if status.is_server_error() && status != StatusCode::SERVICE_UNAVAILABLE {
        tracing::error!(%error, "a write failed");
    }
    let mut body = error_for(version, status, &error.to_string());
    body["sqlstate"] = error.state().0.into();
    reply::json(status, &body)
}

fn refusal(version: Version, refused: &body::Refused) -> Response {
    reply::json(refused.status, &error_for(version, refused.status, &refused.message))
}

fn error_for(version: Version, status: StatusCode, message: &str) -> Value {
    match version {
        Version::One => json!({ "error": message }),
        Version::Two => json!({ "code": reply::code(status), "message": message }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(version: Version, query: &str) -> Result<Parameters> {
        parameters(version, &format!("/write?{query}").parse::<Uri>().unwrap())
    }

    #[test]
    fn parameters_of_both_versions_follow_influxdb() {
        let all =
            read(Version::One, "db=plant&rp=autogen&precision=ms&u=me&p=secret&consistency=any&atomic=true").unwrap();
        assert_eq!(
            (all.schema.as_str(), all.unit, all.durability, all.atomic),
            ("plant", Unit::Millisecond, Durability::Async, true)
        );
        let all = read(Version::Two, "org=x&bucket=plant/autogen&precision=s&no_sync=true").unwrap();
        assert_eq!(
            (all.schema.as_str(), all.unit, all.durability, all.atomic),
            ("plant", Unit::Second, Durability::Async, false)
        );
        for (version, query) in [
            (Version::One, ""),
            (Version::One, "db="),
            (Version::One, "db=millrace"),
            (Version::Two, "bucket=millrace"),
            (Version::Two, "db=x"),
        ] {
            assert_eq!(read(version, query).unwrap().schema, "public", "{query}");
        }
        assert_eq!(read(Version::One, "precision=%C2%B5").unwrap().unit, Unit::Microsecond);
        assert_eq!(read(Version::One, "no_sync=false&consistency=all").unwrap().durability, Durability::Sync);
    }

    #[test]
    fn invalid_parameters_are_refused() {
        for (version, query, state) in [
            (Version::One, "precision=d", "22023"),
            (Version::Two, "precision=m", "22023"),
            (Version::One, "consistency=most", "22023"),
            (Version::One, "no_sync=maybe", "22023"),
            (Version::One, "db=pg_catalog", "42939"),
            (Version::Two, "bucket=information_schema", "42939"),
        ] {
            assert_eq!(read(version, query).unwrap_err().state().0, state, "{query}");
        }
    }
}
