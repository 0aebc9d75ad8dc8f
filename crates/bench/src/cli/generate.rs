//! `BENCHMARK_WORK_MODE=generateDataMode`: writes a data set to files instead of running a
//! workload.

use std::process::ExitCode;
use std::sync::Arc;

use super::options::RunOptions;
use super::progress::Terminal;
use super::{INTERRUPTED, stop_at_interrupt};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::report::format::whole;
use crate::{dataset, workload};

/// Writes the data of a workload to `FILE_PATH`. Uses no target.
pub(super) fn run(name: &str, options: &RunOptions, mut config: Config) -> Result<ExitCode> {
    if options.cluster_listen.is_some() || options.cluster_join.is_some() {
        return Err(Error::setup(
            "generateDataMode: --cluster-listen and --cluster-join are not supported; run each tool with its own BENCHMARK_INDEX",
        ));
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
        println!("stopped early: the data set is incomplete and cannot be used");
        return Ok(ExitCode::from(3));
    }
    Ok(ExitCode::SUCCESS)
}
