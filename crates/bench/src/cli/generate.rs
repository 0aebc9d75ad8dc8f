//! `BENCHMARK_WORK_MODE=generateDataMode`: a data set in files instead of a run.

use std::process::ExitCode;
use std::sync::Arc;

use super::options::RunOptions;
use super::progress::Terminal;
use super::{INTERRUPTED, stop_at_interrupt};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::report::format::whole;
use crate::{dataset, workload};

/// Writes the data of a workload to `FILE_PATH`. No target takes part.
pub(super) fn run(name: &str, options: &RunOptions, mut config: Config) -> Result<ExitCode> {
    if options.cluster_listen.is_some() || options.cluster_join.is_some() {
        return Err(Error::setup("generateDataMode: every tool writes the files of its own BENCHMARK_INDEX by itself"));
    }
    for warning in config.check()? {
        eprintln!("warning: {warning}");
    }
    let config = Arc::new(config);
    let workload = workload::open(name, &config)?;
    stop_at_interrupt();
    let mut terminal = Terminal::new(options.quiet, config.log_print_interval);
    let dir = dataset::directory(&config);
    let written = dataset::write(&config, &*workload, &dir, &INTERRUPTED, &mut terminal)?;
    terminal.finish();
    let [files, points, bytes] = [written.files, written.points, written.bytes].map(whole);
    println!("written: {}: {points} points in {files} files of {bytes} bytes", dir.display());
    if !written.complete {
        println!("stopped before its end: the data set is not complete and will not be read");
        return Ok(ExitCode::from(3));
    }
    Ok(ExitCode::SUCCESS)
}
