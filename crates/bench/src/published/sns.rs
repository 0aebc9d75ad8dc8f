//! Figures of the published test of an EPICS archiver at the Spallation Neutron Source (SNS) on
//! Hypertable, with its comparison with Oracle.
//!
//! The publication states 1,777,600 samples per half hour. The week and the month are that half
//! hour 336 and 1,440 times. It does not state its machine, the number of PVs, or whether a "sample"
//! is a row or one of its four cells (time, value, status, severity): see docs/manual/benchmark-epics.md.

use std::fmt::Write;

use super::NotRun;
use crate::epics::{Query, Reading, Report, Span, SpanName};
use crate::report::format::{short, whole};
use crate::report::read::Reports;

/// Source of all these figures.
pub(crate) const SOURCE: &str = "the test of an EPICS archiver on Hypertable with data of the SNS, and of Oracle there";

/// Inserted samples per second at a span; two runs for the half hour.
pub(crate) fn inserts_per_s(span: SpanName) -> &'static [f64] {
    match span {
        SpanName::HalfHour => &[19_500.0, 24_000.0],
        SpanName::Day => &[],
        SpanName::Week => &[14_800.0],
        SpanName::Month => &[18_800.0],
    }
}

/// Seconds for the 133,360 samples of one PV at a span.
pub(crate) fn one_pv_s(span: SpanName) -> &'static [f64] {
    match span {
        SpanName::HalfHour => &[0.042, 0.024],
        SpanName::Day => &[],
        SpanName::Week => &[0.031],
        SpanName::Month => &[0.030],
    }
}

/// Samples of the query of one PV.
pub(crate) const ONE_PV_SAMPLES: u64 = 133_360;
/// Samples of the second query of one PV, and its seconds.
pub(crate) const SHORT_SAMPLES: u64 = 57_624;
pub(crate) const SHORT_S: f64 = 0.36;
/// Samples and seconds of the scan of a week.
pub(crate) const SCAN: (u64, f64) = (597_273_600, 1_191.0);
/// Oracle: samples inserted per hour. The rate is close to that of arrival, so it is not a ceiling.
pub(crate) const ORACLE_PER_HOUR: f64 = 3_746_847.0;
/// Oracle: samples of a query, and its seconds.
pub(crate) const ORACLE_QUERY: (u64, f64) = (36_657, 79.3);

const COMMAND: &str = "bench epics --spans half-hour,week,month";

/// A published figure and our figures next to it.
struct Row {
    name: String,
    published: String,
    ours: Vec<[String; 3]>,
}

/// Appends the section.
pub(super) fn write(reports: &Reports, text: &mut String) {
    let _ = write!(text, "\n## An EPICS archiver at the SNS, on Hypertable and Oracle\n\nSource: {SOURCE}.\n");
    text.push_str(
        "Their machine is not stated. Their insert rates of Oracle are close to the rate of arrival (988 samples/s) and \
         need not be its ceiling. A \"sample\" is a row of four cells or one cell; a run of ours states its reading. Our \
         extraction times are medians of repeated queries, theirs are single runs.\n",
    );
    let rows = rows(reports);
    let mut not_run = NotRun::default();
    let measured = || rows.iter().filter(|row| !row.ours.is_empty());
    if measured().next().is_none() {
        not_run.add("inserts, extraction of one PV and scans by span", rows.len(), COMMAND);
    } else {
        let _ = write!(text, "\nOur command: `millrace {COMMAND}`.\n\n{}", super::TABLE_HEAD);
        for Row { name, published, ours } in measured() {
            for [value, cpu, comparable] in ours {
                let _ = writeln!(text, "| {name} | {published} | {value} | {cpu} | {comparable} |");
            }
        }
    }
    not_run.write(text);
}

fn rows(reports: &Reports) -> Vec<Row> {
    let mut rows = Vec::new();
    for name in [SpanName::HalfHour, SpanName::Week, SpanName::Month] {
        let list = |values: &[f64], unit: &str| {
            let texts: Vec<String> = values.iter().map(|value| format!("{value}{unit}")).collect();
            texts.join(" and ")
        };
        let rates: Vec<String> = inserts_per_s(name).iter().map(|rate| format!("{} /s", whole(*rate as u64))).collect();
        rows.push(Row {
            name: format!("inserts, {}", name.title()),
            published: rates.join(" and "),
            ours: each(reports, name, |_, span| {
                let cpu = span.cpu_s_per_million.map_or_else(String::new, |cpu| format!("{cpu:.2} CPU-s/million"));
                Some((format!("{} /s", whole(span.samples_per_s as u64)), cpu))
            }),
        });
        rows.push(Row {
            name: format!("{} samples of one PV, {}", whole(ONE_PV_SAMPLES), name.title()),
            published: list(one_pv_s(name), " s"),
            ours: each(reports, name, |report, span| {
                let asked = report.reading.rows(ONE_PV_SAMPLES);
                extraction(span.queries.iter().find(|query| query.is_one_pv() && query.rows == asked)?)
            }),
        });
    }
    rows.push(Row {
        name: format!("{} samples of one PV, half hour", whole(SHORT_SAMPLES)),
        published: format!("{SHORT_S} s; Oracle {} in {} s", whole(ORACLE_QUERY.0), ORACLE_QUERY.1),
        ours: each(reports, SpanName::HalfHour, |report, span| {
            let asked = report.reading.rows(SHORT_SAMPLES);
            extraction(span.queries.iter().find(|query| query.is_one_pv() && query.rows == asked)?)
        }),
    });
    rows.push(Row {
        name: "scan of the week".to_owned(),
        published: format!("{} samples in {} s: {} /s", whole(SCAN.0), SCAN.1, short(SCAN.0 as f64 / SCAN.1)),
        ours: each(reports, SpanName::Week, |_, span| {
            let scan = span.queries.iter().find(|query| query.is_everything()).or_else(|| span.scan())?;
            Some((format!("{} /s, {}", short(scan.rows_per_s()), scan.name), scan_cpu(scan)))
        }),
    });
    rows.push(Row {
        name: "inserts, Oracle".to_owned(),
        published: format!("{} /s", whole((ORACLE_PER_HOUR / 3_600.0) as u64)),
        ours: each(reports, SpanName::HalfHour, |_, span| {
            Some((format!("{} /s", whole(span.samples_per_s as u64)), String::new()))
        }),
    });
    rows
}

fn extraction(query: &Query) -> Option<(String, String)> {
    Some((format!("{:.4} s, {}", query.median_ms / 1e3, query.protocol), scan_cpu(query)))
}

fn scan_cpu(query: &Query) -> String {
    let cpu = query.server_cpu_s.filter(|_| query.rows > 0 && query.times > 0);
    cpu.map_or_else(String::new, |cpu| {
        format!("{:.3} CPU-s/million", cpu * 1e6 / (query.rows * u64::from(query.times)) as f64)
    })
}

/// Our figures of a span in the reports that passed: value with product, CPU, and whether it is
/// comparable.
fn each(
    reports: &Reports,
    name: SpanName,
    figure: impl Fn(&Report, &Span) -> Option<(String, String)>,
) -> Vec<[String; 3]> {
    let of = |report: &Report| {
        let span = report.spans.iter().find(|span| span.name == name)?;
        let (value, cpu) = figure(report, span)?;
        let label = format!("{} {}, {} processors", report.target.product, report.target.version, report.machine.cpus);
        let share = span.samples as f64 / (name.published_samples() as f64 / report.reading.cells());
        let comparable = match report.reading {
            _ if !report.all_classes() || (share - 1.0).abs() > 0.03 => {
                format!("no: {} samples", short(span.samples as f64))
            }
            Reading::Sample => "the harder reading: a sample is a row".to_owned(),
            Reading::Cell => "a sample is a cell: a quarter of the rows".to_owned(),
        };
        Some([format!("{value} ({label})"), cpu, comparable])
    };
    reports.epics.iter().filter(|report| report.passed()).filter_map(of).collect()
}
