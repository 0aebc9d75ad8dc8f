//! Tests of failing and broken jobs, on a simulated machine.

use std::path::Path;

use arrow_array::{ArrayRef, Int64Array};
use columns::{Op, Ops};
use env::Env;
use env::sim::SimEnv;
use model::{ColumnId, ColumnRole, DataType, Lsn, SqlState, TableName, TableOptions, TimeRange};

use super::*;
use crate::db_version::DbVersion;
use crate::{
    Batch, ColumnSpec, Durability, Engine, Isolation, KeyList, Options, Rows, ScanRequest, SeriesFilter, TableSpec,
};

const HOUR: i64 = 3_600_000_000_000;

fn open(env: &SimEnv) -> Engine {
    let options = Options { memory_bytes: 1 << 20, log_file_bytes: 1 << 20, ..Options::default() };
    Engine::open(Arc::new(env.clone()), Path::new("/db"), options).unwrap().0
}

fn create(engine: &Engine, name: &str) -> Result<Lsn> {
    let column = |name: &str, ty, role| ColumnSpec { name: name.into(), ty, nullable: false, role };
    let columns = vec![
        column("time", DataType::Timestamp, ColumnRole::Time),
        ColumnSpec { nullable: true, ..column("v", DataType::Int64, ColumnRole::Field) },
    ];
    let options = TableOptions { partition_length: HOUR, retention_ns: Some(100 * HOUR), ..TableOptions::default() };
    let mut txn = engine.begin(Isolation::ReadCommitted, Lsn::ZERO);
    txn.create_table(&TableSpec { name: TableName::public(name), keyed: false, columns, options })?;
    engine.finish(txn.commit(Durability::Sync))
}

/// Commits `count` rows from `time` on.
fn write(engine: &Engine, name: &str, time: i64, count: i64) -> Result<Lsn> {
    let mut keys = KeyList::new();
    let series = keys.intern(b"");
    let values: ArrayRef = Arc::new((0..count).collect::<Int64Array>());
    let times = (time..time + count).collect();
    let rows = Rows::new(vec![series; count as usize], times, Ops::All(Op::Replace), vec![(ColumnId(1), values)]);
    let mut txn = engine.begin(Isolation::ReadCommitted, Lsn::ZERO);
    let table = txn.snapshot().table(&TableName::public(name))?.state().table.id;
    txn.write(table, Batch::new(keys, rows))?;
    engine.finish(txn.commit(Durability::Sync))
}

fn count(engine: &Engine, name: &str) -> usize {
    let request = ScanRequest {
        columns: vec![ColumnId(1)],
        times: TimeRange::ALL,
        series: SeriesFilter::All,
        ranges: Vec::new(),
        batch_rows: 1_024,
        limit: None,
        coded: false,
        columns_only: false,
    };
    let view = engine.snapshot(Lsn::ZERO).table(&TableName::public(name)).unwrap();
    view.scan(request).unwrap().map(|batch| batch.unwrap().num_rows()).sum()
}

/// Breaks an invariant that every job checks which replaces files: the manifest is ahead of the
/// log.
fn break_manifest(engine: &Engine) {
    engine.inner.manifests.lock().flushed_lsn = Lsn(1 << 40);
}

fn job(engine: &Engine, name: &str) -> JobStats {
    engine.stats().job(name).unwrap().clone()
}

#[test]
fn a_job_with_a_broken_invariant_stops_and_reads_and_writes_go_on() {
    let flush = |engine: &Engine, _: &SimEnv| engine.flush();
    let compact = |engine: &Engine, _: &SimEnv| engine.settle();
    let retain = |_: &Engine, env: &SimEnv| {
        env.advance(102 * HOUR.cast_unsigned());
        env.run_until_idle();
        Ok(())
    };
    let drop_files = |engine: &Engine, env: &SimEnv| {
        let mut txn = engine.begin(Isolation::ReadCommitted, Lsn::ZERO);
        txn.drop_table(&TableName::public("gone"))?;
        engine.finish(txn.commit(Durability::Sync))?;
        env.run_until_idle();
        Ok(())
    };
    type Use = fn(&Engine, &SimEnv) -> Result<()>;
    let cases: [(&str, bool, Use); 4] = [
        ("flush", true, flush),
        ("compaction", true, compact),
        ("retention", false, retain),
        ("drop-files", false, drop_files),
    ];
    for (name, has_caller, trigger) in cases {
        let env = SimEnv::new(1);
        let engine = open(&env);
        let now = env.now_ns();
        for table in ["t", "gone"] {
            create(&engine, table).unwrap();
            for round in 0..3 {
                write(&engine, table, now + round, 1).unwrap();
                engine.flush().unwrap();
            }
        }
        env.run_until_idle();
        write(&engine, "t", now + 10, 1).unwrap();
        assert!(engine.readiness().is_ok());
        let before = engine.inner.manifests.lock().flushed_lsn;
        break_manifest(&engine);

        let answer = trigger(&engine, &env);
        let stats = job(&engine, name);
        assert_eq!((stats.state, stats.failures), (JobState::Broken, 1), "{name}");
        let error = stats.last_error.unwrap();
        assert_eq!(error.state(), SqlState::INTERNAL_ERROR);
        assert!(error.message().contains(&format!("background job {name}")), "{error}");
        assert_eq!(answer.is_err(), has_caller, "{name}");
        assert_eq!(engine.readiness().unwrap_err(), error);
        assert!(engine.failure().is_none(), "writes are not refused");

        // It never runs again, and callers are refused at once.
        env.advance(10 * RETRY_NS);
        env.run_until_idle();
        assert_eq!(job(&engine, name).steps, stats.steps, "{name}");
        if has_caller {
            assert_eq!(trigger(&engine, &env).unwrap_err(), error);
        }
        // Reads and writes go on, and nothing is lost.
        write(&engine, "t", now + 200 * HOUR, 1).unwrap();
        assert_eq!(count(&engine, "t"), 5, "{name}");
        engine.close().unwrap();
        assert_eq!(job(&engine, name).state, JobState::Broken);
        assert_eq!(job(&engine, "log").state, JobState::Closed);
        drop(engine);
        let engine = open(&env);
        assert_eq!(engine.inner.manifests.lock().flushed_lsn, before, "{name}: no wrong manifest was written");
        assert_eq!(count(&engine, "t"), 5, "{name}");
        assert!(engine.readiness().is_ok());
    }
}

#[test]
fn a_broken_invariant_of_the_commit_point_refuses_writes_and_reads_go_on() {
    let env = SimEnv::new(2);
    let engine = open(&env);
    create(&engine, "t").unwrap();
    write(&engine, "t", env.now_ns(), 3).unwrap();
    env.run_until_idle();
    let newest = engine.inner.versions.newest();
    let newest = DbVersion { lsn: Lsn(1 << 40), wall_ns: newest.wall_ns + 1, ..(*newest).clone() };
    engine.inner.versions.push(newest);

    let error = write(&engine, "t", env.now_ns() + 100, 1).unwrap_err();
    assert_eq!(error.state(), SqlState::INTERNAL_ERROR);
    assert!(error.message().contains("the commit point"), "{error}");
    assert_eq!(engine.failure(), Some(error.clone()));
    assert_eq!(engine.readiness().unwrap_err(), error);
    assert_eq!(write(&engine, "t", env.now_ns() + 200, 1).unwrap_err(), error);
    assert_eq!(create(&engine, "u").unwrap_err(), error);
    assert_eq!(engine.flush().unwrap_err(), error, "the log is kept");
    assert_eq!(count(&engine, "t"), 3);
    drop(engine);
    // The record of the first refused commit was in the log.
    assert_eq!(count(&open(&env), "t"), 4);
}

#[test]
fn writers_receive_the_error_of_a_broken_flush_when_memory_is_full() {
    let env = SimEnv::new(3);
    let engine = open(&env);
    create(&engine, "t").unwrap();
    break_manifest(&engine);
    let error = engine.flush().unwrap_err();
    let (waited, refusal) = (0..1_000)
        .find_map(|round| {
            let started = env.monotonic_ns();
            let refusal = write(&engine, "t", env.now_ns() + round * 1_000, 1_000).err()?;
            Some((env.monotonic_ns() - started, refusal))
        })
        .expect("memory is full some time");
    assert_eq!(refusal, error);
    assert!(waited < RETRY_NS, "{waited} ns");
}

#[test]
fn a_failed_job_is_retried_after_a_second() {
    let env = SimEnv::new(4);
    let engine = open(&env);
    create(&engine, "t").unwrap();
    write(&engine, "t", env.now_ns(), 1_000).unwrap();
    env.advance(RETRY_NS);
    env.run_until_idle();
    env.set_capacity(env.used_bytes());
    assert_eq!(engine.flush().unwrap_err().state(), SqlState::DISK_FULL);
    let failed = job(&engine, "flush");
    assert_eq!((failed.state, failed.failures), (JobState::Idle, 1));
    assert_eq!(failed.last_error.unwrap().state(), SqlState::DISK_FULL);
    env.set_capacity(u64::MAX);
    let pending = engine.start_flush();
    env.run_until_idle();
    assert!(!pending.event.is_set(), "too early");
    env.advance(RETRY_NS);
    env.run_until_idle();
    assert!(pending.event.is_set() && pending.result().is_ok());
    assert_eq!(engine.stats().metric("flushes"), 1);
    assert!(engine.readiness().is_ok());
}

#[test]
fn every_metric_has_a_name_of_its_own() {
    let engine = open(&SimEnv::new(5));
    let stats = engine.stats();
    let names: std::collections::BTreeSet<&str> =
        stats.jobs.iter().flat_map(|job| &job.metrics).map(|metric| metric.name).collect();
    assert_eq!(names.len(), stats.jobs.iter().map(|job| job.metrics.len()).sum::<usize>());
    let jobs: Vec<(&str, usize)> = stats.jobs.iter().map(|job| (job.name, job.name.len())).collect();
    assert!(jobs.iter().all(|(_, bytes)| *bytes <= 11), "names of threads end after 15 bytes: {jobs:?}");
}
