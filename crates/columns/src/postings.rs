//! Which series have a value in a key column: lists that are made when a column is first asked for, and kept up from then on.
//!
//! Always true: the lists of a column hold every series below [`Postings::covered`] whose value is not NULL, each once.
//!
//! Memory, of each column that was asked for: 4 bytes a series, and 15 to 30 a distinct value.

use std::hash::{Hash, Hasher};

use hashbrown::HashTable;
use model::KeyRef;
use rustc_hash::FxHasher;

/// What stands before the first series of a list, and of those in none.
const NONE: u32 = u32::MAX;

/// The lists of one key column. Values themselves are not kept: they are in the keys of the series.
#[derive(Default)]
pub(crate) struct Postings {
    /// By series: the one before it in its list.
    before: Vec<u32>,
    heads: HashTable<Head>,
}

/// A list: all series of a value, from the newest to the oldest.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    hash: u32,
    newest: u32,
    /// How many they are.
    pub(crate) len: u32,
}

impl Postings {
    /// Series looked at so far: those with smaller numbers.
    pub(crate) fn covered(&self) -> u32 {
        self.before.len() as u32
    }

    /// Takes in the next series. `has_value`: has that series this value too?
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

    /// The list of a value other than NULL, if any series has it.
    pub(crate) fn find(&self, value: KeyRef<'_>, has_value: impl Fn(u32) -> bool) -> Option<Head> {
        let hash = hash_value(value);
        self.heads.find(spread(hash), |head| head.hash == hash && has_value(head.newest)).copied()
    }

    /// The series of a list, from the newest to the oldest.
    pub(crate) fn series(&self, head: Head) -> impl Iterator<Item = u32> {
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

/// The table wants entropy in the highest and the lowest bits.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}
