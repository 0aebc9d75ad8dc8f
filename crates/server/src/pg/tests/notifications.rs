//! LISTEN and NOTIFY.

use super::*;

impl Client {
    /// Receives one message.
    async fn message(&mut self) -> String {
        let (tag, body) = self.receive().await.unwrap();
        line(tag, &body)
    }
}

#[tokio::test]
async fn an_idle_session_gets_notifications_when_their_transaction_commits() {
    let server = Server::start().await;
    let (mut listener, mut sender) = (server.connect().await, server.connect().await);
    sender.check("NOTIFY jobs, 'before'", &["C NOTIFY", "Z I"]).await;
    listener.check("LISTEN jobs", &["C LISTEN", "Z I"]).await;
    sender.check("NOTIFY jobs", &["C NOTIFY", "Z I"]).await;
    let (tag, body) = listener.receive().await.unwrap();
    assert_eq!(line(tag, &body), "A jobs");
    assert_eq!(body[..4], sender.key.0.to_be_bytes(), "the process that sent it");
    sender.check("BEGIN", &["C BEGIN", "Z T"]).await;
    sender.check("NOTIFY jobs, '1'", &["C NOTIFY", "Z T"]).await;
    sender.check("SAVEPOINT s", &["C SAVEPOINT", "Z T"]).await;
    sender.check("NOTIFY jobs, '2'", &["C NOTIFY", "Z T"]).await;
    sender.check("ROLLBACK TO s", &["C ROLLBACK", "Z T"]).await;
    let voids = &["T pg_notify:2278", "D", "C SELECT 1", "Z T"];
    sender.check("SELECT pg_notify('jobs', '3')", voids).await;
    sender.check("NOTIFY jobs, '1'", &["C NOTIFY", "Z T"]).await;
    // Nothing arrived yet.
    listener.check("SELECT 1 AS a", &["T a:23", "D 1", "C SELECT 1", "Z I"]).await;
    sender.check("COMMIT", &["C COMMIT", "Z I"]).await;
    assert_eq!([listener.message().await, listener.message().await], ["A jobs=1", "A jobs=3"]);
    sender.query("BEGIN").await;
    sender.query("NOTIFY jobs, 'undone'").await;
    sender.check("ROLLBACK", &["C ROLLBACK", "Z I"]).await;
    let failed = sender.query("SELECT pg_notify('jobs', 'failed'), 1 / (random() * 0)::int").await;
    assert_eq!(failed, ["T pg_notify:2278 ?column?:23", "E 22012 division by zero", "Z I"][1..]);
    listener.check("UNLISTEN *", &["C UNLISTEN", "Z I"]).await;
    sender.check("NOTIFY jobs, 'late'", &["C NOTIFY", "Z I"]).await;
    listener.check("SELECT 1 AS a", &["T a:23", "D 1", "C SELECT 1", "Z I"]).await;
}

#[tokio::test]
async fn a_session_in_a_transaction_gets_them_at_its_end_and_its_own_as_well() {
    let server = Server::start().await;
    let (mut listener, mut sender) = (server.connect().await, server.connect().await);
    listener.query("LISTEN a").await;
    listener.query("BEGIN").await;
    listener.query("LISTEN b").await;
    for statement in ["NOTIFY a, '1'", "NOTIFY b, 'not yet'"] {
        sender.query(statement).await;
    }
    listener.check("SELECT 1 AS a", &["T a:23", "D 1", "C SELECT 1", "Z T"]).await;
    listener.check("NOTIFY b, 'own'", &["C NOTIFY", "Z T"]).await;
    listener.check("COMMIT", &["C COMMIT", "A a=1", "A b=own", "Z I"]).await;
    let channels = "SELECT * FROM pg_listening_channels() AS c";
    listener.check(channels, &["T c:25", "D a", "D b", "C SELECT 2", "Z I"]).await;
    listener.check("DISCARD ALL", &["C DISCARD ALL", "Z I"]).await;
    listener.check(channels, &["T c:25", "C SELECT 0", "Z I"]).await;
}

#[tokio::test]
async fn triggers_and_pipelines_notify_with_their_transaction() {
    let server = Server::start().await;
    let (mut listener, mut sender) = (server.connect().await, server.connect().await);
    listener.query("LISTEN changes").await;
    sender.query("CREATE TABLE t (id int PRIMARY KEY)").await;
    sender
        .query(
            "CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS \
             'BEGIN PERFORM pg_notify(''changes'', NEW.id::text); RETURN NEW; END'",
        )
        .await;
    sender.query("CREATE TRIGGER tell AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION tell()").await;
    sender.check("INSERT INTO t VALUES (7), (8)", &["C INSERT 0 2", "Z I"]).await;
    assert_eq!([listener.message().await, listener.message().await], ["A changes=7", "A changes=8"]);
    let refused = sender.query("INSERT INTO t VALUES (9), (8)").await;
    assert!(refused[0].starts_with("E 23505"), "{refused:?}");
    // A block that fails takes its own back, and no other.
    sender
        .query(
            "DO 'BEGIN PERFORM pg_notify(''changes'', ''kept''); \
             BEGIN PERFORM pg_notify(''changes'', ''undone''); RAISE EXCEPTION ''x''; \
             EXCEPTION WHEN others THEN PERFORM pg_notify(''changes'', ''handled''); END; \
             BEGIN PERFORM pg_notify(''changes'', ''inner''); EXCEPTION WHEN others THEN NULL; END; END'",
        )
        .await;
    for text in ["kept", "handled", "inner"] {
        assert_eq!(listener.message().await, format!("A changes={text}"));
    }
    let from = &["T pg_notify:2278", "D", "C SELECT 1", "Z I"];
    sender.check("SELECT * FROM pg_notify('changes', 'from')", from).await;
    assert_eq!(listener.message().await, "A changes=from");
    // Answers of a batch are complete before a notification.
    listener.send(&[(b'P', b"\0SELECT 1\0\0\0"), (b'H', b"")]).await;
    assert_eq!(listener.message().await, "1");
    sender.query("NOTIFY changes, 'x'").await;
    listener.send(&[(b'S', b"")]).await;
    assert_eq!(listener.transcript().await, ["A changes=x", "Z I"]);
}

#[tokio::test]
async fn a_session_that_reads_nothing_holds_up_nobody_and_ends() {
    let server = Server::start().await;
    let (mut stuck, mut listener, mut sender) =
        (server.connect().await, server.connect().await, server.connect().await);
    stuck.query("LISTEN flood").await;
    stuck.query("BEGIN").await;
    listener.query("LISTEN flood").await;
    let round = 1_000;
    for turn in 0..10 {
        let flood = format!(
            "SELECT count(pg_notify('flood', i || repeat('x', 7000)) IS NULL) AS n FROM generate_series({}, {}) AS i",
            turn * round,
            turn * round + round - 1
        );
        sender.check(&flood, &["T n:20", &format!("D {round}"), "C SELECT 1", "Z I"]).await;
        for _ in 0..round {
            assert!(listener.message().await.starts_with("A flood="));
        }
    }
    let ended = stuck.transcript().await;
    assert_eq!(ended, ["E 54000 terminating connection because its notifications were not read", "closed"]);
}
