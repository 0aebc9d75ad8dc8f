//! Background work, on a simulated machine, where waiting for an event that never comes panics.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::{Durability, Engine, Isolation, Options, Progress, inspect};
use env::sim::SimEnv;
use env::{Env, Step};
use model::{Lsn, SqlState, TableName, TimeRange};

use crate::{batch, begin, commit, make, now, put, spec};

const DIR: &str = "/db";

fn open(env: &SimEnv, options: &Options) -> Engine {
    Engine::open(Arc::new(env.clone()), Path::new(DIR), options.clone()).expect("open").0
}

fn small() -> Options {
    Options { log_file_bytes: 1 << 20, ..Options::default() }
}

fn fill(engine: &Engine, name: &str, segments: i64) {
    for round in 0..segments {
        commit(engine, name, &[("a", 1, round as f64), ("b", round, 2.0), ("c", 100, 3.0)]).expect("commit");
        engine.flush().expect("flush");
    }
}

/// Compares the files of the data directory with those that the manifest names.
fn assert_no_strays(env: &SimEnv, what: &str) {
    let data = Path::new(DIR).join("data");
    let seen: Vec<_> = env.list(&data).expect("list").into_iter().map(|entry| data.join(entry.name)).collect();
    let manifest = inspect::manifest(env, Path::new(DIR)).expect("manifest");
    let mut named = Vec::new();
    for files in manifest.files.values() {
        named.extend(files.segments.iter().map(|meta| columns::segment_path(&data, meta.file)));
        named.extend(files.series_files.iter().map(|file| columns::series_path(&data, file.file)));
    }
    named.sort();
    assert_eq!(seen, named, "{what}");
}

#[test]
fn settling_merges_fewer_segments_than_ordinary_compaction_would() {
    let env = SimEnv::new(1);
    let engine = open(&env, &small());
    make(&engine, "t");
    fill(&engine, "t", 3);
    env.run_until_idle();
    assert_eq!(engine.stats().segments, 3, "three segments are not merged unless asked for");
    let before = now(&engine, "t");
    engine.settle().expect("settled");
    assert_eq!(engine.stats().segments, 1);
    assert_eq!(now(&engine, "t"), before);
    let compactions = engine.stats().metric("compactions");
    engine.settle().expect("settled");
    assert_eq!(engine.stats().metric("compactions"), compactions, "settled segments are not merged again");
}

/// The bug: an assertion took the LSN of an applied delete, which is part of the output's range, for
/// a commit that the compaction had made up. The fix: the output may have any flushed commit.
#[test]
fn a_compaction_applies_deletes_newer_than_its_inputs() {
    let env = SimEnv::new(1);
    let engine = open(&env, &small());
    make(&engine, "t");
    fill(&engine, "t", 3);
    let mut txn = begin(&engine);
    let view = txn.snapshot().table(&TableName::public("t")).expect("table");
    txn.delete(&view, None, TimeRange::half_open(1, 2)).expect("delete");
    engine.finish(txn.commit(Durability::Sync)).expect("commit");
    engine.flush().expect("flush");
    let before = now(&engine, "t");
    engine.settle().expect("settled");
    assert_eq!((engine.stats().segments, now(&engine, "t")), (1, before));
    assert!(engine.readiness().is_ok());
}

/// The bug: a flush answered its callers only when nothing was left to flush. Under steady commits
/// that never happened, so CHECKPOINT waited forever while flush after flush wrote tiny segments.
/// The fix: a flush answers the callers that asked before it started.
#[test]
fn a_flush_finishes_during_steady_commits() {
    let env = SimEnv::new(2);
    let engine = open(&env, &small());
    make(&engine, "t");
    commit(&engine, "t", &[("a", 0, 1.0)]).expect("commit");
    let count = Arc::new(AtomicU64::new(0));
    let write = || {
        let (engine, count) = (engine.clone(), Arc::clone(&count));
        move || {
            let time = count.fetch_add(1, Ordering::Relaxed) as i64;
            let mut txn = begin(&engine);
            put(&mut txn, "t", &[("b", time, 1.0)]).expect("write");
            let mut committing = txn.commit(Durability::Async);
            assert!(matches!(committing.poll().expect("poll"), Progress::Done(_)));
            Step::Again
        }
    };
    let writers: Vec<_> = (0..8).map(|_| env.spawn("writer", Box::new(write()))).collect();
    for _ in 0..10 {
        engine.flush().expect("flush");
    }
    drop(writers);
    assert_eq!(engine.stats().metric("flushes"), 10, "one flush for each that was asked for");
    assert!(count.load(Ordering::Relaxed) > 10, "it did go on");
}

/// The bug: transaction numbers continued from the log's last LSN after a restart. Failed commits
/// use up numbers but no LSN, so a number could be reused while records of its first owner, logged
/// ahead of a commit that never came, were still in the log; the next recovery added them to the
/// new owner's commit. The fix: recovery continues after the highest number that it reads.
#[test]
fn rows_logged_ahead_of_a_failed_commit_never_join_a_later_transaction() {
    let env = SimEnv::new(3);
    let options = Options::default();
    let engine = open(&env, &options);
    make(&engine, "t");
    let duplicates: Vec<_> = (0..301)
        .map(|_| {
            let mut txn = begin(&engine);
            txn.create_table(&spec("u")).expect("not there yet");
            txn
        })
        .collect();
    let many: Vec<(String, i64, f64)> = (0..120_000).map(|at| ("a".to_owned(), at, (at as f64).sin())).collect();
    let many: Vec<(&str, i64, f64)> = many.iter().map(|(dev, time, value)| (dev.as_str(), *time, *value)).collect();
    for (nth, mut txn) in duplicates.into_iter().enumerate() {
        let table = engine.snapshot(Lsn::ZERO).catalog().expect(&TableName::public("t")).expect("t").id;
        if nth == 300 {
            txn.write(table, batch(&many)).expect("write");
        }
        let outcome = engine.finish(txn.commit(Durability::Sync));
        assert_eq!(outcome.is_ok(), nth == 0, "the name is taken by the first");
    }
    engine.close().expect("close");
    drop(engine);

    let engine = open(&env, &options);
    assert!(engine.stats().last_lsn < 200, "{:?}", engine.stats());
    for time in 0..400 {
        commit(&engine, "t", &[("a", time, 7.0)]).expect("commit");
    }
    engine.close().expect("close");
    drop(engine);
    assert_eq!(now(&open(&env, &options), "t").len(), 400);
}

/// The bug: the workers were stopped without answering callers that waited for them or started to
/// wait later.
#[test]
fn after_close_flush_and_settle_are_refused() {
    let env = SimEnv::new(4);
    let engine = open(&env, &small());
    make(&engine, "t");
    engine.close().expect("close");
    assert_eq!(engine.flush().unwrap_err().state(), SqlState::ADMIN_SHUTDOWN);
    assert_eq!(engine.settle().unwrap_err().state(), SqlState::ADMIN_SHUTDOWN);
    let waiting = open_after(engine, &env).start_flush();
    assert!(waiting.event.is_set());
    assert_eq!(waiting.result().unwrap_err().state(), SqlState::ADMIN_SHUTDOWN);
}

/// Opens the database again, with a flush requested and no time to do it before closing.
fn open_after(old: Engine, env: &SimEnv) -> Engine {
    drop(old);
    let engine = open(env, &small());
    commit(&engine, "t", &[("a", 1, 1.0)]).expect("commit");
    let flushing = engine.start_flush();
    engine.close().expect("close");
    assert!(flushing.event.is_set(), "closing lets go of who waits for a flush");
    engine
}

#[test]
fn closing_wakes_writers_that_wait_for_memory() {
    let env = SimEnv::new(5);
    let engine = open(&env, &Options { memory_bytes: 1 << 20, ..small() });
    make(&engine, "t");
    env.run_until_idle();
    env.set_capacity(env.used_bytes());
    let chunk: Vec<(&str, i64, f64)> = (0..500).map(|at| ("a", at, 0.5)).collect();
    let (event, mut committing) = (0..1_000)
        .find_map(|_| {
            let mut txn = begin(&engine);
            put(&mut txn, "t", &chunk).expect("write");
            let mut committing = txn.commit(Durability::Async);
            match committing.poll().expect("poll") {
                Progress::Wait(event) => Some((event, committing)),
                Progress::Done(_) => None,
            }
        })
        .expect("memory is full some time");
    assert!(!event.is_set());
    engine.close().expect("close");
    assert!(event.is_set());
    assert_eq!(committing.poll().unwrap_err().state(), SqlState::ADMIN_SHUTDOWN);
}

/// The bug: dropping the last handle stopped the log worker before it wrote pending records.
#[test]
fn async_commits_survive_dropping_the_last_handle() {
    let env = SimEnv::new(6);
    let engine = open(&env, &small());
    make(&engine, "t");
    let mut txn = engine.begin(Isolation::ReadCommitted, Lsn::ZERO);
    put(&mut txn, "t", &[("a", 1, 1.0)]).expect("write");
    engine.finish(txn.commit(Durability::Async)).expect("commit");
    drop(engine);
    assert_eq!(now(&open(&env, &small()), "t").len(), 1);
}

/// The bug: files of a failed flush or compaction were kept until the next start, and on a full
/// disk, where the work is retried every second, took all remaining space. The fix: they are
/// removed at once, or when a manifest is on disk that certainly does not name them.
#[test]
fn a_failed_flush_or_compaction_leaves_no_files_behind() {
    for settling in [false, true] {
        let mut failures = 0;
        for nth in 1..200 {
            let env = SimEnv::new(7);
            let engine = open(&env, &small());
            make(&engine, "t");
            make(&engine, "u");
            commit(&engine, "u", &[("x", 1, 1.0)]).expect("commit");
            fill(&engine, "t", 3);
            env.run_until_idle();
            commit(&engine, "t", &[("new", 1, 1.0)]).expect("commit");
            commit(&engine, "u", &[("new", 1, 1.0)]).expect("commit");
            // Nothing is pending in the log, so that the fault does not hit the log.
            env.advance(20_000_000);
            env.run_until_idle();
            env.fail_at(env.io_calls() + nth);
            let failed = if settling { engine.settle().is_err() } else { engine.flush().is_err() };
            env.heal();
            if engine.failure().is_some() {
                continue;
            }
            failures += u32::from(failed);
            engine.flush().expect("flush");
            engine.settle().expect("settled");
            engine.settle().expect("settled");
            if failed {
                assert_no_strays(&env, &format!("call {nth} failed, settling: {settling}"));
            }
        }
        assert!(failures > 5, "{failures} failures");
    }
}

/// The bug: compaction always started with the first table that had something due, so one damaged
/// segment there blocked compaction of all other tables.
#[test]
fn a_damaged_segment_does_not_block_compaction_of_other_tables() {
    let env = SimEnv::new(8);
    let engine = open(&env, &small());
    make(&engine, "damaged");
    make(&engine, "sound");
    fill(&engine, "damaged", 3);
    fill(&engine, "sound", 3);
    let manifest = inspect::manifest(&env, Path::new(DIR)).expect("manifest");
    let first = manifest.files.values().next().expect("files of the first table");
    let segment = columns::segment_path(&Path::new(DIR).join("data"), first.segments[0].file);
    // After the header, within the bytes of a block.
    env.flip_bit(&segment, 40, 3);
    for _ in 0..3 {
        let error = engine.settle().expect_err("one table cannot be settled");
        assert!(error.message().contains("compaction of table \"damaged\""), "{error}");
    }
    let left: Vec<usize> = inspect::manifest(&env, Path::new(DIR))
        .expect("manifest")
        .files
        .values()
        .map(|files| files.segments.len())
        .collect();
    assert_eq!(left, [3, 1]);
    assert_eq!(now(&engine, "sound").len(), 5);
}

/// Writes random rows in a segment of about 8 bytes each. (Mixed as by Steele et al., "SplitMix",
/// OOPSLA 2014.)
fn noise(engine: &Engine, name: &str, round: i64, rows: i64) {
    let mix = |bits: u64| {
        let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    };
    let value = |at: i64| f64::from_bits(mix((at + (round << 32)).cast_unsigned()) >> 2);
    let rows: Vec<(&str, i64, f64)> = (0..rows).map(|at| ("a", at, value(at))).collect();
    commit(engine, name, &rows).expect("commit");
    engine.flush().expect("flush");
}

/// Advances virtual time, from timer to timer if possible, until `done`.
fn pass_until(env: &SimEnv, what: &str, done: impl Fn() -> bool) {
    for _ in 0..1_000_000 {
        env.run_until_idle();
        if done() {
            return;
        }
        env.advance(1_000_000);
    }
    panic!("{what} does not come");
}

#[test]
fn a_compaction_keeps_its_rate() {
    const RATE: u64 = 100_000;
    for (rate, limited) in [(0, false), (RATE, true)] {
        let env = SimEnv::new(9);
        let engine = open(&env, &Options { compaction_rate: rate, ..small() });
        make(&engine, "t");
        for round in 0..4 {
            noise(&engine, "t", round, 20_000);
        }
        let before = now(&engine, "t");
        let started = env.monotonic_ns();
        pass_until(&env, "the compaction", || engine.stats().metric("compactions") == 1);
        let (took, stats) = (env.monotonic_ns() - started, engine.stats());
        assert_eq!(now(&engine, "t"), before);
        assert_eq!(stats.segments, 1);
        let moved = stats.metric("compaction_read_bytes") + stats.metric("compaction_bytes");
        assert!(
            moved > 500_000 && stats.metric("compaction_bytes") < stats.metric("compaction_read_bytes"),
            "{stats:?}"
        );
        let expected = moved * 1_000_000_000 / RATE;
        if limited {
            // The last step is paid for after the compaction, and the 100 ms burst is free at the
            // start. A step is at least one block: its rows are read from four segments.
            assert!((expected * 4 / 5..expected * 11 / 10).contains(&took), "{took} ns for {moved} bytes");
            assert!((took * 4 / 5..=took).contains(&stats.metric("compaction_wait")), "{took} ns: {stats:?}");
        } else {
            assert!(took < 100_000_000 && stats.metric("compaction_wait") == 0, "{took} ns: {stats:?}");
        }
    }
}

#[test]
fn settling_is_not_rate_limited() {
    let env = SimEnv::new(10);
    let engine = open(&env, &Options { compaction_rate: 1_000, ..small() });
    make(&engine, "t");
    for round in 0..4 {
        noise(&engine, "t", round, 20_000);
    }
    pass_until(&env, "a first wait", || engine.stats().metric("compaction_read_bytes") > 0);
    assert_eq!(engine.stats().metric("compactions"), 0, "a compaction of about ten minutes is running");
    let started = env.monotonic_ns();
    engine.settle().expect("settled");
    assert_eq!(engine.stats().segments, 1);
    assert!(env.monotonic_ns() - started < 100_000_000);
}

#[test]
fn closing_does_not_wait_for_a_limited_compaction_and_leaves_none_of_its_files() {
    let env = SimEnv::new(11);
    let engine = open(&env, &Options { compaction_rate: 1_000, ..small() });
    make(&engine, "t");
    for round in 0..4 {
        noise(&engine, "t", round, 20_000);
    }
    let names = || env.list(&Path::new(DIR).join("data")).expect("list").into_iter().map(|entry| entry.name);
    pass_until(&env, "a file", || names().any(|name| name.ends_with(".tmp")));
    let started = env.monotonic_ns();
    engine.close().expect("close");
    assert!(env.monotonic_ns() - started < 100_000_000);
    assert_no_strays(&env, "after closing");
    drop(engine);
    let engine = open(&env, &small());
    pass_until(&env, "the compaction", || engine.stats().metric("compactions") == 1);
    assert_eq!(now(&engine, "t").len(), 20_000);
}

#[test]
fn dropping_a_table_cancels_its_compaction() {
    let env = SimEnv::new(12);
    let engine = open(&env, &Options { compaction_rate: 1_000, ..small() });
    make(&engine, "t");
    for round in 0..4 {
        noise(&engine, "t", round, 20_000);
    }
    pass_until(&env, "a first wait", || engine.stats().metric("compaction_read_bytes") > 0);
    let mut txn = begin(&engine);
    txn.drop_table(&TableName::public("t")).expect("drop");
    engine.finish(txn.commit(Durability::Sync)).expect("commit");
    engine.flush().expect("flush");
    env.run_until_idle();
    let left = env.list(&Path::new(DIR).join("data")).expect("list");
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(engine.stats().metric("compactions"), 0);
}

#[test]
fn a_backlog_lifts_the_limit() {
    let env = SimEnv::new(13);
    // Too low for any compaction to finish within the test without a backlog.
    let engine = open(&env, &Options { compaction_rate: 100, ..small() });
    make(&engine, "t");
    for round in 0..80 {
        noise(&engine, "t", round, 1_000);
    }
    env.run_until_idle();
    let stats = engine.stats();
    // Up to 16 segments are merged at a time, as soon as there are 64.
    assert!(stats.metric("compactions") > 0 && stats.segments < 70, "{stats:?}");
    assert!(stats.metric("compaction_backlog") >= 32, "{stats:?}");
    assert!(env.monotonic_ns() < 60_000_000_000, "{} ns", env.monotonic_ns());
}

#[test]
fn write_amplification_counts_since_the_start() {
    let env = SimEnv::new(14);
    let engine = open(&env, &small());
    make(&engine, "t");
    for round in 0..4 {
        noise(&engine, "t", round, 20_000);
    }
    pass_until(&env, "the compaction", || engine.stats().metric("compactions") == 1);
    let (stats, parts) = (engine.stats(), engine.stats().write_amplification());
    assert_eq!(stats.ingested_bytes / (4 * 20_000), 13 + 8);
    // A quarter of the rows remains, because all have the same times.
    assert!((0.3..1.2).contains(&parts.log), "{parts:?}");
    assert!((0.3..0.6).contains(&parts.flushes), "{parts:?}");
    assert!((parts.compactions - parts.flushes / 4.0).abs() < 0.05, "{parts:?}");
    commit(&engine, "t", &[("b", 1, 1.0)]).expect("commit");
    engine.close().expect("close");
    drop(engine);
    let engine = open(&env, &small());
    assert_eq!(engine.stats().write_amplification().total(), 0.0, "what is read at the start is not written");
}

#[test]
fn compressed_and_uncompressed_logs_are_readable_under_either_setting() {
    let env = SimEnv::new(9);
    let options = |log_compression| Options { log_compression, ..small() };
    let rows: Vec<(&str, i64, f64)> =
        (0..2_000).map(|at| (if at % 3 == 0 { "a" } else { "b" }, at, (at % 700) as f64 / 100.0)).collect();
    let mut bytes = Vec::new();
    for (on, name) in [(false, "t"), (true, "u")] {
        let engine = open(&env, &options(on));
        assert_eq!(engine.stats().log_bytes, 0, "what is read at the start is not appended");
        make(&engine, name);
        let before = engine.stats().log_bytes;
        commit(&engine, name, &rows).expect("commit");
        bytes.push(engine.stats().log_bytes - before);
        drop(engine);
        env.crash();
    }
    assert!(bytes[1] * 6 < bytes[0], "{} bytes of log compressed, {} not", bytes[1], bytes[0]);
    let mut said = Vec::new();
    let shared: Arc<dyn Env> = Arc::new(env.clone());
    let each = &mut |record: inspect::LogRecord| {
        said.push(record.text);
        Ok(())
    };
    inspect::log(&shared, Path::new(DIR), Lsn(1), each).expect("readable");
    assert_eq!(said.iter().filter(|text| text.contains("2000 rows, 1 columns")).count(), 2, "{said:?}");
    let mut expected = crate::rows(&rows);
    expected.sort_by(|a, b| a.partial_cmp(b).expect("no NaN"));
    for on in [false, true] {
        let engine = open(&env, &options(on));
        assert!(now(&engine, "t") == expected && now(&engine, "u") == expected, "read with compression {on}");
        drop(engine);
        env.crash();
    }
}

#[test]
fn a_flush_frees_the_log() {
    let env = SimEnv::new(10);
    let engine = open(&env, &Options { log_compression: false, ..Options::default() });
    make(&engine, "t");
    for round in 0..40i64 {
        let rows: Vec<(&str, i64, f64)> = (0..30_000).map(|at| ("a", round * 30_000 + at, 0.5)).collect();
        commit(&engine, "t", &rows).expect("commit");
    }
    let full = engine.stats().log_disk_bytes;
    assert!(full > 24 << 20, "{full} bytes of log");
    // An idle log writes a mark that all of it is durable, which replay does not need either.
    for _ in 0..4 {
        env.advance(10_000_000);
        env.run_until_idle();
    }
    engine.flush().expect("flush");
    env.run_until_idle();
    let left = engine.stats().log_disk_bytes;
    assert!(left <= 12 << 20, "{left} bytes of {full}");
    commit(&engine, "t", &[("b", 1, 2.0)]).expect("commit");
    drop(engine);
    env.crash();
    assert_eq!(now(&open(&env, &Options::default()), "t").len(), 1_200_001);
}
