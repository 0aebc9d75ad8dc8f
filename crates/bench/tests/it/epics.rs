//! `millrace-bench epics`, tested through the program.

use std::path::Path;
use std::process::{Command, Output};

fn program(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_millrace-bench")).args(arguments).output().expect("started")
}

fn text(output: &Output) -> String {
    (String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr)).into_owned()
}

#[test]
fn the_generator_runs_alone_and_its_lines_are_the_same_each_time() {
    let counted = program(&["epics", "generate", "--count", "--pvs", "500", "--rate", "50"]);
    let said = text(&counted);
    assert!(counted.status.success() && said.contains("of 500 PVs (published: 1,777,600)"), "{said}");
    assert!(said.contains("analog") && said.contains("samples/s of one core"), "{said}");
    let lines = |seed: &str| program(&["epics", "generate", "--lines", "20", "--seed", seed]).stdout;
    let once = lines("1");
    assert_eq!(once.split(|byte| *byte == b'\n').count(), 21);
    assert!(once == lines("1") && once != lines("2"));
    let wrong = program(&["epics", "--rate", "0"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", text(&wrong));
}

#[test]
fn a_half_hour_at_a_low_rate_is_verified_and_published() {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("epics.json");
    let path = |path: &Path| path.to_str().expect("a path").to_owned();
    let options = ["--pvs", "200", "--rate", "40", "--repeat", "2", "--no-blocks", "--quiet", "--server-memory", "512"];
    let run = program(&[&["epics", "--json", &path(&json)][..], &options].concat());
    let said = text(&run);
    assert!(run.status.success() && said.contains("verification: PASSED"), "{said}");
    let published = program(&["published", "sns", "--from", &path(&json)]);
    let said = text(&published);
    assert!(published.status.success() && said.contains("| inserts, half hour |"), "{said}");
    assert!(said.contains("| no: 71") || said.contains("| no: 72"), "another number of samples: {said}");
}
