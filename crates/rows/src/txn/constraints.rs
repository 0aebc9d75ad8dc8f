//! Constraints that a transaction checks at its end.
//!
//! The modes are those of SET CONSTRAINTS. What must be checked is not noted: it follows from the rows that the
//! transaction has changed, so that nothing remains of changes that were undone.

use std::sync::Arc;

use crossbeam_epoch::Guard;
use model::{Result, TableId};

use super::Txn;
use crate::record::Version;
use crate::table::{RecordId, RowTable};

/// Modes of deferrable constraints; the default are their initial modes.
#[derive(Clone, Debug, Default)]
pub struct ConstraintModes {
    /// SET CONSTRAINTS ALL; `None` for the initial modes.
    all: Option<bool>,
    /// Constraints set by name, newest last: table, name, whether deferred.
    named: Vec<(TableId, String, bool)>,
}

impl ConstraintModes {
    /// See [`Txn::is_deferred`].
    #[must_use]
    pub fn is_deferred(&self, table: TableId, constraint: &str, initially: bool) -> bool {
        let ConstraintModes { all, named } = self;
        let own = named.iter().find(|(id, name, _)| *id == table && name == constraint).map(|(.., deferred)| *deferred);
        own.or(*all).unwrap_or(initially)
    }
}

/// The rows of a record before and after a transaction; `None` where there is none.
pub type RowChange<'g> = (Option<&'g [u8]>, Option<&'g [u8]>);

impl Txn {
    /// Sets the mode of all deferrable constraints.
    pub fn defer_all(&mut self, deferred: bool) {
        self.constraints.all = Some(deferred);
        self.constraints.named.clear();
    }

    /// Sets the mode of one deferrable constraint of a table.
    pub fn defer(&mut self, table: TableId, constraint: &str, deferred: bool) {
        self.constraints.named.retain(|(id, name, _)| *id != table || name != constraint);
        self.constraints.named.push((table, constraint.to_owned(), deferred));
    }

    /// Whether a deferrable constraint is checked at the end. `initially`: its mode unless SET CONSTRAINTS changed it.
    #[must_use]
    pub fn is_deferred(&self, table: TableId, constraint: &str, initially: bool) -> bool {
        self.constraints.is_deferred(table, constraint, initially)
    }

    /// The modes of constraints, for a savepoint.
    #[must_use]
    pub fn constraint_modes(&self) -> ConstraintModes {
        self.constraints.clone()
    }

    /// Restores the modes of a savepoint. Checks that were left to the end since the savepoint remain noted.
    pub fn restore_constraint_modes(&mut self, modes: ConstraintModes) {
        self.constraints = modes;
    }

    /// Notes that a statement left the check of a changed row of this table to the end.
    pub fn postpone(&mut self, table: TableId) {
        if !self.postponed.contains(&table) {
            self.postponed.push(table);
        }
    }

    /// Whether a check was left to the end.
    #[must_use]
    pub fn has_postponed(&self) -> bool {
        !self.postponed.is_empty() || self.has_unchecked_keys()
    }

    /// Whether the check of a changed row of this table may have been left to the end.
    #[must_use]
    pub fn has_postponed_of(&self, table: TableId) -> bool {
        let is_changed = || self.writes.iter().any(|write| self.tables.get(write.table).id() == table);
        self.postponed.contains(&table) && is_changed()
    }

    /// Records that the transaction changed, by the tables that its commit puts in force.
    #[must_use]
    pub fn changed_records(&self) -> Vec<(Arc<RowTable>, Vec<RecordId>)> {
        let mut found: Vec<(Arc<RowTable>, Vec<RecordId>)> = Vec::new();
        for write in self.writes.iter().filter(|write| write.first) {
            let Some(table) = self.final_version(self.tables.get(write.table)) else { continue };
            match found.iter_mut().rfind(|(known, _)| Arc::ptr_eq(known, table)) {
                Some((_, records)) => records.push(write.record),
                None => found.push((Arc::clone(table), vec![write.record])),
            }
        }
        found
    }

    /// The newest committed row of a record, and the transaction's own.
    ///
    /// # Errors
    /// XX000 (a bug) for a record that does not exist.
    pub fn row_change<'g>(&self, table: &'g RowTable, record: RecordId, guard: &'g Guard) -> Result<RowChange<'g>> {
        let record = table.records.record(record)?;
        let before = record.committed(guard).and_then(Version::row);
        Ok((before, record.current(self.id, guard).and_then(Version::row)))
    }
}
