//! Published numbers appear as printed; our figures appear next to them only if a run repeats the
//! work.

use super::*;
use crate::result::{Machine, ServerResult, TargetResult, Verification};

/// A verified run of the use case's configuration, with the settings in `changed`.
fn run_of_use_case(changed: &[(&str, &str)]) -> RunResult {
    let mut config =
        Config::from_text(iot_benchmark::USE_CASE.cases[0].configuration, "usecase").expect("a configuration");
    for (key, value) in changed {
        config.set(key, value, crate::config::Source::CommandLine).expect("a setting");
    }
    let writes = OperationResult {
        name: "INGESTION".to_owned(),
        ok: config.loop_ * 100,
        ok_points: config.loop_ * 300_000,
        throughput: 1_234_567.891,
        latency_ms: Latency { avg: 80.25, ..Latency::default() },
        ..OperationResult::default()
    };
    RunResult {
        workload: "iot".to_owned(),
        target: TargetResult { product: "Millrace".to_owned(), version: "1".to_owned(), ..TargetResult::default() },
        machine: Machine { cpus: 2, ..Machine::default() },
        configuration: config.entries().map(|(key, value)| (key.to_owned(), value)).collect(),
        phases: vec![PhaseResult {
            elapsed_s: 2_430.0,
            operations: vec![writes],
            server_cpu_s: Some(1_000.0),
            ..PhaseResult::default()
        }],
        server: Some(ServerResult { points_per_cpu_s: 2_500_000.0, settled_bytes: 5 << 30, ..ServerResult::default() }),
        verification: Verification { on: true, passed: true, ..Verification::default() },
        ..RunResult::default()
    }
}

/// Row of a figure in the first case of a page rendered from `runs`.
fn row(runs: &[RunResult], figure: &str) -> String {
    let reports = Reports { runs: runs.to_vec(), ..Reports::default() };
    let text = page(None, &reports).expect("a page");
    let from = text.find("### writes, IoTDB 0.13").expect("the use case");
    let mut rows = text[from..].lines().filter(|line| line.starts_with(&format!("| {figure} ")));
    rows.next().expect("a row").to_owned()
}

/// Lines that list measurements without a run, one for each source.
fn not_run(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.starts_with("Not run here: ")).collect()
}

#[test]
fn measurements_without_a_run_take_one_line_for_each_source() {
    let text = page(None, &Reports::default()).expect("a page");
    assert!(!text.lines().any(|line| line.starts_with('|')), "{text}");
    let lines = not_run(&text);
    assert_eq!(lines.len(), PAGES.len() + 3, "and MOT, the SNS and HAKOM");
    for case in PAGES.iter().flat_map(|page| page.cases).filter(|case| !(case.numbers)().is_empty()) {
        let listed = format!("{} ({} figures, `millrace {}`)", case.name, (case.numbers)().len(), case.command);
        assert!(lines.iter().any(|line| line.contains(&listed)), "{listed}");
    }
    assert!(["TPC-C", "ingestion by 500", "cold start"].iter().all(|name| lines[PAGES.len()].contains(name)));
    assert!(text.contains("Their machine: i7-11700") && text.contains("Their machine: 16 cores,"));
    assert!(text.contains("Published as a picture"));
}

#[test]
fn a_run_of_all_the_work_is_shown_with_its_cpu_and_processors() {
    let run = run_of_use_case(&[]);
    assert_eq!(
        row(std::slice::from_ref(&run), "INGESTION throughput"),
        "| INGESTION throughput | 5,125,600.86 /s | 1,234,567.89 /s (Millrace 1, 2 processors) | \
         2,500,000 points/CPU-s, settled | measured |"
    );
    assert!(
        row(std::slice::from_ref(&run), "INGESTION AVG")
            .ends_with("| 80.25 ms (Millrace 1, 2 processors) | 1.000 CPU-ms/request | measured |")
    );
    assert!(
        row(std::slice::from_ref(&run), "elapsed").ends_with("| 2,430.00 s (Millrace 1, 2 processors) |  | measured |")
    );
    assert!(row(&[run], "bytes on disk").ends_with("| 5.0 GiB (Millrace 1, 2 processors) |  | measured |"));
}

#[test]
fn a_partial_run_states_its_share_and_its_sums_are_not_compared() {
    let run = run_of_use_case(&[("LOOP", "1000")]);
    assert!(row(std::slice::from_ref(&run), "INGESTION throughput").ends_with("| scaled: 10 % of the requests |"));
    assert!(row(std::slice::from_ref(&run), "elapsed").ends_with("| no: a sum over 10 % of the requests |"));
    let mut stopped = run_of_use_case(&[]);
    stopped.stopped = Some("Ctrl-C".to_owned());
    stopped.phases[0].operations[0].ok = 12_345;
    assert!(row(&[stopped], "INGESTION throughput").ends_with("| scaled: 1.23 % of the requests |"));
}

#[test]
fn a_run_with_other_settings_or_at_a_fixed_rate_does_not_count() {
    for change in
        [("SENSOR_NUMBER", "300"), ("BATCH_SIZE_PER_WRITE", "10"), ("RATE", "100"), ("DATA_CLIENT_NUMBER", "10")]
    {
        let reports = Reports { runs: vec![run_of_use_case(&[change])], ..Reports::default() };
        let text = page(None, &reports).expect("a page");
        assert!(not_run(&text)[0].contains("writes, IoTDB 0.13 ("), "{change:?}");
    }
    let other_target = run_of_use_case(&[("DB_SWITCH", "QuestDB"), ("HOST", "10.0.0.1")]);
    assert!(row(&[other_target], "INGESTION throughput").ends_with("measured |"));
}

#[test]
fn a_run_that_failed_its_verification_gives_no_figure() {
    let mut run = run_of_use_case(&[]);
    run.verification.passed = false;
    let row = row(&[run], "INGESTION throughput");
    assert!(row.ends_with("| – (Millrace 1, 2 processors) |  | no: verification failed |"), "{row}");
}

#[test]
fn a_client_bound_run_says_so() {
    let mut run = run_of_use_case(&[]);
    run.phases[0].client_bound = true;
    assert!(row(&[run], "INGESTION AVG").ends_with("| measured; limited by this tool |"));
}

#[test]
fn configurations_of_all_cases_can_be_run() {
    for case in PAGES.iter().flat_map(|page| page.cases) {
        let mut config = Config::from_text(case.configuration, case.name).expect("readable");
        // Use one product for all cases, not IoTDB.
        config.set("DB_SWITCH", "Millrace", crate::config::Source::CommandLine).expect("known");
        config.check().unwrap_or_else(|error| panic!("{}: {error}", case.name));
        assert!(case.settings().expect("settings").len() >= 8, "{}: too little to tell runs apart", case.name);
        let folder = case.command.rsplit(' ').next().expect("a folder");
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder).join("config.properties");
        assert_eq!(std::fs::read_to_string(file).expect("the file the command reads"), case.configuration);
    }
}

#[test]
fn numbers_are_shown_in_groups_with_the_decimals_of_the_original() {
    let shown = [
        (Unit::PerSecond.show(5_125_600.86), "5,125,600.86 /s"),
        (Unit::Millis.show(0.999), "1.00 ms"),
        (Unit::Millis.show(1_227_561.44), "1,227,561.44 ms"),
        (Unit::Count.show(25e9), "25,000,000,000"),
        (Unit::Bytes.show(4.7 * (1u64 << 30) as f64), "4.7 GiB"),
    ];
    for (seen, expected) in shown {
        assert_eq!(seen, expected);
    }
}

#[test]
fn the_page_is_written_to_its_path_and_a_bad_report_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("deep/published.md");
    run(None, &[], &out).expect("written");
    assert!(std::fs::read_to_string(&out).expect("there").starts_with("# Published figures"));
    let bad = folder.path().join("bad.json");
    std::fs::write(&bad, "{}").expect("written");
    let error = run(None, std::slice::from_ref(&bad), &out).expect_err("no report").to_string();
    assert!(error.contains(&bad.display().to_string()), "{error}");
}

/// A report of `epics` that passed, with the half hour and the week.
fn archiver(reading: crate::epics::Reading) -> crate::epics::Report {
    use crate::epics::{Class, Query, Report, Span, SpanName};
    let span = |name: SpanName| Span {
        name,
        samples: (name.published_samples() as f64 / reading.cells()) as u64,
        samples_per_s: 2_000_000.0,
        cpu_s_per_million: Some(0.7),
        queries: vec![Query {
            kind: "one_pv".to_owned(),
            protocol: "Flight SQL".to_owned(),
            rows: reading.rows(sns::ONE_PV_SAMPLES),
            times: 2,
            median_ms: 4.5,
            ..Query::default()
        }],
        ..Span::default()
    };
    Report {
        target: crate::tpcc::report::Subject {
            product: "Millrace".to_owned(),
            version: "1".to_owned(),
            ..Default::default()
        },
        machine: Machine { cpus: 2, ..Machine::default() },
        reading,
        classes: Class::ALL.iter().map(|class| class.name().to_owned()).collect(),
        spans: vec![span(SpanName::HalfHour), span(SpanName::Week)],
        ..Report::default()
    }
}

#[test]
fn archiver_runs_stand_next_to_the_figures_of_their_span() {
    use crate::epics::{Reading, Report};
    let page_of =
        |report: Report| page(Some(Source::Sns), &Reports { epics: vec![report], ..Reports::default() }).unwrap();
    let text = page_of(archiver(Reading::Sample));
    for row in [
        "| inserts, half hour | 19,500 /s and 24,000 /s | 2,000,000 /s (Millrace 1, 2 processors) | 0.70 CPU-s/million | \
         the harder reading: a sample is a row |",
        "| inserts, week | 14,800 /s |",
        "| 133,360 samples of one PV, week | 0.031 s | 0.0045 s, Flight SQL (Millrace 1, 2 processors) |",
    ] {
        assert!(text.contains(row), "{row}: {text}");
    }
    assert!(!text.contains("month |") && !text.contains("MOT"), "{text}");
    assert!(page_of(archiver(Reading::Cell)).contains("a sample is a cell: a quarter of the rows"));
    let wrong = Report { findings: vec!["read 1".to_owned()], ..archiver(Reading::Sample) };
    assert!(page_of(wrong).contains("Not run here: inserts, extraction"));
    let part = Report { classes: vec!["text".to_owned()], ..archiver(Reading::Sample) };
    assert!(page_of(part).contains("| no: "));
}
