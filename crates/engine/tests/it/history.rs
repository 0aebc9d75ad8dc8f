//! Tables with history, on a simulated machine.

use std::path::Path;
use std::sync::Arc;

use engine::{Batch, Durability, Engine, Op, Ops, Options, Rows, TableView};
use env::sim::SimEnv;
use model::{Lsn, SqlState, TableName, TableOptions, TimeRange};

use crate::{batch, begin, commit, now, read_view, rows, spec};

const DIR: &str = "/db";
const SECOND: i64 = 1_000_000_000;

fn open(env: &SimEnv) -> Engine {
    Engine::open(Arc::new(env.clone()), Path::new(DIR), Options::default()).expect("open").0
}

fn make(engine: &Engine, keyed: bool, history: bool) {
    let mut txn = begin(engine);
    let options = TableOptions { history, ..TableOptions::default() };
    let mut spec = engine::TableSpec { options, keyed, ..spec("t") };
    if !keyed {
        spec.columns[1].role = model::ColumnRole::Field;
    }
    txn.create_table(&spec).expect("create");
    engine.finish(txn.commit(Durability::Sync)).expect("commit");
}

fn set_history(engine: &Engine, history: bool) {
    let mut txn = begin(engine);
    let name = TableName::public("t");
    let options = txn.snapshot().catalog().expect(&name).expect("table").options.clone();
    txn.set_options(&name, TableOptions { history, ..options }).expect("set");
    engine.finish(txn.commit(Durability::Sync)).expect("commit");
}

/// Commits rows with operation `op`; returns the commit time.
fn write(engine: &Engine, op: Op, rows: &[(&str, i64, f64)]) -> i64 {
    let mut txn = begin(engine);
    let id = txn.snapshot().catalog().expect(&TableName::public("t")).expect("table").id;
    let Batch { keys, rows, .. } = batch(rows);
    let columns = rows.columns().into_owned();
    let rows = Rows::new(rows.series.clone(), rows.times.clone(), Ops::All(op), columns);
    txn.write(id, Batch::new(keys, rows)).expect("write");
    engine.finish(txn.commit(Durability::Sync)).expect("commit");
    committed(engine)
}

fn delete(engine: &Engine, times: TimeRange) -> i64 {
    let mut txn = begin(engine);
    let view = txn.snapshot().table(&TableName::public("t")).expect("table");
    txn.delete(&view, None, times).expect("delete");
    engine.finish(txn.commit(Durability::Sync)).expect("commit");
    committed(engine)
}

fn committed(engine: &Engine) -> i64 {
    engine.snapshot(Lsn::ZERO).committed()
}

fn as_of(engine: &Engine, time: i64) -> model::Result<TableView> {
    let snapshot = engine.snapshot(Lsn::ZERO);
    let table = snapshot.catalog().expect(&TableName::public("t")).expect("table").id;
    snapshot.table_as_of(table, time)
}

fn read_as_of(engine: &Engine, time: i64) -> Vec<(String, i64, f64)> {
    read_view(&as_of(engine, time).expect("history"))
}

#[test]
fn every_commit_can_be_read_as_of_its_time() {
    let env = SimEnv::new(1);
    let mut engine = open(&env);
    make(&engine, true, true);
    let made = committed(&engine);
    let keep = Op::Keep;
    let update = Op::Update(Arc::from([model::ColumnId(2)]));
    let times = [
        write(&engine, Op::Replace, &[("a", 1, 1.0), ("b", 1, 2.0)]),
        write(&engine, Op::Replace, &[("a", 1, 3.0)]),
        write(&engine, keep, &[("a", 1, 4.0), ("c", 1, 4.0)]),
        delete(&engine, TimeRange { start: 0, last: 9 }),
        write(&engine, Op::Merge, &[("a", 1, 5.0)]),
        write(&engine, update, &[("a", 1, 6.0)]),
    ];
    let states = [
        rows(&[("a", 1, 1.0), ("b", 1, 2.0)]),
        rows(&[("a", 1, 3.0), ("b", 1, 2.0)]),
        rows(&[("a", 1, 3.0), ("b", 1, 2.0), ("c", 1, 4.0)]),
        rows(&[]),
        rows(&[("a", 1, 5.0)]),
        rows(&[("a", 1, 6.0)]),
    ];
    let check = |engine: &Engine, what: &str| {
        assert_eq!(read_as_of(engine, made), rows(&[]), "{what}: when it was made");
        for (at, (time, state)) in times.iter().zip(&states).enumerate() {
            assert_eq!(&read_as_of(engine, *time), state, "{what}: commit {at}");
            let last = times.get(at + 1).map_or(*time + SECOND, |next| next - 1);
            assert_eq!(&read_as_of(engine, last), state, "{what}: just before the commit after {at}");
        }
        assert_eq!(now(engine, "t"), states[5], "{what}: now");
        assert_eq!(read_as_of(engine, i64::MAX), states[5], "{what}: a time to come");
    };
    check(&engine, "in memory");
    env.crash();
    engine = open(&env);
    check(&engine, "after a crash");
    engine.flush().expect("flush");
    check(&engine, "flushed");
    delete(&engine, TimeRange { start: 100, last: 200 });
    write(&engine, Op::Replace, &[("z", 900, 1.0)]);
    delete(&engine, TimeRange { start: 900, last: 900 });
    engine.flush().expect("flush");
    engine.settle().expect("settled");
    check(&engine, "settled");
    env.crash();
    check(&open(&env), "opened again");
}

#[test]
fn deleted_events_are_visible_as_of_earlier_times() {
    let env = SimEnv::new(2);
    let engine = open(&env);
    make(&engine, false, true);
    let count = |time| {
        let view = as_of(&engine, time).expect("history");
        let request = engine::ScanRequest::all(vec![model::ColumnId(0)]);
        view.scan(request).expect("scan").map(|batch| batch.expect("batch").num_rows()).sum::<usize>()
    };
    let event = |time: i64| {
        let mut txn = begin(&engine);
        let id = txn.snapshot().catalog().expect(&TableName::public("t")).expect("table").id;
        let mut keys = engine::KeyList::new();
        keys.intern(&[]);
        txn.write(id, Batch::new(keys, Rows::new(vec![0], vec![time], Ops::All(Op::Replace), Vec::new())))
            .expect("write");
        engine.finish(txn.commit(Durability::Sync)).expect("commit");
        committed(&engine)
    };
    let times = [event(5), event(5), event(6), delete(&engine, TimeRange { start: 5, last: 5 }), event(5)];
    for flush in [false, true] {
        if flush {
            engine.flush().expect("flush");
        }
        assert_eq!(times.map(count), [1, 2, 3, 1, 2], "flushed: {flush}");
    }
}

#[test]
fn history_starts_when_switched_on_and_the_error_names_the_time() {
    let env = SimEnv::new(3);
    let engine = open(&env);
    make(&engine, true, false);
    let first = write(&engine, Op::Replace, &[("a", 1, 1.0)]);
    let refused = |time: i64| as_of(&engine, time).map(drop).unwrap_err();
    assert_eq!(refused(first).state(), SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE);
    write(&engine, Op::Replace, &[("a", 1, 2.0)]);
    engine.flush().expect("flush");
    set_history(&engine, true);
    let begun = committed(&engine);
    assert_eq!(refused(begun - 1).state(), SqlState::INVALID_PARAMETER_VALUE);
    assert!(refused(begun - 1).message().contains(&begun.to_string()), "{}", refused(begun - 1));
    let third = write(&engine, Op::Replace, &[("a", 1, 3.0)]);
    engine.flush().expect("flush");
    engine.settle().expect("settled");
    assert_eq!(read_as_of(&engine, begun), rows(&[("a", 1, 2.0)]));
    assert_eq!(read_as_of(&engine, third), rows(&[("a", 1, 3.0)]));
    // Switching history off and on starts a new history; older versions are removed.
    set_history(&engine, false);
    assert_eq!(refused(third).state(), SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE);
    engine.settle().expect("settled");
    set_history(&engine, true);
    assert_eq!(refused(third).state(), SqlState::INVALID_PARAMETER_VALUE);
    assert_eq!(read_as_of(&engine, committed(&engine)), rows(&[("a", 1, 3.0)]));
    let segments = engine::inspect::manifest(&env, Path::new(DIR)).expect("manifest").files;
    assert_eq!(segments.values().next().expect("the table").segments[0].rows, 1, "only the last version is left");
}

#[test]
fn own_uncommitted_rows_are_not_part_of_history() {
    let env = SimEnv::new(4);
    let engine = open(&env);
    make(&engine, true, true);
    commit(&engine, "t", &[("a", 1, 1.0)]).expect("commit");
    let mut txn = begin(&engine);
    crate::put(&mut txn, "t", &[("a", 1, 2.0)]).expect("write");
    let snapshot = txn.snapshot();
    let id = snapshot.catalog().expect(&TableName::public("t")).expect("table").id;
    assert_eq!(read_view(&snapshot.table_as_of(id, i64::MAX).expect("history")), rows(&[("a", 1, 1.0)]));
}

#[test]
fn many_small_commits_are_merged_and_each_can_still_be_read() {
    let env = SimEnv::new(5);
    let engine = open(&env);
    make(&engine, true, true);
    let times: Vec<i64> = (0..300).map(|at| write(&engine, Op::Replace, &[("a", at % 7, at as f64)])).collect();
    let snapshot = engine.snapshot(Lsn::ZERO);
    let state = Arc::clone(snapshot.table(&TableName::public("t")).expect("table").state());
    assert!(state.entries.len() < 60, "{} entries", state.entries.len());
    for flush in [false, true] {
        if flush {
            engine.flush().expect("flush");
        }
        for (at, time) in times.iter().enumerate().step_by(13) {
            let newest = read_as_of(&engine, *time).into_iter().map(|row| row.2).fold(f64::MIN, f64::max);
            assert_eq!(newest, at as f64, "flushed: {flush}");
            assert_eq!(read_as_of(&engine, *time).len(), 7.min(at + 1));
        }
    }
}
