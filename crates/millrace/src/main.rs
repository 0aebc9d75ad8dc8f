//! The `millrace` binary: server, clients and tools in one program, but for the benchmark tool.
//!
//! Each command is a module with a function `run`. This file parses the command line, dispatches, and turns an
//! error into a message on stderr and an exit code: 0 success, 1 failure, 2 not started (invalid command line or
//! configuration, server unreachable).

mod archive;
mod bench;
mod config;
mod connect;
mod demo;
mod embedded;
mod failure;
mod front_end;
mod http;
mod inspect;
mod logging;
mod serve;
mod signals;
mod size;
mod sql;
mod stdio;
mod table;
mod write;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use config::{Given, Shared};
use failure::Failure;

/// Allocation is on every hot path, and the system's allocator returns memory late; the memory budget is calibrated
/// with this one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Version, commit and its date if known at build time, and profile.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("MILLRACE_BUILD"), ")");

/// A database for what machines say and do: time series, events, and the transactions around them.
#[derive(Parser)]
#[command(name = "millrace", version = VERSION, max_term_width = 100, subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  millrace demo                                    load real data and run example queries
  millrace serve                                   serve ./millrace-data on this machine
  millrace sql -c \"SELECT count(*) FROM weather\"   query a running server
  millrace write --file data.csv --table t --create --key device

Every shared flag has an environment variable (MILLRACE_DATA, …) and a key in the file of --config.
Each of these overrides those before it: default, file, environment, flag.")]
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
    Tsm(front_end::Arguments),
    Sql(sql::Arguments),
    Write(write::Arguments),
    Archive(archive::Arguments),
    Bench(bench::Arguments),
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
    /// The shell.
    shell: clap_complete::Shell,
}

fn main() -> ExitCode {
    let matches = Cli::command().get_matches();
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    match run(cli, &matches) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print();
            ExitCode::from(failure.code())
        }
    }
}

fn print(bytes: &[u8]) -> Result<(), Failure> {
    stdio::piped(bytes).map_err(|error| Failure::new(format!("cannot write to standard output: {error}")))
}

/// Environment variables with our prefix that are no settings; most likely misspelt.
fn unknown_variables(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut cli = Cli::command();
    cli.build();
    let commands: Vec<&clap::Command> = std::iter::once(&cli).chain(cli.get_subcommands()).collect();
    let known: Vec<&std::ffi::OsStr> =
        commands.iter().flat_map(|command| command.get_arguments()).filter_map(clap::Arg::get_env).collect();
    let is_unknown = |name: &String| {
        name.starts_with("MILLRACE_")
            && !name.starts_with("MILLRACE_TEST_")
            && !known.iter().any(|known| *known == name.as_str())
    };
    names.filter(is_unknown).collect()
}

fn run(cli: Cli, matches: &clap::ArgMatches) -> Result<(), Failure> {
    let given = Given::new(cli.shared, matches)?;
    match cli.command {
        Command::Demo(arguments) => demo::run(&given, &arguments),
        Command::Serve(_) => {
            let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
            serve::run(&given, &unknown_variables(names))
        }
        Command::Tsm(arguments) => front_end::run(&given, &arguments),
        Command::Sql(arguments) => sql::run(&given, &arguments),
        Command::Write(arguments) => write::run(&given, &arguments),
        Command::Archive(arguments) => archive::run(&given, &arguments),
        Command::Bench(arguments) => Err(bench::run(&arguments)),
        Command::Inspect(arguments) => inspect::run(&given, &arguments),
        Command::Check(_) => inspect::check(&given),
        Command::Version(_) => print(format!("millrace {VERSION}\n").as_bytes()),
        Command::Completions(arguments) => {
            // Rendered to memory first: clap panics if standard output is closed.
            let mut script = Vec::new();
            clap_complete::generate(arguments.shell, &mut Cli::command(), "millrace", &mut script);
            print(&script)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_variables_with_our_prefix_are_found() {
        let names = ["MILLRACE_MEMRY", "MILLRACE_MEMORY", "MILLRACE_URL", "MILLRACE_GRACE", "MILLRACE_TEST_X", "MEMRY"];
        assert_eq!(unknown_variables(names.map(str::to_owned).into_iter()), ["MILLRACE_MEMRY"]);
    }

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
