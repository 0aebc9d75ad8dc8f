//! Synchronisation primitives: parking_lot and std in normal builds, shuttle's in model-checked
//! tests (`tests`), where the checker picks the next thread at each of them.
//!
//! Use these wherever thread interleaving affects correctness: lock words and queues, versions,
//! read-set validation, garbage collection, index nodes. Exempt are row and byte counters, and
//! callbacks that run while memory is freed, which no model covers.

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
