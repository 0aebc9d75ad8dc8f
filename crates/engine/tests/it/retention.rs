//! Retention, on a simulated machine with clocks set by the test.

use std::path::Path;
use std::sync::Arc;

use engine::{Durability, Engine, Options, inspect};
use env::Env;
use env::sim::SimEnv;
use model::{Lsn, TableName, TableOptions};

use crate::{begin, commit, now, rows, spec};

const DIR: &str = "/db";
const HOUR: i64 = 3_600_000_000_000;
const DAY: i64 = 24 * HOUR;

fn open(env: &SimEnv) -> Engine {
    Engine::open(Arc::new(env.clone()), Path::new(DIR), Options::default()).expect("open").0
}

fn make(engine: &Engine, retention_ns: Option<i64>) {
    let mut txn = begin(engine);
    let options = TableOptions { partition_length: HOUR, retention_ns, ..TableOptions::default() };
    let spec = engine::TableSpec { options, ..spec("t") };
    txn.create_table(&spec).expect("create");
    engine.finish(txn.commit(Durability::Sync)).expect("commit");
}

fn set_retention(engine: &Engine, retention_ns: Option<i64>) {
    let mut txn = begin(engine);
    let name = TableName::public("t");
    let options = txn.snapshot().catalog().expect(&name).expect("table").options.clone();
    txn.set_options(&name, TableOptions { retention_ns, ..options }).expect("set");
    engine.finish(txn.commit(Durability::Sync)).expect("commit");
}

/// Advances time and lets the compactor run.
fn pass(env: &SimEnv, ns: i64) {
    env.advance(ns.cast_unsigned());
    env.run_until_idle();
}

/// Start of the present hour.
fn hour(env: &SimEnv) -> i64 {
    env.now_ns().div_euclid(HOUR) * HOUR
}

fn segment_files(env: &SimEnv) -> usize {
    let entries = env.list(&Path::new(DIR).join("data")).expect("list");
    entries.iter().filter(|entry| entry.name.ends_with(".seg")).count()
}

#[test]
fn whole_partitions_are_dropped_when_their_end_is_older_than_the_retention() {
    let env = SimEnv::new(1);
    let engine = open(&env);
    make(&engine, Some(2 * HOUR));
    let hour = hour(&env);
    for at in [-1, 0] {
        commit(&engine, "t", &[("a", hour + at * HOUR, at as f64)]).expect("commit");
        engine.flush().expect("flush");
    }
    commit(&engine, "t", &[("a", hour - 1, 8.0), ("b", hour + HOUR, 9.0)]).expect("commit");
    let all = now(&engine, "t");
    assert_eq!(all.len(), 4);
    let held = engine.snapshot(Lsn::ZERO);
    // A check during the next hour: the previous hour ended less than two hours ago.
    pass(&env, hour + 2 * HOUR - env.now_ns() - 1_000_000_000);
    assert_eq!(now(&engine, "t"), all);
    // Two hours after its end the hour is dropped, from segments and from the memtable.
    pass(&env, 10_000_000_000);
    let kept = rows(&[("a", hour, 0.0), ("b", hour + HOUR, 9.0)]);
    assert_eq!(now(&engine, "t"), kept);
    assert_eq!(crate::read(&held, "t"), all, "a snapshot keeps what it shows");
    assert_eq!(segment_files(&env), 2);
    drop(held);
    assert_eq!(segment_files(&env), 1, "the file is gone with its last reader");
    let stats = engine.stats();
    assert_eq!((stats.metric("retention_segments"), stats.segments), (1, 1));
    assert!(stats.metric("retention_bytes") > 0);
    engine.flush().expect("flush");
    assert_eq!(now(&engine, "t"), kept);
    let manifest = inspect::manifest(&env, Path::new(DIR)).expect("manifest");
    let files = manifest.files.values().next().expect("the table");
    assert_eq!(files.kept_from, hour);
    assert!(files.segments.iter().all(|segment| segment.times.start >= hour), "a flush writes no expired rows");
    drop(engine);
    env.crash();
    assert_eq!(now(&open(&env), "t"), kept);
}

#[test]
fn late_rows_are_accepted_and_never_returned() {
    let env = SimEnv::new(2);
    let engine = open(&env);
    make(&engine, Some(2 * HOUR));
    let hour = hour(&env);
    engine.flush().expect("flush");
    pass(&env, 10_000_000_000);
    let row = |time, value| ("a", time, value);
    commit(&engine, "t", &[row(hour - 3 * HOUR, 1.0), row(hour - 2 * HOUR, 2.0)]).expect("commit");
    let kept = rows(&[row(hour - 2 * HOUR, 2.0)]);
    assert_eq!(now(&engine, "t"), kept);
    assert_eq!(engine.stats().metric("retention_late_rows"), 1);
    engine.flush().expect("flush");
    drop(engine);
    env.crash();
    let engine = open(&env);
    assert_eq!(now(&engine, "t"), kept);
    // A longer retention admits older rows only where none were dropped.
    set_retention(&engine, None);
    pass(&env, 100 * HOUR);
    assert_eq!(now(&engine, "t"), kept, "nothing goes without a retention");
    commit(&engine, "t", &[row(hour - 3 * HOUR, 1.0)]).expect("commit");
    assert_eq!(now(&engine, "t"), kept);
}

#[test]
fn a_segment_with_newer_rows_too_loses_the_old_ones_when_it_is_merged() {
    let env = SimEnv::new(3);
    let engine = open(&env);
    make(&engine, None);
    let hour = hour(&env);
    let row = |at: i64| ("a", hour + at * HOUR, at as f64);
    commit(&engine, "t", &[row(-5), row(-4), row(-1), row(0)]).expect("commit");
    engine.flush().expect("flush");
    set_retention(&engine, Some(2 * HOUR));
    env.run_until_idle();
    assert_eq!(now(&engine, "t"), rows(&[row(-1), row(0)]));
    assert_eq!(engine.stats().metric("retention_segments"), 0);
    let stored = || inspect::manifest(&env, Path::new(DIR)).expect("manifest").files.values().next().unwrap().clone();
    assert_eq!(stored().segments[0].rows, 4);
    engine.settle().expect("settled");
    assert_eq!(stored().segments[0].rows, 2);
    assert_eq!(now(&engine, "t"), rows(&[row(-1), row(0)]));
    let compactions = engine.stats().metric("compactions");
    engine.settle().expect("settled");
    assert_eq!(engine.stats().metric("compactions"), compactions, "once is enough");
}

#[test]
fn a_clock_that_jumps_ahead_by_years_does_not_drop_all_rows() {
    let env = SimEnv::new(4);
    let engine = open(&env);
    make(&engine, Some(10 * DAY));
    let today = hour(&env);
    let row = |days: i64| ("a", today - days * DAY, days as f64);
    commit(&engine, "t", &[row(9), row(8), row(1), row(0)]).expect("commit");
    engine.flush().expect("flush");
    env.set_clock_ahead(5 * 365 * DAY);
    pass(&env, 10_000_000_000);
    assert_eq!(now(&engine, "t").len(), 4);
    // After a restart, and although commits have the new time, one day an hour is dropped.
    commit(&engine, "t", &[row(2)]).expect("commit");
    drop(engine);
    env.crash();
    let engine = open(&env);
    pass(&env, HOUR + HOUR / 2);
    assert_eq!(now(&engine, "t"), rows(&[row(8), row(2), row(1), row(0)]));
    // Set right again, the trusted time catches up with the clock.
    env.set_clock_ahead(-5 * 365 * DAY);
    pass(&env, 12 * HOUR);
    assert_eq!(now(&engine, "t").len(), 4);
    pass(&env, 2 * DAY);
    assert_eq!(now(&engine, "t"), rows(&[row(2), row(1), row(0)]));
    // Setting the retention vouches for the clock.
    env.set_clock_ahead(7 * DAY);
    pass(&env, 10_000_000_000);
    assert_eq!(now(&engine, "t").len(), 3);
    set_retention(&engine, Some(10 * DAY));
    env.run_until_idle();
    assert_eq!(now(&engine, "t"), rows(&[row(0)]));
}

#[test]
fn a_retention_that_is_not_positive_is_refused() {
    let env = SimEnv::new(5);
    let engine = open(&env);
    let options = TableOptions { retention_ns: Some(-1), ..TableOptions::default() };
    let error = begin(&engine).create_table(&engine::TableSpec { options, ..spec("t") }).unwrap_err();
    assert_eq!(error.state(), model::SqlState::INVALID_PARAMETER_VALUE);
}
