//! The SQL runtime: one memory budget, one spill directory and one set of functions for all sessions.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use datafusion::config::SpillCompression;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::SessionState;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::prelude::SessionConfig;
use engine::{Committing, Engine, Event, Progress};
use model::{Lsn, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::activity::Sessions;
use crate::advisory_locks::Locks;
use crate::errors::OrError;
use crate::files::FileRoot;
use crate::memory::Pool;
use crate::producer::Producer;
use crate::scan_statistics::AskScans;
use crate::session::Session;

/// Limits of the SQL runtime.
#[derive(Clone, Debug)]
pub struct Options {
    /// Maximum bytes for sorts, joins and aggregates of all statements together, within the engine's memory budget.
    /// Beyond it they spill to `Engine::spill_dir`, then fail with 53200.
    pub memory_bytes: u64,
    /// Partitions of one statement.
    pub threads: usize,
    /// The directory in which statements may read and write files; `None` forbids files.
    pub files: Option<PathBuf>,
}

/// An engine with a SQL runtime. Cloning shares it.
#[derive(Clone)]
pub struct Database(Arc<Inner>);

struct Inner {
    engine: Engine,
    /// The initial DataFusion state of sessions.
    state: SessionState,
    next_pid: AtomicI32,
    sessions: Sessions,
    advisory: Locks,
    started_ns: i64,
    files: Option<Arc<FileRoot>>,
    producer: Producer,
    /// Permits for cursors that produce rows on FETCH: each may hold a thread.
    passing: Arc<Semaphore>,
    /// Permits for queries that hold a thread while their clients take rows.
    readers: Arc<Semaphore>,
}

/// Threads that produce results, for each partition of a statement. More than one, so that other statements progress
/// next to an operator that does not yield.
const THREADS_PER_PARTITION: usize = 2;

/// Maximum number of cursors that produce rows on FETCH. Further cursors materialise their rows at DECLARE.
const PASSING_MAX: usize = 64;

impl Database {
    /// Sets up memory, spill directory and functions.
    ///
    /// # Errors
    /// 58030 if the spill directory or the directory of files cannot be used.
    pub fn new(engine: Engine, options: Options) -> Result<Database> {
        let pool = Pool::new(engine.memory().clone(), options.memory_bytes);
        let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Directories(vec![engine.spill_dir()]));
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(pool))
            .with_disk_manager_builder(disk)
            .build_arc()
            .or_error()?;
        let planner = Arc::new(crate::functions::Planner);
        let mut rules = PhysicalOptimizer::new().rules;
        // The filter push-down rules map conditions of joins and sorts by column name, but both sides of a join may
        // have a column of the same name: rows were lost
        // (`tests/sql/read/conditions_of_joins_hold_for_their_own_side.slt`). The logical optimizer has already pushed
        // down what is safe, and our scans accept no filters later.
        rules.retain(|rule| !rule.name().starts_with("FilterPushdown"));
        rules.insert(0, Arc::new(AskScans));
        rules.push(Arc::new(crate::condition_order::Guards));
        let config = config(&options, engine.memory().total());
        // Not with the default functions and file formats: they are large, and no plan of ours names them.
        let state = SessionStateBuilder::new()
            .with_scalar_functions(crate::functions::scalars(config.options()))
            .with_config(config)
            .with_runtime_env(runtime)
            .with_aggregate_functions(crate::functions::aggregates())
            .with_query_planner(planner)
            .with_physical_optimizer_rules(rules)
            .build();
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

    /// The storage engine.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// Parses a text that a client sent, as [`crate::parse`] does. A long text is charged to the memory budget while
    /// its statements exist.
    ///
    /// # Errors
    /// Those of [`crate::parse`]; 53200 if the budget has no room for the text.
    pub fn parse(&self, sql: &str) -> Result<Vec<crate::Statement>> {
        crate::statement::parse_within(sql, self.0.engine.memory())
    }

    /// Opens a session with default settings. `user` is the value of `current_user`.
    #[must_use]
    pub fn session(&self, user: &str) -> Session {
        Session::new(self.clone(), user, self.0.next_pid.fetch_add(1, Ordering::Relaxed))
    }

    /// Waits for a commit without holding a thread.
    ///
    /// # Errors
    /// Those of [`Committing::poll`].
    pub async fn finish(&self, committing: Committing) -> Result<Lsn> {
        self.finish_telling(committing, &AtomicBool::new(false)).await
    }

    /// Like [`Database::finish`]; sets `decided` once the commit can no longer be aborted, so that the waiter must not
    /// give up from then on.
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

    /// A permit for one more cursor that produces rows on FETCH, if one is left.
    pub(crate) fn passing(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0.passing).try_acquire_owned().ok()
    }

    /// Permits for queries that hold a thread while their clients take rows.
    pub(crate) fn readers(&self) -> &Arc<Semaphore> {
        &self.0.readers
    }

    /// The directory in which statements may name files; `None` if files are not allowed.
    pub(crate) fn files(&self) -> Option<&Arc<FileRoot>> {
        self.0.files.as_ref()
    }

    /// The threads that produce results.
    pub(crate) fn producer(&self) -> &Producer {
        &self.0.producer
    }

    pub(crate) fn sessions(&self) -> &Sessions {
        &self.0.sessions
    }

    /// The advisory locks of all sessions.
    pub(crate) fn advisory(&self) -> &Locks {
        &self.0.advisory
    }

    /// Time of opening, nanoseconds since 1970 UTC.
    #[must_use]
    pub fn started_ns(&self) -> i64 {
        self.0.started_ns
    }

    pub(crate) fn state(&self) -> &SessionState {
        &self.0.state
    }
}

/// Waits for an event without holding a thread. Dropping the future does not affect the event.
pub(crate) async fn when_set(event: &Event) {
    let (set, ready) = tokio::sync::oneshot::channel();
    event.on_set(move || {
        // The waiter may be gone, for example after a cancellation.
        let _ = set.send(());
    });
    let _ = ready.await;
}

/// Memory budget in bytes below which batches are short.
const SHORT_BATCHES_BELOW: u64 = 1 << 30;

/// Rows per batch. A statement holds several batches between its operators, which no budget counts. With little memory
/// the batches are short, so that hundreds of unread results fit.
fn batch_rows(memory_bytes: u64) -> usize {
    if memory_bytes < SHORT_BATCHES_BELOW { crate::provider::BATCH_ROWS / 4 } else { crate::provider::BATCH_ROWS }
}

/// The DataFusion configuration. `memory_bytes`: the budget of the whole server.
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
    // The check compares field metadata too (the PostgreSQL types of columns), which a UNION takes from one side only.
    settings.execution.skip_physical_aggregate_schema_check = true;
    settings.sql_parser.map_string_types_to_utf8view = false;
    settings.explain.show_schema = false;
    config
}
