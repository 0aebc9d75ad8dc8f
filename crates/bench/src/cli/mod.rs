//! The command line: `millrace bench …`.
//!
//! Exit codes: 0 done and verified; 1 verification failed; 2 not started (command line,
//! configuration, or target unreachable); 3 stopped early, the finished part is verified; 4 done
//! and verified, but operations failed.

mod breakeven;
mod cluster;
mod coldstart;
mod epics;
mod generate;
mod options;
mod progress;
mod results;
mod target;
mod tpcc;
mod tsm;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clap::Subcommand;

use crate::cluster::Member;
use crate::config::{self, Config, Source, WorkMode};
use crate::drivers::{DRIVERS, Target};
use crate::error::Result;
use crate::published;
use crate::report::{self, busy, matrix};
use crate::result::{Failure, Latency, PhaseResult, RunResult, ServerResult};
use crate::run::{self, INTERRUPTED, Order};
use crate::workload;
use options::RunOptions;
use progress::Terminal;

/// Measures time-series databases, Millrace and others, and verifies their answers.
#[derive(clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  millrace bench iot                                            canonical workload on a private Millrace
  millrace bench iot --target questdb --target millrace         a private server of each, one after the other
  millrace bench iot --target postgresql://me:pw@host:5432/db   a running server
  millrace bench iot --config conf/                             an IoT-benchmark configuration
  millrace bench iot --set LOOP=1000 --set DEVICE_NUMBER=50     any configuration key
  millrace bench tpcc --target postgres --warehouses 4 --clients 16,64
                                                                TPC-C's transactions, with its twelve conditions checked
  millrace bench coldstart --sizes 1,2,4,8                      start time by size of the data
  millrace bench breakeven --target millrace,postgres          cost of compression by share of changed values
  millrace bench epics --target millrace,postgres,mariadb      samples of an EPICS archiver (SNS)
  millrace bench tsm load --target millrace,postgres-rows       managed time series by REST (HAKOM TSM)
  millrace bench list-targets

Exit codes: 0 done and verified; 1 verification failed; 2 not started; 3 stopped early;
4 done and verified, but operations failed.")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// IoT-benchmark's workload: devices with sensors, writes, queries Q1 to Q12.
    #[command(after_help = options::EXAMPLES)]
    Iot(RunOptions),
    /// TSBS's cpu-only workload: hosts with ten CPU metrics, writes, 15 kinds of queries.
    #[command(after_help = options::EXAMPLES_TSBS)]
    Tsbs(RunOptions),
    /// TPC-C's transactions, data and checks on Millrace, PostgreSQL or MariaDB. Not an audited TPC
    /// result.
    #[command(after_help = tpcc::EXAMPLES)]
    Tpcc(tpcc::TpccOptions),
    /// Inserts of small rows over many connections: the ingestion test of MogDB's MOT.
    #[command(after_help = tpcc::EXAMPLES_ROWLOAD)]
    Rowload(tpcc::RowloadOptions),
    /// Measures the start time of a database by its size, after a stop or a kill, with a cold or
    /// warm page cache.
    #[command(after_help = coldstart::EXAMPLES)]
    Coldstart(coldstart::ColdstartOptions),
    /// Measures when compression pays off (HAKOM TSM's test): changes and reads shares of blocks in
    /// two tables, one of them compressed.
    #[command(after_help = breakeven::EXAMPLES)]
    Breakeven(breakeven::BreakevenOptions),
    /// Writes and queries the samples of an EPICS archiver: the test that the SNS published for
    /// Hypertable and Oracle.
    #[command(after_help = epics::EXAMPLES)]
    Epics(Box<epics::EpicsOptions>),
    /// Writes and reads managed time series by REST: the load and scaling tests that HAKOM publishes
    /// for its TSM, and latencies.
    #[command(after_help = tsm::EXAMPLES)]
    Tsm(Box<tsm::TsmOptions>),
    /// Tries numbers of clients and rows per request on one target, and reports the best
    /// combination.
    #[command(after_help = "Example: millrace bench tune --target questdb --clients 1,2,4,8 --rows 100,1000,10000")]
    Tune(TuneOptions),
    /// Samples the resources of this machine and of the server that listens on PORT, until Ctrl-C.
    #[command(after_help = MONITOR_HELP)]
    Monitor(MonitorOptions),
    /// Compares results: ratios with confidence intervals, and whether the runs did the same work.
    #[command(after_help = results::COMPARE_HELP)]
    Compare(results::CompareOptions),
    /// Renders saved results in other formats.
    #[command(after_help = results::REPORT_HELP)]
    Report(results::ReportOptions),
    /// Lists the targets with their write paths and the verification status of their drivers.
    ListTargets,
    /// Compares our results with published ones, and states for each whether it is comparable.
    Published(PublishedOptions),
    /// Lists the configuration keys with type, default and meaning.
    Keys,
}

#[derive(clap::Args)]
struct PublishedOptions {
    /// Only this source, printed unless --out is given [default: all].
    source: Option<published::Source>,
    /// Results of this tool (`--json` of iot, tpcc, rowload, coldstart, epics, tsm); measurements without
    /// one are "not run here".
    #[arg(long, value_name = "FILE", num_args = 1..)]
    from: Vec<PathBuf>,
    /// Page to write [default: docs/benchmarks/published.md with all sources].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

fn publish(options: &PublishedOptions) -> Result<ExitCode> {
    let default = || PathBuf::from("docs/benchmarks/published.md");
    match options.out.clone().or_else(|| options.source.is_none().then(default)) {
        Some(out) => {
            published::run(options.source, &options.from, &out)?;
            println!("written: {}", out.display());
        }
        None => print!("{}", published::text(options.source, &options.from)?),
    }
    Ok(ExitCode::SUCCESS)
}

impl Command {
    /// Whether the command uses sockets, which need SIGPIPE ignored.
    fn has_sockets(&self) -> bool {
        matches!(
            self,
            Command::Iot(_)
                | Command::Tsbs(_)
                | Command::Tpcc(_)
                | Command::Rowload(_)
                | Command::Coldstart(_)
                | Command::Breakeven(_)
                | Command::Epics(_)
                | Command::Tsm(_)
                | Command::Tune(_)
                | Command::Monitor(_)
        )
    }
}

/// Lets a closed pipe (`… | head`) end the process, as is usual for command-line tools.
fn end_quietly_with_a_pipe() {
    // SAFETY: restores the default action, no handler is installed; no other thread is running yet.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// Runs a command, prints its output, and returns the exit code.
pub fn main(arguments: &Arguments) -> ExitCode {
    if !arguments.command.has_sockets() {
        end_quietly_with_a_pipe();
    }
    let outcome = match &arguments.command {
        Command::Iot(options) => measure("iot", options),
        Command::Tsbs(options) => measure("tsbs", options),
        Command::Tpcc(options) => tpcc::run(options),
        Command::Rowload(options) => tpcc::rowload(options),
        Command::Coldstart(options) => coldstart::run(options),
        Command::Breakeven(options) => breakeven::run(options),
        Command::Epics(options) => epics::run(options),
        Command::Tsm(options) => tsm::run(options),
        Command::Tune(options) => tune("iot", options),
        Command::Monitor(options) => monitor(options),
        Command::Published(options) => publish(options),
        Command::Compare(options) => results::compare(options),
        Command::Report(options) => results::report(options),
        Command::ListTargets => {
            list_targets();
            Ok(ExitCode::SUCCESS)
        }
        Command::Keys => {
            print!("{}", config::help_keys());
            Ok(ExitCode::SUCCESS)
        }
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::from(2)
    })
}

fn list_targets() {
    for entry in DRIVERS {
        println!("{:<16} {}\n{:<16} {}", entry.name, entry.summary, "", entry.proof.text());
    }
    println!(
        "\nA name alone starts a private server on a temporary directory, if the product is installed here\n\
         (cargo xtask tools --peers installs them). NAME://USER:PASSWORD@HOST:PORT/DATABASE?OPTION=VALUE is a\n\
         running server."
    );
}

/// Options of `monitor`.
#[derive(clap::Args)]
struct MonitorOptions {
    /// IoT-benchmark's configuration: its directory or file.
    #[arg(long, value_name = "PATH")]
    config: Option<PathBuf>,
    /// Set a configuration key; `millrace bench keys` lists them.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

const MONITOR_HELP: &str = "\
Keys: PORT (of the server), MONITOR_INTERVAL (s), NET_DEVICE, IOTDB_DATA_DIR, IOTDB_WAL_DIR, IOTDB_SYSTEM_DIR (sizes),
TEST_MAX_TIME (ms), TEST_DATA_PERSISTENCE (None, CSV, MySQL, PostgreSQL) and the TEST_DATA_STORE_ keys.

Examples:
  millrace bench monitor --set PORT=5432 --set IOTDB_DATA_DIR=/var/lib/db
  millrace bench monitor --config conf/ --set TEST_DATA_PERSISTENCE=CSV";

fn monitor(options: &MonitorOptions) -> Result<ExitCode> {
    let config = Config::load(options.config.as_deref(), &options.set)?;
    stop_at_interrupt();
    crate::monitor::run(&config, &INTERRUPTED, &mut std::io::stdout().lock())?;
    Ok(ExitCode::SUCCESS)
}

/// The configuration before [`Config::check`], which needs the target.
fn configuration(options: &RunOptions, workload: &str) -> Result<Config> {
    let mut config = match (&options.config, workload) {
        (None, "iot") => Config::iot_default_run()?,
        (path, name) => Config::load_over(workload::entry(name)?.defaults, path.as_deref(), &[])?,
    };
    for (key, value) in options.settings() {
        config.set(key, &value, Source::CommandLine)?;
    }
    for setting in options.set.iter().filter(|setting| for_one_target(setting).is_none()) {
        config.set_text(setting)?;
    }
    Ok(config)
}

/// Splits a setting `NAME:KEY=VALUE`, which applies to the target `NAME` only.
fn for_one_target(setting: &str) -> Option<(&str, &str)> {
    let key = setting.split('=').next().unwrap_or(setting);
    key.contains(':').then(|| setting.split_once(':')).flatten()
}

/// Runs a workload on every target, `--repeat` times; as coordinator or member of a distributed run
/// if requested.
fn measure(workload: &str, options: &RunOptions) -> Result<ExitCode> {
    let mut config = configuration(options, workload)?;
    if config.benchmark_work_mode == WorkMode::GenerateData {
        return generate::run(workload, options, config);
    }
    if let Some(address) = &options.cluster_listen {
        return cluster::coordinate(workload, options, &config, address);
    }
    let member = cluster::join(workload, options, &mut config)?;
    let outcome = measure_here(workload, options, &config, member.clone());
    cluster::finish(member.as_deref(), outcome)
}

/// Runs a workload on every target from this process.
fn measure_here(
    workload: &str,
    options: &RunOptions,
    config: &Config,
    member: Option<Arc<Member>>,
) -> Result<Vec<RunResult>> {
    let targets = checked_targets(options, config)?;
    stop_at_interrupt();
    let order = Order { member, ..options.order(workload)? };
    let mut results = Vec::new();
    let mut terminal = Terminal::new(options.quiet, config.log_print_interval);
    for round in 0..options.repeat.max(1) {
        // Odd rounds run in reverse order, so that a drift of the machine's speed favours no
        // target.
        let turn: Vec<&Checked> =
            if round % 2 == 0 { targets.iter().collect() } else { targets.iter().rev().collect() };
        for Checked { target, config, warnings } in turn {
            if INTERRUPTED.load(Ordering::Relaxed) {
                break;
            }
            let result = run::run(&order, config, target, &mut terminal);
            terminal.finish();
            let mut result = match result {
                Ok(result) => result,
                Err(error) if targets.len() == 1 => return Err(error.during(&target.name)),
                // A failed target does not stop the others; the report includes its error.
                Err(error) => {
                    eprintln!("error: {}: {error}", target.name);
                    results.push(run::not_run(&order, target, &error));
                    continue;
                }
            };
            result.notes.splice(0..0, warnings.iter().cloned());
            print_result(&result, options.verbose);
            write_matrices(&result, config)?;
            results.push(result);
            // Saved after each target: later targets may take hours or fail.
            options.write(&results)?;
        }
    }
    results::print_side_by_side(&results)?;
    options.write(&results)?;
    if !results.is_empty() {
        options.say_files();
    }
    Ok(results)
}

/// Runs `tune`: a write phase for each combination of clients and rows per request.
fn tune(workload: &str, options: &TuneOptions) -> Result<ExitCode> {
    let base = configuration(&options.run, workload)?;
    let Checked { target, config, .. } = checked_targets(&options.run, &base)?.swap_remove(0);
    stop_at_interrupt();
    let order = options.run.order(workload)?;
    let mut terminal = Terminal::new(options.run.quiet, config.log_print_interval);
    let mut tried: Vec<(u64, u64, RunResult)> = Vec::new();
    let seconds =
        if config.run_seconds > 0.0 && config.source_of("RUN_SECONDS").is_some() { config.run_seconds } else { 5.0 };
    println!(
        "{:>8} {:>8} {:>14} {:>12} {:>12} {:>20}",
        "clients", "rows", "points/s", "p50 ms", "p99 ms", "points/server-CPU-s"
    );
    for clients in &options.clients {
        for rows in &options.rows {
            let settings = [
                ("DATA_CLIENT_NUMBER", clients.to_string()),
                ("BATCH_SIZE_PER_WRITE", rows.to_string()),
                ("RUN_SECONDS", seconds.to_string()),
                ("QUERY_COUNT", "0".to_owned()),
                ("OPERATION_PROPORTION", "1".to_owned()),
            ];
            let config = run::with_settings(&config, &settings)?;
            let result = run::run(&order, &config, &target, &mut terminal)?;
            terminal.finish();
            if INTERRUPTED.load(Ordering::Relaxed) {
                break;
            }
            let writes = &result.phases[0].operations[0];
            let per_cpu = result.server.as_ref().map_or(0.0, |server| server.points_per_cpu_s);
            println!(
                "{clients:>8} {rows:>8} {:>14} {:>12.2} {:>12.2} {:>20}{}{}",
                report::format::whole(writes.throughput as u64),
                writes.latency_ms.median,
                writes.latency_ms.p99,
                report::format::whole(per_cpu as u64),
                if result.phases[0].client_bound { "  client-bound" } else { "" },
                if result.verification.passed || !result.verification.on { "" } else { "  VERIFICATION FAILED" },
            );
            tried.push((*clients, *rows, result));
        }
    }
    let throughput = |result: &RunResult| result.phases[0].operations[0].throughput;
    let verified = tried.iter().filter(|(_, _, result)| result.verification.passed || !result.verification.on);
    if let Some((clients, rows, best)) = verified.max_by(|a, b| throughput(&a.2).total_cmp(&throughput(&b.2))) {
        println!(
            "best: --set DATA_CLIENT_NUMBER={clients} --set BATCH_SIZE_PER_WRITE={rows} ({} points/s)",
            report::format::whole(throughput(best) as u64)
        );
    }
    let results: Vec<RunResult> = tried.into_iter().map(|(_, _, result)| result).collect();
    options.run.write(&results)?;
    options.run.say_files();
    Ok(verdict(&results))
}

/// Options of `tune`.
#[derive(clap::Args)]
struct TuneOptions {
    #[command(flatten)]
    run: RunOptions,
    /// Numbers of clients to try.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [1, 4, 16])]
    clients: Vec<u64>,
    /// Numbers of rows per request to try.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [1, 10, 100, 1000])]
    rows: Vec<u64>,
}

/// A target with its checked configuration.
struct Checked {
    target: Target,
    config: Arc<Config>,
    warnings: Vec<String>,
}

/// The targets of a run with their configurations; prints each warning once.
fn checked_targets(options: &RunOptions, config: &Config) -> Result<Vec<Checked>> {
    let mut printed: Vec<String> = Vec::new();
    let mut checked = Vec::new();
    for (target, mut config) in targets(options, config)? {
        for (name, setting) in options.set.iter().filter_map(|setting| for_one_target(setting)) {
            if name == target.name {
                config.set_text(setting)?;
            }
        }
        let (config, warnings) = target::config_for(&config, &target)?;
        for warning in &warnings {
            if !printed.contains(warning) {
                eprintln!("warning: {warning}");
                printed.push(warning.clone());
            }
        }
        checked.push(Checked { target, config: Arc::new(config), warnings });
    }
    Ok(checked)
}

/// The targets of the command line, or of the configuration file, or a private Millrace; and the
/// second database of a double write.
fn targets(options: &RunOptions, config: &Config) -> Result<Vec<(Target, Config)>> {
    let given = ["DB_SWITCH", "HOST", "PORT"].iter().any(|key| config.source_of(key).is_some());
    let targets: Result<Vec<Target>> = match options.target.as_slice() {
        [] if given => target::of_config(config).map(|target| vec![target]),
        [] => Target::parse("millrace").map(|target| vec![target]),
        named => named.iter().map(|text| Target::parse(text)).collect(),
    };
    let mut targets: Vec<_> = targets?.into_iter().map(|target| (target, config.clone())).collect();
    let second = match targets.as_slice() {
        [(first, _)] if config.is_double_write => Some(target::second(config, first)?),
        _ => None,
    };
    targets.extend(second);
    Ok(targets)
}

fn write_matrices(result: &RunResult, config: &Config) -> Result<()> {
    if config.csv_output && config.source_of("CSV_OUTPUT").is_some() {
        let path = report::csv_output::write(result, &report::home(), &jiff::Zoned::now())?;
        println!("matrices: {}", path.display());
    }
    Ok(())
}

/// Prints a result: the main figures, then the measurements, the verification and the notes.
/// `verbose` adds everything that IoT-benchmark prints.
fn print_result(result: &RunResult, verbose: bool) {
    let target = &result.target;
    println!("\n{} {}: {}", target.product, target.version, matrix::work(result));
    print_figures(result);
    if verbose {
        println!("\n{}", matrix::report(result));
        println!("{}", matrix::statements(result));
    } else {
        println!("\n{}", matrix::brief(result));
    }
    println!("write path: {}; acknowledged {}", target.write_path, target.durability);
    if !target.proof.starts_with("tested with") {
        println!("driver: {}", target.proof);
    }
    if let Some(warning) = busy::warning(result) {
        println!("WARNING: {}: {warning}", busy::TITLE);
    }
    println!("{}", client_bound_line(result));
    let notes = kind_notes(result);
    for (names, note) in &notes {
        println!("{}: {note}", names.join(", "));
    }
    for failure in result.failures.iter().filter(|failure| !is_noted_as_unsupported(failure, &notes)) {
        println!("failed: {} x {} ({}): {}", failure.count, failure.operation, failure.class, failure.first);
    }
    for note in &result.notes {
        println!("note: {note}");
    }
    print_verification(result);
}

/// Distinct notes of operation kinds, each with the names of its kinds.
fn kind_notes(result: &RunResult) -> Vec<(Vec<&str>, &str)> {
    let mut notes: Vec<(Vec<&str>, &str)> = Vec::new();
    for operation in result.phases.iter().flat_map(|phase| &phase.operations) {
        let note = operation.note.as_deref().filter(|note| !note.starts_with("its share in OPERATION_PROPORTION"));
        let Some(note) = note else { continue };
        match notes.iter_mut().find(|(_, other)| *other == note) {
            Some((names, _)) if names.contains(&operation.name.as_str()) => {}
            Some((names, _)) => names.push(&operation.name),
            None => notes.push((vec![&operation.name], note)),
        }
    }
    notes
}

/// Whether a note already reports that the target does not support this operation.
fn is_noted_as_unsupported(failure: &Failure, notes: &[(Vec<&str>, &str)]) -> bool {
    let note = format!("not asked: {}", failure.first);
    notes.iter().any(|(names, other)| *other == note && names.contains(&failure.operation.as_str()))
}

/// States whether the client was the bottleneck, and why.
fn client_bound_line(result: &RunResult) -> String {
    let bound: Vec<&PhaseResult> = result.phases.iter().filter(|phase| phase.client_bound).collect();
    let reason = |phase: Option<&PhaseResult>| phase.map_or_else(String::new, |phase| phase.client_bound_why.clone());
    let Some(first) = bound.first() else { return format!("client-bound: no ({})", reason(result.phases.first())) };
    let names: Vec<&str> = bound.iter().map(|phase| phase.name.as_str()).collect();
    format!("client-bound: yes, in {} ({})", names.join(", "), reason(Some(first)))
}

fn print_figures(result: &RunResult) {
    if !matrix::throughput_shown(result) {
        return;
    }
    let Some(server) = &result.server else { return };
    let whole = report::format::whole;
    if server.points_per_cpu_s > 0.0 {
        print_figure("points per server-CPU-second", &whole(server.points_per_cpu_s as u64));
    }
    if server.settled_bytes > 0 && server.points > 0 {
        let at_rest = if server.settled { "" } else { ", not at rest" };
        let (bytes, points) = (whole(server.settled_bytes), whole(server.points));
        let text = format!("{:.3} ({bytes} bytes, {points} points{at_rest})", server.bytes_per_point);
        print_figure("settled bytes per point", &text);
    }
    if let Some(text) = written_text(server) {
        print_figure("bytes written to disk per point", &text);
    }
    if let Some(lag) = &server.lag_ms {
        print_figure("acknowledged to seen", &run::quantile_line(lag));
    }
    let writes = result.phases.iter().filter_map(|phase| phase.operations.first()).find(|writes| writes.ok > 0);
    if let (Some(writes), Some(fsync)) = (writes, &server.fsync_ms) {
        let tail = |latency: &Latency| {
            let [p999, max] = [latency.p999, latency.max].map(report::format::milliseconds);
            format!("p99.9 {p999}, max {max}")
        };
        let text = format!("{} (fsync by this tool meanwhile: {})", tail(&writes.latency_ms), tail(fsync));
        print_figure("longest writes", &text);
    }
}

/// Prints one figure; the values are aligned.
fn print_figure(name: &str, text: &str) {
    println!("  {name:<31}  {text}");
}

/// Bytes that the server's processes wrote to disk, from `/proc`; `None` if they are unknown.
fn written_text(server: &ServerResult) -> Option<String> {
    if server.written_bytes == 0 || server.points == 0 {
        return None;
    }
    let written = server.written_bytes as f64;
    let stored = server.settled_bytes as f64;
    let factor = if stored > 0.0 { format!(", {:.1} times the size on disk", written / stored) } else { String::new() };
    let bytes = report::format::whole(server.written_bytes);
    Some(format!("{:.3} ({bytes} bytes{factor})", written / server.points as f64))
}

fn print_verification(result: &RunResult) {
    let verification = &result.verification;
    if !verification.on {
        println!("verification: off");
        return;
    }
    let checked: u64 = verification.answers.iter().map(|kind| kind.checked).sum();
    let answers: u64 = verification.answers.iter().map(|kind| kind.answers).sum();
    let undecided: u64 = verification.answers.iter().map(|kind| kind.undecided).sum();
    println!(
        "verification: {}: {} of {} answers checked{}; {} devices: {} points found, {} expected, {} lost, {} too many{}",
        if verification.passed { "PASSED" } else { "FAILED" },
        checked,
        answers,
        if undecided > 0 { format!(" ({undecided} touched by writes of unknown outcome)") } else { String::new() },
        verification.devices,
        report::format::whole(verification.points_found),
        report::format::whole(verification.points_expected),
        report::format::whole(verification.lost),
        report::format::whole(verification.surplus),
        if verification.points_unknown > 0 {
            format!(", {} of unknown outcome", report::format::whole(verification.points_unknown))
        } else {
            String::new()
        }
    );
    for finding in verification.findings.iter().take(10) {
        println!("  {finding}");
    }
    if verification.findings.len() > 10 {
        println!("  … and {} more", verification.findings.len() - 10);
    }
}

fn verdict(results: &[RunResult]) -> ExitCode {
    let failed = |result: &RunResult| result.verification.on && !result.verification.passed;
    if results.iter().any(failed) {
        ExitCode::from(1)
    } else if results.is_empty() || results.iter().any(|result| result.stopped.is_some()) {
        ExitCode::from(3)
    } else if results
        .iter()
        .any(|result| result.phases.iter().flat_map(|phase| &phase.operations).any(|op| op.failed > 0))
    {
        ExitCode::from(4)
    } else {
        ExitCode::SUCCESS
    }
}

/// The first SIGINT or SIGTERM ends the run after the operations in flight; the second exits the
/// process.
fn stop_at_interrupt() {
    extern "C" fn interrupted(_: libc::c_int) {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            // SAFETY: `_exit` may be called from a signal handler.
            unsafe { libc::_exit(130) };
        }
    }
    let handler = interrupted as extern "C" fn(libc::c_int) as libc::sighandler_t;
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only accesses an atomic and calls `_exit`.
        unsafe { libc::signal(signal, handler) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::OperationResult;

    #[test]
    fn note_of_several_kinds_is_printed_once_and_not_repeated_as_a_failure() {
        let operation = |name: &str, note: Option<&str>| OperationResult {
            name: name.to_owned(),
            note: note.map(str::to_owned),
            ..OperationResult::default()
        };
        let operations = vec![
            operation("A", Some("not asked: no sets")),
            operation("B", Some("not asked: no sets")),
            operation("C", Some("all failed: out of memory")),
            operation("D", Some("its share in OPERATION_PROPORTION is 0")),
            operation("E", None),
        ];
        let phase = PhaseResult { operations, ..PhaseResult::default() };
        let result = RunResult { phases: vec![phase.clone(), phase], ..RunResult::default() };
        let notes = kind_notes(&result);
        assert_eq!(notes, [(vec!["A", "B"], "not asked: no sets"), (vec!["C"], "all failed: out of memory")]);
        let failure = |operation: &str, first: &str| Failure {
            operation: operation.to_owned(),
            first: first.to_owned(),
            ..Failure::default()
        };
        assert!(is_noted_as_unsupported(&failure("B", "no sets"), &notes));
        assert!(!is_noted_as_unsupported(&failure("E", "no sets"), &notes), "another kind");
        assert!(
            !is_noted_as_unsupported(&failure("C", "out of memory"), &notes),
            "it was asked, and the count is of interest"
        );
    }

    #[test]
    fn client_bound_line_has_the_reason_of_the_first_bound_phase() {
        let phase = |name: &str, client_bound, why: &str| PhaseResult {
            name: name.to_owned(),
            client_bound,
            client_bound_why: why.to_owned(),
            ..PhaseResult::default()
        };
        let phases = vec![phase("write", false, "7 %"), phase("A", true, "80 %"), phase("B", true, "90 %")];
        let line =
            |phases: &[PhaseResult]| client_bound_line(&RunResult { phases: phases.to_vec(), ..RunResult::default() });
        assert_eq!(line(&phases), "client-bound: yes, in A, B (80 %)");
        assert_eq!(line(&phases[..1]), "client-bound: no (7 %)");
    }

    #[test]
    fn written_bytes_are_shown_per_point_and_relative_to_the_size_on_disk() {
        let seen =
            ServerResult { points: 1_000, written_bytes: 9_500, settled_bytes: 5_000, ..ServerResult::default() };
        let line = |server: &ServerResult| written_text(server).unwrap_or_default();
        assert_eq!(line(&seen), "9.500 (9,500 bytes, 1.9 times the size on disk)");
        assert_eq!(line(&ServerResult { settled_bytes: 0, ..seen.clone() }), "9.500 (9,500 bytes)");
        assert_eq!(line(&ServerResult { written_bytes: 0, ..seen.clone() }), "");
        assert_eq!(line(&ServerResult { points: 0, ..seen }), "");
    }
}
