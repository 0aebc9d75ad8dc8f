//! HTTP listener: line protocol, SQL, and applications.
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
//! | below a prefix                 | an [`Application`]                                                                     |
//!
//! Always true:
//! - The accepted lines of a request are one commit, and the response is sent after that commit is
//!   acknowledged.
//! - A request's memory is limited, and all bodies together to [`Options::bodies_bytes_max`].
//! - A slow or silent client holds its connection for a limited time, and no thread.
//!
//! Not here: the syntax of line protocol (`ingest`), SQL (`query`), health and metrics (`health`,
//! on a separate listener).

mod application;
mod body;
mod influx;
mod reply;
mod routes;
mod rows;
mod send_timeout;
mod sql;
pub mod streamed;
mod write;

pub(crate) use application::check_prefixes;
pub use application::{Application, Metric, Request, form};
pub use axum::body::Body;
pub use axum::http::{HeaderMap, Method, StatusCode, Uri};
pub use axum::response::Response;
pub use axum::routing::MethodFilter;
pub use reply::json;
pub(crate) use sql::offset;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use axum::Router;
use axum::response::IntoResponse;
use futures::future::BoxFuture;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use model::Error;
use query::Database;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use crate::connections::{Admission, Connections, Limits};
use crate::listener::{Inputs, Listener, Service, Start, WorkSlots, input_bytes_max};
use crate::metrics::{Counter, Exposition, Family};
use routes::{Call, Routes};
use send_timeout::SendTimeout;

/// The listener.
pub static LISTENER: Listener = Listener {
    name: "http",
    env: "MILLRACE_HTTP",
    purpose: "HTTP: line protocol and SQL",
    default: "127.0.0.1:7480",
    title: "HTTP",
    usage: |address| format!("http://{address}/write (line protocol), http://{address}/sql"),
    start: Start::Database(start),
};

/// Value of `X-Influxdb-Version`: clients parse the API version, people look for the product's.
const INFLUX_VERSION: &str = concat!("v2.7.4-millrace-", env!("CARGO_PKG_VERSION"));
/// Size limit of a request's head.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Configuration of the listener.
#[derive(Clone, Debug)]
pub struct Options {
    /// Limits of every listener. Connections above the limit get 503.
    pub limits: Limits,
    /// Limit for the bytes of all request bodies being received; beyond it requests get 503.
    pub bodies_bytes_max: usize,
    /// Memory limit for the columns of one request.
    pub request_bytes_max: usize,
    /// Requests that are parsed concurrently; others wait.
    pub writes_max: usize,
    /// Statements, and requests to applications, that run concurrently; others wait.
    pub statements_max: usize,
    /// Time limit for waiting; then the request gets 503.
    pub queue_timeout: Duration,
    /// Time limit for a request's head, which also limits idle connections.
    pub head_timeout: Duration,
    /// Time limit between two pieces of a body.
    pub body_timeout: Duration,
    /// Time limit between two pieces of responses that the client takes; then the connection ends.
    pub send_timeout: Duration,
    /// Applications, each under its own prefix.
    pub applications: Vec<Application>,
}

impl Options {
    /// Options for a memory budget.
    #[must_use]
    pub fn for_memory(memory_bytes: u64) -> Options {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Options {
            limits: Limits::default(),
            bodies_bytes_max: input_bytes_max(memory_bytes),
            request_bytes_max: input_bytes_max(memory_bytes),
            writes_max: cores.max(2),
            statements_max: 64,
            queue_timeout: Duration::from_secs(10),
            head_timeout: Duration::from_secs(60),
            body_timeout: Duration::from_secs(30),
            send_timeout: streamed::PATIENCE,
            applications: Vec::new(),
        }
    }
}

/// Metrics of the listener, in addition to those of the routes.
#[derive(Debug, Default)]
struct Counters {
    errors: Family<&'static str>,
    body_bytes: Counter,
    rows: Counter,
    points: Counter,
    lines_refused: Counter,
}

/// State shared by all connections of the listener.
pub struct Context {
    database: Database,
    options: Options,
    connections: Arc<Connections>,
    routes: Routes,
    counters: Counters,
    write_slots: WorkSlots,
    statement_slots: WorkSlots,
    bodies_bytes: AtomicUsize,
}

impl Context {
    /// Creates the state for an open database.
    #[must_use]
    pub fn new(database: Database, options: Options) -> Arc<Context> {
        let handles = database.engine().env().open_files_max();
        let timeout = options.queue_timeout;
        Arc::new(Context {
            connections: Connections::new(LISTENER.name, "HTTP", handles, options.limits.clone()),
            routes: Routes::new(&options.applications, database.remote().is_some()),
            database,
            counters: Counters::default(),
            write_slots: WorkSlots::new(options.writes_max, timeout, "requests are being written"),
            statement_slots: WorkSlots::new(options.statements_max, timeout, "statements are running"),
            bodies_bytes: AtomicUsize::new(0),
            options,
        })
    }

    /// Makes [`serve_http`] stop accepting connections, finish running requests, and return.
    pub fn shut_down(&self) {
        self.connections.shut_down();
    }
}

fn start(inputs: &Inputs) -> Arc<dyn Service> {
    let memory_bytes = inputs.database.engine().options().memory_bytes;
    let options = Options {
        limits: inputs.limits.clone(),
        applications: inputs.applications.clone(),
        ..Options::for_memory(memory_bytes)
    };
    Context::new(inputs.database.clone(), options)
}

impl Service for Context {
    fn serve(self: Arc<Self>, listener: TcpListener) -> BoxFuture<'static, ()> {
        Box::pin(serve_http(listener, self))
    }

    fn shut_down(&self) {
        Context::shut_down(self);
    }

    fn expose(&self, out: &mut Exposition) {
        let counters = &self.counters;
        self.connections.expose(out);
        self.routes.expose(out);
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
    }
}

/// Serves connections until [`Context::shut_down`]; returns when all have ended or the grace period
/// is over.
pub async fn serve_http(listener: TcpListener, context: Arc<Context>) {
    let router = routes::router(&context);
    let connections = &context.connections;
    let mut tasks = connections
        .run(listener, |stream, admission| serve(stream, Arc::clone(&context), router.clone(), admission))
        .await;
    connections.drain(&mut tasks, connections.limits().shutdown_grace).await;
    connections.abort(tasks);
}

/// Serves one connection.
async fn serve(mut stream: TcpStream, context: Arc<Context>, router: Router, admission: Admission) {
    if admission.refusal().is_some() {
        let refusal =
            "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        // Errors are ignored: the client may be gone.
        let _ = tokio::time::timeout(Duration::from_secs(1), stream.write_all(refusal.as_bytes())).await;
        return;
    }
    // HTTP/1 only. Detecting the version would wait for the client's first bytes without a time
    // limit.
    let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
    let http1 = &mut builder.http1();
    http1.timer(TokioTimer::new()).header_read_timeout(context.options.head_timeout).max_buf_size(HEAD_BYTES_MAX);
    let stream = SendTimeout::new(stream, context.options.send_timeout);
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        end = connection.as_mut() => Some(end),
        () = context.connections.stopped() => None,
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

/// Answers with an error in the format of `/sql`, and counts it.
fn failed(context: &Context, error: &Error) -> Response {
    context.counters.errors.add(error.state().0);
    reply::json(reply::status(error), &reply::error_body(error))
}

/// Answers 204, or with `verbose` a body.
async fn ping(call: Call) -> Response {
    let verbose = call.uri().query().is_some_and(|query| query.contains("verbose=true") || query.contains("verbose=1"));
    if !verbose {
        return StatusCode::NO_CONTENT.into_response();
    }
    reply::json(StatusCode::OK, &serde_json::json!({ "version": INFLUX_VERSION }))
}

/// Health in InfluxDB 2's format: whether data can be written and read.
async fn health(call: Call) -> Response {
    let (code, status, message) = match call.context.database.engine().failure() {
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
