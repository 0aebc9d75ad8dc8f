//! Loads small rows over many connections: the ingestion test that MogDB publishes for MOT (500
//! connections, ten rows in each INSERT, rows of 200 bytes), with prepared multi-row INSERTs.
//!
//! A row has `id bigint` (the key), `batch integer`, `amount bigint` (a pure function of the id)
//! and `payload varchar(180)`: 200 bytes. Each INSERT is a transaction. Afterwards, count and sums
//! are compared with the acknowledged rows.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::check::integers;
use super::load::bar;
use super::random::Random;
use super::report::{ErrorCount, Subject};
use super::session::{Admin, Connector, Session, Value};
use super::{Isolation, Product, schema, server_options, subject};
use crate::drivers::Target;
use crate::engine::recorder::{Recorder, Sample};
use crate::error::{Error, Result};
use crate::generate;
use crate::measure::proc;
use crate::measure::sampler::Sampler;
use crate::report::format::{bytes, milliseconds, seconds, short, whole};
use crate::result::{Latency, Machine};
use crate::run::target_server::{TargetServer, TargetServerOptions};
use crate::run::{INTERRUPTED, Show};
use crate::workload::OperationKind;

/// Characters of the payload: 200 bytes for each row, together with the three numbers.
pub(super) const PAYLOAD: i32 = 180;
/// Number of different payloads, generated in advance so that rows cost the client no generation
/// time.
pub(super) const PAYLOADS: usize = 4096;
/// Bytes of a row's values: `bigint`, `integer`, `bigint` and the payload.
pub(super) const ROW_BYTES: u64 = 8 + 4 + 8 + PAYLOAD as u64;
const KINDS: [OperationKind; 1] =
    [OperationKind { name: "INSERT", stored_name: "INSERT", title: "rows of one statement" }];
/// Upper limit because of the protocols' limits on parameters.
const ROWS_PER_INSERT_MAX: usize = 10_000;
const COLUMNS: usize = 4;
const STACK_BYTES: usize = 512 << 10;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// Options of a run.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) connections: usize,
    pub(crate) rows: u64,
    pub(crate) rows_per_insert: usize,
    pub(crate) keep: bool,
    pub(crate) seed: u64,
    pub(crate) placing: TargetServerOptions,
    pub(crate) command: Vec<String>,
}

/// Result for one target.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) tool: String,
    pub(crate) command: Vec<String>,
    pub(crate) started: String,
    pub(crate) machine: Machine,
    pub(crate) target: Subject,
    pub(crate) connections: usize,
    pub(crate) rows_per_insert: usize,
    pub(crate) row_bytes: usize,
    /// Number of acknowledged rows.
    pub(crate) rows: u64,
    pub(crate) seconds: f64,
    pub(crate) rows_per_s: f64,
    pub(crate) server_cpu_s: Option<f64>,
    pub(crate) rows_per_server_cpu_s: Option<f64>,
    pub(crate) client_cpu_s: f64,
    pub(crate) data_bytes: Option<u64>,
    pub(crate) latency_ms: Latency,
    pub(crate) histogram: String,
    pub(crate) errors: Vec<ErrorCount>,
    /// Rows whose INSERT failed with an unknown outcome.
    pub(crate) unknown: u64,
    pub(crate) found: u64,
    /// Contradictions between the table and the acknowledgements.
    pub(crate) findings: Vec<String>,
}

/// Value of a row's column `amount`.
pub(super) fn amount(seed: u64, id: i64) -> i64 {
    generate::below(generate::at(seed, 0x20AD, id as u64, 0), 1_000_000) as i64
}

/// Loads the rows and checks that they are stored.
///
/// # Errors
/// The run could not start or continue. Failed INSERTs and missing rows are not errors: they are in
/// the report.
pub(crate) fn run(settings: &Settings, target: &Target, show: &mut dyn Show) -> Result<Report> {
    if !(1..=ROWS_PER_INSERT_MAX).contains(&settings.rows_per_insert) || settings.connections == 0 {
        return Err(Error::setup(format!(
            "--rows-per-insert {} with --connections {}: expected 1 to {ROWS_PER_INSERT_MAX}, and a connection",
            settings.rows_per_insert, settings.connections
        )));
    }
    let product = Product::of(target)?;
    target.only(&[])?;
    show.stage(&format!("{}: starting", product.name()));
    let target_server =
        TargetServer::open(target, &server_options(product, &settings.placing, settings.connections), 0)?;
    let connector = Connector {
        product,
        target: target_server.target.clone(),
        isolation: Isolation::ReadCommitted,
        timeout: ANSWER_TIMEOUT,
    };
    let mut report = Report {
        tool: format!("millrace bench {}", env!("CARGO_PKG_VERSION")),
        command: settings.command.clone(),
        started: jiff::Zoned::now().strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        machine: proc::machine(),
        target: subject(&connector, &target_server)?,
        connections: settings.connections,
        rows_per_insert: settings.rows_per_insert,
        row_bytes: ROW_BYTES as usize,
        ..Report::default()
    };
    let mut admin = Admin::connect(&connector, false)?;
    admin.run(&schema::clear(product))?;
    let columns = format!("id bigint PRIMARY KEY, batch integer, amount bigint, payload varchar({PAYLOAD})");
    admin.query(&format!("CREATE TABLE rowload ({columns})"))?;
    let sums = insert(settings, &connector, &target_server, &mut report, show)?;
    show.stage(&format!("{}: counting", product.name()));
    verify(settings.seed, sums, &mut admin, &mut report)?;
    if !report.passed() {
        // A run with wrong results has no figures.
        report = Report { rows_per_s: 0.0, rows_per_server_cpu_s: None, latency_ms: Latency::default(), ..report };
        report.histogram.clear();
    }
    if !settings.keep && target_server.server.is_none() {
        admin.query(&schema::clear(product)[0])?;
    }
    Ok(report)
}

/// State shared by the connections.
struct Shared<'a> {
    settings: &'a Settings,
    connector: &'a Connector,
    payloads: Vec<String>,
    recorder: Recorder,
    /// First row that no connection has claimed.
    next: AtomicU64,
    acknowledged: AtomicU64,
    unknown: AtomicU64,
    /// Sums over the acknowledged rows.
    ids: AtomicU64,
    amounts: AtomicU64,
    working: AtomicUsize,
    errors: Mutex<Vec<ErrorCount>>,
}

/// Sums over the acknowledged rows.
struct Sums {
    ids: i64,
    amounts: i64,
}

/// Inserts all rows.
fn insert(
    settings: &Settings,
    connector: &Connector,
    target_server: &TargetServer,
    report: &mut Report,
    show: &mut dyn Show,
) -> Result<Sums> {
    show.stage(&format!("{}: connecting {} clients", connector.product.name(), settings.connections));
    let mut sessions = Vec::with_capacity(settings.connections);
    for _ in 0..settings.connections {
        let mut session = Session::new(connector)?;
        session.connect()?;
        sessions.push(session);
    }
    let start = Instant::now();
    let shared = Shared {
        settings,
        connector,
        payloads: payloads(settings.seed),
        recorder: Recorder::new(start, 0),
        next: AtomicU64::new(0),
        acknowledged: AtomicU64::new(0),
        unknown: AtomicU64::new(0),
        ids: AtomicU64::new(0),
        amounts: AtomicU64::new(0),
        working: AtomicUsize::new(settings.connections),
        errors: Mutex::default(),
    };
    let sampler = Sampler::start(&target_server.pids, &target_server.dirs, start);
    let before = sampler.now();
    let began = Instant::now();
    std::thread::scope(|scope| -> Result<()> {
        for mut session in sessions {
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
            let shared = &shared;
            let spawned = thread.spawn_scoped(scope, move || {
                shared.work(&mut session);
                shared.working.fetch_sub(1, Ordering::Relaxed);
            });
            spawned.map_err(|error| Error::setup(format!("a thread for a connection: {error}")))?;
        }
        while shared.working.load(Ordering::Relaxed) > 0 {
            std::thread::sleep(Duration::from_millis(10));
            show.live(&|| shared.progress(began));
        }
        Ok(())
    })?;
    report.seconds = began.elapsed().as_secs_f64();
    let after = sampler.now();
    drop(sampler.stop());
    report.server_cpu_s = after.server_cpu_s.zip(before.server_cpu_s).map(|(after, before)| after - before);
    report.client_cpu_s = after.client_cpu_s - before.client_cpu_s;
    report.data_bytes = after.data_bytes;
    report.rows = shared.acknowledged.load(Ordering::Relaxed);
    report.unknown = shared.unknown.load(Ordering::Relaxed);
    report.rows_per_s = report.rows as f64 / report.seconds.max(1e-9);
    report.rows_per_server_cpu_s = report.server_cpu_s.filter(|cpu| *cpu > 0.0).map(|cpu| report.rows as f64 / cpu);
    let sums = Sums { ids: shared.ids.into_inner() as i64, amounts: shared.amounts.into_inner() as i64 };
    let recorded = shared.recorder.finish(&KINDS);
    report.latency_ms = recorded.operations[0].latency_ms.clone();
    report.histogram.clone_from(&recorded.operations[0].histogram);
    report.errors = shared.errors.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(sums)
}

/// Payload texts; a row uses the one at its id modulo their number.
pub(super) fn payloads(seed: u64) -> Vec<String> {
    let mut random = Random::new(seed, 0x20AD, 1);
    let payload = |_| {
        let mut bytes = Vec::new();
        random.letters(PAYLOAD, PAYLOAD, &mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    };
    (0..PAYLOADS).map(payload).collect()
}

impl Shared<'_> {
    fn work(&self, session: &mut Session) {
        let per_insert = self.settings.rows_per_insert as u64;
        loop {
            let first = self.next.fetch_add(per_insert, Ordering::Relaxed);
            if first >= self.settings.rows || INTERRUPTED.load(Ordering::Relaxed) {
                return;
            }
            let ids = first..(first + per_insert).min(self.settings.rows);
            let count = ids.end - ids.start;
            let began = Instant::now();
            let outcome = self.one(session, ids.clone());
            let ended = Instant::now();
            let latency = ended - began;
            let sample =
                Sample { kind: 0, ended, latency, service: latency, points: count, ok: outcome.is_ok(), warmup: false };
            self.recorder.take(&mut vec![sample]);
            match outcome {
                Ok(()) => {
                    self.acknowledged.fetch_add(count, Ordering::Relaxed);
                    let amounts: i64 = ids.clone().map(|id| amount(self.settings.seed, id as i64)).sum();
                    self.ids.fetch_add(ids.sum::<u64>(), Ordering::Relaxed);
                    self.amounts.fetch_add(amounts as u64, Ordering::Relaxed);
                }
                Err(error) if !self.failed(session, &error, count) => return,
                Err(_) => {}
            }
        }
    }

    /// Inserts and commits the rows `ids` with one statement.
    fn one(&self, session: &mut Session, ids: std::ops::Range<u64>) -> Result<()> {
        let count = (ids.end - ids.start) as usize;
        let batch = ids.start / self.settings.rows_per_insert as u64;
        let mut values = Vec::with_capacity(COLUMNS * count);
        for id in ids {
            values.push(Value::Bigint(id as i64));
            values.push(Value::Int(batch as i32));
            values.push(Value::Bigint(amount(self.settings.seed, id as i64)));
            values.push(Value::Text(&self.payloads[id as usize % PAYLOADS]));
        }
        // The last INSERT may be shorter: statements are numbered by their length.
        session.add_prepared(count, &|| text(count), &values)?;
        if self.connector.product == Product::MariaDb {
            // MariaDB starts transactions implicitly; COMMIT is part of the same round trip.
            session.add_end(super::statements::Statement::Commit)?;
        }
        session.trip()?;
        match session.affected(0) {
            rows if rows == count as u64 => Ok(()),
            rows => Err(Error::protocol(format!("an INSERT of {count} rows: the server reports {rows}"))),
        }
    }

    /// Counts a failure; returns false if the connection must give up.
    fn failed(&self, session: &mut Session, error: &Error, rows: u64) -> bool {
        let state =
            if session.has_server_error() { session.sqlstate().to_owned() } else { error.class.name().to_owned() };
        if error.class.outcome_unknown() {
            self.unknown.fetch_add(rows, Ordering::Relaxed);
        }
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        match errors.iter_mut().find(|known| known.sqlstate == state) {
            Some(known) => known.count += 1,
            None => errors.push(ErrorCount {
                kind: "INSERT".into(),
                sqlstate: state,
                count: 1,
                first: error.message.clone(),
            }),
        }
        let failed: u64 = errors.iter().map(|error| error.count).sum();
        drop(errors);
        if session.is_connected() {
            // If the rollback fails, so does the next statement.
            let _ = session.rollback();
        }
        failed < 1000
    }

    fn progress(&self, began: Instant) -> String {
        let rows = self.acknowledged.load(Ordering::Relaxed);
        let rate = rows as f64 / began.elapsed().as_secs_f64().max(0.001);
        let share = rows as f64 / self.settings.rows.max(1) as f64;
        format!(
            "{} connections: {} {} rows, {} rows/s",
            self.settings.connections,
            bar(share),
            short(rows as f64),
            short(rate)
        )
    }
}

/// Text of an INSERT with this number of rows.
fn text(rows: usize) -> String {
    let row = |n: usize| {
        let at = n * COLUMNS;
        format!("(${}, ${}, ${}, ${})", at + 1, at + 2, at + 3, at + 4)
    };
    format!(
        "INSERT INTO rowload (id, batch, amount, payload) VALUES {}",
        (0..rows).map(row).collect::<Vec<_>>().join(", ")
    )
}

/// Compares count and sums of the table with the acknowledged rows.
fn verify(seed: u64, sums: Sums, admin: &mut Admin, report: &mut Report) -> Result<()> {
    let rows = admin.query(
        "SELECT count(*), coalesce(sum(id), 0), coalesce(sum(amount), 0), coalesce(sum(length(payload)), 0) FROM rowload",
    )?;
    let [found, ids, amounts, characters] = integers(rows.first().map_or(&[][..], Vec::as_slice))?;
    report.found = found as u64;
    let (rows, unknown) = (report.rows, report.unknown);
    let mut findings = Vec::new();
    if report.found < rows {
        findings.push(format!("{} rows are LOST", rows - report.found));
    }
    if report.found > rows + unknown {
        findings.push(format!("{} rows were never acknowledged", report.found - rows - unknown));
    }
    if unknown == 0 && (ids, amounts) != (sums.ids, sums.amounts) {
        let Sums { ids: id, amounts: amount } = sums;
        findings.push(format!("sums of id and amount are {ids} and {amounts}, expected {id} and {amount}"));
    }
    if characters != found * i64::from(PAYLOAD) {
        findings.push(format!("payloads have {characters} characters in all, expected {PAYLOAD} a row"));
    }
    // Read two rows by key.
    for id in [0, rows / 2].into_iter().filter(|_| rows > 0 && unknown == 0 && report.errors.is_empty()) {
        let row = admin.query(&format!("SELECT amount FROM rowload WHERE id = {id}"))?;
        let (seen, expected) = (row.into_iter().flatten().flatten().next(), amount(seed, id as i64).to_string());
        if seen.as_deref() != Some(expected.as_str()) {
            findings.push(format!("row {id}: amount is {seen:?}, expected {expected}"));
        }
    }
    report.findings = findings;
    Ok(())
}

impl Report {
    /// Returns whether the table agrees with the acknowledgements.
    pub(crate) fn passed(&self) -> bool {
        self.findings.is_empty()
    }

    /// Renders the report for a terminal, without rates if rows are missing.
    pub(crate) fn text(&self) -> String {
        let mut lines = vec![
            String::new(),
            format!("{} {}: rows of {} bytes", self.target.product, self.target.version, self.row_bytes),
            format!("durability: {}", self.target.durability),
            format!(
                "{} connections, {} rows an insert, each insert a transaction",
                self.connections, self.rows_per_insert
            ),
            format!(
                "verification: {}: {} rows acknowledged, {} found{}",
                if self.passed() { "PASSED" } else { "FAILED" },
                whole(self.rows),
                whole(self.found),
                if self.unknown > 0 { format!(", {} of unknown outcome", whole(self.unknown)) } else { String::new() },
            ),
        ];
        lines.extend(self.findings.iter().map(|finding| format!("  {finding}")));
        if self.passed() {
            let cores = |cpu_s: f64| cpu_s / self.seconds.max(1e-9);
            lines.push(format!("{} rows/s for {}", whole(self.rows_per_s as u64), seconds(self.seconds)));
            match (self.server_cpu_s, self.rows_per_server_cpu_s) {
                (Some(cpu_s), Some(rate)) => lines.push(format!(
                    "server CPU: {:.2} of {} cores; {} rows for each second of it",
                    cores(cpu_s),
                    self.machine.cpus,
                    whole(rate as u64)
                )),
                _ => lines.push("server CPU: unknown (name the server's processes with --server-pid)".to_owned()),
            }
            lines.push(format!("client CPU: {:.2} of {} cores", cores(self.client_cpu_s), self.machine.cpus));
            let latency = &self.latency_ms;
            lines.push(format!(
                "insert: p50 {}, p90 {}, p99 {}, max {}",
                milliseconds(latency.median),
                milliseconds(latency.p90),
                milliseconds(latency.p99),
                milliseconds(latency.max)
            ));
            lines.extend(self.data_bytes.map(|size| format!("data directory: {}", bytes(size as f64))));
        }
        for error in &self.errors {
            lines.push(format!("error: {} {} x: {}", error.sqlstate, whole(error.count), error.first));
        }
        lines.join("\n") + "\n"
    }
}
