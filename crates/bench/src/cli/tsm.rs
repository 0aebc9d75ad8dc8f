//! Command line of `millrace bench tsm`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use super::options::say_files;
use super::progress::Terminal;
use super::tpcc::{ServerOptions, each_target, targets, verdict};
use crate::error::{Error, Result};
use crate::tpcc::report::write_list;
use crate::tsm::{self, Format, Report, Requests, Service, Test};

pub(super) const EXAMPLES: &str = "\
Examples:
  millrace bench tsm load                               1,500 and 25,000 series on a private Millrace
  millrace bench tsm load --target millrace,postgres-rows,postgres-blocks --format json,arrow --json l.json
  millrace bench tsm scaling --service serial,parallel --repeats 10 --json s.json
  millrace bench tsm scaling --url http://a:7480 --url http://b:7480 --front-ends 1,2
                                                        requests are spread over several running servers
  millrace bench tsm latency --clients 1,16,256 --seconds 10
  millrace bench published hakom --from l.json s.json   next to the published figures

Targets: millrace (REST); postgres-rows and postgres-blocks, two layouts of an application's own tables. A name alone
starts a private server; postgres-rows://USER:PASSWORD@HOST:PORT/DATABASE and --url use running ones, from which the
series are removed at the end.

Exit codes: 0 done, every answer was right; 1 an answer was wrong (no figures are shown); 2 not started; 3 stopped
early; 4 requests failed.";

/// Options of `tsm`.
#[derive(clap::Args)]
pub(super) struct TsmOptions {
    #[command(subcommand)]
    command: TsmCommand,
}

#[derive(clap::Subcommand)]
enum TsmCommand {
    /// Writes and reads large sets of half-hourly series by bulk requests.
    Load(LoadOptions),
    /// Writes and reads quarter-hourly series by single and bulk requests, one after the other and
    /// concurrently, on one or several servers.
    Scaling(ScalingOptions),
    /// Reads days of single series by several numbers of clients.
    Latency(LatencyOptions),
}

/// Options of all tests.
#[derive(clap::Args)]
struct CommonOptions {
    /// Targets: millrace, postgres-rows, postgres-blocks; may be given several times.
    #[arg(long, value_name = "TARGET", default_value = "millrace")]
    target: Vec<String>,
    /// Running server of Millrace, `http://HOST:PORT`; may be given several times. Without one, a
    /// private server is started.
    #[arg(long, value_name = "URL")]
    url: Vec<String>,
    /// Encodings of bodies of Millrace, each in a run of its own.
    #[arg(long, value_enum, value_name = "FORMAT,…", value_delimiter = ',', default_values_t = [Format::Json])]
    format: Vec<Format>,
    /// Longest wait in seconds for an idle server after writes; 0: none.
    #[arg(long, value_name = "S", default_value_t = 120.0)]
    settle: f64,
    /// Seed of the values.
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

/// Options of `tsm load`.
#[derive(clap::Args)]
struct LoadOptions {
    /// Sizes of the sets of series.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [1_500, 25_000],
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    series: Vec<u32>,
    /// Days of each series, 48 values each.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3_650))]
    days: u32,
    /// Numbers of clients that write; each number writes sets of its own.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [5],
        value_parser = clap::value_parser!(u16).range(1..=1_000))]
    writers: Vec<u16>,
    /// Numbers of clients that read.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [5],
        value_parser = clap::value_parser!(u16).range(1..=1_000))]
    readers: Vec<u16>,
    /// Series per request.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=2_000))]
    bulk: u32,
    #[command(flatten)]
    common: CommonOptions,
}

/// Options of `tsm scaling`.
#[derive(clap::Args)]
struct ScalingOptions {
    /// Number of series.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    series: u32,
    /// Days of each series, 96 values each.
    #[arg(long, value_name = "N", default_value_t = 31, value_parser = clap::value_parser!(u32).range(1..=3_650))]
    days: u32,
    /// Requests of one or of several series.
    #[arg(long, value_enum, value_name = "KIND,…", value_delimiter = ',',
        default_values_t = [Requests::Single, Requests::Bulk])]
    requests: Vec<Requests>,
    /// Series per bulk request.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=2_000))]
    bulk: u32,
    /// Concurrent clients of the parallel service.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    users: u16,
    /// Requests one after the other (serial) or concurrently (parallel).
    #[arg(long, value_enum, value_name = "ORDER,…", value_delimiter = ',',
        default_values_t = [Service::Serial, Service::Parallel])]
    service: Vec<Service>,
    /// Repetitions of each step; reports show the median and the range.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    repeats: u32,
    /// Numbers of the servers of --url among which requests are spread [default: all].
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=1_000))]
    front_ends: Vec<u16>,
    #[command(flatten)]
    common: CommonOptions,
}

/// Options of `tsm latency`.
#[derive(clap::Args)]
struct LatencyOptions {
    /// Number of series.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    series: u32,
    /// Days of each series; a request reads one of them, 96 values.
    #[arg(long, value_name = "N", default_value_t = 31, value_parser = clap::value_parser!(u32).range(1..=3_650))]
    days: u32,
    /// Numbers of clients, each with a connection.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [1, 16, 256],
        value_parser = clap::value_parser!(u16).range(1..=10_000))]
    clients: Vec<u16>,
    /// Measured seconds for each number of clients.
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    seconds: f64,
    #[command(flatten)]
    common: CommonOptions,
}

fn counts(numbers: &[u16]) -> Vec<usize> {
    numbers.iter().copied().map(usize::from).collect()
}

/// Most values of one request: its body must stay below the 64 MiB that an HTTP body may have.
const REQUEST_VALUES_MAX: u64 = 1_000_000;

fn check_request(series: u32, values: u32) -> Result<()> {
    let all = u64::from(series) * u64::from(values);
    if all <= REQUEST_VALUES_MAX {
        return Ok(());
    }
    Err(Error::setup(format!(
        "--bulk {series}: {all} values in one request exceed the limit of {REQUEST_VALUES_MAX}; take fewer series or --days"
    )))
}

impl TsmCommand {
    fn common(&self) -> &CommonOptions {
        match self {
            TsmCommand::Load(options) => &options.common,
            TsmCommand::Scaling(options) => &options.common,
            TsmCommand::Latency(options) => &options.common,
        }
    }

    fn test(&self) -> Result<Test> {
        match self {
            TsmCommand::Load(options) => options.test(),
            TsmCommand::Scaling(options) => options.test(),
            TsmCommand::Latency(options) => options.test(),
        }
    }
}

impl LoadOptions {
    fn test(&self) -> Result<Test> {
        check_request(self.bulk, self.days * 48)?;
        Ok(Test::Load {
            series: self.series.clone(),
            days: self.days,
            writers: counts(&self.writers),
            readers: counts(&self.readers),
            bulk: self.bulk,
        })
    }
}

impl ScalingOptions {
    fn test(&self) -> Result<Test> {
        check_request(self.bulk, self.days * 96)?;
        let most = self.common.url.len().max(1);
        if let Some(wrong) = self.front_ends.iter().find(|count| usize::from(**count) > most) {
            return Err(Error::setup(format!(
                "--front-ends {wrong}: expected at most {most}, the number of --url options"
            )));
        }
        Ok(Test::Scaling {
            series: self.series,
            days: self.days,
            requests: self.requests.clone(),
            bulk: self.bulk,
            users: usize::from(self.users),
            services: self.service.clone(),
            repeats: self.repeats,
            front_ends: counts(&self.front_ends),
        })
    }
}

impl LatencyOptions {
    fn test(&self) -> Result<Test> {
        check_request(tsm::LATENCY_BULK, self.days * 96)?;
        Ok(Test::Latency {
            series: self.series,
            days: self.days,
            clients: counts(&self.clients),
            length: duration("--seconds", self.seconds)?,
        })
    }
}

fn duration(option: &str, seconds: f64) -> Result<Duration> {
    let duration =
        Duration::try_from_secs_f64(seconds).ok().filter(|duration| *duration <= Duration::from_secs(86_400));
    duration.ok_or_else(|| Error::setup(format!("{option} {seconds}: expected 0 to 86,400 seconds")))
}

/// `HOST:PORT` of a URL.
fn address(url: &str) -> Result<String> {
    let wrong = || Error::setup(format!("--url {url:?}: expected http://HOST:PORT"));
    let place = url.strip_prefix("http://").ok_or_else(wrong)?.trim_end_matches('/');
    let (host, port) = place.rsplit_once(':').ok_or_else(wrong)?;
    if host.is_empty() || host.contains(['/', '@']) || port.parse::<u16>().is_err() {
        return Err(wrong());
    }
    Ok(place.to_owned())
}

impl CommonOptions {
    fn settings(&self, test: Test) -> Result<tsm::Settings> {
        Ok(tsm::Settings {
            test,
            urls: self.url.iter().map(|url| address(url)).collect::<Result<_>>()?,
            seed: self.seed,
            settle: duration("--settle", self.settle)?,
            placing: self.server.placing()?,
            command: super::cluster::command_line(std::env::args()),
        })
    }

    fn write(&self, reports: &[Report]) -> Result<()> {
        match &self.json {
            Some(path) => write_list(&reports.iter().map(Report::honest).collect::<Vec<Report>>(), path),
            None => Ok(()),
        }
    }
}

/// Runs `millrace bench tsm`.
pub(super) fn run(options: &TsmOptions) -> Result<ExitCode> {
    let common = options.command.common();
    let settings = common.settings(options.command.test()?)?;
    let targets = targets(&common.target)?;
    super::stop_at_interrupt();
    let mut terminal = Terminal::new(common.quiet, 10);
    let (reports, not_run) = each_target(&targets, |target, reports: &mut Vec<Report>| {
        let outcome = tsm::run(&settings, target, &common.format, &mut terminal, &mut |report| {
            print!("{}", report.text());
            reports.push(report);
            // Saved after each run: later ones may fail.
            common.write(reports)
        });
        terminal.finish();
        outcome
    });
    if !reports.is_empty() {
        say_files([&common.json]);
    }
    let failed = reports.iter().any(|report| !report.failures.is_empty());
    Ok(not_run.unwrap_or_else(|| verdict(reports.iter().all(Report::passed), failed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_addresses() {
        assert_eq!(address("http://a:7480/").ok().as_deref(), Some("a:7480"));
        for wrong in ["a:7480", "https://a:7480", "http://a", "http://:7480", "http://a:x", "http://a:1/b:2"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn requests_beyond_the_limit_of_a_body_are_refused() {
        assert!(check_request(100, 31 * 96).is_ok());
        assert!(check_request(2_000, 31 * 96).unwrap_err().message.contains("5952000 values in one request"));
    }
}
