//! `millrace serve`: a server in the foreground, from startup to a clean shutdown.
//!
//! Order matters. Addresses are bound first: a second server fails at once and changes nothing. Then the directory is opened and
//! recovered, then clients are accepted. On shutdown no more clients are accepted, statements finish, memtables are
//! flushed, and the log gets its durable mark. A second signal exits at once, without losing acknowledged data (`signals`).

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use archiver::Archiver;
use engine::{Engine, Recovery};
use env::RealEnv;
use query::Database;
use server::{Listener, Server};
use tracing::{Value, field};
use tsm::Tsm;

use crate::config::{Given, LogFormat, Settings};
use crate::failure::Failure;
use crate::logging;
use crate::signals::Stop;
use crate::size;
use crate::stdio;

/// Divisor of the memory left after memtables and caches that queries get.
const QUERY_MEMORY_SHARE: u64 = 2;

/// Serves a directory on this machine until SIGTERM or Ctrl-C.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  millrace serve                                      ./millrace-data on loopback
  millrace serve --data /var/lib/millrace --memory 2GiB
  millrace serve --config /etc/millrace.toml --log-format json
  millrace serve --archiver                           archive EPICS process variables
  MILLRACE_PG=127.0.0.1:5432 millrace serve

Exits with code 0 after SIGTERM or Ctrl-C: running statements may finish for --grace seconds and
are then cancelled, and memtables are flushed. A second signal exits at once. Only loopback addresses
are served, because this version has no authentication.")]
pub(crate) struct Arguments {}

/// Serves until SIGTERM or Ctrl-C.
pub(crate) fn run(given: &Given, unknown_variables: &[String]) -> Result<(), Failure> {
    let settings = given.settings()?;
    logging::start(&settings.log_level, settings.log_format);
    refuse_beyond_loopback(&settings)?;
    warn_of(&settings, unknown_variables);
    size::keep_pages_small(settings.memory_bytes);
    size::keep_freed_memory(settings.memory_bytes);
    let runtime = server::runtime(settings.max_connections);
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start: {error}")))?;
    let served = runtime.block_on(serve(&settings));
    // No wait for statements that still compute on other threads: nobody needs their results.
    runtime.shutdown_background();
    served
}

/// Logs warnings about settings that are valid but probably unintended.
fn warn_of(settings: &Settings, unknown_variables: &[String]) {
    for name in unknown_variables {
        tracing::warn!(variable = %name, "unknown setting: the environment variable is ignored");
    }
    if let Some(machine) = size::machine_memory().filter(|machine| settings.memory_bytes > *machine) {
        let (memory, machine) = (size::show(settings.memory_bytes), size::show(machine));
        tracing::warn!(%memory, %machine, "--memory is more than this machine or container has: it may run out of memory");
    }
}

async fn serve(settings: &Settings) -> Result<(), Failure> {
    let (place, tsm) = (archiver::Place::default(), Tsm::default());
    let server = Server::bind(server::Options {
        listeners: settings.listeners.clone(),
        max_connections: settings.max_connections,
        applications: [archiver::applications(&place), tsm.applications()].concat(),
    })
    .await?;
    let stop = Stop::listen(settings.grace)?;
    let Settings { memory_bytes, compaction_rate, log_compression, .. } = *settings;
    let options = engine::Options { memory_bytes, compaction_rate, log_compression, ..engine::Options::default() };
    let (engine, recovery) = open(&settings.data, options).await?;
    stop.opened(&engine);
    let database = Database::new(engine.clone(), query_options(settings.memory_bytes, settings.files.clone()))?;
    database.add_functions(tsm.functions());
    let addresses: Vec<_> = server.addresses().collect();
    let archiver = match start_archiver(settings.archiver, &database, &place).await {
        Ok(archiver) => archiver,
        Err(failure) => {
            close(engine).await?;
            return Err(failure);
        }
    };
    let schedules = tsm.start(&database);
    let server = server.ready(&database, settings.grace);
    // Printed when it is true: a client that waits for these lines can connect at once.
    announce(settings, &addresses, &recovery);
    server.run(stop.clone().wait()).await;
    schedules.abort();
    // It must not use the engine any more when that is closed.
    let _ = schedules.await;
    if let Some(archiver) = archiver {
        archiver.stop().await;
    }
    if !stop.may_close() {
        // The signal thread is already ending the process.
        std::future::pending::<()>().await;
    }
    close(engine).await
}

/// Starts the archiver if it is asked for, or if there is something to archive.
async fn start_archiver(
    wanted: Option<bool>,
    database: &Database,
    place: &archiver::Place,
) -> Result<Option<Archiver>, Failure> {
    let is_wanted = match wanted {
        Some(wanted) => wanted,
        None => archiver::is_configured(database).await?,
    };
    let archiver = if is_wanted { Archiver::start(database).await.map(Some) } else { Ok(None) };
    let archiver = match archiver {
        // Nobody asked for it now: the database is there for others.
        Err(error) if wanted.is_none() => {
            tracing::error!(%error, "the archiver of EPICS cannot start; the server goes on without it");
            None
        }
        other => other?,
    };
    place.set(archiver.as_ref());
    Ok(archiver)
}

/// Without passwords, everyone who reaches the port has all privileges.
pub(crate) fn refuse_beyond_loopback(settings: &Settings) -> Result<(), Failure> {
    for (listener, address) in &settings.listeners {
        if !address.ip().is_loopback() {
            let flag = listener.flag();
            return Err(Failure::usage(format!(
                "{flag} {address} can be reached from other machines, and there is no authentication: refused"
            ))
            .with_hint("serve a loopback address, and reach it by a tunnel: ssh -L 7432:127.0.0.1:7432 HOST"));
        }
    }
    Ok(())
}

/// Opens a directory and logs what was recovered.
pub(crate) async fn open(dir: &Path, options: engine::Options) -> Result<(Engine, Recovery), Failure> {
    tracing::info!(data = %dir.display(), "opening");
    let (dir, place) = (dir.to_owned(), dir.to_owned());
    let opened = blocking(move || Engine::open(Arc::new(RealEnv::new()), &dir, options)).await?;
    opened.map_err(|error| match error.state() {
        model::SqlState::LOCK_NOT_AVAILABLE if error.hint().is_none() => {
            Failure::from(error.with_hint("another process has it open: stop that process, or give another --data"))
        }
        model::SqlState::IO_ERROR if error.hint().is_none() => {
            let hint = not_writable(&place, error.message());
            let failure = Failure::from(error);
            match hint {
                Some(hint) => failure.with_hint(hint),
                None => failure,
            }
        }
        _ => Failure::from(error),
    })
}

/// A hint if the directory is not writable by this process.
fn not_writable(dir: &Path, message: &str) -> Option<String> {
    if message.contains("Read-only file system") {
        return Some(format!("the file system of {} is mounted read-only", dir.display()));
    }
    if !message.contains("Permission denied") {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = |uid: u32| {
        let mut fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let found = fields.find(|fields| fields.get(2).is_some_and(|field| field.parse() == Ok(uid)));
        found.and_then(|fields| fields.first().map(|name| format!("{name} ({uid})"))).unwrap_or_else(|| uid.to_string())
    };
    let me = fs::metadata("/proc/self").map_or_else(|_| "this one".to_owned(), |process| name(process.uid()));
    // If it does not exist yet, its nearest existing parent counts.
    let there = dir.ancestors().find(|dir| dir.exists()).unwrap_or(dir);
    let (there, owner) =
        (there.display(), fs::metadata(there).map_or_else(|_| "another".to_owned(), |there| name(there.uid())));
    Some(format!(
        "the server runs as user {me}, and {there} belongs to user {owner}: chown it, or name another with --data"
    ))
}

/// Query options: the share of the memory budget, and the folder for files.
pub(crate) fn query_options(memory_bytes: u64, files: Option<PathBuf>) -> query::Options {
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    query::Options { memory_bytes: memory_bytes / QUERY_MEMORY_SHARE, threads, files }
}

/// Flushes memtables, writes the log's durable mark, stops the workers.
pub(crate) async fn close(engine: Engine) -> Result<(), Failure> {
    let started = Instant::now();
    tracing::info!("flushing");
    let closed = blocking(move || engine.flush().and_then(|()| engine.close())).await?;
    if let Err(error) = closed {
        // The log has the data; the next start replays it.
        tracing::error!(%error, "not flushed");
        return Err(
            Failure::from(error).with_hint("acknowledged changes are in the log and are recovered at the next start")
        );
    }
    tracing::info!(elapsed_ms = started.elapsed().as_millis() as u64, "stopped");
    Ok(())
}

/// Runs blocking work on another thread.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Failure::new(format!("BUG: {error}")))
}

/// Announces addresses and recovery, in the log and on stdout.
fn announce(settings: &Settings, addresses: &[(&Listener, SocketAddr)], recovery: &Recovery) {
    let elapsed_ms = recovery.elapsed_ns / 1_000_000;
    tracing::info!(
        created = recovery.created,
        tables = recovery.tables,
        row_tables = recovery.row_tables,
        rows = recovery.rows,
        segments = recovery.segments,
        series = recovery.series,
        log_records = recovery.log_records,
        log_bytes = recovery.log_bytes,
        commits = recovery.commits,
        torn_bytes = recovery.torn_bytes,
        elapsed_ms,
        "recovered"
    );
    let shown: Vec<_> = addresses.iter().map(|(listener, address)| (listener.name, field::display(address))).collect();
    let mut fields: Vec<(&str, &dyn Value)> = Vec::new();
    fields.extend(shown.iter().map(|(name, address)| (*name, address as &dyn Value)));
    fields.push(("memory_bytes", &settings.memory_bytes));
    fields.push(("max_connections", &settings.max_connections));
    fields.push(("log_compression", &settings.log_compression));
    logging::serving(&fields);
    if settings.log_format == LogFormat::Text {
        stdio::out(&banner(settings, recovery, addresses));
    }
}

fn banner(settings: &Settings, recovery: &Recovery, addresses: &[(&Listener, SocketAddr)]) -> String {
    let found = if recovery.created {
        "new and empty".to_owned()
    } else {
        format!(
            "{} columns tables ({} segments, {} series), {} rows tables ({} rows); {} commits of {} recovered from the log in {:.2} s{}",
            size::group(recovery.tables),
            size::group(recovery.segments),
            size::group(recovery.series),
            size::group(recovery.row_tables),
            size::group(recovery.rows),
            size::group(recovery.commits),
            size::show(recovery.log_bytes),
            recovery.elapsed_ns as f64 / 1e9,
            match recovery.torn_bytes {
                0 => String::new(),
                bytes => format!("; {} of a torn tail dropped, never acknowledged", size::show(bytes)),
            }
        )
    };
    let line = |(listener, address): &(&Listener, SocketAddr)| {
        format!("  {:<12} {}\n", listener.title, (listener.usage)(*address))
    };
    format!(
        "Millrace {} serves {} with {} of memory\n  \
         found        {found}\n\
         {}  \
         stop         Ctrl-C or SIGTERM\n",
        env!("CARGO_PKG_VERSION"),
        settings.data.display(),
        size::show(settings.memory_bytes),
        addresses.iter().map(line).collect::<String>(),
    )
}
