//! `millrace inspect` and `millrace check`: what the files of a directory say, and whether all of it is whole.
//!
//! Both read only and take no lock, so they work beside a server and on a directory that will not open. Beside a running server
//! the end of the log is a moving target: what is under way there looks like a torn tail.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::{Manifest, inspect};
use env::{Env, RealEnv};
use model::{Lsn, TableRef};

use crate::config::{DATA_DEFAULT, Given};
use crate::failure::Failure;
use crate::size;
use crate::table::{Align, draw};

/// Shows what the files of a directory say: the log, the manifest, segments.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  millrace inspect manifest
  millrace inspect log --from 1000 --limit 20 --data /var/lib/millrace
  millrace inspect segments --table weather
  millrace inspect segment 2a                       its blocks
  millrace inspect segment 2a --block 0             how each column of a block is encoded
  millrace inspect segment 2a --column temp         a column's statistics, block by block")]
pub(crate) struct InspectArguments {
    #[command(subcommand)]
    what: What,
}

/// Verifies every checksum of a directory and says what is wrong where.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  millrace check
  millrace check --data /var/lib/millrace

Exit codes: 0 all is well, 1 something is wrong, 2 the directory cannot be read.")]
pub(crate) struct CheckArguments {}

#[derive(clap::Subcommand)]
enum What {
    /// Records of the log, in words.
    #[command(after_help = "Example: millrace inspect log --from 1000 --limit 20")]
    Log {
        /// First record to show.
        #[arg(long, value_name = "LSN", default_value_t = 1)]
        from: u64,
        /// Most records to show.
        #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
        limit: u64,
    },
    /// Tables, and where the log goes on.
    #[command(after_help = "Example: millrace inspect manifest")]
    Manifest,
    /// Segments of all tables, or of one.
    #[command(after_help = "Example: millrace inspect segments --table weather")]
    Segments {
        /// Only this table: `table` or `schema.table`.
        #[arg(long, value_name = "NAME")]
        table: Option<String>,
    },
    /// One segment: its blocks, or a block's or a column's details.
    #[command(after_help = "Example: millrace inspect segment 2a --column temp")]
    Segment {
        /// Its number in hexadecimal, or its file.
        file: PathBuf,
        /// Show how each column of this block is encoded.
        #[arg(long, value_name = "N", conflicts_with = "column")]
        block: Option<usize>,
        /// Show this column's statistics, block by block.
        #[arg(long, value_name = "NAME")]
        column: Option<String>,
    },
}

/// Shows what was asked for.
pub(crate) fn run(given: &Given, arguments: &InspectArguments) -> Result<(), Failure> {
    let directory = Directory::of(given);
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
        // Whoever reads has seen enough.
        Shown::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Shown::Output(error) => Err(Failure::new(error)),
        Shown::Failed(failure) => Err(failure),
    })
}

/// Verifies everything and reports.
pub(crate) fn check(given: &Given) -> Result<(), Failure> {
    let directory = Directory::of(given);
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
        println!("{}: all is well ({checked})", directory.dir.display());
        return Ok(());
    }
    let count = report.findings.len();
    Err(Failure::new(format!("{}: {count} of what was checked is damaged ({checked})", directory.dir.display()))
        .with_hint("keep a copy of the directory as it is; what is not named above is intact"))
}

/// Why showing ended early.
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
}

impl Directory {
    fn of(given: &Given) -> Directory {
        let dir = given.data().unwrap_or(Path::new(DATA_DEFAULT)).to_owned();
        Directory { env: Arc::new(RealEnv::new()), dir }
    }

    fn read_manifest(&self) -> Result<Manifest, Shown> {
        Ok(inspect::manifest(&*self.env, &self.dir)?)
    }

    fn log(&self, from: Lsn, limit: u64, out: &mut impl Write) -> Result<(), Shown> {
        let (mut left, mut failed) = (limit, None);
        let end = inspect::log(&self.env, &self.dir, from, &mut |record| {
            if left > 0 && failed.is_none() {
                left -= 1;
                let shown = writeln!(out, "{:>10}  {:>8} bytes  {}", record.lsn, record.bytes, record.text);
                failed = shown.err();
            }
            Ok(())
        })?;
        if let Some(error) = failed {
            return Err(error.into());
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
        writeln!(out, "database {:016x}", manifest.identity)?;
        writeln!(out, "flushed up to LSN {}; the log is needed from {}", manifest.flushed_lsn, manifest.replay_from)?;
        let mut rows = Vec::new();
        for table in manifest.catalog.tables() {
            let files = manifest.files.get(&table.id).cloned().unwrap_or_default();
            rows.push(vec![
                text(table.name.to_string()),
                text(table.id.to_string()),
                text(table.columns.len().to_string()),
                text(size::group(files.series_count().into())),
                text(files.segments.len().to_string()),
                text(size::group(files.segments.iter().map(|segment| segment.rows).sum())),
                text(size::show(files.segments.iter().map(|segment| segment.bytes).sum())),
                text(files.tombstones.len().to_string()),
            ]);
        }
        let head =
            head(&["table", "number>", "columns>", "series>", "segments>", "row versions>", "bytes>", "deletes>"]);
        Ok(write!(out, "\n{}", draw(&head, &rows, ""))?)
    }

    fn segments(&self, only: Option<&str>, out: &mut impl Write) -> Result<(), Shown> {
        let manifest = self.read_manifest()?;
        let wanted = |table: &TableRef| {
            let full = format!("{}.{}", table.name.schema, table.name.table);
            only.is_none_or(|only| only == table.name.table || only == full)
        };
        let mut rows = Vec::new();
        for table in manifest.catalog.tables().filter(|table| wanted(table)) {
            for segment in manifest.files.get(&table.id).into_iter().flat_map(|files| &files.segments) {
                rows.push(vec![
                    text(format!("{:x}", segment.file)),
                    text(table.name.to_string()),
                    text(size::group(segment.rows)),
                    text(size::show(segment.bytes)),
                    text(format!("{} .. {}", segment.series.0, segment.series.1)),
                    text(time(segment.times.start)),
                    text(time(segment.times.last)),
                    text(format!("{} .. {}", segment.lsns.0, segment.lsns.1)),
                ]);
            }
        }
        let head = head(&["file>", "table", "row versions>", "bytes>", "series>", "first", "last", "LSNs>"]);
        Ok(write!(out, "{}", draw(&head, &rows, ""))?)
    }

    fn blocks(&self, file: &Path, out: &mut impl Write) -> Result<(), Shown> {
        let (_, segment) = self.open(file)?;
        let (bytes, directory) = (segment.meta().bytes, segment.directory_bytes()?);
        let columns = segment.columns()?.len();
        let settled = if segment.settled()? { "one version of each row" } else { "several versions of rows" };
        let share = directory as f64 * 100.0 / bytes.max(1) as f64;
        writeln!(
            out,
            "{}, {columns} columns, {settled}; directory {} ({share:.1} %)\n",
            size::show(bytes),
            size::show(directory)
        )?;
        let mut rows = Vec::new();
        for (number, block) in segment.blocks()?.iter().enumerate() {
            rows.push(vec![
                text(number.to_string()),
                text(block.rows.to_string()),
                text(format!("{} .. {}", block.first.0, block.last.0)),
                text(time(block.times.start)),
                text(time(block.times.last)),
            ]);
        }
        Ok(write!(out, "{}", draw(&head(&["block>", "rows>", "series>", "first", "last"]), &rows, ""))?)
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
            text(described.bytes.to_string()),
            None,
            text(described.encoding),
        ]);
        for (id, _) in segment.columns()?.iter() {
            let name = table.columns.iter().find(|column| column.id == *id).map(|column| column.name.clone());
            let name = name.unwrap_or_else(|| format!("column {id}"));
            rows.push(match segment.describe_chunk(block, *id)? {
                Some(chunk) => {
                    let nulls = chunk.stats.map(|stats| stats.nulls.to_string());
                    vec![text(name), text(chunk.bytes.to_string()), nulls, text(chunk.encoding)]
                }
                None => vec![text(name), text("0".to_owned()), None, text("all NULL".to_owned())],
            });
        }
        Ok(write!(out, "{}", draw(&head(&["column", "bytes>", "NULLs>", "encoding"]), &rows, ""))?)
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
                text(number.to_string()),
                text(stats.nulls.to_string()),
                min.map(ToString::to_string),
                max.map(ToString::to_string),
                stats.sum.map(|sum| sum.to_string()),
                stats.first.as_ref().map(ToString::to_string),
                stats.last.as_ref().map(ToString::to_string),
                text(stats.bytes.to_string()),
            ]);
        }
        let head = head(&["block>", "NULLs>", "min>", "max>", "sum>", "first>", "last>", "bytes>"]);
        Ok(write!(out, "{}", draw(&head, &rows, ""))?)
    }

    /// The segment that `file` names by number or path, and its table.
    fn open(&self, file: &Path) -> Result<(TableRef, engine::Segment), Shown> {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let digits = name.strip_prefix("segment-").unwrap_or(&name);
        let number = u64::from_str_radix(digits, 16).map_err(|_| {
            Shown::Failed(Failure::usage(format!("{} is neither a segment's number nor its file", file.display())))
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
            Failure::usage(format!("the manifest of {} names no segment {number:x}", self.dir.display()))
                .with_hint("`millrace inspect segments` lists them"),
        ))
    }
}

fn text(text: String) -> Option<String> {
    Some(text)
}

/// Titles; those that end in `>` stand to the right.
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
