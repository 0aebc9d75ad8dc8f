//! What all `rows` tables of a database share: transactions, locks, and what is to be thrown away.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

use crossbeam_epoch::Guard;
use model::{Error, Lsn, Result, SqlState};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::locks::{LockMode, LockName, Locks, Request, TxnId, WaitPolicy};
use crate::readers::Readers;
use crate::reads::Recent;
use crate::reclaim;
use crate::record::{Begin, Version};
use crate::sync::Mutex;
use crate::table::{IndexData, RecordId, Records, RowTable};
use crate::txn::{Isolation, Txn};

/// Shared by all transactions.
pub struct Store {
    pub(crate) locks: Locks,
    /// What commits wrote, for serializable transactions.
    pub(crate) recent: Recent,
    next_txn: AtomicU64,
    /// By the commit that made it garbage, about in order.
    garbage: Mutex<VecDeque<(Lsn, Garbage)>>,
    /// What waits for single snapshots to end; held by the one who collects.
    held: Mutex<Held>,
    /// Tables that were dropped or begun anew, and indexes. A lock that no model checker sees: it decides nothing.
    departed: parking_lot::Mutex<VecDeque<Departed>>,
    /// How much is garbage, queued or held.
    garbage_count: AtomicUsize,
    /// Bytes of the queue and of what is held, without the versions.
    garbage_bytes: AtomicI64,
    /// Bytes of versions that only old snapshots see.
    held_bytes: AtomicI64,
    /// Bytes of all tables, about.
    memory_bytes: AtomicI64,
    /// Bytes of lists of transactions: what they changed and locked.
    transaction_bytes: AtomicI64,
    /// Above so many bytes nothing is added.
    memory_bytes_max: AtomicU64,
    /// Age of the oldest snapshot, in seconds, when somebody looked last.
    oldest_seconds: AtomicU64,
    /// Times a transaction had to wait for a lock.
    waits: AtomicU64,
}

/// So many bytes may be retired and not freed yet without being counted: what reclamation normally lags behind.
const DEFERRED_FREE_BYTES: u64 = 8 << 20;
/// One guard is held for so many things that are thrown away.
const ITEMS_PER_GUARD: usize = 256;

/// What nobody needs once all readers are at a commit or later.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Garbage {
    /// Older versions of a record.
    Versions { table: OfTable, record: RecordId },
    /// A record whose row was deleted, and its primary key.
    Record { table: OfTable, record: RecordId, key: Box<[u8]> },
    /// An entry of a secondary index.
    Entry { table: OfTable, index: usize, key: Box<[u8]>, record: RecordId },
}

/// A table, compared by its address.
#[derive(Clone)]
pub(crate) struct OfTable(pub(crate) Arc<RowTable>);

impl PartialEq for OfTable {
    fn eq(&self, other: &OfTable) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for OfTable {}

impl Hash for OfTable {
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

/// Garbage that only single snapshots keep, each thing once for each of them: a record that is changed a thousand times while a snapshot
/// lives is here once.
#[derive(Default)]
struct Held {
    /// By snapshot, with the bytes of the version that it keeps.
    by_snapshot: BTreeMap<Lsn, FxHashMap<Garbage, usize>>,
    /// Of snapshots that have ended, to be looked at again.
    released: Vec<Garbage>,
}

impl Held {
    /// Takes out what was kept for snapshots that have ended; gives the bytes of versions that are no longer kept by them.
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

/// What of a table is gone since a commit. It is taken apart some at a time, by whoever collects: a session that drops a table of a million
/// rows does not wait for that, and a prepared statement that still names the table does not keep its rows.
struct Departed {
    lsn: Lsn,
    records: Option<Arc<Records>>,
    /// The record to go on with.
    next_record: u64,
    indexes: Vec<Arc<IndexData>>,
    /// The node of the last index to go on with.
    next_node: u32,
}

impl Departed {
    /// Takes apart about so much; gives how much it was, and whether nothing is left.
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
        // A node is worth tens of entries.
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

/// What became of garbage.
enum Thrown {
    Done,
    /// The record is locked.
    Locked,
    /// Snapshots see it, and nobody to come.
    Held,
}

impl Default for Store {
    fn default() -> Store {
        Store::new()
    }
}

impl Store {
    /// With nothing in it.
    #[must_use]
    pub fn new() -> Store {
        Store {
            locks: Locks::new(),
            recent: Recent::default(),
            next_txn: AtomicU64::new(1),
            garbage: Mutex::default(),
            held: Mutex::default(),
            departed: parking_lot::Mutex::default(),
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

    /// Above so many bytes of all tables inserts and updates are refused; deletes are not.
    pub fn set_memory_limit(&self, bytes: u64) {
        self.memory_bytes_max.store(bytes, Ordering::Relaxed);
    }

    /// Corrects the count of bytes: indexes grow and garbage goes without being counted at once.
    pub fn set_memory_bytes(&self, bytes: u64) {
        self.memory_bytes.store(i64::try_from(bytes).unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    /// Bytes of all tables, about.
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

    /// Bytes besides tables: garbage that is queued, lists of transactions, and what was retired and is not freed yet.
    fn other_bytes(&self) -> u64 {
        let lists = self.garbage_bytes.load(Ordering::Relaxed) + self.transaction_bytes.load(Ordering::Relaxed);
        u64::try_from(lists).unwrap_or(0) + reclaim::deferred_bytes().saturating_sub(DEFERRED_FREE_BYTES)
    }

    /// Bytes that were retired and are not freed yet, because somebody may still look at them: a statement that runs for long keeps
    /// versions that were replaced meanwhile. Of all stores of the process.
    #[must_use]
    pub fn deferred_bytes(&self) -> u64 {
        reclaim::deferred_bytes()
    }

    /// Bytes of versions that only old snapshots see.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        u64::try_from(self.held_bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Bytes of lists: what transactions changed and locked, and what is garbage.
    #[must_use]
    pub fn list_bytes(&self) -> u64 {
        let lists = self.garbage_bytes.load(Ordering::Relaxed) + self.transaction_bytes.load(Ordering::Relaxed);
        u64::try_from(lists).unwrap_or(0)
    }

    /// Frees what was retired, if there is much and nobody can look at it any more. True if there is more to be freed at once.
    #[must_use]
    pub fn reclaim(&self) -> bool {
        let versions = reclaim::VERSIONS.catch_up_again();
        reclaim::NODES.catch_up_again() || versions
    }

    /// Notes how old the oldest snapshot is, for whoever is refused because of what it keeps.
    pub fn note_oldest_snapshot(&self, seconds: u64) {
        self.oldest_seconds.store(seconds, Ordering::Relaxed);
    }

    /// May something be added, `own` uncounted bytes besides?
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
                .with_detail("nothing was added; deleting goes on")
                .with_hint("delete rows that are not needed, or start the server with a larger --memory");
        }
        error
            .with_detail(format!(
                "Nothing was added; deleting goes on. Of these bytes {held} are old versions that only open snapshots see, and {deferred} \
                 wait for statements that are running. The oldest snapshot is {} s old.",
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

    /// How often a transaction had to wait for a lock so far.
    #[must_use]
    pub fn waits(&self) -> u64 {
        self.waits.load(Ordering::Relaxed)
    }

    /// Begins a transaction.
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

    /// How much waits to be thrown away.
    #[must_use]
    pub fn garbage(&self) -> usize {
        self.garbage_count.load(Ordering::Relaxed)
    }

    /// Since the commit `lsn` a version of a table is no longer in force, and what of it `next` does not share is to be taken apart when
    /// nobody reads at an older moment.
    pub fn depart(&self, lsn: Lsn, old: &RowTable, next: Option<&RowTable>) {
        let stays = |index: &Arc<IndexData>| {
            next.is_some_and(|next| next.primary.iter().chain(&next.secondary).any(|other| Arc::ptr_eq(index, other)))
        };
        let indexes: Vec<_> =
            old.primary.iter().chain(&old.secondary).filter(|index| !stays(index)).map(Arc::clone).collect();
        let records = next.is_none_or(|next| !Arc::ptr_eq(&old.records, &next.records));
        let records = records.then(|| Arc::clone(&old.records));
        if records.is_some() || !indexes.is_empty() {
            self.garbage_count.fetch_add(1, Ordering::Relaxed);
            self.departed.lock().push_back(Departed { lsn, records, next_record: 0, indexes, next_node: 0 });
        }
    }

    /// Bytes of tables and indexes that are gone and not taken apart yet.
    #[must_use]
    pub fn departed_bytes(&self) -> u64 {
        self.departed.lock().iter().map(Departed::memory_bytes).sum()
    }

    /// Takes apart about so much of what is gone since `oldest` or before; gives how much. Only one thread at a time takes versions off.
    fn clear_departed(&self, oldest: Lsn, most: usize) -> usize {
        let mut cleared = 0;
        while cleared < most {
            let mut departed = self.departed.lock();
            let Some(first) = departed.front_mut().filter(|first| first.lsn <= oldest) else { break };
            let (count, done) = first.clear_some(ITEMS_PER_GUARD.min(most - cleared));
            cleared += count.max(1);
            let gone = done.then(|| departed.pop_front());
            drop(departed);
            if gone.is_some() {
                self.garbage_count.fetch_sub(1, Ordering::Relaxed);
            }
        }
        cleared.min(most)
    }

    /// How many transactions wait for a lock.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.locks.waiting()
    }

    /// Throws away at most `most` things that none of the readers needs, and says how many it looked at. Of several callers one does it. What
    /// is locked just now is left for later.
    ///
    /// # Errors
    /// XX000 only.
    ///
    /// # Cost
    /// For each thing a walk through its record's versions, which are at most one for each snapshot and those since the last collection.
    /// A thing that a snapshot keeps is looked at again when that snapshot has ended, and not before.
    pub fn collect(&self, readers: &Readers, most: usize) -> Result<usize> {
        let Some(mut held) = self.held.try_lock() else { return Ok(0) };
        self.held_bytes.fetch_sub(held.release(readers) as i64, Ordering::Relaxed);
        let readers = &readers.keeping(self.recent.kept_from());
        let me = self.next_txn();
        let cleared = self.clear_departed(readers.oldest(), most);
        let (mut looked_at, mut locked, mut holders) = (0, Vec::new(), Vec::new());
        // A record that was changed often is gone through once.
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
                    true => Thrown::Done,
                    false => self.throw_away(&garbage, me, readers, &mut holders, guard)?,
                };
                match thrown {
                    Thrown::Locked => {
                        locked.push((lsn, garbage));
                        continue;
                    }
                    Thrown::Held => self.hold(&mut held, garbage, &holders),
                    Thrown::Done => {}
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

    /// Keeps something until each of the snapshots has ended that see what it is about.
    fn hold(&self, held: &mut Held, garbage: Garbage, holders: &[(Lsn, usize)]) {
        for (snapshot, bytes) in holders {
            let held = held.by_snapshot.entry(*snapshot).or_default();
            if held.contains_key(&garbage) {
                continue;
            }
            // Bytes of a version are counted once, with the thing that says no more than that.
            let bytes = if matches!(garbage, Garbage::Versions { .. }) { *bytes } else { 0 };
            self.garbage_count.fetch_add(1, Ordering::Relaxed);
            self.garbage_bytes.fetch_add(garbage.memory_bytes(), Ordering::Relaxed);
            self.held_bytes.fetch_add(bytes as i64, Ordering::Relaxed);
            held.insert(garbage.clone(), bytes);
        }
    }

    /// Throws something away, unless somebody needs it: then `holders` are the snapshots that see a version of its record, and its bytes.
    fn throw_away(
        &self,
        garbage: &Garbage,
        me: TxnId,
        readers: &Readers,
        holders: &mut Vec<(Lsn, usize)>,
        guard: &Guard,
    ) -> Result<Thrown> {
        let (table, record) = match garbage {
            Garbage::Versions { table: OfTable(table), record } => {
                // Needs no lock: only this takes out what is below the newest committed version.
                let bytes = table.records.record(*record)?.prune(readers, holders, guard);
                table.records.add_bytes(-(bytes as i64));
                return Ok(if holders.is_empty() { Thrown::Done } else { Thrown::Held });
            }
            Garbage::Record { table, record, .. } | Garbage::Entry { table, record, .. } => (&table.0, *record),
        };
        let slot = table.records.record(record)?;
        let name = LockName::Record { table: table.id().0, record: record.0 };
        let request = self.locks.lock(me, name, Some(&slot.lock), LockMode::Update, WaitPolicy::Skip)?;
        if !matches!(request, Request::Held { .. }) {
            return Ok(Thrown::Locked);
        }
        // Versions that nobody sees do not keep an entry.
        table.records.add_bytes(-(slot.prune(readers, holders, guard) as i64));
        let done = match garbage {
            Garbage::Versions { .. } => Ok(Thrown::Done),
            Garbage::Record { key, .. } => {
                Ok(remove_record(table, record, key, readers.newest(), holders.is_empty(), guard))
            }
            Garbage::Entry { index, key, .. } => remove_entry(table, *index, key, record, holders.is_empty(), guard),
        };
        self.locks.release(me, name, Some(&slot.lock));
        done
    }
}

/// Removes a record that is still deleted, unless snapshots see an older row of it; its number may be used again when nobody can have it
/// any more.
fn remove_record(
    table: &Arc<RowTable>,
    record: RecordId,
    key: &[u8],
    newest: Lsn,
    is_unseen: bool,
    guard: &Guard,
) -> Thrown {
    let Some(slot) = table.records.arena.get(record.0) else { return Thrown::Done };
    let is_gone = slot.newest(guard).is_some_and(|version| {
        version.row().is_none() && matches!(version.begin(), Begin::Committed(lsn) if lsn <= newest)
    });
    if !is_gone {
        return Thrown::Done;
    }
    if !is_unseen {
        return Thrown::Held;
    }
    if let Some(index) = &table.primary {
        index.tree.remove(key, guard);
    }
    table.records.add_bytes(-(slot.clear(guard) as i64));
    table.records.give_back(record, guard);
    Thrown::Done
}

/// Removes an entry unless a version of its record has the key again, or still for the snapshots that see it.
fn remove_entry(
    table: &RowTable,
    index: usize,
    key: &[u8],
    record: RecordId,
    is_unseen: bool,
    guard: &Guard,
) -> Result<Thrown> {
    let index = &table.secondary[index];
    let layout = table.records.newest_layout(&table.layout);
    let mut found = Vec::new();
    let rows = table.records.record(record)?.versions(guard).map(Version::row).enumerate();
    for (at, row) in rows.filter_map(|(at, row)| Some((at, row?))) {
        found.clear();
        // Rows may be longer by now than when the entry became garbage.
        index.key_of(&layout, row, &mut found)?;
        RowTable::entry_key(&mut found, record);
        if found == key {
            // Whatever replaces the newest version leaves word of the entry again; so do later commits than those looked at here.
            return Ok(if at == 0 || is_unseen { Thrown::Done } else { Thrown::Held });
        }
    }
    index.tree.remove(key, guard);
    Ok(Thrown::Done)
}
