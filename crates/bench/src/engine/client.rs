//! One client: a thread with a connection.

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

/// Samples are handed over in lots of this many, or after this long.
const LOT: usize = 256;
const LOT_AGE: Duration = Duration::from_millis(100);
/// A client whose operations all fail gives up after so many in a row.
const FAILURES_IN_A_ROW_MAX: u32 = 1_000;
/// Between two rows whose way to being seen is measured.
const PROBE_INTERVAL: Duration = Duration::from_millis(500);
/// Stream of the draws of operations.
const MIX: u64 = u64::MAX - 16;
const PACE: u64 = u64::MAX - 17;

/// Connects, waits for the others, works until the phase ends.
pub(super) fn run(phase: &Phase<'_>, index: usize) {
    let connection = phase.engine.enter().and_then(|()| phase.engine.driver.connect(index));
    phase.ready.wait();
    phase.ready.wait();
    let begin = lock(&phase.begin).unwrap_or(phase.engine.start);
    let _end = AtEnd(phase);
    match connection {
        Err(error) => lock(&phase.trouble).push(error.during(format_args!("client {index} connects"))),
        Ok(connection) => {
            phase.connected.fetch_add(1, Ordering::Relaxed);
            let mut client = Client::new(phase, index, connection, begin);
            if let Err(error) = client.work() {
                lock(&phase.trouble).push(error.during(format_args!("client {index}")));
            }
            client.finish();
        }
    }
}

/// Counts a client as ended however it ends: the phase waits for all of them, and a panic must not make it wait for ever.
struct AtEnd<'a>(&'a Phase<'a>);

impl Drop for AtEnd<'_> {
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
    handed_over: Instant,
    sums: Vec<Duration>,
    /// Questions asked of each kind.
    asked: Vec<u64>,
    /// The question to be asked next, where each is asked once.
    turn: u64,
    /// Requests sent, of whatever kind.
    requests: u64,
    failures_in_a_row: u32,
    batch: Batch,
    slots: Vec<u64>,
    /// Units of the batch being written.
    units: Vec<(u32, u64)>,
    java: JavaRandom,
    records: Option<store::ClientRecorder>,
    /// When the last row was handed to the probe.
    probed: Instant,
}

/// Clients at this point of a loop may go on or not.
#[derive(PartialEq)]
enum Go {
    On,
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
            samples: Vec::with_capacity(LOT),
            handed_over: begin,
            sums: vec![Duration::ZERO; kinds],
            asked: vec![0; kinds],
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
        while self.may_go_on(done) {
            let began = Instant::now();
            let kind = self.draw(done);
            let go = if kind == 0 { self.write_pass()? } else { self.ask(kind)? };
            done += 1;
            self.phase.loops.fetch_add(1, Ordering::Relaxed);
            if go == Go::Stop || self.failures_in_a_row >= FAILURES_IN_A_ROW_MAX {
                break;
            }
            self.pace(began, done);
        }
        Ok(())
    }

    fn may_go_on(&mut self, done: u64) -> bool {
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

    /// Which kind the next loop is.
    fn draw(&mut self, done: u64) -> usize {
        let mix = &self.phase.plan.mix;
        let mut weighty = mix.iter().enumerate().filter(|(_, weight)| **weight > 0.0);
        if let (Some((only, _)), None) = (weighty.next(), weighty.next()) {
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

    /// Between two loops: `OP_MIN_INTERVAL`.
    fn pace(&self, began: Instant, done: u64) {
        let config = &self.phase.engine.config;
        let millis = match config.op_min_interval {
            0 => return,
            // −1: as long as a step of the data.
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

    /// When the next request is due, if the phase has a schedule.
    fn due(&mut self) -> Option<Instant> {
        let number = self.requests;
        self.requests += 1;
        let plan = self.phase.plan;
        let turn = number as f64 * plan.clients as f64 + self.index as f64;
        (plan.rate > 0.0).then(|| self.begin + Duration::from_secs_f64(turn / plan.rate))
    }

    /// One batch for every device of this client.
    fn write_pass(&mut self) -> Result<Go> {
        let engine = self.phase.engine;
        let share = engine.share(self.index, self.phase.plan.clients);
        let per_write = (engine.config.device_num_per_write as usize).max(1);
        if !engine.config.is_client_bind {
            return self.write_unbound(share.len().max(1), per_write);
        }
        let mut at = 0;
        let mut wrote = false;
        while at < share.len() {
            // A request is about one table.
            let table = engine.workload.schema().devices[share[at] as usize].table;
            let same = |device: &&u32| engine.workload.schema().devices[**device as usize].table == table;
            let count = share[at..].iter().take(per_write).take_while(same).count();
            let devices = &share[at..at + count];
            at += count;
            for _ in 0..engine.workload.units_per_pass() {
                if self.stopped() || self.failures_in_a_row >= FAILURES_IN_A_ROW_MAX {
                    return Ok(Go::Stop);
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
        // Nothing is left to be written.
        Ok(if wrote { Go::On } else { Go::Stop })
    }

    /// As many batches as the share of this client has devices, but whichever come next of all.
    fn write_unbound(&mut self, batches: usize, per_write: usize) -> Result<Go> {
        let engine = self.phase.engine;
        let per_pass = engine.workload.units_per_pass();
        let devices = engine.order.len() as u64;
        let mut wrote = false;
        for _ in 0..batches.div_ceil(per_write) as u64 * per_pass {
            if self.stopped() || self.failures_in_a_row >= FAILURES_IN_A_ROW_MAX {
                return Ok(Go::Stop);
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
                let of = table(*device);
                let end = all.iter().position(|(device, _)| table(*device) != of).unwrap_or(all.len());
                self.units = all.drain(..end).collect();
                self.write()?;
            }
        }
        Ok(if wrote { Go::On } else { Go::Stop })
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
        // The original takes its own encoding for the target's latency.
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
        self.after(0, outcome)?;
        let pause = self.phase.engine.config.interval_between_write_batch;
        if pause > 0 {
            self.sleep_until(began + Duration::from_millis(pause));
        }
        Ok(())
    }

    /// Now and then, a row for the probe.
    fn probe(&mut self, acknowledged: Instant) {
        if self.index != 0 || acknowledged - self.probed < PROBE_INTERVAL || self.batch.fields.start != 0 {
            return;
        }
        self.probed = acknowledged;
        let row = self.batch.parts.first().and_then(|part| Some((part.device, *part.times.last()?)));
        if let (Some((device, time)), Some(sender)) = (row, &*lock(&self.phase.engine.fresh)) {
            // The probe is still busy with an earlier row: then not this one.
            let _ = sender.try_send(Fresh { device, table: self.batch.table, time, acknowledged });
        }
    }

    /// Fills the batch from `self.units`; false if there is nothing in it.
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

    /// Asks one question of a kind.
    fn ask(&mut self, kind: usize) -> Result<Go> {
        let engine = self.phase.engine;
        let newest = Some(engine.newest[self.index].load(Ordering::Relaxed)).filter(|newest| *newest > i64::MIN);
        let query = match self.phase.plan.end {
            End::Once(_) => engine.workload.query(kind, 0, self.turn, None)?,
            _ => engine.workload.query(kind, self.index, self.asked[kind], newest)?,
        };
        self.asked[kind] += 1;
        let statement = match self.connection.statement(&query) {
            Ok(statement) => statement,
            Err(error) => {
                self.phase.recorder.failure(kind, error.class, &error.message);
                return Ok(Go::Stop);
            }
        };
        self.keep_example(kind, &statement);
        let due = self.due();
        if let Some(due) = due {
            self.sleep_until(due);
        }
        let quiet = !self.phase.plan.writes();
        // Set operations ask for devices of several lists: then all are noted.
        let devices = query.devices.as_deref().filter(|_| query.set.is_none());
        let before = engine.ledger.before(devices, quiet, engine.verifier.eventual);
        let began = Instant::now();
        let outcome = self.connection.query(&query);
        let ended = Instant::now();
        let mut points = 0;
        if outcome.is_ok() {
            let entropy = at(engine.config.query_seed as u64, kind as u64, self.index as u64, self.asked[kind]);
            // Chosen by the clock as well: the target cannot foresee it.
            if engine.verifier.chooses(kind, entropy ^ (ended - began).as_nanos() as u64) {
                match self.connection.answer(&query) {
                    Ok(rows) => {
                        points = rows.points();
                        let asked = (query, before);
                        engine.verifier.take(&*engine.workload, &engine.ledger, asked, rows, statement);
                    }
                    Err(error) => engine.verifier.undecodable(&*engine.workload, kind, &error.message),
                }
            } else {
                points = self.connection.points(&query).unwrap_or(0);
            }
        }
        self.record(kind, due, began, ended, points, &outcome);
        self.after(kind, outcome)?;
        Ok(Go::On)
    }

    fn keep_example(&self, kind: usize, statement: &str) {
        if self.index == 0 && self.asked[kind] == 1 {
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
        if self.samples.len() >= LOT || ended - self.handed_over > LOT_AGE {
            self.phase.recorder.take(&mut self.samples);
            self.handed_over = ended;
        }
        self.keep_record(&sample, outcome);
    }

    fn keep_record(&mut self, sample: &Sample, outcome: &Result<()>) {
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

    /// What a failure means for the rest.
    fn after(&mut self, kind: usize, outcome: Result<()>) -> Result<()> {
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

    /// A connection whose state is unknown is given up for a new one.
    fn reconnect(&mut self) -> Result<()> {
        let since = Instant::now();
        loop {
            match self.phase.engine.driver.connect(self.index) {
                Ok(connection) => {
                    self.connection = connection;
                    return Ok(());
                }
                Err(error) if since.elapsed() >= self.phase.engine.patience || self.stopped() => {
                    return Err(Error::new(Class::Connection, error.message).during("connects again"));
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
