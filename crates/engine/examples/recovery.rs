//! Measures the time to open a database after a crash: `cargo run --release --example recovery -p
//! engine [MB] [DIRECTORY]`.
//!
//! Writes about MB megabytes of log (default 1000) by commits of 1, 100 and 10,000 rows over 1,000
//! series, without a flush, and opens the directory again with a warm page cache.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{ArrayRef, Float64Array, Int64Array};
use engine::{Batch, ColumnSpec, Durability, Engine, Isolation, KeyList, Op, Ops, Options, Rows, TableSpec};
use env::{Env, RealEnv};
use model::{ColumnId, ColumnRole, DataType, KeyValue, Lsn, Result, TableId, TableName, TableOptions, key};

const SERIES: usize = 1_000;

fn main() -> Result<()> {
    let megabytes = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(1_000);
    let folder = std::env::args().nth(2).map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = folder.join(format!("recovery-{}", std::process::id()));
    println!(
        "{:>12} {:>10} {:>10} {:>12} {:>9} {:>10}",
        "rows/commit", "log MB", "commits", "written in", "opened in", "MB/s"
    );
    for rows in [1, 100, 10_000] {
        measure(&dir, rows, megabytes << 20)?;
        RealEnv::new().remove_dir_all(&dir).map_err(|e| model::Error::io("remove", &e))?;
    }
    Ok(())
}

fn measure(dir: &Path, rows: usize, bytes: u64) -> Result<()> {
    // Enough memory and log that nothing is flushed.
    let options = Options { memory_bytes: 64 << 30, log_flush_bytes: u64::MAX, ..Options::default() };
    let env: Arc<dyn Env> = Arc::new(RealEnv::new());
    let began = Instant::now();
    let (engine, _) = Engine::open(Arc::clone(&env), dir, options.clone())?;
    let table = make(&engine)?;
    let mut at = 0;
    while engine.stats().log_bytes < bytes {
        let mut txn = engine.begin(Isolation::ReadCommitted, Lsn::ZERO);
        txn.write(table, batch(at, rows))?;
        engine.finish(txn.commit(Durability::Async))?;
        at += rows;
    }
    engine.close()?;
    drop(engine);
    let wrote = began.elapsed();
    let (_engine, recovery) = Engine::open(env, dir, options)?;
    let seconds = recovery.elapsed_ns as f64 / 1e9;
    let megabytes = recovery.log_bytes as f64 / 1e6;
    println!(
        "{rows:>12} {megabytes:>10.0} {:>10} {wrote:>12.2?} {seconds:>8.2}s {:>10.0}",
        recovery.commits,
        megabytes / seconds
    );
    Ok(())
}

fn make(engine: &Engine) -> Result<TableId> {
    let column = |name: &str, ty, role| ColumnSpec { name: name.into(), ty, nullable: role != ColumnRole::Time, role };
    let columns = vec![
        column("time", DataType::Timestamp, ColumnRole::Time),
        column("device", DataType::Text, ColumnRole::Key),
        column("a", DataType::Float64, ColumnRole::Field),
        column("b", DataType::Float64, ColumnRole::Field),
        column("n", DataType::Int64, ColumnRole::Field),
    ];
    let spec = TableSpec { name: TableName::public("t"), keyed: true, columns, options: TableOptions::default() };
    let mut txn = engine.begin(Isolation::ReadCommitted, Lsn::ZERO);
    let table = txn.create_table(&spec)?.id;
    engine.finish(txn.commit(Durability::Sync))?;
    Ok(table)
}

fn batch(at: usize, rows: usize) -> Batch {
    let mut keys = KeyList::new();
    let name = |row: usize| KeyValue::Text(format!("device-{:05}", row % SERIES));
    let series = (at..at + rows).map(|row| keys.intern(&key::encode(&[name(row)]))).collect();
    let times = (at..at + rows).map(|row| (row / SERIES) as i64 * 1_000_000_000).collect();
    let float = |scale: f64| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values((at..at + rows).map(|row| (row as f64 * scale).sin() * 100.0)))
    };
    let whole: ArrayRef = Arc::new(Int64Array::from_iter_values((at..at + rows).map(|row| (row * row % 997) as i64)));
    let columns = vec![(ColumnId(2), float(0.7)), (ColumnId(3), float(1.3)), (ColumnId(4), whole)];
    Batch::new(keys, Rows::new(series, times, Ops::All(Op::Replace), columns))
}
