//! Measures the rate and CPU cost of small transactions on a `rows` table: `cargo run --release
//! --example rows -p engine [SECONDS] [DIRECTORY]`.
//!
//! Each transaction changes one row of 100,000 by its key and commits at `async`, on one thread and
//! on two. CPU is that of the whole process, log and garbage collection included.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use engine::{Durability, Engine, Isolation, Options, Progress};
use env::{Env, RealEnv};
use model::{Datum, Error, Lsn, Result, RowColumn, RowIndex, RowSchema, TableId, TableName, Type};
use rows::{LockMode, Locked, Put, RowTable, WaitPolicy};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROWS: i32 = 100_000;

fn main() -> Result<()> {
    let seconds = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(5.0);
    let folder = std::env::args().nth(2).map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = folder.join(format!("rows-{}", std::process::id()));
    let env: Arc<dyn Env> = Arc::new(RealEnv::new());
    let options = Options { memory_bytes: 4 << 30, ..Options::default() };
    let (engine, _) = Engine::open(Arc::clone(&env), &dir, options.clone())?;
    let table = fill(&engine)?;
    println!("{:>8} {:>12} {:>16}", "threads", "commits/s", "CPU µs/commit");
    for threads in [1, 2] {
        let (count, cpu, elapsed) = measure(&engine, table, threads, Duration::from_secs_f64(seconds))?;
        let each = cpu.as_secs_f64() * 1e6 / count as f64;
        println!("{threads:>8} {:>12.0} {each:>16.2}", count as f64 / elapsed.as_secs_f64());
    }
    engine.flush()?;
    println!("{:?}", engine.stats());
    engine.close()?;
    drop(engine);
    let (_engine, recovery) = Engine::open(Arc::clone(&env), &dir, options)?;
    println!("opened again in {:.3} s, {} rows", recovery.elapsed_ns as f64 / 1e9, recovery.rows);
    env.remove_dir_all(&dir).map_err(|error| Error::io("remove", &error))
}

fn fill(engine: &Engine) -> Result<TableId> {
    let mut txn = engine.begin(Isolation::ReadCommitted, Lsn::ZERO);
    let column = |name: &str, ty| RowColumn { not_null: true, ..RowColumn::new(name, ty) };
    let primary = RowIndex {
        id: txn.next_number(),
        name: "t_pkey".into(),
        columns: vec![0],
        unique: true,
        constraint: true,
        ..RowIndex::default()
    };
    let schema = RowSchema {
        id: TableId(txn.next_number()),
        name: TableName::public("t"),
        version: 1,
        lineage: model::Lineage::default(),
        columns: vec![column("id", Type::Int4), column("count", Type::Int8), column("text", Type::Text)],
        primary: Some(primary),
        secondary: Vec::new(),
        checks: Vec::new(),
        foreign_keys: Vec::new(),
        triggers: Vec::new(),
        replica_identity: model::ReplicaIdentity::default(),
    };
    let table = txn.create_row_table(schema)?;
    for id in 0..ROWS {
        let row = row(&table, id, 0)?;
        txn.rows().insert(&table, row, &crossbeam_epoch::pin())?;
    }
    engine.finish(txn.commit(Durability::Sync))?;
    Ok(table.id())
}

fn row(table: &RowTable, id: i32, count: i64) -> Result<Box<[u8]>> {
    let mut out = Vec::with_capacity(64);
    table.layout.encode(&[Datum::Int4(id), Datum::Int8(count), Datum::Text("some text in each row")], &mut out)?;
    Ok(out.into())
}

fn measure(engine: &Engine, table: TableId, threads: u64, time: Duration) -> Result<(u64, Duration, Duration)> {
    let (stop, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let (started, cpu) = (Instant::now(), cpu_time());
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let (stop, count) = (&stop, &count);
                scope.spawn(move || -> Result<()> {
                    let mut state = thread + 1;
                    while !stop.load(Ordering::Relaxed) {
                        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                        // Each thread changes its own rows, so that no thread waits.
                        let id = (state >> 33) as i32 % (ROWS / threads as i32) * threads as i32 + thread as i32;
                        change(engine, table, id)?;
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(())
                })
            })
            .collect();
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| Error::bug("a thread died"))?)
    })?;
    Ok((count.into_inner(), cpu_time() - cpu, started.elapsed()))
}

fn change(engine: &Engine, table: TableId, id: i32) -> Result<()> {
    let mut txn = engine.begin(Isolation::ReadCommitted, Lsn::ZERO);
    let snapshot = txn.snapshot_newest();
    let table = snapshot.row_table_by_id(table)?;
    let guard = &crossbeam_epoch::pin();
    let rows = txn.rows();
    let mut key = Vec::with_capacity(8);
    let primary = table.primary.as_ref().ok_or_else(|| Error::bug("no key"))?;
    rows::key::push(&mut key, &primary.keys()[0], &Datum::Int4(id))?;
    let (record, _) = rows.get(table, &key, guard)?.ok_or_else(|| Error::bug("no row"))?;
    let Locked::Row { row: old, .. } = rows.lock_row(table, record, LockMode::NoKeyUpdate, WaitPolicy::Wait, guard)?
    else {
        return Err(Error::bug("another transaction has the row"));
    };
    let Datum::Int8(count) = table.layout.field(old, 1)? else { return Err(Error::bug("no count")) };
    let row = row(table, id, count + 1)?;
    let Put::Done(_) = rows.update(table, record, row, guard)? else { return Err(Error::bug("not updated")) };
    drop(snapshot);
    let mut committing = txn.commit(Durability::Async);
    loop {
        match committing.poll()? {
            Progress::Done(_) => return Ok(()),
            Progress::Wait(event) => engine.env().wait(&event),
        }
    }
}

/// User and system time of the process, from the operating system.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: u64 = fields.get(11..13).into_iter().flatten().filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}
