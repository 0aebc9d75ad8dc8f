//! Table construction: new tables, altered versions, and index builds over existing rows.

use std::cmp::{Ordering, Reverse};
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;

use model::{Datum, Error, Lsn, Result, RowIndex, RowSchemaRef, SqlState};

use crate::index::Index;
use crate::inverted;
use crate::locks::TxnId;
use crate::record::Version;
use crate::row::RowLayout;
use crate::table::{IndexData, RecordId, Records, RowTable};
use crate::txn::Txn;

/// Rows between two checks of memory while an index is built.
const ROWS_PER_CHECK: u64 = 4_096;
/// Bytes that an index takes while it is built, for each byte of its entries: themselves and the tree.
const BUILD_BYTES: i64 = 2;

/// Recovery result of one part of a table: row count, free record numbers and sorted index entries.
pub struct Recovered {
    /// Schema version that the entries were made with.
    version: u32,
    part: u64,
    rows: u64,
    /// Free record numbers, ascending.
    free: Vec<u64>,
    /// Sorted entries per index, the primary index first.
    entries: Vec<Entries>,
}

impl Recovered {
    /// Bytes held until the indexes are built.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        (self.entries.iter().map(Entries::memory_bytes).sum::<usize>() + self.free.capacity() * size_of::<u64>()) as u64
    }
}

impl RowTable {
    /// Creates a table without rows.
    ///
    /// # Errors
    /// See [`RowLayout::of`].
    pub fn new(schema: RowSchemaRef) -> Result<RowTable> {
        RowTable::over(schema, Arc::new(Records::new()))
    }

    /// Creates a table over existing records, with empty indexes.
    ///
    /// # Errors
    /// See [`RowLayout::of`].
    pub fn over(schema: RowSchemaRef, records: Arc<Records>) -> Result<RowTable> {
        let layout = Arc::new(RowLayout::of(&schema)?);
        let index = |def: &RowIndex| Arc::new(IndexData::new(&schema, def));
        let (primary, secondary) =
            (schema.primary.as_ref().map(index), schema.secondary.iter().map(index).collect::<Vec<_>>());
        Ok(RowTable { layout, records, primary, secondary, schema, derived: crate::Derived::default() })
    }

    /// Returns the next version of the table, over the same records. Unchanged indexes are shared;
    /// the others are built from the newest committed rows and `txn`'s own; `txn` must hold the table lock exclusively.
    ///
    /// # Errors
    /// 23505 if a new unique index has a duplicate key; `show` formats the key's values for the
    /// message. 54000 if a key is too long; 53200 at the memory limit.
    ///
    /// # Cost
    /// O(rows × log rows) for each new index; all its keys are in memory at once.
    pub fn altered(&self, schema: RowSchemaRef, txn: &Txn, show: &dyn Fn(&Datum<'_>) -> String) -> Result<RowTable> {
        let mut next = RowTable::over(schema, Arc::clone(&self.records))?;
        let old: Vec<_> = self.primary.iter().chain(&self.secondary).cloned().collect();
        let is_same = |old: &Arc<IndexData>, new: &IndexData| old.def == new.def && old.keys == new.keys;
        if let (Some(new), Some(old)) = (&mut next.primary, &self.primary)
            && is_same(old, new)
        {
            *new = Arc::clone(old);
        }
        for new in &mut next.secondary {
            // The old primary index is no candidate: its entries have no record number.
            if let Some(old) = self.secondary.iter().find(|old| is_same(old, new)) {
                *new = Arc::clone(old);
            }
        }
        next.build(Some(txn), show, |index| !old.iter().any(|old| Arc::ptr_eq(old, index)))?;
        Ok(next)
    }

    /// Returns the next version of the table, with no records (TRUNCATE).
    ///
    /// # Errors
    /// See [`RowTable::new`].
    pub fn emptied(&self, schema: RowSchemaRef) -> Result<RowTable> {
        let records = Arc::new(self.records.emptied(schema.version));
        RowTable::over(schema, records)
    }

    /// Returns the parts that [`RowTable::recover`] must still process after log replay. Drops from
    /// `recovered` the parts that replay made stale: the log changed the part or the table's
    /// schema.
    #[must_use]
    pub fn unrecovered(&self, recovered: &mut Vec<Recovered>) -> Vec<u64> {
        recovered
            .retain(|part| part.version == self.schema.version && self.records.part_changed(part.part) == Lsn::ZERO);
        let done: BTreeSet<u64> = recovered.iter().map(|part| part.part).collect();
        let is_used = |part: &u64| self.records.arena.runs_in(self.records.part(*part)).next().is_some();
        (0..self.records.parts()).filter(|part| !done.contains(part)).filter(is_used).collect()
    }

    /// Recovers one part after its rows were restored and before the table has readers: frees
    /// deleted records and makes index entries. Call it for every part, from any number of threads.
    ///
    /// # Errors
    /// XX001 if a row is damaged.
    pub fn recover(&self, part: u64) -> Result<Recovered> {
        let indexes: Vec<_> = self.primary.iter().chain(&self.secondary).collect();
        let (version, mut entries) = (self.schema.version, Vec::new());
        entries.resize_with(indexes.len(), Entries::default);
        let mut recovered = Recovered { version, part, rows: 0, free: Vec::new(), entries };
        // Each row is visited once for all indexes, while it is in the CPU cache.
        for run in self.records.arena.runs_in(self.records.part(part)) {
            let guard = &crossbeam_epoch::pin();
            for number in run {
                let slot = self.records.record(RecordId(number))?;
                let Some(row) = slot.newest(guard).and_then(Version::row) else {
                    self.records.add_bytes(-(slot.clear(guard) as i64));
                    recovered.free.push(number);
                    continue;
                };
                recovered.rows += 1;
                self.records.note_long(&self.layout, row).map_err(|e| self.corrupt(&e))?;
                for (at, (index, entries)) in indexes.iter().zip(&mut recovered.entries).enumerate() {
                    let is_primary = at == 0 && self.primary.is_some();
                    entries
                        .push(&self.layout, index, is_primary, RecordId(number), row)
                        .map_err(|e| self.corrupt(&e))?;
                }
            }
        }
        recovered.entries.iter_mut().for_each(Entries::sort);
        Ok(recovered)
    }

    /// Builds the table and its indexes from all parts. The table must not be in use yet.
    ///
    /// # Errors
    /// XX001 if a unique index has a duplicate key.
    pub fn recovered(&self, mut parts: Vec<Recovered>) -> Result<RowTable> {
        parts.sort_by_key(|part| part.part);
        // The free list is a stack: push descending, so that low numbers are reused first.
        let free = parts.iter().rev().flat_map(|part| part.free.iter().rev());
        free.for_each(|number| self.records.arena.give_back(*number));
        self.records.set_rows(parts.iter().map(|part| part.rows).sum());
        let show = |value: &Datum<'_>| format!("{value:?}");
        let made = |at: usize, index: &Arc<IndexData>, parts: &mut Vec<Recovered>| -> Result<Arc<IndexData>> {
            let entries: Vec<Entries> = parts.iter_mut().map(|part| std::mem::take(&mut part.entries[at])).collect();
            let is_primary = at == 0 && self.primary.is_some();
            let tree = self.merged(index, is_primary, &entries, None, &show).map_err(|e| self.corrupt(&e))?;
            Ok(Arc::new(index.with_tree(tree)))
        };
        let primary = self.primary.as_ref().map(|index| made(0, index, &mut parts)).transpose()?;
        let mut secondary = Vec::new();
        for (at, index) in self.secondary.iter().enumerate() {
            secondary.push(made(at + usize::from(primary.is_some()), index, &mut parts)?);
        }
        Ok(RowTable {
            schema: Arc::clone(&self.schema),
            layout: Arc::clone(&self.layout),
            records: Arc::clone(&self.records),
            primary,
            secondary,
            derived: crate::Derived::default(),
        })
    }

    fn corrupt(&self, error: &Error) -> Error {
        Error::corrupt(format!("relation {}: {error}", self.schema.name))
    }

    fn build(
        &mut self,
        me: Option<&Txn>,
        show: &dyn Fn(&Datum<'_>) -> String,
        which: impl Fn(&Arc<IndexData>) -> bool,
    ) -> Result<()> {
        let build = |index: &Arc<IndexData>, is_primary| -> Result<Arc<IndexData>> {
            let tree = self.tree(index, is_primary, me, show)?;
            Ok(Arc::new(index.with_tree(tree)))
        };
        let primary = self.primary.as_ref().filter(|index| which(index)).map(|index| build(index, true)).transpose()?;
        let mut secondary = self.secondary.clone();
        for index in secondary.iter_mut().filter(|index| which(index)) {
            *index = build(index, false)?;
        }
        self.primary = primary.or(self.primary.take());
        self.secondary = secondary;
        Ok(())
    }

    /// Builds one index from the records that `me` sees.
    fn tree(
        &self,
        index: &IndexData,
        is_primary: bool,
        me: Option<&Txn>,
        show: &dyn Fn(&Datum<'_>) -> String,
    ) -> Result<Index> {
        let (txn, me) = (me, me.map(Txn::id));
        let mut entries = Entries::default();
        let check_memory =
            |entries: &Entries| txn.map_or(Ok(()), |txn| txn.check_memory(BUILD_BYTES * entries.memory_bytes() as i64));
        for run in self.records.arena.runs_in(0..self.records.bound()) {
            let guard = &crossbeam_epoch::pin();
            for number in run {
                if number % ROWS_PER_CHECK == 0 {
                    check_memory(&entries)?;
                }
                let slot = self.records.record(RecordId(number))?;
                let version = match me {
                    Some(me) => slot.current(me, guard),
                    None => slot.newest(guard),
                };
                if let Some(row) = version.and_then(Version::row) {
                    entries.push(&self.layout, index, is_primary, RecordId(number), row)?;
                }
            }
        }
        entries.sort();
        self.merged(index, is_primary, &[entries], me, show)
    }

    /// Builds an index by merging the sorted entries of all parts.
    fn merged(
        &self,
        index: &IndexData,
        is_primary: bool,
        parts: &[Entries],
        me: Option<TxnId>,
        show: &dyn Fn(&Datum<'_>) -> String,
    ) -> Result<Index> {
        if index.is_inverted() {
            let entry = |(key, record)| (inverted::entry(key, RecordId(record)), record);
            return Ok(Index::build(merge_inverted(parts).map(entry)));
        }
        let plain = |(key, _): (&[u8], &Entry)| key.len() - if is_primary { 0 } else { size_of::<u64>() };
        let (mut last, mut twice): (Option<(&[u8], &Entry)>, _) = (None, None);
        let tree = Index::build(Merge::of(parts).map_while(|entry| {
            let same = last.is_some_and(|last| last.0[..plain(last)] == entry.0[..plain(entry)]);
            if same && last.is_some_and(|(_, last)| last.is_unique) && entry.1.is_unique {
                twice = Some(entry.1.record);
                return None;
            }
            last = Some(entry);
            Some((entry.0, entry.1.record))
        }));
        match twice {
            Some(record) => Err(self.duplicate(index, RecordId(record), me, show)?),
            None => Ok(tree),
        }
    }

    fn duplicate(
        &self,
        index: &IndexData,
        record: RecordId,
        me: Option<TxnId>,
        show: &dyn Fn(&Datum<'_>) -> String,
    ) -> Result<Error> {
        let guard = &crossbeam_epoch::pin();
        let slot = self.records.record(record)?;
        let version = me.map_or_else(|| slot.newest(guard), |me| slot.current(me, guard));
        let row = version.and_then(Version::row).unwrap_or_default();
        let names: Vec<&str> = index.def.columns.iter().map(|at| self.schema.columns[*at].name.as_str()).collect();
        let values = index.def.columns.iter().map(|at| Ok(show(&self.layout.field(row, *at)?)));
        let values = values.collect::<Result<Vec<_>>>()?;
        let text = format!("could not create unique index \"{}\"", index.def.name);
        let detail = format!("Key ({})=({}) is duplicated.", names.join(", "), values.join(", "));
        let error = Error::new(SqlState::UNIQUE_VIOLATION, text).with_detail(detail);
        Ok(error.about_constraint(&self.schema.name, &index.def.name))
    }
}

/// Entries of one index, before it is built.
#[derive(Default)]
struct Entries {
    /// All keys, concatenated in the order of insertion.
    keys: Vec<u8>,
    entries: Vec<Entry>,
    /// Keys and record numbers of an inverted index, in place of the above.
    inverted: Vec<(u64, u64)>,
}

struct Entry {
    /// First eight bytes of the key, zero-padded. Most comparisons end here and touch no other
    /// memory.
    prefix: u64,
    /// Offset of the key in [`Entries::keys`].
    start: usize,
    length: u32,
    /// The index is unique and the key has no NULL.
    is_unique: bool,
    record: u64,
}

impl Entries {
    fn push(
        &mut self,
        layout: &RowLayout,
        index: &IndexData,
        is_primary: bool,
        record: RecordId,
        row: &[u8],
    ) -> Result<()> {
        if index.is_inverted() {
            let mut keys = Vec::new();
            index.inverted_keys(layout, row, &mut keys)?;
            self.inverted.extend(keys.into_iter().map(|key| (key, record.0)));
            return Ok(());
        }
        let start = self.keys.len();
        let has_null = index.key_of(layout, row, &mut self.keys)?;
        if self.keys.len() == start {
            // A partial index leaves the row out.
            return Ok(());
        }
        if !is_primary {
            RowTable::entry_key(&mut self.keys, record);
        }
        let key = &self.keys[start..];
        let mut prefix = [0; 8];
        let known = key.len().min(prefix.len());
        prefix[..known].copy_from_slice(&key[..known]);
        self.entries.push(Entry {
            prefix: u64::from_be_bytes(prefix),
            start,
            length: key.len() as u32,
            is_unique: index.def.is_key() && !has_null,
            record: record.0,
        });
        Ok(())
    }

    fn sort(&mut self) {
        self.inverted.sort_unstable();
        let keys = &self.keys;
        self.entries.sort_unstable_by(|one, other| compare((one.key(keys), one), (other.key(keys), other)));
    }

    fn memory_bytes(&self) -> usize {
        let inverted = self.inverted.capacity() * size_of::<(u64, u64)>();
        self.keys.capacity() + self.entries.capacity() * size_of::<Entry>() + inverted
    }

    fn get(&self, at: usize) -> Option<(&[u8], &Entry)> {
        self.entries.get(at).map(|entry| (entry.key(&self.keys), entry))
    }
}

impl Entry {
    fn key<'a>(&self, keys: &'a [u8]) -> &'a [u8] {
        &keys[self.start..self.start + self.length as usize]
    }
}

fn compare(one: (&[u8], &Entry), other: (&[u8], &Entry)) -> Ordering {
    one.1.prefix.cmp(&other.1.prefix).then_with(|| one.0.cmp(other.0))
}

/// K-way merge of the sorted entries of an inverted index.
fn merge_inverted(parts: &[Entries]) -> impl Iterator<Item = (u64, u64)> {
    let rest = |part: &mut std::slice::Iter<'_, (u64, u64)>| part.next().copied();
    let mut parts: Vec<_> = parts.iter().map(|part| part.inverted.iter()).collect();
    let heads = parts.iter_mut().enumerate().filter_map(|(at, part)| Some(Reverse((rest(part)?, at))));
    let mut heads: BinaryHeap<_> = heads.collect();
    std::iter::from_fn(move || {
        let mut least = heads.peek_mut()?;
        let Reverse((entry, at)) = *least;
        match rest(&mut parts[at]) {
            Some(next) => *least = Reverse((next, at)),
            None => drop(PeekMut::pop(least)),
        }
        Some(entry)
    })
}

/// K-way merge of sorted parts.
struct Merge<'a> {
    /// Current entry of each part that is not exhausted.
    heads: BinaryHeap<Reverse<Head<'a>>>,
}

struct Head<'a> {
    part: &'a Entries,
    at: usize,
    entry: (&'a [u8], &'a Entry),
}

impl<'a> Merge<'a> {
    fn of(parts: &'a [Entries]) -> Merge<'a> {
        let head = |part: &'a Entries| Some(Reverse(Head { part, at: 0, entry: part.get(0)? }));
        Merge { heads: parts.iter().filter_map(head).collect() }
    }
}

impl<'a> Iterator for Merge<'a> {
    type Item = (&'a [u8], &'a Entry);

    fn next(&mut self) -> Option<Self::Item> {
        let mut least = self.heads.peek_mut()?;
        let Head { part, at, entry } = least.0;
        match part.get(at + 1) {
            Some(next) => least.0 = Head { part, at: at + 1, entry: next },
            None => drop(PeekMut::pop(least)),
        }
        Some(entry)
    }
}

impl PartialEq for Head<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head<'_> {}

impl PartialOrd for Head<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Head<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self.entry, other.entry)
    }
}
