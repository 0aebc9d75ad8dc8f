//! Workloads: which data is written and what is asked. One file a workload, one line in [`WORKLOADS`].
//!
//! A workload is a pure function of its configuration and seed: `value(device, slot, field)` needs no state that a
//! second process would not have, so that data is identical on every target, and the right answer of every question
//! can be computed instead of remembered ([`crate::oracle`]). See docs/manual/benchmark-workloads.md for a guide.
//!
//! Words: a *slot* is one time of a device, numbered from 0 in the order of time. A *unit* is one request's share of a
//! device: some slots, all or one of the fields; numbered from 0 in the order of arrival.

#[cfg(test)]
mod contract;
#[cfg(test)]
mod counter;
mod dataset;
mod iot;
pub(crate) mod readback;
mod tsbs;

use std::ops::Range;
use std::sync::Arc;

use crate::config::Config;
use crate::error::{Error, Result};
use crate::query::Query;
use crate::schema::Schema;
use dataset::DataSet;
use readback::Readback;

/// Every workload this tool knows.
pub(crate) const WORKLOADS: &[Entry] = &[
    iot::ENTRY,
    tsbs::ENTRY,
    #[cfg(test)]
    counter::ENTRY,
];

/// A workload in the list.
pub(crate) struct Entry {
    /// The word on the command line: `millrace bench NAME`.
    pub(crate) name: &'static str,
    /// What keys are where nobody sets them, where that is not the original's default: the first argument of
    /// [`Config::load_over`].
    pub(crate) defaults: &'static [(&'static str, &'static str)],
    /// Makes it from a configuration.
    pub(crate) open: fn(&Arc<Config>) -> Result<Arc<dyn Workload>>,
}

/// A kind of operation, a row of the matrices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OperationKind {
    /// The name in matrices, such as `PRECISE_POINT`.
    pub name: &'static str,
    /// The name in the original's persistence tables, such as `PRECISE_QUERY`.
    pub stored_name: &'static str,
    /// What it asks, in a few words, such as `Q1 exact time`.
    pub title: &'static str,
}

/// Which data is written and what is asked. All methods are pure.
pub(crate) trait Workload: Send + Sync {
    /// Kinds of operations in the order of `OPERATION_PROPORTION`; kind 0 is writing.
    fn kinds(&self) -> &[OperationKind];

    /// Tables and devices.
    fn schema(&self) -> &Arc<Schema>;

    /// Devices in the order in which clients share them out: runs of it go to one client each.
    fn order(&self) -> Vec<u32>;

    /// Units a device has in all; a run may end before.
    fn units(&self, device: u32) -> u64;

    /// Units of each device that one write loop of a client sends: 1, or one a sensor where sensors are not aligned.
    fn units_per_pass(&self) -> u64 {
        1
    }

    /// Fields that a unit carries.
    fn unit_fields(&self, device: u32, unit: u64) -> Range<u32>;

    /// Slots that a unit carries, in the order of arrival. May be none. Appended to `slots`.
    fn unit_slots(&self, device: u32, unit: u64, slots: &mut Vec<u64>);

    /// Units that carry (device, slot, field), in the order of arrival: one, or more where it is written again with the
    /// same value, or none where it never arrives. Appended to `units`.
    fn units_of(&self, device: u32, slot: u64, field: u32, units: &mut Vec<u64>);

    /// Time of a slot, in the schema's unit. Strictly increasing in `slot`.
    fn time(&self, device: u32, slot: u64) -> i64;

    /// Slots whose times may lie in `window` (half-open): a superset, small at the edges.
    fn slots_in(&self, device: u32, window: Range<i64>) -> Range<u64>;

    /// A slot above all that the first `units` units of a device carry.
    fn slot_bound(&self, device: u32, units: u64) -> u64;

    /// Units (see [`crate::schema::Kind`]) of one field in some slots, into `out[i]` for `slots[i]`.
    fn fill(&self, device: u32, field: u32, slots: &[u64], out: &mut [i64]);

    /// How many questions of `kind` there are, where each is asked once: `query(kind, 0, nth, None)` for each `nth` below
    /// it. `None`: any number, each client its own.
    fn questions(&self, _kind: usize) -> Option<u64> {
        None
    }

    /// The `nth` question of `kind` (≥ 1) that `client` asks. `newest`: the newest time that this client has had
    /// acknowledged, for questions about recent data.
    fn query(&self, kind: usize, client: usize, nth: u64, newest: Option<i64>) -> Result<Query>;
}

/// The workload of a name; by the mode, as files have it, or with questions that read it back.
pub(crate) fn open(name: &str, config: &Arc<Config>) -> Result<Arc<dyn Workload>> {
    let workload = (entry(name)?.open)(config)?;
    let data: Arc<dyn Workload> =
        if config.reads_files() { Arc::new(DataSet::open(config, workload)?) } else { workload };
    let read_back = config.reads_files() || config.is_point_comparison;
    Ok(if read_back { Arc::new(Readback::new(config, data)) } else { data })
}

/// The line of a name in the list.
pub(crate) fn entry(name: &str) -> Result<&'static Entry> {
    WORKLOADS.iter().find(|entry| entry.name == name).ok_or_else(|| {
        let names: Vec<&str> = WORKLOADS.iter().map(|entry| entry.name).collect();
        Error::setup(format!("no workload {name:?}; there are: {}", names.join(", ")))
    })
}
