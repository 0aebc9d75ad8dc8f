//! Kernels of the log for `cargo xtask bench-instructions`.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::{Env, RealEnv, Step};
use model::{Lsn, Result};
use wal::{Appended, Space, Wal, WalOptions};

#[path = "../../../xtask/counted.rs"]
mod counted;

fn main() -> Result<()> {
    let kernels = counted::Kernels::from_arguments();
    let dir: PathBuf = std::env::temp_dir().join(format!("wal-kernels-{}", std::process::id()));
    let env: Arc<dyn Env> = Arc::new(RealEnv::new());
    let options = WalOptions { file_bytes: 16 << 20, ..WalOptions::default() };
    let (wal, _) = Wal::open(Arc::clone(&env), &dir, 1, options, Lsn(1), &mut |_, _| Ok(()))?;
    // Prepares files, as the log worker does before the first append.
    flush(&wal);
    for (name, bytes, records) in [("200 bytes", 200, 1_000), ("4 KiB", 4 << 10, 100)] {
        let payload: Vec<u8> = (0..bytes).map(|at| (at * 31) as u8).collect();
        let append = || (0..records).for_each(|_| append(&wal, &payload));
        kernels.run(&format!("append of a record of {name}"), records, append);
        flush(&wal);
        kernels.run(&format!("append and writing of a record of {name}"), records, || {
            append();
            flush(&wal);
        });
    }
    wal.close(&|_| {})?;
    drop(wal);
    let records = reopen(&env, &dir)?;
    kernels.run("record read at open", records as usize, || {
        assert_eq!(reopen(&env, &dir).ok(), Some(records), "BUG: the records are not there");
    });
    env.remove_dir_all(&dir).map_err(|error| model::Error::io("remove", &error))
}

fn append(wal: &Wal, payload: &[u8]) {
    match wal.append(&[&[payload]], Space::Ordinary) {
        Ok(Appended::At(_)) => {}
        other => panic!("BUG: the log has room for all of a kernel's records: {other:?}"),
    }
}

fn flush(wal: &Wal) {
    while wal.flush_step(&|_| {}) == Step::Again {}
}

/// Returns the number of records that it reads.
fn reopen(env: &Arc<dyn Env>, dir: &Path) -> Result<u64> {
    let (_, opened) = Wal::open(Arc::clone(env), dir, 1, WalOptions::default(), Lsn(1), &mut |_, payload| {
        black_box(payload);
        Ok(())
    })?;
    Ok(opened.records)
}
