//! A transaction on `rows` tables: visibility, locking, writes. It does not know the log: the
//! committer asks for its changes, logs them, and passes the LSN to [`Txn::commit`].
//!
//! Always true:
//! - Only the holder of a record's lock in mode `NoKeyUpdate` or `Update` changes the record.
//! - No call blocks. A call that must wait returns an event and changes nothing that
//!   [`Txn::undo_to`] does not revert: the statement is undone, waits, and runs again with the
//!   locks acquired so far.
//! - Undo runs in reverse order, so every version removed is on top of its chain.
//! - A SERIALIZABLE transaction notes everything it learns in its read set (see `read_set`): what
//!   it sees by its snapshot, and what foreign keys and unique indexes tell it about newer state,
//!   unless a lock protects that state until the transaction ends.

mod constraints;
mod deferrable_keys;
mod hidden;
mod keys;
#[cfg(test)]
mod tests;
mod visibility;

use std::hash::BuildHasher;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crossbeam_epoch::Guard;
use env::Event;
use model::{Error, Lsn, Result, SqlState, TableId};

use self::hidden::Hidden;
use crate::inverted;
use crate::locks::{LockMode, LockName, Request, TxnId, WaitPolicy};
use crate::read_set::ReadSet;
use crate::reclaim;
use crate::record::{Begin, Version, stamp_of};
use crate::store::{Garbage, Store, TableByAddress};
use crate::table::{Gate, IndexData, Keys, RECORDS_MAX, RecordId, RowTable};

pub use constraints::{ConstraintModes, RowChange};
pub use deferrable_keys::KeysChecked;
pub use visibility::View;

/// Bytes a transaction may add before it updates the store's counter.
const UNCOUNTED_BYTES_MAX: i64 = 64 << 10;
/// About what an entry of an inverted index takes, until the indexes are measured again.
const INVERTED_ENTRY_BYTES: i64 = 32;
/// Writes undone under one epoch guard when a transaction ends.
const WRITES_PER_GUARD: usize = 1_024;

/// Isolation level: which commits statements see, and what is validated at commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isolation {
    /// A new snapshot per statement; a row changed since is rechecked (READ COMMITTED).
    #[default]
    ReadCommitted,
    /// One snapshot per transaction; a row changed since is an error (40001).
    RepeatableRead,
    /// Like `RepeatableRead`; the commit fails with 40001 if a read would return something else by
    /// then.
    Serializable,
}

/// One transaction. Dropping it rolls it back.
pub struct Txn {
    store: Arc<Store>,
    id: TxnId,
    isolation: Isolation,
    snapshot: Lsn,
    /// Tables with writes or row locks of this transaction, each once.
    tables: Tables,
    writes: Vec<Write>,
    /// Number of the first writes whose deferrable keys are known to be unique, and locked.
    checked: usize,
    locks: Vec<Held>,
    /// Table locks, held until the end.
    entered: Vec<Entry>,
    /// Versions of tables that this transaction made, not in force before its commit, oldest first;
    /// `None` for a dropped table.
    versions: Vec<(TableId, Option<Arc<RowTable>>)>,
    /// The lock that the transaction waits for; also in `locks` or `entered`.
    pending: Option<Pending>,
    /// Bytes added that the store's counter does not include yet.
    uncounted_bytes: i64,
    /// Bytes of all uncommitted versions.
    version_bytes: i64,
    /// Bytes of `writes` and `locks`; the part that the store's counter includes.
    list_bytes: i64,
    counted_list_bytes: i64,
    /// Whether [`Txn::prepare`] ran; `garbage` is complete then.
    prepared: bool,
    garbage: Vec<Garbage>,
    /// Newest commit of which the transaction saw a row. It must be durable before results are
    /// returned to the client.
    newest_seen: Lsn,
    /// Read set of a serializable transaction.
    reads: Option<Box<ReadSet>>,
    /// Which constraints are checked at the end.
    constraints: ConstraintModes,
    /// Tables with changed rows whose check was left to the end. An undone change leaves its table here.
    postponed: Vec<TableId>,
    /// Writes of the running statement that it does not see.
    hidden: Option<Box<Hidden>>,
    /// Buffer for a lookup key.
    key: Vec<u8>,
    /// Buffer for the index keys of a removed row.
    before: Keys,
    /// Buffer for the index keys of an added row.
    after: Keys,
}

/// Tables used by a transaction. Writes and locks refer to them by number, which avoids reference
/// counting.
#[derive(Default)]
struct Tables(Vec<Arc<RowTable>>);

impl Tables {
    /// Returns the number of a table, adding it if needed; each version of a table has its own
    /// number.
    fn number(&mut self, table: &Arc<RowTable>) -> u32 {
        // The last table is the most likely one.
        let known = self.0.iter().rposition(|known| Arc::ptr_eq(known, table));
        let at = known.unwrap_or_else(|| {
            self.0.push(Arc::clone(table));
            self.0.len() - 1
        });
        at as u32
    }

    fn get(&self, number: u32) -> &Arc<RowTable> {
        &self.0[number as usize]
    }
}

/// One change of one record.
struct Write {
    /// Number in [`Tables`].
    table: u32,
    record: RecordId,
    /// Whether this is the transaction's first change of the record.
    first: bool,
    /// Change of the table's row count by the commit.
    rows: i8,
    /// Whether the record was created for this write, with an entry in the primary index.
    created: bool,
    /// Whether it gave the record a deferrable key, which must be checked before the commit.
    unchecked: bool,
    /// Bit mask of secondary indexes that got an entry for this write.
    added: u64,
    /// Index entries that are garbage after the commit: position of the secondary index, and the
    /// whole key, or the keys of an inverted index.
    stale: Vec<(usize, Box<[u8]>)>,
}

/// A lock, or a stronger mode of one that is held already, held or waited for; `table` is the number
/// of a record lock's table.
struct Held {
    name: LockName,
    table: Option<u32>,
    /// Mode held before, to which ROLLBACK TO a savepoint before this entry lowers the lock; if
    /// `None`, it releases the lock. Each lock has one such entry, before its others.
    before: Option<LockMode>,
    /// Whether it is held; false while it is waited for.
    granted: bool,
}

/// The lock for which a statement was interrupted.
struct Pending {
    name: LockName,
    mode: LockMode,
    granted: Event,
}

/// A table lock.
struct Entry {
    table: TableId,
    gate: Arc<Gate>,
    /// Mode held; `None` while the lock is waited for.
    mode: Option<LockMode>,
}

/// Mode of a table lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// For writing rows and locking them; compatible with itself.
    Shared,
    /// Exclusive, for DDL. Readers are not blocked.
    Alone,
}

/// Result of a request for a table lock.
#[derive(Debug)]
pub enum Entered {
    /// The lock is held, and the version asked for is in force.
    In,
    /// The lock is held, but another version is in force or the table is gone: look it up again in
    /// the newest snapshot.
    Changed,
    /// Undo the statement, wait for the event, and retry.
    Wait(Event),
}

/// A point in a transaction to roll back to; the default is its start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Savepoint {
    writes: usize,
    /// Value of [`Txn::checked`]. Later checks may depend on changes and locks that a rollback takes back.
    checked: usize,
    locks: usize,
    versions: usize,
}

impl Savepoint {
    /// The start of the transaction.
    pub const START: Savepoint = Savepoint { writes: 0, checked: 0, locks: 0, versions: 0 };
}

/// Result of locking a row.
#[derive(Debug)]
pub enum Locked<'g> {
    /// The lock is held. This is the newest version of the row; if `changed`, it is not the
    /// snapshot's, and conditions must be evaluated again.
    Row {
        /// The row's bytes.
        row: &'g [u8],
        /// Whether the row was changed after the snapshot.
        changed: bool,
    },
    /// The row was deleted meanwhile.
    Gone,
    /// A conflict under `SKIP LOCKED`.
    Skipped,
    /// Undo the statement, wait for the event, and run it again.
    Wait(Event),
}

/// Result of an insert or update.
#[derive(Debug)]
pub enum Put {
    /// Done; the row is in this record.
    Done(RecordId),
    /// A unique index has the key already.
    Duplicate {
        /// Position among the secondary indexes; `None` for the primary key.
        index: Option<usize>,
        /// The record with that key.
        record: RecordId,
    },
    /// Undo the statement, wait for the event, and run it again.
    Wait(Event),
}

/// Result of claiming a key of a secondary unique index.
enum Claim {
    Free,
    Taken(RecordId),
    Wait(Event),
}

/// Target record for a row with a primary key.
enum Place {
    /// A new record, already in the primary index.
    Created(RecordId),
    /// An existing record whose row was deleted.
    Deleted(RecordId),
    Taken(RecordId),
    Wait(Event),
}

impl Txn {
    pub(crate) fn new(store: Arc<Store>, isolation: Isolation) -> Txn {
        let id = store.next_txn();
        Txn {
            store,
            id,
            isolation,
            snapshot: Lsn::ZERO,
            tables: Tables::default(),
            writes: Vec::new(),
            checked: 0,
            locks: Vec::new(),
            entered: Vec::new(),
            versions: Vec::new(),
            pending: None,
            uncounted_bytes: 0,
            version_bytes: 0,
            list_bytes: 0,
            counted_list_bytes: 0,
            prepared: false,
            garbage: Vec::new(),
            newest_seen: Lsn::ZERO,
            reads: (isolation == Isolation::Serializable).then(Box::default),
            constraints: ConstraintModes::default(),
            postponed: Vec::new(),
            hidden: None,
            key: Vec::new(),
            before: Keys::default(),
            after: Keys::default(),
        }
    }

    /// Sets the snapshot for the next statement.
    ///
    /// A serializable transaction uses one snapshot. In its first call no commit may happen between
    /// taking the snapshot and the return: the caller holds the commit lock. All later commits are
    /// recorded for validation.
    pub fn set_snapshot(&mut self, snapshot: Lsn) {
        self.snapshot = snapshot;
        if let Some(reads) = &mut self.reads {
            reads.begin(&self.store.recent, self.id, snapshot);
        }
    }

    /// The current statement's snapshot.
    #[must_use]
    pub fn snapshot(&self) -> Lsn {
        self.snapshot
    }

    /// The newest commit of which the transaction saw a row so far.
    #[must_use]
    pub fn newest_seen(&self) -> Lsn {
        self.newest_seen
    }

    /// The isolation level.
    #[must_use]
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Notes that the transaction saw an effect of a commit outside its rows: a table's schema, a
    /// sequence's value.
    pub fn note_commit_seen(&mut self, lsn: Lsn) {
        self.newest_seen = self.newest_seen.max(lsn);
    }

    pub(crate) fn id(&self) -> TxnId {
        self.id
    }

    /// Number of the transaction as SQL shows it: the stamp of the versions that it makes ([`RowTable::stamp`]).
    #[must_use]
    pub fn number(&self) -> u32 {
        stamp_of(self.id)
    }

    /// Whether the transaction has no writes so far.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Locks a row that the snapshot shows, and returns its newest version.
    ///
    /// # Errors
    /// 40001 under REPEATABLE READ and above if it was changed after the snapshot; 40P01; 55P03
    /// under `NOWAIT`.
    pub fn lock_row<'g>(
        &mut self,
        table: &'g Arc<RowTable>,
        record: RecordId,
        mode: LockMode,
        policy: WaitPolicy,
        guard: &'g Guard,
    ) -> Result<Locked<'g>> {
        if let Some(event) = self.lock_table_shared(table)? {
            return Ok(Locked::Wait(event));
        }
        match self.lock(table, record, mode, policy)? {
            Request::Held { .. } => {}
            Request::Wait { event, .. } => return Ok(Locked::Wait(event)),
            Request::Skipped => return Ok(Locked::Skipped),
        }
        let slot = table.records.record(record)?;
        let Some(current) = slot.current(self.id, guard) else { return Ok(Locked::Gone) };
        // Only the newest version matters: a hot row may have many older ones.
        let changed = matches!(current.begin(), Begin::Committed(lsn) if lsn > self.snapshot);
        if changed && self.isolation >= Isolation::RepeatableRead {
            let what = if current.row().is_some() { "update" } else { "delete" };
            return Err(Error::new(
                SqlState::SERIALIZATION_FAILURE,
                format!("could not serialize access due to concurrent {what}"),
            )
            .with_hint("run the transaction again"));
        }
        self.note_seen(current);
        Ok(current.row().map_or(Locked::Gone, |row| Locked::Row { row, changed }))
    }

    /// Returns the newest row of a record regardless of the snapshot: the transaction's own, or the
    /// newest committed one. Not noted in the read set: the caller has the record or its table
    /// locked, or notes its scan.
    ///
    /// # Errors
    /// XX000 (a bug) for a record that does not exist.
    pub fn newest<'g>(&self, table: &'g RowTable, record: RecordId, guard: &'g Guard) -> Result<Option<&'g [u8]>> {
        Ok(table.records.record(record)?.current(self.id, guard).and_then(Version::row))
    }

    fn lock(&mut self, table: &Arc<RowTable>, record: RecordId, mode: LockMode, policy: WaitPolicy) -> Result<Request> {
        let name = LockName::Record { table: table.id().0, record: record.0 };
        let word = &table.records.record(record)?.lock;
        let waited = self.cancel_wait_except(name);
        let (is_pending, locked) = (waited.is_some(), self.store.locks.lock(self.id, name, Some(word), mode, policy));
        self.keep_wait(waited, &locked);
        let request = locked.map_err(|error| match error.state() {
            SqlState::LOCK_NOT_AVAILABLE => {
                let text = format!("could not obtain lock on row in relation \"{}\"", table.schema.name.table);
                Error::new(SqlState::LOCK_NOT_AVAILABLE, text)
            }
            _ => error,
        })?;
        self.track_lock(name, mode, Some(table), &request, is_pending);
        Ok(request)
    }

    fn lock_key(&mut self, index: &IndexData, key: &[u8], policy: WaitPolicy) -> Result<Request> {
        let name = LockName::Key { index: index.def.id, hash: rustc_hash::FxBuildHasher.hash_one(key) };
        let waited = self.cancel_wait_except(name);
        let is_pending = waited.is_some();
        let locked = self.store.locks.lock(self.id, name, None, LockMode::Update, policy);
        self.keep_wait(waited, &locked);
        let request = locked?;
        self.track_lock(name, LockMode::Update, None, &request, is_pending);
        Ok(request)
    }

    /// A refused request leaves the wait for the same lock as it was: it must be cancelled before the transaction
    /// waits for another lock.
    fn keep_wait(&mut self, waited: Option<Pending>, locked: &Result<Request>) {
        if !matches!(locked, Ok(Request::Held { .. } | Request::Wait { .. })) {
            self.pending = waited;
        }
    }

    /// Stops waiting for the pending lock, unless it is `name`: the statement was cancelled, or
    /// after its restart asks for another lock first. If the pending lock was granted meanwhile it
    /// is kept: two transactions that each released it again would livelock. Returns the pending
    /// lock if it is `name`.
    fn cancel_wait_except(&mut self, name: LockName) -> Option<Pending> {
        let same = self.pending.take_if(|pending| pending.name == name);
        if same.is_some() {
            return same;
        }
        let Pending { name: pending, mode, granted } = self.pending.take()?;
        let held = self.locks.iter().rposition(|held| held.name == pending && !held.granted);
        let entry = self.entered.iter().position(|entry| entry.name() == pending && entry.mode < Some(mode));
        match (held, entry) {
            (Some(at), _) if granted.is_set() => self.locks[at].granted = true,
            (_, Some(at)) if granted.is_set() => self.entered[at].mode = Some(mode),
            // The mode held so far is kept: it protects changes already made.
            (Some(at), _) => {
                let held = self.locks.remove(at);
                self.release(&held);
            }
            (_, Some(at)) => match self.entered[at].mode {
                Some(mode) => self.store.locks.lower(self.id, pending, Some(&self.entered[at].gate.lock), mode),
                None => {
                    let entry = self.entered.remove(at);
                    self.store.locks.release(self.id, pending, Some(&entry.gate.lock));
                }
            },
            (None, None) => {}
        }
        None
    }

    /// Locks a table until the end of the transaction. Writes and row locks do this implicitly, but
    /// there a changed table is an error; a caller that locks first gets [`Entered::Changed`].
    ///
    /// # Errors
    /// 40P01.
    pub fn enter(&mut self, table: &RowTable, access: Access) -> Result<Entered> {
        let mode = match access {
            Access::Shared => LockMode::KeyShare,
            Access::Alone => LockMode::Update,
        };
        let gate = &table.records.gate;
        let mut at = self.entered.iter().position(|entry| entry.table == table.id());
        if at.and_then(|at| self.entered[at].mode) < Some(mode) {
            let name = LockName::Table { table: table.id().0 };
            let waited = self.cancel_wait_except(name);
            let locked = self.store.locks.lock(self.id, name, Some(&gate.lock), mode, WaitPolicy::Wait);
            self.keep_wait(waited, &locked);
            let request = locked?;
            let entry = Entry { table: table.id(), gate: Arc::clone(gate), mode: None };
            let entry_at = at.unwrap_or(self.entered.len());
            if at.is_none() {
                self.entered.push(entry);
                at = Some(entry_at);
            }
            match request {
                Request::Held { .. } => self.entered[entry_at].mode = Some(mode),
                Request::Wait { event, .. } => {
                    self.store.note_wait();
                    self.pending = Some(Pending { name, mode, granted: event.clone() });
                    return Ok(Entered::Wait(event));
                }
                Request::Skipped => return Err(Error::bug("a table lock was skipped without SKIP LOCKED")),
            }
        }
        let alone = at.and_then(|at| self.entered[at].mode) == Some(LockMode::Update);
        let in_force = gate.version.load(Ordering::Acquire);
        // A version made by this transaction is not in force yet.
        let own = || alone && self.versions.iter().any(|(id, _)| *id == table.id());
        if in_force == 0 || in_force == table.schema.version || own() {
            return Ok(Entered::In);
        }
        Ok(Entered::Changed)
    }

    /// Locks a table for writing; returns the event to wait for, if any.
    fn lock_table_shared(&mut self, table: &RowTable) -> Result<Option<Event>> {
        match self.enter(table, Access::Shared)? {
            Entered::In => Ok(None),
            Entered::Wait(event) => Ok(Some(event)),
            Entered::Changed => Err(Error::new(
                SqlState::SERIALIZATION_FAILURE,
                format!("relation {} was changed or dropped by another transaction", table.schema.name),
            )
            .with_hint("run the transaction again")),
        }
    }

    /// Checks that there is memory for more bytes.
    ///
    /// # Errors
    /// 53200 at the memory limit.
    pub(crate) fn check_memory(&self, bytes: i64) -> Result<()> {
        self.store.check_memory(self.uncounted_bytes.saturating_add(bytes))
    }

    /// Records a version of a table that this transaction made and that its commit puts in force;
    /// `None` for a dropped table. The transaction must hold the table lock exclusively or have
    /// created the table.
    pub fn set_version(&mut self, table: TableId, version: Option<Arc<RowTable>>) {
        self.versions.push((table, version));
    }

    /// The version of a table that the commit puts in force; `None` if the commit discards the
    /// table's records.
    fn final_version<'a>(&'a self, table: &'a Arc<RowTable>) -> Option<&'a Arc<RowTable>> {
        match self.versions.iter().rev().find(|(id, _)| *id == table.id()) {
            None => Some(table),
            Some((_, version)) => version.as_ref().filter(|version| Arc::ptr_eq(&version.records, &table.records)),
        }
    }

    /// Releases a lock, or lowers it to the mode held before.
    fn release(&self, held: &Held) {
        let slot = match (held.name, held.table) {
            (LockName::Record { record, .. }, Some(table)) => self.tables.get(table).records.arena.get(record),
            _ => None,
        };
        let word = slot.map(|slot| &slot.lock);
        match held.before {
            None => self.store.locks.release(self.id, held.name, word),
            Some(mode) => self.store.locks.lower(self.id, held.name, word, mode),
        }
    }

    fn track_lock(
        &mut self,
        name: LockName,
        mode: LockMode,
        table: Option<&Arc<RowTable>>,
        request: &Request,
        waited: bool,
    ) {
        let (before, granted) = match request {
            Request::Held { before } => (*before, true),
            Request::Wait { event, before } => {
                self.store.note_wait();
                self.pending = Some(Pending { name, mode, granted: event.clone() });
                (*before, false)
            }
            Request::Skipped => return,
        };
        if waited && let Some(held) = self.locks.iter_mut().rev().find(|held| held.name == name && !held.granted) {
            // If the mode held is another one than at the start of the wait, the wait is over.
            let is_repeated = held.before == before;
            held.granted = granted || !is_repeated;
            if is_repeated {
                return;
            }
        }
        if before < Some(mode) {
            let table = table.map(|table| self.tables.number(table));
            self.locks.push(Held { name, table, before, granted });
            self.count_list_bytes(size_of::<Held>());
        }
    }

    /// Inserts a row. If several unique keys exist already, the result names the primary key, or
    /// else the first index in order.
    ///
    /// # Errors
    /// 40P01; 54000 if a key is too long or the table is full; 53200 at the memory limit; 40001 if
    /// the table was changed or dropped.
    pub fn insert(&mut self, table: &Arc<RowTable>, row: Box<[u8]>, guard: &Guard) -> Result<Put> {
        if let Some(event) = self.lock_table_shared(table)? {
            return Ok(Put::Wait(event));
        }
        self.check_memory(row.len() as i64)?;
        let mut keys = std::mem::take(&mut self.after);
        let put =
            keys.make(table, table.secondaries(), &row).and_then(|()| self.insert_with(table, row, &mut keys, guard));
        self.after = keys;
        put
    }

    /// The row that an insert of `row` would meet in one unique secondary index, or what it must wait for there: ON
    /// CONFLICT asks it of its index when another one refused the row first.
    ///
    /// # Errors
    /// As [`Txn::insert`].
    pub fn duplicate_in(
        &mut self,
        table: &Arc<RowTable>,
        index: usize,
        row: &[u8],
        guard: &Guard,
    ) -> Result<Option<Put>> {
        let which = 1 << index;
        let mut keys = std::mem::take(&mut self.after);
        let found =
            keys.make(table, which, row).and_then(|()| self.claim_secondaries(table, which, None, &keys, guard));
        self.after = keys;
        found
    }

    fn insert_with(&mut self, table: &Arc<RowTable>, row: Box<[u8]>, keys: &mut Keys, guard: &Guard) -> Result<Put> {
        let (record, created) = match &table.primary {
            None => (self.new_record(table)?, true),
            Some(index) => {
                let mut key = std::mem::take(&mut self.key);
                key.clear();
                let place = index
                    .key_of(&table.layout, &row, &mut key)
                    .and_then(|_| self.claim_primary(table, index, &key, guard));
                self.key = key;
                match place? {
                    Place::Created(record) => (record, true),
                    Place::Deleted(record) => (record, false),
                    Place::Taken(record) => return Ok(Put::Duplicate { index: None, record }),
                    Place::Wait(event) => return Ok(Put::Wait(event)),
                }
            }
        };
        let claimed = self.claim_secondaries(table, table.secondaries(), None, keys, guard);
        if created && !matches!(claimed, Ok(None)) {
            self.remove_new_record(table, record, &row, guard)?;
        }
        if let Some(refused) = claimed? {
            return Ok(refused);
        }
        let before = Keys::default();
        self.put(table, record, Some(row), created, (&before, keys), guard)?;
        Ok(Put::Done(record))
    }

    /// Finds or creates the record for a row with this primary key.
    fn claim_primary(
        &mut self,
        table: &Arc<RowTable>,
        index: &Arc<IndexData>,
        key: &[u8],
        guard: &Guard,
    ) -> Result<Place> {
        let place = self.find_record(table, index, key, guard)?;
        if let Place::Taken(record) = place {
            self.note_taken(table, index, key, record, guard)?;
        }
        Ok(place)
    }

    fn find_record(&mut self, table: &Arc<RowTable>, index: &IndexData, key: &[u8], guard: &Guard) -> Result<Place> {
        loop {
            let Some(record) = index.tree.get(key, guard).map(RecordId) else {
                let record = self.new_record(table)?;
                if index.tree.insert(key, record.0, guard).is_ok() {
                    return Ok(Place::Created(record));
                }
                // Another thread inserted the key first. This record is still unknown to others.
                table.records.arena.give_back(record.0);
                continue;
            };
            let slot = table.records.record(record)?;
            if let Some(newest) = slot.newest(guard) {
                let is_living = newest.row().is_some();
                match newest.begin() {
                    Begin::By(txn) if txn == self.id => {
                        return Ok(if is_living { Place::Taken(record) } else { Place::Deleted(record) });
                    }
                    // Another transaction's uncommitted change of a live row either keeps its key
                    // or deletes the row, and deletion is not committed.
                    Begin::By(_) if is_living && slot.committed(guard).is_some_and(|row| row.row().is_some()) => {
                        return Ok(Place::Taken(record));
                    }
                    Begin::Committed(_) if is_living => return Ok(Place::Taken(record)),
                    Begin::By(_) | Begin::Committed(_) => {}
                }
            }
            if let Request::Wait { event, .. } = self.lock(table, record, LockMode::Update, WaitPolicy::Wait)? {
                return Ok(Place::Wait(event));
            }
            if index.tree.get(key, guard) != Some(record.0) {
                // The record was removed meanwhile, and its number may be reused already.
                continue;
            }
            let is_living = slot.current(self.id, guard).is_some_and(|version| version.row().is_some());
            return Ok(if is_living { Place::Taken(record) } else { Place::Deleted(record) });
        }
    }

    /// Claims the keys of a row in the unique ones of the secondary indexes in bit mask `which`;
    /// returns the result if one is refused. `own` is the record that will have the row, if it
    /// exists already.
    fn claim_secondaries(
        &mut self,
        table: &Arc<RowTable>,
        which: u64,
        own: Option<RecordId>,
        keys: &Keys,
        guard: &Guard,
    ) -> Result<Option<Put>> {
        for (at, index) in table.secondary.iter().enumerate() {
            // NULLs are distinct from each other.
            if which & 1 << at == 0 || !index.def.unique || keys.has_null(at) {
                continue;
            }
            match self.claim_secondary(table, index, own, keys.key(at), guard)? {
                Claim::Free => {}
                Claim::Taken(record) => return Ok(Some(Put::Duplicate { index: Some(at), record })),
                Claim::Wait(event) => return Ok(Some(Put::Wait(event))),
            }
        }
        Ok(None)
    }

    /// Claims a key of a unique index. Locks the key, so that it stays free until the transaction
    /// ends.
    fn claim_secondary(
        &mut self,
        table: &Arc<RowTable>,
        index: &Arc<IndexData>,
        own: Option<RecordId>,
        key: &[u8],
        guard: &Guard,
    ) -> Result<Claim> {
        if let Request::Wait { event, .. } = self.lock_key(index, key, WaitPolicy::Wait)? {
            return Ok(Claim::Wait(event));
        }
        for record in index.records(key, guard) {
            if Some(record) == own || !self.may_have(table, index, record, key, guard)? {
                continue;
            }
            // Wait for a transaction that is deleting the row or changing its key.
            if let Request::Wait { event, .. } = self.lock(table, record, LockMode::KeyShare, WaitPolicy::Wait)? {
                return Ok(Claim::Wait(event));
            }
            if self.may_have(table, index, record, key, guard)? {
                self.note_taken(table, index, key, record, guard)?;
                return Ok(Claim::Taken(record));
            }
        }
        Ok(Claim::Free)
    }

    /// Removes a new record that got no version.
    fn remove_new_record(&mut self, table: &Arc<RowTable>, record: RecordId, row: &[u8], guard: &Guard) -> Result<()> {
        if let Some(index) = &table.primary {
            let mut key = Vec::new();
            index.key_of(&table.layout, row, &mut key)?;
            index.tree.remove(&key, guard);
        }
        table.records.give_back(record, guard);
        Ok(())
    }

    /// Allocates a record and locks it.
    fn new_record(&mut self, table: &Arc<RowTable>) -> Result<RecordId> {
        let mut locked = Vec::new();
        let record = loop {
            let record = RecordId(table.records.arena.take());
            if record.0 >= RECORDS_MAX {
                table.records.arena.give_back(record.0);
                let text = format!("relation {} has {RECORDS_MAX} rows, which is the limit", table.schema.name);
                return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text));
            }
            match self.lock(table, record, LockMode::Update, WaitPolicy::Skip)? {
                Request::Held { .. } => break record,
                // The transaction that undid an insert into this record still has the lock.
                Request::Skipped | Request::Wait { .. } => locked.push(record),
            }
        };
        locked.iter().for_each(|record| table.records.arena.give_back(record.0));
        Ok(record)
    }

    /// Adds a version on top of a locked record, and its entries to the secondary indexes. `before`
    /// and `after` are the keys of the old and new row, for the indexes in which they may differ.
    fn put(
        &mut self,
        table: &Arc<RowTable>,
        record: RecordId,
        row: Option<Box<[u8]>>,
        created: bool,
        (before, after): (&Keys, &mut Keys),
        guard: &Guard,
    ) -> Result<()> {
        assert!(!self.prepared, "BUG: record {} is changed after the commit was prepared", record.0);
        let slot = table.records.record(record)?;
        if let Some(row) = &row {
            table.records.note_long(&table.layout, row)?;
        }
        let first = !matches!(slot.current(self.id, guard).map(Version::begin), Some(Begin::By(_)));
        let unchecked = self.note_deferrable_keys(table, before, after)?;
        let number = self.tables.number(table);
        let mut write =
            Write { table: number, record, first, rows: 0, created, unchecked, added: 0, stale: Vec::new() };
        for (at, index) in table.secondary.iter().enumerate() {
            if before.key(at) == after.key(at) {
                continue;
            }
            if !after.key(at).is_empty() && index.tree.insert(after.entry(at, record), record.0, guard).is_ok() {
                write.added |= 1 << at;
            }
            if !before.key(at).is_empty() {
                let mut entry = before.key(at).to_vec();
                RowTable::entry_key(&mut entry, record);
                write.stale.push((at, entry.into()));
            }
        }
        for (at, index) in table.inverted() {
            let (before, after) = (before.inverted(at), after.inverted(at));
            let mut added = 0;
            for key in inverted::without(after, before) {
                // An older version, or one that was not collected, may have the entry already.
                added += i64::from(index.tree.insert(&inverted::entry(key, record), record.0, guard).is_ok());
            }
            if added > 0 {
                write.added |= 1 << at;
                self.count_memory(added * INVERTED_ENTRY_BYTES);
            }
            let stale = inverted::packed(inverted::without(before, after));
            if !stale.is_empty() {
                write.stale.push((at, stale));
            }
        }
        // Add the version last: readers that find the entries earlier see no row yet.
        let bytes = slot.push(self.id, row, guard) as i64;
        table.records.add_bytes(bytes);
        self.count_bytes(bytes);
        let stale: usize = write.stale.iter().map(|(_, key)| size_of::<(usize, Box<[u8]>)>() + key.len()).sum();
        if !unchecked && self.checked == self.writes.len() {
            self.checked += 1;
        }
        self.writes.push(write);
        self.count_list_bytes(size_of::<Write>() + stale);
        Ok(())
    }

    /// Accounts for growth of the lists, until the transaction ends.
    fn count_list_bytes(&mut self, bytes: usize) {
        self.list_bytes += bytes as i64;
        if self.list_bytes - self.counted_list_bytes > UNCOUNTED_BYTES_MAX {
            self.store.add_transaction_bytes(self.list_bytes - self.counted_list_bytes);
            self.counted_list_bytes = self.list_bytes;
        }
    }

    /// Accounts for the memory of versions.
    fn count_bytes(&mut self, bytes: i64) {
        self.version_bytes += bytes;
        self.count_memory(bytes);
    }

    /// Accounts for memory that the transaction's limit does not include.
    fn count_memory(&mut self, bytes: i64) {
        self.uncounted_bytes += bytes;
        if self.uncounted_bytes.abs() > UNCOUNTED_BYTES_MAX {
            self.store.add_memory_bytes(std::mem::take(&mut self.uncounted_bytes));
        }
    }

    /// Replaces the row of a locked record. A changed primary key is a delete and an insert.
    ///
    /// # Errors
    /// See [`Txn::insert`].
    pub fn update(&mut self, table: &Arc<RowTable>, record: RecordId, row: Box<[u8]>, guard: &Guard) -> Result<Put> {
        let Some(old) = table.records.record(record)?.current(self.id, guard).and_then(Version::row) else {
            return Err(Error::bug(format!("update of record {}, which has no row", record.0)));
        };
        self.check_memory(row.len() as i64)?;
        if table.changes_primary(old, &row)? {
            if let Some(event) = self.delete(table, record, guard)? {
                return Ok(Put::Wait(event));
            }
            return self.insert(table, row, guard);
        }
        let (mut before, mut after) = (std::mem::take(&mut self.before), std::mem::take(&mut self.after));
        let put = self.update_with(table, record, (old, row), (&mut before, &mut after), guard);
        (self.before, self.after) = (before, after);
        put
    }

    fn update_with(
        &mut self,
        table: &Arc<RowTable>,
        record: RecordId,
        (old, row): (&[u8], Box<[u8]>),
        (before, after): (&mut Keys, &mut Keys),
        guard: &Guard,
    ) -> Result<Put> {
        // Most updates change no indexed column.
        let touched = table.touched(old, &row)?;
        before.make(table, touched, old)?;
        after.make(table, touched, &row)?;
        let changed = (0..table.secondary.len()).filter(|at| before.key(*at) != after.key(*at));
        let changed = changed.filter(|at| table.secondary[*at].def.is_key()).fold(0, |bits, at| bits | 1 << at);
        if changed != 0 {
            if let Request::Wait { event, .. } = self.lock(table, record, LockMode::Update, WaitPolicy::Wait)? {
                return Ok(Put::Wait(event));
            }
            if let Some(refused) = self.claim_secondaries(table, changed, Some(record), after, guard)? {
                return Ok(refused);
            }
        }
        self.put(table, record, Some(row), false, (before, after), guard)?;
        Ok(Put::Done(record))
    }

    /// Deletes the row of a locked record; returns the event to wait for if the lock must be
    /// upgraded first.
    ///
    /// # Errors
    /// 40P01.
    pub fn delete(&mut self, table: &Arc<RowTable>, record: RecordId, guard: &Guard) -> Result<Option<Event>> {
        if let Request::Wait { event, .. } = self.lock(table, record, LockMode::Update, WaitPolicy::Wait)? {
            return Ok(Some(event));
        }
        let mut before = std::mem::take(&mut self.before);
        let old = table.records.record(record)?.current(self.id, guard).and_then(Version::row);
        let encoded = old.map_or(Ok(()), |old| before.make(table, table.secondaries(), old));
        let put = encoded.and_then(|()| self.put(table, record, None, false, (&before, &mut Keys::default()), guard));
        self.before = before;
        put.map(|()| None)
    }

    /// Returns the current point in the transaction.
    #[must_use]
    pub fn savepoint(&self) -> Savepoint {
        let Txn { writes, checked, locks, versions, .. } = self;
        Savepoint { writes: writes.len(), checked: *checked, locks: locks.len(), versions: versions.len() }
    }

    /// Undoes the writes since `savepoint` and keeps the locks, for a statement that waits and runs
    /// again.
    ///
    /// # Errors
    /// XX000 (a bug) only.
    pub fn undo_to(&mut self, savepoint: Savepoint, guard: &Guard) -> Result<()> {
        let writes = self.writes.len();
        debug_assert!(
            savepoint.writes <= writes,
            "BUG: a savepoint after {} writes, {writes} are left",
            savepoint.writes
        );
        while self.writes.len() > savepoint.writes {
            if let Some(write) = self.writes.pop() {
                self.note_undone(&write, guard)?;
                let bytes = write.undo(self.tables.get(write.table), self.id, guard)?;
                self.count_bytes(-(bytes as i64));
            }
        }
        self.checked = self.checked.min(savepoint.checked);
        Ok(())
    }

    /// Like [`Txn::undo_to`]; also undoes DDL.
    ///
    /// # Errors
    /// XX000 (a bug) only.
    pub fn undo_all_to(&mut self, savepoint: Savepoint, guard: &Guard) -> Result<()> {
        self.undo_to(savepoint, guard)?;
        self.versions.truncate(savepoint.versions);
        Ok(())
    }

    /// ROLLBACK TO SAVEPOINT: undoes writes and DDL since `savepoint`, releases the row and key locks
    /// taken since, and lowers a row lock that became stronger since to its mode at the savepoint.
    /// Table locks are kept.
    ///
    /// # Errors
    /// XX000 (a bug) only.
    pub fn roll_back_to(&mut self, savepoint: Savepoint, guard: &Guard) -> Result<()> {
        self.undo_all_to(savepoint, guard)?;
        self.give_up_wait();
        while self.locks.len() > savepoint.locks {
            if let Some(held) = self.locks.pop() {
                // `Share` and stronger modes still protect what was seen of the row.
                if held.before < Some(LockMode::Share) {
                    self.note_unlocked(&held, guard)?;
                }
                self.release(&held);
            }
        }
        Ok(())
    }

    /// Stops waiting for a lock: the statement was cancelled.
    pub fn give_up_wait(&mut self) {
        // No table has this id, so nothing is returned.
        let _ = self.cancel_wait_except(LockName::Table { table: u32::MAX });
    }

    /// Number of writes, the end position for [`Txn::changes`].
    #[must_use]
    pub fn changes_len(&self) -> usize {
        self.writes.len()
    }

    /// Bytes of the rows that the transaction has written.
    #[must_use]
    pub fn changed_bytes(&self) -> usize {
        usize::try_from(self.version_bytes).unwrap_or(0)
    }

    /// Calls `change` with each changed record once, for the log: its row, or `None` if it was
    /// deleted. `from` is 0 or the result of an earlier call. Returns the position at which
    /// `change` broke, or [`Txn::changes_len`].
    ///
    /// # Errors
    /// XX000 (a bug) only.
    pub fn changes<'g>(
        &'g self,
        from: usize,
        guard: &'g Guard,
        mut change: impl FnMut(&'g Arc<RowTable>, RecordId, Option<&'g [u8]>) -> ControlFlow<()>,
    ) -> Result<usize> {
        for (at, write) in self.writes.iter().enumerate().skip(from) {
            if !write.first {
                continue;
            }
            let table = self.tables.get(write.table);
            let slot = table.records.record(write.record)?;
            let row = slot.newest(guard).and_then(Version::row);
            let was_there = slot.committed(guard).is_some_and(|version| version.row().is_some());
            if (row.is_some() || was_there) && change(table, write.record, row).is_break() {
                return Ok(at);
            }
        }
        Ok(self.writes.len())
    }

    /// Prepares the commit, to keep the commit itself short. Nothing may be changed afterwards.
    /// Undoes writes to tables that this transaction dropped or truncated later.
    ///
    /// # Errors
    /// XX000 (a bug) only, also for deferrable keys that [`Txn::check_keys`] did not check.
    pub fn prepare(&mut self, guard: &Guard) -> Result<()> {
        if self.prepared {
            return Ok(());
        }
        if self.has_unchecked_keys() {
            return Err(Error::bug("a commit of deferrable keys that were not checked"));
        }
        self.prepared = true;
        if !self.versions.is_empty() {
            self.undo_discarded(guard)?;
        }
        self.checked = self.writes.len();
        let mut garbage = Vec::new();
        let mut writes = std::mem::take(&mut self.writes);
        for write in &mut writes {
            let table = self.tables.get(write.table);
            let last = self.final_version(table).unwrap_or(table);
            if write.first {
                write.prepare(last, guard, &mut garbage)?;
            }
            let record = write.record;
            garbage.extend(std::mem::take(&mut write.stale).into_iter().map(|(index, key)| Garbage::Entry {
                table: TableByAddress(Arc::clone(table)),
                index,
                key,
                record,
            }));
        }
        (self.writes, self.garbage) = (writes, garbage);
        Ok(())
    }

    fn undo_discarded(&mut self, guard: &Guard) -> Result<()> {
        let is_kept = |write: &Write| self.final_version(self.tables.get(write.table)).is_some();
        if self.writes.iter().all(is_kept) {
            return Ok(());
        }
        let keep: Vec<bool> = self.writes.iter().map(is_kept).collect();
        let (mut kept, mut replaced) = (Vec::new(), Vec::new());
        for (write, keep) in std::mem::take(&mut self.writes).into_iter().zip(keep) {
            if keep { kept.push(write) } else { replaced.push(write) }
        }
        self.writes = kept;
        for write in replaced.iter().rev() {
            let bytes = write.undo(self.tables.get(write.table), self.id, guard)?;
            self.count_bytes(-(bytes as i64));
        }
        Ok(())
    }

    /// Commits at `lsn`, the LSN of the commit record. Cannot fail. Readers may get snapshots at
    /// `lsn` or later only afterwards. Locks are released when the transaction is dropped.
    ///
    /// # Panics
    /// If [`Txn::prepare`] was not called.
    ///
    /// # Cost
    /// A few stores per record, and one lock for the garbage queue.
    pub fn commit(&mut self, lsn: Lsn, guard: &Guard) {
        assert!(self.prepared, "BUG: commit of a transaction that was not prepared");
        assert!(self.checked == self.writes.len(), "BUG: commit of keys that were not checked");
        for write in self.writes.iter().filter(|write| write.first) {
            let records = &self.tables.get(write.table).records;
            let record = records.record(write.record).expect("BUG: a prepared record does not exist");
            let dropped = record.commit(self.id, lsn, guard);
            if dropped > 0 {
                records.add_bytes(-(dropped as i64));
            }
            if write.rows != 0 {
                records.add_rows(write.rows.into());
            }
            records.touch(write.record, lsn);
        }
        self.publish_writes(lsn);
        self.writes.clear();
        self.store.discard(lsn, std::mem::take(&mut self.garbage));
    }
}

impl Entry {
    fn name(&self) -> LockName {
        LockName::Table { table: self.table.0 }
    }
}

impl Write {
    /// Undoes the write and returns the bytes freed.
    fn undo(&self, table: &Arc<RowTable>, me: TxnId, guard: &Guard) -> Result<usize> {
        let Write { record, created, added, .. } = *self;
        let slot = table.records.record(record)?;
        if let Some(row) = slot.newest(guard).and_then(Version::row) {
            table.remove_entries(added, record, row, guard)?;
            table.remove_inverted_entries(added, record, guard)?;
            if let Some(index) = table.primary.as_ref().filter(|_| created) {
                let mut key = Vec::new();
                index.key_of(&table.layout, row, &mut key)?;
                index.tree.remove(&key, guard);
            }
        }
        let bytes = slot.pop(me, guard);
        table.records.add_bytes(-(bytes as i64));
        if created {
            table.records.give_back(record, guard);
        }
        Ok(bytes)
    }

    fn prepare(&mut self, table: &Arc<RowTable>, guard: &Guard, garbage: &mut Vec<Garbage>) -> Result<()> {
        let record = self.record;
        let slot = table.records.record(record)?;
        let committed = slot.committed(guard);
        let before = committed.and_then(Version::row);
        let after = slot.newest(guard).and_then(Version::row);
        self.rows = i8::from(after.is_some()) - i8::from(before.is_some());
        if after.is_none() {
            let mut key = Vec::new();
            // A record created and deleted by this transaction has its row below the deletion.
            let row = before.or_else(|| slot.versions(guard).find_map(Version::row));
            if let (Some(index), Some(row)) = (&table.primary, row) {
                index.key_of(&table.layout, row, &mut key)?;
            }
            garbage.push(Garbage::Record { table: TableByAddress(Arc::clone(table)), record, key: key.into() });
        } else if committed.is_some() {
            garbage.push(Garbage::Versions { table: TableByAddress(Arc::clone(table)), record });
        }
        Ok(())
    }
}

impl Drop for Txn {
    fn drop(&mut self) {
        while !self.writes.is_empty() {
            let guard = &crossbeam_epoch::pin();
            for write in self.writes.drain(self.writes.len().saturating_sub(WRITES_PER_GUARD)..).rev() {
                // Fails only if a record of this transaction does not exist.
                let undone = write.undo(self.tables.get(write.table), self.id, guard);
                debug_assert!(undone.is_ok(), "{undone:?}");
                self.uncounted_bytes -= undone.unwrap_or(0) as i64;
            }
        }
        self.store.add_memory_bytes(self.uncounted_bytes);
        self.store.add_transaction_bytes(-self.counted_list_bytes);
        if let Some(reads) = &self.reads {
            reads.end(&self.store.recent, self.id);
        }
        while let Some(held) = self.locks.pop() {
            // Not lowered first: the entry of the lock itself follows.
            if held.before.is_none() {
                self.release(&held);
            }
        }
        for entry in self.entered.drain(..) {
            self.store.locks.release(self.id, LockName::Table { table: entry.table.0 }, Some(&entry.gate.lock));
        }
        reclaim::catch_up();
    }
}
