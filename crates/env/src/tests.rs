//! Facts about every [`Env`], checked against the real side and (once more) the simulated one.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Env, Event, Open, RealEnv, Step, replace_file};

fn on_real_side(fact: impl Fn(&dyn Env, &Path)) {
    let dir = tempfile::tempdir().unwrap();
    fact(&RealEnv::new(), dir.path());
}

macro_rules! facts {
    ($($name:ident)*) => {
        mod real_side { $(#[test] fn $name() { super::on_real_side(super::$name); })* }
    };
}

facts! {
    bytes_written_are_read_back
    reading_past_the_end_is_unexpected_eof
    growing_and_allocating_give_zeros
    cutting_then_growing_forgets_the_old_bytes
    create_new_refuses_an_existing_file
    missing_files_are_not_found
    rename_replaces_its_target
    listing_is_sorted_and_says_sizes
    a_removed_folder_is_gone_with_its_contents
    replace_file_leaves_only_the_new_contents
    the_lock_is_exclusive_until_dropped
    clocks_do_not_go_back
    a_worker_runs_until_it_finishes
    a_woken_worker_runs_again
    a_worker_runs_at_its_deadline
    a_stopped_worker_never_runs_again
    free_space_is_told
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

fn cutting_then_growing_forgets_the_old_bytes(env: &dyn Env, dir: &Path) {
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

fn listing_is_sorted_and_says_sizes(env: &dyn Env, dir: &Path) {
    env.create_dir_all(&dir.join("m/n")).unwrap();
    env.create_dir_all(&dir.join("m/n")).unwrap();
    for (name, bytes) in [("z", 3), ("b", 5)] {
        env.open(&dir.join(name), Open::CreateNew).unwrap().set_bytes(bytes).unwrap();
    }
    let found: Vec<_> = env.list(dir).unwrap().into_iter().map(|e| (e.name, e.bytes, e.is_dir)).collect();
    assert_eq!(found, [("b".into(), 5, false), ("m".into(), 0, true), ("z".into(), 3, false)]);
}

fn a_removed_folder_is_gone_with_its_contents(env: &dyn Env, dir: &Path) {
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

fn clocks_do_not_go_back(env: &dyn Env, _dir: &Path) {
    let (before, wall) = (env.monotonic_ns(), env.now_ns());
    assert!(env.monotonic_ns() >= before);
    assert!(wall > 1_000_000_000_000_000_000, "{wall} is no time of this century");
    assert_ne!(env.random(), env.random());
}

/// A worker that counts its steps, answers what `answer` says for each, and sets the event after the `until`-th.
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

fn free_space_is_told(env: &dyn Env, dir: &Path) {
    assert!(env.free_bytes(dir).unwrap() > 0);
}
