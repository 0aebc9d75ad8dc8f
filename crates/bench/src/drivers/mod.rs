//! Drivers: how each product is written to and asked. One file a product, one line in [`DRIVERS`].
//!
//! A driver uses the fastest write path that its product documents, and says which and why in [`About`]: nobody shall
//! be able to say that a peer was handicapped. Connections are synchronous; each belongs to one client thread. See
//! docs/manual/benchmark-drivers.md for a guide.

mod arrow;
mod cells;
mod clickhouse;
#[cfg(test)]
mod conformance;
pub(crate) mod copy;
pub(crate) mod digits;
mod duckdb;
mod flight;
mod http;
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

/// Every product this tool knows.
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

/// A product in the list.
pub(crate) struct Entry {
    /// The scheme of its targets (`NAME://…`); private servers are started by it too.
    pub(crate) name: &'static str,
    /// Product and write paths in a line, for `--list-targets`.
    pub(crate) summary: &'static str,
    /// How far the driver is proved.
    pub(crate) proof: Proof,
    /// Makes a driver. Does not connect.
    pub(crate) open: fn(Opening) -> Result<Box<dyn Driver>>,
}

/// What a driver was tested against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The real product, of this version.
    Product(&'static str),
    /// Never the product; an independent program that speaks its protocol.
    Peer(&'static str),
    /// Written from the protocol's documents alone.
    Documents,
}

impl Proof {
    /// As reports say it.
    pub(crate) fn text(self) -> String {
        match self {
            Proof::Product(version) => format!("tested with {version}"),
            Proof::Peer(peer) => format!("never run against the product (tested with {peer})"),
            Proof::Documents => "never run against the product (written from its documents)".to_owned(),
        }
    }
}

/// What a driver is made from.
#[derive(Clone)]
pub(crate) struct Opening {
    /// Where.
    pub(crate) target: Target,
    /// What is written.
    pub(crate) schema: Arc<Schema>,
    /// How.
    pub(crate) config: Arc<Config>,
}

/// A product at a place: `NAME://user:password@host:port/database?option=value&…`. Several hosts are separated by
/// commas; drivers that know one address use the first, clients of others are dealt round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) name: String,
    /// `host:port` each; empty for products in this process.
    pub(crate) hosts: Vec<String>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: Option<String>,
    /// The rest: each driver documents its own and refuses others with [`Target::only`].
    pub(crate) options: BTreeMap<String, String>,
    /// A process whose network namespace the connections live in (a private server that binds every address).
    pub(crate) network_of: Option<u32>,
}

/// How a product is used: what a reader needs to judge a figure.
#[derive(Clone, Debug)]
pub(crate) struct About {
    /// Product's name for people, such as `QuestDB`.
    pub product: &'static str,
    /// The write path, such as `COPY BINARY, one statement a request`.
    pub write_path: String,
    /// Why this path is the fastest that the product documents.
    pub why: &'static str,
    /// When a write is acknowledged, such as `after fsync (synchronous_commit = on)`.
    pub durability: String,
    /// Is a write on disk when it is acknowledged?
    pub durable: bool,
    /// Can a write be read as soon as it is acknowledged? If not, reads during writing are not held against it, and
    /// the final checks wait until the counts stand still.
    pub visible_at_once: bool,
    /// Does writing the same device and time again replace the row?
    pub replaces: bool,
}

/// A product at a place, ready to be connected to.
pub(crate) trait Driver: Send + Sync {
    /// How the product is used.
    fn about(&self) -> About;

    /// A connection for client `client` (from 0). A driver that measures time-outs sets them from the configuration.
    fn connect(&self, client: usize) -> Result<Box<dyn Connection>>;
}

/// One client's connection. Calls come from one thread, one at a time.
///
/// Writing has two halves so that this tool's own work is not taken for the target's: `encode` is not timed, `send` is.
pub(crate) trait Connection: Send {
    /// The product's version, as it tells it.
    fn version(&mut self) -> Result<String>;

    /// Drops what an earlier run left, so that the same schema can be created anew. Nothing there is no error.
    fn clear(&mut self) -> Result<()>;

    /// Registers what these devices need. Called by several connections at once with disjoint ranges that cover all
    /// devices; tables that several ranges share must be created by whoever comes first, without an error for others.
    fn create(&mut self, devices: Range<u32>) -> Result<()>;

    /// Puts `batch` into the form that goes over the wire, into a buffer of the connection that is used again.
    /// Replaces what an earlier `encode` left there.
    fn encode(&mut self, batch: &Batch) -> Result<()>;

    /// Sends what `encode` prepared and waits until it is acknowledged whole. May be called again for the same bytes.
    fn send(&mut self) -> Result<()>;

    /// The statement for a question, as it would be typed. `Unsupported` where the product cannot be asked so.
    fn statement(&self, query: &Query) -> Result<String>;

    /// Asks, and reads the answer to its last byte, which is kept undecoded for `points` and `answer`.
    fn query(&mut self, query: &Query) -> Result<()>;

    /// Values (not null) in the last answer; not timed.
    fn points(&mut self, query: &Query) -> Result<u64> {
        Ok(self.answer(query)?.points())
    }

    /// The last answer in the common form; not timed. Must fail rather than guess when it is not what was asked for.
    fn answer(&mut self, query: &Query) -> Result<Rows>;

    /// Is something that was acknowledged not to be found by questions yet, though it is on its way? The caller asks again,
    /// and settles when it is not so any more.
    fn is_behind(&mut self) -> Result<bool> {
        Ok(false)
    }

    /// Asks the product to put everything into its final form on disk (flush, merge, checkpoint), as far as it lets
    /// itself be asked; many products do not. Returns when done or at once; the caller then waits until the server is
    /// idle.
    fn settle(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Target {
    /// Reads `NAME`, `NAME?options` (a private server, to be started) or `NAME://…`.
    pub(crate) fn parse(text: &str) -> Result<Target> {
        let (head, options) = text.split_once('?').unwrap_or((text, ""));
        let (name, place) = head.split_once("://").unwrap_or((head, ""));
        // PostgreSQL's own addresses begin with either.
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

    /// As it would be typed, without the password.
    pub(crate) fn shown(&self) -> String {
        let user = self.user.as_ref().map_or_else(String::new, |user| format!("{user}@"));
        let database = self.database.as_ref().map_or_else(String::new, |database| format!("/{database}"));
        let options: Vec<String> = self.options.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let options = if options.is_empty() { String::new() } else { format!("?{}", options.join("&")) };
        format!("{}://{user}{}{database}{options}", self.name, self.hosts.join(","))
    }

    /// Is it to be started here rather than connected to?
    pub(crate) fn is_private(&self) -> bool {
        self.hosts.is_empty() && self.name != "null"
    }

    /// The address for client `client`, with `port` where the target names none.
    pub(crate) fn address(&self, client: usize, port: u16) -> Result<String> {
        if self.hosts.is_empty() {
            return Err(Error::setup(format!("target {}: no host; write {}://HOST:PORT", self.name, self.name)));
        }
        let host = &self.hosts[client % self.hosts.len()];
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        Ok(if has_port { host.clone() } else { format!("{host}:{port}") })
    }

    /// An option's value, or `default`.
    pub(crate) fn option<'a>(&'a self, key: &str, default: &'a str) -> &'a str {
        self.options.get(key).map_or(default, String::as_str)
    }

    /// One of `choices`, the first being the default.
    pub(crate) fn choice(&self, key: &str, choices: &[&'static str]) -> Result<&'static str> {
        let seen = self.option(key, choices[0]);
        choices.iter().copied().find(|choice| *choice == seen).ok_or_else(|| {
            Error::setup(format!("target {}: {key}={seen}: expected one of {}", self.name, choices.join(", ")))
        })
    }

    /// Refuses options that are not in `known`.
    pub(crate) fn only(&self, known: &[&str]) -> Result<()> {
        match self.options.keys().find(|key| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) => Err(Error::setup(format!(
                "target {}: unknown option {key}; known are: {}",
                self.name,
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            ))),
        }
    }
}

/// The driver for a target.
pub(crate) fn open(opening: Opening) -> Result<Box<dyn Driver>> {
    let entry = DRIVERS.iter().find(|entry| entry.name == opening.target.name).ok_or_else(|| {
        let names: Vec<&str> = DRIVERS.iter().map(|entry| entry.name).collect();
        Error::setup(format!("no target {:?}; there are: {}", opening.target.name, names.join(", ")))
    })?;
    (entry.open)(opening)
}

/// Time-outs of one operation.
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
