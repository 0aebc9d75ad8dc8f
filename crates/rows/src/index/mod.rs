//! The ordered index of a table in memory: byte strings to 64-bit values, for many threads at once.
//!
//! A B-link tree (Lehman and Yao, "Efficient Locking for Concurrent Operations on B-Trees", TODS 1981) whose nodes are
//! not changed but replaced: a reader loads a node's content once and has all of it, unchanging, until its guard goes.
//! Readers take no locks and never start over. A writer copies a content with its change, under the lock of that one
//! node. Every node knows the range of keys it answers for and its right neighbour, so who arrives after a split moves
//! right.
//!
//! We differ from the paper in three points:
//! - The root never moves. When it splits, its halves become two new nodes and it becomes their parent, in one step.
//! - A parent is always looked for from the root; it is in the cache, and splits are rare.
//! - Nodes go away. When one has become useless, it and the neighbour under the same parent become one: the left of the
//!   two takes over range and entries of the right, then the right dies and leaves a link to the left. The locks of the
//!   parent and of both are held, in this order; nobody else holds more than one, so nobody waits in a circle. One
//!   thread at a time does this. A node whose entry in the parent is not there yet is left alone.
//!
//! Always true:
//! - Ranges of a level's nodes, from left to right, cover all keys and do not overlap. A node's low fence never
//!   changes while it lives.
//! - An insert changes the version of the leaf that answered for the key, and so does the split or the death of that
//!   leaf. So who saw a key's absence in a leaf, and finds the leaf's version the same, knows that it is still absent.
//!
//! Guards: all calls take a guard of crossbeam's default collector (`crossbeam_epoch::pin`): what the values name stays under it. Nodes are
//! protected by guards of their own (`reclaim::NODES`), held for one operation, of a scan for the copying of one leaf. So what a statement
//! replaces, about one node (a kilobyte or two) a write, is freed while it runs.
//!
//! Not here: what keys and values mean, who may see them, duplicates (put the record into the key).

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

/// Longest key. Callers have lower limits; this one makes the lengths inside a node fit.
pub const KEY_BYTES_MAX: usize = 4 << 10;

/// A node is split when it gets larger than this: small, since every write copies a node; large, since every level of
/// the tree costs a reader two or three cache misses.
const NODE_BYTES: usize = 1_280;
const ROOT: NodeId = 0;

/// Which end a scan starts at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Smallest key first.
    Forward,
    /// Largest key first.
    Backward,
}

/// A leaf that was looked into, and the state it was in. See [`Index::still_same`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeafSeen {
    node: NodeId,
    version: u64,
}

/// What an insert did to the leaves' versions, for a transaction that must not take its own insert for a phantom: if it
/// noted `before`, it may note `after` and `split` instead. If it noted another version of that leaf, somebody else
/// inserted there, and it has to keep what it noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafChange {
    /// The leaf just before the insert.
    pub before: LeafSeen,
    /// The leaf just after it.
    pub after: LeafSeen,
    /// The leaf that took the upper half of its keys, if it was split.
    pub split: Option<LeafSeen>,
}

/// The index. All methods may be called by any number of threads at once.
pub struct Index {
    arena: Arc<Arena>,
    /// Held while nodes are united. Inside: a key of every leaf that is empty and could not be removed, because its
    /// neighbour was just being split.
    uniting: Mutex<Vec<Vec<u8>>>,
    node_bytes: usize,
}

/// Why two nodes are two after all.
#[derive(PartialEq, Eq)]
enum United {
    Yes,
    No,
    /// A split has not reached the parent yet.
    NotYet,
}

impl Default for Index {
    fn default() -> Index {
        Index::new()
    }
}

impl Index {
    /// An index without keys; about 2 KiB.
    pub fn new() -> Index {
        let index = Index::without_root(NODE_BYTES);
        index.arena.place(ROOT, Content::empty());
        index
    }

    /// An index of sorted entries, its nodes nine tenths full.
    ///
    /// # Panics
    /// If keys do not ascend strictly or one is longer than [`KEY_BYTES_MAX`].
    ///
    /// # Cost
    /// A fraction of that of as many inserts: each key is copied twice.
    pub fn build<K: AsRef<[u8]>>(entries: impl IntoIterator<Item = (K, u64)>) -> Index {
        Index::build_with(NODE_BYTES, entries)
    }

    /// The value of `key`. Cost: two to four cache misses a level, of which the upper ones hit; no lock.
    pub fn get(&self, key: &[u8], guard: &Guard) -> Option<u64> {
        self.get_noting(key, guard).0
    }

    /// As [`Index::get`]; also the leaf that has the key or would have it.
    pub fn get_noting(&self, key: &[u8], guard: &Guard) -> (Option<u64>, LeafSeen) {
        check(guard);
        let guard = &NodesGuard::pin();
        let (node, view) = self.descend(ROOT, Bound::Included(key), 0, guard);
        (view.search(key).ok().map(|at| view.value(at)), LeafSeen { node, version: view.version() })
    }

    /// Adds a key that is not there yet.
    ///
    /// # Errors
    /// The value `key` has. Nothing was changed.
    ///
    /// # Panics
    /// If the key is longer than [`KEY_BYTES_MAX`].
    ///
    /// # Cost
    /// A get, and one copy of the leaf (one allocation). One insert in about thirty also splits it.
    pub fn insert(&self, key: &[u8], value: u64, guard: &Guard) -> Result<(), u64> {
        self.insert_noting(key, value, guard).map(|_| ())
    }

    /// As [`Index::insert`]; also what became of the leaf.
    ///
    /// # Errors
    /// As there.
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

    /// Gives a key that is there another value and returns the one it had; `None`, and nothing changed, if it is not.
    /// Cost: as an insert. For [`Index::still_same`] it counts as one.
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
    /// A get, and one copy of the leaf. A leaf that loses its last key, or is getting thin, is united with a neighbour:
    /// a few microseconds, one thread at a time.
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
            self.unite_around(key, guard);
        } else if thin && let Some(missed) = self.uniting.try_lock() {
            // Not needed for anything but memory; whoever is at it need not be waited for.
            while self.unite_on_path(key, guard) == United::Yes {}
            drop(missed);
        }
        Some(value)
    }

    /// Calls `f` with keys between `from` and `to` and their values, in order, until it breaks.
    ///
    /// A key that is there during the whole scan comes exactly once; one that comes or goes meanwhile may or may not.
    /// `f` may use the index, change it too. To go on later, start again with `Bound::Excluded` of the last key.
    ///
    /// # Cost
    /// A get, then a copy of each leaf and of each key, and a cache miss or two every fifty keys or so; backwards a get instead.
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

    /// As [`Index::scan`]; also adds all leaves it looked into to `visited`. As long as they are [`still_same`], no key
    /// came into the part of the range that was scanned.
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

    /// Whether no key was added to the leaf since it was noted. `false` may be said although none was: when the leaf was
    /// split or united with another. Cost: two cache misses.
    pub fn still_same(&self, leaf: &LeafSeen, guard: &Guard) -> bool {
        check(guard);
        let guard = &NodesGuard::pin();
        self.arena.view(leaf.node, guard).is_ok_and(|view| view.version() == leaf.version)
    }

    /// How many keys there are; while others write, how many there were about now. Cost: a few cache misses.
    pub fn len(&self) -> usize {
        self.arena.entries()
    }

    /// Whether there is no key; as exact as [`Index::len`].
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all keys, some nodes at a time: nobody writes any more. Gives where to go on, from 0, until there is nothing left.
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
            // Whoever was on its way to a node goes on at the root, which answers for all keys.
            if let Ok(node) = self.arena.lock(id, guard) {
                node.kill(ROOT, guard);
            }
        }
        (end < used).then_some(end)
    }

    /// Memory of all nodes, without the allocator's share and without what waits for guards to go.
    pub fn memory_bytes(&self) -> usize {
        self.arena.content_bytes() + self.arena.place_bytes() + size_of::<Arena>() + size_of::<Index>()
    }
}

/// Looking for leaves.
impl Index {
    /// The node of `level` that answers for a key, found from node `id`, which is left of it or above it: for
    /// `Included` the key, for `Excluded` the largest below it, for `Unbounded` the largest of all.
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

    /// The node of `level` that answers for `key`, locked.
    fn lock<'g>(&'g self, key: &[u8], level: u8, guard: &'g NodesGuard) -> Locked<'g> {
        let mut id = ROOT;
        loop {
            id = self.descend(id, Bound::Included(key), level, guard).0;
            match self.arena.lock(id, guard) {
                Ok(node) if node.view.level() == level && !node.view.ends_before(key) => return node,
                // Split meanwhile: go on from here, without the lock.
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
        // Breaking is one of the ways to end.
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
            // The node may have been united with its left one: it starts lower then, and what is below was seen.
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

    /// Copies the leaf that answers for a bound, so that a scan holds no guard while it calls back: what is called may take as long as it
    /// likes, and change the index. `likely` is the place of the leaf, when the bound was its low fence a moment ago.
    fn copy_leaf(
        &self,
        leaf: &mut Vec<u64>,
        note: &mut impl FnMut(LeafSeen),
        bound: Bound<&[u8]>,
        likely: Option<NodeId>,
    ) {
        let guard = &NodesGuard::pin();
        // The place may be another node's by now. A leaf with this fence is the one.
        let is_it = |view: &View<'_>| view.level() == 0 && bound == Bound::Included(view.low());
        let found = likely.and_then(|id| self.arena.view(id, guard).ok().filter(is_it).map(|view| (id, view)));
        let (node, view) = found.unwrap_or_else(|| self.descend(ROOT, bound, 0, guard));
        note(LeafSeen { node, version: view.version() });
        view.copy_words(leaf);
    }
}

/// Splitting.
impl Index {
    /// Adds an entry to the node that answers for `key`, in which it belongs at `at`.
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

    /// Gives the node half of `grown`, the other half to a new one at its right, and tells the parent.
    fn split(&self, node: Locked<'_>, grown: View<'_>, guard: &NodesGuard) -> LeafChange {
        let is_root = node.id == ROOT;
        let right = self.arena.allocate();
        let left = if is_root { self.arena.allocate() } else { Fresh { id: node.id, version: grown.version() } };
        let (left_content, right_content, separator) = grown.split(left.version, right);
        let seen = |fresh: Fresh| LeafSeen { node: fresh.id, version: fresh.version };
        let change = LeafChange { before: node.seen(), after: seen(left), split: Some(seen(right)) };

        self.arena.place(right.id, right_content);
        if is_root {
            self.arena.place(left.id, left_content);
            node.publish(root_of(grown, left.id, &separator, right.id), guard);
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

/// Uniting.
impl Index {
    /// Removes the leaf of `key` if it is empty, and those that could not be removed before.
    fn unite_around(&self, key: &[u8], guard: &NodesGuard) {
        let mut missed = self.uniting.lock();
        let mut keys = std::mem::take(&mut *missed);
        keys.push(key.to_vec());
        for key in keys {
            let last = loop {
                let united = self.unite_on_path(&key, guard);
                if united != United::Yes {
                    break united;
                }
            };
            if last == United::NotYet && self.descend(ROOT, Bound::Included(&key), 0, guard).1.is_idle() {
                missed.push(key);
            }
        }
    }

    /// Unites one node on the way to `key` with a neighbour, the uppermost that needs it and can be: then the ones
    /// below have a neighbour to be united with. To be called under the lock of `uniting`, so nodes seen here live.
    fn unite_on_path(&self, key: &[u8], guard: &NodesGuard) -> United {
        let (mut id, mut parent, mut result) = (ROOT, None, United::No);
        loop {
            let Ok(view) = self.arena.view(id, guard) else {
                return United::NotYet;
            };
            if view.ends_before(key) {
                (id, parent) = (view.right(), None);
                result = United::NotYet;
                continue;
            }
            if let Some(parent) = parent
                && view.is_thin(self.node_bytes)
            {
                match self.unite(parent, id, guard) {
                    United::Yes => return United::Yes,
                    United::No => {}
                    United::NotYet => result = United::NotYet,
                }
            }
            if view.level() == 0 {
                return result;
            }
            parent = Some(id);
            id = view.value(view.rank(key, true) - 1) as NodeId;
        }
    }

    /// Unites `child` with its left neighbour under `parent`, or as the first one with its right.
    fn unite(&self, parent: NodeId, child: NodeId, guard: &NodesGuard) -> United {
        let Ok(parent) = self.arena.lock(parent, guard) else { return United::NotYet };
        let children = parent.view.values();
        let Some(at) = children.iter().position(|id| *id == u64::from(child)) else { return United::NotYet };
        if children.len() < 2 {
            return United::No;
        }
        let right_at = at.max(1);
        let (left, right) = (children[right_at - 1] as NodeId, children[right_at] as NodeId);
        let (Ok(left), Ok(right)) = (self.arena.lock(left, guard), self.arena.lock(right, guard)) else {
            return United::NotYet;
        };
        if left.view.right() != right.id {
            return United::NotYet;
        }
        // Not so full that the next insert would split it again, unless there is no other way.
        let needed = left.view.is_idle() || right.view.is_idle();
        if !needed && left.view.bytes() + right.view.bytes() > self.node_bytes / 4 * 3 {
            return United::No;
        }
        // The left one first: whoever still comes to the right one finds all there, alive or by the link. Nothing can
        // be added to either before the locks go, so it does not matter who sees which state.
        left.publish(left.view.united(right.view), guard);
        right.kill(left.id, guard);
        parent.publish(parent.view.removed(right_at), guard);
        United::Yes
    }
}

/// Building.
impl Index {
    /// For tests also with smaller nodes.
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

    /// The root's place is taken, but empty.
    fn without_root(node_bytes: usize) -> Index {
        let arena = Arc::new(Arena::new());
        assert!(arena.allocate().id == ROOT, "BUG: the first node is the root");
        Index { arena, uniting: Mutex::new(Vec::new()), node_bytes }
    }

    /// Makes the nodes of one level and returns their low fences and places: one, the root's, if one node is enough.
    fn build_level<K: AsRef<[u8]>>(&self, level: u8, entries: impl Iterator<Item = (K, u64)>) -> Vec<(Vec<u8>, u64)> {
        let (mut nodes, mut low, mut fresh) = (Vec::new(), Vec::new(), Fresh { id: ROOT, version: 1 });
        let mut group = Entries::default();
        for (key, value) in entries {
            let key = key.as_ref();
            assert!(key.len() <= KEY_BYTES_MAX, "BUG: a key of {} bytes, at most {KEY_BYTES_MAX} expected", key.len());
            if let Some(last) = group.len().checked_sub(1) {
                assert!(group.key(last) < key, "BUG: keys to build an index from do not ascend");
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

/// How many entries of the node are within `to`.
fn ranked(view: View<'_>, to: Bound<&[u8]>) -> usize {
    match to {
        Bound::Included(key) => view.rank(key, true),
        Bound::Excluded(key) => view.rank(key, false),
        Bound::Unbounded => view.count(),
    }
}

/// The root after its halves became nodes of their own.
fn root_of(grown: View<'_>, left: NodeId, separator: &[u8], right: NodeId) -> Content {
    let mut entries = Entries::default();
    entries.push(&[], &[], u64::from(left));
    entries.push(separator, &[], u64::from(right));
    let frame = Frame { level: grown.level() + 1, run: Run::default(), ..grown.frame() };
    Content::encode(frame, &entries, 0..2)
}

/// Guards of another collector would not keep our nodes.
fn check(guard: &Guard) {
    let ours = guard.collector().is_none_or(|collector| collector == default_collector());
    assert!(ours, "BUG: the guard is not one of the default collector's");
}
