//! Who is connected and what runs, for `pg_stat_activity`.
//!
//! A statement runs from its start until its last row was taken: a result's stream holds a [`Running`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::files::Source;
use crate::functions::{Activity, CopyActivity, Signal};
use crate::session::TxnStatus;
use crate::settings::Settings;
use crate::statement::Statement;
use crate::stop::StopFlag;

/// All sessions of a database, by number. Cloning shares it.
#[derive(Clone, Default)]
pub(crate) struct Sessions(Arc<Mutex<BTreeMap<i32, Arc<Presence>>>>);

/// What others see of a session.
struct Presence {
    user: Arc<str>,
    started_ns: i64,
    now: Mutex<Now>,
    copy: Mutex<Option<Arc<CopyProgress>>>,
    /// Stops its statement while it computes.
    stop: Arc<StopFlag>,
    /// Does what is asked of the session, if whoever serves it can do more than `stop`.
    on_signal: OnceLock<OnSignal>,
}

/// Does what others ask of a session.
pub(crate) type OnSignal = Box<dyn Fn(Signal) + Send + Sync>;

/// How far a COPY is, for `pg_stat_progress_copy`.
#[derive(Default)]
pub(crate) struct CopyProgress {
    from: bool,
    in_file: AtomicBool,
    bytes_total: AtomicU64,
    counts: Mutex<Counts>,
}

/// Bytes and rows; who reads a source is asked how far it is.
#[derive(Clone, Default)]
struct Counts {
    bytes: Arc<AtomicU64>,
    rows: Arc<AtomicU64>,
}

impl CopyProgress {
    /// Of a COPY TO.
    pub(crate) fn writing() -> CopyProgress {
        CopyProgress::default()
    }

    /// Of a COPY FROM whose data comes in pieces.
    pub(crate) fn taking() -> CopyProgress {
        CopyProgress { from: true, ..CopyProgress::default() }
    }

    /// Of a COPY FROM that reads files.
    pub(crate) fn reading(source: &Source) -> CopyProgress {
        let progress = CopyProgress::taking();
        progress.follow(source);
        progress
    }

    /// Of files of the server.
    pub(crate) fn in_file(self) -> CopyProgress {
        CopyProgress { in_file: AtomicBool::new(true), ..self }
    }

    /// It is a file of the server, of so many bytes.
    pub(crate) fn of_file(&self, bytes: u64) {
        self.in_file.store(true, Ordering::Relaxed);
        self.bytes_total.store(bytes, Ordering::Relaxed);
    }

    /// From now on it is as far as the reading of this.
    pub(crate) fn follow(&self, source: &Source) {
        self.bytes_total.store(source.bytes(), Ordering::Relaxed);
        *self.counts.lock() = Counts { bytes: Arc::clone(&source.bytes_read), rows: Arc::clone(&source.rows_read) };
    }

    /// So much more was written.
    pub(crate) fn add(&self, bytes: u64, rows: u64) {
        let counts = self.counts.lock();
        counts.bytes.fetch_add(bytes, Ordering::Relaxed);
        counts.rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// So many more bytes were taken, which makes so many rows in all.
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

/// A COPY that others see until this is dropped.
pub(crate) struct Copying(Arc<Presence>);

impl Drop for Copying {
    fn drop(&mut self) {
        *self.0.copy.lock() = None;
    }
}

struct Now {
    /// For `application_name`, which is seldom asked for.
    settings: Arc<Settings>,
    statement: Option<Statement>,
    /// Statements and results that are not finished.
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
    /// Enters a session; it leaves when the result is dropped.
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

    /// Signals a session; false if there is none with this number.
    pub(crate) fn signal(&self, pid: i32, signal: Signal) -> bool {
        let Some(presence) = self.0.lock().get(&pid).map(Arc::clone) else { return false };
        match presence.on_signal.get() {
            Some(on_signal) => on_signal(signal),
            None => presence.stop.cancel(),
        }
        true
    }

    /// Everyone, by number.
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
    /// The list it is in.
    pub(crate) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Has others' signals go to `on_signal`.
    pub(crate) fn on_signal(&self, on_signal: OnSignal) {
        // Only its listener sets it, once.
        let _ = self.presence.on_signal.set(on_signal);
    }

    /// The text of the statement that runs, or ran last.
    pub(crate) fn statement_text(&self) -> Option<String> {
        self.presence.now.lock().statement.as_ref().map(|statement| statement.sql().to_owned())
    }

    /// A statement begins.
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

    /// A COPY runs.
    pub(crate) fn copying(&self, progress: Arc<CopyProgress>) -> Copying {
        *self.presence.copy.lock() = Some(progress);
        Copying(Arc::clone(&self.presence))
    }

    /// Where the session stands after a statement.
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

/// A statement or a result that is not finished.
pub(crate) struct Running(Option<Arc<Presence>>);

impl Running {
    /// It is finished, and this is where the session stands.
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
