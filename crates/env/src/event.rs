//! A one-shot latch: set once, waited for by any number of threads, with callbacks for code that
//! must not block.

use std::fmt;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

/// A latch that is set once. Clones share it.
#[derive(Clone, Default)]
pub struct Event(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    set: bool,
    callbacks: Vec<Box<dyn FnOnce() + Send>>,
}

impl Event {
    /// Returns an event that is not set.
    #[must_use]
    pub fn new() -> Event {
        Event::default()
    }

    /// Returns an event that is set.
    #[must_use]
    pub fn ready() -> Event {
        let event = Event::new();
        event.set();
        event
    }

    /// Sets the latch and runs the callbacks on the caller's thread, without holding the latch's
    /// lock.
    pub fn set(&self) {
        let callbacks = {
            let mut state = self.0.state.lock();
            let waiting = state.callbacks.len();
            assert!(!state.set || waiting == 0, "BUG: {waiting} callbacks of an event that is set did not run");
            state.set = true;
            std::mem::take(&mut state.callbacks)
        };
        self.0.changed.notify_all();
        for callback in callbacks {
            callback();
        }
    }

    /// Whether the latch is set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.state.lock().set
    }

    /// Runs `callback` when the latch is set: immediately if it is, else on the thread that sets
    /// it. The callback must be quick.
    pub fn on_set(&self, callback: impl FnOnce() + Send + 'static) {
        let mut state = self.0.state.lock();
        if state.set {
            drop(state);
            callback();
        } else {
            state.callbacks.push(Box::new(callback));
        }
    }

    /// Blocks the thread. Only an [`Env`](crate::Env) calls this; other code uses
    /// [`Env::wait`](crate::Env::wait).
    pub(crate) fn block(&self) {
        let mut state = self.0.state.lock();
        while !state.set {
            self.0.changed.wait(&mut state);
        }
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event(set: {})", self.is_set())
    }
}
