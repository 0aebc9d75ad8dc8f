//! Facts about the log; the random ones are in `tests/simulation.rs`.

use std::path::Path;
use std::sync::Arc;

use env::{Env, RealEnv, Step};
use model::{Lsn, Result};

use crate::{Appended, Space, Wal, WalOptions};

const IDENTITY: u64 = 0x1122_3344_5566_7788;

fn small() -> WalOptions {
    WalOptions { file_bytes: 8 << 10, pending_bytes_max: 16 << 10, flush_bytes_max: 1 << 10, reserve_bytes: 1 << 10 }
}

/// LSNs and payloads.
type Records = Vec<(u64, Vec<u8>)>;

fn open(env: &Arc<dyn Env>, dir: &Path, from: u64) -> Result<(Wal, Records)> {
    let mut records = Vec::new();
    let (wal, opened) = Wal::open(env.clone(), dir, IDENTITY, small(), Lsn(from), &mut |lsn, payload| {
        records.push((lsn.0, payload.to_vec()));
        Ok(())
    })?;
    assert_eq!(opened.records, records.len() as u64);
    Ok((wal, records))
}

fn payload(n: u64) -> Vec<u8> {
    format!("record {n} ").repeat(1 + n as usize % 7).into_bytes()
}

/// Appends one record, flushing when the log is busy.
fn append(wal: &Wal, payload: &[u8]) -> Lsn {
    loop {
        match wal.append(&[&[payload]], Space::Ordinary).unwrap() {
            Appended::At(lsn) => return lsn,
            Appended::Busy(event) => {
                flush(wal);
                assert!(event.is_set(), "flushing makes room");
            }
        }
    }
}

fn flush(wal: &Wal) {
    while wal.flush_step(&|_| {}) == Step::Again {}
}

#[test]
fn append_returns_consecutive_lsns_across_file_rollover_and_reopen() {
    let dir = tempfile::tempdir().unwrap();
    let env: Arc<dyn Env> = Arc::new(RealEnv::new());
    let (wal, found) = open(&env, dir.path(), 1).unwrap();
    assert!(found.is_empty());
    for n in 1..=1000 {
        assert_eq!(append(&wal, &payload(n)), Lsn(n));
    }
    flush(&wal);
    assert_eq!((wal.last(), wal.durable()), (Lsn(1000), Lsn(1000)));
    assert!(env.list(dir.path()).unwrap().len() > 5, "it rolled over");
    drop(wal);
    let (wal, found) = open(&env, dir.path(), 1).unwrap();
    let expected: Vec<_> = (1..=1000).map(|n| (n, payload(n))).collect();
    assert_eq!(found, expected);
    assert_eq!(append(&wal, b"x"), Lsn(1001));
}
