//! Several tools as one run: a coordinator that measures nothing itself, and members that do, each with its own devices.
//!
//! Words: a *point* is a place in a run where all members wait for each other, such as `created` or `begin TIME_RANGE`.
//! A member is *lost* when its connection ends or is silent before its result has come; a member that ends its run early
//! *leaves*, and is not waited for from then on.
//!
//! Always true: members had the coordinator's version, workload and configuration (but for where the target is); no
//! member passes a point before all members that take part have reached it; a run that a member was lost from is marked.
//!
//! Lines of JSON over TCP, no longer than [`LINE_BYTES_MAX`]. Nothing is encrypted: a token keeps strangers out of a
//! trusted network, not listeners. Steps, between coordinator (C) and member (M):
//!
//! | who | message | meaning |
//! |---|---|---|
//! | M | `hello` | protocol, version, token, workload, configuration |
//! | C | `welcome` or `refused` | the member's index, or what differs |
//! | M | `at` | waits at a point |
//! | C | `ping`, M `pong` | some round trips, when all wait |
//! | C | `go` | pass the point so many microseconds after this has come |
//! | M | `started` | passed it: by this the coordinator sees how far members were apart |
//! | M | `leave` | meets nobody any more |
//! | M | `result` or `failed` | ends; C answers `thanks` |
//! | C | `stop` | end early |
//! | both | `alive` | every few seconds; 30 s of silence are a loss |

mod coordinator;
mod line;
mod member;
mod merge;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::result::RunResult;

pub(crate) use coordinator::{Coordinator, Gathered};
pub(crate) use member::Member;
pub(crate) use merge::merge;

/// Version of the messages.
const PROTOCOL: u32 = 1;
/// Longest message: a result of a day with every kind in every second has about 150 MiB.
const LINE_BYTES_MAX: usize = 512 << 20;
/// Longest message of somebody who has not been welcomed.
const HELLO_BYTES_MAX: usize = 256 << 10;
/// A peer that says nothing for so long is lost.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Peers say that they are alive this often.
const ALIVE_EVERY: Duration = Duration::from_secs(5);
/// A connection that has not said hello by then is closed.
const HELLO_WAIT: Duration = Duration::from_secs(10);

/// Keys in which members may differ: who they are, and where the target is from there.
const OWN_KEYS: [&str; 4] = ["BENCHMARK_CLUSTER", "BENCHMARK_INDEX", "HOST", "PORT"];

/// What the members of a run must share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// Of this tool.
    pub(crate) version: String,
    pub(crate) workload: String,
    /// Keys and values, without passwords.
    pub(crate) configuration: Vec<(String, String)>,
    /// Other settings of the run, such as numbers of clients.
    pub(crate) order: String,
}

impl Identity {
    pub(crate) fn new(workload: &str, config: &Config, order: String) -> Identity {
        let shared = |key: &&'static str| !OWN_KEYS.contains(key);
        let entries = config.entries().filter(|(key, _)| shared(key));
        Identity {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            workload: workload.to_owned(),
            configuration: entries.map(|(key, value)| (key.to_owned(), value)).collect(),
            order,
        }
    }

    /// What `other` has otherwise, for its user; `None`: nothing.
    fn difference(&self, other: &Identity) -> Option<String> {
        if self.version != other.version {
            return Some(format!("version {}, the coordinator has {}", other.version, self.version));
        }
        if self.workload != other.workload {
            return Some(format!("workload {}, the coordinator has {}", other.workload, self.workload));
        }
        if self.order != other.order {
            return Some(format!("options {:?}, the coordinator has {:?}", other.order, self.order));
        }
        let value_of = |pairs: &[(String, String)], key: &str| {
            pairs.iter().find(|(name, _)| name == key).map_or("nothing".to_owned(), |(_, value)| value.clone())
        };
        let keys = self.configuration.iter().chain(&other.configuration).map(|(key, _)| key);
        let differ = |key: &&String| value_of(&self.configuration, key) != value_of(&other.configuration, key);
        let mut different: Vec<&String> = keys.filter(differ).collect();
        different.sort();
        different.dedup();
        let say = |key: &&String| {
            let (theirs, ours) = (value_of(&other.configuration, key), value_of(&self.configuration, key));
            format!("{key}={theirs}, the coordinator has {ours}")
        };
        let said: Vec<String> = different.iter().take(10).map(say).collect();
        (!said.is_empty()).then(|| said.join("; "))
    }
}

/// From a member.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FromMember {
    Hello { protocol: u32, token: String, identity: Identity },
    At { point: String },
    Pong { number: u32 },
    Started { point: String },
    Leave,
    Alive,
    Result { result: Box<RunResult> },
    Failed { message: String },
}

/// From the coordinator.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FromCoordinator {
    Welcome { index: u64, members: u64 },
    Refused { why: String },
    Ping { number: u32 },
    Go { point: String, in_us: u64 },
    Stop { why: String },
    Alive,
    Thanks,
}

/// `ADDR` of the command line with what is missing: loopback unless an address is named.
pub(crate) fn address(text: &str) -> String {
    match text.rsplit_once(':') {
        Some((host, _)) if !host.is_empty() => text.to_owned(),
        Some((_, port)) => format!("127.0.0.1:{port}"),
        None => format!("127.0.0.1:{text}"),
    }
}

#[cfg(test)]
mod tests;
