//! Memtable compaction ("consolidation"): merges entries, so that readers find few of them after
//! millions of small commits.
//!
//! A merge takes a window of neighbouring entries, rows and deletes, none of which has more than a
//! quarter of the window's rows. The result is one entry of deletes, followed by the rows that they
//! did not hide. (Snapshots keep the old entries.) Delete spans that cannot hide anything older are
//! dropped.
//!
//! # Cost
//! For `n` commits of one row or delete each: a row or span is copied at most about
//! log4([`ROWS_MIN`]) times, and `O(log n)` entries remain. Finding the next window visits each
//! entry a few times. Whoever writes large batches pays for larger merges: a flush reads a few long
//! stretches of rows of each series faster than many short ones, and a writer of single rows does
//! not wait for the copies. The entries of a large merge have the same columns: a result with the
//! columns of all would be several times as large as they.

use std::ops::Range;
use std::sync::Arc;

use model::{ColumnId, DataType, Lsn, Result, Table, TimeRange};

use crate::deletes::{Deletes, work};
use crate::filter::Filter;
use crate::flush::{any_within, entry_rows, sources_within};
use crate::history;
use crate::merge::{Fold, Merger};
use crate::merge_plan::MergePlan;
use crate::rows::{Op, Rows};
use crate::scan::ScanStats;
use crate::sorted_run::{RowsSource, Source};
use crate::state::{Entries, Entry, TableState};

/// Fewest entries of a merge.
const ENTRIES_MIN: usize = 8;
/// Most rows and delete spans of a merge after a small commit.
const ROWS_MIN: usize = 1 << 16;
/// Most rows and delete spans of a merge after a commit of many rows.
const ROWS_MAX: usize = 1 << 19;
/// A merge has at most this many times the rows of the commit that pays for it, or [`ROWS_MIN`].
const ROWS_OF_COMMIT: usize = 16;
/// Most bytes of a merge, approximately.
const BYTES_MAX: usize = 32 << 20;
/// Windows are searched among small entries first: a tier is the entries with fewer rows and spans
/// than this.
const TIERS: [usize; 6] = [8, 64, 512, 4_096, ROWS_MIN / 2, ROWS_MAX / 2];
/// Most distinct `Update` operations of a merge: operations are numbered by a byte, and three need
/// no columns.
const OPS_MAX: usize = 256 - 3;

/// A finished merge of memtable entries, to be installed by [`TableState::with_consolidated`].
pub struct Consolidated {
    inputs: Vec<Entry>,
    outputs: Vec<Entry>,
}

impl Consolidated {
    /// Number of entries that it replaces.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.inputs.len()
    }
}

impl TableState {
    /// Merges small neighbouring entries into one entry of deletes and one of sorted rows, if a
    /// merge is due; `None` otherwise. Entries with a commit at or below `barrier` are left alone:
    /// a flush is writing them. `committed_rows` are those of the commit that pays for the merge.
    ///
    /// Must be called on a *durable* state: then no merged entry spans the LSN of a later flush,
    /// which uses a durable state too. [`TableState::with_consolidated`] installs the result into a
    /// newer state.
    #[must_use]
    pub fn consolidate(&self, barrier: Lsn, committed_rows: usize) -> Option<Consolidated> {
        if self.entries.len() < ENTRIES_MIN {
            return None;
        }
        let entries: Vec<&Entry> = self.entries.iter().collect();
        work::touch(entries.len());
        let rows_max = committed_rows.saturating_mul(ROWS_OF_COMMIT).clamp(ROWS_MIN, ROWS_MAX);
        let window = due_window(&entries, barrier, rows_max)?;
        let first = entries[window.start].first_lsn();
        assert!(first > barrier, "BUG: the entry of commit {first} would be merged while {barrier} is flushed");
        self.merge_window(&entries, window)
    }

    /// Merges a window of commits above `barrier`, whether or not it is due.
    #[cfg(test)]
    pub(crate) fn consolidate_any(&self, barrier: Lsn, start: usize, len: usize) -> Option<Consolidated> {
        let entries: Vec<&Entry> = self.entries.iter().collect();
        let above = entries.iter().take_while(|entry| entry.first_lsn() <= barrier).count();
        let window = (above + start).min(entries.len())..(above + start + len).min(entries.len());
        if window.is_empty() { None } else { self.merge_window(&entries, window) }
    }

    fn merge_window(&self, entries: &[&Entry], window: Range<usize>) -> Option<Consolidated> {
        let (older, merged) = (&entries[..window.start], &entries[window]);
        let first = merged.iter().map(|entry| entry.first_lsn()).min()?;
        let last = merged.iter().map(|entry| entry.last_lsn()).max()?;
        let committed = merged.iter().map(|entry| match entry {
            Entry::Rows { committed, .. } => *committed,
            Entry::Delete(deletes) => deletes.committed_last(),
        });
        let committed = committed.max()?;
        work::touch(merged.iter().map(|entry| entry.len()).sum());
        let keeps_history = self.keeps_history();
        let (rows, deletes) = entry_rows(merged.iter().copied(), keeps_history);
        let sources = sources_within(&rows, TimeRange::ALL);
        let mut outputs = Vec::new();
        if !deletes.is_empty() {
            let deletes = Deletes::merged(&deletes, keeps_history);
            let deletes = deletes.retained(|series, times| self.may_hold(older, series, times)).unwrap_or(deletes);
            outputs.extend((!deletes.is_empty()).then(|| Entry::Delete(Arc::new(deletes))));
        }
        // Reading from memory does not fail. If it did, the entries would stay unmerged.
        let rows = if keeps_history {
            merge_versions(&self.table, sources)
        } else {
            merge(sources, fold(&self.table), &fields(&self.table))
        };
        let rows = rows.ok()?;
        let read: usize =
            merged.iter().map(|entry| if let Entry::Rows { rows, .. } = entry { rows.len() } else { 0 }).sum();
        let written: usize = rows.iter().map(|rows| rows.len()).sum();
        assert!(written <= read, "BUG: entries of {} with {read} rows became {written}", self.table.name);
        let rows = rows.into_iter().map(|rows| Entry::Rows { lsns: (first, last), committed, rows });
        outputs.extend(rows);
        Some(Consolidated { inputs: merged.iter().copied().cloned().collect(), outputs })
    }

    /// Whether a segment or one of the entries `older` may hold a row of these series (`None`: all)
    /// within `times`.
    fn may_hold(&self, older: &[&Entry], series: Option<&[u32]>, times: &TimeRange) -> bool {
        let in_segments = self.segments.overlapping(times);
        in_segments.into_iter().any(|at| any_within(series, self.segments[at].meta().series))
            || older.iter().any(|entry| matches!(entry, Entry::Rows { rows, .. } if rows_may_hold(rows, series, times)))
    }

    /// Replaces the merged entries by the result; `None` if they are no longer in the memtable.
    #[must_use]
    pub fn with_consolidated(&self, done: &Consolidated) -> Option<TableState> {
        let first = self.entries.iter().position(|entry| entry.is(&done.inputs[0]))?;
        let mut here = self.entries.iter().skip(first);
        if !done.inputs.iter().all(|input| here.next().is_some_and(|entry| entry.is(input))) {
            return None;
        }
        let entries: Entries = self.entries.iter().take(first).chain(&done.outputs).chain(here).cloned().collect();
        let (new, expected) = (entries.len(), self.entries.len() - done.inputs.len() + done.outputs.len());
        assert!(new == expected, "BUG: {new} memtable entries of {}, expected {expected}", self.table.name);
        Some(TableState { entries, ..self.clone() })
    }
}

/// Whether a row of these series (`None`: all) may exist within `times`. For several series, only
/// the time range of all rows is compared.
fn rows_may_hold(rows: &Rows, series: Option<&[u32]>, times: &TimeRange) -> bool {
    if rows.is_empty() || !rows.order().times.overlaps(times) {
        return false;
    }
    match series {
        Some([series]) => {
            let at = rows.position(0, (*series, times.start));
            at < rows.len() && rows.key_at(at) <= (*series, times.last)
        }
        _ => any_within(series, (rows.key_at(0).0, rows.key_at(rows.len() - 1).0)),
    }
}

fn fold(table: &Table) -> Fold {
    if table.keyed { Fold::Closed } else { Fold::None }
}

/// Merges rows, given oldest first, into one sorted run (several if values are large) and folds
/// them as far as possible without older versions.
pub(crate) fn merge_rows(table: &Table, inputs: &[Arc<Rows>]) -> Result<Vec<Arc<Rows>>> {
    let sources = inputs.iter().filter_map(|rows| RowsSource::new(rows.clone(), Filter::all()));
    merge(sources.map(Source::Rows).collect(), fold(table), &fields(table))
}

/// Like [`merge_rows`], for rows with history columns: keeps all versions.
fn merge_versions(table: &Table, sources: Vec<Source>) -> Result<Vec<Arc<Rows>>> {
    let mut columns = fields(table);
    columns.extend([(history::WRITTEN_AT, history::TYPE), (history::DELETED_AT, history::TYPE)]);
    merge(sources, Fold::Versions, &columns)
}

fn fields(table: &Table) -> Vec<(ColumnId, DataType)> {
    table.field_columns().map(|column| (column.id, column.ty)).collect()
}

fn merge(sources: Vec<Source>, fold: Fold, columns: &[(ColumnId, DataType)]) -> Result<Vec<Arc<Rows>>> {
    let mut merger = Merger::new(sources, fold);
    let mut stats = ScanStats::default();
    let mut outputs = Vec::new();
    while let Some(plan) = merger.next(ROWS_MAX, &mut stats)? {
        rows_of(&plan, columns, &mut outputs)?;
    }
    Ok(outputs)
}

fn rows_of(plan: &MergePlan, columns: &[(ColumnId, DataType)], outputs: &mut Vec<Arc<Rows>>) -> Result<()> {
    let mut arrays = Vec::new();
    let mut sorted = columns.to_vec();
    sorted.sort_unstable_by_key(|column| column.0);
    for (id, ty) in sorted {
        arrays.extend(plan.column(id, ty)?.map(|values| (id, values)));
    }
    let mut from = 0;
    while from < plan.len() {
        let (ops, rows) = plan.ops(from..plan.len());
        let range = from..from + rows;
        let columns = arrays.iter().map(|(id, values)| (*id, values.slice(from, rows)));
        let (series, times) = (plan.series[range.clone()].to_vec(), plan.times[range].to_vec());
        assert!(rows > 0, "BUG: a memtable entry without rows at row {from} of {}", plan.len());
        outputs.push(Arc::new(Rows::new(series, times, ops, columns.collect())));
        from += rows;
    }
    Ok(())
}

/// The next window to merge. Called after every commit, therefore it compares row counts first.
fn due_window(entries: &[&Entry], barrier: Lsn, rows_max: usize) -> Option<Range<usize>> {
    TIERS.iter().filter(|tier| **tier < rows_max).find_map(|tier| {
        let mut from = 0;
        while from < entries.len() {
            let run = entries[from..].iter().take_while(|entry| is_mergeable(entry, barrier, *tier)).count();
            if run >= ENTRIES_MIN
                && let Some(window) = window(&entries[from..from + run], rows_max)
            {
                return Some(from + window.start..from + window.end);
            }
            from += run + 1;
        }
        None
    })
}

/// Whether the entry has fewer rows than `tier` and is not being flushed.
fn is_mergeable(entry: &Entry, barrier: Lsn, tier: usize) -> bool {
    entry.first_lsn() > barrier && entry.len() < tier
}

/// The first window of the run that is worth merging, as long as the limits of a merge allow.
fn window(run: &[&Entry], rows_max: usize) -> Option<Range<usize>> {
    let mut start = 0;
    let (mut rows_sum, mut bytes_sum, mut ops_sum, mut largest) = (0, 0, 0, 0);
    let mut columns = SameColumns::default();
    for (at, entry) in run.iter().enumerate() {
        let (rows, bytes) = (entry.len(), entry.memory_bytes());
        let ops = match entry {
            // Each of the three operations without columns occurs at most once in the merged list.
            Entry::Rows { rows, .. } => rows.ops.list().iter().filter(|op| matches!(op, Op::Update(_))).count(),
            Entry::Delete(_) => 0,
        };
        let rows_max = if columns.add(entry) { rows_max } else { ROWS_MIN };
        let fits = rows_sum + rows <= rows_max && bytes_sum + bytes <= BYTES_MAX && ops_sum + ops <= OPS_MAX;
        if !fits {
            if at - start >= ENTRIES_MIN && largest * 4 <= rows_sum {
                return Some(start..at);
            }
            // Entries of few but large rows are not merged.
            (start, rows_sum, bytes_sum, ops_sum, largest) = (at, 0, 0, 0, 0);
            columns = SameColumns::default();
            columns.add(entry);
        }
        if bytes > BYTES_MAX / 2 {
            (start, rows_sum, bytes_sum, ops_sum, largest) = (at + 1, 0, 0, 0, 0);
            columns = SameColumns::default();
            continue;
        }
        (rows_sum, bytes_sum, ops_sum) = (rows_sum + rows, bytes_sum + bytes, ops_sum + ops);
        largest = largest.max(rows);
    }
    (run.len() - start >= ENTRIES_MIN && largest * 4 <= rows_sum).then_some(start..run.len())
}

/// Whether the rows of a window's entries have the same columns.
#[derive(Default)]
struct SameColumns<'a> {
    first: Option<&'a Rows>,
    differ: bool,
}

impl<'a> SameColumns<'a> {
    /// Adds an entry; returns whether all are the same so far.
    fn add(&mut self, entry: &'a Entry) -> bool {
        if let Entry::Rows { rows, .. } = entry {
            let first = *self.first.get_or_insert(rows);
            self.differ |= !first.column_ids().eq(rows.column_ids());
        }
        !self.differ
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, Float64Array};

    use super::*;
    use crate::rows::Ops;
    use crate::state::Tombstone;
    use crate::tests::table;
    use model::TimeRange;

    fn one_row(time: i64) -> Arc<Rows> {
        Arc::new(Rows::new(vec![0], vec![time], Ops::All(Op::Replace), Vec::new()))
    }

    #[test]
    fn entries_stay_few_and_copies_cheap_under_many_small_commits() {
        let commits = 30_000u64;
        let mut state = TableState::empty(table(true));
        let (mut copied, mut entries_max) = (0, 0);
        for lsn in 1..=commits {
            state = state.with_rows(Lsn(lsn), one_row(lsn as i64), 1);
            while let Some(done) = state.consolidate(Lsn::ZERO, 1) {
                copied += done.outputs.iter().map(|rows| rows.len()).sum::<usize>();
                state = state.with_consolidated(&done).unwrap();
            }
            entries_max = entries_max.max(state.entries.len());
        }
        assert!(entries_max < 50, "{entries_max} entries");
        assert!(copied < 8 * commits as usize, "{copied} rows copied");
        let rows = state.entries.iter().map(|entry| match entry {
            Entry::Rows { rows, .. } => rows.len(),
            Entry::Delete(_) => 0,
        });
        assert_eq!(rows.sum::<usize>(), commits as usize);
    }

    fn delete(lsn: u64, series: Option<u32>, time: i64) -> Tombstone {
        let series = series.map(|series| [series].into());
        Tombstone { lsn: Lsn(lsn), committed: lsn as i64, series, times: TimeRange { start: time, last: time } }
    }

    fn rows_of(state: &TableState) -> usize {
        state.entries.iter().filter(|entry| matches!(entry, Entry::Rows { .. })).map(Entry::len).sum()
    }

    #[test]
    fn no_merge_crosses_the_barrier() {
        let mut state = TableState::empty(table(true));
        for lsn in 1..=7 {
            state = state.with_rows(Lsn(lsn), one_row(lsn as i64), 1);
        }
        assert!(state.consolidate(Lsn::ZERO, 1).is_none(), "seven");
        let state = state.with_rows(Lsn(8), one_row(8), 1);
        assert!(state.consolidate(Lsn(1), 1).is_none(), "the first of eight is being flushed");
        let done = state.consolidate(Lsn::ZERO, 1).unwrap();
        assert_eq!(done.inputs(), 8);
        let merged = state.with_consolidated(&done).unwrap();
        assert_eq!(merged.entries.len(), 1);
        assert!(merged.with_consolidated(&done).is_none(), "a second time");
    }

    #[test]
    fn rows_are_merged_across_deletes_and_spans_that_hide_nothing_older_are_dropped() {
        let mut state = TableState::empty(table(true));
        for lsn in 1..=4 {
            state = state.with_rows(Lsn(lsn), one_row(lsn as i64), 1);
        }
        state = state.with_delete(delete(5, Some(0), 2));
        for lsn in 6..=8 {
            state = state.with_rows(Lsn(lsn), one_row(lsn as i64), 1);
        }
        let merged = state.with_consolidated(&state.consolidate(Lsn::ZERO, 1).unwrap()).unwrap();
        assert_eq!((merged.entries.len(), rows_of(&merged)), (1, 6), "the row and its delete are dropped");
        // A later row at the same time, and a delete of an earlier one.
        let mut later = merged;
        for lsn in 9..=15 {
            later = later.with_rows(Lsn(lsn), one_row(lsn as i64), 1);
        }
        later = later.with_delete(delete(16, Some(0), 3));
        let merged = later.consolidate_any(Lsn(8), 0, 8).unwrap();
        let merged = later.with_consolidated(&merged).unwrap();
        assert_eq!((merged.entries.len(), rows_of(&merged)), (3, 13), "older rows, the delete, newer rows");
        assert_eq!(rows_of(&later), 13, "who reads by the state before still has it");
    }

    /// The bug: a scan gave every entry a copy of the list of all newer deletes, and no merge
    /// crossed a delete, so the cost of a statement grew with the square of the number of earlier
    /// deletes. The fix: deletes are merged and indexed.
    #[test]
    fn alternating_inserts_and_deletes_have_constant_cost() {
        let scan = |state: &TableState| {
            work::take();
            let view = crate::TableView::new(Arc::new(state.clone()));
            let rows: usize = view
                .scan(crate::ScanRequest::all(vec![ColumnId(1)]))
                .unwrap()
                .map(|batch| batch.unwrap().num_rows())
                .sum();
            (rows, work::take())
        };
        // Deleted rows are old ones, new ones, or the same ones again and again.
        for kind in 0..3 {
            let mut state = TableState::empty(table(true));
            let (rows, mut lsn) = (20_000i64, 1);
            let first = Rows::new(vec![0; 20_000], (0..rows).collect(), Ops::All(Op::Replace), Vec::new());
            state = state.with_rows(Lsn(1), Arc::new(first), 1);
            let (mut per_commit, mut per_scan) = (Vec::new(), Vec::new());
            for pair in 0..10_000i64 {
                work::take();
                let (insert, deleted) = match kind {
                    0 => (rows + pair, pair * 2),
                    1 => (rows + pair, rows + pair),
                    _ => (pair % 10, pair % 10),
                };
                state =
                    state.with_rows(Lsn(lsn + 1), one_row(insert), 1).with_delete(delete(lsn + 2, Some(0), deleted));
                lsn += 2;
                while let Some(done) = state.consolidate(Lsn::ZERO, 1) {
                    state = state.with_consolidated(&done).unwrap();
                }
                per_commit.push(work::take());
                if pair == 999 || pair == 9_999 {
                    let (found, touched) = scan(&state);
                    let deleted = if kind == 2 { 10 } else { 0 };
                    assert_eq!(found as i64, rows - deleted, "kind {kind}");
                    per_scan.push(touched);
                }
                assert!(state.entries.len() < 100, "{} entries", state.entries.len());
            }
            let (early, late): (usize, usize) = (per_commit[..1_000].iter().sum(), per_commit[9_000..].iter().sum());
            assert!(late < 3 * early, "kind {kind}: {early} and {late} for a thousand pairs");
            // Each span of existing rows is visited once; nothing else grows.
            let spans = if kind == 0 { 10_000 } else { 0 };
            assert!(per_scan[1] < 2 * per_scan[0] + spans + 200, "kind {kind}: {per_scan:?}");
        }
    }

    #[test]
    fn large_entries_are_merged_only_after_a_large_commit() {
        let each = ROWS_MIN as i64 * 3 / 4;
        let mut state = TableState::empty(table(true));
        for number in 0..8 {
            let times = (number * each..(number + 1) * each).collect();
            let rows = Rows::new(vec![0; each as usize], times, Ops::All(Op::Replace), Vec::new());
            state = state.with_rows(Lsn(number as u64 + 1), Arc::new(rows), 1);
        }
        assert!(state.consolidate(Lsn::ZERO, 1_000).is_none());
        let done = state.consolidate(Lsn::ZERO, each as usize).unwrap();
        assert_eq!((done.inputs(), done.outputs.len()), (8, 1));
        assert_eq!(done.outputs[0].len(), 8 * each as usize);
    }

    /// The bug: the result had the columns of all entries for each row, far beyond the bytes of a merge.
    #[test]
    fn large_entries_with_other_columns_are_not_merged() {
        let each = ROWS_MIN / 4;
        for (every, merges) in [(1, true), (2, false)] {
            let mut state = TableState::empty(table(true));
            for number in 0..8 {
                let times = (0..each as i64).map(|at| (number * each) as i64 + at).collect();
                let values: ArrayRef = Arc::new(Float64Array::from(vec![0.5; each]));
                let columns = (number % every == 0).then_some((ColumnId(2), values));
                let rows = Rows::new(vec![0; each], times, Ops::All(Op::Replace), columns.into_iter().collect());
                state = state.with_rows(Lsn(number as u64 + 1), Arc::new(rows), 1);
            }
            assert_eq!(state.consolidate(Lsn::ZERO, each).is_some(), merges, "one in {every} has the column");
        }
    }

    #[test]
    fn commits_stay_cheap_while_entries_pile_up_unmerged() {
        let mut state = TableState::empty(table(true));
        work::take();
        for lsn in 1..=20_000 {
            state = match lsn % 2 {
                0 => state.with_rows(Lsn(lsn), one_row(lsn as i64), 1),
                _ => state.with_delete(delete(lsn, None, lsn as i64)),
            };
        }
        let copied = work::take();
        assert!(copied < 20_000 * 40, "{copied} references copied");
        let done = state.consolidate(Lsn::ZERO, 1).unwrap();
        let touched = work::take();
        assert!(touched < 20_000 * 40, "{touched} rows and spans for one merge");
        let state = state.with_consolidated(&done).unwrap();
        assert!(state.entries.len() <= 2);
    }

    #[test]
    fn versions_of_the_same_few_rows_do_not_pile_up() {
        let mut state = TableState::empty(table(true));
        for lsn in 1..=20_000 {
            state = state.with_rows(Lsn(lsn), one_row(lsn as i64 % 5), 1);
            while let Some(done) = state.consolidate(Lsn::ZERO, 1) {
                state = state.with_consolidated(&done).unwrap();
            }
        }
        assert!(rows_of(&state) < 50, "{} versions of five rows", rows_of(&state));
    }
}
