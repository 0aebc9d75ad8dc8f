//! The page of `millrace bench coldstart`: start times and rates by data size.

use super::{Cell, Page, Row, document, name, save};
use crate::error::Result;
use crate::published::mot;
use crate::report::charts::{Axis, Chart, Line, Point, Scale, Unit};
use crate::report::format::{bytes, percent, seconds, short, whole};
use crate::tpcc::coldstart::{DiskRead, GOAL_OF_DISK, KINDS, Report, Size, Summary};

const FULL: (f64, f64) = (1120.0, 320.0);
const HALF: (f64, f64) = (550.0, 260.0);
/// First colour index that is drawn dashed.
const DASHED: usize = 8;

/// Writes the page of one target's starts, or of several targets compared.
pub(crate) fn write(reports: &[Report], path: &std::path::Path) -> Result {
    save(path, &page(&reports.iter().map(Report::honest).collect::<Vec<Report>>()))
}

fn page(reports: &[Report]) -> String {
    let names: Vec<&str> = reports.iter().map(|report| report.target.product.as_str()).collect();
    let tools: Vec<&str> = reports.iter().map(|report| report.tool.as_str()).collect();
    let title = format!("Cold start: {}", names.join(", "));
    document(&title, &tools, |page| {
        page.raw("<header>\n");
        page.element("h1", &title);
        page.element(
            "p class=\"soft\"",
            "From the execution of the server until a row is answered by its key, and until count(*) is right. Lines are \
             medians, with the range of all starts around them.",
        );
        for finding in reports.iter().flat_map(|report| &report.findings) {
            page.raw("<div class=\"banner bad\">").element("strong", "A wrong answer.").element("p", finding);
            page.raw("</div>\n");
        }
        page.raw("</header>\n");
        if reports.iter().any(|report| report.sizes.iter().any(|size| !size.starts.is_empty())) {
            charts(page, reports);
        }
        reports.iter().for_each(|report| section(page, report));
    })
}

/// Returns a line for each report and kind of start.
fn lines(reports: &[Report], of: impl Fn(&Summary) -> (f64, (f64, f64))) -> Vec<Line> {
    let mut lines = Vec::new();
    for report in reports {
        for (stop, cache) in KINDS {
            let point = |size: &Size| {
                let (y, (low, high)) = of(&size.summary(stop, cache)?);
                Some(Point { x: size.gb(), y, low, high })
            };
            let points: Vec<Point> = report.sizes.iter().filter_map(point).collect();
            if !points.is_empty() {
                let name = format!("{}, {}, {}", report.target.product, stop.text(), cache.text());
                lines.push(Line { name, color: lines.len() % DASHED, thin: false, points });
            }
        }
    }
    lines
}

fn charts(page: &mut Page, reports: &[Report]) {
    page.raw("<section>").element("h2", "By size");
    let chart = |title: &str, size, y: Axis, lines| Chart {
        title: title.to_owned(),
        size,
        x: Axis::new("GB of rows", Unit::Number, Scale::Linear),
        y,
        lines,
        shades: Vec::new(),
    };
    let axis = |unit| Axis::new("", unit, Scale::Linear);
    let title = "Until all rows are counted";
    page.chart(&chart(title, FULL, axis(Unit::Seconds), lines(reports, |start| (start.median.count_s, start.count_s))));
    let mut rates = lines(reports, |start| (start.median.gb_per_s, (start.median.gb_per_s, start.median.gb_per_s)));
    rates.extend(reports.iter().enumerate().flat_map(|(number, report)| disk_lines(number, report)));
    page.chart(&chart("GB of files a second until all rows are counted", FULL, axis(Unit::Number), rates));
    page.element(
        "p class=\"soft small\"",
        &format!(
            "The goal of a cold start is {} of what the disk gives. Published of MOT, on other hardware: {} GB/s of \
             checkpoint from NVMe ({}).",
            percent(GOAL_OF_DISK),
            mot::COLD_START_GB_S,
            mot::SOURCE
        ),
    );
    page.raw("<div class=\"two\">\n");
    page.chart(&chart(
        "Until a row is answered by its key",
        HALF,
        axis(Unit::Seconds),
        lines(reports, |start| (start.median.first_row_s, start.first_row_s)),
    ));
    let cpu = |start: &Summary| start.median.server_cpu_s.unwrap_or(f64::NAN);
    page.chart(&chart(
        "CPU seconds of the server until all rows are counted",
        HALF,
        axis(Unit::Seconds),
        lines(reports, |start| (cpu(start), (cpu(start), cpu(start)))),
    ));
    page.raw("</div>\n</section>\n");
}

/// Reference lines: the disk's own rate, and the goal as a share of it.
fn disk_lines(number: usize, report: &Report) -> [Line; 2] {
    let line = |what: String, color: usize, share: f64| Line {
        name: format!("{what}, files of {}", report.target.product),
        color: DASHED + color,
        thin: true,
        points: report.sizes.iter().map(|size| Point::new(size.gb(), size.disk_gb_per_s() * share)).collect(),
    };
    [
        line("the disk alone".to_owned(), 2 * number, 1.0),
        line(format!("{} of it", percent(GOAL_OF_DISK)), 2 * number + 1, GOAL_OF_DISK),
    ]
}

fn section(page: &mut Page, report: &Report) {
    let target = &report.target;
    page.raw("<section>").element("h2", &format!("{} {}", target.product, target.version));
    let mut facts = vec![
        ("durability", target.durability.clone()),
        ("started", report.started.clone()),
        ("machine", format!("{} × {}, {}", report.machine.cpus, report.machine.cpu, report.machine.kernel)),
        ("memory", bytes(report.machine.memory_bytes as f64)),
        ("server settings", target.server_settings.join(", ")),
        ("command", report.command.join(" ")),
    ];
    facts.extend(report.settings.iter().map(|(name, value)| (name.as_str(), value.clone())));
    page.facts(facts);
    report.notes.iter().for_each(|note| {
        page.element("p", note);
    });
    let columns = ["rows", "#count", "#files", "#number of files", "#load", "#checkpoint", "#stop", "the disk alone"];
    let row = |size: &Size| {
        let disk: Vec<String> = size.disk.iter().map(DiskRead::text).collect();
        Row::new(vec![
            name(&format!("{:.3} GB", size.gb())),
            whole(size.rows).into(),
            bytes(size.file_bytes as f64).into(),
            whole(size.files as u64).into(),
            seconds(size.load_s).into(),
            seconds(size.checkpoint_s).into(),
            seconds(size.stop_s).into(),
            disk.join(", ").into(),
        ])
    };
    page.table("", &columns, report.sizes.iter().map(row).collect::<Vec<Row>>());
    let columns = [
        "rows",
        "ended",
        "cache",
        "#starts",
        "#first row",
        "#count(*)",
        "#from",
        "#to",
        "#GB/s",
        "#of the disk",
        "#server CPU",
        "#disk read",
        "#server memory",
        "#cached before",
        "#rows in the log",
    ];
    let rows = report.sizes.iter().flat_map(|size| size.summaries().into_iter().map(|start| start_row(size, &start)));
    page.table("", &columns, rows.collect::<Vec<Row>>());
    page.raw("</section>\n");
}

fn start_row(size: &Size, summary: &Summary) -> Row {
    let start = &summary.median;
    let maybe = |value: Option<u64>| Cell::from(value.map_or_else(|| "–".to_owned(), |value| bytes(value as f64)));
    let share = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), percent);
    let reached = start.of_disk.is_some_and(|share| share >= GOAL_OF_DISK);
    let of_disk = Cell { class: if reached { "better" } else { "" }, text: share(start.of_disk) };
    Row::new(vec![
        name(&format!("{:.3} GB", size.gb())),
        start.stop.text().into(),
        start.cache.text().into(),
        summary.runs.to_string().into(),
        seconds(start.first_row_s).into(),
        seconds(start.count_s).into(),
        seconds(summary.count_s.0).into(),
        seconds(summary.count_s.1).into(),
        format!("{:.2}", start.gb_per_s).into(),
        of_disk,
        start.server_cpu_s.map_or_else(|| "–".to_owned(), seconds).into(),
        maybe(start.server_read_bytes),
        maybe(start.server_rss_bytes),
        share(start.cached_before).into(),
        short(start.tail_rows as f64).into(),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::coldstart::{Cache, Start, Stop};

    fn report(product: &str) -> Report {
        let size = |gb: u64| {
            let start = |stop: Stop, cache: Cache| Start {
                stop,
                cache,
                first_row_s: 1.0,
                count_s: 4.25 * gb as f64,
                gb_per_s: 0.25,
                of_disk: (cache == Cache::Cold).then_some(0.875),
                ..Start::default()
            };
            Size {
                row_bytes: gb * 1_000_000_000,
                file_bytes: gb * 1_100_000_000,
                disk: vec![DiskRead { readers: 1, bytes: 1_000_000_000, seconds: 2.0 }],
                starts: KINDS.map(|(stop, cache)| start(stop, cache)).to_vec(),
                ..Size::default()
            }
        };
        let mut report = Report { sizes: vec![size(1), size(2)], ..Report::default() };
        report.target.product = product.to_owned();
        report
    }

    #[test]
    fn the_page_shows_every_kind_of_start_and_the_disk() {
        let html = page(&[report("A<b>"), report("PostgreSQL")]);
        assert_eq!(html.matches("<svg").count(), 4);
        for said in ["A&lt;b&gt;, stopped, cold", "PostgreSQL, killed, warm", "the disk alone", "87.5 %", "8.5 s"] {
            assert!(html.contains(said), "{said}");
        }
        assert!(html.contains("on other hardware: 2.5 GB/s"), "what is published is called so");
        assert!(!html.contains("<b>"));
    }

    #[test]
    fn a_wrong_answer_removes_all_times_from_the_page() {
        let wrong = Report { findings: vec!["count(*) is 3".to_owned()], ..report("PostgreSQL") };
        let html = page(&[wrong.honest()]);
        assert!(html.contains("A wrong answer") && html.contains("count(*) is 3"));
        assert!(!html.contains("<svg") && !html.contains("8.5 s"));
    }
}
