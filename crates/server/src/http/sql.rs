//! SQL over HTTP: `GET /sql?q=…`, `POST /sql` with the statement, a form (`q=…`) or JSON (`{"sql":
//! …, "params": […]}`).
//!
//! Several statements are one transaction; the response is the last one's result. Rows are
//! streamed: a result needs the memory of one batch. An error before the first row determines the
//! status. A later one ends JSON with `"error"` and no `elapsed_ms`, NDJSON with `{"error": …}`,
//! and closes the connection for CSV.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::Query;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::Response;
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use model::{Error, Result, SqlState, limits};
use query::{Batches, Chunk, CopyForm, Outcome, Session, Statement, Value};
use serde::Deserialize;
use serde_json::{Value as Json, json};
use tokio::sync::OwnedSemaphorePermit;

use super::body::Refused;
use super::routes::Call;
use super::rows::{Format, Writer};
use super::{Context, failed, reply};

/// A parsed request.
#[derive(Debug, Default, PartialEq)]
struct SqlRequest {
    sql: String,
    params: Vec<Json>,
    format: Format,
}

/// Body of a JSON request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonRequest {
    sql: String,
    #[serde(default)]
    params: Vec<Json>,
    format: Option<String>,
}

/// `GET /sql`
pub(super) async fn get(call: Call) -> Response {
    let ask = ask(call.uri(), call.headers(), b"");
    answer(&call.context, ask).await
}

/// `POST /sql`
pub(super) async fn post(mut call: Call) -> Response {
    let received = async {
        let mut received = call.receive().await?;
        let contents = received.contents().await?;
        // `ask` copies what it needs, so the body is freed before the statement runs.
        Ok::<_, Refused>(ask(call.uri(), call.headers(), &contents))
    };
    match received.await {
        Ok(ask) => answer(&call.context, ask).await,
        Err(refused) => refused.reply(),
    }
}

fn ask(uri: &Uri, headers: &HeaderMap, body: &[u8]) -> Result<SqlRequest> {
    let mut ask = SqlRequest { format: accepted(headers), ..SqlRequest::default() };
    let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri)
        .map_err(|error| invalid(format!("the parameters cannot be read: {error}")))?;
    take_pairs(&mut ask, pairs)?;
    if !body.is_empty() {
        take_body(&mut ask, headers, body)?;
    }
    if ask.sql.trim().is_empty() {
        return Err(invalid("the request has no statement").with_hint("send it as ?q=… or as the body"));
    }
    if ask.sql.len() > limits::STATEMENT_BYTES_MAX {
        let message =
            format!("the statement has {} bytes; the limit is {}", ask.sql.len(), limits::STATEMENT_BYTES_MAX);
        return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    }
    Ok(ask)
}

fn take_pairs(ask: &mut SqlRequest, pairs: Vec<(String, String)>) -> Result<()> {
    for (name, value) in pairs {
        match name.as_str() {
            "q" | "sql" | "query" => ask.sql = value,
            "format" => ask.format = format(&value)?,
            other => return Err(invalid(format!("unknown parameter \"{other}\", expected q or format"))),
        }
    }
    Ok(())
}

fn take_body(ask: &mut SqlRequest, headers: &HeaderMap, body: &[u8]) -> Result<()> {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    match content_type.split(';').next().unwrap_or("").trim() {
        "application/json" => {
            let json: JsonRequest = serde_json::from_slice(body)
                .map_err(|error| invalid(format!("the body is not a valid JSON request: {error}")))?;
            ask.sql = json.sql;
            ask.params = json.params;
            ask.format = json.format.map_or(Ok(ask.format), |name| format(&name))?;
            Ok(())
        }
        // `curl -d` sends this type for any body. Only a body that starts with one of our names is
        // a form.
        "application/x-www-form-urlencoded" if body.starts_with(b"q=") || body.starts_with(b"sql=") => {
            let uri = format!("/?{}", text(body)?).parse::<Uri>();
            let pairs = uri.ok().and_then(|uri| Query::<Vec<(String, String)>>::try_from_uri(&uri).ok());
            take_pairs(
                ask,
                pairs
                    .ok_or_else(|| {
                        invalid("the form cannot be read; it must be URL-encoded: curl --data-urlencode does it")
                    })?
                    .0,
            )
        }
        _ => {
            text(body)?.clone_into(&mut ask.sql);
            Ok(())
        }
    }
}

fn text(body: &[u8]) -> Result<&str> {
    std::str::from_utf8(body).map_err(|error| {
        let message = format!("the body is not UTF-8 from byte {} on", error.valid_up_to() + 1);
        Error::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message)
    })
}

fn accepted(headers: &HeaderMap) -> Format {
    match headers.get(header::ACCEPT).map(HeaderValue::as_bytes) {
        Some(b"text/csv") => Format::Csv,
        Some(b"application/x-ndjson" | b"application/jsonl") => Format::NdJson,
        _ => Format::Json,
    }
}

fn format(name: &str) -> Result<Format> {
    Format::from_name(name).ok_or_else(|| invalid(format!("format is \"{name}\", expected json, csv or ndjson")))
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

async fn answer(context: &Arc<Context>, ask: Result<SqlRequest>) -> Response {
    let result = match ask {
        // `computing` lets other tasks of this thread run meanwhile.
        Ok(ask) => query::computing(Box::pin(run(context, ask))).await,
        Err(error) => Err(error),
    };
    result.unwrap_or_else(|error| failed(context, &error))
}

/// State of a streamed result.
struct Running {
    writer: Writer,
    batches: Batches,
    started: Instant,
    limit: Option<tokio::time::Instant>,
    done: bool,
    /// Dropped after the last row: the statement runs until then.
    _session: Session,
    _slot: OwnedSemaphorePermit,
}

async fn run(context: &Arc<Context>, ask: SqlRequest) -> Result<Response> {
    let started = Instant::now();
    let slot = context.statement_slots.take().await?;
    let mut session = context.database.session("millrace");
    let statements = context.database.parse(&ask.sql)?;
    match execute_all(&mut session, &statements, &ask.params).await? {
        Outcome::Rows { columns, batches, .. } => {
            let writer = Writer::new(ask.format, columns);
            let limit = limit(&session);
            rows(Running { writer, batches, started, limit, done: false, _session: session, _slot: slot }).await
        }
        Outcome::Command { tag } => Ok(command(&tag, ask.format, started)),
        Outcome::Empty => Ok(command("", ask.format, started)),
        Outcome::CopyOut { form, chunks, .. } => {
            Ok(copy_out(form != CopyForm::Text, chunks.map(copied), (session, slot)))
        }
        Outcome::CopyIn(_) => Err(Error::unsupported("COPY FROM STDIN needs a PostgreSQL connection")
            .with_hint("send line protocol to /write, or use psql's \\copy or millrace write")),
    }
}

/// Executes all statements as one transaction; returns the last one's outcome.
async fn execute_all(session: &mut Session, statements: &[Statement], params: &[Json]) -> Result<Outcome> {
    let Some((last, first)) = statements.split_last() else { return Ok(Outcome::Empty) };
    if !params.is_empty() && !first.is_empty() {
        return Err(invalid(format!("params are allowed with a single statement, got {}", statements.len())));
    }
    for statement in first {
        // For each statement: a COMMIT among them ends the transaction.
        session.begin_implicit();
        let limit = limit(session);
        within(limit, async { drain(execute(session, statement, &[]).await?).await }).await?;
    }
    if !first.is_empty() {
        session.begin_implicit();
    }
    let limit = limit(session);
    let outcome = within(limit, execute(session, last, params)).await?;
    // The remaining rows use the statement's snapshot, even after the commit.
    if !first.is_empty() {
        session.end_implicit().await?;
    }
    Ok(outcome)
}

/// Deadline of a statement that starts now (`statement_timeout`).
fn limit(session: &Session) -> Option<tokio::time::Instant> {
    let timeout = session.timeouts().statement?;
    tokio::time::Instant::now().checked_add(timeout)
}

async fn within<T>(limit: Option<tokio::time::Instant>, work: impl Future<Output = Result<T>>) -> Result<T> {
    let Some(limit) = limit else { return work.await };
    tokio::time::timeout_at(limit, work)
        .await
        .unwrap_or_else(|_| Err(Error::new(SqlState::QUERY_CANCELED, "canceling statement due to statement timeout")))
}

async fn execute(session: &mut Session, statement: &Statement, params: &[Json]) -> Result<Outcome> {
    let prepared = session.prepare(statement, &[]).await?;
    let types = prepared.parameters();
    if types.len() != params.len() {
        return Err(invalid(format!("the statement has {} parameters, but {} were given", types.len(), params.len())));
    }
    let values = params.iter().zip(types).enumerate();
    let values: Vec<Value> = values
        .map(|(at, (param, oid))| {
            value(param, *oid).map_err(|error| error.context(format_args!("parameter ${}", at + 1)))
        })
        .collect::<Result<_>>()?;
    // Checked by statements that compute without yielding.
    session.stop_flag().arm(session.timeouts().statement);
    session.execute(&prepared, &values).await
}

/// Converts a JSON value to a parameter of this type; strings are parsed like SQL literals.
fn value(param: &Json, oid: u32) -> Result<Value> {
    let text = match param {
        Json::Null => return Ok(Value::Null),
        Json::String(text) => text.clone(),
        Json::Bool(_) | Json::Number(_) => param.to_string(),
        Json::Array(_) | Json::Object(_) => {
            return Err(Error::unsupported("arrays and objects are not supported as parameters"));
        }
    };
    let datum = ::pg::decode(oid, ::pg::Form::Text, text.as_bytes(), &offset)?;
    crate::pg::value_of(datum)
}

/// UTC offset of a zone at a local time. Sessions of this listener and of Flight use UTC.
pub(crate) fn offset(zone: Option<&str>, local: i64) -> Option<i32> {
    let Some(name) = zone else { return Some(0) };
    let zone = jiff::tz::TimeZone::get(name).ok()?;
    let local_time = jiff::tz::TimeZone::UTC.to_datetime(jiff::Timestamp::from_second(local).ok()?);
    let timestamp = zone.to_ambiguous_timestamp(local_time).compatible().ok()?;
    i32::try_from(local - timestamp.as_second()).ok()
}

async fn drain(outcome: Outcome) -> Result<()> {
    match outcome {
        Outcome::Rows { mut batches, .. } => {
            while let Some(batch) = batches.next().await {
                batch?;
            }
            Ok(())
        }
        Outcome::CopyIn(_) | Outcome::CopyOut { .. } => Err(Error::unsupported("COPY must be the last statement")),
        Outcome::Command { .. } | Outcome::Empty => Ok(()),
    }
}

/// Starts a streamed response, after the first batch or error.
async fn rows(mut running: Running) -> Result<Response> {
    let limit = running.limit;
    let first = within(limit, async { running.batches.next().await.transpose() }).await?;
    let mut start = Vec::new();
    running.writer.head(&mut start);
    match &first {
        Some(batch) => running.writer.batch(batch, &mut start)?,
        None => finish(&mut running, &mut start),
    }
    let content_type = running.format_content_type();
    let rest = stream::unfold(running, |mut running| async move {
        let piece = query::computing(Box::pin(running.next())).await?;
        Some((piece, running))
    });
    let pieces = stream::once(async { Ok(Bytes::from(start)) }).chain(rest);
    Ok(streamed(content_type, pieces))
}

fn finish(running: &mut Running, out: &mut Vec<u8>) {
    running.done = true;
    running.writer.tail(running.started.elapsed().as_secs_f64() * 1e3, out);
}

impl Running {
    fn format_content_type(&self) -> &'static str {
        self.writer.format().content_type()
    }

    /// Next piece of the body; `None` at the end.
    async fn next(&mut self) -> Option<Result<Bytes>> {
        if self.done {
            return None;
        }
        let mut out = Vec::new();
        let next = within(self.limit, async { self.batches.next().await.transpose() }).await;
        let written = match next {
            Ok(Some(batch)) => self.writer.batch(&batch, &mut out),
            Err(error) => Err(error),
            Ok(None) => {
                finish(self, &mut out);
                Ok(())
            }
        };
        if let Err(error) = written {
            self.done = true;
            out.clear();
            if !self.writer.broken(&reply::error_body(&error), &mut out) {
                return Some(Err(error));
            }
        }
        Some(Ok(out.into()))
    }
}

fn streamed(content_type: &'static str, pieces: impl Stream<Item = Result<Bytes>> + Send + 'static) -> Response {
    let mut response = Response::new(Body::from_stream(pieces));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn copied(chunk: Result<Chunk>) -> Result<Bytes> {
    chunk.map(|chunk| chunk.bytes.into())
}

/// Streams COPY TO STDOUT; drops `alive` at the end.
fn copy_out<T: Send + 'static>(
    binary: bool,
    chunks: impl Stream<Item = Result<Bytes>> + Send + 'static,
    alive: T,
) -> Response {
    let content_type = if binary { "application/octet-stream" } else { "text/plain; charset=utf-8" };
    let pieces = chunks.map(move |chunk| {
        let _ = &alive;
        chunk
    });
    streamed(content_type, pieces)
}

/// Response for a statement without rows. Its tag is in a header too, because CSV and NDJSON have
/// no place for it.
fn command(tag: &str, format: Format, started: Instant) -> Response {
    let mut response = match format {
        Format::Json => {
            let elapsed_ms = (started.elapsed().as_secs_f64() * 1e6).round() / 1e3;
            let body = json!({ "command": tag, "columns": [], "rows": [], "row_count": 0, "elapsed_ms": elapsed_ms });
            reply::json(StatusCode::OK, &body)
        }
        Format::Csv | Format::NdJson => Response::new(Body::empty()),
    };
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
    if let Ok(tag) = HeaderValue::from_str(tag) {
        response.headers_mut().insert("x-millrace-command", tag);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(uri: &str, content_type: &str, body: &str) -> Result<SqlRequest> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, content_type.parse().unwrap());
        ask(&uri.parse().unwrap(), &headers, body.as_bytes())
    }

    #[test]
    fn a_statement_is_read_from_query_form_json_or_body() {
        for (uri, content_type, body) in [
            ("/sql?q=SELECT%201+%2B+1", "", ""),
            ("/sql", "text/plain", "SELECT 1 + 1"),
            ("/sql", "application/x-www-form-urlencoded", "q=SELECT%201+%2B+1"),
            ("/sql", "application/x-www-form-urlencoded", "SELECT 1 + 1"),
            ("/sql", "application/json; charset=utf-8", r#"{"sql":"SELECT 1 + 1"}"#),
        ] {
            assert_eq!(read(uri, content_type, body).unwrap().sql, "SELECT 1 + 1", "{uri} {content_type} {body}");
        }
        let ask = read("/sql?format=csv", "application/json", r#"{"sql":"x","params":[1,"a",null],"format":"ndjson"}"#)
            .unwrap();
        assert_eq!((ask.params.len(), ask.format), (3, Format::NdJson));
    }

    #[test]
    fn empty_and_oversized_requests_are_refused() {
        for (uri, content_type, body) in [
            ("/sql", "", ""),
            ("/sql?q=", "", " "),
            ("/sql?q=x&format=xml", "", ""),
            ("/sql?statement=x", "", ""),
            ("/sql", "application/json", "{"),
            ("/sql", "application/json", r#"{"sql":1}"#),
            ("/sql", "application/json", r#"{"sql":"x","parameters":[]}"#),
        ] {
            assert_eq!(read(uri, content_type, body).unwrap_err().state().0, "22023", "{uri} {body}");
        }
    }

    #[test]
    fn parameters_are_converted_to_the_statements_types() {
        use ::pg::types::oid;
        for (json, oid, expected) in [
            (json!(1), oid::INT8, Value::Int64(1)),
            (json!("7"), oid::INT4, Value::Int32(7)),
            (json!(1.5), oid::FLOAT8, Value::Float64(1.5)),
            (json!(true), oid::BOOL, Value::Bool(true)),
            (json!(5), oid::TEXT, Value::Text("5".into())),
            (json!(null), oid::INT8, Value::Null),
            (json!("1970-01-01 00:00:01"), oid::TIMESTAMPTZ, Value::Timestamptz(1_000_000_000)),
            (
                json!("1970-07-01 02:00:00 Europe/Vienna"),
                oid::TIMESTAMPTZ,
                Value::Timestamptz(181 * 86_400_000_000_000 + 3_600_000_000_000),
            ),
        ] {
            assert_eq!(value(&json, oid).unwrap(), expected, "{json}");
        }
        assert_eq!(value(&json!("x"), oid::INT8).unwrap_err().state().0, "22P02");
        assert_eq!(value(&json!([1]), oid::INT8).unwrap_err().state().0, "0A000");
    }
}
