//! Reads files back with Tableau's own engine, and checks the errors without its library.

use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::report::fixture;

/// Runs queries on a file in Hyper and returns the results as JSON.
fn ask(path: &Path, queries: &[&str]) -> Vec<Value> {
    const ASK: &str = "\
import json, sys
from tableauhyperapi import Connection, HyperProcess, Telemetry
with HyperProcess(Telemetry.DO_NOT_SEND_USAGE_DATA_TO_TABLEAU, parameters={'log_config': ''}) as process:
    with Connection(process.endpoint, sys.argv[1]) as connection:
        print(json.dumps([connection.execute_list_query(query) for query in sys.argv[2:]], default=str))
";
    let python = crate::peers::python().expect("Python with tableauhyperapi");
    let output = Command::new(python).args(["-c", ASK]).arg(path).args(queries).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn hyper_reads_back_every_table() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("it's a result.hyper");
    let run = fixture::run("millrace", 1.0);
    let report = Report::new(vec![run.clone(), fixture::failed()]);
    write(&report, &path, None).unwrap();
    let answers = ask(
        &path,
        &[
            "SELECT count(*), sum(points) FROM seconds WHERE operation = 'INGESTION'",
            "SELECT product, points_per_cpu_s, verification_passed FROM runs ORDER BY run",
            "SELECT throughput, p99_ms FROM operations WHERE run = 1 AND operation = 'INGESTION' AND phase = 'write'",
            "SELECT count(*) FROM operations WHERE ok = 0 AND p99_ms IS NOT NULL",
            "SELECT count(*), max(server_cores) > 1 FROM resources WHERE run = 1",
            "SELECT sum(wrong) FROM checks WHERE run = 2",
            "SELECT count(*) FROM remarks WHERE kind = 'finding'",
            "SELECT value FROM configuration WHERE run = 1 AND key = 'DEVICE_NUMBER'",
            "SELECT extract(hour FROM started AT TIME ZONE 'UTC') FROM runs WHERE run = 1",
            "SELECT count(*) FROM failures",
        ],
    );
    let server = run.server.as_ref().unwrap();
    let writes = &run.phases[0].operations[0];
    assert_eq!(answers[0], json!([[60, writes.ok_points]]));
    assert_eq!(answers[1], json!([["Millrace", server.points_per_cpu_s, true], ["QuestDB", null, false]]));
    assert_eq!(answers[2], json!([[writes.throughput, writes.latency_ms.p99]]));
    assert_eq!(answers[3], json!([[0]]));
    assert_eq!(answers[4], json!([[run.resources.len(), true]]));
    assert_eq!(answers[5], json!([[3]]));
    assert_eq!(answers[6], json!([[2]]));
    assert_eq!(answers[7], json!([["100"]]));
    assert_eq!(answers[8], json!([[13]]));
    assert_eq!(answers[9], json!([[0]]));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left beside the file");
}

#[test]
fn a_python_without_the_package_gives_an_install_hint() {
    let directory = tempfile::tempdir().unwrap();
    // Without site directories, Python finds only its standard library.
    let bare = directory.path().join("python");
    std::fs::write(&bare, "#!/bin/sh\nexec python3 -S -I \"$@\"\n").unwrap();
    std::fs::set_permissions(&bare, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = directory.path().join("r.hyper");
    let error = write(&Report::new(vec![fixture::run("millrace", 1.0)]), &path, Some(&bare)).unwrap_err().to_string();
    assert!(error.contains("-m pip install tableauhyperapi==0.0.26963") && error.contains("--python"), "{error}");
    assert!(!path.exists());
}

#[test]
fn a_missing_python_is_named() {
    let report = Report::new(vec![fixture::run("millrace", 1.0)]);
    let error = write(&report, Path::new("/tmp/r.hyper"), Some(Path::new("/nonexistent/python"))).unwrap_err();
    assert!(error.to_string().contains("/nonexistent/python does not start"), "{error}");
}

#[test]
fn a_path_that_cannot_be_written_is_an_error() {
    let report = Report::new(vec![fixture::run("millrace", 1.0)]);
    let error = write(&report, Path::new("/nonexistent/r.hyper"), None).unwrap_err().to_string();
    assert!(error.starts_with("/nonexistent/r.hyper: ") && error.contains("ended with exit status: 1"), "{error}");
}

#[test]
fn rows_are_as_long_as_their_headers() {
    for table in tables(&Report::new(vec![fixture::run("millrace", 1.0), fixture::failed(), fixture::hostile()])) {
        let columns = table["columns"].as_array().unwrap().len();
        for row in table["rows"].as_array().unwrap() {
            assert_eq!(row.as_array().unwrap().len(), columns, "{}", table["name"]);
        }
    }
}
