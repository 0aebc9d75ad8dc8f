//! QuestDB with default settings except for addresses, telemetry, and page sizes for thousands of
//! columns.
//!
//! Every column of a table and of its write-ahead log is a file that grows by whole pages: by
//! default 16 MiB for the table, 1 MiB for the log, and 8 MiB of memory for out-of-order rows.
//! QuestDB's manual ("Optimize disk and memory usage with many tables") recommends smaller pages
//! for many tables: 3,000 columns would take 48 GB before their first row.
//!
//! Java: the garbage collector of QuestDB's start script and a heap of 4 GiB. Data is outside the
//! heap, in mapped files.

use super::{Launch, Recipe, Setup};
use crate::peers::{Durability, Result, at, find, probe::Probe};

pub(super) const PORTS: &[&str] = &["health", "http", "ilp", "pg"];

pub(super) fn recipe(setup: &Setup) -> Result<Recipe> {
    let (home, version) = find::tool("questdb", "lib")?;
    let java = find::java()?;
    // QuestDB requires `conf` inside its root directory, which is our `data`.
    let root = setup.data();
    let conf = root.join("conf");
    std::fs::create_dir_all(&conf).map_err(|error| at(&conf, error))?;
    let addresses = [
        ("http.bind.to", setup.address("http")),
        ("http.min.net.bind.to", setup.address("health")),
        ("line.tcp.net.bind.to", setup.address("ilp")),
        ("pg.net.bind.to", setup.address("pg")),
        // The default is 64: a benchmark may have more clients, and the others would wait
        // indefinitely.
        ("pg.net.connection.limit", "1024".to_owned()),
        ("http.net.connection.limit", "1024".to_owned()),
        ("line.udp.enabled", "false".to_owned()),
        ("telemetry.enabled", "false".to_owned()),
    ];
    let file = conf.join("server.conf");
    let pages = pages(setup.options.columns);
    let ours: Vec<(&str, String)> = addresses.into_iter().chain(pages.clone()).collect();
    let text = setup.settings(&ours).join("\n") + "\n";
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
        // The write-ahead log is inside each table's folder.
        data_dirs: vec![root.join("db")],
        log_dirs: Vec::new(),
        stop_signal: libc::SIGTERM,
        durability: (level, format!("cairo.commit.mode={commit}")),
        settings: setup.settings(&[vec![("heap", format!("{heap}MiB"))], pages].concat()),
        notes: notes(),
    })
}

/// Maximum bytes of the pages of all columns together, for each kind of page.
const PAGES_TOGETHER: u64 = 2 << 30;
const PAGE_MIN: u64 = 64 << 10;

/// Smaller page sizes than the defaults, if there are many columns.
fn pages(columns: u64) -> Vec<(&'static str, String)> {
    let fair = PAGES_TOGETHER / columns.max(1);
    let page = if fair.is_power_of_two() { fair } else { fair.next_power_of_two() / 2 }.max(PAGE_MIN);
    let defaults = [
        ("cairo.writer.data.append.page.size", 16 << 20),
        ("cairo.o3.column.memory.size", 8 << 20),
        ("cairo.wal.writer.data.append.page.size", 1 << 20),
    ];
    let smaller = defaults.into_iter().filter(|(_, default)| page < *default);
    smaller.map(|(name, _)| (name, page.to_string())).collect()
}

/// Required `vm.max_map_count`: each open column of a table needs at least one mapping, and writes
/// fail beyond the limit.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_sizes_are_the_defaults_below_many_columns() {
        assert_eq!(pages(0), []);
        assert_eq!(pages(128), []);
        let of = |columns| pages(columns).into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>();
        assert_eq!(of(300), ["4194304", "4194304"]);
        assert_eq!(of(3_000), ["524288", "524288", "524288"]);
        assert_eq!(of(1_000_000), ["65536", "65536", "65536"]);
    }
}
