//! The nodes of an index: places that never move and can be used again, each with its present content.
//!
//! Always true:
//! - A node's content is replaced only under its lock, and only by a whole one.
//! - A replaced content and a dead node's place are given back when every guard that existed then is gone, so that
//!   readers need no lock: what they found under their guard stays readable.
//! - A dead node has no content but a *link*: the node at its left that took over its range.
//! - Versions of a place only grow, also when it is used again.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use crossbeam_epoch::Guard;

use super::LeafSeen;
use super::content::{Content, Fresh, NodeId, View};
use crate::reclaim::{NODES, Retired};
use crate::sync::{AtomicPtr, AtomicU32, Mutex, MutexGuard};

/// Nodes of the first chunk; each further one is twice as large as the one before.
const FIRST_CHUNK_NODES: u32 = 8;
const CHUNKS: usize = (u32::BITS - FIRST_CHUNK_NODES.ilog2()) as usize;
/// Counters are spread so that threads in different leaves seldom meet in one.
const SHARDS: usize = 8;

/// On a cache line of its own: the root is read all the time, and its neighbour may be written all the time.
#[repr(align(64))]
struct Node {
    /// [`Content::into_raw`]; null in dead and unused nodes.
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
    /// Places of dead nodes that nobody can reach any more.
    spare: Vec<Fresh>,
}

pub(super) struct Arena {
    chunks: [OnceLock<Box<[Node]>>; CHUNKS],
    places: parking_lot::Mutex<Places>,
    shards: [Shard; SHARDS],
}

/// Keeps what is found in nodes readable. Held for an operation on the index, or for as long as a scan copies a leaf.
pub(super) struct NodesGuard(Guard);

impl NodesGuard {
    pub(super) fn pin() -> NodesGuard {
        NodesGuard(NODES.pin())
    }
}

/// A content that was taken out of its node; dropping it frees it.
pub(crate) struct RetiredContent(*mut u64);

impl Drop for RetiredContent {
    fn drop(&mut self) {
        // SAFETY: `retire` made it, whose caller took the content out of its node, once; and nobody reads it by now.
        drop(unsafe { Content::from_raw(self.0) });
    }
}

/// The place of a dead node.
pub(crate) struct FreedPlace {
    /// Weak: garbage must not keep a dropped index alive.
    arena: Weak<Arena>,
    fresh: Fresh,
}

impl FreedPlace {
    /// Nobody can reach it any more.
    pub(crate) fn give_back(self) {
        if let Some(arena) = self.arena.upgrade() {
            arena.places.lock().spare.push(self.fresh);
        }
    }
}

/// A node whose content only the holder may replace.
pub(super) struct Locked<'g> {
    pub(super) id: NodeId,
    /// What it was when it was locked.
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

    /// The node's content, or the link of a dead one.
    pub(super) fn view<'g>(&'g self, id: NodeId, _guard: &'g NodesGuard) -> Result<View<'g>, NodeId> {
        let node = self.node(id);
        let content = node.content.load(Ordering::Acquire);
        if content.is_null() {
            return Err(node.link.load(Ordering::Relaxed));
        }
        prefetch(content);
        // SAFETY: a content in a node is from `into_raw`. It is freed by `retire`, after all guards that were there
        // when it was replaced, thus after `_guard`, or by `drop`, after all borrows of the arena.
        Ok(unsafe { View::from_raw(content) })
    }

    /// Waits for the node's lock. `Err`: the link of a dead one.
    pub(super) fn lock<'g>(self: &'g Arc<Arena>, id: NodeId, guard: &'g NodesGuard) -> Result<Locked<'g>, NodeId> {
        let held = self.node(id).lock.lock();
        Ok(Locked { id, view: self.view(id, guard)?, arena: self, _held: held })
    }

    /// A place for a new node.
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

    /// Gives a node that nobody can reach yet its first content.
    pub(super) fn place(&self, id: NodeId, content: Content) {
        self.count_bytes(id, content.view().bytes() as i64);
        let old = self.node(id).content.swap(content.into_raw(), Ordering::Release);
        assert!(old.is_null(), "BUG: node {id} was given out twice");
    }

    /// Entries came or went in leaf `id`.
    pub(super) fn count_entries(&self, id: NodeId, change: i64) {
        self.shard(id).entries.fetch_add(change, Ordering::Relaxed);
    }

    /// All entries are gone.
    pub(super) fn forget_entries(&self) {
        self.shards.iter().for_each(|shard| shard.entries.store(0, Ordering::Relaxed));
    }

    /// One above the highest place given out.
    pub(super) fn used(&self) -> NodeId {
        self.places.lock().used
    }

    pub(super) fn entries(&self) -> usize {
        self.shards.iter().map(|shard| shard.entries.load(Ordering::Relaxed)).sum::<i64>().max(0) as usize
    }

    pub(super) fn content_bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.content_bytes.load(Ordering::Relaxed)).sum::<i64>().max(0) as usize
    }

    /// Of all places, used or not.
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
        &self.chunks[chunk].get().expect("BUG: a node that was never given out")[at]
    }
}

impl Locked<'_> {
    /// The leaf as readers see it before the holder changes it.
    pub(super) fn seen(&self) -> LeafSeen {
        LeafSeen { node: self.id, version: self.view.version() }
    }

    /// Replaces the content, for readers in one step.
    pub(super) fn publish(&self, content: Content, guard: &NodesGuard) {
        let bytes = content.view().bytes() as i64 - self.view.bytes() as i64;
        self.arena.count_bytes(self.id, bytes);
        // Release: who finds the content also finds the nodes it names.
        let place = &self.arena.node(self.id).content;
        let old = place.load(Ordering::Relaxed);
        place.store(content.into_raw(), Ordering::Release);
        retire(old, self.view.bytes(), guard);
    }

    /// Ends the node; its left neighbour `into` has its range and entries, and nothing but it led here.
    pub(super) fn kill(self, into: NodeId, guard: &NodesGuard) {
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
                // SAFETY: from `into_raw`; the arena is borrowed by nobody, so nobody reads what its nodes hold.
                drop(unsafe { Content::from_raw(content) });
            }
        }
    }
}

/// Frees a content that was just taken out of its node, once no reader can have it any more.
fn retire(content: *mut u64, bytes: usize, guard: &NodesGuard) {
    NODES.retire(Retired::Content(RetiredContent(content)), bytes, &guard.0);
}

/// Asks for the lines a search is going to need all at once: it would come to know them one after the other. In an index
/// of a million keys a third of a get.
fn prefetch(content: *const u64) {
    const LINES: usize = 14;
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for line in 1..LINES {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction has no effect on the program, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(content.wrapping_byte_add(64 * line).cast()) }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (content, LINES);
}

/// Chunk, and place in it.
fn locate(id: NodeId) -> (usize, usize) {
    let number = u64::from(id) + u64::from(FIRST_CHUNK_NODES);
    let chunk = number.ilog2() - FIRST_CHUNK_NODES.ilog2();
    (chunk as usize, (number - (u64::from(FIRST_CHUNK_NODES) << chunk)) as usize)
}
