//! Writes that the statement that made them does not see: a statement with changes in WITH, or with functions that write,
//! reads the state before all of them, as PostgreSQL's do.

use model::TableId;
use rustc_hash::{FxHashMap, FxHashSet};

use super::Txn;
use crate::table::{RecordId, RowTable};

/// The writes since the statement began, counted when they are asked for.
#[derive(Default)]
pub(super) struct Hidden {
    /// Number of the transaction's writes that are in `versions`, or older than the statement.
    counted: usize,
    /// The number of versions that the statement made of each changed record.
    versions: FxHashMap<(TableId, RecordId), usize>,
    /// The records among them that functions wrote, which the statement called.
    by_calls: FxHashSet<(TableId, RecordId)>,
}

impl Txn {
    /// Hides later writes of this transaction from its reads, but not from locks and unique indexes.
    pub fn hide_changes(&mut self) {
        self.hidden.get_or_insert_default().counted = self.writes.len();
    }

    /// Hides the writes after the first `seen` ones, which functions of the statement made, and later ones.
    pub fn hide_calls(&mut self, seen: usize) {
        let mut hidden = Hidden { counted: seen, ..Hidden::default() };
        hidden.count(self);
        hidden.by_calls = hidden.versions.keys().copied().collect();
        self.hidden = Some(Box::new(hidden));
    }

    /// Number of writes of this transaction.
    #[must_use]
    pub fn writes(&self) -> usize {
        self.writes.len()
    }

    /// Whether reads do not see some writes.
    #[must_use]
    pub fn hides_changes(&self) -> bool {
        self.hidden.is_some()
    }

    /// Whether a function that the statement called wrote the record ([`Txn::hide_calls`]).
    #[must_use]
    pub fn is_written_by_call(&self, table: &RowTable, record: RecordId) -> bool {
        self.hidden.as_ref().is_some_and(|hidden| hidden.by_calls.contains(&(table.id(), record)))
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
        let Some(mut hidden) = self.hidden.take() else { return 0 };
        hidden.count(self);
        let versions = hidden.versions.get(&(table.id(), record)).copied().unwrap_or(0);
        self.hidden = Some(hidden);
        versions
    }
}

impl Hidden {
    /// Counts the writes since the last time.
    fn count(&mut self, txn: &Txn) {
        for write in txn.writes.iter().skip(self.counted) {
            let key = (txn.tables.get(write.table).id(), write.record);
            *self.versions.entry(key).or_default() += 1;
        }
        self.counted = txn.writes.len();
    }
}
