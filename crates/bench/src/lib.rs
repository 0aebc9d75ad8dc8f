//! A benchmark tool for time-series databases. It measures from the client's side, checks answers
//! to every kind of query, and reports how each figure was measured.
//!
//! A run: a [`config`] and a workload define schema, data and queries as pure functions
//! (`workload`, `generate`). A driver (`drivers`) translates them to a product's language and
//! protocol. The engine (`engine`) runs the clients and times the requests; the oracle (`oracle`)
//! computes the correct answers; reports are rendered from the `result`.
//!
//! Always true: this crate links no other crate of the workspace, so the database and the tool that
//! measures it cannot share a bug.

mod breakeven;
pub mod cli;
mod cluster;
pub mod config;
mod dataset;
mod drivers;
mod engine;
mod epics;
pub mod error;
mod generate;
pub mod java_random;
mod ledger;
mod measure;
pub mod monitor;
mod oracle;
pub mod peers;
mod published;
pub mod query;
mod report;
pub mod result;
mod run;
pub mod schema;
mod tpcc;
mod tsm;
mod workload;
