//! TSBS's `cpu-only` workload: hosts that report ten CPU metrics every ten seconds, and its 15
//! kinds of queries.
//!
//! Always true: a value is the state of a random walk after as many steps as the slot's number. The
//! steps of a series depend only on (seed, host, field, step); the cached states in [`Walks`] only
//! save time.
//!
//! Deviations from TSBS 37fced7 (2023-09), each for a reason:
//! - TSBS's single sequential generator gives different data for another number of hosts. Here the
//!   data of host 7 is always the same, so that correct answers can be computed and several
//!   processes can share a run.
//! - A batch has the next ticks of some hosts, one host after the other, and a host belongs to one
//!   client, as with TSBS's `--hash-workers`. From batch to batch, time advances evenly for all
//!   hosts, as in TSBS's order by tick.
//! - Windows start at a whole unit of time (a millisecond), not at a nanosecond, because some
//!   targets have no finer unit.
//! - Windows are within the data that this client knows to be acknowledged, and shrink if that is
//!   shorter.
//!
//! Source of the parameters: timescale/tsbs, its `cpu` measurement and its query generators. TSBS's
//! README says 24 hours where its code has 12; the code counts.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};

use super::{Entry, OperationKind, Workload};
use crate::config::{Config, TimestampPrecision};
use crate::error::{Error, Result};
use crate::generate::{at, below, draw, stream};
use crate::query::{Aggregate, Filter, Order, Query, Shape};
use crate::schema::{Device, Field, Kind, Schema, Table, Unit};

pub(crate) const ENTRY: Entry =
    Entry { name: "tsbs", defaults: DEFAULTS, open: |config| Ok(Arc::new(Tsbs::new(config)?)) };

/// TSBS's standard data set (seed 123, 10 s, three days) at scale 100: 25.9 million points, in
/// requests of about 10,000 rows, like those of its loader with four workers.
const DEFAULTS: &[(&str, &str)] = &[
    // A product without restrictions: the default is IoTDB, whose standard write path does not
    // support several devices in one request.
    ("DB_SWITCH", "Millrace"),
    ("DEVICE_NUMBER", "100"),
    ("SENSOR_NUMBER", "10"),
    ("INSERT_DATATYPE_PROPORTION", "0:0:1:0:0:0:0:0:0:0:0"),
    ("POINT_STEP", "10000"),
    ("START_TIME", "2016-01-01T00:00:00Z"),
    ("DATA_SEED", "123"),
    ("QUERY_SEED", "123"),
    ("SCHEMA_CLIENT_NUMBER", "4"),
    ("DATA_CLIENT_NUMBER", "4"),
    ("DEVICE_NUM_PER_WRITE", "25"),
    ("BATCH_SIZE_PER_WRITE", "432"),
    ("LOOP", "60"),
    ("QUERY_COUNT", "200"),
];

const FIELDS: [&str; 10] = [
    "usage_user",
    "usage_system",
    "usage_idle",
    "usage_nice",
    "usage_iowait",
    "usage_irq",
    "usage_softirq",
    "usage_steal",
    "usage_guest",
    "usage_guest_nice",
];

const TAGS: [&str; 10] = [
    "hostname",
    "region",
    "datacenter",
    "rack",
    "os",
    "arch",
    "team",
    "service",
    "service_version",
    "service_environment",
];

/// Regions, and the letters of their data centres.
const REGIONS: [(&str, &str); 9] = [
    ("us-east-1", "abce"),
    ("us-west-1", "ab"),
    ("us-west-2", "abc"),
    ("eu-west-1", "abc"),
    ("eu-central-1", "ab"),
    ("ap-southeast-1", "ab"),
    ("ap-southeast-2", "ab"),
    ("ap-northeast-1", "ac"),
    ("sa-east-1", "abc"),
];

/// Random streams besides those of series, which start at 0.
const TAG_STREAM: u64 = u64::MAX;
const START_STREAM: u64 = u64::MAX - 1;

/// Parameters of a kind of query. Hosts: `None` means all.
#[derive(Clone, Copy, Debug)]
enum QueryParameters {
    /// Maximum of `fields` by `minutes`, over all the hosts together, in a window of `hours`.
    MaxByTime { fields: usize, hosts: u64, hours: i64, minutes: i64 },
    /// Mean of `fields` by host and hour, in a window of 12 hours.
    MeanByHostAndHour { fields: usize },
    /// Rows with `usage_user` above 90, in a window of 12 hours.
    High { hosts: Option<u64> },
    /// Newest row of every host.
    Last,
    /// Maximum of `usage_user` by minute, for the five newest minutes before a time.
    NewestMinutes,
}

use QueryParameters::{High, Last, MaxByTime, MeanByHostAndHour, NewestMinutes};

/// The 15 kinds in the order of TSBS's README: name, title and parameters.
const QUERIES: [(&str, &str, QueryParameters); 15] = [
    ("single-groupby-1-1-1", "max of 1 field, 1 host, 1 h by minute", by_minute(1, 1, 1)),
    ("single-groupby-1-1-12", "max of 1 field, 1 host, 12 h by minute", by_minute(1, 1, 12)),
    ("single-groupby-1-8-1", "max of 1 field, 8 hosts, 1 h by minute", by_minute(1, 8, 1)),
    ("single-groupby-5-1-1", "max of 5 fields, 1 host, 1 h by minute", by_minute(5, 1, 1)),
    ("single-groupby-5-1-12", "max of 5 fields, 1 host, 12 h by minute", by_minute(5, 1, 12)),
    ("single-groupby-5-8-1", "max of 5 fields, 8 hosts, 1 h by minute", by_minute(5, 8, 1)),
    ("cpu-max-all-1", "max of all fields, 1 host, 8 h by hour", by_hour(1)),
    ("cpu-max-all-8", "max of all fields, 8 hosts, 8 h by hour", by_hour(8)),
    ("double-groupby-1", "mean of 1 field by host and hour, 12 h", MeanByHostAndHour { fields: 1 }),
    ("double-groupby-5", "mean of 5 fields by host and hour, 12 h", MeanByHostAndHour { fields: 5 }),
    ("double-groupby-all", "mean of all fields by host and hour, 12 h", MeanByHostAndHour { fields: 10 }),
    ("high-cpu-all", "rows with usage_user > 90, all hosts, 12 h", High { hosts: None }),
    ("high-cpu-1", "rows with usage_user > 90, 1 host, 12 h", High { hosts: Some(1) }),
    ("lastpoint", "newest row of every host", Last),
    ("groupby-orderby-limit", "max of usage_user, newest 5 minutes before a time", NewestMinutes),
];

const fn by_minute(fields: usize, hosts: u64, hours: i64) -> QueryParameters {
    MaxByTime { fields, hosts, hours, minutes: 1 }
}

const fn by_hour(hosts: u64) -> QueryParameters {
    MaxByTime { fields: 10, hosts, hours: 8, minutes: 60 }
}

const WRITING: OperationKind = OperationKind { name: "INGESTION", stored_name: "INGESTION", title: "write a batch" };

const KINDS: [OperationKind; 16] = {
    let mut kinds = [WRITING; 16];
    let mut at = 0;
    while at < QUERIES.len() {
        let (name, title, _) = QUERIES[at];
        kinds[at + 1] = OperationKind { name, stored_name: name, title };
        at += 1;
    }
    kinds
};

/// The workload of a configuration.
pub(crate) struct Tsbs {
    schema: Arc<Schema>,
    walks: Walks,
    query_seed: u64,
    fixed_query: bool,
    /// Whether this process is one of several, so that its hosts are only some of those in the
    /// target.
    shared: bool,
    /// Time of slot 0.
    start: i64,
    step: i64,
    /// Ticks of a host in a batch, batches of a host, and their product.
    rows: u64,
    batches: u64,
    ticks: u64,
}

impl Tsbs {
    fn new(config: &Arc<Config>) -> Result<Tsbs> {
        refuse_other_shapes(config)?;
        let unit = match config.timestamp_precision {
            TimestampPrecision::Ms => Unit::Millis,
            TimestampPrecision::Us => Unit::Micros,
            TimestampPrecision::Ns => Unit::Nanos,
        };
        let hosts = u32::try_from(config.device_number).ok().filter(|hosts| *hosts <= HOSTS_MAX);
        let hosts = hosts.ok_or_else(|| expected("DEVICE_NUMBER", config.device_number, "at most 2^22 hosts"))?;
        let ticks = config.loop_.checked_mul(config.batch_size_per_write).filter(|ticks| *ticks <= TICKS_MAX);
        let ticks = ticks.ok_or_else(|| expected("LOOP", config.loop_, "LOOP x BATCH_SIZE_PER_WRITE at most 2^32"))?;
        let start = i64::try_from(config.start_time.as_nanosecond() / i128::from(unit.nanos()))
            .map_err(|_| expected("START_TIME", config.start_time, "a time that fits into 64 bits"))?;
        let first = if config.benchmark_cluster { config.benchmark_index * config.device_number } else { 0 };
        Ok(Tsbs {
            schema: Arc::new(schema(config, unit, first, hosts)),
            walks: Walks::new(config.data_seed as u64, first, hosts, ticks),
            query_seed: config.query_seed as u64,
            fixed_query: config.enable_fixed_query,
            shared: config.benchmark_cluster,
            start,
            step: config.point_step,
            rows: config.batch_size_per_write,
            batches: config.loop_,
            ticks,
        })
    }

    /// The first slot at or after a time, within the data.
    fn slot_at_or_after(&self, time: i64) -> u64 {
        let steps = time.saturating_sub(self.start).max(0) as u64;
        steps.div_ceil(self.step as u64).min(self.ticks)
    }
}

/// Refuses IoT-benchmark's keys that would change the data and have no meaning here.
fn refuse_other_shapes(config: &Config) -> Result {
    let fixed = [
        ("SENSOR_NUMBER", config.sensor_number == FIELDS.len() as u64, "10"),
        ("IS_SENSOR_TS_ALIGNMENT", config.is_sensor_ts_alignment, "true"),
        ("IS_OUT_OF_ORDER", !config.is_out_of_order, "false"),
        ("IS_REGULAR_FREQUENCY", config.is_regular_frequency, "true"),
        ("IS_RECORD_CURRENT_REALLY_TIME", !config.is_record_current_really_time, "false"),
        ("REAL_INSERT_RATE", config.real_insert_rate == 1.0, "1"),
    ];
    match fixed.iter().find(|(_, holds, _)| !holds) {
        None => Ok(()),
        Some((key, _, value)) => Err(expected(key, config.display_value(key).unwrap_or_default(), value)),
    }
}

fn expected(key: &str, seen: impl std::fmt::Display, expected: &str) -> Error {
    Error::setup(format!("{key}={seen}: the tsbs workload expects {expected}"))
}

fn schema(config: &Config, unit: Unit, first: u64, hosts: u32) -> Schema {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let field = |name: &&str| Field { name: (*name).to_owned(), kind: Kind::Int64 };
    let table = Table {
        name: "cpu".to_owned(),
        group: format!("{}0", config.group_name_prefix),
        tags: owned(&TAGS),
        fields: FIELDS.iter().map(field).collect(),
    };
    let device = |host: u32| Device { table: 0, tags: tags(config.data_seed as u64, first + u64::from(host)) };
    Schema { database: config.db_name.clone(), unit, tables: vec![table], devices: (0..hosts).map(device).collect() }
}

/// Values of a host's tags, each drawn uniformly, in the order of [`TAGS`].
fn tags(seed: u64, host: u64) -> Vec<String> {
    let choice = |tag: u64, choices: usize| below(at(seed, TAG_STREAM, host, tag), choices as u64) as usize;
    let of = |tag: u64, choices: &[&str]| choices[choice(tag, choices.len())].to_owned();
    let (region, letters) = REGIONS[choice(1, REGIONS.len())];
    let letter = choice(2, letters.len());
    vec![
        format!("host_{host}"),
        region.to_owned(),
        format!("{region}{}", &letters[letter..=letter]),
        choice(3, 100).to_string(),
        of(4, &["Ubuntu16.10", "Ubuntu16.04LTS", "Ubuntu15.10"]),
        of(5, &["x64", "x86"]),
        of(6, &["SF", "NYC", "LON", "CHI"]),
        choice(7, 20).to_string(),
        choice(8, 2).to_string(),
        of(9, &["production", "staging", "test"]),
    ]
}

impl Workload for Tsbs {
    fn kinds(&self) -> &[OperationKind] {
        &KINDS
    }

    fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    fn order(&self) -> Vec<u32> {
        (0..self.schema.devices.len() as u32).collect()
    }

    fn units(&self, _device: u32) -> u64 {
        self.batches
    }

    fn unit_fields(&self, _device: u32, _unit: u64) -> Range<u32> {
        0..FIELDS.len() as u32
    }

    fn unit_slots(&self, _device: u32, unit: u64, slots: &mut Vec<u64>) {
        slots.extend(unit * self.rows..(unit + 1) * self.rows);
    }

    fn units_of(&self, _device: u32, slot: u64, _field: u32, units: &mut Vec<u64>) {
        units.extend(Some(slot / self.rows).filter(|unit| *unit < self.batches));
    }

    fn time(&self, _device: u32, slot: u64) -> i64 {
        self.start + self.step * slot as i64
    }

    fn slots_in(&self, _device: u32, window: Range<i64>) -> Range<u64> {
        let first = self.slot_at_or_after(window.start);
        first..self.slot_at_or_after(window.end).max(first)
    }

    fn slot_bound(&self, _device: u32, units: u64) -> u64 {
        units.saturating_mul(self.rows).min(self.ticks)
    }

    fn fill(&self, device: u32, field: u32, slots: &[u64], out: &mut [i64]) {
        self.walks.fill(device, field, slots, out);
    }

    fn query(&self, kind: usize, client: usize, nth: u64, newest: Option<i64>) -> Result<Query> {
        let (client, nth) = if self.fixed_query { (0, 0) } else { (client as u64, nth) };
        let stream = stream(self.query_seed, at(kind as u64, client, nth, 0), kind as u64);
        Choice { tsbs: self, kind, stream, newest }.query()
    }
}

/// Inputs that determine one query.
struct Choice<'a> {
    tsbs: &'a Tsbs,
    kind: usize,
    /// Key of the query's random numbers: number 0 places the window, the others select hosts.
    stream: u64,
    newest: Option<i64>,
}

impl Choice<'_> {
    fn query(&self) -> Result<Query> {
        let (_, _, parameters) = QUERIES[self.kind - 1];
        let hours = |n: i64| n * 3_600 * self.tsbs.schema.unit.per_second();
        let buckets = |aggregate, width: i64, window: &Range<i64>, by_device| Shape::Buckets {
            aggregate,
            width,
            // The last bucket boundary at or before the first row, because some products count
            // buckets from `origin`.
            origin: window.start.max(self.tsbs.start).div_euclid(width) * width,
            by_device,
        };
        Ok(match parameters {
            MaxByTime { fields, hosts, hours: long, minutes } => {
                let window = self.window(hours(long));
                let shape = buckets(Aggregate::Max, hours(minutes) / 60, &window, false);
                Query { order: Order::Ascending, ..self.ask(Some(hosts), fields, Some(window), shape)? }
            }
            MeanByHostAndHour { fields } => {
                let window = self.window(hours(12));
                let shape = buckets(Aggregate::Avg, hours(1), &window, true);
                Query { order: Order::Ascending, ..self.ask(None, fields, Some(window), shape)? }
            }
            High { hosts } => {
                let window = self.window(hours(12));
                let filters = vec![Filter { field: 0, above: 90.0 }];
                Query { filters, ..self.ask(hosts, FIELDS.len(), Some(window), Shape::Rows)? }
            }
            Last => self.ask(None, FIELDS.len(), None, Shape::Latest)?,
            NewestMinutes => {
                let window = i64::MIN..self.window(hours(1)).end;
                let shape = buckets(Aggregate::Max, hours(1) / 60, &window, false);
                Query { order: Order::Descending, limit: Some(5), ..self.ask(None, 1, Some(window), shape)? }
            }
        })
    }

    fn ask(&self, hosts: Option<u64>, fields: usize, window: Option<Range<i64>>, shape: Shape) -> Result<Query> {
        Ok(Query {
            kind: self.kind,
            table: 0,
            devices: self.hosts(hosts)?,
            fields: (0..fields as u32).collect(),
            window,
            filters: Vec::new(),
            shape,
            order: Order::Any,
            limit: None,
            set: None,
        })
    }

    /// Chooses distinct hosts uniformly. `count` is `None`: all hosts, which must be listed only if
    /// other processes write other hosts to the same target.
    fn hosts(&self, count: Option<u64>) -> Result<Option<Vec<u32>>> {
        let all = self.tsbs.schema.devices.len() as u64;
        let Some(count) = count else {
            return Ok(self.tsbs.shared.then(|| self.tsbs.order()));
        };
        if count > all {
            let name = KINDS[self.kind].name;
            return Err(Error::setup(format!("DEVICE_NUMBER={all}: {name} reads {count} hosts at once")));
        }
        let mut chosen: Vec<u32> = Vec::with_capacity(count as usize);
        let mut n = 1;
        while (chosen.len() as u64) < count {
            let host = below(draw(self.stream, n), all) as u32;
            n += 1;
            if !chosen.contains(&host) {
                chosen.push(host);
            }
        }
        Ok(Some(chosen))
    }

    /// A window of `length` units of time, placed uniformly within the data.
    fn window(&self, length: i64) -> Range<i64> {
        let tsbs = self.tsbs;
        let all = tsbs.time(0, tsbs.ticks);
        let end = self.newest.map_or(all, |newest| all.min(newest.saturating_add(tsbs.step)));
        let positions = end.saturating_sub(length).saturating_sub(tsbs.start).max(0) as u64;
        let start = tsbs.start + below(draw(self.stream, 0), positions + 1) as i64;
        start..end.min(start + length)
    }
}

/// Maximum number of hosts: the walks take 120 bytes for each host, and [`CHECKPOINT_BYTES_MAX`].
const HOSTS_MAX: u32 = 1 << 22;
/// Maximum number of ticks: a cursor stores a tick in 37 bits.
const TICKS_MAX: u64 = 1 << 32;
/// States are in units of 2^-20, 0 ..= 100 * 2^20: integers, so that all machines compute the same
/// walks.
const FRACTION_BITS: u32 = 20;
const STATE_MAX: i32 = 100 << FRACTION_BITS;
/// Bits of a state.
const STATE_BITS: u32 = 27;
const _: () = assert!(STATE_MAX < 1 << STATE_BITS);
/// Steps from one random number: 16 bits for each, of which the upper 12 index the table.
const STEPS_PER_DRAW: u64 = 4;
const STEP_TABLE: usize = 4_096;
/// Memory limit of the checkpoints, except that each series has at least one.
const CHECKPOINT_BYTES_MAX: u64 = 64 << 20;
/// Minimum number of ticks between checkpoints: 256 steps take a quarter of a microsecond.
const INTERVAL_MIN: u64 = 256;

/// Clamped random walks: each series starts uniformly in 0 ..= 100, and every tick adds a normally
/// distributed number with mean 0 and deviation 1, clamped to 0 ..= 100. The value is the integer
/// part of the state.
///
/// A state depends on all steps before it, so some states are cached: a checkpoint every `interval`
/// ticks, stored when a walk passes it, and the latest state of each series. All cached states are
/// functions of the seed, so threads may overwrite each other's entries without locks: they store
/// equal values.
struct Walks {
    seed: u64,
    /// Number of this process' first host in a run of several processes.
    first: u64,
    /// Ticks between checkpoints, a power of two.
    interval: u64,
    checkpoints_per_series: u64,
    /// State plus one at every `interval`-th tick; 0: not cached yet. Ordered by series, then tick.
    checkpoints: Vec<AtomicU32>,
    /// For each series: the latest tick plus one, and its state; 0: none. A sequential reader
    /// continues from here with one step.
    cursors: Vec<AtomicU64>,
}

/// State of one series at one tick.
struct Walker {
    stream: u64,
    tick: u64,
    state: i32,
}

impl Walks {
    fn new(seed: u64, first: u64, hosts: u32, ticks: u64) -> Walks {
        let series = u64::from(hosts) * FIELDS.len() as u64;
        let mut interval = INTERVAL_MIN;
        while interval < ticks && series * 4 * (ticks / interval + 1) > CHECKPOINT_BYTES_MAX {
            interval *= 2;
        }
        let checkpoints_per_series = ticks / interval + 1;
        Walks {
            seed,
            first,
            interval,
            checkpoints_per_series,
            checkpoints: (0..series * checkpoints_per_series).map(|_| AtomicU32::new(0)).collect(),
            cursors: (0..series).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Values of one series at some ticks. Cost: one step for consecutive ticks, at most `interval`
    /// steps for others, and once the steps from the nearest cached state.
    fn fill(&self, host: u32, field: u32, ticks: &[u64], out: &mut [i64]) {
        let Some(first) = ticks.first() else { return };
        let series = host as usize * FIELDS.len() + field as usize;
        let stream = stream(self.seed, self.first + u64::from(host), u64::from(field));
        let mut walker = self.walker(series, stream, *first);
        for (tick, out) in ticks.iter().zip(out) {
            if *tick < walker.tick || *tick > walker.tick + self.interval {
                walker = self.walker(series, stream, *tick);
            }
            self.walk(series, &mut walker, *tick);
            *out = i64::from(walker.state >> FRACTION_BITS);
        }
        self.cursors[series].store(((walker.tick + 1) << STATE_BITS) | walker.state as u64, Relaxed);
    }

    /// Returns the series at the nearest cached tick at or before `tick`.
    fn walker(&self, series: usize, stream: u64, tick: u64) -> Walker {
        let cursor = self.cursors[series].load(Relaxed);
        let near = (cursor >> STATE_BITS).checked_sub(1).filter(|near| *near <= tick);
        let last = (tick / self.interval).min(self.checkpoints_per_series - 1);
        let from = near.map_or(0, |near| near / self.interval + 1);
        for number in (from..=last).rev() {
            if let Some(state) = self.checkpoint(series, number).load(Relaxed).checked_sub(1) {
                return Walker { stream, tick: number * self.interval, state: state as i32 };
            }
        }
        match near {
            Some(near) => Walker { stream, tick: near, state: (cursor & ((1 << STATE_BITS) - 1)) as i32 },
            None => Walker { stream, tick: 0, state: self.start(series) },
        }
    }

    fn start(&self, series: usize) -> i32 {
        let bits = at(self.seed, START_STREAM, self.first * FIELDS.len() as u64 + series as u64, 0);
        below(bits, STATE_MAX as u64) as i32
    }

    fn checkpoint(&self, series: usize, number: u64) -> &AtomicU32 {
        &self.checkpoints[series * self.checkpoints_per_series as usize + number as usize]
    }

    /// Advances to `tick` and stores checkpoints on the way.
    fn walk(&self, series: usize, walker: &mut Walker, tick: u64) {
        while walker.tick < tick {
            let pause = (walker.tick | (self.interval - 1)) + 1;
            walker.walk(tick.min(pause));
            if walker.tick == pause && pause / self.interval < self.checkpoints_per_series {
                self.checkpoint(series, pause / self.interval).store(walker.state as u32 + 1, Relaxed);
            }
        }
    }
}

impl Walker {
    /// Advances to `tick`, one step for each tick. Step n (from 1) is lane n % 4 of draw n / 4.
    fn walk(&mut self, tick: u64) {
        let steps = &*STEPS;
        let mut bits = draw(self.stream, (self.tick + 1) / STEPS_PER_DRAW);
        for n in self.tick + 1..=tick {
            let lane = n % STEPS_PER_DRAW;
            if lane == 0 {
                bits = draw(self.stream, n / STEPS_PER_DRAW);
            }
            let step = steps[((bits >> (16 * lane + 4)) as usize) % STEP_TABLE];
            self.state = (self.state + step).clamp(0, STATE_MAX);
        }
        self.tick = tick;
    }
}

/// Equally likely steps: quantiles of the normal distribution at the centres of 4,096 equal shares,
/// in units of 2^-20. Their mean is 0 and their deviation 0.9998; the largest is 3.67, with a
/// probability of 1 in 2,048.
static STEPS: LazyLock<Box<[i32; STEP_TABLE]>> = LazyLock::new(|| {
    let mut steps = Box::new([0; STEP_TABLE]);
    let mut quantile = 0.0;
    for n in STEP_TABLE / 2..STEP_TABLE {
        let share = (n as f64 + 0.5) / STEP_TABLE as f64;
        quantile = normal_quantile(share, quantile);
        let step = (quantile * f64::from(1 << FRACTION_BITS)).round() as i32;
        steps[n] = step;
        steps[STEP_TABLE - 1 - n] = -step;
    }
    steps
});

/// Quantile of the normal distribution at `share`, by Newton's method starting at `near`.
fn normal_quantile(share: f64, near: f64) -> f64 {
    let density = |x: f64| (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt();
    // Series of the distribution function: x + x^3/3 + x^5/15 + …, times the density, plus one
    // half.
    // Source: Marsaglia, "Evaluating the Normal Distribution", Journal of Statistical Software 11(4), 2004.
    let below = |x: f64| {
        let (mut term, mut sum) = (x, x);
        for n in (3..200).step_by(2) {
            term *= x * x / f64::from(n);
            sum += term;
        }
        0.5 + sum * density(x)
    };
    let mut x = near;
    for _ in 0..20 {
        x -= (below(x) - share) / density(x);
    }
    x
}

#[cfg(test)]
mod tests;
