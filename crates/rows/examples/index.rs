//! Benchmark of the index on this machine: `cargo run --release -p rows --example index [KEYS]`.
//!
//! Nanoseconds per operation in wall-clock and CPU time per thread (they differ when threads wait
//! for locks or share the machine), compared with std's `BTreeMap` under a lock and
//! `crossbeam-skiplist`. Keys: 8 bytes (a number) and 24 bytes (three numbers, like a composite
//! key). Inserts are sequential or random; gets and removals are random.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::ops::{Bound, ControlFlow};
use std::time::Instant;

use crossbeam_epoch::{Guard, pin};
use crossbeam_skiplist::SkipMap;
use parking_lot::RwLock;
use rows::index::{Direction, Index};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Key = Box<[u8]>;

/// The operations measured on each map.
trait Map: Sync {
    fn insert(&self, key: &Key, value: u64, guard: &Guard);
    fn get(&self, key: &Key, guard: &Guard) -> Option<u64>;
    fn remove(&self, key: &Key, guard: &Guard);
    /// Sums up to `steps` values, scanning from `key`.
    fn scan(&self, key: &Key, steps: usize, guard: &Guard) -> u64;
}

impl Map for Index {
    fn insert(&self, key: &Key, value: u64, guard: &Guard) {
        let _ = Index::insert(self, key, value, guard);
    }

    fn get(&self, key: &Key, guard: &Guard) -> Option<u64> {
        Index::get(self, key, guard)
    }

    fn remove(&self, key: &Key, guard: &Guard) {
        Index::remove(self, key, guard);
    }

    fn scan(&self, key: &Key, steps: usize, guard: &Guard) -> u64 {
        let (mut left, mut sum) = (steps, 0_u64);
        Index::scan(self, Bound::Included(key), Bound::Unbounded, Direction::Forward, guard, |key, value| {
            sum = sum.wrapping_add(value + key.len() as u64);
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        sum
    }
}

impl Map for RwLock<BTreeMap<Key, u64>> {
    fn insert(&self, key: &Key, value: u64, _: &Guard) {
        self.write().insert(key.clone(), value);
    }

    fn get(&self, key: &Key, _: &Guard) -> Option<u64> {
        self.read().get(key).copied()
    }

    fn remove(&self, key: &Key, _: &Guard) {
        self.write().remove(key);
    }

    fn scan(&self, key: &Key, steps: usize, _: &Guard) -> u64 {
        let sum = |sum: u64, (key, value): (&Key, &u64)| sum.wrapping_add(*value + key.len() as u64);
        self.read().range(key.clone()..).take(steps).fold(0, sum)
    }
}

impl Map for SkipMap<Key, u64> {
    fn insert(&self, key: &Key, value: u64, _: &Guard) {
        SkipMap::insert(self, key.clone(), value);
    }

    fn get(&self, key: &Key, _: &Guard) -> Option<u64> {
        SkipMap::get(self, key).map(|entry| *entry.value())
    }

    fn remove(&self, key: &Key, _: &Guard) {
        SkipMap::remove(self, key);
    }

    fn scan(&self, key: &Key, steps: usize, _: &Guard) -> u64 {
        self.range(key.clone()..)
            .take(steps)
            .fold(0, |sum, entry| sum.wrapping_add(*entry.value() + entry.key().len() as u64))
    }
}

fn main() {
    let count = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let [insert, get, scan, both, remove] = ["insert", "get", "scan", "insert+get", "remove"];
    println!("{:<32} {insert:>11} {get:>11} {scan:>11} {both:>11} {remove:>11}", "ns wall/CPU an operation");
    for bytes in [8, 24] {
        for (order, shuffled) in [("in order", false), ("at random", true)] {
            for threads in [1, 2] {
                println!("{bytes}-byte keys {order}, {threads} thread(s)");
                let index = Index::new();
                measure("  Index", &index, bytes, shuffled, threads, count, || {
                    format!("{:.1} bytes a key", index.memory_bytes() as f64 / index.len() as f64)
                });
                let map = RwLock::new(BTreeMap::new());
                measure("  BTreeMap, parking_lot::RwLock", &map, bytes, shuffled, threads, count, String::new);
                let map = SkipMap::new();
                measure("  crossbeam-skiplist", &map, bytes, shuffled, threads, count, String::new);
            }
        }
    }
    build(count);
}

fn measure(
    name: &str,
    map: &impl Map,
    bytes: usize,
    shuffled: bool,
    threads: usize,
    count: usize,
    size: impl Fn() -> String,
) {
    let keys: Vec<Key> = (0..count as u64).map(|n| key(n, bytes)).collect();
    let random: Vec<Key> = permuted(count).map(|n| key(n, bytes)).collect();
    let first = if shuffled { &random } else { &keys };
    let insert = timed(threads, first, |key, guard| map.insert(key, 1, guard));
    let size = size();
    // A different order than the inserts, which would favour the allocator.
    let mut asked = random.clone();
    asked.reverse();
    asked.rotate_left(count / 3);
    let get = timed(threads, &asked, |key, guard| {
        black_box(map.get(key, guard));
    });
    const STEPS: usize = 100;
    let starts = &asked[..(count / STEPS).max(1)];
    let scan = timed(threads, starts, |key, guard| {
        black_box(map.scan(key, STEPS, guard));
    });
    let scan = [scan[0] / STEPS as f64, scan[1] / STEPS as f64];
    let remove_half = &asked[..count / 2];
    let remove = timed(threads, remove_half, |key, guard| map.remove(key, guard));
    let mixed = timed(threads, remove_half, |key, guard| {
        map.insert(key, 2, guard);
        black_box(map.get(key, guard));
    });
    let places = |ns: f64| usize::from(ns < 100.0);
    let cell = |[wall, cpu]: [f64; 2]| format!("{wall:.*}/{cpu:.*}", places(wall), places(cpu));
    let [insert, get, scan, mixed, remove] = [insert, get, scan, mixed, remove].map(cell);
    println!("{name:<32} {insert:>11} {get:>11} {scan:>11} {mixed:>11} {remove:>11}  {size}");
}

/// Wall-clock and CPU nanoseconds per key. Thread t handles every n-th key from t, in order, with a
/// guard per key.
fn timed(threads: usize, keys: &[Key], work: impl Fn(&Key, &Guard) + Sync) -> [f64; 2] {
    let (work, start) = (&work, Instant::now());
    let run = |thread| {
        let before = cpu_ns();
        keys.iter().skip(thread).step_by(threads).for_each(|key| work(key, &pin()));
        cpu_ns() - before
    };
    let run = &run;
    let cpu: u64 = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
        running.into_iter().map(|thread| thread.join().expect("a thread panicked")).sum()
    });
    let wall = start.elapsed().as_nanos() as f64 * threads as f64;
    [wall / keys.len() as f64, cpu as f64 / keys.len() as f64]
}

/// CPU time of this thread; 0 where the system does not report it.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

fn build(count: usize) {
    for bytes in [8, 24] {
        let keys: Vec<Key> = (0..count as u64).map(|n| key(n, bytes)).collect();
        let start = Instant::now();
        let index = Index::build(keys.iter().zip(0..));
        let each = start.elapsed().as_nanos() as f64 / count as f64;
        let size = index.memory_bytes() as f64 / count as f64;
        println!("built from {bytes}-byte keys: {each:.0} ns and {size:.1} bytes a key");
    }
}

/// A key that ascends with `n`; long keys are (warehouse, district, order).
fn key(n: u64, bytes: usize) -> Key {
    match bytes {
        8 => n.to_be_bytes().into(),
        _ => [n / 100_000, n / 10_000 % 10, n % 10_000].map(u64::to_be_bytes).concat().into(),
    }
}

/// A pseudo-random permutation of 0 .. count.
fn permuted(count: usize) -> impl Iterator<Item = u64> {
    let mut numbers: Vec<u64> = (0..count as u64).collect();
    let mut state = 1_u64;
    for at in (1..count).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        numbers.swap(at, (state >> 33) as usize % (at + 1));
    }
    numbers.into_iter()
}
