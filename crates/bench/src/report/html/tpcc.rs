//! The page of `millrace bench tpcc`: throughput and latency by the number of clients, and each run
//! over time.

use super::{Cell, Page, Row, document, name, save};
use crate::error::Result;
use crate::published::mot::{self, SOURCE};
use crate::report::busy;
use crate::report::charts::{Axis, Chart, Line, Point, Scale, Unit, fitting_scale};
use crate::report::format::{capital, digits, milliseconds, percent, seconds, whole};
use crate::result::Latency;
use crate::tpcc::report::{DISCLAIMER, KindResult, Point as Run, Report, for_page};

const FULL: (f64, f64) = (1120.0, 300.0);
const HALF: (f64, f64) = (550.0, 240.0);
/// First colour index that is drawn dashed.
const DASHED: usize = 8;

/// Writes the page of one target's runs, or of several targets compared.
pub(crate) fn write(reports: &[Report], path: &std::path::Path) -> Result {
    save(path, &page(&for_page(reports)))
}

fn page(reports: &[Report]) -> String {
    let names: Vec<&str> = reports.iter().map(|report| report.target.product.as_str()).collect();
    let tools: Vec<&str> = reports.iter().map(|report| report.tool.as_str()).collect();
    document(&format!("TPC-C transactions: {}", names.join(", ")), &tools, |page| {
        page.raw("<header>\n");
        page.element("h1", &format!("TPC-C transactions: {}", names.join(", ")));
        page.raw("<div class=\"banner\">").element("strong", "Not audited TPC results.");
        page.element("p", DISCLAIMER).raw("</div>\n</header>\n");
        by_clients(page, reports);
        beside_published(page, reports);
        reports.iter().for_each(|report| section(page, report));
    })
}

/// A figure of a run on a machine with `cpus` processors; `None`: not known.
type Figure = fn(&Run, u32) -> Option<f64>;

/// Latencies of committed new-order transactions.
fn new_orders(run: &Run) -> Option<&Latency> {
    run.kinds.first().map(|kind| &kind.latency_ms)
}

/// Charts by the number of clients: a line for each report, a point for each number.
fn by_clients(page: &mut Page, reports: &[Report]) {
    if reports.iter().all(|report| report.points.len() < 2) {
        return;
    }
    page.raw("<section>").element("h2", "By number of clients");
    page.raw("<div class=\"two\">\n");
    let figures: [(&str, Unit, Scale, Figure); 8] = [
        ("New orders a minute", Unit::Number, Scale::Linear, |run, _| Some(run.nopm)),
        ("Server CPU a new order, µs", Unit::Number, Scale::Linear, |run, _| run.server_cpu_us_per_new_order),
        ("Server, share of the machine's CPU", Unit::Percent, Scale::Linear, |run, cpus| run.shares(cpus).server),
        ("Everything, share of the machine's CPU", Unit::Percent, Scale::Linear, |run, cpus| {
            Some(run.shares(cpus).host)
        }),
        ("New-Order, median", Unit::Milliseconds, Scale::Log, |run, _| Some(new_orders(run)?.median)),
        ("New-Order, 90th percentile", Unit::Milliseconds, Scale::Log, |run, _| Some(new_orders(run)?.p90)),
        ("New-Order, 99th percentile", Unit::Milliseconds, Scale::Log, |run, _| Some(new_orders(run)?.p99)),
        ("Attempts that failed", Unit::Number, Scale::Linear, |run, _| Some(run.attempts_failed() as f64)),
    ];
    for (title, unit, scale, of) in figures {
        let chart = chart(title, Axis::new("", unit, scale), lines(reports, of));
        if chart.has_values() {
            page.chart(&chart);
        }
    }
    page.raw("</div>\n");
    reports.iter().for_each(|report| table_of_points(page, report));
    page.raw("</section>\n");
}

/// A chart over the number of clients.
fn chart(title: &str, y: Axis, lines: Vec<Line>) -> Chart {
    let x = Axis::new("clients", Unit::Number, Scale::Log);
    Chart { title: title.to_owned(), size: HALF, x, y, lines, shades: Vec::new() }
}

fn lines(reports: &[Report], of: Figure) -> Vec<Line> {
    let line = |(color, report): (usize, &Report)| {
        let point = |run: &Run| Point::new(run.clients as f64, of(run, report.machine.cpus).unwrap_or(f64::NAN));
        Line {
            name: report.target.product.clone(),
            color,
            thin: false,
            points: report.points.iter().map(point).collect(),
        }
    };
    reports.iter().enumerate().map(line).collect()
}

fn optional_text(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| whole(value as u64))
}

fn table_of_points(page: &mut Page, report: &Report) {
    if report.points.is_empty() {
        return;
    }
    let share = |value: Option<f64>| Cell::from(value.map_or_else(|| "–".to_owned(), percent));
    let row = |run: &Run| {
        let shares = run.shares(report.machine.cpus);
        Row::new(vec![
            name(&run.clients.to_string()),
            whole(run.nopm as u64).into(),
            optional_text(run.nopm_per_server_core).into(),
            optional_text(run.server_cpu_us_per_new_order).into(),
            share(shares.server),
            share(Some(shares.client)),
            share(Some(shares.host)),
            whole(run.attempts_failed()).into(),
            whole(run.retries).into(),
        ])
    };
    let columns = [
        "clients",
        "#new orders/min",
        "#for a server core",
        "#server µs each",
        "#server CPU",
        "#client CPU",
        "#all CPU",
        "#failed",
        "#retries",
    ];
    page.element("h3", &format!("{}: throughput", report.target.product));
    page.element(
        "p class=\"soft small\"",
        "Per server core: of the cores that the server kept busy. CPU: of the whole machine.",
    );
    page.table("", &columns, report.points.iter().map(row).collect::<Vec<Row>>());
    page.element("h3", &format!("{}: latency in ms, 50th / 90th / 99th percentile", report.target.product));
    let kinds: Vec<&str> = report.points[0].kinds.iter().map(|kind| kind.title.as_str()).collect();
    let columns: Vec<String> =
        std::iter::once("clients".to_owned()).chain(kinds.iter().map(|title| format!("#{title}"))).collect();
    let row = |run: &Run| {
        let latency = |kind: &KindResult| {
            let latency = &kind.latency_ms;
            let three = [latency.median, latency.p90, latency.p99].map(digits);
            Cell::from(if kind.ok > 0 { three.join(" / ") } else { "–".to_owned() })
        };
        Row::new(std::iter::once(name(&run.clients.to_string())).chain(run.kinds.iter().map(latency)).collect())
    };
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    page.table("full slim", &columns, report.points.iter().map(row).collect::<Vec<Row>>());
}

/// Published figures of MOT on other hardware, next to ours but in charts and a table of their own.
fn beside_published(page: &mut Page, reports: &[Report]) {
    if reports.iter().all(|report| report.points.is_empty()) {
        return;
    }
    page.raw("<section>").element("h2", "Published figures of MOT");
    page.raw("<div class=\"banner\">").element("strong", "Published figures, measured on other hardware.");
    let caption = format!(
        "{SOURCE}. Dashed lines and the single point are theirs: machines of 96 to 256 cores, the clients on machines of \
         their own. For each core: theirs by all cores of the machine, ours by those that the server kept busy."
    );
    page.element("p", &caption).raw("</div>\n<div class=\"two\">\n");
    let clients = reports.iter().flat_map(|report| report.points.iter().map(|run| run.clients as f64));
    let most = clients.clone().fold(1.0, f64::max);
    let least = clients.fold(most, f64::min);
    let of_core = |(number, run): (usize, &mot::Tpcc)| Line {
        name: format!("published: {}, {} cores", run.machine, run.cores),
        color: DASHED + number,
        thin: true,
        points: vec![Point::new(least, run.per_core()), Point::new(most, run.per_core())],
    };
    let on_mot = || mot::TPCC.iter().enumerate().filter(|(_, run)| run.tables == "MOT");
    let mut per_core = lines(reports, |run, _| run.nopm_per_server_core);
    per_core.extend(on_mot().map(of_core));
    let x = if most > least { None } else { Some((least / 2.0, most * 2.0)) };
    let mut cores = chart(
        "New orders a minute for each server core",
        Axis::new("", Unit::Number, fitting_scale(&per_core)),
        per_core,
    );
    cores.x.range = x;
    page.chart(&cores);
    let at_clients = |(number, run): (usize, &mot::Tpcc)| {
        let clients = f64::from(run.connections?);
        Some(Line {
            name: format!("published: {}, {} cores, {clients} connections", run.machine, run.cores),
            color: DASHED + number,
            thin: false,
            points: vec![Point::new(clients, run.tpmc)],
        })
    };
    let mut whole_machine = lines(reports, |run, _| Some(run.nopm));
    whole_machine.extend(on_mot().filter_map(at_clients));
    let scale = fitting_scale(&whole_machine);
    page.chart(&chart("New orders a minute of a whole machine", Axis::new("", Unit::Number, scale), whole_machine));
    page.raw("</div>\n");
    let row = |run: &mot::Tpcc| {
        Row::new(vec![
            name(run.machine),
            run.tables.into(),
            run.cores.to_string().into(),
            run.connections.map_or_else(|| "not said".to_owned(), |count| count.to_string()).into(),
            whole(run.tpmc as u64).into(),
            whole(run.per_core() as u64).into(),
        ])
    };
    let columns = ["published of", "tables", "#cores", "#connections", "#new orders/min", "#for a core"];
    page.table("", &columns, mot::TPCC.iter().map(row).collect::<Vec<Row>>());
    page.raw("</section>\n");
}

fn section(page: &mut Page, report: &Report) {
    let target = &report.target;
    page.raw("<section>").element("h2", &format!("{} {}", target.product, target.version));
    let mut facts = vec![
        ("target", target.url.clone()),
        ("durability", target.durability.clone()),
        ("warehouses", report.warehouses.to_string()),
        ("started", report.started.clone()),
        ("machine", format!("{} × {}, {}", report.machine.cpus, report.machine.cpu, report.machine.kernel)),
        ("server settings", target.server_settings.join(", ")),
        ("command", report.command.join(" ")),
    ];
    facts.extend(report.settings.iter().map(|(name, value)| (name.as_str(), value.clone())));
    facts.extend(report.loaded.iter().map(|loaded| ("loading", loaded.line())));
    page.facts(facts);
    report.notes.iter().for_each(|note| {
        page.element("p", note);
    });
    conditions(page, report);
    report.points.iter().for_each(|run| one_run(page, run, report.machine.cpus));
    page.raw("</section>\n");
}

fn conditions(page: &mut Page, report: &Report) {
    let mut verdicts = vec![("before".to_owned(), &report.before)];
    verdicts.extend(report.between.iter().map(|each| (format!("after {} clients", each.clients), &each.verdict)));
    verdicts.extend(report.after.iter().map(|verdict| ("after".to_owned(), verdict)));
    let rows = verdicts.iter().flat_map(|(when, verdict)| {
        verdict.conditions.iter().map(move |condition| {
            let ok = condition.offending.is_empty();
            let state = if ok { "ok".to_owned() } else { format!("FAILED: {}", condition.offending.join("; ")) };
            Row::new(vec![
                name(&condition.name),
                condition.rule.as_str().into(),
                when.as_str().into(),
                state.into(),
                seconds(condition.seconds).into(),
            ])
        })
    });
    let word = if report.passed() { "all hold" } else { "FAILED" };
    page.element("h3", &format!("Consistency conditions: {word}"));
    page.table("", &["condition", "rule", "run", "state", "#took"], rows.collect::<Vec<Row>>());
}

fn one_run(page: &mut Page, run: &Run, cpus: u32) {
    let (server, client) = run.cores();
    page.element("h3", &format!("{} clients: {} new orders a minute", run.clients, whole(run.nopm as u64)));
    page.facts([
        ("for each server core", optional_text(run.nopm_per_server_core)),
        ("server CPU a new order, µs", optional_text(run.server_cpu_us_per_new_order)),
        ("server CPU a round trip, µs", optional_text(run.server_cpu_us_per_trip)),
        (
            "cores in use",
            format!("server {}, client {client:.2}", server.map_or("?".to_owned(), |used| format!("{used:.2}"))),
        ),
        ("round trips", whole(run.trips)),
        ("retries", whole(run.retries)),
    ]);
    if let Some(warning) = run.busy(cpus) {
        page.raw("<div class=\"banner\">").element("strong", busy::TITLE).element("p", &capital(&warning));
        page.raw("</div>\n");
    }
    let rows = run.kinds.iter().map(|kind| {
        let latency = &kind.latency_ms;
        let mut cells: Vec<Cell> = vec![name(&kind.title), whole(kind.ok).into(), whole(kind.failed).into()];
        cells.push(whole(kind.per_minute as u64).into());
        let quantiles = [latency.median, latency.p90, latency.p95, latency.p99, latency.max];
        cells.extend(quantiles.into_iter().map(|quantile| Cell::from(milliseconds(quantile))));
        Row::new(cells)
    });
    let columns = ["transaction", "#done", "#failed", "#per minute", "#p50", "#p90", "#p95", "#p99", "#max"];
    page.table("", &columns, rows.collect::<Vec<Row>>());
    if !run.errors.is_empty() {
        let rows = run.errors.iter().map(|error| {
            Row::new(vec![
                name(&error.sqlstate),
                error.kind.as_str().into(),
                whole(error.count).into(),
                error.first.as_str().into(),
            ])
        });
        page.table("", &["SQLSTATE", "transaction", "#attempts", "first"], rows.collect::<Vec<Row>>());
    }
    over_time(page, run);
}

fn over_time(page: &mut Page, run: &Run) {
    let lines = |of: fn(&crate::tpcc::report::SecondOfKind) -> f64| -> Vec<Line> {
        let line = |(color, kind): (usize, &crate::tpcc::report::KindResult)| Line {
            name: kind.name.clone(),
            color,
            thin: false,
            points: run
                .by_second
                .iter()
                .filter(|second| second.kind == kind.name)
                .map(|second| Point::new(second.at_s, of(second)))
                .collect(),
        };
        run.kinds.iter().enumerate().map(line).filter(|line| line.points.len() > 1).collect()
    };
    let mut chart = |title: &str, unit: Unit, scale: Scale, lines: Vec<Line>| {
        if !lines.is_empty() {
            page.chart(&Chart {
                title: title.to_owned(),
                size: FULL,
                x: Axis::new("seconds", Unit::Seconds, Scale::Linear),
                y: Axis::new("", unit, scale),
                lines,
                shades: Vec::new(),
            });
        }
    };
    chart("Transactions a second", Unit::PerSecond, Scale::Linear, lines(|second| second.ok as f64));
    chart("99th percentile of each second", Unit::Milliseconds, Scale::Log, lines(|second| second.p99_ms));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::report::SecondOfKind;

    #[test]
    fn the_page_shows_every_run_and_the_disclaimer() {
        let kind = KindResult {
            name: "NEW_ORDER".to_owned(),
            title: "New-Order".to_owned(),
            ok: 99,
            latency_ms: Latency { median: 1.0, p90: 2.0, p99: 3.0, ..Latency::default() },
            ..KindResult::default()
        };
        let second = |at: u32| SecondOfKind {
            at_s: f64::from(at),
            kind: "NEW_ORDER".to_owned(),
            ok: 33,
            p99_ms: 2.0,
            ..SecondOfKind::default()
        };
        let run = |clients| Run {
            clients,
            seconds: 3.0,
            nopm: 4321.0,
            server_cpu_s: Some(2.0),
            server_cpu_us_per_new_order: Some(900.0),
            host_cpu_s: 3.0,
            kinds: vec![kind.clone()],
            by_second: (0..3).map(second).collect(),
            ..Run::default()
        };
        let mut report = Report { points: vec![run(1), run(16)], ..Report::default() };
        report.target.product = "A<b>".to_owned();
        let html = page(&[report.clone(), report.clone()]);
        assert!(html.contains("Not audited TPC results") && html.contains("4,321 new orders a minute"), "{html}");
        assert!(html.contains("16 clients") && html.contains("By number of clients"));
        assert!(!html.contains("<b>") && html.contains("A&lt;b&gt;"));
        assert!(html.contains("Published figures, measured on other hardware") && html.contains("4,800,000"));
        assert!(html.contains("256 cores, 768 connections"), "the one point that has a number of connections");
        // Seven charts by number of clients, two with published figures, and two for each run.
        assert_eq!(html.matches("<svg").count(), 7 + 2 + 2 * 2 * 2);
        assert!(!html.contains("Attempts that failed"), "nothing failed");
        report.points[0].errors.push(crate::tpcc::report::ErrorCount { count: 5, ..Default::default() });
        let html = page(&[report.clone(), report]);
        assert_eq!(html.matches("<svg").count(), 8 + 2 + 2 * 2 * 2);
        assert!(html.contains("Attempts that failed"));
    }
}
