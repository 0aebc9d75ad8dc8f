//! Ingest formats: line protocol and COPY streams, decoded to columns.
//!
//! Words: a *line* is one line of line protocol, that is one row; a *point* is one field value; a
//! *tag* is a key column of type text.
//!
//! - [`mod@line`]: decodes a request body in line protocol to one batch per table; reports invalid
//!   lines one by one.
//! - [`copy`]: decodes a COPY stream in text, CSV or binary format, in pieces of any size, to
//!   batches of one table.
//!
//! Always true:
//! - No input causes a panic or takes more memory than the caller allowed.
//! - Rows are atomic: values already written for a refused line are undone.
//!
//! Not here: sockets (`server`), SQL (`query`), series numbers and commits (`engine`).

mod batch_builder;
pub mod copy;
mod inputs;
mod small_batch;

pub mod line;
mod number;

pub use inputs::{Inputs, NoInputs};
