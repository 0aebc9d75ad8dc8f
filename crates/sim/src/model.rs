//! The expected contents of the database: the same operations on plain sorted maps.

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::{OrdMap, Vector};
use model::{ColumnId, TableId};

/// A cell that is not NULL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cell {
    /// `bigint`
    Int(i64),
    /// `double precision`, as bits so that NaNs can be compared
    Float(u64),
    /// `text`
    Text(String),
    /// `text` that may be larger than a log record, by size and seed; see [`large_text`].
    Large(u32, u8),
    /// `boolean`
    Bool(bool),
}

/// Seeds of large texts are below this number.
pub const LARGE_SEEDS: u8 = 26;

/// The text of `bytes` bytes (at least one) that [`Cell::Large`] stands for: its first byte is the seed. Even seeds
/// repeat after a few bytes, odd ones after thousands, in which no encoding finds a pattern.
///
/// # Panics
/// If the seed is not below [`LARGE_SEEDS`].
#[must_use]
pub fn large_text(bytes: u32, seed: u8) -> String {
    assert!(seed < LARGE_SEEDS, "seed {seed}");
    let mut word = u64::from(seed) + 1;
    let mut letter = || {
        word = word.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        b'a' + ((word >> 33) % 26) as u8
    };
    let pattern: Vec<u8> = (0..if seed.is_multiple_of(2) { 7 } else { 65_521 }).map(|_| letter()).collect();
    let rest = pattern.iter().cycle().take(bytes as usize - 1);
    std::iter::once(b'A' + seed).chain(rest.copied()).map(char::from).collect()
}

/// Returns the size and seed of a large text; `None` if it is another text.
#[must_use]
pub fn of_large_text(text: &str) -> Option<(u32, u8)> {
    let seed = text.as_bytes().first()?.checked_sub(b'A').filter(|seed| *seed < LARGE_SEEDS)?;
    let bytes = u32::try_from(text.len()).ok()?;
    (text == large_text(bytes, seed)).then_some((bytes, seed))
}

/// Fields of a row that are not NULL.
pub type Fields = BTreeMap<ColumnId, Cell>;

/// Effect of a write on an older version, see `engine::Op`.
#[derive(Clone, Debug)]
pub enum Op {
    /// Replaces the row.
    Replace,
    /// Overlays non-NULL fields.
    Merge,
    /// Writes only if there is no row.
    Keep,
    /// Overlays these columns.
    Update(Arc<[ColumnId]>),
}

/// One row to be written.
#[derive(Clone, Debug)]
pub struct Write {
    /// Canonical key bytes.
    pub key: Vec<u8>,
    /// Time in nanoseconds.
    pub time: i64,
    /// Fields that are not NULL.
    pub fields: Fields,
}

/// One change of the database.
#[derive(Clone, Debug)]
pub enum Change {
    /// CREATE of a `columns` table.
    Create {
        /// Name of the table.
        name: String,
        /// Number of the table.
        id: TableId,
        /// Whether (key, time) is unique.
        keyed: bool,
    },
    /// DROP of a `columns` table.
    Drop {
        /// Name of the table.
        name: String,
    },
    /// A new column, NULL in all rows.
    AddColumn,
    /// New options.
    Options,
    /// Rows with one operation.
    Rows {
        /// Number of the table.
        table: TableId,
        /// Effect on older versions.
        op: Op,
        /// Rows in the order of writing.
        rows: Vec<Write>,
    },
    /// DELETE of rows with these keys (`None` = all) in `first ..= last`.
    Delete {
        /// Number of the table.
        table: TableId,
        /// Canonical key bytes.
        keys: Option<Vec<Vec<u8>>>,
        /// First time, in nanoseconds.
        first: i64,
        /// Last time, in nanoseconds.
        last: i64,
    },
    /// CREATE of a `rows` table.
    CreateRows {
        /// Name of the table.
        name: String,
        /// Number of the table.
        id: TableId,
    },
    /// DROP of a `rows` table.
    DropRows(TableId),
    /// TRUNCATE of a `rows` table.
    Truncate(TableId),
    /// A new column with this value in all rows.
    AddRowColumn(TableId, Option<i64>),
    /// The new contents of a row; `None` if deleted.
    Row {
        /// Number of the table.
        table: TableId,
        /// Primary key.
        id: i32,
        /// All fields, the key first.
        fields: Option<RowFields>,
    },
    /// CREATE or DROP of an index.
    Index,
    /// CREATE of a sequence.
    Sequence,
}

/// Fields of a row of a `rows` table.
pub type RowFields = Vec<Option<i64>>;

/// One `rows` table.
#[derive(Clone, Debug, Default)]
pub struct RowTable {
    /// Name of the table.
    pub name: String,
    /// Rows by primary key.
    pub rows: OrdMap<i32, RowFields>,
}

/// One `columns` table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Name of the table.
    pub name: String,
    /// Whether (key, time) is unique.
    pub keyed: bool,
    /// Rows of a keyed table.
    pub rows: OrdMap<(Vec<u8>, i64), Fields>,
    /// Rows of an unkeyed table.
    pub events: Vector<(i64, Fields)>,
}

/// All tables at one LSN. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Database {
    /// `columns` tables by number.
    pub tables: OrdMap<TableId, Table>,
    /// `rows` tables by number.
    pub row_tables: OrdMap<TableId, RowTable>,
}

impl Database {
    /// The table called `name`.
    pub fn named(&self, name: &str) -> Option<(TableId, &Table)> {
        self.tables.iter().find(|(_, table)| table.name == name).map(|(id, table)| (*id, table))
    }

    /// Applies one change.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Create { name, id, keyed } => {
                self.tables.insert(*id, Table { name: name.clone(), keyed: *keyed, ..Table::default() });
            }
            Change::Drop { name } => {
                if let Some((id, _)) = self.named(name) {
                    self.tables.remove(&id);
                }
            }
            Change::AddColumn | Change::Options | Change::Index | Change::Sequence => {}
            Change::CreateRows { name, id } => {
                self.row_tables.insert(*id, RowTable { name: name.clone(), rows: OrdMap::new() });
            }
            Change::DropRows(id) => drop(self.row_tables.remove(id)),
            Change::Truncate(id) => {
                if let Some(table) = self.row_tables.get_mut(id) {
                    table.rows = OrdMap::new();
                }
            }
            Change::AddRowColumn(id, value) => {
                if let Some(table) = self.row_tables.get_mut(id) {
                    table.rows = table.rows.iter().map(|(id, row)| (*id, [&row[..], &[*value]].concat())).collect();
                }
            }
            Change::Row { table, id, fields } => {
                if let Some(table) = self.row_tables.get_mut(table) {
                    match fields {
                        Some(fields) => table.rows.insert(*id, fields.clone()),
                        None => table.rows.remove(id),
                    };
                }
            }
            Change::Rows { table, op, rows } => {
                if let Some(table) = self.tables.get_mut(table) {
                    rows.iter().for_each(|row| table.write(op, row));
                }
            }
            Change::Delete { table, keys, first, last } => {
                if let Some(table) = self.tables.get_mut(table) {
                    table.delete(keys.as_deref(), *first, *last);
                }
            }
        }
    }
}

impl Table {
    fn write(&mut self, op: &Op, row: &Write) {
        if !self.keyed {
            self.events.push_back((row.time, row.fields.clone()));
            return;
        }
        let key = (row.key.clone(), row.time);
        let old = self.rows.get(&key);
        let new = match (op, old) {
            (Op::Keep, Some(_)) => return,
            (Op::Replace, _) | (_, None) => row.fields.clone(),
            (Op::Merge, Some(old)) => {
                let mut new = old.clone();
                new.extend(row.fields.clone());
                new
            }
            (Op::Update(columns), Some(old)) => {
                let mut new = old.clone();
                for column in columns.iter() {
                    match row.fields.get(column) {
                        Some(cell) => new.insert(*column, cell.clone()),
                        None => new.remove(column),
                    };
                }
                new
            }
        };
        self.rows.insert(key, new);
    }

    fn delete(&mut self, keys: Option<&[Vec<u8>]>, first: i64, last: i64) {
        let hit = |time: i64| first <= time && time <= last;
        if self.keyed {
            let gone: Vec<_> = self
                .rows
                .keys()
                .filter(|(key, time)| hit(*time) && keys.is_none_or(|keys| keys.contains(key)))
                .cloned()
                .collect();
            for key in gone {
                self.rows.remove(&key);
            }
        } else {
            self.events.retain(|(time, _)| !hit(*time));
        }
    }

    /// All rows, in an order independent of their history.
    pub fn contents(&self) -> Vec<(Vec<u8>, i64, Fields)> {
        let mut all: Vec<_> = if self.keyed {
            self.rows.iter().map(|((key, time), fields)| (key.clone(), *time, fields.clone())).collect()
        } else {
            self.events.iter().map(|(time, fields)| (Vec::new(), *time, fields.clone())).collect()
        };
        all.sort();
        all
    }
}

impl RowTable {
    /// Asserts that the second column is unique where it is not NULL. This holds at every commit. A
    /// transaction's own rows on top of an older commit may violate it, because the commit that
    /// removed the conflicting row is missing.
    pub fn check_unique(&self) {
        let mut codes: Vec<i64> = self.rows.values().filter_map(|row| row[1]).collect();
        codes.sort_unstable();
        assert!(codes.is_sorted_by(|one, next| one < next), "a unique key twice in {}: {codes:?}", self.name);
    }
}
