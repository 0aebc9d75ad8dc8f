//! The environment that a statement is planned and run in: a snapshot, the session's settings, the transaction's time.

use std::fmt;
use std::sync::Arc;

use engine::Engine;
use model::TableName;
use parking_lot::Mutex;
use pg_catalog::facts::OpenCursor;
use relational::ReadContext;
use relational::files::FileAccess;

use super::activity::Sessions;
use super::database::Database;
use super::modes::Modes;
use super::notifications::SharedOutbox;
use crate::routines::RoutineCalls;
use crate::settings::Settings;

/// The name of the only database.
pub(crate) const DATABASE: &str = model::DATABASE;

/// The environment of one statement. Shared by everything that plans or runs it.
#[derive(Clone)]
pub(crate) struct StatementContext {
    /// For the clock and statistics.
    pub(crate) engine: Engine,
    /// The snapshot that it reads.
    pub(crate) reads: Arc<ReadContext>,
    /// The settings at the start of the statement.
    pub(crate) settings: Arc<Settings>,
    /// Modes of the transaction.
    pub(crate) modes: Modes,
    /// Returned by `current_user`.
    pub(crate) user: Arc<str>,
    /// `now()`: start of the transaction, nanoseconds since 1970 UTC.
    pub(crate) now_ns: i64,
    /// `statement_timestamp()`: start of the statement, nanoseconds since 1970 UTC.
    pub(crate) statement_ns: i64,
    /// `pg_trigger_depth()`: triggers whose functions run the statement, each within the next.
    pub(crate) trigger_depth: i32,
    /// `pg_backend_pid()`.
    pub(crate) backend_pid: i32,
    /// For rarely needed information.
    pub(crate) database: Database,
    /// The session's open cursors, if any.
    pub(crate) cursors: Option<Arc<[OpenCursor]>>,
    /// All connected sessions.
    pub(crate) sessions: Sessions,
    /// Settings changed by `set_config` in the statement, applied before the session's next statement.
    pub(crate) pending: Pending,
    /// The queue in which `pg_notify` puts notifications.
    pub(crate) outbox: SharedOutbox,
    /// Calls of users' functions by executors.
    pub(crate) routines: Arc<RoutineCalls>,
    /// The files that it may use.
    pub(crate) files: FileAccess,
}

/// Name, value, and whether the change is local to the transaction.
pub(crate) type Pending = Arc<Mutex<Vec<(String, String, bool)>>>;

impl StatementContext {
    /// Resolves an unqualified name: the first schema of `search_path` that has a table, view or sequence of this name.
    pub(crate) fn resolve(&self, table: &str) -> Option<TableName> {
        self.settings.search_path().into_iter().map(|schema| TableName { schema, table: table.to_owned() }).find(
            |name| {
                let catalog = self.reads.snapshot.catalog();
                catalog.table(name).is_some()
                    || catalog.row_table(name).is_some()
                    || catalog.view(name).is_some()
                    || catalog.sequence(name).is_some()
            },
        )
    }

    /// The `columns` table with the most similar name, for hints. The result has the schema unless the search path
    /// finds the table.
    pub(crate) fn nearest_table(&self, name: &str) -> Option<String> {
        let catalog = self.reads.snapshot.catalog();
        let near = crate::errors::nearest(name, catalog.tables().map(|table| table.name.table.as_str()))?;
        if self.resolve(near).is_some_and(|found| catalog.table(&found).is_some()) {
            return Some(near.to_owned());
        }
        let found = catalog.tables().find(|table| table.name.table == near)?;
        Some(format!("{}.{near}", found.name.schema))
    }

    /// The schema of new tables: the first of `search_path` that exists.
    pub(crate) fn current_schema(&self) -> Option<String> {
        self.settings.creation_path().into_iter().find(|schema| self.reads.snapshot.catalog().has_schema(schema))
    }
}

impl fmt::Debug for StatementContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StatementContext(lsn: {})", self.reads.snapshot.lsn())
    }
}
