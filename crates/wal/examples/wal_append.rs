//! Measures the cost of the log on this machine: `cargo run --release --example wal_append -p wal
//! [DIRECTORY]`.
//!
//! Prints bulk appends by record size, single commits, commits of eight threads, and a reopen.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use env::{Env, RealEnv, Worker};
use model::{Lsn, Result};
use wal::{Appended, Space, Wal, WalOptions};

fn main() -> Result<()> {
    let folder = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = folder.join(format!("wal-append-{}", std::process::id()));
    println!("{:<36} {:>9} {:>12} {:>11}", "work", "MB/s", "records/s", "CPU/record");
    for (bytes, records) in [(200, 2_000_000), (4 << 10, 200_000), (1 << 20, 1_000)] {
        bulk(&dir, bytes, records)?;
    }
    commits(&dir, 1, 300)?;
    commits(&dir, 8, 300)?;
    RealEnv::new().remove_dir_all(&dir).map_err(|e| model::Error::io("remove", &e))
}

struct Running {
    wal: Arc<Wal>,
    _flusher: Arc<Worker>,
}

fn start(dir: &Path) -> Result<Running> {
    let env: Arc<dyn Env> = Arc::new(RealEnv::new());
    env.remove_dir_all(dir).map_err(|e| model::Error::io("remove", &e))?;
    let (wal, _) = Wal::open(env.clone(), dir, 1, WalOptions::default(), Lsn(1), &mut |_, _| Ok(()))?;
    let wal = Arc::new(wal);
    let inside = wal.clone();
    let flusher = Arc::new(env.spawn("flusher", Box::new(move || inside.flush_step(&|_| {}))));
    let waker = Arc::downgrade(&flusher);
    wal.on_work(move || waker.upgrade().iter().for_each(|worker| worker.wake()));
    Ok(Running { wal, _flusher: flusher })
}

fn append(wal: &Wal, payload: &[u8]) -> Result<Lsn> {
    loop {
        match wal.append(&[&[payload]], Space::Ordinary)? {
            Appended::At(lsn) => return Ok(lsn),
            Appended::Busy(event) => RealEnv::new().wait(&event),
        }
    }
}

fn bulk(dir: &Path, bytes: usize, records: u64) -> Result<()> {
    let running = start(dir)?;
    let payload: Vec<u8> = (0..bytes).map(|at| (at * 31) as u8).collect();
    let (began, cpu) = (Instant::now(), cpu_time());
    let mut last = Lsn::ZERO;
    for _ in 0..records {
        last = append(&running.wal, &payload)?;
    }
    RealEnv::new().wait(&running.wal.when_durable(last));
    report(&format!("bulk, {bytes} bytes a record"), bytes, records, began.elapsed(), cpu_time() - cpu);
    running.wal.close(&|_| {})?;
    drop(running);
    reopen(dir, bytes)
}

fn reopen(dir: &Path, bytes: usize) -> Result<()> {
    let env: Arc<dyn Env> = Arc::new(RealEnv::new());
    let (began, cpu) = (Instant::now(), cpu_time());
    let (_, opened) = Wal::open(env, dir, 1, WalOptions::default(), Lsn(1), &mut |_, _| Ok(()))?;
    report("  reopen, page cache warm", bytes, opened.records, began.elapsed(), cpu_time() - cpu);
    Ok(())
}

fn commits(dir: &Path, threads: u64, each: u64) -> Result<()> {
    let running = start(dir)?;
    let (began, cpu) = (Instant::now(), cpu_time());
    let mut waits: Vec<Duration> = std::thread::scope(|scope| {
        let wal = &running.wal;
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(move || commit_loop(wal, each))).collect();
        handles.into_iter().flat_map(|handle| handle.join().expect("a committer panicked")).collect()
    });
    let name = format!("commit 200 bytes, {threads} at once");
    report(&name, 200, threads * each, began.elapsed(), cpu_time() - cpu);
    waits.sort();
    println!("  p50 {:.0?}, p99 {:.0?}", waits[waits.len() / 2], waits[waits.len() * 99 / 100]);
    Ok(())
}

fn commit_loop(wal: &Wal, count: u64) -> Vec<Duration> {
    let commit = |_| {
        let began = Instant::now();
        let lsn = append(wal, &[7; 200]).expect("the log takes records");
        RealEnv::new().wait(&wal.when_durable(lsn));
        began.elapsed()
    };
    (0..count).map(commit).collect()
}

fn report(work: &str, bytes: usize, records: u64, took: Duration, cpu: Duration) {
    let per_second = records as f64 / took.as_secs_f64();
    let megabytes = per_second * bytes as f64 / 1e6;
    println!("{work:<36} {megabytes:>9.1} {per_second:>12.0} {:>11.2?}", cpu / records.max(1) as u32);
}

/// User and system time of this process, with the kernel's resolution of 10 ms.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = after_name.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}
