//! Counters and gauges of a running engine.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::Inner;
use crate::jobs::JobStats;
use crate::memory::Work;

/// Counters of commits; those of background jobs are in the jobs.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) commits: AtomicU64,
    /// Payload bytes appended to the log.
    pub(crate) log_bytes: AtomicU64,
    pub(crate) rows_written: AtomicU64,
    pub(crate) ingested_bytes: AtomicU64,
    /// Payload bytes of the log of commits with rows of `columns` tables; part of `log_bytes`.
    pub(crate) ingest_log_bytes: AtomicU64,
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
    /// State, statistics and metrics of each background job.
    pub jobs: Vec<JobStats>,
}

impl Stats {
    /// The job called `name`, if there is one.
    #[must_use]
    pub fn job(&self, name: &str) -> Option<&JobStats> {
        self.jobs.iter().find(|job| job.name == name)
    }

    /// The value of a job's metric, for example `flush_bytes`; 0 if no job has it.
    #[must_use]
    pub fn metric(&self, name: &str) -> u64 {
        self.jobs
            .iter()
            .flat_map(|job| &job.metrics)
            .find(|metric| metric.name == name)
            .map_or(0, |metric| metric.value)
    }
}

pub(crate) fn stats(inner: &Inner) -> Stats {
    let db = inner.versions.newest();
    let counters = &inner.counters;
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let mut stats = Stats {
        last_lsn: inner.wal.last().0,
        durable_lsn: inner.wal.durable().0,
        flushed_lsn: inner.manifests.lock().flushed_lsn.0,
        log_bytes: load(&counters.log_bytes),
        commits: load(&counters.commits),
        rows_written: load(&counters.rows_written),
        ingested_bytes: load(&counters.ingested_bytes),
        ingest_log_bytes: load(&counters.ingest_log_bytes),
        memtable_bytes: load(&inner.memtable_bytes),
        memory_bytes: inner.options.memory_bytes,
        log_disk_bytes: inner.wal.disk_bytes(),
        tables: db.tables.len() as u64,
        row_tables: db.row_tables.len() as u64,
        rows: db.row_tables.values().map(|table| table.records.rows()).sum(),
        rows_bytes: db.rows_bytes() + inner.store.departed_bytes(),
        rows_bytes_max: inner.memory.rows_max(),
        work: Work::ALL.map(|kind| (kind.name(), inner.memory.used(kind), inner.memory.max_of(kind))),
        reservations_refused: inner.memory.refused(),
        rows_garbage: inner.store.garbage() as u64,
        rows_held_bytes: inner.store.held_bytes(),
        rows_list_bytes: inner.store.list_bytes(),
        rows_deferred_bytes: inner.store.deferred_bytes(),
        lock_waits: inner.store.waits(),
        lock_waiters: inner.store.waiting() as u64,
        open_segments: db.cache.open_files(),
        directory_bytes: db.cache.directory_bytes(),
        jobs: inner.jobs.stats(),
        ..Stats::default()
    };
    stats.row_file_bytes =
        inner.manifests.lock().row_files.values().flat_map(|files| &files.parts).map(|part| part.bytes).sum();
    for state in db.tables.values() {
        stats.segments += state.segments.len() as u64;
        stats.segment_bytes += state.segments.iter().map(|segment| segment.meta().bytes).sum::<u64>();
        stats.series += u64::from(state.series_count);
    }
    stats
}
