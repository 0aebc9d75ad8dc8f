//! Indexes over expressions and partial indexes: the queries that they serve, and the rows that they find.

use super::Db;

fn db() -> Db {
    let db = Db::new();
    for name in ["i", "n"] {
        db.ddl(&format!(
            "CREATE TABLE {name} (id int PRIMARY KEY, a int, b varchar(10), on_sale boolean, at timestamptz)"
        ));
    }
    db.ddl(
        "CREATE INDEX ON i ((a + 1)); CREATE INDEX ON i (lower(b), a); CREATE INDEX ON i (a) WHERE a > 10;
         CREATE INDEX ON i (b) WHERE on_sale; CREATE INDEX ON i (id) WHERE b IN ('x', 'y') AND a IS NOT NULL;
         CREATE INDEX ON i (at) WHERE at > '2024-03-31 00:00:00+00'",
    );
    db
}

#[test]
fn conditions_choose_indexes_of_expressions_and_partial_ones() {
    let db = db();
    for (condition, expected) in [
        ("a + 1 = 5", "range 1"),
        ("1 + a = 5", "all"),
        ("a + 1 BETWEEN 5 AND 7", "range 0"),
        ("a + 1 IN (1, 2)", "2 ranges 1"),
        ("lower(b) = 'x'", "range 1"),
        ("lower(b) = 'x' AND a = 3", "range 2"),
        ("upper(b) = 'x'", "all"),
        ("a > 10", "range 0"),
        ("a > 11", "range 0"),
        ("a >= 11", "range 0"),
        ("a > 9", "all"),
        ("a = 12", "range 1"),
        ("a = 5", "all"),
        ("a IN (11, 12)", "2 ranges 1"),
        ("a IN (9, 12)", "all"),
        ("a = $1", "all"),
        ("on_sale", "range 0"),
        ("on_sale AND b = 'q'", "range 1"),
        ("on_sale = true AND b = 'q'", "range 1"),
        ("NOT on_sale AND b = 'q'", "all"),
        ("b = 'x' AND a = 3", "range 0"),
        ("b = 'z' AND a = 3", "all"),
        ("at > '2024-04-01 00:00:00+00'", "range 0"),
        ("at > '2024-03-01 00:00:00+00'", "all"),
    ] {
        let found = db.plan(&format!("SELECT * FROM i WHERE {condition}")).unwrap().plan();
        let found = found.split(" with").next().unwrap();
        assert_eq!(found, expected, "{condition}");
    }
    // The first rows in the order of an expression.
    assert_eq!(db.plan("SELECT id FROM i ORDER BY a + 1 DESC LIMIT 1").unwrap().plan(), "range 0 backwards");
    // A row of NULLs that an outer join adds has another value than the stored one.
    db.ddl("CREATE TABLE e (id int PRIMARY KEY, a int); CREATE INDEX ON e (coalesce(a, 0))");
    db.sql("INSERT INTO e VALUES (1, 5)");
    db.sql("INSERT INTO n VALUES (1), (2)");
    let sql = "SELECT n.id FROM n LEFT JOIN e ON n.id = e.id WHERE coalesce(e.a, 0) = 0";
    db.check(&[(sql, "2")]);
}

#[test]
fn indexed_tables_have_the_rows_of_others() {
    let db = db();
    let change = |sql: &str| ["i", "n"].map(|name| db.sql(&sql.replace("t ", &format!("{name} "))));
    for id in 0..40 {
        let (a, b) = (id % 17, ["X", "x", "y", "Y", "z"][id % 5]);
        let a = if id % 7 == 0 { "NULL".to_owned() } else { a.to_string() };
        change(&format!("INSERT INTO t VALUES ({id}, {a}, '{b}', {}, NULL)", id % 3 == 0));
    }
    change("UPDATE t SET a = a + 3 WHERE id % 4 = 1");
    change("UPDATE t SET on_sale = NOT on_sale WHERE a > 9");
    change("UPDATE t SET b = lower(b) WHERE id % 6 = 2");
    change("DELETE FROM t WHERE a = 12");
    for condition in [
        "a + 1 = 5",
        "a + 1 IN (3, 9, 20)",
        "a + 1 > 15",
        "lower(b) = 'x'",
        "lower(b) = 'y' AND a > 3",
        "a > 10",
        "a > 12",
        "a IN (11, 13)",
        "on_sale",
        "on_sale AND b = 'x'",
        "b = 'x' AND a > 2",
        "b IN ('x', 'y') AND a IS NOT NULL",
        "a + 1 IS NULL",
    ] {
        let found = |name: &str| db.sql(&format!("SELECT id, a, b, on_sale FROM {name} WHERE {condition} ORDER BY id"));
        assert_eq!(found("i"), found("n"), "{condition}");
    }
}

/// Bug: the key of an index over a generated column was computed before that column. Hidden columns come last.
#[test]
fn keys_and_predicates_read_generated_columns() {
    let db = Db::new();
    db.ddl("CREATE TABLE t (a int PRIMARY KEY, b int GENERATED ALWAYS AS (a * 2) STORED); CREATE INDEX ON t ((b * 3)); CREATE INDEX ON t (a) WHERE b > 3");
    db.sql("INSERT INTO t VALUES (1), (2), (3)");
    db.check(&[
        ("SELECT * FROM t WHERE b * 3 = 6", "1|2"),
        ("SELECT * FROM t WHERE b > 3 ORDER BY a", "2|4\n3|6"),
        ("UPDATE t SET a = 10 WHERE a = 1 RETURNING b", "20"),
        ("SELECT * FROM t WHERE b * 3 = 60", "10|20"),
        ("SELECT * FROM t WHERE b * 3 = 6", ""),
        ("SELECT a FROM t WHERE b > 3 ORDER BY a", "2\n3\n10"),
    ]);
    let error = db.try_sql("INSERT INTO t VALUES (5, 6)", &[]).unwrap_err();
    assert_eq!(error.state(), model::SqlState::GENERATED_ALWAYS);
}
