//! Both tables of each product, on a server of their own.

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
        placing: Placing::default(),
        command: Vec::new(),
    }
}

/// Loads, changes every share by every kind of request and reads; then a value that was changed by somebody else, and
/// one that is gone, are found.
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
                let written = side.write(&at).expect("written");
                let blocks = u64::from(settings.series) * settings.days as u64 * u64::from(settings.passes(requests));
                assert_eq!(written.values, blocks * Shape::changed(share) as u64, "{}", kind.name());
                let read = side.read(&at).expect("an answer").unwrap_or_else(|wrong| panic!("{wrong}"));
                assert_eq!(read.values, blocks * BLOCK as u64);
            }
        }
        let at = At { requests: Requests::Bulk, share: 100, repeat: 0, pass };
        side.client.settle().expect("at rest");
        side.read(&at).expect("an answer").unwrap_or_else(|wrong| panic!("{wrong}"));
        for (statement, expected) in damage(kind).iter().zip(["written", "missing"]) {
            side.client.run_text(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
            let finding = side.read(&at).expect("an answer").expect_err(statement);
            assert!(finding.contains(expected) && finding.contains(kind.name()), "{finding}");
            if expected == "written" {
                // All of it again: what was damaged is as it should be.
                side.write(&at).expect("written");
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
