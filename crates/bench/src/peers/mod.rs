//! Private servers: the products a run measures, each started on a directory of its own and on loopback only.
//!
//! [`start`] writes the product's configuration, starts its processes and returns when it answers its own protocol.
//! The [`Server`] can then be killed, restarted on the same directory and ports, and stopped. What is fetched, from
//! where and why with which settings is written in docs/manual/benchmark-peers.md.
//!
//! Always true:
//! - No socket of a server can be reached from another machine. IoTDB, which cannot be told to bind loopback, gets a
//!   network namespace of its own; threads enter it by [`Server::enter_netns`].
//! - A server ends with this process, however this process ends.
//! - A directory belongs to one product; its ports are written in it, so that a restart uses the same ones.
//!
//! Layout of a directory: `peer.txt` (product and ports), `conf/`, `data/` and `log/`, one log for each process.
//!
//! Not here: measuring the processes, speaking the products' protocols beyond "are you there".

mod find;
mod network;
mod ports;
mod probe;
mod process;
mod products;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use find::{python, tool};
pub use network::Network;
pub use process::processes_of;

use crate::error::{Error, Result};
use process::Process;
use products::Recipe;

/// What can be started here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Product {
    /// The database this tool belongs to. Ports `pg`, `http`, `health`.
    Millrace,
    /// PostgreSQL. Port `pg`; user `postgres`, database `postgres`, no password.
    Postgres,
    /// QuestDB. Ports `pg` (user `admin`, password `quest`, database `qdb`), `http` (line protocol and SQL), `ilp`
    /// (line protocol over TCP), `health`.
    QuestDb,
    /// Apache IoTDB, one ConfigNode and one DataNode. Port `rpc`, inside the server's network; user `root`, password
    /// `root`.
    IoTDb,
    /// VictoriaMetrics. Ports `http`, `opentsdb` (telnet `put`), `opentsdb_http`.
    VictoriaMetrics,
    /// InfluxDB 1.x. Ports `http`, `rpc` (backups).
    InfluxDb,
    /// KairosDB on its embedded H2 store. Ports `http`, `telnet`.
    KairosDb,
    /// MariaDB. Port `mysql`; user `root` without a password.
    MariaDb,
    /// DuckDB in a process of ours. Port `http`, of that process' own protocol.
    DuckDb,
    /// ClickHouse (chdb) in a process of ours. Port `http`, of that process' own protocol.
    ClickHouse,
}

impl Product {
    /// All of them.
    pub const ALL: [Product; 10] = [
        Product::Millrace,
        Product::Postgres,
        Product::QuestDb,
        Product::IoTDb,
        Product::VictoriaMetrics,
        Product::InfluxDb,
        Product::KairosDb,
        Product::MariaDb,
        Product::DuckDb,
        Product::ClickHouse,
    ];

    /// The name in file names and on the command line, like `questdb`.
    pub fn name(self) -> &'static str {
        match self {
            Product::Millrace => "millrace",
            Product::Postgres => "postgres",
            Product::QuestDb => "questdb",
            Product::IoTDb => "iotdb",
            Product::VictoriaMetrics => "victoriametrics",
            Product::InfluxDb => "influxdb",
            Product::KairosDb => "kairosdb",
            Product::MariaDb => "mariadb",
            Product::DuckDb => "duckdb",
            Product::ClickHouse => "clickhouse",
        }
    }

    /// The product of a [`Product::name`].
    pub fn named(name: &str) -> Option<Product> {
        Product::ALL.into_iter().find(|product| product.name() == name)
    }
}

/// How to start a product. [`Options::default`] is what a benchmark wants.
#[derive(Debug, Clone)]
pub struct Options {
    /// The product's own settings, applied after ours, so that they win: `server.conf` keys for QuestDB,
    /// `iotdb-system.properties` keys for IoTDB, `section.key` for InfluxDB, `kairosdb.conf` keys for KairosDB,
    /// `postgresql.conf` names for PostgreSQL, flags without their dashes for Millrace, VictoriaMetrics and MariaDB.
    /// Values are written as the product's file wants them (quotes included, for InfluxDB and KairosDB).
    pub settings: Vec<(String, String)>,
    /// Memory the product is told to use, in MiB: the Java heap (QuestDB 4096, IoTDB's DataNode 5120, KairosDB 2048
    /// when not said), `shared_buffers` (a quarter of the machine), InnoDB's buffer pool (1024), VictoriaMetrics'
    /// caches (its own 60 % of the machine), Millrace's `--memory` (its own half of the machine). InfluxDB 1.x has no
    /// such setting and refuses it.
    pub memory_mib: Option<u32>,
    /// Columns that there will be, of all tables together; 0 when not known. Products that keep a buffer or a mapped
    /// page for each get smaller ones when there are thousands.
    pub columns: u64,
    /// How long a start may take.
    pub ready_within: Duration,
    /// How long a stop may take before the server is killed.
    pub stop_within: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            settings: Vec::new(),
            memory_mib: None,
            columns: 0,
            ready_within: Duration::from_secs(180),
            stop_within: Duration::from_secs(60),
        }
    }
}

impl Options {
    /// The last value given for a setting.
    fn setting(&self, name: &str) -> Option<&str> {
        self.settings.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Where an acknowledged write is at the moment of its acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// In the memory of the server's process: lost when the process is killed.
    Process,
    /// In the operating system's cache: lost when the machine loses power.
    OperatingSystem,
    /// Synced to the disk.
    Disk,
}

impl fmt::Display for Durability {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Durability::Process => "acknowledged in the server's memory",
            Durability::OperatingSystem => "acknowledged in the operating system's cache",
            Durability::Disk => "acknowledged after fsync",
        })
    }
}

/// A product that runs, or ran, on a directory. Dropping it stops it.
pub struct Server {
    product: Product,
    dir: PathBuf,
    options: Options,
    ports: BTreeMap<String, u16>,
    network: Option<Network>,
    recipe: Recipe,
    running: Vec<Process>,
}

/// Starts `product` on `dir`, which is empty, missing, or one it ran on before, and waits until it answers.
///
/// # Errors
/// The product is not installed (the message has the command that fetches it), the directory is another's, a process
/// ended, or it was not ready in time (the message has the end of its log). Nothing is left running.
pub fn start(product: Product, dir: &Path, options: Options) -> Result<Server> {
    let dir = prepare_dir(dir)?;
    let ports = ports::of_directory(&dir, product, products::port_names(product))?;
    let network = if products::needs_network(product) { Some(Network::create()?) } else { None };
    let recipe = products::recipe(product, &dir, &ports, &options)?;
    let mut server = Server { product, dir, options, ports, network, recipe, running: Vec::new() };
    server.launch()?;
    Ok(server)
}

/// Makes the folders, and names the directory in a way that holds for processes that start elsewhere.
fn prepare_dir(dir: &Path) -> Result<PathBuf> {
    for name in ["conf", "data", "log"] {
        let folder = dir.join(name);
        std::fs::create_dir_all(&folder).map_err(|error| at(&folder, error))?;
    }
    dir.canonicalize().map_err(|error| at(dir, error))
}

impl Server {
    /// Which product.
    pub fn product(&self) -> Product {
        self.product
    }

    /// Its version, as it says itself or as its artifact is called, like `9.3.4`.
    pub fn version(&self) -> &str {
        &self.recipe.version
    }

    /// The port called `name`, see [`Product`].
    ///
    /// # Errors
    /// The product has no port of that name.
    pub fn port(&self, name: &str) -> Result<u16> {
        self.ports.get(name).copied().ok_or_else(|| {
            let names: Vec<&str> = self.ports.keys().map(String::as_str).collect();
            Error::setup(format!("{} has no port {name:?}, but {}", self.product.name(), names.join(", ")))
        })
    }

    /// `127.0.0.1:PORT` of the port called `name`.
    ///
    /// # Errors
    /// As [`Server::port`].
    pub fn address(&self, name: &str) -> Result<String> {
        self.port(name).map(|port| format!("127.0.0.1:{port}"))
    }

    /// All ports by name.
    pub fn ports(&self) -> &BTreeMap<String, u16> {
        &self.ports
    }

    /// The folder given to [`start`].
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Folders that hold all the product keeps: count their bytes.
    pub fn data_dirs(&self) -> &[PathBuf] {
        &self.recipe.data_dirs
    }

    /// Folders inside [`Server::data_dirs`] that hold only its log of recent writes, which some products keep at a
    /// fixed size: to be shown apart from what the data takes. Empty where the log is not apart.
    pub fn log_dirs(&self) -> &[PathBuf] {
        &self.recipe.log_dirs
    }

    /// What an acknowledgement means with the settings it was started with.
    pub fn durability(&self) -> Durability {
        self.recipe.durability.0
    }

    /// The setting that makes it so, in a few words.
    pub fn durability_reason(&self) -> &str {
        &self.recipe.durability.1
    }

    /// How it was started: settings and memory, for the report.
    pub fn settings(&self) -> &[String] {
        &self.recipe.settings
    }

    /// What of this machine holds the product back, and the command that would change it. For the report: the benchmark
    /// does not change the machine.
    pub fn notes(&self) -> &[String] {
        &self.recipe.notes
    }

    /// Processes started for it; others may be their children, see [`Server::pids`].
    pub fn root_pids(&self) -> Vec<u32> {
        self.running.iter().map(Process::pid).collect()
    }

    /// All its processes at this moment.
    pub fn pids(&self) -> Vec<u32> {
        processes_of(&self.root_pids())
    }

    /// The network namespace it runs in, when it has one.
    pub fn network(&self) -> Option<&Network> {
        self.network.as_ref()
    }

    /// A task whose `/proc/ID/ns/net` is that network; the same one through kills and restarts. `None`: the machine's.
    pub fn network_of(&self) -> Option<u32> {
        self.network.as_ref().map(Network::task)
    }

    /// Moves the calling thread into the server's network, for good; sockets the thread opens from then on are in it.
    /// Does nothing where the server is in the machine's network. A program the thread starts is in the network too.
    ///
    /// # Errors
    /// The system refuses (it asks for CAP_SYS_ADMIN).
    pub fn enter_netns(&self) -> Result<()> {
        self.network.as_ref().map_or(Ok(()), Network::enter)
    }

    /// Fails when a process of the server has ended, with its status and the end of its log.
    ///
    /// # Errors
    /// As said; also when the server is stopped.
    pub fn check_alive(&mut self) -> Result<()> {
        if self.running.is_empty() {
            return Err(self.error("is stopped"));
        }
        for at in 0..self.running.len() {
            if let Some(status) = self.running[at].ended()? {
                let what = format!("process {} ended ({status}); {}", self.running[at].name(), self.running[at].tail());
                return Err(self.error(&what));
            }
        }
        Ok(())
    }

    /// Kills every process at once, as a crash would (SIGKILL), and returns when none is left.
    ///
    /// # Errors
    /// A process is still there after ten seconds.
    pub fn kill9(&mut self) -> Result<()> {
        self.kill_with(&[])
    }

    fn kill_with(&mut self, others: &[u32]) -> Result<()> {
        process::kill_all(&mut self.running, others).map_err(|what| self.error(&what))?;
        self.running.clear();
        Ok(())
    }

    /// Starts it again on the same directory and ports, after [`Server::kill9`] or [`Server::stop`], and waits until it
    /// answers.
    ///
    /// # Errors
    /// As [`start`].
    pub fn restart(&mut self) -> Result<()> {
        self.prepare_restart()?;
        self.launch()
    }

    /// The part of a restart that looks for programs and writes configuration, for who wants to time the rest.
    ///
    /// # Errors
    /// It runs, or as [`start`].
    pub fn prepare_restart(&mut self) -> Result<()> {
        if !self.running.is_empty() {
            return Err(self.error("runs; stop or kill it before a restart"));
        }
        self.recipe = products::recipe(self.product, &self.dir, &self.ports, &self.options)?;
        Ok(())
    }

    /// The other part, without waiting: executes the program and returns the moment just before that. Whoever calls it
    /// asks the server itself whether it is there, as often as it likes.
    ///
    /// # Errors
    /// The product has several processes, of which one waits for another, or the program cannot be executed.
    pub fn launch_at_once(&mut self) -> Result<Instant> {
        let [launch] = self.recipe.launches.as_slice() else {
            return Err(self.error("has several processes, which cannot be started without waiting"));
        };
        let began = Instant::now();
        let process = Process::start(launch, &self.dir.join("log"), self.network.as_ref());
        self.running.push(process.map_err(|what| self.error(&what))?);
        Ok(began)
    }

    /// Asks it to end as an operator would, and waits until no process is left. A stopped server stays stopped.
    ///
    /// # Errors
    /// It did not end in time and was killed; the message has the end of its log.
    pub fn stop(&mut self) -> Result<()> {
        let deadline = Instant::now() + self.options.stop_within;
        let mut all = self.pids();
        let mut late = None;
        // The last one started depends on the others.
        for process in self.running.iter_mut().rev() {
            process.signal(self.recipe.stop_signal);
            if !process.wait_until(deadline) && late.is_none() {
                late = Some(format!(
                    "did not stop within {:?} and was killed; {}",
                    self.options.stop_within,
                    process.tail()
                ));
            }
        }
        if late.is_some() || !process::gone_by(&all, deadline) {
            all.retain(|pid| !self.root_pids().contains(pid));
            self.kill_with(&all)?;
        }
        self.running.clear();
        late.map_or(Ok(()), |what| Err(self.error(&what)))
    }

    /// Starts the recipe's processes one after the other, each when the one before is ready.
    fn launch(&mut self) -> Result<()> {
        let deadline = Instant::now() + self.options.ready_within;
        for at in 0..self.recipe.launches.len() {
            let launch = &self.recipe.launches[at];
            let process = Process::start(launch, &self.dir.join("log"), self.network.as_ref());
            self.running.push(process.map_err(|what| self.error(&what))?);
            if let Err(what) = self.wait_ready(at, deadline) {
                // The first error says more than one of the cleaning up would.
                let _ = self.kill9();
                return Err(self.error(&what));
            }
        }
        Ok(())
    }

    fn wait_ready(&mut self, at: usize, deadline: Instant) -> std::result::Result<(), String> {
        let launch = &self.recipe.launches[at];
        let process = &mut self.running[at];
        loop {
            if let Some(status) = process.ended().map_err(|error| error.message)? {
                return Err(format!("process {} ended while starting ({status}); {}", launch.name, process.tail()));
            }
            let answer = match &self.network {
                Some(network) => network.run(|| launch.probe.ask(&self.ports)),
                None => launch.probe.ask(&self.ports),
            };
            match answer {
                Ok(()) => return Ok(()),
                Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(50)),
                Err(why) => {
                    let waited = self.options.ready_within;
                    return Err(format!("{} was not ready within {waited:?}: {why}; {}", launch.name, process.tail()));
                }
            }
        }
    }

    fn error(&self, what: &str) -> Error {
        Error::setup(format!("{} {} in {}: {what}", self.product.name(), self.recipe.version, self.dir.display()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.running.is_empty() {
            return;
        }
        self.options.stop_within = self.options.stop_within.min(Duration::from_secs(20));
        // Nobody is left to hear of it; the processes are gone either way.
        let _ = self.stop();
    }
}

fn at(path: &Path, error: std::io::Error) -> Error {
    Error::setup(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_product_is_found_by_its_name_and_no_other_is() {
        for product in Product::ALL {
            assert_eq!(Product::named(product.name()), Some(product));
        }
        assert_eq!(Product::named("postgresql"), None);
    }

    #[test]
    fn the_last_setting_of_a_name_wins() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let options = Options { settings: vec![pair("a", "1"), pair("b", "2"), pair("a", "3")], ..Options::default() };
        assert_eq!(options.setting("a"), Some("3"));
        assert_eq!(options.setting("c"), None);
    }
}
