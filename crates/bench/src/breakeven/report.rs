//! The report of a break-even run, as text and JSON. `report::html` renders the page with charts.
//!
//! Always true: no output has throughput or latency of a run with a wrong answer.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::data::Shape;
use crate::report::format::{bytes, milliseconds, percent, short, whole};
use crate::result::{Latency, Machine};
use crate::tpcc::report::Subject;

/// Relative difference up to which two figures count as a tie (noise).
const TIE: f64 = 0.05;

/// Shortest CPU time that is shown. The clock of processes ticks every 10 ms, and one tick must be
/// at most [`TIE`].
const CPU_S_MIN: f64 = 0.2;

/// Results on one target.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) tool: String,
    pub(crate) command: Vec<String>,
    pub(crate) started: String,
    pub(crate) machine: Machine,
    pub(crate) target: Subject,
    /// Names of the two tables, the compressed one first.
    pub(crate) tables: Vec<String>,
    pub(crate) series: u32,
    pub(crate) days: usize,
    pub(crate) bulk_days: usize,
    pub(crate) bulk_passes: u32,
    pub(crate) repeat: u32,
    pub(crate) loaded: Vec<Loaded>,
    /// In chronological order.
    pub(crate) steps: Vec<Step>,
    /// Values that differ from the last ones written; the first ends the run.
    pub(crate) findings: Vec<String>,
    pub(crate) notes: Vec<String>,
}

/// A table after the load.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Loaded {
    pub(crate) table: String,
    #[serde(flatten)]
    pub(crate) figure: Figure,
    /// Size of the data directory when the server is idle.
    pub(crate) data_bytes: Option<u64>,
    /// Size of the data directory at the end of the run, after the table was compacted.
    pub(crate) smallest_bytes: Option<u64>,
}

/// Figures of one step: a share of each block changed by one kind of request, and read.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Step {
    pub(crate) table: String,
    pub(crate) requests: String,
    /// Percentage of each block that was changed.
    pub(crate) share: u32,
    pub(crate) repeat: u32,
    /// CPU is counted until the server is idle.
    pub(crate) write: Figure,
    /// Reads directly after the writes.
    pub(crate) fresh: Figure,
    /// Reads when the server is idle.
    pub(crate) read: Figure,
    /// Compaction of the whole table.
    #[serde(default)]
    pub(crate) pack: Figure,
    /// Size of the data directory when the server is idle.
    pub(crate) data_bytes: Option<u64>,
    /// Bytes that the server's processes wrote, from the first write until they were idle.
    pub(crate) disk_written_bytes: Option<u64>,
}

/// Sums over requests of one kind.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Figure {
    pub(crate) values: u64,
    pub(crate) requests: u64,
    /// Elapsed time from sending to the complete answer, summed over requests.
    pub(crate) seconds: f64,
    pub(crate) server_cpu_s: Option<f64>,
    pub(crate) latency_ms: Latency,
}

/// Selects a figure of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Write,
    Fresh,
    Read,
    Pack,
}

impl Phase {
    pub(crate) const ALL: [Phase; 4] = [Phase::Write, Phase::Fresh, Phase::Read, Phase::Pack];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Phase::Write => "writing",
            Phase::Fresh => "reading at once",
            Phase::Read => "reading at rest",
            Phase::Pack => "packing again",
        }
    }

    fn of(self, step: &Step) -> &Figure {
        match self {
            Phase::Write => &step.write,
            Phase::Fresh => &step.fresh,
            Phase::Read => &step.read,
            Phase::Pack => &step.pack,
        }
    }
}

/// Medians of a table's steps with one kind of request and one share.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Summary {
    pub(crate) values: u64,
    pub(crate) values_per_s: f64,
    pub(crate) cpu_us_per_value: Option<f64>,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
}

/// Compressed table relative to the other one: above 1 the compressed one is better. Each ratio is
/// of two steps of the same repeat, which ran at the same time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ratio {
    pub(crate) throughput: Spread,
    pub(crate) cpu: Option<Spread>,
}

/// Median and range over repeats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    fn of(values: Vec<f64>) -> Spread {
        let min = values.iter().copied().fold(f64::INFINITY, f64::min);
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Spread { median: median(values), min, max }
    }

    /// `1.02 (0.97–1.10)`.
    pub(crate) fn text(&self) -> String {
        format!("{:.2} ({:.2}–{:.2})", self.median, self.min, self.max)
    }
}

impl Ratio {
    /// Whether the compressed table is at least as good, within [`TIE`] or in at least one repeat.
    /// Compares CPU where it is known, because it varies less.
    pub(crate) fn wins_or_ties(&self) -> bool {
        let ratio = self.cpu.unwrap_or(self.throughput);
        ratio.median >= 1.0 - TIE || ratio.max >= 1.0
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
            report.steps.clear();
            report.loaded.clear();
        }
        report
    }

    /// Kinds of requests with their shares, in the order of execution.
    pub(crate) fn kinds(&self) -> Vec<(String, Vec<u32>)> {
        let mut kinds: Vec<(String, Vec<u32>)> = Vec::new();
        for step in &self.steps {
            match kinds.iter_mut().find(|kind| kind.0 == step.requests) {
                Some(kind) if !kind.1.contains(&step.share) => kind.1.push(step.share),
                Some(_) => {}
                None => kinds.push((step.requests.clone(), vec![step.share])),
            }
        }
        kinds
    }

    fn steps_of<'a>(&'a self, table: &'a str, requests: &'a str, share: u32) -> impl Iterator<Item = &'a Step> {
        self.steps.iter().filter(move |s| s.table == table && s.requests == requests && s.share == share)
    }

    pub(crate) fn summary(&self, table: &str, requests: &str, share: u32, phase: Phase) -> Option<Summary> {
        let figures: Vec<&Figure> = self.steps_of(table, requests, share).map(|step| phase.of(step)).collect();
        let values = figures.first()?.values;
        let of = |value: &dyn Fn(&Figure) -> f64| median(figures.iter().map(|figure| value(figure)).collect());
        let cpu: Option<Vec<f64>> = figures.iter().map(|figure| figure.server_cpu_s).collect();
        let cpu = cpu.map(median).filter(|cpu_s| *cpu_s >= CPU_S_MIN);
        Some(Summary {
            values,
            values_per_s: of(&|figure| figure.values as f64 / figure.seconds.max(1e-9)),
            cpu_us_per_value: cpu.map(|cpu_s| cpu_s * 1e6 / values.max(1) as f64),
            p50_ms: of(&|figure| figure.latency_ms.median),
            p99_ms: of(&|figure| figure.latency_ms.p99),
            max_ms: figures.iter().map(|figure| figure.latency_ms.max).fold(0.0, f64::max),
        })
    }

    /// Ratio of the compressed table to the other one.
    pub(crate) fn ratio(&self, requests: &str, share: u32, phase: Phase) -> Option<Ratio> {
        let [compressed, other] = self.tables.as_slice() else { return None };
        let paired = |own: &Step| {
            let other = self.steps_of(other, requests, share).find(|other| other.repeat == own.repeat)?;
            Some((phase.of(own).clone(), phase.of(other).clone()))
        };
        let pairs: Vec<(Figure, Figure)> =
            self.steps_of(compressed, requests, share).filter_map(paired).filter(|pair| pair.0.requests > 0).collect();
        let rate = |figure: &Figure| figure.values as f64 / figure.seconds.max(1e-9);
        let known_cpu = |figure: &Figure| figure.server_cpu_s.filter(|cpu_s| *cpu_s >= CPU_S_MIN);
        let cpu =
            pairs.iter().map(|(own, other)| Some(known_cpu(other)? / known_cpu(own)?)).collect::<Option<Vec<f64>>>();
        let throughput = pairs.iter().map(|(own, other)| rate(own) / rate(other)).collect::<Vec<f64>>();
        (!pairs.is_empty()).then(|| Ratio { throughput: Spread::of(throughput), cpu: cpu.map(Spread::of) })
    }

    /// Medians of the bytes on disk and of the bytes written per changed value.
    pub(crate) fn bytes(&self, table: &str, requests: &str, share: u32) -> (Option<f64>, Option<f64>) {
        let steps: Vec<&Step> = self.steps_of(table, requests, share).collect();
        let all = |of: &dyn Fn(&Step) -> Option<f64>| {
            steps.iter().map(|step| of(step)).collect::<Option<Vec<f64>>>().filter(|all| !all.is_empty()).map(median)
        };
        let each = |step: &Step| Some(step.disk_written_bytes? as f64 / step.write.values.max(1) as f64);
        (all(&|step| Some(step.data_bytes? as f64)), all(&each))
    }

    /// Text for a terminal; without figures if an answer was wrong.
    pub(crate) fn text(&self) -> String {
        let report = self.honest();
        let mut out = String::new();
        let values = u64::from(self.series) * self.days as u64 * 96;
        _ = writeln!(out, "\n{} {}: TSM's break-even test", self.target.product, self.target.version);
        _ = writeln!(out, "durability: {}", self.target.durability);
        _ = writeln!(
            out,
            "{} series of quarters of an hour for {} days: {} values with flags, in blocks of a day",
            self.series,
            self.days,
            whole(values)
        );
        _ = writeln!(out, "verification: {}", if self.passed() { "PASSED: every value read" } else { "FAILED" });
        self.findings.iter().for_each(|finding| _ = writeln!(out, "  {finding}"));
        for loaded in &report.loaded {
            let size = |bytes_of: Option<u64>| bytes_of.map_or_else(|| "–".to_owned(), |size| bytes(size as f64));
            _ = writeln!(
                out,
                "{}: loaded at {} values/s, {} on disk; at the end, in its smallest form, {}",
                loaded.table,
                short(loaded.figure.values as f64 / loaded.figure.seconds.max(1e-9)),
                size(loaded.data_bytes),
                size(loaded.smallest_bytes)
            );
        }
        for (requests, shares) in report.kinds() {
            for phase in Phase::ALL {
                _ = writeln!(out, "\n{} requests, {}", requests, phase.title());
                report.table(&requests, &shares, phase, &mut out);
            }
        }
        self.notes.iter().for_each(|note| _ = writeln!(out, "{note}"));
        out
    }

    fn table(&self, requests: &str, shares: &[u32], phase: Phase, out: &mut String) {
        _ = writeln!(
            out,
            "{:>6}  {:28} {:>10} {:>12} {:>10} {:>10} {:>12} {:>11} {:>36}",
            "share", "table", "values/s", "CPU µs/value", "p50", "p99", "on disk", "written B/v", "ratio / of CPU"
        );
        for share in shares {
            for (number, table) in self.tables.iter().enumerate() {
                let Some(summary) = self.summary(table, requests, *share, phase) else { continue };
                let ratio = self.ratio(requests, *share, phase).filter(|_| number == 0);
                let (on_disk, written) = self.bytes(table, requests, *share);
                let none = || "–".to_owned();
                _ = writeln!(
                    out,
                    "{:>4} %  {:28} {:>10} {:>12} {:>10} {:>10} {:>12} {:>11} {:>36}",
                    share,
                    table,
                    short(summary.values_per_s),
                    summary.cpu_us_per_value.map_or_else(none, |cpu| format!("{cpu:.3}")),
                    milliseconds(summary.p50_ms),
                    milliseconds(summary.p99_ms),
                    on_disk.map_or_else(none, bytes),
                    written.filter(|_| phase == Phase::Write).map_or_else(none, |each| format!("{each:.1}")),
                    ratio.map_or_else(String::new, |ratio| ratio.text()),
                );
            }
        }
    }
}

impl Ratio {
    /// Throughput and CPU: `1.02 (0.97–1.10) / 1.10 (1.08–1.11)`.
    fn text(&self) -> String {
        let cpu = self.cpu.map_or_else(|| "–".to_owned(), |cpu| cpu.text());
        format!("{} / {cpu}{}", self.throughput.text(), if self.wins_or_ties() { "" } else { " <" })
    }
}

/// `25 % (24 of 96 values)`.
pub(crate) fn share_text(share: u32) -> String {
    format!("{} ({} of 96 values)", percent(f64::from(share) / 100.0), Shape::changed(share))
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

    /// Two tables; the compressed one takes half the CPU and twice the time.
    pub(crate) fn fixture() -> Report {
        let figure = |seconds: f64, cpu_s: f64| Figure {
            values: 1_000,
            requests: 10,
            seconds,
            server_cpu_s: Some(cpu_s),
            latency_ms: Latency { median: 1.0, p99: 2.0, max: 3.0, ..Latency::default() },
        };
        let step = |table: &str, share: u32, repeat: u32, seconds: f64, cpu_s: f64| Step {
            table: table.to_owned(),
            requests: "single".to_owned(),
            share,
            repeat,
            write: figure(seconds, cpu_s),
            fresh: figure(seconds, cpu_s),
            read: figure(seconds, cpu_s),
            pack: figure(seconds, cpu_s),
            data_bytes: Some(4096),
            disk_written_bytes: Some(30_000),
        };
        let mut report = Report {
            tables: vec!["packed".to_owned(), "plain<b>".to_owned()],
            series: 2,
            days: 3,
            loaded: vec![Loaded { table: "packed".to_owned(), data_bytes: Some(2048), ..Loaded::default() }],
            ..Report::default()
        };
        report.target.product = "PostgreSQL".to_owned();
        for share in [1, 100] {
            for repeat in 0..3 {
                // One repeat in three is disturbed.
                let noise = if repeat == 1 { 10.0 } else { 1.0 };
                report.steps.push(step("packed", share, repeat, 2.0 * noise, 0.5 * noise));
                report.steps.push(step("plain<b>", share, repeat, 1.0, 1.0));
            }
        }
        report
    }

    #[test]
    fn ratios_are_of_one_repeat_each_and_above_one_where_the_compressed_table_is_better() {
        let ratio = fixture().ratio("single", 1, Phase::Write).unwrap();
        assert_eq!(ratio.throughput, Spread { median: 0.5, min: 0.05, max: 0.5 });
        assert_eq!(ratio.cpu, Some(Spread { median: 2.0, min: 0.2, max: 2.0 }));
        let spread = |median: f64, max: f64| Spread { median, min: 0.1, max };
        let (bad, good) = (spread(0.1, 0.1), spread(2.0, 2.0));
        for (throughput, cpu, expected) in [
            (bad, Some(good), true),
            (good, Some(bad), false),
            (good, Some(spread(0.94, 0.99)), false),
            (good, Some(spread(0.94, 1.0)), true),
            (spread(0.96, 0.97), None, true),
        ] {
            assert_eq!(Ratio { throughput, cpu }.wins_or_ties(), expected, "{throughput:?}, {cpu:?}");
        }
        assert!(fixture().ratio("bulk", 1, Phase::Write).is_none());
        let mut short = fixture();
        short.steps.iter_mut().for_each(|step| step.write.server_cpu_s = Some(0.19));
        assert_eq!(short.ratio("single", 1, Phase::Write).unwrap().cpu, None, "19 ticks of the clock are too few");
        assert_eq!(fixture().bytes("packed", "single", 1), (Some(4096.0), Some(30.0)));
    }

    #[test]
    fn wrong_answer_hides_all_figures() {
        let text = fixture().text();
        assert!(
            text.contains("values/s")
                && text.contains("0.50 (0.05–0.50) / 2.00 (0.20–2.00)")
                && text.contains("PASSED"),
            "{text}"
        );
        let wrong = Report { findings: vec!["series 1, value 3: read 7".to_owned()], ..fixture() };
        let text = wrong.text();
        assert!(text.contains("FAILED") && text.contains("series 1, value 3"), "{text}");
        assert!(!text.contains("values/s") && !text.contains("0.50 ("), "{text}");
        assert!(wrong.honest().steps.is_empty() && wrong.honest().loaded.is_empty());
    }

    #[test]
    fn median_of_an_even_number_is_the_mean_of_the_middle_two() {
        assert_eq!((median(vec![3.0, 1.0, 2.0]), median(vec![4.0, 1.0, 3.0, 2.0])), (2.0, 2.5));
    }
}
