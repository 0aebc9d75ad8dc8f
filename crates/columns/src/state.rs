//! One table at one moment: an immutable value that every change replaces.
//!
//! # Cost
//! A commit copies `O(log n)` references of a memtable of `n` entries ([`Entries`]). There are few entries however many commits there
//! are, because neighbours are merged (`consolidate`).

use std::path::Path;
use std::sync::Arc;

use env::Env;
use model::{Lsn, Result, TableRef, TimeRange};

use crate::cache::SegmentCache;
use crate::deletes::Deletes;
use crate::files::{SeriesFile, TableFiles};
use crate::flush::needed;
use crate::pieces::Pieces;
use crate::rows::Rows;
use crate::segment::Segment;
use crate::segments::Segments;
use crate::series::SeriesIndex;
use crate::series_file::read_series_file;

/// DeleteFilter rows of older commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// Rows of commits below this one are hidden.
    pub lsn: Lsn,
    /// That commit's wall time, nanoseconds since 1970 UTC; `i64::MIN` when it was not written down.
    pub committed: i64,
    /// Which series, sorted; `None` = all.
    pub series: Option<Arc<[u32]>>,
    /// Which moments.
    pub times: TimeRange,
}

/// One entry of the memtable, in commit order.
#[derive(Clone)]
pub enum Entry {
    /// Rows of commits `lsns.0 ..= lsns.1` (several once consolidated).
    Rows {
        /// Lowest and highest commit in it.
        lsns: (Lsn, Lsn),
        /// The wall time of the highest, nanoseconds since 1970 UTC.
        committed: i64,
        /// The rows.
        rows: Arc<Rows>,
    },
    /// Deletes, hiding rows of all earlier entries and segments.
    Delete(Arc<Deletes>),
}

impl Entry {
    /// The highest commit in it.
    #[must_use]
    pub fn last_lsn(&self) -> Lsn {
        match self {
            Entry::Rows { lsns, .. } => lsns.1,
            Entry::Delete(deletes) => deletes.lsns().1,
        }
    }

    /// The lowest commit in it.
    #[must_use]
    pub fn first_lsn(&self) -> Lsn {
        match self {
            Entry::Rows { lsns, .. } => lsns.0,
            Entry::Delete(deletes) => deletes.lsns().0,
        }
    }

    /// An entry of one delete.
    #[must_use]
    pub fn delete(tombstone: Tombstone) -> Entry {
        Entry::Delete(Arc::new(Deletes::of([tombstone], true)))
    }

    /// Rows, or spans of deletes.
    pub(crate) fn len(&self) -> usize {
        match self {
            Entry::Rows { rows, .. } => rows.len(),
            Entry::Delete(deletes) => deletes.len(),
        }
    }

    /// Bytes held.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Entry::Rows { rows, .. } => rows.memory_bytes(),
            Entry::Delete(deletes) => deletes.memory_bytes(),
        }
    }

    /// The same rows or deletes in memory?
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

/// One table at one moment. Cloning is cheap.
#[derive(Clone)]
pub struct TableState {
    /// Its definition at this moment.
    pub table: TableRef,
    /// Series below this number exist at this moment.
    pub series_count: u32,
    /// Keys and numbers; shared with other states.
    pub series: Arc<SeriesIndex>,
    /// Files that hold keys, in order of series number, without gap from 0.
    pub series_files: Arc<[SeriesFile]>,
    /// The memtable, oldest first.
    pub entries: Entries,
    /// Oldest first.
    pub segments: Segments,
    /// Deletes that still have rows to hide in segments, oldest first: those between which no segment was written are one.
    pub tombstones: Arc<[Arc<Deletes>]>,
    /// Rows before this moment have been dropped by retention: none is shown, whether it is still somewhere or comes
    /// only now. Never goes back. `i64::MIN`: nothing has been dropped.
    pub kept_from: i64,
    /// The table can be read as it was at this wall time of a commit (nanoseconds since 1970 UTC) and later; since then
    /// replaced and deleted rows are kept. `i64::MAX`: they are not.
    pub history_from: i64,
    /// Where the segments keep what they read; shared with other tables.
    pub cache: SegmentCache,
}

impl TableState {
    /// An empty table, whose segments keep what they read without limit.
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

    /// A table as the manifest describes it: reads the series files, opens no segment.
    ///
    /// - `cache`: where its segments keep what they read.
    ///
    /// # Errors
    /// XX001 when a series file is damaged or not what the manifest says; 58030.
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
            tombstones: needed(deletes.collect(), &segments, keeps_history),
            segments,
            kept_from: files.kept_from,
            history_from: files.history_from,
            cache: cache.clone(),
            ..TableState::empty(table)
        })
    }

    /// What the manifest must keep of this table.
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

    /// How many series are in `series_files`.
    #[must_use]
    pub fn series_persisted(&self) -> u32 {
        self.series_files.last().map_or(0, |file| file.to)
    }

    /// With rows of commit `lsn` appended, whose wall time does not matter. `rows.series` are real numbers by now.
    #[must_use]
    pub fn with_rows(&self, lsn: Lsn, rows: Arc<Rows>, series_count: u32) -> TableState {
        self.with_entries([Entry::Rows { lsns: (lsn, lsn), committed: i64::MIN, rows }], series_count)
    }

    /// With a delete appended.
    #[must_use]
    pub fn with_delete(&self, tombstone: Tombstone) -> TableState {
        self.with_entries([Entry::delete(tombstone)], self.series_count)
    }

    /// With all that one commit brings appended, in order.
    #[must_use]
    pub fn with_entries(&self, new: impl IntoIterator<Item = Entry>, series_count: u32) -> TableState {
        let new = new.into_iter().filter(|entry| match entry {
            Entry::Rows { rows, .. } => !rows.is_empty(),
            Entry::Delete(deletes) => !deletes.is_empty(),
        });
        let entries = self.entries.with(new.collect::<Vec<_>>());
        TableState { entries, series_count: series_count.max(self.series_count), ..self.clone() }
    }

    /// With a changed definition that nobody has committed.
    #[must_use]
    pub fn with_table(&self, table: TableRef) -> TableState {
        TableState { table, ..self.clone() }
    }

    /// With a definition that a commit of wall time `committed` brings. History begins where it is switched on.
    #[must_use]
    pub fn altered(&self, table: TableRef, committed: i64) -> TableState {
        let history_from = match (self.history_from, table.options.history) {
            (_, false) => i64::MAX,
            (i64::MAX, true) => committed,
            (from, true) => from,
        };
        TableState { table, history_from, ..self.clone() }
    }

    /// Are replaced and deleted rows to be kept by what is done with this state?
    pub(crate) fn keeps_history(&self) -> bool {
        self.table.options.history
    }

    /// Bytes of the memtable.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.entries.iter().map(Entry::memory_bytes).sum()
    }
}
