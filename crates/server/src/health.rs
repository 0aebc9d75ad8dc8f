//! Health, readiness and metrics, on a separate listener that answers even if the others are busy.
//!
//! | path       | answer                                                                                                  |
//! |------------|---------------------------------------------------------------------------------------------------------|
//! | `/health`  | 200 while the process runs: do not restart it                                                            |
//! | `/ready`   | 200 while reads and writes are served; 503 with the reason during startup, during shutdown, or after a failure of the log or of a background job |
//! | `/metrics` | Prometheus text format                                                                                  |

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::get;
use engine::{Engine, JobState, JobStats, MetricKind, MetricValue, Stats};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use model::{Error, Result, SqlState};
use parking_lot::RwLock;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::connections::{Admission, Connections, Limits};
use crate::listener::{Listener, Service, Start};
use crate::metrics::Exposition;

/// The listener.
pub static LISTENER: Listener = Listener {
    name: "health",
    env: "MILLRACE_HEALTH",
    purpose: "/health, /ready and /metrics",
    default: "127.0.0.1:7490",
    title: "health",
    usage: |address| format!("http://{address}/health, /ready, /metrics"),
    start: Start::Early(start),
};

/// Most concurrent connections. Probes and scrapers are few, and this listener must not exhaust the
/// file handles.
const CONNECTIONS_MAX: usize = 64;
/// Time limit for a request's head, and for idle connections.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Lifecycle phase of the server.
#[derive(Clone)]
enum Phase {
    /// Opening the database.
    Starting,
    /// Serving.
    Running(Arc<Running>),
    /// Finishing running requests.
    Stopping,
}

/// Database and listeners of a server that serves.
pub(crate) struct Running {
    pub(crate) engine: Engine,
    pub(crate) services: Vec<Arc<dyn Service>>,
}

/// State of the server, as this listener shows it.
pub(crate) struct Status {
    phase: RwLock<Phase>,
    /// A listener that ended although the server does not stop.
    ended: RwLock<Option<&'static Listener>>,
    started: Instant,
}

impl Status {
    pub(crate) fn new() -> Arc<Status> {
        Arc::new(Status { phase: RwLock::new(Phase::Starting), ended: RwLock::new(None), started: Instant::now() })
    }

    pub(crate) fn run(&self, running: Running) {
        *self.phase.write() = Phase::Running(Arc::new(running));
    }

    pub(crate) fn stop(&self) {
        *self.phase.write() = Phase::Stopping;
    }

    /// Notes the end of a listener, which is an error unless the server stops.
    pub(crate) fn listener_ended(&self, listener: &'static Listener) {
        if !matches!(self.phase(), Phase::Stopping) {
            tracing::error!(listener = listener.name, "BUG: a listener has ended");
            *self.ended.write() = Some(listener);
        }
    }

    fn phase(&self) -> Phase {
        self.phase.read().clone()
    }

    /// Reason for which reads and writes are not served.
    fn unready(&self) -> Option<String> {
        let running = match self.phase() {
            Phase::Starting => return Some("starting: opening the database".to_owned()),
            Phase::Stopping => return Some("stopping: finishing running requests".to_owned()),
            Phase::Running(running) => running,
        };
        let ended = *self.ended.read();
        let ended = || ended.map(|listener| format!("the listener {} has ended; restart the server", listener.name));
        running.engine.readiness().err().map(|error| error.to_string()).or_else(ended)
    }
}

/// Serves on a thread of its own, so that other work cannot delay it, until the returned sender is
/// dropped.
///
/// # Errors
/// 58030 if the thread cannot be started.
fn start(listener: TcpListener, status: Arc<Status>) -> Result<oneshot::Sender<()>> {
    let failed =
        |error: std::io::Error| Error::new(SqlState::IO_ERROR, format!("cannot start the health listener: {error}"));
    let listener = listener.into_std().map_err(failed)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let (stop, stopped) = oneshot::channel::<()>();
    let serve = move || {
        runtime.block_on(async {
            let listener = match TcpListener::from_std(listener) {
                Ok(listener) => listener,
                Err(error) => return tracing::error!(%error, "cannot serve health"),
            };
            tokio::select! {
                () = serve_health(listener, status) => (),
                _ = stopped => (),
            }
        });
    };
    std::thread::Builder::new().name("health".to_owned()).spawn(serve).map_err(failed)?;
    Ok(stop)
}

/// Serves until the future is dropped. The health listener starts first and stops last.
async fn serve_health(listener: TcpListener, status: Arc<Status>) {
    let router = Router::new()
        .route("/health", get(alive))
        .route("/ready", get(ready))
        .route("/metrics", get(metrics))
        .with_state(status);
    let limits = Limits { connections_max: CONNECTIONS_MAX, ..Limits::default() };
    // The reserved file handles are for this listener too.
    let connections = Connections::new(LISTENER.name, "health", u64::MAX, limits);
    connections.run(listener, |stream, admission| serve(stream, admission, router.clone())).await;
}

async fn serve(stream: TcpStream, admission: Admission, router: Router) {
    // Connections beyond the limit are closed; the next probe will get a slot.
    if admission.refusal().is_some() {
        return;
    }
    let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)).await {
        tracing::debug!(%error, "health connection ended by an error");
    }
}

fn reply(status: StatusCode, content_type: &'static str, body: String) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

async fn alive(State(server): State<Arc<Status>>) -> Response {
    let body = json!({
        "status": "ok",
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_seconds": server.started.elapsed().as_secs(),
    });
    reply(StatusCode::OK, "application/json", format!("{body}\n"))
}

async fn ready(State(server): State<Arc<Status>>) -> Response {
    let (status, body) = match server.unready() {
        None => (StatusCode::OK, json!({ "status": "ready" })),
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, json!({ "status": "not ready", "reason": reason })),
    };
    reply(status, "application/json", format!("{body}\n"))
}

async fn metrics(State(server): State<Arc<Status>>) -> Response {
    let mut out = Exposition::default();
    out.gauge("millrace_uptime_seconds", "Time since the process began to listen.", server.started.elapsed().as_secs());
    out.gauge(
        "millrace_ready",
        "1 when reads and writes are served and no background job is broken.",
        u8::from(server.unready().is_none()),
    );
    if let Phase::Running(running) = server.phase() {
        let stats = running.engine.stats();
        expose_engine(&mut out, &stats);
        expose_jobs(&mut out, &stats.jobs);
        running.services.iter().for_each(|service| service.expose(&mut out));
    }
    reply(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", out.finish())
}

fn expose_engine(out: &mut Exposition, stats: &Stats) {
    for (name, help, value) in [
        ("millrace_commits_total", "Commits.", stats.commits),
        ("millrace_rows_written_total", "Rows committed.", stats.rows_written),
        ("millrace_ingested_bytes_total", "Bytes of rows of columns tables committed.", stats.ingested_bytes),
        ("millrace_log_bytes_total", "Bytes appended to the log.", stats.log_bytes),
        ("millrace_lock_waits_total", "Lock waits.", stats.lock_waits),
    ] {
        out.counter(name, help, value);
    }
    for (name, help, value) in [
        ("millrace_last_lsn", "Newest log record.", stats.last_lsn),
        ("millrace_durable_lsn", "Newest durable log record.", stats.durable_lsn),
        ("millrace_flushed_lsn", "Log records up to this one are in segments.", stats.flushed_lsn),
        ("millrace_memtable_bytes", "Memory of the memtables.", stats.memtable_bytes),
        ("millrace_memory_limit_bytes", "The memory budget.", stats.memory_bytes),
        ("millrace_log_disk_bytes", "Disk space of the log.", stats.log_disk_bytes),
        ("millrace_segment_bytes", "Disk space of the segments.", stats.segment_bytes),
        ("millrace_segments", "Segments.", stats.segments),
        ("millrace_segments_open", "Open segment files.", stats.open_segments),
        ("millrace_segment_directory_bytes", "Memory of block indexes and statistics.", stats.directory_bytes),
        ("millrace_tables", "Tables.", stats.tables),
        ("millrace_series", "Series.", stats.series),
        ("millrace_row_tables", "Rows tables.", stats.row_tables),
        ("millrace_row_tables_rows", "Rows of rows tables.", stats.rows),
        ("millrace_row_tables_bytes", "Memory of rows tables and their indexes.", stats.rows_bytes),
        ("millrace_row_tables_bytes_max", "Memory at which inserts and updates are refused.", stats.rows_bytes_max),
        ("millrace_row_tables_garbage", "Items that wait for garbage collection.", stats.rows_garbage),
        ("millrace_row_tables_held_bytes", "Memory of old versions kept for open snapshots.", stats.rows_held_bytes),
        (
            "millrace_row_tables_list_bytes",
            "Memory of the garbage queue and of open transactions' write and lock lists.",
            stats.rows_list_bytes,
        ),
        (
            "millrace_row_tables_deferred_bytes",
            "Memory retired, but held up by running statements.",
            stats.rows_deferred_bytes,
        ),
        ("millrace_lock_waiters", "Transactions that wait for a lock.", stats.lock_waiters),
    ] {
        out.gauge(name, help, value);
    }
    let stores =
        [("rows", stats.rows_bytes), ("memtables", stats.memtable_bytes), ("segment_cache", stats.directory_bytes)];
    let work = stats.work.map(|(kind, bytes, _)| (kind, bytes));
    let parts = stores.into_iter().chain(work).map(|(part, bytes)| (format!("part=\"{part}\""), bytes));
    out.family("millrace_memory_bytes", "gauge", "Memory held, by part of the budget.", parts);
    let most = stats.work.iter().map(|(kind, _, most)| (format!("part=\"{kind}\""), *most));
    out.family("millrace_memory_max_bytes", "gauge", "Most memory of statements and connections, by part.", most);
    out.counter(
        "millrace_memory_refused_total",
        "Reservations of memory that were refused.",
        stats.reservations_refused,
    );
    let written = stats.write_amplification();
    for (name, help, value) in [
        (
            "millrace_write_amplification",
            "Bytes written per byte of rows committed to columns tables.",
            written.total(),
        ),
        ("millrace_write_amplification_log", "The part of the log in write amplification.", written.log),
        ("millrace_write_amplification_flushes", "The part of flushes in write amplification.", written.flushes),
        (
            "millrace_write_amplification_compactions",
            "The part of compactions in write amplification.",
            written.compactions,
        ),
    ] {
        out.gauge(name, help, value);
    }
}

/// Exposes the list of background jobs: the state of each, and the metrics that it declares.
fn expose_jobs(out: &mut Exposition, jobs: &[JobStats]) {
    let each = |value: fn(&JobStats) -> u64| jobs.iter().map(move |job| (format!("job=\"{}\"", job.name), value(job)));
    out.family("millrace_job_steps_total", "counter", "Steps of background jobs.", each(|job| job.steps));
    out.family(
        "millrace_job_failures_total",
        "counter",
        "Steps of background jobs that failed.",
        each(|job| job.failures),
    );
    out.family(
        "millrace_job_broken",
        "gauge",
        "1 when a background job has stopped because one of its invariants is broken.",
        each(|job| u64::from(job.state == JobState::Broken)),
    );
    for metric in jobs.iter().flat_map(|job| &job.metrics) {
        let MetricValue { name, help, kind, value } = *metric;
        match kind {
            MetricKind::Total => out.counter(&format!("millrace_{name}_total"), help, value),
            MetricKind::TotalNs => out.counter(&format!("millrace_{name}_seconds_total"), help, value as f64 / 1e9),
            MetricKind::Gauge => out.gauge(&format!("millrace_{name}"), help, value),
        }
    }
}
