//! `millrace sql`: sends statements to a server and prints the results.
//!
//! Statements are split here, not by the server, so that each is timed and reported separately, and an error names
//! the statement that failed. Values are printed as the server's text; only JSON and alignment need their types.

mod complete;
mod describe;
mod format;
mod help;
mod meta;
mod output;
mod session;
mod shell;
mod split;

use std::io::{IsTerminal, Read};
use std::path::PathBuf;

use crate::config::Given;
use crate::connect::connect;
use crate::embedded::with_database;
use crate::failure::Failure;
use session::Session;
use split::{Piece, Splitter};

/// Runs SQL on a server: interactively, from the command line, a file or standard input.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  millrace sql                                                 interactive; \\? shows its commands
  millrace sql -c \"SELECT * FROM weather LIMIT 5\"
  millrace sql -c \"SELECT * FROM weather\" --format csv > weather.csv
  millrace sql -f setup.sql
  echo 'SELECT 1' | millrace sql --format json
  millrace sql --data ./millrace-demo -c 'SELECT count(*) FROM air'   opens the directory itself
  millrace sql --url postgres://me@127.0.0.1:7432/millrace -c 'SELECT 1'

Exit codes: 0 all done, 1 a statement failed (those after it were not run), 2 nothing was started.")]
pub(crate) struct Arguments {
    /// Statements to run; may be given several times.
    #[arg(short = 'c', long = "command", value_name = "SQL")]
    commands: Vec<String>,
    /// File with statements to run; `-` is standard input.
    #[arg(short = 'f', long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Output format of results.
    #[arg(long, value_enum, default_value = "table")]
    format: format::Format,
    /// Connection string of the server, instead of --pg.
    #[arg(long, value_name = "URL", env = "MILLRACE_URL")]
    url: Option<String>,
    /// Print the duration of each statement.
    #[arg(long)]
    timing: bool,
    /// Show one value a line, as `\\x` does.
    #[arg(short = 'x', long)]
    expanded: bool,
    /// Set a variable: `:NAME` in a statement stands for it.
    #[arg(short = 'v', long = "set", value_name = "NAME=VALUE", value_parser = variable)]
    variables: Vec<(String, String)>,
    /// Text for NULL in tables.
    #[arg(long, value_name = "TEXT", default_value = "NULL")]
    null: String,
    /// Show results larger than the screen without a pager.
    #[arg(long)]
    no_pager: bool,
}

pub(crate) fn run(given: &Given, arguments: &Arguments) -> Result<(), Failure> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().thread_stack_size(query::STACK_BYTES).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start: {error}")))?;
    runtime.block_on(run_async(given, arguments))
}

async fn run_async(given: &Given, arguments: &Arguments) -> Result<(), Failure> {
    let Some(dir) = given.data_flag() else { return run_at(given.pg(), arguments).await };
    with_database(dir, given.memory_bytes()?, given.files(), async |address| run_at(address, arguments).await).await
}

async fn run_at(address: &str, arguments: &Arguments) -> Result<(), Failure> {
    let connected = connect(arguments.url.as_deref(), address).await?;
    let mut session = Session::new(connected, arguments.format, arguments.timing);
    session.variables.extend(arguments.variables.iter().cloned());
    session.look.null.clone_from(&arguments.null);
    if arguments.expanded {
        session.look.expanded = format::Expanded::On;
    }
    if arguments.no_pager {
        session.pager = None;
    }
    if !arguments.commands.is_empty() {
        for text in &arguments.commands {
            if run_text(&mut session, text, true).await? == meta::Next::Quit {
                break;
            }
        }
        return session.close();
    }
    match &arguments.file {
        Some(path) => run_text(&mut session, &read(path)?, false).await.map(|_| ())?,
        None if std::io::stdin().is_terminal() => shell::run(&mut session).await?,
        None => run_text(&mut session, &read(&PathBuf::from("-"))?, false).await.map(|_| ())?,
    }
    session.close()
}

/// Runs statements and backslash commands in order, up to the first failure. `copy_stdin`: whether COPY may read
/// our stdin, which is not the case if the statements come from there.
async fn run_text(session: &mut Session, text: &str, copy_stdin: bool) -> Result<meta::Next, Failure> {
    session.copy_stdin = copy_stdin;
    let mut splitter = Splitter::default();
    for line in text.lines() {
        for piece in splitter.push(line) {
            match piece {
                Piece::Statement(statement) => session.run(&statement).await?,
                Piece::Command(command) => {
                    if meta::run(session, &mut splitter, &command).await? == meta::Next::Quit {
                        return Ok(meta::Next::Quit);
                    }
                }
            }
        }
    }
    if let Some(statement) = splitter.finish() {
        session.run(&statement).await?;
    }
    Ok(meta::Next::Go)
}

fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("{text:?}: expected NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}

fn read(path: &PathBuf) -> Result<String, Failure> {
    let mut text = String::new();
    let read = if path.as_os_str() == "-" {
        std::io::stdin().read_to_string(&mut text)
    } else {
        std::fs::File::open(path).and_then(|mut file| file.read_to_string(&mut text))
    };
    read.map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?;
    Ok(text)
}
