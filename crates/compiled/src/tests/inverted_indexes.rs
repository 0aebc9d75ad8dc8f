//! Inverted indexes: the conditions that they serve, and the rows that they find.

use super::Db;
use crate::exec::tests::FETCHED;

fn db() -> Db {
    let db = Db::new();
    for name in ["i", "n"] {
        db.ddl(&format!("CREATE TABLE {name} (id int PRIMARY KEY, doc jsonb, tags text[], a int)"));
    }
    db.ddl(
        "CREATE INDEX ON i USING gin (doc, tags); CREATE INDEX ON i USING gin ((doc -> 'in') jsonb_path_ops);
         CREATE INDEX ON i USING gin (doc) WHERE a > 10; CREATE INDEX ON i (a)",
    );
    db
}

/// Conditions, and the access path for each.
const CONDITIONS: &[(&str, &str)] = &[
    (r#"doc @> '{"k": 3}'"#, "inverted 1"),
    (r#"doc @> '{"k": 3.0, "in": {"x": ["b"]}}'"#, "inverted 1"),
    (r#"'{"k": 3}' <@ doc"#, "inverted 1"),
    (r#"doc <@ '{"k": 3}'"#, "all"),
    ("doc @> '{}'", "inverted 1"),
    ("doc @> NULL", "inverted 1"),
    ("doc ? 'k'", "inverted 1"),
    ("doc ? 'x'", "inverted 1"),
    ("doc ?| '{x,only5}'", "inverted 1"),
    ("doc ?& '{k,only5}'", "inverted 1"),
    ("doc ?& '{}'", "inverted 1"),
    ("doc ?| '{}'", "inverted 1"),
    ("doc @? '$.in.x[*] ? (@ == \"b\")'", "inverted 1"),
    ("doc @? '$.*'", "inverted 1"),
    ("doc @@ '$.k == 3 || $.k == 4'", "inverted 1"),
    ("doc @@ '!($.k == 3)'", "inverted 1"),
    ("tags @> '{t1,t2}'", "inverted 1"),
    ("tags && '{t1,t2}'", "inverted 1"),
    ("tags && '{}'", "inverted 1"),
    ("tags <@ '{t1,t2}'", "inverted 1"),
    ("'{t1,t2}' @> tags", "inverted 1"),
    ("tags = '{t1,t2}'", "inverted 1"),
    ("tags = '{}'", "inverted 1"),
    ("tags @> '{}'", "inverted 1"),
    ("tags @> '{NULL}'", "inverted 1"),
    (r#"doc @> '{"k": 3}' AND tags @> '{t1}'"#, "inverted 2"),
    (r#"doc @> '{"k": 3}' OR tags @> '{t1}'"#, "inverted 2"),
    (r#"doc @> '{"k": 3}' OR a = 5"#, "all"),
    (r#"(doc @> '{"k": 3}' OR doc ? 'only5') AND NOT tags && '{t1}'"#, "inverted 2"),
    (r#"doc -> 'in' @> '{"x": ["b"]}'"#, "inverted 1"),
    (r#"doc -> 'in' ? 'x'"#, "all"),
    (r#"doc @> '{"k": 3}' AND a = 20"#, "range 1"),
    (r#"doc @> '{"k": 3}' AND a > 20"#, "inverted 1"),
    (r#"doc @> '{"k": 3}' AND id = 3"#, "points 1"),
];

#[test]
fn conditions_choose_inverted_indexes() {
    let db = db();
    for (condition, expected) in CONDITIONS {
        let found = db.plan(&format!("SELECT * FROM i WHERE {condition}")).unwrap().plan();
        assert_eq!(found, *expected, "{condition}");
    }
    let joined = db.plan("SELECT * FROM n JOIN i ON i.tags @> n.tags WHERE n.id = 1").unwrap().plan();
    assert_eq!(joined, "points 1, inverted 1");
}

/// Every condition has the rows that it has without indexes.
fn check(db: &Db, when: &str) {
    for (condition, _) in CONDITIONS {
        let rows = |table: &str| db.sql(&format!("SELECT id FROM {table} WHERE {condition} ORDER BY id"));
        assert_eq!(rows("i"), rows("n"), "{condition}, {when}");
    }
}

#[test]
fn rows_found_by_an_inverted_index_are_those_of_a_scan() {
    let db = db();
    let both = |sql: &str| ["i", "n"].iter().for_each(|table| drop(db.sql(&sql.replace("TABLE", table))));
    for id in 0..60 {
        let (k, x, a) = (id % 7, ["a", "b", "c"][id % 3], id % 25);
        let only = if id % 20 == 5 { r#", "only5": [{}]"# } else { "" };
        let doc = format!(r#"{{"k": {k}, "in": {{"x": ["{x}", {{"y": null}}]}}{only}}}"#);
        let tags = ["{}", "{t1}", "{t2,t1}", "{t1,t2}", "{t3,NULL}", "{t1,t1,t3}"][id % 6];
        let (doc, tags) = (if id % 13 == 0 { "NULL".into() } else { format!("'{doc}'") }, format!("'{tags}'"));
        both(&format!("INSERT INTO TABLE VALUES ({id}, {doc}, {}, {a})", if id % 17 == 0 { "NULL" } else { &tags }));
    }
    check(&db, "inserted");
    both(r#"UPDATE TABLE SET doc = doc || '{"k": 3}', a = a + 1 WHERE doc @> '{"k": 4}'"#);
    both("UPDATE TABLE SET tags = tags || '{t2}' WHERE tags && '{t3}'");
    both("UPDATE TABLE SET id = id + 100 WHERE doc ? 'only5'");
    check(&db, "updated");
    both(r#"DELETE FROM TABLE WHERE doc @@ '$.k == 3' AND tags @> '{t1}'"#);
    check(&db, "deleted");
}

#[test]
fn an_inverted_index_reads_the_rows_that_have_all_keys_only() {
    let db = db();
    for id in 0..50 {
        db.sql(&format!(r#"INSERT INTO i VALUES ({id}, '{{"k": {}, "m": {}}}', '{{}}', {id})"#, id % 5, id % 7));
    }
    let fetched = |condition: &str| {
        FETCHED.set(0);
        db.sql(&format!("SELECT id FROM i WHERE {condition}"));
        // Each query runs twice here.
        FETCHED.get() / 2
    };
    assert_eq!(fetched(r#"doc @> '{"k": 1}'"#), 10);
    assert_eq!(fetched(r#"doc @> '{"k": 1, "m": 2}'"#), 1);
    assert_eq!(fetched(r#"doc @> '{"k": 1}' OR doc @> '{"m": 2}'"#), 16);
    assert_eq!(fetched(r#"doc @> '{"k": 9}'"#), 0);
    // An operand without keys leaves the rows to the path of the other conditions.
    for without_keys in ["doc @@ '$.k > 1'", "doc @> '{}'", "doc @? '$.k'", "doc ?& '{}'"] {
        assert_eq!(fetched(&format!("a BETWEEN 3 AND 5 AND {without_keys}")), 3, "{without_keys}");
    }
}
