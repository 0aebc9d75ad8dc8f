//! Connections of a listener: accepting them under limits, counting them, and ending them at shutdown.
//!
//! Every listener uses it; a protocol adds what it does with an accepted connection.
//!
//! Always true:
//! - The number of connections with a slot is at most [`Limits::connections_max`].
//! - The last file handles are never given to clients, except to those of the health listener.
//! - After [`Connections::shut_down`] no connection is accepted.

use std::future::Future;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{JoinError, JoinSet};

use crate::metrics::{Counter, Exposition, Gauge};

/// File handles reserved for the engine and the health listener: log files, flushes, compactions.
const RESERVED_HANDLES: u64 = 32;
/// With few handles, one in this many is reserved instead.
const RESERVED_SHARE: u64 = 8;
/// Pause after a failed accept: initial and longest.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Log interval while a shortage lasts.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Limits of every listener.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Most concurrent connections; further ones are refused.
    pub connections_max: usize,
    /// Time that running work gets to finish after a shutdown began.
    pub shutdown_grace: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { connections_max: model::limits::CONNECTIONS_DEFAULT, shutdown_grace: Duration::from_secs(30) }
    }
}

/// Phase of the shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(crate) enum Phase {
    Running,
    /// No new connections; idle ones end, running work finishes.
    Stopping,
    /// Running work is cancelled.
    Killing,
}

/// State shared by the connections of one listener.
pub(crate) struct Connections {
    /// Name of the listener, for metrics.
    name: &'static str,
    /// Name of the protocol, for messages.
    protocol: &'static str,
    limits: Limits,
    /// Connections with this handle number or a higher one are refused. The system assigns the lowest free number.
    handles_max: u64,
    slots: Arc<Semaphore>,
    phase: watch::Sender<Phase>,
    accepted: Counter,
    open: Gauge,
    refused: Counter,
}

/// Reason for refusing a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// All slots are taken.
    Slots,
    /// No file handle is free for clients.
    Handles,
}

/// Admission of an accepted connection, which counts as open until this is dropped.
pub(crate) struct Admission {
    connections: Arc<Connections>,
    slot: Result<OwnedSemaphorePermit, Refusal>,
}

impl Admission {
    /// Reason for which the connection has no slot.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        self.slot.as_ref().err().copied()
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.connections.open.down();
    }
}

impl Connections {
    /// State for a listener whose clients may take the numbers of `handles` file handles, except reserved ones.
    pub(crate) fn new(name: &'static str, protocol: &'static str, handles: u64, limits: Limits) -> Arc<Connections> {
        Arc::new(Connections {
            name,
            protocol,
            handles_max: handles - RESERVED_HANDLES.min(handles / RESERVED_SHARE),
            slots: Arc::new(Semaphore::new(limits.connections_max)),
            limits,
            phase: watch::Sender::new(Phase::Running),
            accepted: Counter::default(),
            open: Gauge::default(),
            refused: Counter::default(),
        })
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Makes [`Connections::run`] stop accepting, and [`Connections::stopped`] resolve.
    pub(crate) fn shut_down(&self) {
        self.set_phase(Phase::Stopping);
    }

    /// Begins a phase, unless a later one has begun.
    pub(crate) fn set_phase(&self, phase: Phase) {
        self.phase.send_if_modified(|current| {
            let later = *current < phase;
            *current = if later { phase } else { *current };
            later
        });
    }

    /// Changes of the phase from now on.
    pub(crate) fn phases(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    pub(crate) fn is_running(&self) -> bool {
        *self.phase.borrow() == Phase::Running
    }

    /// Resolves at shutdown.
    pub(crate) async fn stopped(&self) {
        reached(&mut self.phase.subscribe(), Phase::Stopping).await;
    }

    /// Acceptor for a bound listener.
    pub(crate) fn acceptor(self: &Arc<Connections>, listener: TcpListener) -> Acceptor {
        Acceptor { listener, connections: Arc::clone(self), pause: PAUSE_MIN, logged: None, unlogged: 0 }
    }

    /// Accepts connections until the shutdown, serves each by a task, and returns the tasks that still run then.
    pub(crate) async fn run<F>(
        self: &Arc<Connections>,
        listener: TcpListener,
        serve: impl Fn(TcpStream, Admission) -> F,
    ) -> JoinSet<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut acceptor = self.acceptor(listener);
        let mut tasks = JoinSet::new();
        let mut stopped = std::pin::pin!(self.stopped());
        loop {
            tokio::select! {
                () = &mut stopped => return tasks,
                Some(ended) = tasks.join_next() => self.report_panic(ended),
                (stream, admission) = acceptor.accept() => {
                    tasks.spawn(serve(stream, admission));
                }
            }
        }
    }

    /// Waits up to `grace` for the tasks; returns whether all have ended.
    pub(crate) async fn drain(&self, tasks: &mut JoinSet<()>, grace: Duration) -> bool {
        let all = async {
            while let Some(ended) = tasks.join_next().await {
                self.report_panic(ended);
            }
        };
        tokio::time::timeout(grace, all).await.is_ok()
    }

    /// Aborts the tasks that did not end in time.
    pub(crate) fn abort(&self, tasks: JoinSet<()>) {
        if !tasks.is_empty() {
            tracing::warn!(listener = self.protocol, connections = tasks.len(), "connections aborted at shutdown");
        }
    }

    fn report_panic(&self, ended: Result<(), JoinError>) {
        if let Err(error) = ended {
            tracing::error!(listener = self.protocol, %error, "BUG: a connection ended by a panic");
        }
    }

    /// Adds the metrics of connections to a `/metrics` page.
    pub(crate) fn expose(&self, out: &mut Exposition) {
        let Connections { name, protocol, .. } = self;
        out.counter(
            &format!("millrace_{name}_connections_total"),
            &format!("{protocol} connections accepted."),
            self.accepted.get(),
        );
        out.gauge(&format!("millrace_{name}_connections"), &format!("{protocol} connections open."), self.open.get());
        out.counter(
            &format!("millrace_{name}_connections_refused_total"),
            &format!("{protocol} connections refused because all slots were taken."),
            self.refused.get(),
        );
    }

    /// Takes a slot for a connection; counts it.
    fn admit(self: &Arc<Connections>, has_handle: bool) -> Admission {
        self.accepted.add(1);
        self.open.up();
        let slot = match Arc::clone(&self.slots).try_acquire_owned() {
            _ if !has_handle => Err(Refusal::Handles),
            Ok(slot) => Ok(slot),
            Err(_) => Err(Refusal::Slots),
        };
        self.refused.add(u64::from(slot.is_err()));
        Admission { connections: Arc::clone(self), slot }
    }
}

/// Resolves when the shutdown reaches phase `least`, or the listener's state is dropped.
pub(crate) async fn reached(phases: &mut watch::Receiver<Phase>, least: Phase) {
    // The value is borrowed under a lock that must not be held across an await of the caller.
    drop(phases.wait_for(|phase| *phase >= least).await);
}

/// Accepts the connections of one listener.
pub(crate) struct Acceptor {
    listener: TcpListener,
    connections: Arc<Connections>,
    pause: Duration,
    /// Time of the last log line about a shortage; failures since then.
    logged: Option<Instant>,
    unlogged: u64,
}

impl Acceptor {
    /// Accepts a connection and takes a slot for it. Cancellation-safe.
    pub(crate) async fn accept(&mut self) -> (TcpStream, Admission) {
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => {
                    tracing::debug!(%address, listener = self.connections.protocol, "connection accepted");
                    let handle = u64::try_from(stream.as_raw_fd());
                    let has_handle = handle.is_ok_and(|handle| handle < self.connections.handles_max);
                    if has_handle {
                        self.pause = PAUSE_MIN;
                    } else {
                        self.log("no file handle is free for clients");
                    }
                    prepare_socket(&stream);
                    return (stream, self.connections.admit(has_handle));
                }
                Err(error) => {
                    self.log(&error.to_string());
                    let pause = self.pause;
                    self.pause = (pause * 2).min(PAUSE_MAX);
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    /// Logs the first failure at once, later ones at most every [`LOG_EVERY`], with their number.
    fn log(&mut self, error: &str) {
        self.unlogged += 1;
        if self.logged.is_some_and(|at| at.elapsed() < LOG_EVERY) {
            return;
        }
        self.logged = Some(Instant::now());
        let times = std::mem::take(&mut self.unlogged);
        tracing::warn!(
            listener = self.connections.protocol,
            error,
            times,
            "cannot accept connections; close some, or raise the limit of open files (ulimit -n)"
        );
    }
}

/// Small responses must not be delayed, and a vanished client must be detected.
fn prepare_socket(stream: &TcpStream) {
    let keepalive =
        socket2::TcpKeepalive::new().with_time(Duration::from_secs(60)).with_interval(Duration::from_secs(15));
    let result = stream.set_nodelay(true).and_then(|()| socket2::SockRef::from(stream).set_tcp_keepalive(&keepalive));
    if let Err(error) = result {
        tracing::debug!(%error, "cannot set socket options");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections(connections_max: usize, grace_ms: u64) -> Arc<Connections> {
        let limits = Limits { connections_max, shutdown_grace: Duration::from_millis(grace_ms) };
        Connections::new("toy", "Toy", u64::MAX, limits)
    }

    async fn listener() -> (TcpListener, std::net::SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    #[tokio::test]
    async fn a_connection_above_the_limit_is_refused_and_all_are_counted() {
        let connections = connections(1, 1_000);
        let (listener, address) = listener().await;
        let mut acceptor = connections.acceptor(listener);
        let _clients = [TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap()];
        let (_stream, first) = acceptor.accept().await;
        let (_stream, second) = acceptor.accept().await;
        assert_eq!((first.refusal(), second.refusal()), (None, Some(Refusal::Slots)));
        drop((first, second));
        let _client = TcpStream::connect(address).await.unwrap();
        let (_stream, third) = acceptor.accept().await;
        assert_eq!(third.refusal(), None);
        let mut out = Exposition::default();
        connections.expose(&mut out);
        let text = out.finish();
        for line in [
            "millrace_toy_connections_total 3",
            "millrace_toy_connections 1",
            "millrace_toy_connections_refused_total 1",
            "# HELP millrace_toy_connections_total Toy connections accepted.",
        ] {
            assert!(text.lines().any(|seen| seen == line), "{line} is missing in\n{text}");
        }
    }

    #[tokio::test]
    async fn a_connection_with_a_reserved_handle_is_refused() {
        // Only number 0 may be given to a client, and every socket has a higher one.
        let connections = Connections::new("toy", "Toy", 1, Limits::default());
        let (listener, address) = listener().await;
        let mut acceptor = connections.acceptor(listener);
        let _client = TcpStream::connect(address).await.unwrap();
        assert_eq!(acceptor.accept().await.1.refusal(), Some(Refusal::Handles));
    }

    #[tokio::test]
    async fn shutdown_ends_the_accepting_and_waits_for_the_grace_period_only() {
        for (lasts_ms, grace_ms, ends) in [(10, 60_000, true), (60_000, 10, false)] {
            let connections = connections(10, grace_ms);
            let (listener, address) = listener().await;
            let _client = TcpStream::connect(address).await.unwrap();
            let running = connections.run(listener, |_, admission| {
                admission.connections.shut_down();
                async move {
                    tokio::time::sleep(Duration::from_millis(lasts_ms)).await;
                    drop(admission);
                }
            });
            let mut tasks = running.await;
            assert!(TcpStream::connect(address).await.is_err());
            assert_eq!(connections.drain(&mut tasks, connections.limits().shutdown_grace).await, ends, "{lasts_ms}");
            assert_eq!(tasks.is_empty(), ends);
            connections.abort(tasks);
        }
    }
}
