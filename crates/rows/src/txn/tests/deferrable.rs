//! Deferrable keys: rows of a transaction may share one until it is checked, and committed rows never do.

use env::Event;
use model::Deferral;

use super::*;
use crate::Savepoint;
use crate::txn::KeysChecked;

/// id (a deferrable primary key) and code (a deferrable unique one).
fn db() -> Db {
    let index = |id, columns: &[usize], is_primary| RowIndex {
        id,
        name: format!("i{id}"),
        columns: columns.into(),
        constraint: true,
        deferral: Deferral::Deferred,
        is_primary,
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
        ],
        primary: None,
        secondary: vec![index(1, &[0], true), index(2, &[1], false)],
        checks: Vec::new(),
        foreign_keys: Vec::new(),
        triggers: Vec::new(),
        replica_identity: model::ReplicaIdentity::default(),
    };
    let table = Arc::new(RowTable::new(Arc::new(schema)).unwrap());
    Db { store: Arc::new(Store::default()), table, newest: Mutex::new(0), visible: AtomicU64::new(0) }
}

fn row(db: &Db, id: i32, code: Option<i32>) -> Box<[u8]> {
    let mut out = Vec::new();
    db.table.layout.encode(&[Datum::Int4(id), code.map_or(Datum::Null, Datum::Int4)], &mut out).unwrap();
    out.into()
}

fn insert(db: &Db, txn: &mut Txn, id: i32, code: Option<i32>) -> RecordId {
    match txn.insert(&db.table, row(db, id, code), &crossbeam_epoch::pin()).unwrap() {
        Put::Done(record) => record,
        other => panic!("{other:?}"),
    }
}

fn update(db: &Db, txn: &mut Txn, record: RecordId, id: i32, code: Option<i32>) {
    let guard = &crossbeam_epoch::pin();
    let locked = txn.lock_row(&db.table, record, LockMode::NoKeyUpdate, WaitPolicy::Wait, guard).unwrap();
    assert!(matches!(locked, Locked::Row { .. }), "{locked:?}");
    assert!(matches!(txn.update(&db.table, record, row(db, id, code), guard).unwrap(), Put::Done(_)));
}

/// Commits one row.
fn put(db: &Db, id: i32, code: Option<i32>) -> RecordId {
    let mut txn = db.begin(Isolation::ReadCommitted);
    let record = insert(db, &mut txn, id, code);
    assert_eq!(check(&mut txn), "unique");
    db.commit(txn);
    record
}

fn checked(txn: &mut Txn, from: usize) -> KeysChecked {
    txn.check_keys(from, &|_, _| true, &crossbeam_epoch::pin()).unwrap()
}

fn check(txn: &mut Txn) -> String {
    match checked(txn, 0) {
        KeysChecked::Unique => "unique".into(),
        KeysChecked::Duplicate { index, .. } => format!("duplicate in {index}"),
        KeysChecked::Wait(_) => "waits".into(),
    }
}

fn wait_of(txn: &mut Txn) -> Event {
    match checked(txn, 0) {
        KeysChecked::Wait(event) => event,
        other => panic!("{other:?}"),
    }
}

/// Committed ids, ascending.
fn ids(db: &Db) -> Vec<i32> {
    let mut txn = db.begin(Isolation::ReadCommitted);
    let guard = &crossbeam_epoch::pin();
    let rows = db.table.records.all().filter_map(|record| txn.read(&db.table, record, guard).unwrap());
    let mut ids: Vec<i32> = rows
        .map(|row| match db.table.layout.field(row, 0).unwrap() {
            Datum::Int4(id) => id,
            other => panic!("{other:?}"),
        })
        .collect();
    ids.sort_unstable();
    ids
}

#[test]
fn rows_of_a_transaction_may_share_a_key_until_it_is_checked() {
    let db = db();
    let records: Vec<RecordId> = (1..=3).map(|id| put(&db, id, None)).collect();
    let mut txn = db.begin(Isolation::ReadCommitted);
    for (record, id) in records.iter().zip(2..) {
        update(&db, &mut txn, *record, id, Some(id));
    }
    assert_eq!(check(&mut txn), "unique");
    db.commit(txn);
    assert_eq!(ids(&db), [2, 3, 4]);
    // Two rows swap their keys.
    let mut txn = db.begin(Isolation::ReadCommitted);
    update(&db, &mut txn, records[0], 3, Some(3));
    assert_eq!(check(&mut txn), "duplicate in 0");
    update(&db, &mut txn, records[1], 2, Some(3));
    assert_eq!(check(&mut txn), "duplicate in 1");
    update(&db, &mut txn, records[1], 2, None);
    assert_eq!(check(&mut txn), "unique");
    db.commit(txn);
    assert_eq!(ids(&db), [2, 3, 4]);
}

#[test]
fn an_unchecked_key_is_not_committed() {
    let db = db();
    let mut txn = db.begin(Isolation::ReadCommitted);
    insert(&db, &mut txn, 1, None);
    assert!(txn.has_postponed() && txn.has_unchecked_keys_of(TableId(1)));
    assert!(db.try_commit(txn).is_err());
    // A check of one index or of later writes is no check of all.
    let mut txn = db.begin(Isolation::ReadCommitted);
    insert(&db, &mut txn, 1, Some(1));
    let of_first = |_: &RowTable, index: &RowIndex| index.is_primary;
    assert!(matches!(txn.check_keys(0, &of_first, &crossbeam_epoch::pin()), Ok(KeysChecked::Unique)));
    let from = txn.changes_len();
    insert(&db, &mut txn, 2, Some(2));
    assert!(matches!(checked(&mut txn, from), KeysChecked::Unique));
    assert!(txn.has_unchecked_keys());
    assert!(db.try_commit(txn).is_err());
    assert_eq!(ids(&db), []);
}

#[test]
fn checks_of_single_statements_are_not_repeated() {
    let db = db();
    let mut txn = db.begin(Isolation::ReadCommitted);
    for id in 0..3 {
        let from = txn.changes_len();
        insert(&db, &mut txn, id, Some(id));
        assert!(matches!(checked(&mut txn, from), KeysChecked::Unique));
        assert!(!txn.has_unchecked_keys());
    }
    db.commit(txn);
    assert_eq!(ids(&db), [0, 1, 2]);
}

#[test]
fn the_second_writer_of_a_key_waits_for_the_first_whichever_is_checked_first() {
    for (commits, expected) in [(true, "duplicate in 0"), (false, "unique")] {
        let db = db();
        let (mut one, mut two) = (db.begin(Isolation::ReadCommitted), db.begin(Isolation::ReadCommitted));
        insert(&db, &mut one, 1, None);
        insert(&db, &mut two, 1, None);
        let event = wait_of(&mut two);
        assert_eq!(check(&mut one), "unique");
        assert!(!event.is_set());
        if commits {
            db.commit(one)
        } else {
            drop(one)
        }
        assert!(event.is_set());
        assert_eq!(check(&mut two), expected);
        assert_eq!(db.try_commit(two).is_ok(), !commits);
        assert_eq!(ids(&db), [1]);
    }
}

#[test]
fn a_check_waits_for_the_transaction_that_removes_the_key() {
    for (commits, expected) in [(true, "unique"), (false, "duplicate in 0")] {
        for deletes in [true, false] {
            let db = db();
            let record = put(&db, 1, None);
            let (mut one, mut two) = (db.begin(Isolation::ReadCommitted), db.begin(Isolation::ReadCommitted));
            if deletes {
                db.delete(&mut one, record);
            } else {
                update(&db, &mut one, record, 2, None);
                assert_eq!(check(&mut one), "unique");
            }
            insert(&db, &mut two, 1, None);
            let event = wait_of(&mut two);
            if commits {
                db.commit(one)
            } else {
                drop(one)
            }
            assert!(event.is_set());
            assert_eq!(check(&mut two), expected);
        }
    }
}

#[test]
fn transactions_that_share_two_keys_deadlock_and_one_commits() {
    let db = db();
    let (mut one, mut two) = (db.begin(Isolation::ReadCommitted), db.begin(Isolation::ReadCommitted));
    for (txn, id) in [(&mut one, 1), (&mut two, 2)] {
        insert(&db, txn, id, None);
    }
    for (txn, id) in [(&mut one, 2), (&mut two, 1)] {
        insert(&db, txn, id, None);
    }
    let event = wait_of(&mut one);
    let error = two.check_keys(0, &|_, _| true, &crossbeam_epoch::pin()).unwrap_err();
    assert_eq!(error.state(), SqlState::DEADLOCK_DETECTED);
    drop(two);
    assert!(event.is_set());
    assert_eq!(check(&mut one), "unique");
    db.commit(one);
    assert_eq!(ids(&db), [1, 2]);
}

#[test]
fn a_rollback_takes_back_the_checks_since_its_savepoint() {
    let db = db();
    let record = put(&db, 1, None);
    let mut txn = db.begin(Isolation::ReadCommitted);
    insert(&db, &mut txn, 1, None);
    let savepoint = txn.savepoint();
    db.delete(&mut txn, record);
    assert_eq!(check(&mut txn), "unique");
    assert!(!txn.has_unchecked_keys());
    txn.roll_back_to(savepoint, &crossbeam_epoch::pin()).unwrap();
    assert!(txn.has_unchecked_keys());
    assert_eq!(check(&mut txn), "duplicate in 0");
    txn.roll_back_to(Savepoint::START, &crossbeam_epoch::pin()).unwrap();
    assert!(!txn.has_unchecked_keys());
    // The lock of a key that a rollback released is taken again by the check.
    insert(&db, &mut txn, 5, None);
    let savepoint = txn.savepoint();
    insert(&db, &mut txn, 6, None);
    assert_eq!(check(&mut txn), "unique");
    txn.roll_back_to(savepoint, &crossbeam_epoch::pin()).unwrap();
    let mut other = db.begin(Isolation::ReadCommitted);
    insert(&db, &mut other, 6, None);
    assert_eq!(check(&mut other), "unique");
    assert_eq!(check(&mut txn), "unique");
    db.commit(txn);
    db.commit(other);
    assert_eq!(ids(&db), [1, 5, 6]);
}

#[test]
fn rows_that_are_gone_or_without_a_key_need_no_check() {
    let db = db();
    put(&db, 1, Some(7));
    let mut txn = db.begin(Isolation::ReadCommitted);
    let record = insert(&db, &mut txn, 1, Some(7));
    db.delete(&mut txn, record);
    insert(&db, &mut txn, 2, None);
    insert(&db, &mut txn, 3, None);
    assert_eq!(check(&mut txn), "unique");
    db.commit(txn);
    assert_eq!(ids(&db), [1, 2, 3]);
}

/// A serializable transaction that saw the key as free fails as such.
#[test]
fn a_serializable_transaction_never_commits_a_key_twice() {
    let db = db();
    let mut one = db.begin(Isolation::Serializable);
    assert!(one.changes_len() == 0);
    one.note_table(&db.table);
    put(&db, 1, None);
    insert(&db, &mut one, 1, None);
    let outcome = one.check_keys(0, &|_, _| true, &crossbeam_epoch::pin());
    assert_eq!(outcome.unwrap_err().state(), SqlState::SERIALIZATION_FAILURE);
    drop(one);
    let mut two = db.begin(Isolation::Serializable);
    put(&db, 2, None);
    insert(&db, &mut two, 2, None);
    assert_eq!(check(&mut two), "duplicate in 0");
    assert!(db.try_commit(two).is_err());
    assert_eq!(ids(&db), [1, 2]);
}

#[test]
fn recovery_reports_a_deferrable_key_of_two_rows_as_corruption() {
    let db = db();
    let mut restoring = db.table.records.restoring();
    let guard = &crossbeam_epoch::pin();
    for (record, id) in [(0, 1), (1, 2), (2, 3)] {
        restoring.put(RecordId(record), Lsn(1), Some(row(&db, id, None)), guard).unwrap();
    }
    drop(restoring);
    assert_eq!(recovered(&db.table).unwrap().secondary[0].tree.len(), 3);
    db.table.records.restoring().put(RecordId(1), Lsn(2), Some(row(&db, 3, None)), guard).unwrap();
    assert_eq!(recovered(&db.table).err().unwrap().state(), SqlState::DATA_CORRUPTED);
}

/// Random transactions of several clients: every check that passes is followed by the commit, or by a rollback to a savepoint
/// and more writes.
#[test]
fn random_transactions_never_commit_a_key_twice() {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    let db = db();
    let (mut open, mut commits): (Vec<(Txn, Vec<Savepoint>)>, usize) = (Vec::new(), 0);
    for _ in 0..20_000 {
        if open.len() < 4 {
            open.push((db.begin(Isolation::ReadCommitted), Vec::new()));
        }
        let at = random(open.len() as u64) as usize;
        let (txn, savepoints) = &mut open[at];
        let (key, guard) = (random(24) as i32, &crossbeam_epoch::pin());
        let (mut commits_now, mut gives_up) = (false, false);
        match random(10) {
            0..3 => _ = insert(&db, txn, key, (key % 2 == 0).then_some(key)),
            3..6 => {
                let record = RecordId(random(64));
                if db.table.records.arena.get(record.0).is_some() {
                    let locked = txn.lock_row(&db.table, record, LockMode::Update, WaitPolicy::Skip, guard).unwrap();
                    match locked {
                        Locked::Row { .. } if key < 12 => {
                            assert!(txn.delete(&db.table, record, guard).unwrap().is_none());
                        }
                        Locked::Row { .. } => update(&db, txn, record, key - 12, Some(key)),
                        Locked::Gone | Locked::Skipped => {}
                        Locked::Wait(_) => panic!("it waits"),
                    }
                }
            }
            6 => savepoints.push(txn.savepoint()),
            7 => match savepoints.last() {
                Some(savepoint) => txn.roll_back_to(*savepoint, guard).unwrap(),
                None => gives_up = random(4) == 0,
            },
            _ => match txn.check_keys(0, &|_, _| true, guard) {
                Ok(KeysChecked::Unique) => commits_now = random(2) == 0,
                Ok(KeysChecked::Wait(_)) => {
                    txn.give_up_wait();
                    gives_up = random(4) == 0;
                }
                Ok(KeysChecked::Duplicate { .. }) => match savepoints.pop() {
                    Some(savepoint) => txn.roll_back_to(savepoint, guard).unwrap(),
                    None => gives_up = true,
                },
                Err(error) => {
                    assert_eq!(error.state(), SqlState::DEADLOCK_DETECTED);
                    gives_up = true;
                }
            },
        }
        if commits_now {
            let (txn, _) = open.swap_remove(at);
            db.commit(txn);
            commits += 1;
            let ids = ids(&db);
            assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
        } else if gives_up {
            drop(open.swap_remove(at));
        }
    }
    assert!(commits > 200, "{commits} commits");
}
