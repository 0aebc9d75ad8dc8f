//! Wraps a workload with queries that read all of it back: the original's verification query and
//! point comparison.
//!
//! Always true: the queries of a kind, each sent once, read every row of every device once.

use std::ops::Range;
use std::sync::Arc;

use super::{OperationKind, Workload};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::query::{Order, Query, Shape};
use crate::schema::Schema;

/// Kind of queries that read as many rows as a batch has.
pub(crate) const VERIFICATION_QUERY: usize = 1;
/// Kind of queries that read a range of time, newest first.
pub(crate) const DEVICE_QUERY: usize = 2;

const KINDS: [OperationKind; 3] = [
    OperationKind { name: "INGESTION", stored_name: "INGESTION", title: "write a batch" },
    OperationKind { name: "VERIFICATION_QUERY", stored_name: "VERIFICATION_QUERY", title: "all values of a batch" },
    OperationKind { name: "DEVICE_QUERY", stored_name: "DEVICE_QUERY", title: "all values of a span, newest first" },
];

/// Maximum number of values in an answer, which is held in memory.
const VALUES_MAX: u64 = 1 << 20;

/// A workload with these queries.
pub(crate) struct Readback {
    data: Arc<dyn Workload>,
    order: Vec<u32>,
    /// Rows of a verification query.
    rows: u64,
    /// Time range of a device query, unless that exceeds [`VALUES_MAX`].
    span: i64,
    step: i64,
    /// For each kind, the number of queries on the devices before each position of `order`, and the
    /// total.
    before: [Vec<u64>; 2],
}

impl Readback {
    pub(crate) fn new(config: &Config, data: Arc<dyn Workload>) -> Readback {
        let batches = i64::try_from(config.verification_step_size).unwrap_or(i64::MAX);
        let rows = i64::try_from(config.batch_size_per_write).unwrap_or(i64::MAX);
        let mut readback = Readback {
            order: data.order(),
            data,
            rows: config.batch_size_per_write,
            span: batches.saturating_mul(config.point_step).saturating_mul(rows),
            step: config.point_step,
            before: [vec![0], vec![0]],
        };
        for device in readback.order.clone() {
            let counts = [readback.batches(device), readback.spans(device)];
            for (before, count) in readback.before.iter_mut().zip(counts) {
                before.push(before.last().copied().unwrap_or(0) + count);
            }
        }
        readback
    }

    /// Total slots of a device.
    fn slots(&self, device: u32) -> u64 {
        self.data.slot_bound(device, self.data.units(device))
    }

    /// Maximum number of rows in an answer about a device.
    fn rows_max(&self, device: u32) -> u64 {
        (VALUES_MAX / self.schema().table_of(device).fields.len().max(1) as u64).max(1)
    }

    /// Number of verification queries on a device.
    fn batches(&self, device: u32) -> u64 {
        self.slots(device).div_ceil(self.rows.min(self.rows_max(device)))
    }

    /// First and last time of a device, if it has any.
    fn times(&self, device: u32) -> Option<(i64, i64)> {
        let last = self.slots(device).checked_sub(1)?;
        Some((self.data.time(device, 0), self.data.time(device, last)))
    }

    fn span(&self, device: u32) -> i64 {
        let most = i64::try_from(self.rows_max(device)).unwrap_or(i64::MAX).saturating_mul(self.step);
        self.span.min(most).max(1)
    }

    /// Number of device queries on a device.
    fn spans(&self, device: u32) -> u64 {
        self.times(device).map_or(0, |(first, last)| last.abs_diff(first) / self.span(device).unsigned_abs() + 1)
    }

    /// Window of the `nth` verification query on a device. Windows are adjacent, so rows between
    /// batches are found too.
    fn batch_window(&self, device: u32, nth: u64) -> Range<i64> {
        let rows = self.rows.min(self.rows_max(device));
        let start = self.data.time(device, nth * rows);
        let next = (nth + 1) * rows;
        if next < self.slots(device) {
            return start..self.data.time(device, next);
        }
        start..self.times(device).map_or(start, |(_, last)| last) + 1
    }

    /// Window of the `nth` device query on a device.
    fn span_window(&self, device: u32, nth: u64) -> Range<i64> {
        let (first, last) = self.times(device).unwrap_or_default();
        let span = self.span(device);
        let start = first.saturating_add(span.saturating_mul(nth as i64));
        start..start.saturating_add(span).min(last + 1)
    }
}

impl Workload for Readback {
    fn kinds(&self) -> &[OperationKind] {
        &KINDS
    }

    fn schema(&self) -> &Arc<Schema> {
        self.data.schema()
    }

    fn order(&self) -> Vec<u32> {
        self.order.clone()
    }

    fn units(&self, device: u32) -> u64 {
        self.data.units(device)
    }

    fn units_per_pass(&self) -> u64 {
        self.data.units_per_pass()
    }

    fn unit_fields(&self, device: u32, unit: u64) -> Range<u32> {
        self.data.unit_fields(device, unit)
    }

    fn unit_slots(&self, device: u32, unit: u64, slots: &mut Vec<u64>) {
        self.data.unit_slots(device, unit, slots);
    }

    fn units_of(&self, device: u32, slot: u64, field: u32, units: &mut Vec<u64>) {
        self.data.units_of(device, slot, field, units);
    }

    fn time(&self, device: u32, slot: u64) -> i64 {
        self.data.time(device, slot)
    }

    fn slots_in(&self, device: u32, window: Range<i64>) -> Range<u64> {
        self.data.slots_in(device, window)
    }

    fn slot_bound(&self, device: u32, units: u64) -> u64 {
        self.data.slot_bound(device, units)
    }

    fn fill(&self, device: u32, field: u32, slots: &[u64], out: &mut [i64]) {
        self.data.fill(device, field, slots, out);
    }

    fn questions(&self, kind: usize) -> Option<u64> {
        self.before.get(kind.checked_sub(1)?)?.last().copied()
    }

    fn query(&self, kind: usize, _client: usize, nth: u64, _newest: Option<i64>) -> Result<Query> {
        let all = self.questions(kind).filter(|all| *all > 0);
        let nth = nth % all.ok_or_else(|| Error::setup("there are no rows to read back"))?;
        let before = &self.before[kind - 1];
        let at = before.partition_point(|questions| *questions <= nth) - 1;
        let (device, nth) = (self.order[at], nth - before[at]);
        let by_span = kind == DEVICE_QUERY;
        let schema = self.schema();
        Ok(Query {
            kind,
            table: schema.devices[device as usize].table,
            devices: Some(vec![device]),
            fields: (0..schema.table_of(device).fields.len() as u32).collect(),
            window: Some(if by_span { self.span_window(device, nth) } else { self.batch_window(device, nth) }),
            filters: Vec::new(),
            shape: Shape::Rows,
            order: if by_span { Order::Descending } else { Order::Any },
            limit: None,
            set: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload;

    #[test]
    fn every_row_of_every_device_is_read_once() {
        let settings = ["DEVICE_NUMBER=5", "SENSOR_NUMBER=3", "LOOP=4", "BATCH_SIZE_PER_WRITE=7"];
        let orders: [&[&str]; 3] = [
            &["VERIFICATION_STEP_SIZE=2", "IS_REGULAR_FREQUENCY=false"],
            &["IS_OUT_OF_ORDER=true", "LAMBDA=3", "MAX_K=30", "VERIFICATION_STEP_SIZE=1"],
            // Windows with many rows are split.
            &["SENSOR_NUMBER=100000"],
        ];
        for order in orders {
            let settings: Vec<String> = settings.iter().chain(order).map(|text| (*text).to_owned()).collect();
            let config = Arc::new(Config::load(None, &settings).expect("valid settings"));
            let readback = Readback::new(&config, workload::open("iot", &config).expect("a workload"));
            for kind in [VERIFICATION_QUERY, DEVICE_QUERY] {
                let mut asked = vec![0; 5];
                for nth in 0..readback.questions(kind).expect("a number") {
                    let query = readback.query(kind, 0, nth, None).expect("a question");
                    let (device, window) = (query.devices.expect("one")[0], query.window.expect("a window"));
                    let slots = 0..readback.slots(device);
                    let inside = slots.filter(|slot| window.contains(&readback.time(device, *slot))).count() as u64;
                    assert!(inside * query.fields.len() as u64 <= VALUES_MAX.max(7 * 3), "{window:?}");
                    asked[device as usize] += inside;
                }
                let all: Vec<u64> = (0..5).map(|device| readback.slots(device)).collect();
                assert_eq!(asked, all, "{order:?} kind {kind}");
            }
        }
    }
}
