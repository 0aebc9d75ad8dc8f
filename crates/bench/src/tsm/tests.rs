//! Every form of the data on a private server.

use super::*;
use crate::peers::{self, Options, Product};

const DAYS: u32 = 2;

fn settings(test: Test, urls: Vec<String>) -> Settings {
    Settings {
        test,
        urls,
        seed: 3,
        settle: Duration::ZERO,
        placing: TargetServerOptions::default(),
        command: Vec::new(),
    }
}

/// Ignores progress.
struct Silent;

impl Show for Silent {
    fn stage(&mut self, _: &str) {}
    fn progress(&mut self, _: &crate::engine::Plan, _: &crate::engine::Progress) {}
}

fn load() -> Test {
    Test::Load {
        series: vec![5, 7],
        days: DAYS,
        writers: vec![1, 3],
        readers: vec![2],
        bulk: 2,
        kinds: vec![SeriesKind::Plain],
    }
}

/// A scaling test of bulk requests by concurrent clients.
fn scaling(servers: Vec<Servers>, kinds: Vec<SeriesKind>) -> Test {
    Test::Scaling {
        series: 6,
        days: DAYS,
        requests: vec![Requests::Bulk],
        bulk: 2,
        users: 3,
        services: vec![Service::Parallel],
        repeats: 3,
        servers,
        matrix_scale: None,
        kinds,
    }
}

/// The report of a test on a private Millrace.
fn report_of(settings: &Settings, format: Format) -> Result<Report> {
    let target = Target::parse("millrace").unwrap();
    let mut reports = Vec::new();
    let mut keep = |report: Report| -> Result<()> {
        reports.push(report);
        Ok(())
    };
    run(settings, &target, &[format], &mut Silent, &mut keep)?;
    Ok(reports.pop().unwrap())
}

/// Writes and reads through a store: all, then a part of a day, whose other values must stay.
fn check(kind: Kind, target: &Target) {
    let placing = TargetServerOptions::default();
    let place = TargetServer::open(target, &placing, 4).unwrap();
    let store = open(kind, &place).unwrap();
    let shape = Shape::new(1, 0..3, QUARTER_HOUR_S, DAYS);
    store.create(&shape).unwrap();
    let mut client = store.connect(0, &[]).unwrap();
    let mut body = Vec::new();
    let mut write = |client: &mut dyn Client, part: &Part, version| {
        store.encode(&shape, part, version, &mut body).unwrap();
        client.write(&shape, part, version, &body).unwrap();
    };
    let read = |client: &mut dyn Client, part: &Part, version| {
        let mut answer = Vec::new();
        client.read(&shape, part, &mut answer).unwrap();
        let mut seen = Seen::new(&shape, part);
        store.check(&answer, &mut seen).and_then(|()| seen.check(version))
    };
    let all = Part { series: 0..3, slots: 0..shape.slots() };
    write(client.as_mut(), &all, 1);
    assert_eq!(read(client.as_mut(), &all, 1), Ok(()), "{}", kind.form());
    assert!(read(client.as_mut(), &all, 2).is_err());
    for series in [1..2, 0..3] {
        let middle = Part { series: series.clone(), slots: 10..130 };
        write(client.as_mut(), &middle, 2);
        for (slots, version) in [(0..10, 1), (10..130, 2), (130..shape.slots(), 1)] {
            let part = Part { series: series.clone(), slots };
            assert_eq!(read(client.as_mut(), &part, version), Ok(()), "{}, {part:?}", kind.form());
        }
    }
    store.settle().unwrap();
    store.drop_series(&shape).unwrap();
}

#[test]
fn postgres_keeps_every_value_in_both_layouts() {
    let dir = tempfile::tempdir().unwrap();
    let server = peers::start(Product::Postgres, dir.path(), Options::default()).unwrap();
    let target = Target::parse(&format!("postgres://{}", server.address("pg").unwrap())).unwrap();
    check(Kind::Postgres(Layout::Rows), &target);
    check(Kind::Postgres(Layout::Blocks), &target);
}

#[test]
fn millrace_keeps_every_value_and_a_load_test_cleans_up() {
    let dir = tempfile::tempdir().unwrap();
    let server = peers::start(Product::Millrace, dir.path(), Options::default()).unwrap();
    let http = server.address("http").unwrap();
    check(Kind::Millrace(Format::Json), &Target::parse(&format!("millrace://{http}")).unwrap());
    let target = Target::parse("millrace").unwrap();
    let mut reports = Vec::new();
    let mut keep = |report: Report| -> Result<()> {
        reports.push(report);
        Ok(())
    };
    let settings = settings(load(), vec![http.clone(), http]);
    run(&settings, &target, &[Format::Json], &mut Silent, &mut keep).unwrap();
    let [report] = &reports[..] else { panic!("{} reports", reports.len()) };
    assert!(report.passed(), "{:?}", report.findings);
    assert_eq!(report.figures.len(), 2 * 2 + 2, "two sets of writes and one read for each size");
    let values: Vec<u64> = report.figures.iter().map(|figure| figure.values).collect();
    assert_eq!(values, [480, 480, 480, 672, 672, 672]);
    assert!(report.figures.iter().all(|figure| figure.front_ends == 2), "{:?}", report.figures);
}

#[test]
fn unknown_targets_are_refused() {
    let target = Target::parse("mariadb").unwrap();
    let outcome = run(&settings(load(), Vec::new()), &target, &[], &mut Silent, &mut |_| Ok(()));
    assert!(outcome.unwrap_err().message.contains("expected millrace, postgres-rows or postgres-blocks"));
}

#[test]
fn cells_of_a_matrix_are_servers_and_cores() {
    assert_eq!("2x8".parse(), Ok(MatrixCell { servers: 2, cores: 8 }));
    for wrong in ["", "2", "2x", "x8", "0x8", "2x0", "2x8x1", "-1x8", "2X8", "1001x1"] {
        let error = wrong.parse::<MatrixCell>().unwrap_err();
        assert!(error.contains("expected SERVERSxCORES, such as 2x8"), "{wrong}: {error}");
    }
}

#[test]
fn cores_of_a_matrix_are_scaled_to_quotas() {
    let cpus: Vec<Option<f64>> = ["2x8", "2x4", "1x8", "1x4"]
        .map(|cell| cell.parse::<MatrixCell>().unwrap().at(0.125).unwrap())
        .iter()
        .map(|servers| servers.cpus)
        .collect();
    assert_eq!(cpus, [Some(1.0), Some(0.5), Some(1.0), Some(0.5)]);
    let cell = MatrixCell { servers: 1, cores: 4 };
    for scale in [0.01, 0.0, -1.0, f64::NAN, 1e9] {
        let error = cell.at(scale).unwrap_err().message;
        assert!(error.contains("1x4 at --matrix-scale") && error.contains("expected 0.05 to 1024"), "{error}");
    }
}

#[test]
fn postgres_has_no_kind_with_history() {
    let settings = settings(scaling(vec![Servers::default()], vec![SeriesKind::Audit]), Vec::new());
    let target = Target::parse("postgres-rows").unwrap();
    let error = run(&settings, &target, &[], &mut Silent, &mut |_| Ok(())).unwrap_err().message;
    assert!(error.contains("--kind audit: the tables of PostgreSQL keep no history"), "{error}");
}

#[test]
fn every_kind_of_series_returns_its_newest_values_and_counts_what_was_written() {
    for format in [Format::Json, Format::Arrow] {
        let kinds = vec![SeriesKind::Plain, SeriesKind::Audit, SeriesKind::Quotation];
        let mut settings = settings(scaling(vec![Servers::default()], kinds.clone()), Vec::new());
        // Sizes are known only when the server is idle, and one format is enough for them.
        settings.settle = Duration::from_secs(if format == Format::Json { 30 } else { 0 });
        let report = report_of(&settings, format).unwrap();
        assert!(report.passed(), "{:?}", report.findings);
        let values = 6 * 96 * u64::from(DAYS);
        let steps: Vec<_> = report.figures.iter().map(|f| (f.kind, f.operation, f.values, f.written_values)).collect();
        let of = |kind| [(kind, Operation::Write, values, 3 * values), (kind, Operation::Read, values, 0)];
        assert_eq!(steps, kinds.into_iter().flat_map(of).collect::<Vec<_>>());
        let text = report.text();
        assert_eq!(text.contains("B/written"), format == Format::Json, "{text}");
    }
}

#[test]
fn front_ends_are_started_over_the_private_store_and_do_the_work() {
    let servers = [0, 2, 1].map(|count| Servers { count, ..Servers::default() });
    let report = report_of(&settings(scaling(servers.to_vec(), vec![SeriesKind::Plain]), Vec::new()), Format::Json);
    let report = report.unwrap();
    assert!(report.passed(), "{:?}", report.findings);
    let steps: Vec<_> = report.figures.iter().map(|figure| (figure.servers(), figure.operation)).collect();
    let of = |servers: &str| [(servers.to_owned(), Operation::Write), (servers.to_owned(), Operation::Read)];
    assert_eq!(steps, ["store", "2", "1"].map(of).concat());
    assert!(report.figures.iter().all(|figure| figure.server_cpu_median_s().is_some()), "{:?}", report.figures);
    let two = &report.figures[2];
    assert!(report.vs_one_server(two).is_some(), "{}", report.text());
}

/// Where control groups can be created, a matrix runs with its quotas; elsewhere the error says what was
/// tried.
#[test]
fn a_matrix_runs_with_the_quotas_of_its_cells() {
    let cells = ["2x8", "1x8", "1x4"].map(|cell| cell.parse::<MatrixCell>().unwrap().at(0.0625).unwrap());
    let mut test = scaling(cells.to_vec(), vec![SeriesKind::Plain]);
    if let Test::Scaling { matrix_scale, .. } = &mut test {
        *matrix_scale = Some(0.0625);
    }
    let report = match report_of(&settings(test, Vec::new()), Format::Arrow) {
        Ok(report) => report,
        Err(error) => {
            assert!(error.message.contains("control group") && error.message.contains("tried: "), "{error}");
            return;
        }
    };
    assert!(report.passed(), "{:?}", report.findings);
    let steps: Vec<_> = report.figures.iter().map(|figure| (figure.servers(), figure.cpus)).collect();
    let of = |servers: &str, cpus: f64| vec![(servers.to_owned(), Some(cpus)); 2];
    assert_eq!(steps, [of("2x8", 0.5), of("1x8", 0.5), of("1x4", 0.25)].concat());
    assert!(report.vs_half_the_cores(&report.figures[2]).is_some(), "{}", report.text());
}
