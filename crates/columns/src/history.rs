//! Time travel: for tables with history, the time at which each row version was written and
//! deleted.
//!
//! In such a table, merges do not fold versions, and a delete marks rows instead of removing them.
//! Both times are wall times of commits, in whole microseconds since 1970 UTC, in two hidden
//! columns: [`WRITTEN_AT`] and [`DELETED_AT`]. A reader at time T sees the versions with
//! `WRITTEN_AT <= T` and not `DELETED_AT <= T`, folded as usual.
//!
//! Always true: a segment that has [`DELETED_AT`] has [`WRITTEN_AT`]; a version without
//! `WRITTEN_AT` is older than the history and was visible throughout it; a deleted version is older
//! than the commit that deleted it.
//!
//! Not here: the start of the history (`state`), times of commits (`engine`). Why commit times, and
//! not LSNs: docs/decisions/0011-history.md

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array};
use model::{ColumnId, DataType, TimeRange};

use crate::deletes::DeleteFilter;
use crate::rows::Rows;
use crate::segment::BlockRows;

/// Commit time at which a version was written, in microseconds; NULL if it is older than the
/// history.
pub const WRITTEN_AT: ColumnId = ColumnId(u32::MAX - 2);
/// Commit time at which it was deleted, in microseconds; NULL if it was not.
pub const DELETED_AT: ColumnId = ColumnId(u32::MAX - 1);
/// Type of both columns.
pub(crate) const TYPE: DataType = DataType::Int64;

/// Whether the column is [`WRITTEN_AT`] or [`DELETED_AT`].
pub(crate) fn is_history_column(id: ColumnId) -> bool {
    id == WRITTEN_AT || id == DELETED_AT
}

/// The row versions that a source returns.
#[derive(Clone, Debug)]
pub(crate) enum Versions {
    /// Versions visible at this commit time, in nanoseconds since 1970 UTC; [`NOW`] for the current
    /// ones.
    At(i64),
    /// All versions; those that these deletes hide get a [`DELETED_AT`] time.
    All(DeleteFilter),
}

/// The read time that sees every commit.
pub(crate) const NOW: i64 = i64::MAX;

impl Versions {
    /// The history columns that decide visibility.
    pub(crate) fn history_columns(&self) -> &'static [ColumnId] {
        match self {
            Versions::At(NOW) => &[DELETED_AT],
            Versions::At(_) => &[WRITTEN_AT, DELETED_AT],
            Versions::All(_) => &[],
        }
    }
}

/// A commit time in microseconds. Commit times are whole microseconds, so two commits stay
/// distinct. An unknown commit time (negative) becomes 0, which is before any history.
fn micros(ns: i64) -> i64 {
    ns.div_euclid(1_000).max(0)
}

/// Visibility of row versions at one time.
pub(crate) struct VersionLifetimes {
    written_at: Option<ArrayRef>,
    deleted_at: Option<ArrayRef>,
    time: i64,
}

impl VersionLifetimes {
    /// Visibility, at `time`, of rows with these columns; `None` when all are visible.
    pub(crate) fn of(columns: &[(ColumnId, ArrayRef)], time: i64) -> Option<VersionLifetimes> {
        let column = |id: ColumnId| columns.iter().find(|column| column.0 == id).map(|column| Arc::clone(&column.1));
        let written_at = if time == NOW { None } else { column(WRITTEN_AT) };
        let deleted_at = column(DELETED_AT);
        (written_at.is_some() || deleted_at.is_some()).then(|| VersionLifetimes {
            written_at,
            deleted_at,
            time: micros(time),
        })
    }

    /// Like [`VersionLifetimes::of`], for rows of the memtable.
    pub(crate) fn of_rows(rows: &Rows, time: i64) -> Option<VersionLifetimes> {
        let columns = [WRITTEN_AT, DELETED_AT].into_iter().filter_map(|id| Some((id, rows.column(id)?)));
        if rows.has(WRITTEN_AT) { VersionLifetimes::of(&columns.collect::<Vec<_>>(), time) } else { None }
    }

    /// Whether the version in this row was visible.
    pub(crate) fn is_visible(&self, row: usize) -> bool {
        let by_then = |moments: &Option<ArrayRef>| {
            let moments = moments.as_ref()?.as_primitive::<Int64Type>();
            moments.is_valid(row).then(|| moments.value(row) <= self.time)
        };
        by_then(&self.written_at).unwrap_or(true) && !by_then(&self.deleted_at).unwrap_or(false)
    }
}

/// Adds [`WRITTEN_AT`], and [`DELETED_AT`] for rows that one of `deletes` hides, to rows of the
/// memtable. All `deletes` are newer than the rows; the earliest one counts.
pub(crate) fn with_history_columns(rows: &Rows, committed: i64, deletes: &DeleteFilter) -> Arc<Rows> {
    let mut columns = rows.columns().into_owned();
    let old = columns.pop_if(|(id, _)| *id == DELETED_AT);
    assert!(old.is_none() || rows.has(WRITTEN_AT), "BUG: rows that were deleted, and have no time of writing");
    if !rows.has(WRITTEN_AT) {
        columns.push((WRITTEN_AT, Arc::new(Int64Array::from_value(micros(committed), rows.len()))));
    }
    columns.extend(deletion_times(old, &rows.series, &rows.times, deletes));
    Arc::new(Rows::new(rows.series.clone(), rows.times.clone(), rows.ops.clone(), columns))
}

/// Adds [`DELETED_AT`] to the rows of a block that `deletes`, all newer, hide.
pub(crate) fn mark_block(rows: &mut BlockRows, deletes: &DeleteFilter) {
    if deletes.is_empty() {
        return;
    }
    let old = rows.columns.pop_if(|(id, _)| *id == DELETED_AT);
    rows.columns.extend(deletion_times(old, &rows.series, &rows.times, deletes));
}

/// The new [`DELETED_AT`] column, if any row is deleted. A row keeps the earliest time at which it
/// was deleted.
fn deletion_times(
    old: Option<(ColumnId, ArrayRef)>,
    series: &[u32],
    times: &[i64],
    deletes: &DeleteFilter,
) -> Option<(ColumnId, ArrayRef)> {
    if deletes.is_empty() {
        return old;
    }
    let mut deleted_at: Vec<Option<i64>> = match &old {
        Some((_, values)) => values.as_primitive::<Int64Type>().iter().collect(),
        None => vec![None; times.len()],
    };
    let mut is_new = false;
    for (row, deleted_at) in deleted_at.iter_mut().enumerate() {
        let time = TimeRange { start: times[row], last: times[row] };
        deletes.spans_of(series[row], &time, |_, committed| {
            let moment = micros(committed);
            if deleted_at.is_none_or(|deleted_at| deleted_at > moment) {
                *deleted_at = Some(moment);
                is_new = true;
            }
        });
    }
    if is_new { Some((DELETED_AT, Arc::new(Int64Array::from(deleted_at)))) } else { old }
}
