//! The program `millrace-bench`, which `millrace bench` runs.

use std::process::ExitCode;

use clap::Parser;

/// Measures time-series databases, Millrace and others, and verifies their answers.
#[derive(Parser)]
#[command(name = "millrace-bench", version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    arguments: bench::cli::Arguments,
}

fn main() -> ExitCode {
    bench::cli::main(&Cli::parse().arguments)
}
