//! Queries on `rows` tables that take long or return many rows: they run off the socket's thread,
//! and their results are streamed.

use super::*;

/// Rows of the table: more than a query processes before it moves to another thread.
const ROWS: usize = 60_000;

async fn with_rows(server: &Server) -> Client {
    let mut client = server.connect().await;
    client.check("CREATE TABLE t (id int PRIMARY KEY, n int, pad text)", &["C CREATE TABLE", "Z I"]).await;
    let fill = format!("INSERT INTO t SELECT i, i % 7, 'p' || i FROM generate_series(1, {ROWS}) g(i)");
    client.check(&fill, &[&format!("C INSERT 0 {ROWS}"), "Z I"]).await;
    client
}

#[tokio::test]
async fn a_long_result_arrives_completely_and_in_order() {
    let server = Server::start().await;
    let mut client = with_rows(&server).await;
    let plain = |ids: &mut dyn Iterator<Item = usize>| ids.map(|id| format!("D {id}|p{id}")).collect::<Vec<_>>();
    for (sql, expected) in [
        ("SELECT id, pad FROM t", plain(&mut (1..=ROWS))),
        ("SELECT id, pad FROM t ORDER BY id DESC", plain(&mut (1..=ROWS).rev())),
        ("SELECT id, pad FROM t WHERE n = 3", plain(&mut (1..=ROWS).filter(|id| id % 7 == 3))),
        ("SELECT id, pad FROM t ORDER BY n, id", {
            plain(&mut (0..7).flat_map(|n| (1..=ROWS).filter(move |id| id % 7 == n)))
        }),
        ("SELECT a.id, b.pad FROM t a JOIN t b ON a.id = b.id ORDER BY a.id", plain(&mut (1..=ROWS))),
        ("SELECT n, count(*) FROM t GROUP BY n ORDER BY n", {
            (0..7).map(|n| format!("D {n}|{}", (1..=ROWS).filter(|id| id % 7 == n).count())).collect()
        }),
        ("SELECT id FROM t WHERE n = 9", Vec::new()),
    ] {
        let lines = client.query(sql).await;
        let [head, rows @ .., tag, end] = lines.as_slice() else { panic!("{sql}: {lines:?}") };
        assert!(head.starts_with("T "), "{sql}: {head}");
        let mut rows = rows.to_vec();
        if !sql.contains("ORDER BY") {
            let id = |row: &String| row[2..row.find('|').unwrap()].parse::<usize>().unwrap();
            rows.sort_by_key(id);
        }
        assert!(rows == expected, "{sql}: {} rows, {} expected", rows.len(), expected.len());
        assert_eq!([tag, end], [&format!("C SELECT {}", expected.len()), "Z I"], "{sql}");
    }
    let lines = client.query("COPY (SELECT id FROM t ORDER BY id) TO STDOUT").await;
    let expected: Vec<String> = (1..=ROWS).map(|id| format!("d {id}")).collect();
    assert!(lines[1..=ROWS] == expected, "COPY: {} lines", lines.len());
    assert_eq!(lines[ROWS + 1..], ["c", &format!("C COPY {ROWS}"), "Z I"]);
}

#[tokio::test]
async fn a_suspended_query_keeps_its_snapshot() {
    let server = Server::start().await;
    let (mut client, mut other) = (with_rows(&server).await, server.connect().await);
    let parse: (u8, &[u8]) = (b'P', b"\0SELECT id, pad FROM t ORDER BY id\0\0\0");
    let bind: (u8, &[u8]) = (b'B', b"p\0\0\0\0\0\0\0\0");
    let two: (u8, &[u8]) = (b'E', b"p\0\0\0\0\x02");
    let all: (u8, &[u8]) = (b'E', b"p\0\0\0\0\0");
    // With rows changed by the transaction itself: the result shows the earlier state.
    for own in ["SELECT 1 AS a", "UPDATE t SET pad = 'mine' WHERE id = 1"] {
        let mine = if own.starts_with("UPDATE") { "mine" } else { "p1" };
        client.check("BEGIN", &["C BEGIN", "Z T"]).await;
        assert_eq!(client.query(own).await.last().map(String::as_str), Some("Z T"));
        client.send(&[parse, bind, two, SYNC]).await;
        assert_eq!(client.transcript().await, ["1", "2", &format!("D 1|{mine}"), "D 2|p2", "s", "Z T"]);
        other.check("UPDATE t SET pad = 'theirs' WHERE id > 59990", &["C UPDATE 10", "Z I"]).await;
        client.check("UPDATE t SET pad = 'later' WHERE id BETWEEN 3 AND 59980", &["C UPDATE 59978", "Z T"]).await;
        client.send(&[two, (b'E', b"p\0\0\0\xea\x5a"), SYNC]).await;
        let lines = client.transcript().await;
        assert_eq!(lines[..2], ["D 3|p3", "D 4|p4"]);
        assert_eq!(lines[lines.len() - 4..], ["D 59997|p59997", "D 59998|p59998", "s", "Z T"]);
        client.send(&[all, all, SYNC]).await;
        assert_eq!(client.transcript().await, ["D 59999|p59999", "D 60000|p60000", "C SELECT 2", "C SELECT 0", "Z T"]);
        client.check("ROLLBACK", &["C ROLLBACK", "Z I"]).await;
        other.check("UPDATE t SET pad = 'p' || id WHERE id > 59990", &["C UPDATE 10", "Z I"]).await;
    }
}

#[tokio::test]
async fn a_long_query_can_be_cancelled_and_blocks_no_other_session() {
    let server = Server::start().await;
    let (mut client, mut other) = (with_rows(&server).await, server.connect().await);
    let fruitless = "SELECT count(*) FROM t a, t b WHERE a.id + b.id < 0";
    let endless = "SELECT a.id FROM t a, t b WHERE a.id + b.id > 0";
    for sql in [fruitless, endless, fruitless, "SELECT a.id FROM t a, t b ORDER BY a.n + b.n"] {
        client.send(&[(b'Q', format!("{sql}\0").as_bytes())]).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        // The test has one thread, so a query that blocked it would delay this.
        other.check("SELECT id FROM t WHERE id = 7", &["T id:23", "D 7", "C SELECT 1", "Z I"]).await;
        Client::cancel(&server, client.key).await;
        let lines = client.transcript().await;
        let error = lines.iter().find(|line| line.starts_with('E')).map(String::as_str);
        // Sorts may exceed their memory limit first.
        let expected: &[_] = &["E 57014 canceling statement due to user request"];
        let is_expected = error.is_some_and(|error| expected.contains(&error) || error.starts_with("E 53200"));
        assert!(is_expected, "{sql}: {error:?}");
        client.check("SET statement_timeout = 100", &["C SET", "Z I"]).await;
        let lines = client.query(sql).await;
        let error = lines.iter().find(|line| line.starts_with('E')).map(String::as_str);
        let in_time = error.is_some_and(|error| error.contains("statement timeout") || error.starts_with("E 53200"));
        assert!(in_time, "{sql}: {error:?}");
        client.check("SET statement_timeout = 0", &["C SET", "Z I"]).await;
    }
    client.check("SELECT count(*) FROM t", &["T count:20", "D 60000", "C SELECT 1", "Z I"]).await;
}

#[tokio::test]
async fn materialised_rows_are_limited_by_the_statement_memory() {
    let server = Server::start().await;
    let mut client = with_rows(&server).await;
    // The limit of 64 MiB is for all statements together.
    for sql in [
        "SELECT a.id, b.pad FROM t a, t b ORDER BY a.n + b.n",
        "SELECT DISTINCT a.id, b.id FROM t a, t b",
        "SELECT a.id, b.id, count(*) FROM t a, t b GROUP BY a.id, b.id",
    ] {
        let lines = client.query(sql).await;
        let error = lines.iter().find(|line| line.starts_with('E')).map_or("", String::as_str);
        assert!(error.starts_with("E 53200"), "{sql}: {error}");
    }
    let sorted = client.query("SELECT id FROM t ORDER BY n, id DESC LIMIT 1").await;
    assert_eq!(sorted[1], "D 59997");
}
