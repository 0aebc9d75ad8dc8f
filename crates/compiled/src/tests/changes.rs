//! INSERT, UPDATE and DELETE; their errors; two transactions at once.

use std::sync::Arc;

use model::{Datum, Part, SqlState};
use rows::Isolation;

use super::{Db, Outcome, state};
use crate::Tables;
use crate::constraints::Checks;

fn accounts() -> Db {
    let db = Db::new();
    db.create(
        "t",
        &[
            "id int",
            "name varchar(8) not null default 'none'",
            "code char(4)",
            "balance numeric(8,2) default 0",
            "note text",
        ],
        &["primary id", "unique code", "index name", "check balance >= 0"],
    );
    db.sql(
        "INSERT INTO t (id, name, code, balance) VALUES (1, 'ann', 'a', 10), (2, 'bob', 'b', 20.5), (3, 'cy', NULL, 3)",
    );
    db
}

#[test]
fn inserts_use_defaults_and_returning() {
    accounts().check(&[
        ("INSERT INTO t (id) VALUES (4) RETURNING *", "4|none|null|0.00|null"),
        ("INSERT INTO t VALUES (5, DEFAULT, 'e', DEFAULT, 'x'), (6, 'f', 'f', 1.005, NULL) RETURNING id, balance + 1 AS more", "5|1.00\n6|2.01"),
        ("SELECT name, code, balance FROM t WHERE id = 5", "none|e   |0.00"),
        ("INSERT INTO t (name, id) SELECT name || '2', id + 10 FROM t WHERE id < 3 RETURNING id, name", "11|ann2\n12|bob2"),
        ("SELECT count(*) FROM t", "8"),
        ("INSERT INTO t (id, note) VALUES (7, now()) RETURNING note", "2026-11-21 13:00:00+01"),
        // INSERT … SELECT does not read the rows it inserts.
        ("INSERT INTO t (id) SELECT id + 100 FROM t WHERE id >= 1 AND id < 4 RETURNING id", "101\n102\n103"),
    ]);
}

#[test]
fn updates_find_rows_by_index_and_change_them_once() {
    let db = accounts();
    db.check(&[
        ("UPDATE t SET balance = balance - 1.5 WHERE id = 2 RETURNING id, balance", "2|19.00"),
        ("UPDATE t SET name = 'zed', note = name || '!' WHERE name = 'ann' RETURNING name, note", "zed|ann!"),
        ("SELECT id FROM t WHERE name = 'ann'", ""),
        ("SELECT id FROM t WHERE name = 'zed'", "1"),
        ("UPDATE t SET code = 'q' WHERE id = 3 RETURNING code", "q   "),
        ("UPDATE t SET id = 30, balance = DEFAULT WHERE id = 3 RETURNING id, balance", "30|0.00"),
        ("SELECT id FROM t ORDER BY id", "1\n2\n30"),
        ("UPDATE t SET balance = balance + 1.333::float8 WHERE (id, name) IN ((1, 'zed'), (2, 'x')) RETURNING balance", "11.33"),
        ("UPDATE t SET balance = 0 WHERE id = 99", ""),
    ]);
    db.create("u", &["id int", "plus int"], &["primary id"]);
    db.sql("INSERT INTO u VALUES (1, 100), (2, 200)");
    assert_eq!(
        db.sql("UPDATE t SET balance = u.plus FROM u WHERE u.id = t.id AND t.id = 2 RETURNING t.balance, plus"),
        ["200.00|200"]
    );
    assert_eq!(db.try_sql("UPDATE t SET balance = 5", &[]).unwrap().1, 3);
}

/// A statement must not see a row again that it moved forward in the index it scans.
#[test]
fn an_update_of_its_own_index_ends() {
    let db = Db::new();
    db.create("n", &["id int", "rank int"], &["primary id", "index rank"]);
    db.sql("INSERT INTO n VALUES (1, 1), (2, 2), (3, 3)");
    assert_eq!(db.try_sql("UPDATE n SET rank = rank + 1 WHERE rank >= 1", &[]).unwrap().1, 3);
    db.check(&[("SELECT id, rank FROM n WHERE rank > 0 ORDER BY rank", "1|2\n2|3\n3|4")]);
}

#[test]
fn deletes_return_the_deleted_rows() {
    let db = accounts();
    db.check(&[
        ("DELETE FROM t WHERE (id, name) IN ((1, 'ann'), (2, 'ann')) RETURNING id, name", "1|ann"),
        ("SELECT id FROM t ORDER BY id", "2\n3"),
        ("INSERT INTO t (id, name, code) VALUES (1, 'new', 'a') RETURNING code", "a   "),
    ]);
    assert_eq!(db.try_sql("DELETE FROM t WHERE balance < 5", &[]).unwrap().1, 2);
    assert_eq!(db.try_sql("DELETE FROM t", &[]).unwrap().1, 1);
    assert_eq!(db.sql("SELECT count(*) FROM t"), ["0"]);
}

#[test]
fn violations_are_reported_as_in_postgresql() {
    let db = accounts();
    for (sql, expected) in [
        (
            "INSERT INTO t (id) VALUES (1)",
            "23505 duplicate key value violates unique constraint \"t_pkey\" (Key (id)=(1) already exists.)",
        ),
        (
            "INSERT INTO t (id, code) VALUES (9, 'a')",
            "23505 duplicate key value violates unique constraint \"t_code_key\" (Key (code)=(a   ) already exists.)",
        ),
        (
            "UPDATE t SET id = 2 WHERE id = 1",
            "23505 duplicate key value violates unique constraint \"t_pkey\" (Key (id)=(2) already exists.)",
        ),
        (
            "UPDATE t SET code = 'a' WHERE id = 2",
            "23505 duplicate key value violates unique constraint \"t_code_key\" (Key (code)=(a   ) already exists.)",
        ),
        (
            "INSERT INTO t (id, name) VALUES (9, NULL)",
            "23502 null value in column \"name\" of relation \"t\" violates not-null constraint (Failing row contains (9, null, null, 0.00, null).)",
        ),
        (
            "UPDATE t SET balance = balance - 100 WHERE id = 1",
            "23514 new row for relation \"t\" violates check constraint \"t_check\" (Failing row contains (1, ann, a   , -90.00, null).)",
        ),
        ("INSERT INTO t (id, name) VALUES (9, 'far too long')", "22001 value too long for type character varying(8)"),
        (
            "INSERT INTO t (id, balance) VALUES (9, true)",
            "42804 column \"balance\" is of type numeric but expression is of type boolean",
        ),
        ("INSERT INTO t (id) VALUES (1, 2)", "42601 INSERT has more expressions than target columns"),
        ("INSERT INTO t (id, name) VALUES (1)", "42601 INSERT has more target columns than expressions"),
        ("INSERT INTO t (ident) VALUES (1)", "42703 column \"ident\" of relation \"t\" does not exist"),
        ("UPDATE t SET ident = 1", "42703 column \"ident\" of relation \"t\" does not exist"),
        ("UPDATE t SET id = 1, id = 2", "42601 multiple assignments to same column \"id\""),
    ] {
        assert_eq!(db.error(sql), expected, "{sql}");
    }
    // Programs read the fields for table, column and constraint, not the message.
    for (sql, expected) in [
        ("INSERT INTO t (id, code) VALUES (9, 'a')", Part::Constraint("t_code_key".into())),
        ("INSERT INTO t (id, name) VALUES (9, NULL)", Part::Column("name".into())),
        ("UPDATE t SET balance = -1 WHERE id = 1", Part::Constraint("t_check".into())),
    ] {
        let error = db.try_sql(sql, &[]).unwrap_err();
        let about = error.subject().map(|subject| (subject.table.table.as_str(), &subject.part));
        assert_eq!(about, Some(("t", &expected)), "{sql}");
    }
    // A statement that fails after its first row changes nothing.
    assert!(db.error("INSERT INTO t (id) VALUES (50), (51), (1)").starts_with("23505"));
    db.check(&[
        ("SELECT id FROM t ORDER BY id", "1\n2\n3"),
        ("UPDATE t SET balance = NULL WHERE id = 3 RETURNING balance", "null"),
    ]);
}

#[test]
fn plans_share_the_checks_of_a_table() {
    let db = Db::new();
    let numbers: Vec<String> = (0..50_000).map(|number| number.to_string()).collect();
    db.ddl(&format!("CREATE TABLE t (a int CHECK (a IN ({})), b text CHECK (lower(b) <> 'x'))", numbers.join(",")));
    db.ddl("CREATE TABLE by_zone (at timestamptz CHECK (at > '2026-01-01'))");
    let checks = |sql: &str, table: &str| {
        let compiled = db.plan(sql).unwrap();
        let checks = db.table(None, table).unwrap().derived.get::<Checks>();
        (compiled.needs_facts(), checks.map(|checks| Arc::as_ptr(&checks)))
    };
    let first = checks("INSERT INTO t (a) VALUES (1)", "t");
    assert!(first.0 && first.1.is_some());
    assert_eq!(first, checks("UPDATE t SET a = 2", "t"));
    assert_eq!(checks("INSERT INTO by_zone VALUES (now())", "by_zone").1, None);
    assert!(db.error("INSERT INTO t VALUES (50000)").starts_with("23514"));
    assert!(db.error("INSERT INTO t VALUES (1, 'X')").starts_with("23514"));
    assert!(db.error("INSERT INTO by_zone VALUES ('2025-01-01')").starts_with("23514"));
    db.sql("INSERT INTO t VALUES (49999, 'y')");
}

/// Other answers about constants are in `golden_constants.txt`.
#[test]
fn errors_come_before_the_numbers_of_sequences() {
    let db = Db::new();
    db.ddl("CREATE TABLE u (i serial PRIMARY KEY, v varchar(3), n int2)");
    for (sql, param, expected) in [
        ("INSERT INTO u (v) VALUES ($1)", Datum::Text("long"), "22001"),
        ("INSERT INTO u (n) VALUES ($1::int4)", Datum::Int4(40_000), "22003"),
        ("INSERT INTO u (i, n) VALUES (nextval('u_i_seq') + 1, 1 / $1)", Datum::Int4(0), "22012"),
        ("INSERT INTO u (v, n) VALUES ($1, 40000)", Datum::Text("fit"), "22003"),
    ] {
        // The statement can be prepared and described.
        assert!(db.plan(sql).is_ok(), "{sql}");
        assert_eq!(db.try_sql(sql, &[param]).unwrap_err().state().0, expected, "{sql}");
    }
    db.check(&[("INSERT INTO u (v) VALUES ('fit') RETURNING i", "1")]);
}

#[test]
fn conflicts_do_nothing_or_update() {
    let db = accounts();
    db.check(&[
        ("INSERT INTO t (id) VALUES (1), (4) ON CONFLICT DO NOTHING RETURNING id", "4"),
        ("INSERT INTO t (id) VALUES (1) ON CONFLICT (id) DO NOTHING RETURNING id", ""),
        (
            "INSERT INTO t (id, balance) VALUES (1, 7), (5, 8) ON CONFLICT (id) DO UPDATE
             SET balance = t.balance + excluded.balance, note = 'again' RETURNING id, balance, note",
            "1|17.00|again\n5|8.00|null",
        ),
        (
            "INSERT INTO t (id, code) VALUES (77, 'b') ON CONFLICT (code) DO UPDATE SET name = excluded.code || 'x' RETURNING id, name",
            "2|bx",
        ),
        (
            "INSERT INTO t AS x (id) VALUES (1) ON CONFLICT ON CONSTRAINT t_pkey DO UPDATE SET note = 'no' WHERE x.balance > 100 RETURNING id",
            "",
        ),
    ]);
    assert!(db.error("INSERT INTO t (id, code) VALUES (77, 'b') ON CONFLICT (id) DO NOTHING").starts_with("23505"));
    assert!(db.error("INSERT INTO t (id) VALUES (1) ON CONFLICT (name) DO NOTHING").starts_with("42P10"));
    assert_eq!(
        db.error("INSERT INTO t (id) VALUES (60), (60) ON CONFLICT (id) DO UPDATE SET note = 'x'"),
        "21000 ON CONFLICT DO UPDATE command cannot affect row a second time"
    );
}

#[test]
fn a_second_writer_waits_and_rechecks_the_row() {
    let db = accounts();
    let mut first = db.begin(Isolation::ReadCommitted);
    let mut second = db.begin(Isolation::ReadCommitted);
    let sql = "UPDATE t SET balance = balance + 1 WHERE name = 'ann'";
    assert!(matches!(db.run(&mut first, sql, &[]).unwrap(), Outcome::Rows(_, 1)));
    let Outcome::Wait(event) = db.run(&mut second, sql, &[]).unwrap() else { panic!("it does not wait") };
    assert!(!event.is_set());
    db.commit(first);
    assert!(event.is_set());
    assert!(matches!(db.run(&mut second, sql, &[]).unwrap(), Outcome::Rows(_, 1)));
    db.commit(second);
    assert_eq!(db.sql("SELECT balance FROM t WHERE id = 1"), ["12.00"]);
}

#[test]
fn a_second_writer_skips_a_row_that_no_longer_matches() {
    let db = accounts();
    let mut first = db.begin(Isolation::ReadCommitted);
    let mut second = db.begin(Isolation::ReadCommitted);
    let mut third = db.begin(Isolation::RepeatableRead);
    db.run(&mut first, "UPDATE t SET name = 'eve' WHERE id = 1", &[]).unwrap();
    let sql = "DELETE FROM t WHERE name = 'ann'";
    assert!(matches!(db.run(&mut second, sql, &[]).unwrap(), Outcome::Wait(_)));
    db.commit(first);
    assert!(matches!(db.run(&mut second, sql, &[]).unwrap(), Outcome::Rows(_, 0)));
    drop(second);
    assert_eq!(state(db.run(&mut third, sql, &[])), SqlState::SERIALIZATION_FAILURE);
}

#[test]
fn a_waiting_statement_has_no_effect() {
    let db = accounts();
    let mut first = db.begin(Isolation::ReadCommitted);
    let mut second = db.begin(Isolation::ReadCommitted);
    db.run(&mut first, "INSERT INTO t (id) VALUES (51)", &[]).unwrap();
    let sql = "INSERT INTO t (id) VALUES (50), (51)";
    assert!(matches!(db.run(&mut second, sql, &[]).unwrap(), Outcome::Wait(_)));
    assert_eq!(db.run(&mut second, "SELECT id FROM t WHERE id = 50", &[]).unwrap().rows(), [""; 0]);
    drop(first);
    assert!(matches!(db.run(&mut second, sql, &[]).unwrap(), Outcome::Rows(_, 2)));
}

/// Parents; children with an index on wider integer types; employees that reference their manager in the same
/// table.
fn family() -> Db {
    let db = Db::new();
    db.create("parent", &["a int", "b int", "code text"], &["primary a, b", "unique code"]);
    db.create(
        "child",
        &["id int", "a bigint", "b int", "code text"],
        &["primary id", "index b, a", "references a, b to parent(a, b)"],
    );
    db.create("tag", &["id int", "code text"], &["primary id", "references code to parent(code)"]);
    db.create("staff", &["id int", "boss int"], &["primary id", "references boss to staff(id)"]);
    db.sql("INSERT INTO parent VALUES (1, 1, 'x'), (1, 2, 'y'), (2, 1, 'z')");
    db.sql("INSERT INTO child VALUES (1, 1, 1), (2, NULL, 7), (3, 1, 2)");
    db.sql("INSERT INTO tag VALUES (1, 'z'), (2, NULL)");
    db
}

#[test]
fn a_referenced_row_must_exist() {
    let db = family();
    let missing = "23503 insert or update on table \"child\" violates foreign key constraint \"child_fkey\"";
    assert_eq!(
        db.error("INSERT INTO child VALUES (9, 2, 2)"),
        format!("{missing} (Key (a, b)=(2, 2) is not present in table \"parent\".)")
    );
    let error = db.try_sql("INSERT INTO child VALUES (9, 2, 2)", &[]).unwrap_err();
    let about = error.subject().map(|subject| (subject.table.table.as_str(), subject.part.clone()));
    assert_eq!(about, Some(("child", Part::Constraint("child_fkey".into()))));
    assert_eq!(
        db.error("UPDATE child SET b = 5000000 WHERE id = 1"),
        format!("{missing} (Key (a, b)=(1, 5000000) is not present in table \"parent\".)")
    );
    assert!(db.error("INSERT INTO child VALUES (9, 5000000000, 1)").starts_with("23503"));
    assert!(db.error("UPDATE tag SET code = 'q'").starts_with("23503"));
    db.sql("UPDATE child SET a = NULL WHERE id = 3");
    db.sql("UPDATE child SET id = 30 WHERE id = 3");
    // A row may reference a later row of the statement, or itself.
    db.sql("INSERT INTO staff VALUES (2, 1), (1, 1)");
    assert!(db.error("INSERT INTO staff VALUES (3, 4)").starts_with("23503"));
}

#[test]
fn a_referenced_row_is_not_deleted() {
    let db = family();
    let kept = "23503 update or delete on table \"parent\" violates foreign key constraint";
    assert_eq!(
        db.error("DELETE FROM parent WHERE a = 1 AND b = 1"),
        format!(
            "{kept} \"child_fkey\" on table \"child\" (Key (a, b)=(1, 1) is still referenced from table \"child\".)"
        )
    );
    assert_eq!(
        db.error("UPDATE parent SET code = 'w' WHERE code = 'z'"),
        format!("{kept} \"tag_fkey\" on table \"tag\" (Key (code)=(z) is still referenced from table \"tag\".)")
    );
    db.sql("UPDATE parent SET code = 'w' WHERE code = 'x'");
    db.sql("UPDATE parent SET a = a, code = code");
    db.sql("DELETE FROM child WHERE id = 1");
    db.sql("DELETE FROM parent WHERE a = 1 AND b = 1");
    db.sql("INSERT INTO staff VALUES (1, 1), (2, 1)");
    assert!(db.error("DELETE FROM staff WHERE id = 1").starts_with("23503"));
    db.sql("DELETE FROM staff");
}

#[test]
fn a_parent_is_not_deleted_while_a_child_is_inserted() {
    let db = family();
    let mut deleting = db.begin(Isolation::ReadCommitted);
    let mut first = db.begin(Isolation::ReadCommitted);
    db.run(&mut first, "INSERT INTO child VALUES (9, 2, 1)", &[]).unwrap();
    // Updates of other columns than the key do not wait for it.
    let update = "UPDATE parent SET code = 'z' WHERE a = 2 AND b = 1";
    let mut other = db.begin(Isolation::ReadCommitted);
    assert!(matches!(db.run(&mut other, update, &[]).unwrap(), Outcome::Rows(_, 1)));
    drop(other);
    let delete = "DELETE FROM parent WHERE a = 2 AND b = 1";
    assert!(matches!(db.run(&mut deleting, delete, &[]).unwrap(), Outcome::Wait(_)));
    db.sql("DELETE FROM tag");
    db.commit(first);
    // The child was committed after the snapshot, and is checked nevertheless.
    assert_eq!(state(db.run(&mut deleting, delete, &[])), SqlState::FOREIGN_KEY_VIOLATION);
}

/// A statement that waits in `nextval` is run again; values already taken are not returned to the sequence.
#[test]
fn nextval_waits_and_the_statement_runs_again() {
    let db = Db::new();
    db.ddl("CREATE TABLE n (id serial PRIMARY KEY, a int UNIQUE)");
    let event = env::Event::new();
    db.busy.replace(Some(event));
    let mut txn = db.begin(Isolation::ReadCommitted);
    for sql in ["INSERT INTO n (a) VALUES (1)", "SELECT (SELECT nextval('n_id_seq'))"] {
        assert!(matches!(db.run(&mut txn, sql, &[]), Ok(Outcome::Wait(_))), "{sql}");
    }
    db.busy.replace(None);
    assert!(matches!(db.run(&mut txn, "INSERT INTO n (a) VALUES (1)", &[]), Ok(Outcome::Rows(_, 1))));
    db.commit(txn);
    assert!(db.error("INSERT INTO n (a) VALUES (2), (1)").starts_with("23505"));
    db.check(&[("INSERT INTO n (a) VALUES (2) RETURNING id", "4"), ("SELECT id FROM n ORDER BY id", "1\n4")]);
}

#[test]
fn statements_with_nextval_are_not_read_only() {
    let db = Db::new();
    db.ddl("CREATE SEQUENCE s");
    for (sql, read_only) in [
        ("SELECT nextval('s')", false),
        ("SELECT (SELECT setval('s', 1))", false),
        ("SELECT currval('s'), lastval()", true),
    ] {
        assert_eq!(db.plan(sql).unwrap().is_read_only(), read_only, "{sql}");
    }
    assert_eq!(db.refusal("SELECT nextval($1)"), "a sequence whose name is computed");
}
