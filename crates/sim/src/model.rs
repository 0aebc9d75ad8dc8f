//! What the database should hold: the same operations on plain sorted maps.

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::{OrdMap, Vector};
use model::{ColumnId, TableId};

/// A cell that is not NULL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cell {
    /// `bigint`
    Int(i64),
    /// `double precision`, as bits so that NaNs compare
    Float(u64),
    /// `text`
    Text(String),
    /// `boolean`
    Bool(bool),
}

/// Non-NULL fields of a row.
pub type Fields = BTreeMap<ColumnId, Cell>;

/// What a write does to an older version, see `engine::Op`.
#[derive(Clone, Debug)]
pub enum Op {
    /// Takes its place.
    Replace,
    /// Overlays non-NULL fields.
    Merge,
    /// Only where no row is.
    Keep,
    /// Overlays these columns.
    Update(Arc<[ColumnId]>),
}

/// One row on its way in.
#[derive(Clone, Debug)]
pub struct Write {
    /// Canonical key bytes.
    pub key: Vec<u8>,
    /// Nanoseconds.
    pub time: i64,
    /// Non-NULL fields.
    pub fields: Fields,
}

/// One change.
#[derive(Clone, Debug)]
pub enum Change {
    /// A new table.
    Create {
        /// Its name.
        name: String,
        /// Its number.
        id: TableId,
        /// Has it a key?
        keyed: bool,
    },
    /// A table goes.
    Drop {
        /// Its name.
        name: String,
    },
    /// A table got a column, NULL everywhere.
    AddColumn,
    /// A table got other options.
    Options,
    /// Rows, all with one op.
    Rows {
        /// Its number.
        table: TableId,
        /// What they do.
        op: Op,
        /// In order.
        rows: Vec<Write>,
    },
    /// Rows of these keys (`None` = all) in `first ..= last` go.
    Delete {
        /// Its number.
        table: TableId,
        /// Canonical key bytes.
        keys: Option<Vec<Vec<u8>>>,
        /// First moment.
        first: i64,
        /// Last moment.
        last: i64,
    },
    /// A new `rows` table.
    CreateRows {
        /// Its name.
        name: String,
        /// Its number.
        id: TableId,
    },
    /// A `rows` table goes.
    DropRows(TableId),
    /// Its rows go.
    Truncate(TableId),
    /// It got a column, with this value in all rows.
    AddRowColumn(TableId, Option<i64>),
    /// A row is this from now on, or gone.
    Row {
        /// Its table.
        table: TableId,
        /// Its key.
        id: i32,
        /// Its fields, the key first.
        fields: Option<RowFields>,
    },
    /// An index came or went.
    Index,
    /// A sequence was made.
    Sequence,
}

/// Fields of a row of a `rows` table.
pub type RowFields = Vec<Option<i64>>;

/// One `rows` table.
#[derive(Clone, Debug, Default)]
pub struct RowTable {
    /// Its name.
    pub name: String,
    /// By key.
    pub rows: OrdMap<i32, RowFields>,
}

/// One table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Has it a key?
    pub keyed: bool,
    /// Rows of a keyed table.
    pub rows: OrdMap<(Vec<u8>, i64), Fields>,
    /// Rows of one without.
    pub events: Vector<(i64, Fields)>,
}

/// All tables at one moment. Cloning is cheap.
#[derive(Clone, Debug, Default)]
pub struct Database {
    /// By number.
    pub tables: OrdMap<TableId, Table>,
    /// By number.
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

    /// Everything, in an order that does not depend on how it came about.
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
    /// The second column is unique where it is not NULL. So it is at every commit; a transaction's own rows on top of a commit older than
    /// those that it saw may lack what made room for them.
    pub fn check_unique(&self) {
        let mut codes: Vec<i64> = self.rows.values().filter_map(|row| row[1]).collect();
        codes.sort_unstable();
        assert!(codes.is_sorted_by(|one, next| one < next), "a unique key twice in {}: {codes:?}", self.name);
    }
}
