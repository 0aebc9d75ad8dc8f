//! What threads meet in: the real locks and atomics, or those of a model checker, which chooses who goes on at each of
//! them (`tests`).
//!
//! Everything on which the order of threads decides what is right comes from here: the words and queues of locks, versions,
//! what serializable transactions are told, garbage, the nodes of an index. Not so counters of rows and bytes, and what is
//! called when memory is freed: that happens outside of any model too.

#[cfg(not(all(test, shuttle)))]
pub(crate) use crossbeam_epoch::Atomic;
#[cfg(not(all(test, shuttle)))]
pub(crate) use parking_lot::{Mutex, MutexGuard};
#[cfg(not(all(test, shuttle)))]
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

#[cfg(all(test, shuttle))]
pub(crate) mod tests;
#[cfg(all(test, shuttle))]
pub(crate) use shuttle::sync::MutexGuard;
#[cfg(all(test, shuttle))]
pub(crate) use shuttle::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
#[cfg(all(test, shuttle))]
pub(crate) use tests::{Atomic, Mutex};
