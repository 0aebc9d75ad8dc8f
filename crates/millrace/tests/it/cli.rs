//! The client commands against a running server.

use std::io::Write;
use std::process::{Output, Stdio};

use crate::server::{Server, folder, millrace};

fn run(arguments: &[&str], input: &str) -> Output {
    let mut command = millrace();
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // It may end without reading, which is not what is tested.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn write_makes_the_table_loads_the_file_and_says_how_much() {
    let (folder, data) = folder();
    let server = Server::start(&data);
    let file = folder.path().join("readings.csv");
    let rows: String = (0..2_500)
        .map(|n| format!("2026-01-01T00:{:02}:{:02}Z,d{},{n}.5,NA\n", n / 60 % 60, n % 60, n / 3600))
        .collect();
    std::fs::write(&file, format!("time,device,value,note\n{rows}")).unwrap();
    let file = file.to_str().unwrap();
    let common = ["write", "--pg", &server.pg, "--file", file, "--table", "readings", "--null", "NA"];
    let output = run(&[&common[..], &["--create", "--key", "device", "--batch", "1000"]].concat(), "");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("2,500 rows in 3 commits"), "{}", text(&output.stdout));
    let counted =
        server.sql("SELECT count(*) AS n, min(value) AS low, max(value) AS high, count(note) AS notes FROM readings");
    assert_eq!(counted, "n,low,high,notes\n2500,0.5,2499.5,0\n");
    server.stop();
}

#[test]
fn write_says_where_a_bad_value_is_and_what_is_in() {
    let (folder, data) = folder();
    let server = Server::start(&data);
    server.sql("CREATE TABLE r (time timestamptz NOT NULL, v float8) WITH (store = 'columns')");
    let file = folder.path().join("r.csv");
    std::fs::write(&file, "time,v\n2026-01-01T00:00:00Z,1\n2026-01-01T00:00:01Z,2\n2026-01-01T00:00:02Z,oops\n")
        .unwrap();
    let output = run(&["write", "--pg", &server.pg, "-f", file.to_str().unwrap(), "-t", "r", "--batch", "2"], "");
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    for expected in ["row 3", "the 2 rows before it are in", "oops", "22P02"] {
        assert!(said.contains(expected), "no {expected:?} in {said}");
    }
    assert_eq!(server.sql("SELECT count(*) AS n FROM r"), "n\n2\n");
    server.stop();
}

#[test]
fn write_sends_line_protocol_from_standard_input() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let lines = "# comment\nm,k=a v=1 1\n\nm,k=b v=2 2\n";
    let output = run(&["write", "--http", &server.http, "--file", "-", "--format", "lp", "--precision", "s"], lines);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(
        server.sql("SELECT k, epoch_ns(time) AS t, v FROM m ORDER BY k"),
        "k,t,v\na,1000000000,1\nb,2000000000,2\n"
    );
    let output = run(&["write", "--http", &server.http, "--file", "-", "--format", "lp"], "m,k=a v=1 1\nm,k=a v=\n");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("lines 1 to 2"), "{}", text(&output.stderr));
    server.stop();
}

#[test]
fn sql_prints_every_format_and_marks_the_place_of_an_error() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let sql = |arguments: &[&str], input: &str| run(&[&["sql", "--pg", &server.pg], arguments].concat(), input);
    let query = "SELECT 1 AS n, 2.5::float8 AS v, 'a,b' AS s, NULL::text AS missing";
    let cases = [
        ("table", " n │   v │ s   │ missing\n───┼─────┼─────┼─────────\n 1 │ 2.5 │ a,b │\n(1 row)\n\n"),
        ("csv", "n,v,s,missing\n1,2.5,\"a,b\",\n"),
        ("json", "[\n  {\"n\":1,\"v\":2.5,\"s\":\"a,b\",\"missing\":null}\n]\n"),
        ("ndjson", "{\"n\":1,\"v\":2.5,\"s\":\"a,b\",\"missing\":null}\n"),
    ];
    for (format, expected) in cases {
        let output = sql(&["--format", format], query);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout), expected, "{format}");
    }
    let output = sql(&["-c", "SELECT 1 AS one;\nSELECT\n  nope FROM pg_class; SELECT 3"], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("one") && !text(&output.stdout).contains('3'));
    let said = text(&output.stderr);
    assert!(said.contains("42703") && said.contains("LINE 2:   nope FROM pg_class\n          ^"), "{said}");
    server.stop();
}

#[test]
fn sql_lists_tables_and_copies_both_ways() {
    let (folder, data) = folder();
    let server = Server::start(&data);
    server.sql("CREATE TABLE t (time timestamptz NOT NULL, k text, v float8) WITH (store = 'columns', key = 'k')");
    let (input, output) = (folder.path().join("in.csv"), folder.path().join("out.csv"));
    std::fs::write(&input, "2026-01-01 00:00:00+00,a,1.5\n").unwrap();
    let script = format!(
        "\\copy t FROM '{}' WITH (FORMAT csv)\n\\copy (SELECT k, v FROM t) TO '{}' WITH (FORMAT csv, HEADER)\n\\dt\n\\d t\n",
        input.display(),
        output.display()
    );
    let ran = run(&["sql", "--pg", &server.pg, "--format", "csv"], &script);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    assert_eq!(std::fs::read_to_string(&output).unwrap(), "k,v\na,1.5\n");
    let out = text(&ran.stdout);
    assert!(out.contains("public,t,BASE TABLE") && out.contains("v,double precision,YES"), "{out}");
    server.stop();
}

#[test]
fn sql_opens_a_directory_itself_but_makes_none_and_takes_none_away() {
    let (_folder, data) = folder();
    let dir = data.to_str().unwrap();
    let output = run(&["sql", "--data", dir, "-c", "SELECT 1"], "");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("holds no database") && !data.exists());
    let server = Server::start(&data);
    server.sql("CREATE TABLE t (time timestamptz NOT NULL, v float8) WITH (store = 'columns')");
    assert_eq!(run(&["sql", "--data", dir, "-c", "SELECT 1"], "").status.code(), Some(1));
    server.stop();
    let script = "INSERT INTO t VALUES ('2026-01-01', 1.5);\nSELECT v FROM t";
    for rows in ["v\n1.5\n", "v\n1.5\n1.5\n"] {
        let output = run(&["sql", "--data", dir, "--format", "csv"], script);
        assert_eq!(text(&output.stdout), rows, "{}", text(&output.stderr));
    }
}

#[test]
fn no_server_is_exit_code_2_and_a_hint() {
    let output = run(&["sql", "--pg", "127.0.0.1:1", "-c", "SELECT 1"], "");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("millrace serve"), "{}", text(&output.stderr));
}

#[test]
fn settings_come_from_file_and_environment_and_a_misspelt_one_is_refused() {
    let (folder, data) = folder();
    let config = folder.path().join("millrace.toml");
    std::fs::write(&config, "memory = \"128MiB\"\nmax-connections = 3\n").unwrap();
    let server = Server::start_with(&data, |command| {
        command.env("MILLRACE_CONFIG", &config).args(["--memory", "96MiB"]);
    });
    let serving = server.logged("serving").unwrap();
    assert_eq!((&serving["memory_bytes"], &serving["max_connections"]), (&(96 << 20).into(), &3.into()));
    server.stop();
    std::fs::write(&config, "memmory = \"128MiB\"\n").unwrap();
    let output = millrace().args(["serve", "--config"]).arg(&config).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("memmory"), "{}", text(&output.stderr));
}
