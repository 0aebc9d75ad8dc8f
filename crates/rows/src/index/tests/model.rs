//! Readers race with splits and merges: programs for the model checker (`sync::tests`).

use super::*;
use crate::sync::tests::{check as checked, join, spawn};

/// Every schedule starts with 40 keys in nodes of at most 8, and ends with a single empty leaf.
fn check(program: impl Fn(&Arc<Index>) + Send + Sync + 'static) {
    checked(move || {
        let index = Arc::new(with_node_bytes(128));
        (0..40).for_each(|n| index.insert(&number(n * 10), n * 10, &pin()).unwrap());
        program(&index);
        assert!(verify(&index) == 1 || idle_leaves(&index) <= index.merging.lock().len(), "an empty leaf is forgotten");
        let mut rest = Vec::new();
        index.scan(ALL.0, ALL.1, Direction::Forward, &pin(), |key, _| {
            rest.push(key.to_vec());
            ControlFlow::Continue(())
        });
        rest.iter().for_each(|key| assert!(index.remove(key, &pin()).is_some()));
        assert_eq!((index.len(), verify(&index)), (0, 1), "empty leaves are left");
    });
}

fn idle_leaves(index: &Index) -> usize {
    let guard = &NodesGuard::pin();
    let mut view = index.descend(ROOT, Bound::Included(&[]), 0, guard).1;
    let mut idle = usize::from(view.is_idle());
    while let Some(high) = view.high() {
        view = index.descend(view.right(), Bound::Included(high), 0, guard).1;
        idle += usize::from(view.is_idle());
    }
    idle
}

fn insert_all(keys: std::ops::Range<u64>) -> impl FnOnce(&Index) + Send {
    move |index| keys.for_each(|n| assert_eq!(index.insert(&number(n), n, &pin()), Ok(())))
}

fn remove_all(keys: impl Iterator<Item = u64> + Send) -> impl FnOnce(&Index) + Send {
    move |index| keys.into_iter().for_each(|n| assert_eq!(index.remove(&number(n), &pin()), Some(n)))
}

/// Scans in both directions and looks up keys; those in `stay` must be found.
fn read(stay: &'static [u64]) -> impl FnOnce(&Index) + Send {
    move |index| {
        for direction in BOTH {
            let mut keys = Vec::new();
            index.scan(ALL.0, ALL.1, direction, &pin(), |_, value| {
                keys.push(value);
                ControlFlow::Continue(())
            });
            if direction == Direction::Backward {
                keys.reverse();
            }
            assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
            assert!(stay.iter().all(|n| keys.contains(n)), "{keys:?}");
        }
        stay.iter().for_each(|n| assert_eq!(index.get(&number(*n), &pin()), Some(*n)));
    }
}

#[test]
fn model_readers_race_with_splits_and_merges() {
    check(|index| {
        join([
            spawn(index, insert_all(101..106)),
            spawn(index, remove_all((4..30).map(|n| n * 10).filter(|n| *n != 100))),
            spawn(index, read(&[0, 100, 300, 390])),
        ]);
        assert_eq!(index.len(), 40 - 25 + 5);
    });
}

#[test]
fn model_two_threads_empty_neighbouring_leaves_while_one_fills_them() {
    check(|index| {
        join([
            spawn(index, remove_all((0..12).map(|n| n * 10))),
            spawn(index, remove_all((12..24).rev().map(|n| n * 10))),
            spawn(index, insert_all(111..118)),
        ]);
        assert_eq!(index.len(), 40 - 24 + 7);
    });
}

#[test]
fn model_one_of_two_inserts_wins_and_invalidates_a_noted_absence() {
    check(|index| {
        let threads: Vec<_> = (0..2)
            .map(|thread| {
                let insert = move |index: &Index, n: u64| index.insert(&number(150 + n), thread, &pin()).is_ok();
                spawn(index, move |index| (1..10).filter(|n| insert(index, *n)).count())
            })
            .collect();
        let missed: Vec<_> = (1..10).map(|n| (n, index.get_noting(&number(150 + n), &pin()))).collect();
        let won: usize = join(threads).into_iter().sum();
        assert_eq!(won, 9);
        for (n, (value, leaf)) in missed {
            assert!(value.is_some() || !index.still_same(&leaf, &pin()), "{n} came unnoticed");
        }
    });
}

#[test]
fn model_inserts_at_the_end_are_found_while_it_splits_and_merges() {
    check(|index| {
        join([
            spawn(index, insert_all(400..410)),
            spawn(index, |index| {
                (400..410).for_each(|n| {
                    while index.remove(&number(n), &pin()).is_none() {
                        shuttle::thread::yield_now();
                    }
                });
            }),
            spawn(index, |index| {
                for n in 1_000..1_004 {
                    assert_eq!(index.insert(&number(n), n, &pin()), Ok(()));
                    assert_eq!(index.get(&number(n), &pin()), Some(n));
                    assert_eq!(index.remove(&number(n), &pin()), Some(n));
                }
            }),
        ]);
        assert_eq!(index.len(), 40);
    });
}
