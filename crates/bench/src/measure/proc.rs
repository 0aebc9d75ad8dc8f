//! Readers of `/proc`: processes, processors, memory, disks, network, and the disk space of a
//! directory tree.
//!
//! Each file has a pure parser, which returns `None` (or an empty list) for text that it does not
//! understand, and a reader, which also returns `None` when the file does not exist or may not be
//! read: another user's `io`, another kernel, another system. Nothing here needs root or a program
//! such as `iostat`.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Ticks a second in `/proc/PID/stat` and `/proc/stat`: `USER_HZ`, fixed by Linux on all common
/// machines.
const TICKS_PER_SECOND: f64 = 100.0;
/// Sector size in `/proc/diskstats`, independent of the disk's own.
const SECTOR_BYTES: u64 = 512;
/// Unit of `st_blocks`, independent of the file system's block size.
const BLOCK_BYTES: u64 = 512;

fn read(path: impl AsRef<Path>) -> Option<String> {
    let bytes = std::fs::read(path).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

// ---- one process ----

/// `/proc/PID/stat`: counters of a process with all its threads, ended ones included.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ProcessStat {
    pub(crate) parent: u32,
    /// Seconds in user and kernel mode.
    pub(crate) cpu_s: f64,
    /// CPU seconds of ended and reaped children, and of their reaped children.
    pub(crate) reaped_cpu_s: f64,
    /// Ticks after boot at which the process started; together with the pid it identifies the
    /// process uniquely.
    pub(crate) started_ticks: u64,
    /// The process has ended and was not reaped yet.
    pub(crate) zombie: bool,
}

/// Parses `pid (name) state ppid …`. The name may contain spaces and parentheses, so fields are
/// counted from the last `)`.
pub(crate) fn parse_process_stat(text: &str) -> Option<ProcessStat> {
    let fields: Vec<&str> = text.get(text.rfind(')')? + 1..)?.split_ascii_whitespace().collect();
    // proc(5) numbers fields from 1; the state, its third, is our fields[0].
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let seconds = |user: usize| Some((number(user)? + number(user + 1)?) as f64 / TICKS_PER_SECOND);
    Some(ProcessStat {
        parent: u32::try_from(number(4)?).ok()?,
        cpu_s: seconds(14)?,
        reaped_cpu_s: seconds(16)?,
        started_ticks: number(22)?,
        zombie: matches!(fields.first(), Some(&"Z" | &"X")),
    })
}

/// Reads CPU time, parent and start time of a process.
pub(crate) fn process_stat(pid: u32) -> Option<ProcessStat> {
    parse_process_stat(&read(format!("/proc/{pid}/stat"))?)
}

/// `/proc/PID/io`: disk I/O of a process, reaped children included.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ProcessIo {
    /// Bytes fetched from disks; reads served by the page cache do not count.
    pub(crate) read_bytes: u64,
    /// Bytes of pages made dirty, whether or not they have reached the disk.
    pub(crate) written_bytes: u64,
}

pub(crate) fn parse_process_io(text: &str) -> Option<ProcessIo> {
    Some(ProcessIo { read_bytes: labelled(text, "read_bytes")?, written_bytes: labelled(text, "write_bytes")? })
}

/// Returns `None` for other users' processes unless this process may trace them.
pub(crate) fn process_io(pid: u32) -> Option<ProcessIo> {
    parse_process_io(&read(format!("/proc/{pid}/io"))?)
}

/// `/proc/PID/status`: resident memory of a process in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ProcessMemory {
    /// Private anonymous memory.
    pub(crate) anonymous: u64,
    /// File-backed and shared memory: other processes may count the same pages.
    pub(crate) shared: u64,
}

pub(crate) fn parse_process_memory(text: &str) -> Option<ProcessMemory> {
    let kib = |label| labelled(text, label).map(|kib| kib * 1024);
    let shared = kib("RssFile").unwrap_or(0) + kib("RssShmem").unwrap_or(0);
    Some(ProcessMemory { anonymous: kib("RssAnon")?, shared })
}

/// Returns resident memory; `None` also for a process that has ended.
pub(crate) fn process_memory(pid: u32) -> Option<ProcessMemory> {
    parse_process_memory(&read(format!("/proc/{pid}/status"))?)
}

/// Estimates the resident bytes of several processes: the sum of their private memory, and the
/// largest shared part once. Exact for one process; for processes that share pages (PostgreSQL's
/// buffers) it avoids counting those pages once for each process.
pub(crate) fn resident_bytes(processes: &[ProcessMemory]) -> u64 {
    let own: u64 = processes.iter().map(|memory| memory.anonymous).sum();
    own + processes.iter().map(|memory| memory.shared).max().unwrap_or(0)
}

/// Returns the number after `label:` at the start of a line.
fn labelled(text: &str, label: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(label)?.strip_prefix(':'))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Lists (pid, parent) of every process of this machine.
pub(crate) fn processes() -> Vec<(u32, u32)> {
    pids().into_iter().filter_map(|pid| Some((pid, process_stat(pid)?.parent))).collect()
}

fn pids() -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Returns `roots` and all their descendants in `table` of (pid, parent), each once, ascending.
pub(crate) fn with_descendants(roots: &[u32], table: &[(u32, u32)]) -> Vec<u32> {
    let mut found: BTreeSet<u32> = roots.iter().copied().collect();
    loop {
        let before = found.len();
        found
            .extend(table.iter().filter(|(_, parent)| found.contains(parent)).map(|(pid, _)| *pid).collect::<Vec<_>>());
        if found.len() == before {
            return found.into_iter().collect();
        }
    }
}

/// CPU seconds of this process with all its threads, with nanosecond resolution.
pub(crate) fn own_cpu_s() -> f64 {
    clock_s(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU seconds of the calling thread, with nanosecond resolution.
pub(crate) fn thread_cpu_s() -> f64 {
    clock_s(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock_s(clock: libc::clockid_t) -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the write, and both clocks exist for every process, so the call cannot fail.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

// ---- listening processes ----

/// Returns inodes of the sockets that listen on `port`, from the text of `/proc/net/tcp` or `tcp6`.
pub(crate) fn parse_listeners(text: &str, port: u16) -> Vec<u64> {
    /// `TCP_LISTEN` of Linux' `tcp_states.h`, in the file's notation.
    const LISTENING: &str = "0A";
    let inode = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let here = u16::from_str_radix(fields.get(1)?.rsplit(':').next()?, 16).ok()?;
        let listens = *fields.get(3)? == LISTENING && here == port;
        if listens { fields.get(9)?.parse().ok() } else { None }
    };
    text.lines().filter_map(inode).collect()
}

/// Lists the processes that listen on a TCP port. Processes that inherited the socket from another
/// one of them are left out.
///
/// `network_of`: a process in the network namespace to inspect; `None`: the own namespace. The
/// result is empty if no process listens, or if the listener belongs to another user and this
/// process may not inspect it.
pub(crate) fn listening_pids(port: u16, network_of: Option<u32>) -> Vec<u32> {
    let namespace = network_of.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
    let tables = ["tcp", "tcp6"].into_iter().filter_map(|table| read(format!("/proc/{namespace}/net/{table}")));
    let sockets: BTreeSet<String> =
        tables.flat_map(|text| parse_listeners(&text, port)).map(|inode| format!("socket:[{inode}]")).collect();
    if sockets.is_empty() {
        return Vec::new();
    }
    let holders: Vec<u32> = pids().into_iter().filter(|pid| holds_any(*pid, &sockets)).collect();
    let table = processes();
    let heir =
        |pid: &u32| holders.iter().any(|other| other != pid && with_descendants(&[*other], &table).contains(pid));
    holders.iter().copied().filter(|pid| !heir(pid)).collect()
}

fn holds_any(pid: u32, sockets: &BTreeSet<String>) -> bool {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let target = |entry: std::fs::DirEntry| std::fs::read_link(entry.path()).ok()?.to_str().map(str::to_owned);
    entries.flatten().filter_map(target).any(|target| sockets.contains(&target))
}

// ---- the host ----

/// CPU time of all processors since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct HostCpu {
    /// Busy seconds of all processors; time stolen by the hypervisor does not count.
    pub(crate) busy_s: f64,
    /// Seconds of all processors, idle and stolen time included.
    pub(crate) total_s: f64,
}

/// The first line of `/proc/stat`: user nice system idle iowait irq softirq steal; guests' time is in user and nice.
pub(crate) fn parse_host_cpu(text: &str) -> Option<HostCpu> {
    let ticks: Vec<u64> = text
        .lines()
        .next()?
        .strip_prefix("cpu ")?
        .split_ascii_whitespace()
        .map_while(|tick| tick.parse().ok())
        .collect();
    let (idle, stolen) = (ticks.get(3)? + ticks.get(4)?, ticks.get(7).unwrap_or(&0));
    let total: u64 = ticks.iter().take(8).sum();
    let seconds = |ticks: u64| ticks as f64 / TICKS_PER_SECOND;
    Some(HostCpu { busy_s: seconds(total - idle - stolen), total_s: seconds(total) })
}

/// Reads the CPU times of the host.
pub(crate) fn host_cpu() -> Option<HostCpu> {
    parse_host_cpu(&read("/proc/stat")?)
}

/// Returns (total bytes, used bytes) from `/proc/meminfo`; memory that can be reclaimed without
/// swapping is not used.
pub(crate) fn parse_memory(text: &str) -> Option<(u64, u64)> {
    let total = labelled(text, "MemTotal")? * 1024;
    Some((total, total.saturating_sub(labelled(text, "MemAvailable")? * 1024)))
}

/// Reads the memory of the host: (total bytes, used bytes).
pub(crate) fn host_memory() -> Option<(u64, u64)> {
    parse_memory(&read("/proc/meminfo")?)
}

/// Counters of a disk since boot.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Disk {
    pub(crate) name: String,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    /// Seconds with at least one request in flight.
    pub(crate) busy_s: f64,
}

/// Parses the whole disks of `/proc/diskstats`. Partitions and virtual devices (device mapper,
/// RAID, loop, RAM) are left out: their bytes would be counted twice or touch no disk.
pub(crate) fn parse_disks(text: &str) -> Vec<Disk> {
    let all: Vec<Disk> = text.lines().filter_map(parse_disk).collect();
    let whole =
        |disk: &&Disk| !is_made_of_others(&disk.name) && !all.iter().any(|other| is_part_of(&disk.name, &other.name));
    all.iter().filter(whole).cloned().collect()
}

fn parse_disk(line: &str) -> Option<Disk> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field)?.parse::<u64>().ok();
    Some(Disk {
        name: (*fields.get(2)?).to_owned(),
        reads: number(3)?,
        read_bytes: number(5)?.wrapping_mul(SECTOR_BYTES),
        writes: number(7)?,
        written_bytes: number(9)?.wrapping_mul(SECTOR_BYTES),
        busy_s: number(12)? as f64 / 1e3,
    })
}

fn is_made_of_others(disk: &str) -> bool {
    ["loop", "ram", "zram", "dm-", "md", "sr", "fd"]
        .iter()
        .any(|kind| disk.strip_prefix(kind).is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit())))
}

/// Returns whether `part` is a partition of `whole`: `sda1` of `sda`, `nvme0n1p2` of `nvme0n1`.
fn is_part_of(part: &str, whole: &str) -> bool {
    let Some(rest) = part.strip_prefix(whole) else { return false };
    let number = if whole.ends_with(|last: char| last.is_ascii_digit()) { rest.strip_prefix('p') } else { Some(rest) };
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Reads the counters of the host's whole disks.
pub(crate) fn disks() -> Option<Vec<Disk>> {
    Some(parse_disks(&read("/proc/diskstats")?))
}

/// Counters of a network interface since boot.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) received_bytes: u64,
    pub(crate) sent_bytes: u64,
}

/// Parses the interfaces of `/proc/net/dev` except loopback.
pub(crate) fn parse_interfaces(text: &str) -> Vec<Interface> {
    let interface = |line: &str| {
        let (name, counters) = line.split_once(':')?;
        let counters: Vec<&str> = counters.split_ascii_whitespace().collect();
        let number = |field: usize| counters.get(field)?.parse().ok();
        Some(Interface { name: name.trim().to_owned(), received_bytes: number(0)?, sent_bytes: number(8)? })
    };
    text.lines().filter_map(interface).filter(|interface| interface.name != "lo").collect()
}

/// Reads the interfaces of this process' network namespace except loopback.
pub(crate) fn interfaces() -> Option<Vec<Interface>> {
    Some(parse_interfaces(&read("/proc/net/dev")?))
}

/// Parses the seconds since boot from `/proc/uptime`.
pub(crate) fn parse_uptime(text: &str) -> Option<f64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// Returns the current time in the unit of [`ProcessStat::started_ticks`].
pub(crate) fn now_ticks() -> Option<u64> {
    Some((parse_uptime(&read("/proc/uptime")?)? * TICKS_PER_SECOND) as u64)
}

// ---- facts about the machine ----

/// Counts the processors in a list such as `0-3,8`.
pub(crate) fn parse_cpu_list(list: &str) -> Option<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    list.split(',').map(range).try_fold(0u32, |sum, count| sum.checked_add(count?))
}

/// Returns the processor's name from `/proc/cpuinfo` of x86, POWER and some ARM kernels.
pub(crate) fn parse_cpu_model(text: &str) -> Option<String> {
    let value = |label: &str| {
        text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == label && !value.trim().is_empty()).then(|| value.trim().to_owned())
        })
    };
    ["model name", "cpu", "Model", "Hardware", "Processor"].into_iter().find_map(value)
}

/// Describes the machine that this process runs on. Values that the kernel does not report are 0 or
/// empty.
pub(crate) fn machine() -> crate::result::Machine {
    let status = read("/proc/self/status").unwrap_or_default();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).and_then(parse_cpu_list);
    // `available_parallelism` also considers cgroup quotas.
    let usable = std::thread::available_parallelism().map_or(0, |count| count.get() as u32);
    let kernel = ["ostype", "osrelease"].map(|file| read(format!("/proc/sys/kernel/{file}")).unwrap_or_default());
    crate::result::Machine {
        cpus: allowed.map_or(usable, |allowed| if usable == 0 { allowed } else { allowed.min(usable) }),
        cpu: read("/proc/cpuinfo")
            .and_then(|text| parse_cpu_model(&text))
            .unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        memory_bytes: host_memory().map_or(0, |(total, _)| total),
        kernel: kernel.map(|part| part.trim().to_owned()).join(" ").trim().to_owned(),
    }
}

// ---- files ----

/// Bytes that a directory tree occupies on disk: allocated blocks, directories included, a file
/// with several links counted once. Files that vanish during the walk are left out, as is a deleted
/// file that is still open.
///
/// # Errors
/// `root` does not exist, or an entry below it cannot be read: a partial sum would look like a
/// complete one.
pub(crate) fn allocated_bytes(root: &Path) -> io::Result<u64> {
    let mut linked = BTreeSet::new();
    let mut bytes = std::fs::symlink_metadata(root)?.blocks() * BLOCK_BYTES;
    let mut directories = vec![root.to_path_buf()];
    while let Some(directory) = directories.pop() {
        bytes += allocated_inside(&directory, &mut directories, &mut linked)?;
    }
    Ok(bytes)
}

fn allocated_inside(
    directory: &Path,
    directories: &mut Vec<PathBuf>,
    linked: &mut BTreeSet<(u64, u64)>,
) -> io::Result<u64> {
    let Some(entries) = unless_vanished(std::fs::read_dir(directory))? else { return Ok(0) };
    let mut bytes = 0;
    for entry in entries {
        let Some(entry) = unless_vanished(entry)? else { continue };
        // `DirEntry::metadata` does not follow symbolic links.
        let Some(metadata) = unless_vanished(entry.metadata())? else { continue };
        if metadata.is_dir() {
            directories.push(entry.path());
        } else if metadata.nlink() > 1 && !linked.insert((metadata.dev(), metadata.ino())) {
            continue;
        }
        bytes += metadata.blocks() * BLOCK_BYTES;
    }
    Ok(bytes)
}

fn unless_vanished<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Bytes that several directory trees occupy; `None` if the list is empty or a tree cannot be read.
pub(crate) fn allocated_bytes_of_all(roots: &[PathBuf]) -> Option<u64> {
    if roots.is_empty() {
        return None;
    }
    roots.iter().map(|root| allocated_bytes(root).ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_a_hostile_name_is_read() {
        let text = "4321 (a) R 9 (b (c) S 17 4321 4321 0 -1 4194560 1 2 3 4 250 50 30 10 20 0 9 0 987654 1000 20 0";
        let expected = ProcessStat { parent: 17, cpu_s: 3.0, reaped_cpu_s: 0.4, started_ticks: 987_654, zombie: false };
        assert_eq!(parse_process_stat(text), Some(expected));
    }

    #[test]
    fn a_zombie_is_recognised() {
        let text = "7 (x) Z 1 7 7 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 5 0 0";
        assert!(parse_process_stat(text).unwrap().zombie);
    }

    #[test]
    fn truncated_texts_parse_to_none() {
        for text in ["", ")", "1 (x", "1 (x) S", "1 (x) S 1 2 3", "1 (x) S a b c d e f g h i j k l m n o p q r s t"] {
            assert_eq!(parse_process_stat(text), None, "{text}");
        }
        assert_eq!(parse_process_io("rchar: 5\nread_bytes: 7\n"), None);
        assert_eq!(parse_process_memory("Name:\tx\n"), None);
        assert_eq!(parse_host_cpu("cpu  1 2"), None);
        assert_eq!(parse_host_cpu("cpu0 1 2 3 4 5 6 7 8"), None);
        assert_eq!(parse_memory("MemTotal: 5 kB\n"), None);
        assert_eq!(parse_uptime(""), None);
        assert!(parse_disks("8 0 sda 1 2 3").is_empty());
        assert!(parse_interfaces("eth0: 1 2 3\nno colon").is_empty());
        assert!(parse_listeners("0: 0100007F:1F90 00000000:0000 0A", 8080).is_empty());
    }

    #[test]
    fn disk_bytes_of_a_process_differ_from_its_system_call_bytes() {
        let text = "rchar: 323934931\nwchar: 323929600\nsyscr: 632687\nsyscw: 632675\nread_bytes: 4096\n\
                    write_bytes: 323932160\ncancelled_write_bytes: 0\n";
        assert_eq!(parse_process_io(text), Some(ProcessIo { read_bytes: 4096, written_bytes: 323_932_160 }));
    }

    #[test]
    fn shared_memory_of_several_processes_counts_once() {
        let one =
            parse_process_memory("VmRSS:\t 30 kB\nRssAnon:\t 10 kB\nRssFile:\t 15 kB\nRssShmem:\t 5 kB\n").unwrap();
        assert_eq!(one, ProcessMemory { anonymous: 10 << 10, shared: 20 << 10 });
        let two = ProcessMemory { anonymous: 1 << 10, shared: 7 << 10 };
        assert_eq!(resident_bytes(&[one]), 30 << 10);
        assert_eq!(resident_bytes(&[one, two]), 31 << 10);
        assert_eq!(resident_bytes(&[]), 0);
    }

    #[test]
    fn descendants_are_found_over_generations_in_any_order() {
        let table = [(12, 11), (11, 10), (10, 1), (20, 1), (21, 20), (1, 0)];
        assert_eq!(with_descendants(&[10], &table), [10, 11, 12]);
        assert_eq!(with_descendants(&[10, 21], &table), [10, 11, 12, 21]);
        assert_eq!(with_descendants(&[99], &table), [99]);
    }

    #[test]
    fn listeners_are_found_by_port_and_state() {
        let text = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 1 0 100 0 0 10 0\n\
            1: 0100007F:1F90 0100007F:8AE2 01 00000000:00000000 00:00000000 00000000     0        0 12346 1 0 20 4 30 10 -1\n\
            2: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12347 1 0 100 0 0 10 0\n";
        assert_eq!(parse_listeners(text, 8080), [12345]);
        assert_eq!(parse_listeners(text, 8081), [12347]);
        let six = "0: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A \
            00000000:00000000 00:00000000 00000000     0        0 777 1 0 100 0 0 10 0\n";
        assert_eq!(parse_listeners(six, 8080), [777]);
    }

    #[test]
    fn listeners_of_an_own_port_are_this_process() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(listening_pids(listener.local_addr().unwrap().port(), None), [std::process::id()]);
    }

    #[test]
    fn processors_are_busy_when_neither_idle_nor_waiting_nor_stolen() {
        let text = "cpu  100 20 30 1000 50 1 2 300 7 7\ncpu0 1 1 1 1 1 1 1 1 1 1\nintr 5\n";
        assert_eq!(parse_host_cpu(text), Some(HostCpu { busy_s: 1.53, total_s: 15.03 }));
    }

    #[test]
    fn used_memory_excludes_reclaimable_memory() {
        let text = "MemTotal:       24737468 kB\nMemFree:         400000 kB\nMemAvailable:   20737468 kB\n";
        assert_eq!(parse_memory(text), Some((24_737_468 << 10, 4_000_000 << 10)));
    }

    #[test]
    fn whole_disks_only() {
        let line = |name: &str| format!(" 254 0 {name} 10 1 200 3 20 2 400 5 0 1500 60 0 0 0 0 0 0\n");
        let names = |present: &[&str]| -> Vec<String> {
            let text: String = present.iter().map(|name| line(name)).collect();
            parse_disks(&text).into_iter().map(|disk| disk.name).collect()
        };
        assert_eq!(names(&["loop0", "vda", "vda1", "vda15", "zram0", "ram1", "dm-0", "md127", "sr0"]), ["vda"]);
        assert_eq!(names(&["nvme0n1", "nvme0n1p1", "nvme0n1p12", "nvme1n1"]), ["nvme0n1", "nvme1n1"]);
        assert_eq!(
            names(&["sda", "sda1", "sdaa", "sdaa2", "xvdb", "mmcblk0", "mmcblk0p1"]),
            ["sda", "sdaa", "xvdb", "mmcblk0"]
        );
        // A machine in a cloud may have a disk that is called like a partition.
        assert_eq!(names(&["xvda1"]), ["xvda1"]);
        let disk = &parse_disks(&line("vda"))[0];
        assert_eq!((disk.reads, disk.writes, disk.read_bytes, disk.written_bytes), (10, 20, 200 * 512, 400 * 512));
        assert_eq!(disk.busy_s, 1.5);
    }

    #[test]
    fn interfaces_without_the_loopback() {
        let text = "Inter-|   Receive                |  Transmit\n face |bytes    packets errs\n    lo: 5 1 0 0 0 0 0 0 5 1 0 0 0 0 0 0\n  \
                    eth0:1444 52 0 0 0 0 0 0 4284 34 0 0 0 0 0 0\n";
        let eth0 = Interface { name: "eth0".to_owned(), received_bytes: 1444, sent_bytes: 4284 };
        assert_eq!(parse_interfaces(text), [eth0]);
    }

    #[test]
    fn lists_of_processors_are_counted() {
        assert_eq!(parse_cpu_list("0-1"), Some(2));
        assert_eq!(parse_cpu_list("\t0-3,8,10-11\n"), Some(7));
        for broken in ["", "a", "3-1", "0-4294967295"] {
            assert_eq!(parse_cpu_list(broken), None, "{broken}");
        }
    }

    #[test]
    fn the_processors_name_is_found() {
        assert_eq!(parse_cpu_model("processor\t: 0\nmodel name\t: AMD EPYC\n").as_deref(), Some("AMD EPYC"));
        assert_eq!(parse_cpu_model("processor\t: 0\nBogoMIPS\t: 50\n"), None);
    }

    #[test]
    fn this_machine_is_described() {
        let machine = machine();
        assert!(machine.cpus >= 1 && machine.memory_bytes > 1 << 26, "{machine:?}");
        assert!(machine.kernel.starts_with("Linux ") && !machine.cpu.is_empty(), "{machine:?}");
        assert!(host_cpu().unwrap().total_s > host_cpu().unwrap().busy_s);
        assert!(now_ticks().unwrap() >= process_stat(std::process::id()).unwrap().started_ticks);
    }

    #[test]
    fn own_cpu_time_grows_with_work() {
        let before = (own_cpu_s(), thread_cpu_s());
        let mut sum = 0u64;
        while thread_cpu_s() - before.1 < 0.02 {
            sum = std::hint::black_box(sum.wrapping_mul(31) + 1);
        }
        assert!(own_cpu_s() - before.0 >= 0.02);
    }

    #[test]
    fn a_file_with_two_links_is_counted_once() {
        let directory = tempfile::tempdir().unwrap();
        let empty = allocated_bytes(directory.path()).unwrap();
        std::fs::create_dir(directory.path().join("inside")).unwrap();
        let file = directory.path().join("inside/file");
        std::fs::write(&file, vec![1u8; 100_000]).unwrap();
        std::fs::File::open(&file).unwrap().sync_all().unwrap();
        let one = allocated_bytes(directory.path()).unwrap();
        std::fs::hard_link(&file, directory.path().join("other")).unwrap();
        std::os::unix::fs::symlink("/", directory.path().join("elsewhere")).unwrap();
        let two = allocated_bytes(directory.path()).unwrap();
        assert!((empty + 100_000..empty + 130_000).contains(&one), "{empty} {one}");
        assert!(two - one < 8192, "{one} {two}");
        // A hole occupies nothing.
        std::fs::File::create(directory.path().join("hole")).unwrap().set_len(1 << 30).unwrap();
        assert!(allocated_bytes(directory.path()).unwrap() < 1 << 20);
    }

    #[test]
    fn a_missing_tree_has_no_size() {
        assert!(allocated_bytes(Path::new("/nonexistent/tree")).is_err());
        assert_eq!(allocated_bytes_of_all(&[]), None);
        assert_eq!(allocated_bytes_of_all(&["/nonexistent/tree".into()]), None);
    }

    #[test]
    fn files_that_vanish_are_no_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_path_buf();
        std::thread::scope(|scope| {
            let churn = scope.spawn(|| {
                for round in 0..300 {
                    let inside = path.join(format!("d{}", round % 7));
                    std::fs::create_dir(&inside).unwrap();
                    std::fs::write(inside.join("f"), b"x").unwrap();
                    std::fs::remove_dir_all(&inside).unwrap();
                }
            });
            while !churn.is_finished() {
                allocated_bytes(&path).unwrap();
            }
        });
    }
}
