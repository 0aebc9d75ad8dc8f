//! Conformance test of drivers: writes data of every type, runs every shape of query, and compares
//! the answers with a brute-force evaluation of the written data.
//!
//! A driver's author calls [`check`] against the running product, with the product's limits in
//! [`Abilities`]. Each query has a name, such as `buckets/sum/by device`. A query that the driver
//! refuses as `Unsupported` must be listed there, and a listed query must be refused, so that the
//! list stays accurate.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Connection, Driver, Opening, Target};
use crate::config::{Config, OutOfOrderMode};
use crate::error::{Class, Result};
use crate::generate;
use crate::query::{Aggregate, Cell, Filter, Order, Query, Row, Rows, SetOperation, SetOperator, Shape};
use crate::schema::{Batch, Device, Field, Kind, Part, Schema, Table, Unit, text_of};

/// All types of fields.
pub(crate) const EVERY_KIND: &[Kind] = &[
    Kind::Bool,
    Kind::Int32,
    Kind::Int64,
    Kind::Float { decimals: 2 },
    Kind::Double { decimals: 2 },
    Kind::Text { length: 8 },
    Kind::String { length: 9 },
    Kind::Blob { length: 8 },
    Kind::Timestamp,
    Kind::Date,
];

/// Types and queries that a product supports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Abilities<'a> {
    /// Types of fields, at least two of them numeric.
    pub(crate) kinds: &'a [Kind],
    /// Unit of times.
    pub(crate) unit: Unit,
    /// Whether 32-bit floats are stored as such. If not, they are doubles, and filter bounds differ
    /// in the last digit.
    pub(crate) float32: bool,
    /// Whether batches may have one field of a row, with its other fields later or never.
    pub(crate) single_fields: bool,
    /// Prefixes of the names of unsupported queries.
    pub(crate) unsupported: &'a [&'a str],
}

/// A product that supports everything.
pub(crate) const ABLE: Abilities<'static> =
    Abilities { kinds: EVERY_KIND, unit: Unit::Millis, float32: true, single_fields: true, unsupported: &[] };

/// Runs all scenarios against a running product; panics with the first difference.
pub(crate) fn check(target: &Target, abilities: &Abilities) {
    check_driver(&super::open, target, abilities).unwrap_or_else(|wrong| panic!("{}: {wrong}", target.name));
}

/// Writes and reads a table of `fields` DOUBLE fields; each query selects at most a thousand of
/// them.
pub(crate) fn check_wide(target: &Target, fields: u32) {
    let outcome = wide(&super::open, target, fields);
    outcome.unwrap_or_else(|wrong| panic!("{} with {fields} fields: {wrong}", target.name));
}

/// Longest wait until acknowledged writes are visible, for products that do not guarantee it at
/// once.
const VISIBLE_WITHIN: Duration = Duration::from_secs(60);
/// 2022-10-30T00:00:00+08:00 in seconds.
const START_S: i64 = 1_667_059_200;
/// Rows of a device.
const SLOTS: u64 = 90;
/// Devices of the first table; the second has two more.
const DEVICES: u32 = 5;

type Open<'a> = &'a dyn Fn(Opening) -> Result<Box<dyn Driver>>;
/// The error describes a difference.
type Checked<T = ()> = std::result::Result<T, String>;

/// Data to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scenario {
    /// Each row once with all fields, some of them late.
    Once,
    /// Some rows twice, with the same values.
    Again,
    /// One field at a time.
    SingleFields,
}

fn check_driver(open: Open, target: &Target, abilities: &Abilities) -> Checked {
    for scenario in [Scenario::Once, Scenario::Again, Scenario::SingleFields] {
        if scenario == Scenario::SingleFields && !abilities.single_fields {
            continue;
        }
        Run::new(open, target, abilities, scenario)
            .map_err(|error| error.to_string())
            .and_then(Run::all)
            .map_err(|wrong| format!("scenario {scenario:?}: {wrong}"))?;
    }
    Ok(())
}

/// A running scenario.
struct Run<'a> {
    abilities: &'a Abilities<'a>,
    scenario: Scenario,
    driver: Box<dyn Driver>,
    model: Model,
    /// Deadline until which answers may lack recent writes.
    patience: Instant,
}

impl<'a> Run<'a> {
    fn new(open: Open, target: &Target, abilities: &'a Abilities<'a>, scenario: Scenario) -> Result<Run<'a>> {
        let schema = Arc::new(schema(abilities));
        let mut config = Config::default();
        config.is_out_of_order = scenario == Scenario::Again;
        config.out_of_order_mode = OutOfOrderMode::Poisson;
        config.is_sensor_ts_alignment = scenario != Scenario::SingleFields;
        let opening = Opening { target: target.clone(), schema: Arc::clone(&schema), config: Arc::new(config) };
        let driver = open(opening)?;
        let model = Model { float32: abilities.float32, ..Model::new(schema) };
        Ok(Run { abilities, scenario, driver, model, patience: Instant::now() })
    }

    fn all(mut self) -> Checked {
        let about = self.driver.about();
        if [about.product, &about.write_path, about.why, &about.durability].iter().any(|text| text.is_empty()) {
            return Err(format!("about() has an empty text: {about:?}"));
        }
        let mut connection = self.connect(0)?;
        let connection = connection.as_mut();
        let version = connection.version().map_err(|error| format!("version: {error}"))?;
        if version.trim().is_empty() {
            return Err("version() is empty".to_owned());
        }
        connection.clear().map_err(|error| format!("clear of nothing: {error}"))?;
        self.create()?;
        self.write(connection)?;
        self.patience = Instant::now() + if about.visible_at_once { Duration::ZERO } else { VISIBLE_WITHIN };
        self.ask(connection)?;
        while connection.is_behind().map_err(|error| format!("is_behind: {error}"))? {
            if Instant::now() >= self.patience {
                return Err("is_behind: still true at the deadline".to_owned());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        connection.settle().map_err(|error| format!("settle: {error}"))?;
        self.ask(connection).map_err(|wrong| format!("after settle: {wrong}"))?;
        connection.clear().map_err(|error| format!("clear: {error}"))?;
        self.create().map_err(|wrong| format!("after clear: {wrong}"))?;
        self.model.values.clear();
        self.patience = Instant::now() + if about.visible_at_once { Duration::ZERO } else { VISIBLE_WITHIN };
        let rows = self.queries().swap_remove(0);
        self.one(connection, &rows).map_err(|wrong| format!("after clear and create: {wrong}"))?;
        connection.clear().map_err(|error| format!("second clear: {error}"))
    }

    fn connect(&self, client: usize) -> Checked<Box<dyn Connection>> {
        self.driver.connect(client).map_err(|error| format!("connect: {error}"))
    }

    /// Creates the tables from several connections concurrently, as a run does.
    fn create(&self) -> Checked {
        let ranges = [0..2, 2..6, 6..DEVICES + 2];
        std::thread::scope(|scope| {
            let threads: Vec<_> = ranges
                .into_iter()
                .enumerate()
                .map(|(client, devices)| {
                    scope.spawn(move || {
                        let mut connection = self.connect(client)?;
                        connection.create(devices.clone()).map_err(|error| format!("create {devices:?}: {error}"))
                    })
                })
                .collect();
            threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "create panicked".to_owned())?)
        })
    }

    fn write(&mut self, connection: &mut dyn Connection) -> Checked {
        if self.scenario == Scenario::SingleFields {
            return self.write_single_fields(connection);
        }
        let slots = |range: Range<u64>| range.collect::<Vec<u64>>();
        self.put(connection, None, &[(0, slots(0..30))], 1)?;
        self.put(connection, None, &[(0, slots(60..90))], 1)?;
        self.put(connection, None, &[(1, slots(0..90))], 1)?;
        self.put(connection, None, &[(2, (0..45).rev().collect())], 1)?;
        self.put(connection, None, &[(2, slots(45..90))], 1)?;
        self.put(connection, None, &[(3, slots(0..80)), (4, slots(5..20))], 1)?;
        self.put(connection, None, &[(DEVICES, slots(0..50))], 1)?;
        self.put(connection, None, &[(DEVICES + 1, slots(0..1))], 1)?;
        // Late rows, before the newest one; none of them exists yet.
        self.put(connection, None, &[(0, slots(30..60))], 1)?;
        if self.scenario == Scenario::Again && self.driver.about().replaces {
            self.put(connection, None, &[(0, slots(20..40))], 2)?;
            self.put(connection, None, &[(1, vec![7, 3, 7, 8, 3]), (3, vec![79, 79])], 1)?;
        }
        Ok(())
    }

    fn write_single_fields(&mut self, connection: &mut dyn Connection) -> Checked {
        let fields = self.model.schema.tables[0].fields.len() as u32;
        for field in 0..fields {
            let only = Some(field..field + 1);
            self.put(connection, only.clone(), &[(0, (0..40).collect())], 1)?;
            // Rows that lack some fields.
            let from = u64::from(field) * 3;
            self.put(connection, only.clone(), &[(1, (from..from + 20).collect())], 1)?;
            if self.driver.about().replaces && field % 2 == 0 {
                self.put(connection, only, &[(0, (30..40).collect())], 2)?;
            }
        }
        Ok(())
    }

    /// Writes slots of devices of one table; sends the batch `times` times.
    fn put(
        &mut self,
        connection: &mut dyn Connection,
        fields: Option<Range<u32>>,
        parts: &[(u32, Vec<u64>)],
        times: usize,
    ) -> Checked {
        let batch = batch(&self.model.schema, fields, parts);
        connection.encode(&batch).map_err(|error| format!("encode {parts:?}: {error}"))?;
        for _ in 0..times {
            connection.send().map_err(|error| format!("send {parts:?}: {error}"))?;
        }
        self.model.put(&batch);
        Ok(())
    }

    fn ask(&self, connection: &mut dyn Connection) -> Checked {
        for named in self.queries() {
            let outcome = self.one(connection, &named);
            outcome.map_err(|wrong| format!("query {:?}: {wrong}", named.name))?;
        }
        Ok(())
    }

    /// Runs a query, again until the deadline if the answer is wrong.
    fn one(&self, connection: &mut dyn Connection, named: &NamedQuery) -> Checked {
        loop {
            match self.once(connection, named) {
                Err(_) if Instant::now() < self.patience => std::thread::sleep(Duration::from_millis(100)),
                outcome => return outcome,
            }
        }
    }

    fn once(&self, connection: &mut dyn Connection, named: &NamedQuery) -> Checked {
        let query = &named.query;
        let refusal = self.abilities.unsupported.iter().any(|name| named.name.starts_with(name));
        let statement = match (connection.statement(query), refusal) {
            (Ok(text), false) if !text.trim().is_empty() => text,
            (Err(error), true) if error.class == Class::Unsupported => return Ok(()),
            (other, _) => return Err(format!("statement {other:?}, but unsupported is {refusal} ({query:?})")),
        };
        let context = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}\n  statement: {statement}");
        connection.query(query).map_err(|error| context("query", &error))?;
        let points = connection.points(query).map_err(|error| context("points", &error))?;
        let answer = connection.answer(query).map_err(|error| context("answer", &error))?;
        if points != answer.points() {
            return Err(context("points", &format!("{points}, but its answer has {}", answer.points())));
        }
        compare(query, &self.model.answer(query), answer).map_err(|wrong| context("answer", &wrong))
    }

    fn queries(&self) -> Vec<NamedQuery> {
        if self.scenario == Scenario::SingleFields {
            single_field_queries(&self.model.schema)
        } else {
            queries(&self.model.schema, self.abilities)
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Data

/// A table with a field of every type and a further number, and a table with a single number.
fn schema(abilities: &Abilities) -> Schema {
    let mut kinds = abilities.kinds.to_vec();
    kinds.extend(kinds.iter().rev().find(|kind| kind.is_number()).copied());
    let number = kinds[kinds.len() - 1];
    let field = |(index, kind): (usize, &Kind)| Field { name: format!("s_{index}"), kind: *kind };
    let table = |name: &str, tags: &[&str], kinds: &[Kind]| Table {
        name: name.to_owned(),
        group: name.to_owned(),
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        fields: kinds.iter().enumerate().map(field).collect(),
    };
    let first = (0..DEVICES).map(|n| Device { table: 0, tags: vec![format!("d_{n}"), format!("value_{}", n % 2)] });
    let second = (DEVICES..DEVICES + 2).map(|n| Device { table: 1, tags: vec![format!("d_{n}")] });
    Schema {
        database: "conformance".to_owned(),
        unit: abilities.unit,
        tables: vec![table("g_0", &["device", "tag_0"], &kinds), table("g_1", &["device"], &[number])],
        devices: first.chain(second).collect(),
    }
}

/// Rows are five seconds apart, but every third is a little late: the distances are irregular.
fn time(schema: &Schema, slot: u64) -> i64 {
    let seconds = START_S + slot as i64 * 5;
    let late = if slot % 3 == 1 { schema.unit.per_second() / 4 } else { 0 };
    seconds * schema.unit.per_second() + late
}

/// Device 1 shares every second row with device 0, so that set operations have results.
fn units(schema: &Schema, device: u32, field: u32, slot: u64) -> i64 {
    let device = if device == 1 && slot.is_multiple_of(2) { 0 } else { device };
    let kind = schema.table_of(device).fields[field as usize].kind;
    let draw = generate::at(7, u64::from(device), u64::from(field), slot);
    let within = |bound: u64| generate::below(draw, 2 * bound) as i64 - bound as i64;
    match kind {
        Kind::Bool => (draw & 1) as i64,
        Kind::Int32 => within(1 << 31),
        Kind::Int64 => within(1 << 45),
        Kind::Float { .. } => within(20_000),
        Kind::Double { .. } => within(100_000_000),
        Kind::Text { .. } | Kind::String { .. } | Kind::Blob { .. } => draw as i64,
        Kind::Timestamp => START_S * schema.unit.per_second() + within(1_000_000),
        Kind::Date => 19_000 + within(3_000),
    }
}

/// A batch of slots of devices of one table; with all fields or some.
fn batch(schema: &Schema, fields: Option<Range<u32>>, parts: &[(u32, Vec<u64>)]) -> Batch {
    let table = schema.devices[parts[0].0 as usize].table;
    let fields = fields.unwrap_or(0..schema.tables[table as usize].fields.len() as u32);
    let part = |(device, slots): &(u32, Vec<u64>)| Part {
        device: *device,
        times: slots.iter().map(|slot| time(schema, *slot)).collect(),
        units: fields
            .clone()
            .flat_map(|field| slots.iter().map(move |slot| units(schema, *device, field, *slot)))
            .collect(),
    };
    Batch { table, fields: fields.clone(), parts: parts.iter().map(part).collect() }
}

// ---------------------------------------------------------------------------------------------------------------------
// Brute force

/// The written data, with brute-force evaluation of queries.
struct Model {
    schema: Arc<Schema>,
    /// See [`Abilities::float32`].
    float32: bool,
    /// Units of each field by device and time.
    values: BTreeMap<(u32, i64), Vec<Option<i64>>>,
}

/// A row: device, time, values by field.
type Found<'a> = (u32, i64, &'a [Option<i64>]);

impl Model {
    fn new(schema: Arc<Schema>) -> Model {
        Model { schema, float32: true, values: BTreeMap::new() }
    }

    fn put(&mut self, batch: &Batch) {
        let width = self.schema.tables[batch.table as usize].fields.len();
        for part in &batch.parts {
            for (row, time) in part.times.iter().enumerate() {
                let values = self.values.entry((part.device, *time)).or_insert_with(|| vec![None; width]);
                for (column, field) in batch.fields.clone().enumerate() {
                    values[field as usize] = Some(part.unit(column, row));
                }
            }
        }
    }

    fn kind(&self, query: &Query, field: u32) -> Kind {
        self.schema.tables[query.table as usize].fields[field as usize].kind
    }

    fn found(&self, query: &Query, devices: Option<&[u32]>) -> Vec<Found<'_>> {
        let passes = |filter: &Filter, values: &[Option<i64>]| {
            values[filter.field as usize]
                .is_some_and(|units| self.kind(query, filter.field).number(units) > filter.above)
        };
        let asked = |(device, time): &(u32, i64), values: &[Option<i64>]| {
            self.schema.devices[*device as usize].table == query.table
                && devices.is_none_or(|devices| devices.contains(device))
                && query.window.as_ref().is_none_or(|window| window.contains(time))
                && query.filters.iter().all(|filter| passes(filter, values))
        };
        self.values
            .iter()
            .filter(|(key, values)| asked(key, values))
            .map(|((device, time), values)| (*device, *time, values.as_slice()))
            .collect()
    }

    fn cells(&self, query: &Query, values: &[Option<i64>]) -> Vec<Cell> {
        let cell =
            |field: &u32| values[*field as usize].map_or(Cell::Null, |units| cell(self.kind(query, *field), units));
        query.fields.iter().map(cell).collect()
    }

    fn answer(&self, query: &Query) -> Rows {
        let found = self.found(query, query.devices.as_deref());
        let mut rows = match &query.shape {
            Shape::Rows => self.rows(query, found),
            Shape::Latest => {
                let asked = |row: &Found| query.fields.iter().any(|field| row.2[*field as usize].is_some());
                let newest: BTreeMap<u32, Found> = found.into_iter().filter(asked).map(|row| (row.0, row)).collect();
                self.rows(query, newest.into_values().collect())
            }
            Shape::Aggregate { aggregate, by_device } => {
                self.grouped(query, found, *aggregate, |row| (by_device.then_some(row.0), None))
            }
            Shape::Buckets { aggregate, width, origin, by_device } => {
                let bucket = |time: i64| origin + (time - origin).div_euclid(*width) * width;
                self.grouped(query, found, *aggregate, |row| (by_device.then_some(row.0), Some(bucket(row.1))))
            }
        };
        if query.set.is_none() {
            match query.order {
                Order::Any => {}
                Order::Ascending => rows.sort_by_key(|row| row.time),
                Order::Descending => rows.sort_by_key(|row| std::cmp::Reverse(row.time)),
            }
        }
        rows.truncate(query.limit.map_or(usize::MAX, |limit| limit as usize));
        Rows { rows }
    }

    fn rows(&self, query: &Query, found: Vec<Found>) -> Vec<Row> {
        if let Some(set) = &query.set {
            return self.set(query, set, found);
        }
        let row = |(device, time, values): &Found| Row {
            device: Some(*device),
            time: Some(*time),
            cells: self.cells(query, values),
        };
        found.iter().map(row).collect()
    }

    /// Evaluates set operations by counting each distinct row.
    fn set(&self, query: &Query, set: &SetOperation, first: Vec<Found>) -> Vec<Row> {
        let count = |found: &[Found]| {
            let mut counts: BTreeMap<(i64, Vec<Option<i64>>), usize> = BTreeMap::new();
            for (_, time, values) in found {
                let asked = query.fields.iter().map(|field| values[*field as usize]).collect();
                let count = counts.entry((*time, asked)).or_default();
                *count = if set.all { *count + 1 } else { 1 };
            }
            counts
        };
        let mut result = count(&first);
        for devices in &set.others {
            let other = count(&self.found(query, Some(devices)));
            let keys: BTreeSet<_> = result.keys().chain(other.keys()).cloned().collect();
            for key in keys {
                let (a, b) = (result.get(&key).copied().unwrap_or(0), other.get(&key).copied().unwrap_or(0));
                let n = match set.operator {
                    SetOperator::Union if set.all => a + b,
                    SetOperator::Union => a.max(b),
                    SetOperator::Intersect => a.min(b),
                    SetOperator::Except if set.all => a.saturating_sub(b),
                    SetOperator::Except => a * usize::from(b == 0),
                };
                result.insert(key, n);
            }
        }
        let mut rows = Vec::new();
        for ((time, values), n) in result {
            let cell = |(field, units): (&u32, &Option<i64>)| {
                units.map_or(Cell::Null, |units| cell(self.kind(query, *field), units))
            };
            let cells: Vec<Cell> = query.fields.iter().zip(&values).map(cell).collect();
            rows.extend((0..n).map(|_| Row { device: None, time: Some(time), cells: cells.clone() }));
        }
        rows
    }

    fn grouped(
        &self,
        query: &Query,
        found: Vec<Found>,
        aggregate: Aggregate,
        key: impl Fn(&Found) -> (Option<u32>, Option<i64>),
    ) -> Vec<Row> {
        let mut groups: BTreeMap<(Option<u32>, Option<i64>), Vec<Found>> = BTreeMap::new();
        for row in found {
            groups.entry(key(&row)).or_default().push(row);
        }
        let row = |((device, time), mut rows): ((Option<u32>, Option<i64>), Vec<Found>)| {
            rows.sort_by_key(|row| row.1);
            let cell = |field: &u32| {
                let values: Vec<i64> = rows.iter().filter_map(|row| row.2[*field as usize]).collect();
                self.aggregated(self.kind(query, *field), aggregate, &values)
            };
            Row { device, time, cells: query.fields.iter().map(cell).collect() }
        };
        groups.into_iter().map(row).collect()
    }

    /// Aggregates `values`, which are in time order.
    fn aggregated(&self, kind: Kind, aggregate: Aggregate, values: &[i64]) -> Cell {
        let number = |units: i64| match kind {
            Kind::Float { decimals } if !self.float32 => Kind::Double { decimals }.number(units),
            _ => kind.number(units),
        };
        let sum = || values.iter().map(|units| number(*units)).sum::<f64>();
        let units = match aggregate {
            Aggregate::Count => return Cell::Int(values.len() as i64),
            _ if values.is_empty() => return Cell::Null,
            Aggregate::Sum => return Cell::Float(sum()),
            Aggregate::Avg => return Cell::Float(sum() / values.len() as f64),
            Aggregate::Min => values.iter().min(),
            Aggregate::Max => values.iter().max(),
            Aggregate::First => values.first(),
            Aggregate::Last => values.last(),
        };
        units.map_or(Cell::Null, |units| cell(kind, *units))
    }
}

fn cell(kind: Kind, units: i64) -> Cell {
    match kind {
        Kind::Bool => Cell::Bool(units != 0),
        Kind::Int32 | Kind::Int64 | Kind::Timestamp | Kind::Date => Cell::Int(units),
        Kind::Float { .. } | Kind::Double { .. } => Cell::Float(kind.number(units)),
        Kind::Text { length } | Kind::String { length } | Kind::Blob { length } => {
            let mut text = Vec::new();
            text_of(units, length, &mut text);
            Cell::Text(text)
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Comparison

fn compare(query: &Query, expected: &Rows, mut seen: Rows) -> Checked {
    in_order(query, &seen)?;
    // The device may be missing in answers for a single device.
    if let (Some([device]), None) = (query.devices.as_deref(), &query.set) {
        let has_device = expected.rows.first().is_some_and(|row| row.device.is_some());
        seen.rows.iter_mut().filter(|_| has_device).for_each(|row| row.device = row.device.or(Some(*device)));
    }
    let (expected, seen) = (canonical(query, expected), canonical(query, &seen));
    for (wanted, got) in expected.iter().zip(&seen) {
        if !same_row(query, wanted, got) {
            return Err(format!("expected {wanted:?}, seen {got:?}"));
        }
    }
    if expected.len() != seen.len() {
        let extra = expected.get(seen.len()).or(seen.get(expected.len()));
        return Err(format!(
            "expected {} rows, seen {}; the first unmatched row is {extra:?}",
            expected.len(),
            seen.len()
        ));
    }
    Ok(())
}

/// Checks the time order, over all rows or within each device.
fn in_order(query: &Query, seen: &Rows) -> Checked {
    let mut last: BTreeMap<Option<u32>, i64> = BTreeMap::new();
    for row in seen.rows.iter().filter(|_| query.order != Order::Any) {
        let time = row.time.ok_or("ordered by time, but has none")?;
        if let Some(before) = last.insert(row.device, time) {
            let wrong = if query.order == Order::Ascending { time < before } else { time > before };
            if wrong {
                return Err(format!("not in order {:?}: {time} comes after {before}", query.order));
            }
        }
    }
    Ok(())
}

/// Sorts rows and removes those without values, which answers may omit.
fn canonical(query: &Query, rows: &Rows) -> Vec<Row> {
    let counts = matches!(
        query.shape,
        Shape::Aggregate { aggregate: Aggregate::Count, .. } | Shape::Buckets { aggregate: Aggregate::Count, .. }
    );
    let no_value = |cell: &Cell| *cell == Cell::Null || counts && *cell == Cell::Int(0);
    let mut rows: Vec<Row> = rows.rows.iter().filter(|row| !row.cells.iter().all(no_value)).cloned().collect();
    for row in &mut rows {
        if matches!(query.shape, Shape::Aggregate { .. }) {
            row.time = None;
        }
        row.cells.iter_mut().filter(|cell| counts && no_value(cell)).for_each(|cell| *cell = Cell::Null);
    }
    rows.sort_by_cached_key(|row| (row.device, row.time, format!("{:?}", row.cells)));
    rows
}

fn same_row(query: &Query, a: &Row, b: &Row) -> bool {
    let computed = match query.shape {
        Shape::Aggregate { aggregate, .. } | Shape::Buckets { aggregate, .. } => {
            matches!(aggregate, Aggregate::Sum | Aggregate::Avg)
        }
        Shape::Rows | Shape::Latest => false,
    };
    let same = |(a, b): (&Cell, &Cell)| match (number(a), number(b)) {
        (Some(a), Some(b)) if computed => (a - b).abs() <= 1e-7 * a.abs().max(b.abs()).max(1.0),
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    };
    (a.device, a.time, a.cells.len()) == (b.device, b.time, b.cells.len()) && a.cells.iter().zip(&b.cells).all(same)
}

fn number(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Int(value) => Some(*value as f64),
        Cell::Float(value) => Some(*value),
        _ => None,
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Queries

/// A query with a name.
struct NamedQuery {
    name: String,
    query: Query,
}

const AGGREGATES: [Aggregate; 7] = [
    Aggregate::Count,
    Aggregate::Sum,
    Aggregate::Avg,
    Aggregate::Min,
    Aggregate::Max,
    Aggregate::First,
    Aggregate::Last,
];

/// All data of the first table.
fn everything(schema: &Schema) -> Query {
    Query {
        kind: 1,
        table: 0,
        devices: None,
        fields: (0..schema.tables[0].fields.len() as u32).collect(),
        window: None,
        filters: Vec::new(),
        shape: Shape::Rows,
        order: Order::Any,
        limit: None,
        set: None,
    }
}

/// Numeric fields of the first table.
fn numbers(schema: &Schema) -> Vec<u32> {
    let fields = schema.tables[0].fields.iter().enumerate();
    fields.filter(|(_, field)| field.kind.is_number()).map(|(index, _)| index as u32).collect()
}

fn queries(schema: &Schema, abilities: &Abilities) -> Vec<NamedQuery> {
    let mut list = Vec::new();
    row_queries(schema, &mut list);
    filter_queries(schema, abilities, &mut list);
    aggregate_queries(schema, &mut list);
    bucket_queries(schema, &mut list);
    set_queries(schema, &mut list);
    let mut add = |name: &str, query: Query| list.push(NamedQuery { name: name.to_owned(), query });
    let latest = Query { shape: Shape::Latest, ..everything(schema) };
    add("latest/all devices", latest.clone());
    add("latest/some devices", Query { devices: Some(vec![4, 0]), fields: vec![numbers(schema)[0]], ..latest.clone() });
    add("latest/one device", Query { devices: Some(vec![2]), ..latest.clone() });
    add("latest/second table", Query { table: 1, fields: vec![0], ..latest });
    list
}

fn row_queries(schema: &Schema, list: &mut Vec<NamedQuery>) {
    let at = |slot: u64| time(schema, slot);
    let all = everything(schema);
    let one = Query { devices: Some(vec![0]), window: Some(at(10)..at(40)), ..all.clone() };
    let mut add = |name: &str, query: Query| list.push(NamedQuery { name: format!("rows/{name}"), query });
    add("all", all.clone());
    add("second table", Query { table: 1, fields: vec![0], ..all.clone() });
    add("exact time", Query { window: Some(at(10)..at(10) + 1), ..one.clone() });
    add("exact time/two devices", Query { devices: Some(vec![3, 1]), window: Some(at(7)..at(7) + 1), ..all.clone() });
    add("exact time/nothing there", Query { window: Some(at(10) + 1..at(10) + 2), ..one.clone() });
    add("range", Query { devices: Some(vec![2, 1]), ..one.clone() });
    add("range/end is not in it", Query { window: Some(at(10) + 1..at(12)), ..one.clone() });
    add("range/all devices", Query { devices: None, ..one.clone() });
    add("range/open start", Query { window: Some(i64::MIN..at(3)), ..one.clone() });
    add("range/open end", Query { window: Some(at(87)..i64::MAX), ..one.clone() });
    add("range/before everything", Query { window: Some(at(0) - 1000..at(0)), ..one.clone() });
    add("ascending", Query { devices: Some(vec![2, 1]), order: Order::Ascending, ..one.clone() });
    add("descending", Query { devices: Some(vec![2, 1]), order: Order::Descending, ..one.clone() });
    for (name, order) in [("ascending", Order::Ascending), ("descending", Order::Descending)] {
        add(&format!("limit/{name}"), Query { order, limit: Some(7), ..one.clone() });
    }
}

fn filter_queries(schema: &Schema, abilities: &Abilities, list: &mut Vec<NamedQuery>) {
    let numbers = numbers(schema);
    let two = vec![numbers[0], numbers[numbers.len() - 1]];
    let filters: Vec<Filter> = two.iter().map(|field| Filter { field: *field, above: -5.5 }).collect();
    let range = time(schema, 5)..time(schema, 70);
    let both = Query { devices: Some(vec![0, 3]), fields: two, window: Some(range), filters, ..everything(schema) };
    let mut add = |name: String, query: Query| list.push(NamedQuery { name: format!("rows/filter/{name}"), query });
    add("range".to_owned(), both.clone());
    add("no range".to_owned(), Query { window: None, ..both.clone() });
    add("descending".to_owned(), Query { order: Order::Descending, ..both.clone() });
    add("of a field that is not selected".to_owned(), Query { fields: vec![0], ..both.clone() });
    for field in numbers {
        let kind = schema.tables[0].fields[field as usize].kind;
        if matches!(kind, Kind::Float { .. }) && !abilities.float32 {
            continue;
        }
        // The decimal of an existing value: as a 32-bit float the value may be greater than its own
        // decimal.
        let decimal = units(schema, 0, field, 33) as f64 / crate::schema::POWERS[usize::from(kind.decimals())];
        for (name, above) in [("decimal", decimal), ("itself", kind.number(units(schema, 0, field, 33)))] {
            let query = Query { fields: vec![field], filters: vec![Filter { field, above }], ..both.clone() };
            add(format!("bound/{kind:?} {name}"), query);
        }
    }
}

fn aggregate_queries(schema: &Schema, list: &mut Vec<NamedQuery>) {
    let numbers = numbers(schema);
    let range = time(schema, 5)..time(schema, 66);
    let mut add = |name: String, query: Query| list.push(NamedQuery { name: format!("aggregate/{name}"), query });
    let shaped =
        |aggregate, by_device| Query { shape: Shape::Aggregate { aggregate, by_device }, ..everything(schema) };
    add("count/every field".to_owned(), shaped(Aggregate::Count, true));
    add("count/second table".to_owned(), Query { table: 1, fields: vec![0], ..shaped(Aggregate::Count, true) });
    for aggregate in AGGREGATES {
        let name = aggregate.name();
        let ranged = |by_device, devices: Vec<u32>| Query {
            devices: Some(devices),
            fields: numbers.clone(),
            window: Some(range.clone()),
            ..shaped(aggregate, by_device)
        };
        let filters: Vec<Filter> = numbers[..1].iter().map(|field| Filter { field: *field, above: -5.0 }).collect();
        add(format!("{name}/by device"), ranged(true, vec![1, 4]));
        // Several devices have rows at the same time: their first or last value is ambiguous.
        let devices = if matches!(aggregate, Aggregate::First | Aggregate::Last) { vec![3] } else { vec![3, 1] };
        add(format!("{name}/over all"), ranged(false, devices));
        add(format!("{name}/all devices"), Query { devices: None, window: None, ..ranged(true, Vec::new()) });
        let filtered = Query { fields: vec![numbers[0]], filters, ..ranged(true, vec![2, 0]) };
        add(format!("{name}/filter"), Query { window: None, ..filtered.clone() });
        add(format!("{name}/filter and range"), filtered);
    }
}

fn bucket_queries(schema: &Schema, list: &mut Vec<NamedQuery>) {
    let numbers = numbers(schema);
    let second = schema.unit.per_second();
    let range = time(schema, 5) + 1..time(schema, 66);
    let mut add = |name: String, query: Query| list.push(NamedQuery { name: format!("buckets/{name}"), query });
    for aggregate in AGGREGATES {
        let name = aggregate.name();
        let shaped = |by_device, devices: Vec<u32>, origin| Query {
            devices: Some(devices),
            fields: vec![numbers[0], numbers[numbers.len() - 1]],
            window: Some(range.clone()),
            shape: Shape::Buckets { aggregate, width: 20 * second, origin, by_device },
            ..everything(schema)
        };
        let aligned = START_S * second;
        add(format!("{name}/by device"), shaped(true, vec![1, 4], aligned));
        let devices = if matches!(aggregate, Aggregate::First | Aggregate::Last) { vec![3] } else { vec![3, 1] };
        add(format!("{name}/over all"), shaped(false, devices, aligned));
        // Buckets that start at any time, and an origin after the start of the window.
        add(format!("{name}/origin"), shaped(true, vec![1, 0], aligned + 7 * second));
        add(format!("{name}/late origin"), shaped(true, vec![1, 0], aligned + 107 * second));
        add(format!("{name}/descending"), Query { order: Order::Descending, ..shaped(true, vec![1], aligned) });
    }
    let hours = Shape::Buckets { aggregate: Aggregate::Max, width: 3600 * second, origin: 0, by_device: false };
    let hourly = Query { shape: hours, fields: numbers, order: Order::Ascending, ..everything(schema) };
    add("max/no range".to_owned(), hourly);
}

fn set_queries(schema: &Schema, list: &mut Vec<NamedQuery>) {
    let numbers = numbers(schema);
    for operator in [SetOperator::Union, SetOperator::Intersect, SetOperator::Except] {
        for all in [false, true] {
            let name = format!("set/{}{}", operator.name().to_lowercase(), if all { "/all" } else { "" });
            let base = Query {
                devices: Some(vec![0]),
                fields: vec![numbers[0], numbers[numbers.len() - 1]],
                window: Some(time(schema, 10)..time(schema, 40)),
                ..everything(schema)
            };
            let with = |others| Query { set: Some(SetOperation { operator, all, others }), ..base.clone() };
            list.push(NamedQuery { name: format!("{name}/two"), query: with(vec![vec![1]]) });
            let three = Query { devices: Some(vec![0, 3]), ..with(vec![vec![1, 0], vec![0, 2]]) };
            list.push(NamedQuery { name: format!("{name}/three"), query: three });
        }
    }
}

/// Device 0 has all fields; each row of device 1 has some.
fn single_field_queries(schema: &Schema) -> Vec<NamedQuery> {
    let numbers = numbers(schema);
    let all = everything(schema);
    let two = vec![numbers[0], numbers[1]];
    let filter = |field: u32| Filter { field, above: 0.0 };
    let count = Shape::Aggregate { aggregate: Aggregate::Count, by_device: true };
    let width = 20 * schema.unit.per_second();
    let sums = Shape::Buckets { aggregate: Aggregate::Sum, width, origin: 0, by_device: true };
    let devices = Some(vec![1, 0]);
    let latest = Query { shape: Shape::Latest, devices: Some(vec![0]), ..all.clone() };
    [
        ("single fields/rows/all", all.clone()),
        ("single fields/rows/one field", Query { fields: vec![numbers[1]], devices: Some(vec![1]), ..all.clone() }),
        ("single fields/rows/two fields", Query { fields: two.clone(), order: Order::Descending, ..all.clone() }),
        (
            "single fields/rows/filter",
            Query { fields: two.clone(), filters: two.iter().map(|field| filter(*field)).collect(), ..all.clone() },
        ),
        ("single fields/aggregate/count", Query { shape: count, ..all.clone() }),
        ("single fields/buckets/sum", Query { shape: sums, fields: two, devices, ..all.clone() }),
        ("single fields/latest", latest.clone()),
        ("single fields/latest of gaps", Query { devices: Some(vec![1]), fields: vec![numbers[0]], ..latest }),
    ]
    .into_iter()
    .map(|(name, query)| NamedQuery { name: name.to_owned(), query })
    .collect()
}

// ---------------------------------------------------------------------------------------------------------------------
// Wide tables

fn wide(open: Open, target: &Target, fields: u32) -> Checked {
    let kind = Kind::Double { decimals: 2 };
    let abilities = Abilities { kinds: &[kind], single_fields: false, ..ABLE };
    let mut schema = schema(&abilities);
    schema.tables[0].fields = (0..fields).map(|index| Field { name: format!("s_{index}"), kind }).collect();
    let schema = Arc::new(schema);
    let config = Arc::new(Config::default());
    let driver = open(Opening { target: target.clone(), schema: Arc::clone(&schema), config });
    let driver = driver.map_err(|error| error.to_string())?;
    let visible_within = if driver.about().visible_at_once { Duration::ZERO } else { VISIBLE_WITHIN };
    let model = Model::new(Arc::clone(&schema));
    let scenario = Scenario::Once;
    let mut run = Run { abilities: &abilities, scenario, driver, model, patience: Instant::now() };
    let mut connection = run.connect(0)?;
    let connection = connection.as_mut();
    connection.clear().map_err(|error| format!("clear: {error}"))?;
    run.create()?;
    for device in 0..3 {
        run.put(connection, None, &[(device, (0..10).collect())], 1)?;
    }
    run.patience = Instant::now() + visible_within;
    let far_apart = vec![0, fields / 2, fields - 1];
    let all = everything(&schema);
    let count = Shape::Aggregate { aggregate: Aggregate::Count, by_device: true };
    let filters = far_apart.iter().map(|field| Filter { field: *field, above: -500_000.0 }).collect();
    let mut asked = vec![
        ("rows/fields far apart", Query { fields: far_apart.clone(), ..all.clone() }),
        ("rows/filters far apart", Query { fields: vec![1], filters, ..all.clone() }),
        ("latest/fields far apart", Query { shape: Shape::Latest, fields: far_apart, ..all.clone() }),
    ];
    for first in (0..fields).step_by(1_000) {
        let some = Query { fields: (first..fields.min(first + 1_000)).collect(), ..all.clone() };
        asked.push(("rows/every field", some.clone()));
        asked.push(("aggregate/every field", Query { shape: count.clone(), devices: Some(vec![1, 2]), ..some }));
    }
    for (name, query) in asked {
        let named = NamedQuery { name: name.to_owned(), query };
        run.one(connection, &named).map_err(|wrong| format!("query {name:?}: {}", shortened(&wrong)))?;
    }
    connection.clear().map_err(|error| format!("clear: {error}"))
}

/// Shortens statements with thousands of names.
fn shortened(text: &str) -> String {
    text.chars().take(4_000).collect()
}

// ---------------------------------------------------------------------------------------------------------------------
// Tests of the check itself

mod tests {
    use std::sync::Mutex;

    use super::super::About;
    use super::*;
    use crate::error::Error;

    /// Fault of the driver below.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Fault {
        None,
        LosesARow,
        DoublesARow,
        AltersAValue,
        SwapsDevices,
        EndIsInTheWindow,
        FilterIncludesItsBound,
        OrderIgnored,
        ForgetsToClear,
        RefusesBuckets,
    }

    /// A product implemented by the brute-force model above.
    struct Memory {
        model: Arc<Mutex<Model>>,
        fault: Fault,
    }

    struct MemoryConnection {
        model: Arc<Mutex<Model>>,
        fault: Fault,
        batch: Batch,
        answer: Rows,
    }

    impl Driver for Memory {
        fn about(&self) -> About {
            About {
                product: "memory",
                write_path: "memory".to_owned(),
                why: "a test",
                durability: "none".to_owned(),
                durable: false,
                visible_at_once: true,
                replaces: true,
            }
        }

        fn connect(&self, _client: usize) -> Result<Box<dyn Connection>> {
            let (model, batch, answer) = (Arc::clone(&self.model), Batch::default(), Rows::default());
            Ok(Box::new(MemoryConnection { model, fault: self.fault, batch, answer }))
        }
    }

    impl Connection for MemoryConnection {
        fn version(&mut self) -> Result<String> {
            Ok("1".to_owned())
        }

        fn clear(&mut self) -> Result<()> {
            if self.fault != Fault::ForgetsToClear {
                self.model.lock().expect("no panic").values.clear();
            }
            Ok(())
        }

        fn create(&mut self, _devices: Range<u32>) -> Result<()> {
            Ok(())
        }

        fn encode(&mut self, batch: &Batch) -> Result<()> {
            self.batch = batch.clone();
            if self.fault == Fault::AltersAValue && batch.parts[0].device == 1 {
                self.batch.parts[0].units[SLOTS as usize + 40] ^= 1;
            }
            Ok(())
        }

        fn send(&mut self) -> Result<()> {
            self.model.lock().expect("no panic").put(&self.batch);
            Ok(())
        }

        fn statement(&self, query: &Query) -> Result<String> {
            if self.fault == Fault::RefusesBuckets && matches!(query.shape, Shape::Buckets { .. }) {
                return Err(Error::unsupported("no buckets"));
            }
            Ok("ask".to_owned())
        }

        fn query(&mut self, query: &Query) -> Result<()> {
            let mut query = query.clone();
            match self.fault {
                Fault::EndIsInTheWindow => {
                    query.window = query.window.map(|window| window.start..window.end.saturating_add(1));
                }
                Fault::FilterIncludesItsBound => {
                    query.filters.iter_mut().for_each(|filter| filter.above -= filter.above.abs() * 1e-12);
                }
                Fault::OrderIgnored => query.order = Order::Any,
                _ => {}
            }
            self.answer = self.model.lock().expect("no panic").answer(&query);
            let rows = &mut self.answer.rows;
            match self.fault {
                Fault::LosesARow if rows.len() > 3 => drop(rows.remove(3)),
                Fault::DoublesARow if rows.len() > 3 => rows.push(rows[3].clone()),
                Fault::SwapsDevices if rows.len() > 3 => rows.iter_mut().for_each(|row| {
                    row.device = row.device.map(|device| if device < 2 { 1 - device } else { device });
                }),
                _ => {}
            }
            Ok(())
        }

        fn answer(&mut self, _query: &Query) -> Result<Rows> {
            Ok(self.answer.clone())
        }
    }

    fn checked(fault: Fault, unsupported: &[&str]) -> Checked {
        let abilities = Abilities { unsupported, ..ABLE };
        let open = |opening: Opening| -> Result<Box<dyn Driver>> {
            Ok(Box::new(Memory { model: Arc::new(Mutex::new(Model::new(opening.schema))), fault }))
        };
        let target = Target::default();
        check_driver(&open, &target, &abilities)
    }

    #[test]
    fn correct_driver_passes() {
        checked(Fault::None, &[]).expect("right");
        checked(Fault::RefusesBuckets, &["buckets/", "single fields/buckets/"]).expect("right, within its limits");
    }

    #[test]
    fn every_fault_of_a_driver_is_found() {
        for (fault, where_seen) in [
            (Fault::LosesARow, "rows/all"),
            (Fault::DoublesARow, "rows/all"),
            (Fault::AltersAValue, "rows/all"),
            (Fault::SwapsDevices, "rows/all"),
            (Fault::EndIsInTheWindow, "rows/range"),
            (Fault::FilterIncludesItsBound, "rows/filter/bound"),
            (Fault::OrderIgnored, "rows/descending"),
            (Fault::ForgetsToClear, "after clear and create"),
            (Fault::RefusesBuckets, "buckets/"),
        ] {
            let wrong = checked(fault, &[]).expect_err(&format!("{fault:?} passed"));
            assert!(wrong.contains(where_seen), "{fault:?} was seen elsewhere than in {where_seen}: {wrong}");
        }
    }

    #[test]
    fn declared_limit_that_does_not_exist_is_found() {
        let wrong = checked(Fault::None, &["latest/one device"]).expect_err("it can be asked");
        assert!(wrong.contains("unsupported is true"), "{wrong}");
    }

    #[test]
    fn set_operations_count_rows_as_sql_does() {
        let schema = Arc::new(schema(&ABLE));
        let mut model = Model::new(Arc::clone(&schema));
        for device in 0..2 {
            model.put(&batch(&schema, None, &[(device, (0..10).collect())]));
        }
        let size = |operator, all, devices: &[u32], other: &[u32]| {
            let set = Some(SetOperation { operator, all, others: vec![other.to_vec()] });
            let rows = model.answer(&Query { devices: Some(devices.to_vec()), set, ..everything(&schema) }).rows;
            rows.len()
        };
        // Devices 0 and 1 share five of their ten rows.
        assert_eq!(size(SetOperator::Union, false, &[0], &[1]), 15);
        assert_eq!(size(SetOperator::Union, true, &[0], &[1]), 20);
        assert_eq!(size(SetOperator::Intersect, false, &[0, 1], &[0]), 10);
        assert_eq!(size(SetOperator::Intersect, true, &[0, 1], &[0, 1]), 20);
        assert_eq!(size(SetOperator::Except, false, &[0, 1], &[0]), 5);
        assert_eq!(size(SetOperator::Except, true, &[0, 1], &[0]), 10);
    }
}
