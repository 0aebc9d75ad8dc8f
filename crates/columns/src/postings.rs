//! Posting lists: for each value of a key column, the series that have it. The lists of a column
//! are built at its first use and extended later.
//!
//! Always true: the lists of a column contain every series below [`Postings::covered`] whose value
//! is not NULL, each once.
//!
//! Memory of each column used: 4 bytes per series, and 15 to 30 per distinct value.

use std::hash::{Hash, Hasher};

use hashbrown::HashTable;
use model::KeyRef;
use rustc_hash::FxHasher;

/// End of a list, and predecessor of series that are in no list.
const NONE: u32 = u32::MAX;

/// The posting lists of one key column. Values are not stored: the series keys have them.
#[derive(Default)]
pub(crate) struct Postings {
    /// By series number: the previous series of the same list.
    before: Vec<u32>,
    heads: HashTable<Head>,
}

/// A posting list: the series of one value, from newest to oldest.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    hash: u32,
    newest: u32,
    /// Number of series.
    pub(crate) len: u32,
}

impl Postings {
    /// Number of series covered: all with smaller numbers.
    pub(crate) fn covered(&self) -> u32 {
        self.before.len() as u32
    }

    /// Adds the next series. `has_value` tells whether a series has this value.
    pub(crate) fn push(&mut self, value: KeyRef<'_>, has_value: impl Fn(u32) -> bool) {
        let id = self.covered();
        if value == KeyRef::Null {
            self.before.push(NONE);
            return;
        }
        let hash = hash_value(value);
        let found = self.heads.find_mut(spread(hash), |head| head.hash == hash && has_value(head.newest));
        match found {
            Some(head) => {
                debug_assert!(head.newest < id, "BUG: series {id} after {}, which is newer", head.newest);
                self.before.push(head.newest);
                (head.newest, head.len) = (id, head.len + 1);
            }
            None => {
                self.before.push(NONE);
                let head = Head { hash, newest: id, len: 1 };
                self.heads.insert_unique(spread(hash), head, |head| spread(head.hash));
            }
        }
    }

    /// The list of a non-NULL value, if it has one.
    pub(crate) fn find(&self, value: KeyRef<'_>, has_value: impl Fn(u32) -> bool) -> Option<Head> {
        let hash = hash_value(value);
        self.heads.find(spread(hash), |head| head.hash == hash && has_value(head.newest)).copied()
    }

    /// The series of a list, from newest to oldest.
    pub(crate) fn series(&self, head: Head) -> impl Iterator<Item = u32> {
        assert!(head.newest < self.covered(), "BUG: series {} in a list of {}", head.newest, self.covered());
        let at = |id: u32| (id != NONE).then_some(id);
        std::iter::successors(at(head.newest), move |id| at(self.before[*id as usize]))
    }

    /// Memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.before.capacity() * 4 + self.heads.capacity() * 8 / 7 * (size_of::<Head>() + 1)
    }
}

fn hash_value(value: KeyRef<'_>) -> u32 {
    let mut hasher = FxHasher::default();
    value.hash(&mut hasher);
    let hash = hasher.finish();
    (hash >> 32) as u32 ^ hash as u32
}

/// The hash table uses the highest and the lowest bits, so both need entropy.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}
