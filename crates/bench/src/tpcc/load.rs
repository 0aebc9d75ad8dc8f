//! Loads the tables: several connections generate and send units of the population in parallel.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::population::{self, Population};
use super::schema;
use super::session::{Admin, Connector};
use crate::error::{Error, Result};
use crate::measure::proc;
use crate::report::format;
use crate::run::{INTERRUPTED, Show};

/// Parameters of a load.
pub(super) struct Loading<'a> {
    pub(super) connector: &'a Connector,
    pub(super) population: &'a Population,
    pub(super) warehouses: i32,
    pub(super) foreign_keys: bool,
    pub(super) connections: usize,
}

/// Result of a load.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Loaded {
    pub(crate) rows: u64,
    /// Bytes of the rows as text.
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
    /// CPU seconds of this tool during the load, for generating and sending rows.
    pub(crate) client_cpu_s: f64,
    /// Seconds for keys, indexes, foreign keys and statistics.
    pub(crate) completing_s: f64,
}

/// State shared by the loading connections.
#[derive(Default)]
pub(super) struct Shared {
    /// Next unit of work that no thread has claimed.
    next: AtomicUsize,
    working: AtomicUsize,
    pub(super) rows: AtomicU64,
    bytes: AtomicU64,
    failed: AtomicBool,
    error: Mutex<Option<Error>>,
}

impl Shared {
    /// Claims the next unit of work and returns its number.
    pub(super) fn take(&self) -> usize {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns whether another thread failed or the load was interrupted.
    pub(super) fn is_over(&self) -> bool {
        self.failed.load(Ordering::Relaxed) || INTERRUPTED.load(Ordering::Relaxed)
    }

    /// Counts rows that the server accepted.
    pub(super) fn loaded(&self, rows: u64, bytes: usize) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Formats progress as `[####----]  40 % 4 M rows of 10 M, 1.2 M rows/s, 240 MiB/s`.
    pub(super) fn progress(&self, expected: u64, began: Instant) -> String {
        let (rows, seconds) = (self.rows.load(Ordering::Relaxed), began.elapsed().as_secs_f64().max(0.001));
        format!(
            "{} {} rows of {}, {} rows/s, {}/s",
            bar(rows as f64 / expected.max(1) as f64),
            format::short(rows as f64),
            format::short(expected as f64),
            format::short(rows as f64 / seconds),
            format::bytes(self.bytes.load(Ordering::Relaxed) as f64 / seconds),
        )
    }
}

/// Runs `work` on `threads` threads until all of them return, and displays progress.
///
/// # Errors
/// The first error of a thread, or the load was interrupted.
pub(super) fn in_parallel(
    threads: usize,
    show: &mut dyn Show,
    work: impl Fn(&Shared) -> Result<()> + Sync,
    progress: impl Fn(&Shared) -> String,
) -> Result<Shared> {
    let shared = Shared { working: AtomicUsize::new(threads), ..Shared::default() };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                if let Err(error) = work(&shared) {
                    shared.failed.store(true, Ordering::Relaxed);
                    shared.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
                shared.working.fetch_sub(1, Ordering::Relaxed);
            });
        }
        while shared.working.load(Ordering::Relaxed) > 0 {
            std::thread::sleep(Duration::from_millis(20));
            show.live(&|| progress(&shared));
        }
    });
    if let Some(error) = shared.error.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(error.during("loading"));
    }
    if INTERRUPTED.load(Ordering::Relaxed) {
        return Err(Error::setup("stopped while loading"));
    }
    Ok(shared)
}

impl Loading<'_> {
    /// Drops existing tables, creates the tables and fills them.
    pub(super) fn run(&self, show: &mut dyn Show) -> Result<Loaded> {
        let product = self.connector.product;
        show.stage(&format!("{}: creating tables", product.name()));
        let mut admin = Admin::connect(self.connector, false)?;
        admin.run(&schema::clear(product))?;
        admin.run(&schema::create(product))?;
        let (began, cpu_before) = (Instant::now(), proc::own_cpu_s());
        let shared = self.fill(show)?;
        let mut loaded = Loaded {
            rows: shared.rows.into_inner(),
            bytes: shared.bytes.into_inner(),
            seconds: began.elapsed().as_secs_f64(),
            client_cpu_s: proc::own_cpu_s() - cpu_before,
            completing_s: 0.0,
        };
        let began = Instant::now();
        show.stage(&format!("{}: keys, indexes and statistics", product.name()));
        for sql in schema::complete(product, self.foreign_keys).into_iter().chain(schema::analyze(product)) {
            show.live(&|| format!("{}: {sql}", product.name()));
            admin.query(&sql)?;
        }
        // A checkpoint, so that the run does not pay for the load; ignored if the user lacks the
        // privilege.
        let _ = admin.query("CHECKPOINT");
        loaded.completing_s = began.elapsed().as_secs_f64();
        Ok(loaded)
    }

    fn fill(&self, show: &mut dyn Show) -> Result<Shared> {
        let units = population::units(self.warehouses);
        let (began, expected) = (Instant::now(), population::rows_expected(self.warehouses));
        let progress =
            |shared: &Shared| format!("loading {} warehouses: {}", self.warehouses, shared.progress(expected, began));
        in_parallel(self.connections, show, |shared| self.work(&units, shared), progress)
    }

    fn work(&self, units: &[population::Unit], shared: &Shared) -> Result<()> {
        let mut admin = Admin::connect(self.connector, true)?;
        let product = self.connector.product;
        while let Some(unit) = units.get(shared.take()) {
            for rows in self.population.rows(*unit) {
                if shared.is_over() {
                    return Ok(());
                }
                admin.load(&schema::bulk(product, rows.table), &rows.bytes, rows.count)?;
                shared.loaded(rows.count, rows.bytes.len());
            }
        }
        Ok(())
    }
}

/// Progress bar: `[#####-----]  50 %`.
pub(super) fn bar(share: f64) -> String {
    const WIDTH: usize = 20;
    let done = (share.clamp(0.0, 1.0) * WIDTH as f64) as usize;
    format!("[{}{}] {:3.0} %", "#".repeat(done), "-".repeat(WIDTH - done), share.clamp(0.0, 1.0) * 100.0)
}
