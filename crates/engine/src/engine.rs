//! Opening and closing the engine, and the state that all its parts share.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use columns::{SegmentCache, TableState};
use env::{Env, Event, Worker};
use imbl::OrdMap;
use model::{Error, Lsn, Result, SqlState, TableId, limits};
use parking_lot::Mutex;
use wal::{Wal, WalOptions};

use crate::commit::{Committing, Progress, Replay};
use crate::compaction::Compaction;
use crate::db_version::{DbVersion, DbVersions};
use crate::directory::{self, Claimed, Contents};
use crate::flush::Flush;
use crate::jobs::{JobWorkers, Jobs, Pending};
use crate::manifest::Manifest;
use crate::manifest_store::ManifestStore;
use crate::memory::MemoryBudget;
use crate::recent_times::RecentTimes;
use crate::retention::Retention;
use crate::rowfile::{RowPart, read_rows};
use crate::sequence::Counter;
use crate::stats::{Counters, Stats, stats};
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
/// An open database. Clones share it; it closes when the last clone is dropped, or by
/// [`Engine::close`].
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
    running: Arc<Running>,
}

/// State that only the clones of an engine hold, so that dropping the last clone closes it. Jobs
/// wake each other through weak references, which must not become the last.
struct Running {
    inner: Arc<Inner>,
    workers: Vec<JobWorkers>,
}

impl Running {
    fn close(&self) -> Result<()> {
        let inner = &self.inner;
        inner.refuse_writes();
        inner.jobs.close(inner, &self.workers);
        inner.wal.close(&|lsn| inner.versions.advance(lsn))?;
        let (last, durable) = (inner.wal.last(), inner.wal.durable());
        assert!(durable == last, "BUG: closed with a log durable up to {durable} of {last}");
        Ok(())
    }
}

impl Drop for Running {
    /// Flushes commits that were acknowledged without waiting for the disk. A failure has been
    /// reported to the callers that waited.
    fn drop(&mut self) {
        let _ = self.close();
    }
}

/// State shared by all parts of the engine.
pub(crate) struct Inner {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) dir: PathBuf,
    pub(crate) options: Options,
    pub(crate) wal: Wal,
    /// Serialises commits. Lock order: a job's turn and state, manifest, commit, open_txns,
    /// versions.
    pub(crate) commit: Mutex<CommitState>,
    pub(crate) versions: DbVersions,
    pub(crate) manifests: ManifestStore,
    /// Transactions, locks and garbage of `rows` tables.
    pub(crate) store: Arc<rows::Store>,
    /// Memory held and allowed for statements and connections.
    pub(crate) memory: MemoryBudget,
    pub(crate) memtable_bytes: AtomicU64,
    /// First record of each transaction that has records in the log and no commit record yet.
    pub(crate) open_txns: Mutex<BTreeMap<u64, Lsn>>,
    pub(crate) next_txn: AtomicU64,
    pub(crate) next_table: AtomicU32,
    next_file: AtomicU64,
    pub(crate) jobs: Jobs,
    pub(crate) counters: Counters,
    pub(crate) closing: AtomicBool,
    /// The broken invariant of the commit point, after which nothing is committed.
    poisoned: OnceLock<Error>,
    _lock: Box<dyn Send + Sync>,
}

/// State guarded by the commit lock.
#[derive(Default)]
pub(crate) struct CommitState {
    /// Dropped tables whose files may be removed once the drop is flushed.
    pub(crate) dropped: Vec<(Lsn, Arc<TableState>)>,
    /// The last DROP or TRUNCATE that left obsolete rows in files of the last checkpoint.
    pub(crate) row_files_obsolete_since: Option<Lsn>,
    /// Times of recent commits to tables without a key.
    pub(crate) recent_times: BTreeMap<TableId, RecentTimes>,
    /// The last commit that wrote or deleted rows of each `columns` table since the start.
    pub(crate) last_rows: BTreeMap<TableId, Lsn>,
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
        let workers = inner.jobs.start(&inner);
        let waker = Arc::downgrade(&inner);
        inner.wal.on_work(move || {
            if let Some(inner) = waker.upgrade() {
                inner.jobs.log.wake();
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
        Flush::request(&self.inner)
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
        Compaction::request(&self.inner)
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
        stats(&self.inner)
    }

    /// Returns the reason why writes are refused, if they are, while reads continue at the durable
    /// LSN: the log has failed (58030), or an invariant of the commit point is broken (XX000).
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        self.inner.failure()
    }

    /// Returns an error if writes are refused or a background job has stopped, for `/ready`.
    ///
    /// # Errors
    /// [`Engine::failure`]; XX000 when an invariant of a job is broken.
    pub fn readiness(&self) -> Result<()> {
        self.inner.failure().or_else(|| self.inner.jobs.broken()).map_or(Ok(()), Err)
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
    let store = Arc::new(rows::Store::new(env.random() as u32));
    store.set_memory_bytes(db.rows_bytes());
    let memory = MemoryBudget::new(options.memory_bytes, Arc::clone(&store));
    let retention = Retention::new(retention_ns, env.monotonic_ns());
    let inner = Inner {
        store,
        memory,
        dir: dir.to_owned(),
        next_txn: AtomicU64::new(replay.next_txn.max(wal.last().0 + 1)),
        next_table: AtomicU32::new(next_table),
        next_file: AtomicU64::new(next_file),
        versions: DbVersions::new(db, wal.durable()),
        wal,
        // Zero makes the first check look for obsolete rows, whatever the log contained.
        commit: Mutex::new(CommitState {
            dropped,
            row_files_obsolete_since: Some(Lsn::ZERO),
            ..CommitState::default()
        }),
        manifests: ManifestStore::new(manifest),
        open_txns: Mutex::default(),
        memtable_bytes: AtomicU64::new(memtable_bytes),
        jobs: Jobs::new(retention, Flush::new(opened.bytes)),
        counters: Counters::default(),
        closing: AtomicBool::new(false),
        poisoned: OnceLock::new(),
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

    /// # Errors
    /// 57P01 when closing, 58030 when the log has failed, XX000 when an invariant is broken.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.closing.load(Ordering::SeqCst) {
            return Err(closing());
        }
        self.failure().map_or(Ok(()), Err)
    }

    /// The reason why writes are refused, other than closing.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.poisoned.get().cloned().or_else(|| self.wal.failure())
    }

    /// Refuses all later commits, because the state that they would build on cannot be trusted.
    /// Records already queued are still written, and reads continue.
    pub(crate) fn poison(&self, error: &Error) {
        if self.poisoned.set(error.clone()).is_ok() {
            tracing::error!(%error, "writes are refused until the database is reopened");
        }
    }

    /// Calls `then` when `lsn` is durable or the log has failed, unless the engine is gone by then.
    pub(crate) fn on_durable(self: &Arc<Self>, lsn: Lsn, then: fn(&Jobs)) -> Event {
        let event = self.wal.when_durable(lsn);
        let waker = Arc::downgrade(self);
        event.on_set(move || {
            if let Some(inner) = waker.upgrade() {
                then(&inner.jobs);
            }
        });
        event
    }

    /// Refuses all later appends to the log. Every append holds one of these locks and calls
    /// [`Inner::check_writable`] under it, so no record is queued after this that the log worker
    /// might not live to write.
    fn refuse_writes(&self) {
        let _commit = self.commit.lock();
        let _open_txns = self.open_txns.lock();
        self.closing.store(true, Ordering::SeqCst);
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
}
