//! Garbage collection concurrent with readers.

use super::*;

/// Live snapshots, as the engine keeps database versions that are being read.
#[derive(Default)]
struct Snapshots(Mutex<Vec<Lsn>>);

impl Snapshots {
    fn begin(&self, db: &Db) -> Txn {
        let mut held = self.0.lock();
        let txn = db.begin(Isolation::RepeatableRead);
        held.push(txn.snapshot());
        txn
    }

    fn end(&self, txn: Txn) {
        let mut held = self.0.lock();
        let at = held.iter().position(|lsn| *lsn == txn.snapshot()).expect("a snapshot");
        held.swap_remove(at);
    }

    fn readers(&self, db: &Db) -> Readers {
        let held = self.0.lock();
        Readers::new(held.clone(), db.now())
    }
}

type Shared = Arc<(Arc<Db>, Snapshots)>;

fn with_rows() -> Shared {
    let db = Arc::new(Db::with_secondary(2));
    [(1, Some(1), "a"), (2, Some(2), "b")].into_iter().for_each(|row| db.put(row));
    Arc::new((db, Snapshots::default()))
}

fn collect((db, snapshots): &(Arc<Db>, Snapshots)) {
    for _ in 0..3 {
        // A locked item is examined again and again.
        db.store.collect(&snapshots.readers(db), 4).unwrap();
    }
}

/// All indexes give the same rows, on every read.
fn read((db, snapshots): &(Arc<Db>, Snapshots)) {
    let mut txn = snapshots.begin(db);
    let rows = db.rows(&mut txn);
    assert_eq!(db.rows(&mut txn), rows);
    assert!(matches!(rows.len(), 1 | 2), "{rows:?}");
    assert!(txn.newest_seen() <= txn.snapshot());
    snapshots.end(txn);
}

#[test]
fn model_visible_versions_are_kept_while_older_ones_are_collected() {
    check(|| {
        let shared = with_rows();
        let change = |(db, _): &(Arc<Db>, Snapshots)| {
            for (code, name) in [(3, "c"), (1, "a")] {
                let mut txn = db.begin(Isolation::ReadCommitted);
                assert!(matches!(run(&mut txn, |txn| db.update(txn, A, (1, Some(code), name))), Ok(Put::Done(_))));
                db.commit(txn);
            }
        };
        join([spawn(&shared, change), spawn(&shared, read), spawn(&shared, collect)]);
        let db = &shared.0;
        assert_eq!(db.codes(), [1, 2]);
        db.check_idle();
        let guard = &pin();
        assert!([A, B].iter().all(|record| db.table.records.record(*record).unwrap().versions(guard).count() == 1));
    });
}

#[test]
fn model_a_deleted_row_is_kept_for_its_readers_and_its_key_is_free() {
    check(|| {
        let shared = with_rows();
        let change = |(db, _): &(Arc<Db>, Snapshots)| {
            // Deleted, inserted, deleted again: the first garbage item must not affect a reader in
            // between.
            for is_there in [true, false, true] {
                let mut txn = db.begin(Isolation::ReadCommitted);
                let guard = &pin();
                let found = txn.get(&db.table, &db.key(2), guard).unwrap().map(|(record, _)| record);
                assert_eq!(found.is_some(), is_there);
                let changed = match found {
                    Some(record) => db.try_delete(&mut txn, record),
                    None => db.try_insert(&mut txn, (2, Some(2), "b")),
                };
                assert_eq!(changed, Ok(true));
                db.commit(txn);
            }
        };
        join([spawn(&shared, change), spawn(&shared, read), spawn(&shared, collect)]);
        assert_eq!(shared.0.codes(), [1]);
        shared.0.check_idle();
    });
}

#[test]
fn model_a_row_inserted_and_deleted_leaves_no_garbage() {
    check(|| {
        let shared = with_rows();
        let come_and_go = |(db, _): &(Arc<Db>, Snapshots)| {
            let mut txn = db.begin(Isolation::ReadCommitted);
            if db.try_insert(&mut txn, (3, Some(3), "c")).unwrap() {
                db.commit(txn);
                let mut txn = db.begin(Isolation::ReadCommitted);
                let guard = &pin();
                let record = txn.get(&db.table, &db.key(3), guard).unwrap().expect("a row").0;
                assert_eq!(db.try_delete(&mut txn, record), Ok(true));
                db.commit(txn);
            }
        };
        join([spawn(&shared, come_and_go), spawn(&shared, come_and_go), spawn(&shared, collect)]);
        assert_eq!(shared.0.codes(), [1, 2]);
        shared.0.check_idle();
    });
}
