//! Inverted indexes: GIN of PostgreSQL. A row has several keys, and the index an entry for each.
//!
//! A key is the hash of one part of a value, so an index finds candidates: the condition must be evaluated on their rows.
//! Nothing stores a hash: indexes are built again at each start.
//!
//! | class             | keys of a value                                                                            |
//! |-------------------|--------------------------------------------------------------------------------------------|
//! | `jsonb_ops`       | those of `jsonb_path_ops`; the names and strings of the outermost object, array or string   |
//! | `jsonb_path_ops`  | each string, number, boolean and null, with the object keys that lead to it                 |
//! | `array_ops`       | each element; one for an empty array                                                        |
//!
//! PostgreSQL's `jsonb_ops` has keys and values apart from each other. With paths fewer rows are candidates.

mod json;
mod postings;
#[cfg(test)]
mod tests;

use std::hash::Hasher;

use model::{Datum, Error, Result, RowIndex, RowSchema, Type, sort_key};
use rustc_hash::{FxHashSet, FxHasher};

use crate::table::RecordId;

pub use postings::Postings;

/// Bytes of an entry's key: the key and the record number, both big-endian.
pub(crate) const ENTRY_BYTES: usize = 16;

/// The operator class of an index column: it decides how values become keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `jsonb_ops`
    Json,
    /// `jsonb_path_ops`
    JsonPaths,
    /// `array_ops`
    Array,
}

/// The kinds of keys. A key is hashed with its kind, so that keys of different kinds differ.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Kind {
    Name = 1,
    String = 2,
    Number = 3,
    Word = 4,
    Element = 5,
    NoElement = 6,
}

/// The name of the operator class for paths of jsonb.
const JSON_PATHS: &str = "jsonb_path_ops";

impl Class {
    /// The class of a key column; `None` for a type without one.
    ///
    /// - `operator_class`: the name, if it is not the default.
    #[must_use]
    pub fn of(ty: Type, operator_class: Option<&str>) -> Option<Class> {
        match ty.base() {
            Type::Other(other) if other.element().is_some() => Some(Class::Array),
            Type::Other(other) if other.sql_name() == "jsonb" => match operator_class {
                Some(JSON_PATHS) => Some(Class::JsonPaths),
                _ => Some(Class::Json),
            },
            _ => None,
        }
    }

    /// The names of the operator classes for this type, the default one first.
    #[must_use]
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Class::Json | Class::JsonPaths => &["jsonb_ops", JSON_PATHS],
            Class::Array => &["array_ops"],
        }
    }
}

/// The classes of the columns of an inverted index.
pub(crate) fn classes(schema: &RowSchema, def: &RowIndex) -> Box<[Class]> {
    let class = |(at, column): (usize, &usize)| {
        let operator_class = def.keys.get(at).and_then(|key| key.operator_class.as_deref());
        let class = Class::of(schema.columns[*column].ty, operator_class);
        class.unwrap_or_else(|| panic!("BUG: index {} is inverted over a type without keys", def.id))
    };
    def.columns.iter().enumerate().map(class).collect()
}

/// Keys of one column: hashes of different columns of an index differ.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Position among the columns of the index.
    pub at: usize,
    /// The operator class.
    pub class: Class,
}

impl Column {
    fn hash(self, kind: Kind, path: u64, bytes: &[u8]) -> u64 {
        let mut hasher = FxHasher::default();
        hasher.write_u64(path ^ (self.at as u64) << 8 ^ kind as u64);
        hasher.write(bytes);
        hasher.finish()
    }

    /// Appends the keys of a value, some of them perhaps twice; NULL has none.
    ///
    /// # Errors
    /// XX001 for jsonb that is no JSON; 42883 for elements without an order.
    ///
    /// # Cost
    /// One walk over the value.
    pub fn push_keys(self, value: &Datum<'_>, out: &mut Vec<u64>) -> Result<()> {
        match (self.class, value) {
            (_, Datum::Null) => Ok(()),
            (Class::Json | Class::JsonPaths, Datum::Text(text)) => json::push_keys(self, text, out),
            (Class::Array, Datum::Array(array)) => {
                if array.items.is_empty() {
                    out.push(self.no_element());
                }
                let mut bytes = Vec::new();
                array.items.iter().try_for_each(|item| {
                    out.push(self.element(item, array.element, &mut bytes)?);
                    Ok(())
                })
            }
            (class, value) => Err(Error::bug(format!("{value:?} in an inverted index of class {class:?}"))),
        }
    }

    fn no_element(self) -> u64 {
        self.hash(Kind::NoElement, 0, &[])
    }

    fn element(self, item: &Datum<'_>, element: u32, bytes: &mut Vec<u8>) -> Result<u64> {
        bytes.clear();
        sort_key::push_part(item, element, bytes)?;
        Ok(self.hash(Kind::Element, 0, bytes))
    }

    /// Returns the keys of values that contain this one: `@>`.
    ///
    /// # Errors
    /// As [`Column::push_keys`].
    pub fn containing(self, value: &Datum<'_>) -> Result<Sought> {
        match (self.class, value) {
            (_, Datum::Null) => Ok(Sought::NOTHING),
            (Class::Array, Datum::Array(array)) if array.items.is_empty() => Ok(Sought::Every),
            (Class::Array, _) => self.all_of(value),
            (Class::Json | Class::JsonPaths, Datum::Text(text)) => {
                let mut keys = Vec::new();
                json::push_sought(self, text, &mut keys)?;
                Ok(Sought::all(keys.into_iter().map(Sought::Key).collect()))
            }
            (class, value) => Err(Error::bug(format!("{value:?} is sought in an inverted index of class {class:?}"))),
        }
    }

    /// Returns the keys of arrays that equal this one.
    ///
    /// # Errors
    /// As [`Column::push_keys`].
    pub fn all_of(self, value: &Datum<'_>) -> Result<Sought> {
        let mut keys = Vec::new();
        self.push_keys(value, &mut keys)?;
        // NULL equals nothing.
        Ok(if value.is_null() { Sought::NOTHING } else { Sought::all(keys.into_iter().map(Sought::Key).collect()) })
    }

    /// Returns the keys of arrays that share an element with this one: `&&`.
    ///
    /// # Errors
    /// As [`Column::push_keys`].
    pub fn overlapping(self, value: &Datum<'_>) -> Result<Sought> {
        let mut keys = Vec::new();
        self.push_keys(value, &mut keys)?;
        Ok(Sought::any(keys.into_iter().map(Sought::Key).collect()))
    }

    /// Returns the keys of arrays that this one contains: `<@`.
    ///
    /// # Errors
    /// As [`Column::push_keys`].
    pub fn contained(self, value: &Datum<'_>) -> Result<Sought> {
        if value.is_null() {
            return Ok(Sought::NOTHING);
        }
        Ok(Sought::any(vec![self.overlapping(value)?, Sought::Key(self.no_element())]))
    }

    /// Returns the key of jsonb with this name or string in its outermost object, array or string: `?`. `None` if the class has no
    /// such keys.
    #[must_use]
    pub fn named(self, name: &str) -> Option<Sought> {
        (self.class == Class::Json).then(|| Sought::Key(json::name(self, name)))
    }

    /// Returns the key of jsonb with this scalar, as jsonb, behind object keys.
    ///
    /// # Errors
    /// As [`Column::push_keys`].
    pub fn at_path<'p>(self, path: impl IntoIterator<Item = &'p str>, scalar: &str) -> Result<Sought> {
        json::at_path(self, path, scalar).map(Sought::Key)
    }
}

/// The keys that the rows have which fulfil a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sought {
    /// Nothing is known of them: the index is of no use.
    Every,
    /// This key.
    Key(u64),
    /// All of these.
    All(Vec<Sought>),
    /// At least one of these.
    Any(Vec<Sought>),
}

impl Sought {
    /// No row fulfils the condition.
    pub const NOTHING: Sought = Sought::Any(Vec::new());

    /// Rows that fulfil all of some conditions.
    #[must_use]
    pub fn all(of: Vec<Sought>) -> Sought {
        let parts = of.into_iter().flat_map(|part| match part {
            Sought::Every => Vec::new(),
            Sought::All(more) => more,
            part => vec![part],
        });
        let mut parts = distinct(parts);
        match parts.len() {
            0 => Sought::Every,
            1 => parts.remove(0),
            _ => Sought::All(parts),
        }
    }

    /// Rows that fulfil at least one of some conditions.
    #[must_use]
    pub fn any(of: Vec<Sought>) -> Sought {
        if of.contains(&Sought::Every) {
            return Sought::Every;
        }
        let parts = of.into_iter().flat_map(|part| match part {
            Sought::Any(more) => more,
            part => vec![part],
        });
        let mut parts = distinct(parts);
        if parts.len() == 1 { parts.remove(0) } else { Sought::Any(parts) }
    }

    /// Number of keys.
    pub(crate) fn keys(&self) -> usize {
        match self {
            Sought::Every => 0,
            Sought::Key(_) => 1,
            Sought::All(parts) | Sought::Any(parts) => parts.iter().map(Sought::keys).sum(),
        }
    }

    /// Calls `f` with the least and the largest entry of each key, for the read sets of transactions.
    pub fn ranges(&self, f: &mut dyn FnMut(&[u8], &[u8])) {
        match self {
            Sought::Every => {}
            Sought::Key(key) => f(&entry(*key, RecordId(0)), &entry(*key, RecordId(u64::MAX))),
            Sought::All(parts) | Sought::Any(parts) => parts.iter().for_each(|part| part.ranges(f)),
        }
    }
}

/// The parts, each key once. The cost is linear: a client may send a million keys.
fn distinct(parts: impl Iterator<Item = Sought>) -> Vec<Sought> {
    let mut seen = FxHashSet::default();
    parts.filter(|part| !matches!(part, Sought::Key(key) if !seen.insert(*key))).collect()
}

/// The key of an entry.
pub(crate) fn entry(key: u64, record: RecordId) -> [u8; ENTRY_BYTES] {
    let mut bytes = [0; ENTRY_BYTES];
    bytes[..8].copy_from_slice(&key.to_be_bytes());
    bytes[8..].copy_from_slice(&record.0.to_be_bytes());
    bytes
}

/// Packs keys for the list of garbage.
pub(crate) fn packed(keys: impl IntoIterator<Item = u64>) -> Box<[u8]> {
    keys.into_iter().flat_map(u64::to_be_bytes).collect()
}

/// The keys in a list of garbage.
pub(crate) fn unpacked(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.as_chunks().0.iter().map(|key| u64::from_be_bytes(*key))
}

/// The keys of `of` that `others` does not have; both are sorted.
pub(crate) fn without<'k>(of: &'k [u64], mut others: &'k [u64]) -> impl Iterator<Item = u64> + 'k {
    of.iter().copied().filter(move |key| {
        others = &others[others.partition_point(|other| other < key)..];
        others.first() != Some(key)
    })
}
