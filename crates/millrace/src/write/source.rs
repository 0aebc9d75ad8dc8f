//! The input file, plain or gzip, with a progress bar on a terminal.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use indicatif::{ProgressBar, ProgressStyle};

use crate::failure::Failure;
use crate::size;

const BUFFER_BYTES: usize = 256 << 10;

/// Reads lines and counts them.
pub(super) struct Source {
    reader: Box<dyn BufRead>,
    bar: ProgressBar,
    /// Uncompressed bytes read.
    bytes: u64,
    /// Lines read.
    lines: u64,
}

impl Source {
    /// Opens `path`; gzip is detected by its first bytes. The bar counts bytes of the file itself, compressed or
    /// not, so that it ends at 100 %; it is drawn only on a terminal.
    pub(super) fn open(path: &Path, quiet: bool) -> Result<Source, Failure> {
        let failed = |error| Failure::usage(format!("cannot read {}: {error}", path.display()));
        let (input, length): (Box<dyn Read>, Option<u64>) = if path.as_os_str() == "-" {
            (Box::new(io::stdin()), None)
        } else {
            let file = File::open(path).map_err(failed)?;
            let length = file.metadata().map_err(failed)?.len();
            (Box::new(file), Some(length))
        };
        let bar = bar(length, quiet);
        let mut raw = BufReader::with_capacity(BUFFER_BYTES, bar.wrap_read(input));
        let is_gzip = raw.fill_buf().map_err(failed)?.starts_with(&[0x1f, 0x8b]);
        let reader: Box<dyn BufRead> = if is_gzip {
            Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(raw)))
        } else {
            Box::new(raw)
        };
        Ok(Source { reader, bar, bytes: 0, lines: 0 })
    }

    /// Appends the next line with its line break to `out`; false at the end.
    pub(super) fn line(&mut self, out: &mut Vec<u8>) -> Result<bool, Failure> {
        let read = self.reader.read_until(b'\n', out);
        let bytes = read.map_err(|error| Failure::new(format!("cannot read the file: {error}")))?;
        self.bytes += bytes as u64;
        self.lines += u64::from(bytes > 0);
        Ok(bytes > 0)
    }

    /// Lines read so far: the number of the last line in the file.
    pub(super) fn lines(&self) -> u64 {
        self.lines
    }

    /// Uncompressed bytes read so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Shows the number of rows loaded.
    pub(super) fn show_rows(&self, rows: u64) {
        self.bar.set_message(format!("{} rows", size::group(rows)));
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

fn bar(length: Option<u64>, quiet: bool) -> ProgressBar {
    if quiet || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match length {
        Some(length) => (ProgressBar::new(length), "{wide_bar:.cyan/dim} {bytes}/{total_bytes}  {msg}  {eta} left"),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes}  {msg}  {elapsed}"),
    };
    bar.with_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()))
}
