//! `millrace bench tpcc` and `millrace bench rowload`: their options.

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
  millrace bench tpcc                                                  this database on a private server
  millrace bench tpcc --target millrace,postgres --warehouses 10 --clients 1,2,...,768 --html t.html
                                                                       the same data, twice as many clients in each run
  millrace bench tpcc --target postgres --target mariadb --mode one-trip --seconds 60
  millrace bench tpcc --target postgresql://me:pw@host:5432/db --warehouses 100 --keep
  millrace bench tpcc --target postgresql://me:pw@host:5432/db --no-load --retry 3 --isolation serializable
  millrace bench tpcc --target postgresql://me:pw@host:5432/db --check-only
  millrace bench tpcc --target postgres --kill-server                  SIGKILL in mid-run; nothing acknowledged may be lost
  millrace bench tpcc --warehouses 1 --seconds 1.5 --warm-up 0 --kill-server --kills 100

The tables are in the schema (MariaDB: database) tpcc, which is dropped and created anew unless --no-load says otherwise,
and dropped at the end unless --keep does. Failed transactions are counted by SQLSTATE and, without --retry, not tried
again. These are not audited TPC results.

Exit codes: 0 done, all conditions hold; 1 a condition failed (no throughput is shown); 2 not begun or not possible;
3 stopped before its end; 4 done and verified, but transactions failed.";

pub(super) const EXAMPLES_ROWLOAD: &str = "\
Examples:
  millrace bench rowload --target postgres
  millrace bench rowload --target postgres --target mariadb --connections 100 --rows 1000000 --json r.json

The table is in the schema (MariaDB: database) tpcc, which is dropped and created anew.
Exit codes: 0 done, all rows are there; 1 rows are missing or too many; 2 not begun; 3 stopped before its end; 4 inserts failed.";

/// Private servers, and those that are there.
#[derive(clap::Args, Clone)]
pub(super) struct ServerOptions {
    /// Where private servers get their directories.
    #[arg(long, value_name = "DIR")]
    server_dir: Option<PathBuf>,
    /// A setting of private servers in the product's own words.
    #[arg(long, value_name = "KEY=VALUE")]
    server_set: Vec<String>,
    /// Memory private servers are told to use.
    #[arg(long, value_name = "MIB")]
    server_memory: Option<u32>,
    /// Process of a server that was not started here, to measure its CPU; found by its port if on this machine.
    #[arg(long, value_name = "PID")]
    server_pid: Vec<u32>,
    /// Data directory of a server that was not started here, to measure its size.
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

/// Keying and thinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ThinkTime {
    /// Clients send as soon as they have an answer.
    Off,
    /// As the standard has it: use ten clients a warehouse.
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
    /// Warehouses to load: about 100 MB each.
    #[arg(long, short, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(i32).range(1..=100_000))]
    warehouses: i32,
    /// Client threads, a connection each; several numbers run one after the other on the same data. `1,2,...,768` doubles
    /// from 2 on until 768.
    #[arg(long, short, visible_alias = "connections", value_name = "N,…", default_value = "16")]
    clients: String,
    /// Measured time of each run.
    #[arg(long, value_name = "S", default_value_t = 30.0)]
    seconds: f64,
    /// Time before it that is not measured.
    #[arg(long, value_name = "S", default_value_t = 5.0)]
    warm_up: f64,
    /// Shares of New-Order, Payment, Order-Status, Delivery, Stock-Level.
    #[arg(long, value_name = "N/N/N/N/N", default_value = "45/43/4/4/4", value_parser = mix)]
    mix: [u32; 5],
    /// How transactions are drawn from the mix.
    #[arg(long, value_enum, default_value_t = Draw::Deck)]
    draw: Draw,
    /// Keying and thinking.
    #[arg(long, value_enum, default_value_t = ThinkTime::Off)]
    think_time: ThinkTime,
    /// How a transaction goes over the wire.
    #[arg(long, value_enum, default_value_t = Mode::Interactive)]
    mode: Mode,
    /// Isolation of the transactions.
    #[arg(long, value_enum, default_value_t = Isolation::ReadCommitted)]
    isolation: Isolation,
    /// Declare the ten foreign keys.
    #[arg(long, value_enum, default_value_t = Switch::Off)]
    foreign_keys: Switch,
    /// Try a transaction again so often after a conflict (40001, 40P01); each retry is counted.
    #[arg(long, value_name = "N", default_value_t = 0)]
    retry: u32,
    /// Leave the tables there at the end.
    #[arg(long)]
    keep: bool,
    /// Use the tables that are there.
    #[arg(long)]
    no_load: bool,
    /// Check the twelve conditions on the tables that are there, and nothing else.
    #[arg(long, conflicts_with_all = ["no_load", "kill_server"])]
    check_only: bool,
    /// Kill it so often, each time at another moment of a run of its own, and check everything after each; nothing is
    /// measured then.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "kill_server", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    kills: u32,
    /// Kill the private server (SIGKILL) in the middle of the measured time and start it again.
    #[arg(long)]
    kill_server: bool,
    /// Check all conditions after each number of clients, not after the last one alone.
    #[arg(long)]
    check_each: bool,
    /// Connections that load; as many as there are processors, twice, if not said.
    #[arg(long, value_name = "N")]
    load_connections: Option<usize>,
    /// Seed of data and transactions; --no-load needs the one that the tables were loaded with.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the results to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with charts to this file; it opens without a network.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// No progress, results only.
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    server: ServerOptions,
}

/// Options of `rowload`.
#[derive(clap::Args)]
pub(super) struct RowloadOptions {
    /// Product, as of `tpcc`; may be given several times.
    #[arg(long, value_name = "TARGET", default_value = "millrace")]
    target: Vec<String>,
    /// Connections, a thread each.
    #[arg(long, short, value_name = "N", default_value_t = 500)]
    connections: usize,
    /// Rows in all, of 200 bytes.
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    rows: u64,
    /// Rows of one statement, which is a transaction.
    #[arg(long, value_name = "N", default_value_t = 10)]
    rows_per_insert: usize,
    /// Leave the table there at the end (a server that is there).
    #[arg(long)]
    keep: bool,
    /// Seed of the rows.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the results to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// No progress, results only.
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    server: ServerOptions,
}

/// `45/43/4/4/4`.
fn mix(text: &str) -> std::result::Result<[u32; 5], String> {
    let wrong = || format!("{text:?}: expected five numbers below 10,000, such as 45/43/4/4/4, not all of them 0");
    let numbers: Option<Vec<u32>> = text.split('/').map(|part| part.parse().ok().filter(|n| *n < 10_000)).collect();
    let mix: [u32; 5] = numbers.and_then(|numbers| numbers.try_into().ok()).ok_or_else(wrong)?;
    if mix == [0; 5] { Err(wrong()) } else { Ok(mix) }
}

/// Seconds that make a duration.
fn duration(option: &str, seconds: f64) -> Result<Duration> {
    let duration =
        Duration::try_from_secs_f64(seconds).ok().filter(|duration| *duration < Duration::from_secs(1 << 30));
    duration.ok_or_else(|| Error::setup(format!("{option} {seconds}: expected seconds, not negative")))
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

/// Most numbers of a list, and the greatest of them.
const NUMBERS_MAX: usize = 1000;
const NUMBER_MAX: usize = 1_000_000;

/// `1,2,5` or, with what lies between twice as much each time, `1,2,...,768`.
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

/// The targets of a command line: each option one, or several names with commas between them. Addresses have commas of
/// their own.
pub(super) fn targets(options: &[String]) -> Result<Vec<Target>> {
    let names = |text: &String| -> Vec<String> {
        if text.contains("://") { vec![text.clone()] } else { text.split(',').map(str::to_owned).collect() }
    };
    options.iter().flat_map(names).map(|text| Target::parse(&text)).collect()
}

/// Runs `one` on each target, which adds to the reports. A target that fails is told, and the others run nevertheless;
/// the exit code then.
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

/// `millrace bench tpcc`.
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
        // Whatever becomes of the targets that follow.
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

/// `millrace bench rowload`.
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

/// The exit code.
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
    fn targets_are_named_one_by_one_or_with_commas_and_addresses_keep_theirs() {
        let given = ["millrace,postgres".to_owned(), "mariadb://u:p@a:1,b:2/d".to_owned()];
        let named: Vec<String> = targets(&given).unwrap().into_iter().map(|target| target.name).collect();
        assert_eq!(named, ["millrace", "postgres", "mariadb"]);
        assert_eq!(targets(&given[1..]).unwrap()[0].hosts, ["a:1", "b:2"]);
    }

    #[test]
    fn durations_that_are_none_are_refused() {
        assert_eq!(duration("--seconds", 1.5).ok(), Some(Duration::from_millis(1500)));
        for seconds in [-1.0, f64::NAN, f64::INFINITY, 1e300] {
            assert!(duration("--seconds", seconds).is_err(), "{seconds}");
        }
    }
}
