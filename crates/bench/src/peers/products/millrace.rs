//! Millrace with default settings except for the directory and the addresses.

use super::{Launch, Recipe, Setup};
use crate::peers::{Durability, Result, find, probe::Probe};
use std::process::Command;

pub(super) const PORTS: &[&str] = &["flight", "health", "http", "pg"];

pub(super) fn recipe(setup: &Setup) -> Result<Recipe> {
    let program = find::millrace()?;
    let version = find::output(Command::new(&program).arg("--version"))?;
    let probe = Probe::All(vec![
        Probe::Http("health", "/ready"),
        Probe::Postgres { port: "pg", user: "bench", database: "bench" },
    ]);
    let mut launch = Launch::new("millrace", program, setup, probe);
    launch.argument("serve").argument("--data").argument(setup.data());
    for port in PORTS {
        launch.argument(format!("--{port}")).argument(setup.address(port));
    }
    let memory = setup.options.memory_mib.map(|mib| ("memory", format!("{mib}MiB")));
    for (name, value) in memory.iter().map(|(name, value)| (*name, value)) {
        launch.argument(format!("--{name}={value}"));
    }
    for (name, value) in &setup.options.settings {
        launch.argument(format!("--{name}={value}"));
    }
    Ok(Recipe {
        // Format: "millrace 0.0.0 (abc1234 2026-11-23)".
        version: version.split_whitespace().nth(1).unwrap_or("unknown").to_owned(),
        launches: vec![launch],
        data_dirs: vec![setup.data()],
        log_dirs: vec![setup.data().join("log")],
        stop_signal: libc::SIGTERM,
        durability: (
            Durability::Disk,
            "the write-ahead log is synced before the answer; there is no other mode".to_owned(),
        ),
        settings: setup.settings(memory.as_slice()),
        notes: Vec::new(),
    })
}
