//! The store of memory-optimised (`rows`) tables.
//!
//! - [`assign`]: what a value becomes when a column takes it.
//! - [`row`]: a row as bytes, read a field at a time.
//! - [`key`]: values as bytes that are compared as bytes.
//!
//! Not here: files, clock, the log, SQL.

mod assign;
#[cfg(test)]
mod assign_tests;
pub mod key;
#[cfg(test)]
mod key_tests;
pub mod row;
#[cfg(test)]
mod row_tests;
#[cfg(test)]
mod samples;

pub use assign::assign;
