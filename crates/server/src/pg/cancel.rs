//! Which connections exist, and how one of them is told to stop its statement.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use parking_lot::Mutex;
use query::StopFlag;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::Notify;

/// What a CancelRequest must repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) process: u32,
    pub(super) secret: u32,
}

/// The two ways of stopping a statement: while it waits, and while it computes; and of ending a session that has none.
#[derive(Clone)]
pub(super) struct Stop {
    pub(super) waiting: Arc<Notify>,
    pub(super) computing: Arc<StopFlag>,
    pub(super) idle: Arc<Idle>,
    terminated: Arc<AtomicBool>,
}

impl Stop {
    /// Stops what the session runs at this moment. What begins later goes on: a request that comes between two statements is for neither.
    pub(super) fn cancel(&self) {
        // The flag first, for who looks at it when it begins to wait.
        self.computing.cancel();
        self.waiting.notify_waiters();
    }

    /// Ends the session, after its statement if that cannot be stopped.
    pub(super) fn terminate(&self) {
        self.terminated.store(true, Ordering::SeqCst);
        self.cancel();
        self.idle.hang_up();
    }

    /// Is the session to end?
    pub(super) fn is_terminated(&self) -> bool {
        self.terminated.load(Ordering::SeqCst)
    }
}

/// Whether a session waits for its client, and the socket by which it is woken.
///
/// A session that waited for the end of the server as well would pay for that with every message.
#[derive(Default)]
pub(super) struct Idle {
    is_so: AtomicBool,
    socket: Option<Arc<OwnedWriteHalf>>,
}

impl Idle {
    pub(super) fn at(socket: Arc<OwnedWriteHalf>) -> Idle {
        Idle { is_so: AtomicBool::new(false), socket: Some(socket) }
    }

    /// The session waits from now on. Look afterwards whether the server ends: who ends it looks here afterwards.
    pub(super) fn begin(&self) {
        self.is_so.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    pub(super) fn end(&self) {
        self.is_so.store(false, Ordering::Relaxed);
    }

    /// Has the session read the end of its input, if it waits for that.
    fn hang_up(&self) {
        fence(Ordering::SeqCst);
        if let (true, Some(socket)) = (self.is_so.load(Ordering::SeqCst), &self.socket) {
            let ended = socket2::SockRef::from((**socket).as_ref()).shutdown(std::net::Shutdown::Read);
            if let Err(error) = ended {
                tracing::debug!(%error, "a client is gone already");
            }
        }
    }
}

/// Every session that can be cancelled.
#[derive(Default)]
pub(super) struct Registry {
    turn: AtomicU64,
    /// Its keys come from the system's random numbers, which makes its hashes secrets that nobody can guess.
    secrets: RandomState,
    sessions: Mutex<HashMap<u32, (u32, Stop)>>,
}

impl Registry {
    /// Adds a session under its process number, which no other has; it is taken out when the registration is dropped.
    pub(super) fn register(self: &Arc<Registry>, process: u32, computing: Arc<StopFlag>, idle: Idle) -> Registration {
        // Counted in, so that a number that is used again gets another secret.
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let key = Key { process, secret: self.secrets.hash_one((process, turn)) as u32 };
        let stop = Stop { waiting: Arc::default(), computing, idle: Arc::new(idle), terminated: Arc::default() };
        self.sessions.lock().insert(process, (key.secret, stop.clone()));
        Registration { registry: Arc::clone(self), key, stop }
    }

    /// Wakes all sessions that wait for their clients.
    pub(super) fn hang_up(&self) {
        self.sessions.lock().values().for_each(|(_, stop)| stop.idle.hang_up());
    }

    /// Ends all sessions, with what they compute.
    pub(super) fn terminate_all(&self) {
        self.sessions.lock().values().for_each(|(_, stop)| stop.terminate());
    }

    /// Stops what the session runs at this moment. A wrong secret does nothing, and nobody is told.
    pub(super) fn cancel(&self, process: u32, secret: &[u8]) -> bool {
        let sessions = self.sessions.lock();
        match sessions.get(&process) {
            Some((expected, stop)) if secret == expected.to_be_bytes() => {
                stop.cancel();
                true
            }
            _ => false,
        }
    }
}

/// A session's place in the registry.
pub(super) struct Registration {
    registry: Arc<Registry>,
    pub(super) key: Key,
    /// Stops the running statement.
    pub(super) stop: Stop,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.registry.sessions.lock().remove(&self.key.process);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn register(registry: &Arc<Registry>, process: u32) -> Registration {
        registry.register(process, Arc::new(StopFlag::new(Arc::new(env::RealEnv::new()))), Idle::default())
    }

    #[test]
    fn only_the_right_secret_of_a_living_session_cancels() {
        let registry = Arc::new(Registry::default());
        let one = register(&registry, 1);
        let two = register(&registry, 2);
        assert!(registry.cancel(one.key.process, &one.key.secret.to_be_bytes()));
        assert!(!registry.cancel(one.key.process, &two.key.secret.to_be_bytes()));
        assert!(!registry.cancel(one.key.process, &[]));
        let key = one.key;
        drop(one);
        assert!(!registry.cancel(key.process, &key.secret.to_be_bytes()));
    }

    #[tokio::test]
    async fn a_request_between_two_statements_stops_neither() {
        let registry = Arc::new(Registry::default());
        let session = register(&registry, 7);
        registry.cancel(session.key.process, &session.key.secret.to_be_bytes());
        let late = session.stop.waiting.notified();
        tokio::pin!(late);
        assert!(futures::poll!(late.as_mut()).is_pending());
        registry.cancel(session.key.process, &session.key.secret.to_be_bytes());
        assert!(futures::poll!(late).is_ready());
    }
}
