//! The series of a table: keys and their dense numbers.
//!
//! Always true: numbers are assigned without gaps from 0; a key is never removed and never changes
//! its number.
//!
//! Memory per series: its key, 4 bytes for its end offset, and 10 to 20 bytes of hash table; and
//! posting lists (`postings`) of key columns that were used in conditions.

use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Int16Builder, Int32Builder, Int64Builder, StringBuilder, TimestampNanosecondBuilder,
    UInt64Builder,
};
use arrow_array::{ArrayRef, builder::ArrayBuilder};
use hashbrown::HashTable;
use model::limits::SERIES_PER_TABLE_MAX;
use model::{DataType, Error, KeyRef, KeyValue, Result, SeriesId, SqlState, key};
use parking_lot::RwLock;
use rustc_hash::FxHashSet;

use crate::keys::{KeyList, hash_key};
use crate::postings::{Head, Postings};
use crate::rows::arrow_type;

/// Series per chunk of keys: growing the index copies at most one chunk, and offsets within a chunk
/// fit 32 bits.
const CHUNK_SERIES: usize = 1 << 16;

/// Maps series keys to numbers and back. Append-only and shared by all states of a table: in a
/// state, series with numbers from its `series_count` on do not exist.
#[derive(Default)]
pub struct SeriesIndex {
    /// One per key column. Lock order: before `inner`.
    postings: RwLock<Vec<Postings>>,
    inner: RwLock<Inner>,
}

/// A condition on a key column: `column IN (values)`.
#[derive(Clone, Debug)]
pub struct OneOf {
    /// Position among the key columns.
    pub column: usize,
    /// Accepted values; a NULL matches nothing.
    pub values: Vec<KeyValue>,
}

#[derive(Default)]
struct Inner {
    chunks: Vec<Chunk>,
    len: u32,
    table: HashTable<Slot>,
}

/// Keys of [`CHUNK_SERIES`] consecutive series.
#[derive(Default)]
struct Chunk {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

/// Stores the hash, so that growing the table does not read the keys.
#[derive(Clone, Copy)]
struct Slot {
    hash: u32,
    id: u32,
}

impl Inner {
    fn key(&self, id: u32) -> &[u8] {
        let chunk = &self.chunks[id as usize / CHUNK_SERIES];
        let at = id as usize % CHUNK_SERIES;
        let start = if at == 0 { 0 } else { chunk.ends[at - 1] as usize };
        &chunk.bytes[start..chunk.ends[at] as usize]
    }

    fn find(&self, key: &[u8]) -> Option<u32> {
        let hash = short_hash(key);
        self.table.find(spread(hash), |slot| slot.hash == hash && self.key(slot.id) == key).map(|slot| slot.id)
    }

    /// Whether series `id` has this value in a key column.
    fn has(&self, id: u32, types: &[DataType], column: usize, value: KeyRef<'_>) -> bool {
        key::value_at(self.key(id), types, column).is_ok_and(|other| other == value)
    }

    fn list(&self, lists: &Postings, types: &[DataType], column: usize, value: &KeyValue) -> Option<Head> {
        let value = value.borrowed();
        lists.find(value, |id| self.has(id, types, column, value))
    }

    fn push(&mut self, key: &[u8]) {
        if (self.len as usize).is_multiple_of(CHUNK_SERIES) {
            self.chunks.push(Chunk::default());
        }
        let chunk = self.chunks.last_mut().expect("one was pushed for the first series");
        chunk.bytes.extend_from_slice(key);
        let end = u32::try_from(chunk.bytes.len()).expect("BUG: keys of a chunk of more than 4 GiB");
        chunk.ends.push(end);
        let slot = Slot { hash: short_hash(key), id: self.len };
        self.table.insert_unique(spread(slot.hash), slot, |slot| spread(slot.hash));
        self.len += 1;
        let (hashed, series) = (self.table.len(), self.len as usize);
        assert!(hashed == series, "BUG: {hashed} keys in the hash table of {series} series");
        debug_assert_eq!(self.find(key), Some(self.len - 1), "BUG: a key is not found under its number");
    }

    fn insert(&mut self, id: SeriesId, key: &[u8]) -> Result<()> {
        if id.0 < self.len {
            let same = self.key(id.0) == key;
            return if same { Ok(()) } else { Err(Error::corrupt(format!("series {id} has two different keys"))) };
        }
        if id.0 > self.len {
            return Err(Error::corrupt(format!("series {id} found, expected series {}", self.len)));
        }
        if let Some(other) = self.find(key) {
            return Err(Error::corrupt(format!("series {id} has the key of series {other}")));
        }
        if id.0 >= SERIES_PER_TABLE_MAX {
            let text = format!("a table can have at most {SERIES_PER_TABLE_MAX} series");
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text));
        }
        self.push(key);
        Ok(())
    }
}

impl SeriesIndex {
    /// The series number of a key (canonical bytes).
    #[must_use]
    pub fn lookup(&self, key: &[u8]) -> Option<SeriesId> {
        self.inner.read().find(key).map(SeriesId)
    }

    /// The numbers of all keys; `None` for unknown ones. Takes the lock once.
    #[must_use]
    pub fn lookup_all(&self, keys: &KeyList) -> Vec<Option<SeriesId>> {
        let inner = self.inner.read();
        keys.iter().map(|key| inner.find(key).map(SeriesId)).collect()
    }

    /// Adds a key under the number `id`, which must be the next one. `engine` calls it in commit
    /// order, and at replay, where an existing key with the same number is accepted.
    ///
    /// # Errors
    /// XX001 when the number is not the next one, or the number or key exists with another; 54000
    /// when the table is full.
    pub fn insert(&self, id: SeriesId, key: &[u8]) -> Result<()> {
        self.inner.write().insert(id, key)
    }

    /// Adds keys under consecutive numbers from `first` on. Takes the lock once.
    ///
    /// # Errors
    /// See [`SeriesIndex::insert`]; keys before the failing one are added.
    pub fn insert_all<'a>(&self, first: SeriesId, keys: impl IntoIterator<Item = &'a [u8]>) -> Result<()> {
        let mut inner = self.inner.write();
        for (at, key) in keys.into_iter().enumerate() {
            inner.insert(SeriesId(first.0 + at as u32), key)?;
        }
        Ok(())
    }

    /// Number of series.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.inner.read().len
    }

    /// Whether there are no series.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `each` with the keys of these series, in order.
    ///
    /// # Errors
    /// XX000 when a series does not exist; errors of `each`.
    pub fn with_keys(
        &self,
        ids: impl IntoIterator<Item = u32>,
        mut each: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let inner = self.inner.read();
        for id in ids {
            if id >= inner.len {
                return Err(Error::bug(format!("series {id} of {} was asked for", inner.len)));
            }
            each(inner.key(id))?;
        }
        Ok(())
    }

    /// Key values of series `ids` as arrow arrays, one per entry of `types` (key columns in order).
    ///
    /// # Errors
    /// XX000 when a series does not exist; XX001 when a key is not of these types.
    pub fn key_columns(&self, ids: &[u32], types: &[DataType]) -> Result<Vec<ArrayRef>> {
        let mut columns = KeyColumns::new(types, ids.len());
        self.with_keys(ids.iter().copied(), |key| columns.push(key))?;
        Ok(columns.finish())
    }

    /// The series below `count` that satisfy all of `conditions`, ascending.
    ///
    /// - `types`: types of the key columns.
    /// - `conditions`: at least one.
    ///
    /// # Cost
    /// One step per series of the most selective condition. The first use of a key column reads all
    /// keys, later uses read new keys.
    ///
    /// # Errors
    /// XX001 when a key is not of these types.
    pub fn having(&self, types: &[DataType], conditions: &[OneOf], count: u32) -> Result<Vec<u32>> {
        for condition in conditions {
            self.cover(types, condition.column, count)?;
        }
        let (postings, inner) = (self.postings.read(), self.inner.read());
        let mut fewest: Option<(u64, usize, Vec<Head>)> = None;
        for (at, OneOf { column, values }) in conditions.iter().enumerate() {
            let heads: Vec<Head> =
                values.iter().filter_map(|value| inner.list(&postings[*column], types, *column, value)).collect();
            let series = heads.iter().map(|head| u64::from(head.len)).sum();
            if fewest.as_ref().is_none_or(|(least, ..)| series < *least) {
                fewest = Some((series, at, heads));
            }
        }
        let Some((_, chosen, heads)) = fewest else { return Err(Error::bug("no condition on keys")) };
        let lists = &postings[conditions[chosen].column];
        let mut found: Vec<u32> = heads.iter().flat_map(|head| lists.series(*head)).filter(|id| *id < count).collect();
        found.sort_unstable();
        found.dedup();
        let others = conditions.iter().enumerate().filter(|(at, _)| *at != chosen);
        for (_, condition) in others {
            let test = ValueTest::new(types, condition);
            let mut result = Ok(());
            found.retain(|id| {
                test.passes(inner.key(*id)).unwrap_or_else(|error| {
                    result = Err(error);
                    false
                })
            });
            result?;
        }
        Ok(found)
    }

    /// Extends the posting lists of a column to all series below `count`.
    fn cover(&self, types: &[DataType], column: usize, count: u32) -> Result<()> {
        if self.postings.read().get(column).is_some_and(|lists| lists.covered() >= count) {
            return Ok(());
        }
        let mut postings = self.postings.write();
        if postings.len() <= column {
            postings.resize_with(column + 1, Postings::default);
        }
        let (lists, inner) = (&mut postings[column], self.inner.read());
        for id in lists.covered()..count.min(inner.len) {
            let value = key::value_at(inner.key(id), types, column)?;
            lists.push(value, |other| inner.has(other, types, column, value));
        }
        Ok(())
    }

    /// Memory held.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let postings: usize = self.postings.read().iter().map(Postings::memory_bytes).sum();
        let inner = self.inner.read();
        let keys = inner.chunks.iter().map(|chunk| chunk.bytes.capacity() + chunk.ends.capacity() * 4);
        postings + keys.sum::<usize>() + inner.table.capacity() * 8 / 7 * (size_of::<Slot>() + 1)
    }
}

/// A condition in a form that tests single keys.
pub(crate) struct ValueTest<'a> {
    types: &'a [DataType],
    column: usize,
    values: FxHashSet<KeyRef<'a>>,
}

impl<'a> ValueTest<'a> {
    pub(crate) fn new(types: &'a [DataType], condition: &'a OneOf) -> ValueTest<'a> {
        let values = condition.values.iter().map(KeyValue::borrowed).filter(|value| *value != KeyRef::Null);
        ValueTest { types, column: condition.column, values: values.collect() }
    }

    pub(crate) fn passes(&self, key: &[u8]) -> Result<bool> {
        Ok(self.values.contains(&key::value_at(key, self.types, self.column)?))
    }
}

fn short_hash(key: &[u8]) -> u32 {
    let hash = hash_key(key);
    (hash >> 32) as u32 ^ hash as u32
}

/// The hash table uses the highest and the lowest bits, so both need entropy.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

/// Builds arrow arrays from series keys.
pub(crate) struct KeyColumns<'a> {
    types: &'a [DataType],
    builders: Vec<Box<dyn ArrayBuilder>>,
}

impl<'a> KeyColumns<'a> {
    pub(crate) fn new(types: &'a [DataType], keys: usize) -> KeyColumns<'a> {
        KeyColumns { types, builders: types.iter().map(|ty| builder(*ty, keys)).collect() }
    }

    pub(crate) fn push(&mut self, key: &[u8]) -> Result<()> {
        let KeyColumns { types, builders } = self;
        let mut fits = true;
        model::key::visit(key, types, |at, value| fits &= append(builders[at].as_mut(), types[at], value))?;
        if fits { Ok(()) } else { Err(Error::corrupt("series key has a number its column cannot hold")) }
    }

    pub(crate) fn finish(mut self) -> Vec<ArrayRef> {
        self.builders.iter_mut().map(|builder| builder.finish()).collect()
    }
}

fn builder(ty: DataType, keys: usize) -> Box<dyn ArrayBuilder> {
    match ty {
        DataType::Bool => Box::new(BooleanBuilder::with_capacity(keys)),
        DataType::Int16 => Box::new(Int16Builder::with_capacity(keys)),
        DataType::Int32 => Box::new(Int32Builder::with_capacity(keys)),
        // Keys cannot have floats: `visit` refuses them first.
        DataType::Int64 | DataType::Float32 | DataType::Float64 => Box::new(Int64Builder::with_capacity(keys)),
        DataType::UInt64 => Box::new(UInt64Builder::with_capacity(keys)),
        DataType::Text => Box::new(StringBuilder::with_capacity(keys, keys * 16)),
        DataType::Bytes => Box::new(BinaryBuilder::with_capacity(keys, keys * 16)),
        DataType::Timestamp => {
            Box::new(TimestampNanosecondBuilder::with_capacity(keys).with_data_type(arrow_type(DataType::Timestamp)))
        }
    }
}

/// Appends `value` or NULL; returns false if the column's type does not fit.
fn append(builder: &mut dyn ArrayBuilder, ty: DataType, value: KeyRef<'_>) -> bool {
    macro_rules! append {
        ($builder:ty, $value:expr) => {{
            let Some(builder) = builder.as_any_mut().downcast_mut::<$builder>() else { return false };
            let stored = $value;
            builder.append_option(stored);
            stored.is_some() || value == KeyRef::Null
        }};
    }
    match ty {
        DataType::Bool => append!(BooleanBuilder, if let KeyRef::Bool(value) = value { Some(value) } else { None }),
        DataType::Int16 => append!(Int16Builder, int(value).and_then(|value| i16::try_from(value).ok())),
        DataType::Int32 => append!(Int32Builder, int(value).and_then(|value| i32::try_from(value).ok())),
        DataType::Int64 | DataType::Float32 | DataType::Float64 => append!(Int64Builder, int(value)),
        DataType::UInt64 => append!(UInt64Builder, if let KeyRef::UInt(value) = value { Some(value) } else { None }),
        DataType::Text => append!(StringBuilder, if let KeyRef::Text(value) = value { Some(value) } else { None }),
        DataType::Bytes => append!(BinaryBuilder, if let KeyRef::Bytes(value) = value { Some(value) } else { None }),
        DataType::Timestamp => append!(TimestampNanosecondBuilder, int(value)),
    }
}

fn int(value: KeyRef<'_>) -> Option<i64> {
    match value {
        KeyRef::Int(value) | KeyRef::Timestamp(value) => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::{Array, types::Int32Type};
    use model::{KeyValue, key};

    #[test]
    fn series_numbers_are_dense_and_stable() {
        let index = SeriesIndex::default();
        index.insert(SeriesId(0), b"a").unwrap();
        index.insert(SeriesId(1), b"").unwrap();
        index.insert(SeriesId(0), b"a").unwrap();
        assert_eq!(index.lookup(b""), Some(SeriesId(1)));
        let keys: KeyList = [&b"x"[..], b"a"].into_iter().collect();
        assert_eq!(index.lookup_all(&keys), [None, Some(SeriesId(0))]);
        for (id, key) in [(0, &b"b"[..]), (3, b"c"), (2, b"a")] {
            assert_eq!(index.insert(SeriesId(id), key).unwrap_err().state(), SqlState::DATA_CORRUPTED, "{id}");
        }
        assert_eq!(index.len(), 2);
    }

    #[test]
    fn key_columns_decode_values_and_nulls() {
        let index = SeriesIndex::default();
        let keys = [
            key::encode(&[KeyValue::Text("a".into()), KeyValue::Int(-3)]),
            key::encode(&[]),
            key::encode(&[KeyValue::Null, KeyValue::Int(i64::from(i32::MAX) + 1)]),
        ];
        index.insert_all(SeriesId(0), keys.iter().map(Vec::as_slice)).unwrap();
        let types = [DataType::Text, DataType::Int32];
        let columns = index.key_columns(&[1, 0, 0], &types).unwrap();
        assert_eq!(columns[0].as_string::<i32>().iter().collect::<Vec<_>>(), [None, Some("a"), Some("a")]);
        assert_eq!(columns[1].as_primitive::<Int32Type>().iter().collect::<Vec<_>>(), [None, Some(-3), Some(-3)]);
        assert_eq!(columns[1].null_count(), 1);
        assert!(index.key_columns(&[2], &types).is_err(), "a number too large for its column");
        assert!(index.key_columns(&[3], &types).is_err(), "a series that does not exist");
    }

    #[test]
    fn series_are_found_by_values_of_some_key_columns() {
        const TYPES: [DataType; 3] = [DataType::Text, DataType::Int32, DataType::Text];
        let text = |text: &str| KeyValue::Text(text.to_owned());
        let site = |n: u32| if n.is_multiple_of(7) { KeyValue::Null } else { text(&format!("s{}", n % 5)) };
        let keys: Vec<[KeyValue; 3]> = (0..3_000)
            .map(|n| [site(n), KeyValue::Int(i64::from(n / 3)), text(["", "x", "y"][n as usize % 3])])
            .collect();
        let index = SeriesIndex::default();
        let one_of = |column, values: &[KeyValue]| OneOf { column, values: values.to_vec() };
        let questions = [
            vec![one_of(0, &[text("s1")])],
            vec![one_of(0, &[text("s1"), text("s4"), text("s1"), text("none"), KeyValue::Null])],
            vec![one_of(1, &[KeyValue::Int(17)])],
            vec![one_of(2, &[text("")]), one_of(0, &[text("s2"), text("s3")])],
            vec![
                one_of(0, &[text("s2")]),
                one_of(2, &[text("x")]),
                one_of(1, &[KeyValue::Int(14), KeyValue::Int(114)]),
            ],
            vec![one_of(1, &[])],
            vec![one_of(0, &[KeyValue::Null])],
        ];
        // Lists are built for a few series and then extended; a count below the covered ones limits
        // the result.
        for (known, count) in [(40, 40), (900, 900), (900, 100), (3_000, 2_999), (3_000, 3_000)] {
            let more = &keys[index.len() as usize..known];
            index
                .insert_all(
                    SeriesId(index.len()),
                    more.iter().map(|key| key::encode(key)).collect::<Vec<_>>().iter().map(Vec::as_slice),
                )
                .unwrap();
            for conditions in &questions {
                let fits = |key: &[KeyValue; 3], condition: &OneOf| {
                    key[condition.column] != KeyValue::Null && condition.values.contains(&key[condition.column])
                };
                let expected: Vec<u32> = (0..count)
                    .filter(|id| conditions.iter().all(|condition| fits(&keys[*id as usize], condition)))
                    .collect();
                assert_eq!(index.having(&TYPES, conditions, count).unwrap(), expected, "{conditions:?} below {count}");
            }
        }
    }

    #[test]
    fn keys_of_many_chunks_are_found_and_cost_little_memory() {
        let index = SeriesIndex::default();
        let count = 3 * CHUNK_SERIES as u32 / 2;
        let keys: Vec<[u8; 12]> = (0..count).map(|id| std::array::from_fn(|at| id.to_le_bytes()[at % 4])).collect();
        index.insert_all(SeriesId(0), keys.iter().map(|key| &key[..])).unwrap();
        assert!((0..count).step_by(97).all(|id| index.lookup(&keys[id as usize]) == Some(SeriesId(id))));
        assert!(index.memory_bytes() < count as usize * (2 * 16 + 36), "{}", index.memory_bytes());
    }
}
