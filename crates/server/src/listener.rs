//! The description of a listener: everything that the server, the configuration and `/metrics` must know about it.
//!
//! [`LISTENERS`] lists all of them. Flags, environment variables, keys of the configuration file, the check of
//! addresses, the message at start, `/ready`, `/metrics` and the shutdown walk over the list, so a new listener is its
//! own module and one line here.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use model::{Error, Result, SqlState, limits};
use query::Database;
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::connections::Limits;
use crate::health::Status;
use crate::http::Application;
use crate::metrics::Exposition;

/// All listeners, in the order in which they are shown.
pub static LISTENERS: [&Listener; 4] =
    [&crate::pg::LISTENER, &crate::http::LISTENER, &crate::flight::LISTENER, &crate::health::LISTENER];

/// A protocol that the server offers on an address.
pub struct Listener {
    /// Name of the flag, of the key in the configuration file, and of metrics: lower-case letters.
    pub name: &'static str,
    /// Environment variable of the address.
    pub env: &'static str,
    /// Noun phrase for the help text of the flag: "Address of …".
    pub purpose: &'static str,
    /// Default address.
    pub default: &'static str,
    /// Label of its line in the message at start.
    pub title: &'static str,
    /// Text of that line: how to reach the address.
    pub usage: fn(SocketAddr) -> String,
    pub(crate) start: Start,
}

/// Way in which a listener begins to serve.
pub(crate) enum Start {
    /// With a database. Until it is open, clients wait in the listener's queue.
    Database(fn(&Inputs) -> Arc<dyn Service>),
    /// Before the database is open, on a thread of its own, until the sender is dropped.
    Early(fn(TcpListener, Arc<Status>) -> Result<oneshot::Sender<()>>),
}

/// Inputs of listeners that serve a database.
pub(crate) struct Inputs {
    pub(crate) database: Database,
    pub(crate) limits: Limits,
    pub(crate) applications: Vec<Application>,
}

/// A listener with an open database.
pub(crate) trait Service: Send + Sync {
    /// Serves connections until [`Service::shut_down`]; resolves when all have ended or were aborted.
    fn serve(self: Arc<Self>, listener: TcpListener) -> BoxFuture<'static, ()>;

    /// Makes the server stop accepting connections, finish running work, and resolve.
    fn shut_down(&self);

    /// Adds the listener's metrics to a `/metrics` page.
    fn expose(&self, out: &mut Exposition);
}

impl Listener {
    /// The flag of the address.
    #[must_use]
    pub fn flag(&self) -> String {
        format!("--{}", self.name)
    }

    /// Whether its sessions may compute, each on a thread of its own.
    pub(crate) fn computes(&self) -> bool {
        matches!(self.start, Start::Database(_))
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.name)
    }
}

/// Limit for the bytes of the messages or bodies that a listener is receiving: a share of the memory budget, and at
/// least one body of the largest size.
pub(crate) fn input_bytes_max(memory_bytes: u64) -> usize {
    usize::try_from(memory_bytes / 8).unwrap_or(usize::MAX).max(limits::HTTP_BODY_BYTES_MAX)
}

/// Slots for work of one kind: more of it waits, for a limited time.
pub(crate) struct WorkSlots {
    slots: Arc<Semaphore>,
    timeout: Duration,
    /// Clause for the error, such as "statements are running".
    busy: &'static str,
}

impl WorkSlots {
    pub(crate) fn new(count: usize, timeout: Duration, busy: &'static str) -> WorkSlots {
        WorkSlots { slots: Arc::new(Semaphore::new(count)), timeout, busy }
    }

    /// Waits for a slot, which is free again when the permit is dropped.
    ///
    /// # Errors
    /// 53400 after the time limit.
    pub(crate) async fn take(&self) -> Result<OwnedSemaphorePermit> {
        match tokio::time::timeout(self.timeout, Arc::clone(&self.slots).acquire_owned()).await {
            Ok(Ok(slot)) => Ok(slot),
            _ => Err(Error::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, format!("too many {}; try again", self.busy))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_variables_and_addresses_of_listeners_are_regular_and_distinct() {
        let mut seen = BTreeSet::new();
        for listener in LISTENERS {
            assert!(listener.name.bytes().all(|byte| byte.is_ascii_lowercase()), "{}", listener.name);
            assert_eq!(listener.env, format!("MILLRACE_{}", listener.name.to_ascii_uppercase()));
            let address: SocketAddr = listener.default.parse().unwrap();
            assert!(address.ip().is_loopback(), "{address}: there is no authentication");
            assert!((listener.usage)(address).contains(&address.port().to_string()), "{}", listener.name);
            // A title may be the name of its own listener.
            for (fact, value) in [("name", listener.name), ("address", listener.default), ("title", listener.title)] {
                assert!(seen.insert((fact, value)), "two listeners have the {fact} {value}");
            }
        }
    }

    #[tokio::test]
    async fn work_beyond_the_slots_waits_and_is_refused_after_the_time_limit() {
        let slots = WorkSlots::new(1, Duration::from_millis(50), "statements are running");
        let first = slots.take().await.unwrap();
        let error = slots.take().await.unwrap_err();
        assert_eq!((error.state().0, error.message()), ("53400", "too many statements are running; try again"));
        let (second, ()) = tokio::join!(slots.take(), async { drop(first) });
        drop(second.unwrap());
    }
}
