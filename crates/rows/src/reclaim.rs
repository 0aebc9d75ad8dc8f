//! Memory that readers may still be looking at: it is freed when every guard that existed when it was retired is gone.
//!
//! Built on `crossbeam-epoch`, which by itself does not keep up: it frees at most 512 deferred items in 128 pins, and a statement defers
//! thousands with a handful of pins. So retired items are collected by thread into batches, a batch is one item to the epoch, each batch
//! is a try to advance the epoch, and [`Domain::catch_up`] goes on trying after statements, commits and collections until what is left is
//! little. The bytes of batches are counted until they are really freed.
//!
//! There are two domains, so that a guard is held no longer than what it protects is looked at:
//! - [`VERSIONS`]: versions of records and numbers of records, under the guard that a statement holds ([`crossbeam_epoch::pin`]).
//! - [`NODES`]: contents and places of index nodes, under a guard that one operation on an index holds. A statement that inserts a million
//!   rows replaces a million nodes; they are freed while it runs.
//!
//! Always true: at most [`BATCH_BYTES`] and [`BATCH_ITEMS`] items of each thread are retired and not counted yet.

use std::cell::RefCell;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{LazyLock, Weak};

use crossbeam_epoch::{Collector, Guard, LocalHandle};

use crate::index::{FreedPlace, RetiredContent};
use crate::record::RetiredVersion;
use crate::table::Records;

/// Items of a batch.
const BATCH_ITEMS: usize = 64;
/// Bytes of a batch.
const BATCH_BYTES: usize = 64 << 10;
/// What the epoch itself needs for a batch, and the list of its items.
const BATCH_OVERHEAD: usize = (2 << 10) + BATCH_ITEMS * size_of::<Retired>();
/// With fewer bytes deferred nobody does more than the batches themselves do.
const CATCH_UP_BYTES: i64 = 1 << 20;
/// Tries of one caller: each frees up to eight batches.
const TRIES_MAX: usize = 64;
/// Tries in a row that free nothing before a caller gives up: it takes two until the epoch has moved on for the oldest batch.
const IDLE_TRIES_MAX: usize = 4;

/// Something that is freed, or can be used again, when nobody looks at it any more.
pub(crate) enum Retired {
    Version(RetiredVersion),
    /// A record's number. Weak: it must not keep the records of a dropped table.
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

/// Versions and numbers of records.
pub(crate) static VERSIONS: Domain =
    Domain::new(crossbeam_epoch::pin, |with| VERSIONS_BATCH.try_with(|batch| with(&mut batch.borrow_mut())).is_ok());
/// Contents and places of index nodes.
pub(crate) static NODES: Domain =
    Domain::new(pin_nodes, |with| NODES_BATCH.try_with(|batch| with(&mut batch.borrow_mut())).is_ok());

static NODES_COLLECTOR: LazyLock<Collector> = LazyLock::new(Collector::new);

thread_local! {
    static NODES_HANDLE: LocalHandle = NODES_COLLECTOR.register();
    static VERSIONS_BATCH: RefCell<Batch> = const { RefCell::new(Batch::new(&VERSIONS)) };
    static NODES_BATCH: RefCell<Batch> = const { RefCell::new(Batch::new(&NODES)) };
}

fn pin_nodes() -> Guard {
    // A thread that ends has no handle any more.
    NODES_HANDLE.try_with(LocalHandle::pin).unwrap_or_else(|_| NODES_COLLECTOR.register().pin())
}

/// Calls something with the batch of this thread; false if the thread is about to end and has none any more.
type WithBatch = fn(&mut dyn FnMut(&mut Batch)) -> bool;

/// What one kind of guard protects.
pub(crate) struct Domain {
    pin: fn() -> Guard,
    with_batch: WithBatch,
    /// Bytes of batches that are not freed yet.
    deferred_bytes: AtomicI64,
    /// From so many deferred bytes on it is worth trying again.
    try_at: AtomicI64,
}

/// Items that one thread has retired.
struct Batch {
    domain: &'static Domain,
    items: Vec<Retired>,
    bytes: usize,
}

impl Domain {
    const fn new(pin: fn() -> Guard, with_batch: WithBatch) -> Domain {
        Domain { pin, with_batch, deferred_bytes: AtomicI64::new(0), try_at: AtomicI64::new(CATCH_UP_BYTES) }
    }

    /// A guard of this domain.
    pub(crate) fn pin(&'static self) -> Guard {
        (self.pin)()
    }

    /// Frees something of `bytes` when all guards that exist now are gone. `guard` is of this domain, and nobody can find the item by now.
    pub(crate) fn retire(&'static self, item: Retired, bytes: usize, guard: &Guard) {
        let (mut item, mut full) = (Some(item), None);
        let is_kept = (self.with_batch)(&mut |batch| {
            batch.items.extend(item.take());
            batch.bytes += bytes;
            if batch.items.len() >= BATCH_ITEMS || batch.bytes >= BATCH_BYTES {
                full = Some(batch.take());
            }
        });
        if !is_kept {
            full = Some(Batch { domain: self, items: item.into_iter().collect(), bytes });
        }
        if let Some(mut batch) = full {
            batch.defer(guard);
        }
    }

    /// Bytes that are not freed yet because somebody may still look at them.
    pub(crate) fn deferred_bytes(&self) -> u64 {
        u64::try_from(self.deferred_bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Frees what can be freed, if there is much. To be called without a guard: under one nothing newer than it is freed.
    ///
    /// # Cost
    /// A load where little is deferred. Else a walk over all threads that ever used the domain for every 512 items freed, and two or three
    /// more; where a guard keeps everything, no more than four walks for each megabyte that is added.
    pub(crate) fn catch_up(&'static self) {
        if self.deferred_bytes.load(Ordering::Relaxed) >= self.try_at.load(Ordering::Relaxed) {
            self.free(CATCH_UP_BYTES / 2, TRIES_MAX);
        }
    }

    /// As [`Domain::catch_up`], whatever others have tried. True if there is more that could be freed at once.
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

    /// Frees all that this thread has retired and all that others have deferred, if no guard is held.
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

    /// Gives all items to the epoch, and tries to move it on.
    fn defer(&mut self, guard: &Guard) {
        let (domain, items) = (self.domain, std::mem::take(&mut self.items));
        let bytes = (std::mem::take(&mut self.bytes) + BATCH_OVERHEAD) as i64;
        domain.deferred_bytes.fetch_add(bytes, Ordering::Relaxed);
        let free = move || {
            items.into_iter().for_each(Retired::free);
            domain.deferred_bytes.fetch_sub(bytes, Ordering::Relaxed);
        };
        // SAFETY: whoever retired an item had taken it out of reach by then, under a guard of the same collector that was pinned no later
        // than this one; the items may be freed by any thread, and nothing in them is borrowed.
        unsafe { guard.defer_unchecked(free) };
        guard.flush();
    }
}

impl Drop for Batch {
    /// The thread ends.
    fn drop(&mut self) {
        if !self.items.is_empty() {
            let guard = self.domain.pin();
            self.defer(&guard);
        }
    }
}

/// Bytes of all domains that are not freed yet because somebody may still look at them.
pub(crate) fn deferred_bytes() -> u64 {
    VERSIONS.deferred_bytes() + NODES.deferred_bytes()
}

/// Frees what can be freed in all domains, if there is much ([`Domain::catch_up`]).
pub(crate) fn catch_up() {
    VERSIONS.catch_up();
    NODES.catch_up();
}
