//! The smallest possible workload: three devices that count. It shows that a new workload takes one
//! file and one line, and is the example of docs/manual/benchmark-workloads.md.

use std::ops::Range;
use std::sync::Arc;

use super::{Entry, OperationKind, Workload};
use crate::config::Config;
use crate::error::Result;
use crate::query::{Aggregate, Order, Query, Shape};
use crate::schema::{Device, Field, Kind, Schema, Table, Unit};

pub(crate) const ENTRY: Entry = Entry {
    name: "counter",
    defaults: &[("DEVICE_NUMBER", "3"), ("DATA_CLIENT_NUMBER", "1"), ("SENSOR_NUMBER", "1")],
    open: |config| Ok(Arc::new(Counter::new(config))),
};

const KINDS: [OperationKind; 2] = [
    OperationKind { name: "INGESTION", stored_name: "INGESTION", title: "write a batch" },
    OperationKind { name: "COUNTED", stored_name: "COUNTED", title: "how far each device has counted" },
];

struct Counter {
    schema: Arc<Schema>,
    rows: u64,
    batches: u64,
}

impl Counter {
    fn new(config: &Arc<Config>) -> Counter {
        let field = Field { name: "count".to_owned(), kind: Kind::Int64 };
        let table = Table {
            name: "counters".to_owned(),
            group: "counters".to_owned(),
            tags: vec!["device".to_owned()],
            fields: vec![field],
        };
        let device = |number| Device { table: 0, tags: vec![format!("counter_{number}")] };
        let schema = Schema {
            database: config.db_name.clone(),
            unit: Unit::Millis,
            tables: vec![table],
            devices: (0..3).map(device).collect(),
        };
        Counter { schema: Arc::new(schema), rows: config.batch_size_per_write, batches: config.loop_ }
    }
}

impl Workload for Counter {
    fn kinds(&self) -> &[OperationKind] {
        &KINDS
    }

    fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    fn order(&self) -> Vec<u32> {
        vec![0, 1, 2]
    }

    fn units(&self, _device: u32) -> u64 {
        self.batches
    }

    fn unit_fields(&self, _device: u32, _unit: u64) -> Range<u32> {
        0..1
    }

    fn unit_slots(&self, _device: u32, unit: u64, slots: &mut Vec<u64>) {
        slots.extend(unit * self.rows..(unit + 1) * self.rows);
    }

    fn units_of(&self, _device: u32, slot: u64, _field: u32, units: &mut Vec<u64>) {
        units.push(slot / self.rows);
    }

    fn time(&self, _device: u32, slot: u64) -> i64 {
        slot as i64
    }

    fn slots_in(&self, _device: u32, window: Range<i64>) -> Range<u64> {
        let slot = |time: i64| (time.max(0) as u64).min(self.batches * self.rows);
        slot(window.start)..slot(window.end)
    }

    fn slot_bound(&self, _device: u32, units: u64) -> u64 {
        units * self.rows
    }

    fn fill(&self, device: u32, _field: u32, slots: &[u64], out: &mut [i64]) {
        for (slot, out) in slots.iter().zip(out) {
            *out = i64::from(device) + 3 * *slot as i64;
        }
    }

    fn query(&self, kind: usize, _client: usize, _nth: u64, _newest: Option<i64>) -> Result<Query> {
        Ok(Query {
            kind,
            table: 0,
            devices: None,
            fields: vec![0],
            window: None,
            filters: Vec::new(),
            shape: Shape::Aggregate { aggregate: Aggregate::Max, by_device: true },
            order: Order::Any,
            limit: None,
            set: None,
        })
    }
}
