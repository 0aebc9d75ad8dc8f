//! QuestDB with its defaults but for addresses and telemetry.
//!
//! Java: the collector of its own start script, and a heap of 4 GiB. Data is outside the heap, in mapped files.

use super::{Launch, Recipe, Setup};
use crate::peers::{Durability, Result, at, find, probe::Probe};

pub(super) const PORTS: &[&str] = &["health", "http", "ilp", "pg"];

pub(super) fn recipe(setup: &Setup) -> Result<Recipe> {
    let (home, version) = find::tool("questdb", "lib")?;
    let java = find::java()?;
    // QuestDB wants its `conf` inside its root; the root is our `data`.
    let root = setup.data();
    let conf = root.join("conf");
    std::fs::create_dir_all(&conf).map_err(|error| at(&conf, error))?;
    let addresses = [
        ("http.bind.to", setup.address("http")),
        ("http.min.net.bind.to", setup.address("health")),
        ("line.tcp.net.bind.to", setup.address("ilp")),
        ("pg.net.bind.to", setup.address("pg")),
        ("line.udp.enabled", "false".to_owned()),
        ("telemetry.enabled", "false".to_owned()),
    ];
    let file = conf.join("server.conf");
    let text = setup.settings(&addresses).join("\n") + "\n";
    std::fs::write(&file, text).map_err(|error| at(&file, error))?;

    let probe = Probe::All(vec![
        Probe::Http("health", "/status"),
        Probe::Http("http", "/exec?query=select%201"),
        Probe::Postgres { port: "pg", user: "admin", database: "qdb" },
    ]);
    let heap = setup.memory_mib_or(4096);
    let mut launch = Launch::new("questdb", java, setup, probe);
    launch.arguments(["-XX:+UseParallelGC".to_owned(), format!("-Xmx{heap}m"), "-p".to_owned()]);
    launch.argument(home.join("lib").join(format!("questdb-{version}.jar")));
    launch.arguments(["-m", "io.questdb/io.questdb.ServerMain", "-d"]).argument(&root);
    let commit = setup.options.setting("cairo.commit.mode").unwrap_or("nosync");
    let level = if commit == "sync" { Durability::Disk } else { Durability::OperatingSystem };
    Ok(Recipe {
        version,
        launches: vec![launch],
        // Its write-ahead log lies inside each table's folder.
        data_dirs: vec![root.join("db")],
        log_dirs: Vec::new(),
        stop_signal: libc::SIGTERM,
        durability: (level, format!("cairo.commit.mode={commit}")),
        settings: setup.settings(&[("heap", format!("{heap}MiB"))]),
        notes: notes(),
    })
}

/// Each open column of each table is a mapping or more; beyond the limit, writes fail.
const MAPPINGS: u64 = 1 << 20;

fn notes() -> Vec<String> {
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    match text.trim().parse::<u64>() {
        Ok(allowed) if allowed < MAPPINGS => vec![format!(
            "vm.max_map_count is {allowed} and QuestDB asks for {MAPPINGS}, which tables of thousands of columns need: \
             sysctl -w vm.max_map_count={MAPPINGS}"
        )],
        _ => Vec::new(),
    }
}
