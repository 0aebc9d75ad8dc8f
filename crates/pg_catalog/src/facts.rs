//! Facts of the statement, the session and the server for system tables and functions. The caller provides them.

use std::fmt;
use std::sync::Arc;

use catalog::SettingRow;
use engine::Catalog;
use model::{Error, Result, SqlState, TableId};

/// User, database, settings and catalog of one statement. The catalog is that of the statement's snapshot.
#[derive(Clone)]
pub struct StatementFacts {
    /// Schemas and tables of the snapshot.
    pub catalog: Arc<Catalog>,
    /// `current_user` and `session_user`.
    pub user: String,
    /// `current_database()`.
    pub database: String,
    /// `pg_trigger_depth()`.
    pub trigger_depth: i32,
    /// `pg_backend_pid()`.
    pub backend_pid: i32,
    /// Schemas searched for an unqualified name, that of temporary objects first; without `pg_catalog`.
    pub search_path: Vec<String>,
    /// Schemas of `search_path` as it is set, in which new objects may be.
    pub creation_path: Vec<String>,
    /// Schema of the session's temporary objects, if it has any.
    pub temporary: Option<String>,
    /// Server facts, collected on demand.
    pub server: Arc<dyn ServerFacts>,
}

/// Facts that few statements need and that are too costly to collect for each. The defaults describe a database without
/// sessions, settings and tables.
pub trait ServerFacts: Send + Sync {
    /// Value of a setting as SHOW prints it; `None` for an unknown setting.
    fn setting(&self, name: &str) -> Option<String> {
        self.settings().into_iter().find(|setting| setting.name.eq_ignore_ascii_case(name)).map(|setting| setting.value)
    }

    /// SET (or SET LOCAL). Returns the value as SHOW prints it.
    ///
    /// # Errors
    /// 42704 for an unknown setting, 22023 for an invalid value.
    fn set(&self, name: &str, _value: &str, _local: bool) -> Result<String> {
        Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, format!("set_config(\"{name}\") is not supported here"))
            .with_hint(format!("use SET {name} = …")))
    }

    /// NOTIFY, when the transaction commits.
    ///
    /// # Errors
    /// 22023 for a wrong name or a long payload; 54000 and 53200 beyond the limits of memory.
    fn notify(&self, channel: &str, _payload: &str) -> Result<()> {
        Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, format!("pg_notify(\"{channel}\") is not supported here"))
            .with_hint(format!("use NOTIFY {channel}")))
    }

    /// The channels that the session listens to.
    fn listening(&self) -> Vec<String> {
        Vec::new()
    }

    /// Part of the memory of notifications that is in use, from 0 to 1.
    fn notifications_used(&self) -> f64 {
        0.0
    }

    /// All settings, for `pg_settings`.
    fn settings(&self) -> Vec<Setting> {
        Vec::new()
    }

    /// All sessions, for `pg_stat_activity`.
    fn activity(&self) -> Vec<Activity> {
        Vec::new()
    }

    /// Signals the session with this PID; false if there is none.
    fn signal(&self, _pid: i32, _signal: Signal) -> bool {
        false
    }

    /// Bytes of a table on disk and in memory, if known.
    fn table_bytes(&self, _table: TableId) -> Option<i64> {
        None
    }

    /// Size of a `rows` table, if known.
    fn row_table(&self, _table: TableId) -> Option<RowTableSize> {
        None
    }

    /// The last number of a sequence, and whether it was handed out; else it is the next one.
    fn sequence_state(&self, _sequence: u32) -> Option<(i64, bool)> {
        None
    }

    /// Last number that a sequence handed out, if any.
    fn last_value(&self, sequence: u32) -> Option<i64> {
        self.sequence_state(sequence).filter(|(_, is_called)| *is_called).map(|(last, _)| last)
    }

    /// Advisory locks held or waited for, for `pg_locks`.
    fn locks(&self) -> Vec<AdvisoryLock> {
        Vec::new()
    }

    /// The session's cursors, for `pg_cursors`.
    fn cursors(&self) -> Vec<OpenCursor> {
        Vec::new()
    }

    /// Commits that wrote, since the server started, if known.
    fn commits(&self) -> Option<i64> {
        None
    }

    /// Bytes of the whole database.
    fn database_bytes(&self) -> i64 {
        0
    }

    /// Start time of the server, nanoseconds since 1970.
    fn started_ns(&self) -> i64 {
        0
    }

    /// Newest LSN, shown as the transaction number.
    fn lsn(&self) -> u64 {
        0
    }
}

/// Request of one session to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Cancel the running statement, if any.
    Cancel,
    /// End the session.
    Terminate,
}

/// Size of a `rows` table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowTableSize {
    /// Rows as of the newest commit.
    pub rows: i64,
    /// Bytes of memory, indexes included.
    pub bytes: i64,
    /// Bytes of each index, by its number; included in `bytes`.
    pub indexes: Vec<(u32, i64)>,
}

impl RowTableSize {
    /// Bytes of all indexes.
    #[must_use]
    pub fn index_bytes(&self) -> i64 {
        self.indexes.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Bytes of one index; `None` for an unknown number.
    #[must_use]
    pub fn index(&self, number: u32) -> Option<i64> {
        self.indexes.iter().find(|(own, _)| *own == number).map(|(_, bytes)| *bytes)
    }
}

/// One row of `pg_settings`.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    /// Name.
    pub name: String,
    /// Value, as SHOW prints it.
    pub value: String,
    /// Default value.
    pub boot_value: String,
    /// Value after RESET.
    pub reset_value: String,
    /// Type, limits and category; `None` for a user-defined setting, such as `my.setting`.
    pub row: Option<&'static SettingRow>,
}

/// One row of `pg_locks`: an advisory lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdvisoryLock {
    /// Key of the lock.
    pub key: AdvisoryKey,
    /// PID of the session that holds the lock or waits for it.
    pub pid: i32,
    /// Mode held or requested: `ShareLock` or `ExclusiveLock`.
    pub mode: &'static str,
    /// True if the session holds the lock, false if it waits for it.
    pub granted: bool,
}

/// Key of an advisory lock. Keys of one number and keys of two numbers are separate key spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AdvisoryKey {
    /// A `bigint` key.
    One(i64),
    /// A key of two `integer`s.
    Pair(i32, i32),
}

/// One row of `pg_cursors`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenCursor {
    /// Name of the cursor.
    pub name: String,
    /// The statement that declared it.
    pub statement: String,
    /// WITH HOLD.
    pub holdable: bool,
    /// SCROLL.
    pub scrollable: bool,
    /// Time of DECLARE, nanoseconds since 1970.
    pub created_ns: i64,
}

/// One row of `pg_stat_activity`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Process ID of the session, a number unique in the server.
    pub pid: i32,
    /// User of the session.
    pub user: String,
    /// `application_name`.
    pub application: String,
    /// `active`, `idle`, `idle in transaction`.
    pub state: String,
    /// Running statement, or the last one.
    pub query: String,
    /// Client address, if by TCP.
    pub client: Option<String>,
    /// Start of the session, nanoseconds since 1970.
    pub started_ns: i64,
    /// Start of the transaction, nanoseconds since 1970; `None` outside of a transaction.
    pub transaction_ns: Option<i64>,
    /// Start of the statement, nanoseconds since 1970.
    pub statement_ns: Option<i64>,
    /// Last change of `state`, nanoseconds since 1970.
    pub changed_ns: i64,
    /// Progress of a running COPY.
    pub copy: Option<CopyActivity>,
}

/// One row of `pg_stat_progress_copy`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyActivity {
    /// COPY FROM rather than COPY TO.
    pub from: bool,
    /// Copies a file of the server rather than the client's stream.
    pub in_file: bool,
    /// Bytes processed.
    pub bytes: i64,
    /// Total bytes, 0 if unknown.
    pub bytes_total: i64,
    /// Rows processed.
    pub rows: i64,
}

impl fmt::Debug for StatementFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatementFacts")
            .field("user", &self.user)
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}
