//! Memtable entries merged among themselves, so that a reader meets few of them under millions of small commits.
//!
//! A merge takes a window of neighbours none of which is more than a quarter of it, so a row is copied at most about
//! log4([`ROWS_MAX`]) times. Deletes stay where they are: what comes before one is not merged with what comes after.

use std::ops::Range;
use std::sync::Arc;

use model::{ColumnId, DataType, Lsn, Result, Table};

use crate::chunk::{RowsSource, Source};
use crate::filter::Filter;
use crate::history::{self, with_moments};
use crate::merge::{Fold, Merger};
use crate::plan::Plan;
use crate::rows::Rows;
use crate::scan::ScanStats;
use crate::state::{Entry, TableState};

/// Fewest entries worth merging.
const ENTRIES_MIN: usize = 8;
/// A merge ends with at most this many rows ...
const ROWS_MAX: usize = 1 << 16;
/// ... and about this many bytes.
const BYTES_MAX: usize = 32 << 20;
/// Windows are sought among small entries first: each tier is entries below so many rows.
const TIERS: [usize; 5] = [8, 64, 512, 4_096, ROWS_MAX / 2];
/// Distinct operations that merged rows may have: they are numbered by a byte.
const OPS_MAX: usize = 256;

/// A finished merge of memtable entries.
pub struct Consolidated {
    inputs: Vec<Arc<Rows>>,
    lsns: (Lsn, Lsn),
    committed: i64,
    outputs: Vec<Arc<Rows>>,
}

impl Consolidated {
    /// How many entries it replaces.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.inputs.len()
    }
}

impl TableState {
    /// Merges small neighbouring row entries into one sorted entry, where that is due, never touching entries with a
    /// commit at or below `barrier` (a flush is writing them). `None` when nothing is due.
    ///
    /// Call it on a *durable* state: then no merged entry spans the LSN of a later flush, which also takes a durable
    /// state. The work is done here; [`TableState::with_consolidated`] installs it into a newer state.
    #[must_use]
    pub fn consolidate(&self, barrier: Lsn) -> Option<Consolidated> {
        let window = due(&self.entries, barrier)?;
        let mut lsns = (Lsn(u64::MAX), Lsn::ZERO);
        let (mut inputs, mut dated) = (Vec::with_capacity(window.len()), Vec::new());
        let committed = self.entries[window.clone()].last()?.committed();
        for entry in &self.entries[window] {
            let Entry::Rows { lsns: own, committed, rows } = entry else { return None };
            lsns = (lsns.0.min(own.0), lsns.1.max(own.1));
            inputs.push(rows.clone());
            if self.keeps_history() {
                dated.push(with_moments(rows, *committed, &[]));
            }
        }
        // Memory cannot fail to be read; were it to, the entries would simply stay as they are.
        let outputs =
            if self.keeps_history() { merge_versions(&self.table, &dated) } else { merge_rows(&self.table, &inputs) };
        let outputs = outputs.ok()?;
        Some(Consolidated { inputs, lsns, committed, outputs })
    }

    /// Replaces the entries that `done` was made of, if they are still there.
    #[must_use]
    pub fn with_consolidated(&self, done: &Consolidated) -> Option<TableState> {
        let is =
            |entry: &Entry, input: &Arc<Rows>| matches!(entry, Entry::Rows { rows, .. } if Arc::ptr_eq(rows, input));
        let first = self.entries.iter().position(|entry| is(entry, &done.inputs[0]))?;
        let window = first..first + done.inputs.len();
        let here = self.entries.get(window.clone())?;
        if !here.iter().zip(&done.inputs).all(|(entry, input)| is(entry, input)) {
            return None;
        }
        let Consolidated { lsns, committed, .. } = *done;
        let merged = done.outputs.iter().map(|rows| Entry::Rows { lsns, committed, rows: rows.clone() });
        let before = self.entries[..window.start].iter().cloned();
        let entries = before.chain(merged).chain(self.entries[window.end..].iter().cloned()).collect();
        Some(TableState { entries, ..self.clone() })
    }
}

/// The rows of entries, oldest first, as one sorted run (in several pieces where values are large), folded as far as it
/// goes.
pub(crate) fn merge_rows(table: &Table, inputs: &[Arc<Rows>]) -> Result<Vec<Arc<Rows>>> {
    merge(inputs, if table.keyed { Fold::Closed } else { Fold::None }, &fields(table))
}

/// The same of rows that know when they were written, all of which stay.
fn merge_versions(table: &Table, inputs: &[Arc<Rows>]) -> Result<Vec<Arc<Rows>>> {
    let mut columns = fields(table);
    columns.push((history::BORN, history::TYPE));
    merge(inputs, Fold::Versions, &columns)
}

fn fields(table: &Table) -> Vec<(ColumnId, DataType)> {
    table.field_columns().map(|column| (column.id, column.ty)).collect()
}

fn merge(inputs: &[Arc<Rows>], fold: Fold, columns: &[(ColumnId, DataType)]) -> Result<Vec<Arc<Rows>>> {
    let sources = inputs.iter().filter_map(|rows| RowsSource::new(rows.clone(), Filter::all()));
    let mut merger = Merger::new(sources.map(Source::Rows).collect(), fold);
    let mut stats = ScanStats::default();
    let mut outputs = Vec::new();
    while let Some(plan) = merger.next(ROWS_MAX, &mut stats)? {
        rows_of(&plan, columns, &mut outputs)?;
    }
    Ok(outputs)
}

fn rows_of(plan: &Plan, columns: &[(ColumnId, DataType)], outputs: &mut Vec<Arc<Rows>>) -> Result<()> {
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
        outputs.push(Arc::new(Rows::new(series, times, ops, columns.collect())));
        from += rows;
    }
    Ok(())
}

/// The window of entries to merge next. Asked after every commit, so it looks at row counts first.
fn due(entries: &[Entry], barrier: Lsn) -> Option<Range<usize>> {
    TIERS.iter().find_map(|tier| {
        let mut from = 0;
        while from < entries.len() {
            let run = entries[from..].iter().take_while(|entry| mergeable(entry, barrier, *tier).is_some()).count();
            if run >= ENTRIES_MIN
                && let Some(window) = window(&entries[from..from + run])
            {
                return Some(from + window.start..from + window.end);
            }
            from += run + 1;
        }
        None
    })
}

/// The rows of an entry below `tier` of them that nobody is flushing.
fn mergeable(entry: &Entry, barrier: Lsn, tier: usize) -> Option<&Rows> {
    match entry {
        Entry::Rows { lsns, rows, .. } if lsns.0 > barrier && rows.len() < tier => Some(rows),
        _ => None,
    }
}

/// The first entries of the run that are worth merging, as many as one merge takes.
fn window(run: &[Entry]) -> Option<Range<usize>> {
    let mut start = 0;
    let (mut rows_sum, mut bytes_sum, mut ops_sum, mut largest) = (0, 0, 0, 0);
    for (at, entry) in run.iter().enumerate() {
        let Entry::Rows { rows, .. } = entry else { return None };
        let (bytes, ops) = (rows.memory_bytes(), rows.ops.list().len());
        let fits = rows_sum + rows.len() <= ROWS_MAX && bytes_sum + bytes <= BYTES_MAX && ops_sum + ops <= OPS_MAX;
        if !fits {
            if at - start >= ENTRIES_MIN && largest * 4 <= rows_sum {
                return Some(start..at);
            }
            // An entry of few but large rows is large enough.
            (start, rows_sum, bytes_sum, ops_sum, largest) = (at, 0, 0, 0, 0);
        }
        if bytes > BYTES_MAX / 2 {
            (start, rows_sum, bytes_sum, ops_sum, largest) = (at + 1, 0, 0, 0, 0);
            continue;
        }
        (rows_sum, bytes_sum, ops_sum) = (rows_sum + rows.len(), bytes_sum + bytes, ops_sum + ops);
        largest = largest.max(rows.len());
    }
    (run.len() - start >= ENTRIES_MIN && largest * 4 <= rows_sum).then_some(start..run.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{Op, Ops};
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
            while let Some(done) = state.consolidate(Lsn::ZERO) {
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

    #[test]
    fn deletes_and_the_barrier_are_never_merged_across() {
        let delete = || Tombstone { lsn: Lsn(7), committed: 7, series: None, times: TimeRange::ALL };
        let mut state = TableState::empty(table(true));
        for lsn in 1..=7 {
            state = state.with_rows(Lsn(lsn), one_row(lsn as i64), 1);
        }
        state = state.with_delete(delete());
        for lsn in 8..=14 {
            state = state.with_rows(Lsn(lsn), one_row(lsn as i64), 1);
        }
        assert!(state.consolidate(Lsn::ZERO).is_none(), "seven on each side of a delete");
        let state = state.with_rows(Lsn(15), one_row(15), 1);
        assert!(state.consolidate(Lsn(8)).is_none(), "the first of eight is being flushed");
        let done = state.consolidate(Lsn::ZERO).unwrap();
        assert_eq!(done.inputs(), 8);
        let merged = state.with_consolidated(&done).unwrap();
        assert_eq!(merged.entries.len(), 9);
        assert!(merged.with_consolidated(&done).is_none(), "a second time");
    }
}
