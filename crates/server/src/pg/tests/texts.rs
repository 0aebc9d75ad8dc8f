//! Repeated statements: the plan cache changes nothing but speed.

use super::*;

#[tokio::test]
async fn texts_that_differ_in_constants_have_their_own_results() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    client.check("CREATE TABLE t (id bigint PRIMARY KEY, n int, s text)", &["C CREATE TABLE", "Z I"]).await;
    for id in 1..=5 {
        let insert = format!("INSERT INTO t VALUES ({id}, {}, 'it''s {id}')", id * 10);
        client.check(&insert, &["C INSERT 0 1", "Z I"]).await;
    }
    for _ in 0..3 {
        for (constant, rows) in [
            ("1", &["D 10|it\\\'s 1"][..]),
            ("5", &["D 50|it\\\'s 5"]),
            ("'4'", &["D 40|it\\\'s 4"]),
            ("3.0", &["D 30|it\\\'s 3"]),
            ("99999999999", &[]),
            ("-1", &[]),
            ("NULL", &[]),
        ] {
            let mut lines = vec!["T n:23 s:25"];
            lines.extend(rows);
            let tag = format!("C SELECT {}", rows.len());
            lines.extend([tag.as_str(), "Z I"]);
            client.check(&format!("SELECT n, s FROM t WHERE id = {constant}"), &lines).await;
        }
        for (constant, expected) in
            [("'x'", "E 22P02 invalid input syntax for type bigint: \"x\""), ("1 / 0", "E 22012 division by zero")]
        {
            let lines = client.query(&format!("SELECT n, s FROM t WHERE id = {constant}")).await;
            assert!(
                lines.iter().any(|line| line == expected) && lines.last().unwrap() == "Z I",
                "{constant}: {lines:?}"
            );
        }
        client.check("UPDATE t SET n = n + 1 WHERE id = 1 AND s = 'it''s 1'", &["C UPDATE 1", "Z I"]).await;
        client.check("UPDATE t SET n = n - 1 WHERE id = 1 AND s = 'it''s 1'", &["C UPDATE 1", "Z I"]).await;
        client
            .check("SELECT id FROM t WHERE n > 15 ORDER BY 1 LIMIT 1", &["T id:20", "D 2", "C SELECT 1", "Z I"])
            .await;
        client
            .check("SELECT id FROM t WHERE n > 25 ORDER BY 1 LIMIT 1", &["T id:20", "D 3", "C SELECT 1", "Z I"])
            .await;
    }
    // In a failed transaction all statements are refused.
    client.check("BEGIN", &["C BEGIN", "Z T"]).await;
    assert_eq!(client.query("SELECT 1 / 0").await.last().unwrap(), "Z E");
    let lines = client.query("SELECT n, s FROM t WHERE id = 1").await;
    assert!(lines[0].starts_with("E 25P02"), "{lines:?}");
    client.check("ROLLBACK", &["C ROLLBACK", "Z I"]).await;
}

#[tokio::test]
async fn a_cached_text_follows_changes_of_tables_and_settings() {
    let server = Server::start().await;
    let (mut client, mut other) = (server.connect().await, server.connect().await);
    let (mut parse, mut bind) = (Vec::new(), Vec::new());
    let [p, b] = bound(&mut parse, &mut bind, "SELECT n FROM t WHERE id = $1", &["1"], false);
    client.check("CREATE TABLE t (id int PRIMARY KEY, n int)", &["C CREATE TABLE", "Z I"]).await;
    client.check("INSERT INTO t VALUES (1, 10)", &["C INSERT 0 1", "Z I"]).await;
    for (change, ty, value) in [
        ("SELECT 1 AS a", "n:23", "10"),
        ("ALTER TABLE t ALTER n TYPE text", "n:25", "10"),
        ("UPDATE t SET n = 'x'", "n:25", "x"),
        ("DROP TABLE t; CREATE TABLE t (id bigint PRIMARY KEY, n bigint); INSERT INTO t VALUES (1, 7)", "n:20", "7"),
        (
            "CREATE SCHEMA s; CREATE TABLE s.t (id int PRIMARY KEY, n bool); INSERT INTO s.t VALUES (1, true)",
            "n:20",
            "7",
        ),
    ] {
        other.query(change).await;
        for _ in 0..3 {
            let expected = [format!("T {ty}"), format!("D {value}"), "C SELECT 1".into(), "Z I".into()];
            assert_eq!(client.query("SELECT n FROM t WHERE id = 1").await, expected, "{change}");
            client.send(&[p, b, DESCRIBE_PORTAL, EXECUTE_ALL, SYNC]).await;
            let lines = client.transcript().await;
            assert_eq!(lines[..2], ["1", "2"], "{change}");
            assert_eq!(lines[2..], expected, "{change}");
        }
    }
    client.check("SET search_path = s", &["C SET", "S search_path=s", "Z I"]).await;
    for _ in 0..3 {
        let expected = ["T n:16", "D t", "C SELECT 1", "Z I"];
        client.check("SELECT n FROM t WHERE id = 1", &expected).await;
        client.send(&[p, b, DESCRIBE_PORTAL, EXECUTE_ALL, SYNC]).await;
        assert_eq!(client.transcript().await[2..], expected);
    }
}

#[tokio::test]
async fn constants_of_other_types_are_planned_separately() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    client.check("CREATE TABLE t (id int PRIMARY KEY, n int)", &["C CREATE TABLE", "Z I"]).await;
    client.check("INSERT INTO t VALUES (1, 7)", &["C INSERT 0 1", "Z I"]).await;
    for (constant, ty, value) in [("2.0", 1700, "3.5000000000000000"), ("2", 23, "3"), ("9999999999", 20, "0")] {
        // Cached with one type before the next is used.
        for _ in 0..3 {
            let expected = [format!("T ?column?:{ty}"), format!("D {value}"), "C SELECT 1".into(), "Z I".into()];
            assert_eq!(client.query(&format!("SELECT n / {constant} FROM t WHERE id = 1")).await, expected);
        }
    }
}

#[tokio::test]
async fn repeated_multi_statement_texts_are_transactions_each_time() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    client.check("CREATE TABLE t (id int PRIMARY KEY, n int)", &["C CREATE TABLE", "Z I"]).await;
    for id in 1..=4 {
        let text = format!(
            "BEGIN; INSERT INTO t VALUES ({id}, 0); UPDATE t SET n = n + {id} WHERE id = {id} RETURNING n; \
             SELECT count(*) FROM t; COMMIT"
        );
        let expected = [
            "C BEGIN",
            "C INSERT 0 1",
            "T n:23",
            &format!("D {id}"),
            "C UPDATE 1",
            "T count:20",
            &format!("D {id}"),
            "C SELECT 1",
            "C COMMIT",
            "Z I",
        ];
        client.check(&text, &expected).await;
    }
    // An error in the middle undoes the whole simple query; earlier results were sent, later
    // statements are not run.
    for id in 5..=8 {
        let text = format!("INSERT INTO t VALUES ({id}, 0); SELECT 1 / (n - 4) FROM t WHERE id = 4; DELETE FROM t");
        let lines = client.query(&text).await;
        assert_eq!(lines[0], "C INSERT 0 1");
        assert!(lines.iter().any(|line| line == "E 22012 division by zero"), "{lines:?}");
        assert_eq!(lines.last().unwrap(), "Z I");
    }
    // In a transaction block the error fails the block.
    for _ in 0..3 {
        client.check("BEGIN; DELETE FROM t WHERE id = 1", &["C BEGIN", "C DELETE 1", "Z T"]).await;
        let lines = client.query("SELECT 1 / (n - 4) FROM t WHERE id = 4; COMMIT").await;
        assert_eq!(lines.last().unwrap(), "Z E", "{lines:?}");
        client
            .check("ROLLBACK; SELECT count(*) FROM t", &["C ROLLBACK", "T count:20", "D 4", "C SELECT 1", "Z I"])
            .await;
    }
}

#[tokio::test]
async fn a_cached_text_follows_changes_by_its_own_first_statements() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    client.check("CREATE TABLE t (id int PRIMARY KEY, at timestamptz)", &["C CREATE TABLE", "Z I"]).await;
    for _ in 0..2 {
        client.check("BEGIN", &["C BEGIN", "Z T"]).await;
        client.check("ROLLBACK", &["C ROLLBACK", "Z I"]).await;
    }
    client.check("BEGIN", &["C BEGIN", "Z T"]).await;
    client.check("SET LOCAL TimeZone = 'Asia/Tokyo'", &["C SET", "S TimeZone=Asia/Tokyo", "Z T"]).await;
    for id in 1..=3 {
        let insert = format!("INSERT INTO t VALUES ({id}, '2024-01-01 00:00')");
        client.check(&insert, &["C INSERT 0 1", "Z T"]).await;
    }
    // Cached by now, but with the time zone that ROLLBACK reverts.
    let text = "ROLLBACK; INSERT INTO t VALUES (4, '2024-01-01 00:00')";
    client.check(text, &["C ROLLBACK", "C INSERT 0 1", "S TimeZone=UTC", "Z I"]).await;
    let expected = ["T at:1184", "D 2024-01-01 00:00:00+00", "C SELECT 1", "Z I"];
    client.check("SELECT at FROM t WHERE id = 4", &expected).await;
    // A dropped column behaves the same.
    client.check("BEGIN", &["C BEGIN", "Z T"]).await;
    client.check("ALTER TABLE t ADD COLUMN n int", &["C ALTER TABLE", "Z T"]).await;
    for _ in 0..3 {
        let expected = ["T id:23 at:1184 n:23", "D 4|2024-01-01 00:00:00+00|NULL", "C SELECT 1", "Z T"];
        client.check("SELECT * FROM t WHERE id = 4", &expected).await;
    }
    let expected = ["C ROLLBACK", "T id:23 at:1184", "D 4|2024-01-01 00:00:00+00", "C SELECT 1", "Z I"];
    client.check("ROLLBACK; SELECT * FROM t WHERE id = 4", &expected).await;
}

#[tokio::test]
async fn multi_row_inserts_of_constants_use_the_single_row_plan() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    client.check("CREATE TABLE t (id int PRIMARY KEY, n int DEFAULT 7, s text)", &["C CREATE TABLE", "Z I"]).await;
    let rows = |ids: std::ops::Range<usize>| {
        let rows: Vec<String> = ids.map(|id| format!("({id}, 'it''s {id}')")).collect();
        format!("INSERT INTO t (id, s) VALUES {}", rows.join(", "))
    };
    client.check(&rows(0..3), &["C INSERT 0 3", "Z I"]).await;
    client.check(&rows(3..4), &["C INSERT 0 1", "Z I"]).await;
    client.check(&rows(4..3_000), &["C INSERT 0 2996", "Z I"]).await;
    let counted = &["T count:20 sum:20 max:25", "D 3000|21000|it\\'s 999", "C SELECT 1", "Z I"];
    client.check("SELECT count(*), sum(n), max(s) FROM t", counted).await;
    // If one row fails none is inserted, and the error has its position.
    for (text, expected) in [
        ("INSERT INTO t (id, s) VALUES (5000, 'a'), (7, 'b'), (5001, 'c')", "E 23505"),
        ("INSERT INTO t (id, s) VALUES (5000, 'a'), ('x', 'b')", "E 22P02"),
        ("INSERT INTO t (id, s) VALUES (5000, 'a'), (5000000000, 'b')", "E 22003"),
        ("INSERT INTO t (id, s) VALUES (5000, 'a'), (NULL, 'b')", "E 23502"),
        ("INSERT INTO t (id, s) VALUES (5000, 'a'), (5001, 'b', 1)", "E 42601"),
        ("INSERT INTO t (id, s) VALUES (5000, 'a'), (5001)", "E 42601"),
        (
            "INSERT INTO t (id, s) VALUES (5000, 'a'), (5000, 'b') ON CONFLICT (id) DO UPDATE SET s = excluded.s",
            "E 21000",
        ),
    ] {
        let lines = client.query(text).await;
        assert!(lines[0].starts_with(expected) && lines.len() == 2, "{text}: {lines:?}");
    }
    client.check("SELECT count(*), sum(n), max(s) FROM t", counted).await;
    // ON CONFLICT and RETURNING apply to each row.
    let text = "INSERT INTO t VALUES (1, 2, 'b'), (3000, 3, NULL), (2, 4, 'c') \
                ON CONFLICT (id) DO UPDATE SET n = t.n + excluded.n WHERE t.id > 1 RETURNING id, n";
    client.check(text, &["T id:23 n:23", "D 3000|3", "D 2|11", "C INSERT 0 2", "Z I"]).await;
    let text = "INSERT INTO t VALUES (1, 2, 'b'), (3001, 3, 'd') ON CONFLICT DO NOTHING";
    client.check(text, &["C INSERT 0 1", "Z I"]).await;
    // VALUES below ORDER BY, OFFSET or UNION is a query, which takes the general path.
    for text in [
        "INSERT INTO t (id) VALUES (4001), (4002) ORDER BY 1 LIMIT 1",
        "INSERT INTO t (id) VALUES (4003), (4003) UNION VALUES (4003)",
        "INSERT INTO t (id) VALUES (4004), (4005) OFFSET 1",
    ] {
        client.check(text, &["C INSERT 0 1", "Z I"]).await;
    }
    let ids = ["T id:23", "D 4001", "D 4003", "D 4005", "C SELECT 3", "Z I"];
    client.check("SELECT id FROM t WHERE id > 4000 ORDER BY id", &ids).await;
}
