//! IoT-benchmark's workload: devices with sensors of several types and functions, and the queries
//! Q1 to Q12.
//!
//! Always true: a value depends only on (seed, device, slot, field). Every slot has one time and
//! one value, no matter how often and in which order it is written. The original's values repeat
//! after `WORKLOAD_BUFFER_SIZE` rows and are drawn in order of arrival; with `COMPAT` they repeat
//! here too.

mod arrival;
mod values;

use std::ops::Range;
use std::sync::Arc;

use super::{Entry, OperationKind, Workload};
use crate::config::{Config, Dialect, GroupStrategy, SetOperator as ConfigSetOperator, TimestampPrecision};
use crate::error::{Error, Result};
use crate::generate::{at, below};
use crate::query::{Aggregate, Filter, Order, Query, SetOperation, SetOperator, Shape};
use crate::schema::{Device, Field, Schema, Table, Unit};
use arrival::Arrival;
use values::Source;

pub(crate) const ENTRY: Entry = Entry { name: "iot", defaults: &[], open: |config| Ok(Arc::new(Iot::new(config)?)) };

/// Kinds of operations, in the order of `OPERATION_PROPORTION`.
pub(crate) const KINDS: [OperationKind; 13] = [
    kind("INGESTION", "INGESTION", "write a batch"),
    kind("PRECISE_POINT", "PRECISE_QUERY", "Q1 exact time"),
    kind("TIME_RANGE", "RANGE_QUERY", "Q2 time range"),
    kind("VALUE_RANGE", "VALUE_RANGE_QUERY", "Q3 time range with value filter"),
    kind("AGG_RANGE", "AGG_RANGE_QUERY", "Q4 aggregate over a time range"),
    kind("AGG_VALUE", "AGG_VALUE_QUERY", "Q5 aggregate with value filter"),
    kind("AGG_RANGE_VALUE", "AGG_RANGE_VALUE_QUERY", "Q6 aggregate over a time range with value filter"),
    kind("GROUP_BY", "GROUP_BY_QUERY", "Q7 aggregates by time bucket"),
    kind("LATEST_POINT", "LATEST_POINT_QUERY", "Q8 newest point"),
    kind("RANGE_QUERY_DESC", "RANGE_QUERY_ORDER_BY_TIME_DESC", "Q9 time range, newest first"),
    kind("VALUE_RANGE_QUERY_DESC", "VALUE_RANGE_QUERY_ORDER_BY_TIME_DESC", "Q10 value filter, newest first"),
    kind("GROUP_BY_DESC", "GROUP_BY_QUERY_ORDER_BY_TIME_DESC", "Q11 buckets, newest first"),
    kind("SET_OPERATION", "SET_OPERATION", "Q12 set operation over ranges"),
];

const fn kind(name: &'static str, stored_name: &'static str, title: &'static str) -> OperationKind {
    OperationKind { name, stored_name, title }
}

/// The workload of a configuration.
pub(crate) struct Iot {
    config: Arc<Config>,
    schema: Arc<Schema>,
    /// Sources of values by field, the same for all tables.
    sources: Vec<Source>,
    arrival: Arrival,
    /// Time one step before slot `arrival.base()`, in the schema's unit.
    start: i64,
    step: i64,
    /// Devices by table.
    devices: Vec<Vec<u32>>,
    /// Number of this process' first device in a run of several processes.
    first: u64,
    /// Number of devices that are written; further ones exist but have no data.
    written: u32,
    /// Numeric fields, which can be compared and summed.
    numbers: Vec<u32>,
    aggregate: Option<Aggregate>,
}

impl Iot {
    fn new(config: &Arc<Config>) -> Result<Iot> {
        let unit = match config.timestamp_precision {
            TimestampPrecision::Ms => Unit::Millis,
            TimestampPrecision::Us => Unit::Micros,
            TimestampPrecision::Ns => Unit::Nanos,
        };
        let count = u32::try_from(config.device_number)
            .map_err(|_| Error::setup(format!("DEVICE_NUMBER={}: expected below 2^32", config.device_number)))?;
        let first = config.first_device();
        let sources = values::sources(config)?;
        let schema = Arc::new(schema(config, unit, first, count, &sources));
        let mut devices = vec![Vec::new(); schema.tables.len()];
        for (number, device) in schema.devices.iter().enumerate() {
            devices[device.table as usize].push(number as u32);
        }
        let share = (config.device_number as f64 * config.real_insert_rate).floor() as u64;
        // The original tests `>` instead of `>=`, and so writes one more device.
        let written = if config.compat { (share + 1).min(u64::from(count)) } else { share } as u32;
        let numbers = (0..sources.len() as u32).filter(|field| sources[*field as usize].kind.is_number()).collect();
        let start = i64::try_from(config.start_time.as_nanosecond() / i128::from(unit.nanos()))
            .map_err(|_| Error::setup("START_TIME is out of range".to_owned()))?;
        Ok(Iot {
            arrival: Arrival::new(config)?,
            config: Arc::clone(config),
            schema,
            sources,
            start,
            step: config.point_step,
            devices,
            first,
            written,
            numbers,
            aggregate: Aggregate::parse(&config.query_aggregate_fun),
        })
    }

    fn steps_to_slot(&self, steps: i64) -> u64 {
        u64::try_from(steps.saturating_add(self.arrival.base() as i64)).unwrap_or(0)
    }
}

fn schema(config: &Config, unit: Unit, first: u64, count: u32, sources: &[Source]) -> Schema {
    let groups = config.group_number;
    let by_table = config.iotdb_dialect_mode == Dialect::Table;
    let tables = if by_table { config.iotdb_table_number.max(groups) } else { groups };
    let name = |prefix: &str, number: u64| format!("{prefix}{number}");
    let mut tags = vec!["device".to_owned()];
    tags.extend((0..config.tag_number).map(|tag| name(&config.tag_key_prefix, tag)));
    let field = |(number, source): (usize, &Source)| Field {
        name: name(&config.sensor_name_prefix, number as u64),
        kind: source.kind,
    };
    let fields: Vec<Field> = sources.iter().enumerate().map(field).collect();
    let table = |number: u64| {
        let group = name(&config.group_name_prefix, deal(config, number, tables, groups));
        let table = if by_table { name(&config.iotdb_table_name_prefix, number) } else { group.clone() };
        Table { name: table, group, tags: tags.clone(), fields: fields.clone() }
    };
    let device = |number: u32| {
        let global = first + u64::from(number);
        let device = name(&config.device_name_prefix, global);
        let mut tags = tag_values(config, &device);
        tags.insert(0, device);
        Device { table: deal(config, global, config.device_number, tables) as u32, tags }
    };
    Schema {
        database: config.db_name.clone(),
        unit,
        tables: (0..tables).map(table).collect(),
        devices: (0..count).map(device).collect(),
    }
}

/// Assigns item `number` of `total` to one of `n` groups, by `SG_STRATEGY`.
fn deal(config: &Config, number: u64, total: u64, n: u64) -> u64 {
    match config.sg_strategy {
        GroupStrategy::Mod => number % n,
        GroupStrategy::Hash => u64::from(crate::java_random::string_hash(&number.to_string()).unsigned_abs()) % n,
        GroupStrategy::Div => number / (total / n).max(1) % n,
    }
}

/// Values of a device's tags: digits of its name's hash in a mixed radix of the tags'
/// cardinalities, as in the original.
fn tag_values(config: &Config, device: &str) -> Vec<String> {
    let product: u64 = config.tag_value_cardinality.iter().product::<u64>().max(1);
    let mut rest = u64::from(crate::java_random::string_hash(device).unsigned_abs()) % product;
    let digit = |cardinality: &u64| {
        let digit = rest % (*cardinality).max(1);
        rest /= (*cardinality).max(1);
        format!("{}{digit}", config.tag_value_prefix)
    };
    config.tag_value_cardinality.iter().take(config.tag_number as usize).map(digit).collect()
}

impl Workload for Iot {
    fn kinds(&self) -> &[OperationKind] {
        &KINDS
    }

    fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    fn order(&self) -> Vec<u32> {
        self.devices.iter().flatten().copied().collect()
    }

    fn units(&self, device: u32) -> u64 {
        if device < self.written { self.arrival.batches() * self.units_per_pass() } else { 0 }
    }

    fn units_per_pass(&self) -> u64 {
        if self.config.is_sensor_ts_alignment { 1 } else { self.sources.len() as u64 }
    }

    fn unit_fields(&self, _device: u32, unit: u64) -> Range<u32> {
        let count = self.sources.len() as u32;
        if self.config.is_sensor_ts_alignment {
            return 0..count;
        }
        let field = (unit % u64::from(count)) as u32;
        field..field + 1
    }

    fn unit_slots(&self, device: u32, unit: u64, slots: &mut Vec<u64>) {
        if self.config.is_sensor_ts_alignment {
            return self.arrival.slots(self.first + u64::from(device), unit, slots);
        }
        let count = self.sources.len() as u64;
        if self.is_sent(device, unit) {
            self.arrival.slots(self.first + u64::from(device), unit / count, slots);
        }
    }

    fn units_of(&self, device: u32, slot: u64, field: u32, units: &mut Vec<u64>) {
        if device >= self.written {
            return;
        }
        let from = units.len();
        self.arrival.batches_of(self.first + u64::from(device), slot, units);
        if !self.config.is_sensor_ts_alignment {
            let count = self.sources.len() as u64;
            for unit in &mut units[from..] {
                *unit = *unit * count + u64::from(field);
            }
            let mut at = 0;
            units.retain(|unit| {
                at += 1;
                at <= from || self.is_sent(device, *unit)
            });
        }
    }

    fn time(&self, device: u32, slot: u64) -> i64 {
        let k = slot as i64 - self.arrival.base() as i64;
        let regular = self.start + self.step * k;
        if self.config.is_regular_frequency {
            return regular + self.step;
        }
        let bits = at(self.config.data_seed as u64, TIMES, self.first + u64::from(device), slot);
        regular + below(bits, self.step as u64) as i64
    }

    fn slots_in(&self, _device: u32, window: Range<i64>) -> Range<u64> {
        let steps = |time: i64| time.saturating_sub(self.start).div_euclid(self.step);
        let first = self.steps_to_slot(steps(window.start).saturating_sub(1));
        let end = self.steps_to_slot(steps(window.end).saturating_add(1));
        let all = self.arrival.slot_bound(self.arrival.batches());
        first.min(all)..end.min(all)
    }

    fn slot_bound(&self, _device: u32, units: u64) -> u64 {
        self.arrival.slot_bound(units.div_ceil(self.units_per_pass()))
    }

    fn fill(&self, device: u32, field: u32, slots: &[u64], out: &mut [i64]) {
        let global = self.first + u64::from(device);
        let source = &self.sources[field as usize];
        if self.config.compat {
            return source.fill_compat(&self.config, self.start, self.step, global, slots, out);
        }
        source.fill(self.config.data_seed as u64, global, u64::from(field), slots, out);
    }

    fn query(&self, kind: usize, client: usize, nth: u64, newest: Option<i64>) -> Result<Query> {
        Choice { iot: self, kind, client, nth, newest }.query()
    }
}

/// Random streams for irregular times and for missing batches. Their first coordinate must not be a
/// device number, which start at 0.
const TIMES: u64 = u64::MAX;
const PRESENT: u64 = u64::MAX - 1;

impl Iot {
    /// For unaligned sensors: returns whether a sensor's batch is sent.
    fn is_sent(&self, device: u32, unit: u64) -> bool {
        let ratio = self.config.ts_alignment_ratio;
        let bits = at(self.config.data_seed as u64, PRESENT, self.first + u64::from(device), unit);
        ratio >= 1.0 || crate::generate::unit_interval(bits) < ratio
    }
}

/// Inputs that determine one query.
struct Choice<'a> {
    iot: &'a Iot,
    kind: usize,
    client: usize,
    nth: u64,
    newest: Option<i64>,
}

impl Choice<'_> {
    fn query(&self) -> Result<Query> {
        let config = &self.iot.config;
        let aggregate = || {
            self.iot.aggregate.ok_or_else(|| {
                let name = &config.query_aggregate_fun;
                Error::setup(format!("QUERY_AGGREGATE_FUN={name}: expected count, sum, avg, min, max, first or last"))
            })
        };
        let counts = self.iot.aggregate == Some(Aggregate::Count);
        let numbers_only = match self.kind {
            3 | 5 | 6 | 10 => true,
            4 | 7 | 11 => !counts,
            _ => false,
        };
        let (table, devices) = self.devices(config.query_device_num, 0);
        let fields = self.fields(numbers_only)?;
        let filters = match self.kind {
            3 | 5 | 6 | 10 => {
                fields.iter().map(|field| Filter { field: *field, above: config.query_lower_value }).collect()
            }
            _ => Vec::new(),
        };
        let shape = match self.kind {
            4..=6 => Shape::Aggregate { aggregate: aggregate()?, by_device: true },
            7 | 11 => {
                let width = config.group_by_time_unit * (self.iot.schema.unit.per_second() / 1_000);
                let origin = self.window(devices[0]).start;
                Shape::Buckets { aggregate: aggregate()?, width, origin, by_device: true }
            }
            8 => Shape::Latest,
            _ => Shape::Rows,
        };
        Ok(Query {
            kind: self.kind,
            table,
            window: if matches!(self.kind, 5 | 8) { None } else { Some(self.window(devices[0])) },
            set: (self.kind == 12).then(|| self.set_operation()),
            devices: Some(devices),
            fields,
            filters,
            shape,
            order: if matches!(self.kind, 9..=11) { Order::Descending } else { Order::Any },
            limit: u64::try_from(config.result_row_limit).ok(),
        })
    }

    /// Random number of this query; equal for all clients if all of them send the same query.
    fn draw(&self, what: u64, n: u64) -> u64 {
        let fixed = self.iot.config.enable_fixed_query;
        let (client, nth) = if fixed { (0, 0) } else { (self.client as u64, self.nth) };
        let seed = self.iot.config.query_seed as u64;
        at(seed, what, client, at(self.kind as u64, nth, n, 0))
    }

    /// Distinct devices of one table, which is the table of a random device. If `count` exceeds the
    /// devices of the table, all of them.
    fn devices(&self, count: u64, child: u64) -> (u32, Vec<u32>) {
        let all = self.iot.schema.devices.len() as u64;
        let table = self.iot.schema.devices[below(self.draw(1, 0), all) as usize].table;
        let candidates = &self.iot.devices[table as usize];
        (table, self.distinct(candidates, count, 2 + child))
    }

    fn fields(&self, numbers_only: bool) -> Result<Vec<u32>> {
        let count = self.iot.config.query_sensor_num;
        let all: Vec<u32>;
        let candidates = if numbers_only {
            &self.iot.numbers
        } else {
            all = (0..self.iot.sources.len() as u32).collect();
            &all
        };
        if (candidates.len() as u64) < count {
            return Err(Error::setup(format!(
                "QUERY_SENSOR_NUM={count}: {} needs {} sensors, and {} of the {} are; change \
                 INSERT_DATATYPE_PROPORTION or QUERY_SENSOR_NUM",
                KINDS[self.kind].name,
                if numbers_only { "numeric" } else { "that many" },
                candidates.len(),
                self.iot.sources.len(),
            )));
        }
        Ok(self.distinct(candidates, count, 1_000))
    }

    /// Chooses `count` distinct elements of `candidates` uniformly, by a partial shuffle.
    fn distinct(&self, candidates: &[u32], count: u64, what: u64) -> Vec<u32> {
        let count = count.min(candidates.len() as u64);
        let mut chosen: Vec<u32> = Vec::with_capacity(count as usize);
        let mut n = 0;
        while (chosen.len() as u64) < count {
            let candidate = candidates[below(self.draw(what, n), candidates.len() as u64) as usize];
            n += 1;
            if !chosen.contains(&candidate) {
                chosen.push(candidate);
            }
        }
        chosen
    }

    /// Half-open window of time. The original's windows include their end, except those of buckets.
    fn window(&self, device: u32) -> Range<i64> {
        let iot = self.iot;
        let config = &iot.config;
        let end_included = !matches!(self.kind, 7 | 11);
        let interval = config.query_interval;
        if let Some(newest) = self.newest.filter(|_| config.is_recent_query) {
            let start = if self.kind == 1 { newest } else { (newest - interval).max(0) };
            return start..newest + 1;
        }
        let nth = if config.enable_fixed_query { 0 } else { self.nth };
        let steps = (nth as i64).saturating_mul(config.step_size);
        let start = iot.start.saturating_add(steps.saturating_mul(iot.step));
        match self.kind {
            // Nothing is ever written at the start time itself: the original's answer is always
            // empty.
            1 if config.compat => start..start + 1,
            1 => {
                let slot = iot.steps_to_slot(steps);
                let time = iot.time(device, slot);
                time..time + 1
            }
            _ => start..start + interval + i64::from(end_included),
        }
    }

    fn set_operation(&self) -> SetOperation {
        let config = &self.iot.config;
        let (operator, all) = match config.query_set_op_type {
            ConfigSetOperator::Union | ConfigSetOperator::UnionDistinct => (SetOperator::Union, false),
            ConfigSetOperator::UnionAll => (SetOperator::Union, true),
            ConfigSetOperator::Intersect | ConfigSetOperator::IntersectDistinct => (SetOperator::Intersect, false),
            ConfigSetOperator::IntersectAll => (SetOperator::Intersect, true),
            ConfigSetOperator::Except | ConfigSetOperator::ExceptDistinct => (SetOperator::Except, false),
            ConfigSetOperator::ExceptAll => (SetOperator::Except, true),
        };
        let child = |child| self.devices(config.query_device_num, child).1;
        SetOperation { operator, all, others: (1..config.query_set_op_num).map(child).collect() }
    }
}

#[cfg(test)]
mod tests;
