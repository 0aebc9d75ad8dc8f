//! Small programs run under schedules that a model checker (shuttle) chooses: `cargo xtask model`, or
//! `RUSTFLAGS="--cfg shuttle" cargo test -p rows model`.
//!
//! Between any two uses of a lock, an atomic or a pointer of `sync` another thread may go on. A program that cannot go on,
//! because everybody waits, fails at once. What a failed program prints is the schedule, for `shuttle::replay`.
//!
//! What it does not see: orders weaker than sequential consistency, and memory that is freed, or a record's number used
//! again, too early: `crossbeam-epoch` is the real one, and takes all modelled threads for one.

use std::sync::Arc;

use crossbeam_epoch::{CompareExchangeError, Guard, Owned, Pointer, Shared};
use env::Event;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::MutexGuard;
use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::thread::{self, JoinHandle};
use shuttle::{Config, Runner};

/// Schedules of each of the two kinds for each program, unless `MODEL_SCHEDULES` says how many.
const SCHEDULES: usize = 1_000;
/// More than the deepest call takes; shuttle's own default is less.
const STACK_BYTES: usize = 256 << 10;
/// Of the second kind of schedules: how often the most urgent thread changes unasked.
const CHANGES: usize = 4;

/// Runs a program under many schedules: of random steps, and of long runs with few changes between threads.
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

/// Runs `work` with what all threads of a program share.
pub(crate) fn spawn<S, T>(shared: &Arc<S>, work: impl FnOnce(&S) -> T + Send + 'static) -> JoinHandle<T>
where
    S: Send + Sync + 'static,
    T: Send + 'static,
{
    let shared = Arc::clone(shared);
    thread::spawn(move || work(&shared))
}

/// Waits for the ends of threads and gives what they gave. They are all begun before the first is waited for.
pub(crate) fn join<T>(threads: impl IntoIterator<Item = JoinHandle<T>>) -> Vec<T> {
    let threads: Vec<_> = threads.into_iter().collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

/// Waits for an event as a modelled thread. The event itself is a real one: it is set in one step, and wakes the thread.
pub(crate) fn wait(event: &Event) {
    let waiting = thread::current();
    event.on_set(move || waiting.unpark());
    while !event.is_set() {
        thread::park();
    }
}

/// The model checker's mutex in the shape of ours: nobody panics while holding one and goes on.
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

/// A pointer of `crossbeam-epoch`, at whose uses others may go on.
pub(crate) struct Atomic<T> {
    pointer: crossbeam_epoch::Atomic<T>,
    /// Looked at before each use: that is where the model checker comes in.
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
    /// As crossbeam's: nobody else may have the pointer.
    pub(crate) unsafe fn try_into_owned(self) -> Option<Owned<T>> {
        // SAFETY: the caller's.
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
