//! Data sets in files, tested through the program's exit codes.

use std::path::Path;
use std::process::{Command, Output};

fn program(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace-bench"));
    command.args(["iot", "--quiet", "--set", "FILE_PATH=set", "--set", "LOOP=4", "--set", "SENSOR_NUMBER=5"]);
    for setting in ["DEVICE_NUMBER=6", "DATA_CLIENT_NUMBER=2", "GROUP_NUMBER=2", "INIT_WAIT_TIME=0", "SETTLE_MAX=0"] {
        command.args(["--set", setting]);
    }
    command.args(arguments).env("BENCHMARK_HOME", folder).output().expect("started")
}

#[test]
fn a_data_set_is_regenerated_written_and_refused_for_another_configuration() {
    let folder = tempfile::tempdir().expect("a folder");
    let cases: &[(&str, &[&str], i32, &str)] = &[
        ("generateDataMode", &[], 0, "set: 120 points in 6 files of "),
        ("generateDataMode", &[], 0, "set: 120 points in 6 files of "),
        ("verificationWriteMode", &["--target", "null"], 0, "INGESTION          24 "),
        (
            "verificationWriteMode",
            &["--target", "null", "--set", "DATA_SEED=7"],
            2,
            "expected DATA_SEED=7, as this run",
        ),
        ("verificationQueryMode", &["--target", "null"], 1, "0 of 24 parts of the data could be read back"),
        ("generateDataMode", &["--set", "FILE_PATH=."], 2, "FILE_PATH="),
    ];
    for (mode, arguments, code, said) in cases {
        let mode = format!("BENCHMARK_WORK_MODE={mode}");
        let output = program(folder.path(), &[&["--set", mode.as_str()][..], *arguments].concat());
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(*code), "{mode} {arguments:?}: {text}");
        assert!(text.contains(said), "{mode} {arguments:?}: {text}");
    }
}
