//! The benchmark tool against real servers, each private to its test.
//!
//! `cargo xtask tools --peers` installs the products, and `cargo build -p millrace` builds
//! Millrace; a test fails with a message if a product is missing.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod cluster;
mod data_set;
mod epics;
mod peers;
mod tsm;
