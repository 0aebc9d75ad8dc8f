//! Load generator: client threads that write and query, on a schedule or as fast as the target
//! allows, and record latencies.
//!
//! Words: in a *phase* a number of clients run one mix of operations. A *loop* is one draw from the
//! mix. A write loop writes one batch for each device of its client, as in IoT-benchmark.
//!
//! Always true: encoding, decoding and checking are outside the measured time; a write is in the
//! ledger before its first byte is sent; in an open loop, latency counts from the scheduled time,
//! not from the time of sending.

mod client;
pub(crate) mod histogram;
pub(crate) mod recorder;
mod verifier;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use crate::cluster::Member;
use crate::config::Config;
use crate::drivers::Driver;
use crate::error::{Error, Result};
use crate::ledger::Ledger;
use crate::measure::proc;
use crate::peers::Network;
use crate::report::store;
use crate::result::{Checked, Failure, PhaseResult, Second};
use crate::workload::Workload;
use recorder::Recorder;
use verifier::Verifier;

/// End of a phase, unless the stop flag ends it earlier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum End {
    /// After this many loops of each client.
    Loops(u64),
    /// After this many operations of all clients.
    Operations(u64),
    /// After this many queries, the workload's own list: each is sent once, by any client.
    Once(u64),
    /// After this time.
    Clock(Duration),
}

/// Work of a phase.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) name: String,
    pub(crate) clients: usize,
    /// Weight of each operation kind; kind 0 is writing.
    pub(crate) mix: Vec<f64>,
    pub(crate) end: End,
    /// Requests per second over all clients; 0: closed loop.
    pub(crate) rate: f64,
    /// Operations started earlier are not measured.
    pub(crate) warmup: Duration,
}

impl Plan {
    fn writes(&self) -> bool {
        self.mix.first().is_some_and(|weight| *weight > 0.0)
    }
}

/// State of a run across its phases.
pub(crate) struct Engine {
    config: Arc<Config>,
    workload: Arc<dyn Workload>,
    driver: Arc<dyn Driver>,
    pub(crate) ledger: Ledger,
    pub(crate) start: Instant,
    /// Devices in the order in which they are assigned to clients.
    order: Vec<u32>,
    /// Next unit of each device, for clients bound to devices.
    next: Vec<AtomicU64>,
    /// Next position over the units of all devices, for clients not bound to devices.
    cursor: AtomicU64,
    /// Newest acknowledged timestamp of each client; `i64::MIN`: none.
    newest: Vec<AtomicI64>,
    /// Set by Ctrl-C and by time limits: clients end after the current operation.
    pub(crate) stop: Arc<AtomicBool>,
    verifier: Verifier,
    /// Store of the operation records, if configured.
    records: Option<store::Recorder>,
    /// Sends acknowledged rows to the visibility probe.
    fresh: Mutex<Option<SyncSender<Fresh>>>,
    /// Network namespace in which the target's addresses are valid.
    pub(crate) network: Option<Network>,
    /// An example statement of each kind.
    pub(crate) examples: Mutex<Vec<Option<String>>>,
    /// Time for which clients retry to connect; long during a planned restart of the server.
    pub(crate) patience: Duration,
    /// Membership in a distributed run, whose members start phases together.
    pub(crate) member: Option<Arc<Member>>,
}

/// Results of a phase.
pub(crate) struct Outcome {
    pub(crate) phase: PhaseResult,
    pub(crate) seconds: Vec<Second>,
    pub(crate) failures: Vec<Failure>,
}

/// A row that has just been acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fresh {
    pub(crate) device: u32,
    pub(crate) table: u32,
    pub(crate) time: i64,
    pub(crate) acknowledged: Instant,
}

/// Progress of a phase, for display.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    pub(crate) operations: u64,
    pub(crate) points: u64,
    pub(crate) failed: u64,
    /// Finished part of the phase, 0 ..= 1.
    pub(crate) share: f64,
    pub(crate) elapsed: Duration,
}

impl Engine {
    pub(crate) fn new(
        config: &Arc<Config>,
        workload: &Arc<dyn Workload>,
        driver: &Arc<dyn Driver>,
        stop: &Arc<AtomicBool>,
        records: Option<store::Recorder>,
    ) -> Engine {
        let devices = workload.schema().devices.len();
        let clients = config.data_client_number as usize;
        let about = driver.about();
        Engine {
            verifier: Verifier::new(config, workload.kinds().len(), !about.visible_at_once),
            config: Arc::clone(config),
            workload: Arc::clone(workload),
            driver: Arc::clone(driver),
            ledger: Ledger::new(devices),
            start: Instant::now(),
            order: workload.order(),
            next: (0..devices).map(|_| AtomicU64::new(0)).collect(),
            cursor: AtomicU64::new(0),
            newest: (0..clients.max(1024)).map(|_| AtomicI64::new(i64::MIN)).collect(),
            stop: Arc::clone(stop),
            records,
            fresh: Mutex::new(None),
            network: None,
            examples: Mutex::new(vec![None; workload.kinds().len()]),
            patience: Duration::from_secs(2),
            member: None,
        }
    }

    /// Moves the calling thread to the network namespace in which the target can be reached.
    pub(crate) fn enter(&self) -> Result<()> {
        self.network.as_ref().map_or(Ok(()), Network::enter)
    }

    /// Starts to send acknowledged rows to `sender`; rows are dropped while it is full.
    pub(crate) fn probe_with(&self, sender: SyncSender<Fresh>) {
        *lock(&self.fresh) = Some(sender);
    }

    /// Stops sending rows, which closes the probe's channel.
    pub(crate) fn end_of_probes(&self) {
        *lock(&self.fresh) = None;
    }

    /// Takes the store of operation records, to close it.
    pub(crate) fn take_records(&mut self) -> Option<store::Recorder> {
        self.records.take()
    }

    /// Runs one phase. `number` is its index in the run; `show` is called every 10 to 100 ms.
    ///
    /// # Errors
    /// No client could connect, or a query cannot be built from the configuration.
    pub(crate) fn run(&self, plan: &Plan, number: u32, show: &mut dyn FnMut(&Progress)) -> Result<Outcome> {
        let recorder = Recorder::new(self.start, number);
        self.verifier.expect(plan);
        let shared = Phase {
            engine: self,
            plan,
            recorder: &recorder,
            ready: Barrier::new(plan.clients + 1),
            begin: Mutex::new(None),
            done: AtomicU64::new(0),
            share_left: AtomicU64::new(match plan.end {
                End::Operations(n) | End::Once(n) => n,
                _ => u64::MAX,
            }),
            loops: AtomicU64::new(0),
            errors: Mutex::new(Vec::new()),
            connected: AtomicU64::new(0),
        };
        let cpu = std::thread::scope(|scope| {
            for index in 0..plan.clients {
                let shared = &shared;
                std::thread::Builder::new()
                    .name(format!("client {index}"))
                    .stack_size(512 << 10)
                    .spawn_scoped(scope, move || client::run(shared, index))
                    .map_err(|error| Error::setup(format!("client {index}: no thread: {error}")))?;
            }
            shared.ready.wait();
            let synchronized =
                self.member.as_ref().map_or(Ok(()), |member| member.wait_at(&format!("begin {}", plan.name)));
            if synchronized.is_err() {
                // The clients still wait at the barrier; they stop as soon as it opens.
                self.stop.store(true, Ordering::Relaxed);
            }
            let cpu = proc::own_cpu_s();
            *lock(&shared.begin) = Some(Instant::now());
            shared.ready.wait();
            shared.watch(show);
            synchronized.map(|()| proc::own_cpu_s() - cpu)
        })?;
        let errors = shared.errors.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        if shared.connected.into_inner() == 0 {
            return Err(errors
                .into_iter()
                .next()
                .unwrap_or_else(|| Error::setup("no client could connect".to_owned())));
        }
        let began = lock(&shared.begin).unwrap_or(self.start);
        if let Some(fatal) = errors.into_iter().find(|error| error.class == crate::error::Class::Setup) {
            return Err(fatal);
        }
        Ok(self.outcome(plan, recorder, began, cpu))
    }

    fn outcome(&self, plan: &Plan, recorder: Recorder, began: Instant, client_cpu_s: f64) -> Outcome {
        let mut recorded = recorder.finish(self.workload.kinds());
        let examples = lock(&self.examples);
        for (operation, example) in recorded.operations.iter_mut().zip(examples.iter()) {
            operation.example = example.clone().filter(|_| operation.ok + operation.failed > 0);
        }
        let (client_bound, client_bound_why) = self.client_bound(plan, &recorded, client_cpu_s);
        Outcome {
            phase: PhaseResult {
                name: plan.name.clone(),
                clients: plan.clients as u32,
                rate: plan.rate,
                elapsed_s: recorded.elapsed.as_secs_f64(),
                began_s: (began - self.start).as_secs_f64(),
                operations: recorded.operations,
                server_cpu_s: None,
                client_cpu_s,
                client_bound,
                client_bound_why,
            },
            seconds: recorded.seconds,
            failures: recorded.failures,
        }
    }

    /// Whether the clients were the bottleneck, and why: they were if they waited little for the
    /// target or used most of the processors.
    fn client_bound(&self, plan: &Plan, recorded: &recorder::Recorded, cpu_s: f64) -> (bool, String) {
        let elapsed = recorded.elapsed.as_secs_f64();
        if elapsed <= 0.0 {
            return (false, "nothing was measured".to_owned());
        }
        let cpus = f64::from(proc::machine().cpus.max(1));
        let waiting = recorded.service.as_secs_f64() / (elapsed * plan.clients as f64);
        let used = cpu_s / (elapsed * cpus);
        let why = format!(
            "clients waited for the target {:.0} % of the time and used {:.0} % of this machine's processors",
            waiting * 100.0,
            used * 100.0
        );
        // In an open loop clients also wait for their schedule, so that only the processors count.
        ((plan.rate == 0.0 && waiting < 0.3) || used > 0.7, why)
    }

    /// Checks the deferred answers. Returns the checks by kind, the findings and the CPU seconds of
    /// checking.
    pub(crate) fn verified(&self) -> (Vec<Checked>, Vec<String>, f64) {
        self.verifier.results(&*self.workload, &self.ledger)
    }

    /// Loops of a client until all data of the workload is written.
    pub(crate) fn passes(&self) -> u64 {
        let per_pass = self.workload.units_per_pass();
        self.order.iter().map(|device| self.workload.units(*device).div_ceil(per_pass)).max().unwrap_or(0)
    }

    /// Devices of client `index` of `clients`: a consecutive part of the order; the first clients
    /// have one more.
    fn share(&self, index: usize, clients: usize) -> &[u32] {
        let (quotient, rest) = (self.order.len() / clients, self.order.len() % clients);
        let start = index * quotient + index.min(rest);
        &self.order[start..start + quotient + usize::from(index < rest)]
    }
}

/// State shared by the threads of a phase.
struct Phase<'a> {
    engine: &'a Engine,
    plan: &'a Plan,
    recorder: &'a Recorder,
    /// Used twice: when all clients are connected, and at the start of the phase.
    ready: Barrier,
    begin: Mutex<Option<Instant>>,
    /// Clients that have ended.
    done: AtomicU64,
    /// Operations that no client has taken yet.
    share_left: AtomicU64,
    /// Finished loops of all clients.
    loops: AtomicU64,
    errors: Mutex<Vec<Error>>,
    connected: AtomicU64,
}

impl Phase<'_> {
    /// Shows progress until the last client has ended.
    fn watch(&self, show: &mut dyn FnMut(&Progress)) {
        let begin = lock(&self.begin).unwrap_or(self.engine.start);
        while self.done.load(Ordering::Acquire) < self.plan.clients as u64 {
            std::thread::sleep(Duration::from_millis(if begin.elapsed().as_secs() < 1 { 10 } else { 100 }));
            show(&self.progress(begin));
        }
    }

    fn progress(&self, begin: Instant) -> Progress {
        let elapsed = begin.elapsed();
        let share = match self.plan.end {
            End::Clock(whole) => elapsed.as_secs_f64() / whole.as_secs_f64(),
            End::Operations(n) | End::Once(n) => {
                1.0 - self.share_left.load(Ordering::Relaxed).min(n) as f64 / n.max(1) as f64
            }
            End::Loops(n) => self.loops.load(Ordering::Relaxed) as f64 / (n.max(1) * self.plan.clients as u64) as f64,
        };
        Progress {
            operations: self.recorder.operations.load(Ordering::Relaxed),
            points: self.recorder.points.load(Ordering::Relaxed),
            failed: self.recorder.failed.load(Ordering::Relaxed),
            share: share.clamp(0.0, 1.0),
            elapsed,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
