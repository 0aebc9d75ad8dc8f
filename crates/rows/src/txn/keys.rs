//! Rows by their keys as of now, whatever the snapshot shows: what foreign keys ask for.

use std::sync::Arc;

use crossbeam_epoch::Guard;
use model::Result;

use super::{LockMode, Locked, Request, Txn, WaitPolicy};
use crate::record::Version;
use crate::table::{IndexData, RecordId, RowTable};

impl Txn {
    /// Has a row this key of a unique index by now, whatever the snapshot shows? `index` is a position among the secondary ones; `None` is
    /// the primary one. It is not noted as read: who asks has the row locked that had the key before, and nobody else can take it.
    ///
    /// # Errors
    /// XX000 only.
    pub fn has_key(&self, table: &RowTable, index: Option<usize>, key: &[u8], guard: &Guard) -> Result<bool> {
        let Some(index) = table.index(index) else { return Ok(false) };
        for record in index.holders(table, key, guard) {
            if self.may_have(table, index, record, key, guard)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Does the snapshot show a row with this key of a unique index? As [`Txn::has_key`] otherwise.
    ///
    /// # Errors
    /// XX000 only.
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

    /// Locks the row that has this key by now, as [`Txn::has_key`] finds it: what foreign keys ask for.
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
        if let Some(event) = self.share(table)? {
            return Ok(Locked::Wait(event));
        }
        for record in data.holders(table, key, guard) {
            // Others may be about to give a record its first row; of a secondary index that is none of ours.
            if index.is_some() && !self.may_have(table, data, record, key, guard)? {
                continue;
            }
            if let Request::Wait(event) = self.lock(table, record, mode, WaitPolicy::Wait)? {
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
        // What is not there cannot be locked.
        self.note_key(table, data, key);
        Ok(Locked::Gone)
    }

    /// Has the record this key, as far as its own changes or the newest commit say?
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
