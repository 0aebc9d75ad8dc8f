//! What compressing the log costs and saves a commit: `cargo run --release --example log_compression -p engine [FOLDER]`.
//!
//! Commits the same batches, 100 rows of 300 columns at `sync`, one after the other and by four threads at once, with log
//! compression off and on in turn, each time into a new directory in FOLDER (the temporary one). Prints time and CPU time
//! of the whole process a point, and bytes of log; of many rounds the ones with the least CPU time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, Float64Array};
use engine::{Batch, ColumnSpec, Durability, Engine, Isolation, KeyList, Op, Ops, Options, Rows, TableSpec};
use env::{Env, RealEnv};
use model::{ColumnId, ColumnRole, DataType, KeyValue, Lsn, Result, TableId, TableName, TableOptions, key};

/// The server's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 5;
const BATCHES: usize = 200;
const ROWS: usize = 100;
const COLUMNS: u32 = 300;

fn main() -> Result<()> {
    let folder = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = folder.join(format!("log-compression-{}", std::process::id()));
    println!("{:<28} {:>7} {:>4} {:>9} {:>9} {:>9}", "data", "threads", "log", "ns", "CPU ns", "bytes");
    for (data, digits) in [("two-decimal walks", true), ("full mantissas", false)] {
        let batches: Vec<Batch> = (0..BATCHES).map(|at| batch(at, digits)).collect();
        for threads in [1, 4] {
            let mut best = [None, None];
            for _ in 0..ROUNDS {
                for (on, best) in [false, true].into_iter().zip(&mut best) {
                    let seen = measure(&dir, &batches, threads, on)?;
                    RealEnv::new().remove_dir_all(&dir).map_err(|e| model::Error::io("remove", &e))?;
                    if best.as_ref().is_none_or(|best: &Seen| seen.cpu < best.cpu) {
                        *best = Some(seen);
                    }
                }
            }
            for (name, seen) in ["off", "on"].into_iter().zip(best.into_iter().flatten()) {
                let points = (BATCHES * ROWS) as f64 * f64::from(COLUMNS);
                let each = |time: Duration| time.as_secs_f64() * 1e9 / points;
                let bytes = seen.log_bytes as f64 / points;
                let (time, cpu) = (each(seen.time), each(seen.cpu));
                println!("{data:<28} {threads:>7} {name:>4} {time:>9.2} {cpu:>9.2} {bytes:>9.2}");
            }
        }
    }
    Ok(())
}

struct Seen {
    time: Duration,
    cpu: Duration,
    log_bytes: u64,
}

fn measure(dir: &Path, batches: &[Batch], threads: usize, log_compression: bool) -> Result<Seen> {
    // So much memory and log that nothing is flushed.
    let options = Options { memory_bytes: 64 << 30, log_flush_bytes: u64::MAX, log_compression, ..Options::default() };
    let (engine, _) = Engine::open(Arc::new(RealEnv::new()), dir, options)?;
    let table = make(&engine)?;
    let before = engine.stats().log_bytes;
    let (time, cpu) = (Instant::now(), cpu_time());
    let writers = std::thread::scope(|scope| -> Result<Duration> {
        let writers: Vec<_> = (0..threads)
            .map(|thread| {
                let engine = &engine;
                scope.spawn(move || -> Result<Duration> {
                    let cpu = thread_cpu("/proc/thread-self");
                    for batch in batches.iter().skip(thread).step_by(threads) {
                        let mut txn = engine.begin(Isolation::ReadCommitted, Lsn::ZERO);
                        txn.write(table, batch.clone())?;
                        engine.finish(txn.commit(Durability::Sync))?;
                    }
                    Ok(thread_cpu("/proc/thread-self") - cpu)
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().expect("a writer panicked")).sum()
    })?;
    let seen =
        Seen { time: time.elapsed(), cpu: cpu_time() - cpu + writers, log_bytes: engine.stats().log_bytes - before };
    engine.close()?;
    Ok(seen)
}

/// CPU time of all threads there are.
fn cpu_time() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    threads.map(|thread| thread_cpu(thread.path())).sum()
}

/// User and system time of a thread, to the nanosecond.
fn thread_cpu(folder: impl AsRef<Path>) -> Duration {
    let text = std::fs::read_to_string(folder.as_ref().join("schedstat")).unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0))
}

fn make(engine: &Engine) -> Result<TableId> {
    let column = |name: String, ty, role| ColumnSpec { name, ty, nullable: role != ColumnRole::Time, role };
    let mut columns = vec![
        column("time".into(), DataType::Timestamp, ColumnRole::Time),
        column("device".into(), DataType::Text, ColumnRole::Key),
    ];
    columns.extend((0..COLUMNS).map(|at| column(format!("s_{at}"), DataType::Float64, ColumnRole::Field)));
    let spec = TableSpec { name: TableName::public("t"), keyed: true, columns, options: TableOptions::default() };
    let mut txn = engine.begin(Isolation::ReadCommitted, Lsn::ZERO);
    let table = txn.create_table(&spec)?.id;
    engine.finish(txn.commit(Durability::Sync))?;
    Ok(table)
}

/// One device's next rows, each column a walk of its own.
fn batch(number: usize, digits: bool) -> Batch {
    let mut keys = KeyList::new();
    keys.intern(&key::encode(&[KeyValue::Text(format!("device-{:02}", number % 8))]));
    let mut random = number as u64 + 1;
    let mut next = move || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random >> 33
    };
    let field = |at: u32| -> (ColumnId, ArrayRef) {
        let mut walk = 5_000 + (next() % 5_000) as i64;
        let mut value = || {
            walk += (next() % 41) as i64 - 20;
            if digits { walk as f64 / 100.0 } else { (walk as f64).sqrt() }
        };
        (ColumnId(2 + at), Arc::new(Float64Array::from_iter_values((0..ROWS).map(|_| value()))))
    };
    let columns: Vec<_> = (0..COLUMNS).map(field).collect();
    let start = 1_700_000_000_000_000_000 + (number / 8 * ROWS) as i64 * 1_000_000_000;
    let times = (0..ROWS as i64).map(|row| start + row * 1_000_000_000).collect();
    Batch::new(keys, Rows::new(vec![0; ROWS], times, Ops::All(Op::Replace), columns))
}
