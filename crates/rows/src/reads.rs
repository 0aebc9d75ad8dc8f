//! What a SERIALIZABLE transaction has read, and what others wrote meanwhile: precision locking as in Neumann, Mühlbauer
//! and Kemper, "Fast Serializable Multi-Version Concurrency Control for Main-Memory Database Systems", SIGMOD 2015.
//!
//! Such a transaction reads by one snapshot and notes what it reads: records, ranges of index keys, whole tables. Before its
//! commit it goes through the records that commits after its snapshot wrote. If none of these is one it has read, and none
//! has, or had at the snapshot, a key in a range it has read, then all its reads would give the same at its commit: it may
//! as well have run there, alone. So the order of commits is a serial order. (docs/decisions/0008-validated-reads.md)
//!
//! Always true:
//! - What is noted is at least what was read: several may be noted as one larger thing, nothing is forgotten.
//! - [`Recent`] has every commit after the oldest snapshot of a living serializable transaction, or says that it has not.
//! - Versions that such a snapshot shows, and all newer ones, are there until its transaction has ended: whoever holds the
//!   snapshot sees to that.
//!
//! We differ from the paper: it keeps predicates over columns, we keep what was walked to answer them. A row that was looked
//! at and left out counts as read.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crossbeam_epoch::Guard;
use model::{Error, Lsn, Result, RowSchemaRef, SqlState, TableId};

use crate::locks::TxnId;
use crate::record::{Begin, Record};
use crate::row::RowLayout;
use crate::sync::{AtomicUsize, Mutex};
use crate::table::{IndexData, RecordId, Records, RowTable};

/// When so many records of one table are noted, and half of them are different ones, the whole table is noted instead.
const RECORDS_NOTED_MAX: usize = 1 << 16;
/// As many ranges of one index.
const RANGES_NOTED_MAX: usize = 1 << 12;
/// Commits are remembered up to so many records; a commit counts as [`COMMIT_RECORDS`] more. 64 MiB.
const RECORDS_REMEMBERED_MAX: usize = 1 << 22;
const COMMIT_RECORDS: usize = 8;

/// What one transaction has read.
#[derive(Default)]
pub(crate) struct Reads {
    /// The snapshot, once there is one.
    since: Option<Lsn>,
    /// Commits up to here wrote nothing of it.
    checked: Lsn,
    /// Few, so that looking through them is quick.
    tables: Vec<TableReads>,
    elsewhere: Arc<Elsewhere>,
}

/// Tables that others read as a whole for the transaction, on threads of their own.
#[derive(Debug, Default)]
pub(crate) struct Elsewhere(Mutex<Vec<Arc<RowTable>>>);

impl Elsewhere {
    pub(crate) fn note(&self, table: &Arc<RowTable>) {
        let mut tables = self.0.lock();
        if !tables.iter().any(|known| Arc::ptr_eq(known, table)) {
            tables.push(Arc::clone(table));
        }
    }
}

/// What was read of one table.
struct TableReads {
    schema: RowSchemaRef,
    records: Arc<Records>,
    /// All of it. Then the rest is empty.
    whole: bool,
    seen: Numbers,
    indexes: Vec<IndexReads>,
}

/// What was read of one index.
struct IndexReads {
    index: Arc<IndexData>,
    layout: Arc<RowLayout>,
    is_primary: bool,
    ranges: Ranges,
}

/// Numbers of records, the first `sorted` of them in order and each once.
#[derive(Default)]
struct Numbers {
    all: Vec<u64>,
    sorted: usize,
}

impl Numbers {
    /// False when they are too many.
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

    /// To be asked when they are sorted.
    fn has(&self, number: u64) -> bool {
        self.all.binary_search(&number).is_ok()
    }
}

/// Keys from `low` on and before `high`; without `high` to the end.
struct Range {
    low: Box<[u8]>,
    high: Option<Box<[u8]>>,
}

/// Ranges of keys, the first `sorted` of them in order and apart from each other.
#[derive(Default)]
struct Ranges {
    all: Vec<Range>,
    sorted: usize,
}

impl Ranges {
    /// False when they are too many.
    fn add(&mut self, range: Range) -> bool {
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
        let mut apart: Vec<Range> = Vec::with_capacity(self.all.len());
        for range in self.all.drain(..) {
            match apart.last_mut() {
                Some(last) if last.high.as_ref().is_none_or(|high| *high >= range.low) => {
                    // Without an end it stays without.
                    last.high = last.high.take().zip(range.high).map(|(one, other)| one.max(other));
                }
                _ => apart.push(range),
            }
        }
        self.all = apart;
        self.sorted = self.all.len();
    }

    /// To be asked when they are sorted.
    fn has(&self, key: &[u8]) -> bool {
        let after = self.all.partition_point(|range| *range.low <= *key);
        after > 0 && self.all[after - 1].high.as_ref().is_none_or(|high| *key < **high)
    }
}

/// A bound as the first key that is beyond it.
fn beyond(key: &[u8]) -> Box<[u8]> {
    [key, &[0]].concat().into()
}

impl Reads {
    /// All commits after the snapshot will be in `recent`. Only the first time counts.
    pub(crate) fn begin(&mut self, recent: &Recent, txn: TxnId, snapshot: Lsn) {
        if self.since.is_none() {
            (self.since, self.checked) = (Some(snapshot), snapshot);
            recent.enter(txn, snapshot);
        }
    }

    pub(crate) fn end(&self, recent: &Recent, txn: TxnId) {
        if let Some(since) = self.since {
            recent.leave(txn, since);
        }
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.since.is_some()
    }

    pub(crate) fn elsewhere(&self) -> Arc<Elsewhere> {
        Arc::clone(&self.elsewhere)
    }

    fn table(&mut self, table: &RowTable) -> &mut TableReads {
        // The one that was read last is the likeliest.
        let known = self.tables.iter().rposition(|known| Arc::ptr_eq(&known.records, &table.records));
        let at = known.unwrap_or_else(|| {
            self.tables.push(TableReads {
                schema: Arc::clone(&table.schema),
                records: Arc::clone(&table.records),
                whole: false,
                seen: Numbers::default(),
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
        if !table.whole && !table.seen.add(record.0) {
            table.note_all();
        }
    }

    /// Entries of an index: of a secondary one these are keys with the numbers of records behind them.
    pub(crate) fn note_range(
        &mut self,
        table: &RowTable,
        index: &Arc<IndexData>,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) {
        let reads = self.table(table);
        if reads.whole {
            return;
        }
        let low = match from {
            Bound::Included(key) => key.into(),
            Bound::Excluded(key) => beyond(key),
            Bound::Unbounded => Box::default(),
        };
        let high = match to {
            Bound::Included(key) => Some(beyond(key)),
            Bound::Excluded(key) => Some(key.into()),
            Bound::Unbounded => None,
        };
        if !reads.index(table, index).ranges.add(Range { low, high }) {
            reads.note_all();
        }
    }

    /// One key of a unique index, whether somebody has it or not.
    pub(crate) fn note_key(&mut self, table: &RowTable, index: &Arc<IndexData>, key: &[u8]) {
        if index.is_primary(table) {
            return self.note_range(table, index, Bound::Included(key), Bound::Included(key));
        }
        let last = [key, &[u8::MAX; size_of::<u64>()]].concat();
        self.note_range(table, index, Bound::Included(key), Bound::Included(&last));
    }

    /// Has nothing that was read been written by a commit that is known by now? To be asked again under the lock that commits
    /// are made under; what was found good is not looked at again.
    ///
    /// # Errors
    /// 40001 with what it was; XX000.
    pub(crate) fn check(&mut self, recent: &Recent) -> Result<()> {
        let Some(since) = self.since else { return Ok(()) };
        self.settle();
        if self.tables.is_empty() {
            return Ok(());
        }
        for commit in recent.after(self.checked)? {
            // There may be many commits, and others throw things away meanwhile.
            let guard = &crossbeam_epoch::pin();
            for (table, record) in &commit.records {
                self.check_record(*table, *record, since, guard)?;
            }
            for table in &commit.altered {
                if let Some(read) = self.tables.iter().find(|read| read.schema.id == *table) {
                    return Err(conflict(format!("relation \"{}\" was changed as a whole", read.schema.name.table)));
                }
            }
            self.checked = commit.lsn;
        }
        Ok(())
    }

    /// As [`Reads::check`], for one record that somebody has written since.
    pub(crate) fn check_one(&mut self, table: TableId, record: RecordId, guard: &Guard) -> Result<()> {
        self.settle();
        self.since.map_or(Ok(()), |since| self.check_record(table, record, since, guard))
    }

    fn settle(&mut self) {
        let elsewhere = std::mem::take(&mut *self.elsewhere.0.lock());
        elsewhere.iter().for_each(|table| self.note_table(table));
        for table in &mut self.tables {
            table.seen.sort();
            table.indexes.iter_mut().for_each(|index| index.ranges.sort());
        }
    }

    fn check_record(&self, table: TableId, record: RecordId, since: Lsn, guard: &Guard) -> Result<()> {
        // A table that the transaction itself began anew is there twice.
        let mut reads = self.tables.iter().filter(|reads| reads.schema.id == table);
        reads.try_for_each(|reads| reads.check(record, since, guard))
    }
}

impl TableReads {
    fn note_all(&mut self) {
        (self.whole, self.seen, self.indexes) = (true, Numbers::default(), Vec::new());
    }

    fn index(&mut self, table: &RowTable, index: &Arc<IndexData>) -> &mut IndexReads {
        let known = self.indexes.iter().position(|known| Arc::ptr_eq(&known.index, index));
        let at = known.unwrap_or_else(|| {
            self.indexes.push(IndexReads {
                index: Arc::clone(index),
                layout: Arc::clone(&table.layout),
                is_primary: index.is_primary(table),
                ranges: Ranges::default(),
            });
            self.indexes.len() - 1
        });
        &mut self.indexes[at]
    }

    fn check(&self, record: RecordId, since: Lsn, guard: &Guard) -> Result<()> {
        let name = &self.schema.name.table;
        if self.whole {
            return Err(conflict(format!("a row of relation \"{name}\", of which all was read, was written")));
        }
        if self.seen.has(record.0) {
            return Err(conflict(format!("a row of relation \"{name}\" that was read was written")));
        }
        let Some(slot) = self.records.arena.get(record.0) else { return Ok(()) };
        for index in &self.indexes {
            // A version may be of a later description of the table than the one that was read by.
            let layout = self.records.newest_layout(&index.layout);
            if index.has_any(&layout, slot, record, since, guard)? {
                let index = &index.index.def.name;
                let text =
                    format!("a row of relation \"{name}\" was written in a range of index \"{index}\" that was read");
                return Err(conflict(text));
            }
        }
        Ok(())
    }
}

impl IndexReads {
    /// Was one of the record's versions, from that of the snapshot on, in a range?
    fn has_any(&self, layout: &RowLayout, slot: &Record, record: RecordId, since: Lsn, guard: &Guard) -> Result<bool> {
        let mut key = Vec::new();
        for version in slot.versions(guard) {
            let Begin::Committed(lsn) = version.begin() else { continue };
            if let Some(row) = version.row() {
                key.clear();
                self.index.key_of(layout, row, &mut key)?;
                if !self.is_primary {
                    RowTable::entry_key(&mut key, record);
                }
                if self.ranges.has(&key) {
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

/// 40001, with what was read and is another now.
fn conflict(detail: impl Into<String>) -> Error {
    let text = "could not serialize access due to read/write dependencies among transactions";
    Error::new(SqlState::SERIALIZATION_FAILURE, text)
        .with_detail(format!("Since the transaction's snapshot {}.", detail.into()))
        .with_hint("The transaction might succeed if retried.")
}

/// What one commit wrote.
struct Written {
    lsn: Lsn,
    records: Vec<(TableId, RecordId)>,
    /// Tables whose description it changed, or whose rows it threw away.
    altered: Vec<TableId>,
}

/// What commits wrote for as long as a serializable transaction lives that may ask.
#[derive(Default)]
pub(crate) struct Recent {
    living: AtomicUsize,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Of living serializable transactions.
    snapshots: BTreeSet<(Lsn, TxnId)>,
    /// Oldest first.
    commits: VecDeque<Arc<Written>>,
    /// Records of them all, and [`COMMIT_RECORDS`] for each.
    size: usize,
    /// Commits up to here were forgotten although somebody may ask.
    forgotten: Lsn,
}

impl Recent {
    /// Does anybody else want to know what a commit writes? It sees every transaction that entered, with its snapshot, under the lock that
    /// commits are made under. `own`: is whoever commits in here too?
    pub(crate) fn is_wanted(&self, own: bool) -> bool {
        self.living.load(Ordering::Relaxed) > usize::from(own)
    }

    /// From where on versions are kept as they came one after the other: somebody who lives may have been told of one that came and went,
    /// and will ask what was written since. Of what was forgotten nobody asks.
    pub(crate) fn kept_from(&self) -> Option<Lsn> {
        if self.living.load(Ordering::Acquire) == 0 {
            return None;
        }
        let inner = self.inner.lock();
        inner.snapshots.first().map(|(oldest, _)| inner.forgotten.max(*oldest))
    }

    fn enter(&self, txn: TxnId, snapshot: Lsn) {
        self.living.fetch_add(1, Ordering::Relaxed);
        self.inner.lock().snapshots.insert((snapshot, txn));
    }

    fn leave(&self, txn: TxnId, snapshot: Lsn) {
        let mut inner = self.inner.lock();
        inner.snapshots.remove(&(snapshot, txn));
        let oldest = inner.snapshots.first().map_or(Lsn(u64::MAX), |(lsn, _)| *lsn);
        let gone = inner.forget(|commit, _| commit.lsn <= oldest);
        drop(inner);
        self.living.fetch_sub(1, Ordering::Relaxed);
        // Their memory goes without the lock.
        drop(gone);
    }

    /// Adds the newest commit. Its versions are committed by now: who finds it here looks at them.
    pub(crate) fn note(&self, lsn: Lsn, records: Vec<(TableId, RecordId)>, altered: Vec<TableId>) {
        let mut inner = self.inner.lock();
        if inner.snapshots.is_empty() {
            // The last one who wanted to know has ended meanwhile, and would have taken it out.
            return;
        }
        let commit = Arc::new(Written { lsn, records, altered });
        inner.size += commit.size();
        inner.commits.push_back(commit);
        let gone = inner.forget(|_, size| size > RECORDS_REMEMBERED_MAX);
        if let Some(last) = gone.last() {
            inner.forgotten = last.lsn;
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.inner.lock().commits.len()
    }

    /// The commits after one, oldest first.
    ///
    /// # Errors
    /// 40001 when they are not all known any more.
    fn after(&self, lsn: Lsn) -> Result<Vec<Arc<Written>>> {
        let inner = self.inner.lock();
        if lsn < inner.forgotten {
            return Err(conflict("there were more commits than are remembered"));
        }
        let first = inner.commits.partition_point(|commit| commit.lsn <= lsn);
        Ok(inner.commits.range(first..).cloned().collect())
    }
}

impl Inner {
    /// Takes the oldest commits out, as long as they, or the size of all, are so.
    fn forget(&mut self, is_enough: impl Fn(&Written, usize) -> bool) -> Vec<Arc<Written>> {
        let mut gone = Vec::new();
        while self.commits.front().is_some_and(|oldest| is_enough(oldest, self.size)) {
            if let Some(oldest) = self.commits.pop_front() {
                self.size -= oldest.size();
                gone.push(oldest);
            }
        }
        gone
    }
}

impl Written {
    fn size(&self) -> usize {
        self.records.len() + COMMIT_RECORDS
    }
}
