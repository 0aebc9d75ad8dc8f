//! A table: records, and the indexes over them.

use std::any::Any;
use std::fmt;
use std::ops::{Bound, ControlFlow, Range};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crossbeam_epoch::Guard;
use model::{Datum, Error, IndexMethod, Lsn, Result, RowIndex, RowSchema, RowSchemaRef, TableId};
use parking_lot::RwLock;

use crate::arena::Arena;
use crate::index::{Direction, Index};
use crate::inverted::{self, Class};
use crate::key::{self, KeyColumn};
use crate::reclaim::{Retired, VERSIONS};
use crate::record::{Begin, Record, Version};
use crate::row::RowLayout;
use crate::sync;

/// Record number within a table. It is written to the log and is stable for the record's lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordId(pub u64);

/// Records per part, as a power of two. A checkpoint writes one file per part.
const PART_BITS: u32 = 16;
/// Lists of parts; each is twice as long as the one before.
const PART_LISTS: usize = 17;
/// Most records in a table. A larger number in a log or file is corruption.
pub const RECORDS_MAX: u64 = model::limits::ROWS_PER_TABLE_MAX;

const _: () = assert!(RECORDS_MAX >> PART_BITS < 1 << PART_LISTS);

/// State shared by all versions of a table, even across TRUNCATE.
#[derive(Default)]
pub(crate) struct Gate {
    /// Lock word of the table lock.
    pub(crate) lock: sync::AtomicU64,
    /// Schema version in force; 0 before the first, `u32::MAX` once the table is dropped.
    pub(crate) version: sync::AtomicU32,
}

/// LSN of the newest commit that changed each part.
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

/// Records of a table, shared by its schema versions until it is truncated.
pub struct Records {
    pub(crate) arena: Arena<Record>,
    pub(crate) gate: Arc<Gate>,
    /// First schema version with these records.
    pub(crate) since: u32,
    /// Layout of the newest version in force; it can read every existing row.
    layout: RwLock<Option<Arc<RowLayout>>>,
    parts: Parts,
    /// Rows as of the newest commit.
    rows: AtomicI64,
    /// Bytes of all versions.
    bytes: AtomicI64,
    long: LongValues,
}

/// A shorter value is not a long one: 8,192 of them, the rows of a batch, have at most 512 MiB.
const LONG_BYTES_MIN: usize = 64 << 10;

/// Columns with long values, and the longest row with one, since the table was created, truncated or recovered. Readers
/// that copy many rows at a time ask for it.
#[derive(Default)]
struct LongValues {
    row_bytes: AtomicU64,
    /// A bit for each column; the last one is for all columns from the 64th on.
    columns: AtomicU64,
}

impl LongValues {
    fn bit(column: usize) -> u64 {
        1 << column.min(63)
    }
}

impl Default for Records {
    fn default() -> Records {
        Records::new()
    }
}

impl Records {
    /// All record numbers that may have a row visible to some reader.
    pub fn all(&self) -> impl Iterator<Item = RecordId> + use<> {
        (0..self.arena.bound()).map(RecordId)
    }

    /// Creates an empty set of records, for a new table.
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
            long: LongValues::default(),
        }
    }

    /// Creates an empty set of records for a truncated table; `since` is its schema version.
    #[must_use]
    pub fn emptied(&self, since: u32) -> Records {
        Records::with(Arc::clone(&self.gate), since)
    }

    /// First schema version with these records.
    #[must_use]
    pub fn since(&self) -> u32 {
        self.since
    }

    /// One above the highest record number.
    #[must_use]
    pub fn bound(&self) -> u64 {
        self.arena.bound()
    }

    /// Number of parts: equal runs of record numbers.
    #[must_use]
    pub fn parts(&self) -> u64 {
        self.arena.bound().div_ceil(1 << PART_BITS)
    }

    /// Part of a record.
    #[must_use]
    pub fn part_of(record: RecordId) -> u64 {
        record.0 >> PART_BITS
    }

    /// Record numbers of a part.
    #[must_use]
    pub fn part(&self, part: u64) -> Range<u64> {
        let first = part << PART_BITS;
        first..(first + (1 << PART_BITS)).min(self.arena.bound()).max(first)
    }

    /// LSN of the newest commit since startup that changed a part; it covers all commits of any
    /// snapshot taken before the call.
    #[must_use]
    pub fn part_changed(&self, part: u64) -> Lsn {
        self.parts.newest(part)
    }

    /// Calls `f` with the newest committed version of each record: its row (`None`: deleted) and
    /// its LSN, which may be above any snapshot. Skips records without versions: never committed,
    /// or deleted before all snapshots. Returns the number after the record at which `f` broke, or
    /// the end.
    pub fn committed(
        &self,
        records: Range<u64>,
        guard: &Guard,
        mut f: impl FnMut(RecordId, Lsn, Option<&[u8]>) -> ControlFlow<()>,
    ) -> u64 {
        for number in records.clone() {
            let Some(version) = self.arena.get(number).and_then(|slot| slot.committed(guard)) else { continue };
            if let Begin::Committed(lsn) = version.begin()
                && f(RecordId(number), lsn, version.row()).is_break()
            {
                return number + 1;
            }
        }
        records.end
    }

    /// Rows as of the newest commit.
    #[must_use]
    pub fn rows(&self) -> u64 {
        u64::try_from(self.rows.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Bytes of records and versions, uncommitted ones included.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.arena.memory_bytes() as u64 + u64::try_from(self.bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Upper bound of the bytes of one value in these columns; 0 if all are shorter than 64 KiB.
    pub fn longest_value(&self, columns: &[usize]) -> usize {
        let wanted = columns.iter().fold(0, |bits, column| bits | LongValues::bit(*column));
        match self.long.columns.load(Ordering::Relaxed) & wanted {
            0 => 0,
            _ => self.long.row_bytes.load(Ordering::Relaxed) as usize,
        }
    }

    /// Notes the long values of a row, before readers see it.
    ///
    /// # Errors
    /// XX001 if the row is damaged.
    pub(crate) fn note_long(&self, layout: &RowLayout, row: &[u8]) -> Result<()> {
        if row.len() < LONG_BYTES_MIN {
            return Ok(());
        }
        let columns = layout.longer_than(row, LONG_BYTES_MIN)?.fold(0, |bits, column| bits | LongValues::bit(column));
        if columns > 0 {
            self.long.row_bytes.fetch_max(row.len() as u64, Ordering::Relaxed);
            self.long.columns.fetch_or(columns, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Recovery: restores rows from a checkpoint or the log, in any order and from any number of
    /// threads. Indexes are built afterwards ([`RowTable::recover`]).
    #[must_use]
    pub fn restoring(&self) -> Restoring<'_> {
        Restoring { records: self, bytes: 0, bound: 0 }
    }

    /// Marks the part of `record` as changed at `lsn`, so that the next checkpoint writes it.
    pub fn touch(&self, record: RecordId, lsn: Lsn) {
        self.parts.touch(Records::part_of(record), lsn);
    }

    /// The layout that can read every existing row; `own` if no version was ever in force.
    pub(crate) fn newest_layout(&self, own: &Arc<RowLayout>) -> Arc<RowLayout> {
        Arc::clone(self.layout.read().as_ref().unwrap_or(own))
    }

    /// Recovery: counts all record numbers of the first `parts` parts as handed out.
    pub fn reserve(&self, parts: u64) {
        self.arena.raise(parts.min(RECORDS_MAX >> PART_BITS) << PART_BITS);
    }

    /// Recovery: sets the row count.
    pub(crate) fn set_rows(&self, rows: u64) {
        self.rows.store(rows.cast_signed(), Ordering::Relaxed);
    }

    pub(crate) fn add_rows(&self, rows: i64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }

    pub(crate) fn add_bytes(&self, bytes: i64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Frees the number of a record without versions. It is reused after all current guards are
    /// dropped, because a reader may have got it from an index and would take the new row for the
    /// old one.
    pub(crate) fn give_back(self: &Arc<Self>, record: RecordId, guard: &Guard) {
        VERSIONS.retire(Retired::Number(Arc::downgrade(self), record.0), 0, guard);
    }

    /// Result for a record without a slot: `None` if its number was reserved but is unused since
    /// startup.
    pub(crate) fn nothing<T>(&self, record: RecordId) -> Result<Option<T>> {
        if record.0 < self.bound() { Ok(None) } else { self.record(record).map(|_| None) }
    }

    /// Returns a record by number.
    ///
    /// # Errors
    /// XX000 (a bug) if it does not exist: numbers come only from this table's indexes and log
    /// records.
    pub(crate) fn record(&self, record: RecordId) -> Result<&Record> {
        self.arena.get(record.0).ok_or_else(|| Error::bug(format!("record {} does not exist", record.0)))
    }
}

/// Rows restored by one recovery thread. Dropping it adds them to the table's counters.
pub struct Restoring<'a> {
    records: &'a Records,
    bytes: i64,
    bound: u64,
}

impl Restoring<'_> {
    /// Restores a row or a deletion, unless a newer version is there.
    ///
    /// # Errors
    /// XX001 if no table can have that record number.
    pub fn put(&mut self, record: RecordId, lsn: Lsn, row: Option<Box<[u8]>>, guard: &Guard) -> Result<()> {
        let arena = &self.records.arena;
        let slot = Some(record.0).filter(|number| *number < RECORDS_MAX).and_then(|number| arena.reach(number));
        let slot = slot
            .ok_or_else(|| Error::corrupt(format!("record number {} exceeds the limit of {RECORDS_MAX}", record.0)))?;
        self.bytes += slot.restore(lsn, row, guard);
        self.bound = self.bound.max(record.0 + 1);
        Ok(())
    }
}

impl Drop for Restoring<'_> {
    fn drop(&mut self) {
        // Once per thread rather than per row: the counters are contended.
        self.records.arena.raise(self.bound);
        self.records.add_bytes(self.bytes);
    }
}

/// An index: definition, key encoding and entries.
///
/// A primary index maps each key to one record. A secondary index maps (key, record number) to the
/// record: several versions and records may have had a key, and readers of old snapshots must find
/// all of them. An inverted index ([`inverted`]) is a secondary one with several entries for a row.
pub struct IndexData {
    pub(crate) def: RowIndex,
    /// Encoding of each key column.
    pub(crate) keys: Box<[KeyColumn]>,
    /// Class of each key column of an inverted index; empty for an ordered one.
    pub(crate) classes: Box<[Class]>,
    pub(crate) tree: Index,
}

impl IndexData {
    /// Creates an empty index over columns of `schema`.
    #[must_use]
    pub fn new(schema: &RowSchema, def: &RowIndex) -> IndexData {
        let key = |column: &usize| {
            let column = &schema.columns[*column];
            KeyColumn { ty: column.ty, nullable: !column.not_null, descending: false }
        };
        let classes = if def.method == IndexMethod::Gin { inverted::classes(schema, def) } else { Box::default() };
        IndexData { keys: def.columns.iter().map(key).collect(), classes, def: def.clone(), tree: Index::new() }
    }

    /// An inverted index over nothing, for tests of its entries.
    #[cfg(test)]
    pub(crate) fn inverted_for_tests() -> IndexData {
        IndexData {
            keys: Box::default(),
            classes: Box::new([Class::Array]),
            def: RowIndex::default(),
            tree: Index::new(),
        }
    }

    /// The same index with other entries.
    pub(crate) fn with_tree(&self, tree: Index) -> IndexData {
        IndexData { def: self.def.clone(), keys: self.keys.clone(), classes: self.classes.clone(), tree }
    }

    /// Definition: name, columns, uniqueness.
    #[must_use]
    pub fn def(&self) -> &RowIndex {
        &self.def
    }

    /// Encoding of each key column.
    #[must_use]
    pub fn keys(&self) -> &[KeyColumn] {
        &self.keys
    }

    /// Whether a row may have several entries, by keys that have no order.
    #[must_use]
    pub fn is_inverted(&self) -> bool {
        !self.classes.is_empty()
    }

    /// A key column of an inverted index.
    #[must_use]
    pub fn inverted_column(&self, at: usize) -> Option<inverted::Column> {
        self.classes.get(at).map(|class| inverted::Column { at, class: *class })
    }

    /// Replaces `keys` by those of a row in an inverted index, sorted and distinct; none for a row that a partial index leaves
    /// out.
    ///
    /// # Errors
    /// XX001 if the row is damaged.
    pub(crate) fn inverted_keys(&self, layout: &RowLayout, row: &[u8], keys: &mut Vec<u64>) -> Result<()> {
        keys.clear();
        if !self.covers(layout, row)? {
            return Ok(());
        }
        for (at, column) in self.def.columns.iter().enumerate() {
            if let Some(inverted) = self.inverted_column(at) {
                inverted.push_keys(&layout.field(row, *column)?, keys)?;
            }
        }
        keys.sort_unstable();
        keys.dedup();
        Ok(())
    }

    /// Whether this is the table's primary index.
    pub(crate) fn is_primary(&self, table: &RowTable) -> bool {
        table.primary.as_ref().is_some_and(|primary| std::ptr::eq(&**primary, self))
    }

    /// Bytes of the index.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.tree.memory_bytes() as u64
    }

    /// Calls `f` with the entries between two keys, in order: the entry's whole key, and the
    /// record.
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

    /// Estimated number of entries that have one value of the first columns. Cost: a scan of some hundred keys, and some
    /// lookups if they have few values; an index over a type whose keys cannot be told apart counts as one value.
    #[must_use]
    pub fn entries_of_prefix(&self, columns: usize) -> f64 {
        const SAMPLE: u32 = 256;
        const VALUES: u32 = 32;
        let all = self.tree.len() as f64;
        if columns == 0 {
            return all;
        }
        if columns == self.keys.len() && self.def.unique {
            return 1.0;
        }
        let guard = &crossbeam_epoch::pin();
        let (mut last, mut seen, mut values, mut is_known) = (Vec::new(), 0_u32, 0_u32, true);
        self.tree.scan(Bound::Unbounded, Bound::Unbounded, Direction::Forward, guard, |key, _| {
            let Some(length) = self.prefix_bytes(columns, key) else {
                is_known = false;
                return ControlFlow::Break(());
            };
            if seen == 0 || last != key[..length] {
                last = key[..length].to_vec();
                values += 1;
            }
            seen += 1;
            if seen == SAMPLE { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if !is_known || seen == 0 {
            return all;
        }
        if seen < SAMPLE || values > SAMPLE / 8 {
            return f64::from(seen) / f64::from(values);
        }
        // Many rows for each value: counts the values, from one to the next.
        let (mut next, mut counted) = (Vec::new(), 0_u32);
        while counted < VALUES {
            let mut found = None;
            self.tree.scan(Bound::Included(&next), Bound::Unbounded, Direction::Forward, guard, |key, _| {
                found = self.prefix_bytes(columns, key).map(|length| key[..length].to_vec());
                ControlFlow::Break(())
            });
            let Some(mut prefix) = found else { return all / f64::from(counted.max(1)) };
            counted += 1;
            if !key::prefix_end(&mut prefix) {
                return all / f64::from(counted);
            }
            next = prefix;
        }
        f64::from(seen) / f64::from(values)
    }

    /// Length of the first columns of a key.
    fn prefix_bytes(&self, columns: usize, key: &[u8]) -> Option<usize> {
        let mut at = 0;
        for column in self.keys.iter().take(columns) {
            at += key::value_bytes(column, key.get(at..)?)?;
        }
        Some(at)
    }

    /// Records that a secondary index has under `key`.
    pub(crate) fn records(&self, key: &[u8], guard: &Guard) -> Vec<RecordId> {
        let mut last = key.to_vec();
        last.extend_from_slice(&[u8::MAX; 8]);
        let mut records = Vec::new();
        let (from, to) = (Bound::Included(key), Bound::Included(last.as_slice()));
        self.tree.scan(from, to, Direction::Forward, guard, |entry, record| {
            // Skip longer keys with this prefix.
            if entry.len() == key.len() + 8 {
                records.push(RecordId(record));
            }
            ControlFlow::Continue(())
        });
        records
    }

    /// Records that may have `key`, by this unique index, primary or secondary.
    pub(crate) fn holders(&self, table: &RowTable, key: &[u8], guard: &Guard) -> Vec<RecordId> {
        if self.is_primary(table) {
            return self.tree.get(key, guard).map(RecordId).into_iter().collect();
        }
        self.records(key, guard)
    }

    /// Whether two rows differ in the bytes of an indexed column.
    fn is_touched(&self, layout: &RowLayout, old: &[u8], new: &[u8]) -> Result<bool> {
        for column in self.def.columns.iter().chain(&self.def.predicate) {
            if !layout.is_same(old, new, *column)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the index has entries of a row: always, unless it is partial.
    fn covers(&self, layout: &RowLayout, row: &[u8]) -> Result<bool> {
        match self.def.predicate {
            None => Ok(true),
            Some(column) => Ok(layout.field(row, column)? == Datum::Bool(true)),
        }
    }

    /// Appends the key of a row in an ordered index; true if equal keys are allowed, because one of its columns is NULL and NULLs are distinct. Appends nothing for
    /// a row that a partial index leaves out.
    ///
    /// # Errors
    /// 54000 if the key is too long; XX001 if the row is damaged.
    pub(crate) fn key_of(&self, layout: &RowLayout, row: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        debug_assert!(!self.is_inverted(), "BUG: the one key of a row in inverted index {}", self.def.id);
        if !self.covers(layout, row)? {
            return Ok(true);
        }
        let before = out.len();
        let mut has_null = false;
        for (column, key) in self.def.columns.iter().zip(&self.keys) {
            let value = layout.field(row, *column)?;
            has_null |= value.is_null();
            key::push(out, key, &value)?;
        }
        key::check_size(&self.def.name, &out[before..])?;
        Ok(has_null && !self.def.nulls_not_distinct)
    }
}

/// One version of a table, as a statement uses it: schema, records, indexes.
pub struct RowTable {
    /// The schema of this version.
    pub schema: RowSchemaRef,
    /// Row layout. Rows written before columns were added are shorter.
    pub layout: Arc<RowLayout>,
    /// The records, shared with other versions of the table.
    pub records: Arc<Records>,
    /// Index of the primary key.
    pub primary: Option<Arc<IndexData>>,
    /// The other indexes.
    pub secondary: Vec<Arc<IndexData>>,
    /// A value that the crate above computed from the schema.
    pub derived: Derived,
}

/// A value derived from the schema of a table's version. It is computed once for all sessions, and freed with the version.
#[derive(Default)]
pub struct Derived(OnceLock<Arc<dyn Any + Send + Sync>>);

impl Derived {
    /// The value; `None` if there is none of this type yet.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.0.get().and_then(|value| Arc::clone(value).downcast().ok())
    }

    /// Keeps a value, unless there is one.
    pub fn keep<T: Any + Send + Sync>(&self, value: &Arc<T>) {
        let value: Arc<dyn Any + Send + Sync> = Arc::<T>::clone(value);
        // Another session may have been first.
        let _: std::result::Result<(), _> = self.0.set(value);
    }
}

impl fmt::Debug for RowTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RowTable({}, version {})", self.schema.name, self.schema.version)
    }
}

impl RowTable {
    /// The table's id.
    #[must_use]
    pub fn id(&self) -> TableId {
        self.schema.id
    }

    /// The stamp of the version with this row, which a read returned under the same guard: what SQL shows as `xmin`. `None` for
    /// a copy of a row.
    #[must_use]
    pub fn stamp(&self, record: RecordId, row: &[u8], guard: &Guard) -> Option<u32> {
        let mut versions = self.records.arena.get(record.0)?.versions(guard);
        let is_it = |version: &&Version| version.row().is_some_and(|own| std::ptr::eq(own, row));
        versions.find(is_it).map(Version::stamp)
    }

    /// Puts this version in force. Its DDL must be committed, and the caller must hold the table
    /// lock exclusively or be the only user.
    pub fn take_effect(&self) {
        *self.records.layout.write() = Some(Arc::clone(&self.layout));
        self.records.gate.version.store(self.schema.version, Ordering::Release);
    }

    /// Marks the table as dropped: no version is in force.
    pub fn go(&self) {
        self.records.gate.version.store(u32::MAX, Ordering::Release);
    }

    /// Bytes of records and indexes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let indexes = self.primary.iter().chain(&self.secondary);
        self.records.memory_bytes() + indexes.map(|index| index.tree.memory_bytes() as u64).sum::<u64>()
    }

    /// Returns an index by its position in [`RowTable::secondary`]; `None`: the primary index.
    pub(crate) fn index(&self, position: Option<usize>) -> Option<&Arc<IndexData>> {
        match position {
            None => self.primary.as_ref(),
            Some(at) => self.secondary.get(at),
        }
    }

    /// Bit mask of all secondary indexes.
    pub(crate) fn secondaries(&self) -> u64 {
        match self.secondary.len() {
            SECONDARY_INDEXES_MAX => u64::MAX,
            count => (1 << count) - 1,
        }
    }

    /// Bit mask of the secondary indexes in which the keys of two rows may differ.
    pub(crate) fn touched(&self, old: &[u8], new: &[u8]) -> Result<u64> {
        let mut touched = 0;
        for (at, index) in self.secondary.iter().enumerate() {
            touched |= u64::from(index.is_touched(&self.layout, old, new)?) << at;
        }
        Ok(touched)
    }

    /// Whether two rows have different primary keys.
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

    /// Appends the record number to a key, as in entries of secondary indexes.
    pub(crate) fn entry_key(key: &mut Vec<u8>, record: RecordId) {
        key.extend_from_slice(&record.0.to_be_bytes());
    }

    /// The inverted indexes, with their positions among the secondary ones.
    pub(crate) fn inverted(&self) -> impl Iterator<Item = (usize, &Arc<IndexData>)> {
        self.secondary.iter().enumerate().filter(|(_, index)| index.is_inverted())
    }

    /// Removes the entries that only the newest version of a record has from the inverted indexes in bit mask `which`, before
    /// it is undone.
    pub(crate) fn remove_inverted_entries(&self, which: u64, record: RecordId, guard: &Guard) -> Result<()> {
        let (mut keys, mut others) = (Vec::new(), Vec::new());
        for (_, index) in self.inverted().filter(|(at, _)| which & 1 << at != 0) {
            let mut versions = self.records.record(record)?.versions(guard).map(Version::row);
            let Some(newest) = versions.next().flatten() else { continue };
            index.inverted_keys(&self.layout, newest, &mut keys)?;
            for older in versions.flatten() {
                if keys.is_empty() {
                    break;
                }
                index.inverted_keys(&self.layout, older, &mut others)?;
                keys = inverted::without(&keys, &others).collect();
            }
            for key in &keys {
                index.tree.remove(&inverted::entry(*key, record), guard);
            }
        }
        Ok(())
    }

    /// Removes the entries of a row from the ordered secondary indexes in bit mask `which`.
    pub(crate) fn remove_entries(&self, which: u64, record: RecordId, row: &[u8], guard: &Guard) -> Result<()> {
        let mut key = Vec::new();
        for (at, index) in self.secondary.iter().enumerate() {
            if which & 1 << at != 0 && !index.is_inverted() {
                key.clear();
                index.key_of(&self.layout, row, &mut key)?;
                RowTable::entry_key(&mut key, record);
                index.tree.remove(&key, guard);
            }
        }
        Ok(())
    }
}

/// Keys of one row in all secondary indexes of its table. The buffers are reused from row to row.
#[derive(Default)]
pub(crate) struct Keys {
    /// Each key, followed by space for a record number.
    bytes: Vec<u8>,
    /// End of each key and its space, up to the last index encoded.
    ends: Vec<usize>,
    /// Bit mask of keys with a NULL.
    nulls: u64,
    /// Keys for each inverted index that was encoded, by position. Its ordinary key is empty.
    inverted: Vec<(usize, Vec<u64>)>,
}

impl Keys {
    /// Encodes the keys for the indexes in bit mask `which`; the others, and partial ones without the row, get an empty
    /// key.
    ///
    /// # Errors
    /// See [`IndexData::key_of`].
    pub(crate) fn make(&mut self, table: &RowTable, which: u64, row: &[u8]) -> Result<()> {
        self.bytes.clear();
        self.ends.clear();
        self.nulls = 0;
        self.inverted.clear();
        for (at, index) in table.secondary.iter().enumerate() {
            if which & 1 << at != 0 && index.is_inverted() {
                let mut keys = Vec::new();
                index.inverted_keys(&table.layout, row, &mut keys)?;
                self.inverted.push((at, keys));
            } else if which & 1 << at != 0 {
                let before = self.bytes.len();
                let has_null = index.key_of(&table.layout, row, &mut self.bytes)?;
                self.nulls |= u64::from(has_null) << at;
                if self.bytes.len() > before {
                    RowTable::entry_key(&mut self.bytes, RecordId(0));
                }
            }
            self.ends.push(self.bytes.len());
        }
        Ok(())
    }

    /// Keys for one inverted index; none if they were not encoded.
    pub(crate) fn inverted(&self, at: usize) -> &[u64] {
        self.inverted.iter().find(|(index, _)| *index == at).map_or(&[], |(_, keys)| keys)
    }

    pub(crate) fn has_null(&self, at: usize) -> bool {
        self.nulls >> at & 1 == 1
    }

    /// Key for one index; empty if none was encoded. Real keys are never empty.
    pub(crate) fn key(&self, at: usize) -> &[u8] {
        let entry = self.range(at);
        &self.bytes[entry.start..entry.end.saturating_sub(size_of::<u64>()).max(entry.start)]
    }

    /// Key with the record number appended, as stored in the index.
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

/// Most secondary indexes of a table: one bit each in a u64.
pub const SECONDARY_INDEXES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use model::{Lineage, ReplicaIdentity, RowColumn, TableName, Type};

    use super::*;

    #[test]
    fn entries_of_a_prefix_are_estimated_from_few_keys() {
        let schema = RowSchema {
            id: TableId(1),
            name: TableName::public("t"),
            version: 1,
            lineage: Lineage::default(),
            columns: vec![RowColumn::new("a", Type::Int4), RowColumn::new("b", Type::Text)],
            primary: None,
            secondary: Vec::new(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            triggers: Vec::new(),
            replica_identity: ReplicaIdentity::default(),
        };
        let def = RowIndex { columns: vec![0, 1], ..RowIndex::default() };
        // Values of the first column, rows of each, and the estimate.
        for (values, rows, expected) in
            [(1, 1, 1.0), (10, 3, 3.0), (5_000, 4, 4.0), (25, 400, 400.0), (100, 100, 100.0)]
        {
            let index = IndexData::new(&schema, &def);
            for entry in 0..values * rows {
                let mut key = Vec::new();
                key::push(&mut key, &index.keys[0], &Datum::Int4(entry / rows)).unwrap();
                key::push(&mut key, &index.keys[1], &Datum::Text(&format!("text {}", entry % rows))).unwrap();
                key.extend_from_slice(&u64::from(entry.cast_unsigned()).to_be_bytes());
                index.tree.insert(&key, u64::from(entry.cast_unsigned()), &crossbeam_epoch::pin()).unwrap();
            }
            let estimate = index.entries_of_prefix(1);
            assert!((0.8..1.3).contains(&(estimate / expected)), "{values} values of {rows} rows: {estimate}");
            assert!((0.9..1.1).contains(&index.entries_of_prefix(2)), "{values} values of {rows} rows");
            let all = f64::from(values * rows);
            assert!((index.entries_of_prefix(0) - all).abs() < 0.5, "{values} values of {rows} rows");
        }
    }
}
