//! `fuzz`: fuzzes every decoder of bytes from outside.

use std::path::PathBuf;
use std::process::Command;

use crate::Result;
use crate::run::{nothing_left, output, root, show, take_number, target_dir};

const USAGE: &str = "\
cargo xtask fuzz [--seconds N] [TARGET]

Runs every fuzz target one after the other, N seconds in all (default 60) and at least 2 each, or TARGET alone for N
seconds. Stops at the first input that crashes a target, takes it 10 seconds or takes 4 GiB, and says where it is kept. What
was found to be of interest is kept in fuzz/corpus, and the next run starts from it and from fuzz/seeds, which are small inputs
that a decoder of a complex format would take long to find. Needs a nightly toolchain and cargo-fuzz.

Targets: the files of fuzz/fuzz_targets, each of which says what it feeds and what must hold.";

/// Runs all targets for `--seconds` in total (at least 2 each), or the named target for all of it.
pub(crate) fn run(arguments: &[String]) -> Result {
    let mut arguments = arguments.to_vec();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        println!("{USAGE}");
        return Ok(());
    }
    let seconds = take_number(&mut arguments, "--seconds")?.unwrap_or(60);
    let wanted = if arguments.is_empty() { None } else { Some(arguments.remove(0)) };
    nothing_left(&arguments)?;
    needs()?;
    let mut targets = list()?;
    if let Some(wanted) = wanted {
        if !targets.contains(&wanted) {
            return Err(format!("no fuzz target {wanted:?}; there are {}", targets.join(", ")));
        }
        targets = vec![wanted];
    }
    let each = (seconds / targets.len().max(1) as u64).max(2);
    for target in &targets {
        let log = logged(
            cargo_fuzz(&["run", target])
                .args(corpus(target)?)
                .args(["--", "-rss_limit_mb=4096", "-timeout=10"])
                .arg(format!("-max_total_time={each}")),
        )
        .map_err(|error| format!("{error}\nThe input that did it is in fuzz/artifacts/{target}/"))?;
        let done = log.lines().find(|line| line.starts_with("Done ")).unwrap_or("done");
        println!("fuzz: {target}: {done}");
    }
    println!("fuzz: {} targets, {each} s each, no crash", targets.len());
    Ok(())
}

/// Folders of inputs of a target: the first, which new inputs are added to, and its seeds, if it has any.
fn corpus(target: &str) -> Result<Vec<PathBuf>> {
    let folder = root().join("fuzz");
    let corpus = folder.join("corpus").join(target);
    std::fs::create_dir_all(&corpus).map_err(|error| format!("cannot make {}: {error}", corpus.display()))?;
    let seeds = folder.join("seeds").join(target);
    let has_seeds = seeds.is_dir();
    Ok([corpus].into_iter().chain(has_seeds.then_some(seeds)).collect())
}

/// Runs a fuzzer; returns its log, which is only needed after a failure.
fn logged(command: &mut Command) -> Result<String> {
    let output = command.output().map_err(|error| format!("cannot start `{}`: {error}", show(command)))?;
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() {
        Ok(log)
    } else {
        Err(format!("{log}\n`{}` ended with {}", show(command), output.status))
    }
}

fn list() -> Result<Vec<String>> {
    Ok(output(&mut cargo_fuzz(&["list"]))?.lines().map(str::to_owned).collect())
}

/// The fuzzer needs a nightly compiler; overrides the workspace's toolchain for it alone.
fn cargo_fuzz(arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    let (subcommand, rest) = arguments.split_at(1);
    command.arg("+nightly").arg("fuzz").args(subcommand).args(["--fuzz-dir", "fuzz"]).args(rest);
    // Set by `cargo xtask`, and would take precedence over `+nightly`.
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    command.current_dir(root()).env("CARGO_TARGET_DIR", target_dir().join("fuzz"));
    command
}

fn needs() -> Result {
    let missing = |what: &str| format!("{what} is missing");
    output(Command::new("cargo").args(["+nightly", "--version"]).env_remove("RUSTUP_TOOLCHAIN"))
        .map_err(|_| missing("a nightly toolchain") + ": rustup toolchain install nightly --profile minimal")?;
    output(&mut cargo_fuzz(&["list"]))
        .map_err(|error| format!("{}: cargo install --locked cargo-fuzz\n({error})", missing("cargo-fuzz")))?;
    Ok(())
}
