//! What all `rows` tables of a database share: transactions, locks, and what is to be thrown away.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crossbeam_epoch::Guard;
use model::{Error, Lsn, Result, SqlState};

use crate::locks::{LockMode, LockName, Locks, Request, TxnId, WaitPolicy};
use crate::reads::Recent;
use crate::record::{Begin, Version};
use crate::sync::Mutex;
use crate::table::{RecordId, RowTable};
use crate::txn::{Isolation, Txn};

/// Shared by all transactions.
pub struct Store {
    pub(crate) locks: Locks,
    /// What commits wrote, for serializable transactions.
    pub(crate) recent: Recent,
    next_txn: AtomicU64,
    /// By the commit that made it garbage, about in order.
    garbage: Mutex<VecDeque<(Lsn, Garbage)>>,
    /// Held by the one who collects.
    collecting: Mutex<()>,
    /// Bytes of all tables, about.
    memory_bytes: AtomicI64,
    /// Above so many bytes nothing is added.
    memory_bytes_max: AtomicU64,
    /// Times a transaction had to wait for a lock.
    waits: AtomicU64,
}

/// What nobody needs once all readers are at a commit or later.
pub(crate) enum Garbage {
    /// Older versions of a record.
    Versions { table: Arc<RowTable>, record: RecordId },
    /// A record whose row was deleted, and its primary key.
    Record { table: Arc<RowTable>, record: RecordId, key: Box<[u8]> },
    /// An entry of a secondary index.
    Entry { table: Arc<RowTable>, index: usize, key: Box<[u8]>, record: RecordId },
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
            collecting: Mutex::default(),
            memory_bytes: AtomicI64::new(0),
            memory_bytes_max: AtomicU64::new(u64::MAX),
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

    /// May something be added, `own` uncounted bytes besides?
    pub(crate) fn check_memory(&self, own: i64) -> Result<()> {
        let max = self.memory_bytes_max.load(Ordering::Relaxed);
        let used = self.memory_bytes.load(Ordering::Relaxed).saturating_add(own);
        if u64::try_from(used).unwrap_or(0) < max {
            return Ok(());
        }
        let text = format!("rows tables hold {used} bytes, the limit is {max}");
        Err(Error::new(SqlState::OUT_OF_MEMORY, text)
            .with_detail("nothing was added; deleting goes on")
            .with_hint("delete rows that are not needed, or start the server with a larger --memory"))
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
            self.garbage.lock().extend(garbage.into_iter().map(|one| (lsn, one)));
        }
    }

    /// How much waits to be thrown away.
    #[must_use]
    pub fn garbage(&self) -> usize {
        self.garbage.lock().len()
    }

    /// How many transactions wait for a lock.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.locks.waiting()
    }

    /// Throws away at most `most` things that no reader at `horizon` or later needs, and says how many it looked at. Of several callers one
    /// does it. What is locked just now is left for later.
    ///
    /// # Errors
    /// XX000 only.
    pub fn collect(&self, horizon: Lsn, most: usize) -> Result<usize> {
        let Some(_one) = self.collecting.try_lock() else { return Ok(0) };
        let guard = &crossbeam_epoch::pin();
        let me = self.next_txn();
        let mut looked_at = 0;
        while looked_at < most {
            let next = {
                let mut garbage = self.garbage.lock();
                if garbage.front().is_none_or(|(lsn, _)| *lsn > horizon) {
                    break;
                }
                garbage.pop_front()
            };
            let Some((lsn, garbage)) = next else { break };
            looked_at += 1;
            if !self.throw_away(&garbage, me, horizon, guard)? {
                self.garbage.lock().push_back((lsn, garbage));
            }
        }
        Ok(looked_at)
    }

    /// False if the record is locked.
    fn throw_away(&self, garbage: &Garbage, me: TxnId, horizon: Lsn, guard: &Guard) -> Result<bool> {
        let (table, record) = match garbage {
            Garbage::Versions { table, record } => {
                // Needs no lock: only this cuts, and only below what is committed.
                let bytes = table.records.record(*record)?.prune(horizon, guard);
                table.records.add_bytes(-(bytes as i64));
                return Ok(true);
            }
            Garbage::Record { table, record, .. } | Garbage::Entry { table, record, .. } => (table, *record),
        };
        let slot = table.records.record(record)?;
        let name = LockName::Record { table: table.id().0, record: record.0 };
        let request = self.locks.lock(me, name, Some(&slot.lock), LockMode::Update, WaitPolicy::Skip)?;
        if !matches!(request, Request::Held { .. }) {
            return Ok(false);
        }
        let done = match garbage {
            Garbage::Versions { .. } => Ok(()),
            Garbage::Record { key, .. } => {
                remove_record(table, record, key, horizon, guard);
                Ok(())
            }
            Garbage::Entry { index, key, .. } => {
                // Versions that nobody sees do not keep an entry.
                table.records.add_bytes(-(slot.prune(horizon, guard) as i64));
                remove_entry(table, *index, key, record, guard)
            }
        };
        self.locks.release(me, name, Some(&slot.lock));
        done.map(|()| true)
    }
}

/// Removes a record that is still deleted; its number may be used again when nobody can have it any more.
fn remove_record(table: &Arc<RowTable>, record: RecordId, key: &[u8], horizon: Lsn, guard: &Guard) {
    let Some(slot) = table.records.arena.get(record.0) else { return };
    let is_gone = slot.newest(guard).is_some_and(|newest| {
        newest.row().is_none() && matches!(newest.begin(), Begin::Committed(lsn) if lsn <= horizon)
    });
    if !is_gone {
        return;
    }
    if let Some(index) = &table.primary {
        index.tree.remove(key, guard);
    }
    table.records.add_bytes(-(slot.clear(guard) as i64));
    let records = Arc::clone(&table.records);
    guard.defer(move || records.arena.give_back(record.0));
}

/// Removes an entry unless a version of its record has the key again.
fn remove_entry(table: &RowTable, index: usize, key: &[u8], record: RecordId, guard: &Guard) -> Result<()> {
    let index = &table.secondary[index];
    let layout = table.records.newest_layout(&table.layout);
    let mut found = Vec::new();
    for row in table.records.record(record)?.versions(guard).filter_map(Version::row) {
        found.clear();
        // Rows may be longer by now than when the entry became garbage.
        index.key_of(&layout, row, &mut found)?;
        RowTable::entry_key(&mut found, record);
        if found == key {
            return Ok(());
        }
    }
    index.tree.remove(key, guard);
    Ok(())
}
