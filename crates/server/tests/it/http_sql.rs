//! SQL over HTTP.

use crate::harness::{Running, start};

fn filled() -> Running {
    let server = start();
    let lines = b"m,k=a f=0.1,i=9223372036854775807i,u=18446744073709551615u,s=\"x,\\\"y\\\"\",b=t 1000000001\nm,k=b f=2 2000000000";
    assert_eq!(server.post("/write", &[], lines).status, 204);
    server
}

#[test]
fn json_has_columns_rows_and_counts_and_keeps_every_digit() {
    let server = filled();
    let reply = server.get("/sql?q=SELECT+k,time,f,i,u,s,b+FROM+m+ORDER+BY+k");
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")));
    let json = reply.json();
    assert_eq!(json["columns"][2], serde_json::json!({ "name": "f", "type": "double precision" }));
    assert_eq!(json["columns"][4]["type"], "numeric");
    assert_eq!(
        json["rows"],
        serde_json::json!([
            ["a", "1970-01-01T00:00:01.000000001Z", 0.1, i64::MAX, u64::MAX, "x,\"y\"", true],
            ["b", "1970-01-01T00:00:02Z", 2, null, null, null, null],
        ])
    );
    assert_eq!(json["row_count"], 2);
    assert!(json["elapsed_ms"].as_f64().is_some_and(|elapsed| elapsed > 0.0));
}

#[test]
fn csv_and_ndjson_are_returned_on_request() {
    let server = filled();
    let sql = b"SELECT k, s, b, i FROM m ORDER BY k";
    let reply = server.post("/sql?format=csv", &[], sql);
    assert_eq!(reply.header("content-type"), Some("text/csv; charset=utf-8"));
    assert_eq!(reply.text(), "k,s,b,i\r\na,\"x,\"\"y\"\"\",t,9223372036854775807\r\nb,,,\r\n");
    assert_eq!(server.post("/sql", &[("Accept", "text/csv")], sql).text(), reply.text());
    let reply = server.post("/sql?format=ndjson", &[], sql);
    assert_eq!(reply.text().lines().nth(1), Some(r#"{"k":"b","s":null,"b":null,"i":null}"#));
}

#[test]
fn statements_are_accepted_as_text_form_or_json() {
    let server = filled();
    let json = [("Content-Type", "application/json")];
    let body =
        br#"{"sql":"SELECT k FROM m WHERE f > $1 AND time < $2","params":[1,"1970-01-01 00:00:03"],"format":"csv"}"#;
    assert_eq!(server.post("/sql", &json, body).text(), "k\r\nb\r\n");
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    assert_eq!(server.post("/sql?format=csv", &form, b"q=SELECT+count(*)+AS+n+FROM+m").text(), "n\r\n2\r\n");
    let reply = server.post("/sql", &json, br#"{"sql":"SELECT $1::bigint","params":["x"]}"#);
    assert_eq!((reply.status, &reply.json()["sqlstate"]), (400, &"22P02".into()));
    let reply = server.post("/sql", &json, br#"{"sql":"SELECT 1","params":[1]}"#);
    assert_eq!(reply.json()["error"], "the statement has 0 parameters, but 1 were given");
}

#[test]
fn commands_return_their_tag() {
    let server = start();
    let sql = b"CREATE TABLE t (time timestamptz NOT NULL, k text, v float8) WITH (store = 'columns', key = 'k')";
    let reply = server.post("/sql", &[], sql);
    assert_eq!((reply.status, &reply.json()["command"]), (200, &"CREATE TABLE".into()), "{}", reply.text());
    let reply =
        server.post("/sql?format=csv", &[], b"INSERT INTO t VALUES ('2026-01-01', 'a', 1), ('2026-01-02', 'a', 2)");
    assert_eq!((reply.header("x-millrace-command"), reply.text().as_str()), (Some("INSERT 0 2"), ""));
    assert_eq!(server.rows("SELECT sum(v) FROM t"), ["3"]);
}

#[test]
fn several_statements_are_one_transaction_and_the_last_result_is_returned() {
    let server = start();
    let create = "CREATE TABLE t (time timestamptz NOT NULL, v float8) WITH (store = 'columns')";
    let sql = format!("{create}; INSERT INTO t VALUES ('2026-01-01', 1); SELECT count(*) FROM t");
    assert_eq!(server.rows(&sql), ["1"]);
    let reply = server.post("/sql", &[], b"INSERT INTO t VALUES ('2026-01-02', 2); SELECT nothing FROM t");
    assert_eq!(reply.json()["sqlstate"], "42703");
    assert_eq!(server.rows("SELECT count(*) FROM t"), ["1"]);
}

#[test]
fn errors_have_a_fitting_status_the_sqlstate_and_the_position() {
    let server = filled();
    for (sql, status, state) in [
        ("SELEC 1", 400, "42601"),
        ("SELECT * FROM nowhere", 404, "42P01"),
        ("SELECT nothing FROM m", 404, "42703"),
        ("SELECT 1/0", 400, "22012"),
        ("COPY m FROM STDIN", 501, "0A000"),
    ] {
        let reply = server.post("/sql", &[], sql.as_bytes());
        assert_eq!((reply.status, reply.json()["sqlstate"].as_str()), (status, Some(state)), "{sql}: {}", reply.text());
        assert!(reply.json()["error"].is_string(), "{sql}");
    }
    assert_eq!(server.post("/sql", &[], b"SELEC 1").json()["position"], 1);
    assert_eq!(server.post("/sql", &[], b"SELECT \xff").json()["sqlstate"], "22021");
    assert_eq!(server.get("/sql").status, 400);
}

#[test]
fn copy_to_stdout_is_a_download() {
    let server = filled();
    let reply = server.post("/sql", &[], b"COPY (SELECT k, f FROM m ORDER BY k) TO STDOUT (FORMAT csv)");
    assert_eq!((reply.status, reply.text().as_str()), (200, "a,0.1\nb,2\n"));
}

#[test]
fn a_large_result_is_streamed_whole() {
    let server = start();
    let lines: String = (0..50_000).map(|row| format!("big v={row} {row}\n")).collect();
    assert_eq!(server.post("/write", &[], lines.as_bytes()).status, 204);
    let reply = server.post("/sql", &[], b"SELECT v FROM big");
    assert!(reply.complete && reply.header("transfer-encoding") == Some("chunked"));
    let json = reply.json();
    assert_eq!((json["row_count"].as_u64(), json["rows"].as_array().map(Vec::len)), (Some(50_000), Some(50_000)));
}

#[test]
fn an_error_after_the_first_rows_ends_the_response() {
    let server = start();
    let lines: String = (0..50_000).map(|row| format!("big v={row}i {row}\n")).collect();
    assert_eq!(server.post("/write", &[], lines.as_bytes()).status, 204);
    let sql = b"SELECT 1 / (49999 - v) FROM big";
    let reply = server.post("/sql", &[], sql);
    if reply.status == 200 {
        assert_eq!(reply.json()["error"]["sqlstate"], "22012");
        let reply = server.post("/sql?format=csv", &[], sql);
        assert!(!reply.complete || reply.status == 400, "a broken CSV answer must not look whole");
    } else {
        assert_eq!(reply.json()["sqlstate"], "22012");
    }
}

#[test]
fn a_statement_ends_at_its_timeout() {
    let server = start();
    let endless =
        b"SET statement_timeout = 200; SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b";
    let started = std::time::Instant::now();
    let reply = server.post("/sql", &[], endless);
    assert_eq!((reply.status, &reply.json()["sqlstate"]), (504, &"57014".into()), "{}", reply.text());
    assert!(started.elapsed() < std::time::Duration::from_secs(20), "{:?}", started.elapsed());
}
