//! Cancellation flag of statements that compute without yielding; they poll it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use env::Env;
use model::{Error, Result, SqlState};

/// Cancellation request and deadline of the statement that runs in a session; set by the connection, polled
/// by the statement.
pub struct StopFlag {
    canceled: AtomicBool,
    /// Deadline of the statement, by [`Env::monotonic_ns`]; `u64::MAX`: none.
    until: AtomicU64,
    env: Arc<dyn Env>,
}

impl fmt::Debug for StopFlag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StopFlag({:?}, until {:?})", self.canceled, self.until)
    }
}

impl StopFlag {
    /// A flag without a cancellation request or deadline.
    #[must_use]
    pub fn new(env: Arc<dyn Env>) -> StopFlag {
        StopFlag { canceled: AtomicBool::new(false), until: AtomicU64::new(u64::MAX), env }
    }

    /// Starts a statement with this timeout, and clears an earlier cancellation request.
    pub fn arm(&self, timeout: Option<Duration>) {
        let after = |timeout: Duration| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let until = timeout.map_or(u64::MAX, |timeout| self.env.monotonic_ns().saturating_add(after(timeout)));
        self.until.store(until, Ordering::Relaxed);
        self.canceled.store(false, Ordering::Relaxed);
    }

    /// Requests cancellation of the running statement.
    pub fn cancel(&self) {
        self.canceled.store(true, Ordering::Relaxed);
    }

    /// Whether cancellation of the statement was requested.
    #[must_use]
    pub fn is_canceled(&self) -> bool {
        self.canceled.load(Ordering::Relaxed)
    }

    /// Checks for cancellation and timeout.
    ///
    /// # Errors
    /// 57014 if the statement is to be cancelled.
    pub(crate) fn check(&self) -> Result<()> {
        let canceled =
            |why: &str| Err(Error::new(SqlState::QUERY_CANCELED, format!("canceling statement due to {why}")));
        if self.canceled.load(Ordering::Relaxed) {
            return canceled("user request");
        }
        let until = self.until.load(Ordering::Relaxed);
        if until != u64::MAX && self.env.monotonic_ns() >= until {
            return canceled("statement timeout");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(flag: &StopFlag) -> Option<String> {
        flag.check().err().map(|error| error.message().to_owned())
    }

    #[test]
    fn a_statement_is_stopped_by_what_came_after_it_began() {
        let flag = StopFlag::new(Arc::new(env::RealEnv::new()));
        flag.cancel();
        flag.arm(None);
        assert_eq!(state(&flag), None);
        flag.cancel();
        assert_eq!(state(&flag).as_deref(), Some("canceling statement due to user request"));
        flag.arm(Some(Duration::from_secs(1_000)));
        assert_eq!(state(&flag), None);
        flag.arm(Some(Duration::ZERO));
        assert_eq!(state(&flag).as_deref(), Some("canceling statement due to statement timeout"));
    }
}
