//! The seeded workload and its checks.

mod rows;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use ::model::{
    ColumnId, ColumnRole, DataType, Error, KeyValue, Lsn, SqlState, TableId, TableName, TableOptions, TimeRange, key,
};
use arrow_array::builder::{BooleanBuilder, Float64Builder, Int64Builder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampNanosecondType};
use arrow_array::{Array, ArrayRef, RecordBatch};
use engine::{
    Batch, ColumnSpec, Committing, Durability, Engine, Isolation, JobState, KeyList, Options, Progress, Rows,
    ScanRequest, SeriesFilter, Snapshot, TableSpec, TableView, Txn,
};
use env::Env;
use env::sim::{Faults, SimEnv};

use crate::model::{
    Cell, Change, Database, Fields, LARGE_SEEDS, Op, RowTable, Table, Write, large_text, of_large_text,
};

const DIR: &str = "/db";
const SESSIONS: usize = 4;
const TABLES: [&str; 4] = ["readings", "events", "wide", EXPIRING];
/// Times in this table are so far apart that retention drops rows during a run.
const EXPIRING: &str = "kept";
const EXPIRING_STEP_NS: i64 = 4_000_000;
/// Number of past commits kept for time travel.
const PAST_MAX: usize = 100;

/// Settings of a run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Driver steps; each starts, continues or checks something.
    pub steps: u32,
    /// Whether to inject disk faults, full disks and power cuts.
    pub faults: bool,
    /// Whether some values are larger than a log record.
    pub large: bool,
}

impl Config {
    /// The settings of a seed in long runs.
    #[must_use]
    pub fn of_seed(seed: u64) -> Config {
        Config { large: seed.is_multiple_of(16), ..Config::default() }
    }
}

impl Default for Config {
    fn default() -> Config {
        Config { steps: 400, faults: true, large: false }
    }
}

/// Statistics of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Transactions committed.
    pub commits: u64,
    /// Commits acknowledged at `sync`.
    pub acknowledged: u64,
    /// Power cuts survived.
    pub crashes: u64,
    /// Restarts without a power cut.
    pub restarts: u64,
    /// Table reads compared with the model.
    pub reads: u64,
    /// Errors that faults and limits explain.
    pub refused: u64,
    /// Simulated time in nanoseconds.
    pub simulated_ns: u64,
    /// I/O calls made.
    pub io_calls: u64,
    /// Statements that changed `rows` tables.
    pub row_statements: u64,
    /// Statements that waited for a lock.
    pub waits: u64,
    /// Sequence values returned.
    pub sequence_values: u64,
    /// Time-travel reads compared with the model.
    pub time_travel_reads: u64,
    /// Times that the retention horizon of a table advanced.
    pub retention_advances: u64,
}

impl Report {
    /// Adds the statistics of another run.
    pub fn add(&mut self, other: &Report) {
        self.commits += other.commits;
        self.acknowledged += other.acknowledged;
        self.crashes += other.crashes;
        self.restarts += other.restarts;
        self.reads += other.reads;
        self.refused += other.refused;
        self.simulated_ns += other.simulated_ns;
        self.io_calls += other.io_calls;
        self.row_statements += other.row_statements;
        self.waits += other.waits;
        self.sequence_values += other.sequence_values;
        self.retention_advances += other.retention_advances;
        self.time_travel_reads += other.time_travel_reads;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} commits ({} acknowledged at sync), {} power cuts and {} restarts survived, {} reads checked, {} refusals, \
             {:.2} h simulated, {} I/O calls, {} statements on rows, {} waits for locks, {} sequence values, \
             {} retention advances, {} time-travel reads",
            self.commits,
            self.acknowledged,
            self.crashes,
            self.restarts,
            self.reads,
            self.refused,
            self.simulated_ns as f64 / 3.6e12,
            self.io_calls,
            self.row_statements,
            self.waits,
            self.sequence_values,
            self.retention_advances,
            self.time_travel_reads
        )
    }
}

/// A small deterministic generator (SplitMix64), so that a seed gives the same workload everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// One client: an open transaction or a commit in progress.
#[derive(Default)]
struct Session {
    /// LSN of its own last commit.
    seen: Lsn,
    work: Work,
}

#[derive(Default)]
enum Work {
    #[default]
    Idle,
    Open {
        txn: Txn,
        changes: Vec<Change>,
        /// From REPEATABLE READ on: the LSN of the first statement.
        fixed: Option<Lsn>,
        isolation: Isolation,
        rows: rows::Session,
    },
    Committing {
        committing: Committing,
        changes: Vec<Change>,
        durability: Durability,
        registered: bool,
    },
}

struct Driver {
    random: Random,
    env: Arc<SimEnv>,
    engine: Option<Engine>,
    sessions: Vec<Session>,
    /// The model after every commit that may still be read; the first is the recovered one.
    history: BTreeMap<Lsn, Database>,
    /// The model after each of the last commits, by commit time, without those that a crash undid.
    past: BTreeMap<i64, (Lsn, Database)>,
    /// Commits up to here must survive any crash.
    promised: Lsn,
    held: VecDeque<(Txn, Snapshot, Database)>,
    /// The last retention horizon of each table; it never moves back.
    kept_from: BTreeMap<TableId, i64>,
    /// The latest time that the wall clock has shown, and the shortest retention of any table.
    latest_ns: i64,
    retention_min_ns: i64,
    /// Last sequence value returned, and last one shown to a client.
    sequence_values: (i64, i64),
    report: Report,
    with_faults: bool,
    with_large: bool,
}

/// Runs one seed and returns its statistics.
///
/// # Panics
/// When a check fails, naming the seed.
pub fn run(seed: u64, config: &Config) -> Report {
    let guard = SeedOnPanic(seed);
    let env = Arc::new(SimEnv::new(seed));
    let mut driver = Driver::new(seed, env, config);
    driver.open();
    for _ in 0..config.steps {
        driver.step();
    }
    driver.env.set_capacity(u64::MAX);
    driver.env.heal();
    driver.power_cut();
    driver.check_everything();
    driver.check_retention();
    std::mem::forget(guard);
    driver.report.simulated_ns = driver.env.monotonic_ns();
    driver.report.io_calls = driver.env.io_calls();
    driver.report
}

/// Makes the `n`-th I/O call of a short workload fail, for every n, and checks the database after
/// each.
///
/// # Panics
/// When a check fails, naming the call.
pub fn nth_io_call_fails(seed: u64, stride: u64, large: bool) -> u64 {
    let config = Config { faults: false, large, ..Config::default() };
    let mut n = 1;
    loop {
        let env = Arc::new(SimEnv::new(seed));
        let mut driver = Driver::new(seed, Arc::clone(&env), &config);
        env.fail_at(n);
        driver.open();
        for _ in 0..200 {
            driver.step();
        }
        let calls = env.io_calls();
        env.heal();
        if driver.random.chance(50) {
            driver.power_cut();
        } else {
            driver.restart();
        }
        driver.check_everything();
        if n > calls {
            return n;
        }
        n += stride;
    }
}

struct SeedOnPanic(u64);

impl Drop for SeedOnPanic {
    fn drop(&mut self) {
        eprintln!("the simulation failed; run it again with SIM_SEED={}", self.0);
    }
}

impl Driver {
    fn new(seed: u64, env: Arc<SimEnv>, config: &Config) -> Driver {
        Driver {
            random: Random(seed ^ 0x5EED),
            env,
            engine: None,
            sessions: (0..SESSIONS).map(|_| Session::default()).collect(),
            history: BTreeMap::from([(Lsn::ZERO, Database::default())]),
            past: BTreeMap::new(),
            promised: Lsn::ZERO,
            held: VecDeque::new(),
            kept_from: BTreeMap::new(),
            latest_ns: 0,
            retention_min_ns: i64::MAX,
            sequence_values: (0, 0),
            report: Report::default(),
            with_faults: config.faults,
            with_large: config.large,
        }
    }

    fn options(&mut self) -> Options {
        let pages = self.random.below(64);
        // With large values, a few of them have room, and compaction ends within a run.
        let (memory, rate) = if self.with_large { (64 << 20, 1 << 20) } else { (1 << 19, 4_096) };
        Options {
            // Small enough that flushes, refusals and rollovers occur within a run.
            memory_bytes: memory << self.random.below(4),
            log_file_bytes: (2 << 20) + 4_096 * pages,
            log_flush_bytes: 1 << 20,
            // Unlimited, or so low that one compaction takes many steps, with other work in
            // between.
            compaction_rate: [0, rate << self.random.below(8)][self.random.below(2) as usize],
            log_compression: pages.is_multiple_of(2),
        }
    }

    /// Opens with the present faults; if a fault prevents that, opens again without faults.
    fn open(&mut self) {
        let options = self.options();
        let env: Arc<dyn Env> = Arc::clone(&self.env) as Arc<dyn Env>;
        let engine = match Engine::open(Arc::clone(&env), Path::new(DIR), options.clone()) {
            Ok((engine, _)) => engine,
            Err(error) => {
                assert!(is_expected_error(&error), "cannot open: {error}");
                self.report.refused += 1;
                self.env.heal();
                self.env.set_capacity(u64::MAX);
                match Engine::open(env, Path::new(DIR), options) {
                    Ok((engine, _)) => engine,
                    Err(error) => panic!("cannot open although nothing fails any more: {error}"),
                }
            }
        };
        self.recovered(&engine);
        self.engine = Some(engine);
    }

    /// After opening: checks that the database equals the model at a commit that includes all
    /// promised ones.
    fn recovered(&mut self, engine: &Engine) {
        let lsn = engine.snapshot(Lsn::ZERO).lsn();
        assert!(lsn >= self.promised, "recovered to {lsn}, but commits up to {} had been promised", self.promised);
        let Some(state) = self.history.get(&lsn).cloned() else {
            panic!("recovered to {lsn}, which is no commit: {:?}", self.history.keys().collect::<Vec<_>>());
        };
        self.history = BTreeMap::from([(lsn, state)]);
        self.past.retain(|_, (of, _)| *of <= lsn);
        self.promised = lsn;
        for session in &mut self.sessions {
            *session = Session { seen: lsn, work: Work::Idle };
        }
        self.held.clear();
        // Values not shown to a client may be returned again.
        self.sequence_values.0 = self.sequence_values.1;
    }

    fn engine(&self) -> Engine {
        self.engine.clone().expect("the engine is open")
    }

    fn step(&mut self) {
        if let Err(error) = self.engine().readiness() {
            assert!(is_expected_error(&error), "the log failed, or a job is broken: {error}");
            self.check_snapshot(Lsn::ZERO);
            self.env.heal();
            if self.random.chance(50) {
                self.restart()
            } else {
                self.power_cut()
            }
            return;
        }
        match self.random.below(100) {
            0..50 => self.drive_session(),
            50..70 => {
                let steps = 1 + self.random.below(8);
                self.env.run_some(steps);
            }
            70..76 => self.check_snapshot(Lsn::ZERO),
            76..78 => self.check_rows(),
            78..80 => self.hold_snapshot(),
            80..82 => self.check_past(),
            82..86 => self.check_held(),
            86..89 => drop(self.engine().start_flush()),
            89..91 => self.env.run_until_idle(),
            91..93 => self.env.advance(self.random.next() % 2_000_000_000),
            93..97 if self.with_faults => self.inject_fault(),
            97 if self.with_faults => self.power_cut(),
            98 if self.with_faults => self.restart(),
            _ => self.drive_session(),
        }
    }

    fn inject_fault(&mut self) {
        match self.random.below(7) {
            0 => {
                let faults = self.faults();
                self.env.set_faults(faults);
            }
            1 => self.env.set_capacity(self.random.below(if self.with_large { 64 << 20 } else { 8 << 20 })),
            2 => {
                let n = self.env.io_calls() + 1 + self.random.below(40);
                self.env.fail_at(n);
            }
            3 => self.env.set_faults(Faults { sync_error: 0.3, ..Faults::default() }),
            4 => {
                self.record_clock();
                self.env.set_clock_ahead(self.random.below(4_000_000_000).cast_signed() - 2_000_000_000);
            }
            _ => {
                self.env.heal();
                self.env.set_capacity(u64::MAX);
            }
        }
    }

    fn faults(&mut self) -> Faults {
        let mut chance = || self.random.below(1 << 16) as f64 / f64::from(1 << 20);
        Faults { read_error: chance(), write_error: chance(), sync_error: chance(), name_error: chance() }
    }

    fn power_cut(&mut self) {
        self.report.crashes += 1;
        // Before the engine is dropped: dropping it closes it, which would make everything durable.
        self.env.crash();
        self.close_everything();
        self.open();
        self.check_everything();
    }

    /// Ends and restarts the process; the operating system keeps running.
    fn restart(&mut self) {
        self.report.restarts += 1;
        if self.random.chance(50) {
            match self.engine().close() {
                Ok(()) => {}
                Err(error) => assert!(is_expected_error(&error), "close: {error}"),
            }
        }
        self.env.kill();
        self.close_everything();
        self.open();
        self.check_everything();
    }

    fn close_everything(&mut self) {
        self.held.clear();
        for session in &mut self.sessions {
            session.work = Work::Idle;
        }
        for job in self.engine.iter().flat_map(|engine| engine.stats().jobs) {
            assert!(job.state != JobState::Broken, "job {} is broken: {:?}", job.name, job.last_error);
        }
        self.engine = None;
    }

    fn drive_session(&mut self) {
        let at = self.random.below(SESSIONS as u64) as usize;
        let work = std::mem::take(&mut self.sessions[at].work);
        self.sessions[at].work = match work {
            Work::Idle => self.begin(at),
            Work::Open { txn, changes, fixed, isolation, rows } => {
                self.continue_transaction(at, txn, changes, fixed, isolation, rows)
            }
            Work::Committing { committing, changes, durability, registered } => {
                self.poll(at, committing, changes, durability, registered)
            }
        };
    }

    fn begin(&mut self, at: usize) -> Work {
        let isolation = match self.random.below(100) {
            0..70 => Isolation::ReadCommitted,
            70..85 => Isolation::RepeatableRead,
            _ => Isolation::Serializable,
        };
        let txn = self.engine().begin(isolation, self.sessions[at].seen);
        Work::Open { txn, changes: Vec::new(), fixed: None, isolation, rows: rows::Session::default() }
    }

    fn continue_transaction(
        &mut self,
        at: usize,
        mut txn: Txn,
        mut changes: Vec<Change>,
        mut fixed: Option<Lsn>,
        isolation: Isolation,
        mut rows: rows::Session,
    ) -> Work {
        match self.random.below(14) {
            0..4 => {
                if let Some(change) = self.change(&mut txn) {
                    changes.push(change);
                }
            }
            4..10 => {
                if !self.row_statement(&mut txn, &mut changes, &mut rows) {
                    self.report.refused += 1;
                    return Work::Idle;
                }
            }
            10 => {
                let newest = self.random.chance(60);
                let snapshot = if newest { txn.snapshot_newest() } else { txn.snapshot() };
                if isolation != Isolation::ReadCommitted {
                    assert_eq!(*fixed.get_or_insert(snapshot.lsn()), snapshot.lsn(), "{isolation:?} moved");
                }
                let mut expected = self.model_at(snapshot.lsn());
                changes.iter().for_each(|change| expected.apply(change));
                // If own DDL conflicts with that of others, the transaction will be refused and
                // sees the last catalog that worked.
                let is_ddl = |change: &Change| {
                    matches!(
                        change,
                        Change::Create { .. }
                            | Change::Drop { .. }
                            | Change::AddColumn
                            | Change::CreateRows { .. }
                            | Change::Sequence
                            | Change::Options
                    )
                };
                let has_ddl = changes.iter().any(is_ddl);
                if !has_ddl {
                    self.compare(&snapshot, &expected);
                }
                if newest && !has_ddl {
                    self.compare_rows(&snapshot, &mut txn, &expected);
                }
            }
            11 if self.random.chance(30) => return Work::Idle,
            _ => {
                let durability = if self.random.chance(70) { Durability::Sync } else { Durability::Async };
                let committing = txn.commit(durability);
                return self.poll(at, committing, changes, durability, false);
            }
        }
        if isolation != Isolation::ReadCommitted && fixed.is_none() {
            fixed = Some(txn.snapshot().lsn());
        }
        Work::Open { txn, changes, fixed, isolation, rows }
    }

    fn poll(
        &mut self,
        at: usize,
        mut committing: Committing,
        changes: Vec<Change>,
        durability: Durability,
        mut registered: bool,
    ) -> Work {
        let progress = committing.poll();
        if let (false, false, Some(lsn)) = (registered, changes.is_empty(), committing.lsn()) {
            let (last, state) = self.history.last_key_value().expect("history is never empty");
            assert!(lsn > *last, "commit {lsn} after {last}");
            let mut state = state.clone();
            changes.iter().for_each(|change| state.apply(change));
            state.row_tables.values().for_each(RowTable::check_unique);
            self.remember(lsn, &state);
            self.history.insert(lsn, state);
            self.report.commits += 1;
            registered = true;
        }
        match progress {
            Ok(Progress::Wait(_)) => Work::Committing { committing, changes, durability, registered },
            Ok(Progress::Done(lsn)) => {
                if registered {
                    self.sessions[at].seen = self.sessions[at].seen.max(lsn);
                    if durability == Durability::Sync {
                        self.promised = self.promised.max(lsn);
                        self.report.acknowledged += 1;
                    }
                    self.check_snapshot(self.sessions[at].seen);
                }
                Work::Idle
            }
            Err(error) => {
                assert!(is_expected_error(&error), "commit: {error}");
                self.report.refused += 1;
                Work::Idle
            }
        }
    }

    /// Makes one random change in the transaction; `None` when it was refused or there was nothing
    /// to change.
    fn change(&mut self, txn: &mut Txn) -> Option<Change> {
        let name = TABLES[self.random.below(TABLES.len() as u64) as usize];
        let snapshot = txn.snapshot();
        let Ok(view) = snapshot.table(&TableName::public(name)) else {
            return self.create(txn, name);
        };
        match self.random.below(40) {
            0 => {
                txn.drop_table(&TableName::public(name)).ok()?;
                Some(Change::Drop { name: name.to_owned() })
            }
            1 => {
                let column = ColumnSpec {
                    name: format!("extra{}", view.state().table.columns.len()),
                    ty: DataType::Int64,
                    nullable: true,
                    role: ColumnRole::Field,
                };
                txn.add_columns(&TableName::public(name), &[column]).ok()?;
                Some(Change::AddColumn)
            }
            2 | 3 if name == EXPIRING => {
                let options = self.table_options(name);
                txn.set_options(&TableName::public(name), options).ok()?;
                Some(Change::Options)
            }
            2..8 => self.delete(txn, &view),
            _ => self.write(txn, &view),
        }
    }

    fn create(&mut self, txn: &mut Txn, name: &str) -> Option<Change> {
        let column =
            |name: &str, ty, role| ColumnSpec { name: name.into(), ty, nullable: role != ColumnRole::Time, role };
        let keyed = name != "events";
        let mut columns = vec![column("time", DataType::Timestamp, ColumnRole::Time)];
        if keyed {
            columns.push(column("dev", DataType::Text, ColumnRole::Key));
            columns.push(column("slot", DataType::Int32, ColumnRole::Key));
        }
        columns.push(column("count", DataType::Int64, ColumnRole::Field));
        columns.push(column("value", DataType::Float64, ColumnRole::Field));
        columns.push(column("state", DataType::Text, ColumnRole::Field));
        columns.push(column("on", DataType::Bool, ColumnRole::Field));
        if name == "wide" {
            columns.extend((0..30).map(|at| column(&format!("f{at}"), DataType::Float64, ColumnRole::Field)));
        }
        let options = self.table_options(name);
        let spec = TableSpec { name: TableName::public(name), keyed, columns, options };
        let table = txn.create_table(&spec).ok()?;
        Some(Change::Create { name: name.to_owned(), id: table.id, keyed })
    }

    fn table_options(&mut self, name: &str) -> TableOptions {
        if name != EXPIRING {
            let history = name == "events" && self.random.chance(50);
            let partition_length = 1_000 << self.random.below(8);
            return TableOptions { partition_length, compression: self.random.chance(75), retention_ns: None, history };
        }
        // Some seconds after 1970, where the rows are.
        let retention = self.env.now_ns() - self.random.below(10_000_000_000).cast_signed();
        self.retention_min_ns = self.retention_min_ns.min(retention);
        TableOptions {
            partition_length: EXPIRING_STEP_NS * (250 << self.random.below(5)),
            compression: true,
            retention_ns: self.random.chance(80).then_some(retention),
            history: self.random.chance(70),
        }
    }

    fn write(&mut self, txn: &mut Txn, view: &TableView) -> Option<Change> {
        let table = Arc::clone(&view.state().table);
        let fields: Vec<(ColumnId, DataType)> = table.field_columns().map(|column| (column.id, column.ty)).collect();
        let op = match self.random.below(if table.keyed { 8 } else { 1 }) {
            0..3 => Op::Replace,
            3..6 => Op::Merge,
            6 => Op::Keep,
            _ => Op::Update(fields.iter().take(2).map(|(id, _)| *id).collect()),
        };
        let count = if self.random.chance(5) { 300 } else { 1 + self.random.below(12) };
        let base = self.random.below(5_000) as i64;
        let rows: Vec<Write> = (0..count)
            .map(|row| Write {
                key: if table.keyed { self.key() } else { Vec::new() },
                time: step_ns(&table) * (base + (row * self.random.below(3)) as i64),
                fields: self.fields(&fields),
            })
            .collect();
        let batch = batch(&rows, &op, &fields, &table);
        match txn.write(table.id, batch) {
            Ok(()) => Some(Change::Rows { table: table.id, op, rows }),
            Err(error) => {
                assert!(is_expected_error(&error), "write: {error}");
                None
            }
        }
    }

    fn key(&mut self) -> Vec<u8> {
        let dev = match self.random.below(12) {
            0 => KeyValue::Null,
            1 => KeyValue::Text(String::new()),
            other => KeyValue::Text(format!("d{other}")),
        };
        let slot = if self.random.chance(70) { KeyValue::Null } else { KeyValue::Int(self.random.below(3) as i64) };
        key::encode(&[dev, slot])
    }

    fn fields(&mut self, columns: &[(ColumnId, DataType)]) -> Fields {
        let mut fields = Fields::new();
        for (id, ty) in columns {
            if self.random.chance(25) {
                continue;
            }
            let random = self.random.next();
            let cell = match ty {
                DataType::Int64 => {
                    Cell::Int(if random.is_multiple_of(50) { random.cast_signed() } else { (random % 1000) as i64 })
                }
                DataType::Float64 if random.is_multiple_of(60) => Cell::Float(random | 0x7ff0_0000_0000_0000),
                DataType::Float64 => Cell::Float(((random % 100_000) as f64 / 100.0).to_bits()),
                DataType::Bool => Cell::Bool(random.is_multiple_of(2)),
                DataType::Text if self.with_large && random.is_multiple_of(64) => large_cell(random),
                _ => Cell::Text(["on", "off", "", "a longer text, ü"][(random % 4) as usize].to_owned()),
            };
            fields.insert(*id, cell);
        }
        fields
    }

    fn delete(&mut self, txn: &mut Txn, view: &TableView) -> Option<Change> {
        let table = &view.state().table;
        let first = step_ns(table) * self.random.below(5_000) as i64;
        let last = first + step_ns(table) * self.random.below(3_000) as i64;
        let count = view.series_count();
        let sequence_values: Option<Vec<u32>> =
            (table.keyed && self.random.chance(60)).then(|| (0..count).filter(|_| self.random.chance(30)).collect());
        if sequence_values.as_ref().is_some_and(Vec::is_empty) {
            return None;
        }
        let keys = sequence_values.as_ref().map(|sequence_values| {
            view.keys_of(sequence_values).expect("keys of numbers").iter().map(<[u8]>::to_vec).collect()
        });
        txn.delete(view, sequence_values.as_deref(), TimeRange { start: first, last }).ok()?;
        Some(Change::Delete { table: table.id, keys, first, last })
    }

    fn model_at(&self, lsn: Lsn) -> Database {
        self.history
            .range(..=lsn)
            .next_back()
            .map(|(_, state)| state.clone())
            .expect("history covers every visible LSN")
    }

    /// Compares a new snapshot with the model. It shows only durable commits, which must survive
    /// from now on.
    fn check_snapshot(&mut self, seen: Lsn) {
        let snapshot = self.engine().snapshot(seen);
        if seen == Lsn::ZERO {
            self.promised = self.promised.max(snapshot.lsn());
        }
        let expected = self.model_at(snapshot.lsn());
        self.compare(&snapshot, &expected);
        // A snapshot with non-durable commits may be ahead of others.
        if seen == Lsn::ZERO {
            self.check_retention_horizons(&snapshot);
        }
    }

    fn record_clock(&mut self) {
        self.latest_ns = self.latest_ns.max(self.env.now_ns());
    }

    /// Checks that retention horizons never move back, and never beyond the shortest retention by
    /// any clock.
    fn check_retention_horizons(&mut self, snapshot: &Snapshot) {
        self.record_clock();
        for table in snapshot.catalog().tables() {
            let view = snapshot.table_by_id(table.id).expect("the table is there");
            let kept_from = view.state().kept_from;
            let before = self.kept_from.insert(table.id, kept_from).unwrap_or(i64::MIN);
            assert!(kept_from >= before, "table {}: rows before {before} are back", table.name);
            if kept_from > before {
                self.report.retention_advances += 1;
                assert!(kept_from <= self.latest_ns - self.retention_min_ns, "{kept_from} is too young");
            }
        }
    }

    /// Without faults, all due partitions are dropped.
    fn check_retention(&mut self) {
        self.engine().flush().expect("nothing fails any more");
        for _ in 0..2 {
            self.env.advance(10_000_000_000);
            self.env.run_until_idle();
        }
        let now = self.env.now_ns() - 10_000_000_000;
        let snapshot = self.engine().snapshot(Lsn::ZERO);
        for table in snapshot.catalog().tables() {
            let view = snapshot.table_by_id(table.id).expect("the table is there");
            let due = view.state().due_retention(now);
            assert_eq!(due, None, "table {} at {now} still keeps rows from {}", table.name, view.state().kept_from);
        }
        self.check_snapshot(Lsn::ZERO);
    }

    fn remember(&mut self, lsn: Lsn, state: &Database) {
        let snapshot = self.engine().snapshot(lsn);
        assert_eq!(snapshot.lsn(), lsn, "a session sees its own commit");
        let committed = snapshot.committed();
        assert!(self.past.last_key_value().is_none_or(|(last, _)| *last < committed), "times of commits go back");
        self.past.insert(committed, (lsn, state.clone()));
        if self.past.len() > PAST_MAX {
            self.past.pop_first();
        }
    }

    /// Compares tables with history as of a time between a commit and the next.
    fn check_past(&mut self) {
        let snapshot = self.engine().snapshot(Lsn::ZERO);
        self.promised = self.promised.max(snapshot.lsn());
        let times: Vec<i64> = self.past.range(..=snapshot.committed()).map(|(time, _)| *time).collect();
        if times.is_empty() {
            return;
        }
        for table in snapshot.catalog().tables().filter(|table| table.options.history) {
            let at = self.random.below(times.len() as u64) as usize;
            let next = times.get(at + 1).map_or(i64::MAX, |next| *next);
            let time = times[at] + (self.random.below(2_000_000_000).cast_signed()).min(next - times[at] - 1);
            let history_from = snapshot.table_by_id(table.id).expect("the table is there").state().history_from;
            let view = match snapshot.table_as_of(table.id, time) {
                Ok(view) => view,
                Err(error) => {
                    assert!(time < history_from, "table {} as of {time}: {error}", table.name);
                    continue;
                }
            };
            assert!(time >= history_from, "table {} as of {time}, before {history_from}", table.name);
            // Before the history started, the table may not have existed.
            if let Some(expected) = self.past[&times[at]].1.tables.get(&table.id).cloned() {
                self.compare_table(&view, &expected, &format!("as of {time}"));
                self.report.time_travel_reads += 1;
            }
        }
    }

    fn hold_snapshot(&mut self) {
        let mut txn = self.engine().begin(Isolation::RepeatableRead, Lsn::ZERO);
        let snapshot = txn.snapshot_newest();
        let expected = self.model_at(snapshot.lsn());
        self.held.push_back((txn, snapshot, expected));
        if self.held.len() > 4 {
            self.held.pop_front();
        }
    }

    fn check_held(&mut self) {
        for (mut txn, snapshot, expected) in std::mem::take(&mut self.held) {
            self.compare(&snapshot, &expected);
            self.compare_rows(&snapshot, &mut txn, &expected);
            self.held.push_back((txn, snapshot, expected));
        }
    }

    fn check_everything(&mut self) {
        self.check_snapshot(Lsn::ZERO);
        self.check_rows();
        self.check_held();
        self.check_past();
    }

    fn compare(&mut self, snapshot: &Snapshot, expected: &Database) {
        let names: Vec<String> = snapshot.catalog().tables().map(|table| table.name.table.clone()).collect();
        let mut expected_names: Vec<_> = expected.tables.values().map(|table| table.name.clone()).collect();
        expected_names.sort();
        assert_eq!(names, expected_names, "tables at {}", snapshot.lsn());
        for (id, table) in &expected.tables {
            let view = snapshot.table_by_id(*id).expect("the table is there");
            self.compare_table(&view, table, &format!("at {}", snapshot.lsn()));
        }
    }

    fn compare_table(&mut self, view: &TableView, table: &Table, when: &str) {
        self.report.reads += 1;
        let keep = self.random_scan(view);
        let got = match read(view, &keep) {
            Ok(got) => got,
            Err(error) => {
                assert!(is_expected_error(&error), "read: {error}");
                return;
            }
        };
        let kept_from = view.state().kept_from;
        let mut wanted: Vec<_> = table
            .contents()
            .into_iter()
            .filter(|(_, time, _)| keep.times.contains(*time) && *time >= kept_from)
            .map(|(key, time, fields)| {
                let fields = fields.into_iter().filter(|(id, _)| keep.columns.contains(id)).collect::<Fields>();
                (key, time, fields)
            })
            .collect();
        wanted.sort();
        assert_eq!(got, wanted, "table {} {when} through {keep:?}", table.name);
    }

    /// A random projection and time range; often everything.
    fn random_scan(&mut self, view: &TableView) -> ScanRange {
        let all: Vec<ColumnId> = view.state().table.field_columns().map(|column| column.id).collect();
        if self.random.chance(50) {
            return ScanRange { columns: all, times: TimeRange::ALL };
        }
        let step = step_ns(&view.state().table);
        let start = step * self.random.below(5_000) as i64;
        let columns = all.into_iter().filter(|_| self.random.chance(40)).collect();
        ScanRange { columns, times: TimeRange { start, last: start + step * self.random.below(2_000) as i64 } }
    }
}

/// Distance between the times of a table's rows, in nanoseconds.
fn step_ns(table: &::model::Table) -> i64 {
    if table.name.table == EXPIRING { EXPIRING_STEP_NS } else { 1 }
}

#[derive(Debug)]
struct ScanRange {
    columns: Vec<ColumnId>,
    times: TimeRange,
}

/// Whether faults and limits explain the error; otherwise it is a bug.
fn is_expected_error(error: &Error) -> bool {
    [
        SqlState::IO_ERROR,
        SqlState::DISK_FULL,
        SqlState::OUT_OF_MEMORY,
        SqlState::SERIALIZATION_FAILURE,
        SqlState::DEADLOCK_DETECTED,
        SqlState::DUPLICATE_TABLE,
        SqlState::UNDEFINED_TABLE,
        SqlState::ADMIN_SHUTDOWN,
    ]
    .contains(&error.state())
}

fn batch(rows: &[Write], op: &Op, fields: &[(ColumnId, DataType)], table: &::model::Table) -> Batch {
    let mut keys = KeyList::new();
    let series = rows.iter().map(|row| keys.intern(&row.key)).collect();
    let times = rows.iter().map(|row| row.time).collect();
    let columns = fields.iter().map(|(id, ty)| (*id, column(rows, *id, *ty))).collect();
    let op = match op {
        Op::Replace => engine::Op::Replace,
        Op::Merge => engine::Op::Merge,
        Op::Keep => engine::Op::Keep,
        Op::Update(columns) => engine::Op::Update(Arc::clone(columns)),
    };
    debug_assert!(table.keyed || rows.iter().all(|row| row.key.is_empty()));
    Batch::new(keys, Rows::new(series, times, engine::Ops::All(op), columns))
}

fn column(rows: &[Write], id: ColumnId, ty: DataType) -> ArrayRef {
    let cells = rows.iter().map(|row| row.fields.get(&id));
    match ty {
        DataType::Int64 => {
            let mut builder = Int64Builder::new();
            cells.for_each(|cell| {
                builder.append_option(cell.map(|cell| match cell {
                    Cell::Int(value) => *value,
                    _ => 0,
                }))
            });
            Arc::new(builder.finish())
        }
        DataType::Float64 => {
            let mut builder = Float64Builder::new();
            cells.for_each(|cell| {
                builder.append_option(cell.map(|cell| match cell {
                    Cell::Float(bits) => f64::from_bits(*bits),
                    _ => 0.0,
                }));
            });
            Arc::new(builder.finish())
        }
        DataType::Bool => {
            let mut builder = BooleanBuilder::new();
            cells.for_each(|cell| builder.append_option(cell.map(|cell| matches!(cell, Cell::Bool(true)))));
            Arc::new(builder.finish())
        }
        _ => {
            let mut builder = StringBuilder::new();
            for cell in cells {
                match cell {
                    Some(Cell::Large(bytes, seed)) => builder.append_value(large_text(*bytes, *seed)),
                    Some(Cell::Text(text)) => builder.append_value(text),
                    Some(_) => builder.append_value(""),
                    None => builder.append_null(),
                }
            }
            Arc::new(builder.finish())
        }
    }
}

type Contents = Vec<(Vec<u8>, i64, Fields)>;

fn read(view: &TableView, random_scan: &ScanRange) -> ::model::Result<Contents> {
    let table = Arc::clone(&view.state().table);
    let mut columns: Vec<ColumnId> = table.key_columns().map(|column| column.id).collect();
    let keys = columns.len();
    columns.push(table.time_column().id);
    columns.extend(&random_scan.columns);
    let request = ScanRequest {
        columns,
        times: random_scan.times,
        series: SeriesFilter::All,
        ranges: Vec::new(),
        batch_rows: 100,
        limit: None,
        coded: false,
        columns_only: false,
    };
    let mut contents = Contents::new();
    for batch in view.scan(request)? {
        append(&batch?, keys, &random_scan.columns, &mut contents);
    }
    contents.sort();
    Ok(contents)
}

fn append(batch: &RecordBatch, keys: usize, fields: &[ColumnId], contents: &mut Contents) {
    for row in 0..batch.num_rows() {
        let key: Vec<KeyValue> = (0..keys).map(|at| key_value(batch.column(at), row)).collect();
        let time = batch.column(keys).as_primitive::<TimestampNanosecondType>().value(row);
        let cells = fields
            .iter()
            .enumerate()
            .filter_map(|(at, id)| Some((*id, cell(batch.column(keys + 1 + at), row)?)))
            .collect();
        contents.push((key::encode(&key), time, cells));
    }
}

fn key_value(array: &ArrayRef, row: usize) -> KeyValue {
    if array.is_null(row) {
        return KeyValue::Null;
    }
    match array.as_string_opt::<i32>() {
        Some(text) => KeyValue::Text(text.value(row).to_owned()),
        None => KeyValue::Int(i64::from(array.as_primitive::<arrow_array::types::Int32Type>().value(row))),
    }
}

fn cell(array: &ArrayRef, row: usize) -> Option<Cell> {
    if array.is_null(row) {
        return None;
    }
    if let Some(values) = array.as_primitive_opt::<Int64Type>() {
        return Some(Cell::Int(values.value(row)));
    }
    if let Some(values) = array.as_primitive_opt::<Float64Type>() {
        return Some(Cell::Float(values.value(row).to_bits()));
    }
    if let Some(values) = array.as_boolean_opt() {
        return Some(Cell::Bool(values.value(row)));
    }
    let text = array.as_string::<i32>().value(row);
    Some(match of_large_text(text) {
        Some((bytes, seed)) => Cell::Large(bytes, seed),
        None => Cell::Text(text.to_owned()),
    })
}

/// A text of up to a few log records.
fn large_cell(random: u64) -> Cell {
    let bytes = [300_000, (1 << 20) - 100, 1 << 20, 2_500_000][((random >> 8) % 4) as usize];
    Cell::Large(bytes + (random >> 16) as u32 % 100, ((random >> 32) % u64::from(LARGE_SEEDS)) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledged_writes_survive_any_crash() {
        let seed = std::env::var("SIM_SEED").ok().and_then(|seed| seed.parse().ok());
        let seeds = seed.map_or(1..60, |seed| seed..seed + 1);
        let mut total = Report::default();
        for seed in seeds {
            total.add(&run(seed, &Config::default()));
        }
        println!("{total}");
        assert!(seed.is_some() || (total.commits > 500 && total.crashes > 50 && total.reads > 1_000), "{total}");
        assert!(seed.is_some() || (total.retention_advances > 50 && total.time_travel_reads > 300), "{total}");
    }

    #[test]
    fn no_failing_io_call_loses_data() {
        let calls = nth_io_call_fails(7, 1, false);
        assert!(calls > 50, "only {calls} I/O calls were made");
    }

    #[test]
    fn acknowledged_values_larger_than_a_log_record_survive_any_crash() {
        let seed = std::env::var("SIM_SEED").ok().and_then(|seed| seed.parse().ok());
        let mut total = Report::default();
        for seed in seed.map_or(100..108, |seed| seed..seed + 1) {
            total.add(&run(seed, &Config { large: true, ..Config::default() }));
        }
        println!("{total}");
        assert!(seed.is_some() || (total.commits > 50 && total.crashes > 8), "{total}");
    }

    #[test]
    fn no_failing_io_call_loses_a_value_larger_than_a_log_record() {
        let calls = nth_io_call_fails(9, 13, true);
        assert!(calls > 50, "only {calls} I/O calls were made");
    }

    #[test]
    fn a_seed_replays_to_the_same_run() {
        let (first, second) = (run(3, &Config::default()), run(3, &Config::default()));
        assert_eq!(format!("{first:?}"), format!("{second:?}"));
    }

    #[test]
    fn without_faults_only_conflicts_are_refused() {
        let report = run(11, &Config { steps: 300, faults: false, large: false });
        assert!(report.commits > 10, "{report}");
    }
}
