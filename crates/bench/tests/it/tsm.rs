//! `millrace-bench tsm`, tested through the program on private servers.

use std::path::Path;
use std::process::{Command, Output};

const SMALL: [&str; 5] = ["--quiet", "--settle", "0", "--server-memory", "512"];

fn program(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_millrace-bench")).args(arguments).output().expect("started")
}

fn text(output: &Output) -> String {
    (String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr)).into_owned()
}

/// Runs a small test and returns its reports.
fn reports(arguments: &[&str]) -> Vec<serde_json::Value> {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("tsm.json");
    let path = json.to_str().expect("a path");
    let run = program(&[&["tsm"][..], arguments, &["--json", path], &SMALL].concat());
    let said = text(&run);
    assert!(run.status.success() && said.contains("verification: PASSED"), "{arguments:?}: {said}");
    serde_json::from_str(&std::fs::read_to_string(&json).expect("written")).expect("json")
}

fn figures(report: &serde_json::Value) -> &[serde_json::Value] {
    report["figures"].as_array().expect("figures")
}

#[test]
fn every_target_stores_and_returns_all_values_of_a_load() {
    let reports = reports(&[
        "load",
        "--target",
        "millrace,postgres-rows,postgres-blocks",
        "--series",
        "7,12",
        "--days",
        "2",
        "--writers",
        "1,2",
        "--readers",
        "3",
        "--bulk",
        "5",
    ]);
    assert_eq!(reports.len(), 3);
    for report in &reports {
        assert_eq!((report["tsm"].as_str(), report["step_minutes"].as_u64()), (Some("load"), Some(30)));
        let steps: Vec<_> = figures(report)
            .iter()
            .map(|figure| (figure["operation"].as_str().unwrap(), figure["values"].as_u64().unwrap()))
            .collect();
        let of = |values| [("Write", values), ("Write", values), ("Read", values)];
        assert_eq!(steps, [of(7 * 96), of(12 * 96)].concat(), "{}", report["form"]);
        assert!(figures(report)[0]["server_cpu_s"][0].is_f64(), "the server's processes are known");
    }
}

#[test]
fn scaling_has_every_combination_and_its_percentages_are_published() {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("scaling.json");
    let path = |path: &Path| path.to_str().expect("a path").to_owned();
    let options = ["tsm", "scaling", "--series", "20", "--days", "1", "--bulk", "5", "--users", "3", "--repeats", "2"];
    let run = program(&[&options[..], &["--json", &path(&json)], &SMALL].concat());
    let said = text(&run);
    assert!(run.status.success() && said.contains("vs serial"), "{said}");
    let published = program(&["published", "hakom", "--from", &path(&json)]);
    let said = text(&published);
    assert!(published.status.success() && said.contains("| write, bulk requests, 1 server, Standard |"), "{said}");
    assert!(said.contains("Standard vs. Performance | 66.1 % |"), "{said}");
    assert!(said.contains("| no: 20 series for 1 days |") && !said.contains("| measured |"), "{said}");
}

#[test]
fn latencies_are_measured_for_each_number_of_clients() {
    let reports = reports(&[
        "latency",
        "--target",
        "millrace,postgres-blocks",
        "--series",
        "20",
        "--days",
        "3",
        "--clients",
        "1,8",
        "--seconds",
        "0.5",
    ]);
    for report in &reports {
        let [one, eight] = figures(report) else { panic!("{report}") };
        for (figure, clients) in [(one, 1), (eight, 8)] {
            assert_eq!(figure["clients"].as_u64(), Some(clients));
            assert!(figure["requests"].as_u64().unwrap() >= clients && figure["errors"] == 0, "{figure}");
            assert!(figure["latency_ms"]["p99"].as_f64().unwrap() > 0.0, "{figure}");
        }
    }
}

#[test]
fn wrong_options_are_refused_before_a_server_is_started() {
    let cases: [(&[&str], &str); 6] = [
        (&["scaling", "--front-ends", "2", "--url", "http://a:1"], "--front-ends 2: expected 1 to 1"),
        (&["scaling", "--matrix", "2-8"], "expected SERVERSxCORES, such as 2x8"),
        (&["scaling", "--target", "postgres-rows", "--kind", "audit"], "PostgreSQL keep no history"),
        (&["load", "--url", "https://a:1"], "expected http://HOST:PORT"),
        (&["load", "--target", "mariadb"], "expected millrace, postgres-rows or postgres-blocks"),
        (&["load", "--bulk", "2000"], "--bulk 2000: 2880000 values in one request"),
    ];
    for (arguments, expected) in cases {
        let run = program(&[&["tsm"][..], arguments].concat());
        let said = text(&run);
        assert!(run.status.code() == Some(2) && said.contains(expected), "{arguments:?}: {said}");
    }
}
