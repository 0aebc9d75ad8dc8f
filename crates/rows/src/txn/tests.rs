//! Tests of transactions: pairs of concurrent transactions, and random histories against a map.

mod deferrable;
mod inverted;
#[cfg(shuttle)]
mod modelled;
mod partial;
mod serializable;

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use model::{Datum, Error, Lsn, RowColumn, RowIndex, RowSchema, SqlState, TableId, TableName, Type};

use crate::index::Direction;
use crate::locks::{LockMode, WaitPolicy};
use crate::read_set::ReadSet;
use crate::readers::Readers;
use crate::reclaim;
use crate::row::{ColumnLayout, RowLayout};
use crate::store::Store;
use crate::sync::{AtomicU64, Mutex};
use crate::table::{IndexData, RECORDS_MAX, RecordId, Records, RowTable};
use crate::txn::{Access, Entered, Isolation, Locked, Put, Txn, View};

/// One table: id (the key), code (unique, may be NULL), name (indexed).
struct Db {
    store: Arc<Store>,
    table: Arc<RowTable>,
    /// LSN of the newest commit; the mutex is the commit lock.
    newest: Mutex<u64>,
    visible: AtomicU64,
}

type Row = (i32, Option<i32>, &'static str);

impl Db {
    fn new() -> Db {
        Db::with_secondary(2)
    }

    /// A database whose table has the first `count` of its secondary indexes.
    fn with_secondary(count: usize) -> Db {
        let column = |name: &str, ty, not_null| RowColumn { not_null, ..RowColumn::new(name, ty) };
        let columns =
            vec![column("id", Type::Int4, true), column("code", Type::Int4, false), column("name", Type::Text, true)];
        let index = |id, name: &str, columns: &[usize], unique| RowIndex {
            id,
            name: name.into(),
            columns: columns.into(),
            unique,
            constraint: false,
            ..RowIndex::default()
        };
        let schema = Arc::new(RowSchema {
            id: TableId(1),
            name: TableName::public("t"),
            version: 1,
            lineage: model::Lineage::default(),
            primary: Some(index(1, "t_pkey", &[0], true)),
            secondary: [index(2, "t_code", &[1], true), index(3, "t_name", &[2], false)][..count].to_vec(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            triggers: Vec::new(),
            replica_identity: model::ReplicaIdentity::default(),
            columns,
        });
        let layout: Vec<ColumnLayout<'_>> =
            schema.columns.iter().map(|column| ColumnLayout::new(column.ty, column.not_null)).collect();
        let table = Arc::new(RowTable {
            layout: Arc::new(RowLayout::new(&layout).unwrap()),
            records: Arc::new(Records::new()),
            primary: schema.primary.as_ref().map(|def| Arc::new(IndexData::new(&schema, def))),
            secondary: schema.secondary.iter().map(|def| Arc::new(IndexData::new(&schema, def))).collect(),
            schema,
            derived: crate::Derived::default(),
        });
        Db { store: Arc::new(Store::default()), table, newest: Mutex::new(0), visible: AtomicU64::new(0) }
    }

    fn begin(&self, isolation: Isolation) -> Txn {
        let mut txn = self.store.begin(isolation);
        // Hold the commit lock from the snapshot to its registration.
        let _newest = (isolation == Isolation::Serializable).then(|| self.newest.lock());
        txn.set_snapshot(self.now());
        txn
    }

    fn now(&self) -> Lsn {
        Lsn(self.visible.load(Ordering::Acquire))
    }

    fn commit(&self, txn: Txn) {
        self.try_commit(txn).unwrap();
    }

    fn try_commit(&self, mut txn: Txn) -> Result<Lsn, Error> {
        let guard = &crossbeam_epoch::pin();
        txn.validate()?;
        let mut newest = self.newest.lock();
        txn.validate()?;
        *newest += 1;
        txn.prepare(guard)?;
        txn.commit(Lsn(*newest), guard);
        self.visible.store(*newest, Ordering::Release);
        Ok(Lsn(*newest))
    }

    fn row(&self, (id, code, name): Row) -> Box<[u8]> {
        let mut out = Vec::new();
        let code = code.map_or(Datum::Null, Datum::Int4);
        self.table.layout.encode(&[Datum::Int4(id), code, Datum::Text(name)], &mut out).unwrap();
        out.into()
    }

    fn insert(&self, txn: &mut Txn, row: Row) -> Put {
        txn.insert(&self.table, self.row(row), &crossbeam_epoch::pin()).unwrap()
    }

    /// Inserts a row in its own transaction.
    fn put(&self, row: Row) {
        let mut txn = self.begin(Isolation::ReadCommitted);
        assert!(matches!(self.insert(&mut txn, row), Put::Done(_)));
        self.commit(txn);
    }

    fn find(&self, id: i32) -> RecordId {
        let mut txn = self.begin(Isolation::ReadCommitted);
        let guard = &crossbeam_epoch::pin();
        txn.get(&self.table, &self.key(id), guard).unwrap().expect("a row").0
    }

    fn key(&self, id: i32) -> Vec<u8> {
        let mut key = Vec::new();
        let index = self.table.primary.as_ref().unwrap();
        crate::key::push(&mut key, &index.keys()[0], &Datum::Int4(id)).unwrap();
        key
    }

    /// Locks and replaces a row; returns what prevented it, if anything.
    fn update(&self, txn: &mut Txn, record: RecordId, row: Row) -> Result<Put, String> {
        let guard = &crossbeam_epoch::pin();
        let locked = txn.lock_row(&self.table, record, LockMode::NoKeyUpdate, WaitPolicy::Wait, guard);
        match locked.map_err(|error| error.state().to_string())? {
            Locked::Row { .. } => {
                txn.update(&self.table, record, self.row(row), guard).map_err(|error| error.state().to_string())
            }
            Locked::Wait(event) => Ok(Put::Wait(event)),
            other => Err(format!("{other:?}")),
        }
    }

    fn delete(&self, txn: &mut Txn, record: RecordId) {
        let guard = &crossbeam_epoch::pin();
        assert!(matches!(
            txn.lock_row(&self.table, record, LockMode::Update, WaitPolicy::Wait, guard).unwrap(),
            Locked::Row { .. }
        ));
        assert!(txn.delete(&self.table, record, guard).unwrap().is_none());
    }

    fn decode(&self, row: &[u8]) -> (i32, Option<i32>, String) {
        let field = |at| self.table.layout.field(row, at).unwrap();
        let (Datum::Int4(id), Datum::Text(name)) = (field(0), field(2)) else { panic!("{:?}", field(0)) };
        let code = if let Datum::Int4(code) = field(1) { Some(code) } else { None };
        (id, code, name.to_owned())
    }

    /// All rows that a transaction sees, read by record, by the primary index and by each secondary
    /// index; the results must agree.
    fn rows(&self, txn: &mut Txn) -> Vec<(i32, Option<i32>, String)> {
        let guard = &crossbeam_epoch::pin();
        let mut rows: Vec<_> = self
            .table
            .records
            .all()
            .filter_map(|record| txn.read(&self.table, record, guard).unwrap())
            .map(|row| self.decode(row))
            .collect();
        rows.sort();
        let all = (Bound::Unbounded, Bound::Unbounded);
        let mut by_key = Vec::new();
        let primary = self.table.primary.as_ref().unwrap();
        primary.scan(all.0, all.1, Direction::Forward, guard, |_, record| {
            by_key.extend(txn.read(&self.table, record, guard).unwrap().map(|row| self.decode(row)));
            ControlFlow::Continue(())
        });
        assert_eq!(by_key, rows, "by primary key");
        for index in &self.table.secondary {
            let mut found = Vec::new();
            index.scan(all.0, all.1, Direction::Forward, guard, |entry, record| {
                let row = txn.read_entry(&self.table, index, entry, record, guard).unwrap();
                found.extend(row.map(|row| self.decode(row)));
                ControlFlow::Continue(())
            });
            found.sort();
            assert_eq!(found, rows, "by {}", index.def().name);
        }
        rows
    }

    fn entries(&self) -> usize {
        self.table.primary.iter().chain(&self.table.secondary).map(|index| index.tree.len()).sum()
    }
}

fn names(rows: &[(i32, Option<i32>, String)]) -> Vec<&str> {
    rows.iter().map(|row| row.2.as_str()).collect()
}

#[test]
fn rows_are_visible_after_commit_and_to_their_own_transaction_before() {
    let db = Db::new();
    let mut writer = db.begin(Isolation::ReadCommitted);
    assert!(matches!(db.insert(&mut writer, (1, Some(1), "a")), Put::Done(_)));
    let mut before = db.begin(Isolation::RepeatableRead);
    assert_eq!(names(&db.rows(&mut writer)), ["a"]);
    assert!(db.rows(&mut before).is_empty());
    db.commit(writer);
    assert!(db.rows(&mut before).is_empty());
    let mut after = db.begin(Isolation::RepeatableRead);
    assert_eq!(names(&db.rows(&mut after)), ["a"]);
    assert_eq!((after.newest_seen(), db.table.records.rows()), (Lsn(1), 1));
}

#[test]
fn an_existing_key_is_refused_and_a_deleted_one_is_reused() {
    let db = Db::new();
    db.put((1, None, "first"));
    let mut txn = db.begin(Isolation::ReadCommitted);
    assert!(matches!(db.insert(&mut txn, (1, None, "second")), Put::Duplicate { index: None, .. }));
    let mut old = db.begin(Isolation::RepeatableRead);
    db.delete(&mut txn, db.find(1));
    assert!(matches!(db.insert(&mut txn, (1, None, "second")), Put::Done(_)));
    assert_eq!(names(&db.rows(&mut txn)), ["second"]);
    db.commit(txn);
    assert_eq!(names(&db.rows(&mut old)), ["first"]);
    assert_eq!(names(&db.rows(&mut db.begin(Isolation::ReadCommitted))), ["second"]);
    assert_eq!(db.table.records.rows(), 1);
}

#[test]
fn the_second_writer_waits_and_sees_the_result_of_the_first() {
    for (isolation, commits, expected) in [
        (Isolation::ReadCommitted, true, Ok("changed")),
        (Isolation::ReadCommitted, false, Ok("same")),
        (Isolation::RepeatableRead, true, Err("40001")),
        (Isolation::RepeatableRead, false, Ok("same")),
    ] {
        let db = Db::new();
        db.put((1, None, "a"));
        let record = db.find(1);
        let mut first = db.begin(Isolation::ReadCommitted);
        assert!(matches!(db.update(&mut first, record, (1, None, "b")), Ok(Put::Done(_))));
        let mut second = db.begin(isolation);
        let Ok(Put::Wait(event)) = db.update(&mut second, record, (1, None, "c")) else { panic!("no wait") };
        assert!(!event.is_set());
        if commits {
            db.commit(first)
        } else {
            drop(first)
        }
        assert!(event.is_set());
        let guard = &crossbeam_epoch::pin();
        let found = match second.lock_row(&db.table, record, LockMode::NoKeyUpdate, WaitPolicy::Wait, guard) {
            Ok(Locked::Row { changed, .. }) => Ok(if changed { "changed" } else { "same" }),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.state().0),
        };
        assert_eq!(found, expected, "{isolation:?}, the first commits: {commits}");
        drop(second);
        assert_eq!(db.store.waiting(), 0);
    }
}

/// The bug: of three transactions that inserted the same unique key, two livelocked after the first
/// ended. The mechanism: a statement that ran again locked a record first and thereby released the
/// key granted meanwhile; then it waited for the other transaction, which did the same. The fix: a
/// lock granted while waiting is kept.
#[test]
fn one_of_many_waiters_for_a_key_has_it_when_its_statement_runs_again() {
    let db = Db::new();
    let mut txns = [(); 3].map(|()| db.begin(Isolation::ReadCommitted));
    assert!(matches!(db.insert(&mut txns[0], (1, Some(7), "a")), Put::Done(_)));
    let [first, mut second, mut third] = txns;
    let Put::Wait(of_second) = db.insert(&mut second, (2, Some(7), "b")) else { panic!("no wait") };
    let Put::Wait(of_third) = db.insert(&mut third, (3, Some(7), "c")) else { panic!("no wait") };
    drop(first);
    assert!(of_second.is_set() && !of_third.is_set());
    assert!(matches!(db.insert(&mut second, (2, Some(7), "b")), Put::Done(_)));
    db.commit(second);
    assert!(of_third.is_set());
    assert!(matches!(db.insert(&mut third, (3, Some(7), "c")), Put::Duplicate { index: Some(0), .. }));
}

#[test]
fn a_row_deleted_meanwhile_is_gone() {
    let db = Db::new();
    db.put((1, None, "a"));
    let record = db.find(1);
    let mut second = db.begin(Isolation::ReadCommitted);
    let mut first = db.begin(Isolation::ReadCommitted);
    db.delete(&mut first, record);
    assert!(matches!(db.update(&mut second, record, (1, None, "b")), Ok(Put::Wait(_))));
    db.commit(first);
    assert_eq!(db.update(&mut second, record, (1, None, "b")).unwrap_err(), "Gone");
}

#[test]
fn two_transactions_that_wait_for_each_other_deadlock_and_the_survivor_continues() {
    let db = Db::new();
    db.put((1, None, "a"));
    db.put((2, None, "b"));
    let (one, two) = (db.find(1), db.find(2));
    let (mut first, mut second) = (db.begin(Isolation::ReadCommitted), db.begin(Isolation::ReadCommitted));
    assert!(matches!(db.update(&mut first, one, (1, None, "x")), Ok(Put::Done(_))));
    assert!(matches!(db.update(&mut second, two, (2, None, "y")), Ok(Put::Done(_))));
    let Ok(Put::Wait(event)) = db.update(&mut first, two, (2, None, "x")) else { panic!("no wait") };
    assert_eq!(db.update(&mut second, one, (1, None, "y")).unwrap_err(), SqlState::DEADLOCK_DETECTED.0);
    drop(second);
    assert!(event.is_set());
    assert!(matches!(db.update(&mut first, two, (2, None, "x")), Ok(Put::Done(_))));
    db.commit(first);
    assert_eq!(names(&db.rows(&mut db.begin(Isolation::ReadCommitted))), ["x", "x"]);
}

#[test]
fn a_unique_key_belongs_to_its_first_writer_unless_that_rolls_back() {
    for commits in [true, false] {
        let db = Db::new();
        let (mut first, mut second) = (db.begin(Isolation::ReadCommitted), db.begin(Isolation::ReadCommitted));
        assert!(matches!(db.insert(&mut first, (1, Some(7), "a")), Put::Done(_)));
        // NULLs are distinct from each other.
        assert!(matches!(db.insert(&mut second, (3, None, "c")), Put::Done(_)));
        assert!(matches!(db.insert(&mut first, (4, None, "d")), Put::Done(_)));
        let Put::Wait(event) = db.insert(&mut second, (2, Some(7), "b")) else { panic!("no wait") };
        if commits {
            db.commit(first)
        } else {
            drop(first)
        }
        assert!(event.is_set());
        let put = db.insert(&mut second, (2, Some(7), "b"));
        assert_eq!(matches!(put, Put::Duplicate { index: Some(0), .. }), commits, "{put:?}");
        assert_eq!(matches!(put, Put::Done(_)), !commits, "{put:?}");
        db.commit(second);
        db.rows(&mut db.begin(Isolation::ReadCommitted));
    }
}

#[test]
fn an_abandoned_wait_leaves_the_queue() {
    let db = Db::new();
    db.put((1, None, "a"));
    let record = db.find(1);
    let (mut first, mut second) = (db.begin(Isolation::ReadCommitted), db.begin(Isolation::ReadCommitted));
    assert!(matches!(db.update(&mut first, record, (1, None, "b")), Ok(Put::Done(_))));
    assert!(matches!(db.update(&mut second, record, (1, None, "c")), Ok(Put::Wait(_))));
    assert_eq!(db.store.waiting(), 1);
    // Another statement follows, as after a timeout within a savepoint.
    assert!(matches!(db.insert(&mut second, (2, None, "d")), Put::Done(_)));
    assert_eq!(db.store.waiting(), 0);
    db.commit(first);
    let mut third = db.begin(Isolation::ReadCommitted);
    assert!(matches!(db.update(&mut third, record, (1, None, "e")), Ok(Put::Done(_))));
}

/// A transaction that waits for a record asks for it again with NOWAIT and is refused. The refusal forgot the wait, which
/// stayed in the queue: the next wait replaced it in the table of waits, and its grant removed the other, so deadlocks
/// were not found. The wait is kept now, and cancelled by the next request.
#[test]
fn a_refused_request_leaves_the_wait_for_the_same_lock_to_be_cancelled() {
    let db = Db::new();
    db.put((1, None, "a"));
    db.put((2, None, "b"));
    let (one, two) = (db.find(1), db.find(2));
    let guard = &crossbeam_epoch::pin();
    let (mut first, mut second) = (db.begin(Isolation::ReadCommitted), db.begin(Isolation::ReadCommitted));
    assert!(matches!(db.update(&mut first, one, (1, None, "c")), Ok(Put::Done(_))));
    assert!(matches!(db.update(&mut first, two, (2, None, "d")), Ok(Put::Done(_))));
    assert!(matches!(db.update(&mut second, one, (1, None, "e")), Ok(Put::Wait(_))));
    let refused = second.lock_row(&db.table, one, LockMode::Update, WaitPolicy::NoWait, guard);
    assert_eq!(refused.unwrap_err().state(), SqlState::LOCK_NOT_AVAILABLE);
    assert_eq!(db.store.waiting(), 1, "the update still waits");
    assert!(matches!(db.update(&mut second, two, (2, None, "f")), Ok(Put::Wait(_))));
    assert_eq!(db.store.waiting(), 1, "a transaction waits for one lock at most");
    db.commit(first);
    assert!(matches!(db.update(&mut second, two, (2, None, "f")), Ok(Put::Done(_))));
    drop(second);
    assert_eq!(db.store.waiting(), 0);
}

#[test]
fn an_insert_waits_for_the_delete_of_its_key() {
    let db = Db::new();
    db.put((1, Some(7), "a"));
    let (mut first, mut second) = (db.begin(Isolation::ReadCommitted), db.begin(Isolation::ReadCommitted));
    db.delete(&mut first, db.find(1));
    assert!(matches!(db.insert(&mut second, (2, Some(7), "b")), Put::Wait(_)));
    db.commit(first);
    assert!(matches!(db.insert(&mut second, (2, Some(7), "b")), Put::Done(_)));
    // An update that keeps the key does not block it.
    db.commit(second);
    let (mut first, mut second) = (db.begin(Isolation::ReadCommitted), db.begin(Isolation::ReadCommitted));
    assert!(matches!(db.update(&mut first, db.find(2), (2, Some(7), "c")), Ok(Put::Done(_))));
    assert!(matches!(db.insert(&mut second, (3, Some(7), "d")), Put::Duplicate { index: Some(0), .. }));
}

#[test]
fn the_primary_key_is_reported_among_several_duplicates_and_nothing_is_inserted() {
    let db = Db::new();
    db.put((1, Some(7), "a"));
    let mut txn = db.begin(Isolation::ReadCommitted);
    for (row, expected) in [((1, Some(7), "b"), None), ((1, Some(8), "b"), None), ((2, Some(7), "b"), Some(0))] {
        let put = db.insert(&mut txn, row);
        assert!(matches!(put, Put::Duplicate { index, .. } if index == expected), "{row:?}: {put:?}");
    }
    assert_eq!((db.entries(), txn.is_empty()), (3, true));
    assert!(matches!(db.insert(&mut txn, (2, Some(8), "b")), Put::Done(_)));
    db.commit(txn);
    assert_eq!(names(&db.rows(&mut db.begin(Isolation::ReadCommitted))), ["a", "b"]);
}

#[test]
fn an_insert_that_waits_for_one_key_leaves_the_others_free() {
    let db = Db::new();
    let (mut first, mut second) = (db.begin(Isolation::ReadCommitted), db.begin(Isolation::ReadCommitted));
    assert!(matches!(db.insert(&mut first, (1, Some(7), "a")), Put::Done(_)));
    assert!(matches!(db.insert(&mut second, (2, Some(7), "b")), Put::Wait(_)));
    assert_eq!(db.entries(), 3);
    drop(second);
    assert!(matches!(db.insert(&mut first, (2, Some(8), "c")), Put::Done(_)));
    db.commit(first);
    assert_eq!(names(&db.rows(&mut db.begin(Isolation::ReadCommitted))), ["a", "c"]);
}

#[test]
fn an_update_of_unindexed_columns_changes_no_index() {
    for (row, entries, garbage) in [
        // No index changed, one, both.
        ((1, Some(7), "a"), 3, 1),
        ((1, Some(7), "b"), 4, 2),
        ((1, None, "b"), 5, 3),
    ] {
        let db = Db::new();
        db.put((1, Some(7), "a"));
        let mut txn = db.begin(Isolation::ReadCommitted);
        assert!(matches!(db.update(&mut txn, db.find(1), row), Ok(Put::Done(_))));
        db.commit(txn);
        assert_eq!((db.entries(), db.store.garbage()), (entries, garbage), "{row:?}");
        db.rows(&mut db.begin(Isolation::ReadCommitted));
    }
}

#[test]
fn key_lookups_ignore_the_snapshot() {
    let db = Db::new();
    let guard = &crossbeam_epoch::pin();
    let code = |code: i32| {
        let mut key = Vec::new();
        crate::key::push(&mut key, &db.table.secondary[0].keys()[0], &Datum::Int4(code)).unwrap();
        key
    };
    let mut old = db.begin(Isolation::RepeatableRead);
    db.put((1, Some(7), "a"));
    for (index, key, is_there) in
        [(None, db.key(1), true), (None, db.key(2), false), (Some(0), code(7), true), (Some(0), code(8), false)]
    {
        assert_eq!(old.has_key(&db.table, index, &key, guard).unwrap(), is_there);
        let locked = old.lock_key_row(&db.table, index, &key, LockMode::KeyShare, guard).unwrap();
        assert_eq!(matches!(locked, Locked::Row { .. }), is_there, "{index:?} {key:?}: {locked:?}");
    }
    // The key is locked, other columns may change.
    let mut other = db.begin(Isolation::ReadCommitted);
    assert!(matches!(db.update(&mut other, db.find(1), (1, Some(7), "b")), Ok(Put::Done(_))));
    assert!(matches!(other.delete(&db.table, db.find(1), guard), Ok(Some(_))));
    drop(old);
    assert!(matches!(other.delete(&db.table, db.find(1), guard), Ok(None)));
    assert!(!other.has_key(&db.table, None, &db.key(1), guard).unwrap());
    let gone = other.lock_key_row(&db.table, None, &db.key(1), LockMode::KeyShare, guard).unwrap();
    assert!(matches!(gone, Locked::Gone), "{gone:?}");
}

#[test]
fn keys_can_be_changed_and_changed_back() {
    let db = Db::new();
    db.put((1, Some(1), "a"));
    db.put((2, Some(2), "b"));
    let mut old = db.begin(Isolation::RepeatableRead);
    for (id, code, name) in [(1, Some(5), "x"), (1, Some(1), "a"), (9, Some(1), "a"), (1, Some(1), "z")] {
        let mut txn = db.begin(Isolation::ReadCommitted);
        let record = db.rows(&mut txn).iter().find(|row| row.0 != 2).map(|row| db.find(row.0)).unwrap();
        assert!(matches!(db.update(&mut txn, record, (id, code, name)), Ok(Put::Done(_))));
        db.rows(&mut txn);
        db.commit(txn);
        assert_eq!(names(&db.rows(&mut old)), ["a", "b"]);
    }
    let mut txn = db.begin(Isolation::ReadCommitted);
    assert!(matches!(db.update(&mut txn, db.find(2), (2, Some(1), "b")), Ok(Put::Duplicate { index: Some(0), .. })));
    drop((txn, old));
    db.store.collect(&Readers::since(db.now()), usize::MAX).unwrap();
    assert_eq!(names(&db.rows(&mut db.begin(Isolation::ReadCommitted))), ["z", "b"]);
    assert_eq!(db.entries(), 6);
}

#[test]
fn rollback_to_a_savepoint_undoes_changes_and_releases_locks() {
    let db = Db::new();
    db.put((1, Some(1), "a"));
    db.put((2, Some(2), "b"));
    let guard = &crossbeam_epoch::pin();
    let mut txn = db.begin(Isolation::ReadCommitted);
    assert!(matches!(db.update(&mut txn, db.find(1), (1, Some(1), "x")), Ok(Put::Done(_))));
    let savepoint = txn.savepoint();
    assert!(matches!(db.update(&mut txn, db.find(1), (1, Some(9), "y")), Ok(Put::Done(_))));
    db.delete(&mut txn, db.find(2));
    assert!(matches!(db.insert(&mut txn, (3, Some(2), "c")), Put::Done(_)));
    assert_eq!(names(&db.rows(&mut txn)), ["y", "c"]);
    txn.roll_back_to(savepoint, guard).unwrap();
    assert_eq!(names(&db.rows(&mut txn)), ["x", "b"]);
    let mut other = db.begin(Isolation::ReadCommitted);
    assert!(matches!(db.update(&mut other, db.find(2), (2, Some(2), "z")), Ok(Put::Done(_))));
    assert!(matches!(db.update(&mut other, db.find(1), (1, Some(1), "z")), Ok(Put::Wait(_))));
    db.commit(txn);
    db.commit(other);
    assert_eq!(names(&db.rows(&mut db.begin(Isolation::ReadCommitted))), ["x", "z"]);
}

/// The bug: a lock made stronger after a savepoint stayed so after ROLLBACK TO, and waiters that its former mode does not
/// block waited for the end of the transaction. The mechanism: only locks taken after the savepoint were released. The
/// fix: the mode before is listed with the stronger one.
#[test]
fn rollback_to_a_savepoint_lowers_a_lock_to_its_mode_at_the_savepoint() {
    use LockMode::{KeyShare, NoKeyUpdate, Share, Update};
    let guard = &crossbeam_epoch::pin();
    for (modes, stronger) in [
        (vec![KeyShare], Share),
        (vec![KeyShare], NoKeyUpdate),
        (vec![KeyShare, Share], NoKeyUpdate),
        (vec![Share], Update),
        (vec![KeyShare, Share, NoKeyUpdate], Update),
        // Nothing to lower.
        (vec![NoKeyUpdate], Share),
    ] {
        let db = Db::new();
        db.put((1, None, "a"));
        let record = db.find(1);
        let lock = |txn: &mut Txn, mode, policy| txn.lock_row(&db.table, record, mode, policy, guard);
        let is_locked = |mode| {
            let mut other = db.begin(Isolation::ReadCommitted);
            matches!(lock(&mut other, mode, WaitPolicy::Skip).unwrap(), Locked::Skipped)
        };
        let blocked = || [KeyShare, Share, NoKeyUpdate, Update].map(is_locked);
        let mut txn = db.begin(Isolation::ReadCommitted);
        // Each mode of the list has a savepoint of its own.
        let mut savepoints = Vec::new();
        for mode in modes.iter().chain([&stronger]) {
            savepoints.push((txn.savepoint(), blocked()));
            assert!(matches!(lock(&mut txn, *mode, WaitPolicy::Wait).unwrap(), Locked::Row { .. }));
        }
        // A waiter keeps the lock in its queue, and is granted it once nothing conflicts.
        let mut waiter = db.begin(Isolation::ReadCommitted);
        let waits = matches!(lock(&mut waiter, Update, WaitPolicy::Wait).unwrap(), Locked::Wait(_));
        assert!(waits, "{modes:?}, {stronger:?}");
        let from_start = savepoints[0].0;
        for (at, (savepoint, before)) in savepoints.into_iter().enumerate().rev() {
            txn.roll_back_to(savepoint, guard).unwrap();
            if at == 0 {
                assert_eq!(db.store.waiting(), 0, "{modes:?}, {stronger:?}");
                drop(waiter);
                assert_eq!(blocked(), before);
                break;
            }
            assert_eq!(blocked(), before, "{modes:?}, {stronger:?}: savepoint {at}");
        }
        // All at once, and at the end of the transaction.
        for by_end in [false, true] {
            for mode in modes.iter().chain([&stronger]) {
                assert!(matches!(lock(&mut txn, *mode, WaitPolicy::Wait).unwrap(), Locked::Row { .. }));
            }
            assert!(is_locked(Update));
            if by_end {
                drop(txn);
                break;
            }
            txn.roll_back_to(from_start, guard).unwrap();
            assert_eq!(blocked(), [false; 4]);
        }
        assert_eq!(blocked(), [false; 4]);
    }
}

/// A change that needs a stronger lock than before the savepoint: rolled back, the lock is the weaker one again, and a
/// waiter that it does not block goes on.
#[test]
fn a_waiter_goes_on_when_rollback_to_a_savepoint_lowers_the_lock() {
    let guard = &crossbeam_epoch::pin();
    for (change, expected) in [("update", true), ("rekey", true), ("delete", true), ("lock", true), ("nothing", false)]
    {
        let db = Db::new();
        db.put((1, Some(1), "a"));
        let record = db.find(1);
        let lock = |txn: &mut Txn, mode| txn.lock_row(&db.table, record, mode, WaitPolicy::Wait, guard).unwrap();
        let mut txn = db.begin(Isolation::ReadCommitted);
        assert!(matches!(lock(&mut txn, LockMode::KeyShare), Locked::Row { .. }));
        let savepoint = txn.savepoint();
        match change {
            "update" => assert!(matches!(db.update(&mut txn, record, (1, Some(1), "b")), Ok(Put::Done(_)))),
            "rekey" => assert!(matches!(db.update(&mut txn, record, (1, Some(2), "b")), Ok(Put::Done(_)))),
            "delete" => db.delete(&mut txn, record),
            "lock" => assert!(matches!(lock(&mut txn, LockMode::Update), Locked::Row { .. })),
            _ => {}
        }
        let mut other = db.begin(Isolation::ReadCommitted);
        match db.update(&mut other, record, (1, Some(1), "c")).unwrap() {
            Put::Wait(event) => {
                assert!(expected, "{change}");
                txn.roll_back_to(savepoint, guard).unwrap();
                assert!(event.is_set(), "{change}");
                assert!(matches!(db.update(&mut other, record, (1, Some(1), "c")), Ok(Put::Done(_))));
            }
            _ => assert!(!expected, "{change}"),
        }
        // The key share of before the savepoint is still held.
        let Ok(Some(event)) = other.delete(&db.table, record, guard) else { panic!("{change}: no key share") };
        db.commit(txn);
        assert!(event.is_set());
        assert!(other.delete(&db.table, record, guard).unwrap().is_none());
        db.commit(other);
        assert_eq!(names(&db.rows(&mut db.begin(Isolation::ReadCommitted))), Vec::<&str>::new());
    }
}

/// A stronger mode that was waited for is lowered like one that was granted at once, also if the statement asked for a
/// still stronger mode when it ran again, and if it gave up then.
#[test]
fn a_stronger_mode_that_was_waited_for_ends_with_its_savepoint() {
    use LockMode::{KeyShare, NoKeyUpdate, Share, Update};
    let guard = &crossbeam_epoch::pin();
    for (again, gives_up) in [(NoKeyUpdate, false), (Update, false), (Update, true)] {
        let db = Db::new();
        db.put((1, None, "a"));
        let record = db.find(1);
        let lock = |txn: &mut Txn, mode, policy| txn.lock_row(&db.table, record, mode, policy, guard).unwrap();
        let begin = |mode| {
            let mut txn = db.begin(Isolation::ReadCommitted);
            assert!(matches!(lock(&mut txn, mode, WaitPolicy::Wait), Locked::Row { .. }));
            txn
        };
        let (mut txn, sharer, key_sharer) = (begin(KeyShare), begin(Share), begin(KeyShare));
        let savepoint = txn.savepoint();
        let Locked::Wait(event) = lock(&mut txn, NoKeyUpdate, WaitPolicy::Wait) else { panic!("a sharer has it") };
        drop(sharer);
        assert!(event.is_set());
        let waits = matches!(lock(&mut txn, again, WaitPolicy::Wait), Locked::Wait(_));
        assert_eq!(waits, again == Update);
        if gives_up {
            txn.give_up_wait();
            assert_eq!(db.store.waiting(), 0);
            let mut other = db.begin(Isolation::ReadCommitted);
            assert!(matches!(lock(&mut other, Share, WaitPolicy::Skip), Locked::Skipped), "what was granted is kept");
        }
        drop(key_sharer);
        if waits && !gives_up {
            assert!(matches!(lock(&mut txn, again, WaitPolicy::Wait), Locked::Row { .. }));
        }
        txn.roll_back_to(savepoint, guard).unwrap();
        let mut other = db.begin(Isolation::ReadCommitted);
        assert!(matches!(lock(&mut other, Update, WaitPolicy::Skip), Locked::Skipped));
        assert!(matches!(lock(&mut other, NoKeyUpdate, WaitPolicy::Skip), Locked::Row { .. }));
        drop((txn, other));
        assert!(matches!(lock(&mut begin(KeyShare), Update, WaitPolicy::Skip), Locked::Row { .. }));
        assert_eq!(db.store.waiting(), 0);
    }
}

#[test]
fn skip_locked_and_nowait_leave_no_locks() {
    let db = Db::new();
    db.put((1, None, "a"));
    let record = db.find(1);
    let guard = &crossbeam_epoch::pin();
    let (mut first, mut second) = (db.begin(Isolation::ReadCommitted), db.begin(Isolation::ReadCommitted));
    first.lock_row(&db.table, record, LockMode::Share, WaitPolicy::Wait, guard).unwrap();
    let mut ask = |mode, policy| second.lock_row(&db.table, record, mode, policy, guard);
    assert!(matches!(ask(LockMode::Update, WaitPolicy::Skip), Ok(Locked::Skipped)));
    assert_eq!(ask(LockMode::Update, WaitPolicy::NoWait).unwrap_err().state(), SqlState::LOCK_NOT_AVAILABLE);
    assert!(matches!(ask(LockMode::Share, WaitPolicy::NoWait), Ok(Locked::Row { .. })));
    drop((first, second));
    let mut third = db.begin(Isolation::ReadCommitted);
    assert!(matches!(db.update(&mut third, record, (1, None, "b")), Ok(Put::Done(_))));
}

#[test]
fn garbage_is_collected_and_record_numbers_are_reused() {
    let db = Db::new();
    let mut memory = Vec::new();
    for round in 0..4 {
        for id in 0..300 {
            db.put((id, Some(id), "a"));
        }
        for name in ["b", "c", "d"] {
            for id in 0..300 {
                let mut txn = db.begin(Isolation::ReadCommitted);
                assert!(matches!(db.update(&mut txn, db.find(id), (id, Some(id), name)), Ok(Put::Done(_))));
                db.commit(txn);
            }
        }
        for id in 0..300 {
            let mut txn = db.begin(Isolation::ReadCommitted);
            db.delete(&mut txn, db.find(id));
            db.commit(txn);
        }
        db.store.collect(&Readers::since(db.now()), usize::MAX).unwrap();
        assert_eq!((db.store.garbage(), db.entries(), db.table.records.rows()), (0, 0, 0), "round {round}");
        // The epoch returns memory only after all threads have advanced.
        reclaim::VERSIONS.drain();
        reclaim::NODES.drain();
        memory.push(db.table.records.memory_bytes());
    }
    assert_eq!(memory[0], memory[3], "{memory:?}");
}

#[test]
fn a_snapshot_keeps_the_versions_it_sees() {
    let db = Db::new();
    db.put((1, Some(1), "a"));
    let mut reader = db.begin(Isolation::RepeatableRead);
    let horizon = db.now();
    let mut txn = db.begin(Isolation::ReadCommitted);
    assert!(matches!(db.update(&mut txn, db.find(1), (1, Some(2), "b")), Ok(Put::Done(_))));
    db.commit(txn);
    let mut txn = db.begin(Isolation::ReadCommitted);
    db.delete(&mut txn, db.find(1));
    db.commit(txn);
    db.store.collect(&Readers::since(horizon), usize::MAX).unwrap();
    assert_eq!(names(&db.rows(&mut reader)), ["a"]);
    drop(reader);
    db.store.collect(&Readers::since(db.now()), usize::MAX).unwrap();
    assert_eq!(db.entries(), 0);
}

/// The bug: an idle reader kept every version made since its snapshot, until all inserts and
/// updates were refused.
#[test]
fn an_idle_snapshot_keeps_one_version_per_record_and_no_later_ones() {
    let db = Db::new();
    for id in 0..10 {
        db.put((id, Some(id), "old"));
    }
    let mut reader = db.begin(Isolation::RepeatableRead);
    let readers = |db: &Db| Readers::new(vec![reader.snapshot()], db.now());
    for round in 0..100 {
        for id in 0..10 {
            let mut txn = db.begin(Isolation::ReadCommitted);
            let code = Some(id + 10 * (round % 3));
            assert!(matches!(db.update(&mut txn, db.find(id), (id, code, "new")), Ok(Put::Done(_))));
            db.commit(txn);
        }
        // A queue: inserts at one end, deletes at the other.
        db.put((1_000 + round, Some(1_000 + round), "queued"));
        let mut txn = db.begin(Isolation::ReadCommitted);
        db.delete(&mut txn, db.find(1_000 + round));
        db.commit(txn);
        db.store.collect(&readers(&db), usize::MAX).unwrap();
    }
    let guard = &crossbeam_epoch::pin();
    let versions = |id| db.table.records.record(db.find(id)).unwrap().versions(guard).count();
    assert!((0..10).all(|id| versions(id) == 2));
    // Each record has its primary key, two codes and two names.
    assert!(db.entries() <= 10 * 5, "{} entries", db.entries());
    assert!(db.store.garbage() <= 10 * 4, "{} things", db.store.garbage());
    assert!(db.store.held_bytes() > 0);
    assert_eq!(names(&db.rows(&mut reader)), ["old"; 10]);
    drop(reader);
    db.store.collect(&Readers::new(Vec::new(), db.now()), usize::MAX).unwrap();
    assert!((0..10).all(|id| versions(id) == 1));
    assert_eq!((db.entries(), db.store.garbage(), db.store.held_bytes()), (30, 0, 0));
}

/// The bug: the rows of a dropped table were freed by the last user, all at once, and not at all
/// while a prepared statement referred to it.
#[test]
fn a_dropped_table_is_freed_in_steps_once_no_snapshot_reads_it() {
    let db = Db::new();
    (0..2_000).for_each(|id| db.put((id, Some(id), "a")));
    let mut reader = db.begin(Isolation::RepeatableRead);
    let old = reader.snapshot();
    db.store.depart(Lsn(old.0 + 1), &db.table, None);
    let later = Lsn(old.0 + 2);
    let readers = Readers::new(vec![old], later);
    assert_eq!(db.store.collect(&readers, usize::MAX).unwrap(), 0);
    assert_eq!((db.rows(&mut reader).len(), db.store.garbage()), (2_000, 1));
    assert_eq!(db.store.departed_bytes(), db.table.memory_bytes());
    drop(reader);
    let (mut steps, mut bytes) = (0, db.table.memory_bytes());
    while db.store.garbage() > 0 {
        assert!(db.store.collect(&Readers::new(Vec::new(), later), 100).unwrap() <= 100);
        let left = db.table.memory_bytes();
        assert!(left <= bytes && bytes - left < 100 << 10, "{bytes} to {left} bytes in one step");
        (steps, bytes) = (steps + 1, left);
    }
    assert!(steps >= 20, "{steps} steps");
    // A user of the dropped table remains, and finds no rows.
    assert_eq!((db.entries(), db.store.departed_bytes()), (0, 0));
    assert!(db.rows(&mut db.begin(Isolation::ReadCommitted)).is_empty());
}

/// The work of a collection does not grow with the number of changes to the same records during a
/// snapshot.
#[test]
fn garbage_held_by_a_snapshot_is_not_examined_before_it_ends() {
    let db = Db::new();
    (0..100).for_each(|id| db.put((id, Some(id), "old")));
    let reader = db.begin(Isolation::RepeatableRead);
    let mut looked_at = Vec::new();
    for name in ["b", "c", "d", "e", "f", "g"] {
        for id in 0..100 {
            let mut txn = db.begin(Isolation::ReadCommitted);
            assert!(matches!(db.update(&mut txn, db.find(id), (id, Some(id), name)), Ok(Put::Done(_))));
            db.commit(txn);
        }
        looked_at.push(db.store.collect(&Readers::new(vec![reader.snapshot()], db.now()), usize::MAX).unwrap());
    }
    // Each change leaves a version and an entry of the name index.
    assert!(looked_at.iter().all(|count| *count == looked_at[0]), "{looked_at:?}");
    assert_eq!(db.store.collect(&Readers::new(vec![reader.snapshot()], db.now()), usize::MAX).unwrap(), 0);
}

/// Rows by key.
type Map = BTreeMap<i32, (i32, Option<i32>, String)>;

/// Three concurrent transactions do random operations that need no waiting; each is compared with a
/// map of its snapshot.
#[test]
fn random_histories_equal_a_map() {
    for seed in 0..300u64 {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let db = Db::new();
        let mut committed = Map::new();
        // Open transactions, with the rows that each must see.
        let mut open: Vec<(Txn, Map)> = Vec::new();
        for _ in 0..120 {
            if open.len() < 3 {
                open.push((db.begin(Isolation::RepeatableRead), committed.clone()));
            }
            let at = random(open.len() as u64) as usize;
            let id = random(6) as i32;
            let code = Some(random(4) as i32).filter(|code| *code > 0);
            let name = ["a", "b", "c"][random(3) as usize];
            match random(10) {
                0..4 => {
                    let (txn, map) = &mut open[at];
                    let savepoint = txn.savepoint();
                    if let Ok(Put::Done(_)) = txn.insert(&db.table, db.row((id, code, name)), &crossbeam_epoch::pin()) {
                        map.insert(id, (id, code, name.into()));
                    } else {
                        txn.undo_to(savepoint, &crossbeam_epoch::pin()).unwrap();
                    }
                }
                4..7 => {
                    let (txn, map) = &mut open[at];
                    let (savepoint, guard) = (txn.savepoint(), crossbeam_epoch::pin());
                    let found = txn.get(&db.table, &db.key(id), &guard).unwrap().map(|(record, _)| record);
                    assert_eq!(found.is_some(), map.contains_key(&id), "seed {seed}");
                    let Some(record) = found else { continue };
                    let to = if random(4) == 0 { random(6) as i32 } else { id };
                    match db.update(txn, record, (to, code, name)) {
                        Ok(Put::Done(_)) => {
                            map.remove(&id);
                            map.insert(to, (to, code, name.into()));
                        }
                        _ => txn.undo_to(savepoint, &guard).unwrap(),
                    }
                }
                7 => {
                    let (txn, map) = &mut open[at];
                    let guard = crossbeam_epoch::pin();
                    let Some((record, _)) = txn.get(&db.table, &db.key(id), &guard).unwrap() else { continue };
                    let lock = txn.lock_row(&db.table, record, LockMode::Update, WaitPolicy::NoWait, &guard);
                    if matches!(lock, Ok(Locked::Row { .. })) {
                        assert!(txn.delete(&db.table, record, &guard).unwrap().is_none());
                        map.remove(&id);
                    }
                }
                8 => {
                    let (txn, map) = open.swap_remove(at);
                    // First updater wins: check that no other transaction changed the same rows.
                    let mut changed = Vec::new();
                    let done = txn.changes(0, &crossbeam_epoch::pin(), |_, record, row| {
                        changed.push((record, row.map(<[u8]>::to_vec)));
                        ControlFlow::Continue(())
                    });
                    assert_eq!(done.unwrap(), txn.changes_len());
                    let before = committed.clone();
                    let mut txn = txn;
                    assert_eq!(db.rows(&mut txn), map.values().cloned().collect::<Vec<_>>(), "seed {seed}");
                    db.commit(txn);
                    let mut fresh = db.begin(Isolation::ReadCommitted);
                    committed = db.rows(&mut fresh).into_iter().map(|row| (row.0, row)).collect();
                    assert!(!changed.is_empty() || committed == before, "seed {seed}");
                    for (_, row) in changed {
                        let Some(row) = row else { continue };
                        let row = db.decode(&row);
                        assert_eq!(committed.get(&row.0), Some(&row), "seed {seed}");
                    }
                }
                _ => {
                    drop(open.swap_remove(at));
                    let mut fresh = db.begin(Isolation::ReadCommitted);
                    let now: Vec<_> = db.rows(&mut fresh);
                    assert_eq!(now, committed.values().cloned().collect::<Vec<_>>(), "seed {seed}");
                }
            }
            if random(3) == 0 {
                let snapshots = open.iter().map(|(txn, _)| txn.snapshot()).collect();
                db.store.collect(&Readers::new(snapshots, db.now()), usize::MAX).unwrap();
            }
            for (txn, map) in &mut open {
                assert_eq!(db.rows(txn), map.values().cloned().collect::<Vec<_>>(), "seed {seed}");
            }
        }
        drop(open);
        db.store.collect(&Readers::new(Vec::new(), db.now()), usize::MAX).unwrap();
        assert_eq!((db.store.garbage(), db.store.list_bytes(), db.store.held_bytes()), (0, 0, 0), "seed {seed}");
        let rows = db.rows(&mut db.begin(Isolation::ReadCommitted)).len();
        assert_eq!((db.entries(), db.store.waiting()), (3 * rows, 0), "seed {seed}");
    }
}

#[test]
fn concurrent_transfers_keep_the_total() {
    const ROWS: i32 = 8;
    let db = Db::new();
    for id in 0..ROWS {
        db.put((id, Some(id * 1_000_000 + 100), "a"));
    }
    // The amount is in the code's last digits, so every step changes the unique index.
    let amount = |code: i32| code % 1_000_000;
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let db = &db;
            scope.spawn(move || {
                let mut state = thread * 77 + 13;
                let mut done = 0;
                while done < 500 {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let (from, to) = ((state >> 33) as i32 % ROWS, (state >> 40) as i32 % ROWS);
                    if from == to {
                        continue;
                    }
                    done += usize::from(transfer(db, from, to));
                }
            });
        }
        let db = &db;
        scope.spawn(move || {
            for _ in 0..400 {
                let mut txn = db.begin(Isolation::RepeatableRead);
                let sum: i32 = db.rows(&mut txn).iter().map(|row| amount(row.1.unwrap())).sum();
                assert_eq!(sum, ROWS * 100);
                // Only this thread has long-lived snapshots, so none is below the oldest one here.
                drop(txn);
                std::thread::yield_now();
            }
        });
    });
    let rows = db.rows(&mut db.begin(Isolation::ReadCommitted));
    assert_eq!(rows.iter().map(|row| amount(row.1.unwrap())).sum::<i32>(), ROWS * 100);
    db.store.collect(&Readers::since(db.now()), usize::MAX).unwrap();
    assert_eq!(db.entries(), 3 * ROWS as usize);
}

/// Moves 1 from one row to another: waits where needed and retries after a deadlock.
fn transfer(db: &Db, from: i32, to: i32) -> bool {
    let mut txn = db.begin(Isolation::ReadCommitted);
    for (id, by) in [(from, -1), (to, 1)] {
        loop {
            txn.set_snapshot(db.now());
            let guard = crossbeam_epoch::pin();
            let (record, _) = txn.get(&db.table, &db.key(id), &guard).unwrap().expect("a row");
            let event = match txn.lock_row(&db.table, record, LockMode::NoKeyUpdate, WaitPolicy::Wait, &guard) {
                Err(error) => {
                    assert_eq!(error.state(), SqlState::DEADLOCK_DETECTED);
                    return false;
                }
                Ok(Locked::Row { row, .. }) => {
                    let (_, code, _) = db.decode(row);
                    let row = db.row((id, code.map(|code| code + by), "a"));
                    let savepoint = txn.savepoint();
                    match txn.update(&db.table, record, row, &guard) {
                        Ok(Put::Done(_)) => break,
                        Ok(Put::Wait(event)) => {
                            txn.undo_to(savepoint, &guard).unwrap();
                            event
                        }
                        Ok(other) => panic!("{other:?}"),
                        Err(error) => {
                            assert_eq!(error.state(), SqlState::DEADLOCK_DETECTED);
                            return false;
                        }
                    }
                }
                Ok(Locked::Wait(event)) => event,
                Ok(other) => panic!("{other:?}"),
            };
            drop(guard);
            while !event.is_set() {
                std::thread::yield_now();
            }
        }
    }
    db.commit(txn);
    true
}

/// The bug: a transaction that gave up waiting for a stronger lock mode lost the weaker one it
/// held, and with it the record it had changed. The fix: only a lock that was not held before is
/// released.
#[test]
fn giving_up_the_wait_for_a_stronger_lock_keeps_the_weaker_one() {
    for by_itself in [true, false] {
        let db = Db::new();
        db.put((1, None, "a"));
        db.put((2, None, "b"));
        let (first, second) = (db.find(1), db.find(2));
        let guard = &crossbeam_epoch::pin();
        let mut reader = db.begin(Isolation::ReadCommitted);
        let shared = reader.lock_row(&db.table, first, LockMode::KeyShare, WaitPolicy::Wait, guard);
        assert!(matches!(shared.unwrap(), Locked::Row { .. }));
        let mut writer = db.begin(Isolation::ReadCommitted);
        assert!(matches!(db.update(&mut writer, first, (1, None, "changed")), Ok(Put::Done(_))));
        let event = writer.delete(&db.table, first, guard).unwrap().expect("the reader wants it to stay");
        if by_itself {
            writer.give_up_wait();
        } else {
            assert!(matches!(db.update(&mut writer, second, (2, None, "too")), Ok(Put::Done(_))));
        }
        drop(reader);
        assert!(!event.is_set(), "nobody waits for it");
        let mut other = db.begin(Isolation::ReadCommitted);
        let locked = other.lock_row(&db.table, first, LockMode::NoKeyUpdate, WaitPolicy::NoWait, guard);
        assert_eq!(locked.unwrap_err().state(), SqlState::LOCK_NOT_AVAILABLE);
        db.commit(writer);
        let locked = other.lock_row(&db.table, first, LockMode::NoKeyUpdate, WaitPolicy::NoWait, guard);
        assert!(matches!(locked.unwrap(), Locked::Row { changed: true, .. }));
    }
}

/// The bug: an index entry became garbage under one schema version; rows written under a later one,
/// with more columns, could not be read by the old layout, and the entry stayed for ever. The fix:
/// collection uses the newest layout.
#[test]
fn garbage_from_before_an_added_column_is_collected() {
    let db = Db::new();
    db.put((1, Some(1), "a"));
    let record = db.find(1);
    let mut txn = db.begin(Isolation::ReadCommitted);
    assert!(matches!(db.update(&mut txn, record, (1, Some(2), "b")), Ok(Put::Done(_))));
    db.commit(txn);
    let mut txn = db.begin(Isolation::ReadCommitted);
    assert!(matches!(txn.enter(&db.table, Access::Alone).unwrap(), Entered::In));
    let mut next = (*db.table.schema).clone();
    next.version += 1;
    let missing = crate::row::alone(next.columns[1].ty, &Datum::Int4(5)).unwrap();
    next.columns.push(RowColumn { name: "more".into(), missing, ..next.columns[1].clone() });
    let wider = db.table.altered(Arc::new(next), &txn, &|_| String::new()).unwrap();
    let wider = Arc::new(wider);
    txn.set_version(wider.id(), Some(Arc::clone(&wider)));
    wider.take_effect();
    let guard = &crossbeam_epoch::pin();
    let locked = txn.lock_row(&wider, record, LockMode::NoKeyUpdate, WaitPolicy::Wait, guard).unwrap();
    let Locked::Row { row, .. } = locked else { panic!("{locked:?}") };
    assert!(matches!(wider.layout.field(row, 3), Ok(Datum::Int4(5))));
    let mut row = Vec::new();
    let values = [Datum::Int4(1), Datum::Int4(3), Datum::Text("c"), Datum::Int4(6)];
    wider.layout.encode(&values, &mut row).unwrap();
    assert!(matches!(txn.update(&wider, record, row.into(), guard), Ok(Put::Done(_))));
    db.commit(txn);
    db.store.collect(&Readers::since(db.now()), usize::MAX).unwrap();
    assert_eq!(db.store.garbage(), 0);
    let mut entries = 0;
    for index in wider.primary.iter().chain(&wider.secondary) {
        entries += index.tree.len();
    }
    assert_eq!(entries, 3, "one in each index");
}

#[test]
fn a_view_taken_before_the_first_write_shows_no_later_writes() {
    let db = Db::new();
    db.put((1, None, "old"));
    let guard = &crossbeam_epoch::pin();
    let mut txn = db.begin(Isolation::ReadCommitted);
    let name = |view: &View| view.get(&db.table, &db.key(1), guard).map(|(_, row)| db.decode(row).2);
    let before = txn.view();
    let record = db.find(1);
    assert!(matches!(db.update(&mut txn, record, (1, None, "new")), Ok(Put::Done(_))));
    assert_eq!(name(&before).as_deref(), Some("old"));
    assert_eq!(name(&txn.view()).as_deref(), Some("new"));
}

fn recovered(table: &RowTable) -> model::Result<RowTable> {
    let mut parts = Vec::new();
    for part in table.unrecovered(&mut parts).into_iter().rev() {
        parts.push(table.recover(part)?);
    }
    table.recovered(parts)
}

#[test]
fn a_recovered_part_that_the_log_changes_is_recovered_again() {
    let db = Db::new();
    let guard = &crossbeam_epoch::pin();
    let put = |record: u64, lsn: u64, row: Option<Row>| {
        db.table.records.restoring().put(RecordId(record), Lsn(lsn), row.map(|row| db.row(row)), guard).unwrap();
    };
    let part = 1 << 16;
    db.table.records.reserve(2);
    for (n, record) in [1, part + 1, 2 * part + 1].into_iter().enumerate() {
        put(record, 10, Some((n as i32, None, "old")));
    }
    let mut parts: Vec<_> = (0..3).map(|part| db.table.recover(part).unwrap()).collect();
    put(part + 1, 20, Some((7, None, "changed")));
    put(part + 2, 20, None);
    [1, 2].iter().for_each(|at| db.table.records.touch(RecordId(part + at), Lsn(20)));
    assert_eq!(db.table.unrecovered(&mut parts), [1]);
    parts.push(db.table.recover(1).unwrap());
    let table = db.table.recovered(parts).unwrap();
    let mut txn = db.begin(Isolation::ReadCommitted);
    txn.set_snapshot(Lsn(20));
    let found = [0, 1, 2, 7].map(|id| txn.get(&table, &db.key(id), guard).unwrap().map(|found| found.0.0));
    assert_eq!(found, [Some(1), None, Some(2 * part + 1), Some(part + 1)]);
    assert_eq!(table.records.rows(), 3);
    // Every number without a row is free, exactly once.
    let mut free: Vec<u64> = (0..2_000).map(|_| table.records.arena.take()).collect();
    assert_eq!((free[0], free[1]), (0, 2));
    free.sort_unstable();
    free.dedup();
    assert_eq!(free.len(), 2_000);
    assert!([1, part + 1, 2 * part + 1].iter().all(|used| !free.contains(used)));
}

#[test]
fn long_values_are_known_by_column_before_and_after_recovery() {
    let (db, guard) = (Db::with_secondary(1), &crossbeam_epoch::pin());
    let long: &str = "x".repeat(100_000).leak();
    let mut txn = db.begin(Isolation::ReadCommitted);
    for (id, name) in [(1, "short"), (2, "x".repeat(60_000).leak())] {
        txn.insert(&db.table, db.row((id, None, name)), guard).unwrap();
    }
    assert_eq!(db.table.records.longest_value(&[0, 1, 2]), 0);
    txn.insert(&db.table, db.row((3, None, long)), guard).unwrap();
    let known = |table: &RowTable| [&[0, 1][..], &[2], &[0, 1, 2]].map(|columns| table.records.longest_value(columns));
    let row = db.row((3, None, long)).len();
    assert_eq!(known(&db.table), [0, row, row]);

    let other = Db::with_secondary(1);
    other.table.records.restoring().put(RecordId(1), Lsn(1), Some(db.row((3, None, long))), guard).unwrap();
    assert_eq!(known(&recovered(&other.table).unwrap()), [0, row, row]);
}

#[test]
fn recovery_builds_indexes_from_unordered_rows_and_reports_duplicate_keys_as_corruption() {
    // Ascending, descending and shuffled keys, over several runs of records.
    let count = 140_000_u64;
    for key_of in [|n: u64| n, |n| 1_000_000 - n, |n| n * 7_919 % 1_000_003] {
        let db = Db::new();
        let mut restoring = db.table.records.restoring();
        for n in (0..count).filter(|n| n % 5 != 0) {
            let row = db.row((key_of(n) as i32, (n % 3 == 0).then_some(n as i32), "x"));
            restoring.put(RecordId(n), Lsn(1), Some(row), &crossbeam_epoch::pin()).unwrap();
        }
        restoring.put(RecordId(1), Lsn(2), None, &crossbeam_epoch::pin()).unwrap();
        drop(restoring);
        let table = recovered(&db.table).unwrap();
        assert_eq!(table.records.rows(), count / 5 * 4 - 1);
        for index in table.primary.iter().chain(&table.secondary) {
            assert_eq!(index.tree.len() as u64, count / 5 * 4 - 1, "{}", index.def.name);
        }
        let mut txn = db.begin(Isolation::ReadCommitted);
        txn.set_snapshot(Lsn(2));
        // A long-lived guard would delay tests that wait for reclamation.
        let guard = &crossbeam_epoch::pin();
        for n in [2, 6, 131_072, 139_999] {
            let key = db.key(key_of(n) as i32);
            assert_eq!(txn.get(&table, &key, guard).unwrap().map(|found| found.0), Some(RecordId(n)));
        }
        assert!(txn.get(&table, &db.key(key_of(1) as i32), guard).unwrap().is_none());
        assert_eq!([table.records.arena.take(), table.records.arena.take()], [0, 1], "free ones, the lowest first");

        let again = db.row((key_of(131_073) as i32, None, "again"));
        db.table.records.restoring().put(RecordId(5), Lsn(3), Some(again), &crossbeam_epoch::pin()).unwrap();
        let error = recovered(&db.table).err().unwrap();
        assert_eq!(error.state(), SqlState::DATA_CORRUPTED, "{error}");
    }
}

#[test]
fn recovery_allocates_no_slots_for_unused_records() {
    let db = Db::new();
    let guard = &crossbeam_epoch::pin();
    let far = RECORDS_MAX - 1;
    let mut restoring = db.table.records.restoring();
    for record in [3, far] {
        let row = db.row((record as i32, None, "x"));
        restoring.put(RecordId(record), Lsn(1), Some(row), guard).unwrap();
    }
    assert!(restoring.put(RecordId(RECORDS_MAX), Lsn(1), None, guard).is_err());
    drop(restoring);
    let table = recovered(&db.table).unwrap();
    assert_eq!(table.records.rows(), 2);
    assert!(table.records.memory_bytes() < 1 << 20, "{} bytes", table.records.memory_bytes());
    let mut txn = db.begin(Isolation::ReadCommitted);
    txn.set_snapshot(Lsn(1));
    for (record, is_there) in [(3, true), (4, false), (70_000, false), (far, true)] {
        assert_eq!(txn.read(&table, RecordId(record), guard).unwrap().is_some(), is_there, "{record}");
    }
    assert!(txn.read(&table, RecordId(far + 1), guard).is_err());
}
