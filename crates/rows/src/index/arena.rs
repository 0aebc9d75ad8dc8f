//! Index nodes: slots with stable addresses that are reused, each with a pointer to its current
//! content.
//!
//! Always true:
//! - A content is never changed in place; it is replaced as a whole, under the node's lock.
//! - A replaced content and a dead node's slot are freed when all guards that existed at that time
//!   are gone. Readers therefore need no lock: everything they reached under a guard stays
//!   readable.
//! - A dead node has no content; it has a *link* to the left neighbour that took over its range.
//! - Versions of a slot only grow, even when the slot is reused.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use crossbeam_epoch::Guard;

use super::content::{Content, Fresh, NodeId, View};
use super::{LeafSeen, ROOT};
use crate::reclaim::{NODES, Retired};
use crate::sync::{AtomicPtr, AtomicU32, Mutex, MutexGuard};

/// Nodes in the first chunk; each further chunk has twice as many.
const FIRST_CHUNK_NODES: u32 = 8;
const CHUNKS: usize = (u32::BITS - FIRST_CHUNK_NODES.ilog2()) as usize;
/// Counters are sharded by node, so that threads in different leaves rarely share a cache line.
const SHARDS: usize = 8;

/// One cache line each: every operation reads the root, and its neighbour may be written
/// constantly.
#[repr(align(64))]
struct Node {
    /// From [`Content::into_raw`]; null in dead and unused nodes.
    content: AtomicPtr<u64>,
    link: AtomicU32,
    lock: Mutex<()>,
}

#[repr(align(64))]
#[derive(Default)]
struct Shard {
    entries: AtomicI64,
    content_bytes: AtomicI64,
}

#[derive(Default)]
struct Places {
    used: NodeId,
    /// Slots of dead nodes that no thread can reach any more.
    spare: Vec<Fresh>,
}

pub(super) struct Arena {
    chunks: [OnceLock<Box<[Node]>>; CHUNKS],
    places: parking_lot::Mutex<Places>,
    shards: [Shard; SHARDS],
}

/// Keeps node contents readable. Held for one index operation, or while a scan copies one leaf.
pub(super) struct NodesGuard(Guard);

impl NodesGuard {
    pub(super) fn pin() -> NodesGuard {
        NodesGuard(NODES.pin())
    }
}

/// A content removed from its node; dropping it frees it.
pub(crate) struct RetiredContent(*mut u64);

impl Drop for RetiredContent {
    fn drop(&mut self) {
        // SAFETY: `retire` made it from a content that its caller had removed from the node, once;
        // no reader has it any more.
        drop(unsafe { Content::from_raw(self.0) });
    }
}

/// The slot of a dead node.
pub(crate) struct FreedPlace {
    /// Weak, so that pending garbage does not keep a dropped index alive.
    arena: Weak<Arena>,
    fresh: Fresh,
}

impl FreedPlace {
    /// Makes the slot reusable. No thread can reach it any more.
    pub(crate) fn give_back(self) {
        if let Some(arena) = self.arena.upgrade() {
            arena.places.lock().spare.push(self.fresh);
        }
    }
}

/// A locked node: only the holder may replace its content.
pub(super) struct Locked<'g> {
    pub(super) id: NodeId,
    /// The content at the time of locking.
    pub(super) view: View<'g>,
    arena: &'g Arc<Arena>,
    _held: MutexGuard<'g, ()>,
}

impl Arena {
    pub(super) fn new() -> Arena {
        Arena {
            chunks: std::array::from_fn(|_| OnceLock::new()),
            places: parking_lot::Mutex::default(),
            shards: Default::default(),
        }
    }

    /// Returns the node's content; `Err` with the link if the node is dead.
    pub(super) fn view<'g>(&'g self, id: NodeId, _guard: &'g NodesGuard) -> Result<View<'g>, NodeId> {
        let node = self.node(id);
        let content = node.content.load(Ordering::Acquire);
        if content.is_null() {
            return Err(node.link.load(Ordering::Relaxed));
        }
        prefetch(content);
        // SAFETY: a content in a node is from `into_raw`. `retire` frees it after all guards that
        // existed when it was replaced, `_guard` among them; `drop` frees it after all borrows of
        // the arena.
        Ok(unsafe { View::from_raw(content) })
    }

    /// Locks the node, waiting if needed. `Err` with the link if the node is dead.
    pub(super) fn lock<'g>(self: &'g Arc<Arena>, id: NodeId, guard: &'g NodesGuard) -> Result<Locked<'g>, NodeId> {
        let held = self.node(id).lock.lock();
        Ok(Locked { id, view: self.view(id, guard)?, arena: self, _held: held })
    }

    /// Allocates a slot for a new node.
    pub(super) fn allocate(&self) -> Fresh {
        let mut places = self.places.lock();
        if let Some(fresh) = places.spare.pop() {
            return fresh;
        }
        let id = places.used;
        places.used += 1;
        let (chunk, _) = locate(id);
        self.chunks[chunk].get_or_init(|| {
            let node = || Node { content: AtomicPtr::default(), link: AtomicU32::default(), lock: Mutex::new(()) };
            (0..FIRST_CHUNK_NODES << chunk).map(|_| node()).collect()
        });
        Fresh { id, version: 1 }
    }

    /// Sets the first content of a node that is not reachable yet.
    pub(super) fn place(&self, id: NodeId, content: Content) {
        self.count_bytes(id, content.view().bytes() as i64);
        let old = self.node(id).content.swap(content.into_raw(), Ordering::Release);
        assert!(old.is_null(), "BUG: node {id} was allocated twice");
    }

    /// Adds `change` to the entry count of leaf `id`.
    pub(super) fn count_entries(&self, id: NodeId, change: i64) {
        self.shard(id).entries.fetch_add(change, Ordering::Relaxed);
    }

    /// Sets the entry count to zero.
    pub(super) fn forget_entries(&self) {
        self.shards.iter().for_each(|shard| shard.entries.store(0, Ordering::Relaxed));
    }

    /// One above the highest node ever allocated.
    pub(super) fn used(&self) -> NodeId {
        self.places.lock().used
    }

    pub(super) fn entries(&self) -> usize {
        self.shards.iter().map(|shard| shard.entries.load(Ordering::Relaxed)).sum::<i64>().max(0) as usize
    }

    pub(super) fn content_bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.content_bytes.load(Ordering::Relaxed)).sum::<i64>().max(0) as usize
    }

    /// Bytes of all slots, used or free.
    pub(super) fn place_bytes(&self) -> usize {
        self.chunks.iter().filter_map(OnceLock::get).map(|chunk| size_of_val(&**chunk)).sum()
    }

    fn count_bytes(&self, id: NodeId, change: i64) {
        self.shard(id).content_bytes.fetch_add(change, Ordering::Relaxed);
    }

    fn shard(&self, id: NodeId) -> &Shard {
        &self.shards[id as usize % SHARDS]
    }

    fn node(&self, id: NodeId) -> &Node {
        let (chunk, at) = locate(id);
        &self.chunks[chunk].get().expect("BUG: access to a node that was never allocated")[at]
    }
}

impl Locked<'_> {
    /// The leaf's version before the holder changes it.
    pub(super) fn seen(&self) -> LeafSeen {
        LeafSeen { node: self.id, version: self.view.version() }
    }

    /// Replaces the content atomically.
    pub(super) fn publish(&self, content: Content, guard: &NodesGuard) {
        let (old, new) = (self.view, content.view());
        assert!(old.version() <= new.version(), "BUG: version {} of a node after {}", new.version(), old.version());
        assert!(old.low() == new.low(), "BUG: the low fence of node {} changes", self.id);
        let bytes = new.bytes() as i64 - old.bytes() as i64;
        self.arena.count_bytes(self.id, bytes);
        // Release: a reader that loads this content also sees the nodes it points to.
        let place = &self.arena.node(self.id).content;
        let old = place.load(Ordering::Relaxed);
        place.store(content.into_raw(), Ordering::Release);
        retire(old, self.view.bytes(), guard);
    }

    /// Kills the node. The left neighbour `into` already has its range and entries, and the parent
    /// and that neighbour held the only pointers to it.
    pub(super) fn kill(self, into: NodeId, guard: &NodesGuard) {
        assert!(into != self.id && self.id != ROOT, "BUG: node {} dies, its link is {into}", self.id);
        let node = self.arena.node(self.id);
        let bytes = self.view.bytes();
        self.arena.count_bytes(self.id, -(bytes as i64));
        node.link.store(into, Ordering::Relaxed);
        retire(node.content.swap(std::ptr::null_mut(), Ordering::Release), bytes, guard);
        let fresh = Fresh { id: self.id, version: self.view.version() + 1 };
        NODES.retire(Retired::Place(FreedPlace { arena: Arc::downgrade(self.arena), fresh }), 0, &guard.0);
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for node in self.chunks.iter().filter_map(OnceLock::get).flat_map(|chunk| chunk.iter()) {
            let content = node.content.load(Ordering::Relaxed);
            if !content.is_null() {
                // SAFETY: from `into_raw`; the arena is not borrowed any more, so no reader has its
                // contents.
                drop(unsafe { Content::from_raw(content) });
            }
        }
    }
}

/// Frees a content that was just removed from its node, once no reader can have it.
fn retire(content: *mut u64, bytes: usize, guard: &NodesGuard) {
    NODES.retire(Retired::Content(RetiredContent(content)), bytes, &guard.0);
}

/// Prefetches the cache lines of a node that a search needs. Otherwise the misses would be serial:
/// a third of the time of a get in an index of a million keys.
fn prefetch(content: *const u64) {
    const LINES: usize = 14;
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for line in 1..LINES {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no architectural effect, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(content.wrapping_byte_add(64 * line).cast()) }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (content, LINES);
}

/// (chunk, position in the chunk).
fn locate(id: NodeId) -> (usize, usize) {
    let number = u64::from(id) + u64::from(FIRST_CHUNK_NODES);
    let chunk = number.ilog2() - FIRST_CHUNK_NODES.ilog2();
    (chunk as usize, (number - (u64::from(FIRST_CHUNK_NODES) << chunk)) as usize)
}
