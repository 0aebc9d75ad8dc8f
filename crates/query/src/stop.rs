//! How a statement is stopped that computes without a break: it asks now and then.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use env::Env;
use model::{Error, Result, SqlState};

/// What whoever serves a session tells the statement that runs in it.
pub struct StopFlag {
    canceled: AtomicBool,
    /// When the statement has taken too long, by [`Env::monotonic_ns`]; the largest number for never.
    until: AtomicU64,
    env: Arc<dyn Env>,
}

impl fmt::Debug for StopFlag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StopFlag({:?}, until {:?})", self.canceled, self.until)
    }
}

impl StopFlag {
    /// No statement is to stop.
    #[must_use]
    pub fn new(env: Arc<dyn Env>) -> StopFlag {
        StopFlag { canceled: AtomicBool::new(false), until: AtomicU64::new(u64::MAX), env }
    }

    /// A statement begins, and may take this long. What was said before is for none.
    pub fn arm(&self, timeout: Option<Duration>) {
        let after = |timeout: Duration| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let until = timeout.map_or(u64::MAX, |timeout| self.env.monotonic_ns().saturating_add(after(timeout)));
        self.until.store(until, Ordering::Relaxed);
        self.canceled.store(false, Ordering::Relaxed);
    }

    /// The statement is to stop.
    pub fn cancel(&self) {
        self.canceled.store(true, Ordering::Relaxed);
    }

    /// Was the statement told to stop?
    #[must_use]
    pub fn is_canceled(&self) -> bool {
        self.canceled.load(Ordering::Relaxed)
    }

    /// # Errors
    /// 57014 if the statement is to stop.
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
