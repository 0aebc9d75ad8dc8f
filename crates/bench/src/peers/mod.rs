//! Private servers: the products that a run measures, each started in its own directory and
//! reachable over loopback only.
//!
//! [`start`] writes the product's configuration, starts its processes, and returns once the server
//! answers its own protocol. The [`Server`] can then be killed, restarted on the same directory and
//! ports, and stopped. docs/manual/benchmark-peers.md lists where products are downloaded from,
//! their settings, and the reasons for them.
//!
//! Always true:
//! - No socket of a server is reachable from another machine. IoTDB cannot be configured to bind
//!   loopback, so it runs in its own network namespace; threads enter it with
//!   [`Server::enter_netns`].
//! - A server ends with this process, even if this process is killed.
//! - A directory belongs to one product and stores its ports, so a restart uses the same ports.
//!
//! Layout of a directory: `peer.txt` (product and ports), `conf/`, `data/` and `log/` with one log
//! for each process.
//!
//! Not here: measuring the processes, and the products' protocols beyond a readiness probe.

mod find;
mod network;
mod ports;
mod probe;
mod process;
mod products;
mod quota;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use find::{python, tool};
pub use network::Network;
pub use process::processes_of;
pub(crate) use quota::{CPUS_MAX, CPUS_MIN, CpuQuota};

use crate::error::{Error, Result};
use process::Process;
use products::Recipe;

/// A product that can be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Product {
    /// The database that this tool belongs to. Ports `pg`, `http`, `health`, `flight`.
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
    /// DuckDB inside a server process of this tool. Port `http`, with that process' own protocol.
    DuckDb,
    /// ClickHouse (chdb) inside a server process of this tool. Port `http`, with that process' own
    /// protocol.
    ClickHouse,
}

impl Product {
    /// All products.
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

    /// Name in file names and on the command line, for example `questdb`.
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

    /// Returns the product with this [`Product::name`].
    pub fn named(name: &str) -> Option<Product> {
        Product::ALL.into_iter().find(|product| product.name() == name)
    }
}

/// Options for starting a product. [`Options::default`] is suitable for a benchmark.
#[derive(Debug, Clone)]
pub struct Options {
    /// The user's settings, applied after the built-in ones so that they take precedence:
    /// `server.conf` keys for QuestDB, `iotdb-system.properties` keys for IoTDB, `section.key` for
    /// InfluxDB, `kairosdb.conf` keys for KairosDB, `postgresql.conf` names for PostgreSQL, flags
    /// without dashes for Millrace, VictoriaMetrics and MariaDB. Values use the syntax of the
    /// product's file (quotes included, for InfluxDB and KairosDB).
    pub settings: Vec<(String, String)>,
    /// Memory limit of the product in MiB: the Java heap (default for QuestDB 4096, IoTDB's
    /// DataNode 5120, KairosDB 2048), `shared_buffers` (default a quarter of the machine), InnoDB's
    /// buffer pool (1024), VictoriaMetrics' caches (default 60 % of the machine), Millrace's
    /// `--memory` (default half of the machine). InfluxDB 1.x has no such setting and refuses it.
    pub memory_mib: Option<u32>,
    /// Expected number of columns of all tables together; 0 if not known. Products that keep a
    /// buffer or a mapped page for each column get smaller ones when there are thousands.
    pub columns: u64,
    /// Address `HOST:PORT` of the Flight SQL listener of a running Millrace. Instead of a database, a
    /// front end of it is started (`millrace tsm`), which answers on the port `http` and stores nothing.
    /// Only for Millrace.
    pub front_end_of: Option<String>,
    /// Time limit for a start.
    pub ready_within: Duration,
    /// Time limit for a stop, after which the server is killed.
    pub stop_within: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            settings: Vec::new(),
            memory_mib: None,
            columns: 0,
            front_end_of: None,
            ready_within: Duration::from_secs(180),
            stop_within: Duration::from_secs(60),
        }
    }
}

impl Options {
    /// Returns the value of a setting; the last one wins.
    fn setting(&self, name: &str) -> Option<&str> {
        self.settings.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Durability of a write at the moment of its acknowledgement.
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

/// A product that is or was running on a directory. Dropping it stops the server.
pub struct Server {
    product: Product,
    dir: PathBuf,
    options: Options,
    ports: BTreeMap<String, u16>,
    network: Option<Network>,
    recipe: Recipe,
    running: Vec<Process>,
}

/// Starts `product` on `dir`, which must be empty, missing, or the product's own from an earlier
/// start, and waits until the server answers.
///
/// # Errors
/// The product is not installed (the message names the command that installs it), the directory
/// belongs to another product, a process ended, or the server was not ready in time (the message
/// includes the end of its log). No process is left running.
pub fn start(product: Product, dir: &Path, options: Options) -> Result<Server> {
    let dir = prepare_dir(dir)?;
    let ports = ports::of_directory(&dir, product, products::port_names(product))?;
    let network = if products::needs_network(product) { Some(Network::create()?) } else { None };
    let recipe = products::recipe(product, &dir, &ports, &options)?;
    let mut server = Server { product, dir, options, ports, network, recipe, running: Vec::new() };
    server.launch()?;
    Ok(server)
}

/// Creates the folders and returns an absolute path, valid for processes with another working
/// directory.
fn prepare_dir(dir: &Path) -> Result<PathBuf> {
    for name in ["conf", "data", "log"] {
        let folder = dir.join(name);
        std::fs::create_dir_all(&folder).map_err(|error| at(&folder, error))?;
    }
    dir.canonicalize().map_err(|error| at(dir, error))
}

impl Server {
    /// The product that this server runs.
    pub fn product(&self) -> Product {
        self.product
    }

    /// Version reported by the server, or in the name of its artifact, for example `9.3.4`.
    pub fn version(&self) -> &str {
        &self.recipe.version
    }

    /// Returns the port called `name`; [`Product`] lists the names.
    ///
    /// # Errors
    /// The product has no port of that name.
    pub fn port(&self, name: &str) -> Result<u16> {
        self.ports.get(name).copied().ok_or_else(|| {
            let names: Vec<&str> = self.ports.keys().map(String::as_str).collect();
            Error::setup(format!("{} has no port {name:?}; expected one of {}", self.product.name(), names.join(", ")))
        })
    }

    /// Returns `127.0.0.1:PORT` for the port called `name`.
    ///
    /// # Errors
    /// The same as for [`Server::port`].
    pub fn address(&self, name: &str) -> Result<String> {
        self.port(name).map(|port| format!("127.0.0.1:{port}"))
    }

    /// All ports by name.
    pub fn ports(&self) -> &BTreeMap<String, u16> {
        &self.ports
    }

    /// The directory that was passed to [`start`].
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Folders with all of the product's data; their bytes are its disk space.
    pub fn data_dirs(&self) -> &[PathBuf] {
        &self.recipe.data_dirs
    }

    /// Folders inside [`Server::data_dirs`] that contain only the write-ahead log, which some
    /// products keep at a fixed size; reports show it apart from the data. Empty if the log is not
    /// in a separate folder.
    pub fn log_dirs(&self) -> &[PathBuf] {
        &self.recipe.log_dirs
    }

    /// Durability of an acknowledged write with the server's settings.
    pub fn durability(&self) -> Durability {
        self.recipe.durability.0
    }

    /// The setting that determines the durability, in a few words.
    pub fn durability_reason(&self) -> &str {
        &self.recipe.durability.1
    }

    /// Settings and memory that the server was started with, for the report.
    pub fn settings(&self) -> &[String] {
        &self.recipe.settings
    }

    /// Limits of this machine that slow the product down, and the commands that would raise them,
    /// for the report: the benchmark does not change the machine.
    pub fn notes(&self) -> &[String] {
        &self.recipe.notes
    }

    /// Processes started directly; [`Server::pids`] includes their children.
    pub fn root_pids(&self) -> Vec<u32> {
        self.running.iter().map(Process::pid).collect()
    }

    /// All live processes of the server.
    pub fn pids(&self) -> Vec<u32> {
        processes_of(&self.root_pids())
    }

    /// The server's own network namespace, if it has one.
    pub fn network(&self) -> Option<&Network> {
        self.network.as_ref()
    }

    /// A task whose `/proc/ID/ns/net` is the server's network namespace; it is the same across
    /// kills and restarts. `None`: the server uses the machine's namespace.
    pub fn network_of(&self) -> Option<u32> {
        self.network.as_ref().map(Network::task)
    }

    /// Moves the calling thread into the server's network namespace permanently. Sockets that the
    /// thread opens and programs that it starts afterwards use that namespace. Does nothing if the
    /// server uses the machine's namespace.
    ///
    /// # Errors
    /// The system refuses: CAP_SYS_ADMIN is required.
    pub fn enter_netns(&self) -> Result<()> {
        self.network.as_ref().map_or(Ok(()), Network::enter)
    }

    /// Returns an error if a process of the server has ended, with its exit status and the end of
    /// its log.
    ///
    /// # Errors
    /// A process has ended, or the server is stopped.
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

    /// Kills every process with SIGKILL, as in a crash, and returns when none is left.
    ///
    /// # Errors
    /// A process still exists after ten seconds.
    pub fn kill9(&mut self) -> Result<()> {
        self.kill_with(&[])
    }

    fn kill_with(&mut self, others: &[u32]) -> Result<()> {
        process::kill_all(&mut self.running, others).map_err(|what| self.error(&what))?;
        self.running.clear();
        Ok(())
    }

    /// Starts the server again on the same directory and ports, after [`Server::kill9`] or
    /// [`Server::stop`], and waits until it answers.
    ///
    /// # Errors
    /// The same as for [`start`].
    pub fn restart(&mut self) -> Result<()> {
        self.prepare_restart()?;
        self.launch()
    }

    /// The part of a restart that locates programs and writes configuration, for callers that time
    /// only the rest.
    ///
    /// # Errors
    /// The server is running, or an error of [`start`].
    pub fn prepare_restart(&mut self) -> Result<()> {
        if !self.running.is_empty() {
            return Err(self.error("runs; stop or kill it before a restart"));
        }
        self.recipe = products::recipe(self.product, &self.dir, &self.ports, &self.options)?;
        Ok(())
    }

    /// The other part of a restart, without waiting: executes the program and returns the time just
    /// before. The caller polls the server until it answers.
    ///
    /// # Errors
    /// The product has several processes that depend on each other, or the program cannot be
    /// executed.
    pub fn launch_at_once(&mut self) -> Result<Instant> {
        let [launch] = self.recipe.launches.as_slice() else {
            return Err(self.error("has several processes, which cannot be started without waiting"));
        };
        let began = Instant::now();
        let process = Process::start(launch, &self.dir.join("log"), self.network.as_ref());
        self.running.push(process.map_err(|what| self.error(&what))?);
        Ok(began)
    }

    /// Asks the server to end, as an operator would, and waits until no process is left. It is not
    /// restarted automatically.
    ///
    /// # Errors
    /// The server did not end in time and was killed; the message includes the end of its log.
    pub fn stop(&mut self) -> Result<()> {
        let deadline = Instant::now() + self.options.stop_within;
        let mut all = self.pids();
        let mut late = None;
        // Later processes depend on earlier ones, so stop in reverse order.
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

    /// Starts the recipe's processes in order, each one after the previous one is ready.
    fn launch(&mut self) -> Result<()> {
        let deadline = Instant::now() + self.options.ready_within;
        for at in 0..self.recipe.launches.len() {
            let launch = &self.recipe.launches[at];
            let process = Process::start(launch, &self.dir.join("log"), self.network.as_ref());
            self.running.push(process.map_err(|what| self.error(&what))?);
            if let Err(what) = self.wait_ready(at, deadline) {
                // Report the first error; an error of the cleanup would hide it.
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
        // Drop cannot report errors, and the processes are gone either way.
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
    fn every_product_is_found_by_its_name_only() {
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
