//! Epoch-based memory reclamation: memory is freed once all guards that existed when it was retired
//! are dropped.
//!
//! Built on `crossbeam-epoch`, which alone does not keep up: it frees at most 512 deferred items
//! per 128 pins, and one statement retires thousands of items with a handful of pins. Retired items
//! are therefore batched per thread, a batch is one item of the epoch, and each batch tries to
//! advance the epoch. After statements, commits and collections [`Domain::catch_up`] retries until
//! little is left. The bytes of a batch are counted until it is freed.
//!
//! Two domains, so that a guard protects only what its holder reads:
//! - [`VERSIONS`]: record versions and record numbers, protected by a statement's guard
//!   ([`crossbeam_epoch::pin`]).
//! - [`NODES`]: contents and slots of index nodes, protected by a guard for one index operation. A
//!   statement that inserts a million rows replaces a million nodes; they are freed while it runs.
//!
//! Always true: each thread has at most [`BATCH_BYTES`] and [`BATCH_ITEMS`] retired items that are
//! not counted yet.

use std::cell::RefCell;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{LazyLock, Weak};

use crossbeam_epoch::{Collector, Guard, LocalHandle};

use crate::index::{FreedPlace, RetiredContent};
use crate::record::RetiredVersion;
use crate::table::Records;

/// Items per batch.
const BATCH_ITEMS: usize = 64;
/// Bytes per batch.
const BATCH_BYTES: usize = 64 << 10;
/// Memory of a batch itself: its list of items, and the epoch's bookkeeping.
const BATCH_OVERHEAD: usize = (2 << 10) + BATCH_ITEMS * size_of::<Retired>();
/// Below this number of deferred bytes, [`Domain::catch_up`] does nothing.
const CATCH_UP_BYTES: i64 = 1 << 20;
/// Attempts per caller; each frees up to eight batches.
const TRIES_MAX: usize = 64;
/// Fruitless attempts in a row before a caller gives up: the oldest batch needs two epoch advances.
const IDLE_TRIES_MAX: usize = 4;

/// An item to free, or to reuse, once no reader can have it.
pub(crate) enum Retired {
    Version(RetiredVersion),
    /// A record number. Weak, so that it does not keep the records of a dropped table alive.
    Number(Weak<Records>, u64),
    Content(RetiredContent),
    Place(FreedPlace),
}

impl Retired {
    fn free(self) {
        match self {
            Retired::Version(version) => drop(version),
            Retired::Content(content) => drop(content),
            Retired::Place(place) => place.give_back(),
            Retired::Number(records, number) => {
                if let Some(records) = records.upgrade() {
                    records.arena.give_back(number);
                }
            }
        }
    }
}

/// Record versions and record numbers.
pub(crate) static VERSIONS: Domain =
    Domain::new(crossbeam_epoch::pin, |with| VERSIONS_BATCH.try_with(|batch| with(&mut batch.borrow_mut())).is_ok());
/// Contents and slots of index nodes.
pub(crate) static NODES: Domain =
    Domain::new(pin_nodes, |with| NODES_BATCH.try_with(|batch| with(&mut batch.borrow_mut())).is_ok());

static NODES_COLLECTOR: LazyLock<Collector> = LazyLock::new(Collector::new);

thread_local! {
    static NODES_HANDLE: LocalHandle = NODES_COLLECTOR.register();
    static VERSIONS_BATCH: RefCell<Batch> = const { RefCell::new(Batch::new(&VERSIONS)) };
    static NODES_BATCH: RefCell<Batch> = const { RefCell::new(Batch::new(&NODES)) };
}

fn pin_nodes() -> Guard {
    // The thread is exiting and has dropped its handle.
    NODES_HANDLE.try_with(LocalHandle::pin).unwrap_or_else(|_| NODES_COLLECTOR.register().pin())
}

/// Calls a closure with this thread's batch; false if the thread is exiting and has dropped it.
type WithBatch = fn(&mut dyn FnMut(&mut Batch)) -> bool;

/// Garbage protected by one kind of guard.
pub(crate) struct Domain {
    pin: fn() -> Guard,
    with_batch: WithBatch,
    /// Bytes of batches not freed yet.
    deferred_bytes: AtomicI64,
    /// Deferred bytes above which another attempt is worthwhile.
    try_at: AtomicI64,
}

/// Items retired by one thread.
struct Batch {
    domain: &'static Domain,
    items: Vec<Retired>,
    bytes: usize,
}

impl Domain {
    const fn new(pin: fn() -> Guard, with_batch: WithBatch) -> Domain {
        Domain { pin, with_batch, deferred_bytes: AtomicI64::new(0), try_at: AtomicI64::new(CATCH_UP_BYTES) }
    }

    /// Pins a guard of this domain.
    pub(crate) fn pin(&'static self) -> Guard {
        (self.pin)()
    }

    /// Frees `item` (of `bytes` bytes) when all current guards are dropped. `guard` belongs to this
    /// domain, and the item must be unreachable for new readers.
    pub(crate) fn retire(&'static self, item: Retired, bytes: usize, guard: &Guard) {
        let (mut item, mut full) = (Some(item), None);
        let is_kept = (self.with_batch)(&mut |batch| {
            batch.items.extend(item.take());
            batch.bytes += bytes;
            if batch.items.len() >= BATCH_ITEMS || batch.bytes >= BATCH_BYTES {
                full = Some(batch.take());
            }
            debug_assert!(batch.items.len() < BATCH_ITEMS, "BUG: {} items are not counted", batch.items.len());
        });
        if !is_kept {
            full = Some(Batch { domain: self, items: item.into_iter().collect(), bytes });
        }
        if let Some(mut batch) = full {
            batch.defer(guard);
        }
    }

    /// Bytes retired and not freed yet.
    pub(crate) fn deferred_bytes(&self) -> u64 {
        u64::try_from(self.deferred_bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Frees what can be freed, if much is deferred. Call it without a guard: a guard holds up
    /// everything retired after it.
    ///
    /// # Cost
    /// One load if little is deferred. Otherwise one walk over all threads that ever used the
    /// domain per 512 items freed, and two or three more. While a guard holds everything up, at
    /// most four walks per megabyte added.
    pub(crate) fn catch_up(&'static self) {
        if self.deferred_bytes.load(Ordering::Relaxed) >= self.try_at.load(Ordering::Relaxed) {
            self.free(CATCH_UP_BYTES / 2, TRIES_MAX);
        }
    }

    /// Like [`Domain::catch_up`], regardless of earlier attempts. True if more could be freed at
    /// once.
    pub(crate) fn catch_up_again(&'static self) -> bool {
        self.free(CATCH_UP_BYTES / 2, TRIES_MAX)
    }

    fn free(&'static self, enough: i64, tries: usize) -> bool {
        let mut idle = 0;
        for _ in 0..tries {
            let before = self.deferred_bytes.load(Ordering::Relaxed);
            if before <= enough {
                self.try_at.store(CATCH_UP_BYTES, Ordering::Relaxed);
                return false;
            }
            self.pin().flush();
            idle = if self.deferred_bytes.load(Ordering::Relaxed) < before { 0 } else { idle + 1 };
            if idle == IDLE_TRIES_MAX {
                let after = self.deferred_bytes.load(Ordering::Relaxed);
                self.try_at.store(after + CATCH_UP_BYTES, Ordering::Relaxed);
                return false;
            }
        }
        self.try_at.store(CATCH_UP_BYTES, Ordering::Relaxed);
        true
    }

    /// Frees everything that this thread retired and that other threads deferred, provided that no
    /// guard is held.
    #[cfg(test)]
    pub(crate) fn drain(&'static self) {
        let mut own = None;
        (self.with_batch)(&mut |batch| own = Some(batch.take()));
        if let Some(mut batch) = own.filter(|batch| !batch.items.is_empty()) {
            batch.defer(&self.pin());
        }
        for _ in 0..2_000 {
            self.pin().flush();
        }
    }
}

impl Batch {
    const fn new(domain: &'static Domain) -> Batch {
        Batch { domain, items: Vec::new(), bytes: 0 }
    }

    fn take(&mut self) -> Batch {
        let next = Batch { items: Vec::with_capacity(BATCH_ITEMS), ..Batch::new(self.domain) };
        std::mem::replace(self, next)
    }

    /// Hands all items to the epoch and tries to advance it.
    fn defer(&mut self, guard: &Guard) {
        let (domain, items) = (self.domain, std::mem::take(&mut self.items));
        let bytes = (std::mem::take(&mut self.bytes) + BATCH_OVERHEAD) as i64;
        domain.deferred_bytes.fetch_add(bytes, Ordering::Relaxed);
        let free = move || {
            items.into_iter().for_each(Retired::free);
            let before = domain.deferred_bytes.fetch_sub(bytes, Ordering::Relaxed);
            debug_assert!(bytes <= before, "BUG: {bytes} bytes are freed, {before} were deferred");
        };
        // SAFETY: the caller of `retire` had made the item unreachable, under a guard of the same
        // collector pinned no later than this one. The items may be freed by any thread and borrow
        // nothing.
        unsafe { guard.defer_unchecked(free) };
        guard.flush();
    }
}

impl Drop for Batch {
    /// Runs when the thread exits.
    fn drop(&mut self) {
        if !self.items.is_empty() {
            let guard = self.domain.pin();
            self.defer(&guard);
        }
    }
}

/// Bytes retired and not freed yet, in all domains.
pub(crate) fn deferred_bytes() -> u64 {
    VERSIONS.deferred_bytes() + NODES.deferred_bytes()
}

/// [`Domain::catch_up`] for all domains.
pub(crate) fn catch_up() {
    VERSIONS.catch_up();
    NODES.catch_up();
}
