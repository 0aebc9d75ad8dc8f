//! The test of an EPICS archiver that the SNS published for Hypertable and Oracle, on Millrace,
//! PostgreSQL and MariaDB: half an hour, a week and a month of samples of all process variables
//! (PVs), and queries at each size.
//!
//! A run: a server is found or started; [`generator`] yields samples in order of arrival; they are
//! encoded on the generator's thread and sent by one or more connections ([`store`]); at the end of
//! each span the server is left until it is at rest, and the queries are asked. Every answer is
//! compared with what was written ([`truth`]).
//!
//! Always true:
//! - Generating and checking count as the tool's CPU, never as an answer's latency, except for the
//!   stream of all samples, whose answer is not kept.
//! - A run with a wrong answer has no figures: [`report`] leaves them out.

mod generator;
mod pvs;
pub(crate) mod report;
mod store;
#[cfg(test)]
mod tests;
mod truth;

use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::drivers::Target;
use crate::engine::histogram::{empty, latency};
use crate::error::{Error, Result};
use crate::measure::proc;
use crate::measure::sampler::{Rest, wait_until_idle};
use crate::measure::tree::{Tree, Usage};
use crate::peers::Server;
use crate::published::sns;
use crate::report::format::{seconds, short, whole};
use crate::run::target_server::{TargetServer, TargetServerOptions};
use crate::run::{INTERRUPTED, Show};
use crate::tpcc::report::Subject;
use generator::{Batch, DAY, MINUTE, SECOND, START_NANOS, Stream};
use pvs::Population;
pub(crate) use pvs::{Class, PUBLISHED_RATE, Shape};
pub(crate) use report::{Query, Report, Span};
use store::{Answer, Content, Path, Product, Protocol, Question, Request, Store, Writer};
use truth::{Digest, Interval, Truth};

/// Longest wait for a server to become idle.
const REST_MAX: Duration = Duration::from_secs(1_800);
/// Requests that wait for a connection. A request of Flight is a batch, one of INSERT 500 rows.
const QUEUE: usize = 4;
const QUEUE_INSERTS: usize = 256;
/// Start and length of the interval of the query of all PVs, in seconds of the data.
const ALL_PVS_FROM_S: i64 = 600;
/// Lines of the published load blocks.
const BLOCKS: [usize; 4] = [100, 1_000, 10_000, 100_000];

/// Spans of the published test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
pub(crate) enum SpanName {
    /// 1,777,600 samples.
    #[default]
    HalfHour,
    /// 85,324,800 samples; not in the publication.
    Day,
    /// 597,273,600 samples.
    Week,
    /// 2,559,744,000 samples in 30.8 days, one of which is a maintenance day.
    Month,
}

impl SpanName {
    /// Name in reports.
    pub(crate) fn title(self) -> &'static str {
        match self {
            SpanName::HalfHour => "half hour",
            SpanName::Day => "day",
            SpanName::Week => "week",
            SpanName::Month => "month",
        }
    }

    /// Samples at the published rate.
    pub(crate) fn published_samples(self) -> u64 {
        match self {
            SpanName::HalfHour => 1_777_600,
            SpanName::Day => 85_324_800,
            SpanName::Week => 597_273_600,
            SpanName::Month => 2_559_744_000,
        }
    }

    /// Generated time in nanoseconds.
    fn length(self) -> i64 {
        match self {
            SpanName::HalfHour => 30 * MINUTE,
            SpanName::Day => DAY,
            SpanName::Week => 7 * DAY,
            // A maintenance day has a fifth of the samples, so that 30 days need 0.8 days more.
            SpanName::Month => 30 * DAY + DAY / 5 * 4,
        }
    }
}

/// Meaning of a published "sample".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub(crate) enum Reading {
    /// A row with time, value, status and severity: the harder reading.
    #[default]
    Sample,
    /// One of the four cells of a row: a quarter of the rows.
    Cell,
}

impl Reading {
    /// Published samples per row.
    pub(crate) fn cells(self) -> f64 {
        match self {
            Reading::Sample => 1.0,
            Reading::Cell => 4.0,
        }
    }

    /// Rows of `published` samples.
    pub(crate) fn rows(self, published: u64) -> u64 {
        match self {
            Reading::Sample => published,
            Reading::Cell => published / 4,
        }
    }
}

/// Settings of a run.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) shape: Shape,
    pub(crate) reading: Reading,
    pub(crate) spans: Vec<SpanName>,
    /// Length of a batch in nanoseconds.
    pub(crate) batch: i64,
    pub(crate) connections: usize,
    /// Repetitions of each query of one PV, of all PVs and of the newest samples.
    pub(crate) repeat: u32,
    /// Seconds of the query of all PVs.
    pub(crate) all_pvs_s: u32,
    /// Whether the scans run, which read everything.
    pub(crate) scans: bool,
    pub(crate) blocks: bool,
    pub(crate) compact: bool,
    pub(crate) keep: bool,
    pub(crate) placing: TargetServerOptions,
    pub(crate) command: Vec<String>,
    /// Shorter data for tests, in nanoseconds: the length of every span.
    pub(crate) length: Option<i64>,
}

impl Settings {
    fn length(&self, span: SpanName) -> i64 {
        self.length.unwrap_or_else(|| span.length())
    }

    fn interval(&self) -> Interval {
        let from = START_NANOS + if self.length.is_some() { 0 } else { ALL_PVS_FROM_S * SECOND };
        Interval { from, to: from + i64::from(self.all_pvs_s) * SECOND }
    }
}

/// Runs everything on one target.
///
/// # Errors
/// The run could not start or continue. A wrong answer is not an error: it is a finding of the
/// report.
pub(crate) fn run(settings: &Settings, target: &Target, show: &mut dyn Show) -> Result<Report> {
    let product = Product::of(target)?;
    let path = Path::of(target, product)?;
    show.stage(&format!("{}: starting", product.name()));
    let population = Population::new(&settings.shape);
    if population.pvs.is_empty() {
        return Err(Error::setup("--classes: no PV is of these classes; add a class or more --pvs"));
    }
    let mut place = TargetServer::open(target, &server_options(product, &settings.placing), 9)?;
    let outcome = run_at(settings, product, path, &population, &place, show);
    // A refused connection is explained by the end of the server's log.
    outcome.map_err(|error| match place.server.as_mut().map(Server::check_alive) {
        Some(Err(ended)) => error.during(ended),
        _ => error,
    })
}

fn run_at(
    settings: &Settings,
    product: Product,
    path: Path,
    population: &Population,
    place: &TargetServer,
    show: &mut dyn Show,
) -> Result<Report> {
    let mut store = store::open(&place.target, product, path, population)?;
    store.create(population)?;
    let mut report = Report::new(settings, subject(product, place, store.as_mut())?, path);
    let truth = Truth::new(population, product == Product::Millrace, settings.interval());
    let tree = Tree::new(&place.pids);
    let mut run = Run { settings, product, path, population, store, truth, tree, place };
    let outcome = run.measure(&mut report, show);
    if place.server.is_none() && !settings.keep {
        run.store.drop_tables()?;
    }
    outcome?;
    Ok(report)
}

/// Adds settings that bulk writes need; the user's take precedence.
fn server_options(product: Product, placing: &TargetServerOptions) -> TargetServerOptions {
    let mut placing = placing.clone();
    if product == Product::MariaDb {
        // The default log of 96 MiB would flush continuously; statements with waveforms are long.
        let pairs = [("innodb-log-file-size", "1G"), ("max-allowed-packet", "64M")];
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        placing.settings.splice(0..0, pairs);
        if placing.memory_mib.is_none() {
            // Equal to PostgreSQL's shared buffers.
            placing.memory_mib = proc::host_memory().and_then(|(bytes, _)| u32::try_from(bytes >> 22).ok());
        }
    }
    placing
}

fn subject(product: Product, place: &TargetServer, store: &mut dyn Store) -> Result<Subject> {
    let server = place.server.as_ref();
    Ok(Subject {
        name: place.target.name.clone(),
        url: place.target.display_url(),
        product: product.name().to_owned(),
        version: store.version()?,
        durability: server.map_or_else(
            || "as configured on the server".to_owned(),
            |server| format!("{} ({})", server.durability(), server.durability_reason()),
        ),
        server_settings: server.map_or_else(Vec::new, |server| server.settings().to_vec()),
    })
}

impl Report {
    fn new(settings: &Settings, target: Subject, path: Path) -> Report {
        Report {
            tool: format!("millrace bench {}", env!("CARGO_PKG_VERSION")),
            command: settings.command.clone(),
            started: jiff::Zoned::now().strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
            machine: proc::machine(),
            target,
            write_path: path.name().to_owned(),
            connections: settings.connections,
            seed: settings.shape.seed,
            pvs: settings.shape.pvs,
            rate: settings.shape.rate,
            reading: settings.reading,
            faults: settings.shape.faults,
            classes: settings.shape.classes.iter().map(|class| class.name().to_owned()).collect(),
            batch_s: settings.batch as f64 / 1e9,
            ..Report::default()
        }
    }
}

/// A run on one target.
struct Run<'a> {
    settings: &'a Settings,
    product: Product,
    path: Path,
    population: &'a Population,
    store: Box<dyn Store>,
    truth: Truth,
    tree: Tree,
    place: &'a TargetServer,
}

/// Sums over the writing of all spans so far.
#[derive(Default)]
struct Written {
    seconds: f64,
    server_cpu_s: Option<f64>,
    client_cpu_s: f64,
    generator_cpu_s: f64,
    host_cpu_s: f64,
    busy_s: f64,
    disk_bytes: Option<u64>,
}

/// Result of writing the samples of one span.
struct Load {
    seconds: f64,
    generator_cpu_s: f64,
    histogram: Histogram<u64>,
}

impl Run<'_> {
    fn measure(&mut self, report: &mut Report, show: &mut dyn Show) -> Result<()> {
        let stopped = |report: &mut Report| {
            let stopped = INTERRUPTED.load(Ordering::Relaxed);
            if stopped {
                report.notes.push("stopped by Ctrl-C; what was written and asked before is shown".to_owned());
            }
            stopped
        };
        self.store.settle()?;
        report.empty_bytes = self.sizes().map(|(data, log)| data.saturating_sub(log));
        if self.settings.blocks {
            self.blocks(report, show)?;
        }
        let mut spans = self.settings.spans.clone();
        spans.sort_unstable();
        spans.dedup();
        let questions = self.one_pv_questions(spans[0]);
        let mut stream = Stream::new(self.population, self.settings.batch);
        let mut written = Written::default();
        for (number, name) in spans.iter().enumerate() {
            let mut span = self.write(*name, &mut stream, &mut written, show)?;
            let complete = !stopped(report);
            if complete {
                let asked = self.ask_all(&questions, &mut span, report, show);
                asked?;
            }
            report.spans.push(span);
            if !complete || stopped(report) || !report.passed() {
                return Ok(());
            }
            if number + 1 == spans.len() && self.settings.compact {
                report.compaction = Some(self.compact(show)?);
                self.check_scan(report)?;
            }
        }
        Ok(())
    }

    fn usage(&mut self) -> Usage {
        self.tree.scan();
        self.tree.read()
    }

    /// Writes the samples up to the end of a span, and waits until the server is at rest.
    fn write(
        &mut self,
        name: SpanName,
        stream: &mut Stream<'_>,
        written: &mut Written,
        show: &mut dyn Show,
    ) -> Result<Span> {
        let began = Instant::now();
        let (before, client_before_s, host_before) = (self.usage(), proc::own_cpu_s(), proc::host_cpu());
        let end = self.settings.length(name);
        let load = self.load(name, end, stream, show)?;
        let client_cpu_s = proc::own_cpu_s() - client_before_s;
        show.stage(&format!("{}: {}: waiting until the server is at rest", self.product.name(), name.title()));
        self.store.settle()?;
        let rest = self.wait();
        let usage = self.usage();
        written.seconds += load.seconds;
        written.client_cpu_s += client_cpu_s;
        written.generator_cpu_s += load.generator_cpu_s;
        written.busy_s += began.elapsed().as_secs_f64();
        let host = proc::host_cpu().zip(host_before).map_or(0.0, |(after, before)| after.busy_s - before.busy_s);
        written.host_cpu_s += host;
        if let Some(cpu_s) = cpu(&before, &usage) {
            *written.server_cpu_s.get_or_insert(0.0) += (cpu_s - rest.quiet_cpu_s).max(0.0);
        }
        if let (Some(before), Some(after)) = (before.io.or(Some(Default::default())), usage.io) {
            let bytes = after.written_bytes.saturating_sub(before.written_bytes);
            *written.disk_bytes.get_or_insert(0) += bytes;
        }
        let of_class = Class::ALL.iter().zip(self.truth.of_class).filter(|(_, count)| *count > 0);
        let millions = self.truth.sent as f64 / 1e6;
        Ok(Span {
            name,
            length_s: end as f64 / 1e9,
            samples: self.truth.sent,
            stored: self.truth.stored(),
            gaps: self.truth.lost,
            of_class: of_class.map(|(class, count)| (class.name().to_owned(), count)).collect(),
            load_s: written.seconds,
            samples_per_s: self.truth.sent as f64 / written.seconds.max(1e-9),
            server_cpu_s: written.server_cpu_s,
            cpu_s_per_million: written.server_cpu_s.map(|cpu_s| cpu_s / millions.max(1e-9)),
            client_cpu_s: written.client_cpu_s,
            generator_cpu_s: written.generator_cpu_s,
            host_cpu_s: written.host_cpu_s,
            busy_s: written.busy_s,
            settled: rest.settled,
            settling_s: rest.settling_s,
            write_ms: latency(&load.histogram),
            requests: load.histogram.len(),
            data_bytes: rest.bytes,
            log_bytes: self.log_bytes(),
            disk_written_bytes: written.disk_bytes,
            server_rss_bytes: usage.rss_bytes,
            queries: Vec::new(),
        })
    }

    fn wait(&self) -> Rest {
        wait_until_idle(&self.place.pids, &self.place.dirs, REST_MAX, &INTERRUPTED)
    }

    /// Sizes of the data directories and of the write-ahead log in them.
    fn sizes(&self) -> Option<(u64, u64)> {
        Some((proc::allocated_bytes_of_all(&self.place.dirs)?, self.log_bytes().unwrap_or(0)))
    }

    /// Size of the write-ahead log, where it is in a folder or files of its own.
    fn log_bytes(&self) -> Option<u64> {
        if self.product == Product::MariaDb {
            return self.place.dirs.iter().map(|dir| redo_bytes(dir)).sum();
        }
        let dirs = self.place.server.as_ref().map_or(&[][..], |server| server.log_dirs());
        if dirs.is_empty() { None } else { proc::allocated_bytes_of_all(dirs) }
    }

    /// Generates, encodes and sends the samples before `end`.
    fn load(&mut self, name: SpanName, end: i64, stream: &mut Stream<'_>, show: &mut dyn Show) -> Result<Load> {
        let expected = self.population.rate() * end as f64 / 1e9;
        let title = format!("{}: writing, {}", self.product.name(), name.title());
        let mut encoder = self.store.encoder();
        let writers: Vec<Box<dyn Writer>> =
            (0..self.settings.connections).map(|_| self.store.writer()).collect::<Result<_>>()?;
        let (sender, receiver) = sync_channel(if self.path == Path::Insert { QUEUE_INSERTS } else { QUEUE });
        let receiver = Arc::new(Mutex::new(receiver));
        let before = self.truth.sent;
        let acknowledged = AtomicU64::new(before);
        let failed = AtomicBool::new(false);
        let (population, truth) = (self.population, &mut self.truth);
        let began = Instant::now();
        std::thread::scope(|scope| {
            let generate = scope.spawn(|| {
                let cpu_before_s = proc::thread_cpu_s();
                let made = generate(population, truth, stream, end, encoder.as_mut(), sender, &failed);
                made.map(|()| proc::thread_cpu_s() - cpu_before_s)
            });
            let (acknowledged, failed) = (&acknowledged, &failed);
            let send = |writer: Box<dyn Writer>| {
                let receiver = Arc::clone(&receiver);
                scope.spawn(move || {
                    let sent = send(writer, &receiver, acknowledged);
                    if sent.is_err() {
                        failed.store(true, Ordering::Relaxed);
                    }
                    sent
                })
            };
            let sending: Vec<_> = writers.into_iter().map(send).collect();
            // The threads' clones end with them; the generator must see when nobody receives.
            drop(receiver);
            while !sending.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                let done = acknowledged.load(Ordering::Relaxed);
                show.live(&|| progress(&title, done, before, expected, began.elapsed()));
                std::thread::sleep(Duration::from_millis(20));
            }
            let seconds = began.elapsed().as_secs_f64();
            let panicked = |_| Error::setup("a thread panicked");
            let mut histogram = empty();
            for thread in sending {
                let of_one = thread.join().map_err(panicked)??;
                histogram.add(&of_one).map_err(|error| Error::setup(format!("BUG: histograms: {error}")))?;
            }
            let generator_cpu_s = generate.join().map_err(panicked)??;
            Ok(Load { seconds, generator_cpu_s, histogram })
        })
    }

    /// Questions about the PV with the most samples, with the published numbers of samples. The
    /// same samples are read at every span.
    fn one_pv_questions(&self, first: SpanName) -> Vec<(String, Question, Content)> {
        let index = self.population.busiest();
        let replaces = self.product == Product::Millrace;
        let mut samples = Vec::new();
        generator::of_pv(self.population, index, self.settings.length(first), |sample, _| {
            let stored = !(replaces && (sample.repeats || sample.lost_until().is_some()));
            if sample.time >= START_NANOS && stored {
                samples.push(*sample);
            }
            true
        });
        samples.sort_by_key(|sample| sample.time);
        let name = self.population.name(index as u32);
        let (name, index) = (truth::identity(name.as_bytes()), self.population.pvs[index].name as usize);
        let question = |published: u64| {
            let rows = self.settings.reading.rows(published).min(samples.len() as u64);
            let taken = &samples[..rows as usize];
            let mut digest = Digest::default();
            taken.iter().for_each(|sample| digest.add_sample(name, sample));
            // In whole microseconds, as PostgreSQL's protocol has them. A PV's samples are further
            // apart.
            let micro = |nanos: i64| nanos.div_euclid(1_000) * 1_000;
            let after = samples.get(rows as usize).map(|next| micro(next.time));
            let to = after.or(taken.last().map(|last| micro(last.time) + 1_000)).unwrap_or(START_NANOS);
            let question = Question::OnePv { index, from: START_NANOS, to, rows };
            (format!("{} samples of one PV", whole(rows)), question, Content::Samples(digest))
        };
        [sns::ONE_PV_SAMPLES, sns::SHORT_SAMPLES].map(question).into()
    }

    fn ask_all(
        &mut self,
        one_pv: &[(String, Question, Content)],
        span: &mut Span,
        report: &mut Report,
        show: &mut dyn Show,
    ) -> Result<()> {
        if let Some(gaps) = self.store.gaps()?.filter(|gaps| *gaps != self.truth.lost) {
            let title = span.name.title();
            report.findings.push(format!("{title}: read {gaps} gaps, written {}", self.truth.lost));
        }
        let truth = &self.truth;
        let all_pvs = format!("all PVs, {} s", self.settings.all_pvs_s);
        let mut asked = one_pv.to_vec();
        asked.push((all_pvs, Question::AllPvs(truth.interval), Content::Samples(truth.within)));
        asked.push(("newest sample of every PV".to_owned(), Question::Newest, Content::Samples(truth.newest())));
        if self.settings.scans {
            asked.push(("scan: count and sums".to_owned(), Question::Scan, Content::Sums(truth.sums)));
            asked.push((
                "scan: all samples to the client".to_owned(),
                Question::Everything,
                Content::Samples(truth.all),
            ));
        }
        for (name, question, expected) in asked {
            for protocol in self.store.protocols(&question) {
                if INTERRUPTED.load(Ordering::Relaxed) {
                    return Ok(());
                }
                show.stage(&format!("{}: {}: {name}, {}", self.product.name(), span.name.title(), protocol.name()));
                match self.ask(&name, &question, *protocol, &expected) {
                    Ok(Ok(query)) => span.queries.push(query),
                    Ok(Err(finding)) => report.findings.push(format!("{}: {finding}", span.name.title())),
                    Err(error) => report.failures.push(format!("{}, {}: {error}", name, protocol.name())),
                }
            }
        }
        Ok(())
    }

    /// Asks a question several times. The inner error is a wrong answer.
    fn ask(
        &mut self,
        name: &str,
        question: &Question,
        protocol: Protocol,
        expected: &Content,
    ) -> Result<std::result::Result<Query, String>> {
        let (kind, times) = match question {
            Question::OnePv { .. } => (Query::ONE_PV, self.settings.repeat),
            Question::AllPvs(_) => (Query::ALL_PVS, self.settings.repeat.min(5)),
            Question::Newest => (Query::NEWEST, self.settings.repeat.min(5)),
            Question::Scan => (Query::SCAN, self.settings.repeat.min(3)),
            Question::Everything => (Query::EVERYTHING, 1),
        };
        let before = self.usage();
        let mut took_ms = Vec::new();
        let mut rows = 0;
        for _ in 0..times {
            let Answer { took, content } = self.store.ask(protocol, question)?;
            if let Err(difference) = check(&content, expected) {
                return Ok(Err(format!("{name}, {}: {difference}", protocol.name())));
            }
            rows = match content {
                Content::Samples(digest) => digest.rows,
                Content::Sums(sums) => sums.rows,
            };
            took_ms.push(took.as_secs_f64() * 1e3);
        }
        let server_cpu_s = cpu(&before, &self.usage());
        let first_ms = took_ms.first().copied().unwrap_or_default();
        took_ms.sort_unstable_by(f64::total_cmp);
        Ok(Ok(Query {
            kind: kind.to_owned(),
            name: name.to_owned(),
            protocol: protocol.name().to_owned(),
            statement: self.store.statement(question),
            times,
            rows,
            first_ms,
            median_ms: took_ms.get(took_ms.len() / 2).copied().unwrap_or_default(),
            min_ms: took_ms.first().copied().unwrap_or_default(),
            max_ms: took_ms.last().copied().unwrap_or_default(),
            server_cpu_s,
        }))
    }

    fn compact(&mut self, show: &mut dyn Show) -> Result<report::Compaction> {
        show.stage(&format!("{}: compacting", self.product.name()));
        let before = self.usage();
        let began = Instant::now();
        self.store.compact()?;
        let seconds = began.elapsed().as_secs_f64();
        let rest = self.wait();
        let server_cpu_s = cpu(&before, &self.usage());
        Ok(report::Compaction { seconds, server_cpu_s, data_bytes: rest.bytes, log_bytes: self.log_bytes() })
    }

    /// Checks the sums of the whole table after the compaction.
    fn check_scan(&mut self, report: &mut Report) -> Result<()> {
        let protocols = self.store.protocols(&Question::Scan);
        for protocol in protocols.iter().filter(|_| self.settings.scans) {
            let answer = self.store.ask(*protocol, &Question::Scan)?;
            if let Err(difference) = check(&answer.content, &Content::Sums(self.truth.sums)) {
                report.findings.push(format!("after the compaction: {difference}"));
            }
        }
        Ok(())
    }

    /// Loads the published blocks of text lines into a table of their own.
    fn blocks(&mut self, report: &mut Report, show: &mut dyn Show) -> Result<()> {
        let times = self.settings.repeat.clamp(1, 3);
        let lines: usize = BLOCKS.iter().sum::<usize>() * times as usize;
        let texts = lines_of(self.population, lines);
        if texts.len() < lines {
            report.notes.push("blocks of text lines: too few samples with numbers in these classes".to_owned());
            return Ok(());
        }
        self.store.create_blocks()?;
        let mut at = 0;
        for count in BLOCKS {
            show.stage(&format!("{}: block of {} lines", self.product.name(), whole(count as u64)));
            let mut took_ms = Vec::new();
            let mut bytes = 0;
            for _ in 0..times {
                let block = texts[at..at + count].concat();
                at += count;
                bytes = block.len() as u64;
                took_ms.push(self.store.load_block(block.as_bytes(), count as u64)?.as_secs_f64() * 1e3);
            }
            took_ms.sort_unstable_by(f64::total_cmp);
            report.blocks.push(report::Block {
                lines: count as u64,
                bytes,
                times,
                median_ms: took_ms[took_ms.len() / 2],
                min_ms: took_ms[0],
            });
        }
        self.store.drop_blocks()
    }
}

/// Size of InnoDB's redo log, which keeps a fixed size, in a data directory.
fn redo_bytes(dir: &std::path::Path) -> Option<u64> {
    let entries = std::fs::read_dir(dir).ok()?.flatten();
    let logs = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("ib_logfile"));
    Some(logs.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.blocks() * 512).sum())
}

/// The first samples with numbers as text lines: time, PV, value, severity, status.
fn lines_of(population: &Population, count: usize) -> Vec<String> {
    let mut lines = Vec::with_capacity(count);
    let mut stream = Stream::new(population, MINUTE);
    let mut batch = Batch::default();
    while lines.len() < count && stream.next(DAY, &mut batch) {
        for sample in batch.arrived.iter().filter(|sample| !sample.repeats).take(count - lines.len()) {
            let Some(value) = sample.number() else { continue };
            let time = jiff::Timestamp::from_microsecond(sample.time.div_euclid(1_000)).unwrap_or_default();
            let time = time.strftime("%Y-%m-%d %H:%M:%S%.6f");
            let name = population.name(sample.pv);
            lines.push(format!("{time}\t{name}\t{value}\t{}\t{}\n", sample.severity, sample.status));
        }
    }
    lines
}

fn check(read: &Content, expected: &Content) -> std::result::Result<(), String> {
    match (read, expected) {
        (Content::Samples(read), Content::Samples(expected)) if read == expected => Ok(()),
        (Content::Samples(read), Content::Samples(expected)) if read.rows != expected.rows => {
            Err(format!("read {} samples, written {}", read.rows, expected.rows))
        }
        (Content::Sums(read), Content::Sums(expected)) => expected.check(read),
        _ => Err("the samples that were read are not those that were written (their checksum differs)".to_owned()),
    }
}

/// CPU seconds between two readings; `None` if unknown.
fn cpu(before: &Usage, after: &Usage) -> Option<f64> {
    after.cpu_s.map(|after| (after - before.cpu_s.unwrap_or(0.0)).max(0.0))
}

/// Generates the samples before `end` and queues them as requests. Ends early if a connection
/// failed or the run was stopped.
fn generate(
    population: &Population,
    truth: &mut Truth,
    stream: &mut Stream<'_>,
    end: i64,
    encoder: &mut dyn store::Encoder,
    sender: SyncSender<Request>,
    failed: &AtomicBool,
) -> Result<()> {
    let mut batch = Batch::default();
    let mut requests = Vec::new();
    let queue = |requests: &mut Vec<Request>| requests.drain(..).all(|request| sender.send(request).is_ok());
    while stream.next(end, &mut batch) {
        truth.add(population, &batch);
        encoder.encode(population, &batch, &mut requests)?;
        let stopped = INTERRUPTED.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed);
        if !queue(&mut requests) || stopped {
            break;
        }
    }
    encoder.finish(&mut requests)?;
    queue(&mut requests);
    Ok(())
}

/// Sends requests until the queue ends. Returns their latencies.
fn send(
    mut writer: Box<dyn Writer>,
    receiver: &Mutex<Receiver<Request>>,
    acknowledged: &AtomicU64,
) -> Result<Histogram<u64>> {
    let mut histogram = empty();
    loop {
        let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(request) = next else { return Ok(histogram) };
        let began = Instant::now();
        writer.write(&request)?;
        histogram.saturating_record(began.elapsed().as_nanos() as u64);
        acknowledged.fetch_add(request.rows, Ordering::Relaxed);
    }
}

/// `Millrace: writing, week [#####-----]  50 %  1.2 M samples/s, 4 min 5 s left`.
fn progress(title: &str, done: u64, before: u64, expected: f64, elapsed: Duration) -> String {
    const WIDTH: usize = 20;
    let share = (done as f64 / expected.max(1.0)).clamp(0.0, 1.0);
    let filled = (share * WIDTH as f64) as usize;
    let (full, rest) = ("#".repeat(filled), "-".repeat(WIDTH - filled));
    let rate = (done - before) as f64 / elapsed.as_secs_f64().max(1e-9);
    let left = if rate > 0.0 { seconds((expected - done as f64).max(0.0) / rate) } else { "–".to_owned() };
    format!("{title} [{full}{rest}] {:3.0} %  {} samples/s, {left} left", share * 100.0, short(rate))
}

/// Settings of a dry run of the generator.
#[derive(Clone, Debug)]
pub(crate) struct DryRun {
    pub(crate) shape: Shape,
    pub(crate) span: SpanName,
    pub(crate) batch: i64,
    /// Samples to print as lines; 0: none.
    pub(crate) lines: u64,
}

/// Generates a span without a database, on one thread, and returns a text with counts and the rate.
pub(crate) fn dry_run(settings: &DryRun, show: &mut dyn Show) -> Result<String> {
    use std::fmt::Write;

    let population = Population::new(&settings.shape);
    if settings.lines > 0 {
        return Ok(lines_of(&population, settings.lines as usize).concat());
    }
    let interval = Interval { from: START_NANOS, to: START_NANOS + SECOND };
    let mut truth = Truth::new(&population, true, interval);
    let mut stream = Stream::new(&population, settings.batch);
    let mut batch = Batch::default();
    let (mut generated_s, mut heap_bytes) = (0.0, 0_u64);
    let expected = population.rate() * settings.span.length() as f64 / 1e9;
    let began = Instant::now();
    loop {
        let before_s = proc::thread_cpu_s();
        let more = stream.next(settings.span.length(), &mut batch);
        generated_s += proc::thread_cpu_s() - before_s;
        if !more || INTERRUPTED.load(Ordering::Relaxed) {
            break;
        }
        heap_bytes += batch.heap.len() as u64;
        truth.add(&population, &batch);
        show.live(&|| progress("generating", truth.sent, 0, expected, began.elapsed()));
    }
    let mut text = String::new();
    let sent = truth.sent.max(1) as f64;
    let published = settings.span.published_samples();
    let _ = writeln!(
        text,
        "{}: {} samples of {} PVs (published: {}), {} repeated stamps, {} lost connections, {:.2} % in alarm",
        settings.span.title(),
        whole(truth.sent),
        whole(population.pvs.iter().filter(|pv| pv.days.start == 0).count() as u64),
        whole(published),
        whole(truth.repeats),
        whole(truth.lost),
        truth.alarms as f64 / sent * 100.0
    );
    for (class, count) in Class::ALL.iter().zip(truth.of_class) {
        let pvs = population.pvs.iter().filter(|pv| pv.class == *class && pv.days.start == 0).count();
        let share = count as f64 / sent * 100.0;
        let _ = writeln!(
            text,
            "  {:<9} {:>13} samples {share:5.1} % (declared {:4.1} %) of {:>6} PVs",
            class.name(),
            whole(count),
            class.share() * 100.0,
            whole(pvs as u64)
        );
    }
    let _ = writeln!(text, "texts and waveforms: {:.2} bytes per sample of all classes", heap_bytes as f64 / sent);
    let _ = writeln!(
        text,
        "generated in order of arrival at {} samples/s of one core ({} of CPU)",
        short(sent / generated_s.max(1e-9)),
        seconds(generated_s)
    );
    Ok(text)
}
