//! The benchmark tool against real servers, each private to its test.
//!
//! `cargo xtask tools --peers` fetches the products, and `cargo build -p millrace` makes ours; a test that misses one
//! fails and says so.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod cluster;
mod data_set;
mod peers;
