//! Starting, watching and ending processes.
//!
//! Each process gets its own process group, so that Ctrl-C at the terminal ends the benchmark and
//! not the server. The kernel kills it when this process ends, even by SIGKILL.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use super::network::Network;
use super::products::Launch;
use super::{Error, Result};

/// Maximum lines of a log in an error message.
const TAIL_LINES: usize = 15;
/// Soft limit on open files of a server, where permitted: the number that QuestDB recommends, and
/// the kernel's default maximum (`fs.nr_open`).
const OPEN_FILES: libc::rlim_t = 1 << 20;
const TAIL_BYTES: u64 = 32 << 10;

/// A child process and its log.
pub(super) struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
    /// Length of the log when this process started: earlier text belongs to previous processes.
    log_start: u64,
}

impl Process {
    /// Starts the process with stdout and stderr appended to `logs/NAME.log`.
    pub(super) fn start(
        launch: &Launch,
        logs: &Path,
        network: Option<&Network>,
    ) -> std::result::Result<Process, String> {
        let log = logs.join(format!("{}.log", launch.name));
        let context = |error: std::io::Error| format!("{}: {error}", log.display());
        let output = OpenOptions::new().create(true).append(true).open(&log).map_err(context)?;
        let log_start = output.metadata().map_err(context)?.len();
        let mut command = launch.command();
        command.stdin(Stdio::null()).stdout(output.try_clone().map_err(context)?).stderr(output);
        detach(&mut command, network.cloned());
        let program = command.get_program().to_string_lossy().into_owned();
        let child = spawn(command).map_err(|error| format!("cannot start {program}: {error}"))?;
        Ok(Process { name: launch.name, child, log, log_start })
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the exit status if the process has ended.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().map_err(|error| Error::setup(format!("waiting for {}: {error}", self.name)))
    }

    pub(super) fn signal(&mut self, signal: libc::c_int) {
        // Never signal a reaped process: its pid may have been reused.
        if matches!(self.ended(), Ok(None)) {
            send(self.pid(), signal);
        }
    }

    /// Waits until the process ends; returns false if it is alive at `deadline`.
    pub(super) fn wait_until(&mut self, deadline: Instant) -> bool {
        loop {
            match self.ended() {
                Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(10)),
                Ok(None) => return false,
                Ok(Some(_)) | Err(_) => return true,
            }
        }
    }

    /// Returns the path of the log and its last lines.
    pub(super) fn tail(&self) -> String {
        let text = read_tail(&self.log, self.log_start).unwrap_or_else(|error| format!("(cannot be read: {error})"));
        // Leave out the stack frames of Java exceptions: their messages say more.
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("at ")).collect();
        let end = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n");
        format!("the end of {}:\n{end}", self.log.display())
    }
}

fn read_tail(log: &Path, start: u64) -> std::io::Result<String> {
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(start.max(length.saturating_sub(TAIL_BYTES))))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Prepares `command` to run in its own process group, to die with this process, with the open-file
/// limit raised, and in the given network namespace.
fn detach(command: &mut Command, network: Option<Network>) {
    let parent = std::process::id() as libc::pid_t;
    let prepare = move || {
        if network.as_ref().is_some_and(|network| network.enter_raw() != 0) {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: plain system calls on numbers and on a struct of this stack frame.
        unsafe {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            // The parent may have died before the prctl call.
            if libc::getppid() != parent {
                return Err(std::io::Error::from_raw_os_error(libc::ESRCH));
            }
            // Databases hold a file open for each column or segment; the usual soft limit of 1024
            // exists for programs that use select(2). Only root may exceed the hard limit;
            // otherwise raise the soft limit up to it.
            let raised = libc::rlimit { rlim_cur: OPEN_FILES, rlim_max: OPEN_FILES };
            let mut files = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            if libc::getrlimit(libc::RLIMIT_NOFILE, &mut files) == 0
                && (files.rlim_max >= OPEN_FILES || libc::setrlimit(libc::RLIMIT_NOFILE, &raised) != 0)
            {
                files.rlim_cur = files.rlim_max;
                libc::setrlimit(libc::RLIMIT_NOFILE, &files);
            }
        }
        Ok(())
    };
    command.process_group(0);
    // SAFETY: the closure makes system calls only; it neither allocates nor takes a lock.
    unsafe { command.pre_exec(prepare) };
}

/// Starts the process from a thread that lives as long as this process: for PR_SET_PDEATHSIG,
/// "parent" is the thread that called fork, not its process.
fn spawn(command: Command) -> std::io::Result<Child> {
    type Job = (Command, Sender<std::io::Result<Child>>);
    static SPAWNER: OnceLock<Option<Sender<Job>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (jobs, queue) = channel::<Job>();
        let work = move || {
            for (mut command, reply) in queue {
                // The caller waits for the reply. If it is gone, nothing reaps the child, and the
                // kernel kills it with this process.
                let _ = reply.send(command.spawn());
            }
        };
        std::thread::Builder::new().name("peers-spawner".to_owned()).spawn(work).ok().map(|_| jobs)
    });
    let gone = || std::io::Error::other("the thread that starts processes is gone");
    let (reply, answer) = channel();
    spawner.as_ref().ok_or_else(gone)?.send((command, reply)).map_err(|_| gone())?;
    answer.recv().map_err(|_| gone())?
}

/// Kills the processes, all their descendants and `others`, and waits until none is left.
pub(super) fn kill_all(processes: &mut [Process], others: &[u32]) -> std::result::Result<(), String> {
    let roots: Vec<u32> =
        processes.iter_mut().filter_map(|p| matches!(p.ended(), Ok(None)).then_some(p.pid())).collect();
    // Kill roots first, so that they cannot start new children; `all` is in that order.
    let mut all = processes_of(&roots);
    all.extend(others);
    for pid in &all {
        send(*pid, libc::SIGKILL);
    }
    let deadline = Instant::now() + Duration::from_secs(10);
    let ended = processes.iter_mut().all(|process| process.wait_until(deadline));
    if ended && gone_by(&all, deadline) { Ok(()) } else { Err("processes are left 10 s after SIGKILL".to_owned()) }
}

/// Waits until all these processes are gone; returns false if one is alive at `deadline`. Zombies
/// count as gone.
pub(super) fn gone_by(pids: &[u32], deadline: Instant) -> bool {
    loop {
        if pids.iter().all(|pid| state(*pid).is_none_or(|(_, state)| state == 'Z')) {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn send(pid: u32, signal: libc::c_int) {
    // SAFETY: no pointers. It is no error if the process has ended in the meantime.
    unsafe { libc::kill(pid as libc::pid_t, signal) };
}

/// Returns the live processes of `roots` and all their descendants, parents before children.
pub fn processes_of(roots: &[u32]) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().filter_map(|entry| {
        let pid = entry.ok()?.file_name().to_str()?.parse::<u32>().ok()?;
        let (parent, state) = state(pid)?;
        (state != 'Z').then_some((pid, parent))
    });
    let processes: Vec<(u32, u32)> = processes.collect();
    let mut found: Vec<u32> =
        roots.iter().copied().filter(|root| processes.iter().any(|(pid, _)| pid == root)).collect();
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        let children = processes.iter().filter(|(pid, of)| *of == parent && !found.contains(pid));
        let children: Vec<u32> = children.map(|(pid, _)| *pid).collect();
        found.extend(children);
        next += 1;
    }
    found
}

/// Parses parent and state letter from `/proc/PID/stat`: `PID (NAME) STATE PARENT …`, where NAME
/// may contain any character.
fn state(pid: u32) -> Option<(u32, char)> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&text);
    let mut fields = text[text.rfind(')')? + 1..].split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((fields.next()?.parse().ok()?, state))
}
