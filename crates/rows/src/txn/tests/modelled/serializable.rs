//! Serializable transactions with concurrent reads and commits.

use super::super::serializable::Read;
use super::*;

/// Commits after a write; returns the commit's LSN, if any. Only 40001 and 40P01 may occur.
fn commit(db: &Db, txn: Txn, written: Result<(), String>) -> Option<Lsn> {
    if let Err(state) = written {
        assert!(["40001", "40P01"].contains(&state.as_str()), "{state}");
        return None;
    }
    let committed = db.try_commit(txn);
    committed.inspect_err(|error| assert_eq!(error.state(), SqlState::SERIALIZATION_FAILURE)).ok()
}

#[test]
fn model_one_of_two_transactions_with_crossed_reads_and_writes_fails() {
    for before in [true, false] {
        check(move || {
            let db = Db::with_codes(&[(1, 1), (2, 1)]);
            let begin = |own| (own, before.then(|| db.begin(Isolation::Serializable)));
            let committed = join([A, B].map(begin).map(|(own, begun)| {
                spawn(&db, move |db| {
                    let mut txn = begun.unwrap_or_else(|| db.begin(Isolation::Serializable));
                    let seen = [A, B].map(|record| db.code(&mut txn, record));
                    let both = seen == [Some(1), Some(1)];
                    let written = if both { db.add(&mut txn, own, -1) } else { Ok(()) };
                    commit(db, txn, written).is_some()
                })
            }));
            // One of the two rows is unchanged, whichever transaction was first.
            assert_eq!(db.codes().iter().sum::<i32>(), 1);
            assert!(committed.contains(&true), "{committed:?}");
            assert!(!before || committed.contains(&false), "{committed:?}");
            db.check_idle();
        });
    }
}

#[test]
fn model_a_commit_fails_exactly_when_a_phantom_appeared() {
    for came in [5, 9] {
        check(move || {
            let db = Db::with_codes(&[(1, 1)]);
            let [inserted, read] = join([
                spawn(&db, move |db| {
                    let mut txn = db.begin(Isolation::ReadCommitted);
                    assert_eq!(db.try_insert(&mut txn, (came, None, "")), Ok(true));
                    (Lsn::ZERO, commit(db, txn, Ok(())))
                }),
                spawn(&db, |db| {
                    let mut txn = db.begin(Isolation::Serializable);
                    let snapshot = txn.snapshot();
                    let seen = Read::Keys(3, 7).by(db, &mut txn);
                    assert!(seen.is_empty() || seen == [5]);
                    let written = db.add(&mut txn, A, 1);
                    (snapshot, commit(db, txn, written))
                }),
            ])[..] else {
                panic!("two threads")
            };
            let (came_at, (snapshot, committed)) = (inserted.1.expect("a commit"), read);
            let between = snapshot < came_at && committed.is_none_or(|committed| came_at < committed);
            assert_eq!(committed.is_none(), between && came == 5, "{came_at:?} {snapshot:?} {committed:?}");
            db.check_idle();
        });
    }
}

#[test]
fn model_one_of_two_inserts_into_a_range_read_as_empty_commits() {
    check(|| {
        let db = Db::with_codes(&[(1, 1)]);
        join([4, 6].map(|id| {
            spawn(&db, move |db| {
                let mut txn = db.begin(Isolation::Serializable);
                let found = Read::Keys(3, 8).by(db, &mut txn);
                if found.is_empty() {
                    let written = db.try_insert(&mut txn, (id, None, "")).map(drop);
                    commit(db, txn, written);
                }
            })
        }));
        assert_eq!(db.rows(&mut db.begin(Isolation::ReadCommitted)).len(), 2);
        db.check_idle();
    });
}

fn any_id() -> i32 {
    thread_rng().gen_range(1..5)
}

fn any_read() -> Read {
    let low = any_id();
    match thread_rng().gen_range(0..6) {
        0 | 1 => Read::Key(low),
        2 => Read::Keys(low, low + 2),
        3 => Read::Names("b", "d"),
        4 => Read::All,
        _ => Read::Beside,
    }
}

/// Updates the row of a key, or inserts it.
fn any_write(db: &Db, txn: &mut Txn) -> Result<(), String> {
    let (id, name) = (any_id(), ["a", "b", "c", "d"][thread_rng().gen_range(0..4)]);
    let found = txn.get(&db.table, &db.key(id), &pin()).unwrap().map(|(record, _)| record);
    let Some(record) = found else { return db.try_insert(txn, (id, None, name)).map(drop) };
    match thread_rng().gen_range(0..3) {
        0 => db.try_delete(txn, record).map(drop),
        kind => {
            // Inserts the row of another key, if it does not exist.
            let id = if kind == 1 { id } else { any_id() };
            match run(txn, |txn| db.update(txn, record, (id, None, name))) {
                Err(gone) if gone == "Gone" => Ok(()),
                put => put.map(drop),
            }
        }
    }
}

/// Every read of a serializable transaction would return the same if it ran alone at its commit, so
/// the commit order is a serial order.
#[test]
fn model_the_commit_order_is_a_serial_order() {
    check(|| {
        let db = Arc::new(Db::new());
        [(1, None, "a"), (2, None, "c")].into_iter().for_each(|row| db.put(row));
        let committed = join((0..3).map(|thread| {
            spawn(&db, move |db| {
                let isolation =
                    if thread == 0 { ISOLATIONS[thread_rng().gen_range(0..3)] } else { Isolation::Serializable };
                let mut txn = db.begin(isolation);
                let reads: Vec<Read> = (0..thread_rng().gen_range(1..3)).map(|_| any_read()).collect();
                let found: Vec<_> = reads.iter().map(|read| read.by(db, &mut txn)).collect();
                let written = any_write(db, &mut txn);
                let at = commit(db, txn, written)?;
                (isolation == Isolation::Serializable).then_some((at, reads, found))
            })
        }));
        for (at, reads, found) in committed.into_iter().flatten() {
            let mut before = db.store.begin(Isolation::RepeatableRead);
            before.set_snapshot(Lsn(at.0 - 1));
            let then: Vec<_> = reads.iter().map(|read| read.by(&db, &mut before)).collect();
            assert_eq!(then, found, "{reads:?} before {at:?}");
        }
        db.check_idle();
    });
}
