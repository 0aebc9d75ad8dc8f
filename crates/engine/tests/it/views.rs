//! Views in the catalog: what they read cannot disappear, and they survive restarts.

use std::path::Path;
use std::sync::Arc;

use engine::{Durability, Engine, Txn};
use model::{
    ColumnRole, DataType, Lsn, Result, SqlState, TableName, ViewColumn, ViewRef, ViewReference, ViewReferenceColumn,
    ViewSpec, limits,
};

use crate::{begin, column, make, open};

fn name(name: &str) -> TableName {
    TableName::public(name)
}

/// A view of one column of a table or view.
fn view_of(txn: &mut Txn, own: &str, of: &str) -> ViewRef {
    let snapshot = txn.snapshot_newest();
    let catalog = snapshot.catalog();
    let of = name(of);
    let object = catalog.table(&of).map(|table| table.id.0).or_else(|| catalog.view(&of).map(|view| view.id));
    let object = object.expect("what the view reads");
    let (column, ty, typmod) = catalog.column_of(object, 0).expect("a column");
    let used = ViewReferenceColumn { number: 0, name: column.to_owned(), ty, typmod };
    Arc::new(ViewSpec {
        id: txn.next_number(),
        name: name(own),
        version: 1,
        columns: vec![ViewColumn { name: "time".into(), ty, typmod }],
        query: format!("SELECT time FROM {of}"),
        references: vec![ViewReference { name: of, object, columns: vec![used] }],
        base: None,
        check: None,
        materialized: None,
    })
}

fn create(engine: &Engine, own: &str, of: &str) -> Result<ViewRef> {
    let mut txn = begin(engine);
    let view = view_of(&mut txn, own, of);
    txn.create_view(Arc::clone(&view))?;
    commit(engine, txn)?;
    Ok(view)
}

fn commit(engine: &Engine, txn: Txn) -> Result<Lsn> {
    engine.finish(txn.commit(Durability::Sync))
}

fn views(engine: &Engine) -> Vec<ViewRef> {
    engine.snapshot(Lsn::ZERO).catalog().views().cloned().collect()
}

fn replaced(view: &ViewSpec, by: ViewSpec) -> ViewRef {
    Arc::new(ViewSpec { id: view.id, name: view.name.clone(), version: view.version + 1, ..by })
}

#[test]
fn views_are_the_same_after_a_restart_from_the_log_and_from_the_manifest() {
    let dir = tempfile::tempdir().expect("dir");
    let reopened = |engine: Engine, dir: &Path| {
        drop(engine);
        open(dir)
    };
    let engine = open(dir.path());
    make(&engine, "t");
    create(&engine, "low", "t").expect("low");
    let high = create(&engine, "high", "low").expect("high");
    // The lower view is replaced by one that reads a view with a higher number.
    let last = create(&engine, "last", "t").expect("last");
    let mut txn = begin(&engine);
    let low = Arc::clone(txn.snapshot_newest().catalog().view(&name("low")).expect("low"));
    let over = view_of(&mut txn, "low", "last");
    txn.alter_view(replaced(&low, (*over).clone())).expect("replace");
    commit(&engine, txn).expect("commit");
    let before = views(&engine);
    assert_eq!((before.len(), before[0].version), (3, 2));
    let engine = reopened(engine, dir.path());
    assert_eq!(views(&engine), before, "from the log");
    engine.flush().expect("flush");
    let engine = reopened(engine, dir.path());
    assert_eq!(views(&engine), before, "from the manifest");
    let catalog = Arc::clone(engine.snapshot(Lsn::ZERO).catalog());
    let names = |ids: &[u32]| -> Vec<String> {
        catalog.dependent_views(ids).iter().map(|view| view.name.table.clone()).collect()
    };
    assert_eq!(names(&[last.id]), ["low", "high"]);
    let mut txn = begin(&engine);
    txn.drop_view(high.id).expect("drop");
    commit(&engine, txn).expect("commit");
    assert_eq!(views(&reopened(engine, dir.path())).len(), 2);
}

#[test]
fn what_a_view_reads_cannot_be_dropped_even_by_a_transaction_that_does_not_see_it() {
    let dir = tempfile::tempdir().expect("dir");
    let engine = open(dir.path());
    make(&engine, "t");
    let mut dropping = begin(&engine);
    dropping.drop_table(&name("t")).expect("nothing reads it yet");
    let view = create(&engine, "v", "t").expect("view");
    let refused = |done: Result<()>, what: &str| {
        assert_eq!(done.expect_err(what).state(), SqlState::DEPENDENT_OBJECTS_STILL_EXIST, "{what}");
    };
    refused(commit(&engine, dropping).map(drop), "a table at commit");
    refused(begin(&engine).drop_table(&name("t")), "a table");
    let mut txn = begin(&engine);
    txn.add_columns(&name("t"), &[column("w", DataType::Int64, ColumnRole::Field)]).expect("another column");
    txn.drop_view(view.id).and_then(|()| txn.drop_table(&name("t"))).expect("both");
    // Another transaction has created a view of the view meanwhile.
    create(&engine, "w", "v").expect("view of the view");
    refused(commit(&engine, txn).map(drop), "a view at commit");
    assert_eq!(views(&engine).len(), 2);
}

#[test]
fn a_view_does_not_read_itself_and_levels_are_limited() {
    let dir = tempfile::tempdir().expect("dir");
    let engine = open(dir.path());
    make(&engine, "v0");
    for level in 1..=limits::VIEW_LEVELS_MAX {
        create(&engine, &format!("v{level}"), &format!("v{}", level - 1)).expect("a level");
    }
    let last = limits::VIEW_LEVELS_MAX;
    let error = create(&engine, "above", &format!("v{last}")).expect_err("one too many");
    assert_eq!(error.state(), SqlState::STATEMENT_TOO_COMPLEX, "{error}");
    let mut txn = begin(&engine);
    let first = Arc::clone(txn.snapshot_newest().catalog().view(&name("v1")).expect("view"));
    let over = view_of(&mut txn, "v1", "v9");
    let error = txn.alter_view(replaced(&first, (*over).clone())).expect_err("a cycle");
    assert_eq!((error.state().0, error.message().contains("infinite recursion")), ("42P17", true), "{error}");
}

#[test]
fn a_large_definition_is_refused_and_names_are_those_of_all_relations() {
    let dir = tempfile::tempdir().expect("dir");
    let engine = open(dir.path());
    make(&engine, "t");
    let mut txn = begin(&engine);
    let view = view_of(&mut txn, "v", "t");
    let with = |bytes: usize| Arc::new(ViewSpec { query: "x".repeat(bytes), ..(*view).clone() });
    let error = txn.create_view(with(limits::VIEW_BYTES_MAX)).expect_err("too large");
    assert_eq!(error.state(), SqlState::PROGRAM_LIMIT_EXCEEDED, "{error}");
    txn.create_view(with(limits::VIEW_BYTES_MAX - 200)).expect("within the limit");
    commit(&engine, txn).expect("one log record");
    for taken in ["t", "v"] {
        assert_eq!(create(&engine, taken, "t").expect_err(taken).state(), SqlState::DUPLICATE_TABLE);
    }
    let mut txn = begin(&engine);
    let error = txn.create_table(&crate::spec("v")).expect_err("a table with the name of a view");
    assert_eq!(error.state(), SqlState::DUPLICATE_TABLE);
    let gone = Arc::new(ViewSpec { version: 3, ..(*view).clone() });
    assert_eq!(txn.alter_view(gone).expect_err("a version is left out").state(), SqlState::SERIALIZATION_FAILURE);
}
