//! Distributed runs: a coordinator, which measures nothing, and members, each of which measures its
//! own devices.
//!
//! Words: a *point* is a barrier of the run, such as `created` or `begin TIME_RANGE`: members wait
//! there for each other. A member is *lost* if its connection closes or is silent before it has
//! sent its result. A member that ends its run early *leaves*: later barriers do not wait for it.
//!
//! Always true: all members have the coordinator's version, workload and configuration, except for
//! the address of the target; no member passes a point before all participating members have
//! reached it; a run that lost a member is marked in its result.
//!
//! The protocol is lines of JSON over TCP, each at most [`LINE_BYTES_MAX`] long. Nothing is
//! encrypted: the token authenticates members in a trusted network and does not protect against
//! eavesdropping. Messages of coordinator (C) and member (M):
//!
//! | who | message | meaning |
//! |---|---|---|
//! | M | `hello` | protocol, version, token, workload, configuration |
//! | C | `welcome` or `refused` | the member's index, or the difference |
//! | M | `at` | waits at a point |
//! | C | `ping`, M `pong` | round trips, measured when all members wait |
//! | C | `go` | pass the point `in_us` microseconds after receipt |
//! | M | `started` | sent on passing the point; the coordinator computes the skew from it |
//! | M | `leave` | takes part in no later point |
//! | M | `result` or `failed` | end of the member's run; C answers `thanks` |
//! | C | `stop` | end the run early |
//! | both | `alive` | keep-alive every 5 s; a peer that is silent for 30 s is lost |

mod coordinator;
mod line;
mod member;
mod merge;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::result::RunResult;

pub(crate) use coordinator::{ClusterResults, Coordinator};
pub(crate) use member::Member;
pub(crate) use merge::merge;

/// Version of the protocol.
const PROTOCOL: u32 = 1;
/// Longest message. A result with every operation kind in every second of a day takes about 150
/// MiB.
const LINE_BYTES_MAX: usize = 512 << 20;
/// Longest message before the member is welcomed.
const HELLO_BYTES_MAX: usize = 256 << 10;
/// A peer that is silent for longer is lost.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Interval of keep-alive messages.
const ALIVE_EVERY: Duration = Duration::from_secs(5);
/// Deadline for `hello` on a new connection.
const HELLO_WAIT: Duration = Duration::from_secs(10);

/// Keys that may differ between members: the member's index, and the target's address as the member
/// sees it.
const OWN_KEYS: [&str; 4] = ["BENCHMARK_CLUSTER", "BENCHMARK_INDEX", "HOST", "PORT"];

/// Settings that all members of a run must share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// Version of this tool.
    pub(crate) version: String,
    pub(crate) workload: String,
    /// Keys and values, without passwords.
    pub(crate) configuration: Vec<(String, String)>,
    /// Command-line options that affect the work, such as `--query-clients`; empty if there are
    /// none.
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

    /// Describes the differences of `other` from `self` in an error message; `None` if they are
    /// equal.
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
        let describe = |key: &&String| {
            let (theirs, ours) = (value_of(&other.configuration, key), value_of(&self.configuration, key));
            format!("{key}={theirs}, the coordinator has {ours}")
        };
        let lines: Vec<String> = different.iter().take(10).map(describe).collect();
        (!lines.is_empty()).then(|| lines.join("; "))
    }
}

/// Messages of a member.
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

/// Messages of the coordinator.
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

/// Completes the `ADDR` of the command line: without a host it is on loopback.
pub(crate) fn address(text: &str) -> String {
    match text.rsplit_once(':') {
        Some((host, _)) if !host.is_empty() => text.to_owned(),
        Some((_, port)) => format!("127.0.0.1:{port}"),
        None => format!("127.0.0.1:{text}"),
    }
}

#[cfg(test)]
mod tests;
