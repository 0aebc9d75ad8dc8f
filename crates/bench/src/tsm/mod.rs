//! The load, scaling and latency tests of managed time series, as HAKOM publishes them for its TSM, on
//! Millrace's REST API and on PostgreSQL.
//!
//! A run: servers are found or started; series are defined; clients write and read them by requests of
//! one or several series; every answer is compared with what was written ([`plan`]).
//!
//! Bodies are encoded before the clock starts, and answers are kept and checked after it stops. Both
//! need memory, so that a long test runs in rounds of [`ROUND_BYTES_MAX`]: in each, the clients start
//! together, and the clock stops when the last one has its last answer. Times are sums over rounds.
//!
//! Always true:
//! - Encoding and checking are outside the measured time; latency is from the call to its answer.
//! - A run with a wrong answer has no figures: [`report`] leaves them out.

mod millrace;
mod plan;
mod postgres;
pub(crate) mod report;
mod store;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::drivers::Target;
use crate::engine::histogram::{empty, latency};
use crate::error::{Error, Result};
use crate::generate;
use crate::measure::proc;
use crate::measure::sampler::wait_until_idle;
use crate::measure::tree::{Tree, Usage};
use crate::peers::Server;
use crate::report::format::whole;
use crate::run::target_server::{TargetServer, TargetServerOptions};
use crate::run::{INTERRUPTED, Show};
use crate::tpcc::report::Subject;
use millrace::Millrace;
use plan::{Part, Seen, Shape};
use postgres::{Layout, Postgres};
use report::Figure;
pub(crate) use report::Report;
use store::{Client, Store};

/// Bytes of bodies or answers that are kept at a time.
const ROUND_BYTES_MAX: u64 = 512 << 20;
/// Estimated bytes of a value in a body or an answer; JSON has 56.
const VALUE_BYTES: u64 = 64;
/// Series per request that prepares the data of a latency test, and number of its clients.
pub(crate) const LATENCY_BULK: u32 = 50;
const LATENCY_WRITERS: usize = 4;
/// Pause of a client after a failed request, so that a dead server does not keep it busy.
const FAILURE_PAUSE: Duration = Duration::from_millis(10);
/// Greatest number of different errors in a report.
const FAILURES_MAX: usize = 10;
const HALF_HOUR_S: u32 = 1_800;
const QUARTER_HOUR_S: u32 = 900;

/// Encoding of bodies of Millrace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// `{"From": …, "Value": …, "Flag": …}` for each value.
    Json,
    /// An Arrow IPC stream.
    Arrow,
}

/// Order of the requests of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub(crate) enum Service {
    /// One after the other.
    Serial,
    /// Concurrently.
    #[default]
    Parallel,
}

impl Service {
    /// Name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Service::Serial => "serial",
            Service::Parallel => "parallel",
        }
    }
}

/// Series of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub(crate) enum Requests {
    /// One.
    Single,
    /// Several.
    #[default]
    Bulk,
}

impl Requests {
    /// Name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Requests::Single => "single",
            Requests::Bulk => "bulk",
        }
    }
}

/// Direction of the values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Operation {
    #[default]
    Write,
    Read,
}

impl Operation {
    /// Name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::Write => "write",
            Operation::Read => "read",
        }
    }
}

/// A test with its parameters.
#[derive(Clone, Debug)]
pub(crate) enum Test {
    /// Writes and reads large sets of half-hourly series by bulk requests.
    Load {
        /// Sizes of the sets.
        series: Vec<u32>,
        days: u32,
        /// Numbers of clients that write; each writes sets of its own.
        writers: Vec<usize>,
        /// Numbers of clients that read; each reads all sets.
        readers: Vec<usize>,
        bulk: u32,
    },
    /// Writes and reads quarter-hourly series by single and bulk requests.
    Scaling {
        series: u32,
        days: u32,
        requests: Vec<Requests>,
        /// Series per bulk request.
        bulk: u32,
        /// Concurrent clients.
        users: usize,
        services: Vec<Service>,
        repeats: u32,
        /// Numbers of servers among which requests are spread.
        front_ends: Vec<usize>,
    },
    /// Reads days of single series for a time.
    Latency { series: u32, days: u32, clients: Vec<usize>, length: Duration },
}

impl Test {
    /// Name in reports and on the command line.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Test::Load { .. } => "load",
            Test::Scaling { .. } => "scaling",
            Test::Latency { .. } => "latency",
        }
    }
}

/// Settings of a run.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) test: Test,
    /// Addresses of running servers of Millrace, `HOST:PORT`; if empty, a private one is started.
    pub(crate) urls: Vec<String>,
    pub(crate) seed: u64,
    /// Longest wait for an idle server after writes; zero: none.
    pub(crate) settle: Duration,
    pub(crate) placing: TargetServerOptions,
    pub(crate) command: Vec<String>,
}

/// A product with the form of its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Millrace(Format),
    Postgres(Layout),
}

impl Kind {
    fn product(self) -> &'static str {
        match self {
            Kind::Millrace(_) => "Millrace",
            Kind::Postgres(_) => "PostgreSQL",
        }
    }

    /// Description in reports.
    fn form(self) -> &'static str {
        match self {
            Kind::Millrace(Format::Json) => "REST, JSON",
            Kind::Millrace(Format::Arrow) => "REST, Arrow",
            Kind::Postgres(Layout::Rows) => "a row for each value",
            Kind::Postgres(Layout::Blocks) => "a deflated block for each series and day",
        }
    }
}

/// Runs the test on a target: once for each format if it is Millrace. Calls `each` with the report of
/// each run.
///
/// # Errors
/// The run could not start or continue. A wrong answer is not an error: it is a finding of the report.
pub(crate) fn run(
    settings: &Settings,
    target: &Target,
    formats: &[Format],
    show: &mut dyn Show,
    each: &mut dyn FnMut(Report) -> Result<()>,
) -> Result<()> {
    target.only(&[])?;
    let kinds: Vec<Kind> = match target.name.as_str() {
        "millrace" => formats.iter().copied().map(Kind::Millrace).collect(),
        "postgres-rows" => vec![Kind::Postgres(Layout::Rows)],
        "postgres-blocks" => vec![Kind::Postgres(Layout::Blocks)],
        other => {
            return Err(Error::setup(format!("--target {other}: expected millrace, postgres-rows or postgres-blocks")));
        }
    };
    for kind in kinds {
        show.stage(&format!("{}, {}: starting", kind.product(), kind.form()));
        let (target, placing) = server_of(settings, target, kind);
        let mut place = TargetServer::open(&target, &placing, 4)?;
        let report = run_at(settings, kind, &place, show);
        // A refused connection is explained by the end of the server's log.
        let report = report.map_err(|error| match place.server.as_mut().map(Server::check_alive) {
            Some(Err(ended)) => error.during(ended),
            _ => error,
        })?;
        drop(place);
        each(report)?;
    }
    Ok(())
}

/// The target with its product's name, and the processes of its servers.
fn server_of(settings: &Settings, target: &Target, kind: Kind) -> (Target, TargetServerOptions) {
    let mut target = target.clone();
    let mut placing = settings.placing.clone();
    match kind {
        Kind::Postgres(_) => "postgres".clone_into(&mut target.name),
        Kind::Millrace(_) => {
            if !settings.urls.is_empty() {
                target.hosts.clone_from(&settings.urls);
            }
            if placing.pids.is_empty() {
                placing.pids = target.hosts.iter().flat_map(|host| local_pids(host)).collect();
                placing.pids.dedup();
            }
        }
    }
    (target, placing)
}

/// Processes that listen on an address of this machine.
fn local_pids(address: &str) -> Vec<u32> {
    let Some((host, port)) = address.rsplit_once(':') else { return Vec::new() };
    let local = matches!(host, "127.0.0.1" | "localhost" | "[::1]");
    port.parse().map_or_else(|_| Vec::new(), |port| if local { proc::listening_pids(port, None) } else { Vec::new() })
}

fn open(kind: Kind, place: &TargetServer) -> Result<Box<dyn Store>> {
    let target = &place.target;
    Ok(match kind {
        Kind::Postgres(layout) => Box::new(Postgres::open(layout, target)?),
        Kind::Millrace(format) => match target.options.get("http") {
            // A private server: the target's address is that of PostgreSQL's protocol.
            Some(http) => Box::new(Millrace::open(vec![http.clone()], Some(target.address(0, 7432)?), format)?),
            None => {
                let count = target.hosts.len();
                let addresses: Vec<String> = (0..count).map(|at| target.address(at, 7480)).collect::<Result<_>>()?;
                Box::new(Millrace::open(addresses, None, format)?)
            }
        },
    })
}

fn run_at(settings: &Settings, kind: Kind, place: &TargetServer, show: &mut dyn Show) -> Result<Report> {
    let store = open(kind, place)?;
    let mut report = Report::new(settings, kind, subject(kind, place, store.as_ref())?);
    let tree = Tree::new(&place.pids);
    let mut run = Run { settings, kind, place, store: store.as_ref(), tree, sets: Vec::new() };
    let outcome = match &settings.test {
        Test::Load { .. } => run.load(&mut report, show),
        Test::Scaling { .. } => run.scaling(&mut report, show),
        Test::Latency { .. } => run.latency(&mut report, show),
    };
    let mut removed = Ok(());
    if place.server.is_none() {
        show.stage(&format!("{}: removing the series", kind.product()));
        removed = run.sets.iter().try_for_each(|set| run.store.drop_series(set));
    }
    match outcome {
        Ok(()) => {}
        Err(Stop::Failed(error)) => return Err(error),
        Err(Stop::Wrong(finding)) => report.findings.push(finding),
        Err(Stop::Interrupted) => {
            report.notes.push("stopped by Ctrl-C; the steps before it are verified and shown".to_owned());
        }
    }
    removed?;
    Ok(report)
}

fn subject(kind: Kind, place: &TargetServer, store: &dyn Store) -> Result<Subject> {
    let server = place.server.as_ref();
    let unknown = || "as configured on the server".to_owned();
    Ok(Subject {
        name: place.target.name.clone(),
        url: place.target.display_url(),
        product: kind.product().to_owned(),
        version: server.map_or_else(|| store.version(), |server| Ok(server.version().to_owned()))?,
        durability: server.map_or_else(unknown, |s| format!("{} ({})", s.durability(), s.durability_reason())),
        server_settings: server.map_or_else(Vec::new, |server| server.settings().to_vec()),
    })
}

impl Report {
    fn new(settings: &Settings, kind: Kind, target: Subject) -> Report {
        let (days, step_s) = match &settings.test {
            Test::Load { days, .. } => (*days, HALF_HOUR_S),
            Test::Scaling { days, .. } | Test::Latency { days, .. } => (*days, QUARTER_HOUR_S),
        };
        Report {
            tsm: settings.test.name().to_owned(),
            tool: format!("millrace bench {}", env!("CARGO_PKG_VERSION")),
            command: settings.command.clone(),
            started: jiff::Zoned::now().strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
            machine: proc::machine(),
            target,
            form: kind.form().to_owned(),
            seed: settings.seed,
            days,
            step_minutes: step_s / 60,
            ..Report::default()
        }
    }
}

enum Stop {
    /// A value read differs from the one written.
    Wrong(String),
    Failed(Error),
    /// Ctrl-C.
    Interrupted,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Failed(error)
    }
}

type Checked<T> = std::result::Result<T, Stop>;

/// A run on one target.
struct Run<'a> {
    settings: &'a Settings,
    kind: Kind,
    place: &'a TargetServer,
    store: &'a dyn Store,
    tree: Tree,
    /// Sets that were created.
    sets: Vec<Shape>,
}

/// Sums over the requests of a step.
struct Step {
    values: u64,
    seconds: f64,
    client_cpu_s: f64,
    histogram: Histogram<u64>,
}

impl Default for Step {
    fn default() -> Step {
        Step { values: 0, seconds: 0.0, client_cpu_s: 0.0, histogram: empty() }
    }
}

/// Result of one client in a round.
struct Lap {
    began: Instant,
    ended: Instant,
    histogram: Histogram<u64>,
}

impl Run<'_> {
    // ---- tests ----

    fn load(&mut self, report: &mut Report, show: &mut dyn Show) -> Checked<()> {
        let settings = self.settings;
        let Test::Load { series: sizes, days, writers, readers, bulk } = &settings.test else { return Ok(()) };
        let front_ends = self.front_ends();
        let mut first = 0;
        for size in sizes {
            for (number, clients) in writers.iter().enumerate() {
                // Each set has new series, because replacing values is other work.
                let shape = self.create(first..first + size, HALF_HOUR_S, *days, show)?;
                first += size;
                let parts = shape.parts(*bulk);
                let title = format!("{} series", whole(u64::from(*size)));
                let of = |operation, clients: usize| Figure {
                    operation,
                    requests_of: Requests::Bulk,
                    series: *size,
                    series_per_request: (*bulk).min(*size),
                    clients: clients.min(parts.len()),
                    front_ends,
                    ..Figure::default()
                };
                self.stage(show, &format!("{title}, {clients} clients write"));
                let before_bytes = self.stored_bytes();
                let mut figure = of(Operation::Write, *clients);
                let cpu = self.usage();
                let step = self.step(Operation::Write, &shape, &parts, figure.clients, figure.front_ends, 0)?;
                self.stage(show, &format!("{title}, waiting until the server is idle"));
                let idle = self.settle()?;
                figure.add(&step, cpu_between(&cpu, &idle));
                figure.stored_bytes = before_bytes.zip(self.stored_bytes()).and_then(|(old, new)| new.checked_sub(old));
                report.figures.push(figure);
                // All sets of a size have the same values per series, so one is enough for reads.
                if number + 1 < writers.len() {
                    continue;
                }
                for clients in readers {
                    self.stage(show, &format!("{title}, {clients} clients read"));
                    let mut figure = of(Operation::Read, *clients);
                    self.measure(&mut figure, &shape, &parts, 0)?;
                    report.figures.push(figure);
                }
            }
        }
        Ok(())
    }

    fn scaling(&mut self, report: &mut Report, show: &mut dyn Show) -> Checked<()> {
        let settings = self.settings;
        let Test::Scaling { series, days, requests, bulk, users, services, repeats, front_ends } = &settings.test
        else {
            return Ok(());
        };
        let shape = self.create(0..*series, QUARTER_HOUR_S, *days, show)?;
        let mut version = 0;
        for front_ends in self.possible(front_ends) {
            for requests in requests {
                let bulk = if *requests == Requests::Single { 1 } else { (*bulk).min(*series) };
                let parts = shape.parts(bulk);
                for service in services {
                    let clients = if *service == Service::Serial { 1 } else { (*users).min(parts.len()) };
                    let of = |operation| Figure {
                        operation,
                        requests_of: *requests,
                        service: *service,
                        series: *series,
                        series_per_request: bulk,
                        clients,
                        front_ends,
                        ..Figure::default()
                    };
                    let title = |verb: &str, repeat: u32| {
                        let (requests, service) = (requests.name(), service.name());
                        let repeat = repeat + 1;
                        format!("{requests} requests, {service}, servers: {front_ends}; {verb}, {repeat} of {repeats}")
                    };
                    let mut written = of(Operation::Write);
                    for repeat in 0..*repeats {
                        self.stage(show, &title("writing", repeat));
                        version += 1;
                        self.measure(&mut written, &shape, &parts, version)?;
                    }
                    report.figures.push(written);
                    self.settle()?;
                    let mut read = of(Operation::Read);
                    for repeat in 0..*repeats {
                        self.stage(show, &title("reading", repeat));
                        self.measure(&mut read, &shape, &parts, version)?;
                    }
                    report.figures.push(read);
                }
            }
        }
        Ok(())
    }

    fn latency(&mut self, report: &mut Report, show: &mut dyn Show) -> Checked<()> {
        let settings = self.settings;
        let Test::Latency { series, days, clients, length } = &settings.test else { return Ok(()) };
        let shape = self.create(0..*series, QUARTER_HOUR_S, *days, show)?;
        self.stage(show, "writing");
        self.step(Operation::Write, &shape, &shape.parts(LATENCY_BULK), LATENCY_WRITERS, self.front_ends(), 0)?;
        self.settle()?;
        for clients in clients {
            self.stage(show, &format!("{clients} clients read for {} s", length.as_secs_f64()));
            let mut figure = Figure {
                operation: Operation::Read,
                requests_of: Requests::Single,
                series: *series,
                series_per_request: 1,
                clients: *clients,
                front_ends: self.front_ends(),
                ..Figure::default()
            };
            let cpu = self.usage();
            let client_cpu_s = proc::own_cpu_s();
            let (step, failures) = self.read_for(&shape, *clients, *length)?;
            let step = Step { client_cpu_s: proc::own_cpu_s() - client_cpu_s, ..step };
            figure.add(&step, cpu_between(&cpu, &self.usage()));
            figure.errors = failures.iter().map(|failure| failure.1).sum();
            let text = |(message, count): &(String, u64)| format!("{clients} clients: {count} times: {message}");
            report.failures.extend(failures.iter().map(text));
            report.figures.push(figure);
        }
        Ok(())
    }

    // ---- steps ----

    fn stage(&self, show: &mut dyn Show, text: &str) {
        show.stage(&format!("{}, {}: {text}", self.kind.product(), self.kind.form()));
    }

    /// Number of servers.
    fn front_ends(&self) -> usize {
        match self.kind {
            Kind::Millrace(_) => self.settings.urls.len().max(1),
            Kind::Postgres(_) => 1,
        }
    }

    /// Numbers of front ends that this target has.
    fn possible(&self, asked: &[usize]) -> Vec<usize> {
        let most = self.front_ends();
        let mut possible: Vec<usize> = asked.iter().map(|count| (*count).min(most)).collect();
        possible.dedup();
        if possible.is_empty() { vec![most] } else { possible }
    }

    fn create(&mut self, series: Range<u32>, step_s: u32, days: u32, show: &mut dyn Show) -> Checked<Shape> {
        self.stage(show, &format!("defining {} series", whole(series.len() as u64)));
        let shape = Shape::new(self.settings.seed, series, step_s, days);
        self.sets.push(shape.clone());
        self.store.create(&shape)?;
        Ok(shape)
    }

    /// Usage of the servers' processes.
    fn usage(&mut self) -> Usage {
        self.tree.scan();
        self.tree.read()
    }

    /// Bytes of the data directories without the write-ahead log.
    fn stored_bytes(&self) -> Option<u64> {
        let all = proc::allocated_bytes_of_all(&self.place.dirs)?;
        let logs = self.place.server.as_ref().and_then(|server| proc::allocated_bytes_of_all(server.log_dirs()));
        Some(all.saturating_sub(logs.unwrap_or(0)))
    }

    /// Waits until the server has done deferred work and is idle. Returns its usage then, minus its
    /// idle consumption.
    fn settle(&mut self) -> Result<Usage> {
        if self.settings.settle.is_zero() {
            return Ok(self.usage());
        }
        self.store.settle()?;
        let rest = wait_until_idle(&self.place.pids, &self.place.dirs, self.settings.settle, &INTERRUPTED);
        let mut usage = self.usage();
        usage.cpu_s = usage.cpu_s.map(|cpu_s| cpu_s - rest.quiet_cpu_s);
        Ok(usage)
    }

    /// Runs one repetition of a step and adds it to its figure.
    fn measure(&mut self, figure: &mut Figure, shape: &Shape, parts: &[Part], version: u32) -> Checked<()> {
        let before = self.usage();
        let step = self.step(figure.operation, shape, parts, figure.clients, figure.front_ends, version)?;
        let after = self.usage();
        figure.add(&step, cpu_between(&before, &after));
        Ok(())
    }

    /// Sends all requests, in rounds.
    fn step(
        &self,
        operation: Operation,
        shape: &Shape,
        parts: &[Part],
        clients: usize,
        front_ends: usize,
        version: u32,
    ) -> Checked<Step> {
        let mut clients: Vec<Box<dyn Client>> =
            (0..clients.max(1)).map(|client| self.store.connect(client, front_ends)).collect::<Result<_>>()?;
        let part_bytes = parts.iter().map(Part::values).max().unwrap_or(1) * VALUE_BYTES;
        let count = (ROUND_BYTES_MAX / part_bytes.max(1)).max(clients.len() as u64) as usize;
        let mut bodies: Vec<Mutex<Vec<u8>>> = Vec::new();
        bodies.resize_with(count.min(parts.len()), Mutex::default);
        let mut step = Step::default();
        for parts in parts.chunks(count) {
            if INTERRUPTED.load(Ordering::Relaxed) {
                return Err(Stop::Interrupted);
            }
            let bodies = &bodies[..parts.len()];
            if operation == Operation::Write {
                side_by_side(parts, bodies, |part, body| self.store.encode(shape, part, version, body))?;
            }
            let client_cpu_s = proc::own_cpu_s();
            let laps = round(operation, shape, parts, bodies, &mut clients)?;
            step.client_cpu_s += proc::own_cpu_s() - client_cpu_s;
            step.add(&laps);
            step.values += parts.iter().map(Part::values).sum::<u64>();
            if operation == Operation::Read {
                side_by_side(parts, bodies, |part, answer| self.check(shape, part, answer, version))?;
            }
        }
        Ok(step)
    }

    fn check(&self, shape: &Shape, part: &Part, answer: &[u8], version: u32) -> Checked<()> {
        let mut seen = Seen::new(shape, part);
        let checked = self.store.check(answer, &mut seen).and_then(|()| seen.check(version));
        checked.map_err(|wrong| Stop::Wrong(format!("{}, {}: {wrong}", self.kind.product(), self.kind.form())))
    }

    /// Reads days of single series until the time is over; the requests of a client follow each other
    /// without a pause. Returns the successful ones, and messages of failures with their numbers.
    fn read_for(&self, shape: &Shape, clients: usize, length: Duration) -> Checked<(Step, Vec<(String, u64)>)> {
        let mut links: Vec<Box<dyn Client>> =
            (0..clients).map(|client| self.store.connect(client, self.front_ends())).collect::<Result<_>>()?;
        let barrier = Barrier::new(clients);
        let failures: Mutex<Vec<(String, u64)>> = Mutex::default();
        let stopped = AtomicBool::new(false);
        let one = |number: usize, client: &mut dyn Client| -> Checked<Lap> {
            let stream = generate::stream(self.settings.seed, number as u64, clients as u64);
            let mut histogram = empty();
            let mut answer = Vec::new();
            barrier.wait();
            let began = Instant::now();
            let stop = || stopped.load(Ordering::Relaxed) || INTERRUPTED.load(Ordering::Relaxed);
            let mut draw = 0;
            while began.elapsed() < length && !stop() {
                let part = shape.day_of(generate::draw(stream, draw));
                draw += 1;
                let sent = Instant::now();
                let outcome = client.read(shape, &part, &mut answer);
                let took = sent.elapsed();
                match outcome {
                    Ok(()) => {
                        histogram.saturating_record(took.as_nanos() as u64);
                        self.check(shape, &part, &answer, 0).inspect_err(|_| stopped.store(true, Ordering::Relaxed))?;
                    }
                    Err(error) => {
                        count_failure(&mut failures.lock().unwrap_or_else(PoisonError::into_inner), &error);
                        std::thread::sleep(FAILURE_PAUSE);
                    }
                }
            }
            Ok(Lap { began, ended: Instant::now(), histogram })
        };
        let one = &one;
        let laps: Vec<Lap> = std::thread::scope(|scope| {
            let threads: Vec<_> = links
                .iter_mut()
                .enumerate()
                .map(|(number, client)| scope.spawn(move || one(number, client.as_mut())))
                .collect();
            let joined = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            joined.collect::<Checked<Vec<Lap>>>()
        })?;
        if INTERRUPTED.load(Ordering::Relaxed) {
            return Err(Stop::Interrupted);
        }
        let mut step = Step::default();
        step.add(&laps);
        step.values = step.histogram.len() * shape.per_day() as u64;
        Ok((step, failures.into_inner().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl Step {
    /// Adds a round: its time is from the first start to the last end of a client.
    fn add(&mut self, laps: &[Lap]) {
        let began = laps.iter().map(|lap| lap.began).min();
        let ended = laps.iter().map(|lap| lap.ended).max();
        self.seconds += began.zip(ended).map_or(0.0, |(began, ended)| (ended - began).as_secs_f64());
        for lap in laps {
            // All histograms have the same bounds, so that adding cannot fail.
            let _ = self.histogram.add(&lap.histogram);
        }
    }
}

impl Figure {
    /// Adds one repetition.
    fn add(&mut self, step: &Step, server_cpu_s: Option<f64>) {
        self.values = step.values;
        self.requests = step.histogram.len();
        self.seconds.push(step.seconds);
        self.server_cpu_s.push(server_cpu_s);
        self.client_cpu_s.push(step.client_cpu_s);
        // Latencies are those of the last repetition, which found caches as the ones before left them.
        self.latency_ms = latency(&step.histogram);
    }
}

/// CPU seconds between two readings; `None` if unknown.
fn cpu_between(before: &Usage, after: &Usage) -> Option<f64> {
    after.cpu_s.map(|after| (after - before.cpu_s.unwrap_or(0.0)).max(0.0))
}

fn count_failure(failures: &mut Vec<(String, u64)>, error: &Error) {
    let message = format!("{}: {}", error.class.name(), error.message);
    let length = failures.len();
    // Messages name series, so that they differ: the class is what counts beyond the limit.
    match failures.iter_mut().find(|(known, _)| *known == message) {
        Some((_, count)) => *count += 1,
        None if length < FAILURES_MAX => failures.push((message, 1)),
        None => {
            if let Some((_, count)) = failures.last_mut() {
                *count += 1;
            }
        }
    }
}

/// Runs `one` for each request and its buffer on all processors; not timed.
fn side_by_side<E: Send>(
    parts: &[Part],
    bodies: &[Mutex<Vec<u8>>],
    one: impl Fn(&Part, &mut Vec<u8>) -> std::result::Result<(), E> + Sync,
) -> std::result::Result<(), E> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let next = AtomicUsize::new(0);
    let (one, next) = (&one, &next);
    let work = move || -> std::result::Result<(), E> {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let (Some(part), Some(body)) = (parts.get(at), bodies.get(at)) else { return Ok(()) };
            one(part, &mut body.lock().unwrap_or_else(PoisonError::into_inner))?;
        }
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

/// Sends requests by all clients, each of which takes the next one when it has its answer.
fn round(
    operation: Operation,
    shape: &Shape,
    parts: &[Part],
    bodies: &[Mutex<Vec<u8>>],
    clients: &mut [Box<dyn Client>],
) -> Result<Vec<Lap>> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let barrier = Barrier::new(clients.len());
    let one = |client: &mut dyn Client| -> Result<Lap> {
        let mut histogram = empty();
        barrier.wait();
        let began = Instant::now();
        while !failed.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let (Some(part), Some(body)) = (parts.get(at), bodies.get(at)) else { break };
            // Each buffer has one user, so that the lock never waits.
            let mut body = body.lock().unwrap_or_else(PoisonError::into_inner);
            let sent = Instant::now();
            let outcome = match operation {
                Operation::Write => client.write(shape, part, &body),
                Operation::Read => client.read(shape, part, &mut body),
            };
            histogram.saturating_record(sent.elapsed().as_nanos() as u64);
            outcome.inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
        }
        Ok(Lap { began, ended: Instant::now(), histogram })
    };
    let one = &one;
    std::thread::scope(|scope| {
        let threads: Vec<_> = clients.iter_mut().map(|client| scope.spawn(move || one(client.as_mut()))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}
