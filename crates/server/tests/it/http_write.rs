//! Line protocol over HTTP.

use crate::harness::{Reply, gzip, start};

#[test]
fn lines_of_both_versions_are_visible_in_sql_and_survive_a_restart() {
    let server = start();
    let reply =
        server.post("/write?db=millrace", &[], b"cpu,host=a load=0.5,cores=4i 1000000001\ncpu,host=b load=1.5 2\n");
    assert_eq!((reply.status, reply.text().as_str()), (204, ""));
    assert_eq!(reply.header("x-millrace-durability"), Some("sync"));
    let reply = server.post(
        "/api/v2/write?org=x&bucket=millrace&precision=s",
        &[("Authorization", "Token x")],
        b"cpu,host=a load=0.75 7",
    );
    assert_eq!(reply.status, 204, "{}", reply.text());
    let expected = [
        "a,1970-01-01T00:00:01.000000001Z,0.5,4",
        "a,1970-01-01T00:00:07Z,0.75,",
        "b,1970-01-01T00:00:00.000000002Z,1.5,",
    ];
    let sql = "SELECT host, time, load, cores FROM cpu ORDER BY host, time";
    assert_eq!(server.rows(sql), expected);
    assert_eq!(server.restart().rows(sql), expected);
}

#[test]
fn a_later_line_merges_the_fields_it_names() {
    let server = start();
    for lines in ["m,k=a x=1,y=1 5", "m,k=a y=2,z=3i 5", "m,k=a,new=t x=9 5", "m,k=a x=4 5\nm,k=a x=5 5"] {
        assert_eq!(server.post("/write", &[], lines.as_bytes()).status, 204, "{lines}");
    }
    assert_eq!(server.rows("SELECT k, new, x, y, z FROM m ORDER BY new NULLS FIRST"), ["a,,5,2,3", "a,t,9,,"]);
}

#[test]
fn every_precision_and_the_server_time_are_supported() {
    let server = start();
    for (precision, table) in
        [("ns", "t1"), ("n", "t2"), ("u", "t3"), ("%C2%B5", "t4"), ("ms", "t5"), ("s", "t6"), ("m", "t7"), ("h", "t8")]
    {
        let lines = format!("{table} v=1 60");
        assert_eq!(server.post(&format!("/write?precision={precision}"), &[], lines.as_bytes()).status, 204);
    }
    let times = |table: &str| server.rows(&format!("SELECT time FROM {table}"))[0].clone();
    assert_eq!(times("t1"), "1970-01-01T00:00:00.00000006Z");
    assert_eq!(times("t1"), times("t2"));
    assert_eq!(times("t3"), "1970-01-01T00:00:00.00006Z");
    assert_eq!(times("t3"), times("t4"));
    assert_eq!((times("t5").as_str(), times("t6").as_str()), ("1970-01-01T00:00:00.06Z", "1970-01-01T00:01:00Z"));
    assert_eq!((times("t7").as_str(), times("t8").as_str()), ("1970-01-01T01:00:00Z", "1970-01-03T12:00:00Z"));
    assert_eq!(server.post("/write?precision=s", &[], b"now v=1").status, 204);
    assert_eq!(
        server.rows("SELECT count(*) FROM now WHERE time > now() - interval '5 minutes' AND time <= now()"),
        ["1"]
    );
}

#[test]
fn invalid_lines_are_reported_and_the_others_are_stored() {
    let server = start();
    assert_eq!(server.post("/write", &[], b"m v=1 1").status, 204);
    let lines = b"m v=2 2\nm v=\"text\" 3\nbroken\nm v=4 4\n";
    let reply = server.post("/write", &[], lines);
    assert_eq!(reply.status, 400);
    let message =
        "partial write: line 2: column \"v\" of table \"m\" is double precision, seen string \"text\" dropped=2";
    assert_eq!(reply.json()["error"], message);
    let reply = server.post("/api/v2/write", &[], lines);
    assert_eq!((reply.status, &reply.json()["code"], &reply.json()["line"]), (400, &"invalid".into(), &2.into()));
    assert_eq!(reply.json()["message"], message);
    assert_eq!(reply.json()["lines"][1]["line"], 3);
    let reply = server.post("/write", &[], b"broken");
    assert_eq!(reply.json()["error"], "unable to parse: line 1: the line has no fields dropped=1");
    assert_eq!(server.rows("SELECT v FROM m ORDER BY time"), ["1", "2", "4"]);
}

/// A default holds for a row that the line creates; a field of a row that exists is left as it is. Constraints hold for the
/// fields of a line together, so that they hold for each row, whoever else writes to it.
#[test]
fn defaults_and_constraints_hold_for_lines() {
    let server = start();
    let sql = |sql: &str| server.post("/sql", &[], sql.as_bytes());
    let table = "CREATE TABLE m (time timestamptz NOT NULL, k text, a float8 DEFAULT 1, b float8 NOT NULL DEFAULT 2, c float8, \
                 s text CHECK (s <> 'no'), CONSTRAINT ordered CHECK (b < c), CHECK (k <> 'none')) \
                 WITH (store = 'columns', key = 'k')";
    assert_eq!(sql(table).status, 200);
    assert_eq!(server.post("/write", &[], b"m,k=x a=5,s=\"new\" 1\nm,k=x s=\"new\" 2").status, 204);
    assert_eq!(server.post("/write", &[], b"m,k=x b=3,c=4 1\nm,k=x s=\"old\" 1").status, 204);
    let expected = ["5,3,4,old", "1,2,,new"];
    let rows = "SELECT a, b, c, s FROM m WHERE k = 'x' ORDER BY time";
    assert_eq!(server.rows(rows), expected);
    let lines = b"m,k=x s=\"no\" 3\nm,k=y b=5 1\nm,k=none a=1 1\nm,k=z b=9,c=8 1\nm,k=z s=\"yes\" 1";
    let reply = server.post("/write", &[], lines);
    assert_eq!(reply.status, 400);
    assert_eq!(
        reply.json()["error"],
        "partial write: line 1: new row for relation \"m\" violates check constraint \"m_s_check\" dropped=4"
    );
    let refused: Vec<_> = (0..4).map(|at| reply.json()["lines"][at]["message"].as_str().unwrap().to_owned()).collect();
    assert_eq!(
        refused[1..],
        [
            "line 2: the line has field \"b\" without \"c\"; check constraint \"ordered\" of relation \"m\" reads both",
            "line 3: new row for relation \"m\" violates check constraint \"m_k_check\"",
            "line 4: new row for relation \"m\" violates check constraint \"ordered\"",
        ]
    );
    assert_eq!(server.post("/write?atomic=true", &[], b"m,k=w a=1 1\nm,k=w s=\"no\" 2").status, 400);
    assert_eq!(server.rows("SELECT k, a, b, s FROM m WHERE k <> 'x'"), ["z,1,2,yes"]);
    assert_eq!(sql("ALTER TABLE m ADD COLUMN d int DEFAULT 7").status, 200);
    assert_eq!(server.post("/write", &[], b"m,k=v new=1 1\nm,k=x new=2 1").status, 204);
    assert_eq!(server.rows("SELECT k, a, d, new FROM m WHERE new IS NOT NULL ORDER BY k"), ["v,1,7,1", "x,5,7,2"]);
    assert_eq!(sql("VACUUM FULL").status, 200);
    let server = server.restart();
    assert_eq!(server.rows(rows), expected);
    assert_eq!(server.rows("SELECT k, a, d, new FROM m WHERE new IS NOT NULL ORDER BY k"), ["v,1,7,1", "x,5,7,2"]);
    assert_eq!(server.post("/write", &[], b"m,k=x s=\"no\" 3").status, 400);
    assert_eq!(server.post("/write", &[], b"m,k=t c=3,b=1 1").status, 204);
    assert_eq!(server.rows("SELECT a, b, c, d FROM m WHERE k = 't'"), ["1,1,3,7"]);
}

/// Bug: a line with a new field was refused for ever, because the table's version had changed by that field.
#[test]
fn a_line_adds_a_field_to_a_table_with_a_domain() {
    let server = start();
    let sql = |sql: &str| server.post("/sql", &[], sql.as_bytes()).status;
    assert_eq!(sql("CREATE DOMAIN positive AS float8 CHECK (VALUE > 0)"), 200);
    let table = "CREATE TABLE m (time timestamptz NOT NULL, k text, v positive) WITH (store = 'columns', key = 'k')";
    assert_eq!(sql(table), 200);
    assert_eq!(server.post("/write", &[], b"m,k=a v=1,new=2 1").status, 204);
    assert_eq!(server.post("/write", &[], b"m,k=a v=-1,newer=2 1").status, 400);
    assert_eq!(server.rows("SELECT v, new FROM m"), ["1,2"]);
}

/// Bug: the defaults of a request of 2 MB took 2.8 GB, ten times the server's memory.
#[test]
fn the_defaults_of_lines_are_limited_like_the_rows_of_a_transaction() {
    let server = start();
    let table = "CREATE TABLE m (time timestamptz NOT NULL, k text, v float8, big text DEFAULT repeat('x', 20000)) \
                 WITH (store = 'columns', key = 'k')";
    assert_eq!(server.post("/sql", &[], table.as_bytes()).status, 200);
    let lines = |count: usize| (0..count).map(|at| format!("m,k=a v=1 {at}\n")).collect::<String>();
    let refused = server.post("/write", &[], lines(5_000).as_bytes());
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert!(refused.text().contains("a quarter of the memory budget"), "{}", refused.text());
    assert_eq!(server.rows("SELECT count(*) FROM m"), ["0"]);
    assert_eq!(server.post("/write", &[], lines(500).as_bytes()).status, 204);
    assert_eq!(server.rows("SELECT count(*), min(length(big)) FROM m"), ["500,20000"]);
}

/// Bug: rows that were older than a constraint NOT NULL could not be read, or were missing from `IS NULL`.
#[test]
fn rows_of_the_past_may_be_older_than_not_null() {
    let server = start();
    let sql = |sql: &str| server.post("/sql", &[], sql.as_bytes()).status;
    let table = "CREATE TABLE m (time timestamptz NOT NULL, k text, v float8) \
                 WITH (store = 'columns', key = 'k', history = on)";
    assert_eq!(sql(table), 200);
    assert_eq!(sql("INSERT INTO m VALUES ('2024-01-01', 'a', NULL)"), 200);
    let moment = server.rows("SELECT clock_timestamp()")[0].clone();
    assert_eq!(sql("UPDATE m SET v = 1"), 200);
    assert_eq!(sql("ALTER TABLE m ALTER v SET NOT NULL, ADD COLUMN w int NOT NULL DEFAULT 2"), 200);
    assert_eq!(server.rows("SELECT v, w FROM m"), ["1,2"]);
    let past = |sql: &str| server.rows(&sql.replace("THEN", &format!("FOR SYSTEM_TIME AS OF '{moment}'")));
    assert_eq!(past("SELECT k, v, w FROM m THEN"), ["a,,"]);
    assert_eq!(past("SELECT count(*) FROM m THEN WHERE v IS NULL AND w IS NULL"), ["1"]);
    assert_eq!(past("SELECT count(*) FROM m THEN WHERE v IS NOT NULL"), ["0"]);
}

#[test]
fn atomic_requests_are_stored_whole_or_not_at_all() {
    let server = start();
    let reply = server.post("/write?atomic=true", &[], b"m v=1 1\nm v=x 2");
    assert_eq!(reply.status, 400);
    assert!(reply.json()["error"].as_str().unwrap().ends_with("dropped=2"), "{}", reply.text());
    assert_eq!(server.post("/sql", &[], b"SELECT * FROM m").json()["sqlstate"], "42P01");
}

#[test]
fn one_request_over_several_tables_and_a_new_schema_is_one_commit() {
    let server = start();
    let commits = server.engine.stats().commits;
    assert_eq!(server.post("/write?db=plant", &[], b"a v=1 1\nb v=2 2\na,t=x w=3 3").status, 204);
    assert_eq!(server.engine.stats().commits, commits + 1);
    assert_eq!(server.rows("SELECT v FROM plant.b"), ["2"]);
    assert_eq!(server.rows("SELECT count(*) FROM plant.a"), ["2"]);
    assert_eq!(server.post("/write?db=pg_catalog", &[], b"a v=1 1").status, 400);
}

#[test]
fn no_sync_is_async_and_reported_in_a_header() {
    let server = start();
    for query in ["no_sync=true", "consistency=any"] {
        let reply = server.post(&format!("/write?{query}"), &[], b"m v=1");
        assert_eq!((reply.status, reply.header("x-millrace-durability")), (204, Some("async")), "{query}");
    }
}

#[test]
fn gzip_is_read_and_keep_alive_works() {
    let server = start();
    let mut client = server.connect();
    for row in 0..3 {
        let body = gzip(format!("m v={row} {row}").as_bytes());
        let reply = client.request("POST", "/api/v2/write", &[("Content-Encoding", "gzip")], &body);
        assert_eq!(reply.status, 204, "{}", reply.text());
    }
    assert_eq!(server.rows("SELECT count(*) FROM m"), ["3"]);
}

#[test]
fn concurrent_requests_that_create_one_table_all_succeed() {
    let server = start();
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let server = &server;
            scope.spawn(move || {
                let mut client = server.connect();
                for row in 0..10 {
                    // Each request adds a column and a tag to a table that all requests create.
                    let line = format!("shared,w={writer},t{writer}=x v=1,c{writer}_{row}=2 {row}");
                    let reply = client.request("POST", "/write?db=fresh", &[], line.as_bytes());
                    assert_eq!(reply.status, 204, "{}", reply.text());
                }
            });
        }
    });
    assert_eq!(server.rows("SELECT count(*), sum(v) FROM fresh.shared"), ["80,80"]);
    assert_eq!(server.rows("SELECT count(c3_7) FROM fresh.shared"), ["1"]);
}

#[test]
fn probes_of_writers_are_answered() {
    let server = start();
    for method in ["GET", "HEAD"] {
        let reply = server.connect().request(method, "/ping", &[], b"");
        assert_eq!(reply.status, 204);
        assert!(reply.header("x-influxdb-version").is_some_and(|version| version.starts_with("v2.7.4")));
    }
    assert_eq!(server.get("/ping?verbose=true").status, 200);
    let health = server.get("/health");
    assert_eq!((health.status, &health.json()["status"]), (200, &"pass".into()));
    for reply in [
        server.post("/query?q=CREATE%20DATABASE%20%22telegraf%22", &[], b""),
        server.post("/query", &[("Content-Type", "application/x-www-form-urlencoded")], b"q=CREATE+DATABASE+telegraf"),
    ] {
        assert_eq!((reply.status, &reply.json()["results"][0]["statement_id"]), (200, &0.into()));
    }
    let names = |reply: Reply| reply.json()["results"][0]["series"][0]["values"].to_string();
    assert_eq!(names(server.get("/query?q=SHOW+DATABASES")), r#"[["millrace"],["telegraf"]]"#);
    assert_eq!(server.get("/query?q=SELECT+*+FROM+cpu").status, 400);
}

/// If these are refused, iot-benchmark and TSBS stop, and influxdb-python raises.
#[test]
fn setup_statements_of_writers_are_executed() {
    let server = start();
    let ask =
        |text: &str| server.get(&format!("/query?db=plant&q={}", text.replace(' ', "+").replace('"', "%22"))).json();
    assert_eq!(ask("CREATE DATABASE \"plant\" WITH REPLICATION 1").to_string(), r#"{"results":[{"statement_id":0}]}"#);
    assert_eq!(ask("SHOW MEASUREMENTS").to_string(), r#"{"results":[{"statement_id":0}]}"#);
    assert_eq!(server.post("/write?db=plant", &[], b"cpu,host=a v=1 1\nmem v=2 1").status, 204);
    assert_eq!(ask("SHOW MEASUREMENTS")["results"][0]["series"][0]["values"].to_string(), r#"[["cpu"],["mem"]]"#);
    let policies = ask("SHOW RETENTION POLICIES ON plant");
    assert_eq!(policies["results"][0]["series"][0]["values"][0][0], "autogen");
    let warned = ask("CREATE RETENTION POLICY p ON plant DURATION 30d REPLICATION 1");
    assert_eq!(warned["results"][0]["messages"][0]["level"], "warning");
    let two = ask("DROP DATABASE plant; SHOW DATABASES");
    assert_eq!(two["results"][1]["series"][0]["values"].to_string(), r#"[["millrace"]]"#);
    assert!(ask("DROP DATABASE millrace")["results"][0]["error"].is_string());
    assert_eq!(server.get("/query").status, 400);
}

/// iot-benchmark's InfluxDB 2 adapter, influxdb-client's `ready()` and buckets API, and QuestDB
/// clients used to get 404.
#[test]
fn buckets_organizations_readiness_and_settings_are_served() {
    let server = start();
    let made =
        server.post("/api/v2/buckets", &[], br#"{"orgID":"0000000000000001","name":"plant","retentionRules":[]}"#);
    assert_eq!((made.status, &made.json()["name"]), (201, &"plant".into()));
    let found = server.get("/api/v2/buckets?name=plant").json();
    let id = found["buckets"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(server.get("/api/v2/orgs?org=acme").json()["orgs"][0]["name"], "acme");
    assert_eq!(server.connect().request("DELETE", &format!("/api/v2/buckets/{id}"), &[], b"").status, 204);
    assert_eq!(server.connect().request("DELETE", &format!("/api/v2/buckets/{id}"), &[], b"").status, 404);
    assert_eq!(server.get("/api/v2/buckets?name=plant").json()["buckets"].to_string(), "[]");
    assert_eq!(server.get("/ready").json()["status"], "ready");
    let versions = server.get("/settings").json()["config"]["line.proto.support.versions"].to_string();
    assert_eq!(versions, "[1]");
}

#[test]
fn an_empty_body_succeeds_and_stores_nothing() {
    let server = start();
    let commits = server.engine.stats().commits;
    assert_eq!(server.post("/write", &[], b"").status, 204);
    assert_eq!(server.post("/write", &[], b"\n# only a comment\n").status, 204);
    assert_eq!(server.engine.stats().commits, commits);
}
