//! `bench-compare`: whether B is faster than A. Paired runs, ratios with their confidence interval.
//!
//! A figure from one run on a shared machine says little. Runs alternate A B B A …, each with a fresh directory,
//! and ratios are taken within pairs, so that slow phases of the machine cancel out. Server CPU per unit of work is
//! read from the kernel after the server's exit, so that deferred flushes and compactions count too.

mod http;
mod server;
mod statistics;
mod workload;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::run::{nothing_left, output, passes, root, take_number, target_dir};
use statistics::Ratio;
use workload::{Figures, Size};

const USAGE: &str = "\
cargo xtask bench-compare A B [--pairs N] [--requests N] [--connections N] [--queries N]

A and B are each a `millrace` binary, or a git revision, which is built (release) in a work tree of its own.
Each run: line protocol at `sync` durability, 10 fields a row, 1,000 rows a request, then single-series and grouped
selects over HTTP, then SIGTERM; the time until exit counts as server CPU.

  --pairs N         pairs of runs (default 5; the interval needs at least 3)
  --requests N      requests of 1,000 rows in a run (default 1000, which is 10 million points)
  --connections N   writing connections (default 8)
  --queries N       selects in a run (default 200)

Example: cargo xtask bench-compare HEAD~1 HEAD --pairs 7";

/// Compares and prints one line for each figure.
pub(crate) fn run(arguments: &[String]) -> Result {
    let mut arguments = arguments.to_vec();
    if arguments.is_empty() || arguments.iter().any(|argument| argument == "--help") {
        println!("{USAGE}");
        return Ok(());
    }
    let pairs = take_number(&mut arguments, "--pairs")?.unwrap_or(5).max(1);
    let size = Size {
        requests: take_number(&mut arguments, "--requests")?.unwrap_or(1_000).max(1),
        connections: take_number(&mut arguments, "--connections")?.unwrap_or(8).max(1),
        queries: take_number(&mut arguments, "--queries")?.unwrap_or(200).max(2),
    };
    if arguments.len() < 2 {
        return Err(format!("needs two binaries or revisions\n\n{USAGE}"));
    }
    let (a, b) = (arguments.remove(0), arguments.remove(0));
    nothing_left(&arguments)?;
    let binaries = [binary(&a)?, binary(&b)?];
    println!("A is {a}: {}\nB is {b}: {}", binaries[0].display(), binaries[1].display());
    report(&paired_runs(&binaries, pairs, size)?);
    Ok(())
}

/// Runs A B, then B A, then A B …, so that drift of the machine favours neither.
fn paired_runs(binaries: &[PathBuf; 2], pairs: u64, size: Size) -> Result<Vec<[Figures; 2]>> {
    let mut done = Vec::new();
    for pair in 0..pairs {
        let first = (pair % 2) as usize;
        let earlier = workload::run(&binaries[first], size)?;
        let later = workload::run(&binaries[1 - first], size)?;
        let figures = if first == 0 { [earlier, later] } else { [later, earlier] };
        println!("pair {}: A {}\n        B {}", pair + 1, figures[0], figures[1]);
        done.push(figures);
    }
    Ok(done)
}

fn report(pairs: &[[Figures; 2]]) {
    println!("\nB / A, mean of {} pairs with its 95 % interval", pairs.len());
    for (name, better, figure) in Figures::ALL {
        let ratios: Vec<f64> = pairs.iter().map(|[a, b]| figure(b) / figure(a)).collect();
        println!("  {name:<34} {}   ({better} is better)", Ratio::of(&ratios));
    }
}

/// The binary `what`: a file, or a revision, which is built.
fn binary(what: &str) -> Result<PathBuf> {
    let path = Path::new(what);
    if path.is_file() {
        return path.canonicalize().map_err(|error| format!("{what}: {error}"));
    }
    let mut parse = Command::new("git");
    parse.args(["rev-parse", "--verify", "--quiet"]).arg(format!("{what}^{{commit}}")).current_dir(root());
    let commit = output(&mut parse).map_err(|_| format!("{what:?} is neither a file nor a git revision"))?;
    build(commit.trim())
}

/// Builds a commit once; the binary is cached under its hash.
fn build(commit: &str) -> Result<PathBuf> {
    let folder = target_dir().join("bench-compare");
    let kept = folder.join(format!("millrace-{commit}"));
    if kept.is_file() {
        return Ok(kept);
    }
    let tree = folder.join("tree");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    if tree.exists() {
        passes(Command::new("git").args(["worktree", "remove", "--force"]).arg(&tree).current_dir(root()))?;
    }
    passes(
        Command::new("git").args(["worktree", "add", "--quiet", "--detach"]).arg(&tree).arg(commit).current_dir(root()),
    )?;
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--locked", "--quiet", "--package", "millrace"]);
    passes(cargo.current_dir(&tree).env("CARGO_TARGET_DIR", target_dir()))?;
    std::fs::copy(target_dir().join("release/millrace"), &kept)
        .map_err(|error| format!("{}: {error}", kept.display()))?;
    passes(Command::new("git").args(["worktree", "remove", "--force"]).arg(&tree).current_dir(root()))?;
    Ok(kept)
}
