//! Writes that the statement that made them does not see: a statement with changes in WITH reads the state before all of
//! them, as PostgreSQL's do.

use model::TableId;
use rustc_hash::FxHashMap;

use super::Txn;
use crate::table::{RecordId, RowTable};

/// The writes since the statement began, counted when they are asked for.
#[derive(Default)]
pub(super) struct Hidden {
    /// Number of the transaction's writes that are in `versions`, or older than the statement.
    counted: usize,
    /// The number of versions that the statement made of each changed record.
    versions: FxHashMap<(TableId, RecordId), usize>,
}

impl Txn {
    /// Hides later writes of this transaction from its reads. Locks and unique indexes do.
    pub fn hide_changes(&mut self) {
        self.hidden = Some(Box::new(Hidden { counted: self.writes.len(), versions: FxHashMap::default() }));
    }

    /// Reads see all writes of this transaction again.
    pub fn show_changes(&mut self) {
        self.hidden = None;
    }

    /// Whether the transaction wrote the record since [`Txn::hide_changes`]. False without it.
    pub fn has_hidden(&mut self, table: &RowTable, record: RecordId) -> bool {
        self.hidden_versions(table, record) > 0
    }

    /// Number of versions of a record that reads do not see. Free unless changes are hidden.
    pub(super) fn hidden_versions(&mut self, table: &RowTable, record: RecordId) -> usize {
        let Some(hidden) = &mut self.hidden else { return 0 };
        for write in self.writes.iter().skip(hidden.counted) {
            let key = (self.tables.get(write.table).id(), write.record);
            *hidden.versions.entry(key).or_default() += 1;
        }
        hidden.counted = self.writes.len();
        hidden.versions.get(&(table.id(), record)).copied().unwrap_or(0)
    }
}
