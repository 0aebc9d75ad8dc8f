//! Command line of `millrace bench breakeven`.

use std::path::PathBuf;
use std::process::ExitCode;

use super::options::say_files;
use super::progress::Terminal;
use super::tpcc::{ServerOptions, each_target, targets, verdict};
use crate::breakeven::{self, Report, Requests};
use crate::error::{Error, Result};
use crate::report::html;
use crate::tpcc::report::write_list;

pub(super) const EXAMPLES: &str = "\
Examples:
  millrace bench breakeven                              ten series of one year on a private Millrace
  millrace bench breakeven --target millrace,postgres --json b.json --html b.html
  millrace bench breakeven --series 2 --days 31 --shares 1,100 --requests bulk

Starts two private servers of each product, one with a compressed table. PostgreSQL's tables have a row
per value, or a packed block per day, which is read, changed and written back.

Exit codes: 0 done, every value read was right; 1 a value was wrong (no figures are shown);
2 not started; 3 stopped early.";

/// Options of `breakeven`.
#[derive(clap::Args)]
pub(super) struct BreakevenOptions {
    /// Products: millrace, postgres (two private servers of each are started), or
    /// NAME://USER:PASSWORD@HOST:PORT/DATABASE; may be given several times.
    #[arg(long, value_name = "TARGET", default_value = "millrace")]
    target: Vec<String>,
    /// Number of series, one value every 15 minutes each.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    series: u32,
    /// Days per series; a day is a block of 96 values, 365 days are 35,040.
    #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=3_650))]
    days: u32,
    /// Percentages of each block's values to change.
    #[arg(long, value_name = "%,…", value_delimiter = ',', default_values_t = [1, 25, 50, 75, 100],
        value_parser = clap::value_parser!(u32).range(1..=100))]
    shares: Vec<u32>,
    /// Blocks per request: `single` sends one block, `bulk` the blocks of all series for
    /// --bulk-days days.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Requests::Single, Requests::Bulk])]
    requests: Vec<Requests>,
    /// Days per bulk request.
    #[arg(long, value_name = "N", default_value_t = 31, value_parser = clap::value_parser!(u32).range(1..=3_650))]
    bulk_days: u32,
    /// Bulk passes per step; each writes and reads all data.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    bulk_passes: u32,
    /// Repetitions of all steps; reports show medians.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Seed of the values.
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

/// Most values of a run: two bytes of memory each, for each table.
const VALUES_MAX: u64 = 1 << 30;

impl BreakevenOptions {
    fn settings(&self) -> Result<breakeven::Settings> {
        let values = u64::from(self.series) * u64::from(self.days) * 96;
        if values > VALUES_MAX {
            return Err(Error::setup(format!(
                "--series {} --days {}: {values} values exceed the limit of {VALUES_MAX}",
                self.series, self.days
            )));
        }
        Ok(breakeven::Settings {
            series: self.series,
            days: self.days as usize,
            shares: self.shares.clone(),
            requests: self.requests.clone(),
            bulk_days: self.bulk_days as usize,
            bulk_passes: self.bulk_passes,
            repeat: self.repeat,
            seed: self.seed,
            placing: self.server.placing()?,
            command: super::cluster::command_line(std::env::args()),
        })
    }

    fn write(&self, reports: &[Report]) -> Result<()> {
        if let Some(path) = &self.json {
            write_list(&reports.iter().map(Report::honest).collect::<Vec<Report>>(), path)?;
        }
        if let Some(path) = &self.html {
            html::breakeven::write(reports, path)?;
        }
        Ok(())
    }
}

/// Runs `millrace bench breakeven`.
pub(super) fn run(options: &BreakevenOptions) -> Result<ExitCode> {
    let settings = options.settings()?;
    let targets = targets(&options.target)?;
    super::stop_at_interrupt();
    let mut terminal = Terminal::new(options.quiet, 10);
    let (reports, not_run) = each_target(&targets, |target, reports: &mut Vec<Report>| {
        let report = breakeven::run(&settings, target, &mut terminal);
        terminal.finish();
        let report = report?;
        print!("{}", report.text());
        reports.push(report);
        options.write(reports)
    });
    if !reports.is_empty() {
        say_files([&options.json, &options.html]);
    }
    Ok(not_run.unwrap_or_else(|| verdict(reports.iter().all(Report::passed), false)))
}
