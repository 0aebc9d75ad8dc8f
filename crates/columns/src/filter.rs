//! Row selection within a sorted run: by series, by time range and by deletes.

use std::ops::Range;

use model::TimeRange;

use crate::deletes::DeleteFilter;
use crate::history::{NOW, Versions};
use crate::scan::SeriesFilter;
use crate::state::Tombstone;

/// The selection criteria for one source.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub(crate) times: TimeRange,
    pub(crate) series: SeriesFilter,
    /// Deletes that are newer than the source.
    pub(crate) deletes: DeleteFilter,
    pub(crate) versions: Versions,
}

/// Selected positions of a sorted run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    All,
    Range(Range<usize>),
    List(Vec<u32>),
}

impl Selection {
    /// The range from the first to the last selected row, if it is at most half of the block's
    /// `rows`: decoding only that range pays off then.
    pub(crate) fn decode_range(&self, rows: usize) -> Option<Range<usize>> {
        let part = match self {
            Selection::All => return None,
            Selection::Range(range) => range.clone(),
            Selection::List(list) => match (list.first(), list.last()) {
                (Some(first), Some(last)) => *first as usize..*last as usize + 1,
                _ => 0..0,
            },
        };
        (part.len() * 2 <= rows).then_some(part)
    }

    /// Keeps the selected positions, of a run of `len`, that satisfy `keeps`. Returns the number
    /// dropped too.
    pub(crate) fn retain(self, len: usize, keeps: impl Fn(usize) -> bool) -> (Selection, u64) {
        let (kept, count) = match &self {
            Selection::All => (filter_positions(0..len, keeps), len),
            Selection::Range(range) => (filter_positions(range.clone(), keeps), range.len()),
            Selection::List(list) => (filter_positions(list.iter().map(|at| *at as usize), keeps), list.len()),
        };
        let dropped = (count - kept.len()) as u64;
        if dropped == 0 { (self, 0) } else { (Selection::List(kept), dropped) }
    }
}

fn filter_positions(positions: impl Iterator<Item = usize>, keeps: impl Fn(usize) -> bool) -> Vec<u32> {
    positions.filter(|at| keeps(*at)).map(|at| at as u32).collect()
}

impl SeriesFilter {
    /// The first selected series with a number of at least `series`.
    pub(crate) fn at_or_after(&self, series: u32) -> Option<u32> {
        match self {
            SeriesFilter::All => Some(series),
            SeriesFilter::Range(range) => Some(series.max(range.start)).filter(|series| *series < range.end),
            SeriesFilter::Only(list) => list.get(list.partition_point(|wanted| *wanted < series)).copied(),
        }
    }

    /// Whether any series of `first ..= last` is selected.
    pub(crate) fn any_in(&self, first: u32, last: u32) -> bool {
        self.at_or_after(first).is_some_and(|series| series <= last)
    }

    /// Number of selected series in `first ..= last`.
    pub(crate) fn count_in(&self, first: u32, last: u32) -> u64 {
        let end = u64::from(last) + 1;
        match self {
            SeriesFilter::All => end - u64::from(first),
            SeriesFilter::Range(range) => end.min(range.end.into()).saturating_sub(first.max(range.start).into()),
            SeriesFilter::Only(list) => {
                let below = |number: u64| list.partition_point(|series| u64::from(*series) < number) as u64;
                below(end) - below(first.into())
            }
        }
    }

    /// Whether all series of `first ..= last` are selected.
    pub(crate) fn all_in(&self, first: u32, last: u32) -> bool {
        match self {
            SeriesFilter::All => true,
            SeriesFilter::Range(range) => range.start <= first && last < range.end,
            SeriesFilter::Only(list) => {
                let at = list.partition_point(|wanted| *wanted < first);
                let end = at + (last - first) as usize;
                list.get(at) == Some(&first) && list.get(end) == Some(&last)
            }
        }
    }

    /// The intersection with a range.
    #[must_use]
    pub(crate) fn within(&self, range: Range<u32>) -> SeriesFilter {
        match self {
            SeriesFilter::All => SeriesFilter::Range(range),
            SeriesFilter::Range(own) => SeriesFilter::Range(own.start.max(range.start)..own.end.min(range.end)),
            SeriesFilter::Only(list) => {
                let start = list.partition_point(|series| *series < range.start);
                let end = list.partition_point(|series| *series < range.end).max(start);
                SeriesFilter::Only(list[start..end].into())
            }
        }
    }
}

impl Tombstone {
    /// Whether it may hide a row of these series within this time range.
    pub(crate) fn touches(&self, series: (u32, u32), times: &TimeRange) -> bool {
        self.times.overlaps(times)
            && self.series.as_ref().is_none_or(|list| {
                list.get(list.partition_point(|hidden| *hidden < series.0)).is_some_and(|hidden| *hidden <= series.1)
            })
    }

    pub(crate) fn hides_series(&self, series: u32) -> bool {
        self.series.as_ref().is_none_or(|list| list.binary_search(&series).is_ok())
    }
}

impl Filter {
    /// Selects all current rows.
    pub(crate) fn all() -> Filter {
        Filter {
            times: TimeRange::ALL,
            series: SeriesFilter::All,
            deletes: DeleteFilter::default(),
            versions: Versions::At(NOW),
        }
    }

    /// Whether every row of a run with this time range is selected.
    pub(crate) fn passes_all(&self, times: &TimeRange) -> bool {
        self.series == SeriesFilter::All && self.deletes.is_empty() && self.times.covers(times)
    }

    /// Whether no row of these series and this time range can be selected.
    pub(crate) fn rejects_all(&self, series: (u32, u32), times: &TimeRange) -> bool {
        !self.times.overlaps(times) || !self.series.any_in(series.0, series.1) || self.deletes.hides_all(times)
    }

    /// Selects rows, which are sorted by (series, time). Returns the number hidden by deletes too.
    pub(crate) fn select(&self, series: &[u32], times: &[i64]) -> (Selection, u64) {
        let mut kept: Vec<Range<usize>> = Vec::new();
        let mut hidden = 0;
        let mut at = 0;
        while at < series.len() {
            let Some(wanted) = self.series.at_or_after(series[at]) else { break };
            if wanted > series[at] {
                at += gallop(&series[at..], |series| *series < wanted);
                continue;
            }
            let end = at + gallop(&series[at..], |series| *series == wanted);
            hidden += self.select_run(wanted, at, &times[at..end], &mut kept);
            at = end;
        }
        (selection(kept, series.len()), hidden)
    }

    /// Selects rows of one series, whose first position is `base`.
    fn select_run(&self, series: u32, base: usize, times: &[i64], kept: &mut Vec<Range<usize>>) -> u64 {
        let inside = span(times, &self.times);
        let mut hidden_ranges: Vec<Range<usize>> = Vec::new();
        if !self.deletes.is_empty() && !inside.is_empty() {
            let times = &times[inside.clone()];
            let wanted = TimeRange { start: times[0], last: times[times.len() - 1] };
            self.deletes.spans_of(series, &wanted, |hidden, _| {
                let hidden = span(times, hidden);
                hidden_ranges.extend(
                    Some(inside.start + hidden.start..inside.start + hidden.end).filter(|range| !range.is_empty()),
                );
            });
            hidden_ranges.sort_unstable_by_key(|range| range.start);
        }
        let (mut from, mut hidden) = (inside.start, 0);
        for range in hidden_ranges {
            push(kept, base + from..base + range.start.max(from));
            hidden += range.end.saturating_sub(range.start.max(from));
            from = from.max(range.end);
        }
        push(kept, base + from..base + inside.end);
        hidden as u64
    }
}

/// Appends a range, joined with the last one if they are adjacent.
fn push(kept: &mut Vec<Range<usize>>, range: Range<usize>) {
    match kept.last_mut() {
        _ if range.is_empty() => {}
        Some(last) if last.end == range.start => last.end = range.end,
        _ => kept.push(range),
    }
}

/// Positions of sorted `times` that are within `range`.
fn span(times: &[i64], range: &TimeRange) -> Range<usize> {
    let start = times.partition_point(|time| *time < range.start);
    let end = times.partition_point(|time| *time <= range.last);
    start..end.max(start)
}

fn selection(kept: Vec<Range<usize>>, len: usize) -> Selection {
    match kept.as_slice() {
        [one] if one.len() == len => Selection::All,
        [one] => Selection::Range(one.clone()),
        _ => Selection::List(kept.into_iter().flatten().map(|at| at as u32).collect()),
    }
}

/// Number of leading items that satisfy `holds`, which must hold for a prefix. Exponential search:
/// cheap for a short prefix.
pub(crate) fn gallop<T>(items: &[T], holds: impl Fn(&T) -> bool) -> usize {
    let mut step = 1;
    while step < items.len() && holds(&items[step]) {
        step *= 2;
    }
    let (low, high) = (step / 2, items.len().min(step));
    low + items[low..high].partition_point(holds)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::Lsn;

    use super::*;
    use crate::deletes::Deletes;

    fn hide(series: Option<&[u32]>, start: i64, last: i64) -> Tombstone {
        Tombstone { lsn: Lsn(1), committed: 1, series: series.map(Arc::from), times: TimeRange { start, last } }
    }

    #[test]
    fn gallop_counts_any_prefix() {
        for len in 0..40usize {
            let items: Vec<usize> = (0..len).collect();
            for prefix in 0..=len {
                assert_eq!(gallop(&items, |item| *item < prefix), prefix, "{prefix} of {len}");
            }
        }
    }

    #[test]
    fn selection_equals_a_filter_row_by_row() {
        let rows: Vec<(u32, i64)> = (0..6).flat_map(|series| (0..7).map(move |time| (series, time))).collect();
        let (series, times): (Vec<u32>, Vec<i64>) = rows.iter().copied().unzip();
        let filters = [SeriesFilter::All, SeriesFilter::Range(1..4), SeriesFilter::Only([0, 3, 9].into())];
        let hides = [
            vec![],
            vec![hide(None, 2, 3)],
            vec![hide(Some(&[1, 3]), 0, 0), hide(None, 5, 5), hide(Some(&[3]), 2, 9)],
            vec![hide(None, i64::MIN, i64::MAX)],
        ];
        let ranges =
            [TimeRange::ALL, TimeRange { start: 1, last: 5 }, TimeRange { start: 9, last: 9 }, TimeRange::EMPTY];
        for (filter, hides, times_wanted) in combinations(&filters, &hides, &ranges) {
            let deletes = hides.iter().map(|hide| Arc::new(Deletes::of([hide.clone()], false))).collect();
            let deletes = DeleteFilter { deletes, ..DeleteFilter::default() };
            let filter = Filter { times: times_wanted, series: filter, deletes, ..Filter::all() };
            let wanted = |row: &(u32, i64)| {
                filter.series.any_in(row.0, row.0)
                    && filter.times.contains(row.1)
                    && !hides.iter().any(|hide| hide.hides_series(row.0) && hide.times.contains(row.1))
            };
            let expected: Vec<u32> = (0..rows.len() as u32).filter(|at| wanted(&rows[*at as usize])).collect();
            let seen = match filter.select(&series, &times).0 {
                Selection::All => (0..rows.len() as u32).collect(),
                Selection::Range(range) => range.map(|at| at as u32).collect::<Vec<_>>(),
                Selection::List(list) => list,
            };
            assert_eq!(seen, expected, "{filter:?}");
        }
    }

    fn combinations<'a>(
        filters: &'a [SeriesFilter],
        hides: &'a [Vec<Tombstone>],
        ranges: &'a [TimeRange],
    ) -> impl Iterator<Item = (SeriesFilter, Vec<Tombstone>, TimeRange)> + 'a {
        filters.iter().flat_map(move |filter| {
            hides.iter().flat_map(move |hides| ranges.iter().map(move |range| (filter.clone(), hides.clone(), *range)))
        })
    }
}
