//! Deletes of single rows of `columns` tables.

use engine::OwnRowDeletes;
use model::TableId;

use super::*;

/// An unkeyed table `e` of times and values.
fn make_unkeyed(engine: &Engine) {
    let columns =
        vec![column("time", DataType::Timestamp, ColumnRole::Time), column("v", DataType::Float64, ColumnRole::Field)];
    let spec = TableSpec { name: TableName::public("e"), keyed: false, columns, options: TableOptions::default() };
    let mut txn = begin(engine);
    txn.create_table(&spec).expect("create");
    engine.finish(txn.commit(Durability::Sync)).expect("commit");
}

fn put_events(txn: &mut Txn, rows: &[(i64, f64)]) {
    let values: ArrayRef = Arc::new(Float64Array::from_iter_values(rows.iter().map(|(_, value)| *value)));
    let times = rows.iter().map(|(time, _)| *time).collect();
    let rows = Rows::new(vec![0; rows.len()], times, Ops::All(Op::Replace), vec![(ColumnId(1), values)]);
    let table = id(txn, "e");
    txn.write(table, Batch::new(KeyList::single(), rows)).expect("write");
}

fn commit_events(engine: &Engine, rows: &[(i64, f64)]) {
    let mut txn = begin(engine);
    put_events(&mut txn, rows);
    engine.finish(txn.commit(Durability::Sync)).expect("commit");
}

fn events(engine: &Engine) -> Vec<(i64, f64)> {
    let view = engine.snapshot(Lsn::ZERO).table(&TableName::public("e")).expect("table");
    let mut all = Vec::new();
    for batch in view.scan(ScanRequest::all(vec![ColumnId(0), ColumnId(1)])).expect("scan") {
        let batch = batch.expect("batch");
        let times = batch.column(0).as_primitive::<arrow_array::types::TimestampNanosecondType>();
        let values = batch.column(1).as_primitive::<Float64Type>();
        all.extend((0..batch.num_rows()).map(|row| (times.value(row), values.value(row))));
    }
    all.sort_by(|a, b| a.partial_cmp(b).expect("no NaN"));
    all
}

fn id(txn: &mut Txn, name: &str) -> TableId {
    txn.snapshot().catalog().expect(&TableName::public(name)).expect("table").id
}

fn key_of(name: &str) -> Vec<u8> {
    key::encode(&[KeyValue::Text(name.into())])
}

fn deletes(keys: &[&str], rows: Vec<(u32, i64)>) -> OwnRowDeletes {
    let mut list = KeyList::new();
    for name in keys {
        list.intern(&key_of(name));
    }
    OwnRowDeletes { keys: list, rows, read_lsn: None }
}

/// Replaces the rows of one time of `e`, as UPDATE does.
fn replace(engine: &Engine, time: i64, value: f64) -> Txn {
    let mut txn = begin(engine);
    let read_lsn = Some(txn.snapshot().lsn());
    let table = id(&mut txn, "e");
    txn.delete_rows(table, OwnRowDeletes { keys: KeyList::single(), rows: vec![(0, time)], read_lsn }).expect("delete");
    put_events(&mut txn, &[(time, value)]);
    txn
}

/// The bug: two transactions that replaced the rows of one time of a table without a key both
/// committed, and the rows that the first one wrote were lost. The same happened to rows inserted
/// meanwhile. The fix: the commit is refused if the times were changed since they were read.
#[test]
fn a_concurrent_change_of_the_same_time_is_refused_in_a_table_without_a_key() {
    let dir = tempfile::tempdir().expect("folder");
    let engine = open(dir.path());
    make_unkeyed(&engine);
    commit_events(&engine, &[(1, 0.0), (2, 0.0), (3, 0.0)]);
    let refused = |txn: Txn| engine.finish(txn.commit(Durability::Sync)).map(drop).unwrap_err().state();

    let (first, second) = (replace(&engine, 1, 1.0), replace(&engine, 1, 2.0));
    let other = replace(&engine, 2, 3.0);
    engine.finish(first.commit(Durability::Sync)).expect("the first one");
    assert_eq!(refused(second), SqlState::SERIALIZATION_FAILURE);
    engine.finish(other.commit(Durability::Sync)).expect("another time");
    assert_eq!(events(&engine), [(1, 1.0), (2, 3.0), (3, 0.0)]);

    // Inserted rows, also if they are in a file by then.
    let update = replace(&engine, 3, 4.0);
    commit_events(&engine, &[(3, 5.0)]);
    engine.flush().expect("flush");
    assert_eq!(refused(update), SqlState::SERIALIZATION_FAILURE);
    // A deleted range.
    let update = replace(&engine, 3, 6.0);
    let mut txn = begin(&engine);
    let view = txn.snapshot().table(&TableName::public("e")).expect("table");
    txn.delete(&view, None, TimeRange { start: 2, last: 9 }).expect("delete");
    engine.finish(txn.commit(Durability::Sync)).expect("commit");
    assert_eq!(refused(update), SqlState::SERIALIZATION_FAILURE);
    assert_eq!(events(&engine), [(1, 1.0)]);

    // Other times are inserted all the while.
    (10..60).for_each(|time| commit_events(&engine, &[(time, 0.0)]));
    let update = replace(&engine, 1, 7.0);
    (60..700).for_each(|time| commit_events(&engine, &[(time, 0.0)]));
    engine.finish(update.commit(Durability::Sync)).expect("nobody else changed it");
    assert_eq!(events(&engine)[0], (1, 7.0));
}

#[test]
fn single_rows_are_deleted_and_may_be_written_again() {
    let dir = tempfile::tempdir().expect("folder");
    let engine = open(dir.path());
    make(&engine, "t");
    let many: Vec<(&str, i64, f64)> = (0..10_000).map(|time| ("a", time, 1.0)).collect();
    commit(&engine, "t", &many).expect("commit");
    engine.flush().expect("flush");
    let mut txn = begin(&engine);
    put(&mut txn, "t", &[("a", 3, 9.0), ("own", 2, 9.0), ("own", 3, 9.0)]).expect("write");
    let table = id(&mut txn, "t");
    let mut gone: Vec<(u32, i64)> = (0..10_000).filter(|time| time % 3 != 1).map(|time| (0, time)).collect();
    gone.extend([(1, 2), (2, 1)]);
    txn.delete_rows(table, deletes(&["a", "own", "unknown"], gone)).expect("delete");
    put(&mut txn, "t", &[("a", 0, 5.0)]).expect("write");
    let kept = (1..10_000).filter(|time| time % 3 == 1).map(|time| ("a", time, 1.0));
    let expected: Vec<_> = [("a", 0, 5.0)].into_iter().chain(kept).chain([("own", 3, 9.0)]).collect();
    let expected = rows(&expected);
    assert_eq!(read(&txn.snapshot(), "t"), expected);
    engine.finish(txn.commit(Durability::Sync)).expect("commit");
    assert_eq!(now(&engine, "t"), expected);
    drop(engine);
    let engine = open(dir.path());
    assert_eq!(now(&engine, "t"), expected);
    engine.flush().expect("flush");
    engine.settle().expect("settled");
    assert_eq!(now(&engine, "t"), expected);
}

/// The bug: each deleted row was a memtable entry, a log item and a list of keys of its own, made
/// under the commit lock. The fix: all of a table are one entry, resolved before the lock.
#[test]
fn many_deleted_rows_are_one_entry_and_few_bytes_of_the_log() {
    const ROWS: i64 = 300_000;
    let dir = tempfile::tempdir().expect("folder");
    let options = Options { memory_bytes: 1 << 30, ..Options::default() };
    let engine = open_with(dir.path(), options.clone()).expect("open");
    make(&engine, "t");
    for series in ["a", "b", "c"] {
        let rows: Vec<(&str, i64, f64)> = (0..ROWS / 3).map(|time| (series, time * 1_000, 0.5)).collect();
        commit(&engine, "t", &rows).expect("commit");
    }
    engine.flush().expect("flush");
    let before = engine.stats().log_bytes;
    let mut txn = begin(&engine);
    let table = id(&mut txn, "t");
    // Two statements delete all rows but those of the last 10 times.
    let rows = |keys: std::ops::Range<u32>| keys.flat_map(|key| (0..ROWS / 3 - 10).map(move |at| (key, at * 1_000)));
    txn.delete_rows(table, deletes(&["b", "nobody", "a"], rows(0..3).collect())).expect("delete");
    txn.delete_rows(table, deletes(&["c", "a"], rows(0..1).chain([(1, 5)]).collect())).expect("delete");
    let held = engine.memory().used(engine::Work::Transactions);
    assert!(held < 100 * ROWS as u64 + 100 * ROWS as u64 / 3, "{held} bytes are held");
    assert_eq!(read(&txn.snapshot(), "t").len(), 30);
    engine.finish(txn.commit(Durability::Sync)).expect("commit");
    let logged = engine.stats().log_bytes - before;
    assert!(logged < 8 * ROWS as u64, "{logged} bytes of the log");
    let view = engine.snapshot(Lsn::ZERO).table(&TableName::public("t")).expect("table");
    assert_eq!(view.state().entries.len(), 1);
    assert_eq!(now(&engine, "t").len(), 30);
    drop((view, engine));
    // The log has them.
    let engine = open_with(dir.path(), options.clone()).expect("open");
    assert_eq!(now(&engine, "t").len(), 30);
    engine.flush().expect("flush");
    assert_eq!(now(&engine, "t").len(), 30);
    drop(engine);
    // The manifest has them.
    let engine = open_with(dir.path(), options).expect("open");
    assert_eq!(now(&engine, "t").len(), 30);
}

#[test]
fn deleted_ranges_of_a_transaction_are_one_entry() {
    let dir = tempfile::tempdir().expect("folder");
    let engine = open(dir.path());
    make(&engine, "t");
    let many: Vec<(&str, i64, f64)> = (0..1_000).map(|time| ("a", time, 1.0)).collect();
    commit(&engine, "t", &many).expect("commit");
    let mut txn = begin(&engine);
    for time in 0..500 {
        let view = txn.snapshot().table(&TableName::public("t")).expect("table");
        let number = view.lookup(&key_of("a")).expect("series");
        txn.delete(&view, Some(&[number]), TimeRange { start: time * 2, last: time * 2 }).expect("delete");
    }
    engine.finish(txn.commit(Durability::Sync)).expect("commit");
    let check = |engine: &Engine| {
        let view = engine.snapshot(Lsn::ZERO).table(&TableName::public("t")).expect("table");
        assert_eq!(view.state().entries.len(), 2);
        assert!(read_view(&view).iter().all(|(_, time, _)| time % 2 == 1));
    };
    check(&engine);
    drop(engine);
    check(&open(dir.path()));
}

/// The bug: rows that a transaction deleted again were no longer counted although a savepoint held
/// them, so a transaction could use any amount of memory. The fix: they are counted while they are
/// held.
#[test]
fn rows_that_a_savepoint_holds_are_counted() {
    let dir = tempfile::tempdir().expect("folder");
    let engine = open_with(dir.path(), Options { memory_bytes: 16 << 20, ..Options::default() }).expect("open");
    make(&engine, "t");
    let chunk: Vec<(&str, i64, f64)> = (0..20_000).map(|time| ("a", time, 0.5)).collect();
    let used = || engine.memory().used(engine::Work::Transactions);
    let write_and_delete = |txn: &mut Txn| -> Result<()> {
        put(txn, "t", &chunk)?;
        let savepoint = txn.savepoint();
        let view = txn.snapshot().table(&TableName::public("t"))?;
        txn.delete(&view, None, TimeRange::ALL)?;
        drop((view, savepoint));
        Ok(())
    };
    // Nothing holds the rows of earlier rounds.
    let mut txn = begin(&engine);
    for _ in 0..100 {
        write_and_delete(&mut txn).expect("within the share");
    }
    assert!(used() < 2 << 20, "{} bytes", used());
    drop(txn);
    assert_eq!(used(), 0);

    let mut txn = begin(&engine);
    let mut savepoints = Vec::new();
    let refused = (0..100).find_map(|_| {
        let written = put(&mut txn, "t", &chunk);
        savepoints.push(txn.savepoint());
        let view = txn.snapshot().table(&TableName::public("t")).expect("table");
        written.and_then(|()| txn.delete(&view, None, TimeRange::ALL)).err()
    });
    assert_eq!(refused.expect("refused some time").state(), SqlState::OUT_OF_MEMORY);
    // Back at the first savepoint, its rows are there again, and counted once.
    txn.roll_back_to(&savepoints[0]).expect("roll back");
    assert_eq!(read(&txn.snapshot(), "t").len(), 20_000);
    savepoints.truncate(1);
    put(&mut txn, "t", &[("b", 1, 1.0)]).expect("there is room again");
    assert!(used() < 2 << 20, "{} bytes", used());
    engine.finish(txn.commit(Durability::Sync)).expect("commit");
    assert_eq!(used(), 0);
    assert_eq!(now(&engine, "t").len(), 20_001);
}

/// The bug: commits of deletes were admitted whatever memtables held. The fix: deletes of rows wait
/// for a flush as rows do.
#[test]
fn deletes_of_rows_wait_for_flushes() {
    let dir = tempfile::tempdir().expect("folder");
    let memory_bytes = 8 << 20;
    let engine = open_with(dir.path(), Options { memory_bytes, ..Options::default() }).expect("open");
    make(&engine, "t");
    commit(&engine, "t", &[("a", -1, 1.0), ("a", 10_000_000, 1.0)]).expect("commit");
    engine.flush().expect("flush");
    let mut peak = 0;
    for round in 0..60i64 {
        let mut txn = begin(&engine);
        let table = id(&mut txn, "t");
        let rows = (0..8_000).map(|at| (0, (round * 8_000 + at) * 2)).collect();
        txn.delete_rows(table, deletes(&["a"], rows)).expect("delete");
        engine.finish(txn.commit(Durability::Sync)).expect("commit");
        peak = peak.max(engine.stats().memtable_bytes);
    }
    assert!(peak < memory_bytes / 2, "memtables hold {peak} bytes");
    assert_eq!(now(&engine, "t").len(), 2);
}
