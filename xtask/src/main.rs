//! The project's own commands: what CI runs is what you run.
//!
//! `cargo xtask` lists them. Each is a module; this file only chooses one. Nothing here links a crate of ours: the
//! commands see sources, `cargo metadata` and processes.

mod bench;
mod catalog;
mod check;
mod fuzz;
mod fuzz_sql;
mod instructions;
mod model;
mod peers;
mod phoebus;
mod postgres;
mod run;
mod scale;
mod sim;
mod test;
mod tidy;
mod tools;

use std::process::ExitCode;

/// The error is a message for the terminal.
type Result<T = ()> = std::result::Result<T, String>;

const USAGE: &str = "\
cargo xtask <command>

  check                          formatting, clippy, tidy, rustdoc, licences: seconds to minutes, run it before a push
  test                           everything CI runs: tidy, all tests below `query`, then the rest with its real clients
  tidy                           the rules of ARCHITECTURE.md, checked from `cargo metadata` and the sources
  tools [--peers]                fetches what the end-to-end tests need (PostgreSQL, psycopg, pgjdbc); with --peers also
                                 the databases that `millrace bench` measures against (docs/manual/benchmark-peers.md)
  tools --phoebus                builds Phoebus's archive readers, for a test that is ignored without them, from a clone:
                                 $MILLRACE_PHOEBUS_SOURCE, a folder or URL
  model [--schedules N]          the threads of `rows` under schedules that a model checker chooses; N of each kind
  sim --minutes N [--seed S]     the engine under random faults, release build; prints its seed, which replays it
  scale [FOLDER]                 what grows with series and segments, at 1/1000 and 1/100 of 100 TB; release build, a
                                 minute and 100 MB (docs/scale.md)
  fuzz [--seconds N] [TARGET]    every fuzz target for N seconds in all (default 60), or one target
  fuzz-sql [--seconds N] [--seed S]  random queries over both stores, PostgreSQL as judge (default 600 seconds, a new
                                 seed); prints seeds and the queries that are answered otherwise
  postgres [SCRIPT…]             PostgreSQL's own regression scripts, each answer compared with PostgreSQL's; keeps a ratchet;
                                 `cargo xtask postgres --help`
  catalog [--save]               compares the data of crate `catalog` with PostgreSQL's, or writes it
  bench-compare A B [options]    paired runs of two builds; `cargo xtask bench-compare --help`
  bench-instructions [NAME]      instructions of the hot kernels under callgrind, as ratios to a stored baseline, which
                                 --save makes anew

The target directory is $CARGO_TARGET_DIR, or ~/.cache/millrace/target when that is not set.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match arguments.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("--help", &[][..]),
    };
    let result = match command {
        "check" => check::run(),
        "test" => test::run(rest),
        "tidy" => tidy::run(),
        "tools" => tools::run(rest),
        "model" => model::run(rest),
        "sim" => sim::run(rest),
        "scale" => scale::run(rest),
        "fuzz" => fuzz::run(rest),
        "fuzz-sql" => fuzz_sql::run(rest),
        "postgres" => postgres::run(rest),
        "catalog" => catalog::run(rest),
        "bench-compare" => bench::run(rest),
        "bench-instructions" => instructions::run(rest),
        "--help" | "-h" | "help" => {
            println!("{USAGE}");
            Ok(())
        }
        other => Err(format!("no command {other:?}\n\n{USAGE}")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask {command}: {message}");
            ExitCode::FAILURE
        }
    }
}
