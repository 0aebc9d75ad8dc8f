//! Runs distributed over several processes on loopback.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

const SETTINGS: [&str; 5] = ["DEVICE_NUMBER=6", "SENSOR_NUMBER=5", "LOOP=40", "DATA_CLIENT_NUMBER=2", "GROUP_NUMBER=2"];

fn program(folder: &std::path::Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace-bench"));
    command.arg("iot").args(["--seconds", "0", "--queries", "0", "--quiet"]);
    for setting in SETTINGS {
        command.args(["--set", setting]);
    }
    command.args(arguments);
    command.current_dir(folder).env("MILLRACE_CLUSTER_TOKEN", "open sesame").stdout(Stdio::null());
    command
}

/// Starts a coordinator on a free port; returns it and its address.
fn coordinator(folder: &std::path::Path, json: &str) -> (Child, String) {
    let arguments = ["--cluster-listen", "0", "--members", "2", "--json", json];
    let mut child = program(folder, &arguments).stderr(Stdio::piped()).spawn().expect("started");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
    let line = lines.find(|line| line.starts_with("waiting for 2 members at ")).expect("it waits");
    // Drain the pipe, so that it cannot fill up while the test waits.
    std::thread::spawn(move || lines.for_each(drop));
    (child, line.rsplit(' ').next().expect("an address").to_owned())
}

#[test]
fn two_programs_and_a_coordinator_give_one_result() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut coordinator, address) = coordinator(folder.path(), "merged.json");
    let member = || program(folder.path(), &["--target", "null", "--cluster-join", &address]).spawn().expect("started");
    let members = [member(), member()];
    for mut member in members {
        assert!(member.wait().expect("ended").success());
    }
    assert!(coordinator.wait().expect("ended").success());
    let text = std::fs::read_to_string(folder.path().join("merged.json")).expect("written");
    let report: serde_json::Value = serde_json::from_str(&text).expect("json");
    let run = &report["runs"][0];
    let writes = &run["phases"][0]["operations"][0];
    assert_eq!(run["phases"][0]["clients"], 4);
    assert_eq!((writes["name"].as_str(), writes["ok"].as_u64()), (Some("INGESTION"), Some(2 * 6 * 40)));
    let notes = run["notes"].to_string();
    assert!(notes.contains("2 members passed ") && notes.contains("ms apart"), "{notes}");
    assert!(run["stopped"].is_null());
    assert!(!text.contains("open sesame"), "the token is not kept");
}

#[test]
fn a_member_of_another_configuration_is_refused_and_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut coordinator, address) = coordinator(folder.path(), "merged.json");
    let arguments = ["--target", "null", "--set", "POINT_STEP=77", "--cluster-join", &address];
    let output = program(folder.path(), &arguments).output().expect("ended");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    coordinator.kill().expect("ended");
    coordinator.wait().expect("ended");
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("POINT_STEP=77, the coordinator has"), "{said}");
}
