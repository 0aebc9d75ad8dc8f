//! Memory sizes: parsing and formatting, and the memory of the container or host.

use std::ffi::{c_int, c_long};
use std::fs;
use std::path::Path;

/// Assumed memory of a host that does not report it.
const UNKNOWN_HOST_BYTES: u64 = 4 << 30;

/// Below this budget, huge pages waste more memory than they save time.
const HUGE_PAGES_FROM: u64 = 1 << 30;

/// Disables huge pages for small budgets. A page of 2 MiB is resident as a whole even if a small part of it is
/// used: with 200 unread results that was a quarter of resident memory.
pub(crate) fn keep_pages_small(memory_bytes: u64) {
    if memory_bytes < HUGE_PAGES_FROM {
        // SAFETY: the call takes no pointers; it affects only how memory touched later is backed. On failure
        // nothing changes.
        #[cfg(target_os = "linux")]
        unsafe {
            libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0);
        }
    }
}

/// How long freed memory is kept for reuse, instead of a second. A writer of large batches allocates and frees gigabytes a minute; if they go
/// back to the system, it clears every page anew, which took a twentieth of the server's CPU.
const FREED_KEPT_MS: c_long = 60_000;
/// The option `purge_delay` of mimalloc 3, and its default.
const PURGE_DELAY: c_int = 15;
const PURGE_DELAY_DEFAULT_MS: c_long = 1_000;

unsafe extern "C" {
    fn mi_option_get(option: c_int) -> c_long;
    fn mi_option_set(option: c_int, value: c_long);
}

/// Lets the allocator keep freed memory for a minute, unless the server is small, or `MIMALLOC_PURGE_DELAY` says something else.
pub(crate) fn keep_freed_memory(memory_bytes: u64) {
    // SAFETY: both functions take and return numbers, whose C types these are, and an option may be changed at any time. The test below fails
    // when a release of mimalloc numbers its options otherwise.
    unsafe {
        if memory_bytes >= HUGE_PAGES_FROM && mi_option_get(PURGE_DELAY) == PURGE_DELAY_DEFAULT_MS {
            mi_option_set(PURGE_DELAY, FREED_KEPT_MS);
        }
    }
}

/// Parses `512MiB`, `2GiB`, `1.5GB`, `1048576`: binary units are powers of 1024, decimal ones of 1000.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let wrong = || format!("{text:?} is no size; write it like 512MiB, 2GiB or 1GB");
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let bytes = number * unit_bytes(unit.trim()).ok_or_else(wrong)?;
    if bytes < u64::MAX as f64 { Ok(bytes as u64) } else { Err(wrong()) }
}

fn unit_bytes(unit: &str) -> Option<f64> {
    let (binary, decimal) = (1024_f64, 1000_f64);
    Some(match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kib" => binary,
        "m" | "mib" => binary.powi(2),
        "g" | "gib" => binary.powi(3),
        "t" | "tib" => binary.powi(4),
        "kb" => decimal,
        "mb" => decimal.powi(2),
        "gb" => decimal.powi(3),
        "tb" => decimal.powi(4),
        _ => return None,
    })
}

/// A size in bytes as `1.5 GiB`.
pub(crate) fn show(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return if unit == "B" { format!("{bytes} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

/// Digits in groups of three: `1,048,576`.
pub(crate) fn group(value: u64) -> String {
    let digits = value.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `1 row`, `2,500 rows`.
pub(crate) fn count(number: u64, thing: &str) -> String {
    format!("{} {thing}{}", group(number), if number == 1 { "" } else { "s" })
}

/// Half of the memory of the container or host.
pub(crate) fn default_memory() -> u64 {
    machine_memory().unwrap_or(UNKNOWN_HOST_BYTES) / 2
}

/// Memory of the container or host in bytes, if known.
pub(crate) fn machine_memory() -> Option<u64> {
    let host = host_bytes();
    container_bytes().into_iter().chain(host).min()
}

fn host_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The lowest limit of the cgroup and its parents, version 2 or 1.
fn container_bytes() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let limits = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let (base, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => return None,
        };
        tightest(Path::new(base), path, file)
    });
    limits.min()
}

fn tightest(base: &Path, path: &str, file: &str) -> Option<u64> {
    let inside = base.join(path.trim_start_matches('/'));
    let folders = inside.ancestors().take_while(|folder| folder.starts_with(base));
    folders.filter_map(|folder| fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if a release of mimalloc has other numbers or defaults.
    #[test]
    fn freed_memory_is_kept_unless_the_server_is_small() {
        let mut expected = PURGE_DELAY_DEFAULT_MS;
        for memory in [HUGE_PAGES_FROM - 1, HUGE_PAGES_FROM] {
            keep_freed_memory(memory);
            // SAFETY: the call takes and returns a number.
            assert_eq!(unsafe { mi_option_get(PURGE_DELAY) }, expected);
            expected = FREED_KEPT_MS;
        }
    }

    #[test]
    fn sizes_are_parsed_with_units() {
        let good = [("512MiB", 512 << 20), ("2 GiB", 2 << 30), ("1GB", 1_000_000_000), ("1.5k", 1536), ("7", 7)];
        for (text, bytes) in good {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in ["", "MiB", "1 parsec", "-1", "1e400GiB", "99999999999TiB"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        for (value, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (12_345_678, "12,345,678")] {
            assert_eq!(group(value), text);
        }
    }

    #[test]
    fn the_default_is_more_than_nothing_and_less_than_the_host() {
        assert!(default_memory() > 16 << 20);
        assert!(default_memory() <= host_bytes().unwrap_or(u64::MAX) / 2);
    }
}
