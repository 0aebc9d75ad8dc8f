//! Figures that HAKOM publishes for its TSM: load tests, and scaling tests with its two licences.
//!
//! The scaling tests have a column "Standard vs. Performance", the time that the Performance licence
//! saves: 1 - Performance / Standard. That licence works on a request in parallel. Ours are requests
//! one after the other (serial) and concurrent ones (parallel).

use std::fmt::Write;

use super::NotRun;
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
const SCALING_COMMAND: &str = "bench tsm scaling";

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
         has an application's own table, without HAKOM's services.\n",
    );
    let tests: [(&str, Vec<Row>, &str); 2] =
        [("load", load_rows(reports), LOAD_COMMAND), ("scaling", scaling_rows(reports), SCALING_COMMAND)];
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
            let figure = report.load(load.operation, load.series, load.clients)?;
            Some((time(figure), cpu(figure), same_work(report, figure, load.series, LOAD_DAYS)))
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
                let figure = report.scaling(test.operation, test.requests, service, test.servers)?;
                Some((time(figure), cpu(figure), same_work(report, figure, SCALING_SERIES, SCALING_DAYS)))
            })
        };
        let published = |seconds: f64| format!("{seconds:.3} s, {} /s", whole((SCALING_VALUES / seconds) as u64));
        if let Some(standard_s) = test.standard_s {
            rows.push(Row {
                name: format!("{title}, Standard"),
                published: published(standard_s),
                ours: of(Service::Serial),
            });
        }
        rows.push(Row {
            name: format!("{title}, Performance"),
            published: published(test.performance_s),
            ours: of(Service::Parallel),
        });
        if let Some(standard_s) = test.standard_s {
            rows.push(Row {
                name: format!("{title}, Standard vs. Performance"),
                published: percent(1.0 - test.performance_s / standard_s),
                ours: saved(reports, test, Service::Parallel, test.servers, Report::vs_serial),
            });
        }
        let one_server = SCALINGS
            .iter()
            .find(|other| (other.operation, other.requests, other.servers) == (test.operation, test.requests, 1));
        if let Some(one) = one_server.filter(|_| test.servers > 1) {
            rows.push(Row {
                name: format!("{title} vs. 1, Performance"),
                published: percent(1.0 - test.performance_s / one.performance_s),
                ours: saved(reports, test, Service::Parallel, test.servers, Report::vs_one_server),
            });
        }
    }
    rows
}

/// Our saved times: a share of the time of another step.
fn saved(
    reports: &Reports,
    test: &Scaling,
    service: Service,
    servers: usize,
    share: impl Fn(&Report, &Figure) -> Option<f64>,
) -> Vec<[String; 3]> {
    each(reports, |report| {
        let figure = report.scaling(test.operation, test.requests, service, servers)?;
        let share = share(report, figure)?;
        Some((percent(share), String::new(), same_work(report, figure, SCALING_SERIES, SCALING_DAYS)))
    })
}

fn time(figure: &Figure) -> String {
    format!("{:.3} s, {} /s", figure.median_s(), short(figure.values_per_s()))
}

fn cpu(figure: &Figure) -> String {
    let millions = figure.values.max(1) as f64 / 1e6;
    figure.server_cpu_median_s().map_or_else(String::new, |cpu_s| format!("{:.2} CPU-s/million", cpu_s / millions))
}

/// Whether a step of ours did the published work.
fn same_work(report: &Report, figure: &Figure, series: u32, days: u32) -> String {
    if (figure.series, report.days) == (series, days) {
        "measured".to_owned()
    } else {
        format!("no: {} series for {} days", whole(u64::from(figure.series)), report.days)
    }
}

/// Our figures in the reports that passed: value with product and form, CPU, and whether it is
/// comparable.
fn each(reports: &Reports, figure: impl Fn(&Report) -> Option<(String, String, String)>) -> Vec<[String; 3]> {
    let of = |report: &Report| {
        let (value, cpu, comparable) = figure(report)?;
        let target = &report.target;
        let label =
            format!("{} {}, {}, {} processors", target.product, target.version, report.form, report.machine.cpus);
        Some([format!("{value} ({label})"), cpu, comparable])
    };
    reports.tsm.iter().filter(|report| report.passed()).filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tsm::report::tests::scaling as report;

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
    fn other_work_is_not_comparable_and_wrong_answers_have_no_figures() {
        let shorter = Report { days: 2, ..report() };
        let text = page(shorter);
        assert!(text.contains("| no: 1,000 series for 2 days |") && !text.contains("| measured |"), "{text}");
        let wrong = Report { findings: vec!["read 1".to_owned()], ..report() };
        let text = page(wrong);
        assert!(!text.lines().any(|line| line.starts_with('|')), "{text}");
    }
}
