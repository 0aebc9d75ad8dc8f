//! The report of an archiver run, as text and JSON.
//!
//! Always true: no output has figures of a run with a wrong answer.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::{Reading, SpanName};
use crate::published::sns;
use crate::report::busy;
use crate::report::format::{bytes, milliseconds, seconds, short, whole};
use crate::result::{Latency, Machine};
use crate::tpcc::report::Subject;

/// Results on one target.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) tool: String,
    pub(crate) command: Vec<String>,
    pub(crate) started: String,
    pub(crate) machine: Machine,
    pub(crate) target: Subject,
    pub(crate) write_path: String,
    pub(crate) connections: usize,
    pub(crate) seed: u64,
    /// Number of PVs of all classes.
    pub(crate) pvs: u32,
    /// Samples per second of all classes.
    pub(crate) rate: f64,
    pub(crate) reading: Reading,
    pub(crate) faults: bool,
    pub(crate) classes: Vec<String>,
    pub(crate) batch_s: f64,
    /// Size of the data directories with empty tables, without the write-ahead log.
    #[serde(default)]
    pub(crate) empty_bytes: Option<u64>,
    /// In increasing order; each includes the ones before it.
    pub(crate) spans: Vec<Span>,
    pub(crate) blocks: Vec<Block>,
    /// Rewriting all data in its smallest form, at the end.
    pub(crate) compaction: Option<Compaction>,
    /// Answers that differ from what was written.
    pub(crate) findings: Vec<String>,
    /// Queries that failed.
    pub(crate) failures: Vec<String>,
    pub(crate) notes: Vec<String>,
}

/// The table at the end of a span.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Span {
    pub(crate) name: SpanName,
    /// Generated time in seconds.
    pub(crate) length_s: f64,
    /// Samples sent since the start, and rows that must be stored.
    pub(crate) samples: u64,
    pub(crate) stored: u64,
    /// Connections that were lost: rows of the table of gaps, or of samples without a value.
    #[serde(default)]
    pub(crate) gaps: u64,
    pub(crate) of_class: Vec<(String, u64)>,
    /// Seconds of writing since the start: from the first request to the last acknowledgement,
    /// without the queries of earlier spans.
    pub(crate) load_s: f64,
    pub(crate) samples_per_s: f64,
    /// Until the server was idle.
    pub(crate) server_cpu_s: Option<f64>,
    pub(crate) cpu_s_per_million: Option<f64>,
    /// CPU of this tool, and of its generator's thread alone.
    pub(crate) client_cpu_s: f64,
    pub(crate) generator_cpu_s: f64,
    /// CPU of the whole machine while writing, until the server was idle, and that time.
    pub(crate) host_cpu_s: f64,
    pub(crate) busy_s: f64,
    pub(crate) settled: bool,
    pub(crate) settling_s: f64,
    /// Latency of the requests of this span.
    pub(crate) write_ms: Latency,
    pub(crate) requests: u64,
    /// Size of the data directories at rest, and of the write-ahead log in them.
    pub(crate) data_bytes: Option<u64>,
    pub(crate) log_bytes: Option<u64>,
    pub(crate) disk_written_bytes: Option<u64>,
    pub(crate) server_rss_bytes: Option<u64>,
    pub(crate) queries: Vec<Query>,
}

/// A query, repeated.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Query {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) protocol: String,
    pub(crate) statement: String,
    pub(crate) times: u32,
    /// Rows of the answer; for a scan, rows that it read.
    pub(crate) rows: u64,
    pub(crate) first_ms: f64,
    pub(crate) median_ms: f64,
    pub(crate) min_ms: f64,
    pub(crate) max_ms: f64,
    /// Figures of all repetitions.
    pub(crate) server_cpu_s: Option<f64>,
}

/// A block of text lines, loaded as one statement.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Block {
    pub(crate) lines: u64,
    pub(crate) bytes: u64,
    pub(crate) times: u32,
    pub(crate) median_ms: f64,
    pub(crate) min_ms: f64,
}

/// Result of rewriting all data in its smallest form.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Compaction {
    pub(crate) seconds: f64,
    pub(crate) server_cpu_s: Option<f64>,
    pub(crate) data_bytes: Option<u64>,
    pub(crate) log_bytes: Option<u64>,
}

impl Query {
    /// Kinds of queries, in [`Query::kind`].
    pub(super) const ONE_PV: &str = "one_pv";
    pub(super) const ALL_PVS: &str = "all_pvs";
    pub(super) const NEWEST: &str = "newest";
    pub(super) const SCAN: &str = "scan";
    pub(super) const EVERYTHING: &str = "everything";

    pub(crate) fn is_one_pv(&self) -> bool {
        self.kind == Query::ONE_PV
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.kind == Query::EVERYTHING
    }

    /// Rows per second in the median.
    pub(crate) fn rows_per_s(&self) -> f64 {
        if self.median_ms > 0.0 { self.rows as f64 * 1e3 / self.median_ms } else { 0.0 }
    }
}

impl Span {
    pub(crate) fn scan(&self) -> Option<&Query> {
        self.queries.iter().find(|query| query.kind == Query::SCAN)
    }

    fn busy(&self, cpus: u32) -> Option<String> {
        let others = (self.host_cpu_s - self.server_cpu_s? - self.client_cpu_s) / self.busy_s.max(1e-9);
        let tells = self.busy_s >= busy::SPAN_MIN_S && cpus > 0;
        tells.then(|| busy::sentence(others.max(0.0), f64::from(cpus))).flatten()
    }

    /// Share of the writing time in which the generator's thread used a processor.
    fn generator_share(&self) -> f64 {
        self.generator_cpu_s / self.load_s.max(1e-9)
    }
}

/// Share of the writing time above which the generator limits the rate.
const GENERATOR_SHARE_MAX: f64 = 0.8;

impl Report {
    /// Whether all answers were right.
    pub(crate) fn passed(&self) -> bool {
        self.findings.is_empty()
    }

    /// Bytes of the samples on disk: without the write-ahead log and what empty tables need.
    fn size(&self, data: Option<u64>, log: Option<u64>) -> Option<u64> {
        let empty = self.empty_bytes.unwrap_or(0);
        Some(data?.saturating_sub(log.unwrap_or(0)).saturating_sub(empty))
    }

    /// Bytes on disk per stored sample of a span.
    pub(crate) fn bytes_per_sample(&self, span: &Span) -> Option<f64> {
        let size = self.size(span.data_bytes, span.log_bytes)?;
        (span.stored > 0).then(|| size as f64 / span.stored as f64)
    }

    /// Whether the run had samples of all classes.
    pub(crate) fn all_classes(&self) -> bool {
        self.classes.len() == super::pvs::Class::ALL.len()
    }

    /// A copy for output: without figures if an answer was wrong.
    pub(crate) fn honest(&self) -> Report {
        let mut report = self.clone();
        if !report.passed() {
            report.spans.clear();
            report.blocks.clear();
            report.compaction = None;
        }
        report
    }

    /// Text for a terminal; without figures if an answer was wrong.
    pub(crate) fn text(&self) -> String {
        let report = self.honest();
        let mut out = String::new();
        let (product, version) = (&self.target.product, &self.target.version);
        let _ = writeln!(out, "\n{product} {version}: samples of an EPICS archiver");
        let _ = writeln!(out, "durability: {}", self.target.durability);
        let connections = self.connections;
        let _ =
            writeln!(out, "written by {}, {connections} connection(s), {} s a batch", self.write_path, self.batch_s);
        let _ = writeln!(
            out,
            "{} PVs, {:.1} samples/s, a published sample is a {}; classes: {}; faults {}; seed {}",
            whole(self.pvs.into()),
            self.rate,
            if self.reading == Reading::Sample { "row of four cells" } else { "cell" },
            if self.all_classes() { "all".to_owned() } else { self.classes.join(", ") },
            if self.faults { "on" } else { "off" },
            self.seed
        );
        let checked: u32 = self.spans.iter().flat_map(|span| &span.queries).map(|query| query.times).sum();
        match self.passed() {
            true if checked == 0 => _ = writeln!(out, "verification: none: no query was answered"),
            true => _ = writeln!(out, "verification: PASSED: {} answers compared with what was written", checked),
            false => _ = writeln!(out, "verification: FAILED"),
        }
        self.findings.iter().for_each(|finding| _ = writeln!(out, "  {finding}"));
        self.failures.iter().for_each(|failure| _ = writeln!(out, "failed: {failure}"));
        if !report.spans.is_empty() {
            report.loads(&mut out);
            report.spans.iter().for_each(|span| span.queries_text(report.reading, &mut out));
        }
        report.blocks_text(&mut out);
        self.notes.iter().for_each(|note| _ = writeln!(out, "note: {note}"));
        out
    }

    fn loads(&self, out: &mut String) {
        let _ = writeln!(
            out,
            "\n{:<10} {:>13} {:>11} {:>11} {:>11} {:>12} {:>10} {:>10} {:>9} {:>9}  published inserts/s",
            "writing", "samples", "time", "samples/s", "cells/s", "CPU s/mill.", "on disk", "B/sample", "p50", "p99"
        );
        for span in &self.spans {
            let rates: Vec<String> = sns::inserts_per_s(span.name).iter().map(|rate| whole(*rate as u64)).collect();
            let size = self.size(span.data_bytes, span.log_bytes);
            let _ = writeln!(
                out,
                "{:<10} {:>13} {:>11} {:>11} {:>11} {:>12} {:>10} {:>10} {:>9} {:>9}  {}",
                span.name.title(),
                whole(span.samples),
                seconds(span.load_s),
                whole(span.samples_per_s as u64),
                whole((span.samples_per_s * CELLS) as u64),
                option(span.cpu_s_per_million, |cpu| format!("{cpu:.2}")),
                option(size, |size| bytes(size as f64)),
                option(self.bytes_per_sample(span), |each| format!("{each:.2}")),
                milliseconds(span.write_ms.median),
                milliseconds(span.write_ms.p99),
                if rates.is_empty() { "–".to_owned() } else { rates.join(", ") },
            );
        }
        if let Some(compaction) = &self.compaction {
            let stored = self.spans.last().map_or(0, |span| span.stored);
            let size = self.size(compaction.data_bytes, compaction.log_bytes);
            let each = size.filter(|_| stored > 0).map(|size| size as f64 / stored as f64);
            let _ = writeln!(
                out,
                "compacted in {}: {} on disk, {} B/sample",
                seconds(compaction.seconds),
                option(size, |size| bytes(size as f64)),
                option(each, |each| format!("{each:.2}"))
            );
        }
        for span in &self.spans {
            let name = span.name.title();
            let _ = writeln!(
                out,
                "{name}: tool's CPU {}, of that the generator {} ({:.0} % of the writing time); at rest after {}{}",
                seconds(span.client_cpu_s),
                seconds(span.generator_cpu_s),
                span.generator_share() * 100.0,
                seconds(span.settling_s),
                if span.settled { "" } else { " (not at rest: sizes and CPU may still change)" },
            );
            if span.generator_share() > GENERATOR_SHARE_MAX {
                let _ = writeln!(out, "{name}: client-bound: the generator limits the rate of writing");
            }
            if let Some(warning) = span.busy(self.machine.cpus) {
                let _ = writeln!(out, "WARNING: {name}: {}: {warning}", busy::TITLE);
            }
        }
        let _ = writeln!(
            out,
            "(a row has {CELLS} cells: time, value, status, severity; CPU of the server until it is at rest; sizes without \
             the write-ahead log and without what empty tables need; Oracle inserted {} samples/s, close to their rate of arrival)",
            whole((sns::ORACLE_PER_HOUR / 3_600.0) as u64)
        );
    }

    fn blocks_text(&self, out: &mut String) {
        if self.blocks.is_empty() {
            return;
        }
        let _ = writeln!(
            out,
            "\n{:<22} {:>10} {:>10} {:>10} {:>12} {:>12}",
            "blocks of text lines", "bytes", "median", "fastest", "samples/s", "cells/s"
        );
        for block in &self.blocks {
            let rate = block.lines as f64 * 1e3 / block.median_ms.max(1e-9);
            let _ = writeln!(
                out,
                "{:<22} {:>10} {:>10} {:>10} {:>12} {:>12}",
                format!("{} lines", whole(block.lines)),
                whole(block.bytes),
                milliseconds(block.median_ms),
                milliseconds(block.min_ms),
                whole(rate as u64),
                whole((rate * CELLS) as u64)
            );
        }
    }
}

/// Cells of a row: time, value, status, severity.
const CELLS: f64 = 4.0;

fn option<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), text)
}

impl Span {
    fn queries_text(&self, reading: Reading, out: &mut String) {
        if self.queries.is_empty() {
            return;
        }
        let _ = writeln!(
            out,
            "\n{:<46} {:<18} {:>13} {:>10} {:>10} {:>10} {:>13} {:>12}  published",
            format!("{}: queries", self.name.title()),
            "protocol",
            "rows",
            "first",
            "median",
            "fastest",
            "rows/s",
            "CPU ms"
        );
        for query in &self.queries {
            let cpu = query.server_cpu_s.filter(|_| query.times > 0).map(|cpu| cpu * 1e3 / f64::from(query.times));
            let _ = writeln!(
                out,
                "{:<46} {:<18} {:>13} {:>10} {:>10} {:>10} {:>13} {:>12}  {}",
                query.name,
                query.protocol,
                whole(query.rows),
                milliseconds(query.first_ms),
                milliseconds(query.median_ms),
                milliseconds(query.min_ms),
                whole(query.rows_per_s() as u64),
                option(cpu, |cpu| format!("{cpu:.1}")),
                self.published(query, reading)
            );
        }
    }

    fn published(&self, query: &Query, reading: Reading) -> String {
        let texts = |values: &[f64]| -> Vec<String> { values.iter().map(|s| milliseconds(s * 1e3)).collect() };
        if query.is_one_pv() && query.rows == reading.rows(sns::ONE_PV_SAMPLES) {
            return texts(sns::one_pv_s(self.name)).join(", ");
        }
        if query.is_one_pv() && query.rows == reading.rows(sns::SHORT_SAMPLES) {
            let (rows, oracle_s) = sns::ORACLE_QUERY;
            return format!("{}; Oracle {} in {oracle_s} s", milliseconds(sns::SHORT_S * 1e3), whole(rows));
        }
        if query.is_everything() && self.name == SpanName::Week {
            return format!("{} /s", short(sns::SCAN.0 as f64 / sns::SCAN.1));
        }
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let query = Query {
            kind: Query::ONE_PV.to_owned(),
            name: "133,360 samples of one PV".to_owned(),
            protocol: "Flight SQL".to_owned(),
            times: 3,
            rows: 133_360,
            median_ms: 4.0,
            ..Query::default()
        };
        let span = Span {
            name: SpanName::Week,
            samples: 597_273_600,
            stored: 597_000_000,
            load_s: 600.0,
            samples_per_s: 995_456.0,
            server_cpu_s: Some(597.0),
            cpu_s_per_million: Some(1.0),
            data_bytes: Some(2_985_000_000 + 3_000),
            log_bytes: Some(1_000),
            queries: vec![query],
            ..Span::default()
        };
        let classes = vec!["analog".to_owned()];
        Report { spans: vec![span], classes, empty_bytes: Some(2_000), ..Report::default() }
    }

    #[test]
    fn figures_stand_next_to_the_published_ones() {
        let text = report().text();
        for expected in ["995,456", "3,981,824", "14,800", "5.00", "33,340,000", "31 ms", "PASSED: 3 answers"] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }

    #[test]
    fn a_run_without_queries_does_not_claim_to_be_verified() {
        let mut stopped = report();
        stopped.spans[0].queries.clear();
        assert!(stopped.text().contains("verification: none"), "{}", stopped.text());
    }

    #[test]
    fn a_wrong_answer_removes_every_figure() {
        let wrong = Report { findings: vec!["one PV: read 3".to_owned()], ..report() };
        let text = wrong.text();
        assert!(text.contains("FAILED") && text.contains("read 3") && !text.contains("995,456"), "{text}");
        assert!(wrong.honest().spans.is_empty());
    }

    #[test]
    fn json_keeps_the_report() {
        let text = serde_json::to_string(&report()).unwrap();
        let back: Report = serde_json::from_str(&text).unwrap();
        assert_eq!(back.spans[0].name, SpanName::Week);
        assert_eq!(back.text(), report().text());
    }
}
