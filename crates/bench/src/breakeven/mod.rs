//! The break-even test of TSM: from which share of changed values a compressed table is slower than
//! an uncompressed one of the same product. The data are series with one value and flag every 15
//! minutes, in blocks of a day; a share of each block is changed, written and read back.
//!
//! A run starts a private server for each of the two tables, loads both with the same values and
//! packs them. For each kind of request and each share, it applies the same changes to both tables,
//! reads the values, waits until the server has written its files and is idle, reads the values
//! again, and packs the table again. Every step thus starts with fully packed blocks and does not
//! depend on the pieces that earlier steps left. The tables take turns of a few requests in
//! alternating order (A B, B A), so that other load on the machine affects both.
//!
//! Always true:
//! - Requests are built and answers checked outside the measured time.
//! - Every value read is compared with the last one written. A wrong value ends the run, and
//!   [`report`] shows no throughput for it.
//! - The CPU time of writing is counted until the server is idle, minus its idle consumption.

mod data;
pub(crate) mod report;
mod store;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::drivers::Target;
use crate::engine::histogram::{empty, latency};
use crate::error::{Error, Result};
use crate::measure::proc;
use crate::measure::sampler::{Rest, wait_until_idle};
use crate::measure::tree::{Tree, Usage};
use crate::run::target_server::{TargetServer, TargetServerOptions};
use crate::run::{INTERRUPTED, Show};
use crate::tpcc::report::Subject;
use data::{BLOCK, Shape, Stretch, Truth};
pub(crate) use report::Report;
use report::{Figure, Loaded, Step};
use store::{Client, Kind};

/// Longest wait for a server to become idle.
const REST_MAX: Duration = Duration::from_secs(120);
/// Requests per turn of a table.
const TURN_REQUESTS: usize = 50;

/// Result of a step; the error is a wrong value or a failure.
type Checked<T> = std::result::Result<T, Stop>;

enum Stop {
    /// A value read differs from the last one written.
    Wrong(String),
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Failed(error)
    }
}

/// Blocks per request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Requests {
    /// One block: a day of one series.
    Single,
    /// The blocks of all series for --bulk-days days.
    Bulk,
}

impl Requests {
    /// Name in reports.
    fn name(self) -> &'static str {
        match self {
            Requests::Single => "single",
            Requests::Bulk => "bulk",
        }
    }
}

/// Settings of a run.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) series: u32,
    pub(crate) days: usize,
    /// Percentages of each block's values to change.
    pub(crate) shares: Vec<u32>,
    pub(crate) requests: Vec<Requests>,
    /// Days of one bulk request.
    pub(crate) bulk_days: usize,
    /// Passes over all data in a step of bulk requests; more than one because a pass has few.
    pub(crate) bulk_passes: u32,
    pub(crate) repeat: u32,
    pub(crate) seed: u64,
    pub(crate) placing: TargetServerOptions,
    pub(crate) command: Vec<String>,
}

impl Settings {
    fn shape(&self) -> Shape {
        Shape { seed: self.seed, series: self.series, days: self.days }
    }

    fn stretches(&self, requests: Requests) -> Vec<Stretch> {
        match requests {
            Requests::Single => self.shape().blocks(),
            Requests::Bulk => self.shape().bulks(self.bulk_days),
        }
    }

    fn passes(&self, requests: Requests) -> u32 {
        match requests {
            Requests::Single => 1,
            Requests::Bulk => self.bulk_passes,
        }
    }

    fn turns(&self, requests: Requests) -> Vec<Turn> {
        let count = self.stretches(requests).len();
        let of_pass = |pass| {
            let starts = (0..count).step_by(TURN_REQUESTS);
            starts.map(move |start| Turn { pass, requests: start..(start + TURN_REQUESTS).min(count) })
        };
        (0..self.passes(requests)).flat_map(of_pass).collect()
    }
}

/// Consecutive requests of one pass over all blocks.
struct Turn {
    pass: u32,
    requests: Range<usize>,
}

/// One of the two compared tables, with its server.
struct Side<'a> {
    settings: &'a Settings,
    kind: Kind,
    client: Client,
    truth: Truth,
    tree: Tree,
    /// Last field: fields drop in order, and the server must stop after its client.
    place: TargetServer,
}

/// Parameters of a step.
#[derive(Clone, Copy)]
struct At {
    requests: Requests,
    share: u32,
    repeat: u32,
    /// Number of the first pass over all blocks; seeds the choice of changed values.
    pass: u64,
}

/// Runs everything on the two tables of one target.
///
/// # Errors
/// The run could not start or failed. A wrong value is not an error: it is a finding of the report.
pub(crate) fn run(settings: &Settings, target: &Target, show: &mut dyn Show) -> Result<Report> {
    target.only(&[])?;
    let kinds = Kind::of(target)?;
    let mut sides = Vec::with_capacity(2);
    for kind in kinds {
        show.stage(&format!("{}, {}: starting", kind.product(), kind.name()));
        sides.push(Side::open(settings, kind, target)?);
    }
    let mut report = Report::new(settings, sides[0].subject()?, kinds.map(Kind::name));
    let outcome = measure(settings, &mut sides, &mut report, show);
    if !target.is_private() {
        sides.iter_mut().try_for_each(|side| side.client.drop_table())?;
    }
    outcome?;
    Ok(report)
}

fn measure(settings: &Settings, sides: &mut [Side<'_>], report: &mut Report, show: &mut dyn Show) -> Result<()> {
    for side in sides.iter_mut() {
        show.stage(&format!("{}, {}: loading", side.kind.product(), side.kind.name()));
        report.loaded.push(side.load()?);
        side.pack()?;
    }
    let mut pass = 0;
    for repeat in 0..settings.repeat {
        for requests in &settings.requests {
            for share in &settings.shares {
                let at = At { requests: *requests, share: *share, repeat, pass };
                pass += u64::from(settings.passes(*requests));
                show_step(sides, &at, show);
                let Some(steps) = report.take(step(&at, sides))? else { return Ok(()) };
                report.steps.extend(steps);
                if INTERRUPTED.load(Ordering::Relaxed) {
                    report.notes.push("stopped by Ctrl-C; the steps before it are verified and shown".to_owned());
                    return Ok(());
                }
            }
        }
    }
    for side in sides.iter_mut() {
        show.stage(&format!("{}, {}: compacting", side.kind.product(), side.kind.name()));
        let bytes = side.wait().1;
        report
            .loaded
            .iter_mut()
            .filter(|loaded| loaded.table == side.kind.name())
            .for_each(|loaded| loaded.smallest_bytes = bytes);
    }
    let at = At { requests: Requests::Bulk, share: 0, repeat: 0, pass };
    report.take(in_turns(&at, sides, Side::read))?;
    Ok(())
}

fn show_step(sides: &[Side<'_>], at: &At, show: &mut dyn Show) {
    let Some(Side { kind, settings, .. }) = sides.first() else { return };
    let (product, requests, repeat) = (kind.product(), at.requests.name(), at.repeat + 1);
    show.stage(&format!(
        "{product}: {requests} requests, {} % of each block, {repeat} of {}",
        at.share, settings.repeat
    ));
}

/// One step on every table: write, read, wait until idle, read, pack.
fn step(at: &At, sides: &mut [Side<'_>]) -> Checked<Vec<Step>> {
    let usages = |sides: &mut [Side<'_>]| sides.iter_mut().map(Side::usage).collect::<Vec<Usage>>();
    let start = usages(sides);
    let write = in_turns(at, sides, Side::write)?;
    let written = usages(sides);
    let fresh = in_turns(at, sides, Side::read)?;
    let fresh_end = usages(sides);
    let settled = rest(sides)?;
    let settled_before = usages(sides);
    let read = in_turns(at, sides, Side::read)?;
    let end = usages(sides);
    let mut steps = Vec::with_capacity(sides.len());
    for (n, ((write, fresh), read)) in write.into_iter().zip(fresh).zip(read).enumerate() {
        let (settled, data_bytes) = settled[n];
        let write_cpu = cpu(&start[n], &written[n]).zip(cpu(&fresh_end[n], &settled));
        let io = |usage: &Usage| usage.io.map(|io| io.written_bytes);
        steps.push(Step {
            table: sides[n].kind.name().to_owned(),
            requests: at.requests.name().to_owned(),
            share: at.share,
            repeat: at.repeat,
            write: Figure { server_cpu_s: write_cpu.map(|(during, after)| during + after), ..write },
            fresh: Figure { server_cpu_s: cpu(&written[n], &fresh_end[n]), ..fresh },
            read: Figure { server_cpu_s: cpu(&settled_before[n], &end[n]), ..read },
            pack: sides[n].pack()?,
            data_bytes,
            disk_written_bytes: io(&settled).zip(io(&start[n])).map(|(after, before)| after.saturating_sub(before)),
        });
    }
    Ok(steps)
}

/// Runs all requests of a step in turns; returns a figure for each table.
fn in_turns<'a>(
    at: &At,
    sides: &mut [Side<'a>],
    each: impl Fn(&mut Side<'a>, &At, &Turn, &mut Meter) -> Checked<()>,
) -> Checked<Vec<Figure>> {
    let mut meters: Vec<Meter> = sides.iter().map(|_| Meter::default()).collect();
    let turns = sides.first().map_or_else(Vec::new, |side| side.settings.turns(at.requests));
    for (number, turn) in turns.iter().enumerate() {
        for place in 0..sides.len() {
            // Alternates the order in each turn: A B, B A.
            let which = (place + number + at.repeat as usize) % sides.len();
            each(&mut sides[which], at, turn, &mut meters[which])?;
        }
    }
    Ok(meters.into_iter().map(|meter| meter.finish(None)).collect())
}

/// Makes the servers write their files and waits until all are idle. Returns each one's usage and
/// its bytes on disk.
fn rest(sides: &mut [Side<'_>]) -> Result<Vec<(Usage, Option<u64>)>> {
    sides.iter_mut().try_for_each(|side| side.client.settle())?;
    let places: Vec<_> = sides.iter().map(|side| (&side.place.pids[..], &side.place.dirs[..])).collect();
    let rests: Vec<Rest> = std::thread::scope(|scope| {
        let wait = |(pids, dirs)| scope.spawn(move || wait_until_idle(pids, dirs, REST_MAX, &INTERRUPTED));
        let waiting: Vec<_> = places.into_iter().map(wait).collect();
        let rest = |waiting: std::thread::ScopedJoinHandle<'_, Rest>| {
            waiting.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        waiting.into_iter().map(rest).collect()
    });
    Ok(sides.iter_mut().zip(rests).map(|(side, rest)| (side.usage_at_rest(&rest), rest.bytes)).collect())
}

impl<'a> Side<'a> {
    fn open(settings: &'a Settings, kind: Kind, target: &Target) -> Result<Side<'a>> {
        let place = TargetServer::open(target, &settings.placing, 4)?;
        let mut client = Client::connect(kind, &place.target)?;
        client.create()?;
        let tree = Tree::new(&place.pids);
        Ok(Side { settings, kind, client, truth: Truth::new(&settings.shape()), tree, place })
    }

    fn subject(&mut self) -> Result<Subject> {
        let server = self.place.server.as_ref();
        let unknown = || "as configured on the server".to_owned();
        Ok(Subject {
            name: self.place.target.name.clone(),
            url: self.place.target.display_url(),
            product: self.kind.product().to_owned(),
            version: self.client.version()?,
            durability: server.map_or_else(unknown, |s| format!("{} ({})", s.durability(), s.durability_reason())),
            server_settings: server.map_or_else(Vec::new, |server| server.settings().to_vec()),
        })
    }

    /// Usage of the server's processes. CPU and I/O are unknown for a server that was not started
    /// here: it may serve both tables.
    fn usage(&mut self) -> Usage {
        self.tree.scan();
        match self.place.server {
            Some(_) => self.tree.read(),
            None => Usage { cpu_s: None, io: None, ..self.tree.read() },
        }
    }

    /// Usage at the end of the wait, minus the idle consumption during it.
    fn usage_at_rest(&mut self, rest: &Rest) -> Usage {
        let mut usage = self.usage();
        usage.cpu_s = usage.cpu_s.map(|cpu_s| cpu_s - rest.quiet_cpu_s);
        usage
    }

    fn wait(&mut self) -> (Usage, Option<u64>) {
        let rest = wait_until_idle(&self.place.pids, &self.place.dirs, REST_MAX, &INTERRUPTED);
        (self.usage_at_rest(&rest), rest.bytes)
    }

    fn load(&mut self) -> Result<Loaded> {
        let shape = self.settings.shape();
        let before = self.usage();
        let mut figure = Meter::default();
        for stretch in self.settings.stretches(Requests::Bulk) {
            let values = (stretch.series.1 - stretch.series.0) as usize * (stretch.days.1 - stretch.days.0) * BLOCK;
            let took = self.client.load(&shape, &stretch)?;
            figure.add(values, took);
        }
        self.client.settle()?;
        let (after, bytes) = self.wait();
        let figure = figure.finish(cpu(&before, &after));
        Ok(Loaded { table: self.kind.name().to_owned(), figure, data_bytes: bytes, smallest_bytes: None })
    }

    fn write(&mut self, at: &At, turn: &Turn, meter: &mut Meter) -> Checked<()> {
        let shape = self.settings.shape();
        for stretch in &self.settings.stretches(at.requests)[turn.requests.clone()] {
            let changes = shape.changes(stretch, at.share, at.pass + u64::from(turn.pass), &mut self.truth);
            let took = self.client.write(stretch, &changes)?;
            meter.add(changes.len(), took);
        }
        Ok(())
    }

    fn read(&mut self, at: &At, turn: &Turn, meter: &mut Meter) -> Checked<()> {
        let shape = self.settings.shape();
        for stretch in &self.settings.stretches(at.requests)[turn.requests.clone()] {
            let took = self.client.read(stretch)?;
            let values = self.client.values()?;
            if let Err(wrong) = self.truth.check(&shape, stretch, &values) {
                return Err(Stop::Wrong(format!(
                    "{}, {}, after {} requests that changed {} % of each block: {wrong}",
                    self.kind.product(),
                    self.kind.name(),
                    at.requests.name(),
                    at.share
                )));
            }
            meter.add(values.len(), took);
        }
        Ok(())
    }

    /// Rewrites the table in its smallest form.
    fn pack(&mut self) -> Result<Figure> {
        let before = self.usage();
        let began = Instant::now();
        self.client.compact()?;
        let took = began.elapsed();
        let mut meter = Meter::default();
        meter.add(self.settings.series as usize * self.settings.days * BLOCK, took);
        Ok(meter.finish(cpu(&before, &self.usage())))
    }
}

/// CPU seconds between two readings; `None` if unknown.
fn cpu(before: &Usage, after: &Usage) -> Option<f64> {
    after.cpu_s.map(|after| (after - before.cpu_s.unwrap_or(0.0)).max(0.0))
}

/// Accumulates the requests of one figure.
struct Meter {
    values: u64,
    seconds: f64,
    histogram: Histogram<u64>,
}

impl Default for Meter {
    fn default() -> Meter {
        Meter { values: 0, seconds: 0.0, histogram: empty() }
    }
}

impl Meter {
    fn add(&mut self, values: usize, took: Duration) {
        self.values += values as u64;
        self.seconds += took.as_secs_f64();
        self.histogram.saturating_record(took.as_nanos() as u64);
    }

    fn finish(self, server_cpu_s: Option<f64>) -> Figure {
        Figure {
            values: self.values,
            requests: self.histogram.len(),
            seconds: self.seconds,
            server_cpu_s,
            latency_ms: latency(&self.histogram),
        }
    }
}

impl Report {
    fn new(settings: &Settings, target: Subject, tables: [&str; 2]) -> Report {
        Report {
            tool: format!("millrace bench {}", env!("CARGO_PKG_VERSION")),
            command: settings.command.clone(),
            started: jiff::Zoned::now().strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
            machine: proc::machine(),
            target,
            tables: tables.map(str::to_owned).to_vec(),
            series: settings.series,
            days: settings.days,
            bulk_days: settings.bulk_days,
            bulk_passes: settings.bulk_passes,
            repeat: settings.repeat,
            ..Report::default()
        }
    }

    /// The value of a step, or `None` after adding its finding to the report.
    fn take<T>(&mut self, outcome: Checked<T>) -> Result<Option<T>> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(Stop::Failed(error)) => Err(error),
            Err(Stop::Wrong(finding)) => {
                self.findings.push(finding);
                Ok(None)
            }
        }
    }
}
