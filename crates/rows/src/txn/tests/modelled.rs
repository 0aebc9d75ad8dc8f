//! Transactions with a thread switch at every step: programs for the model checker (`sync::tests`).

mod collected;
mod serializable;

use crossbeam_epoch::pin;
use shuttle::rand::{Rng, thread_rng};

use super::*;
use crate::record::{Begin, Version};
use crate::sync::tests::{check, join, spawn, wait};

const ISOLATIONS: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable];

/// Runs a statement, and again after each wait, like a session; `Err`: the SQLSTATE.
fn run(txn: &mut Txn, mut statement: impl FnMut(&mut Txn) -> Result<Put, String>) -> Result<Put, String> {
    let before = txn.savepoint();
    loop {
        match statement(txn)? {
            Put::Wait(event) => {
                txn.undo_to(before, &pin()).unwrap();
                wait(&event);
            }
            done => return Ok(done),
        }
    }
}

impl Db {
    /// A database with these keys and codes, and only the primary index.
    fn with_codes(rows: &[(i32, i32)]) -> Arc<Db> {
        let db = Arc::new(Db::with_secondary(0));
        rows.iter().for_each(|(id, code)| db.put((*id, Some(*code), "")));
        db
    }

    /// `UPDATE t SET code = code + by` for one row.
    fn add(&self, txn: &mut Txn, record: RecordId, by: i32) -> Result<(), String> {
        let guard = &pin();
        let put = run(txn, |txn| {
            let locked = txn.lock_row(&self.table, record, LockMode::NoKeyUpdate, WaitPolicy::Wait, guard);
            match locked.map_err(|error| error.state().to_string())? {
                Locked::Row { row, .. } => {
                    let (id, code, _) = self.decode(row);
                    let row = self.row((id, code.map(|code| code + by), ""));
                    txn.update(&self.table, record, row, guard).map_err(|error| error.state().to_string())
                }
                Locked::Wait(event) => Ok(Put::Wait(event)),
                other => Err(format!("{other:?}")),
            }
        })?;
        assert!(matches!(put, Put::Done(_)), "{put:?}");
        Ok(())
    }

    /// True if the row was inserted, false if its key is taken.
    fn try_insert(&self, txn: &mut Txn, row: Row) -> Result<bool, String> {
        let put =
            run(txn, |txn| txn.insert(&self.table, self.row(row), &pin()).map_err(|error| error.state().to_string()))?;
        Ok(matches!(put, Put::Done(_)))
    }

    /// True if the row existed and was deleted.
    fn try_delete(&self, txn: &mut Txn, record: RecordId) -> Result<bool, String> {
        let guard = &pin();
        let mut found = true;
        run(txn, |txn| {
            let locked = txn.lock_row(&self.table, record, LockMode::Update, WaitPolicy::Wait, guard);
            match locked.map_err(|error| error.state().to_string())? {
                Locked::Row { .. } => assert!(txn.delete(&self.table, record, guard).unwrap().is_none()),
                Locked::Wait(event) => return Ok(Put::Wait(event)),
                Locked::Gone | Locked::Skipped => found = false,
            }
            Ok(Put::Done(record))
        })?;
        Ok(found)
    }

    fn code(&self, txn: &mut Txn, record: RecordId) -> Option<i32> {
        let guard = &pin();
        txn.read(&self.table, record, guard).unwrap().and_then(|row| self.decode(row).1)
    }

    /// The current codes of all rows, in key order.
    fn codes(&self) -> Vec<i32> {
        self.rows(&mut self.begin(Isolation::ReadCommitted)).into_iter().filter_map(|row| row.1).collect()
    }

    /// Checks that no lock is held or waited for, and that after a collection only the live rows
    /// are left.
    fn check_idle(&self) {
        assert_eq!((self.store.waiting(), self.store.recent.len()), (0, 0));
        self.store.collect(&Readers::new(Vec::new(), self.now()), usize::MAX).unwrap();
        let rows = self.rows(&mut self.begin(Isolation::ReadCommitted)).len();
        assert_eq!(self.entries(), rows * (1 + self.table.secondary.len()), "entries");
        assert_eq!((self.table.records.rows(), self.store.garbage()), (rows as u64, 0));
    }
}

const A: RecordId = RecordId(0);
const B: RecordId = RecordId(1);
const C: RecordId = RecordId(2);

#[test]
fn model_concurrent_updates_of_one_row_all_apply_or_fail_by_older_snapshots() {
    for isolation in ISOLATIONS {
        check(move || {
            let db = Db::with_codes(&[(1, 0)]);
            let txns: Vec<Txn> = (0..3).map(|_| db.begin(isolation)).collect();
            let added = join(txns.into_iter().map(|mut txn| {
                spawn(&db, move |db| {
                    db.add(&mut txn, A, 1).inspect(|()| {
                        assert!(db.code(&mut txn, A).is_some());
                        db.commit(txn);
                    })
                })
            }));
            let failed = added.iter().filter(|added| **added == Err("40001".to_owned())).count();
            assert_eq!(failed, if isolation == Isolation::ReadCommitted { 0 } else { 2 }, "{added:?}");
            assert_eq!(db.codes(), [3 - failed as i32]);
            db.check_idle();
        });
    }
}

#[test]
fn model_a_deadlock_of_two_or_three_has_one_victim() {
    for count in [2, 3] {
        check(move || {
            let db = Db::with_codes(&[(1, 0), (2, 0), (3, 0)][..count]);
            let begin = |at| {
                let mut txn = db.begin(Isolation::ReadCommitted);
                db.add(&mut txn, RecordId(at), 1).unwrap();
                (at, txn)
            };
            let txns: Vec<(u64, Txn)> = (0..count as u64).map(begin).collect();
            let outcomes = join(txns.into_iter().map(|(at, mut txn)| {
                spawn(&db, move |db| {
                    db.add(&mut txn, RecordId((at + 1) % count as u64), 1).inspect(|()| db.commit(txn))
                })
            }));
            let victims = outcomes.iter().filter(|outcome| **outcome == Err("40P01".to_owned())).count();
            assert_eq!((victims, outcomes.iter().filter(|outcome| outcome.is_ok()).count()), (1, count - 1));
            assert_eq!(db.codes().iter().sum::<i32>(), 2 * (count as i32 - 1));
            db.check_idle();
        });
    }
}

#[test]
fn model_updates_in_one_order_never_deadlock() {
    check(|| {
        let db = Db::with_codes(&[(1, 0), (2, 0), (3, 0)]);
        join([[A, B], [B, C], [A, C]].map(|records| {
            spawn(&db, move |db| {
                let mut txn = db.begin(Isolation::ReadCommitted);
                records.iter().for_each(|record| db.add(&mut txn, *record, 1).unwrap());
                db.commit(txn);
            })
        }));
        assert_eq!(db.codes(), [2, 2, 2]);
        db.check_idle();
    });
}

/// Locks a row against changes and reads it twice.
fn share(db: &Db, mode: LockMode) {
    let guard = &pin();
    let mut txn = db.begin(Isolation::ReadCommitted);
    let locked = run(&mut txn, |txn| match txn.lock_row(&db.table, A, mode, WaitPolicy::Wait, guard) {
        Ok(Locked::Row { .. }) => Ok(Put::Done(A)),
        Ok(Locked::Wait(event)) => Ok(Put::Wait(event)),
        other => Err(format!("{other:?}")),
    });
    assert!(locked.is_ok(), "{locked:?}");
    let newest = || db.table.records.record(A).unwrap().newest(guard).map(Version::begin);
    let before = newest();
    assert!(matches!(before, Some(Begin::Committed(_))), "{before:?}");
    assert_eq!(newest(), before);
}

#[test]
fn model_a_share_locked_row_is_unchanged_and_shared_by_many() {
    check(|| {
        let db = Db::with_codes(&[(1, 0)]);
        join([LockMode::Share, LockMode::Share, LockMode::KeyShare].map(|mode| spawn(&db, move |db| share(db, mode))));
        assert_eq!(db.store.waits(), 0);
        join([
            spawn(&db, |db| share(db, LockMode::Share)),
            spawn(&db, |db| share(db, LockMode::Share)),
            spawn(&db, |db| {
                let mut txn = db.begin(Isolation::ReadCommitted);
                db.add(&mut txn, A, 1).unwrap();
                db.commit(txn);
            }),
        ]);
        assert_eq!(db.codes(), [1]);
        db.check_idle();
    });
}

#[test]
fn model_a_snapshot_has_a_whole_commit_or_none_of_it() {
    check(|| {
        let db = Db::with_codes(&[(1, 100), (2, 100)]);
        let sum = |db: &Db, txn: &mut Txn| {
            let codes = [A, B].map(|record| db.code(txn, record).expect("a row"));
            assert_eq!(codes[0] + codes[1], 200, "{codes:?}");
            codes
        };
        let transfer = |by: i32| {
            move |db: &Db| {
                let mut txn = db.begin(Isolation::ReadCommitted);
                // Transaction 1 changes one row twice.
                let steps: &[_] = if by == 1 { &[(A, 5), (A, -6), (B, 1)] } else { &[(A, by), (B, -by)] };
                steps.iter().for_each(|(record, by)| db.add(&mut txn, *record, *by).unwrap());
                db.commit(txn);
            }
        };
        join([
            spawn(&db, transfer(1)),
            spawn(&db, transfer(20)),
            spawn(&db, move |db| {
                let mut txn = db.begin(Isolation::RepeatableRead);
                let seen = sum(db, &mut txn);
                assert_eq!(sum(db, &mut txn), seen);
                assert!(txn.newest_seen() <= txn.snapshot());
            }),
            spawn(&db, move |db| {
                let mut txn = db.begin(Isolation::ReadCommitted);
                (0..2).for_each(|_| {
                    sum(db, &mut txn);
                    txn.set_snapshot(db.now());
                });
            }),
        ]);
        assert_eq!(db.codes(), [119, 81]);
        db.check_idle();
    });
}

#[test]
fn model_rolled_back_changes_leave_no_trace() {
    check(|| {
        let db = Db::with_codes(&[(1, 0), (2, 0)]);
        let look = |db: &Db| {
            for _ in 0..2 {
                let mut txn = db.begin(Isolation::ReadCommitted);
                let codes = [A, B].map(|record| db.code(&mut txn, record));
                assert!(codes.iter().all(|code| matches!(code, Some(0..=2))), "{codes:?}");
                let guard = &pin();
                let newest = txn.newest(&db.table, B, guard).unwrap().and_then(|row| db.decode(row).1);
                assert!(matches!(newest, Some(0..=2)), "{newest:?}");
                assert!(
                    txn.get(&db.table, &db.key(9), guard).unwrap().is_none_or(|(_, row)| db.decode(row).1 == Some(9))
                );
            }
        };
        let roll_back = |db: &Db| {
            let mut txn = db.begin(Isolation::ReadCommitted);
            db.add(&mut txn, A, 1).unwrap();
            let savepoint = txn.savepoint();
            db.add(&mut txn, B, -100).unwrap();
            db.add(&mut txn, A, -100).unwrap();
            if db.try_insert(&mut txn, (9, Some(-9), "")).unwrap() {
                txn.roll_back_to(savepoint, &pin()).unwrap();
            }
            txn.roll_back_to(savepoint, &pin()).unwrap();
            db.commit(txn);
        };
        let change = |db: &Db| {
            let mut txn = db.begin(Isolation::ReadCommitted);
            db.add(&mut txn, A, 1).unwrap();
            db.add(&mut txn, B, 1).unwrap();
            assert_eq!(db.try_insert(&mut txn, (9, Some(9), "")), Ok(true));
            db.commit(txn);
        };
        join([spawn(&db, roll_back), spawn(&db, change), spawn(&db, look)]);
        assert_eq!(db.codes(), [2, 1, 9]);
        db.check_idle();
    });
}

/// A statement that assigns a unique key to a row.
type Give = fn(&Db, &mut Txn) -> Result<bool, String>;

#[test]
fn model_a_unique_key_has_one_owner() {
    fn rename(db: &Db, txn: &mut Txn) -> Result<bool, String> {
        let put = run(txn, |txn| db.update(txn, B, (2, Some(7), "")))?;
        Ok(matches!(put, Put::Done(_)))
    }
    let key: Give = |db, txn| db.try_insert(txn, (5, None, ""));
    let code: Give = |db, txn| db.try_insert(txn, (6, Some(7), ""));
    let both: Give = |db, txn| db.try_insert(txn, (5, Some(7), ""));
    for gives in [[key, key, key], [code, rename, code], [both, key, code]] {
        check(move || {
            let db = Arc::new(Db::with_secondary(1));
            [(1, Some(1), ""), (2, Some(2), "")].into_iter().for_each(|row| db.put(row));
            let outcomes = join(gives.map(|give| {
                let commits = thread_rng().gen_range(0..3) > 0;
                spawn(&db, move |db| {
                    let mut txn = db.begin(Isolation::ReadCommitted);
                    let given = give(db, &mut txn);
                    assert!(given.is_ok() || given == Err("40P01".to_owned()), "{given:?}");
                    if commits && given == Ok(true) {
                        db.commit(txn);
                        return (commits, true);
                    }
                    (commits && given == Ok(false), false)
                })
            }));
            // A transaction that got a duplicate-key error must have seen the key.
            let (told, has): (Vec<bool>, Vec<bool>) = outcomes.into_iter().unzip();
            assert!(has.contains(&true) || !told.contains(&true), "{told:?}, {has:?}");
            let rows = db.rows(&mut db.begin(Isolation::ReadCommitted));
            let mut codes: Vec<_> = rows.iter().filter_map(|row| row.1).collect();
            codes.dedup();
            assert_eq!(codes.len(), rows.iter().filter(|row| row.1.is_some()).count(), "{rows:?}");
            assert!(rows.is_sorted_by(|a, b| a.0 < b.0), "{rows:?}");
            db.check_idle();
        });
    }
}

#[test]
fn model_a_key_deleted_and_inserted_concurrently_exists_once() {
    check(|| {
        let db = Arc::new(Db::with_secondary(1));
        db.put((1, Some(1), ""));
        let insert = |db: &Db| {
            let mut txn = db.begin(Isolation::ReadCommitted);
            let inserted = db.try_insert(&mut txn, (1, Some(1), "")).unwrap();
            if inserted {
                db.commit(txn);
            }
            inserted
        };
        let delete = |db: &Db| {
            let mut txn = db.begin(Isolation::ReadCommitted);
            assert_eq!(db.try_delete(&mut txn, A), Ok(true));
            if thread_rng().gen_range(0..2) == 0 {
                return false;
            }
            db.commit(txn);
            true
        };
        let threads = [spawn(&db, insert), spawn(&db, insert), spawn(&db, delete)];
        let [first, second, deleted] = join(threads)[..] else { panic!("three threads") };
        assert!(usize::from(first) + usize::from(second) <= usize::from(deleted));
        let left = 1 - usize::from(deleted) + usize::from(first || second);
        assert_eq!(db.codes().len(), left);
        db.check_idle();
    });
}

#[test]
fn model_writes_use_the_schema_version_in_force() {
    check(|| {
        let db = Db::with_codes(&[(1, 0)]);
        db.table.take_effect();
        let schema = RowSchema { version: 2, ..(*db.table.schema).clone() };
        let next = RowTable {
            schema: Arc::new(schema),
            layout: Arc::clone(&db.table.layout),
            records: Arc::clone(&db.table.records),
            primary: db.table.primary.clone(),
            secondary: Vec::new(),
            derived: crate::Derived::default(),
        };
        let in_force = |db: &Db| db.table.records.gate.version.load(Ordering::Acquire);
        let write = move |db: &Db| {
            let mut txn = db.begin(Isolation::ReadCommitted);
            let added = db.add(&mut txn, A, 1);
            let version = in_force(db);
            match added {
                Ok(()) => {
                    assert_eq!(version, 1);
                    db.commit(txn);
                    1
                }
                Err(state) => {
                    assert_eq!((state.as_str(), version), ("40001", 2));
                    0
                }
            }
        };
        let define = move |db: &Db| {
            let mut txn = db.begin(Isolation::ReadCommitted);
            run(&mut txn, |txn| match txn.enter(&db.table, Access::Alone) {
                Ok(Entered::In) => Ok(Put::Done(A)),
                Ok(Entered::Wait(event)) => Ok(Put::Wait(event)),
                other => Err(format!("{other:?}")),
            })
            .unwrap();
            next.take_effect();
            drop(txn);
            0
        };
        let added: i32 = join([spawn(&db, write), spawn(&db, write), spawn(&db, define)]).into_iter().sum();
        let mut after = db.begin(Isolation::ReadCommitted);
        assert_eq!(db.code(&mut after, A), Some(added));
    });
}
