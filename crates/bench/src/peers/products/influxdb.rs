//! InfluxDB 1.x with the index that its vendor recommends (tsi1).
//!
//! - Limits on series, tag values and request bodies are off, and a shard may hold 4 GiB of
//!   unwritten data: the default of 1 GiB makes it refuse the writes of a fast client.
//! - A shard without writes is fully compacted within a minute instead of hours, so that its disk
//!   space can be measured in the same run.
//! - Internal statistics and the log line for each request are off.
//!
//! `wal-fsync-delay` is the default, 0: each write is synced before it is acknowledged.

use std::collections::BTreeMap;

use super::{Launch, Recipe, Setup};
use crate::peers::{Durability, Error, Result, find, probe::Probe};

pub(super) const PORTS: &[&str] = &["http", "rpc"];

pub(super) fn recipe(setup: &Setup) -> Result<Recipe> {
    if setup.options.memory_mib.is_some() {
        return Err(Error::setup("influxdb 1.x has no memory setting: omit it".to_owned()));
    }
    let (home, version) = find::tool("influxdb", "usr/bin/influxd")?;
    let settings = setup.settings(&settings());
    let file = setup.write_conf("influxdb.conf", &toml(setup, &settings)?)?;
    let mut launch = Launch::new("influxdb", home.join("usr/bin/influxd"), setup, Probe::Http("http", "/ping"));
    launch.argument("run").argument("-config").argument(file);
    // The server requires a HOME directory.
    launch.environment.push(("HOME", setup.dir.into()));
    let delay = setup.options.setting("data.wal-fsync-delay").unwrap_or("\"0s\"").trim_matches('"');
    Ok(Recipe {
        version,
        launches: vec![launch],
        data_dirs: vec![setup.data()],
        log_dirs: vec![setup.data().join("wal")],
        stop_signal: libc::SIGTERM,
        durability: (Durability::Disk, format!("wal-fsync-delay={delay}")),
        settings,
        notes: Vec::new(),
    })
}

fn settings() -> Vec<(&'static str, String)> {
    let pairs = [
        ("data.index-version", "\"tsi1\""),
        ("data.cache-max-memory-size", "\"4g\""),
        ("data.max-series-per-database", "0"),
        ("data.max-values-per-tag", "0"),
        ("data.query-log-enabled", "false"),
        ("data.cache-snapshot-write-cold-duration", "\"30s\""),
        ("data.compact-full-write-cold-duration", "\"1m\""),
        ("http.max-body-size", "0"),
        ("http.log-enabled", "false"),
        ("monitor.store-enabled", "false"),
    ];
    pairs.into_iter().map(|(name, value)| (name, value.to_owned())).collect()
}

/// Renders the configuration: paths first, then the settings by section; the last setting of a name
/// wins.
fn toml(setup: &Setup, settings: &[String]) -> Result<String> {
    let quoted = |text: String| format!("{text:?}");
    let folder = |name: &str| quoted(setup.data().join(name).display().to_string());
    let mut sections: BTreeMap<&str, BTreeMap<&str, String>> = BTreeMap::new();
    for (section, key, value) in [
        ("meta", "dir", folder("meta")),
        ("data", "dir", folder("data")),
        ("data", "wal-dir", folder("wal")),
        ("http", "bind-address", quoted(setup.address("http"))),
        ("ifql", "enabled", "false".to_owned()),
    ] {
        sections.entry(section).or_default().insert(key, value);
    }
    for setting in settings {
        let parts = setting.split_once('=').and_then(|(name, value)| Some((name.split_once('.')?, value)));
        let ((section, key), value) =
            parts.ok_or_else(|| Error::setup(format!("influxdb: setting {setting:?}: expected SECTION.KEY=VALUE")))?;
        sections.entry(section).or_default().insert(key, value.to_owned());
    }
    let mut text = format!("reporting-disabled = true\nbind-address = {:?}\n", setup.address("rpc"));
    for (section, pairs) in &sections {
        text.push_str(&format!("[{section}]\n"));
        for (key, value) in pairs {
            text.push_str(&format!("{key} = {value}\n"));
        }
    }
    Ok(text)
}
