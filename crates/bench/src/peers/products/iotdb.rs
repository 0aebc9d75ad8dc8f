//! Apache IoTDB: one ConfigNode and one DataNode, replication factor 1.
//!
//! It listens on every address regardless of its configuration, so it runs in its own network
//! namespace. The DataNode's heap is 5 GiB: with 1 GiB it refuses writes under load ("memory is not
//! enough"), and its default, half of the machine, leaves too little for the client. Java gets the
//! same flags as from IoTDB's start scripts. It becomes read-only when 1 % of the disk is left, not
//! 5 %, which of a large disk is more than a test or a benchmark needs. Other settings are IoTDB's
//! defaults.

use super::{LOGBACK, Launch, Recipe, Setup};
use crate::peers::{Durability, Result, find, probe::Probe};
use std::path::Path;

pub(super) const PORTS: &[&str] =
    &["cn_consensus", "cn_internal", "data_consensus", "exchange", "internal", "rpc", "schema_consensus"];

/// Java modules that IoTDB's start scripts open to it.
const OPENED: [&str; 7] =
    ["java.lang", "java.util", "java.util.concurrent", "java.nio", "sun.nio.ch", "java.io", "java.net"];

/// Small, because the ConfigNode holds only the catalog.
const CONFIG_NODE_HEAP_MIB: u32 = 512;
const DATA_NODE_HEAP_MIB: u32 = 5120;
/// Heap bytes for each byte of direct buffers; IoTDB's scripts use the same ratio.
const DIRECT_SHARE: u32 = 4;

pub(super) fn recipe(setup: &Setup) -> Result<Recipe> {
    let (home, version) = find::tool("iotdb", "lib")?;
    let java = find::java()?;
    setup.write_conf("logback.xml", LOGBACK)?;
    setup.write_conf("iotdb-system.properties", &(setup.settings(&properties(setup)).join("\n") + "\n"))?;

    let heap = setup.memory_mib_or(DATA_NODE_HEAP_MIB);
    let mut config_node = Launch::new("confignode", java.clone(), setup, Probe::Listens("cn_internal"));
    arguments(&mut config_node, setup, &home, CONFIG_NODE_HEAP_MIB, "org.apache.iotdb.confignode.service.ConfigNode");
    // The probe uses the binary encoding, which is the server's default.
    let compact = setup.options.setting("dn_rpc_thrift_compression_enable") == Some("true");
    let answers = if compact { Probe::Listens("rpc") } else { Probe::IoTDb("rpc") };
    let mut data_node = Launch::new("datanode", java, setup, answers);
    arguments(&mut data_node, setup, &home, heap, "org.apache.iotdb.db.service.DataNode");

    let data = setup.data();
    let mode = setup.options.setting("wal_mode").unwrap_or("ASYNC");
    let level = if mode.eq_ignore_ascii_case("SYNC") { Durability::Disk } else { Durability::Process };
    Ok(Recipe {
        version,
        launches: vec![config_node, data_node],
        log_dirs: vec![data.join("datanode/wal")],
        data_dirs: vec![data],
        stop_signal: libc::SIGTERM,
        durability: (level, format!("wal_mode={mode}")),
        settings: setup.settings(&[("heap", format!("{heap}MiB"))]),
        notes: Vec::new(),
    })
}

fn properties(setup: &Setup) -> Vec<(&'static str, String)> {
    let host = || "127.0.0.1".to_owned();
    let port = |name: &str| setup.ports[name].to_string();
    let folder = |name: &str| setup.data().join(name).display().to_string();
    vec![
        ("cluster_name", "bench".to_owned()),
        ("disk_space_warning_threshold", "0.01".to_owned()),
        ("cn_internal_address", host()),
        ("cn_internal_port", port("cn_internal")),
        ("cn_consensus_port", port("cn_consensus")),
        ("cn_seed_config_node", setup.address("cn_internal")),
        ("cn_system_dir", folder("confignode/system")),
        ("cn_consensus_dir", folder("confignode/consensus")),
        ("dn_rpc_address", host()),
        ("dn_rpc_port", port("rpc")),
        ("dn_internal_address", host()),
        ("dn_internal_port", port("internal")),
        ("dn_mpp_data_exchange_port", port("exchange")),
        ("dn_schema_region_consensus_port", port("schema_consensus")),
        ("dn_data_region_consensus_port", port("data_consensus")),
        ("dn_seed_config_node", setup.address("cn_internal")),
        ("dn_system_dir", folder("datanode/system")),
        ("dn_data_dirs", folder("datanode/data")),
        ("dn_consensus_dir", folder("datanode/consensus")),
        ("dn_wal_dirs", folder("datanode/wal")),
        ("dn_tracing_dir", folder("datanode/tracing")),
        ("dn_sync_dir", folder("datanode/sync")),
        ("schema_replication_factor", "1".to_owned()),
        ("data_replication_factor", "1".to_owned()),
    ]
}

fn arguments(launch: &mut Launch, setup: &Setup, home: &Path, heap_mib: u32, main: &str) {
    let direct_mib = heap_mib / DIRECT_SHARE;
    launch.argument(format!("-Xms{heap_mib}m")).argument(format!("-Xmx{heap_mib}m")).argument("-Xss512k");
    launch.argument(format!("-XX:MaxDirectMemorySize={direct_mib}m"));
    // Limit of the buffer cached by each thread, for up to a thousand threads.
    launch.argument(format!("-Djdk.nio.maxCachedBufferSize={}", u64::from(direct_mib) * 1024 * 1024 / 1000));
    for module in OPENED {
        launch.argument("--add-opens").argument(format!("java.base/{module}=ALL-UNNAMED"));
    }
    launch.argument("--add-exports").argument("java.base/jdk.internal.misc=ALL-UNNAMED");
    let conf = setup.dir.join("conf");
    for (name, value) in [("CONFIGNODE_HOME", setup.dir), ("IOTDB_HOME", setup.dir)] {
        launch.argument(format!("-D{name}={}", value.display()));
    }
    for name in ["CONFIGNODE_CONF", "IOTDB_CONF"] {
        launch.argument(format!("-D{name}={}", conf.display()));
    }
    launch.argument(format!("-Dlogback.configurationFile={}", conf.join("logback.xml").display()));
    launch.argument("-cp").argument(format!("{}:{}/lib/*", conf.display(), home.display()));
    launch.argument(main).argument("-s");
}
