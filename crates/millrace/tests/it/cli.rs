//! The client commands against a running server.

use std::io::Write;
use std::process::{Output, Stdio};

use crate::server::{Server, folder, millrace};

fn run(arguments: &[&str], input: &str) -> Output {
    let mut command = millrace();
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The command may exit without reading its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn write_creates_the_table_and_reports_totals() {
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
    let out = text(&output.stdout);
    assert!(out.contains("CREATE TABLE \"readings\"") && out.contains("2,500 rows in 3 commits"), "{out}");
    assert!(!out.contains("replaced"), "{out}");
    let counted =
        server.sql("SELECT count(*) AS n, min(value) AS low, max(value) AS high, count(note) AS notes FROM readings");
    assert_eq!(counted, "n,low,high,notes\n2500,0.5,2499.5,0\n");
    server.stop();
}

#[test]
fn write_reports_the_line_of_a_bad_value_and_the_stored_rows() {
    let (folder, data) = folder();
    let server = Server::start(&data);
    server.sql("CREATE TABLE r (time timestamptz NOT NULL, v float8) WITH (store = 'columns')");
    let file = folder.path().join("r.csv");
    std::fs::write(&file, "time,v\n2026-01-01T00:00:00Z,1\n2026-01-01T00:00:01Z,2\n2026-01-01T00:00:02Z,oops\n")
        .unwrap();
    let output = run(&["write", "--pg", &server.pg, "-f", file.to_str().unwrap(), "-t", "r", "--batch", "2"], "");
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    for expected in ["line 4", "the 2 rows before this batch are stored", "oops", "22P02"] {
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
        ("table", " n │   v │ s   │ missing\n───┼─────┼─────┼─────────\n 1 │ 2.5 │ a,b │ NULL\n(1 row)\n\n"),
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
    assert!(out.contains("public,t,columns,") && out.contains("v,double precision,YES,"), "{out}");
    for expected in
        ["k,text,YES,key", "time,timestamp with time zone,NO,time", "Key:        k", "Retention:  unlimited"]
    {
        assert!(out.contains(expected), "no {expected:?} in {out}");
    }
    server.stop();
}

#[test]
fn sql_opens_an_existing_directory_that_no_server_has_open() {
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

/// Writes `content` to a file and loads it.
fn load(server: &Server, folder: &std::path::Path, name: &str, content: &str, arguments: &[&str]) -> Output {
    let file = folder.join(name);
    std::fs::write(&file, content).unwrap();
    let common = ["write", "--pg", &server.pg, "--http", &server.http, "-f", file.to_str().unwrap()];
    run(&[&common[..], arguments].concat(), "")
}

#[test]
fn write_reads_times_of_every_form() {
    let (folder, data) = folder();
    let server = Server::start(&data);
    let air = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/data/beijing_pm25.csv")).unwrap();
    let air: String = air.lines().take(60).map(|line| format!("{line}\n")).collect();
    let zoned = ["--timezone", "Asia/Shanghai", "--null", "NA"];
    let cases: [(&str, &str, &[&str], &str); 6] = [
        ("parts", &air, &["--time", "year,month,day,hour"], "2010-01-01 00:00:00+08"),
        ("epoch", "time,v\n1767225600,1\n", &[], "2026-01-01 08:00:00+08"),
        (
            "dotted",
            "ts,v\n31.01.2026 12:30,1\n",
            &["--time", "ts", "--time-format", "%d.%m.%Y %H:%M"],
            "2026-01-31 12:30:00+08",
        ),
        (
            "two",
            "d,c,v\n01/31/1997,24:00,1\n",
            &["--time", "d,c", "--time-format", "%m/%d/%Y %H:%M"],
            "1997-02-01 00:00:00+08",
        ),
        ("plain", "t,v\n2026-01-01 00:00:00,1\n", &[], "2026-01-01 00:00:00+08"),
        ("offset", "t,v\n2026-01-01T00:00:00Z,1\n", &[], "2026-01-01 08:00:00+08"),
    ];
    for (table, content, arguments, expected) in cases {
        let arguments = [&["-t", table, "--create"], &zoned[..], arguments].concat();
        let output = load(&server, folder.path(), &format!("{table}.csv"), content, &arguments);
        assert!(output.status.success(), "{table}: {}", text(&output.stderr));
        let column = if content.starts_with("ts,") {
            "ts"
        } else if content.starts_with("t,") {
            "t"
        } else {
            "time"
        };
        let first = server.sql(&format!("SET TimeZone = 'Asia/Shanghai'; SELECT min({column}) AS t FROM \"{table}\""));
        assert!(first.contains(expected), "{table}: {first}");
    }
    server.stop();
}

#[test]
fn write_reports_assumptions_and_missing_information() {
    let (folder, data) = folder();
    let server = Server::start(&data);
    let load = |name: &str, content: &str, arguments: &[&str]| load(&server, folder.path(), name, content, arguments);
    let cases: [(&str, &[&str], &str); 6] = [
        ("t,v\n2026-01-01 00:00:00,1\n", &["--create"], "read as UTC"),
        ("v,year,month,day\n1,2026,1,1\n", &["--create"], "--time year,month,day"),
        ("ts,v\n31.01.2026 12:30,1\n", &["--create"], "--time ts --time-format '%d.%m.%Y %H:%M'"),
        ("No,v\nx,1\n", &["--create", "--time", "No"], "column \"No\" does not hold times"),
        ("t,v\n2026-01-01,1\n", &["--create", "--time", "u"], "no column \"u\""),
        (",t\n0,2026-01-01T00:00:00Z\n", &["--create"], "has no name"),
    ];
    for (number, (content, arguments, expected)) in cases.into_iter().enumerate() {
        let table = format!("t{number}");
        let output = load("a.csv", content, &[&["-t", &table], arguments].concat());
        assert!(text(&output.stderr).contains(expected), "{content}: {}", text(&output.stderr));
    }
    let output = load("a.lp", "weather t=1 1767225600\n", &[]);
    assert!(text(&output.stderr).contains("--precision s"), "{}", text(&output.stderr));
    let output = load("a.lp", "weather t=1 1767225600\n", &["--precision", "s"]);
    assert!(text(&output.stdout).starts_with("weather: 1 row in 1 commit, "), "{}", text(&output.stdout));
    server.stop();
}

#[test]
fn write_counts_replaced_rows_and_makes_tables_without_time() {
    let (folder, data) = folder();
    let server = Server::start(&data);
    let rows = "t,k,v\n2026-01-01T00:00:00Z,a,1\n2026-01-01T00:00:00Z,a,2\n2026-01-01T00:00:00Z,b,3\n";
    let output = load(&server, folder.path(), "r.csv", rows, &["-t", "r", "--create", "--key", "k"]);
    let out = text(&output.stdout);
    assert!(out.contains("3 rows read, 2 kept: 1 replaced rows with the same key (k) and time"), "{out}");
    let output = load(&server, folder.path(), "r.csv", rows, &["-t", "r"]);
    assert!(text(&output.stdout).contains("3 rows read, 0 new: 3 replaced"), "{}", text(&output.stdout));
    let output =
        load(&server, folder.path(), "p.csv", "code,name\nx,1\ny,-\n", &["-t", "p", "--create", "--key", "code"]);
    let out = text(&output.stdout);
    assert!(out.contains("PRIMARY KEY (\"code\")") && out.contains("rows table"), "{out}{}", text(&output.stderr));
    assert!(out.contains("-- text because of \"-\" in row 2"), "{out}");
    assert_eq!(server.sql("SELECT name FROM p WHERE code = 'y'"), "name\n-\n");
    server.stop();
}

#[test]
fn sql_runs_the_commands_of_psql() {
    let (folder, data) = folder();
    let server = Server::start(&data);
    server.sql("CREATE TABLE m (id int PRIMARY KEY, name text DEFAULT 'x' CHECK (name <> ''))");
    server.sql("CREATE TABLE r (m int REFERENCES m)");
    let out = folder.path().join("out");
    let script = format!(
        "\\d m\n\\dt\n\\di\n\\dn\n\\du\n\\l\n\\df now\n\\conninfo\n\\set k 5\nSELECT :k AS five, :'k' AS text \\gx\n\
         SELECT 7 AS seven \\g {out}\n\\pset null none\nSELECT NULL AS n;\n\\x\nSELECT 1 AS a;\n\\h insert\n\\q\nSELECT nope;\n",
        out = out.display()
    );
    let ran = run(&["sql", "--pg", &server.pg], &script);
    let (said, failed) = (text(&ran.stdout), text(&ran.stderr));
    assert!(ran.status.success(), "{failed}");
    for expected in [
        "m_pkey PRIMARY KEY",
        "Check constraints:",
        "Referenced by:\n    table r",
        "Store:      rows",
        "public │ m    │ rows",
        "millrace",
        "five │ 5\ntext │ 5\n",
        "none",
        "─[ row 1 ]",
        "ON CONFLICT",
    ] {
        assert!(said.contains(expected), "no {expected:?} in\n{said}\n{failed}");
    }
    assert!(std::fs::read_to_string(&out).unwrap().contains("seven"));
    let output = run(&["sql", "--pg", &server.pg, "-c", "\\nope"], "");
    assert!(text(&output.stderr).contains("unknown command \\nope"), "{}", text(&output.stderr));
    server.stop();
}

#[test]
fn an_error_in_a_transaction_is_the_statements_own() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let output = run(&["sql", "--pg", &server.pg, "-c", "BEGIN; SELECT nope FROM pg_class"], "");
    assert!(text(&output.stderr).contains("42703"), "{}", text(&output.stderr));
    server.stop();
}

#[test]
fn a_table_of_many_rows_is_streamed() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let output = run(&["sql", "--pg", &server.pg, "-c", "SELECT * FROM generate_series(1, 30000) AS t(n)"], "");
    let out = text(&output.stdout);
    assert_eq!(out.lines().count(), 30_004);
    assert!(out.ends_with(" 30000\n(30,000 rows)\n\n"), "{}", &out[out.len() - 80..]);
    server.stop();
}
