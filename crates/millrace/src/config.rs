//! Settings shared by all commands: flags, then environment, then the file of `--config`, then defaults.
//!
//! Clap merges flags and environment; [`Given`] adds the file; [`Given::settings`] adds defaults. An unknown key in
//! the file is an error: a misspelt setting must not be ignored silently.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::parser::ValueSource;
use serde::Deserialize;

use crate::failure::Failure;
use crate::size;

/// Default address of the PostgreSQL protocol.
pub(crate) const PG_DEFAULT: &str = "127.0.0.1:7432";
/// Default address of HTTP.
pub(crate) const HTTP_DEFAULT: &str = "127.0.0.1:7480";
/// Default address of Arrow Flight SQL.
pub(crate) const FLIGHT_DEFAULT: &str = "127.0.0.1:7470";
/// Default address of health and metrics.
pub(crate) const HEALTH_DEFAULT: &str = "127.0.0.1:7490";
/// Default directory of `serve`.
pub(crate) const DATA_DEFAULT: &str = "./millrace-data";
/// Minimum memory budget in bytes: the smallest memtable, cache and query together.
const MEMORY_MIN: u64 = 64 << 20;
/// Default grace period after SIGTERM. `docker stop` kills after ten seconds; flushing must fit in the rest.
const GRACE_SECONDS: u64 = 5;
/// Minimum compaction rate in bytes per second; a lower value most likely lacks its unit.
const COMPACTION_RATE_MIN: u64 = 1 << 20;

/// Flags of every command.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Shared options")]
pub(crate) struct Shared {
    /// Directory of the database [default: ./millrace-data; demo: ./millrace-demo].
    #[arg(long, global = true, value_name = "DIR", env = "MILLRACE_DATA")]
    pub(crate) data: Option<PathBuf>,
    /// Address of the PostgreSQL protocol [default: 127.0.0.1:7432].
    #[arg(long, global = true, value_name = "ADDR", env = "MILLRACE_PG")]
    pub(crate) pg: Option<String>,
    /// Address of HTTP: line protocol and SQL [default: 127.0.0.1:7480].
    #[arg(long, global = true, value_name = "ADDR", env = "MILLRACE_HTTP")]
    pub(crate) http: Option<String>,
    /// Address of Arrow Flight SQL [default: 127.0.0.1:7470].
    #[arg(long, global = true, value_name = "ADDR", env = "MILLRACE_FLIGHT")]
    pub(crate) flight: Option<String>,
    /// Address of /health, /ready and /metrics [default: 127.0.0.1:7490].
    #[arg(long, global = true, value_name = "ADDR", env = "MILLRACE_HEALTH")]
    pub(crate) health: Option<String>,
    /// Memory for everything, like 512MiB [default: half of the container's or host's].
    #[arg(long, global = true, value_name = "SIZE", env = "MILLRACE_MEMORY")]
    pub(crate) memory: Option<String>,
    /// Folder in which SQL may read and write files on the server (COPY, read_parquet) [default: none].
    #[arg(long, global = true, value_name = "DIR", env = "MILLRACE_FILES")]
    pub(crate) files: Option<PathBuf>,
    /// TOML file that states any of these by name, e.g. `memory = "2GiB"`.
    #[arg(long, global = true, value_name = "FILE", env = "MILLRACE_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Least severe messages to log: error, warn, info, debug or trace [default: info].
    #[arg(long, global = true, value_name = "LEVEL", env = "MILLRACE_LOG_LEVEL")]
    pub(crate) log_level: Option<String>,
    /// Format of log messages: text or json [default: text].
    #[arg(long, global = true, value_name = "FORMAT", env = "MILLRACE_LOG_FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
    /// Compress rows of time series in the write-ahead log [default: on].
    #[arg(long, global = true, value_name = "SWITCH", env = "MILLRACE_LOG_COMPRESSION")]
    pub(crate) log_compression: Option<Switch>,
    /// Maximum number of client connections [default: 1000].
    #[arg(long, global = true, value_name = "N", env = "MILLRACE_MAX_CONNECTIONS")]
    pub(crate) max_connections: Option<usize>,
    /// Compaction I/O (reads and writes) per second, like 64MiB; 0 is no limit [default: 0].
    #[arg(long, global = true, value_name = "SIZE", env = "MILLRACE_COMPACTION_RATE")]
    pub(crate) compaction_rate: Option<String>,
    /// Seconds that running statements get to finish after SIGTERM [default: 5].
    #[arg(long, global = true, value_name = "SECONDS", env = "MILLRACE_GRACE")]
    pub(crate) grace: Option<u64>,
}

/// Format of log messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// Human-readable text.
    Text,
    /// One JSON object a line.
    Json,
}

/// A setting that is on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Switch {
    /// Enabled.
    On,
    /// Disabled.
    Off,
}

/// The file of `--config`: the same names as the flags.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    data: Option<PathBuf>,
    pg: Option<String>,
    http: Option<String>,
    flight: Option<String>,
    health: Option<String>,
    memory: Option<String>,
    files: Option<PathBuf>,
    log_level: Option<String>,
    log_format: Option<LogFormat>,
    log_compression: Option<Switch>,
    max_connections: Option<usize>,
    compaction_rate: Option<String>,
    grace: Option<u64>,
}

/// Settings from flags, environment and file, without defaults.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    shared: Shared,
    data_by_flag: bool,
}

/// Complete settings of a server.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) data: PathBuf,
    pub(crate) pg: SocketAddr,
    pub(crate) http: SocketAddr,
    pub(crate) flight: SocketAddr,
    pub(crate) health: SocketAddr,
    pub(crate) memory_bytes: u64,
    /// Folder for files that SQL may read and write.
    pub(crate) files: Option<PathBuf>,
    pub(crate) log_level: String,
    pub(crate) log_format: LogFormat,
    pub(crate) log_compression: bool,
    pub(crate) max_connections: usize,
    /// Bytes per second; 0 = no limit.
    pub(crate) compaction_rate: u64,
    /// Grace period for running statements after SIGTERM.
    pub(crate) grace: Duration,
}

impl Given {
    /// Merges the file under flags and environment.
    pub(crate) fn new(shared: Shared, matches: &clap::ArgMatches) -> Result<Given, Failure> {
        let data_by_flag = innermost(matches).value_source("data") == Some(ValueSource::CommandLine);
        let file = match &shared.config {
            Some(path) => read_file(path)?,
            None => File::default(),
        };
        Ok(Given { shared: merge(shared, file), data_by_flag })
    }

    /// The directory given by a flag: a client command then opens it itself instead of connecting to a server.
    pub(crate) fn data_flag(&self) -> Option<&Path> {
        self.shared.data.as_deref().filter(|_| self.data_by_flag)
    }

    /// The directory from flag, environment or file.
    pub(crate) fn data(&self) -> Option<&Path> {
        self.shared.data.as_deref()
    }

    /// Folder for files that SQL may read and write.
    pub(crate) fn files(&self) -> Option<PathBuf> {
        self.shared.files.clone()
    }

    /// Host and port of the server's PostgreSQL protocol, for clients.
    pub(crate) fn pg(&self) -> &str {
        self.shared.pg.as_deref().unwrap_or(PG_DEFAULT)
    }

    /// Host and port of the server's HTTP, for clients.
    pub(crate) fn http(&self) -> &str {
        self.shared.http.as_deref().unwrap_or(HTTP_DEFAULT)
    }

    /// Complete settings of a server.
    pub(crate) fn settings(&self) -> Result<Settings, Failure> {
        let shared = &self.shared;
        Ok(Settings {
            data: shared.data.clone().unwrap_or_else(|| PathBuf::from(DATA_DEFAULT)),
            pg: address("--pg", self.pg())?,
            http: address("--http", self.http())?,
            flight: address("--flight", shared.flight.as_deref().unwrap_or(FLIGHT_DEFAULT))?,
            health: address("--health", shared.health.as_deref().unwrap_or(HEALTH_DEFAULT))?,
            memory_bytes: self.memory_bytes()?,
            files: shared.files.clone(),
            log_level: log_level(shared.log_level.as_deref().unwrap_or("info"))?,
            log_format: shared.log_format.unwrap_or(LogFormat::Text),
            log_compression: shared.log_compression != Some(Switch::Off),
            max_connections: self.max_connections()?,
            compaction_rate: self.compaction_rate()?,
            grace: Duration::from_secs(shared.grace.unwrap_or(GRACE_SECONDS)),
        })
    }

    /// Memory budget in bytes.
    pub(crate) fn memory_bytes(&self) -> Result<u64, Failure> {
        let Some(text) = &self.shared.memory else { return Ok(size::default_memory().max(MEMORY_MIN)) };
        let bytes = size::parse(text).map_err(|error| Failure::usage(format!("--memory: {error}")))?;
        if bytes >= MEMORY_MIN {
            return Ok(bytes);
        }
        Err(Failure::usage(format!("--memory: {text} is too small: the minimum is {}", size::show(MEMORY_MIN))))
    }

    fn compaction_rate(&self) -> Result<u64, Failure> {
        let Some(text) = &self.shared.compaction_rate else { return Ok(0) };
        let bytes = size::parse(text).map_err(|error| Failure::usage(format!("--compaction-rate: {error}")))?;
        if bytes == 0 || bytes >= COMPACTION_RATE_MIN {
            return Ok(bytes);
        }
        let least = size::show(COMPACTION_RATE_MIN);
        let text =
            format!("--compaction-rate: {text} is too small: the minimum is {least} per second, or 0 for no limit");
        Err(Failure::usage(text))
    }

    fn max_connections(&self) -> Result<usize, Failure> {
        match self.shared.max_connections.unwrap_or(model::limits::CONNECTIONS_DEFAULT) {
            0 => Err(Failure::usage("--max-connections: invalid value 0: the minimum is 1")),
            count => Ok(count),
        }
    }
}

/// The matches of the innermost subcommand, which has global flags too.
fn innermost(matches: &clap::ArgMatches) -> &clap::ArgMatches {
    matches.subcommand().map_or(matches, |(_, sub)| innermost(sub))
}

fn read_file(path: &Path) -> Result<File, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("cannot read --config {}: {error}", path.display())))?;
    toml::from_str(&text).map_err(|error| Failure::usage(format!("--config {}: {error}", path.display())))
}

fn merge(shared: Shared, file: File) -> Shared {
    Shared {
        data: shared.data.or(file.data),
        pg: shared.pg.or(file.pg),
        http: shared.http.or(file.http),
        flight: shared.flight.or(file.flight),
        health: shared.health.or(file.health),
        memory: shared.memory.or(file.memory),
        files: shared.files.or(file.files),
        config: shared.config,
        log_level: shared.log_level.or(file.log_level),
        log_format: shared.log_format.or(file.log_format),
        log_compression: shared.log_compression.or(file.log_compression),
        max_connections: shared.max_connections.or(file.max_connections),
        compaction_rate: shared.compaction_rate.or(file.compaction_rate),
        grace: shared.grace.or(file.grace),
    }
}

fn address(flag: &str, text: &str) -> Result<SocketAddr, Failure> {
    let wrong = |why: String| {
        Failure::usage(format!("{flag}: invalid address {text:?}: {why}"))
            .with_hint("expected HOST:PORT, such as 127.0.0.1:7432")
    };
    let mut found = text.to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
    found.next().ok_or_else(|| wrong("the name has no address".to_owned()))
}

fn log_level(text: &str) -> Result<String, Failure> {
    let known = ["error", "warn", "info", "debug", "trace"];
    let level = text.to_ascii_lowercase();
    if known.contains(&level.as_str()) {
        return Ok(level);
    }
    Err(Failure::usage(format!("--log-level: invalid level {text:?}: expected one of {}", known.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(shared: Shared, file: &str) -> Given {
        let file: File = toml::from_str(file).unwrap();
        Given { shared: merge(shared, file), data_by_flag: false }
    }

    #[test]
    fn a_flag_beats_the_file_and_the_file_beats_the_default() {
        let shared = Shared { pg: Some("127.0.0.1:1".into()), ..Shared::default() };
        let file = "pg = \"127.0.0.1:2\"\nhttp = \"127.0.0.1:3\"\nmax-connections = 7\nmemory = \"512MiB\"\n\
                    log-compression = \"off\"\ngrace = 20";
        let settings = given(shared, file).settings().map_err(|failure| failure.text()).unwrap();
        assert_eq!((settings.pg.port(), settings.http.port(), settings.health.port()), (1, 3, 7490));
        assert_eq!((settings.max_connections, settings.memory_bytes, settings.log_compression), (7, 512 << 20, false));
        assert_eq!(settings.grace, Duration::from_secs(20));
    }

    #[test]
    fn compaction_has_no_limit_unless_one_is_stated() {
        let rate = |file: &str| given(Shared::default(), file).settings().map(|settings| settings.compaction_rate);
        for (file, bytes) in [("", 0), ("compaction-rate = \"0\"", 0), ("compaction-rate = \"64MiB\"", 64 << 20)] {
            assert_eq!(rate(file).map_err(|failure| failure.text()), Ok(bytes), "{file}");
        }
    }

    #[test]
    fn wrong_settings_are_refused_naming_flag_and_value() {
        let refused = |file: &str| given(Shared::default(), file).settings().err().map(|failure| failure.text());
        let cases = [
            ("pg = \"7432\"", "--pg: invalid address \"7432\""),
            ("memory = \"1MiB\"", "--memory: 1MiB"),
            ("memory = \"much\"", "\"much\""),
            ("max-connections = 0", "--max-connections: invalid value 0"),
            ("compaction-rate = \"64\"", "--compaction-rate: 64"),
            ("compaction-rate = \"fast\"", "\"fast\""),
            ("log-level = \"loud\"", "\"loud\""),
        ];
        for (file, expected) in cases {
            let text = refused(file).unwrap_or_default();
            assert!(text.contains(expected), "{file}: {text}");
        }
    }

    #[test]
    fn an_unknown_key_is_refused_by_name() {
        let error = toml::from_str::<File>("memmory = \"1GiB\"").unwrap_err().to_string();
        assert!(error.contains("memmory") && error.contains("memory"), "{error}");
    }
}
