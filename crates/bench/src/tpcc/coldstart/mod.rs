//! Measures how long a server takes from its execution to its first answers, by the size of its
//! data.
//!
//! A table of small rows is loaded to each size in turn. At each size the server is stopped, either
//! cleanly or by SIGKILL with commits after the checkpoint; its files are dropped from the page
//! cache or read into it; and it is started again. The clock runs from the execution of the program
//! until a row is returned by its key, and until all rows are counted. Before that, the same files
//! are read sequentially without the server, which gives the disk's maximum rate.
//!
//! Always true:
//! - A wrong answer is a finding, and a run with findings has no figures.
//! - Count and sums of all rows are compared after every start, outside the measured time.
//! - Whether files are cold is measured: each start records the share of them that was cached
//!   before it.

mod report;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::check::integers;
use super::load::{Shared, bar, in_parallel};
use super::rowload::{PAYLOAD, PAYLOADS, ROW_BYTES, amount, payloads};
use super::session::{Admin, Connector};
use super::{Isolation, Product, schema, server_options, subject};
use crate::drivers::Target;
use crate::error::{Class, Error, Result};
use crate::measure::page_cache::{self, Method};
use crate::measure::proc;
use crate::measure::sampler::Sampler;
use crate::peers::Server;
use crate::report::format::{bytes, percent, seconds};
use crate::run::target_server::{TargetServer, TargetServerOptions};
use crate::run::{INTERRUPTED, Show};
pub(crate) use report::{Cache, DiskRead, GOAL_OF_DISK, KINDS, Report, Size, Start, Stop, Summary};

/// Number of rows in one COPY, which is one transaction.
const COPY_ROWS: u64 = 5_000;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
/// Time limit for a server's first answer.
const START_WITHIN: Duration = Duration::from_secs(2 * 3600);
const MIB: u64 = 1 << 20;
/// Maximum share of files in the page cache at which a start counts as cold.
const COLD_CACHED_MAX: f64 = 0.05;

/// Options of a run.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Sizes of the rows in bytes, ascending.
    pub(crate) sizes: Vec<u64>,
    /// Number of starts of each kind at each size.
    pub(crate) repeat: u32,
    pub(crate) stops: Vec<Stop>,
    pub(crate) caches: Vec<Cache>,
    /// Rows committed between the checkpoint and SIGKILL, as a share of the existing rows.
    pub(crate) tail: f64,
    pub(crate) secondary_index: bool,
    pub(crate) method: Method,
    pub(crate) load_connections: usize,
    pub(crate) seed: u64,
    pub(crate) placing: TargetServerOptions,
    pub(crate) command: Vec<String>,
}

/// Loads, stops, starts and queries the server at each size.
///
/// # Errors
/// The run could not start or continue. Wrong answers are not errors: they are in the report.
pub(crate) fn run(settings: &Settings, target: &Target, show: &mut dyn Show) -> Result<Report> {
    let product = Product::of(target)?;
    target.only(&[])?;
    if product == Product::MariaDb {
        return Err(Error::unsupported("coldstart: expected millrace or postgres"));
    }
    if !target.is_private() {
        return Err(Error::setup(format!(
            "--target {}: only a private server can be stopped and started; give only a product's name",
            target.display_url()
        )));
    }
    let mut bench = Bench::open(settings, product, target, show)?;
    for size in &settings.sizes {
        bench.at_size(*size)?;
        if INTERRUPTED.load(Ordering::Relaxed) {
            bench.report.notes.push("stopped by Ctrl-C; the results until then are shown".to_owned());
            break;
        }
    }
    Ok(bench.report)
}

impl Settings {
    /// Options for starting the server; an error if this machine lacks disk space or memory.
    fn server_options_for(&self, product: Product) -> Result<TargetServerOptions> {
        let mut placing = server_options(product, &self.placing, self.load_connections);
        let largest = self.sizes.last().copied().unwrap_or(0);
        let with_tail = largest + (largest as f64 * self.tail) as u64;
        check_disk(product, with_tail, &placing)?;
        if product == Product::Millrace {
            check_memory(with_tail)?;
            if placing.memory_mib.is_none() {
                placing.memory_mib = u32::try_from(millrace_memory(with_tail) / MIB).ok();
            }
        }
        Ok(placing)
    }
}

/// Maximum disk space in bytes: files that are rewritten next to the old ones, indexes, and the
/// log.
fn disk_needed(product: Product, rows_bytes: u64) -> u64 {
    match product {
        // A log of 1.2 GiB, and two copies of every file while a checkpoint writes it.
        Product::Millrace => rows_bytes * 3 + 1_300 * MIB,
        // Page and tuple headers, two indexes, and a log of at most the table's size or 8 GiB.
        _ => rows_bytes * 2 + rows_bytes.min(8 << 30) + 200 * MIB,
    }
}

fn check_disk(product: Product, rows_bytes: u64, placing: &TargetServerOptions) -> Result<()> {
    let parent_dir = placing.parent_dir.clone().unwrap_or_else(std::env::temp_dir);
    let free = page_cache::free_bytes(&parent_dir)
        .map_err(|error| Error::setup(format!("{}: its free space cannot be read: {error}", parent_dir.display())))?;
    let needed = disk_needed(product, rows_bytes);
    if free >= needed {
        return Ok(());
    }
    Err(Error::setup(format!(
        "{}: {} are free, and {} with {} of rows may take {} while it is loaded; name another directory with --server-dir, or \
         smaller --sizes",
        parent_dir.display(),
        bytes(free as f64),
        product.name(),
        bytes(rows_bytes as f64),
        bytes(needed as f64)
    )))
}

/// Memory for each byte of a row, with the row's overhead and its index entries.
const MEMORY_PER_ROW_BYTE: f64 = 2.0;

fn check_memory(rows_bytes: u64) -> Result<()> {
    let Some((machine, _)) = proc::host_memory() else { return Ok(()) };
    let needed = (rows_bytes as f64 * MEMORY_PER_ROW_BYTE) as u64;
    if needed <= machine {
        return Ok(());
    }
    Err(Error::setup(format!(
        "{} of rows take about {} of memory, and this machine has {}: give smaller --sizes",
        bytes(rows_bytes as f64),
        bytes(needed as f64),
        bytes(machine as f64)
    )))
}

/// Memory of the server: tables of rows may use half of it. At least the server's default.
fn millrace_memory(rows_bytes: u64) -> u64 {
    let half = proc::host_memory().map_or(0, |(machine, _)| machine / 2);
    half.max((rows_bytes as f64 * MEMORY_PER_ROW_BYTE * 2.0) as u64)
}

/// A run on one target.
struct Bench<'a> {
    settings: &'a Settings,
    connector: Connector,
    target_server: TargetServer,
    payloads: Vec<String>,
    /// Number of acknowledged rows; their ids are below this.
    rows: u64,
    report: Report,
    show: &'a mut dyn Show,
}

impl<'a> Bench<'a> {
    /// Starts the server and creates the table.
    fn open(settings: &'a Settings, product: Product, target: &Target, show: &'a mut dyn Show) -> Result<Bench<'a>> {
        let placing = settings.server_options_for(product)?;
        show.stage(&format!("{}: starting", product.name()));
        let target_server = TargetServer::open(target, &placing, 0)?;
        let (target, isolation) = (target_server.target.clone(), Isolation::ReadCommitted);
        let connector = Connector { product, target, isolation, timeout: ANSWER_TIMEOUT };
        let report = Report::new(settings, subject(&connector, &target_server)?);
        let payloads = payloads(settings.seed);
        let mut bench = Bench { settings, connector, target_server, payloads, rows: 0, report, show };
        bench.create()?;
        Ok(bench)
    }

    fn name(&self) -> &'static str {
        self.connector.product.name()
    }

    fn server(&mut self) -> Result<&mut Server> {
        self.target_server.server.as_mut().ok_or_else(|| Error::setup("BUG: there is no private server"))
    }

    fn admin(&self) -> Result<Admin> {
        Admin::connect(&self.connector, true)
    }

    fn create(&mut self) -> Result<()> {
        let mut admin = Admin::connect(&self.connector, false)?;
        admin.run(&schema::clear(self.connector.product))?;
        let columns = format!("id bigint PRIMARY KEY, batch integer, amount bigint, payload varchar({PAYLOAD})");
        admin.query(&format!("CREATE TABLE coldstart ({columns})"))?;
        if self.settings.secondary_index {
            admin.query("CREATE INDEX coldstart_by_amount ON coldstart (amount)")?;
        }
        Ok(())
    }

    /// Runs all starts at one size. The server is running before and stopped after, except at the
    /// last size.
    fn at_size(&mut self, size: u64) -> Result<()> {
        if !self.report.sizes.is_empty() {
            self.start_unmeasured()?;
        }
        let rows = (size / ROW_BYTES).max(1);
        let began = Instant::now();
        let loaded = rows.saturating_sub(self.rows);
        self.grow(rows.max(self.rows))?;
        let mut result = Size { loaded_rows: loaded, load_s: began.elapsed().as_secs_f64(), ..Size::default() };
        self.settle(&mut result)?;
        result.rows = self.rows;
        result.row_bytes = self.rows * ROW_BYTES;
        let files = self.files(false)?;
        result.files = files.len();
        result.file_bytes = files.iter().map(|(_, bytes)| bytes).sum();
        result.disk = self.read_disk(&files)?;
        self.report.sizes.push(result);
        for (stop, cache) in self.kinds() {
            for _ in 0..self.settings.repeat {
                if INTERRUPTED.load(Ordering::Relaxed) {
                    return Ok(());
                }
                self.start_measured(stop, cache)?;
            }
        }
        Ok(())
    }

    /// Every kind of stop combined with every state of the cache.
    fn kinds(&self) -> Vec<(Stop, Cache)> {
        let with_caches = |stop: &Stop| self.settings.caches.iter().map(|cache| (*stop, *cache)).collect::<Vec<_>>();
        self.settings.stops.iter().flat_map(with_caches).collect()
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Rows

    /// Loads until the table has `rows` rows.
    fn grow(&mut self, rows: u64) -> Result<()> {
        let (first, began) = (self.rows, Instant::now());
        if rows <= first {
            return Ok(());
        }
        let name = self.name();
        let (connector, payloads, seed) = (&self.connector, &self.payloads, self.settings.seed);
        let work = |shared: &Shared| -> Result<()> {
            let mut admin = Admin::connect(connector, true)?;
            let mut text = Vec::new();
            while !shared.is_over() {
                let from = first + shared.take() as u64 * COPY_ROWS;
                if from >= rows {
                    return Ok(());
                }
                let ids = from..(from + COPY_ROWS).min(rows);
                text.clear();
                ids.clone().for_each(|id| row(seed, id, payloads, &mut text));
                admin.load("COPY coldstart FROM STDIN", &text, ids.end - ids.start)?;
                shared.loaded(ids.end - ids.start, text.len());
            }
            Ok(())
        };
        let progress = |shared: &Shared| format!("{name}: loading: {}", shared.progress(rows - first, began));
        let shared = in_parallel(self.settings.load_connections, self.show, work, progress)?;
        self.rows += shared.rows.load(Ordering::Relaxed);
        Ok(())
    }

    /// Updates statistics, writes a checkpoint, and stops the server cleanly.
    fn settle(&mut self, result: &mut Size) -> Result<()> {
        let name = self.name();
        let mut admin = self.admin()?;
        self.show.stage(&format!("{name}: statistics and checkpoint"));
        let word = if self.connector.product == Product::Postgres { "VACUUM ANALYZE" } else { "ANALYZE" };
        admin.query(&format!("{word} coldstart"))?;
        let began = Instant::now();
        admin.query("CHECKPOINT")?;
        result.checkpoint_s = began.elapsed().as_secs_f64();
        drop(admin);
        self.show.stage(&format!("{name}: stopping"));
        let began = Instant::now();
        self.server()?.stop()?;
        result.stop_s = began.elapsed().as_secs_f64();
        Ok(())
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Files

    /// Lists the server's files, with or without its log (if that is in a separate folder).
    fn files(&mut self, with_log: bool) -> Result<Vec<(PathBuf, u64)>> {
        let server = self.server()?;
        let skipped = if with_log { &[][..] } else { server.log_dirs() };
        let found = page_cache::files_below(server.data_dirs(), skipped);
        found.map_err(|error| Error::setup(format!("the server's files: {error}")))
    }

    /// Reads all files from the disk, with one reader and with one for each processor.
    fn read_disk(&mut self, files: &[(PathBuf, u64)]) -> Result<Vec<DiskRead>> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let mut reads = Vec::new();
        for readers in if processors > 1 { vec![1, processors] } else { vec![1] } {
            self.empty_cache(files)?;
            let seconds = self.read_files(files, readers, "reading from the disk")?;
            let bytes = files.iter().map(|(_, bytes)| bytes).sum();
            reads.push(DiskRead { readers, bytes, seconds });
        }
        Ok(reads)
    }

    /// Reads all files once and displays progress.
    fn read_files(&mut self, files: &[(PathBuf, u64)], readers: usize, what: &str) -> Result<f64> {
        let all: u64 = files.iter().map(|(_, bytes)| bytes).sum();
        let size = |number: u64| bytes(number as f64);
        let (name, done) = (self.name(), AtomicU64::new(0));
        let show = &mut *self.show;
        let read = std::thread::scope(|scope| {
            let reading = scope.spawn(|| page_cache::read_all(files, readers, &done));
            while !reading.is_finished() {
                std::thread::sleep(Duration::from_millis(5));
                let read = done.load(Ordering::Relaxed);
                let share = read as f64 / all.max(1) as f64;
                show.live(&|| format!("{name}: {what}: {} {} of {}", bar(share), size(read), size(all)));
            }
            reading.join().unwrap_or_else(|_| Err(std::io::Error::other("a thread that read files panicked")))
        });
        read.map_err(|error| Error::setup(format!("the server's files: {error}")))
    }

    fn empty_cache(&self, files: &[(PathBuf, u64)]) -> Result<()> {
        page_cache::drop_files(files, self.settings.method)
            .map_err(|error| Error::setup(format!("files cannot be dropped from the page cache: {error}")))
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Starts

    /// Stops the server in the given way, starts and measures it, and stops it cleanly.
    fn start_measured(&mut self, stop: Stop, cache: Cache) -> Result<()> {
        let mut start = Start { stop, cache, ..Start::default() };
        if stop == Stop::Kill {
            start.tail_rows = self.commit_tail_and_kill()?;
        }
        let gb = (self.rows * ROW_BYTES) as f64 / 1e9;
        let start_label = format!("{}, {gb:.3} GB, {}, {}", self.name(), stop.text(), cache.text());
        self.server()?.prepare_restart()?;
        let files = self.files(true)?;
        match cache {
            Cache::Cold => self.empty_cache(&files)?,
            Cache::Warm => {
                self.read_files(&files, 1, "reading into the cache")?;
            }
        }
        start.cached_before = page_cache::cached_share(&files);
        self.note_if_not_cold(&start, &start_label);
        self.clock(&mut start, &start_label)?;
        self.verify(&start_label)?;
        self.remove_tail(start.tail_rows)?;
        self.stop_cleanly()?;
        if let Some(size) = self.report.sizes.last_mut() {
            start.derive(size);
            size.starts.push(start);
        }
        Ok(())
    }

    /// Adds a note if the files were not cold: files on tmpfs, or read by other processes, remain
    /// cached.
    fn note_if_not_cold(&mut self, start: &Start, start_label: &str) {
        let share = start.cached_before.unwrap_or(0.0);
        if start.cache == Cache::Cold && share > COLD_CACHED_MAX {
            let cached = percent(share);
            self.report
                .notes
                .push(format!("{start_label}: {cached} of the files were still in the page cache: it was not cold"));
        }
    }

    /// Measures from the execution of the program to the last answer.
    fn clock(&mut self, start: &mut Start, start_label: &str) -> Result<()> {
        // Counts each process from its start.
        let sampler = Sampler::start(&[], &[], Instant::now());
        let began = self.server()?.launch_at_once()?;
        sampler.replace_pids(&self.server()?.root_pids());
        let id = self.rows / 2;
        let mut admin = None;
        let by_key = format!("SELECT id, batch, amount, payload FROM coldstart WHERE id = {id}");
        let answer = self.ask(&mut admin, &by_key, began, start_label)?;
        start.first_row_s = began.elapsed().as_secs_f64();
        let row = self.row_text(id);
        self.compare(start_label, &format!("row {id}"), &answer, &row);
        let answer = self.ask(&mut admin, "SELECT count(*) FROM coldstart", began, start_label)?;
        start.count_s = began.elapsed().as_secs_f64();
        let after = sampler.now();
        let rows = vec![self.rows.to_string()];
        self.compare(start_label, "count(*)", &answer, &rows);
        start.server_cpu_s = after.server_cpu_s;
        start.server_read_bytes = after.server_read_bytes;
        start.server_rss_bytes = after.server_rss_bytes;
        Ok(())
    }

    /// Repeats a query until it is answered.
    fn ask(
        &mut self,
        admin: &mut Option<Admin>,
        sql: &str,
        began: Instant,
        start_label: &str,
    ) -> Result<Vec<Vec<Option<String>>>> {
        loop {
            let connected = match admin {
                Some(connected) => Ok(connected),
                None => self.admin().map(|made| admin.insert(made)),
            };
            let error = match connected.and_then(|admin| admin.query(sql)) {
                Ok(rows) => return Ok(rows),
                Err(error) => error,
            };
            *admin = None;
            let not_yet = matches!(error.class, Class::Connection | Class::Overloaded | Class::Timeout);
            if !not_yet || began.elapsed() >= START_WITHIN || INTERRUPTED.load(Ordering::Relaxed) {
                return Err(error.during(start_label));
            }
            self.server()?.check_alive()?;
            self.show.live(&|| format!("{start_label}: starting for {}", seconds(began.elapsed().as_secs_f64())));
            // At most a thousandth of the elapsed time, so that polling is cheap and adds little
            // error.
            let pause = (began.elapsed() / 1000).clamp(Duration::from_micros(500), Duration::from_millis(20));
            std::thread::sleep(pause);
        }
    }

    fn compare(&mut self, start_label: &str, what: &str, answer: &[Vec<Option<String>>], expected: &[String]) {
        let seen: Vec<String> = answer.iter().flatten().map(|cell| cell.clone().unwrap_or_default()).collect();
        if seen != expected {
            self.report.findings.push(format!("{start_label}: {what} is {seen:?}, expected {expected:?}"));
        }
    }

    /// Expected cells of a row.
    fn row_text(&self, id: u64) -> Vec<String> {
        let mut text = Vec::new();
        row(self.settings.seed, id, &self.payloads, &mut text);
        let text = String::from_utf8_lossy(&text);
        text.trim_end().split('\t').map(str::to_owned).collect()
    }

    /// Compares count and sums of all rows, and the last row.
    fn verify(&mut self, start_label: &str) -> Result<()> {
        let name = self.name();
        self.show.stage(&format!("{name}: summing all rows"));
        let mut admin = self.admin()?;
        let sums = "SELECT count(*), sum(id), sum(amount), sum(length(payload)) FROM coldstart";
        let answer = admin.query(sums)?;
        let found: [i64; 4] = integers(answer.first().map_or(&[][..], Vec::as_slice))?;
        let (rows, seed) = (self.rows as i64, self.settings.seed);
        let amounts = (0..rows).map(|id| amount(seed, id)).sum();
        let expected = [rows, rows * (rows - 1) / 2, amounts, rows * i64::from(PAYLOAD)];
        if found != expected {
            let finding =
                format!("{start_label}: count and sums of id, amount, length are {found:?}, expected {expected:?}");
            self.report.findings.push(finding);
        }
        let last = self.rows - 1;
        let answer = admin.query(&format!("SELECT id, batch, amount, payload FROM coldstart WHERE id = {last}"))?;
        let row = self.row_text(last);
        self.compare(start_label, &format!("row {last}"), &answer, &row);
        Ok(())
    }

    /// Starts the server and waits until it answers.
    fn start_unmeasured(&mut self) -> Result<()> {
        let start_label = format!("{}: starting", self.name());
        self.server()?.prepare_restart()?;
        let began = self.server()?.launch_at_once()?;
        self.ask(&mut None, "SELECT 1", began, &start_label).map(|_| ())
    }

    /// Commits rows after a checkpoint and kills the server. Returns the number of rows.
    fn commit_tail_and_kill(&mut self) -> Result<u64> {
        self.start_unmeasured()?;
        self.admin()?.query("CHECKPOINT")?;
        let tail = ((self.rows as f64 * self.settings.tail) as u64).max(1);
        self.grow(self.rows + tail)?;
        self.server()?.kill9()?;
        Ok(tail)
    }

    /// Deletes the rows added by [`Self::commit_tail_and_kill`], so that every start has the same rows
    /// before its tail.
    fn remove_tail(&mut self, tail: u64) -> Result<()> {
        if tail == 0 {
            return Ok(());
        }
        let mut admin = self.admin()?;
        let first = self.rows - tail;
        while self.rows > first {
            let from = self.rows.saturating_sub(COPY_ROWS).max(first);
            admin.query(&format!("DELETE FROM coldstart WHERE id >= {from} AND id < {}", self.rows))?;
            self.rows = from;
        }
        if self.connector.product == Product::Postgres {
            admin.query("VACUUM coldstart")?;
        }
        Ok(())
    }

    fn stop_cleanly(&mut self) -> Result<()> {
        self.admin()?.query("CHECKPOINT")?;
        self.server()?.stop()
    }
}

/// Appends a row in COPY's text format.
fn row(seed: u64, id: u64, payloads: &[String], out: &mut Vec<u8>) {
    use std::io::Write;
    let payload = &payloads[id as usize % PAYLOADS];
    // Writing to a Vec cannot fail.
    let _ = writeln!(out, "{id}\t{}\t{}\t{payload}", id / 10, amount(seed, id as i64));
}

#[cfg(test)]
mod tests;
