//! PostgreSQL listener: connections, and the protocol's state machine over a [`query::Session`].
//!
//! One task per connection. It reads a message, processes it and buffers the response; the buffer
//! is flushed when it is full and before every wait for the client.
//!
//! - [`serve_pg`] accepts until [`Context::shut_down`]; `startup` handles a connection up to its
//!   first ReadyForQuery; `connection` runs simple queries, `extended` the extended protocol,
//!   `copy` both directions of COPY; `rows` encodes record batches; `statement_watchdog` stops a
//!   statement that is cancelled, times out, or has lost its client.
//!
//! Always true:
//! - Results are streamed: rows are encoded as their batches arrive, and a client that does not
//!   read stops them.
//! - After an error in the extended protocol, messages are skipped until Sync.
//! - A cancelled statement is dropped, and all its effects are rolled back.
//!
//! Not here: message formats (crate `pg`), SQL (crate `query`).

mod cancel;
mod connection;
mod copy;
mod extended;
mod rows;
mod startup;
mod statement_log;
mod statement_watchdog;
mod wire;
mod zone;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ::pg::backend::{self, Severity};
use model::{Error, SqlState};
use query::{Database, Signal};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use crate::accept::Acceptor;

use self::cancel::{Idle, Registry};
use self::connection::Connection;
pub(crate) use self::extended::value_of;
pub(crate) use self::rows::TextCells;
use self::startup::StartupOutcome;
use self::statement_log::StatementLog;
use self::wire::{Budget, Lost, Wire};

/// Connections above the limit that may send their startup packet, mostly to cancel a statement.
/// Sessions get 53300.
const EXTRA_CONNECTIONS: usize = 32;
/// Time that cancelled statements get to stop.
const KILL_GRACE: Duration = Duration::from_secs(2);
/// Time that a refused connection gets to read the error.
const REFUSAL_TIMEOUT: Duration = Duration::from_millis(200);

/// Configuration of the listener.
#[derive(Clone, Debug)]
pub struct Options {
    /// Most concurrent sessions; further ones get 53300.
    pub connections_max: usize,
    /// Time limit for the startup packet.
    pub startup_timeout: Duration,
    /// Time that running statements get to finish after [`Context::shut_down`].
    pub shutdown_grace: Duration,
    /// Memory limit for incomplete messages, over all connections; beyond it 53200.
    pub input_bytes_max: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            connections_max: model::limits::CONNECTIONS_DEFAULT,
            startup_timeout: Duration::from_secs(10),
            shutdown_grace: Duration::from_secs(30),
            input_bytes_max: 256 << 20,
        }
    }
}

/// Metrics of the listener since startup.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections accepted, including refused ones.
    pub connections: AtomicU64,
    /// Open sessions.
    pub sessions: AtomicU64,
    /// Connections refused because all slots were taken.
    pub refused: AtomicU64,
    /// Statements executed, including failed ones.
    pub statements: AtomicU64,
    /// Statements that failed.
    pub errors: AtomicU64,
    /// Rows sent.
    pub rows: AtomicU64,
}

impl Counters {
    fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}

/// Phase of the shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Phase {
    Running,
    /// No new connections; idle sessions end, running statements finish.
    Stopping,
    /// Running statements are cancelled.
    Killing,
}

/// State shared by all connections of the listener.
pub struct Context {
    database: Database,
    options: Options,
    counters: Counters,
    registry: Arc<Registry>,
    /// Connection slots, taken with the first byte.
    slots: Arc<Semaphore>,
    extra_slots: Semaphore,
    phase: watch::Sender<Phase>,
    input: Arc<Budget>,
    log: StatementLog,
}

impl Context {
    /// Creates the state for an open database.
    #[must_use]
    pub fn new(database: Database, options: Options) -> Arc<Context> {
        Arc::new(Context {
            input: Arc::new(Budget::new(options.input_bytes_max, database.engine().memory().clone())),
            log: StatementLog::default(),
            database,
            counters: Counters::default(),
            registry: Arc::default(),
            slots: Arc::new(Semaphore::new(options.connections_max)),
            extra_slots: Semaphore::new(EXTRA_CONNECTIONS),
            phase: watch::Sender::new(Phase::Running),
            options,
        })
    }

    /// Metrics of the listener.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Makes [`serve_pg`] stop accepting connections, end idle sessions, finish running statements,
    /// and return.
    pub fn shut_down(&self) {
        self.set_phase(Phase::Stopping);
    }

    fn set_phase(&self, phase: Phase) {
        self.phase.send_if_modified(|current| {
            let later = *current < phase;
            *current = if later { phase } else { *current };
            later
        });
        self.registry.hang_up();
        if phase == Phase::Killing {
            self.registry.terminate_all();
        }
    }
}

/// Serves connections until [`Context::shut_down`]; returns when all have ended or were aborted at
/// the deadline.
pub async fn serve_pg(listener: TcpListener, context: Arc<Context>) {
    let mut phase = context.phase.subscribe();
    let mut connections = JoinSet::new();
    let mut acceptor = Acceptor::new("PostgreSQL", context.database.engine().env().open_files_max());
    loop {
        tokio::select! {
            () = reached(&mut phase, Phase::Stopping) => break,
            Some(ended) = connections.join_next() => report_panic(ended),
            (stream, has_room) = acceptor.accept(&listener) => {
                connections.spawn(serve(stream, Arc::clone(&context), has_room));
            }
        }
    }
    drop(listener);
    finish(&context, connections).await;
}

/// Resolves when the shutdown reaches phase `least`, or the context is dropped.
async fn reached(phase: &mut watch::Receiver<Phase>, least: Phase) {
    // The value is borrowed under a lock that must not be held across an await of the caller.
    drop(phase.wait_for(|phase| *phase >= least).await);
}

/// Waits for the connections to end, first on their own, then with their statements cancelled.
async fn finish(context: &Context, mut connections: JoinSet<()>) {
    for (phase, grace) in [(Phase::Stopping, context.options.shutdown_grace), (Phase::Killing, KILL_GRACE)] {
        context.set_phase(phase);
        if phase == Phase::Killing {
            tracing::warn!(sessions = connections.len(), "running statements are cancelled");
        } else if !connections.is_empty() {
            let (sessions, grace_s) = (connections.len(), grace.as_secs());
            tracing::info!(sessions, grace_s, "waiting for sessions with a running statement");
        }
        let all = async {
            while let Some(ended) = connections.join_next().await {
                report_panic(ended);
            }
        };
        if tokio::time::timeout(grace, all).await.is_ok() {
            return;
        }
    }
    tracing::warn!(connections = connections.len(), "connections aborted at shutdown");
}

fn report_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "BUG: a connection ended by a panic");
    }
}

/// Serves one connection.
async fn serve(stream: TcpStream, context: Arc<Context>, has_room: bool) {
    Counters::add(&context.counters.connections, 1);
    prepare_socket(&stream);
    let mut wire = Wire::new(stream, Arc::clone(&context.input));
    // A connection takes a slot before its startup packet: silent clients must not exhaust
    // resources.
    let slot = if has_room { slot(&context) } else { Err(no_handles(&context)) };
    let extra = if slot.is_err() && has_room { context.extra_slots.try_acquire().ok() } else { None };
    if let Err(error) = &slot
        && extra.is_none()
    {
        backend::error(&mut wire.output, Severity::Fatal, error);
        let _ = tokio::time::timeout(REFUSAL_TIMEOUT, wire.close()).await;
        return;
    }
    let greeting =
        tokio::time::timeout(context.options.startup_timeout, startup::read_startup(&mut wire, &context)).await;
    let end = match greeting {
        Ok(Ok(StartupOutcome::Session { user, settings })) => match slot {
            Ok(_slot) => serve_session(&mut wire, &context, &user, &settings).await,
            Err(error) => Err(Lost::Fatal(error)),
        },
        Ok(Ok(StartupOutcome::Nothing)) => Err(Lost::Gone),
        Ok(Err(lost)) => Err(lost),
        Err(_) => Err(Lost::Fatal(Error::new(
            SqlState::CONNECTION_FAILURE,
            format!("no startup packet within {} s", context.options.startup_timeout.as_secs()),
        ))),
    };
    if let Err(Lost::Fatal(error)) = &end {
        tracing::debug!(%error, "connection ended by an error");
        backend::error(&mut wire.output, Severity::Fatal, error);
    }
    if !matches!(end, Err(Lost::Gone)) {
        // Bounded: the client may not read.
        let _ = tokio::time::timeout(KILL_GRACE, wire.close()).await;
    }
}

/// Small responses must not be delayed, and a vanished client must be detected.
pub(crate) fn prepare_socket(stream: &TcpStream) {
    let keepalive =
        socket2::TcpKeepalive::new().with_time(Duration::from_secs(60)).with_interval(Duration::from_secs(15));
    let result = stream.set_nodelay(true).and_then(|()| socket2::SockRef::from(stream).set_tcp_keepalive(&keepalive));
    if let Err(error) = result {
        tracing::debug!(%error, "cannot set socket options");
    }
}

async fn serve_session(
    wire: &mut Wire,
    context: &Arc<Context>,
    user: &str,
    settings: &[(String, String)],
) -> Result<(), Lost> {
    if *context.phase.borrow() != Phase::Running {
        return Err(Lost::Fatal(Error::new(SqlState::CANNOT_CONNECT_NOW, "the database system is shutting down")));
    }
    let mut session = context.database.session(user);
    let registration =
        context.registry.register(session.pid().unsigned_abs(), session.stop_flag(), Idle::at(wire.socket()));
    let stop = registration.stop.clone();
    session.on_signal(move |signal| match signal {
        Signal::Cancel => stop.cancel(),
        Signal::Terminate => stop.terminate(),
    });
    startup::send_greeting(&mut wire.output, &mut session, registration.key, settings).map_err(Lost::Fatal)?;
    Counters::add(&context.counters.sessions, 1);
    tracing::debug!(user, process = registration.key.process, "session started");
    let mut connection = Connection::new(wire, session, Arc::clone(context), registration);
    let end = connection.run().await;
    connection.rollback();
    context.counters.sessions.fetch_sub(1, Ordering::Relaxed);
    end
}

fn slot(context: &Context) -> model::Result<OwnedSemaphorePermit> {
    Arc::clone(&context.slots).try_acquire_owned().map_err(|_| {
        Counters::add(&context.counters.refused, 1);
        let message =
            format!("sorry, too many clients already: all {} connections are taken", context.options.connections_max);
        Error::new(SqlState::TOO_MANY_CONNECTIONS, message).with_hint("close some, or raise --max-connections")
    })
}

fn no_handles(context: &Context) -> Error {
    Counters::add(&context.counters.refused, 1);
    Error::new(SqlState::TOO_MANY_CONNECTIONS, "sorry, too many clients already: the server has no free file handle")
        .with_hint("close some, or raise the server's limit of open files (ulimit -n)")
}

fn shutting_down() -> Lost {
    Lost::Fatal(Error::new(SqlState::ADMIN_SHUTDOWN, "terminating connection due to administrator command"))
}

#[cfg(test)]
mod tests;
