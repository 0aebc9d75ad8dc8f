//! Runs with a few megabytes on PostgreSQL and Millrace.

use super::*;
use crate::tpcc::tests::Silent;

fn settings(memory_mib: u32) -> Settings {
    Settings {
        sizes: vec![1_000_000, 2_000_000],
        repeat: 1,
        stops: vec![Stop::Clean, Stop::Kill],
        caches: vec![Cache::Cold],
        tail: 0.1,
        secondary_index: true,
        // Other programs on this machine keep their cache.
        method: Method::Files,
        load_connections: 2,
        seed: 5,
        placing: TargetServerOptions { memory_mib: Some(memory_mib), ..TargetServerOptions::default() },
        command: Vec::new(),
    }
}

/// Runs every start at every size and checks the whole report.
fn starts_at_all_sizes(target: &str, settings: &Settings) -> Report {
    let report = run(settings, &Target::parse(target).unwrap(), &mut Silent).expect("a run");
    let text = report.text();
    assert!(report.passed() && text.contains("all answers were correct"), "{text}");
    let caches = settings.caches.len();
    for (size, rows) in report.sizes.iter().zip([5_000, 10_000]) {
        assert_eq!((size.rows, size.starts.len()), (rows, 2 * caches), "{text}");
        assert!(size.file_bytes > size.row_bytes / 2 && size.disk_gb_per_s() > 0.0, "{text}");
        for start in &size.starts {
            assert!(0.0 < start.first_row_s && start.first_row_s <= start.count_s, "{start:?}");
            assert!(start.gb_per_s > 0.0 && start.server_cpu_s.is_some_and(|cpu_s| cpu_s > 0.0), "{start:?}");
            assert_eq!(start.tail_rows > 0, start.stop == Stop::Kill, "{start:?}");
            assert_eq!(start.of_disk.is_some(), start.cache == Cache::Cold, "{start:?}");
        }
    }
    report
}

#[test]
fn postgres_answers_correctly_after_every_start() {
    let report = starts_at_all_sizes("postgres", &settings(64));
    // The rows added before the kill were deleted again.
    assert_eq!(report.sizes[1].loaded_rows, 5_000, "{}", report.text());
}

#[test]
fn millrace_answers_correctly_after_every_start() {
    let settings = Settings { caches: vec![Cache::Cold, Cache::Warm], ..settings(512) };
    let report = starts_at_all_sizes("millrace", &settings);
    let warm = report.sizes.iter().flat_map(|size| &size.starts).filter(|start| start.cache == Cache::Warm);
    assert!(warm.clone().count() == 4 && report.text().contains("killed   warm"), "{}", report.text());
    for start in warm {
        assert!(start.cached_before.is_some_and(|share| share > 0.9), "{start:?}");
    }
}

#[test]
fn a_row_lost_or_changed_by_a_start_is_found() {
    let settings = settings(64);
    let target = Target::parse("postgres").unwrap();
    let mut silent = Silent;
    let mut bench = Bench::open(&settings, Product::Postgres, &target, &mut silent).expect("a server");
    bench.grow(5_001).expect("rows");
    for damage in ["DELETE FROM coldstart WHERE id = 17", "UPDATE coldstart SET amount = amount + 1 WHERE id = 2500"] {
        bench.admin().unwrap().query(damage).unwrap();
        bench.stop_cleanly().unwrap();
        bench.server().unwrap().prepare_restart().unwrap();
        bench.clock(&mut Start::default(), "a start").unwrap();
        bench.verify("a start").unwrap();
    }
    let findings = bench.report.findings.join("\n");
    assert_eq!(bench.report.findings.len(), 5, "{findings}");
    for what in ["count(*) is [\"5000\"]", "row 2500 is", "count and sums"] {
        assert!(findings.contains(what), "{findings}");
    }
    assert!(!bench.report.passed());
}

#[test]
fn a_row_has_the_size_used_in_calculations() {
    let payloads = payloads(1);
    let mut text = Vec::new();
    row(1, 12_345, &payloads, &mut text);
    let text = String::from_utf8(text).unwrap();
    let cells: Vec<&str> = text.trim_end().split('\t').collect();
    assert_eq!(cells[..2], ["12345", "1234"]);
    assert_eq!(cells[2], amount(1, 12_345).to_string());
    assert_eq!(8 + 4 + 8 + cells[3].len() as u64, ROW_BYTES);
}

#[test]
fn impossible_settings_are_refused_with_the_reason() {
    let refused = |target: &str| {
        let outcome = run(&settings(64), &Target::parse(target).unwrap(), &mut Silent);
        outcome.err().map_or_else(String::new, |error| error.message)
    };
    assert!(refused("postgres://127.0.0.1:1").contains("private"), "it could not be stopped");
    assert!(refused("mariadb").contains("millrace or postgres"));
    let error = check_disk(Product::Postgres, 1 << 60, &TargetServerOptions::default()).unwrap_err().message;
    assert!(error.contains("are free") && error.contains("--server-dir"), "{error}");
    let error = check_memory(1 << 60).unwrap_err().message;
    assert!(error.contains("this machine has"), "{error}");
    assert!(check_memory(1).is_ok());
}
