//! `model`: small multi-threaded programs, whose interleavings a model checker explores
//! (`crates/rows/src/sync/tests.rs`).

use std::process::Command;

use crate::Result;
use crate::run::{cargo, nothing_left, passes, take_number, target_dir};

/// Default number of schedules of each kind; takes about a minute.
const SCHEDULES: u64 = 10_000;

/// Runs every program under `--schedules` schedules of both kinds.
pub(crate) fn run(arguments: &[String]) -> Result {
    let mut arguments = arguments.to_vec();
    let schedules = take_number(&mut arguments, "--schedules")?.unwrap_or(SCHEDULES);
    nothing_left(&arguments)?;
    passes(&mut command(schedules))?;
    println!("model: every program passed under {schedules} random schedules and {schedules} of few changes");
    Ok(())
}

/// `cargo test` for these programs alone, with the model checker's locks and atomics in place of the real ones.
/// They have their own target directory: their flags would otherwise rebuild all dependencies each time.
pub(crate) fn command(schedules: u64) -> Command {
    let flags = [std::env::var("RUSTFLAGS").unwrap_or_default(), "--cfg shuttle".to_owned()].join(" ");
    let mut command = cargo(&["test", "--locked", "--package", "rows", "--lib", "model"]);
    command.env("CARGO_TARGET_DIR", target_dir().join("model"));
    command.env("RUSTFLAGS", flags.trim()).env("MODEL_SCHEDULES", schedules.to_string());
    command
}
