//! The page of several runs: their metrics compared, and the first run of each side in full.

use super::{Cell, Page, Row, name, run};
use crate::report::charts::{Axis, Bar, Bars, Chart, Group, Line, Scale, Unit, fitting_scale};
use crate::report::compare::{BYTES_PER_POINT, Better, Comparison, Finding, Metric, POINTS_PER_CPU, interval_text};
use crate::report::format::{capital, seconds, short, times};
use crate::report::matrix;
use crate::report::series::{self, Counted};
use crate::result::{ResourceSample, RunResult};

const FULL: f64 = 1120.0;
const HALF: (f64, f64) = (550.0, 220.0);
const THIRD: (f64, f64) = (370.0, 220.0);
/// Ratio of single runs above which a value is marked as better or worse.
const MARKED_RATIO: f64 = 1.5;

/// Renders everything between the page's header and footer.
pub(super) fn sections(page: &mut Page, comparison: &Comparison) {
    header(page, comparison);
    ratios(page, comparison);
    by_kind(page, comparison);
    caveats(page, comparison);
    headline(page, comparison);
    over_time(page, comparison);
    distributions(page, comparison);
    resources(page, comparison);
    table(page, comparison);
    differences(page, comparison);
    runs(page, comparison);
}

fn header(page: &mut Page, comparison: &Comparison) {
    let first = comparison.sides[0].runs[0];
    page.raw("<header>\n").element("p class=\"eyebrow\"", &format!("Workload {} · {}", first.workload, first.started));
    let labels: Vec<&str> = comparison.sides.iter().map(|side| side.label.as_str()).collect();
    match labels.as_slice() {
        [one, other] => page.element("h1", &format!("{one} and {other}")),
        _ => page.element("h1", &format!("{} targets compared", labels.len())),
    };
    page.element("p", &matrix::work(first));
    let repeated = comparison.sides[0].runs.len() > 1;
    let turns = if repeated && comparison.interleaved { " The targets alternated." } else { "" };
    let machine = &first.machine;
    let machine_label = format!("{} × {}", machine.cpus, machine.cpu);
    page.element("p class=\"soft\"", &format!("Ratios are to {}, on {machine_label}.{turns}", labels[0]));
    let caveats = match (comparison.obstacles.len(), comparison.cautions.len()) {
        (0, 0) => None,
        (0, _) => Some(("warn", "comparable, with cautions: see below")),
        _ => Some(("bad", "different durability or work on some sides: see below")),
    };
    page.raw("<div class=\"badges\">");
    if let Some((class, text)) = caveats {
        page.raw("<span class=\"badge ").raw(class).raw("\">").text(text).raw("</span>");
    }
    page.raw("</div>\n</header>\n");
}

/// Renders obstacles, caveats and how each side was run.
fn caveats(page: &mut Page, comparison: &Comparison) {
    page.element("h2", "What is compared");
    page.facts(
        comparison.sides.iter().enumerate().map(|(number, side)| (side.label.as_str(), comparison.description(number))),
    );
    banner(page, "bad", "Not comparable.", &comparison.obstacles);
    banner(page, "", "Caveats.", &comparison.cautions);
}

/// Row of a metric: the base's value, then value and ratio of each other side.
fn ratio_row(title: &str, metric: &Metric, sides: &[usize]) -> Row {
    let mut cells = vec![name(title)];
    for side in sides {
        let value = metric.text(metric.mean(*side));
        let ratio = match (*side, metric.mean(*side), metric.mean(0)) {
            (0, ..) => None,
            (_, Some(value), Some(base)) if base > 0.0 => Some(value / base),
            _ => None,
        };
        let class = match (metric.finding(*side), ratio, metric.better) {
            (Finding::Better, ..) => "better",
            (Finding::Worse, ..) => "worse",
            (Finding::Same, ..) | (_, None, _) => "",
            // A single run has no confidence interval: only large differences are marked.
            (Finding::Unknown, Some(ratio), Better::Higher) if ratio > MARKED_RATIO => "better",
            (Finding::Unknown, Some(ratio), Better::Higher) if ratio < 1.0 / MARKED_RATIO => "worse",
            (Finding::Unknown, Some(ratio), Better::Lower) if ratio < 1.0 / MARKED_RATIO => "better",
            (Finding::Unknown, Some(ratio), Better::Lower) if ratio > MARKED_RATIO => "worse",
            (Finding::Unknown, ..) => "",
        };
        let text = ratio.map_or_else(|| value.clone(), |ratio| format!("{}  ({value})", times(ratio)));
        cells.push(Cell { class, text });
    }
    Row::new(cells)
}

/// Table of ratios of the headline metrics.
fn ratios(page: &mut Page, comparison: &Comparison) {
    page.element("h2", "Ratios");
    let metrics = headline_metrics(comparison);
    let sides: Vec<usize> = (0..comparison.sides.len()).collect();
    let columns = columns_of(comparison, "Figure", &sides);
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let row = |metric: &&Metric| {
        let better = if metric.better == Better::Higher { "more is better" } else { "less is better" };
        ratio_row(&format!("{} ({better})", capital(&metric.name)), metric, &sides)
    };
    page.table("full", &columns, metrics.iter().map(row));
}

fn columns_of(comparison: &Comparison, first: &str, sides: &[usize]) -> Vec<String> {
    let labels = sides.iter().map(|side| format!("#{}", comparison.sides[*side].label));
    std::iter::once(first.to_owned()).chain(labels).collect()
}

fn headline_metrics<'a>(comparison: &'a Comparison) -> Vec<&'a Metric> {
    let writes = comparison.metrics.iter().find(|metric| metric.name.ends_with(": points/s"));
    let metrics = [
        comparison.metric(POINTS_PER_CPU),
        comparison.metric(BYTES_PER_POINT),
        writes,
        comparison.metric("server memory, most"),
    ];
    metrics.into_iter().flatten().collect()
}

fn banner(page: &mut Page, class: &str, title: &str, texts: &[String]) {
    if texts.is_empty() {
        return;
    }
    page.raw("<div class=\"banner ").raw(class).raw("\">").element("strong", title).raw("<ul>");
    for text in texts {
        page.element("li", text);
    }
    page.raw("</ul></div>\n");
}

// ---- bars ----

fn headline(page: &mut Page, comparison: &Comparison) {
    page.element("h2", "Figures").raw("<div class=\"two\">\n");
    for metric in headline_metrics(comparison) {
        let title = if metric.better == Better::Higher { "more is better" } else { "less is better" };
        let group = |(number, side): (usize, &crate::report::compare::Side)| Group {
            label: side.label.clone(),
            bars: vec![bar(metric, number)],
        };
        let bars = Bars {
            title: format!("{} ({title})", capital(&metric.name)),
            width: HALF.0,
            unit: metric.unit,
            names: Vec::new(),
            groups: comparison.sides.iter().enumerate().map(group).collect(),
        };
        page.bars(&bars);
    }
    page.raw("</div>\n");
}

fn bar(metric: &Metric, side: usize) -> Option<Bar> {
    let value = metric.mean(side)?;
    let estimate = metric.estimate(side);
    let base = metric.mean(0);
    let interval = estimate.and_then(|estimate| estimate.interval).zip(base);
    Some(Bar {
        value,
        color: side,
        remark: estimate.map_or_else(String::new, |estimate| times(estimate.ratio)),
        interval: interval.map(|((low, high), base)| (low * base, high * base)),
    })
}

fn by_kind(page: &mut Page, comparison: &Comparison) {
    for (percentile, title) in
        [("p50", "Median latency by kind of operation"), ("p99", "99th percentile by kind of operation")]
    {
        let suffix = format!(": {percentile}");
        let metrics: Vec<&Metric> = comparison
            .metrics
            .iter()
            .filter(|metric| metric.name.ends_with(&suffix) && !metric.name.starts_with("write to"))
            .collect();
        if metrics.is_empty() {
            continue;
        }
        // Leave out sides without any of these metrics.
        let has = |side: &usize| metrics.iter().any(|metric| metric.mean(*side).is_some());
        let sides: Vec<usize> = (0..comparison.sides.len()).filter(has).collect();
        page.element("h3", &format!("{title} (less is better)"));
        let columns = columns_of(comparison, "Operation", &sides);
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let row = |metric: &&Metric| ratio_row(metric.name.trim_end_matches(&suffix), metric, &sides);
        page.table("full", &columns, metrics.iter().map(row));
    }
}

// ---- lines ----

/// First runs of the sides whose figures may be shown, with side number and label.
fn runs_with_figures<'a>(comparison: &'a Comparison) -> impl Iterator<Item = (usize, &'a str, &'a RunResult)> {
    let sides = comparison.sides.iter().enumerate();
    sides.filter_map(|(number, side)| {
        let run = side.runs.iter().find(|run| matrix::throughput_shown(run))?;
        Some((number, side.label.as_str(), *run))
    })
}

fn lines<'a>(comparison: &'a Comparison, line: impl Fn(&'a RunResult, &str, usize) -> Line) -> Vec<Line> {
    let lines = runs_with_figures(comparison).map(|(number, label, run)| line(run, label, number));
    lines.filter(|line| series::greatest(line) > 0.0).collect()
}

fn timeline(comparison: &Comparison, title: &str, unit: Unit, size: (f64, f64), lines: Vec<Line>) -> Chart {
    let length_s = runs_with_figures(comparison).map(|(_, _, run)| series::length_s(run)).fold(1.0, f64::max);
    Chart {
        title: title.to_owned(),
        size,
        x: Axis::new("time since the start", Unit::Seconds, Scale::Linear).over(0.0, length_s),
        y: Axis::new(title, unit, fitting_scale(&lines)),
        lines,
        shades: Vec::new(),
    }
}

fn over_time(page: &mut Page, comparison: &Comparison) {
    let lines = lines(comparison, |run, label, number| series::rate(run, 0, Counted::Points, label, number));
    if lines.is_empty() {
        return;
    }
    page.element("h2", "Over time").element("p class=\"soft small\"", "The first run of each.");
    let mut chart = timeline(comparison, "Points written per second", Unit::PerSecond, (FULL, 300.0), lines);
    let ends = chart.lines.iter().flat_map(|line| line.points.iter().map(|point| point.x));
    chart.x.range = Some((0.0, ends.fold(1.0, f64::max).ceil()));
    page.chart(&chart);
}

fn distributions(page: &mut Page, comparison: &Comparison) {
    let mut names: Vec<&str> = Vec::new();
    for kind in runs_with_figures(comparison).flat_map(|(_, _, run)| series::kinds(run)) {
        if !names.contains(&kind) {
            names.push(kind);
        }
    }
    let mut charts = Vec::new();
    for kind in names {
        let line = |(number, label, run): (usize, &str, &RunResult)| {
            let at = series::kinds(run).iter().position(|name| *name == kind)?;
            series::distribution(run, at, label, number)
        };
        let lines: Vec<Line> = runs_with_figures(comparison).filter_map(line).collect();
        if !lines.is_empty() {
            charts.push(run::distribution_chart(kind, THIRD, lines));
        }
    }
    if charts.is_empty() {
        return;
    }
    page.element("h2", "Distribution of latencies").raw("<div class=\"three\">\n");
    charts.iter().for_each(|chart| page.chart(chart));
    page.raw("</div>\n");
}

fn resources(page: &mut Page, comparison: &Comparison) {
    type Sample = ResourceSample;
    let count = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64);
    let charts = [
        (
            "Processors in use by the server",
            Unit::Number,
            lines(comparison, |run, label, number| {
                series::counter(run, label, number, |sample: &Sample| sample.server_cpu_s)
            }),
        ),
        (
            "Memory of the server",
            Unit::Bytes,
            lines(comparison, |run, label, number| {
                series::level(run, label, number, |sample: &Sample| count(sample.server_rss_bytes))
            }),
        ),
        (
            "Disk writes of the server",
            Unit::BytesPerSecond,
            lines(comparison, |run, label, number| {
                series::counter(run, label, number, |sample: &Sample| count(sample.server_written_bytes))
            }),
        ),
        (
            "Size of the data directories",
            Unit::Bytes,
            lines(comparison, |run, label, number| {
                series::level(run, label, number, |sample: &Sample| count(sample.data_bytes))
            }),
        ),
    ];
    if charts.iter().all(|(_, _, lines)| lines.is_empty()) {
        return;
    }
    page.element("h2", "Resources").raw("<div class=\"two\">\n");
    for (title, unit, lines) in charts {
        if !lines.is_empty() {
            let mut chart = timeline(comparison, title, unit, HALF, lines);
            chart.y.scale = Scale::Linear;
            page.chart(&chart);
        }
    }
    page.raw("</div>\n");
}

// ---- tables ----

fn table(page: &mut Page, comparison: &Comparison) {
    page.element("h2", "All figures");
    page.element(
        "p class=\"soft small\"",
        "Means over the runs of a side. Ratios to the first, with 95 % intervals where there are enough runs.",
    );
    let mut columns = vec!["Figure".to_owned(), format!("#{}", comparison.sides[0].label)];
    for side in &comparison.sides[1..] {
        columns.extend([format!("#{}", side.label), "#ratio".to_owned(), "#95 % interval".to_owned()]);
    }
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let line = |metric: &Metric| {
        let mut cells = vec![name(&metric.name), metric.text(metric.mean(0)).into()];
        for side in 1..comparison.sides.len() {
            let estimate = metric.estimate(side);
            let class = match metric.finding(side) {
                Finding::Better => "better",
                Finding::Worse => "worse",
                Finding::Same | Finding::Unknown => "",
            };
            cells.push(metric.text(metric.mean(side)).into());
            cells.push(Cell {
                class, text: estimate.map_or_else(|| "–".to_owned(), |estimate| times(estimate.ratio))
            });
            cells.push(interval_text(estimate).into());
        }
        Row::new(cells)
    };
    page.table("full", &columns, comparison.metrics.iter().map(line));
}

fn differences(page: &mut Page, comparison: &Comparison) {
    if comparison.differences.is_empty() {
        return;
    }
    page.element("h2", "Configuration that differs");
    let columns: Vec<&str> =
        std::iter::once("Key").chain(comparison.sides.iter().map(|side| side.label.as_str())).collect();
    let line = |(key, values): &(String, Vec<String>)| {
        Row::new(std::iter::once(name(key)).chain(values.iter().map(|value| Cell::from(value.as_str()))).collect())
    };
    page.table("full", &columns, comparison.differences.iter().map(line));
}

fn runs(page: &mut Page, comparison: &Comparison) {
    page.element("h2", "Runs");
    let mut rows = Vec::new();
    for side in &comparison.sides {
        rows.extend(side.runs.iter().map(|run| run_row(&side.label, run)));
    }
    page.table("full", &["Target", "started", "verdict", "#operations for", "#points/CPU-s", "#bytes/point"], rows);
    for side in &comparison.sides {
        let run = side.runs[0];
        // A run without rates is in none of the shared charts, so it gets its own.
        let common = matrix::throughput_shown(run);
        page.raw("<details class=\"run\"><summary>")
            .text(&format!("{}, run of {}", side.label, run.started))
            .raw("</summary>\n");
        run::header(page, run);
        run::sections(page, run, common);
        page.raw("</details>\n");
    }
}

fn run_row(label: &str, run: &RunResult) -> Row {
    let (class, verdict) = run::verdict(run);
    let server = run.server.as_ref().filter(|_| matrix::throughput_shown(run));
    let figure = |value: Option<f64>| value.filter(|value| *value > 0.0).map_or_else(|| "–".to_owned(), short);
    Row {
        class: if class == "bad" { "bad" } else { "" },
        cells: vec![
            name(label),
            run.started.as_str().into(),
            verdict.into(),
            seconds(matrix::elapsed_s(run)).into(),
            figure(server.map(|server| server.points_per_cpu_s)).into(),
            figure(server.map(|server| server.bytes_per_point)).into(),
        ],
    }
}
