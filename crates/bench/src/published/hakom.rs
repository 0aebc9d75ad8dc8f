//! Figures that HAKOM publishes for its TSM: load tests, scaling tests with its two licences, and tests of compressed blocks.
//!
//! The scaling tests have a column "Standard vs. Performance", the time that the Performance licence
//! saves: 1 - Performance / Standard. That licence works on a request in parallel. Ours are requests
//! one after the other (serial) and concurrent ones (parallel).

use std::fmt::Write;

use super::NotRun;
use crate::breakeven;
use crate::breakeven::report::Phase;
use crate::report::format::{percent, short, whole};
use crate::report::read::Reports;
use crate::tsm::report::Figure;
use crate::tsm::{Operation, Report, Requests, Service};

/// Source of all these figures.
const SOURCE: &str = "documentation.hakom.at, PowerTSM 3.10.6, \"General load, scaling and compression benchmarks\"";
/// Machines of the load and scaling tests.
const MACHINE: &str =
    "PostgreSQL and application servers with 2 processors of Xeon X5675 each, 8 GB; a client with 8 processors";

const LOAD_COMMAND: &str = "bench tsm load --series 1500,7500,25000 --writers 1,5 --readers 1,5";
const SCALING_COMMAND: &str = "bench tsm scaling --front-ends 1,2,4";
const MATRIX_COMMAND: &str = "bench tsm scaling --matrix 2x8,2x4,1x8,1x4";

/// A load test: series in total, 30 days of half hours each.
struct Load {
    operation: Operation,
    series: u32,
    clients: usize,
    seconds: f64,
    per_s: f64,
}

const LOADS: [Load; 4] = [
    Load { operation: Operation::Write, series: 1_500, clients: 1, seconds: 11.0, per_s: 196_364.0 },
    Load { operation: Operation::Read, series: 25_000, clients: 1, seconds: 116.0, per_s: 310_345.0 },
    Load { operation: Operation::Read, series: 25_000, clients: 5, seconds: 110.0, per_s: 327_273.0 },
    Load { operation: Operation::Write, series: 7_500, clients: 5, seconds: 60.0, per_s: 180_000.0 },
];
const LOAD_DAYS: u32 = 30;

/// A scaling test: mean seconds of ten repetitions.
struct Scaling {
    operation: Operation,
    requests: Requests,
    servers: usize,
    /// With the Standard licence; `None` if it is not published.
    standard_s: Option<f64>,
    performance_s: f64,
}

const SCALINGS: [Scaling; 8] = [
    scaling(Operation::Write, Requests::Single, 1, Some(27.649), 10.954),
    scaling(Operation::Read, Requests::Single, 1, Some(8.625), 7.078),
    scaling(Operation::Write, Requests::Bulk, 1, Some(35.103), 11.885),
    scaling(Operation::Read, Requests::Bulk, 1, Some(7.127), 5.344),
    scaling(Operation::Write, Requests::Bulk, 2, Some(26.335), 9.811),
    scaling(Operation::Read, Requests::Bulk, 2, Some(5.620), 3.695),
    scaling(Operation::Write, Requests::Bulk, 4, None, 9.23),
    scaling(Operation::Read, Requests::Bulk, 4, None, 2.91),
];
const SCALING_SERIES: u32 = 1_000;
const SCALING_DAYS: u32 = 31;
/// Values of a scaling test.
const SCALING_VALUES: f64 = 2_976_000.0;

const fn scaling(
    operation: Operation,
    requests: Requests,
    servers: usize,
    standard_s: Option<f64>,
    performance_s: f64,
) -> Scaling {
    Scaling { operation, requests, servers, standard_s, performance_s }
}

/// A cell of the matrix of servers and cores: bulk requests with the Performance licence.
struct Cell {
    operation: Operation,
    servers: usize,
    cores: u32,
    seconds: f64,
}

/// The matrix is 2x8, 2x4, 1x8 and 1x4. This is the only one of its times that we hold; others are not
/// derived from it.
const MATRIX: [Cell; 1] = [Cell { operation: Operation::Read, servers: 2, cores: 8, seconds: 2.25 }];

const COMPRESSION_COMMAND: &str = "bench breakeven --series 20 --days 120";

/// Seconds of a test in which a share of each block of a day was changed, or in which all was read then.
struct Compression {
    phase: Phase,
    /// Percentage of the values of each block.
    share: u32,
    compressed_s: f64,
    plain_s: f64,
}

/// The times of reading are published for 100 % only; with other shares, reading is as fast with and without blocks.
const COMPRESSIONS: [Compression; 5] = [
    Compression { phase: Phase::Write, share: 25, compressed_s: 1.469, plain_s: 1.248 },
    Compression { phase: Phase::Write, share: 50, compressed_s: 1.602, plain_s: 1.421 },
    Compression { phase: Phase::Write, share: 75, compressed_s: 1.519, plain_s: 1.514 },
    Compression { phase: Phase::Write, share: 100, compressed_s: 1.454, plain_s: 1.632 },
    Compression { phase: Phase::Read, share: 100, compressed_s: 0.947, plain_s: 0.995 },
];

/// A published figure and our figures next to it.
struct Row {
    name: String,
    published: String,
    ours: Vec<[String; 3]>,
}

/// Appends the section.
pub(super) fn write(reports: &Reports, text: &mut String) {
    let _ = write!(text, "\n## Managed time series, HAKOM TSM\n\nSource: {SOURCE}. Their machine: {MACHINE}.\n");
    text.push_str(
        "Their times are means of ten repetitions, ours are medians. Their Standard licence works on a request serially and \
         their Performance licence in parallel; ours are requests one after the other and concurrent ones. PostgreSQL here \
         has an application's own table, without HAKOM's services. *Store itself*: requests were sent to the database, \
         without a front end. Our front ends, database and client share one machine.\n",
    );
    let tests: [(&str, Vec<Row>, &str); 4] = [
        ("load", load_rows(reports), LOAD_COMMAND),
        ("scaling", scaling_rows(reports), SCALING_COMMAND),
        ("matrix of servers and cores", matrix_rows(reports), MATRIX_COMMAND),
        (
            "speed of compressed data as a multiple of that of other data",
            compression_rows(reports),
            COMPRESSION_COMMAND,
        ),
    ];
    let mut not_run = NotRun::default();
    for (name, rows, command) in tests {
        let measured = || rows.iter().filter(|row| !row.ours.is_empty());
        if measured().next().is_none() {
            not_run.add(name, rows.len(), command);
            continue;
        }
        let _ = write!(text, "\n### {name}\n\nOur command: `millrace {command}`.\n\n{}", super::TABLE_HEAD);
        for Row { name, published, ours } in measured() {
            for [value, cpu, comparable] in ours {
                let _ = writeln!(text, "| {name} | {published} | {value} | {cpu} | {comparable} |");
            }
        }
    }
    not_run.write(text);
}

fn load_rows(reports: &Reports) -> Vec<Row> {
    let row = |load: &Load| Row {
        name: format!(
            "{}, {} series, {} {}",
            load.operation.name(),
            whole(u64::from(load.series)),
            load.clients,
            if load.clients == 1 { "client" } else { "clients" }
        ),
        published: format!("{} s, {} /s", load.seconds, whole(load.per_s as u64)),
        ours: each(reports, |report| {
            let figure = report.load(load.operation, load.series, load.clients);
            figure
                .map(|figure| Ours::time(figure, same_work(report, figure, load.series, LOAD_DAYS)))
                .into_iter()
                .collect()
        }),
    };
    LOADS.iter().map(row).collect()
}

fn scaling_rows(reports: &Reports) -> Vec<Row> {
    let mut rows = Vec::new();
    for test in &SCALINGS {
        let title = format!(
            "{}, {} requests, {} {}",
            test.operation.name(),
            test.requests.name(),
            test.servers,
            if test.servers == 1 { "server" } else { "servers" }
        );
        let of = |service: Service| {
            each(reports, |report| {
                steps(report, test, service)
                    .map(|figure| Ours::time(figure, same_work(report, figure, SCALING_SERIES, SCALING_DAYS)))
                    .collect()
            })
        };
        if let Some(standard_s) = test.standard_s {
            rows.push(Row {
                name: format!("{title}, Standard"),
                published: published_time(standard_s),
                ours: of(Service::Serial),
            });
        }
        rows.push(Row {
            name: format!("{title}, Performance"),
            published: published_time(test.performance_s),
            ours: of(Service::Parallel),
        });
        if let Some(standard_s) = test.standard_s {
            rows.push(Row {
                name: format!("{title}, Standard vs. Performance"),
                published: percent(1.0 - test.performance_s / standard_s),
                ours: saved(reports, test, Report::vs_serial),
            });
        }
        let one_server = SCALINGS
            .iter()
            .find(|other| (other.operation, other.requests, other.servers) == (test.operation, test.requests, 1));
        if let Some(one) = one_server.filter(|_| test.servers > 1) {
            rows.push(Row {
                name: format!("{title} vs. 1, Performance"),
                published: percent(1.0 - test.performance_s / one.performance_s),
                ours: saved(reports, test, Report::vs_one_server),
            });
        }
    }
    rows
}

/// Our steps of a scaling test. The store itself counts as one server; cells of a matrix have rows of
/// their own.
fn steps<'a>(report: &'a Report, test: &Scaling, service: Service) -> impl Iterator<Item = &'a Figure> {
    let servers = test.servers;
    let steps = report.scaling(test.operation, test.requests, service);
    steps.filter(move |figure| figure.cores.is_none() && figure.front_ends.max(1) == servers)
}

/// Our saved times of concurrent requests: a share of the time of another step.
fn saved(reports: &Reports, test: &Scaling, share: impl Fn(&Report, &Figure) -> Option<f64>) -> Vec<[String; 3]> {
    each(reports, |report| {
        let of = |figure| {
            let work = same_work(report, figure, SCALING_SERIES, SCALING_DAYS);
            Some(Ours { figure, value: percent(share(report, figure)?), cpu: String::new(), comparable: work })
        };
        steps(report, test, Service::Parallel).filter_map(of).collect()
    })
}

fn matrix_rows(reports: &Reports) -> Vec<Row> {
    let row = |cell: &Cell| Row {
        name: format!("{}, bulk requests, {}x{} cores, Performance", cell.operation.name(), cell.servers, cell.cores),
        published: published_time(cell.seconds),
        ours: each(reports, |report| {
            let steps = report.scaling(cell.operation, Requests::Bulk, Service::Parallel);
            steps
                .filter(|figure| (figure.front_ends, figure.cores) == (cell.servers, Some(cell.cores)))
                .map(|figure| Ours::time(figure, same_cores(report, figure)))
                .collect()
        }),
    };
    MATRIX.iter().map(row).collect()
}

fn compression_rows(reports: &Reports) -> Vec<Row> {
    let row = |test: &Compression| Row {
        name: format!("{}, {} % of each block changed", test.phase.title(), test.share),
        published: format!(
            "{:.2} ({:.3} s, {:.3} s)",
            test.plain_s / test.compressed_s,
            test.compressed_s,
            test.plain_s
        ),
        ours: reports
            .breakeven
            .iter()
            .filter(|report| report.passed())
            .flat_map(|report| compression_of(report, test))
            .collect(),
    };
    COMPRESSIONS.iter().map(row).collect()
}

/// Our ratios of a test, one for each kind of requests.
fn compression_of(report: &breakeven::Report, test: &Compression) -> Vec<[String; 3]> {
    let target = &report.target;
    let of = |(requests, _): &(String, Vec<u32>)| {
        let ratio = report.ratio(requests, test.share, test.phase)?;
        let label = format!("{} {}, {requests} requests", target.product, target.version);
        let cpu = ratio.cpu.map_or_else(String::new, |cpu| format!("{:.2} of CPU", cpu.median));
        Some([format!("{} ({label})", ratio.throughput.text()), cpu, MEASURED.to_owned()])
    };
    report.kinds().iter().filter_map(of).collect()
}

fn published_time(seconds: f64) -> String {
    format!("{seconds:.3} s, {} /s", whole((SCALING_VALUES / seconds) as u64))
}

/// A figure of ours in a row.
struct Ours<'a> {
    figure: &'a Figure,
    value: String,
    cpu: String,
    comparable: String,
}

impl Ours<'_> {
    fn time(figure: &Figure, comparable: String) -> Ours<'_> {
        let millions = figure.values.max(1) as f64 / 1e6;
        let cpu = |cpu_s: f64| format!("{:.2} CPU-s/million", cpu_s / millions);
        Ours {
            value: format!("{:.3} s, {} /s", figure.median_s(), short(figure.values_per_s())),
            cpu: figure.server_cpu_median_s().map_or_else(String::new, cpu),
            comparable,
            figure,
        }
    }
}

/// Whether a cell of ours did the published work with the published cores.
fn same_cores(report: &Report, figure: &Figure) -> String {
    let work = same_work(report, figure, SCALING_SERIES, SCALING_DAYS);
    match (report.matrix_scale, figure.cpus) {
        (Some(scale), Some(cpus)) if scale != 1.0 => {
            let cells = format!("each server has {} processors, {} of the published cores", short(cpus), short(scale));
            if work == MEASURED { format!("no: {cells}") } else { format!("{work}; {cells}") }
        }
        _ => work,
    }
}

const MEASURED: &str = "measured";

/// Whether a step of ours did the published work.
fn same_work(report: &Report, figure: &Figure, series: u32, days: u32) -> String {
    if (figure.series, report.days) == (series, days) {
        MEASURED.to_owned()
    } else {
        format!("no: {} series for {} days", whole(u64::from(figure.series)), report.days)
    }
}

/// Our figures in the reports that passed: value with product and form, CPU, and whether it is
/// comparable.
fn each(reports: &Reports, ours: impl Fn(&Report) -> Vec<Ours<'_>>) -> Vec<[String; 3]> {
    let of = |report: &Report| -> Vec<[String; 3]> {
        let target = &report.target;
        let label =
            format!("{} {}, {}, {} processors", target.product, target.version, report.form, report.machine.cpus);
        let row = |ours: Ours<'_>| {
            [format!("{} ({label}{})", ours.value, place(report, ours.figure)), ours.cpu, ours.comparable]
        };
        ours(report).into_iter().map(row).collect()
    };
    reports.tsm.iter().filter(|report| report.passed()).flat_map(of).collect()
}

/// Place that requests of a scaling test were sent to, if the row does not say it.
fn place(report: &Report, figure: &Figure) -> String {
    match (figure.front_ends, figure.cpus) {
        (0, _) if report.tsm == "scaling" => ", store itself".to_owned(),
        (_, Some(cpus)) if figure.cores.is_none() => format!(", {} for each server", short(cpus)),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tsm::report::tests::{matrix, scaling as report};

    fn page(report: Report) -> String {
        let mut text = String::new();
        write(&Reports { tsm: vec![report], ..Reports::default() }, &mut text);
        text
    }

    #[test]
    fn our_steps_stand_next_to_the_published_ones_with_their_percentages() {
        let text = page(report());
        for row in [
            "| write, single requests, 1 server, Standard | 27.649 s, 107,634 /s | 8.000 s, 372 k /s (Millrace 1, REST, JSON, \
             2 processors) | 0.67 CPU-s/million | measured |",
            "| write, single requests, 1 server, Standard vs. Performance | 60.4 % | 50 % (",
            "| write, bulk requests, 2 servers vs. 1, Performance | 17.5 % | 50 % (",
        ] {
            assert!(text.contains(row), "{row}: {text}");
        }
        assert!(!text.contains("4 servers") && text.contains("Not run here: load (4 figures"), "{text}");
    }

    #[test]
    fn the_store_itself_is_one_server_and_is_named() {
        let mut with_store = report();
        with_store.figures[3].front_ends = 0;
        with_store.figures[4].cpus = Some(0.5);
        let text = page(with_store);
        assert!(text.contains("1.000 s, 2.98 M /s (Millrace 1, REST, JSON, 2 processors, store itself)"), "{text}");
        assert!(
            text.contains("0.500 s, 5.95 M /s (Millrace 1, REST, JSON, 2 processors, 0.5 for each server)"),
            "{text}"
        );
    }

    #[test]
    fn a_matrix_states_its_factor_and_is_comparable_only_at_full_cores() {
        let text = page(matrix());
        let name = "| read, bulk requests, 2x8 cores, Performance | 2.250 s, 1,322,666 /s | 1.000 s, 2.98 M /s (";
        assert!(
            text.contains(name) && text.contains("| no: each server has 1 processors, 0.125 of the published cores |"),
            "{text}"
        );
        assert!(!text.contains("2 servers"), "a cell is no step of the other tests: {text}");
        let mut full = matrix();
        full.matrix_scale = Some(1.0);
        assert!(page(full).contains("| measured |"));
    }

    #[test]
    fn compressed_data_is_compared_by_its_ratio_to_other_data() {
        let of = |report| {
            let mut text = String::new();
            write(&Reports { breakeven: vec![report], ..Reports::default() }, &mut text);
            text
        };
        let fixture = breakeven::report::tests::fixture();
        let text = of(fixture.clone());
        for row in [
            "| writing, 100 % of each block changed | 1.12 (1.454 s, 1.632 s) | 0.50 (0.05–0.50) (PostgreSQL , single requests) \
             | 2.00 of CPU | measured |",
            "| reading at rest, 100 % of each block changed | 1.05 (0.947 s, 0.995 s) | 0.50 (",
        ] {
            assert!(text.contains(row), "{row}: {text}");
        }
        assert!(!text.contains("25 % of each block"), "not measured: {text}");
        let wrong = breakeven::Report { findings: vec!["series 1".to_owned()], ..fixture };
        assert!(!of(wrong).lines().any(|line| line.starts_with('|')));
    }

    #[test]
    fn history_is_not_compared() {
        let mut history = report();
        history.figures.iter_mut().for_each(|figure| figure.kind = crate::tsm::SeriesKind::Audit);
        let text = page(history);
        assert!(!text.lines().any(|line| line.starts_with('|')), "{text}");
    }

    #[test]
    fn other_work_is_not_comparable_and_wrong_answers_have_no_figures() {
        let shorter = Report { days: 2, ..report() };
        let text = page(shorter);
        assert!(text.contains("| no: 1,000 series for 2 days |") && !text.contains("| measured |"), "{text}");
        let wrong = Report { findings: vec!["read 1".to_owned()], ..report() };
        let text = page(wrong);
        assert!(!text.lines().any(|line| line.starts_with('|')), "{text}");
    }
}
