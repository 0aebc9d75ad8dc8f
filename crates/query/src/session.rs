//! A client session: settings, transaction, and the execution of statements from text to outcome.
//!
//! Always true:
//! - Every statement that writes runs inside a transaction block; without a block of the client, in one that
//!   ends with the statement.
//! - A block is implicit (started by the session) or explicit (started by the client). An error drops an
//!   implicit block and fails an explicit one.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::rows::View;
use engine::{Isolation, Snapshot, Txn};
use futures::{Stream, StreamExt};
use model::{Error, Lsn, Result, SqlState};
use parser::ast::{self as tree, Statement as Change};

use crate::activity::{Entered, Running};
use crate::advisory_locks::{Calls, Held};
use crate::compute::{compute, computing};
use crate::context::{Pending, StatementContext};
use crate::copy::{CopyForm, CopyIn};
use crate::cursor::{CursorStatement, Cursors};
use crate::database::Database;
use crate::insert::InsertPlan;
use crate::maintenance::Maintenance;
use crate::pg_sleep::Sleep;
use crate::plan_cache::Texts;
use crate::query::QueryPlan;
use crate::rows::{self, Arguments, Bound, ChangePlan, Executed, FeedPlan, Messages, RowsPlan};
use crate::settings::{Settings, Timeouts};
use crate::statement::{Command, Parsed, Statement};
use crate::stop_flag::StopFlag;
use crate::transaction::Modes;
use pg_catalog::facts::Signal;
use relational::files::{FileAccess, Source};
use relational::results::{Batches, Chunk};
use relational::types::{OutputColumn, Value};
use relational::{Executor, ReadContext};

/// Transaction status of a session, as in ReadyForQuery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxnStatus {
    /// 'I'
    Idle,
    /// 'T'
    InBlock,
    /// 'E'
    Failed,
}

/// Result of executing a statement.
pub enum Outcome {
    /// A result; the command tag is `tag` and, for SELECT, the number of rows.
    Rows {
        /// Columns announced when the statement was prepared.
        columns: Vec<OutputColumn>,
        /// Rows, produced when the stream is polled; dropping the stream cancels the query.
        batches: Batches,
        /// "SELECT", "SHOW", "EXPLAIN", or the complete tag of a data change with RETURNING.
        tag: Cow<'static, str>,
    },
    /// A finished command with its tag ("INSERT 0 3", "CREATE TABLE", "BEGIN" …).
    Command {
        /// Complete command tag.
        tag: String,
    },
    /// `COPY … FROM STDIN`, which expects data.
    CopyIn(Box<CopyIn>),
    /// `COPY … TO STDOUT`: encoded chunks. The tag is "COPY n" with the number of rows.
    CopyOut {
        /// Format of the chunks.
        form: CopyForm,
        /// Number of columns per row.
        columns: usize,
        /// Encoded rows; a chunk contains only complete rows.
        chunks: Pin<Box<dyn Stream<Item = Result<Chunk>> + Send>>,
    },
    /// The empty statement.
    Empty,
}

impl Outcome {
    pub(crate) fn command(tag: impl Into<String>) -> Outcome {
        Outcome::Command { tag: tag.into() }
    }
}

/// A parsed and typed statement. [`Session::execute`] plans it again if the catalog has changed.
#[derive(Clone)]
pub struct Prepared(pub(crate) Arc<PreparedStatement>);

pub(crate) struct PreparedStatement {
    pub(crate) statement: Statement,
    /// Types that the client declared.
    pub(crate) declared: Vec<u32>,
    pub(crate) parameters: Vec<u32>,
    pub(crate) columns: Option<Vec<OutputColumn>>,
    pub(crate) plan: Plan,
}

/// Plan made when the statement was prepared.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for a statement, and a box would cost an allocation for each"
)]
pub(crate) enum Plan {
    Query(QueryPlan),
    Insert(Box<InsertPlan>),
    Rows(Box<RowsPlan>),
    /// EXECUTE of this statement.
    Execute(Prepared),
    /// DECLARE of a cursor for this query.
    Declare(Prepared),
    Feed(Box<FeedPlan>),
    Advisory(Box<Calls>),
    /// Planned when it is executed.
    Other,
}

/// OIDs of the parameters, columns of the result, and the plan.
type Planned = (Vec<u32>, Option<Vec<OutputColumn>>, Plan);

impl Plan {
    /// Whether the plan accepts several rows of parameters and inserts one row for each.
    pub(crate) fn takes_rows(&self) -> bool {
        match self {
            Plan::Rows(plan) => plan.takes_rows(),
            Plan::Insert(plan) => plan.takes_rows(),
            _ => false,
        }
    }
}

impl Prepared {
    /// Whether the statement accepts this many values.
    fn takes(&self, values: usize) -> bool {
        match values.checked_rem(self.0.parameters.len()) {
            Some(0) if self.0.plan.takes_rows() => values > 0,
            _ => values == self.0.parameters.len(),
        }
    }

    /// OIDs of `$1 ..`.
    #[must_use]
    pub fn parameters(&self) -> &[u32] {
        &self.0.parameters
    }

    /// Columns of the result; `None` for statements without one.
    #[must_use]
    pub fn columns(&self) -> Option<&[OutputColumn]> {
        self.0.columns.as_deref()
    }

    /// The statement before planning.
    #[must_use]
    pub fn statement(&self) -> &Statement {
        &self.0.statement
    }

    /// Whether the statement runs on the row executor, which runs it synchronously and returns its rows as
    /// messages ([`Session::execute_into`]).
    #[must_use]
    pub fn is_compiled(&self) -> bool {
        match &self.0.plan {
            Plan::Rows(_) => true,
            Plan::Execute(inner) => inner.is_compiled(),
            _ => false,
        }
    }

    /// Whether the statement must not run inside a transaction. No implicit transaction may be started around
    /// it either.
    #[must_use]
    pub fn stands_alone(&self) -> bool {
        matches!(self.0.statement.0.command, Command::Maintenance(Maintenance::Vacuum { .. }))
    }
}

impl Executed {
    /// Counts the statement as running until its last row is fetched.
    fn holding(self, running: Running) -> Executed {
        match self {
            Executed::Outcome(Outcome::Rows { columns, batches, tag }) => {
                let batches = batches.inspect(move |_| _ = &running);
                Executed::Outcome(Outcome::Rows { columns, batches: Box::pin(batches), tag })
            }
            Executed::Stream { chunks, shows_own } => {
                let chunks = chunks.inspect(move |_| _ = &running);
                Executed::Stream { chunks: Box::pin(chunks), shows_own }
            }
            executed => executed,
        }
    }
}

/// Result of [`Session::begin_execute`].
pub enum Begun {
    /// The statement is complete.
    Done(Executed),
    /// [`Session::finish_execute`] must complete the statement.
    Unfinished(Unfinished),
}

/// A statement that must wait, or that cannot run synchronously.
pub struct Unfinished {
    running: Running,
    /// The statement has a transaction of its own.
    alone: bool,
    stage: Stage,
}

enum Stage {
    /// Before execution.
    Start,
    Rows(rows::Unfinished),
    /// The statement's own transaction must be committed.
    Commit(Executed),
}

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
    /// Statements of SQL-level PREPARE.
    pub(crate) named: BTreeMap<String, (Statement, Vec<u32>)>,
    pub(crate) cursors: Cursors,
    pub(crate) advisory: Held,
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
    /// A commit is waiting for the log and can no longer be rolled back.
    decided: Arc<AtomicBool>,
    /// Plan cache.
    pub(crate) texts: Texts,
    /// Cancellation flag of statements that compute on the caller's thread.
    pub(crate) stop: Arc<StopFlag>,
}

/// A transaction block.
pub(crate) struct Block {
    /// Started by the first statement that reads or writes.
    pub(crate) txn: Option<Txn>,
    pub(crate) isolation: Isolation,
    pub(crate) read_only: bool,
    pub(crate) deferrable: bool,
    pub(crate) failed: bool,
    pub(crate) implicit: bool,
    /// The block belongs to a single statement that is still running (COPY FROM STDIN).
    pub(crate) single: bool,
    /// `now()`
    pub(crate) started_ns: i64,
    /// Settings that ROLLBACK restores.
    before: Arc<Settings>,
    /// Settings that COMMIT keeps, without SET LOCAL.
    pub(crate) after: Arc<Settings>,
    /// Savepoints, outermost first.
    pub(crate) savepoints: Vec<Mark>,
}

/// A savepoint.
pub(crate) struct Mark {
    pub(crate) name: String,
    /// Absent if nothing had been read or written.
    place: Option<engine::Savepoint>,
    read_only: bool,
    settings: Arc<Settings>,
    after: Arc<Settings>,
}

impl Block {
    /// Whether the transaction cannot write at any time. A mode that is set after a savepoint ends with the savepoint.
    fn only_reads(&self) -> bool {
        self.savepoints.first().map_or(self.read_only, |mark| mark.read_only)
    }

    /// Removes savepoint number `at` and later ones; their changes are kept, their access mode is not.
    pub(crate) fn release(&mut self, at: usize) {
        if let Some(mark) = self.savepoints.get(at) {
            self.read_only = mark.read_only;
        }
        self.savepoints.truncate(at);
    }

    /// Rolls back to the last savepoint, or everything if there is none.
    fn undo_to_mark(&mut self) -> Result<()> {
        match (self.savepoints.last().map(|mark| mark.place.as_ref()), &mut self.txn) {
            (Some(Some(place)), Some(txn)) => txn.roll_back_to(place),
            // The snapshot was taken after the savepoint and is kept.
            (Some(None), Some(txn)) if self.isolation != Isolation::ReadCommitted => {
                txn.roll_back_to(&engine::Savepoint::default())
            }
            _ => {
                self.txn = None;
                Ok(())
            }
        }
    }

    /// Whether rolling back takes milliseconds.
    fn is_large(&self) -> bool {
        self.txn.as_ref().is_some_and(Txn::is_large)
    }
}

impl Session {
    pub(crate) fn new(database: Database, user: &str, pid: i32) -> Session {
        let mut settings = Settings::default();
        // Any name is a valid value.
        let _ = settings.set("session_authorization", user);
        let spill = database.engine().spill_dir();
        settings.fix("data_directory", &spill.parent().unwrap_or(&spill).to_string_lossy());
        let settings = Arc::new(settings);
        let told = (settings.reported(), Arc::clone(&settings));
        let user: Arc<str> = user.into();
        let env = Arc::clone(database.engine().env());
        let advisory = Held::new(database.advisory().clone(), pid);
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
            named: BTreeMap::new(),
            cursors: Cursors::default(),
            advisory,
            fetching: None,
            executor: None,
            pending: Pending::default(),
            input: None,
            entered,
            decided: Arc::default(),
            texts: Texts::default(),
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

    /// Plans a statement. `types`: OIDs the client declared, 0 = infer. An error fails the block.
    ///
    /// # Errors
    /// Errors of PostgreSQL's parse analysis: 42P01, 42703, 42883 …; 25P02 in a failed block.
    pub async fn prepare(&mut self, statement: &Statement, types: &[u32]) -> Result<Prepared> {
        self.settle();
        self.check_block(statement)?;
        let result = self.plan_statement(statement, types);
        if result.is_err() {
            self.fail();
        }
        result
    }

    /// Columns of an open cursor (DECLARE), which is also a portal with that name.
    #[must_use]
    pub fn cursor_columns(&self, name: &str) -> Option<&[OutputColumn]> {
        self.cursors.columns(name)
    }

    /// The statement to bind: a FETCH gets the current columns of its cursor, which may be another one than
    /// when it was prepared. Returns `None` if nothing changed.
    #[must_use]
    pub fn current(&mut self, prepared: &Prepared) -> Option<Prepared> {
        let Command::Cursor(cursor) = &prepared.0.statement.0.command else { return None };
        let CursorStatement::Fetch { name, only_move: false, .. } = &**cursor else { return None };
        let columns = self.cursors.columns(name)?;
        if prepared.columns() == Some(columns) {
            return None;
        }
        self.plan_statement(&prepared.0.statement, &[]).ok()
    }

    /// Closes the cursor with this name, if any.
    pub fn close_cursor(&mut self, name: &str) {
        self.cursors.close(name);
    }

    /// Executes a statement. Rows of a SELECT are produced when the stream is polled and see the snapshot of
    /// this call. An error in a block fails the block; report a later error of the stream with
    /// [`Session::fail`].
    ///
    /// # Errors
    /// Any error of the statement, with an SQLSTATE.
    pub async fn execute(&mut self, prepared: &Prepared, values: &[Value]) -> Result<Outcome> {
        match self.execute_into(prepared, Arguments::Values(values), None).await? {
            Executed::Outcome(outcome) => Ok(outcome),
            Executed::Sent { .. } | Executed::Few { .. } | Executed::Stream { .. } => {
                Err(Error::bug("rows went out that nobody asked for"))
            }
        }
    }

    /// Reads the values of a compiled statement as the client sent them, in text or binary format; `None` if
    /// the statement is not compiled and takes [`Value`]s.
    ///
    /// # Errors
    /// Class 22 for a value that cannot be read, with the number of its parameter.
    pub fn bind<'a>(
        &self,
        prepared: &Prepared,
        given: impl Iterator<Item = (pg::Form, Option<&'a [u8]>)>,
    ) -> Result<Option<Bound>> {
        match &prepared.0.plan {
            Plan::Rows(plan) => plan.bind(given, &self.settings, self.now_ns()).map(Some),
            _ => Ok(None),
        }
    }

    /// Like [`Session::execute`], but a compiled statement appends all its rows to `messages`, if given.
    /// After an error, remove what it appended.
    ///
    /// # Errors
    /// Those of [`Session::execute`].
    pub async fn execute_into(
        &mut self,
        prepared: &Prepared,
        arguments: Arguments<'_>,
        mut messages: Option<Messages<'_>>,
    ) -> Result<Executed> {
        match self.begin_execute(prepared, arguments, messages.as_mut())? {
            Begun::Done(executed) => Ok(executed),
            Begun::Unfinished(unfinished) => self.finish_execute(prepared, arguments, messages, unfinished).await,
        }
    }

    /// Executes a statement as far as possible without waiting. Most compiled statements run to completion;
    /// otherwise [`Session::finish_execute`] must follow.
    ///
    /// # Errors
    /// As [`Session::execute_into`].
    pub fn begin_execute(
        &mut self,
        prepared: &Prepared,
        arguments: Arguments<'_>,
        messages: Option<&mut Messages<'_>>,
    ) -> Result<Begun> {
        self.settle();
        self.check_block(&prepared.0.statement)?;
        if !prepared.takes(arguments.len()) {
            self.fail();
            return Err(Error::new(
                SqlState::PROTOCOL_VIOLATION,
                format!("{} values for {} parameters", arguments.len(), prepared.0.parameters.len()),
            ));
        }
        let now_ns = self.database.engine().env().now_ns();
        let running = self.entered.begin(&prepared.0.statement, &self.settings, now_ns);
        let compiled = matches!(prepared.0.plan, Plan::Rows(_));
        let alone = self.block.is_none() && (compiled || writes(&prepared.0.statement.0));
        if alone {
            self.begin_at(true, self.settings.isolation(), now_ns);
        }
        let begun = self.begin_run(prepared, arguments, messages, alone);
        if begun.is_err() {
            self.fail();
        }
        match begun {
            Ok(Err(stage)) => Ok(Begun::Unfinished(Unfinished { running, alone, stage })),
            Ok(Ok(executed @ Executed::Outcome(Outcome::Rows { .. }))) => {
                self.entered.set_block(self.status(), self.block.as_ref().map(|block| block.started_ns));
                Ok(Begun::Done(executed.holding(running)))
            }
            Ok(Ok(executed)) => {
                running.end(self.status(), self.block.as_ref().map(|block| block.started_ns));
                Ok(Begun::Done(executed))
            }
            Err(error) => {
                running.end(self.status(), self.block.as_ref().map(|block| block.started_ns));
                Err(error)
            }
        }
    }

    /// Returns the result, or the stage at which the statement must wait.
    fn begin_run(
        &mut self,
        prepared: &Prepared,
        arguments: Arguments<'_>,
        messages: Option<&mut Messages<'_>>,
        alone: bool,
    ) -> Result<std::result::Result<Executed, Stage>> {
        let Plan::Rows(plan) = &prepared.0.plan else {
            if matches!(prepared.0.plan, Plan::Query(_))
                && let Some(executed) = crate::query::at_once(self, prepared, arguments.values()?, messages.is_some())?
            {
                return Ok(Ok(executed));
            }
            if let Plan::Insert(plan) = &prepared.0.plan {
                let begun = crate::insert::at_once(self, plan, arguments.values()?)?.map(Executed::Outcome);
                // An INSERT with a transaction of its own must be committed.
                return Ok(begun
                    .ok_or(Stage::Start)
                    .and_then(|done| if alone { Err(Stage::Commit(done)) } else { Ok(done) }));
            }
            let begun = match &prepared.0.statement.0.command {
                Command::Transaction(command) => crate::transaction::at_once(self, command)?,
                _ => None,
            };
            return Ok(begun.map(Executed::Outcome).ok_or(Stage::Start));
        };
        let executed = match rows::begin(self, prepared, plan, arguments, messages)? {
            rows::Begun::Done(executed) => executed,
            rows::Begun::Unfinished(pending) => return Ok(Err(Stage::Rows(pending))),
        };
        if alone && !self.end_unchanged() {
            return Ok(Err(Stage::Commit(executed)));
        }
        Ok(Ok(executed))
    }

    /// Continues a statement that [`Session::begin_execute`] started, with the same arguments.
    ///
    /// # Errors
    /// As [`Session::execute_into`].
    pub async fn finish_execute(
        &mut self,
        prepared: &Prepared,
        arguments: Arguments<'_>,
        messages: Option<Messages<'_>>,
        unfinished: Unfinished,
    ) -> Result<Executed> {
        let Unfinished { running, alone, stage } = unfinished;
        let result = self.finish_run(prepared, arguments, messages, alone, stage).await;
        if result.is_err() {
            self.fail();
        }
        self.entered.set_block(self.status(), self.block.as_ref().map(|block| block.started_ns));
        result.map(|executed| executed.holding(running))
    }

    async fn finish_run(
        &mut self,
        prepared: &Prepared,
        arguments: Arguments<'_>,
        messages: Option<Messages<'_>>,
        alone: bool,
        stage: Stage,
    ) -> Result<Executed> {
        let executed = match (&prepared.0.plan, stage) {
            (_, Stage::Commit(executed)) => executed,
            (Plan::Rows(plan), Stage::Rows(pending)) => {
                rows::finish(self, prepared, plan, arguments, messages, pending).await?
            }
            (Plan::Rows(_), Stage::Start) | (_, Stage::Rows(_)) => {
                return Err(Error::bug("a statement begun as another"));
            }
            // Rare statements have boxed futures, because the size of this future is that of its largest
            // branch.
            (Plan::Feed(plan), _) => {
                computing(Box::pin(crate::rows::feed(self, prepared, plan, arguments.values()?))).await?
            }
            (Plan::Execute(inner), _) => {
                let Command::Execute(execute) = &prepared.0.statement.0.command else {
                    return Err(Error::bug("an EXECUTE that is none"));
                };
                Box::pin(crate::prepared_statements::execute(self, inner, &execute.name, &execute.args, messages))
                    .await?
            }
            (_, Stage::Start) => {
                let is_short = is_short(prepared, arguments);
                let work = Box::pin(self.dispatch(prepared, arguments.values()?));
                Executed::Outcome(if is_short { work.await? } else { computing(work).await? })
            }
        };
        if !alone {
            return Ok(executed);
        }
        if let (Executed::Outcome(Outcome::CopyIn(_)), Some(block)) = (&executed, &mut self.block) {
            block.single = true;
        } else {
            self.end_implicit().await?;
        }
        Ok(executed)
    }

    async fn dispatch(&mut self, prepared: &Prepared, values: &[Value]) -> Result<Outcome> {
        let statement = &prepared.0.statement;
        match &prepared.0.plan {
            Plan::Query(_) => return crate::query::execute(self, prepared, values).await,
            Plan::Advisory(calls) => return Box::pin(calls.execute(self, values)).await,
            Plan::Insert(plan) => return crate::insert::execute(self, prepared, plan, values).await,
            Plan::Rows(_) | Plan::Feed(_) | Plan::Execute(_) => {
                return Err(Error::bug("a compiled statement among the others"));
            }
            Plan::Declare(query) => {
                let Command::Cursor(cursor) = &statement.0.command else {
                    return Err(Error::bug("a DECLARE that is none"));
                };
                return Box::pin(crate::cursor::declare(self, (&**cursor, statement.sql()), query, values)).await;
            }
            Plan::Other => {}
        }
        match &statement.0.command {
            Command::Query(query) => match (Sleep::of(query), rows::Call::of(query)) {
                (Some(sleep), _) => sleep.execute(values).await,
                (None, Some(call)) => Box::pin(call.execute(self, &statement.0)).await,
                (None, None) => Err(Error::bug("a query without a plan")),
            },
            Command::Change(Change::Delete(delete)) => {
                crate::delete::execute(self, &statement.0, delete, values, &prepared.0).await
            }
            Command::Change(_) => Err(Error::bug("a change without a plan")),
            Command::Explain(_) => crate::explain::execute(self, prepared, values).await,
            Command::Prepare(prepare) => {
                Box::pin(crate::prepared_statements::prepare(self, &statement.0, prepare)).await
            }
            Command::Execute(_) => Err(Error::bug("an EXECUTE without a plan")),
            Command::Deallocate(name) => crate::prepared_statements::deallocate(self, name.as_deref()),
            Command::CreateTableAs(create) => Box::pin(crate::create_as::execute(self, &statement.0, create)).await,
            Command::Copy(copy) => crate::copy::execute(self, statement, copy).await,
            Command::Maintenance(maintenance) => crate::maintenance::execute(self, maintenance).await,
            Command::Cursor(cursor) => crate::cursor::execute(self, cursor).await,
            Command::Transaction(tree::Transaction::Commit { chain }) => crate::transaction::commit(self, *chain).await,
            Command::Transaction(_) => Err(Error::bug("a transaction command that waits")),
            Command::Set(set) => crate::set::set(self, set),
            Command::Show(show) => crate::set::show(self, show),
            Command::Discard(what) => crate::set::discard(self, *what),
            Command::Definition(definition) => Box::pin(self.define(&statement.0, definition)).await,
        }
    }

    async fn define(&mut self, parsed: &Parsed, definition: &Change) -> Result<Outcome> {
        match definition {
            Change::CreateTable(create) => Box::pin(self.define_table(parsed, create)).await,
            Change::CreateExtension(_) if rows::is_timescale(definition) => Ok(rows::extension(self)),
            Change::CreateTableAs(_) => crate::ddl::execute(self, parsed, definition),
            definition => match rows::parts(self, definition) {
                Some(parts) => {
                    rows::define(self, parsed, &parts[0]).await?;
                    crate::ddl::execute(self, parsed, &parts[1])
                }
                None => match rows::define(self, parsed, definition).await? {
                    Some(outcome) => Ok(outcome),
                    None => crate::ddl::execute(self, parsed, definition),
                },
            },
        }
    }

    /// Runs CREATE TABLE.
    pub(crate) async fn define_table(&mut self, parsed: &Parsed, create: &tree::CreateTable) -> Result<Outcome> {
        let create = crate::table_store::with_store(self, create).into_owned();
        let definition = Change::CreateTable(Box::new(create));
        let Some(outcome) = crate::rows::define(self, parsed, &definition).await? else {
            return crate::ddl::execute(self, parsed, &definition);
        };
        if let Change::CreateTable(create) = &definition {
            crate::table_store::tell(self, create);
        }
        Ok(outcome)
    }

    pub(crate) fn plan_statement(&mut self, statement: &Statement, types: &[u32]) -> Result<Prepared> {
        let (parameters, columns, plan) = match &statement.0.command {
            Command::Query(query) => self.plan_query(statement, query, types)?,
            Command::Change(change) => self.plan_change(statement, change, types)?,
            Command::Explain(explain) => {
                let inner = self.plan_statement(&explain.statement, types)?;
                (inner.0.parameters.clone(), Some(crate::explain::columns()), Plan::Other)
            }
            Command::Execute(execute) => {
                let inner = crate::prepared_statements::inner(self, &execute.name)?;
                (Vec::new(), inner.0.columns.clone(), Plan::Execute(inner))
            }
            Command::Cursor(cursor) => self.plan_cursor(cursor, types)?,
            Command::Show(show) => (Vec::new(), Some(crate::set::show_columns(show)), Plan::Other),
            _ if statement.0.parameters > 0 => {
                return Err(Error::new(SqlState::UNDEFINED_PARAMETER, "there is no parameter $1")
                    .with_hint("this command takes none"));
            }
            _ => (Vec::new(), None, Plan::Other),
        };
        Ok(Prepared(Arc::new(PreparedStatement {
            statement: statement.clone(),
            declared: types.to_vec(),
            parameters,
            columns,
            plan,
        })))
    }

    /// Plans a query: for the row executor if that supports all of it, else for the others.
    fn plan_query(&mut self, statement: &Statement, query: &tree::Query, types: &[u32]) -> Result<Planned> {
        if let Some(sleep) = Sleep::of(query) {
            return Ok((sleep.parameters(types), Some(sleep.columns()), Plan::Other));
        }
        if let Some(call) = rows::Call::of(query) {
            return Ok((Vec::new(), Some(call.columns()), Plan::Other));
        }
        if let Some(calls) = Calls::plan(self, query, types)? {
            return Ok((calls.parameters(), Some(calls.columns()), Plan::Advisory(Box::new(calls))));
        }
        let context = crate::query::context(self, &statement.0);
        let bound = crate::binding::bind(&context, &statement.0, types)?;
        let refusal = match rows::plan_query(&context, statement, &bound, types)? {
            Ok(plan) => return Ok((plan.parameters.clone(), plan.columns.clone(), Plan::Rows(Box::new(plan)))),
            Err(refusal) => refusal,
        };
        let mut plan = crate::query::plan_bound(self, &context, &statement.0, bound)?.kept();
        plan.refusal = context.reads.rows_view.is_some().then_some(refusal);
        Ok((plan.parameters.clone(), Some(plan.columns.clone()), Plan::Query(plan)))
    }

    /// Plans an INSERT, UPDATE or DELETE, for the store of its table.
    fn plan_change(&mut self, statement: &Statement, change: &Change, types: &[u32]) -> Result<Planned> {
        match rows::plan_change(self, statement, change, types)? {
            Some(ChangePlan::Rows(plan)) => {
                return Ok((plan.parameters.clone(), plan.columns.clone(), Plan::Rows(plan)));
            }
            Some(ChangePlan::Feed(plan)) => {
                return Ok((plan.parameters.clone(), plan.columns.clone(), Plan::Feed(plan)));
            }
            None => {}
        }
        match change {
            Change::Insert(insert) => {
                let plan = crate::insert::plan(self, statement, insert, types)?;
                Ok((plan.parameters.clone(), None, Plan::Insert(Box::new(plan))))
            }
            Change::Delete(delete) => {
                let parameters = crate::delete::parameters(self, statement, delete, types)?;
                Ok((parameters, None, Plan::Other))
            }
            Change::Update(update) => {
                let found = crate::insert::find_table(&self.context(), &update.table.name);
                found.map_err(|error| crate::errors::locate(error, &statement.0))?;
                Err(Error::unsupported("UPDATE is not supported on columns tables").with_hint(
                    "INSERT the row again: it replaces the one with the same key and time; ON CONFLICT (…) DO UPDATE \
                     SET c = excluded.c changes single columns",
                ))
            }
            _ => Err(Error::unsupported("MERGE is not supported")),
        }
    }

    fn plan_cursor(&mut self, cursor: &CursorStatement, types: &[u32]) -> Result<Planned> {
        Ok(match cursor {
            CursorStatement::Declare { query, .. } => {
                let query = self.plan_statement(query, types)?;
                (query.0.parameters.clone(), None, Plan::Declare(query))
            }
            CursorStatement::Fetch { name, only_move: false, .. } => {
                (Vec::new(), self.cursors.columns(name).map(<[OutputColumn]>::to_vec), Plan::Other)
            }
            CursorStatement::Fetch { .. } | CursorStatement::Close(_) => (Vec::new(), None, Plan::Other),
        })
    }

    fn check_block(&self, statement: &Statement) -> Result<()> {
        if statement.ends_transaction() { Ok(()) } else { self.check_not_failed() }
    }

    /// Refuses statements in a failed block.
    pub(crate) fn check_not_failed(&self) -> Result<()> {
        if self.status() != TxnStatus::Failed {
            return Ok(());
        }
        Err(Error::new(
            SqlState::IN_FAILED_SQL_TRANSACTION,
            "current transaction is aborted, commands ignored until end of transaction block",
        ))
    }

    /// Cleans up after the previous statement: the block of a COPY that neither finished nor failed, and
    /// settings of `set_config`.
    pub(crate) fn settle(&mut self) {
        if self.block.as_ref().is_some_and(|block| block.single) {
            self.fail();
        }
        self.fetching = None;
        self.input = None;
        if self.block.is_none() {
            // Left over from a commit whose future was dropped.
            self.advisory.end_transaction(0);
        }
        self.assign_pending();
    }

    /// Applies the settings requested by `set_config`.
    fn assign_pending(&mut self) {
        let pending = std::mem::take(&mut *self.pending.lock());
        for (name, value, local) in pending {
            // A local setting ended with the statement's own transaction.
            if !local || self.block.is_some() {
                // The function has validated the value already.
                let _ = crate::set::assign(self, &name, &value, local);
            }
        }
    }

    /// Marks the block as failed after an error outside `execute` (in a stream, in COPY data). An implicit
    /// block is rolled back.
    pub fn fail(&mut self) {
        self.pending.lock().clear();
        if let Some((name, ended)) = self.fetching.take()
            && !ended.load(Ordering::Acquire)
        {
            self.cursors.fail(&name);
        }
        match &mut self.block {
            Some(block) if block.implicit => self.roll_back(),
            Some(block) => {
                block.failed = true;
                self.advisory.end_transaction(block.savepoints.len());
                // Release its locks now, not only when the client sends ROLLBACK.
                let undone = if block.is_large() { compute(|| block.undo_to_mark()) } else { block.undo_to_mark() };
                if undone.is_err() {
                    block.txn = None;
                    block.savepoints.clear();
                }
            }
            None => {}
        }
    }

    /// Starts the implicit transaction of a multi-statement simple query: all its statements commit together
    /// unless they control the transaction themselves. Does nothing inside a block.
    pub fn begin_implicit(&mut self) {
        if self.block.is_none() {
            let isolation = self.settings.isolation();
            self.begin(true, isolation);
        }
    }

    /// Commits the implicit transaction, if there still is one.
    ///
    /// # Errors
    /// Those of a commit; the transaction is then rolled back or, for 58030, its outcome is unknown.
    pub async fn end_implicit(&mut self) -> Result<()> {
        match &self.block {
            Some(block) if block.implicit => self.commit().await,
            _ => Ok(()),
        }
    }

    /// Commits the block of a COPY that ran outside a transaction.
    pub(crate) async fn end_single(&mut self) -> Result<()> {
        match &self.block {
            Some(block) if block.single => self.commit().await,
            _ => Ok(()),
        }
    }

    pub(crate) fn begin(&mut self, implicit: bool, isolation: Isolation) {
        self.begin_at(implicit, isolation, self.database.engine().env().now_ns());
    }

    fn begin_at(&mut self, implicit: bool, isolation: Isolation, started_ns: i64) {
        self.block = Some(Block {
            txn: None,
            isolation,
            read_only: self.settings.read_only(),
            deferrable: self.settings.deferrable(),
            failed: false,
            implicit,
            single: false,
            started_ns,
            before: Arc::clone(&self.settings),
            after: Arc::clone(&self.settings),
            savepoints: Vec::new(),
        });
    }

    /// Adds a savepoint to the block.
    pub(crate) fn mark(&mut self, name: String) {
        let settings = Arc::clone(&self.settings);
        if let Some(block) = &mut self.block {
            let place = block.txn.as_ref().map(Txn::savepoint);
            let after = Arc::clone(&block.after);
            block.savepoints.push(Mark { name, place, read_only: block.read_only, settings, after });
        }
    }

    /// Rolls back to savepoint number `at`, which is kept; later savepoints are removed.
    pub(crate) fn roll_back_to(&mut self, at: usize) -> Result<()> {
        let Some(block) = &mut self.block else { return Ok(()) };
        block.savepoints.truncate(at + 1);
        self.advisory.end_transaction(at + 1);
        self.cursors.roll_back_to(at);
        if block.is_large() { compute(|| block.undo_to_mark()) } else { block.undo_to_mark() }?;
        block.failed = false;
        if let Some(mark) = block.savepoints.last() {
            self.settings = Arc::clone(&mark.settings);
            block.after = Arc::clone(&mark.after);
            block.read_only = mark.read_only;
        }
        Ok(())
    }

    /// Ends the block if it has no changes; returns false if it must be committed.
    pub(crate) fn end_unchanged(&mut self) -> bool {
        let Some(block) = &self.block else { return true };
        if block.txn.as_ref().is_some_and(|txn| !txn.is_empty()) {
            return false;
        }
        let after = Arc::clone(&block.after);
        self.keep_settings(&after);
        // Assigned in place, because the block is large.
        self.block = None;
        self.advisory.end_transaction(0);
        self.cursors.end_transaction(true);
        true
    }

    pub(crate) async fn commit(&mut self) -> Result<()> {
        if self.end_unchanged() {
            return Ok(());
        }
        let Some(block) = self.block.take() else {
            return Ok(());
        };
        let durability = self.settings.durability();
        let before = block.before;
        if let Some(txn) = block.txn.filter(|txn| !txn.is_empty()) {
            // Settings are restored if the commit fails; a dropped future leaves them unchanged.
            let database = self.database.clone();
            let is_large = txn.is_large();
            let work = Box::pin(database.finish_telling(txn.commit(durability), &self.decided));
            let committed = if is_large { computing(work).await } else { work.await };
            self.decided.store(false, Ordering::Release);
            match committed {
                Ok(lsn) => self.seen = self.seen.max(lsn),
                Err(error) => {
                    self.settings = before;
                    self.advisory.end_transaction(0);
                    self.cursors.end_transaction(false);
                    return Err(error);
                }
            }
        }
        self.keep_settings(&block.after);
        self.advisory.end_transaction(0);
        self.cursors.end_transaction(true);
        Ok(())
    }

    /// Applies the settings that COMMIT keeps.
    fn keep_settings(&mut self, after: &Arc<Settings>) {
        // Equal settings keep their address: cached plans compare it to check that they are valid.
        if !Arc::ptr_eq(&self.settings, after) && *self.settings != **after {
            self.settings = Arc::clone(after);
        }
    }

    pub(crate) fn roll_back(&mut self) {
        if let Some(block) = self.block.take() {
            self.settings = Arc::clone(&block.before);
            self.advisory.end_transaction(0);
            self.cursors.end_transaction(false);
            if block.is_large() { compute(|| drop(block)) } else { drop(block) }
        }
    }

    /// Rolls back any open transaction (connection lost).
    pub fn reset(&mut self) {
        self.roll_back();
    }

    /// The transaction of the block; started now if necessary.
    ///
    /// # Errors
    /// 25006 in a read-only transaction.
    pub(crate) fn writer(&mut self) -> Result<&mut Txn> {
        match &self.block {
            Some(block) if block.read_only => {
                return Err(Error::new(SqlState::READ_ONLY_SQL_TRANSACTION, "cannot write in a read-only transaction"));
            }
            Some(_) => {}
            None => return Err(Error::bug("a write outside a transaction")),
        }
        self.txn().ok_or_else(|| Error::bug("a write outside a transaction"))
    }

    pub(crate) fn txn(&mut self) -> Option<&mut Txn> {
        let (engine, seen) = (self.database.engine(), self.seen);
        let block = self.block.as_mut()?;
        // A snapshot is a state after all transactions up to some commit, and no others: read-only
        // transactions need no more.
        let isolation = match block.isolation {
            Isolation::Serializable if block.only_reads() => Isolation::RepeatableRead,
            isolation => isolation,
        };
        Some(block.txn.get_or_insert_with(|| engine.begin(isolation, seen)))
    }

    /// `now()`: start of the transaction in nanoseconds since 1970 UTC.
    pub(crate) fn now_ns(&self) -> i64 {
        match &self.block {
            Some(block) => block.started_ns,
            None => self.database.engine().env().now_ns(),
        }
    }

    /// `statement_timestamp()` of the next statement in nanoseconds since 1970 UTC.
    fn statement_ns(&self) -> i64 {
        match &self.block {
            Some(block) if block.implicit => block.started_ns,
            _ => self.database.engine().env().now_ns(),
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
            database: self.database.clone(),
            cursors: self.cursors.listed(),
            sessions: self.entered.sessions().clone(),
            pending: Arc::clone(&self.pending),
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
        std::mem::take(&mut self.notices)
    }

    pub(crate) fn notice(&mut self, text: impl Into<String>) {
        self.notices.push(Error::new(SqlState("00000"), text));
    }

    pub(crate) fn warn(&mut self, state: SqlState, text: impl Into<String>) {
        self.notices.push(Error::new(state, text));
    }
}

/// Whether the statement needs little computation, excluding its commit.
fn is_short(prepared: &Prepared, arguments: Arguments<'_>) -> bool {
    match (&prepared.0.plan, &prepared.0.statement.0.command) {
        (Plan::Insert(plan), _) => arguments.values().is_ok_and(|values| plan.is_short(values)),
        (Plan::Other, Command::Transaction(_) | Command::Set(_) | Command::Show(_) | Command::Deallocate(_)) => true,
        _ => false,
    }
}

/// Whether the statement changes data or the catalog, so that it needs a transaction.
fn writes(parsed: &Parsed) -> bool {
    match &parsed.command {
        Command::Change(_) | Command::Execute(_) | Command::CreateTableAs(_) => true,
        Command::Query(query) => rows::Call::of(query).is_some(),
        Command::Explain(explain) => explain.analyze && writes(&explain.statement.0),
        Command::Copy(copy) => copy.is_from(),
        // A cursor WITH HOLD outlives its transaction.
        Command::Cursor(cursor) => matches!(**cursor, CursorStatement::Declare { hold: true, .. }),
        Command::Definition(definition) => !matches!(definition, Change::Unlisten(_) | Change::CreateExtension(_)),
        Command::Prepare(_)
        | Command::Deallocate(_)
        | Command::Maintenance(_)
        | Command::Transaction(_)
        | Command::Set(_)
        | Command::Show(_)
        | Command::Discard(_) => false,
    }
}
