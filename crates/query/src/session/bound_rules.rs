//! The rules of the `columns` table that a session wrote to last.

use std::sync::Arc;

use compiled::RowRules;
use model::TableRef;

use crate::settings::Settings;

/// Defaults and constraints of one version of a `columns` table, bound with settings.
pub(crate) struct BoundRules {
    pub(crate) table: TableRef,
    pub(crate) settings: Arc<Settings>,
    pub(crate) rows: RowRules,
}

impl BoundRules {
    /// Whether they are those of a version of a table, with settings.
    pub(crate) fn are_of(&self, table: &TableRef, settings: &Arc<Settings>) -> bool {
        let is_same = Arc::ptr_eq(&self.table, table) || *self.table == **table;
        is_same && Arc::ptr_eq(&self.settings, settings) && self.rows.are_current()
    }
}
