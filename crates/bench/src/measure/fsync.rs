//! Measures fsync latency of the server's disk during a run, so that long write latencies can be
//! attributed to the disk or to the server.
//!
//! The probe writes 4 KiB to a preallocated file of its own in the server's directory and calls
//! fdatasync, in a loop with a pause: at most 25 syncs and 100 KB a second.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::engine::histogram;

const PAUSE: Duration = Duration::from_millis(40);
const WRITE_BYTES: usize = 4096;
const FILE_BYTES: usize = 1 << 20;

/// A background thread that measures syncs until it is stopped.
pub(crate) struct FsyncProbe {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Histogram<u64>>,
}

impl FsyncProbe {
    /// Starts the probe in `dir`. The file is unlinked at once, so nothing remains there.
    ///
    /// # Errors
    /// A file cannot be created or synced there.
    pub(crate) fn start(dir: &Path) -> io::Result<FsyncProbe> {
        let path = dir.join(format!(".millrace-bench-fsync-{}", std::process::id()));
        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        let made = file.write_all_at(&vec![1; FILE_BYTES], 0).and_then(|()| file.sync_all());
        std::fs::remove_file(&path)?;
        made?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("fsync".to_owned());
        let thread = thread.spawn(move || sync_until(&stopped, &file))?;
        Ok(FsyncProbe { stop, thread })
    }

    /// Stops the probe and returns the latencies in nanoseconds.
    pub(crate) fn stop(self) -> Histogram<u64> {
        self.stop.store(true, Ordering::Relaxed);
        // The thread has already printed its panic.
        self.thread.join().unwrap_or_else(|_| histogram::empty())
    }
}

fn sync_until(stopped: &AtomicBool, file: &File) -> Histogram<u64> {
    let mut latencies = histogram::empty();
    for at in (0..FILE_BYTES as u64).step_by(WRITE_BYTES).cycle() {
        if stopped.load(Ordering::Relaxed) {
            break;
        }
        let began = Instant::now();
        let written = file.write_all_at(&[2; WRITE_BYTES], at).and_then(|()| file.sync_data());
        if written.is_err() {
            break;
        }
        latencies.saturating_record(began.elapsed().as_nanos() as u64);
        std::thread::sleep(PAUSE);
    }
    latencies
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_counts_its_syncs_and_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let probe = FsyncProbe::start(dir.path()).unwrap();
        std::thread::sleep(PAUSE * 3);
        let latencies = probe.stop();
        assert!((1..=5).contains(&latencies.len()), "{}", latencies.len());
        assert!(latencies.min() > 0);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(FsyncProbe::start(&dir.path().join("none")).is_err());
    }
}
