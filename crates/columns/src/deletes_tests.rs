//! Compares [`Deletes`] with a list of tombstones.

use std::sync::Arc;

use model::{Lsn, TimeRange};

use crate::deletes::{DeleteCollector, DeleteFilter, Deletes, work};
use crate::encoding::tests::Random;
use crate::history::NOW;
use crate::state::Tombstone;

const SERIES: u32 = 6;
const TIMES: i64 = 40;

fn tombstone(random: &mut Random, lsn: u64) -> Tombstone {
    let start = random.below(TIMES as u64) as i64;
    let times = match random.below(8) {
        0 => TimeRange::ALL,
        1 => TimeRange { start: i64::MIN, last: start },
        2 => TimeRange { start, last: i64::MAX },
        _ => TimeRange { start, last: start + random.below(6) as i64 },
    };
    let series = match random.below(4) {
        0 => None,
        1 => Some((0..SERIES).filter(|_| random.below(2) == 0).collect()),
        _ => Some([random.below(SERIES.into()) as u32].into()),
    };
    Tombstone { lsn: Lsn(lsn), committed: lsn.cast_signed() * 10, series, times }
}

#[test]
fn merged_deletes_hide_the_same_rows_as_a_list_of_tombstones() {
    for seed in 0..300 {
        let mut random = Random(seed + 1);
        let keeps_history = seed % 2 == 0;
        let count = 1 + random.below(20);
        let list: Vec<Tombstone> = (1..=count).map(|lsn| tombstone(&mut random, lsn)).collect();
        let mut parts: Vec<Arc<Deletes>> =
            list.iter().map(|delete| Arc::new(Deletes::of([delete.clone()], keeps_history))).collect();
        while parts.len() > 1 && random.below(6) > 0 {
            let at = random.below(parts.len() as u64 - 1) as usize;
            let merged = Deletes::merged(&parts[at..at + 2], keeps_history);
            parts.splice(at..at + 2, [Arc::new(merged)]);
        }
        let until =
            if keeps_history && random.below(2) == 0 { random.below(count * 10 + 5).cast_signed() } else { NOW };
        let hides = match random.below(3) {
            0 => DeleteFilter { deletes: parts.clone(), until },
            1 => {
                let mut newer = DeleteCollector::new(until, keeps_history);
                parts.iter().rev().for_each(|deletes| newer.push(deletes));
                newer.filter().clone()
            }
            _ => {
                // Round trip through the tombstones of the manifest.
                let kept = parts.iter().flat_map(|deletes| deletes.tombstones()).collect::<Vec<_>>();
                DeleteFilter { deletes: vec![Arc::new(Deletes::of(kept, keeps_history))], until }
            }
        };
        let hidden = |series: u32, time: i64| {
            let hides = |delete: &&Tombstone| {
                delete.committed <= until
                    && delete.times.contains(time)
                    && delete.series.as_ref().is_none_or(|list| list.contains(&series))
            };
            list.iter().filter(hides).map(|delete| delete.committed).min()
        };
        let times: Vec<i64> = (-3..TIMES + 9).chain([i64::MIN, i64::MAX]).collect();
        for (series, time) in (0..SERIES).flat_map(|series| times.iter().map(move |time| (series, *time))) {
            let mut first: Option<i64> = None;
            hides.spans_of(series, &TimeRange { start: time, last: time }, |span, committed| {
                assert!(span.contains(time));
                first = Some(first.map_or(committed, |first| first.min(committed)));
            });
            let expected = hidden(series, time);
            assert_eq!(first.is_some(), expected.is_some(), "seed {seed}, {series} {time} of {list:?}");
            if keeps_history {
                assert_eq!(first, expected, "seed {seed}, {series} {time} of {list:?}");
            }
        }
        for _ in 0..20 {
            let (a, b) = (random.below(SERIES.into()) as u32, random.below(SERIES.into()) as u32);
            let series = (a.min(b), a.max(b));
            let start = random.below(TIMES as u64) as i64 - 3;
            let times = TimeRange { start, last: start + random.below(9) as i64 };
            let mut all =
                (series.0..=series.1).flat_map(|series| (times.start..=times.last).map(move |at| (series, at)));
            let any = all.any(|(series, time)| hidden(series, time).is_some());
            assert_eq!(hides.may_hide(series, &times), any, "seed {seed}, {series:?} {times:?} of {list:?}");
            if hides.hides_all(&times) {
                assert!((0..SERIES).all(|series| (times.start..=times.last).all(|at| hidden(series, at).is_some())));
            }
        }
    }
}

#[test]
fn adjacent_spans_of_all_series_hide_their_union() {
    let delete = |start, last| Tombstone { lsn: Lsn(1), committed: 1, series: None, times: TimeRange { start, last } };
    let deletes = Deletes::of([delete(0, 9), delete(10, 19), delete(30, 39)], false);
    assert_eq!(deletes.len(), 2);
    for (times, expected) in [((0, 19), true), ((3, 17), true), ((3, 20), false), ((31, 39), true), ((20, 29), false)] {
        let times = TimeRange { start: times.0, last: times.1 };
        assert_eq!(deletes.hides_all(&times, NOW), expected, "{times:?}");
    }
    let kept = deletes.retained(|series, times| series.is_none() && times.start > 0).unwrap();
    assert_eq!(kept.len(), 1);
    assert!(deletes.retained(|_, _| true).is_none());
}

#[test]
fn deletes_of_one_series_are_found_without_visiting_others() {
    for count in [1_000u32, 10_000] {
        let delete = |number: u32| Tombstone {
            lsn: Lsn(u64::from(number)),
            committed: 1,
            series: Some([number % 100].into()),
            times: TimeRange { start: i64::from(number) * 10, last: i64::from(number) * 10 },
        };
        let deletes = Deletes::of((0..count).map(delete), false);
        work::take();
        let mut found = 0;
        deletes.spans_of(7, &TimeRange { start: 0, last: 10_000 }, NOW, |_, _| found += 1);
        assert_eq!((found, work::take()), (10, 10));
        assert!(deletes.touches((7, 7), &TimeRange { start: 70, last: 70 }));
        assert!(!deletes.touches((7, 8), &TimeRange { start: 90, last: 1_060 }));
        assert!(work::take() < 10);
    }
}
