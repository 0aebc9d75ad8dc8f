//! Files that statements read and write: Parquet and Arrow, of COPY, `read_parquet` and `read_arrow`.
//!
//! Words: a [`Source`] is one or more files of one kind with the columns that statements see; a [`FileRoot`] is the one folder of the
//! server in which statements may name files.
//!
//! Always true:
//! - A statement opens a file only through a [`FileRoot`], or one that its own client just sent.
//! - A file is not believed: what it says of itself is checked, and a reader that panics over it gives an error.
//! - Values go through unchanged, or not at all: a value that its new type does not hold is an error.

mod arrow;
mod chunk;
mod place;
mod prune;
mod read;
mod scan;
mod write;

use std::fmt;

use model::{Error, SqlState};

pub(crate) use place::{FileRoot, Found, Output};
pub(crate) use read::Source;
pub(crate) use scan::{FilesTable, SOURCE};
pub(crate) use write::{Compression, Writing, chunks};

/// "insufficient_privilege"
pub(crate) const INSUFFICIENT_PRIVILEGE: SqlState = SqlState("42501");
/// "undefined_file"
pub(crate) const UNDEFINED_FILE: SqlState = SqlState("58P01");

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Apache Parquet.
    Parquet,
    /// Arrow's IPC, as a file or as a stream.
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

/// A file that cannot be read as what it should be (22P04).
fn damaged(kind: Kind, name: &str, why: impl fmt::Display) -> Error {
    let text = format!("file \"{name}\" cannot be read as {kind}: {why}");
    Error::new(SqlState::BAD_COPY_FILE_FORMAT, text)
}
