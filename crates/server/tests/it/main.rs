//! End-to-end tests over real sockets on free ports, with databases in temporary directories.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod harness;
mod health;
mod http_application;
mod http_bad;
mod http_sql;
mod http_write;
