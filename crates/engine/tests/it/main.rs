//! The engine through its public API, on a real directory. Faults are tested by crate `sim`.

mod constraints;
mod deferrable_keys;
mod directory;
mod histories;
mod history;
mod large;
mod retention;
mod routines;
mod row_deletes;
mod rows;
mod scale;
mod serializable;
mod space;
mod temporary;
mod types;
mod views;
mod workers;

use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{ArrayRef, Float64Array};
use engine::{
    Batch, ColumnSpec, Durability, Engine, Isolation, KeyList, Op, Ops, Options, Rows, ScanRequest, SeriesFilter,
    Snapshot, TableSpec, TableView, Txn, inspect,
};
use env::{Env, RealEnv};
use model::{
    ColumnId, ColumnRole, DataType, ErrorKind, KeyValue, Lsn, Result, SqlState, TableName, TableOptions, TimeRange, key,
};

fn env() -> Arc<dyn Env> {
    Arc::new(RealEnv::new())
}

fn open(dir: &Path) -> Engine {
    open_with(dir, Options::default()).expect("open")
}

fn open_with(dir: &Path, options: Options) -> Result<Engine> {
    Engine::open(env(), dir, options).map(|(engine, _)| engine)
}

fn column(name: &str, ty: DataType, role: ColumnRole) -> ColumnSpec {
    ColumnSpec { name: name.into(), ty, nullable: role != ColumnRole::Time, role }
}

fn spec(name: &str) -> TableSpec {
    TableSpec {
        name: TableName::public(name),
        keyed: true,
        columns: vec![
            column("time", DataType::Timestamp, ColumnRole::Time),
            column("dev", DataType::Text, ColumnRole::Key),
            column("v", DataType::Float64, ColumnRole::Field),
        ],
        options: TableOptions::default(),
    }
}

fn batch(rows: &[(&str, i64, f64)]) -> Batch {
    let mut keys = KeyList::new();
    let series = rows.iter().map(|(dev, _, _)| keys.intern(&key::encode(&[KeyValue::Text((*dev).into())]))).collect();
    let times = rows.iter().map(|(_, time, _)| *time).collect();
    let values: ArrayRef = Arc::new(Float64Array::from_iter_values(rows.iter().map(|(_, _, value)| *value)));
    Batch::new(keys, Rows::new(series, times, Ops::All(Op::Replace), vec![(ColumnId(2), values)]))
}

fn begin(engine: &Engine) -> Txn {
    engine.begin(Isolation::ReadCommitted, Lsn::ZERO)
}

fn make(engine: &Engine, name: &str) {
    let mut txn = begin(engine);
    txn.create_table(&spec(name)).expect("create");
    engine.finish(txn.commit(Durability::Sync)).expect("commit");
}

fn put(txn: &mut Txn, name: &str, rows: &[(&str, i64, f64)]) -> Result<()> {
    let id = txn.snapshot().catalog().expect(&TableName::public(name))?.id;
    txn.write(id, batch(rows))
}

fn commit(engine: &Engine, name: &str, rows: &[(&str, i64, f64)]) -> Result<Lsn> {
    let mut txn = begin(engine);
    put(&mut txn, name, rows)?;
    engine.finish(txn.commit(Durability::Sync))
}

fn read(snapshot: &Snapshot, name: &str) -> Vec<(String, i64, f64)> {
    read_view(&snapshot.table(&TableName::public(name)).expect("table"))
}

fn read_view(view: &TableView) -> Vec<(String, i64, f64)> {
    let request = ScanRequest {
        columns: vec![ColumnId(1), ColumnId(0), ColumnId(2)],
        times: TimeRange::ALL,
        series: SeriesFilter::All,
        ranges: Vec::new(),
        batch_rows: 8_192,
        limit: None,
        coded: false,
        columns_only: false,
    };
    let mut all = Vec::new();
    for batch in view.scan(request).expect("scan") {
        let batch = batch.expect("batch");
        let (devs, times) = (batch.column(0).as_string::<i32>(), batch.column(1));
        let times = times.as_primitive::<arrow_array::types::TimestampNanosecondType>();
        let values = batch.column(2).as_primitive::<Float64Type>();
        all.extend((0..batch.num_rows()).map(|row| (devs.value(row).to_owned(), times.value(row), values.value(row))));
    }
    all.sort_by(|a, b| a.partial_cmp(b).expect("no NaN"));
    all
}

fn now(engine: &Engine, name: &str) -> Vec<(String, i64, f64)> {
    read(&engine.snapshot(Lsn::ZERO), name)
}

fn rows(expected: &[(&str, i64, f64)]) -> Vec<(String, i64, f64)> {
    expected.iter().map(|(dev, time, value)| ((*dev).to_owned(), *time, *value)).collect()
}

#[test]
fn committed_rows_survive_reopening_with_and_without_flush() {
    for flush in [false, true] {
        let dir = tempfile::tempdir().expect("folder");
        let engine = open(dir.path());
        make(&engine, "t");
        commit(&engine, "t", &[("a", 2, 1.5), ("b", 1, 2.5), ("a", 1, 3.5)]).expect("commit");
        if flush {
            engine.flush().expect("flush");
        }
        commit(&engine, "t", &[("a", 1, 4.5), ("c", 9, 5.5)]).expect("commit");
        let expected = rows(&[("a", 1, 4.5), ("a", 2, 1.5), ("b", 1, 2.5), ("c", 9, 5.5)]);
        assert_eq!(now(&engine, "t"), expected);
        engine.close().expect("close");
        drop(engine);
        assert_eq!(now(&open(dir.path()), "t"), expected, "flush: {flush}");
    }
}

#[test]
fn uncommitted_writes_are_visible_only_to_their_transaction() {
    let dir = tempfile::tempdir().expect("folder");
    let engine = open(dir.path());
    make(&engine, "t");
    commit(&engine, "t", &[("a", 1, 1.0)]).expect("commit");
    let mut txn = begin(&engine);
    put(&mut txn, "t", &[("a", 1, 2.0), ("new", 5, 3.0)]).expect("write");
    assert_eq!(read(&txn.snapshot(), "t"), rows(&[("a", 1, 2.0), ("new", 5, 3.0)]));
    assert_eq!(now(&engine, "t"), rows(&[("a", 1, 1.0)]));
    drop(txn);
    assert_eq!(now(&engine, "t"), rows(&[("a", 1, 1.0)]), "dropping a transaction is a rollback");
}

#[test]
fn repeatable_read_keeps_its_first_snapshot_and_read_committed_takes_new_ones() {
    let dir = tempfile::tempdir().expect("folder");
    let engine = open(dir.path());
    make(&engine, "t");
    let (mut fixed, mut moving) = (engine.begin(Isolation::RepeatableRead, Lsn::ZERO), begin(&engine));
    assert!(read(&fixed.snapshot(), "t").is_empty() && read(&moving.snapshot(), "t").is_empty());
    commit(&engine, "t", &[("a", 1, 1.0)]).expect("commit");
    engine.flush().expect("flush");
    assert!(read(&fixed.snapshot(), "t").is_empty());
    assert_eq!(read(&moving.snapshot(), "t"), rows(&[("a", 1, 1.0)]));
}

#[test]
fn a_delete_hides_earlier_rows_and_not_later_ones() {
    let dir = tempfile::tempdir().expect("folder");
    let engine = open(dir.path());
    make(&engine, "t");
    commit(&engine, "t", &[("a", 1, 1.0), ("a", 2, 2.0), ("b", 1, 3.0)]).expect("commit");
    engine.flush().expect("flush");
    let mut txn = begin(&engine);
    put(&mut txn, "t", &[("a", 2, 9.0), ("own", 2, 9.0)]).expect("write");
    let view = txn.snapshot().table(&TableName::public("t")).expect("table");
    let wanted: Vec<u32> =
        ["a", "own"].iter().filter_map(|dev| view.lookup(&key::encode(&[KeyValue::Text((*dev).into())]))).collect();
    assert_eq!(wanted.len(), 2);
    txn.delete(&view, Some(&wanted), TimeRange::half_open(2, 10)).expect("delete");
    put(&mut txn, "t", &[("own", 3, 4.0)]).expect("write");
    let expected = rows(&[("a", 1, 1.0), ("b", 1, 3.0), ("own", 3, 4.0)]);
    assert_eq!(read(&txn.snapshot(), "t"), expected);
    engine.finish(txn.commit(Durability::Sync)).expect("commit");
    assert_eq!(now(&engine, "t"), expected);
    commit(&engine, "t", &[("a", 2, 5.0)]).expect("commit");
    engine.flush().expect("flush");
    engine.settle().expect("settled");
    assert_eq!(now(&engine, "t"), rows(&[("a", 1, 1.0), ("a", 2, 5.0), ("b", 1, 3.0), ("own", 3, 4.0)]));
}

#[test]
fn tables_appear_and_vanish_with_their_transaction() {
    let dir = tempfile::tempdir().expect("folder");
    let engine = open(dir.path());
    let mut txn = begin(&engine);
    let table = txn.create_table(&spec("t")).expect("create");
    txn.write(table.id, batch(&[("a", 1, 1.0)])).expect("write");
    assert_eq!(read(&txn.snapshot(), "t").len(), 1);
    assert!(engine.snapshot(Lsn::ZERO).table(&TableName::public("t")).is_err());
    engine.finish(txn.commit(Durability::Sync)).expect("commit");
    assert_eq!(now(&engine, "t").len(), 1);
    let before = engine.snapshot(Lsn::ZERO);
    let mut txn = begin(&engine);
    txn.drop_table(&TableName::public("t")).expect("drop");
    engine.finish(txn.commit(Durability::Sync)).expect("commit");
    engine.flush().expect("flush");
    assert_eq!(
        engine.snapshot(Lsn::ZERO).table(&TableName::public("t")).map(drop).unwrap_err().state(),
        SqlState::UNDEFINED_TABLE
    );
    assert_eq!(read(&before, "t").len(), 1, "an older snapshot still reads the dropped table");
}

#[test]
fn concurrent_changes_of_the_catalog_conflict_at_commit_and_change_nothing() {
    let dir = tempfile::tempdir().expect("folder");
    let engine = open(dir.path());
    make(&engine, "t");
    let add = |txn: &mut Txn, name: &str| {
        txn.add_columns(&TableName::public("t"), &[column(name, DataType::Int64, ColumnRole::Field)]).expect("add");
    };
    let (mut first, mut second) = (begin(&engine), begin(&engine));
    add(&mut first, "x");
    add(&mut second, "y");
    let (mut third, mut fourth) = (begin(&engine), begin(&engine));
    third.create_table(&spec("u")).expect("create");
    fourth.create_table(&spec("u")).expect("create");
    engine.finish(first.commit(Durability::Sync)).expect("first");
    engine.finish(third.commit(Durability::Sync)).expect("third");
    let error = engine.finish(second.commit(Durability::Sync)).unwrap_err();
    assert_eq!((error.state(), error.kind()), (SqlState::SERIALIZATION_FAILURE, ErrorKind::Conflict));
    assert_eq!(engine.finish(fourth.commit(Durability::Sync)).unwrap_err().state(), SqlState::DUPLICATE_TABLE);
    let snapshot = engine.snapshot(Lsn::ZERO);
    let table = snapshot.catalog().expect(&TableName::public("t")).expect("t");
    assert!(table.column("x").is_some() && table.column("y").is_none());
}

#[test]
fn own_ddl_does_not_hide_tables_created_later_by_others() {
    let dir = tempfile::tempdir().expect("folder");
    let engine = open(dir.path());
    make(&engine, "t");
    let mut txn = begin(&engine);
    txn.add_columns(&TableName::public("t"), &[column("x", DataType::Int64, ColumnRole::Field)]).expect("add");
    make(&engine, "later");
    let snapshot = txn.snapshot();
    assert!(snapshot.table(&TableName::public("later")).is_ok());
    assert!(snapshot.catalog().expect(&TableName::public("t")).expect("t").column("x").is_some());
    engine.finish(txn.commit(Durability::Sync)).expect("commit");
}

#[test]
fn a_commit_larger_than_a_log_record_is_one_commit() {
    let dir = tempfile::tempdir().expect("folder");
    let engine = open(dir.path());
    make(&engine, "t");
    let many: Vec<(String, i64, f64)> = (0..200_000).map(|at| (format!("dev{}", at % 50_000), at, at as f64)).collect();
    let borrowed: Vec<(&str, i64, f64)> = many.iter().map(|(dev, time, value)| (dev.as_str(), *time, *value)).collect();
    commit(&engine, "t", &borrowed).expect("commit");
    assert_eq!(now(&engine, "t").len(), 200_000);
    drop(engine);
    let engine = open(dir.path());
    assert_eq!(now(&engine, "t").len(), 200_000);
    assert_eq!(engine.stats().series, 50_000);
}

#[test]
fn a_second_process_is_refused_with_a_hint() {
    let dir = tempfile::tempdir().expect("folder");
    let engine = open(dir.path());
    let error = open_with(dir.path(), Options::default()).map(drop).unwrap_err();
    assert_eq!(error.state(), SqlState::LOCK_NOT_AVAILABLE);
    assert!(error.hint().is_some_and(|hint| hint.contains("--data")), "{error}");
    drop(engine);
    open(dir.path());
}

#[test]
fn a_transaction_larger_than_its_share_of_memory_is_refused_with_53200() {
    let dir = tempfile::tempdir().expect("folder");
    let engine = open_with(dir.path(), Options { memory_bytes: 1 << 20, ..Options::default() }).expect("open");
    make(&engine, "t");
    let mut txn = begin(&engine);
    let chunk: Vec<(&str, i64, f64)> = (0..2_000).map(|at| ("a", at, 0.5)).collect();
    let refused = (0..100).find_map(|_| put(&mut txn, "t", &chunk).err()).expect("refused some time");
    assert_eq!(refused.state(), SqlState::OUT_OF_MEMORY);
    drop(txn);
    commit(&engine, "t", &chunk[..100]).expect("smaller ones go on");
}

#[test]
fn writers_continue_past_the_memtable_budget_because_flushes_make_room() {
    let dir = tempfile::tempdir().expect("folder");
    let engine = open_with(dir.path(), Options { memory_bytes: 4 << 20, ..Options::default() }).expect("open");
    make(&engine, "t");
    for round in 0..100i64 {
        let chunk: Vec<(&str, i64, f64)> = (0..2_000).map(|at| ("a", round * 2_000 + at, 0.5)).collect();
        commit(&engine, "t", &chunk).expect("commit");
    }
    assert_eq!(now(&engine, "t").len(), 200_000);
    let stats = engine.stats();
    assert!(stats.metric("flushes") > 1, "{stats:?}");
    engine.flush().expect("flush");
    engine.settle().expect("settled");
    assert_eq!(now(&engine, "t").len(), 200_000);
}

#[test]
fn after_close_writes_are_refused_and_reads_continue() {
    let dir = tempfile::tempdir().expect("folder");
    let engine = open(dir.path());
    make(&engine, "t");
    commit(&engine, "t", &[("a", 1, 1.0)]).expect("commit");
    engine.close().expect("close");
    assert_eq!(commit(&engine, "t", &[("a", 2, 1.0)]).unwrap_err().state(), SqlState::ADMIN_SHUTDOWN);
    assert_eq!(now(&engine, "t").len(), 1);
}

#[test]
fn check_finds_nothing_in_an_intact_directory_and_names_a_damaged_segment() {
    let dir = tempfile::tempdir().expect("folder");
    let engine = open(dir.path());
    make(&engine, "t");
    let many: Vec<(&str, i64, f64)> = (0..5_000).map(|at| ("a", at, at as f64 * 0.37)).collect();
    commit(&engine, "t", &many).expect("commit");
    engine.flush().expect("flush");
    drop(engine);
    let report = inspect::check(&env(), dir.path(), &mut |_, _| {}).expect("check");
    assert!(report.findings.is_empty() && report.files >= 3, "{report:?}");
    let data = dir.path().join("data");
    let segment = std::fs::read_dir(&data)
        .expect("list")
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "seg"))
        .expect("a segment");
    let mut bytes = std::fs::read(&segment).expect("read");
    let middle = bytes.len() / 3;
    bytes[middle] ^= 1;
    std::fs::write(&segment, bytes).expect("write");
    let report = inspect::check(&env(), dir.path(), &mut |_, _| {}).expect("check");
    assert!(report.findings.iter().any(|finding| finding.file == segment), "{report:?}");
}
