//! What one statement is planned against: a snapshot, the session's settings, the transaction's time.

use std::fmt;
use std::sync::Arc;

use ::rows::View;
use engine::{Engine, Snapshot};
use model::{Error, Result, TableName};
use parking_lot::Mutex;

use crate::database::Database;
use crate::files::{FileRoot, INSUFFICIENT_PRIVILEGE, Source};
use crate::functions::OpenCursor;
use crate::sessions::Sessions;
use crate::settings::Settings;

/// The database clients connect to.
pub(crate) const DATABASE: &str = "millrace";

/// What one statement sees. Shared by everything that plans or runs it.
#[derive(Clone)]
pub(crate) struct StatementContext {
    /// For the clock and statistics.
    pub(crate) engine: Engine,
    /// Own uncommitted writes and DDL included.
    pub(crate) snapshot: Snapshot,
    /// Has its transaction written nothing?
    pub(crate) is_committed: bool,
    /// What is read of `rows` tables; `None` for statements that name none.
    pub(crate) rows_view: Option<View>,
    /// As they are when the statement starts.
    pub(crate) settings: Arc<Settings>,
    /// Shown by `current_user`.
    pub(crate) user: Arc<str>,
    /// `now()`: when the transaction began, nanoseconds since 1970 UTC.
    pub(crate) now_ns: i64,
    /// `pg_backend_pid()`.
    pub(crate) backend_pid: i32,
    /// For what is asked of it seldom.
    pub(crate) database: Database,
    /// The session's cursors, if it has any.
    pub(crate) cursors: Option<Arc<[OpenCursor]>>,
    /// Everybody who is connected.
    pub(crate) sessions: Sessions,
    /// SETs that functions of the statement ask for (`set_config`), carried out before the session's next statement.
    pub(crate) pending: Pending,
    /// Where statements may name files, if anywhere.
    pub(crate) files: Option<Arc<FileRoot>>,
    /// What a running COPY FROM reads.
    pub(crate) input: Option<Arc<Source>>,
}

/// Name, value, and whether only for the transaction.
pub(crate) type Pending = Arc<Mutex<Vec<(String, String, bool)>>>;

impl StatementContext {
    /// The name of the table that `table` means without a schema: the first of `search_path` that has one.
    pub(crate) fn resolve(&self, table: &str) -> Option<TableName> {
        self.settings.search_path().into_iter().map(|schema| TableName { schema, table: table.to_owned() }).find(
            |name| {
                let catalog = self.snapshot.catalog();
                catalog.table(name).is_some() || catalog.row_table(name).is_some()
            },
        )
    }

    /// The columns table whose name is nearest to `name`, for hints: with its schema unless the search path finds it.
    pub(crate) fn nearest_table(&self, name: &str) -> Option<String> {
        let catalog = self.snapshot.catalog();
        let near = crate::errors::nearest(name, catalog.tables().map(|table| table.name.table.as_str()))?;
        if self.resolve(near).is_some_and(|found| catalog.table(&found).is_some()) {
            return Some(near.to_owned());
        }
        let found = catalog.tables().find(|table| table.name.table == near)?;
        Some(format!("{}.{near}", found.name.schema))
    }

    /// The folder in which statements may name files.
    ///
    /// # Errors
    /// 42501 if there is none.
    pub(crate) fn files(&self) -> Result<&Arc<FileRoot>> {
        self.files.as_ref().ok_or_else(|| {
            let text = "this server reads and writes no files for its clients";
            Error::new(INSUFFICIENT_PRIVILEGE, text)
                .with_hint("start it with --files DIR, or use COPY FROM STDIN and COPY TO STDOUT (psql: \\copy)")
        })
    }

    /// The schema new tables go to: the first of `search_path` that exists.
    pub(crate) fn current_schema(&self) -> Option<String> {
        self.settings.search_path().into_iter().find(|schema| self.snapshot.catalog().has_schema(schema))
    }
}

impl fmt::Debug for StatementContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StatementContext(lsn: {})", self.snapshot.lsn())
    }
}

/// Where a scan that is being planned finds its statement. An extension of DataFusion's configuration; empty between statements, so
/// that an idle session holds no snapshot.
#[derive(Default)]
pub(crate) struct Slot(Mutex<Option<Arc<StatementContext>>>);

impl Slot {
    pub(crate) fn set(&self, context: Option<Arc<StatementContext>>) {
        *self.0.lock() = context;
    }

    pub(crate) fn get(&self) -> Option<Arc<StatementContext>> {
        self.0.lock().clone()
    }
}
