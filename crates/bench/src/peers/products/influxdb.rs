//! InfluxDB 1.x with the index its makers recommend (tsi1).
//!
//! - limits on series, tag values and request bodies are off, and a shard may hold 4 GiB unwritten: by default it
//!   refuses the writes of a fast client at 1 GiB.
//! - a shard that is written no more is put into its last form within a minute instead of hours, so that the bytes it
//!   takes can be measured in the same run.
//! - its statistics of itself, and a log line for each request, are off.
//!
//! `wal-fsync-delay` is the default, 0: each write is synced before its answer.

use std::collections::BTreeMap;

use super::{Launch, Recipe, Setup};
use crate::peers::{Durability, Error, Result, find, probe::Probe};

pub(super) const PORTS: &[&str] = &["http", "rpc"];

pub(super) fn recipe(setup: &Setup) -> Result<Recipe> {
    if setup.options.memory_mib.is_some() {
        return Err(Error::setup("influxdb 1.x has no setting for its memory: leave it out".to_owned()));
    }
    let (home, version) = find::tool("influxdb", "usr/bin/influxd")?;
    let settings = setup.settings(&settings());
    let file = setup.write_conf("influxdb.conf", &toml(setup, &settings)?)?;
    let mut launch = Launch::new("influxdb", home.join("usr/bin/influxd"), setup, Probe::Http("http", "/ping"));
    launch.argument("run").argument("-config").argument(file);
    // Where it looks for a home, and it insists on one.
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

/// Where it lives, and then the settings by section, of which the last of a name wins.
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
