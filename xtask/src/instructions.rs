//! `bench-instructions`: detects kernels that execute more instructions than before.
//!
//! Callgrind counts the instructions of each kernel, independently of the load of the machine; the ratio to a
//! stored baseline is reported. Counts say nothing about caches, branches or the disk: `bench-compare` measures
//! time. The kernels are examples of their crates (with `counted.rs`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::run::{cargo, in_path, nothing_left, output, passes, root, target_dir};

const USAGE: &str = "\
cargo xtask bench-instructions [--save] [NAME]

Builds the kernels of `columns`, `ingest` and `wal` (release), runs each once under callgrind, and prints instructions a
value, those of the baseline, and the ratio. A ratio over 1.03 is marked, and the command fails. Counts depend on the
compiler and on the features of callgrind's processor: if these differ from the baseline's, ratios are shown but nothing
fails.

  NAME      only kernels whose names contain it
  --save    saves the counts as the baseline, xtask/baselines/instructions.txt (all kernels)

Needs valgrind.";

/// Package and example program.
const PROGRAMS: [(&str, &str); 3] =
    [("columns", "columns_kernels"), ("ingest", "ingest_kernels"), ("wal", "wal_kernels")];
/// A kernel fails above this ratio to the baseline. Two runs of one build differ by 1 % where maps are seeded at
/// random, else by less than 0.1 %.
const RATIO_MAX: f64 = 1.03;
/// Instructions per value.
type Counts = BTreeMap<String, f64>;

/// Counts of kernels, and the processor they are for.
#[derive(Debug, Default, PartialEq)]
struct Counted {
    rustc: String,
    cpu: String,
    kernels: Counts,
}

/// Counts, compares, and saves a new baseline if requested.
pub(crate) fn run(arguments: &[String]) -> Result {
    let mut arguments = arguments.to_vec();
    if arguments.iter().any(|argument| argument == "--help") {
        println!("{USAGE}");
        return Ok(());
    }
    let save = arguments.iter().position(|argument| argument == "--save").map(|at| arguments.remove(at)).is_some();
    let wanted = if arguments.is_empty() { String::new() } else { arguments.remove(0) };
    nothing_left(&arguments)?;
    if save && !wanted.is_empty() {
        return Err("a baseline has all kernels: --save goes without NAME".into());
    }
    if !in_path("valgrind") {
        return Err("valgrind is not installed (on Debian: apt-get install valgrind)".into());
    }
    let now = count(&wanted)?;
    let baseline = read_baseline()?;
    let worse = report(&now, &baseline);
    if save {
        let path = baseline_path();
        std::fs::write(&path, now.to_text()).map_err(|error| format!("{}: {error}", path.display()))?;
        println!("saved {} kernels in {}", now.kernels.len(), path.display());
        return Ok(());
    }
    match worse {
        0 => Ok(()),
        worse => Err(format!("{worse} kernels take over {RATIO_MAX} times the instructions of the baseline")),
    }
}

fn baseline_path() -> PathBuf {
    root().join("xtask/baselines/instructions.txt")
}

/// Empty if there is no file yet.
fn read_baseline() -> Result<Counted> {
    let path = baseline_path();
    match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Counted::default()),
        Err(error) => Err(format!("{}: {error}", path.display())),
        Ok(text) => Counted::from_text(&text).map_err(|error| format!("{}: {error}", path.display())),
    }
}

fn count(wanted: &str) -> Result<Counted> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let rustc = output(Command::new(rustc).arg("--version").current_dir(root()))?.trim().to_owned();
    let mut counted = Counted { rustc, ..Counted::default() };
    for (package, example) in PROGRAMS {
        passes(&mut cargo(&["build", "--release", "--locked", "--quiet", "--package", package, "--example", example]))?;
        count_program(package, example, wanted, &mut counted)?;
    }
    Ok(counted)
}

fn count_program(package: &str, example: &str, wanted: &str, counted: &mut Counted) -> Result {
    let folder = std::env::temp_dir().join(format!("millrace-instructions-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let dumps = folder.join(example);
    let mut command = Command::new("valgrind");
    // The full name: callgrind uses only one of several patterns.
    let function = format!("{example}::counted::counted_kernel");
    command.args(["--tool=callgrind", "--quiet"]);
    command.args([format!("--toggle-collect={function}"), format!("--dump-after={function}")]);
    command.arg(format!("--callgrind-out-file={}", dumps.display()));
    command.arg(target_dir().join("release/examples").join(example)).arg(wanted);
    let printed = output(&mut command);
    let counts = printed.and_then(|printed| add_counts(&printed, package, &dumps, counted));
    // Best effort: a leftover is small and lies in the folder for temporary files.
    let _ = std::fs::remove_dir_all(&folder);
    counts
}

/// Assigns the nth dumped count to the nth printed kernel.
fn add_counts(printed: &str, package: &str, dumps: &Path, counted: &mut Counted) -> Result {
    let mut number = 0;
    for line in printed.lines() {
        let (name, value) = line.split_once('\t').ok_or_else(|| format!("the kernels of {package} print {line:?}"))?;
        if name == "cpu" {
            counted.cpu = value.to_owned();
            continue;
        }
        number += 1;
        let path = PathBuf::from(format!("{}.{number}", dumps.display()));
        let dump = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let total = total(&dump).ok_or_else(|| format!("{} has no count", path.display()))?;
        let values: f64 = value.parse().map_err(|_| format!("kernel {name:?} works on {value:?} values"))?;
        counted.kernels.insert(format!("{package}: {name}"), total / values);
    }
    Ok(())
}

/// Total instructions in a callgrind dump.
fn total(dump: &str) -> Option<f64> {
    dump.lines().find_map(|line| line.strip_prefix("totals: ")).and_then(|count| count.trim().parse().ok())
}

/// Prints the table; returns the number of kernels above the limit.
fn report(now: &Counted, baseline: &Counted) -> usize {
    let comparable = now.rustc == baseline.rustc && now.cpu == baseline.cpu;
    println!("{}, callgrind's processor {}", now.rustc, now.cpu);
    if !comparable && !baseline.kernels.is_empty() {
        println!("the baseline is of {}, processor {}: nothing fails", baseline.rustc, baseline.cpu);
    }
    println!("{:<72} {:>12} {:>12} {:>7}", "instructions a value", "now", "baseline", "ratio");
    let mut worse = 0;
    for (name, count) in &now.kernels {
        let Some(before) = baseline.kernels.get(name) else {
            println!("{name:<72} {count:>12.3} {:>12} {:>7}", "new", "");
            continue;
        };
        let ratio = count / before;
        let mark = if ratio > RATIO_MAX { "  MORE" } else { "" };
        worse += usize::from(comparable && ratio > RATIO_MAX);
        println!("{name:<72} {count:>12.3} {before:>12.3} {ratio:>7.3}{mark}");
    }
    worse
}

impl Counted {
    /// Sorted, one kernel a line, for readable diffs of the baseline.
    fn to_text(&self) -> String {
        let mut text = String::from("# Instructions a value: cargo xtask bench-instructions --save\n");
        text.push_str(&format!("rustc\t{}\ncpu\t{}\n", self.rustc, self.cpu));
        for (name, count) in &self.kernels {
            text.push_str(&format!("{name}\t{count:.3}\n"));
        }
        text
    }

    fn from_text(text: &str) -> Result<Counted> {
        let mut counted = Counted::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            match line
                .split_once('\t')
                .ok_or_else(|| format!("invalid line {line:?}: expected a kernel and its count"))?
            {
                ("rustc", rustc) => counted.rustc = rustc.to_owned(),
                ("cpu", cpu) => counted.cpu = cpu.to_owned(),
                (name, count) => {
                    let count = count.parse().map_err(|_| format!("invalid count {count:?}"))?;
                    counted.kernels.insert(name.to_owned(), count);
                }
            }
        }
        Ok(counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(rustc: &str, kernels: &[(&str, f64)]) -> Counted {
        let kernels = kernels.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        Counted { rustc: rustc.into(), cpu: "x86_64 avx2".into(), kernels }
    }

    #[test]
    fn a_baseline_is_read_as_it_was_saved_and_damage_is_named() {
        let saved = counted("rustc 1", &[("wal: append", 12.125), ("columns: encode a, b", 0.5)]);
        assert_eq!(Counted::from_text(&saved.to_text()).as_ref(), Ok(&saved));
        assert_eq!(
            Counted::from_text("wal: append").unwrap_err(),
            "invalid line \"wal: append\": expected a kernel and its count"
        );
        assert_eq!(Counted::from_text("wal: append\tmany").unwrap_err(), "invalid count \"many\"");
    }

    #[test]
    fn only_growth_above_the_limit_with_the_same_compiler_fails() {
        let baseline = counted("rustc 1", &[("a", 100.0), ("b", 100.0)]);
        assert_eq!(report(&counted("rustc 1", &[("a", 102.9), ("b", 50.0), ("new", 9.0)]), &baseline), 0);
        assert_eq!(report(&counted("rustc 1", &[("a", 103.1), ("b", 110.0)]), &baseline), 2);
        assert_eq!(report(&counted("rustc 2", &[("a", 200.0)]), &baseline), 0);
    }

    #[test]
    fn a_dump_has_one_total() {
        assert_eq!(total("version: 1\nsummary: 7\n\nfn=(1) x\n1 7\n\ntotals: 4711\n"), Some(4711.0));
        assert_eq!(total("version: 1\n"), None);
    }
}
