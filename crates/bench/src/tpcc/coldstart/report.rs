//! Results of cold starts as text and JSON; `report::html` renders the page with charts.
//!
//! Always true: a run with a wrong answer shows no time and no rate, in any format.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::Settings;
use crate::measure::proc;
use crate::report::format::{bytes, percent, seconds, short, whole};
use crate::result::Machine;
use crate::tpcc::report::Subject;
use crate::tpcc::rowload::ROW_BYTES;

/// Version of the JSON format.
const FORMAT: u32 = 1;
/// Goal for a cold start: share of the disk's own rate.
pub(crate) const GOAL_OF_DISK: f64 = 0.8;

/// Kind of stop before a start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Stop {
    /// It was asked to stop, and stopped.
    #[default]
    Clean,
    /// SIGKILL, with rows committed after the last checkpoint.
    Kill,
}

/// State of the server's files before a start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Cache {
    /// On disk only.
    #[default]
    Cold,
    /// In the page cache.
    Warm,
}

impl Stop {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Stop::Clean => "stopped",
            Stop::Kill => "killed",
        }
    }
}

impl Cache {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Cache::Cold => "cold",
            Cache::Warm => "warm",
        }
    }
}

/// The starts of one target.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) format: u32,
    pub(crate) tool: String,
    pub(crate) command: Vec<String>,
    pub(crate) started: String,
    pub(crate) machine: Machine,
    pub(crate) target: Subject,
    /// Names and values, human-readable.
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) sizes: Vec<Size>,
    /// Descriptions of wrong answers.
    pub(crate) findings: Vec<String>,
    pub(crate) notes: Vec<String>,
}

/// Results at one size.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Size {
    /// Number of rows before the starts.
    pub(crate) rows: u64,
    /// Bytes of these rows as they were sent.
    pub(crate) row_bytes: u64,
    /// Number of the server's files without its log, after the checkpoint.
    pub(crate) files: usize,
    pub(crate) file_bytes: u64,
    /// Rows loaded to reach this size, and the seconds that took.
    pub(crate) loaded_rows: u64,
    pub(crate) load_s: f64,
    pub(crate) checkpoint_s: f64,
    pub(crate) stop_s: f64,
    /// Reads of the same files from the disk without the server.
    pub(crate) disk: Vec<DiskRead>,
    pub(crate) starts: Vec<Start>,
}

/// All files read once from the disk.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct DiskRead {
    pub(crate) readers: usize,
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
}

/// One start.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) stop: Stop,
    pub(crate) cache: Cache,
    /// Rows that only the log contained.
    pub(crate) tail_rows: u64,
    /// Share of the files in the page cache, 0 to 1, measured right before the start.
    pub(crate) cached_before: Option<f64>,
    /// Seconds from the execution of the program to the answer of a query by key.
    pub(crate) first_row_s: f64,
    /// Seconds from the execution of the program to the answer of `count(*)`.
    pub(crate) count_s: f64,
    /// CPU seconds of the server until the count was answered.
    pub(crate) server_cpu_s: Option<f64>,
    /// Bytes that the server read from disk until the count was answered.
    pub(crate) server_read_bytes: Option<u64>,
    pub(crate) server_rss_bytes: Option<u64>,
    /// Bytes of the server's files divided by `count_s`, in 10^9 bytes a second.
    pub(crate) gb_per_s: f64,
    /// `gb_per_s` as a share of the disk's rate; only for cold starts.
    pub(crate) of_disk: Option<f64>,
}

/// Starts of one kind at one size: the one with the median time, and the range of times.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    pub(crate) median: Start,
    pub(crate) runs: usize,
    /// Minimum and maximum of the time until all rows were counted.
    pub(crate) count_s: (f64, f64),
    pub(crate) first_row_s: (f64, f64),
}

impl Start {
    /// Computes the derived figures.
    pub(super) fn derive(&mut self, size: &Size) {
        self.gb_per_s = size.file_bytes as f64 / 1e9 / self.count_s.max(1e-9);
        let disk = size.disk_gb_per_s();
        self.of_disk = (self.cache == Cache::Cold && disk > 0.0).then(|| self.gb_per_s / disk);
    }
}

impl Size {
    /// The disk's rate with the best number of readers, in 10^9 bytes a second.
    pub(crate) fn disk_gb_per_s(&self) -> f64 {
        let rate = |read: &DiskRead| read.bytes as f64 / 1e9 / read.seconds.max(1e-9);
        self.disk.iter().map(rate).fold(0.0, f64::max)
    }

    /// Summarises the starts of one kind; `None` if there are none.
    pub(crate) fn summary(&self, stop: Stop, cache: Cache) -> Option<Summary> {
        let of_kind = self.starts.iter().filter(|start| (start.stop, start.cache) == (stop, cache));
        let mut starts: Vec<&Start> = of_kind.collect();
        starts.sort_by(|a, b| a.count_s.total_cmp(&b.count_s));
        let median = (*starts.get(starts.len().saturating_sub(1) / 2)?).clone();
        let range = |of: fn(&Start) -> f64| {
            let ends = |(low, high): (f64, f64), start: &&Start| (low.min(of(start)), high.max(of(start)));
            starts.iter().fold((f64::MAX, f64::MIN), ends)
        };
        Some(Summary {
            median,
            runs: starts.len(),
            count_s: range(|start| start.count_s),
            first_row_s: range(|start| start.first_row_s),
        })
    }

    /// Summaries of all kinds that have starts.
    pub(crate) fn summaries(&self) -> Vec<Summary> {
        KINDS.iter().filter_map(|(stop, cache)| self.summary(*stop, *cache)).collect()
    }

    /// Size of the rows in 10^9 bytes, for display.
    pub(crate) fn gb(&self) -> f64 {
        self.row_bytes as f64 / 1e9
    }
}

/// Kinds of starts in display order.
pub(crate) const KINDS: [(Stop, Cache); 4] =
    [(Stop::Clean, Cache::Cold), (Stop::Clean, Cache::Warm), (Stop::Kill, Cache::Cold), (Stop::Kill, Cache::Warm)];

impl Report {
    /// Creates an empty report.
    pub(super) fn new(settings: &Settings, target: Subject) -> Report {
        Report {
            format: FORMAT,
            tool: format!("millrace bench {}", env!("CARGO_PKG_VERSION")),
            command: settings.command.clone(),
            started: jiff::Zoned::now().strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
            machine: proc::machine(),
            target,
            settings: settings.entries(),
            ..Report::default()
        }
    }

    /// Returns whether every answer was correct.
    pub(crate) fn passed(&self) -> bool {
        self.findings.is_empty() && !self.sizes.is_empty()
    }

    /// Copies the report without figures if an answer was wrong.
    pub(crate) fn honest(&self) -> Report {
        let mut report = self.clone();
        if !report.findings.is_empty() {
            report.sizes.iter_mut().for_each(|size| size.starts.clear());
            report.notes.push("an answer was wrong: figures are not shown".to_owned());
        }
        report
    }

    /// Renders the report for a terminal.
    pub(crate) fn text(&self) -> String {
        let report = self.honest();
        let target = &report.target;
        let mut out = String::new();
        let _ = writeln!(out, "\n{} {}: cold start", target.product, target.version);
        let _ = writeln!(out, "durability: {}", target.durability);
        for (name, value) in &report.settings {
            let _ = writeln!(out, "{name}: {value}");
        }
        let word = if report.findings.is_empty() { "all answers were correct" } else { "FAILED" };
        let _ = writeln!(out, "verification: {word}");
        for finding in &report.findings {
            let _ = writeln!(out, "  {finding}");
        }
        for size in &report.sizes {
            size.text(&mut out);
        }
        for note in &report.notes {
            let _ = writeln!(out, "note: {note}");
        }
        out
    }
}

impl Size {
    fn text(&self, out: &mut String) {
        let disk: Vec<String> = self.disk.iter().map(DiskRead::text).collect();
        let _ = writeln!(
            out,
            "\n{:.3} GB in {} rows; {} in {} files; checkpoint {}, stop {}\n  the disk reads them at {}",
            self.gb(),
            whole(self.rows),
            bytes(self.file_bytes as f64),
            whole(self.files as u64),
            seconds(self.checkpoint_s),
            seconds(self.stop_s),
            disk.join(", "),
        );
        if self.starts.is_empty() {
            return;
        }
        let _ = writeln!(
            out,
            "  {:<8} {:<5} {:>5} {:>10} {:>10} {:>17} {:>7} {:>8} {:>11} {:>10} {:>10} {:>8} {:>9}",
            "",
            "",
            "runs",
            "first row",
            "count(*)",
            "from - to",
            "GB/s",
            "of disk",
            "server CPU",
            "disk read",
            "memory",
            "cached",
            "log rows"
        );
        for summary in self.summaries() {
            let start = &summary.median;
            let maybe = |value: Option<u64>| value.map_or_else(|| "–".to_owned(), |value| bytes(value as f64));
            let _ = writeln!(
                out,
                "  {:<8} {:<5} {:>5} {:>10} {:>10} {:>17} {:>7.2} {:>8} {:>11} {:>10} {:>10} {:>8} {:>9}",
                start.stop.text(),
                start.cache.text(),
                summary.runs,
                seconds(start.first_row_s),
                seconds(start.count_s),
                format!("{} - {}", seconds(summary.count_s.0), seconds(summary.count_s.1)),
                start.gb_per_s,
                start.of_disk.map_or_else(String::new, percent),
                start.server_cpu_s.map_or_else(|| "–".to_owned(), seconds),
                maybe(start.server_read_bytes),
                maybe(start.server_rss_bytes),
                start.cached_before.map_or_else(|| "–".to_owned(), percent),
                short(start.tail_rows as f64),
            );
        }
    }
}

impl DiskRead {
    pub(crate) fn text(&self) -> String {
        let rate = self.bytes as f64 / 1e9 / self.seconds.max(1e-9);
        let readers = if self.readers == 1 { "one reader".to_owned() } else { format!("{} readers", self.readers) };
        format!("{rate:.2} GB/s by {readers}")
    }
}

impl Settings {
    /// Names and values of the settings that a reader must know.
    fn entries(&self) -> Vec<(String, String)> {
        let index = if self.secondary_index { "the key and amount" } else { "the key" };
        let pairs = [
            (
                "rows",
                format!(
                    "{ROW_BYTES} bytes: id bigint, batch integer, amount bigint, 180 characters; indexed by {index}"
                ),
            ),
            ("cold", self.method.text().to_owned()),
            ("killed", format!("SIGKILL, with {} of the rows committed after the checkpoint", percent(self.tail))),
            (
                "GB/s",
                "bytes of the server's files without its log, by the time from the execution of the program until \
                 count(*) was right"
                    .to_owned(),
            ),
            ("seed", self.seed.to_string()),
        ];
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(times: &[f64]) -> Size {
        let read = |readers, seconds| DiskRead { readers, bytes: 2_000_000_000, seconds };
        let mut size = Size {
            rows: 5_000_000,
            row_bytes: 1_000_000_000,
            file_bytes: 2_000_000_000,
            disk: vec![read(1, 2.0), read(2, 1.0)],
            ..Size::default()
        };
        for count_s in times {
            let mut start = Start { count_s: *count_s, first_row_s: count_s / 2.0, ..Start::default() };
            start.derive(&size);
            size.starts.push(start);
        }
        size
    }

    #[test]
    fn a_start_is_compared_with_the_best_rate_of_the_disk() {
        let size = size(&[4.0, 1.25, 2.0]);
        assert_eq!(size.disk_gb_per_s(), 2.0);
        let summary = size.summary(Stop::Clean, Cache::Cold).unwrap();
        assert_eq!((summary.median.count_s, summary.count_s, summary.runs), (2.0, (1.25, 4.0), 3));
        assert_eq!((summary.median.gb_per_s, summary.median.of_disk), (1.0, Some(0.5)));
        assert_eq!(size.starts[1].of_disk, Some(0.8));
        assert!(size.summary(Stop::Kill, Cache::Cold).is_none());
        let mut warm = Start { cache: Cache::Warm, count_s: 1.0, ..Start::default() };
        warm.derive(&size);
        assert_eq!(warm.of_disk, None, "the disk has nothing to do with it");
    }

    #[test]
    fn a_wrong_answer_removes_all_figures() {
        let report = Report { sizes: vec![size(&[1.25])], ..Report::default() };
        assert!(report.passed() && report.text().contains("1.6"), "{}", report.text());
        let wrong = Report { findings: vec!["count(*) is 3".to_owned()], ..report };
        let text = wrong.text();
        assert!(!wrong.passed() && text.contains("FAILED") && text.contains("count(*) is 3"), "{text}");
        assert!(!text.contains("1.6") && !text.contains("first row"), "{text}");
        assert!(!Report::default().passed(), "nothing was asked");
    }
}
