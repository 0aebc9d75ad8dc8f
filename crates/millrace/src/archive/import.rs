//! `millrace archive import`: samples of an Archiver Appliance's PB files.
//!
//! Files are sent in pieces that begin with a header. The server stores how far it is in the transaction of each piece, so an
//! import that was interrupted goes on there, and one that is repeated changes nothing.

use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Seek, SeekFrom};
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

/// Imports samples of an Archiver Appliance's files (.pb).
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  millrace archive import /arch/lts/SR/CURRENT:2024.pb
  millrace archive import /arch/sts /arch/mts /arch/lts     all files below these folders

Samples go to the PVs that the files name, whether these are archived or not. An import that was interrupted
goes on where it was; files that were imported are skipped unless they have grown.")]
pub(super) struct Arguments {
    /// Files, or folders with files below them.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
}

/// What was done.
#[derive(Default)]
struct Done {
    files: u64,
    skipped: u64,
    samples: u64,
    damaged: u64,
    /// The first problems.
    problems: Vec<String>,
}

/// Problems that are shown.
const SHOWN_MAX: usize = 10;

pub(super) fn run(server: &mut Server, arguments: &Arguments) -> Result<(), Failure> {
    let mut files = Vec::new();
    for path in &arguments.paths {
        collect(path, &mut files)?;
    }
    if files.is_empty() {
        return Err(Failure::usage("there is no file whose name ends in .pb"));
    }
    let bytes = files.iter().map(|(_, bytes)| bytes).sum();
    let bar = if std::io::stderr().is_terminal() { ProgressBar::new(bytes) } else { ProgressBar::hidden() };
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {percent}% of {total_bytes}  {msg}  {eta} left") {
        bar.set_style(style);
    }
    let started = Instant::now();
    let mut done = Done::default();
    for (file, bytes) in &files {
        import(server, file, *bytes, &bar, &mut done).map_err(|failure| failure.context(file.display()))?;
    }
    bar.finish_and_clear();
    let mut text = String::new();
    for problem in &done.problems {
        text.push_str(&format!("damaged: {problem}\n"));
    }
    text.push_str(&format!(
        "{} samples of {} files in {:.1} s; {} files had been imported, {} lines are damaged\n",
        size::group(done.samples),
        done.files,
        started.elapsed().as_secs_f64(),
        done.skipped,
        done.damaged
    ));
    print(text.as_bytes())
}

/// Files below a path, each with its size, sorted by name.
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

/// Imports the part of a file that was not imported yet.
fn import(server: &mut Server, file: &Path, bytes: u64, bar: &ProgressBar, done: &mut Done) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("cannot read: {error}"));
    let name = file.canonicalize().map_err(failed)?;
    let source = percent(&name.to_string_lossy());
    let told = server.call(&format!("importProgress?source={source}"), b"")?;
    let offset = told["bytes"].as_u64().unwrap_or_default().min(bytes);
    bar.inc(offset);
    if offset == bytes {
        done.skipped += 1;
        return Ok(());
    }
    done.files += 1;
    let mut pieces = Pieces::open(file, offset).map_err(failed)?;
    let mut before = offset;
    while let Some(piece) = pieces.next().map_err(failed)? {
        let told = server.call(&format!("importSamples?source={source}&until={}", pieces.offset), &piece)?;
        done.samples += told["samples"].as_u64().unwrap_or_default();
        done.damaged += told["damaged"].as_u64().unwrap_or_default();
        for problem in told["problems"].as_array().into_iter().flatten() {
            if done.problems.len() < SHOWN_MAX {
                done.problems.push(format!("{}: {}", file.display(), problem.as_str().unwrap_or_default()));
            }
        }
        bar.inc(pieces.offset - before);
        bar.set_message(format!("{} samples", size::group(done.samples)));
        before = pieces.offset;
    }
    Ok(())
}

/// A file in pieces of whole lines, each of which begins with the header of its first event.
struct Pieces {
    reader: BufReader<File>,
    header: Vec<u8>,
    /// Bytes of the file up to the end of the last piece.
    offset: u64,
}

impl Pieces {
    /// Reads the first header, and goes to an offset that was the end of a piece.
    fn open(file: &Path, offset: u64) -> std::io::Result<Pieces> {
        let mut reader = BufReader::with_capacity(1 << 20, File::open(file)?);
        let mut header = Vec::new();
        let mut read = reader.read_until(b'\n', &mut header)? as u64;
        if offset > read {
            // A file has one header; a reply that was saved has more, and the last one before the offset counts.
            let mut line = Vec::new();
            let mut is_header = false;
            while read < offset {
                line.clear();
                read += reader.read_until(b'\n', &mut line)? as u64;
                if is_header {
                    header.clone_from(&line);
                }
                is_header = line == b"\n";
            }
        } else {
            reader.seek(SeekFrom::Start(0))?;
            header.clear();
            read = 0;
        }
        Ok(Pieces { reader, header, offset: read })
    }

    fn next(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let mut piece = self.header.clone();
        let begin = piece.len();
        let mut is_header = self.header.is_empty();
        while piece.len() < PIECE_BYTES {
            let start = piece.len();
            let read = self.reader.read_until(b'\n', &mut piece)?;
            if read == 0 {
                break;
            }
            self.offset += read as u64;
            if is_header {
                self.header = piece[start..].to_vec();
            }
            is_header = &piece[start..] == b"\n";
        }
        Ok((piece.len() > begin).then_some(piece))
    }
}
