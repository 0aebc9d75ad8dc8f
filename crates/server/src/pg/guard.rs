//! Stops a running statement: on request, at its timeout, at the end of a shutdown, or when its client is gone.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use model::{Error, SqlState};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};

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

/// Everything that can stop a statement.
pub(super) struct Guard {
    pub(super) stop: Arc<Notify>,
    pub(super) phase: watch::Receiver<Phase>,
    pub(super) stream: Arc<TcpStream>,
    pub(super) timeout: Option<Duration>,
    /// Set while the statement's commit waits for the log: it happens, and is not reported as stopped.
    pub(super) decided: Arc<AtomicBool>,
}

impl Guard {
    /// Runs `work` to its end, or drops it when there is a reason to.
    pub(super) async fn watch<T>(mut self, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        // Made first: from here on a request is for this statement.
        let stopped = self.stop.notified();
        let canceled = |why: &str| Error::new(SqlState::QUERY_CANCELED, format!("canceling statement due to {why}"));
        let mut work = std::pin::pin!(work);
        let fault = tokio::select! {
            biased;
            result = &mut work => return result,
            () = stopped => canceled("user request").into(),
            () = expired(self.timeout) => canceled("statement timeout").into(),
            () = reached(&mut self.phase, Phase::Killing) => shutting_down().into(),
            () = gone(&self.stream) => Lost::Gone.into(),
        };
        if self.decided.load(Ordering::Acquire) {
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
