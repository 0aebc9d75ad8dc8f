//! Compaction merges segments: fewer files to read, one version per row, deletes applied, files
//! split by partition.
//!
//! It merges a few segments of similar size (size-tiered), so a row is written about log3(size)
//! times. The inputs need not be neighbours in age, but no segment between them in age may overlap
//! their time range: the output takes the place of the newest input, which keeps versions in order.
//!
//! A compaction that includes every older segment of its time range folds versions completely. Any
//! other compaction folds only what no older version can change.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::Env;
use model::{ColumnId, DataType, Error, Lsn, Result, TableRef, TimeRange};

use crate::cache::SegmentCache;
use crate::deletes::{DeleteFilter, Deletes};
use crate::encoding::Form;
use crate::filter::Filter;
use crate::flush::{Output, SegmentBuild, prune_deletes};
use crate::history::{self, NOW, Versions};
use crate::merge::{Fold, Merger};
use crate::partitions::{Partitions, clamp, surroundings};
use crate::scan::SeriesFilter;
use crate::segment::{Segment, SegmentMeta};
use crate::segments::Segments;
use crate::sorted_run::{ColumnReads, SegmentSource, Source};
use crate::state::TableState;

/// Fewest segments worth merging.
const INPUTS_MIN: usize = 4;
/// Most segments of one compaction: each input holds a block in memory.
const INPUTS_MAX: usize = 16;
/// Most input bytes of one compaction: limits its run time and its temporary disk space.
const INPUT_BYTES_MAX: u64 = 1 << 30;
/// Like [`INPUT_BYTES_MAX`], for full compaction (`pick_settling`).
const SETTLING_BYTES_MAX: u64 = 8 << 30;
/// Larger segments are not merged: fewer than three of similar size would fit.
const INPUT_SEGMENT_BYTES_MAX: u64 = INPUT_BYTES_MAX / 3;
/// Smaller segments may be merged across partitions.
const SMALL_BYTES: u64 = if cfg!(test) { 2_000 } else { 16 << 20 };
/// Small segments that are far from all others are merged only if there are more than these.
const ALONE_MAX: usize = 32;
/// Partitions share an output until it has about this many bytes.
const OUTPUT_BYTES_MIN: u64 = if cfg!(test) { 4_000 } else { 64 << 20 };

/// A chosen compaction.
#[derive(Clone)]
pub struct Compaction {
    table: TableRef,
    /// Segments to merge, oldest first.
    inputs: Vec<Arc<Segment>>,
    tombstones: Arc<[Arc<Deletes>]>,
    /// Time ranges of the other segments that are older than the newest input.
    older: Vec<TimeRange>,
    /// The retention horizon: older rows are dropped.
    kept_from: i64,
    /// Cache for the outputs.
    cache: SegmentCache,
}

/// A running compaction. If it is dropped before [`Compacting::finish`], it removes its outputs.
pub struct Compacting {
    compaction: Compaction,
    env: Arc<dyn Env>,
    dir: PathBuf,
    columns: Arc<[(ColumnId, DataType)]>,
    /// Time ranges of the remaining outputs, latest first.
    ranges: Vec<TimeRange>,
    writing: Option<SegmentBuild>,
    outputs: Vec<Arc<Segment>>,
    /// I/O of the complete outputs.
    moved: Moved,
}

/// Disk I/O of a compaction, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Bytes read: blocks of the inputs.
    pub read: u64,
    /// Bytes written: outputs.
    pub written: u64,
}

impl Moved {
    /// Bytes read and written.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.read + self.written
    }
}

/// A finished compaction.
#[derive(Clone)]
pub struct Compacted {
    /// The segments to replace.
    pub inputs: Vec<Arc<Segment>>,
    /// The new segments, with disjoint time ranges; empty when every row was deleted.
    pub outputs: Vec<Arc<Segment>>,
}

impl TableState {
    /// The next compaction that is due, if any.
    #[must_use]
    pub fn pick_compaction(&self) -> Option<Compaction> {
        self.pick_deleted().or_else(|| self.pick_tiered())
    }

    /// The next step of a full compaction: until no two segments overlap in time, no tombstone is
    /// left and, except with history, every row has one version. For bulk loads and benchmarks.
    ///
    /// # Errors
    /// Errors of reading a segment's footer.
    pub fn pick_settling(&self) -> Result<Option<Compaction>> {
        if let Some(found) = self.pick_deleted().or_else(|| self.pick_overlapping()).or_else(|| self.pick_small(2)) {
            return Ok(Some(found));
        }
        for (at, segment) in self.segments.iter().enumerate() {
            let touched = self.tombstones.iter().any(|deletes| applies(deletes, segment.meta()))
                || segment.meta().times.start < self.kept_from;
            let alone = self.compaction(&[at]);
            let bottom = !alone.older.iter().any(|older| older.overlaps(&segment.meta().times));
            let folded = if self.keeps_history() {
                true
            } else {
                let dated = segment.columns()?.iter().any(|(id, _)| history::is_history_column(*id));
                !dated && (!self.table.keyed || !bottom || segment.settled()?)
            };
            if touched || !folded {
                return Ok(Some(alone));
            }
        }
        Ok(None)
    }

    /// The compaction backlog: the largest number of segments that share a partition and are small
    /// enough to be merged. If compaction keeps up, there are at most three of each size class, and
    /// a class is about four times the size of the previous one.
    #[must_use]
    pub fn compaction_backlog(&self) -> usize {
        let mergeable = self.segments.iter().filter(|segment| segment.meta().bytes <= INPUT_SEGMENT_BYTES_MAX);
        let mut ends: Vec<(i64, bool)> = Vec::new();
        for segment in mergeable {
            let hull = self.partitions_of(&segment.meta().times);
            ends.extend([(hull.start, false), (hull.last, true)]);
        }
        // At equal times, starts sort before ends, so ranges that touch overlap.
        ends.sort_unstable();
        let (mut now, mut most) = (0_usize, 0);
        for (_, is_end) in ends {
            now = if is_end { now.saturating_sub(1) } else { now + 1 };
            most = most.max(now);
        }
        most
    }

    /// The new retention horizon (start of the oldest partition to keep) at wall time `now`, if
    /// retention has rows to drop.
    #[must_use]
    pub fn due_retention(&self, now: i64) -> Option<i64> {
        let kept_from = self.table.options.kept_from(now).max(self.kept_from);
        (kept_from > self.kept_from || !self.segments_before(kept_from).is_empty()).then_some(kept_from)
    }

    /// Segments with all rows before this timestamp.
    #[must_use]
    pub fn segments_before(&self, moment: i64) -> Vec<Arc<Segment>> {
        self.segments.iter().filter(|segment| segment.meta().times.last < moment).cloned().collect()
    }

    /// Raises the retention horizon to `kept_from`: drops segments that end before it. Older rows
    /// of other segments are no longer returned.
    #[must_use]
    pub fn with_retention(&self, kept_from: i64) -> TableState {
        let kept = |segment: &&Arc<Segment>| segment.meta().times.last >= kept_from;
        let segments: Segments = self.segments.iter().filter(kept).cloned().collect();
        let tombstones = prune_deletes(self.tombstones.to_vec(), &segments, self.keeps_history());
        TableState { segments, tombstones, kept_from: kept_from.max(self.kept_from), ..self.clone() }
    }

    /// Replaces a compaction's inputs by its outputs, and drops tombstones that hide nothing any
    /// more. Returns the state unchanged if an input is missing.
    #[must_use]
    pub fn with_compacted(&self, done: &Compacted) -> TableState {
        let is_input = |segment: &Arc<Segment>| done.inputs.iter().any(|input| Arc::ptr_eq(input, segment));
        let found = self.segments.iter().filter(|segment| is_input(segment)).count();
        let Some(place) = self.segments.iter().rposition(is_input).filter(|_| found == done.inputs.len()) else {
            return self.clone();
        };
        let before = self.segments[..place].iter().filter(|segment| !is_input(segment));
        let segments: Segments = before.chain(&done.outputs).chain(&self.segments[place + 1..]).cloned().collect();
        let (new, expected) = (segments.len(), self.segments.len() - done.inputs.len() + done.outputs.len());
        assert!(new == expected, "BUG: {new} segments of {} after a compaction, expected {expected}", self.table.name);
        let tombstones = prune_deletes(self.tombstones.to_vec(), &segments, self.keeps_history());
        TableState { tombstones, segments, ..self.clone() }
    }

    fn compaction(&self, chosen: &[usize]) -> Compaction {
        assert!(chosen.is_sorted_by(|a, b| a < b) && !chosen.is_empty(), "BUG: inputs {chosen:?} are not in order");
        let newest = chosen.last().copied().unwrap_or(0);
        let is_kept = |at: &usize| !chosen.contains(at);
        Compaction {
            table: self.table.clone(),
            inputs: chosen.iter().map(|at| self.segments[*at].clone()).collect(),
            tombstones: self.tombstones.clone(),
            older: (0..newest).filter(is_kept).map(|at| self.segments[at].meta().times).collect(),
            kept_from: self.kept_from,
            cache: self.cache.clone(),
        }
    }

    /// A segment whose rows are all deleted.
    fn pick_deleted(&self) -> Option<Compaction> {
        let hidden = |at: &usize| {
            let meta = self.segments[*at].meta();
            let covers = |deletes: &Arc<Deletes>| deletes.hides_all(&meta.times, NOW);
            self.tombstones.iter().any(|deletes| applies(deletes, meta) && covers(deletes))
        };
        let first = (0..self.segments.len()).find(hidden)?;
        Some(self.compaction(&[first]))
    }

    /// A few segments of similar size: of one partition, or small ones of any.
    fn pick_tiered(&self) -> Option<Compaction> {
        let (mut hull, mut within) = (TimeRange::EMPTY, Vec::new());
        let starts = (0..self.segments.len()).filter(|at| self.segments[*at].meta().bytes <= INPUT_SEGMENT_BYTES_MAX);
        let runs = starts.filter_map(|start| {
            let own = self.partitions_of(&self.segments[start].meta().times);
            if own != hull {
                (hull, within) = (own, self.segments.overlapping(&own));
            }
            let fits = |_: &TimeRange, at: usize| hull.covers(&self.segments[at].meta().times);
            // Segments of other time ranges are neither inputs nor an obstacle.
            let rest = &within[within.partition_point(|at| *at <= start)..];
            self.run_from(start, INPUTS_MIN, &fits, rest.iter().copied())
        });
        let best = runs.min_by_key(|run| (self.largest(run), usize::MAX - run.len()));
        best.map(|run| self.compaction(&run)).or_else(|| self.pick_small(INPUTS_MIN))
    }

    /// Small segments, whatever their partitions. Segments far apart in time stay apart, so that rows with wrong times do
    /// not get into segments of others, unless there are many that are far from all others.
    fn pick_small(&self, inputs_min: usize) -> Option<Compaction> {
        let is_small = |at: &usize| self.segments[*at].meta().bytes < SMALL_BYTES;
        let small: Vec<usize> = (0..self.segments.len()).filter(is_small).collect();
        if small.len() < inputs_min {
            return None;
        }
        let length = self.table.options.partition_length;
        let times_of = |at: usize| &self.segments[at].meta().times;
        let run_of = |starts: &[usize], fits: &dyn Fn(&TimeRange, usize) -> bool| {
            let run = |start: &usize| self.run_from(*start, inputs_min, fits, start + 1..self.segments.len());
            starts.iter().find_map(run)
        };
        let near = |run: &TimeRange, at| is_small(&at) && surroundings(length, run).overlaps(times_of(at));
        let run = run_of(&small, &near).or_else(|| {
            let is_alone = |at: &usize| self.segments.overlapping(&surroundings(length, times_of(*at))).len() == 1;
            let alone: Vec<usize> = small.iter().copied().filter(is_alone).collect();
            let are_many = alone.len() > ALONE_MAX;
            are_many.then(|| run_of(&alone, &|_, at| alone.binary_search(&at).is_ok())).flatten()
        });
        run.map(|run| self.compaction(&run))
    }

    fn largest(&self, run: &[usize]) -> u64 {
        run.iter().map(|at| self.segments[*at].meta().bytes).max().unwrap_or(0)
    }

    /// The longest run starting with segment `start`, of segments that `fits` accepts, that is
    /// worth merging.
    ///
    /// - `fits`: receives the time range of the run so far, and the position of the next segment.
    /// - `rest`: the newer segments, oldest first, that can be inputs or obstacles.
    fn run_from(
        &self,
        start: usize,
        inputs_min: usize,
        fits: &dyn Fn(&TimeRange, usize) -> bool,
        rest: impl Iterator<Item = usize>,
    ) -> Option<Vec<usize>> {
        let first = self.segments[start].meta();
        let (mut run, mut best) = (vec![start], 0);
        let (mut times, mut bytes, mut largest) = (first.times, first.bytes, first.bytes);
        let mut skipped: Vec<TimeRange> = Vec::new();
        for at in rest {
            let meta = self.segments[at].meta();
            let wider = times.union(&meta.times);
            // The most expensive test comes last: there may be thousands of segments of other time
            // ranges.
            let is_unobstructed = || !skipped.iter().any(|skipped| skipped.overlaps(&wider));
            if fits(&times, at) && bytes + meta.bytes <= INPUT_BYTES_MAX && is_unobstructed() {
                run.push(at);
                (times, bytes, largest) = (wider, bytes + meta.bytes, largest.max(meta.bytes));
                if run.len() >= inputs_min && (inputs_min < INPUTS_MIN || largest.saturating_mul(3) <= bytes) {
                    best = run.len();
                }
                if run.len() == INPUTS_MAX {
                    break;
                }
            } else if meta.times.overlaps(&times) {
                break;
            } else {
                skipped.push(meta.times);
            }
        }
        run.truncate(best);
        (best > 0).then_some(run)
    }

    /// All segments that overlap in time, transitively.
    fn pick_overlapping(&self) -> Option<Compaction> {
        let groups = (0..self.segments.len()).map(|start| self.overlapping_from(start));
        let bytes = |group: &[usize]| group.iter().map(|at| self.segments[*at].meta().bytes).sum::<u64>();
        let mut due = groups.filter(|group| group.len() > 1 && bytes(group) <= SETTLING_BYTES_MAX);
        due.next().map(|group| self.compaction(&group))
    }

    fn overlapping_from(&self, start: usize) -> Vec<usize> {
        let mut group = vec![start];
        let mut times = self.segments[start].meta().times;
        loop {
            let near = self.segments.overlapping(&times);
            let Some(next) = near.into_iter().find(|at| *at > start && !group.contains(at)) else { break };
            times = times.union(&self.segments[next].meta().times);
            group.push(next);
        }
        group.sort_unstable();
        group
    }

    /// The time range of all partitions that `times` overlaps.
    fn partitions_of(&self, times: &TimeRange) -> TimeRange {
        let length = i128::from(self.table.options.partition_length.max(1));
        let start = i128::from(times.start).div_euclid(length) * length;
        let last = (i128::from(times.last).div_euclid(length) + 1) * length - 1;
        TimeRange { start: clamp(start), last: clamp(last) }
    }
}

/// Whether the deletes must still be applied to the segment.
fn applies(deletes: &Deletes, meta: &SegmentMeta) -> bool {
    deletes.lsns().1 > meta.lsns.1 && deletes.touches(meta.series, &meta.times)
}

impl Compaction {
    /// The segments it will replace, oldest first.
    #[must_use]
    pub fn inputs(&self) -> &[Arc<Segment>] {
        &self.inputs
    }

    /// Size of the inputs.
    #[must_use]
    pub fn input_bytes(&self) -> u64 {
        self.inputs.iter().map(|segment| segment.meta().bytes).sum()
    }

    /// Whether the state still has all inputs: retention may have dropped some.
    #[must_use]
    pub fn is_of(&self, state: &TableState) -> bool {
        // Both lists have the same order.
        let mut inputs = self.inputs.iter().peekable();
        for segment in state.segments.iter() {
            inputs.next_if(|input| Arc::ptr_eq(input, segment));
        }
        inputs.peek().is_none()
    }

    /// Starts the compaction. [`Compacting::step`] merges, folds versions, applies tombstones and
    /// splits by partition.
    ///
    /// # Errors
    /// 58030 when an input cannot be read; XX001 when it is damaged; XX000 for a broken invariant.
    pub fn start(self, env: &Arc<dyn Env>, dir: &Path) -> Result<Compacting> {
        Error::contain(|| self.start_unguarded(env, dir))?
    }

    fn start_unguarded(self, env: &Arc<dyn Env>, dir: &Path) -> Result<Compacting> {
        let columns = self.columns()?.into();
        let mut ranges = self.partitions()?;
        let disjoint = ranges.is_sorted_by(|a, b| a.last < b.start);
        assert!(disjoint, "BUG: outputs of {} would overlap: {ranges:?}", self.table.name);
        ranges.reverse();
        Ok(Compacting {
            compaction: self,
            env: Arc::clone(env),
            dir: dir.to_owned(),
            columns,
            ranges,
            writing: None,
            outputs: Vec::new(),
            moved: Moved::default(),
        })
    }

    /// Runs all steps, which may take a minute. `next_file` returns file numbers.
    ///
    /// # Errors
    /// Errors of [`Compaction::start`] and [`Compacting::step`].
    pub fn run(&self, env: &Arc<dyn Env>, dir: &Path, next_file: &mut dyn FnMut() -> u64) -> Result<Compacted> {
        let mut compacting = self.clone().start(env, dir)?;
        while compacting.step(u64::MAX, next_file)? {}
        Ok(compacting.finish())
    }

    /// LSN range of the outputs: of the inputs and of the deletes applied, which need not be
    /// applied again. Deletes still in the memtable have higher LSNs.
    fn lsns(&self) -> (Lsn, Lsn) {
        let inputs = self.inputs.iter().map(|segment| segment.meta().lsns);
        let (first, last) = inputs.fold((Lsn(u64::MAX), Lsn::ZERO), |all, own| (all.0.min(own.0), all.1.max(own.1)));
        let applied = self.tombstones.iter().map(|deletes| deletes.lsns().1).max();
        (first, last.max(applied.unwrap_or(Lsn::ZERO)))
    }

    fn columns(&self) -> Result<Vec<(ColumnId, DataType)>> {
        let mut columns: Vec<(ColumnId, DataType)> = Vec::new();
        for segment in &self.inputs {
            columns.extend_from_slice(&segment.columns()?);
        }
        columns.sort_unstable_by_key(|column| column.0);
        columns.dedup_by_key(|column| column.0);
        if self.keeps_history() && self.inputs.iter().any(|segment| self.applying(segment).next().is_some()) {
            // The times in both columns are stored in the list of [`history::WRITTEN_AT`], so both
            // columns are needed.
            columns.retain(|(id, _)| !history::is_history_column(*id));
            columns.extend([(history::WRITTEN_AT, history::TYPE), (history::DELETED_AT, history::TYPE)]);
        }
        let known = |id: ColumnId| {
            if history::is_history_column(id) { self.keeps_history() } else { self.table.column_by_id(id).is_some() }
        };
        columns.retain(|(id, _)| known(*id));
        Ok(columns)
    }

    fn keeps_history(&self) -> bool {
        self.table.options.history
    }

    /// Deletes that must still be applied to a segment.
    fn applying(&self, segment: &Segment) -> impl Iterator<Item = &Arc<Deletes>> {
        self.tombstones.iter().filter(|deletes| applies(deletes, segment.meta()))
    }

    /// Sources for the rows within `times`, and an estimate of the number of rows.
    fn sources(&self, times: TimeRange, columns: &[(ColumnId, DataType)]) -> Result<(Vec<Source>, usize)> {
        let ids: Arc<[ColumnId]> = columns.iter().map(|column| column.0).collect();
        let mut sources = Vec::new();
        let mut rows = 0;
        for segment in &self.inputs {
            let deletes =
                DeleteFilter { deletes: self.applying(segment).cloned().collect(), ..DeleteFilter::default() };
            let (deletes, versions) = match self.keeps_history() {
                true => (DeleteFilter::default(), Versions::All(deletes)),
                false => (deletes, Versions::At(NOW)),
            };
            let filter = Filter { times, series: SeriesFilter::All, deletes, versions };
            let metas = segment.blocks()?;
            let passes = |block: &u32| {
                let meta = &metas[*block as usize];
                !filter.rejects_all((meta.first.0, meta.last.0), &meta.times)
            };
            let blocks: Vec<u32> = (0..metas.len() as u32).filter(passes).collect();
            rows += blocks.iter().map(|block| metas[*block as usize].rows as usize).sum::<usize>();
            sources.extend(
                SegmentSource::new(segment.clone(), filter, blocks, ColumnReads::all(ids.clone()))?
                    .map(Source::Segment),
            );
        }
        Ok((sources, rows))
    }

    /// The time range of each output: whole partitions, as many as reach [`OUTPUT_BYTES_MIN`].
    fn partitions(&self) -> Result<Vec<TimeRange>> {
        let mut times = self.inputs.iter().fold(TimeRange::EMPTY, |all, segment| all.union(&segment.meta().times));
        times.start = times.start.max(self.kept_from);
        if times.is_empty() {
            return Ok(Vec::new());
        }
        let partitions = Partitions::new(self.table.options.partition_length, times);
        let bytes = self.bytes_by_partition(&partitions, &times)?;
        let (mut ranges, mut start, mut sum) = (Vec::new(), 0, 0.0);
        for (at, bytes) in bytes.iter().enumerate() {
            sum += bytes;
            if sum >= OUTPUT_BYTES_MIN as f64 || at + 1 == partitions.count() {
                ranges.push(partitions.times(start..at + 1));
                (start, sum) = (at + 1, 0.0);
            }
        }
        Ok(ranges)
    }

    /// Estimated bytes per partition, assuming that the rows of a block are evenly distributed over
    /// its time range.
    fn bytes_by_partition(&self, partitions: &Partitions, times: &TimeRange) -> Result<Vec<f64>> {
        let mut bytes = vec![0.0; partitions.count()];
        for segment in &self.inputs {
            let row_bytes = segment.meta().bytes as f64 / segment.meta().rows.max(1) as f64;
            for meta in segment.blocks()?.iter().filter(|meta| meta.times.last >= times.start) {
                let (from, to) = (partitions.at(meta.times.start.max(times.start)), partitions.at(meta.times.last));
                let each = row_bytes * f64::from(meta.rows) / (to - from + 1) as f64;
                bytes[from..=to].iter_mut().for_each(|bytes| *bytes += each);
            }
        }
        Ok(bytes)
    }
}

impl Compacting {
    /// The compaction that is running.
    #[must_use]
    pub fn compaction(&self) -> &Compaction {
        &self.compaction
    }

    /// Disk I/O so far, without directories and indexes of the inputs.
    #[must_use]
    pub fn moved(&self) -> Moved {
        let Some(writing) = &self.writing else { return self.moved };
        Moved { read: self.moved.read + writing.bytes_read(), written: self.moved.written + writing.bytes_written() }
    }

    /// Continues until about `bytes` more are read and written, at least one block; returns false
    /// when all outputs are complete. Complete outputs are synced. `next_file` returns file
    /// numbers.
    ///
    /// # Errors
    /// 58030, 53100, XX001 when an input is damaged; the compaction cannot be continued. XX000, of kind `Bug`, for a
    /// broken invariant: the same compaction would fail again.
    pub fn step(&mut self, bytes: u64, next_file: &mut dyn FnMut() -> u64) -> Result<bool> {
        Error::contain(|| self.step_unguarded(bytes, next_file))?
    }

    fn step_unguarded(&mut self, bytes: u64, next_file: &mut dyn FnMut() -> u64) -> Result<bool> {
        let upto = self.moved().total().saturating_add(bytes.max(1));
        while self.moved().total() < upto {
            let Some(writing) = &mut self.writing else {
                let Some(times) = self.ranges.pop() else {
                    self.check_outputs();
                    return Ok(false);
                };
                self.writing = Some(self.begin(times)?);
                continue;
            };
            if !writing.step(next_file)? {
                self.finish_output()?;
            }
        }
        Ok(true)
    }

    /// The result, after a step that returned false.
    ///
    /// # Panics
    /// If the last step did not return false.
    #[must_use]
    pub fn finish(mut self) -> Compacted {
        assert!(self.writing.is_none() && self.ranges.is_empty(), "BUG: compaction finished before its last step");
        Compacted { inputs: self.compaction.inputs.clone(), outputs: std::mem::take(&mut self.outputs) }
    }

    /// Checks the outputs against the inputs, by what the files say of themselves.
    fn check_outputs(&self) {
        let (inputs, outputs, table) = (&self.compaction.inputs, &self.outputs, &self.compaction.table.name);
        let rows = |segments: &[Arc<Segment>]| segments.iter().map(|segment| segment.meta().rows).sum::<u64>();
        let (read, written) = (rows(inputs), rows(outputs));
        assert!(written <= read, "BUG: a compaction of {table} made {written} rows of {read}");
        let hull = |segments: &[Arc<Segment>]| {
            segments.iter().fold(TimeRange::EMPTY, |all, segment| all.union(&segment.meta().times))
        };
        let (of_inputs, of_outputs) = (hull(inputs), hull(outputs));
        assert!(of_inputs.covers(&of_outputs), "BUG: a compaction of {table} made {of_outputs:?} of {of_inputs:?}");
        let mut times: Vec<TimeRange> = outputs.iter().map(|segment| segment.meta().times).collect();
        times.sort_unstable_by_key(|times| times.start);
        let disjoint = times.is_sorted_by(|a, b| a.last < b.start);
        assert!(disjoint, "BUG: outputs of a compaction of {table} overlap: {times:?}");
    }

    fn begin(&self, times: TimeRange) -> Result<SegmentBuild> {
        let compaction = &self.compaction;
        let bottom = !compaction.older.iter().any(|older| older.overlaps(&times));
        let fold = match (compaction.keeps_history(), compaction.table.keyed, bottom) {
            (true, _, _) => Fold::Versions,
            (false, false, _) => Fold::None,
            (false, true, true) => Fold::Full,
            (false, true, false) => Fold::Closed,
        };
        let (sources, rows) = compaction.sources(times, &self.columns)?;
        let form = Form::of(&compaction.table);
        let (env, columns) = (Arc::clone(&self.env), Arc::clone(&self.columns));
        Ok(Output { env, dir: self.dir.clone(), cache: self.compaction.cache.clone(), columns, rows, form }
            .begin(Merger::new(sources, fold)))
    }

    fn finish_output(&mut self) -> Result<()> {
        let Some(writing) = self.writing.take() else { return Ok(()) };
        self.moved.read += writing.bytes_read();
        let output = writing.finish(self.compaction.lsns())?;
        self.moved.written += output.as_ref().map_or(0, |output| output.meta().bytes);
        self.outputs.extend(output);
        Ok(())
    }
}

impl Drop for Compacting {
    fn drop(&mut self) {
        self.outputs.iter().for_each(|output| output.remove_when_unused());
    }
}

#[cfg(test)]
impl TableState {
    /// Any run from segment `start` on that keeps versions in order, due or not, without every
    /// `skip`th file.
    pub(crate) fn pick_any(&self, start: usize, skip: u64) -> Option<Compaction> {
        let fits = |_: &TimeRange, at: usize| skip == 1 || !self.segments[at].meta().file.is_multiple_of(skip);
        self.run_from(start, 2, &fits, start + 1..self.segments.len()).map(|run| self.compaction(&run))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::table;

    /// First timestamp, last timestamp, bytes.
    type Meta = (i64, i64, u64);

    type Case<'a> = (&'static str, &'a [Meta], Option<&'a [u64]>);

    fn state(segments: &[Meta]) -> TableState {
        let env: Arc<dyn Env> = Arc::new(env::sim::SimEnv::new(0));
        let open = |(file, (start, last, bytes)): (usize, &Meta)| {
            let meta = SegmentMeta {
                file: file as u64,
                lsns: (Lsn(file as u64), Lsn(file as u64)),
                times: TimeRange { start: *start, last: *last },
                series: (0, 9),
                rows: 10,
                bytes: *bytes,
            };
            Arc::new(Segment::open(env.clone(), Path::new("/"), meta))
        };
        let segments = segments.iter().enumerate().map(open).collect();
        TableState { segments, ..TableState::empty(table(true)) }
    }

    /// Files chosen among these. Partitions have a length of 100; segments below 2,000 bytes are
    /// small.
    fn pick(segments: &[Meta]) -> Option<Vec<u64>> {
        let picked = state(segments).pick_compaction()?;
        Some(picked.inputs().iter().map(|segment| segment.meta().file).collect())
    }

    #[test]
    fn compaction_takes_a_few_of_similar_size_and_keeps_the_order_of_versions() {
        let far: Vec<Meta> = (0..33).map(|at| (at * 1_000, at * 1_000 + 9, 100)).collect();
        let first: Vec<u64> = (0..16).collect();
        // The three of -900 to -801 are near each other: they are not alone, and must not be merged with the others.
        let mut with_others = far.clone();
        with_others.extend([
            (-5_000, -5_000, 10),
            (-900, -850, 400),
            (-5_000, -4_999, 10),
            (-840, -820, 400),
            (-810, -801, 400),
        ]);
        let cases: [Case<'_>; 13] = [
            ("four alike", &[(0, 9, 5_000); 4], Some(&[0, 1, 2, 3])),
            ("three alike", &[(0, 9, 5_000); 3], None),
            ("one too large", &[(0, 9, 50_000), (0, 9, 5_000), (0, 9, 5_000), (0, 9, 5_000)], None),
            (
                "the large one is left out",
                &[(0, 9, 50_000), (0, 9, 5_000), (0, 9, 5_000), (0, 9, 5_000), (0, 9, 5_000)],
                Some(&[1, 2, 3, 4]),
            ),
            (
                "other partitions between them stay",
                &[(0, 9, 5_000), (200, 210, 9_000), (0, 9, 5_000), (300, 310, 7_000), (5, 9, 5_000), (3, 9, 5_000)],
                Some(&[0, 2, 4, 5]),
            ),
            (
                "segment 2 must not be put behind segment 1, with which it shares moments",
                &[(0, 10, 5_000), (90, 150, 9_000), (80, 95, 5_000), (0, 9, 5_000), (0, 9, 5_000), (0, 9, 5_000)],
                Some(&[0, 3, 4, 5]),
            ),
            (
                "a large one of the same moments between them",
                &[(0, 9, 5_000), (0, 9, 5_000), (0, 9, 90_000), (0, 9, 5_000), (0, 9, 5_000)],
                None,
            ),
            (
                "small ones of many partitions",
                &[(0, 9, 100), (100, 109, 100), (200, 209, 100), (300, 309, 100)],
                Some(&[0, 1, 2, 3]),
            ),
            ("small ones far apart", &far[..32], None),
            ("too many small ones far apart", &far, Some(&first)),
            ("too many small ones far apart, and others", &with_others, Some(&first)),
            (
                "small ones with those of wrong clocks between them",
                &[
                    (-90_000, -90_000, 50),
                    (0, 9, 100),
                    (-90_000, -89_990, 50),
                    (10, 19, 100),
                    (20, 29, 100),
                    (30, 39, 100),
                ],
                Some(&[1, 3, 4, 5]),
            ),
            ("no longer small", &[(0, 9, 2_100), (100, 109, 2_100), (200, 209, 2_100), (300, 309, 2_100)], None),
        ];
        for (name, segments, expected) in cases {
            assert_eq!(pick(segments).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn backlog_is_the_most_segments_of_one_partition_that_may_still_be_merged() {
        const LARGE: u64 = INPUT_SEGMENT_BYTES_MAX + 1;
        let cases: [(&str, &[Meta], usize); 6] = [
            ("none", &[], 0),
            ("of one partition, whether they share moments or not", &[(0, 9, 1), (20, 29, 1), (95, 99, 1)], 3),
            ("large ones stay as they are", &[(0, 9, LARGE), (0, 9, LARGE - 1)], 1),
            ("of several partitions", &[(0, 99, 1), (100, 199, 1), (200, 299, 1)], 1),
            ("one of several touches all of them", &[(0, 99, 1), (50, 150, 1), (100, 101, 1), (199, 200, 1)], 3),
            (
                "at the ends of time",
                &[(i64::MIN, i64::MIN, 1), (i64::MAX - 1, i64::MAX, 1), (i64::MAX, i64::MAX, 1)],
                2,
            ),
        ];
        for (name, segments, expected) in cases {
            assert_eq!(state(segments).compaction_backlog(), expected, "{name}");
        }
    }
}
