//! Cost and benefit of compressing rows for the log: `cargo run --release -p columns --example
//! columns_log [FOLDER]`.
//!
//! First the cost of log bytes: nanoseconds per byte, as CPU time of this thread and as wall time,
//! to copy, checksum, write and sync in FOLDER (default: the temporary folder). Then a line for
//! each class of data and shape of batch: bytes per value, and nanoseconds per value to encode and
//! decode, for raw rows, compressed rows, and compressed rows followed by zstd. The fastest of many
//! rounds counts, to exclude disturbance by other processes.

// Some of the data is used only by other examples.
#[allow(dead_code)]
mod data;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use columns::{Op, Ops, Rows};
use data::{Class, ROWS, classes};
use env::{Env, Open, RealEnv};
use model::{ColumnId, Error, Result};

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Duration of each measurement.
const MEASURE: Duration = Duration::from_millis(60);
/// Classes of data that the benchmarks write.
const CLASSES: [&str; 12] = [
    "2 digits, normal steps of 5",
    "2 digits, sine",
    "2 digits, uniform 49 .. 51",
    "4 digits, normal steps of 50",
    "2 digits, 1 in 50 NaN",
    "2 digits as real, steps of 5",
    "gauge, normal steps of 5",
    "counter, by 7",
    "bool, 1 in 10",
    "noise 0 .. 1",
    "text, states",
    "text, log lines",
];
/// Rows, columns, series.
const SHAPES: [(usize, usize, u32); 3] = [(100, 300, 1), (1_000, 1, 1), (1_000, 1, 1_000)];

fn main() -> Result<()> {
    let folder = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    log_bytes(&folder)?;
    println!(
        "\n| data | rows x columns, series | raw | in / out | compressed | in / out | zstd 1 | in / out | zstd -5 | in / out |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|");
    for class in classes().iter().filter(|class| CLASSES.contains(&class.name)) {
        for shape in SHAPES {
            measure(class, shape)?;
        }
    }
    Ok(())
}

fn measure(class: &Class, (count, columns, series): (usize, usize, u32)) -> Result<()> {
    let rows = rows(class, count, columns, series);
    let each = |time: Duration| time.as_secs_f64() * 1e9 / (count * columns) as f64;
    print!("| {} | {count} x {columns}, {series} |", class.name);
    let (mut raw, mut bytes) = (Vec::new(), Vec::new());
    rows.encode(0..count, &mut raw);
    let report = |bytes: usize, encoded: Duration, read: Duration| {
        print!(" {:.2} | {:.2} / {:.2} |", bytes as f64 / (count * columns) as f64, each(encoded), each(read));
    };
    let encoded = fastest(|| {
        bytes.clear();
        rows.encode(0..count, &mut bytes);
        Ok(())
    })?;
    report(raw.len(), encoded, fastest(|| Rows::decode(&raw).map(drop))?);
    let encoded = fastest(|| {
        bytes.clear();
        rows.encode_compressed(0..count, &mut bytes);
        Ok(())
    })?;
    report(bytes.len(), encoded, fastest(|| Rows::decode(&bytes).map(drop))?);
    for level in [1, -5] {
        let mut packer = zstd::bulk::Compressor::new(level).map_err(Error::bug)?;
        let mut unpacker = zstd::bulk::Decompressor::new().map_err(Error::bug)?;
        let packed = packer.compress(&raw).map_err(Error::bug)?;
        let encoded = fastest(|| packer.compress(&raw).map(drop).map_err(Error::bug))?;
        let read = fastest(|| unpacker.decompress(&packed, raw.len()).map(drop).map_err(Error::bug))?;
        report(packed.len(), encoded, read);
    }
    println!();
    Ok(())
}

/// Each column starts at another value of the class; with many series, neighbouring rows have
/// distant values.
fn rows(class: &Class, count: usize, columns: usize, series: u32) -> Rows {
    let field = |at: usize| {
        let values = class.values.slice(at * count % (ROWS - count), count);
        (ColumnId(2 + at as u32), if series > 1 { scattered(class, count) } else { values })
    };
    let second = |row: usize| if series > 1 { 0 } else { row as i64 };
    Rows::new(
        (0..count as u32).map(|row| row % series).collect(),
        (0..count).map(|row| 1_700_000_000_000_000_000 + second(row) * 1_000_000_000).collect(),
        Ops::All(Op::Replace),
        (0..columns).map(field).collect(),
    )
}

fn scattered(class: &Class, count: usize) -> arrow_array::ArrayRef {
    let places = arrow_array::UInt32Array::from_iter_values((0..count).map(|row| (row * 4_099 % ROWS) as u32));
    arrow_select::take::take(&*class.values, &places, None).expect("places that are there")
}

/// Prints the cost of a log byte, in memory and on disk.
fn log_bytes(folder: &std::path::Path) -> Result<()> {
    const PART: usize = 1 << 20;
    const PARTS: usize = 256;
    let io = |error: std::io::Error| Error::io("measure the disk", &error);
    let from: Vec<u8> = (0..4 * PART).map(|at| (at * 31 + at / 251) as u8).collect();
    let mut to = vec![0; PART];
    let each = |time: Duration, bytes: usize| time.as_secs_f64() * 1e9 / bytes as f64;
    let mut part = 0;
    let copied = fastest(|| {
        part = (part + 1) % 4;
        to.copy_from_slice(std::hint::black_box(&from[part * PART..(part + 1) * PART]));
        Ok(())
    })?;
    let checked = fastest(|| {
        std::hint::black_box(crc32c::crc32c(&to));
        Ok(())
    })?;
    println!("copy {:.3} ns a byte, checksum {:.3}", each(copied, PART), each(checked, PART));
    let (env, path) = (RealEnv::new(), folder.join(format!("columns-log-{}", std::process::id())));
    let file = env.open(&path, Open::CreateNew).map_err(io)?;
    file.allocate((PARTS * PART) as u64).map_err(io)?;
    file.sync().map_err(io)?;
    let (mut writing, mut syncing) = (Spent::default(), Spent::default());
    for at in 0..PARTS {
        writing.add(|| file.write_at(&to, (at * PART) as u64)).map_err(io)?;
        if at % 4 == 3 {
            syncing.add(|| file.sync()).map_err(io)?;
        }
    }
    env.remove(&path).map_err(io)?;
    let all = PARTS * PART;
    println!("write {:.3} ns of CPU a byte, {:.3} ns", each(writing.cpu, all), each(writing.time, all));
    println!("sync after 4 MiB {:.3} ns of CPU a byte, {:.3} ns", each(syncing.cpu, all), each(syncing.time, all));
    Ok(())
}

#[derive(Default)]
struct Spent {
    cpu: Duration,
    time: Duration,
}

impl Spent {
    fn add<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let (cpu, time) = (cpu_time(), Instant::now());
        let result = work();
        self.time += time.elapsed();
        self.cpu += cpu_time() - cpu;
        result
    }
}

/// CPU time of this thread; stays 0 without Linux' scheduler statistics.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0))
}

/// Duration of the fastest round.
fn fastest(mut once: impl FnMut() -> Result<()>) -> Result<Duration> {
    let (start, mut fastest) = (Instant::now(), Duration::MAX);
    while start.elapsed() < MEASURE {
        let round = Instant::now();
        once()?;
        fastest = fastest.min(round.elapsed());
    }
    Ok(fastest)
}
