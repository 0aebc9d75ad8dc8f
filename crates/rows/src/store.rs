//! State shared by all `rows` tables of a database: transactions, locks, garbage collection, memory
//! accounting.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

use crossbeam_epoch::Guard;
use model::{Error, Lsn, Result, SqlState};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::inverted;
use crate::locks::{LockMode, LockName, Locks, Request, TxnId, WaitPolicy};
use crate::read_set::RecentCommits;
use crate::readers::Readers;
use crate::reclaim;
use crate::record::{Begin, Version};
use crate::row::RowLayout;
use crate::sync::Mutex;
use crate::table::{IndexData, RecordId, Records, RowTable};
use crate::txn::{Isolation, Txn};

/// State shared by all transactions.
pub struct Store {
    pub(crate) locks: Locks,
    /// Writes of recent commits, for the validation of serializable transactions.
    pub(crate) recent: RecentCommits,
    next_txn: AtomicU64,
    /// Garbage queue: (commit that made it garbage, item), roughly in commit order.
    garbage: Mutex<VecDeque<(Lsn, Garbage)>>,
    /// Garbage kept by live snapshots only. Locked by the collecting thread.
    held: Mutex<Held>,
    /// Dropped and truncated tables, and dropped indexes. This mutex is invisible to the model
    /// checker: no correctness depends on it.
    dropped_tables: parking_lot::Mutex<VecDeque<DroppedParts>>,
    /// Items of garbage, queued or held.
    garbage_count: AtomicUsize,
    /// Bytes of queued and held items, without the versions they refer to.
    garbage_bytes: AtomicI64,
    /// Bytes of versions that only old snapshots see.
    held_bytes: AtomicI64,
    /// Approximate bytes of all tables.
    memory_bytes: AtomicI64,
    /// Bytes of the write and lock lists of transactions.
    transaction_bytes: AtomicI64,
    /// Memory limit: inserts and updates beyond it are refused.
    memory_bytes_max: AtomicU64,
    /// Age of the oldest snapshot in seconds, when last reported.
    oldest_seconds: AtomicU64,
    /// Number of lock waits.
    waits: AtomicU64,
}

/// Retired bytes that do not count against the memory limit: the normal lag of reclamation.
const DEFERRED_FREE_BYTES: u64 = 8 << 20;
/// Items collected under one epoch guard.
const ITEMS_PER_GUARD: usize = 256;

/// An item that can be removed once all readers are at its commit or later.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Garbage {
    /// Old versions of a record.
    Versions { table: TableByAddress, record: RecordId },
    /// A deleted record, and its primary key.
    Record { table: TableByAddress, record: RecordId, key: Box<[u8]> },
    /// A stale entry of a secondary index, or the keys of several in an inverted index.
    Entry { table: TableByAddress, index: usize, key: Box<[u8]>, record: RecordId },
}

/// A table, compared by address.
#[derive(Clone)]
pub(crate) struct TableByAddress(pub(crate) Arc<RowTable>);

impl PartialEq for TableByAddress {
    fn eq(&self, other: &TableByAddress) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for TableByAddress {}

impl Hash for TableByAddress {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

impl Garbage {
    fn memory_bytes(&self) -> i64 {
        let key = match self {
            Garbage::Versions { .. } => 0,
            Garbage::Record { key, .. } | Garbage::Entry { key, .. } => key.len(),
        };
        (size_of::<(Lsn, Garbage)>() + key) as i64
    }
}

/// Garbage that only live snapshots keep, once per snapshot: a record that changes a thousand times
/// during a snapshot's life is here once.
#[derive(Default)]
struct Held {
    /// Items by the snapshot that keeps them, with the bytes of the kept version.
    by_snapshot: BTreeMap<Lsn, FxHashMap<Garbage, usize>>,
    /// Items whose snapshot has ended, to be examined again.
    released: Vec<Garbage>,
}

impl Held {
    /// Releases the items of ended snapshots; returns the bytes of versions they kept.
    fn release(&mut self, readers: &Readers) -> usize {
        let mut bytes = 0;
        let ended: Vec<Lsn> = self.by_snapshot.keys().copied().filter(|lsn| readers.has_ended(*lsn)).collect();
        for snapshot in ended {
            for (garbage, of_version) in self.by_snapshot.remove(&snapshot).into_iter().flatten() {
                bytes += of_version;
                self.released.push(garbage);
            }
        }
        bytes
    }
}

/// Records and indexes that a DDL commit made obsolete. The collector frees them in steps: the
/// session that drops a table of a million rows does not wait, and a prepared statement that still
/// refers to the table does not keep its rows.
struct DroppedParts {
    lsn: Lsn,
    records: Option<Arc<Records>>,
    /// Next record to clear.
    next_record: u64,
    indexes: Vec<Arc<IndexData>>,
    /// Next node to clear in the last index.
    next_node: u32,
}

impl DroppedParts {
    /// Frees up to about `most` items; returns how many, and whether nothing is left.
    fn clear_some(&mut self, most: usize) -> (usize, bool) {
        if let Some(records) = &self.records {
            let guard = &crossbeam_epoch::pin();
            let end = records.bound().min(self.next_record + most as u64);
            for number in self.next_record..end {
                let bytes = records.arena.get(number).map_or(0, |slot| slot.clear(guard));
                records.add_bytes(-(bytes as i64));
            }
            let done = (end - self.next_record) as usize;
            self.next_record = end;
            if end == records.bound() {
                self.records = None;
            }
            return (done + 1, false);
        }
        let Some(index) = self.indexes.last() else { return (0, true) };
        // A node has some tens of entries.
        let nodes = (most / 16 + 1) as u32;
        match index.tree.clear_some(self.next_node, nodes) {
            Some(next) => self.next_node = next,
            None => {
                self.indexes.pop();
                self.next_node = 0;
            }
        }
        (most, self.indexes.is_empty())
    }

    fn memory_bytes(&self) -> u64 {
        let records = self.records.as_ref().map_or(0, |records| records.memory_bytes());
        records + self.indexes.iter().map(|index| index.memory_bytes()).sum::<u64>()
    }
}

/// Outcome of collecting one item.
enum Collected {
    Done,
    /// The record is locked: retry later.
    Locked,
    /// Live snapshots still see it; new ones will not.
    Held,
}

impl Default for Store {
    fn default() -> Store {
        Store::new(1)
    }
}

impl Store {
    /// Creates an empty store. `first`: number of its first transaction, at least 1. SQL shows the lower half of a number, so
    /// another one in each life of the process tells its transactions from those before.
    #[must_use]
    pub fn new(first: u32) -> Store {
        Store {
            locks: Locks::new(),
            recent: RecentCommits::default(),
            next_txn: AtomicU64::new(u64::from(first.max(1))),
            garbage: Mutex::default(),
            held: Mutex::default(),
            dropped_tables: parking_lot::Mutex::default(),
            garbage_count: AtomicUsize::new(0),
            garbage_bytes: AtomicI64::new(0),
            held_bytes: AtomicI64::new(0),
            memory_bytes: AtomicI64::new(0),
            transaction_bytes: AtomicI64::new(0),
            memory_bytes_max: AtomicU64::new(u64::MAX),
            oldest_seconds: AtomicU64::new(0),
            waits: AtomicU64::new(0),
        }
    }

    /// Sets the memory limit for all tables. Beyond it inserts and updates fail with 53200; deletes
    /// do not.
    pub fn set_memory_limit(&self, bytes: u64) {
        self.memory_bytes_max.store(bytes, Ordering::Relaxed);
    }

    /// Replaces the approximate byte count by a measured one: growth of indexes and some freed
    /// garbage are not tracked incrementally.
    pub fn set_memory_bytes(&self, bytes: u64) {
        self.memory_bytes.store(i64::try_from(bytes).unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    /// Approximate bytes of all tables.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        u64::try_from(self.memory_bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }

    pub(crate) fn add_memory_bytes(&self, bytes: i64) {
        if bytes != 0 {
            self.memory_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    pub(crate) fn add_transaction_bytes(&self, bytes: i64) {
        if bytes != 0 {
            self.transaction_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Bytes outside tables: queued garbage, lists of transactions, and retired memory beyond the
    /// usual lag.
    fn other_bytes(&self) -> u64 {
        let lists = self.garbage_bytes.load(Ordering::Relaxed) + self.transaction_bytes.load(Ordering::Relaxed);
        u64::try_from(lists).unwrap_or(0) + reclaim::deferred_bytes().saturating_sub(DEFERRED_FREE_BYTES)
    }

    /// Bytes retired and not freed yet, over all stores of the process. A long-running statement
    /// keeps the versions replaced meanwhile.
    #[must_use]
    pub fn deferred_bytes(&self) -> u64 {
        reclaim::deferred_bytes()
    }

    /// Bytes of versions that only old snapshots see.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        u64::try_from(self.held_bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Bytes of the garbage queue and of the write and lock lists of transactions.
    #[must_use]
    pub fn list_bytes(&self) -> u64 {
        let lists = self.garbage_bytes.load(Ordering::Relaxed) + self.transaction_bytes.load(Ordering::Relaxed);
        u64::try_from(lists).unwrap_or(0)
    }

    /// Frees retired memory, if there is much and no reader can have it. True if more can be freed
    /// at once.
    #[must_use]
    pub fn reclaim(&self) -> bool {
        let versions = reclaim::VERSIONS.catch_up_again();
        reclaim::NODES.catch_up_again() || versions
    }

    /// Reports the age of the oldest snapshot, for the error of a refused insert.
    pub fn note_oldest_snapshot(&self, seconds: u64) {
        self.oldest_seconds.store(seconds, Ordering::Relaxed);
    }

    /// Fails with 53200 if the memory limit is reached, counting `own` bytes not accounted for yet.
    pub(crate) fn check_memory(&self, own: i64) -> Result<()> {
        let max = self.memory_bytes_max.load(Ordering::Relaxed);
        let tables = self.memory_bytes.load(Ordering::Relaxed).saturating_add(own);
        let used = u64::try_from(tables).unwrap_or(0) + self.other_bytes();
        if used < max {
            return Ok(());
        }
        Err(self.refusal(used, max))
    }

    #[cold]
    fn refusal(&self, used: u64, max: u64) -> Error {
        let text = format!("rows tables hold {used} bytes, the limit is {max}");
        let (held, deferred) = (self.held_bytes(), reclaim::deferred_bytes());
        let error = Error::new(SqlState::OUT_OF_MEMORY, text);
        if held.max(deferred) < max / 8 {
            return error
                .with_detail("no row was inserted or updated; DELETE still works")
                .with_hint("delete rows that are not needed, or start the server with a larger --memory");
        }
        error
            .with_detail(format!(
                "No row was inserted or updated; DELETE still works. {held} of these bytes are old versions kept for open snapshots, {deferred} \
                 are kept by running statements. The oldest snapshot is {} s old.",
                self.oldest_seconds.load(Ordering::Relaxed)
            ))
            .with_hint(
                "end transactions, cursors and statements that have been open for long (idle_in_transaction_session_timeout and \
                 statement_timeout do so), or start the server with a larger --memory",
            )
    }

    pub(crate) fn note_wait(&self) {
        self.waits.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of lock waits so far.
    #[must_use]
    pub fn waits(&self) -> u64 {
        self.waits.load(Ordering::Relaxed)
    }

    /// Starts a transaction.
    #[must_use]
    pub fn begin(self: &Arc<Store>, isolation: Isolation) -> Txn {
        Txn::new(Arc::clone(self), isolation)
    }

    pub(crate) fn next_txn(&self) -> TxnId {
        TxnId(self.next_txn.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn discard(&self, lsn: Lsn, garbage: Vec<Garbage>) {
        if !garbage.is_empty() {
            self.garbage_count.fetch_add(garbage.len(), Ordering::Relaxed);
            self.garbage_bytes.fetch_add(garbage.iter().map(Garbage::memory_bytes).sum(), Ordering::Relaxed);
            self.garbage.lock().extend(garbage.into_iter().map(|one| (lsn, one)));
        }
    }

    /// Number of items of garbage.
    #[must_use]
    pub fn garbage(&self) -> usize {
        self.garbage_count.load(Ordering::Relaxed)
    }

    /// Schedules for removal, once no reader is older than commit `lsn`, whatever version `old` of
    /// a table does not share with its successor `next` (`None`: dropped).
    pub fn depart(&self, lsn: Lsn, old: &RowTable, next: Option<&RowTable>) {
        let is_shared = |index: &Arc<IndexData>| {
            next.is_some_and(|next| next.primary.iter().chain(&next.secondary).any(|other| Arc::ptr_eq(index, other)))
        };
        let indexes: Vec<_> =
            old.primary.iter().chain(&old.secondary).filter(|index| !is_shared(index)).map(Arc::clone).collect();
        let records = next.is_none_or(|next| !Arc::ptr_eq(&old.records, &next.records));
        let records = records.then(|| Arc::clone(&old.records));
        if records.is_some() || !indexes.is_empty() {
            self.garbage_count.fetch_add(1, Ordering::Relaxed);
            self.dropped_tables.lock().push_back(DroppedParts { lsn, records, next_record: 0, indexes, next_node: 0 });
        }
    }

    /// Bytes of obsolete tables and indexes that are not freed yet.
    #[must_use]
    pub fn departed_bytes(&self) -> u64 {
        self.dropped_tables.lock().iter().map(DroppedParts::memory_bytes).sum()
    }

    /// Frees about `most` items of tables and indexes obsolete since `oldest` or earlier; returns
    /// how many. Only one thread may do this at a time.
    fn clear_dropped(&self, oldest: Lsn, most: usize) -> usize {
        let mut cleared = 0;
        while cleared < most {
            let mut dropped_tables = self.dropped_tables.lock();
            let Some(first) = dropped_tables.front_mut().filter(|first| first.lsn <= oldest) else { break };
            let (count, done) = first.clear_some(ITEMS_PER_GUARD.min(most - cleared));
            cleared += count.max(1);
            let removed = done.then(|| dropped_tables.pop_front());
            drop(dropped_tables);
            if removed.is_some() {
                self.garbage_count.fetch_sub(1, Ordering::Relaxed);
            }
        }
        cleared.min(most)
    }

    /// Number of transactions that wait for a lock.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.locks.waiting()
    }

    /// Collects garbage: removes at most `most` items that no reader needs and returns the number
    /// of items examined. Of several concurrent callers one does the work, the others return 0.
    /// Items of locked records are retried in a later call.
    ///
    /// # Errors
    /// XX000 only.
    ///
    /// # Cost
    /// For each item a walk over its record's versions: at most one per snapshot, plus those since
    /// the last collection. An item that a snapshot keeps is examined again only after that
    /// snapshot has ended.
    pub fn collect(&self, readers: &Readers, most: usize) -> Result<usize> {
        let Some(mut held) = self.held.try_lock() else { return Ok(0) };
        self.held_bytes.fetch_sub(held.release(readers) as i64, Ordering::Relaxed);
        let readers = &readers.keeping(self.recent.kept_from());
        let me = self.next_txn();
        let cleared = self.clear_dropped(readers.oldest(), most);
        let (mut looked_at, mut locked, mut holders) = (0, Vec::new(), Vec::new());
        // A record with many changes is pruned once per call.
        let mut pruned: FxHashSet<(*const RowTable, RecordId)> = FxHashSet::default();
        let mut left = true;
        while left && looked_at < most {
            let guard = &crossbeam_epoch::pin();
            for _ in 0..ITEMS_PER_GUARD.min(most - looked_at) {
                let Some((lsn, garbage)) = self.next_garbage(&mut held, readers) else {
                    left = false;
                    break;
                };
                looked_at += 1;
                let bytes = garbage.memory_bytes();
                holders.clear();
                let is_pruned = match &garbage {
                    Garbage::Versions { table, record } => !pruned.insert((Arc::as_ptr(&table.0), *record)),
                    Garbage::Record { .. } | Garbage::Entry { .. } => false,
                };
                let thrown = match is_pruned {
                    true => Collected::Done,
                    false => self.collect_item(&garbage, me, readers, &mut holders, guard)?,
                };
                match thrown {
                    Collected::Locked => {
                        locked.push((lsn, garbage));
                        continue;
                    }
                    Collected::Held => self.hold(&mut held, garbage, &holders),
                    Collected::Done => {}
                }
                self.garbage_count.fetch_sub(1, Ordering::Relaxed);
                self.garbage_bytes.fetch_sub(bytes, Ordering::Relaxed);
            }
        }
        if !locked.is_empty() {
            self.garbage.lock().extend(locked);
        }
        drop(held);
        reclaim::catch_up();
        Ok(looked_at.max(cleared))
    }

    fn next_garbage(&self, held: &mut Held, readers: &Readers) -> Option<(Lsn, Garbage)> {
        if let Some(garbage) = held.released.pop() {
            return Some((Lsn::ZERO, garbage));
        }
        let mut garbage = self.garbage.lock();
        if garbage.front().is_none_or(|(lsn, _)| *lsn > readers.newest()) {
            return None;
        }
        garbage.pop_front()
    }

    /// Holds an item for each snapshot that still sees a version of its record.
    fn hold(&self, held: &mut Held, garbage: Garbage, holders: &[(Lsn, usize)]) {
        for (snapshot, bytes) in holders {
            #[expect(clippy::mutable_key_type, reason = "a table is compared and hashed by its address")]
            let held = held.by_snapshot.entry(*snapshot).or_default();
            if held.contains_key(&garbage) {
                continue;
            }
            // Count a version's bytes once, with the `Versions` item.
            let bytes = if matches!(garbage, Garbage::Versions { .. }) { *bytes } else { 0 };
            self.garbage_count.fetch_add(1, Ordering::Relaxed);
            self.garbage_bytes.fetch_add(garbage.memory_bytes(), Ordering::Relaxed);
            self.held_bytes.fetch_add(bytes as i64, Ordering::Relaxed);
            held.insert(garbage.clone(), bytes);
        }
    }

    /// Removes one item, unless readers need it; `holders` then gets the snapshots that see a
    /// version of its record, with the version's bytes.
    fn collect_item(
        &self,
        garbage: &Garbage,
        me: TxnId,
        readers: &Readers,
        holders: &mut Vec<(Lsn, usize)>,
        guard: &Guard,
    ) -> Result<Collected> {
        let (table, record) = match garbage {
            Garbage::Versions { table: TableByAddress(table), record } => {
                // Needs no lock: only the collector removes versions below the newest committed
                // one.
                let bytes = table.records.record(*record)?.prune(readers, holders, guard);
                table.records.add_bytes(-(bytes as i64));
                return Ok(if holders.is_empty() { Collected::Done } else { Collected::Held });
            }
            Garbage::Record { table, record, .. } | Garbage::Entry { table, record, .. } => (&table.0, *record),
        };
        let slot = table.records.record(record)?;
        let name = LockName::Record { table: table.id().0, record: record.0 };
        let request = self.locks.lock(me, name, Some(&slot.lock), LockMode::Update, WaitPolicy::Skip)?;
        if !matches!(request, Request::Held { .. }) {
            return Ok(Collected::Locked);
        }
        // Prune first: versions that no reader sees must not keep the item.
        table.records.add_bytes(-(slot.prune(readers, holders, guard) as i64));
        let done = match garbage {
            Garbage::Versions { .. } => Ok(Collected::Done),
            Garbage::Record { key, .. } => {
                Ok(remove_record(table, record, key, readers.newest(), holders.is_empty(), guard))
            }
            Garbage::Entry { index, key, .. } => remove_entry(table, *index, key, record, holders.is_empty(), guard),
        };
        self.locks.release(me, name, Some(&slot.lock));
        done
    }
}

/// Removes a record that is still deleted, unless snapshots see an older row of it. Its number is
/// reused once no reader can have it.
fn remove_record(
    table: &Arc<RowTable>,
    record: RecordId,
    key: &[u8],
    newest: Lsn,
    is_unseen: bool,
    guard: &Guard,
) -> Collected {
    let Some(slot) = table.records.arena.get(record.0) else { return Collected::Done };
    let is_gone = slot.newest(guard).is_some_and(|version| {
        version.row().is_none() && matches!(version.begin(), Begin::Committed(lsn) if lsn <= newest)
    });
    if !is_gone {
        return Collected::Done;
    }
    if !is_unseen {
        return Collected::Held;
    }
    if let Some(index) = &table.primary {
        index.tree.remove(key, guard);
    }
    table.records.add_bytes(-(slot.clear(guard) as i64));
    table.records.give_back(record, guard);
    Collected::Done
}

/// Removes an index entry, unless a version of its record has the key: the newest one, or one that
/// a snapshot sees.
fn remove_entry(
    table: &RowTable,
    index: usize,
    key: &[u8],
    record: RecordId,
    is_unseen: bool,
    guard: &Guard,
) -> Result<Collected> {
    let index = &table.secondary[index];
    let layout = table.records.newest_layout(&table.layout);
    if index.is_inverted() {
        return remove_inverted(table, (index, &layout), key, record, is_unseen, guard);
    }
    let mut found = Vec::new();
    let rows = table.records.record(record)?.versions(guard).map(Version::row).enumerate();
    for (at, row) in rows.filter_map(|(at, row)| Some((at, row?))) {
        found.clear();
        // Rows may have been written under a newer schema than the entry.
        index.key_of(&layout, row, &mut found)?;
        RowTable::entry_key(&mut found, record);
        if found == key {
            // The change that replaces the newest version queues the entry again; so does any
            // commit after those examined here.
            return Ok(if at == 0 || is_unseen { Collected::Done } else { Collected::Held });
        }
    }
    index.tree.remove(key, guard);
    Ok(Collected::Done)
}

/// Like [`remove_entry`], for some keys of an inverted index.
fn remove_inverted(
    table: &RowTable,
    (index, layout): (&IndexData, &RowLayout),
    keys: &[u8],
    record: RecordId,
    is_unseen: bool,
    guard: &Guard,
) -> Result<Collected> {
    let (mut left, mut found): (Vec<u64>, _) = (inverted::unpacked(keys).collect(), Vec::new());
    let mut is_held = false;
    let rows = table.records.record(record)?.versions(guard).map(Version::row).enumerate();
    for (at, row) in rows.filter_map(|(at, row)| Some((at, row?))) {
        index.inverted_keys(layout, row, &mut found)?;
        let before = left.len();
        left = inverted::without(&left, &found).collect();
        // The change that replaces the newest version queues its keys again.
        is_held |= at > 0 && left.len() < before;
        if left.is_empty() {
            break;
        }
    }
    for key in left {
        index.tree.remove(&inverted::entry(key, record), guard);
    }
    Ok(if is_held && !is_unseen { Collected::Held } else { Collected::Done })
}
