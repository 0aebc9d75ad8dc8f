//! Commands on saved results: `compare` and `report`.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::error::{Error, Result};
use crate::report::compare::{self, Comparison, Source};
use crate::report::json::Report;
use crate::report::read::Reports;
use crate::report::{html, hyper};
use crate::result::RunResult;
use crate::tpcc::report::side_by_side;

pub(super) const COMPARE_HELP: &str = "\
The first target of the first file is the base of all ratios. Runs of a file are grouped by target and settings; files separated
by a comma are repeats of each other. Intervals need at least 3 runs of each, better 5 (--repeat 5).

Examples:
  millrace bench compare r.json                       the targets of one file
  millrace bench compare old.json new.json --html c.html
  millrace bench compare old1.json,old2.json new.json

Exit codes: 0 comparable; 1 different work, durability or machine, or a run failed verification; 2 a file cannot be read.";

/// Options of `compare`.
#[derive(clap::Args)]
pub(super) struct CompareOptions {
    /// Report files written by `--json`.
    #[arg(required = true, value_name = "REPORT.JSON")]
    reports: Vec<String>,
    /// Write the comparison with charts to this file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Runs `millrace bench compare`.
pub(super) fn compare(options: &CompareOptions) -> Result<ExitCode> {
    let sources = compare::read(&options.reports)?;
    let comparison = Comparison::new(compare::sides(&sources))?;
    print!("{}", comparison.text());
    if let Some(path) = &options.html {
        html::write_comparison(&comparison, path)?;
        super::options::say(path);
    }
    Ok(if comparison.obstacles.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Prints a comparison of the runs that have just ended, if there are several.
pub(super) fn print_side_by_side(results: &[RunResult]) -> Result<()> {
    let source = [Source { name: "this run".to_owned(), runs: results.to_vec() }];
    let sides = compare::sides(&source);
    if sides.len() > 1 {
        println!("\n{}", Comparison::new(sides)?.text());
    }
    Ok(())
}

pub(super) const REPORT_HELP: &str = "\
Examples:
  millrace bench report r.json --html r.html
  millrace bench report millrace.json postgres.json --html t.html      tpcc or coldstart: targets on one page
  millrace bench report monday.json tuesday.json --hyper week.hyper     for Tableau; needs Python's tableauhyperapi";

/// Options of `report`.
#[derive(clap::Args)]
pub(super) struct ReportOptions {
    /// Report files written by `--json`; their runs are combined.
    #[arg(required = true, value_name = "REPORT.JSON")]
    reports: Vec<PathBuf>,
    /// Write a report with charts to this file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write tables for Tableau to this file.
    #[arg(long, value_name = "FILE")]
    hyper: Option<PathBuf>,
    /// Python with the package tableauhyperapi, for --hyper.
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
}

/// Runs `millrace bench report`.
pub(super) fn report(options: &ReportOptions) -> Result<ExitCode> {
    let reports = Reports::read(&options.reports)?;
    if options.html.is_none() && options.hyper.is_none() {
        return Err(Error::setup("nothing to write: expected --html FILE or --hyper FILE"));
    }
    if reports.kinds() > 1 {
        return Err(Error::setup(
            "reports of different kinds: expected only iot and tsbs, only tpcc, only coldstart, or only breakeven",
        ));
    }
    if reports.runs.is_empty() {
        return of_transactions(options, &reports);
    }
    let report = Report::new(reports.runs);
    if let Some(path) = &options.html {
        html::write(&report, path)?;
        super::options::say(path);
    }
    if let Some(path) = &options.hyper {
        hyper::write(&report, path, options.python.as_deref())?;
        super::options::say(path);
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of `tpcc`, `coldstart` or `breakeven` results.
fn of_transactions(options: &ReportOptions, reports: &Reports) -> Result<ExitCode> {
    let Some(path) = options.html.as_ref().filter(|_| options.hyper.is_none()) else {
        return Err(Error::setup("--hyper: expected reports of iot or tsbs"));
    };
    if !reports.tpcc.is_empty() {
        print!("{}", side_by_side(&reports.tpcc));
        html::tpcc::write(&reports.tpcc, path)?;
    } else if !reports.coldstart.is_empty() {
        html::coldstart::write(&reports.coldstart, path)?;
    } else if !reports.breakeven.is_empty() {
        html::breakeven::write(&reports.breakeven, path)?;
    } else {
        return Err(Error::setup("--html: rowload, epics and tsm reports have no page"));
    }
    super::options::say(path);
    Ok(ExitCode::SUCCESS)
}
