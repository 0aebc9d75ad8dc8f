//! Statements that come again: what a session remembers of their texts shows in nothing but speed.

use super::*;

#[tokio::test]
async fn texts_that_differ_in_constants_answer_each_its_own() {
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
        for (constant, told) in
            [("'x'", "E 22P02 invalid input syntax for type bigint: \"x\""), ("1 / 0", "E 22012 division by zero")]
        {
            let lines = client.query(&format!("SELECT n, s FROM t WHERE id = {constant}")).await;
            assert!(lines.iter().any(|line| line == told) && lines.last().unwrap() == "Z I", "{constant}: {lines:?}");
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
    // In a transaction that has failed, all are refused.
    client.check("BEGIN", &["C BEGIN", "Z T"]).await;
    assert_eq!(client.query("SELECT 1 / 0").await.last().unwrap(), "Z E");
    let lines = client.query("SELECT n, s FROM t WHERE id = 1").await;
    assert!(lines[0].starts_with("E 25P02"), "{lines:?}");
    client.check("ROLLBACK", &["C ROLLBACK", "Z I"]).await;
}

#[tokio::test]
async fn a_text_means_what_the_tables_and_settings_of_the_moment_make_it_mean() {
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
