//! Runs `tests/sql/**/*.slt` in process, three times: rows in memory, rows in segments, rows in compacted segments.
//!
//! A COPY FROM STDIN takes the lines after its statement as its data; a COPY TO STDOUT gives its lines as rows of one column.

mod client;
mod clients;
mod script;
mod statements;

use std::path::{Path, PathBuf};

use client::{Fixture, Storage};

/// All `.slt` files, by path.
fn files(dir: &Path, out: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "slt") {
            out.push(path);
        }
    }
}

fn run(storage: Storage) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sql");
    let mut found = Vec::new();
    files(&root, &mut found);
    assert!(!found.is_empty(), "no tests in {}", root.display());
    // SLT_ONLY=part of a path runs only the files that contain it.
    if let Ok(only) = std::env::var("SLT_ONLY") {
        found.retain(|path| path.to_string_lossy().contains(&only));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut failures = Vec::new();
    for path in &found {
        let fixture = Fixture::new();
        let text = std::fs::read_to_string(path).unwrap();
        if let Err(error) = runtime.block_on(script::run(&text, &fixture, storage)) {
            failures.push(format!("{}: {error}", path.strip_prefix(&root).unwrap().display()));
        }
    }
    assert!(failures.is_empty(), "{} of {} files failed:\n\n{}", failures.len(), found.len(), failures.join("\n\n"));
}

#[test]
fn sql_files_hold_with_rows_in_memory() {
    run(Storage::Memory);
}

#[test]
fn sql_files_hold_with_rows_in_segments() {
    run(Storage::Flushed);
}

#[test]
fn sql_files_hold_with_rows_in_compacted_segments() {
    run(Storage::Settled);
}
