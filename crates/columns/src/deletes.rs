//! A set of deletes, indexed by series and time.
//!
//! A client may delete as often as it inserts. Therefore neighbouring deletes are merged into one
//! [`Deletes`], as neighbouring rows are (`memtable_compaction`): disjoint, sorted time spans per
//! series, each with the earliest commit that deleted it. A set is only ever applied to rows older
//! than all of its deletes, so this loses no information.
//!
//! # Cost
//! For `n` deletes: finding those of one series and time range is `O(log n)` plus the spans found.
//! A merge is `O(n log n)` and happens `O(log n)` times to a delete. A delete that names more than
//! [`FEW_SERIES`] series is stored once, not per series; a search visits all such deletes that
//! overlap its time range.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use model::{Lsn, TimeRange};

use crate::history::NOW;
use crate::segments::ByTime;
use crate::state::Tombstone;

/// A delete of at most this many series is stored as spans of each of them.
const FEW_SERIES: usize = if cfg!(test) { 2 } else { 16 };

/// A deleted time span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    times: TimeRange,
    /// Wall time of the earliest commit that deleted it, nanoseconds.
    committed: i64,
}

/// Deletes of neighbouring commits. Immutable.
#[derive(Debug)]
pub struct Deletes {
    /// Lowest and highest commit.
    lsns: (Lsn, Lsn),
    /// Earliest and latest commit time of a span.
    committed: (i64, i64),
    /// From the first to the last timestamp deleted.
    times: TimeRange,
    /// Spans that apply to all series: sorted, disjoint.
    all: Vec<Span>,
    /// Spans of single series: sorted by series and time; those of one series are disjoint.
    single: Vec<(u32, Span)>,
    /// Deletes of more than [`FEW_SERIES`] series.
    many: Vec<Tombstone>,
    many_by_time: ByTime,
}

/// Unsorted contents of [`Deletes`].
#[derive(Default)]
struct Parts {
    lsns: Option<(Lsn, Lsn)>,
    all: Vec<(u32, Span)>,
    single: Vec<(u32, Span)>,
    many: BTreeMap<Arc<[u32]>, Vec<(u32, Span)>>,
}

impl Parts {
    fn add_lsns(&mut self, (first, last): (Lsn, Lsn)) {
        let (low, high) = self.lsns.unwrap_or((first, last));
        self.lsns = Some((low.min(first), high.max(last)));
    }

    fn add(&mut self, tombstone: &Tombstone) {
        self.add_lsns((tombstone.lsn, tombstone.lsn));
        let span = Span { times: tombstone.times, committed: tombstone.committed };
        if span.times.is_empty() {
            return;
        }
        match &tombstone.series {
            None => self.all.push((0, span)),
            Some(series) if series.len() <= FEW_SERIES => {
                self.single.extend(series.iter().map(|series| (*series, span)));
            }
            Some(series) => self.many.entry(Arc::clone(series)).or_default().push((0, span)),
        }
    }

    fn finish(self, keeps_history: bool) -> Deletes {
        let lsns = self.lsns.unwrap_or((Lsn::ZERO, Lsn::ZERO));
        let all: Vec<Span> = disjoint(self.all, keeps_history).into_iter().map(|(_, span)| span).collect();
        let single = disjoint(self.single, keeps_history);
        let mut many = Vec::new();
        for (series, spans) in self.many {
            let tombstone = |(_, Span { times, committed }): (u32, Span)| Tombstone {
                lsn: lsns.1,
                committed,
                series: Some(Arc::clone(&series)),
                times,
            };
            many.extend(disjoint(spans, keeps_history).into_iter().map(tombstone));
        }
        let singles = single.iter().map(|(_, span)| span);
        let moments = all.iter().chain(singles).map(|span| (span.times, span.committed));
        let moments = moments.chain(many.iter().map(|delete| (delete.times, delete.committed)));
        let none = (TimeRange::EMPTY, (i64::MAX, i64::MIN));
        let (times, committed) = moments
            .fold(none, |(times, (first, last)), span| (times.union(&span.0), (first.min(span.1), last.max(span.1))));
        let many_by_time = ByTime::of(many.iter().map(|delete| delete.times));
        assert!(lsns.0 <= lsns.1, "BUG: deletes of commits {} to {}", lsns.0, lsns.1);
        debug_assert!(all.is_sorted_by(|a, b| a.times.last < b.times.start), "BUG: spans of all series overlap");
        debug_assert!(
            single.is_sorted_by(|(a, of_a), (b, of_b)| (*a, of_a.times.last) < (*b, of_b.times.start)),
            "BUG: spans of a series overlap"
        );
        Deletes { lsns, committed, times, all, single, many, many_by_time }
    }
}

/// Sorts spans and makes them disjoint. Where spans overlap, the earliest commit counts.
fn disjoint(mut spans: Vec<(u32, Span)>, keeps_history: bool) -> Vec<(u32, Span)> {
    work::touch(spans.len());
    spans.sort_by_key(|(series, span)| (*series, span.times.start));
    let mut out: Vec<(u32, Span)> = Vec::with_capacity(spans.len());
    if !keeps_history {
        // Without history, the commit time does not matter, so spans are simply joined.
        for (series, span) in spans {
            match out.last_mut() {
                Some((same, last)) if *same == series && reaches(last.times, span.times.start) => {
                    last.times.last = last.times.last.max(span.times.last);
                    last.committed = last.committed.min(span.committed);
                }
                _ => out.push((series, span)),
            }
        }
        return out;
    }
    for run in spans.chunk_by(|a, b| a.0 == b.0) {
        sweep(run, &mut out);
    }
    out
}

/// Sweep line over the spans of one series, which are sorted by start. Appends disjoint spans, each
/// with its earliest commit.
fn sweep(spans: &[(u32, Span)], out: &mut Vec<(u32, Span)>) {
    let (series, first) = (spans[0].0, out.len());
    let mut open: BinaryHeap<Reverse<(i64, i64)>> = BinaryHeap::new();
    let mut rest = spans.iter().map(|(_, span)| span).peekable();
    let mut at = i64::MIN;
    loop {
        while open.peek().is_some_and(|Reverse((_, last))| *last < at) {
            open.pop();
        }
        let Some(start) = open.peek().map(|_| at).or_else(|| rest.peek().map(|span| span.times.start)) else { return };
        at = start;
        while let Some(span) = rest.next_if(|span| span.times.start <= at) {
            open.push(Reverse((span.committed, span.times.last)));
        }
        let Some(Reverse((committed, last))) = open.peek().copied() else { continue };
        if last < at {
            continue;
        }
        let next = rest.peek().map_or(i64::MAX, |span| span.times.start - 1);
        let times = TimeRange { start: at, last: last.min(next) };
        match out[first..].last_mut() {
            Some((_, before)) if before.committed == committed && reaches(before.times, at) => {
                before.times.last = times.last;
            }
            _ => out.push((series, Span { times, committed })),
        }
        let Some(next) = times.last.checked_add(1) else { return };
        at = next;
    }
}

/// Whether a span starting at `start` overlaps `times` or is adjacent to it. `times` starts no
/// later.
fn reaches(times: TimeRange, start: i64) -> bool {
    times.last.checked_add(1).is_none_or(|next| start <= next)
}

impl Deletes {
    /// Deletes of neighbouring commits, with no segment and no rows between them.
    #[must_use]
    pub fn of(tombstones: impl IntoIterator<Item = Tombstone>, keeps_history: bool) -> Deletes {
        let mut parts = Parts::default();
        tombstones.into_iter().for_each(|tombstone| parts.add(&tombstone));
        parts.finish(keeps_history)
    }

    /// Deletes of single rows, of one commit, which [`Deletes::set_commit`] sets.
    ///
    /// - `rows`: series number and time: sorted, none twice.
    #[must_use]
    pub fn of_rows(rows: &[(u32, i64)]) -> Deletes {
        debug_assert!(rows.is_sorted_by(|a, b| a < b), "BUG: deleted rows are not in order");
        let mut single: Vec<(u32, Span)> = Vec::with_capacity(rows.len());
        for (series, time) in rows {
            match single.last_mut() {
                Some((same, last)) if same == series && reaches(last.times, *time) => last.times.last = *time,
                _ => single.push((*series, Span { times: TimeRange { start: *time, last: *time }, committed: 0 })),
            }
        }
        Deletes::of_single(single)
    }

    /// Deletes of spans of single series, of one commit, which [`Deletes::set_commit`] sets. Returns
    /// `None` if the spans are not sorted by series and time, or overlap.
    #[must_use]
    pub fn of_spans(spans: impl IntoIterator<Item = (u32, TimeRange)>) -> Option<Deletes> {
        let spans = spans.into_iter().map(|(series, times)| (series, Span { times, committed: 0 }));
        let single: Vec<(u32, Span)> = spans.collect();
        let is_whole = single.iter().all(|(_, span)| !span.times.is_empty());
        let is_sorted = single.is_sorted_by(|(a, of_a), (b, of_b)| (*a, of_a.times.last) < (*b, of_b.times.start));
        (is_whole && is_sorted).then(|| Deletes::of_single(single))
    }

    fn of_single(single: Vec<(u32, Span)>) -> Deletes {
        let times = single.iter().fold(TimeRange::EMPTY, |times, (_, span)| times.union(&span.times));
        let (all, many) = (Vec::new(), Vec::new());
        let many_by_time = ByTime::of(std::iter::empty());
        Deletes { lsns: (Lsn::ZERO, Lsn::ZERO), committed: (0, 0), times, all, single, many, many_by_time }
    }

    /// Sets the commit of all these deletes.
    pub fn set_commit(&mut self, lsn: Lsn, committed: i64) {
        self.lsns = (lsn, lsn);
        if self.is_empty() {
            return;
        }
        self.committed = (committed, committed);
        self.all.iter_mut().for_each(|span| span.committed = committed);
        self.single.iter_mut().for_each(|(_, span)| span.committed = committed);
        for tombstone in &mut self.many {
            (tombstone.lsn, tombstone.committed) = (lsn, committed);
        }
    }

    /// Spans of single series from number `from` on, by series and time.
    pub fn spans_from(&self, from: usize) -> impl Iterator<Item = (u32, TimeRange)> {
        self.single[from..].iter().map(|(series, span)| (*series, span.times))
    }

    /// From the first to the last timestamp deleted.
    #[must_use]
    pub fn times(&self) -> TimeRange {
        self.times
    }

    /// The union of several sets.
    #[must_use]
    pub fn merged<'a>(all: impl IntoIterator<Item = &'a Arc<Deletes>>, keeps_history: bool) -> Deletes {
        let mut parts = Parts::default();
        for deletes in all {
            parts.add_lsns(deletes.lsns);
            parts.all.extend(deletes.all.iter().map(|span| (0, *span)));
            parts.single.extend_from_slice(&deletes.single);
            deletes.many.iter().for_each(|tombstone| parts.add(tombstone));
        }
        parts.finish(keeps_history)
    }

    /// Number of spans.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len() + self.single.len() + self.many.len()
    }

    /// Whether no span is deleted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Lowest and highest commit.
    #[must_use]
    pub fn lsns(&self) -> (Lsn, Lsn) {
        self.lsns
    }

    /// Commit time of the earliest span.
    pub(crate) fn committed(&self) -> i64 {
        self.committed.0
    }

    /// Commit time of the latest span.
    pub(crate) fn committed_last(&self) -> i64 {
        self.committed.1
    }

    /// Memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        let many = self.many.iter().map(|delete| 80 + delete.series.as_ref().map_or(0, |series| series.len() * 4));
        size_of::<Deletes>() + self.all.capacity() * 24 + self.single.capacity() * 32 + many.sum::<usize>()
    }

    /// Whether it may hide a row of the series `first ..= last` within these times.
    #[must_use]
    pub fn touches(&self, series: (u32, u32), times: &TimeRange) -> bool {
        self.touches_until(series, times, NOW)
    }

    /// Like [`Deletes::touches`], for deletes committed at or before `until`.
    pub(crate) fn touches_until(&self, (first, last): (u32, u32), times: &TimeRange, until: i64) -> bool {
        if !self.times.overlaps(times) || self.committed.0 > until {
            return false;
        }
        let within = |span: &Span| span.committed <= until;
        if overlapping(&self.all, times).any(within) {
            return true;
        }
        let mut at = self.single.partition_point(|(series, _)| *series < first);
        while let Some((series, _)) = self.single.get(at).filter(|(series, _)| *series <= last) {
            let end = at + crate::filter::gallop(&self.single[at..], |(other, _)| other == series);
            if overlapping_of(&self.single[at..end], times).any(|(_, span)| within(span)) {
                return true;
            }
            at = end;
        }
        self.many_of(times, until).any(|delete| delete.touches((first, last), times))
    }

    /// Whether it hides every row of all series within these times.
    pub(crate) fn hides_all(&self, times: &TimeRange, until: i64) -> bool {
        let mut next = times.start;
        for span in overlapping(&self.all, times) {
            if span.committed > until || span.times.start > next {
                return false;
            }
            match span.times.last.checked_add(1).filter(|after| *after <= times.last) {
                Some(after) => next = after,
                None => return true,
            }
        }
        times.is_empty()
    }

    /// Calls `each` with every deleted span of a series that overlaps `times`, and its commit time;
    /// unordered.
    pub(crate) fn spans_of(&self, series: u32, times: &TimeRange, until: i64, mut each: impl FnMut(&TimeRange, i64)) {
        if !self.times.overlaps(times) || self.committed.0 > until {
            return;
        }
        let mut found = |span: &Span| {
            work::touch(1);
            if span.committed <= until {
                each(&span.times, span.committed);
            }
        };
        overlapping(&self.all, times).for_each(&mut found);
        let from = self.single.partition_point(|(other, span)| (*other, span.times.last) < (series, times.start));
        let own =
            self.single[from..].iter().take_while(|(other, span)| *other == series && span.times.start <= times.last);
        own.for_each(|(_, span)| found(span));
        for delete in self.many_of(times, until) {
            if delete.hides_series(series) {
                found(&Span { times: delete.times, committed: delete.committed });
            }
        }
    }

    fn many_of(&self, times: &TimeRange, until: i64) -> impl Iterator<Item = &Tombstone> {
        let many = self.many_by_time.near(times).map(|at| &self.many[at]);
        many.filter(move |delete| {
            work::touch(1);
            delete.committed <= until && delete.times.overlaps(times)
        })
    }

    /// Equivalent tombstones, as stored in the manifest.
    pub(crate) fn tombstones(&self) -> Vec<Tombstone> {
        let tombstone = |series: Option<Arc<[u32]>>, span: &Span| Tombstone {
            lsn: self.lsns.1,
            committed: span.committed,
            series,
            times: span.times,
        };
        let mut all: Vec<Tombstone> = self.all.iter().map(|span| tombstone(None, span)).collect();
        // Groups series with the same span: they become one tombstone again.
        let key = |(series, span): &(u32, Span)| (span.times.start, span.times.last, span.committed, *series);
        let mut single = self.single.clone();
        single.sort_unstable_by_key(key);
        for run in single.chunk_by(|a, b| a.1 == b.1) {
            for run in run.chunks(FEW_SERIES) {
                all.push(tombstone(Some(run.iter().map(|(series, _)| *series).collect()), &run[0].1));
            }
        }
        all.extend(self.many.iter().map(|delete| Tombstone { lsn: self.lsns.1, ..delete.clone() }));
        all
    }

    /// Keeps the spans for which `keep` returns true, given their series (`None`: all) and times.
    /// Returns `None` if all are kept.
    pub(crate) fn retained(&self, mut keep: impl FnMut(Option<&[u32]>, &TimeRange) -> bool) -> Option<Deletes> {
        let mut parts = Parts::default();
        parts.add_lsns(self.lsns);
        parts.all.extend(self.all.iter().filter(|span| keep(None, &span.times)).map(|span| (0, *span)));
        parts.single.extend(self.single.iter().filter(|(series, span)| keep(Some(&[*series]), &span.times)));
        for delete in &self.many {
            if keep(delete.series.as_deref(), &delete.times) {
                parts.add(delete);
            }
        }
        let kept = parts.all.len() + parts.single.len() + parts.many.values().map(Vec::len).sum::<usize>();
        (kept < self.len()).then(|| parts.finish(true))
    }
}

/// Spans, of sorted and disjoint ones, that overlap `times`.
fn overlapping<'a>(spans: &'a [Span], times: &TimeRange) -> impl Iterator<Item = &'a Span> {
    let from = spans.partition_point(|span| span.times.last < times.start);
    let last = times.last;
    spans[from..].iter().take_while(move |span| span.times.start <= last)
}

/// Like [`overlapping`], for the spans of one series.
fn overlapping_of<'a>(spans: &'a [(u32, Span)], times: &TimeRange) -> impl Iterator<Item = &'a (u32, Span)> {
    let from = spans.partition_point(|(_, span)| span.times.last < times.start);
    let last = times.last;
    spans[from..].iter().take_while(move |(_, span)| span.times.start <= last)
}

/// The deletes that apply to a source: those newer than its rows and committed at or before
/// `until`.
#[derive(Clone, Debug)]
pub(crate) struct DeleteFilter {
    pub(crate) deletes: Vec<Arc<Deletes>>,
    pub(crate) until: i64,
}

impl Default for DeleteFilter {
    fn default() -> DeleteFilter {
        DeleteFilter { deletes: Vec::new(), until: NOW }
    }
}

impl DeleteFilter {
    pub(crate) fn is_empty(&self) -> bool {
        self.deletes.is_empty()
    }

    /// Whether one of them may hide a row of these series within these times.
    pub(crate) fn may_hide(&self, series: (u32, u32), times: &TimeRange) -> bool {
        self.deletes.iter().any(|deletes| deletes.touches_until(series, times, self.until))
    }

    /// Whether one of them hides all rows within these times.
    pub(crate) fn hides_all(&self, times: &TimeRange) -> bool {
        self.deletes.iter().any(|deletes| deletes.hides_all(times, self.until))
    }

    /// See [`Deletes::spans_of`].
    pub(crate) fn spans_of(&self, series: u32, times: &TimeRange, mut each: impl FnMut(&TimeRange, i64)) {
        self.deletes.iter().for_each(|deletes| deletes.spans_of(series, times, self.until, &mut each));
    }

    /// Deletes that may hide a row of these series within these times.
    pub(crate) fn restricted_to(&self, series: (u32, u32), times: &TimeRange) -> DeleteFilter {
        let touches = |deletes: &&Arc<Deletes>| deletes.touches_until(series, times, self.until);
        DeleteFilter { deletes: self.deletes.iter().filter(touches).cloned().collect(), until: self.until }
    }
}

/// Most spans of a merge in [`DeleteCollector::push`].
const NEWER_SPANS_MAX: usize = 1 << 12;

/// Collects deletes while entries are visited from newest to oldest. Merges small sets, so the list
/// stays short.
pub(crate) struct DeleteCollector {
    filter: DeleteFilter,
    keeps_history: bool,
}

impl DeleteCollector {
    pub(crate) fn new(until: i64, keeps_history: bool) -> DeleteCollector {
        DeleteCollector { filter: DeleteFilter { deletes: Vec::new(), until }, keeps_history }
    }

    /// Adds the next older set.
    pub(crate) fn push(&mut self, deletes: &Arc<Deletes>) {
        let all = &mut self.filter.deletes;
        all.push(Arc::clone(deletes));
        while let [.., newer, older] = all.as_slice() {
            let (newer_len, older_len) = (newer.len(), older.len());
            if newer_len > 2 * older_len || newer_len + older_len > NEWER_SPANS_MAX {
                break;
            }
            let both = Arc::new(Deletes::merged([newer, older], self.keeps_history));
            all.truncate(all.len() - 2);
            all.push(both);
        }
    }

    pub(crate) fn filter(&self) -> &DeleteFilter {
        &self.filter
    }
}

/// Counts visited items, for tests of cost.
pub(crate) mod work {
    #[cfg(test)]
    thread_local! {
        static TOUCHED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }

    /// Counts visited entries, rows or spans.
    #[inline]
    pub(crate) fn touch(_count: usize) {
        #[cfg(test)]
        TOUCHED.set(TOUCHED.get() + _count);
    }

    /// Returns and resets the count of this thread.
    #[cfg(test)]
    pub(crate) fn take() -> usize {
        TOUCHED.take()
    }
}
