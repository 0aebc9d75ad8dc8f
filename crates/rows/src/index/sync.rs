//! Locks and atomics: the real ones, or those of the model checker.

#[cfg(not(all(test, shuttle)))]
pub(super) use parking_lot::{Mutex, MutexGuard};
#[cfg(not(all(test, shuttle)))]
pub(super) use std::sync::atomic::{AtomicPtr, AtomicU32};

#[cfg(all(test, shuttle))]
pub(super) use shuttle::sync::MutexGuard;
#[cfg(all(test, shuttle))]
pub(super) use shuttle::sync::atomic::{AtomicPtr, AtomicU32};

/// The model checker's mutex in the shape of ours: nobody panics while holding one and goes on.
#[cfg(all(test, shuttle))]
pub(super) struct Mutex<T>(shuttle::sync::Mutex<T>);

#[cfg(all(test, shuttle))]
impl<T> Mutex<T> {
    pub(super) fn new(value: T) -> Mutex<T> {
        Mutex(shuttle::sync::Mutex::new(value))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap()
    }

    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }
}
