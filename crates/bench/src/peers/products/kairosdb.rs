//! KairosDB on its bundled H2 store. Its production store is Cassandra, which is not available
//! here: this peer tests the protocol, and its speed says nothing about KairosDB in production.
//!
//! Disabled: the module that writes the server's own metrics among the data, and addresses other
//! than loopback.

use super::{LOGBACK, Launch, Recipe, Setup};
use crate::peers::{Durability, Result, find, probe::Probe};

pub(super) const PORTS: &[&str] = &["http", "telnet"];

pub(super) fn recipe(setup: &Setup) -> Result<Recipe> {
    let (home, version) = find::tool("kairosdb", "lib")?;
    let java = find::java()?;
    let logback = setup.write_conf("logback.xml", LOGBACK)?;
    let file = setup.write_conf("kairosdb.conf", &(setup.settings(&settings(setup)).join("\n") + "\n"))?;
    let heap = setup.memory_mib_or(2048);
    let mut launch = Launch::new("kairosdb", java, setup, Probe::Http("http", "/api/v1/health/check"));
    launch.argument(format!("-Xmx{heap}m"));
    launch.argument(format!("-Dlogback.configurationFile={}", logback.display()));
    // KairosDB predates Java's modules: one of its libraries defines classes, and another reads
    // list internals by reflection (without that, every query that groups by a tag fails with
    // status 500).
    launch.arguments(["--add-opens", "java.base/java.lang=ALL-UNNAMED"]);
    launch.arguments(["--add-opens", "java.base/java.util=ALL-UNNAMED"]);
    launch.argument("-cp").argument(format!("{}/lib/*", home.display()));
    launch.arguments(["org.kairosdb.core.Main", "-c", "run", "-p"]).argument(file);
    Ok(Recipe {
        version,
        launches: vec![launch],
        data_dirs: vec![setup.data().join("h2db")],
        log_dirs: Vec::new(),
        stop_signal: libc::SIGTERM,
        durability: (Durability::Process, "H2 writes what is committed within its WRITE_DELAY, 500 ms".to_owned()),
        settings: setup.settings(&[("heap", format!("{heap}MiB"))]),
        notes: Vec::new(),
    })
}

fn settings(setup: &Setup) -> Vec<(&'static str, String)> {
    let port = |name: &str| setup.ports[name].to_string();
    let folder = |name: &str| format!("{:?}", setup.data().join(name).display().to_string());
    vec![
        ("kairosdb.telnetserver.address", "\"127.0.0.1\"".to_owned()),
        ("kairosdb.telnetserver.port", port("telnet")),
        ("kairosdb.jetty.address", "\"127.0.0.1\"".to_owned()),
        ("kairosdb.jetty.port", port("http")),
        ("kairosdb.service.reporter", "\"<disabled>\"".to_owned()),
        ("kairosdb.datastore.h2.database_path", folder("h2db")),
        ("kairosdb.query_cache.cache_dir", folder("cache")),
    ]
}
