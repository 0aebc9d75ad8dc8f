//! Sorted runs of row versions, and the sources that produce them: memtable rows and segments.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, UInt32Array};
use model::{ColumnId, Error, Result, TimeRange};

use crate::block_statistics::rows_of;
use crate::filter::{Filter, Selection};
use crate::history::{VersionLifetimes, Versions, is_history_column, mark_block};
use crate::rows::{Ops, Rows, text_bytes, value_offsets};
use crate::scan::{ScanStats, SeriesFilter};
use crate::segment::{BLOCK_ROWS_MAX, BlockRows, Blocks, Segment};
use crate::small_batch::SmallBatch;

/// Most rows of a run from the memtable.
const WINDOW_ROWS: usize = if cfg!(test) { 16 } else { BLOCK_ROWS_MAX };

/// Runs with fewer bytes of text count them by the average row.
const EXACT_BYTES_MIN: usize = if cfg!(test) { 64 } else { 1 << 20 };

/// Rows of an entry for each stretch of selected rows: more stretches are not worth a run each.
const STRETCH_ROWS_MIN: usize = if cfg!(test) { 4 } else { 512 };

/// Sizes of the text and bytes values of a run, which limit the rows of a plan.
pub(crate) enum TextSizes {
    /// Bytes of an average row: all rows together have few.
    PerRow(usize),
    /// For each position, the bytes of the rows up to it. A single large value among many small
    /// ones would make an average useless.
    Ends(Box<[u64]>),
}

impl TextSizes {
    fn exact(columns: &[(ColumnId, ArrayRef)], index: &RowIndex, rows: usize) -> TextSizes {
        let mut ends = vec![0; rows];
        for (_, values) in columns {
            value_lengths(values, |length| {
                for (at, end) in ends.iter_mut().enumerate() {
                    *end += length(index.at(at) as usize) as u64;
                }
            });
        }
        let mut sum = 0;
        ends.iter_mut().for_each(|end| {
            sum += *end;
            *end = sum;
        });
        TextSizes::Ends(ends.into())
    }

    /// Bytes of the rows at these positions.
    pub(crate) fn bytes(&self, positions: Range<usize>) -> usize {
        match self {
            TextSizes::PerRow(bytes) => bytes * positions.len(),
            TextSizes::Ends(ends) if positions.is_empty() || ends.is_empty() => 0,
            TextSizes::Ends(ends) => (ends[positions.end - 1] - before(ends, positions.start)) as usize,
        }
    }

    /// Number of rows from position `from` on that have at most `bytes` together.
    pub(crate) fn rows_within(&self, from: usize, bytes: usize) -> usize {
        match self {
            TextSizes::PerRow(each) => bytes / (*each).max(1),
            TextSizes::Ends(ends) => {
                let most = before(ends, from) + bytes as u64;
                ends[from..].partition_point(|end| *end <= most)
            }
        }
    }
}

/// Bytes of the rows before position `at`.
fn before(ends: &[u64], at: usize) -> u64 {
    at.checked_sub(1).map_or(0, |last| ends[last])
}

/// Passes a function that returns the length of the value of a row; does nothing for columns of
/// numbers. Values of a dictionary have their full length: they may have to be copied.
pub(crate) fn value_lengths(values: &ArrayRef, each: impl FnOnce(&dyn Fn(usize) -> usize)) {
    let length = |offsets: &[i32], row: usize| (offsets[row + 1] - offsets[row]) as usize;
    if let Some(offsets) = value_offsets(values) {
        return each(&|row| length(offsets, row));
    }
    let Some(coded) = values.as_any_dictionary_opt() else { return };
    let Some(offsets) = value_offsets(coded.values()).filter(|offsets| offsets.len() > 1) else { return };
    let keys = coded.normalized_keys();
    each(&|row| if values.is_null(row) { 0 } else { length(offsets, keys[row]) });
}

/// Rows sorted by (series, time), versions of a row oldest first. The columns have their own row
/// order.
pub(crate) struct SortedRun {
    pub(crate) series: Vec<u32>,
    pub(crate) times: Vec<i64>,
    /// In the order of `series` and `times`.
    pub(crate) ops: Ops,
    /// No two rows have the same (series, time).
    pub(crate) unique: bool,
    pub(crate) text: TextSizes,
    index: RowIndex,
    columns: Columns,
    late: Option<LateColumns>,
}

/// Columns that are read only if a row of the run is needed (late materialisation).
struct LateColumns {
    segment: Arc<Segment>,
    block: u32,
    ids: Arc<[ColumnId]>,
    /// Rows of the block to decode; `None` = all.
    part: Option<Range<usize>>,
    /// The rows kept, if the run's own index addresses columns reduced to these rows.
    selected: Option<RowIndex>,
    read: OnceLock<Vec<(ColumnId, ArrayRef)>>,
}

/// Maps a position of the run to a row of its columns.
enum RowIndex {
    From(u32),
    List(Vec<u32>),
}

enum Columns {
    Rows(Arc<Rows>),
    Read(Vec<(ColumnId, ArrayRef)>),
}

impl SortedRun {
    pub(crate) fn len(&self) -> usize {
        self.times.len()
    }

    /// Whether rows are sorted, and unique if the run says so. For debug assertions.
    pub(crate) fn is_sorted(&self) -> bool {
        let ordered = |at: usize| match self.unique {
            true => self.key(at - 1) < self.key(at),
            false => self.key(at - 1) <= self.key(at),
        };
        self.series.len() == self.times.len() && (1..self.len()).all(ordered)
    }

    pub(crate) fn key(&self, at: usize) -> (u32, i64) {
        (self.series[at], self.times[at])
    }

    /// The row of the columns for position `at`.
    pub(crate) fn row(&self, at: usize) -> u32 {
        self.index.at(at)
    }

    /// Whether consecutive positions are consecutive rows of the columns.
    pub(crate) fn consecutive(&self) -> bool {
        matches!(self.index, RowIndex::From(_))
    }

    /// A column, addressed by [`SortedRun::row`]; `None` when all its values are NULL.
    pub(crate) fn column(&self, id: ColumnId) -> Option<Cow<'_, ArrayRef>> {
        let columns: &[(ColumnId, ArrayRef)] = match &self.columns {
            Columns::Rows(rows) if rows.as_small_batch().is_some() => return rows.column(id).map(Cow::Owned),
            Columns::Rows(rows) => rows.arrays(),
            Columns::Read(columns) => columns,
        };
        let late = self.late.as_ref().and_then(|late| late.read.get()).map(Vec::as_slice);
        [Some(columns), late].into_iter().flatten().find_map(|columns| {
            columns.binary_search_by_key(&id, |column| column.0).ok().map(|at| Cow::Borrowed(&columns[at].1))
        })
    }

    /// Reads the late columns, unless they have been read.
    pub(crate) fn load(&self, bytes_read: &mut u64) -> Result<()> {
        let Some(late) = self.late.as_ref().filter(|late| late.read.get().is_none()) else { return Ok(()) };
        let mut columns = late.segment.read_columns(late.block as usize, (&late.ids, false), &late.part, bytes_read)?;
        if let Some(index) = &late.selected {
            columns = gather_columns(columns, index, self.len())?;
        }
        // Another thread may have read the same columns first.
        let _ = late.read.set(columns);
        Ok(())
    }

    /// The columns, if they are a small batch.
    pub(crate) fn packed(&self) -> Option<&SmallBatch> {
        match &self.columns {
            Columns::Rows(rows) => rows.as_small_batch(),
            Columns::Read(_) => None,
        }
    }
}

/// A producer of runs, in order of (series, time).
pub(crate) enum Source {
    Rows(RowsSource),
    Segment(SegmentSource),
}

impl Source {
    /// A lower bound of the (series, time) of the remaining rows; `None` at the end.
    pub(crate) fn bound(&self) -> Option<(u32, i64)> {
        match self {
            Source::Rows(source) => source.bound(),
            Source::Segment(source) => source.bound(),
        }
    }

    /// Upper bound of the remaining rows, all versions counted.
    pub(crate) fn rows_max(&self) -> u64 {
        match self {
            Source::Rows(source) => source.spans.iter().map(|span| span.len() as u64).sum(),
            Source::Segment(source) => rows_of(&source.metas, &source.blocks),
        }
    }

    /// The next run; it may be empty before the end. `None` at the end.
    pub(crate) fn next(&mut self, stats: &mut ScanStats) -> Result<Option<SortedRun>> {
        match self {
            Source::Rows(source) => Ok(source.next(stats)),
            Source::Segment(source) => source.next(stats),
        }
    }
}

/// Selected rows of a memtable entry.
pub(crate) struct RowsSource {
    rows: Arc<Rows>,
    filter: Filter,
    /// Remaining positions of the sort order, last first.
    spans: Vec<Range<usize>>,
    /// Bytes of all text and bytes values.
    text_bytes: usize,
    /// Visibility by the history columns; `None` if all rows are visible.
    lifetimes: Option<VersionLifetimes>,
}

impl RowsSource {
    /// The rows that pass `filter`; `None` if no row can.
    pub(crate) fn new(rows: Arc<Rows>, filter: Filter) -> Option<RowsSource> {
        if rows.is_empty() {
            return None;
        }
        let order = rows.order();
        if filter.rejects_all((rows.key_at(0).0, rows.key_at(rows.len() - 1).0), &order.times) {
            return None;
        }
        let mut spans = spans(&rows, &filter.series, &filter.times);
        spans.reverse();
        let text_bytes = rows.text_bytes();
        let lifetimes = match filter.versions {
            Versions::At(time) => VersionLifetimes::of_rows(&rows, time),
            Versions::All(_) => None,
        };
        (!spans.is_empty()).then_some(RowsSource { rows, filter, spans, text_bytes, lifetimes })
    }

    /// Like [`RowsSource::new`], for all series. If the rows within the filter's time range are a few stretches, a run ends with its stretch: it
    /// has consecutive rows then, whose columns are copied in one piece.
    pub(crate) fn in_stretches(rows: Arc<Rows>, filter: Filter) -> Option<RowsSource> {
        let mut source = RowsSource::new(rows, filter)?;
        if let Some(mut spans) = stretches(&source.rows, &source.filter.times) {
            spans.reverse();
            source.spans = spans;
        }
        (!source.spans.is_empty()).then_some(source)
    }

    fn bound(&self) -> Option<(u32, i64)> {
        self.spans.last().map(|span| self.rows.key_at(span.start))
    }

    fn next(&mut self, stats: &mut ScanStats) -> Option<SortedRun> {
        self.spans.last()?;
        let sorted = self.rows.order().permutation.is_none();
        let (rows, series, times) = if sorted { self.next_sorted()? } else { self.next_permuted() };
        let (mut selection, hidden) = self.filter.select(&series, &times);
        stats.versions_dropped += hidden;
        if let Some(lifetimes) = &self.lifetimes {
            let (visible, hidden) = selection.retain(series.len(), |at| lifetimes.is_visible(rows.at(at) as usize));
            selection = visible;
            stats.versions_dropped += hidden;
        }
        let chosen = |list: &[u32]| list.iter().map(|at| rows.at(*at as usize)).collect::<Vec<u32>>();
        let (index, series, times) = match selection {
            Selection::All => (rows, series, times),
            Selection::Range(range) => {
                (rows.slice(range.clone()), series[range.clone()].to_vec(), times[range].to_vec())
            }
            Selection::List(list) => (RowIndex::List(chosen(&list)), gather(&series, &list), gather(&times, &list)),
        };
        let ops = match (&self.rows.ops, &index) {
            (Ops::All(op), _) => Ops::All(op.clone()),
            (ops, RowIndex::From(first)) => ops.slice(*first as usize..*first as usize + times.len()),
            (ops, RowIndex::List(list)) => ops.take(list),
        };
        let text = match self.text_bytes {
            bytes if bytes < EXACT_BYTES_MIN => TextSizes::PerRow(bytes / self.rows.len()),
            _ => TextSizes::exact(self.rows.arrays(), &index, times.len()),
        };
        Some(SortedRun {
            series,
            times,
            ops,
            unique: self.rows.order().unique,
            text,
            index,
            columns: Columns::Rows(self.rows.clone()),
            late: None,
        })
    }

    fn next_sorted(&mut self) -> Option<(RowIndex, Vec<u32>, Vec<i64>)> {
        let span = self.spans.last_mut()?;
        let taken = span.start..span.end.min(span.start + WINDOW_ROWS);
        span.start = taken.end;
        if span.start == span.end {
            self.spans.pop();
        }
        let series = self.rows.series[taken.clone()].to_vec();
        Some((RowIndex::From(taken.start as u32), series, self.rows.times[taken].to_vec()))
    }

    fn next_permuted(&mut self) -> (RowIndex, Vec<u32>, Vec<i64>) {
        let mut list: Vec<u32> = Vec::new();
        while let Some(span) = self.spans.last_mut() {
            let taken = span.start..span.end.min(span.start + WINDOW_ROWS - list.len());
            span.start = taken.end;
            if span.start == span.end {
                self.spans.pop();
            }
            list.extend(taken.map(|at| self.rows.row_at(at) as u32));
            if list.len() == WINDOW_ROWS {
                break;
            }
        }
        let (series, times) = (gather(&self.rows.series, &list), gather(&self.rows.times, &list));
        (RowIndex::List(list), series, times)
    }
}

impl RowIndex {
    fn at(&self, at: usize) -> u32 {
        match self {
            RowIndex::From(first) => first + at as u32,
            RowIndex::List(rows) => rows[at],
        }
    }

    fn slice(self, range: Range<usize>) -> RowIndex {
        match self {
            RowIndex::From(first) => RowIndex::From(first + range.start as u32),
            RowIndex::List(rows) => RowIndex::List(rows[range].to_vec()),
        }
    }
}

/// Positions that include every selected row. Binary search if few series are selected.
pub(crate) fn spans(rows: &Rows, series: &SeriesFilter, times: &TimeRange) -> Vec<Range<usize>> {
    match series {
        SeriesFilter::Only(list) if list.len() < rows.len() / 4 + 8 => {
            let (mut spans, mut at) = (Vec::new(), 0);
            for series in list.iter() {
                let start = rows.position(at, (*series, times.start));
                at = after(rows, start, *series, times.last);
                spans.extend(Some(start..at).filter(|span| !span.is_empty()));
            }
            spans
        }
        SeriesFilter::Range(range) => {
            let start = rows.position(0, (range.start, i64::MIN));
            let end = rows.position(start, (range.end, i64::MIN));
            Some(start..end).filter(|span| !span.is_empty()).into_iter().collect()
        }
        _ => std::iter::once(0..rows.len()).collect(),
    }
}

/// Positions of all rows within `times`; `None` if they are not a few stretches.
fn stretches(rows: &Rows, times: &TimeRange) -> Option<Vec<Range<usize>>> {
    let order = rows.order();
    if order.permutation.is_some() || times.covers(&order.times) {
        return None;
    }
    let most = rows.len() / STRETCH_ROWS_MIN + 1;
    let (mut spans, mut at) = (Vec::new(), 0);
    for stretch in rows.times.chunk_by(|a, b| times.contains(*a) == times.contains(*b)) {
        if times.contains(stretch[0]) {
            if spans.len() == most {
                return None;
            }
            spans.push(at..at + stretch.len());
        }
        at += stretch.len();
    }
    Some(spans)
}

/// The first position, from `from` on, with a key above (series, time).
fn after(rows: &Rows, from: usize, series: u32, time: i64) -> usize {
    match (time.checked_add(1), series.checked_add(1)) {
        (Some(next), _) => rows.position(from, (series, next)),
        (None, Some(next)) => rows.position(from, (next, i64::MIN)),
        (None, None) => rows.len(),
    }
}

/// Selected rows of a segment's blocks.
pub(crate) struct SegmentSource {
    segment: Arc<Segment>,
    metas: Blocks,
    filter: Filter,
    /// Remaining blocks, last first.
    blocks: Vec<u32>,
    bounds: Vec<(u32, i64)>,
    columns: Arc<[ColumnId]>,
    late: Arc<[ColumnId]>,
    coded: bool,
    settled: bool,
}

/// Columns to read with the rows of a block, and columns to read once a row is needed; both sorted
/// by id.
#[derive(Clone)]
pub(crate) struct ColumnReads {
    pub(crate) columns: Arc<[ColumnId]>,
    pub(crate) late: Arc<[ColumnId]>,
    /// Return dictionary-encoded text as a dictionary.
    pub(crate) coded: bool,
}

impl ColumnReads {
    /// Reads all columns with the rows.
    pub(crate) fn all(columns: Arc<[ColumnId]>) -> ColumnReads {
        ColumnReads { columns, late: Arc::default(), coded: false }
    }
}

impl SegmentSource {
    /// The rows of `blocks` (ascending) that pass `filter`; `None` without blocks.
    pub(crate) fn new(
        segment: Arc<Segment>,
        filter: Filter,
        mut blocks: Vec<u32>,
        ColumnReads { columns, late, coded }: ColumnReads,
    ) -> Result<Option<SegmentSource>> {
        if blocks.is_empty() {
            return Ok(None);
        }
        blocks.reverse();
        let metas = segment.blocks()?;
        let bounds = blocks.iter().map(|block| metas[*block as usize].first).collect();
        let settled = segment.settled()?;
        let stored = segment.columns()?;
        let moments =
            filter.versions.history_columns().iter().filter(|id| stored.iter().any(|column| column.0 == **id));
        let moments: Vec<ColumnId> = moments.copied().collect();
        let columns = if moments.is_empty() { columns } else { columns.iter().copied().chain(moments).collect() };
        Ok(Some(SegmentSource { segment, metas, filter, blocks, bounds, columns, late, coded, settled }))
    }

    fn bound(&self) -> Option<(u32, i64)> {
        self.bounds.last().copied()
    }

    fn next(&mut self, stats: &mut ScanStats) -> Result<Option<SortedRun>> {
        let Some(block) = self.blocks.pop() else { return Ok(None) };
        self.bounds.pop();
        // Visibility is decided by columns of whole blocks, so no range of rows can be chosen
        // before.
        let by_visibility =
            self.columns.iter().any(|id| is_history_column(*id)) || matches!(self.filter.versions, Versions::All(_));
        let passes_all = self.filter.passes_all(&self.metas[block as usize].times);
        let (filter, mut selected) = (&self.filter, (Selection::All, 0));
        let mut select = |series: &[u32], times: &[i64]| {
            if passes_all {
                return None;
            }
            selected = filter.select(series, times);
            selected.0.decode_range(series.len()).filter(|_| !by_visibility)
        };
        let (mut read, part) =
            self.segment.read_range(block as usize, (&self.columns, self.coded), &mut stats.bytes_read, &mut select)?;
        let (mut selection, hidden) = selected;
        stats.versions_dropped += hidden;
        match &self.filter.versions {
            Versions::All(deletes) => mark_block(&mut read, deletes),
            Versions::At(time) => {
                if let Some(lifetimes) = VersionLifetimes::of(&read.columns, *time) {
                    let (visible, hidden) = selection.retain(read.times.len(), |row| lifetimes.is_visible(row));
                    selection = visible;
                    stats.versions_dropped += hidden;
                }
            }
        }
        self.run(block, read, selection, part).map(Some)
    }

    /// Builds the run of the rows `selection`, which lie within `part`: the rows that `read` has
    /// columns of (`None` = all).
    fn run(&self, block: u32, read: BlockRows, selection: Selection, part: Option<Range<usize>>) -> Result<SortedRun> {
        let rows = read.times.len();
        let first = part.as_ref().map_or(0, |part| part.start);
        let text_bytes = all_text_bytes(&read.columns);
        let (series, times, ops, mut index) = match selection {
            Selection::All => (read.series, read.times, read.ops, RowIndex::From(0)),
            Selection::Range(range) => (
                read.series[range.clone()].to_vec(),
                read.times[range.clone()].to_vec(),
                read.ops.slice(range.clone()),
                RowIndex::From((range.start - first) as u32),
            ),
            Selection::List(list) => {
                let (series, times) = (gather(&read.series, &list), gather(&read.times, &list));
                let ops = read.ops.take(&list);
                (series, times, ops, RowIndex::List(list.into_iter().map(|row| row - first as u32).collect()))
            }
        };
        let unique = self.settled || is_unique(&series, &times);
        let mut columns = read.columns;
        // A batch may hold many blocks of which it needs few rows: copy those and release the
        // block.
        let mut selected = None;
        if times.len() * 2 < part.as_ref().map_or(rows, Range::len) {
            columns = gather_columns(columns, &index, times.len())?;
            selected = Some(std::mem::replace(&mut index, RowIndex::From(0)));
        }
        let text = match text_bytes {
            bytes if bytes < EXACT_BYTES_MIN => {
                TextSizes::PerRow(bytes / part.as_ref().map_or(rows, Range::len).max(1))
            }
            _ => TextSizes::exact(&columns, &index, times.len()),
        };
        let columns = Columns::Read(columns);
        let late = (!self.late.is_empty()).then(|| LateColumns {
            segment: Arc::clone(&self.segment),
            block,
            ids: Arc::clone(&self.late),
            part,
            selected,
            read: OnceLock::new(),
        });
        Ok(SortedRun { series, times, ops, unique, text, index, columns, late })
    }
}

fn gather_columns(
    columns: Vec<(ColumnId, ArrayRef)>,
    index: &RowIndex,
    rows: usize,
) -> Result<Vec<(ColumnId, ArrayRef)>> {
    let list = UInt32Array::from_iter_values((0..rows).map(|at| index.at(at)));
    let take = |values: ArrayRef| arrow_select::take::take(&values, &list, None).map_err(Error::bug);
    columns.into_iter().map(|(id, values)| Ok((id, take(values)?))).collect()
}

fn is_unique(series: &[u32], times: &[i64]) -> bool {
    (1..times.len()).all(|at| times[at - 1] != times[at] || series[at - 1] != series[at])
}

fn gather<T: Copy>(values: &[T], list: &[u32]) -> Vec<T> {
    list.iter().map(|at| values[*at as usize]).collect()
}

fn all_text_bytes(columns: &[(ColumnId, ArrayRef)]) -> usize {
    let bytes = |values: &ArrayRef| match values.as_any_dictionary_opt() {
        // The longest value for every row is cheap to find and enough to know that there are few bytes.
        Some(coded) => coded.len() * value_offsets(coded.values()).map_or(0, longest),
        None => text_bytes(values),
    };
    columns.iter().map(|(_, values)| bytes(values)).sum()
}

fn longest(offsets: &[i32]) -> usize {
    offsets.windows(2).map(|pair| (pair[1] - pair[0]) as usize).max().unwrap_or(0)
}
