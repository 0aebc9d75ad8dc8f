//! Workloads: data to write and queries to run. Each one is a file and a line in [`WORKLOADS`].
//!
//! A workload is a pure function of its configuration and seed: `value(device, slot, field)` needs
//! no state. Data is therefore identical on every target, several processes can share a run, and
//! the correct answer of every query can be computed instead of stored ([`crate::oracle`]).
//! docs/manual/benchmark-workloads.md is a guide.
//!
//! Words: a *slot* is one time of a device; slots are numbered from 0 in order of time. A *unit* is
//! the part of a write request that belongs to one device: some slots, and all or one of the
//! fields; units are numbered from 0 in order of arrival.

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

/// All workloads.
pub(crate) const WORKLOADS: &[Entry] = &[
    iot::ENTRY,
    tsbs::ENTRY,
    #[cfg(test)]
    counter::ENTRY,
];

/// Registration of a workload.
pub(crate) struct Entry {
    /// Name on the command line: `millrace bench NAME`.
    pub(crate) name: &'static str,
    /// Defaults of keys that differ from the original's defaults: the first argument of
    /// [`Config::load_over`].
    pub(crate) defaults: &'static [(&'static str, &'static str)],
    /// Creates the workload for a configuration.
    pub(crate) open: fn(&Arc<Config>) -> Result<Arc<dyn Workload>>,
}

/// A kind of operation; it has one row in the matrices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OperationKind {
    /// Name in matrices, such as `PRECISE_POINT`.
    pub name: &'static str,
    /// Name in the original's tables of results, such as `PRECISE_QUERY`.
    pub stored_name: &'static str,
    /// Short description, such as `Q1 exact time`.
    pub title: &'static str,
}

/// Data to write and queries to run. All methods are pure functions.
pub(crate) trait Workload: Send + Sync {
    /// Kinds of operations in the order of `OPERATION_PROPORTION`; kind 0 writes.
    fn kinds(&self) -> &[OperationKind];

    /// Tables and devices.
    fn schema(&self) -> &Arc<Schema>;

    /// Order of devices for distribution among clients: each client gets a contiguous range.
    fn order(&self) -> Vec<u32>;

    /// Total units of a device; a run may end earlier.
    fn units(&self, device: u32) -> u64;

    /// Units of each device that one write loop of a client sends: 1, or one for each sensor if
    /// sensors are not aligned.
    fn units_per_pass(&self) -> u64 {
        1
    }

    /// Fields of a unit.
    fn unit_fields(&self, device: u32, unit: u64) -> Range<u32>;

    /// Appends the slots of a unit to `slots`, in order of arrival. A unit may be empty.
    fn unit_slots(&self, device: u32, unit: u64, slots: &mut Vec<u64>);

    /// Appends the units that contain (device, slot, field) to `units`, in order of arrival: one;
    /// several if the same value is written again; none if it never arrives.
    fn units_of(&self, device: u32, slot: u64, field: u32, units: &mut Vec<u64>);

    /// Time of a slot, in the schema's unit. Strictly increasing in `slot`.
    fn time(&self, device: u32, slot: u64) -> i64;

    /// Range of slots that contains all slots with times in the half-open `window`, with few others
    /// at its ends.
    fn slots_in(&self, device: u32, window: Range<i64>) -> Range<u64>;

    /// Upper bound (exclusive) of the slots in the first `units` units of a device.
    fn slot_bound(&self, device: u32, units: u64) -> u64;

    /// Writes the units (see [`crate::schema::Kind`]) of one field at `slots[i]` to `out[i]`.
    fn fill(&self, device: u32, field: u32, slots: &[u64], out: &mut [i64]);

    /// Number of queries of `kind` if each is sent exactly once: `query(kind, 0, nth, None)` for
    /// each `nth` below it. `None`: unlimited, each client sends its own.
    fn questions(&self, _kind: usize) -> Option<u64> {
        None
    }

    /// The `nth` query of `kind` (≥ 1) of `client`. `newest`: latest time of the writes
    /// acknowledged to this client, for queries on recent data.
    fn query(&self, kind: usize, client: usize, nth: u64, newest: Option<i64>) -> Result<Query>;
}

/// Opens the workload `name`; depending on the mode, its data is read from files, or its queries
/// read all data back.
pub(crate) fn open(name: &str, config: &Arc<Config>) -> Result<Arc<dyn Workload>> {
    let workload = (entry(name)?.open)(config)?;
    let data: Arc<dyn Workload> =
        if config.reads_files() { Arc::new(DataSet::open(config, workload)?) } else { workload };
    let read_back = config.reads_files() || config.is_point_comparison;
    Ok(if read_back { Arc::new(Readback::new(config, data)) } else { data })
}

/// Returns the registration of a workload.
pub(crate) fn entry(name: &str) -> Result<&'static Entry> {
    WORKLOADS.iter().find(|entry| entry.name == name).ok_or_else(|| {
        let names: Vec<&str> = WORKLOADS.iter().map(|entry| entry.name).collect();
        Error::setup(format!("no workload {name:?}; expected one of: {}", names.join(", ")))
    })
}
