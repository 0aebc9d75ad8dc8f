//! Runs against an in-memory store that answers by scanning everything it received, and against the
//! same store with one injected fault: every fault must be detected.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::AtomicU64;

use super::*;
use crate::drivers::Connection;
use crate::error::Class;
use crate::query::{Aggregate, Cell, Order as RowOrder, Query, Row, Rows, SetOperator, Shape};
use crate::schema::{Batch, Kind, Schema, text_of};

/// The fault that the store injects once.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// An acknowledged request is not stored.
    DropWrite,
    /// One row of an acknowledged request is not stored.
    DropRow,
    /// One value of an acknowledged request is changed.
    AlterValue,
    /// A request is stored twice, in a store that keeps duplicates.
    DuplicateWrite,
    /// An acknowledged request becomes visible only later.
    DelayWrite,
    /// An answer lacks a row.
    DropAnswerRow,
    /// A write is delayed for long: it is visible only after the store was asked twice whether it
    /// is behind.
    Behind,
    /// An answer has a row twice.
    DuplicateAnswerRow,
    /// One value of an answer is changed.
    AlterAnswer,
    /// The answer is that of another device.
    OtherDevice,
    /// Rows are not in the order requested.
    Reorder,
    /// An answer is empty.
    EmptyAnswer,
    /// The answer ends with rows of the previous query: stale data.
    RepeatAnswer,
    /// A query is refused.
    RefuseQuestion,
}

/// Number of the request that the fault affects.
const HIT: u64 = 17;
/// Number of the affected answer, counting only non-empty ones: some kinds have few.
const ANSWER_HIT: u64 = 3;

struct Memory {
    schema: Arc<Schema>,
    state: Mutex<State>,
    fault: Fault,
    /// Requests so far.
    requests: AtomicU64,
    /// Non-empty answers of the affected kind so far.
    answers: AtomicU64,
    /// The kind of query whose answers are affected.
    kind: usize,
    replaces: bool,
}

#[derive(Default)]
struct State {
    /// (device, time) → rows; a row is its cells' units.
    rows: BTreeMap<(u32, i64), Vec<Vec<Option<i64>>>>,
    /// An acknowledged batch that is not visible yet, and the number of requests until it is.
    delayed: Option<(Batch, u64)>,
}

impl State {
    fn store(&mut self, batch: &Batch, fields: usize, replaces: bool) {
        for part in &batch.parts {
            for (row, time) in part.times.iter().enumerate() {
                let rows = self.rows.entry((part.device, *time)).or_default();
                if rows.is_empty() || !replaces {
                    rows.push(vec![None; fields]);
                }
                let cells = rows.last_mut().expect("a row");
                for (column, field) in batch.fields.clone().enumerate() {
                    cells[field as usize] = Some(part.unit(column, row));
                }
            }
        }
    }
}

impl Driver for Arc<Memory> {
    fn about(&self) -> About {
        About {
            product: "memory",
            write_path: "a call".to_owned(),
            why: "a test",
            durability: "none".to_owned(),
            durable: false,
            visible_at_once: true,
            replaces: self.replaces,
        }
    }

    fn connect(&self, _client: usize) -> Result<Box<dyn Connection>> {
        let memory = Arc::clone(self);
        Ok(Box::new(MemoryConnection { memory, batch: Batch::default(), answer: Rows::default(), last: None }))
    }
}

struct MemoryConnection {
    memory: Arc<Memory>,
    batch: Batch,
    answer: Rows,
    last: Option<Rows>,
}

impl Connection for MemoryConnection {
    fn version(&mut self) -> Result<String> {
        Ok("1".to_owned())
    }

    fn clear(&mut self) -> Result<()> {
        Ok(())
    }

    fn create(&mut self, _devices: Range<u32>) -> Result<()> {
        Ok(())
    }

    fn encode(&mut self, batch: &Batch) -> Result<()> {
        self.batch = batch.clone();
        Ok(())
    }

    fn send(&mut self) -> Result<()> {
        let fields = self.memory.schema.tables[self.batch.table as usize].fields.len();
        let count = self.memory.requests.fetch_add(1, Ordering::Relaxed);
        let mut state = self.memory.state.lock().expect("no panic");
        if let Some((batch, left)) = state.delayed.take() {
            if left == 0 {
                state.store(&batch, fields, self.memory.replaces);
            } else {
                state.delayed = Some((batch, left - 1));
            }
        }
        let mut batch = self.batch.clone();
        if count == HIT {
            match self.memory.fault {
                Fault::DropWrite => return Ok(()),
                Fault::DropRow => remove_row(&mut batch),
                // The third sensor from the end is a number.
                Fault::AlterValue => {
                    let rows = batch.parts[0].times.len();
                    batch.parts[0].units[8 * rows] += 1;
                }
                Fault::DuplicateWrite => state.store(&batch, fields, self.memory.replaces),
                Fault::DelayWrite => {
                    state.delayed = Some((batch, 40));
                    return Ok(());
                }
                Fault::Behind => {
                    state.delayed = Some((batch, u64::MAX));
                    return Ok(());
                }
                _ => {}
            }
        }
        state.store(&batch, fields, self.memory.replaces);
        Ok(())
    }

    fn statement(&self, query: &Query) -> Result<String> {
        Ok(format!("{query:?}"))
    }

    fn query(&mut self, query: &Query) -> Result<()> {
        self.answer = self.memory.answer(query);
        // Kind 0 is the final check. An empty answer cannot be altered.
        if query.kind != self.memory.kind || self.answer.rows.is_empty() {
            return Ok(());
        }
        let count = self.memory.answers.fetch_add(1, Ordering::Relaxed);
        let before = self.last.replace(self.answer.clone());
        if count == ANSWER_HIT {
            let rows = &mut self.answer.rows;
            match self.memory.fault {
                Fault::DropAnswerRow => drop(rows.pop()),
                Fault::DuplicateAnswerRow => rows.extend(rows.last().cloned()),
                Fault::AlterAnswer => alter(rows),
                Fault::OtherDevice => rows.iter_mut().for_each(|row| row.device = row.device.map(|device| device ^ 1)),
                Fault::Reorder => rows.reverse(),
                Fault::EmptyAnswer => rows.clear(),
                Fault::RepeatAnswer => self.answer = before.unwrap_or_default(),
                Fault::RefuseQuestion => return Err(Error::new(Class::Refused, "not now")),
                _ => {}
            }
        }
        Ok(())
    }

    fn answer(&mut self, _query: &Query) -> Result<Rows> {
        Ok(self.answer.clone())
    }

    fn is_behind(&mut self) -> Result<bool> {
        let fields = self.memory.schema.tables[self.batch.table as usize].fields.len();
        let mut state = self.memory.state.lock().expect("no panic");
        let Some((batch, left)) = state.delayed.take_if(|_| self.memory.fault == Fault::Behind) else {
            return Ok(false);
        };
        if left > 1 {
            state.delayed = Some((batch, 1));
            return Ok(true);
        }
        state.store(&batch, fields, self.memory.replaces);
        Ok(false)
    }
}

fn remove_row(batch: &mut Batch) {
    let part = &mut batch.parts[0];
    let rows = part.times.len();
    part.units = (0..part.units.len()).filter(|at| at % rows != 0).map(|at| part.units[at]).collect();
    part.times.remove(0);
}

fn alter(rows: &mut [Row]) {
    let cell = rows.last_mut().and_then(|row| row.cells.first_mut());
    if let Some(cell) = cell {
        *cell = match cell {
            Cell::Int(value) => Cell::Int(*value + 1),
            Cell::Float(value) => Cell::Float(*value + 0.01),
            Cell::Bool(value) => Cell::Bool(!*value),
            _ => Cell::Text(b"?".to_vec()),
        };
    }
}

fn cell(kind: Kind, units: i64) -> Cell {
    match kind {
        Kind::Bool => Cell::Bool(units != 0),
        Kind::Float { .. } | Kind::Double { .. } => Cell::Float(kind.number(units)),
        Kind::Text { length } | Kind::String { length } | Kind::Blob { length } => {
            let mut text = Vec::new();
            text_of(units, length, &mut text);
            Cell::Text(text)
        }
        _ => Cell::Int(units),
    }
}

/// (device, time, cells of all fields).
type Full = (u32, i64, Vec<Option<i64>>);

impl Memory {
    fn new(schema: &Arc<Schema>, fault: Fault, kind: usize, replaces: bool) -> Arc<Memory> {
        Arc::new(Memory {
            schema: Arc::clone(schema),
            state: Mutex::default(),
            fault,
            requests: AtomicU64::new(0),
            answers: AtomicU64::new(0),
            kind,
            replaces,
        })
    }

    /// A store with the same rows and another fault.
    fn with(&self, fault: Fault, kind: usize) -> Arc<Memory> {
        let other = Memory::new(&self.schema, fault, kind, self.replaces);
        other.state.lock().expect("no panic").rows = self.state.lock().expect("no panic").rows.clone();
        other
    }

    /// Changes one text, which neither counts nor sums reveal.
    fn alter_a_text(&self) {
        let mut state = self.state.lock().expect("no panic");
        let (_, rows) = state.rows.iter_mut().nth(777).expect("a row");
        let cell = rows[0].last_mut().expect("a sensor").as_mut().expect("a value");
        *cell = !*cell;
    }

    fn answer(&self, query: &Query) -> Rows {
        let own = query.devices.clone();
        let rows = self.select(query, own.as_deref());
        let rows = match (&query.shape, &query.set) {
            (_, Some(set)) => {
                let mut all: Vec<Vec<Row>> = vec![self.plain(query, &rows, false)];
                all.extend(set.others.iter().map(|devices| {
                    let rows = self.select(query, Some(devices));
                    self.plain(query, &rows, false)
                }));
                combine(all, set.operator, set.all)
            }
            (Shape::Rows, None) => self.plain(query, &rows, true),
            (Shape::Aggregate { aggregate, by_device }, None) => {
                self.grouped(query, *aggregate, &rows, |device, _| (by_device.then_some(device), None))
            }
            (Shape::Buckets { aggregate, width, origin, by_device }, None) => {
                self.grouped(query, *aggregate, &rows, |device, time| {
                    (by_device.then_some(device), Some(origin + (time - origin).div_euclid(*width) * width))
                })
            }
            (Shape::Latest, None) => {
                let mut newest: BTreeMap<u32, Full> = BTreeMap::new();
                let rows = rows.into_iter().filter(|row| query.fields.iter().any(|f| row.2[*f as usize].is_some()));
                rows.for_each(|row| drop(newest.insert(row.0, row)));
                self.plain(query, &newest.into_values().collect::<Vec<_>>(), true)
            }
        };
        self.in_order(query, rows)
    }

    fn select(&self, query: &Query, devices: Option<&[u32]>) -> Vec<Full> {
        let state = self.state.lock().expect("no panic");
        let table = &self.schema.tables[query.table as usize];
        let mut selected = Vec::new();
        for ((device, time), rows) in &state.rows {
            let wanted = match devices {
                Some(devices) => devices.contains(device),
                None => self.schema.devices[*device as usize].table == query.table,
            };
            if !wanted || query.window.as_ref().is_some_and(|window| !window.contains(time)) {
                continue;
            }
            for row in rows {
                let passes = query.filters.iter().all(|filter| {
                    let kind = table.fields[filter.field as usize].kind;
                    row[filter.field as usize].is_some_and(|units| kind.number(units) > filter.above)
                });
                if passes {
                    selected.push((*device, *time, row.clone()));
                }
            }
        }
        selected
    }

    fn plain(&self, query: &Query, rows: &[Full], with_device: bool) -> Vec<Row> {
        let table = &self.schema.tables[query.table as usize];
        let cells = |row: &Full| {
            let cell = |field: &u32| {
                row.2[*field as usize].map_or(Cell::Null, |units| cell(table.fields[*field as usize].kind, units))
            };
            query.fields.iter().map(cell).collect()
        };
        rows.iter()
            .map(|row| Row { device: with_device.then_some(row.0), time: Some(row.1), cells: cells(row) })
            .collect()
    }

    fn grouped(
        &self,
        query: &Query,
        aggregate: Aggregate,
        rows: &[Full],
        group: impl Fn(u32, i64) -> (Option<u32>, Option<i64>),
    ) -> Vec<Row> {
        let table = &self.schema.tables[query.table as usize];
        let mut groups: BTreeMap<(Option<i64>, Option<u32>), Vec<&Full>> = BTreeMap::new();
        for row in rows {
            let (device, time) = group(row.0, row.1);
            groups.entry((time, device)).or_default().push(row);
        }
        let of = |rows: &[&Full], field: u32| {
            let kind = table.fields[field as usize].kind;
            let values: Vec<i64> = rows.iter().filter_map(|row| row.2[field as usize]).collect();
            let numbers: Vec<f64> = values.iter().map(|units| kind.number(*units)).collect();
            let number = |value: Option<f64>| value.map_or(Cell::Null, Cell::Float);
            match aggregate {
                Aggregate::Count => Cell::Int(values.len() as i64),
                _ if values.is_empty() => Cell::Null,
                Aggregate::Sum => Cell::Float(numbers.iter().sum()),
                Aggregate::Avg => Cell::Float(numbers.iter().sum::<f64>() / numbers.len() as f64),
                Aggregate::Min => number(numbers.iter().copied().reduce(f64::min)),
                Aggregate::Max => number(numbers.iter().copied().reduce(f64::max)),
                Aggregate::First => number(numbers.first().copied()),
                Aggregate::Last => number(numbers.last().copied()),
            }
        };
        groups
            .into_iter()
            .map(|((time, device), rows)| {
                let cells = query.fields.iter().map(|field| of(&rows, *field)).collect();
                Row { device, time, cells }
            })
            .collect()
    }

    fn in_order(&self, query: &Query, mut rows: Vec<Row>) -> Rows {
        if query.order == RowOrder::Descending {
            rows.sort_by_key(|row| std::cmp::Reverse(row.time));
        }
        rows.truncate(query.limit.map_or(usize::MAX, |limit| limit as usize));
        Rows { rows }
    }
}

fn combine(children: Vec<Vec<Row>>, operator: SetOperator, all: bool) -> Vec<Row> {
    let mut children = children.into_iter();
    let mut result = children.next().unwrap_or_default();
    for child in children {
        match operator {
            SetOperator::Union => result.extend(child),
            SetOperator::Intersect => result.retain(|row| child.contains(row)),
            SetOperator::Except => result.retain(|row| !child.contains(row)),
        }
    }
    if !all {
        let mut distinct: Vec<Row> = Vec::new();
        result.into_iter().for_each(|row| {
            if !distinct.contains(&row) {
                distinct.push(row);
            }
        });
        return distinct;
    }
    result
}

struct Silent;

impl Show for Silent {
    fn stage(&mut self, _text: &str) {}
    fn progress(&mut self, _plan: &Plan, _progress: &Progress) {}
}

const BASE: &[&str] = &[
    "DEVICE_NUMBER=6",
    "SENSOR_NUMBER=12",
    "DATA_CLIENT_NUMBER=2",
    "SCHEMA_CLIENT_NUMBER=2",
    "BATCH_SIZE_PER_WRITE=10",
    "LOOP=30",
    "QUERY_DEVICE_NUM=2",
    "QUERY_SENSOR_NUM=2",
    "SETTLE_MAX=0",
    "INIT_WAIT_TIME=0",
];

fn run_with(fault: Fault, kind: usize, replaces: bool, settings: &[&str]) -> RunResult {
    let settings: Vec<&str> = BASE.iter().chain(settings).copied().collect();
    run_of("iot", fault, kind, replaces, &settings)
}

fn run_of(name: &str, fault: Fault, kind: usize, replaces: bool, settings: &[&str]) -> RunResult {
    let config = config_of(name, settings);
    let memory = Memory::new(workload::open(name, &config).expect("a workload").schema(), fault, kind, replaces);
    run_on(&memory, name, &config)
}

fn config_of(name: &str, settings: &[&str]) -> Arc<Config> {
    let settings: Vec<String> = settings.iter().map(|text| (*text).to_owned()).collect();
    let defaults = workload::entry(name).expect("in the list").defaults;
    let mut config = Config::load_over(defaults, None, &settings).expect("valid settings");
    config.check().expect("a usable configuration");
    Arc::new(config)
}

fn run_on(memory: &Arc<Memory>, name: &str, config: &Arc<Config>) -> RunResult {
    run_ordered(memory, &Order { workload: name.to_owned(), ..Order::default() }, config)
}

fn run_ordered(memory: &Arc<Memory>, order: &Order, config: &Arc<Config>) -> RunResult {
    let name = &order.workload;
    let workload = workload::open(name, config).expect("a workload");
    let target = Target { name: "memory".to_owned(), hosts: vec!["here".to_owned()], ..Target::default() };
    let target_server = TargetServer::open(&target, &TargetServerOptions::default(), 0).expect("a target server");
    let driver = Arc::new(Arc::clone(memory));
    Run::new(order, config, workload, driver, target_server).and_then(|run| run.run(&mut Silent)).expect("a run")
}

fn settings_of(name: &str) -> Vec<&'static str> {
    match name {
        "apart" => vec!["QUERY_COUNT=60"],
        "irregular" => vec!["QUERY_COUNT=60", "IS_REGULAR_FREQUENCY=false"],
        "mixed" => vec!["OPERATION_PROPORTION=1:1:1:1:1:1:1:1:1:1:1:1:1", "LOOP=200"],
        "recent" => vec!["OPERATION_PROPORTION=1:1:1:1:1:1:1:1:1:1:1:1:1", "LOOP=200", "IS_RECENT_QUERY=true"],
        "unbound" => vec!["OPERATION_PROPORTION=1:1:1:1:1:1:1:1:1:1:1:1:1", "LOOP=200", "IS_CLIENT_BIND=false"],
        "late" => vec!["QUERY_COUNT=60", "IS_OUT_OF_ORDER=true", "OUT_OF_ORDER_MODE=LATE", "LATE_MAX=50"],
        "late mixed" => vec![
            "OPERATION_PROPORTION=1:1:1:1:1:1:1:1:1:1:1:1:1",
            "LOOP=200",
            "IS_OUT_OF_ORDER=true",
            "OUT_OF_ORDER_MODE=LATE",
            "LATE_MAX=50",
        ],
        "overwriting" => vec!["QUERY_COUNT=60", "IS_OUT_OF_ORDER=true", "LAMBDA=5", "MAX_K=20"],
        "backwards" => vec!["QUERY_COUNT=60", "IS_OUT_OF_ORDER=true", "OUT_OF_ORDER_MODE=BATCH"],
        "not aligned" => vec!["QUERY_COUNT=60", "IS_SENSOR_TS_ALIGNMENT=false", "TS_ALIGNMENT_RATIO=0.7"],
        "averages" => vec!["QUERY_COUNT=60", "QUERY_AGGREGATE_FUN=avg"],
        "compat" => vec!["OPERATION_PROPORTION=1:1:1:1:1:1:1:1:1:1:1:1:1", "LOOP=200", "COMPAT=true"],
        "fixed" => vec!["QUERY_COUNT=60", "ENABLE_FIXED_QUERY=true"],
        "intersect" => vec!["QUERY_COUNT=60", "QUERY_SET_OP_TYPE=intersect"],
        "limited" => vec!["QUERY_COUNT=60"],
        other => panic!("no settings {other:?}"),
    }
}

#[test]
fn a_correct_store_passes_with_every_workload() {
    let names = [
        "apart",
        "irregular",
        "mixed",
        "recent",
        "unbound",
        "late",
        "late mixed",
        "overwriting",
        "backwards",
        "not aligned",
        "averages",
        "compat",
        "fixed",
        "intersect",
        "limited",
    ];
    for name in names {
        let result = run_with(Fault::None, usize::MAX, true, &settings_of(name));
        let verification = &result.verification;
        assert!(verification.passed, "{name}: {:#?}", verification.findings);
        assert!(result.failures.is_empty(), "{name}: {:?}", result.failures);
        assert!(verification.points_expected > 0 && verification.points_found == verification.points_expected);
        for (kind, checked) in verification.answers.iter().enumerate().skip(1) {
            assert!(checked.answers > 0 && checked.checked > checked.undecided, "{name}: kind {kind}: {checked:?}");
        }
    }
}

#[test]
fn a_lost_altered_or_duplicated_write_is_found() {
    let writes = [Fault::DropWrite, Fault::DropRow, Fault::AlterValue];
    for fault in writes {
        for settings in ["apart", "mixed", "late"] {
            let result = run_with(fault, usize::MAX, true, &settings_of(settings));
            assert!(!result.verification.passed, "{fault:?} in {settings} was not found");
        }
    }
    let lost = run_with(Fault::DropWrite, usize::MAX, true, &settings_of("apart")).verification.lost;
    assert_eq!(lost, 10 * 12, "rows of a batch times sensors");
    let result = run_with(Fault::DuplicateWrite, usize::MAX, false, &settings_of("apart"));
    assert_eq!((result.verification.passed, result.verification.surplus), (false, 10 * 12));
    assert!(run_with(Fault::None, usize::MAX, false, &settings_of("apart")).verification.passed);
}

#[test]
fn a_write_that_becomes_visible_after_its_acknowledgement_is_found() {
    let settings = [
        "OPERATION_PROPORTION=1:0:0:0:0:9",
        "LOOP=400",
        "VERIFY_RATIO=1",
        "DATA_CLIENT_NUMBER=1",
        "QUERY_DEVICE_NUM=6",
        "QUERY_LOWER_VALUE=-1000000000",
    ];
    let result = run_with(Fault::DelayWrite, usize::MAX, true, &settings);
    assert!(!result.verification.passed, "a count was less than what was acknowledged");
    assert_eq!(result.verification.lost, 0, "in the end all was there");
}

#[test]
fn a_wrong_answer_of_any_kind_is_found() {
    for kind in 1..13 {
        let faults: &[Fault] = match kind {
            1 => &[Fault::DropAnswerRow, Fault::AlterAnswer, Fault::OtherDevice, Fault::DuplicateAnswerRow],
            2 | 3 => &[Fault::DropAnswerRow, Fault::DuplicateAnswerRow, Fault::AlterAnswer, Fault::EmptyAnswer],
            4..=6 | 8 => &[Fault::DropAnswerRow, Fault::DuplicateAnswerRow, Fault::AlterAnswer],
            7 => &[Fault::DropAnswerRow, Fault::DuplicateAnswerRow, Fault::AlterAnswer, Fault::RepeatAnswer],
            9..=11 => &[Fault::Reorder, Fault::AlterAnswer, Fault::DropAnswerRow],
            _ => &[Fault::DropAnswerRow, Fault::DuplicateAnswerRow, Fault::AlterAnswer],
        };
        for fault in faults {
            // Settings that give different values in each row.
            let settings = [
                "LOOP=3",
                "BATCH_SIZE_PER_WRITE=100",
                "DEVICE_NUMBER=4",
                "QUERY_COUNT=40",
                "DATA_CLIENT_NUMBER=1",
                "QUERY_LOWER_VALUE=-1000000000",
                "INSERT_DATATYPE_PROPORTION=0:0:0:0:1:0:0:0:0:0:0",
                "CONSTANT_RATIO=0",
            ];
            let result = run_with(*fault, kind, true, &settings);
            assert!(!result.verification.passed, "{fault:?} in an answer of kind {kind} was not found");
            assert_eq!(
                result.verification.answers[kind].wrong, 1,
                "{fault:?} {kind}: {:?}",
                result.verification.findings
            );
        }
    }
}

#[test]
fn a_run_waits_until_acknowledged_writes_are_visible() {
    let patient = run_with(Fault::Behind, 0, true, &["SETTLE_MAX=20"]);
    assert!(patient.verification.passed, "{:?}", patient.verification.findings);
    let impatient = run_with(Fault::Behind, 0, true, &["SETTLE_MAX=0"]);
    assert!(!impatient.verification.passed);
    let said = |note: &String| note.contains("may still be on its way");
    assert!(impatient.notes.iter().any(said), "{:?}", impatient.notes);
}

/// Regression. Bug: the search for the highest rate wrote after the queries, whose answers were
/// then compared with data that did not exist yet. Fix: the search runs before the queries.
#[test]
fn a_search_for_the_highest_rate_ends_before_the_queries() {
    let config =
        config_of("iot", &BASE.iter().copied().chain(["QUERY_COUNT=20", "RUN_SECONDS=0.1"]).collect::<Vec<_>>());
    let memory = Memory::new(workload::open("iot", &config).expect("a workload").schema(), Fault::None, 0, true);
    let limit = Some(std::time::Duration::from_millis(50));
    let order = Order { workload: "iot".to_owned(), find_rate_p99: limit, ..Order::default() };
    let result = run_ordered(&memory, &order, &config);
    assert!(result.notes.iter().any(|note| note.starts_with("highest rate")), "{:?}", result.notes);
    assert!(result.verification.passed, "{:#?}", result.verification.findings);
    assert!(result.verification.answers[1..].iter().any(|kind| kind.checked > 0));
}

#[test]
fn a_search_for_the_highest_rate_needs_a_time_limit() {
    let config = config_of("iot", BASE);
    let limit = Some(std::time::Duration::from_millis(50));
    let order = Order { workload: "iot".to_owned(), find_rate_p99: limit, ..Order::default() };
    let target = Target::parse("null").expect("a target");
    let refused = super::run(&order, &config, &target, &mut Silent).expect_err("refused").to_string();
    assert!(refused.contains("--find-rate") && refused.contains("give --seconds"), "{refused}");
}

/// The TSBS workload: 16 hours of ten hosts, a tick every two minutes, in 12 requests of one
/// client.
fn run_tsbs(fault: Fault, kind: usize, settings: &[&str]) -> RunResult {
    let base = [
        "DEVICE_NUMBER=10",
        "DEVICE_NUM_PER_WRITE=10",
        "DATA_CLIENT_NUMBER=1",
        "SCHEMA_CLIENT_NUMBER=1",
        "POINT_STEP=120000",
        "BATCH_SIZE_PER_WRITE=40",
        "LOOP=12",
        "QUERY_COUNT=40",
        "SETTLE_MAX=0",
        "INIT_WAIT_TIME=0",
    ];
    run_of("tsbs", fault, kind, true, &base.into_iter().chain(settings.iter().copied()).collect::<Vec<_>>())
}

#[test]
fn all_kinds_of_tsbs_pass_on_a_correct_store() {
    for settings in [&[][..], &["ENABLE_FIXED_QUERY=true"], &["RUN_SECONDS=30"]] {
        let result = run_tsbs(Fault::None, usize::MAX, settings);
        let verification = &result.verification;
        assert!(verification.passed, "{settings:?}: {:#?}", verification.findings);
        assert_eq!((verification.points_found, verification.points_expected), (48_000, 48_000));
        for checked in &verification.answers[1..] {
            assert_eq!((checked.answers, checked.checked, checked.undecided), (40, 40, 0), "{checked:?}");
        }
    }
}

#[test]
fn answers_of_tsbs_during_writes_are_checked_against_the_acknowledgements() {
    let mix = ["OPERATION_PROPORTION=1:1:1:1:1:1:1:1:1:1:1:1:1", "QUERY_COUNT=0", "LOOP=120", "BATCH_SIZE_PER_WRITE=4"];
    let verification = run_tsbs(Fault::None, usize::MAX, &mix).verification;
    assert!(verification.passed, "{:#?}", verification.findings);
    assert!(verification.answers[1..13].iter().all(|checked| checked.checked > 0), "{:?}", verification.answers);
}

#[test]
fn a_wrong_answer_of_any_kind_of_tsbs_is_found() {
    for kind in 1..16 {
        for fault in [Fault::DropAnswerRow, Fault::DuplicateAnswerRow, Fault::AlterAnswer] {
            let result = run_tsbs(fault, kind, &[]);
            let checked = &result.verification.answers[kind];
            assert!(!result.verification.passed, "{fault:?} in an answer of {} was not found", checked.name);
            assert_eq!(checked.wrong, 1, "{fault:?} {}: {:?}", checked.name, result.verification.findings);
        }
    }
    for fault in [Fault::DropWrite, Fault::DropRow, Fault::AlterValue] {
        let result = run_tsbs(fault, usize::MAX, &["LOOP=24", "BATCH_SIZE_PER_WRITE=20"]);
        assert!(!result.verification.passed, "{fault:?} was not found");
    }
}

/// Generates a small data set and a store loaded from its files; returns the store and the settings
/// for it.
fn written_from_files(dir: &std::path::Path) -> (Arc<Memory>, Vec<String>) {
    let mut settings: Vec<String> = BASE.iter().map(|text| (*text).to_owned()).collect();
    settings.extend([format!("FILE_PATH={}", dir.display()), "BIG_BATCH_SIZE=7".to_owned()]);
    let config = config_of("iot", &settings.iter().map(String::as_str).collect::<Vec<_>>());
    crate::dataset::tests::generate(&config).expect("a data set");
    let memory = Memory::new(workload::open("iot", &config).expect("a workload").schema(), Fault::None, 0, true);
    let result = run_on(&memory, "iot", &in_mode("verificationWriteMode", &settings));
    let writes = &result.phases[0].operations[0];
    assert_eq!((writes.name.as_str(), writes.ok, writes.ok_points), ("INGESTION", 6 * 30, 6 * 300 * 12));
    let verification = &result.verification;
    assert!(verification.passed, "{:#?}", verification.findings);
    assert_eq!(verification.points_found, 6 * 300 * 12);
    (memory, settings)
}

fn in_mode(mode: &str, settings: &[String]) -> Arc<Config> {
    let mode = format!("BENCHMARK_WORK_MODE={mode}");
    let settings: Vec<&str> = settings.iter().map(String::as_str).chain([mode.as_str()]).collect();
    config_of("iot", &settings)
}

#[test]
fn every_value_of_a_data_set_is_read_back_and_a_changed_one_is_found() {
    let dir = tempfile::tempdir().expect("a directory");
    let (memory, settings) = written_from_files(dir.path());
    let query = in_mode("verificationQueryMode", &settings);
    let result = run_on(&memory, "iot", &query);
    let checked = &result.verification.answers[1];
    assert_eq!((checked.name.as_str(), checked.checked, checked.wrong), ("VERIFICATION_QUERY", 180, 0));
    assert!(result.verification.passed, "{:#?}", result.verification.findings);
    assert_eq!(result.phases[0].operations[1].ok_points, 6 * 300 * 12);
    memory.alter_a_text();
    let verification = run_on(&memory, "iot", &query).verification;
    assert_eq!((verification.passed, verification.answers[1].wrong, verification.lost), (false, 1, 0));
    let finding = &verification.findings[0];
    assert!(finding.starts_with("VERIFICATION_QUERY: d_2 1640967290000 s_11: seen Text("), "{finding}");
}

#[test]
fn a_part_that_cannot_be_read_back_fails_the_verification() {
    let dir = tempfile::tempdir().expect("a directory");
    let (memory, settings) = written_from_files(dir.path());
    for (fault, finding) in [
        (Fault::RefuseQuestion, "VERIFICATION_QUERY: 179 of 180 parts of the data could be read back"),
        (Fault::DropAnswerRow, "VERIFICATION_QUERY: 1 of 10 rows are missing"),
    ] {
        let memory = memory.with(fault, 1);
        let verification = run_on(&memory, "iot", &in_mode("verificationQueryMode", &settings)).verification;
        assert!(!verification.passed, "{fault:?} was not found");
        assert!(verification.findings.iter().any(|seen| seen.starts_with(finding)), "{:?}", verification.findings);
    }
}

#[test]
fn copies_with_anomalies_are_written_and_read_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let (memory, mut settings) = written_from_files(dir.path());
    settings.extend(["IS_COPY_MODE=true", "IS_ADD_ANOMALY=true", "LOOP=50"].map(str::to_owned));
    let memory = Memory::new(&memory.schema, Fault::None, 0, true);
    for mode in ["verificationWriteMode", "verificationQueryMode"] {
        let verification = run_on(&memory, "iot", &in_mode(mode, &settings)).verification;
        assert!(verification.passed, "{mode}: {:#?}", verification.findings);
        assert_eq!(verification.points_found, 6 * 50 * 10 * 12, "{mode}");
    }
}

#[test]
fn a_point_comparison_reads_everything_and_finds_a_changed_text() {
    let write = config_of("iot", BASE);
    let memory = Memory::new(workload::open("iot", &write).expect("a workload").schema(), Fault::None, 0, true);
    assert!(run_on(&memory, "iot", &write).verification.passed);
    let compare = [BASE, &["IS_POINT_COMPARISON=true", "VERIFICATION_STEP_SIZE=4"]].concat();
    let compare = config_of("iot", &compare);
    let result = run_on(&memory, "iot", &compare);
    let checked = &result.verification.answers[2];
    // 300 rows of each device in windows of 4 batches of 10 rows.
    assert_eq!((checked.name.as_str(), checked.checked, checked.wrong), ("DEVICE_QUERY", 6 * 8, 0));
    assert_eq!(result.phases[0].operations[2].ok_points, 6 * 300 * 12);
    assert!(result.verification.passed, "{:#?}", result.verification.findings);
    memory.alter_a_text();
    let verification = run_on(&memory, "iot", &compare).verification;
    assert_eq!((verification.passed, verification.answers[2].wrong, verification.lost), (false, 1, 0));
}

#[test]
fn a_comparison_checks_every_answer() {
    let settings = ["QUERY_COUNT=60", "VERIFY_RATIO=0", "VERIFY_MIN=1"];
    let shares = run_with(Fault::None, usize::MAX, true, &settings).verification.answers;
    assert!(shares[1..].iter().all(|kind| kind.checked < 60), "{shares:?}");
    let all = run_with(Fault::None, usize::MAX, true, &[&settings[..], &["IS_COMPARISON=true"]].concat());
    assert!(all.verification.answers[1..].iter().all(|kind| kind.checked == 60), "{:?}", all.verification.answers);
}
