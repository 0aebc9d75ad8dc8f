//! Arrow Flight SQL listener: query results as streams of record batches, and bulk ingest of record
//! batches.
//!
//! | call                    | purpose                                                                                         |
//! |-------------------------|-------------------------------------------------------------------------------------------------|
//! | GetFlightInfo, DoGet    | queries, prepared or not: the first plans, the second runs; statements with side effects run in GetFlightInfo |
//! | DoPut                   | updates, parameters of prepared statements, bulk ingest                                         |
//! | DoAction                | prepared statements, transactions                                                               |
//! | GetFlightInfo, GetSchema| catalog metadata; result schema of a statement                                                  |
//!
//! Always true:
//! - A call outside of a transaction is a transaction of its own, committed before its response; so
//!   is an ingest as a whole.
//! - If the client drops a stream, or its connection breaks, the statement ends. A transaction ends
//!   with its connection.
//! - The number of open handles is limited, and idle ones are closed.
//!
//! Not here: SQL and writing record batches (`query`), health and metrics (`health`).

pub mod client;
mod decode;
mod handles;
mod ingest;
mod message_memory;
mod metadata;
mod parameters;
mod run;
mod service;
mod status;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context as Task, Poll};
use std::time::Duration;

use arrow_flight::flight_service_server::FlightServiceServer;
use futures::Stream;
use futures::future::BoxFuture;
use model::limits;
use query::Database;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tonic::transport::server::Connected;

use crate::connections::{Acceptor, Admission, Connections, Limits};
use crate::listener::{Inputs, Listener, Service, Start, WorkSlots};
use crate::metrics::{Counter, Exposition, Family};
use handles::OpenHandles;

/// The listener.
pub static LISTENER: Listener = Listener {
    name: "flight",
    env: "MILLRACE_FLIGHT",
    purpose: "Arrow Flight SQL",
    default: "127.0.0.1:7470",
    title: "Flight SQL",
    usage: |address| format!("grpc://{address}"),
    start: Start::Database(start),
};

/// Interval of the search for idle handles.
const SWEEP_INTERVAL: Duration = Duration::from_secs(30);
/// Flow-control window of a stream: several of the messages in which clients send batches.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
/// Flow-control window of a connection.
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// Most concurrent calls per connection.
const CALLS_PER_CONNECTION_MAX: u32 = 256;

/// Configuration of the listener.
#[derive(Clone, Debug)]
pub struct Options {
    /// Limits of every listener. Connections above the limit are closed at once.
    pub limits: Limits,
    /// Largest message, that is one record batch, in bytes.
    pub message_bytes_max: usize,
    /// Statements that run concurrently; others wait.
    pub statements_max: usize,
    /// Ingests that run concurrently; others wait.
    pub ingests_max: usize,
    /// Time limit for waiting.
    pub queue_timeout: Duration,
    /// Most open handles of all clients.
    pub open_max: usize,
    /// Idle time after which a statement is closed.
    pub statement_idle: Duration,
    /// Idle time after which a result is dropped.
    pub result_idle: Duration,
}

impl Options {
    /// Options for a memory budget.
    #[must_use]
    pub fn for_memory(memory_bytes: u64) -> Options {
        let part = usize::try_from(memory_bytes / 16).unwrap_or(usize::MAX);
        Options {
            limits: Limits::default(),
            message_bytes_max: part.clamp(limits::FLIGHT_MESSAGE_BYTES_MIN, limits::FLIGHT_MESSAGE_BYTES_MAX),
            statements_max: 256,
            ingests_max: 8,
            queue_timeout: Duration::from_secs(30),
            open_max: limits::FLIGHT_OPEN_MAX,
            statement_idle: Duration::from_secs(3600),
            result_idle: Duration::from_secs(600),
        }
    }
}

/// Metrics of the listener.
#[derive(Debug, Default)]
struct Counters {
    calls: Family<&'static str>,
    errors: Family<&'static str>,
    rows_sent: Counter,
    rows_ingested: Counter,
    bytes_ingested: Counter,
}

/// State shared by all connections of the listener.
pub struct Context {
    database: Database,
    options: Options,
    connections: Arc<Connections>,
    counters: Counters,
    open: OpenHandles,
    statement_slots: WorkSlots,
    ingest_slots: WorkSlots,
    next_connection: AtomicU64,
}

impl Context {
    /// Creates the state for an open database.
    #[must_use]
    pub fn new(database: Database, options: Options) -> Arc<Context> {
        let handles = database.engine().env().open_files_max();
        let timeout = options.queue_timeout;
        Arc::new(Context {
            connections: Connections::new(LISTENER.name, "Flight", handles, options.limits.clone()),
            counters: Counters::default(),
            open: OpenHandles::new(&database, &options),
            statement_slots: WorkSlots::new(options.statements_max, timeout, "statements are running"),
            ingest_slots: WorkSlots::new(options.ingests_max, timeout, "ingests are running"),
            next_connection: AtomicU64::new(1),
            database,
            options,
        })
    }
}

fn start(inputs: &Inputs) -> Arc<dyn Service> {
    let memory_bytes = inputs.database.engine().options().memory_bytes;
    let options = Options { limits: inputs.limits.clone(), ..Options::for_memory(memory_bytes) };
    Context::new(inputs.database.clone(), options)
}

impl Service for Context {
    fn serve(self: Arc<Self>, listener: TcpListener) -> BoxFuture<'static, ()> {
        Box::pin(serve_flight(listener, self))
    }

    fn shut_down(&self) {
        self.connections.shut_down();
    }

    fn expose(&self, out: &mut Exposition) {
        let counters = &self.counters;
        self.connections.expose(out);
        let calls = counters.calls.list().into_iter().map(|(call, count)| (format!("call=\"{call}\""), count));
        out.family("millrace_flight_calls_total", "counter", "Flight calls started, by kind.", calls);
        let errors = counters.errors.list().into_iter().map(|(state, count)| (format!("state=\"{state}\""), count));
        out.family("millrace_flight_errors_total", "counter", "Flight calls that failed, by SQLSTATE.", errors);
        out.counter("millrace_flight_rows_sent_total", "Rows of results sent.", counters.rows_sent.get());
        out.counter("millrace_flight_rows_ingested_total", "Rows committed by ingests.", counters.rows_ingested.get());
        out.counter(
            "millrace_flight_ingest_bytes_total",
            "Bytes of record batches received by ingests.",
            counters.bytes_ingested.get(),
        );
        out.gauge(
            "millrace_flight_open",
            "Statements, results and transactions that are open.",
            self.open.len() as u64,
        );
    }
}

/// Serves connections until the shutdown; returns when all have ended or the grace period is over.
async fn serve_flight(listener: TcpListener, context: Arc<Context>) {
    let bytes_max = context.options.message_bytes_max;
    let service = FlightServiceServer::new(service::Front::new(Arc::clone(&context)))
        .max_decoding_message_size(bytes_max)
        .max_encoding_message_size(usize::MAX);
    let memory = context.database.engine().memory().clone();
    let accounting =
        tower::util::MapRequestLayer::new(move |request: tonic::codegen::http::Request<tonic::body::Body>| {
            request.map(|body| message_memory::account(body, &memory))
        });
    let server = tonic::transport::Server::builder()
        .layer(accounting)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(CALLS_PER_CONNECTION_MAX)
        .add_service(service)
        .serve_with_incoming_shutdown(incoming(listener, &context), context.connections.stopped());
    let deadline = async {
        context.connections.stopped().await;
        tokio::time::sleep(context.options.limits.shutdown_grace).await;
    };
    tokio::select! {
        ended = server => if let Err(error) = ended {
            tracing::error!(%error, "the Flight listener ended");
        },
        () = deadline => tracing::warn!("Flight connections aborted at shutdown"),
        () = sweep(&context) => {}
    }
}

/// Closes idle handles periodically.
async fn sweep(context: &Context) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        context.open.sweep();
    }
}

/// Stream of accepted connections with their slots.
fn incoming(listener: TcpListener, context: &Arc<Context>) -> impl Stream<Item = io::Result<Socket>> + use<> {
    let acceptor = context.connections.acceptor(listener);
    futures::stream::unfold((acceptor, Arc::clone(context)), |(mut acceptor, context)| async move {
        let socket = accept(&mut acceptor, &context).await;
        Some((Ok(socket), (acceptor, context)))
    })
}

async fn accept(acceptor: &mut Acceptor, context: &Arc<Context>) -> Socket {
    loop {
        let (stream, admission) = acceptor.accept().await;
        if admission.refusal().is_none() {
            let number = context.next_connection.fetch_add(1, Ordering::Relaxed);
            return Socket { stream, number, context: Arc::clone(context), _admission: admission };
        }
    }
}

/// Number of the connection of a call.
#[derive(Clone, Copy, Debug)]
struct Connection(u64);

/// A connection; dropping it closes its transactions and results.
struct Socket {
    stream: TcpStream,
    number: u64,
    context: Arc<Context>,
    _admission: Admission,
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.context.open.end_connection(self.number);
    }
}

impl Connected for Socket {
    type ConnectInfo = Connection;

    fn connect_info(&self) -> Connection {
        Connection(self.number)
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Task<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Task<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Task<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Task<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Task<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
