//! Everything that is seen from outside, over real sockets on free ports and a database in a temporary folder.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod harness;
mod health;
mod http_bad;
mod http_sql;
mod http_write;
