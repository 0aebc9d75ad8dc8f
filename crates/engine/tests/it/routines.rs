//! Functions of users and triggers in the catalog: they survive restarts, and their numbers are not given again.

use std::sync::Arc;

use engine::{Altered, Durability, Engine, RowData, Txn};
use model::{
    Lineage, Lsn, RoutineLanguage, RoutineRef, RoutineSpec, RoutineVolatility, RowColumn, RowSchema, RowTrigger,
    SqlState, TableId, TableName, TriggerEvents, TriggerTiming, Type,
};

use crate::{begin, open};

fn routine(id: u32, body: &str) -> RoutineRef {
    Arc::new(RoutineSpec {
        id,
        name: TableName::public("f"),
        version: 1,
        is_procedure: false,
        parameters: Vec::new(),
        result: 23,
        returns_set: false,
        language: RoutineLanguage::Sql,
        body: body.into(),
        is_unquoted: false,
        volatility: RoutineVolatility::Volatile,
        is_strict: false,
        is_definer: false,
        is_leakproof: false,
        parallel: b'u',
        cost: None,
        rows: None,
        settings: vec![("search_path".into(), "public".into())],
    })
}

fn table(txn: &mut Txn) -> RowSchema {
    RowSchema {
        id: TableId(txn.next_number()),
        name: TableName::public("t"),
        version: 1,
        lineage: Lineage::default(),
        columns: vec![RowColumn::new("a", Type::Int4)],
        primary: None,
        secondary: vec![],
        checks: vec![],
        foreign_keys: vec![],
        triggers: vec![],
        replica_identity: model::ReplicaIdentity::default(),
    }
}

fn commit(engine: &Engine, txn: Txn) {
    engine.finish(txn.commit(Durability::Sync)).expect("commit");
}

fn routines(engine: &Engine) -> Vec<RoutineRef> {
    engine.snapshot(Lsn::ZERO).catalog().routines().cloned().collect()
}

#[test]
fn routines_and_triggers_are_the_same_after_a_restart_from_the_log_and_from_the_manifest() {
    let dir = tempfile::tempdir().expect("dir");
    let engine = open(dir.path());
    let mut txn = begin(&engine);
    let (first, second) = (txn.next_number(), txn.next_number());
    txn.create_routine(routine(first, "SELECT 1")).expect("a function");
    let other = RoutineSpec { name: TableName::public("g"), ..(*routine(second, "SELECT 2")).clone() };
    txn.create_routine(Arc::new(other)).expect("another function");
    let schema = table(&mut txn);
    let id = txn.create_row_table(schema.clone()).expect("a table").id();
    commit(&engine, txn);
    let mut txn = begin(&engine);
    let replaced = RoutineSpec { version: 2, ..(*routine(first, "SELECT 3")).clone() };
    txn.alter_routine(Arc::new(replaced)).expect("replace");
    let trigger = RowTrigger {
        id: txn.next_number(),
        name: "t".into(),
        timing: TriggerTiming::After,
        events: TriggerEvents::from_code(5).expect("events"),
        each_row: true,
        condition: Some("new.a > 0".into()),
        routine: first,
        ..RowTrigger::default()
    };
    let next = RowSchema { version: 2, triggers: vec![trigger.clone()], ..schema };
    let altered = txn.alter_row_table(next, RowData::Keep, &|_| String::new()).expect("alter");
    assert!(matches!(altered, Altered::Done(_)));
    commit(&engine, txn);
    let before = routines(&engine);
    assert_eq!(before.iter().map(|one| one.body.as_str()).collect::<Vec<_>>(), ["SELECT 3", "SELECT 2"]);
    drop(engine);
    for from in ["log", "manifest"] {
        let engine = open(dir.path());
        assert_eq!(routines(&engine), before, "from the {from}");
        let snapshot = engine.snapshot(Lsn::ZERO);
        let triggers = &snapshot.row_table_by_id(id).expect("table").schema.triggers;
        assert_eq!(*triggers, std::slice::from_ref(&trigger), "from the {from}");
        assert!(begin(&engine).next_number() > trigger.id, "the number of a trigger is not given again");
        engine.flush().expect("flush");
    }
}

#[test]
fn two_transactions_cannot_create_the_same_function() {
    let dir = tempfile::tempdir().expect("dir");
    let engine = open(dir.path());
    let (mut one, mut other) = (begin(&engine), begin(&engine));
    for txn in [&mut one, &mut other] {
        let id = txn.next_number();
        txn.create_routine(routine(id, "SELECT 1")).expect("a function");
    }
    commit(&engine, one);
    let error = engine.finish(other.commit(Durability::Sync)).expect_err("the second");
    assert_eq!(error.state(), SqlState("42723"), "{error}");
    assert_eq!(routines(&engine).len(), 1);
}
