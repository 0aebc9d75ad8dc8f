//! Reports of results: the original's matrices and files, HTML pages, comparisons, and stores of
//! every operation.

pub(crate) mod busy;
mod charts;
pub(crate) mod compare;
pub(crate) mod csv_output;
#[cfg(test)]
mod fixture;
pub(crate) mod format;
pub(crate) mod html;
pub(crate) mod hyper;
pub(crate) mod json;
pub(crate) mod matrix;
pub(crate) mod read;
mod series;
mod statistics;
pub(crate) mod store;

use std::path::PathBuf;

use crate::error::{Error, Result};

/// Returns the parent directory of `data/`: `$BENCHMARK_HOME`, as in the original, or the current
/// directory.
pub(crate) fn home() -> PathBuf {
    std::env::var_os("BENCHMARK_HOME").filter(|home| !home.is_empty()).map_or_else(PathBuf::new, PathBuf::from)
}

/// Creates a directory for results with its parents.
fn create_dir(dir: &std::path::Path) -> Result {
    let cannot = |error| Error::setup(format!("{}: directory of results cannot be created: {error}", dir.display()));
    std::fs::create_dir_all(dir).map_err(cannot)
}

/// Formats cells as a CSV line (RFC 4180, but terminated by a single newline).
fn csv_line<T: AsRef<str>>(cells: &[T]) -> String {
    let quoted = |cell: &T| {
        let cell = cell.as_ref();
        let plain = !cell.contains([',', '"', '\n', '\r']);
        if plain { cell.to_owned() } else { format!("\"{}\"", cell.replace('"', "\"\"")) }
    };
    cells.iter().map(quoted).collect::<Vec<_>>().join(",") + "\n"
}

/// Compares `text` with `tests/golden/NAME`. `MILLRACE_GOLDEN=write` overwrites the file instead:
/// review the diff.
#[cfg(test)]
#[track_caller]
pub(crate) fn golden(name: &str, text: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var("MILLRACE_GOLDEN").as_deref() == Ok("write") {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{}", path.display());
}
