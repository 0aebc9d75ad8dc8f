//! Deferrable keys in the engine: their definitions and rows survive crashes, and no commit has a key twice.

use engine::{Durability, Engine, RowData, Txn};
use env::sim::SimEnv;
use model::{Datum, Deferral, RowIndex, RowSchema, SqlState, TableId, TableName, Type};
use rows::{KeysChecked, LockMode, Locked, Put, RecordId, WaitPolicy};

use crate::begin;
use crate::rows::{alter, column, index, next_version, number, open, table};

/// A table `t` with the column id, a deferrable primary key.
fn create(engine: &Engine) {
    let mut txn = begin(engine);
    let key = RowIndex {
        constraint: true,
        deferral: Deferral::Deferred,
        is_primary: true,
        ..index(&txn, "t_pkey", &[0], false)
    };
    let schema = RowSchema {
        id: TableId(txn.next_number()),
        name: TableName::public("t"),
        version: 1,
        lineage: model::Lineage::default(),
        columns: vec![column("id", Type::Int4, true)],
        primary: None,
        secondary: vec![key],
        checks: vec![],
        foreign_keys: vec![],
        triggers: Vec::new(),
        replica_identity: model::ReplicaIdentity::default(),
    };
    txn.create_row_table(schema).expect("create");
    engine.finish(txn.commit(Durability::Sync)).expect("commit");
}

fn row(txn: &mut Txn, id: i32) -> Box<[u8]> {
    let mut out = Vec::new();
    table(txn, "t").layout.encode(&[Datum::Int4(id)], &mut out).expect("a row");
    out.into()
}

fn insert(txn: &mut Txn, id: i32) -> RecordId {
    let (table, row) = (table(txn, "t"), row(txn, id));
    match txn.rows().insert(&table, row, &crossbeam_epoch::pin()) {
        Ok(Put::Done(record)) => record,
        other => panic!("{other:?}"),
    }
}

fn update(txn: &mut Txn, record: RecordId, id: i32) {
    let (table, row, guard) = (table(txn, "t"), row(txn, id), &crossbeam_epoch::pin());
    let locked = txn.rows().lock_row(&table, record, LockMode::NoKeyUpdate, WaitPolicy::Wait, guard);
    assert!(matches!(locked, Ok(Locked::Row { .. })));
    assert!(matches!(txn.rows().update(&table, record, row, guard), Ok(Put::Done(_))));
}

fn check(txn: &mut Txn) -> KeysChecked {
    txn.rows().check_keys(0, &|_, _| true, &crossbeam_epoch::pin()).expect("a check")
}

/// The ids, by record.
fn ids(engine: &Engine) -> Vec<i64> {
    let mut txn = begin(engine);
    let (table, guard) = (table(&mut txn, "t"), &crossbeam_epoch::pin());
    let rows = table.records.all().filter_map(|record| txn.rows().read(&table, record, guard).expect("a row"));
    rows.filter_map(|row| number(table.layout.field(row, 0).expect("an id"))).collect()
}

#[test]
fn keys_that_rows_exchanged_survive_a_crash_with_and_without_checkpoint() {
    for flushes in [false, true] {
        let env = SimEnv::new(7);
        let engine = open(&env);
        create(&engine);
        let mut txn = begin(&engine);
        let records: Vec<RecordId> = (1..=3).map(|id| insert(&mut txn, id)).collect();
        assert!(matches!(check(&mut txn), KeysChecked::Unique));
        engine.finish(txn.commit(Durability::Sync)).expect("commit");
        if flushes {
            engine.flush().expect("flush");
        }
        let mut txn = begin(&engine);
        for (record, id) in records.iter().zip([2, 3, 1]) {
            update(&mut txn, *record, id);
        }
        assert!(matches!(check(&mut txn), KeysChecked::Unique));
        engine.finish(txn.commit(Durability::Sync)).expect("commit");
        env.crash();
        drop(engine);
        let engine = open(&env);
        assert_eq!(ids(&engine), [2, 3, 1], "flushes: {flushes}");
        let mut txn = begin(&engine);
        let schema = table(&mut txn, "t").schema.clone();
        let key = schema.primary_key().expect("a primary key");
        assert_eq!((key.deferral, key.is_primary, key.unique), (Deferral::Deferred, true, false));
        insert(&mut txn, 3);
        assert!(matches!(check(&mut txn), KeysChecked::Duplicate { index: 0, .. }));
    }
}

#[test]
fn a_commit_of_unchecked_keys_is_refused_and_changes_nothing() {
    let env = SimEnv::new(7);
    let engine = open(&env);
    create(&engine);
    let mut txn = begin(&engine);
    insert(&mut txn, 1);
    insert(&mut txn, 1);
    let error = engine.finish(txn.commit(Durability::Sync)).expect_err("unchecked");
    assert_eq!(error.state(), SqlState::INTERNAL_ERROR);
    assert!(ids(&engine).is_empty());
    let mut txn = begin(&engine);
    insert(&mut txn, 1);
    assert!(matches!(check(&mut txn), KeysChecked::Unique));
    engine.finish(txn.commit(Durability::Sync)).expect("commit");
    assert_eq!(ids(&engine), [1]);
}

#[test]
fn a_deferrable_key_is_added_only_to_rows_that_satisfy_it() {
    let env = SimEnv::new(7);
    let engine = open(&env);
    create(&engine);
    let mut txn = begin(&engine);
    let before = table(&mut txn, "t");
    let key = before.schema.secondary[0].clone();
    let without = alter(&mut txn, RowSchema { secondary: vec![], ..next_version(&before) }, RowData::Keep);
    for _ in 0..2 {
        let (row, guard) = (row(&mut txn, 1), &crossbeam_epoch::pin());
        assert!(matches!(txn.rows().insert(&without, row, guard), Ok(Put::Done(_))));
    }
    let with = RowSchema { secondary: vec![RowIndex { id: txn.next_number(), ..key }], ..next_version(&without) };
    let error = txn.alter_row_table(with, RowData::Keep, &|value| format!("{value:?}")).expect_err("two rows");
    assert_eq!(error.state(), SqlState::UNIQUE_VIOLATION);
}
