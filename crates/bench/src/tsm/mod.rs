//! The load, scaling and latency tests of managed time series, as HAKOM publishes them for its TSM, on
//! Millrace's REST API and on PostgreSQL.
//!
//! A run: servers are found or started, and front ends of a private store ([`front_ends`]); series are
//! defined; clients write and read them by requests of one or several series; every answer is compared
//! with what was written ([`plan`]).
//!
//! Bodies are encoded before the clock starts, and answers are kept and checked after it stops. Both
//! need memory, so that a long test runs in rounds of [`ROUND_BYTES_MAX`]: in each, the clients start
//! together, and the clock stops when the last one has its last answer. Times are sums over rounds.
//!
//! Always true:
//! - Encoding and checking are outside the measured time; latency is from the call to its answer.
//! - A run with a wrong answer has no figures: [`report`] leaves them out.

mod front_ends;
mod millrace;
mod plan;
mod postgres;
pub(crate) mod report;
mod store;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::panic::resume_unwind;
use std::str::FromStr;
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
use crate::peers::{CPUS_MAX, CPUS_MIN, Server};
use crate::report::format::whole;
use crate::run::target_server::{TargetServer, TargetServerOptions};
use crate::run::{INTERRUPTED, Show};
use crate::tpcc::report::Subject;
use front_ends::FrontEnds;
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

/// History that series keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub(crate) enum SeriesKind {
    /// None: a write replaces values.
    #[default]
    Plain,
    /// Replaced values are kept (`Audit`).
    Audit,
    /// Each repetition writes a version of its own, and replaced values are kept (`Audit` and
    /// `Quotation`).
    Quotation,
}

impl SeriesKind {
    /// Name in reports and on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            SeriesKind::Plain => "plain",
            SeriesKind::Audit => "audit",
            SeriesKind::Quotation => "quotation",
        }
    }
}

/// Servers among which the requests of a step are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Servers {
    /// Number of front ends; 0: requests are sent to the store itself.
    pub(crate) count: usize,
    /// CPU quota of each front end in processors; `None`: no quota.
    pub(crate) cpus: Option<f64>,
    /// Cores of each server in the published matrix that the step repeats.
    pub(crate) cores: Option<u32>,
}

/// A cell of the published matrix: servers and cores of each, such as `2x8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MatrixCell {
    /// 1 ..= 1,000.
    pub(crate) servers: u16,
    /// 1 ..= 1,000.
    pub(crate) cores: u16,
}

/// Most servers, and most cores of each, in a cell.
const MATRIX_MAX: u16 = 1_000;

impl FromStr for MatrixCell {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<MatrixCell, String> {
        let number = |text: &str| text.parse().ok().filter(|number| (1..=MATRIX_MAX).contains(number));
        let cell = text
            .split_once('x')
            .and_then(|(servers, cores)| Some(MatrixCell { servers: number(servers)?, cores: number(cores)? }));
        cell.ok_or_else(|| {
            format!("{text:?}: expected SERVERSxCORES, such as 2x8, with numbers from 1 to {MATRIX_MAX}")
        })
    }
}

impl MatrixCell {
    /// Front ends with `scale` processors for each core.
    ///
    /// # Errors
    /// A quota would be smaller or larger than control groups allow.
    pub(crate) fn at(self, scale: f64) -> Result<Servers> {
        let cpus = f64::from(self.cores) * scale;
        check_cpus(cpus)
            .map_err(|error| error.during(format!("{}x{} at --matrix-scale {scale}", self.servers, self.cores)))?;
        Ok(Servers { count: usize::from(self.servers), cpus: Some(cpus), cores: Some(u32::from(self.cores)) })
    }
}

/// Checks that a CPU quota is possible.
///
/// # Errors
/// It is not a number, too small or too large.
pub(crate) fn check_cpus(cpus: f64) -> Result<()> {
    if (CPUS_MIN..=CPUS_MAX).contains(&cpus) {
        return Ok(());
    }
    Err(Error::setup(format!("a quota of {cpus} processors: expected {CPUS_MIN} to {CPUS_MAX}")))
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
        /// Each kind has sets of its own.
        kinds: Vec<SeriesKind>,
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
        servers: Vec<Servers>,
        /// Processors for each core of the published matrix; `None`: the steps do not repeat it.
        matrix_scale: Option<f64>,
        /// Each kind has a set of its own.
        kinds: Vec<SeriesKind>,
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

    fn kinds(&self) -> &[SeriesKind] {
        match self {
            Test::Load { kinds, .. } | Test::Scaling { kinds, .. } => kinds,
            Test::Latency { .. } => &[SeriesKind::Plain],
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

    /// Checks that the product has the kinds of series of a test.
    fn check(self, test: &Test) -> Result<()> {
        let other = test.kinds().iter().find(|kind| **kind != SeriesKind::Plain);
        match (self, other) {
            (Kind::Postgres(_), Some(other)) => Err(Error::setup(format!(
                "--kind {}: the tables of PostgreSQL keep no history; expected --kind plain, or --target millrace",
                other.name()
            ))),
            _ => Ok(()),
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
        kind.check(&settings.test)?;
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
            Some(http) => Box::new(Millrace::open(http.clone(), Some(target.address(0, 7432)?), format)?),
            None => Box::new(Millrace::open(target.address(0, 7480)?, None, format)?),
        },
    })
}

fn run_at(settings: &Settings, kind: Kind, place: &TargetServer, show: &mut dyn Show) -> Result<Report> {
    let store = open(kind, place)?;
    let mut report = Report::new(settings, kind, subject(kind, place, store.as_ref())?);
    let tree = Tree::new(&place.pids);
    let mut run = Run {
        settings,
        kind,
        place,
        store: store.as_ref(),
        tree,
        front_ends: FrontEnds::of(place, &settings.placing),
        addresses: addresses(settings, kind, place)?,
        sets: Vec::new(),
    };
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
        Err(Stop::Failed(error)) => {
            return Err(match run.front_ends.check_alive() {
                Err(ended) => error.during(ended),
                Ok(()) => error,
            });
        }
        Err(Stop::Wrong(finding)) => report.findings.push(finding),
        Err(Stop::Interrupted) => {
            report.notes.push("stopped by Ctrl-C; the steps before it are verified and shown".to_owned());
        }
    }
    removed?;
    Ok(report)
}

/// Addresses of the running servers of Millrace that the command line names; empty: requests are sent to
/// the store itself.
fn addresses(settings: &Settings, kind: Kind, place: &TargetServer) -> Result<Vec<String>> {
    match kind {
        Kind::Millrace(_) if !settings.urls.is_empty() => {
            (0..place.target.hosts.len()).map(|at| place.target.address(at, 7480)).collect()
        }
        _ => Ok(Vec::new()),
    }
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
        let matrix_scale = match (&settings.test, kind) {
            (Test::Scaling { matrix_scale, .. }, Kind::Millrace(_)) => *matrix_scale,
            _ => None,
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
            matrix_scale,
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
    front_ends: FrontEnds,
    /// Servers that receive the requests; empty: the store itself.
    addresses: Vec<String>,
    /// Sets that were created.
    sets: Vec<Shape>,
}

/// The series of a scaling test, and the writes to them so far.
struct Written {
    shape: Shape,
    /// Version of the newest values; each repetition is one.
    version: u32,
    /// Values written, replaced ones included.
    values: u64,
    /// Bytes of the data directories before the first write.
    before_bytes: Option<u64>,
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
        let Test::Load { series: sizes, days, writers, readers, bulk, kinds } = &settings.test else { return Ok(()) };
        let mut first = 0;
        for (kind, size) in kinds.iter().flat_map(|kind| sizes.iter().map(move |size| (kind, size))) {
            for (number, clients) in writers.iter().enumerate() {
                // Each set has new series, because replacing values is other work.
                let shape = self.create(first..first + size, HALF_HOUR_S, *days, *kind, show)?;
                first += size;
                let parts = shape.parts(*bulk);
                let of = |operation, clients: usize| Figure {
                    operation,
                    requests_of: Requests::Bulk,
                    kind: *kind,
                    series: *size,
                    series_per_request: (*bulk).min(*size),
                    clients: clients.min(parts.len()),
                    ..Figure::default()
                };
                self.write_set(of(Operation::Write, *clients), &shape, &parts, report, show)?;
                // All sets of a size have the same values per series, so one is enough for reads.
                if number + 1 < writers.len() {
                    continue;
                }
                for clients in readers {
                    let mut figure = self.figure(of(Operation::Read, *clients), Servers::default());
                    self.stage(show, &format!("{}, {clients} clients read", set_name(&figure)));
                    self.measure(&mut figure, &shape, &parts, 0)?;
                    report.figures.push(figure);
                }
            }
        }
        Ok(())
    }

    /// Writes a new set of a load test, and waits until the server is idle.
    fn write_set(
        &mut self,
        step: Figure,
        shape: &Shape,
        parts: &[Part],
        report: &mut Report,
        show: &mut dyn Show,
    ) -> Checked<()> {
        let mut figure = self.figure(step, Servers::default());
        self.stage(show, &format!("{}, {} clients write", set_name(&figure), figure.clients));
        let before_bytes = self.stored_bytes();
        let cpu = self.usage();
        let step = self.step(Operation::Write, shape, parts, figure.clients, 0)?;
        self.stage(show, &format!("{}, waiting until the server is idle", set_name(&figure)));
        let idle = self.settle()?;
        figure.add(&step, cpu_between(&cpu, &idle));
        figure.written_values = figure.values;
        figure.stored_bytes = self.growth(before_bytes);
        report.figures.push(figure);
        Ok(())
    }

    fn scaling(&mut self, report: &mut Report, show: &mut dyn Show) -> Checked<()> {
        let settings = self.settings;
        let Test::Scaling { series, days, requests, bulk, users, services, repeats, servers, kinds, .. } =
            &settings.test
        else {
            return Ok(());
        };
        let mut first = 0;
        for kind in kinds {
            let shape = self.create(first..first + series, QUARTER_HOUR_S, *days, *kind, show)?;
            first += series;
            let mut written = Written { shape, version: 0, values: 0, before_bytes: self.stored_bytes() };
            for servers in self.possible(servers) {
                self.use_servers(servers, show)?;
                for (requests, service) in requests.iter().flat_map(|one| services.iter().map(move |two| (one, two))) {
                    let bulk = if *requests == Requests::Single { 1 } else { (*bulk).min(*series) };
                    let parts = series.div_ceil(bulk) as usize;
                    let step = Figure {
                        requests_of: *requests,
                        service: *service,
                        kind: *kind,
                        series: *series,
                        series_per_request: bulk,
                        clients: if *service == Service::Serial { 1 } else { (*users).min(parts) },
                        ..Figure::default()
                    };
                    self.repeat(&mut written, &self.figure(step, servers), *repeats, report, show)?;
                }
            }
        }
        Ok(())
    }

    /// Writes all series of a scaling test several times, then reads them as often.
    fn repeat(
        &mut self,
        set: &mut Written,
        step: &Figure,
        repeats: u32,
        report: &mut Report,
        show: &mut dyn Show,
    ) -> Checked<()> {
        let parts = set.shape.parts(step.series_per_request);
        let title = |verb: &str, repeat: u32| {
            let (requests, service) = (step.requests_of.name(), step.service.name());
            let (kind, servers) = (step.kind.name(), step.servers());
            format!("{kind}, {requests} requests, {service}, servers: {servers}; {verb}, {} of {repeats}", repeat + 1)
        };
        let mut write = Figure { operation: Operation::Write, ..step.clone() };
        for repeat in 0..repeats {
            self.stage(show, &title("writing", repeat));
            set.version += 1;
            self.measure(&mut write, &set.shape, &parts, set.version)?;
            set.values += write.values;
        }
        self.settle()?;
        write.written_values = set.values;
        write.stored_bytes = self.growth(set.before_bytes);
        report.figures.push(write);
        let mut read = Figure { operation: Operation::Read, ..step.clone() };
        for repeat in 0..repeats {
            self.stage(show, &title("reading", repeat));
            self.measure(&mut read, &set.shape, &parts, set.version)?;
        }
        report.figures.push(read);
        Ok(())
    }

    fn latency(&mut self, report: &mut Report, show: &mut dyn Show) -> Checked<()> {
        let settings = self.settings;
        let Test::Latency { series, days, clients, length } = &settings.test else { return Ok(()) };
        let shape = self.create(0..*series, QUARTER_HOUR_S, *days, SeriesKind::Plain, show)?;
        self.stage(show, "writing");
        self.step(Operation::Write, &shape, &shape.parts(LATENCY_BULK), LATENCY_WRITERS, 0)?;
        self.settle()?;
        for clients in clients {
            self.stage(show, &format!("{clients} clients read for {} s", length.as_secs_f64()));
            let step = Figure {
                operation: Operation::Read,
                requests_of: Requests::Single,
                series: *series,
                series_per_request: 1,
                clients: *clients,
                ..Figure::default()
            };
            let mut figure = self.figure(step, Servers::default());
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

    /// The figure of a step with the servers that receive its requests.
    fn figure(&self, step: Figure, servers: Servers) -> Figure {
        Figure { front_ends: self.addresses.len(), cpus: servers.cpus, cores: servers.cores, ..step }
    }

    /// Servers that this target can have: PostgreSQL has no front ends.
    fn possible(&self, asked: &[Servers]) -> Vec<Servers> {
        match self.kind {
            Kind::Millrace(_) => asked.to_vec(),
            Kind::Postgres(_) => vec![Servers::default()],
        }
    }

    /// Sends the requests of the next steps to these servers. Front ends are started, unless the command
    /// line names running ones.
    fn use_servers(&mut self, servers: Servers, show: &mut dyn Show) -> Result<()> {
        let named = addresses(self.settings, self.kind, self.place)?;
        if !named.is_empty() {
            self.addresses = named.into_iter().take(servers.count).collect();
            return Ok(());
        }
        self.stage(show, &format!("front ends: {}", servers.count));
        self.front_ends.resize(servers.count, servers.cpus)?;
        self.addresses = self.front_ends.addresses();
        self.tree.replace(&self.pids());
        Ok(())
    }

    /// Root processes of the store and its front ends.
    fn pids(&self) -> Vec<u32> {
        let mut pids = self.place.pids.clone();
        pids.extend(self.front_ends.pids());
        pids
    }

    fn create(
        &mut self,
        series: Range<u32>,
        step_s: u32,
        days: u32,
        kind: SeriesKind,
        show: &mut dyn Show,
    ) -> Checked<Shape> {
        self.stage(show, &format!("defining {} {} series", whole(series.len() as u64), kind.name()));
        let shape = Shape::new(self.settings.seed, series, step_s, days).of_kind(kind);
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

    /// Growth of the data directories since they had `before` bytes; `None` if unknown, or if the run does
    /// not wait for an idle server.
    fn growth(&self, before: Option<u64>) -> Option<u64> {
        let before = before.filter(|_| !self.settings.settle.is_zero())?;
        self.stored_bytes()?.checked_sub(before)
    }

    /// Waits until the server has done deferred work and is idle. Returns its usage then, minus its
    /// idle consumption.
    fn settle(&mut self) -> Result<Usage> {
        if self.settings.settle.is_zero() {
            return Ok(self.usage());
        }
        self.store.settle()?;
        let rest = wait_until_idle(&self.pids(), &self.place.dirs, self.settings.settle, &INTERRUPTED);
        let mut usage = self.usage();
        usage.cpu_s = usage.cpu_s.map(|cpu_s| cpu_s - rest.quiet_cpu_s);
        Ok(usage)
    }

    /// Runs one repetition of a step and adds it to its figure.
    fn measure(&mut self, figure: &mut Figure, shape: &Shape, parts: &[Part], version: u32) -> Checked<()> {
        let before = self.usage();
        let step = self.step(figure.operation, shape, parts, figure.clients, version)?;
        let after = self.usage();
        figure.add(&step, cpu_between(&before, &after));
        Ok(())
    }

    /// Sends all requests, in rounds.
    fn step(&self, operation: Operation, shape: &Shape, parts: &[Part], clients: usize, version: u32) -> Checked<Step> {
        let mut clients: Vec<Box<dyn Client>> =
            (0..clients.max(1)).map(|client| self.store.connect(client, &self.addresses)).collect::<Result<_>>()?;
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
            let laps = round(operation, shape, parts, version, bodies, &mut clients)?;
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
            (0..clients).map(|client| self.store.connect(client, &self.addresses)).collect::<Result<_>>()?;
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

/// Description of a set of a load test.
fn set_name(figure: &Figure) -> String {
    format!("{} {} series", whole(u64::from(figure.series)), figure.kind.name())
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
    version: u32,
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
                Operation::Write => client.write(shape, part, version, &body),
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
