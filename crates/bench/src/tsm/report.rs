//! The report of a test of managed series, as text and JSON.
//!
//! Always true: no output has figures of a run with a wrong answer.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::{Operation, Requests, Service};
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
    /// Series of the set.
    pub(crate) series: u32,
    pub(crate) series_per_request: u32,
    pub(crate) clients: usize,
    /// Servers among which the requests were spread.
    pub(crate) front_ends: usize,
    /// Values and requests of one repetition.
    pub(crate) values: u64,
    pub(crate) requests: u64,
    /// Elapsed seconds of each repetition, from the first request to the last answer.
    pub(crate) seconds: Vec<f64>,
    /// CPU seconds of the server in each repetition; of a load's writes until the server is idle.
    pub(crate) server_cpu_s: Vec<Option<f64>>,
    /// CPU seconds of this tool in each repetition.
    pub(crate) client_cpu_s: Vec<f64>,
    pub(crate) latency_ms: Latency,
    /// Growth of the data directories without the write-ahead log, when the server is idle.
    pub(crate) stored_bytes: Option<u64>,
    /// Requests that failed.
    pub(crate) errors: u64,
}

impl Figure {
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

    /// The step of a scaling test.
    pub(crate) fn scaling(
        &self,
        operation: Operation,
        requests: Requests,
        service: Service,
        front_ends: usize,
    ) -> Option<&Figure> {
        let is_it = |figure: &&Figure| {
            (figure.operation, figure.requests_of, figure.service, figure.front_ends)
                == (operation, requests, service, front_ends)
        };
        self.figures.iter().filter(|_| self.tsm == "scaling").find(is_it)
    }

    /// The step of a load test.
    pub(crate) fn load(&self, operation: Operation, series: u32, clients: usize) -> Option<&Figure> {
        let is_it =
            |figure: &&Figure| (figure.operation, figure.series, figure.clients) == (operation, series, clients);
        self.figures.iter().filter(|_| self.tsm == "load").find(is_it)
    }

    /// Saved time of concurrent requests relative to the same ones after each other: HAKOM's column
    /// "Standard vs. Performance".
    pub(crate) fn vs_serial(&self, figure: &Figure) -> Option<f64> {
        let serial = self.scaling(figure.operation, figure.requests_of, Service::Serial, figure.front_ends)?;
        (figure.service == Service::Parallel).then(|| saved(serial, figure))
    }

    /// Saved time of bulk requests relative to single ones.
    pub(crate) fn vs_single(&self, figure: &Figure) -> Option<f64> {
        let single = self.scaling(figure.operation, Requests::Single, figure.service, figure.front_ends)?;
        (figure.requests_of == Requests::Bulk).then(|| saved(single, figure))
    }

    /// Saved time of several servers relative to one.
    pub(crate) fn vs_one_server(&self, figure: &Figure) -> Option<f64> {
        let one = self.scaling(figure.operation, figure.requests_of, figure.service, 1)?;
        (figure.front_ends > 1).then(|| saved(one, figure))
    }

    /// Text for a terminal; without figures if an answer was wrong.
    pub(crate) fn text(&self) -> String {
        let report = self.honest();
        let mut out = String::new();
        let target = &report.target;
        _ = writeln!(out, "\n{} {}, {}: TSM's {} test", target.product, target.version, self.form, self.tsm);
        _ = writeln!(out, "durability: {}", target.durability);
        _ = writeln!(out, "a value every {} minutes for {} days", self.step_minutes, self.days);
        _ = writeln!(out, "verification: {}", if self.passed() { "PASSED: every series read" } else { "FAILED" });
        self.findings.iter().for_each(|finding| _ = writeln!(out, "  {finding}"));
        if !report.figures.is_empty() {
            match self.tsm.as_str() {
                "load" => report.load_table(&mut out),
                "scaling" => report.scaling_table(&mut out),
                _ => report.latency_table(&mut out),
            }
        }
        self.failures.iter().for_each(|failure| _ = writeln!(out, "failed: {failure}"));
        self.notes.iter().for_each(|note| _ = writeln!(out, "{note}"));
        out
    }

    fn load_table(&self, out: &mut String) {
        _ = writeln!(
            out,
            "{:>9} {:>9} {:>7} {:>12} {:>12} {:>11} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8}",
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
            "B/value"
        );
        for figure in &self.figures {
            _ = writeln!(
                out,
                "{:>9} {:>9} {:>7} {:>12} {:>12} {:>11} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8}",
                whole(u64::from(figure.series)),
                figure.operation.name(),
                figure.clients,
                whole(figure.values),
                figure.time(),
                short(figure.values_per_s()),
                figure.server_cpu_median_s().map_or_else(none, seconds),
                seconds(median(figure.client_cpu_s.clone())),
                milliseconds(figure.latency_ms.median),
                milliseconds(figure.latency_ms.p99),
                figure.stored_bytes.map_or_else(none, |size| bytes(size as f64)),
                figure.bytes_per_value().map_or_else(none, |size| format!("{size:.2}"))
            );
        }
    }

    fn scaling_table(&self, out: &mut String) {
        _ = writeln!(
            out,
            "{:>8} {:>9} {:>8} {:>7} {:>7} {:>26} {:>11} {:>10} {:>10} {:>9} {:>9} {:>11}",
            "requests",
            "operation",
            "service",
            "clients",
            "servers",
            "time (range)",
            "values/s",
            "server CPU",
            "client CPU",
            "vs serial",
            "vs single",
            "vs 1 server"
        );
        for figure in &self.figures {
            let saved = |saved: Option<f64>| saved.map_or_else(none, percent);
            _ = writeln!(
                out,
                "{:>8} {:>9} {:>8} {:>7} {:>7} {:>26} {:>11} {:>10} {:>10} {:>9} {:>9} {:>11}",
                figure.requests_of.name(),
                figure.operation.name(),
                figure.service.name(),
                figure.clients,
                figure.front_ends,
                figure.time(),
                short(figure.values_per_s()),
                figure.server_cpu_median_s().map_or_else(none, seconds),
                seconds(median(figure.client_cpu_s.clone())),
                saved(self.vs_serial(figure)),
                saved(self.vs_single(figure)),
                saved(self.vs_one_server(figure))
            );
        }
        _ = writeln!(out, "vs: saved time, 1 - time / time of the other; below 0 it took longer");
    }

    fn latency_table(&self, out: &mut String) {
        _ = writeln!(
            out,
            "{:>7} {:>10} {:>11} {:>10} {:>10} {:>10} {:>8} {:>18}",
            "clients", "requests", "requests/s", "p50", "p99", "max", "errors", "server CPU/request"
        );
        for figure in &self.figures {
            let each = |cpu_s: f64| milliseconds(cpu_s * 1e3 / figure.requests.max(1) as f64);
            _ = writeln!(
                out,
                "{:>7} {:>10} {:>11} {:>10} {:>10} {:>10} {:>8} {:>18}",
                figure.clients,
                whole(figure.requests),
                short(figure.requests as f64 / figure.median_s().max(1e-9)),
                milliseconds(figure.latency_ms.median),
                milliseconds(figure.latency_ms.p99),
                milliseconds(figure.latency_ms.max),
                figure.errors,
                figure.server_cpu_median_s().map_or_else(none, each)
            );
        }
    }
}

/// Share of the time of `base` that `figure` saves; negative if it takes longer.
fn saved(base: &Figure, figure: &Figure) -> f64 {
    1.0 - figure.median_s() / base.median_s().max(1e-9)
}

fn none() -> String {
    "–".to_owned()
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

    #[test]
    fn saved_times_are_relative_to_serial_single_and_one_server() {
        let report = scaling();
        let figure =
            |requests, front_ends| report.scaling(Operation::Write, requests, Service::Parallel, front_ends).unwrap();
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
