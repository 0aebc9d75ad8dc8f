//! `millrace inspect` and `millrace check` on directories of known contents, whole and damaged.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::Float64Array;
use engine::{Batch, ColumnSpec, Durability, Engine, Isolation, KeyList, Op, Ops, Rows, TableSpec};
use env::RealEnv;
use model::{ColumnId, ColumnRole, DataType, KeyValue, Lsn, TableName, TableOptions};

use crate::server::{folder, millrace};

/// A table `m` of two series with three rows each in a segment, and one commit that is only in the log.
fn make(dir: &Path) {
    let (engine, _) = Engine::open(Arc::new(RealEnv::new()), dir, engine::Options::default()).unwrap();
    let column = |name: &str, ty, role| ColumnSpec { name: name.into(), ty, nullable: role != ColumnRole::Time, role };
    let columns = vec![
        column("time", DataType::Timestamp, ColumnRole::Time),
        column("dev", DataType::Text, ColumnRole::Key),
        column("v", DataType::Float64, ColumnRole::Field),
    ];
    let spec = TableSpec { name: TableName::public("m"), keyed: true, columns, options: TableOptions::default() };
    let mut txn = engine.begin(Isolation::ReadCommitted, Lsn::ZERO);
    let table = txn.create_table(&spec).unwrap();
    txn.write(table.id, batch(0)).unwrap();
    engine.finish(txn.commit(Durability::Sync)).unwrap();
    engine.flush().unwrap();
    let mut txn = engine.begin(Isolation::ReadCommitted, Lsn::ZERO);
    txn.write(table.id, batch(1_000_000_000)).unwrap();
    engine.finish(txn.commit(Durability::Sync)).unwrap();
    engine.close().unwrap();
}

fn batch(from_ns: i64) -> Batch {
    let mut keys = KeyList::new();
    let ids = ["a", "b"].map(|dev| keys.intern(&model::key::encode(&[KeyValue::Text(dev.into())])));
    let series = vec![ids[0], ids[0], ids[0], ids[1], ids[1], ids[1]];
    let times = (0..6).map(|n| from_ns + n % 3 * 1_000).collect();
    let values = Arc::new(Float64Array::from(vec![1.25, 2.5, -3.0, 4.0, 5.0, 6.75]));
    Batch::new(keys, Rows::new(series, times, Ops::All(Op::Replace), vec![(ColumnId(2), values)]))
}

fn run(dir: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = millrace().args(arguments).arg("--data").arg(dir).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.code(), format!("{out}{err}"))
}

fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|found| found == extension)).collect()
}

#[test]
fn inspect_shows_manifest_log_segments_blocks_and_statistics() {
    let (_folder, dir) = folder();
    make(&dir);
    let segment = files(&dir.join("data"), "seg").pop().unwrap();
    let segment = segment.to_str().unwrap();
    let cases: [(&[&str], &[&str]); 6] = [
        (&["inspect", "manifest"], &["\"m\"", "flushed up to LSN"]),
        (&["inspect", "log"], &["6 rows", "records in"]),
        (&["inspect", "segments", "--table", "m"], &["1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000002Z", "0 .. 1"]),
        (&["inspect", "segment", segment], &["one version of each row", "directory"]),
        (&["inspect", "segment", segment, "--column", "v"], &["-3", "6.75", "16.5"]),
        (&["inspect", "segment", segment, "--block", "0"], &["(series, times)", "v "]),
    ];
    for (arguments, expected) in cases {
        let (code, text) = run(&dir, arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {text}");
        for part in expected {
            assert!(text.contains(part), "{arguments:?}: no {part:?} in\n{text}");
        }
    }
}

#[test]
fn inspect_prints_json_and_the_files_of_rows_tables() {
    let (_folder, dir) = folder();
    let server = crate::server::Server::start(&dir);
    server.sql("CREATE TABLE machine (id int PRIMARY KEY); INSERT INTO machine VALUES (1), (2)");
    server.stop();
    let json = |arguments: &[&str]| -> serde_json::Value {
        let (code, text) = run(&dir, &[arguments, &["--format", "json"]].concat());
        assert_eq!(code, Some(0), "{text}");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    };
    let manifest = json(&["inspect", "manifest"]);
    let machine = &manifest["tables"][0];
    assert_eq!((&machine["store"], &machine["row_versions"]), (&"rows".into(), &2.into()), "{manifest}");
    assert_eq!(json(&["inspect", "segments"]), serde_json::json!([]));
    let (code, text) = run(&dir, &["inspect", "segments", "--table", "machine"]);
    assert!(code == Some(2) && text.contains("rows table"), "{text}");
    assert!(!run(&dir, &["check"]).1.contains("not stopped cleanly"));
}

#[test]
fn check_reports_a_directory_that_was_not_stopped_cleanly() {
    let (_folder, dir) = folder();
    let server = crate::server::Server::start(&dir);
    server.sql("CREATE TABLE machine (id int PRIMARY KEY); INSERT INTO machine VALUES (1), (2)");
    let (code, text) = run(&dir, &["check"]);
    assert!(code == Some(0) && text.contains("not stopped cleanly") && text.contains("not a backup"), "{text}");
    server.stop();
}

#[test]
fn inspect_reports_missing_objects() {
    let (_folder, dir) = folder();
    make(&dir);
    let cases: [(&[&str], &str); 5] = [
        (&["inspect", "segments", "--table", "nope"], "there is no table \"nope\""),
        (&["inspect", "segment", "ffff"], "has no segment ffff"),
        (&["inspect", "segment", "weather"], "neither a segment number nor a segment file"),
        (&["inspect", "segment", "1", "--block", "99"], "there"),
        (&["inspect", "manifest", "--data", "/nowhere"], "MANIFEST"),
    ];
    for (arguments, expected) in cases {
        let output = millrace().args(arguments).env("MILLRACE_DATA", &dir).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(expected), "{arguments:?}: {text}");
    }
}

#[test]
fn check_passes_on_intact_files_and_finds_a_changed_byte_in_every_kind() {
    let (_folder, dir) = folder();
    make(&dir);
    let (code, text) = run(&dir, &["check"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("no damage found"), "{text}");
    let data = dir.join("data");
    let log = files(&dir.join("log"), "log");
    let kinds = [dir.join("MANIFEST"), files(&data, "seg")[0].clone(), files(&data, "ser")[0].clone(), log[0].clone()];
    for path in kinds {
        let good = std::fs::read(&path).unwrap();
        let mut bad = good.clone();
        // A byte in the middle: a torn tail of the log is not damage, and the manifest can be read without its mark.
        bad[50] ^= 0x10;
        std::fs::write(&path, &bad).unwrap();
        let (code, text) = run(&dir, &["check"]);
        let name = path.file_name().unwrap().to_str().unwrap();
        assert_eq!(code, Some(1), "{name}: {text}");
        assert!(text.contains(name), "{name}: {text}");
        std::fs::write(&path, good).unwrap();
    }
    assert_eq!(run(&dir, &["check"]).0, Some(0));
    assert_eq!(run(&dir.join("nowhere"), &["check"]).0, Some(2));
}
