//! A transaction on `rows` tables: what it sees, locks and changes. The log is not known here: whoever commits asks what
//! changed, writes it down, and says under which LSN.
//!
//! Always true:
//! - A record is changed by the holder of its lock in mode `NoKeyUpdate` or `Update` only.
//! - Nothing here waits. A call that must wait has changed nothing that [`Txn::undo_to`] does not take back; the statement
//!   is undone, waits, and is run again with the locks it has.
//! - Undoing goes backwards through what was done, so that every version taken off is on top.
//! - A SERIALIZABLE transaction notes whatever it reads or is told of (see `reads`): what it sees by its snapshot; what it finds
//!   beyond it, as foreign keys and unique indexes make it look, unless a lock keeps that as it is until its end.

mod keys;
mod see;
#[cfg(test)]
mod tests;

use std::hash::BuildHasher;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crossbeam_epoch::Guard;
use env::Event;
use model::{Error, Lsn, Result, SqlState, TableId};

use crate::locks::{LockMode, LockName, Request, TxnId, WaitPolicy};
use crate::reads::Reads;
use crate::reclaim;
use crate::record::{Begin, Version};
use crate::store::{Garbage, OfTable, Store};
use crate::table::{Gate, IndexData, Keys, RECORDS_MAX, RecordId, RowTable};

pub use see::View;

/// So many bytes of one transaction are not counted yet as the store's.
const UNCOUNTED_BYTES_MAX: i64 = 64 << 10;
/// A guard is held for so many changes that are taken back at a transaction's end.
const WRITES_PER_GUARD: usize = 1_024;

/// What later statements of a transaction see, and what is checked at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isolation {
    /// Each statement a fresh snapshot; a row that changed meanwhile is looked at again.
    #[default]
    ReadCommitted,
    /// All statements one snapshot; a row that changed meanwhile is an error (40001).
    RepeatableRead,
    /// As that; and a commit is refused (40001) if what was read is not the same any more.
    Serializable,
}

/// One transaction. Dropping it undoes what it did.
pub struct Txn {
    store: Arc<Store>,
    id: TxnId,
    isolation: Isolation,
    snapshot: Lsn,
    /// What it wrote to or locked rows of, each once.
    tables: Tables,
    writes: Vec<Write>,
    locks: Vec<Held>,
    /// Locks on whole tables, kept to the end.
    entered: Vec<Entry>,
    /// Versions of tables that it made itself and that are not in force yet, oldest first; `None` if it dropped the table.
    versions: Vec<(TableId, Option<Arc<RowTable>>)>,
    /// The lock that is waited for; it is among `locks` or `entered`.
    pending: Option<Pending>,
    /// Bytes it added that the store does not know of yet.
    uncounted_bytes: i64,
    /// Bytes of `writes` and `locks`, and how many of them the store knows of.
    list_bytes: i64,
    counted_list_bytes: i64,
    /// Is everything ready for its commit? Then what will be garbage is below.
    prepared: bool,
    garbage: Vec<Garbage>,
    /// The newest commit of which a row was seen: what a crash must not take back once it was shown.
    newest_seen: Lsn,
    /// What it has read, if it is serializable.
    reads: Option<Box<Reads>>,
    /// For keys while they are looked up.
    key: Vec<u8>,
    /// For keys of a row that goes away.
    before: Keys,
    /// For keys of a row that comes.
    after: Keys,
}

/// The tables of one transaction, so that a write or a lock names one by a number and nobody counts references meanwhile.
#[derive(Default)]
struct Tables(Vec<Arc<RowTable>>);

impl Tables {
    /// The number of a table; a changed description is another one.
    fn number(&mut self, table: &Arc<RowTable>) -> u32 {
        // Of few tables the last is the likeliest.
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
    /// By its number in [`Tables`].
    table: u32,
    record: RecordId,
    /// Is it this transaction's first version of the record?
    first: bool,
    /// By how many rows the table grows with its commit.
    rows: i8,
    /// Was the record made for it, with an entry in the primary index?
    made: bool,
    /// Secondary indexes that got an entry for it, by bits.
    added: u64,
    /// Entries that no reader of the commit or later needs: position of the secondary index, and the whole key.
    stale: Vec<(usize, Box<[u8]>)>,
}

/// A lock, and by its number the table of the record whose word it is; keys have none.
struct Held {
    name: LockName,
    table: Option<u32>,
    /// Or is it only waited for?
    granted: bool,
}

/// A lock that a statement stopped for.
struct Pending {
    name: LockName,
    mode: LockMode,
    granted: Event,
}

/// A lock on a whole table.
struct Entry {
    table: TableId,
    gate: Arc<Gate>,
    /// `None` while it is only waited for.
    mode: Option<LockMode>,
}

/// For what a transaction needs a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To write to it, or to lock rows, beside others.
    Shared,
    /// To change what it is, alone. Readers are not kept out.
    Alone,
}

/// What became of a request for a table.
#[derive(Debug)]
pub enum Entered {
    /// Nobody changes what it is before this transaction ends.
    In,
    /// Another version of it is in force than the one asked for, or it is gone: look at the newest snapshot. The lock is held.
    Changed,
    /// Undo the statement, wait, and ask again.
    Wait(Event),
}

/// A place to go back to; by default it is before everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Savepoint {
    writes: usize,
    locks: usize,
    versions: usize,
}

impl Savepoint {
    /// Before everything.
    pub const START: Savepoint = Savepoint { writes: 0, locks: 0, versions: 0 };
}

/// A row under lock.
#[derive(Debug)]
pub enum Locked<'g> {
    /// Its newest version, which is not the one that the snapshot shows if `changed`: then conditions must be looked at again.
    Row {
        /// The row.
        row: &'g [u8],
        /// Is it another one than the snapshot's?
        changed: bool,
    },
    /// It was deleted meanwhile.
    Gone,
    /// Somebody else has it, and `SKIP LOCKED` was asked for.
    Skipped,
    /// Undo the statement, wait, and run it again.
    Wait(Event),
}

/// What became of an insert or update.
#[derive(Debug)]
pub enum Put {
    /// Done; the record it is in.
    Done(RecordId),
    /// A unique index has the key already: the primary one (`None`) or a secondary one, and which record has it.
    Duplicate {
        /// Position among the secondary indexes; `None` for the primary key.
        index: Option<usize>,
        /// Who has the key.
        record: RecordId,
    },
    /// Undo the statement, wait, and run it again.
    Wait(Event),
}

/// Whether a key of a secondary unique index is free.
enum Claim {
    Free,
    Taken(RecordId),
    Wait(Event),
}

/// Where a row with a primary key goes.
enum Place {
    /// A new record, which the primary index names already.
    Made(RecordId),
    /// A record whose row was deleted.
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
            locks: Vec::new(),
            entered: Vec::new(),
            versions: Vec::new(),
            pending: None,
            uncounted_bytes: 0,
            list_bytes: 0,
            counted_list_bytes: 0,
            prepared: false,
            garbage: Vec::new(),
            newest_seen: Lsn::ZERO,
            reads: (isolation == Isolation::Serializable).then(Box::default),
            key: Vec::new(),
            before: Keys::default(),
            after: Keys::default(),
        }
    }

    /// What the next statement reads.
    ///
    /// Of a serializable transaction this is the same each time, and the first time there must be no commit between the taking of the
    /// snapshot and the return from here: who orders commits keeps them waiting. All later ones are noted.
    pub fn set_snapshot(&mut self, snapshot: Lsn) {
        self.snapshot = snapshot;
        if let Some(reads) = &mut self.reads {
            reads.begin(&self.store.recent, self.id, snapshot);
        }
    }

    /// What the present statement reads.
    #[must_use]
    pub fn snapshot(&self) -> Lsn {
        self.snapshot
    }

    /// The newest commit of which it saw a row so far.
    #[must_use]
    pub fn newest_seen(&self) -> Lsn {
        self.newest_seen
    }

    /// What later statements of it see.
    #[must_use]
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Notes that something was seen that a commit made: the description of a table, a number of a sequence.
    pub fn note_commit_seen(&mut self, lsn: Lsn) {
        self.newest_seen = self.newest_seen.max(lsn);
    }

    pub(crate) fn id(&self) -> TxnId {
        self.id
    }

    /// Was nothing changed so far?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Locks a row that the snapshot shows, and gives its newest version.
    ///
    /// # Errors
    /// 40001 under REPEATABLE READ if it was changed since the snapshot; 40P01; 55P03 under `NOWAIT`.
    pub fn lock_row<'g>(
        &mut self,
        table: &'g Arc<RowTable>,
        record: RecordId,
        mode: LockMode,
        policy: WaitPolicy,
        guard: &'g Guard,
    ) -> Result<Locked<'g>> {
        if let Some(event) = self.share(table)? {
            return Ok(Locked::Wait(event));
        }
        match self.lock(table, record, mode, policy)? {
            Request::Held { .. } => {}
            Request::Wait(event) => return Ok(Locked::Wait(event)),
            Request::Skipped => return Ok(Locked::Skipped),
        }
        let slot = table.records.record(record)?;
        let Some(current) = slot.current(self.id, guard) else { return Ok(Locked::Gone) };
        // Older versions need not be gone through: a row that many change has many.
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

    /// The newest row of a record that counts: its own, or the newest commit's, whatever the snapshot shows. It is not noted as read: who
    /// asks has the record or its table locked, or says what it walks.
    ///
    /// # Errors
    /// XX000 for a record that was never made.
    pub fn newest<'g>(&self, table: &'g RowTable, record: RecordId, guard: &'g Guard) -> Result<Option<&'g [u8]>> {
        Ok(table.records.record(record)?.current(self.id, guard).and_then(Version::row))
    }

    fn lock(&mut self, table: &Arc<RowTable>, record: RecordId, mode: LockMode, policy: WaitPolicy) -> Result<Request> {
        let name = LockName::Record { table: table.id().0, record: record.0 };
        let word = &table.records.record(record)?.lock;
        let waited = self.give_up_wait_but_for(name);
        let locked = self.store.locks.lock(self.id, name, Some(word), mode, policy);
        let request = locked.map_err(|error| match error.state() {
            SqlState::LOCK_NOT_AVAILABLE => {
                let text = format!("could not obtain lock on row in relation \"{}\"", table.schema.name.table);
                Error::new(SqlState::LOCK_NOT_AVAILABLE, text)
            }
            _ => error,
        })?;
        self.keep(name, mode, Some(table), &request, waited);
        Ok(request)
    }

    fn lock_key(&mut self, index: &IndexData, key: &[u8]) -> Result<Request> {
        let name = LockName::Key { index: index.def.id, hash: rustc_hash::FxBuildHasher.hash_one(key) };
        let waited = self.give_up_wait_but_for(name);
        let request = self.store.locks.lock(self.id, name, None, LockMode::Update, WaitPolicy::Wait)?;
        self.keep(name, LockMode::Update, None, &request, waited);
        Ok(request)
    }

    /// What was waited for, and is waited for no longer: a statement was cancelled, found another way, or asks for something else first,
    /// run again. Then it has what it waited for, and keeps it: of two who each let go of it again none would come to an end. True if it
    /// was this one.
    fn give_up_wait_but_for(&mut self, name: LockName) -> bool {
        let Some(Pending { name: pending, mode, granted }) = self.pending.take() else { return false };
        if pending == name {
            return true;
        }
        let held = self.locks.iter().rposition(|held| held.name == pending && !held.granted);
        let entry = self.entered.iter().position(|entry| entry.name() == pending && entry.mode < Some(mode));
        match (held, entry) {
            (Some(at), _) if granted.is_set() => self.locks[at].granted = true,
            (_, Some(at)) if granted.is_set() => self.entered[at].mode = Some(mode),
            _ if granted.is_set() => {}
            (Some(at), _) => {
                let held = self.locks.remove(at);
                self.release(&held);
            }
            (_, Some(at)) if self.entered[at].mode.is_none() => {
                let entry = self.entered.remove(at);
                self.store.locks.release(self.id, pending, Some(&entry.gate.lock));
            }
            // It was to become stronger; as it is it must stay, for what was changed under it.
            _ => self.store.locks.give_up(self.id, pending),
        }
        false
    }

    /// Locks a table as a whole, to the end of the transaction. What writes or locks rows does this by itself; who asks before is told of a
    /// change, which is an error there.
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
            self.give_up_wait_but_for(name);
            let request = self.store.locks.lock(self.id, name, Some(&gate.lock), mode, WaitPolicy::Wait)?;
            let entry = Entry { table: table.id(), gate: Arc::clone(gate), mode: None };
            let entry_at = at.unwrap_or(self.entered.len());
            if at.is_none() {
                self.entered.push(entry);
                at = Some(entry_at);
            }
            match request {
                Request::Held { .. } => self.entered[entry_at].mode = Some(mode),
                Request::Wait(event) => {
                    self.store.note_wait();
                    self.pending = Some(Pending { name, mode, granted: event.clone() });
                    return Ok(Entered::Wait(event));
                }
                Request::Skipped => return Err(Error::bug("a table was left out although nobody asked for that")),
            }
        }
        let alone = at.and_then(|at| self.entered[at].mode) == Some(LockMode::Update);
        let in_force = gate.version.load(Ordering::Acquire);
        // A version of its own making is not in force yet.
        let own = || alone && self.versions.iter().any(|(id, _)| *id == table.id());
        if in_force == 0 || in_force == table.schema.version || own() {
            return Ok(Entered::In);
        }
        Ok(Entered::Changed)
    }

    /// Locks a table for writing; gives what to wait for.
    fn share(&mut self, table: &RowTable) -> Result<Option<Event>> {
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

    /// Notes a version of a table that this transaction made and that takes effect with its commit; `None` if it dropped the table. It has
    /// the table alone, or made it.
    pub fn set_version(&mut self, table: TableId, version: Option<Arc<RowTable>>) {
        self.versions.push((table, version));
    }

    /// The version of a table that takes effect with the commit; `None` if its records go.
    fn last_version<'a>(&'a self, table: &'a Arc<RowTable>) -> Option<&'a Arc<RowTable>> {
        match self.versions.iter().rev().find(|(id, _)| *id == table.id()) {
            None => Some(table),
            Some((_, version)) => version.as_ref().filter(|version| Arc::ptr_eq(&version.records, &table.records)),
        }
    }

    fn release(&self, held: &Held) {
        let slot = match (held.name, held.table) {
            (LockName::Record { record, .. }, Some(table)) => self.tables.get(table).records.arena.get(record),
            _ => None,
        };
        self.store.locks.release(self.id, held.name, slot.map(|slot| &slot.lock));
    }

    fn keep(&mut self, name: LockName, mode: LockMode, table: Option<&Arc<RowTable>>, request: &Request, waited: bool) {
        let (fresh, granted) = match request {
            Request::Held { fresh } => (*fresh, true),
            Request::Wait(event) => {
                self.store.note_wait();
                self.pending = Some(Pending { name, mode, granted: event.clone() });
                // Asked for again while it waits, it is there already.
                (!self.locks.iter().rev().any(|held| held.name == name), false)
            }
            Request::Skipped => (false, false),
        };
        if waited
            && granted
            && let Some(held) = self.locks.iter_mut().rev().find(|held| held.name == name)
        {
            held.granted = true;
        }
        if fresh {
            let table = table.map(|table| self.tables.number(table));
            self.locks.push(Held { name, table, granted });
            self.count_list_bytes(size_of::<Held>());
        }
    }

    /// Puts a row into a table. Of several keys that are there already the primary one is told of, or the first in the order of the indexes.
    ///
    /// # Errors
    /// 40P01; 54000 for a key that is too long or a row too many; 53200 when tables hold as much as they may; 40001 when the table was changed or dropped.
    pub fn insert(&mut self, table: &Arc<RowTable>, row: Box<[u8]>, guard: &Guard) -> Result<Put> {
        if let Some(event) = self.share(table)? {
            return Ok(Put::Wait(event));
        }
        self.store.check_memory(self.uncounted_bytes)?;
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
        let (record, made) = match &table.primary {
            None => (self.fresh(table)?, true),
            Some(index) => {
                let mut key = std::mem::take(&mut self.key);
                key.clear();
                let place = index
                    .key_of(&table.layout, &row, &mut key)
                    .and_then(|_| self.claim_primary(table, index, &key, guard));
                self.key = key;
                match place? {
                    Place::Made(record) => (record, true),
                    Place::Deleted(record) => (record, false),
                    Place::Taken(record) => return Ok(Put::Duplicate { index: None, record }),
                    Place::Wait(event) => return Ok(Put::Wait(event)),
                }
            }
        };
        let claimed = self.claim_secondaries(table, table.secondaries(), None, keys, guard);
        if made && !matches!(claimed, Ok(None)) {
            self.unmake(table, record, &row, guard)?;
        }
        if let Some(refused) = claimed? {
            return Ok(refused);
        }
        let before = Keys::default();
        self.put(table, record, Some(row), made, (&before, keys), guard)?;
        Ok(Put::Done(record))
    }

    /// Where a row with this primary key goes: a new record, or the one whose row was deleted.
    fn claim_primary(
        &mut self,
        table: &Arc<RowTable>,
        index: &Arc<IndexData>,
        key: &[u8],
        guard: &Guard,
    ) -> Result<Place> {
        let place = self.place(table, index, key, guard)?;
        if let Place::Taken(record) = place {
            self.note_taken(table, index, key, record, guard)?;
        }
        Ok(place)
    }

    fn place(&mut self, table: &Arc<RowTable>, index: &IndexData, key: &[u8], guard: &Guard) -> Result<Place> {
        loop {
            let Some(record) = index.tree.get(key, guard).map(RecordId) else {
                let record = self.fresh(table)?;
                if index.tree.insert(key, record.0, guard).is_ok() {
                    return Ok(Place::Made(record));
                }
                // Somebody was quicker. Nobody knows this one yet.
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
                    // What others are about to do to a living row changes its key only by deleting it.
                    Begin::By(_) if is_living && slot.committed(guard).is_some_and(|row| row.row().is_some()) => {
                        return Ok(Place::Taken(record));
                    }
                    Begin::Committed(_) if is_living => return Ok(Place::Taken(record)),
                    Begin::By(_) | Begin::Committed(_) => {}
                }
            }
            if let Request::Wait(event) = self.lock(table, record, LockMode::Update, WaitPolicy::Wait)? {
                return Ok(Place::Wait(event));
            }
            if index.tree.get(key, guard) != Some(record.0) {
                // It went away meanwhile, and its number may be another row's by now.
                continue;
            }
            let is_living = slot.current(self.id, guard).is_some_and(|version| version.row().is_some());
            return Ok(if is_living { Place::Taken(record) } else { Place::Deleted(record) });
        }
    }

    /// Claims a row's keys in the unique ones of the secondary indexes given by bits; what stands against it if something does. `own` is the
    /// record that the row is to be put in, if there is one.
    fn claim_secondaries(
        &mut self,
        table: &Arc<RowTable>,
        which: u64,
        own: Option<RecordId>,
        keys: &Keys,
        guard: &Guard,
    ) -> Result<Option<Put>> {
        for (at, index) in table.secondary.iter().enumerate() {
            // NULLs are never the same.
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

    /// Is a key of a unique index free? It is locked, so that it stays free for whoever was told so.
    fn claim_secondary(
        &mut self,
        table: &Arc<RowTable>,
        index: &Arc<IndexData>,
        own: Option<RecordId>,
        key: &[u8],
        guard: &Guard,
    ) -> Result<Claim> {
        if let Request::Wait(event) = self.lock_key(index, key)? {
            return Ok(Claim::Wait(event));
        }
        for record in index.records(key, guard) {
            if Some(record) == own || !self.may_have(table, index, record, key, guard)? {
                continue;
            }
            // Whoever is about to delete it or to change its key must end first.
            if let Request::Wait(event) = self.lock(table, record, LockMode::KeyShare, WaitPolicy::Wait)? {
                return Ok(Claim::Wait(event));
            }
            if self.may_have(table, index, record, key, guard)? {
                self.note_taken(table, index, key, record, guard)?;
                return Ok(Claim::Taken(record));
            }
        }
        Ok(Claim::Free)
    }

    /// Takes back a record that got no version.
    fn unmake(&mut self, table: &Arc<RowTable>, record: RecordId, row: &[u8], guard: &Guard) -> Result<()> {
        if let Some(index) = &table.primary {
            let mut key = Vec::new();
            index.key_of(&table.layout, row, &mut key)?;
            index.tree.remove(&key, guard);
        }
        table.records.give_back(record, guard);
        Ok(())
    }

    /// A record nobody knows, locked.
    fn fresh(&mut self, table: &Arc<RowTable>) -> Result<RecordId> {
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
                // Whoever took back an insert has the lock until its end.
                Request::Skipped | Request::Wait(_) => locked.push(record),
            }
        };
        locked.iter().for_each(|record| table.records.arena.give_back(record.0));
        Ok(record)
    }

    /// Puts a version on top of a record that is locked, and its entries into the secondary indexes. `keys` are those of the row before and
    /// of this one, in the indexes where they may differ.
    fn put(
        &mut self,
        table: &Arc<RowTable>,
        record: RecordId,
        row: Option<Box<[u8]>>,
        made: bool,
        (before, after): (&Keys, &mut Keys),
        guard: &Guard,
    ) -> Result<()> {
        let slot = table.records.record(record)?;
        let first = !matches!(slot.current(self.id, guard).map(Version::begin), Some(Begin::By(_)));
        let number = self.tables.number(table);
        let mut write = Write { table: number, record, first, rows: 0, made, added: 0, stale: Vec::new() };
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
        // Found by its entries only when they are all there; before that it is nobody's business.
        let bytes = slot.push(self.id, row, guard) as i64;
        table.records.add_bytes(bytes);
        self.count_bytes(bytes);
        let stale: usize = write.stale.iter().map(|(_, key)| size_of::<(usize, Box<[u8]>)>() + key.len()).sum();
        self.writes.push(write);
        self.count_list_bytes(size_of::<Write>() + stale);
        Ok(())
    }

    /// Lists grow by this much. They are counted until the end of the transaction.
    fn count_list_bytes(&mut self, bytes: usize) {
        self.list_bytes += bytes as i64;
        if self.list_bytes - self.counted_list_bytes > UNCOUNTED_BYTES_MAX {
            self.store.add_transaction_bytes(self.list_bytes - self.counted_list_bytes);
            self.counted_list_bytes = self.list_bytes;
        }
    }

    fn count_bytes(&mut self, bytes: i64) {
        self.uncounted_bytes += bytes;
        if self.uncounted_bytes.abs() > UNCOUNTED_BYTES_MAX {
            self.store.add_memory_bytes(std::mem::take(&mut self.uncounted_bytes));
        }
    }

    /// Replaces the row of a record that is locked. A changed primary key makes it another record.
    ///
    /// # Errors
    /// As [`Txn::insert`].
    pub fn update(&mut self, table: &Arc<RowTable>, record: RecordId, row: Box<[u8]>, guard: &Guard) -> Result<Put> {
        let Some(old) = table.records.record(record)?.current(self.id, guard).and_then(Version::row) else {
            return Err(Error::bug(format!("record {} is updated, but has no row", record.0)));
        };
        self.store.check_memory(self.uncounted_bytes)?;
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
        // Most updates change no column of an index.
        let touched = table.touched(old, &row)?;
        before.make(table, touched, old)?;
        after.make(table, touched, &row)?;
        let changed = (0..table.secondary.len()).filter(|at| before.key(*at) != after.key(*at));
        let changed = changed.filter(|at| table.secondary[*at].def.unique).fold(0, |bits, at| bits | 1 << at);
        if changed != 0 {
            if let Request::Wait(event) = self.lock(table, record, LockMode::Update, WaitPolicy::Wait)? {
                return Ok(Put::Wait(event));
            }
            if let Some(refused) = self.claim_secondaries(table, changed, Some(record), after, guard)? {
                return Ok(refused);
            }
        }
        self.put(table, record, Some(row), false, (before, after), guard)?;
        Ok(Put::Done(record))
    }

    /// Deletes the row of a record that is locked; gives what to wait for if the lock is not strong enough yet.
    ///
    /// # Errors
    /// 40P01.
    pub fn delete(&mut self, table: &Arc<RowTable>, record: RecordId, guard: &Guard) -> Result<Option<Event>> {
        if let Request::Wait(event) = self.lock(table, record, LockMode::Update, WaitPolicy::Wait)? {
            return Ok(Some(event));
        }
        let mut before = std::mem::take(&mut self.before);
        let old = table.records.record(record)?.current(self.id, guard).and_then(Version::row);
        let made = old.map_or(Ok(()), |old| before.make(table, table.secondaries(), old));
        let put = made.and_then(|()| self.put(table, record, None, false, (&before, &mut Keys::default()), guard));
        self.before = before;
        put.map(|()| None)
    }

    /// Where it is now.
    #[must_use]
    pub fn savepoint(&self) -> Savepoint {
        Savepoint { writes: self.writes.len(), locks: self.locks.len(), versions: self.versions.len() }
    }

    /// Takes back what was changed since, and keeps the locks: a statement that waits is run again.
    ///
    /// # Errors
    /// XX000 only.
    pub fn undo_to(&mut self, savepoint: Savepoint, guard: &Guard) -> Result<()> {
        while self.writes.len() > savepoint.writes {
            if let Some(write) = self.writes.pop() {
                self.note_undone(&write, guard)?;
                let bytes = write.undo(self.tables.get(write.table), self.id, guard)?;
                self.count_bytes(-(bytes as i64));
            }
        }
        Ok(())
    }

    /// As [`Txn::undo_to`], also tables.
    ///
    /// # Errors
    /// XX000 only.
    pub fn undo_all_to(&mut self, savepoint: Savepoint, guard: &Guard) -> Result<()> {
        self.undo_to(savepoint, guard)?;
        self.versions.truncate(savepoint.versions);
        Ok(())
    }

    /// Takes back what was changed since, also tables, and lets go of the locks on rows and keys taken since; those on tables stay.
    ///
    /// # Errors
    /// XX000 only.
    pub fn roll_back_to(&mut self, savepoint: Savepoint, guard: &Guard) -> Result<()> {
        self.undo_all_to(savepoint, guard)?;
        self.give_up_wait();
        while self.locks.len() > savepoint.locks {
            if let Some(held) = self.locks.pop() {
                self.note_unlocked(&held, guard)?;
                self.release(&held);
            }
        }
        Ok(())
    }

    /// What was waited for is waited for no longer: the statement was cancelled.
    pub fn give_up_wait(&mut self) {
        // No table has this number.
        self.give_up_wait_but_for(LockName::Table { table: u32::MAX });
    }

    /// Changes of records, for [`Txn::changes`].
    #[must_use]
    pub fn changes_len(&self) -> usize {
        self.writes.len()
    }

    /// What the log has to say of it, from a place on that an earlier call gave, or 0: each changed record once, with its row, or without if
    /// it was deleted. Gives the place of the change at which `change` broke, or [`Txn::changes_len`].
    ///
    /// # Errors
    /// XX000 only.
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

    /// Gets everything ready for the commit, so that the commit itself is short. Nothing may be changed afterwards. What was changed in
    /// tables that this transaction then dropped, or began anew, is taken back: nobody will see it.
    ///
    /// # Errors
    /// XX000 only.
    pub fn prepare(&mut self, guard: &Guard) -> Result<()> {
        if std::mem::replace(&mut self.prepared, true) {
            return Ok(());
        }
        if !self.versions.is_empty() {
            self.undo_replaced(guard)?;
        }
        let mut garbage = Vec::new();
        let mut writes = std::mem::take(&mut self.writes);
        for write in &mut writes {
            let table = self.tables.get(write.table);
            let last = self.last_version(table).unwrap_or(table);
            if write.first {
                write.prepare(last, guard, &mut garbage)?;
            }
            let record = write.record;
            garbage.extend(std::mem::take(&mut write.stale).into_iter().map(|(index, key)| Garbage::Entry {
                table: OfTable(Arc::clone(table)),
                index,
                key,
                record,
            }));
        }
        (self.writes, self.garbage) = (writes, garbage);
        Ok(())
    }

    fn undo_replaced(&mut self, guard: &Guard) -> Result<()> {
        let is_kept = |write: &Write| self.last_version(self.tables.get(write.table)).is_some();
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

    /// Makes its changes the state since `lsn`. The commit record has that number and cannot fail any more, nor can this; readers get
    /// snapshots at `lsn` or later only after this. Its locks are let go when it is dropped.
    ///
    /// # Panics
    /// Without [`Txn::prepare`] after its last change.
    ///
    /// # Cost
    /// A few stores for each record, and one lock for what became garbage.
    pub fn commit(&mut self, lsn: Lsn, guard: &Guard) {
        assert!(self.prepared, "BUG: a transaction is committed that was not prepared");
        for write in self.writes.iter().filter(|write| write.first) {
            let records = &self.tables.get(write.table).records;
            let record = records.record(write.record).expect("BUG: a prepared record is gone");
            let dropped = record.commit(self.id, lsn, guard);
            if dropped > 0 {
                records.add_bytes(-(dropped as i64));
            }
            if write.rows != 0 {
                records.add_rows(write.rows.into());
            }
            records.touch(write.record, lsn);
        }
        self.tell_readers(lsn);
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
    /// Gives the bytes that it took.
    fn undo(&self, table: &Arc<RowTable>, me: TxnId, guard: &Guard) -> Result<usize> {
        let Write { record, made, added, .. } = *self;
        let slot = table.records.record(record)?;
        if let Some(row) = slot.newest(guard).and_then(Version::row) {
            table.remove_entries(added, record, row, guard)?;
            if let Some(index) = table.primary.as_ref().filter(|_| made) {
                let mut key = Vec::new();
                index.key_of(&table.layout, row, &mut key)?;
                index.tree.remove(&key, guard);
            }
        }
        let bytes = slot.pop(me, guard);
        table.records.add_bytes(-(bytes as i64));
        if made {
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
            // A record that was made and deleted by one transaction has its row below the deletion.
            let row = before.or_else(|| slot.versions(guard).find_map(Version::row));
            if let (Some(index), Some(row)) = (&table.primary, row) {
                index.key_of(&table.layout, row, &mut key)?;
            }
            garbage.push(Garbage::Record { table: OfTable(Arc::clone(table)), record, key: key.into() });
        } else if committed.is_some() {
            garbage.push(Garbage::Versions { table: OfTable(Arc::clone(table)), record });
        }
        Ok(())
    }
}

impl Drop for Txn {
    fn drop(&mut self) {
        while !self.writes.is_empty() {
            let guard = &crossbeam_epoch::pin();
            for write in self.writes.drain(self.writes.len().saturating_sub(WRITES_PER_GUARD)..).rev() {
                // It fails only where a record is missing that was there before.
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
            self.release(&held);
        }
        for entry in self.entered.drain(..) {
            self.store.locks.release(self.id, LockName::Table { table: entry.table.0 }, Some(&entry.gate.lock));
        }
        reclaim::catch_up();
    }
}
