//! Figures that openGauss and MogDB publish for MOT, their memory-optimised tables: TPC-C, loading
//! of small rows, cold start.
//!
//! The texts give few numbers; most of their curves are pictures. Figures are as in the texts. A
//! figure per core is theirs divided by the cores of the machine they name, which was almost fully
//! busy.

use std::fmt::Write;

use super::NotRun;
use crate::report::format::{short, whole};
use crate::report::read::Reports;
use crate::result::Machine;
use crate::tpcc::coldstart;
use crate::tpcc::report::Point;

/// Source of all these figures, and their date.
pub(crate) const SOURCE: &str =
    "openGauss's and MogDB's manuals, \"MOT Performance Benchmarks\" (measured in June 2020)";

/// A published TPC-C run.
pub(crate) struct Tpcc {
    pub(crate) machine: &'static str,
    pub(crate) tables: &'static str,
    pub(crate) cores: u32,
    /// Number of connections; `None` if the text does not state it.
    pub(crate) connections: Option<u32>,
    pub(crate) tpmc: f64,
}

impl Tpcc {
    /// Committed new-order transactions a minute for each core of the machine.
    pub(crate) fn per_core(&self) -> f64 {
        self.tpmc / f64::from(self.cores)
    }
}

/// Interactive SQL by BenchmarkSQL 5.0, clients on other machines, 10 GbE, synchronous group
/// commit, a single node.
pub(crate) const TPCC: [Tpcc; 5] = [
    Tpcc { machine: "Kunpeng 920, 2 sockets", tables: "MOT", cores: 128, connections: None, tpmc: 3.8e6 },
    Tpcc { machine: "Kunpeng, 4 sockets", tables: "MOT", cores: 256, connections: Some(768), tpmc: 4.8e6 },
    Tpcc { machine: "Xeon E7-8890 v4, 4 sockets", tables: "MOT", cores: 96, connections: None, tpmc: 3.9e6 },
    Tpcc { machine: "Xeon E7-8890 v4, 8 sockets", tables: "MOT", cores: 192, connections: None, tpmc: 3.0e6 },
    Tpcc { machine: "Kunpeng 920, 2 sockets", tables: "on disk", cores: 128, connections: None, tpmc: 1.5e6 },
];

/// The 90th percentile over all five transactions in milliseconds: MOT on the 128 cores (disk-based
/// tables: 23 to 25).
const TPCC_P90_MS: f64 = 10.5;
/// 500 connections, 10 million rows of 200 bytes, ten for each INSERT: rows a second per core, and
/// the latency of an INSERT.
const ROWS_PER_CORE: f64 = 10_000.0;
const INSERT_MS: f64 = 2.8;
/// A checkpoint of 100 GB was loaded in 40 s from NVMe; with the indexes that are built meanwhile
/// it is 1.5 times as much.
pub(crate) const COLD_START_GB_S: f64 = 2.5;
const COLD_START_INDEXED_GB_S: f64 = 3.75;

/// Our figure next to a published one.
struct Ours {
    value: String,
    label: String,
    cpu: String,
    comparable: String,
}

/// A published figure and our figures next to it.
struct Row {
    name: &'static str,
    published: String,
    machine: String,
    ours: Vec<Ours>,
}

const TPCC_COMMAND: &str = "bench tpcc --clients 1,2,...,768";
const ROWLOAD_COMMAND: &str = "bench rowload --connections 500 --rows 10000000 --rows-per-insert 10";
const COLDSTART_COMMAND: &str = "bench coldstart --sizes 1,2,4,8";

/// Appends the sections of all three.
pub(super) fn write(reports: &Reports, text: &mut String) {
    let _ = write!(text, "\n## MOT, the memory-optimised tables of openGauss and MogDB\n\nSource: {SOURCE}.\n");
    text.push_str(
        "Their machines have up to 256 cores, and their clients have machines of their own; ours share one with the \
         server. What is for each core is their figure by all cores of the machine, ours by the time that the server's \
         processes used a processor.\n",
    );
    let mut not_run = NotRun::default();
    section("TPC-C, interactive SQL", TPCC_COMMAND, &tpcc(reports), text, &mut not_run);
    let ingestion = "ingestion by 500 connections, rows of 200 bytes, ten an insert";
    section(ingestion, ROWLOAD_COMMAND, &rowload(reports), text, &mut not_run);
    section("cold start", COLDSTART_COMMAND, &cold_start(reports), text, &mut not_run);
    not_run.write(text);
}

fn section(name: &str, command: &str, rows: &[Row], text: &mut String, not_run: &mut NotRun) {
    let measured = || rows.iter().filter(|row| !row.ours.is_empty());
    if measured().next().is_none() {
        not_run.add(name, rows.len(), command);
        return;
    }
    let _ = write!(text, "\n### {name}\n\nOur command: `millrace {command}`.\n\n");
    text.push_str("| figure | published | their machine | ours | CPU per unit | comparable? |\n");
    text.push_str("|---|---:|---|---:|---|---|\n");
    for Row { name, published, machine, ours, .. } in measured() {
        for Ours { value, label, cpu, comparable } in ours {
            let _ = writeln!(text, "| {name} | {published} | {machine} | {value} ({label}) | {cpu} | {comparable} |");
        }
    }
}

fn run_label(product: &str, version: &str, machine: &Machine) -> String {
    format!("{product} {version}, {} processors", machine.cpus)
}

/// The point with the highest new-order rate of each report that passed.
fn best(reports: &Reports) -> Vec<(&crate::tpcc::report::Report, &Point)> {
    let best = |report| -> Option<(&crate::tpcc::report::Report, &Point)> {
        let report: &crate::tpcc::report::Report = report;
        let point = report.points.iter().max_by(|a, b| a.nopm.total_cmp(&b.nopm))?;
        report.passed().then_some((report, point))
    };
    reports.tpcc.iter().filter_map(best).collect()
}

/// Formats a figure of the best point of each report.
fn of_points(reports: &Reports, comparable: &str, value: impl Fn(&Point) -> Option<String>) -> Vec<Ours> {
    let figure = |(report, point): (&crate::tpcc::report::Report, &Point)| {
        let label = run_label(&report.target.product, &report.target.version, &report.machine);
        let cpu = point.server_cpu_us_per_new_order;
        Some(Ours {
            value: value(point)?,
            label: format!("{label}, {} connections", point.clients),
            cpu: cpu.map_or_else(String::new, |us| format!("{} µs/new order", whole(us as u64))),
            comparable: comparable.to_owned(),
        })
    };
    best(reports).into_iter().filter_map(figure).collect()
}

fn tpcc(reports: &Reports) -> Vec<Row> {
    let of_core = "for each core: theirs of all cores, ours of those that were busy";
    let mut rows = Vec::new();
    for run in &TPCC {
        let connections = run.connections.map_or_else(String::new, |count| format!(", {count} connections"));
        let machine = format!("{}, {} cores{connections}; tables {}", run.machine, run.cores, run.tables);
        rows.push(Row {
            name: "new orders a minute",
            published: whole(run.tpmc as u64),
            machine: machine.clone(),
            ours: of_points(reports, "no: of a whole machine, and ours is smaller", |point| {
                Some(whole(point.nopm as u64))
            }),
        });
        rows.push(Row {
            name: "the same for each core",
            published: whole(run.per_core() as u64),
            machine,
            ours: of_points(reports, of_core, |point| point.nopm_per_server_core.map(|nopm| whole(nopm as u64))),
        });
    }
    let p90 = |point: &Point| {
        let done: u64 = point.kinds.iter().map(|kind| kind.ok).sum();
        let sum: f64 = point.kinds.iter().map(|kind| kind.ok as f64 * kind.latency_ms.p90).sum();
        (done > 0).then(|| format!("{:.2} ms", sum / done as f64))
    };
    rows.push(Row {
        name: "90th percentile, mean of the transactions by their share",
        published: format!("{TPCC_P90_MS} ms"),
        machine: "Kunpeng 920, 2 sockets, 128 cores; tables MOT".to_owned(),
        ours: of_points(reports, "no: at another load; their number of connections is not said", p90),
    });
    rows
}

fn rowload(reports: &Reports) -> Vec<Row> {
    let runs = || reports.rowload.iter().filter(|report| report.passed() && report.rows > 0);
    let ours = |report: &crate::tpcc::rowload::Report, value: String| {
        let same = report.connections == 500 && report.rows_per_insert == 10;
        let cpu = report.server_cpu_s.map(|cpu_s| cpu_s * 1e6 / report.rows as f64);
        Ours {
            value,
            label: run_label(&report.target.product, &report.target.version, &report.machine),
            cpu: cpu.map_or_else(String::new, |us| format!("{us:.1} µs/row")),
            comparable: if same {
                format!("the same work, {} rows", short(report.rows as f64))
            } else {
                format!("no: {} connections, {} rows an insert", report.connections, report.rows_per_insert)
            },
        }
    };
    let per_core = |report: &crate::tpcc::rowload::Report| {
        report.rows_per_server_cpu_s.map(|rows| ours(report, format!("{} /s", whole(rows as u64))))
    };
    let machine = "not said".to_owned();
    vec![
        Row {
            name: "rows a second for each core",
            published: format!("{} /s", whole(ROWS_PER_CORE as u64)),
            machine: machine.clone(),
            ours: runs().filter_map(per_core).collect(),
        },
        Row {
            name: "an insert of ten rows",
            published: format!("{INSERT_MS} ms"),
            machine,
            ours: runs().map(|report| ours(report, format!("{:.2} ms", report.latency_ms.avg))).collect(),
        },
    ]
}

fn cold_start(reports: &Reports) -> Vec<Row> {
    let ours = |report: &coldstart::Report| -> Option<Ours> {
        let size = report.sizes.last().filter(|_| report.passed())?;
        let start = size.summary(coldstart::Stop::Clean, coldstart::Cache::Cold)?.median;
        let of_disk = start.of_disk.map_or_else(String::new, |share| format!("; {:.0} % of its disk", share * 100.0));
        Some(Ours {
            value: format!("{:.2} GB/s{of_disk}", start.gb_per_s),
            label: run_label(&report.target.product, &report.target.version, &report.machine),
            cpu: start.server_cpu_s.map_or_else(String::new, |cpu_s| {
                format!("{:.2} CPU-s/GB", cpu_s * 1e9 / (size.file_bytes.max(1) as f64))
            }),
            comparable: format!("as a share of the disk: ours reads {:.2} GB/s", size.disk_gb_per_s()),
        })
    };
    let row = |name: &'static str, published: f64| Row {
        name,
        published: format!("{published} GB/s"),
        machine: "Kunpeng, NVMe disk, 100 GB of checkpoint".to_owned(),
        ours: reports.coldstart.iter().filter_map(ours).collect(),
    };
    vec![
        row("checkpoint loaded, from the start until it answers", COLD_START_GB_S),
        row("the same with the indexes that are made meanwhile", COLD_START_INDEXED_GB_S),
    ]
}
