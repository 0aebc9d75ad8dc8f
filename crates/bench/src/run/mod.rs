//! A run on one target: start of the server, schema, phases, the wait until it is idle, and the
//! final check.

mod audit;
mod lag;
mod search;
pub(crate) mod target_server;

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
use target_server::{TargetServer, TargetServerOptions};

pub(crate) use search::find_rate;

/// Time between two checks whether a server is still behind.
const BEHIND_PAUSE: Duration = Duration::from_millis(200);

/// Set by Ctrl-C: every run stops at its next operation and reports the results so far.
pub(crate) static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Options of a run in addition to the configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    pub(crate) workload: String,
    pub(crate) command: Vec<String>,
    pub(crate) placing: TargetServerOptions,
    /// Kill the (private) server with SIGKILL in the middle of the writes, and restart it.
    pub(crate) kill_server: bool,
    /// Numbers of clients for the queries after the writes; empty: as many as for the writes.
    pub(crate) query_clients: Vec<usize>,
    /// Search for the highest write rate whose 99th percentile of latency is below this.
    pub(crate) find_rate_p99: Option<Duration>,
    /// This process' membership in a run of several processes.
    pub(crate) member: Option<Arc<Member>>,
}

/// Displays the progress of a run.
pub(crate) trait Show {
    /// A new stage started.
    fn stage(&mut self, text: &str);
    /// Progress of a phase.
    fn progress(&mut self, plan: &Plan, progress: &Progress);
    /// Progress of another long step. It is called often, and `text` is evaluated only when it is
    /// displayed.
    fn live(&mut self, _text: &dyn Fn() -> String) {}
}

/// Runs `order` on `target`.
///
/// # Errors
/// The run could not start or continue. Failed operations and wrong answers are not errors: they
/// are part of the result.
pub(crate) fn run(order: &Order, config: &Arc<Config>, target: &Target, show: &mut dyn Show) -> Result<RunResult> {
    if order.find_rate_p99.is_some() && config.run_seconds <= 0.0 {
        return Err(Error::setup(format!(
            "--find-rate needs a time limit, but LOOP={} ends the writes earlier: give --seconds instead",
            config.loop_
        )));
    }
    let workload = workload::open(&order.workload, config)?;
    show.stage(&format!("{}: starting", target.name));
    let columns = workload.schema().tables.iter().map(|table| table.fields.len() as u64).sum();
    let target_server = TargetServer::open(target, &order.placing, columns)?;
    let opening = Opening {
        target: target_server.target.clone(),
        schema: Arc::clone(workload.schema()),
        config: Arc::clone(config),
    };
    let driver: Arc<dyn Driver> = Arc::from(drivers::open(opening)?);
    Run::new(order, config, workload, driver, target_server)?.run(show)
}

pub(crate) struct Run<'a> {
    order: &'a Order,
    config: &'a Arc<Config>,
    workload: Arc<dyn Workload>,
    driver: Arc<dyn Driver>,
    about: About,
    /// Behind a lock, because the server may be killed and restarted while clients run.
    target_server: Mutex<TargetServer>,
    stop: Arc<AtomicBool>,
    result: RunResult,
    /// Whether the wait for an idle server has been done.
    settled: bool,
}

impl<'a> Run<'a> {
    fn new(
        order: &'a Order,
        config: &'a Arc<Config>,
        workload: Arc<dyn Workload>,
        driver: Arc<dyn Driver>,
        target_server: TargetServer,
    ) -> Result<Run<'a>> {
        let about = driver.about();
        let result = RunResult {
            format: RESULT_FORMAT,
            tool: format!("millrace bench {}", env!("CARGO_PKG_VERSION")),
            command: order.command.clone(),
            started: jiff::Zoned::now().strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
            workload: order.workload.clone(),
            target: target_result(&target_server, &about),
            machine: proc::machine(),
            configuration: config.entries().map(|(key, value)| (key.to_owned(), value)).collect(),
            ..RunResult::default()
        };
        let stop = Arc::new(AtomicBool::new(false));
        Ok(Run {
            order,
            config,
            workload,
            driver,
            about,
            target_server: Mutex::new(target_server),
            stop,
            result,
            settled: false,
        })
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
        // The members of a run start their clocks together.
        self.meet("registered")?;
        let mut engine = Engine::new(self.config, &self.workload, &self.driver, &self.stop, recorder);
        engine.network = self.lock_target_server().server.as_ref().and_then(|server| server.network().cloned());
        engine.member.clone_from(&self.order.member);
        if self.order.kill_server {
            engine.patience = Duration::from_secs(120);
        }
        if !self.config.writes() {
            // Without writes, an earlier run with this configuration has written everything.
            engine.ledger.assume_all(&*self.workload);
        }
        let (pids, dirs) = {
            let target_server = self.lock_target_server();
            (target_server.pids.clone(), target_server.dirs.clone())
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
            self.result.notes.push(format!("operations are stored in {}", store.location()));
        }
        self.explain();
        Ok(self.result)
    }

    fn lock_target_server(&self) -> std::sync::MutexGuard<'_, TargetServer> {
        self.target_server.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn labels(&self) -> store::Labels {
        store::Labels {
            operations: self.workload.kinds().iter().map(|kind| kind.stored_name.to_owned()).collect(),
            schema: Arc::clone(self.workload.schema()),
        }
    }

    /// Reads the version, deletes old data and creates the schema.
    fn prepare(&mut self, show: &mut dyn Show) -> Result<()> {
        let (driver, config) = (Arc::clone(&self.driver), Arc::clone(self.config));
        show.stage(&format!("{}: deleting the data of earlier runs", self.about.product));
        // One member deletes, and the others wait for it.
        let clears = config.is_delete_data && self.order.member.as_ref().is_none_or(|member| member.index == 0);
        let version = self.lock_target_server().inside(|| {
            let mut connection = driver.connect(0)?;
            let version = connection.version()?;
            if clears {
                connection.clear().map_err(|error| error.during("deleting the data of earlier runs"))?;
            }
            Ok(version)
        })?;
        // If the product does not report its version, use that of the program started.
        let started = self.lock_target_server().server.as_ref().map(|server| server.version().to_owned());
        self.result.target.version = if version.starts_with("unknown") { started.unwrap_or(version) } else { version };
        let notes = self.lock_target_server().server.as_ref().map(|server| {
            let mut notes = server.notes().to_vec();
            let settings = server.settings().join(", ");
            if !settings.is_empty() {
                notes.push(format!("the server was started with: {settings}"));
            }
            notes
        });
        self.result.notes.extend(notes.unwrap_or_default());
        if self.config.is_delete_data && self.lock_target_server().server.is_none() {
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

    /// Registers devices in parallel, a range for each schema client; returns the seconds of the
    /// slowest one.
    fn create_schema(&self) -> Result<f64> {
        let devices = self.workload.schema().devices.len();
        let clients = (self.config.schema_client_number as usize).clamp(1, devices.max(1));
        let target_server = self.lock_target_server();
        let barrier = Barrier::new(clients);
        let work = |client: usize| {
            let connection = target_server.enter().and_then(|()| self.driver.connect(client));
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

    /// Runs all phases, and waits until the server is idle after the writes.
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
            // Queries run on settled data.
            if plan.mix.first() == Some(&0.0) && self.wrote() {
                // Answers are compared with all data written, so the rate search, which writes,
                // must come first.
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

    /// Waits for the other members of the run, if there are any.
    fn meet(&self, point: &str) -> Result<()> {
        self.order.member.as_ref().map_or(Ok(()), |member| member.wait_at(point))
    }

    /// Leaves the run, so that the other members do not wait for this one.
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
            self.result.stopped.get_or_insert_with(|| format!("TEST_MAX_TIME={elapsed} ms elapsed"));
        }
        self.result.stopped.is_some()
    }

    /// Plans the phases: a single one as in the original; or first the writes, then a phase for
    /// each kind of query.
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

    /// Returns the only kind of operation that the mode runs, if it runs a single one.
    fn only_kind(&self) -> Option<usize> {
        match self.config.benchmark_work_mode {
            WorkMode::VerificationWrite => Some(0),
            WorkMode::VerificationQuery => Some(readback::VERIFICATION_QUERY),
            _ => self.config.is_point_comparison.then_some(readback::DEVICE_QUERY),
        }
    }

    /// A phase with everything of one kind: all writes, or all queries.
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

    /// Number of values in a typical write request.
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

    /// Starts a thread that measures, on a connection of its own, the time from acknowledgement to
    /// visibility.
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

    /// Measures sync latency of the disk below a private server's data; `None` if the tool cannot
    /// write there.
    fn probe_disk(&self) -> Option<FsyncProbe> {
        let target_server = self.lock_target_server();
        FsyncProbe::start(target_server.server.as_ref()?.dir()).ok()
    }

    /// Kills the server with SIGKILL after a third of the writing time (5 s for runs without a time
    /// limit), and restarts it on the same directory.
    fn kill_in_the_middle(&self, engine: &Engine, sampler: &Sampler) -> Result<String> {
        let wait = match self.config.run_seconds {
            seconds if seconds > 0.0 => Duration::from_secs_f64(seconds / 3.0),
            _ => Duration::from_secs(5),
        };
        let due = Instant::now() + wait;
        while Instant::now() < due && !self.stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut target_server = self.lock_target_server();
        let Some(server) = target_server.server.as_mut() else {
            return Err(Error::setup("--kill-server: only a server that this tool started can be killed".to_owned()));
        };
        let _ = sampler.now();
        let at = engine.start.elapsed();
        server.kill9()?;
        let down = Instant::now();
        server.restart()?;
        let pids = server.root_pids();
        sampler.replace_pids(&pids);
        target_server.pids = pids;
        Ok(format!(
            "the server was killed (SIGKILL) at {:.1} s and answered again after {:.2} s",
            at.as_secs_f64(),
            down.elapsed().as_secs_f64()
        ))
    }

    /// Asks the server to finish flushing and compaction, waits until it is idle, and computes the
    /// figures.
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
        show.stage(&format!("{}: waiting until the server is idle", self.about.product));
        let began = Instant::now();
        let target_server = self.lock_target_server();
        let asked = target_server.inside(|| {
            let mut connection = self.driver.connect(0)?;
            wait_while_behind(&mut *connection, Duration::from_secs_f64(self.config.settle_max))?;
            connection.settle()
        });
        let asked_s = began.elapsed().as_secs_f64();
        let left = Duration::from_secs_f64(self.config.settle_max).saturating_sub(began.elapsed());
        let rest = wait_until_idle(&target_server.pids, &target_server.dirs, left, &INTERRUPTED);
        drop(target_server);
        if let Err(error) = asked {
            self.result.notes.push(format!("the data did not settle: {error}"));
        }
        let after = sampler.now();
        let points: u64 =
            self.result.phases.iter().filter_map(|phase| phase.operations.first()).map(|op| op.ok_points).sum();
        let server = self.result.server.get_or_insert_with(ServerResult::default);
        server.points = points;
        // CPU that the server used in the idle window is its cost without work, so it is not
        // charged to the writes.
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
                "the server was not idle {:.0} s after the writes (SETTLE_MAX){cores}: size and CPU are not final",
                began.elapsed().as_secs_f64()
            ));
        }
        let _ = engine;
        Ok(())
    }

    /// Checks the recorded answers, then all points.
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
            let target_server = self.lock_target_server();
            let audited = target_server.inside(|| {
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

    /// Returns a finding if parts of the data that had to be read back could not be read.
    fn not_read_back(&self, verification: &Verification) -> Option<String> {
        let kind = self.only_kind().filter(|_| self.result.stopped.is_none())?;
        let (questions, checked) = (self.workload.questions(kind)?, verification.answers[kind].checked);
        let name = self.workload.kinds()[kind].name;
        (checked < questions).then(|| format!("{name}: {checked} of {questions} parts of the data could be read back"))
    }

    /// Adds notes to rows without operations or without values.
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

/// Explains why all answers of a kind were correct and empty.
fn empty_answers(config: &Config, kind: usize) -> String {
    match kind {
        1 if config.compat => "START_TIME itself is never written: the original's Q1 finds nothing".to_owned(),
        3 | 5 | 6 | 10 => format!("no value is above QUERY_LOWER_VALUE={}", config.query_lower_value),
        _ => "no data in the windows of the queries: check START_TIME, STEP_SIZE and QUERY_INTERVAL".to_owned(),
    }
}

struct Watch<'a> {
    limit_ms: u64,
    stop: &'a AtomicBool,
    show: &'a mut dyn Show,
}

/// Waits until all acknowledged writes are visible.
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

fn target_result(target_server: &TargetServer, about: &About) -> TargetResult {
    let target = &target_server.target;
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

/// Result of a run that could not start or continue, next to the results of other runs.
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

/// Copies `config` with other settings.
///
/// # Errors
/// A setting is invalid.
pub(crate) fn with_settings(config: &Config, settings: &[(&str, String)]) -> Result<Arc<Config>> {
    let mut config = config.clone();
    for (key, value) in settings {
        config.set(key, value, Source::CommandLine)?;
    }
    Ok(Arc::new(config))
}

/// Formats median and 99th percentile for a line of text.
pub(crate) fn quantile_line(latency: &Latency) -> String {
    format!("p50 {:.2} ms, p99 {:.2} ms", latency.median, latency.p99)
}

#[cfg(test)]
mod tests;
