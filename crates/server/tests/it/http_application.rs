//! An application under a prefix of the HTTP listener: it shares database, limits, slots and metrics.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use futures::StreamExt;
use model::{Error, Result, SqlState};
use query::{Database, Outcome};
use serde_json::json;
use server::http::{Application, Body, MethodFilter, Request, Response, StatusCode, json as reply};
use server::{Server, health, http};
use tokio::sync::{Semaphore, oneshot};

use crate::harness::{Client, database, gzip, open, runtime, start_with};

const PREFIX: &str = "/toy/v1";
/// Pieces of a streamed response: more than the socket's buffers hold.
const PIECES: usize = 256;
const PIECE_BYTES: usize = 64 << 10;

/// An application with a route of each kind. Requests to `/wait` end when `gate` has a permit.
fn toy(gate: &Arc<Semaphore>) -> Application {
    let gate = Arc::clone(gate);
    let wait = move |_: Request| {
        let gate = Arc::clone(&gate);
        async move {
            let _permit = gate.acquire().await.unwrap();
            Ok(reply(StatusCode::OK, &json!({})))
        }
    };
    Application::new(PREFIX)
        .route(MethodFilter::GET, "", 0, async |_| Ok(Response::new(Body::from("toy"))))
        .route(MethodFilter::GET, "/tables/{table}/rows", 0, count)
        .route(MethodFilter::POST.or(MethodFilter::PUT), "/echo", 1 << 10, echo)
        .route(MethodFilter::GET, "/wait", 0, wait)
        .route(MethodFilter::GET, "/stream", 0, stream)
}

/// Number of rows of a table.
async fn count(request: Request) -> Result<Response> {
    let table = request.parameter("table").unwrap_or_default().to_owned();
    let statements = request.database().parse(&format!("SELECT count(*) FROM \"{table}\""))?;
    let mut session = request.session();
    let prepared = session.prepare(&statements[0], &[]).await?;
    let Outcome::Rows { mut batches, .. } = session.execute(&prepared, &[]).await? else {
        return Err(Error::bug("a query without rows"));
    };
    let mut rows = 0;
    while let Some(batch) = batches.next().await {
        rows += batch?.column(0).as_primitive::<Int64Type>().value(0);
    }
    Ok(reply(StatusCode::OK, &json!({ "table": table, "rows": rows })))
}

/// Method, parameters, a header and the body of the request.
async fn echo(request: Request) -> Result<Response> {
    let header = request.headers().get("x-toy").and_then(|value| value.to_str().ok());
    let body = String::from_utf8_lossy(request.body()).into_owned();
    if body == "fail" {
        return Err(Error::new(SqlState::UNIQUE_VIOLATION, "the toy is there already").with_hint("take another"));
    }
    let parameters = request.query()?;
    let told = json!({
        "method": request.method().as_str(),
        "path": request.uri().path(),
        "parameters": parameters,
        "header": header,
        "body": body,
    });
    Ok(reply(StatusCode::CREATED, &told))
}

async fn stream(_: Request) -> Result<Response> {
    let pieces = (0..PIECES).map(|_| Ok::<_, Error>(vec![b'.'; PIECE_BYTES]));
    Ok(Response::new(Body::from_stream(futures::stream::iter(pieces))))
}

/// An HTTP listener with the application, one slot for statements, and little patience.
fn start(gate: &Arc<Semaphore>) -> crate::harness::Running {
    start_with(|options| {
        options.applications.push(toy(gate));
        options.statements_max = 1;
        options.queue_timeout = Duration::from_millis(200);
        options.body_timeout = Duration::from_millis(300);
        options.bodies_bytes_max = 1 << 20;
    })
}

fn closed() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(0))
}

#[test]
fn an_application_answers_below_its_prefix_and_uses_the_database() {
    let server = start(&closed());
    assert_eq!(server.get(PREFIX).text(), "toy");
    assert_eq!(server.post("/write", &[], b"m v=1 1\nm v=2 2").status, 204);
    assert_eq!(server.get("/toy/v1/tables/m/rows").json(), json!({ "table": "m", "rows": 2 }));
    assert_eq!(server.get("/toy/v1/tables/%C3%A9/rows").json()["sqlstate"], "42P01");
    let reply = server.connect().request("PUT", "/toy/v1/echo?a=1&b=%2B", &[("X-Toy", "y")], b"z");
    let told = json!({
        "method": "PUT", "path": "/toy/v1/echo", "parameters": [["a", "1"], ["b", "+"]], "header": "y", "body": "z",
    });
    assert_eq!((reply.status, reply.json()), (201, told));
    let reply = server.post("/toy/v1/echo", &[], b"fail");
    let told = json!({ "error": "the toy is there already", "hint": "take another", "sqlstate": "23505" });
    assert_eq!((reply.status, reply.json()), (400, told));
    let reply = server.get("/toy/v1/nothing");
    assert_eq!(reply.status, 404);
    assert!(reply.json()["hint"].as_str().unwrap().contains("/toy/v1/tables/{table}/rows"), "{}", reply.text());
    assert_eq!(server.get("/toy/v1/echo").status, 405);
    assert_eq!(server.get("/toy").status, 404);
    assert_eq!(server.get("/ping").status, 204);
}

#[test]
fn bodies_of_an_application_have_the_limits_of_their_route_and_of_the_listener() {
    let server = start(&closed());
    assert_eq!(server.post("/toy/v1/echo", &[], &[b'x'; 1 << 10]).status, 201);
    let large = vec![b'x'; (1 << 10) + 1];
    let reply = server.post("/toy/v1/echo", &[], &large);
    assert_eq!(reply.status, 413);
    assert!(reply.json()["error"].as_str().unwrap().contains("more than 1024 bytes"), "{}", reply.text());
    let zipped = [("Content-Encoding", "gzip")];
    assert_eq!(server.post("/toy/v1/echo", &zipped, &gzip(&large)).status, 413);
    assert_eq!(server.post("/toy/v1/echo", &zipped, &gzip(b"abc")).json()["body"], "abc");
    let mut client = server.connect();
    client.send(b"POST /toy/v1/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf");
    assert_eq!(client.reply().unwrap().status, 408);
}

#[test]
fn applications_and_statements_share_slots_until_the_response_is_sent() {
    let gate = closed();
    let server = start(&gate);
    let sql = || server.post("/sql", &[], b"SELECT 1").status;
    let mut waiting = server.connect();
    waiting.send(b"GET /toy/v1/wait HTTP/1.1\r\nHost: x\r\n\r\n");
    let taken = |status: &u16| *status == 503;
    assert!(std::iter::repeat_with(sql).take(100).any(|status| taken(&status)), "the application takes no slot");
    let reply = server.get(PREFIX);
    assert_eq!((reply.status, &reply.json()["sqlstate"]), (503, &"53400".into()));
    gate.add_permits(1);
    assert_eq!(waiting.reply().unwrap().status, 200);
    assert_eq!(sql(), 200);

    let mut streaming = server.connect();
    streaming.send(b"GET /toy/v1/stream HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(std::iter::repeat_with(sql).take(100).any(|status| taken(&status)), "the stream takes no slot");
    assert_eq!(sql(), 503, "the slot was given back before the response was sent");
    let reply = streaming.reply().unwrap();
    assert_eq!((reply.complete, reply.body.len()), (true, PIECES * PIECE_BYTES));
    assert_eq!(sql(), 200);
}

#[test]
fn a_client_that_stops_reading_is_disconnected_and_its_slot_is_free() {
    let server = start_with(|options| {
        options.applications.push(toy(&closed()));
        options.statements_max = 1;
        options.send_timeout = Duration::from_millis(300);
    });
    let sql = "/sql?q=SELECT%20repeat('x',%20100000)%20FROM%20generate_series(1,%20200)";
    for path in ["/toy/v1/stream", sql] {
        let mut stopped = server.connect();
        stopped.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
        // The statement waits for the slot: 10 s at most, unless the first client is disconnected.
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(server.post("/sql", &[], b"SELECT 1").status, 200, "{path}");
        assert!(!stopped.reply().is_some_and(|reply| reply.complete), "{path}: the whole response was sent");
    }
}

#[test]
fn a_server_mounts_applications_and_shows_them_in_metrics_under_their_prefix() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    let runtime = runtime();
    let options = |prefix| server::Options {
        applications: vec![toy(&closed()), Application::new(prefix)],
        ..crate::health::options()
    };
    let error = runtime.block_on(Server::bind(options("/api/v2"))).err().unwrap();
    assert!(error.message().contains("overlaps with /api/v2/write"), "{error}");
    let server = runtime.block_on(Server::bind(options("/other"))).unwrap();
    let address = |listener| server.address(listener).unwrap();
    let (health, http) = (address(&health::LISTENER), address(&http::LISTENER));
    let database: Database = database(&engine);
    let (stop, stopped) = oneshot::channel::<()>();
    let ready = server.ready(&database, Duration::from_secs(10));
    let running = runtime.spawn(ready.run(async { drop(stopped.await) }));
    let ask = |method, path, body: &[u8]| Client::connect(http).request(method, path, &[], body).status;
    assert_eq!(ask("GET", "/toy/v1", b""), 200);
    assert_eq!(ask("GET", "/toy/v1/nothing", b""), 404);
    assert_eq!(ask("POST", "/toy/v1/echo", b"fail"), 400);
    let text = Client::connect(health).request("GET", "/metrics", &[], b"").text();
    for line in [
        "millrace_http_requests_total{route=\"/toy/v1\",status=\"200\"} 1",
        "millrace_http_requests_total{route=\"/toy/v1\",status=\"404\"} 1",
        "millrace_http_errors_total{state=\"23505\"} 1",
        "millrace_http_body_bytes_total 4",
        "millrace_http_request_seconds_count{route=\"/toy/v1\"} 3",
        "millrace_http_request_seconds_count{route=\"/other\"} 0",
    ] {
        assert!(text.lines().any(|seen| seen == line), "{line} is missing in\n{text}");
    }
    drop(stop);
    runtime.block_on(running).unwrap();
    engine.close().unwrap();
}
