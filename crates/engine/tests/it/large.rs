//! Values larger than a log record, in both stores, on a simulated machine.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{ArrayRef, BinaryArray};
use engine::{
    Batch, Durability, Engine, KeyList, Op, Ops, Options, Progress, Rows, ScanRequest, TableSpec, TableView, Txn,
    inspect,
};
use env::Env;
use env::sim::SimEnv;
use model::limits::{RECORD_PAYLOAD_BYTES_MAX, VALUE_BYTES_MAX};
use model::{
    ColumnId, ColumnRole, DataType, Datum, Lsn, Result, RowSchema, SqlState, TableId, TableName, TableOptions, Type,
};
use rows::Put;

use crate::rows::{column as row_column, index, table};
use crate::{begin, column};

const DIR: &str = "/db";
const MIB: usize = 1 << 20;
const VALUE: ColumnId = ColumnId(1);

fn options() -> Options {
    Options { memory_bytes: 2 << 30, ..Options::default() }
}

fn open(env: &SimEnv) -> Engine {
    Engine::open(Arc::new(env.clone()), Path::new(DIR), options()).expect("open").0
}

/// The store that keeps a table of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Store {
    Columns,
    Rows,
}

const STORES: [Store; 2] = [Store::Columns, Store::Rows];

/// Images by number. An image is described by its size and a seed.
type Images = BTreeMap<i64, (usize, u8)>;

/// Bytes that repeat after almost 64 KiB, so that a part in the wrong place is noticed.
fn bytes_of((bytes, seed): (usize, u8)) -> Vec<u8> {
    let mut word = u64::from(seed) + 1;
    let pattern: Vec<u8> = (0..65_521)
        .map(|_| {
            word = word.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (word >> 56) as u8
        })
        .collect();
    let mut all = pattern.repeat(bytes.div_ceil(pattern.len()));
    all.truncate(bytes);
    all
}

fn create(engine: &Engine, store: Store) {
    let mut txn = begin(engine);
    match store {
        Store::Columns => {
            let columns = vec![
                column("time", DataType::Timestamp, ColumnRole::Time),
                column("image", DataType::Bytes, ColumnRole::Field),
            ];
            let options = TableOptions { history: true, ..TableOptions::default() };
            let spec = TableSpec { name: TableName::public("t"), keyed: true, columns, options };
            txn.create_table(&spec).expect("create");
        }
        Store::Rows => {
            let schema = RowSchema {
                id: TableId(txn.next_number()),
                name: TableName::public("t"),
                version: 1,
                lineage: model::Lineage::default(),
                columns: vec![row_column("id", Type::Int8, true), row_column("image", Type::Bytes, false)],
                primary: Some(index(&txn, "t_pkey", &[0], true)),
                secondary: vec![],
                checks: vec![],
                foreign_keys: vec![],
                triggers: Vec::new(),
                replica_identity: model::ReplicaIdentity::default(),
            };
            txn.create_row_table(schema).expect("create");
        }
    }
    engine.finish(txn.commit(Durability::Sync)).expect("commit");
}

/// Inserts images, or replaces those with the same number.
fn put(txn: &mut Txn, store: Store, images: &Images) -> Result<()> {
    match store {
        Store::Columns => {
            let id = txn.snapshot().catalog().expect(&TableName::public("t"))?.id;
            for (number, image) in images {
                let values: ArrayRef = Arc::new(BinaryArray::from_vec(vec![&bytes_of(*image)]));
                let rows = Rows::new(vec![0], vec![*number], Ops::All(Op::Replace), vec![(VALUE, values)]);
                txn.write(id, Batch::new(KeyList::single(), rows))?;
            }
        }
        Store::Rows => {
            let table = table(txn, "t");
            let guard = &crossbeam_epoch::pin();
            for (number, image) in images {
                let bytes = bytes_of(*image);
                let value = rows::coerce(Type::Bytes, Datum::Bytes(&bytes))?;
                let mut row = Vec::new();
                table.layout.encode(&[Datum::Int8(*number), value], &mut row)?;
                let mut key = Vec::new();
                let primary = table.primary.as_ref().expect("a primary key");
                rows::key::push(&mut key, &primary.keys()[0], &Datum::Int8(*number))?;
                let put = match txn.rows().get(&table, &key, guard)? {
                    None => txn.rows().insert(&table, row.into(), guard)?,
                    Some((record, _)) => {
                        let mode = rows::LockMode::NoKeyUpdate;
                        txn.rows().lock_row(&table, record, mode, rows::WaitPolicy::Wait, guard)?;
                        txn.rows().update(&table, record, row.into(), guard)?
                    }
                };
                assert!(matches!(put, Put::Done(_)), "{put:?}");
            }
        }
    }
    Ok(())
}

fn commit(engine: &Engine, store: Store, images: &Images) -> Result<Lsn> {
    let mut txn = begin(engine);
    put(&mut txn, store, images)?;
    engine.finish(txn.commit(Durability::Sync))
}

/// Checks that the table has exactly these images.
fn check(engine: &Engine, store: Store, expected: &Images) {
    let mut seen = BTreeMap::new();
    match store {
        Store::Columns => {
            check_view(&engine.snapshot(Lsn::ZERO).table(&TableName::public("t")).expect("table"), expected);
            return;
        }
        Store::Rows => {
            let mut txn = begin(engine);
            let table = table(&mut txn, "t");
            let guard = &crossbeam_epoch::pin();
            for record in table.records.all() {
                if let Some(row) = txn.rows().read(&table, record, guard).expect("a row") {
                    let (id, image) = (table.layout.field(row, 0), table.layout.field(row, 1));
                    let (Ok(Datum::Int8(id)), Ok(Datum::Bytes(image))) = (id, image) else { panic!("other types") };
                    seen.insert(id, expected.get(&id).is_some_and(|expected| image == bytes_of(*expected)));
                }
            }
        }
    }
    assert_eq!(seen, expected.keys().map(|number| (*number, true)).collect::<BTreeMap<i64, bool>>(), "{store:?}");
}

fn check_view(view: &TableView, expected: &Images) {
    let mut seen = BTreeMap::new();
    for batch in view.scan(ScanRequest::all(vec![ColumnId(0), VALUE])).expect("scan") {
        let batch = batch.expect("batch");
        let (times, images) = (batch.column(0).as_primitive::<TimestampNanosecondType>(), batch.column(1));
        let images = images.as_binary::<i32>();
        let bytes: usize = (1..batch.num_rows()).map(|row| images.value_length(row - 1) as usize).sum();
        assert!(bytes <= 16 * MIB, "{} rows in a batch, {bytes} bytes before the last", batch.num_rows());
        for (row, time) in times.values().iter().enumerate() {
            let is_same = expected.get(time).is_some_and(|expected| images.value(row) == bytes_of(*expected));
            assert!(seen.insert(*time, is_same).is_none(), "row {time} twice");
        }
    }
    assert_eq!(seen, expected.keys().map(|number| (*number, true)).collect::<BTreeMap<i64, bool>>());
}

fn reopen(env: &SimEnv, engine: Engine) -> Engine {
    drop(engine);
    env.crash();
    open(env)
}

/// Payload sizes and descriptions of the records after `from`.
fn records(env: &SimEnv, from: Lsn) -> Vec<(usize, String)> {
    let mut all = Vec::new();
    let env: Arc<dyn Env> = Arc::new(env.clone());
    inspect::log(&env, Path::new(DIR), from.next(), &mut |record| {
        all.extend((record.bytes > 0).then_some((record.bytes, record.text)));
        Ok(())
    })
    .expect("log");
    all
}

#[test]
fn values_just_below_at_and_above_one_record_round_trip() {
    for store in STORES {
        let env = SimEnv::new(3);
        let mut engine = open(&env);
        create(&engine, store);
        let mut images = Images::from([(1, (900_000, 1))]);
        let before = engine.snapshot(Lsn::ZERO).lsn();
        commit(&engine, store, &images).expect("commit");
        let overhead = records(&env, before)[0].0 - 900_000;
        for (number, more, expected) in [(2, -1, 1), (3, 0, 1), (4, 1, 2)] {
            let bytes = (RECORD_PAYLOAD_BYTES_MAX - overhead).checked_add_signed(more).expect("a size");
            let before = engine.snapshot(Lsn::ZERO).lsn();
            commit(&engine, store, &Images::from([(number, (bytes, number as u8))])).expect("commit");
            images.insert(number, (bytes, number as u8));
            let records = records(&env, before);
            let parts = records.iter().filter(|(_, text)| text.contains("of an item larger than a record")).count();
            assert_eq!((parts, records.len()), (if expected == 1 { 0 } else { 2 }, expected + 1), "{records:?}");
        }
        check(&engine, store, &images);
        engine = reopen(&env, engine);
        check(&engine, store, &images);
        engine.flush().expect("flush");
        check(&reopen(&env, engine), store, &images);
    }
}

#[test]
fn large_values_survive_recovery_flush_compaction_and_checkpoint() {
    let sizes = [(1, 8 * MIB), (2, 5), (3, VALUE_BYTES_MAX), (4, 8_000_000), (5, 3 * MIB)];
    let images: Images = sizes.into_iter().map(|(number, bytes)| (number, (bytes, number as u8))).collect();
    for store in STORES {
        let env = SimEnv::new(4);
        let mut engine = open(&env);
        create(&engine, store);
        for (number, image) in &images {
            commit(&engine, store, &Images::from([(*number, *image)])).expect("commit");
        }
        let first = engine.snapshot(Lsn::ZERO).committed();
        check(&engine, store, &images);
        engine = reopen(&env, engine);
        check(&engine, store, &images);
        engine.flush().expect("flush");
        check(&engine, store, &images);
        // Another version of some images, in one transaction, with small rows before and after.
        let changed = Images::from([(0, (0, 9)), (1, (9 * MIB, 9)), (2, (2 * MIB, 9)), (3, (100, 9)), (7, (1, 9))]);
        commit(&engine, store, &changed).expect("commit");
        let now: Images = images.iter().chain(&changed).map(|(number, image)| (*number, *image)).collect();
        check(&engine, store, &now);
        engine = reopen(&env, engine);
        check(&engine, store, &now);
        engine.flush().expect("flush");
        engine = reopen(&env, engine);
        check(&engine, store, &now);
        if store == Store::Columns {
            for settled in [false, true] {
                let snapshot = engine.snapshot(Lsn::ZERO);
                let id = snapshot.catalog().expect(&TableName::public("t")).expect("table").id;
                check_view(&snapshot.table_as_of(id, first).expect("history"), &images);
                if !settled {
                    engine.settle().expect("settle");
                }
            }
            check(&engine, store, &now);
        }
        engine.close().expect("close");
        drop(engine);
        let report = inspect::check(&(Arc::new(env.clone()) as Arc<dyn Env>), Path::new(DIR), &mut |_, _| ());
        assert_eq!(report.expect("check").findings.len(), 0, "{store:?}");
        check(&open(&env), store, &now);
    }
}

#[test]
fn a_value_beyond_the_limit_is_refused_with_54000_and_changes_nothing() {
    for store in STORES {
        let env = SimEnv::new(5);
        let engine = open(&env);
        create(&engine, store);
        let images = Images::from([(1, (VALUE_BYTES_MAX, 1))]);
        commit(&engine, store, &images).expect("commit");
        let error = commit(&engine, store, &Images::from([(2, (VALUE_BYTES_MAX + 1, 2))])).expect_err("too large");
        assert_eq!(error.state(), SqlState::PROGRAM_LIMIT_EXCEEDED);
        for part in ["67108865 bytes", "the limit is 67108864"] {
            assert!(error.to_string().contains(part), "{error}");
        }
        check(&engine, store, &images);
        check(&reopen(&env, engine), store, &images);
    }
}

/// Commits an image of many parts up to some point, and cuts the power.
#[test]
fn a_power_cut_between_the_parts_leaves_all_of_a_value_or_nothing() {
    let image = Images::from([(2, (18 * MIB, 2))]);
    for store in STORES {
        let (mut complete, mut torn) = (0, 0);
        for seed in 0..12 {
            let env = SimEnv::new(seed);
            let engine = open(&env);
            create(&engine, store);
            let mut images = Images::from([(1, (2 * MIB, 1))]);
            commit(&engine, store, &images).expect("commit");
            let mut txn = begin(&engine);
            put(&mut txn, store, &image).expect("put");
            let mut committing = txn.commit(Durability::Sync);
            let mut acknowledged = false;
            for step in 0..=seed / 2 {
                match committing.poll().expect("commit") {
                    Progress::Done(_) => acknowledged = true,
                    Progress::Wait(_) if step < seed / 2 => drop(env.run_some(1)),
                    Progress::Wait(_) => {}
                }
            }
            drop(committing);
            drop(engine);
            env.crash();
            let engine = open(&env);
            let mut txn = begin(&engine);
            let is_there = match store {
                Store::Columns => {
                    let view = txn.snapshot().table(&TableName::public("t")).expect("table");
                    let scan = view.scan(ScanRequest::all(vec![ColumnId(0)])).expect("scan");
                    scan.map(|batch| batch.expect("batch").num_rows()).sum::<usize>() == 2
                }
                Store::Rows => table(&mut txn, "t").records.rows() == 2,
            };
            drop(txn);
            assert!(is_there || !acknowledged, "seed {seed}");
            images.extend(is_there.then_some((2, (18 * MIB, 2))));
            (complete, torn) = (complete + u32::from(is_there), torn + u32::from(!is_there));
            check(&engine, store, &images);
            // The rest of the parts is never completed by a later transaction.
            commit(&engine, store, &Images::from([(3, (3 * MIB, 3))])).expect("commit");
            images.insert(3, (3 * MIB, 3));
            check(&reopen(&env, engine), store, &images);
        }
        assert!(complete > 0 && torn > 0, "{complete} complete, {torn} torn: the test cuts at few points");
    }
}

#[test]
fn a_disk_that_fills_up_between_the_parts_refuses_the_commit_and_shows_none_of_it() {
    for store in STORES {
        let env = SimEnv::new(6);
        let engine = open(&env);
        create(&engine, store);
        let mut images = Images::from([(1, (2 * MIB, 1))]);
        commit(&engine, store, &images).expect("commit");
        env.run_until_idle();
        env.set_capacity(env.used_bytes() + (20 << 20));
        let error = commit(&engine, store, &Images::from([(2, (60 * MIB, 2))])).expect_err("no room");
        assert_eq!(error.state(), SqlState::DISK_FULL, "{error}");
        assert!(error.to_string().contains("reserve"), "{error}");
        check(&engine, store, &images);
        env.set_capacity(u64::MAX);
        env.advance(1_000_000_000);
        env.run_until_idle();
        commit(&engine, store, &Images::from([(2, (9 * MIB, 2))])).expect("there is room again");
        images.insert(2, (9 * MIB, 2));
        check(&engine, store, &images);
        let engine = reopen(&env, engine);
        check(&engine, store, &images);
        engine.flush().expect("flush");
        check(&reopen(&env, engine), store, &images);
    }
}

/// The memory of an encoded image counts while it is logged.
#[test]
fn a_commit_without_memory_for_its_encoded_value_is_refused_and_shows_none_of_it() {
    let env = SimEnv::new(7);
    let small = Options { memory_bytes: 256 << 20, ..Options::default() };
    let engine = Engine::open(Arc::new(env.clone()), Path::new(DIR), small).expect("open").0;
    create(&engine, Store::Columns);
    let image = Images::from([(1, (40 * MIB, 1))]);
    let mut txn = begin(&engine);
    put(&mut txn, Store::Columns, &image).expect("put");
    let mut held = engine.memory().reservation(engine::Work::Requests);
    held.resize(60 << 20).expect("memory");
    let error = engine.finish(txn.commit(Durability::Sync)).expect_err("no memory");
    assert_eq!(error.state(), SqlState::OUT_OF_MEMORY, "{error}");
    check(&engine, Store::Columns, &Images::new());
    drop(held);
    commit(&engine, Store::Columns, &image).expect("commit");
    check(&engine, Store::Columns, &image);
    assert_eq!(engine.memory().used(engine::Work::Transactions), 0);
}
