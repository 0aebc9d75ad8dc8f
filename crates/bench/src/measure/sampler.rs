//! A thread that samples machine and server during a run, and a wait until a server is idle.
//!
//! Always true: sampling costs less than 1 % of one processor; a measurement that takes longer is
//! repeated less often.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::proc;
use super::tree::Tree;
use crate::result::ResourceSample;

/// Minimum time between two samples.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);
/// Minimum time between two scans for new children, and between two measurements of the data
/// directories.
const SCAN_INTERVAL: Duration = Duration::from_secs(1);
/// Ratio of pause to CPU cost of each of the three jobs: it limits a job to 0.3 % of a processor.
const PAUSE_PER_COST: f64 = 330.0;
/// Number of samples at which every second one is dropped and the interval is doubled.
const SAMPLES_MAX: usize = 8192;
/// Upper limit of the doubled interval.
const SAMPLE_INTERVAL_MAX: Duration = Duration::from_secs(1);

/// Samples a server and this machine until [`Sampler::stop`].
pub(crate) struct Sampler {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    stopped: AtomicBool,
    wake: Condvar,
}

struct State {
    start: Instant,
    tree: Tree,
    host_before: Host,
    client_cpu_before_s: f64,
    /// Bytes of the data directories at the latest successful measurement.
    data_bytes: Option<u64>,
    interval: Duration,
    samples: Vec<ResourceSample>,
}

impl Sampler {
    /// Starts sampling every 250 ms. Counters start at zero now; sample times are relative to
    /// `start`.
    ///
    /// - `pids`: the server's root processes, whose children are found by scanning; empty if they
    ///   cannot be inspected.
    /// - `dirs`: the server's data directories.
    pub(crate) fn start(pids: &[u32], dirs: &[PathBuf], start: Instant) -> Sampler {
        let state = State {
            start,
            tree: Tree::new(pids),
            host_before: Host::read(),
            client_cpu_before_s: proc::own_cpu_s(),
            data_bytes: proc::allocated_bytes_of_all(dirs),
            interval: SAMPLE_INTERVAL,
            samples: Vec::new(),
        };
        let shared =
            Arc::new(Shared { state: Mutex::new(state), stopped: AtomicBool::new(false), wake: Condvar::new() });
        let mut threads = Vec::from_iter(shared.spawn("sampler", Shared::sample_until_stopped));
        if !dirs.is_empty() {
            let dirs = dirs.to_vec();
            threads.extend(shared.spawn("sizes", move |shared| shared.measure_until_stopped(&dirs)));
        }
        Sampler { shared, threads }
    }

    /// Takes an extra sample, for example at a phase boundary or right before the server is killed.
    pub(crate) fn now(&self) -> ResourceSample {
        let mut state = self.shared.lock();
        state.tree.scan();
        state.sample()
    }

    /// Replaces the server's root processes, for example after a restart. Counters continue.
    pub(crate) fn replace_pids(&self, pids: &[u32]) {
        self.shared.lock().tree.replace(pids);
    }

    /// Takes a last sample and returns all samples in order of time.
    pub(crate) fn stop(mut self) -> Vec<ResourceSample> {
        self.join();
        let mut state = self.shared.lock();
        state.tree.scan();
        state.sample();
        std::mem::take(&mut state.samples)
    }

    fn join(&mut self) {
        {
            // Set the flag under the lock, so that no thread is between checking the flag and
            // waiting.
            let _state = self.shared.lock();
            self.shared.stopped.store(true, Ordering::Relaxed);
        }
        self.shared.wake.notify_all();
        for thread in self.threads.drain(..) {
            // The thread has already printed its panic; samples taken before it are valid.
            let _ = thread.join();
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.join();
    }
}

impl Shared {
    /// A poisoned lock is usable: a sample is plain data and is never half-written.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `None` if no thread can be started; the report then shows fewer samples.
    fn spawn(self: &Arc<Shared>, name: &str, work: impl FnOnce(&Shared) + Send + 'static) -> Option<JoinHandle<()>> {
        let shared = Arc::clone(self);
        std::thread::Builder::new().name(name.to_owned()).spawn(move || work(&shared)).ok()
    }

    fn sample_until_stopped(&self) {
        let mut scan_at = Instant::now() + SCAN_INTERVAL;
        loop {
            let mut state = self.lock();
            let interval = state.interval;
            if Instant::now() >= scan_at {
                let cost_s = cpu_cost_s(|| state.tree.scan());
                scan_at = Instant::now() + pause(SCAN_INTERVAL, cost_s);
            }
            let cost_s = cpu_cost_s(|| {
                state.sample();
            });
            if self.wait(state, pause(interval, cost_s)) {
                return;
            }
        }
    }

    fn measure_until_stopped(&self, dirs: &[PathBuf]) {
        loop {
            let began = Instant::now();
            let mut bytes = None;
            let cost_s = cpu_cost_s(|| bytes = proc::allocated_bytes_of_all(dirs));
            // A measurement that has to read the tree from disk must not dominate the disk's load.
            let pause = pause(SCAN_INTERVAL, cost_s).max(began.elapsed() * 10);
            let mut state = self.lock();
            state.data_bytes = bytes.or(state.data_bytes);
            if self.wait(state, pause) {
                return;
            }
        }
    }

    /// Waits for `pause` or until stopped; returns whether the sampler was stopped.
    fn wait(&self, state: MutexGuard<'_, State>, pause: Duration) -> bool {
        let waited = self.wake.wait_timeout_while(state, pause, |_| !self.stopped.load(Ordering::Relaxed));
        drop(waited);
        self.stopped.load(Ordering::Relaxed)
    }
}

fn cpu_cost_s(work: impl FnOnce()) -> f64 {
    let before = proc::thread_cpu_s();
    work();
    proc::thread_cpu_s() - before
}

fn pause(interval: Duration, cost_s: f64) -> Duration {
    interval.max(Duration::from_secs_f64((cost_s * PAUSE_PER_COST).min(3600.0)))
}

impl State {
    fn sample(&mut self) -> ResourceSample {
        let usage = self.tree.read();
        let host = Host::read();
        let before = &self.host_before;
        let sample = ResourceSample {
            at_s: self.start.elapsed().as_secs_f64(),
            server_cpu_s: usage.cpu_s,
            server_rss_bytes: usage.rss_bytes,
            server_read_bytes: usage.io.map(|io| io.read_bytes),
            server_written_bytes: usage.io.map(|io| io.written_bytes),
            data_bytes: self.data_bytes,
            client_cpu_s: proc::own_cpu_s() - self.client_cpu_before_s,
            host_cpu_s: (host.busy_s - before.busy_s).max(0.0),
            host_memory_bytes: host.memory_bytes,
            host_read_bytes: host.read_bytes.saturating_sub(before.read_bytes),
            host_written_bytes: host.written_bytes.saturating_sub(before.written_bytes),
            host_received_bytes: host.received_bytes.saturating_sub(before.received_bytes),
            host_sent_bytes: host.sent_bytes.saturating_sub(before.sent_bytes),
        };
        self.samples.push(sample.clone());
        if self.samples.len() >= SAMPLES_MAX && self.interval < SAMPLE_INTERVAL_MAX {
            thin_out(&mut self.samples);
            self.interval *= 2;
        }
        sample
    }
}

/// Keeps every second sample, starting with the first. Samples hold counters, so rates remain
/// exact.
fn thin_out(samples: &mut Vec<ResourceSample>) {
    let mut index = 0;
    samples.retain(|_| {
        index += 1;
        index % 2 == 1
    });
}

/// Counters of the host since boot.
#[derive(Default)]
struct Host {
    busy_s: f64,
    memory_bytes: u64,
    read_bytes: u64,
    written_bytes: u64,
    received_bytes: u64,
    sent_bytes: u64,
}

impl Host {
    fn read() -> Host {
        let disks = proc::disks().unwrap_or_default();
        let interfaces = proc::interfaces().unwrap_or_default();
        Host {
            busy_s: proc::host_cpu().unwrap_or_default().busy_s,
            memory_bytes: proc::host_memory().map_or(0, |(_, used)| used),
            read_bytes: disks.iter().map(|disk| disk.read_bytes).sum(),
            written_bytes: disks.iter().map(|disk| disk.written_bytes).sum(),
            received_bytes: interfaces.iter().map(|interface| interface.received_bytes).sum(),
            sent_bytes: interfaces.iter().map(|interface| interface.sent_bytes).sum(),
        }
    }
}

// ---- waiting until idle ----

/// A server is idle if, during this window …
const REST_WINDOW_S: f64 = 3.0;
/// … it used fewer than this many processors on average and its directories kept their size.
const REST_CORES: f64 = 0.02;
/// Servers with busy idle threads (QuestDB uses 0.035 processors) count as idle if, during this
/// window …
const STEADY_WINDOW_S: f64 = 10.0;
/// … they used fewer than this many processors on average, their directories kept their size …
const STEADY_CORES: f64 = 0.10;
/// … and the average processors of the window's two halves differ by less than this. Work that is
/// ending shows a decline.
const STEADY_DIFFERENCE: f64 = 0.01;
/// Ratio of pause to CPU cost when the directories are measured: large directories are measured
/// less often.
const REST_PAUSE_PER_COST: f64 = 50.0;

/// Result of waiting until a server is idle.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rest {
    /// Whether the server became idle within the time allowed.
    pub(crate) settled: bool,
    /// Seconds until the idle window started, or the whole wait if the server did not become idle.
    pub(crate) settling_s: f64,
    /// CPU seconds that the server used in the idle window: its cost without work. 0 if it did not
    /// become idle.
    pub(crate) quiet_cpu_s: f64,
    /// Bytes of the directories at the end; `None` if they cannot be read.
    pub(crate) bytes: Option<u64>,
    /// Processors used on average at the end; `None` if the processes cannot be inspected. Explains
    /// why a server did not become idle.
    pub(crate) cores: Option<f64>,
}

/// Waits until a server is idle: for 3 seconds it used less than 2 % of one processor and its data
/// directories kept their size; or for 10 seconds it used less than 10 %, evenly, for servers that
/// are never quite idle.
///
/// Gives up after `max` or when cancelled. Processes or directories that cannot be read are not
/// considered; if neither can be read, the function returns at once with `settled` false.
pub(crate) fn wait_until_idle(pids: &[u32], dirs: &[PathBuf], max: Duration, cancelled: &AtomicBool) -> Rest {
    let start = Instant::now();
    let mut tree = Tree::new(pids);
    let mut quiet = Quiet::default();
    let mut size_at = start;
    let mut bytes = None;
    loop {
        if Instant::now() >= size_at {
            tree.scan();
            let cost_s = cpu_cost_s(|| bytes = proc::allocated_bytes_of_all(dirs));
            size_at = Instant::now() + SCAN_INTERVAL.max(Duration::from_secs_f64(cost_s * REST_PAUSE_PER_COST));
        }
        let cpu_s = tree.read().cpu_s;
        let now = Observation { at_s: start.elapsed().as_secs_f64(), cpu_s, bytes };
        let began = quiet.observe(now);
        let cores = quiet.since(REST_WINDOW_S).and_then(|first| first.cores_until(&now));
        let rest = Rest { settling_s: now.at_s, bytes, cores, ..Rest::default() };
        if cpu_s.is_none() && bytes.is_none() {
            return rest;
        }
        if let Some(began) = began {
            // The size may have been measured before the window ended: measure it again.
            let size = proc::allocated_bytes_of_all(dirs);
            if size == bytes {
                let quiet_cpu_s = cpu_s.zip(began.cpu_s).map_or(0.0, |(now, before)| now - before);
                return Rest { settled: true, settling_s: began.at_s, quiet_cpu_s, ..rest };
            }
            bytes = size;
        }
        if start.elapsed() >= max || cancelled.load(Ordering::Relaxed) {
            return Rest { bytes: proc::allocated_bytes_of_all(dirs), ..rest };
        }
        std::thread::sleep(SAMPLE_INTERVAL.min(max.saturating_sub(start.elapsed())));
    }
}

/// A server at one moment of the wait.
#[derive(Clone, Copy)]
struct Observation {
    at_s: f64,
    cpu_s: Option<f64>,
    bytes: Option<u64>,
}

impl Observation {
    /// Processors used on average between this observation and a later one.
    fn cores_until(&self, later: &Observation) -> Option<f64> {
        let span_s = later.at_s - self.at_s;
        if span_s > 0.0 { Some((later.cpu_s? - self.cpu_s?) / span_s) } else { None }
    }
}

/// The latest observations, enough for the longer window.
#[derive(Default)]
struct Quiet {
    window: VecDeque<Observation>,
}

impl Quiet {
    /// Adds an observation. Returns the one at which the idle window started, if the server is
    /// idle.
    fn observe(&mut self, now: Observation) -> Option<Observation> {
        self.window.push_back(now);
        while self.window.get(1).is_some_and(|second| second.at_s <= now.at_s - STEADY_WINDOW_S) {
            self.window.pop_front();
        }
        let idle = |first: &Observation| first.cores_until(&now).is_none_or(|cores| cores < REST_CORES);
        let quiet = self.since(REST_WINDOW_S).filter(|first| self.still_since(first) && idle(first));
        quiet
            .or_else(|| self.since(STEADY_WINDOW_S).filter(|first| self.still_since(first) && self.steady_since(first)))
    }

    /// Returns the latest observation that is at least `window_s` old.
    fn since(&self, window_s: f64) -> Option<Observation> {
        let now = self.window.back()?;
        self.window.iter().rev().find(|observation| observation.at_s <= now.at_s - window_s).copied()
    }

    fn still_since(&self, first: &Observation) -> bool {
        let since = self.window.iter().filter(|observation| observation.at_s >= first.at_s);
        since.map(|observation| observation.bytes).all(|bytes| bytes == first.bytes)
    }

    fn steady_since(&self, first: &Observation) -> bool {
        let steady = || {
            let (middle, now) = (self.since(STEADY_WINDOW_S / 2.0)?, self.window.back()?);
            let (before, after) = (first.cores_until(&middle)?, middle.cores_until(now)?);
            Some(before.max(after) < STEADY_CORES && (before - after).abs() < STEADY_DIFFERENCE)
        };
        steady().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled_at(observations: impl IntoIterator<Item = (f64, f64, u64)>) -> Option<(f64, f64)> {
        let mut quiet = Quiet::default();
        observations.into_iter().find_map(|(at_s, cpu_s, bytes)| {
            let began = quiet.observe(Observation { at_s, cpu_s: Some(cpu_s), bytes: Some(bytes) })?;
            Some((began.at_s, at_s))
        })
    }

    fn quarters(to_s: f64) -> impl Iterator<Item = f64> {
        (0..).map(|quarter| f64::from(quarter) * 0.25).take_while(move |at_s| *at_s <= to_s)
    }

    #[test]
    fn a_quiet_server_is_idle_after_three_seconds() {
        assert_eq!(settled_at(quarters(60.0).map(|at_s| (at_s, 7.0, 1000))), Some((0.0, 3.0)));
    }

    #[test]
    fn a_busy_server_is_not_idle() {
        assert_eq!(settled_at(quarters(60.0).map(|at_s| (at_s, at_s * 0.15, 1000))), None);
        assert_eq!(settled_at(quarters(60.0).map(|at_s| (at_s, at_s * 0.015, 1000))), Some((0.0, 3.0)));
    }

    #[test]
    fn a_server_with_a_steady_low_load_counts_as_idle() {
        assert_eq!(settled_at(quarters(60.0).map(|at_s| (at_s, at_s * 0.035, 1000))), Some((0.0, 10.0)));
        // Declining load is not idle: from 9 % of a processor down to 3.5 % at 20 s.
        let ending = |at_s: f64| 0.035 * at_s + 0.055 * (at_s.min(20.0) - at_s.min(20.0).powi(2) / 40.0);
        let (began_s, _) = settled_at(quarters(60.0).map(|at_s| (at_s, ending(at_s), 1000))).unwrap();
        assert!(began_s > 5.0, "{began_s}");
        // A server that still changes its files is not idle.
        assert_eq!(settled_at(quarters(60.0).map(|at_s| (at_s, at_s * 0.035, (at_s / 5.0) as u64))), None);
    }

    #[test]
    fn a_server_with_a_growing_directory_is_not_idle() {
        assert_eq!(settled_at(quarters(60.0).map(|at_s| (at_s, 0.0, (at_s / 2.0) as u64))), None);
    }

    #[test]
    fn the_idle_window_starts_when_the_last_work_ends() {
        let (began_s, known_s) =
            settled_at(quarters(60.0).map(|at_s| (at_s, at_s.min(10.0), at_s.min(12.0) as u64))).unwrap();
        assert!((9.5..=12.25).contains(&began_s) && known_s - began_s >= 3.0, "{began_s} {known_s}");
    }

    #[test]
    fn unreadable_processes_and_directories_are_not_waited_for() {
        let began = Instant::now();
        let rest = wait_until_idle(&[], &[], Duration::from_secs(60), &AtomicBool::new(false));
        assert!(!rest.settled && rest.bytes.is_none() && began.elapsed() < Duration::from_secs(1), "{rest:?}");
    }

    #[test]
    fn an_unchanged_directory_settles_with_its_size() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("f"), vec![3u8; 1 << 20]).unwrap();
        std::fs::File::open(directory.path().join("f")).unwrap().sync_all().unwrap();
        let dirs = [directory.path().to_path_buf()];
        let rest = wait_until_idle(&[], &dirs, Duration::from_secs(30), &AtomicBool::new(false));
        assert!(rest.settled && rest.settling_s < 1.0 && rest.bytes.unwrap() >= 1 << 20, "{rest:?}");
    }

    #[test]
    fn a_busy_process_does_not_settle_within_the_time_limit() {
        let mut burner = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let rest = wait_until_idle(&[burner.id()], &[], Duration::from_secs(4), &AtomicBool::new(false));
        let cancelled = wait_until_idle(&[burner.id()], &[], Duration::from_secs(60), &AtomicBool::new(true));
        burner.kill().unwrap();
        burner.wait().unwrap();
        assert!(!rest.settled && rest.settling_s >= 4.0 && rest.cores.unwrap() > STEADY_CORES, "{rest:?}");
        assert!(!cancelled.settled && cancelled.settling_s < 2.0, "{cancelled:?}");
    }

    #[test]
    fn samples_continue_after_a_kill_and_restart() {
        let burn = || std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let mut first = burn();
        let sampler = Sampler::start(&[first.id()], &[directory.path().to_path_buf()], Instant::now());
        std::thread::sleep(Duration::from_millis(700));
        let before = sampler.now();
        first.kill().unwrap();
        first.wait().unwrap();
        std::fs::write(directory.path().join("f"), vec![3u8; 1 << 20]).unwrap();
        let mut second = burn();
        sampler.replace_pids(&[second.id()]);
        std::thread::sleep(Duration::from_millis(1500));
        let samples = sampler.stop();
        second.kill().unwrap();
        second.wait().unwrap();

        // The number of samples depends on the load of the machine.
        assert!(samples.len() >= 2, "{}", samples.len());
        let last = samples.last().unwrap();
        assert!(before.server_cpu_s.unwrap() > 0.02, "{before:?}");
        assert!(last.server_cpu_s.unwrap() > before.server_cpu_s.unwrap() + 0.02, "{last:?}");
        assert!(last.data_bytes.unwrap() >= before.data_bytes.unwrap() + (1 << 20), "{last:?}");
        assert!(last.host_cpu_s > 0.0 && last.host_memory_bytes > 0 && last.client_cpu_s > 0.0, "{last:?}");
        for pair in samples.windows(2) {
            assert!(pair[0].at_s <= pair[1].at_s && pair[0].server_cpu_s <= pair[1].server_cpu_s, "{pair:?}");
        }
    }

    #[test]
    fn sampling_many_files_stays_cheap() {
        let directory = tempfile::tempdir().unwrap();
        for number in 0..2000 {
            std::fs::write(directory.path().join(number.to_string()), b"").unwrap();
        }
        let walk_s = cpu_cost_s(|| {
            proc::allocated_bytes(directory.path()).unwrap();
        });
        let next = pause(SCAN_INTERVAL, walk_s);
        assert!(walk_s / next.as_secs_f64() < 0.004, "{walk_s} s every {next:?}");
        assert_eq!(pause(SCAN_INTERVAL, 0.0), SCAN_INTERVAL);
    }

    #[test]
    fn long_runs_keep_fewer_samples() {
        let mut samples: Vec<ResourceSample> =
            (0..9).map(|at| ResourceSample { at_s: f64::from(at), ..ResourceSample::default() }).collect();
        thin_out(&mut samples);
        let kept: Vec<f64> = samples.iter().map(|sample| sample.at_s).collect();
        assert_eq!(kept, [0.0, 2.0, 4.0, 6.0, 8.0]);
    }
}
