//! Backslash commands, modelled on psql's.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::process::Command;
use std::time::Duration;

use clap::ValueEnum;

use super::describe;
use super::format::{Expanded, Format};
use super::help;
use super::output::{Output, default_pager};
use super::session::{Session, Trouble, print_error};
use super::split::{Piece, Splitter};
use crate::failure::Failure;

/// The action after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Go,
    Quit,
}

/// All commands, for completion.
pub(super) const NAMES: &[&str] = &[
    "\\!",
    "\\?",
    "\\conninfo",
    "\\copy",
    "\\d",
    "\\df",
    "\\di",
    "\\dn",
    "\\ds",
    "\\dt",
    "\\dt+",
    "\\du",
    "\\e",
    "\\echo",
    "\\format",
    "\\g",
    "\\gx",
    "\\h",
    "\\i",
    "\\l",
    "\\o",
    "\\p",
    "\\pset",
    "\\q",
    "\\r",
    "\\set",
    "\\timing",
    "\\unset",
    "\\watch",
    "\\x",
];

/// Runs one backslash command. `splitter` holds the pending statement.
pub(super) async fn run(session: &mut Session, splitter: &mut Splitter, line: &str) -> Result<Next, Failure> {
    let (command, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let (command, argument) = match command {
        "\\!" | "\\echo" => (command, argument.trim()),
        _ => (command.trim_end_matches(';'), argument.trim().trim_end_matches(';').trim_end()),
    };
    match command {
        "\\q" | "\\quit" | "\\exit" => return Ok(Next::Quit),
        "\\?" | "\\help" => print!("{}", help::COMMANDS),
        "\\h" => print!("{}", help::syntax(argument)),
        "\\l" | "\\l+" | "\\list" => describe::databases(session).await?,
        "\\conninfo" | "\\c" | "\\connect" => {
            if !argument.is_empty() {
                return Err(Failure::new("the shell has only one connection")
                    .with_hint("start another: millrace sql --url URL"));
            }
            describe::connection(session).await?;
        }
        "\\x" => expanded(session, argument)?,
        "\\timing" => timing(session, argument)?,
        "\\format" => format(session, argument)?,
        "\\pset" => pset(session, argument)?,
        "\\set" => set(session, argument)?,
        "\\unset" => drop(session.variables.remove(argument)),
        "\\echo" => println!("{}", super::split::interpolate(argument, &session.variables)),
        "\\o" => redirect(session, argument)?,
        "\\g" => run_pending(session, splitter, argument, false).await?,
        "\\gx" => run_pending(session, splitter, argument, true).await?,
        "\\p" => match (splitter.pending(), &session.last) {
            ("", Some(last)) => println!("{last};"),
            (pending, _) => println!("{pending}"),
        },
        "\\r" => splitter.clear(),
        "\\e" => edit(session, splitter, argument).await?,
        "\\watch" => watch(session, splitter, argument).await?,
        "\\!" => shell_command(argument)?,
        "\\copy" => copy(session, argument).await?,
        "\\i" | "\\include" => {
            let path = unquoted(argument);
            let text = std::fs::read_to_string(path).map_err(|error| Failure::new(format!("{path}: {error}")))?;
            return Box::pin(super::run_text(session, &text, false)).await;
        }
        _ => {
            let more = command.ends_with('+');
            let what = command.trim_end_matches('+').strip_prefix("\\d");
            let known = match what {
                Some("") if !argument.is_empty() => {
                    describe::relation(session, argument).await?;
                    true
                }
                Some(what) => describe::list(session, what, argument, more).await?,
                None => false,
            };
            if !known {
                return Err(Failure::new(format!("unknown command {command}")).with_hint("\\? lists the commands"));
            }
        }
    }
    Ok(Next::Go)
}

fn switch(name: &str, argument: &str, now: bool) -> Result<bool, Failure> {
    match argument {
        "" => Ok(!now),
        "on" | "true" | "1" => Ok(true),
        "off" | "false" | "0" => Ok(false),
        other => Err(Failure::new(format!("{name}: invalid value {other:?}: expected on or off"))),
    }
}

fn timing(session: &mut Session, argument: &str) -> Result<(), Failure> {
    session.timing = switch("\\timing", argument, session.timing)?;
    println!("Timing is {}.", if session.timing { "on" } else { "off" });
    Ok(())
}

fn expanded(session: &mut Session, argument: &str) -> Result<(), Failure> {
    session.look.expanded = match argument {
        "auto" => Expanded::Auto,
        other => match switch("\\x", other, session.look.expanded != Expanded::Off)? {
            true => Expanded::On,
            false => Expanded::Off,
        },
    };
    println!("Expanded display is {}.", format!("{:?}", session.look.expanded).to_lowercase());
    Ok(())
}

fn format(session: &mut Session, argument: &str) -> Result<(), Failure> {
    if !argument.is_empty() {
        let names = || Format::value_variants().iter().map(|format| format!("{format:?}").to_lowercase());
        session.look.format = Format::from_str(argument, true).map_err(|_| {
            let names: Vec<String> = names().collect();
            Failure::new(format!("\\format: unknown format {argument:?}: expected one of {}", names.join(", ")))
        })?;
    }
    println!("Format is {}.", format!("{:?}", session.look.format).to_lowercase());
    Ok(())
}

/// `\pset`: psql's options that apply here, and `rows`.
fn pset(session: &mut Session, argument: &str) -> Result<(), Failure> {
    let (name, value) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
    let value = value.trim();
    match name {
        "" => {}
        "null" => session.look.null = unquoted(value).to_owned(),
        "pager" => {
            session.pager = match value {
                "off" | "0" => None,
                "on" | "1" | "always" => default_pager().or_else(|| Some("more".to_owned())),
                "" if session.pager.is_some() => None,
                "" => default_pager(),
                command => Some(unquoted(command).to_owned()),
            }
        }
        "rows" => {
            session.look.rows_shown_max = match value {
                "all" | "0" => None,
                number => Some(number.parse().map_err(|_| {
                    Failure::new(format!("\\pset rows: invalid value {number:?}: expected a number or all"))
                })?),
            }
        }
        "format" => {
            let value = match value {
                "aligned" => "table",
                other => other,
            };
            return format(session, value);
        }
        "expanded" | "x" => return expanded(session, value),
        other => {
            return Err(Failure::new(format!("\\pset: unknown option {other:?}"))
                .with_hint("options: null, pager, rows, format, expanded"));
        }
    }
    let rows = session.look.rows_shown_max.map_or("all".to_owned(), |rows| rows.to_string());
    println!(
        "null is {:?}, pager is {}, rows is {rows} (when there is no pager).",
        session.look.null,
        session.pager.as_ref().map_or("off".to_owned(), |pager| format!("{pager:?}"))
    );
    Ok(())
}

fn set(session: &mut Session, argument: &str) -> Result<(), Failure> {
    if argument.is_empty() {
        for (name, value) in &session.variables {
            println!("{name} = {value:?}");
        }
        return Ok(());
    }
    let (name, value) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
    if !name.chars().all(|c| c.is_alphanumeric() || c == '_') {
        return Err(Failure::new(format!("\\set: {name:?} is not a name: expected letters, digits and _")));
    }
    session.variables.insert(name.to_owned(), unquoted(value.trim()).to_owned());
    Ok(())
}

fn redirect(session: &mut Session, target: &str) -> Result<(), Failure> {
    if let Some(out) = session.output.take() {
        out.close().map_err(|error| Failure::new(format!("\\o: {error}")))?;
    }
    if !target.is_empty() {
        session.output = Some(Output::open(unquoted(target))?);
    }
    Ok(())
}

/// The statement for `\g` and similar commands: the pending one, else the last one.
fn pending_or_last(session: &Session, splitter: &mut Splitter) -> Result<String, Failure> {
    splitter
        .finish()
        .or_else(|| session.last.clone())
        .ok_or_else(|| Failure::new("there is no statement to run: none is pending and none was run"))
}

async fn run_pending(
    session: &mut Session,
    splitter: &mut Splitter,
    target: &str,
    expand: bool,
) -> Result<(), Failure> {
    let sql = pending_or_last(session, splitter)?;
    let before = session.look.clone();
    if expand {
        session.look.expanded = Expanded::On;
        session.look.format = Format::Table;
    }
    let target = Some(unquoted(target)).filter(|target| !target.is_empty());
    let result = session.run_to(&sql, target).await;
    session.look = before;
    result
}

async fn watch(session: &mut Session, splitter: &mut Splitter, argument: &str) -> Result<(), Failure> {
    let seconds: f64 = match argument {
        "" => 2.0,
        text => text.parse().ok().filter(|seconds| (0.01..=86_400.0).contains(seconds)).ok_or_else(|| {
            Failure::new(format!("\\watch: invalid interval {text:?}: expected seconds from 0.01 to 86400"))
        })?,
    };
    let sql = pending_or_last(session, splitter)?;
    let pager = session.pager.take();
    let result = loop {
        println!("{} (every {seconds} s, Ctrl-C ends)\n", jiff::Zoned::now().strftime("%Y-%m-%d %H:%M:%S"));
        if let Err(failure) = session.run(&sql).await {
            break Err(failure);
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs_f64(seconds)) => {}
            _ = tokio::signal::ctrl_c() => {
                println!();
                break Ok(());
            }
        }
    };
    session.pager = pager;
    result
}

/// Opens an editor with the pending or last statement, then runs the edited text.
async fn edit(session: &mut Session, splitter: &mut Splitter, path: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("\\e: {error}"));
    let own = std::env::temp_dir().join(format!("millrace-{}.sql", std::process::id()));
    let path = match unquoted(path) {
        "" => {
            let text = splitter.finish().or_else(|| session.last.as_ref().map(|last| format!("{last};")));
            let mut options = File::options();
            options.write(true).create_new(true);
            let _ = std::fs::remove_file(&own);
            let mut file = options.open(&own).map_err(failed)?;
            writeln!(file, "{}", text.unwrap_or_default()).map_err(failed)?;
            own.clone()
        }
        path => path.into(),
    };
    let editor = ["MILLRACE_EDITOR", "VISUAL", "EDITOR"].iter().find_map(|name| std::env::var(name).ok());
    let editor = editor.unwrap_or_else(|| "vi".to_owned());
    let status = Command::new("sh").arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(&path).status();
    let status = status.map_err(failed)?;
    let text = std::fs::read_to_string(&path).map_err(failed)?;
    let _ = std::fs::remove_file(&own);
    if !status.success() {
        return Err(Failure::new(format!("\\e: {editor} ended with {status}; nothing was run")));
    }
    for line in text.lines() {
        for piece in splitter.push(line) {
            match piece {
                Piece::Statement(sql) => {
                    println!("{sql};");
                    session.run(&sql).await?;
                }
                Piece::Command(command) => {
                    return Err(Failure::new(format!("\\e: {command}: commands are not run from the editor")));
                }
            }
        }
    }
    if !splitter.is_empty() {
        println!("{}", splitter.pending());
    }
    Ok(())
}

fn shell_command(command: &str) -> Result<(), Failure> {
    let shell = std::env::var("SHELL").unwrap_or_else(|_| "sh".to_owned());
    let mut process = Command::new(&shell);
    if !command.is_empty() {
        process.arg("-c").arg(command);
    }
    let status = process.status().map_err(|error| Failure::new(format!("{shell}: {error}")))?;
    match status.success() {
        true => Ok(()),
        false => Err(Failure::new(format!("\\!: the command ended with {status}"))),
    }
}

/// An argument without surrounding quotes.
fn unquoted(text: &str) -> &str {
    let quoted = |quote: char| text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    quoted('\'').or_else(|| quoted('"')).unwrap_or(text)
}

/// `\copy`: `T FROM 'file' …` becomes `COPY T FROM STDIN …` with the file as input; `TO` likewise.
async fn copy(session: &mut Session, argument: &str) -> Result<(), Failure> {
    let (sql, path, into) = parse_copy(argument)
        .ok_or_else(|| Failure::new("write it like: \\copy table FROM 'file' WITH (FORMAT csv, HEADER)"))?;
    let open = |error: std::io::Error| Failure::new(format!("{path}: {error}"));
    let result = if into {
        let mut file = BufReader::new(File::open(&path).map_err(open)?);
        session.copy_in(&sql, &mut file).await
    } else {
        let mut file = BufWriter::new(File::create(&path).map_err(open)?);
        session.copy_out(&sql, &mut file).await
    };
    session.print_notices();
    match result {
        Ok(()) => Ok(()),
        Err(Trouble::Server(error)) => {
            session.note_failure(&error);
            print_error(&sql, &error);
            Err(Failure::already_reported())
        }
        Err(Trouble::Output(error)) => Err(open(error)),
    }
}

/// The statement to send, the file, and whether it is an import.
fn parse_copy(argument: &str) -> Option<(String, String, bool)> {
    let lower = argument.to_ascii_lowercase();
    let from = lower.find(" from ").map(|at| (at, at + 6, true));
    let to = lower.rfind(" to ").map(|at| (at, at + 4, false));
    // In `(SELECT … FROM t) TO 'f'` the file follows TO.
    let (end, start, into) = if argument.starts_with('(') { to? } else { from.or(to)? };
    let rest = argument.get(start..)?.trim_start();
    let (path, options) = match rest.strip_prefix('\'') {
        Some(quoted) => quoted.split_once('\'')?,
        None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
    };
    let stream = if into { "FROM STDIN" } else { "TO STDOUT" };
    let sql = format!("COPY {} {stream} {}", &argument[..end], options.trim());
    (!path.is_empty()).then(|| (sql.trim_end().to_owned(), path.to_owned(), into))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_becomes_the_statement_for_a_stream() {
        let parsed = |text: &str| parse_copy(text).map(|(sql, path, into)| format!("{sql} | {path} | {into}"));
        let cases = [
            ("t FROM 'a b.csv' WITH (FORMAT csv)", Some("COPY t FROM STDIN WITH (FORMAT csv) | a b.csv | true")),
            ("t (a, b) from x.tsv", Some("COPY t (a, b) FROM STDIN | x.tsv | true")),
            ("(SELECT 1 FROM t) TO 'o.csv' CSV", Some("COPY (SELECT 1 FROM t) TO STDOUT CSV | o.csv | false")),
            ("t", None),
            ("t FROM ''", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parsed(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn every_command_that_completes_is_in_the_help() {
        for name in NAMES {
            let plain = name.trim_end_matches('+');
            assert!(help::COMMANDS.contains(plain), "{name}");
        }
    }
}
