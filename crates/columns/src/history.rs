//! Tables as they were: when each version of a row was written and when it was deleted, kept beside its fields.
//!
//! Where a table keeps its history, versions are not folded when they are merged, and a delete marks rows where it would
//! drop them otherwise. Both moments are commits' wall times, whole microseconds since 1970 UTC, in two columns that no
//! table has: [`BORN`] and [`GONE`]. A reader of time T sees the versions that were born by then and not gone by then,
//! folded as always.
//!
//! Always true: a segment with the second column has the first; a version without a time of birth is older than the history, and there at every moment of it; one that
//! is gone is older than what made it go.
//!
//! Not here: when the history begins (`state`), the times of commits (`engine`). Why commit times, and not LSNs:
//! docs/decisions/0011-history.md

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array};
use model::{ColumnId, DataType, TimeRange};

use crate::deletes::DeleteFilter;
use crate::rows::Rows;
use crate::segment::BlockRows;

/// When a version was written; NULL where that is older than the history.
pub const BORN: ColumnId = ColumnId(u32::MAX - 2);
/// When it was deleted; NULL where it is not.
pub const GONE: ColumnId = ColumnId(u32::MAX - 1);
/// The type of both.
pub(crate) const TYPE: DataType = DataType::Int64;

/// Is it one of the two?
pub(crate) fn is_history_column(id: ColumnId) -> bool {
    id == BORN || id == GONE
}

/// Which versions of rows are wanted.
#[derive(Clone, Debug)]
pub(crate) enum Versions {
    /// Those that were there at this time of a commit, nanoseconds since 1970 UTC; [`NOW`] for those that are there.
    At(i64),
    /// All, and these deletes marked.
    All(DeleteFilter),
}

/// The time of whoever sees all that was committed.
pub(crate) const NOW: i64 = i64::MAX;

impl Versions {
    /// The columns that say whether a version is wanted.
    pub(crate) fn moments(&self) -> &'static [ColumnId] {
        match self {
            Versions::At(NOW) => &[GONE],
            Versions::At(_) => &[BORN, GONE],
            Versions::All(_) => &[],
        }
    }
}

/// Microseconds of a commit's time. Commits are whole microseconds, so that nothing is lost between two of them. One
/// whose time was not written down is older than any history.
fn micros(ns: i64) -> i64 {
    ns.div_euclid(1_000).max(0)
}

/// When the versions of some rows were there.
pub(crate) struct VersionLifetimes {
    born: Option<ArrayRef>,
    gone: Option<ArrayRef>,
    time: i64,
}

impl VersionLifetimes {
    /// Of rows with these columns, for a reader at `time`; `None` when all were there.
    pub(crate) fn of(columns: &[(ColumnId, ArrayRef)], time: i64) -> Option<VersionLifetimes> {
        let column = |id: ColumnId| columns.iter().find(|column| column.0 == id).map(|column| Arc::clone(&column.1));
        let born = if time == NOW { None } else { column(BORN) };
        let gone = column(GONE);
        (born.is_some() || gone.is_some()).then(|| VersionLifetimes { born, gone, time: micros(time) })
    }

    /// The same of rows of the memtable.
    pub(crate) fn of_rows(rows: &Rows, time: i64) -> Option<VersionLifetimes> {
        let columns = [BORN, GONE].into_iter().filter_map(|id| Some((id, rows.column(id)?)));
        if rows.has(BORN) { VersionLifetimes::of(&columns.collect::<Vec<_>>(), time) } else { None }
    }

    /// Was the version of this row there?
    pub(crate) fn is_visible(&self, row: usize) -> bool {
        let by_then = |moments: &Option<ArrayRef>| {
            let moments = moments.as_ref()?.as_primitive::<Int64Type>();
            moments.is_valid(row).then(|| moments.value(row) <= self.time)
        };
        by_then(&self.born).unwrap_or(true) && !by_then(&self.gone).unwrap_or(false)
    }
}

/// Rows of the memtable with when they were written, and when the first of `deletes`, all newer, hid them.
pub(crate) fn with_history_columns(rows: &Rows, committed: i64, deletes: &DeleteFilter) -> Arc<Rows> {
    let mut columns = rows.columns().into_owned();
    let old = columns.pop_if(|(id, _)| *id == GONE);
    if !rows.has(BORN) {
        columns.push((BORN, Arc::new(Int64Array::from_value(micros(committed), rows.len()))));
    }
    columns.extend(marked(old, &rows.series, &rows.times, deletes));
    Arc::new(Rows::new(rows.series.clone(), rows.times.clone(), rows.ops.clone(), columns))
}

/// Marks what `deletes`, all newer, hide of a block's rows.
pub(crate) fn mark_block(rows: &mut BlockRows, deletes: &DeleteFilter) {
    if deletes.is_empty() {
        return;
    }
    let old = rows.columns.pop_if(|(id, _)| *id == GONE);
    rows.columns.extend(marked(old, &rows.series, &rows.times, deletes));
}

/// The column of when rows were deleted, if one was: a row that was deleted before stays so since then.
fn marked(
    old: Option<(ColumnId, ArrayRef)>,
    series: &[u32],
    times: &[i64],
    deletes: &DeleteFilter,
) -> Option<(ColumnId, ArrayRef)> {
    if deletes.is_empty() {
        return old;
    }
    let mut gone: Vec<Option<i64>> = match &old {
        Some((_, values)) => values.as_primitive::<Int64Type>().iter().collect(),
        None => vec![None; times.len()],
    };
    let mut is_new = false;
    for (row, gone) in gone.iter_mut().enumerate() {
        let time = TimeRange { start: times[row], last: times[row] };
        deletes.spans_of(series[row], &time, |_, committed| {
            let moment = micros(committed);
            if gone.is_none_or(|gone| gone > moment) {
                *gone = Some(moment);
                is_new = true;
            }
        });
    }
    if is_new { Some((GONE, Arc::new(Int64Array::from(gone)))) } else { old }
}
