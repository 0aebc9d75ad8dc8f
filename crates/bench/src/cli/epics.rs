//! Command line of `millrace bench epics`.

use std::path::PathBuf;
use std::process::ExitCode;

use super::options::say_files;
use super::progress::Terminal;
use super::tpcc::{ServerOptions, each_target, targets, verdict};
use crate::epics::{self, Class, PUBLISHED_RATE, Reading, Report, Shape, SpanName};
use crate::error::{Error, Result};
use crate::tpcc::report::write_list;

pub(super) const EXAMPLES: &str = "\
Examples:
  millrace bench epics                                  half an hour on a private Millrace: 1,777,600 samples
  millrace bench epics --spans half-hour,week,month --json e.json --server-dir /mnt/big
                                                        the published spans, one after the other in one table
  millrace bench epics --target millrace,postgres,mariadb
  millrace bench epics --target 'millrace?write=copy'   COPY BINARY instead of Arrow Flight
  millrace bench epics --reading cell                   a published sample is a cell: a quarter of the rows
  millrace bench epics --classes waveform --spans day   bytes per sample of one class
  millrace bench epics generate --count --span day      the generator alone: counts by class, samples/s of one core
  millrace bench epics generate --lines 20
  millrace bench published sns --from e.json            next to the published figures

The table is epics.samples; PostgreSQL and MariaDB have the schema of the RDB archiver in the schema (MariaDB:
database) epics, written by INSERTs of 500 rows. The tables are dropped and created again, and dropped at the end
unless --keep is given. Half an hour takes seconds, the week and the month take minutes to hours; the month needs
about 25 GB of disk on Millrace, and hundreds on the others.

Exit codes: 0 done, every answer was right; 1 an answer was wrong (no figures are shown); 2 not started; 3 stopped
early; 4 queries failed.";

/// Options of `epics`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct EpicsOptions {
    #[command(subcommand)]
    command: Option<EpicsCommand>,
    #[command(flatten)]
    run: RunOptions,
}

#[derive(clap::Subcommand)]
enum EpicsCommand {
    /// Generates samples without a database: counts, rate of the generator, or lines.
    Generate(GenerateOptions),
}

/// The data.
#[derive(clap::Args)]
struct DataOptions {
    /// Number of process variables; the publication does not state it.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    pvs: u32,
    /// Samples per second of all PVs [default: the published 987.6, with `--reading cell` a quarter].
    #[arg(long, value_name = "PER_SECOND")]
    rate: Option<f64>,
    /// Meaning of a published "sample".
    #[arg(long, value_enum, default_value_t = Reading::Sample)]
    reading: Reading,
    /// Classes of values; the rates of the others are left out.
    #[arg(long, value_enum, value_name = "CLASS,…", value_delimiter = ',', default_values_t = Class::ALL)]
    classes: Vec<Class>,
    /// Leave out wrong clocks, repeated and out-of-order stamps, and restarts of IOCs.
    #[arg(long)]
    no_faults: bool,
    /// Seed of the samples.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Seconds of samples in one batch, the unit of writing.
    #[arg(long, value_name = "S", default_value_t = 60.0)]
    batch: f64,
}

impl DataOptions {
    fn shape(&self) -> Result<Shape> {
        let rate = self.rate.unwrap_or(PUBLISHED_RATE / self.reading.cells());
        if !(0.1..=1e6).contains(&rate) {
            return Err(Error::setup(format!("--rate {rate}: expected 0.1 to 1,000,000 samples per second")));
        }
        let mut classes = self.classes.clone();
        classes.sort_unstable();
        classes.dedup();
        Ok(Shape { seed: self.seed, pvs: self.pvs, rate, classes, faults: !self.no_faults })
    }

    /// Length of a batch in nanoseconds.
    fn batch(&self) -> Result<i64> {
        if !(0.001..=60.0).contains(&self.batch) {
            return Err(Error::setup(format!("--batch {}: expected 0.001 to 60 seconds", self.batch)));
        }
        Ok((self.batch * 1e9) as i64)
    }
}

/// Options of `epics generate`.
#[derive(clap::Args)]
struct GenerateOptions {
    /// Count the samples of a span by class, and measure the generator: the default.
    #[arg(long, conflicts_with = "lines")]
    count: bool,
    /// Print the first samples with numbers: time, PV, value, severity, status.
    #[arg(long, value_name = "N")]
    lines: Option<u64>,
    /// Span to count.
    #[arg(long, value_enum, default_value_t = SpanName::HalfHour)]
    span: SpanName,
    #[command(flatten)]
    data: DataOptions,
}

/// Options of a run.
#[derive(clap::Args)]
struct RunOptions {
    /// Products: millrace, postgres, mariadb (a private server of each is started), or
    /// NAME://USER:PASSWORD@HOST:PORT/DATABASE; may be given several times.
    #[arg(long, value_name = "TARGET", default_value = "millrace")]
    target: Vec<String>,
    /// Spans to write, in one table that grows; the queries run at the end of each.
    #[arg(long, value_enum, value_name = "SPAN,…", value_delimiter = ',', default_values_t = [SpanName::HalfHour])]
    spans: Vec<SpanName>,
    #[command(flatten)]
    data: DataOptions,
    /// Connections that write. With one, samples arrive in order of time.
    #[arg(long, short, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    connections: u16,
    /// Repetitions of the queries of one PV; others run less often.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeat: u32,
    /// Seconds of the query of all PVs, from minute 10 on.
    #[arg(long, value_name = "S", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    all_pvs: u32,
    /// Skip the scans of the whole table.
    #[arg(long)]
    no_scan: bool,
    /// Skip the load of blocks of text lines.
    #[arg(long)]
    no_blocks: bool,
    /// Skip rewriting the table in its smallest form at the end.
    #[arg(long)]
    no_compact: bool,
    /// Keep the tables at the end, on a running server.
    #[arg(long)]
    keep: bool,
    /// Write the results to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Print results only, no progress.
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    server: ServerOptions,
}

impl RunOptions {
    fn settings(&self) -> Result<epics::Settings> {
        Ok(epics::Settings {
            shape: self.data.shape()?,
            reading: self.data.reading,
            spans: self.spans.clone(),
            batch: self.data.batch()?,
            connections: usize::from(self.connections),
            repeat: self.repeat,
            all_pvs_s: self.all_pvs,
            scans: !self.no_scan,
            blocks: !self.no_blocks,
            compact: !self.no_compact,
            keep: self.keep,
            placing: self.server.placing()?,
            command: super::cluster::command_line(std::env::args()),
            length: None,
        })
    }

    fn write(&self, reports: &[Report]) -> Result<()> {
        match &self.json {
            Some(path) => write_list(&reports.iter().map(Report::honest).collect::<Vec<Report>>(), path),
            None => Ok(()),
        }
    }
}

/// Runs `millrace bench epics`.
pub(super) fn run(options: &EpicsOptions) -> Result<ExitCode> {
    super::stop_at_interrupt();
    if let Some(EpicsCommand::Generate(options)) = &options.command {
        return generate(options);
    }
    let options = &options.run;
    let settings = options.settings()?;
    let targets = targets(&options.target)?;
    let mut terminal = Terminal::new(options.quiet, 10);
    let (reports, not_run) = each_target(&targets, |target, reports: &mut Vec<Report>| {
        let report = epics::run(&settings, target, &mut terminal);
        terminal.finish();
        let report = report?;
        print!("{}", report.text());
        reports.push(report);
        // Saved after each target: later ones may fail.
        options.write(reports)
    });
    if !reports.is_empty() {
        say_files([&options.json]);
    }
    let failed = reports.iter().any(|report| !report.failures.is_empty());
    Ok(not_run.unwrap_or_else(|| verdict(reports.iter().all(Report::passed), failed)))
}

fn generate(options: &GenerateOptions) -> Result<ExitCode> {
    let settings = epics::DryRun {
        shape: options.data.shape()?,
        span: options.span,
        batch: options.data.batch()?,
        lines: options.lines.unwrap_or(0),
    };
    let mut terminal = Terminal::new(options.lines.is_some(), 10);
    let text = epics::dry_run(&settings, &mut terminal);
    terminal.finish();
    print!("{}", text?);
    Ok(verdict(true, false))
}
