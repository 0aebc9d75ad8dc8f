//! Stops a running statement: on request, at its timeout, at the end of a shutdown, or when its client is gone.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use model::{Error, SqlState};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::watch;

use super::cancel::Stop;
use super::wire::Lost;
use super::{Phase, reached, shutting_down};

/// Why a statement did not come to its end.
#[derive(Debug)]
pub(super) enum Fault {
    /// It failed; the session goes on.
    Statement(Error),
    /// The connection ends.
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
pub(super) struct Stops {
    pub(super) stop: Stop,
    pub(super) phase: watch::Receiver<Phase>,
    pub(super) socket: Arc<OwnedWriteHalf>,
    /// Set while the statement's commit waits for the log: it happens, and is not reported as stopped.
    pub(super) decided: Arc<AtomicBool>,
}

/// The same, for one statement.
pub(super) struct Guard {
    pub(super) stops: Arc<Stops>,
    pub(super) timeout: Option<Duration>,
}

impl Guard {
    /// Runs `work` to its end, or drops it when there is a reason to.
    pub(super) async fn watch<T>(self, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        let Stops { stop, phase, socket, decided } = &*self.stops;
        // Made first: from here on a request is for this statement.
        let stopped = stop.waiting.notified();
        stop.computing.arm(self.timeout);
        let mut work = std::pin::pin!(work);
        // Most statements are done at once, and need no watching.
        if let Poll::Ready(result) = futures::poll!(&mut work) {
            return result;
        }
        let canceled = |why: &str| Error::new(SqlState::QUERY_CANCELED, format!("canceling statement due to {why}"));
        let mut phase = phase.clone();
        let fault = tokio::select! {
            biased;
            result = &mut work => return result,
            () = stopped => canceled("user request").into(),
            () = expired(self.timeout) => canceled("statement timeout").into(),
            () = reached(&mut phase, Phase::Killing) => shutting_down().into(),
            () = gone((**socket).as_ref()) => Lost::Gone.into(),
        };
        if decided.load(Ordering::Acquire) {
            // A right answer a little later beats a wrong one now.
            return work.await;
        }
        Err(fault)
    }
}

/// Ends after this time; without one never.
pub(super) async fn expired(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
}

/// Ends when the client has closed the connection. Input that waits to be read hides that, and is left alone.
async fn gone(stream: &TcpStream) {
    match stream.peek(&mut [0]).await {
        Ok(0) => (),
        Err(error) if error.kind() != io::ErrorKind::Interrupted => (),
        _ => std::future::pending().await,
    }
}
