//! The SQL runtime: one memory budget, one spill folder, one set of functions for all sessions.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use datafusion::config::SpillCompression;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::SessionState;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::prelude::{SessionConfig, SessionContext};
use engine::{Committing, Engine, Event, Progress};
use model::{Lsn, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::advisory::Locks;
use crate::errors::OrError;
use crate::files::FileRoot;
use crate::memory::Pool;
use crate::produce::Producer;
use crate::session::Session;
use crate::sessions::Sessions;
use crate::summary::AskScans;

/// How much the SQL runtime may use.
#[derive(Clone, Debug)]
pub struct Options {
    /// Most bytes for sorts, joins and aggregates of all statements together, within what the engine's memory budget has for them; beyond
    /// it they spill to `Engine::spill_dir`, then fail with 53200.
    pub memory_bytes: u64,
    /// Partitions of one statement.
    pub threads: usize,
    /// The folder in which statements may read and write files; `None`: nowhere.
    pub files: Option<PathBuf>,
}

/// An engine with a SQL runtime. Cloning shares it.
#[derive(Clone)]
pub struct Database(Arc<Inner>);

struct Inner {
    engine: Engine,
    /// What sessions start from.
    state: SessionState,
    next_pid: AtomicI32,
    sessions: Sessions,
    advisory: Locks,
    started_ns: i64,
    files: Option<Arc<FileRoot>>,
    producer: Producer,
    /// For cursors whose rows are made while they are fetched: each may hold a thread.
    passing: Arc<Semaphore>,
    /// For queries that hold a thread while their clients take rows.
    readers: Arc<Semaphore>,
}

/// Threads that produce results, for each partition of a statement: one that does not yield leaves others some.
const THREADS_PER_PARTITION: usize = 2;

/// Cursors whose rows are made while they are fetched. The rows of further ones are made when they are declared.
const PASSING_MAX: usize = 64;

impl Database {
    /// Sets up memory, spill folder and functions.
    ///
    /// # Errors
    /// 58030 when the spill folder or that of files cannot be used.
    pub fn new(engine: Engine, options: Options) -> Result<Database> {
        let pool = Pool::new(engine.memory().clone(), options.memory_bytes);
        let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Directories(vec![engine.spill_dir()]));
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(pool))
            .with_disk_manager_builder(disk)
            .build_arc()
            .or_error()?;
        let context = SessionContext::new_with_config_rt(config(&options, engine.memory().total()), runtime);
        crate::hooks::register(&context);
        let planner = Arc::new(crate::functions::Planner);
        let mut rules = PhysicalOptimizer::new().rules;
        // They move conditions and filters of joins and sorts by the names of columns, and both sides of a join may have a column
        // of one name: rows were lost (`tests/sql/read/conditions_of_joins_hold_for_their_own_side.slt`). What can be moved safely was moved in the logical plan,
        // and no scan of ours takes filters any later.
        rules.retain(|rule| !rule.name().starts_with("FilterPushdown"));
        rules.insert(0, Arc::new(AskScans));
        rules.push(Arc::new(crate::guards::Guards));
        let state = SessionStateBuilder::new_from_existing(context.state()).with_query_planner(planner);
        let mut state = state.with_physical_optimizer_rules(rules).build();
        state.register_function_rewrite(Arc::new(crate::rounding::RoundingCasts)).or_error()?;
        state.register_function_rewrite(Arc::new(crate::constants::TextConstants)).or_error()?;
        state.register_function_rewrite(Arc::new(crate::functions::dates::DateCasts)).or_error()?;
        state.add_analyzer_rule(Arc::new(crate::floats::Floats));
        let passing = Arc::new(Semaphore::new(PASSING_MAX));
        let spill = engine.spill_dir();
        let folder = spill.parent().unwrap_or(&spill);
        let files = options.files.as_deref().map(|files| FileRoot::new(files, folder)).transpose()?.map(Arc::new);
        let (next_pid, sessions) = (AtomicI32::new(1), Sessions::default());
        let readers = Arc::new(Semaphore::new(crate::rows::READERS_WAITING_MAX));
        let producer = Producer::new(options.threads * THREADS_PER_PARTITION);
        let (advisory, started_ns) = (Locks::default(), engine.env().now_ns());
        let inner =
            Inner { engine, state, next_pid, sessions, advisory, started_ns, files, producer, passing, readers };
        Ok(Database(Arc::new(inner)))
    }

    /// The engine below.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// As [`crate::parse`], of a text that a client sent: a long one counts in the memory budget while its statements are there.
    ///
    /// # Errors
    /// As [`crate::parse`]; 53200 when there is no room for it.
    pub fn parse(&self, sql: &str) -> Result<Vec<crate::Statement>> {
        crate::statement::parse_within(sql, self.0.engine.memory())
    }

    /// A new session with default settings. `user` is shown by `current_user`.
    #[must_use]
    pub fn session(&self, user: &str) -> Session {
        Session::new(self.clone(), user, self.0.next_pid.fetch_add(1, Ordering::Relaxed))
    }

    /// Waits (without holding a thread) until a commit is through.
    ///
    /// # Errors
    /// As [`Committing::poll`].
    pub async fn finish(&self, committing: Committing) -> Result<Lsn> {
        self.finish_telling(committing, &AtomicBool::new(false)).await
    }

    /// The same; sets `decided` when there is no way back, so that nobody gives up waiting from then on.
    pub(crate) async fn finish_telling(&self, mut committing: Committing, decided: &AtomicBool) -> Result<Lsn> {
        loop {
            match committing.poll()? {
                Progress::Done(lsn) => return Ok(lsn),
                Progress::Wait(event) => {
                    decided.store(committing.is_decided(), Ordering::Release);
                    when_set(&event).await;
                }
            }
        }
    }

    /// Room for one more cursor whose rows are made while they are fetched, if there is any.
    pub(crate) fn passing(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0.passing).try_acquire_owned().ok()
    }

    /// Room for queries that hold a thread while their clients take rows.
    pub(crate) fn readers(&self) -> &Arc<Semaphore> {
        &self.0.readers
    }

    /// Where statements may name files, if anywhere.
    pub(crate) fn files(&self) -> Option<&Arc<FileRoot>> {
        self.0.files.as_ref()
    }

    /// The threads on which results are produced.
    pub(crate) fn producer(&self) -> &Producer {
        &self.0.producer
    }

    pub(crate) fn sessions(&self) -> &Sessions {
        &self.0.sessions
    }

    /// Advisory locks of all sessions.
    pub(crate) fn advisory(&self) -> &Locks {
        &self.0.advisory
    }

    /// When it was opened, nanoseconds since 1970 UTC.
    #[must_use]
    pub fn started_ns(&self) -> i64 {
        self.0.started_ns
    }

    pub(crate) fn state(&self) -> &SessionState {
        &self.0.state
    }
}

/// Waits for an event without holding a thread. Whoever gives up waiting leaves it as it is.
pub(crate) async fn when_set(event: &Event) {
    let (set, ready) = tokio::sync::oneshot::channel();
    event.on_set(move || {
        // The waiter may be gone: its client cancelled.
        let _ = set.send(());
    });
    let _ = ready.await;
}

/// Below this budget batches are short.
const SHORT_BATCHES_BELOW: u64 = 1 << 30;

/// Rows of a batch. A statement holds several batches between its operators, which no budget counts: where memory is small they are
/// short, so that hundreds of results that nobody reads fit.
fn batch_rows(memory_bytes: u64) -> usize {
    if memory_bytes < SHORT_BATCHES_BELOW { crate::provider::BATCH_ROWS / 4 } else { crate::provider::BATCH_ROWS }
}

/// `memory_bytes`: the budget of everything.
fn config(options: &Options, memory_bytes: u64) -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_target_partitions(options.threads.max(1))
        .with_batch_size(batch_rows(memory_bytes))
        .with_information_schema(false)
        .with_create_default_catalog_and_schema(false);
    let settings = config.options_mut();
    settings.execution.time_zone = Some("UTC".to_owned());
    settings.execution.spill_compression = SpillCompression::Uncompressed;
    settings.execution.collect_statistics = false;
    // It compares what fields say beyond their types (which PostgreSQL type they are), which a UNION of others knows of one side alone.
    settings.execution.skip_physical_aggregate_schema_check = true;
    settings.sql_parser.map_string_types_to_utf8view = false;
    settings.explain.show_schema = false;
    config
}
