//! `millrace inspect` and `millrace check`: contents and integrity of a directory's files.
//!
//! Both only read and take no lock, so they work next to a running server and on a directory that does not open.
//! Next to a running server the last log record may look like a torn tail.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::{Manifest, inspect};
use env::{Env, RealEnv};
use model::{Lsn, TableName, TableRef};
use serde_json::{Value, json};

use crate::config::{DATA_DEFAULT, Given};
use crate::failure::Failure;
use crate::size;
use crate::table::{Align, draw};

/// Shows the contents of a directory's files: the log, the manifest, segments.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  millrace inspect manifest
  millrace inspect log --from 1000 --limit 20 --data /var/lib/millrace
  millrace inspect segments --table weather
  millrace inspect segment 2a                       its blocks
  millrace inspect segment 2a --block 0             how each column of a block is encoded
  millrace inspect segment 2a --column temp         a column's statistics, block by block
  millrace inspect segments --format json           for a program: an array of objects")]
pub(crate) struct InspectArguments {
    #[command(subcommand)]
    what: What,
    /// Output format.
    #[arg(long, global = true, value_enum, default_value = "table")]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Aligned text.
    Table,
    /// An array of objects; for the log one object a line.
    Json,
}

/// Verifies every checksum of a directory and reports what is wrong and where.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  millrace check
  millrace check --data /var/lib/millrace

Exit codes: 0 no damage, 1 damage found, 2 the directory cannot be read.")]
pub(crate) struct CheckArguments {}

#[derive(clap::Subcommand)]
enum What {
    /// Records of the log, described.
    #[command(after_help = "Example: millrace inspect log --from 1000 --limit 20")]
    Log {
        /// First record to show.
        #[arg(long, value_name = "LSN", default_value_t = 1)]
        from: u64,
        /// Maximum number of records to show.
        #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
        limit: u64,
    },
    /// Tables, and the log position after the last flush.
    #[command(after_help = "Example: millrace inspect manifest")]
    Manifest,
    /// Segments of all tables, or of one.
    #[command(after_help = "Example: millrace inspect segments --table weather")]
    Segments {
        /// Only this table: `table` or `schema.table`.
        #[arg(long, value_name = "NAME")]
        table: Option<String>,
    },
    /// One segment: its blocks, or details of a block or a column.
    #[command(after_help = "Example: millrace inspect segment 2a --column temp")]
    Segment {
        /// Segment number in hexadecimal, or path of the segment file.
        file: PathBuf,
        /// Show how each column of this block is encoded.
        #[arg(long, value_name = "N", conflicts_with = "column")]
        block: Option<usize>,
        /// Show this column's statistics, block by block.
        #[arg(long, value_name = "NAME")]
        column: Option<String>,
    },
}

pub(crate) fn run(given: &Given, arguments: &InspectArguments) -> Result<(), Failure> {
    let directory = Directory::of(given, arguments.format);
    let mut out = BufWriter::new(io::stdout().lock());
    let shown = match &arguments.what {
        What::Log { from, limit } => directory.log(Lsn(*from), *limit, &mut out),
        What::Manifest => directory.manifest(&mut out),
        What::Segments { table } => directory.segments(table.as_deref(), &mut out),
        What::Segment { file, block: Some(block), .. } => directory.block(file, *block, &mut out),
        What::Segment { file, column: Some(column), .. } => directory.column(file, column, &mut out),
        What::Segment { file, .. } => directory.blocks(file, &mut out),
    };
    shown.and_then(|()| Ok(out.flush()?)).or_else(|failure| match failure {
        // The reader of the pipe has closed it.
        Shown::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Shown::Output(error) => Err(Failure::new(error)),
        Shown::Failed(failure) => Err(failure),
    })
}

/// Verifies everything and reports.
pub(crate) fn check(given: &Given) -> Result<(), Failure> {
    let directory = Directory::of(given, Format::Table);
    let bar = indicatif::ProgressBar::new_spinner();
    let mut seen = 0;
    let report = inspect::check(&directory.env, &directory.dir, &mut |path, bytes| {
        seen += bytes;
        bar.set_message(format!("{}  {}", size::show(seen), path.display()));
        bar.tick();
    });
    bar.finish_and_clear();
    let report = report.map_err(Failure::usage)?;
    for note in &report.notes {
        println!("note: {note}");
    }
    for finding in &report.findings {
        println!("{}: {}", finding.file.display(), finding.problem);
    }
    let checked = format!("{} files, {}", size::group(report.files), size::show(report.bytes));
    if report.findings.is_empty() {
        println!("{}: no damage found ({checked})", directory.dir.display());
        return Ok(());
    }
    let count = report.findings.len();
    Err(Failure::new(format!("{}: {count} damaged ({checked})", directory.dir.display()))
        .with_hint("keep a copy of the directory; files not named above are intact"))
}

/// The reason why output ended early.
enum Shown {
    Failed(Failure),
    Output(io::Error),
}

impl From<io::Error> for Shown {
    fn from(error: io::Error) -> Shown {
        Shown::Output(error)
    }
}

impl From<model::Error> for Shown {
    fn from(error: model::Error) -> Shown {
        Shown::Failed(error.into())
    }
}

struct Directory {
    env: Arc<dyn Env>,
    dir: PathBuf,
    format: Format,
}

/// A cell of the output.
enum Cell {
    Nothing,
    Text(String),
    Count(u64),
    Bytes(u64),
}

impl Cell {
    fn shown(self) -> Option<String> {
        match self {
            Cell::Nothing => None,
            Cell::Text(text) => Some(text),
            Cell::Count(count) => Some(size::group(count)),
            Cell::Bytes(bytes) => Some(size::show(bytes)),
        }
    }

    fn json(self) -> Value {
        match self {
            Cell::Nothing => Value::Null,
            Cell::Text(text) => text.into(),
            Cell::Count(number) | Cell::Bytes(number) => number.into(),
        }
    }
}

impl Directory {
    fn of(given: &Given, format: Format) -> Directory {
        let dir = given.data().unwrap_or(Path::new(DATA_DEFAULT)).to_owned();
        Directory { env: Arc::new(RealEnv::new()), dir, format }
    }

    /// Prints rows under titles; a title that ends in `>` makes its column right-aligned.
    fn table(&self, titles: &[&str], rows: Vec<Vec<Cell>>, out: &mut impl Write) -> Result<(), Shown> {
        match self.format {
            Format::Table => {
                let rows: Vec<Vec<Option<String>>> =
                    rows.into_iter().map(|row| row.into_iter().map(Cell::shown).collect()).collect();
                Ok(write!(out, "{}", draw(&head(titles), &rows, ""))?)
            }
            Format::Json => {
                let objects = rows.into_iter().map(|row| object(titles, row)).collect();
                Ok(writeln!(out, "{:#}", Value::Array(objects))?)
            }
        }
    }

    fn read_manifest(&self) -> Result<Manifest, Shown> {
        Ok(inspect::manifest(&*self.env, &self.dir)?)
    }

    fn log(&self, from: Lsn, limit: u64, out: &mut impl Write) -> Result<(), Shown> {
        let (mut left, mut failed) = (limit, None);
        let end = inspect::log(&self.env, &self.dir, from, &mut |record| {
            if left > 0 && failed.is_none() {
                left -= 1;
                let shown = match self.format {
                    Format::Table => writeln!(out, "{:>10}  {:>8} bytes  {}", record.lsn, record.bytes, record.text),
                    Format::Json => {
                        let (lsn, bytes) = (record.lsn.0, record.bytes);
                        writeln!(out, "{}", json!({ "lsn": lsn, "bytes": bytes, "text": record.text }))
                    }
                };
                failed = shown.err();
            }
            Ok(())
        })?;
        if let Some(error) = failed {
            return Err(error.into());
        }
        if self.format == Format::Json {
            return Ok(());
        }
        let (records, files, bytes) = (size::group(end.records), end.files, size::show(end.bytes));
        writeln!(out, "{records} records in {files} files of {bytes}; the last intact one is {}", end.last)?;
        if let Some(torn) = end.torn {
            writeln!(out, "torn tail, never acknowledged: {torn}")?;
        }
        for finding in &end.findings {
            writeln!(out, "damage: {}: {}", finding.file.display(), finding.problem)?;
        }
        Ok(())
    }

    fn manifest(&self, out: &mut impl Write) -> Result<(), Shown> {
        let manifest = self.read_manifest()?;
        let mut rows = Vec::new();
        for table in manifest.catalog.tables() {
            let files = manifest.files.get(&table.id).cloned().unwrap_or_default();
            rows.push(vec![
                text(table.name.to_string()),
                text("columns".to_owned()),
                text(table.id.to_string()),
                Cell::Count(table.columns.len() as u64),
                Cell::Count(files.series_count().into()),
                Cell::Count(files.segments.len() as u64),
                Cell::Count(files.segments.iter().map(|segment| segment.rows).sum()),
                Cell::Bytes(files.segments.iter().map(|segment| segment.bytes).sum()),
                Cell::Count(files.tombstones.len() as u64),
            ]);
        }
        for table in manifest.catalog.row_tables() {
            let files = manifest.row_files.get(&table.id).cloned().unwrap_or_default();
            rows.push(vec![
                text(table.name.to_string()),
                text("rows".to_owned()),
                text(table.id.to_string()),
                Cell::Count(table.columns.len() as u64),
                Cell::Nothing,
                Cell::Count(files.files().count() as u64),
                Cell::Count(files.parts.iter().map(|part| part.rows).sum()),
                Cell::Bytes(files.parts.iter().map(|part| part.bytes).sum()),
                Cell::Nothing,
            ]);
        }
        let titles =
            ["table", "store", "number>", "columns>", "series>", "files>", "row versions>", "bytes>", "deletes>"];
        if self.format == Format::Json {
            let tables: Vec<Value> = rows.into_iter().map(|row| object(&titles, row)).collect();
            let database = json!({
                "database": format!("{:016x}", manifest.identity),
                "flushed_lsn": manifest.flushed_lsn.0,
                "replay_from": manifest.replay_from.0,
                "tables": tables,
            });
            return Ok(writeln!(out, "{database:#}")?);
        }
        writeln!(out, "database {:016x}", manifest.identity)?;
        writeln!(out, "flushed up to LSN {}; the log is needed from {}\n", manifest.flushed_lsn, manifest.replay_from)?;
        self.table(&titles, rows, out)
    }

    fn segments(&self, only: Option<&str>, out: &mut impl Write) -> Result<(), Shown> {
        let manifest = self.read_manifest()?;
        let is_wanted = |name: &TableName| {
            let full = format!("{}.{}", name.schema, name.table);
            only.is_none_or(|only| only == name.table || only == full)
        };
        if let Some(only) = only
            && !manifest.catalog.tables().any(|table| is_wanted(&table.name))
        {
            return Err(Shown::Failed(match manifest.catalog.row_tables().any(|table| is_wanted(&table.name)) {
                true => Failure::usage(format!("{only} is a rows table: it has no segments"))
                    .with_hint("`millrace inspect manifest` shows its files"),
                false => Failure::usage(format!("there is no table {only:?} in {}", self.dir.display()))
                    .with_hint("`millrace inspect manifest` lists the tables as of the last flush"),
            }));
        }
        let mut rows = Vec::new();
        for table in manifest.catalog.tables().filter(|table| is_wanted(&table.name)) {
            for segment in manifest.files.get(&table.id).into_iter().flat_map(|files| &files.segments) {
                rows.push(vec![
                    text(format!("{:x}", segment.file)),
                    text(table.name.to_string()),
                    Cell::Count(segment.rows),
                    Cell::Bytes(segment.bytes),
                    text(format!("{} .. {}", segment.series.0, segment.series.1)),
                    text(time(segment.times.start)),
                    text(time(segment.times.last)),
                    text(format!("{} .. {}", segment.lsns.0, segment.lsns.1)),
                ]);
            }
        }
        self.table(&["file>", "table", "row versions>", "bytes>", "series>", "first", "last", "LSNs>"], rows, out)
    }

    fn blocks(&self, file: &Path, out: &mut impl Write) -> Result<(), Shown> {
        let (_, segment) = self.open(file)?;
        let (bytes, directory) = (segment.meta().bytes, segment.directory_bytes()?);
        let columns = segment.columns()?.len();
        let settled = if segment.settled()? { "one version of each row" } else { "several versions of rows" };
        let share = directory as f64 * 100.0 / bytes.max(1) as f64;
        if self.format == Format::Table {
            let (bytes, directory) = (size::show(bytes), size::show(directory));
            writeln!(out, "{bytes}, {columns} columns, {settled}; directory {directory} ({share:.1} %)\n")?;
        }
        let mut rows = Vec::new();
        for (number, block) in segment.blocks()?.iter().enumerate() {
            rows.push(vec![
                Cell::Count(number as u64),
                Cell::Count(u64::from(block.rows)),
                text(format!("{} .. {}", block.first.0, block.last.0)),
                text(time(block.times.start)),
                text(time(block.times.last)),
            ]);
        }
        self.table(&["block>", "rows>", "series>", "first", "last"], rows, out)
    }

    fn block(&self, file: &Path, block: usize, out: &mut impl Write) -> Result<(), Shown> {
        let (table, segment) = self.open(file)?;
        let blocks = segment.blocks()?.len();
        if block >= blocks {
            return Err(Shown::Failed(Failure::usage(format!(
                "there is no block {block}: there are {blocks}, from 0"
            ))));
        }
        let mut rows = Vec::new();
        let described = segment.describe_rows(block)?;
        rows.push(vec![
            text("(series, times)".to_owned()),
            Cell::Count(described.bytes as u64),
            Cell::Nothing,
            text(described.encoding),
        ]);
        for (id, _) in segment.columns()?.iter() {
            let name = table.columns.iter().find(|column| column.id == *id).map(|column| column.name.clone());
            let name = name.unwrap_or_else(|| format!("column {id}"));
            rows.push(match segment.describe_chunk(block, *id)? {
                Some(chunk) => {
                    let nulls = chunk.stats.map_or(Cell::Nothing, |stats| Cell::Count(stats.nulls as u64));
                    vec![text(name), Cell::Count(chunk.bytes as u64), nulls, text(chunk.encoding)]
                }
                None => vec![text(name), Cell::Count(0), Cell::Nothing, text("all NULL".to_owned())],
            });
        }
        self.table(&["column", "bytes>", "NULLs>", "encoding"], rows, out)
    }

    fn column(&self, file: &Path, name: &str, out: &mut impl Write) -> Result<(), Shown> {
        let (table, segment) = self.open(file)?;
        let column = table.column(name).ok_or_else(|| {
            let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
            Shown::Failed(Failure::usage(format!("{} has no column {name:?}; it has {}", table.name, names.join(", "))))
        })?;
        let Some(stats) = segment.column_stats(column.id)? else {
            return Ok(writeln!(out, "the segment does not have the column: it is NULL in all its rows")?);
        };
        let mut rows = Vec::new();
        for (number, stats) in stats.iter().enumerate() {
            let (min, max) = stats.range.as_ref().map_or((None, None), |(min, max)| (Some(min), Some(max)));
            rows.push(vec![
                Cell::Count(number as u64),
                Cell::Count(stats.nulls as u64),
                maybe(min),
                maybe(max),
                maybe(stats.sum.as_ref()),
                maybe(stats.first.as_ref()),
                maybe(stats.last.as_ref()),
                Cell::Count(stats.bytes as u64),
            ]);
        }
        self.table(&["block>", "NULLs>", "min>", "max>", "sum>", "first>", "last>", "bytes>"], rows, out)
    }

    /// The segment with this number or path, and its table.
    fn open(&self, file: &Path) -> Result<(TableRef, engine::Segment), Shown> {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let digits = name.strip_prefix("segment-").unwrap_or(&name);
        let number = u64::from_str_radix(digits, 16).map_err(|_| {
            Shown::Failed(Failure::usage(format!("{} is neither a segment number nor a segment file", file.display())))
        })?;
        let manifest = self.read_manifest()?;
        for (id, files) in &manifest.files {
            if let Some(meta) = files.segments.iter().find(|segment| segment.file == number)
                && let Some(table) = manifest.catalog.table_by_id(*id)
            {
                return Ok((Arc::clone(table), inspect::segment(&self.env, &self.dir, meta)));
            }
        }
        Err(Shown::Failed(
            Failure::usage(format!("the manifest of {} has no segment {number:x}", self.dir.display()))
                .with_hint("`millrace inspect segments` lists them"),
        ))
    }
}

fn text(text: String) -> Cell {
    Cell::Text(text)
}

fn maybe(value: Option<&impl ToString>) -> Cell {
    value.map_or(Cell::Nothing, |value| Cell::Text(value.to_string()))
}

/// A row as a JSON object with the titles as names.
fn object(titles: &[&str], row: Vec<Cell>) -> Value {
    let names = titles.iter().map(|title| title.trim_end_matches('>').replace(' ', "_"));
    Value::Object(names.zip(row.into_iter().map(Cell::json)).collect())
}

/// Titles with alignment; one that ends in `>` is right-aligned.
fn head(titles: &[&str]) -> Vec<(String, Align)> {
    let one = |title: &&str| match title.strip_suffix('>') {
        Some(title) => (title.to_owned(), Align::Right),
        None => ((*title).to_owned(), Align::Left),
    };
    titles.iter().map(one).collect()
}

/// Nanoseconds since 1970 as a time in UTC.
fn time(ns: i64) -> String {
    jiff::Timestamp::from_nanosecond(ns.into()).map_or_else(|_| format!("{ns} ns"), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_whole_at_both_ends_of_their_range() {
        assert_eq!(time(0), "1970-01-01T00:00:00Z");
        assert_eq!(time(i64::MIN), "1677-09-21T00:12:43.145224192Z");
        assert_eq!(time(i64::MAX), "2262-04-11T23:47:16.854775807Z");
    }
}
