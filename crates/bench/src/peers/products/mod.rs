//! Configuration and start of each product, one file for each. The reasons for settings are in that
//! file and in docs/manual/benchmark-peers.md.

mod influxdb;
mod inprocess;
mod iotdb;
mod kairosdb;
mod mariadb;
mod millrace;
mod postgres;
mod questdb;
mod victoriametrics;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::probe::Probe;
use super::{Durability, Options, Product, Result, at};

/// Everything needed to run a product on a directory.
pub(super) struct Recipe {
    pub(super) version: String,
    /// Processes in the order in which they are started.
    pub(super) launches: Vec<Launch>,
    pub(super) data_dirs: Vec<PathBuf>,
    pub(super) log_dirs: Vec<PathBuf>,
    /// Signal that ends the server without waiting for clients.
    pub(super) stop_signal: libc::c_int,
    pub(super) durability: (Durability, String),
    /// Settings that affect measurements, built-in ones and then the user's, as `name=value`.
    pub(super) settings: Vec<String>,
    /// Limits of this machine that slow the product down, and how to raise them.
    pub(super) notes: Vec<String>,
}

/// One process of a product.
pub(super) struct Launch {
    /// Name of the process and of its log.
    pub(super) name: &'static str,
    program: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(&'static str, OsString)>,
    /// Working directory of the process, for files that it writes there.
    working_dir: PathBuf,
    /// User and group id, if not those of this process.
    user: Option<(u32, u32)>,
    pub(super) probe: Probe,
}

/// Environment variables passed on to a server. Most products also read settings from variables,
/// and a figure must not depend on the variables of the caller's shell.
const KEPT: [&str; 5] = ["HOME", "LANG", "PATH", "TMPDIR", "TZ"];

impl Launch {
    fn new(name: &'static str, program: PathBuf, setup: &Setup, probe: Probe) -> Launch {
        let working_dir = setup.dir.join("log");
        Launch { name, program, arguments: Vec::new(), environment: Vec::new(), working_dir, user: None, probe }
    }

    fn argument(&mut self, argument: impl Into<OsString>) -> &mut Launch {
        self.arguments.push(argument.into());
        self
    }

    fn arguments<A: Into<OsString>>(&mut self, arguments: impl IntoIterator<Item = A>) -> &mut Launch {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    pub(super) fn command(&self) -> Command {
        let mut command = self.bare_command(&self.program);
        command.args(&self.arguments);
        command
    }

    /// Command of another program with the same working directory, environment and user, without
    /// arguments.
    fn bare_command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.working_dir).env_clear();
        command.envs(KEPT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some((user, group)) = self.user {
            command.gid(group).uid(user);
        }
        command
    }
}

/// Inputs of a recipe.
struct Setup<'a> {
    dir: &'a Path,
    ports: &'a BTreeMap<String, u16>,
    options: &'a Options,
}

impl Setup<'_> {
    /// Returns `127.0.0.1:PORT` for a port that [`port_names`] lists.
    fn address(&self, name: &str) -> String {
        format!("127.0.0.1:{}", self.ports[name])
    }

    fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    fn conf(&self, file: &str) -> PathBuf {
        self.dir.join("conf").join(file)
    }

    fn write_conf(&self, file: &str, text: &str) -> Result<PathBuf> {
        let path = self.conf(file);
        std::fs::write(&path, text).map_err(|error| at(&path, error))?;
        Ok(path)
    }

    /// Joins `ours` and the user's settings as `name=value`.
    fn settings(&self, ours: &[(&str, String)]) -> Vec<String> {
        let ours = ours.iter().map(|(name, value)| format!("{name}={value}"));
        let users = self.options.settings.iter().map(|(name, value)| format!("{name}={value}"));
        ours.chain(users).collect()
    }

    fn memory_mib_or(&self, default: u32) -> u32 {
        self.options.memory_mib.unwrap_or(default)
    }
}

/// Names of the ports that a product listens on.
pub(super) fn port_names(product: Product) -> &'static [&'static str] {
    match product {
        Product::Millrace => millrace::PORTS,
        Product::Postgres => postgres::PORTS,
        Product::QuestDb => questdb::PORTS,
        Product::IoTDb => iotdb::PORTS,
        Product::VictoriaMetrics => victoriametrics::PORTS,
        Product::InfluxDb => influxdb::PORTS,
        Product::KairosDb => kairosdb::PORTS,
        Product::MariaDb => mariadb::PORTS,
        Product::DuckDb | Product::ClickHouse => inprocess::PORTS,
    }
}

/// Returns whether the product listens on every address regardless of its configuration.
pub(super) fn needs_network(product: Product) -> bool {
    product == Product::IoTDb
}

/// Locates the product, writes its configuration, and initialises an empty directory.
pub(super) fn recipe(product: Product, dir: &Path, ports: &BTreeMap<String, u16>, options: &Options) -> Result<Recipe> {
    let setup = Setup { dir, ports, options };
    match product {
        Product::Millrace => millrace::recipe(&setup),
        Product::Postgres => postgres::recipe(&setup),
        Product::QuestDb => questdb::recipe(&setup),
        Product::IoTDb => iotdb::recipe(&setup),
        Product::VictoriaMetrics => victoriametrics::recipe(&setup),
        Product::InfluxDb => influxdb::recipe(&setup),
        Product::KairosDb => kairosdb::recipe(&setup),
        Product::MariaDb => mariadb::recipe(&setup),
        Product::DuckDb | Product::ClickHouse => inprocess::recipe(&setup, product),
    }
}

/// Without such a file, logback logs at its most verbose level.
const LOGBACK: &str = "\
<configuration>
  <appender name=\"out\" class=\"ch.qos.logback.core.ConsoleAppender\">
    <encoder><pattern>%d %-5level [%thread] %logger - %msg%n</pattern></encoder>
  </appender>
  <root level=\"INFO\"><appender-ref ref=\"out\"/></root>
</configuration>
";

/// Returns whether this process runs as root.
fn is_root() -> bool {
    // SAFETY: returns a number and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Total memory of the machine in MiB.
fn machine_memory_mib() -> Option<u32> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    u32::try_from(kib / 1024).ok()
}
