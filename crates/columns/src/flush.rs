//! Flush: writes memtable entries up to a commit as one segment, across partitions; rows far from the others in time get
//! a segment of their own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::Env;
use model::{ColumnId, DataType, Error, Lsn, Result, TimeRange};

use crate::cache::SegmentCache;
use crate::deletes::{DeleteCollector, DeleteFilter, Deletes};
use crate::encoding::Form;
use crate::files::SeriesFile;
use crate::filter::Filter;
use crate::history::{self, NOW, Versions, with_history_columns};
use crate::merge::{Fold, Merger};
use crate::merge_plan::MergePlan;
use crate::partitions::{FAR_PARTITIONS, Partitions, parts};
use crate::rows::Rows;
use crate::scan::ScanStats;
use crate::segment::{BLOCK_ROWS_MAX, BLOCK_ROWS_MIN, BlockRows, Segment, SegmentWriter, block_rows};
use crate::segments::Segments;
use crate::series_file::write_series_file;
use crate::sorted_run::{RowsSource, Source};
use crate::state::{Entry, TableState};

/// A finished flush of one table.
#[derive(Clone)]
pub struct Flushed {
    /// Commits up to this LSN are in files.
    pub upto: Lsn,
    /// The new segments, with disjoint time ranges; none when no row was left to write. There is one, unless rows are far
    /// apart in time.
    pub segments: Vec<Arc<Segment>>,
    /// All series files after the flush.
    pub series_files: Arc<[SeriesFile]>,
    /// Series files to delete once the manifest has the new `series_files`.
    pub obsolete: Vec<u64>,
}

impl TableState {
    /// Writes the entries of commits up to `upto` as one segment (none if no row is left; up to four if rows are far apart
    /// in time): deletes among them are applied, and versions folded as far as no older version can
    /// change the result. Also writes the keys of series that are in no file yet. `next_file` returns file
    /// numbers. Must be called on the durable state, with its LSN.
    ///
    /// # Errors
    /// 58030 or 53100; nothing is changed, and new files are removed (at the next open, if that
    /// fails now). XX000, of kind `Bug`, for a broken invariant: the flush would fail again.
    pub fn flush(
        &self,
        env: &Arc<dyn Env>,
        dir: &Path,
        upto: Lsn,
        next_file: &mut dyn FnMut() -> u64,
    ) -> Result<Flushed> {
        Error::contain(|| self.write_flush(env, dir, upto, next_file))?
    }

    fn write_flush(
        &self,
        env: &Arc<dyn Env>,
        dir: &Path,
        upto: Lsn,
        next_file: &mut dyn FnMut() -> u64,
    ) -> Result<Flushed> {
        let entries: Vec<&Entry> = self.entries.iter().take(self.flushable(upto)).collect();
        let mut segments = Vec::new();
        // Contained, so that the segments are removed after a failed assertion too.
        let written = Error::contain(|| {
            self.write_entries(env, dir, &entries, next_file, &mut segments)?;
            self.write_series(env, dir, next_file)
        });
        match written.and_then(|written| written) {
            Ok((series_files, obsolete)) => Ok(Flushed { upto, segments, series_files, obsolete }),
            Err(error) => {
                segments.iter().for_each(|segment| segment.remove_when_unused());
                Err(error)
            }
        }
    }

    /// Replaces the flushed entries by the new segments. Their deletes become tombstones if they may
    /// hide rows of older segments.
    ///
    /// # Panics
    /// If an entry has commits on both sides of the flush: then memtable compaction ran on a state
    /// that was not durable.
    #[must_use]
    pub fn with_flushed(&self, done: &Flushed) -> TableState {
        let count = self.flushable(done.upto);
        let kept = || self.entries.iter().skip(count);
        assert!(
            kept().all(|entry| entry.first_lsn() > done.upto),
            "BUG: a memtable entry of {} spans the flush at {}",
            self.table.name,
            done.upto
        );
        for segment in &done.segments {
            let (last, upto) = (segment.meta().lsns.1, done.upto);
            assert!(last <= upto, "BUG: a segment of {} has commit {last}, flushed up to {upto}", self.table.name);
        }
        let persisted = done.series_files.last().map_or(0, |file| file.to);
        assert!(
            (self.series_persisted()..=self.series_count).contains(&persisted),
            "BUG: table {} has {} series, {} in files, after the flush {persisted}",
            self.table.name,
            self.series_count,
            self.series_persisted()
        );
        let deletes = self.entries.iter().take(count).filter_map(|entry| match entry {
            Entry::Delete(deletes) => Some(deletes),
            Entry::Rows { .. } => None,
        });
        // The flushed deletes are newer than all segments and older than the remaining entries, so
        // they can be merged.
        let deletes = Deletes::merged(deletes, self.keeps_history());
        let deletes = (!deletes.is_empty()).then(|| Arc::new(deletes));
        let tombstones: Vec<Arc<Deletes>> = self.tombstones.iter().cloned().chain(deletes).collect();
        let segments: Segments = self.segments.iter().chain(&done.segments).cloned().collect();
        TableState {
            entries: kept().cloned().collect(),
            tombstones: prune_deletes(tombstones, &segments, self.keeps_history()),
            segments,
            series_files: done.series_files.clone(),
            ..self.clone()
        }
    }

    /// Number of leading entries with commits up to `upto`.
    fn flushable(&self, upto: Lsn) -> usize {
        self.entries.iter().take_while(|entry| entry.last_lsn() <= upto).count()
    }

    fn write_entries(
        &self,
        env: &Arc<dyn Env>,
        dir: &Path,
        entries: &[&Entry],
        next_file: &mut dyn FnMut() -> u64,
        segments: &mut Vec<Arc<Segment>>,
    ) -> Result<()> {
        // Deletes count too: rows that they hide are not in the file, so they need not be applied
        // to it again.
        let first = entries.iter().map(|entry| entry.first_lsn()).min();
        let last = entries.iter().map(|entry| entry.last_lsn()).max();
        let Some(lsns) = first.zip(last) else { return Ok(()) };
        let fold = match (self.keeps_history(), self.table.keyed) {
            (true, _) => Fold::Versions,
            (false, true) => Fold::Closed,
            (false, false) => Fold::None,
        };
        let columns: Arc<[_]> = self.columns_of(entries).into();
        let parts = self.parts_of(entries);
        let (all, _) = entry_rows(entries.iter().copied(), self.keeps_history());
        for (times, rows) in parts {
            let output = Output {
                env: Arc::clone(env),
                dir: dir.to_owned(),
                cache: self.cache.clone(),
                columns: Arc::clone(&columns),
                rows,
                form: Form::of(&self.table),
            };
            let mut writing = output.begin(Merger::new(sources_within(&all, times), fold));
            while writing.step(next_file)? {}
            segments.extend(writing.finish(lsns)?);
        }
        Ok(())
    }

    /// Time ranges of the segments to write, with the number of rows (all versions counted).
    fn parts_of(&self, entries: &[&Entry]) -> Vec<(TimeRange, usize)> {
        let rows = || {
            entries.iter().filter_map(|entry| match entry {
                Entry::Rows { rows, .. } if !rows.is_empty() => Some(rows),
                Entry::Rows { .. } | Entry::Delete(_) => None,
            })
        };
        let mut times = rows().fold(TimeRange::EMPTY, |all, rows| all.union(&rows.order().times));
        times.start = times.start.max(self.kept_from);
        if times.is_empty() {
            return Vec::new();
        }
        let partitions = Partitions::new(self.table.options.partition_length, times);
        if partitions.count() <= FAR_PARTITIONS {
            return vec![(times, rows().map(|rows| rows.len()).sum())];
        }
        let mut counts = vec![0; partitions.count()];
        rows().for_each(|rows| partitions.count_rows(&rows.times, &mut counts));
        let parts = parts(counts.len(), |at| counts[at] > 0).into_iter();
        parts.map(|part| (partitions.times(part.clone()), counts[part].iter().sum())).collect()
    }

    /// Fields that occur in an entry, by id, and the history columns.
    fn columns_of(&self, entries: &[&Entry]) -> Vec<(ColumnId, DataType)> {
        let has = |id: ColumnId| entries.iter().any(|entry| matches!(entry, Entry::Rows { rows, .. } if rows.has(id)));
        let fields = self.table.field_columns().filter(|column| has(column.id));
        let mut columns: Vec<(ColumnId, DataType)> = fields.map(|column| (column.id, column.ty)).collect();
        columns.sort_unstable_by_key(|column| column.0);
        if self.keeps_history() {
            columns.push((history::WRITTEN_AT, history::TYPE));
            let deletes = entries.iter().any(|entry| matches!(entry, Entry::Delete(_)));
            columns.extend((deletes || has(history::DELETED_AT)).then_some((history::DELETED_AT, history::TYPE)));
        }
        columns
    }

    /// Writes the keys of series that are in no file yet. Small preceding files are merged into the
    /// new one, so that their number stays logarithmic.
    fn write_series(
        &self,
        env: &Arc<dyn Env>,
        dir: &Path,
        next_file: &mut dyn FnMut() -> u64,
    ) -> Result<(Arc<[SeriesFile]>, Vec<u64>)> {
        if self.series_persisted() == self.series_count {
            return Ok((self.series_files.clone(), Vec::new()));
        }
        let mut files = self.series_files.to_vec();
        let mut obsolete = Vec::new();
        let mut from = self.series_persisted();
        while let Some(last) = files.pop_if(|last| last.to - last.from <= 2 * (self.series_count - from)) {
            from = last.from;
            obsolete.push(last.file);
        }
        let file = SeriesFile { file: next_file(), from, to: self.series_count };
        let end = files.last().map_or(0, |last| last.to);
        assert!(end == from && from < file.to, "BUG: series {from} to {} in a file after series {end}", file.to);
        write_series_file(env, dir, &file, &self.series)?;
        files.push(file);
        Ok((files.into(), obsolete))
    }
}

/// Rows of an entry, and the filter that selects those that are kept.
pub(crate) struct EntryRows {
    rows: Arc<Rows>,
    filter: Filter,
}

/// Rows of entries, oldest first: without those that a delete among the entries hides, or, with `history`, all with their
/// deletion times. Also returns these deletes.
pub(crate) fn entry_rows<'a>(
    entries: impl DoubleEndedIterator<Item = &'a Entry>,
    history: bool,
) -> (Vec<EntryRows>, Vec<Arc<Deletes>>) {
    let mut newer = DeleteCollector::new(NOW, history);
    let mut all = Vec::new();
    for entry in entries.rev() {
        match entry {
            Entry::Delete(deletes) => newer.push(deletes),
            Entry::Rows { rows, committed, .. } if history => {
                let rows = with_history_columns(rows, *committed, newer.filter());
                let filter = Filter { versions: Versions::All(DeleteFilter::default()), ..Filter::all() };
                all.push(EntryRows { rows, filter });
            }
            Entry::Rows { rows, .. } => {
                let filter = Filter { deletes: newer.filter().clone(), ..Filter::all() };
                all.push(EntryRows { rows: Arc::clone(rows), filter });
            }
        }
    }
    all.reverse();
    (all, newer.filter().deletes.clone())
}

/// Sources for the rows of entries within `times`.
pub(crate) fn sources_within(rows: &[EntryRows], times: TimeRange) -> Vec<Source> {
    let source = |EntryRows { rows, filter }: &EntryRows| {
        RowsSource::in_stretches(Arc::clone(rows), Filter { times, ..filter.clone() }).map(Source::Rows)
    };
    rows.iter().filter_map(source).collect()
}

/// The deletes that may still hide a row of an older segment. Deletes with no segment flushed
/// between them are merged.
pub(crate) fn prune_deletes(
    deletes: Vec<Arc<Deletes>>,
    segments: &Segments,
    keeps_history: bool,
) -> Arc<[Arc<Deletes>]> {
    let mut needed: Vec<Arc<Deletes>> = Vec::new();
    for deletes in deletes {
        let hides = |series: Option<&[u32]>, times: &TimeRange| {
            segments.overlapping(times).into_iter().any(|at| {
                let meta = segments[at].meta();
                meta.lsns.1 < deletes.lsns().1 && any_within(series, meta.series)
            })
        };
        let deletes = match deletes.retained(hides) {
            Some(fewer) if fewer.is_empty() => continue,
            Some(fewer) => Arc::new(fewer),
            None => deletes,
        };
        let apart = |last: &Arc<Deletes>| {
            let between = last.lsns().0..deletes.lsns().1;
            segments.iter().any(|segment| between.contains(&segment.meta().lsns.1))
        };
        match needed.last_mut().filter(|last| !apart(last)) {
            Some(last) => *last = Arc::new(Deletes::merged([&*last, &deletes], keeps_history)),
            None => needed.push(deletes),
        }
    }
    debug_assert!(needed.is_sorted_by_key(|deletes| deletes.lsns().1), "BUG: tombstones are not in commit order");
    needed.into()
}

/// Whether one of `series` (sorted; `None`: all) is within `first ..= last`.
pub(crate) fn any_within(series: Option<&[u32]>, (first, last): (u32, u32)) -> bool {
    series.is_none_or(|series| {
        series.get(series.partition_point(|number| *number < first)).is_some_and(|number| *number <= last)
    })
}

/// Destination and parameters of a new segment.
pub(crate) struct Output {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) dir: PathBuf,
    pub(crate) cache: SegmentCache,
    /// Fields, sorted by id.
    pub(crate) columns: Arc<[(ColumnId, DataType)]>,
    /// Estimated number of rows, for blocks of equal size.
    pub(crate) rows: usize,
    pub(crate) form: Form,
}

/// A segment being written, block by block. If it is dropped before `finish`, it leaves no file.
pub(crate) struct SegmentBuild {
    output: Output,
    merger: Merger,
    /// Created with the first row.
    writer: Option<SegmentWriter>,
    /// Rows given to the writer.
    rows: u64,
    stats: ScanStats,
}

impl Output {
    /// Starts to write the rows of `merger`.
    pub(crate) fn begin(self, mut merger: Merger) -> SegmentBuild {
        // Blocks of one series have statistics of that series alone, and scans of other series skip
        // them.
        merger.series_rows = if cfg!(test) { 2 } else { BLOCK_ROWS_MIN };
        SegmentBuild { output: self, merger, writer: None, rows: 0, stats: ScanStats::default() }
    }
}

impl SegmentBuild {
    /// Writes the next block (several if a row has many versions); returns false when no row is
    /// left.
    pub(crate) fn step(&mut self, next_file: &mut dyn FnMut() -> u64) -> Result<bool> {
        let rows_max = if cfg!(test) { 7 } else { block_rows(self.output.rows, self.output.columns.len()) };
        let Some(plan) = self.merger.next(rows_max, &mut self.stats)? else { return Ok(false) };
        self.add(&plan, next_file)?;
        self.rows += plan.len() as u64;
        Ok(true)
    }

    /// Bytes read so far from the merger's sources.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.stats.bytes_read
    }

    /// Size of the segment so far.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.writer.as_ref().map_or(0, SegmentWriter::position)
    }

    fn add(&mut self, plan: &MergePlan, next_file: &mut dyn FnMut() -> u64) -> Result<()> {
        let Output { env, dir, columns, form, .. } = &self.output;
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => {
                let writer = SegmentWriter::create(Arc::clone(env), dir, next_file(), columns)?;
                self.writer.insert(writer.with_form(*form))
            }
        };
        let mut arrays = Vec::with_capacity(columns.len());
        for (id, ty) in columns.iter() {
            arrays.extend(plan.column(*id, *ty)?.map(|values| (*id, values)));
        }
        let mut from = 0;
        while from < plan.len() {
            let (ops, rows) = plan.ops(from..plan.len().min(from + BLOCK_ROWS_MAX));
            let columns = arrays.iter().map(|(id, values)| (*id, values.slice(from, rows))).collect();
            let (series, times) = (plan.series[from..from + rows].to_vec(), plan.times[from..from + rows].to_vec());
            assert!(rows > 0, "BUG: a block without rows at row {from} of {}", plan.len());
            writer.write(&BlockRows { series, times, ops, columns })?;
            from += rows;
        }
        Ok(())
    }

    /// Completes the file; `None` if there was no row.
    pub(crate) fn finish(self, lsns: (Lsn, Lsn)) -> Result<Option<Arc<Segment>>> {
        let Some(writer) = self.writer else { return Ok(None) };
        let meta = writer.finish(lsns)?;
        assert!(meta.rows == self.rows, "BUG: a segment of {} rows, {} were merged", meta.rows, self.rows);
        let Output { env, dir, cache, .. } = self.output;
        Ok(Some(Arc::new(Segment::open_in(&cache, env, &dir, meta))))
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::Int64Array;
    use env::sim::SimEnv;

    use super::*;
    use crate::rows::{Op, Ops};
    use crate::scan::{ScanRequest, TableView};
    use crate::tests::table;

    /// Time ranges of the segments, and the number of rows, after a flush of rows at these times of each of 30 series. Partitions have a
    /// length of 100.
    fn flushed(times: &[i64], kept_from: i64) -> (Vec<(i64, i64)>, usize) {
        let env: Arc<dyn Env> = Arc::new(SimEnv::new(0));
        env.create_dir_all(Path::new("/")).unwrap();
        let series: Vec<u32> = (0..30).flat_map(|series| times.iter().map(move |_| series)).collect();
        let all: Vec<i64> = (0..30).flat_map(|_| times.iter().copied()).collect();
        let values = Arc::new(Int64Array::from(all.clone())) as arrow_array::ArrayRef;
        let rows = Rows::new(series, all, Ops::All(Op::Replace), vec![(ColumnId(3), values)]);
        let mut state = TableState { kept_from, ..TableState::empty(table(true)) };
        let keys: Vec<Vec<u8>> =
            (0..30).map(|number| model::key::encode(&[model::KeyValue::Text(format!("dev{number}"))])).collect();
        state.series.insert_all(model::SeriesId(0), keys.iter().map(Vec::as_slice)).unwrap();
        state = state.with_rows(Lsn(1), Arc::new(rows), 30);
        let mut file = 0;
        let done = state.flush(&env, Path::new("/"), Lsn(1), &mut || {
            file += 1;
            file
        });
        let state = state.with_flushed(&done.unwrap());
        let ranges = state.segments.iter().map(|segment| (segment.meta().times.start, segment.meta().times.last));
        let ranges = ranges.collect();
        let scan = TableView::new(Arc::new(state)).scan(ScanRequest::all(vec![ColumnId(3)])).unwrap();
        let rows = scan.map(|batch| batch.unwrap().num_rows()).sum();
        (ranges, rows)
    }

    /// Name, times of each series, retention horizon; time ranges of the segments, rows of each series.
    type Case<'a> = (&'a str, Vec<i64>, i64, &'a [(i64, i64)], usize);

    #[test]
    fn rows_far_from_the_others_get_a_segment_of_their_own() {
        let near: Vec<i64> = (1_000..1_050).collect();
        let with = |times: &[i64]| {
            let mut times = [times, &near].concat();
            times.sort_unstable();
            times
        };
        let cases: [Case<'_>; 6] = [
            ("none far", with(&[900]), i64::MIN, &[(900, 1_049)], 51),
            ("a clock that was never set", with(&[-90_000]), i64::MIN, &[(-90_000, -90_000), (1_000, 1_049)], 51),
            (
                "of the past and the future",
                with(&[i64::MIN, i64::MAX - 5]),
                i64::MIN,
                &[(i64::MIN, i64::MIN), (1_000, 1_049), (i64::MAX - 5, i64::MAX - 5)],
                52,
            ),
            (
                "half of all rows",
                [near.clone(), (9_000..9_050).collect()].concat(),
                i64::MIN,
                &[(1_000, 1_049), (9_000, 9_049)],
                100,
            ),
            ("older than retention", with(&[-90_000]), 0, &[(1_000, 1_049)], 50),
            ("all older than retention", near.clone(), 2_000, &[], 0),
        ];
        for (name, times, kept_from, segments, rows) in cases {
            assert_eq!(flushed(&times, kept_from), (segments.to_vec(), 30 * rows), "{name}");
        }
    }
}
