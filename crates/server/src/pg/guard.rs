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

async fn expired(timeout: Option<Duration>) {
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

/// Reads what SHOW gives for a time setting: a number, in milliseconds unless a unit follows; zero is none.
pub(crate) fn duration(setting: &str) -> Option<Duration> {
    let setting = setting.trim();
    let end = setting.find(|c: char| !c.is_ascii_digit()).unwrap_or(setting.len());
    let count: u64 = setting[..end].parse().ok().filter(|count| *count > 0)?;
    let unit_ms = match setting[end..].trim() {
        "" | "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    Some(Duration::from_millis(count.saturating_mul(unit_ms)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_settings_are_read_with_and_without_units() {
        for (setting, expected) in [
            ("0", None),
            ("250", Some(250)),
            ("5s", Some(5_000)),
            ("2min", Some(120_000)),
            ("1 d", Some(86_400_000)),
            ("x", None),
        ] {
            assert_eq!(duration(setting), expected.map(Duration::from_millis), "{setting}");
        }
    }
}
