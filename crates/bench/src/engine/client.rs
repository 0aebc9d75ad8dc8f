//! A client: a thread with its own connection.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::recorder::Sample;
use super::{End, Fresh, Phase, lock};
use crate::drivers::Connection;
use crate::error::{Class, Error, Result};
use crate::generate::{at, unit_interval};
use crate::java_random::JavaRandom;
use crate::report::store;
use crate::result::OperationRecord;
use crate::schema::{Batch, Part};

/// Samples are passed to the recorder when there are this many, or after this time.
const SAMPLES_MAX: usize = 256;
const SAMPLES_AGE_MAX: Duration = Duration::from_millis(100);
/// Consecutive failed operations after which a client gives up.
const FAILURES_IN_A_ROW_MAX: u32 = 1_000;
/// Interval between rows that the visibility probe looks for.
const PROBE_INTERVAL: Duration = Duration::from_millis(500);
/// Pseudo-random streams: choice of operations, and intervals between them.
const MIX: u64 = u64::MAX - 16;
const PACE: u64 = u64::MAX - 17;

/// Connects, waits at the barrier for the other clients, and works until the phase ends.
pub(super) fn run(phase: &Phase<'_>, index: usize) {
    let connection = phase.engine.enter().and_then(|()| phase.engine.driver.connect(index));
    phase.ready.wait();
    phase.ready.wait();
    let begin = lock(&phase.begin).unwrap_or(phase.engine.start);
    let _end = CountOnDrop(phase);
    match connection {
        Err(error) => lock(&phase.errors).push(error.during(format_args!("client {index} connects"))),
        Ok(connection) => {
            phase.connected.fetch_add(1, Ordering::Relaxed);
            let mut client = Client::new(phase, index, connection, begin);
            if let Err(error) = client.work() {
                lock(&phase.errors).push(error.during(format_args!("client {index}")));
            }
            client.finish();
        }
    }
}

/// Counts a client as ended on drop, even after a panic: the phase waits for all clients.
struct CountOnDrop<'a>(&'a Phase<'a>);

impl Drop for CountOnDrop<'_> {
    fn drop(&mut self) {
        self.0.done.fetch_add(1, Ordering::Release);
    }
}

struct Client<'a> {
    phase: &'a Phase<'a>,
    index: usize,
    connection: Box<dyn Connection>,
    begin: Instant,
    samples: Vec<Sample>,
    flushed: Instant,
    sums: Vec<Duration>,
    /// Queries sent of each kind.
    sent: Vec<u64>,
    /// Number of the next query in [`End::Once`].
    turn: u64,
    /// Requests sent, of all kinds.
    requests: u64,
    failures_in_a_row: u32,
    batch: Batch,
    slots: Vec<u64>,
    /// Device and unit of each part of the current batch.
    units: Vec<(u32, u64)>,
    java: JavaRandom,
    records: Option<store::ClientRecorder>,
    /// Time at which the probe last received a row.
    probed: Instant,
}

/// Whether the client continues with its loops.
#[derive(PartialEq)]
enum Next {
    Continue,
    Stop,
}

impl<'a> Client<'a> {
    fn new(phase: &'a Phase<'a>, index: usize, connection: Box<dyn Connection>, begin: Instant) -> Client<'a> {
        let kinds = phase.engine.workload.kinds().len();
        Client {
            phase,
            index,
            connection,
            begin,
            samples: Vec::with_capacity(SAMPLES_MAX),
            flushed: begin,
            sums: vec![Duration::ZERO; kinds],
            sent: vec![0; kinds],
            turn: 0,
            requests: 0,
            failures_in_a_row: 0,
            batch: Batch::default(),
            slots: Vec::new(),
            units: Vec::new(),
            java: JavaRandom::new(index as i64),
            records: phase.engine.records.as_ref().map(store::Recorder::client),
            probed: begin,
        }
    }

    fn work(&mut self) -> Result<()> {
        let mut done = 0;
        while self.take_loop(done) {
            let began = Instant::now();
            let kind = self.draw(done);
            let go = if kind == 0 { self.write_pass()? } else { self.ask(kind)? };
            done += 1;
            self.phase.loops.fetch_add(1, Ordering::Relaxed);
            if go == Next::Stop || self.failures_in_a_row >= FAILURES_IN_A_ROW_MAX {
                break;
            }
            self.pace(began, done);
        }
        Ok(())
    }

    fn take_loop(&mut self, done: u64) -> bool {
        if self.stopped() {
            return false;
        }
        match self.phase.plan.end {
            End::Loops(n) => done < n,
            End::Clock(_) => true,
            End::Operations(all) | End::Once(all) => {
                let left = &self.phase.share_left;
                let left = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
                self.turn = all - left.unwrap_or(all);
                left.is_ok()
            }
        }
    }

    fn stopped(&self) -> bool {
        let over = match self.phase.plan.end {
            End::Clock(whole) => self.begin.elapsed() >= whole,
            _ => false,
        };
        over || self.phase.engine.stop.load(Ordering::Relaxed)
    }

    /// Draws the kind of the next loop from the mix.
    fn draw(&mut self, done: u64) -> usize {
        let mix = &self.phase.plan.mix;
        let mut weighted = mix.iter().enumerate().filter(|(_, weight)| **weight > 0.0);
        if let (Some((only, _)), None) = (weighted.next(), weighted.next()) {
            return only;
        }
        let config = &self.phase.engine.config;
        let u = if config.compat {
            self.java.double()
        } else {
            unit_interval(at(config.query_seed as u64, MIX, self.index as u64, done))
        };
        let sum: f64 = mix.iter().sum();
        let mut reached = 0.0;
        for (kind, weight) in mix.iter().enumerate() {
            reached += weight / sum;
            if *weight > 0.0 && u <= reached {
                return kind;
            }
        }
        mix.iter().rposition(|weight| *weight > 0.0).unwrap_or(0)
    }

    /// Waits `OP_MIN_INTERVAL` after the start of the loop.
    fn pace(&self, began: Instant, done: u64) {
        let config = &self.phase.engine.config;
        let millis = match config.op_min_interval {
            0 => return,
            // -1: the interval is POINT_STEP.
            -1 => config.point_step as f64 * 1e3 / self.phase.engine.workload.schema().unit.per_second() as f64,
            millis => millis as f64,
        };
        let share = if config.op_min_interval_random {
            unit_interval(at(config.data_seed as u64, PACE, self.index as u64, done))
        } else {
            1.0
        };
        self.sleep_until(began + Duration::from_secs_f64((millis * share / 1e3).max(0.0)));
    }

    fn sleep_until(&self, moment: Instant) {
        while let Some(left) = moment.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            if self.phase.engine.stop.load(Ordering::Relaxed) {
                return;
            }
            std::thread::sleep(left.min(Duration::from_millis(100)));
        }
    }

    /// Scheduled time of the next request; `None` in a closed loop.
    fn due(&mut self) -> Option<Instant> {
        let number = self.requests;
        self.requests += 1;
        let plan = self.phase.plan;
        let turn = number as f64 * plan.clients as f64 + self.index as f64;
        (plan.rate > 0.0).then(|| self.begin + Duration::from_secs_f64(turn / plan.rate))
    }

    /// Writes one batch for each device of this client.
    fn write_pass(&mut self) -> Result<Next> {
        let engine = self.phase.engine;
        let share = engine.share(self.index, self.phase.plan.clients);
        let per_write = (engine.config.device_num_per_write as usize).max(1);
        if !engine.config.is_client_bind {
            return self.write_unbound(share.len().max(1), per_write);
        }
        let mut at = 0;
        let mut wrote = false;
        while at < share.len() {
            // A request is for one table.
            let table = engine.workload.schema().devices[share[at] as usize].table;
            let same = |device: &&u32| engine.workload.schema().devices[**device as usize].table == table;
            let count = share[at..].iter().take(per_write).take_while(same).count();
            let devices = &share[at..at + count];
            at += count;
            for _ in 0..engine.workload.units_per_pass() {
                if self.stopped() || self.failures_in_a_row >= FAILURES_IN_A_ROW_MAX {
                    return Ok(Next::Stop);
                }
                self.units.clear();
                for device in devices {
                    let unit = engine.next[*device as usize].fetch_add(1, Ordering::Relaxed);
                    if unit < engine.workload.units(*device) {
                        self.units.push((*device, unit));
                    }
                }
                wrote |= !self.units.is_empty();
                self.write()?;
            }
        }
        // If no device had a unit left, the client has written all its data.
        Ok(if wrote { Next::Continue } else { Next::Stop })
    }

    /// Writes as many batches as a bound client would, but takes the next ones of all devices.
    fn write_unbound(&mut self, batches: usize, per_write: usize) -> Result<Next> {
        let engine = self.phase.engine;
        let per_pass = engine.workload.units_per_pass();
        let devices = engine.order.len() as u64;
        let mut wrote = false;
        for _ in 0..batches.div_ceil(per_write) as u64 * per_pass {
            if self.stopped() || self.failures_in_a_row >= FAILURES_IN_A_ROW_MAX {
                return Ok(Next::Stop);
            }
            let first = engine.cursor.fetch_add(per_write as u64, Ordering::Relaxed);
            self.units.clear();
            for n in first..first + per_write as u64 {
                let device = engine.order[(n % devices) as usize];
                if n / devices < engine.workload.units(device) {
                    self.units.push((device, n / devices));
                }
            }
            let table = |device: u32| engine.workload.schema().devices[device as usize].table;
            let mut all = std::mem::take(&mut self.units);
            wrote |= !all.is_empty();
            while let Some((device, _)) = all.first() {
                let first = table(*device);
                let end = all.iter().position(|(device, _)| table(*device) != first).unwrap_or(all.len());
                self.units = all.drain(..end).collect();
                self.write()?;
            }
        }
        Ok(if wrote { Next::Continue } else { Next::Stop })
    }

    /// Generates, encodes and sends `self.units` as one request.
    fn write(&mut self) -> Result<()> {
        if !self.generate() {
            return Ok(());
        }
        let due = self.due();
        if let Some(due) = due {
            self.sleep_until(due);
        }
        let compat = self.phase.engine.config.compat;
        let before_encoding = Instant::now();
        let encoded = self.connection.encode(&self.batch);
        let ledger = &self.phase.engine.ledger;
        self.units.iter().for_each(|(device, unit)| ledger.sent(*device, *unit));
        // IoT-benchmark includes its encoding in the target's latency.
        let began = if compat { before_encoding } else { Instant::now() };
        let outcome = encoded.and_then(|()| self.connection.send());
        let ended = Instant::now();
        let acknowledged = outcome.is_ok();
        self.units.iter().for_each(|(device, unit)| ledger.answered(*device, *unit, acknowledged));
        let points = self.batch.points();
        if acknowledged {
            let newest = self.batch.parts.iter().flat_map(|part| &part.times).max();
            if let Some(newest) = newest {
                self.phase.engine.newest[self.index].fetch_max(*newest, Ordering::Relaxed);
            }
            self.probe(ended);
        }
        self.record(0, due, began, ended, points, &outcome);
        self.handle_outcome(0, outcome)?;
        let pause = self.phase.engine.config.interval_between_write_batch;
        if pause > 0 {
            self.sleep_until(began + Duration::from_millis(pause));
        }
        Ok(())
    }

    /// Passes an acknowledged row to the probe, at most every [`PROBE_INTERVAL`].
    fn probe(&mut self, acknowledged: Instant) {
        if self.index != 0 || acknowledged - self.probed < PROBE_INTERVAL || self.batch.fields.start != 0 {
            return;
        }
        self.probed = acknowledged;
        let row = self.batch.parts.first().and_then(|part| Some((part.device, *part.times.last()?)));
        if let (Some((device, time)), Some(sender)) = (row, &*lock(&self.phase.engine.fresh)) {
            // If the probe is still busy with an earlier row, this one is dropped.
            let _ = sender.try_send(Fresh { device, table: self.batch.table, time, acknowledged });
        }
    }

    /// Fills the batch from `self.units`; returns false if it is empty.
    fn generate(&mut self) -> bool {
        let engine = self.phase.engine;
        let workload = &*engine.workload;
        let mut used = 0;
        for (device, unit) in &self.units {
            self.slots.clear();
            workload.unit_slots(*device, *unit, &mut self.slots);
            if self.slots.is_empty() {
                continue;
            }
            self.batch.table = workload.schema().devices[*device as usize].table;
            self.batch.fields = workload.unit_fields(*device, *unit);
            if used == self.batch.parts.len() {
                self.batch.parts.push(Part::default());
            }
            let part = &mut self.batch.parts[used];
            used += 1;
            part.device = *device;
            part.times.clear();
            part.times.extend(self.slots.iter().map(|slot| workload.time(*device, *slot)));
            let rows = self.slots.len();
            part.units.resize(rows * self.batch.fields.len(), 0);
            for (field, column) in self.batch.fields.clone().zip(part.units.chunks_exact_mut(rows)) {
                workload.fill(*device, field, &self.slots, column);
            }
        }
        self.batch.parts.truncate(used);
        used > 0
    }

    /// Sends one query of a kind, and checks the answer if it is selected.
    fn ask(&mut self, kind: usize) -> Result<Next> {
        let engine = self.phase.engine;
        let newest = Some(engine.newest[self.index].load(Ordering::Relaxed)).filter(|newest| *newest > i64::MIN);
        let query = match self.phase.plan.end {
            End::Once(_) => engine.workload.query(kind, 0, self.turn, None)?,
            _ => engine.workload.query(kind, self.index, self.sent[kind], newest)?,
        };
        self.sent[kind] += 1;
        let statement = match self.connection.statement(&query) {
            Ok(statement) => statement,
            Err(error) => {
                self.phase.recorder.failure(kind, error.class, &error.message);
                return Ok(Next::Stop);
            }
        };
        self.record_example(kind, &statement);
        let due = self.due();
        if let Some(due) = due {
            self.sleep_until(due);
        }
        let quiet = !self.phase.plan.writes();
        // Set operations have several lists of devices: then all devices are noted.
        let devices = query.devices.as_deref().filter(|_| query.set.is_none());
        let before = engine.ledger.before(devices, quiet, engine.verifier.eventual);
        let began = Instant::now();
        let outcome = self.connection.query(&query);
        let ended = Instant::now();
        let mut points = 0;
        if outcome.is_ok() {
            let entropy = at(engine.config.query_seed as u64, kind as u64, self.index as u64, self.sent[kind]);
            // The measured time makes the selection unpredictable for the target.
            if engine.verifier.selects(kind, entropy ^ (ended - began).as_nanos() as u64) {
                match self.connection.answer(&query) {
                    Ok(rows) => {
                        points = rows.points();
                        let sent = (query, before);
                        engine.verifier.check_or_defer(&*engine.workload, &engine.ledger, sent, rows, statement);
                    }
                    Err(error) => engine.verifier.undecodable(&*engine.workload, kind, &error.message),
                }
            } else {
                points = self.connection.points(&query).unwrap_or(0);
            }
        }
        self.record(kind, due, began, ended, points, &outcome);
        self.handle_outcome(kind, outcome)?;
        Ok(Next::Continue)
    }

    fn record_example(&self, kind: usize, statement: &str) {
        if self.index == 0 && self.sent[kind] == 1 {
            lock(&self.phase.engine.examples)[kind].get_or_insert_with(|| statement.to_owned());
        }
    }

    fn record(
        &mut self,
        kind: usize,
        due: Option<Instant>,
        began: Instant,
        ended: Instant,
        points: u64,
        outcome: &Result<()>,
    ) {
        let from = due.unwrap_or(began);
        let sample = Sample {
            kind,
            ended,
            latency: ended.saturating_duration_since(from),
            service: ended - began,
            points,
            ok: outcome.is_ok(),
            warmup: from < self.begin + self.phase.plan.warmup,
        };
        if sample.ok && !sample.warmup {
            self.sums[kind] += sample.latency;
        }
        self.samples.push(sample);
        if self.samples.len() >= SAMPLES_MAX || ended - self.flushed > SAMPLES_AGE_MAX {
            self.phase.recorder.take(&mut self.samples);
            self.flushed = ended;
        }
        self.record_operation(&sample, outcome);
    }

    fn record_operation(&mut self, sample: &Sample, outcome: &Result<()>) {
        let Some(records) = &mut self.records else { return };
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let points = |wanted: bool| if sample.ok == wanted { sample.points } else { 0 };
        let record = OperationRecord {
            ended_ms: now.as_millis() as i64,
            client: self.index as u32,
            kind: sample.kind as u32,
            device: self.units.first().map_or(0, |(device, _)| *device),
            ok_points: points(true),
            failed_points: points(false),
            latency_ns: sample.latency.as_nanos() as u64,
            remark: outcome.as_ref().err().map(|error| error.message.clone()),
        };
        records.record(record);
    }

    /// Handles the outcome of an operation: counts failures, reconnects or waits. An error ends the
    /// client.
    fn handle_outcome(&mut self, kind: usize, outcome: Result<()>) -> Result<()> {
        let Err(error) = outcome else {
            self.failures_in_a_row = 0;
            return Ok(());
        };
        self.failures_in_a_row += 1;
        self.phase.recorder.failure(kind, error.class, &error.message);
        match error.class {
            Class::Setup => Err(error),
            Class::Connection | Class::Timeout | Class::Protocol => self.reconnect(),
            Class::Overloaded | Class::DiskFull => {
                std::thread::sleep(Duration::from_millis(50));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Replaces a connection whose state is unknown; retries for the engine's `patience`.
    fn reconnect(&mut self) -> Result<()> {
        let since = Instant::now();
        loop {
            match self.phase.engine.driver.connect(self.index) {
                Ok(connection) => {
                    self.connection = connection;
                    return Ok(());
                }
                Err(error) if since.elapsed() >= self.phase.engine.patience || self.stopped() => {
                    return Err(Error::new(Class::Connection, error.message).during("reconnecting"));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    fn finish(&mut self) {
        self.phase.recorder.take(&mut self.samples);
        self.phase.recorder.client_sums(&self.sums);
    }
}
