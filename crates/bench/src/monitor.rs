//! Server-monitor mode (`millrace bench monitor`, `ser-benchmark.sh`): samples this machine and the server on it.
//!
//! Runs on the server's machine while a benchmark runs elsewhere. It reads `/proc` only, needs no
//! other program, and has the same columns as IoT-benchmark's monitor. Rates are differences of
//! counters between two samples, divided by the elapsed time.
//!
//! Always true: a value that cannot be read is -1, never 0. A failed reading does not end the
//! monitor.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jiff::Zoned;

use crate::config::Config;
use crate::error::{Error, Result};
use crate::measure::proc::{self, Disk, HostCpu, Interface};
use crate::measure::tree::{Tree, Usage};
use crate::report::store::server::{self, COLUMNS_COUNT, ServerSample, ServerStore};

/// Seconds between samples for `MONITOR_INTERVAL=0`.
const INTERVAL_DEFAULT_S: f64 = 1.0;
/// Share of time that measuring the directories may take; above it, samples repeat an earlier size.
const SIZES_SHARE_MAX: f64 = 0.1;
/// Time between two searches for a server that is not running.
const SEARCH_INTERVAL: Duration = Duration::from_secs(5);
/// Longest delay until a request to stop is noticed.
const NAP: Duration = Duration::from_millis(50);

const KB: f64 = 1024.0;
const MB: f64 = 1024.0 * KB;
const GB: f64 = 1024.0 * MB;
/// Value of a column that could not be read.
const UNKNOWN: f64 = -1.0;

/// Samples until `stop` is set or `TEST_MAX_TIME` is over. Prints one line for each sample to `out`
/// and stores it as `TEST_DATA_PERSISTENCE` says. The server is the process that listens on `PORT`;
/// its directories are in `IOTDB_DATA_DIR`, `IOTDB_WAL_DIR` and `IOTDB_SYSTEM_DIR`.
///
/// # Errors
/// The store cannot be opened, or `out` cannot be written. A sample that the store refuses is
/// reported on `out`.
pub fn run(config: &Config, stop: &AtomicBool, out: &mut dyn Write) -> Result {
    run_in(config, &crate::report::home(), stop, out)
}

fn run_in(config: &Config, home: &Path, stop: &AtomicBool, out: &mut dyn Write) -> Result {
    let mut store = server::open(config, home)?;
    let cannot = |error| Error::setup(format!("monitor: lines cannot be written: {error}"));
    if let Some(store) = &store {
        writeln!(out, "# stored in {}", store.location()).map_err(cannot)?;
    }
    writeln!(out, "{HEADER}").map_err(cannot)?;
    let interval_s = if config.monitor_interval > 0.0 { config.monitor_interval } else { INTERVAL_DEFAULT_S };
    let interval = Duration::from_secs_f64(interval_s.min(1e6));
    let end = (config.test_max_time > 0).then(|| Instant::now() + Duration::from_millis(config.test_max_time));
    let mut watch = Watch::new(config);
    let mut due = Instant::now();
    loop {
        due += interval;
        if !sleep_until(due, end, stop) {
            return Ok(());
        }
        let now = Zoned::now();
        let sample = watch.sample(now.timestamp().as_millisecond());
        writeln!(out, "{}", line(&now, watch.pid, &sample)).and_then(|()| out.flush()).map_err(cannot)?;
        if let Err(error) = keep(&mut store, &now, &sample) {
            writeln!(out, "# not stored: {error}").map_err(cannot)?;
        }
        // After a stall, continue from now instead of catching up: samples without time between
        // them have no rates.
        due = due.max(Instant::now() - interval / 2);
    }
}

fn keep(store: &mut Option<Box<dyn ServerStore>>, now: &Zoned, sample: &ServerSample) -> Result {
    let day = now.strftime("%Y_%m_%d").to_string();
    store.as_mut().map_or(Ok(()), |store| store.append(&day, sample))
}

/// Sleeps until the next sample is due; returns false when the monitor must end.
fn sleep_until(due: Instant, end: Option<Instant>, stop: &AtomicBool) -> bool {
    loop {
        let now = Instant::now();
        if stop.load(Ordering::Relaxed) || end.is_some_and(|end| now >= end && due > end) {
            return false;
        }
        if now >= due {
            return true;
        }
        std::thread::sleep(NAP.min(due - now));
    }
}

const HEADER: &str = "time,PID,process memory GB,memory usage,CPU usage,disk IO usage,disk TPS,read MB/s,write MB/s,\
    NIC recv KB/s,NIC send KB/s,data GB,system GB,sequence GB,unsequence GB,wal GB,process CPU cores,process read MB/s,\
    process write MB/s";

/// Formats a sample in the column order of the original's log, which differs from the order of its
/// tables.
fn line(now: &Zoned, pid: Option<u32>, sample: &ServerSample) -> String {
    let [
        cpu,
        memory,
        disk,
        received,
        sent,
        process_memory,
        data,
        system,
        sequence,
        unsequence,
        wal,
        tps,
        read,
        written,
        own @ ..,
    ] = sample.values;
    let values = [
        process_memory,
        memory,
        cpu,
        disk,
        tps,
        read,
        written,
        received,
        sent,
        data,
        system,
        sequence,
        unsequence,
        wal,
    ];
    let values = values.iter().chain(&own).map(|value| format!("{value:.3}")).collect::<Vec<_>>().join(",");
    let pid = pid.map_or_else(|| "-1".to_owned(), |pid| pid.to_string());
    format!("{},{pid},{values}", now.strftime("%Y-%m-%d %H:%M:%S.%3f"))
}

/// Counters of machine and server at one moment.
struct Counters {
    at: Instant,
    cpu: Option<HostCpu>,
    disks: Option<Vec<Disk>>,
    interfaces: Option<Vec<Interface>>,
    server: Usage,
}

/// Directories of a server by content.
struct Dirs {
    data: Vec<PathBuf>,
    system: Vec<PathBuf>,
    wal: Vec<PathBuf>,
}

/// Sizes in GB: data, system, sequence, unsequence, WAL.
type Sizes = [f64; 5];

struct Watch {
    ports: Vec<u16>,
    net_device: String,
    dirs: Dirs,
    tree: Tree,
    /// First process that listens on the server's ports.
    pid: Option<u32>,
    searched: Instant,
    before: Counters,
    sizes: Sizes,
    /// Earliest time of the next measurement of the directories.
    sizes_due: Instant,
}

impl Watch {
    fn new(config: &Config) -> Self {
        let paths = |names: &[String]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        let pids = listeners(&config.port);
        let mut tree = Tree::new(&pids);
        let before = Counters::read(&mut tree);
        let now = Instant::now();
        Watch {
            ports: config.port.clone(),
            net_device: config.net_device.clone(),
            dirs: Dirs {
                data: paths(&config.iotdb_data_dir),
                system: paths(&config.iotdb_system_dir),
                wal: paths(&config.iotdb_wal_dir),
            },
            tree,
            pid: pids.first().copied(),
            searched: now,
            before,
            sizes: [UNKNOWN; 5],
            sizes_due: now,
        }
    }

    fn sample(&mut self, at_ms: i64) -> ServerSample {
        self.find_server();
        self.tree.scan();
        let now = Counters::read(&mut self.tree);
        self.measure_dirs();
        let values = self.values(&now);
        self.before = now;
        ServerSample { at_ms, values }
    }

    /// Searches for the listening process if none is known or the known one has ended.
    fn find_server(&mut self) {
        let there = self.pid.is_some_and(|pid| proc::process_stat(pid).is_some_and(|stat| !stat.zombie));
        if there || self.searched.elapsed() < SEARCH_INTERVAL {
            return;
        }
        let pids = listeners(&self.ports);
        self.pid = pids.first().copied();
        self.tree.replace(&pids);
        self.searched = Instant::now();
    }

    fn measure_dirs(&mut self) {
        let from = Instant::now();
        if from < self.sizes_due {
            return;
        }
        self.sizes = self.dirs.sizes();
        self.sizes_due = from + from.elapsed().div_f64(SIZES_SHARE_MAX);
    }

    /// Values in the order of [`server::COLUMNS`].
    fn values(&self, now: &Counters) -> [f64; COLUMNS_COUNT] {
        let before = &self.before;
        // At least 1 ms, so that every rate is finite.
        let seconds = (now.at - before.at).as_secs_f64().max(1e-3);
        let rate = |later: u64, earlier: u64, unit: f64| later.saturating_sub(earlier) as f64 / unit / seconds;
        let [received, sent] = network(before, now, &self.net_device, seconds);
        let [disk, tps, read, written] = disks(before, now, seconds);
        let [data, system, sequence, unsequence, wal] = self.sizes;
        let process_cpu = difference(before.server.cpu_s, now.server.cpu_s).map_or(UNKNOWN, |cpu_s| cpu_s / seconds);
        let [process_read, process_written] = match (before.server.io, now.server.io) {
            (Some(earlier), Some(later)) => {
                [rate(later.read_bytes, earlier.read_bytes, MB), rate(later.written_bytes, earlier.written_bytes, MB)]
            }
            _ => [UNKNOWN; 2],
        };
        [
            cpu_usage(before, now),
            proc::host_memory().map_or(UNKNOWN, |(total, used)| used as f64 / total.max(1) as f64),
            disk,
            received,
            sent,
            now.server.rss_bytes.map_or(UNKNOWN, |bytes| bytes as f64 / GB),
            data,
            system,
            sequence,
            unsequence,
            wal,
            tps,
            read,
            written,
            process_cpu,
            process_read,
            process_written,
        ]
    }
}

impl Counters {
    fn read(tree: &mut Tree) -> Self {
        Counters {
            at: Instant::now(),
            cpu: proc::host_cpu(),
            disks: proc::disks(),
            interfaces: proc::interfaces(),
            server: tree.read(),
        }
    }
}

impl Dirs {
    /// IoTDB keeps ordered and unordered data in subdirectories; for other servers these sizes are
    /// unknown.
    fn sizes(&self) -> Sizes {
        let below = |name: &str| {
            let found = self.data.iter().map(|dir| dir.join(name)).filter(|dir| dir.is_dir());
            found.collect::<Vec<PathBuf>>()
        };
        let groups = [&self.data, &self.system, &below("sequence"), &below("unsequence"), &self.wal];
        groups.map(|dirs| proc::allocated_bytes_of_all(dirs).map_or(UNKNOWN, |bytes| bytes as f64 / GB))
    }
}

fn listeners(ports: &[u16]) -> Vec<u32> {
    let mut pids: Vec<u32> = ports.iter().flat_map(|port| proc::listening_pids(*port, None)).collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

fn difference(before: Option<f64>, now: Option<f64>) -> Option<f64> {
    Some((now? - before?).max(0.0))
}

/// Percentage of all processors' time that was not idle.
fn cpu_usage(before: &Counters, now: &Counters) -> f64 {
    match (before.cpu, now.cpu) {
        (Some(earlier), Some(later)) if later.total_s > earlier.total_s => {
            (later.busy_s - earlier.busy_s).max(0.0) / (later.total_s - earlier.total_s)
        }
        _ => UNKNOWN,
    }
}

/// KB/s received and sent over the interfaces whose names begin with `prefix`.
fn network(before: &Counters, now: &Counters, prefix: &str, seconds: f64) -> [f64; 2] {
    let (Some(earlier), Some(later)) = (&before.interfaces, &now.interfaces) else { return [UNKNOWN; 2] };
    let wanted: Vec<&Interface> = later.iter().filter(|interface| interface.name.starts_with(prefix)).collect();
    if wanted.is_empty() {
        return [UNKNOWN; 2];
    }
    let grown = |bytes: fn(&Interface) -> u64| {
        let of = |interface: &&Interface| {
            let earlier = earlier.iter().find(|earlier| earlier.name == interface.name);
            bytes(interface).saturating_sub(earlier.map_or(bytes(interface), bytes))
        };
        wanted.iter().map(of).sum::<u64>() as f64 / KB / seconds
    };
    [grown(|interface| interface.received_bytes), grown(|interface| interface.sent_bytes)]
}

/// Busy percentage, requests a second, MB/s read and written: each is the maximum over the disks,
/// as in the original.
fn disks(before: &Counters, now: &Counters, seconds: f64) -> [f64; 4] {
    let (Some(earlier), Some(later)) = (&before.disks, &now.disks) else { return [UNKNOWN; 4] };
    let pairs =
        later.iter().filter_map(|later| Some((earlier.iter().find(|earlier| earlier.name == later.name)?, later)));
    let rates = |(earlier, later): (&Disk, &Disk)| {
        let grown = |count: fn(&Disk) -> u64| count(later).saturating_sub(count(earlier)) as f64;
        let requests = grown(|disk| disk.reads) + grown(|disk| disk.writes);
        [
            ((later.busy_s - earlier.busy_s) / seconds).clamp(0.0, 1.0),
            requests / seconds,
            grown(|disk| disk.read_bytes) / MB / seconds,
            grown(|disk| disk.written_bytes) / MB / seconds,
        ]
    };
    let greater = |a: [f64; 4], b: [f64; 4]| std::array::from_fn(|i| f64::max(a[i], b[i]));
    pairs.map(rates).reduce(greater).unwrap_or([UNKNOWN; 4])
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn config(settings: &[String]) -> Config {
        Config::load(None, settings).unwrap()
    }

    fn counters(seconds: f64, scale: u64) -> Counters {
        let disk = |name: &str, share: u64| Disk {
            name: name.to_owned(),
            reads: 10 * share * scale,
            writes: 20 * share * scale,
            read_bytes: (1 << 20) * share * scale,
            written_bytes: (2 << 20) * share * scale,
            busy_s: 0.25 * (share * scale) as f64,
        };
        let interface = |name: &str, bytes: u64| Interface {
            name: name.to_owned(),
            received_bytes: 1024 * bytes * scale,
            sent_bytes: 2048 * bytes * scale,
        };
        Counters {
            at: Instant::now() + Duration::from_secs_f64(seconds),
            cpu: Some(HostCpu { busy_s: scale as f64, total_s: 4.0 * scale as f64 }),
            disks: Some(vec![disk("sda", 1), disk("nvme0n1", 2)]),
            interfaces: Some(vec![interface("eth0", 10), interface("enp3", 20), interface("docker0", 500)]),
            server: Usage::default(),
        }
    }

    #[test]
    fn rates_are_differences_over_the_time_that_passed() {
        let (before, now) = (counters(0.0, 1), counters(2.0, 3));
        assert_eq!(cpu_usage(&before, &now), 0.25);
        assert_eq!(disks(&before, &now, 2.0), [0.5, 60.0, 2.0, 4.0], "the busiest disk, also an NVMe one");
        assert_eq!(network(&before, &now, "e", 2.0), [30.0, 60.0], "interfaces that begin with e, together");
        assert_eq!(network(&before, &now, "wlan", 2.0), [UNKNOWN; 2]);
    }

    #[test]
    fn counters_that_cannot_be_read_give_unknown_not_zero() {
        let nothing =
            || Counters { at: Instant::now(), cpu: None, disks: None, interfaces: None, server: Usage::default() };
        assert_eq!(cpu_usage(&nothing(), &nothing()), UNKNOWN);
        assert_eq!(disks(&nothing(), &counters(1.0, 1), 1.0), [UNKNOWN; 4]);
        assert_eq!(network(&counters(1.0, 1), &nothing(), "e", 1.0), [UNKNOWN; 2]);
    }

    #[test]
    fn a_counter_that_restarts_gives_no_negative_rate() {
        let (before, now) = (counters(0.0, 3), counters(1.0, 1));
        assert_eq!(disks(&before, &now, 1.0), [0.0; 4]);
        assert_eq!(network(&before, &now, "e", 1.0), [0.0; 2]);
    }

    /// The test's own process plays the server: it listens and has a data directory.
    #[test]
    fn samples_of_a_server_are_printed_and_stored_with_the_originals_columns() {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("dn/data");
        std::fs::create_dir_all(data.join("sequence")).unwrap();
        std::fs::write(data.join("sequence/1.tsfile"), vec![1; 3 << 20]).unwrap();
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let config = config(&[
            format!("PORT={}", server.local_addr().unwrap().port()),
            format!("IOTDB_DATA_DIR={}", data.display()),
            "MONITOR_INTERVAL=0.2".to_owned(),
            "TEST_MAX_TIME=900".to_owned(),
            "TEST_DATA_PERSISTENCE=CSV".to_owned(),
        ]);
        let mut out = Vec::new();
        run_in(&config, home.path(), &AtomicBool::new(false), &mut out).unwrap();

        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("# stored in ") && lines[1].starts_with("time,PID,process memory GB,"), "{text}");
        assert!((3..=6).contains(&(lines.len() - 2)), "samples in 0.9 s, one in 0.2 s: {text}");
        let cells: Vec<&str> = lines[2].split(',').collect();
        assert_eq!((cells.len(), cells[1]), (19, std::process::id().to_string().as_str()), "{text}");
        let number = |cell: usize| cells[cell].parse::<f64>().unwrap();
        assert!(number(2) > 0.0 && (0.0..=1.0).contains(&number(3)) && (0.0..=1.0).contains(&number(4)), "{text}");
        assert_eq!(
            (cells[11], cells[12], cells[13], cells[14], cells[15]),
            ("0.003", "-1.000", "0.003", "-1.000", "-1.000")
        );

        let dir = home.path().join("data/csv");
        let file = std::fs::read_dir(&dir).unwrap().next().unwrap().unwrap();
        assert!(file.file_name().to_string_lossy().starts_with("serverInfo_"), "{file:?}");
        let kept = std::fs::read_to_string(file.path()).unwrap();
        let header = "id,cpu_usage,mem_usage,diskIo_usage,net_recv_rate,net_send_rate,pro_mem_size,dataFileSize,\
            systemFizeSize,sequenceFileSize,unsequenceFileSize,walFileSize,tps,MB_read,MB_wrtn,pro_cpu_cores,\
            pro_MB_read,pro_MB_wrtn\n";
        assert!(kept.starts_with(header), "{kept}");
        assert_eq!(kept.lines().count() - 1, lines.len() - 2, "as many kept as printed");
    }

    #[test]
    fn a_request_to_stop_ends_it_at_once() {
        let home = tempfile::tempdir().unwrap();
        let config = config(&["MONITOR_INTERVAL=600".to_owned()]);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let monitor = scope.spawn(|| run_in(&config, home.path(), &stop, &mut Vec::new()));
            stop.store(true, Ordering::Relaxed);
            let from = Instant::now();
            monitor.join().unwrap().unwrap();
            assert!(from.elapsed() < Duration::from_secs(20), "{:?}", from.elapsed());
        });
    }

    #[test]
    fn a_store_without_support_for_samples_is_refused() {
        let config = config(&["TEST_DATA_PERSISTENCE=Parquet".to_owned()]);
        let error = run_in(&config, Path::new(""), &AtomicBool::new(true), &mut Vec::new()).unwrap_err();
        assert!(error.message.contains("expected None, CSV, MySQL or PostgreSQL"), "{error}");
    }
}
