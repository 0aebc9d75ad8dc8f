//! Runs small programs under schedules chosen by a model checker (shuttle): `cargo xtask model`, or
//! `RUSTFLAGS="--cfg shuttle" cargo test -p rows model`.
//!
//! A thread switch may happen between any two uses of a lock, atomic or pointer of `sync`. A
//! program whose threads all wait fails at once. A failure prints the schedule, for
//! `shuttle::replay`.
//!
//! Not covered: memory orders weaker than sequential consistency, and premature frees or reuse of
//! record numbers, because `crossbeam-epoch` is not modelled and treats all modelled threads as
//! one.

use std::sync::Arc;

use crossbeam_epoch::{CompareExchangeError, Guard, Owned, Pointer, Shared};
use env::Event;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::MutexGuard;
use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::thread::{self, JoinHandle};
use shuttle::{Config, Runner};

/// Schedules of each kind per program; `MODEL_SCHEDULES` overrides it.
const SCHEDULES: usize = 1_000;
/// Stack size for the deepest call; shuttle's default is too small.
const STACK_BYTES: usize = 256 << 10;
/// PCT schedules: number of priority changes.
const CHANGES: usize = 4;

/// Runs a program under random schedules and under PCT schedules, which have long runs and few
/// switches.
pub(crate) fn check(program: impl Fn() + Send + Sync + 'static) {
    let schedules = std::env::var("MODEL_SCHEDULES").map_or(SCHEDULES, |count| count.parse().expect("a number"));
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.silence_warnings = true;
    let (random, pct) = (Arc::new(program), config.clone());
    let program = Arc::clone(&random);
    Runner::new(RandomScheduler::new(schedules), config).run(move || random());
    Runner::new(PctScheduler::new(CHANGES, schedules), pct).run(move || program());
}

/// Spawns a modelled thread with the state shared by all threads of a program.
pub(crate) fn spawn<S, T>(shared: &Arc<S>, work: impl FnOnce(&S) -> T + Send + 'static) -> JoinHandle<T>
where
    S: Send + Sync + 'static,
    T: Send + 'static,
{
    let shared = Arc::clone(shared);
    thread::spawn(move || work(&shared))
}

/// Joins threads and returns their results. All are started before the first is joined.
pub(crate) fn join<T>(threads: impl IntoIterator<Item = JoinHandle<T>>) -> Vec<T> {
    let threads: Vec<_> = threads.into_iter().collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

/// Waits for an event as a modelled thread. The event is not modelled: setting it is one step and
/// wakes the thread.
pub(crate) fn wait(event: &Event) {
    let waiting = thread::current();
    event.on_set(move || waiting.unpark());
    while !event.is_set() {
        thread::park();
    }
}

/// The model checker's mutex with parking_lot's interface; poisoning cannot happen.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Mutex<T> {
        Mutex(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap()
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }
}

/// A `crossbeam-epoch` pointer whose uses are switch points.
pub(crate) struct Atomic<T> {
    pointer: crossbeam_epoch::Atomic<T>,
    /// Loaded before each use: this is the switch point.
    step: AtomicBool,
}

impl<T> Atomic<T> {
    pub(crate) fn null() -> Atomic<T> {
        Shared::null().into()
    }

    fn step(&self) -> &crossbeam_epoch::Atomic<T> {
        self.step.load(Ordering::SeqCst);
        &self.pointer
    }

    pub(crate) fn load<'g>(&self, order: Ordering, guard: &'g Guard) -> Shared<'g, T> {
        self.step().load(order, guard)
    }

    pub(crate) fn store<P: Pointer<T>>(&self, new: P, order: Ordering) {
        self.step().store(new, order);
    }

    pub(crate) fn swap<'g>(&self, new: Shared<'_, T>, order: Ordering, guard: &'g Guard) -> Shared<'g, T> {
        self.step().swap(new, order, guard)
    }

    pub(crate) fn compare_exchange<'g, P: Pointer<T>>(
        &self,
        current: Shared<'_, T>,
        new: P,
        success: Ordering,
        failure: Ordering,
        guard: &'g Guard,
    ) -> Result<Shared<'g, T>, CompareExchangeError<'g, T, P>> {
        self.step().compare_exchange(current, new, success, failure, guard)
    }

    /// # Safety
    /// As for crossbeam: no other thread may have the pointer.
    pub(crate) unsafe fn try_into_owned(self) -> Option<Owned<T>> {
        // SAFETY: by the caller's contract.
        unsafe { self.pointer.try_into_owned() }
    }
}

impl<T> Default for Atomic<T> {
    fn default() -> Atomic<T> {
        Atomic::null()
    }
}

impl<T> From<Shared<'_, T>> for Atomic<T> {
    fn from(pointer: Shared<'_, T>) -> Atomic<T> {
        Atomic { pointer: pointer.into(), step: AtomicBool::new(false) }
    }
}
