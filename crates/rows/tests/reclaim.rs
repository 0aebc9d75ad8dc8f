//! Memory is reclaimed while transactions run. In its own process, because retired bytes are
//! counted per process.

use std::sync::{Arc, Mutex};

use crossbeam_epoch::pin;
use model::{Datum, Lsn, RowColumn, RowIndex, RowSchema, TableId, TableName, Type};
use rows::{Isolation, LockMode, Locked, Put, Readers, RecordId, RowTable, Store, Txn, WaitPolicy};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Serialises the tests: all of them count the same bytes.
static ALONE: Mutex<()> = Mutex::new(());

/// Retired bytes allowed at the end of a transaction or a collection.
const DEFERRED_MAX: u64 = 2 << 20;
const ROWS: i32 = 1_000;

struct Db {
    store: Arc<Store>,
    table: Arc<RowTable>,
    newest: Lsn,
}

impl Db {
    fn new() -> Db {
        let column = |name: &str, ty| RowColumn { not_null: true, ..RowColumn::new(name, ty) };
        let index = |id, columns: &[usize]| RowIndex {
            id,
            name: format!("i{id}"),
            columns: columns.into(),
            unique: id == 1,
            constraint: false,
            ..RowIndex::default()
        };
        let schema = RowSchema {
            id: TableId(1),
            name: TableName::public("t"),
            version: 1,
            lineage: model::Lineage::default(),
            columns: vec![column("id", Type::Int4), column("n", Type::Int4), column("text", Type::Text)],
            primary: Some(index(1, &[0])),
            secondary: vec![index(2, &[1])],
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            triggers: Vec::new(),
            replica_identity: model::ReplicaIdentity::default(),
        };
        let table = Arc::new(RowTable::new(Arc::new(schema)).expect("a valid schema"));
        Db { store: Arc::new(Store::default()), table, newest: Lsn::ZERO }
    }

    fn begin(&self) -> Txn {
        let mut txn = self.store.begin(Isolation::ReadCommitted);
        txn.set_snapshot(self.newest);
        txn
    }

    /// Commits like the engine, which collects garbage first.
    fn commit(&mut self, mut txn: Txn) {
        self.newest = Lsn(self.newest.0 + 1);
        txn.prepare(&pin()).expect("prepare");
        txn.commit(self.newest, &pin());
        drop(txn);
        while self.store.collect(&Readers::since(self.newest), 1_024).expect("collect") > 0 {}
    }

    fn row(&self, id: i32, n: i32) -> Box<[u8]> {
        let mut out = Vec::new();
        let values = [Datum::Int4(id), Datum::Int4(n), Datum::Text(&"x".repeat(500))];
        self.table.layout.encode(&values, &mut out).expect("encode");
        out.into()
    }

    fn key(&self, id: i32) -> Vec<u8> {
        let mut key = Vec::new();
        let primary = self.table.primary.as_ref().expect("a primary key");
        rows::key::push(&mut key, &primary.keys()[0], &Datum::Int4(id)).expect("push");
        key
    }

    /// One statement, under one guard.
    fn insert(&self, txn: &mut Txn, ids: std::ops::Range<i32>) {
        let guard = &pin();
        for id in ids {
            assert!(matches!(txn.insert(&self.table, self.row(id, id), guard), Ok(Put::Done(_))));
        }
    }

    fn update(&self, txn: &mut Txn, ids: std::ops::Range<i32>, by: i32) {
        let guard = &pin();
        for id in ids {
            let record = self.lock(txn, id);
            assert!(matches!(txn.update(&self.table, record, self.row(id, id + by), guard), Ok(Put::Done(_))));
        }
    }

    fn delete(&self, txn: &mut Txn, ids: std::ops::Range<i32>) {
        let guard = &pin();
        for id in ids {
            let record = self.lock(txn, id);
            assert!(txn.delete(&self.table, record, guard).expect("delete").is_none());
        }
    }

    fn lock(&self, txn: &mut Txn, id: i32) -> RecordId {
        let guard = &pin();
        let record = txn.get(&self.table, &self.key(id), guard).expect("get").expect("a row").0;
        let locked = txn.lock_row(&self.table, record, LockMode::Update, WaitPolicy::Wait, guard).expect("lock");
        assert!(matches!(locked, Locked::Row { .. }));
        record
    }
}

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4_096
}

/// The bug: the epoch freed at most 512 items per 128 pins, and a statement retires thousands with
/// a handful of pins. RSS grew without bound, and nothing counted it. The fix: retired bytes are
/// counted until they are freed, and reclamation keeps up.
#[test]
fn memory_is_reclaimed_during_large_statements() {
    let _alone = ALONE.lock();
    type Round = fn(&mut Db, i32);
    let rounds: [(&str, Round); 4] = [
        ("updates", |db, round| {
            let mut txn = db.begin();
            db.update(&mut txn, 0..ROWS, round);
            db.commit(txn);
        }),
        ("inserts and deletes", |db, _| {
            let mut txn = db.begin();
            db.insert(&mut txn, ROWS..2 * ROWS);
            db.commit(txn);
            let mut txn = db.begin();
            db.delete(&mut txn, ROWS..2 * ROWS);
            db.commit(txn);
        }),
        ("updates that are rolled back", |db, round| {
            let mut txn = db.begin();
            db.update(&mut txn, 0..ROWS, round);
            drop(txn);
        }),
        ("inserts that are undone", |db, _| {
            let mut txn = db.begin();
            let savepoint = txn.savepoint();
            db.insert(&mut txn, ROWS..2 * ROWS);
            txn.roll_back_to(savepoint, &pin()).unwrap();
        }),
    ];
    let mut db = Db::new();
    let mut txn = db.begin();
    db.insert(&mut txn, 0..ROWS);
    db.commit(txn);
    for (what, round) in rounds {
        (0..20).for_each(|at| round(&mut db, at));
        let (bytes, resident) = (db.table.memory_bytes(), resident_bytes());
        for at in 20..80 {
            round(&mut db, at);
            let deferred = db.store.deferred_bytes();
            assert!(deferred <= DEFERRED_MAX, "{what}: {deferred} bytes deferred after round {at}");
        }
        assert_eq!((db.store.garbage(), db.store.list_bytes()), (0, 0), "{what}");
        let grown = resident_bytes().saturating_sub(resident);
        println!("{what}: {bytes} bytes counted, resident {resident} + {grown}");
        assert!(db.table.memory_bytes() < bytes + (1 << 20), "{what}");
        assert!(grown < 16 << 20, "{what}: {grown} bytes more");
    }
}

/// Index nodes that a statement replaces are freed while it runs: its guard keeps only versions.
#[test]
fn a_large_statement_frees_the_nodes_it_replaces() {
    let _alone = ALONE.lock();
    let db = Db::new();
    let mut txn = db.begin();
    let guard = &pin();
    for id in 0..20_000 {
        assert!(matches!(txn.insert(&db.table, db.row(id, id % 7), guard), Ok(Put::Done(_))));
        if id % 1_000 == 0 {
            let deferred = db.store.deferred_bytes();
            assert!(deferred <= DEFERRED_MAX, "{deferred} bytes deferred after {id} rows");
        }
    }
    assert!(db.store.list_bytes() > 20_000 * 64, "lists of a transaction are counted");
    drop(txn);
    assert_eq!(db.store.list_bytes(), 0);
}
