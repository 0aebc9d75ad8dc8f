//! Keys of deferrable PRIMARY KEY and UNIQUE constraints. A write does not claim such a key, so rows of a transaction may share
//! one; the key is claimed when the constraint is checked.
//!
//! Always true:
//! - A transaction holds the lock of each key that it has checked until it ends, or until a rollback takes back the check.
//!   Every other transaction that adds the key must lock it for its own check, and sees this one's commit or rollback then. So
//!   no two committed rows share a key.
//! - Nothing is committed before all its keys are checked.

use std::sync::Arc;

use crossbeam_epoch::Guard;
use env::Event;
use model::{Result, RowIndex, TableId};

use super::{Claim, Txn, WaitPolicy};
use crate::record::Version;
use crate::table::{IndexData, Keys, RecordId, RowTable};

/// Result of [`Txn::check_keys`].
#[derive(Debug)]
pub enum KeysChecked {
    /// The keys are unique.
    Unique,
    /// Another row has the key of a changed one.
    Duplicate {
        /// The table as the commit puts it in force.
        table: Arc<RowTable>,
        /// Position among its secondary indexes.
        index: usize,
        /// The record with the changed row.
        record: RecordId,
    },
    /// Wait for the event, then check again.
    Wait(Event),
}

impl Txn {
    /// Whether a write gives a record a deferrable key. Locks the key if no other transaction has it: the first one that
    /// writes a key is then the one that keeps it, although it may be checked later.
    pub(super) fn note_deferrable_keys(&mut self, table: &RowTable, before: &Keys, after: &Keys) -> Result<bool> {
        let mut found = false;
        for (at, index) in table.secondary.iter().enumerate().filter(|(_, index)| index.def.is_deferrable()) {
            let key = after.key(at);
            if key.is_empty() || after.has_null(at) || before.key(at) == key {
                continue;
            }
            found = true;
            self.lock_key(index, key, WaitPolicy::Skip)?;
        }
        Ok(found)
    }

    /// Whether the transaction has written deferrable keys that are still to be checked.
    #[must_use]
    pub fn has_unchecked_keys(&self) -> bool {
        self.writes[self.checked..].iter().any(|write| write.unchecked)
    }

    /// Like [`Txn::has_unchecked_keys`], of one table.
    #[must_use]
    pub fn has_unchecked_keys_of(&self, table: TableId) -> bool {
        let is_of = |number| self.tables.get(number).id() == table;
        self.writes[self.checked..].iter().any(|write| write.unchecked && is_of(write.table))
    }

    /// Checks the deferrable keys that the transaction has written since the write at position `from`
    /// ([`Txn::changes_len`]). Compares them with the newest committed rows and its own, whatever the snapshot shows.
    ///
    /// - `due`: whether to check the index of a table.
    ///
    /// # Errors
    /// 40P01; 40001 if a serializable transaction saw that a key was free and it no longer is.
    pub fn check_keys(
        &mut self,
        from: usize,
        due: &dyn Fn(&RowTable, &RowIndex) -> bool,
        guard: &Guard,
    ) -> Result<KeysChecked> {
        assert!(self.checked <= self.writes.len(), "BUG: more checked writes than writes");
        if self.checked == self.writes.len() {
            return Ok(KeysChecked::Unique);
        }
        let from = from.max(self.checked);
        // The first of these is one that an earlier check left out.
        let mut is_complete = self.writes[self.checked..from].iter().all(|write| !write.unchecked);
        let mut last: Option<(u32, Option<Arc<RowTable>>)> = None;
        for at in from..self.writes.len() {
            let (number, record) = (self.writes[at].table, self.writes[at].record);
            if !self.writes[at].unchecked {
                continue;
            }
            let table = match last.take() {
                Some((known, table)) if known == number => table,
                _ => self.final_version(self.tables.get(number)).cloned(),
            };
            for (position, index) in table.iter().flat_map(|table| table.secondary.iter().enumerate()) {
                let Some(table) = table.as_ref().filter(|_| index.def.is_deferrable()) else { continue };
                if !due(table, &index.def) {
                    is_complete = false;
                    continue;
                }
                match self.check_key(table, index, record, guard)? {
                    Claim::Free => {}
                    Claim::Taken(_) => {
                        return Ok(KeysChecked::Duplicate { table: Arc::clone(table), index: position, record });
                    }
                    Claim::Wait(event) => return Ok(KeysChecked::Wait(event)),
                }
            }
            last = Some((number, table));
        }
        if is_complete {
            self.checked = self.writes.len();
        }
        Ok(KeysChecked::Unique)
    }

    /// Claims the key that a record has now in a deferrable index; it may have none any more.
    fn check_key(
        &mut self,
        table: &Arc<RowTable>,
        index: &Arc<IndexData>,
        record: RecordId,
        guard: &Guard,
    ) -> Result<Claim> {
        assert!(!index.def.unique, "BUG: a check of index {}, whose keys are claimed by each write", index.def.id);
        let current = table.records.record(record)?.current(self.id, guard);
        let Some(row) = current.and_then(Version::row) else { return Ok(Claim::Free) };
        let mut key = Vec::new();
        if index.key_of(&table.layout, row, &mut key)? {
            return Ok(Claim::Free);
        }
        self.claim_secondary(table, index, Some(record), &key, guard)
    }
}
