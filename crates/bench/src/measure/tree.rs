//! Counters of a server's processes since a given moment, across children that start and end and
//! across a kill and restart.
//!
//! Always true: a counter never decreases, and no CPU second or byte is counted twice. When a child
//! ends, the kernel adds its counters to the parent that waits for it, so the amount already
//! counted for the child is subtracted.
//!
//! Not counted: the work of a process between the last reading and its death, if no parent in the
//! tree waits for it (`kill -9` of the whole server). Read right before killing.

use std::collections::HashMap;

use super::proc::{self, ProcessIo, ProcessMemory, ProcessStat};

/// Unique identity of a process, (pid, start ticks): pids are reused.
type Key = (u32, u64);

/// Processes of a server: root processes and all their descendants.
pub(crate) struct Tree {
    roots: Vec<u32>,
    /// Roots and descendants found by the latest scan.
    members: Vec<u32>,
    totals: Totals,
}

/// Resources used by the processes so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    /// CPU seconds; `None` until a process has been read.
    pub(crate) cpu_s: Option<f64>,
    /// Disk I/O; `None` until the counters of a process could be read.
    pub(crate) io: Option<ProcessIo>,
    /// Current resident bytes; `None` if no process exists.
    pub(crate) rss_bytes: Option<u64>,
}

impl Tree {
    /// Starts counting now. Without roots, all values remain `None`.
    pub(crate) fn new(roots: &[u32]) -> Tree {
        let mut tree = Tree { roots: roots.to_vec(), members: Vec::new(), totals: Totals::new(proc::now_ticks()) };
        tree.scan();
        tree.read();
        tree
    }

    /// Replaces the server's root processes; the counters continue. Work that a process did before
    /// counting started is left out; a process that started later counts from its start.
    pub(crate) fn replace(&mut self, roots: &[u32]) {
        self.read();
        self.roots = roots.to_vec();
        self.scan();
    }

    /// Scans for new descendants. Cost: reads every process of the machine.
    pub(crate) fn scan(&mut self) {
        self.members =
            if self.roots.is_empty() { Vec::new() } else { proc::with_descendants(&self.roots, &proc::processes()) };
    }

    /// Reads the known processes. A child that is not yet known counts once a scan has found it or
    /// its parent has waited for it.
    pub(crate) fn read(&mut self) -> Usage {
        let mut memory = Vec::new();
        let mut readings = Vec::new();
        for pid in &self.members {
            let Some(stat) = proc::process_stat(*pid) else { continue };
            readings.push(Reading { pid: *pid, stat, io: proc::process_io(*pid) });
            memory.extend(proc::process_memory(*pid));
        }
        self.totals.advance(readings);
        Usage { cpu_s: self.totals.cpu_s, io: self.totals.io, rss_bytes: resident(&memory) }
    }
}

fn resident(memory: &[ProcessMemory]) -> Option<u64> {
    if memory.is_empty() { None } else { Some(proc::resident_bytes(memory)) }
}

/// Counters of one process at one moment.
#[derive(Clone, Copy)]
struct Reading {
    pid: u32,
    stat: ProcessStat,
    io: Option<ProcessIo>,
}

/// The arithmetic of counting, separate from reading `/proc`.
struct Totals {
    /// Ticks after boot at which counting started.
    since_ticks: u64,
    known: HashMap<Key, Reading>,
    cpu_s: Option<f64>,
    io: Option<ProcessIo>,
}

impl Totals {
    fn new(since_ticks: Option<u64>) -> Totals {
        Totals { since_ticks: since_ticks.unwrap_or(u64::MAX), known: HashMap::new(), cpu_s: None, io: None }
    }

    fn advance(&mut self, readings: Vec<Reading>) {
        let now: HashMap<Key, Reading> =
            readings.into_iter().map(|reading| ((reading.pid, reading.stat.started_ticks), reading)).collect();
        let handed_over: Vec<&Reading> = self.handed_over(&now);
        let cpu_s = self.cpu_growth(&now, &handed_over);
        let io = self.io_growth(&now, &handed_over);
        if !now.is_empty() {
            self.cpu_s = Some(self.cpu_s.unwrap_or(0.0) + cpu_s);
        }
        if let Some(io) = io {
            let before = self.io.unwrap_or_default();
            self.io = Some(ProcessIo {
                read_bytes: before.read_bytes + io.read_bytes,
                written_bytes: before.written_bytes + io.written_bytes,
            });
        }
        self.known = now;
    }

    /// Returns the processes that have ended and whose parent is alive and now includes their
    /// counters.
    fn handed_over(&self, now: &HashMap<Key, Reading>) -> Vec<&Reading> {
        let parents: Vec<u32> = now.values().map(|reading| reading.pid).collect();
        let ended = self
            .known
            .iter()
            .filter(|(key, reading)| !now.contains_key(*key) && parents.contains(&reading.stat.parent));
        ended.map(|(_, reading)| reading).collect()
    }

    /// Counters of a process at the previous reading, or at the start of counting.
    fn before(&self, key: &Key, reading: &Reading) -> (f64, f64, Option<ProcessIo>) {
        match self.known.get(key) {
            Some(known) => (known.stat.cpu_s, known.stat.reaped_cpu_s, known.io),
            None if reading.stat.started_ticks >= self.since_ticks => (0.0, 0.0, Some(ProcessIo::default())),
            None => (reading.stat.cpu_s, reading.stat.reaped_cpu_s, reading.io),
        }
    }

    fn cpu_growth(&self, now: &HashMap<Key, Reading>, handed_over: &[&Reading]) -> f64 {
        let (mut own, mut reaped) = (0.0, 0.0);
        for (key, reading) in now {
            let (own_before, reaped_before, _) = self.before(key, reading);
            own += (reading.stat.cpu_s - own_before).max(0.0);
            reaped += (reading.stat.reaped_cpu_s - reaped_before).max(0.0);
        }
        let counted: f64 = handed_over.iter().map(|ended| ended.stat.cpu_s + ended.stat.reaped_cpu_s).sum();
        own + (reaped - counted).max(0.0)
    }

    fn io_growth(&self, now: &HashMap<Key, Reading>, handed_over: &[&Reading]) -> Option<ProcessIo> {
        let mut seen = false;
        let (mut read, mut written) = (0u64, 0u64);
        for (key, reading) in now {
            let (Some(io), (_, _, Some(before))) = (reading.io, self.before(key, reading)) else { continue };
            seen = true;
            read += io.read_bytes.saturating_sub(before.read_bytes);
            written += io.written_bytes.saturating_sub(before.written_bytes);
        }
        for io in handed_over.iter().filter_map(|ended| ended.io) {
            read = read.saturating_sub(io.read_bytes);
            written = written.saturating_sub(io.written_bytes);
        }
        seen.then_some(ProcessIo { read_bytes: read, written_bytes: written })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: u64 = 1000;

    fn reading(
        pid: u32,
        parent: u32,
        started_ticks: u64,
        cpu_s: f64,
        reaped_cpu_s: f64,
        written_bytes: u64,
    ) -> Reading {
        let stat = ProcessStat { parent, cpu_s, reaped_cpu_s, started_ticks, zombie: false };
        Reading { pid, stat, io: Some(ProcessIo { read_bytes: 0, written_bytes }) }
    }

    fn totals(steps: &[&[Reading]]) -> (f64, u64) {
        let mut totals = Totals::new(Some(BEGIN));
        let (mut cpu_s, mut written) = (0.0, 0);
        for step in steps {
            totals.advance(step.to_vec());
            let (cpu_now, written_now) = (totals.cpu_s.unwrap(), totals.io.unwrap().written_bytes);
            assert!(cpu_now >= cpu_s && written_now >= written, "a counter fell");
            (cpu_s, written) = (cpu_now, written_now);
        }
        ((cpu_s * 1e6).round() / 1e6, written)
    }

    #[test]
    fn work_before_counting_started_does_not_count() {
        assert_eq!(totals(&[&[reading(5, 1, 10, 100.0, 50.0, 7000)]]), (0.0, 0));
        assert_eq!(
            totals(&[&[reading(5, 1, 10, 100.0, 50.0, 7000)], &[reading(5, 1, 10, 101.5, 50.0, 7100)]]),
            (1.5, 100)
        );
    }

    #[test]
    fn a_child_counts_once_before_and_after_it_is_reaped() {
        let steps: &[&[Reading]] = &[
            &[reading(5, 1, 10, 100.0, 0.0, 0)],
            &[reading(5, 1, 10, 100.0, 0.0, 0), reading(6, 5, 1200, 2.0, 0.0, 300)],
            // The child used 0.5 s more and wrote 20 bytes more, then ended; the parent includes
            // all of it.
            &[reading(5, 1, 10, 100.0, 2.5, 320)],
        ];
        assert_eq!(totals(steps), (2.5, 320));
    }

    #[test]
    fn a_child_between_two_readings_counts() {
        assert_eq!(totals(&[&[reading(5, 1, 10, 1.0, 0.0, 0)], &[reading(5, 1, 10, 1.0, 0.7, 9)]]), (0.7, 9));
    }

    #[test]
    fn counters_continue_after_a_kill_and_restart() {
        let steps: &[&[Reading]] = &[
            &[reading(5, 1, 10, 100.0, 0.0, 1000)],
            &[reading(5, 1, 10, 104.0, 0.0, 1500)],
            &[],
            &[reading(9, 1, 2000, 0.5, 0.0, 20)],
            &[reading(9, 1, 2000, 1.0, 0.0, 30)],
        ];
        let mut totals_ = Totals::new(Some(BEGIN));
        steps.iter().for_each(|step| totals_.advance(step.to_vec()));
        assert_eq!((totals_.cpu_s, totals_.io.unwrap().written_bytes), (Some(5.0), 530));
    }

    #[test]
    fn a_reused_pid_is_another_process() {
        let steps: &[&[Reading]] = &[&[reading(5, 1, 10, 9.0, 0.0, 0)], &[reading(5, 1, 3000, 1.0, 0.0, 0)]];
        assert_eq!(totals(steps), (1.0, 0));
    }

    #[test]
    fn another_users_process_has_cpu_but_no_io_bytes() {
        let mut totals = Totals::new(Some(BEGIN));
        for cpu_s in [1.0, 2.0] {
            totals.advance(vec![Reading { io: None, ..reading(5, 1, 10, cpu_s, 0.0, 0) }]);
        }
        assert_eq!((totals.cpu_s, totals.io), (Some(1.0), None));
    }

    #[test]
    fn a_tree_without_processes_has_no_figures() {
        assert_eq!(Tree::new(&[]).read(), Usage::default());
    }

    /// A shell whose child burns CPU and ends; the shell survives and has waited for the child.
    #[test]
    fn real_children_are_counted_after_their_end() {
        let mut shell = std::process::Command::new("sh")
            .args(["-c", "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; echo done; read line"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut tree = Tree::new(&[shell.id()]);
        let mut line = String::new();
        let mut output = std::io::BufReader::new(shell.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut output, &mut line).unwrap();
        assert_eq!(line, "done\n");
        let usage = tree.read();
        assert!(usage.cpu_s.unwrap() > 0.05, "{usage:?}");
        assert!(usage.rss_bytes.unwrap() > 100_000, "{usage:?}");
        drop(shell.stdin.take());
        shell.wait().unwrap();
        let after = tree.read();
        assert_eq!(after.rss_bytes, None);
        assert!(after.cpu_s >= usage.cpu_s);
    }
}
