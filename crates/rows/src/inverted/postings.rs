//! The records of an inverted index that have the keys sought, merged as they are read.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::{Bound, ControlFlow};

use crossbeam_epoch::Guard;
use model::Result;

use super::{Sought, entry};
use crate::index::{Direction, Index};
use crate::table::{IndexData, RecordId};

/// Entries of a key that are read at a time: about a leaf, or several when all of them are wanted.
const ENTRIES_MIN: usize = 64;
const ENTRIES_MAX: usize = 1 << 10;
/// Entries that all keys of a condition have read at a time, if there are many keys.
const ENTRIES_ALL_MAX: usize = 1 << 17;

/// The candidates for a condition, in ascending order.
///
/// # Cost
/// About one lookup in each list for every record of the rarest key, if a record must have all keys; O(log n) for each entry, if
/// it must have one of n. The lists take a few KiB each, and more than a hundred of them 1 MiB and 100 bytes each.
pub struct Postings<'i> {
    tree: &'i Index,
    root: Node,
}

enum Node {
    Key(List),
    All(Vec<Node>),
    Any(Union),
}

/// The records of at least one part.
struct Union {
    parts: Vec<Node>,
    /// The next record of each part that has one, and the part.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    /// Whether the parts were asked for their first records.
    is_asked: bool,
}

/// Called each time the index is read, to end a statement that was cancelled.
type Look<'l> = &'l mut dyn FnMut() -> Result<()>;

/// The records of one key.
struct List {
    key: u64,
    /// Records read and not passed yet, from `at` on.
    read: Vec<u64>,
    at: usize,
    /// The least record that was not read.
    next: u64,
    /// Entries to read at a time, and the most.
    most: usize,
    most_max: usize,
    /// Whether the index has no more.
    is_last: bool,
}

impl<'i> Postings<'i> {
    /// The records with the keys sought; `None` if any record may be one.
    #[must_use]
    pub fn new(index: &'i IndexData, sought: &Sought) -> Option<Postings<'i>> {
        assert!(index.is_inverted(), "BUG: keys are sought in index {}, which is ordered", index.def.id);
        let most = (ENTRIES_ALL_MAX / sought.keys().max(1)).clamp(1, ENTRIES_MAX);
        Some(Postings { tree: &index.tree, root: Node::of(sought, most)? })
    }

    /// The first record from `least` on; `least` must not decrease from call to call.
    ///
    /// - `look`: called each time the index is read.
    ///
    /// # Errors
    /// Those of `look`.
    pub fn seek(&mut self, least: RecordId, guard: &Guard, look: Look<'_>) -> Result<Option<RecordId>> {
        Ok(self.root.seek(least.0, (self.tree, guard), look)?.map(RecordId))
    }
}

impl Node {
    /// `None` for [`Sought::Every`].
    fn of(sought: &Sought, most_max: usize) -> Option<Node> {
        let parts = |parts: &[Sought]| parts.iter().map(|part| Node::of(part, most_max)).collect::<Option<Vec<Node>>>();
        Some(match sought {
            Sought::Every => return None,
            Sought::Key(key) => {
                let most = ENTRIES_MIN.min(most_max);
                Node::Key(List { key: *key, read: Vec::new(), at: 0, next: 0, most, most_max, is_last: false })
            }
            Sought::All(of) => Node::All(parts(of)?),
            Sought::Any(of) => Node::Any(Union { parts: parts(of)?, heads: BinaryHeap::new(), is_asked: false }),
        })
    }

    fn seek(&mut self, least: u64, (tree, guard): (&Index, &Guard), look: Look<'_>) -> Result<Option<u64>> {
        match self {
            Node::Key(list) => list.seek(least, (tree, guard), look),
            Node::Any(union) => union.seek(least, (tree, guard), look),
            Node::All(parts) => {
                // Each part skips to the largest record that another one proposes, until all agree.
                let (mut least, mut agreed, mut at) = (least, 0, 0);
                while agreed < parts.len() {
                    let Some(found) = parts[at].seek(least, (tree, guard), look)? else { return Ok(None) };
                    agreed = if found == least { agreed + 1 } else { 1 };
                    least = found;
                    at = (at + 1) % parts.len();
                }
                Ok(Some(least))
            }
        }
    }
}

impl Union {
    fn seek(&mut self, least: u64, (tree, guard): (&Index, &Guard), look: Look<'_>) -> Result<Option<u64>> {
        if !self.is_asked {
            self.is_asked = true;
            for (at, part) in self.parts.iter_mut().enumerate() {
                self.heads.extend(part.seek(least, (tree, guard), look)?.map(|found| Reverse((found, at))));
            }
        }
        while let Some(Reverse((record, at))) = self.heads.peek().copied() {
            if record >= least {
                return Ok(Some(record));
            }
            self.heads.pop();
            self.heads.extend(self.parts[at].seek(least, (tree, guard), look)?.map(|found| Reverse((found, at))));
        }
        Ok(None)
    }
}

impl List {
    fn seek(&mut self, least: u64, (tree, guard): (&Index, &Guard), look: Look<'_>) -> Result<Option<u64>> {
        let unread = &self.read[self.at..];
        let passed = match unread.first() {
            Some(first) if *first >= least => 0,
            _ => unread.partition_point(|record| *record < least),
        };
        self.at += passed;
        if let Some(found) = self.read.get(self.at) {
            return Ok(Some(*found));
        }
        if self.is_last {
            return Ok(None);
        }
        look()?;
        // Those of other keys are far apart: reading more of this one would be in vain.
        let skips = passed > self.read.len() / 2 || least > self.next;
        self.most = if skips { ENTRIES_MIN } else { 2 * self.most }.min(self.most_max);
        (self.at, self.next) = (0, self.next.max(least));
        self.read.clear();
        let (from, to) = (entry(self.key, RecordId(self.next)), entry(self.key, RecordId(u64::MAX)));
        let (read, most) = (&mut self.read, self.most);
        tree.scan(Bound::Included(&from), Bound::Included(&to), Direction::Forward, guard, |_, record| {
            read.push(record);
            if read.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        self.is_last = self.read.len() < most;
        if let Some(last) = self.read.last() {
            self.next = last + 1;
        }
        Ok(self.read.first().copied())
    }
}
