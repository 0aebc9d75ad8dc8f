//! CPU quotas of processes, by control groups of version 1 or 2.
//!
//! Always true: a group is below the group of this process or below the root of its hierarchy, and is
//! named `millrace-bench-PID-N`. A group that a killed process of this tool left is removed when the
//! next one is created.
//!
//! Source: Linux, `Documentation/scheduler/sched-bwc.rst` and `admin-guide/cgroup-v2.rst`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::{Error, Result};

/// Length of a period. Short, so that a process that has used its quota waits for at most 20 ms.
const PERIOD_US: u64 = 20_000;
/// Smallest quota in processors: the kernel's minimum is 1 ms in each period.
pub(crate) const CPUS_MIN: f64 = 0.05;
/// Largest quota in processors.
pub(crate) const CPUS_MAX: f64 = 1_024.0;
const NAME: &str = "millrace-bench-";
/// The kernel removes the last process of a group a moment after it has ended.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(2);

/// Version of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// Files `cpu.cfs_period_us` and `cpu.cfs_quota_us`.
    One,
    /// File `cpu.max`.
    Two,
}

/// A control group whose processes together have a CPU quota. Dropping it removes the group; its
/// processes must have ended.
pub(crate) struct CpuQuota {
    version: Version,
    group: PathBuf,
}

impl CpuQuota {
    /// Creates a group without a quota and without processes.
    ///
    /// # Errors
    /// No mounted hierarchy lets this process create one; the message names each that was tried.
    pub(crate) fn create() -> Result<CpuQuota> {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        CpuQuota::create_in(&parents(&read("/proc/self/mounts"), &read("/proc/self/cgroup")))
    }

    fn create_in(parents: &[(Version, PathBuf)]) -> Result<CpuQuota> {
        let mut tried = Vec::new();
        for (version, parent) in parents {
            match CpuQuota::create_below(*version, parent) {
                Ok(group) => return Ok(group),
                Err(why) => tried.push(why),
            }
        }
        if tried.is_empty() {
            tried.push("/proc/self/mounts has no cgroup file system with the cpu controller".to_owned());
        }
        Err(Error::setup(format!(
            "a CPU quota needs a control group that this process may create (cpu.cfs_quota_us or cpu.max); tried: {}; \
             run as root, or without a quota",
            tried.join("; ")
        )))
    }

    fn create_below(version: Version, parent: &Path) -> std::result::Result<CpuQuota, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        remove_abandoned(parent);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let group = parent.join(format!("{NAME}{}-{number}", std::process::id()));
        std::fs::create_dir(&group).map_err(|error| format!("{}: {error}", group.display()))?;
        // From here on, dropping it removes the directory.
        let quota = CpuQuota { version, group };
        if version == Version::Two && !quota.group.join("cpu.max").exists() {
            write(&parent.join("cgroup.subtree_control"), "+cpu")?;
        }
        quota.write(None)?;
        Ok(quota)
    }

    /// Limits the processes of the group.
    ///
    /// - `cpus`: processors, [`CPUS_MIN`] ..= [`CPUS_MAX`]; `None` removes the limit.
    ///
    /// # Errors
    /// The kernel refuses it, such as above the quota of the parent group.
    pub(crate) fn set(&self, cpus: Option<f64>) -> Result<()> {
        self.write(cpus).map_err(Error::setup)
    }

    fn write(&self, cpus: Option<f64>) -> std::result::Result<(), String> {
        let quota = cpus.map(|cpus| quota_us(cpus).to_string());
        match self.version {
            Version::One => {
                write(&self.group.join("cpu.cfs_period_us"), &PERIOD_US.to_string())?;
                write(&self.group.join("cpu.cfs_quota_us"), quota.as_deref().unwrap_or("-1"))
            }
            Version::Two => {
                write(&self.group.join("cpu.max"), &format!("{} {PERIOD_US}", quota.as_deref().unwrap_or("max")))
            }
        }
    }

    /// Moves a process into the group, with all its threads.
    ///
    /// # Errors
    /// The process has ended, or the kernel refuses it.
    pub(crate) fn add(&self, pid: u32) -> Result<()> {
        write(&self.group.join("cgroup.procs"), &pid.to_string()).map_err(Error::setup)
    }
}

impl Drop for CpuQuota {
    fn drop(&mut self) {
        let deadline = Instant::now() + REMOVAL_TIMEOUT;
        while std::fs::remove_dir(&self.group).is_err() && self.group.exists() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Microseconds in each period.
fn quota_us(cpus: f64) -> u64 {
    (cpus.clamp(CPUS_MIN, CPUS_MAX) * PERIOD_US as f64).round() as u64
}

fn write(path: &Path, text: &str) -> std::result::Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: writing {text:?}: {error}", path.display()))
}

/// Groups below which a group with a quota may be possible, in the order of attempts: in each hierarchy
/// with the `cpu` controller, the group of this process and then the root.
///
/// - `mounts`: text of `/proc/self/mounts`.
/// - `own`: text of `/proc/self/cgroup`, lines `NUMBER:CONTROLLER,…:PATH`.
fn parents(mounts: &str, own: &str) -> Vec<(Version, PathBuf)> {
    let has = |list: &str, wanted: &str| list.split(',').any(|item| item == wanted);
    let mut parents = Vec::new();
    for line in mounts.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let [_, root, kind, options, ..] = fields[..] else { continue };
        let version = match kind {
            "cgroup" if has(options, "cpu") => Version::One,
            "cgroup2" => Version::Two,
            _ => continue,
        };
        let path = own.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            let is_it = if version == Version::One { has(controllers, "cpu") } else { controllers.is_empty() };
            is_it.then(|| path.trim_matches('/'))
        });
        let root = PathBuf::from(root);
        parents.extend(path.filter(|path| !path.is_empty()).map(|path| (version, root.join(path))));
        parents.push((version, root));
    }
    parents
}

/// Removes the groups of processes of this tool that were killed. The kernel refuses to remove a group
/// with processes.
fn remove_abandoned(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(NAME)?.split('-').next());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_both_versions_are_tried_from_the_own_one_to_the_root() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                      cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n\
                      cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n";
        let own = "3:cpuset:/set\n2:cpu,cpuacct:/jobs/a\n0::/\n";
        let expected = [
            (Version::One, PathBuf::from("/sys/fs/cgroup/cpu,cpuacct/jobs/a")),
            (Version::One, PathBuf::from("/sys/fs/cgroup/cpu,cpuacct")),
            (Version::Two, PathBuf::from("/sys/fs/cgroup/unified")),
        ];
        assert_eq!(parents(mounts, own), expected);
        assert_eq!(parents("proc /proc proc rw 0 0\n", own), []);
    }

    #[test]
    fn quotas_are_shares_of_a_period() {
        assert_eq!([0.05, 0.5, 1.0, 2.5].map(quota_us), [1_000, 10_000, 20_000, 50_000]);
    }

    #[test]
    fn an_error_names_every_place_that_was_tried() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("one"), dir.path().join("two"));
        let error = CpuQuota::create_in(&[(Version::One, one.clone()), (Version::Two, two.clone())]).err().unwrap();
        for place in [one, two] {
            assert!(error.message.contains(&place.display().to_string()), "{error}");
        }
        let none = CpuQuota::create_in(&[]).err().unwrap().message;
        assert!(none.contains("no cgroup file system with the cpu controller"), "{none}");
    }

    /// Where groups can be created, the kernel keeps the quota, and nothing is left; elsewhere the error
    /// says what was tried.
    #[test]
    fn a_quota_holds_for_a_process_and_its_group_is_removed() {
        let quota = match CpuQuota::create() {
            Ok(quota) => quota,
            Err(error) => {
                assert!(error.message.contains("tried: /"), "{error}");
                return;
            }
        };
        let group = quota.group.clone();
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        quota.set(Some(0.5)).unwrap();
        quota.add(child.id()).unwrap();
        let read = |file: &str| std::fs::read_to_string(group.join(file)).unwrap();
        match quota.version {
            Version::One => {
                assert_eq!((read("cpu.cfs_quota_us").trim(), read("cpu.cfs_period_us").trim()), ("10000", "20000"))
            }
            Version::Two => assert_eq!(read("cpu.max").trim(), "10000 20000"),
        }
        assert_eq!(read("cgroup.procs").trim(), child.id().to_string());
        child.kill().unwrap();
        child.wait().unwrap();
        drop(quota);
        assert!(!group.exists(), "{}", group.display());
    }
}
