//! The page of `millrace bench tpcc`: throughput and latency by the number of clients, and each run over time.

use super::{Cell, Page, Row, document, name, save};
use crate::error::Result;
use crate::report::charts::{Axis, Chart, Line, Point, Scale, Unit};
use crate::report::format::{milliseconds, seconds, whole};
use crate::tpcc::report::{DISCLAIMER, Point as Run, Report, for_page};

const FULL: (f64, f64) = (1120.0, 300.0);
const HALF: (f64, f64) = (550.0, 240.0);

/// Writes the page of one target's runs, or of several side by side.
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
        reports.iter().for_each(|report| section(page, report));
    })
}

/// A figure of a run; `None`: it is not known.
type Figure = fn(&Run) -> Option<f64>;

/// A line for each report, a point for each number of clients.
fn by_clients(page: &mut Page, reports: &[Report]) {
    if reports.iter().all(|report| report.points.len() < 2) {
        return;
    }
    page.raw("<section>").element("h2", "By number of clients");
    let figures: [(&str, Unit, Figure); 4] = [
        ("New orders a minute", Unit::Number, |run| Some(run.nopm)),
        ("New orders a minute for each server core", Unit::Number, |run| run.nopm_per_server_core),
        ("New-Order, 99th percentile", Unit::Milliseconds, |run| Some(run.kinds.first()?.latency_ms.p99)),
        ("Server cores in use", Unit::Number, |run| run.cores().0),
    ];
    for (title, unit, of) in figures {
        let line = |(color, report): (usize, &Report)| Line {
            name: report.target.product.clone(),
            color,
            thin: false,
            points: report
                .points
                .iter()
                .map(|run| Point::new(run.clients as f64, of(run).unwrap_or(f64::NAN)))
                .collect(),
        };
        page.chart(&Chart {
            title: title.to_owned(),
            size: HALF,
            x: Axis::new("clients", Unit::Number, Scale::Log),
            y: Axis::new("", unit, Scale::Linear),
            lines: reports.iter().enumerate().map(line).collect(),
            shades: Vec::new(),
        });
    }
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
    report.points.iter().for_each(|run| one_run(page, run));
    page.raw("</section>\n");
}

fn conditions(page: &mut Page, report: &Report) {
    let verdicts = [("before", Some(&report.before)), ("after", report.after.as_ref())];
    let rows = verdicts.into_iter().filter_map(|(when, verdict)| Some((when, verdict?))).flat_map(|(when, verdict)| {
        verdict.conditions.iter().map(move |condition| {
            let ok = condition.offending.is_empty();
            let state = if ok { "ok".to_owned() } else { format!("FAILED: {}", condition.offending.join("; ")) };
            Row::new(vec![
                name(&condition.name),
                condition.rule.as_str().into(),
                when.into(),
                state.into(),
                seconds(condition.seconds).into(),
            ])
        })
    });
    let word = if report.passed() { "all hold" } else { "FAILED" };
    page.element("h3", &format!("Consistency conditions: {word}"));
    page.table("", &["condition", "rule", "run", "state", "#took"], rows.collect::<Vec<Row>>());
}

fn one_run(page: &mut Page, run: &Run) {
    let (server, client) = run.cores();
    let maybe = |value: Option<f64>| value.map_or_else(|| "not seen".to_owned(), |value| whole(value as u64));
    page.element("h3", &format!("{} clients: {} new orders a minute", run.clients, whole(run.nopm as u64)));
    page.facts([
        ("for each server core", maybe(run.nopm_per_server_core)),
        ("server CPU a new order, µs", maybe(run.server_cpu_us_per_new_order)),
        ("server CPU a round trip, µs", maybe(run.server_cpu_us_per_trip)),
        (
            "cores in use",
            format!("server {}, client {client:.2}", server.map_or("?".to_owned(), |used| format!("{used:.2}"))),
        ),
        ("round trips", whole(run.trips)),
        ("retries", whole(run.retries)),
    ]);
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
    use crate::tpcc::report::{KindResult, SecondOfKind};

    #[test]
    fn the_page_shows_every_run_and_says_what_it_is_not() {
        let kind =
            KindResult { name: "NEW_ORDER".to_owned(), title: "New-Order".to_owned(), ok: 99, ..KindResult::default() };
        let second = |at: u32| SecondOfKind {
            at_s: f64::from(at),
            kind: "NEW_ORDER".to_owned(),
            ok: 33,
            p99_ms: 2.0,
            ..SecondOfKind::default()
        };
        let run = |clients| Run {
            clients,
            nopm: 4321.0,
            kinds: vec![kind.clone()],
            by_second: (0..3).map(second).collect(),
            ..Run::default()
        };
        let mut report = Report { points: vec![run(1), run(16)], ..Report::default() };
        report.target.product = "A<b>".to_owned();
        let html = page(&[report.clone(), report]);
        assert!(html.contains("Not audited TPC results") && html.contains("4,321 new orders a minute"), "{html}");
        assert!(html.contains("16 clients") && html.contains("By number of clients"));
        assert!(!html.contains("<b>") && html.contains("A&lt;b&gt;"));
        assert_eq!(html.matches("<svg").count(), 4 + 2 * 2 * 2);
    }
}
