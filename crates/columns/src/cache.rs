//! A cache of open files and directories (block index, column directories, statistics) of segments,
//! with limits. Entries that were not used recently are evicted, and loaded again at their next
//! use.
//!
//! Each segment has one [`Slot`] for its file and one for its directory. Filled slots form a ring
//! for the CLOCK algorithm: the hand skips a slot once if it was referenced since the hand's last
//! visit. (Source: Corbató, "A Paging Experiment with the Multics System", MAC-M-384, 1968.)
//!
//! Always true:
//! - Only entries that nobody else holds are evicted. A limit can be exceeded only by what running
//!   scans hold.
//! - A hit takes only the slot's own lock, for reading. Only filling a slot takes the ring's lock.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use env::File;
use model::Result;
use parking_lot::{Mutex, RwLock};

use crate::segment::Directory;

/// Most pinned slots that the hand skips when a slot is filled: a scan may have pinned all of them.
const PINNED_SKIPPED_MAX: u32 = 16;
/// Slots of dropped segments are removed when the ring has grown to twice the slots left by the
/// last sweep, plus this number.
const SWEEP_SLOTS_MIN: usize = 64;

/// Open files and directories of a database's segments. Cloning shares the cache.
#[derive(Clone)]
pub struct SegmentCache {
    pub(crate) files: Arc<Ring<Arc<dyn File>>>,
    pub(crate) directories: Arc<Ring<Directory>>,
}

impl SegmentCache {
    /// A cache with these limits.
    ///
    /// - `files`: limit of open segment files.
    /// - `directory_bytes`: limit of the memory for block indexes, column directories and
    ///   statistics.
    ///
    /// Running scans may exceed both limits.
    #[must_use]
    pub fn new(files: u64, directory_bytes: u64) -> SegmentCache {
        SegmentCache { files: Ring::new(files), directories: Ring::new(directory_bytes) }
    }

    /// Number of open segment files.
    #[must_use]
    pub fn open_files(&self) -> u64 {
        self.files.used()
    }

    /// Bytes of block indexes, column directories and statistics in memory.
    #[must_use]
    pub fn directory_bytes(&self) -> u64 {
        self.directories.used()
    }
}

impl Default for SegmentCache {
    /// A cache without limits.
    fn default() -> SegmentCache {
        SegmentCache::new(u64::MAX, u64::MAX)
    }
}

impl std::fmt::Debug for SegmentCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let used = (self.open_files(), self.directory_bytes());
        f.debug_tuple("SegmentCache").field(&used.0).field(&used.1).finish()
    }
}

/// Slots with a common limit.
pub(crate) struct Ring<T> {
    limit: u64,
    /// Cost of all entries that exist, pinned or not.
    used: AtomicU64,
    state: Mutex<RingState<T>>,
}

/// The filled slots.
struct RingState<T> {
    /// The front is the next slot that the hand visits.
    slots: VecDeque<Weak<Slot<T>>>,
    /// Number of slots at which those of dropped segments are removed.
    sweep_at: usize,
}

/// A place for a value that can be loaded again.
pub(crate) struct Slot<T> {
    ring: Arc<Ring<T>>,
    entry: RwLock<Option<Arc<CacheEntry<T>>>>,
    /// Whether it was used since the hand's last visit.
    referenced: AtomicBool,
}

/// A cached value. It counts against the limit until it is dropped.
pub(crate) struct CacheEntry<T> {
    value: T,
    cost: AtomicU64,
    ring: Arc<Ring<T>>,
}

impl<T> Ring<T> {
    fn new(limit: u64) -> Arc<Ring<T>> {
        let state = RingState { slots: VecDeque::new(), sweep_at: SWEEP_SLOTS_MIN };
        Arc::new(Ring { limit, used: AtomicU64::new(0), state: Mutex::new(state) })
    }

    fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Evicts entries that were not used recently until `more` fits within the limit.
    fn make_room(&self, more: u64) {
        // Dropped after the lock is released: closing a file is a system call.
        let mut evicted = Vec::new();
        let mut freed = 0;
        let slots = &mut self.state.lock().slots;
        let mut pinned = 0;
        // Each slot is skipped at most once for being referenced, so two rounds suffice.
        for _ in 0..2 * slots.len() {
            let fits = self.used().saturating_add(more).saturating_sub(freed) <= self.limit;
            if fits || pinned >= PINNED_SKIPPED_MAX {
                break;
            }
            let Some(next) = slots.pop_front() else { break };
            let Some(slot) = next.upgrade() else { continue };
            match slot.try_evict() {
                Eviction::Evicted(entry) => {
                    freed += entry.cost.load(Ordering::Relaxed);
                    evicted.push(entry);
                    continue;
                }
                Eviction::Pinned => pinned += 1,
                Eviction::Referenced => {}
            }
            slots.push_back(next);
        }
    }

    fn admit(&self, slot: Weak<Slot<T>>) {
        let mut state = self.state.lock();
        if state.slots.len() >= state.sweep_at {
            state.slots.retain(|slot| slot.strong_count() > 0);
            state.sweep_at = 2 * state.slots.len() + SWEEP_SLOTS_MIN;
        }
        state.slots.push_back(slot);
    }
}

/// The result of trying to evict a slot's entry.
enum Eviction<T> {
    /// Kept, because it was referenced since the hand's last visit.
    Referenced,
    /// Kept, because it is in use.
    Pinned,
    /// Evicted; the slot is empty.
    Evicted(Arc<CacheEntry<T>>),
}

impl<T> Slot<T> {
    pub(crate) fn new(ring: &Arc<Ring<T>>) -> Arc<Slot<T>> {
        Arc::new(Slot { ring: Arc::clone(ring), entry: RwLock::new(None), referenced: AtomicBool::new(false) })
    }

    /// The slot's entry. If it is empty, loads the value, and its cost, with `make`. Two threads
    /// may load it at the same time; one result is kept.
    ///
    /// - `room`: a lower bound of the cost; space is freed for it before the load.
    pub(crate) fn get_or_make(
        self: &Arc<Self>,
        room: u64,
        make: impl FnOnce() -> Result<(T, u64)>,
    ) -> Result<Arc<CacheEntry<T>>> {
        if let Some(entry) = self.get() {
            return Ok(entry);
        }
        self.ring.make_room(room);
        let (value, cost) = make()?;
        Ok(self.put(value, cost))
    }

    fn get(&self) -> Option<Arc<CacheEntry<T>>> {
        let entry = self.entry.read().clone()?;
        // Written at most once per round of the hand: a cache line that is only read stays valid in
        // every core.
        if !self.referenced.load(Ordering::Relaxed) {
            self.referenced.store(true, Ordering::Relaxed);
        }
        Some(entry)
    }

    fn put(self: &Arc<Self>, value: T, cost: u64) -> Arc<CacheEntry<T>> {
        let mut slot = self.entry.write();
        if let Some(entry) = &*slot {
            return Arc::clone(entry);
        }
        self.ring.used.fetch_add(cost, Ordering::Relaxed);
        let entry = Arc::new(CacheEntry { value, cost: AtomicU64::new(cost), ring: Arc::clone(&self.ring) });
        *slot = Some(Arc::clone(&entry));
        drop(slot);
        self.ring.admit(Arc::downgrade(self));
        self.ring.make_room(0);
        entry
    }

    fn try_evict(&self) -> Eviction<T> {
        if self.referenced.swap(false, Ordering::Relaxed) {
            return Eviction::Referenced;
        }
        let Some(mut entry) = self.entry.try_write() else { return Eviction::Pinned };
        // Nobody can clone the entry while this lock is held.
        if entry.as_ref().is_some_and(|entry| Arc::strong_count(entry) > 1) {
            return Eviction::Pinned;
        }
        let evicted = entry.take();
        debug_assert!(evicted.as_ref().is_none_or(|entry| Arc::strong_count(entry) == 1), "BUG: evicted while in use");
        evicted.map_or(Eviction::Pinned, Eviction::Evicted)
    }
}

impl<T> CacheEntry<T> {
    /// Adds to the cost of the entry.
    pub(crate) fn grow(&self, cost: u64) {
        self.cost.fetch_add(cost, Ordering::Relaxed);
        self.ring.used.fetch_add(cost, Ordering::Relaxed);
        self.ring.make_room(0);
    }
}

impl<T> Deref for CacheEntry<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Drop for CacheEntry<T> {
    fn drop(&mut self) {
        let cost = *self.cost.get_mut();
        let used = self.ring.used.fetch_sub(cost, Ordering::Relaxed);
        debug_assert!(cost <= used, "BUG: an entry of cost {cost} in a cache with {used}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The slot's entry, loaded with `number` and cost 1 if it is missing.
    fn get(slot: &Arc<Slot<u32>>, number: u32, loads: &mut u32) -> Arc<CacheEntry<u32>> {
        let make = || {
            *loads += 1;
            Ok((number, 1))
        };
        let entry = slot.get_or_make(1, make).unwrap();
        assert_eq!(**entry, number);
        entry
    }

    #[test]
    fn frequently_used_entries_survive_a_scan_of_others() {
        let ring = Ring::new(10);
        let slots: Vec<Arc<Slot<u32>>> = (0..1_000).map(|_| Slot::new(&ring)).collect();
        let mut loads = 0;
        for number in 0..1_000u32 {
            get(&slots[number as usize], number, &mut loads);
            assert!(ring.used() <= 10, "{} after {number}", ring.used());
            get(&slots[3.min(number as usize)], 3.min(number), &mut loads);
        }
        assert_eq!(loads, 1_000, "no value was loaded twice");
        assert_eq!(ring.state.lock().slots.len(), 10);
    }

    #[test]
    fn pinned_entries_are_evicted_only_after_release() {
        let ring = Ring::new(4);
        let slots: Vec<Arc<Slot<u32>>> = (0..100).map(|_| Slot::new(&ring)).collect();
        let mut loads = 0;
        let held: Vec<_> = slots.iter().zip(0..).map(|(slot, number)| get(slot, number, &mut loads)).collect();
        assert_eq!(ring.used(), 100);
        for (slot, number) in slots.iter().zip(0..) {
            get(slot, number, &mut loads);
        }
        assert_eq!(loads, 100, "every value was cached");
        drop(held);
        let more: Vec<Arc<Slot<u32>>> = (0..2).map(|_| Slot::new(&ring)).collect();
        more.iter().for_each(|slot| drop(get(slot, 7, &mut loads)));
        assert!(ring.used() <= 4, "{}", ring.used());
    }

    #[test]
    fn dropped_slots_cost_nothing_and_do_not_pile_up() {
        let ring = Ring::new(u64::MAX);
        let mut loads = 0;
        let cached: Vec<Arc<Slot<u32>>> = (0..10).map(|_| Slot::new(&ring)).collect();
        cached.iter().for_each(|slot| drop(get(slot, 1, &mut loads)));
        for _ in 0..1_000 {
            get(&Slot::new(&ring), 5, &mut loads);
        }
        assert_eq!(ring.used(), 10);
        let count = ring.state.lock().slots.len();
        assert!(count < 2 * 10 + 2 * SWEEP_SLOTS_MIN, "{count}");
    }

    #[test]
    fn growing_entries_evict_others() {
        let ring = Ring::new(10);
        let slots: Vec<Arc<Slot<u32>>> = (0..10).map(|_| Slot::new(&ring)).collect();
        let mut loads = 0;
        slots.iter().for_each(|slot| drop(get(slot, 1, &mut loads)));
        get(&slots[0], 1, &mut loads).grow(6);
        let is_full = |slot: &Arc<Slot<u32>>| slot.entry.read().is_some();
        assert_eq!((ring.used(), loads), (10, 10));
        assert_eq!(
            slots.iter().map(is_full).collect::<Vec<_>>(),
            (0..10).map(|at| at == 0 || at > 6).collect::<Vec<_>>()
        );
    }
}
