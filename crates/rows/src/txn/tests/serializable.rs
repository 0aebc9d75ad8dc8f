//! Read sets of SERIALIZABLE transactions against concurrent commits.

use std::collections::BTreeMap;

use super::*;
use crate::key;

/// An index of [`Db`]'s table, by position among the secondary indexes.
fn index(db: &Db, which: Option<usize>) -> &Arc<IndexData> {
    db.table.index(which).unwrap()
}

fn key_of(db: &Db, which: Option<usize>, value: &Datum<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    key::push(&mut out, &index(db, which).keys()[0], value).unwrap();
    out
}

/// The rows with keys from `low` up to, not including, `high`; notes the range like a query.
fn walk(db: &Db, txn: &mut Txn, which: Option<usize>, low: &Datum<'_>, high: &Datum<'_>) -> Vec<i32> {
    let (low, high) = (key_of(db, which, low), key_of(db, which, high));
    let (from, to) = (Bound::Included(low.as_slice()), Bound::Excluded(high.as_slice()));
    let (index, guard) = (index(db, which), &crossbeam_epoch::pin());
    let mut found = Vec::new();
    index.scan(from, to, Direction::Forward, guard, |entry, record| {
        let row = match which {
            None => txn.read_walked(&db.table, record, guard),
            Some(_) => txn.read_entry(&db.table, index, entry, record, guard),
        };
        found.extend(row.unwrap().map(|row| db.decode(row).0));
        ControlFlow::Continue(())
    });
    txn.note_range(&db.table, index, from, to);
    found
}

fn get(db: &Db, txn: &mut Txn, id: i32) -> Option<String> {
    let guard = &crossbeam_epoch::pin();
    let found = txn.get(&db.table, &db.key(id), guard).unwrap();
    found.map(|(_, row)| db.decode(row).2)
}

fn all(db: &Db, txn: &mut Txn) -> Vec<i32> {
    txn.note_table(&db.table);
    let guard = &crossbeam_epoch::pin();
    let rows = db.table.records.all().filter_map(|record| txn.read_walked(&db.table, record, guard).unwrap());
    rows.map(|row| db.decode(row).0).collect()
}

/// A read of the transaction.
#[derive(Clone, Copy, Debug)]
pub(super) enum Read {
    Key(i32),
    Keys(i32, i32),
    Names(&'static str, &'static str),
    All,
    /// A full scan by another thread.
    Beside,
}

impl Read {
    pub(super) fn by(self, db: &Db, txn: &mut Txn) -> Vec<i32> {
        match self {
            Read::Key(id) => get(db, txn, id).map(|_| id).into_iter().collect(),
            Read::Keys(low, high) => walk(db, txn, None, &Datum::Int4(low), &Datum::Int4(high)),
            Read::Names(low, high) => walk(db, txn, Some(1), &Datum::Text(low), &Datum::Text(high)),
            Read::All => all(db, txn),
            Read::Beside => {
                let view = txn.view();
                view.note_table(&db.table);
                let guard = &crossbeam_epoch::pin();
                let rows = db.table.records.all().filter_map(|record| view.row(&db.table, record, guard));
                rows.map(|row| db.decode(row).0).collect()
            }
        }
    }
}

/// A commit by another transaction.
#[derive(Clone, Copy, Debug)]
enum Write {
    Insert(i32, &'static str),
    Rename(i32, &'static str),
    /// Changes a row's primary key.
    Move(i32, i32),
    Delete(i32),
    /// Makes the next version of the table.
    Alter,
}

impl Write {
    fn commit(self, db: &Db) {
        let mut txn = db.begin(Isolation::ReadCommitted);
        let change = |txn: &mut Txn, id, row| {
            let put = db.update(txn, db.find(id), row);
            assert!(matches!(put, Ok(Put::Done(_))), "{put:?}");
        };
        match self {
            Write::Insert(id, name) => assert!(matches!(db.insert(&mut txn, (id, None, name)), Put::Done(_))),
            Write::Rename(id, name) => change(&mut txn, id, (id, None, name)),
            Write::Move(id, to) => change(&mut txn, id, (to, None, "moved")),
            Write::Delete(id) => db.delete(&mut txn, db.find(id)),
            Write::Alter => txn.set_version(db.table.id(), Some(Arc::clone(&db.table))),
        }
        db.commit(txn);
    }
}

fn letters() -> Db {
    let db = Db::new();
    [(1, "b"), (2, "d"), (5, "f"), (7, "h")].into_iter().for_each(|(id, name)| db.put((id, None, name)));
    db
}

/// Result of committing the transaction after a write of its own.
fn outcome(db: &Db, mut txn: Txn) -> Result<(), String> {
    assert!(matches!(db.insert(&mut txn, (1_000, None, "own")), Put::Done(_)));
    db.try_commit(txn).map(drop).map_err(|error| {
        assert_eq!(error.state(), SqlState::SERIALIZATION_FAILURE);
        assert_eq!(error.hint(), Some("The transaction might succeed if retried."));
        error.detail().unwrap_or_default().to_owned()
    })
}

#[test]
fn a_changed_read_set_refuses_the_commit() {
    use Read::{All, Beside, Key, Keys, Names};
    use Write::{Alter, Delete, Insert, Move, Rename};
    for (read, writes, conflict) in [
        // A record, however it was read.
        (Key(1), vec![Rename(1, "x")], Some("a row of relation \"t\" that this transaction read")),
        (Key(1), vec![Delete(1)], Some("a row of relation \"t\" that this transaction read")),
        (Key(1), vec![Move(1, 9)], Some("a row of relation \"t\" that this transaction read")),
        (Key(1), vec![Rename(2, "x"), Delete(5), Insert(9, "x")], None),
        // An absent key.
        (Key(9), vec![Insert(9, "x")], Some("in a range of index \"t_pkey\"")),
        (Key(9), vec![Move(5, 9)], Some("in a range of index \"t_pkey\"")),
        (Key(9), vec![Insert(9, "x"), Delete(9)], Some("in a range of index \"t_pkey\"")),
        (Key(9), vec![Insert(8, "x"), Insert(10, "x"), Delete(7)], None),
        // A range of the primary key: all kinds of phantoms, and rows in the range.
        (Keys(1, 4), vec![Insert(3, "x")], Some("in a range of index \"t_pkey\"")),
        (Keys(1, 4), vec![Insert(3, "x"), Delete(3)], Some("in a range of index \"t_pkey\"")),
        (Keys(1, 4), vec![Move(5, 3)], Some("in a range of index \"t_pkey\"")),
        (Keys(1, 4), vec![Move(2, 9)], Some("in a range of index \"t_pkey\"")),
        (Keys(1, 4), vec![Rename(2, "x")], Some("in a range of index \"t_pkey\"")),
        (Keys(1, 4), vec![Delete(1)], Some("in a range of index \"t_pkey\"")),
        (Keys(1, 4), vec![Insert(4, "x"), Insert(0, "x"), Rename(5, "x"), Delete(7)], None),
        // A range of a secondary index, whose keys end with the record number.
        (Names("c", "g"), vec![Insert(3, "e")], Some("in a range of index \"t_name\"")),
        (Names("c", "g"), vec![Rename(1, "e")], Some("in a range of index \"t_name\"")),
        (Names("c", "g"), vec![Rename(2, "z")], Some("in a range of index \"t_name\"")),
        (Names("c", "g"), vec![Rename(1, "e"), Rename(1, "a")], Some("in a range of index \"t_name\"")),
        (Names("c", "g"), vec![Delete(5)], Some("in a range of index \"t_name\"")),
        (Names("c", "g"), vec![Rename(1, "a"), Insert(3, "g"), Delete(7), Rename(3, "bzzz")], None),
        (Names("x", "y"), vec![Insert(3, "x")], Some("in a range of index \"t_name\"")),
        // The whole table, also when another thread reads it.
        (All, vec![Insert(9, "x")], Some("which this transaction read as a whole")),
        (All, vec![Delete(1)], Some("which this transaction read as a whole")),
        (Beside, vec![Rename(7, "x")], Some("which this transaction read as a whole")),
        // Any read of a table that was altered.
        (Key(1), vec![Alter], Some("altered or truncated relation \"t\"")),
        (Key(9), vec![Alter], Some("altered or truncated relation \"t\"")),
        (Keys(3, 4), vec![Alter], Some("altered or truncated relation \"t\"")),
        (All, vec![Alter], Some("altered or truncated relation \"t\"")),
    ] {
        for (isolation, expected) in [(Isolation::Serializable, conflict), (Isolation::RepeatableRead, None)] {
            let db = letters();
            let mut txn = db.begin(isolation);
            read.by(&db, &mut txn);
            writes.iter().for_each(|write| write.commit(&db));
            match (expected, outcome(&db, txn)) {
                (None, Ok(())) => {}
                (Some(expected), Err(detail)) if detail.contains(expected) => {}
                (expected, outcome) => {
                    panic!("{isolation:?}: {read:?}, then {writes:?}: {outcome:?}, expected {expected:?}")
                }
            }
        }
    }
}

/// The bug: only the record was noted, and it had no row. After that record was collected, the key
/// was inserted into another one. What was learnt beyond the snapshot must hold all the time:
/// versions that came and went since are kept until they are validated.
#[test]
fn a_key_inserted_and_deleted_since_the_snapshot_is_detected() {
    let db = letters();
    let mut txn = db.begin(Isolation::Serializable);
    let readers = Readers::new(vec![txn.snapshot()], Lsn(u64::MAX));
    Write::Insert(70, "came").commit(&db);
    assert!(matches!(db.insert(&mut txn, (70, Some(70), "x")), Put::Duplicate { .. }));
    Write::Delete(70).commit(&db);
    db.store.collect(&readers, usize::MAX).unwrap();
    assert!(txn.validate().is_err());
}

#[test]
fn a_key_reinserted_in_another_record_is_detected() {
    let db = letters();
    let mut txn = db.begin(Isolation::ReadCommitted);
    let old = db.find(2);
    db.delete(&mut txn, old);
    db.commit(txn);
    let mut txn = db.begin(Isolation::Serializable);
    assert_eq!(get(&db, &mut txn, 2), None);
    // Other transactions take the free record.
    assert!(db.store.collect(&Readers::since(db.now()), usize::MAX).unwrap() > 0);
    crate::reclaim::VERSIONS.drain();
    Write::Insert(70, "x").commit(&db);
    Write::Insert(2, "back").commit(&db);
    assert_ne!(db.find(2), old, "the test is about another record");
    assert!(outcome(&db, txn).unwrap_err().contains("t_pkey"));
}

#[test]
fn own_changes_and_commits_before_the_snapshot_are_no_conflicts() {
    let db = letters();
    let other = db.begin(Isolation::Serializable);
    Write::Rename(1, "before").commit(&db);
    let mut txn = db.begin(Isolation::Serializable);
    assert_eq!(get(&db, &mut txn, 1).unwrap(), "before");
    assert!(matches!(db.update(&mut txn, db.find(1), (1, None, "own")), Ok(Put::Done(_))));
    assert!(matches!(db.insert(&mut txn, (3, None, "own")), Put::Done(_)));
    assert_eq!(all(&db, &mut txn).len(), 5);
    db.try_commit(txn).unwrap();
    drop(other);
}

#[test]
fn an_oversized_read_set_counts_as_the_whole_table() {
    let db = letters();
    let noted = |note: &dyn Fn(&mut ReadSet, u32)| {
        let mut txn = db.begin(Isolation::Serializable);
        let reads = txn.reads.as_mut().unwrap();
        (0..70_000).for_each(|number| note(reads, number));
        txn
    };
    let range = |reads: &mut ReadSet, low: i32, high: i32| {
        let (low, high) = (key_of(&db, None, &Datum::Int4(low)), key_of(&db, None, &Datum::Int4(high)));
        reads.note_range(&db.table, index(&db, None), Bound::Included(&low), Bound::Excluded(&high));
    };
    let many_records = noted(&|reads, number| reads.note_record(&db.table, RecordId(u64::from(number) + 100)));
    let one_record = noted(&|reads, number| reads.note_record(&db.table, RecordId(u64::from(number % 2) + 100)));
    let many_ranges =
        noted(&|reads, number| range(reads, 100 + 2 * number.cast_signed(), 101 + 2 * number.cast_signed()));
    let one_range = noted(&|reads, number| range(reads, 100 + number.cast_signed(), 102 + number.cast_signed()));
    Write::Rename(1, "x").commit(&db);
    for (txn, expected) in [(many_records, true), (one_record, false), (many_ranges, true), (one_range, false)] {
        let mut txn = txn;
        let checked = txn.validate();
        assert_eq!(checked.is_err(), expected, "{checked:?}");
    }
}

#[test]
fn adjacent_ranges_merge_and_disjoint_ranges_do_not() {
    let db = letters();
    let mut reads = ReadSet::default();
    reads.begin(&db.store.recent, db.store.next_txn(), Lsn::ZERO);
    for (low, high) in [(1, 2), (6, 7), (2, 3)] {
        let (low, high) = (key_of(&db, None, &Datum::Int4(low)), key_of(&db, None, &Datum::Int4(high)));
        reads.note_range(&db.table, index(&db, None), Bound::Included(&low), Bound::Excluded(&high));
    }
    let guard = &crossbeam_epoch::pin();
    let conflicts: Vec<i32> =
        [1, 2, 5, 7].into_iter().filter(|id| reads.check_one(db.table.id(), db.find(*id), guard).is_err()).collect();
    assert_eq!(conflicts, [1, 2]);
}

#[test]
fn reads_before_a_rollback_to_savepoint_stay_in_the_read_set() {
    for (what, write, conflicts) in [
        ("insert", Write::Insert(9, "x"), true),
        ("insert", Write::Insert(8, "x"), false),
        ("lock", Write::Rename(1, "x"), true),
        ("lock", Write::Rename(2, "x"), false),
        ("stronger", Write::Rename(1, "x"), true),
        ("stronger", Write::Rename(2, "x"), false),
        ("missing", Write::Insert(9, "x"), true),
        ("missing", Write::Delete(1), false),
        ("taken", Write::Delete(1), true),
        ("taken", Write::Delete(2), false),
    ] {
        let db = letters();
        let mut txn = db.begin(Isolation::Serializable);
        let guard = &crossbeam_epoch::pin();
        let lock = |txn: &mut Txn, id, mode| {
            let locked = txn.lock_key_row(&db.table, None, &db.key(id), mode, guard).unwrap();
            matches!(locked, Locked::Row { .. })
        };
        if what == "stronger" {
            assert!(lock(&mut txn, 1, LockMode::KeyShare));
        }
        let savepoint = txn.savepoint();
        match what {
            // Foreign key checks: the row exists and is locked, or it is absent.
            "lock" => assert!(lock(&mut txn, 1, LockMode::KeyShare)),
            "missing" => assert!(!lock(&mut txn, 9, LockMode::KeyShare)),
            // The weaker lock of before the savepoint does not exclude an update of the row.
            "stronger" => assert!(lock(&mut txn, 1, LockMode::Share)),
            "insert" => assert!(matches!(db.insert(&mut txn, (9, None, "own")), Put::Done(_))),
            _ => assert!(matches!(db.insert(&mut txn, (1, None, "own")), Put::Duplicate { .. })),
        }
        txn.roll_back_to(savepoint, guard).unwrap();
        write.commit(&db);
        assert_eq!(outcome(&db, txn).is_err(), conflicts, "{what}, then {write:?}");
    }
}

#[test]
fn a_key_seen_as_free_fails_with_40001_and_not_as_a_duplicate() {
    for (looks, isolation, expected) in [
        (true, Isolation::Serializable, Err(SqlState::SERIALIZATION_FAILURE)),
        (false, Isolation::Serializable, Ok(true)),
        (true, Isolation::RepeatableRead, Ok(true)),
    ] {
        let db = letters();
        let mut txn = db.begin(isolation);
        if looks {
            assert_eq!(get(&db, &mut txn, 9), None);
        }
        Write::Insert(9, "x").commit(&db);
        let put = txn.insert(&db.table, db.row((9, None, "own")), &crossbeam_epoch::pin());
        let told = put.map(|put| matches!(put, Put::Duplicate { .. })).map_err(|error| error.state());
        assert_eq!(told, expected, "{isolation:?}, looks: {looks}");
    }
}

#[test]
fn commits_are_kept_while_a_serializable_transaction_may_need_them() {
    let db = letters();
    let remembered = || db.store.recent.len();
    Write::Rename(1, "a").commit(&db);
    assert_eq!(remembered(), 0, "nobody asks");
    let first = db.begin(Isolation::Serializable);
    Write::Rename(1, "b").commit(&db);
    let second = db.begin(Isolation::Serializable);
    Write::Rename(1, "c").commit(&db);
    assert_eq!(remembered(), 2);
    drop(first);
    assert_eq!(remembered(), 1, "the second asks for what came after it");
    drop(second);
    assert_eq!(remembered(), 0);
    Write::Rename(1, "d").commit(&db);
    assert_eq!(remembered(), 0);
    outcome(&db, db.begin(Isolation::Serializable)).unwrap();
    assert_eq!(remembered(), 0, "nobody asks but who commits");
}

#[test]
fn a_transaction_older_than_the_kept_commits_is_refused() {
    let db = letters();
    let mut old = db.begin(Isolation::Serializable);
    get(&db, &mut old, 1);
    let other = vec![(TableId(77), RecordId(0)); 1 << 22];
    let mut newest = db.newest.lock();
    for records in [Vec::new(), other] {
        *newest += 1;
        db.store.recent.note(Lsn(*newest), records, Vec::new());
    }
    db.visible.store(*newest, Ordering::Release);
    drop(newest);
    assert_eq!(db.store.recent.len(), 0);
    let mut new = db.begin(Isolation::Serializable);
    get(&db, &mut new, 1);
    assert!(outcome(&db, old).unwrap_err().contains("more transactions committed than the server keeps"));
    outcome(&db, new).unwrap();
}

/// Whenever rereading at commit time gives other results, validation fails; and it does not fail
/// every time.
#[test]
fn a_commit_whose_reads_changed_never_validates() {
    const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
    let (mut refused, mut through) = (0, 0);
    for seed in 0..400u64 {
        let mut state = seed;
        let mut below = |end: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % end
        };
        let db = Db::new();
        let mut map: BTreeMap<i32, &str> = BTreeMap::new();
        let write = |map: &mut BTreeMap<i32, &'static str>, below: &mut dyn FnMut(u64) -> u64| {
            let (id, name) = (below(12) as i32, NAMES[below(6) as usize]);
            let write = match (map.contains_key(&id), below(3)) {
                (false, _) => Write::Insert(id, name),
                (true, 0) => Write::Delete(id),
                (true, _) => Write::Rename(id, name),
            };
            write.commit(&db);
            if matches!(write, Write::Delete(_)) {
                map.remove(&id)
            } else {
                map.insert(id, name)
            };
        };
        (0..12).for_each(|_| write(&mut map, &mut below));
        let mut txn = db.begin(Isolation::Serializable);
        let snapshot = db.now();
        let mut reads = Vec::new();
        for _ in 0..1 + below(3) {
            let (low, high) = (below(12) as i32, below(12) as i32);
            let read = match below(7) {
                0..3 => Read::Key(low),
                3..5 => Read::Keys(low, high),
                5 => Read::Names(NAMES[low as usize % 6], NAMES[high as usize % 6]),
                _ => Read::All,
            };
            (0..below(3)).for_each(|_| write(&mut map, &mut below));
            db.store.collect(&Readers::new(vec![snapshot], db.now()), usize::MAX).unwrap();
            reads.push((read, read.by(&db, &mut txn)));
        }
        (0..below(3)).for_each(|_| write(&mut map, &mut below));
        let same = reads.iter().all(|(read, found)| {
            let mut now = db.begin(Isolation::ReadCommitted);
            read.by(&db, &mut now) == *found
        });
        let checked = txn.validate();
        assert!(same || checked.is_err(), "seed {seed}: {reads:?}");
        if checked.is_err() { refused += 1 } else { through += 1 }
    }
    assert!(refused > 100 && through > 100, "{refused} refused, {through} through");
}

/// Pairs of accounts: one may be overdrawn as long as their sum is not negative. A withdrawal reads
/// both and changes one. Several threads, so that transactions start and validate while others
/// commit.
#[test]
fn write_skew_between_threads_is_prevented() {
    const PAIRS: i32 = 2;
    /// The amounts are in a unique column, so offset them.
    const APART: i32 = 1_000_000;
    let db = Db::new();
    (0..2 * PAIRS).for_each(|id| db.put((id, Some(100 + APART * id), "a")));
    let amount = |txn: &mut Txn, id: i32| {
        let guard = &crossbeam_epoch::pin();
        let (record, row) = txn.get(&db.table, &db.key(id), guard).unwrap().expect("a row");
        (record, db.decode(row).1.unwrap() - APART * id)
    };
    let committed = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (db, committed, amount) = (&db, &committed, &amount);
            scope.spawn(move || {
                let mut state = thread;
                for _ in 0..400 {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let id = ((state >> 33) % (2 * PAIRS as u64)) as i32;
                    let mut txn = db.begin(Isolation::Serializable);
                    let ((record, own), (_, other)) = (amount(&mut txn, id), amount(&mut txn, id ^ 1));
                    assert!(own + other >= 0, "{own} and {other} are left");
                    // Let other threads read meanwhile.
                    std::thread::sleep(std::time::Duration::from_micros(20));
                    let by = if own + other >= 300 { -300 } else { 100 };
                    if let Ok(Put::Done(_)) = db.update(&mut txn, record, (id, Some(APART * id + own + by), "a"))
                        && db.try_commit(txn).is_ok()
                    {
                        committed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert!(committed.load(Ordering::Relaxed) > 100, "{committed:?} commits");
    assert_eq!(db.store.recent.len(), 0);
}
