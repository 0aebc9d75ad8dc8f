//! Visibility: reads by a snapshot, and what they add to the read set of a serializable
//! transaction.

use std::ops::Bound;
use std::sync::Arc;

use crossbeam_epoch::Guard;
use model::{Lsn, Result};

use super::{Held, Txn, Write};
use crate::locks::{LockName, TxnId};
use crate::read_set::DelegatedReads;
use crate::record::{Begin, Version};
use crate::table::{IndexData, RecordId, RowTable};

/// Matches no transaction.
const NOBODY: TxnId = TxnId(0);

/// A statement's snapshot, for reads outside its transaction: by other threads, or without a
/// transaction.
///
/// The owner must make sure that the versions visible to the snapshot are kept.
#[derive(Clone, Debug)]
pub struct View {
    txn: TxnId,
    snapshot: Lsn,
    /// Receives the tables read, if the transaction is serializable.
    noted: Option<Arc<DelegatedReads>>,
}

impl View {
    /// A view of the state as of a commit.
    #[must_use]
    pub fn of(snapshot: Lsn) -> View {
        View { txn: NOBODY, snapshot, noted: None }
    }

    /// Notes in the transaction's read set that the whole table is read. Call it before the first
    /// [`View::row`]. Takes a lock if the transaction is serializable; free otherwise.
    pub fn note_table(&self, table: &Arc<RowTable>) {
        if let Some(noted) = &self.noted {
            noted.note(table);
        }
    }

    /// Returns the row of a record, if the snapshot shows one. The table must have been noted.
    #[must_use]
    pub fn row<'g>(&self, table: &'g RowTable, record: RecordId, guard: &'g Guard) -> Option<&'g [u8]> {
        table.records.arena.get(record.0)?.seen(self.txn, self.snapshot, guard).and_then(Version::row)
    }

    /// Returns the record with this primary key, and its row; otherwise like [`View::row`].
    #[must_use]
    pub fn get<'g>(&self, table: &'g RowTable, key: &[u8], guard: &'g Guard) -> Option<(RecordId, &'g [u8])> {
        let record = table.primary.as_ref()?.tree.get(key, guard).map(RecordId)?;
        self.row(table, record, guard).map(|row| (record, row))
    }

    /// Returns the row of an entry of a secondary index, if the snapshot shows one with the entry's
    /// key; otherwise like [`View::row`]. `key` is a scratch buffer.
    ///
    /// # Errors
    /// XX001 if the row is damaged.
    pub fn row_of_entry<'g>(
        &self,
        table: &'g RowTable,
        index: &IndexData,
        (entry, record): (&[u8], RecordId),
        key: &mut Vec<u8>,
        guard: &'g Guard,
    ) -> Result<Option<&'g [u8]>> {
        let Some(row) = self.row(table, record, guard) else { return Ok(None) };
        Ok(has_key(table, index, row, entry, key)?.then_some(row))
    }
}

impl Txn {
    /// A view of the current statement's snapshot. It shows the transaction's own writes, including
    /// later ones, only if there are writes already.
    #[must_use]
    pub fn view(&self) -> View {
        let noted = self.reads.as_ref().map(|reads| reads.delegated());
        let txn = if self.is_empty() { NOBODY } else { self.id };
        View { txn, snapshot: self.snapshot, noted }
    }

    /// Returns the row that the snapshot shows, own writes included.
    ///
    /// # Errors
    /// XX000 (a bug) for a record that does not exist.
    pub fn read<'g>(&mut self, table: &'g RowTable, record: RecordId, guard: &'g Guard) -> Result<Option<&'g [u8]>> {
        let version = self.visible_version(table, record, guard)?;
        if let Some(reads) = &mut self.reads
            && !is_own(version, self.id)
        {
            reads.note_record(table, record);
        }
        Ok(version.and_then(Version::row))
    }

    /// Like [`Txn::read`], for scans that call [`Txn::note_range`] or [`Txn::note_table`]
    /// themselves.
    ///
    /// # Errors
    /// See [`Txn::read`].
    pub fn read_walked<'g>(
        &mut self,
        table: &'g RowTable,
        record: RecordId,
        guard: &'g Guard,
    ) -> Result<Option<&'g [u8]>> {
        Ok(self.visible_version(table, record, guard)?.and_then(Version::row))
    }

    fn visible_version<'g>(
        &mut self,
        table: &'g RowTable,
        record: RecordId,
        guard: &'g Guard,
    ) -> Result<Option<&'g Version>> {
        let Some(slot) = table.records.arena.get(record.0) else { return table.records.nothing(record) };
        let seen = match self.hidden_versions(table, record) {
            0 => slot.seen(self.id, self.snapshot, guard),
            hidden => slot.seen_below(self.id, self.snapshot, hidden, guard),
        };
        let Some(version) = seen else { return Ok(None) };
        self.note_seen(version);
        Ok(Some(version))
    }

    /// Notes a scanned index range whose entries were read by [`Txn::read_walked`] or
    /// [`Txn::read_entry`]. Call it for every scan, before or after, with the range actually
    /// covered. Free unless the transaction is serializable.
    pub fn note_range(&mut self, table: &RowTable, index: &Arc<IndexData>, from: Bound<&[u8]>, to: Bound<&[u8]>) {
        if let Some(reads) = &mut self.reads {
            reads.note_range(table, index, from, to);
        }
    }

    /// Like [`Txn::note_range`], for all records of a table.
    pub fn note_table(&mut self, table: &RowTable) {
        if let Some(reads) = &mut self.reads {
            reads.note_table(table);
        }
    }

    /// Notes that the transaction learnt whether a unique index has a key.
    pub(super) fn note_key(&mut self, table: &RowTable, index: &Arc<IndexData>, key: &[u8]) {
        if let Some(reads) = &mut self.reads {
            reads.note_key(table, index, key);
        }
    }

    /// Validates the read set: every read would return the same now, as far as commits are known. A
    /// no-op below SERIALIZABLE. Call it before the commit of a transaction with writes: finally
    /// under the commit lock, and once before, to keep that part short. The snapshot must still be
    /// held.
    ///
    /// # Errors
    /// 40001 with the conflicting read; XX000.
    ///
    /// # Cost
    /// For each record written since the snapshot or the previous call, a binary search in the
    /// table's read set; with ranges, also a key of each of its versions. Proportional to the
    /// writes of others, not to the reads.
    pub fn validate(&mut self) -> Result<()> {
        self.reads.as_mut().map_or(Ok(()), |reads| reads.check(&self.store.recent))
    }

    pub(super) fn note_seen(&mut self, version: &Version) {
        if let Begin::Committed(lsn) = version.begin() {
            self.newest_seen = self.newest_seen.max(lsn);
        }
    }

    /// Returns the record with this primary key, and its row.
    ///
    /// # Errors
    /// See [`Txn::read`].
    pub fn get<'g>(
        &mut self,
        table: &'g RowTable,
        key: &[u8],
        guard: &'g Guard,
    ) -> Result<Option<(RecordId, &'g [u8])>> {
        let Some(index) = &table.primary else { return Ok(None) };
        let record = index.tree.get(key, guard).map(RecordId);
        let version = record.map_or(Ok(None), |record| self.visible_version(table, record, guard))?;
        let found = record.zip(version.and_then(Version::row));
        if let Some(reads) = &mut self.reads
            && !is_own(version, self.id)
        {
            match found {
                Some((record, _)) => reads.note_record(table, record),
                // A later insert of the key may use another record, so note the key.
                None => reads.note_key(table, index, key),
            }
        }
        Ok(found)
    }

    /// Returns the row of an entry of a secondary index, if the snapshot shows one with the entry's
    /// key. The caller notes the scan by [`Txn::note_range`].
    ///
    /// # Errors
    /// See [`Txn::read`].
    pub fn read_entry<'g>(
        &mut self,
        table: &'g RowTable,
        index: &IndexData,
        entry: &[u8],
        record: RecordId,
        guard: &'g Guard,
    ) -> Result<Option<&'g [u8]>> {
        let Some(row) = self.read_walked(table, record, guard)? else { return Ok(None) };
        Ok(has_key(table, index, row, entry, &mut self.key)?.then_some(row))
    }
}

/// Read-set entries from writes and locks, and reporting of writes to other transactions.
impl Txn {
    /// Notes that a key is taken, before the error is returned. If by its read set the transaction
    /// saw the key as free, fails with 40001, the actual cause, instead.
    pub(super) fn note_taken(
        &mut self,
        table: &RowTable,
        index: &Arc<IndexData>,
        key: &[u8],
        record: RecordId,
        guard: &Guard,
    ) -> Result<()> {
        let Some(reads) = &mut self.reads else { return Ok(()) };
        let newest = table.records.record(record)?.committed(guard).map(Version::begin);
        if matches!(newest, Some(Begin::Committed(lsn)) if lsn > self.snapshot) {
            reads.check_one(table.id(), record, guard)?;
        }
        reads.note_key(table, index, key);
        Ok(())
    }

    /// Notes, before a write is undone, that the unique keys of its row were free: the transaction
    /// has observed that.
    pub(super) fn note_undone(&mut self, write: &Write, guard: &Guard) -> Result<()> {
        let Some(reads) = &mut self.reads else { return Ok(()) };
        let table = self.tables.get(write.table);
        let newest = table.records.record(write.record)?.newest(guard);
        let Some(row) = newest.and_then(Version::row) else { return Ok(()) };
        let mut key = Vec::new();
        for index in table.primary.iter().chain(&table.secondary).filter(|index| index.def.is_key()) {
            key.clear();
            if !index.key_of(&table.layout, row, &mut key)? {
                reads.note_key(table, index, &key);
            }
        }
        Ok(())
    }

    /// Notes a row seen under its lock, when the lock is released early.
    pub(super) fn note_unlocked(&mut self, held: &Held, guard: &Guard) -> Result<()> {
        if let (Some(reads), LockName::Record { record, .. }, Some(table)) = (&mut self.reads, held.name, held.table) {
            let table = self.tables.get(table);
            // A record created and undone had no committed row.
            if table.records.record(RecordId(record))?.committed(guard).is_some() {
                reads.note_record(table, RecordId(record));
            }
        }
        Ok(())
    }

    /// Records the writes of this commit for serializable transactions, if there are any.
    pub(super) fn publish_writes(&self, lsn: Lsn) {
        let own = self.reads.as_ref().is_some_and(|reads| reads.is_registered());
        if !self.store.recent.is_needed(own) {
            return;
        }
        let written = self.writes.iter().filter(|write| write.first);
        let records = written.map(|write| (self.tables.get(write.table).id(), write.record)).collect();
        self.store.recent.note(lsn, records, self.versions.iter().map(|(table, _)| *table).collect());
    }
}

/// Whether transaction `txn` made the version.
fn is_own(version: Option<&Version>, txn: TxnId) -> bool {
    version.is_some_and(|version| version.begin() == Begin::By(txn))
}

/// Whether `row` has the key of `entry`, an entry of a secondary index. `key` is a scratch buffer.
fn has_key(table: &RowTable, index: &IndexData, row: &[u8], entry: &[u8], key: &mut Vec<u8>) -> Result<bool> {
    key.clear();
    index.key_of(&table.layout, row, key)?;
    Ok(entry.len() == key.len() + size_of::<u64>() && entry.starts_with(key))
}
