//! Results of TPC-C runs as text and JSON; `report::html` renders the page with charts.
//!
//! Always true: a run whose check failed shows no throughput and no latency, in any format.

use std::fmt::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::check::{Condition, Verdict};
use super::input::Draw;
use super::kills::Kills;
use super::load::Loaded;
use super::{Isolation, Mode, Settings};
use crate::error::{Error, Result};
use crate::measure::proc;
use crate::report::busy;
use crate::report::format::{bytes, milliseconds, percent, seconds, short, whole};
use crate::result::{Latency, Machine};

/// Version of the JSON format.
const FORMAT: u32 = 1;
/// Printed wherever figures are shown.
pub(crate) const DISCLAIMER: &str = "Not audited TPC results: the transactions, data and checks follow the TPC-C \
     specification, the rules for publishing do not (no think time unless said, no pricing, no audit). Do not compare \
     with results of the TPC.";

/// The runs of one target.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) format: u32,
    /// The text of [`DISCLAIMER`].
    pub(crate) disclaimer: String,
    pub(crate) tool: String,
    pub(crate) command: Vec<String>,
    pub(crate) started: String,
    pub(crate) machine: Machine,
    pub(crate) target: Subject,
    pub(crate) warehouses: i32,
    /// Names and values, human-readable.
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) loaded: Option<Loaded>,
    pub(crate) before: Verdict,
    /// One element for each number of clients; empty if a check failed.
    pub(crate) points: Vec<Point>,
    /// Checks after each run except the last, if requested.
    #[serde(default)]
    pub(crate) between: Vec<Between>,
    pub(crate) after: Option<Verdict>,
    /// Result of a run with many kills, which has no points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kills: Option<Kills>,
    pub(crate) notes: Vec<String>,
}

/// A check between two runs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Between {
    /// Number of clients of the preceding run.
    pub(crate) clients: usize,
    pub(crate) verdict: Verdict,
}

/// The product that was measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Subject {
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) product: String,
    pub(crate) version: String,
    /// Durability of an acknowledged commit, and the setting that determines it.
    pub(crate) durability: String,
    pub(crate) server_settings: Vec<String>,
}

/// A run with one number of clients.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Point {
    pub(crate) clients: usize,
    pub(crate) warm_up_s: f64,
    /// Length of the measured interval.
    pub(crate) seconds: f64,
    /// Committed New-Order transactions a minute: the standard's tpmC, without its rules.
    pub(crate) nopm: f64,
    /// `nopm` for each core that the server kept busy, that is, for a minute of server CPU.
    pub(crate) nopm_per_server_core: Option<f64>,
    /// Transactions of all kinds a second.
    pub(crate) tps: f64,
    pub(crate) server_cpu_s: Option<f64>,
    /// Server CPU of all transactions, in microseconds for each committed New-Order.
    pub(crate) server_cpu_us_per_new_order: Option<f64>,
    pub(crate) server_cpu_us_per_trip: Option<f64>,
    pub(crate) server_written_bytes: Option<f64>,
    pub(crate) server_rss_bytes: Option<u64>,
    /// CPU seconds of this tool, all threads.
    pub(crate) client_cpu_s: f64,
    pub(crate) host_cpu_s: f64,
    /// Round trips in the measured interval.
    pub(crate) trips: u64,
    pub(crate) kinds: Vec<KindResult>,
    pub(crate) by_second: Vec<SecondOfKind>,
    /// Failed attempts, including those of the warm-up.
    pub(crate) errors: Vec<ErrorCount>,
    pub(crate) retries: u64,
    /// Deliveries that found no order in a district.
    pub(crate) skipped_districts: u64,
    pub(crate) outage: Option<Outage>,
}

/// One kind of transaction.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct KindResult {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) ok: u64,
    /// Transactions that failed after all retries.
    pub(crate) failed: u64,
    pub(crate) per_minute: f64,
    pub(crate) latency_ms: Latency,
    /// HDR histogram of nanoseconds (V2, deflated, base64).
    pub(crate) histogram: String,
}

/// One second of one kind.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SecondOfKind {
    /// Seconds since the start of the measured interval.
    pub(crate) at_s: f64,
    pub(crate) kind: String,
    pub(crate) ok: u64,
    pub(crate) failed: u64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
}

/// Attempts of one kind that failed in the same way.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ErrorCount {
    pub(crate) kind: String,
    /// SQLSTATE, or the class of the failure if the server sent none.
    pub(crate) sqlstate: String,
    pub(crate) count: u64,
    pub(crate) first: String,
}

/// A kill of the server during a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Outage {
    pub(crate) new_orders_before: u64,
    /// Seconds from the kill until the server answered again.
    pub(crate) restart_s: f64,
}

impl Point {
    /// Computes the derived figures.
    pub(super) fn derive(&mut self) {
        let orders = self.new_orders();
        let all: u64 = self.kinds.iter().map(|kind| kind.ok).sum();
        if self.seconds > 0.0 {
            self.nopm = orders as f64 * 60.0 / self.seconds;
            self.tps = all as f64 / self.seconds;
        }
        let per = |count: u64| self.server_cpu_s.filter(|_| count > 0).map(|cpu_s| cpu_s * 1e6 / count as f64);
        self.server_cpu_us_per_new_order = per(orders);
        self.server_cpu_us_per_trip = per(self.trips);
        self.nopm_per_server_core = self.server_cpu_us_per_new_order.filter(|us| *us > 0.0).map(|us| 60e6 / us);
    }

    /// Committed New-Order transactions in the measured interval.
    pub(crate) fn new_orders(&self) -> u64 {
        self.kinds.first().map_or(0, |kind| kind.ok)
    }

    /// Average processors that the server and this tool kept busy.
    pub(crate) fn cores(&self) -> (Option<f64>, f64) {
        let cores = |cpu_s: f64| if self.seconds > 0.0 { cpu_s / self.seconds } else { 0.0 };
        (self.server_cpu_s.map(cores), cores(self.client_cpu_s))
    }

    /// CPU shares of the server, this tool and the whole host, for a machine with `cpus`
    /// processors.
    pub(crate) fn shares(&self, cpus: u32) -> Shares {
        let (server, client) = self.cores();
        let share = |cores: f64| cores / f64::from(cpus.max(1));
        let host = if self.seconds > 0.0 { self.host_cpu_s / self.seconds } else { 0.0 };
        Shares { server: server.map(share), client: share(client), host: share(host) }
    }

    /// Returns a warning if other programs kept the machine busy.
    pub(crate) fn busy(&self, cpus: u32) -> Option<String> {
        let (server, client) = self.cores();
        let others = self.host_cpu_s / self.seconds - server? - client;
        let tells = self.seconds >= busy::SPAN_MIN_S && cpus > 0;
        tells.then(|| busy::sentence(others.max(0.0), f64::from(cpus))).flatten()
    }

    /// Failed attempts, including those of the warm-up and those that were retried.
    pub(crate) fn attempts_failed(&self) -> u64 {
        self.errors.iter().map(|error| error.count).sum()
    }
}

/// Shares of the machine's processors, 0 to 1.
pub(crate) struct Shares {
    /// Share of the server; `None` if its processes cannot be inspected.
    pub(crate) server: Option<f64>,
    pub(crate) client: f64,
    /// All processes of the machine.
    pub(crate) host: f64,
}

impl Report {
    /// Creates an empty report.
    pub(super) fn new(settings: &Settings, target: Subject) -> Report {
        Report {
            format: FORMAT,
            disclaimer: DISCLAIMER.to_owned(),
            tool: format!("millrace bench {}", env!("CARGO_PKG_VERSION")),
            command: settings.command.clone(),
            started: jiff::Zoned::now().strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
            machine: proc::machine(),
            target,
            warehouses: settings.warehouses,
            settings: settings.entries(),
            ..Report::default()
        }
    }

    /// Returns whether all checked conditions hold.
    pub(crate) fn passed(&self) -> bool {
        let between = self.between.iter().all(|between| between.verdict.passed());
        self.before.passed() && between && self.after.as_ref().is_none_or(Verdict::passed)
    }

    /// Copies the report without figures if a check failed.
    fn honest(&self) -> Report {
        let mut report = self.clone();
        if !self.passed() {
            report.points.clear();
            report.notes.push("a consistency check failed: figures are not shown".to_owned());
        }
        report
    }

    /// Renders the report for a terminal.
    pub(crate) fn text(&self) -> String {
        let report = self.honest();
        let target = &report.target;
        let mut out = String::new();
        let _ = writeln!(out, "\n{} {}; warehouses: {}", target.product, target.version, report.warehouses);
        let _ = writeln!(out, "durability: {}", target.durability);
        let settings: Vec<String> = report.settings.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let _ = writeln!(out, "{}", settings.join("; "));
        if let Some(loaded) = &report.loaded {
            let _ = writeln!(out, "{}", loaded.line());
        }
        // Conditions that hold take one line, unless the report has nothing else.
        let brief = !report.points.is_empty();
        conditions("before the run", &report.before, brief, &mut out);
        for Between { clients, verdict } in &report.between {
            conditions(&format!("after {clients} clients"), verdict, brief, &mut out);
        }
        if let Some(after) = &report.after {
            conditions("after the run", after, brief, &mut out);
        }
        if let Some(kills) = &report.kills {
            kills.text(report.after.as_ref(), &mut out);
        }
        for point in &report.points {
            point.text(report.machine.cpus, &mut out);
        }
        if report.points.len() > 1 {
            out.push('\n');
            summary(&report.points, report.machine.cpus, &mut out);
        }
        for note in &report.notes {
            let _ = writeln!(out, "note: {note}");
        }
        let _ = writeln!(out, "\n{DISCLAIMER}");
        out
    }
}

/// Compares several targets at the same numbers of clients with the first target. Empty for one
/// target, or if a check failed.
pub(crate) fn side_by_side(reports: &[Report]) -> String {
    let [first, others @ ..] = reports else { return String::new() };
    if others.is_empty() || !reports.iter().all(Report::passed) {
        return String::new();
    }
    let mut out = format!(
        "\n{:<12} {:>8} {:>15} {:>8} {:>14} {:>8} {:>10} {:>10}\n",
        "", "clients", "new orders/min", "ratio", "server µs/NO", "ratio", "NO p50", "NO p99"
    );
    for base in &first.points {
        for report in reports {
            let Some(point) = report.points.iter().find(|point| point.clients == base.clients) else { continue };
            let latency = point.kinds.first().map(|kind| kind.latency_ms.clone()).unwrap_or_default();
            let cpu = point.server_cpu_us_per_new_order;
            let ratio = |ours: Option<f64>, base: Option<f64>| {
                let known = ours.zip(base).filter(|(_, base)| *base > 0.0);
                known.map_or_else(|| "–".to_owned(), |(ours, base)| format!("{:.2}", ours / base))
            };
            let _ = writeln!(
                out,
                "{:<12} {:>8} {:>15} {:>8} {:>14} {:>8} {:>10} {:>10}",
                report.target.product,
                point.clients,
                whole(point.nopm as u64),
                ratio(Some(point.nopm), Some(base.nopm)),
                cpu.map_or_else(|| "–".to_owned(), |us| whole(us as u64)),
                ratio(cpu, base.server_cpu_us_per_new_order),
                milliseconds(latency.median),
                milliseconds(latency.p99),
            );
        }
    }
    out
}

/// Writes reports as JSON.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write_json(reports: &[Report], path: &Path) -> Result<()> {
    write_list(&for_page(reports), path)
}

/// Writes reports of any kind as a JSON list.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write_list<T: Serialize>(reports: &[T], path: &Path) -> Result<()> {
    let text = serde_json::to_string_pretty(reports).map_err(|error| Error::setup(format!("report: {error}")))?;
    std::fs::write(path, text + "\n").map_err(|error| Error::setup(format!("{}: {error}", path.display())))
}

/// Reports as shown on a page.
pub(crate) fn for_page(reports: &[Report]) -> Vec<Report> {
    reports.iter().map(Report::honest).collect()
}

impl Settings {
    /// Names and values of the settings that a reader must know.
    fn entries(&self) -> Vec<(String, String)> {
        let [a, b, c, d, e] = self.mix;
        let mode = match self.mode {
            Mode::Interactive => "interactive (a round trip for each statement)",
            Mode::Pipelined => "pipelined (statements together where the data allows)",
            Mode::OneTrip => "one-trip (a function or procedure for each transaction)",
            Mode::OneTripText => "one-trip-text (a text of several statements for each transaction)",
        };
        let isolation = match self.isolation {
            Isolation::ReadCommitted => "read committed",
            Isolation::RepeatableRead => "repeatable read",
            Isolation::Serializable => "serializable",
        };
        let draw = if self.draw == Draw::Deck { "dealt from a deck" } else { "drawn by weight" };
        let think = if self.thinks { "as in the standard, fixed terminals" } else { "off, any warehouse" };
        let pairs = [
            ("mode", mode.to_owned()),
            ("isolation", isolation.to_owned()),
            ("mix", format!("{a}/{b}/{c}/{d}/{e} {draw}")),
            ("think time", think.to_owned()),
            ("foreign keys", if self.foreign_keys { "on" } else { "off" }.to_owned()),
            ("retries", self.retries.to_string()),
            ("seed", self.seed.to_string()),
        ];
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

impl Loaded {
    /// Formats the load in one line.
    pub(crate) fn line(&self) -> String {
        let per = |seconds: f64| short(self.rows as f64 / seconds.max(1e-9));
        format!(
            "loaded {} rows, {} in {}: {} rows/s, {} rows/s for each core of this tool; keys and statistics {}",
            whole(self.rows),
            bytes(self.bytes as f64),
            seconds(self.seconds),
            per(self.seconds),
            per(self.client_cpu_s),
            seconds(self.completing_s),
        )
    }
}

fn conditions(when: &str, verdict: &Verdict, brief: bool, out: &mut String) {
    let took = seconds(verdict.seconds);
    if brief && verdict.passed() {
        let _ = writeln!(out, "consistency {when}: all {} conditions hold ({took})", verdict.conditions.len());
        return;
    }
    let word = if verdict.passed() { "all hold" } else { "FAILED" };
    let _ = writeln!(out, "\nconsistency {when}: {word} ({took})");
    for Condition { name, rule, offending, seconds: took } in &verdict.conditions {
        let state = if offending.is_empty() { "ok" } else { "FAILED" };
        let _ = writeln!(out, "  {name:>8}  {state:<6}  {rule} ({})", seconds(*took));
        for text in offending {
            let _ = writeln!(out, "            {text}");
        }
    }
}

impl Point {
    fn text(&self, cpus: u32, out: &mut String) {
        let (server, client) = self.cores();
        let _ = writeln!(
            out,
            "\n{} clients, {} measured after {}: {} new orders/min, {} transactions/s",
            self.clients,
            seconds(self.seconds),
            seconds(self.warm_up_s),
            whole(self.nopm as u64),
            short(self.tps),
        );
        if let (Some(cores), Some(order), Some(trip), Some(per_core)) =
            (server, self.server_cpu_us_per_new_order, self.server_cpu_us_per_trip, self.nopm_per_server_core)
        {
            let _ = writeln!(
                out,
                "  server CPU: {cores:.2} of {cpus} cores, {} µs a new order, {trip:.1} µs a round trip; {} new orders/min \
                 for each server core",
                whole(order as u64),
                whole(per_core as u64),
            );
        } else {
            let _ = writeln!(out, "  server CPU: unknown (name the server's processes with --server-pid)");
        }
        let _ = writeln!(out, "  client CPU: {client:.2} of {cpus} cores; round trips: {}", whole(self.trips));
        if client >= 0.7 * f64::from(cpus) {
            let _ = writeln!(out, "  client-bound: this tool used most of the machine and limits the throughput");
        }
        if let Some(warning) = self.busy(cpus) {
            let _ = writeln!(out, "  WARNING: {}: {warning}", busy::TITLE);
        }
        let _ = writeln!(
            out,
            "  {:<14} {:>10} {:>8} {:>11} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "", "done", "failed", "per minute", "p50", "p90", "p95", "p99", "max"
        );
        for kind in &self.kinds {
            let latency = &kind.latency_ms;
            let _ = writeln!(
                out,
                "  {:<14} {:>10} {:>8} {:>11} {:>9} {:>9} {:>9} {:>9} {:>9}",
                kind.name,
                whole(kind.ok),
                whole(kind.failed),
                whole(kind.per_minute as u64),
                milliseconds(latency.median),
                milliseconds(latency.p90),
                milliseconds(latency.p95),
                milliseconds(latency.p99),
                milliseconds(latency.max),
            );
        }
        self.failures(out);
    }

    fn failures(&self, out: &mut String) {
        if self.errors.is_empty() {
            let _ = writeln!(out, "  errors: none; retries: {}", whole(self.retries));
        } else {
            let count = self.attempts_failed();
            let _ = writeln!(out, "  errors: {}; retries: {}", whole(count), whole(self.retries));
        }
        for error in &self.errors {
            let _ =
                writeln!(out, "    {} {} x {}: {}", error.sqlstate, whole(error.count), error.kind, error.first.trim());
        }
        if self.skipped_districts > 0 {
            let _ = writeln!(out, "  deliveries found no order in {} districts", whole(self.skipped_districts));
        }
        if let Some(outage) = &self.outage {
            let _ = writeln!(
                out,
                "  killed after {} new orders; answered again after {}",
                whole(outage.new_orders_before),
                seconds(outage.restart_s)
            );
        }
    }
}

/// A table with one line for each number of clients; CPU shares are of the whole machine.
fn summary(points: &[Point], cpus: u32, out: &mut String) {
    let mut line = |cells: [String; 12]| {
        let [clients, cells @ ..] = cells;
        let _ = write!(out, "{clients:>8} {:>14}", cells[0]);
        cells[1..].iter().for_each(|cell| {
            let _ = write!(out, " {cell:>10}");
        });
        out.push('\n');
    };
    line(
        [
            "clients",
            "new orders/min",
            "for a core",
            "µs each",
            "server CPU",
            "client CPU",
            "all CPU",
            "NO p50",
            "NO p90",
            "NO p99",
            "failed",
            "retries",
        ]
        .map(str::to_owned),
    );
    for point in points {
        let latency = point.kinds.first().map(|kind| kind.latency_ms.clone()).unwrap_or_default();
        let shares = point.shares(cpus);
        let maybe = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| whole(value as u64));
        line([
            point.clients.to_string(),
            whole(point.nopm as u64),
            maybe(point.nopm_per_server_core),
            maybe(point.server_cpu_us_per_new_order),
            shares.server.map_or_else(|| "–".to_owned(), percent),
            percent(shares.client),
            percent(shares.host),
            milliseconds(latency.median),
            milliseconds(latency.p90),
            milliseconds(latency.p99),
            whole(point.attempts_failed()),
            whole(point.retries),
        ]);
    }
    out.push_str("(per core: of the cores that the server kept busy; µs: server CPU; shares: of the whole machine)\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point() -> Point {
        let kind = KindResult { name: "NEW_ORDER".to_owned(), ok: 6_000, ..KindResult::default() };
        let mut point = Point {
            clients: 16,
            seconds: 30.0,
            server_cpu_s: Some(18.0),
            client_cpu_s: 9.0,
            trips: 300_000,
            kinds: vec![kind],
            ..Point::default()
        };
        point.derive();
        point
    }

    fn verdict(offending: &[&str]) -> Verdict {
        let offending = offending.iter().map(|text| (*text).to_owned()).collect();
        Verdict {
            conditions: vec![Condition { name: "1".to_owned(), offending, ..Condition::default() }],
            seconds: 0.0,
        }
    }

    #[test]
    fn figures_follow_from_counts_and_cpu() {
        let point = Point { host_cpu_s: 60.0, ..point() };
        let shares = point.shares(4);
        assert_eq!((shares.server, shares.client, shares.host), (Some(0.15), 0.075, 0.5));
        assert_eq!((point.nopm, point.tps), (12_000.0, 200.0));
        assert_eq!(point.server_cpu_us_per_new_order, Some(3_000.0));
        assert_eq!(point.server_cpu_us_per_trip, Some(60.0));
        assert_eq!(point.nopm_per_server_core, Some(20_000.0));
        assert_eq!(point.cores(), (Some(0.6), 0.3));
    }

    #[test]
    fn a_machine_that_other_programs_keep_busy_is_reported_with_the_run() {
        let busy = |host_cpu_s| Point { host_cpu_s, ..point() }.busy(4);
        assert_eq!(busy(27.0 + 15.0), None, "an eighth of the machine");
        assert!(busy(27.0 + 60.0).unwrap().contains("used 2.0 of 4 processors (50 %)"));
        assert_eq!(
            Point { host_cpu_s: 90.0, server_cpu_s: None, ..point() }.busy(4),
            None,
            "a server that is not seen"
        );
        let machine = Machine { cpus: 4, ..Machine::default() };
        let points = vec![Point { host_cpu_s: 87.0, ..point() }];
        let report = Report { points, machine, before: verdict(&[]), ..Report::default() };
        assert!(report.text().contains("WARNING: This machine was busy: other"), "{}", report.text());
    }

    #[test]
    fn a_failed_condition_removes_throughput_from_every_format() {
        let report = Report {
            before: verdict(&[]),
            after: Some(verdict(&["W_ID=1 W_YTD=3.00"])),
            points: vec![point()],
            ..Report::default()
        };
        assert!(!report.passed());
        let text = report.text();
        assert!(text.contains("FAILED") && text.contains("W_YTD=3.00"), "{text}");
        assert!(!text.contains("12,000") && !text.contains("new orders/min"), "{text}");
        assert!(for_page(std::slice::from_ref(&report))[0].points.is_empty());
        let between = |offending| Between { clients: 8, verdict: verdict(offending) };
        let earlier = Report { after: Some(verdict(&[])), between: vec![between(&["x=1"])], ..report.clone() };
        assert!(!earlier.passed() && !earlier.text().contains("12,000"), "{}", earlier.text());
        let passed = Report { after: Some(verdict(&[])), between: vec![between(&[])], ..report };
        let text = passed.text();
        assert!(passed.passed() && text.contains("12,000 new orders/min"), "{text}");
        assert!(
            text.contains("consistency after the run: all 1 conditions hold") && !text.contains("  ok  "),
            "{text}"
        );
        let checked = Report { points: Vec::new(), ..passed }.text();
        assert!(checked.contains("  ok  "), "a check alone lists its conditions: {checked}");
    }

    #[test]
    fn targets_are_compared_with_the_first_one() {
        let report = |product: &str, nopm: f64| {
            let point = Point { nopm, server_cpu_us_per_new_order: Some(24e6 / nopm), ..point() };
            let mut report = Report { before: verdict(&[]), points: vec![point], ..Report::default() };
            report.target.product = product.to_owned();
            report
        };
        let reports = [report("PostgreSQL", 12_000.0), report("MariaDB", 6_000.0)];
        let text = side_by_side(&reports);
        let words: Vec<&str> = text.lines().last().unwrap_or_default().split_whitespace().collect();
        assert_eq!(words[..6], ["MariaDB", "16", "6,000", "0.50", "4,000", "2.00"], "{text}");
        assert_eq!(side_by_side(&reports[..1]), "");
        let failed = Report { after: Some(verdict(&["x=1"])), ..report("MariaDB", 1.0) };
        assert_eq!(side_by_side(&[report("PostgreSQL", 1.0), failed]), "");
    }

    #[test]
    fn everything_that_is_printed_says_that_it_is_not_audited() {
        assert!(Report::default().text().contains("Not audited TPC results"));
    }

    #[test]
    fn a_run_without_any_condition_has_not_passed() {
        assert!(!Report::default().passed());
    }
}
