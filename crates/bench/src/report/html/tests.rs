//! Properties of the page of every run.

use std::time::Instant;

use super::*;
use crate::report::fixture;
use crate::result::RunResult;

fn page_of(run: RunResult) -> String {
    page(&Report::new(vec![run])).unwrap()
}

/// Saves a page for inspection: `REPORT_SAMPLES=DIR cargo test -p bench html`.
fn save_sample(name: &str, html: &str) {
    if let Some(directory) = std::env::var_os("REPORT_SAMPLES") {
        std::fs::write(Path::new(&directory).join(name), html).unwrap();
    }
}

/// Names of elements in document order; checks that each is closed properly.
fn elements(html: &str) -> Vec<String> {
    const VOID: [&str; 3] = ["meta", "input", "!DOCTYPE"];
    let (mut names, mut open) = (Vec::new(), Vec::new());
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let end = rest.find('>').expect("a tag ends");
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "closes what is not open, before {:.80}", rest);
            continue;
        }
        let name = tag.split([' ', '/']).next().unwrap().to_owned();
        names.push(name.clone());
        if name == "style" || name == "script" {
            rest = &rest[rest.find(&format!("</{name}>")).expect("a block ends") + name.len() + 3..];
        } else if !tag.ends_with('/') && !VOID.contains(&name.as_str()) {
            open.push(name);
        }
    }
    assert_eq!(open, Vec::<String>::new(), "left open");
    names
}

#[test]
fn a_page_is_well_formed_and_has_every_section() {
    let html = page_of(fixture::run("millrace", 1.0));
    save_sample("run.html", &html);
    let names = elements(&html);
    assert!(names.iter().filter(|name| *name == "svg").count() >= 8, "charts");
    for section in [
        "Results",
        "Over time",
        "Distribution of latencies",
        "Resources",
        "Phases",
        "Verification",
        "Failures",
        "Notes",
        "Statements",
        "Configuration",
        "How it was measured",
    ] {
        assert!(html.contains(&format!("<h2>{section}</h2>")), "{section}");
    }
    for said in
        ["5.84 M", "acknowledged after fsync", "client-bound: no", "REMARK=it&#39;\\&#39;&#39;s a test", "6,929,500<"]
    {
        assert!(html.contains(said), "{said}");
    }
}

#[test]
fn every_series_of_a_legend_can_be_hidden_without_a_script() {
    let html = page_of(fixture::run("millrace", 1.0));
    let boxes = html.matches("<input type=\"checkbox\" checked class=\"t").count();
    assert!(boxes > 20, "{boxes}");
    for series in 0..12 {
        assert!(html.contains(&format!("class=\"t{series}\"")) && html.contains(&format!("s s{series} ")), "{series}");
        assert!(html.contains(&format!(".t{series}:not(:checked)~svg .s{series}{{display:none}}")), "{series}");
    }
    // The style sheet selects only siblings after the box.
    for figure in html.split("<figure").skip(1) {
        let drawing = figure.find("<svg").unwrap();
        assert!(figure.rfind("<input").is_none_or(|last| last < drawing), "a box behind its drawing");
    }
}

#[test]
fn a_kind_of_several_phases_has_a_row_for_each() {
    let mut run = fixture::run("millrace", 1.0);
    let mut again = run.phases[2].clone();
    run.phases[2].name = "TIME_RANGE x10".to_owned();
    again.name = "TIME_RANGE x100".to_owned();
    run.phases.push(again);
    let html = page_of(run);
    let rows = |name: &str| html.matches(&format!("<td class=\"k\">{name}</td>")).count();
    // The two matrices and the phases; for a kind also the verification and the statements.
    assert_eq!([rows("TIME_RANGE x10"), rows("TIME_RANGE x100"), rows("VALUE_RANGE")], [3, 3, 5]);
}

#[test]
fn a_page_loads_nothing() {
    for run in [fixture::run("millrace", 1.0), fixture::hostile()] {
        let html = page_of(run);
        let markup = html.replace("http://www.w3.org/2000/svg", "");
        for name in ["link", "img", "iframe", "object", "embed", "base", "form", "image", "use"] {
            assert!(!elements(&html).contains(&name.to_owned()), "{name}");
        }
        for word in [" src=\"", " href=\"http", "url(", "@import", "fetch(", "http://", "https://"] {
            assert!(!markup.contains(word), "{word}");
        }
        assert!(html.contains("default-src 'none'"));
    }
}

#[test]
fn hostile_texts_are_escaped() {
    let html = page_of(fixture::hostile());
    save_sample("hostile.html", &html);
    let plain = page_of(fixture::run("millrace", 1.0));
    let scripts = |html: &str| elements(html).iter().filter(|name| *name == "script").count();
    assert_eq!(scripts(&html), scripts(&plain));
    assert!(!html.contains("<script>alert") && !html.contains("<img"), "markup from outside");
    assert!(html.contains("&lt;script&gt;alert(1)"), "but it can be read");
}

#[test]
fn a_failed_run_shows_findings_and_no_figures() {
    let run = fixture::failed();
    let rates: Vec<String> = [run.phases[0].operations[0].throughput, run.server.as_ref().unwrap().points_per_cpu_s]
        .iter()
        .map(|rate| crate::report::format::short(*rate))
        .collect();
    let html = page_of(run);
    save_sample("failed.html", &html);
    elements(&html);
    assert!(html.contains("This run failed its verification.") && html.contains("d_17: count 29700"), "findings");
    assert!(rates.iter().all(|rate| !html.contains(rate.as_str())), "{rates:?}");
    for section in ["Latency matrix", "Over time", "Distribution", "CPU-second"] {
        assert!(!html.contains(section), "{section}");
    }
}

#[test]
fn an_untested_driver_is_announced_first() {
    let mut run = fixture::run("millrace", 1.0);
    run.target.proof = crate::drivers::Proof::Documents.text();
    let html = page_of(run);
    let said = html.find("<strong>Never run against the product.</strong>").expect("a banner");
    assert!(said < html.find("class=\"cards").unwrap(), "before the figures");
    assert!(html.contains("badge bad\">driver never run against the product"), "a badge");
}

#[test]
fn verdicts_differ() {
    let verdict = |change: &dyn Fn(&mut RunResult)| {
        let mut run = fixture::run("millrace", 1.0);
        change(&mut run);
        run::verdict(&run).1
    };
    assert_eq!(verdict(&|_| {}), "verified");
    assert_eq!(verdict(&|run| run.verification.on = false), "not verified");
    assert_eq!(verdict(&|run| run.stopped = Some("Ctrl-C".to_owned())), "stopped early");
    assert_eq!(verdict(&|run| run.verification.passed = false), "failed verification");
    assert_eq!(verdict(&|run| run.phases[2].operations[2].failed = 1200), "verified, 1,200 operations failed");
    // Operations that the target does not support are listed among the failures, but do not change
    // the verdict.
    let unsupported = crate::result::Failure { class: "unsupported".to_owned(), count: 60, ..Default::default() };
    assert_eq!(verdict(&|run| run.failures = vec![unsupported.clone()]), "verified");
}

#[test]
fn a_run_of_nothing_has_a_page() {
    let html = page_of(RunResult { format: crate::result::RESULT_FORMAT, ..RunResult::default() });
    elements(&html);
    assert!(html.contains("cannot be inspected"), "why there are no figures");
}

#[test]
fn an_hour_of_thirteen_kinds_stays_small() {
    let run = fixture::hour();
    assert_eq!(run.seconds.len(), 13 * 3600);
    let began = Instant::now();
    let html = page_of(run);
    let took = began.elapsed();
    save_sample("hour.html", &html);
    println!("an hour, 13 kinds: {} KiB in {took:?}", html.len() / 1024);
    assert!(html.len() < 3 << 20, "{}", html.len());
    elements(&html);
}

#[test]
fn several_runs_are_compared() {
    let mut runs = Vec::new();
    for round in 0..5 {
        for (second, (target, speed)) in [("millrace", 1.0), ("questdb", 0.4)].into_iter().enumerate() {
            let mut run = fixture::run(target, speed * (1.0 + 0.02 * f64::from(round % 3)));
            run.started = format!("2026-11-21T14:{round:02}:{second:02}+01:00");
            runs.push(run);
        }
    }
    let html = page(&Report::new(runs)).unwrap();
    save_sample("comparison.html", &html);
    elements(&html);
    for said in [
        "Millrace 0.0.0 and QuestDB 9.3.4",
        "<h2>Ratios</h2>",
        "×  (",
        "Not comparable.",
        "Points per server-CPU-second (more is better)",
        "worse\">",
        "The targets alternated.",
        "<details class=\"run\">",
    ] {
        assert!(html.contains(said), "{said}");
    }
    assert_eq!(html.matches("<details class=\"run\">").count(), 2, "the first run of each");
}

#[test]
fn a_comparison_with_a_failed_side_shows_nothing_of_it() {
    let html = page(&Report::new(vec![fixture::run("millrace", 1.0), fixture::failed()])).unwrap();
    let rate = crate::report::format::short(fixture::failed().phases[0].operations[0].throughput);
    assert!(html.contains("failed verification") && !html.contains(&rate), "{rate}");
    elements(&html);
}

#[test]
fn hostile_texts_are_escaped_in_a_comparison() {
    let html = page(&Report::new(vec![fixture::hostile(), fixture::run("millrace", 1.0)])).unwrap();
    elements(&html);
    assert!(!html.contains("<script>alert") && !html.contains("<img"), "markup from outside");
}

#[test]
fn axis_texts_have_one_scale_on_all_charts() {
    let html = page_of(fixture::run("millrace", 1.0));
    let drawings = html.matches("<svg").count();
    assert!(drawings > 5 && html.matches("<svg style=\"max-width:").count() == drawings, "a chart may be stretched");
}

#[test]
fn a_kind_of_two_seconds_is_not_drawn_over_time() {
    let mut run = fixture::run("millrace", 1.0);
    // The fixture has one kind that is queried for nine seconds.
    run.phases[1..].iter_mut().for_each(|phase| phase.elapsed_s = phase.elapsed_s.min(2.0));
    let began_s: Vec<f64> = run.phases.iter().map(|phase| phase.began_s).collect();
    run.seconds
        .retain(|second| second.kind == 0 || f64::from(second.at_s) < began_s[second.phase as usize].trunc() + 2.0);
    let title = |kind: &str| format!("<figcaption>{kind} (logarithmic axis)</figcaption>");
    let html = page_of(run.clone());
    assert!(!html.contains("Queries per second") && !html.contains(&title("AGG_VALUE")));
    assert!(html.contains(&title("INGESTION")));
    let html = page_of(fixture::run("millrace", 1.0));
    assert!(html.contains("Queries per second: AGG_VALUE") && html.contains(&title("AGG_VALUE")));
    // Many short phases of one kind are dots as well.
    for second in run.seconds.iter_mut().filter(|second| second.kind > 0) {
        second.kind = 1;
    }
    for phase in &mut run.phases[2..] {
        let asked = phase.operations.iter().position(|operation| operation.ok > 0).expect("a kind");
        phase.operations.swap(1, asked);
    }
    assert!(!page_of(run).contains("Queries per second"));
}

#[test]
fn a_busy_machine_is_announced_first_and_the_client_is_not_called_fast() {
    let mut run = fixture::run("millrace", 1.0);
    let cpus = f64::from(run.machine.cpus);
    for sample in &mut run.resources {
        sample.host_cpu_s = sample.at_s * cpus;
        sample.server_cpu_s = Some(sample.at_s * cpus * 0.3);
        sample.client_cpu_s = sample.at_s * cpus * 0.1;
    }
    let html = page_of(run);
    let said = html.find("<strong>This machine was busy</strong>\n<p>Other programs used 1.2 of 2").expect("a banner");
    assert!(said < html.find("class=\"cards").unwrap());
    assert!(html.contains("machine busy: 60 % used by other programs") && !html.contains("good\">client-bound"));
    assert!(!page_of(fixture::run("millrace", 1.0)).contains("machine busy"));
}

#[test]
fn a_page_has_no_column_of_zeros_and_no_empty_note() {
    let html = page_of(fixture::run("millrace", 1.0));
    assert!(!html.contains("okOperation") && !html.contains("failOperation"));
    let mut failing = fixture::run("millrace", 1.0);
    failing.phases[2].operations[2].failed = 3;
    assert!(page_of(failing).contains("failed operations"));
}
