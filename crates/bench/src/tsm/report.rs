//! The report of a test of managed series, as text and JSON.
//!
//! Always true: no output has figures of a run with a wrong answer.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::{Operation, Requests, SeriesKind, Service};
use crate::report::format::{bytes, milliseconds, percent, seconds, short, whole};
use crate::result::{Latency, Machine};
use crate::tpcc::report::Subject;

/// Results on one target.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Name of the test: `load`, `scaling` or `latency`.
    pub(crate) tsm: String,
    pub(crate) tool: String,
    pub(crate) command: Vec<String>,
    pub(crate) started: String,
    pub(crate) machine: Machine,
    pub(crate) target: Subject,
    /// Form of the data: `REST, JSON`, `a row for each value`.
    pub(crate) form: String,
    pub(crate) seed: u64,
    /// Days of each series.
    pub(crate) days: u32,
    /// Minutes between values.
    pub(crate) step_minutes: u32,
    /// Processors of a front end for each core of the published matrix; `None`: not a matrix.
    pub(crate) matrix_scale: Option<f64>,
    /// In chronological order.
    pub(crate) figures: Vec<Figure>,
    /// Answers that differ from what was written; the first ends the run.
    pub(crate) findings: Vec<String>,
    /// Requests that failed, by message.
    pub(crate) failures: Vec<String>,
    pub(crate) notes: Vec<String>,
}

/// Figures of one step.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Figure {
    pub(crate) operation: Operation,
    /// Whether a request has one or several series.
    pub(crate) requests_of: Requests,
    pub(crate) service: Service,
    pub(crate) kind: SeriesKind,
    /// Series of the set.
    pub(crate) series: u32,
    pub(crate) series_per_request: u32,
    pub(crate) clients: usize,
    /// Front ends, or servers of `--url`, among which the requests were spread; 0: the store itself.
    pub(crate) front_ends: usize,
    /// CPU quota of each front end in processors; `None`: no quota.
    pub(crate) cpus: Option<f64>,
    /// Cores of each server in the published matrix that the step repeats.
    pub(crate) cores: Option<u32>,
    /// Values and requests of one repetition.
    pub(crate) values: u64,
    pub(crate) requests: u64,
    /// Elapsed seconds of each repetition, from the first request to the last answer.
    pub(crate) seconds: Vec<f64>,
    /// CPU seconds of the store and the front ends in each repetition; of a load's writes until the server is idle.
    pub(crate) server_cpu_s: Vec<Option<f64>>,
    /// CPU seconds of this tool in each repetition.
    pub(crate) client_cpu_s: Vec<f64>,
    pub(crate) latency_ms: Latency,
    /// Growth of the data directories without the write-ahead log since the series were created, when
    /// the server is idle.
    pub(crate) stored_bytes: Option<u64>,
    /// Values written to the series since they were created, replaced ones included; 0 for reads.
    pub(crate) written_values: u64,
    /// Requests that failed.
    pub(crate) errors: u64,
}

/// Properties that tell the steps of a scaling test apart.
#[derive(Clone, Copy, PartialEq)]
struct Key {
    operation: Operation,
    requests_of: Requests,
    service: Service,
    kind: SeriesKind,
    front_ends: usize,
    cpus: Option<f64>,
    cores: Option<u32>,
}

impl Figure {
    fn key(&self) -> Key {
        Key {
            operation: self.operation,
            requests_of: self.requests_of,
            service: self.service,
            kind: self.kind,
            front_ends: self.front_ends,
            cpus: self.cpus,
            cores: self.cores,
        }
    }

    /// Servers of the step: `store`, `2`, or `2x8` in a matrix.
    pub(crate) fn servers(&self) -> String {
        match (self.front_ends, self.cores) {
            (0, _) => "store".to_owned(),
            (count, Some(cores)) => format!("{count}x{cores}"),
            (count, None) => count.to_string(),
        }
    }

    /// Processors that all front ends together may use; `None`: no quota.
    fn all_cpus(&self) -> Option<f64> {
        self.cpus.map(|cpus| cpus * self.front_ends as f64)
    }

    /// Median of the repetitions.
    pub(crate) fn median_s(&self) -> f64 {
        median(self.seconds.clone())
    }

    pub(crate) fn values_per_s(&self) -> f64 {
        self.values as f64 / self.median_s().max(1e-9)
    }

    /// Median of the repetitions; `None` if the server's processes are unknown.
    pub(crate) fn server_cpu_median_s(&self) -> Option<f64> {
        let known: Option<Vec<f64>> = self.server_cpu_s.iter().copied().collect();
        known.filter(|known| !known.is_empty()).map(median)
    }

    pub(crate) fn bytes_per_value(&self) -> Option<f64> {
        self.stored_bytes.map(|bytes| bytes as f64 / self.values.max(1) as f64)
    }

    /// Stored bytes for each value that was written, replaced ones included.
    pub(crate) fn bytes_per_written_value(&self) -> Option<f64> {
        self.stored_bytes.map(|bytes| bytes as f64 / self.written_values.max(1) as f64)
    }

    /// `1.25 s (1.20–1.41)`, or without the range if there is one repetition.
    fn time(&self) -> String {
        let median = seconds(self.median_s());
        if self.seconds.len() < 2 {
            return median;
        }
        let min = self.seconds.iter().copied().fold(f64::INFINITY, f64::min);
        let max = self.seconds.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        format!("{median} ({min:.3}–{max:.3})")
    }
}

impl Report {
    /// Whether all values read were right.
    pub(crate) fn passed(&self) -> bool {
        self.findings.is_empty()
    }

    /// A copy for output: without figures if an answer was wrong.
    pub(crate) fn honest(&self) -> Report {
        let mut report = self.clone();
        if !report.passed() {
            report.figures.clear();
        }
        report
    }

    /// Steps of a scaling test with plain series, which differ in their servers.
    pub(crate) fn scaling(
        &self,
        operation: Operation,
        requests: Requests,
        service: Service,
    ) -> impl Iterator<Item = &Figure> {
        let is_it = move |figure: &&Figure| {
            (figure.operation, figure.requests_of, figure.service, figure.kind)
                == (operation, requests, service, SeriesKind::Plain)
        };
        self.figures.iter().filter(|_| self.tsm == "scaling").filter(is_it)
    }

    fn step(&self, key: Key) -> Option<&Figure> {
        self.figures.iter().filter(|_| self.tsm == "scaling").find(|figure| figure.key() == key)
    }

    /// The step of a load test with plain series.
    pub(crate) fn load(&self, operation: Operation, series: u32, clients: usize) -> Option<&Figure> {
        let is_it = |figure: &&Figure| {
            (figure.operation, figure.series, figure.clients, figure.kind)
                == (operation, series, clients, SeriesKind::Plain)
        };
        self.figures.iter().filter(|_| self.tsm == "load").find(is_it)
    }

    /// Saved time of concurrent requests relative to the same ones after each other: HAKOM's column
    /// "Standard vs. Performance".
    pub(crate) fn vs_serial(&self, figure: &Figure) -> Option<f64> {
        let serial = self.step(Key { service: Service::Serial, ..figure.key() })?;
        (figure.service == Service::Parallel).then(|| saved(serial, figure))
    }

    /// Saved time of bulk requests relative to single ones.
    pub(crate) fn vs_single(&self, figure: &Figure) -> Option<f64> {
        let single = self.step(Key { requests_of: Requests::Single, ..figure.key() })?;
        (figure.requests_of == Requests::Bulk).then(|| saved(single, figure))
    }

    /// Saved time of several servers relative to one with the same processors.
    pub(crate) fn vs_one_server(&self, figure: &Figure) -> Option<f64> {
        let one = self.step(Key { front_ends: 1, ..figure.key() })?;
        (figure.front_ends > 1).then(|| saved(one, figure))
    }

    /// Saved time of a cell of a matrix relative to as many servers with half the cores.
    pub(crate) fn vs_half_the_cores(&self, figure: &Figure) -> Option<f64> {
        let half = |cores: u32| cores.is_multiple_of(2).then_some(cores / 2);
        let key = Key { cores: Some(half(figure.cores?)?), cpus: figure.cpus.map(|cpus| cpus / 2.0), ..figure.key() };
        self.step(key).map(|half| saved(half, figure))
    }

    /// Text for a terminal; without figures if an answer was wrong.
    pub(crate) fn text(&self) -> String {
        let report = self.honest();
        let mut out = String::new();
        let target = &report.target;
        _ = writeln!(out, "\n{} {}, {}: TSM's {} test", target.product, target.version, self.form, self.tsm);
        _ = writeln!(out, "durability: {}", target.durability);
        _ = writeln!(out, "a value every {} minutes for {} days", self.step_minutes, self.days);
        report.describe_quotas(&mut out);
        _ = writeln!(out, "verification: {}", if self.passed() { "PASSED: every series read" } else { "FAILED" });
        self.findings.iter().for_each(|finding| _ = writeln!(out, "  {finding}"));
        if !report.figures.is_empty() {
            match self.tsm.as_str() {
                "load" => report.load_table(&mut out),
                "scaling" => {
                    report.scaling_table(&mut out);
                    report.storage_table(&mut out);
                }
                _ => report.latency_table(&mut out),
            }
        }
        self.failures.iter().for_each(|failure| _ = writeln!(out, "failed: {failure}"));
        self.notes.iter().for_each(|note| _ = writeln!(out, "{note}"));
        out
    }

    /// The factor of a matrix, and the processors of all front ends.
    fn describe_quotas(&self, out: &mut String) {
        if let Some(scale) = self.matrix_scale {
            _ = writeln!(out, "servers x cores; each core of the published matrix is {scale} processors here");
        }
        let most = self.figures.iter().filter_map(Figure::all_cpus).reduce(f64::max);
        if let Some(most) = most {
            _ = writeln!(
                out,
                "front ends may use up to {} of {} processors, which the store and this tool use too",
                short(most),
                self.machine.cpus
            );
        }
    }

    fn load_table(&self, out: &mut String) {
        let head = [
            "kind",
            "series",
            "operation",
            "clients",
            "values",
            "time",
            "values/s",
            "server CPU",
            "client CPU",
            "p50",
            "p99",
            "stored",
            "B/value",
        ];
        let row = |figure: &Figure| {
            vec![
                figure.kind.name().to_owned(),
                whole(u64::from(figure.series)),
                figure.operation.name().to_owned(),
                figure.clients.to_string(),
                whole(figure.values),
                figure.time(),
                short(figure.values_per_s()),
                or_none(figure.server_cpu_median_s(), seconds),
                seconds(median(figure.client_cpu_s.clone())),
                milliseconds(figure.latency_ms.median),
                milliseconds(figure.latency_ms.p99),
                or_none(figure.stored_bytes, |size| bytes(size as f64)),
                or_none(figure.bytes_per_value(), |size| format!("{size:.2}")),
            ]
        };
        table(out, &head, self.figures.iter().map(row));
    }

    fn scaling_table(&self, out: &mut String) {
        let mut head = vec![
            "kind",
            "requests",
            "operation",
            "service",
            "clients",
            "servers",
            "CPUs each",
            "time (range)",
            "values/s",
            "server CPU",
            "client CPU",
        ];
        // A matrix has bulk requests by concurrent clients only.
        let is_matrix = self.matrix_scale.is_some();
        head.extend(if is_matrix {
            ["vs 1 server", "vs half the cores"].as_slice()
        } else {
            ["vs serial", "vs single", "vs 1 server"].as_slice()
        });
        let row = |figure: &Figure| {
            let mut row = vec![
                figure.kind.name().to_owned(),
                figure.requests_of.name().to_owned(),
                figure.operation.name().to_owned(),
                figure.service.name().to_owned(),
                figure.clients.to_string(),
                figure.servers(),
                or_none(figure.cpus, short),
                figure.time(),
                short(figure.values_per_s()),
                or_none(figure.server_cpu_median_s(), seconds),
                seconds(median(figure.client_cpu_s.clone())),
            ];
            let saved = if is_matrix {
                vec![self.vs_one_server(figure), self.vs_half_the_cores(figure)]
            } else {
                vec![self.vs_serial(figure), self.vs_single(figure), self.vs_one_server(figure)]
            };
            row.extend(saved.into_iter().map(|saved| or_none(saved, percent)));
            row
        };
        table(out, &head, self.figures.iter().map(row));
        _ = writeln!(out, "vs: saved time, 1 - time / time of the other; below 0 it took longer");
    }

    /// Stored bytes after each step that wrote; nothing if they are unknown.
    fn storage_table(&self, out: &mut String) {
        let known: Vec<&Figure> = self.figures.iter().filter(|figure| figure.stored_bytes.is_some()).collect();
        if known.is_empty() {
            return;
        }
        _ = writeln!(out, "\nstored after each step that wrote; each repetition replaces all values");
        let head = ["kind", "requests", "service", "servers", "values", "written", "stored", "B/value", "B/written"];
        let row = |figure: &&Figure| {
            vec![
                figure.kind.name().to_owned(),
                figure.requests_of.name().to_owned(),
                figure.service.name().to_owned(),
                figure.servers(),
                whole(figure.values),
                whole(figure.written_values),
                or_none(figure.stored_bytes, |size| bytes(size as f64)),
                or_none(figure.bytes_per_value(), |size| format!("{size:.2}")),
                or_none(figure.bytes_per_written_value(), |size| format!("{size:.2}")),
            ]
        };
        table(out, &head, known.iter().map(row));
    }

    fn latency_table(&self, out: &mut String) {
        let head = ["clients", "requests", "requests/s", "p50", "p99", "max", "errors", "server CPU/request"];
        let row = |figure: &Figure| {
            let each = |cpu_s: f64| milliseconds(cpu_s * 1e3 / figure.requests.max(1) as f64);
            vec![
                figure.clients.to_string(),
                whole(figure.requests),
                short(figure.requests as f64 / figure.median_s().max(1e-9)),
                milliseconds(figure.latency_ms.median),
                milliseconds(figure.latency_ms.p99),
                milliseconds(figure.latency_ms.max),
                figure.errors.to_string(),
                or_none(figure.server_cpu_median_s(), each),
            ]
        };
        table(out, &head, self.figures.iter().map(row));
    }
}

/// Appends a table with right-aligned columns.
fn table(out: &mut String, head: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let head: Vec<String> = head.iter().map(|&name| name.to_owned()).collect();
    let lines: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    for line in &lines {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
        _ = writeln!(out, "{}", cells.collect::<Vec<String>>().join("  "));
    }
}

/// Text of a value; a dash if it is unknown.
fn or_none<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), text)
}

/// Share of the time of `base` that `figure` saves; negative if it takes longer.
fn saved(base: &Figure, figure: &Figure) -> f64 {
    1.0 - figure.median_s() / base.median_s().max(1e-9)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => values[odd / 2],
        even => (values[even / 2 - 1] + values[even / 2]) / 2.0,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A scaling test on one and two servers, with times such as those that HAKOM publishes.
    pub(crate) fn scaling() -> Report {
        let figure = |operation, requests_of, service, front_ends, time: f64| Figure {
            operation,
            requests_of,
            service,
            front_ends,
            series: 1_000,
            series_per_request: if requests_of == Requests::Bulk { 100 } else { 1 },
            clients: 10,
            values: 2_976_000,
            requests: 10,
            seconds: vec![time, time * 2.0, time / 2.0],
            server_cpu_s: vec![Some(1.0), Some(3.0), Some(2.0)],
            client_cpu_s: vec![0.1; 3],
            ..Figure::default()
        };
        let (write, read) = (Operation::Write, Operation::Read);
        Report {
            tsm: "scaling".to_owned(),
            form: "REST, JSON".to_owned(),
            days: 31,
            step_minutes: 15,
            target: Subject { product: "Millrace".to_owned(), version: "1".to_owned(), ..Subject::default() },
            machine: Machine { cpus: 2, ..Machine::default() },
            figures: vec![
                figure(write, Requests::Single, Service::Serial, 1, 8.0),
                figure(write, Requests::Single, Service::Parallel, 1, 4.0),
                figure(write, Requests::Bulk, Service::Serial, 1, 4.0),
                figure(write, Requests::Bulk, Service::Parallel, 1, 1.0),
                figure(write, Requests::Bulk, Service::Parallel, 2, 0.5),
                figure(read, Requests::Bulk, Service::Parallel, 1, 0.25),
            ],
            ..Report::default()
        }
    }

    /// The published matrix at an eighth of its cores: `servers`, `cores`, seconds of reads.
    pub(crate) fn matrix() -> Report {
        let scale = 0.125;
        let step = |(servers, cores, time): (usize, u32, f64)| Figure {
            operation: Operation::Read,
            front_ends: servers,
            cores: Some(cores),
            cpus: Some(f64::from(cores) * scale),
            seconds: vec![time],
            ..scaling().figures[5].clone()
        };
        let cells = [(2, 8, 1.0), (2, 4, 2.0), (1, 8, 4.0), (1, 4, 5.0)];
        Report { matrix_scale: Some(scale), figures: cells.into_iter().map(step).collect(), ..scaling() }
    }

    #[test]
    fn saved_times_are_relative_to_serial_single_and_one_server() {
        let report = scaling();
        let figure = |requests, front_ends| {
            let mut steps = report.scaling(Operation::Write, requests, Service::Parallel);
            steps.find(|figure| figure.front_ends == front_ends).unwrap()
        };
        let bulk = figure(Requests::Bulk, 1);
        assert_eq!(bulk.median_s(), 1.0);
        assert_eq!(report.vs_serial(bulk), Some(0.75));
        assert_eq!(report.vs_single(bulk), Some(0.75));
        assert_eq!(report.vs_one_server(bulk), None);
        let two = figure(Requests::Bulk, 2);
        assert_eq!((report.vs_one_server(two), report.vs_serial(two)), (Some(0.5), None));
        assert_eq!(report.vs_single(figure(Requests::Single, 1)), None);
        assert_eq!(bulk.server_cpu_median_s(), Some(2.0));
    }

    #[test]
    fn cells_of_a_matrix_are_relative_to_one_server_and_to_half_the_cores() {
        let report = matrix();
        let saved = |at: usize| {
            let figure = &report.figures[at];
            (report.vs_one_server(figure), report.vs_half_the_cores(figure))
        };
        assert_eq!(saved(0), (Some(0.75), Some(0.5)));
        assert_eq!(saved(1), (Some(1.0 - 2.0 / 5.0), None));
        assert_eq!(saved(2), (None, Some(1.0 - 4.0 / 5.0)));
        assert_eq!(saved(3), (None, None));
        let text = report.text();
        for part in [
            "each core of the published matrix is 0.125 processors here",
            "front ends may use up to 2 of 2 processors",
            "2x8",
            "vs half the cores",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("vs serial"), "{text}");
    }

    #[test]
    fn steps_are_compared_with_steps_of_the_same_kind_and_quota() {
        let mut report = scaling();
        report.figures[4].kind = SeriesKind::Audit;
        assert_eq!(report.vs_one_server(&report.figures[4]), None);
        let mut report = scaling();
        report.figures[4].cpus = Some(0.5);
        assert_eq!(report.vs_one_server(&report.figures[4]), None);
        report.figures[3].cpus = Some(0.5);
        assert_eq!(report.vs_one_server(&report.figures[4]), Some(0.5));
    }

    #[test]
    fn history_has_bytes_per_value_and_per_written_value() {
        let mut report = scaling();
        assert!(!report.text().contains("B/written"), "sizes are unknown");
        let figure = &mut report.figures[0];
        (figure.kind, figure.stored_bytes, figure.written_values) =
            (SeriesKind::Audit, Some(2_976_000 * 6), 2_976_000 * 3);
        assert_eq!((figure.bytes_per_value(), figure.bytes_per_written_value()), (Some(6.0), Some(2.0)));
        let text = report.text();
        let row = text.lines().rfind(|line| line.contains("audit")).unwrap();
        let cells: Vec<&str> = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        assert_eq!(cells[..6], ["audit", "single", "serial", "1", "2,976,000", "8,928,000"]);
        assert_eq!(cells[7..], ["6.00", "2.00"]);
    }

    #[test]
    fn columns_of_tables_are_right_aligned() {
        let mut out = String::new();
        table(&mut out, &["a", "time"], [vec!["long".to_owned(), "–".to_owned()]].into_iter());
        assert_eq!(out, "   a  time\nlong     –\n");
    }

    #[test]
    fn wrong_answer_hides_all_figures() {
        let text = scaling().text();
        assert!(text.contains("values/s") && text.contains("75 %") && text.contains("PASSED"), "{text}");
        let wrong = Report { findings: vec!["series 1: read 7".to_owned()], ..scaling() };
        let text = wrong.text();
        assert!(text.contains("FAILED") && text.contains("series 1: read 7"), "{text}");
        assert!(!text.contains("values/s") && !text.contains('%'), "{text}");
        assert!(wrong.honest().figures.is_empty());
    }

    #[test]
    fn reports_survive_json() {
        let text = serde_json::to_string(&[scaling()]).unwrap();
        let back: Vec<Report> = serde_json::from_str(&text).unwrap();
        assert_eq!(back[0].text(), scaling().text());
    }
}
