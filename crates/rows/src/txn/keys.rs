//! Key lookups that ignore the snapshot, for foreign keys.

use std::sync::Arc;

use crossbeam_epoch::Guard;
use model::Result;

use super::{LockMode, Locked, Request, Txn, WaitPolicy};
use crate::record::Version;
use crate::table::{IndexData, RecordId, RowTable};

impl Txn {
    /// Whether the transaction's own writes or the newest commits have a row with this unique key.
    /// `index`: a position among the secondary indexes; `None`: the primary index. Not noted in the
    /// read set: the caller has locked the row that had the key, so that no other transaction can
    /// take it.
    ///
    /// # Errors
    /// XX000 (a bug) only.
    pub fn has_key(&self, table: &RowTable, index: Option<usize>, key: &[u8], guard: &Guard) -> Result<bool> {
        let Some(index) = table.index(index) else { return Ok(false) };
        for record in index.holders(table, key, guard) {
            if self.may_have(table, index, record, key, guard)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the snapshot shows a row with this unique key; otherwise like [`Txn::has_key`].
    ///
    /// # Errors
    /// XX000 (a bug) only.
    pub fn saw_key(&self, table: &RowTable, index: Option<usize>, key: &[u8], guard: &Guard) -> Result<bool> {
        let Some(index) = table.index(index) else { return Ok(false) };
        for record in index.holders(table, key, guard) {
            let seen = table.records.record(record)?.seen(self.id, self.snapshot, guard);
            let Some(row) = seen.and_then(Version::row) else { continue };
            let mut found = Vec::with_capacity(key.len());
            index.key_of(&table.layout, row, &mut found)?;
            if found == key {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Locks the row with this unique key, regardless of the snapshot, for a foreign key check.
    ///
    /// # Errors
    /// 40P01.
    pub fn lock_key_row<'g>(
        &mut self,
        table: &'g Arc<RowTable>,
        index: Option<usize>,
        key: &[u8],
        mode: LockMode,
        guard: &'g Guard,
    ) -> Result<Locked<'g>> {
        let Some(data) = table.index(index) else { return Ok(Locked::Gone) };
        if let Some(event) = self.lock_table_shared(table)? {
            return Ok(Locked::Wait(event));
        }
        for record in data.holders(table, key, guard) {
            // A concurrent insert may be about to commit the first row of a record. Through a
            // secondary index it does not concern this key: skip it.
            if index.is_some() && !self.may_have(table, data, record, key, guard)? {
                continue;
            }
            if let Request::Wait { event, .. } = self.lock(table, record, mode, WaitPolicy::Wait)? {
                return Ok(Locked::Wait(event));
            }
            if let Some(current) = table.records.record(record)?.current(self.id, guard)
                && let Some(row) = current.row()
                && self.may_have(table, data, record, key, guard)?
            {
                self.note_seen(current);
                return Ok(Locked::Row { row, changed: false });
            }
        }
        // A missing row cannot be locked: note its absence instead.
        self.note_key(table, data, key);
        Ok(Locked::Gone)
    }

    /// Whether the record's newest committed version, or the transaction's own, has this key.
    pub(super) fn may_have(
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
}
