//! Transaction benchmarks: go-tpc with Go's driver, sysbench with libpq, with its own scripts and one of ours.
//!
//! Each runs for a moment. The test checks that they run unmodified, get no error that PostgreSQL would not give,
//! and leave consistent tables.

use std::path::PathBuf;
use std::process::{Command, Output};

use super::{printed, tool};
use crate::server::{Server, folder};

/// Runs a go-tpc command.
fn go_tpc(server: &Server, arguments: &[&str]) -> String {
    let (host, port) = server.pg_host_port();
    let mut command = Command::new(tool("MILLRACE_TEST_GO_TPC", "go-tpc-1.0.12"));
    command.args(["tpcc", "-d", "postgres", "-H", host, "-P", port, "-U", "millrace", "-D", "millrace"]);
    command.args(["--conn-params", "sslmode=disable", "--warehouses", "1"]).args(arguments);
    let output = command.output().unwrap_or_else(|error| panic!("go-tpc: {error}; fetch it: cargo xtask tools"));
    let text = printed(&output);
    assert!(output.status.success(), "{arguments:?}: {text}\nserver log:\n{}", server.log_text());
    text
}

/// go-tpc exits with 0 even if transactions or consistency checks failed.
fn without_failures(what: &str, text: &str) {
    let failed = text.lines().find(|line| line.contains("failed") || line.contains("_ERR"));
    assert_eq!(failed, None, "{what}: {text}");
}

#[test]
fn go_tpc_runs_and_finds_its_twelve_conditions_true() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    without_failures("prepare", &go_tpc(&server, &["prepare", "--no-check", "--threads", "4"]));
    let loaded = go_tpc(&server, &["check", "--check-all"]);
    without_failures("check after loading", &loaded);
    for condition in 1..=12 {
        assert!(loaded.contains(&format!("condition 3.3.2.{condition}\n")), "{condition} was not checked: {loaded}");
    }
    for isolation in ["0", "2"] {
        let run = go_tpc(&server, &["run", "--threads", "8", "--time", "2s", "--isolation", isolation]);
        without_failures("run", &run);
        for kind in ["NEW_ORDER", "PAYMENT", "tpmC"] {
            assert!(run.contains(kind), "no {kind} in {run}");
        }
    }
    // REPEATABLE READ: only conflicts that PostgreSQL also aborts are aborted.
    let run = go_tpc(&server, &["run", "--threads", "8", "--time", "2s", "--isolation", "4", "--ignore-error"]);
    // A failure is reported in several lines if its statement has several.
    let mut failures = run.split("execute run failed").skip(1);
    assert!(failures.all(|failure| failure.contains("could not serialize access due to concurrent ")), "{run}");
    without_failures("check after the runs", &go_tpc(&server, &["check"]));
    server.stop();
}

fn sysbench(server: &Server, arguments: &[&str]) -> Output {
    let (host, port) = server.pg_host_port();
    let mut command = Command::new("sysbench");
    command.args(arguments).args(["--db-driver=pgsql", "--pgsql-user=millrace", "--pgsql-db=millrace", "--threads=4"]);
    command.arg(format!("--pgsql-host={host}")).arg(format!("--pgsql-port={port}"));
    command.output().unwrap_or_else(|error| panic!("sysbench: {error}; fetch it: cargo xtask tools"))
}

/// Runs sysbench, which must succeed; returns its output.
fn sysbench_passes(server: &Server, arguments: &[&str]) -> String {
    let output = sysbench(server, arguments);
    let text = printed(&output);
    let failed = text.contains("FATAL") || text.contains("ALERT");
    assert!(output.status.success() && !failed, "{arguments:?}: {text}\nserver log:\n{}", server.log_text());
    text
}

/// The number after a label in sysbench's report.
fn counted(text: &str, label: &str) -> u64 {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(label));
    let number = line.and_then(|line| line.split_whitespace().next()).and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("no {label} in {text}"))
}

#[test]
fn sysbenchs_own_scripts_run_prepared_and_simple() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let tables = ["--tables=2", "--table-size=2000"];
    let run = |script: &str, more: &[&str]| sysbench_passes(&server, &[&[script], &tables[..], more].concat());
    let rows = || server.sql("SELECT (SELECT count(*) FROM sbtest1) + (SELECT count(*) FROM sbtest2)");
    run("oltp_read_write", &["prepare"]);
    let scripts = [
        "oltp_read_only",
        "oltp_read_write",
        "oltp_write_only",
        "oltp_point_select",
        "oltp_update_index",
        "oltp_update_non_index",
        "select_random_points",
        "select_random_ranges",
    ];
    for script in scripts {
        for mode in ["auto", "disable"] {
            let text = run(script, &["--time=0", "--events=50", &format!("--db-ps-mode={mode}"), "run"]);
            assert_eq!(counted(&text, "transactions:"), 50, "{script}, {mode}: {text}");
        }
    }
    // Each transaction deletes rows and inserts them again.
    assert!(rows().ends_with("\n4000\n"), "{}", rows());
    for mode in ["auto", "disable"] {
        run("oltp_insert", &["--time=0", "--events=100", &format!("--db-ps-mode={mode}"), "run"]);
    }
    assert!(rows().ends_with("\n4200\n"), "{}", rows());
    run("oltp_delete", &["--time=0", "--events=100", "run"]);
    let by_index = "SELECT (SELECT count(*) FROM sbtest1 WHERE k >= 0) + (SELECT count(*) FROM sbtest2 WHERE k >= 0)";
    assert_eq!(rows().lines().nth(1), server.sql(by_index).lines().nth(1), "index and table differ");
    run("oltp_read_write", &["cleanup"]);
    run("bulk_insert", &["prepare"]);
    run("bulk_insert", &["--time=0", "--events=20000", "run"]);
    run("bulk_insert", &["cleanup"]);
    server.stop();
}

/// Our script `orders.lua`: literals in the text, REPEATABLE READ, every conflict retried.
#[test]
fn orders_over_the_simple_protocol_survive_their_conflicts() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/clients/orders.lua");
    let run = |arguments: &[&str]| sysbench_passes(&server, &[&[script.to_str().unwrap()], arguments].concat());
    run(&["prepare"]);
    run(&["check"]);
    let mut conflicts = 0;
    for level in ["REPEATABLE READ", "READ COMMITTED"] {
        let text = run(&[&format!("--level={level}"), "--time=0", "--events=400", "run"]);
        assert_eq!(counted(&text, "transactions:"), 400, "{text}");
        conflicts += counted(&text, "ignored errors:");
        assert_eq!(counted(&text, "reconnects:"), 0, "{text}");
        run(&["check"]);
    }
    assert!(conflicts > 0, "nobody met anybody: this proved little");
    run(&["cleanup"]);
    server.stop();
}
