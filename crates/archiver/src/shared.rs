//! State that the tasks of the archiver and requests share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use arrow_array::RecordBatch;
use epics::client::ChannelId;
use epics::sample::Nanos;
use epics::{ca, pva};
use model::{Error, Result, SqlState};
use query::Database;
use server::http::Metric;
use tokio::sync::{Mutex, broadcast};

use crate::peers::Peers;
use crate::policies::Policies;
use crate::registry::{Protocol, Registry, Totals};
use crate::summaries::Watermarks;
use crate::tables::Pending;

/// Commits that a client which follows may be behind.
const FOLLOWED_COMMITS: usize = 16;

/// State that all tasks and requests share.
pub(crate) struct Shared {
    pub(crate) database: Database,
    pub(crate) registry: Mutex<Registry>,
    pub(crate) policies: Mutex<Policies>,
    pub(crate) clients: Clients,
    pub(crate) peers: Peers,
    /// Rows that are collected for the next commit. Locked after the registry.
    pub(crate) pending: Mutex<Pending>,
    pub(crate) written: Written,
    pub(crate) watermarks: Watermarks,
    /// One look at the definitions at a time.
    pub(crate) following: Mutex<()>,
    pub(crate) started: Nanos,
    /// Commits of samples that have begun.
    pub(crate) commits: AtomicU64,
    /// Rows that were committed, for clients that follow them.
    pub(crate) committed: broadcast::Sender<Arc<Committed>>,
    /// Numbers of all PVs at the last look.
    pub(crate) totals: std::sync::Mutex<Totals>,
    /// Gaps that were filled from a pair.
    pub(crate) filled: AtomicU64,
    /// Reason why samples are not stored, while they are not.
    pub(crate) failing: std::sync::Mutex<Option<String>>,
}

/// State of the writer.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// All that arrived before this time is committed; 0 before the first commit.
    pub(crate) until: AtomicI64,
    /// Whether rows were given up when the archiver stopped.
    pub(crate) lost: AtomicBool,
}

pub(crate) fn not_started(error: impl std::fmt::Display) -> Error {
    Error::new(SqlState::IO_ERROR, error.to_string())
}

/// The clients of all protocols.
pub(crate) struct Clients {
    pub(crate) ca: ca::Client,
    pub(crate) pva: pva::Client,
}

impl Clients {
    /// Subscribes to a PV. The outer error is that of a client which has ended, the inner one that of a name which cannot be.
    pub(crate) async fn subscribe(
        &self,
        protocol: Protocol,
        name: &str,
    ) -> Result<std::result::Result<ChannelId, String>> {
        match protocol {
            Protocol::Ca => match self.ca.subscribe(name, ca::Options::default()).await {
                Err(error @ ca::Error::Name { .. }) => Ok(Err(error.to_string())),
                other => other.map(Ok).map_err(not_started),
            },
            Protocol::Pva => match self.pva.subscribe(name, pva::Options::default()).await {
                Err(error @ pva::Error::Name { .. }) => Ok(Err(error.to_string())),
                other => other.map(Ok).map_err(not_started),
            },
        }
    }

    pub(crate) async fn unsubscribe(&self, (protocol, channel): (Protocol, ChannelId)) -> Result<()> {
        match protocol {
            Protocol::Ca => self.ca.unsubscribe(channel).await.map_err(not_started),
            Protocol::Pva => self.pva.unsubscribe(channel).await.map_err(not_started),
        }
    }
}

impl Shared {
    pub(crate) fn new(database: Database, clients: Clients, watermarks: Watermarks, started: Nanos) -> Shared {
        Shared {
            database,
            registry: Mutex::default(),
            policies: Mutex::default(),
            clients,
            peers: Peers::new(),
            pending: Mutex::default(),
            written: Written::default(),
            watermarks,
            following: Mutex::default(),
            started,
            commits: AtomicU64::new(0),
            committed: broadcast::Sender::new(FOLLOWED_COMMITS),
            totals: std::sync::Mutex::default(),
            filled: AtomicU64::new(0),
            failing: std::sync::Mutex::new(None),
        }
    }

    pub(crate) fn now(&self) -> Nanos {
        self.database.engine().env().now_ns()
    }

    /// Names and aliases of archived PVs, sorted. They are copied, so that no expression is evaluated while sampling waits.
    pub(crate) async fn names(&self) -> Vec<Arc<str>> {
        let mut names = {
            let registry = self.registry.lock().await;
            let mut names = registry.names();
            names.extend(registry.aliases.keys().map(|alias| Arc::from(alias.as_str())));
            names
        };
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The numbers that `/metrics` shows.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let totals = self.totals.lock().map(|totals| *totals).unwrap_or_default();
        let counts = totals.counts;
        let is_failing = self.failing.lock().is_ok_and(|failing| failing.is_some());
        let peers = self.peers.all();
        let down = peers.iter().filter(|peer| peer.problem().is_some()).count();
        let gauge = |name, help, value| Metric { name, help, is_total: false, value };
        let total = |name, help, value| Metric { name, help, is_total: true, value };
        vec![
            gauge("epics_pvs", "PVs of the archiver.", totals.pvs),
            gauge("epics_pvs_connected", "PVs that an IOC serves.", totals.connected),
            gauge("epics_pvs_paused", "PVs that are paused.", totals.paused),
            gauge("epics_failing", "1 while samples cannot be stored.", u64::from(is_failing)),
            gauge("epics_peers", "Peers of the archiver.", peers.len() as u64),
            gauge("epics_peers_down", "Peers that did not answer the last request.", down as u64),
            total("epics_samples_arrived", "Samples that arrived.", counts.events),
            total("epics_samples_stored", "Samples in epics.samples.", counts.stored),
            total("epics_samples_misdated", "Samples in epics.misdated.", counts.misdated),
            total("epics_samples_repeated", "Samples equal to the one before.", counts.repeated),
            total("epics_samples_replaced", "Samples replaced within the period of a scan.", counts.replaced),
            total("epics_samples_unchanged", "Samples within a deadband.", counts.unchanged),
            total("epics_samples_lost", "Samples lost before they could be stored.", counts.dropped),
            total("epics_value_bytes", "Bytes of values stored.", counts.bytes),
            total("epics_connections_lost", "Connections of PVs that were lost.", counts.connections_lost),
            total("epics_gaps_filled", "Gaps filled from a pair.", self.filled.load(Ordering::Relaxed)),
        ]
    }

    /// Notes why samples are not stored, and logs it the first time.
    pub(crate) fn failed(&self, problem: &str) {
        if let Ok(mut failing) = self.failing.lock()
            && failing.replace(problem.to_owned()).is_none()
        {
            tracing::error!(problem, "samples are not stored");
        }
    }

    /// Notes that samples are stored.
    pub(crate) fn works(&self) {
        if let Ok(mut failing) = self.failing.lock()
            && failing.take().is_some()
        {
            tracing::info!("samples are stored again");
        }
    }
}

/// Batches, each with its table.
pub(crate) type Batches = Vec<(&'static str, RecordBatch)>;

/// Rows that were committed, with the number of their commit.
pub(crate) struct Committed {
    pub(crate) number: u64,
    pub(crate) batches: Batches,
}
