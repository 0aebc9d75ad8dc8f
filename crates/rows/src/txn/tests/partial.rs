//! A partial index has entries of those rows alone whose predicate is true: its keys are unique among them, and those
//! are the entries that recovery makes.

use super::*;

/// id (the key), code (unique where the last column is true), and that column, which is hidden.
fn db() -> Db {
    let predicate = RowColumn { dropped: true, generated: Some("code > 0".into()), ..RowColumn::new("p", Type::Bool) };
    let index = |id, columns: &[usize], predicate| RowIndex {
        id,
        name: format!("i{id}"),
        columns: columns.into(),
        predicate,
        unique: true,
        ..RowIndex::default()
    };
    let schema = RowSchema {
        id: TableId(1),
        name: TableName::public("t"),
        version: 1,
        lineage: model::Lineage::default(),
        columns: vec![
            RowColumn { not_null: true, ..RowColumn::new("id", Type::Int4) },
            RowColumn::new("code", Type::Int4),
            predicate,
        ],
        primary: Some(index(1, &[0], None)),
        secondary: vec![index(2, &[1], Some(2))],
        checks: Vec::new(),
        foreign_keys: Vec::new(),
        triggers: Vec::new(),
        replica_identity: model::ReplicaIdentity::default(),
    };
    let table = Arc::new(RowTable::new(Arc::new(schema)).unwrap());
    Db { store: Arc::new(Store::default()), table, newest: Mutex::new(0), visible: AtomicU64::new(0) }
}

fn row(db: &Db, id: i32, code: i32, is_in: Option<bool>) -> Box<[u8]> {
    let mut out = Vec::new();
    let predicate = is_in.map_or(Datum::Null, Datum::Bool);
    db.table.layout.encode(&[Datum::Int4(id), Datum::Int4(code), predicate], &mut out).unwrap();
    out.into()
}

fn insert(db: &Db, id: i32, code: i32, is_in: Option<bool>) -> bool {
    let mut txn = db.begin(Isolation::ReadCommitted);
    let put = txn.insert(&db.table, row(db, id, code, is_in), &crossbeam_epoch::pin()).unwrap();
    let done = matches!(put, Put::Done(_));
    assert!(done || matches!(put, Put::Duplicate { index: Some(0), .. }), "{put:?}");
    if done {
        db.commit(txn);
    }
    done
}

fn update(db: &Db, id: i32, code: i32, is_in: Option<bool>) -> bool {
    let (record, guard) = (db.find(id), &crossbeam_epoch::pin());
    let mut txn = db.begin(Isolation::ReadCommitted);
    txn.lock_row(&db.table, record, LockMode::NoKeyUpdate, WaitPolicy::Wait, guard).unwrap();
    let done = matches!(txn.update(&db.table, record, row(db, id, code, is_in), guard).unwrap(), Put::Done(_));
    if done {
        db.commit(txn);
    }
    done
}

/// Records in the partial index.
fn entries(table: &RowTable) -> Vec<u64> {
    let (mut found, guard) = (Vec::new(), &crossbeam_epoch::pin());
    table.secondary[0].scan(Bound::Unbounded, Bound::Unbounded, Direction::Forward, guard, |_, record| {
        found.push(record.0);
        ControlFlow::Continue(())
    });
    found
}

#[test]
fn keys_are_unique_among_the_rows_of_a_partial_index() {
    let db = db();
    assert!(insert(&db, 1, 5, Some(false)) && insert(&db, 2, 5, None) && insert(&db, 3, 5, Some(true)));
    assert!(!insert(&db, 4, 5, Some(true)), "the key of row 3");
    assert!(!update(&db, 1, 5, Some(true)), "the key of row 3");
    assert!(update(&db, 3, 5, Some(false)) && update(&db, 1, 5, Some(true)));
    assert!(!update(&db, 3, 5, Some(true)), "the key of row 1");
    let mut txn = db.begin(Isolation::ReadCommitted);
    assert!(txn.delete(&db.table, db.find(1), &crossbeam_epoch::pin()).unwrap().is_none());
    db.commit(txn);
    assert!(update(&db, 2, 5, Some(true)));
}

#[test]
fn an_undone_change_leaves_a_partial_index_as_it_was() {
    let db = db();
    assert!(insert(&db, 1, 5, Some(false)) && insert(&db, 2, 6, Some(true)));
    let before = entries(&db.table);
    let guard = &crossbeam_epoch::pin();
    let mut txn = db.begin(Isolation::ReadCommitted);
    for (id, code, is_in) in [(1, 5, true), (2, 6, false), (1, 7, true)] {
        let record = db.find(id);
        txn.lock_row(&db.table, record, LockMode::NoKeyUpdate, WaitPolicy::Wait, guard).unwrap();
        txn.update(&db.table, record, row(&db, id, code, Some(is_in)), guard).unwrap();
    }
    drop(txn);
    assert_eq!(entries(&db.table), before);
}

#[test]
fn recovery_makes_the_entries_of_a_partial_index() {
    let db = db();
    for (id, is_in) in [(1, Some(true)), (2, Some(false)), (3, None), (4, Some(true))] {
        assert!(insert(&db, id, id, is_in));
    }
    let expected = [db.find(1).0, db.find(4).0];
    assert_eq!(entries(&db.table), expected);
    let table = recovered(&db.table).unwrap();
    assert_eq!(entries(&table), expected);
}
