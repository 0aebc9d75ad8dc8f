//! Bytes from outside into columns: line protocol and COPY.
//!
//! Words: a *line* is one line of line protocol, one row; a *point* is one of its field values; a *tag* is a key column of type text.
//!
//! - [`mod@line`]: a whole request body of line protocol into one batch per table, bad lines told one by one.
//! - [`copy`]: a COPY stream in text, CSV or binary, cut anywhere, into batches of one table.
//!
//! Always true:
//! - No input panics, and none takes more memory than the caller allowed.
//! - A row is whole or it is not there: what a refused line had put already is taken back.
//!
//! Not here: sockets (`server`), SQL (`query`), series numbers and commits (`engine`).

mod build;
pub mod copy;
mod few;

pub mod line;
mod number;
