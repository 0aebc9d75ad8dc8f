//! A whole run on one target: the server, the schema, the phases, the rest after them, and the final check.

mod audit;
mod lag;
pub(crate) mod place;
mod search;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use crate::cluster::Member;
use crate::config::{Config, Source, WorkMode};
use crate::drivers::{self, About, Connection, Driver, Opening, Target};
use crate::engine::{End, Engine, Plan, Progress, histogram};
use crate::error::{Class, Error, Result};
use crate::measure::fsync::FsyncProbe;
use crate::measure::proc;
use crate::measure::sampler::{Sampler, wait_until_idle};
use crate::report::store;
use crate::result::{
    Latency, PhaseResult, RESULT_FORMAT, ResourceSample, RunResult, ServerResult, TargetResult, Verification,
};
use crate::workload::{self, Workload, readback};
use place::{Place, Placing};

pub(crate) use search::find_rate;

/// Between two questions whether a server is still behind.
const BEHIND_PAUSE: Duration = Duration::from_millis(200);

/// Set by Ctrl-C: every run ends at its next operation and reports what it has.
pub(crate) static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// What is asked for besides the configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    pub(crate) workload: String,
    pub(crate) command: Vec<String>,
    pub(crate) placing: Placing,
    /// Kill the (private) server with SIGKILL in the middle of the writes, and start it again.
    pub(crate) kill_server: bool,
    /// Numbers of clients for the questions after the writes; empty: as many as write.
    pub(crate) query_clients: Vec<usize>,
    /// Search the highest rate at which the 99th percentile stays below this.
    pub(crate) find_rate_p99: Option<Duration>,
    /// This tool's place in a run of several.
    pub(crate) member: Option<Arc<Member>>,
}

/// Shows how a run goes on.
pub(crate) trait Show {
    /// Something began.
    fn stage(&mut self, text: &str);
    /// A phase goes on.
    fn progress(&mut self, plan: &Plan, progress: &Progress);
    /// Something goes on that says itself how: called often, shown now and then.
    fn live(&mut self, _text: &dyn Fn() -> String) {}
}

/// Runs `order` on `target`.
///
/// # Errors
/// The run could not begin or go on. Failed operations and wrong answers are not errors: the result has them.
pub(crate) fn run(order: &Order, config: &Arc<Config>, target: &Target, show: &mut dyn Show) -> Result<RunResult> {
    if order.find_rate_p99.is_some() && config.run_seconds <= 0.0 {
        return Err(Error::setup(format!(
            "--find-rate writes for as long as it searches, and LOOP={} ends the writes before: give --seconds instead",
            config.loop_
        )));
    }
    let workload = workload::open(&order.workload, config)?;
    show.stage(&format!("{}: starting", target.name));
    let columns = workload.schema().tables.iter().map(|table| table.fields.len() as u64).sum();
    let place = Place::take(target, &order.placing, columns)?;
    let opening =
        Opening { target: place.target.clone(), schema: Arc::clone(workload.schema()), config: Arc::clone(config) };
    let driver: Arc<dyn Driver> = Arc::from(drivers::open(opening)?);
    Run::new(order, config, workload, driver, place)?.run(show)
}

pub(crate) struct Run<'a> {
    order: &'a Order,
    config: &'a Arc<Config>,
    workload: Arc<dyn Workload>,
    driver: Arc<dyn Driver>,
    about: About,
    /// Behind a lock, because the server may be killed and restarted while clients run.
    place: Mutex<Place>,
    stop: Arc<AtomicBool>,
    result: RunResult,
    /// CPU of the server when the writes began, and after they had settled.
    settled: bool,
}

impl<'a> Run<'a> {
    fn new(
        order: &'a Order,
        config: &'a Arc<Config>,
        workload: Arc<dyn Workload>,
        driver: Arc<dyn Driver>,
        place: Place,
    ) -> Result<Run<'a>> {
        let about = driver.about();
        let result = RunResult {
            format: RESULT_FORMAT,
            tool: format!("millrace bench {}", env!("CARGO_PKG_VERSION")),
            command: order.command.clone(),
            started: jiff::Zoned::now().strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
            workload: order.workload.clone(),
            target: target_result(&place, &about),
            machine: proc::machine(),
            configuration: config.entries().map(|(key, value)| (key.to_owned(), value)).collect(),
            ..RunResult::default()
        };
        let stop = Arc::new(AtomicBool::new(false));
        Ok(Run { order, config, workload, driver, about, place: Mutex::new(place), stop, result, settled: false })
    }

    fn run(mut self, show: &mut dyn Show) -> Result<RunResult> {
        self.prepare(show)?;
        let started = jiff::Zoned::now();
        let home = crate::report::home();
        let store = store::open(&store::Run { config: self.config, started: &started, home: &home })?;
        let recorder = match store {
            Some(store) => Some(store::Recorder::start(store, self.labels(), self.config.mysql_real_insert_rate)?),
            None => None,
        };
        // Seconds count from here in all tools of one run.
        self.meet("registered")?;
        let mut engine = Engine::new(self.config, &self.workload, &self.driver, &self.stop, recorder);
        engine.network = self.lock_place().server.as_ref().and_then(|server| server.network().cloned());
        engine.member.clone_from(&self.order.member);
        if self.order.kill_server {
            engine.patience = Duration::from_secs(120);
        }
        if !self.config.writes() {
            // Questions only: an earlier run with this configuration wrote everything.
            engine.ledger.assume_all(&*self.workload);
        }
        let (pids, dirs) = {
            let place = self.lock_place();
            (place.pids.clone(), place.dirs.clone())
        };
        let sampler = Sampler::start(&pids, &dirs, engine.start);
        let outcome = self.phases(&engine, &sampler, show);
        self.result.resources = sampler.stop();
        outcome?;
        self.check(&engine, show)?;
        let recorder = engine.take_records();
        drop(engine);
        if let Some(recorder) = recorder {
            let (summary, mut store) = recorder.drain()?;
            self.result.notes.extend(summary.notes());
            store.finish(&store::final_values(&self.result))?;
            self.result.notes.push(format!("operations are stored in {}", store.place()));
        }
        self.explain();
        Ok(self.result)
    }

    fn lock_place(&self) -> std::sync::MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn labels(&self) -> store::Labels {
        store::Labels {
            operations: self.workload.kinds().iter().map(|kind| kind.stored_name.to_owned()).collect(),
            schema: Arc::clone(self.workload.schema()),
        }
    }

    /// Version, clean-up, schema.
    fn prepare(&mut self, show: &mut dyn Show) -> Result<()> {
        let (driver, config) = (Arc::clone(&self.driver), Arc::clone(self.config));
        show.stage(&format!("{}: clearing what earlier runs left", self.about.product));
        // Of several tools one clears, and the others wait for it.
        let clears = config.is_delete_data && self.order.member.as_ref().is_none_or(|member| member.index == 0);
        let version = self.lock_place().inside(|| {
            let mut connection = driver.connect(0)?;
            let version = connection.version()?;
            if clears {
                connection.clear().map_err(|error| error.during("clearing what earlier runs left"))?;
            }
            Ok(version)
        })?;
        // A product that does not tell its version: that of the program that was started.
        let started = self.lock_place().server.as_ref().map(|server| server.version().to_owned());
        self.result.target.version = if version.starts_with("unknown") { started.unwrap_or(version) } else { version };
        let notes = self.lock_place().server.as_ref().map(|server| {
            let mut notes = server.notes().to_vec();
            let settings = server.settings().join(", ");
            if !settings.is_empty() {
                notes.push(format!("the server was started with: {settings}"));
            }
            notes
        });
        self.result.notes.extend(notes.unwrap_or_default());
        if self.config.is_delete_data && self.lock_place().server.is_none() {
            std::thread::sleep(Duration::from_millis(self.config.init_wait_time));
        }
        self.meet("cleared")?;
        if self.config.create_schema {
            show.stage(&format!(
                "{}: registering {} devices",
                self.about.product,
                self.workload.schema().devices.len()
            ));
            self.result.schema_s = self.create_schema()?;
        }
        Ok(())
    }

    /// Every schema client registers a range of devices; the slowest one's time.
    fn create_schema(&self) -> Result<f64> {
        let devices = self.workload.schema().devices.len();
        let clients = (self.config.schema_client_number as usize).clamp(1, devices.max(1));
        let place = self.lock_place();
        let barrier = Barrier::new(clients);
        let work = |client: usize| {
            let connection = place.enter().and_then(|()| self.driver.connect(client));
            barrier.wait();
            let began = Instant::now();
            let range = devices * client / clients..devices * (client + 1) / clients;
            connection?.create(range.start as u32..range.end as u32)?;
            Ok::<f64, Error>(began.elapsed().as_secs_f64())
        };
        let work = &work;
        let times = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..clients).map(|client| scope.spawn(move || work(client))).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Result<f64>>| {
                thread.join().map_err(|_| Error::setup("a schema client panicked".to_owned()))?
            };
            threads.into_iter().map(join).collect::<Result<Vec<f64>>>()
        })
        .map_err(|error| error.during("registering the schema"))?;
        Ok(times.into_iter().fold(0.0, f64::max))
    }

    /// All phases, with the rest of the server after its writes.
    fn phases(&mut self, engine: &Engine, sampler: &Sampler, show: &mut dyn Show) -> Result<()> {
        let before = sampler.now();
        let plans = self.plans(engine);
        let mut search = self.order.find_rate_p99;
        for plan in plans {
            if self.interrupted() {
                self.leave()?;
                break;
            }
            self.meet(&format!("done before {}", plan.name))?;
            // Questions are about data at rest.
            if plan.mix.first() == Some(&0.0) && self.wrote() {
                // And answers are compared with all that was written, so that a search, which writes, goes before.
                if let Some(limit) = search.take() {
                    find_rate(self, engine, limit, show)?;
                }
                self.settle(engine, sampler, &before, show)?;
            }
            self.phase(engine, sampler, &plan, show)?;
        }
        if let Some(limit) = search.filter(|_| !self.interrupted()) {
            find_rate(self, engine, limit, show)?;
        }
        if self.interrupted() {
            self.leave()?;
        }
        self.meet("done")?;
        if self.wrote() {
            self.settle(engine, sampler, &before, show)?;
        }
        Ok(())
    }

    /// Waits for the other tools of the run, if there are any.
    fn meet(&self, point: &str) -> Result<()> {
        self.order.member.as_ref().map_or(Ok(()), |member| member.wait_at(point))
    }

    /// This tool ends early: the others shall not wait for it.
    fn leave(&self) -> Result<()> {
        self.order.member.as_ref().map_or(Ok(()), |member| member.leave())
    }

    fn wrote(&self) -> bool {
        let written = |phase: &PhaseResult| phase.operations.first().is_some_and(|writes| writes.ok > 0);
        self.result.phases.iter().any(written)
    }

    fn interrupted(&mut self) -> bool {
        let elapsed = self.config.test_max_time;
        if INTERRUPTED.load(Ordering::Relaxed) {
            self.result.stopped.get_or_insert_with(|| "interrupted (Ctrl-C)".to_owned());
        } else if self.stop.load(Ordering::Relaxed) && elapsed > 0 {
            self.result.stopped.get_or_insert_with(|| format!("TEST_MAX_TIME={elapsed} ms was over"));
        }
        self.result.stopped.is_some()
    }

    /// The original has one phase; ours writes first, and then asks each kind by itself.
    fn plans(&self, engine: &Engine) -> Vec<Plan> {
        let config = self.config;
        if let Some(kind) = self.only_kind() {
            return vec![self.plan_of(kind, engine)];
        }
        let clients = config.data_client_number as usize;
        let warmup = Duration::from_secs_f64(config.warmup);
        let points = self.points_per_request();
        let rate = if config.point_rate > 0.0 { config.point_rate / points } else { config.rate };
        let by_clock = config.run_seconds > 0.0;
        let mut plans = Vec::new();
        if config.query_count == 0 {
            let mut mix = config.operation_proportion.to_vec();
            mix.truncate(self.workload.kinds().len());
            let end = if by_clock {
                End::Clock(Duration::from_secs_f64(config.run_seconds))
            } else {
                End::Loops(config.loop_)
            };
            let name = if mix.iter().filter(|weight| **weight > 0.0).count() > 1 { "mixed" } else { "run" };
            plans.push(Plan { name: name.to_owned(), clients, mix, end, rate, warmup });
            return plans;
        }
        let kinds = self.workload.kinds().len();
        let only = |kind: usize| (0..kinds).map(|other| f64::from(u8::from(other == kind))).collect::<Vec<f64>>();
        if config.operation_proportion.first() != Some(&0.0) {
            let end = if by_clock {
                End::Clock(Duration::from_secs_f64(config.run_seconds))
            } else {
                End::Loops(engine.passes())
            };
            plans.push(Plan { name: "write".to_owned(), clients, mix: only(0), end, rate, warmup });
        }
        let client_numbers =
            if self.order.query_clients.is_empty() { vec![clients] } else { self.order.query_clients.clone() };
        for clients in &client_numbers {
            for kind in 1..kinds {
                let name = self.workload.kinds()[kind].name;
                plans.push(Plan {
                    name: if client_numbers.len() > 1 { format!("{name} x{clients}") } else { name.to_owned() },
                    clients: (*clients).min(config.query_count as usize),
                    mix: only(kind),
                    end: End::Operations(config.query_count),
                    rate: 0.0,
                    warmup: Duration::ZERO,
                });
            }
        }
        plans
    }

    /// What a mode does that does one thing alone.
    fn only_kind(&self) -> Option<usize> {
        match self.config.benchmark_work_mode {
            WorkMode::VerificationWrite => Some(0),
            WorkMode::VerificationQuery => Some(readback::VERIFICATION_QUERY),
            _ => self.config.is_point_comparison.then_some(readback::DEVICE_QUERY),
        }
    }

    /// Everything of one kind: all writes, or all questions that there are.
    fn plan_of(&self, kind: usize, engine: &Engine) -> Plan {
        let config = self.config;
        let kinds = self.workload.kinds();
        let questions = self.workload.questions(kind);
        let clients = config.data_client_number.min(questions.unwrap_or(u64::MAX)).max(1);
        Plan {
            name: if kind == 0 { "write".to_owned() } else { kinds[kind].name.to_owned() },
            clients: clients as usize,
            mix: (0..kinds.len()).map(|other| f64::from(u8::from(other == kind))).collect(),
            end: questions.map_or_else(|| End::Loops(engine.passes()), End::Once),
            rate: if config.point_rate > 0.0 { config.point_rate / self.points_per_request() } else { config.rate },
            warmup: Duration::from_secs_f64(config.warmup),
        }
    }

    /// Values of a usual write request.
    fn points_per_request(&self) -> f64 {
        let config = self.config;
        let sensors = if config.is_sensor_ts_alignment { config.sensor_number } else { 1 };
        (config.batch_size_per_write * config.device_num_per_write * sensors) as f64
    }

    fn phase(&mut self, engine: &Engine, sampler: &Sampler, plan: &Plan, show: &mut dyn Show) -> Result<PhaseResult> {
        let number = self.result.phases.len() as u32;
        let writes = plan.mix.first().is_some_and(|weight| *weight > 0.0);
        show.stage(&format!("{}: {}", self.about.product, plan.name));
        let cpu_before = sampler.now().server_cpu_s;
        let watch = std::cell::RefCell::new(Watch { limit_ms: self.config.test_max_time, stop: &self.stop, show });
        let mut progress = |progress: &Progress| watch.borrow_mut().progress(plan, progress, engine);
        let outcome = std::thread::scope(|scope| {
            let lags = (writes && number == 0 && self.config.verify).then(|| self.probe(scope, engine));
            let fsyncs = (writes && number == 0).then(|| self.probe_disk()).flatten();
            let killer =
                (writes && self.order.kill_server).then(|| scope.spawn(|| self.kill_in_the_middle(engine, sampler)));
            let outcome = engine.run(plan, number, &mut progress);
            engine.end_of_probes();
            let fsyncs = fsyncs.map(FsyncProbe::stop).filter(|fsyncs| !fsyncs.is_empty());
            let lags = lags.and_then(|thread| thread.join().ok()).filter(|lags| !lags.is_empty());
            let killed = killer.map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err(Error::setup("the thread that kills the server panicked".to_owned())))
            });
            (outcome, lags, fsyncs, killed)
        });
        let (outcome, lags, fsyncs, killed) = outcome;
        let mut outcome = outcome?;
        if let Some(note) = killed.transpose()? {
            self.result.notes.push(note);
        }
        if let Some(lags) = lags {
            self.result.server.get_or_insert_with(ServerResult::default).lag_ms = Some(histogram::latency(&lags));
        }
        if let Some(fsyncs) = fsyncs {
            self.result.server.get_or_insert_with(ServerResult::default).fsync_ms = Some(histogram::latency(&fsyncs));
        }
        outcome.phase.server_cpu_s = sampler.now().server_cpu_s.zip(cpu_before).map(|(after, before)| after - before);
        self.result.seconds.extend(outcome.seconds);
        for failure in outcome.failures {
            let same = |other: &&mut crate::result::Failure| {
                other.operation == failure.operation && other.class == failure.class
            };
            match self.result.failures.iter_mut().find(same) {
                Some(other) => other.count += failure.count,
                None => self.result.failures.push(failure),
            }
        }
        self.result.phases.push(outcome.phase.clone());
        let _ = self.interrupted();
        Ok(outcome.phase)
    }

    /// Measures from acknowledged to seen on a connection of its own.
    fn probe<'scope>(
        &'scope self,
        scope: &'scope std::thread::Scope<'scope, '_>,
        engine: &'scope Engine,
    ) -> std::thread::ScopedJoinHandle<'scope, hdrhistogram::Histogram<u64>> {
        let (sender, receiver) = sync_channel(1);
        engine.probe_with(sender);
        scope.spawn(move || {
            if engine.enter().is_err() {
                return histogram::empty();
            }
            lag::probe(&*self.driver, &receiver, 0)
        })
    }

    /// Measures the disk below a private server's data; nothing where that cannot be written to.
    fn probe_disk(&self) -> Option<FsyncProbe> {
        let place = self.lock_place();
        FsyncProbe::start(place.server.as_ref()?.dir()).ok()
    }

    /// SIGKILL at a third of the writes, and a restart on the same directory.
    fn kill_in_the_middle(&self, engine: &Engine, sampler: &Sampler) -> Result<String> {
        let wait = match self.config.run_seconds {
            seconds if seconds > 0.0 => Duration::from_secs_f64(seconds / 3.0),
            _ => Duration::from_secs(5),
        };
        let due = Instant::now() + wait;
        while Instant::now() < due && !self.stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut place = self.lock_place();
        let Some(server) = place.server.as_mut() else {
            return Err(Error::setup("--kill-server: only a server that this tool started can be killed".to_owned()));
        };
        let _ = sampler.now();
        let at = engine.start.elapsed();
        server.kill9()?;
        let down = Instant::now();
        server.restart()?;
        let pids = server.root_pids();
        sampler.replace_pids(&pids);
        place.pids = pids;
        Ok(format!(
            "the server was killed (SIGKILL) at {:.1} s and answered again after {:.2} s",
            at.as_secs_f64(),
            down.elapsed().as_secs_f64()
        ))
    }

    /// Asks the server to bring its data into their final form, waits until it is at rest, and takes the figures.
    fn settle(
        &mut self,
        engine: &Engine,
        sampler: &Sampler,
        before: &ResourceSample,
        show: &mut dyn Show,
    ) -> Result<()> {
        if std::mem::replace(&mut self.settled, true) {
            return Ok(());
        }
        show.stage(&format!("{}: waiting until the data has settled", self.about.product));
        let began = Instant::now();
        let place = self.lock_place();
        let asked = place.inside(|| {
            let mut connection = self.driver.connect(0)?;
            wait_while_behind(&mut *connection, Duration::from_secs_f64(self.config.settle_max))?;
            connection.settle()
        });
        let asked_s = began.elapsed().as_secs_f64();
        let left = Duration::from_secs_f64(self.config.settle_max).saturating_sub(began.elapsed());
        let rest = wait_until_idle(&place.pids, &place.dirs, left, &INTERRUPTED);
        drop(place);
        if let Err(error) = asked {
            self.result.notes.push(format!("it did not settle: {error}"));
        }
        let after = sampler.now();
        let points: u64 =
            self.result.phases.iter().filter_map(|phase| phase.operations.first()).map(|op| op.ok_points).sum();
        let server = self.result.server.get_or_insert_with(ServerResult::default);
        server.points = points;
        // What the server uses without work, while it was watched to be at rest, is not for the writes.
        let used_s = after.server_cpu_s.zip(before.server_cpu_s).map_or(0.0, |(after, before)| after - before);
        server.write_cpu_s = (used_s - rest.quiet_cpu_s).max(0.0);
        server.points_per_cpu_s = if server.write_cpu_s > 0.0 { points as f64 / server.write_cpu_s } else { 0.0 };
        server.settled_bytes = rest.bytes.unwrap_or(0);
        server.bytes_per_point = if points > 0 { server.settled_bytes as f64 / points as f64 } else { 0.0 };
        server.settling_s = asked_s + rest.settling_s;
        server.settled = rest.settled;
        server.rss_bytes_max = after.server_rss_bytes.unwrap_or(0);
        server.written_bytes =
            after.server_written_bytes.zip(before.server_written_bytes).map_or(0, |(after, before)| after - before);
        if !rest.settled {
            let cores = rest.cores.map_or(String::new(), |cores| format!("; it still used {cores:.2} processors"));
            self.result.notes.push(format!(
                "the server was not at rest {:.0} s after the writes (SETTLE_MAX){cores}: size and CPU are not final",
                began.elapsed().as_secs_f64()
            ));
        }
        let _ = engine;
        Ok(())
    }

    /// Answers that were kept, then all points.
    fn check(&mut self, engine: &Engine, show: &mut dyn Show) -> Result<()> {
        if !self.config.verify {
            self.result.notes.push("nothing was verified (VERIFY=false)".to_owned());
            return Ok(());
        }
        show.stage(&format!("{}: checking answers and all points", self.about.product));
        let cpu = proc::own_cpu_s();
        let (answers, findings, _) = engine.verified();
        let mut verification = Verification { on: true, answers, findings, ..Default::default() };
        verification.findings.extend(self.not_read_back(&verification));
        if self.about.product != "nothing" {
            let place = self.lock_place();
            let audited = place.inside(|| {
                let mut connection = self.driver.connect(0)?;
                audit::audit(&*self.workload, &engine.ledger, &self.about, &mut *connection, &mut verification)
            });
            if let Err(error) = audited {
                verification.findings.push(format!("not all points could be checked: {error}"));
            }
        }
        verification.passed = verification.findings.is_empty() && verification.lost == 0 && verification.surplus == 0;
        verification.cpu_s = proc::own_cpu_s() - cpu;
        self.result.verification = verification;
        let max = self.result.resources.iter().filter_map(|sample| sample.server_rss_bytes).max();
        if let Some(server) = &mut self.result.server {
            server.rss_bytes_max = max.unwrap_or(server.rss_bytes_max);
        }
        Ok(())
    }

    /// Parts of the data that were to be read back and could not be.
    fn not_read_back(&self, verification: &Verification) -> Option<String> {
        let kind = self.only_kind().filter(|_| self.result.stopped.is_none())?;
        let (questions, checked) = (self.workload.questions(kind)?, verification.answers[kind].checked);
        let name = self.workload.kinds()[kind].name;
        (checked < questions).then(|| format!("{name}: {checked} of {questions} parts of the data could be read back"))
    }

    /// Says why a row is empty.
    fn explain(&mut self) {
        let proportions = &self.config.operation_proportion;
        let by_proportion = self.config.runs_proportion() && self.config.query_count == 0;
        let failures = &self.result.failures;
        for phase in &mut self.result.phases {
            for (kind, operation) in phase.operations.iter_mut().enumerate() {
                let failure = failures.iter().find(|failure| failure.operation == operation.name);
                operation.note = match (operation.ok, operation.failed, failure) {
                    (0, 0, Some(failure)) if phase.name == "mixed" || phase.name.starts_with(&operation.name) => {
                        Some(format!("not asked: {}", failure.first))
                    }
                    (0, 0, None) if by_proportion && proportions.get(kind).is_none_or(|p| *p == 0.0) => {
                        Some("its share in OPERATION_PROPORTION is 0".to_owned())
                    }
                    (0, failed, Some(failure)) if failed > 0 => Some(format!("all failed: {}", failure.first)),
                    (ok, _, _) if ok > 0 && operation.ok_points == 0 && kind > 0 => {
                        Some(empty_answers(self.config, kind))
                    }
                    _ => None,
                };
            }
        }
    }
}

/// All answers of a kind were empty, and right: why.
fn empty_answers(config: &Config, kind: usize) -> String {
    match kind {
        1 if config.compat => "START_TIME itself is never written: the original's Q1 finds nothing".to_owned(),
        3 | 5 | 6 | 10 => format!("no value is above QUERY_LOWER_VALUE={}", config.query_lower_value),
        _ => "no data in the windows asked for: START_TIME, STEP_SIZE and QUERY_INTERVAL choose them".to_owned(),
    }
}

struct Watch<'a> {
    limit_ms: u64,
    stop: &'a AtomicBool,
    show: &'a mut dyn Show,
}

/// Waits until everything that was acknowledged can be found.
fn wait_while_behind(connection: &mut dyn Connection, max: Duration) -> Result<()> {
    let began = Instant::now();
    while connection.is_behind()? {
        if INTERRUPTED.load(Ordering::Relaxed) || began.elapsed() >= max {
            let text = format!(
                "{:.0} s after the writes not everything that was acknowledged could be found (SETTLE_MAX): what is missed \
                 below may still be on its way",
                began.elapsed().as_secs_f64()
            );
            return Err(Error::new(Class::Timeout, text));
        }
        std::thread::sleep(BEHIND_PAUSE);
    }
    Ok(())
}

impl Watch<'_> {
    fn progress(&mut self, plan: &Plan, progress: &Progress, engine: &Engine) {
        let over = self.limit_ms > 0 && engine.start.elapsed() > Duration::from_millis(self.limit_ms);
        if over || INTERRUPTED.load(Ordering::Relaxed) {
            self.stop.store(true, Ordering::Relaxed);
        }
        self.show.progress(plan, progress);
    }
}

fn target_result(place: &Place, about: &About) -> TargetResult {
    let target = &place.target;
    let proof = drivers::DRIVERS.iter().find(|entry| entry.name == target.name).map(|entry| entry.proof.text());
    TargetResult {
        name: target.name.clone(),
        url: target.display_url(),
        product: about.product.to_owned(),
        version: String::new(),
        write_path: about.write_path.clone(),
        why: about.why.to_owned(),
        durability: about.durability.clone(),
        durable: about.durable,
        proof: proof.unwrap_or_default(),
    }
}

/// The result of a run that could not begin or go on, among others that could.
pub(crate) fn not_run(order: &Order, target: &Target, error: &Error) -> RunResult {
    RunResult {
        format: RESULT_FORMAT,
        tool: format!("millrace bench {}", env!("CARGO_PKG_VERSION")),
        command: order.command.clone(),
        started: jiff::Zoned::now().strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        workload: order.workload.clone(),
        target: TargetResult {
            name: target.name.clone(),
            url: target.display_url(),
            product: target.name.clone(),
            ..Default::default()
        },
        machine: proc::machine(),
        stopped: Some(format!("could not be measured: {error}")),
        ..RunResult::default()
    }
}

/// A configuration like `config` with other settings.
///
/// # Errors
/// A setting is wrong.
pub(crate) fn with_settings(config: &Config, settings: &[(&str, String)]) -> Result<Arc<Config>> {
    let mut config = config.clone();
    for (key, value) in settings {
        config.set(key, value, Source::CommandLine)?;
    }
    Ok(Arc::new(config))
}

/// For a line of text: `p99` and such.
pub(crate) fn quantile_line(latency: &Latency) -> String {
    format!("p50 {:.2} ms, p99 {:.2} ms", latency.median, latency.p99)
}

#[cfg(test)]
mod tests;
