//! Series keys and their numbers, of one table.

use model::{DataType, Result, SeriesId};

use crate::rows::KeyList;

/// Key bytes to number and back. Append-only and shared by all states of a table: a number that a state does not know of
/// (`id >= state.series_count`) has no rows in it.
#[derive(Default)]
pub struct SeriesIndex {}

impl SeriesIndex {
    /// The number of a key (canonical bytes).
    pub fn lookup(&self, _key: &[u8]) -> Option<SeriesId> {
        unimplemented!()
    }

    /// Numbers of all keys of `keys`; `None` where unknown. One lock for all.
    pub fn lookup_all(&self, _keys: &KeyList) -> Vec<Option<SeriesId>> {
        unimplemented!()
    }

    /// Adds a key under exactly this number (the next one); `engine` calls it in commit order and at replay (where one that is
    /// there already must be equal).
    pub fn insert(&self, _id: SeriesId, _key: &[u8]) -> Result<()> {
        unimplemented!()
    }

    /// How many there are.
    pub fn len(&self) -> u32 {
        unimplemented!()
    }

    /// The key values of series `ids` as arrow arrays, one per entry of `types` (key columns in order).
    pub fn key_columns(&self, _ids: &[u32], _types: &[DataType]) -> Result<Vec<arrow_array::ArrayRef>> {
        unimplemented!()
    }

    /// Memory held.
    pub fn memory_bytes(&self) -> usize {
        unimplemented!()
    }
}
