//! `millrace bench published`: figures that other projects have published, next to ours.
//!
//! A published page is a table in code, with the configuration that repeats it. Our figures come
//! only from the `report.json` of runs with that configuration. Measurements without such a run are
//! listed in one line for each source, "not run here".
//!
//! Always true: no figure is extrapolated. A run of a part of the published work states its share,
//! and only figures that do not depend on the amount of work are called comparable. A run that
//! failed its verification gives no figure.

mod hakom;
mod iot_benchmark;
pub(crate) mod mot;
pub(crate) mod sns;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::config::{Config, KEYS};
use crate::error::{Error, Result};
use crate::report::format::whole;
use crate::report::read::Reports;
use crate::result::{Latency, OperationResult, PhaseResult, RunResult};

/// Every published page that the report covers.
const PAGES: &[&Page] = &[&iot_benchmark::USE_CASE, &iot_benchmark::README, &iot_benchmark::TABLE_MODEL];

/// Source of published figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Source {
    /// The pages of IoT-benchmark and IoTDB.
    IotBenchmark,
    /// MOT, the memory-optimised tables of openGauss and MogDB.
    Mot,
    /// The EPICS archiver of the SNS on Hypertable and Oracle.
    Sns,
    /// Load, scaling and compression tests of HAKOM TSM.
    Hakom,
}

/// A published page.
struct Page {
    title: &'static str,
    /// Place and date of the publication.
    source: &'static str,
    /// Hardware of the measurement, in a few words.
    machine: &'static str,
    /// Name of the workload of runs that repeat it.
    workload: &'static str,
    cases: &'static [Case],
}

/// One published measurement.
struct Case {
    name: &'static str,
    /// Command that repeats it, after `millrace`; a target is added.
    command: &'static str,
    /// Configuration file of the command: a run of ours must have had its settings.
    configuration: &'static str,
    /// Number of requests in total.
    requests: u64,
    numbers: fn() -> Vec<Number>,
    /// A caveat for the reader; for a case without numbers, the reason.
    note: &'static str,
}

/// One published number.
struct Number {
    name: String,
    value: f64,
    unit: Unit,
    read: Read,
    amount: Amount,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Unit {
    Count,
    PerSecond,
    Millis,
    Seconds,
    Bytes,
}

/// Dependence of a number on the share of the work that was done.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Amount {
    /// Independent: a part of the work gives the same number.
    Free,
    /// A sum over the work.
    Total,
    /// A latency that grows with the amount of data.
    Grows,
}

/// Location of our figure in a result.
#[derive(Clone, Copy, Debug)]
enum Read {
    OkOperation(&'static str),
    OkPoint(&'static str),
    FailOperation(&'static str),
    FailPoint(&'static str),
    Throughput(&'static str),
    /// Operation, and column of the latency matrix.
    Latency(&'static str, usize),
    Elapsed,
    Disk,
}

impl Number {
    fn new(name: &str, value: f64, unit: Unit, read: Read, amount: Amount) -> Number {
        Number { name: name.to_owned(), value, unit, read, amount }
    }
}

/// The page of published numbers, of one source or of all, with our figures from the reports in
/// `from`.
///
/// # Errors
/// A report cannot be read.
pub(crate) fn text(source: Option<Source>, from: &[PathBuf]) -> Result<String> {
    page(source, &Reports::read(from)?)
}

/// Writes the page of [`text`] to `out`.
///
/// # Errors
/// A report cannot be read, or the page cannot be written.
pub(crate) fn run(source: Option<Source>, from: &[PathBuf], out: &Path) -> Result {
    let text = text(source, from)?;
    if let Some(folder) = out.parent() {
        std::fs::create_dir_all(folder)
            .map_err(|error| Error::setup(format!("{}: cannot be created: {error}", folder.display())))?;
    }
    std::fs::write(out, text).map_err(|error| Error::setup(format!("{}: cannot be written: {error}", out.display())))
}

const HEAD: &str = "\
# Published figures, and ours

Written by `millrace bench published --from REPORT…`; changes by hand are lost.

- *Ours* comes from runs of the same configuration file, verified; product and processors stand beside it.
- **Nothing is multiplied.** Our machine is smaller than most of theirs. *CPU per unit* is what lets machines be compared:
  processor time of the server, which those pages do not give.
- *measured*: the same settings, all of the work. *scaled*: the same settings, a part of the work; rates and latencies of
  requests stand for themselves, sums over the work and latencies that grow with the data do not.
- Their elapsed times include connecting and at least a second of waiting at the end; ours go from the first request to
  the last answer. Their latencies include putting rows into the product's form; ours do not.
";

const TABLE_HEAD: &str = "\
| figure | published | ours | CPU per unit | comparable? |
|---|---:|---:|---|---|
";

/// Measurements of a source that no run of ours repeats. Their numbers mean little alone, so they
/// share one line.
#[derive(Default)]
struct NotRun(Vec<String>);

impl NotRun {
    fn add(&mut self, name: &str, figures: usize, command: &str) {
        self.0.push(format!("{name} ({figures} figures, `millrace {command}`)"));
    }

    fn write(&self, text: &mut String) {
        if !self.0.is_empty() {
            let _ = write!(text, "\nNot run here: {}.\n", self.0.join("; "));
        }
    }
}

fn page(source: Option<Source>, reports: &Reports) -> Result<String> {
    let mut text = HEAD.to_owned();
    let has = |of: Source| source.is_none_or(|source| source == of);
    for page in PAGES.iter().filter(|_| has(Source::IotBenchmark)) {
        let Page { title, source: place, machine, cases, .. } = page;
        let _ = write!(text, "\n## {title}\n\nSource: {place}. Their machine: {machine}.\n");
        let mut not_run = NotRun::default();
        for case in *cases {
            let runs = reports.runs.iter().filter(|run| run.workload == page.workload);
            case.write(runs, &mut text, &mut not_run)?;
        }
        not_run.write(&mut text);
    }
    if has(Source::Mot) {
        mot::write(reports, &mut text);
    }
    if has(Source::Sns) {
        sns::write(reports, &mut text);
    }
    if has(Source::Hakom) {
        hakom::write(reports, &mut text);
    }
    Ok(text)
}

impl Case {
    fn write<'a>(&self, runs: impl Iterator<Item = &'a RunResult>, text: &mut String, not_run: &mut NotRun) -> Result {
        let numbers = (self.numbers)();
        let settings = self.settings()?;
        let ours: Vec<Ours<'_>> = runs.filter_map(|run| Ours::of(run, self, &settings)).collect();
        if ours.is_empty() && !numbers.is_empty() {
            not_run.add(self.name, numbers.len(), self.command);
            return Ok(());
        }
        let _ = write!(text, "\n### {}\n", self.name);
        if !self.note.is_empty() {
            let _ = write!(text, "\n{}\n", self.note);
        }
        if numbers.is_empty() {
            let _ = write!(text, "\nOur command: `millrace {}`. Comparable: impossible.\n", self.command);
            return Ok(());
        }
        let _ = write!(text, "\nOur command: `millrace {}`.\n\n{TABLE_HEAD}", self.command);
        for number in &numbers {
            let (name, published) = (&number.name, number.unit.show(number.value));
            for ours in &ours {
                let (value, comparable) = ours.compare(number);
                let cpu = ours.cpu_per_unit(number.read);
                let _ = writeln!(text, "| {name} | {published} | {value} | {cpu} | {comparable} |");
            }
        }
        Ok(())
    }

    /// Returns the configuration keys that a run must have in common with the case, with their
    /// values.
    fn settings(&self) -> Result<Vec<(&'static str, String)>> {
        let config = Config::from_text(self.configuration, self.command)?;
        let counts = |name: &str| config.source_of(name).is_some() && !FREE_KEYS.contains(&name);
        let keys = KEYS.iter().filter(|key| counts(key.name));
        Ok(keys.map(|key| (key.name, key.display_value(&config))).collect())
    }

    fn only_writes(&self) -> bool {
        self.configuration.lines().any(|line| {
            line.strip_prefix("OPERATION_PROPORTION=1:").is_some_and(|rest| rest.split(':').all(|share| share == "0"))
        })
    }
}

/// Keys that set the target or the length of a run, or apply to a single product: a run may have
/// other values.
const FREE_KEYS: [&str; 8] =
    ["LOOP", "DB_SWITCH", "HOST", "PORT", "IS_DELETE_DATA", "VECTOR", "IoTDB_DIALECT_MODE", "IoTDB_TABLE_NUMBER"];
/// Keys that must be unset: at a fixed rate, throughput is no longer a capacity.
const RATES: [&str; 2] = ["RATE", "POINT_RATE"];

/// A run of ours that repeats a case, completely or in part.
struct Ours<'a> {
    run: &'a RunResult,
    /// Share of the published requests; `None`: all of them.
    share: Option<f64>,
    /// The published run only wrote data.
    only_writes: bool,
}

impl Ours<'_> {
    fn of<'a>(run: &'a RunResult, case: &Case, settings: &[(&'static str, String)]) -> Option<Ours<'a>> {
        let value = |name: &str| run.configuration.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let number = |name: &str| value(name).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
        let same = settings.iter().all(|(key, expected)| value(key) == Some(expected.as_str()));
        let paced = RATES.iter().any(|key| number(key) > 0.0);
        // A run that measures each kind of query separately is not a mix.
        let mixed = case.only_writes() || number("QUERY_COUNT") == 0.0;
        if !same || paced || !mixed {
            return None;
        }
        let requests: u64 = run.phases.iter().flat_map(|phase| &phase.operations).map(|o| o.ok + o.failed).sum();
        let asked = Config::from_text(case.configuration, case.command).map_or(0, |config| config.loop_);
        let whole = number("LOOP") == asked as f64 && number("RUN_SECONDS") == 0.0 && run.stopped.is_none();
        let share = (!whole).then(|| requests as f64 / case.requests as f64);
        Some(Ours { run, share, only_writes: case.only_writes() })
    }

    /// Returns the phase that completed most of an operation, and its figures.
    fn operation(&self, name: &str) -> Option<(&PhaseResult, &OperationResult)> {
        let of = |phase| -> Option<(&PhaseResult, &OperationResult)> {
            let phase: &PhaseResult = phase;
            phase.operations.iter().find(|operation| operation.name == name).map(|operation| (phase, operation))
        };
        self.run.phases.iter().filter_map(of).filter(|(_, o)| o.ok + o.failed > 0).max_by_key(|(_, o)| o.ok)
    }

    fn value(&self, read: Read) -> Option<f64> {
        let operation = |name| self.operation(name).map(|(_, operation)| operation);
        match read {
            Read::OkOperation(name) => operation(name).map(|o| o.ok as f64),
            Read::OkPoint(name) => operation(name).map(|o| o.ok_points as f64),
            Read::FailOperation(name) => operation(name).map(|o| o.failed as f64),
            Read::FailPoint(name) => operation(name).map(|o| o.failed_points as f64),
            Read::Throughput(name) => operation(name).map(|o| o.throughput),
            Read::Latency(name, column) => operation(name).map(|o| column_of(&o.latency_ms, column)),
            // Queries ran in later phases.
            Read::Elapsed if self.only_writes => self.operation("INGESTION").map(|(phase, _)| phase.elapsed_s),
            Read::Elapsed => {
                let busy = |phase: &&PhaseResult| phase.operations.iter().any(|o| o.ok + o.failed > 0);
                let mut phases = self.run.phases.iter().filter(busy);
                // With several phases, no single elapsed time exists.
                phases.next().filter(|_| phases.next().is_none()).map(|phase| phase.elapsed_s)
            }
            Read::Disk => self.run.server.as_ref().filter(|s| s.settled_bytes > 0).map(|s| s.settled_bytes as f64),
        }
    }

    /// Returns our figure with its product and processors, and whether it is comparable.
    fn compare(&self, number: &Number) -> (String, String) {
        let run = self.run;
        let run_label = format!("{} {}, {} processors", run.target.product, run.target.version, run.machine.cpus);
        if run.verification.on && !run.verification.passed {
            return (format!("– ({run_label})"), "no: verification failed".to_owned());
        }
        let Some(value) = self.value(number.read) else {
            return (format!("– ({run_label})"), "no: not in this run".to_owned());
        };
        let mut comparable = match (self.share, number.amount) {
            (None, _) => "measured".to_owned(),
            (Some(share), Amount::Free) => format!("scaled: {} of the requests", percent(share)),
            (Some(share), Amount::Total) => format!("no: a sum over {} of the requests", percent(share)),
            (Some(share), Amount::Grows) => {
                format!("no: it grows with the data, and the run did {} of the requests", percent(share))
            }
        };
        if !run.verification.on {
            comparable.push_str("; not verified");
        }
        if self.client_bound(number.read) {
            comparable.push_str("; limited by this tool");
        }
        (format!("{} ({run_label})", number.unit.show(value)), comparable)
    }

    fn client_bound(&self, read: Read) -> bool {
        let (Read::Throughput(name) | Read::Latency(name, _)) = read else { return false };
        self.operation(name).is_some_and(|(phase, _)| phase.client_bound)
    }

    /// Server CPU for a unit of work, for throughputs and mean latencies; empty if it cannot be
    /// attributed to one operation.
    fn cpu_per_unit(&self, read: Read) -> String {
        let (Read::Throughput(name) | Read::Latency(name, 0)) = read else { return String::new() };
        if self.run.verification.on && !self.run.verification.passed {
            return String::new();
        }
        let Some((phase, operation)) = self.operation(name) else { return String::new() };
        let alone = phase.operations.iter().filter(|o| o.ok + o.failed > 0).count() == 1;
        let settled = self.run.server.as_ref().filter(|s| name == "INGESTION" && s.points_per_cpu_s > 0.0);
        let cpu = phase.server_cpu_s.filter(|cpu| alone && *cpu > 0.0 && operation.ok > 0);
        match (read, settled, cpu) {
            (Read::Throughput(_), Some(server), _) => {
                format!("{} points/CPU-s, settled", whole(server.points_per_cpu_s as u64))
            }
            (Read::Throughput(_), None, Some(cpu)) => {
                format!("{} points/CPU-s", whole((operation.ok_points as f64 / cpu) as u64))
            }
            (Read::Latency(..), _, Some(cpu)) => format!("{:.3} CPU-ms/request", cpu * 1e3 / operation.ok as f64),
            _ => String::new(),
        }
    }
}

fn column_of(latency: &Latency, column: usize) -> f64 {
    let l = latency;
    [l.avg, l.min, l.p10, l.p25, l.median, l.p75, l.p90, l.p95, l.p99, l.p999, l.max, l.slowest_thread][column]
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let decimals = if percent >= 10.0 { 0 } else { 2 };
    format!("{percent:.decimals$} %")
}

impl Unit {
    /// Formats with two decimals, like the original, and with thousands separators.
    fn show(self, value: f64) -> String {
        let grouped =
            |value: f64| format!("{}.{:02}", whole(value as u64), (value.fract() * 100.0).round() as u64 % 100);
        match self {
            Unit::Count => whole(value as u64),
            Unit::PerSecond => format!("{} /s", grouped(hundredths(value))),
            Unit::Millis => format!("{} ms", grouped(hundredths(value))),
            Unit::Seconds => format!("{} s", grouped(hundredths(value))),
            Unit::Bytes => format!("{:.1} GiB", value / (1u64 << 30) as f64),
        }
    }
}

/// Rounds first, so that the decimals do not carry into the integer part.
fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests;
