//! Options of a run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::report;
use crate::result::RunResult;
use crate::run::Order;
use crate::run::target_server::TargetServerOptions;

pub(super) const EXAMPLES: &str = "\
Examples:
  millrace bench iot
  millrace bench iot --target 'millrace?write=line' --target victoriametrics --repeat 5 --json r.json --html r.html
  millrace bench iot --seconds 10 --set DATA_CLIENT_NUMBER=8 --set BATCH_SIZE_PER_WRITE=1000
  millrace bench iot --find-rate 20          highest rate of writes whose 99th percentile is below 20 ms
  millrace bench iot --kill-server           SIGKILL in the middle of the writes; nothing acknowledged may be lost";

pub(super) const EXAMPLES_TSBS: &str = "\
Examples:
  millrace bench tsbs                        100 hosts, three days: 25.9 million points, then each kind 200 times
  millrace bench tsbs --set DEVICE_NUMBER=4000 --set DEVICE_NUM_PER_WRITE=1000 --set BATCH_SIZE_PER_WRITE=10 --set LOOP=2592
                                             the 4,000 hosts of most publications: 1.04 billion points";

/// What every run understands.
#[derive(clap::Args, Clone)]
pub(crate) struct RunOptions {
    /// Product to measure: NAME (a private server is started) or NAME://HOST:PORT…; may be given several times.
    #[arg(long, value_name = "TARGET")]
    pub(super) target: Vec<String>,
    /// IoT-benchmark's configuration: its directory, or the file.
    #[arg(long, value_name = "PATH")]
    pub(super) config: Option<PathBuf>,
    /// A key of the configuration (`millrace bench keys` lists them); TARGET:KEY=VALUE is for that target alone.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,
    /// Reproduce the original's quirks where they change what is measured.
    #[arg(long)]
    compat: bool,
    /// No progress, results only.
    #[arg(long, short)]
    pub(super) quiet: bool,
    /// Print the configuration, IoT-benchmark's matrices and a statement of each kind as well.
    #[arg(long, short)]
    pub(super) verbose: bool,
    /// Run everything so many times, targets taking turns.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) repeat: u32,
    /// Write for so long (RUN_SECONDS).
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// Requests a second on a fixed schedule (RATE), latencies from the moment each is due.
    #[arg(long, value_name = "PER_SECOND")]
    rate: Option<f64>,
    /// Ask each kind of question so many times after the writes (QUERY_COUNT).
    #[arg(long, value_name = "N")]
    queries: Option<u64>,
    /// Clients that ask, several numbers one after the other; as many as write if not said.
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    query_clients: Vec<usize>,
    /// Search the highest rate of writes at which the 99th percentile stays below this many milliseconds.
    #[arg(long, value_name = "P99_MS")]
    find_rate: Option<f64>,
    /// Kill the private server (SIGKILL) in the middle of the writes and start it again.
    #[arg(long)]
    kill_server: bool,
    /// Check nothing (VERIFY=false).
    #[arg(long)]
    no_verify: bool,
    /// Write the results to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a report with charts to this file; it opens without a network.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Give private servers a file system of their own of this size (root, in memory): they meet a full disk.
    #[arg(long, value_name = "MIB")]
    server_disk: Option<u64>,
    /// Coordinate a run of several tools here, doing nothing else: PORT on loopback, or ADDRESS:PORT.
    #[arg(long, value_name = "ADDR", requires = "members", help_heading = "Several tools as one run")]
    pub(super) cluster_listen: Option<String>,
    /// How many tools take part.
    #[arg(long, value_name = "N", requires = "cluster_listen", help_heading = "Several tools as one run")]
    pub(super) members: Option<u64>,
    /// Take part in the run that is coordinated there, with the devices that it deals to this tool.
    #[arg(long, value_name = "ADDR", conflicts_with = "cluster_listen", help_heading = "Several tools as one run")]
    pub(super) cluster_join: Option<String>,
    /// Word that all of them must know; it is not encrypted on the network.
    #[arg(long, value_name = "TOKEN", env = "MILLRACE_CLUSTER_TOKEN", hide_env_values = true, default_value = "")]
    #[arg(help_heading = "Several tools as one run")]
    pub(super) cluster_token: String,
    /// Where private servers get their directories.
    #[arg(long, value_name = "DIR")]
    server_dir: Option<PathBuf>,
    /// A setting of private servers in the product's own words.
    #[arg(long, value_name = "KEY=VALUE")]
    server_set: Vec<String>,
    /// Memory private servers are told to use.
    #[arg(long, value_name = "MIB")]
    server_memory: Option<u32>,
    /// Process of a server that was not started here, to measure its CPU; found by its port if on this machine.
    #[arg(long, value_name = "PID")]
    server_pid: Vec<u32>,
    /// Data directory of a server that was not started here, to measure its size.
    #[arg(long, value_name = "DIR")]
    server_data: Vec<PathBuf>,
}

impl RunOptions {
    /// Options that stand for keys.
    pub(super) fn settings(&self) -> Vec<(&'static str, String)> {
        let mut settings = Vec::new();
        let mut set = |key, value: Option<String>| settings.extend(value.map(|value| (key, value)));
        set("COMPAT", self.compat.then(|| "true".to_owned()));
        set("VERIFY", self.no_verify.then(|| "false".to_owned()));
        set("RUN_SECONDS", self.seconds.map(|seconds| seconds.to_string()));
        set("RATE", self.rate.map(|rate| rate.to_string()));
        set("QUERY_COUNT", self.queries.map(|count| count.to_string()));
        settings
    }

    /// Everything else.
    pub(super) fn order(&self, workload: &str) -> Result<Order> {
        let pair = |text: &String| {
            let pair = text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
            pair.ok_or_else(|| Error::setup(format!("--server-set {text:?}: expected KEY=VALUE")))
        };
        Ok(Order {
            workload: workload.to_owned(),
            command: super::cluster::command_line(std::env::args()),
            placing: TargetServerOptions {
                parent_dir: self.server_dir.clone(),
                disk_mib: self.server_disk,
                settings: self.server_set.iter().map(pair).collect::<Result<_>>()?,
                memory_mib: self.server_memory,
                pids: self.server_pid.clone(),
                dirs: self.server_data.clone(),
            },
            kill_server: self.kill_server,
            query_clients: self.query_clients.clone(),
            find_rate_p99: self.find_rate.map(|millis| Duration::from_secs_f64(millis / 1e3)),
            member: None,
        })
    }

    /// Options beside the configuration that all tools of one run must share, as they would be typed.
    pub(super) fn shared(&self) -> String {
        let clients: Vec<String> = self.query_clients.iter().map(usize::to_string).collect();
        if clients.is_empty() { String::new() } else { format!("--query-clients {}", clients.join(",")) }
    }

    /// An option that has no meaning in a run of several tools.
    pub(super) fn not_in_a_cluster(&self) -> Option<&'static str> {
        let given = [
            ("--repeat", self.repeat > 1),
            ("--find-rate", self.find_rate.is_some()),
            ("--kill-server", self.kill_server),
        ];
        given.iter().find(|(_, given)| *given).map(|(option, _)| *option)
    }

    /// Writes the files asked for.
    pub(super) fn write(&self, results: &[RunResult]) -> Result<()> {
        let report = report::json::Report::new(results.to_vec());
        if let Some(path) = &self.json {
            report.write(path)?;
        }
        if let Some(path) = &self.html {
            report::html::write(&report, path)?;
        }
        Ok(())
    }

    /// Lists the files that [`RunOptions::write`] has written.
    pub(super) fn say_files(&self) {
        say_files([&self.json, &self.html]);
    }
}

/// Lists files that were asked for and written: the last lines of a command.
pub(super) fn say_files<const FILES: usize>(files: [&Option<PathBuf>; FILES]) {
    files.into_iter().flatten().for_each(|path| say(path));
}

pub(super) fn say(path: &Path) {
    println!("written: {}", path.display());
}
