//! An inverted index finds every row that a snapshot shows, whatever was undone or collected, and keeps no entry that no row
//! needs.

use std::collections::BTreeSet;

use model::{Array, IndexMethod};
use proptest::prelude::*;

use super::*;
use crate::inverted::{Postings, Sought};

/// id (the key), tags (inverted).
fn db() -> Db {
    let index = |id, columns: &[usize], method| RowIndex {
        id,
        name: format!("i{id}"),
        columns: columns.into(),
        unique: method == IndexMethod::Btree,
        method,
        ..RowIndex::default()
    };
    let text_array = Type::from_oid(1009, -1).unwrap();
    let schema = RowSchema {
        id: TableId(1),
        name: TableName::public("t"),
        version: 1,
        lineage: model::Lineage::default(),
        columns: vec![
            RowColumn { not_null: true, ..RowColumn::new("id", Type::Int4) },
            RowColumn::new("tags", text_array),
        ],
        primary: Some(index(1, &[0], IndexMethod::Btree)),
        secondary: vec![index(2, &[1], IndexMethod::Gin)],
        checks: Vec::new(),
        foreign_keys: Vec::new(),
        triggers: Vec::new(),
        replica_identity: model::ReplicaIdentity::default(),
    };
    let table = Arc::new(RowTable::new(Arc::new(schema)).unwrap());
    Db { store: Arc::new(Store::default()), table, newest: Mutex::new(0), visible: AtomicU64::new(0) }
}

const TAGS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// The tags whose bits are set; NULL for 63, so that there are rows without keys.
fn row(db: &Db, id: i32, tags: u32) -> Box<[u8]> {
    let items = TAGS.iter().enumerate().filter(|(at, _)| tags >> at & 1 == 1).map(|(_, tag)| Datum::Text(tag));
    let array = Datum::Array(Arc::new(Array::of(25, items.collect())));
    let mut out = Vec::new();
    db.table.layout.encode(&[Datum::Int4(id), if tags == 63 { Datum::Null } else { array }], &mut out).unwrap();
    out.into()
}

fn sought(db: &Db, tag: &str) -> Sought {
    let column = db.table.secondary[0].inverted_column(0).unwrap();
    column.containing(&Datum::Array(Arc::new(Array::of(25, vec![Datum::Text(tag)])))).unwrap()
}

/// The ids that a transaction finds by a tag, after the rows were tested.
fn tagged(db: &Db, txn: &mut Txn, tag: &str) -> BTreeSet<i32> {
    let guard = &crossbeam_epoch::pin();
    let index = &db.table.secondary[0];
    let sought = sought(db, tag);
    sought.ranges(&mut |from, to| txn.note_range(&db.table, index, Bound::Included(from), Bound::Included(to)));
    let mut postings = Postings::new(index, &sought).unwrap();
    let (mut found, mut least) = (BTreeSet::new(), RecordId(0));
    while let Some(record) = postings.seek(least, guard, &mut || Ok(())).unwrap() {
        least = RecordId(record.0 + 1);
        let Some(row) = txn.read_walked(&db.table, record, guard).unwrap() else { continue };
        let (Datum::Int4(id), Datum::Array(tags)) =
            (db.table.layout.field(row, 0).unwrap(), db.table.layout.field(row, 1).unwrap())
        else {
            continue;
        };
        if tags.items.contains(&Datum::Text(tag)) {
            found.insert(id);
        }
    }
    found
}

/// Puts a row in place of the one with its id, if there is one.
fn put(db: &Db, txn: &mut Txn, id: i32, tags: u32) {
    let guard = &crossbeam_epoch::pin();
    let put = match txn.get(&db.table, &db.key(id), guard).unwrap() {
        None => txn.insert(&db.table, row(db, id, tags), guard).unwrap(),
        Some((record, _)) => {
            txn.lock_row(&db.table, record, LockMode::NoKeyUpdate, WaitPolicy::Wait, guard).unwrap();
            txn.update(&db.table, record, row(db, id, tags), guard).unwrap()
        }
    };
    assert!(matches!(put, Put::Done(_)), "{put:?}");
}

fn delete(db: &Db, txn: &mut Txn, id: i32) {
    let guard = &crossbeam_epoch::pin();
    if let Some((record, _)) = txn.get(&db.table, &db.key(id), guard).unwrap() {
        db.delete(txn, record);
    }
}

/// Keys in the index.
fn keys(table: &RowTable) -> usize {
    table.secondary[0].tree.len()
}

/// Keys that the rows of a state have.
fn keys_of(rows: &BTreeMap<i32, u32>) -> usize {
    let keys = |tags: &u32| match tags {
        0 => 1,
        63 => 0,
        tags => tags.count_ones() as usize,
    };
    rows.values().map(keys).sum()
}

#[derive(Clone, Debug)]
enum Step {
    Put(i32, u32),
    Delete(i32),
    Savepoint,
    RollBack,
    Commit,
    Abort,
    /// Keeps a snapshot.
    Look,
    Collect,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..12, 0_u32..64).prop_map(|(id, tags)| Step::Put(id, tags)),
        2 => (0..12).prop_map(Step::Delete),
        1 => Just(Step::Savepoint),
        1 => Just(Step::RollBack),
        3 => Just(Step::Commit),
        1 => Just(Step::Abort),
        1 => Just(Step::Look),
        2 => Just(Step::Collect),
    ]
}

proptest! {
    #[test]
    fn an_inverted_index_finds_what_each_snapshot_shows(steps in prop::collection::vec(step(), 1..120)) {
        let db = db();
        let mut committed: BTreeMap<i32, u32> = BTreeMap::new();
        let mut own = committed.clone();
        let mut savepoint = None;
        let mut writer = db.begin(Isolation::ReadCommitted);
        let mut readers: Vec<(Txn, BTreeMap<i32, u32>)> = Vec::new();
        for step in steps {
            match step {
                Step::Put(id, tags) => {
                    put(&db, &mut writer, id, tags);
                    own.insert(id, tags);
                }
                Step::Delete(id) => {
                    delete(&db, &mut writer, id);
                    own.remove(&id);
                }
                Step::Savepoint => savepoint = Some((writer.savepoint(), own.clone())),
                Step::RollBack => {
                    if let Some((point, rows)) = savepoint.take() {
                        writer.roll_back_to(point, &crossbeam_epoch::pin()).unwrap();
                        own = rows;
                    }
                }
                Step::Commit | Step::Abort => {
                    let ended = std::mem::replace(&mut writer, db.store.begin(Isolation::ReadCommitted));
                    if matches!(step, Step::Commit) {
                        db.commit(ended);
                        committed.clone_from(&own);
                    } else {
                        drop(ended);
                        own.clone_from(&committed);
                    }
                    savepoint = None;
                    writer.set_snapshot(db.now());
                }
                Step::Look => readers.push((db.begin(Isolation::RepeatableRead), committed.clone())),
                Step::Collect => {
                    let live = readers.iter().map(|(reader, _)| reader.snapshot()).chain([writer.snapshot()]);
                    db.store.collect(&Readers::new(live.collect(), db.now()), usize::MAX).unwrap();
                }
            }
            let all = readers.iter_mut().map(|(reader, rows)| (reader, &*rows)).chain([(&mut writer, &own)]);
            for (reader, rows) in all {
                for (at, tag) in TAGS.iter().enumerate() {
                    let has = |tags: u32| tags != 63 && tags >> at & 1 == 1;
                    let expected = rows.iter().filter(|(_, tags)| has(**tags)).map(|(id, _)| *id).collect();
                    prop_assert_eq!(tagged(&db, reader, tag), expected, "tag {}", tag);
                }
            }
        }
        drop((writer, readers));
        db.store.collect(&Readers::new(Vec::new(), db.now()), usize::MAX).unwrap();
        db.store.collect(&Readers::new(Vec::new(), db.now()), usize::MAX).unwrap();
        prop_assert_eq!((keys(&db.table), db.store.garbage()), (keys_of(&committed), 0));
        let recovered = recovered(&db.table).unwrap();
        prop_assert_eq!(keys(&recovered), keys_of(&committed), "recovery makes the same entries");
    }
}

#[test]
fn a_serializable_transaction_conflicts_with_rows_that_get_a_key_it_sought_and_no_others() {
    for (tags, conflicts) in [(0b1, true), (0b10, false), (0b11, true)] {
        let db = db();
        let mut setup = db.begin(Isolation::ReadCommitted);
        put(&db, &mut setup, 1, 0b100);
        db.commit(setup);
        let mut reader = db.begin(Isolation::Serializable);
        assert!(tagged(&db, &mut reader, "a").is_empty());
        put(&db, &mut reader, 9, 0b1000);
        let mut writer = db.begin(Isolation::ReadCommitted);
        put(&db, &mut writer, 1, tags);
        db.commit(writer);
        assert_eq!(db.try_commit(reader).is_err(), conflicts, "tags {tags:b}");
    }
}
