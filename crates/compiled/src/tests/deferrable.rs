//! Deferrable PRIMARY KEY and UNIQUE constraints: statements, waits, conflicts.

use env::Event;
use model::Result;
use rows::{Isolation, Txn};

use super::{Db, East, Outcome};

fn db() -> Db {
    let db = Db::new();
    db.ddl("CREATE TABLE t (id int PRIMARY KEY DEFERRABLE, v int, u int UNIQUE DEFERRABLE INITIALLY DEFERRED)");
    let mut txn = db.begin(Isolation::ReadCommitted);
    assert_eq!(outcome(&db, &mut txn, "INSERT INTO t VALUES (1, 10, 1), (2, 20, 2), (3, 30, 3)"), "3 rows");
    assert_eq!(commit(&db, txn), "committed");
    db
}

/// The outcome of a statement: its rows, their number, or the error.
fn outcome(db: &Db, txn: &mut Txn, sql: &str) -> String {
    match db.run(txn, sql, &[]) {
        Ok(Outcome::Rows(rows, count)) if rows.is_empty() => format!("{count} rows"),
        Ok(Outcome::Rows(rows, _)) => rows.join(", "),
        Ok(Outcome::Wait(_)) => "waits".into(),
        Err(error) => format!("{} {}", error.state(), error.detail().unwrap_or(error.message())),
    }
}

fn check(txn: &mut Txn) -> Result<std::result::Result<(), Event>> {
    crate::check_all_keys(txn, &East, &crossbeam_epoch::pin())
}

/// Checks the keys and commits, like a session.
fn commit(db: &Db, mut txn: Txn) -> String {
    match check(&mut txn) {
        Ok(Ok(())) => {
            db.commit(txn);
            "committed".into()
        }
        Ok(Err(_)) => "waits".into(),
        Err(error) => format!("{} {}", error.state(), error.detail().unwrap_or(error.message())),
    }
}

#[test]
fn keys_are_checked_at_the_end_of_the_statement_or_of_the_transaction() {
    let cases: [(&[&str], &[&str]); 11] = [
        (&["UPDATE t SET id = id + 1"], &["3 rows", "committed"]),
        (&["UPDATE t SET id = 4 - id, u = 4 - u"], &["3 rows", "committed"]),
        (&["INSERT INTO t VALUES (2, 0, 9)"], &["23505 Key (id)=(2) already exists.", "committed"]),
        (&["UPDATE t SET id = 7"], &["23505 Key (id)=(7) already exists.", "committed"]),
        (
            &["INSERT INTO t VALUES (9, 0, 2)", "SELECT count(*) FROM t WHERE u = 2"],
            &["1 rows", "2", "23505 Key (u)=(2) already exists."],
        ),
        (&["INSERT INTO t VALUES (9, 0, 2)", "DELETE FROM t WHERE v = 0"], &["1 rows", "1 rows", "committed"]),
        (&["INSERT INTO t VALUES (9, 0, 2)", "UPDATE t SET u = 5 WHERE id = 2"], &["1 rows", "1 rows", "committed"]),
        (&["INSERT INTO t VALUES (9, 0, NULL), (8, 0, NULL)"], &["2 rows", "committed"]),
        // A row is found by a key that it shares.
        (
            &[
                "INSERT INTO t VALUES (9, 0, 3)",
                "UPDATE t SET u = u + 10 WHERE u = 3",
                "SELECT id FROM t WHERE u = 13 ORDER BY id",
            ],
            &["1 rows", "2 rows", "3, 9", "23505 Key (u)=(13) already exists."],
        ),
        (
            &["WITH x AS (INSERT INTO t VALUES (30, 30, 300)) UPDATE t SET id = 30 WHERE v = 20"],
            &["23505 Key (id)=(30) already exists.", "committed"],
        ),
        (&["INSERT INTO t VALUES (4, 0, 4) RETURNING id"], &["4", "committed"]),
    ];
    for (statements, expected) in cases {
        let db = db();
        let mut txn = db.begin(Isolation::ReadCommitted);
        let mut found: Vec<String> = statements.iter().map(|sql| outcome(&db, &mut txn, sql)).collect();
        found.push(commit(&db, txn));
        assert_eq!(found, expected, "{statements:?}");
    }
}

#[test]
fn a_statement_waits_for_the_other_writer_of_its_key() {
    for (commits, expected) in [(true, "23505 Key (id)=(4) already exists."), (false, "1 rows")] {
        let db = db();
        let (mut one, mut two) = (db.begin(Isolation::ReadCommitted), db.begin(Isolation::ReadCommitted));
        assert_eq!(outcome(&db, &mut one, "INSERT INTO t VALUES (4, 0, 4)"), "1 rows");
        let insert = "INSERT INTO t VALUES (4, 1, 5)";
        let Ok(Outcome::Wait(event)) = db.run(&mut two, insert, &[]) else { panic!("it does not wait") };
        if commits {
            assert_eq!(commit(&db, one), "committed")
        } else {
            drop(one)
        }
        assert!(event.is_set());
        assert_eq!(outcome(&db, &mut two, insert), expected);
        assert_eq!(commit(&db, two), "committed");
    }
    // A deferred key is waited for at the commit.
    let db = db();
    let (mut one, mut two) = (db.begin(Isolation::ReadCommitted), db.begin(Isolation::ReadCommitted));
    assert_eq!(outcome(&db, &mut one, "INSERT INTO t VALUES (4, 0, 4)"), "1 rows");
    assert_eq!(outcome(&db, &mut two, "INSERT INTO t VALUES (5, 0, 4)"), "1 rows");
    let Ok(Err(event)) = check(&mut two) else { panic!("it does not wait") };
    assert_eq!(commit(&db, one), "committed");
    assert!(event.is_set());
    assert_eq!(commit(&db, two), "23505 Key (u)=(4) already exists.");
}

#[test]
fn on_conflict_refuses_deferrable_keys_as_postgresql_does() {
    let refused = "55000 ON CONFLICT does not support deferrable unique constraints/exclusion constraints as arbiters";
    let db = db();
    db.ddl("CREATE TABLE a (x int UNIQUE, y int UNIQUE DEFERRABLE)");
    let mut txn = db.begin(Isolation::ReadCommitted);
    for (sql, expected) in [
        ("INSERT INTO t VALUES (7, 0, 9) ON CONFLICT DO NOTHING", refused),
        ("INSERT INTO t VALUES (7, 0, 9) ON CONFLICT (id) DO NOTHING", refused),
        ("INSERT INTO t VALUES (7, 0, 9) ON CONFLICT (id) DO UPDATE SET v = 1", refused),
        ("INSERT INTO t VALUES (7, 0, 9) ON CONFLICT ON CONSTRAINT t_u_key DO NOTHING", refused),
        ("INSERT INTO t SELECT 1, 2, 3 WHERE false ON CONFLICT DO NOTHING", "0 rows"),
        ("INSERT INTO a VALUES (1, 1)", "1 rows"),
        // A conflict in an older index ends the search before the deferrable one.
        ("INSERT INTO a VALUES (1, 2) ON CONFLICT DO NOTHING", "0 rows"),
        ("INSERT INTO a VALUES (2, 1) ON CONFLICT DO NOTHING", refused),
        ("INSERT INTO a VALUES (3, 3) ON CONFLICT DO NOTHING", refused),
        ("INSERT INTO a VALUES (3, 1) ON CONFLICT (x) DO NOTHING", "23505 Key (y)=(1) already exists."),
        ("INSERT INTO a VALUES (1, 1) ON CONFLICT (x) DO UPDATE SET y = 7 RETURNING y", "7"),
    ] {
        assert_eq!(outcome(&db, &mut txn, sql), expected, "{sql}");
    }
}

/// Rows that actions of foreign keys change are part of the statement.
#[test]
fn actions_of_foreign_keys_are_checked_with_their_statement() {
    let db = Db::new();
    db.ddl("CREATE TABLE p (k int PRIMARY KEY)");
    db.ddl("CREATE TABLE c (k int UNIQUE DEFERRABLE REFERENCES p ON UPDATE CASCADE ON DELETE SET DEFAULT)");
    db.ddl("ALTER TABLE c ALTER k SET DEFAULT 1");
    db.sql("INSERT INTO p VALUES (1), (2), (3)");
    db.sql("INSERT INTO c VALUES (1), (2)");
    assert_eq!(
        db.error("DELETE FROM p WHERE k = 2"),
        "23505 duplicate key value violates unique constraint \"c_k_key\" (Key (k)=(1) already exists.)"
    );
    db.sql("UPDATE p SET k = 4 WHERE k = 2");
    assert_eq!(db.sql("SELECT k FROM c ORDER BY k"), ["1", "4"]);
}
