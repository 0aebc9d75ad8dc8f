//! Reading: segments and memtable entries merged by (series, time), versions folded, deletes applied.

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
use crate::history::{BORN, NOW, Versions};
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

/// An output batch of many columns has fewer rows, so that its fixed-width values stay within this.
const BATCH_BYTES_MAX: usize = 16 << 20;

/// Own writes are newer than any commit.
const OWN_LSNS: (Lsn, Lsn) = (Lsn(u64::MAX), Lsn(u64::MAX));
const OWN_COMMITTED: i64 = i64::MAX;
/// Own entries in a row that are merged before a scan.
const OWN_ENTRIES_MERGED: usize = if cfg!(test) { 2 } else { 16 };

/// Which series to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeriesFilter {
    /// All that exist at the state.
    All,
    /// Those with numbers in this range.
    Range(Range<u32>),
    /// These, sorted.
    Only(Arc<[u32]>),
}

/// A bound on a field that lets whole blocks be skipped; rows of blocks that are read are not filtered by it.
///
/// The reader promises to drop every row that is outside the bound, or NULL, by itself: such rows may come out with
/// values of an older version, or not at all.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnRange {
    /// The field.
    pub column: ColumnId,
    /// Value must be >= this.
    pub min: Option<StatValue>,
    /// Value must be <= this.
    pub max: Option<StatValue>,
}

/// What to read.
#[derive(Clone, Debug)]
pub struct ScanRequest {
    /// Key, time and field columns, in the order they shall come out; may be empty (rows are still counted).
    pub columns: Vec<ColumnId>,
    /// Moments.
    pub times: TimeRange,
    /// Series.
    pub series: SeriesFilter,
    /// For skipping blocks only. Applied only where no other version of a row can hide in a skipped or kept block.
    pub ranges: Vec<ColumnRange>,
    /// Rows of an output batch, 1 ..= 8192.
    pub batch_rows: usize,
    /// Stop after this many rows, counted before the reader filters any further.
    pub limit: Option<u64>,
    /// Text comes as it is stored where that is a dictionary: as `Dictionary(UInt32, Utf8)`, and as `Utf8` elsewhere, so that a
    /// column's type is not the same in all batches.
    pub coded: bool,
    /// Rows may come in any order and without their series and times, if only fields are asked for. Of blocks that need no merging
    /// nothing else is decoded then.
    pub columns_only: bool,
}

impl ScanRequest {
    /// Everything, of these columns.
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

/// What a scan did, for EXPLAIN ANALYZE and metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanStats {
    /// Segments of the table.
    pub segments: u64,
    /// Of these, skipped whole.
    pub segments_pruned: u64,
    /// Blocks of the segments not skipped.
    pub blocks: u64,
    /// Of these, skipped by series, time or statistics.
    pub blocks_pruned: u64,
    /// Bytes read from files.
    pub bytes_read: u64,
    /// Rows given out.
    pub rows: u64,
    /// Versions folded away or hidden by deletes.
    pub versions_dropped: u64,
}

impl std::ops::AddAssign for ScanStats {
    /// What both did.
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

/// Uncommitted writes of the reading transaction itself, newest of all, in order.
#[derive(Clone, Default)]
pub struct OwnWrites {
    /// Rows and deletes in statement order. A transaction that reads what it writes holds several versions of it.
    pub entries: Pieces<OwnEntry>,
}

/// One own write.
#[derive(Clone)]
pub enum OwnEntry {
    /// Rows with keys.
    Rows(Arc<Batch>),
    /// A delete.
    Delete(Arc<OwnDelete>),
}

/// An uncommitted delete. It names keys, because a series that is not committed yet has another number in every
/// snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnDelete {
    /// Which series; `None` = all.
    pub series: Option<Arc<KeyList>>,
    /// Which moments.
    pub times: TimeRange,
}

/// A table as one reader sees it: a state, and its own uncommitted writes on top; or that state as it once was.
#[derive(Clone)]
pub struct TableView {
    state: Arc<TableState>,
    own: Arc<Own>,
    /// What was committed later is not seen.
    time: i64,
}

/// Own writes in terms of a state.
#[derive(Default)]
struct Own {
    entries: Vec<Entry>,
    /// Keys of series that the state does not have, numbered from its series count on.
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
            };
            self.entries.push(entry);
        }
    }

    /// A transaction of many small statements has many small entries; a scan should not meet them one by one.
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
        for run in self.entries.chunk_by(|a, b| rows(a).is_some() == rows(b).is_some()) {
            let inputs: Vec<Arc<Rows>> = run.iter().filter_map(rows).collect();
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
    /// What a reader without writes of its own sees.
    #[must_use]
    pub fn new(state: Arc<TableState>) -> TableView {
        TableView { state, own: Arc::default(), time: NOW }
    }

    /// What a transaction with own writes sees.
    #[must_use]
    pub fn with_own_writes(state: Arc<TableState>, own: &OwnWrites) -> TableView {
        let mut numbered = Own::default();
        numbered.number(&state, own);
        numbered.merge(&state.table);
        TableView { state, own: Arc::new(numbered), time: NOW }
    }

    /// What somebody saw who read when all commits up to wall time `time` (nanoseconds since 1970 UTC) had been made and
    /// no other: the same versions of rows, folded the same way. Columns and series are those of now, own writes are
    /// left out, and what retention has dropped since is missing. A time to come is now.
    ///
    /// # Errors
    /// 55000 when the table keeps no history, 22023 when it begins later, naming when.
    pub fn as_of(&self, time: i64) -> Result<TableView> {
        let TableState { table, history_from, .. } = &*self.state;
        if *history_from == i64::MAX {
            let text = format!("table {} keeps no history", table.name);
            return Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text)
                .with_kind(model::ErrorKind::Invalid)
                .with_hint("ALTER TABLE … SET (history = on) keeps it from then on"));
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

    /// What was committed later is not seen.
    pub(crate) fn time(&self) -> i64 {
        self.time
    }

    /// The deletes that are newer than a segment and may hide rows of it.
    #[must_use]
    pub fn deletes_over(&self, segment: &Segment) -> Vec<Arc<Deletes>> {
        prune::hides(self, &prune::recent(self), segment, &segment.meta().times).deletes
    }

    /// The state below.
    #[must_use]
    pub fn state(&self) -> &Arc<TableState> {
        &self.state
    }

    /// How many series there are, own new ones included.
    #[must_use]
    pub fn series_count(&self) -> u32 {
        self.state.series_count + self.own.keys.len() as u32
    }

    /// The series with this key (canonical bytes), if it exists here.
    #[must_use]
    pub fn lookup(&self, key: &[u8]) -> Option<u32> {
        self.own.lookup(&self.state, key)
    }

    /// The series whose keys are as all of `conditions` (at least one) say, ascending: see [`SeriesIndex::having`].
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
    /// XX000 when one does not exist.
    pub fn keys_of(&self, series: &[u32]) -> Result<KeyList> {
        let mut keys = KeyList::new();
        self.with_keys(series.iter().copied(), |key| {
            keys.intern(key);
            Ok(())
        })?;
        Ok(keys)
    }

    /// Key columns (in key order) of series `from .. to`, for evaluating predicates over keys.
    ///
    /// # Errors
    /// XX000 when one does not exist; XX001 when a key is not of the key columns' types.
    pub fn key_columns(&self, from: u32, to: u32) -> Result<Vec<ArrayRef>> {
        self.key_columns_of(from..to)
    }

    /// The same of any series, in the order given.
    ///
    /// # Errors
    /// As [`TableView::key_columns`].
    pub fn key_columns_of(&self, series: impl ExactSizeIterator<Item = u32>) -> Result<Vec<ArrayRef>> {
        let types: Vec<DataType> = self.state.table.key_columns().map(|column| column.ty).collect();
        let mut columns = KeyColumns::new(&types, series.len());
        self.with_keys(series, |key| columns.push(key))?;
        Ok(columns.finish())
    }

    /// Calls `each` with the key of every one of `series`.
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

    /// Starts a scan. Rows come out ordered by (series number, time), those of unkeyed tables by time, unless the request is `bare`.
    ///
    /// # Errors
    /// XX000 for a column the table does not have; errors of reading block indexes and statistics.
    pub fn scan(&self, request: ScanRequest) -> Result<Scan> {
        self.start(request, None, None)
    }

    /// As [`TableView::scan`], for [`Scan::next_filtered`]: of blocks none of whose rows are kept, only the columns `early` are read.
    ///
    /// - `request`: without `limit`.
    /// - `early`: what rows are kept by, in the order in which it is shown; need not be among the request's columns.
    ///
    /// # Errors
    /// As [`TableView::scan`].
    pub fn scan_late(&self, request: ScanRequest, early: &[ColumnId]) -> Result<Scan> {
        self.start(request, Some(early), None)
    }

    /// As [`TableView::scan`], without the blocks that `take` says it knows all of: each block that [is whole](WholeBlock) is offered.
    ///
    /// - `request`: without `ranges` and `limit`, which blocks that are taken know nothing of.
    ///
    /// # Errors
    /// As [`TableView::scan`]; those of `take`.
    pub fn scan_without(
        &self,
        request: ScanRequest,
        take: &mut dyn FnMut(&WholeBlock<'_>) -> Result<bool>,
    ) -> Result<Scan> {
        self.start(request, None, Some(BlockConsumer { take, newest: false }))
    }

    /// As [`TableView::scan_without`], for who looks for newest rows: blocks are offered as well whose first rows are before the
    /// times of the request, and of which he needs nothing but the last row.
    ///
    /// # Errors
    /// As [`TableView::scan_without`].
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
        taker: Option<BlockConsumer<'_>>,
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
        let reads = ColumnReads { coded: request.coded, ..reads(&columns, early_columns.as_deref()) };
        let (column_blocks, sources) =
            self.sources(&request, reads, taker, is_columns_only.then_some(batch_rows), &mut stats)?;
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

    /// Splits a scan into at most `parts` whose rows together are those of the whole, to be run at the same time. By
    /// series, or by time where there are too few series. `limit` is copied to each.
    ///
    /// # Errors
    /// Errors of reading block indexes.
    pub fn split(&self, request: &ScanRequest, parts: usize) -> Result<Vec<ScanRequest>> {
        prune::split(self, &self.clamped_to_retention(request.clone()), parts)
    }

    /// Does it show what is there now, and not what once was?
    pub(crate) fn is_of_now(&self) -> bool {
        self.time == NOW
    }

    /// Without the moments that retention has dropped.
    pub(crate) fn clamped_to_retention(&self, mut request: ScanRequest) -> ScanRequest {
        request.times.start = request.times.start.max(self.state.kept_from);
        request
    }

    /// Memtable entries and own writes, oldest first; of a view of the past, those that may have been there.
    pub(crate) fn entries(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.state.entries.iter().chain(&self.own.entries).filter(|entry| self.sees(entry))
    }

    /// May any of it have been there?
    fn sees(&self, entry: &Entry) -> bool {
        match entry {
            Entry::Rows { rows, committed, .. } => *committed <= self.time || rows.has(BORN),
            Entry::Delete(deletes) => deletes.committed() <= self.time,
        }
    }

    /// All sources a request needs, oldest first; and before them the blocks that are read by themselves, of at most `bare` rows.
    fn sources(
        &self,
        request: &ScanRequest,
        reads: ColumnReads,
        taker: Option<BlockConsumer<'_>>,
        column_block_rows_max: Option<usize>,
        stats: &mut ScanStats,
    ) -> Result<(Vec<ColumnBlock>, Vec<Source>)> {
        if request.limit == Some(0) {
            return Ok((Vec::new(), Vec::new()));
        }
        let mut sources = Vec::new();
        let mut wanted = prune::blocks(self, request, stats)?;
        if let Some(taker) = taker {
            block_statistics::offer(self, request, &mut wanted, taker)?;
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
                    let hides = newer.hides().over((rows.key_at(0).0, rows.key_at(rows.len() - 1).0), &times);
                    let (times, series) = (request.times, request.series.clone());
                    let versions = Versions::At(if *committed <= self.time { NOW } else { self.time });
                    let filter = Filter { times, series, hides, versions };
                    newest_first.extend(RowsSource::new(rows.clone(), filter).map(Source::Rows));
                }
            }
        }
        sources.extend(newest_first.into_iter().rev());
        Ok((column_blocks, sources))
    }
}

/// What is read of `columns`, and of those that are shown first: all with the rows, or these first. Texts and bytes do not wait: their
/// size bounds how many rows are in memory.
fn reads(columns: &[Column], shown: Option<&[Column]>) -> ColumnReads {
    let is_early = |column: &&Column| {
        shown.is_none_or(|shown| shown.contains(column)) || arrow_type(column.ty).primitive_width().is_none()
    };
    let fields = columns.iter().chain(shown.unwrap_or_default()).filter(|column| column.role == ColumnRole::Field);
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

/// Rows of a scan, with what orders them.
pub struct Scanned {
    /// Series number of each row; of a `bare` request, perhaps none at all.
    pub series: Vec<u32>,
    /// Time of each row; as `series`.
    pub times: Vec<i64>,
    /// The columns that were asked for.
    pub batch: RecordBatch,
}

impl Scanned {
    fn columns_only(batch: RecordBatch) -> Scanned {
        Scanned { series: Vec::new(), times: Vec::new(), batch }
    }
}

/// A running scan: batches of the schema [`arrow_schema()`] gives for the request. Memory: one block per source in use.
pub struct Scan {
    view: TableView,
    /// Before what is merged, last first.
    column_blocks: Vec<ColumnBlock>,
    merger: Merger,
    schema: SchemaRef,
    columns: Vec<Column>,
    /// What [`Scan::next_filtered`] shows; nothing otherwise.
    early_columns: Vec<Column>,
    early_schema: SchemaRef,
    batch_rows: usize,
    /// Rows the limit still allows.
    left: u64,
    coded: bool,
    stats: ScanStats,
}

impl Scan {
    /// So far.
    #[must_use]
    pub fn stats(&self) -> ScanStats {
        self.stats
    }

    /// What every batch looks like, but for text that comes as it is stored.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Rows that it goes through at most, all versions counted, before it has begun.
    #[must_use]
    pub fn rows_max(&self) -> u64 {
        self.merger.rows_max() + self.column_blocks.iter().map(|block| block.rows as u64).sum::<u64>()
    }

    /// The next batch with its series and times, whether these were asked for or not; as [`Iterator::next`] otherwise.
    ///
    /// # Errors
    /// Errors of reading and merging; the scan has ended then.
    pub fn next_rows(&mut self) -> Result<Option<Scanned>> {
        let next = self.next_plan();
        if next.is_err() {
            self.left = 0;
        }
        next
    }

    /// The next rows of those that `keep` lets through when it is shown the columns that are read early, of a scan that
    /// [`TableView::scan_late`] began; perhaps none, though more may come. NULL does not let through.
    ///
    /// # Errors
    /// As [`Scan::next_rows`]; those of `keep`.
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
        let mask = passing(keep(&self.batch(&plan, &self.early_columns, &self.early_schema)?)?);
        match mask.true_count() {
            0 => return Ok(Some(Scanned::columns_only(RecordBatch::new_empty(self.schema.clone())))),
            passing if passing < plan.len() => plan = plan.filtered(&mask),
            _ => {}
        }
        self.scanned(plan).map(Some)
    }

    /// Of a block that is read by itself, the rows that `keep` lets through.
    fn filter_block(
        &mut self,
        block: &ColumnBlock,
        keep: &mut dyn FnMut(&RecordBatch) -> Result<BooleanArray>,
    ) -> Result<Scanned> {
        self.stats.rows += block.rows as u64;
        let shown = block.read(&self.early_columns, self.coded, &mut self.stats.bytes_read)?;
        let mask = passing(keep(&self.batch_of(&self.early_schema, shown.clone(), block.rows)?)?);
        let rows = mask.true_count();
        if rows == 0 {
            return Ok(Scanned::columns_only(RecordBatch::new_empty(self.schema.clone())));
        }
        let at_of = |column: &Column| self.early_columns.iter().position(|shown| shown.id == column.id);
        let others: Vec<Column> = self.columns.iter().filter(|column| at_of(column).is_none()).cloned().collect();
        let mut others = block.read(&others, self.coded, &mut self.stats.bytes_read)?.into_iter();
        let values = self.columns.iter().map(|column| match at_of(column) {
            Some(at) => Ok(Arc::clone(&shown[at])),
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
        let schema = if self.coded { of_arrays(schema, &arrays) } else { schema.clone() };
        RecordBatch::try_new_with_options(schema, arrays, &options).map_err(Error::bug)
    }
}

/// A mask whose NULLs let nothing through.
fn passing(mask: BooleanArray) -> BooleanArray {
    if mask.null_count() > 0 { prep_null_mask_filter(&mask) } else { mask }
}

impl Iterator for Scan {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_rows().map(|next| next.map(|rows| rows.batch)).transpose()
    }
}

/// The schema with the types that the arrays have.
fn of_arrays(schema: &Schema, arrays: &[ArrayRef]) -> SchemaRef {
    let fields = schema.fields().iter().zip(arrays);
    let fields = fields.map(|(field, array)| field.as_ref().clone().with_data_type(array.data_type().clone()));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The key columns of rows: each series' key once, then as often as it has rows.
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

/// The arrow schema of `columns` of a table, in that order: names as in the table, types by [`arrow_type`].
///
/// Only the time is declared not NULL: rows older than a column have no value for it.
#[must_use]
pub fn arrow_schema(table: &Table, columns: &[ColumnId]) -> SchemaRef {
    let columns = columns.iter().filter_map(|id| table.column_by_id(*id));
    let fields = columns.map(|column| Field::new(&column.name, arrow_type(column.ty), column.role != ColumnRole::Time));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}
