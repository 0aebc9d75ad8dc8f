//! The sections of one run.

use super::{Cell, Page, Row, name};
use crate::report::busy;
use crate::report::charts::{Axis, Chart, Line, Scale, Unit, fitting_scale};
use crate::report::format::{bytes, capital, digits, milliseconds, percent, quoted, seconds, short, whole};
use crate::report::matrix::{self, LATENCY_COLUMNS};
use crate::report::series::{self, Counted, KindResult, of_kind};
use crate::result::{Latency, OperationResult, PhaseResult, ResourceSample, RunResult, ServerResult};

/// Prefix of [`crate::result::TargetResult::proof`] for a driver that was never tested against its
/// product.
const NEVER_RUN: &str = "never run against the product";
const FULL: (f64, f64) = (1120.0, 300.0);
const HALF: (f64, f64) = (550.0, 220.0);
const THIRD: (f64, f64) = (370.0, 200.0);
/// Minimum length in seconds of a series that is charted over time; shorter ones appear in the
/// matrices and the distribution only.
const POINTS_WORTH_A_CHART: usize = 5;
/// Rate in bytes a second below which a network or disk counts as idle.
const IDLE_BYTES_PER_S: f64 = 10_240.0;

/// Renders the header: workload, target, date, verdict, and warnings before the first figure.
pub(super) fn header(page: &mut Page, run: &RunResult) {
    let target = &run.target;
    page.raw("<header>\n");
    page.element("p class=\"eyebrow\"", &format!("Workload {} · {} · {}", run.workload, run.started, run.tool));
    page.element("h1", format!("{} {}", target.product, target.version).trim());
    page.element("p", &matrix::work(run));
    let machine = &run.machine;
    let machine_label = format!("{} × {}, {}", machine.cpus, machine.cpu, bytes(machine.memory_bytes as f64));
    page.element("p class=\"soft\"", &format!("Written by {}, on {machine_label}", target.write_path));
    page.raw("<div class=\"badges\">");
    for (class, text) in badges(run) {
        page.raw("<span class=\"badge ").raw(class).raw("\">").text(&text).raw("</span>");
    }
    page.raw("</div>\n");
    banners(page, run);
    page.raw("</header>\n");
}

fn badges(run: &RunResult) -> Vec<(&'static str, String)> {
    let target = &run.target;
    let mut badges = vec![verdict(run)];
    badges.push((if target.durable { "good" } else { "warn" }, format!("acknowledged {}", target.durability)));
    badges.push((if target.proof.starts_with(NEVER_RUN) { "bad" } else { "" }, format!("driver {}", target.proof)));
    let open = run.phases.iter().filter(|phase| phase.rate > 0.0).count();
    badges.push(match open {
        0 => ("", "closed loop".to_owned()),
        all if all == run.phases.len() => ("", "open loop".to_owned()),
        _ => ("", "open and closed loop".to_owned()),
    });
    let bound = run.phases.iter().any(|phase| phase.client_bound);
    let busy = busy::share(run);
    badges.push(match (bound, busy) {
        (true, _) => ("bad", "client-bound: yes".to_owned()),
        (false, Some(_)) => ("", "client-bound: no".to_owned()),
        (false, None) => ("good", "client-bound: no".to_owned()),
    });
    if let Some(share) = busy {
        badges.push(("bad", format!("machine busy: {} used by other programs", percent(share))));
    }
    badges
}

/// Returns the CSS class and the text of the verdict.
pub(super) fn verdict(run: &RunResult) -> (&'static str, String) {
    let failed = series::failed(run);
    if !matrix::throughput_shown(run) {
        ("bad", "failed verification".to_owned())
    } else if run.stopped.is_some() {
        ("warn", "stopped early".to_owned())
    } else if !run.verification.on {
        ("warn", "not verified".to_owned())
    } else if failed > 0 {
        ("warn", format!("verified, {} operations failed", whole(failed)))
    } else {
        ("good", "verified".to_owned())
    }
}

fn banners(page: &mut Page, run: &RunResult) {
    let mut banner = |class: &str, title: &str, texts: &[&str]| {
        page.raw("<div class=\"banner ").raw(class).raw("\">").element("strong", title);
        texts.iter().for_each(|text| {
            page.element("p", text);
        });
        page.raw("</div>\n");
    };
    if !matrix::throughput_shown(run) {
        let mut texts = vec!["Rates and latencies are not shown: the target did not do the requested work."];
        texts.extend(run.verification.findings.iter().take(3).map(String::as_str));
        banner("bad", "This run failed its verification.", &texts);
    }
    if run.target.proof.starts_with(NEVER_RUN) {
        banner(
            "bad",
            "Never run against the product.",
            &["The driver has not been tested with the real product:", &run.target.proof],
        );
    }
    if let Some(warning) = busy::warning(run) {
        banner("", busy::TITLE, &[&capital(&warning)]);
    }
    if let Some(stopped) = &run.stopped {
        banner("", "Stopped before its end.", &[stopped]);
    }
    for phase in run.phases.iter().filter(|phase| phase.client_bound) {
        let title = format!("Client-bound in phase {}: this tool limits the figure, not the target.", phase.name);
        banner("bad", &title, &[&phase.client_bound_why]);
    }
}

/// Renders everything below the header. `common`: the page has charts shared by several runs.
pub(super) fn sections(page: &mut Page, run: &RunResult, common: bool) {
    cards(page, run);
    results(page, run);
    if matrix::throughput_shown(run) {
        over_time(page, run);
    }
    if !common {
        if matrix::throughput_shown(run) {
            distribution(page, run);
        }
        resources(page, run);
    }
    phases(page, run);
    verification(page, run);
    failures(page, run);
    notes(page, run);
    statements(page, run);
    configuration(page, run);
    reproduction(page, run);
}

// ---- headline figures ----

fn cards(page: &mut Page, run: &RunResult) {
    if matrix::throughput_shown(run) {
        page.raw("<div class=\"cards main\">\n");
        headline(page, run.server.as_ref());
        page.raw("</div>\n");
    }
    let figures = small_figures(run);
    // Split many cards into two rows of four, instead of leaving a single card in the last row.
    let class = if figures.len() > 6 { "cards halves" } else { "cards" };
    page.raw("<div class=\"").raw(class).raw("\">\n");
    for (name, value, more) in figures {
        card(page, name, &value, &more);
    }
    page.raw("</div>\n");
}

/// The two headline figures by which targets are compared.
fn headline(page: &mut Page, server: Option<&ServerResult>) {
    let Some(server) = server else {
        let unseen = "the server's processes and directories cannot be inspected from this machine";
        card(page, "Points per server-CPU-second", "–", unseen);
        card(page, "Settled bytes per point", "–", unseen);
        return;
    };
    let cpu = format!(
        "{} points in {} of server CPU, flushing included",
        short(server.points as f64),
        seconds(server.write_cpu_s)
    );
    let known = |number: f64, shown: bool| if shown && number.is_finite() { short(number) } else { "–".to_owned() };
    card(page, "Points per server-CPU-second", &known(server.points_per_cpu_s, server.write_cpu_s > 0.0), &cpu);
    let settled = if server.settled {
        format!(
            "{} on disk, at rest {} after the last write",
            bytes(server.settled_bytes as f64),
            seconds(server.settling_s)
        )
    } else {
        format!("{} on disk, not at rest after {}", bytes(server.settled_bytes as f64), seconds(server.settling_s))
    };
    card(page, "Settled bytes per point", &known(server.bytes_per_point, server.settled_bytes > 0), &settled);
}

fn small_figures(run: &RunResult) -> Vec<(&'static str, String, String)> {
    let mut figures = Vec::new();
    let writes: Vec<(&PhaseResult, &OperationResult)> = of_kind(run, 0).filter(|(_, writes)| writes.ok > 0).collect();
    if let ([(phase, writes)], true) = (writes.as_slice(), matrix::throughput_shown(run)) {
        let rate = format!("{} points in {}", short(writes.ok_points as f64), seconds(phase.elapsed_s));
        figures.push(("Writing", format!("{}/s", short(writes.throughput)), rate));
        let latency = &writes.latency_ms;
        let others = format!("p50 {}, max {}", milliseconds(latency.median), milliseconds(latency.max));
        figures.push(("Write p99", milliseconds(latency.p99), others));
        let disk = run.server.as_ref().and_then(|server| server.fsync_ms.as_ref()).map_or_else(
            || "the disk's own fsync was not measured".to_owned(),
            |fsync| format!("the disk's own fsync {}, max {}", milliseconds(fsync.p999), milliseconds(fsync.max)),
        );
        figures.push(("Write p99.9", milliseconds(latency.p999), disk));
    }
    if let Some(server) = &run.server {
        figures.push(("Server memory", bytes(server.rss_bytes_max as f64), "resident, at most".to_owned()));
        let factor = if server.settled_bytes > 0 {
            format!("{} times the settled size", short(server.written_bytes as f64 / server.settled_bytes as f64))
        } else {
            String::new()
        };
        figures.push(("Written to disks", bytes(server.written_bytes as f64), factor));
        if let Some(lag) = server.lag_ms.as_ref().filter(|_| matrix::throughput_shown(run)) {
            figures.push((
                "Write to first read",
                milliseconds(lag.median),
                format!("p50; p99 {}", milliseconds(lag.p99)),
            ));
        }
    }
    let failed = series::failed(run);
    let all: u64 =
        run.phases.iter().flat_map(|phase| &phase.operations).map(|operation| operation.ok + operation.failed).sum();
    // Without failed operations there is no card: the verdict and the section of failures say so.
    if failed > 0 {
        figures.push(("Failed operations", whole(failed), format!("of {}", whole(all))));
    }
    figures
}

fn card(page: &mut Page, name: &str, value: &str, more: &str) {
    page.raw("<div class=\"card\">");
    page.element("div class=\"name\"", name).element("div class=\"value\"", value).element("div class=\"more\"", more);
    page.raw("</div>\n");
}

// ---- the matrices ----

fn results(page: &mut Page, run: &RunResult) {
    page.element("h2", "Results").element("h3", "Result matrix");
    let shown = matrix::throughput_shown(run);
    let results = series::results(run);
    result_matrix(page, &results, shown);
    if shown {
        let paced = run.phases.iter().any(|phase| phase.rate > 0.0);
        let title = if paced { "Latency matrix, from the scheduled send time (ms)" } else { "Latency matrix (ms)" };
        page.element("h3", title);
        latency_matrix(page, &results, |operation| &operation.latency_ms);
        if paced {
            page.element("h3", "Service times, from the actual send time (ms)");
            latency_matrix(page, &results, |operation| &operation.service_ms);
        }
    }
    let elapsed =
        format!("Schema created in {}; {} of operations.", seconds(run.schema_s), seconds(matrix::elapsed_s(run)));
    page.element("p class=\"soft small\"", &elapsed);
    kind_notes(page, run);
}

fn result_matrix(page: &mut Page, results: &[KindResult], shown: bool) {
    // Show columns of failures only if something failed.
    let failed = results.iter().any(|result| result.operation.failed + result.operation.failed_points > 0);
    let mut columns = vec!["Operation", "#operations", "#points"];
    if failed {
        columns.extend(["#failed operations", "#failed points"]);
    }
    columns.extend(["#points/s", "#operations/s"]);
    let line = |result: &KindResult| {
        let operation = result.operation;
        let rate = |count: f64| if shown { digits(count) } else { "–".to_owned() };
        let per_s = if result.elapsed_s > 0.0 { operation.ok as f64 / result.elapsed_s } else { 0.0 };
        let mut counts = vec![operation.ok, operation.ok_points];
        if failed {
            counts.extend([operation.failed, operation.failed_points]);
        }
        let mut cells = vec![name(&result.name)];
        cells.extend(counts.into_iter().map(|count| Cell::from(whole(count))));
        cells.extend([operation.throughput, per_s].map(|count| Cell::from(rate(count))));
        Row { class: class_of(result), cells }
    };
    page.table("full", &columns, results.iter().map(line));
}

fn latency_matrix(page: &mut Page, results: &[KindResult], latency: fn(&OperationResult) -> &Latency) {
    const COLUMNS: [&str; LATENCY_COLUMNS.len()] = [
        "Operation",
        "#mean",
        "#min",
        "#p10",
        "#p25",
        "#p50",
        "#p75",
        "#p90",
        "#p95",
        "#p99",
        "#p99.9",
        "#max",
        "#slowest client",
    ];
    let line = |result: &KindResult| {
        let values = matrix::latency_values(latency(result.operation));
        let cells =
            std::iter::once(name(&result.name)).chain(values.iter().map(|(_, value)| Cell::from(digits(*value))));
        Row { class: class_of(result), cells: cells.collect() }
    };
    page.table("full", &COLUMNS, results.iter().map(line));
}

fn class_of(result: &KindResult) -> &'static str {
    if result.ran() { "" } else { "none" }
}

/// Lists the reason why a row is empty, or a remark about it.
fn kind_notes(page: &mut Page, run: &RunResult) {
    let mut said: Vec<(String, &str)> = Vec::new();
    for operation in run.phases.iter().flat_map(|phase| &phase.operations) {
        let Some(note) = operation.note.as_deref() else { continue };
        // A kind with its own phase has no operations in the others: leave out those notes.
        let elsewhere = run
            .phases
            .iter()
            .flat_map(|phase| &phase.operations)
            .any(|other| other.name == operation.name && other.ok + other.failed > 0);
        if operation.ok + operation.failed == 0 && elsewhere {
            continue;
        }
        match said.iter_mut().find(|(_, other)| *other == note) {
            Some((names, _)) if !names.split(", ").any(|name| name == operation.name) => {
                names.push_str(", ");
                names.push_str(&operation.name);
            }
            Some(_) => {}
            None => said.push((operation.name.clone(), note)),
        }
    }
    if !said.is_empty() {
        page.facts(said.iter().map(|(names, note)| (names.as_str(), (*note).to_owned())));
    }
}

// ---- charts ----

fn over_time(page: &mut Page, run: &RunResult) {
    let kinds = series::kinds(run);
    let active: Vec<usize> = (0..kinds.len()).filter(|kind| series::ran(run, *kind)).collect();
    if run.seconds.is_empty() || active.is_empty() {
        return;
    }
    page.element("h2", "Over time");
    bucket_note(page, run);
    if active.contains(&0) {
        let line = series::rate(run, 0, Counted::Points, "points", 0);
        let mut chart = timeline(run, "Points written per second", Unit::PerSecond, FULL, vec![line]);
        within_own_time(&mut chart);
        page.chart(&chart);
    }
    let queries = active.iter().filter(|kind| **kind > 0);
    let lines = queries.map(|kind| series::rate(run, *kind, Counted::Operations, kinds[*kind], *kind));
    // A kind that ran for a few seconds is a dot on this chart; the matrix shows it better.
    let lines: Vec<Line> = lines.filter(|line| line.longest_piece() >= POINTS_WORTH_A_CHART).collect();
    if !lines.is_empty() {
        // A chart with one line has no legend, so the title names the line.
        let title = match lines.as_slice() {
            [line] => format!("Queries per second: {}", line.name),
            _ => "Queries per second".to_owned(),
        };
        let mut chart = timeline(run, &title, Unit::PerSecond, FULL, lines);
        within_own_time(&mut chart);
        page.chart(&chart);
    }
    let long: Vec<(usize, Vec<Line>)> = active
        .into_iter()
        .map(|kind| (kind, series::latencies(run, kind)))
        .filter(|(_, lines)| lines.iter().any(|line| line.longest_piece() >= POINTS_WORTH_A_CHART))
        .collect();
    if long.is_empty() {
        return;
    }
    page.element("h3", "Latency over time").raw("<div class=\"three\">\n");
    for (kind, lines) in long {
        let mut chart = timeline(run, kinds[kind], Unit::Milliseconds, THIRD, lines);
        chart.y.scale = Scale::Log;
        within_own_time(&mut chart);
        page.chart(&chart);
    }
    page.raw("</div>\n");
}

/// A chart over the run's time, with its phases shaded.
fn timeline(run: &RunResult, title: &str, unit: Unit, size: (f64, f64), lines: Vec<Line>) -> Chart {
    Chart {
        title: title.to_owned(),
        size,
        x: Axis::new("time since the start", Unit::Seconds, Scale::Linear).over(0.0, series::length_s(run)),
        y: Axis::new(title, unit, fitting_scale(&lines)),
        lines,
        shades: series::shades(run),
    }
}

/// Restricts the x axis to the time in which the lines have points, so that a short phase of a long
/// run is readable.
fn within_own_time(chart: &mut Chart) {
    let xs = || chart.lines.iter().flat_map(|line| line.points.iter().map(|point| point.x));
    let (low, high) = (xs().fold(f64::MAX, f64::min), xs().fold(0.0, f64::max));
    let whole = chart.x.range.map_or(1.0, |range| range.1 - range.0);
    if high >= low && high - low < whole * 0.5 {
        let margin = ((high - low) * 0.05).max(0.5);
        chart.x.range = Some(((low - margin).max(0.0), high + margin));
        chart.shades.retain(|shade| shade.to > low && shade.from < high);
    }
}

fn bucket_note(page: &mut Page, run: &RunResult) {
    let width_s = series::bucket_s(series::length_s(run));
    if width_s > 1 {
        let note = format!(
            "Each point stands for {}. A rate is their mean, its band reaches from the slowest to the fastest second. \
             Medians and percentiles are means over seconds, weighted by operations; a maximum is the greatest.",
            seconds(f64::from(width_s))
        );
        page.element("p class=\"soft small\"", &note);
    }
}

fn distribution(page: &mut Page, run: &RunResult) {
    let kinds = series::kinds(run);
    let lines: Vec<Line> =
        (0..kinds.len()).filter_map(|kind| series::distribution(run, kind, kinds[kind], kind)).collect();
    if lines.is_empty() {
        return;
    }
    page.element("h2", "Distribution of latencies");
    page.element(
        "p class=\"soft small\"",
        "Share of operations that took no longer. Each step up the axis is another nine.",
    );
    page.chart(&distribution_chart("Latency by share of operations", (FULL.0, 380.0), lines));
}

/// Chart of latency by share of operations.
pub(super) fn distribution_chart(title: &str, size: (f64, f64), lines: Vec<Line>) -> Chart {
    let top = lines.iter().flat_map(|line| line.points.iter().map(|point| point.y)).fold(0.9, f64::max);
    Chart {
        title: title.to_owned(),
        size,
        x: Axis::new("latency", Unit::Milliseconds, Scale::Log),
        y: Axis::new("share of operations", Unit::Percent, Scale::Nines).over(0.0, top),
        lines,
        shades: Vec::new(),
    }
}

fn resources(page: &mut Page, run: &RunResult) {
    if run.resources.len() < 2 {
        return;
    }
    page.element("h2", "Resources");
    if run.resources.iter().all(|sample| sample.server_cpu_s.is_none()) {
        page.element(
            "p class=\"soft\"",
            "The server's processes cannot be inspected: it runs on another machine or as another user.",
        );
    }
    page.raw("<div class=\"two\">\n");
    for (title, unit, lines) in resource_lines(run) {
        let least = if unit == Unit::BytesPerSecond { IDLE_BYTES_PER_S } else { 0.0 };
        let lines: Vec<Line> = lines.into_iter().filter(|line| series::greatest(line) > least).collect();
        if !lines.is_empty() {
            let mut chart = timeline(run, title, unit, HALF, lines);
            chart.y.scale = Scale::Linear;
            page.chart(&chart);
        }
    }
    page.raw("</div>\n");
}

fn resource_lines(run: &RunResult) -> Vec<(&'static str, Unit, Vec<Line>)> {
    type Sample = ResourceSample;
    let count = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64);
    vec![
        (
            "Processors in use",
            Unit::Number,
            vec![
                series::counter(run, "server", 0, |sample: &Sample| sample.server_cpu_s),
                series::counter(run, "this tool", 1, |sample: &Sample| Some(sample.client_cpu_s)),
                series::counter(run, "whole host", 2, |sample: &Sample| Some(sample.host_cpu_s)),
            ],
        ),
        (
            "Memory",
            Unit::Bytes,
            vec![
                series::level(run, "server, resident", 0, |sample: &Sample| count(sample.server_rss_bytes)),
                series::level(run, "host, in use", 2, |sample: &Sample| Some(sample.host_memory_bytes as f64)),
            ],
        ),
        (
            "Disk reads and writes",
            Unit::BytesPerSecond,
            vec![
                series::counter(run, "server reads", 3, |sample: &Sample| count(sample.server_read_bytes)),
                series::counter(run, "server writes", 0, |sample: &Sample| count(sample.server_written_bytes)),
                series::counter(run, "host reads", 4, |sample: &Sample| Some(sample.host_read_bytes as f64)),
                series::counter(run, "host writes", 2, |sample: &Sample| Some(sample.host_written_bytes as f64)),
            ],
        ),
        (
            "Size of the data directories",
            Unit::Bytes,
            vec![series::level(run, "allocated", 0, |sample: &Sample| count(sample.data_bytes))],
        ),
        (
            "Network without loopback",
            Unit::BytesPerSecond,
            vec![
                series::counter(run, "received", 0, |sample: &Sample| Some(sample.host_received_bytes as f64)),
                series::counter(run, "sent", 1, |sample: &Sample| Some(sample.host_sent_bytes as f64)),
            ],
        ),
    ]
}

// ---- tables ----

fn phases(page: &mut Page, run: &RunResult) {
    page.element("h2", "Phases");
    let columns = [
        "Phase",
        "#began",
        "#elapsed",
        "#clients",
        "pace",
        "#operations",
        "#server CPU",
        "#each",
        "#client CPU",
        "client-bound",
    ];
    let line = |phase: &PhaseResult| {
        let operations: u64 = phase.operations.iter().map(|operation| operation.ok + operation.failed).sum();
        let pace =
            if phase.rate > 0.0 { format!("open loop, {}/s", short(phase.rate)) } else { "closed loop".to_owned() };
        let each = match phase.server_cpu_s {
            Some(cpu_s) if operations > 0 && matrix::throughput_shown(run) => {
                milliseconds(cpu_s * 1e3 / operations as f64)
            }
            _ => "–".to_owned(),
        };
        let bound = if phase.client_bound { "yes" } else { "no" };
        Row::new(vec![
            name(&phase.name),
            seconds(phase.began_s).into(),
            seconds(phase.elapsed_s).into(),
            whole(u64::from(phase.clients)).into(),
            Cell { class: "w", text: pace },
            whole(operations).into(),
            phase.server_cpu_s.map_or_else(|| "–".to_owned(), seconds).into(),
            each.into(),
            seconds(phase.client_cpu_s).into(),
            bound.into(),
        ])
    };
    page.table("full", &columns, run.phases.iter().map(line));
    let whys = run.phases.iter().filter(|phase| !phase.client_bound_why.is_empty());
    let whys: Vec<(&str, String)> = whys.map(|phase| (phase.name.as_str(), phase.client_bound_why.clone())).collect();
    if !whys.is_empty() {
        page.raw("<details><summary>Why client-bound or not</summary>\n").facts(whys);
        page.raw("</details>\n");
    }
}

fn verification(page: &mut Page, run: &RunResult) {
    let verification = &run.verification;
    page.element("h2", "Verification");
    if !verification.on {
        page.element("p", "Verification was off: neither answers nor stored data were checked.");
        return;
    }
    let verdict = if verification.passed {
        "Passed: answers and stored data agree with the generator."
    } else {
        "Failed: answers or stored data contradict the generator."
    };
    page.element("p", verdict);
    page.facts([
        ("Devices compared", whole(verification.devices)),
        ("Points expected", whole(verification.points_expected)),
        ("Points found", whole(verification.points_found)),
        ("Acknowledged and missing", whole(verification.lost)),
        ("Duplicated, or never sent", whole(verification.surplus)),
        ("Outcome unknown", whole(verification.points_unknown)),
        ("CPU of this tool for verification", seconds(verification.cpu_s)),
    ]);
    let columns = ["Kind", "#answers", "#checked", "#of them", "#wrong", "#undecided"];
    let line = |checked: &crate::result::Checked| {
        let share = if checked.answers > 0 {
            percent(checked.checked as f64 / checked.answers as f64)
        } else {
            "–".to_owned()
        };
        let counts =
            [whole(checked.answers), whole(checked.checked), share, whole(checked.wrong), whole(checked.undecided)];
        let cells = std::iter::once(name(&checked.name)).chain(counts.map(Cell::from)).collect();
        Row { class: if checked.wrong > 0 { "bad" } else { "" }, cells }
    };
    // Writes have no answers to check.
    let answered = || verification.answers.iter().filter(|checked| checked.answers > 0);
    if answered().next().is_some() {
        page.table("", &columns, answered().map(line));
    }
    if !verification.findings.is_empty() {
        page.element("h3", "Findings").element("pre", &verification.findings.join("\n"));
    }
}

fn failures(page: &mut Page, run: &RunResult) {
    page.element("h2", "Failures");
    if run.failures.is_empty() {
        page.element("p", "No operation failed.");
        return;
    }
    let line = |failure: &crate::result::Failure| {
        Row::new(vec![
            name(&failure.operation),
            failure.class.as_str().into(),
            whole(failure.count).into(),
            failure.first.as_str().into(),
        ])
    };
    page.table("full", &["Operation", "class", "#count", "first message"], run.failures.iter().map(line));
}

fn notes(page: &mut Page, run: &RunResult) {
    if run.notes.is_empty() {
        return;
    }
    page.element("h2", "Notes").raw("<ul>\n");
    for note in &run.notes {
        page.element("li", note);
    }
    page.raw("</ul>\n");
}

fn statements(page: &mut Page, run: &RunResult) {
    let mut seen: Vec<&str> = Vec::new();
    let mut examples: Vec<(&str, &str)> = Vec::new();
    for operation in run.phases.iter().flat_map(|phase| &phase.operations) {
        let Some(example) = operation.example.as_deref() else { continue };
        if !seen.contains(&operation.name.as_str()) {
            seen.push(&operation.name);
            examples.push((&operation.name, example));
        }
    }
    if examples.is_empty() {
        return;
    }
    page.element("h2", "Statements").raw("<details><summary>One of each kind, as sent</summary>\n");
    let line =
        |(kind, example): (&str, &str)| Row::new(vec![name(kind), Cell { class: "code", text: example.to_owned() }]);
    page.table("full", &["Kind", "statement"], examples.into_iter().map(line));
    page.raw("</details>\n");
}

fn configuration(page: &mut Page, run: &RunResult) {
    page.element("h2", "Configuration").raw("<details><summary>");
    page.text(&format!("{} keys", run.configuration.len())).raw("</summary>\n<div class=\"pairs\">\n");
    for (key, value) in &run.configuration {
        page.raw("<div><b>").text(key).raw("</b>=").text(value).raw("</div>\n");
    }
    page.raw("</div></details>\n");
}

fn reproduction(page: &mut Page, run: &RunResult) {
    let (machine, target) = (&run.machine, &run.target);
    page.element("h2", "How it was measured");
    page.facts([
        ("Machine", format!("{} × {}, {} of memory", machine.cpus, machine.cpu, bytes(machine.memory_bytes as f64))),
        ("Kernel", machine.kernel.clone()),
        ("Target", format!("{} ({} {})", target.url, target.product, target.version)),
        ("Write path", format!("{}: {}", target.write_path, target.why)),
        ("Acknowledged", target.durability.clone()),
        ("Driver", target.proof.clone()),
        ("Tool", run.tool.clone()),
        ("Started", run.started.clone()),
    ]);
    let command: Vec<String> = run.command.iter().map(|argument| quoted(argument)).collect();
    page.element("h3", "To repeat it").element("pre", &command.join(" "));
}
