//! Opening and closing the engine, and the state that all its parts share.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use columns::{SegmentCache, TableState};
use env::{Env, Event, Worker};
use imbl::OrdMap;
use model::{Error, Lsn, Result, SqlState, TableId, limits};
use parking_lot::Mutex;
use rows::Readers;
use wal::{Wal, WalOptions};

use crate::commit::{Committing, Progress, Replay};
use crate::compaction::{Compactor, Priority};
use crate::covering_deletes::CoveringDelete;
use crate::db_version::{DbVersion, DbVersions};
use crate::directory::{self, Claimed, Contents};
use crate::flusher::{Flusher, OrphanFiles, Waiter};
use crate::manifest::Manifest;
use crate::memory::{MemoryBudget, Work};
use crate::retention;
use crate::rowfile::{RowPart, read_rows};
use crate::sequence::Counter;
use crate::txn::{Isolation, Snapshot, Txn};

/// Settings with which a database is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Memory budget in bytes for memtables, `rows` tables, caches, queries and connection buffers
    /// together.
    pub memory_bytes: u64,
    /// Largest size of a log file, in bytes.
    pub log_file_bytes: u64,
    /// Bytes of log after which memtables are flushed; bounds recovery time.
    pub log_flush_bytes: u64,
    /// Bytes a second that compactions may read and write together; 0 = unlimited. The limit does
    /// not apply to compactions that a caller waits for ([`Engine::settle`]). It doubles for every
    /// eight segments of backlog beyond 32 and is lifted from 64 on, where the backlog is the
    /// number of segments of one partition that are still to be merged.
    pub compaction_rate: u64,
    /// Whether rows of `columns` tables are compressed in the log. Readings of a few digits then
    /// take a tenth of the bytes for no more CPU time than writing them uncompressed. Both formats
    /// are readable either way.
    pub log_compression: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            memory_bytes: 1 << 30,
            log_file_bytes: 64 << 20,
            log_flush_bytes: 1 << 30,
            compaction_rate: 0,
            log_compression: true,
        }
    }
}

impl Options {
    /// Memtables are flushed when they reach an eighth of the memory budget.
    pub(crate) fn memtable_flush_bytes(&self) -> u64 {
        self.memory_bytes / 8
    }

    /// Writers are stopped when memtables reach a quarter of the budget because flushing cannot
    /// keep up.
    pub(crate) fn memtable_bytes_max(&self) -> u64 {
        self.memory_bytes / 4
    }

    /// Limit for block indexes, column directories and statistics of segments in memory.
    fn directory_bytes_max(&self) -> u64 {
        self.memory_bytes / 8
    }

    /// Inserts and updates of `rows` tables are refused when these tables hold this many bytes.
    #[must_use]
    pub fn rows_bytes_max(&self) -> u64 {
        self.memory_bytes / limits::ROWS_MEMORY_SHARE
    }
}

/// The result of opening a database.
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    /// Whether the database was created by this open.
    pub created: bool,
    /// Number of `columns` tables.
    pub tables: u64,
    /// Number of `rows` tables.
    pub row_tables: u64,
    /// Rows in all `rows` tables.
    pub rows: u64,
    /// Segments named by the manifest.
    pub segments: u64,
    /// Series of all `columns` tables.
    pub series: u64,
    /// Log records read.
    pub log_records: u64,
    /// Payload bytes of the log records read.
    pub log_bytes: u64,
    /// Commits replayed from the log.
    pub commits: u64,
    /// Bytes of a torn log tail that were dropped; they had never been acknowledged.
    pub torn_bytes: u64,
    /// Duration, in nanoseconds.
    pub elapsed_ns: u64,
}

/// Threads that read files and build indexes at the start. An `Env` does not tell the number of
/// cores.
const START_WORKERS: usize = 4;
/// Upper limit for open segment files, even if the process may have more.
const OPEN_SEGMENTS_MAX: u64 = 65_536;
/// Old row versions that one commit collects at most; the GC worker collects the rest.
const COLLECT_COMMIT: usize = 1_024;
/// Row changes between two collections by commits.
const COLLECT_EACH: u64 = 64;
/// Commits after which the bytes of `rows` tables are counted again.
const RECOUNT_COMMITS: u64 = 1_024;
/// The bytes are also counted again after the rows grew by this fraction of their limit.
const RECOUNT_SHARE: u64 = 64;

/// An open database. Clones share it; it closes when the last clone is dropped, or by
/// [`Engine::close`].
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
    running: Arc<Running>,
}

/// State that only the clones of an engine hold, so that dropping the last clone closes it. Workers
/// wake each other through weak references, which must not become the last.
struct Running {
    inner: Arc<Inner>,
    workers: Arc<Workers>,
}

impl Running {
    fn close(&self) -> Result<()> {
        let (inner, workers) = (&self.inner, &self.workers);
        inner.refuse_writes();
        workers.compact.stop();
        workers.compact_low.stop();
        inner.abandon_compaction();
        workers.flush.stop();
        workers.gc.stop();
        workers.log.stop();
        let closed = inner.wal.close(&|lsn| inner.versions.advance(lsn));
        inner.release_flush();
        inner.release_waiters();
        closed
    }
}

impl Drop for Running {
    /// Flushes commits that were acknowledged without waiting for the disk. A failure has been
    /// reported to the callers that waited.
    fn drop(&mut self) {
        let _ = self.close();
    }
}

/// Worker threads (or simulated ones). They hold `Inner`, which must not hold them.
struct Workers {
    log: Worker,
    flush: Worker,
    compact: Worker,
    /// Merges segments at low CPU priority.
    compact_low: Worker,
    gc: Worker,
}

/// State shared by all parts of the engine.
pub(crate) struct Inner {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) dir: PathBuf,
    pub(crate) options: Options,
    pub(crate) wal: Wal,
    /// Serialises commits. Lock order: manifest, commit, open_txns, versions.
    pub(crate) commit: Mutex<CommitState>,
    pub(crate) versions: DbVersions,
    /// Transactions, locks and garbage of `rows` tables.
    pub(crate) store: Arc<rows::Store>,
    /// Memory held and allowed for statements and connections.
    pub(crate) memory: MemoryBudget,
    /// Commits that changed rows since start; decides when bytes are counted again.
    row_commits: AtomicU64,
    /// Changes of rows since start.
    rows_changed: AtomicU64,
    /// Bytes of `rows` tables when they were last counted.
    rows_counted: AtomicU64,
    /// Whether the GC worker has row garbage to collect.
    pub(crate) collecting: AtomicBool,
    pub(crate) manifest: Mutex<Manifest>,
    /// First record of each transaction that has records in the log and no commit record yet.
    pub(crate) open_txns: Mutex<BTreeMap<u64, Lsn>>,
    pub(crate) next_txn: AtomicU64,
    pub(crate) next_table: AtomicU32,
    next_file: AtomicU64,
    /// Memtable entries of commits up to here are being flushed and must not be merged; 0 = none.
    pub(crate) barrier: AtomicU64,
    pub(crate) memtable_bytes: AtomicU64,
    pub(crate) flushed_log_bytes: AtomicU64,
    /// Bytes of log that recovery read; 0 once a flush has made them obsolete.
    pub(crate) replayed_log_bytes: AtomicU64,
    pub(crate) flusher: Mutex<Flusher>,
    pub(crate) flush_waiters: Mutex<Vec<Waiter>>,
    pub(crate) settle_waiters: Mutex<Vec<Waiter>>,
    pub(crate) compactor: Mutex<Compactor>,
    /// The time that retention uses as the present, at most the wall clock.
    pub(crate) retention_ns: AtomicI64,
    pub(crate) orphans: Mutex<OrphanFiles>,
    /// Error of the last attempt to flush memtables, if it failed.
    pub(crate) flush_failure: Mutex<Option<Error>>,
    /// Deletes whose covered segments are still to be removed.
    pub(crate) covering_deletes: Mutex<Vec<CoveringDelete>>,
    pub(crate) consolidating: Mutex<()>,
    /// Delayed writers: monotonic deadline in nanoseconds, and the event to set at it.
    pub(crate) delayed: Mutex<Vec<(u64, Event)>>,
    pub(crate) closing: AtomicBool,
    pub(crate) counters: Counters,
    workers: OnceLock<Weak<Workers>>,
    _lock: Box<dyn Send + Sync>,
}

/// State guarded by the commit lock.
#[derive(Default)]
pub(crate) struct CommitState {
    /// Dropped tables whose files may be removed once the drop is flushed.
    pub(crate) dropped: Vec<(Lsn, Arc<TableState>)>,
    /// The last DROP or TRUNCATE that left obsolete rows in files of the last checkpoint.
    pub(crate) row_files_obsolete_since: Option<Lsn>,
}

#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) commits: AtomicU64,
    /// Payload bytes appended to the log.
    pub(crate) log_bytes: AtomicU64,
    pub(crate) rows_written: AtomicU64,
    pub(crate) ingested_bytes: AtomicU64,
    /// Payload bytes of the log of commits with rows of `columns` tables; part of `log_bytes`.
    pub(crate) ingest_log_bytes: AtomicU64,
    pub(crate) flushes: AtomicU64,
    pub(crate) flush_bytes: AtomicU64,
    pub(crate) compactions: AtomicU64,
    pub(crate) compaction_bytes: AtomicU64,
    pub(crate) compaction_read_bytes: AtomicU64,
    pub(crate) compaction_wait_ns: AtomicU64,
    pub(crate) compaction_backlog: AtomicU64,
    pub(crate) writers_delayed: AtomicU64,
    pub(crate) checkpoint_bytes: AtomicU64,
    pub(crate) retention_segments: AtomicU64,
    pub(crate) retention_bytes: AtomicU64,
    pub(crate) retention_late_rows: AtomicU64,
}

/// Counters and gauges of a running engine. "Since start" means since this process opened the
/// database.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Highest LSN assigned.
    pub last_lsn: u64,
    /// Highest LSN that is durable.
    pub durable_lsn: u64,
    /// All commits up to here are in segments and files of rows.
    pub flushed_lsn: u64,
    /// Payload bytes appended to the log since start.
    pub log_bytes: u64,
    /// Commits since start.
    pub commits: u64,
    /// Rows written since start.
    pub rows_written: u64,
    /// Bytes of rows written to `columns` tables: each value at the size of its type, plus 13 bytes
    /// a row for series, time and operation. Bytes written by log, flushes and compactions divided
    /// by this is the write amplification.
    pub ingested_bytes: u64,
    /// Payload bytes of the log of commits with rows of `columns` tables.
    pub ingest_log_bytes: u64,
    /// Bytes of memtables.
    pub memtable_bytes: u64,
    /// Memory of work in flight, by kind: name, bytes held, limit.
    pub work: [(&'static str, u64, u64); Work::ALL.len()],
    /// Memory reservations refused since start.
    pub reservations_refused: u64,
    /// The memory budget, in bytes.
    pub memory_bytes: u64,
    /// Bytes of log files on disk.
    pub log_disk_bytes: u64,
    /// Bytes of all segments.
    pub segment_bytes: u64,
    /// Number of segments.
    pub segments: u64,
    /// Segments whose files are open.
    pub open_segments: u64,
    /// Bytes of block indexes, column directories and statistics of segments in memory.
    pub directory_bytes: u64,
    /// Number of `columns` tables.
    pub tables: u64,
    /// Series of all `columns` tables.
    pub series: u64,
    /// Memtable flushes since start.
    pub flushes: u64,
    /// Bytes of segments that flushes wrote.
    pub flush_bytes: u64,
    /// Compactions since start.
    pub compactions: u64,
    /// Bytes of segments that compactions wrote.
    pub compaction_bytes: u64,
    /// Bytes of segments that compactions read.
    pub compaction_read_bytes: u64,
    /// Nanoseconds that compactions waited because of the rate limit.
    pub compaction_wait_ns: u64,
    /// The largest compaction backlog of a table, in segments, as of the last flush or compaction.
    pub compaction_backlog: u64,
    /// Times a writer was delayed because memtables were nearly full.
    pub writers_delayed: u64,
    /// Number of `rows` tables.
    pub row_tables: u64,
    /// Rows in all `rows` tables.
    pub rows: u64,
    /// Bytes of records, versions and indexes of `rows` tables.
    pub rows_bytes: u64,
    /// Inserts and updates of `rows` tables are refused at this many bytes.
    pub rows_bytes_max: u64,
    /// Old versions and index entries that wait until no snapshot sees them.
    pub rows_garbage: u64,
    /// Bytes of old row versions that only open snapshots see; part of `rows_bytes`.
    pub rows_held_bytes: u64,
    /// Bytes of the lists of changes, locks and garbage of `rows` tables.
    pub rows_list_bytes: u64,
    /// Bytes of `rows` tables that are unlinked but not yet freed, because running statements may
    /// still read them.
    pub rows_deferred_bytes: u64,
    /// Times a transaction waited for a lock since start.
    pub lock_waits: u64,
    /// Transactions that are waiting for a lock.
    pub lock_waiters: u64,
    /// Bytes of the checkpoint files of `rows` tables.
    pub row_file_bytes: u64,
    /// Bytes of checkpoint files written since start.
    pub checkpoint_bytes: u64,
    /// Segments dropped by retention since start.
    pub retention_segments: u64,
    /// Bytes of the segments dropped by retention.
    pub retention_bytes: u64,
    /// Rows written with a time before the retention horizon since start: accepted and never
    /// returned.
    pub retention_late_rows: u64,
}

impl Engine {
    /// Opens the database in `dir`, creating it if there is none, and starts its workers.
    ///
    /// # Errors
    /// 22023 for a directory with other contents, which is left unchanged; 55P03 when another
    /// process has it open; 55000 for another format version; XX001 with what is wrong where;
    /// 58030.
    pub fn open(env: Arc<dyn Env>, dir: &Path, options: Options) -> Result<(Engine, Recovery)> {
        let started = env.monotonic_ns();
        let (inner, mut recovery) = open(env, dir, options)?;
        let inner = Arc::new(inner);
        let spawn = |name: &str, step: fn(&Arc<Inner>) -> env::Step| {
            let inner = Arc::clone(&inner);
            inner.env.clone().spawn(name, Box::new(move || step(&inner)))
        };
        let merger = Arc::clone(&inner);
        let merge = Box::new(move || merger.compact_step(Priority::Low));
        let workers = Arc::new(Workers {
            log: spawn("log", |inner| inner.log_step()),
            flush: spawn("flush", Inner::flush_step),
            compact: spawn("compact", |inner| inner.compact_step(Priority::Normal)),
            compact_low: inner.env.spawn_low("compact-low", merge),
            gc: spawn("gc", |inner| inner.gc_step()),
        });
        let _ = inner.workers.set(Arc::downgrade(&workers));
        let waker = Arc::downgrade(&workers);
        inner.wal.on_work(move || {
            if let Some(workers) = waker.upgrade() {
                workers.log.wake();
            }
        });
        recovery.elapsed_ns = inner.env.monotonic_ns().saturating_sub(started);
        let running = Arc::new(Running { inner: Arc::clone(&inner), workers });
        Ok((Engine { inner, running }, recovery))
    }

    /// Starts a transaction. `seen` is the session's own last commit (`Lsn::ZERO` at first): the
    /// transaction reads that commit or a later one.
    #[must_use]
    pub fn begin(&self, isolation: Isolation, seen: Lsn) -> Txn {
        Txn::new(self.clone(), isolation, seen)
    }

    /// Returns a number for a new table, index or sequence; numbers are never reused in this
    /// database.
    #[must_use]
    pub fn next_number(&self) -> u32 {
        self.inner.next_table.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the snapshot of a single read-only statement. `seen`: the session's own last commit.
    #[must_use]
    pub fn snapshot(&self, seen: Lsn) -> Snapshot {
        Snapshot::new(self.inner.versions.visible(seen))
    }

    /// Returns `None` if the commit is durable, else an event to wait for before asking again.
    ///
    /// # Errors
    /// 58030 when the log has failed: it is unknown whether the commit is durable.
    pub fn when_durable(&self, lsn: Lsn) -> Result<Option<Event>> {
        let wal = &self.inner.wal;
        if wal.durable() >= lsn {
            return Ok(None);
        }
        wal.failure().map_or_else(|| Ok(Some(wal.when_durable(lsn))), Err)
    }

    /// Blocks (by `Env::wait`) until the commit is acknowledged. For embedded use and tests;
    /// servers poll.
    ///
    /// # Errors
    /// Those of [`Committing::poll`].
    pub fn finish(&self, mut committing: Committing) -> Result<Lsn> {
        loop {
            match committing.poll()? {
                Progress::Done(lsn) => return Ok(lsn),
                Progress::Wait(event) => self.inner.env.wait(&event),
            }
        }
    }

    /// Requests a flush of all memtables; the event is set when it has finished or failed.
    pub fn start_flush(&self) -> Pending {
        let (waiter, pending) = pending_work();
        self.inner.flush_waiters.lock().push(waiter);
        self.running.workers.flush.wake();
        self.inner.release_if_closing();
        pending
    }

    /// Flushes all memtables and blocks until that is done.
    ///
    /// # Errors
    /// The error of the flush; the memtables are kept. 57P01 when the database closes first.
    pub fn flush(&self) -> Result<()> {
        let flushing = self.start_flush();
        self.inner.env.wait(&flushing.event);
        flushing.result()
    }

    /// Requests that all segments be merged into their final ("settled") form: no two segments
    /// overlap in time, deletes are applied, and each row is complete in one place. Does not flush
    /// memtables. The event is set when that is done or when a compaction has failed.
    pub fn start_settle(&self) -> Pending {
        let (waiter, pending) = pending_work();
        self.inner.settle_waiters.lock().push(waiter);
        self.inner.wake_compactor();
        self.inner.release_if_closing();
        pending
    }

    /// Settles all segments, see [`Engine::start_settle`], and blocks until that is done.
    ///
    /// # Errors
    /// The error of the compaction; its inputs are kept. 57P01 when the database closes first.
    pub fn settle(&self) -> Result<()> {
        let settling = self.start_settle();
        self.inner.env.wait(&settling.event);
        settling.result()
    }

    /// Flushes the log with a durable mark and stops the workers. Later commits are refused; reads
    /// continue. Callers that wait for a flush or for memory receive 57P01.
    ///
    /// # Errors
    /// 58030 when the log cannot be flushed.
    pub fn close(&self) -> Result<()> {
        self.running.close()
    }

    /// Returns counters and gauges for metrics and EXPLAIN.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.inner.stats()
    }

    /// Returns the error with which the log failed, if it did: writes are refused, reads continue
    /// at the durable LSN, `/ready` answers 503.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        self.inner.wal.failure()
    }

    /// The directory for spill files, which is emptied at open.
    #[must_use]
    pub fn spill_dir(&self) -> PathBuf {
        spill_dir(&self.inner.dir)
    }

    /// The environment (files, clock, threads) that the database runs in.
    #[must_use]
    pub fn env(&self) -> &Arc<dyn Env> {
        &self.inner.env
    }

    /// The settings with which the database was opened.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.inner.options
    }

    /// The memory budget, from which statements and connections reserve what they hold.
    #[must_use]
    pub fn memory(&self) -> &MemoryBudget {
        &self.inner.memory
    }
}

/// A flush or compaction that was requested.
pub struct Pending {
    /// Set when the work is done or has failed.
    pub event: Event,
    error: Arc<Mutex<Option<Error>>>,
}

impl Pending {
    /// Returns the outcome, once the event is set.
    ///
    /// # Errors
    /// The error of the flush or compaction; memtables and segments are kept.
    pub fn result(&self) -> Result<()> {
        self.error.lock().take().map_or(Ok(()), Err)
    }
}

fn pending_work() -> (Waiter, Pending) {
    let waiter = Waiter { event: Event::new(), error: Arc::default() };
    let pending = Pending { event: waiter.event.clone(), error: Arc::clone(&waiter.error) };
    (waiter, pending)
}

pub(crate) fn closing() -> Error {
    Error::new(SqlState::ADMIN_SHUTDOWN, "the database is closing; nothing was written")
}

pub(crate) fn spill_dir(dir: &Path) -> PathBuf {
    dir.join("tmp")
}

pub(crate) fn data_dir(dir: &Path) -> PathBuf {
    dir.join("data")
}

pub(crate) fn log_dir(dir: &Path) -> PathBuf {
    dir.join("log")
}

fn open(env: Arc<dyn Env>, dir: &Path, options: Options) -> Result<(Inner, Recovery)> {
    let Claimed { contents, lock } = directory::claim(&*env, dir)?;
    let mut recovery = Recovery { created: contents == Contents::Empty, ..Recovery::default() };
    let mut manifest = match contents {
        Contents::Empty => create(&*env, dir)?,
        Contents::Database => read(&*env, dir)?,
    };
    if manifest.stored.needs_rewrite() {
        manifest.write(&*env, dir)?;
    }
    let cache = SegmentCache::new(open_segments_max(&*env), options.directory_bytes_max());
    let mut db = load(&env, dir, &manifest, cache)?;
    let recovered_rows = load_rows(&env, dir, &manifest, &mut db, options.rows_bytes_max() / 4)?;
    let rows_lsn = recovered_rows.lsn;
    recovery.segments = manifest.files.values().map(|files| files.segments.len() as u64).sum();

    let mut replay = Replay::new();
    let mut next_table = manifest.next_table;
    let mut dropped = Vec::new();
    let wal_options = WalOptions::with_file_bytes(options.log_file_bytes);
    let (wal, opened) = Wal::open(
        Arc::clone(&env),
        &log_dir(dir),
        manifest.identity,
        wal_options,
        manifest.replay_from,
        &mut |lsn, payload| {
            let Some(replayed) = replay.record(lsn, payload, manifest.flushed_lsn, &mut db)? else { return Ok(()) };
            next_table = next_table.max(replayed.next_number);
            dropped.extend(replayed.dropped.into_iter().map(|state| (lsn, state)));
            Ok(())
        },
    )?;
    replay.install(&mut db);
    recover_rows(&env, &mut db, recovered_rows)?;
    recovery.row_tables = db.row_tables.len() as u64;
    recovery.rows = db.row_tables.values().map(|table| table.records.rows()).sum();
    recovery.tables = db.tables.len() as u64;
    recovery.series = db.tables.values().map(|state| u64::from(state.series_count)).sum();
    let in_files = manifest.flushed_lsn.max(rows_lsn);
    if wal.last() < in_files {
        return Err(Error::corrupt(format!(
            "the log ends at LSN {}, but files hold commits up to {in_files}: log files are missing",
            wal.last()
        )));
    }
    recovery.log_records = opened.records;
    recovery.log_bytes = opened.bytes;
    recovery.torn_bytes = opened.torn_bytes;
    recovery.commits = replay.commits;
    // Leftover files are removed only now, so that every failure above leaves the directory
    // untouched.
    let next_file = directory::remove_leftovers(&*env, dir, &manifest)?.max(manifest.next_file);

    let memtable_bytes = db.memory_bytes();
    let retention_ns = manifest.retention_ns.max(db.retention_ns);
    let store = Arc::new(rows::Store::new());
    store.set_memory_bytes(db.rows_bytes());
    let memory = MemoryBudget::new(options.memory_bytes, Arc::clone(&store));
    let inner = Inner {
        store,
        memory,
        row_commits: AtomicU64::new(0),
        rows_changed: AtomicU64::new(0),
        rows_counted: AtomicU64::new(0),
        collecting: AtomicBool::new(false),
        dir: dir.to_owned(),
        next_txn: AtomicU64::new(replay.next_txn.max(wal.last().0 + 1)),
        next_table: AtomicU32::new(next_table),
        next_file: AtomicU64::new(next_file),
        versions: DbVersions::new(db, wal.durable()),
        wal,
        // Zero makes the first flush look for obsolete rows, whatever the log contained.
        commit: Mutex::new(CommitState { dropped, row_files_obsolete_since: Some(Lsn::ZERO) }),
        manifest: Mutex::new(manifest),
        open_txns: Mutex::default(),
        barrier: AtomicU64::new(0),
        memtable_bytes: AtomicU64::new(memtable_bytes),
        flushed_log_bytes: AtomicU64::new(0),
        replayed_log_bytes: AtomicU64::new(opened.bytes),
        flusher: Mutex::default(),
        flush_waiters: Mutex::default(),
        settle_waiters: Mutex::default(),
        compactor: Mutex::new(Compactor::new(retention::Clock::new(env.monotonic_ns()))),
        retention_ns: AtomicI64::new(retention_ns),
        orphans: Mutex::default(),
        flush_failure: Mutex::default(),
        covering_deletes: Mutex::default(),
        consolidating: Mutex::new(()),
        delayed: Mutex::default(),
        closing: AtomicBool::new(false),
        counters: Counters::default(),
        workers: OnceLock::new(),
        _lock: lock,
        options,
        env,
    };
    Ok((inner, recovery))
}

/// Creates a database: first its directories, then its first manifest, before anything is logged.
fn create(env: &dyn Env, dir: &Path) -> Result<Manifest> {
    make_folders(env, dir, &[data_dir(dir), log_dir(dir), spill_dir(dir)])?;
    let mut manifest =
        Manifest { identity: env.random(), replay_from: Lsn(1), next_file: 1, next_table: 1, ..Manifest::default() };
    manifest.write(env, dir)?;
    Ok(manifest)
}

/// Reads the manifest of an existing database.
fn read(env: &dyn Env, dir: &Path) -> Result<Manifest> {
    let manifest = Manifest::read(env, dir)?;
    let manifest = manifest.ok_or_else(|| Error::corrupt(format!("the MANIFEST of {} is missing", dir.display())))?;
    directory::check_parts(env, dir, &manifest)?;
    // An interrupted creation may have left directories whose names are not durable.
    make_folders(env, dir, &[spill_dir(dir)])?;
    Ok(manifest)
}

/// Creates directories of a database and makes their names, and that of the database directory,
/// durable.
fn make_folders(env: &dyn Env, dir: &Path, folders: &[PathBuf]) -> Result<()> {
    let io = |what: &str, path: &Path, error: std::io::Error| Error::io(format!("{what} {}", path.display()), &error);
    for folder in folders {
        env.create_dir_all(folder).map_err(|error| io("create directory", folder, error))?;
    }
    env.sync_dir(dir).map_err(|error| io("sync directory", dir, error))?;
    if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        env.sync_dir(parent).map_err(|error| io("sync directory", parent, error))?;
    }
    Ok(())
}

/// Half of the files that the process may have open; the others are for clients and the log. The
/// upper limit bounds the kernel's memory for open files.
fn open_segments_max(env: &dyn Env) -> u64 {
    (env.open_files_max() / 2).clamp(1, OPEN_SEGMENTS_MAX)
}

fn load(env: &Arc<dyn Env>, dir: &Path, manifest: &Manifest, cache: SegmentCache) -> Result<DbVersion> {
    let mut tables = OrdMap::new();
    for (id, files) in &manifest.files {
        let table = manifest.catalog.table_by_id(*id).ok_or_else(|| Error::corrupt(format!("no table number {id}")))?;
        let state = TableState::load(env, &data_dir(dir), Arc::clone(table), files, &cache)
            .map_err(|error| error.context(format!("table {}", table.name)))?;
        tables.insert(*id, Arc::new(state));
    }
    let counters = manifest.sequences.iter().map(|(id, state)| (*id, Arc::new(Counter::new(*state)))).collect();
    Ok(DbVersion {
        lsn: manifest.flushed_lsn,
        wall_ns: manifest.wall_ns,
        catalog: Arc::clone(&manifest.catalog),
        catalog_lsn: manifest.flushed_lsn,
        tables,
        row_tables: OrdMap::new(),
        counters,
        retention_ns: manifest.retention_ns,
        cache,
    })
}

/// The parts of `rows` tables recovered so far.
#[derive(Default)]
struct RecoveredRows {
    /// The newest commit with a row in the files.
    lsn: Lsn,
    parts: BTreeMap<TableId, Vec<rows::Recovered>>,
    /// Memory of `parts`, in bytes.
    bytes: u64,
}

impl RecoveredRows {
    fn add(&mut self, table: &rows::RowTable, part: rows::Recovered) {
        self.bytes += part.memory_bytes();
        self.parts.entry(table.id()).or_default().push(part);
    }
}

/// Reads the checkpoint files of `rows` tables; log replay follows. Parts recovered early hold
/// about `bytes` at most; the limit is checked before each part is added.
fn load_rows(
    env: &Arc<dyn Env>,
    dir: &Path,
    manifest: &Manifest,
    db: &mut DbVersion,
    bytes: u64,
) -> Result<RecoveredRows> {
    let recovered: Arc<Mutex<RecoveredRows>> = Arc::default();
    let mut jobs: Vec<RecoveryJob> = Vec::new();
    for (id, files) in &manifest.row_files {
        let schema =
            manifest.catalog.row_table_by_id(*id).ok_or_else(|| Error::corrupt(format!("no table number {id}")))?;
        let records = Arc::new(rows::Records::new().emptied(files.since));
        // All parts but the last are full. Record numbers after the last are empty and are reused.
        records.reserve(files.parts.iter().rfind(|part| part.file != 0).map_or(0, |last| last.part));
        let table = Arc::new(rows::RowTable::over(Arc::clone(schema), records)?);
        for part in &files.parts {
            let (table, part, recovered) = (Arc::clone(&table), *part, Arc::clone(&recovered));
            let (env, data) = (Arc::clone(env), data_dir(dir));
            jobs.push(Box::new(move || {
                let lsn = load_part(&*env, &data, &table, &part)?;
                let is_room = {
                    let mut recovered = recovered.lock();
                    recovered.lsn = recovered.lsn.max(lsn);
                    recovered.bytes < bytes
                };
                // Most parts do not occur in the log again, so their index entries are built while
                // other parts are read. A failure is ignored here and retried after log replay,
                // which may bring a newer table schema.
                if is_room && let Ok(part) = table.recover(part.part) {
                    recovered.lock().add(&table, part);
                }
                Ok(())
            }));
        }
        db.row_tables.insert(*id, table);
    }
    in_parallel(env, jobs)?;
    Ok(std::mem::take(&mut *recovered.lock()))
}

/// Loads the rows of one file into its table and returns the LSN of the newest commit among them.
fn load_part(env: &dyn Env, data: &Path, table: &rows::RowTable, part: &RowPart) -> Result<Lsn> {
    let guard = &crossbeam_epoch::pin();
    let (mut restoring, mut newest) = (table.records.restoring(), Lsn::ZERO);
    let restored = read_rows(env, data, table.id(), part, &mut |record, lsn, row| {
        newest = newest.max(lsn);
        restoring.put(record, lsn, Some(row.into()), guard)
    });
    restored.map_err(|error| error.context(format!("table {}", table.schema.name)))?;
    Ok(newest)
}

/// Finishes the recovery of `rows` tables: frees deleted records and builds the indexes. Small
/// tables run in parallel, large ones one after the other, because index entries take memory until
/// their index is built.
fn recover_rows(env: &Arc<dyn Env>, db: &mut DbVersion, mut recovered: RecoveredRows) -> Result<()> {
    let tables = Arc::new(Mutex::new(OrdMap::new()));
    let mut small: Vec<RecoveryJob> = Vec::new();
    for (id, table) in &db.row_tables {
        let mut parts = recovered.parts.remove(id).unwrap_or_default();
        let todo = table.unrecovered(&mut parts);
        let (table, tables) = (Arc::clone(table), Arc::clone(&tables));
        if todo.len() + parts.len() > 1 {
            let table = finished(&table, with_parts(env, &table, todo, parts)?)?;
            tables.lock().insert(*id, table);
            continue;
        }
        small.push(Box::new(move || {
            for part in todo {
                parts.push(table.recover(part)?);
            }
            let table = finished(&table, parts)?;
            tables.lock().insert(table.id(), table);
            Ok(())
        }));
    }
    in_parallel(env, small)?;
    db.row_tables = std::mem::take(&mut *tables.lock());
    Ok(())
}

/// Recovers the parts of a table that are not yet in `done`.
fn with_parts(
    env: &Arc<dyn Env>,
    table: &Arc<rows::RowTable>,
    todo: Vec<u64>,
    done: Vec<rows::Recovered>,
) -> Result<Vec<rows::Recovered>> {
    let parts = Arc::new(Mutex::new(done));
    let job = |part: u64| -> RecoveryJob {
        let (table, parts) = (Arc::clone(table), Arc::clone(&parts));
        Box::new(move || {
            let part = table.recover(part)?;
            parts.lock().push(part);
            Ok(())
        })
    };
    in_parallel(env, todo.into_iter().map(job).collect())?;
    Ok(std::mem::take(&mut *parts.lock()))
}

fn finished(table: &rows::RowTable, parts: Vec<rows::Recovered>) -> Result<Arc<rows::RowTable>> {
    let table = table.recovered(parts)?;
    table.take_effect();
    Ok(Arc::new(table))
}

/// A unit of recovery work that can run in parallel with others.
type RecoveryJob = Box<dyn FnOnce() -> Result<()> + Send>;

struct RecoveryJobs {
    todo: Mutex<VecDeque<RecoveryJob>>,
    workers: AtomicU64,
    error: Mutex<Option<Error>>,
    done: Event,
}

/// Guard of a running job: if the job panics, the waiting thread is woken with an error.
struct RunningJob<'a>(&'a RecoveryJobs);

impl Drop for RunningJob<'_> {
    fn drop(&mut self) {
        self.0.fail(Error::bug("a recovery job panicked"));
        self.0.done.set();
    }
}

impl RecoveryJobs {
    fn fail(&self, error: Error) {
        self.error.lock().get_or_insert(error);
        self.todo.lock().clear();
    }

    fn step(&self) -> env::Step {
        let job = self.todo.lock().pop_front();
        let Some(job) = job else {
            if self.workers.fetch_sub(1, Ordering::AcqRel) == 1 {
                self.done.set();
            }
            return env::Step::Finished;
        };
        let running_job = RunningJob(self);
        let result = job();
        std::mem::forget(running_job);
        if let Err(error) = result {
            self.fail(error);
        }
        env::Step::Again
    }
}

/// Runs jobs on up to [`START_WORKERS`] threads and waits for all of them. The first error cancels
/// the jobs not yet started and is returned.
fn in_parallel(env: &Arc<dyn Env>, jobs: Vec<RecoveryJob>) -> Result<()> {
    let count = jobs.len().min(START_WORKERS);
    if count < 2 {
        return jobs.into_iter().try_for_each(|job| job());
    }
    let (todo, workers) = (Mutex::new(jobs.into()), AtomicU64::new(count as u64));
    let jobs = Arc::new(RecoveryJobs { todo, workers, error: Mutex::default(), done: Event::new() });
    let spawn = |_| {
        let jobs = Arc::clone(&jobs);
        env.spawn("start", Box::new(move || jobs.step()))
    };
    let workers: Vec<Worker> = (0..count).map(spawn).collect();
    env.wait(&jobs.done);
    drop(workers);
    let error = jobs.error.lock().take();
    error.map_or(Ok(()), Err)
}

/// The write stall that memtable memory demands of a writer.
pub(crate) enum WriteStall {
    Clear,
    /// Delay the write by this many nanoseconds: flushing has trouble keeping up.
    Delay(u64),
    Stop,
}

impl Inner {
    pub(crate) fn data_dir(&self) -> PathBuf {
        data_dir(&self.dir)
    }

    /// Returns an unused file number.
    pub(crate) fn next_file(&self) -> u64 {
        self.next_file.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn file_count(&self) -> u64 {
        self.next_file.load(Ordering::Relaxed)
    }

    pub(crate) fn log_bytes_since_flush(&self) -> u64 {
        let appended = self.counters.log_bytes.load(Ordering::Relaxed);
        appended.saturating_sub(self.flushed_log_bytes.load(Ordering::Relaxed))
            + self.replayed_log_bytes.load(Ordering::Relaxed)
    }

    /// # Errors
    /// 57P01 when closing, 58030 when the log has failed.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.closing.load(Ordering::SeqCst) {
            return Err(closing());
        }
        self.wal.failure().map_or(Ok(()), Err)
    }

    /// Refuses all later appends to the log. Every append holds one of these locks and calls
    /// [`Inner::check_writable`] under it, so no record is queued after this that the log worker
    /// might not live to write.
    fn refuse_writes(&self) {
        let _commit = self.commit.lock();
        let _open_txns = self.open_txns.lock();
        self.closing.store(true, Ordering::SeqCst);
    }

    /// Called after a wait was registered: the workers may have stopped before they saw it.
    fn release_if_closing(&self) {
        if self.closing.load(Ordering::SeqCst) {
            self.release_waiters();
        }
    }

    pub(crate) fn wake_flusher_if_due(&self) {
        if self.memtable_bytes.load(Ordering::Relaxed) >= self.options.memtable_flush_bytes()
            || self.log_bytes_since_flush() >= self.options.log_flush_bytes
        {
            self.wake_flusher();
        }
    }

    /// Returns the write stall for the present memtable memory. Between three quarters of the limit
    /// and the limit, the delay grows linearly to 20 ms.
    pub(crate) fn write_stall(&self) -> WriteStall {
        let used = self.memtable_bytes.load(Ordering::Relaxed);
        let limit = self.options.memtable_bytes_max();
        let soft = limit / 4 * 3;
        if used < soft {
            WriteStall::Clear
        } else if used < limit {
            WriteStall::Delay(20_000_000 * (used - soft) / (limit - soft).max(1))
        } else {
            WriteStall::Stop
        }
    }

    /// Registers a delayed writer; the returned event is set about `ns` nanoseconds from now.
    pub(crate) fn after(&self, ns: u64) -> Event {
        let event = Event::new();
        self.counters.writers_delayed.fetch_add(1, Ordering::Relaxed);
        self.delayed.lock().push((self.env.monotonic_ns() + ns, event.clone()));
        self.wake_gc();
        self.release_if_closing();
        event
    }

    /// Wakes all delayed writers, which check memory again.
    pub(crate) fn release_memory_waiters(&self) {
        for (_, event) in std::mem::take(&mut *self.delayed.lock()) {
            event.set();
        }
    }

    /// The refusal of a write when memtables are full and the disk has no space to flush them to.
    pub(crate) fn full_disk_refusal(&self) -> Option<Error> {
        let failure = self.flush_failure.lock().clone().filter(|error| error.state() == SqlState::DISK_FULL)?;
        Some(
            Error::new(SqlState::DISK_FULL, format!("memtables are full and cannot be flushed: {}", failure.message()))
                .with_detail("Nothing of this write was stored; reads, DELETE and DROP still work")
                .with_hint("free space on the disk, or drop or truncate tables; writes are then accepted again"),
        )
    }

    pub(crate) fn memory_refusal(&self) -> Error {
        Error::new(
            SqlState::OUT_OF_MEMORY,
            format!(
                "memtables hold {} bytes, the limit is {}, and flushing cannot keep up",
                self.memtable_bytes.load(Ordering::Relaxed),
                self.options.memtable_bytes_max()
            ),
        )
        .with_detail("nothing was written")
        .with_hint("try again later; if the error persists, check the disk or start the server with a larger --memory")
    }

    /// Called after a commit that made `changes` changes in `rows` tables: collects about twice as
    /// much garbage as these changes made, and counts bytes again when due.
    pub(crate) fn after_row_commit(&self, changes: usize) {
        // In batches: a row that changes again and again is visited once for all of its changes.
        let before = self.rows_changed.fetch_add(changes as u64, Ordering::Relaxed);
        if before / COLLECT_EACH != (before + changes as u64) / COLLECT_EACH {
            // Only the oldest snapshot is considered here, which is cheap to find. Versions between
            // two snapshots are left to the GC worker.
            let readers = Readers::since(self.versions.horizon());
            self.collect_rows(&readers, (2 * changes + 2 * COLLECT_EACH as usize).min(COLLECT_COMMIT));
        }
        // Index growth is not tracked between two counts.
        let grown = self.store.memory_bytes().abs_diff(self.rows_counted.load(Ordering::Relaxed));
        let count = self.row_commits.fetch_add(1, Ordering::Relaxed);
        if count.is_multiple_of(RECOUNT_COMMITS) || grown > self.options.rows_bytes_max() / RECOUNT_SHARE {
            self.recount_rows();
        }
        if self.store.garbage() > 0 && !self.collecting.swap(true, Ordering::Relaxed) {
            self.wake_gc();
        }
    }

    /// Collects at most `most` versions and index entries of `rows` tables that none of the readers
    /// sees. Returns how many it visited.
    pub(crate) fn collect_rows(&self, readers: &Readers, most: usize) -> usize {
        self.store.collect(readers, most).unwrap_or_else(|error| {
            tracing::error!(%error, "old versions of rows tables could not be removed");
            0
        })
    }

    pub(crate) fn recount_rows(&self) {
        let bytes = self.versions.newest().rows_bytes() + self.store.departed_bytes();
        self.rows_counted.store(bytes, Ordering::Relaxed);
        self.store.set_memory_bytes(bytes);
    }

    fn wake_gc(&self) {
        if let Some(workers) = self.workers.get().and_then(Weak::upgrade) {
            workers.gc.wake();
        }
    }

    pub(crate) fn wake_flusher(&self) {
        if let Some(workers) = self.workers.get().and_then(Weak::upgrade) {
            workers.flush.wake();
        }
    }

    /// Wakes the compactor because there may be work.
    pub(crate) fn wake_compactor(&self) {
        // If the low-priority worker should run, the normal one wakes it.
        self.wake_compaction_worker(Priority::Normal);
    }

    pub(crate) fn wake_compaction_worker(&self, turn: Priority) {
        if let Some(workers) = self.workers.get().and_then(Weak::upgrade) {
            match turn {
                Priority::Normal => workers.compact.wake(),
                Priority::Low => workers.compact_low.wake(),
            }
        }
    }

    fn stats(&self) -> Stats {
        let db = self.versions.newest();
        let counters = &self.counters;
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut stats = Stats {
            last_lsn: self.wal.last().0,
            durable_lsn: self.wal.durable().0,
            flushed_lsn: self.manifest.lock().flushed_lsn.0,
            log_bytes: load(&counters.log_bytes),
            commits: load(&counters.commits),
            rows_written: load(&counters.rows_written),
            ingested_bytes: load(&counters.ingested_bytes),
            ingest_log_bytes: load(&counters.ingest_log_bytes),
            memtable_bytes: load(&self.memtable_bytes),
            memory_bytes: self.options.memory_bytes,
            log_disk_bytes: self.wal.disk_bytes(),
            tables: db.tables.len() as u64,
            flushes: load(&counters.flushes),
            flush_bytes: load(&counters.flush_bytes),
            compactions: load(&counters.compactions),
            compaction_bytes: load(&counters.compaction_bytes),
            compaction_read_bytes: load(&counters.compaction_read_bytes),
            compaction_wait_ns: load(&counters.compaction_wait_ns),
            compaction_backlog: load(&counters.compaction_backlog),
            writers_delayed: load(&counters.writers_delayed),
            row_tables: db.row_tables.len() as u64,
            rows: db.row_tables.values().map(|table| table.records.rows()).sum(),
            rows_bytes: db.rows_bytes() + self.store.departed_bytes(),
            rows_bytes_max: self.memory.rows_max(),
            work: Work::ALL.map(|kind| (kind.name(), self.memory.used(kind), self.memory.max_of(kind))),
            reservations_refused: self.memory.refused(),
            rows_garbage: self.store.garbage() as u64,
            rows_held_bytes: self.store.held_bytes(),
            rows_list_bytes: self.store.list_bytes(),
            rows_deferred_bytes: self.store.deferred_bytes(),
            lock_waits: self.store.waits(),
            lock_waiters: self.store.waiting() as u64,
            checkpoint_bytes: load(&counters.checkpoint_bytes),
            retention_segments: load(&counters.retention_segments),
            retention_bytes: load(&counters.retention_bytes),
            retention_late_rows: load(&counters.retention_late_rows),
            open_segments: db.cache.open_files(),
            directory_bytes: db.cache.directory_bytes(),
            ..Stats::default()
        };
        stats.row_file_bytes =
            self.manifest.lock().row_files.values().flat_map(|files| &files.parts).map(|part| part.bytes).sum();
        for state in db.tables.values() {
            stats.segments += state.segments.len() as u64;
            stats.segment_bytes += state.segments.iter().map(|segment| segment.meta().bytes).sum::<u64>();
            stats.series += u64::from(state.series_count);
        }
        stats
    }
}
