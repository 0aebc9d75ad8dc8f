//! Sorted sources to one sorted stream, versions of a row folded.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;

use model::{ColumnId, Result};

use crate::chunk::{Chunk, Source};
use crate::filter::gallop;
use crate::plan::Plan;
use crate::rows::Op;
use crate::scan::ScanStats;

/// A plan is closed early when its text and bytes reach this, so that large values bound a batch before its row count
/// does.
const TEXT_BYTES_MAX: usize = if cfg!(test) { 1 << 10 } else { 16 << 20 };

/// What becomes of versions of the same (series, time).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fold {
    /// All stay: the table keeps duplicates.
    None,
    /// All stay, with their operations: the table keeps its history.
    Versions,
    /// Only what no older version can change is folded; the operations stay.
    Closed,
    /// No older version exists: one row is left of each, and it stands for itself.
    Full,
}

/// Merges sources, given oldest first.
pub(crate) struct Merger {
    inputs: Vec<Input>,
    /// (series, time) that an input's next row is not below, and the input's number.
    heap: BinaryHeap<Reverse<(u32, i64, u32)>>,
    fold: Fold,
    /// Versions of `group_key` found so far, oldest first: (chunk of the plan, position).
    group: Vec<(u32, usize)>,
    group_key: (u32, i64),
    /// A plan of a single series that has so many rows ends with it.
    pub(crate) series_rows: usize,
    /// A plan of so many rows ends with a chunk, so that its columns are slices of one and not copies of two.
    pub(crate) chunk_rows: usize,
}

struct Input {
    source: Source,
    chunk: Option<Arc<Chunk>>,
    /// Next position of the chunk.
    at: usize,
    /// The chunk's number in the present plan.
    slot: Option<u32>,
}

impl Merger {
    pub(crate) fn new(sources: Vec<Source>, fold: Fold) -> Merger {
        let inputs: Vec<Input> =
            sources.into_iter().map(|source| Input { source, chunk: None, at: 0, slot: None }).collect();
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
            series_rows: usize::MAX,
            chunk_rows: usize::MAX,
        }
    }

    /// Rows that the sources go through at most, before any was taken.
    pub(crate) fn rows_max(&self) -> u64 {
        self.inputs.iter().map(|input| input.source.rows_max()).sum()
    }

    /// The next rows: at least `rows_max` unless the sources or a chunk end or values are large, more only where versions of the
    /// last row stay side by side. `None` at the end.
    pub(crate) fn next(&mut self, rows_max: usize, stats: &mut ScanStats) -> Result<Option<Plan>> {
        let mut plan = Plan::default();
        self.inputs.iter_mut().for_each(|input| input.slot = None);
        while let Some(Reverse((series, time, number))) = self.heap.peek().copied() {
            let rows = plan.len() + usize::from(!self.group.is_empty());
            let chunk_ends = rows >= self.chunk_rows && self.inputs[number as usize].chunk.is_none();
            let full = rows >= rows_max || plan.text_bytes > TEXT_BYTES_MAX || chunk_ends;
            // Versions of one row stay in one plan.
            if full && (self.group.is_empty() || self.group_key != (series, time)) {
                break;
            }
            if rows >= self.series_rows && self.is_all_of_another(&plan, series) {
                break;
            }
            self.heap.pop();
            let input = &mut self.inputs[number as usize];
            if input.ready(stats)? {
                self.take_run(number, rows_max.saturating_sub(rows), &mut plan, stats);
            }
            let input = &self.inputs[number as usize];
            if let Some((series, time)) = input.head() {
                self.heap.push(Reverse((series, time, number)));
            }
        }
        self.close_group(&mut plan, stats);
        Ok((!plan.is_empty()).then_some(plan))
    }

    /// Are all rows of a plan of one series, and is that another than this?
    fn is_all_of_another(&self, plan: &Plan, series: u32) -> bool {
        let last = if self.group.is_empty() { plan.series.last() } else { Some(&self.group_key.0) };
        let first = plan.series.first().or(last);
        last.is_some_and(|last| *last != series) && first == last
    }

    /// Takes the rows of an input that come before every other input's next, up to `budget`.
    fn take_run(&mut self, number: u32, budget: usize, plan: &mut Plan, stats: &mut ScanStats) {
        let input = &mut self.inputs[number as usize];
        let Some(chunk) = input.chunk.clone() else { return };
        let end = match self.heap.peek() {
            None => chunk.len(),
            Some(Reverse((series, time, other))) => {
                // Of equal keys the older input goes first.
                input.at + run_rows(&chunk, input.at, (*series, *time), number < *other)
            }
        };
        let text_rows = TEXT_BYTES_MAX.saturating_sub(plan.text_bytes) / chunk.text_bytes_per_row.max(1);
        let mut range = input.at..end.min(input.at + budget.min(text_rows).max(1));
        if range.is_empty() {
            return;
        }
        // The rows of the next series may be another plan's.
        let series = chunk.series[range.start];
        let is_alone = plan.series.first().is_none_or(|first| *first == series)
            && (self.group.is_empty() || self.group_key.0 == series);
        if self.series_rows < usize::MAX && is_alone {
            let rows = gallop(&chunk.series[range.clone()], |other| *other == series);
            if plan.len() + usize::from(!self.group.is_empty()) + rows >= self.series_rows {
                range.end = range.start + rows;
            }
        }
        let slot = *input.slot.get_or_insert_with(|| plan.add_chunk(chunk.clone()));
        input.at = range.end;
        if input.at == chunk.len() {
            (input.chunk, input.slot) = (None, None);
        }
        match self.fold {
            Fold::None => plan.push_range(slot, range),
            Fold::Versions => {
                plan.push_range(slot, range.clone());
                plan.push_ops(&chunk.ops, range);
            }
            _ if chunk.unique => self.take_unique(&chunk, slot, range, plan, stats),
            _ => range.for_each(|at| self.take_version(&chunk, slot, at, plan, stats)),
        }
    }

    /// Between the first and the last row of a run without duplicates nothing needs folding.
    fn take_unique(&mut self, chunk: &Chunk, slot: u32, range: Range<usize>, plan: &mut Plan, stats: &mut ScanStats) {
        self.take_version(chunk, slot, range.start, plan, stats);
        if range.len() == 1 {
            return;
        }
        self.close_group(plan, stats);
        let inner = range.start + 1..range.end - 1;
        if !inner.is_empty() {
            plan.push_range(slot, inner.clone());
            if self.fold == Fold::Closed {
                plan.push_ops(&chunk.ops, inner);
            }
        }
        self.take_version(chunk, slot, range.end - 1, plan, stats);
    }

    fn take_version(&mut self, chunk: &Chunk, slot: u32, at: usize, plan: &mut Plan, stats: &mut ScanStats) {
        if chunk.key(at) != self.group_key {
            self.close_group(plan, stats);
            self.group_key = chunk.key(at);
        }
        match chunk.ops.get(at) {
            Op::Replace => {
                stats.versions_dropped += self.group.len() as u64;
                self.group.clear();
            }
            // Whatever came before it leaves a row behind.
            Op::Keep if !self.group.is_empty() => {
                stats.versions_dropped += 1;
                return;
            }
            _ => {}
        }
        self.group.push((slot, at));
    }

    fn close_group(&mut self, plan: &mut Plan, stats: &mut ScanStats) {
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
    }
}

impl Input {
    /// Is there a row to look at? Reads the next chunk if need be; false when that held none.
    fn ready(&mut self, stats: &mut ScanStats) -> Result<bool> {
        if self.chunk.is_none() {
            self.chunk = self.source.next(stats)?.filter(|chunk| chunk.len() > 0).map(Arc::new);
            (self.at, self.slot) = (0, None);
            // What was promised was a bound; the first row may come after another input's.
            return Ok(false);
        }
        Ok(true)
    }

    fn head(&self) -> Option<(u32, i64)> {
        match &self.chunk {
            Some(chunk) => Some(chunk.key(self.at)),
            None => self.source.bound(),
        }
    }
}

/// How many rows of `chunk` from `from` on come before `bound`, or with it when `through`.
fn run_rows(chunk: &Chunk, from: usize, bound: (u32, i64), through: bool) -> usize {
    let series = &chunk.series[from..];
    let below = gallop(series, |series| *series < bound.0);
    let same = gallop(&series[below..], |series| *series == bound.0);
    let times = &chunk.times[from + below..from + below + same];
    below + gallop(times, |time| *time < bound.1 || (through && *time == bound.1))
}

/// One row: the first version whatever it does, and on top of it what each later one brings.
fn fold_full(group: &[(u32, usize)], plan: &mut Plan) {
    let (first, later) = (group[0], &group[1..]);
    plan.push_range(first.0, first.1..first.1 + 1);
    for (slot, at) in later {
        match plan.chunks[*slot as usize].ops.get(*at).clone() {
            Op::Merge => plan.push_overlay(*slot, *at, None),
            Op::Update(columns) => plan.push_overlay(*slot, *at, Some(columns)),
            Op::Replace | Op::Keep => {}
        }
    }
}

/// As few rows as can be without knowing what is older, oldest first.
fn fold_closed(group: &[(u32, usize)], plan: &mut Plan) {
    let mut last: Option<Op> = None;
    for (slot, at) in group {
        let op = plan.chunks[*slot as usize].ops.get(*at).clone();
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

/// What a version with `newer` laid over one with `older` does as one, whatever is below; `None` where that depends on
/// it. (`Replace` and `Keep` as the newer one are settled before.)
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
