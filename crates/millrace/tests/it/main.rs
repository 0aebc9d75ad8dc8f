//! End to end: the real binary, started on free ports, driven by real clients, stopped by its process number.
//!
//! What these need beside Rust (PostgreSQL 15, psycopg, pgjdbc) `cargo xtask tools` fetches; a test that misses one
//! fails and says so, because a client that is not tested does not work.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod cli;
mod clients;
mod crash;
mod demo;
mod differential;
mod environment;
mod fairness;
mod full_disk;
mod functions;
mod http;
mod inspect;
mod isolation;
mod memory;
mod postgres;
mod random_queries;
mod random_rows;
#[path = "../../../query/tests/it/script.rs"]
mod script;
mod serve;
mod server;
mod sql_files;
mod transfers;
