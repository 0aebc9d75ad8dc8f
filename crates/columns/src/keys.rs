//! Distinct series keys in order of first appearance.

use std::fmt;
use std::hash::Hasher;

use hashbrown::HashTable;
use rustc_hash::FxHasher;

/// Distinct series keys (canonical bytes, see [`model::key`]), numbered in order of first
/// appearance, in one buffer.
#[derive(Clone, Default)]
pub struct KeyList {
    bytes: Vec<u8>,
    /// The end of each key in `bytes`.
    ends: Vec<u32>,
    /// Key numbers by hash of the key bytes.
    table: HashTable<u32>,
}

impl KeyList {
    /// An empty list.
    #[must_use]
    pub fn new() -> KeyList {
        KeyList::default()
    }

    /// A list with one empty key, as tables without key columns have.
    #[must_use]
    pub fn single() -> KeyList {
        let mut keys = KeyList::new();
        keys.intern(&[]);
        keys
    }

    /// The number of `key`; adds it if it is missing.
    ///
    /// # Panics
    /// If all keys together exceed 4 GiB. Batches are far smaller by the limits of their builders.
    pub fn intern(&mut self, key: &[u8]) -> u32 {
        let hash = hash_key(key);
        let KeyList { bytes, ends, table } = self;
        if let Some(found) = table.find(hash, |at| key_at(bytes, ends, *at) == key) {
            return *found;
        }
        let at = u32::try_from(ends.len()).expect("fewer keys than key bytes");
        bytes.extend_from_slice(key);
        ends.push(u32::try_from(bytes.len()).expect("keys of one batch stay under 4 GiB"));
        table.insert_unique(hash, at, |at| hash_key(key_at(bytes, ends, *at)));
        at
    }

    /// The number of `key`, if it is in the list.
    #[must_use]
    pub fn find(&self, key: &[u8]) -> Option<u32> {
        self.table.find(hash_key(key), |at| self.get(*at) == key).copied()
    }

    /// Key number `at`.
    ///
    /// # Panics
    /// If `at` is out of range.
    #[must_use]
    pub fn get(&self, at: u32) -> &[u8] {
        key_at(&self.bytes, &self.ends, at)
    }

    /// Number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All keys in order of their numbers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.ends.len()).map(|at| key_at(&self.bytes, &self.ends, at as u32))
    }

    /// Total length of all keys in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Memory held.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * 4 + self.table.capacity() * 5
    }
}

impl fmt::Debug for KeyList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl PartialEq for KeyList {
    fn eq(&self, other: &KeyList) -> bool {
        self.ends == other.ends && self.bytes == other.bytes
    }
}

impl Eq for KeyList {}

impl<'a> FromIterator<&'a [u8]> for KeyList {
    fn from_iter<I: IntoIterator<Item = &'a [u8]>>(keys: I) -> KeyList {
        let mut list = KeyList::new();
        for key in keys {
            list.intern(key);
        }
        list
    }
}

/// The hash of a key's bytes. It is the same in every process, but nothing is ordered by it.
pub(crate) fn hash_key(key: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(key);
    hasher.write_usize(key.len());
    hasher.finish()
}

fn key_at<'a>(bytes: &'a [u8], ends: &[u32], at: u32) -> &'a [u8] {
    let at = at as usize;
    let start = if at == 0 { 0 } else { ends[at - 1] as usize };
    &bytes[start..ends[at] as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_get_one_number_in_order_of_first_appearance() {
        let mut keys = KeyList::new();
        let numbers: Vec<u32> = ["b", "a", "", "b", "", "c"].iter().map(|key| keys.intern(key.as_bytes())).collect();
        assert_eq!(numbers, [0, 1, 2, 0, 2, 3]);
        assert_eq!(keys.iter().collect::<Vec<_>>(), [&b"b"[..], b"a", b"", b"c"]);
        assert_eq!((keys.find(b"a"), keys.find(b"d")), (Some(1), None));
    }

    #[test]
    fn many_keys_stay_distinct() {
        let mut keys = KeyList::new();
        for number in 0..20_000u32 {
            assert_eq!(keys.intern(&number.to_le_bytes()), number);
        }
        assert!((0..20_000u32).all(|number| keys.find(&number.to_le_bytes()) == Some(number)));
    }
}
