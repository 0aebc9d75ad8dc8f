//! The records of an inverted index that have the keys sought, merged as they are read.

use std::ops::{Bound, ControlFlow};

use crossbeam_epoch::Guard;

use super::{Sought, entry};
use crate::index::{Direction, Index};
use crate::table::{IndexData, RecordId};

/// Entries of a key that are read at a time: about a leaf, or several when all of them are wanted.
const ENTRIES_MIN: usize = 64;
const ENTRIES_MAX: usize = 1 << 10;

/// The candidates for a condition, in ascending order.
///
/// # Cost
/// Of several keys that a record must have, about one lookup of each for every record of the rarest one. Memory: a few KiB
/// for each key.
pub struct Postings<'i> {
    tree: &'i Index,
    root: Node,
}

enum Node {
    Key(List),
    All(Vec<Node>),
    Any(Vec<Node>),
}

/// The records of one key.
struct List {
    key: u64,
    /// Records read and not passed yet, from `at` on.
    read: Vec<u64>,
    at: usize,
    /// The least record that was not read.
    next: u64,
    /// Entries to read at a time.
    most: usize,
    /// Whether the index has no more.
    is_last: bool,
}

impl<'i> Postings<'i> {
    /// The records with the keys sought; `None` if any record may be one.
    #[must_use]
    pub fn new(index: &'i IndexData, sought: &Sought) -> Option<Postings<'i>> {
        assert!(index.is_inverted(), "BUG: keys are sought in index {}, which is ordered", index.def.id);
        Some(Postings { tree: &index.tree, root: Node::of(sought)? })
    }

    /// The first record from `least` on; `least` must not decrease from call to call.
    pub fn seek(&mut self, least: RecordId, guard: &Guard) -> Option<RecordId> {
        self.root.seek(least.0, self.tree, guard).map(RecordId)
    }
}

impl Node {
    /// `None` for [`Sought::Every`].
    fn of(sought: &Sought) -> Option<Node> {
        let parts = |parts: &[Sought]| parts.iter().map(Node::of).collect::<Option<Vec<Node>>>();
        Some(match sought {
            Sought::Every => return None,
            Sought::Key(key) => {
                Node::Key(List { key: *key, read: Vec::new(), at: 0, next: 0, most: ENTRIES_MIN, is_last: false })
            }
            Sought::All(of) => Node::All(parts(of)?),
            Sought::Any(of) => Node::Any(parts(of)?),
        })
    }

    fn seek(&mut self, least: u64, tree: &Index, guard: &Guard) -> Option<u64> {
        match self {
            Node::Key(list) => list.seek(least, tree, guard),
            Node::Any(parts) => parts.iter_mut().filter_map(|part| part.seek(least, tree, guard)).min(),
            Node::All(parts) => {
                // Each part skips to the largest record that another one proposes, until all agree.
                let (mut least, mut agreed, mut at) = (least, 0, 0);
                while agreed < parts.len() {
                    let found = parts[at].seek(least, tree, guard)?;
                    agreed = if found == least { agreed + 1 } else { 1 };
                    least = found;
                    at = (at + 1) % parts.len();
                }
                Some(least)
            }
        }
    }
}

impl List {
    fn seek(&mut self, least: u64, tree: &Index, guard: &Guard) -> Option<u64> {
        let unread = &self.read[self.at..];
        let passed = match unread.first() {
            Some(first) if *first >= least => 0,
            _ => unread.partition_point(|record| *record < least),
        };
        self.at += passed;
        if let Some(found) = self.read.get(self.at) {
            return Some(*found);
        }
        if self.is_last {
            return None;
        }
        // Those of other keys are far apart: reading more of this one would be in vain.
        let skips = passed > self.read.len() / 2 || least > self.next;
        self.most = if skips { ENTRIES_MIN } else { (2 * self.most).min(ENTRIES_MAX) };
        (self.at, self.next) = (0, self.next.max(least));
        self.read.clear();
        let (from, to) = (entry(self.key, RecordId(self.next)), entry(self.key, RecordId(u64::MAX)));
        let (read, most) = (&mut self.read, self.most);
        tree.scan(Bound::Included(&from), Bound::Included(&to), Direction::Forward, guard, |_, record| {
            read.push(record);
            if read.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        self.is_last = self.read.len() < most;
        let last = *self.read.last()?;
        self.next = last + 1;
        self.read.first().copied()
    }
}
