//! Both tables of each product, on a private server.

use super::*;
use crate::peers::{self, Options, Product};

fn settings() -> Settings {
    Settings {
        series: 3,
        days: 4,
        shares: vec![1, 50, 100],
        requests: vec![Requests::Single, Requests::Bulk],
        bulk_days: 3,
        bulk_passes: 2,
        repeat: 1,
        seed: 5,
        placing: TargetServerOptions::default(),
        command: Vec::new(),
    }
}

fn write(side: &mut Side<'_>, at: &At) -> Figure {
    all(side, at, Side::write).expect("nothing was read")
}

fn read(side: &mut Side<'_>, at: &At) -> std::result::Result<Figure, String> {
    all(side, at, Side::read)
}

fn all<'a>(
    side: &mut Side<'a>,
    at: &At,
    each: impl Fn(&mut Side<'a>, &At, &Turn, &mut Meter) -> Checked<()>,
) -> std::result::Result<Figure, String> {
    match in_turns(at, std::slice::from_mut(side), each) {
        Ok(mut figures) => Ok(figures.remove(0)),
        Err(Stop::Wrong(finding)) => Err(finding),
        Err(Stop::Failed(error)) => panic!("{error}"),
    }
}

/// Loads, changes every share with every kind of request and reads. Then damages a value and
/// deletes one, and expects the read to find both.
fn check(product: Product, damage: &dyn Fn(Kind) -> [String; 2]) {
    let dir = tempfile::tempdir().expect("a folder");
    let server = peers::start(product, dir.path(), Options::default()).unwrap_or_else(|error| panic!("{error}"));
    let target = format!("{}://{}", product.name(), server.address("pg").expect("its port"));
    let target = Target::parse(&target).expect("a target");
    let settings = settings();
    for kind in Kind::of(&target).expect("its tables") {
        let mut side = Side::open(&settings, kind, &target).expect("a table");
        for stretch in settings.stretches(Requests::Bulk) {
            side.client.load(&settings.shape(), &stretch).expect("loaded");
        }
        let mut pass = 0;
        for requests in settings.requests.iter().copied() {
            for share in settings.shares.iter().copied() {
                pass += 10;
                let at = At { requests, share, repeat: 0, pass };
                let written = write(&mut side, &at);
                let blocks = u64::from(settings.series) * settings.days as u64 * u64::from(settings.passes(requests));
                assert_eq!(written.values, blocks * Shape::changed(share) as u64, "{}", kind.name());
                let seen = read(&mut side, &at).unwrap_or_else(|wrong| panic!("{wrong}"));
                assert_eq!(seen.values, blocks * BLOCK as u64);
            }
        }
        let at = At { requests: Requests::Bulk, share: 100, repeat: 0, pass };
        side.client.settle().expect("at rest");
        read(&mut side, &at).unwrap_or_else(|wrong| panic!("{wrong}"));
        assert_eq!(side.pack().expect("packed").values, 3 * 4 * BLOCK as u64);
        read(&mut side, &at).unwrap_or_else(|wrong| panic!("{wrong}"));
        for (statement, expected) in damage(kind).iter().zip(["written", "missing"]) {
            side.client.run_text(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
            let finding = read(&mut side, &at).expect_err(statement);
            assert!(finding.contains(expected) && finding.contains(kind.name()), "{finding}");
            if expected == "written" {
                // Rewrites all values, which repairs the damage.
                write(&mut side, &at);
            }
        }
        side.client.drop_table().expect("dropped");
    }
}

#[test]
fn postgres_keeps_every_value_of_both_tables_and_damage_is_found() {
    check(Product::Postgres, &|kind| match kind {
        Kind::Blocks => [
            "UPDATE breakeven_blocks SET block = set_byte(block, 8, 77) WHERE series = 1 AND day = '2025-01-02 00:00Z'"
                .into(),
            "DELETE FROM breakeven_blocks WHERE series = 2 AND day = '2025-01-03 00:00Z'".into(),
        ],
        _ => [
            "UPDATE breakeven_rows SET flag = 77 WHERE series = 1 AND time = '2025-01-02 00:00Z'".into(),
            "DELETE FROM breakeven_rows WHERE series = 2 AND time = '2025-01-03 00:00Z'".into(),
        ],
    });
}

#[test]
fn millrace_keeps_every_value_of_both_tables_and_damage_is_found() {
    check(Product::Millrace, &|kind| {
        let table = if kind == Kind::Compressed { "breakeven_compressed" } else { "breakeven_uncompressed" };
        [
            format!("INSERT INTO {table} (series, time, value, flag) VALUES (1, '2025-01-02 00:00Z', 0, 77)"),
            format!(
                "DELETE FROM {table} WHERE series = 2 AND time >= '2025-01-03 00:00Z' AND time < '2025-01-03 00:15Z'"
            ),
        ]
    });
}

#[test]
fn turns_cover_all_requests_of_all_passes() {
    let settings = Settings { series: 40, ..settings() };
    let turns = |requests| {
        let turns = settings.turns(requests);
        turns.into_iter().map(|turn| (turn.pass, turn.requests)).collect::<Vec<_>>()
    };
    assert_eq!(turns(Requests::Single), [(0, 0..50), (0, 50..100), (0, 100..150), (0, 150..160)]);
    assert_eq!(turns(Requests::Bulk), [(0, 0..2), (1, 0..2)]);
}
