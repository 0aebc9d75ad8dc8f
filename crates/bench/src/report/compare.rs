//! Compares runs: ratios with confidence intervals, and a check that the runs did the same work.
//!
//! A *side* is the set of repeats of one target; the first side is the base. Sides that did
//! different work are compared anyway, but the report first says that they are not comparable, and
//! why.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use super::charts::Unit;
use super::format::{percent, times};
use super::json::Report;
use super::statistics::{self, Estimate, REPEATS_GOOD, REPEATS_MIN};
use super::{busy, matrix, series};
use crate::config;
use crate::error::{Error, Result};
use crate::result::{Latency, RunResult};

/// Sections of the configuration that describe targets and outputs. Keys of all other sections
/// determine the work.
const NOT_THE_WORK: [&str; 5] =
    ["Database under test", "Two databases", "Settings of single products", "Output", "Server monitor"];
/// Keys that hold the address of a target.
const ADDRESSES: [&str; 4] = ["DB_SWITCH", "HOST", "PORT", "DB_NAME"];
/// Maximum number of differing keys named in one line; the table lists all.
const NAMED_MAX: usize = 5;

/// Runs of one argument of `millrace bench compare`.
#[derive(Debug)]
pub(crate) struct Source {
    /// Used in the label if sides are otherwise alike.
    pub(crate) name: String,
    pub(crate) runs: Vec<RunResult>,
}

/// Reads the arguments. Each one is a file, or several files separated by commas, which are repeats
/// of each other.
pub(crate) fn read(arguments: &[String]) -> Result<Vec<Source>> {
    let source = |argument: &String| {
        let mut runs = Vec::new();
        for file in argument.split(',') {
            runs.extend(Report::read(Path::new(file))?.runs);
        }
        if runs.is_empty() {
            return Err(Error::setup(format!("{argument}: contains no run")));
        }
        Ok(Source { name: argument.clone(), runs })
    };
    arguments.iter().map(source).collect()
}

/// The repeats of one target.
#[derive(Debug)]
pub(crate) struct Side<'a> {
    /// Human-readable and unique among the sides.
    pub(crate) label: String,
    /// In order of execution; at least one.
    pub(crate) runs: Vec<&'a RunResult>,
}

/// Groups the runs of each source by target and settings. Sides are in order of first occurrence.
pub(crate) fn sides(sources: &[Source]) -> Vec<Side<'_>> {
    let mut found: Vec<(usize, Vec<&RunResult>)> = Vec::new();
    for (number, source) in sources.iter().enumerate() {
        for run in &source.runs {
            match found.iter_mut().find(|(of, runs)| *of == number && is_repeat(runs[0], run)) {
                Some((_, runs)) => runs.push(run),
                None => found.push((number, vec![run])),
            }
        }
    }
    let names = found.iter().map(|(number, runs)| (runs[0], sources[*number].name.as_str()));
    let labels = labels(&names.collect::<Vec<_>>());
    found.into_iter().zip(labels).map(|((_, runs), label)| Side { label, runs }).collect()
}

/// Returns whether two runs are repeats: the same product, used in the same way for the same work.
/// Addresses are ignored, because a private server has new ports each time.
fn is_repeat(a: &RunResult, b: &RunResult) -> bool {
    let what = |run: &RunResult| {
        let target = &run.target;
        let options = target.url.split_once('?').map_or("", |(_, options)| options);
        let texts = [&target.name, &target.version, &target.write_path, &target.durability, &run.workload, options];
        texts.map(str::to_owned)
    };
    let is_place =
        |key: &String| ADDRESSES.contains(&key.as_str()) || ["Output", "Server monitor"].contains(&section(key));
    what(a) == what(b) && differing_keys(a, b).iter().all(is_place)
}

/// Labels of product and version, with further details where needed to make them unique.
fn labels(runs: &[(&RunResult, &str)]) -> Vec<String> {
    let mut labels: Vec<String> = runs.iter().map(|(run, _)| run_label(run)).collect();
    let more: [&dyn Fn(usize) -> String; 3] =
        [&|at| runs[at].0.target.write_path.clone(), &|at| runs[at].1.to_owned(), &|at| format!("{}", at + 1)];
    for addition in more {
        let before = labels.clone();
        for at in 0..labels.len() {
            let alike: Vec<usize> = (0..labels.len()).filter(|other| before[*other] == before[at]).collect();
            if alike.iter().any(|other| addition(*other) != addition(at)) {
                labels[at] = format!("{} ({})", labels[at], addition(at));
            }
        }
    }
    labels
}

fn run_label(run: &RunResult) -> String {
    format!("{} {}", run.target.product, run.target.version).trim().to_owned()
}

/// Whether higher or lower values of a metric are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    Higher,
    Lower,
}

/// Result of comparing a side with the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    Better,
    Worse,
    /// The confidence interval contains 1.
    Same,
    /// No confidence interval is available.
    Unknown,
}

impl Finding {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Finding::Better => "better",
            Finding::Worse => "worse",
            Finding::Same => "no difference shown",
            Finding::Unknown => "",
        }
    }
}

/// One metric of all sides.
#[derive(Debug)]
pub(crate) struct Metric {
    pub(crate) name: String,
    pub(super) unit: Unit,
    pub(crate) better: Better,
    /// Values by side, then by run; runs without the metric are left out.
    pub(crate) values: Vec<Vec<f64>>,
    /// Ratios by side; `None` for the base.
    estimates: Vec<Option<Estimate>>,
}

impl Metric {
    fn new(figure: &Figure, sides: usize) -> Metric {
        Metric {
            name: figure.name.clone(),
            unit: figure.unit,
            better: figure.better,
            values: vec![Vec::new(); sides],
            estimates: vec![None; sides],
        }
    }

    /// Mean over the runs of a side.
    pub(crate) fn mean(&self, side: usize) -> Option<f64> {
        statistics::mean(&self.values[side])
    }

    /// Ratio of a side to the base, with its confidence interval.
    pub(super) fn estimate(&self, side: usize) -> Option<Estimate> {
        self.estimates[side]
    }

    pub(crate) fn finding(&self, side: usize) -> Finding {
        let Some((low, high)) = self.estimates[side].and_then(|estimate| estimate.interval) else {
            return Finding::Unknown;
        };
        match self.better {
            _ if low <= 1.0 && high >= 1.0 => Finding::Same,
            Better::Higher if low > 1.0 => Finding::Better,
            Better::Lower if high < 1.0 => Finding::Better,
            _ => Finding::Worse,
        }
    }

    pub(crate) fn text(&self, value: Option<f64>) -> String {
        value.map_or_else(|| "–".to_owned(), |value| self.unit.text(value))
    }
}

/// Sides, their metrics, and reasons why they cannot be compared.
#[derive(Debug)]
pub(crate) struct Comparison<'a> {
    /// At least one side; the first is the base.
    pub(crate) sides: Vec<Side<'a>>,
    /// Whether the runs of the sides alternated.
    pub(crate) interleaved: bool,
    /// Reasons why the sides are not comparable; empty if they are.
    pub(crate) obstacles: Vec<String>,
    /// Caveats for the reader.
    pub(crate) cautions: Vec<String>,
    /// Keys whose values differ, with the value on each side.
    pub(crate) differences: Vec<(String, Vec<String>)>,
    pub(crate) metrics: Vec<Metric>,
}

impl<'a> Comparison<'a> {
    /// Compares all sides with the first.
    ///
    /// # Errors
    /// `sides` is empty.
    pub(crate) fn new(sides: Vec<Side<'a>>) -> Result<Comparison<'a>> {
        if sides.is_empty() {
            return Err(Error::setup("nothing to compare: expected reports with runs"));
        }
        let interleaved = interleaved(&sides);
        Ok(Comparison {
            interleaved,
            obstacles: obstacles(&sides),
            cautions: cautions(&sides, interleaved),
            differences: differences(&sides),
            metrics: metrics(&sides, interleaved),
            sides,
        })
    }

    /// Returns the metric of a name, if a side has it.
    pub(crate) fn metric(&self, name: &str) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.name == name)
    }

    /// Renders the comparison for a terminal.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (number, side) in self.sides.iter().enumerate() {
            let role = if number == 0 { "base   " } else { "against" };
            let _ = writeln!(text, "{role} {}: {}", side.label, self.description(number));
        }
        text.push('\n');
        if self.obstacles.is_empty() {
            text.push_str("comparable: the same work, with the same durability, on the same machine\n");
        } else {
            text.push_str("NOT COMPARABLE:\n");
            self.obstacles.iter().for_each(|obstacle| {
                let _ = writeln!(text, "  {obstacle}");
            });
        }
        for caution in &self.cautions {
            let _ = writeln!(text, "note: {caution}");
        }
        text.push('\n');
        text.push_str(&align_columns(&self.table()));
        if !self.differences.is_empty() {
            text.push_str("\nConfiguration that differs:\n");
            let labels = self.sides.iter().map(|side| side.label.clone());
            let mut rows = vec![std::iter::once("key".to_owned()).chain(labels).collect()];
            rows.extend(self.differences.iter().map(|(key, values)| [&[key.clone()][..], values].concat()));
            text.push_str(&align_columns(&rows));
        }
        text
    }

    /// Describes in one line how a side was run.
    pub(crate) fn description(&self, side: usize) -> String {
        let (runs, target) = (&self.sides[side].runs, &self.sides[side].runs[0].target);
        let count = if runs.len() == 1 { "1 run".to_owned() } else { format!("{} runs", runs.len()) };
        let mut parts = vec![count];
        for (before, text) in
            [("", &target.write_path), ("acknowledged ", &target.durability), ("driver ", &target.proof)]
        {
            if !text.is_empty() {
                parts.push(format!("{before}{text}"));
            }
        }
        parts.join(", ")
    }

    /// Header and one row for each metric: name, base, and for each other side value, ratio,
    /// interval and finding.
    fn table(&self) -> Vec<Vec<String>> {
        let mut header = vec![String::new(), self.sides[0].label.clone()];
        for side in &self.sides[1..] {
            header.extend([side.label.clone(), "ratio".to_owned(), "95 % interval".to_owned(), String::new()]);
        }
        let row = |metric: &Metric| {
            let mut row = vec![metric.name.clone(), metric.text(metric.mean(0))];
            for side in 1..self.sides.len() {
                let estimate = metric.estimate(side);
                row.push(metric.text(metric.mean(side)));
                row.push(estimate.map_or_else(|| "–".to_owned(), |estimate| times(estimate.ratio)));
                row.push(interval_text(estimate));
                row.push(metric.finding(side).text().to_owned());
            }
            row
        };
        std::iter::once(header).chain(self.metrics.iter().map(row)).collect()
    }
}

/// Formats an interval as `0.93 … 1.04×`; empty if there is none.
pub(super) fn interval_text(estimate: Option<Estimate>) -> String {
    let Some((low, high)) = estimate.and_then(|estimate| estimate.interval) else { return String::new() };
    format!("{} … {}", times(low).trim_end_matches('×'), times(high))
}

/// Formats a table for a terminal: first column left-aligned, others right-aligned.
fn align_columns(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let length = |text: &String| text.chars().count();
    let widths: Vec<usize> = (0..columns)
        .map(|column| rows.iter().filter_map(|row| row.get(column)).map(length).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let fill = " ".repeat(widths[column] - length(cell));
            let _ = if column == 0 { write!(line, "{cell}{fill}") } else { write!(line, "  {fill}{cell}") };
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

// ---- metrics ----

/// A metric of one run.
struct Figure {
    name: String,
    unit: Unit,
    better: Better,
    value: f64,
}

/// Metrics of a run: first the two headline metrics, then each kind of operation, then the server's
/// resources.
fn figures(run: &RunResult) -> Vec<Figure> {
    if !matrix::throughput_shown(run) {
        return Vec::new();
    }
    let mut figures = Vec::new();
    let mut figure = |name: String, unit, better, value: f64| {
        if value.is_finite() && value > 0.0 {
            figures.push(Figure { name, unit, better, value });
        }
    };
    if let Some(server) = &run.server {
        figure(POINTS_PER_CPU.to_owned(), Unit::Number, Better::Higher, server.points_per_cpu_s);
        figure(BYTES_PER_POINT.to_owned(), Unit::Number, Better::Lower, server.bytes_per_point);
    }
    for result in series::results(run).iter().filter(|result| result.operation.ok > 0) {
        let (name, operation) = (&result.name, result.operation);
        if result.kind == 0 {
            figure(format!("{name}: points/s"), Unit::PerSecond, Better::Higher, operation.throughput);
        } else {
            figure(
                format!("{name}: operations/s"),
                Unit::PerSecond,
                Better::Higher,
                operation.ok as f64 / result.elapsed_s,
            );
        }
        let Latency { median, p99, .. } = operation.latency_ms;
        figure(format!("{name}: p50"), Unit::Milliseconds, Better::Lower, median);
        figure(format!("{name}: p99"), Unit::Milliseconds, Better::Lower, p99);
        if let (Some(cpu_s), true) = (result.server_cpu_s, result.kind > 0) {
            let each_ms = cpu_s * 1e3 / operation.ok as f64;
            figure(format!("{name}: server CPU each"), Unit::Milliseconds, Better::Lower, each_ms);
        }
    }
    if let Some(server) = &run.server {
        let written = server.written_bytes as f64 / server.points as f64;
        figure("bytes written to disk per point".to_owned(), Unit::Number, Better::Lower, written);
        figure("server memory, most".to_owned(), Unit::Bytes, Better::Lower, server.rss_bytes_max as f64);
        if server.settled {
            figure("time to settle".to_owned(), Unit::Seconds, Better::Lower, server.settling_s);
        }
        if let Some(lag) = &server.lag_ms {
            figure("write to first read: p50".to_owned(), Unit::Milliseconds, Better::Lower, lag.median);
            figure("write to first read: p99".to_owned(), Unit::Milliseconds, Better::Lower, lag.p99);
        }
    }
    figures
}

/// Name of the first headline metric.
pub(super) const POINTS_PER_CPU: &str = "points per server-CPU-second";
/// Name of the second headline metric.
pub(super) const BYTES_PER_POINT: &str = "settled bytes per point";

/// Merges the metrics of all runs. A metric that the first runs lack is inserted at its position in
/// the run that has it.
fn metrics(sides: &[Side], interleaved: bool) -> Vec<Metric> {
    let mut metrics: Vec<Metric> = Vec::new();
    for (number, side) in sides.iter().enumerate() {
        for run in &side.runs {
            let mut next = 0;
            for figure in figures(run) {
                let known = metrics.iter().position(|metric| metric.name == figure.name);
                let at = known.unwrap_or(next);
                if known.is_none() {
                    metrics.insert(at, Metric::new(&figure, sides.len()));
                }
                metrics[at].values[number].push(figure.value);
                next = at + 1;
            }
        }
    }
    for metric in &mut metrics {
        for side in 1..sides.len() {
            metric.estimates[side] = statistics::ratio(&metric.values[0], &metric.values[side], interleaved);
        }
    }
    metrics
}

/// Returns whether the runs alternated: after each round, every side has run once more.
fn interleaved(sides: &[Side]) -> bool {
    let rounds = sides[0].runs.len();
    if sides.len() < 2 || sides.iter().any(|side| side.runs.len() != rounds) {
        return false;
    }
    let started = |run: &&RunResult| run.started.parse::<jiff::Timestamp>().ok();
    let mut order: Vec<(Option<jiff::Timestamp>, usize)> = Vec::new();
    for (number, side) in sides.iter().enumerate() {
        order.extend(side.runs.iter().map(|run| (started(run), number)));
    }
    order.sort();
    let one_of_each = |round: &[(Option<jiff::Timestamp>, usize)]| {
        let mut numbers: Vec<usize> = round.iter().map(|(_, number)| *number).collect();
        numbers.sort_unstable();
        numbers.iter().copied().eq(0..sides.len())
    };
    order.iter().all(|(started, _)| started.is_some()) && order.chunks(sides.len()).all(one_of_each)
}

// ---- obstacles and caveats ----

/// Section of a configuration key; empty for a key that this version does not know.
fn section(key: &str) -> &'static str {
    config::KEYS.iter().find(|known| known.name == key).map_or("", |known| known.section)
}

/// Returns whether a key determines the data or the queries.
fn is_work(key: &str) -> bool {
    !NOT_THE_WORK.contains(&section(key))
}

fn value<'a>(run: &'a RunResult, key: &str) -> &'a str {
    run.configuration.iter().find(|(name, _)| name == key).map_or("(not there)", |(_, value)| value)
}

fn differing_keys(a: &RunResult, b: &RunResult) -> Vec<String> {
    let map = |run: &RunResult| run.configuration.iter().cloned().collect::<BTreeMap<String, String>>();
    let (of_a, of_b) = (map(a), map(b));
    // In the order of the configuration; keys that only one run has are included.
    let keys = a.configuration.iter().chain(b.configuration.iter().filter(|(key, _)| !of_a.contains_key(key)));
    keys.filter(|(key, _)| of_a.get(key) != of_b.get(key)).map(|(key, _)| key.clone()).collect()
}

fn differences(sides: &[Side]) -> Vec<(String, Vec<String>)> {
    let mut keys: Vec<String> = Vec::new();
    for side in &sides[1..] {
        for key in differing_keys(sides[0].runs[0], side.runs[0]) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    let row = |key: String| {
        let values = sides.iter().map(|side| value(side.runs[0], &key).to_owned()).collect();
        (key, values)
    };
    keys.into_iter().map(row).collect()
}

fn obstacles(sides: &[Side]) -> Vec<String> {
    let base = &sides[0];
    // Sides that differ from the base in the same way share one message.
    let mut unlike_base: Vec<(&str, String, Labels<'_, String>)> = Vec::new();
    let mut other_work: Labels<'_, Vec<String>> = Vec::new();
    for side in &sides[1..] {
        for (what, of_base, of_side) in unlike(base.runs[0], side.runs[0]) {
            if !unlike_base.iter().any(|(found, _, _)| *found == what) {
                unlike_base.push((what, of_base, Vec::new()));
            }
            for (_, _, sides) in unlike_base.iter_mut().filter(|(found, _, _)| *found == what) {
                group_labels(sides, of_side.clone(), &side.label);
            }
        }
        let keys: Vec<String> =
            differing_keys(base.runs[0], side.runs[0]).into_iter().filter(|key| is_work(key)).collect();
        if !keys.is_empty() {
            group_labels(&mut other_work, keys, &side.label);
        }
    }
    let mut obstacles: Vec<String> = unlike_base
        .into_iter()
        .map(|(what, of_base, sides)| {
            let sides = sides.iter().map(|(of_side, labels)| format!("; {} {of_side}", labels.join(", ")));
            format!("{what}: {} {of_base}{}", base.label, sides.collect::<String>())
        })
        .collect();
    obstacles.extend(other_work.iter().map(|(keys, labels)| {
        let has = if labels.len() == 1 { "has" } else { "have" };
        format!("not the same work: {} {has} other values of {}", labels.join(", "), first_names(keys))
    }));
    for side in sides {
        let failed = side.runs.iter().filter(|run| !matrix::throughput_shown(run)).count();
        if failed > 0 {
            obstacles.push(format!(
                "{}: {failed} of {} runs failed verification and have no figures",
                side.label,
                side.runs.len()
            ));
        }
        for run in side.runs.iter().filter(|run| run.phases.is_empty()) {
            let why = run.stopped.as_deref().unwrap_or("it has no phase");
            obstacles.push(format!("{}: a run did not start: {why}", side.label));
        }
    }
    obstacles
}

/// Labels of the sides by what they have in common.
type Labels<'a, T> = Vec<(T, Vec<&'a str>)>;

fn group_labels<'a, T: PartialEq>(groups: &mut Labels<'a, T>, what: T, label: &'a str) {
    match groups.iter_mut().find(|(found, _)| *found == what) {
        Some((_, labels)) => labels.push(label),
        None => groups.push((what, vec![label])),
    }
}

/// Properties that must be equal and differ: (property, value of the base, value of the other).
fn unlike(base: &RunResult, other: &RunResult) -> Vec<(&'static str, String, String)> {
    let machine = |run: &RunResult| {
        let machine = &run.machine;
        // Rounded, because kernels reserve a varying part of the memory.
        let memory = (machine.memory_bytes as f64 / f64::from(1 << 28)).round() / 4.0;
        format!("on {} × {}, {memory} GiB", machine.cpus, machine.cpu)
    };
    let durable = |run: &RunResult| {
        let on_disk = if run.target.durable { "on disk" } else { "not on disk" };
        format!("{on_disk} ({})", run.target.durability)
    };
    let mut unlike = Vec::new();
    if base.workload != other.workload {
        unlike.push(("another workload", base.workload.clone(), other.workload.clone()));
    }
    if base.target.durable != other.target.durable {
        unlike.push(("acknowledged writes have different durability", durable(base), durable(other)));
    }
    if machine(base) != machine(other) {
        unlike.push(("another machine", machine(base), machine(other)));
    }
    unlike
}

fn first_names(names: &[String]) -> String {
    let mut text = names.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > NAMED_MAX {
        let _ = write!(text, " and {} more", names.len() - NAMED_MAX);
    }
    text
}

fn cautions(sides: &[Side], interleaved: bool) -> Vec<String> {
    let mut cautions = Vec::new();
    for side in sides {
        let some = |what: &dyn Fn(&&&RunResult) -> bool| side.runs.iter().filter(what).count();
        let mut say = |count: usize, text: &str| {
            if count > 0 {
                cautions.push(format!("{}: {text}{}", side.label, of_runs(count, side.runs.len())));
            }
        };
        say(some(&|run| !run.verification.on), "not verified");
        say(
            some(&|run| run.phases.iter().any(|phase| phase.client_bound)),
            "client-bound: this tool limits the figures",
        );
        say(some(&|run| run.stopped.is_some()), "stopped before its end");
        say(
            some(&|run| run.server.as_ref().is_some_and(|server| !server.settled)),
            "was not idle when its bytes were counted",
        );
        say(some(&|run| series::failed(run) > 0), "some operations failed");
        let busy: Vec<f64> = side.runs.iter().filter_map(|run| busy::share(run)).collect();
        let most = busy.iter().copied().fold(0.0, f64::max);
        say(busy.len(), &format!("the machine was busy: other programs used up to {} of it", percent(most)));
        let proof = &side.runs[0].target.proof;
        if !proof.is_empty() && !proof.starts_with("tested with") {
            cautions.push(format!("{}: its driver was {proof}", side.label));
        }
    }
    cautions.extend(caution_of_repeats(sides, interleaved));
    cautions
}

fn of_runs(count: usize, all: usize) -> String {
    if all == 1 { String::new() } else { format!(" ({count} of {all} runs)") }
}

fn caution_of_repeats(sides: &[Side], interleaved: bool) -> Option<String> {
    let fewest = sides.iter().map(|side| side.runs.len()).min().unwrap_or(0);
    if sides.len() < 2 {
        None
    } else if fewest < REPEATS_MIN {
        Some(format!(
            "no intervals: they need at least {REPEATS_MIN} runs of each, better {REPEATS_GOOD} (--repeat {REPEATS_GOOD})"
        ))
    } else if fewest < REPEATS_GOOD {
        Some(format!("intervals of fewer than {REPEATS_GOOD} runs are too narrow"))
    } else if !interleaved {
        Some("the runs did not alternate: changes of the machine in between affect the ratios".to_owned())
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
