//! A growable array of slots with stable addresses. A record's number is its slot, for as long as
//! the table lives.
//!
//! Slots are allocated in chunks. Chunk lists double in length, so a list is never copied, and a
//! lookup takes a shift and three loads. A freed slot is reused.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Slots per chunk, as a power of two.
const CHUNK_BITS: u32 = 10;
/// Chunks in the first list, as a power of two.
const FIRST_BITS: u32 = 4;
/// Number of chunk lists; the last ones are larger than memory.
const LISTS: usize = 28;

/// Allocated when its first slot is taken.
type Chunk<T> = OnceLock<Box<[T]>>;

/// Slots of `T`, numbered from 0.
pub(crate) struct Arena<T> {
    lists: [OnceLock<Box<[Chunk<T>]>>; LISTS],
    /// Next unused slot number; all numbers ever handed out are below it.
    next: AtomicU64,
    /// Freed slot numbers. This mutex is invisible to the model checker: numbers are returned while
    /// memory is being freed.
    free: Mutex<Vec<u64>>,
    chunks: AtomicU64,
}

impl<T: Default> Arena<T> {
    pub(crate) fn new() -> Arena<T> {
        Arena {
            lists: [const { OnceLock::new() }; LISTS],
            next: AtomicU64::new(0),
            free: Mutex::default(),
            chunks: AtomicU64::new(0),
        }
    }

    /// Returns slot `number`; `None` if its chunk is not allocated.
    #[inline]
    pub(crate) fn get(&self, number: u64) -> Option<&T> {
        let (list, chunk, at) = place(number);
        self.lists.get(list)?.get()?.get(chunk)?.get()?.get(at)
    }

    /// Allocates a slot and returns its number; prefers freed slots.
    pub(crate) fn take(&self) -> u64 {
        if let Some(number) = self.free.lock().pop() {
            debug_assert!(number < self.bound(), "BUG: slot {number} is reused, {} were handed out", self.bound());
            return number;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.make(number);
        number
    }

    /// Returns slot `number`, which recovery read from the log or a checkpoint, and allocates its
    /// chunk if needed. `None` if no table can have that number. Does not move the bound: call
    /// [`Arena::raise`].
    pub(crate) fn reach(&self, number: u64) -> Option<&T> {
        if place(number).0 >= LISTS {
            return None;
        }
        if self.get(number).is_none() {
            self.make(number);
        }
        self.get(number)
    }

    /// Raises the bound: numbers below `bound` count as handed out.
    pub(crate) fn raise(&self, bound: u64) {
        self.next.fetch_max(bound, Ordering::AcqRel);
    }

    fn make(&self, number: u64) {
        let (list, chunk, _) = place(number);
        let length = 1 << (FIRST_BITS + list as u32);
        let chunks = self.lists[list].get_or_init(|| (0..length).map(|_| OnceLock::new()).collect());
        chunks[chunk].get_or_init(|| {
            self.chunks.fetch_add(1, Ordering::Relaxed);
            (0..1 << CHUNK_BITS).map(|_| T::default()).collect()
        });
    }

    /// Frees a slot. The slot must be in its default state, and no thread may still hold its
    /// number.
    pub(crate) fn give_back(&self, number: u64) {
        assert!(self.get(number).is_some(), "BUG: slot {number} is freed, which was never allocated");
        self.free.lock().push(number);
    }

    /// One above the highest number handed out so far.
    pub(crate) fn bound(&self) -> u64 {
        self.next.load(Ordering::Acquire)
    }

    /// Runs of `numbers` whose chunks are allocated. `numbers.start` must be a multiple of the
    /// chunk size. Recovery allocates no chunk for a range of unused slots.
    pub(crate) fn runs_in(&self, numbers: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let Range { start, end } = numbers;
        let chunks = (start..end).step_by(1 << CHUNK_BITS).filter(|first| self.get(*first).is_some());
        chunks.map(move |first| first..end.min(first + (1 << CHUNK_BITS)))
    }

    /// Bytes of all allocated chunks.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.chunks.load(Ordering::Relaxed) as usize * (size_of::<T>() << CHUNK_BITS)
    }
}

/// (list, chunk within the list, slot within the chunk).
fn place(number: u64) -> (usize, usize, usize) {
    let chunk = (number >> CHUNK_BITS) + (1 << FIRST_BITS);
    let bits = 63 - chunk.leading_zeros();
    let at = number & ((1 << CHUNK_BITS) - 1);
    ((bits - FIRST_BITS) as usize, (chunk - (1 << bits)) as usize, at as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_map_to_chunks_without_gap_or_overlap() {
        let (mut list, mut chunk, mut at) = (0, 0, 0);
        for number in 0..200_000 {
            assert_eq!(place(number), (list, chunk, at), "{number}");
            at += 1;
            if at == 1 << CHUNK_BITS {
                (chunk, at) = (chunk + 1, 0);
            }
            if chunk == 1 << (FIRST_BITS as usize + list) {
                (list, chunk) = (list + 1, 0);
            }
        }
    }

    #[test]
    fn slots_have_stable_addresses_and_are_reused() {
        let arena: Arena<AtomicU64> = Arena::new();
        let numbers: Vec<u64> = (0..5_000).map(|_| arena.take()).collect();
        assert_eq!(numbers, (0..5_000).collect::<Vec<_>>());
        let first: *const AtomicU64 = arena.get(7).unwrap();
        for number in &numbers {
            arena.get(*number).unwrap().store(*number, Ordering::Relaxed);
        }
        assert!(std::ptr::eq(first, arena.get(7).unwrap()));
        assert!(numbers.iter().all(|number| arena.get(*number).unwrap().load(Ordering::Relaxed) == *number));
        arena.give_back(42);
        assert_eq!((arena.take(), arena.take(), arena.bound()), (42, 5_000, 5_001));
    }

    #[test]
    fn a_number_from_the_log_gets_a_slot_and_an_absurd_one_is_refused() {
        let arena: Arena<AtomicU64> = Arena::new();
        assert!(arena.get(100_000).is_none());
        assert!(arena.reach(100_000).is_some());
        arena.raise(100_001);
        assert_eq!(arena.take(), 100_001);
        assert!(arena.reach(u64::MAX).is_none());
    }
}
