//! Tests of sides, ratios and the obstacles listed before them.

use super::*;
use crate::report::fixture;

/// `repeats` alternating runs of two targets; the second has 40 % of the first's speed.
fn rounds(repeats: u32) -> Vec<RunResult> {
    let mut runs = Vec::new();
    for round in 0..repeats {
        let noise = 1.0 + 0.02 * f64::from(round % 3);
        for (second, (target, speed)) in [("millrace", 1.0), ("questdb", 0.4)].into_iter().enumerate() {
            let mut run = fixture::run(target, speed * noise);
            run.started = format!("2026-11-21T14:{:02}:{second:02}+01:00", round);
            run.target.durable = true;
            run.target.durability = "after fsync".to_owned();
            runs.push(run);
        }
    }
    runs
}

fn source(runs: Vec<RunResult>) -> Vec<Source> {
    vec![Source { name: "a.json".to_owned(), runs }]
}

#[test]
fn runs_are_grouped_by_target_and_repeats_counted() {
    let sources = source(rounds(5));
    let comparison = Comparison::new(sides(&sources)).unwrap();
    let labels: Vec<(&str, usize)> =
        comparison.sides.iter().map(|side| (side.label.as_str(), side.runs.len())).collect();
    assert_eq!(labels, [("Millrace 0.0.0", 5), ("QuestDB 9.3.4", 5)]);
    assert!(
        comparison.interleaved && comparison.obstacles.is_empty() && comparison.cautions.is_empty(),
        "{comparison:?}"
    );
}

#[test]
fn ratios_have_intervals_and_a_direction() {
    let sources = source(rounds(5));
    let comparison = Comparison::new(sides(&sources)).unwrap();
    let rate = comparison.metric("INGESTION: points/s").unwrap();
    let estimate = rate.estimate(1).unwrap();
    let (low, high) = estimate.interval.unwrap();
    assert!((estimate.ratio - 0.4).abs() < 0.01 && low > 0.38 && high < 0.42, "{estimate:?}");
    assert_eq!(rate.finding(1), Finding::Worse);
    assert_eq!(comparison.metric("TIME_RANGE: p50").unwrap().finding(1), Finding::Worse);
    assert!(comparison.metric("TIME_RANGE: p50").unwrap().estimate(1).unwrap().ratio > 2.0);
    // Both fixtures have the same value.
    assert_eq!(comparison.metric("server memory, most").unwrap().finding(1), Finding::Same);
    assert_eq!(comparison.metrics[0].name, POINTS_PER_CPU);
    assert_eq!(comparison.metrics[1].name, BYTES_PER_POINT);
}

#[test]
fn the_text_names_the_sides_and_aligns_columns() {
    let sources = source(rounds(5));
    let text = Comparison::new(sides(&sources)).unwrap().text();
    assert!(text.starts_with("base    Millrace 0.0.0: 5 runs, COPY BINARY"), "{text}");
    assert!(text.contains("comparable: the same work"), "{text}");
    let rows: Vec<&str> = text.lines().filter(|line| line.contains(" … ")).collect();
    assert!(rows.len() > 40, "{text}");
    let ends = |line: &&str| line.find("worse").or(line.find("better"));
    let places: Vec<usize> = rows.iter().filter_map(ends).collect();
    assert!(places.windows(2).all(|pair| pair[0].abs_diff(pair[1]) <= 1), "{text}");
}

#[test]
fn another_seed_workload_durability_or_machine_is_an_obstacle() {
    type Change = fn(&mut RunResult);
    let cases: [(Change, &str); 5] = [
        (
            |run| {
                run.configuration
                    .iter_mut()
                    .filter(|(key, _)| key == "DATA_SEED")
                    .for_each(|(_, value)| *value = "7".into())
            },
            "DATA_SEED",
        ),
        (|run| run.workload = "tsbs".into(), "another workload"),
        (|run| run.target.durable = false, "different durability"),
        (|run| run.machine.cpus = 64, "another machine"),
        (|run| run.verification.passed = false, "failed verification"),
    ];
    for (change, said) in cases {
        let mut runs = rounds(3);
        runs.iter_mut().filter(|run| run.target.name == "questdb").for_each(change);
        let sources = source(runs);
        let comparison = Comparison::new(sides(&sources)).unwrap();
        assert!(
            comparison.obstacles.iter().any(|obstacle| obstacle.contains(said)),
            "{said}: {:?}",
            comparison.obstacles
        );
        let text = comparison.text();
        assert!(text.find("NOT COMPARABLE").unwrap() < text.find(POINTS_PER_CPU).unwrap_or(usize::MAX), "{text}");
    }
}

#[test]
fn a_side_on_a_busy_machine_gets_a_caution_and_ratios_are_factors() {
    let mut runs = rounds(3);
    for sample in runs.iter_mut().filter(|run| run.target.name == "questdb").flat_map(|run| &mut run.resources) {
        sample.host_cpu_s += sample.at_s;
    }
    let sources = source(runs);
    let comparison = Comparison::new(sides(&sources)).unwrap();
    let cautions = comparison.cautions.join("; ");
    assert!(cautions.contains("QuestDB 9.3.4: the machine was busy: other programs used up to 5"), "{cautions}");
    assert!(
        cautions.contains("of it (3 of 3 runs)") && !cautions.contains("Millrace 0.0.0: the machine"),
        "{cautions}"
    );
    let text = comparison.text();
    assert!(text.contains("0.40×") && text.lines().any(|line| line.contains(" … ") && line.contains('×')), "{text}");
}

#[test]
fn addresses_and_output_names_are_not_obstacles() {
    let mut runs = rounds(3);
    for run in runs.iter_mut().filter(|run| run.target.name == "questdb") {
        for (key, value) in &mut run.configuration {
            if ["HOST", "PORT", "REMARK", "DB_SWITCH"].contains(&key.as_str()) {
                *value = "other".to_owned();
            }
        }
    }
    let sources = source(runs);
    let comparison = Comparison::new(sides(&sources)).unwrap();
    assert!(comparison.obstacles.is_empty(), "{:?}", comparison.obstacles);
    let keys: Vec<&str> = comparison.differences.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["DB_SWITCH", "HOST", "PORT", "REMARK"]);
}

#[test]
fn a_run_that_failed_verification_gives_no_figures() {
    let mut runs = rounds(3);
    runs.iter_mut().filter(|run| run.target.name == "questdb").for_each(|run| run.verification.passed = false);
    let sources = source(runs);
    let comparison = Comparison::new(sides(&sources)).unwrap();
    assert!(comparison.metrics.iter().all(|metric| metric.values[1].is_empty() && metric.estimate(1).is_none()));
}

#[test]
fn two_builds_of_one_product_are_labelled_with_their_files() {
    let mut sources = source(vec![fixture::run("millrace", 1.0)]);
    sources.push(Source { name: "b.json".to_owned(), runs: vec![fixture::run("millrace", 1.2)] });
    let sides = sides(&sources);
    let labels: Vec<&str> = sides.iter().map(|side| side.label.as_str()).collect();
    assert_eq!(labels, ["Millrace 0.0.0 (a.json)", "Millrace 0.0.0 (b.json)"]);
    let comparison = Comparison::new(sides).unwrap();
    assert!(comparison.cautions.iter().any(|caution| caution.contains("at least 3 runs")), "{:?}", comparison.cautions);
    assert_eq!(comparison.metrics[0].finding(1), Finding::Unknown);
}

#[test]
fn different_settings_of_a_product_are_different_sides() {
    let mut other = fixture::run("millrace", 1.0);
    other
        .configuration
        .iter_mut()
        .filter(|(key, _)| key == "COMPRESSION")
        .for_each(|(_, value)| *value = "PAGE".into());
    let mut third = fixture::run("millrace", 1.0);
    third.target.write_path = "line protocol".to_owned();
    let sources = source(vec![fixture::run("millrace", 1.0), other, third, fixture::run("millrace", 1.0)]);
    let sides = sides(&sources);
    let labels: Vec<(&str, usize)> = sides.iter().map(|side| (side.label.as_str(), side.runs.len())).collect();
    assert_eq!(
        labels,
        [
            ("Millrace 0.0.0 (COPY BINARY, one statement a request) (1)", 2),
            ("Millrace 0.0.0 (COPY BINARY, one statement a request) (2)", 1),
            ("Millrace 0.0.0 (line protocol)", 1)
        ]
    );
}

#[test]
fn runs_that_did_not_alternate_are_not_paired() {
    let mut runs = rounds(5);
    runs.sort_by_key(|run| run.target.name.clone());
    for (minute, run) in runs.iter_mut().enumerate() {
        run.started = format!("2026-11-21T14:{minute:02}:00+01:00");
    }
    let sources = source(runs);
    let comparison = Comparison::new(sides(&sources)).unwrap();
    assert!(!comparison.interleaved);
    assert!(comparison.cautions.iter().any(|caution| caution.contains("alternate")), "{:?}", comparison.cautions);
}

#[test]
fn files_with_commas_are_repeats() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    for name in ["1.json", "2.json", "3.json"] {
        Report::new(vec![fixture::run("millrace", 1.0)]).write(Path::new(&path(name))).unwrap();
    }
    let sources = read(&[format!("{},{}", path("1.json"), path("2.json")), path("3.json")]).unwrap();
    assert_eq!(sides(&sources).iter().map(|side| side.runs.len()).collect::<Vec<_>>(), [2, 1]);
    assert!(read(&[path("4.json")]).unwrap_err().to_string().contains("4.json: cannot be read"));
}

#[test]
fn a_run_that_did_not_start_is_an_obstacle() {
    let stopped = Some("no server at 127.0.0.1:9000".to_owned());
    let none = RunResult { workload: "iot".to_owned(), stopped, ..RunResult::default() };
    let sources = source(vec![fixture::run("millrace", 1.0), none]);
    let comparison = Comparison::new(sides(&sources)).unwrap();
    assert!(
        comparison.obstacles.iter().any(|obstacle| obstacle.contains("no server at")),
        "{:?}",
        comparison.obstacles
    );
    assert_eq!(comparison.description(1), "1 run");
}

#[test]
fn a_metric_that_the_base_lacks_is_grouped_with_its_kind() {
    let mut base = fixture::run("millrace", 1.0);
    for phase in &mut base.phases {
        phase.operations[5].ok = 0;
    }
    let sources = source(vec![base, fixture::run("questdb", 1.0)]);
    let comparison = Comparison::new(sides(&sources)).unwrap();
    let index_of = |name: &str| comparison.metrics.iter().position(|metric| metric.name == name).unwrap();
    assert!(
        index_of("AGG_RANGE: p50") < index_of("AGG_VALUE: p50")
            && index_of("AGG_VALUE: p50") < index_of("AGG_RANGE_VALUE: p50")
    );
    assert_eq!(comparison.metric("AGG_VALUE: p50").unwrap().mean(0), None);
}

#[test]
fn a_comparison_without_sides_is_refused() {
    assert!(Comparison::new(Vec::new()).is_err());
}
