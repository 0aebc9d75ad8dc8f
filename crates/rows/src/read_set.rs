//! Read sets of SERIALIZABLE transactions, and their validation at commit: precision locking, from
//! Neumann, Mühlbauer and Kemper, "Fast Serializable Multi-Version Concurrency Control for
//! Main-Memory Database Systems", SIGMOD 2015.
//!
//! A SERIALIZABLE transaction reads one snapshot and records its read set: record numbers, index
//! key ranges, whole tables. Before its commit it checks the records that later commits wrote. If
//! none is in the read set, and none has, or had at the snapshot, a key in a range of the read set,
//! all reads would return the same at commit time: the transaction is equivalent to one that ran at
//! that instant, alone. The commit order is therefore a serial order.
//! (docs/decisions/0008-validated-reads.md)
//!
//! Always true:
//! - A read set is a superset of what was read: entries may be merged into larger ones, none is
//!   lost.
//! - [`RecentCommits`] has every commit after the oldest snapshot of a live serializable
//!   transaction, or reports that it has not.
//! - Versions visible to such a snapshot, and all newer ones, are kept until its transaction ends:
//!   the owner of the snapshot guarantees it.
//!
//! Difference to the paper: it stores predicates over columns, this module stores the key ranges
//! that were scanned. A row that was scanned and filtered out counts as read.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crossbeam_epoch::Guard;
use model::{Error, Lsn, Result, RowSchemaRef, SqlState, TableId};

use crate::inverted;
use crate::locks::TxnId;
use crate::record::{Begin, Record};
use crate::row::RowLayout;
use crate::sync::{AtomicUsize, Mutex};
use crate::table::{IndexData, RecordId, Records, RowTable};

/// At this number of noted records of a table, more than half of them distinct, the whole table is
/// noted instead.
const RECORDS_NOTED_MAX: usize = 1 << 16;
/// Limit for noted ranges of one index, likewise.
const RANGES_NOTED_MAX: usize = 1 << 12;
/// Size limit of [`RecentCommits`]: one per record written and [`COMMIT_RECORDS`] per commit. About
/// 64 MiB.
const RECORDS_REMEMBERED_MAX: usize = 1 << 22;
const COMMIT_RECORDS: usize = 8;

/// Read set of one transaction.
#[derive(Default)]
pub(crate) struct ReadSet {
    /// The snapshot, once set.
    since: Option<Lsn>,
    /// Commits up to this one are validated.
    checked: Lsn,
    /// Few tables, so a linear search is fast.
    tables: Vec<TableReadSet>,
    delegated: Arc<DelegatedReads>,
}

/// Tables that other threads read as a whole on behalf of the transaction.
#[derive(Debug, Default)]
pub(crate) struct DelegatedReads(Mutex<Vec<Arc<RowTable>>>);

impl DelegatedReads {
    pub(crate) fn note(&self, table: &Arc<RowTable>) {
        let mut tables = self.0.lock();
        if !tables.iter().any(|known| Arc::ptr_eq(known, table)) {
            tables.push(Arc::clone(table));
        }
    }
}

/// Read set of one table.
struct TableReadSet {
    schema: RowSchemaRef,
    records: Arc<Records>,
    /// The whole table was read; the other fields are empty then.
    whole_table: bool,
    seen: RecordNumbers,
    indexes: Vec<IndexReadSet>,
}

/// Read set of one index.
struct IndexReadSet {
    index: Arc<IndexData>,
    layout: Arc<RowLayout>,
    is_primary: bool,
    ranges: KeyRanges,
}

/// Record numbers; the first `sorted` of them are sorted and distinct.
#[derive(Default)]
struct RecordNumbers {
    all: Vec<u64>,
    sorted: usize,
}

impl RecordNumbers {
    /// False if there are too many.
    fn add(&mut self, number: u64) -> bool {
        if self.all.last() != Some(&number) {
            self.all.push(number);
        }
        if self.all.len() < RECORDS_NOTED_MAX {
            return true;
        }
        self.sort();
        self.all.len() <= RECORDS_NOTED_MAX / 2
    }

    fn sort(&mut self) {
        if self.sorted < self.all.len() {
            self.all.sort_unstable();
            self.all.dedup();
            self.sorted = self.all.len();
        }
    }

    /// Requires [`RecordNumbers::sort`] first.
    fn has(&self, number: u64) -> bool {
        let (sorted, all) = (self.sorted, self.all.len());
        assert!(sorted == all, "BUG: {sorted} of {all} record numbers are sorted");
        self.all.binary_search(&number).is_ok()
    }
}

/// Keys from `low` up to, not including, `high`; unbounded without `high`.
struct KeyRange {
    low: Box<[u8]>,
    high: Option<Box<[u8]>>,
}

/// Key ranges; the first `sorted` of them are sorted and disjoint.
#[derive(Default)]
struct KeyRanges {
    all: Vec<KeyRange>,
    sorted: usize,
}

impl KeyRanges {
    /// False if there are too many.
    fn add(&mut self, range: KeyRange) -> bool {
        self.all.push(range);
        if self.all.len() < RANGES_NOTED_MAX {
            return true;
        }
        self.sort();
        self.all.len() <= RANGES_NOTED_MAX / 2
    }

    fn sort(&mut self) {
        if self.sorted == self.all.len() {
            return;
        }
        self.all.sort_unstable_by(|one, other| one.low.cmp(&other.low));
        let mut apart: Vec<KeyRange> = Vec::with_capacity(self.all.len());
        for range in self.all.drain(..) {
            match apart.last_mut() {
                Some(last) if last.high.as_ref().is_none_or(|high| *high >= range.low) => {
                    // An unbounded range stays unbounded.
                    last.high = last.high.take().zip(range.high).map(|(one, other)| one.max(other));
                }
                _ => apart.push(range),
            }
        }
        debug_assert!(
            apart.is_sorted_by(|one, other| one.high.as_ref().is_some_and(|high| *high < other.low)),
            "BUG: key ranges overlap after sorting"
        );
        self.all = apart;
        self.sorted = self.all.len();
    }

    /// Requires [`KeyRanges::sort`] first.
    fn has(&self, key: &[u8]) -> bool {
        let (sorted, all) = (self.sorted, self.all.len());
        assert!(sorted == all, "BUG: {sorted} of {all} key ranges are sorted");
        let after = self.all.partition_point(|range| *range.low <= *key);
        after > 0 && self.all[after - 1].high.as_ref().is_none_or(|high| *key < **high)
    }
}

/// The smallest key above `key`.
fn successor(key: &[u8]) -> Box<[u8]> {
    [key, &[0]].concat().into()
}

impl ReadSet {
    /// Sets the snapshot: from now on `recent` records all commits after it. Only the first call
    /// has an effect.
    pub(crate) fn begin(&mut self, recent: &RecentCommits, txn: TxnId, snapshot: Lsn) {
        if self.since.is_none() {
            (self.since, self.checked) = (Some(snapshot), snapshot);
            recent.enter(txn, snapshot);
        }
    }

    pub(crate) fn end(&self, recent: &RecentCommits, txn: TxnId) {
        if let Some(since) = self.since {
            recent.leave(txn, since);
        }
    }

    pub(crate) fn is_registered(&self) -> bool {
        self.since.is_some()
    }

    pub(crate) fn delegated(&self) -> Arc<DelegatedReads> {
        Arc::clone(&self.delegated)
    }

    fn table(&mut self, table: &RowTable) -> &mut TableReadSet {
        // The table that was read last is the most likely.
        let known = self.tables.iter().rposition(|known| Arc::ptr_eq(&known.records, &table.records));
        let at = known.unwrap_or_else(|| {
            self.tables.push(TableReadSet {
                schema: Arc::clone(&table.schema),
                records: Arc::clone(&table.records),
                whole_table: false,
                seen: RecordNumbers::default(),
                indexes: Vec::new(),
            });
            self.tables.len() - 1
        });
        &mut self.tables[at]
    }

    pub(crate) fn note_table(&mut self, table: &RowTable) {
        self.table(table).note_all();
    }

    pub(crate) fn note_record(&mut self, table: &RowTable, record: RecordId) {
        let table = self.table(table);
        if !table.whole_table && !table.seen.add(record.0) {
            table.note_all();
        }
    }

    /// Notes entries of an index. Keys of a secondary index include the record number.
    pub(crate) fn note_range(
        &mut self,
        table: &RowTable,
        index: &Arc<IndexData>,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) {
        let reads = self.table(table);
        if reads.whole_table {
            return;
        }
        let low = match from {
            Bound::Included(key) => key.into(),
            Bound::Excluded(key) => successor(key),
            Bound::Unbounded => Box::default(),
        };
        let high = match to {
            Bound::Included(key) => Some(successor(key)),
            Bound::Excluded(key) => Some(key.into()),
            Bound::Unbounded => None,
        };
        if !reads.index(table, index).ranges.add(KeyRange { low, high }) {
            reads.note_all();
        }
    }

    /// Notes a key of a unique index, present or absent.
    pub(crate) fn note_key(&mut self, table: &RowTable, index: &Arc<IndexData>, key: &[u8]) {
        if index.is_primary(table) {
            return self.note_range(table, index, Bound::Included(key), Bound::Included(key));
        }
        let last = [key, &[u8::MAX; size_of::<u64>()]].concat();
        self.note_range(table, index, Bound::Included(key), Bound::Included(&last));
    }

    /// Validates the read set against all commits known so far. Call it again under the commit
    /// lock: commits that were validated earlier are skipped.
    ///
    /// # Errors
    /// 40001 with the conflicting read; XX000.
    pub(crate) fn check(&mut self, recent: &RecentCommits) -> Result<()> {
        let Some(since) = self.since else { return Ok(()) };
        self.normalize();
        if self.tables.is_empty() {
            return Ok(());
        }
        for commit in recent.after(self.checked)? {
            // Pin again for each commit: there may be many, and a long pin holds up garbage
            // collection.
            let guard = &crossbeam_epoch::pin();
            for (table, record) in &commit.records {
                self.check_record(*table, *record, since, guard)?;
            }
            for table in &commit.altered {
                if let Some(read) = self.tables.iter().find(|read| read.schema.id == *table) {
                    return Err(conflict(format!(
                        "another transaction altered or truncated relation \"{}\"",
                        read.schema.name.table
                    )));
                }
            }
            assert!(self.checked < commit.lsn, "BUG: commit {} is validated after {}", commit.lsn, self.checked);
            self.checked = commit.lsn;
        }
        Ok(())
    }

    /// Like [`ReadSet::check`], for one record written since the snapshot.
    pub(crate) fn check_one(&mut self, table: TableId, record: RecordId, guard: &Guard) -> Result<()> {
        self.normalize();
        self.since.map_or(Ok(()), |since| self.check_record(table, record, since, guard))
    }

    fn normalize(&mut self) {
        let delegated = std::mem::take(&mut *self.delegated.0.lock());
        delegated.iter().for_each(|table| self.note_table(table));
        for table in &mut self.tables {
            table.seen.sort();
            table.indexes.iter_mut().for_each(|index| index.ranges.sort());
        }
    }

    fn check_record(&self, table: TableId, record: RecordId, since: Lsn, guard: &Guard) -> Result<()> {
        // A table that the transaction itself truncated is in the list twice.
        let mut reads = self.tables.iter().filter(|reads| reads.schema.id == table);
        reads.try_for_each(|reads| reads.check(record, since, guard))
    }
}

impl TableReadSet {
    fn note_all(&mut self) {
        (self.whole_table, self.seen, self.indexes) = (true, RecordNumbers::default(), Vec::new());
    }

    fn index(&mut self, table: &RowTable, index: &Arc<IndexData>) -> &mut IndexReadSet {
        let known = self.indexes.iter().position(|known| Arc::ptr_eq(&known.index, index));
        let at = known.unwrap_or_else(|| {
            self.indexes.push(IndexReadSet {
                index: Arc::clone(index),
                layout: Arc::clone(&table.layout),
                is_primary: index.is_primary(table),
                ranges: KeyRanges::default(),
            });
            self.indexes.len() - 1
        });
        &mut self.indexes[at]
    }

    fn check(&self, record: RecordId, since: Lsn, guard: &Guard) -> Result<()> {
        let name = &self.schema.name.table;
        if self.whole_table {
            return Err(conflict(format!(
                "another transaction wrote a row of relation \"{name}\", which this transaction read as a whole"
            )));
        }
        if self.seen.has(record.0) {
            return Err(conflict(format!(
                "another transaction wrote a row of relation \"{name}\" that this transaction read"
            )));
        }
        let Some(slot) = self.records.arena.get(record.0) else { return Ok(()) };
        for index in &self.indexes {
            // The version may have been written under a newer schema than the read.
            let layout = self.records.newest_layout(&index.layout);
            if index.has_any(&layout, slot, record, since, guard)? {
                let index = &index.index.def.name;
                let text = format!(
                    "another transaction wrote a row of relation \"{name}\" in a range of index \"{index}\" that this transaction read"
                );
                return Err(conflict(text));
            }
        }
        Ok(())
    }
}

impl IndexReadSet {
    /// Whether a version of the record, from the snapshot's one to the newest, has a key in a noted
    /// range.
    fn has_any(&self, layout: &RowLayout, slot: &Record, record: RecordId, since: Lsn, guard: &Guard) -> Result<bool> {
        let (mut key, mut keys) = (Vec::new(), Vec::new());
        for version in slot.versions(guard) {
            let Begin::Committed(lsn) = version.begin() else { continue };
            if let Some(row) = version.row()
                && self.index.is_inverted()
            {
                self.index.inverted_keys(layout, row, &mut keys)?;
                if keys.iter().any(|key| self.ranges.has(&inverted::entry(*key, record))) {
                    return Ok(true);
                }
            } else if let Some(row) = version.row() {
                key.clear();
                self.index.key_of(layout, row, &mut key)?;
                if !self.is_primary && !key.is_empty() {
                    RowTable::entry_key(&mut key, record);
                }
                // A partial index may leave the row out.
                if !key.is_empty() && self.ranges.has(&key) {
                    return Ok(true);
                }
            }
            if lsn <= since {
                break;
            }
        }
        Ok(false)
    }
}

/// Error 40001 with the read that conflicts.
fn conflict(detail: impl Into<String>) -> Error {
    let text = "could not serialize access due to read/write dependencies among transactions";
    Error::new(SqlState::SERIALIZATION_FAILURE, text)
        .with_detail(format!("Since this transaction's snapshot, {}.", detail.into()))
        .with_hint("The transaction might succeed if retried.")
}

/// Writes of one commit.
struct CommitWrites {
    lsn: Lsn,
    records: Vec<(TableId, RecordId)>,
    /// Tables whose schema the commit changed or that it truncated.
    altered: Vec<TableId>,
}

/// Writes of recent commits, kept while a live serializable transaction may need them for
/// validation.
#[derive(Default)]
pub(crate) struct RecentCommits {
    live: AtomicUsize,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Snapshots of live serializable transactions.
    snapshots: BTreeSet<(Lsn, TxnId)>,
    /// Oldest first.
    commits: VecDeque<Arc<CommitWrites>>,
    /// Records in `commits`, plus [`COMMIT_RECORDS`] per commit.
    size: usize,
    /// Commits up to this one were evicted for size; an older transaction cannot be validated.
    evicted_to: Lsn,
}

impl RecentCommits {
    /// Whether another serializable transaction needs the writes of a commit; `own` if the
    /// committing one is registered too. Call it under the commit lock: it sees every transaction
    /// that registered, with its snapshot, under that lock.
    pub(crate) fn is_needed(&self, own: bool) -> bool {
        self.live.load(Ordering::Relaxed) > usize::from(own)
    }

    /// Oldest LSN from which garbage collection must keep every version, even those between
    /// snapshots: validation compares the keys of all versions since the snapshot. Evicted commits
    /// are never validated, so their versions are not needed.
    pub(crate) fn kept_from(&self) -> Option<Lsn> {
        if self.live.load(Ordering::Acquire) == 0 {
            return None;
        }
        let inner = self.inner.lock();
        inner.snapshots.first().map(|(oldest, _)| inner.evicted_to.max(*oldest))
    }

    fn enter(&self, txn: TxnId, snapshot: Lsn) {
        self.live.fetch_add(1, Ordering::Relaxed);
        self.inner.lock().snapshots.insert((snapshot, txn));
    }

    fn leave(&self, txn: TxnId, snapshot: Lsn) {
        let mut inner = self.inner.lock();
        let was_live = inner.snapshots.remove(&(snapshot, txn));
        assert!(was_live, "BUG: {txn:?} leaves with a snapshot at {snapshot} that it did not enter with");
        let oldest = inner.snapshots.first().map_or(Lsn(u64::MAX), |(lsn, _)| *lsn);
        let gone = inner.evict(|commit, _| commit.lsn <= oldest);
        drop(inner);
        self.live.fetch_sub(1, Ordering::Relaxed);
        // Free the memory after unlocking.
        drop(gone);
    }

    /// Adds the newest commit. Its versions must already be committed, because validation reads
    /// them.
    pub(crate) fn note(&self, lsn: Lsn, records: Vec<(TableId, RecordId)>, altered: Vec<TableId>) {
        let mut inner = self.inner.lock();
        if inner.snapshots.is_empty() {
            // The last serializable transaction has ended meanwhile, and would have removed this
            // commit.
            return;
        }
        if let Some(last) = inner.commits.back() {
            assert!(last.lsn < lsn, "BUG: commit {lsn} is noted after {}", last.lsn);
        }
        let commit = Arc::new(CommitWrites { lsn, records, altered });
        inner.size += commit.size();
        inner.commits.push_back(commit);
        let gone = inner.evict(|_, size| size > RECORDS_REMEMBERED_MAX);
        if let Some(last) = gone.last() {
            inner.evicted_to = last.lsn;
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.inner.lock().commits.len()
    }

    /// Commits after `lsn`, oldest first.
    ///
    /// # Errors
    /// 40001 if some of them were evicted.
    fn after(&self, lsn: Lsn) -> Result<Vec<Arc<CommitWrites>>> {
        let inner = self.inner.lock();
        if lsn < inner.evicted_to {
            return Err(conflict("more transactions committed than the server keeps for validation"));
        }
        let first = inner.commits.partition_point(|commit| commit.lsn <= lsn);
        Ok(inner.commits.range(first..).cloned().collect())
    }
}

impl Inner {
    /// Removes the oldest commits while `is_enough(commit, total size)` holds.
    fn evict(&mut self, is_enough: impl Fn(&CommitWrites, usize) -> bool) -> Vec<Arc<CommitWrites>> {
        let mut gone = Vec::new();
        while self.commits.front().is_some_and(|oldest| is_enough(oldest, self.size)) {
            if let Some(oldest) = self.commits.pop_front() {
                let size = self.size.checked_sub(oldest.size());
                self.size = size.expect("BUG: recent commits have fewer records than the oldest");
                gone.push(oldest);
            }
        }
        gone
    }
}

impl CommitWrites {
    fn size(&self) -> usize {
        self.records.len() + COMMIT_RECORDS
    }
}
