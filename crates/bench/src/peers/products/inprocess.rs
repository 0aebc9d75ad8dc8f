//! DuckDB and ClickHouse (as chdb): embedded databases. A Python program of this tool hosts them
//! and forwards requests from loopback; its overhead counts as theirs.
//!
//! Settings are their `SET NAME = VALUE` statements (for DuckDB, configuration options).

use std::path::Path;

use super::{Launch, Recipe, Setup};
use crate::error::{Error, Result};
use crate::peers::{Durability, Product, find, probe::Probe};

pub(super) const PORTS: &[&str] = &["http"];

const SERVER: &str = include_str!("inprocess.py");

pub(super) fn recipe(setup: &Setup, product: Product) -> Result<Recipe> {
    let name = product.name();
    let package = if product == Product::DuckDb { "duckdb" } else { "chdb" };
    let (home, _) = find::tool("python", "bin/python")?;
    let version = version_of(&home, package)?;
    let script = setup.write_conf("inprocess.py", SERVER)?;
    let mut launch = Launch::new(name, home.join("bin/python"), setup, Probe::Http("http", "/version"));
    let settings = setup.settings(&[]);
    launch.argument(script).argument(name).argument(setup.data()).argument(setup.ports["http"].to_string());
    launch.argument(setup.memory_mib_or(0).to_string()).arguments(&settings);
    let durability = match product {
        Product::DuckDb => (Durability::Disk, "each INSERT commits with an fsync of the log".to_owned()),
        _ => (Durability::OperatingSystem, "a part of a MergeTree is not synced (fsync_after_insert = 0)".to_owned()),
    };
    Ok(Recipe {
        version,
        launches: vec![launch],
        data_dirs: vec![setup.data()],
        log_dirs: Vec::new(),
        stop_signal: libc::SIGTERM,
        durability,
        settings,
        notes: Vec::new(),
    })
}

/// Returns the version of an installed Python package, from its folder `NAME-VERSION.dist-info`.
fn version_of(home: &Path, package: &str) -> Result<String> {
    let lib = home.join("lib");
    let prefix = format!("{package}-");
    let folders =
        |path: &Path| std::fs::read_dir(path).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    folders(&lib)
        .flat_map(|python| folders(&python.join("site-packages")).collect::<Vec<_>>())
        .find_map(|path| {
            let name = path.file_name()?.to_str()?.strip_suffix(".dist-info")?.strip_prefix(&prefix)?;
            Some(name.to_owned())
        })
        .ok_or_else(|| {
            let place = home.display();
            Error::setup(format!("Python package {package} is not in {place}; fetch it: cargo xtask tools --peers"))
        })
}
