//! `rows` tables in the engine: commits, snapshots, DDL, checkpoints, sequences.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use engine::{Altered, Durability, Engine, Isolation, NextValue, Options, Progress, RowData, Snapshot, Txn, inspect};
use env::Env;
use env::sim::SimEnv;
use model::{Datum, Error, Lsn, Result, RowColumn, RowIndex, RowSchema, SqlState, TableId, TableName, Type};
use rows::{LockMode, Locked, Put, RowTable, WaitPolicy};

use crate::{begin, make, put};

const DIR: &str = "/db";

pub(crate) fn open(env: &SimEnv) -> Engine {
    open_with(env, small())
}

fn open_with(env: &SimEnv, options: Options) -> Engine {
    try_open(env, options).expect("open")
}

fn try_open(env: &SimEnv, options: Options) -> Result<Engine> {
    Engine::open(Arc::new(env.clone()), Path::new(DIR), options).map(|(engine, _)| engine)
}

fn small() -> Options {
    Options { log_file_bytes: 1 << 20, ..Options::default() }
}

pub(crate) fn column(name: &str, ty: Type, not_null: bool) -> RowColumn {
    RowColumn { not_null, ..RowColumn::new(name, ty) }
}

/// An added column with value `missing` in existing rows.
fn added(missing: i64) -> RowColumn {
    let missing = rows::row::alone(Type::Int8, &Datum::Int8(missing)).expect("a value");
    RowColumn { missing, ..column("added", Type::Int8, false) }
}

pub(crate) fn index(txn: &Txn, name: &str, columns: &[usize], unique: bool) -> RowIndex {
    RowIndex {
        id: txn.next_number(),
        name: name.into(),
        columns: columns.into(),
        unique,
        constraint: false,
        ..RowIndex::default()
    }
}

/// Columns id (the key) and amount.
fn schema(txn: &Txn, name: &str) -> RowSchema {
    RowSchema {
        id: TableId(txn.next_number()),
        name: TableName::public(name),
        version: 1,
        lineage: model::Lineage::default(),
        columns: vec![column("id", Type::Int4, true), column("amount", Type::Int8, false)],
        primary: Some(index(txn, &format!("{name}_pkey"), &[0], true)),
        secondary: vec![],
        checks: vec![],
        foreign_keys: vec![],
        triggers: Vec::new(),
        replica_identity: model::ReplicaIdentity::default(),
    }
}

pub(crate) fn create(engine: &Engine, name: &str) -> TableId {
    let mut txn = begin(engine);
    let schema = schema(&txn, name);
    let id = txn.create_row_table(schema).expect("create").id();
    engine.finish(txn.commit(Durability::Sync)).expect("commit");
    id
}

pub(crate) fn table(txn: &mut Txn, name: &str) -> Arc<RowTable> {
    Arc::clone(txn.snapshot_newest().row_table(&TableName::public(name)).expect("table"))
}

fn row(table: &RowTable, values: &[Datum<'_>]) -> Box<[u8]> {
    let mut out = Vec::new();
    table.layout.encode(values, &mut out).expect("a row");
    out.into()
}

pub(crate) fn insert(txn: &mut Txn, name: &str, id: i32, amount: i64) -> Result<Put> {
    let table = table(txn, name);
    let row = row(&table, &[Datum::Int4(id), Datum::Int8(amount)]);
    txn.rows().insert(&table, row, &crossbeam_epoch::pin())
}

pub(crate) fn key(table: &RowTable, id: i32) -> Vec<u8> {
    let mut key = Vec::new();
    let primary = table.primary.as_ref().expect("a primary key");
    rows::key::push(&mut key, &primary.keys()[0], &Datum::Int4(id)).expect("a key");
    key
}

/// Changes or deletes the row with a key; `None` if it does not exist.
pub(crate) fn set(txn: &mut Txn, name: &str, id: i32, amount: Option<i64>) -> Result<Option<Put>> {
    let table = table(txn, name);
    let guard = &crossbeam_epoch::pin();
    let rows = txn.rows();
    let Some((record, _)) = rows.get(&table, &key(&table, id), guard)? else { return Ok(None) };
    let mode = if amount.is_some() { LockMode::NoKeyUpdate } else { LockMode::Update };
    match rows.lock_row(&table, record, mode, WaitPolicy::Wait, guard)? {
        Locked::Row { .. } => {}
        Locked::Wait(event) => return Ok(Some(Put::Wait(event))),
        Locked::Gone | Locked::Skipped => return Ok(None),
    }
    match amount {
        Some(amount) => {
            let row = row(&table, &[Datum::Int4(id), Datum::Int8(amount)]);
            rows.update(&table, record, row, guard).map(Some)
        }
        None => Ok(Some(rows.delete(&table, record, guard)?.map_or(Put::Done(record), Put::Wait))),
    }
}

pub(crate) fn done(put: Result<Put>) {
    assert!(matches!(put, Ok(Put::Done(_))), "{put:?}");
}

fn commit(engine: &Engine, txn: Txn) -> Lsn {
    engine.finish(txn.commit(Durability::Sync)).expect("commit")
}

pub(crate) fn put_rows(engine: &Engine, name: &str, rows: impl IntoIterator<Item = (i32, i64)>) {
    let mut txn = begin(engine);
    for (id, amount) in rows {
        done(insert(&mut txn, name, id, amount));
    }
    commit(engine, txn);
}

pub(crate) fn number(value: Datum<'_>) -> Option<i64> {
    match value {
        Datum::Int4(value) => Some(value.into()),
        Datum::Int8(value) => Some(value),
        _ => None,
    }
}

/// Reads all rows by records and by each index; the results must agree.
fn read(txn: &mut Txn, table: &RowTable) -> BTreeMap<i64, Vec<Option<i64>>> {
    let guard = &crossbeam_epoch::pin();
    let fields = |row: &[u8]| -> Vec<Option<i64>> {
        (0..table.layout.columns()).map(|at| number(table.layout.field(row, at).expect("a field"))).collect()
    };
    let mut all = BTreeMap::new();
    for record in table.records.all() {
        if let Some(row) = txn.rows().read(table, record, guard).expect("a row") {
            let fields = fields(row);
            assert!(all.insert(fields[0].expect("a key"), fields).is_none(), "a key twice");
        }
    }
    let everything = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    for (at, index) in table.primary.iter().chain(&table.secondary).enumerate() {
        let mut seen = BTreeMap::new();
        index.scan(everything.0, everything.1, rows::Direction::Forward, guard, |entry, record| {
            let rows = txn.rows();
            let row = match at {
                0 => rows.read(table, record, guard).expect("a row"),
                _ => rows.read_entry(table, index, entry, record, guard).expect("a row"),
            };
            seen.extend(row.map(|row| (fields(row)[0].expect("a key"), fields(row))));
            std::ops::ControlFlow::Continue(())
        });
        assert_eq!(seen, all, "by {}", index.def().name);
    }
    all
}

pub(crate) fn amounts(engine: &Engine, name: &str) -> BTreeMap<i64, i64> {
    let mut txn = begin(engine);
    let table = table(&mut txn, name);
    read(&mut txn, &table).into_iter().map(|(id, row)| (id, row[1].expect("an amount"))).collect()
}

fn show(value: &Datum<'_>) -> String {
    number(value.clone()).map_or("NULL".to_owned(), |number| number.to_string())
}

pub(crate) fn alter(txn: &mut Txn, next: RowSchema, data: RowData) -> Arc<RowTable> {
    match txn.alter_row_table(next, data, &show).expect("alter") {
        Altered::Done(table) => table,
        Altered::Wait(_) => panic!("no other transaction is open"),
    }
}

pub(crate) fn next_version(table: &RowTable) -> RowSchema {
    RowSchema { version: table.schema.version + 1, ..(*table.schema).clone() }
}

fn state(error: Error) -> SqlState {
    error.state()
}

#[test]
fn committed_rows_survive_a_crash_with_and_without_checkpoint() {
    for flush in [false, true] {
        let env = SimEnv::new(1);
        let engine = open(&env);
        create(&engine, "t");
        put_rows(&engine, "t", (0..100).map(|id| (id, id.into())));
        if flush {
            engine.flush().expect("flush");
        }
        let mut txn = begin(&engine);
        assert!(set(&mut txn, "t", 7, Some(70)).unwrap().is_some());
        assert!(set(&mut txn, "t", 8, None).unwrap().is_some());
        done(insert(&mut txn, "t", 100, 1));
        commit(&engine, txn);
        let mut txn = begin(&engine);
        done(insert(&mut txn, "t", 500, 1));
        let expected = amounts(&engine, "t");
        assert_eq!((expected.len(), expected[&7], expected.get(&8)), (100, 70, None));
        env.crash();
        drop((txn, engine));
        let engine = open(&env);
        assert_eq!(amounts(&engine, "t"), expected, "flush: {flush}");
        assert_eq!(engine.stats().rows, 100);
        // Freed records are reused and found.
        put_rows(&engine, "t", [(8, 1), (500, 2), (501, 3)]);
        engine.flush().expect("flush");
        let expected = amounts(&engine, "t");
        env.crash();
        drop(engine);
        assert_eq!(amounts(&open(&env), "t"), expected);
    }
}

/// Transactions that log one record a row ahead of their commits, up to one that meets a full log at its last row.
#[test]
fn every_row_is_logged_before_its_commit_wherever_the_log_is_busy() {
    let note = "x".repeat(600 << 10);
    // The log is busy when its prepared files are full, after 12 records here, and with 16 MiB that it has not written.
    for count in 1..=30 {
        let env = SimEnv::new(11);
        let engine = open_with(&env, Options { log_file_bytes: 64 << 20, ..Options::default() });
        let mut txn = begin(&engine);
        let mut noted = schema(&txn, "t");
        noted.columns.push(column("note", Type::Text, true));
        txn.create_row_table(noted).expect("create");
        commit(&engine, txn);
        env.run_until_idle();
        let mut txn = begin(&engine);
        let rows = table(&mut txn, "t");
        for id in 0..count {
            let row = row(&rows, &[Datum::Int4(id), Datum::Int8(0), Datum::Text(&note)]);
            done(txn.rows().insert(&rows, row, &crossbeam_epoch::pin()));
        }
        let mut committing = txn.commit(Durability::Sync);
        // The log writes only when nothing else goes on.
        while let Progress::Wait(_) = committing.poll().unwrap_or_else(|error| panic!("{count} rows: {error}")) {
            env.run_some(1);
        }
        drop(committing);
        drop(engine);
        env.crash();
        let engine = open_with(&env, Options { log_file_bytes: 64 << 20, ..Options::default() });
        let mut txn = begin(&engine);
        assert_eq!(table(&mut txn, "t").records.rows(), count as u64, "{count} rows");
    }
}

#[test]
fn a_statement_sees_the_newest_commit_and_the_lsn_that_must_be_durable() {
    let env = SimEnv::new(2);
    let engine = open(&env);
    create(&engine, "t");
    let mut txn = begin(&engine);
    done(insert(&mut txn, "t", 1, 1));
    let Progress::Done(lsn) = txn.commit(Durability::Async).poll().expect("commit") else { panic!("async waits") };
    let mut reader = begin(&engine);
    let before = reader.snapshot();
    let table = table(&mut reader, "t");
    assert_eq!(read(&mut reader, &table).len(), 1);
    assert_eq!(reader.rows().newest_seen(), lsn);
    assert!(before.lsn() < lsn, "columns are read where everything is durable");
    let event = engine.when_durable(lsn).expect("the log is well").expect("not yet");
    env.wait(&event);
    assert!(engine.when_durable(lsn).expect("the log is well").is_none());
}

#[test]
fn repeatable_read_keeps_its_snapshot_during_changes_and_garbage_collection() {
    let env = SimEnv::new(3);
    let engine = open(&env);
    create(&engine, "t");
    put_rows(&engine, "t", (0..20).map(|id| (id, 0)));
    let mut old = engine.begin(Isolation::RepeatableRead, Lsn::ZERO);
    let table = table(&mut old, "t");
    let expected = read(&mut old, &table);
    for round in 1..10 {
        let mut txn = begin(&engine);
        for id in 0..20 {
            let amount = if id % 7 == round % 7 { None } else { Some(round.into()) };
            set(&mut txn, "t", id, amount).expect("no wait");
        }
        commit(&engine, txn);
        env.run_until_idle();
        assert_eq!(read(&mut old, &table), expected, "round {round}");
    }
    assert!(engine.stats().rows_garbage > 0, "it is kept for the reader");
    let conflict = set(&mut old, "t", 0, Some(5)).expect_err("changed since");
    assert_eq!(state(conflict), SqlState::SERIALIZATION_FAILURE);
    drop(old);
    env.advance(2_000_000_000);
    env.run_until_idle();
    assert_eq!(engine.stats().rows_garbage, 0);
}

#[test]
fn a_table_is_created_filled_indexed_and_altered_in_one_transaction() {
    let env = SimEnv::new(4);
    let engine = open(&env);
    let mut txn = begin(&engine);
    let made = schema(&txn, "t");
    txn.create_row_table(made).expect("create");
    for id in 0..10 {
        done(insert(&mut txn, "t", id, (id % 5).into()));
    }
    let first = table(&mut txn, "t");
    let by_amount = index(&txn, "by_amount", &[1], false);
    let before_index = txn.savepoint();
    let second = alter(&mut txn, RowSchema { secondary: vec![by_amount], ..next_version(&first) }, RowData::Keep);
    assert_eq!(read(&mut txn, &second).len(), 10);
    assert!(set(&mut txn, "t", 3, Some(77)).unwrap().is_some());
    assert!(set(&mut txn, "t", 4, None).unwrap().is_some());
    let mut columns = second.schema.columns.clone();
    columns.push(added(9));
    let third = alter(&mut txn, RowSchema { columns, ..next_version(&second) }, RowData::Keep);
    let rows = read(&mut txn, &third);
    assert_eq!((rows.len(), &rows[&3]), (9, &vec![Some(3), Some(77), Some(9)]));
    assert!(engine.snapshot(Lsn::ZERO).catalog().row_table(&TableName::public("t")).is_none());
    let mut other = begin(&engine);
    assert!(other.snapshot_newest().row_table(&TableName::public("t")).is_err(), "invisible to others");
    let undone = txn.savepoint();
    txn.roll_back_to(&before_index).expect("back");
    assert_eq!(table(&mut txn, "t").schema.version, 1);
    let again = table(&mut txn, "t");
    assert_eq!(read(&mut txn, &again).len(), 10);
    drop(undone);
    let unique = index(&txn, "once", &[1], true);
    let twice =
        txn.alter_row_table(RowSchema { secondary: vec![unique], ..next_version(&again) }, RowData::Keep, &show);
    let error = twice.expect_err("0 is there twice");
    assert_eq!(
        (error.state(), error.message()),
        (SqlState::UNIQUE_VIOLATION, "could not create unique index \"once\"")
    );
    assert!(error.detail().expect("a detail").ends_with(" is duplicated."), "{error}");
    let by_amount = index(&txn, "by_amount", &[1], false);
    alter(&mut txn, RowSchema { secondary: vec![by_amount], ..next_version(&again) }, RowData::Keep);
    assert!(set(&mut txn, "t", 5, Some(55)).unwrap().is_some());
    commit(&engine, txn);
    let expected = amounts(&engine, "t");
    assert_eq!((expected.len(), expected[&5]), (10, 55));
    env.crash();
    drop((engine, other));
    let engine = open(&env);
    assert_eq!(amounts(&engine, "t"), expected);
    assert!(engine.snapshot(Lsn::ZERO).catalog().index(&TableName::public("by_amount")).is_some());
}

#[test]
fn added_and_dropped_columns_truncation_and_drops_survive_restarts() {
    for flushes in [[false; 4], [true; 4], [true, false, true, false], [false, true, false, true]] {
        let env = SimEnv::new(5);
        let engine = open(&env);
        create(&engine, "t");
        create(&engine, "u");
        put_rows(&engine, "t", [(1, 10), (2, 20)]);
        put_rows(&engine, "u", [(1, 1)]);
        let flush = |at: usize| {
            if flushes[at] {
                engine.flush().expect("flush")
            }
        };
        flush(0);
        let mut txn = begin(&engine);
        let old = table(&mut txn, "t");
        let mut columns = old.schema.columns.clone();
        columns.push(added(-5));
        columns[1].dropped = true;
        alter(&mut txn, RowSchema { columns, ..next_version(&old) }, RowData::Keep);
        let new = table(&mut txn, "t");
        let row = row(&new, &[Datum::Int4(3), Datum::Null, Datum::Null]);
        done(txn.rows().insert(&new, row, &crossbeam_epoch::pin()));
        commit(&engine, txn);
        flush(1);
        let mut txn = begin(&engine);
        done(insert(&mut txn, "u", 2, 2));
        let old = table(&mut txn, "u");
        alter(&mut txn, next_version(&old), RowData::Discard);
        done(insert(&mut txn, "u", 3, 3));
        assert_eq!(amounts(&engine, "u").len(), 1, "others see what was");
        commit(&engine, txn);
        assert_eq!(amounts(&engine, "u"), BTreeMap::from([(3, 3)]));
        flush(2);
        let id = create(&engine, "gone");
        put_rows(&engine, "gone", [(1, 1)]);
        flush(3);
        let mut txn = begin(&engine);
        assert!(matches!(txn.drop_row_table(id).expect("drop"), Altered::Done(())));
        commit(&engine, txn);
        env.crash();
        drop(engine);
        for restart in 0..2 {
            let engine = open(&env);
            let mut txn = begin(&engine);
            let table = table(&mut txn, "t");
            let expected = [(1, Some(-5)), (2, Some(-5)), (3, None)];
            let seen: Vec<_> = read(&mut txn, &table).into_iter().map(|(id, row)| (id, row[2])).collect();
            assert_eq!(seen, expected, "{flushes:?}, restart {restart}");
            assert_eq!(amounts(&engine, "u"), BTreeMap::from([(3, 3)]));
            assert!(txn.snapshot_newest().row_table(&TableName::public("gone")).is_err());
            engine.flush().expect("flush");
            assert_no_stray_row_files(&env);
            env.crash();
            drop((txn, engine));
        }
    }
}

fn assert_no_stray_row_files(env: &SimEnv) {
    let data = Path::new(DIR).join("data");
    let there = env.list(&data).expect("list").into_iter().filter(|entry| entry.name.ends_with(".row"));
    let there: Vec<_> = there.map(|entry| data.join(entry.name)).collect();
    let manifest = inspect::manifest(env, Path::new(DIR)).expect("manifest");
    let named = manifest.row_files.values().flat_map(engine::RowFiles::files);
    let mut named: Vec<_> = named.map(|file| engine::row_file_path(&data, file)).collect();
    named.sort();
    assert_eq!(there, named);
    let env: Arc<dyn Env> = Arc::new(env.clone());
    let report = inspect::check(&env, Path::new(DIR), &mut |_, _| {}).expect("check");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

#[test]
fn ddl_waits_for_writers_and_blocks_new_ones_but_no_readers() {
    let env = SimEnv::new(6);
    let engine = open(&env);
    create(&engine, "t");
    put_rows(&engine, "t", [(1, 10)]);
    let mut writer = begin(&engine);
    done(insert(&mut writer, "t", 2, 20));
    let mut ddl = begin(&engine);
    let old = table(&mut ddl, "t");
    let by_amount = index(&ddl, "by_amount", &[1], true);
    let next = RowSchema { secondary: vec![by_amount], ..next_version(&old) };
    let Altered::Wait(event) = ddl.alter_row_table(next.clone(), RowData::Keep, &show).expect("waits") else {
        panic!("the writer is not through");
    };
    let mut late = begin(&engine);
    let Ok(Put::Wait(late_event)) = insert(&mut late, "t", 3, 30) else { panic!("the change comes first") };
    assert_eq!(amounts(&engine, "t").len(), 1, "readers go on");
    assert!(!event.is_set());
    commit(&engine, writer);
    assert!(event.is_set() && !late_event.is_set());
    let altered = ddl.alter_row_table(next, RowData::Keep, &show).expect("alter");
    let Altered::Done(new) = altered else { panic!("it is its turn") };
    assert_eq!(read(&mut ddl, &new).len(), 2);
    commit(&engine, ddl);
    assert!(late_event.is_set());
    // The old version of the table does not know the index.
    let row = row(&old, &[Datum::Int4(3), Datum::Int8(30)]);
    let stale = late.rows().insert(&old, row, &crossbeam_epoch::pin()).expect_err("another version");
    assert_eq!(state(stale), SqlState::SERIALIZATION_FAILURE);
    done(insert(&mut late, "t", 3, 30));
    assert!(matches!(insert(&mut late, "t", 4, 20), Ok(Put::Duplicate { index: Some(0), .. })));
    commit(&engine, late);
    assert_eq!(amounts(&engine, "t").len(), 3);
}

#[test]
fn two_writers_that_both_alter_their_table_do_not_deadlock_forever() {
    let env = SimEnv::new(7);
    let engine = open(&env);
    let id = create(&engine, "t");
    let (mut one, mut other) = (begin(&engine), begin(&engine));
    done(insert(&mut one, "t", 1, 1));
    done(insert(&mut other, "t", 2, 2));
    assert!(matches!(one.drop_row_table(id), Ok(Altered::Wait(_))));
    assert_eq!(state(other.drop_row_table(id).expect_err("a circle")), SqlState::DEADLOCK_DETECTED);
    drop(other);
    assert!(matches!(one.drop_row_table(id), Ok(Altered::Done(()))));
    commit(&engine, one);
}

#[test]
fn relation_names_are_unique_across_kinds() {
    let env = SimEnv::new(8);
    let engine = open(&env);
    make(&engine, "points");
    create(&engine, "t");
    for name in ["points", "t", "t_pkey"] {
        let mut txn = begin(&engine);
        let taken = schema(&txn, name);
        assert_eq!(txn.create_row_table(taken).map(drop).map_err(state), Err(SqlState::DUPLICATE_TABLE), "{name}");
        assert_eq!(txn.create_table(&crate::spec(name)).map(drop).map_err(state), Err(SqlState::DUPLICATE_TABLE));
    }
    let (mut one, mut other) = (begin(&engine), begin(&engine));
    let first = schema(&one, "both");
    one.create_row_table(first).expect("free");
    other.create_table(&crate::spec("both")).expect("free");
    commit(&engine, other);
    let late = engine.finish(one.commit(Durability::Sync)).expect_err("taken meanwhile");
    assert_eq!(state(late), SqlState::DUPLICATE_TABLE);
}

#[test]
fn a_transaction_larger_than_a_log_record_and_a_table_of_several_parts_survive() {
    let env = SimEnv::new(9);
    let engine = open_with(&env, Options { log_file_bytes: 16 << 20, ..Options::default() });
    create(&engine, "t");
    put_rows(&engine, "t", (0..70_000).map(|id| (id, 1)));
    engine.flush().expect("flush");
    assert_eq!(parts(&env), [(0, 65_536), (1, 4_464)]);
    let files = engine.stats().metric("checkpoint_bytes");
    put_rows(&engine, "t", [(70_000, 1)]);
    engine.flush().expect("flush");
    assert!(engine.stats().metric("checkpoint_bytes") - files < files / 4, "only the part that changed is written");
    let mut txn = begin(&engine);
    for id in 0..70_000 {
        let amount = if id % 2 == 0 { None } else { Some(2) };
        set(&mut txn, "t", id, amount).expect("no wait");
    }
    commit(&engine, txn);
    let expected = amounts(&engine, "t");
    assert_eq!(expected.len(), 35_001);
    env.crash();
    drop(engine);
    let engine = open(&env);
    assert_eq!(amounts(&engine, "t"), expected);
    let stats = engine.stats();
    assert_eq!((stats.rows, stats.row_tables), (35_001, 1));
    engine.flush().expect("flush");
    drop(engine);
    // The damaged one of several files is named.
    let data = Path::new(DIR).join("data");
    let files: Vec<_> = env.list(&data).expect("list").into_iter().map(|entry| data.join(entry.name)).collect();
    assert_eq!(files.len(), 2);
    for path in files {
        let file = env.open(&path, env::Open::ReadWrite).expect("open");
        let mut byte = [0];
        file.read_at(&mut byte, 1_000).expect("read");
        file.write_at(&[!byte[0]], 1_000).expect("write");
        let refused = try_open(&env, small()).map(drop).expect_err("damaged");
        assert_eq!(refused.kind(), model::ErrorKind::Corrupt);
        assert!(refused.message().contains(&path.display().to_string()), "{refused}");
        file.write_at(&byte, 1_000).expect("write");
    }
    assert_eq!(amounts(&open(&env), "t"), expected);
}

fn parts(env: &SimEnv) -> Vec<(u64, u64)> {
    let manifest = inspect::manifest(env, Path::new(DIR)).expect("manifest");
    manifest.row_files.values().flat_map(|files| &files.parts).map(|part| (part.part, part.rows)).collect()
}

#[test]
fn inserts_and_updates_are_refused_at_the_memory_limit_and_deletes_free_memory() {
    let env = SimEnv::new(10);
    let engine = open_with(&env, Options { memory_bytes: 4 << 20, ..small() });
    create(&engine, "t");
    let mut next = 0;
    let refused = loop {
        let mut txn = begin(&engine);
        let put = (0..100).try_for_each(|at| insert(&mut txn, "t", next + at, 0).map(drop));
        match put {
            Ok(()) => commit(&engine, txn),
            Err(error) => break error,
        };
        next += 100;
    };
    assert_eq!(refused.state(), SqlState::OUT_OF_MEMORY);
    assert!(refused.message().contains("the limit is 2097152"), "{refused}");
    let mut txn = begin(&engine);
    let update = (0..next).find_map(|id| set(&mut txn, "t", id, Some(1)).err()).expect("no room");
    assert_eq!(state(update), SqlState::OUT_OF_MEMORY);
    drop(txn);
    let bytes = engine.stats().rows_bytes;
    assert!((2 << 20..5 << 19).contains(&bytes), "{bytes}");
    let mut txn = begin(&engine);
    for id in 0..next / 2 {
        assert!(set(&mut txn, "t", id, None).expect("deletes are accepted").is_some());
    }
    commit(&engine, txn);
    env.advance(2_000_000_000);
    env.run_until_idle();
    put_rows(&engine, "t", [(0, 1)]);
    engine.close().expect("close");
    drop(engine);
    // Existing rows are loaded even beyond the memory limit.
    let engine = open_with(&env, Options { memory_bytes: 1 << 20, ..small() });
    assert_eq!(amounts(&engine, "t").len() as i32, next / 2 + 1);
    assert_eq!(insert(&mut begin(&engine), "t", -1, 0).map(drop).map_err(state), Err(SqlState::OUT_OF_MEMORY));
}

/// Each pair is a row and a point that add up to zero. Returns the number of pairs that a snapshot
/// shows.
fn check_pairs(snapshot: &Snapshot, txn: &mut Txn) -> usize {
    let table = Arc::clone(snapshot.row_table(&TableName::public("t")).expect("table"));
    let rows = read(txn, &table);
    let points = crate::read(snapshot, "points");
    let rows: Vec<(i64, i64)> = rows.into_iter().map(|(id, row)| (id, row[1].expect("an amount"))).collect();
    let points: Vec<(i64, i64)> = points.into_iter().map(|(_, time, value)| (time, -(value as i64))).collect();
    assert_eq!(rows, points, "rows, and points with the sign changed");
    rows.len()
}

fn pair(txn: &mut Txn, id: i32, amount: i64) -> Result<()> {
    put(txn, "points", &[("a", id.into(), -amount as f64)])?;
    if set(txn, "t", id, Some(amount))?.is_none() {
        done(insert(txn, "t", id, amount));
    }
    Ok(())
}

#[test]
fn a_transaction_on_both_stores_is_atomic_across_power_failures() {
    for seed in 0..60 {
        let env = SimEnv::new(seed);
        let mut acknowledged = 0;
        let engine = open(&env);
        {
            make(&engine, "points");
            create(&engine, "t");
            for round in 0..12 {
                let mut txn = begin(&engine);
                pair(&mut txn, round % 7, (100 * round).into()).expect("write");
                let mut committing = txn.commit(if round % 3 == 0 { Durability::Async } else { Durability::Sync });
                let polled = committing.poll();
                if round % 4 == 2 {
                    drop(engine.start_flush());
                }
                env.run_some(seed % 9);
                let mut reader = begin(&engine);
                let snapshot = reader.snapshot_newest();
                check_pairs(&snapshot, &mut reader);
                if matches!(polled, Ok(Progress::Wait(_))) && matches!(committing.poll(), Ok(Progress::Done(_))) {
                    acknowledged = acknowledged.max((round + 1).min(7) as usize);
                }
            }
        }
        env.crash();
        drop(engine);
        let engine = open(&env);
        let mut reader = begin(&engine);
        let snapshot = reader.snapshot_newest();
        assert!(check_pairs(&snapshot, &mut reader) >= acknowledged, "seed {seed}");
    }
}

/// Writes pairs, with a checkpoint after every third and DDL in between, and counts acknowledged
/// ones in `acknowledged`.
fn run(engine: &Engine, acknowledged: &mut usize) -> Result<()> {
    let mut txn = begin(engine);
    txn.create_table(&crate::spec("points"))?;
    let made = schema(&txn, "t");
    txn.create_row_table(made)?;
    engine.finish(txn.commit(Durability::Sync))?;
    for round in 0..9 {
        let mut txn = begin(engine);
        pair(&mut txn, round, (100 * round).into())?;
        if round == 4 {
            let old = table(&mut txn, "t");
            let by_amount = index(&txn, "by_amount", &[1], true);
            alter(&mut txn, RowSchema { secondary: vec![by_amount], ..next_version(&old) }, RowData::Keep);
        }
        engine.finish(txn.commit(Durability::Sync))?;
        *acknowledged = round as usize + 1;
        if round % 3 == 1 {
            engine.flush()?;
        }
    }
    engine.close()
}

#[test]
fn acknowledged_commits_survive_any_failing_call() {
    for cut in [false, true] {
        for nth in 1.. {
            let env = SimEnv::new(nth);
            env.fail_at(nth);
            let mut acknowledged = 0;
            let engine = try_open(&env, small());
            let failed = engine.as_ref().is_ok_and(|engine| run(engine, &mut acknowledged).is_err());
            let failed = failed || engine.is_err();
            let calls = env.io_calls();
            env.heal();
            if cut {
                env.crash()
            } else {
                env.kill()
            }
            drop(engine);
            let engine = open(&env);
            if acknowledged > 0 {
                let mut reader = begin(&engine);
                let snapshot = reader.snapshot_newest();
                let seen = check_pairs(&snapshot, &mut reader);
                assert!(seen >= acknowledged && (failed || seen == 9), "call {nth}: {seen} of {acknowledged}");
                engine.flush().expect("nothing fails any more");
                assert_no_stray_row_files(&env);
            }
            if nth > calls {
                assert!(!failed && nth > 50, "only {nth} calls");
                break;
            }
        }
    }
}

/// The checkpoint reads parts while commits run; the power fails after each of its steps.
#[test]
fn a_checkpoint_during_commits_survives_power_failures_at_any_step() {
    let mut finished = 0;
    for seed in 0..400 {
        let (env, steps) = (SimEnv::new(seed), 10 + seed % 50);
        let engine = open(&env);
        create(&engine, "t");
        put_rows(&engine, "t", (0..100).map(|id| (id, 0)));
        engine.flush().expect("flush");
        // Table contents by commit.
        let mut history = BTreeMap::from([(begin(&engine).snapshot_newest().lsn().0, amounts(&engine, "t"))]);
        let flushing = engine.start_flush();
        let mut durable = engine.stats().durable_lsn;
        for step in 0..steps {
            let mut txn = begin(&engine);
            let at = (step * 37 % 100) as i32;
            match step % 3 {
                0 => drop(set(&mut txn, "t", at, Some(step as i64)).expect("update")),
                1 => drop(set(&mut txn, "t", at, None).expect("delete")),
                _ => done(insert(&mut txn, "t", 1_000 + step as i32, 1)),
            }
            if !txn.is_empty() {
                let mut committing = txn.commit(Durability::Async);
                let Ok(Progress::Done(lsn)) = committing.poll() else { panic!("async waits") };
                history.insert(lsn.0, amounts(&engine, "t"));
            }
            env.run_some(1);
            if step % 10 == 0 {
                drop(engine.start_flush());
            }
            durable = engine.stats().durable_lsn;
        }
        finished += u64::from(flushing.event.is_set());
        env.crash();
        drop(engine);
        let engine = open(&env);
        let lsn = begin(&engine).snapshot_newest().lsn().0;
        let expected = history.range(..=lsn).next_back().expect("a commit").1;
        assert!(lsn >= *history.range(..=durable).next_back().expect("a commit").0, "seed {seed}");
        assert_eq!(amounts(&engine, "t"), *expected, "seed {seed}, recovered to {lsn}");
    }
    assert!(finished > 10, "checkpoints that ended: {finished}");
}

/// A checkpoint file may have rows newer than the schema of their table in the manifest.
#[test]
fn a_table_that_is_altered_while_a_checkpoint_runs_opens_after_the_power_fails() {
    let mut wider = 0;
    for seed in 0..240 {
        let (before, after) = (seed % 12, seed / 12);
        let env = SimEnv::new(seed);
        let engine = open(&env);
        create(&engine, "t");
        put_rows(&engine, "t", (0..100).map(|id| (id, 0)));
        drop(engine.start_flush());
        env.run_some(before);
        let mut txn = begin(&engine);
        let old = table(&mut txn, "t");
        let mut next = next_version(&old);
        next.columns.push(column("more", Type::Int8, false));
        alter(&mut txn, next, RowData::Keep);
        assert!(matches!(txn.commit(Durability::Async).poll(), Ok(Progress::Done(_))));
        let mut txn = begin(&engine);
        let wide = table(&mut txn, "t");
        let wider_row = row(&wide, &[Datum::Int4(200), Datum::Int8(1), Datum::Int8(7)]);
        done(txn.rows().insert(&wide, wider_row, &crossbeam_epoch::pin()));
        assert!(matches!(txn.commit(Durability::Async).poll(), Ok(Progress::Done(_))));
        env.run_some(after);
        env.crash();
        drop(engine);
        let engine = open(&env);
        let rows = amounts(&engine, "t");
        assert!((100..=101).contains(&rows.len()), "seed {seed}: {} rows", rows.len());
        wider += u64::from(rows.len() == 101);
    }
    assert!(wider > 10, "only {wider} times the new row was on disk");
}

fn next(engine: &Engine, id: u32) -> i64 {
    loop {
        match engine.next_value(id).expect("next value") {
            NextValue::Value { value, lsn } => {
                while let Some(event) = engine.when_durable(lsn).expect("the log is well") {
                    engine.env().wait(&event);
                }
                return value;
            }
            NextValue::Wait(event) => engine.env().wait(&event),
        }
    }
}

#[test]
fn sequence_values_are_returned_at_most_once() {
    let env = SimEnv::new(11);
    let mut engine = open(&env);
    let mut txn = begin(&engine);
    let id = txn.next_number();
    let name = TableName::public("s");
    let (start, increment, min, max) = (1, 1, 1, i64::MAX);
    let sequence = model::SequenceSpec {
        id,
        name,
        ty: Type::Int8,
        start,
        increment,
        min,
        max,
        cache: 1,
        cycle: false,
        owner: None,
    };
    txn.create_sequence(Arc::new(sequence)).expect("create");
    let mut given = Vec::new();
    for _ in 0..3 {
        let NextValue::Value { value, .. } = txn.next_value(id).expect("own") else { panic!("own ones never wait") };
        given.push(value);
    }
    commit(&engine, txn);
    for round in 0..40 {
        for _ in 0..round {
            given.push(next(&engine, id));
        }
        let mut rolled_back = begin(&engine);
        let before = rolled_back.snapshot_newest().lsn();
        let NextValue::Value { value, lsn } = rolled_back.next_value(id).expect("next") else { panic!("waits") };
        assert!(rolled_back.rows().newest_seen() >= lsn);
        assert_eq!(rolled_back.rows().snapshot(), before, "a statement reads on where it did");
        if engine.when_durable(lsn).expect("the log is well").is_none() {
            given.push(value);
        }
        drop(rolled_back);
        if round % 3 == 0 {
            engine.flush().expect("flush");
        }
        if round % 2 == 0 {
            env.crash();
            drop(engine);
            engine = open(&env);
        }
    }
    assert!(given.is_sorted_by(|one, next| one < next), "{given:?}");
    assert_eq!(given[..3], [1, 2, 3]);
    assert!(given.last() < Some(&2_000), "few are skipped: {given:?}");
    let mut txn = begin(&engine);
    txn.drop_sequence(id).expect("drop");
    commit(&engine, txn);
    assert_eq!(engine.next_value(id).map(drop).map_err(state), Err(SqlState::UNDEFINED_TABLE));
}

/// With threads, because the race needs two commits at the same time.
#[test]
fn readers_never_see_half_a_commit_while_others_commit() {
    const PAIRS: i32 = 1_000;
    let dir = tempfile::tempdir().expect("folder");
    let engine = crate::open(dir.path());
    create(&engine, "t");
    put_rows(&engine, "t", (0..2 * PAIRS).map(|id| (id, 0)));
    let (stop, states) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut last = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let mut txn = begin(&engine);
                        let table = table(&mut txn, "t");
                        let guard = &crossbeam_epoch::pin();
                        let mut amounts = Vec::new();
                        for record in table.records.all() {
                            let row = txn.rows().read(&table, record, guard).expect("read").expect("a row");
                            amounts.push(number(table.layout.field(row, 1).expect("a field")).expect("a number"));
                        }
                        assert_eq!(amounts.iter().sum::<i64>(), 0, "{amounts:?}");
                        assert!(amounts.iter().all(|amount| amount.abs() == amounts[0].abs()), "{amounts:?}");
                        assert!(amounts[0] >= last, "back from {last} to {}", amounts[0]);
                        states.fetch_add(u64::from(amounts[0] > last), Ordering::Relaxed);
                        last = amounts[0];
                    }
                })
            })
            .collect();
        for round in 1..100_000 {
            if round > 150 && states.load(Ordering::Relaxed) > 20 {
                break;
            }
            let mut txn = begin(&engine);
            for id in 0..2 * PAIRS {
                let amount = if id % 2 == 0 { round } else { -round };
                assert!(matches!(set(&mut txn, "t", id, Some(amount)), Ok(Some(Put::Done(_)))));
            }
            engine.finish(txn.commit(Durability::Async)).expect("commit");
        }
        stop.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().expect("a reader"));
    });
    engine.close().expect("close");
}
