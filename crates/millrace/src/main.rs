//! The `millrace` binary: one program for the server, its clients and its tools.
//!
//! Each command is a module with one `run`; this file parses the command line, chooses, and turns an error into text on
//! stderr and an exit code: 0 done, 1 failed, 2 not begun (command line or configuration wrong, server out of reach).

mod config;
mod connect;
mod demo;
mod embedded;
mod failure;
mod inspect;
mod logging;
mod serve;
mod size;
mod sql;
mod table;
mod write;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use config::{Given, Shared};
use failure::Failure;

/// Allocation is on every hot path and the system's allocator returns memory late; the budget is kept with this one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Version, commit with its date where the build knew it, and profile.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("MILLRACE_BUILD"), ")");

/// A database for what machines say and do: time series, events, and the transactions around them.
#[derive(Parser)]
#[command(name = "millrace", version = VERSION, max_term_width = 100, subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  millrace demo                                    load real data, ask it questions, see the answers
  millrace serve                                   serve ./millrace-data on this machine
  millrace sql -c \"SELECT count(*) FROM weather\"   ask a running server
  millrace write --file data.csv --table t --create --key device

Every shared flag has an environment variable (MILLRACE_DATA, …) and a key in the file of --config.
What is stated last in this list wins: default, file, environment, flag.")]
struct Cli {
    #[command(flatten)]
    shared: Shared,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Arguments),
    Serve(serve::Arguments),
    Sql(sql::Arguments),
    Write(write::Arguments),
    Bench(bench::cli::Arguments),
    Inspect(inspect::InspectArguments),
    Check(inspect::CheckArguments),
    Version(VersionArguments),
    Completions(CompletionArguments),
}

/// Prints version and build.
#[derive(clap::Args)]
#[command(after_help = "Example: millrace version")]
struct VersionArguments {}

/// Prints a completion script for a shell.
#[derive(clap::Args)]
#[command(after_help = "Example: millrace completions bash > /etc/bash_completion.d/millrace")]
struct CompletionArguments {
    /// Which shell.
    shell: clap_complete::Shell,
}

fn main() -> ExitCode {
    let matches = Cli::command().get_matches();
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    // A benchmark's exit code says more than done or not.
    if let Command::Bench(arguments) = &cli.command {
        return bench::cli::main(arguments);
    }
    match run(cli, &matches) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print();
            ExitCode::from(failure.code())
        }
    }
}

fn run(cli: Cli, matches: &clap::ArgMatches) -> Result<(), Failure> {
    let given = Given::new(cli.shared, matches)?;
    match cli.command {
        Command::Demo(arguments) => demo::run(&given, &arguments),
        Command::Serve(_) => serve::run(&given),
        Command::Sql(arguments) => sql::run(&given, &arguments),
        Command::Write(arguments) => write::run(&given, &arguments),
        Command::Bench(_) => Ok(()),
        Command::Inspect(arguments) => inspect::run(&given, &arguments),
        Command::Check(_) => inspect::check(&given),
        Command::Version(_) => {
            println!("millrace {VERSION}");
            Ok(())
        }
        Command::Completions(arguments) => {
            clap_complete::generate(arguments.shell, &mut Cli::command(), "millrace", &mut std::io::stdout());
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent_and_every_command_shows_an_example() {
        let mut command = Cli::command();
        command.build();
        command.clone().debug_assert();
        for sub in command.get_subcommands_mut().filter(|sub| sub.get_name() != "help") {
            let help = sub.render_long_help().to_string();
            assert!(help.contains("Example"), "`{} --help` shows no example", sub.get_name());
        }
    }
}
