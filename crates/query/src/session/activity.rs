//! Registry of connected sessions and their statements, for `pg_stat_activity`.
//!
//! A statement is running until its last row has been fetched: the stream of a result holds a [`Running`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use pg_catalog::facts::{Activity, CopyActivity, Signal};
use relational::files::Source;

use super::block::TxnStatus;
use crate::settings::Settings;
use crate::statement::Statement;
use crate::threads::StopFlag;

/// All sessions of a database, by PID. Clones share the registry.
#[derive(Clone, Default)]
pub(crate) struct Sessions(Arc<Mutex<BTreeMap<i32, Arc<Presence>>>>);

/// A session as other sessions see it.
struct Presence {
    user: Arc<str>,
    started_ns: i64,
    now: Mutex<Now>,
    copy: Mutex<Option<Arc<CopyProgress>>>,
    /// Cancels the session's statement while it computes.
    stop: Arc<StopFlag>,
    /// Handler of signals to this session; set if the server can do more than `stop`.
    on_signal: OnceLock<OnSignal>,
}

/// Handler of signals that other sessions send to a session.
pub(crate) type OnSignal = Box<dyn Fn(Signal) + Send + Sync>;

/// Progress of a COPY, for `pg_stat_progress_copy`.
#[derive(Default)]
pub(crate) struct CopyProgress {
    from: bool,
    in_file: AtomicBool,
    bytes_total: AtomicU64,
    counts: Mutex<Counts>,
}

/// Bytes and rows so far; shared with the reader of a source, which updates them.
#[derive(Clone, Default)]
struct Counts {
    bytes: Arc<AtomicU64>,
    rows: Arc<AtomicU64>,
}

impl CopyProgress {
    /// Progress of a COPY TO.
    pub(crate) fn writing() -> CopyProgress {
        CopyProgress::default()
    }

    /// Progress of a COPY FROM whose data arrives in pieces.
    pub(crate) fn taking() -> CopyProgress {
        CopyProgress { from: true, ..CopyProgress::default() }
    }

    /// Progress of a COPY FROM that reads files.
    pub(crate) fn reading(source: &Source) -> CopyProgress {
        let progress = CopyProgress::taking();
        progress.follow(source);
        progress
    }

    /// Marks the COPY as one that uses server files.
    pub(crate) fn in_file(self) -> CopyProgress {
        CopyProgress { in_file: AtomicBool::new(true), ..self }
    }

    /// Marks the COPY as one that uses a server file of `bytes` bytes.
    pub(crate) fn of_file(&self, bytes: u64) {
        self.in_file.store(true, Ordering::Relaxed);
        self.bytes_total.store(bytes, Ordering::Relaxed);
    }

    /// Reports the progress of `source` from now on.
    pub(crate) fn follow(&self, source: &Source) {
        self.bytes_total.store(source.bytes(), Ordering::Relaxed);
        *self.counts.lock() = Counts { bytes: Arc::clone(&source.bytes_read), rows: Arc::clone(&source.rows_read) };
    }

    /// Adds written bytes and rows.
    pub(crate) fn add(&self, bytes: u64, rows: u64) {
        let counts = self.counts.lock();
        counts.bytes.fetch_add(bytes, Ordering::Relaxed);
        counts.rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// Adds received bytes, and sets the total number of rows.
    pub(crate) fn taken(&self, bytes: u64, rows: u64) {
        let counts = self.counts.lock();
        counts.bytes.fetch_add(bytes, Ordering::Relaxed);
        counts.rows.store(rows, Ordering::Relaxed);
    }

    fn activity(&self) -> CopyActivity {
        let number = |value: &AtomicU64| i64::try_from(value.load(Ordering::Relaxed)).unwrap_or(i64::MAX);
        let counts = self.counts.lock();
        CopyActivity {
            from: self.from,
            in_file: self.in_file.load(Ordering::Relaxed),
            bytes: number(&counts.bytes),
            bytes_total: number(&self.bytes_total),
            rows: number(&counts.rows),
        }
    }
}

/// Shows a COPY to other sessions until it is dropped.
pub(crate) struct Copying(Arc<Presence>);

impl Drop for Copying {
    fn drop(&mut self) {
        *self.0.copy.lock() = None;
    }
}

struct Now {
    /// Holds `application_name`, which is seldom read.
    settings: Arc<Settings>,
    statement: Option<Statement>,
    /// Number of unfinished statements and results.
    running: usize,
    block: TxnStatus,
    transaction_ns: Option<i64>,
    statement_ns: Option<i64>,
    changed_ns: i64,
}

impl Now {
    fn state(&self) -> &'static str {
        match self.block {
            _ if self.running > 0 => "active",
            TxnStatus::Idle => "idle",
            TxnStatus::InBlock => "idle in transaction",
            TxnStatus::Failed => "idle in transaction (aborted)",
        }
    }
}

impl Sessions {
    /// Registers a session; dropping the result removes it.
    pub(crate) fn enter(&self, pid: i32, user: &Arc<str>, now_ns: i64, stop: Arc<StopFlag>) -> Entered {
        let now = Now {
            settings: Arc::default(),
            statement: None,
            running: 0,
            block: TxnStatus::Idle,
            transaction_ns: None,
            statement_ns: None,
            changed_ns: now_ns,
        };
        let presence = Arc::new(Presence {
            user: Arc::clone(user),
            started_ns: now_ns,
            now: Mutex::new(now),
            copy: Mutex::default(),
            stop,
            on_signal: OnceLock::new(),
        });
        self.0.lock().insert(pid, Arc::clone(&presence));
        Entered { sessions: self.clone(), pid, presence }
    }

    /// Signals a session; false if there is none with this PID.
    pub(crate) fn signal(&self, pid: i32, signal: Signal) -> bool {
        let Some(presence) = self.0.lock().get(&pid).map(Arc::clone) else { return false };
        match presence.on_signal.get() {
            Some(on_signal) => on_signal(signal),
            None => presence.stop.cancel(),
        }
        true
    }

    /// All sessions, ordered by PID.
    pub(crate) fn list(&self) -> Vec<Activity> {
        let sessions: Vec<(i32, Arc<Presence>)> =
            self.0.lock().iter().map(|(pid, presence)| (*pid, Arc::clone(presence))).collect();
        let activity = |(pid, presence): (i32, Arc<Presence>)| {
            let now = presence.now.lock();
            Activity {
                pid,
                user: presence.user.to_string(),
                application: now.settings.get("application_name").unwrap_or_default(),
                state: now.state().to_owned(),
                query: now.statement.as_ref().map(|statement| statement.sql().to_owned()).unwrap_or_default(),
                client: None,
                started_ns: presence.started_ns,
                transaction_ns: now.transaction_ns,
                statement_ns: now.statement_ns,
                changed_ns: now.changed_ns,
                copy: presence.copy.lock().as_ref().map(|copy| copy.activity()),
            }
        };
        sessions.into_iter().map(activity).collect()
    }
}

/// A session's own entry.
pub(crate) struct Entered {
    sessions: Sessions,
    pid: i32,
    presence: Arc<Presence>,
}

impl Entered {
    /// The registry that contains this entry.
    pub(crate) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Sets the handler of signals from other sessions.
    pub(crate) fn on_signal(&self, on_signal: OnSignal) {
        // Only the session's connection sets it, once.
        let _ = self.presence.on_signal.set(on_signal);
    }

    /// Text of the running statement, or of the last one.
    pub(crate) fn statement_text(&self) -> Option<String> {
        self.presence.now.lock().statement.as_ref().map(|statement| statement.sql().to_owned())
    }

    /// Records the start of a statement.
    pub(crate) fn begin(&self, statement: &Statement, settings: &Arc<Settings>, now_ns: i64) -> Running {
        let mut now = self.presence.now.lock();
        if !Arc::ptr_eq(&now.settings, settings) {
            now.settings = Arc::clone(settings);
        }
        now.statement = Some(statement.clone());
        now.statement_ns = Some(now_ns);
        now.changed_ns = now_ns;
        now.running += 1;
        Running(Some(Arc::clone(&self.presence)))
    }

    /// Records a COPY until the result is dropped.
    pub(crate) fn copying(&self, progress: Arc<CopyProgress>) -> Copying {
        *self.presence.copy.lock() = Some(progress);
        Copying(Arc::clone(&self.presence))
    }

    /// Records the transaction status after a statement.
    pub(crate) fn set_block(&self, block: TxnStatus, transaction_ns: Option<i64>) {
        let mut now = self.presence.now.lock();
        now.block = block;
        now.transaction_ns = transaction_ns;
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.sessions.0.lock().remove(&self.pid);
    }
}

/// An unfinished statement or result.
pub(crate) struct Running(Option<Arc<Presence>>);

impl Running {
    /// Records the end, and the transaction status after it.
    pub(crate) fn end(mut self, block: TxnStatus, transaction_ns: Option<i64>) {
        if let Some(presence) = self.0.take() {
            let mut now = presence.now.lock();
            now.running -= 1;
            now.block = block;
            now.transaction_ns = transaction_ns;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(presence) = &self.0 {
            presence.now.lock().running -= 1;
        }
    }
}
