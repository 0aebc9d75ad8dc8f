//! Temporary objects: neither the log nor a checkpoint has them, and what is beside them is durable as ever.

use std::sync::Arc;

use engine::{Altered, Durability, Engine, NextValue, RowData, Txn};
use env::sim::SimEnv;
use model::{Datum, Lsn, RowSchema, SequenceSpec, TableId, TableName, Type, ViewColumn, ViewSpec};

use crate::begin;
use crate::rows::{alter, amounts, column, create, done, index, next_version, open, put_rows};

const SCHEMA: &str = "pg_temp_7";

fn name(table: &str) -> TableName {
    TableName { schema: SCHEMA.into(), table: table.into() }
}

fn commit(engine: &Engine, txn: Txn) {
    engine.finish(txn.commit(Durability::Sync)).expect("commit");
}

/// Creates the schema with a table, a view and a sequence.
fn make(engine: &Engine) -> (TableId, u32) {
    let mut txn = begin(engine);
    txn.create_schema(SCHEMA).expect("create");
    let schema = RowSchema {
        id: TableId(txn.next_number()),
        name: name("t"),
        version: 1,
        lineage: model::Lineage::default(),
        columns: vec![column("id", Type::Int4, true), column("note", Type::Text, false)],
        primary: Some(index(&txn, "t_pkey", &[0], true)),
        secondary: vec![],
        checks: vec![],
        foreign_keys: vec![],
        triggers: Vec::new(),
        replica_identity: model::ReplicaIdentity::default(),
    };
    let table = txn.create_row_table(schema).expect("create").id();
    let sequence = txn.next_number();
    let spec = SequenceSpec {
        id: sequence,
        name: name("s"),
        ty: Type::Int8,
        start: 1,
        increment: 1,
        min: 1,
        max: i64::MAX,
        cache: 1,
        cycle: false,
        owner: None,
    };
    txn.create_sequence(Arc::new(spec)).expect("create");
    let view = ViewSpec {
        id: txn.next_number(),
        name: name("v"),
        version: 1,
        columns: vec![ViewColumn { name: "one".into(), ty: 23, typmod: -1 }],
        query: "SELECT 1 AS one".into(),
        references: vec![],
        base: None,
        check: None,
        materialized: None,
    };
    txn.create_view(Arc::new(view)).expect("create");
    commit(engine, txn);
    (table, sequence)
}

fn insert(txn: &mut Txn, table: TableId, id: i32, note: &str) {
    let table = Arc::clone(txn.snapshot_newest().row_table_by_id(table).expect("table"));
    let mut row = Vec::new();
    table.layout.encode(&[Datum::Int4(id), Datum::Text(note)], &mut row).expect("a row");
    done(txn.rows().insert(&table, row.into(), &crossbeam_epoch::pin()));
}

fn temporary_objects(engine: &Engine) -> usize {
    let snapshot = engine.snapshot(Lsn(u64::MAX));
    let catalog = snapshot.catalog();
    let tables = catalog.row_tables().filter(|table| table.name.is_temporary()).count();
    let sequences = catalog.sequences().filter(|sequence| sequence.name.is_temporary()).count();
    let views = catalog.views().filter(|view| view.name.is_temporary()).count();
    tables + sequences + views + usize::from(catalog.has_schema(SCHEMA))
}

#[test]
fn a_crash_leaves_nothing_temporary_and_all_that_was_committed_beside_it() {
    for flushes in 0..3 {
        let env = SimEnv::new(flushes);
        let engine = open(&env);
        create(&engine, "t");
        let (table, sequence) = make(&engine);
        assert_eq!(temporary_objects(&engine), 4);
        if flushes > 1 {
            engine.flush().expect("flush");
        }
        let mut txn = begin(&engine);
        for id in 0..100 {
            insert(&mut txn, table, id, "temporary");
            done(crate::rows::insert(&mut txn, "t", id, id.into()));
        }
        let NextValue::Value { value, .. } = txn.next_value(sequence).expect("a number") else {
            panic!("it is not logged")
        };
        assert_eq!(value, 1);
        commit(&engine, txn);
        if flushes > 0 {
            engine.flush().expect("flush");
        }
        let mut txn = begin(&engine);
        let old = Arc::clone(txn.snapshot_newest().row_table_by_id(table).expect("table"));
        assert_eq!(old.records.rows(), 100);
        let columns = [old.schema.columns.clone(), vec![column("more", Type::Int4, false)]].concat();
        alter(&mut txn, RowSchema { columns, ..next_version(&old) }, RowData::Keep);
        done(crate::rows::insert(&mut txn, "t", 500, 5));
        commit(&engine, txn);
        put_rows(&engine, "t", [(501, 6)]);
        let expected = amounts(&engine, "t");
        env.crash();
        drop(engine);
        let engine = open(&env);
        assert_eq!(temporary_objects(&engine), 0, "{flushes} flushes");
        assert_eq!(amounts(&engine, "t"), expected, "{flushes} flushes");
        // The names and numbers are free.
        make(&engine);
        engine.flush().expect("flush");
        env.crash();
        drop(engine);
        let engine = open(&env);
        assert_eq!((temporary_objects(&engine), amounts(&engine, "t")), (0, expected));
    }
}

#[test]
fn rows_and_numbers_of_temporary_objects_are_not_logged() {
    let env = SimEnv::new(9);
    let engine = open(&env);
    let (table, sequence) = make(&engine);
    let before = engine.stats().log_bytes;
    let mut txn = begin(&engine);
    for id in 0..1_000 {
        insert(&mut txn, table, id, "a row of some length, which would be seen in the log");
        let _ = txn.next_value(sequence).expect("a number");
    }
    commit(&engine, txn);
    let mut txn = begin(&engine);
    while let Altered::Wait(_) = txn.drop_row_table(table).expect("drop") {}
    commit(&engine, txn);
    let logged = engine.stats().log_bytes - before;
    assert!(logged < 200, "two commits without content took {logged} bytes");
}
