//! Registry of sessions, and their cancellation.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use parking_lot::Mutex;
use query::StopFlag;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::Notify;

/// Process id and secret that a CancelRequest must repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) process: u32,
    pub(super) secret: u32,
}

/// Handle to cancel a session's statement, whether it waits or computes, and to terminate the
/// session, even if it is idle.
#[derive(Clone)]
pub(super) struct Stop {
    pub(super) waiting: Arc<Notify>,
    pub(super) computing: Arc<StopFlag>,
    pub(super) idle: Arc<Idle>,
    terminated: Arc<AtomicBool>,
}

impl Stop {
    /// Cancels the running statement. Statements that start later are not affected, so a request
    /// between two statements has no effect.
    pub(super) fn cancel(&self) {
        // Set the flag first: a statement reads it when it begins to wait.
        self.computing.cancel();
        self.waiting.notify_waiters();
    }

    /// Terminates the session, after its statement if that cannot be cancelled.
    pub(super) fn terminate(&self) {
        self.terminated.store(true, Ordering::SeqCst);
        self.cancel();
        self.idle.hang_up();
    }

    /// Whether the session must end.
    pub(super) fn is_terminated(&self) -> bool {
        self.terminated.load(Ordering::SeqCst)
    }
}

/// Whether a session waits for its client, and the socket by which to wake it.
///
/// Waiting for the shutdown signal as well would cost time with every message.
#[derive(Default)]
pub(super) struct Idle {
    is_waiting: AtomicBool,
    socket: Option<Arc<OwnedWriteHalf>>,
}

impl Idle {
    pub(super) fn at(socket: Arc<OwnedWriteHalf>) -> Idle {
        Idle { is_waiting: AtomicBool::new(false), socket: Some(socket) }
    }

    /// Marks the session as waiting. The caller must check for a shutdown afterwards; the shutdown
    /// reads this mark after its own.
    pub(super) fn begin(&self) {
        self.is_waiting.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    pub(super) fn end(&self) {
        self.is_waiting.store(false, Ordering::Relaxed);
    }

    /// Wakes a waiting session by shutting down the read side of its socket.
    fn hang_up(&self) {
        fence(Ordering::SeqCst);
        if let (true, Some(socket)) = (self.is_waiting.load(Ordering::SeqCst), &self.socket) {
            let ended = socket2::SockRef::from((**socket).as_ref()).shutdown(std::net::Shutdown::Read);
            if let Err(error) = ended {
                tracing::debug!(%error, "a client is gone already");
            }
        }
    }
}

/// All sessions that can be cancelled.
#[derive(Default)]
pub(super) struct Registry {
    turn: AtomicU64,
    /// Randomly keyed by the system: its hashes are unpredictable secrets.
    secrets: RandomState,
    sessions: Mutex<HashMap<u32, (u32, Stop)>>,
}

impl Registry {
    /// Registers a session under its process id, which must be unique. Dropping the registration
    /// removes it.
    pub(super) fn register(self: &Arc<Registry>, process: u32, computing: Arc<StopFlag>, idle: Idle) -> Registration {
        // Part of the hash, so that a reused process id gets a new secret.
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

    /// Terminates all sessions, and their statements.
    pub(super) fn terminate_all(&self) {
        self.sessions.lock().values().for_each(|(_, stop)| stop.terminate());
    }

    /// Cancels a session's running statement. A wrong secret has no effect and gets no response.
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

/// Registration of a session.
pub(super) struct Registration {
    registry: Arc<Registry>,
    pub(super) key: Key,
    /// Cancellation handle of the session.
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
    fn only_the_right_secret_of_a_live_session_cancels() {
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
