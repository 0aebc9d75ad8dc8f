//! A client's session: its settings, its transaction and what it has open.
//!
//! Always true:
//! - Every statement that writes runs inside a transaction block; without a block of the client, in one that
//!   ends with the statement.
//! - A block is implicit (started by the session) or explicit (started by the client). An error drops an
//!   implicit block and fails an explicit one.

pub(crate) mod activity;
pub(crate) mod advisory_locks;
pub(crate) mod assign;
pub(crate) mod block;
pub(crate) mod bound_rules;
pub(crate) mod clocks;
pub(crate) mod context;
pub(crate) mod cursors;
pub(crate) mod database;
pub(crate) mod facts;
pub(crate) mod inputs;
pub(crate) mod known_calls;
pub(crate) mod modes;
pub(crate) mod notifications;
pub(crate) mod temporary;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use engine::{Isolation, Snapshot, Txn};
use model::{Error, Lsn, Result, SqlState, TableId};
use parking_lot::Mutex;
use parser::ast::OnCommit;
use pg_catalog::facts::Signal;
use relational::files::{FileAccess, Source};
use relational::types::OutputColumn;
use relational::{Executor, ReadContext};
use rows::View;

use self::activity::Entered;
use self::advisory_locks::Held;
use self::block::{Block, TxnStatus};
use self::context::{Pending, StatementContext};
use self::cursors::Cursors;
use self::database::Database;
use self::facts::facts;
use self::modes::Modes;
use self::notifications::{Notification, Outbox, SharedOutbox, Wake};
use crate::encode::TextReader;
use crate::routines::RoutineCalls;
use crate::settings::{Settings, Timeouts};
use crate::statement::Statement;
use crate::threads::StopFlag;

/// One client's settings and transaction.
pub struct Session {
    pub(crate) database: Database,
    pub(crate) user: Arc<str>,
    pub(crate) pid: i32,
    pub(crate) settings: Arc<Settings>,
    /// Settings last reported to the client, and the session settings from which they were taken.
    told: (BTreeMap<String, String>, Arc<Settings>),
    /// LSN of the session's last commit.
    pub(crate) seen: Lsn,
    pub(crate) block: Option<Block>,
    /// Last values of sequences, for `currval` and `lastval`.
    pub(crate) had: engine::SessionSequences,
    pub(crate) notices: Vec<Error>,
    /// Bytes of those that functions raised.
    pub(crate) notice_bytes: usize,
    /// Statements of SQL-level PREPARE.
    pub(crate) named: BTreeMap<String, (Statement, Vec<u32>)>,
    pub(crate) cursors: Cursors,
    /// Temporary tables that commits empty or drop.
    on_commit: Vec<(TableId, OnCommit)>,
    /// Whether a statement is planned again that the row executor runs.
    pub(crate) keeps_executor: bool,
    pub(crate) advisory: Held,
    /// Channels that it listens to, and notifications of its transaction.
    pub(crate) outbox: SharedOutbox,
    /// The cursor of the last statement, if that was a FETCH, and whether all its rows were fetched.
    pub(crate) fetching: Option<(String, Arc<AtomicBool>)>,
    /// Plans and runs what the row executor does not; made by the first statement that needs it.
    executor: Option<Executor>,
    /// Settings requested by `set_config`, applied after the statement.
    pending: Pending,
    /// Source of a running COPY FROM.
    pub(crate) input: Option<Arc<Source>>,
    /// Entry of this session in the registry that other sessions see.
    pub(crate) entered: Entered,
    /// Bodies of routines that the session has called.
    pub(crate) bodies: crate::routines::Bodies,
    /// Calls of routines within each other that are running.
    pub(crate) routine_depth: usize,
    /// Facts by which routines read and write values, and the settings that they are of.
    pub(crate) value_facts: Option<(Arc<Settings>, Arc<scalar::Session>)>,
    /// Rules of the `columns` table that it wrote to last.
    pub(crate) rules: Option<Arc<bound_rules::BoundRules>>,
    /// Functions of triggers that run now.
    pub(crate) trigger_depth: i32,
    /// Iterations and calls of routines so far.
    pub(crate) routine_steps: u32,
    /// Queries within each other whose executor waits for functions.
    pub(crate) served: usize,
    /// Conversions between types, as assignments of PL/pgSQL use them.
    pub(crate) casts: rustc_hash::FxHashMap<(catalog::TypeId, catalog::TypeId, i32), Arc<scalar::Expr>>,
    /// A commit is waiting for the log and can no longer be rolled back.
    decided: Arc<AtomicBool>,
    /// Cancellation flag of statements that compute on the caller's thread.
    pub(crate) stop: Arc<StopFlag>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.roll_back();
        // A result that is still read may share it.
        self.outbox.lock().close();
        if self.settings.temporary().is_some() {
            temporary::drop_all_later(&self.database, &self.user, &self.settings);
        }
    }
}

impl Session {
    /// Settings of a new session of a user.
    pub(crate) fn first_settings(database: &Database, user: &str) -> Arc<Settings> {
        let mut settings = Settings::default();
        // Any name is a valid value.
        let _ = settings.set("session_authorization", user);
        let spill = database.engine().spill_dir();
        settings.fix("data_directory", &spill.parent().unwrap_or(&spill).to_string_lossy());
        Arc::new(settings)
    }

    pub(crate) fn new(database: Database, user: &str, pid: i32, settings: Arc<Settings>) -> Session {
        let told = (settings.reported(), Arc::clone(&settings));
        let user: Arc<str> = user.into();
        let env = Arc::clone(database.engine().env());
        let advisory = Held::new(database.advisory().clone(), pid);
        let outbox = Arc::new(Mutex::new(Outbox::new(database.channels().clone(), pid)));
        let stop = Arc::new(StopFlag::new(env));
        let now_ns = database.engine().env().now_ns();
        let entered = database.sessions().enter(pid, &user, now_ns, Arc::clone(&stop));
        Session {
            database,
            user,
            pid,
            settings,
            told,
            seen: Lsn::ZERO,
            block: None,
            had: engine::SessionSequences::default(),
            notices: Vec::new(),
            notice_bytes: 0,
            named: BTreeMap::new(),
            cursors: Cursors::default(),
            on_commit: Vec::new(),
            keeps_executor: false,
            advisory,
            outbox,
            fetching: None,
            executor: None,
            pending: Pending::default(),
            input: None,
            entered,
            bodies: crate::routines::Bodies::default(),
            routine_depth: 0,
            routine_steps: 0,
            value_facts: None,
            rules: None,
            trigger_depth: 0,
            served: 0,
            casts: rustc_hash::FxHashMap::default(),
            decided: Arc::default(),
            stop,
        }
    }

    /// Flag that cancels a statement which computes on the caller's thread, where dropping its future is not
    /// possible. Other waits end when their future is dropped.
    #[must_use]
    pub fn stop_flag(&self) -> Arc<StopFlag> {
        Arc::clone(&self.stop)
    }

    /// Sets the handler of `pg_cancel_backend` and `pg_terminate_backend` in other sessions. Without it both
    /// only cancel computations.
    pub fn on_signal(&self, on_signal: impl Fn(Signal) + Send + Sync + 'static) {
        self.entered.on_signal(Box::new(on_signal));
    }

    /// Lets the session LISTEN. `on_wake` is called by other sessions, and must not block: take the notifications when the
    /// session is idle.
    pub fn on_wake(&mut self, on_wake: impl Fn(Wake) + Send + Sync + 'static) {
        self.outbox.lock().set_wake(Arc::new(on_wake));
    }

    /// Whether the session may get notifications.
    #[must_use]
    pub fn is_listening(&self) -> bool {
        self.outbox.lock().is_listening()
    }

    /// Takes notifications for the client, oldest first, of at most about `bytes`: none in a transaction.
    ///
    /// # Errors
    /// 54000 if the session must end because it left too many unread.
    pub fn notifications(&mut self, bytes: u64) -> Result<Vec<Arc<Notification>>> {
        let bytes = if self.status() == TxnStatus::Idle { bytes } else { 0 };
        self.outbox.lock().received(bytes)
    }

    /// Text of the running statement, or of the last one.
    #[must_use]
    pub fn statement_text(&self) -> Option<String> {
        self.entered.statement_text()
    }

    /// Duration from which statements are logged; `None`: no statement is logged.
    #[must_use]
    pub fn slow_statement(&self) -> Option<Duration> {
        self.settings.slow_statement()
    }

    /// Database of the session.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// `pg_backend_pid()`
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Set while a commit waits for the log and can no longer be rolled back: cancelling the statement now
    /// would report a wrong outcome.
    #[must_use]
    pub fn commit_decided(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.decided)
    }

    /// Transaction status. An implicit transaction counts as idle.
    #[must_use]
    pub fn status(&self) -> TxnStatus {
        match &self.block {
            Some(block) if block.failed => TxnStatus::Failed,
            Some(block) if !block.implicit => TxnStatus::InBlock,
            _ => TxnStatus::Idle,
        }
    }

    /// Snapshot of the next statement if it names `rows` tables.
    pub(crate) fn newest(&mut self) -> Snapshot {
        match self.txn() {
            Some(txn) => txn.snapshot_newest(),
            None => self.database.engine().begin(Isolation::ReadCommitted, self.seen).snapshot_newest(),
        }
    }

    /// Context of the next statement.
    pub(crate) fn context(&mut self) -> Arc<StatementContext> {
        let snapshot = match self.txn() {
            // A serializable transaction reads the newest commit, whatever tables its statements name.
            Some(txn) if txn.isolation() == Isolation::Serializable => return self.context_of_newest(),
            Some(txn) => txn.snapshot(),
            None => self.database.engine().snapshot(self.seen),
        };
        self.context_of(snapshot, None)
    }

    /// Context of the next statement if it names `rows` tables and is planned by DataFusion. Wait until the
    /// snapshot is durable before returning its rows.
    pub(crate) fn context_of_newest(&mut self) -> Arc<StatementContext> {
        let snapshot = self.newest();
        let view = match self.txn() {
            Some(txn) => txn.rows().view(),
            None => View::of(snapshot.lsn()),
        };
        self.context_of(snapshot, Some(view))
    }

    fn context_of(&mut self, snapshot: Snapshot, rows_view: Option<View>) -> Arc<StatementContext> {
        let txn = self.block.as_ref().and_then(|block| block.txn.as_ref());
        let catalog = Arc::clone(snapshot.catalog());
        let reads = ReadContext {
            is_committed: txn.is_none_or(Txn::is_empty),
            snapshot,
            rows_view,
            zone: self.settings.zone().time_zone().clone(),
        };
        Arc::new(StatementContext {
            reads: Arc::new(reads),
            engine: self.database.engine().clone(),
            now_ns: self.now_ns(),
            statement_ns: self.statement_ns(),
            settings: Arc::clone(&self.settings),
            modes: self.modes(),
            user: Arc::clone(&self.user),
            backend_pid: self.pid,
            trigger_depth: self.trigger_depth,
            database: self.database.clone(),
            cursors: self.cursors.listed(),
            sessions: self.entered.sessions().clone(),
            pending: Arc::clone(&self.pending),
            outbox: Arc::clone(&self.outbox),
            routines: Arc::new(RoutineCalls::new(catalog, Arc::clone(&self.settings))),
            files: FileAccess { root: self.database.files().cloned(), input: self.input.clone() },
        })
    }

    /// Whether the block has neither read nor changed anything.
    pub(crate) fn is_fresh(&self) -> bool {
        self.block.as_ref().is_none_or(|block| block.txn.is_none())
    }

    /// The executor of one statement that the row executor does not run. Return it with [`Session::keep`].
    pub(crate) fn executor(&mut self, context: &StatementContext) -> Executor {
        let mut executor = self.executor.take().unwrap_or_else(|| self.database.runtime().executor());
        executor.begin(&context.reads, &context.settings.time_zone(), context.now_ns);
        executor
    }

    /// Keeps the executor for the next statement, without the snapshot, which would pin memory.
    pub(crate) fn keep(&mut self, mut executor: Executor) {
        executor.end();
        self.executor = Some(executor);
    }

    /// Columns of an open cursor (DECLARE), which is also a portal with that name.
    #[must_use]
    pub fn cursor_columns(&self, name: &str) -> Option<&[OutputColumn]> {
        self.cursors.columns(name)
    }

    /// Closes the cursor with this name, if any.
    pub fn close_cursor(&mut self, name: &str) {
        self.cursors.close(name);
    }

    /// Timeouts of statements and of idle clients.
    #[must_use]
    pub fn timeouts(&self) -> Timeouts {
        self.settings.timeouts()
    }

    /// A setting as SHOW returns it, for example `timezone`, `application_name`.
    #[must_use]
    pub fn setting(&self, name: &str) -> Option<String> {
        self.modes().shown(name).map(str::to_owned).or_else(|| self.settings.get(name))
    }

    /// Modes of the block, or those that the next transaction has by default.
    fn modes(&self) -> Modes {
        match &self.block {
            Some(block) => {
                Modes { isolation: block.isolation, read_only: block.read_only, deferrable: block.deferrable }
            }
            None => Modes {
                isolation: self.settings.isolation(),
                read_only: self.settings.read_only(),
                deferrable: self.settings.deferrable(),
            },
        }
    }

    /// Name of the time zone; its address is constant as long as no setting changes.
    #[must_use]
    pub fn time_zone(&self) -> Arc<str> {
        self.settings.time_zone()
    }

    /// Reads texts of results of this session.
    pub fn text_reader(&mut self) -> TextReader {
        TextReader::new(facts(&self.context()))
    }

    /// Sets a start-up parameter.
    ///
    /// # Errors
    /// 42704, 22023.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let settings = Arc::make_mut(&mut self.settings);
        settings.set(name, value)?;
        settings.start();
        Ok(())
    }

    /// Settings that changed since the last call and must be reported to the client (ParameterStatus), with
    /// their values.
    pub fn changed_settings(&mut self) -> BTreeMap<String, String> {
        self.assign_pending();
        if Arc::ptr_eq(&self.settings, &self.told.1) {
            return BTreeMap::new();
        }
        let now = self.settings.reported();
        let changed = now.iter().filter(|(name, value)| self.told.0.get(*name) != Some(value));
        let changed = changed.map(|(name, value)| (name.clone(), value.clone())).collect();
        self.told = (now, Arc::clone(&self.settings));
        changed
    }

    /// All settings that are reported to a client at start-up (ParameterStatus).
    #[must_use]
    pub fn reported_settings(&self) -> BTreeMap<String, String> {
        self.settings.reported()
    }

    /// Notices raised since the last call. SQLSTATE 00000 is a NOTICE, any other is a WARNING.
    pub fn notices(&mut self) -> Vec<Error> {
        self.notice_bytes = 0;
        std::mem::take(&mut self.notices)
    }

    pub(crate) fn notice(&mut self, text: impl Into<String>) {
        self.notices.push(Error::new(SqlState("00000"), text));
    }

    pub(crate) fn warn(&mut self, state: SqlState, text: impl Into<String>) {
        self.notices.push(Error::new(state, text));
    }
}
