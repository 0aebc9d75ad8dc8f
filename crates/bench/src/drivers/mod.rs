//! Drivers: how each product is written and queried. One file per product, one line in [`DRIVERS`].
//!
//! A driver uses the fastest write path that its product documents, and states it with the reason
//! in [`About`], so that no product is handicapped. Connections are synchronous; each belongs to
//! one client thread. docs/manual/benchmark-drivers.md has a guide.

mod arrow;
mod cells;
mod clickhouse;
#[cfg(test)]
mod conformance;
pub(crate) mod copy;
pub(crate) mod digits;
mod duckdb;
pub(crate) mod flight;
pub(crate) mod http;
mod influxdb;
mod influxdb2;
mod inprocess;
pub(crate) mod iotdb;
mod kairosdb;
mod line;
mod millrace;
pub(crate) mod mysqlwire;
mod null;
mod opentsdb;
pub(crate) mod pgwire;
mod postgres;
mod questdb;
mod series;
mod socket;
mod sql;
mod tdengine;
#[cfg(test)]
mod testing;
mod victoriametrics;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::config::Config;
use crate::error::{Error, Result};
use crate::query::{Query, Rows};
use crate::schema::{Batch, Schema};

/// All products that this tool supports.
pub(crate) const DRIVERS: &[Entry] = &[
    null::ENTRY,
    millrace::ENTRY,
    postgres::ENTRY,
    postgres::TIMESCALEDB,
    questdb::ENTRY,
    influxdb::ENTRY,
    influxdb2::ENTRY,
    iotdb::ENTRY,
    kairosdb::ENTRY,
    opentsdb::ENTRY,
    tdengine::ENTRY,
    victoriametrics::ENTRY,
    duckdb::ENTRY,
    clickhouse::ENTRY,
];

/// An entry of the list of products.
pub(crate) struct Entry {
    /// Scheme of the product's targets (`NAME://…`), and name of the private server to start.
    pub(crate) name: &'static str,
    /// Product and write paths in one line, for `list-targets`.
    pub(crate) summary: &'static str,
    /// Level of testing of the driver.
    pub(crate) proof: Proof,
    /// Creates the driver. Does not connect.
    pub(crate) open: fn(Opening) -> Result<Box<dyn Driver>>,
}

/// Level of testing of a driver, from highest to lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The product itself, of this version.
    Product(&'static str),
    /// An independent program that speaks the product's protocol, not the product itself.
    Peer(&'static str),
    /// Nothing: written from the product's documentation.
    Documents,
}

impl Proof {
    /// Text in reports.
    pub(crate) fn text(self) -> String {
        match self {
            Proof::Product(version) => format!("tested with {version}"),
            Proof::Peer(peer) => format!("never run against the product (tested with {peer})"),
            Proof::Documents => "never run against the product (written from its documents)".to_owned(),
        }
    }
}

/// Arguments of a driver's constructor.
#[derive(Clone)]
pub(crate) struct Opening {
    /// Address and options of the product.
    pub(crate) target: Target,
    /// Tables and devices of the workload.
    pub(crate) schema: Arc<Schema>,
    /// Configuration of the run.
    pub(crate) config: Arc<Config>,
}

/// Product and address, `NAME://user:password@host:port/database?option=value&…`. Several hosts are
/// separated by commas; drivers that use one address take the first, others assign clients to hosts
/// in turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) name: String,
    /// Entries are `host` or `host:port`. Empty: a private server is started (or the target is
    /// `null`).
    pub(crate) hosts: Vec<String>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: Option<String>,
    /// Options of the driver, which refuses unknown ones with [`Target::only`].
    pub(crate) options: BTreeMap<String, String>,
    /// Process whose network namespace connections enter, if any: a private server that binds all
    /// addresses has its own.
    pub(crate) network_of: Option<u32>,
}

/// Description of the product's use, for readers of the figures.
#[derive(Clone, Debug)]
pub(crate) struct About {
    /// Display name of the product, such as `QuestDB`.
    pub product: &'static str,
    /// The write path, such as `COPY BINARY, one statement per request`.
    pub write_path: String,
    /// Reason why this is the fastest write path that the product documents.
    pub why: &'static str,
    /// State of a write when it is acknowledged, such as `after fsync (synchronous_commit = on)`.
    pub durability: String,
    /// Whether an acknowledged write is on disk.
    pub durable: bool,
    /// Whether a write can be read as soon as it is acknowledged. If not, missing rows in reads
    /// during writes are accepted, and the final checks wait until the counts are stable.
    pub visible_at_once: bool,
    /// Whether a second write of the same device and time replaces the row.
    pub replaces: bool,
}

/// A product at an address, to which clients connect.
pub(crate) trait Driver: Send + Sync {
    /// Describes how the product is used.
    fn about(&self) -> About;

    /// Connects client `client` (from 0), with the time-outs of the configuration.
    fn connect(&self, client: usize) -> Result<Box<dyn Connection>>;
}

/// The connection of one client. Calls come from one thread.
///
/// A write has two steps: `encode`, which is not timed, and `send`, which is. So the tool's own
/// work does not count as the target's.
pub(crate) trait Connection: Send {
    /// Version that the product reports.
    fn version(&mut self) -> Result<String>;

    /// Drops the data of earlier runs, so that the schema can be created. No error if there is
    /// none.
    fn clear(&mut self) -> Result<()>;

    /// Creates the tables or series of these devices. Several connections call this concurrently
    /// with disjoint ranges that cover all devices: creating a shared table that another has
    /// created already must not fail.
    fn create(&mut self, devices: Range<u32>) -> Result<()>;

    /// Encodes `batch` for the wire into a reused buffer of the connection. Replaces the result of
    /// an earlier call.
    fn encode(&mut self, batch: &Batch) -> Result<()>;

    /// Sends the encoded batch and waits until all of it is acknowledged. May be called again to
    /// send the same bytes.
    fn send(&mut self) -> Result<()>;

    /// The statement of a query, as a user would type it. `Unsupported` if the product does not
    /// support the query.
    fn statement(&self, query: &Query) -> Result<String>;

    /// Runs a query and reads the answer completely. It is kept undecoded for `points` and
    /// `answer`.
    fn query(&mut self, query: &Query) -> Result<()>;

    /// Number of non-null values in the last answer; not timed.
    fn points(&mut self, query: &Query) -> Result<u64> {
        Ok(self.answer(query)?.points())
    }

    /// Decodes the last answer; not timed. Must fail if the answer has unexpected content, rather
    /// than guess.
    fn answer(&mut self, query: &Query) -> Result<Rows>;

    /// Whether acknowledged rows are still invisible to queries. The caller polls until it returns
    /// false.
    fn is_behind(&mut self) -> Result<bool> {
        Ok(false)
    }

    /// Makes the product write its final form to disk (flush, compaction, checkpoint), if it has a
    /// command for that. May return before it is done: the caller waits until the server is idle.
    fn settle(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Target {
    /// Parses `NAME` or `NAME?options` (a private server), or `NAME://…` (a running one).
    pub(crate) fn parse(text: &str) -> Result<Target> {
        let (head, options) = text.split_once('?').unwrap_or((text, ""));
        let (name, place) = head.split_once("://").unwrap_or((head, ""));
        // PostgreSQL's connection URLs start with `postgres` or `postgresql`.
        let name = name.to_ascii_lowercase();
        let name = if name == "postgresql" { "postgres".to_owned() } else { name };
        let mut target = Target { name, ..Target::default() };
        let (authority, database) = place.split_once('/').unwrap_or((place, ""));
        let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        if let Some((user, password)) = login.split_once(':') {
            target.user = Some(percent_decoded(user)?);
            target.password = Some(percent_decoded(password)?);
        } else if !login.is_empty() {
            target.user = Some(percent_decoded(login)?);
        }
        target.hosts = hosts.split(',').filter(|host| !host.is_empty()).map(str::to_owned).collect();
        target.database = Some(database.to_owned()).filter(|name| !name.is_empty());
        for pair in options.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, "true"));
            target.options.insert(key.to_owned(), percent_decoded(value)?);
        }
        Ok(target)
    }

    /// The target as a user would type it, without the password.
    pub(crate) fn display_url(&self) -> String {
        let user = self.user.as_ref().map_or_else(String::new, |user| format!("{user}@"));
        let database = self.database.as_ref().map_or_else(String::new, |database| format!("/{database}"));
        let options: Vec<String> = self.options.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let options = if options.is_empty() { String::new() } else { format!("?{}", options.join("&")) };
        format!("{}://{user}{}{database}{options}", self.name, self.hosts.join(","))
    }

    /// Whether a private server must be started for the target.
    pub(crate) fn is_private(&self) -> bool {
        self.hosts.is_empty() && self.name != "null"
    }

    /// Address for client `client`; `port` is the default.
    pub(crate) fn address(&self, client: usize, port: u16) -> Result<String> {
        if self.hosts.is_empty() {
            return Err(Error::setup(format!("target {}: no host; write {}://HOST:PORT", self.name, self.name)));
        }
        let host = &self.hosts[client % self.hosts.len()];
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        Ok(if has_port { host.clone() } else { format!("{host}:{port}") })
    }

    /// Value of an option, or `default`.
    pub(crate) fn option<'a>(&'a self, key: &str, default: &'a str) -> &'a str {
        self.options.get(key).map_or(default, String::as_str)
    }

    /// Value of an option that must be one of `choices`; the first is the default.
    pub(crate) fn choice(&self, key: &str, choices: &[&'static str]) -> Result<&'static str> {
        let seen = self.option(key, choices[0]);
        choices.iter().copied().find(|choice| *choice == seen).ok_or_else(|| {
            Error::setup(format!("target {}: {key}={seen}: expected one of {}", self.name, choices.join(", ")))
        })
    }

    /// Returns an error for options that are not in `known`.
    pub(crate) fn only(&self, known: &[&str]) -> Result<()> {
        match self.options.keys().find(|key| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) => Err(Error::setup(format!(
                "target {}: unknown option {key}: expected one of {}",
                self.name,
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            ))),
        }
    }
}

/// Opens the driver of a target.
pub(crate) fn open(opening: Opening) -> Result<Box<dyn Driver>> {
    let entry = DRIVERS.iter().find(|entry| entry.name == opening.target.name).ok_or_else(|| {
        let names: Vec<&str> = DRIVERS.iter().map(|entry| entry.name).collect();
        Error::setup(format!("unknown target {:?}: expected one of {}", opening.target.name, names.join(", ")))
    })?;
    (entry.open)(opening)
}

/// Time-outs of a write and of a query.
pub(crate) fn timeouts(config: &Config) -> (Duration, Duration) {
    let millis = |value: u64| Duration::from_millis(value.max(1));
    (millis(config.write_operation_timeout_ms), millis(config.read_operation_timeout_ms))
}

fn percent_decoded(text: &str) -> Result<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digits = [bytes.next().unwrap_or(b'x'), bytes.next().unwrap_or(b'x')];
        let code = std::str::from_utf8(&digits).ok().and_then(|digits| u8::from_str_radix(digits, 16).ok());
        out.push(code.ok_or_else(|| Error::setup(format!("{text:?}: a % must be followed by two hex digits")))?);
    }
    String::from_utf8(out).map_err(|_| Error::setup(format!("{text:?}: not UTF-8 after decoding")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_with_login_hosts_database_and_options() {
        let target = Target::parse("PostgreSQL://me:p%40ss@a:1,b/db?write=copy&x").expect("valid");
        assert_eq!(target.name, "postgres");
        assert_eq!((target.user.as_deref(), target.password.as_deref()), (Some("me"), Some("p@ss")));
        assert_eq!(target.address(0, 5432).expect("host"), "a:1");
        assert_eq!(target.address(3, 5432).expect("host"), "b:5432");
        assert_eq!(target.database.as_deref(), Some("db"));
        assert_eq!((target.option("write", "?"), target.option("x", "?")), ("copy", "true"));
        assert!(target.only(&["write"]).is_err());
        assert!(Target::parse("questdb?wal=on").expect("valid").is_private());
        assert!(Target::parse("x://%zz@h").is_err());
    }
}
