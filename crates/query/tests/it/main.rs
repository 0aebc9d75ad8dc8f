//! Runs `tests/sql/**/*.slt` in process, three times: rows in memory, rows in segments, rows in compacted segments.
//!
//! The lines after a COPY FROM STDIN are its data; the lines of a COPY TO STDOUT are rows of one column.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod client;
mod clients;
mod constraints;
mod files;
mod function_matrix;
mod gaps;
mod recalled_texts;
mod script;
mod series;
mod statements;
mod summaries;
mod temporary;
mod views;

use client::{Client, Fixture, Storage};

fn run(storage: Storage) {
    let mut files = script::files();
    // Expected results of these scripts are in wire format: names of zones, of types and of functions.
    files.retain(|path| !path.components().any(|part| part.as_os_str() == "clients"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut failures = Vec::new();
    for path in &files {
        let fixture = Fixture::new();
        let connect = async || Client::new(&fixture, storage);
        failures.extend(runtime.block_on(script::run(path, connect)).err());
    }
    assert!(failures.is_empty(), "{} of {} files failed:\n\n{}", failures.len(), files.len(), failures.join("\n\n"));
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
