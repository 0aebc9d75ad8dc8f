//! Command line of `millrace bench tsm`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use super::options::say_files;
use super::progress::Terminal;
use super::tpcc::{ServerOptions, each_target, targets, verdict};
use crate::error::{Error, Result};
use crate::tpcc::report::write_list;
use crate::tsm::{self, Format, MatrixCell, Report, Requests, SeriesKind, Servers, Service, Test};

pub(super) const EXAMPLES: &str = "\
Examples:
  millrace bench tsm load                               1,500 and 25,000 series on a private Millrace
  millrace bench tsm load --target millrace,postgres-rows,postgres-blocks --format json,arrow --json l.json
  millrace bench tsm scaling --service serial,parallel --repeats 10 --json s.json
  millrace bench tsm scaling --front-ends 0,1,2,4       the private store itself, then 1, 2 and 4 front ends of it
  millrace bench tsm scaling --front-ends 1,2,4 --front-end-cpus 0.5
                                                        each front end has half a processor
  millrace bench tsm scaling --matrix 2x8,2x4,1x8,1x4 --matrix-scale 0.125
                                                        servers x cores; here 1, 0.5, 1 and 0.5 processors for each
  millrace bench tsm scaling --kind plain,audit,quotation --requests bulk --service parallel
                                                        cost of history and of versions
  millrace bench tsm scaling --url http://a:7480 --url http://b:7480 --front-ends 1,2
                                                        requests are spread over several running servers
  millrace bench tsm latency --clients 1,16,256 --seconds 10
  millrace bench published hakom --from l.json s.json   next to the published figures

Targets: millrace (REST); postgres-rows and postgres-blocks, two layouts of an application's own tables. A name alone
starts a private server; postgres-rows://USER:PASSWORD@HOST:PORT/DATABASE and --url use running ones, from which the
series are removed at the end. --front-end-cpus and --matrix need control groups, mostly as root.

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
    /// History that the series keep; each kind has series of its own.
    #[arg(long, value_enum, value_name = "KIND,…", value_delimiter = ',', default_values_t = [SeriesKind::Plain])]
    kind: Vec<SeriesKind>,
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
    /// Numbers of front ends among which requests are spread. They are started over the private store;
    /// 0: requests are sent to the store itself. With --url, numbers of its servers [default: 0; with
    /// --url all].
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(0..=1_000))]
    front_ends: Vec<u16>,
    /// CPU quota of each front end in processors, such as 0.5 [default: none].
    #[arg(long, value_name = "N", requires = "front_ends", conflicts_with = "url")]
    front_end_cpus: Option<f64>,
    /// Repeat the published matrix: front ends and cores of each, such as 2x8,2x4,1x8,1x4, with bulk
    /// requests by concurrent clients.
    #[arg(long, value_name = "SxC,…", value_delimiter = ',',
        conflicts_with_all = ["front_ends", "front_end_cpus", "requests", "service", "url"])]
    matrix: Vec<MatrixCell>,
    /// Processors for each core of --matrix.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, requires = "matrix")]
    matrix_scale: f64,
    /// History that the series keep; each kind has series of its own.
    #[arg(long, value_enum, value_name = "KIND,…", value_delimiter = ',', default_values_t = [SeriesKind::Plain])]
    kind: Vec<SeriesKind>,
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
            kinds: self.kind.clone(),
        })
    }
}

impl ScalingOptions {
    fn test(&self) -> Result<Test> {
        check_request(self.bulk, self.days * 96)?;
        let is_matrix = !self.matrix.is_empty();
        Ok(Test::Scaling {
            series: self.series,
            days: self.days,
            requests: if is_matrix { vec![Requests::Bulk] } else { self.requests.clone() },
            bulk: self.bulk,
            users: usize::from(self.users),
            services: if is_matrix { vec![Service::Parallel] } else { self.service.clone() },
            repeats: self.repeats,
            servers: if is_matrix { self.matrix_servers()? } else { self.servers()? },
            matrix_scale: is_matrix.then_some(self.matrix_scale),
            kinds: self.kind.clone(),
        })
    }

    fn matrix_servers(&self) -> Result<Vec<Servers>> {
        self.matrix.iter().map(|cell| cell.at(self.matrix_scale)).collect()
    }

    fn servers(&self) -> Result<Vec<Servers>> {
        let urls = self.common.url.len();
        if self.front_ends.is_empty() {
            return Ok(vec![Servers { count: urls, ..Servers::default() }]);
        }
        if let Some(cpus) = self.front_end_cpus {
            tsm::check_cpus(cpus).map_err(|error| error.during("--front-end-cpus"))?;
        }
        let servers = |count: &u16| match usize::from(*count) {
            wrong if urls > 0 && !(1..=urls).contains(&wrong) => {
                Err(Error::setup(format!("--front-ends {wrong}: expected 1 to {urls}, the number of --url options")))
            }
            // The store itself has no quota.
            0 => Ok(Servers::default()),
            count => Ok(Servers { count, cpus: self.front_end_cpus, cores: None }),
        };
        self.front_ends.iter().map(servers).collect()
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

    #[derive(clap::Parser)]
    struct Scaling {
        #[command(flatten)]
        options: ScalingOptions,
    }

    /// Servers of a scaling test with these options, and the scale of a matrix.
    fn servers(arguments: &[&str]) -> std::result::Result<(Vec<Servers>, Option<f64>), String> {
        let arguments = std::iter::once("scaling").chain(arguments.iter().copied());
        let parsed = <Scaling as clap::Parser>::try_parse_from(arguments).map_err(|error| error.to_string())?;
        match parsed.options.test().map_err(|error| error.message)? {
            Test::Scaling { servers, matrix_scale, .. } => Ok((servers, matrix_scale)),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn front_ends_and_matrices_are_lists_of_servers() {
        let plain = |count| Servers { count, ..Servers::default() };
        let limited = |count| Servers { count, cpus: Some(0.5), cores: None };
        let cell = |count, cores, cpus| Servers { count, cpus: Some(cpus), cores: Some(cores) };
        let two_urls = ["--url", "http://a:1", "--url", "http://b:1"];
        let cases: [(&[&str], Vec<Servers>, Option<f64>); 6] = [
            (&[], vec![plain(0)], None),
            (&two_urls, vec![plain(2)], None),
            (&["--front-ends", "0,1,4"], vec![plain(0), plain(1), plain(4)], None),
            (&["--front-ends", "0,2", "--front-end-cpus", "0.5"], vec![plain(0), limited(2)], None),
            (&["--matrix", "2x8,1x4"], vec![cell(2, 8, 8.0), cell(1, 4, 4.0)], Some(1.0)),
            (&["--matrix", "2x8", "--matrix-scale", "0.125"], vec![cell(2, 8, 1.0)], Some(0.125)),
        ];
        for (arguments, expected, scale) in cases {
            assert_eq!(servers(arguments), Ok((expected, scale)), "{arguments:?}");
        }
    }

    #[test]
    fn contradictory_options_of_servers_are_refused() {
        let url = ["--url", "http://a:1"];
        let cases: [(&[&str], &str); 9] = [
            (&["--front-ends", "2", url[0], url[1]], "--front-ends 2: expected 1 to 1"),
            (&["--front-ends", "0", url[0], url[1]], "--front-ends 0: expected 1 to 1"),
            (&["--front-ends", "1", "--front-end-cpus", "0.01"], "--front-end-cpus: a quota of 0.01 processors"),
            (&["--front-ends", "1", "--front-end-cpus", "NaN"], "--front-end-cpus: a quota of NaN processors"),
            (&["--front-end-cpus", "1"], "--front-ends"),
            (&["--matrix", "2x8", "--front-ends", "1"], "cannot be used with"),
            (&["--matrix", "2x8", "--requests", "single"], "cannot be used with"),
            (
                &["--matrix", "2x8", "--matrix-scale", "0.001"],
                "2x8 at --matrix-scale 0.001: a quota of 0.008 processors",
            ),
            (&["--matrix-scale", "0.5"], "--matrix"),
        ];
        for (arguments, expected) in cases {
            let error = servers(arguments).unwrap_err();
            assert!(error.contains(expected), "{arguments:?}: {error}");
        }
    }

    #[test]
    fn requests_beyond_the_limit_of_a_body_are_refused() {
        assert!(check_request(100, 31 * 96).is_ok());
        assert!(check_request(2_000, 31 * 96).unwrap_err().message.contains("5952000 values in one request"));
    }
}
