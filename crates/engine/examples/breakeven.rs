//! CPU cost of changing and reading shares of blocks, compressed and uncompressed, without sockets
//! and SQL: `cargo run --release --example breakeven -p engine [SERIES] [DAYS] [DIRECTORY]`.
//!
//! The workload of `millrace bench breakeven`: series with a value and a flag every 15 minutes. A
//! share of their days is changed, by commits of one day of one series or of 31 days of all series;
//! then everything is read in the same units. Reports CPU of all threads, because wall time says
//! little on a busy machine: of commits, of the flush with its compactions, and of reading (the
//! minimum of three).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int16Type};
use arrow_array::{ArrayRef, Float64Array, Int16Array};
use columns::{ScanRequest, SeriesFilter};
use engine::{Batch, ColumnSpec, Durability, Engine, Isolation, KeyList, Op, Ops, Options, Rows, Stats, TableSpec};
use env::{Env, RealEnv};
use model::{ColumnId, ColumnRole, DataType, KeyValue, Lsn, Result, TableId, TableName, TableOptions, TimeRange, key};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Values of a day.
const BLOCK: usize = 96;
const STEP_NS: i64 = 900_000_000_000;
const BULK_DAYS: usize = 31;
const SHARES: [usize; 5] = [1, 25, 50, 75, 100];
const VALUE: ColumnId = ColumnId(2);
const FLAG: ColumnId = ColumnId(3);

struct Shape {
    series: usize,
    days: usize,
}

/// Some days of some series.
#[derive(Clone, Copy)]
struct Stretch {
    series: (usize, usize),
    days: (usize, usize),
}

fn main() -> Result<()> {
    let number = |at: usize, other: usize| std::env::args().nth(at).and_then(|word| word.parse().ok()).unwrap_or(other);
    let shape = Shape { series: number(1, 10), days: number(2, 365) };
    let folder = std::env::args().nth(3).map_or_else(std::env::temp_dir, PathBuf::from);
    println!(
        "{:12} {:7} {:>6} {:>10} {:>10} {:>11} {:>11} {:>9} {:>9} {:>11}",
        "table", "by", "share", "commit ns", "flush ns", "fresh ns", "rest ns", "segments", "MB", "written B/v"
    );
    let dir = folder.join(format!("breakeven-{}", std::process::id()));
    let outcome = measure(&dir, &shape);
    RealEnv::new().remove_dir_all(&dir).map_err(|error| model::Error::io("remove", &error))?;
    outcome
}

/// The database with or without compression.
struct Side {
    name: &'static str,
    engine: Engine,
    table: TableId,
}

impl Side {
    fn open(dir: &Path, name: &'static str, compression: bool) -> Result<Side> {
        let (engine, _) = Engine::open(Arc::new(RealEnv::new()), &dir.join(name), Options::default())?;
        let table = make(&engine, compression)?;
        Ok(Side { name, engine, table })
    }
}

fn measure(dir: &Path, shape: &Shape) -> Result<()> {
    let sides = [Side::open(dir, "compressed", true)?, Side::open(dir, "plain", false)?];
    let mut version = 0;
    for side in &sides {
        shape.bulks().iter().try_for_each(|stretch| write(side, &shape.rows(stretch, 100, version)))?;
        rest(&side.engine)?;
    }
    for (name, stretches) in [("single", shape.blocks()), ("bulk", shape.bulks())] {
        for share in SHARES {
            version += 1;
            let batches: Vec<Batch> = stretches.iter().map(|stretch| shape.rows(stretch, share, version)).collect();
            sides.iter().try_for_each(|side| step(side, shape, (name, share), &stretches, &batches))?;
        }
    }
    sides.iter().try_for_each(|side| side.engine.close())
}

fn step(
    side: &Side,
    shape: &Shape,
    (name, share): (&str, usize),
    stretches: &[Stretch],
    batches: &[Batch],
) -> Result<()> {
    let changed: usize = batches.iter().map(|batch| batch.rows.len()).sum();
    let (cpu, before) = (Cpu::now(), side.engine.stats());
    batches.iter().try_for_each(|batch| write(side, batch))?;
    let commit = cpu.elapsed();
    let fresh = read_thrice(side, shape, stretches)?;
    let cpu = Cpu::now();
    rest(&side.engine)?;
    let flush = cpu.elapsed();
    let at_rest = read_thrice(side, shape, stretches)?;
    let stats = side.engine.stats();
    let written = |stats: &Stats| stats.metric("flush_bytes") + stats.metric("compaction_bytes") + stats.log_bytes;
    let each = |cpu: Duration, values: usize| cpu.as_nanos() as f64 / values as f64;
    let all = shape.series * shape.days * BLOCK;
    println!(
        "{:12} {name:7} {share:>4} % {:>10.1} {:>10.1} {:>11.2} {:>11.2} {:>9} {:>9.2} {:>11.1}",
        side.name,
        each(commit, changed),
        each(flush, changed),
        each(fresh, all),
        each(at_rest, all),
        stats.segments,
        stats.segment_bytes as f64 / 1e6,
        (written(&stats) - written(&before)) as f64 / changed as f64
    );
    Ok(())
}

/// The minimum CPU time of three readings.
fn read_thrice(side: &Side, shape: &Shape, stretches: &[Stretch]) -> Result<Duration> {
    let mut least = read(side, shape, stretches)?;
    for _ in 0..2 {
        least = least.min(read(side, shape, stretches)?);
    }
    Ok(least)
}

fn make(engine: &Engine, compression: bool) -> Result<TableId> {
    let column = |name: &str, ty, role| ColumnSpec { name: name.into(), ty, nullable: role != ColumnRole::Time, role };
    let columns = vec![
        column("series", DataType::Int32, ColumnRole::Key),
        column("time", DataType::Timestamp, ColumnRole::Time),
        column("value", DataType::Float64, ColumnRole::Field),
        column("flag", DataType::Int16, ColumnRole::Field),
    ];
    let options = TableOptions { compression, ..TableOptions::default() };
    let spec = TableSpec { name: TableName::public("t"), keyed: true, columns, options };
    let mut txn = engine.begin(Isolation::ReadCommitted, Lsn::ZERO);
    let table = txn.create_table(&spec)?.id;
    engine.finish(txn.commit(Durability::Sync))?;
    Ok(table)
}

/// Writes without waiting for the disk, which costs both databases the same.
fn write(side: &Side, batch: &Batch) -> Result<()> {
    let mut txn = side.engine.begin(Isolation::ReadCommitted, Lsn::ZERO);
    txn.write(side.table, batch.clone())?;
    side.engine.finish(txn.commit(Durability::Async))?;
    Ok(())
}

/// Flushes, and waits until no compaction has finished for a while.
fn rest(engine: &Engine) -> Result<()> {
    engine.flush()?;
    let mut compactions = engine.stats().metric("compactions");
    loop {
        std::thread::sleep(Duration::from_millis(300));
        let now = engine.stats().metric("compactions");
        if now == std::mem::replace(&mut compactions, now) {
            return Ok(());
        }
    }
}

/// CPU time of reading all stretches, one scan each; panics if a value is missing.
fn read(side: &Side, shape: &Shape, stretches: &[Stretch]) -> Result<Duration> {
    let cpu = Cpu::now();
    let (mut rows, mut sum) = (0, 0.0);
    for stretch in stretches {
        let snapshot = side.engine.snapshot(Lsn::ZERO);
        let view = snapshot.table_by_id(side.table)?;
        let mut series: Vec<u32> =
            (stretch.series.0..stretch.series.1).filter_map(|series| view.lookup(&key_of(series))).collect();
        series.sort_unstable();
        let time = ColumnId(1);
        let request = ScanRequest {
            times: TimeRange { start: time_of(stretch.days.0 * BLOCK), last: time_of(stretch.days.1 * BLOCK) - 1 },
            series: SeriesFilter::Only(series.into()),
            ..ScanRequest::all(vec![ColumnId(0), time, VALUE, FLAG])
        };
        for batch in view.scan(request)? {
            let batch = batch?;
            rows += batch.num_rows();
            sum += batch.column(2).as_primitive::<Float64Type>().values().iter().sum::<f64>();
            sum +=
                batch.column(3).as_primitive::<Int16Type>().values().iter().map(|flag| f64::from(*flag)).sum::<f64>();
        }
    }
    assert_eq!(rows, shape.series * shape.days * BLOCK, "values are missing (their sum is {sum})");
    Ok(cpu.elapsed())
}

fn key_of(series: usize) -> Vec<u8> {
    key::encode(&[KeyValue::Int(series as i64)])
}

fn time_of(slot: usize) -> i64 {
    1_735_689_600_000_000_000 + slot as i64 * STEP_NS
}

/// Sixty-four pseudo-random bits that depend on all of `place`.
fn noise(place: [usize; 3]) -> u64 {
    place.iter().fold(0x9E37_79B9_7F4A_7C15, |state: u64, part| {
        let mixed = (state ^ *part as u64).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed ^ mixed >> 29).wrapping_mul(0x94D0_49BB_1331_11EB) ^ mixed >> 31
    })
}

impl Shape {
    fn blocks(&self) -> Vec<Stretch> {
        let of =
            |day| (0..self.series).map(move |series| Stretch { series: (series, series + 1), days: (day, day + 1) });
        (0..self.days).flat_map(of).collect()
    }

    fn bulks(&self) -> Vec<Stretch> {
        let stretch = |day: usize| Stretch { series: (0, self.series), days: (day, (day + BULK_DAYS).min(self.days)) };
        (0..self.days).step_by(BULK_DAYS).map(stretch).collect()
    }

    /// A share of each block of a stretch: adjacent values at a random offset.
    fn rows(&self, stretch: &Stretch, share: usize, version: usize) -> Batch {
        let count = (BLOCK * share).div_ceil(100);
        let mut keys = KeyList::new();
        let (mut series_of, mut times, mut values, mut flags) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for series in stretch.series.0..stretch.series.1 {
            let local = keys.intern(&key_of(series));
            for day in stretch.days.0..stretch.days.1 {
                let first = day * BLOCK + (noise([series, day, version]) % (BLOCK - count + 1) as u64) as usize;
                for slot in first..first + count {
                    let bits = noise([series, slot, version]);
                    let of_day = (slot % BLOCK) as f64 / BLOCK as f64 * std::f64::consts::TAU;
                    let load = 2_000.0 * (1 + series % 7) as f64 * (1.0 - 0.5 * of_day.cos());
                    series_of.push(local);
                    times.push(time_of(slot));
                    values.push((4 * (load as u64 + bits % 100) + version as u64 % 4) as f64 / 100.0);
                    flags.push(if bits >> 32 & 31 == 0 { 21 } else { 9 });
                }
            }
        }
        let values: ArrayRef = Arc::new(Float64Array::from(values));
        let flags: ArrayRef = Arc::new(Int16Array::from(flags));
        Batch::new(keys, Rows::new(series_of, times, Ops::All(Op::Replace), vec![(VALUE, values), (FLAG, flags)]))
    }
}

/// CPU time of all threads of this process.
struct Cpu(u64);

impl Cpu {
    fn now() -> Cpu {
        let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let of = |text: String| text.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
        Cpu(tasks.filter_map(|task| std::fs::read_to_string(task.path().join("schedstat")).ok()).map(of).sum())
    }

    fn elapsed(&self) -> Duration {
        Duration::from_nanos(Cpu::now().0.saturating_sub(self.0))
    }
}
