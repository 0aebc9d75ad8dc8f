//! `millrace write`: loads a file into a running server, with a progress bar.
//!
//! CSV is sent by COPY, line protocol by HTTP, both in batches with a commit each: a file larger than the server's
//! memory can be loaded, and an error says which lines were stored.

mod csv;
mod infer;
mod line;
mod source;
mod times;

use std::path::PathBuf;
use std::time::Instant;

use crate::config::Given;
use crate::failure::Failure;
use crate::size;
use source::Source;

/// Loads a CSV or line-protocol file into a running server.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  millrace write --file readings.csv --table readings
  millrace write --file readings.csv.gz --table readings --create --key device,site --null NA
  millrace write --file metrics.lp --precision ms
  millrace write --file air.csv --table air --create --time year,month,day,hour --timezone Asia/Shanghai --null NA
  millrace write --file log.csv --table log --create --time stamp --time-format '%d.%m.%Y %H:%M'
  zcat old.lp.gz | millrace write --file - --format lp

CSV needs a header line; its names are the table's columns, in any order. With --create the
table is created if it does not exist, and the statement is printed: types are inferred from the rows, the
time column from --time or the first column with times. Without times a rows table is created.")]
pub(crate) struct Arguments {
    /// File to load, gzip or plain; `-` is standard input.
    #[arg(long, short = 'f', value_name = "FILE")]
    file: PathBuf,
    /// Format of the file [default: by the file's name].
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Table to load CSV into, `schema.table` or `table`.
    #[arg(long, short = 't', value_name = "TABLE")]
    table: Option<String>,
    /// Create the table if it does not exist (line protocol always does).
    #[arg(long)]
    create: bool,
    /// With --create: the columns that name a series, separated by commas; the primary key of a table without time.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', requires = "create")]
    key: Vec<String>,
    /// The time column, or several columns that form the time: year,month,day,hour or date,clock.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    time: Vec<String>,
    /// Format of times: a strptime pattern such as '%d.%m.%Y %H:%M', or s, ms, us, ns for numbers since 1970.
    #[arg(long, value_name = "FORMAT")]
    time_format: Option<String>,
    /// Time zone of times without an offset, for example Europe/Berlin [default: UTC].
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
    /// With --create: create a rows table, without time.
    #[arg(long, requires = "create", conflicts_with_all = ["time", "time_format"])]
    no_time: bool,
    /// CSV columns to skip, separated by commas.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    skip: Vec<String>,
    /// CSV text for a missing value, in addition to the empty one.
    #[arg(long, value_name = "TEXT", default_value = "")]
    null: String,
    /// CSV field separator.
    #[arg(long, value_name = "CHAR", default_value = ",")]
    delimiter: String,
    /// Line protocol: unit of the timestamps (ns, us, ms or s) [default: ns].
    #[arg(long, value_parser = ["ns", "us", "ms", "s"])]
    precision: Option<String>,
    /// Line protocol: schema to write to.
    #[arg(long, value_name = "NAME", default_value = "public")]
    schema: String,
    /// Rows per commit.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    batch: u64,
    /// Connection string of the server, instead of --pg (CSV).
    #[arg(long, value_name = "URL", env = "MILLRACE_URL")]
    url: Option<String>,
    /// No progress bar.
    #[arg(long, short = 'q')]
    quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Comma-separated values with a header.
    Csv,
    /// Line protocol.
    Lp,
}

/// Totals of a load.
#[derive(Default)]
struct Loaded {
    rows: u64,
    batches: u64,
    /// The table, or tables with their rows.
    into: String,
    /// A sentence about replaced rows; `None` if there were none or the number is unknown.
    replaced: Option<String>,
}

/// Loads the file and prints totals.
pub(crate) fn run(given: &Given, arguments: &Arguments) -> Result<(), Failure> {
    let format = format(arguments)?;
    let mut source = Source::open(&arguments.file, arguments.quiet)?;
    let started = Instant::now();
    let result = match format {
        Format::Csv => csv::load(given, arguments, &mut source),
        Format::Lp => line::load(given, arguments, &mut source),
    };
    source.finish();
    let loaded = result?;
    let seconds = started.elapsed().as_secs_f64().max(1e-9);
    println!(
        "{}: {} in {}, {} read in {seconds:.2} s ({} rows/s)",
        loaded.into,
        size::count(loaded.rows, "row"),
        size::count(loaded.batches, "commit"),
        size::show(source.bytes()),
        size::group((loaded.rows as f64 / seconds) as u64)
    );
    if let Some(replaced) = loaded.replaced {
        println!("{replaced}");
    }
    Ok(())
}

fn format(arguments: &Arguments) -> Result<Format, Failure> {
    if let Some(format) = arguments.format {
        return Ok(format);
    }
    let name = arguments.file.to_string_lossy().to_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    match name.rsplit('.').next() {
        Some("csv") => Ok(Format::Csv),
        Some("lp" | "line" | "influx") => Ok(Format::Lp),
        _ => Err(Failure::usage(format!("cannot detect the format of {}", arguments.file.display()))
            .with_hint("give the format: --format csv or --format lp")),
    }
}
