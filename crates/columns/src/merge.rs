//! Merges sorted sources into one sorted stream and folds the versions of a row.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;

use model::{ColumnId, Result};

use crate::filter::gallop;
use crate::merge_plan::MergePlan;
use crate::rows::Op;
use crate::scan::ScanStats;
use crate::sorted_run::{SortedRun, Source};

/// A plan ends before the row that would let its text and bytes exceed this size, so that large
/// values limit a batch before its row count does. Only the last row may exceed it: if it is the only one, or has a
/// newer version that is larger.
const TEXT_BYTES_MAX: usize = if cfg!(test) { 1 << 10 } else { 16 << 20 };

/// Keys are compared in slices of this many rows: small, so that a comparison that fails is cheap.
const COMPARE_ROWS: usize = if cfg!(test) { 4 } else { 32 };

/// Treatment of several versions of the same (series, time).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fold {
    /// Keep all versions: the table allows duplicates.
    None,
    /// Keep all versions with their operations: the table keeps its history.
    Versions,
    /// Fold as far as the result does not depend on older versions elsewhere; keep the operations.
    Closed,
    /// Fold to one row: no older versions exist elsewhere.
    Full,
}

/// Merges sources, which are given oldest first.
pub(crate) struct Merger {
    inputs: Vec<Input>,
    /// A lower bound of the (series, time) of each input's next row, and the input's number.
    heap: BinaryHeap<Reverse<(u32, i64, u32)>>,
    fold: Fold,
    /// Versions of `group_key` found so far, oldest first: (run of the plan, position).
    group: Vec<(u32, usize)>,
    group_key: (u32, i64),
    /// Bytes of text and bytes values of these versions.
    group_bytes: usize,
    /// The last row of the last plan.
    last: Option<(u32, i64)>,
    /// A plan of only one series ends with the series if it has at least this many rows.
    pub(crate) series_rows: usize,
    /// A plan of at least this many rows ends with a run: its columns are then slices of one run,
    /// not copies from two.
    pub(crate) run_end_rows: usize,
}

struct Input {
    source: Source,
    run: Option<Arc<SortedRun>>,
    /// Next position of the run.
    at: usize,
    /// The run's number in the current plan.
    slot: Option<u32>,
}

impl Merger {
    pub(crate) fn new(sources: Vec<Source>, fold: Fold) -> Merger {
        let inputs: Vec<Input> =
            sources.into_iter().map(|source| Input { source, run: None, at: 0, slot: None }).collect();
        let bound = |(number, input): (usize, &Input)| {
            input.source.bound().map(|(series, time)| Reverse((series, time, number as u32)))
        };
        let heap = inputs.iter().enumerate().filter_map(bound).collect();
        Merger {
            inputs,
            heap,
            fold,
            group: Vec::new(),
            group_key: (0, 0),
            group_bytes: 0,
            last: None,
            series_rows: usize::MAX,
            run_end_rows: usize::MAX,
        }
    }

    /// Upper bound of the rows of all sources. Valid only before the first call of `next`.
    pub(crate) fn rows_max(&self) -> u64 {
        self.inputs.iter().map(|input| input.source.rows_max()).sum()
    }

    /// The next rows; `None` at the end. At least `rows_max`, unless the sources or a run end or
    /// values are large; more only if the last row has several versions that are all kept.
    pub(crate) fn next(&mut self, rows_max: usize, stats: &mut ScanStats) -> Result<Option<MergePlan>> {
        let mut plan = MergePlan::default();
        self.inputs.iter_mut().for_each(|input| input.slot = None);
        while let Some(Reverse((series, time, number))) = self.heap.peek().copied() {
            let rows = plan.len() + usize::from(!self.group.is_empty());
            let run_ends = rows >= self.run_end_rows && self.inputs[number as usize].run.is_none();
            let bytes = plan.text_bytes + self.group_bytes;
            let is_too_large = bytes > 0 && bytes + self.inputs[number as usize].next_text_bytes() > TEXT_BYTES_MAX;
            let full = rows >= rows_max || is_too_large || run_ends;
            // All versions of one row belong to the same plan.
            if full && (self.group.is_empty() || self.group_key != (series, time)) {
                break;
            }
            if rows >= self.series_rows && self.is_all_of_another(&plan, series) {
                break;
            }
            self.heap.pop();
            let input = &mut self.inputs[number as usize];
            if input.ready(stats)? && !self.skip_replaced(number, (series, time), stats) {
                self.take_run(number, rows_max.saturating_sub(rows), &mut plan, stats);
            }
            let input = &self.inputs[number as usize];
            if let Some((series, time)) = input.head() {
                self.heap.push(Reverse((series, time, number)));
            }
        }
        self.close_group(&mut plan, stats);
        assert!(self.group.is_empty(), "BUG: {} versions belong to no plan", self.group.len());
        if plan.is_empty() {
            assert!(self.heap.is_empty(), "BUG: a plan without rows, with {} inputs left", self.heap.len());
            return Ok(None);
        }
        debug_assert!(self.follows(&plan), "BUG: rows of a plan are not in order, or before {:?}", self.last);
        self.last = plan.last_key();
        Ok(Some(plan))
    }

    /// Whether the rows of a plan are sorted, begin after the last plan, and have one version each if they are folded
    /// to one. For debug assertions: the rows may come from a disk.
    fn follows(&self, plan: &MergePlan) -> bool {
        let folded = self.fold == Fold::Full;
        let keys = || plan.series.iter().copied().zip(plan.times.iter().copied());
        let ordered = |(a, b): (Option<(u32, i64)>, (u32, i64))| if folded { a < Some(b) } else { a <= Some(b) };
        std::iter::once(self.last).chain(keys().map(Some)).zip(keys()).all(ordered)
    }

    /// Whether all rows of the plan belong to one series other than `series`.
    fn is_all_of_another(&self, plan: &MergePlan, series: u32) -> bool {
        let last = if self.group.is_empty() { plan.series.last() } else { Some(&self.group_key.0) };
        let first = plan.series.first().or(last);
        last.is_some_and(|last| *last != series) && first == last
    }

    /// Drops rows of input `number`, whose next row has this key, as long as the next newer input
    /// has the same keys and replaces each of them. Versions in inputs between the two are replaced
    /// by it as well. A rewritten stretch of rows thus costs one comparison of slices instead of a
    /// heap operation per version. Returns false if no row was dropped.
    fn skip_replaced(&mut self, number: u32, key: (u32, i64), stats: &mut ScanStats) -> bool {
        let Some(Reverse((series, time, newer))) = self.heap.peek().copied() else { return false };
        if (series, time) != key || matches!(self.fold, Fold::None | Fold::Versions) {
            return false;
        }
        let (old, new) = (&self.inputs[number as usize], &self.inputs[newer as usize]);
        // For a run that has not been read, the heap has only a lower bound of the key.
        let (Some(old_rows), Some(new_rows)) = (&old.run, &new.run) else { return false };
        let replaced = replaced_rows((old_rows, old.at), (new_rows, new.at));
        self.inputs[number as usize].advance(replaced);
        stats.versions_dropped += replaced as u64;
        replaced > 0
    }

    /// Takes the rows of an input that precede every other input's next row, at most `budget`.
    fn take_run(&mut self, number: u32, budget: usize, plan: &mut MergePlan, stats: &mut ScanStats) {
        let input = &mut self.inputs[number as usize];
        let Some(run) = input.run.clone() else { return };
        let end = match self.heap.peek() {
            None => run.len(),
            Some(Reverse((series, time, other))) => {
                // Among equal keys, the older input comes first.
                input.at + run_rows(&run, input.at, (*series, *time), number < *other)
            }
        };
        let bytes = plan.text_bytes + self.group_bytes;
        let text_rows = run.text.rows_within(input.at, TEXT_BYTES_MAX.saturating_sub(bytes));
        let mut range = input.at..end.min(input.at + budget.min(text_rows).max(1));
        if range.is_empty() {
            return;
        }
        // The rows of the next series may belong to the next plan.
        let series = run.series[range.start];
        let is_alone = plan.series.first().is_none_or(|first| *first == series)
            && (self.group.is_empty() || self.group_key.0 == series);
        if self.series_rows < usize::MAX && is_alone {
            let rows = gallop(&run.series[range.clone()], |other| *other == series);
            if plan.len() + usize::from(!self.group.is_empty()) + rows >= self.series_rows {
                range.end = range.start + rows;
            }
        }
        let slot = *input.slot.get_or_insert_with(|| plan.add_run(run.clone()));
        input.advance(range.len());
        match self.fold {
            Fold::None => plan.push_range(slot, range),
            Fold::Versions => {
                plan.push_range(slot, range.clone());
                plan.push_ops(&run.ops, range);
            }
            _ if run.unique && self.is_alone(&run, &range) => {
                self.close_group(plan, stats);
                plan.push_range(slot, range.clone());
                if self.fold == Fold::Closed {
                    plan.push_ops(&run.ops, range);
                }
            }
            _ if run.unique => self.take_unique(&run, slot, range, plan, stats),
            _ => range.for_each(|at| self.take_version(&run, slot, at, plan, stats)),
        }
    }

    /// Whether no other run has versions of these rows, nor the next run of their input, which could begin with one.
    fn is_alone(&self, run: &SortedRun, range: &Range<usize>) -> bool {
        let is_first = self.group.is_empty() || self.group_key < run.key(range.start);
        let next = self.heap.peek().map(|Reverse((series, time, _))| (*series, *time));
        is_first && range.end < run.len() && next.is_none_or(|next| run.key(range.end - 1) < next)
    }

    /// Within a run without duplicates, only the first and the last row can have versions in other
    /// inputs.
    fn take_unique(
        &mut self,
        run: &SortedRun,
        slot: u32,
        range: Range<usize>,
        plan: &mut MergePlan,
        stats: &mut ScanStats,
    ) {
        self.take_version(run, slot, range.start, plan, stats);
        if range.len() == 1 {
            return;
        }
        self.close_group(plan, stats);
        let inner = range.start + 1..range.end - 1;
        if !inner.is_empty() {
            plan.push_range(slot, inner.clone());
            if self.fold == Fold::Closed {
                plan.push_ops(&run.ops, inner);
            }
        }
        self.take_version(run, slot, range.end - 1, plan, stats);
    }

    fn take_version(&mut self, run: &SortedRun, slot: u32, at: usize, plan: &mut MergePlan, stats: &mut ScanStats) {
        if run.key(at) != self.group_key {
            self.close_group(plan, stats);
            self.group_key = run.key(at);
        }
        match run.ops.get(at) {
            Op::Replace => {
                stats.versions_dropped += self.group.len() as u64;
                self.group.clear();
                self.group_bytes = 0;
            }
            // Any version before this one leaves a row, so the insert has no effect.
            Op::Keep if !self.group.is_empty() => {
                stats.versions_dropped += 1;
                return;
            }
            _ => {}
        }
        self.group.push((slot, at));
        self.group_bytes += run.text.bytes(at..at + 1);
    }

    fn close_group(&mut self, plan: &mut MergePlan, stats: &mut ScanStats) {
        let group = std::mem::take(&mut self.group);
        let rows = plan.len();
        match (group.as_slice(), self.fold) {
            ([], _) => {}
            (_, Fold::Full) => fold_full(&group, plan),
            _ => fold_closed(&group, plan),
        }
        stats.versions_dropped += (group.len() - (plan.len() - rows)) as u64;
        self.group = group;
        self.group.clear();
        self.group_bytes = 0;
    }
}

impl Input {
    /// Whether the input has a current row. Otherwise reads the next run and returns false.
    fn ready(&mut self, stats: &mut ScanStats) -> Result<bool> {
        if self.run.is_none() {
            self.run = self.source.next(stats)?.filter(|run| run.len() > 0).map(Arc::new);
            debug_assert!(self.run.as_ref().is_none_or(|run| run.is_sorted()), "BUG: a run that is not sorted");
            (self.at, self.slot) = (0, None);
            // The key in the heap was a lower bound: the first row may come after another input's.
            return Ok(false);
        }
        Ok(true)
    }

    /// Bytes of text and bytes values of the next row, if its run has been read.
    fn next_text_bytes(&self) -> usize {
        self.run.as_ref().map_or(0, |run| run.text.bytes(self.at..self.at + 1))
    }

    fn head(&self) -> Option<(u32, i64)> {
        match &self.run {
            Some(run) => Some(run.key(self.at)),
            None => self.source.bound(),
        }
    }

    /// Skips `rows` rows of the run, and releases the run at its end.
    fn advance(&mut self, rows: usize) {
        self.at += rows;
        debug_assert!(self.run.as_ref().is_some_and(|run| self.at <= run.len()), "BUG: row {} of a run", self.at);
        if self.run.as_ref().is_some_and(|run| self.at == run.len()) {
            (self.run, self.slot) = (None, None);
        }
    }
}

/// Number of rows of an older run, from a position, that a newer run has at the same keys and replaces. It reads at most
/// [`COMPARE_ROWS`] rows beyond these: a caller asks again at each row of a run that only changes some columns.
fn replaced_rows((old, old_from): (&SortedRun, usize), (new, new_from): (&SortedRun, usize)) -> usize {
    let rows = (old.len() - old_from).min(new.len() - new_from);
    let all_replace = new.ops.all_replace();
    let are_replaced = |at: usize, len: usize| {
        let (of_old, of_new) = (old_from + at..old_from + at + len, new_from + at..new_from + at + len);
        (all_replace || of_new.clone().all(|row| *new.ops.get(row) == Op::Replace))
            && old.times[of_old.clone()] == new.times[of_new.clone()]
            && old.series[of_old] == new.series[of_new]
    };
    let mut replaced = 0;
    while replaced + COMPARE_ROWS <= rows && are_replaced(replaced, COMPARE_ROWS) {
        replaced += COMPARE_ROWS;
    }
    while replaced < rows && are_replaced(replaced, 1) {
        replaced += 1;
    }
    replaced
}

/// Number of rows of `run`, from position `from`, with keys below `bound`, or at it too if
/// `through`.
fn run_rows(run: &SortedRun, from: usize, bound: (u32, i64), through: bool) -> usize {
    let series = &run.series[from..];
    let below = gallop(series, |series| *series < bound.0);
    let same = gallop(&series[below..], |series| *series == bound.0);
    let times = &run.times[from + below..from + below + same];
    below + gallop(times, |time| *time < bound.1 || (through && *time == bound.1))
}

/// Folds to one row: the oldest version, overwritten by each later one.
fn fold_full(group: &[(u32, usize)], plan: &mut MergePlan) {
    let rows = plan.len();
    let (first, later) = (group[0], &group[1..]);
    plan.push_range(first.0, first.1..first.1 + 1);
    for (slot, at) in later {
        match plan.runs[*slot as usize].ops.get(*at).clone() {
            Op::Merge => plan.push_overlay(*slot, *at, None),
            Op::Update(columns) => plan.push_overlay(*slot, *at, Some(columns)),
            Op::Replace | Op::Keep => {}
        }
    }
    debug_assert!(plan.len() == rows + 1, "BUG: versions folded to {} rows, expected 1", plan.len() - rows);
}

/// Folds to as few rows as possible without knowledge of older versions; oldest first.
fn fold_closed(group: &[(u32, usize)], plan: &mut MergePlan) {
    let mut last: Option<Op> = None;
    for (slot, at) in group {
        let op = plan.runs[*slot as usize].ops.get(*at).clone();
        let joined = last.as_ref().and_then(|last| join(last, &op));
        match (joined, &op) {
            (Some(result), Op::Update(columns)) => {
                plan.push_overlay(*slot, *at, Some(columns.clone()));
                last = Some(result);
            }
            (Some(result), _) => {
                plan.push_overlay(*slot, *at, None);
                last = Some(result);
            }
            (None, _) => {
                if let Some(done) = last.replace(op) {
                    plan.push_op(&done, 1);
                }
                plan.push_range(*slot, *at..*at + 1);
            }
        }
    }
    if let Some(done) = last {
        plan.push_op(&done, 1);
    }
}

/// The operation of `newer` after `older` as a single one; `None` if that depends on older
/// versions. (`take_version` handles `Replace` and `Keep` as `newer`.)
fn join(older: &Op, newer: &Op) -> Option<Op> {
    match (older, newer) {
        (Op::Replace, _) => Some(Op::Replace),
        (Op::Merge, Op::Merge) => Some(Op::Merge),
        (Op::Keep, Op::Update(_)) => Some(newer.clone()),
        (Op::Update(old), Op::Update(new)) if within(new, old) => Some(older.clone()),
        (Op::Update(old), Op::Update(new)) if within(old, new) => Some(newer.clone()),
        _ => None,
    }
}

fn within(some: &[ColumnId], all: &[ColumnId]) -> bool {
    some.iter().all(|id| all.binary_search(id).is_ok())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use arrow_array::cast::AsArray;
    use arrow_array::types::Float64Type;
    use arrow_array::{ArrayRef, Float64Array};
    use model::DataType;

    use super::*;
    use crate::encoding::tests::Random;
    use crate::filter::Filter;
    use crate::rows::{Ops, Rows};
    use crate::sorted_run::RowsSource;

    const VALUE: ColumnId = ColumnId(2);

    type Row = (u32, i64, Op, f64);

    /// A memtable source: sorted, in runs of up to 16 rows.
    fn source(rows: &[Row]) -> Source {
        let values: ArrayRef = Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.3)));
        let list = vec![Op::Replace, Op::Keep, Op::Merge];
        let of: Vec<u8> =
            rows.iter().filter_map(|row| list.iter().position(|op| *op == row.2)).map(|at| at as u8).collect();
        let ops = if of.iter().all(|of| *of == 0) { Ops::All(Op::Replace) } else { Ops::Each { list, of } };
        let series = rows.iter().map(|row| row.0).collect();
        let rows = Rows::new(series, rows.iter().map(|row| row.1).collect(), ops, vec![(VALUE, values)]);
        Source::Rows(RowsSource::new(Arc::new(rows), Filter::all()).unwrap())
    }

    /// Stretches of rows with gaps and, in half of the sources, occasionally two versions of a row.
    fn rows(random: &mut Random, source: u64) -> Vec<Row> {
        let (mut rows, mut time, mut series) = (Vec::new(), 0, 0);
        let is_unique = random.below(2) == 0;
        while rows.len() < 150 {
            let op = [Op::Replace, Op::Replace, Op::Replace, Op::Keep, Op::Merge][random.below(5) as usize].clone();
            for _ in 0..random.below(70) {
                rows.push((series, time, op.clone(), (source * 1_000) as f64 + rows.len() as f64));
                time += i64::from(is_unique || random.below(40) > 0);
            }
            time += random.below(9) as i64;
            if random.below(5) == 0 {
                (series, time) = (series + random.below(2) as u32 + 1, 0);
            }
        }
        rows
    }

    #[test]
    fn merge_equals_inserting_the_sources_into_a_map_in_order() {
        for seed in 0..300 {
            let mut random = Random(seed + 1);
            let sources: Vec<Vec<Row>> = (0..random.below(5) + 1).map(|number| rows(&mut random, number)).collect();
            let mut expected: BTreeMap<(u32, i64), f64> = BTreeMap::new();
            for (series, time, op, value) in sources.iter().flatten() {
                match op {
                    Op::Keep => _ = expected.entry((*series, *time)).or_insert(*value),
                    _ => _ = expected.insert((*series, *time), *value),
                }
            }
            let expected: Vec<((u32, i64), f64)> = expected.into_iter().collect();
            let all: usize = sources.iter().map(Vec::len).sum();
            // At once, and with the newer sources merged before, as a flush or the memtable merges them.
            for newer in [0, 1 + random.below(sources.len() as u64) as usize] {
                let (older, newer) = sources.split_at(sources.len() - newer);
                let mut dropped = 0;
                let closed = merged(newer, Fold::Closed, &mut random, &mut dropped);
                let inputs: Vec<Vec<Row>> =
                    older.iter().chain(&(!closed.is_empty()).then_some(closed)).cloned().collect();
                let seen = merged(&inputs, Fold::Full, &mut random, &mut dropped);
                assert_eq!(seen.len() as u64 + dropped, all as u64, "seed {seed}");
                let seen: Vec<_> = seen.into_iter().map(|(series, time, _, value)| ((series, time), value)).collect();
                assert_eq!(seen, expected, "seed {seed}");
            }
        }
    }

    /// Merges sources in plans of random length; adds to `dropped` the versions that were dropped.
    fn merged(sources: &[Vec<Row>], fold: Fold, random: &mut Random, dropped: &mut u64) -> Vec<Row> {
        let mut merger = Merger::new(sources.iter().map(|rows| source(rows)).collect(), fold);
        let (mut stats, mut rows) = (ScanStats::default(), Vec::new());
        while let Some(plan) = merger.next(1 + random.below(100) as usize, &mut stats).unwrap() {
            let values = plan.column(VALUE, DataType::Float64).unwrap().unwrap();
            let (ops, len) = plan.ops(0..plan.len());
            assert_eq!(len, plan.len());
            for at in 0..len {
                let value = values.as_primitive::<Float64Type>().value(at);
                rows.push((plan.series[at], plan.times[at], ops.get(at).clone(), value));
            }
        }
        *dropped += stats.versions_dropped;
        rows
    }

    /// The bug: a plan counted the average text of a run, so that a few large values next to each
    /// other, among many small ones, made a plan many times too large.
    #[test]
    fn a_plan_without_its_last_row_has_at_most_the_limit_of_text() {
        const TEXT: ColumnId = ColumnId(3);
        for seed in 0..300 {
            let mut random = Random(seed + 1);
            let mut expected: BTreeMap<(u32, i64), usize> = BTreeMap::new();
            let sources = (0..1 + random.below(4)).map(|_| {
                let mut time = 0;
                let mut texts = Vec::new();
                let times = (0..60).map(|_| {
                    time += 1 + random.below(2) as i64;
                    let is_large = random.below(6) == 0;
                    texts
                        .push("x".repeat(random.below(if is_large { 2 * TEXT_BYTES_MAX as u64 } else { 12 }) as usize));
                    time
                });
                let times: Vec<i64> = times.collect();
                expected.extend(times.iter().zip(&texts).map(|(time, text)| ((0, *time), text.len())));
                let values: ArrayRef = Arc::new(arrow_array::StringArray::from(texts));
                let rows = Rows::new(vec![0; times.len()], times, Ops::All(Op::Replace), vec![(TEXT, values)]);
                Source::Rows(RowsSource::new(Arc::new(rows), Filter::all()).unwrap())
            });
            let mut merger = Merger::new(sources.collect(), Fold::Full);
            let (mut stats, mut seen) = (ScanStats::default(), Vec::new());
            while let Some(plan) = merger.next(25, &mut stats).unwrap() {
                let values = plan.column(TEXT, DataType::Text).unwrap().unwrap();
                let lengths: Vec<usize> = values.as_string::<i32>().iter().map(|text| text.unwrap().len()).collect();
                let bytes: usize = lengths.iter().sum();
                let most = TEXT_BYTES_MAX + lengths[lengths.len() - 1];
                assert!(bytes <= most, "seed {seed}: {bytes} in {} rows, at most {most}", plan.len());
                seen.extend(plan.times.iter().map(|time| (0, *time)).zip(lengths));
            }
            assert_eq!(seen, expected.into_iter().collect::<Vec<_>>(), "seed {seed}");
        }
    }

    #[test]
    fn rewritten_stretch_is_skipped_at_once() {
        let stretch = |series: u32, times: Range<i64>, op: &Op| -> Vec<Row> {
            times.map(|time| (series, time, op.clone(), 0.0)).collect()
        };
        let same = |times: Range<i64>| stretch(3, times, &Op::Replace);
        let with = |mut first: Vec<Row>, then: Vec<Row>| {
            first.extend(then);
            first
        };
        for (fold, older, newer, expected) in [
            (Fold::Full, same(0..16), same(0..16), 16),
            (Fold::Closed, same(0..16), same(0..16), 16),
            (Fold::Versions, same(0..16), same(0..16), 0),
            (Fold::None, same(0..16), same(0..16), 0),
            (Fold::Full, same(0..9), same(0..16), 9),
            (Fold::Full, same(0..16), with(same(0..9), same(10..12)), 9),
            (Fold::Full, same(0..16), with(same(0..7), stretch(4, 7..12, &Op::Replace)), 7),
            (Fold::Full, same(0..16), with(same(0..5), stretch(3, 5..16, &Op::Merge)), 5),
            (Fold::Full, same(0..16), stretch(3, 0..16, &Op::Keep), 0),
            (Fold::Full, stretch(3, 0..16, &Op::Keep), same(0..16), 16),
            (Fold::Full, same(0..16), same(1..16), 0),
        ] {
            let mut merger = Merger::new(vec![source(&older), source(&newer)], fold);
            let mut stats = ScanStats::default();
            merger.inputs.iter_mut().for_each(|input| _ = input.ready(&mut stats).unwrap());
            let Reverse((series, time, number)) = merger.heap.pop().unwrap();
            let skipped = merger.skip_replaced(number, (series, time), &mut stats);
            assert_eq!((skipped, stats.versions_dropped), (expected > 0, expected), "{older:?}\n{newer:?}");
        }
    }

    #[test]
    fn replaced_rows_are_counted_wherever_they_end() {
        for len in [1, 31, 32, 33, 64, 100] {
            let rows: Vec<Row> = (0..len).map(|at| ((at / 50) as u32, at, Op::Replace, 0.0)).collect();
            let run = |rows: &[Row]| {
                let mut run = source(rows).next(&mut ScanStats::default()).unwrap().unwrap();
                run.series = rows.iter().map(|row| row.0).collect();
                run.times = rows.iter().map(|row| row.1).collect();
                run.ops = match rows.iter().all(|row| row.2 == Op::Replace) {
                    true => Ops::All(Op::Replace),
                    false => Ops::Each {
                        list: vec![Op::Replace, Op::Merge],
                        of: rows.iter().map(|row| u8::from(row.2 != Op::Replace)).collect(),
                    },
                };
                run
            };
            let whole = run(&rows);
            for differs in 0..=rows.len() {
                for change in
                    [|row: &mut Row| row.0 += 1, |row: &mut Row| row.1 += 1, |row: &mut Row| row.2 = Op::Merge]
                {
                    let mut other = rows.clone();
                    other.get_mut(differs).into_iter().for_each(change);
                    assert_eq!(replaced_rows((&whole, 0), (&run(&other), 0)), differs, "of {len}");
                }
            }
        }
    }
}
