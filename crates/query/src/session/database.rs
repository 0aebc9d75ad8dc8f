//! The SQL runtime: one memory budget, one spill directory and one set of functions for all sessions.

use std::any::{Any, TypeId};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use engine::{Committing, Engine, Event, Progress};
use model::{Error, Lsn, Result, SqlState};
use parking_lot::Mutex;
use relational::Runtime;
use relational::files::FileRoot;
use rustc_hash::FxHashMap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::activity::Sessions;
use super::advisory_locks::Locks;
use super::notifications::Channels;
use crate::session::Session;
use crate::settings::Settings;
use crate::threads::Producer;

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
    runtime: Runtime,
    next_pid: AtomicI32,
    sessions: Sessions,
    advisory: Locks,
    channels: Channels,
    started_ns: i64,
    files: Option<Arc<FileRoot>>,
    /// Values that modules above keep, by their types.
    kept: Mutex<FxHashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    producer: Producer,
    /// Permits for cursors that produce rows on FETCH: each may hold a thread.
    passing: Arc<Semaphore>,
    /// Permits for queries that hold a thread while their clients take rows.
    readers: Arc<Semaphore>,
}

/// Maximum number of queries of the row executor that block a thread while their clients fetch rows.
pub(crate) const READERS_WAITING_MAX: usize = 32;

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
        let runtime = Runtime::new(&engine, options.memory_bytes, options.threads)?;
        let passing = Arc::new(Semaphore::new(PASSING_MAX));
        let spill = engine.spill_dir();
        let folder = spill.parent().unwrap_or(&spill);
        let files = options.files.as_deref().map(|files| FileRoot::new(files, folder)).transpose()?.map(Arc::new);
        let (next_pid, sessions) = (AtomicI32::new(1), Sessions::default());
        let readers = Arc::new(Semaphore::new(READERS_WAITING_MAX));
        let producer = Producer::new(options.threads * THREADS_PER_PARTITION);
        let (advisory, started_ns) = (Locks::default(), engine.env().now_ns());
        let channels = Channels::new(engine.memory().clone());
        let inner = Inner {
            engine,
            runtime,
            next_pid,
            sessions,
            advisory,
            channels,
            started_ns,
            files,
            kept: Mutex::default(),
            producer,
            passing,
            readers,
        };
        Ok(Database(Arc::new(inner)))
    }

    /// A value that a module above keeps with the database, one of each type; at first its default.
    pub(crate) fn kept<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let mut kept = self.0.kept.lock();
        let value = kept.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default()));
        // The key is the type of the value.
        Arc::downcast(Arc::clone(value)).unwrap_or_default()
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
        self.session_with(user, Session::first_settings(self, user))
    }

    /// Like [`Database::session`], with settings that another session of the user had at first.
    pub(crate) fn session_with(&self, user: &str, settings: Arc<Settings>) -> Session {
        Session::new(self.clone(), user, self.0.next_pid.fetch_add(1, Ordering::Relaxed), settings)
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

    /// The channels of LISTEN and NOTIFY.
    pub(crate) fn channels(&self) -> &Channels {
        &self.0.channels
    }

    /// Time of opening, nanoseconds since 1970 UTC.
    #[must_use]
    pub fn started_ns(&self) -> i64 {
        self.0.started_ns
    }

    /// Memory and rules of the statements that the row executor does not run.
    pub(crate) fn runtime(&self) -> &Runtime {
        &self.0.runtime
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

/// Waits for a lock, up to `lock_timeout`.
pub(crate) async fn wait(event: &Event, patience: Option<Duration>) -> Result<()> {
    let Some(patience) = patience else {
        when_set(event).await;
        return Ok(());
    };
    tokio::time::timeout(patience, when_set(event))
        .await
        .map_err(|_| Error::new(SqlState::LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout"))
}
