//! SERIALIZABLE in the engine: which commits are refused and which are not. Random histories are in
//! `histories`.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::{Altered, Durability, Engine, Isolation, Progress, RowData, Txn};
use env::sim::SimEnv;
use model::{Datum, Lsn, RowColumn, SqlState, TableName};
use rows::{Direction, LockMode, Locked, RowTable, WaitPolicy};

use crate::rows::{alter, create, done, insert, key, next_version, number, open, put_rows, set, table};
use crate::{begin, make, put};

fn serializable(engine: &Engine) -> Txn {
    engine.begin(Isolation::Serializable, Lsn::ZERO)
}

/// Reads an amount by the primary key.
fn get(txn: &mut Txn, name: &str, id: i32) -> Option<i64> {
    let table = table(txn, name);
    let guard = &crossbeam_epoch::pin();
    let found = txn.rows().get(&table, &key(&table, id), guard).expect("a row");
    found.map(|(_, row)| amount(&table, row))
}

fn amount(table: &RowTable, row: &[u8]) -> i64 {
    table.layout.field(row, 1).ok().and_then(number).expect("an amount")
}

/// Sums amounts over the keys `low` to `high`, by the primary key.
fn sum(txn: &mut Txn, name: &str, low: i32, high: i32) -> i64 {
    let table = table(txn, name);
    let primary = table.primary.as_ref().expect("a primary key");
    let (low, high) = (key(&table, low), key(&table, high));
    let (from, to) = (Bound::Included(low.as_slice()), Bound::Included(high.as_slice()));
    let guard = &crossbeam_epoch::pin();
    let mut sum = 0;
    primary.scan(from, to, Direction::Forward, guard, |_, record| {
        let row = txn.rows().read_walked(&table, record, guard).expect("a row");
        sum += row.map_or(0, |row| amount(&table, row));
        ControlFlow::Continue(())
    });
    txn.rows().note_range(&table, primary, from, to);
    sum
}

fn change(txn: &mut Txn, name: &str, id: i32, to: Option<i64>) {
    done(set(txn, name, id, to).map(|put| put.expect("a row")));
}

/// Commits; returns the detail of a 40001 refusal, if any.
fn refused(engine: &Engine, txn: Txn) -> Option<String> {
    let error = engine.finish(txn.commit(Durability::Sync)).err()?;
    assert_eq!(error.state(), SqlState::SERIALIZATION_FAILURE, "{error:?}");
    Some(error.detail().unwrap_or_default().to_owned())
}

fn engine() -> Engine {
    let engine = open(&SimEnv::new(1));
    create(&engine, "t");
    put_rows(&engine, "t", (0..20).map(|id| (id, 10)));
    engine
}

#[test]
fn write_skew_on_two_rows_refuses_the_second_commit() {
    for (isolation, expected) in [(Isolation::Serializable, true), (Isolation::RepeatableRead, false)] {
        let engine = engine();
        let (mut one, mut two) = (engine.begin(isolation, Lsn::ZERO), engine.begin(isolation, Lsn::ZERO));
        for txn in [&mut one, &mut two] {
            assert_eq!((get(txn, "t", 1), get(txn, "t", 2)), (Some(10), Some(10)));
        }
        change(&mut one, "t", 1, Some(11));
        change(&mut two, "t", 2, Some(21));
        assert_eq!(refused(&engine, one), None);
        let detail = refused(&engine, two);
        assert_eq!(detail.is_some(), expected, "{isolation:?}: {detail:?}");
        assert!(detail.is_none_or(|detail| detail.contains("relation \"t\" that this transaction read")));
    }
}

#[test]
fn two_inserts_into_a_range_both_read_refuse_the_second_commit() {
    let engine = engine();
    let (mut one, mut two) = (serializable(&engine), serializable(&engine));
    assert_eq!((sum(&mut one, "t", 100, 199), sum(&mut two, "t", 100, 199)), (0, 0));
    done(insert(&mut one, "t", 150, 1));
    done(insert(&mut two, "t", 151, 1));
    assert_eq!(refused(&engine, one), None);
    assert!(refused(&engine, two).is_some_and(|detail| detail.contains("t_pkey")));
}

#[test]
fn transactions_on_disjoint_ranges_do_not_conflict() {
    let engine = engine();
    let mut open: Vec<Txn> = (0..4).map(|_| serializable(&engine)).collect();
    for (at, txn) in (0..).zip(&mut open) {
        assert_eq!(sum(txn, "t", 5 * at, 5 * at + 4), 50);
        change(txn, "t", 5 * at, Some(0));
        done(insert(txn, "t", 1_000 + at, 1));
    }
    for txn in open {
        assert_eq!(refused(&engine, txn), None);
    }
}

/// Fekete, O'Neil and O'Neil, "A Read-Only Transaction Anomaly Under Snapshot Isolation", SIGMOD
/// Record 2004: checking and savings accounts. A read-only transaction sees the deposit and not the
/// fee, so the withdrawal must come after it; but the withdrawal charged a fee for an overdraft
/// that the deposit had prevented.
#[test]
fn read_only_anomaly_is_prevented() {
    const SAVINGS: i32 = 1;
    const CHECKING: i32 = 2;
    for (isolation, expected) in [(Isolation::Serializable, true), (Isolation::RepeatableRead, false)] {
        let engine = open(&SimEnv::new(1));
        create(&engine, "t");
        put_rows(&engine, "t", [(SAVINGS, 0), (CHECKING, 0)]);
        let mut withdrawal = engine.begin(isolation, Lsn::ZERO);
        let both = get(&mut withdrawal, "t", SAVINGS).unwrap() + get(&mut withdrawal, "t", CHECKING).unwrap();
        let mut deposit = engine.begin(isolation, Lsn::ZERO);
        assert_eq!(get(&mut deposit, "t", SAVINGS), Some(0));
        change(&mut deposit, "t", SAVINGS, Some(20));
        assert_eq!(refused(&engine, deposit), None);
        let mut reader = engine.begin(isolation, Lsn::ZERO);
        assert_eq!((get(&mut reader, "t", SAVINGS), get(&mut reader, "t", CHECKING)), (Some(20), Some(0)));
        assert_eq!(refused(&engine, reader), None, "readers are not refused");
        let fee = i64::from(both < 10);
        change(&mut withdrawal, "t", CHECKING, Some(-10 - fee));
        assert_eq!(refused(&engine, withdrawal).is_some(), expected, "{isolation:?}");
    }
}

#[test]
fn altering_truncating_or_dropping_a_table_that_was_read_refuses_the_commit() {
    type Alteration = fn(&mut Txn);
    let all: [(&str, Alteration); 3] = [
        ("altered", |txn| {
            let table = table(txn, "t");
            alter(txn, next_version(&table), RowData::Keep);
        }),
        ("emptied", |txn| {
            let table = table(txn, "t");
            alter(txn, next_version(&table), RowData::Discard);
        }),
        ("dropped", |txn| {
            let id = table(txn, "t").id();
            assert!(matches!(txn.drop_row_table(id), Ok(Altered::Done(()))));
        }),
    ];
    for (what, change) in all {
        for reads in [true, false] {
            let engine = engine();
            create(&engine, "other");
            let mut txn = serializable(&engine);
            if reads {
                // A read that found no row counts too.
                assert_eq!(get(&mut txn, "t", 500), None);
            } else {
                assert_eq!(get(&mut txn, "other", 500), None);
            }
            let mut other = begin(&engine);
            change(&mut other);
            assert_eq!(refused(&engine, other), None);
            done(insert(&mut txn, "other", 1, 1));
            let detail = refused(&engine, txn);
            assert_eq!(detail.is_some(), reads, "{what}: {detail:?}");
            assert!(detail.is_none_or(|detail| detail.contains("altered or truncated relation \"t\"")));
        }
    }
}

#[test]
fn rows_rewritten_after_add_column_can_be_validated() {
    let engine = engine();
    create(&engine, "other");
    let mut txn = serializable(&engine);
    assert_eq!(sum(&mut txn, "t", 100, 200), 0);
    for step in 0..3 {
        let mut other = begin(&engine);
        let seen = table(&mut other, "t");
        let guard = &crossbeam_epoch::pin();
        if step == 1 {
            let mut next = next_version(&seen);
            next.columns.push(RowColumn::new("more", next.columns[1].ty));
            alter(&mut other, next, RowData::Keep);
        } else {
            let rows = other.rows();
            let (record, old) = rows.get(&seen, &key(&seen, 5), guard).expect("read").expect("a row");
            let mut row = Vec::new();
            let values: Vec<Datum<'_>> = (1..seen.layout.columns()).map(|_| Datum::Int8(step)).collect();
            let changes: Vec<(usize, Datum<'_>)> = (1..).zip(values).collect();
            seen.layout.change(old, &changes, &mut row).expect("a row");
            assert!(matches!(
                rows.lock_row(&seen, record, LockMode::NoKeyUpdate, WaitPolicy::Wait, guard),
                Ok(Locked::Row { .. })
            ));
            done(rows.update(&seen, record, row.into(), guard));
        }
        assert_eq!(refused(&engine, other), None);
    }
    // The first change of the row no longer matters; its newest version has one field more than the
    // table had.
    done(insert(&mut txn, "other", 1, 1));
    let detail = refused(&engine, txn);
    assert!(detail.is_some_and(|detail| detail.contains("altered or truncated relation \"t\"")));
}

#[test]
fn truncating_an_own_table_is_no_conflict() {
    let engine = engine();
    let mut txn = serializable(&engine);
    assert_eq!(sum(&mut txn, "t", 0, 19), 200);
    let old = table(&mut txn, "t");
    alter(&mut txn, next_version(&old), RowData::Discard);
    done(insert(&mut txn, "t", 1, 1));
    assert_eq!((sum(&mut txn, "t", 0, 19), get(&mut txn, "t", 2)), (1, None));
    assert_eq!(refused(&engine, txn), None);
}

/// A transaction that writes only to `columns` tables or DDL is validated too.
#[test]
fn reads_are_validated_even_if_only_columns_tables_are_written() {
    for reads in [true, false] {
        let engine = engine();
        make(&engine, "m");
        let mut txn = serializable(&engine);
        if reads {
            assert_eq!(get(&mut txn, "t", 1), Some(10));
        }
        let mut other = begin(&engine);
        change(&mut other, "t", 1, Some(11));
        assert_eq!(refused(&engine, other), None);
        put(&mut txn, "m", &[("a", 1, 1.0)]).expect("write");
        assert_eq!(refused(&engine, txn).is_some(), reads);
    }
}

#[test]
fn the_snapshot_is_the_newest_commit_for_both_stores() {
    let env = SimEnv::new(3);
    let engine = open(&env);
    create(&engine, "t");
    put_rows(&engine, "t", [(1, 10)]);
    let mut writer = begin(&engine);
    change(&mut writer, "t", 1, Some(11));
    let Ok(Progress::Done(lsn)) = writer.commit(Durability::Async).poll() else { panic!("async waits") };
    let mut txn = serializable(&engine);
    assert_eq!(txn.snapshot().lsn(), lsn, "also for columns tables, and though it is not durable");
    assert_eq!(get(&mut txn, "t", 1), Some(11));
    change(&mut txn, "t", 1, Some(12));
    assert_eq!(refused(&engine, txn), None);
}

/// Garbage collection respects the snapshot of a committing transaction until its reads are
/// validated.
#[test]
fn old_versions_are_collected_after_the_commit() {
    let env = SimEnv::new(4);
    let engine = open(&env);
    create(&engine, "t");
    put_rows(&engine, "t", (0..100).map(|id| (id, 1)));
    let mut txn = serializable(&engine);
    assert_eq!(sum(&mut txn, "t", 0, 9), 10);
    for round in 0..3 {
        let mut other = begin(&engine);
        (10..100).for_each(|id| change(&mut other, "t", id, Some(round)));
        assert_eq!(refused(&engine, other), None);
    }
    assert!(engine.stats().rows_garbage >= 270, "the snapshot is held");
    change(&mut txn, "t", 1, Some(2));
    let mut committing = txn.commit(Durability::Async);
    assert!(matches!(committing.poll(), Ok(Progress::Done(_))));
    env.advance(20_000_000_000);
    env.run_until_idle();
    let left = engine.stats().rows_garbage;
    assert!(left < 10, "{left} invisible versions are left");
    drop(committing);
}

/// The old version of a deleted row decides whether it was in a range that was read.
#[test]
fn versions_are_kept_until_they_are_validated() {
    let env = SimEnv::new(5);
    let engine = open(&env);
    create(&engine, "t");
    put_rows(&engine, "t", (0..10).map(|id| (id, 1)));
    let mut txn = serializable(&engine);
    assert_eq!(sum(&mut txn, "t", 0, 9), 10);
    done(insert(&mut txn, "t", 100, 10));
    let mut other = begin(&engine);
    change(&mut other, "t", 5, None);
    assert_eq!(refused(&engine, other), None);
    let mut committing = txn.commit(Durability::Async);
    for id in 200..300 {
        put_rows(&engine, "t", [(id, 1)]);
    }
    env.advance(20_000_000_000);
    env.run_until_idle();
    let error = committing.poll().expect_err("a row of the range went");
    assert_eq!(error.state(), SqlState::SERIALIZATION_FAILURE);
}

/// REPEATABLE READ and READ COMMITTED transactions are not refused; the conflicting serializable
/// one is.
#[test]
fn writes_at_weaker_isolation_levels_conflict_too() {
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
        let engine = engine();
        let mut txn = serializable(&engine);
        assert_eq!(get(&mut txn, "t", 1), Some(10));
        let mut other = engine.begin(isolation, Lsn::ZERO);
        assert_eq!(get(&mut other, "t", 2), Some(10));
        change(&mut other, "t", 1, Some(11));
        change(&mut txn, "t", 2, Some(21));
        assert_eq!(refused(&engine, other), None);
        assert!(refused(&engine, txn).is_some(), "{isolation:?}");
    }
}

/// A scan on another thread reports its reads to the transaction through the view that it uses.
#[test]
fn reads_on_other_threads_are_validated() {
    let engine = engine();
    let mut txn = serializable(&engine);
    let table = table(&mut txn, "t");
    let view = txn.rows().view();
    let scanned = Arc::clone(&table);
    let sum = std::thread::spawn(move || {
        view.note_table(&scanned);
        let guard = &crossbeam_epoch::pin();
        let rows = scanned.records.all().filter_map(|record| view.row(&scanned, record, guard));
        rows.map(|row| amount(&scanned, row)).sum::<i64>()
    });
    assert_eq!(sum.join().expect("a sum"), 200);
    put_rows(&engine, "t", [(77, 1)]);
    done(insert(&mut txn, "t", 1_000, 200));
    assert!(refused(&engine, txn).is_some_and(|detail| detail.contains("read as a whole")));
}

/// The snapshot's catalog still has a table that was dropped meanwhile.
#[test]
fn a_snapshot_still_shows_a_table_dropped_later() {
    let engine = engine();
    let mut txn = serializable(&engine);
    assert_eq!(sum(&mut txn, "t", 0, 19), 200);
    let mut other = begin(&engine);
    let id = table(&mut other, "t").id();
    assert!(matches!(other.drop_row_table(id), Ok(Altered::Done(()))));
    assert_eq!(refused(&engine, other), None);
    assert_eq!(sum(&mut txn, "t", 0, 19), 200);
    assert!(txn.snapshot().row_table(&TableName::public("t")).is_ok());
    assert_eq!(refused(&engine, txn), None, "who only reads is not refused");
}

/// One transaction commits while the other starts. With threads, because the race needs both at the
/// same time.
#[test]
fn a_concurrent_commit_is_in_the_snapshot_or_validated() {
    const ROUNDS: u64 = 4_000;
    let dir = tempfile::tempdir().expect("folder");
    let engine = crate::open(dir.path());
    create(&engine, "t");
    put_rows(&engine, "t", [(1, 0), (2, 0)]);
    let (round, committed) = (AtomicU64::new(0), AtomicU64::new(0));
    let wait_for = |what: &AtomicU64, number| {
        while what.load(Ordering::Acquire) < number {
            std::hint::spin_loop();
            std::thread::yield_now();
        }
    };
    let (mut before, mut after, mut wrong) = (0, 0, Vec::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..=ROUNDS {
                wait_for(&round, number);
                let mut txn = begin(&engine);
                change(&mut txn, "t", 1, Some(number.cast_signed()));
                engine.finish(txn.commit(Durability::Async)).expect("commit");
                committed.store(number, Ordering::Release);
            }
        });
        for number in 1..=ROUNDS {
            // Some start before the other has done anything, and some after it has finished,
            // however threads are scheduled.
            let early = (number % 8 == 0).then(|| {
                let mut txn = serializable(&engine);
                get(&mut txn, "t", 1);
                txn
            });
            round.store(number, Ordering::Release);
            if number % 8 == 1 {
                wait_for(&committed, number);
            }
            // A commit takes some microseconds; the varying delay reaches each of its stages.
            (0..number % 400 * 10).for_each(|_| std::hint::spin_loop());
            let mut txn = early.unwrap_or_else(|| serializable(&engine));
            let is_in = get(&mut txn, "t", 1) == Some(number.cast_signed());
            wait_for(&committed, number);
            change(&mut txn, "t", 2, Some(number.cast_signed()));
            let refused = engine.finish(txn.commit(Durability::Async)).is_err();
            if refused == is_in {
                wrong.push(number);
            }
            *(if is_in { &mut before } else { &mut after }) += 1;
        }
    });
    assert!(wrong.is_empty(), "rounds {wrong:?}");
    assert!(before > 0 && after > 0, "{before} before, {after} after");
    engine.close().expect("close");
}
