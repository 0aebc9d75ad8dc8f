//! PostgreSQL listener: connections, and the protocol's state machine over a [`query::Session`].
//!
//! One task per connection. It reads a message, processes it and buffers the response; the buffer
//! is flushed when it is full and before every wait for the client.
//!
//! - `serve_pg` accepts until the shutdown; `startup` handles a connection up to its
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
use std::time::Duration;

use ::pg::backend::{self, Severity};
use futures::future::BoxFuture;
use model::{Error, SqlState};
use query::{Database, Signal, Wake};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};

use crate::connections::{Admission, Connections, Limits, Phase, Refusal, reached};
use crate::listener::{Inputs, Listener, Service, Start, input_bytes_max};
use crate::metrics::{Counter, Exposition, Gauge};

use self::cancel::{Idle, Registry};
use self::connection::Connection;
pub(crate) use self::extended::value_of;
pub(crate) use self::rows::TextCells;
use self::startup::StartupOutcome;
use self::statement_log::StatementLog;
use self::wire::{Budget, Lost, Wire};

/// The listener.
pub static LISTENER: Listener = Listener {
    name: "pg",
    env: "MILLRACE_PG",
    purpose: "the PostgreSQL protocol",
    default: "127.0.0.1:7432",
    title: "PostgreSQL",
    usage: |address| format!("psql -h {} -p {} -U millrace", address.ip(), address.port()),
    start: Start::Database(start),
};

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
    /// Limits of every listener. Sessions above the limit of connections get 53300.
    pub limits: Limits,
    /// Time limit for the startup packet.
    pub startup_timeout: Duration,
    /// Memory limit for incomplete messages, over all connections; beyond it 53200.
    pub input_bytes_max: usize,
}

impl Options {
    /// Options for a memory budget.
    #[must_use]
    pub fn for_memory(memory_bytes: u64) -> Options {
        Options {
            limits: Limits::default(),
            startup_timeout: Duration::from_secs(10),
            input_bytes_max: input_bytes_max(memory_bytes).max(::pg::frontend::MESSAGE_BYTES_MAX),
        }
    }
}

/// Metrics of the listener since startup.
#[derive(Debug, Default)]
struct Counters {
    /// Open sessions.
    sessions: Gauge,
    /// Statements executed, including failed ones.
    statements: Counter,
    /// Statements that failed.
    errors: Counter,
    /// Rows sent.
    rows: Counter,
}

/// State shared by all connections of the listener.
pub struct Context {
    database: Database,
    options: Options,
    connections: Arc<Connections>,
    counters: Counters,
    registry: Arc<Registry>,
    extra_slots: Semaphore,
    input: Arc<Budget>,
    log: StatementLog,
}

impl Context {
    /// Creates the state for an open database.
    #[must_use]
    pub fn new(database: Database, options: Options) -> Arc<Context> {
        let handles = database.engine().env().open_files_max();
        Arc::new(Context {
            connections: Connections::new(LISTENER.name, "PostgreSQL", handles, options.limits.clone()),
            input: Arc::new(Budget::new(options.input_bytes_max, database.engine().memory().clone())),
            log: StatementLog::default(),
            database,
            counters: Counters::default(),
            registry: Arc::default(),
            extra_slots: Semaphore::new(EXTRA_CONNECTIONS),
            options,
        })
    }

    fn set_phase(&self, phase: Phase) {
        self.connections.set_phase(phase);
        self.registry.hang_up();
        if phase == Phase::Killing {
            self.registry.terminate_all();
        }
    }
}

fn start(inputs: &Inputs) -> Arc<dyn Service> {
    let memory_bytes = inputs.database.engine().options().memory_bytes;
    let options = Options { limits: inputs.limits.clone(), ..Options::for_memory(memory_bytes) };
    Context::new(inputs.database.clone(), options)
}

impl Service for Context {
    fn serve(self: Arc<Self>, listener: TcpListener) -> BoxFuture<'static, ()> {
        Box::pin(serve_pg(listener, self))
    }

    /// Ends idle sessions too; running statements finish.
    fn shut_down(&self) {
        self.set_phase(Phase::Stopping);
    }

    fn expose(&self, out: &mut Exposition) {
        let counters = &self.counters;
        self.connections.expose(out);
        out.gauge("millrace_pg_sessions", "PostgreSQL sessions open.", counters.sessions.get());
        out.counter("millrace_pg_statements_total", "Statements executed.", counters.statements.get());
        out.counter("millrace_pg_errors_total", "Statements that failed.", counters.errors.get());
        out.counter("millrace_pg_rows_total", "Rows sent.", counters.rows.get());
    }
}

/// Serves connections until the shutdown; returns when all have ended or were aborted at the
/// deadline.
async fn serve_pg(listener: TcpListener, context: Arc<Context>) {
    let connections = &context.connections;
    let mut tasks = connections.run(listener, |stream, admission| serve(stream, Arc::clone(&context), admission)).await;
    let grace = connections.limits().shutdown_grace;
    if !tasks.is_empty() {
        let (sessions, grace_s) = (tasks.len(), grace.as_secs());
        tracing::info!(sessions, grace_s, "waiting for sessions with a running statement");
    }
    if !connections.drain(&mut tasks, grace).await {
        tracing::warn!(sessions = tasks.len(), "running statements are cancelled");
        context.set_phase(Phase::Killing);
        connections.drain(&mut tasks, KILL_GRACE).await;
    }
    connections.abort(tasks);
}

/// Serves one connection.
async fn serve(stream: TcpStream, context: Arc<Context>, admission: Admission) {
    let mut wire = Wire::new(stream, Arc::clone(&context.input));
    // A connection takes a slot before its startup packet: silent clients must not exhaust
    // resources.
    let refusal = admission.refusal();
    let extra = if refusal == Some(Refusal::Slots) { context.extra_slots.try_acquire().ok() } else { None };
    let refusal = refusal.map(|refusal| refused(&context, refusal));
    if let Some(error) = &refusal
        && extra.is_none()
    {
        backend::error(&mut wire.output, Severity::Fatal, error);
        let _ = tokio::time::timeout(REFUSAL_TIMEOUT, wire.close()).await;
        return;
    }
    let greeting =
        tokio::time::timeout(context.options.startup_timeout, startup::read_startup(&mut wire, &context)).await;
    let end = match greeting {
        Ok(Ok(StartupOutcome::Session { user, settings })) => match refusal {
            None => serve_session(&mut wire, &context, &user, &settings).await,
            Some(error) => Err(Lost::Fatal(error)),
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

async fn serve_session(
    wire: &mut Wire,
    context: &Arc<Context>,
    user: &str,
    settings: &[(String, String)],
) -> Result<(), Lost> {
    if !context.connections.is_running() {
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
    let (stop, notified) = (registration.stop.clone(), Arc::new(Notify::new()));
    let woken = Arc::clone(&notified);
    session.on_wake(move |wake| match wake {
        Wake::Notified => woken.notify_one(),
        Wake::Overrun => stop.terminate(),
    });
    startup::send_greeting(&mut wire.output, &mut session, registration.key, settings).map_err(Lost::Fatal)?;
    let _open = context.counters.sessions.hold();
    tracing::debug!(user, process = registration.key.process, "session started");
    let mut connection = Connection::new(wire, session, Arc::clone(context), registration, notified);
    let end = connection.run().await;
    connection.rollback();
    end
}

/// Error for a session without a slot.
fn refused(context: &Context, refusal: Refusal) -> Error {
    let (reason, hint) = match refusal {
        Refusal::Slots => (
            format!("all {} connections are taken", context.options.limits.connections_max),
            "close some, or raise --max-connections",
        ),
        Refusal::Handles => (
            "the server has no free file handle".to_owned(),
            "close some, or raise the server's limit of open files (ulimit -n)",
        ),
    };
    let message = format!("sorry, too many clients already: {reason}");
    Error::new(SqlState::TOO_MANY_CONNECTIONS, message).with_hint(hint)
}

fn shutting_down() -> Lost {
    Lost::Fatal(Error::new(SqlState::ADMIN_SHUTDOWN, "terminating connection due to administrator command"))
}

#[cfg(test)]
mod tests;
