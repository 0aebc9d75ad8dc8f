//! Command lines of `millrace bench tpcc` and `millrace bench rowload`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::ValueEnum;

use super::options::say_files;
use super::progress::Terminal;
use crate::drivers::Target;
use crate::error::{Error, Result};
use crate::report::html;
use crate::run::INTERRUPTED;
use crate::run::target_server::TargetServerOptions;
use crate::tpcc::{self, Draw, Isolation, Mode, report, rowload};

pub(super) const EXAMPLES: &str = "\
Examples:
  millrace bench tpcc                                                  a private Millrace
  millrace bench tpcc --target millrace,postgres --warehouses 10 --clients 1,2,...,768 --html t.html
                                                                       the same data, twice as many clients in each run
  millrace bench tpcc --target postgres --target mariadb --mode one-trip --seconds 60
  millrace bench tpcc --target postgresql://me:pw@host:5432/db --warehouses 100 --keep
  millrace bench tpcc --target postgresql://me:pw@host:5432/db --no-load --retry 3 --isolation serializable
  millrace bench tpcc --target postgresql://me:pw@host:5432/db --check-only
  millrace bench tpcc --target postgres --kill-server                  SIGKILL in mid-run; no acknowledged commit may be lost
  millrace bench tpcc --warehouses 1 --seconds 1.5 --warm-up 0 --kill-server --kills 100

The tables are in the schema (MariaDB: database) tpcc, which is dropped and created again unless --no-load is given,
and dropped at the end unless --keep is given. Failed transactions are counted by SQLSTATE and, without --retry, not
retried. These are not audited TPC results.

Exit codes: 0 done, all conditions hold; 1 a condition failed (no throughput is shown); 2 not started or not supported;
3 stopped early; 4 done and verified, but transactions failed.";

pub(super) const EXAMPLES_ROWLOAD: &str = "\
Examples:
  millrace bench rowload --target postgres
  millrace bench rowload --target postgres --target mariadb --connections 100 --rows 1000000 --json r.json

The table is in the schema (MariaDB: database) tpcc, which is dropped and created again.
Exit codes: 0 done, all rows are there; 1 rows are missing or duplicated; 2 not started; 3 stopped early; 4 inserts failed.";

/// Options of private servers, and of measuring running ones.
#[derive(clap::Args, Clone)]
pub(super) struct ServerOptions {
    /// Parent directory of private servers' data directories.
    #[arg(long, value_name = "DIR")]
    server_dir: Option<PathBuf>,
    /// Set an option of private servers, in the product's own syntax.
    #[arg(long, value_name = "KEY=VALUE")]
    server_set: Vec<String>,
    /// Memory limit of private servers.
    #[arg(long, value_name = "MIB")]
    server_memory: Option<u32>,
    /// Process ID of a running server, to measure its CPU; found by port if the server is on this
    /// machine.
    #[arg(long, value_name = "PID")]
    server_pid: Vec<u32>,
    /// Data directory of a running server, to measure its size.
    #[arg(long, value_name = "DIR")]
    server_data: Vec<PathBuf>,
}

impl ServerOptions {
    pub(super) fn placing(&self) -> Result<TargetServerOptions> {
        let pair = |text: &String| {
            let pair = text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
            pair.ok_or_else(|| Error::setup(format!("--server-set {text:?}: expected KEY=VALUE")))
        };
        Ok(TargetServerOptions {
            parent_dir: self.server_dir.clone(),
            settings: self.server_set.iter().map(pair).collect::<Result<_>>()?,
            memory_mib: self.server_memory,
            disk_mib: None,
            pids: self.server_pid.clone(),
            dirs: self.server_data.clone(),
        })
    }
}

/// Keying and think times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ThinkTime {
    /// Clients send the next transaction as soon as they have an answer.
    Off,
    /// Keying and think times of the standard; use ten clients per warehouse.
    Standard,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

/// Options of `tpcc`.
#[derive(clap::Args)]
pub(super) struct TpccOptions {
    /// Products: millrace, postgres, mariadb (a private server of each is started), or
    /// NAME://USER:PASSWORD@HOST:PORT/DATABASE; may be given several times.
    #[arg(long, value_name = "TARGET", default_value = "millrace")]
    target: Vec<String>,
    /// Warehouses to load, about 100 MB each.
    #[arg(long, short, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(i32).range(1..=100_000))]
    warehouses: i32,
    /// Numbers of client threads, each with a connection; several numbers run one after the other
    /// on the same data. `1,2,...,768` doubles from 2 up to 768.
    #[arg(long, short, visible_alias = "connections", value_name = "N,…", default_value = "16")]
    clients: String,
    /// Measured seconds of each run.
    #[arg(long, value_name = "S", default_value_t = 30.0)]
    seconds: f64,
    /// Seconds before the measured time.
    #[arg(long, value_name = "S", default_value_t = 5.0)]
    warm_up: f64,
    /// Weights of New-Order, Payment, Order-Status, Delivery, Stock-Level.
    #[arg(long, value_name = "N/N/N/N/N", default_value = "45/43/4/4/4", value_parser = mix)]
    mix: [u32; 5],
    /// Method of drawing transactions from the mix.
    #[arg(long, value_enum, default_value_t = Draw::Deck)]
    draw: Draw,
    /// Keying and think times.
    #[arg(long, value_enum, default_value_t = ThinkTime::Off)]
    think_time: ThinkTime,
    /// Way of sending the statements of a transaction.
    #[arg(long, value_enum, default_value_t = Mode::Interactive)]
    mode: Mode,
    /// Isolation level of the transactions.
    #[arg(long, value_enum, default_value_t = Isolation::ReadCommitted)]
    isolation: Isolation,
    /// Declare TPC-C's ten foreign keys.
    #[arg(long, value_enum, default_value_t = Switch::Off)]
    foreign_keys: Switch,
    /// Most retries of a transaction after a conflict (40001, 40P01); retries are counted.
    #[arg(long, value_name = "N", default_value_t = 0)]
    retry: u32,
    /// Keep the tables at the end.
    #[arg(long)]
    keep: bool,
    /// Use existing tables.
    #[arg(long)]
    no_load: bool,
    /// Only check the twelve conditions on existing tables.
    #[arg(long, conflicts_with_all = ["no_load", "kill_server"])]
    check_only: bool,
    /// Kill the server this many times, each time at a different moment of a separate run, and
    /// check everything after each; measures nothing if above 1.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "kill_server", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    kills: u32,
    /// Kill the private server (SIGKILL) in the middle of the measured time and start it again.
    #[arg(long)]
    kill_server: bool,
    /// Check all conditions after each number of clients, not only after the last.
    #[arg(long)]
    check_each: bool,
    /// Connections of the loader [default: twice the number of processors].
    #[arg(long, value_name = "N")]
    load_connections: Option<usize>,
    /// Seed of data and transactions; --no-load needs the seed that the tables were loaded with.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the results to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with charts to this file; it opens without a network.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print results only, no progress.
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    server: ServerOptions,
}

/// Options of `rowload`.
#[derive(clap::Args)]
pub(super) struct RowloadOptions {
    /// Target, as for `tpcc`; may be given several times.
    #[arg(long, value_name = "TARGET", default_value = "millrace")]
    target: Vec<String>,
    /// Connections, a thread each.
    #[arg(long, short, value_name = "N", default_value_t = 500)]
    connections: usize,
    /// Total number of rows, 200 bytes each.
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    rows: u64,
    /// Rows per INSERT, which is one transaction.
    #[arg(long, value_name = "N", default_value_t = 10)]
    rows_per_insert: usize,
    /// Keep the table at the end, on a running server.
    #[arg(long)]
    keep: bool,
    /// Seed of the rows.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the results to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Print results only, no progress.
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    server: ServerOptions,
}

/// Parses `45/43/4/4/4`.
fn mix(text: &str) -> std::result::Result<[u32; 5], String> {
    let wrong = || format!("{text:?}: expected five numbers below 10,000, such as 45/43/4/4/4, not all of them 0");
    let numbers: Option<Vec<u32>> = text.split('/').map(|part| part.parse().ok().filter(|n| *n < 10_000)).collect();
    let mix: [u32; 5] = numbers.and_then(|numbers| numbers.try_into().ok()).ok_or_else(wrong)?;
    if mix == [0; 5] { Err(wrong()) } else { Ok(mix) }
}

/// Converts the seconds of `option` to a duration.
fn duration(option: &str, seconds: f64) -> Result<Duration> {
    let duration =
        Duration::try_from_secs_f64(seconds).ok().filter(|duration| *duration < Duration::from_secs(1 << 30));
    duration.ok_or_else(|| Error::setup(format!("{option} {seconds}: expected 0 to 2^30 seconds")))
}

impl TpccOptions {
    fn settings(&self) -> Result<tpcc::Settings> {
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        Ok(tpcc::Settings {
            warehouses: self.warehouses,
            clients: numbers("--clients", &self.clients)?,
            warm_up: duration("--warm-up", self.warm_up)?,
            length: duration("--seconds", self.seconds)?,
            mix: self.mix,
            draw: self.draw,
            thinks: self.think_time == ThinkTime::Standard,
            mode: self.mode,
            isolation: self.isolation,
            foreign_keys: self.foreign_keys == Switch::On,
            retries: self.retry,
            keep: self.keep,
            no_load: self.no_load,
            check_only: self.check_only,
            kills: self.kills,
            cycle: 0,
            kill_server: self.kill_server,
            check_each: self.check_each,
            load_connections: self.load_connections.unwrap_or(processors * 2).max(1),
            seed: self.seed,
            placing: self.server.placing()?,
            command: super::cluster::command_line(std::env::args()),
        })
    }

    fn write(&self, reports: &[report::Report]) -> Result<()> {
        if let Some(path) = &self.json {
            report::write_json(reports, path)?;
        }
        if let Some(path) = &self.html {
            html::tpcc::write(reports, path)?;
        }
        Ok(())
    }
}

/// Longest list of numbers, and the greatest number.
const NUMBERS_MAX: usize = 1000;
const NUMBER_MAX: usize = 1_000_000;

/// Parses `1,2,5`, or `1,2,...,768`, in which `...` stands for repeated doubling.
fn numbers(option: &str, text: &str) -> Result<Vec<usize>> {
    let wrong = || {
        Error::setup(format!(
            "{option} {text:?}: expected numbers from 1 to {NUMBER_MAX}, such as 1,16,64 or 1,2,...,768"
        ))
    };
    let mut numbers: Vec<usize> = Vec::new();
    let mut doubling = false;
    for part in text.split(',').map(str::trim) {
        if matches!(part, "..." | "…") && !numbers.is_empty() && !doubling {
            doubling = true;
            continue;
        }
        let number = part.parse().ok().filter(|number| (1..=NUMBER_MAX).contains(number)).ok_or_else(wrong)?;
        if std::mem::take(&mut doubling) {
            let doubles = std::iter::successors(numbers.last().map(|last| last * 2), |last| Some(last * 2));
            numbers.extend(doubles.take_while(|double| *double < number));
        }
        numbers.push(number);
    }
    if doubling || numbers.len() > NUMBERS_MAX { Err(wrong()) } else { Ok(numbers) }
}

/// Targets of the command line. An option is an address, or one or more names separated by commas
/// (commas in addresses separate hosts).
pub(super) fn targets(options: &[String]) -> Result<Vec<Target>> {
    let names = |text: &String| -> Vec<String> {
        if text.contains("://") { vec![text.clone()] } else { text.split(',').map(str::to_owned).collect() }
    };
    options.iter().flat_map(names).map(|text| Target::parse(&text)).collect()
}

/// Runs `one`, which adds to the reports, on each target. The error of a target is printed and does
/// not stop the others; it is then in the exit code.
pub(super) fn each_target<R>(
    targets: &[Target],
    mut one: impl FnMut(&Target, &mut Vec<R>) -> Result<()>,
) -> (Vec<R>, Option<ExitCode>) {
    let (mut reports, mut not_run) = (Vec::new(), None);
    for target in targets {
        if INTERRUPTED.load(Ordering::Relaxed) {
            break;
        }
        if let Err(error) = one(target, &mut reports) {
            eprintln!("error: {}: {error}", target.name);
            not_run = Some(ExitCode::from(2));
        }
    }
    (reports, not_run)
}

/// Runs `millrace bench tpcc`.
pub(super) fn run(options: &TpccOptions) -> Result<ExitCode> {
    let settings = options.settings()?;
    let targets = targets(&options.target)?;
    super::stop_at_interrupt();
    let mut terminal = Terminal::new(options.quiet, 10);
    let (reports, not_run) = each_target(&targets, |target, reports: &mut Vec<report::Report>| {
        let report = tpcc::run(&settings, target, &mut terminal);
        terminal.finish();
        let report = report?;
        print!("{}", report.text());
        reports.push(report);
        // Saved after each target: later ones may fail.
        options.write(reports)
    });
    print!("{}", report::side_by_side(&reports));
    if !reports.is_empty() {
        say_files([&options.json, &options.html]);
    }
    let failed =
        |report: &report::Report| report.points.iter().flat_map(|point| &point.kinds).any(|kind| kind.failed > 0);
    let verdict = verdict(reports.iter().all(report::Report::passed), reports.iter().any(failed));
    Ok(not_run.unwrap_or(verdict))
}

/// Runs `millrace bench rowload`.
pub(super) fn rowload(options: &RowloadOptions) -> Result<ExitCode> {
    let settings = rowload::Settings {
        connections: options.connections,
        rows: options.rows,
        rows_per_insert: options.rows_per_insert,
        keep: options.keep,
        seed: options.seed,
        placing: options.server.placing()?,
        command: super::cluster::command_line(std::env::args()),
    };
    let targets = targets(&options.target)?;
    super::stop_at_interrupt();
    let mut terminal = Terminal::new(options.quiet, 10);
    let mut reports = Vec::new();
    for target in &targets {
        let report = rowload::run(&settings, target, &mut terminal);
        terminal.finish();
        let report = report.map_err(|error| error.during(&target.name))?;
        print!("{}", report.text());
        reports.push(report);
        if let Some(path) = &options.json {
            report::write_list(&reports, path)?;
        }
    }
    say_files([&options.json]);
    let failed = reports.iter().any(|report| !report.errors.is_empty());
    Ok(verdict(reports.iter().all(rowload::Report::passed), failed))
}

/// Exit code of a run.
pub(super) fn verdict(passed: bool, failed: bool) -> ExitCode {
    match (passed, INTERRUPTED.load(Ordering::Relaxed), failed) {
        (false, ..) => ExitCode::from(1),
        (_, true, _) => ExitCode::from(3),
        (_, _, true) => ExitCode::from(4),
        _ => ExitCode::SUCCESS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_is_five_numbers() {
        assert_eq!(mix("45/43/4/4/4"), Ok([45, 43, 4, 4, 4]));
        assert_eq!(mix("100/0/0/0/0"), Ok([100, 0, 0, 0, 0]));
        for text in ["", "1/2/3", "0/0/0/0/0", "1/1/1/1/-1", "1/1/1/1/10000", "1/1/1/1/1/1"] {
            assert!(mix(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_list_of_numbers_may_double_up_to_its_last() {
        let cases: [(&str, &[usize]); 5] = [
            ("16", &[16]),
            ("1, 5,3", &[1, 5, 3]),
            ("1,2,...,16", &[1, 2, 4, 8, 16]),
            ("1,…,768", &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 768]),
            ("8,...,4", &[8, 4]),
        ];
        for (text, expected) in cases {
            assert_eq!(numbers("--clients", text).ok().as_deref(), Some(expected), "{text}");
        }
        for text in ["", "0", "1,", "...,4", "1,...", "1,...,...,4", "-1", "1;2", "2000000"] {
            assert!(numbers("--clients", text).is_err(), "{text}");
        }
    }

    #[test]
    fn target_names_are_split_at_commas_and_addresses_are_not() {
        let given = ["millrace,postgres".to_owned(), "mariadb://u:p@a:1,b:2/d".to_owned()];
        let named: Vec<String> = targets(&given).unwrap().into_iter().map(|target| target.name).collect();
        assert_eq!(named, ["millrace", "postgres", "mariadb"]);
        assert_eq!(targets(&given[1..]).unwrap()[0].hosts, ["a:1", "b:2"]);
    }

    #[test]
    fn invalid_durations_are_refused() {
        assert_eq!(duration("--seconds", 1.5).ok(), Some(Duration::from_millis(1500)));
        for seconds in [-1.0, f64::NAN, f64::INFINITY, 1e300] {
            assert!(duration("--seconds", seconds).is_err(), "{seconds}");
        }
    }
}
