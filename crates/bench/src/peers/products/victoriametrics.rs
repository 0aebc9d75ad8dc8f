//! VictoriaMetrics, single node.
//!
//! - `retentionPeriod`: benchmark data may be of any year, and data older than the retention is
//!   refused.
//! - `search.latencyOffset`: by default, queries do not see the newest 30 s, which a benchmark
//!   reads.
//! - Query limits are raised, because checking an answer may read every series and every sample:
//!   the default of 300,000 series is just that of the smallest published use case. A query text
//!   may name a thousand devices.
//! - `influx.maxLineSize`: a device with some thousand sensors is one line.

use super::{Launch, Recipe, Setup};
use crate::peers::{Durability, Result, find, probe::Probe};

pub(super) const PORTS: &[&str] = &["http", "opentsdb", "opentsdb_http"];

pub(super) fn recipe(setup: &Setup) -> Result<Recipe> {
    let (home, version) = find::tool("victoriametrics", "usr/bin/victoria-metrics")?;
    let mut launch =
        Launch::new("victoriametrics", home.join("usr/bin/victoria-metrics"), setup, Probe::Http("http", "/health"));
    launch.argument("-storageDataPath").argument(setup.data());
    launch.argument(format!("-httpListenAddr={}", setup.address("http")));
    launch.argument(format!("-opentsdbListenAddr={}", setup.address("opentsdb")));
    launch.argument(format!("-opentsdbHTTPListenAddr={}", setup.address("opentsdb_http")));
    let mut ours = vec![
        ("retentionPeriod", "100y".to_owned()),
        ("search.latencyOffset", "0s".to_owned()),
        ("search.maxUniqueTimeseries", "10000000".to_owned()),
        ("search.maxSeries", "10000000".to_owned()),
        ("search.maxSamplesPerQuery", "100000000000".to_owned()),
        ("search.maxQueryDuration", "10m".to_owned()),
        ("search.maxQueryLen", "1MB".to_owned()),
        ("influx.maxLineSize", "16MB".to_owned()),
    ];
    if let Some(mib) = setup.options.memory_mib {
        ours.push(("memory.allowedBytes", format!("{mib}MiB")));
    }
    let settings = setup.settings(&ours);
    launch.arguments(settings.iter().map(|setting| format!("-{setting}")));
    Ok(Recipe {
        version,
        launches: vec![launch],
        data_dirs: vec![setup.data()],
        log_dirs: Vec::new(),
        stop_signal: libc::SIGINT,
        durability: (Durability::Process, "no log: parts in memory are written within seconds".to_owned()),
        settings,
        notes: Vec::new(),
    })
}
