//! End-to-end tests: the real binary, on free ports, with real clients, stopped by signals.
//!
//! The clients (PostgreSQL 15, psycopg, pgjdbc and others) are installed by `cargo xtask tools`. A test without its
//! client fails instead of being skipped, because a client that is not tested does not work.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod archiver;
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
mod tsm;
