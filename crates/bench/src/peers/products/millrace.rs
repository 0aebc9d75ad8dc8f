//! Millrace with default settings except for the directory and the addresses.

use super::{Launch, Recipe, Setup};
use crate::peers::{Durability, Result, find, probe::Probe};
use std::path::Path;
use std::process::Command;

/// Listeners that clients of the benchmark use; the others get any free port.
pub(super) const PORTS: &[&str] = &["flight", "health", "http", "pg"];

pub(super) fn recipe(setup: &Setup) -> Result<Recipe> {
    let program = find::millrace()?;
    let version = find::output(Command::new(&program).arg("--version"))?;
    let probe = Probe::All(vec![
        Probe::Http("health", "/ready"),
        Probe::Postgres { port: "pg", user: "bench", database: "bench" },
    ]);
    let mut launch = Launch::new("millrace", program.clone(), setup, probe);
    launch.argument("serve").argument("--data").argument(setup.data());
    for name in listeners(&program)? {
        let address = if PORTS.contains(&name.as_str()) { setup.address(&name) } else { "127.0.0.1:0".to_owned() };
        launch.argument(format!("--{name}")).argument(address);
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

/// Names of the program's listeners: its flags that take an address.
fn listeners(program: &Path) -> Result<Vec<String>> {
    let help = find::output(Command::new(program).args(["serve", "--help"]))?;
    let name = |line: &str| Some(line.trim_start().strip_prefix("--")?.split_once(" <ADDR>")?.0.to_owned());
    Ok(help.lines().filter_map(name).collect())
}
