//! `millrace archive import`: samples of other archives.
//!
//! All are sent to the server in the Appliance's PB format, in pieces. The server stores how far a source was read in the
//! transaction of each piece, so an import that was interrupted goes on there, and one that is repeated changes nothing.

mod channel_archiver;
mod items;
mod pb;
mod rdb;

use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};

use super::Server;
use crate::failure::Failure;
use crate::http::percent;
use crate::print;
use crate::size;

/// Bytes of a piece.
const PIECE_BYTES: usize = 4 << 20;
/// Problems that are shown.
const SHOWN_MAX: usize = 10;

/// Imports samples of other archives: Archiver Appliance, Channel Archiver, RDB archiver.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  millrace archive import /arch/sts /arch/mts /arch/lts      PB files of an Archiver Appliance below these folders
  millrace archive import /data/2009/index                   an index file of a Channel Archiver
  millrace archive import postgresql://report@db/archive     tables of an RDB archiver in PostgreSQL
  millrace archive import postgresql://report@db/archive --time-zone Europe/Berlin --pv 'SR:*'

Samples go to the PVs that the archive names, whether these are archived or not. An import that was interrupted
goes on where it was; what was imported is skipped unless it has grown.")]
pub(super) struct Arguments {
    /// Files, folders with PB files below them, index files, or the URL of a database.
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<String>,
    /// Imports only PVs that this pattern matches: * is any text, ? one character. Not for PB files.
    #[arg(long, value_name = "PATTERN", default_value = "*")]
    pv: String,
    /// Zone of the times of an RDB archiver, which stores local times.
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    time_zone: String,
}

/// An import that is under way.
struct Import<'a> {
    server: &'a mut Server,
    arguments: &'a Arguments,
    bar: ProgressBar,
    done: Done,
}

/// Counts of what was imported.
#[derive(Default)]
struct Done {
    /// Files, or PVs of other archives.
    sources: u64,
    skipped: u64,
    samples: u64,
    damaged: u64,
    /// The first problems.
    problems: Vec<String>,
}

pub(super) fn run(server: &mut Server, arguments: &Arguments) -> Result<(), Failure> {
    let bar = if std::io::stderr().is_terminal() { ProgressBar::new(0) } else { ProgressBar::hidden() };
    let started = Instant::now();
    let mut import = Import { server, arguments, bar, done: Done::default() };
    for source in &arguments.sources {
        import.source(source).map_err(|failure| failure.context(source))?;
    }
    import.bar.finish_and_clear();
    let Done { sources, skipped, samples, damaged, problems } = import.done;
    let mut text = String::new();
    for problem in problems {
        text.push_str(&format!("damaged: {problem}\n"));
    }
    text.push_str(&format!(
        "{} samples of {sources} files or PVs in {:.1} s; {skipped} had been imported, {damaged} parts are damaged\n",
        size::group(samples),
        started.elapsed().as_secs_f64(),
    ));
    print(text.as_bytes())
}

impl Import<'_> {
    fn source(&mut self, source: &str) -> Result<(), Failure> {
        if source.starts_with("postgres://") || source.starts_with("postgresql://") {
            return rdb::import(self, source);
        }
        if source.contains("://") {
            return Err(Failure::usage("only databases of PostgreSQL can be read: postgresql://USER@HOST/DATABASE"));
        }
        let path = Path::new(source);
        if path.is_file() && is_index(path) {
            return channel_archiver::import(self, path);
        }
        let mut files = Vec::new();
        collect(path, &mut files)?;
        if files.is_empty() {
            return Err(Failure::usage("there is no file below it whose name ends in .pb"));
        }
        self.show("{total_bytes}", files.iter().map(|(_, bytes)| bytes).sum());
        for (file, bytes) in files {
            pb::import(self, &file, bytes).map_err(|failure| failure.context(file.display()))?;
        }
        Ok(())
    }

    /// Begins to show progress.
    fn show(&self, unit: &str, total: u64) {
        let template = format!("{{bar:40}} {{percent}}% of {unit}  {{msg}}  {{eta}} left");
        if let Ok(style) = ProgressStyle::with_template(&template) {
            self.bar.set_style(style);
        }
        self.bar.set_length(total);
        self.bar.set_position(0);
    }

    /// Asks how far a source was imported.
    fn imported(&mut self, source: &str) -> Result<u64, Failure> {
        let told = self.server.call(&format!("importProgress?source={}", percent(source)), b"")?;
        Ok(told["until"].as_u64().unwrap_or_default())
    }

    /// Sends a piece, up to which a source is imported then.
    fn send(&mut self, source: &str, until: u64, piece: &[u8]) -> Result<(), Failure> {
        let told = self.server.call(&format!("importSamples?source={}&until={until}", percent(source)), piece)?;
        self.done.samples += told["samples"].as_u64().unwrap_or_default();
        for problem in told["problems"].as_array().into_iter().flatten() {
            self.damaged(&format!("{source}: {}", problem.as_str().unwrap_or_default()));
        }
        self.bar.set_message(format!("{} samples", size::group(self.done.samples)));
        Ok(())
    }

    /// Notes a part of an archive that was skipped.
    fn damaged(&mut self, problem: &str) {
        self.done.damaged += 1;
        if self.done.problems.len() < SHOWN_MAX {
            self.done.problems.push(problem.to_owned());
        }
    }
}

/// Whether a file is the index of a Channel Archiver, by its first bytes.
fn is_index(path: &Path) -> bool {
    let mut cookie = [0; 4];
    File::open(path).and_then(|mut file| file.read_exact(&mut cookie)).is_ok() && cookie == *b"CAI2"
}

/// PB files below a path, each with its size, sorted by name.
fn collect(path: &Path, files: &mut Vec<(PathBuf, u64)>) -> Result<(), Failure> {
    let failed = |error| Failure::usage(format!("cannot read {}: {error}", path.display()));
    let metadata = std::fs::metadata(path).map_err(failed)?;
    if !metadata.is_dir() {
        files.push((path.to_owned(), metadata.len()));
        return Ok(());
    }
    let mut below = std::fs::read_dir(path).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    below.sort_by_key(std::fs::DirEntry::file_name);
    for entry in below {
        let path = entry.path();
        if path.is_dir() || path.extension().is_some_and(|extension| extension == "pb") {
            collect(&path, files)?;
        }
    }
    Ok(())
}

/// Whether a pattern matches a name.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((before, rest)) = pattern.split_once(['*', '?']) else { return pattern == name };
    let Some(name) = name.strip_prefix(before) else { return false };
    if pattern.as_bytes()[before.len()] == b'?' {
        let mut chars = name.chars();
        return chars.next().is_some() && matches(rest, chars.as_str());
    }
    name.char_indices().any(|(at, _)| matches(rest, &name[at..])) || matches(rest, "")
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_pattern_matches_whole_names() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("A:*:x", "A:b:x", true),
            ("A:*:x", "A:b:xy", false),
            ("A?", "A1", true),
            ("A?", "A", false),
            ("*1*", "a10", true),
            ("a", "ab", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
