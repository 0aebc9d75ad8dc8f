//! Servers that are left alone for a while, because their circuits failed.

use std::net::SocketAddrV4;
use std::time::Duration;

use rustc_hash::FxHashMap;
use tokio::time::Instant;

/// Time for which a server is left alone after a failed circuit: doubles from the first to the second.
const BACKOFF_MIN: Duration = Duration::from_millis(500);
const BACKOFF_MAX: Duration = Duration::from_secs(60);

struct Backoff {
    until: Instant,
    failures: u32,
}

/// Servers whose circuits failed.
#[derive(Default)]
pub(crate) struct Backoffs(FxHashMap<SocketAddrV4, Backoff>);

impl Backoffs {
    /// Notes the end of a circuit. A server that has served for a while (`stable`) may be reconnected to at once; another is left alone.
    pub(crate) fn note(&mut self, address: SocketAddrV4, stable: bool, now: Instant) {
        if stable {
            return self.forget(address);
        }
        let failures = self.0.get(&address).map_or(0, |backoff| backoff.failures + 1);
        let wait = BACKOFF_MIN.saturating_mul(1 << failures.min(16)).min(BACKOFF_MAX);
        self.0.retain(|_, backoff| now < backoff.until + BACKOFF_MAX);
        self.0.insert(address, Backoff { until: now + wait, failures });
    }

    /// Whether the server is to be left alone.
    pub(crate) fn forbids(&self, address: SocketAddrV4, now: Instant) -> bool {
        self.0.get(&address).is_some_and(|backoff| now < backoff.until)
    }

    /// The server may be reconnected to at once.
    pub(crate) fn forget(&mut self, address: SocketAddrV4) {
        self.0.remove(&address);
    }
}
