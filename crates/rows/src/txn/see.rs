//! What a transaction sees, and what of that is noted so that its commit can be validated.

use std::ops::Bound;
use std::sync::Arc;

use crossbeam_epoch::Guard;
use model::{Lsn, Result};

use super::{Held, Txn, Write};
use crate::locks::{LockName, TxnId};
use crate::reads::Elsewhere;
use crate::record::{Begin, Version};
use crate::table::{IndexData, RecordId, RowTable};

/// No transaction has this number.
const NOBODY: TxnId = TxnId(0);

/// What a statement reads, for those who read beside its transaction: other threads, or without any.
///
/// Whoever has one sees to it that versions its snapshot shows are kept.
#[derive(Clone, Debug)]
pub struct View {
    txn: TxnId,
    snapshot: Lsn,
    /// Where a serializable transaction is told what is read for it.
    noted: Option<Arc<Elsewhere>>,
}

impl View {
    /// Of a commit, without anybody's uncommitted changes.
    #[must_use]
    pub fn of(snapshot: Lsn) -> View {
        View { txn: NOBODY, snapshot, noted: None }
    }

    /// Tells the transaction that the whole table will be read. To be called before the first [`View::row`]; costs a lock where the
    /// transaction is serializable, else nothing.
    pub fn note_table(&self, table: &Arc<RowTable>) {
        if let Some(noted) = &self.noted {
            noted.note(table);
        }
    }

    /// The row of a record, if there is one. Of a table that was noted.
    #[must_use]
    pub fn row<'g>(&self, table: &'g RowTable, record: RecordId, guard: &'g Guard) -> Option<&'g [u8]> {
        table.records.arena.get(record.0)?.seen(self.txn, self.snapshot, guard).and_then(Version::row)
    }

    /// The record with this primary key, and its row. As [`View::row`].
    #[must_use]
    pub fn get<'g>(&self, table: &'g RowTable, key: &[u8], guard: &'g Guard) -> Option<(RecordId, &'g [u8])> {
        let record = table.primary.as_ref()?.tree.get(key, guard).map(RecordId)?;
        self.row(table, record, guard).map(|row| (record, row))
    }

    /// The row that an entry of a secondary index leads to, if the snapshot shows one with the entry's key. As [`View::row`]; `key` is
    /// scratch.
    ///
    /// # Errors
    /// XX001 for a row that is damaged.
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
    /// What its present statement reads. If nothing was changed so far, nor is what will be.
    #[must_use]
    pub fn view(&self) -> View {
        let noted = self.reads.as_ref().map(|reads| reads.elsewhere());
        let txn = if self.is_empty() { NOBODY } else { self.id };
        View { txn, snapshot: self.snapshot, noted }
    }

    /// The row as the snapshot shows it, own changes included.
    ///
    /// # Errors
    /// XX000 for a record that was never made.
    pub fn read<'g>(&mut self, table: &'g RowTable, record: RecordId, guard: &'g Guard) -> Result<Option<&'g [u8]>> {
        let version = self.see(table, record, guard)?;
        if let Some(reads) = &mut self.reads
            && !is_of(version, self.id)
        {
            reads.note_record(table, record);
        }
        Ok(version.and_then(Version::row))
    }

    /// As [`Txn::read`], for who walks an index or a table and says so by [`Txn::note_range`] or [`Txn::note_table`].
    ///
    /// # Errors
    /// As [`Txn::read`].
    pub fn read_walked<'g>(
        &mut self,
        table: &'g RowTable,
        record: RecordId,
        guard: &'g Guard,
    ) -> Result<Option<&'g [u8]>> {
        Ok(self.see(table, record, guard)?.and_then(Version::row))
    }

    fn see<'g>(&mut self, table: &'g RowTable, record: RecordId, guard: &'g Guard) -> Result<Option<&'g Version>> {
        let Some(slot) = table.records.arena.get(record.0) else { return table.records.nothing(record) };
        let Some(version) = slot.seen(self.id, self.snapshot, guard) else { return Ok(None) };
        self.note_seen(version);
        Ok(Some(version))
    }

    /// Notes that entries of an index were walked, each read by [`Txn::read_walked`] or [`Txn::read_entry`]. To be called for every walk,
    /// before or after it, as far as it went; costs nothing unless the transaction is serializable.
    pub fn note_range(&mut self, table: &RowTable, index: &Arc<IndexData>, from: Bound<&[u8]>, to: Bound<&[u8]>) {
        if let Some(reads) = &mut self.reads {
            reads.note_range(table, index, from, to);
        }
    }

    /// As [`Txn::note_range`], of all records of a table.
    pub fn note_table(&mut self, table: &RowTable) {
        if let Some(reads) = &mut self.reads {
            reads.note_table(table);
        }
    }

    /// Notes that somebody was told whether a unique index has a key.
    pub(super) fn note_key(&mut self, table: &RowTable, index: &Arc<IndexData>, key: &[u8]) {
        if let Some(reads) = &mut self.reads {
            reads.note_key(table, index, key);
        }
    }

    /// Would everything that was read, as far as commits are known, be read the same by now? Nothing at levels below SERIALIZABLE. To be asked
    /// before a commit that changes anything: at last when no other commit can come between; before that too, so that little is left to
    /// look at then. The snapshot must still be held.
    ///
    /// # Errors
    /// 40001 if not, with what it was; XX000.
    ///
    /// # Cost
    /// For each record that others wrote since the snapshot, or since it was asked last, a search among the records that were read of its
    /// table; where ranges were read, also a key of each of its versions. No more than the writes of others cost, whatever was read.
    pub fn validate(&mut self) -> Result<()> {
        self.reads.as_mut().map_or(Ok(()), |reads| reads.check(&self.store.recent))
    }

    pub(super) fn note_seen(&mut self, version: &Version) {
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
        let record = index.tree.get(key, guard).map(RecordId);
        let version = record.map_or(Ok(None), |record| self.see(table, record, guard))?;
        let found = record.zip(version.and_then(Version::row));
        if let Some(reads) = &mut self.reads
            && !is_of(version, self.id)
        {
            match found {
                Some((record, _)) => reads.note_record(table, record),
                // When it comes, it may come in another record.
                None => reads.note_key(table, index, key),
            }
        }
        Ok(found)
    }

    /// The row that an entry of a secondary index leads to, if the snapshot shows one with the entry's key. Who walks the index says so by
    /// [`Txn::note_range`].
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
        let Some(row) = self.read_walked(table, record, guard)? else { return Ok(None) };
        Ok(has_key(table, index, row, entry, &mut self.key)?.then_some(row))
    }
}

/// What of its own changes and locks a serializable transaction has learnt from, and what it tells others.
impl Txn {
    /// A serializable transaction is about to be told that a key is taken. If by what it has read the key was free, it learns the real
    /// reason instead.
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

    /// That a change went through was seen, though it is taken back: the unique keys of its row were free.
    pub(super) fn note_undone(&mut self, write: &Write, guard: &Guard) -> Result<()> {
        let Some(reads) = &mut self.reads else { return Ok(()) };
        let table = self.tables.get(write.table);
        let newest = table.records.record(write.record)?.newest(guard);
        let Some(row) = newest.and_then(Version::row) else { return Ok(()) };
        let mut key = Vec::new();
        for index in table.primary.iter().chain(&table.secondary).filter(|index| index.def.unique) {
            key.clear();
            if !index.key_of(&table.layout, row, &mut key)? {
                reads.note_key(table, index, &key);
            }
        }
        Ok(())
    }

    /// What was seen of a row under its lock counts as read when the lock goes.
    pub(super) fn note_unlocked(&mut self, held: &Held, guard: &Guard) -> Result<()> {
        if let (Some(reads), LockName::Record { record, .. }, Some(table)) = (&mut self.reads, held.name, held.table) {
            let table = self.tables.get(table);
            // Nothing was there of a record that was made and taken back.
            if table.records.record(RecordId(record))?.committed(guard).is_some() {
                reads.note_record(table, RecordId(record));
            }
        }
        Ok(())
    }

    /// Leaves word of what was written for serializable transactions, if there are any.
    pub(super) fn tell_readers(&self, lsn: Lsn) {
        let own = self.reads.as_ref().is_some_and(|reads| reads.has_begun());
        if !self.store.recent.is_wanted(own) {
            return;
        }
        let written = self.writes.iter().filter(|write| write.first);
        let records = written.map(|write| (self.tables.get(write.table).id(), write.record)).collect();
        self.store.recent.note(lsn, records, self.versions.iter().map(|(table, _)| *table).collect());
    }
}

/// Did this transaction make the version?
fn is_of(version: Option<&Version>, txn: TxnId) -> bool {
    version.is_some_and(|version| version.begin() == Begin::By(txn))
}

/// Is an entry of a secondary index the one that this row has? `key` is scratch.
fn has_key(table: &RowTable, index: &IndexData, row: &[u8], entry: &[u8], key: &mut Vec<u8>) -> Result<bool> {
    key.clear();
    index.key_of(&table.layout, row, key)?;
    Ok(entry.len() == key.len() + size_of::<u64>() && entry.starts_with(key))
}
