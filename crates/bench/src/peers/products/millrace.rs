//! Millrace with default settings except for the directory and the addresses: a database, or a front end
//! of a running one.

use super::{Launch, Recipe, Setup};
use crate::peers::{Durability, Result, find, probe::Probe};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Listeners that clients of the benchmark use; the others get any free port.
pub(super) const PORTS: &[&str] = &["flight", "health", "http", "pg"];

pub(super) fn recipe(setup: &Setup) -> Result<Recipe> {
    let program = find::millrace()?;
    let version = find::output(Command::new(&program).arg("--version"))?;
    let mut launch = match &setup.options.front_end_of {
        Some(store) => front_end(program, setup, store),
        None => database(program, setup)?,
    };
    let is_database = setup.options.front_end_of.is_none();
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
        data_dirs: if is_database { vec![setup.data()] } else { Vec::new() },
        log_dirs: if is_database { vec![setup.data().join("log")] } else { Vec::new() },
        stop_signal: libc::SIGTERM,
        durability: (
            Durability::Disk,
            "the write-ahead log is synced before the answer; there is no other mode".to_owned(),
        ),
        settings: setup.settings(memory.as_slice()),
        notes: Vec::new(),
    })
}

fn database(program: PathBuf, setup: &Setup) -> Result<Launch> {
    let probe = Probe::All(vec![
        Probe::Http("health", "/ready"),
        Probe::Postgres { port: "pg", user: "bench", database: "bench" },
    ]);
    let listeners = listeners(&program)?;
    let mut launch = Launch::new("millrace", program, setup, probe);
    launch.argument("serve").argument("--data").argument(setup.data());
    for name in listeners {
        let address = if PORTS.contains(&name.as_str()) { setup.address(&name) } else { "127.0.0.1:0".to_owned() };
        launch.argument(format!("--{name}")).argument(address);
    }
    Ok(launch)
}

/// A front end of the database whose Flight SQL listener is at `store`.
fn front_end(program: PathBuf, setup: &Setup, store: &str) -> Launch {
    let mut launch = Launch::new("millrace-tsm", program, setup, Probe::Http("http", "/ready"));
    launch.argument("tsm").argument("--store").argument(format!("grpc://{store}"));
    launch.argument("--http").argument(setup.address("http"));
    // The server's directory has the temporary one of the front end, which is so removed even if that is killed.
    launch.environment.push(("TMPDIR", setup.data().into_os_string()));
    launch
}

/// Names of the program's listeners: its flags that take an address.
fn listeners(program: &Path) -> Result<Vec<String>> {
    let help = find::output(Command::new(program).args(["serve", "--help"]))?;
    let name = |line: &str| Some(line.trim_start().strip_prefix("--")?.split_once(" <ADDR>")?.0.to_owned());
    Ok(help.lines().filter_map(name).collect())
}
