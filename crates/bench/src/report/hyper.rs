//! Results as a Tableau `.hyper` file.
//!
//! Only Tableau's own library writes this format, and it exists for Python, C++ and Java. A Python
//! child process with the package `tableauhyperapi` receives the tables as JSON and writes the
//! file. docs/manual/benchmark-results.md lists other ways to import results into Tableau.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::json::Report;
use super::matrix;
use crate::error::{Error, Result};
use crate::result::{Latency, OperationResult, PhaseResult, ResourceSample, RunResult};

const SCRIPT: &str = include_str!("hyper/export.py");
/// Version of the package that is tested.
pub(crate) const PACKAGE: &str = "tableauhyperapi==0.0.26963";
/// Exit status of the script if the package is missing.
const NO_PACKAGE: i32 = 3;

/// Writes the tables of [`tables`] to `path`.
///
/// - `python`: a Python with the package; `None`: the installed peers' Python if there is one, else
///   `python3`.
pub(crate) fn write(report: &Report, path: &Path, python: Option<&Path>) -> Result {
    let path = std::path::absolute(path).map_err(|error| Error::setup(format!("{}: {error}", path.display())))?;
    let text = path.to_str().ok_or_else(|| Error::setup(format!("{}: not a name in UTF-8", path.display())))?;
    let python = python.map(PathBuf::from).or_else(|| crate::peers::python().ok()).unwrap_or_else(|| "python3".into());
    let order = json!({ "path": text, "tables": tables(report) });
    run_script(&python, &order.to_string()).map_err(|error| error.during(path.display()))
}

fn run_script(python: &Path, order: &str) -> Result {
    let install = format!("install it: {} -m pip install {PACKAGE}", python.display());
    let mut child = Command::new(python)
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| Error::setup(format!("{} does not start: {error}", python.display())))?;
    // Ignore a broken pipe: if the child ended early, its stderr has the reason.
    let sent = child.stdin.take().map(|mut stdin| stdin.write_all(order.as_bytes()));
    let output = child.wait_with_output().map_err(|error| Error::setup(format!("{}: {error}", python.display())))?;
    let said = String::from_utf8_lossy(&output.stderr);
    match (output.status.code(), sent) {
        (Some(0), Some(Ok(()))) => Ok(()),
        (Some(NO_PACKAGE), _) => Err(Error::setup(format!(
            "{} has no tableauhyperapi, which writes Tableau's format; {install}, or name a Python that has it (--python)",
            python.display()
        ))),
        _ => Err(Error::setup(format!(
            "{} with tableauhyperapi ended with {}: {}",
            python.display(),
            output.status,
            said.trim()
        ))),
    }
}

/// A table: its columns with their types, and its rows.
fn table(name: &str, columns: &[(&str, &str)], rows: Vec<Vec<Value>>) -> Value {
    debug_assert!(rows.iter().all(|row| row.len() == columns.len()), "BUG: {name}: a row is not as long as its header");
    json!({ "name": name, "columns": columns, "rows": rows })
}

/// All tables of a report. Their column `run` is the number of the run, counted from 1.
fn tables(report: &Report) -> Vec<Value> {
    let runs = || (1..).zip(&report.runs);
    vec![
        table("runs", RUN_COLUMNS, runs().map(|(number, run)| run_row(number, run)).collect()),
        table("operations", OPERATION_COLUMNS, runs().flat_map(|(number, run)| operation_rows(number, run)).collect()),
        table("seconds", SECOND_COLUMNS, runs().flat_map(|(number, run)| second_rows(number, run)).collect()),
        table("resources", RESOURCE_COLUMNS, runs().flat_map(|(number, run)| resource_rows(number, run)).collect()),
        table("checks", CHECK_COLUMNS, runs().flat_map(|(number, run)| check_rows(number, run)).collect()),
        table("failures", FAILURE_COLUMNS, runs().flat_map(|(number, run)| failure_rows(number, run)).collect()),
        table("remarks", REMARK_COLUMNS, runs().flat_map(|(number, run)| remark_rows(number, run)).collect()),
        table("configuration", PAIR_COLUMNS, runs().flat_map(|(number, run)| pair_rows(number, run)).collect()),
    ]
}

const RUN_COLUMNS: &[(&str, &str)] = &[
    ("run", "int"),
    ("started", "time"),
    ("workload", "text"),
    ("target", "text"),
    ("product", "text"),
    ("version", "text"),
    ("write_path", "text"),
    ("durability", "text"),
    ("durable", "bool"),
    ("proof", "text"),
    ("tool", "text"),
    ("command", "text"),
    ("cpus", "int"),
    ("cpu", "text"),
    ("memory_bytes", "int"),
    ("kernel", "text"),
    ("schema_s", "double"),
    ("elapsed_s", "double"),
    ("verification_on", "bool"),
    ("verification_passed", "bool"),
    ("points_expected", "int"),
    ("points_found", "int"),
    ("points_lost", "int"),
    ("points_surplus", "int"),
    ("stopped", "text"),
    ("points", "int"),
    ("write_cpu_s", "double"),
    ("points_per_cpu_s", "double"),
    ("settled", "bool"),
    ("settled_bytes", "int"),
    ("bytes_per_point", "double"),
    ("settling_s", "double"),
    ("rss_bytes_max", "int"),
    ("written_bytes", "int"),
];

fn run_row(number: u32, run: &RunResult) -> Vec<Value> {
    let (target, machine, verification) = (&run.target, &run.machine, &run.verification);
    let server = run.server.as_ref();
    let figures = server.filter(|_| matrix::throughput_shown(run));
    // Hyper requires times with an offset; a malformed time is left out.
    let started =
        run.started.parse::<jiff::Timestamp>().ok().map(|time| time.strftime("%Y-%m-%dT%H:%M:%S+00:00").to_string());
    vec![
        number.into(),
        started.into(),
        run.workload.as_str().into(),
        target.name.as_str().into(),
        target.product.as_str().into(),
        target.version.as_str().into(),
        target.write_path.as_str().into(),
        target.durability.as_str().into(),
        target.durable.into(),
        target.proof.as_str().into(),
        run.tool.as_str().into(),
        run.command.join(" ").into(),
        machine.cpus.into(),
        machine.cpu.as_str().into(),
        machine.memory_bytes.into(),
        machine.kernel.as_str().into(),
        run.schema_s.into(),
        matrix::elapsed_s(run).into(),
        verification.on.into(),
        verification.passed.into(),
        verification.points_expected.into(),
        verification.points_found.into(),
        verification.lost.into(),
        verification.surplus.into(),
        run.stopped.clone().into(),
        server.map(|server| server.points).into(),
        server.map(|server| server.write_cpu_s).into(),
        figures.map(|server| server.points_per_cpu_s).into(),
        server.map(|server| server.settled).into(),
        server.map(|server| server.settled_bytes).into(),
        figures.map(|server| server.bytes_per_point).into(),
        server.map(|server| server.settling_s).into(),
        server.map(|server| server.rss_bytes_max).into(),
        server.map(|server| server.written_bytes).into(),
    ]
}

const OPERATION_COLUMNS: &[(&str, &str)] = &[
    ("run", "int"),
    ("phase", "text"),
    ("clients", "int"),
    ("rate", "double"),
    ("elapsed_s", "double"),
    ("client_bound", "bool"),
    ("operation", "text"),
    ("stored_name", "text"),
    ("ok", "int"),
    ("ok_points", "int"),
    ("failed", "int"),
    ("failed_points", "int"),
    ("throughput", "double"),
    ("avg_ms", "double"),
    ("min_ms", "double"),
    ("p10_ms", "double"),
    ("p25_ms", "double"),
    ("median_ms", "double"),
    ("p75_ms", "double"),
    ("p90_ms", "double"),
    ("p95_ms", "double"),
    ("p99_ms", "double"),
    ("p999_ms", "double"),
    ("max_ms", "double"),
    ("slowest_thread_ms", "double"),
    ("service_median_ms", "double"),
    ("service_p99_ms", "double"),
    ("service_max_ms", "double"),
    ("example", "text"),
    ("note", "text"),
];

fn operation_rows(number: u32, run: &RunResult) -> Vec<Vec<Value>> {
    let shown = matrix::throughput_shown(run);
    let row = |phase: &PhaseResult, operation: &OperationResult| {
        let mut row: Vec<Value> = vec![
            number.into(),
            phase.name.as_str().into(),
            phase.clients.into(),
            phase.rate.into(),
            phase.elapsed_s.into(),
            phase.client_bound.into(),
            operation.name.as_str().into(),
            operation.stored_name.as_str().into(),
            operation.ok.into(),
            operation.ok_points.into(),
            operation.failed.into(),
            operation.failed_points.into(),
            shown.then_some(operation.throughput).into(),
        ];
        // Without operations the latency is null, not 0.
        let latency = |value: f64| Value::from((shown && operation.ok > 0).then_some(value));
        row.extend(matrix::latency_values(&operation.latency_ms).map(|(_, value)| latency(value)));
        let Latency { median, p99, max, .. } = operation.service_ms;
        row.extend([median, p99, max].map(latency));
        row.extend([operation.example.clone().into(), operation.note.clone().into()]);
        row
    };
    let rows = |phase| phase_rows(phase, row);
    run.phases.iter().flat_map(rows).collect()
}

fn phase_rows(phase: &PhaseResult, row: impl Fn(&PhaseResult, &OperationResult) -> Vec<Value>) -> Vec<Vec<Value>> {
    phase.operations.iter().map(|operation| row(phase, operation)).collect()
}

const SECOND_COLUMNS: &[(&str, &str)] = &[
    ("run", "int"),
    ("at_s", "int"),
    ("phase", "text"),
    ("operation", "text"),
    ("ok", "int"),
    ("points", "int"),
    ("failed", "int"),
    ("p50_ms", "double"),
    ("p99_ms", "double"),
    ("max_ms", "double"),
];

fn second_rows(number: u32, run: &RunResult) -> Vec<Vec<Value>> {
    if !matrix::throughput_shown(run) {
        return Vec::new();
    }
    let row = |second: &crate::result::Second| {
        let phase = run.phases.get(second.phase as usize);
        let operation = phase.and_then(|phase| phase.operations.get(second.kind as usize));
        vec![
            number.into(),
            second.at_s.into(),
            phase.map(|phase| phase.name.as_str()).into(),
            operation.map(|operation| operation.name.as_str()).into(),
            second.ok.into(),
            second.points.into(),
            second.failed.into(),
            second.p50_ms.into(),
            second.p99_ms.into(),
            second.max_ms.into(),
        ]
    };
    run.seconds.iter().map(row).collect()
}

const RESOURCE_COLUMNS: &[(&str, &str)] = &[
    ("run", "int"),
    ("at_s", "double"),
    ("server_cores", "double"),
    ("server_cpu_s", "double"),
    ("server_rss_bytes", "int"),
    ("server_read_bytes", "int"),
    ("server_written_bytes", "int"),
    ("data_bytes", "int"),
    ("client_cpu_s", "double"),
    ("host_cpu_s", "double"),
    ("host_memory_bytes", "int"),
    ("host_read_bytes", "int"),
    ("host_written_bytes", "int"),
    ("host_received_bytes", "int"),
    ("host_sent_bytes", "int"),
];

fn resource_rows(number: u32, run: &RunResult) -> Vec<Vec<Value>> {
    let befores = std::iter::once(None).chain(run.resources.iter().map(Some));
    let row = |(before, sample): (Option<&ResourceSample>, &ResourceSample)| {
        vec![
            number.into(),
            sample.at_s.into(),
            before.and_then(|before| cores(before, sample)).into(),
            sample.server_cpu_s.into(),
            sample.server_rss_bytes.into(),
            sample.server_read_bytes.into(),
            sample.server_written_bytes.into(),
            sample.data_bytes.into(),
            sample.client_cpu_s.into(),
            sample.host_cpu_s.into(),
            sample.host_memory_bytes.into(),
            sample.host_read_bytes.into(),
            sample.host_written_bytes.into(),
            sample.host_received_bytes.into(),
            sample.host_sent_bytes.into(),
        ]
    };
    befores.zip(&run.resources).map(row).collect()
}

/// Average processors that the server used between two samples.
fn cores(before: &ResourceSample, sample: &ResourceSample) -> Option<f64> {
    let span_s = sample.at_s - before.at_s;
    if span_s > 0.0 { Some((sample.server_cpu_s? - before.server_cpu_s?) / span_s) } else { None }
}

const CHECK_COLUMNS: &[(&str, &str)] = &[
    ("run", "int"),
    ("operation", "text"),
    ("answers", "int"),
    ("checked", "int"),
    ("wrong", "int"),
    ("undecided", "int"),
];

fn check_rows(number: u32, run: &RunResult) -> Vec<Vec<Value>> {
    let answers = run.verification.answers.iter();
    let row = |checked: &crate::result::Checked| {
        let counts = [checked.answers, checked.checked, checked.wrong, checked.undecided];
        let mut row: Vec<Value> = vec![number.into(), checked.name.as_str().into()];
        row.extend(counts.map(Value::from));
        row
    };
    answers.map(row).collect()
}

const FAILURE_COLUMNS: &[(&str, &str)] =
    &[("run", "int"), ("operation", "text"), ("class", "text"), ("count", "int"), ("first", "text")];

fn failure_rows(number: u32, run: &RunResult) -> Vec<Vec<Value>> {
    let row = |failure: &crate::result::Failure| {
        let (operation, class, first) = (failure.operation.as_str(), failure.class.as_str(), failure.first.as_str());
        vec![number.into(), operation.into(), class.into(), failure.count.into(), first.into()]
    };
    run.failures.iter().map(row).collect()
}

const REMARK_COLUMNS: &[(&str, &str)] = &[("run", "int"), ("kind", "text"), ("text", "text")];

fn remark_rows(number: u32, run: &RunResult) -> Vec<Vec<Value>> {
    let notes = run.notes.iter().map(|note| ("note", note));
    let findings = run.verification.findings.iter().map(|finding| ("finding", finding));
    notes.chain(findings).map(|(kind, text)| vec![number.into(), kind.into(), text.as_str().into()]).collect()
}

const PAIR_COLUMNS: &[(&str, &str)] = &[("run", "int"), ("key", "text"), ("value", "text")];

fn pair_rows(number: u32, run: &RunResult) -> Vec<Vec<Value>> {
    run.configuration
        .iter()
        .map(|(key, value)| vec![number.into(), key.as_str().into(), value.as_str().into()])
        .collect()
}

#[cfg(test)]
mod tests;
