//! Settings shared by all commands: flags, then environment, then the file of `--config`, then defaults.
//!
//! Clap merges flags and environment; [`Given`] adds the file; [`Given::settings`] adds defaults. An unknown key in
//! the file is an error: a misspelt setting must not be ignored silently.
//!
//! Addresses of listeners are not written out here: they follow [`server::LISTENERS`].

use std::collections::BTreeMap;
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clap::parser::ValueSource;
use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, Visitor};
use server::{LISTENERS, Listener};

use crate::failure::Failure;
use crate::size;

/// Default directory of `serve`.
pub(crate) const DATA_DEFAULT: &str = "./millrace-data";
/// Minimum memory budget in bytes: the smallest memtable, cache and query together.
const MEMORY_MIN: u64 = 64 << 20;
/// Default grace period after SIGTERM. `docker stop` kills after ten seconds; flushing must fit in the rest.
const GRACE_SECONDS: u64 = 5;
/// Minimum compaction rate in bytes per second; a lower value most likely lacks its unit.
const COMPACTION_RATE_MIN: u64 = 1 << 20;

/// Flags of every command, and settings of the file of `--config`.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[command(next_help_heading = "Shared options")]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Shared {
    /// Directory of the database [default: ./millrace-data; demo: ./millrace-demo].
    #[arg(long, global = true, value_name = "DIR", env = "MILLRACE_DATA")]
    pub(crate) data: Option<PathBuf>,
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) addresses: Addresses,
    /// Memory for everything, like 512MiB [default: half of the container's or host's].
    #[arg(long, global = true, value_name = "SIZE", env = "MILLRACE_MEMORY")]
    pub(crate) memory: Option<String>,
    /// Folder in which SQL may read and write files on the server (COPY, read_parquet) [default: none].
    #[arg(long, global = true, value_name = "DIR", env = "MILLRACE_FILES")]
    pub(crate) files: Option<PathBuf>,
    /// TOML file that states any of these by name, e.g. `memory = "2GiB"`.
    #[arg(long, global = true, value_name = "FILE", env = "MILLRACE_CONFIG")]
    #[serde(skip)]
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
    /// Archive EPICS process variables [default: on if the table epics.pvs has any].
    #[arg(
        long, global = true, value_name = "SWITCH", env = "MILLRACE_ARCHIVER",
        num_args = 0..=1, require_equals = true, default_missing_value = "on"
    )]
    pub(crate) archiver: Option<Switch>,
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

/// Addresses of listeners as they were given, by the listener's name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Addresses(BTreeMap<&'static str, String>);

impl Addresses {
    /// The address of a listener, or its default.
    fn of(&self, listener: &'static Listener) -> &str {
        self.0.get(listener.name).map_or(listener.default, String::as_str)
    }

    /// Adds the addresses that are only in `file`.
    fn or(self, file: Addresses) -> Addresses {
        let Addresses(mut all) = file;
        all.extend(self.0);
        Addresses(all)
    }
}

impl Args for Addresses {
    fn augment_args(command: clap::Command) -> clap::Command {
        LISTENERS.iter().fold(command, |command, listener| {
            let help = format!("Address of {} [default: {}]", listener.purpose, listener.default);
            let argument = clap::Arg::new(listener.name).long(listener.name).value_name("ADDR").env(listener.env);
            command.arg(argument.global(true).help(help))
        })
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Addresses::augment_args(command)
    }
}

impl clap::FromArgMatches for Addresses {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Addresses, clap::Error> {
        let given = |listener: &&Listener| Some((listener.name, matches.get_one::<String>(listener.name)?.clone()));
        Ok(Addresses(LISTENERS.iter().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        self.0.extend(Addresses::from_arg_matches(matches)?.0);
        Ok(())
    }
}

/// Keys of the file of `--config`, which are the names of the flags, and the values of those that name a listener.
struct Keys(Addresses);

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Keys, D::Error> {
        deserializer.deserialize_map(KeysVisitor)
    }
}

struct KeysVisitor;

impl<'de> Visitor<'de> for KeysVisitor {
    type Value = Keys;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("settings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
        let mut addresses = Addresses::default();
        while let Some(Key(listener)) = map.next_key()? {
            match listener {
                Some(listener) => drop(addresses.0.insert(listener.name, map.next_value()?)),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(Keys(addresses))
    }
}

/// A known key: a listener, or another setting.
struct Key(Option<&'static Listener>);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Key, D::Error> {
        deserializer.deserialize_str(KeyVisitor)
    }
}

struct KeyVisitor;

impl Visitor<'_> for KeyVisitor {
    type Value = Key;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the name of a setting")
    }

    // An error from here has the place of the key in the file.
    fn visit_str<E: de::Error>(self, key: &str) -> Result<Key, E> {
        let listener = LISTENERS.into_iter().find(|listener| listener.name == key);
        let known = keys();
        if listener.is_none() && !known.iter().any(|known| known == key) {
            let known: Vec<String> = known.iter().map(|known| format!("`{known}`")).collect();
            return Err(E::custom(format_args!("unknown field `{key}`, expected one of {}", known.join(", "))));
        }
        Ok(Key(listener))
    }
}

/// All keys of the file: the shared flags, but for the one that names the file.
fn keys() -> Vec<String> {
    let command = Shared::augment_args(clap::Command::new("millrace"));
    let flags = command.get_arguments().filter_map(clap::Arg::get_long);
    flags.filter(|flag| *flag != "config").map(str::to_owned).collect()
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
    /// All listeners and their addresses.
    pub(crate) listeners: Vec<(&'static Listener, SocketAddr)>,
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
    /// Whether PVs are archived; `None`: if there are any.
    pub(crate) archiver: Option<bool>,
}

impl Given {
    /// Merges the file under flags and environment.
    pub(crate) fn new(shared: Shared, matches: &clap::ArgMatches) -> Result<Given, Failure> {
        let data_by_flag = innermost(matches).value_source("data") == Some(ValueSource::CommandLine);
        let file = match &shared.config {
            Some(path) => read_file(path)?,
            None => Shared::default(),
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
        self.shared.addresses.of(&server::pg::LISTENER)
    }

    /// Host and port of the server's HTTP, for clients.
    pub(crate) fn http(&self) -> &str {
        self.shared.addresses.of(&server::http::LISTENER)
    }

    /// Complete settings of a server.
    pub(crate) fn settings(&self) -> Result<Settings, Failure> {
        let shared = &self.shared;
        Ok(Settings {
            data: shared.data.clone().unwrap_or_else(|| PathBuf::from(DATA_DEFAULT)),
            listeners: self.listeners()?,
            memory_bytes: self.memory_bytes()?,
            files: shared.files.clone(),
            log_level: log_level(shared.log_level.as_deref().unwrap_or("info"))?,
            log_format: shared.log_format.unwrap_or(LogFormat::Text),
            log_compression: shared.log_compression != Some(Switch::Off),
            max_connections: self.max_connections()?,
            compaction_rate: self.compaction_rate()?,
            grace: Duration::from_secs(shared.grace.unwrap_or(GRACE_SECONDS)),
            archiver: shared.archiver.map(|switch| switch == Switch::On),
        })
    }

    fn listeners(&self) -> Result<Vec<(&'static Listener, SocketAddr)>, Failure> {
        let address =
            |listener: &'static Listener| Ok((listener, address(listener, self.shared.addresses.of(listener))?));
        LISTENERS.into_iter().map(address).collect()
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

fn read_file(path: &Path) -> Result<Shared, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("cannot read --config {}: {error}", path.display())))?;
    parse(&text).map_err(|error| Failure::usage(format!("--config {}: {error}", path.display())))
}

fn parse(text: &str) -> Result<Shared, toml::de::Error> {
    let Keys(addresses) = toml::from_str(text)?;
    Ok(Shared { addresses, ..toml::from_str(text)? })
}

fn merge(shared: Shared, file: Shared) -> Shared {
    Shared {
        data: shared.data.or(file.data),
        addresses: shared.addresses.or(file.addresses),
        memory: shared.memory.or(file.memory),
        files: shared.files.or(file.files),
        config: shared.config,
        log_level: shared.log_level.or(file.log_level),
        log_format: shared.log_format.or(file.log_format),
        log_compression: shared.log_compression.or(file.log_compression),
        max_connections: shared.max_connections.or(file.max_connections),
        compaction_rate: shared.compaction_rate.or(file.compaction_rate),
        grace: shared.grace.or(file.grace),
        archiver: shared.archiver.or(file.archiver),
    }
}

fn address(listener: &Listener, text: &str) -> Result<SocketAddr, Failure> {
    let wrong = |why: String| {
        Failure::usage(format!("{}: invalid address {text:?}: {why}", listener.flag()))
            .with_hint(format!("expected HOST:PORT, such as {}", listener.default))
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
        Given { shared: merge(shared, parse(file).unwrap()), data_by_flag: false }
    }

    fn port(settings: &Settings, name: &str) -> Option<u16> {
        settings.listeners.iter().find(|(listener, _)| listener.name == name).map(|(_, address)| address.port())
    }

    #[test]
    fn a_flag_beats_the_file_and_the_file_beats_the_default() {
        let addresses = Addresses(BTreeMap::from([("pg", "127.0.0.1:1".to_owned())]));
        let shared = Shared { addresses, ..Shared::default() };
        let file = "pg = \"127.0.0.1:2\"\nhttp = \"127.0.0.1:3\"\nmax-connections = 7\nmemory = \"512MiB\"\n\
                    log-compression = \"off\"\ngrace = 20";
        let settings = given(shared, file).settings().map_err(|failure| failure.text()).unwrap();
        assert_eq!(["pg", "http", "health"].map(|name| port(&settings, name)), [Some(1), Some(3), Some(7490)]);
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
    fn an_unknown_key_is_refused_by_name_and_place() {
        for file in ["pg = \"127.0.0.1:2\"\nmemmory = \"1GiB\"", "grace = 1\nconfig = \"x\""] {
            let error = parse(file).unwrap_err().to_string();
            for part in ["line 2, column 1", "unknown field", "`memory`", "`flight`", "`log-level`"] {
                assert!(error.contains(part), "{part} is missing in {error}");
            }
        }
    }

    #[test]
    fn every_shared_flag_is_a_key_of_the_file() {
        let value = |key: &str| match key {
            "max-connections" | "grace" => "7",
            "log-format" => "\"json\"",
            "log-compression" | "archiver" => "\"off\"",
            _ => "\"x\"",
        };
        for key in keys() {
            let shared = parse(&format!("{key} = {}", value(&key))).unwrap();
            assert_ne!(format!("{shared:?}"), format!("{:?}", Shared::default()), "{key} has no effect");
        }
    }

    #[test]
    fn the_manual_lists_every_listener() {
        let manual = include_str!("../../../docs/manual/configuration.md");
        for Listener { name, env, default, .. } in LISTENERS {
            let row = format!("| `--{name} ADDR` | `{env}` | `{name}` | `{default}` |");
            assert!(manual.contains(&row), "docs/manual/configuration.md has no row {row}");
        }
    }
}
