//! Where packing a block begins to pay: TSM's break-even test. Series of quarters of an hour, each value with a flag,
//! in blocks of a day, of which a share is changed, written and read back; in a compressed table and in one that is
//! not, of the same product.
//!
//! A run: a private server for each of the two tables, both loaded with the same values. Then, for each kind of request
//! and each share, the same changes are written to one and the other, the values are read at once, the server is asked
//! to write to its files and watched until it is idle, and the values are read again. Which table is first alternates.
//!
//! Always true:
//! - Making requests and checking answers are outside of measured time.
//! - Every value that is read is compared with what was written last; one that is wrong ends the run, and a run that
//!   ended so has no throughput: [`report`] leaves it out.
//! - CPU of writing is counted until the server is at rest, less what it uses without work.

mod data;
pub(crate) mod report;
mod store;
#[cfg(test)]
mod tests;

use std::sync::atomic::Ordering;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::drivers::Target;
use crate::engine::histogram::{empty, latency};
use crate::error::Result;
use crate::measure::proc;
use crate::measure::sampler::wait_until_idle;
use crate::measure::tree::{Tree, Usage};
use crate::run::place::{Place, Placing};
use crate::run::{INTERRUPTED, Show};
use crate::tpcc::report::Subject;
use data::{BLOCK, Shape, Stretch, Truth};
pub(crate) use report::Report;
use report::{Figure, Loaded, Step};
use store::{Client, Kind};

/// Longest wait for a server to come to rest.
const REST_MAX: Duration = Duration::from_secs(120);

/// What a request holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Requests {
    /// One block: a day of one series.
    Single,
    /// The blocks of all series for some days.
    Bulk,
}

impl Requests {
    /// As reports have it.
    fn name(self) -> &'static str {
        match self {
            Requests::Single => "single",
            Requests::Bulk => "bulk",
        }
    }
}

/// What to do.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) series: u32,
    pub(crate) days: usize,
    /// Percentages of a block that are changed.
    pub(crate) shares: Vec<u32>,
    pub(crate) requests: Vec<Requests>,
    /// Days of one bulk request.
    pub(crate) bulk_days: usize,
    /// How often everything is written and read by bulk requests in one step: they are few.
    pub(crate) bulk_passes: u32,
    pub(crate) repeat: u32,
    pub(crate) seed: u64,
    pub(crate) placing: Placing,
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
}

/// One of the two tables.
struct Side<'a> {
    settings: &'a Settings,
    kind: Kind,
    client: Client,
    truth: Truth,
    tree: Tree,
    /// Declared last: the server goes after its client.
    place: Place,
}

/// A step's place in the run.
#[derive(Clone, Copy)]
struct At {
    requests: Requests,
    share: u32,
    repeat: u32,
    /// Numbers the passes over all blocks, so that each changes other values.
    pass: u64,
}

/// Runs everything on the two tables of one target.
///
/// # Errors
/// The run could not begin or go on. A wrong answer is not an error: the report has it.
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
    }
    let mut pass = 0;
    for repeat in 0..settings.repeat {
        for requests in &settings.requests {
            for share in &settings.shares {
                let at = At { requests: *requests, share: *share, repeat, pass };
                pass += u64::from(settings.passes(*requests));
                // One and the other, the other and the one.
                if report.steps.len() % 4 >= 2 {
                    sides.reverse();
                }
                for side in sides.iter_mut() {
                    side.announce(&at, show);
                    match side.step(&at)? {
                        Ok(step) => report.steps.push(step),
                        Err(finding) => {
                            report.findings.push(finding);
                            return Ok(());
                        }
                    }
                }
                if INTERRUPTED.load(Ordering::Relaxed) {
                    report.notes.push("stopped by Ctrl-C; what was done until then is checked and shown".to_owned());
                    return Ok(());
                }
            }
        }
    }
    for side in sides.iter_mut() {
        show.stage(&format!("{}, {}: its smallest form", side.kind.product(), side.kind.name()));
        report.settle(side.kind.name(), side.compact()?);
    }
    Ok(())
}

impl<'a> Side<'a> {
    fn open(settings: &'a Settings, kind: Kind, target: &Target) -> Result<Side<'a>> {
        let place = Place::take(target, &settings.placing, 4)?;
        let mut client = Client::connect(kind, &place.target)?;
        client.create()?;
        let tree = Tree::new(&place.pids);
        Ok(Side { settings, kind, client, truth: Truth::new(&settings.shape()), tree, place })
    }

    fn subject(&mut self) -> Result<Subject> {
        let server = self.place.server.as_ref();
        let as_set = || "as the server is set".to_owned();
        Ok(Subject {
            name: self.place.target.name.clone(),
            url: self.place.target.shown(),
            product: self.kind.product().to_owned(),
            version: self.client.version()?,
            durability: server.map_or_else(as_set, |s| format!("{} ({})", s.durability(), s.durability_reason())),
            server_settings: server.map_or_else(Vec::new, |server| server.settings().to_vec()),
        })
    }

    fn announce(&self, at: &At, show: &mut dyn Show) {
        show.stage(&format!(
            "{}, {}: {} requests, {} % of each block, {} of {}",
            self.kind.product(),
            self.kind.name(),
            at.requests.name(),
            at.share,
            at.repeat + 1,
            self.settings.repeat
        ));
    }

    fn usage(&mut self) -> Usage {
        self.tree.scan();
        self.tree.read()
    }

    /// Asks the server to write to its files, waits until it is idle; usage then, and bytes on disk.
    fn rest(&mut self) -> Result<(Usage, Option<u64>)> {
        self.client.settle()?;
        Ok(self.wait())
    }

    fn wait(&mut self) -> (Usage, Option<u64>) {
        let rest = wait_until_idle(&self.place.pids, &self.place.dirs, REST_MAX, &INTERRUPTED);
        let mut usage = self.usage();
        usage.cpu_s = usage.cpu_s.map(|cpu_s| cpu_s - rest.quiet_cpu_s);
        (usage, rest.bytes)
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
        let (after, bytes) = self.rest()?;
        let figure = figure.finish(cpu(&before, &after));
        Ok(Loaded { table: self.kind.name().to_owned(), figure, data_bytes: bytes, smallest_bytes: None })
    }

    /// Writes, reads, comes to rest, reads. The inner error is a wrong answer.
    fn step(&mut self, at: &At) -> Result<std::result::Result<Step, String>> {
        let start = self.usage();
        let write = self.write(at)?;
        let written = self.usage();
        let fresh = match self.read(at)? {
            Ok(fresh) => fresh,
            Err(finding) => return Ok(Err(finding)),
        };
        let fresh_end = self.usage();
        let (settled, data_bytes) = self.rest()?;
        let settled_before = self.usage();
        let read = match self.read(at)? {
            Ok(read) => read,
            Err(finding) => return Ok(Err(finding)),
        };
        let end = self.usage();
        let write_cpu_s = cpu(&start, &written).zip(cpu(&fresh_end, &settled)).map(|(during, after)| during + after);
        let io = |usage: &Usage| usage.io.map(|io| io.written_bytes);
        Ok(Ok(Step {
            table: self.kind.name().to_owned(),
            requests: at.requests.name().to_owned(),
            share: at.share,
            repeat: at.repeat,
            write: Figure { server_cpu_s: write_cpu_s, ..write },
            fresh: Figure { server_cpu_s: cpu(&written, &fresh_end), ..fresh },
            read: Figure { server_cpu_s: cpu(&settled_before, &end), ..read },
            data_bytes,
            disk_written_bytes: io(&settled).zip(io(&start)).map(|(after, before)| after.saturating_sub(before)),
        }))
    }

    fn write(&mut self, at: &At) -> Result<Figure> {
        let shape = self.settings.shape();
        let mut meter = Meter::default();
        for pass in 0..self.settings.passes(at.requests) {
            for stretch in self.settings.stretches(at.requests) {
                let changes = shape.changes(&stretch, at.share, at.pass + u64::from(pass), &mut self.truth);
                let took = self.client.write(&stretch, &changes)?;
                meter.add(changes.len(), took);
            }
        }
        Ok(meter.finish(None))
    }

    /// Reads everything; the inner error is a wrong answer.
    fn read(&mut self, at: &At) -> Result<std::result::Result<Figure, String>> {
        let shape = self.settings.shape();
        let mut meter = Meter::default();
        for _ in 0..self.settings.passes(at.requests) {
            for stretch in self.settings.stretches(at.requests) {
                let took = self.client.read(&stretch)?;
                let values = self.client.values()?;
                if let Err(wrong) = self.truth.check(&shape, &stretch, &values) {
                    return Ok(Err(format!(
                        "{}, {}, after {} requests that changed {} % of each block: {wrong}",
                        self.kind.product(),
                        self.kind.name(),
                        at.requests.name(),
                        at.share
                    )));
                }
                meter.add(values.len(), took);
            }
        }
        Ok(Ok(meter.finish(None)))
    }

    /// Bytes on disk in the smallest form there is, everything read once more.
    fn compact(&mut self) -> Result<std::result::Result<Option<u64>, String>> {
        self.client.compact()?;
        let (_, bytes) = self.wait();
        let at = At { requests: Requests::Bulk, share: 0, repeat: 0, pass: 0 };
        Ok(self.read(&at)?.map(|_| bytes))
    }
}

/// CPU seconds between two readings.
fn cpu(before: &Usage, after: &Usage) -> Option<f64> {
    after.cpu_s.map(|after| (after - before.cpu_s.unwrap_or(0.0)).max(0.0))
}

/// Requests of one kind, as they are done.
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

    fn settle(&mut self, table: &str, bytes: std::result::Result<Option<u64>, String>) {
        match bytes {
            Ok(bytes) => {
                self.loaded.iter_mut().filter(|of| of.table == table).for_each(|of| of.smallest_bytes = bytes);
            }
            Err(finding) => self.findings.push(finding),
        }
    }
}
