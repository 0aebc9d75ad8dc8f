//! What a catalog function or table may know of the statement it serves.

use std::fmt;
use std::sync::Arc;

use engine::Catalog;
use model::{Error, Result, SqlState, TableId};

/// User, database, settings and catalog of one statement; the catalog is the one of the statement's snapshot.
#[derive(Clone)]
pub struct StatementFacts {
    /// Schemas and tables of the snapshot.
    pub catalog: Arc<Catalog>,
    /// `current_user` and `session_user`.
    pub user: String,
    /// `current_database()`.
    pub database: String,
    /// `pg_backend_pid()`.
    pub backend_pid: i32,
    /// Schemas searched for an unqualified name, `pg_catalog` not among them.
    pub search_path: Vec<String>,
    /// What is asked for seldom.
    pub server: Arc<dyn ServerFacts>,
}

/// What is asked for seldom and would be wasteful to collect for every statement. Everything has a default, so that an
/// embedded use without sessions needs nothing.
pub trait ServerFacts: Send + Sync {
    /// A setting as SHOW gives it; `None` if there is no such setting.
    fn setting(&self, name: &str) -> Option<String> {
        self.settings().into_iter().find(|setting| setting.name.eq_ignore_ascii_case(name)).map(|setting| setting.value)
    }

    /// SET (or SET LOCAL): gives the value as SHOW would.
    ///
    /// # Errors
    /// 42704 for an unknown setting, 22023 for a bad value.
    fn set(&self, name: &str, _value: &str, _local: bool) -> Result<String> {
        Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, format!("set_config(\"{name}\") is not supported here"))
            .with_hint(format!("use SET {name} = …")))
    }

    /// All settings, for `pg_settings`.
    fn settings(&self) -> Vec<Setting> {
        crate::settings::Settings::default().rows()
    }

    /// All sessions, for `pg_stat_activity`.
    fn activity(&self) -> Vec<Activity> {
        Vec::new()
    }

    /// Signals the session with this number; false if there is none.
    fn signal(&self, _pid: i32, _signal: Signal) -> bool {
        false
    }

    /// Bytes of a table on disk and in memory, if known.
    fn table_bytes(&self, _table: TableId) -> Option<i64> {
        None
    }

    /// How large a `rows` table is, if known.
    fn row_table(&self, _table: TableId) -> Option<RowTableSize> {
        None
    }

    /// The number that a sequence handed out last, if it did.
    fn last_value(&self, _sequence: u32) -> Option<i64> {
        None
    }

    /// Advisory locks that are held or waited for, for `pg_locks`.
    fn locks(&self) -> Vec<crate::advisory::Shown> {
        Vec::new()
    }

    /// The session's cursors, for `pg_cursors`.
    fn cursors(&self) -> Vec<OpenCursor> {
        Vec::new()
    }

    /// Commits that wrote since the server started, if known.
    fn commits(&self) -> Option<i64> {
        None
    }

    /// Bytes of the whole database.
    fn database_bytes(&self) -> i64 {
        0
    }

    /// When the server started, nanoseconds since 1970.
    fn started_ns(&self) -> i64 {
        0
    }

    /// The newest LSN, shown as the transaction number.
    fn lsn(&self) -> u64 {
        0
    }
}

/// What one session asks of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Cancel the statement that runs, if one does.
    Cancel,
    /// End the session.
    Terminate,
}

/// How large a `rows` table is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowTableSize {
    /// Rows as of the newest commit.
    pub rows: i64,
    /// Bytes of memory, indexes included.
    pub bytes: i64,
    /// Of these bytes those of each index, by its number.
    pub indexes: Vec<(u32, i64)>,
}

impl RowTableSize {
    /// Bytes of all indexes.
    #[must_use]
    pub fn index_bytes(&self) -> i64 {
        self.indexes.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Bytes of one.
    #[must_use]
    pub fn index(&self, number: u32) -> Option<i64> {
        self.indexes.iter().find(|(own, _)| *own == number).map(|(_, bytes)| *bytes)
    }
}

/// One row of `pg_settings`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// Name.
    pub name: String,
    /// Value, as SHOW prints it.
    pub value: String,
    /// Default.
    pub boot_value: String,
    /// Value to which RESET goes back.
    pub reset_value: String,
}

/// One row of `pg_cursors`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenCursor {
    /// Its name.
    pub name: String,
    /// The statement that declared it.
    pub statement: String,
    /// WITH HOLD.
    pub holdable: bool,
    /// SCROLL.
    pub scrollable: bool,
    /// When it was declared, nanoseconds since 1970.
    pub created_ns: i64,
}

/// One row of `pg_stat_activity`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// The session's number.
    pub pid: i32,
    /// Its user.
    pub user: String,
    /// `application_name`.
    pub application: String,
    /// `active`, `idle`, `idle in transaction`.
    pub state: String,
    /// The statement running, or the last one.
    pub query: String,
    /// Client address, if by TCP.
    pub client: Option<String>,
    /// When the session began, nanoseconds since 1970.
    pub started_ns: i64,
    /// When its transaction began, if it is in one.
    pub transaction_ns: Option<i64>,
    /// When the statement began.
    pub statement_ns: Option<i64>,
    /// When `state` changed last.
    pub changed_ns: i64,
    /// How far its COPY is, if one runs.
    pub copy: Option<CopyActivity>,
}

/// One row of `pg_stat_progress_copy`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyActivity {
    /// COPY FROM, and not COPY TO.
    pub from: bool,
    /// Of a file of the server, and not of the client.
    pub in_file: bool,
    /// Bytes so far.
    pub bytes: i64,
    /// Bytes in all, if that is known; else 0.
    pub bytes_total: i64,
    /// Rows so far.
    pub rows: i64,
}

/// Only the defaults.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoServer;

impl ServerFacts for NoServer {}

impl StatementFacts {
    /// Facts for `catalog` without a session: user and database `millrace`.
    #[must_use]
    pub fn bare(catalog: Arc<Catalog>) -> StatementFacts {
        StatementFacts {
            catalog,
            user: "millrace".to_owned(),
            database: "millrace".to_owned(),
            backend_pid: 1,
            search_path: vec!["public".to_owned()],
            server: Arc::new(NoServer),
        }
    }
}

impl fmt::Debug for StatementFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatementFacts")
            .field("user", &self.user)
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}
