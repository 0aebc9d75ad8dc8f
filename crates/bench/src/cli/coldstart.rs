//! Command line of `millrace bench coldstart`.

use std::path::PathBuf;
use std::process::ExitCode;

use super::options::say_files;
use super::progress::Terminal;
use super::tpcc::{ServerOptions, each_target, targets, verdict};
use crate::error::{Error, Result};
use crate::measure::page_cache::Method;
use crate::report::html;
use crate::tpcc::coldstart::{self, Cache, Report, Stop};
use crate::tpcc::report::write_list;

pub(super) const EXAMPLES: &str = "\
Examples:
  millrace bench coldstart                              1, 2, 4 and 8 GB of rows on a private Millrace
  millrace bench coldstart --target millrace,postgres --sizes 1,2,4,8 --json c.json --html c.html
  millrace bench coldstart --sizes 0.5 --stop kill --tail 0.5    replays half as many rows from the log
  millrace bench coldstart --sizes 16 --server-dir /mnt/nvme --secondary-index --repeat 5
  millrace bench coldstart --drop-cache files           keeps other files in the page cache

Loads a private server to each size in turn, stops it (or kills it with commits after the last
checkpoint), evicts its files from the page cache (cold) or reads them into it (warm), and starts it
again. Before each start the files are read without the server, as the baseline of the disk.

Exit codes: 0 done, every answer was right; 1 an answer was wrong (no times are shown); 2 not
started, for example for lack of disk space; 3 stopped early.";

/// Pages to evict from the page cache before a cold start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum DropCache {
    /// The machine's pages if permitted, otherwise the server's files.
    Auto,
    /// All pages: writes 3 to /proc/sys/vm/drop_caches, which requires root.
    Machine,
    /// Only the pages of the server's files.
    Files,
}

/// Options of `coldstart`.
#[derive(clap::Args)]
pub(super) struct ColdstartOptions {
    /// Products: millrace, postgres; a private server of each is started.
    #[arg(long, value_name = "NAME,…", default_value = "millrace")]
    target: Vec<String>,
    /// Sizes of the table in GB (10^9 bytes), in rows of 200 bytes; the table grows from each size
    /// to the next.
    #[arg(long, value_name = "GB,…", value_delimiter = ',', default_values_t = [1.0, 2.0, 4.0, 8.0])]
    sizes: Vec<f64>,
    /// Starts of each kind at each size; reports show the median and the range.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Way of stopping the server before each start.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Stop::Clean, Stop::Kill])]
    stop: Vec<Stop>,
    /// Whether the server's files are in the page cache at the start.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Cache::Cold, Cache::Warm])]
    cache: Vec<Cache>,
    /// Method of evicting files from the page cache.
    #[arg(long, value_enum, default_value_t = DropCache::Auto)]
    drop_cache: DropCache,
    /// With `--stop kill`: rows committed after the last checkpoint, as a fraction of the rows in
    /// the table.
    #[arg(long, value_name = "SHARE", default_value_t = 0.05)]
    tail: f64,
    /// Create a secondary index.
    #[arg(long)]
    secondary_index: bool,
    /// Connections of the loader [default: twice the number of processors].
    #[arg(long, value_name = "N")]
    load_connections: Option<usize>,
    /// Seed of the rows.
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

/// Converts sizes in GB to bytes; each must be greater than the one before.
fn sizes(gb: &[f64]) -> Result<Vec<u64>> {
    let wrong = |size: &f64| {
        Error::setup(format!("--sizes {size}: expected gigabytes (10^9 bytes) above 0, in increasing order"))
    };
    let bytes = |size: &f64| (*size * 1e9 >= 1.0 && *size < 1e9).then_some((*size * 1e9) as u64);
    let sizes: Vec<u64> = gb.iter().map(|size| bytes(size).ok_or_else(|| wrong(size))).collect::<Result<_>>()?;
    match sizes.windows(2).position(|pair| pair[0] >= pair[1]) {
        Some(at) => Err(wrong(&gb[at + 1])),
        None => Ok(sizes),
    }
}

impl ColdstartOptions {
    fn settings(&self) -> Result<coldstart::Settings> {
        if !(0.0..=10.0).contains(&self.tail) {
            return Err(Error::setup(format!("--tail {}: expected a share of the rows, 0 to 10", self.tail)));
        }
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        Ok(coldstart::Settings {
            sizes: sizes(&self.sizes)?,
            repeat: self.repeat,
            stops: self.stop.clone(),
            caches: self.cache.clone(),
            tail: self.tail,
            secondary_index: self.secondary_index,
            method: match self.drop_cache {
                DropCache::Auto => Method::possible(),
                DropCache::Machine => Method::Machine,
                DropCache::Files => Method::Files,
            },
            load_connections: self.load_connections.unwrap_or(processors * 2).max(1),
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
            html::coldstart::write(reports, path)?;
        }
        Ok(())
    }
}

/// Runs `millrace bench coldstart`.
pub(super) fn run(options: &ColdstartOptions) -> Result<ExitCode> {
    let settings = options.settings()?;
    let targets = targets(&options.target)?;
    super::stop_at_interrupt();
    let mut terminal = Terminal::new(options.quiet, 10);
    let (reports, not_run) = each_target(&targets, |target, reports: &mut Vec<Report>| {
        let report = coldstart::run(&settings, target, &mut terminal);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_increasing_gigabytes() {
        assert_eq!(sizes(&[0.05, 1.0]).ok(), Some(vec![50_000_000, 1_000_000_000]));
        for wrong in [&[0.0][..], &[-1.0], &[f64::NAN], &[1e300], &[2.0, 1.0], &[1.0, 1.0]] {
            assert!(sizes(wrong).is_err(), "{wrong:?}");
        }
    }
}
