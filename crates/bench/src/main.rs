//! The stand-alone tool for client machines: the same as `millrace bench`, without the database.

use std::process::ExitCode;

use clap::Parser;

/// Measures time-series databases: the same as `millrace bench`, for machines that only measure.
#[derive(Parser)]
#[command(name = "millrace-bench", version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    arguments: bench::cli::Arguments,
}

fn main() -> ExitCode {
    bench::cli::main(&Cli::parse().arguments)
}
