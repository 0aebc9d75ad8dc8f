//! Watches a running statement: cancellation, statement timeout, shutdown, disconnect.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use model::{Error, SqlState};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::watch;
use tokio::time::Instant;

use super::cancel::Stop;
use super::wire::Lost;
use super::{Phase, reached, shutting_down};

/// Reason why a statement did not complete.
#[derive(Debug)]
pub(super) enum Fault {
    /// The statement failed; the session continues.
    Statement(Error),
    /// The connection is lost or must end.
    Lost(Lost),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Statement(error)
    }
}

impl From<Lost> for Fault {
    fn from(lost: Lost) -> Fault {
        Fault::Lost(lost)
    }
}

/// Everything that can stop the statements of a connection.
pub(super) struct StopSignals {
    pub(super) stop: Stop,
    pub(super) phase: watch::Receiver<Phase>,
    pub(super) socket: Arc<OwnedWriteHalf>,
    /// Set while a commit waits for the log: it will happen, and must not be reported as cancelled.
    pub(super) decided: Arc<AtomicBool>,
}

/// Watches one statement.
pub(super) struct Watchdog {
    stops: Arc<StopSignals>,
    until: Option<Instant>,
}

impl Watchdog {
    /// Starts a statement's timeout.
    pub(super) fn new(stops: &Arc<StopSignals>, timeout: Option<Duration>) -> Watchdog {
        stops.stop.computing.arm(timeout);
        Watchdog { stops: Arc::clone(stops), until: timeout.map(|timeout| Instant::now() + timeout) }
    }

    /// Runs `work` until it completes or must be stopped. (Pinned by reference, because the future
    /// is large to move.)
    pub(super) async fn watch<T>(
        &self,
        mut work: Pin<&mut impl Future<Output = Result<T, Fault>>>,
    ) -> Result<T, Fault> {
        let StopSignals { stop, phase, socket, decided } = &*self.stops;
        let stopped = stop.waiting.notified();
        // Most statements complete at once and need no watching.
        if let Poll::Ready(result) = futures::poll!(&mut work) {
            return result;
        }
        let canceled = |why: &str| Error::new(SqlState::QUERY_CANCELED, format!("canceling statement due to {why}"));
        // A request that arrived while the statement computed has notified nobody.
        if stop.is_terminated() && !decided.load(Ordering::Acquire) {
            return Err(shutting_down().into());
        }
        if stop.computing.is_canceled() && !decided.load(Ordering::Acquire) {
            return Err(canceled("user request").into());
        }
        let mut phase = phase.clone();
        let fault = tokio::select! {
            biased;
            result = &mut work => return result,
            () = stopped => if stop.is_terminated() { shutting_down().into() } else { canceled("user request").into() },
            () = deadline_reached(self.until) => canceled("statement timeout").into(),
            () = reached(&mut phase, Phase::Killing) => shutting_down().into(),
            () = disconnected((**socket).as_ref()) => Lost::Gone.into(),
        };
        if decided.load(Ordering::Acquire) {
            // The commit is decided: wait for its result.
            return work.await;
        }
        Err(fault)
    }
}

async fn deadline_reached(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}

/// Resolves after the timeout; without one, never.
pub(super) async fn expired(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
}

/// Resolves when the client has disconnected. Unread input hides that and is not consumed.
async fn disconnected(stream: &TcpStream) {
    match stream.peek(&mut [0]).await {
        Ok(0) => (),
        Err(error) if error.kind() != io::ErrorKind::Interrupted => (),
        _ => std::future::pending().await,
    }
}
