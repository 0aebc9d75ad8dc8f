//! Constraints of `columns` tables between transactions: rows are checked against one version of a table, and committed to
//! another one.

use model::{ColumnRule, RowCheck, Table, TableRules};

use super::*;

/// Installs the next version of table `t`.
fn alter(txn: &mut Txn, change: impl FnOnce(&mut Table, &mut TableRules)) -> Result<()> {
    let table = txn.snapshot().catalog().expect(&TableName::public("t"))?.clone();
    let mut next = Table { version: table.version + 1, ..(*table).clone() };
    let mut rules = TableRules::clone(&table.rules);
    change(&mut next, &mut rules);
    next.rules = Arc::new(rules);
    txn.alter_table(next).map(|_| ())
}

fn check(name: &str) -> RowCheck {
    RowCheck { name: name.into(), condition: "v > 0".into(), not_valid: true }
}

/// Changes of the table by a transaction of its own.
type Change<'c> = &'c dyn Fn(&mut Table, &mut TableRules);

fn altered(engine: &Engine, change: Change<'_>) {
    let mut txn = begin(engine);
    alter(&mut txn, |table, rules| change(table, rules)).expect("alter");
    engine.finish(txn.commit(Durability::Sync)).expect("commit");
}

#[test]
fn rows_that_were_not_checked_by_a_new_constraint_are_refused() {
    let cases: [(&str, Change<'_>, bool); 6] = [
        (
            "a default",
            &|_, rules| {
                rules.columns.push(ColumnRule { id: ColumnId(2), default: Some("1".into()), declared: None });
            },
            true,
        ),
        ("another name", &|table, _| table.columns[2].name = "w".into(), true),
        ("NOT NULL", &|table, _| table.columns[2].nullable = false, false),
        ("a check", &|_, rules| rules.checks.push(check("c")), false),
        (
            "a column with a default",
            &|table, rules| {
                let id = table.next_column_id;
                table.next_column_id.0 += 1;
                table.columns.push(model::Column { id, name: "n".into(), ..table.columns[2].clone() });
                rules.columns.push(ColumnRule { id, default: Some("1".into()), declared: None });
            },
            false,
        ),
        (
            "another type",
            &|table, _| {
                table.columns[2].id = table.next_column_id;
                table.next_column_id.0 += 1;
            },
            false,
        ),
    ];
    for (what, change, is_accepted) in cases {
        let dir = tempfile::tempdir().expect("directory");
        let engine = open(dir.path());
        make(&engine, "t");
        let (mut early, mut late) = (begin(&engine), begin(&engine));
        let before = early.snapshot().catalog().expect(&TableName::public("t")).expect("table").clone();
        early.write_checked(&before, batch(&[("a", 1, 1.0)])).expect("write");
        altered(&engine, change);
        let state = |result: Result<Lsn>| result.map_err(|error| error.state());
        let committed = state(engine.finish(early.commit(Durability::Sync)));
        assert_eq!(committed.is_ok(), is_accepted, "{what}: {committed:?}");
        let written = late.write_checked(&before, batch(&[("a", 1, 1.0)])).map_err(|error| error.state());
        if what != "another type" {
            let expected = if is_accepted { Ok(()) } else { Err(SqlState::SERIALIZATION_FAILURE) };
            assert_eq!(written, expected, "{what}");
        }
    }
}

#[test]
fn rows_that_others_commit_while_a_constraint_is_validated_refuse_it() {
    let dir = tempfile::tempdir().expect("directory");
    let engine = open(dir.path());
    make(&engine, "t");
    commit(&engine, "t", &[("a", 1, 1.0)]).expect("commit");
    for others in [false, true] {
        let mut txn = begin(&engine);
        let read = txn.snapshot().lsn();
        let id = txn.snapshot().catalog().expect(&TableName::public("t")).expect("table").id;
        alter(&mut txn, |_, rules| rules.checks = vec![check(if others { "d" } else { "c" })]).expect("alter");
        txn.note_validated(id, read);
        put(&mut txn, "t", &[("a", 2, 2.0)]).expect("own rows");
        if others {
            commit(&engine, "t", &[("a", 3, -1.0)]).expect("commit");
        }
        let result = engine.finish(txn.commit(Durability::Sync)).map(|_| ()).map_err(|error| error.state());
        assert_eq!(result, if others { Err(SqlState::SERIALIZATION_FAILURE) } else { Ok(()) });
    }
    drop(engine);
    let engine = open(dir.path());
    let snapshot = engine.snapshot(Lsn::ZERO);
    let table = snapshot.catalog().expect(&TableName::public("t")).expect("table");
    assert_eq!(table.rules.checks, [check("c")]);
}

/// Bug: rows that a condition was computed for with one column were stored when another column had got its name.
#[test]
fn a_condition_holds_for_the_columns_whose_names_it_has() {
    let dir = tempfile::tempdir().expect("directory");
    let engine = open(dir.path());
    make(&engine, "t");
    altered(&engine, &|_, rules| rules.checks.push(check("c")));
    let mut txn = begin(&engine);
    put(&mut txn, "t", &[("a", 1, 1.0)]).expect("write");
    altered(&engine, &|table, _| table.columns[2].name = "w".into());
    let error = engine.finish(txn.commit(Durability::Sync)).expect_err("another column");
    assert_eq!(error.state(), SqlState::SERIALIZATION_FAILURE);
}

/// Bug: an ALTER TABLE that writes all rows again brought rows back that others had deleted meanwhile.
#[test]
fn rows_that_others_delete_while_all_are_written_again_refuse_it() {
    let dir = tempfile::tempdir().expect("directory");
    let engine = open(dir.path());
    make(&engine, "t");
    for times in [TimeRange::ALL, TimeRange { start: 1, last: 1 }] {
        commit(&engine, "t", &[("a", 1, 1.0), ("b", 1, 1.0)]).expect("commit");
        let mut txn = begin(&engine);
        let read = txn.snapshot().lsn();
        let id = txn.snapshot().catalog().expect(&TableName::public("t")).expect("table").id;
        put(&mut txn, "t", &[("a", 1, 2.0), ("b", 1, 2.0)]).expect("write again");
        txn.note_validated(id, read);
        let mut other = begin(&engine);
        let view = other.snapshot().table(&TableName::public("t")).expect("table");
        other.delete(&view, None, times).expect("delete");
        engine.finish(other.commit(Durability::Sync)).expect("commit");
        let error = engine.finish(txn.commit(Durability::Sync)).expect_err("rows are gone");
        assert_eq!(error.state(), SqlState::SERIALIZATION_FAILURE);
    }
}

#[test]
fn own_rows_are_checked_against_a_version_that_another_transaction_made() {
    let dir = tempfile::tempdir().expect("directory");
    let engine = open(dir.path());
    make(&engine, "t");
    let mut txn = begin(&engine);
    put(&mut txn, "t", &[("a", 1, -1.0)]).expect("write");
    altered(&engine, &|_, rules| rules.checks.push(check("c")));
    let error = alter(&mut txn, |table, _| table.columns[2].name = "w".into()).expect_err("not checked");
    assert_eq!(error.state(), SqlState::SERIALIZATION_FAILURE);
    let mut txn = begin(&engine);
    put(&mut txn, "t", &[("a", 1, 1.0)]).expect("write");
    let savepoint = txn.savepoint();
    alter(&mut txn, |_, rules| rules.checks.push(check("d"))).expect("alter");
    txn.roll_back_to(&savepoint).expect("roll back");
    engine.finish(txn.commit(Durability::Sync)).expect("commit");
}
