//! Scans: merge segments and memtable entries by (series, time), fold versions, apply deletes.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow_schema::{Field, Schema, SchemaRef};
use arrow_select::filter::{FilterBuilder, prep_null_mask_filter};
use model::{Column, ColumnId, ColumnRole, DataType, Error, Lsn, Result, SqlState, Table, TimeRange};

use crate::block_statistics::{self, BlockConsumer, WholeBlock};
use crate::column_scan::{self, ColumnBlock};
use crate::deletes::{DeleteCollector, Deletes, work};
use crate::filter::Filter;
use crate::history::{NOW, Versions, WRITTEN_AT};
use crate::keys::KeyList;
use crate::memtable_compaction::merge_rows;
use crate::merge::{Fold, Merger};
use crate::merge_plan::MergePlan;
use crate::pieces::Pieces;
use crate::prune;
use crate::rows::{Batch, Rows, arrow_type, time_array};
use crate::segment::{BLOCK_ROWS_MAX, Segment, StatValue};
use crate::series::{KeyColumns, OneOf, ValueTest};
use crate::sorted_run::{ColumnReads, RowsSource, SegmentSource, Source};
use crate::state::{Entry, TableState, Tombstone};

/// Limit of the fixed-width values of an output batch: batches of many columns have fewer rows.
const BATCH_BYTES_MAX: usize = 16 << 20;

/// Uncommitted writes of the reading transaction are newer than any commit.
const OWN_LSNS: (Lsn, Lsn) = (Lsn(u64::MAX), Lsn(u64::MAX));
const OWN_COMMITTED: i64 = i64::MAX;
/// A run of this many uncommitted entries is merged before a scan.
const OWN_ENTRIES_MERGED: usize = if cfg!(test) { 2 } else { 16 };
/// Larger ones are not copied to be merged.
const OWN_MERGED_BYTES_MAX: usize = 1 << 20;

/// The series to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeriesFilter {
    /// All series of the state.
    All,
    /// Series with numbers in this range.
    Range(Range<u32>),
    /// Exactly these series, sorted.
    Only(Arc<[u32]>),
}

/// A bound on a field, used to skip blocks (zone map). It does not filter the rows of blocks that
/// are read.
///
/// The caller must itself drop every row that is NULL or outside the bound: such rows may be
/// returned with values of an older version, or not at all.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnRange {
    /// The field.
    pub column: ColumnId,
    /// Value must be >= this.
    pub min: Option<StatValue>,
    /// Value must be <= this.
    pub max: Option<StatValue>,
}

/// A scan to run.
#[derive(Clone, Debug)]
pub struct ScanRequest {
    /// Key, time and field columns in output order; may be empty (rows are still counted).
    pub columns: Vec<ColumnId>,
    /// Timestamps to read.
    pub times: TimeRange,
    /// Series to read.
    pub series: SeriesFilter,
    /// Bounds for skipping blocks. A bound is applied only where a skipped block cannot hide or
    /// complete a version of a row elsewhere.
    pub ranges: Vec<ColumnRange>,
    /// Most rows of an output batch, 1 ..= 8192.
    pub batch_rows: usize,
    /// Stops after this many rows, before any further filter of the caller.
    pub limit: Option<u64>,
    /// Return text columns in their stored encoding: `Dictionary(UInt32, Utf8)` for
    /// dictionary-encoded blocks and `Utf8` for others. The type of a column may therefore differ
    /// between batches.
    pub coded: bool,
    /// The caller needs only fields: rows may be returned in any order and without series and
    /// times. Blocks that need no merging are then read without decoding series and times.
    pub columns_only: bool,
}

impl ScanRequest {
    /// All rows, of these columns.
    #[must_use]
    pub fn all(columns: Vec<ColumnId>) -> ScanRequest {
        ScanRequest {
            columns,
            times: TimeRange::ALL,
            series: SeriesFilter::All,
            ranges: Vec::new(),
            batch_rows: BLOCK_ROWS_MAX,
            limit: None,
            coded: false,
            columns_only: false,
        }
    }
}

/// Counters of a scan, for EXPLAIN ANALYZE and metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanStats {
    /// Segments of the table.
    pub segments: u64,
    /// Segments skipped entirely.
    pub segments_pruned: u64,
    /// Blocks of the segments that were not skipped.
    pub blocks: u64,
    /// Blocks skipped by series, time or statistics.
    pub blocks_pruned: u64,
    /// Bytes read from files.
    pub bytes_read: u64,
    /// Rows returned.
    pub rows: u64,
    /// Versions replaced by newer ones or hidden by deletes.
    pub versions_dropped: u64,
}

impl std::ops::AddAssign for ScanStats {
    /// Adds all counters.
    fn add_assign(&mut self, other: ScanStats) {
        self.segments += other.segments;
        self.segments_pruned += other.segments_pruned;
        self.blocks += other.blocks;
        self.blocks_pruned += other.blocks_pruned;
        self.bytes_read += other.bytes_read;
        self.rows += other.rows;
        self.versions_dropped += other.versions_dropped;
    }
}

/// Uncommitted writes of the reading transaction, newer than any commit.
#[derive(Clone, Default)]
pub struct OwnWrites {
    /// Rows and deletes in statement order. A transaction that updates rows it wrote holds several
    /// versions of them.
    pub entries: Pieces<OwnEntry>,
    /// The version of the table whose constraints all of the rows satisfy; `None` without rows.
    pub checked: Option<model::TableRef>,
}

/// One uncommitted write.
#[derive(Clone)]
pub enum OwnEntry {
    /// Inserted rows, with their keys.
    Rows(Arc<Batch>),
    /// A delete.
    Delete(Arc<OwnDelete>),
    /// Deletes of single rows.
    DeleteRows(Arc<OwnRowDeletes>),
}

/// An uncommitted delete. It names keys, because a series that is not committed yet has a different
/// number in every snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnDelete {
    /// Series keys; `None` = all series.
    pub series: Option<Arc<KeyList>>,
    /// Timestamps of the rows deleted.
    pub times: TimeRange,
}

/// Uncommitted deletes of single rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnRowDeletes {
    /// Series keys.
    pub keys: KeyList,
    /// Position in `keys` and time of each row: sorted, none twice.
    pub rows: Vec<(u32, i64)>,
    /// The rows at these times of a table without a key were read at this commit, and the
    /// transaction writes those that remain again. A later commit must not have changed them.
    pub read_lsn: Option<Lsn>,
}

impl OwnRowDeletes {
    /// The union with `other`.
    #[must_use]
    pub fn merged(&self, other: &OwnRowDeletes) -> OwnRowDeletes {
        let mut keys = self.keys.clone();
        let places: Vec<u32> = other.keys.iter().map(|key| keys.intern(key)).collect();
        let other_rows = other.rows.iter().map(|(key, time)| (places[*key as usize], *time));
        let mut rows: Vec<(u32, i64)> = self.rows.iter().copied().chain(other_rows).collect();
        // Two sorted runs, which this sort finds, unless keys of `other` have another order.
        rows.sort();
        rows.dedup();
        let read_lsn = self.read_lsn.into_iter().chain(other.read_lsn).min();
        OwnRowDeletes { keys, rows, read_lsn }
    }

    /// The series number and time of each row, sorted. `numbers` are those of the keys; rows of keys
    /// without a number are left out.
    #[must_use]
    pub fn numbered(&self, numbers: &[Option<u32>]) -> Vec<(u32, i64)> {
        let of_keys = self.rows.chunk_by(|a, b| a.0 == b.0);
        let mut of_series: Vec<(u32, &[(u32, i64)])> =
            of_keys.filter_map(|rows| Some((numbers[rows[0].0 as usize]?, rows))).collect();
        of_series.sort_unstable_by_key(|(number, _)| *number);
        let rows = of_series.into_iter().flat_map(|(number, rows)| rows.iter().map(move |(_, time)| (number, *time)));
        rows.collect()
    }

    /// Memory held.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.keys.memory_bytes() + self.rows.capacity() * size_of::<(u32, i64)>()
    }
}

/// A table as one reader sees it: a state plus the reader's uncommitted writes, or the state as of
/// an earlier time.
#[derive(Clone)]
pub struct TableView {
    state: Arc<TableState>,
    own: Arc<Own>,
    /// Read time: later commits are not visible.
    time: i64,
}

/// Uncommitted writes, with series numbers of one state.
#[derive(Default)]
struct Own {
    entries: Vec<Entry>,
    /// Keys of series that the state does not have; their numbers follow the state's.
    keys: KeyList,
}

fn own_rows(rows: Arc<Rows>) -> Entry {
    Entry::Rows { lsns: OWN_LSNS, committed: OWN_COMMITTED, rows }
}

impl Own {
    fn number(&mut self, state: &TableState, own: &OwnWrites) {
        for entry in own.entries.iter() {
            let entry = match entry {
                OwnEntry::Rows(batch) => {
                    let numbers = self.numbers(state, &batch.keys);
                    own_rows(Arc::new(batch.numbered(&numbers)))
                }
                OwnEntry::Delete(delete) => Entry::delete(self.tombstone(state, delete)),
                OwnEntry::DeleteRows(deletes) => {
                    let numbers: Vec<Option<u32>> = deletes.keys.iter().map(|key| self.lookup(state, key)).collect();
                    let mut deletes = Deletes::of_rows(&deletes.numbered(&numbers));
                    deletes.set_commit(OWN_LSNS.1, OWN_COMMITTED);
                    Entry::Delete(Arc::new(deletes))
                }
            };
            self.entries.push(entry);
        }
    }

    /// Merges runs of small entries: a transaction of many small statements would otherwise make a
    /// scan merge each of them.
    fn merge(&mut self, table: &Table) {
        let rows = |entry: &Entry| match entry {
            Entry::Rows { rows, .. } => Some(rows.clone()),
            Entry::Delete(_) => None,
        };
        let deletes = |entry: &Entry| match entry {
            Entry::Rows { .. } => None,
            Entry::Delete(deletes) => Some(deletes.clone()),
        };
        let mut merged = Vec::new();
        let is_large = |entry: &Entry| rows(entry).is_some_and(|rows| rows.memory_bytes() > OWN_MERGED_BYTES_MAX);
        let belong = |a: &Entry, b: &Entry| rows(a).is_some() == rows(b).is_some() && !is_large(a) && !is_large(b);
        for run in self.entries.chunk_by(belong) {
            let inputs: Vec<Arc<Rows>> = run.iter().filter_map(rows).collect();
            if let [only] = run {
                merged.push(only.clone());
                continue;
            }
            if inputs.is_empty() {
                let inputs: Vec<Arc<Deletes>> = run.iter().filter_map(deletes).collect();
                merged.push(Entry::Delete(Arc::new(Deletes::merged(&inputs, false))));
                continue;
            }
            let outputs = (inputs.len() >= OWN_ENTRIES_MERGED).then(|| merge_rows(table, &inputs));
            match outputs {
                Some(Ok(outputs)) => {
                    merged.extend(outputs.into_iter().map(own_rows));
                }
                _ => merged.extend_from_slice(run),
            }
        }
        self.entries = merged;
    }

    fn numbers(&mut self, state: &TableState, keys: &KeyList) -> Vec<u32> {
        let known = state.series.lookup_all(keys).into_iter();
        let known = known.map(|id| id.map(|id| id.0).filter(|id| *id < state.series_count));
        known
            .zip(keys.iter())
            .map(|(id, key)| id.unwrap_or_else(|| state.series_count + self.keys.intern(key)))
            .collect()
    }

    fn tombstone(&self, state: &TableState, delete: &OwnDelete) -> Tombstone {
        let series = delete.series.as_ref().map(|keys| {
            let mut numbers: Vec<u32> = keys.iter().filter_map(|key| self.lookup(state, key)).collect();
            numbers.sort_unstable();
            numbers.into()
        });
        Tombstone { lsn: OWN_LSNS.1, committed: OWN_COMMITTED, series, times: delete.times }
    }

    fn lookup(&self, state: &TableState, key: &[u8]) -> Option<u32> {
        // The index is shared with newer states, whose series do not exist here.
        let known = state.series.lookup(key).map(|id| id.0).filter(|id| *id < state.series_count);
        known.or_else(|| self.keys.find(key).map(|at| state.series_count + at))
    }
}

impl TableView {
    /// The view of a reader without uncommitted writes.
    #[must_use]
    pub fn new(state: Arc<TableState>) -> TableView {
        TableView { state, own: Arc::default(), time: NOW }
    }

    /// The view of a transaction with uncommitted writes.
    #[must_use]
    pub fn with_own_writes(state: Arc<TableState>, own: &OwnWrites) -> TableView {
        let mut numbered = Own::default();
        numbered.number(&state, own);
        numbered.merge(&state.table);
        TableView { state, own: Arc::new(numbered), time: NOW }
    }

    /// The view of a reader at commit time `time` (nanoseconds since 1970 UTC): it sees the commits
    /// up to that time and no later one. Columns and series are the current ones, uncommitted
    /// writes are left out, and rows that retention has dropped since are missing. A time in the
    /// future is the current time.
    ///
    /// # Errors
    /// 55000 when the table keeps no history; 22023 when the history starts later, with its start.
    pub fn as_of(&self, time: i64) -> Result<TableView> {
        let TableState { table, history_from, .. } = &*self.state;
        if *history_from == i64::MAX {
            let text = format!("table {} keeps no history", table.name);
            return Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text)
                .with_kind(model::ErrorKind::Invalid)
                .with_hint("ALTER TABLE … SET (history = on) starts its history"));
        }
        if time < *history_from {
            let text = format!(
                "the history of table {} begins at {history_from} ns since 1970, which is after {time} ns",
                table.name
            );
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text));
        }
        Ok(TableView { state: Arc::clone(&self.state), own: Arc::default(), time })
    }

    /// Read time: later commits are not visible.
    pub(crate) fn time(&self) -> i64 {
        self.time
    }

    /// Deletes that are newer than a segment and may hide rows of it.
    #[must_use]
    pub fn deletes_over(&self, segment: &Segment) -> Vec<Arc<Deletes>> {
        prune::delete_filter(self, &prune::recent_deletes(self), segment, &segment.meta().times).deletes
    }

    /// The table state that this view reads.
    #[must_use]
    pub fn state(&self) -> &Arc<TableState> {
        &self.state
    }

    /// Number of series, uncommitted new ones included.
    #[must_use]
    pub fn series_count(&self) -> u32 {
        self.state.series_count + self.own.keys.len() as u32
    }

    /// The number of the series with this key (canonical bytes), if it exists in this view.
    #[must_use]
    pub fn lookup(&self, key: &[u8]) -> Option<u32> {
        self.own.lookup(&self.state, key)
    }

    /// The series whose keys satisfy all of `conditions` (at least one), ascending: see
    /// [`SeriesIndex::having`].
    ///
    /// # Errors
    /// XX001 when a key is not of the key columns' types.
    ///
    /// [`SeriesIndex::having`]: crate::SeriesIndex::having
    pub fn series_having(&self, conditions: &[OneOf]) -> Result<Vec<u32>> {
        let types: Vec<DataType> = self.state.table.key_columns().map(|column| column.ty).collect();
        let mut found = self.state.series.having(&types, conditions, self.state.series_count)?;
        let tests: Vec<ValueTest<'_>> = conditions.iter().map(|condition| ValueTest::new(&types, condition)).collect();
        for (number, key) in (self.state.series_count..).zip(self.own.keys.iter()) {
            let mut passes = true;
            for test in &tests {
                passes &= test.passes(key)?;
            }
            if passes {
                found.push(number);
            }
        }
        Ok(found)
    }

    /// The keys of these series, for an [`OwnDelete`].
    ///
    /// # Errors
    /// XX000 when a series does not exist.
    pub fn keys_of(&self, series: &[u32]) -> Result<KeyList> {
        let mut keys = KeyList::new();
        self.with_keys(series.iter().copied(), |key| {
            keys.intern(key);
            Ok(())
        })?;
        Ok(keys)
    }

    /// Key columns (in key order) of series `from .. to`, for evaluating predicates on keys.
    ///
    /// # Errors
    /// XX000 when a series does not exist; XX001 when a key is not of the key columns' types.
    pub fn key_columns(&self, from: u32, to: u32) -> Result<Vec<ArrayRef>> {
        self.key_columns_of(from..to)
    }

    /// Like [`TableView::key_columns`], for any series, in the order given.
    ///
    /// # Errors
    /// See [`TableView::key_columns`].
    pub fn key_columns_of(&self, series: impl ExactSizeIterator<Item = u32>) -> Result<Vec<ArrayRef>> {
        let types: Vec<DataType> = self.state.table.key_columns().map(|column| column.ty).collect();
        let mut columns = KeyColumns::new(&types, series.len());
        self.with_keys(series, |key| columns.push(key))?;
        Ok(columns.finish())
    }

    /// Calls `each` with the key of each of `series`, in order.
    fn with_keys(&self, series: impl Iterator<Item = u32>, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let (count, own) = (self.state.series_count, &self.own.keys);
        if own.is_empty() {
            return self.state.series.with_keys(series, each);
        }
        for number in series {
            match number.checked_sub(count) {
                None => self.state.series.with_keys([number], &mut each)?,
                Some(at) if (at as usize) < own.len() => each(own.get(at))?,
                Some(_) => return Err(Error::bug(format!("series {number} of {} was asked for", self.series_count()))),
            }
        }
        Ok(())
    }

    /// Starts a scan. Rows are returned in order of (series number, time), or of time in unkeyed
    /// tables, unless the request is `columns_only`.
    ///
    /// # Errors
    /// XX000 for a column that the table does not have; errors of reading block indexes and
    /// statistics.
    pub fn scan(&self, request: ScanRequest) -> Result<Scan> {
        self.start(request, None, None)
    }

    /// Starts a scan with late materialisation, to be read with [`Scan::next_filtered`]: the other
    /// columns of a block are read only if a row of it passes the predicate.
    ///
    /// - `request`: without `limit`.
    /// - `early`: columns of the predicate, in the order in which it receives them; they need not
    ///   be in the request.
    ///
    /// # Errors
    /// See [`TableView::scan`].
    pub fn scan_late(&self, request: ScanRequest, early: &[ColumnId]) -> Result<Scan> {
        self.start(request, Some(early), None)
    }

    /// Starts a scan without the blocks that `take` answers from their statistics. `take` is called
    /// with each block that [qualifies](WholeBlock) and returns whether to leave it out.
    ///
    /// - `request`: without `ranges` and `limit`: blocks that are left out do not know of them.
    ///
    /// # Errors
    /// See [`TableView::scan`]; errors of `take`.
    pub fn scan_without(
        &self,
        request: ScanRequest,
        take: &mut dyn FnMut(&WholeBlock<'_>) -> Result<bool>,
    ) -> Result<Scan> {
        self.start(request, None, Some(BlockConsumer { take, newest: false }))
    }

    /// Like [`TableView::scan_without`], for queries of the newest row. `take` is also called with
    /// blocks that begin before the request's time range: it may use their last row only.
    ///
    /// # Errors
    /// See [`TableView::scan_without`].
    pub fn scan_newest(
        &self,
        request: ScanRequest,
        take: &mut dyn FnMut(&WholeBlock<'_>) -> Result<bool>,
    ) -> Result<Scan> {
        self.start(request, None, Some(BlockConsumer { take, newest: true }))
    }

    fn start(
        &self,
        request: ScanRequest,
        early: Option<&[ColumnId]>,
        consumer: Option<BlockConsumer<'_>>,
    ) -> Result<Scan> {
        let request = self.clamped_to_retention(request);
        let table = self.state.table.clone();
        let mut stats = ScanStats::default();
        let columns = |ids: &[ColumnId]| ids.iter().map(|id| column(&table, *id)).collect::<Result<Vec<_>>>();
        let (columns, early_columns) = (columns(&request.columns)?, early.map(columns).transpose()?);
        let all = || columns.iter().chain(early_columns.iter().flatten());
        let width: usize = all().map(|column| arrow_type(column.ty).primitive_width().unwrap_or(4)).sum();
        let batch_rows = request.batch_rows.clamp(1, BLOCK_ROWS_MAX).min(BATCH_BYTES_MAX / width.max(1)).max(1);
        let is_columns_only =
            request.columns_only && request.limit.is_none() && all().all(|column| column.role == ColumnRole::Field);
        let reads = ColumnReads { coded: request.coded, ..column_reads(&columns, early_columns.as_deref()) };
        let (column_blocks, sources) =
            self.sources(&request, reads, consumer, is_columns_only.then_some(batch_rows), &mut stats)?;
        let mut merger = Merger::new(sources, if table.keyed { Fold::Full } else { Fold::None });
        merger.run_end_rows = batch_rows.div_ceil(4);
        Ok(Scan {
            view: self.clone(),
            merger,
            column_blocks,
            schema: arrow_schema(&table, &request.columns),
            early_schema: arrow_schema(&table, early.unwrap_or_default()),
            early_columns: early_columns.unwrap_or_default(),
            columns,
            batch_rows,
            left: request.limit.unwrap_or(u64::MAX),
            coded: request.coded,
            stats,
        })
    }

    /// Splits a scan into at most `parts` scans that can run in parallel and together return the
    /// same rows: by series, or by time if there are too few series. `limit` is copied to each.
    ///
    /// # Errors
    /// Errors of reading block indexes.
    pub fn split(&self, request: &ScanRequest, parts: usize) -> Result<Vec<ScanRequest>> {
        prune::split(self, &self.clamped_to_retention(request.clone()), parts)
    }

    /// Whether this view reads the current state, not an earlier time.
    pub(crate) fn is_of_now(&self) -> bool {
        self.time == NOW
    }

    /// Limits a request to timestamps at or after the retention horizon.
    pub(crate) fn clamped_to_retention(&self, mut request: ScanRequest) -> ScanRequest {
        request.times.start = request.times.start.max(self.state.kept_from);
        request
    }

    /// Memtable entries and uncommitted writes, oldest first. A view of the past leaves out entries
    /// that it cannot see.
    pub(crate) fn entries(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.state.entries.iter().chain(&self.own.entries).filter(|entry| self.may_see(entry))
    }

    /// Whether any version or delete of the entry may be visible at the read time.
    fn may_see(&self, entry: &Entry) -> bool {
        match entry {
            Entry::Rows { rows, committed, .. } => *committed <= self.time || rows.has(WRITTEN_AT),
            Entry::Delete(deletes) => deletes.committed() <= self.time,
        }
    }

    /// All sources that a request needs, oldest first, after the blocks that are read as columns
    /// only (if `column_block_rows_max` is set: blocks of at most so many rows).
    fn sources(
        &self,
        request: &ScanRequest,
        reads: ColumnReads,
        consumer: Option<BlockConsumer<'_>>,
        column_block_rows_max: Option<usize>,
        stats: &mut ScanStats,
    ) -> Result<(Vec<ColumnBlock>, Vec<Source>)> {
        if request.limit == Some(0) {
            return Ok((Vec::new(), Vec::new()));
        }
        let mut sources = Vec::new();
        let mut wanted = prune::blocks(self, request, stats)?;
        if let Some(consumer) = consumer {
            block_statistics::offer(self, request, &mut wanted, consumer)?;
        }
        let column_blocks = match column_block_rows_max {
            Some(rows_max) => column_scan::take(self, request, rows_max, &mut wanted)?,
            None => Vec::new(),
        };
        for prune::WantedBlocks { segment, blocks, filter, .. } in wanted {
            let source = SegmentSource::new(segment, filter, blocks, reads.clone())?;
            sources.extend(source.map(Source::Segment));
        }
        let mut newer = DeleteCollector::new(self.time, self.state.keeps_history());
        let mut newest_first = Vec::new();
        for entry in self.entries().rev() {
            work::touch(1);
            match entry {
                Entry::Delete(deletes) => newer.push(deletes),
                Entry::Rows { rows, committed, .. } => {
                    if !rows.order().times.overlaps(&request.times) {
                        continue;
                    }
                    let times = rows.order().times.intersect(&request.times);
                    let deletes =
                        newer.filter().restricted_to((rows.key_at(0).0, rows.key_at(rows.len() - 1).0), &times);
                    let (times, series) = (request.times, request.series.clone());
                    let versions = Versions::At(if *committed <= self.time { NOW } else { self.time });
                    let filter = Filter { times, series, deletes, versions };
                    newest_first.extend(RowsSource::new(rows.clone(), filter).map(Source::Rows));
                }
            }
        }
        sources.extend(newest_first.into_iter().rev());
        Ok((column_blocks, sources))
    }
}

/// Splits the fields into those read with the rows and those read late. If `early_columns` is given, only
/// its columns are read early, and text and bytes: their size limits the rows in memory.
fn column_reads(columns: &[Column], early_columns: Option<&[Column]>) -> ColumnReads {
    let is_early = |column: &&Column| {
        early_columns.is_none_or(|early| early.contains(column)) || arrow_type(column.ty).primitive_width().is_none()
    };
    let fields =
        columns.iter().chain(early_columns.unwrap_or_default()).filter(|column| column.role == ColumnRole::Field);
    let (early, late): (Vec<_>, Vec<_>) = fields.partition(is_early);
    let ids = |columns: Vec<&Column>| {
        let mut ids: Vec<ColumnId> = columns.into_iter().map(|column| column.id).collect();
        ids.sort_unstable();
        ids.dedup();
        Arc::from(ids)
    };
    ColumnReads { columns: ids(early), late: ids(late), coded: false }
}

fn column(table: &Table, id: ColumnId) -> Result<Column> {
    table.column_by_id(id).cloned().ok_or_else(|| {
        Error::new(SqlState::UNDEFINED_COLUMN, format!("table {} has no column number {id}", table.name))
    })
}

/// Rows returned by a scan, with their sort keys.
pub struct Scanned {
    /// Series number of each row; may be empty if the request is `columns_only`.
    pub series: Vec<u32>,
    /// Time of each row; empty if `series` is.
    pub times: Vec<i64>,
    /// The requested columns.
    pub batch: RecordBatch,
}

impl Scanned {
    fn columns_only(batch: RecordBatch) -> Scanned {
        Scanned { series: Vec::new(), times: Vec::new(), batch }
    }
}

/// A running scan. It returns batches of the schema that [`arrow_schema()`] gives for the request.
/// Memory: one block for each source in use.
pub struct Scan {
    view: TableView,
    /// Blocks read as columns only, before the merge; last first.
    column_blocks: Vec<ColumnBlock>,
    merger: Merger,
    schema: SchemaRef,
    columns: Vec<Column>,
    /// Columns of the predicate of [`Scan::next_filtered`]; empty without one.
    early_columns: Vec<Column>,
    early_schema: SchemaRef,
    batch_rows: usize,
    /// Rows that the limit still allows.
    left: u64,
    coded: bool,
    stats: ScanStats,
}

impl Scan {
    /// Counters so far.
    #[must_use]
    pub fn stats(&self) -> ScanStats {
        self.stats
    }

    /// The schema of every batch, except for dictionary-encoded text of a `coded` request.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Upper bound of the rows to read, all versions counted. Valid only before the first batch.
    #[must_use]
    pub fn rows_max(&self) -> u64 {
        self.merger.rows_max() + self.column_blocks.iter().map(|block| block.rows as u64).sum::<u64>()
    }

    /// The next batch with its series and times, whether or not these were requested; see
    /// [`Iterator::next`].
    ///
    /// # Errors
    /// Errors of reading and merging; the scan ends then.
    pub fn next_rows(&mut self) -> Result<Option<Scanned>> {
        let next = self.next_plan();
        if next.is_err() {
            self.left = 0;
        }
        next
    }

    /// The next rows that pass `keep`, a predicate over the early columns of
    /// [`TableView::scan_late`]; NULL does not pass. An empty batch does not mean the end of the
    /// scan.
    ///
    /// # Errors
    /// See [`Scan::next_rows`]; errors of `keep`.
    pub fn next_filtered(
        &mut self,
        keep: &mut dyn FnMut(&RecordBatch) -> Result<BooleanArray>,
    ) -> Result<Option<Scanned>> {
        let next = self.next_filtered_plan(keep);
        if next.is_err() {
            self.left = 0;
        }
        next
    }

    fn next_filtered_plan(
        &mut self,
        keep: &mut dyn FnMut(&RecordBatch) -> Result<BooleanArray>,
    ) -> Result<Option<Scanned>> {
        if self.left == 0 {
            return Ok(None);
        }
        if let Some(block) = self.column_blocks.pop() {
            return self.filter_block(&block, keep).map(Some);
        }
        let Some(mut plan) = self.merger.next(self.batch_rows, &mut self.stats)? else { return Ok(None) };
        self.stats.rows += plan.len() as u64;
        let mask = nulls_to_false(keep(&self.batch(&plan, &self.early_columns, &self.early_schema)?)?);
        match mask.true_count() {
            0 => return Ok(Some(Scanned::columns_only(RecordBatch::new_empty(self.schema.clone())))),
            passing if passing < plan.len() => plan = plan.filtered(&mask),
            _ => {}
        }
        self.scanned(plan).map(Some)
    }

    /// Rows of a column-only block that pass `keep`.
    fn filter_block(
        &mut self,
        block: &ColumnBlock,
        keep: &mut dyn FnMut(&RecordBatch) -> Result<BooleanArray>,
    ) -> Result<Scanned> {
        self.stats.rows += block.rows as u64;
        let early = block.read(&self.early_columns, self.coded, &mut self.stats.bytes_read)?;
        let mask = nulls_to_false(keep(&self.batch_of(&self.early_schema, early.clone(), block.rows)?)?);
        let rows = mask.true_count();
        if rows == 0 {
            return Ok(Scanned::columns_only(RecordBatch::new_empty(self.schema.clone())));
        }
        let at_of = |column: &Column| self.early_columns.iter().position(|early| early.id == column.id);
        let others: Vec<Column> = self.columns.iter().filter(|column| at_of(column).is_none()).cloned().collect();
        let mut others = block.read(&others, self.coded, &mut self.stats.bytes_read)?.into_iter();
        let values = self.columns.iter().map(|column| match at_of(column) {
            Some(at) => Ok(Arc::clone(&early[at])),
            None => others.next().ok_or_else(|| Error::bug("a column that was not read")),
        });
        let mut values = values.collect::<Result<Vec<ArrayRef>>>()?;
        if rows < block.rows {
            let filter = FilterBuilder::new(&mask);
            let filter = if values.len() > 1 { filter.optimize().build() } else { filter.build() };
            values = values.iter().map(|values| filter.filter(values).map_err(Error::bug)).collect::<Result<_>>()?;
        }
        self.batch_of(&self.schema, values, rows).map(Scanned::columns_only)
    }

    fn next_plan(&mut self) -> Result<Option<Scanned>> {
        if self.left == 0 {
            return Ok(None);
        }
        if let Some(block) = self.column_blocks.pop() {
            self.stats.rows += block.rows as u64;
            let values = block.read(&self.columns, self.coded, &mut self.stats.bytes_read)?;
            return self.batch_of(&self.schema, values, block.rows).map(|batch| Some(Scanned::columns_only(batch)));
        }
        let rows_max = self.batch_rows.min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let Some(plan) = self.merger.next(rows_max, &mut self.stats)? else { return Ok(None) };
        self.left -= plan.len() as u64;
        self.stats.rows += plan.len() as u64;
        self.scanned(plan).map(Some)
    }

    fn scanned(&mut self, plan: MergePlan) -> Result<Scanned> {
        plan.load(&mut self.stats.bytes_read)?;
        let batch = self.batch(&plan, &self.columns, &self.schema)?;
        Ok(Scanned { series: plan.series, times: plan.times, batch })
    }

    fn batch(&self, plan: &MergePlan, columns: &[Column], schema: &SchemaRef) -> Result<RecordBatch> {
        let mut keys: Option<Vec<ArrayRef>> = None;
        let mut arrays = Vec::with_capacity(columns.len());
        for column in columns {
            arrays.push(match column.role {
                ColumnRole::Field => {
                    let values = plan.column(column.id, column.ty)?;
                    values.unwrap_or_else(|| new_null_array(&arrow_type(column.ty), plan.len()))
                }
                ColumnRole::Time => time_array(column.ty, plan.times.clone()),
                ColumnRole::Key => {
                    let columns = match &keys {
                        Some(columns) => columns,
                        None => keys.insert(key_arrays(&self.view, &plan.series)?),
                    };
                    let at = self.view.state.table.key_columns().position(|key| key.id == column.id);
                    at.and_then(|at| columns.get(at)).cloned().ok_or_else(|| Error::bug("a key column is missing"))?
                }
            });
        }
        self.batch_of(schema, arrays, plan.len())
    }

    fn batch_of(&self, schema: &SchemaRef, arrays: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = if self.coded { schema_of_arrays(schema, &arrays) } else { schema.clone() };
        RecordBatch::try_new_with_options(schema, arrays, &options).map_err(Error::bug)
    }
}

/// Replaces NULLs of a mask by false.
fn nulls_to_false(mask: BooleanArray) -> BooleanArray {
    if mask.null_count() > 0 { prep_null_mask_filter(&mask) } else { mask }
}

impl Iterator for Scan {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_rows().map(|next| next.map(|rows| rows.batch)).transpose()
    }
}

/// `schema` with the data types of `arrays`.
fn schema_of_arrays(schema: &Schema, arrays: &[ArrayRef]) -> SchemaRef {
    let fields = schema.fields().iter().zip(arrays);
    let fields = fields.map(|(field, array)| field.as_ref().clone().with_data_type(array.data_type().clone()));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Key columns of rows. Each run of one series decodes its key once.
fn key_arrays(view: &TableView, series: &[u32]) -> Result<Vec<ArrayRef>> {
    let mut distinct: Vec<u32> = Vec::new();
    let mut of = Vec::with_capacity(series.len());
    for number in series {
        if distinct.last() != Some(number) {
            distinct.push(*number);
        }
        of.push((distinct.len() - 1) as u32);
    }
    let columns = view.key_columns_of(distinct.iter().copied())?;
    if distinct.len() == series.len() {
        return Ok(columns);
    }
    let of = UInt32Array::from(of);
    columns.iter().map(|values| arrow_select::take::take(values, &of, None).map_err(Error::bug)).collect()
}

/// The arrow schema of `columns` of a table, in this order: names as in the table, types by
/// [`arrow_type`].
///
/// Only the time column is declared NOT NULL: rows older than a column have no value for it.
#[must_use]
pub fn arrow_schema(table: &Table, columns: &[ColumnId]) -> SchemaRef {
    let columns = columns.iter().filter_map(|id| table.column_by_id(*id));
    let fields = columns.map(|column| Field::new(&column.name, arrow_type(column.ty), column.role != ColumnRole::Time));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}
