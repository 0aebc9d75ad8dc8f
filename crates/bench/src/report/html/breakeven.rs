//! The page of `millrace bench breakeven`: throughput and CPU by the share of a block that is
//! changed.

use super::{Cell, Page, Row, document, name, save};
use crate::breakeven::Report;
use crate::breakeven::report::{Loaded, Phase, Spread, Summary, share_text};
use crate::error::Result;
use crate::report::charts::{Axis, Chart, Line, Point, Scale, Unit};
use crate::report::format::{bytes, milliseconds, short, whole};

const HALF: (f64, f64) = (550.0, 260.0);

/// Writes the page of one target, or of several compared.
pub(crate) fn write(reports: &[Report], path: &std::path::Path) -> Result {
    save(path, &page(&reports.iter().map(Report::honest).collect::<Vec<Report>>()))
}

fn page(reports: &[Report]) -> String {
    let names: Vec<&str> = reports.iter().map(|report| report.target.product.as_str()).collect();
    let tools: Vec<&str> = reports.iter().map(|report| report.tool.as_str()).collect();
    let title = format!("Break-even: {}", names.join(", "));
    document(&title, &tools, |page| {
        page.raw("<header>\n");
        page.element("h1", &title);
        page.element(
            "p class=\"soft\"",
            "Series of quarters of an hour in blocks of a day, of which a share is changed and read back: a compressed \
             table beside one that is not, of the same product. Every value that was read was compared. Ratios above 1 \
             are in favour of the compressed table, their spread over the repeats in brackets; CPU is the server's, of \
             writing until it is at rest.",
        );
        for finding in reports.iter().flat_map(|report| &report.findings) {
            page.raw("<div class=\"banner bad\">").element("strong", "A wrong answer.").element("p", finding);
            page.raw("</div>\n");
        }
        page.raw("</header>\n");
        for requests in ["single", "bulk"] {
            charts(page, reports, requests);
        }
        reports.iter().for_each(|report| section(page, report));
    })
}

/// Returns a line for each table that has figures.
fn lines(reports: &[Report], requests: &str, of: impl Fn(&Report, &str, u32) -> Option<f64>) -> Vec<Line> {
    let mut lines = Vec::new();
    for report in reports {
        let shares = report.kinds().into_iter().find(|kind| kind.0 == requests).map_or_else(Vec::new, |kind| kind.1);
        for table in &report.tables {
            let point = |share: &u32| Some(Point::new(f64::from(*share), of(report, table, *share)?));
            let points: Vec<Point> = shares.iter().filter_map(point).collect();
            if !points.is_empty() {
                let name = format!("{}, {table}", report.target.product);
                lines.push(Line { name, color: lines.len(), thin: false, points });
            }
        }
    }
    lines
}

fn charts(page: &mut Page, reports: &[Report], requests: &str) {
    let chart = |title: String, unit: Unit, lines: Vec<Line>| Chart {
        title,
        size: HALF,
        x: Axis::new("% of each block changed", Unit::Number, Scale::Linear),
        y: Axis::new("", unit, Scale::Linear),
        lines,
        shades: Vec::new(),
    };
    let of = |phase: Phase, value: &dyn Fn(&Summary) -> Option<f64>| {
        lines(reports, requests, |report, table, share| {
            report.summary(table, requests, share, phase).and_then(|summary| value(&summary))
        })
    };
    if of(Phase::Write, &|summary| Some(summary.values_per_s)).is_empty() {
        return;
    }
    page.raw("<section>").element("h2", &format!("By share, {requests} requests"));
    for phase in Phase::ALL {
        page.raw("<div class=\"two\">\n");
        let rate = of(phase, &|summary| Some(summary.values_per_s));
        page.chart(&chart(format!("{}: values a second", phase.title()), Unit::Number, rate));
        let cpu = of(phase, &|summary| summary.cpu_us_per_value.map(|micros| micros / 1e6));
        page.chart(&chart(format!("{}: CPU of the server for each value", phase.title()), Unit::Seconds, cpu));
        page.raw("</div>\n");
    }
    page.raw("</section>\n");
}

fn section(page: &mut Page, report: &Report) {
    let target = &report.target;
    page.raw("<section>").element("h2", &format!("{} {}", target.product, target.version));
    page.facts([
        ("durability", target.durability.clone()),
        ("started", report.started.clone()),
        ("machine", format!("{} × {}, {}", report.machine.cpus, report.machine.cpu, report.machine.kernel)),
        ("server settings", target.server_settings.join(", ")),
        ("series", whole(report.series.into())),
        ("days", whole(report.days as u64)),
        ("bulk request", format!("{} days of all series, {} times a step", report.bulk_days, report.bulk_passes)),
        ("repeats", whole(report.repeat.into())),
        ("command", report.command.join(" ")),
    ]);
    report.notes.iter().for_each(|note| {
        page.element("p", note);
    });
    let size = |size: Option<u64>| Cell::from(size.map_or_else(|| "–".to_owned(), |size| bytes(size as f64)));
    let row = |loaded: &Loaded| {
        let rate = loaded.figure.values as f64 / loaded.figure.seconds.max(1e-9);
        Row::new(vec![
            name(&loaded.table),
            whole(loaded.figure.values).into(),
            short(rate).into(),
            size(loaded.data_bytes),
            size(loaded.smallest_bytes),
        ])
    };
    let columns = ["loaded", "#values", "#values/s", "#on disk", "#in its smallest form, at the end"];
    page.table("", &columns, report.loaded.iter().map(row).collect::<Vec<Row>>());
    for (requests, shares) in report.kinds() {
        for phase in Phase::ALL {
            page.element("h3", &format!("{requests} requests, {}", phase.title()));
            table(page, report, &requests, &shares, phase);
        }
    }
    page.raw("</section>\n");
}

fn table(page: &mut Page, report: &Report, requests: &str, shares: &[u32], phase: Phase) {
    let columns = [
        "changed",
        "table",
        "#values",
        "#values/s",
        "#ratio",
        "#CPU µs a value",
        "#ratio",
        "#p50",
        "#p99",
        "#longest",
        "#on disk",
        "#written to disk, bytes a value",
    ];
    let mut rows = Vec::new();
    for share in shares {
        for (number, table) in report.tables.iter().enumerate() {
            let Some(summary) = report.summary(table, requests, *share, phase) else { continue };
            let ratio = report.ratio(requests, *share, phase).filter(|_| number == 0);
            let class = match ratio {
                Some(ratio) if ratio.wins_or_ties() => "better",
                Some(_) => "worse",
                None => "",
            };
            let (on_disk, written) = report.bytes(table, requests, *share);
            let maybe = |value: Option<Spread>| value.map_or_else(String::new, |value| value.text());
            let none = || "–".to_owned();
            rows.push(Row::new(vec![
                name(&share_text(*share)),
                table.clone().into(),
                whole(summary.values).into(),
                short(summary.values_per_s).into(),
                maybe(ratio.map(|ratio| ratio.throughput)).into(),
                summary.cpu_us_per_value.map_or_else(none, |cpu| format!("{cpu:.3}")).into(),
                Cell { class, text: maybe(ratio.and_then(|ratio| ratio.cpu)) },
                milliseconds(summary.p50_ms).into(),
                milliseconds(summary.p99_ms).into(),
                milliseconds(summary.max_ms).into(),
                on_disk.map_or_else(none, bytes).into(),
                written.filter(|_| phase == Phase::Write).map_or_else(none, |each| format!("{each:.1}")).into(),
            ]));
        }
    }
    page.table("", &columns, rows);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::breakeven::report::tests::fixture;

    #[test]
    fn the_page_has_both_tables_with_ratios_and_charts() {
        let html = page(&[fixture()]);
        assert_eq!(html.matches("<svg").count(), 8, "rate and CPU of writing, both readings and packing");
        for said in ["PostgreSQL, packed", "plain&lt;b&gt;", "1 % (1 of 96 values)", "100 % (96 of 96 values)", "2.00"]
        {
            assert!(html.contains(said), "{said}");
        }
        assert!(!html.contains("<b>"));
    }

    #[test]
    fn a_wrong_answer_removes_all_figures_from_the_page() {
        let wrong = Report { findings: vec!["series 1: read 7".to_owned()], ..fixture() };
        let html = page(&[wrong.honest()]);
        assert!(html.contains("A wrong answer") && html.contains("series 1: read 7"));
        assert!(!html.contains("<svg") && !html.contains("values/s</th><th class=\"n\">ratio"));
    }
}
