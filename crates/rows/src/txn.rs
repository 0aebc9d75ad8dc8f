//! A transaction on `rows` tables: what it sees, locks and changes. The log is not known here: whoever commits asks what
//! changed, writes it down, and says under which LSN.
//!
//! Always true:
//! - A record is changed by the holder of its lock in mode `NoKeyUpdate` or `Update` only.
//! - Nothing here waits. A call that must wait has changed nothing that [`Txn::undo_to`] does not take back; the statement
//!   is undone, waits, and is run again with the locks it has.
//! - Undoing goes backwards through what was done, so that every version taken off is on top.

#[cfg(test)]
mod tests;

use std::hash::BuildHasher;
use std::sync::Arc;

use crossbeam_epoch::Guard;
use env::Event;
use model::{Error, Lsn, Result, SqlState, TableId};

use crate::locks::{LockMode, LockName, Request, TxnId, WaitPolicy};
use crate::record::{Begin, Record, Version};
use crate::store::{Garbage, Store};
use crate::table::{IndexData, RecordId, RowTable};

/// What later statements of a transaction see, and what is checked at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isolation {
    /// Each statement a fresh snapshot; a row that changed meanwhile is looked at again.
    #[default]
    ReadCommitted,
    /// All statements one snapshot; a row that changed meanwhile is an error (40001).
    RepeatableRead,
}

/// One transaction. Dropping it undoes what it did.
pub struct Txn {
    store: Arc<Store>,
    id: TxnId,
    isolation: Isolation,
    snapshot: Lsn,
    writes: Vec<Write>,
    locks: Vec<Held>,
    /// The lock that is waited for; it is among `locks`.
    pending: Option<LockName>,
    /// The newest commit of which a row was seen: what a crash must not take back once it was shown.
    newest_seen: Lsn,
    /// For keys while they are looked up.
    key: Vec<u8>,
}

/// One change of one record.
struct Write {
    table: Arc<RowTable>,
    record: RecordId,
    /// Is it this transaction's first version of the record?
    first: bool,
    /// Was the record made for it, with an entry in the primary index?
    made: bool,
    /// Secondary indexes that got an entry for it, by bits.
    added: u64,
    /// Entries that no reader of the commit or later needs: position of the secondary index, and the whole key.
    stale: Vec<(usize, Box<[u8]>)>,
}

/// A lock, and the record whose word it is; keys have none.
pub(crate) struct Held {
    pub(crate) name: LockName,
    pub(crate) place: Option<(Arc<RowTable>, RecordId)>,
}

/// A place to go back to.
#[derive(Clone, Copy, Debug)]
pub struct Savepoint {
    writes: usize,
    locks: usize,
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
            writes: Vec::new(),
            locks: Vec::new(),
            pending: None,
            newest_seen: Lsn::ZERO,
            key: Vec::new(),
        }
    }

    /// What the next statement reads.
    pub fn set_snapshot(&mut self, snapshot: Lsn) {
        self.snapshot = snapshot;
    }

    /// The newest commit of which it saw a row so far.
    #[must_use]
    pub fn newest_seen(&self) -> Lsn {
        self.newest_seen
    }

    /// Was nothing changed so far?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// The row as the snapshot shows it, own changes included.
    ///
    /// # Errors
    /// XX000 for a record that was never made.
    pub fn read<'g>(&mut self, table: &'g RowTable, record: RecordId, guard: &'g Guard) -> Result<Option<&'g [u8]>> {
        let Some(version) = table.records.record(record)?.seen(self.id, self.snapshot, guard) else { return Ok(None) };
        self.note_seen(version);
        Ok(version.row())
    }

    fn note_seen(&mut self, version: &Version) {
        if let Begin::Committed(lsn) = version.begin() {
            self.newest_seen = self.newest_seen.max(lsn);
        }
    }

    /// The record with this primary key, and its row.
    ///
    /// # Errors
    /// As [`Txn::read`].
    pub fn get<'g>(
        &mut self,
        table: &'g RowTable,
        key: &[u8],
        guard: &'g Guard,
    ) -> Result<Option<(RecordId, &'g [u8])>> {
        let Some(index) = &table.primary else { return Ok(None) };
        let Some(record) = index.tree.get(key, guard).map(RecordId) else { return Ok(None) };
        Ok(self.read(table, record, guard)?.map(|row| (record, row)))
    }

    /// The row that an entry of a secondary index leads to, if the snapshot shows one with the entry's key.
    ///
    /// # Errors
    /// As [`Txn::read`].
    pub fn read_entry<'g>(
        &mut self,
        table: &'g RowTable,
        index: &IndexData,
        entry: &[u8],
        record: RecordId,
        guard: &'g Guard,
    ) -> Result<Option<&'g [u8]>> {
        let Some(row) = self.read(table, record, guard)? else { return Ok(None) };
        self.key.clear();
        let mut key = std::mem::take(&mut self.key);
        index.key_of(&table.layout, row, &mut key)?;
        let same = entry.len() == key.len() + size_of::<u64>() && entry.starts_with(&key);
        self.key = key;
        Ok(same.then_some(row))
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
        match self.lock(table, record, mode, policy)? {
            Request::Held { .. } => {}
            Request::Wait(event) => return Ok(Locked::Wait(event)),
            Request::Skipped => return Ok(Locked::Skipped),
        }
        let slot = table.records.record(record)?;
        let Some(current) = slot.current(self.id, guard) else { return Ok(Locked::Gone) };
        let seen = slot.seen(self.id, self.snapshot, guard);
        let changed = !seen.is_some_and(|seen| std::ptr::eq(seen, current));
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

    fn lock(&mut self, table: &Arc<RowTable>, record: RecordId, mode: LockMode, policy: WaitPolicy) -> Result<Request> {
        let name = LockName::Record { table: table.id().0, record: record.0 };
        let word = &table.records.record(record)?.lock;
        self.give_up_wait_but_for(name);
        let request = self.store.locks.lock(self.id, name, Some(word), mode, policy)?;
        self.keep(name, Some((table, record)), &request);
        Ok(request)
    }

    fn lock_key(&mut self, index: &IndexData, key: &[u8]) -> Result<Request> {
        let name = LockName::Key { index: index.def.id, hash: rustc_hash::FxBuildHasher.hash_one(key) };
        self.give_up_wait_but_for(name);
        let request = self.store.locks.lock(self.id, name, None, LockMode::Update, WaitPolicy::Wait)?;
        self.keep(name, None, &request);
        Ok(request)
    }

    /// What was waited for, and is waited for no longer: a statement was cancelled, or found another way.
    fn give_up_wait_but_for(&mut self, name: LockName) {
        if let Some(pending) = self.pending.take()
            && pending != name
            && let Some(at) = self.locks.iter().rposition(|held| held.name == pending)
        {
            let held = self.locks.remove(at);
            self.store.release(self.id, &held);
        }
    }

    fn keep(&mut self, name: LockName, place: Option<(&Arc<RowTable>, RecordId)>, request: &Request) {
        let fresh = match request {
            Request::Held { fresh } => *fresh,
            Request::Wait(_) => {
                self.pending = Some(name);
                // Asked for again while it waits, it is there already.
                !self.locks.iter().rev().any(|held| held.name == name)
            }
            Request::Skipped => false,
        };
        if fresh {
            let place = place.map(|(table, record)| (Arc::clone(table), record));
            self.locks.push(Held { name, place });
        }
    }

    /// Puts a row into a table.
    ///
    /// # Errors
    /// 40P01; 54000 for a key that is too long.
    pub fn insert(&mut self, table: &Arc<RowTable>, row: Box<[u8]>, guard: &Guard) -> Result<Put> {
        for at in 0..table.secondary.len() {
            match self.claim_secondary(table, at, None, &row, guard)? {
                Claim::Free => {}
                Claim::Taken(record) => return Ok(Put::Duplicate { index: Some(at), record }),
                Claim::Wait(event) => return Ok(Put::Wait(event)),
            }
        }
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
        // A key that is too long is found before anything is changed.
        let mut key = Vec::new();
        for index in &table.secondary {
            key.clear();
            if let Err(error) = index.key_of(&table.layout, &row, &mut key) {
                if made {
                    self.unmake(table, record, &row, guard)?;
                }
                return Err(error);
            }
        }
        self.put(table, record, Some(row), made, guard)?;
        Ok(Put::Done(record))
    }

    /// Where a row with this primary key goes: a new record, or the one whose row was deleted.
    fn claim_primary(&mut self, table: &Arc<RowTable>, index: &IndexData, key: &[u8], guard: &Guard) -> Result<Place> {
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

    /// Is a row's key in a secondary index free? The key is locked, so that it stays free for whoever was told so. `own` is the record that
    /// the row is to be put in, if there is one.
    fn claim_secondary(
        &mut self,
        table: &Arc<RowTable>,
        at: usize,
        own: Option<RecordId>,
        row: &[u8],
        guard: &Guard,
    ) -> Result<Claim> {
        let index = &table.secondary[at];
        let mut key = Vec::new();
        if !index.def.unique || index.key_of(&table.layout, row, &mut key)? {
            return Ok(Claim::Free);
        }
        if let Request::Wait(event) = self.lock_key(index, &key)? {
            return Ok(Claim::Wait(event));
        }
        for record in index.records(&key, guard) {
            if Some(record) == own || !self.may_have(table, index, record, &key, guard)? {
                continue;
            }
            // Whoever is about to delete it or to change its key must end first.
            if let Request::Wait(event) = self.lock(table, record, LockMode::KeyShare, WaitPolicy::Wait)? {
                return Ok(Claim::Wait(event));
            }
            if self.may_have(table, index, record, &key, guard)? {
                return Ok(Claim::Taken(record));
            }
        }
        Ok(Claim::Free)
    }

    /// Has the record this key, as far as its own changes or the newest commit say?
    fn may_have(
        &self,
        table: &RowTable,
        index: &IndexData,
        record: RecordId,
        key: &[u8],
        guard: &Guard,
    ) -> Result<bool> {
        let current = table.records.record(record)?.current(self.id, guard);
        let Some(row) = current.and_then(Version::row) else { return Ok(false) };
        let mut found = Vec::with_capacity(key.len());
        index.key_of(&table.layout, row, &mut found)?;
        Ok(found == key)
    }

    /// Takes back a record that got no version.
    fn unmake(&mut self, table: &Arc<RowTable>, record: RecordId, row: &[u8], guard: &Guard) -> Result<()> {
        if let Some(index) = &table.primary {
            let mut key = Vec::new();
            index.key_of(&table.layout, row, &mut key)?;
            index.tree.remove(&key, guard);
        }
        let records = Arc::clone(&table.records);
        guard.defer(move || records.arena.give_back(record.0));
        Ok(())
    }

    /// A record nobody knows, locked.
    fn fresh(&mut self, table: &Arc<RowTable>) -> Result<RecordId> {
        let mut locked = Vec::new();
        let record = loop {
            let record = RecordId(table.records.arena.take());
            match self.lock(table, record, LockMode::Update, WaitPolicy::Skip)? {
                Request::Held { .. } => break record,
                // Whoever took back an insert has the lock until its end.
                Request::Skipped | Request::Wait(_) => locked.push(record),
            }
        };
        locked.iter().for_each(|record| table.records.arena.give_back(record.0));
        Ok(record)
    }

    /// Puts a version on top of a record that is locked, and its entries into the secondary indexes.
    fn put(
        &mut self,
        table: &Arc<RowTable>,
        record: RecordId,
        row: Option<Box<[u8]>>,
        made: bool,
        guard: &Guard,
    ) -> Result<()> {
        let slot = table.records.record(record)?;
        let old = slot.current(self.id, guard);
        let first = !matches!(old.map(Version::begin), Some(Begin::By(_)));
        let mut write = Write { table: Arc::clone(table), record, first, made, added: 0, stale: Vec::new() };
        let old = old.and_then(Version::row);
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for (at, index) in table.secondary.iter().enumerate() {
            before.clear();
            after.clear();
            if let Some(old) = old {
                index.key_of(&table.layout, old, &mut before)?;
                RowTable::entry_key(&mut before, record);
            }
            if let Some(row) = &row {
                index.key_of(&table.layout, row, &mut after)?;
                RowTable::entry_key(&mut after, record);
            }
            if before == after {
                continue;
            }
            if row.is_some() && index.tree.insert(&after, record.0, guard).is_ok() {
                write.added |= 1 << at;
            }
            if old.is_some() {
                write.stale.push((at, before.as_slice().into()));
            }
        }
        // Found by its entries only when they are all there; before that it is nobody's business.
        let bytes = slot.push(self.id, row, guard);
        table.records.add_bytes(bytes as i64);
        self.writes.push(write);
        Ok(())
    }

    /// Replaces the row of a record that is locked. A changed primary key makes it another record.
    ///
    /// # Errors
    /// As [`Txn::insert`].
    pub fn update(&mut self, table: &Arc<RowTable>, record: RecordId, row: Box<[u8]>, guard: &Guard) -> Result<Put> {
        let Some(old) = table.records.record(record)?.current(self.id, guard).and_then(Version::row) else {
            return Err(Error::bug(format!("record {} is updated, but has no row", record.0)));
        };
        let mut changes_key = false;
        for index in table.secondary.iter().filter(|index| index.def.unique).chain(&table.primary) {
            let (mut before, mut after) = (Vec::new(), Vec::new());
            index.key_of(&table.layout, old, &mut before)?;
            index.key_of(&table.layout, &row, &mut after)?;
            changes_key |= before != after;
            if before != after && table.primary.as_ref().is_some_and(|primary| Arc::ptr_eq(primary, index)) {
                if let Some(event) = self.delete(table, record, guard)? {
                    return Ok(Put::Wait(event));
                }
                return self.insert(table, row, guard);
            }
        }
        if changes_key {
            if let Request::Wait(event) = self.lock(table, record, LockMode::Update, WaitPolicy::Wait)? {
                return Ok(Put::Wait(event));
            }
            for at in 0..table.secondary.len() {
                match self.claim_secondary(table, at, Some(record), &row, guard)? {
                    Claim::Free => {}
                    Claim::Taken(record) => return Ok(Put::Duplicate { index: Some(at), record }),
                    Claim::Wait(event) => return Ok(Put::Wait(event)),
                }
            }
        }
        self.put(table, record, Some(row), false, guard)?;
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
        self.put(table, record, None, false, guard)?;
        Ok(None)
    }

    /// Where it is now.
    #[must_use]
    pub fn savepoint(&self) -> Savepoint {
        Savepoint { writes: self.writes.len(), locks: self.locks.len() }
    }

    /// Takes back what was changed since, and keeps the locks: a statement that waits is run again.
    ///
    /// # Errors
    /// XX000 only.
    pub fn undo_to(&mut self, savepoint: Savepoint, guard: &Guard) -> Result<()> {
        while self.writes.len() > savepoint.writes {
            if let Some(write) = self.writes.pop() {
                write.undo(self.id, guard)?;
            }
        }
        Ok(())
    }

    /// Takes back what was changed since, and lets go of the locks taken since.
    ///
    /// # Errors
    /// XX000 only.
    pub fn roll_back_to(&mut self, savepoint: Savepoint, guard: &Guard) -> Result<()> {
        self.undo_to(savepoint, guard)?;
        self.pending = None;
        for held in self.locks.drain(savepoint.locks.min(self.locks.len())..).rev() {
            self.store.release(self.id, &held);
        }
        Ok(())
    }

    /// What the log has to say of it: each changed record once, with its row, or without if it was deleted.
    ///
    /// # Errors
    /// XX000 only.
    pub fn changes<'g>(
        &'g self,
        guard: &'g Guard,
        mut change: impl FnMut(TableId, RecordId, Option<&'g [u8]>),
    ) -> Result<()> {
        for write in self.writes.iter().filter(|write| write.first) {
            let slot = write.table.records.record(write.record)?;
            let row = slot.newest(guard).and_then(Version::row);
            let was_there = slot.committed(guard).is_some_and(|version| version.row().is_some());
            if row.is_some() || was_there {
                change(write.table.id(), write.record, row);
            }
        }
        Ok(())
    }

    /// Makes its changes the state since `lsn`. The commit record has that number and cannot fail any more; readers get snapshots at `lsn` or
    /// later only after this.
    ///
    /// # Errors
    /// XX000 only.
    pub fn commit(mut self, lsn: Lsn, guard: &Guard) -> Result<()> {
        let mut garbage = Vec::new();
        for write in &self.writes {
            let slot = write.table.records.record(write.record)?;
            if write.first {
                write.commit(slot, self.id, lsn, guard, &mut garbage)?;
            }
        }
        for write in std::mem::take(&mut self.writes) {
            let Write { table, record, stale, .. } = write;
            garbage.extend(stale.into_iter().map(|(index, key)| Garbage::Entry {
                table: Arc::clone(&table),
                index,
                key,
                record,
            }));
        }
        self.store.discard(lsn, garbage);
        Ok(())
    }
}

impl Write {
    fn undo(self, me: TxnId, guard: &Guard) -> Result<()> {
        let Write { table, record, made, added, .. } = self;
        let slot = table.records.record(record)?;
        if let Some(row) = slot.newest(guard).and_then(Version::row) {
            table.remove_entries(added, record, row, guard)?;
            if let Some(index) = table.primary.as_ref().filter(|_| made) {
                let mut key = Vec::new();
                index.key_of(&table.layout, row, &mut key)?;
                index.tree.remove(&key, guard);
            }
        }
        table.records.add_bytes(-(slot.pop(me, guard) as i64));
        if made {
            let records = Arc::clone(&table.records);
            // Whoever has its number from an index still believes it to be the old row.
            guard.defer(move || records.arena.give_back(record.0));
        }
        Ok(())
    }

    fn commit(&self, slot: &Record, me: TxnId, lsn: Lsn, guard: &Guard, garbage: &mut Vec<Garbage>) -> Result<()> {
        let (table, record) = (Arc::clone(&self.table), self.record);
        let before = slot.committed(guard).and_then(Version::row);
        let after = slot.newest(guard).and_then(Version::row);
        table.records.add_rows(i64::from(after.is_some()) - i64::from(before.is_some()));
        match (before, after) {
            (_, None) => {
                let mut key = Vec::new();
                // A record that was made and deleted by one transaction has its row below the deletion.
                let row = before.or_else(|| slot.versions(guard).find_map(Version::row));
                if let (Some(index), Some(row)) = (&table.primary, row) {
                    index.key_of(&table.layout, row, &mut key)?;
                }
                garbage.push(Garbage::Record { table, record, key: key.into() });
            }
            (Some(_), Some(_)) => garbage.push(Garbage::Versions { table, record }),
            (None, Some(_)) => {}
        }
        self.table.records.add_bytes(-(slot.commit(me, lsn, guard) as i64));
        Ok(())
    }
}

impl Drop for Txn {
    fn drop(&mut self) {
        let guard = &crossbeam_epoch::pin();
        while let Some(write) = self.writes.pop() {
            // It fails only where a record is missing that was there before.
            let undone = write.undo(self.id, guard);
            debug_assert!(undone.is_ok(), "{undone:?}");
        }
        for held in self.locks.drain(..).rev() {
            self.store.release(self.id, &held);
        }
    }
}
