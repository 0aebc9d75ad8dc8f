//! `test`: the tests of CI, in an order that fails early.
//!
//! Crates below `query` come first: they build without DataFusion, so their errors show within a minute. Output is one
//! line for each test program; the output of a failed program is shown in full.

use std::io::{BufRead, BufReader};
use std::process::Command;
use std::time::Instant;

use crate::run::{cargo, nothing_left, show};
use crate::{Result, model, tidy, tools};

/// Crates that must be testable without DataFusion.
const BELOW_QUERY: &[&str] = &[
    "model",
    "catalog",
    "parser",
    "scalar",
    "binder",
    "timeseries",
    "workbook",
    "env",
    "wal",
    "columns",
    "rows",
    "compiled",
    "engine",
    "ingest",
    "pg",
    "pg_catalog",
    "epics",
    "sim",
];
/// `bench` measures the program of `millrace`, and is in the same call of cargo: alone, each would select other features of
/// Arrow, and DataFusion would be built once more.
const FROM_QUERY: &[&str] = &["relational", "query", "server", "archiver", "tsm", "millrace", "xtask", "bench"];
/// Schedules of each kind for each program of `model`; takes seconds.
const SCHEDULES: u64 = 500;

/// Tidy, the crates below `query`, the thread models, then the rest with real clients and peers. Ends with a
/// summary.
pub(crate) fn run(arguments: &[String]) -> Result {
    nothing_left(arguments)?;
    let started = Instant::now();
    tidy::run()?;
    let tools = tools::fetch_all()?;
    let mut summary = Summary::default();
    for (name, mut command) in [
        ("below query", tests_of(BELOW_QUERY)),
        ("models of threads", model::command(SCHEDULES)),
        ("query and above, the benchmark", tests_of(FROM_QUERY)),
    ] {
        let stage = Instant::now();
        run_tests(tools.tell(&mut command), &mut summary)?;
        println!("test: {name}: {} s", stage.elapsed().as_secs());
    }
    println!(
        "test: {} passed, {} failed, {} ignored in {} programs; {} s",
        summary.passed,
        summary.failed,
        summary.ignored,
        summary.programs,
        started.elapsed().as_secs()
    );
    println!("{} passed, {} failed", summary.passed, summary.failed);
    if summary.broken.is_empty() { Ok(()) } else { Err(format!("failed: {}", summary.broken.join(", "))) }
}

fn tests_of(packages: &[&str]) -> Command {
    let mut command = cargo(&["test", "--locked", "--no-fail-fast", "--lib", "--bins", "--tests"]);
    for package in packages {
        command.args(["--package", package]);
    }
    command
}

#[derive(Default)]
struct Summary {
    programs: u64,
    passed: u64,
    failed: u64,
    ignored: u64,
    broken: Vec<String>,
}

/// Runs one `cargo test`. Prints the result line of each test program, and the whole output of one that failed.
fn run_tests(command: &mut Command, summary: &mut Summary) -> Result {
    let shown = show(command);
    let (reader, writer) = std::io::pipe().map_err(|error| format!("pipe: {error}"))?;
    let second = writer.try_clone().map_err(|error| format!("pipe: {error}"))?;
    let mut child =
        command.stdout(writer).stderr(second).spawn().map_err(|error| format!("cannot start `{shown}`: {error}"))?;
    // The command's own ends of the pipe must be replaced, or reading would never end.
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let before = summary.failed;
    let mut program = Program::default();
    for line in BufReader::new(reader).split(b'\n') {
        let line = line.map_err(|error| format!("reading from `{shown}`: {error}"))?;
        program.take(String::from_utf8_lossy(&line).into_owned(), summary);
    }
    let status = child.wait().map_err(|error| format!("waiting for `{shown}`: {error}"))?;
    if status.success() {
        return Ok(());
    }
    // No result line at all: it does not compile, or a test program was killed.
    if summary.failed == before {
        program.dump();
        summary.broken.push(format!("`{shown}` ({status})"));
    }
    Ok(())
}

/// The test program whose output is being read.
#[derive(Default)]
struct Program {
    name: String,
    lines: Vec<String>,
    progress: u64,
}

impl Program {
    fn take(&mut self, line: String, summary: &mut Summary) {
        let text = line.trim_start();
        if let Some(name) = text.strip_prefix("Running ").or_else(|| text.strip_prefix("Doc-tests ")) {
            *self = Program { name: short_name(name), ..Program::default() };
        } else if let Some(result) = line.strip_prefix("test result: ") {
            println!("{:<28} {line}", self.name);
            let broken = self.count(result, summary);
            if broken {
                self.dump();
                summary.broken.push(self.name.clone());
            }
            self.lines.clear();
        } else if text.starts_with("Compiling ") {
            // A cold build takes minutes; shows progress without listing every crate.
            self.progress += 1;
            if self.progress.is_multiple_of(50) {
                println!("  … {} crates compiled, now{}", self.progress, text.trim_start_matches("Compiling"));
            }
        } else {
            self.lines.push(line);
        }
    }

    fn count(&self, result: &str, summary: &mut Summary) -> bool {
        let number = |what: &str| -> u64 {
            let before = result.split(what).next().unwrap_or_default();
            before.split_whitespace().next_back().and_then(|word| word.parse().ok()).unwrap_or(0)
        };
        summary.programs += 1;
        summary.passed += number(" passed");
        summary.failed += number(" failed");
        summary.ignored += number(" ignored");
        !result.starts_with("ok")
    }

    fn dump(&self) {
        for line in &self.lines {
            // Lines of passed tests are not kept.
            if !(line.starts_with("test ") && line.ends_with("... ok")) {
                println!("{line}");
            }
        }
    }
}

/// `unittests src/lib.rs (/…/deps/wal-0123456789abcdef)` is `wal`; `tests/it/main.rs (/…/it-…)` is `it`.
fn short_name(running: &str) -> String {
    let file = running.rsplit('/').next().unwrap_or(running).trim_end_matches(')');
    match file.rsplit_once('-') {
        Some((name, _)) if running.contains("unittests") => name.to_owned(),
        Some((name, _)) => format!("{name} (integration)"),
        None => format!("{file} (doc)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bug: tests of a new crate ran in no stage. Fix: every crate must be in one.
    #[test]
    fn every_crate_is_in_a_stage() {
        let folder = crate::run::root().join("crates");
        for crate_folder in std::fs::read_dir(folder).expect("the crates") {
            let name = crate_folder.expect("an entry").file_name();
            let listed = [BELOW_QUERY, FROM_QUERY].concat().iter().any(|listed| **listed == *name);
            assert!(listed, "{} is in no stage of `xtask test`", name.display());
        }
    }

    #[test]
    fn closing_lines_are_counted_and_a_failing_program_is_named() {
        let mut summary = Summary::default();
        let mut program = Program::default();
        let lines = [
            "     Running unittests src/lib.rs (/t/deps/wal-0123456789abcdef)",
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.02s",
            "     Running tests/it/main.rs (/t/deps/it-0123456789abcdef)",
            "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.02s",
        ];
        for line in lines {
            program.take(line.to_owned(), &mut summary);
        }
        assert_eq!((summary.passed, summary.failed, summary.ignored, summary.programs), (15, 2, 1, 2));
        assert_eq!(summary.broken, ["it (integration)"]);
    }
}
