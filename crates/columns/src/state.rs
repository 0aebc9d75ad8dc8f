//! One table at one moment: an immutable value that every change replaces.
//!
//! # Cost
//! A commit copies `O(log n)` references of a memtable of `n` entries ([`Entries`]). The number of
//! entries stays small under many commits because memtable compaction merges neighbours.

use std::path::Path;
use std::sync::Arc;

use env::Env;
use model::{Lsn, Result, TableRef, TimeRange};

use crate::cache::SegmentCache;
use crate::deletes::Deletes;
use crate::files::{SeriesFile, TableFiles};
use crate::flush::prune_deletes;
use crate::pieces::Pieces;
use crate::rows::Rows;
use crate::segment::Segment;
use crate::segments::Segments;
use crate::series::SeriesIndex;
use crate::series_file::read_series_file;

/// Hides rows of older commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// Hides rows of commits with a lower LSN.
    pub lsn: Lsn,
    /// Wall time of the delete's commit, nanoseconds since 1970 UTC; `i64::MIN` if unknown.
    pub committed: i64,
    /// Series numbers, sorted; `None` = all series.
    pub series: Option<Arc<[u32]>>,
    /// Timestamps of the rows hidden.
    pub times: TimeRange,
}

/// One entry of the memtable, in commit order.
#[derive(Clone)]
pub enum Entry {
    /// Rows of commits `lsns.0 ..= lsns.1`; more than one commit after memtable compaction.
    Rows {
        /// Lowest and highest commit.
        lsns: (Lsn, Lsn),
        /// Wall time of the highest commit, nanoseconds since 1970 UTC.
        committed: i64,
        /// The versions written by these commits.
        rows: Arc<Rows>,
    },
    /// Deletes, which hide rows of all earlier entries and of all segments.
    Delete(Arc<Deletes>),
}

impl Entry {
    /// The highest commit.
    #[must_use]
    pub fn last_lsn(&self) -> Lsn {
        match self {
            Entry::Rows { lsns, .. } => lsns.1,
            Entry::Delete(deletes) => deletes.lsns().1,
        }
    }

    /// The lowest commit.
    #[must_use]
    pub fn first_lsn(&self) -> Lsn {
        match self {
            Entry::Rows { lsns, .. } => lsns.0,
            Entry::Delete(deletes) => deletes.lsns().0,
        }
    }

    /// An entry of a single delete.
    #[must_use]
    pub fn delete(tombstone: Tombstone) -> Entry {
        Entry::Delete(Arc::new(Deletes::of([tombstone], true)))
    }

    /// Number of rows, or of deleted spans.
    pub(crate) fn len(&self) -> usize {
        match self {
            Entry::Rows { rows, .. } => rows.len(),
            Entry::Delete(deletes) => deletes.len(),
        }
    }

    /// Memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Entry::Rows { rows, .. } => rows.memory_bytes(),
            Entry::Delete(deletes) => deletes.memory_bytes(),
        }
    }

    /// Whether both share the same rows or deletes in memory.
    pub(crate) fn is(&self, other: &Entry) -> bool {
        match (self, other) {
            (Entry::Rows { rows: a, .. }, Entry::Rows { rows: b, .. }) => Arc::ptr_eq(a, b),
            (Entry::Delete(a), Entry::Delete(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

/// The entries of a memtable, oldest first.
pub type Entries = Pieces<Entry>;

/// An immutable version of one table: memtable, segments, tombstones and series (RocksDB:
/// SuperVersion). Cheap to clone.
#[derive(Clone)]
pub struct TableState {
    /// The table's definition.
    pub table: TableRef,
    /// Number of series: series numbers below this exist.
    pub series_count: u32,
    /// Series keys and their numbers; shared with other states.
    pub series: Arc<SeriesIndex>,
    /// Files that hold series keys, in order of series number, without gaps from 0.
    pub series_files: Arc<[SeriesFile]>,
    /// The memtable, oldest first.
    pub entries: Entries,
    /// Segments, oldest first.
    pub segments: Segments,
    /// Deletes that may still hide rows of segments, oldest first. Deletes with no segment flushed
    /// between them are merged.
    pub tombstones: Arc<[Arc<Deletes>]>,
    /// The retention horizon: rows before this timestamp are never returned, wherever they are
    /// stored and whenever they were written. It never decreases. `i64::MIN`: retention has dropped
    /// nothing.
    pub kept_from: i64,
    /// Start of the history: the table can be read as of this commit time (nanoseconds since 1970
    /// UTC) and later, because replaced and deleted rows have been kept since. `i64::MAX`: the
    /// table keeps no history.
    pub history_from: i64,
    /// Cache of open files and directories of segments; shared with other tables.
    pub cache: SegmentCache,
}

impl TableState {
    /// An empty table with an unlimited segment cache.
    #[must_use]
    pub fn empty(table: TableRef) -> TableState {
        TableState {
            table,
            series_count: 0,
            series: Arc::default(),
            series_files: Arc::default(),
            entries: Entries::default(),
            segments: Segments::default(),
            tombstones: Arc::default(),
            kept_from: i64::MIN,
            history_from: i64::MAX,
            cache: SegmentCache::default(),
        }
    }

    /// The table that the manifest describes. Reads the series files; opens no segment.
    ///
    /// - `cache`: holds the open files and directories of its segments.
    ///
    /// # Errors
    /// XX001 when a series file is damaged or does not match the manifest; 58030 when one cannot be
    /// read.
    pub fn load(
        env: &Arc<dyn Env>,
        dir: &Path,
        table: TableRef,
        files: &TableFiles,
        cache: &SegmentCache,
    ) -> Result<TableState> {
        let series = SeriesIndex::default();
        for file in &files.series_files {
            read_series_file(env, dir, file, &series)?;
            let read = series.len();
            assert!(read == file.to, "BUG: {read} series after file {}, which ends at {}", file.file, file.to);
        }
        let open = |meta: &crate::SegmentMeta| Arc::new(Segment::open_in(cache, env.clone(), dir, meta.clone()));
        let segments = files.segments.iter().map(open).collect();
        let keeps_history = table.options.history;
        let deletes = files.tombstones.chunk_by(|a, b| a.lsn == b.lsn);
        let deletes = deletes.map(|same| Arc::new(Deletes::of(same.iter().cloned(), keeps_history)));
        Ok(TableState {
            series_count: series.len(),
            series: Arc::new(series),
            series_files: files.series_files.as_slice().into(),
            tombstones: prune_deletes(deletes.collect(), &segments, keeps_history),
            segments,
            kept_from: files.kept_from,
            history_from: files.history_from,
            cache: cache.clone(),
            ..TableState::empty(table)
        })
    }

    /// The table's part of the manifest.
    #[must_use]
    pub fn files(&self) -> TableFiles {
        TableFiles {
            series_files: self.series_files.to_vec(),
            segments: self.segments.iter().map(|segment| segment.meta().clone()).collect(),
            tombstones: self.tombstones.iter().flat_map(|deletes| deletes.tombstones()).collect(),
            kept_from: self.kept_from,
            history_from: self.history_from,
        }
    }

    /// Number of series whose keys are in `series_files`.
    #[must_use]
    pub fn series_persisted(&self) -> u32 {
        self.series_files.last().map_or(0, |file| file.to)
    }

    /// Appends the rows of commit `lsn`, without a commit time. `rows.series` are series numbers.
    #[must_use]
    pub fn with_rows(&self, lsn: Lsn, rows: Arc<Rows>, series_count: u32) -> TableState {
        self.with_entries([Entry::Rows { lsns: (lsn, lsn), committed: i64::MIN, rows }], series_count)
    }

    /// Appends a delete.
    #[must_use]
    pub fn with_delete(&self, tombstone: Tombstone) -> TableState {
        self.with_entries([Entry::delete(tombstone)], self.series_count)
    }

    /// Appends all entries of one commit, in order.
    #[must_use]
    pub fn with_entries(&self, new: impl IntoIterator<Item = Entry>, series_count: u32) -> TableState {
        let new = new.into_iter().filter(|entry| match entry {
            Entry::Rows { rows, .. } => !rows.is_empty(),
            Entry::Delete(deletes) => !deletes.is_empty(),
        });
        let new: Vec<Entry> = new.collect();
        if let (Some(last), Some(first)) = (self.entries.iter().next_back(), new.first()) {
            let (last, first) = (last.last_lsn(), first.first_lsn());
            assert!(last <= first, "BUG: table {}: commit {first} after commit {last}", self.table.name);
        }
        debug_assert!(new.is_sorted_by_key(Entry::first_lsn), "BUG: entries of {} not in order", self.table.name);
        let entries = self.entries.with(new);
        TableState { entries, series_count: series_count.max(self.series_count), ..self.clone() }
    }

    /// Replaces the definition by one that is not committed.
    #[must_use]
    pub fn with_table(&self, table: TableRef) -> TableState {
        let (id, new) = (self.table.id, table.id);
        assert!(id == new, "BUG: the definition of table {new} for table {id}");
        TableState { table, ..self.clone() }
    }

    /// Replaces the definition by one committed at wall time `committed`. Switching `history` on
    /// starts the history there.
    #[must_use]
    pub fn altered(&self, table: TableRef, committed: i64) -> TableState {
        let history_from = match (self.history_from, table.options.history) {
            (_, false) => i64::MAX,
            (i64::MAX, true) => committed,
            (from, true) => from,
        };
        TableState { table, history_from, ..self.clone() }
    }

    /// Whether merges must keep replaced and deleted rows.
    pub(crate) fn keeps_history(&self) -> bool {
        self.table.options.history
    }

    /// Memory held by the memtable.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.entries.iter().map(Entry::memory_bytes).sum()
    }
}
