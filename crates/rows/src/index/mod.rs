//! Concurrent ordered in-memory index: byte strings to 64-bit values.
//!
//! A B-link tree (Lehman and Yao, "Efficient Locking for Concurrent Operations on B-Trees", TODS
//! 1981) with copy-on-write nodes. A reader loads a node's content pointer once; the content is
//! immutable and stays readable until the reader's guard is dropped. Readers take no locks and
//! never restart. A writer copies the content with its change, under that node's lock. Every node
//! knows its key range and its right neighbour, so an operation that arrives after a split moves
//! right.
//!
//! We differ from the paper in three points:
//! - The root never moves. When it splits, its halves become two new nodes and the root becomes
//!   their parent, atomically.
//! - A split searches the parent from the root: the upper levels are cached, and splits are rare.
//! - Nodes are merged. An underfull node is merged with a neighbour under the same parent: the left
//!   node takes over the right one's range and entries, then the right one dies and keeps a link to
//!   the left. The merging thread locks the parent, then left, then right. No other operation holds
//!   more than one node lock, so there is no deadlock. One thread merges at a time. A node whose
//!   entry has not reached the parent yet is skipped.
//!
//! Always true:
//! - The ranges of a level's nodes, from left to right, cover all keys without overlap. A node's
//!   low fence never changes while the node is alive.
//! - An insert changes the version of the leaf whose range has the key; so do a split and the death
//!   of that leaf. A reader that found a key absent, and later finds the same leaf version, knows
//!   that the key is still absent.
//!
//! Guards: every call takes a guard of crossbeam's default collector (`crossbeam_epoch::pin`),
//! which protects the objects that the values name. Nodes have guards of their own
//! (`reclaim::NODES`), held for one operation, or by a scan while it copies one leaf. The nodes
//! that a statement replaces, about one (1 to 2 KiB) per write, are therefore freed while the
//! statement runs.
//!
//! Not here: the meaning of keys and values, visibility, duplicate keys (append the record number
//! to the key).

mod arena;
mod content;
#[cfg(test)]
mod tests;

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use crossbeam_epoch::{Guard, default_collector};

use arena::{Arena, Locked, NodesGuard};
pub(crate) use arena::{FreedPlace, RetiredContent};
use content::{Content, Entries, Frame, Fresh, NodeId, Run, View, separator};

use crate::sync::Mutex;

/// Longest key. Callers have lower limits; this one makes the u16 lengths in a node sufficient.
pub const KEY_BYTES_MAX: usize = 4 << 10;

/// Target node size. Small, because every write copies a node; large, because every level costs a
/// reader two or three cache misses.
const NODE_BYTES: usize = 1_280;
const ROOT: NodeId = 0;

/// Direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Smallest key first.
    Forward,
    /// Largest key first.
    Backward,
}

/// A leaf and the version at which it was read. See [`Index::still_same`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeafSeen {
    node: NodeId,
    version: u64,
}

/// Effect of an insert on leaf versions, for a transaction that must not take its own insert for a
/// phantom: if it noted `before`, it may note `after` and `split` instead. If it noted another
/// version of that leaf, another transaction inserted there, and the noted version must be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafChange {
    /// The leaf just before the insert.
    pub before: LeafSeen,
    /// The leaf just after the insert.
    pub after: LeafSeen,
    /// The leaf that got the upper half of the keys, if it split.
    pub split: Option<LeafSeen>,
}

/// The index. All methods are safe to call from any number of threads at once.
pub struct Index {
    arena: Arc<Arena>,
    /// Merge lock. Holds a key of every empty leaf that could not be removed yet, because its
    /// neighbour was being split.
    merging: Mutex<Vec<Vec<u8>>>,
    node_bytes: usize,
}

/// Outcome of a merge attempt.
#[derive(PartialEq, Eq)]
enum Merged {
    Yes,
    No,
    /// Retry later: a split has not reached the parent yet.
    NotYet,
}

impl Default for Index {
    fn default() -> Index {
        Index::new()
    }
}

impl Index {
    /// An empty index; about 2 KiB.
    pub fn new() -> Index {
        let index = Index::without_root(NODE_BYTES);
        index.arena.place(ROOT, Content::empty());
        index
    }

    /// Builds an index from sorted entries, with nodes 90 % full.
    ///
    /// # Panics
    /// If keys do not ascend strictly or one is longer than [`KEY_BYTES_MAX`].
    ///
    /// # Cost
    /// A fraction of the cost of inserting them: each key is copied twice.
    pub fn build<K: AsRef<[u8]>>(entries: impl IntoIterator<Item = (K, u64)>) -> Index {
        Index::build_with(NODE_BYTES, entries)
    }

    /// Returns the value of `key`. Cost: two to four cache misses per level, most of the upper
    /// levels cached; no lock.
    pub fn get(&self, key: &[u8], guard: &Guard) -> Option<u64> {
        self.get_noting(key, guard).0
    }

    /// Like [`Index::get`]; also returns the leaf whose range has the key.
    pub fn get_noting(&self, key: &[u8], guard: &Guard) -> (Option<u64>, LeafSeen) {
        check(guard);
        let guard = &NodesGuard::pin();
        let (node, view) = self.descend(ROOT, Bound::Included(key), 0, guard);
        (view.search(key).ok().map(|at| view.value(at)), LeafSeen { node, version: view.version() })
    }

    /// Inserts a new key.
    ///
    /// # Errors
    /// The existing value of `key`; nothing was changed.
    ///
    /// # Panics
    /// If the key is longer than [`KEY_BYTES_MAX`].
    ///
    /// # Cost
    /// A get, and one copy of the leaf (one allocation). About one insert in thirty also splits the
    /// leaf.
    pub fn insert(&self, key: &[u8], value: u64, guard: &Guard) -> Result<(), u64> {
        self.insert_noting(key, value, guard).map(|_| ())
    }

    /// Like [`Index::insert`]; also returns the change of the leaf's version.
    ///
    /// # Errors
    /// See [`Index::insert`].
    pub fn insert_noting(&self, key: &[u8], value: u64, guard: &Guard) -> Result<LeafChange, u64> {
        check(guard);
        let guard = &NodesGuard::pin();
        assert!(key.len() <= KEY_BYTES_MAX, "BUG: a key of {} bytes, at most {KEY_BYTES_MAX} expected", key.len());
        let leaf = self.lock(key, 0, guard);
        match leaf.view.search(key) {
            Ok(at) => Err(leaf.view.value(at)),
            Err(at) => {
                self.arena.count_entries(leaf.id, 1);
                Ok(self.put(leaf, at, key, value, guard))
            }
        }
    }

    /// Replaces the value of an existing key and returns the old value; `None`, without a change,
    /// if the key is absent. Costs as much as an insert and counts as one for
    /// [`Index::still_same`].
    pub fn replace(&self, key: &[u8], value: u64, guard: &Guard) -> Option<u64> {
        check(guard);
        let guard = &NodesGuard::pin();
        let leaf = self.lock(key, 0, guard);
        let at = leaf.view.search(key).ok()?;
        leaf.publish(leaf.view.replaced(at, value), guard);
        Some(leaf.view.value(at))
    }

    /// Removes a key and returns its value.
    ///
    /// # Cost
    /// A get, and one copy of the leaf. A leaf that becomes empty or underfull is merged with a
    /// neighbour: a few microseconds, one thread at a time.
    pub fn remove(&self, key: &[u8], guard: &Guard) -> Option<u64> {
        check(guard);
        let guard = &NodesGuard::pin();
        let leaf = self.lock(key, 0, guard);
        let at = leaf.view.search(key).ok()?;
        let value = leaf.view.value(at);
        let content = leaf.view.removed(at);
        let left = content.view();
        let (idle, thin) = (left.is_idle(), left.is_thin(self.node_bytes) && left.count().is_power_of_two());
        leaf.publish(content, guard);
        self.arena.count_entries(leaf.id, -1);
        drop(leaf);
        if idle {
            self.merge_around(key, guard);
        } else if thin && let Some(missed) = self.merging.try_lock() {
            // Merging here only saves memory, so do not wait for another thread that merges.
            while self.merge_on_path(key, guard) == Merged::Yes {}
            drop(missed);
        }
        Some(value)
    }

    /// Calls `f` with the keys between `from` and `to` and their values, in order, until `f`
    /// breaks.
    ///
    /// A key present during the whole scan is visited exactly once; a key inserted or removed
    /// meanwhile may be visited or not. `f` may use and change the index. To resume, scan again
    /// with `Bound::Excluded` of the last key.
    ///
    /// # Cost
    /// A get, then one copy of each leaf and each key, and one or two cache misses per 50 keys or
    /// so. A backward scan costs a get per leaf.
    pub fn scan(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
        guard: &Guard,
        f: impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) {
        self.scan_with(from, to, direction, guard, |_| {}, f);
    }

    /// Like [`Index::scan`]; also pushes every leaf it read to `visited`. While all of them are
    /// [`still_same`], no key was inserted into the scanned part of the range.
    ///
    /// [`still_same`]: Index::still_same
    pub fn scan_noting(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
        guard: &Guard,
        visited: &mut Vec<LeafSeen>,
        f: impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) {
        self.scan_with(from, to, direction, guard, |leaf| visited.push(leaf), f);
    }

    /// Whether no key was inserted into the leaf since it was noted. May be false without an
    /// insert, after a split or merge of the leaf. Cost: two cache misses.
    pub fn still_same(&self, leaf: &LeafSeen, guard: &Guard) -> bool {
        check(guard);
        let guard = &NodesGuard::pin();
        self.arena.view(leaf.node, guard).is_ok_and(|view| view.version() == leaf.version)
    }

    /// Number of keys; approximate while other threads write. Cost: a few cache misses.
    pub fn len(&self) -> usize {
        self.arena.entries()
    }

    /// Whether the index has no keys; as accurate as [`Index::len`].
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all keys of an index without writers, up to `most` nodes per call. Returns the node
    /// to pass as `from` in the next call (0 in the first), or `None` when done.
    pub(crate) fn clear_some(&self, from: u32, most: u32) -> Option<u32> {
        let guard = &NodesGuard::pin();
        if from == ROOT
            && let Ok(root) = self.arena.lock(ROOT, guard)
        {
            root.publish(Content::empty_after(root.view), guard);
            self.arena.forget_entries();
        }
        let (first, used) = (from.max(ROOT + 1), self.arena.used());
        let end = first.saturating_add(most).min(used);
        for id in first..end {
            // A reader on its way to this node restarts at the root, whose range is now all keys.
            if let Ok(node) = self.arena.lock(id, guard) {
                node.kill(ROOT, guard);
            }
        }
        (end < used).then_some(end)
    }

    /// Bytes of all nodes, without allocator overhead and without retired contents.
    pub fn memory_bytes(&self) -> usize {
        self.arena.content_bytes() + self.arena.place_bytes() + size_of::<Arena>() + size_of::<Index>()
    }
}

/// Search.
impl Index {
    /// Descends or moves right from node `id` to the node of `level` whose range has a key. The
    /// key: for `Included` the bound, for `Excluded` the largest key below it, for `Unbounded` the
    /// largest of all.
    fn descend<'g>(&'g self, mut id: NodeId, to: Bound<&[u8]>, level: u8, guard: &'g NodesGuard) -> (NodeId, View<'g>) {
        loop {
            let view = match self.arena.view(id, guard) {
                Ok(view) => view,
                Err(link) => {
                    id = link;
                    continue;
                }
            };
            let further = match to {
                Bound::Included(key) => view.ends_before(key),
                Bound::Excluded(key) => view.high().is_some_and(|high| high < key),
                Bound::Unbounded => view.high().is_some(),
            };
            if further {
                id = view.right();
            } else if view.level() > level {
                id = view.value(ranked(view, to) - 1) as NodeId;
            } else {
                return (id, view);
            }
        }
    }

    /// Locks the node of `level` whose range has `key`.
    fn lock<'g>(&'g self, key: &[u8], level: u8, guard: &'g NodesGuard) -> Locked<'g> {
        let mut id = ROOT;
        loop {
            id = self.descend(id, Bound::Included(key), level, guard).0;
            match self.arena.lock(id, guard) {
                Ok(node) if node.view.level() == level && !node.view.ends_before(key) => {
                    debug_assert!(node.view.low() <= key, "BUG: node {} is right of its key", node.id);
                    return node;
                }
                // It was split meanwhile: continue from here, without the lock.
                Ok(_) => {}
                Err(link) => id = link,
            }
        }
    }

    fn scan_with(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
        guard: &Guard,
        note: impl FnMut(LeafSeen),
        f: impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) {
        check(guard);
        // A break is a normal end of a scan.
        let _ = match direction {
            Direction::Forward => self.scan_forward(from, to, note, f),
            Direction::Backward => self.scan_backward(from, to, note, f),
        };
    }

    fn scan_forward(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        mut note: impl FnMut(LeafSeen),
        mut f: impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let first = match from {
            Bound::Included(key) | Bound::Excluded(key) => key,
            Bound::Unbounded => &[],
        };
        let (mut leaf, mut key) = (Vec::new(), Vec::new());
        self.copy_leaf(&mut leaf, &mut note, Bound::Included(first), None);
        let mut start = match from {
            Bound::Excluded(key) => View::of(&leaf).rank(key, true),
            _ => View::of(&leaf).rank(first, false),
        };
        let mut fence = Vec::new();
        loop {
            let view = View::of(&leaf);
            let body = view.body();
            key.clear();
            key.extend_from_slice(view.prefix());
            for at in start..ranked(view, to) {
                let (rest, value) = body.entry(at);
                key.truncate(view.prefix().len());
                key.extend_from_slice(rest);
                f(&key, value)?;
            }
            let Some(high) = view.high() else { return ControlFlow::Continue(()) };
            let done = match to {
                Bound::Included(to) => to < high,
                Bound::Excluded(to) => to <= high,
                Bound::Unbounded => false,
            };
            if done {
                return ControlFlow::Continue(());
            }
            fence.clear();
            fence.extend_from_slice(high);
            let right = view.right();
            self.copy_leaf(&mut leaf, &mut note, Bound::Included(&fence), Some(right));
            let view = View::of(&leaf);
            // The node may have been merged with its left neighbour. It then starts lower, and
            // entries below the fence were visited already.
            debug_assert!(*view.low() <= *fence && !view.ends_before(&fence), "BUG: a scan skips a node");
            start = if view.low() == fence { 0 } else { view.rank(&fence, false) };
        }
    }

    fn scan_backward(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        mut note: impl FnMut(LeafSeen),
        mut f: impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let (mut leaf, mut key) = (Vec::new(), Vec::new());
        self.copy_leaf(&mut leaf, &mut note, to, None);
        let mut end = ranked(View::of(&leaf), to);
        let mut fence = Vec::new();
        loop {
            let view = View::of(&leaf);
            let start = match from {
                Bound::Included(from) => view.rank(from, false),
                Bound::Excluded(from) => view.rank(from, true),
                Bound::Unbounded => 0,
            };
            let body = view.body();
            key.clear();
            key.extend_from_slice(view.prefix());
            for at in (start..end).rev() {
                let (rest, value) = body.entry(at);
                key.truncate(view.prefix().len());
                key.extend_from_slice(rest);
                f(&key, value)?;
            }
            let low = view.low();
            let done = match from {
                Bound::Included(from) | Bound::Excluded(from) => from >= low,
                Bound::Unbounded => low.is_empty(),
            };
            if done || low.is_empty() {
                return ControlFlow::Continue(());
            }
            fence.clear();
            fence.extend_from_slice(low);
            let top = Bound::Excluded(fence.as_slice());
            self.copy_leaf(&mut leaf, &mut note, top, None);
            end = ranked(View::of(&leaf), top);
        }
    }

    /// Copies the leaf for a bound, so that the scan holds no guard during callbacks: `f` may take
    /// long and may change the index. `likely` is the node whose low fence was the bound a moment
    /// ago.
    fn copy_leaf(
        &self,
        leaf: &mut Vec<u64>,
        note: &mut impl FnMut(LeafSeen),
        bound: Bound<&[u8]>,
        likely: Option<NodeId>,
    ) {
        let guard = &NodesGuard::pin();
        // The slot may have been reused. Only a leaf with this low fence is the right one.
        let is_it = |view: &View<'_>| view.level() == 0 && bound == Bound::Included(view.low());
        let found = likely.and_then(|id| self.arena.view(id, guard).ok().filter(is_it).map(|view| (id, view)));
        let (node, view) = found.unwrap_or_else(|| self.descend(ROOT, bound, 0, guard));
        note(LeafSeen { node, version: view.version() });
        view.copy_words(leaf);
    }
}

/// Splits.
impl Index {
    /// Inserts an entry at position `at` of the node whose range has `key`.
    fn put(&self, node: Locked<'_>, at: usize, key: &[u8], value: u64, guard: &NodesGuard) -> LeafChange {
        let before = node.seen();
        let grown = node.view.inserted(at, key, value);
        if grown.view().overflows(self.node_bytes) {
            return self.split(node, grown.view(), guard);
        }
        let after = LeafSeen { node: node.id, version: grown.view().version() };
        node.publish(grown, guard);
        LeafChange { before, after, split: None }
    }

    /// Splits `grown` between the node and a new right neighbour, and inserts the separator into
    /// the parent.
    fn split(&self, node: Locked<'_>, grown: View<'_>, guard: &NodesGuard) -> LeafChange {
        let is_root = node.id == ROOT;
        let right = self.arena.allocate();
        let left = if is_root { self.arena.allocate() } else { Fresh { id: node.id, version: grown.version() } };
        let (left_content, right_content, separator) = grown.split(left.version, right);
        let seen = |fresh: Fresh| LeafSeen { node: fresh.id, version: fresh.version };
        let change = LeafChange { before: node.seen(), after: seen(left), split: Some(seen(right)) };

        let fences = (left_content.view().high(), right_content.view().low());
        assert!(fences == (Some(&separator[..]), &separator[..]), "BUG: halves of node {} are not adjacent", node.id);
        self.arena.place(right.id, right_content);
        if is_root {
            self.arena.place(left.id, left_content);
            node.publish(split_root(grown, left.id, &separator, right.id), guard);
        } else {
            node.publish(left_content, guard);
            drop(node);
            let parent = self.lock(&separator, grown.level() + 1, guard);
            let at = parent.view.search(&separator).expect_err("BUG: a separator is in the parent before its node");
            self.put(parent, at, &separator, u64::from(right.id), guard);
        }
        change
    }
}

/// Merges.
impl Index {
    /// Removes the leaf of `key` if it is empty, and the empty leaves that could not be removed
    /// earlier.
    fn merge_around(&self, key: &[u8], guard: &NodesGuard) {
        let mut missed = self.merging.lock();
        let mut keys = std::mem::take(&mut *missed);
        keys.push(key.to_vec());
        for key in keys {
            let last = loop {
                let merged = self.merge_on_path(&key, guard);
                if merged != Merged::Yes {
                    break merged;
                }
            };
            if last == Merged::NotYet && self.descend(ROOT, Bound::Included(&key), 0, guard).1.is_idle() {
                missed.push(key);
            }
        }
    }

    /// Merges one node on the path to `key` with a neighbour: the highest one that needs it and can
    /// be merged, because that gives the nodes below it a neighbour under the same parent. Requires
    /// the `merging` lock, which keeps the nodes seen here alive.
    fn merge_on_path(&self, key: &[u8], guard: &NodesGuard) -> Merged {
        let (mut id, mut parent, mut result) = (ROOT, None, Merged::No);
        loop {
            let Ok(view) = self.arena.view(id, guard) else {
                return Merged::NotYet;
            };
            if view.ends_before(key) {
                (id, parent) = (view.right(), None);
                result = Merged::NotYet;
                continue;
            }
            if let Some(parent) = parent
                && view.is_thin(self.node_bytes)
            {
                match self.merge(parent, id, guard) {
                    Merged::Yes => return Merged::Yes,
                    Merged::No => {}
                    Merged::NotYet => result = Merged::NotYet,
                }
            }
            if view.level() == 0 {
                return result;
            }
            parent = Some(id);
            id = view.value(view.rank(key, true) - 1) as NodeId;
        }
    }

    /// Merges `child` with its left neighbour under `parent`; the first child, with its right one.
    fn merge(&self, parent: NodeId, child: NodeId, guard: &NodesGuard) -> Merged {
        let Ok(parent) = self.arena.lock(parent, guard) else { return Merged::NotYet };
        let children = parent.view.values();
        let Some(at) = children.iter().position(|id| *id == u64::from(child)) else { return Merged::NotYet };
        if children.len() < 2 {
            return Merged::No;
        }
        let right_at = at.max(1);
        let (left, right) = (children[right_at - 1] as NodeId, children[right_at] as NodeId);
        let (Ok(left), Ok(right)) = (self.arena.lock(left, guard), self.arena.lock(right, guard)) else {
            return Merged::NotYet;
        };
        if left.view.right() != right.id {
            return Merged::NotYet;
        }
        // Leave some room, so that the next insert does not split the node again, unless a node is
        // useless.
        let needed = left.view.is_idle() || right.view.is_idle();
        if !needed && left.view.bytes() + right.view.bytes() > self.node_bytes / 4 * 3 {
            return Merged::No;
        }
        // Publish the left node first: an operation that still reaches the right node finds all its
        // entries there, or in the left node by the link. Nothing can be inserted into either
        // before the locks are released, so both states are equivalent for readers.
        left.publish(left.view.merged(right.view), guard);
        right.kill(left.id, guard);
        parent.publish(parent.view.removed(right_at), guard);
        Merged::Yes
    }
}

/// Bulk load.
impl Index {
    /// Tests use smaller nodes.
    fn build_with<K: AsRef<[u8]>>(node_bytes: usize, entries: impl IntoIterator<Item = (K, u64)>) -> Index {
        let index = Index::without_root(node_bytes);
        let mut level = 0;
        let mut above = index.build_level(level, entries.into_iter());
        while above.len() > 1 {
            level += 1;
            above = index.build_level(level, above.into_iter());
        }
        index
    }

    /// Allocates the root's slot without a content.
    fn without_root(node_bytes: usize) -> Index {
        let arena = Arc::new(Arena::new());
        assert!(arena.allocate().id == ROOT, "BUG: the first node is the root");
        Index { arena, merging: Mutex::new(Vec::new()), node_bytes }
    }

    /// Builds the nodes of one level and returns their low fences and numbers; one entry, the root,
    /// if a single node is enough.
    fn build_level<K: AsRef<[u8]>>(&self, level: u8, entries: impl Iterator<Item = (K, u64)>) -> Vec<(Vec<u8>, u64)> {
        let (mut nodes, mut low, mut fresh) = (Vec::new(), Vec::new(), Fresh { id: ROOT, version: 1 });
        let mut group = Entries::default();
        for (key, value) in entries {
            let key = key.as_ref();
            assert!(key.len() <= KEY_BYTES_MAX, "BUG: a key of {} bytes, at most {KEY_BYTES_MAX} expected", key.len());
            if let Some(last) = group.len().checked_sub(1) {
                assert!(group.key(last) < key, "BUG: keys of a bulk load must ascend");
                if group.len() >= 4 && group.bytes_with(key) > self.node_bytes / 10 * 9 {
                    if fresh.id == ROOT {
                        fresh = self.arena.allocate();
                    }
                    let (high, next) = (separator(level, group.key(last), key).to_vec(), self.arena.allocate());
                    self.build_node(level, fresh, &low, Some((high.as_slice(), next.id)), &group);
                    nodes.push((std::mem::replace(&mut low, high), u64::from(fresh.id)));
                    fresh = next;
                    group.clear();
                }
            }
            group.push(key, &[], value);
        }
        self.build_node(level, fresh, &low, None, &group);
        nodes.push((low, u64::from(fresh.id)));
        nodes
    }

    fn build_node(&self, level: u8, fresh: Fresh, low: &[u8], next: Option<(&[u8], NodeId)>, entries: &Entries) {
        let Fresh { id, version } = fresh;
        let (high, right) = next.unzip();
        let frame = Frame { version, level, right: right.unwrap_or(ROOT), low, high, run: Run::default() };
        self.arena.place(id, Content::encode(frame, entries, 0..entries.len()));
        if level == 0 {
            self.arena.count_entries(id, entries.len() as i64);
        }
    }
}

/// Number of the node's entries within bound `to`.
fn ranked(view: View<'_>, to: Bound<&[u8]>) -> usize {
    match to {
        Bound::Included(key) => view.rank(key, true),
        Bound::Excluded(key) => view.rank(key, false),
        Bound::Unbounded => view.count(),
    }
}

/// The root's content after its halves became nodes of their own.
fn split_root(grown: View<'_>, left: NodeId, separator: &[u8], right: NodeId) -> Content {
    let mut entries = Entries::default();
    entries.push(&[], &[], u64::from(left));
    entries.push(separator, &[], u64::from(right));
    let frame = Frame { level: grown.level() + 1, run: Run::default(), ..grown.frame() };
    Content::encode(frame, &entries, 0..2)
}

/// A guard of another collector would not protect the objects that values name.
fn check(guard: &Guard) {
    let ours = guard.collector().is_none_or(|collector| collector == default_collector());
    assert!(ours, "BUG: the guard is not one of the default collector's");
}
