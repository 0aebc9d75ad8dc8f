//! Parquet and Arrow files read and written by COPY, `read_parquet` and `read_arrow`.
//!
//! Words: a [`Source`] is one or more files of one format, with the columns that statements see; a [`FileRoot`] is
//! the only directory of the server whose files statements may name.
//!
//! Always true:
//! - A statement opens a file only through a [`FileRoot`], except a file that its own client has just sent.
//! - File contents are untrusted: lengths and offsets are validated, and a panic of a reader is reported as an error.
//! - Values are converted without loss: a value that does not fit its new type is an error.

mod arrow;
mod chunk;
mod place;
mod prune;
mod read;
mod scan;
mod write;

use std::fmt;
use std::sync::Arc;

use model::{Error, Result, SqlState};

pub use place::{FileRoot, Found, Output};
pub use read::Source;
pub use scan::{FilesTable, SOURCE};
pub use write::{Compression, Writing, chunks};

/// "insufficient_privilege"
const INSUFFICIENT_PRIVILEGE: SqlState = SqlState("42501");
/// "undefined_file"
const UNDEFINED_FILE: SqlState = SqlState("58P01");

/// Format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Apache Parquet.
    Parquet,
    /// Arrow IPC, in the file or the stream format.
    Arrow,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Parquet => "Parquet",
            Kind::Arrow => "Arrow",
        })
    }
}

/// The files that a statement may use.
#[derive(Clone, Default)]
pub struct FileAccess {
    /// The directory in which statements may name files; `None` if files are not allowed.
    pub root: Option<Arc<FileRoot>>,
    /// The input of a running COPY FROM.
    pub input: Option<Arc<Source>>,
}

impl FileAccess {
    /// The directory in which statements may name files.
    ///
    /// # Errors
    /// 42501 if the server was started without one.
    pub fn root(&self) -> Result<&Arc<FileRoot>> {
        self.root.as_ref().ok_or_else(|| {
            let text = "this server reads and writes no files for its clients";
            Error::new(INSUFFICIENT_PRIVILEGE, text)
                .with_hint("start it with --files DIR, or use COPY FROM STDIN and COPY TO STDOUT (psql: \\copy)")
        })
    }
}

/// Error for a file that is not valid in its format (22P04).
fn damaged(kind: Kind, name: &str, why: impl fmt::Display) -> Error {
    let text = format!("file \"{name}\" cannot be read as {kind}: {why}");
    Error::new(SqlState::BAD_COPY_FILE_FORMAT, text)
}
