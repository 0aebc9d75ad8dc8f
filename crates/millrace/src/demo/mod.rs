//! `millrace demo`: Millrace in one command and one minute.
//!
//! Creates an embedded database in its own directory, loads real measurements and generated device data, runs some
//! queries, and leaves the directory to be served. Each query is printed.

mod answer;
mod devices;
mod load;
mod questions;

use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::Engine;
use env::RealEnv;
use jiff::tz::TimeZone;
use model::TableName;
use query::{Database, Outcome, Session};

use crate::config::Given;
use crate::failure::Failure;
use crate::size;
use crate::table::{Align, draw};

const DATA_DEFAULT: &str = "./millrace-demo";
/// All file names that a demo directory may contain.
const OURS: [&str; 7] = [MARKER, "MANIFEST", "MANIFEST.tmp", "LOCK", "data", "log", "tmp"];
/// File that marks a directory as a demo, which may be deleted and loaded again.
const MARKER: &str = "MILLRACE-DEMO";

/// Loads real measurements into a fresh directory, asks questions, shows the answers.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  millrace demo
  millrace demo --data /tmp/demo --rows 100000

Without --data the directory is ./millrace-demo. Takes some seconds and 200 MB of disk. A second
run starts afresh; a directory that is not a demo's is refused.")]
pub(crate) struct Arguments {
    /// Rows of generated device data, ten values each.
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1_000..=100_000_000))]
    rows: u64,
}

pub(crate) fn run(given: &Given, arguments: &Arguments) -> Result<(), Failure> {
    let dir = given.data().map_or_else(|| PathBuf::from(DATA_DEFAULT), Path::to_owned);
    prepare(&dir)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().thread_stack_size(query::STACK_BYTES).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start: {error}")))?;
    let started = Instant::now();
    runtime.block_on(run_async(&dir, given.memory_bytes()?, arguments.rows))?;
    println!("All of it took {}.\n", show_time(started.elapsed()));
    farewell(&dir);
    Ok(())
}

async fn run_async(dir: &Path, memory_bytes: u64, rows: u64) -> Result<(), Failure> {
    let options = engine::Options { memory_bytes, ..engine::Options::default() };
    let (engine, _) = Engine::open(Arc::new(RealEnv::new()), dir, options)?;
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let database =
        Database::new(engine.clone(), query::Options { memory_bytes: memory_bytes / 2, threads, files: None })?;
    let mut session = database.session("millrace");
    println!("Millrace {}: an embedded database in {}\n", crate::VERSION, dir.display());
    let mut tables = load::measurements(&mut session).await?;
    tables.push(devices::generate(&mut session, &engine, rows).await?);
    settle(&engine)?;
    println!("\n{}", sizes(&engine, &tables)?);
    for question in questions::ALL {
        ask(&mut session, question).await?;
    }
    drop(session);
    drop(database);
    engine.close()?;
    Ok(())
}

/// A table created by the demo.
struct Loaded {
    table: &'static str,
    what: &'static str,
    rows: u64,
    /// Values in the table; missing ones are not counted.
    points: u64,
    /// Size of the rows as CSV.
    csv_bytes: u64,
    elapsed: Duration,
}

/// Deletes and creates the directory. Refuses a directory that contains other files.
fn prepare(dir: &Path) -> Result<(), Failure> {
    let failed = |what: &str, error: io::Error| Failure::new(format!("cannot {what} {}: {error}", dir.display()));
    let names: Vec<_> = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.file_name()).collect();
    // Any other file was added by somebody else.
    let is_demo = dir.join(MARKER).exists() && names.iter().all(|name| OURS.iter().any(|ours| name == *ours));
    let is_empty = names.is_empty();
    if !is_demo && !is_empty {
        return Err(Failure::usage(format!(
            "{} is not empty and not a demo directory; nothing was changed",
            dir.display()
        ))
        .with_hint("give another directory: --data DIR"));
    }
    if is_demo {
        refuse_if_open(dir)?;
        fs::remove_dir_all(dir).map_err(|error| failed("clear", error))?;
    }
    fs::create_dir_all(dir).map_err(|error| failed("make", error))?;
    fs::write(dir.join(MARKER), "Made by `millrace demo`, which may remove it.\n")
        .map_err(|error| failed("write to", error))
}

/// Refuses a directory that a server has open.
fn refuse_if_open(dir: &Path) -> Result<(), Failure> {
    match Engine::open(Arc::new(RealEnv::new()), dir, engine::Options::default()) {
        Ok((engine, _)) => Ok(engine.close()?),
        Err(error) if error.state() == model::SqlState::LOCK_NOT_AVAILABLE => Err(Failure::from(error)),
        // Any other error is in the old demo, which is deleted.
        Err(_) => Ok(()),
    }
}

fn settle(engine: &Engine) -> Result<(), Failure> {
    let started = Instant::now();
    engine.flush()?;
    engine.settle()?;
    println!("  flushed and compacted in {}", show_time(started.elapsed()));
    Ok(())
}

/// Size of each table on disk.
fn sizes(engine: &Engine, tables: &[Loaded]) -> Result<String, Failure> {
    let snapshot = engine.snapshot(model::Lsn::ZERO);
    let mut rows = Vec::new();
    for loaded in tables {
        let view = snapshot.table(&TableName::public(loaded.table))?;
        let bytes: u64 = view.state().segments.iter().map(|segment| segment.meta().bytes).sum();
        let cells = [
            loaded.table.to_owned(),
            loaded.what.to_owned(),
            size::group(loaded.rows),
            size::group(loaded.points),
            show_time(loaded.elapsed),
            size::show(loaded.csv_bytes),
            size::show(bytes),
            format!("{:.0}×", loaded.csv_bytes as f64 / bytes.max(1) as f64),
            format!("{:.2}", bytes as f64 / loaded.points as f64),
        ];
        rows.push(cells.into_iter().map(Some).collect());
    }
    let head = [
        ("table", Align::Left),
        ("what", Align::Left),
        ("rows", Align::Right),
        ("points", Align::Right),
        ("load", Align::Right),
        ("as CSV", Align::Right),
        ("on disk", Align::Right),
        ("smaller", Align::Right),
        ("B/point", Align::Right),
    ];
    Ok(draw(&head.map(|(title, align)| (title.to_owned(), align)), &rows, "  "))
}

/// Bold (`1`) or dim (`2`) on a terminal; plain elsewhere.
fn styled(style: &str, text: &str) -> String {
    let plain = !std::io::stdout().is_terminal() || std::env::var_os("NO_COLOR").is_some();
    if plain { text.to_owned() } else { format!("\x1b[{style}m{text}\x1b[0m") }
}

async fn ask(session: &mut Session, question: &questions::Question) -> Result<(), Failure> {
    println!("{}\n", styled("1", question.title));
    for line in question.before.lines().chain(question.sql.lines()) {
        println!("  {}", styled("2", line));
    }
    command(session, question.before).await?;
    let started = Instant::now();
    let zone = TimeZone::get(question.zone).map_err(Failure::new)?;
    let answer = answer::run(session, question.sql, &zone).await?;
    let elapsed = started.elapsed();
    let plural = if answer.rows.len() == 1 { "" } else { "s" };
    println!(
        "\n{}  ({} row{plural}, {})\n",
        draw(&answer.head, &answer.rows, "  "),
        answer.rows.len(),
        show_time(elapsed)
    );
    if let Some((column, unit)) = question.chart
        && let Some(line) = chart(&answer, column, unit)
    {
        println!("  {line}\n");
    }
    if let Some(remark) = question.remark {
        println!("  {remark}\n");
    }
    if question.zone != "UTC" {
        command(session, "SET TimeZone = 'UTC'").await?;
    }
    Ok(())
}

/// A column as a line of bars, scaled from its minimum to its maximum.
fn chart(answer: &answer::Answer, column: &str, unit: &str) -> Option<String> {
    const BARS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
    let at = answer.head.iter().position(|(name, _)| name == column)?;
    let values: Vec<f64> = answer.rows.iter().filter_map(|row| row[at].as_ref()?.parse().ok()).collect();
    let (least, most) = (values.iter().copied().reduce(f64::min)?, values.iter().copied().reduce(f64::max)?);
    let bar = |value: &f64| BARS[((value - least) / (most - least).max(1e-9) * 7.0).round().clamp(0.0, 7.0) as usize];
    Some(format!("{column}  {}  {least} to {most} {unit}", values.iter().map(bar).collect::<Vec<_>>().join(" ")))
}

/// Runs a statement without a result.
async fn command(session: &mut Session, sql: &str) -> Result<(), Failure> {
    for statement in query::parse(sql)? {
        let prepared = session.prepare(&statement, &[]).await?;
        match session.execute(&prepared, &[]).await? {
            Outcome::Command { .. } => {}
            _ => return Err(Failure::new(format!("BUG: the demo expected no result from {sql}"))),
        }
    }
    Ok(())
}

fn farewell(dir: &Path) {
    let program = program();
    // Absolute, so that the command works in any directory.
    let dir = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    let dir = dir.display();
    println!(
        "Go on with it:\n\n  \
         {program} serve --data {dir}\n      \
         serves this demo on this machine (without --data it would serve ./millrace-data)\n  \
         {program} sql\n      \
         a shell on the server; \\d lists the tables, help helps\n  \
         psql -h 127.0.0.1 -p 7432 -U millrace\n      \
         or any PostgreSQL client\n"
    );
}

/// The command to start this program: its name if the shell finds it, else its path.
fn program() -> String {
    let Ok(path) = std::env::current_exe() else { return "millrace".to_owned() };
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders).map(|folder| folder.join("millrace")).find(|found| found.is_file());
    let is_this = |found: PathBuf| fs::canonicalize(found).is_ok_and(|found| found == path);
    if found.is_some_and(is_this) { "millrace".to_owned() } else { path.display().to_string() }
}

fn show_time(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    if seconds < 1.0 { format!("{:.1} ms", seconds * 1e3) } else { format!("{seconds:.2} s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_not_a_demos_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("thesis.tex"), "x").unwrap();
        let refused = prepare(dir.path()).err().map(|failure| failure.text()).unwrap_or_default();
        assert!(refused.contains("not a demo directory"), "{refused}");
        assert!(dir.path().join("thesis.tex").exists());
        fs::write(dir.path().join(MARKER), "").unwrap();
        assert!(
            prepare(dir.path()).is_err() && dir.path().join("thesis.tex").exists(),
            "a demo's, and somebody else's"
        );
    }

    #[test]
    fn a_fresh_directory_is_marked_as_a_demos() {
        let dir = tempfile::tempdir().unwrap();
        let inside = dir.path().join("a/b");
        assert!(prepare(&inside).is_ok() && inside.join(MARKER).exists());
    }
}
