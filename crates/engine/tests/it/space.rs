//! A full disk: operations that free space, and the errors of writers.

use std::path::Path;
use std::sync::Arc;

use engine::{Altered, Durability, Engine, Options, Progress, RowData};
use env::Env;
use env::sim::SimEnv;
use model::{Lsn, Result, SqlState, TableName, TimeRange};

use crate::rows::{alter, amounts, create, next_version, put_rows, table};
use crate::{begin, commit, make, now, put};

const DIR: &str = "/db";

fn options() -> Options {
    Options { log_file_bytes: 1 << 20, memory_bytes: 2 << 20, ..Options::default() }
}

fn open(env: &SimEnv) -> Engine {
    Engine::open(Arc::new(env.clone()), Path::new(DIR), options()).expect("open").0
}

fn data_bytes(env: &SimEnv) -> u64 {
    env.list(&Path::new(DIR).join("data")).expect("list").iter().map(|entry| entry.bytes).sum()
}

/// Rows that no encoding compresses.
fn noise(env: &SimEnv, rows: i64) -> Vec<(&'static str, i64, f64)> {
    (0..rows).map(|at| ("a", at, f64::from_bits(env.random() >> 2))).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Free {
    Drop,
    Truncate,
    DropRows,
    TruncateRows,
}

fn free(engine: &Engine, how: Free) -> Result<Lsn> {
    let mut txn = begin(engine);
    match how {
        Free::Drop => txn.drop_table(&TableName::public("large"))?,
        Free::Truncate => {
            let view = txn.snapshot().table(&TableName::public("large"))?;
            txn.delete(&view, None, TimeRange::ALL)?;
        }
        Free::DropRows => {
            let id = table(&mut txn, "large_rows").id();
            assert!(matches!(txn.drop_row_table(id)?, Altered::Done(())));
        }
        Free::TruncateRows => {
            let old = table(&mut txn, "large_rows");
            alter(&mut txn, next_version(&old), RowData::Discard);
        }
    }
    engine.finish(txn.commit(Durability::Sync))
}

/// The bug: files of a dropped or truncated table were removed only by the next flush, which needs
/// space for the memtables of all other tables. The fix: a manifest edit of its own.
#[test]
fn dropping_and_truncating_frees_space_on_a_full_disk_without_a_flush() {
    for how in [Free::Drop, Free::Truncate, Free::DropRows, Free::TruncateRows] {
        let env = SimEnv::new(11);
        let engine = open(&env);
        make(&engine, "large");
        make(&engine, "other");
        create(&engine, "large_rows");
        commit(&engine, "large", &noise(&env, 4_000)).expect("commit");
        put_rows(&engine, "large_rows", (0..2_000).map(|id| (id, i64::from(id))));
        engine.flush().expect("flush");
        // A flush would have to write this first, and has no space for it.
        commit(&engine, "other", &noise(&env, 500)).expect("commit");
        commit(&engine, "large", &[("late", 9_999, 1.0)]).expect("commit");
        env.advance(50_000_000);
        env.run_until_idle();
        env.set_capacity(env.used_bytes());
        assert_eq!(engine.flush().expect_err("no room").state(), SqlState::DISK_FULL, "{how:?}");
        let (before, flushes) = (data_bytes(&env), engine.stats().metric("flushes"));

        free(&engine, how).expect("the reserve of the log takes it");
        env.run_until_idle();
        let freed = before - data_bytes(&env);
        assert!(freed > 10_000 && engine.stats().metric("flushes") == flushes, "{how:?}: {freed} of {before} bytes");
        env.set_capacity(env.used_bytes());

        // A crash does not undo the drop, and the other tables are complete.
        let others = now(&engine, "other");
        env.crash();
        drop(engine);
        for restart in 0..2 {
            let engine = open(&env);
            assert_eq!(now(&engine, "other"), others, "{how:?}");
            let mut txn = begin(&engine);
            let snapshot = txn.snapshot();
            match how {
                Free::Drop => assert!(snapshot.table(&TableName::public("large")).is_err()),
                Free::Truncate => assert!(now(&engine, "large").is_empty()),
                Free::DropRows => assert!(snapshot.row_table(&TableName::public("large_rows")).is_err()),
                Free::TruncateRows => assert!(amounts(&engine, "large_rows").is_empty()),
            }
            assert!(snapshot.table(&TableName::public("other")).is_ok());
            drop(txn);
            if restart == 0 {
                env.set_capacity(u64::MAX);
                engine.flush().expect("flush");
            }
            engine.close().expect("close");
        }
    }
}

/// The bug: writers waited 30 seconds and received an error about memory.
#[test]
fn writers_with_full_memtables_on_a_full_disk_fail_within_two_seconds() {
    let env = SimEnv::new(12);
    let engine = open(&env);
    make(&engine, "t");
    make(&engine, "large");
    commit(&engine, "large", &noise(&env, 4_000)).expect("commit");
    engine.flush().expect("flush");
    env.set_capacity(env.used_bytes());
    let rows = noise(&env, 2_000);
    let (waited, refusal) = (0..200)
        .find_map(|_| {
            let started = env.monotonic_ns();
            let mut txn = begin(&engine);
            put(&mut txn, "t", &rows).expect("write");
            let mut committing = txn.commit(Durability::Async);
            loop {
                match committing.poll() {
                    Ok(Progress::Done(_)) => return None,
                    Ok(Progress::Wait(event)) => env.wait(&event),
                    Err(error) => return Some((env.monotonic_ns() - started, error)),
                }
            }
        })
        .expect("memory or the log is full some time");
    assert_eq!(refusal.state(), SqlState::DISK_FULL, "{refusal}");
    assert!(waited < 2_000_000_000, "{waited} ns");
    free(&engine, Free::Drop).expect("drop");
    env.advance(2_000_000_000);
    env.run_until_idle();
    commit(&engine, "t", &[("b", 1, 1.0)]).expect("there is room again");
}
