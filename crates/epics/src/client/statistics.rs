//! Counters of a client.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that is read while it changes.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// The number.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn subtract(&self, n: u64) {
        self.0.fetch_sub(n, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }
}

/// Counters of a client, since it was made unless said otherwise.
#[derive(Debug, Default)]
pub struct Statistics {
    /// Channels now.
    pub channels: Counter,
    /// Channels that are searched for, as of the last search.
    pub searching_channels: Counter,
    /// Channels that are open now.
    pub connected_channels: Counter,
    /// Circuits that are connected now.
    pub circuits: Counter,
    /// Samples.
    pub samples: Counter,
    /// Samples that were dropped.
    pub dropped_samples: Counter,
    /// Times that a server was asked to withhold updates.
    pub flow_controls: Counter,
    /// Names that were searched for, each time counted.
    pub searches: Counter,
    /// Search datagrams, for each address counted.
    pub search_datagrams: Counter,
    /// Answers from a second server that serves a name too.
    pub duplicate_names: Counter,
    /// Beacons.
    pub beacons: Counter,
    /// Beacons of new or restarted servers.
    pub beacon_anomalies: Counter,
    /// Messages that did not have the form of their command, or of an unknown one.
    pub malformed_messages: Counter,
}
