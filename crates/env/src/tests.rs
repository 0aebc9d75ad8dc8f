//! Tests of every [`Env`], run in the real and the simulated environment.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sim::{Faults, SimEnv};
use crate::{Env, Event, File, Open, RealEnv, Step, replace_file};

fn on_real_side(fact: impl Fn(&dyn Env, &Path)) {
    let dir = tempfile::tempdir().unwrap();
    fact(&RealEnv::new(), dir.path());
}

fn on_simulated_side(fact: impl Fn(&dyn Env, &Path)) {
    for seed in 0..20 {
        let env = SimEnv::new(seed);
        let dir = Path::new("/some/folder");
        env.create_dir_all(dir).unwrap();
        fact(&env, dir);
    }
}

macro_rules! facts {
    ($($name:ident)*) => {
        mod real_side { $(#[test] fn $name() { super::on_real_side(super::$name); })* }
        mod simulated_side { $(#[test] fn $name() { super::on_simulated_side(super::$name); })* }
    };
}

facts! {
    bytes_written_are_read_back
    reading_past_the_end_is_unexpected_eof
    growing_and_allocating_give_zeros
    truncating_then_growing_clears_the_old_bytes
    create_new_refuses_an_existing_file
    missing_files_are_not_found
    rename_replaces_its_target
    listing_is_sorted_and_has_sizes
    a_removed_directory_loses_its_contents
    replace_file_leaves_only_the_new_contents
    the_lock_is_exclusive_until_dropped
    clocks_never_decrease
    a_worker_runs_until_it_finishes
    a_woken_worker_runs_again
    a_worker_runs_at_its_deadline
    a_stopped_worker_never_runs_again
    free_space_is_reported
}

/// A table of thousands of segments is unreadable at the default limit of a shell.
#[test]
fn the_first_file_opened_raises_the_limit_of_open_files() {
    on_real_side(|env, dir| {
        env.open(&dir.join("a"), Open::CreateNew).unwrap();
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: writes the structure it is given.
        assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
        assert_eq!(limit.rlim_cur, limit.rlim_max);
    });
}

fn bytes_written_are_read_back(env: &dyn Env, dir: &Path) {
    let file = env.open(&dir.join("a"), Open::CreateNew).unwrap();
    file.write_at(b"hello world", 3).unwrap();
    file.write_at(b"W", 9).unwrap();
    assert_eq!(file.bytes().unwrap(), 14);
    file.sync().unwrap();
    let mut bytes = [9u8; 14];
    env.open(&dir.join("a"), Open::Read).unwrap().read_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"\0\0\0hello World");
    assert_eq!(file.path(), dir.join("a"));
}

fn reading_past_the_end_is_unexpected_eof(env: &dyn Env, dir: &Path) {
    let file = env.open(&dir.join("a"), Open::CreateNew).unwrap();
    file.write_at(b"1234", 0).unwrap();
    for (len, offset) in [(5, 0), (1, 4), (4, 100)] {
        let error = file.read_at(&mut vec![0; len], offset).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{len} bytes at {offset}");
    }
}

fn growing_and_allocating_give_zeros(env: &dyn Env, dir: &Path) {
    let file = env.open(&dir.join("a"), Open::CreateNew).unwrap();
    file.write_at(b"x", 0).unwrap();
    file.allocate(10_000).unwrap();
    assert_eq!(file.bytes().unwrap(), 10_000);
    file.allocate(100).unwrap();
    assert_eq!(file.bytes().unwrap(), 10_000, "allocating inside does not cut");
    file.set_bytes(20_000).unwrap();
    let mut bytes = vec![1; 20_000];
    file.read_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes[0], b'x');
    assert!(bytes[1..].iter().all(|byte| *byte == 0));
}

fn truncating_then_growing_clears_the_old_bytes(env: &dyn Env, dir: &Path) {
    let file = env.open(&dir.join("a"), Open::CreateNew).unwrap();
    file.write_at(&[7; 3000], 0).unwrap();
    file.set_bytes(1000).unwrap();
    file.set_bytes(3000).unwrap();
    let mut bytes = vec![1; 3000];
    file.read_at(&mut bytes, 0).unwrap();
    assert!(bytes[..1000].iter().all(|byte| *byte == 7) && bytes[1000..].iter().all(|byte| *byte == 0));
}

fn create_new_refuses_an_existing_file(env: &dyn Env, dir: &Path) {
    env.open(&dir.join("a"), Open::CreateNew).unwrap();
    assert_eq!(env.open(&dir.join("a"), Open::CreateNew).err().unwrap().kind(), ErrorKind::AlreadyExists);
}

fn missing_files_are_not_found(env: &dyn Env, dir: &Path) {
    let missing = dir.join("missing");
    assert_eq!(env.open(&missing, Open::Read).err().unwrap().kind(), ErrorKind::NotFound);
    assert_eq!(env.open(&missing, Open::ReadWrite).err().unwrap().kind(), ErrorKind::NotFound);
    assert_eq!(env.remove(&missing).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(env.rename(&missing, &dir.join("b")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(env.list(&missing).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(env.open(&missing.join("a"), Open::CreateNew).err().unwrap().kind(), ErrorKind::NotFound);
    env.remove_dir_all(&missing).unwrap();
}

fn rename_replaces_its_target(env: &dyn Env, dir: &Path) {
    env.open(&dir.join("a"), Open::CreateNew).unwrap().write_at(b"new", 0).unwrap();
    let old = env.open(&dir.join("b"), Open::CreateNew).unwrap();
    old.write_at(b"old", 0).unwrap();
    env.rename(&dir.join("a"), &dir.join("b")).unwrap();
    let mut bytes = [0; 3];
    env.open(&dir.join("b"), Open::Read).unwrap().read_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"new");
    assert_eq!(env.list(dir).unwrap().len(), 1);
    old.read_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"old", "an open file outlives its name");
}

fn listing_is_sorted_and_has_sizes(env: &dyn Env, dir: &Path) {
    env.create_dir_all(&dir.join("m/n")).unwrap();
    env.create_dir_all(&dir.join("m/n")).unwrap();
    for (name, bytes) in [("z", 3), ("b", 5)] {
        env.open(&dir.join(name), Open::CreateNew).unwrap().set_bytes(bytes).unwrap();
    }
    let found: Vec<_> = env.list(dir).unwrap().into_iter().map(|e| (e.name, e.bytes, e.is_dir)).collect();
    assert_eq!(found, [("b".into(), 5, false), ("m".into(), 0, true), ("z".into(), 3, false)]);
}

fn a_removed_directory_loses_its_contents(env: &dyn Env, dir: &Path) {
    env.create_dir_all(&dir.join("m/n")).unwrap();
    env.open(&dir.join("m/n/a"), Open::CreateNew).unwrap();
    env.remove_dir_all(&dir.join("m")).unwrap();
    assert!(env.list(dir).unwrap().is_empty());
    assert_eq!(env.open(&dir.join("m/n/a"), Open::Read).err().unwrap().kind(), ErrorKind::NotFound);
}

fn replace_file_leaves_only_the_new_contents(env: &dyn Env, dir: &Path) {
    env.open(&dir.join("a.tmp"), Open::CreateNew).unwrap().write_at(b"left over", 0).unwrap();
    for contents in [&b"first, longer"[..], b"second"] {
        replace_file(env, &dir.join("a"), contents).unwrap();
        let file = env.open(&dir.join("a"), Open::Read).unwrap();
        let mut bytes = vec![0; file.bytes().unwrap() as usize];
        file.read_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, contents);
    }
    assert_eq!(env.list(dir).unwrap().len(), 1);
}

fn the_lock_is_exclusive_until_dropped(env: &dyn Env, dir: &Path) {
    let guard = env.lock(&dir.join("LOCK")).unwrap();
    assert_eq!(env.lock(&dir.join("LOCK")).err().unwrap().kind(), ErrorKind::WouldBlock);
    drop(guard);
    env.lock(&dir.join("LOCK")).unwrap();
}

fn clocks_never_decrease(env: &dyn Env, _dir: &Path) {
    let (before, wall) = (env.monotonic_ns(), env.now_ns());
    assert!(env.monotonic_ns() >= before);
    assert!(wall > 1_000_000_000_000_000_000, "{wall} is no time of this century");
    assert_ne!(env.random(), env.random());
}

/// A worker that counts its steps, returns `answer` of the count, and sets the event after step
/// `until`.
fn counting(
    env: &dyn Env,
    until: u64,
    answer: impl Fn(u64) -> Step + Send + 'static,
) -> (crate::Worker, Event, Arc<AtomicU64>) {
    let (done, steps) = (Event::new(), Arc::new(AtomicU64::new(0)));
    let (set, count) = (done.clone(), steps.clone());
    let step = move || {
        let nth = count.fetch_add(1, Ordering::SeqCst) + 1;
        if nth == until {
            set.set();
        }
        answer(nth)
    };
    (env.spawn("counting", Box::new(step)), done, steps)
}

fn a_worker_runs_until_it_finishes(env: &dyn Env, _dir: &Path) {
    let (worker, done, steps) = counting(env, 5, |nth| if nth < 5 { Step::Again } else { Step::Finished });
    env.wait(&done);
    worker.wake();
    worker.stop();
    assert_eq!(steps.load(Ordering::SeqCst), 5);
}

fn a_woken_worker_runs_again(env: &dyn Env, _dir: &Path) {
    let (worker, first, steps) = counting(env, 1, |_| Step::Idle);
    env.wait(&first);
    worker.wake();
    let (_other, second, _) = counting(env, u64::MAX, |_| Step::Finished);
    let deadline = env.monotonic_ns() + 5_000_000_000;
    let (count, set) = (steps.clone(), second.clone());
    let _watcher = env.spawn(
        "watcher",
        Box::new(move || {
            if count.load(Ordering::SeqCst) >= 2 {
                set.set();
                return Step::Finished;
            }
            Step::Again
        }),
    );
    env.wait(&second);
    assert!(env.monotonic_ns() < deadline);
    worker.stop();
}

fn a_worker_runs_at_its_deadline(env: &dyn Env, _dir: &Path) {
    let deadline = env.monotonic_ns() + 20_000_000;
    let (_worker, done, _) = counting(env, 2, move |_| Step::Until(deadline));
    env.wait(&done);
    assert!(env.monotonic_ns() >= deadline);
}

fn a_stopped_worker_never_runs_again(env: &dyn Env, _dir: &Path) {
    let (worker, done, steps) = counting(env, 3, |_| Step::Again);
    env.wait(&done);
    worker.stop();
    let seen = steps.load(Ordering::SeqCst);
    worker.wake();
    let (_other, later, _) = counting(env, 50, |_| Step::Again);
    env.wait(&later);
    assert_eq!(steps.load(Ordering::SeqCst), seen);
}

fn free_space_is_reported(env: &dyn Env, dir: &Path) {
    assert!(env.free_bytes(dir).unwrap() > 0);
}

// Only the simulated environment can crash.

const DIR: &str = "/d";

/// A machine with the durable directory `/d`.
fn machine(seed: u64) -> SimEnv {
    let env = SimEnv::new(seed);
    env.create_dir_all(Path::new(DIR)).unwrap();
    env.sync_dir(Path::new("/")).unwrap();
    env
}

fn path(name: &str) -> std::path::PathBuf {
    Path::new(DIR).join(name)
}

/// A file with durable name, durable contents `a` and then unsynced `b` over all of them.
fn half_synced(env: &SimEnv, bytes: usize) -> Arc<dyn File> {
    let file = env.open(&path("f"), Open::CreateNew).unwrap();
    file.write_at(&vec![b'a'; bytes], 0).unwrap();
    file.sync().unwrap();
    env.sync_dir(Path::new(DIR)).unwrap();
    file.write_at(&vec![b'b'; bytes], 0).unwrap();
    file
}

fn contents(env: &SimEnv, name: &str) -> Option<Vec<u8>> {
    let file = env.open(&path(name), Open::Read).ok()?;
    let mut bytes = vec![0; file.bytes().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    Some(bytes)
}

fn seeds<T: Ord>(outcome: impl Fn(u64) -> T) -> std::collections::BTreeSet<T> {
    (0..300).map(outcome).collect()
}

#[test]
fn synced_bytes_survive_every_crash_and_unsynced_sectors_survive_in_any_mixture() {
    let seen = seeds(|seed| {
        let env = machine(seed);
        half_synced(&env, 2048);
        env.crash();
        let bytes = contents(&env, "f").unwrap();
        assert_eq!(bytes.len(), 2048);
        let sectors: Vec<u8> = bytes.chunks(512).map(|sector| sector[0]).collect();
        assert!(bytes.chunks(512).all(|sector| sector.iter().all(|byte| *byte == sector[0])), "torn inside a sector");
        String::from_utf8(sectors).unwrap()
    });
    for expected in ["aaaa", "bbbb", "abab", "aaab", "baaa"] {
        assert!(seen.contains(expected), "{expected} never came up in {seen:?}");
    }
}

#[test]
fn all_synced_bytes_survive() {
    for seed in 0..100 {
        let env = machine(seed);
        half_synced(&env, 2048).sync().unwrap();
        env.crash();
        assert_eq!(contents(&env, "f").unwrap(), vec![b'b'; 2048], "seed {seed}");
    }
}

#[test]
fn a_rename_may_be_lost_until_its_directory_is_synced() {
    let after_crash = |seed, sync: bool| {
        let env = machine(seed);
        half_synced(&env, 10);
        env.rename(&path("f"), &path("g")).unwrap();
        if sync {
            env.sync_dir(Path::new(DIR)).unwrap();
        }
        env.crash();
        (contents(&env, "f").is_some(), contents(&env, "g").is_some())
    };
    let both = [(false, true), (true, false)];
    assert!(seeds(|seed| after_crash(seed, false)).into_iter().eq(both));
    assert!(seeds(|seed| after_crash(seed, true)).into_iter().eq([(false, true)]));
}

#[test]
fn unsynced_removals_and_creations_may_be_undone() {
    let seen = seeds(|seed| {
        let env = machine(seed);
        half_synced(&env, 10).sync().unwrap();
        let new = env.open(&path("new"), Open::CreateNew).unwrap();
        new.write_at(b"n", 0).unwrap();
        new.sync().unwrap();
        env.remove(&path("f")).unwrap();
        env.crash();
        let old = contents(&env, "f");
        assert!(old.is_none_or(|bytes| bytes == [b'b'; 10]), "it comes back whole");
        (contents(&env, "f").is_some(), contents(&env, "new").is_some())
    });
    assert_eq!(seen.len(), 4, "every combination: {seen:?}");
}

#[test]
fn a_directory_with_an_unsynced_name_may_be_lost_with_its_synced_files() {
    let seen = seeds(|seed| {
        let env = machine(seed);
        let sub = path("sub");
        env.create_dir_all(&sub).unwrap();
        env.open(&sub.join("f"), Open::CreateNew).unwrap().sync().unwrap();
        env.sync_dir(&sub).unwrap();
        env.crash();
        env.list(&sub).is_ok_and(|entries| entries.len() == 1)
    });
    assert_eq!(seen.len(), 2);
}

#[test]
fn replace_file_leaves_the_old_or_the_new_contents_after_any_crash() {
    for seed in 0..50 {
        for call in 1.. {
            let env = machine(seed);
            replace_file(&env, &path("f"), b"old").unwrap();
            env.fail_from(env.io_calls() + call);
            let result = replace_file(&env, &path("f"), b"newer");
            env.heal();
            env.crash();
            let found = contents(&env, "f").unwrap();
            assert!(found == b"newer" || (found == b"old" && result.is_err()), "seed {seed} call {call}: {found:?}");
            if result.is_ok() {
                break;
            }
        }
    }
}

#[test]
fn a_crash_ends_open_files_locks_and_workers_but_a_kill_keeps_what_was_written() {
    let env = machine(1);
    let file = half_synced(&env, 600);
    let _lock = env.lock(&path("LOCK")).unwrap();
    let (worker, _, steps) = counting(&env, u64::MAX, |_| Step::Again);
    env.kill();
    assert!(file.read_at(&mut [0], 0).is_err() && file.write_at(b"x", 0).is_err() && file.sync().is_err());
    assert_eq!(contents(&env, "f").unwrap(), vec![b'b'; 600]);
    let _again = env.lock(&path("LOCK")).unwrap();
    worker.wake();
    env.run_until_idle();
    assert_eq!(steps.load(Ordering::SeqCst), 0);
}

#[test]
fn after_a_failed_sync_reads_return_bytes_that_never_become_durable() {
    let seen = seeds(|seed| {
        let env = machine(seed);
        let file = half_synced(&env, 512);
        env.set_faults(Faults { sync_error: 1.0, ..Faults::default() });
        file.sync().unwrap_err();
        env.heal();
        file.sync().unwrap();
        assert_eq!(contents(&env, "f").unwrap(), vec![b'b'; 512]);
        env.crash();
        contents(&env, "f").unwrap()[0]
    });
    assert!(seen.into_iter().eq([b'a', b'b']));
}

#[test]
fn the_nth_call_fails_and_a_failed_write_may_be_partial() {
    let seen = seeds(|seed| {
        let env = machine(seed);
        let file = half_synced(&env, 4);
        env.fail_at(env.io_calls() + 2);
        file.write_at(b"cccc", 0).unwrap();
        file.write_at(b"dddd", 0).unwrap_err();
        let bytes = contents(&env, "f").unwrap();
        bytes.iter().filter(|byte| **byte == b'd').count()
    });
    assert!(seen.len() > 2, "{seen:?}");
    let env = machine(1);
    env.fail_from(env.io_calls() + 1);
    assert!((0..3).all(|_| env.list(Path::new(DIR)).is_err()));
}

#[test]
fn a_full_disk_refuses_growth_and_allows_writes_to_reserved_space() {
    let env = machine(1);
    env.set_capacity(10_000);
    let full = |result: std::io::Result<()>| result.unwrap_err().kind() == ErrorKind::StorageFull;
    let a = env.open(&path("a"), Open::CreateNew).unwrap();
    a.allocate(8_000).unwrap();
    assert!(full(a.allocate(10_001)));
    let b = env.open(&path("b"), Open::CreateNew).unwrap();
    assert!(full(b.write_at(&[1; 2_001], 0)));
    assert!(full(b.allocate(2_001)));
    a.write_at(&[1; 8_000], 0).unwrap();
    env.remove(&path("a")).unwrap();
    b.write_at(&[1; 10_000], 0).unwrap();
    assert_eq!(env.free_bytes(Path::new(DIR)).unwrap(), 0);
}

#[test]
fn waiting_advances_the_clock_to_the_next_deadline() {
    let env = machine(1);
    let start = env.monotonic_ns();
    let later = start + 5_000_000_000;
    let (_worker, done, steps) = counting(&env, 2, move |_| Step::Until(later));
    env.wait(&done);
    assert!(env.monotonic_ns() >= later && steps.load(Ordering::SeqCst) == 2);
}

#[test]
#[should_panic(expected = "BUG: deadlock")]
fn waiting_for_an_event_that_no_worker_sets_panics() {
    let env = machine(1);
    let (_worker, _, _) = counting(&env, 1, |_| Step::Idle);
    env.wait(&Event::new());
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let env = machine(seed);
        let order = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let workers: Vec<_> = (0..3)
            .map(|id| {
                let order = order.clone();
                env.spawn(
                    "w",
                    Box::new(move || {
                        order.lock().push(id);
                        Step::Again
                    }),
                )
            })
            .collect();
        env.run_some(30);
        half_synced(&env, 5000);
        env.crash();
        drop(workers);
        let order = order.lock().clone();
        (order, contents(&env, "f"), env.random(), env.monotonic_ns())
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn a_flipped_bit_stays_flipped() {
    let env = machine(1);
    half_synced(&env, 600).sync().unwrap();
    env.flip_bit(&path("f"), 599, 0);
    env.crash();
    assert_eq!(contents(&env, "f").unwrap()[598..], [b'b', b'b' ^ 1]);
}

/// Niceness of a thread on Linux: 0 is the default, more is a lower priority.
#[cfg(target_os = "linux")]
fn niceness() -> i64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("stat");
    // The name, which may contain anything, is in parentheses; the 19th field is the 17th after it.
    let fields = stat.rsplit_once(") ").expect("fields").1;
    fields.split(' ').nth(16).expect("niceness").parse().expect("a number")
}

#[cfg(target_os = "linux")]
#[test]
fn spawn_low_lowers_only_the_priority_of_its_own_thread() {
    let env = RealEnv::new();
    let own = niceness();
    let run = |is_low: bool| {
        let (found, done) = (Arc::new(parking_lot::Mutex::new(None)), Event::new());
        let (inside, ended) = (Arc::clone(&found), done.clone());
        let step = Box::new(move || {
            *inside.lock() = Some(niceness());
            ended.set();
            Step::Finished
        });
        let worker = if is_low { env.spawn_low("low", step) } else { env.spawn("ordinary", step) };
        env.wait(&done);
        drop(worker);
        let found = *found.lock();
        found.expect("a number")
    };
    assert_eq!(run(true), (own + 10).min(19));
    assert_eq!((run(false), niceness()), (own, own));
}
