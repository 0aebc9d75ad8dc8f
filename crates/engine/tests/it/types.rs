//! Types of users in the catalog: what uses them keeps them, and they survive restarts.

use std::sync::Arc;

use engine::{Altered, Durability, Engine, Txn};
use model::{
    Domain, DomainCheck, Lineage, Lsn, Result, RowColumn, RowSchema, SqlState, TableId, TableName, Type, TypeSpec,
    TypeSpecRef, UserType, user_types,
};

use crate::{begin, open};

fn created(txn: &mut Txn, name: &str, kind: UserType) -> Result<TypeSpecRef> {
    let oid = user_types::new_oid(&kind, u64::from(txn.next_number()) << 7)?;
    let spec = Arc::new(TypeSpec { id: txn.next_number(), name: TableName::public(name), version: 1, oid, kind });
    txn.create_type(Arc::clone(&spec))?;
    Ok(spec)
}

fn domain_over(base: Type) -> UserType {
    let check = DomainCheck { name: "c".into(), condition: "value IS NOT NULL".into(), is_valid: true };
    UserType::Domain(Domain { base, over: 0, not_null: false, default: None, checks: vec![check] })
}

fn table(txn: &mut Txn, name: &str, columns: Vec<RowColumn>) -> Result<TableId> {
    let schema = RowSchema {
        id: TableId(txn.next_number()),
        name: TableName::public(name),
        version: 1,
        lineage: Lineage::default(),
        columns,
        primary: None,
        secondary: vec![],
        checks: vec![],
        foreign_keys: vec![],
        triggers: Vec::new(),
        replica_identity: model::ReplicaIdentity::default(),
    };
    Ok(txn.create_row_table(schema)?.id())
}

fn commit(engine: &Engine, txn: Txn) -> Result<Lsn> {
    engine.finish(txn.commit(Durability::Sync))
}

fn types(engine: &Engine) -> Vec<TypeSpecRef> {
    engine.snapshot(Lsn::ZERO).catalog().types().cloned().collect()
}

fn enum_column(spec: &TypeSpec) -> RowColumn {
    RowColumn::new("e", Type::from_oid(spec.oid, -1).expect("a type of columns"))
}

#[test]
fn types_are_the_same_after_a_restart_from_the_log_and_from_the_manifest() {
    let dir = tempfile::tempdir().expect("dir");
    let engine = open(dir.path());
    let mut txn = begin(&engine);
    let mood = created(&mut txn, "mood", user_types::enumeration(["a", "b"].into_iter())).expect("enum");
    let base = Type::from_oid(mood.oid, -1).expect("a type of columns");
    let own = created(&mut txn, "own", domain_over(base)).expect("domain");
    let columns = vec![enum_column(&mood), RowColumn { domain: Some(own.oid), ..RowColumn::new("d", base) }];
    let id = table(&mut txn, "t", columns).expect("table");
    let mut next = TypeSpec { version: 2, ..(*mood).clone() };
    next.add(1, "between", false).expect("a label");
    txn.alter_type(Arc::new(next)).expect("alter");
    commit(&engine, txn).expect("commit");
    let before = types(&engine);
    assert_eq!((before.len(), before[0].version, before[0].labels().len()), (2, 2, 3));
    drop(engine);
    let engine = open(dir.path());
    assert_eq!(types(&engine), before, "from the log");
    engine.flush().expect("flush");
    drop(engine);
    let engine = open(dir.path());
    assert_eq!(types(&engine), before, "from the manifest");
    let snapshot = engine.snapshot(Lsn::ZERO);
    let columns = &snapshot.row_table_by_id(id).expect("table").schema.columns;
    assert_eq!((columns[0].user_type(), columns[1].user_type()), (Some(mood.oid), Some(own.oid)));
    assert_eq!(snapshot.catalog().type_by_oid(own.oid).map(|spec| &*spec.name.table), Some("own"));
}

#[test]
fn a_type_that_is_used_cannot_be_dropped_even_by_a_transaction_that_does_not_see_the_use() {
    let dir = tempfile::tempdir().expect("dir");
    let engine = open(dir.path());
    let mut txn = begin(&engine);
    let mood = created(&mut txn, "mood", user_types::enumeration(["a"].into_iter())).expect("enum");
    commit(&engine, txn).expect("commit");
    let mut dropping = begin(&engine);
    dropping.drop_type(mood.id).expect("nothing uses it yet");
    let mut txn = begin(&engine);
    let id = table(&mut txn, "t", vec![enum_column(&mood)]).expect("table");
    commit(&engine, txn).expect("commit");
    let error = commit(&engine, dropping).expect_err("a type at commit");
    assert_eq!(error.state(), SqlState::DEPENDENT_OBJECTS_STILL_EXIST, "{error}");
    let error = begin(&engine).drop_type(mood.id).expect_err("a type");
    assert_eq!(error.state(), SqlState::DEPENDENT_OBJECTS_STILL_EXIST, "{error}");
    // The other way round: the table comes after the drop.
    let mut creating = begin(&engine);
    table(&mut creating, "late", vec![enum_column(&mood)]).expect("table");
    let mut txn = begin(&engine);
    assert!(matches!(txn.drop_row_table(id), Ok(Altered::Done(()))));
    txn.drop_type(mood.id).expect("nothing uses it any more");
    commit(&engine, txn).expect("commit");
    let error = commit(&engine, creating).expect_err("a table of a type that is gone");
    assert_eq!(error.state(), SqlState::UNDEFINED_OBJECT, "{error}");
    assert!(types(&engine).is_empty());
}

#[test]
fn two_transactions_cannot_change_a_type_at_a_time_and_a_rollback_leaves_none() {
    let dir = tempfile::tempdir().expect("dir");
    let engine = open(dir.path());
    let mut txn = begin(&engine);
    let mood = created(&mut txn, "mood", user_types::enumeration(["a"].into_iter())).expect("enum");
    commit(&engine, txn).expect("commit");
    let (mut one, mut other) = (begin(&engine), begin(&engine));
    for (txn, label) in [(&mut one, "b"), (&mut other, "c")] {
        let mut next = TypeSpec { version: 2, ..(*mood).clone() };
        next.add(1, label, true).expect("a label");
        txn.alter_type(Arc::new(next)).expect("alter");
    }
    commit(&engine, one).expect("the first");
    let error = commit(&engine, other).expect_err("the second");
    assert_eq!(error.state(), SqlState::SERIALIZATION_FAILURE, "{error}");
    assert!(types(&engine)[0].number("b").is_some());
    let mut txn = begin(&engine);
    created(&mut txn, "gone", domain_over(Type::Int4)).expect("domain");
    drop(txn);
    assert_eq!(types(&engine).len(), 1);
    let mut txn = begin(&engine);
    let error = created(&mut txn, "mood", domain_over(Type::Int4)).expect_err("the name is taken");
    assert_eq!(error.state(), SqlState::DUPLICATE_OBJECT, "{error}");
}
