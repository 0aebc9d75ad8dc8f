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
    Test::Load { series: vec![5, 7], days: DAYS, writers: vec![1, 3], readers: vec![2], bulk: 2 }
}

/// Writes and reads through a store: all, then a part of a day, whose other values must stay.
fn check(kind: Kind, target: &Target) {
    let placing = TargetServerOptions::default();
    let place = TargetServer::open(target, &placing, 4).unwrap();
    let store = open(kind, &place).unwrap();
    let shape = Shape::new(1, 0..3, QUARTER_HOUR_S, DAYS);
    store.create(&shape).unwrap();
    let mut client = store.connect(0, 1).unwrap();
    let mut body = Vec::new();
    let mut write = |client: &mut dyn Client, part: &Part, version| {
        store.encode(&shape, part, version, &mut body).unwrap();
        client.write(&shape, part, &body).unwrap();
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
