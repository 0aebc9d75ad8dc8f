//! HTTP listener: line protocol and SQL.
//!
//! | path                           | purpose                                                                                |
//! |--------------------------------|----------------------------------------------------------------------------------------|
//! | `POST /write`                  | line protocol as for InfluxDB 1: `db`, `rp`, `precision`, `consistency`                |
//! | `POST /api/v2/write`           | line protocol as for InfluxDB 2: `org`, `bucket`, `precision`                          |
//! | `GET /ping`, `GET /health`     | probes of line-protocol clients                                                        |
//! | `GET /ready`, `/api/v2/orgs`, `GET, POST, DELETE /api/v2/buckets` | setup calls of InfluxDB 2 clients                   |
//! | `GET, POST /query`             | the InfluxQL statements that writers send; others are refused                          |
//! | `GET /settings`                | probe of QuestDB clients                                                               |
//! | `GET, POST /sql`               | one or several SQL statements; JSON, CSV or NDJSON                                     |
//!
//! Always true:
//! - The accepted lines of a request are one commit, and the response is sent after that commit is
//!   acknowledged.
//! - A request's memory is limited, and all bodies together to [`Options::bodies_bytes_max`].
//! - A slow or silent client holds its connection for a limited time, and no thread.
//!
//! Not here: the syntax of line protocol (`ingest`), SQL (`query`), health and metrics (`health`,
//! on a separate listener).

mod body;
mod influx;
mod reply;
mod rows;
mod sql;
mod write;

pub(crate) use sql::offset;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, delete, get, post};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use model::limits;
use query::Database;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::accept::Acceptor;
use crate::metrics::{Counter, Exposition, Family, Gauge, Histogram};

/// Value of `X-Influxdb-Version`: clients parse the API version, people look for the product's.
const INFLUX_VERSION: &str = concat!("v2.7.4-millrace-", env!("CARGO_PKG_VERSION"));
/// Size limit of a request's head.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Configuration of the listener.
#[derive(Clone, Debug)]
pub struct Options {
    /// Most concurrent connections; further ones get 503.
    pub connections_max: usize,
    /// Limit for the bytes of all request bodies being received; beyond it requests get 503.
    pub bodies_bytes_max: usize,
    /// Memory limit for the columns of one request.
    pub request_bytes_max: usize,
    /// Requests that are parsed concurrently; others wait.
    pub writes_max: usize,
    /// Statements that run concurrently; others wait.
    pub statements_max: usize,
    /// Time limit for waiting; then the request gets 503.
    pub queue_timeout: Duration,
    /// Time limit for a request's head, which also limits idle connections.
    pub head_timeout: Duration,
    /// Time limit between two pieces of a body.
    pub body_timeout: Duration,
    /// Time that running requests get to finish after [`Context::shut_down`].
    pub shutdown_grace: Duration,
}

impl Options {
    /// Options for a memory budget.
    #[must_use]
    pub fn for_memory(memory_bytes: u64) -> Options {
        let share =
            |part: u64| usize::try_from(memory_bytes / part).unwrap_or(usize::MAX).max(limits::HTTP_BODY_BYTES_MAX);
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Options {
            connections_max: limits::CONNECTIONS_DEFAULT,
            bodies_bytes_max: share(8),
            request_bytes_max: share(8),
            writes_max: cores.max(2),
            statements_max: 64,
            queue_timeout: Duration::from_secs(10),
            head_timeout: Duration::from_secs(60),
            body_timeout: Duration::from_secs(30),
            shutdown_grace: Duration::from_secs(30),
        }
    }
}

/// Metrics of the listener.
#[derive(Debug, Default)]
struct Counters {
    connections: Counter,
    connections_open: Gauge,
    connections_refused: Counter,
    requests: Family<(Route, u16)>,
    errors: Family<&'static str>,
    body_bytes: Counter,
    rows: Counter,
    points: Counter,
    lines_refused: Counter,
    write_time: Histogram,
    sql_time: Histogram,
}

/// Route of a request, as a metrics label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Route {
    Write,
    Sql,
    Other,
}

/// State shared by all connections of the listener.
pub struct Context {
    database: Database,
    options: Options,
    counters: Counters,
    connection_slots: Arc<Semaphore>,
    write_slots: Arc<Semaphore>,
    statement_slots: Arc<Semaphore>,
    bodies_bytes: AtomicUsize,
    stopping: watch::Sender<bool>,
}

impl Context {
    /// Creates the state for an open database.
    #[must_use]
    pub fn new(database: Database, options: Options) -> Arc<Context> {
        Arc::new(Context {
            database,
            counters: Counters::default(),
            connection_slots: Arc::new(Semaphore::new(options.connections_max)),
            write_slots: Arc::new(Semaphore::new(options.writes_max)),
            statement_slots: Arc::new(Semaphore::new(options.statements_max)),
            bodies_bytes: AtomicUsize::new(0),
            stopping: watch::Sender::new(false),
            options,
        })
    }

    /// Makes [`serve_http`] stop accepting connections, finish running requests, and return.
    pub fn shut_down(&self) {
        self.stopping.send_replace(true);
    }

    /// Resolves at shutdown.
    async fn stopped(&self) {
        // Drop the value's guard here: it must not be held across an await of the caller.
        let _ = self.stopping.subscribe().wait_for(|stopping| *stopping).await.map(drop);
    }

    /// Adds the listener's metrics to a `/metrics` page.
    pub(crate) fn expose(&self, out: &mut Exposition) {
        let counters = &self.counters;
        out.counter("millrace_http_connections_total", "HTTP connections accepted.", counters.connections.get());
        out.gauge("millrace_http_connections", "HTTP connections open.", counters.connections_open.get());
        out.counter(
            "millrace_http_connections_refused_total",
            "HTTP connections refused because all slots were taken.",
            counters.connections_refused.get(),
        );
        let requests = counters.requests.list().into_iter();
        let requests =
            requests.map(|((route, status), count)| (format!("route=\"{}\",status=\"{status}\"", route.name()), count));
        out.family("millrace_http_requests_total", "counter", "HTTP requests answered.", requests);
        let errors = counters.errors.list().into_iter().map(|(state, count)| (format!("state=\"{state}\""), count));
        out.family("millrace_http_errors_total", "counter", "HTTP requests that failed, by SQLSTATE.", errors);
        out.counter(
            "millrace_http_body_bytes_total",
            "Bytes of request bodies, before decompression.",
            counters.body_bytes.get(),
        );
        out.counter("millrace_line_protocol_rows_total", "Lines stored.", counters.rows.get());
        out.counter("millrace_line_protocol_points_total", "Field values stored.", counters.points.get());
        out.counter("millrace_line_protocol_refused_total", "Lines refused.", counters.lines_refused.get());
        out.histograms(
            "millrace_http_request_seconds",
            "Time from the head of a request to its answer.",
            [("route=\"write\"", &counters.write_time), ("route=\"sql\"", &counters.sql_time)],
        );
    }
}

impl Route {
    fn of(path: &str) -> Route {
        match path {
            "/write" | "/api/v2/write" => Route::Write,
            "/sql" => Route::Sql,
            _ => Route::Other,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Route::Write => "write",
            Route::Sql => "sql",
            Route::Other => "other",
        }
    }
}

/// Serves connections until [`Context::shut_down`]; returns when all have ended or the grace period
/// is over.
pub async fn serve_http(listener: TcpListener, context: Arc<Context>) {
    let router = router(Arc::clone(&context));
    let mut connections = JoinSet::new();
    let mut acceptor = Acceptor::new("HTTP", context.database.engine().env().open_files_max());
    loop {
        tokio::select! {
            () = context.stopped() => break,
            Some(ended) = connections.join_next() => report_panic(ended),
            (stream, has_room) = acceptor.accept(&listener) => {
                connections.spawn(serve(stream, Arc::clone(&context), router.clone(), has_room));
            }
        }
    }
    drop(listener);
    let all = async {
        while let Some(ended) = connections.join_next().await {
            report_panic(ended);
        }
    };
    if tokio::time::timeout(context.options.shutdown_grace, all).await.is_err() {
        tracing::warn!(connections = connections.len(), "HTTP connections aborted at shutdown");
    }
}

fn report_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "BUG: an HTTP connection ended by a panic");
    }
}

/// Serves one connection.
async fn serve(mut stream: TcpStream, context: Arc<Context>, router: Router, has_room: bool) {
    context.counters.connections.add(1);
    let _open = context.counters.connections_open.hold();
    crate::pg::prepare_socket(&stream);
    let slot = context.connection_slots.try_acquire().ok().filter(|_| has_room);
    let Some(_slot) = slot else {
        context.counters.connections_refused.add(1);
        let refusal =
            "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        // Errors are ignored: the client may be gone.
        let _ = tokio::time::timeout(Duration::from_secs(1), stream.write_all(refusal.as_bytes())).await;
        return;
    };
    // HTTP/1 only. Detecting the version would wait for the client's first bytes without a time
    // limit.
    let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
    let http1 = &mut builder.http1();
    http1.timer(TokioTimer::new()).header_read_timeout(context.options.head_timeout).max_buf_size(HEAD_BYTES_MAX);
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        end = connection.as_mut() => Some(end),
        () = context.stopped() => None,
    };
    let end = match ended {
        Some(end) => end,
        None => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = end {
        tracing::debug!(%error, "HTTP connection ended by an error");
    }
}

fn router(context: Arc<Context>) -> Router {
    Router::new()
        .route("/write", post(write::v1))
        .route("/api/v2/write", post(write::v2))
        .route("/ping", get(ping))
        .route("/health", get(health))
        .route("/ready", get(influx::ready))
        .route("/query", any(influx::query))
        .route("/api/v2/buckets", get(influx::buckets).post(influx::create_bucket))
        .route("/api/v2/buckets/{id}", delete(influx::delete_bucket))
        .route("/api/v2/orgs", get(influx::organizations))
        .route("/settings", get(influx::settings))
        .route("/sql", get(sql::get).post(sql::post))
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(middleware::from_fn_with_state(Arc::clone(&context), observe))
        .with_state(context)
}

/// Counts every request, and sets the version header.
async fn observe(State(context): State<Arc<Context>>, request: Request, next: Next) -> Result<Response, Infallible> {
    let started = Instant::now();
    let route = Route::of(request.uri().path());
    let mut response = next.run(request).await;
    context.counters.requests.add((route, response.status().as_u16()));
    match route {
        Route::Write => context.counters.write_time.record(started.elapsed()),
        Route::Sql => context.counters.sql_time.record(started.elapsed()),
        Route::Other => {}
    }
    response.headers_mut().insert("x-influxdb-version", HeaderValue::from_static(INFLUX_VERSION));
    Ok(response)
}

/// Answers 204, or with `verbose` a body.
async fn ping(uri: Uri) -> Response {
    let verbose = uri.query().is_some_and(|query| query.contains("verbose=true") || query.contains("verbose=1"));
    if !verbose {
        return StatusCode::NO_CONTENT.into_response();
    }
    reply::json(StatusCode::OK, &serde_json::json!({ "version": INFLUX_VERSION }))
}

/// Health in InfluxDB 2's format: whether data can be written and read.
async fn health(State(context): State<Arc<Context>>) -> Response {
    let (code, status, message) = match context.database.engine().failure() {
        None => (StatusCode::OK, "pass", "ready for queries and writes".to_owned()),
        Some(error) => (StatusCode::SERVICE_UNAVAILABLE, "fail", error.to_string()),
    };
    let body = serde_json::json!({
        "name": "millrace",
        "status": status,
        "message": message,
        "version": env!("CARGO_PKG_VERSION"),
    });
    reply::json(code, &body)
}

async fn not_found(uri: Uri) -> Response {
    let message = format!("no such path: {}", uri.path());
    let hint = "paths are /write, /api/v2/write, /sql, /ping and /health";
    reply::json(
        StatusCode::NOT_FOUND,
        &serde_json::json!({ "code": "not found", "error": message, "message": message, "hint": hint }),
    )
}

async fn method_not_allowed(method: Method, uri: Uri) -> Response {
    let message = format!("method {method} is not allowed for {}", uri.path());
    let body = serde_json::json!({ "code": "method not allowed", "error": message, "message": message });
    reply::json(StatusCode::METHOD_NOT_ALLOWED, &body)
}
