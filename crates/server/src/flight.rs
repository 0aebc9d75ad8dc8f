//! The Arrow Flight SQL listener: queries as streams of record batches, and record batches straight into tables.
//!
//! | call                    | what                                                                                            |
//! |-------------------------|-------------------------------------------------------------------------------------------------|
//! | GetFlightInfo, DoGet    | queries, prepared ones too: planned by the first, run by the second; what changes is run by the first |
//! | DoPut                   | updates, values for prepared statements, bulk ingest                                            |
//! | DoAction                | prepared statements, transactions                                                               |
//! | GetFlightInfo, GetSchema| what the catalog has; the columns of a statement                                                |
//!
//! Always true:
//! - A call outside of a transaction is a transaction of its own, committed when it is answered; an ingest too, as a whole.
//! - A stream that the client drops, or whose connection breaks, ends its statement; a transaction ends with its connection.
//! - What clients leave open is bounded in number, and forgotten when nobody asked for it in a while.
//!
//! Not here: SQL and writing record batches (`query`), health and metrics (`health`).

mod counted;
mod decode;
mod ingest;
mod metadata;
mod open;
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
use model::{Error, Result, SqlState, limits};
use query::Database;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tonic::transport::server::Connected;

use crate::accept::Acceptor;
use crate::metrics::{Counter, Exposition, Family, Gauge};
use open::Open;

/// How often what nobody asks for is looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(30);
/// Bytes of a stream that a client may have on its way: several of the pieces in which clients send batches.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
/// The same of all streams of a connection.
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// Most calls of one connection at a time.
const CALLS_PER_CONNECTION_MAX: u32 = 256;

/// How the listener behaves; the default is right for users.
#[derive(Clone, Debug)]
pub struct Options {
    /// Most connections at a time; one more is closed at once.
    pub connections_max: usize,
    /// Largest message, which is one record batch, in bytes.
    pub message_bytes_max: usize,
    /// Statements that run at the same time; others wait.
    pub statements_max: usize,
    /// Ingests that run at the same time; others wait.
    pub ingests_max: usize,
    /// How long a call may wait for its turn.
    pub queue_timeout: Duration,
    /// Most statements and results that clients have open.
    pub open_max: usize,
    /// How long a statement is kept that nobody asks for.
    pub statement_idle: Duration,
    /// How long a result is kept that nobody fetches.
    pub result_idle: Duration,
    /// Time that running calls have to finish after [`Context::shut_down`].
    pub shutdown_grace: Duration,
}

impl Options {
    /// The options that suit a memory budget.
    #[must_use]
    pub fn for_memory(memory_bytes: u64) -> Options {
        let part = usize::try_from(memory_bytes / 16).unwrap_or(usize::MAX);
        Options {
            connections_max: limits::CONNECTIONS_DEFAULT,
            message_bytes_max: part.clamp(limits::FLIGHT_MESSAGE_BYTES_MIN, limits::FLIGHT_MESSAGE_BYTES_MAX),
            statements_max: 256,
            ingests_max: 8,
            queue_timeout: Duration::from_secs(30),
            open_max: limits::FLIGHT_OPEN_MAX,
            statement_idle: Duration::from_secs(3600),
            result_idle: Duration::from_secs(600),
            shutdown_grace: Duration::from_secs(30),
        }
    }
}

/// What is counted.
#[derive(Debug, Default)]
struct Counters {
    connections: Counter,
    connections_open: Gauge,
    connections_refused: Counter,
    calls: Family<&'static str>,
    errors: Family<&'static str>,
    rows_sent: Counter,
    rows_ingested: Counter,
    bytes_ingested: Counter,
}

/// What all connections of the listener share.
pub struct Context {
    database: Database,
    options: Options,
    counters: Counters,
    open: Open,
    connection_slots: Arc<Semaphore>,
    statement_slots: Arc<Semaphore>,
    ingest_slots: Arc<Semaphore>,
    next_connection: AtomicU64,
    stopping: watch::Sender<bool>,
}

impl Context {
    /// A context over an open database.
    #[must_use]
    pub fn new(database: Database, options: Options) -> Arc<Context> {
        Arc::new(Context {
            counters: Counters::default(),
            open: Open::new(&database, &options),
            connection_slots: Arc::new(Semaphore::new(options.connections_max)),
            statement_slots: Arc::new(Semaphore::new(options.statements_max)),
            ingest_slots: Arc::new(Semaphore::new(options.ingests_max)),
            next_connection: AtomicU64::new(1),
            stopping: watch::Sender::new(false),
            database,
            options,
        })
    }

    /// Makes [`serve_flight`] stop accepting, let running calls finish, and return.
    pub fn shut_down(&self) {
        self.stopping.send_replace(true);
    }

    /// Resolves when the listener is to stop.
    async fn stopped(&self) {
        // The guard of the value must not live on in the caller's future, which moves between threads.
        let _ = self.stopping.subscribe().wait_for(|stopping| *stopping).await.map(drop);
    }

    /// A place among the statements that run.
    async fn statement_slot(&self) -> Result<OwnedSemaphorePermit> {
        self.slot(&self.statement_slots, "statements are running").await
    }

    /// A place among the ingests that run.
    async fn ingest_slot(&self) -> Result<OwnedSemaphorePermit> {
        self.slot(&self.ingest_slots, "ingests are running").await
    }

    async fn slot(&self, slots: &Arc<Semaphore>, what: &str) -> Result<OwnedSemaphorePermit> {
        match tokio::time::timeout(self.options.queue_timeout, Arc::clone(slots).acquire_owned()).await {
            Ok(Ok(slot)) => Ok(slot),
            _ => Err(Error::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, format!("too many {what}; try again"))),
        }
    }

    /// Adds the numbers so far to a `/metrics` page.
    pub(crate) fn expose(&self, out: &mut Exposition) {
        let counters = &self.counters;
        out.counter("millrace_flight_connections_total", "Flight connections accepted.", counters.connections.get());
        out.gauge("millrace_flight_connections", "Flight connections open.", counters.connections_open.get());
        out.counter(
            "millrace_flight_connections_refused_total",
            "Flight connections refused because all slots were taken.",
            counters.connections_refused.get(),
        );
        let calls = counters.calls.list().into_iter().map(|(call, count)| (format!("call=\"{call}\""), count));
        out.family("millrace_flight_calls_total", "counter", "Flight calls begun, by kind.", calls);
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

/// Serves connections until [`Context::shut_down`], then returns when all have ended or the grace is over.
pub async fn serve_flight(listener: TcpListener, context: Arc<Context>) {
    let bytes_max = context.options.message_bytes_max;
    let service = FlightServiceServer::new(service::Front::new(Arc::clone(&context)))
        .max_decoding_message_size(bytes_max)
        .max_encoding_message_size(usize::MAX);
    let memory = context.database.engine().memory().clone();
    let counted =
        tower::util::MapRequestLayer::new(move |request: tonic::codegen::http::Request<tonic::body::Body>| {
            request.map(|body| counted::counted(body, &memory))
        });
    let server = tonic::transport::Server::builder()
        .layer(counted)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(CALLS_PER_CONNECTION_MAX)
        .add_service(service)
        .serve_with_incoming_shutdown(incoming(listener, &context), context.stopped());
    let deadline = async {
        context.stopped().await;
        tokio::time::sleep(context.options.shutdown_grace).await;
    };
    tokio::select! {
        ended = server => if let Err(error) = ended {
            tracing::error!(%error, "the Flight listener ended");
        },
        () = deadline => tracing::warn!("Flight connections aborted at shutdown"),
        () = sweep(&context) => {}
    }
}

/// Forgets what nobody asks for, now and then.
async fn sweep(context: &Context) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        context.open.sweep();
    }
}

/// Connections as they come, each with a slot.
fn incoming(listener: TcpListener, context: &Arc<Context>) -> impl Stream<Item = io::Result<Socket>> + use<> {
    let context = Arc::clone(context);
    let acceptor = Acceptor::new("Flight", context.database.engine().env().open_files_max());
    futures::stream::unfold((listener, acceptor, context), |(listener, mut acceptor, context)| async move {
        let socket = accept(&listener, &mut acceptor, &context).await;
        Some((Ok(socket), (listener, acceptor, context)))
    })
}

async fn accept(listener: &TcpListener, acceptor: &mut Acceptor, context: &Arc<Context>) -> Socket {
    loop {
        let (stream, has_room) = acceptor.accept(listener).await;
        context.counters.connections.add(1);
        let slot = Arc::clone(&context.connection_slots).try_acquire_owned().ok().filter(|_| has_room);
        let Some(slot) = slot else {
            context.counters.connections_refused.add(1);
            continue;
        };
        crate::pg::prepare_socket(&stream);
        let number = context.next_connection.fetch_add(1, Ordering::Relaxed);
        context.counters.connections_open.up();
        return Socket { stream, number, context: Arc::clone(context), _slot: slot };
    }
}

/// Which connection a call came by.
#[derive(Clone, Copy, Debug)]
struct Connection(u64);

/// A connection; when it goes, so does what is bound to it.
struct Socket {
    stream: TcpStream,
    number: u64,
    context: Arc<Context>,
    _slot: OwnedSemaphorePermit,
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.context.counters.connections_open.down();
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
