//! Tests of the index, each also with tiny nodes, so that every few writes change the tree's shape.

#[cfg(shuttle)]
mod model;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_epoch::pin;

use super::*;

type Rows = Vec<(Vec<u8>, u64)>;
type Limits<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

const ALL: Limits<'static> = (Bound::Unbounded, Bound::Unbounded);
const BOTH: [Direction; 2] = [Direction::Forward, Direction::Backward];
/// Miri is about a thousand times slower.
const SCALE: usize = if cfg!(miri) { 100 } else { 1 };

struct Random(u64);

impl Random {
    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

fn with_node_bytes(node_bytes: usize) -> Index {
    Index::build_with(node_bytes, Rows::new())
}

fn number(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

fn scanned(index: &Index, (from, to): Limits<'_>, direction: Direction) -> Rows {
    let mut rows = Rows::new();
    index.scan(from, to, direction, &pin(), |key, value| {
        rows.push((key.to_vec(), value));
        ControlFlow::Continue(())
    });
    rows
}

/// Leaves that a scan of the inclusive range visits.
fn seen(index: &Index, from: u64, to: u64, direction: Direction) -> Vec<LeafSeen> {
    let (mut leaves, from, to) = (Vec::new(), number(from), number(to));
    let (from, to) = (Bound::Included(&from[..]), Bound::Included(&to[..]));
    index.scan_noting(from, to, direction, &pin(), &mut leaves, |_, _| ControlFlow::Continue(()));
    leaves
}

/// Checks the invariants of an idle tree: ranges adjoin, keys ascend within them, parents list
/// exactly the nodes below, counters match. Returns the number of leaves.
fn verify(index: &Index) -> usize {
    let guard = &NodesGuard::pin();
    let live = |id: NodeId| index.arena.view(id, guard).unwrap_or_else(|_| panic!("node {id} is named but dead"));
    let mut expected = vec![(Vec::new(), u64::from(ROOT))];
    let mut level = live(ROOT).level();
    let mut bytes = 0;
    loop {
        let (mut nodes, mut below, mut entries) = (Vec::new(), Vec::new(), 0);
        let (mut id, mut low) = (expected[0].1, Vec::new());
        loop {
            let view = live(id as NodeId);
            assert_eq!((view.level(), view.low()), (level, &low[..]), "node {id}");
            nodes.push((low, id));
            let mut own = Entries::default();
            view.copy_to(&mut own, 0..view.count());
            for at in 0..own.len() {
                assert!(at == 0 || own.key(at - 1) < own.key(at), "order in node {id}");
                assert!(own.key(at) >= view.low() && !view.ends_before(own.key(at)), "range of node {id}");
                below.push((own.key(at).to_vec(), view.value(at)));
            }
            (bytes, entries) = (bytes + view.bytes(), entries + view.count());
            let Some(high) = view.high() else { break };
            (id, low) = (u64::from(view.right()), high.to_vec());
        }
        assert!(nodes == expected, "level {level} is not what the parents say");
        if level == 0 {
            assert_eq!((index.len(), index.arena.content_bytes()), (entries, bytes));
            return nodes.len();
        }
        (expected, level) = (below, level - 1);
    }
}

/// Key sets with different difficulties.
fn shapes() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let mut random = Random(1);
    let mut text = |length: u64| (0..length).map(|_| b'a' + random.below(3) as u8).collect::<Vec<u8>>();
    let prefixed = |n: u64| [&[7; 300][..], &number(n), &[9; 30]].concat();
    vec![
        ("numbers", (0..600).map(|n| number(n * 77).to_vec()).collect()),
        ("one a prefix of another", (0..300).map(|n| vec![0; n]).chain((1..200).map(|n| vec![b'a'; n])).collect()),
        (
            "zeros at the end",
            (0..600_u64).map(|n| [&number(n / 9)[6..], &[0; 12][..n as usize % 9]].concat()).collect(),
        ),
        ("text of 200 bytes", (0..400).map(|_| text(200)).collect()),
        ("short text", (0..600).map(|n| text(n % 12)).collect()),
        ("long common prefixes", (0..400).map(prefixed).chain((0..20).map(|n| vec![n * 13])).collect()),
        ("as long as can be", (0..60).map(|n| [&text(n % 3)[..], &[n as u8; KEY_BYTES_MAX - 2]].concat()).collect()),
    ]
}

#[test]
fn behaves_like_a_btreemap_for_all_key_shapes() {
    for node_bytes in [128, 512, NODE_BYTES] {
        for (shape, keys) in shapes() {
            let (index, mut map) = (with_node_bytes(node_bytes), BTreeMap::new());
            let mut random = Random(node_bytes as u64);
            for step in 0..12_000 / SCALE as u64 {
                let guard = &pin();
                let key = &keys[random.below(keys.len() as u64) as usize];
                // The tree repeatedly grows and shrinks to nothing.
                let growing = step / 3_000 % 2 == 0;
                match random.below(10) {
                    0 => assert_eq!(index.get(key, guard), map.get(key).copied(), "{shape}"),
                    1 => assert_eq!(
                        index.replace(key, step, guard),
                        map.get_mut(key).map(|v| std::mem::replace(v, step))
                    ),
                    n if (n < 8) == growing => match index.insert(key, step, guard) {
                        Ok(()) => assert_eq!(map.insert(key.clone(), step), None, "{shape}"),
                        Err(value) => assert_eq!(map.get(key), Some(&value), "{shape}"),
                    },
                    _ => assert_eq!(index.remove(key, guard), map.remove(key), "{shape}"),
                }
                if step % 1_000 == 999 {
                    verify(&index);
                    check_scans(&index, &map, &keys, &mut random);
                }
            }
            for key in &keys {
                assert_eq!(index.remove(key, &pin()), map.remove(key), "{shape}");
            }
            assert_eq!((verify(&index), index.is_empty()), (1, true), "{shape}");
        }
    }
}

/// Compares scans with all kinds of bounds, in both directions, with the map.
fn check_scans(index: &Index, map: &BTreeMap<Vec<u8>, u64>, keys: &[Vec<u8>], random: &mut Random) {
    for _ in 0..40 {
        let mut bound = || {
            let key = keys[random.below(keys.len() as u64) as usize].as_slice();
            match random.below(5) {
                0 => Bound::Unbounded,
                1 | 2 => Bound::Included(key),
                _ => Bound::Excluded(key),
            }
        };
        let limits = (bound(), bound());
        let within = |key: &[u8]| std::ops::RangeBounds::<[u8]>::contains(&limits, key);
        let mut expected: Rows = map.iter().filter(|(key, _)| within(key)).map(|(k, v)| (k.clone(), *v)).collect();
        assert_eq!(scanned(index, limits, Direction::Forward), expected, "{limits:?}");
        expected.reverse();
        assert_eq!(scanned(index, limits, Direction::Backward), expected, "{limits:?}");
    }
}

#[test]
fn a_scan_resumes_after_its_last_key() {
    let index = Index::build((0..1_000).map(|n| (number(n), n)));
    let mut last: Option<Vec<u8>> = None;
    for n in 0..100 {
        let from = last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut part = Vec::new();
        index.scan(from, Bound::Unbounded, Direction::Forward, &pin(), |key, value| {
            part.push((key.to_vec(), value));
            if part.len() == 10 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert!(part.iter().map(|row| row.1).eq(n * 10..n * 10 + 10));
        last = part.pop().map(|row| row.0);
    }
}

#[test]
fn a_bulk_load_equals_inserts() {
    for (shape, mut keys) in shapes() {
        keys.sort();
        keys.dedup();
        for count in [0, 1, 2, keys.len()] {
            let rows = || keys[..count].iter().zip(0..);
            let (built, inserted) = (Index::build_with(256, rows()), with_node_bytes(256));
            rows().for_each(|(key, n)| inserted.insert(key, n, &pin()).unwrap());
            assert_eq!(
                scanned(&built, ALL, Direction::Forward),
                scanned(&inserted, ALL, Direction::Forward),
                "{shape}"
            );
            verify(&built);
            keys.iter().enumerate().for_each(|(n, key)| {
                let there = if n < count { Err(n as u64) } else { Ok(()) };
                assert_eq!(built.insert(key, 0, &pin()), there, "{shape}");
            });
            verify(&built);
        }
    }
}

#[test]
fn sequential_inserts_fill_nodes_to_nine_tenths() {
    let count = 20_000 / SCALE as u64;
    let fill = |keys: &mut dyn Iterator<Item = u64>| {
        let index = Index::new();
        keys.for_each(|n| index.insert(&number(n), n, &pin()).unwrap());
        let leaves = verify(&index);
        index.arena.content_bytes() as f64 / leaves as f64 / NODE_BYTES as f64
    };
    let built = Index::build((0..count).map(|n| (number(n), n)));
    assert!(built.arena.content_bytes() / verify(&built) > NODE_BYTES * 4 / 5);
    for (order, full) in [
        ("ascending", fill(&mut (0..count))),
        ("descending", fill(&mut (0..count).rev())),
        ("ascending, some a little late", fill(&mut (0..count).map(|n| n ^ u64::from(n % 8 < 2)))),
        (
            "ascending in ten places, one after the other in bursts",
            fill(&mut (0..count).map(|n| {
                let (burst, at) = (n / 20, n % 20);
                burst % 10 * 1_000_000 + burst / 10 * 20 + at
            })),
        ),
    ] {
        assert!(cfg!(miri) || full > 0.8, "{order}: leaves are {full:.2} full");
    }
}

#[test]
fn a_queue_has_bounded_memory() {
    let index = with_node_bytes(256);
    let (live, total) = (100, 600_000 / SCALE as u64);
    for n in 0..total {
        index.insert(&number(n), n, &pin()).unwrap();
        if let Some(old) = n.checked_sub(live) {
            // The head of the queue is found without scanning the leaves of removed keys.
            let mut visited = Vec::new();
            let mut first = None;
            index.scan_noting(ALL.0, ALL.1, Direction::Forward, &pin(), &mut visited, |_, value| {
                first = Some(value);
                ControlFlow::Break(())
            });
            assert_eq!((first, visited.len()), (Some(old), 1));
            assert_eq!(index.remove(&number(old), &pin()), Some(old));
        }
    }
    assert!(verify(&index) < 30, "{} leaves for {live} keys", verify(&index));
    // Would be twice that if slots were not reused. Guards of other tests may delay reclamation for
    // a while.
    assert!(index.memory_bytes() < 4 << 20, "{} bytes for {live} keys", index.memory_bytes());
}

#[test]
fn leaf_versions_change_by_inserts_only_while_leaves_live() {
    let index = Index::build((0..1_000).map(|n| (number(n * 10), n)));
    let guard = &pin();
    let same = |leaf: &LeafSeen| index.still_same(leaf, guard);
    for direction in BOTH {
        let (here, there) = (seen(&index, 1_000, 1_500, direction), seen(&index, 8_000, 8_500, direction));
        let (missing, failed) = index.get_noting(&number(1_203), guard);
        assert!(missing.is_none() && here.contains(&failed));
        assert_eq!(index.remove(&number(1_200), guard), Some(120));
        assert!(here.iter().chain(&there).all(same), "a removal is no phantom");
        assert_eq!(index.insert(&number(1_200), 120, guard), Ok(()));
        assert!(!same(&failed) && there.iter().all(same));
        assert_eq!(here.iter().filter(|leaf| !same(leaf)).count(), 1, "one leaf got the key");
        assert_eq!(index.insert(&number(1_200), 0, guard), Err(120));
        assert!(there.iter().all(same));
    }
}

#[test]
fn a_noted_range_detects_every_inserted_key() {
    let mut random = Random(5);
    for node_bytes in [128, 256, 1_024] {
        let index = with_node_bytes(node_bytes);
        let mut noted: Vec<(u64, u64, Vec<LeafSeen>)> = Vec::new();
        let mut detected = 0;
        for step in 0..30_000 / SCALE as u64 {
            let guard = &pin();
            let key = random.below(400);
            if step / 2_000 % 2 == 0 && random.below(4) > 0 {
                let Ok(change) = index.insert_noting(&number(key), step, guard) else { continue };
                noted.retain_mut(|(from, to, leaves)| {
                    let kept = leaves.iter().all(|leaf| index.still_same(leaf, guard));
                    assert!(!kept || !(*from..=*to).contains(&key), "{key} came into {from} ..= {to} unnoticed");
                    // Every other insert is the transaction's own.
                    if step % 2 == 0
                        && let Some(at) = leaves.iter().position(|leaf| *leaf == change.before)
                    {
                        leaves[at] = change.after;
                        leaves.extend(change.split);
                        return true;
                    }
                    detected += u64::from(!kept);
                    kept
                });
            } else {
                index.remove(&number(key), guard);
            }
            if noted.len() < 20 {
                let (from, length) = (random.below(400), random.below(60));
                noted.push((from, from + length, seen(&index, from, from + length, BOTH[step as usize % 2])));
            }
        }
        assert!(cfg!(miri) || detected > 1_000);
        verify(&index);
    }
}

#[test]
fn a_noted_leaf_is_never_confused_with_its_slots_successor() {
    let index = with_node_bytes(128);
    let (mut noted, mut gone) = (Vec::new(), Vec::new());
    for n in 0..40_000 / SCALE as u64 {
        index.insert(&number(n), n, &pin()).unwrap();
        if let Some(old) = n.checked_sub(60) {
            index.remove(&number(old), &pin());
        }
        noted.push(index.get_noting(&number(n), &pin()).1);
        if n % 20 == 0 {
            let guard = &pin();
            gone.extend(noted.extract_if(.., |leaf| !index.still_same(leaf, guard)).take(10));
            assert!(!gone.iter().any(|leaf| index.still_same(leaf, guard)), "a note came to life again");
            gone.truncate(200);
            noted.truncate(100);
        }
    }
    assert!(cfg!(miri) || gone.len() == 200);
}

#[test]
fn permanent_keys_are_scanned_once_and_in_order_during_writes() {
    let (keys, rounds) = (3_000 / SCALE as u64, 12 / SCALE.min(6) as u64);
    let index = with_node_bytes(256);
    // Every fifth key is permanent, except between 40 % and 60 %: there leaves and their parents
    // are removed, too.
    let stays = |n: u64| n.is_multiple_of(5) && !(keys * 2 / 5..keys * 3 / 5).contains(&n);
    (0..keys).filter(|n| stays(*n)).for_each(|n| index.insert(&number(n), n, &pin()).unwrap());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (index, stop) = (&index, &stop);
        for direction in BOTH {
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let mut rows = scanned(index, ALL, direction);
                    if direction == Direction::Backward {
                        rows.reverse();
                    }
                    assert!(rows.is_sorted_by(|a, b| a.0 < b.0), "order");
                    assert!(rows.iter().all(|(key, value)| *key == number(*value)), "a key with another's value");
                    assert!(rows.iter().map(|r| r.1).filter(|n| stays(*n)).eq((0..keys).filter(|n| stays(*n))));
                }
            });
        }
        let writers: Vec<_> = (0..3)
            .map(|thread| {
                scope.spawn(move || {
                    let mut random = Random(thread);
                    for round in 0..rounds {
                        for _ in 0..keys * 3 {
                            let n = random.below(keys);
                            if stays(n) {
                                assert_eq!(index.get(&number(n), &pin()), Some(n));
                            } else if round % 2 == 0 {
                                let _ = index.insert(&number(n), n, &pin());
                            } else {
                                index.remove(&number(n), &pin());
                            }
                        }
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        stop.store(true, Ordering::Relaxed);
    });
    verify(&index);
}

#[test]
fn a_thread_finds_its_own_writes_among_concurrent_ones() {
    let index = with_node_bytes(128);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let index = &index;
            scope.spawn(move || {
                let (mut random, mut map) = (Random(thread), BTreeMap::new());
                for step in 0..40_000 / SCALE as u64 {
                    let n = random.below(200) * 4 + thread;
                    // Few keys at a time in the second half of a wave: leaves die and are created
                    // again.
                    if step % 2_000 < 800 && random.below(3) > 0 {
                        assert_eq!(index.insert(&number(n), step, &pin()).is_ok(), !map.contains_key(&n));
                        map.entry(n).or_insert(step);
                    } else {
                        assert_eq!(index.remove(&number(n), &pin()), map.remove(&n));
                    }
                    let n = random.below(200) * 4 + thread;
                    assert_eq!(index.get(&number(n), &pin()), map.get(&n).copied());
                }
                map.keys().for_each(|n| assert!(index.remove(&number(*n), &pin()).is_some()));
            });
        }
    });
    assert!(index.is_empty());
    assert!(verify(&index) < 8, "empty leaves are left");
}

#[test]
fn one_of_concurrent_inserts_of_a_key_wins_and_the_others_get_its_value() {
    let (index, keys) = (with_node_bytes(128), 4_000 / SCALE as u64);
    let race = |work: &(dyn Fn(u64, u64) -> bool + Sync)| -> usize {
        std::thread::scope(|scope| {
            let count = |thread| (0..keys).filter(|n| work(thread, *n)).count();
            let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || count(thread))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        })
    };
    let inserted = race(&|thread, n| match index.insert(&number(n), n * 4 + thread, &pin()) {
        Ok(()) => true,
        Err(value) => {
            assert_eq!((value / 4, index.get(&number(n), &pin())), (n, Some(value)));
            false
        }
    });
    assert_eq!((inserted, index.len(), verify(&index) > 1), (keys as usize, keys as usize, true));
    let removed = race(&|_, n| index.remove(&number(n), &pin()).is_some());
    assert_eq!((removed, index.len()), (keys as usize, 0));
    assert!(verify(&index) < 8, "empty leaves are left");
}

#[test]
fn a_concurrent_queue_has_bounded_memory() {
    let (index, total) = (with_node_bytes(256), 60_000 / SCALE as u64);
    std::thread::scope(|scope| {
        let index = &index;
        scope.spawn(move || {
            for n in 0..total {
                while index.len() > 500 {
                    std::thread::yield_now();
                }
                index.insert(&number(n), n, &pin()).unwrap();
            }
        });
        scope.spawn(move || {
            let mut taken = 0;
            while taken < total {
                let guard = &pin();
                index.scan(ALL.0, ALL.1, Direction::Forward, guard, |key, value| {
                    assert_eq!(value, taken, "in order");
                    assert_eq!(index.remove(key, guard), Some(value));
                    taken += 1;
                    if taken % 16 == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                });
            }
        });
    });
    assert!(index.is_empty());
    assert!(verify(&index) < 8, "{} leaves for nothing", verify(&index));
}

#[test]
#[should_panic(expected = "the guard is not one of the default collector's")]
fn a_guard_that_would_not_protect_is_refused() {
    let other = crossbeam_epoch::Collector::new().register();
    Index::new().get(b"key", &other.pin());
}
