//! A table: its records, and the indexes over them.

use std::fmt;
use std::ops::{Bound, ControlFlow, Range};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crossbeam_epoch::Guard;
use model::{Error, Lsn, Result, RowIndex, RowSchema, RowSchemaRef, TableId};
use parking_lot::RwLock;

use crate::arena::Arena;
use crate::index::{Direction, Index};
use crate::key::{self, KeyColumn};
use crate::reclaim::{Retired, VERSIONS};
use crate::record::{Begin, Record};
use crate::row::RowLayout;
use crate::sync;

/// A record's number within its table. It is written to the log and stays the same for as long as the record lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordId(pub u64);

/// Records of one part of a table, as a power of two: what a checkpoint writes as one file.
const PART_BITS: u32 = 16;
/// Lists of parts, each twice as long as the one before.
const PART_LISTS: usize = 17;
/// Most records of a table. It makes a wild number in a log or a file detectable.
pub const RECORDS_MAX: u64 = model::limits::ROWS_PER_TABLE_MAX;

const _: () = assert!(RECORDS_MAX >> PART_BITS < 1 << PART_LISTS);

/// What all versions of a table share, also those that begin anew without rows.
#[derive(Default)]
pub(crate) struct Gate {
    /// The lock on the table as a whole.
    pub(crate) lock: sync::AtomicU64,
    /// The version that is in force; 0 before the first is, `u32::MAX` when the table is dropped.
    pub(crate) version: sync::AtomicU32,
}

/// For each part of a table the newest commit that changed it.
struct Parts([OnceLock<Box<[AtomicU64]>>; PART_LISTS]);

impl Parts {
    fn new() -> Parts {
        Parts([const { OnceLock::new() }; PART_LISTS])
    }

    fn place(part: u64) -> (usize, usize) {
        let list = (part + 1).ilog2();
        (list as usize, (part + 1 - (1 << list)) as usize)
    }

    fn touch(&self, part: u64, lsn: Lsn) {
        let (list, at) = Parts::place(part);
        let list = self.0[list].get_or_init(|| (0..1 << list).map(|_| AtomicU64::new(0)).collect());
        list[at].fetch_max(lsn.0, Ordering::Relaxed);
    }

    fn newest(&self, part: u64) -> Lsn {
        let (list, at) = Parts::place(part);
        let part = self.0.get(list).and_then(OnceLock::get).and_then(|list| list.get(at));
        Lsn(part.map_or(0, |part| part.load(Ordering::Relaxed)))
    }
}

/// The records of one table, which all versions of its description share.
pub struct Records {
    pub(crate) arena: Arena<Record>,
    pub(crate) gate: Arc<Gate>,
    /// The version of the table that they were made with: later ones share them until one begins anew.
    pub(crate) since: u32,
    /// The layout of the newest version in force: by it every row that is there can be read.
    layout: RwLock<Option<Arc<RowLayout>>>,
    parts: Parts,
    /// Rows as of the newest commit.
    rows: AtomicI64,
    /// Bytes of all versions.
    bytes: AtomicI64,
}

impl Default for Records {
    fn default() -> Records {
        Records::new()
    }
}

impl Records {
    /// Numbers of all records that may have a row for somebody.
    pub fn all(&self) -> impl Iterator<Item = RecordId> + use<> {
        (0..self.arena.bound()).map(RecordId)
    }

    /// None.
    #[must_use]
    pub fn new() -> Records {
        Records::with(Arc::default(), 1)
    }

    fn with(gate: Arc<Gate>, since: u32) -> Records {
        Records {
            arena: Arena::new(),
            gate,
            since,
            layout: RwLock::default(),
            parts: Parts::new(),
            rows: AtomicI64::new(0),
            bytes: AtomicI64::new(0),
        }
    }

    /// None, for a version of the same table that begins anew.
    #[must_use]
    pub fn emptied(&self, since: u32) -> Records {
        Records::with(Arc::clone(&self.gate), since)
    }

    /// The version of the table that they were made with.
    #[must_use]
    pub fn since(&self) -> u32 {
        self.since
    }

    /// One above the highest number of a record.
    #[must_use]
    pub fn bound(&self) -> u64 {
        self.arena.bound()
    }

    /// How many parts there are: parts are runs of record numbers, of one length.
    #[must_use]
    pub fn parts(&self) -> u64 {
        self.arena.bound().div_ceil(1 << PART_BITS)
    }

    /// The part that a record is in.
    #[must_use]
    pub fn part_of(record: RecordId) -> u64 {
        record.0 >> PART_BITS
    }

    /// Numbers of the records of a part.
    #[must_use]
    pub fn part(&self, part: u64) -> Range<u64> {
        let first = part << PART_BITS;
        first..(first + (1 << PART_BITS)).min(self.arena.bound()).max(first)
    }

    /// The newest commit that changed a part, as far as it is known since the start. Who has a snapshot is told of all commits in it.
    #[must_use]
    pub fn part_changed(&self, part: u64) -> Lsn {
        self.parts.newest(part)
    }

    /// Calls `f` with the newest committed version of each record, its row (`None`: deleted) and its LSN, which may lie above any snapshot.
    /// A record without versions was never committed, or deleted before all snapshots.
    pub fn committed(&self, records: Range<u64>, guard: &Guard, mut f: impl FnMut(RecordId, Lsn, Option<&[u8]>)) {
        for number in records {
            let Some(version) = self.arena.get(number).and_then(|slot| slot.committed(guard)) else { continue };
            if let Begin::Committed(lsn) = version.begin() {
                f(RecordId(number), lsn, version.row());
            }
        }
    }

    /// Rows as of the newest commit.
    #[must_use]
    pub fn rows(&self) -> u64 {
        u64::try_from(self.rows.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Bytes of records and their versions, uncommitted ones included.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.arena.memory_bytes() as u64 + u64::try_from(self.bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// For rows that a checkpoint or the log has: in whatever order they are read, and by however many threads. Indexes are built
    /// afterwards ([`RowTable::recover`]).
    #[must_use]
    pub fn restoring(&self) -> Restoring<'_> {
        Restoring { records: self, bytes: 0, bound: 0 }
    }

    /// Notes that the log, and not only a file of a checkpoint, has a change of a record.
    pub fn touch(&self, record: RecordId, lsn: Lsn) {
        self.parts.touch(Records::part_of(record), lsn);
    }

    /// The layout by which every row that is there can be read; `own` if no version was ever in force.
    pub(crate) fn newest_layout(&self, own: &Arc<RowLayout>) -> Arc<RowLayout> {
        Arc::clone(self.layout.read().as_ref().unwrap_or(own))
    }

    /// At recovery: all numbers of the first `parts` parts count as given out.
    pub fn reserve(&self, parts: u64) {
        self.arena.raise(parts.min(RECORDS_MAX >> PART_BITS) << PART_BITS);
    }

    /// At recovery.
    pub(crate) fn set_rows(&self, rows: u64) {
        self.rows.store(rows.cast_signed(), Ordering::Relaxed);
    }

    pub(crate) fn add_rows(&self, rows: i64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }

    pub(crate) fn add_bytes(&self, bytes: i64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Gives back the number of a record that has no version any more. Whoever has it from an index still believes it to be the old row, so
    /// that it is used again only when all guards are gone that exist now.
    pub(crate) fn give_back(self: &Arc<Self>, record: RecordId, guard: &Guard) {
        VERSIONS.retire(Retired::Number(Arc::downgrade(self), record.0), 0, guard);
    }

    /// What a record has that has no slot: nothing, if it is one of those that nobody used since the start.
    pub(crate) fn nothing<T>(&self, record: RecordId) -> Result<Option<T>> {
        if record.0 < self.bound() { Ok(None) } else { self.record(record).map(|_| None) }
    }

    /// A record that an index or a log named.
    ///
    /// # Errors
    /// XX000: whoever has a number has it from here.
    pub(crate) fn record(&self, record: RecordId) -> Result<&Record> {
        self.arena.get(record.0).ok_or_else(|| Error::bug(format!("record {} was never made", record.0)))
    }
}

/// Rows on their way in at recovery, as one thread finds them. They are counted when it is dropped.
pub struct Restoring<'a> {
    records: &'a Records,
    bytes: i64,
    bound: u64,
}

impl Restoring<'_> {
    /// Puts a row, or its deletion, unless a newer one is there already.
    ///
    /// # Errors
    /// XX001 for a number that no table gets to.
    pub fn put(&mut self, record: RecordId, lsn: Lsn, row: Option<Box<[u8]>>, guard: &Guard) -> Result<()> {
        let arena = &self.records.arena;
        let slot = Some(record.0).filter(|number| *number < RECORDS_MAX).and_then(|number| arena.reach(number));
        let slot = slot.ok_or_else(|| Error::corrupt(format!("record {} is more than a table can have", record.0)))?;
        self.bytes += slot.restore(lsn, row, guard);
        self.bound = self.bound.max(record.0 + 1);
        Ok(())
    }
}

impl Drop for Restoring<'_> {
    fn drop(&mut self) {
        // Threads beside each other would wait for these numbers at every row.
        self.records.arena.raise(self.bound);
        self.records.add_bytes(self.bytes);
    }
}

/// An index and its entries.
///
/// A primary index maps a key to its record, one to one. Any other maps key and record number to the record: several versions of records may
/// have had a key, and all of them must be found by whoever reads an older snapshot.
pub struct IndexData {
    pub(crate) def: RowIndex,
    /// How each of its columns is written in keys.
    pub(crate) keys: Box<[KeyColumn]>,
    pub(crate) tree: Index,
}

impl IndexData {
    /// An index without entries, over columns of `schema`.
    #[must_use]
    pub fn new(schema: &RowSchema, def: &RowIndex) -> IndexData {
        let key = |column: &usize| {
            let column = &schema.columns[*column];
            KeyColumn { ty: column.ty, nullable: !column.not_null, descending: false }
        };
        IndexData { keys: def.columns.iter().map(key).collect(), def: def.clone(), tree: Index::new() }
    }

    /// What it is over.
    #[must_use]
    pub fn def(&self) -> &RowIndex {
        &self.def
    }

    /// How each of its columns is written in keys.
    #[must_use]
    pub fn keys(&self) -> &[KeyColumn] {
        &self.keys
    }

    /// Is it the table's primary one?
    pub(crate) fn is_primary(&self, table: &RowTable) -> bool {
        table.primary.as_ref().is_some_and(|primary| std::ptr::eq(&**primary, self))
    }

    /// Bytes of its entries.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.tree.memory_bytes() as u64
    }

    /// Entries between two keys, in order: the entry's whole key, and the record.
    pub fn scan(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
        guard: &Guard,
        mut f: impl FnMut(&[u8], RecordId) -> ControlFlow<()>,
    ) {
        self.tree.scan(from, to, direction, guard, |key, record| f(key, RecordId(record)));
    }

    /// The records that entries of a secondary index name under a key.
    pub(crate) fn records(&self, key: &[u8], guard: &Guard) -> Vec<RecordId> {
        let mut last = key.to_vec();
        last.extend_from_slice(&[u8::MAX; 8]);
        let mut records = Vec::new();
        let (from, to) = (Bound::Included(key), Bound::Included(last.as_slice()));
        self.tree.scan(from, to, Direction::Forward, guard, |entry, record| {
            // A longer key may begin with this one.
            if entry.len() == key.len() + 8 {
                records.push(RecordId(record));
            }
            ControlFlow::Continue(())
        });
        records
    }

    /// The records that may have a key of this unique index, which is the table's primary one or another.
    pub(crate) fn holders(&self, table: &RowTable, key: &[u8], guard: &Guard) -> Vec<RecordId> {
        if self.is_primary(table) {
            return self.tree.get(key, guard).map(RecordId).into_iter().collect();
        }
        self.records(key, guard)
    }

    /// Has one of its columns different bytes in two rows?
    fn is_touched(&self, layout: &RowLayout, old: &[u8], new: &[u8]) -> Result<bool> {
        for column in &self.def.columns {
            if !layout.is_same(old, new, *column)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Appends the key of a row; true if one of its columns is NULL.
    ///
    /// # Errors
    /// 54000 for a key that is too long; XX001 for a row that is none.
    pub(crate) fn key_of(&self, layout: &RowLayout, row: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        let before = out.len();
        let mut has_null = false;
        for (column, key) in self.def.columns.iter().zip(&self.keys) {
            let value = layout.field(row, *column)?;
            has_null |= value.is_null();
            key::push(out, key, &value)?;
        }
        key::check_size(&self.def.name, &out[before..])?;
        Ok(has_null)
    }
}

/// A table as one statement sees it: the description, and what it describes.
pub struct RowTable {
    /// What it looks like.
    pub schema: RowSchemaRef,
    /// How rows are laid out. Rows written before columns were added are shorter.
    pub layout: Arc<RowLayout>,
    /// Its records.
    pub records: Arc<Records>,
    /// Of the primary key.
    pub primary: Option<Arc<IndexData>>,
    /// The others.
    pub secondary: Vec<Arc<IndexData>>,
}

impl fmt::Debug for RowTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RowTable({}, version {})", self.schema.name, self.schema.version)
    }
}

impl RowTable {
    /// Its number.
    #[must_use]
    pub fn id(&self) -> TableId {
        self.schema.id
    }

    /// Makes it the version in force. Its DDL is committed then, and whoever did it has the table alone, or there is nobody else.
    pub fn take_effect(&self) {
        *self.records.layout.write() = Some(Arc::clone(&self.layout));
        self.records.gate.version.store(self.schema.version, Ordering::Release);
    }

    /// No version is in force any more: the table is dropped.
    pub fn go(&self) {
        self.records.gate.version.store(u32::MAX, Ordering::Release);
    }

    /// Bytes of records and indexes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let indexes = self.primary.iter().chain(&self.secondary);
        self.records.memory_bytes() + indexes.map(|index| index.tree.memory_bytes() as u64).sum::<u64>()
    }

    /// An index by its position among the secondary ones; the primary one for `None`.
    pub(crate) fn index(&self, position: Option<usize>) -> Option<&Arc<IndexData>> {
        match position {
            None => self.primary.as_ref(),
            Some(at) => self.secondary.get(at),
        }
    }

    /// All secondary indexes, as bits.
    pub(crate) fn secondaries(&self) -> u64 {
        match self.secondary.len() {
            SECONDARY_INDEXES_MAX => u64::MAX,
            count => (1 << count) - 1,
        }
    }

    /// The secondary indexes, by bits, in which two rows may have different keys: those with a column whose bytes differ.
    pub(crate) fn touched(&self, old: &[u8], new: &[u8]) -> Result<u64> {
        let mut touched = 0;
        for (at, index) in self.secondary.iter().enumerate() {
            touched |= u64::from(index.is_touched(&self.layout, old, new)?) << at;
        }
        Ok(touched)
    }

    /// Have two rows different primary keys?
    pub(crate) fn changes_primary(&self, old: &[u8], new: &[u8]) -> Result<bool> {
        let Some(index) = &self.primary else { return Ok(false) };
        if !index.is_touched(&self.layout, old, new)? {
            return Ok(false);
        }
        let (mut before, mut after) = (Vec::new(), Vec::new());
        index.key_of(&self.layout, old, &mut before)?;
        index.key_of(&self.layout, new, &mut after)?;
        Ok(before != after)
    }

    /// Adds a record's number to a key, as entries of secondary indexes have it.
    pub(crate) fn entry_key(key: &mut Vec<u8>, record: RecordId) {
        key.extend_from_slice(&record.0.to_be_bytes());
    }

    /// Removes the entries of a row that is no longer there from the secondary indexes given by bits.
    pub(crate) fn remove_entries(&self, which: u64, record: RecordId, row: &[u8], guard: &Guard) -> Result<()> {
        let mut key = Vec::new();
        for (at, index) in self.secondary.iter().enumerate() {
            if which & 1 << at != 0 {
                key.clear();
                index.key_of(&self.layout, row, &mut key)?;
                RowTable::entry_key(&mut key, record);
                index.tree.remove(&key, guard);
            }
        }
        Ok(())
    }
}

/// Keys of one row in secondary indexes of its table, each made once. The buffers are used for one row after another.
#[derive(Default)]
pub(crate) struct Keys {
    /// Each key, and behind it room for a record's number.
    bytes: Vec<u8>,
    /// Where each key and its room end, up to the last that was made.
    ends: Vec<usize>,
    /// Which have a NULL in them.
    nulls: u64,
}

impl Keys {
    /// Makes the keys in the indexes given by bits; in the others there is none.
    ///
    /// # Errors
    /// As [`IndexData::key_of`].
    pub(crate) fn make(&mut self, table: &RowTable, which: u64, row: &[u8]) -> Result<()> {
        self.bytes.clear();
        self.ends.clear();
        self.nulls = 0;
        for (at, index) in table.secondary.iter().enumerate() {
            if which & 1 << at != 0 {
                let has_null = index.key_of(&table.layout, row, &mut self.bytes)?;
                self.nulls |= u64::from(has_null) << at;
                RowTable::entry_key(&mut self.bytes, RecordId(0));
            }
            self.ends.push(self.bytes.len());
        }
        Ok(())
    }

    pub(crate) fn has_null(&self, at: usize) -> bool {
        self.nulls >> at & 1 == 1
    }

    /// The key in one index; empty if none was made, which no key is.
    pub(crate) fn key(&self, at: usize) -> &[u8] {
        let entry = self.range(at);
        &self.bytes[entry.start..entry.end.saturating_sub(size_of::<u64>()).max(entry.start)]
    }

    /// The key with the number of a record behind it, as the index has it.
    pub(crate) fn entry(&mut self, at: usize, record: RecordId) -> &[u8] {
        let entry = self.range(at);
        if let Some(room) = self.bytes[entry.clone()].last_chunk_mut() {
            *room = record.0.to_be_bytes();
        }
        &self.bytes[entry]
    }

    fn range(&self, at: usize) -> Range<usize> {
        let Some(end) = self.ends.get(at) else { return 0..0 };
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        start..*end
    }
}

/// Most secondary indexes of a table.
pub const SECONDARY_INDEXES_MAX: usize = 64;
